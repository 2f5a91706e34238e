"""What `roofline check-specs` asks of specification files beyond what reading them asks.

Sources must be used and dated, names must be unique, figures that are unusual need a note, and what a
model states must agree with what its layers add up to.
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

__all__ = ["Report", "audit", "spec_files"]

_ENTRIES = ("gpu", "model")
_UNCITED = ("engine", "workload")  # kinds whose figures stand on the sources of the file, of which each cites nothing
# A clock that is slow, as in a container without one, does not make the sources of this release future ones.
_RELEASED = dt.date(2026, 11, 21)
_SHORTEST_MENTION = 4
_MOST_UNCITED, _LONGEST_NOTES = 100, 1 << 16  # sources sought in notes, and characters of notes: their product is time


class Report(NamedTuple):
    """What was checked, and what is wrong with it."""

    counts: Mapping[str, int]  # kind of a specification -> files
    faults: tuple[str, ...]  # file:line: field: fault


def spec_files(path: str | None) -> list[str]:
    """Specification files to check.

    Args:
        path: a folder or a file; None for the shipped catalogs [path].

    Returns:
        Their paths, sorted within each catalog [path].

    Raises:
        BadSpec: nothing is there, or it cannot be read.
    """
    if path is None:
        return [file for kind in (*_ENTRIES, *_UNCITED) for file in yaml_files(shipped_root(kind))]
    if os.path.isfile(path):
        if not path.endswith(ENDINGS):
            raise BadSpec(f"{path}: not a specification; its file name must end in {' or '.join(ENDINGS)}")
        return [path]
    found = yaml_files(own_folder(path))
    if not found:
        raise BadSpec(f"{path}: no specifications here; their file names must end in {' or '.join(ENDINGS)}")
    return found


def audit(paths: Sequence[str]) -> Report:
    """Check specification files, each by itself and their names against each other and the shipped ones.

    Args:
        paths: the files [path].

    Returns:
        How many there are of each kind, and every fault in the order of files and lines.
    """
    faults: dict[str, list[str]] = {}
    files: list[Checked] = []
    for path in paths:
        try:
            file = checked(path)
        except BadSpec as error:
            faults[path] = str(error).splitlines()
            continue
        files.append(file)
        further = [*_sources(file), *_doubts(file), *(() if file.faults else _stated(file))]
        faults[path] = [*file.faults, *located(path, file.lines, further)]
    for file, fault in _names(files):
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


def _stated(file: Checked) -> Iterator[Fault]:
    """What the layers of a model say; the last resort is the fault that only building shows."""
    if file.kind != "model":
        return
    data = without_nulls(dict(file.data))
    try:
        yield from stated_faults(model_record(data), data)
    except (KeyError, TypeError, ValueError, AttributeError, ArithmeticError, BadInput) as fault:
        yield (), f"{type(fault).__name__}: {fault}"


def _sources(file: Checked) -> Iterator[Fault]:
    """Sources that nothing cites or mentions, and dates that have not come."""
    listed = file.data.get("sources")
    if not isinstance(listed, Mapping):
        return
    rest = {key: value for key, value in file.data.items() if key != "sources"}
    cited, notes = set(_texts(rest, "source")), "\n".join((*_texts(rest, "note"), *_texts(rest, "notes")))
    notes, uncited = notes[:_LONGEST_NOTES], 0
    today = max(dt.datetime.now(tz=dt.UTC).date(), _RELEASED)
    for key, source in listed.items():
        entry = source if isinstance(source, Mapping) else {}
        sought = file.kind not in _UNCITED and key not in cited
        uncited += sought
        if sought and (uncited > _MOST_UNCITED or not _is_mentioned(str(key), str(entry.get("title", "")), notes)):
            yield ("sources", key), "source is never cited; cite it or remove it"
        first = _first_day(str(entry.get("date", "")))
        if first is not None and first > today:
            yield ("sources", key, "date"), f"{entry['date']} is in the future"


def _is_mentioned(key: str, title: str, notes: str) -> bool:
    """Whether a note names a source by its key, its title, or the beginning of its title."""
    beginning = re.split(r"[,(:@]", title)[0].strip()
    words = [word for word in (key, title.strip(), beginning) if word == key or len(word) >= _SHORTEST_MENTION]
    return any(re.search(rf"(?<![\w-]){re.escape(word)}(?![\w-])", notes, re.IGNORECASE) for word in words)


def _texts(value: Any, wanted: str, key: Any = None) -> Iterator[str]:
    """Texts below a value whose key is `wanted`."""
    if isinstance(value, Mapping):
        for name, item in value.items():
            yield from _texts(item, wanted, name)
    elif isinstance(value, list):
        for item in value:
            yield from _texts(item, wanted, key)
    elif key == wanted and isinstance(value, str):
        yield value


def _first_day(date: str) -> dt.date | None:
    """First day of a year, a month or a day; None for what the schema refuses."""
    try:
        return dt.date.fromisoformat((date + "-01-01")[:10])
    except ValueError:
        return None


def _names(files: Sequence[Checked]) -> Iterator[tuple[Checked, Fault]]:
    """Names that two entries of a kind claim; a file may replace a shipped one by its canonical name alone."""
    checked_paths = {os.path.realpath(file.path) for file in files}
    for kind in _ENTRIES:
        mine = [(file, _stated_names(file.data)) for file in files if file.kind == kind]
        canonical = {fold(names[0][1]) for _, names in mine if names}
        owners: dict[str, tuple[object, str]] = {}
        for entry in shipped_entries(kind):
            if os.path.realpath(entry.path) not in checked_paths and entry.names[0] not in canonical:
                spellings = (spelling for name in entry.names for spelling in _spellings(name))
                owners.update(dict.fromkeys(spellings, (entry, entry.short)))
        for file, names in mine:
            for where, name in names:
                for spelling in _spellings(name):
                    owner, called = owners.setdefault(spelling, (file, str(names[0][1])))
                    if owner is not file:
                        yield file, (where, f"the name {name!r} is already taken by {called}; choose another")
                        break


def _stated_names(data: Mapping[str, Any]) -> list[tuple[tuple[str | int, ...], str]]:
    """Canonical name and aliases, with where they are stated."""
    aliases = data.get("aliases")
    listed = enumerate(aliases) if isinstance(aliases, list) else ()
    named = [(("name",), data.get("name")), *((("aliases", position), alias) for position, alias in listed)]
    return [(where, name) for where, name in named if isinstance(name, str)]


def _spellings(name: str) -> tuple[str, ...]:
    """A name as look-up compares it, with and without its organisation."""
    folded = fold(name)
    return (folded, folded.rpartition("/")[2]) if "/" in folded else (folded,)
