"""Traced numbers: the values of floats, choices settled by them and kept, slopes through fixed points."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from roofline.numbers import operations
from roofline.numbers.roots import fixed_point
from roofline.symbolic.graph import Node, Trace, Values, depends, gradient, is_rational

positive = st.floats(0.1, 10.0)


def test_rounding_up_and_maxima_keep_a_side_and_record_the_other():
    trace = Trace()
    x, y = trace.input("x", 2.0), trace.input("y", 3.0)
    assert operations.maximum(x, y) is y
    assert operations.minimum(x, y) is x
    assert [(switch.left, switch.right) for switch in trace.switches] == [(x, y), (x, y)]
    assert not any(switch.is_tie for switch in trace.switches)
    with trace.scope("decode"):
        operations.maximum(x, 2.0)
    assert trace.switches[-1].is_tie
    assert [switch.section for switch in trace.switches] == ["", "", "decode"]
    trace = Trace()
    x, whole, many = trace.input("x", 2.5), trace.input("whole", 3.0), trace.input("many", 100.5)
    assert gradient(operations.ceil(x)) == {"x": 0.0}
    assert trace.stepped == x.reach
    assert gradient(operations.ceil(whole)) == {"whole": 1.0}
    assert gradient(operations.ceil(many)) == {"many": 1.0}  # steps below 1 %
    assert operations.floor(x).value == 2.0
    assert trace.stepped == x.reach
    assert len(trace.switches) == 6  # to either side of x, of whole, and of x rounded down


def test_numbers_that_change_nothing_leave_no_trace_and_the_same_operation_is_one_node():
    x = Trace().input("x", 2.0)
    assert x + 0.0 is x
    assert x * 1.0 is x
    assert x / 1.0 is x
    assert x**1.0 is x
    assert abs(x) is x
    assert 0.0 * x == 0.0
    assert not isinstance(0.0 * x, Node)
    assert x * math.inf == math.inf
    assert not isinstance(x * math.inf, Node)
    assert x / math.inf == 0.0
    assert (x**3.0) ** (1.0 / 3.0) is x
    trace = Trace()
    x, y = trace.input("x", 2.0), trace.input("y", 3.0)
    assert x * y is y * x
    assert x / y is x / y
    assert x - y is not y - x
    assert trace.input("x", 2.0) is x


@given(x=positive, y=positive, again=positive)
def test_a_number_at_another_value_of_an_input_is_what_it_would_have_been(x, y, again):
    def formula(x, y):
        return (x * y + 2.0) / (x - 20.0) + (x + y) ** 0.5 - y ** (x / 10.0)

    trace = Trace()
    number = trace.input("x", x)
    found = formula(number, trace.input("y", y))
    assert Values([found, 2.0], [number])(again) == [formula(again, y), 2.0]
    assert Values([found], [])() == [found.value]


def test_choices_stay_as_they_were_at_other_values_and_no_result_is_no_number():
    trace = Trace()
    x = trace.input("x", 2.5)
    numbers = [
        operations.ceil(x) + x,
        operations.maximum(x, 2.0),
        operations.ceil(x * 40.0),
    ]  # the last follows x: its steps are fine
    assert Values(numbers, [x])(1.51) == [4.51, 1.51, 61.0]
    x = Trace().input("x", 2.5)
    assert math.isnan(Values([1.0 / (x - 2.0)], [x])(2.0)[0])
    assert math.isnan(Values([(x - 2.0) ** 0.5 + 1.0], [x])(1.0)[0])


def test_what_came_about_by_arithmetic_alone_is_told_from_powers():
    trace = Trace()
    x, y = trace.input("x", 2.0), trace.input("y", 3.0)
    assert is_rational(x / y + x * x, "x")
    assert is_rational(y**0.5 + x, "x")
    assert not is_rational((x + y) ** 0.5, "x")
    assert not is_rational(operations.ceil(x / 0.7) * y, "x")
    assert depends(0.0 * y + x - x, "x")
    assert not depends(x, "y")
    assert not depends(x, "no input")
    assert not depends(2.0, "x")


@given(square=positive)
def test_slopes_at_a_fixed_point_are_implicit(square):
    trace = Trace()
    of = trace.input("square", square)
    found = fixed_point(lambda state: (0.5 * (state[0] + of / state[0]),), (1.0,)).values[0]
    assert math.isclose(found.value, math.sqrt(square), rel_tol=1e-12)
    assert math.isclose(gradient(found)["square"], 0.5 / math.sqrt(square), rel_tol=1e-9)
    later = Values([2.0 * found], [of])(square * 1.001)[0]  # along the slope
    assert math.isclose(later, 2.0 * (found.value + gradient(found)["square"] * 0.001 * square), rel_tol=1e-12)


@given(pull=st.floats(0.1, 0.9), push=st.floats(0.1, 0.9), level=positive)
def test_slopes_of_numbers_that_depend_on_each_other_are_those_of_differences(pull, push, level):
    def both(pull, push, level):
        return fixed_point(
            lambda x: (level + pull * x[1] / (1.0 + x[0]), 1.0 + push * operations.minimum(x[0], x[1] + 30.0) ** 0.5),
            (1.0, 1.0),
        ).values

    values = {"pull": pull, "push": push, "level": level}
    trace = Trace()
    found = both(**{name: trace.input(name, value) for name, value in values.items()})
    assert [each.operation for each in found] == ["fixed point"] * 2
    for name, value in values.items():
        step = 1e-4 * value
        high, low = (both(**{**values, name: value + h}) for h in (step, -step))
        for place, each in enumerate(found):
            slope = (high[place] - low[place]) / (2.0 * step)
            assert math.isclose(gradient(each)[name], slope, rel_tol=1e-5, abs_tol=1e-7)


@given(square=positive)
def test_a_fixed_point_inside_another_has_slopes_to_the_inputs_of_both(square):
    def quartic(of):
        def outer(state):
            root = fixed_point(lambda inner: (0.5 * (inner[0] + of / inner[0]),), (1.0,)).values[0]
            return (0.5 * (state[0] + root / state[0]),)

        return fixed_point(outer, (1.0,)).values[0]

    of = Trace().input("square", square)
    found = quartic(of)
    assert math.isclose(found.value, square**0.25, rel_tol=1e-12)
    assert math.isclose(gradient(found)["square"], 0.25 * square**-0.75, rel_tol=1e-9)


def test_the_choices_of_a_round_are_kept_once_and_an_iteration_turns_as_often_as_asked():
    trace = Trace()
    of = trace.input("of", 2.0)

    def rounds(state):
        return (operations.maximum(0.5 * (state[0] + of / state[0]), 0.1, "floor"),)

    fixed_point(rounds, (math.sqrt(2.0),))
    assert [switch.meaning for switch in trace.switches] == ["floor"] * len(trace.switches)
    assert all(not str(switch.left.args).count("@") for switch in trace.switches)
    trace = Trace()
    x = trace.input("x", 3.0)
    (found,) = trace.repeated(lambda state: ((state[0] * x,), state[0] < 20.0), (x,), 100)
    assert found.value == 81.0
    assert gradient(found) == {"x": 4.0 * 27.0}
    assert pytest.approx(gradient(trace.repeated(lambda state: ((state[0] * x,), True), (x,), 2)[0])["x"]) == 27.0
