"""How far loops over many answers have come, for whoever shows it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TypeVar

_Item = TypeVar("_Item")
#: What is counted, how many are done, and of how many, of each loop that runs; the outermost first.
_counts: list[list[int | str]] = []


@contextmanager
def counting(what: str, total: int) -> Iterator[Callable[[int], None]]:
    """A function that takes how many of them are done."""
    count: list[int | str] = [what, 0, total]
    _counts.append(count)
    try:
        yield lambda done: count.__setitem__(1, done)
    finally:
        _counts.remove(count)


def each(items: Sequence[_Item], what: str) -> Iterator[_Item]:
    """Items one after the other, counted."""
    with counting(what, len(items)) as done:
        for place, item in enumerate(items):
            done(place)
            yield item


def progress_text() -> str:
    """Text such as ``12 of 58 GPUs`` of the outermost loop of several; empty where there is none.

    >>> [progress_text() for _ in each("abc", "letters")][1:], progress_text()
    (['1 of 3 letters', '2 of 3 letters'], '')
    """
    several = (f"{done} of {total} {what}" for what, done, total in tuple(_counts) if total != 1)
    return next(several, "")
