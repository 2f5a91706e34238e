"""One line on the terminal, while an answer takes longer than a second, of how far it is."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

from roofline.support.progress import PATIENCE, PERIOD, progress_text

_WORKING = "working"  # where nothing is counted
_stop: list[Callable[[], object]] = []  # what ends the timer that runs
_shown = ""  # the line on the terminal


@contextmanager
def progress() -> Iterator[None]:
    """Show how far the answer is until something is printed; on a terminal, where the system has timers."""
    if sys.stderr is None or not sys.stderr.isatty():
        yield
        return
    import signal
    import threading

    if not hasattr(signal, "setitimer") or threading.current_thread() is not threading.main_thread():
        yield
        return
    signal.signal(signal.SIGALRM, _show)
    signal.setitimer(signal.ITIMER_REAL, PATIENCE, PERIOD)
    _stop.append(lambda: signal.setitimer(signal.ITIMER_REAL, 0.0))
    try:
        yield
    finally:
        end_progress()


_LOGGED = 60.0  # time between two lines where there is no terminal [s]


@contextmanager
def log_progress() -> Iterator[None]:
    """Where there is no terminal, print a line a minute of how far a loop is."""
    if sys.stderr is None or sys.stderr.isatty():
        yield
        return
    import signal
    import threading

    if not hasattr(signal, "setitimer") or threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGALRM, _log)
    signal.setitimer(signal.ITIMER_REAL, _LOGGED, _LOGGED)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0.0)
        signal.signal(signal.SIGALRM, before)


def _log(*_: Any) -> None:
    text = progress_text()
    if text:
        with suppress(OSError, ValueError):
            os.write(sys.stderr.fileno(), f"{text}\n".encode())


def end_progress() -> None:
    """Show no more, and clear the line; called before anything is printed."""
    while _stop:
        _stop.pop()()
        _write("")


def _show(*_: Any) -> None:
    _write(f"{progress_text() or _WORKING} ...")


def _write(line: str) -> None:
    """Replace the line; past the stream, whose buffer may be in use when the timer rings."""
    global _shown
    if line == _shown:
        return
    blank, _shown = " " * len(_shown), line  # before it is written: Ctrl-C may come in between
    with suppress(OSError, ValueError):
        os.write(sys.stderr.fileno(), f"\r{blank}\r{line}".encode())
