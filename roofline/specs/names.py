"""Look-up of catalog entries by name.

The first step with a result decides: names and aliases with case and separators folded; the same with dots and the
seams between letters and digits folded too; a unique prefix. Nothing is guessed: an ambiguous name is refused with
its
candidates, and an answer says how a prefix was read.

"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from functools import cache
from os.path import commonprefix
from typing import Annotated

from roofline.specs.formats import base_names, format_in_name
from roofline.support.errors import UnknownName, printable
from roofline.support.records import NamedTuple

#: Kind of entry -> its word in messages.
LABELS = {"gpu": "GPU", "model": "model", "engine": "engine profile"}

_SEPARATORS = re.compile(r"[\s_-]+")
_SEAMS = r"\.|(?<=[a-z])(?=\d)|(?<=\d)(?=[a-z])"
_REST_OF_A_NUMBER = r"[\d.]|-\d+(?:-|$)"  # after a digit: b20 is not a prefix of b200, nor k2 of k2.5
_SHORTEST_PREFIX = 3
_LONGEST_NAME = 200
# Invisible letters and marks: fillers, the Braille blank, variation selectors.
_INVISIBLE = "[\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u2800\u3164\ufe00-\ufe0f\uffa0\U000e0100-\U000e01ef]"
_QUOTES = "\"'`\\"  # and the backslash, which hides one
_MOST_CANDIDATES = 12


class Entry(NamedTuple):
    """A file and the folded names that it answers to: canonical, then aliases."""

    path: str
    names: tuple[str, ...]
    own: bool = False  # the user's: checked against the schema
    vendor: str = ""  # folded; may stand before the name of a GPU

    @property
    def short(self) -> str:
        """Name in lists: a GPU's canonical name, a model's without its organisation."""
        name = self.names[0]
        return name if "/" not in name else next(iter(self.names[1:]), _without_organisation(name))


class Match(NamedTuple):
    """The entry that a name means."""

    entry: Entry
    note: str | None = None  # how a prefix, or a checkpoint's name, was read
    preset: str | None = None  # number format in the name


def fold(name: str) -> str:
    """Lower case, with hyphens for blanks and underscores.

    >>> fold("H100_SXM")
    'h100-sxm'
    """
    return _SEPARATORS.sub("-", name.strip().lower())


def name_fault(name: object) -> str | None:
    """Why a text cannot be a name, which is shown, typed and looked up; None if it can.

    Any alphabet is fine; control, bidirectional and invisible characters, line ends, blanks other than the space,
    quotes and backslashes are not.

    >>> name_fault("Qwen/Qwen3-8B")
    >>> name_fault("say 'a'")
    'a name must not contain quotes or backslashes'
    """
    if not isinstance(name, str) or not name.strip():
        return "a name must not be blank"
    if len(name) > _LONGEST_NAME:
        return f"a name must have at most {_LONGEST_NAME} characters, not {len(name)}"
    if not name.isprintable() or re.search(_INVISIBLE, name):
        unseen = next(character for character in name if not character.isprintable() or re.match(_INVISIBLE, character))
        code = printable(unseen) if printable(unseen) != unseen else f"U+{ord(unseen):04X}"
        return f"a name must be printable; found {code}"
    if any(character in name for character in _QUOTES):
        return "a name must not contain quotes or backslashes"
    return None


def match_name(name: str, entries: Iterable[Entry], kind: str) -> Match | None:
    """The entry that a name, alias or prefix means; None if none fits, UnknownName if several do."""
    folded, entries = fold(name), tuple(entries)
    matches = [entry for entry in entries if folded in _spellings(entry, folded)]
    if not matches:
        loose = _loosened(folded)
        matches = [entry for entry in entries if loose in map(_loosened, _spellings(entry, folded))]
    if matches:
        return Match(_single_match(matches, name, kind))
    if "/" in folded or len(folded) < _SHORTEST_PREFIX:
        return None
    matches = [
        entry for entry in entries if any(_has_prefix(spelling, folded) for spelling in _spellings(entry, folded))
    ]
    if not matches:
        return None
    entry = _single_match(matches, name, kind)
    return Match(entry, f"{_on_one_line(name)} is read as {entry.short}: the only {LABELS[kind]} with this prefix")


def match_quantised(name: str, entries: Iterable[Entry]) -> Match | None:
    """The base model and format in a quantized checkpoint's name; None if no such model is known."""
    stated = format_in_name(name)
    if stated is None:
        return None
    entries = tuple(entries)
    for base in map(fold, base_names(stated.base)):
        for key in (str, _loosened):
            matches = [entry for entry in entries if key(base) in map(key, _spellings(entry, base))]
            if matches:
                entry = _single_match(matches, name, "model")
                source = f"{stated.preset}, which llama.cpp loads of such files" if stated.assumed else stated.preset
                note = f"{_on_one_line(name)} is read as {entry.short} in {source}; -q chooses another format"
                return Match(entry, note, stated.preset)
    return None


def nearest_names(name: str, entries: Iterable[Entry]) -> list[str]:
    """Short names of the three most similar entries, nearest first."""
    from difflib import SequenceMatcher

    matcher = SequenceMatcher()
    target = _without_organisation(fold(name))[:_LONGEST_NAME]
    matcher.set_seq2(target)

    def likeness(entry: Entry) -> float:
        best = 0.0
        for spelling in {_without_organisation(spelling) for spelling in entry.names}:
            shared = len(commonprefix((spelling, target))) / max(len(target), 1)  # noqa: RUF071  characters are meant
            matcher.set_seq1(spelling)
            if matcher.quick_ratio() + shared > best:
                best = max(best, matcher.ratio() + shared)
        return best

    ranked = sorted(entries, key=lambda entry: (-likeness(entry), entry.names))[:3]
    return [entry.short for entry in ranked]


def _single_match(matches: list[Entry], name: str, kind: str) -> Entry:
    """The single match; UnknownName with the candidates if there are several."""
    if len(matches) == 1:
        return matches[0]
    names = sorted((entry.short for entry in matches), key=_by_size)
    more = f" and {len(names) - _MOST_CANDIDATES} more" if len(names) > _MOST_CANDIDATES else ""
    candidates = ", ".join(names[:_MOST_CANDIDATES]) + more
    raise UnknownName(f"{LABELS[kind]} {name!r} is ambiguous: {candidates}; choose one")


def _spellings(entry: Entry, folded: str) -> tuple[str, ...]:
    """Names and aliases; organisations may be left out where the name asked for has none."""
    names = entry.names
    if "/" not in folded:
        names = (*names, *(_without_organisation(name) for name in names if "/" in name))
    if entry.vendor and folded.startswith(entry.vendor):
        return (*names, *(entry.vendor + between + name for between in "-/" for name in entry.names))
    return names


def _has_prefix(spelling: str, prefix: str) -> bool:
    """Whether a name starts with a prefix that does not cut a number in two."""
    if "/" in spelling or not spelling.startswith(prefix):
        return False
    return not (prefix[-1].isdigit() and re.match(_REST_OF_A_NUMBER, spelling[len(prefix) :]))


def _by_size(name: str) -> list[tuple[int, str]]:
    """Sort key that compares numbers by value: 8x7b before 8x22b."""
    return [(int(part), "") if part.isdecimal() else (0, part) for part in re.split(r"(\d+)", name)]


def _loosened(folded: str) -> str:
    """A folded name with dots and seams between letters and digits as separators too."""
    return _SEPARATORS.sub("-", re.sub(_SEAMS, "-", folded))


def _without_organisation(name: str) -> str:
    return name.rpartition("/")[2]


def _on_one_line(name: str) -> str:
    return " ".join(name.split())


# How files state a number: types of fields that need more than a float.

#: A time [s]; files state it as text with a unit.
Seconds = Annotated[float, "s"]
#: An amount of memory [B]; files state it as text with a unit.
Bytes = Annotated[float, "B"]
#: A rate of memory or of a link [B/s], and electrical power [W]; files state both with their source.
BytesPerSecond = Annotated[float, "B/s"]
Watts = Annotated[float, "W"]
#: A share, above 0 and at most 1.
Share = Annotated[float, "share"]


@cache
def declared(record: type) -> Mapping[str, str]:
    """Field -> type as written, e.g. ``Seconds`` or ``int | None``; the module must postpone its annotations."""
    return dict(record.__annotations__)
