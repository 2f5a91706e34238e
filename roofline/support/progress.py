"""How far loops over many answers have come, for whoever shows it: a command on its terminal, or a notebook."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from time import monotonic
from typing import Any, TypeVar

_Item = TypeVar("_Item")
#: Time before how far a loop is shown at first, and between two times [s].
PATIENCE, PERIOD = 1.0, 0.2
OFF = "ROOFLINE_PROGRESS"  # an environment variable: 0 shows nothing in notebooks
#: What is counted, how many are done, and of how many, of each loop that runs; the outermost first. Of a loop that
#: says how fast it is also how many were done before it began, and when that was [s].
_counts: list[list[Any]] = []


@contextmanager
def counting(what: str, total: int, *, before: int | None = None) -> Iterator[Callable[[int], None]]:
    """A function that takes how many of them are done; `before` it began, of a loop that says how fast it is."""
    count: list[Any] = [what, before or 0, total, *([] if before is None else [before, monotonic()])]
    line = _Line() if not _counts and _in_notebook() else None
    if line is not None:
        _lines.append(line)
    _counts.append(count)
    try:
        yield _shown(count) if _lines else lambda done: count.__setitem__(1, done)
    finally:
        _counts.remove(count)
        if line is not None:
            _lines.remove(line)
            line.write("")


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
    several = (_text(*count) for count in tuple(_counts) if count[2] != 1)
    return next(several, "")


def _text(what: str, done: int, total: int, before: int | None = None, start: float = 0.0) -> str:
    if before is None:
        return f"{done} of {total} {what}"
    text = f"{done:,} of {total:,} {what}"
    took = monotonic() - start
    if done <= before or took <= 0.0:
        return text
    rate = (done - before) / took
    return f"{text}, {_rate_text(rate)} {what}/s, {_time_text((total - done) / rate)} left"


def _rate_text(rate: float) -> str:
    return f"{rate:,.0f}" if rate >= 10.0 else f"{rate:.2g}"


def _time_text(seconds: float) -> str:
    """A time to wait, in the two largest of its units.

    >>> _time_text(42.0), _time_text(185.0), _time_text(90061.0)
    ('42 s', '3 min 5 s', '25 h 1 min')
    """
    whole = int(seconds + 0.5)
    minutes, hours = whole // 60, whole // 3600
    if hours:
        return f"{hours} h {minutes % 60} min"
    return f"{minutes} min {whole % 60} s" if minutes else f"{whole} s"


# A notebook has no terminal and no timer: its loops show themselves, on a line that is written over.


class _Line:
    def __init__(self) -> None:
        self.text, self.due = "", monotonic() + PATIENCE

    def write(self, text: str) -> None:
        """Replace the line."""
        if text == self.text or sys.stderr is None:
            return
        sys.stderr.write(f"\r{' ' * len(self.text)}\r{text}")
        sys.stderr.flush()
        self.text, self.due = text, monotonic() + PERIOD


_lines: list[_Line] = []  # of the outermost loop, in a notebook


def _shown(count: list[Any]) -> Callable[[int], None]:
    def shown(done: int) -> None:
        count[1] = done
        for line in _lines:
            text = progress_text() if monotonic() >= line.due else ""
            if text:
                line.write(f"{text} ...")

    return shown


def _in_notebook() -> bool:
    """Whether a kernel of Jupyter runs this, and nobody has switched progress off."""
    shell = getattr(sys.modules.get("IPython"), "get_ipython", lambda: None)()
    return getattr(shell, "kernel", None) is not None and os.environ.get(OFF) != "0"
