"""Numbers that are spreadsheet cells: their text means what their value says, in an engine that is not ours."""

import math
import random

import numpy as np
import pytest
from recalculation import Live

from roofline.numbers.operations import ceil, floor, maximum, minimum, norm, where
from roofline.outputs.workbook.cells import (
    INFINITE,
    CellPool,
    Column,
    homes,
    named,
    scope,
    shared,
    spreadsheet_formula,
    unmarked,
)
from roofline.outputs.workbook.tables import is_listed, is_number, joined, match, picked
from roofline.outputs.workbook.writer import Book
from roofline.support.errors import BadInput
from roofline.symbolic.graph import LOOP, Graph

A, B, C = 3.0, -2.5, 7.25


def inputs(pool):
    return (pool.input(f"$A${row}", np.array([value])) for row, value in enumerate((A, B, C), 1))


def text(cell):
    return spreadsheet_formula(cell, {})


def test_a_formula_is_written_with_the_brackets_that_it_needs_and_one_nest():
    a, b, c = inputs(CellPool())
    assert text(a - (b - c)) == "$A$1-($A$2-$A$3)"
    assert text((a - b) - c) == "$A$1-$A$2-$A$3"
    assert text(a / (b * c)) == "$A$1/($A$2*$A$3)"
    assert text((a + b) * c) == "($A$1+$A$2)*$A$3"
    assert text(a * -2.0) == "$A$1*(-2)"
    assert text((-a) ** 2.0) == "POWER(0-$A$1,2)"
    assert text(a < b + c) == "$A$1<$A$2+$A$3"
    assert text(where(a < b, "x", 0.5)) == 'IF($A$1<$A$2,"x",0.5)'
    a, b, c = inputs(CellPool())
    assert text(maximum(maximum(a, b), c)) == "MAX($A$1,$A$2,$A$3)"
    places = {}
    cells = [a * float(number) for number in range(2, 12)]
    for row, cell in enumerate(cells, 5):
        places[id(cell)] = f"Kernels!$F${row}"
    assert spreadsheet_formula(sum(cells), places) == "SUM(Kernels!$F$5:$F$14)"


def test_a_cell_belongs_to_the_step_within_which_it_was_made_or_to_none_after_an_error():
    a, b, _ = inputs(CellPool())

    @scope("inner")
    def product():
        return a * b

    with scope("outer"):
        before, made, after = a + 1.0, product(), a - 1.0
    assert [cell.home for cell in (before, made, after, a / b)] == ["outer", "inner", "outer", ""]
    a, b, _ = inputs(CellPool())
    with pytest.raises(BadInput), scope("outer"):
        raise BadInput("no")
    assert (a + b).home == ""


def test_what_a_step_is_made_of_belongs_to_it_and_else_to_the_step_that_needs_it_first():
    a, b, c = inputs(CellPool())
    shared_by_both, own = a + b, b * c
    first, second = shared_by_both * own, shared_by_both - 1.0
    named("second", second)
    named("first", first)
    steps = homes([second, first])
    assert [steps[id(cell)] for cell in (shared_by_both, own, first, second)] == ["first", "first", "first", "second"]
    assert homes([a + c])[id(a + c)] == ""


def test_a_name_of_cells_has_an_n_for_each_and_a_cell_is_called_once():
    a, b, _ = inputs(CellPool())
    assert unmarked(f"attention (window {a}, top {b})") == "attention (window n, top n)"
    assert unmarked("attention") == "attention"
    a, b, _ = inputs(CellPool())
    total = a + b
    assert named("total", total) is total
    assert named("sum", total).home == "total"
    assert named("total", 2.0) == 2.0
    with scope("other"):
        assert (a + b).home == "total"  # the same cell


def test_neutral_numbers_leave_no_trace_and_what_is_computed_twice_is_one_cell():
    a, _, _ = inputs(CellPool())
    assert a + 0.0 is a
    assert 1.0 * a is a
    assert a / 1.0 is a
    assert a**1.0 is a
    assert 0.0 * a == 0.0
    negative = -a
    assert -negative is a
    assert where(a > 1.0, 2.0, 2.0) == 2.0
    pool = CellPool()
    a, b, c = inputs(pool)
    long = (a + b) * (a - b) * (b + c) * (c - a) * (a + c) * 1.2345678901
    again = (a + b) * (a - b) * (b + c) * (c - a) * (a + c) * 1.2345678901
    assert long is again
    assert shared([long + place for place in range(1, 15)]) == [long]  # whose text would be written 14 times
    assert shared([long + 1.0, long * 2.0]) == []


def test_a_condition_has_no_truth_and_infinity_is_reached_by_nothing():
    a, b, _ = inputs(CellPool())
    assert bool(a)
    for condition in (a < b, is_number(a), ~(a < b)):
        with pytest.raises(TypeError, match="no truth"):
            bool(condition)
    a, b, _ = inputs(CellPool())
    chosen = where(a < b, a, math.inf)
    assert text(chosen) == f"IF($A$1<$A$2,$A$1,{INFINITE!r})".replace("e", "E")
    assert chosen.value.tolist() == [INFINITE]
    assert a / math.inf == 0.0


def test_what_spreadsheets_cannot_take_is_written_turn_by_turn_or_refused():
    def halved(state):
        return (state[0] * 0.5 + 1.0,), state[0] > 3.0

    a, _, _ = inputs(pool := CellPool())
    (last,) = pool.repeated(halved, (a,), 3)
    assert text(last) == "(($A$1*0.5+1)*0.5+1)*0.5+1"
    assert last.value.tolist() == [((A * 0.5 + 1.0) * 0.5 + 1.0) * 0.5 + 1.0]
    graph = Graph()
    with pytest.raises(BadInput, match="a spreadsheet has no formula for an iteration"):
        text(graph.node(LOOP, graph.input("a")) + 1.0)
    a, b, _ = inputs(CellPool())
    cell = a
    for _ in range(11):
        cell = (cell - b) * (cell + 1.2345)
    with pytest.raises(BadInput, match="exceeds the spreadsheet limit"):
        text(cell)


def drawn(pool, draw, depth):
    """A random number made of three cells, together with nothing that could overflow."""
    if depth == 0:
        return draw.choice([*inputs(pool), draw.uniform(0.1, 9.0), float(draw.randint(1, 5))])
    left, right = drawn(pool, draw, depth - 1), drawn(pool, draw, depth - 1)
    kind = draw.randint(0, 9)
    if kind <= 2:
        return [left + right, left - right, left * right][kind]
    if kind == 3:
        return left / (abs(right) + 0.5)
    if kind == 4:
        return norm(abs(left), abs(right), 3.0)
    if kind == 5:
        return (abs(left) + 0.1) ** draw.choice([0.5, -0.66, 2.0])
    if kind == 6:
        return where(left < right, left - 1.0, right + 0.5)
    if kind == 7:
        return draw.choice([ceil, floor])(left * 0.77 + 0.01)
    return draw.choice([maximum, minimum])(left, right)


def test_random_formulas_mean_in_another_engine_what_their_values_say(tmp_path):
    draw, pool = random.Random(5), CellPool()
    cells = [drawn(pool, draw, 4) for _ in range(300)]
    book = Book(tmp_path / "fuzz.xlsx")
    sheet = book.sheet("Fuzz")
    for row, value in enumerate((A, B, C)):
        sheet.value(row, 0, value)
    for row, cell in enumerate(cells):
        sheet.cell(row, 2, cell, {})
    book.close()
    live = Live(tmp_path / "fuzz.xlsx")
    for row, cell in enumerate(cells, 1):
        value = float(cell.value[0]) if hasattr(cell, "value") else float(cell)
        assert math.isclose(live.value("Fuzz", f"C{row}"), value, rel_tol=1e-9, abs_tol=1e-12), text(cell)


def test_blanks_texts_and_look_ups_follow_their_cells():
    pool = CellPool()
    names, rates = Column("t_name", np.array(["a100", "h100"], dtype=object)), Column("t_rate", np.array([1.0, 2.0]))
    wanted = pool.input("$A$1", np.array(["H100", "none"], dtype=object))
    assert picked(rates, match(wanted, names)).value.tolist() == [2.0, 1.0]
    assert is_listed(wanted, names).value.tolist() == [True, False]
    assert text(match(wanted, names)) == "IFERROR(MATCH($A$1,t_name,0),1)"
    assert text(joined(wanted, "|", "x")) == '$A$1&"|"&"x"'
    cell = CellPool().input("$A$1", np.array([math.nan, 3.0]))
    assert is_number(cell).value.tolist() == [False, True]
    assert (cell == "").value.tolist() == [True, False]
    assert (cell != "").value.tolist() == [False, True]
    pool = CellPool()
    cell = pool.input("$A$1", np.array([8.0, 16.0]))
    said = pool.text_formula(f"tp = {cell} does not divide")
    assert text(said) == '"tp = "&$A$1&" does not divide"'
    assert said.value.tolist() == ["tp = 8 does not divide", "tp = 16 does not divide"]
    assert pool.text_formula("nothing") == "nothing"
