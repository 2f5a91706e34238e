"""Sessions as callers write them: their turns, pauses and growth."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from roofline.numbers.quantity import HOUR, MEGA
from roofline.questions.inputs.arguments import number, scalar
from roofline.specs.sessions import Sessions
from roofline.specs.written import number_of_text, read_as, time_of_text, whole_of_text
from roofline.support.errors import BadInput, shown

_EXAMPLE = "in:800,out:300"
_MOST_TURNS = 10_000
_DAY = 24.0 * HOUR


def sessions_of(turns: Any, think: Any, grow: Any, system: Any) -> Sessions | None:
    """Sessions from options; None where none is given.

    >>> sessions_of(20, "5s", "in:800,out:300", "2k")
    Sessions(turns=20, think=5.0, new=800.0, answer=300.0, system=2048.0)
    """
    if all(value is None for value in (turns, think, grow, system)):
        return None
    if turns is None or grow is None:
        raise BadInput(f"sessions need turns and grow, what each adds, such as turns = 20, grow = {_EXAMPLE!r}")
    count = read_as("turns: ", whole_of_text, turns) if isinstance(turns, str) else scalar(turns)
    if type(count) is float and count.is_integer():
        count = int(count)
    if type(count) is not int or not 1 <= count <= _MOST_TURNS:
        raise BadInput(f"turns = {shown(turns)} must be a whole number from 1 to {_MOST_TURNS:,}")
    pause = read_as("think: ", time_of_text, think) if isinstance(think, str) else think
    start = read_as("system: ", number_of_text, system) if isinstance(system, str) else system
    new, answer = _grown(grow)
    return Sessions(
        count,
        0.0 if pause is None else number("think", pause, 0.0, _DAY),
        new,
        answer,
        0.0 if start is None else number("system", start, 0.0, MEGA),
    )


def _grown(grow: Any) -> tuple[float, float]:
    """Tokens that a turn adds to the prompt, and of its answer."""
    if isinstance(grow, str):
        parts = [part.partition(":") for part in grow.split(",")]
        given = {name.strip().lower(): value.strip() for name, _, value in parts}
        if len(given) != len(parts):
            raise BadInput(f"grow = {shown(grow)} states one of them twice; write {_EXAMPLE}")
    elif isinstance(grow, Mapping):
        given = dict(grow)
    else:
        raise BadInput(f"grow = {shown(grow)} must say what a turn adds; write {_EXAMPLE}")
    if set(given) != {"in", "out"}:
        raise BadInput(
            f"grow = {shown(grow)} must state in, new tokens of the prompt, and out, of the answer: {_EXAMPLE}"
        )
    new, answer = (
        number(f"grow {name}", read_as("grow: ", number_of_text, value) if isinstance(value, str) else value, 1.0, MEGA)
        for name, value in ((name, given[name]) for name in ("in", "out"))
    )
    return new, answer
