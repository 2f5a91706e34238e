"""Every example runs and prints something."""

import runpy
import sys
from pathlib import Path

from every_case import each

#: Those that tests/test_recipes.py runs as they are, and reads what they print.
ELSEWHERE = {"fill_workbook", "google_sheets", "pull_levers", "sizing_with_pandas", "users_within_slo"}
EXAMPLES = [
    path for path in sorted((Path(__file__).parents[1] / "examples").glob("*.py")) if path.stem not in ELSEWHERE
]


@each("path", EXAMPLES, ids=lambda path: path.name)
def test_the_example_runs(path, capsys, monkeypatch):
    monkeypatch.setattr(sys, "argv", [str(path)])
    try:
        runpy.run_path(str(path), run_name="__main__")
    except SystemExit as end:
        assert not end.code
    assert capsys.readouterr().out.strip()


def test_there_are_examples():
    assert EXAMPLES
