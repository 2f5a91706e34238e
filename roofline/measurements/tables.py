"""Tables that users bring: timed kernels, rows of CSV, traces of requests."""

from __future__ import annotations

import csv
import re
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any

from roofline.numbers.quantity import BILLION, MICRO
from roofline.specs.gpu import KINDS, MOE, SHAPES, KernelGroup
from roofline.specs.names import name_fault
from roofline.support.errors import BadInput, check_known, shown
from roofline.support.reading import RESULT_BYTES, Unreadable, content

# Tables of timed kernels: CSV files with a measurement in each row, read into columns of numbers.

ROUTINGS = ("uniform", "balanced", "skewed")
_DATE = re.compile(r"[0-9]{4}(-(0[1-9]|1[0-2])(-(0[1-9]|[12][0-9]|3[01]))?)?").fullmatch


def kernel_groups(paths: Iterable[str]) -> list[KernelGroup]:
    """Measurements of CSV files (docs/measurements.md), grouped by GPU, kind and dtype in the order of the files."""
    collected: dict[tuple[str, str, str], list[dict[str, Any]]] = {}
    for path in paths:
        for line, row in _rows(path):
            where = f"{path}:{line}"
            kind = (row.get("kind") or "").strip()
            check_known("kernel kind", kind, SHAPES, start=f"{where}: ", error=BadInput)
            _check_texts(row, where)
            key = ((row.get("gpu") or "").strip(), kind, (row.get("dtype") or "").strip() or "bf16")
            collected.setdefault(key, []).append(_measurement(row, kind, where))
    return [_group(key, rows) for key, rows in collected.items()]


def is_kernel_table(path: str) -> bool:
    """Whether a file is a table of timed kernels, by its columns."""
    try:
        text = content(path, RESULT_BYTES, "file").decode("utf-8-sig", "replace")
    except Unreadable as fault:
        raise BadInput(f"{path} {fault}") from None
    lines = (line for line in _LINE.split(text) if line.strip() and not line.lstrip().startswith("#"))
    heading = {name.strip().strip('"') for name in next(lines, "").split(",")}
    return not heading.isdisjoint(("kind", "latency_us"))


def _rows(path: str) -> Iterable[tuple[int, dict[str, str]]]:
    heading, rows = csv_file(path, "table of kernels")
    if "kind" not in heading or "latency_us" not in heading:
        raise BadInput(
            f"{path} is not a table of kernels: its first line must name the columns, with kind and latency_us"
        )
    if not rows:
        raise BadInput(f"{path} has no rows")
    return [(number, dict(zip(heading, row, strict=False))) for number, row in rows]


def _check_texts(row: Mapping[str, str | None], where: str) -> None:
    """Refuse texts that cannot name a source in a calibration file."""
    for column in ("gpu", "dtype", "engine", "engine_version"):
        text = (row.get(column) or "").strip()
        fault = name_fault(text) if text else None
        if fault is not None:
            raise BadInput(f"{where}: {column} = {shown(text)}: {fault}")
    date = (row.get("date") or "").strip()
    if date and not _DATE(date):
        raise BadInput(f"{where}: date = {shown(date)} is not a date; write it as 2026-11-21, 2026-11 or 2026")


def _measurement(row: Mapping[str, str], kind: str, where: str) -> dict[str, Any]:
    cells: dict[str, Any] = {name: _figure(row, name, where) for name in SHAPES[kind]}
    for part, whole in (("top_k", "experts"), ("ep", "experts"), ("kv_heads", "heads")):
        if part in cells and cells[part] > cells[whole]:
            raise BadInput(f"{where}: {part} = {cells[part]:g} exceeds {whole} = {cells[whole]:g}")
    cells["latency"] = _figure(row, "latency_us", where) * MICRO
    routing = (row.get("routing") or "").strip() or "uniform"
    if KINDS[kind] is MOE:
        check_known("routing", routing, ROUTINGS, start=f"{where}: ", error=BadInput)
    cells["routing"] = routing
    engine = (row.get("engine") or "").strip()
    cells["engine"] = engine
    cells["version"] = f"{engine} {(row.get('engine_version') or '').strip()}".strip()
    cells["date"] = (row.get("date") or "").strip()
    return cells


def _figure(row: Mapping[str, str], name: str, where: str) -> float:
    text = (row.get(name) or "").strip()
    if not text and name in ("tp", "ep"):
        return 1.0
    try:
        value = float(text)
    except ValueError:
        value = float("nan")
    if not 0.0 < value < float("inf"):
        raise BadInput(f"{where}: {name} = {shown(text)} must be a positive number")
    if name != "latency_us" and value != int(value):
        raise BadInput(f"{where}: {name} = {shown(text)} must be a whole number")
    if name == "ranks" and value < 2.0:
        raise BadInput(f"{where}: ranks = {shown(text)} must be at least 2 for a collective")
    return value


def _group(key: tuple[str, str, str], rows: list[dict[str, Any]]) -> KernelGroup:
    gpu, kind, dtype = key
    return KernelGroup(
        gpu=gpu,
        kind=kind,
        dtype=dtype,
        columns={name: [row[name] for row in rows] for name in (*SHAPES[kind], "latency")},
        routing=tuple(row["routing"] for row in rows) if KINDS[kind] is MOE else (),
        engines=tuple(row["engine"] for row in rows),
        versions=tuple(sorted({row["version"] for row in rows if row["version"]})),
        dates=tuple(sorted({row["date"] for row in rows if row["date"]})),
    )


# Rows of CSV files, within size limits.

_MOST_LINES, _MOST_COLUMNS, _MOST_CELLS = 100_000, 500, 3_000_000
_LINE = re.compile(r"\r\n|\r|\n")


def csv_file(path: str, kind: str) -> tuple[list[str], list[tuple[int, list[str]]]]:
    """Heading and rows of a CSV file; `kind` says in messages what it should be."""
    try:
        text = content(path, RESULT_BYTES, kind).decode("utf-8-sig")
    except Unreadable as fault:
        raise BadInput(f"{path} {fault}") from None
    except UnicodeDecodeError as fault:
        raise BadInput(f"{path} cannot be read: {fault}") from None
    return csv_rows(text, path)


def csv_rows(text: str, source: str) -> tuple[list[str], list[tuple[int, list[str]]]]:
    """Column names, and the cells of each row with its line number; blank lines and lines with # are comments.

    >>> csv_rows("kind,m\\n# both\\ngemm,5\\n", "a.csv")
    (['kind', 'm'], [(3, ['gemm', '5'])])
    """
    if text.count("\n") + text.count("\r") > 2 * _MOST_LINES:
        raise BadInput(f"{source}: has more than {_MOST_LINES} lines; split it")
    lines = [(number, line) for number, line in enumerate(_LINE.split(text), 1) if line.strip()]
    lines = [(number, line) for number, line in lines if not line.lstrip().startswith("#")]
    if len(lines) > _MOST_LINES:
        raise BadInput(f"{source}: has more than {_MOST_LINES} lines; split it")
    reader = csv.reader((line for _, line in lines), strict=True)
    rows: list[tuple[int, list[str]]] = []
    cells = 0
    try:
        for row in reader:
            number = lines[reader.line_num - 1][0]
            if len(row) > _MOST_COLUMNS:
                raise BadInput(f"{source}:{number}: {len(row)} columns; at most {_MOST_COLUMNS} are read")
            cells += len(row)
            if cells > _MOST_CELLS:
                raise BadInput(f"{source}:{number}: more than {_MOST_CELLS} cells so far; split the table")
            rows.append((number, row))
    except csv.Error as error:
        raise BadInput(f"{source}:{lines[max(reader.line_num, 1) - 1][0]}: not CSV: {error}") from None
    heading = [cell.strip() for cell in rows[0][1]] if rows else []
    twice = next((name for name, times in Counter(heading).items() if name and times > 1), None)
    if twice is not None:
        raise BadInput(f"{source}:{rows[0][0]}: two columns are called {shown(twice)}")
    return heading, rows[1:]


# Request traces: lengths of prompts and answers.

#: Names of the columns: ours, then those of public traces.
_ISL = ("isl", "input_length", "input_tokens", "prompt_tokens", "contexttokens", "request tokens")
_OSL = ("osl", "output_length", "output_tokens", "completion_tokens", "generatedtokens", "response tokens")


def read_trace(path: str) -> list[tuple[float, float]]:
    """Prompt and answer length [tokens] of each request of a CSV with columns isl and osl.

    Names of columns in public traces: Azure/AzurePublicDataset (AzureLLMInferenceTrace), HPMLL/BurstGPT, read 2026-11.
    """
    heading, rows = csv_file(path, "trace of requests")
    names = [name.lower() for name in heading]
    places = []
    for known in (_ISL, _OSL):
        place = next((names.index(name) for name in known if name in names), None)
        if place is None:
            columns = ", ".join(heading) or "not there"
            raise BadInput(f"{path}: no column {known[0]} (or {', '.join(known[1:])}); its columns are {columns}")
        places.append(place)
    isl, osl = places
    lengths = [(_length(path, line, row, isl, "isl"), _length(path, line, row, osl, "osl")) for line, row in rows]
    if not lengths:
        raise BadInput(f"{path}: has no requests")
    return lengths


def _length(path: str, line: int, row: list[str], place: int, name: str) -> float:
    text = row[place].strip() if place < len(row) else ""
    try:
        length = float(text)
    except ValueError:
        length = 0.0
    if not 1.0 <= length <= BILLION:
        raise BadInput(f"{path}:{line}: {name} = {shown(text)} must be from 1 to a billion tokens")
    return length
