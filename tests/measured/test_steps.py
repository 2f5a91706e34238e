"""`rl.step_time` against steps measured on an H100; nothing was fitted to them. docs/howto/python.md has the tables."""

import ast
import json
from functools import cache
from pathlib import Path

import pytest
from every_case import each
from judge_steps import ALL, REGIONS, STEPS, Step, added_table, error_table, of_region, parts, read, score

ROOT = Path(__file__).parents[2]
GATES = json.loads((ROOT / "tests" / "measured" / "gates.json").read_text())["steps, mean and worst"]
PAGE = (ROOT / "docs" / "howto" / "python.md").read_text()


@cache
def steps() -> list[Step]:
    return read(STEPS, "h100-sxm")


@each("name", (*REGIONS, ALL))
def test_steps_of_every_region_are_as_near_as_their_gate_asks(name):
    mean, worst = GATES[name]
    found = score(of_region(steps(), name))
    assert found.count >= 10
    assert found.mean <= mean
    assert abs(found.worst) <= worst


def test_nine_steps_in_ten_are_within_a_tenth_where_no_chunk_follows_cached_tokens():
    errors = [step.error() for step in steps() if not any(cached for _, cached in step.prefill)]
    assert sum(abs(error) <= 10.0 for error in errors) >= 0.9 * len(errors)


def test_a_prompt_of_few_tokens_adds_a_fraction_of_what_it_takes_alone_as_measured():
    cells = [row.strip("| ").replace(" ms", "").replace(",", "").split(" | ") for row in added_table(steps())[2:]]
    assert [int(row[0]) for row in cells] == [2**power for power in range(4, 14)]
    for tokens, *times in cells:
        measured, predicted, alone, alone_predicted = map(float, times)
        if int(tokens) <= 128:
            assert max(measured / alone, predicted / alone_predicted) < 0.2
        else:
            assert predicted == pytest.approx(measured, rel=0.35)


def test_parts_add_up_to_steps_measured_and_predicted():
    for step in steps():
        measured = sum(step.measured(part) for part in ("gemm", "attention", "rest"))
        assert measured == pytest.approx(step.measured(), rel=0.08)
        assert sum(parts(step, "h100-sxm").values()) == pytest.approx(step.predicted, rel=0.01)
        assert step.measured("low") <= step.measured() <= step.measured("high")


def test_tables_of_the_recipes_are_those_of_today():
    for line in (*error_table(steps()), *added_table(steps())):
        assert line in PAGE


def test_columns_are_those_that_the_script_writes():
    script = ast.parse((ROOT / "accuracy" / "measure_steps.py").read_text())
    (names,) = (
        ast.literal_eval(statement.value)
        for statement in script.body
        if isinstance(statement, ast.Assign) and getattr(statement.targets[0], "id", "") == "COLUMNS"
    )
    assert [*steps()[0].row] == names.split(",")
