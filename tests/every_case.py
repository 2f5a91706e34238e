"""Many cases of one claim are one test: each is tried, and those that fail are named and shown together.

A parametrised test costs pytest a few milliseconds a case, in every worker that collects it: more than most claims
about a file or a function take to check. So a claim of many small cases is a loop, and `each` writes it.
"""

import functools
import inspect

import pytest
import tiers

#: Failures that are shown in full; all are named.
SHOWN = 5


def each(names, cases, ids=None, few=None):
    """Like `pytest.mark.parametrize`, but one test, which fails once for all cases that fail.

    Cases that take a while to list may be a function that lists them: only the worker that runs the test calls it.
    Where the quick tier is to try a `few` of them only, the exhaustive one tries all.

    >>> @each("number", [1, 2, 3])
    ... def test_a_number_is_below_two(number):
    ...     assert number < 2
    >>> test_a_number_is_below_two()
    Traceback (most recent call last):
    ...
    ExceptionGroup: 2 of 3 cases fail: 2; 3 (2 sub-exceptions)
    """
    names = [name.strip() for name in names.split(",")] if isinstance(names, str) else list(names)
    if not callable(cases):
        cases = list(_labelled(names, cases, ids))

    def loop_of(test):
        @functools.wraps(test)
        def loop(**fixtures):
            labelled = list(_labelled(names, cases(), ids)) if callable(cases) else cases
            labelled = labelled if few is None else tiers.some(labelled, few)
            if not labelled:
                raise AssertionError(f"{test.__name__} has no case")
            failures = []
            for label, values in labelled:
                try:
                    test(**dict(zip(names, values, strict=True)), **fixtures)
                except (Exception, BaseExceptionGroup, pytest.fail.Exception) as failure:  # noqa: BLE001  all are raised again, together
                    failure.add_note(f"case {label}")
                    failures.append((label, failure))
            if failures:
                said = f"{len(failures)} of {len(labelled)} cases fail: {'; '.join(label for label, _ in failures)}"
                raise BaseExceptionGroup(said, [failure for _, failure in failures[:SHOWN]])

        signature = inspect.signature(test)
        fixtures = [entry for name, entry in signature.parameters.items() if name not in names]
        loop.__signature__ = signature.replace(parameters=fixtures)
        return loop if few is None else tiers.has_more_cases(loop)

    return loop_of


def _labelled(names, cases, ids):
    """Every case as its label and its values, one for each name."""
    cases = list(cases)
    ids = ids if callable(ids) else list(ids or [None] * len(cases))
    for place, case in enumerate(cases):
        label = getattr(case, "id", None) if callable(ids) else ids[place] or getattr(case, "id", None)
        if hasattr(case, "marks"):  # a pytest.param
            if case.marks:
                raise ValueError("a case of a loop has no marks of its own")
            values = case.values
        else:
            values = (case,) if len(names) == 1 else tuple(case)
        label = label or "-".join(str(ids(value) if callable(ids) else _label(value)) for value in values)
        yield label, values


def _label(value):
    text = getattr(value, "__name__", None) or repr(value)
    return text if len(text) <= 80 else f"{text[:77]}..."
