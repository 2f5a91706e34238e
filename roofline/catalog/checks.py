"""Whether a specification file keeps its schema: every fault at once, with file, line and field."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from difflib import get_close_matches
from typing import Any

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from roofline.catalog.builder import FFNS, MIXERS
from roofline.catalog.model_schema import ModelSpec
from roofline.catalog.schema import CalibrationSpec, Document, GpuSpec
from roofline.catalog.yaml_lines import Lines, fault_text, read_untrusted
from roofline.errors import BadInput, BadSpec
from roofline.quantity import from_text

__all__ = ["checked_document"]

# Dense 16-bit ridge points of real accelerators lie at 37 (H20) to 420 FLOP/B (L40S); a sparse peak
# doubles them. A part beyond says why in a note.
_HIGHEST_RIDGE = 500.0
_HIGHEST_FP8_RATIO = 2.2

_Where = tuple[str | int, ...]


def checked_document(path: str) -> dict[str, Any]:
    """Content of a specification file that keeps its schema.

    Args:
        path: the file [path].

    Returns:
        The mapping as written.

    Raises:
        BadSpec: with every fault as ``file:line: field: fault``.
    """
    data, lines, faults = read_untrusted(path)
    if not isinstance(data, dict):
        raise BadSpec(fault_text(path, 1, "a specification is a mapping of fields"))
    schema = _schema_of(data)
    try:
        schema.model_validate(data)
    except ValidationError as errors:
        faults += [_fault(path, lines, error, schema) for error in errors.errors()]
    for where, text in (*_unknown_sources((), data, data.get("sources")), *_sparse_peaks(data)):
        faults.append(_located(path, lines, where, text))
    if faults:
        ordered = sorted(dict.fromkeys(faults), key=lambda fault: int(fault[len(path) + 1 :].partition(":")[0]))
        raise BadSpec("\n".join(ordered))
    return data


def _unknown_sources(where: _Where, value: Any, known: Any) -> Iterator[tuple[_Where, str]]:
    """Figures that cite a source which the file does not list."""
    if isinstance(value, Mapping):
        cited = value.get("source")
        if isinstance(cited, str) and not (isinstance(known, Mapping) and cited in known):
            yield (*where, "source"), f"{cited!r} is not among the sources of the file"
        for key, item in value.items():
            if where or key != "sources":
                yield from _unknown_sources((*where, key), item, known)
    elif isinstance(value, list):
        for position, item in enumerate(value):
            yield from _unknown_sources((*where, position), item, known)


def _sparse_peaks(data: Mapping[str, Any]) -> Iterator[tuple[_Where, str]]:
    """Peaks that can only be 2:4 sparse ones, where no note says why they are so high."""
    try:
        peaks = {dtype: from_text(entry["value"], "FLOP/s") for dtype, entry in data["peak"].items()}
        explained = {dtype for dtype, entry in data["peak"].items() if entry.get("note")}
        bandwidth = from_text(data["memory"]["bandwidth"]["value"], "B/s")
    except (KeyError, TypeError, AttributeError, BadInput):
        return  # reported by the schema
    wide = "bf16" if "bf16" in peaks else "fp16"
    if wide not in peaks:
        if data.get("status") in ("announced", "pre-release"):
            return  # vendors announce the narrow peak first
        yield ("peak",), "neither bf16 nor fp16 is stated, and every model needs one"
        return
    advice = "looks like a sparse peak; give the dense one, or say in a note why"
    ridge, ratio = peaks[wide] / bandwidth, peaks.get("fp8", 0.0) / peaks[wide]
    if ridge > _HIGHEST_RIDGE and wide not in explained:
        yield ("peak", wide), f"a ridge of {ridge:.0f} FLOP/B {advice}"
    if ratio > _HIGHEST_FP8_RATIO and "fp8" not in explained:
        yield ("peak", "fp8"), f"{ratio:.1f} times the 16-bit peak {advice}"


def _schema_of(data: Mapping[str, Any]) -> type[Document]:
    """Kind of a file, by a field that only this kind has."""
    if "kernels" in data:
        return CalibrationSpec
    return ModelSpec if {"groups", "hidden", "vocab"} & set(data) else GpuSpec


def _fault(path: str, lines: Lines, error: ErrorDetails, schema: type[Document]) -> str:
    """One fault of the schema in our words."""
    where: _Where = ()
    for part in error["loc"]:  # pydantic also names the branch of a choice that it tried
        if (*where, part) in lines or part not in (*MIXERS, *FFNS, "[key]"):
            where = (*where, part)
    text = error["msg"]
    if error["type"] == "missing":
        text = "missing"
    elif error["type"] == "extra_forbidden":
        near = get_close_matches(str(where[-1]), _field_names(schema) - {where[-1]}, 1, 0.6)
        text = "unknown key" + (f"; did you mean {near[0]}?" if near else "")
    return _located(path, lines, where, text)


def _located(path: str, lines: Lines, where: _Where, text: str) -> str:
    """A fault as file:line: field: text, on the nearest line that the file has."""
    nearest = where
    while nearest not in lines:
        nearest = nearest[:-1]
    return fault_text(path, lines[nearest], f"{'.'.join(map(str, where)) or 'file'}: {text}")


def _field_names(schema: type[BaseModel]) -> set[str]:
    """Names of all fields at any depth, from the JSON Schema."""
    found: set[str] = set()
    described = schema.model_json_schema()
    for part in (described, *described.get("$defs", {}).values()):
        found |= set(part.get("properties", {}))
    return found
