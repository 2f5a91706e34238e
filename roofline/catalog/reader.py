"""From names to records: where specifications lie, how a name finds its file, how a file is read.

Shipped files are proven in the tests and read plainly; files of the user's own go through the
schema, which reports all of their faults at once.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from difflib import SequenceMatcher
from functools import lru_cache
from pathlib import Path
from typing import Any, TypeVar

import yaml

from roofline.catalog.builder import calibration_record, gpu_record, model_record
from roofline.catalog.records import Calibration, Gpu, Model
from roofline.errors import BadSpec, RooflineError, UnknownName

__all__ = ["Figure", "document", "figures", "fold", "gpu_names", "load_gpu", "load_model", "model_names", "sources"]

_KINDS = {"gpu": "hardware_specs", "model": "model_specs"}
_LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_HEADER = re.compile(r"^(name|aliases):[ \t]*(.*?)[ \t]*(?:#.*)?$", re.MULTILINE)
_Record = TypeVar("_Record", Gpu, Model)


@dataclass(frozen=True, slots=True)
class Figure:
    """One stated figure of a specification, with where it comes from."""

    field: str
    value: str
    source: str  # title
    url: str
    date: str
    note: str
    confidence: str


def fold(name: str) -> str:
    """Name with case and separators folded, as look-up compares it.

    Args:
        name: any spelling [text].

    Returns:
        Lower case, hyphens for blanks and underscores [text].

    >>> fold("H100_SXM")
    'h100-sxm'
    """
    return re.sub(r"[\s_-]+", "-", name.strip().lower())


def load_gpu(name: str, specs: str | None = None) -> Gpu:
    """GPU of a name, with the calibration of its generation.

    Args:
        name: canonical name or alias, case and separators folded [text].
        specs: folder of specifications of one's own, searched first; default $ROOFLINE_SPECS [path].

    Returns:
        The record.

    Raises:
        UnknownName: no such GPU; the message names the nearest three.
        BadSpec: the file has faults; the message lists them all.
    """
    return _load(name, "gpu", specs, lambda content: gpu_record(content, _calibration(content["generation"], specs)))


def load_model(name: str, specs: str | None = None) -> Model:
    """Model of a name.

    Args:
        name: Hugging Face id, short name or alias, case and separators folded [text].
        specs: folder of specifications of one's own, searched first; default $ROOFLINE_SPECS [path].

    Returns:
        The record.

    Raises:
        UnknownName: no such model; the message names the nearest three.
        BadSpec: the file has faults; the message lists them all.
    """
    return _load(name, "model", specs, model_record)


def gpu_names(specs: str | None = None) -> tuple[str, ...]:
    """Canonical names of all GPUs.

    Args:
        specs: folder of specifications of one's own; default $ROOFLINE_SPECS [path].

    Returns:
        Names, sorted [text].
    """
    return tuple(sorted({entry.names[0] for entry in _entries("gpu", specs)}))


def model_names(specs: str | None = None) -> tuple[str, ...]:
    """Short names of all models.

    Args:
        specs: folder of specifications of one's own; default $ROOFLINE_SPECS [path].

    Returns:
        Names, sorted [text].
    """
    return tuple(sorted({entry.names[1] for entry in _entries("model", specs)}))


def document(name: str, kind: str, specs: str | None = None) -> dict[str, Any]:
    """Content of the file that describes a GPU or a model, as written.

    Args:
        name: its name or alias [text].
        kind: ``gpu`` or ``model`` [text].
        specs: folder of specifications of one's own; default $ROOFLINE_SPECS [path].

    Returns:
        The mapping of the file.

    Raises:
        UnknownName: no such entry.
        BadSpec: the file has faults.
    """
    return _content(_find(name, kind, specs))


def figures(content: Mapping[str, Any]) -> list[Figure]:
    """Every figure of a specification with its source and date, in the order of the file.

    Args:
        content: the mapping of the file.

    Returns:
        The figures.
    """
    return list(_walk("", content, content.get("sources", {})))


def sources(content: Mapping[str, Any]) -> list[Figure]:
    """The sources that a specification names.

    Args:
        content: the mapping of the file.

    Returns:
        One entry a source; its key is in `field`.
    """
    return [
        Figure(key, "", str(entry["title"]), str(entry.get("url", "")), str(entry["date"]), "", "")
        for key, entry in content.get("sources", {}).items()
    ]


# --- finding -----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Entry:
    """A file and the names it answers to: canonical, then aliases."""

    path: Path
    names: tuple[str, ...]
    own: bool = False  # of the user's: read through the schema


def _load(name: str, kind: str, specs: str | None, build: Callable[[Mapping[str, Any]], _Record]) -> _Record:
    if not isinstance(name, str):
        raise UnknownName(f"{name!r} is not a {kind} name")
    entry = _find(name, kind, specs)
    return _build(entry, build, specs or os.environ.get("ROOFLINE_SPECS"))


_BUILT: dict[tuple[Path, int, str | None], Any] = {}


def _build(entry: _Entry, build: Callable[[Mapping[str, Any]], _Record], specs: str | None) -> _Record:
    key = (entry.path, _stamp(entry.path) if entry.own else 0, specs)
    if key not in _BUILT:
        try:
            _BUILT[key] = build(_content(entry))
        except (KeyError, TypeError, ValueError, AttributeError, RooflineError) as fault:
            if isinstance(fault, BadSpec):
                raise
            from roofline.catalog.checks import checked_document

            checked_document(entry.path)  # lists the faults
            raise BadSpec(f"{entry.path}: {fault}") from None
    return _BUILT[key]  # type: ignore[no-any-return]


def _find(name: str, kind: str, specs: str | None) -> _Entry:
    entries = _entries(kind, specs)
    wanted = fold(name)
    for entry in entries:
        if wanted in entry.names or wanted in {alias.rsplit("/", 1)[-1] for alias in entry.names}:
            return entry
    near = ", ".join(_nearest(wanted, entries)) or "none"
    label = "GPU" if kind == "gpu" else kind
    raise UnknownName(f"no {label} named {name!r}; nearest: {near}. List them all with: roofline {kind}s")


def _nearest(wanted: str, entries: tuple[_Entry, ...]) -> list[str]:
    """The three entries whose best-matching name is nearest."""

    def likeness(entry: _Entry) -> float:
        return max(SequenceMatcher(None, wanted, name.rsplit("/", 1)[-1]).ratio() for name in entry.names)

    ranked = sorted(entries, key=lambda entry: (-likeness(entry), entry.names))[:3]
    return [entry.names[0] if "/" not in entry.names[0] else entry.names[1] for entry in ranked]


def _entries(kind: str, specs: str | None) -> tuple[_Entry, ...]:
    own = _own_entries(specs or os.environ.get("ROOFLINE_SPECS"), kind)
    taken = {entry.names[0] for entry in own}
    return (*own, *(entry for entry in _shipped(kind) if entry.names[0] not in taken))


@lru_cache(maxsize=4)
def _shipped(kind: str) -> tuple[_Entry, ...]:
    root = _shipped_root(_KINDS[kind])
    paths = sorted(path for path in root.glob("*/*.yaml") if path.parent.name != "calibration")
    return tuple(_Entry(path, _header(path.read_text(encoding="utf-8"))) for path in paths)


def _shipped_root(folder: str) -> Path:
    """Catalog inside the installed package, or beside it in a checkout."""
    package = Path(__file__).resolve().parent.parent
    inside = package / folder
    return inside if inside.is_dir() else package.parent / folder


def _own_entries(specs: str | None, kind: str) -> tuple[_Entry, ...]:
    if not specs:
        return ()
    root = Path(specs).expanduser()
    if not root.is_dir():
        raise BadSpec(f"{specs}: no such folder of specifications")
    found = []
    for path in sorted(path for path in root.rglob("*") if path.suffix in (".yaml", ".yml")):
        text = _text(path)
        if _kind_of(text) == kind:
            found.append(_Entry(path, _header(text) or (path.stem,), own=True))
    return tuple(found)


def _kind_of(text: str) -> str:
    """Kind of a user's file, by a field that only this kind has."""
    if re.search(r"^kernels:", text, re.MULTILINE):
        return "calibration"
    return "model" if re.search(r"^(groups|hidden|vocab):", text, re.MULTILINE) else "gpu"


def _header(text: str) -> tuple[str, ...]:
    """Folded names from the `name` and `aliases` lines, without parsing the file."""
    fields = dict(_HEADER.findall(text))
    names = [fields.get("name", "").strip("\"'")]
    names += [alias.strip(" \"'") for alias in fields.get("aliases", "").strip("[]").split(",")]
    return tuple(dict.fromkeys(fold(name) for name in names if name))


# --- reading -----------------------------------------------------------------------------------


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as fault:
        raise BadSpec(f"{path}: cannot be read: {fault}") from None


def _content(entry: _Entry) -> dict[str, Any]:
    if entry.own:
        from roofline.catalog.checks import checked_document

        return checked_document(entry.path)
    return _plain(entry.path)


@lru_cache(maxsize=512)
def _plain(path: Path) -> dict[str, Any]:
    content = yaml.load(_text(path), Loader=_LOADER)  # noqa: S506 - a safe loader
    if not isinstance(content, dict):
        raise BadSpec(f"{path}:1: a specification is a mapping of fields")
    return content


def _stamp(path: Path) -> int:
    return path.stat().st_mtime_ns


def _calibration(generation: str, specs: str | None) -> Calibration | None:
    """Calibration of a generation: the user's own, else the shipped one, else none."""
    own = specs or os.environ.get("ROOFLINE_SPECS")
    for path in sorted(Path(own).expanduser().rglob(f"{generation}.yaml")) if own else ():
        if _kind_of(_text(path)) == "calibration":
            from roofline.catalog.checks import checked_document

            return calibration_record(checked_document(path))
    return _shipped_calibration(generation)


@lru_cache(maxsize=16)
def _shipped_calibration(generation: str) -> Calibration | None:
    path = _shipped_root(_KINDS["gpu"]) / "calibration" / f"{generation}.yaml"
    return calibration_record(_plain(path)) if path.is_file() else None


def _walk(prefix: str, value: Any, known: Mapping[str, Any]) -> list[Figure]:
    """Figures below a value: mappings that name a source."""
    if not isinstance(value, Mapping):
        return []
    if "source" in value and value["source"] in known:
        source = known[value["source"]]
        stated = value.get("value")
        if stated is None:
            rest = {key: item for key, item in value.items() if key not in ("source", "note", "confidence")}
            stated = ", ".join(f"{key} {item}" for key, item in rest.items())
        return [
            Figure(
                prefix,
                str(stated),
                str(source["title"]),
                str(source.get("url", "")),
                str(source["date"]),
                str(value.get("note", "")),
                str(value.get("confidence", "")),
            )
        ]
    found: list[Figure] = []
    for key, item in value.items():
        if key != "sources":
            found += _walk(f"{prefix}.{key}" if prefix else str(key), item, known)
    return found
