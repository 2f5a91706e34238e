"""A loop over cases says of a claim what a parametrised test does: every case is tried, and who fails is named."""

import inspect

import pytest
from every_case import SHOWN, each


def test_every_case_is_tried_and_those_that_fail_are_named_and_shown():
    tried = []

    @each(("left", "right"), [(1, 1), (1, 2), pytest.param(3, 4, id="by hand"), (5, 5)])
    def claim(left, right):
        tried.append((left, right))
        assert left == right

    with pytest.raises(ExceptionGroup, match="2 of 4 cases fail: 1-2; by hand") as group:
        claim()
    assert tried == [(1, 1), (1, 2), (3, 4), (5, 5)]
    assert [failure.__notes__ for failure in group.value.exceptions] == [["case 1-2"], ["case by hand"]]


def test_an_error_that_did_not_come_is_a_failure_of_its_case_alone():
    @each("text", ["1", "one", "2"], ids=lambda text: f"<{text}>")
    def refused(text):
        with pytest.raises(ValueError):
            int(text)

    with pytest.raises(BaseExceptionGroup, match="2 of 3 cases fail: <1>; <2>"):
        refused()


def test_loops_nest_and_leave_fixtures_to_pytest():
    tried = []

    @each("outer", "ab", ids=["first", "second"])
    @each("inner", range(2))
    def claim(outer, tmp_path, inner):
        tried.append((outer, inner, tmp_path))

    assert list(inspect.signature(claim).parameters) == ["tmp_path"]
    claim(tmp_path="folder")
    assert tried == [(outer, inner, "folder") for outer in "ab" for inner in range(2)]


def test_all_failures_are_named_and_the_first_are_shown():
    @each("number", range(2 * SHOWN))
    def claim(number):
        assert number < 0

    with pytest.raises(ExceptionGroup) as group:
        claim()
    assert group.value.message.endswith(f"; {2 * SHOWN - 1}")
    assert len(group.value.exceptions) == SHOWN


def test_a_loop_without_cases_or_with_marks_proves_nothing_and_is_refused():
    with pytest.raises(AssertionError, match="no case"):
        each("number", [])(lambda number: None)()
    with pytest.raises(ValueError, match="no marks"):
        each("number", [pytest.param(1, marks=pytest.mark.skip)])


def test_cases_that_take_a_while_to_list_are_listed_when_the_test_runs():
    listed = []

    def cases():
        listed.append("now")
        return [1, 2]

    @each("number", cases)
    def claim(number):
        assert number == 1

    assert listed == []
    with pytest.raises(ExceptionGroup, match="1 of 2 cases fail: 2"):
        claim()
    assert listed == ["now"]
