"""Types of the numbers in an answer: floats for one case, arrays for many."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

if TYPE_CHECKING:  # at run time neither numpy nor the defaults of PEP 696 are there
    from typing_extensions import TypeVar as TypeVarWithDefault

    Number = TypeVarWithDefault("Number", bound=Any, default=float)
    Flag = TypeVarWithDefault("Flag", bound=Any, default=bool)
    Word = TypeVarWithDefault("Word", bound=Any, default=str)
else:
    Number, Flag, Word = (TypeVar(name) for name in ("Number", "Flag", "Word"))

#: A number, or a text such as 4k, for one case; a list, an array or a column with one for each of many.
Numbers: TypeAlias = float | str | Iterable[float | str]

#: What JSON holds.
Json: TypeAlias = "str | float | Sequence[Json] | Mapping[str, Json] | None"
