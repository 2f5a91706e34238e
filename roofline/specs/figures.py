"""How files state a number: types of fields that need more than a float."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Annotated

#: A time [s]; files state it as text with a unit.
Seconds = Annotated[float, "s"]
#: An amount of memory [B]; files state it as text with a unit.
Bytes = Annotated[float, "B"]
#: A share, above 0 and at most 1.
Share = Annotated[float, "share"]


@cache
def declared(record: type) -> Mapping[str, str]:
    """Field -> type as written, e.g. ``Seconds`` or ``int | None``; the module must postpone its annotations."""
    return dict(record.__annotations__)
