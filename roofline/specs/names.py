"""Which entry a name means: spellings, aliases, beginnings, and what is near a name that nobody has.

A name is looked for in this order, and the first step that finds something decides: the names and
aliases as they are, case and separators folded; the same with dots and the seams between letters and
digits folded, too; the only name that begins so. Nothing is guessed: what fits two entries is refused
with both, and an answer says how the beginning of a name was read.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from itertools import takewhile

from roofline.errors import UnknownName, printable
from roofline.records import NamedTuple
from roofline.specs.name_formats import base_names, format_in_name

__all__ = ["LABELS", "Entry", "Match", "fold", "match_name", "match_quantised", "name_fault", "nearest_names"]

#: Kind of entry -> what a message calls it.
LABELS = {"gpu": "GPU", "model": "model", "engine": "engine profile"}

_SEPARATORS = re.compile(r"[\s_-]+")
_SEAMS = r"\.|(?<=[a-z])(?=\d)|(?<=\d)(?=[a-z])"
_MORE_OF_A_NUMBER = r"[\d.]|-\d+(?:-|$)"  # after a digit: b20 is no beginning of b200, nor k2 of k2.5
_SHORTEST_BEGINNING = 3
_LONGEST_NAME = 200
# Letters and marks that show nothing: fillers, a blank of Braille, selectors of variants.
_INVISIBLE = "[\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u2800\u3164\ufe00-\ufe0f\uffa0\U000e0100-\U000e01ef]"
_UNFIT = "\"'`\\"  # quotes, and what hides one
_MOST_CANDIDATES = 12


class Entry(NamedTuple):
    """A file and the names it answers to: canonical, then aliases, all folded."""

    path: str
    names: tuple[str, ...]
    own: bool = False  # of the user's: read through the schema
    vendor: str = ""  # folded; may stand before the name of a GPU

    @property
    def short(self) -> str:
        """Name to list it by: a GPU's canonical one, a model's without its organisation."""
        name = self.names[0]
        return name if "/" not in name else next(iter(self.names[1:]), _last(name))


class Match(NamedTuple):
    """The entry that a name means."""

    entry: Entry
    note: str | None = None  # what the beginning of a name is read as
    preset: str | None = None  # number format that the name states beside the model


def fold(name: str) -> str:
    """Name with case and separators folded, as look-up compares it.

    Args:
        name: any spelling [text].

    Returns:
        Lower case, hyphens for blanks and underscores [text].

    >>> fold("H100_SXM")
    'h100-sxm'
    """
    return _SEPARATORS.sub("-", name.strip().lower())


def name_fault(name: object) -> str | None:
    """What keeps a text from being a name, in files of every kind: it is shown, typed and looked up.

    Letters of any alphabet are fine. Control, bidirectional and invisible characters, line ends, blanks other than
    the space, quotes and backslashes are not.

    Args:
        name: what a file or an option calls something [any].

    Returns:
        The fault; None for a name [text].

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
    if any(character in name for character in _UNFIT):
        return "a name must not contain quotes or backslashes"
    return None


def match_name(name: str, entries: Iterable[Entry], kind: str) -> Match | None:
    """Entry that a name means.

    Args:
        name: any spelling of a name or alias, or the beginning of one [text].
        entries: all entries of the kind.
        kind: ``gpu`` or ``model`` [text].

    Returns:
        The entry and what the answer must say about it; None where no name fits.

    Raises:
        UnknownName: several entries fit; the message names them.
    """
    wanted, entries = fold(name), tuple(entries)
    found = [entry for entry in entries if wanted in _spellings(entry, wanted)]
    if not found:
        loosened = _loose(wanted)
        found = [entry for entry in entries if loosened in map(_loose, _spellings(entry, wanted))]
    if found:
        return Match(_only(found, name, kind))
    if "/" in wanted or len(wanted) < _SHORTEST_BEGINNING:
        return None
    found = [entry for entry in entries if any(_begins(spelling, wanted) for spelling in _spellings(entry, wanted))]
    if not found:
        return None
    entry = _only(found, name, kind)
    only = f"the only {LABELS[kind]} with this prefix"
    return Match(entry, f"{_shown(name)} is read as {entry.short}: {only}")


def match_quantised(name: str, entries: Iterable[Entry]) -> Match | None:
    """Model of which the name of a quantised checkpoint says that it is made, with the format that it states.

    Args:
        name: such as ``RedHatAI/Llama-3.3-70B-Instruct-FP8-dynamic`` [text].
        entries: all models.

    Returns:
        The entry, the format, and what the answer must say; None where no such model is known.

    Raises:
        UnknownName: several models are called so.
    """
    stated = format_in_name(name)
    if stated is None:
        return None
    entries = tuple(entries)
    for base in map(fold, base_names(stated.base)):
        for read in (str, _loose):
            found = [entry for entry in entries if read(base) in map(read, _spellings(entry, base))]
            if found:
                entry = _only(found, name, "model")
                how = f"{stated.preset}, which llama.cpp loads of such files" if stated.assumed else stated.preset
                note = f"{_shown(name)} is read as {entry.short} in {how}; -q chooses another format"
                return Match(entry, note, stated.preset)
    return None


def nearest_names(name: str, entries: Iterable[Entry]) -> list[str]:
    """The three entries whose best-matching name is nearest.

    Args:
        name: what was asked for [text].
        entries: all entries of the kind.

    Returns:
        Their short names, nearest first [text].
    """
    from difflib import SequenceMatcher

    matcher = SequenceMatcher()
    wanted = _last(fold(name))[:_LONGEST_NAME]
    matcher.set_seq2(wanted)

    def likeness(entry: Entry) -> float:
        best = 0.0
        for spelling in {_last(spelling) for spelling in entry.names}:
            alike = _common(spelling, wanted) / max(len(wanted), 1)
            matcher.set_seq1(spelling)
            if matcher.quick_ratio() + alike > best:
                best = max(best, matcher.ratio() + alike)
        return best

    ranked = sorted(entries, key=lambda entry: (-likeness(entry), entry.names))[:3]
    return [entry.short for entry in ranked]


def _common(one: str, other: str) -> int:
    """Characters with which both begin."""
    return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(one, other, strict=False)))


def _only(found: list[Entry], name: str, kind: str) -> Entry:
    """The one entry, or the refusal that names all of them."""
    if len(found) == 1:
        return found[0]
    listed = sorted((entry.short for entry in found), key=_by_size)
    more = f" and {len(listed) - _MOST_CANDIDATES} more" if len(listed) > _MOST_CANDIDATES else ""
    candidates = ", ".join(listed[:_MOST_CANDIDATES]) + more
    raise UnknownName(f"{LABELS[kind]} {name!r} is ambiguous: {candidates}; choose one")


def _spellings(entry: Entry, wanted: str) -> tuple[str, ...]:
    """Names and aliases; where the name asked for has no organisation, theirs may be left out."""
    names = entry.names
    if "/" not in wanted:
        names = (*names, *(_last(name) for name in names if "/" in name))
    if entry.vendor and wanted.startswith(entry.vendor):
        return (*names, *(entry.vendor + between + name for between in "-/" for name in entry.names))
    return names


def _begins(spelling: str, wanted: str) -> bool:
    """Whether a name begins so, without cutting a number in two."""
    if "/" in spelling or not spelling.startswith(wanted):
        return False
    return not (wanted[-1].isdigit() and re.match(_MORE_OF_A_NUMBER, spelling[len(wanted) :]))


def _by_size(name: str) -> list[tuple[int, str]]:
    """Order in which numbers within names count as numbers: 8x7b before 8x22b."""
    return [(int(part), "") if part.isdecimal() else (0, part) for part in re.split(r"(\d+)", name)]


def _loose(folded: str) -> str:
    """A folded name with dots and the seams between letters and digits as separators, too."""
    return _SEPARATORS.sub("-", re.sub(_SEAMS, "-", folded))


def _last(name: str) -> str:
    """A model's name without its organisation."""
    return name.rpartition("/")[2]


def _shown(name: str) -> str:
    return " ".join(name.split())
