"""The two tiers: every test of the exhaustive list exists, and so does the quick one that keeps its claim."""

import ast

import pytest
import tiers
from source_trees import tree
from tiers import HOME, listed, mark, some


def test_every_listed_test_exists_and_a_quick_one_keeps_its_claim():
    names, functions = listed(), {}
    assert len(names) > 50
    for name in {*names, *names.values()}:
        path, _, function = name.partition("[")[0].partition("::")
        if path not in functions:
            functions[path] = {node.name for node in tree(HOME / path).body if isinstance(node, ast.FunctionDef)}
        assert function in functions[path], name
    assert not {name for name in names.values() if name in names or name.partition("[")[0] in names}


def test_some_cases_reach_from_the_first_to_the_last(monkeypatch):
    monkeypatch.setattr(tiers, "_is_quick", True)
    for few in range(2, 9):
        chosen = some(range(9), few)
        assert (len(set(chosen)), chosen[0], chosen[-1]) == (few, 0, 8)
        assert chosen == sorted(chosen)
    assert (some("abc", 1), some("ab", 5), tiers.times(1, 2)) == (["a"], ["a", "b"], 1)
    assert tiers.has_more_cases(len) is len
    monkeypatch.setattr(tiers, "_is_quick", False)
    assert (some(range(9), 2), tiers.times(1, 2)) == ([*range(9)], 2)


def test_a_listed_test_is_marked_by_its_function_or_by_its_case(monkeypatch):
    class Item:
        def __init__(self, nodeid):
            self.nodeid, self.marks = nodeid, []

        def add_marker(self, entry):
            self.marks.append(entry)

    monkeypatch.setattr(tiers, "listed", lambda: {"a.py::test_b": "", "a.py::test_c[1]": ""})
    items = [Item(f"a.py::test_{name}") for name in ("b", "b[7]", "c[1]", "c[2]", "d")]
    mark(items)
    assert [bool(item.marks) for item in items] == [True, True, True, False, False]
    assert items[0].marks == [pytest.mark.exhaustive]
