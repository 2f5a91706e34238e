"""From names to records: where specifications lie, how a name finds its file, how a file is read.

Shipped files are proven in the tests and read plainly; files of the user's own go through the
schema, which reports all of their faults at once.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import replace
from functools import cache, lru_cache
from typing import Any, NamedTuple

import yaml

from roofline.catalog.builder import calibration_record, gpu_record, model_record, without_nulls
from roofline.catalog.records import Calibration, Gpu, Model
from roofline.errors import BadInput, BadSpec, UnknownName

__all__ = ["Figure", "document", "figures", "fold", "gpu_names", "load_gpu", "load_model", "model_names", "sources"]

_KINDS = {"gpu": "hardware_specs", "model": "model_specs"}
_LABELS = {"gpu": "GPU", "model": "model"}
_LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_HEADER = r"^(name|aliases):[ \t]*(.*?)[ \t]*(?:#.*)?$"


class Figure(NamedTuple):
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
    record: Gpu = _load(name, "gpu", specs)
    return record


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
    record: Model = _load(name, "model", specs)
    return record


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
    return tuple(sorted({entry.short for entry in _entries("model", specs)}))


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


class _Entry(NamedTuple):
    """A file and the names it answers to: canonical, then aliases."""

    path: str
    names: tuple[str, ...]
    own: bool = False  # of the user's: read through the schema

    @property
    def short(self) -> str:
        """Name to list it by: a GPU's canonical one, a model's without its organisation."""
        name = self.names[0]
        return name if "/" not in name else next(iter(self.names[1:]), name.rpartition("/")[2])


def _load(name: str, kind: str, specs: str | None) -> Any:
    """Record of a name; shipped ones are read once."""
    if not isinstance(name, str):
        raise UnknownName(f"{name!r} is no name of a {_LABELS[kind]}")
    specs = specs or os.environ.get("ROOFLINE_SPECS")
    return _build(_find(name, kind, specs), kind, specs) if specs else _load_shipped(name, kind)


@cache
def _load_shipped(name: str, kind: str) -> Any:
    return _build(_find(name, kind, None), kind, None)


def _build(entry: _Entry, kind: str, specs: str | None) -> Any:
    """Record of a file; a fault that only building shows is reported like any other."""
    content = _content(entry) if entry.own else _figures_only(entry.path)
    try:
        if kind == "model":
            return model_record(content)
        calibration = _calibration(content["generation"], specs)
        if entry.own and calibration is not None and calibration is _shipped_calibration(content["generation"]):
            calibration = replace(calibration, measured_on=())  # measured on the shipped GPU, not on this one
        return gpu_record(content, calibration)
    except (KeyError, TypeError, ValueError, AttributeError, BadInput) as fault:
        raise BadSpec(f"{entry.path}:1: {type(fault).__name__}: {fault}") from None


def _find(name: str, kind: str, specs: str | None) -> _Entry:
    entries = _entries(kind, specs)
    wanted = fold(name)
    for entry in entries:
        if wanted in entry.names or wanted in {alias.rsplit("/", 1)[-1] for alias in entry.names}:
            return entry
    for entry in entries:
        if entry.own:
            _checked(entry.path)  # a faulty file may be the one that was meant
    near = ", ".join(_nearest(wanted, entries)) or "none"
    listing = f"roofline {kind}s" + (f" --specs {specs}" if specs else "")
    raise UnknownName(f"no {_LABELS[kind]} named {name!r}; nearest: {near}. List them all with: {listing}")


def _nearest(wanted: str, entries: tuple[_Entry, ...]) -> list[str]:
    """The three entries whose best-matching name is nearest."""

    def likeness(entry: _Entry) -> float:
        from difflib import SequenceMatcher

        return max(SequenceMatcher(None, wanted, name.rsplit("/", 1)[-1]).ratio() for name in entry.names)

    ranked = sorted(entries, key=lambda entry: (-likeness(entry), entry.names))[:3]
    return [entry.short for entry in ranked]


def _entries(kind: str, specs: str | None) -> tuple[_Entry, ...]:
    """Files of the user's own, then the shipped ones that they do not replace; no name is given twice."""
    own = _own_entries(specs or os.environ.get("ROOFLINE_SPECS"), kind)
    if not own:
        return _shipped(kind)
    replaced = {entry.names[0] for entry in own}
    entries = (*own, *(entry for entry in _shipped(kind) if entry.names[0] not in replaced))
    owners: dict[str, _Entry] = {}
    for entry in reversed(entries):
        for name in entry.names:
            other = owners.setdefault(name, entry)
            if other is not entry:
                raise BadSpec(f"{entry.path}:1: the name {name!r} belongs to {other.short} already; give it another")
    return entries


@lru_cache(maxsize=4)
def _shipped(kind: str) -> tuple[_Entry, ...]:
    paths = _yaml_files(_shipped_root(_KINDS[kind]))
    return tuple(_Entry(path, _header(_text(path))) for path in paths if not _is_calibration(path))


@lru_cache(maxsize=2)
def _shipped_root(folder: str) -> str:
    """Catalog inside the installed package, or beside it in a checkout."""
    package = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    inside = os.path.join(package, folder)
    return inside if os.path.isdir(inside) else os.path.join(os.path.dirname(package), folder)


def _yaml_files(root: str) -> list[str]:
    """YAML files below a folder, sorted."""

    def unreadable(fault: OSError) -> None:
        raise BadSpec(f"{fault.filename}:1: cannot be read: {fault.strerror}")

    found = [os.path.join(folder, name) for folder, _, names in os.walk(root, onerror=unreadable) for name in names]
    return sorted(path for path in found if path.endswith((".yaml", ".yml")))


def _is_calibration(path: str) -> bool:
    return os.path.basename(os.path.dirname(path)) == "calibration"


def _own_entries(specs: str | None, kind: str) -> tuple[_Entry, ...]:
    if not specs:
        return ()
    found = []
    for path in _yaml_files(_own_root(specs)):
        text = _text(path)
        if _kind_of(text) == kind:
            found.append(_Entry(path, _own_names(path, text), own=True))
    return tuple(found)


def _own_names(path: str, text: str) -> tuple[str, ...]:
    """Names of a user's file in any style of YAML; of a broken file, whatever can still be seen."""
    from roofline.catalog.yaml_lines import read_untrusted

    try:
        content, _, _ = read_untrusted(path)
        names = [content["name"], *(content.get("aliases") or ())]
        return tuple(dict.fromkeys(fold(name) for name in names))
    except (BadSpec, KeyError, TypeError, AttributeError):
        return _header(text) or (fold(os.path.splitext(os.path.basename(path))[0]),)


def _own_root(specs: str) -> str:
    root = os.path.expanduser(specs)
    if not os.path.isdir(root) or not os.access(root, os.R_OK | os.X_OK):
        raise BadSpec(f"{specs}: no readable folder of specifications")
    return root


def _kind_of(text: str) -> str:
    """Kind of a user's file, by a field that only this kind has."""
    if re.search(r"^kernels:", text, re.MULTILINE):
        return "calibration"
    return "model" if re.search(r"^(groups|hidden|vocab):", text, re.MULTILINE) else "gpu"


def _header(text: str) -> tuple[str, ...]:
    """Folded names from the `name` and `aliases` lines, without parsing the file."""
    fields = dict(re.findall(_HEADER, text, re.MULTILINE))
    names = [fields.get("name", "").strip("\"'")]
    names += [alias.strip(" \"'") for alias in fields.get("aliases", "").strip("[]").split(",")]
    return tuple(dict.fromkeys(fold(name) for name in names if name))


# --- reading -----------------------------------------------------------------------------------


def _text(path: str) -> str:
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            return file.read()
    except OSError as fault:
        raise BadSpec(f"{path}:1: cannot be read: {fault.strerror}") from None


def _content(entry: _Entry) -> dict[str, Any]:
    return _checked(entry.path) if entry.own else _plain(entry.path)


def _checked(path: str) -> dict[str, Any]:
    """Content of a file of the user's own that keeps its schema."""
    from roofline.catalog.checks import checked_document

    content: dict[str, Any] = without_nulls(checked_document(path))
    return content


@lru_cache(maxsize=512)
def _plain(path: str) -> dict[str, Any]:
    return _parsed(_text(path))


def _figures_only(path: str) -> dict[str, Any]:
    """A shipped file up to its list of sources, which is half of it and which no record needs."""
    return _parsed(_text(path).partition("\nsources:")[0])


def _parsed(text: str) -> dict[str, Any]:
    content: dict[str, Any] = yaml.load(text, Loader=_LOADER)  # noqa: S506 - a safe loader
    return content


def _calibration(generation: str, specs: str | None) -> Calibration | None:
    """Calibration of a generation: the user's own, else the shipped one, else none."""
    own = specs or os.environ.get("ROOFLINE_SPECS")
    for path in _yaml_files(_own_root(own)) if own else ():
        if os.path.splitext(os.path.basename(path))[0] == generation and _kind_of(_text(path)) == "calibration":
            return calibration_record(_checked(path))
    return _shipped_calibration(generation)


@lru_cache(maxsize=16)
def _shipped_calibration(generation: str) -> Calibration | None:
    path = os.path.join(_shipped_root(_KINDS["gpu"]), "calibration", f"{generation}.yaml")
    return calibration_record(_figures_only(path)) if os.path.isfile(path) else None


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
