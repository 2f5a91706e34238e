"""Order of versions."""

from __future__ import annotations

import re


def place_of(version: str) -> float:
    """Place of a version among others: two digits for each of its numbers.

    >>> place_of("0.5.6.post2") < place_of("0.5.14") < place_of("1.3.0rc20")
    True
    """
    return sum(int(number) / 100.0**place for place, number in enumerate(re.findall(r"\d+", version)[:5]))
