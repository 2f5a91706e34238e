"""Checks of a specification file against its schema: all faults at once, with file, line and field."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Set
from difflib import get_close_matches
from functools import cache
from typing import Any

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from roofline.catalog.engine_schema import EngineSpec
from roofline.catalog.files import kind_of_fields
from roofline.catalog.model_schema import ModelSpec
from roofline.catalog.plausibility import Fault, slips
from roofline.catalog.schema import CalibrationSpec, GpuSpec
from roofline.catalog.schema_parts import Strict
from roofline.catalog.workload_schema import WorkloadSpec
from roofline.catalog.yaml_lines import Lines, fault_text, read_untrusted
from roofline.errors import BadSpec, printable
from roofline.records import NamedTuple
from roofline.specs.layers import FFNS, MIXERS

SCHEMAS: Mapping[str, type[Strict]] = {
    "gpu": GpuSpec,
    "model": ModelSpec,
    "calibration": CalibrationSpec,
    "engine": EngineSpec,
    "workload": WorkloadSpec,
}

_MOST_FAULTS = 200  # reported faults of the schema
_Where = tuple[str | int, ...]


class Checked(NamedTuple):
    """Content of a specification file, and its faults."""

    path: str
    kind: str  # gpu, model, calibration, engine or workload
    data: Mapping[str, Any]
    lines: Lines
    faults: list[str]


def checked_document(path: str, kind: str | None = None) -> dict[str, Any]:
    """Content of a specification file, which must have no faults; without `kind`, its fields tell what it describes."""
    file = checked(path, kind)
    if file.faults:
        raise BadSpec("\n".join(file.faults))
    return dict(file.data)


def document_faults(document: Mapping[str, Any], kind: str) -> list[str]:
    """Faults that reading a document would report, as ``field: fault``."""
    try:
        SCHEMAS[kind].model_validate(document)
    except ValidationError as errors:
        faults = [(tuple(error["loc"]), error["msg"]) for error in errors.errors()]
    else:
        faults = list(_unknown_sources((), document, document.get("sources")))
    return list(dict.fromkeys(printable(f"{'.'.join(map(str, where))}: {text}") for where, text in faults))


def checked(path: str, kind: str | None = None) -> Checked:
    """A specification file with its faults in the order of lines: of YAML, of the schema, of implausible figures."""
    data, lines, faults = read_untrusted(path)
    if not isinstance(data, dict):
        raise BadSpec(fault_text(path, 1, "a specification must be a mapping of fields"))
    kind = kind or kind_of_fields(data)
    try:
        SCHEMAS[kind].model_validate(data)
    except ValidationError as errors:
        names = _field_names(SCHEMAS[kind])
        details = errors.errors(include_url=False, include_context=False, include_input=False)
        faults += [_schema_fault(path, lines, error, names) for error in details[:_MOST_FAULTS]]
        if len(details) > _MOST_FAULTS:
            faults.append(fault_text(path, 1, f"file: {len(details) - _MOST_FAULTS} more faults"))
    further = [*_unknown_sources((), data, data.get("sources")), *(slips(data) if kind == "gpu" else ())]
    return Checked(path, kind, data, lines, ordered(path, [*faults, *located(path, lines, further)]))


def located(path: str, lines: Lines, faults: Iterable[Fault]) -> list[str]:
    """Faults as ``file:line: field: text``, each on the line of the innermost field that the file has."""
    return [_located(path, lines, where, text) for where, text in faults]


def ordered(path: str, faults: Iterable[str]) -> list[str]:
    """Faults of one file sorted by line, without duplicates."""
    start = len(printable(path)) + 1
    return sorted(dict.fromkeys(faults), key=lambda fault: int(fault[start:].partition(":")[0]))


def _unknown_sources(where: _Where, value: Any, known: Any) -> Iterator[Fault]:
    """Citations of sources that the file does not list."""
    if isinstance(value, Mapping):
        cited = value.get("source")
        if isinstance(cited, str) and not (isinstance(known, Mapping) and cited in known):
            yield (*where, "source"), f"{cited!r} is not listed under sources"
        for key, item in value.items():
            if where or key != "sources":
                yield from _unknown_sources((*where, key), item, known)
    elif isinstance(value, list):
        for position, item in enumerate(value):
            yield from _unknown_sources((*where, position), item, known)


def _schema_fault(path: str, lines: Lines, error: ErrorDetails, names: Set[str]) -> str:
    """One fault of the schema in words of this project."""
    where: _Where = ()
    for part in error["loc"]:  # without the branches of choices that pydantic tried
        if (*where, part) in lines or part not in (*MIXERS, *FFNS, "[key]", "[number]", "[list]"):
            where = (*where, part)
    text = error["msg"]
    if error["type"] == "missing":
        text = "missing"
    elif error["type"] in {"model_type", "dict_type"}:
        text = "must be a mapping of fields"
    elif error["type"] == "extra_forbidden":
        near = get_close_matches(str(where[-1]), names - {where[-1]}, 1, 0.6)
        text = "unknown key" + (f"; did you mean {near[0]}?" if near else "")
    return _located(path, lines, where, text)


def _located(path: str, lines: Lines, where: _Where, text: str) -> str:
    nearest = where
    while nearest not in lines:
        nearest = nearest[:-1]
    return fault_text(path, lines[nearest], f"{'.'.join(map(str, where)) or 'file'}: {text}")


@cache
def _field_names(schema: type[BaseModel]) -> frozenset[str]:
    """Names of all fields of a schema, at any depth."""
    document = schema.model_json_schema()
    parts = (document, *document.get("$defs", {}).values())
    return frozenset(name for part in parts for name in part.get("properties", {}))
