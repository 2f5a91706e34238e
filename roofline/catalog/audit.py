"""Checks of `roofline check-specs` beyond those of reading a specification.

Sources must be cited and dated, names unique, unusual figures explained in a note, and the stated parameters of a model
must agree with its layers.
"""

from __future__ import annotations

import datetime as dt
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from roofline.catalog.checks import Checked, checked, located, ordered
from roofline.catalog.files import ENDINGS, own_folder, shipped_entries, shipped_root, yaml_files
from roofline.catalog.parameter_check import stated_faults
from roofline.catalog.plausibility import Fault, doubts
from roofline.errors import BadInput, BadSpec
from roofline.records import NamedTuple
from roofline.specs.build import model_record, without_nulls
from roofline.specs.names import fold

_ENTRIES = ("gpu", "model")
_UNCITED = ("engine", "workload")  # kinds whose figures do not cite sources one by one
# Sources of this release are not in the future, even where the clock of a machine is wrong.
_RELEASED = dt.date(2026, 11, 21)
_SHORTEST_MENTION = 4
_MOST_UNCITED, _LONGEST_NOTES = 100, 1 << 16  # sources to search for in notes, characters of notes: bounds the time


class Report(NamedTuple):
    """Number of files checked, and their faults."""

    counts: Mapping[str, int]  # kind of a specification -> files
    faults: tuple[str, ...]  # file:line: field: fault


def spec_files(path: str | None) -> list[str]:
    """Specification files at a path, a file or a folder; None means the shipped catalogs."""
    if path is None:
        return [file for kind in (*_ENTRIES, *_UNCITED) for file in yaml_files(shipped_root(kind))]
    if os.path.isfile(path):
        if not path.endswith(ENDINGS):
            raise BadSpec(f"{path}: not a specification; its file name must end in {' or '.join(ENDINGS)}")
        return [path]
    paths = yaml_files(own_folder(path))
    if not paths:
        raise BadSpec(f"{path}: no specifications here; their file names must end in {' or '.join(ENDINGS)}")
    return paths


def audit(paths: Sequence[str]) -> Report:
    """Check files one by one, and their names against each other and the shipped ones."""
    faults: dict[str, list[str]] = {}
    files: list[Checked] = []
    for path in paths:
        try:
            file = checked(path)
        except BadSpec as error:
            faults[path] = str(error).splitlines()
            continue
        files.append(file)
        further = [*_source_faults(file), *_doubts(file), *(() if file.faults else _layer_faults(file))]
        faults[path] = [*file.faults, *located(path, file.lines, further)]
    for file, fault in _name_faults(files):
        faults[file.path] += located(file.path, file.lines, [fault])
    counts = {kind: sum(file.kind == kind for file in files) for kind in (*_ENTRIES, "calibration", *_UNCITED)}
    return Report(counts, tuple(line for path in paths for line in ordered(path, faults[path])))


def _doubts(file: Checked) -> Iterator[Fault]:
    if file.kind == "gpu":
        yield from doubts(file.data)
    name = file.data.get("name")
    if file.kind == "calibration" and isinstance(name, str):
        stem = os.path.splitext(os.path.basename(file.path))[0]
        if stem != name:
            yield ("name",), f"does not match the file name; rename the file to {name}{ENDINGS[0]}"


def _layer_faults(file: Checked) -> Iterator[Fault]:
    """Faults of a model's stated parameters, or the one that only building its record reveals."""
    if file.kind != "model":
        return
    data = without_nulls(dict(file.data))
    try:
        yield from stated_faults(model_record(data), data)
    except (KeyError, TypeError, ValueError, AttributeError, ArithmeticError, BadInput) as fault:
        yield (), f"{type(fault).__name__}: {fault}"


def _source_faults(file: Checked) -> Iterator[Fault]:
    """Sources that are neither cited nor mentioned, and dates in the future."""
    sources = file.data.get("sources")
    if not isinstance(sources, Mapping):
        return
    rest = {key: value for key, value in file.data.items() if key != "sources"}
    cited, notes = set(_texts(rest, "source")), "\n".join((*_texts(rest, "note"), *_texts(rest, "notes")))
    notes, uncited = notes[:_LONGEST_NOTES], 0
    today = max(dt.datetime.now(tz=dt.UTC).date(), _RELEASED)
    for key, source in sources.items():
        entry = source if isinstance(source, Mapping) else {}
        is_uncited = file.kind not in _UNCITED and key not in cited
        uncited += is_uncited
        if is_uncited and (uncited > _MOST_UNCITED or not _is_mentioned(str(key), str(entry.get("title", "")), notes)):
            yield ("sources", key), "source is never cited; cite it or remove it"
        first = _first_day(str(entry.get("date", "")))
        if first is not None and first > today:
            yield ("sources", key, "date"), f"{entry['date']} is in the future"


def _is_mentioned(key: str, title: str, notes: str) -> bool:
    """Whether the notes mention a source by its key, its title, or the beginning of its title."""
    beginning = re.split(r"[,(:@]", title)[0].strip()
    words = [word for word in (key, title.strip(), beginning) if word == key or len(word) >= _SHORTEST_MENTION]
    return any(re.search(rf"(?<![\w-]){re.escape(word)}(?![\w-])", notes, re.IGNORECASE) for word in words)


def _texts(value: Any, name: str, key: Any = None) -> Iterator[str]:
    """Texts of all fields of a name, at any depth below a value."""
    if isinstance(value, Mapping):
        for field, item in value.items():
            yield from _texts(item, name, field)
    elif isinstance(value, list):
        for item in value:
            yield from _texts(item, name, key)
    elif key == name and isinstance(value, str):
        yield value


def _first_day(date: str) -> dt.date | None:
    """First day of a year or month, or the day itself; None for other texts."""
    try:
        return dt.date.fromisoformat((date + "-01-01")[:10])
    except ValueError:
        return None


def _name_faults(files: Sequence[Checked]) -> Iterator[tuple[Checked, Fault]]:
    """Names that two entries of a kind claim; the canonical name of a shipped file may be claimed, to replace it."""
    checked_paths = {os.path.realpath(file.path) for file in files}
    for kind in _ENTRIES:
        named = [(file, _stated_names(file.data)) for file in files if file.kind == kind]
        canonical = {fold(names[0][1]) for _, names in named if names}
        owners: dict[str, tuple[object, str]] = {}
        for entry in shipped_entries(kind):
            if os.path.realpath(entry.path) not in checked_paths and entry.names[0] not in canonical:
                spellings = (spelling for name in entry.names for spelling in _spellings(name))
                owners.update(dict.fromkeys(spellings, (entry, entry.short)))
        for file, names in named:
            for where, name in names:
                for spelling in _spellings(name):
                    owner, owner_name = owners.setdefault(spelling, (file, str(names[0][1])))
                    if owner is not file:
                        yield file, (where, f"the name {name!r} is already taken by {owner_name}; choose another")
                        break


def _stated_names(data: Mapping[str, Any]) -> list[tuple[tuple[str | int, ...], str]]:
    """Canonical name and aliases, each with its path in the file."""
    aliases = data.get("aliases")
    numbered = enumerate(aliases) if isinstance(aliases, list) else ()
    names = [(("name",), data.get("name")), *((("aliases", position), alias) for position, alias in numbered)]
    return [(where, name) for where, name in names if isinstance(name, str)]


def _spellings(name: str) -> tuple[str, ...]:
    """A folded name, with and without its organisation."""
    folded = fold(name)
    return (folded, folded.rpartition("/")[2]) if "/" in folded else (folded,)
