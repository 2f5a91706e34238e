"""Two tiers of tests: a quick one that every run takes, and an exhaustive one of the same claims over more cases.

`python -m pytest` is the quick tier: every claim, on cases that stand for the others. `python -m pytest -m exhaustive`
is the rest: the tests that `tests/exhaustive.txt` lists, each beside the quick one that keeps its claim, those marked
`exhaustive`, and those of the quick tier that have more cases than it takes: loops over `some` cases, random examples.
"""

from pathlib import Path

import pytest

#: Tests of the second tier, each beside what keeps its claim in the first.
LISTED = Path(__file__).with_name("exhaustive.txt")
HOME = Path(__file__).parents[1]
#: Random examples of a property, in the quick tier and in the exhaustive one.
EXAMPLES, MORE_EXAMPLES = 6, 20

_is_quick = True


def begin(expression):
    """Begin a run of the tests that an expression of marks selects: what it does not leave out is exhaustive."""
    global _is_quick  # noqa: PLW0603  one run, one tier; before any test is collected
    _is_quick = "not exhaustive" in expression


def some(cases, few):
    """All cases in the exhaustive tier; in the quick one `few` of them, from the first to the last, evenly apart.

    >>> some(range(10), 4)
    [0, 3, 6, 9]
    >>> some("abc", 5)
    ['a', 'b', 'c']
    """
    cases = list(cases)
    if not _is_quick or len(cases) <= few:
        return cases
    return [cases[place * (len(cases) - 1) // (few - 1)] for place in range(few)] if few > 1 else cases[:1]


def times(few, all_of_them):
    """How often something is tried: a few times in the quick tier."""
    return few if _is_quick else all_of_them


def has_more_cases(test):
    """Mark of a test that tries more cases in the exhaustive tier, which therefore runs it as well."""
    return test if _is_quick else pytest.mark.exhaustive(test)


def listed():
    """Names of the tests that are listed, by what keeps their claim."""
    lines = (line for line in LISTED.read_text(encoding="utf-8").splitlines() if line and not line.startswith("#"))
    return dict(map(str.strip, line.split(" < ")) for line in lines)


def mark(items):
    """Mark the tests of the exhaustive tier: those listed, by function or by case, and properties of random cases."""
    names = listed()
    for item in items:
        name = item.nodeid
        is_random = getattr(getattr(item, "obj", None), "is_hypothesis_test", False)
        if name in names or name.partition("[")[0] in names or (is_random and not _is_quick):
            item.add_marker(pytest.mark.exhaustive)
