"""The operations agree over every kind of number, and refuse what is none."""

import math
import operator
from dataclasses import dataclass

import numpy as np
import pytest
import sympy
from every_case import each
from hypothesis import given
from hypothesis import strategies as st

import roofline.formulas.closed  # noqa: F401  registers sympy's numbers
from roofline.numbers import operations
from roofline.outputs.workbook.cells import CellPool
from roofline.physics.equation import Roof, Work, kernel_time
from roofline.specs.gpu import Efficiency
from roofline.support.errors import BadInput
from roofline.symbolic.graph import Trace

VALUES = (-3.5, -2.0, -0.25, 0.0, 0.1, 1.0, 2.0, 2.9999, 1e6)
finite = st.floats(-1e9, 1e9)
positive = st.floats(1e-12, 1e12)
orders = st.sampled_from((1.0, 2.0, 3.0, math.inf))

KINDS = {"array": lambda value: np.array([value]), "scalar of numpy": np.float64, "sympy": sympy.Float}
every_kind = pytest.mark.parametrize("kind", KINDS.values(), ids=KINDS)


@every_kind
@pytest.mark.parametrize(
    "operation", [operations.maximum, operations.minimum], ids=lambda operation: operation.__name__
)
def test_the_larger_and_the_smaller_are_the_same_in_every_kind_of_number(kind, operation):
    for a in VALUES:
        for b in VALUES:
            expected = (max if operation is operations.maximum else min)(a, b)
            assert operation(a, b) == expected
            for left, right in ((kind(a), kind(b)), (kind(a), b), (a, kind(b))):
                assert float(np.squeeze(operation(left, right))) == expected


@every_kind
@pytest.mark.parametrize("value", VALUES)
def test_rounding_is_the_same_in_every_kind_of_number(kind, value):
    assert operations.ceil(value) == math.ceil(value)
    assert operations.floor(value) == math.floor(value)
    assert float(np.squeeze(operations.ceil(kind(value)))) == math.ceil(value)
    assert float(np.squeeze(operations.floor(kind(value)))) == math.floor(value)


@every_kind
def test_a_choice_is_the_same_in_every_kind_of_number(kind):
    for a in VALUES:
        for b in VALUES:
            expected = 3.0 if a < b else 4.0
            assert operations.where(a < b, 3.0, 4.0) == expected
            assert float(np.squeeze(operations.where(kind(a) < kind(b), 3.0, 4.0))) == expected
            assert float(np.squeeze(operations.where(kind(a) < kind(b), kind(3.0), kind(4.0)))) == expected


@every_kind
@given(a=positive, b=positive, p=orders)
def test_norms_are_the_same_in_every_kind_of_number(kind, a, b, p):
    found = float(np.squeeze(operations.norm(kind(a), kind(b), p)))
    assert math.isclose(found, operations.norm(a, b, p), rel_tol=1e-12)


@given(a=positive | st.just(0.0), b=positive | st.just(0.0), p=orders | st.floats(1.0, 9.0))
def test_a_norm_lies_between_the_larger_and_the_sum(a, b, p):
    assert max(a, b) * (1.0 - 1e-12) <= operations.norm(a, b, p) <= (a + b) * (1.0 + 1e-12)


@given(a=finite, b=finite)
def test_the_larger_and_the_smaller_add_up_to_both(a, b):
    assert {operations.maximum(a, b), operations.minimum(a, b)} == {a, b}


def test_infinity_stays_infinite_norms_are_those_of_the_textbook_and_arrays_broadcast():
    assert operations.maximum(math.inf, 1.0) == math.inf
    assert operations.minimum(math.inf, 1.0) == 1.0
    assert operations.ceil(math.inf) == math.inf
    assert operations.floor(math.inf) == math.inf
    assert operations.norm(3.0, 4.0, 1.0) == 7.0
    assert operations.norm(3.0, 4.0, 2.0) == 5.0
    assert math.isclose(operations.norm(3.0, 4.0, 3.0), 4.497941445275415, rel_tol=1e-12)  # the cube root of 91
    assert operations.norm(3.0, 4.0, math.inf) == 4.0
    column, row = np.array([[1.0], [5.0]]), np.array([2.0, 4.0, 6.0])
    assert operations.maximum(column, row).tolist() == [[2.0, 4.0, 6.0], [5.0, 5.0, 6.0]]
    assert operations.where(column > row, column, row).tolist() == [[2.0, 4.0, 6.0], [5.0, 5.0, 6.0]]

    class Column(np.ndarray):
        pass

    column = np.array([1.0, 4.0]).view(Column)
    assert operations.maximum(column, 2.0).tolist() == [2.0, 4.0]


def test_symbols_stay_symbolic_until_they_are_given_values():
    x = sympy.Symbol("x")
    assert operations.maximum(x, 2.0).subs(x, 3.0) == 3.0
    assert operations.minimum(2.0, x).subs(x, 3.0) == 2.0
    assert operations.ceil(x).subs(x, sympy.Float(2.1)) == 3
    assert operations.floor(x).subs(x, sympy.Float(2.9)) == 2
    assert operations.where(x > 1.0, x, 5.0).subs(x, 3.0) == 3.0
    assert operations.where(x > 1.0, x, 5.0).subs(x, 0.5) == 5.0
    assert operations.where(sympy.true, x, 5.0) == x


def test_conditions_of_numbers_are_settled_and_recorded():
    assert operations.never(1.0 > 2.0)
    assert operations.always(1.0 < 2.0)
    assert not operations.never(1.0 < 2.0)
    assert not operations.always(1.0 > 2.0)
    trace = Trace()
    number = trace.input("number", 1.0)
    assert operations.never(number > 2.0)
    assert operations.always(number < 2.0)
    assert [(switch.left, switch.right) for switch in trace.switches] == [(number, 2.0)] * 2


@every_kind
@pytest.mark.parametrize(
    ("compare", "relation"),
    [(operations.above, operator.gt), (operations.below, operator.lt), (operations.at_most, operator.le)],
    ids=["above", "below", "at most"],
)
def test_comparisons_with_a_meaning_are_those_without(kind, compare, relation):
    for a in VALUES:
        for b in VALUES:
            assert compare(a, b, "both are equal") is relation(a, b)
            assert bool(np.squeeze(compare(kind(a), b, "both are equal"))) is relation(a, b)
            assert bool(np.squeeze(compare(a, kind(b), "both are equal"))) is relation(a, b)


def test_traced_numbers_keep_what_each_choice_means_and_others_leave_it():
    trace = Trace()
    number = trace.input("number", 1.5)
    choices = {
        "larger": lambda value, meaning: operations.maximum(value, 2.0, meaning),
        "smaller": lambda value, meaning: operations.minimum(value, 2.0, meaning),
        "norm": lambda value, meaning: operations.norm(value, 2.0, math.inf, meaning),
        "up": operations.ceil,
        "down": operations.floor,
        "above": lambda value, meaning: operations.above(value, 2.0, meaning),
        "below": lambda value, meaning: operations.below(value, 2.0, meaning),
        "at most": lambda value, meaning: operations.at_most(value, 2.0, meaning),
    }
    for meaning, choose in choices.items():
        before = len(trace.switches)
        found = choose(number, meaning)
        assert {switch.meaning for switch in trace.switches[before:]} == {meaning}
        assert getattr(found, "value", found) == choose(1.5, meaning) == choose(np.array([1.5]), "")[0]


@each(
    "number",
    [np.array([1.0, 1.0]), np.float64(1.0), sympy.Symbol("x"), CellPool().input("$A$1", np.array([1.0]))],
    ids=["array", "scalar of numpy", "symbol", "cell"],
)
@each("least", [0.5, 1.0, 2.0])
def test_conditions_of_other_numbers_stay_open_whatever_they_hold(number, least):
    assert not operations.never(number > least)
    assert not operations.always(number > least)


class NoNumber:
    """Something without operations."""


@each(
    "operation",
    [
        lambda value: operations.maximum(value, value),
        lambda value: operations.minimum(value, value),
        lambda value: operations.maximum(value, 1.0),
        lambda value: operations.minimum(1.0, value),
        lambda value: operations.norm(1.0, value, math.inf),
        operations.ceil,
        lambda value: operations.where(value, 1.0, 2.0),
    ],
    ids=["maximum", "minimum", "mixed maximum", "mixed minimum", "norm", "ceil", "where"],
)
@each("value", [NoNumber(), "3", None, [1.0]], ids=["object", "text", "None", "list"])
def test_what_is_no_number_is_refused_by_the_name_of_its_type(operation, value):
    with pytest.raises(BadInput, match=type(value).__name__):
        operation(value)


@dataclass(frozen=True)
class Twin:
    """A number that carries two values through a formula."""

    left: float
    right: float

    def _with(self, other, do):
        other = other if isinstance(other, Twin) else Twin(other, other)
        return Twin(do(self.left, other.left), do(self.right, other.right))

    def __add__(self, other):
        return self._with(other, lambda a, b: a + b)

    def __mul__(self, other):
        return self._with(other, lambda a, b: a * b)

    def __truediv__(self, other):
        return self._with(other, lambda a, b: a / b)

    def __pow__(self, other):
        return self._with(other, lambda a, b: a**b)

    __radd__ = __add__
    __rmul__ = __mul__


@pytest.fixture
def twins():
    operations.register(
        Twin,
        operations.Operations(
            maximum=lambda a, b, _: _twin(a)._with(b, max),
            minimum=lambda a, b, _: _twin(a)._with(b, min),
            ceil=lambda a, _: Twin(math.ceil(a.left), math.ceil(a.right)),
            where=lambda condition, a, b: Twin(a if condition.left else b, a if condition.right else b),
        ),
    )
    yield
    del operations._REGISTRY[Twin]


def _twin(value):
    return value if isinstance(value, Twin) else Twin(value, value)


@pytest.mark.usefixtures("twins")
def test_a_new_kind_of_number_goes_through_the_operations_once_registered():
    assert operations.maximum(Twin(1.0, 5.0), 3.0) == Twin(3.0, 5.0)
    assert operations.minimum(3.0, Twin(1.0, 5.0)) == Twin(1.0, 3.0)
    assert operations.ceil(Twin(1.2, 5.0)) == Twin(2.0, 5.0)
    assert operations.where(Twin(1.0, 0.0), 3.0, 4.0) == Twin(3.0, 4.0)
    assert operations.norm(Twin(3.0, 6.0), Twin(4.0, 8.0), 2.0) == Twin(5.0, 10.0)


@pytest.mark.usefixtures("twins")
@given(flop=st.tuples(positive, positive), nbytes=st.tuples(positive, positive), p=orders)
def test_a_new_kind_of_number_goes_through_the_one_equation(flop, nbytes, p):
    roof = Roof(1e15, 3e12, 4e12, Efficiency(t0=1e-6, eta_c=0.7, eta_m=0.8, p=p))
    both = kernel_time(Work(flop=Twin(*flop), weight_bytes=Twin(*nbytes)), roof).total
    for side, f, q in zip(("left", "right"), flop, nbytes, strict=True):
        alone = kernel_time(Work(flop=f, weight_bytes=q), roof).total
        assert math.isclose(getattr(both, side), alone, rel_tol=1e-12)
