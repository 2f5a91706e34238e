"""Results as people paste them: summaries in the logs of benchmarks, and the metrics that a server exports.

Summaries become documents with the keys of the JSON that the same tools save; metrics become the means of all requests,
or of those between two snapshots in one text.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping
from typing import Any

#: Line above the summary that vLLM and SGLang print.
_SUMMARY = "= Serving Benchmark Result ="
_MOST = 200  # characters of a line of a summary
_TIME = re.compile(r"(Mean|Median|P\d{1,2}) (TTFT|TPOT|ITL|E2EL|E2E Latency) \(ms\)")
#: Labels of a summary -> keys of the JSON. vLLM: vllm/benchmarks/serve.py; SGLang: bench_serving.py.
_LABELS: Mapping[str, str] = {
    "Backend": "backend",
    "Successful requests": "completed",
    "Failed requests": "failed",
    "Total input tokens": "total_input_tokens",
    "Total generated tokens": "total_output_tokens",
    "Request throughput (req/s)": "request_throughput",
    "Maximum request concurrency": "max_concurrency",
    "Max request concurrency": "max_concurrency",
    "Request rate configured (RPS)": "request_rate",
    "Traffic request rate": "request_rate",
    "Concurrency": "concurrency",
    "Accept length": "accept_length",
    "Acceptance length": "spec_decode_acceptance_length",
}
_NOT_SET = ("not set", "None")
#: What the arguments that both tools print first say: Namespace(backend='vllm', model='...', ...).
_ARGUMENTS = re.compile(r"\b(model|num_prompts|request_rate|max_concurrency|backend)=('[^'\n]*'|[\w.\-]+)")
_NAMESPACE = "Namespace("


def summaries(text: str) -> list[dict[str, Any]]:
    """Documents of the summaries in a log; none where it has none.

    >>> log = '''============ Serving Benchmark Result ============
    ... Successful requests:                     100
    ... Maximum request concurrency:             8
    ... Median TTFT (ms):                        61.5
    ... '''
    >>> summaries(log)
    [{'request_rate': 'inf', 'completed': 100.0, 'max_concurrency': 8.0, 'median_ttft_ms': 61.5}]
    """
    before, *found = text.split(_SUMMARY)
    documents = []
    for part in found:
        documents.append({"request_rate": "inf", **_stated(before), **dict(_figures(part))})
        before = part
    return documents


def _stated(text: str) -> dict[str, Any]:
    """What the arguments of the run say, where they were printed before its summary."""
    place = text.rfind(_NAMESPACE)
    line = "" if place < 0 else text[place:].partition("\n")[0]
    values = {match[1]: match[2].strip("'") for match in _ARGUMENTS.finditer(line)}
    known = {name: _number_or_text(value) for name, value in values.items() if value not in _NOT_SET}
    return {"model_id" if name == "model" else name: value for name, value in known.items()}


def _figures(text: str) -> Iterator[tuple[str, Any]]:
    for line in text.splitlines():
        label, colon, value = (part.strip() for part in line[:_MOST].rpartition(": "))
        label = label.lstrip("#|*- ")
        if not colon or not value:
            continue
        time = _TIME.fullmatch(label)
        key = _LABELS.get(label) if time is None else f"{time[1]}_{time[2].replace(' ', '_')}_ms".lower()
        if key is not None and value not in _NOT_SET:
            yield key, _number_or_text(value)


def _number_or_text(value: str) -> float | str:
    try:
        number = float(value)
    except ValueError:
        return value
    return number if math.isfinite(number) else value


# Metrics of a server, in the text format of Prometheus.

_SAMPLE = re.compile(r"^(vllm|sglang):([a-z_0-9]+)(\{[^\n}]*\})? ([0-9.eE+\-]+)(?: \d+)?$", re.MULTILINE)
_MODEL = re.compile(r'model_name="([^"\n]*)"')
#: Latency -> histograms of it, that of requests first.
_HISTOGRAMS: Mapping[str, tuple[str, ...]] = {
    "ttft": ("time_to_first_token_seconds",),
    "tpot": (
        "request_time_per_output_token_seconds", "time_per_output_token_seconds", "inter_token_latency_seconds",
    ),
    "e2el": ("e2e_request_latency_seconds",),
    "isl": ("request_prompt_tokens", "prompt_tokens_histogram"),
    "osl": ("request_generation_tokens", "generation_tokens_histogram"),
}  # fmt: skip
_RUNNING = ("num_requests_running", "num_running_reqs")
_WAITING = ("num_requests_waiting", "num_queue_reqs")


def is_metrics(text: str) -> bool:
    """Whether a text holds metrics of vLLM or SGLang."""
    return _SAMPLE.search(text) is not None


def metrics(text: str) -> dict[str, Any]:
    """Fields of a measurement from the metrics of a server: means since its start, or between two snapshots.

    Times in seconds, lengths in tokens; requests in flight are those of the snapshots.
    """
    snapshots: list[dict[tuple[str, str], float]] = [{}]
    engine, model = "", ""
    for match in _SAMPLE.finditer(text):
        engine, name, labels = match[1], match[2], match[3] or ""
        if (name, labels) in snapshots[-1]:
            snapshots.append({})
        snapshots[-1][name, labels] = float(match[4])
        named = _MODEL.search(labels)
        model = model or (named[1] if named else "")
    totals = [_totals(snapshot) for snapshot in snapshots]
    first, last = (totals[0] if len(totals) > 1 else {}), totals[-1]
    gone = {name: value - first.get(name, 0.0) for name, value in last.items()}
    fields: dict[str, Any] = {
        field: next((mean for name in names if (mean := _mean(gone, name)) is not None), None)
        for field, names in _HISTOGRAMS.items()
    }
    requests = gone.get("num_requests_total") or gone.get("e2e_request_latency_seconds_count") or 0.0
    for field, name in (("isl", "prompt_tokens_total"), ("osl", "generation_tokens_total")):
        if fields[field] is None and requests and gone.get(name):
            fields[field] = gone[name] / requests
    queries, hits = gone.get("prefix_cache_queries_total", 0.0), gone.get("prefix_cache_hits_total", 0.0)
    if queries > 0.0 and fields["isl"]:
        fields["prefix"] = float(int(min(hits / queries, 1.0) * fields["isl"]))
    in_flight = [sum(of.get(name, 0.0) for name in (*_RUNNING, *_WAITING)) for of in totals[:2]]
    fields["concurrency"] = sum(in_flight) / len(in_flight) or None
    span = "between two snapshots" if len(totals) > 1 else "since the server started"
    fields["note"] = f"means of {requests:,.0f} requests {span}; requests in flight as the snapshots show them"
    return {**fields, "statistic": "mean", "engine": engine, "model": model or None}


def _totals(snapshot: Mapping[tuple[str, str], float]) -> dict[str, float]:
    """Each metric over all its labels, without buckets."""
    totals: dict[str, float] = {}
    for (name, _), value in snapshot.items():
        if not name.endswith("_bucket"):
            totals[name] = totals.get(name, 0.0) + value
    return totals


def _mean(totals: Mapping[str, float], name: str) -> float | None:
    count = totals.get(f"{name}_count", 0.0)
    return totals[f"{name}_sum"] / count if count > 0.0 and f"{name}_sum" in totals else None
