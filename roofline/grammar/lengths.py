"""Prompt and answer length from one word such as 8k1k."""

from __future__ import annotations

import re

from roofline.errors import BadInput, shown
from roofline.grammar.numbers import whole_of_text
from roofline.quantity import BILLION

_SIZE = r"[0-9]{1,12}(?:\.[0-9]{1,12})?[km]?"
_WORD = rf"({_SIZE})(?:(?<=[km])|\s*[/x:]\s*)({_SIZE})"
_WORDS = r"[a-z~./\\]"


def lengths_of_text(text: str) -> tuple[int, int] | None:
    """Prompt and answer length [tokens] from one word; None for the name or the path of a workload.

    >>> lengths_of_text("8k1k"), lengths_of_text("2000x300"), lengths_of_text("chat")
    ((8192, 1024), (2000, 300), None)
    """
    stripped = text.strip()
    if re.match(_WORDS, stripped, re.IGNORECASE):
        return None
    match = re.fullmatch(_WORD, stripped, re.IGNORECASE)
    try:
        lengths = None if match is None else (whole_of_text(match[1]), whole_of_text(match[2]))
    except BadInput:
        lengths = None
    if lengths is None or max(lengths) > BILLION:
        raise BadInput(f"{shown(text)} is not a workload such as 1k1k, 8k1k or 2000x300, nor the name of one")
    return lengths
