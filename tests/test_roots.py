"""Searches find what algebra knows, and the same on every kind of number."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import roofline.numbers.arrays  # noqa: F401  registers arrays
from roofline.numbers.roots import crossing, largest_that_holds, narrowed, root
from roofline.outputs.workbook.cells import CellPool
from roofline.symbolic.graph import Trace, gradient

positive = st.floats(1e-6, 1e6)
powers = st.sampled_from((0.5, 1.0, 2.0, 3.0))


def counted(function):
    """A function, and the places at which it was asked."""
    asked = []

    def noted(place):
        asked.append(place)
        return function(place)

    return noted, asked


@given(target=positive, power=powers, start=positive)
def test_a_root_is_that_of_the_power_wherever_it_starts(target, power, start):
    found = root(lambda value: value**power / target - 1.0, start, 0.0, 2.0**60)
    assert math.isclose(found, target ** (1.0 / power), rel_tol=1e-13)


@given(target=positive, start=positive)
def test_a_root_of_what_falls_is_found_from_its_worst_end(target, start):
    found = root(lambda value: target / value - 1.0, start, 2.0**60, 2.0**-60)
    assert math.isclose(found, target, rel_tol=1e-13)


def test_ends_of_a_range_and_jumps_are_found_as_what_they_are():
    found = root(lambda value: math.ceil(value) - 7.0, 1.0, 0.5, 1e9)
    assert found <= 7.0
    assert math.isclose(found, 7.0, rel_tol=1e-13)
    assert root(lambda value: value - 1.0, 2.0, 1.0, 5.0) == 1.0
    assert math.isnan(narrowed(lambda _: math.nan, (0.0, -1.0), (1.0, 1.0)))
    assert crossing(lambda value: -1.0 - value, 100.0) == 0.0
    assert crossing(lambda value: 1.0 + value, 100.0) == math.inf


@given(zero=st.floats(0.01, 0.99), power=powers)
def test_a_zero_between_two_places_is_found_from_either_side(zero, power):
    def function(place):
        return place**power - zero**power

    for near, far in ((0.0, 1.0), (1.0, 0.0)):
        found = narrowed(function, (near, function(near)), (far, function(far)))
        assert math.isclose(found, zero, rel_tol=1e-12)


@pytest.mark.parametrize(("near", "far"), [(0.0, 1.0), (1.0, 0.0)])
def test_a_jump_is_narrowed_to_the_side_where_it_began(near, far):
    def step(place):
        return -1.0 if place < 0.3 else 1.0

    found = narrowed(step, (near, step(near)), (far, step(far)))
    assert math.isclose(found, 0.3, rel_tol=1e-13)
    assert step(found) == step(near)


@given(fixed=positive, slope=positive)
def test_a_line_is_crossed_where_it_is_zero_in_one_step(fixed, slope):
    surplus, asked = counted(lambda value: fixed - slope * value)
    found = crossing(surplus, 2.0**60)
    assert math.isclose(found, fixed / slope, rel_tol=4e-13)
    assert len(asked) <= 6  # both ends, the zero, and what rounding adds


@given(zero=positive, power=powers)
def test_a_curve_is_crossed_where_it_is_zero(zero, power):
    assert math.isclose(crossing(lambda value: zero**power - value**power, 1e7), zero, rel_tol=1e-11)


def test_a_sheet_and_traced_numbers_are_crossed_where_their_values_are():
    trace = Trace()
    fixed, slope = trace.input("fixed", 6.0), trace.input("slope", 2.0)
    found = crossing(lambda value: fixed - slope * value, 100.0)
    assert math.isclose(found.value, 3.0, rel_tol=1e-13)
    assert math.isclose(gradient(found)["fixed"], 0.5, rel_tol=1e-9)
    assert math.isclose(gradient(found)["slope"], -1.5, rel_tol=1e-9)
    pool = CellPool()
    zero = pool.input("$A$1", np.array([3.0, 50.0]))
    surplus, asked = counted(lambda value: zero**2 - value * value)
    found = crossing(surplus, 100.0, 20)
    assert len(asked) == 22  # both ends, and every step: the sheet may be asked other cases
    assert np.allclose(found.value, [3.0, 50.0], rtol=1e-12, atol=0.0)
    zeros = np.array([0.5, 3.0, 77.0, 1e5, 2e6])
    together = crossing(lambda value: zeros**3 - (0.0 * zeros + value) ** 3, 1e6)
    alone = [crossing(lambda value, zero=zero: zero**3 - value**3, 1e6) for zero in zeros.tolist()]
    assert together.tolist() == pytest.approx(alone, rel=1e-15)  # numpy's cubes may differ in the last bit
    assert alone[-1] == math.inf


@given(limit=st.integers(0, 10**6), last=st.integers(0, 10**6))
def test_the_largest_that_holds_is_found(limit, last):
    assert largest_that_holds(lambda number: number <= last, float(limit)) == min(limit, last)


def test_the_largest_that_holds_is_the_same_in_arrays_and_cells():
    lasts, limit = np.array([0.0, 1.0, 7.0, 99.0, 1e9]), 1000.0
    expected = [0.0, 1.0, 7.0, 99.0, 1000.0]
    assert largest_that_holds(lambda number: number <= lasts, limit + 0.0 * lasts).tolist() == expected
    pool = CellPool()
    cells = pool.input("$A$1", lasts)
    limits = pool.input("$B$1", np.full(5, limit))
    assert largest_that_holds(lambda number: number <= cells, limits, 11).value.tolist() == expected
