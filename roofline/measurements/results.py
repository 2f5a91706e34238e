"""Measurements of served models, from result files of benchmark tools or from CSV.

A format is recognized by the content of a file, never by its name. What a file does not state is None.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import asdict
from itertools import islice
from typing import Any

from roofline.errors import BadInput, shown
from roofline.measurements.csv_rows import csv_rows
from roofline.measurements.fields import STATISTICS, Fields, JsonNode
from roofline.measurements.formats import RESULT_FORMATS, recognised
from roofline.quantity import MILLI
from roofline.reading import RESULT_BYTES, Unreadable, bounded, check_json_amount, check_json_depth, content
from roofline.records import NamedTuple
from roofline.specs.measurement import Measurement


class Reading(NamedTuple):
    """Measurements of a file, and the faults of the runs that cannot be used."""

    measurements: tuple[Measurement, ...]
    faults: tuple[BadInput, ...] = ()


_MOST_RUNS = 20_000  # of a file: each will be predicted
_LONGEST_NAME, _LONGEST_NOTE = 500, 2000  # characters
_COUNTS = ("tp", "pp", "ep", "dp")
_AMOUNTS = ("isl", "osl", "prefix", "batch", "concurrency", "request_rate", "num_prompts", "answered_rate")
_TIMES = ("ttft", "tpot", "e2el")
_LOADS = ("batch", "concurrency", "request_rate")
_TEXTS = ("gpu", "model", "engine", "engine_version", "quantization", "kv_cache_dtype", "statistic", "date", "note")

#: Column of a CSV -> field of a measurement; the column `url` is ignored.
CSV_COLUMNS: Mapping[str, str] = {
    **{name: name for name in (*_TEXTS, *_COUNTS, *_AMOUNTS, "source")},
    **{f"{name}_ms": name for name in _TIMES},
}

#: Field that a comparison needs -> its label and its option.
_NEEDED = {"model": ("model", "--model"), "gpu": ("GPU", "--gpu"), "tp": ("tp", "--tp"), "isl": ("isl", "--isl")}


def read_results(path: str, statistic: str | None = None) -> Reading:
    """Measurements of a file at a statistic; None: the median where a run has it, else the mean."""
    source = path.encode("utf-8", "backslashreplace").decode()
    try:
        data = content(path, RESULT_BYTES, "result")
    except Unreadable as fault:
        raise BadInput(f"{source}: {fault}") from None
    return results(data, source, statistic)


def results(data: bytes, source: str, statistic: str | None = None) -> Reading:
    """As `read_results`, from the content of a file; `source` names it in messages."""
    if statistic is not None and statistic not in STATISTICS:
        raise BadInput(f"unknown statistic {shown(statistic)}; choose from {', '.join(STATISTICS)}")
    try:
        text = bounded(data, RESULT_BYTES, "result").decode("utf-8-sig")
    except Unreadable as fault:
        raise BadInput(f"{source}: {fault}") from None
    except UnicodeDecodeError:
        raise BadInput(f"{source}: not UTF-8 text; save the result as UTF-8 JSON or CSV") from None
    if not text.strip():
        raise BadInput(f"{source}: the file is empty")
    is_json = text.lstrip()[0] in "{["
    runs = _json_runs(text, source, statistic) if is_json else _csv_runs(text, source, statistic)
    read = list(islice(runs, _MOST_RUNS + 1))
    if len(read) > _MOST_RUNS:
        raise BadInput(f"{source}: has more than {_MOST_RUNS} results; split it")
    if not read:
        raise BadInput(f"{source}: has no results")
    measured = tuple(run for run in read if isinstance(run, Measurement))
    return Reading(measured, tuple(run for run in read if isinstance(run, BadInput)))


def override(measurement: Measurement, **changes: Any) -> Measurement:
    """A measurement with some fields replaced, None apart; any load replaces the load of the file."""
    changes = {name: value for name, value in changes.items() if value is not None}
    loads = [name for name in _LOADS if name in changes]
    if len(loads) > 1:
        raise BadInput(f"{_listed(loads)} are given; keep the one that was fixed")
    if loads:
        changes = {**dict.fromkeys((*_LOADS, "num_prompts")), **changes}
    fields = {**asdict(measurement), **changes}
    return _measurement(fields, fields.pop("source"))


def check_complete(measurement: Measurement) -> None:
    """Refuse a measurement that lacks what a prediction needs; the message names all of it."""
    lacks = {label: option for name, (label, option) in _NEEDED.items() if getattr(measurement, name) is None}
    if measurement.osl is None and (measurement.tpot is not None or measurement.e2el is not None):
        lacks["osl"] = "--osl"
    if all(getattr(measurement, name) is None for name in _LOADS):
        lacks["load"] = "--concurrency, --request-rate or --batch"
    if lacks:
        raise BadInput(
            f"{measurement.source}: the result states {_listed([f'no {label}' for label in lacks])}: "
            f"give {_listed(list(lacks.values()))}"
        )


def _json_runs(text: str, source: str, statistic: str | None) -> Iterator[Measurement | BadInput]:
    documents = list(islice(_documents(text, source), _MOST_RUNS + 1))
    for place, document in enumerate(documents):
        named = source if len(documents) == 1 else f"{source}[{place}]"
        known = recognised(document) if isinstance(document, Mapping) else None
        if known is None:
            yield BadInput(_unknown(named, _held(document)))
            continue
        try:
            runs = known.runs(JsonNode(document, named))
        except BadInput as fault:
            yield fault
            continue
        for number, run in enumerate(runs):
            yield _run(known.read, run, named if len(runs) == 1 else f"{named}[{number}]", statistic)


def _run(read: Any, run: JsonNode, source: str, statistic: str | None) -> Measurement | BadInput:
    """A measurement, or its fault."""
    try:
        return _measurement(read(run, statistic), source)
    except BadInput as fault:
        return fault


def _documents(text: str, source: str) -> Iterator[Any]:
    """JSON documents of a text: a single one, JSON Lines, or the elements of a list."""
    import json

    try:
        check_json_amount(text)
    except Unreadable as fault:
        raise BadInput(f"{source}: {fault}") from None
    decoder, place = json.JSONDecoder(), _after_blanks(text, 0)
    while place < len(text):
        try:
            document, place = decoder.raw_decode(text, place)
        except json.JSONDecodeError as error:
            raise BadInput(f"{source}:{error.lineno}: not JSON: {error.msg} at column {error.colno}") from None
        except (ValueError, RecursionError):
            raise BadInput(f"{source}: unreadable JSON: a number is too long or lists nest too deep") from None
        try:
            check_json_depth(document)
        except Unreadable as fault:
            raise BadInput(f"{source}: unreadable JSON: {fault}") from None
        place = _after_blanks(text, place)
        yield from document if isinstance(document, list) else (document,)


def _after_blanks(text: str, place: int) -> int:
    blanks = re.compile(r"\s*").match(text, place)
    return blanks.end() if blanks else place


def _held(document: object) -> str:
    """A short description of a document of no known format."""
    if isinstance(document, Mapping):
        return (
            f"its keys: {', '.join(shown(key).strip(_QUOTES) for key in list(document)[:6])}" if document else "empty"
        )
    return "a list in a list" if isinstance(document, list) else shown(document)


def _unknown(source: str, held: str) -> str:
    known = "; ".join(f"{known.name} ({known.keys})" for known in RESULT_FORMATS)
    return f"{source}: not a known benchmark result ({held}); known: {known}, and CSV ({_CSV_KEYS})"


_QUOTES = "'"
_CSV_KEYS = "columns model, gpu, tp, isl, osl, batch or concurrency, ttft_ms, tpot_ms and the like"


def _csv_runs(text: str, source: str, statistic: str | None) -> Iterator[Measurement | BadInput]:
    """Measurements of a CSV, or the faults of its rows."""
    heading, rows = csv_rows(text, source)
    if not any(f"{name}_ms" in heading for name in _TIMES):
        raise BadInput(_unknown(source, f"neither JSON nor a CSV with {_CSV_KEYS}"))
    others = 0
    for number, row in rows:
        place = f"{source}:{number}"
        if len(row) > len(heading):
            yield BadInput(f"{place}: {len(row)} cells under {len(heading)} columns")
            continue
        cells = {name: cell.strip() for name, cell in zip(heading, row, strict=False) if cell.strip()}
        if statistic not in (None, cells.get("statistic", statistic)):
            others += 1
            continue
        yield _run(_csv_fields, JsonNode(cells, place), place, statistic)
    if others and others == len(rows):
        raise BadInput(f"{source}: no row has statistic {statistic}; leave out --statistic or choose another")


def _csv_fields(row: JsonNode, statistic: str | None) -> Fields:  # noqa: ARG001  a row states its statistic
    """Fields of one row, with times in seconds and one kind of load."""
    cells = {field: row.data[column] for column, field in CSV_COLUMNS.items() if column in row.data}
    fields: Fields = {name: cells[name] for name in _TEXTS if name in cells}
    if "source" in cells:
        fields["note"] = "; ".join(text for text in (cells["source"], cells.get("note")) if text)
    for name in _COUNTS:
        fields[name] = row.whole(name)
    for name in (*_AMOUNTS, *_TIMES):
        if name in cells:
            fields[name] = _csv_number(row, f"{name}_ms" if name in _TIMES else name, cells[name])
    for name in _TIMES:
        if name in fields:
            fields[name] *= MILLI
    loads = [name for name in _LOADS if name in cells]
    if len(loads) > 1:
        raise BadInput(f"{row.source}: {_listed(loads)} are given; keep the one that was fixed")
    return fields


def _csv_number(row: JsonNode, column: str, cell: str) -> float:
    try:
        return JsonNode({column: float(cell)}, row.source).number(column) or 0.0
    except ValueError:
        raise BadInput(f"{row.source}: {column} = {shown(cell)} is not a number") from None


def _measurement(fields: Fields, source: str) -> Measurement:
    """The record, unless a figure is impossible."""
    fields = {name: value for name, value in fields.items() if value is not None}
    for name in _TEXTS:
        most = _LONGEST_NOTE if name == "note" else _LONGEST_NAME
        if len(fields.get(name, "")) > most:
            raise BadInput(f"{source}: {name} has {len(fields[name])} characters; the limit is {most}")
    if fields.get("answered_rate") == 0.0:
        del fields["answered_rate"]  # the run was too short
    if fields.get("tpot") == 0.0 and fields.get("osl", 0.0) < 2.0:
        del fields["tpot"]  # vLLM writes the mean over no token gaps as 0
    if "ttft" not in fields and "tpot" not in fields:
        raise BadInput(f"{source}: neither ttft nor tpot is given; measure with streaming")
    for name in _TIMES:
        if name in fields and not 0.0 < fields[name] < math.inf:
            raise BadInput(f"{source}: {name} = {fields[name] / MILLI:g} ms must be positive and finite")
    for name in ("isl", "osl", "batch", *_COUNTS):
        if name in fields and not fields[name] >= 1.0:
            raise BadInput(f"{source}: {name} = {fields[name]:g} must be at least 1")
    for name in ("concurrency", "request_rate", "num_prompts", "answered_rate"):
        if name in fields and not fields[name] > 0.0:
            raise BadInput(f"{source}: {name} = {fields[name]:g} must be positive")
    if "ttft" in fields and fields.get("e2el", math.inf) < fields["ttft"]:
        raise BadInput(f"{source}: e2el is shorter than ttft; check the units and columns")
    return Measurement(source, **fields)


def _listed(words: list[str]) -> str:
    return " and ".join(part for part in (", ".join(words[:-1]), words[-1]) if part)
