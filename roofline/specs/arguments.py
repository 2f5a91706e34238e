"""Command-line arguments of serving engines: which version knows which, and what values they take."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping
from typing import Any

from roofline.numbers.quantity import GIGA, KIBI, KILO, MEGA, TERA
from roofline.specs.versions import place_of
from roofline.support.errors import BadInput, UnknownName, did_you_mean, shown
from roofline.support.records import dataclass

#: Types of an argument's value; a switch takes none, a switch with an opposite may be written ``--no-...``.
TYPES = ("int", "float", "str", "json", "choice", "list", "bool", "bool-no")
SWITCHES = ("bool", "bool-no")

#: How numbers with suffixes are read: k is 1000 and K is 1024; or k is 1000 and Ki is 1024.
LETTERS, BINARY = "letters", "binary"
_POWERS = ("k", "m", "g", "t")
_SCALES: Mapping[str, Mapping[str, float]] = {
    LETTERS: {
        **dict(zip(_POWERS, (KILO, MEGA, GIGA, TERA), strict=True)),
        **{letter.upper(): KIBI**power for power, letter in enumerate(_POWERS, 1)},
    },
    BINARY: {
        **dict(zip(("k", "M", "G", "T"), (KILO, MEGA, GIGA, TERA), strict=True)),
        **{f"{letter.upper()}i": KIBI**power for power, letter in enumerate(_POWERS, 1)},
    },
}
_HUMAN = re.compile(r"(\d+(?:\.\d+)?)([kKmMgGtT]i?)")


@dataclass(frozen=True, slots=True)
class Argument:
    """One argument of an engine's server, over its versions."""

    name: str  # --max-num-seqs; in a file of settings kv_cache_config.dtype
    type: str = "str"  # of TYPES
    aliases: tuple[str, ...] = ()
    least: float | None = None
    most: float | None = None
    human: str = ""  # how 32k is read: `LETTERS`, `BINARY`; empty: not at all
    choices: tuple[tuple[str, tuple[str, ...]], ...] = ()  # first version -> values that it takes
    default: tuple[tuple[str, Any], ...] = ()  # first version -> value where nothing is said
    since: str = ""  # first version that knows it; empty: the oldest
    until: str = ""  # last version that knows it; empty: the newest

    def is_known_to(self, version: str) -> bool:
        """Whether a version of the engine has it."""
        place = place_of(version)
        begun = not self.since or place >= place_of(self.since)
        return begun and (not self.until or place <= place_of(self.until))

    def choices_of(self, version: str) -> tuple[str, ...]:
        """Values that a version takes; empty where any text will do."""
        return _of_version(self.choices, version) or ()

    def default_of(self, version: str) -> Any:
        """Value in a version where nothing is said; None where it depends, or is not known."""
        return _of_version(self.default, version)

    def value(self, text: str, version: str) -> Any:
        """The value that a text stands for, as the parser of the engine reads it.

        >>> Argument("--max-model-len", "int", human=LETTERS).value("32k", "0.33.0")
        32000
        """
        if self.type == "int":
            return self._bounded(self._whole(text), text)
        if self.type == "float":
            return self._bounded(_number(text, float, self.name, "a number"), text)
        if self.type == "json":
            return _number(text, json.loads, self.name, "JSON")
        known = self.choices_of(version)
        if known and text not in known:
            raise BadInput(f"{self.name} {shown(text)} is not a value of version {version}: {', '.join(known)}")
        return text

    def _whole(self, text: str) -> int:
        scaled = _HUMAN.fullmatch(text.strip()) if self.human else None
        if scaled is None:
            return int(_number(text, int, self.name, "a whole number"))
        number, suffix = scaled.groups()
        factor = _SCALES[self.human].get(suffix)
        if factor is None:
            raise BadInput(f"{self.name} {shown(text)}: known suffixes are {', '.join(_SCALES[self.human])}")
        is_binary = suffix.endswith("i") if self.human == BINARY else suffix.isupper()
        if is_binary and "." in number:
            raise BadInput(
                f"{self.name} {shown(text)}: {suffix} stands for a power of two, which takes whole numbers only"
            )
        value = float(number) * factor
        if not math.isfinite(value):
            raise BadInput(f"{self.name} {shown(text)} is too large")
        return int(value)  # what is below a token is cut off, as vLLM does

    def _bounded(self, value: Any, text: str) -> Any:
        too_small = self.least is not None and value < self.least
        too_large = self.most is not None and value > self.most
        if too_small or too_large:
            bound = f"at least {self.least:g}" if too_small else f"at most {self.most:g}"
            raise BadInput(f"{self.name} {shown(text)} must be {bound}")
        if isinstance(value, float) and not math.isfinite(value):
            raise BadInput(f"{self.name} {shown(text)} is not a finite number")
        return value


@dataclass(frozen=True, slots=True)
class Arguments:
    """Arguments of an engine's server."""

    engine: str
    title: str
    versions: tuple[str, ...]  # that were read, the oldest first
    arguments: Mapping[str, Argument]
    source: str = ""  # address of the definitions, with {version}

    def version_of(self, text: str) -> str:
        """The version that was read for one that is asked for, else the newest release; an unknown one is refused.

        A patch release has the arguments of the last version that was read of its minor release.
        """
        if not text:
            return [version for version in self.versions if version.replace(".", "").isdigit()][-1]
        wanted = place_of(text)
        minor = _minor(text)
        alike = [version for version in self.versions if _minor(version) == minor and place_of(version) <= wanted]
        alike = alike or [version for version in self.versions if _minor(version) == minor][:1]
        if not alike:
            known = ", ".join(dict.fromkeys(map(_minor, self.versions)))
            raise UnknownName(f"arguments of {self.title} {text} are not known here; known versions: {known}")
        return alike[-1]

    def named(self, name: str, version: str) -> Argument:
        """The argument with this name or alias in a version."""
        found = next((each for each in self.candidates(name) if each.is_known_to(version)), None)
        if found is not None:
            return found
        others = self.candidates(name)
        if others:
            raise UnknownName(f"{self.title} {version} does not know {name}{_range_text(others[0])}")
        from difflib import get_close_matches

        known = [each.name for each in self.arguments.values() if each.is_known_to(version)]
        raise UnknownName(
            f"{self.title} {version} does not know {name}{did_you_mean(get_close_matches(name, known, 3))}"
        )

    def beginning_with(self, text: str, version: str) -> list[Argument]:
        """Arguments of a version of whose names or aliases a text is the beginning."""
        return [
            each
            for each in self.arguments.values()
            if each.is_known_to(version) and any(name.startswith(text) for name in (each.name, *each.aliases))
        ]

    def candidates(self, name: str) -> list[Argument]:
        """Arguments with this name or alias in any version."""
        first = self.arguments.get(name)
        return [
            *([] if first is None else [first]),
            *(each for each in self.arguments.values() if name in each.aliases and each is not first),
        ]


def _minor(version: str) -> str:
    return ".".join(re.findall(r"\d+", version)[:2])


def _range_text(argument: Argument) -> str:
    if argument.since and argument.until:
        return f"; versions {argument.since} to {argument.until} do"
    return f"; versions from {argument.since} on do" if argument.since else f"; versions up to {argument.until} do"


def _of_version(values: tuple[tuple[str, Any], ...], version: str) -> Any:
    """The value of the newest entry that a version has reached."""
    place = place_of(version)
    held = [value for first, value in values if place_of(first) <= place]
    return held[-1] if held else None


def _number(text: str, read: Any, name: str, what: str) -> Any:
    try:
        return read(text)
    except (ValueError, RecursionError):  # JSON may be nested too deep
        raise BadInput(f"{name} {shown(text)} is not {what}") from None
