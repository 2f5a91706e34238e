"""One GPU or model of the catalog in full: figures with sources, layers, document."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from itertools import groupby
from typing import Any

from roofline.api.listing import (
    Ffn,
    Gpu,
    Indexer,
    Mixer,
    Model,
    basis,
    figures,
    model_counts,
    si_value,
    sources,
    with_si,
)
from roofline.cli.options import FOR_PEOPLE
from roofline.cli.render import echo, one_line, print_rows
from roofline.quantity import GIGA, from_text, rounded, to_text

_FIGURES = {
    "field": "field",
    "value": "value",
    "source": "source",
    "date": "date",
    "confidence": "confidence",
    "note": "note",
}
_GIBI = from_text("1 GiB", "B")
_WORDS = {"True": "yes", "False": "no"}
_PER_DIRECTION = ("scale_up.bandwidth", "scale_up.peer_bandwidth", "scale_out.bandwidth", "host_link.bandwidth")


def print_document(content: Mapping[str, Any], output_format: str, summary: Mapping[str, Any] | None = None) -> None:
    """Print every figure of a specification, for people with notes and sources; `summary` adds keys to the JSON."""
    people = output_format in FOR_PEOPLE
    rows = []
    for figure in figures(content):
        row = figure._asdict()
        if people:
            row["value"] = _value_text(figure.field, figure.value)
        else:
            si = si_value(figure.field, figure.value)
            row["si_value"], row["si_unit"] = (None, None) if si is None else si
        rows.append(row)
    print_rows(rows, output_format, _FIGURES, {"document": with_si(content), **(summary or {})})
    if people:
        echo()
        for note in content.get("notes") or ():
            echo(f"- {one_line(note)}")
        for source in sources(content):
            echo(one_line(f"[{source.date}] {source.source} {source.url}"))


def describe_gpu(gpu: Gpu) -> None:
    echo(f"{gpu.name} ({gpu.vendor}, {gpu.generation}, {gpu.status}); basis {basis(gpu)}")
    if gpu.aliases:
        echo(f"also called {', '.join(gpu.aliases)}")
    rate = to_text(float(gpu.bandwidth), "B/s")
    usable = f"{_binary(gpu.memory)} usable ({_decimal(gpu.memory)})"
    echo(f"memory: {usable}, sold as {_decimal(gpu.memory_label)}; {rate}")
    link = gpu.link
    reduction = ", in-switch reduction" if link.in_switch_reduction else ""
    peer = f", {to_text(float(link.peer_bandwidth), 'B/s')} to one peer" if link.peer_bandwidth else ""
    joins = "1 GPU: tp > 1 crosses the network" if link.domain == 1 else f"{link.domain} GPUs"
    echo(f"link: {link.kind}, {to_text(float(link.bandwidth), 'B/s')} per direction and GPU{peer}, {joins}{reduction}")
    if gpu.host_domain is not None and gpu.host_link is not None:
        echo(f"beyond the bridge: {gpu.node_link}, {to_text(float(gpu.host_link), 'B/s')}, {gpu.node} GPUs of a host")
    if gpu.other_nodes:
        echo(f"in other nodes: {', '.join(gpu.other_nodes)}")
    if gpu.sustained != 1.0:
        echo(f"sustains {100.0 * gpu.sustained:.3g} % of its peaks, relative to the GPU that was timed")
    echo()


def describe_model(model: Model) -> None:
    counts = model_counts(model)
    active = counts["active"]
    echo(f"{model.short_name} ({model.name}): {model.layers} layers, width {model.hidden}")
    echo(
        f"parameters {counts['parameters']:,.0f}, active {active['no-embedding']:,.0f} (without input embedding)"
        + _stated_text(model)
    )
    echo(f"active with both ends {active['all']:,.0f}, without either {active['no-embedding-no-head']:,.0f}")
    for group in model.groups:
        alike = [(layer, len(list(run))) for layer, run in groupby(group.layers)]
        lines = [f"{_part_text(layer.mixer)} + {_part_text(layer.ffn)}" for layer, _ in alike]
        if len(alike) == 1:
            echo(f"  {group.repeat * alike[0][1]} x {lines[0]}")
            continue
        echo(f"  {group.repeat} x")
        for (_, number), line in zip(alike, lines, strict=True):
            echo(f"    {number} x {line}")
    echo("formats: " + ", ".join(f"{section} {name}" for section, name in model.native.items()))
    echo(f"cache: {_cache_text(counts)}\n")


def _value_text(field: str, value: str) -> str:
    """A value, with a remark where it could be misread."""
    if field in _PER_DIRECTION:
        return f"{value} per direction"
    if field == "memory.usable":
        si = si_value(field, value)
        return value if si is None else f"{value} ({_decimal(si[0])})"
    return _WORDS.get(value, value)


def _stated_text(model: Model) -> str:
    counts = {"total": model.stated_total, "active": model.stated_active}
    figures = [f"{name} {value:,.0f}" for name, value in counts.items() if value is not None]
    return f"; stated {', '.join(figures)}" if figures else ""


def _cache_text(counts: Mapping[str, Any]) -> str:
    per_token, growth, state = (
        counts[name] for name in ("kv_bytes_per_token", "kv_growth_bytes_per_token", "state_bytes_per_sequence")
    )
    texts = [f"{per_token:,.0f} B per token in {counts['native']['kv']}"] if per_token else []
    if per_token and rounded(growth) != rounded(per_token):
        texts.append(f"{growth:,.0f} B with full windows")
    if state:
        texts.append(f"state of {to_text(state, 'B')} per sequence")
    return ", ".join(texts) or "none"


def _decimal(nbytes: Any) -> str:
    return f"{rounded(nbytes / GIGA)} GB"


def _binary(nbytes: Any) -> str:
    return f"{rounded(nbytes / _GIBI, 4)} GiB"


def _part_text(part: Mixer | Ffn | Indexer) -> str:
    """Text such as ``gqa (heads 64, kv_heads 8)``."""
    fields = {field.name: getattr(part, field.name) for field in dataclasses.fields(part)}
    texts = [_field_text(name, value) for name, value in fields.items() if value]
    name = type(part).__name__.removesuffix("Ffn").lower()
    return f"{name} ({', '.join(texts)})" if texts else name


def _field_text(name: str, value: Any) -> str:
    if value is True:
        return name
    return _part_text(value) if isinstance(value, Indexer) else f"{name} {value}"
