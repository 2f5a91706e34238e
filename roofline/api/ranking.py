"""The order of ranked answers under an SLO: one rule for every question about several GPUs, plans or levers."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, TypeVar

from roofline.serving.verdict import LIKELY, PASS

_Answer = TypeVar("_Answer")


def meets(word: Any) -> bool:
    """Whether a verdict says that the central estimate meets the SLO; False where it is not known, and without an SLO.

    >>> [meets(word) for word in ("pass", "pass?", "fail?", "fail", None)]
    [True, True, False, False, False]
    """
    return word in (PASS, LIKELY)


def meeting_first(answers: Iterable[_Answer], word_of: Callable[[_Answer], Any]) -> list[_Answer]:
    """Ranked answers, those that meet the SLO before all others; otherwise in their order, as without an SLO.

    >>> meeting_first(["fail", "pass?", "fail?", "pass"], str)
    ['pass?', 'pass', 'fail', 'fail?']
    """
    return sorted(answers, key=lambda answer: not meets(word_of(answer)))
