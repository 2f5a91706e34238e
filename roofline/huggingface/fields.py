"""Fields of a Hugging Face configuration, read strictly: errors name the field."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping
from typing import Any

from roofline.errors import BadSpec, printable, shown

#: Largest count and most layers of a configuration; a file with more is damaged.
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
        """The error to raise for a field."""
        message = printable(f"{self._prefix}{name[:_LONGEST_NAME]}: {text}")
        if len(message) > _LONGEST_FAULT:
            message = f"{message[:_LONGEST_FAULT]}..."
        return BadSpec(f"{self.where}:1: {message}")

    def has(self, *names: str) -> bool:
        """Whether any of the fields is there and not null."""
        return any(self.values.get(name) is not None for name in names)

    def pass_over(self, *names: str) -> None:
        """Mark fields without a meaning for the family as read, so that `check_unread` accepts them."""
        for name in names:
            self.values.get(name)

    def require(self, *names: str) -> None:
        """Refuse a configuration that lacks fields, naming them all; ``a|b`` is satisfied by either."""
        missing = [name.replace("|", " or ") for name in names if not self.has(*name.split("|"))]
        if missing:
            text = "missing" if len(missing) == 1 else "all missing"
            raise self.fault(", ".join(missing), f"{text}; needed to build the layers")

    def optional(self, *names: str, least: int = 1) -> int | None:
        """A whole number under the first of the names that is there; None without any."""
        for name in names:
            value = self.values.get(name)
            if value is not None:
                return self._whole(name, value, least)
        return None

    def count(self, *names: str, default: int | None = None, least: int = 1) -> int:
        """A whole number under the first of the names that is there; required unless there is a default."""
        value = self.optional(*names, least=least)
        if value is None:
            value = default
        if value is None:
            raise self.fault(" or ".join(names), "missing")
        return value

    def layers(self, *names: str) -> int:
        names = names or ("num_hidden_layers",)
        layers = self.count(*names)
        if layers > MOST_LAYERS:
            raise self.fault(names[0], f"{layers} layers exceed the limit of {MOST_LAYERS}")
        return layers

    def flag(self, name: str, *, default: bool = False) -> bool:
        value = self.values.get(name)
        if value is None:
            return default
        if not isinstance(value, bool):
            raise self.fault(name, f"{shown(value)} must be true or false")
        return value

    def number(self, name: str, default: float) -> float:
        """A positive finite number."""
        value = self.values.get(name)
        if value is None:
            return default
        if isinstance(value, bool) or not isinstance(value, (int, float)):
            raise self.fault(name, f"{shown(value)} must be a number")
        if not (0 < value <= LARGEST and math.isfinite(value)):
            raise self.fault(name, f"{shown(value)} must be above 0 and at most {LARGEST}")
        return float(value)

    def text(self, name: str) -> str | None:
        value = self.values.get(name)
        if value is not None and not isinstance(value, str):
            raise self.fault(name, f"{shown(value)} must be text")
        if value is not None and len(value) > _LONGEST_TEXT:
            raise self.fault(name, f"text of {len(value)} characters exceeds the limit of {_LONGEST_TEXT}")
        return value

    def counts(self, name: str, length: int | None = None, *, least: int = 0) -> list[int] | None:
        items = self._items(name, length)
        return None if items is None else [self._whole(name, item, least) for item in items]

    def choices(self, name: str, allowed: Collection[str], length: int | None = None) -> list[str] | None:
        """A list of words that are all among the allowed ones."""
        items = self._items(name, length)
        for item in items or ():
            if not isinstance(item, str) or item not in allowed:
                raise self.fault(name, f"{shown(item)} is not supported; only {', '.join(sorted(allowed))}")
        return items

    def section(self, name: str) -> Fields | None:
        """A nested mapping; None where it is absent."""
        value = self.values.get(name)
        if value is None:
            return None
        if not isinstance(value, Mapping):
            raise self.fault(name, f"{shown(value)} must be a mapping")
        return Fields(value, self.where, f"{self._prefix}{name[:_LONGEST_NAME]}.")

    def sections(self, name: str, length: int | None = None) -> list[Fields]:
        sections = []
        for position, item in enumerate(self._items(name, length) or ()):
            if not isinstance(item, Mapping):
                raise self.fault(name, f"{shown(item)} must be a mapping")
            sections.append(Fields(item, self.where, f"{self._prefix}{name}.{position}."))
        return sections

    def divided(self, name: str, total: int, parts: int) -> int:
        """The quotient, which must be whole; `name` is the field to blame."""
        if parts > total or total % parts:
            raise self.fault(name, f"{parts} does not divide {total}")
        return total // parts

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
