"""Look-up of catalog entries by name.

The first step with a result decides: names and aliases with case and separators folded; the same with dots and the
seams between letters and digits folded too; a prefix; the label of a GPU as tools print it; some words of a model's
name. Several entries that fit are refused as candidates, unless they are one model in several formats, a family of one
size, or versions of it at the size asked for, of which the newest is meant. An answer says how such a name was read.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from os.path import commonprefix
from typing import Annotated

from roofline.numbers.quantity import count_from_text
from roofline.specs.formats import base_names, format_in_name
from roofline.support.errors import UnknownName, printable
from roofline.support.records import NamedTuple

#: Kind of entry -> its word in messages.
LABELS = {"gpu": "GPU", "model": "model", "engine": "engine profile", "arguments": "argument table"}

_SEPARATORS = re.compile(r"[\s_-]+")
_SEAMS = r"\.|(?<=[a-z])(?=\d)|(?<=\d)(?=[a-z])"
_REST_OF_A_NUMBER = r"[\d.]|-\d+(?:-|$)"  # after a digit: b20 is not a prefix of b200, nor k2 of k2.5
_WORDS = r"[-/:]|(?<=[a-z]{2})(?=\d)"  # between words: llama3.3 is two, 70b and a22b are one each
_SIZE = r"(?:(\d{1,3})x)?(\d{1,4}(?:\.\d{1,3})?)([bmt])"  # of a model: 70b, 8x7b
_ACTIVE = r"a\d+(?:\.\d+)?b"  # parameters active per token, after the size
_VERSION = r"v?\d+(?:\.\d+)*"
_MEMORY = r"(\d{1,4})-?gi?b?(?=-|$)"  # of a GPU in its label [GB]
_MEMORY_KIND = r"hbm\w*|gddr\w*"
_FILLERS = ("oam", "tensor", "core", "gpu", "gpus", "accelerator", "graphics")  # of a label; they tell no GPUs apart
_SHORTEST_PREFIX = 3
_LONGEST_NAME = 200
# Invisible letters and marks: fillers, the Braille blank, variation selectors.
_INVISIBLE = "[\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u2800\u3164\ufe00-\ufe0f\uffa0\U000e0100-\U000e01ef]"
_QUOTES = "\"'`\\"  # and the backslash, which hides one
_MOST_CANDIDATES = 12
_WEIGHT_OF_SIZE = 0.4  # in the likeness of two names, beside up to 1 each for letters and the beginning
_MOST_OTHERS = 3  # candidates that were not chosen, in a note


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
    return _meant(matches, name, kind, "this prefix")


def match_words(name: str, entries: Iterable[Entry]) -> Match | None:
    """The model whose name has the words of another, in their order and from the first on; None if none has.

    >>> llamas = [Entry("", (f"llama-{rest}",)) for rest in ("2-70b", "3.3-70b", "3.3-70b-fp8", "3.1-8b")]
    >>> match_words("llama-70b", llamas).entry.short, match_words("llama3.1", llamas).entry.short
    ('llama-3.3-70b', 'llama-3.1-8b')
    """
    folded = fold(name)
    words = _words(folded)
    if "/" in folded or len(words) < 2:
        return None
    matches = [
        entry for entry in entries if any(_has_words(_words(spelling), words) for spelling in _spellings(entry, folded))
    ]
    return _meant(matches, name, "model", "these words") if matches else None


class Label(NamedTuple):
    """What the label of a GPU says, as tools and clouds print it."""

    words: tuple[str, ...]  # of the name
    gigabytes: int | None  # of memory
    kind: str | None  # of memory


def label_of(text: str) -> Label | None:
    """The parts of a label; None for a text that says nothing beside a name.

    >>> label_of("NVIDIA H100 (80 GB SXM5)"), label_of("h100-sxm5")
    (Label(words=('nvidia', 'h100', 'sxm5'), gigabytes=80, kind=None), None)
    """
    folded = fold(re.sub(r"[()]", " ", text))
    size = re.search(rf"(?:^|-){_MEMORY}", folded)
    words = (folded if size is None else folded.replace(size[0], "", 1)).strip("-").split("-")
    kind = next((word for word in words if re.fullmatch(_MEMORY_KIND, word)), None)
    named = tuple(word for word in words if word not in (kind, *_FILLERS))
    if not any(named) or (size is None and len(named) == len(words)):
        return None
    return Label(named, None if size is None else int(size[1]), kind)


def labelled(label: Label, entries: Iterable[Entry]) -> Iterator[list[Entry]]:
    """Entries whose names are the words of a label, with the memory, alone, or with the kind of their module."""
    asked = [
        (entry, "-".join(label.words).removeprefix(f"{entry.vendor}-"), [*map(_letters_and_digits, entry.names)])
        for entry in entries
    ]
    size = "" if label.gigabytes is None else f"-{label.gigabytes}gb"
    for more in (size, "", "-pcie", "-sxm"):
        yield [entry for entry, words, names in asked if _letters_and_digits(words + more) in names]


def match_quantised(name: str, entries: Iterable[Entry]) -> Match | None:
    """The base model and format in a quantized checkpoint's name; None if no such model is known."""
    stated = format_in_name(name)
    if stated is None:
        return None
    entry = _base_entry(name, stated.base, tuple(entries))
    if entry is None:
        return None
    source = f"{stated.preset}, which llama.cpp loads of such files" if stated.assumed else stated.preset
    note = f"{_on_one_line(name)} is read as {entry.short} in {source}; -q chooses another format"
    return Match(entry, note, stated.preset)


def _base_entry(name: str, of: str, entries: tuple[Entry, ...]) -> Entry | None:
    """The base model of a checkpoint, by the name that is left without its format."""
    for base in map(fold, base_names(of)):
        for key in (str, _loosened):
            matches = [entry for entry in entries if key(base) in map(key, _spellings(entry, base))]
            if matches:
                return _single_match(matches, name, "model")
    match = None if "/" in of else match_words(of, entries)
    return None if match is None else match.entry


def nearest_names(name: str, entries: Iterable[Entry]) -> list[str]:
    """Short names of the three most similar entries, nearest first: in spelling, and in the size of a model.

    Names with all of the words come first; copies in another format or of another flavour are left out.
    """
    from difflib import SequenceMatcher

    matcher = SequenceMatcher()
    target = _without_organisation(fold(name))[:_LONGEST_NAME]
    matcher.set_seq2(target)
    size = _size(target)
    entries = tuple(entries)
    shorts = {entry.short for entry in entries}
    is_plain = format_in_name(target) is None

    def likeness(entry: Entry) -> float:
        best = 0.0
        for spelling in {_without_organisation(spelling) for spelling in entry.names}:
            shared = len(commonprefix((spelling, target))) / max(len(target), 1)  # noqa: RUF071  characters are meant
            matcher.set_seq1(spelling)
            if matcher.quick_ratio() + shared > best:
                best = max(best, matcher.ratio() + shared)
        best += set(_words(target)) <= set(_words(entry.short))
        other = _size(entry.short)
        return best + (_WEIGHT_OF_SIZE * min(size, other) / max(size, other) if size and other else 0.0)

    originals = [entry for entry in entries if not is_plain or not shorts & (_originals(entry.short) - {entry.short})]
    ranked = sorted(originals, key=lambda entry: (-likeness(entry), entry.names))[:3]
    return [entry.short for entry in ranked]


def _meant(matches: list[Entry], name: str, kind: str, what: str) -> Match:
    """The entry that an abbreviation means, with a note; UnknownName with the candidates if that is open."""
    obvious = _obvious(matches, name) if len(matches) > 1 and kind == "model" else matches
    entry = _single_match(matches if len(obvious) != 1 else obvious, name, kind)
    read = f"{_on_one_line(name)} is read as {entry.short}"
    if len(matches) == 1:
        return Match(entry, f"{read}: the only {LABELS[kind]} with {what}")
    others = _listed([other for other in matches if other is not entry], _MOST_OTHERS)
    return Match(entry, f"{read}; also in the catalog: {others}")


def _obvious(matches: list[Entry], name: str) -> list[Entry]:
    """The models that a name means though others fit it too.

    Copies in another number format or of another flavour are not meant; nor are names with further words, where some
    add just a size; where the size is stated, the newest version is.
    """
    shorts = {entry.short for entry in matches}
    originals = [entry for entry in matches if not shorts & (_originals(entry.short) - {entry.short})]
    asked = _words(fold(name))
    further = {entry: Counter(_words(_plain_name(entry.short))) - Counter(asked) for entry in originals}
    if not any(re.fullmatch(_SIZE, word) for word in asked):
        return [entry for entry in originals if _are(further[entry], rf"{_SIZE}|{_ACTIVE}")] or originals
    versions = [entry for entry in originals if _are(further[entry], rf"{_VERSION}|{_ACTIVE}")]
    newest = max((_versions(entry.short) for entry in versions), default=None)
    return [entry for entry in versions if _versions(entry.short) == newest] or originals


def _originals(short: str) -> set[str]:
    """Names of the models that a name may be a copy of, in another format or flavour."""
    return {fold(base) for base in base_names(_plain_name(short))}


def _plain_name(short: str) -> str:
    """A name without the number format that it states."""
    stated = format_in_name(short)
    return short if stated is None else stated.base


def _versions(short: str) -> list[tuple[int, ...]]:
    return [
        tuple(int(number) for number in word.removeprefix("v").split("."))
        for word in _words(_plain_name(short))
        if re.fullmatch(_VERSION, word)
    ]


def _size(folded: str) -> float:
    """Parameters in the name of a model, such as the 56e9 of 8x7b; 0 without any [1]."""
    found = next((match for word in _words(folded) if (match := re.fullmatch(_SIZE, word))), None)
    if found is None:
        return 0.0
    experts, number, unit = found.groups()
    return float(experts or 1) * count_from_text(f"{number} {unit.upper()}") if float(number) else 0.0


def _are(words: Iterable[str], pattern: str) -> bool:
    return all(re.fullmatch(pattern, word) for word in words)


def _words(folded: str) -> list[str]:
    """The words of a folded name.

    >>> _words("qwen3-235b-a22b"), _words("llama3.1:8b")
    (['qwen', '3', '235b', 'a22b'], ['llama', '3.1', '8b'])
    """
    return [word for word in re.split(_WORDS, folded) if word]


def _has_words(words: list[str], asked: list[str]) -> bool:
    """Whether some words are asked for, in their order and from the first on."""
    rest = iter(words)
    return words[:1] == asked[:1] and all(word in rest for word in asked)


def _letters_and_digits(folded: str) -> Counter[str]:
    """How often each word of letters or of digits occurs in a name."""
    return Counter(_loosened(folded).split("-"))


def _listed(entries: list[Entry], most: int) -> str:
    """Names in lists, by size, and how many more there are."""
    names = sorted((entry.short for entry in entries), key=_by_size)
    return ", ".join(names[:most]) + (f" and {len(names) - most} more" if len(names) > most else "")


def _single_match(matches: list[Entry], name: str, kind: str) -> Entry:
    """The single match; UnknownName with the candidates if there are several."""
    if len(matches) == 1:
        return matches[0]
    raise UnknownName(f"{LABELS[kind]} {name!r} is ambiguous: {_listed(matches, _MOST_CANDIDATES)}; choose one")


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
