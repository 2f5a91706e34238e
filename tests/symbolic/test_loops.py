"""A loop is written once: floats and arrays turn, a graph holds it, and its programs turn again."""

import re

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import roofline.numbers.arrays  # noqa: F401  registers arrays
from roofline.numbers.operations import minimum, where
from roofline.numbers.roots import carried_crossing, crossing, fixed_point, largest_that_holds, repeated
from roofline.support.errors import BadInput
from roofline.symbolic.graph import Graph
from roofline.symbolic.programs import SPREADSHEET, javascript_source, python_program, text_of

numbers = st.floats(0.01, 100.0)


def root_by_newton(number, guess):
    """A square root: a loop within whatever loop asks for it."""

    def turn(state):
        better = 0.5 * (state[0] + number / state[0])
        return (better,), abs(better - state[0]) > 1e-12 * better

    return repeated(turn, (guess,), 60, (number,))[0]


def sum_of_roots(first, most):
    """Roots of first + 1, first + 2, ... are added up, halves of a cube beside them, until the sum is large enough."""

    def turn(state):
        total, count = state
        total = total + root_by_newton(first + count, 1.0 + count) + 0.5 * most**3.0 / (most**3.0 + first)
        return (total, count + 1.0), total < most

    return repeated(turn, (0.0, 1.0), 500, (first,))


def newton_in_turns(first, most):
    return (root_by_newton(first, most),)


def searches(first, most):
    """The searches of the tool, the last of which looks for a crossing at each of its turns."""
    return (
        crossing(lambda number: first - number**3.0, most),
        largest_that_holds(lambda number: number * number <= most, first),
        *fixed_point(lambda x: (0.5 * (x[0] + x[1] / x[0]), minimum(x[1] + first, most)), (first, first)).values,
        crossing(lambda number: 1.0 - number / crossing(lambda inner: most - inner - inner**3.0, most), first),
    )


def carried(first, most):
    """A surplus of its own start, which halves at each place that is tried."""
    found, (start, count) = carried_crossing(
        lambda number, state: (first + state[0] - number, (0.5 * state[0], state[1] + 1.0)), most + 100.0, (first, 0.0)
    )
    return found, start, count


@pytest.mark.parametrize("calculation", [sum_of_roots, newton_in_turns, searches, carried])
@given(first=numbers, most=numbers)
def test_a_graph_turns_as_floats_do(calculation, first, most):
    graph = Graph()
    inputs = graph.input("first"), graph.input("most")
    program = python_program(calculation(*inputs), inputs)
    assert program(first, most) == pytest.approx(calculation(first, most), rel=1e-12)


@pytest.mark.parametrize("calculation", [newton_in_turns, searches])
@given(first=numbers, most=numbers)
def test_elements_of_an_array_end_where_they_end_alone(calculation, first, most):
    alone = [calculation(one, most) for one in (first, 2.0 * first)]
    together = calculation(np.array([first, 2.0 * first]), most)
    assert np.stack(np.broadcast_arrays(*together), axis=-1) == pytest.approx(np.array(alone), rel=1e-11)


@pytest.mark.parametrize("calculation", [sum_of_roots, newton_in_turns, searches, carried])
def test_javascript_turns_as_floats_do(calculation, javascript):
    graph = Graph()
    inputs = graph.input("first"), graph.input("most")
    source = javascript_source("f", calculation(*inputs), inputs)
    for first, most in ((0.5, 90.0), (7.0, 0.25), (30.0, 60.0)):
        assert javascript(source, "f", (first, most)) == pytest.approx(calculation(first, most), rel=1e-12)


def test_what_a_loop_does_not_change_stands_before_it():
    graph = Graph()
    inputs = graph.input("first"), graph.input("most")
    lines = javascript_source("f", sum_of_roots(*inputs), inputs).splitlines()
    margins = {"cube": r"most \* most \* most", "of a turn": r"const \w+ = first \+", "of Newton": r"0\.5 \* \("}
    deep = {
        name: {(len(line) - len(line.lstrip())) // 4 for line in lines if re.search(pattern, line)}
        for name, pattern in margins.items()
    }
    assert deep == {"cube": {1}, "of a turn": {2}, "of Newton": {3}}


@pytest.mark.parametrize(("value", "expected"), [(1.0, 1.0), (3.0, 96.0), (20.0, 20.0)])
def test_whether_a_loop_begins_may_be_a_choice_itself(value, expected, javascript):
    graph = Graph()
    x = graph.input("x")
    begins = where(x < 10.0, x > 2.0, x > 1000.0)
    doubled = repeated(lambda state: ((2.0 * state[0],), state[0] < 30.0), (x,), 100, begins=begins)
    assert python_program(doubled, [x])(value) == (expected,)
    assert javascript(javascript_source("f", doubled, [x]), "f", (value,)) == [expected]


def test_long_chains_are_cut_and_what_is_not_needed_is_not_computed():
    graph = Graph()
    x = graph.input("x")
    inverse = repeated(lambda state: ((1.0 / state[0],), False), (x,), 1, begins=x > 0.0)
    run = python_program(inverse, [x])
    assert run(4.0) == (0.25,)
    assert run(0.0) == (0.0,)  # and no division by it
    graph = Graph()
    x = graph.input("x")
    number, expected = x, 1.5
    for place in range(3000):
        number, expected = 1.0 + 0.5 * number / (1.0 + place), 1.0 + 0.5 * expected / (1.0 + place)
    assert python_program([number], [x])(1.5) == (expected,)


def test_a_spreadsheet_refuses_what_iterates():
    graph = Graph()
    x = graph.input("x")
    root = root_by_newton(x, 1.0)
    with pytest.raises(BadInput, match="a spreadsheet has no formula for an iteration"):
        text_of(1.0 + root, SPREADSHEET)
