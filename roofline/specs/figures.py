"""What kind of number a field of a record holds, where that decides how a file states it."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Annotated

__all__ = ["Seconds", "Share", "declared"]

#: A time; a file states it as a text with its unit.
Seconds = Annotated[float, "s"]
#: A share of a rate or an amount: above 0, at most 1.
Share = Annotated[float, "share"]


@cache
def declared(record: type) -> Mapping[str, str]:
    """Types of the fields of a record, as it writes them.

    Args:
        record: a dataclass without a base, whose module postpones its annotations [type].

    Returns:
        Field -> type, e.g. ``Seconds`` or ``int | None`` [text].
    """
    return dict(record.__annotations__)
