"""What numbers of an answer are for a type checker: floats of one case, arrays of many."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

__all__ = ["Flag", "Json", "Number", "Numbers", "Word"]

if TYPE_CHECKING:  # at run time neither numpy nor the defaults of PEP 696 are there
    from typing_extensions import TypeVar as TypeVarWithDefault

    Number = TypeVarWithDefault("Number", bound=Any, default=float)
    Flag = TypeVarWithDefault("Flag", bound=Any, default=bool)
    Word = TypeVarWithDefault("Word", bound=Any, default=str)
else:
    Number, Flag, Word = (TypeVar(name) for name in ("Number", "Flag", "Word"))

#: A number of one case, as a text such as 4k, too; or a list, an array or a column of them, one a case.
Numbers: TypeAlias = float | str | Iterable[float | str]

#: What JSON holds: texts, numbers, and lists or mappings of them.
Json: TypeAlias = "str | float | Sequence[Json] | Mapping[str, Json] | None"
