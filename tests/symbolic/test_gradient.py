"""One graph, several readings: values, programs and slopes of random graphs agree with floats and with each other."""

import math

import numpy as np
import pytest
from conftest import close
from hypothesis import assume, given
from hypothesis import strategies as st

import roofline as rl
from roofline.numbers import operations
from roofline.numbers.operations import all_of
from roofline.symbolic.array_programs import array_program
from roofline.symbolic.graph import Graph, Trace, Values, gradient
from roofline.symbolic.programs import python_program

NAMES = ("x", "y", "z")

#: Each keeps numbers away from where the next has no result.
OPERATIONS = {
    "sum": lambda a, b: a + b + 2.0,
    "difference": lambda a, b: 5.0 - (a - b) - 1.0,
    "negative": lambda a, b: -a + -(b - a),
    "product": lambda a, b: 0.3 * a * b,
    "quotient": lambda a, b: a / (1.0 + b * b),
    "inverse": lambda a, b: 1.0 / (0.5 + abs(a - b)),
    "power": lambda a, b: (1.0 + abs(a)) ** 0.7 - (0.1 + b * b) ** -0.5,
    "cubic": lambda a, b: a**3.0 / (1.0 + a**2.0) + b,
    "power of two numbers": lambda a, b: (0.5 + abs(a)) ** (b / (1.0 + abs(b))),
    "exponential": lambda a, b: 0.3 ** (a / (1.0 + abs(b))),
    "norm": lambda a, b: operations.norm(abs(a) + 0.1, abs(b) + 0.1, 3.0),
    "larger": operations.maximum,
    "smaller": lambda a, b: operations.minimum(a, 2.0 * b),
    "choice": lambda a, b: operations.where(a > b, a * b, a + 0.5 * b),
    "up": lambda a, b: operations.ceil(3.0 * a / (1.0 + abs(a))) + b,
    "down": lambda a, b: operations.floor(3.0 * a / (1.0 + abs(a))) * b,
}

steps = st.lists(
    st.tuples(st.sampled_from(sorted(OPERATIONS)), st.integers(0, 20), st.integers(0, 20)), min_size=1, max_size=12
)
inputs = st.tuples(*[st.floats(-4.0, 4.0).map(lambda value: round(value, 3) + 0.0004)] * 3)


def computed(steps, numbers):
    """What steps make of numbers of any kind: each of two of the numbers that were there before it."""
    numbers = list(numbers)
    for name, left, right in steps:
        numbers.append(OPERATIONS[name](numbers[left % len(numbers)], numbers[right % len(numbers)]))
    return numbers[-1]


def graph_of(steps):
    graph = Graph()
    return graph, computed(steps, [graph.input(name) for name in NAMES])


@given(steps, inputs, inputs)
def test_values_and_programs_of_a_graph_are_what_floats_are(steps, here, there):
    graph, output = graph_of(steps)
    columns = [np.array(pair) for pair in zip(here, there, strict=True)]
    arrays = array_program([output], graph.inputs, [True] * 3)(*columns)[0]
    together = Values([output], graph.inputs)
    for place, values in enumerate((here, there)):
        expected = computed(steps, values)
        assert close(together(*values)[0], expected)
        assert close(python_program([output], graph.inputs)(*values)[0], expected)
        assert close(float(np.broadcast_to(arrays, 2)[place]), expected)
        assert close(float(np.broadcast_to(together(*columns)[0], 2)[place]), expected)


@given(steps, inputs)
def test_slopes_are_those_of_differences_whether_choices_are_settled_or_open(steps, values):
    graph, output = graph_of(steps)
    found = Values([output], graph.inputs)
    found(*values)
    trace = Trace()
    traced = computed(steps, [trace.input(name, value) for name, value in zip(NAMES, values, strict=True)])
    assert close(operations.plain(traced), found(*values)[0])
    opened, settled = gradient(output, found.of), gradient(traced)
    for name in opened.keys() | settled.keys():
        assert math.isclose(opened.get(name, 0.0), settled.get(name, 0.0), rel_tol=1e-9, abs_tol=1e-12)
    assert all(name in opened for name in settled)
    here = found(*values)[0]
    slopes = gradient(output, found.of)
    for place, name in enumerate(NAMES):
        step = 1e-6
        high, low = (computed(steps, [*values[:place], values[place] + h, *values[place + 1 :]]) for h in (step, -step))
        assume(abs(high + low - 2.0 * here) < 1e-3 * step * (1.0 + abs(here)))  # no kink, and no step
        slope = (high - low) / (2.0 * step)
        assert math.isclose(slopes.get(name, 0.0), slope, rel_tol=1e-4, abs_tol=1e-5 * (1.0 + abs(here)))


def test_slopes_of_what_random_graphs_leave_out():
    graph = Graph()
    x, y = graph.input("x"), graph.input("y")
    numbers = {
        (x % y): {"x": 1.0, "y": -2.0},
        abs(x - 9.0): {"x": -1.0},
        operations.where(~(x > y) | (x < 0.0), x, 3.0 * y): {"x": 0.0, "y": 3.0},
        operations.where((x > y) & (x != 7.0), x, y): {"x": 1.0, "y": 0.0},
        operations.ceil(100.0 * x): {"x": 100.0},
        operations.floor(x / y): {"x": 0.0, "y": 0.0},
    }
    found = Values(list(numbers), graph.inputs)
    assert found(7.5, 3.0) == [1.5, 1.5, 9.0, 7.5, 750.0, 2.0]
    for number, slopes in numbers.items():
        assert gradient(number, found.of) == slopes
    assert gradient(2.0) == {}


def nested(graph_or_none, a, b):
    """A root by Newton's rounds, of a sum that a loop adds up."""

    def repeat(turn, start, most):
        if graph_or_none is not None:
            return graph_or_none.repeated(turn, start, most)
        for _ in range(most):
            start, goes_on = turn(start)
            if not all_of(goes_on):
                break
        return start

    def newton(state):
        total, _ = repeat(
            lambda inner: ((inner[0] + b / (inner[1] + state[0]), inner[1] + 1.0), inner[1] < 4.0), (a, state[0]), 50
        )
        new = 0.5 * (state[0] + total / state[0])
        return (new, state[1] + 1.0), abs(new - state[0]) > 1e-9 * new

    return repeat(newton, (1.0 + 0.0 * a, 0.0), 60)


@given(st.floats(0.5, 9.0), st.floats(0.5, 9.0))
def test_iterations_inside_each_other_have_the_values_of_floats(a, b):
    graph = Graph()
    outputs = nested(graph, graph.input("a"), graph.input("b"))
    expected = list(nested(None, a, b))
    assert Values(outputs, graph.inputs)(a, b) == expected
    assert list(python_program(outputs, graph.inputs)(a, b)) == expected
    with pytest.raises(rl.BadInput, match="slopes"):
        gradient(outputs[0], Values(outputs, graph.inputs).of)
