"""Fields of a Hugging Face configuration, read strictly: whatever is wrong is refused by the field's name."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping
from typing import Any

from roofline.errors import BadSpec, printable, shown

__all__ = ["LARGEST", "MOST_LAYERS", "Fields"]

#: Largest count that a specification may hold, and the most layers: beyond, the file is damaged.
LARGEST = 1_000_000_000
MOST_LAYERS = 1000
_LONGEST_TEXT, _LONGEST_NAME, _LONGEST_FAULT = 10_000, 200, 1000  # [characters]


class Fields:
    """One mapping of a configuration; a field that is null counts as absent."""

    def __init__(self, values: Mapping[str, Any], where: str, prefix: str = "") -> None:
        self.values = values
        self.where = where
        self._prefix = prefix

    def fault(self, name: str, text: str) -> BadSpec:
        """What is wrong with a field, as an error to raise.

        Args:
            name: the field [text].
            text: what is wrong with it [text].

        Returns:
            The error.
        """
        said = printable(f"{self._prefix}{name[:_LONGEST_NAME]}: {text}")
        return BadSpec(f"{self.where}:1: {said if len(said) <= _LONGEST_FAULT else f'{said[:_LONGEST_FAULT]}...'}")

    def has(self, *names: str) -> bool:
        """Whether one of several fields is given.

        Args:
            names: the fields [text].

        Returns:
            True if any is there and not null.
        """
        return any(self.values.get(name) is not None for name in names)

    def pass_over(self, *names: str) -> None:
        """Note fields that mean nothing for the family, so that nobody takes them for overlooked.

        Args:
            names: the fields [text].
        """
        for name in names:
            self.values.get(name)

    def require(self, *names: str) -> None:
        """Refuse a configuration that lacks fields, naming all of them at once.

        Args:
            names: fields; ``a|b`` is satisfied by either [text].

        Raises:
            BadSpec: one is missing.
        """
        missing = [name.replace("|", " or ") for name in names if not self.has(*name.split("|"))]
        if missing:
            text = "missing" if len(missing) == 1 else "all missing"
            raise self.fault(", ".join(missing), f"{text}; needed to build the layers")

    def optional(self, *names: str, least: int = 1) -> int | None:
        """A whole number under the first of several names that is given.

        Args:
            names: the fields [text].
            least: smallest value allowed [1].

        Returns:
            The number, or None where no field is given [1].

        Raises:
            BadSpec: it is no whole number within bounds.
        """
        for name in names:
            value = self.values.get(name)
            if value is not None:
                return self._whole(name, value, least)
        return None

    def count(self, *names: str, default: int | None = None, least: int = 1) -> int:
        """A whole number that must be given where there is no default.

        Args:
            names: the fields [text].
            default: value where none is given [1].
            least: smallest value allowed [1].

        Returns:
            The number [1].

        Raises:
            BadSpec: it is missing, or no whole number within bounds.
        """
        value = self.optional(*names, least=least)
        if value is None:
            value = default
        if value is None:
            raise self.fault(" or ".join(names), "missing")
        return value

    def layers(self, *names: str) -> int:
        """Number of layers.

        Args:
            names: the fields [text].

        Returns:
            The number [1].

        Raises:
            BadSpec: it is missing, no whole number, or beyond any model.
        """
        names = names or ("num_hidden_layers",)
        layers = self.count(*names)
        if layers > MOST_LAYERS:
            raise self.fault(names[0], f"{layers} layers exceed the limit of {MOST_LAYERS}")
        return layers

    def flag(self, name: str, *, default: bool = False) -> bool:
        """True or false.

        Args:
            name: the field [text].
            default: value where it is not given [1].

        Returns:
            The value.

        Raises:
            BadSpec: it is neither.
        """
        value = self.values.get(name)
        if value is None:
            return default
        if not isinstance(value, bool):
            raise self.fault(name, f"{shown(value)} must be true or false")
        return value

    def number(self, name: str, default: float) -> float:
        """A positive number, whole or not.

        Args:
            name: the field [text].
            default: value where it is not given [1].

        Returns:
            The number [1].

        Raises:
            BadSpec: it is no positive finite number.
        """
        value = self.values.get(name)
        if value is None:
            return default
        if isinstance(value, bool) or not isinstance(value, (int, float)):
            raise self.fault(name, f"{shown(value)} must be a number")
        if not (0 < value <= LARGEST and math.isfinite(value)):
            raise self.fault(name, f"{shown(value)} must be above 0 and at most {LARGEST}")
        return float(value)

    def text(self, name: str) -> str | None:
        """A text.

        Args:
            name: the field [text].

        Returns:
            The text, or None where it is not given.

        Raises:
            BadSpec: it is no text.
        """
        value = self.values.get(name)
        if value is not None and not isinstance(value, str):
            raise self.fault(name, f"{shown(value)} must be text")
        if value is not None and len(value) > _LONGEST_TEXT:
            raise self.fault(name, f"text of {len(value)} characters exceeds the limit of {_LONGEST_TEXT}")
        return value

    def counts(self, name: str, length: int | None = None, *, least: int = 0) -> list[int] | None:
        """A list of whole numbers.

        Args:
            name: the field [text].
            length: entries that it must have, where that is known [1].
            least: smallest value allowed [1].

        Returns:
            The list, or None where it is not given.

        Raises:
            BadSpec: it is no such list.
        """
        items = self._items(name, length)
        return None if items is None else [self._whole(name, item, least) for item in items]

    def choices(self, name: str, allowed: Collection[str], length: int | None = None) -> list[str] | None:
        """A list of words out of a few.

        Args:
            name: the field [text].
            allowed: the words [text].
            length: entries that it must have, where that is known [1].

        Returns:
            The list, or None where it is not given.

        Raises:
            BadSpec: it is no such list.
        """
        items = self._items(name, length)
        for item in items or ():
            if not isinstance(item, str) or item not in allowed:
                raise self.fault(name, f"{shown(item)} is not supported; only {', '.join(sorted(allowed))}")
        return items

    def section(self, name: str) -> Fields | None:
        """A mapping inside this one.

        Args:
            name: the field [text].

        Returns:
            Its fields, or None where it is not given.

        Raises:
            BadSpec: it is no mapping.
        """
        value = self.values.get(name)
        if value is None:
            return None
        if not isinstance(value, Mapping):
            raise self.fault(name, f"{shown(value)} must be a mapping")
        return Fields(value, self.where, f"{self._prefix}{name[:_LONGEST_NAME]}.")

    def sections(self, name: str, length: int | None = None) -> list[Fields]:
        """A list of mappings.

        Args:
            name: the field [text].
            length: entries that it must have, where that is known [1].

        Returns:
            The fields of each.

        Raises:
            BadSpec: it is no such list.
        """
        found = []
        for position, item in enumerate(self._items(name, length) or ()):
            if not isinstance(item, Mapping):
                raise self.fault(name, f"{shown(item)} must be a mapping")
            found.append(Fields(item, self.where, f"{self._prefix}{name}.{position}."))
        return found

    def divided(self, name: str, whole: int, parts: int) -> int:
        """A share that must come out even.

        Args:
            name: field to blame [text].
            whole: what is divided [1].
            parts: by how much [1].

        Returns:
            The quotient [1].

        Raises:
            BadSpec: there is a remainder.
        """
        if parts > whole or whole % parts:
            raise self.fault(name, f"{parts} does not divide {whole}")
        return whole // parts

    def _items(self, name: str, length: int | None) -> list[Any] | None:
        value = self.values.get(name)
        if value is None:
            return None
        if not isinstance(value, list):
            raise self.fault(name, f"{shown(value)} must be a list")
        if length is not None and len(value) != length:
            raise self.fault(name, f"has {len(value)} entries for {length} layers")
        return value

    def _whole(self, name: str, value: object, least: int) -> int:
        if isinstance(value, bool) or not isinstance(value, int):
            raise self.fault(name, f"{shown(value)} must be a whole number")
        if not least <= value <= LARGEST:
            raise self.fault(name, f"{shown(value)} must be between {least} and {LARGEST}")
        return value
