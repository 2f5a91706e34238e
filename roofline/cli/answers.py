"""Sentences above a table: the case, and the answer where there is a load or an SLO."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from roofline.api.inputs.case import preset_name
from roofline.api.predict import DEFAULTS
from roofline.api.ranking import meets
from roofline.cli.screen import Row, cell_text
from roofline.quantity import MILLI, rounded, to_text

_P99_WITHIN = "p99_within"


def case_text(
    models: Iterable[str],
    options: Mapping[str, Any],
    formats: Iterable[str] = (),
    end: str = "",
    *,
    load: bool = True,
) -> str:
    """Text such as ``llama-3.1-70b fp8 · 2000 in, 300 out · 64 users``; the format of the weights only if it is one."""
    names = tuple(dict.fromkeys(formats))
    model = ", ".join(models) + (f" {names[0]}" if len(names) == 1 and names[0] else "")
    parts = [model, _lengths(options), load_words(options) if load else "", limits_words(options.get("slo") or {}), end]
    if options.get("basis") == "ideal":
        parts.append("hardware limit")
    return " \u00b7 ".join(part for part in parts if part)


def asked_format(options: Mapping[str, Any]) -> list[str]:
    """The chosen quantization by its canonical name, or none."""
    name = options.get("quantization")
    return [] if name is None else [preset_name(name) if name.lower() != "native" else name]


def load_words(options: Mapping[str, Any]) -> str:
    """Text such as ``64 users``, ``4 requests/s`` or ``16 requests at once, idle server``."""
    users, rate, batch = (options.get(name) for name in ("concurrency", "request_rate", "batch"))
    if users is not None:
        run = options.get("num_prompts")
        return f"{_counted(users, 'user')}" + ("" if run is None else f" in a run of {_number(run)} requests")
    if rate is not None:
        return f"{_number(rate)} request{'' if rate == 1 else 's'}/s"
    size = DEFAULTS["batch"] if batch is None else batch
    return f"{_counted(size, 'request')}{'' if size == 1 else ' at once'}, idle server"


def limits_words(slo: Mapping[str, float], among: str = "") -> str:
    """Text such as ``TTFT p95 <= 300 ms, TPOT <= 25 ms``; `among` says for which requests."""
    words = []
    for key, limit in slo.items():
        metric, _, level = key.partition("_")
        if key == _P99_WITHIN:
            words.append(f"p99 <= {limit:g}x the median")
        else:
            words.append(f"{metric.upper()} {level}".strip() + f" <= {to_text(limit, 's', 6)}")
    return ", ".join(words) + (f" {among}" if among and words else "")


def gpus_text(row: Row) -> str:
    """Text such as ``4x b200``."""
    return f"{row['num_gpus']}x {row['gpu']}" if row.get("num_gpus") else str(row["gpu"])


def named_gpus(gpus: Sequence[str]) -> str:
    return ", ".join(gpus) if gpus else "any GPU of the catalog"


def answer_text(rows: Sequence[Row], options: Mapping[str, Any], *, others: bool = False) -> str:
    """The answer in a sentence; empty without a load or an SLO. Rows are best first, `others` stand below the rule."""
    if not rows:
        return ""
    if options.get("slo"):
        return _verdict(rows, options["slo"], is_part=others)
    if options.get("concurrency") is None and options.get("request_rate") is None:
        return ""
    fastest = rows[0]
    times = ", ".join(_time(fastest, key) for key in ("ttft", "tpot") if fastest.get(f"{key}_ms") is not None)
    util = fastest.get("util")
    busy = "" if util is None else f", at {100.0 * util:.0f} % of its capacity"
    leader = f"{'fastest: ' if len(rows) > 1 else ''}{gpus_text(fastest)}{by_estimate(fastest)}"
    return f"{leader}, {times}{busy}"


def meeting(rows: Iterable[Row]) -> list[Row]:
    """Rows that meet the SLO by the central estimate."""
    return [row for row in rows if meets(row.get("slo_verdict"))]


def by_estimate(row: Row) -> str:
    """What a sentence adds to GPUs that were never timed."""
    return " by a rough estimate" if row.get("basis") == "generic" else ""


def miss_text(rows: Sequence[Row], slo: Mapping[str, float], *, is_part: bool = False) -> str:
    """That none of the rows meets the SLO, and which comes nearest; empty where one does. Others may be `is_part`."""
    if not rows or not slo or meeting(rows):
        return ""
    nearest = min(rows, key=lambda row: _excess(row, slo))
    latency = _binding(nearest)
    named = f"{gpus_text(nearest)}{by_estimate(nearest)}" + (f", {latency}" if latency else "")
    is_unknown = any(row.get("slo_verdict") is None for row in rows)
    if len(rows) == 1:
        (row,) = rows
        if is_unknown:
            return f"{gpus_text(row)}{by_estimate(row)}: not known whether it meets the SLO"
        return f"{gpus_text(row)} misses it{by_estimate(row)}" + (f": {latency}" if latency else "")
    known = "is known to meet" if is_unknown else "meets"
    return f"none of {len(rows)}{' timed GPUs' if is_part else ''} {known} it; nearest: {named}"


def _verdict(rows: Sequence[Row], slo: Mapping[str, float], *, is_part: bool) -> str:
    """The cheapest GPUs that meet the SLO, or the nearest miss."""
    missed = miss_text(rows, slo, is_part=is_part)
    if missed:
        return missed
    meeting_rows = meeting(rows)
    if len(rows) == 1:
        return f"{gpus_text(rows[0])} meets it{by_estimate(rows[0])}: {_binding(rows[0])}"
    priced = [row for row in meeting_rows if row.get("usd_per_m_output_tok") is not None]
    best = min(priced, key=lambda row: float(row["usd_per_m_output_tok"])) if priced else meeting_rows[0]
    cost = f" at {rounded(best['usd_per_m_output_tok'])} USD/M tokens" if priced else ""
    superlative = "cheapest" if priced else "fastest"
    missing = len(rows) - len(meeting_rows)
    rest = f"; {superlative} of {len(meeting_rows)} that do" + (f", {missing} miss it" if missing else "")
    alone = f", the only one of {len(rows)}"
    return f"{gpus_text(best)} meets it{by_estimate(best)}{cost}{rest if len(meeting_rows) > 1 else alone}"


def _excess(row: Row, slo: Mapping[str, float]) -> float:
    """Largest ratio of a latency over its limit, of the latencies that rows have."""
    times = {key: row.get(f"{key}_ms") for key in slo}
    return max((time * MILLI / slo[key] for key, time in times.items() if time is not None), default=float("inf"))


def _binding(row: Row) -> str:
    key = row.get("slo_binding")
    if key is None:
        return ""
    return _time(row, str(key)) if row.get(f"{key}_ms") is not None else f"{binding_text(str(key))} binds"


def _time(row: Row, key: str) -> str:
    return f"{binding_text(key)} {rounded(row[f'{key}_ms'])} ms"


def binding_text(key: str) -> str:
    """Text such as ``TTFT p95`` or ``p99/median``."""
    if key == _P99_WITHIN:
        return "p99/median"
    metric, _, level = key.partition("_")
    return f"{metric.upper()} {level}".strip() if metric in ("ttft", "tpot", "e2el") else key


def _lengths(options: Mapping[str, Any]) -> str:
    """Text such as ``4096 in, 500 out, 1024 cached (isl cv 0.5)``."""
    trace = options.get("lengths")
    is_trace = trace is not None and trace not in ("lognormal", "uniform")
    isl, osl = (options.get(name, DEFAULTS[name]) for name in ("isl", "osl"))
    text = "lengths of a trace" if is_trace else f"{_number(isl)} in, {_number(osl)} out"
    if options.get("prefix"):
        text += f", {_number(options['prefix'])} cached"
    spread = [f"{name} cv {options[f'{name}_cv']:g}" for name in ("isl", "osl") if options.get(f"{name}_cv")]
    return text + (f" ({', '.join(spread)})" if spread else "")


def _counted(value: Any, what: str) -> str:
    return f"{_number(value)} {what}{'' if value == 1 else 's'}"


def _number(value: Any) -> str:
    if isinstance(value, (list, tuple)):
        return ", ".join(map(_number, value))
    return str(int(value)) if isinstance(value, float) and value.is_integer() else cell_text(value)
