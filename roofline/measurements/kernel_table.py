"""Tables of timed kernels: CSV files with a measurement in each row, read into columns of numbers."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

from roofline.errors import BadInput, shown
from roofline.measurements.csv_rows import csv_file
from roofline.quantity import MICRO
from roofline.specs.kernels import KINDS, MOE
from roofline.specs.names import name_fault
from roofline.specs.timed_kernels import SHAPES, KernelGroup

ROUTINGS = ("uniform", "balanced", "skewed")
_DATE = re.compile(r"[0-9]{4}(-(0[1-9]|1[0-2])(-(0[1-9]|[12][0-9]|3[01]))?)?").fullmatch


def kernel_groups(paths: Iterable[str]) -> list[KernelGroup]:
    """Measurements of CSV files (docs/measurements.md), grouped by GPU, kind and dtype in the order of the files."""
    collected: dict[tuple[str, str, str], list[dict[str, Any]]] = {}
    for path in paths:
        for line, row in _rows(path):
            where = f"{path}:{line}"
            kind = (row.get("kind") or "").strip()
            if kind not in SHAPES:
                raise BadInput(f"{where}: unknown kernel kind {shown(kind)}; choose from {', '.join(SHAPES)}")
            _check_texts(row, where)
            key = ((row.get("gpu") or "").strip(), kind, (row.get("dtype") or "").strip() or "bf16")
            collected.setdefault(key, []).append(_measurement(row, kind, where))
    return [_group(key, rows) for key, rows in collected.items()]


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
    if KINDS[kind] is MOE and routing not in ROUTINGS:
        raise BadInput(f"{where}: unknown routing {shown(routing)}; choose from {', '.join(ROUTINGS)}")
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
