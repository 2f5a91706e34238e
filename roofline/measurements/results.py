"""Measurements of served models, from result files of benchmark tools or from CSV.

A format is recognized by the content of a file, never by its name. What a file does not state is None.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import asdict
from itertools import islice
from typing import Any, TypeVar

from roofline.measurements.logs import is_metrics, metrics, summaries
from roofline.measurements.settings import settings_of
from roofline.measurements.tables import csv_rows
from roofline.numbers.quantity import BILLION, MICRO, MILLI, NANO
from roofline.specs.load import KIND_OF, RUN
from roofline.specs.workload import Measurement
from roofline.support.errors import BadInput, check_known, shown
from roofline.support.reading import RESULT_BYTES, Unreadable, bounded, check_json_amount, check_json_depth, content
from roofline.support.records import NamedTuple

_Value = TypeVar("_Value")


class Reading(NamedTuple):
    """Measurements of a file, and the faults of the runs that cannot be used."""

    measurements: tuple[Measurement, ...]
    faults: tuple[BadInput, ...] = ()


_MOST_RUNS = 20_000  # of a file: each will be predicted
_LONGEST_NAME, _LONGEST_NOTE = 500, 2000  # characters
_COUNTS = ("tp", "pp", "ep", "dp", "cp", "dcp")
_AMOUNTS = ("isl", "osl", "prefix", "batch", "concurrency", "request_rate", "num_prompts", "answered_rate")
_TIMES = ("ttft", "tpot", "e2el")
_LOADS = tuple(name for name in KIND_OF if hasattr(Measurement, name))
_TEXTS = ("gpu", "model", "engine", "engine_version", "quantization", "kv_cache_dtype", "statistic", "date", "note")

#: Column of a CSV -> field of a measurement; the column `url` is ignored.
CSV_COLUMNS: Mapping[str, str] = {
    **{name: name for name in (*_TEXTS, *_COUNTS, *_AMOUNTS, "source")},
    **{f"{name}_ms": name for name in _TIMES},
}

#: Field that a comparison needs -> its name in a sentence.
_NEEDED = {"model": "model", "gpu": "GPU", "tp": "tp", "isl": "isl"}


def read_results(path: str, statistic: str | None = None) -> Reading:
    """Measurements of a file at a statistic; None: the median where a run has it, else the mean."""
    source = path.encode("utf-8", "backslashreplace").decode()
    return results(_readable(source, content, path, RESULT_BYTES, "result"), source, statistic)


def results(data: bytes, source: str, statistic: str | None = None) -> Reading:
    """As `read_results`, from the content of a file; `source` names it in messages."""
    if statistic is not None:
        check_known("statistic", statistic, STATISTICS, error=BadInput)
    try:
        text = _readable(source, bounded, data, RESULT_BYTES, "result").decode("utf-8-sig")
    except UnicodeDecodeError:
        raise BadInput(f"{source}: not UTF-8 text; save the result as UTF-8 JSON or CSV") from None
    if not text.strip():
        raise BadInput(f"{source}: the file is empty")
    runs = _runs(text, source, statistic)
    read = list(islice(runs, _MOST_RUNS + 1))
    if len(read) > _MOST_RUNS:
        raise BadInput(f"{source}: has more than {_MOST_RUNS} results; split it")
    if not read:
        raise BadInput(f"{source}: has no results")
    measured = tuple(run for run in read if isinstance(run, Measurement))
    return Reading(measured, tuple(run for run in read if isinstance(run, BadInput)))


def _runs(text: str, source: str, statistic: str | None) -> Iterator[Measurement | BadInput]:
    """Measurements of a text in any form that is known."""
    if text.lstrip()[0] in "{[":
        yield from _json_runs(text, source, statistic)
        return
    pasted = summaries(text)
    for place, document in enumerate(pasted):
        named = source if len(pasted) == 1 else f"{source}[{place}]"
        yield _run(_vllm, JsonNode(document, named), named, statistic)
    if pasted:
        return
    if is_metrics(text):
        if statistic not in (None, "mean"):
            raise BadInput(f"{source}: the metrics of a server have means, not the {statistic}")
        yield _run(lambda node, _: dict(node.data), JsonNode(metrics(text), source), source, statistic)
        return
    yield from _csv_runs(text, source, statistic)


def _readable(source: str, read: Callable[..., _Value], *arguments: object) -> _Value:
    """What a bounded reader returns; its fault gets the source."""
    try:
        return read(*arguments)
    except Unreadable as fault:
        raise BadInput(f"{source}: {fault}") from None


def override(measurement: Measurement, **changes: Any) -> Measurement:
    """A measurement with some fields replaced, None apart; any load replaces the load of the file."""
    changes = {name: value for name, value in changes.items() if value is not None}
    loads = [name for name in _LOADS if name in changes]
    if len(loads) > 1:
        raise BadInput(f"{_listed(loads)} are given; keep the one that was fixed")
    if loads:
        changes = {**dict.fromkeys((*_LOADS, RUN)), "is_queue": None, **changes}
    fields = {**asdict(measurement), **changes}
    fields["is_whole"] = measurement.ttft is None and measurement.tpot is None
    return _measurement(fields, fields.pop("source"))


def check_complete(measurement: Measurement) -> None:
    """Refuse a measurement that lacks what a prediction needs; the message names all of it."""
    lacks = {label: name for name, label in _NEEDED.items() if getattr(measurement, name) is None}
    if measurement.osl is None and (measurement.tpot is not None or measurement.e2el is not None):
        lacks["osl"] = "osl"
    if all(getattr(measurement, name) is None for name in _LOADS) and not measurement.is_queue:
        lacks["load"] = "concurrency, request_rate or batch"
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

    _readable(source, check_json_amount, text)
    decoder, place = json.JSONDecoder(), _after_blanks(text, 0)
    while place < len(text):
        try:
            document, place = decoder.raw_decode(text, place)
        except json.JSONDecodeError as error:
            raise BadInput(f"{source}:{error.lineno}: not JSON: {error.msg} at column {error.colno}") from None
        except (ValueError, RecursionError):
            raise BadInput(f"{source}: unreadable JSON: a number is too long or lists nest too deep") from None
        _readable(f"{source}: unreadable JSON", check_json_depth, document)
        place = _after_blanks(text, place)
        yield from document if isinstance(document, list) else (document,)


def _after_blanks(text: str, place: int) -> int:
    blanks = re.compile(r"\s*").match(text, place)
    return blanks.end() if blanks else place


def _held(document: object) -> str:
    """A short description of a document of no known format."""
    if isinstance(document, Mapping):
        keys = ", ".join(shown(key).strip("'") for key in list(document)[:6])
        return f"its keys: {keys}" if document else "empty"
    return "a list in a list" if isinstance(document, list) else shown(document)


def _unknown(source: str, held: str) -> str:
    known = "; ".join(f"{known.name} ({known.keys})" for known in RESULT_FORMATS)
    others = "logs with the summary of vLLM or SGLang, their /metrics"
    return f"{source}: not a known benchmark result ({held}); known: {known}, {others}, and CSV ({_CSV_KEYS})"


_CSV_KEYS = "columns model, gpu, tp, isl, osl, batch or concurrency, ttft_ms, tpot_ms and the like"


def _csv_runs(text: str, source: str, statistic: str | None) -> Iterator[Measurement | BadInput]:
    """Measurements of a CSV, or the faults of its rows."""
    heading, rows = csv_rows(text, source)
    if any(_VLLM_KEY.fullmatch(name) for name in heading):
        for number, row in rows:
            place = f"{source}:{number}"
            cells = {name: cell.strip() for name, cell in zip(heading, row, strict=False) if cell.strip()}
            yield _run(_vllm, JsonNode({name: _figure(cell) for name, cell in cells.items()}, place), place, statistic)
        return
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
        raise BadInput(f"{source}: no row has statistic {statistic}; leave out the statistic or choose another")


def _figure(cell: str) -> float | str:
    try:
        return float(cell)
    except ValueError:
        return cell


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
    fields = {name: value for name, value in fields.items() if value is not None or name == "has_equal_lengths"}
    for name in _TEXTS:
        most = _LONGEST_NOTE if name == "note" else _LONGEST_NAME
        if len(fields.get(name, "")) > most:
            raise BadInput(f"{source}: {name} has {len(fields[name])} characters; the limit is {most}")
    if fields.get("answered_rate") == 0.0:
        del fields["answered_rate"]  # the run was too short
    if fields.get("tpot") == 0.0 and fields.get("osl", 0.0) < 2.0:
        del fields["tpot"]  # vLLM writes the mean over no token gaps as 0
    if "ttft" not in fields and "tpot" not in fields and not (fields.get("e2el") and fields.get("is_whole")):
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
    fields.pop("is_whole", None)
    return Measurement(source, **fields)


def _listed(words: list[str]) -> str:
    return " and ".join(part for part in (", ".join(words[:-1]), words[-1]) if part)


# Fields of a benchmark result: numbers, texts and times under the keys of its document.
#
# A field that is not there is None; one that cannot be right is refused with its file and key.

#: Statistic -> its names in result files; without a choice, the first that a result has.
STATISTICS: Mapping[str, tuple[str, ...]] = {"median": ("median", "p50"), "mean": ("mean", "avg"), "p99": ("p99",)}

Fields = dict[str, Any]


class JsonNode:
    """A mapping inside a document, with its place for messages."""

    def __init__(self, data: object, source: str, path: str = "") -> None:
        self.data: Mapping[str, Any] = data if isinstance(data, Mapping) else {}
        self.source, self.path = source, path

    def at(self, *keys: str) -> JsonNode:
        """The mapping under some keys; empty where there is none."""
        node = self
        for key in keys:
            node = JsonNode(node.data.get(key), self.source, f"{node.path}{key}.")
        return node

    def number(self, key: str) -> float | None:
        """Finite number, at least 0; None where absent or null."""
        value = self.data.get(key)
        if value is None:
            return None
        if isinstance(value, bool) or not isinstance(value, (int, float)):
            raise self._fault(key, f"must be a number{', not text' if isinstance(value, str) else ''}")
        try:
            number = float(value)
        except OverflowError:
            number = math.inf
        if not math.isfinite(number):
            raise self._fault(key, "must be finite")
        if number < 0.0:
            raise self._fault(key, "must not be negative")
        return number

    def rate(self, key: str) -> float | None:
        """Number that may be infinite, also as text; None where absent or null."""
        value = self.data.get(key)
        if value in ("inf", "Infinity") or value == math.inf:
            return math.inf
        return self.number(key)

    def whole(self, key: str) -> int | None:
        """Whole number, also as text, as in the metadata of vLLM; None where absent, null or empty."""
        value = self.data.get(key)
        if isinstance(value, str):
            if not value.strip():
                return None
            if re.fullmatch(r"\d{1,9}", value.strip()):
                return int(value)
            raise self._fault(key, "must be a whole number")
        number = self.number(key)
        if number is not None and not number.is_integer():
            raise self._fault(key, "must be a whole number")
        return None if number is None else int(number)

    def text(self, key: str) -> str | None:
        """Text; None where absent, null, empty or no text."""
        value = self.data.get(key)
        return value.strip() or None if isinstance(value, str) else None

    def first_text(self, *keys: str) -> str | None:
        """First of several texts that is present."""
        return first(map(self.text, keys))

    def _fault(self, key: str, text: str) -> BadInput:
        return BadInput(f"{self.source}: {self.path}{key} = {shown(self.data[key])} {text}")


def measured_times(
    result: JsonNode, statistic: str | None, time: Callable[[str, str], float | None], unit: float = 1.0
) -> dict[str, Any]:
    """TTFT, TPOT and E2EL [s] at a statistic, by default the first that the result has.

    `time` gives a metric at a statistic in multiples of `unit` [s], or None.
    """
    for name in STATISTICS if statistic is None else (statistic,):
        times = {metric: time(name, metric) for metric in ("ttft", "tpot", "e2el")}
        if times["ttft"] is not None or times["tpot"] is not None:
            times |= {f"{metric}_mean": time("mean", metric) for metric in _TIMES} | {
                "ttft_median": time("median", "ttft")
            }
            return {"statistic": name, **{key: None if value is None else value * unit for key, value in times.items()}}
    raise BadInput(
        f"{result.source}: {result.path.rstrip('.') or 'the result'} has neither ttft nor tpot"
        + ("; measure with streaming" if statistic is None else f" ({statistic})")
    )


def first(values: Iterable[_Value | None]) -> _Value | None:
    """First value that is not None.

    >>> first([None, 0.0, 1.0])
    0.0
    """
    return next((value for value in values if value is not None), None)


def the_one(names: Iterable[str | None]) -> str | None:
    """The one name among the texts; None where there is none or several.

    >>> the_one(["h100", None, "h100"]), the_one(["h100", "h200"])
    ('h100', None)
    """
    distinct = {name for name in names if name}
    return distinct.pop() if len(distinct) == 1 else None


def as_list(value: object) -> list[Any]:
    """A list as it is, a text as a list of one, anything else as an empty list.

    >>> as_list("h100"), as_list(None)
    (['h100'], [])
    """
    return value if isinstance(value, list) else [value] if isinstance(value, str) and value else []


def day(stamp: str | None) -> str | None:
    """ISO date at the beginning of a time stamp, or None.

    >>> day("20261121-101500")
    '2026-11-21'
    """
    match = re.match(r"(\d{4})-?(\d\d)-?(\d\d)", stamp or "")
    return "-".join(match.groups()) if match else None


# Result files of benchmark tools: how each is recognized, and what its keys mean.
#
# Keys are those of the sources named at each reader; other keys are ignored. Times become seconds, and TPOT is vLLM's
# everywhere: (e2el - ttft) / (output tokens - 1).

#: InferenceX draws each length uniformly from 0.8 to 1 of the nominal one (RANDOM_RANGE_RATIO of its workflows).
_MEAN_OF_NOMINAL = 0.9

#: InferenceX sends ten requests for each of its users (benchmarks/benchmark_lib.sh, num-prompts).
_PROMPTS_PER_USER = 10.0

_TIME_UNITS = {"s": 1.0, "sec": 1.0, "seconds": 1.0, "ms": MILLI, "us": MICRO, "ns": NANO}
_VLLM_KEY = re.compile(r"(mean|median|p\d+)_(ttft|tpot|e2el|e2e_latency)_ms")
_INFERENCEX_KEY = re.compile(r"(mean|median|p\d+)_(ttft|tpot)")
_RUNNER = re.compile(r"(?:cluster:)?([a-z]+\d+[a-z]*)")  # b200-dsv4, h100-multinode, cluster:h200-cw
_ENGINES = ("vllm", "sglang", "trt", "tgi", "lmdeploy")


class ResultFormat(NamedTuple):
    """How the result of one tool is recognized, split into runs, and read."""

    name: str
    keys: str  # that identify it
    fits: Callable[[Mapping[str, Any]], bool]
    read: Callable[[JsonNode, str | None], Fields]  # one run at a statistic
    runs: Callable[[JsonNode], list[JsonNode]] = lambda document: [document]


def recognised(document: Mapping[str, Any]) -> ResultFormat | None:
    return next((known for known in RESULT_FORMATS if known.fits(document)), None)


def _vllm(result: JsonNode, statistic: str | None) -> Fields:
    """`vllm bench serve --save-result` and `sglang.bench_serving --output-file`: milliseconds.

    vLLM: vllm/benchmarks/serve.py at 009e6d4 (2026); its `--metadata KEY=VALUE` adds texts, of which
    those named like fields of a measurement are read. SGLang: python/sglang/bench_serving.py at
    0033168, and `server_info` of later ones.
    """

    def time(name: str, metric: str) -> float | None:
        spellings = (metric, "e2e_latency") if metric == "e2el" else (metric,)
        keys = (f"{word}_{spelling}_ms" for word in STATISTICS[name] for spelling in spellings)
        return first(result.number(key) for key in keys)

    completed = result.number("completed")
    if completed == 0.0:
        raise BadInput(f"{result.source}: completed = 0: no request succeeded")
    totals = result.number("total_input_tokens"), result.number("total_output_tokens")
    isl, osl = (None if total is None or completed is None else total / completed for total in totals)
    notes: list[str] = []
    if result.number("failed"):
        notes.append(f"failed requests, not counted: {result.number('failed'):g}")
    accepted = result.number("spec_decode_acceptance_length") or result.number("accept_length")
    if accepted is not None and accepted > 1.0:
        notes.append(_speculative(f"{accepted:.3g} tokens a step"))
    server, backend = result.at("server_info"), result.text("backend") or ""
    plan = _sglang_plan(server) if server.data else _stated_plan(result)
    return {
        **measured_times(result, statistic, time, MILLI),
        **plan,
        **_vllm_load(result, completed, notes),
        "has_equal_lengths": _are_equal((isl, osl), time) if completed is not None and completed > 1.0 else False,
        "answered_rate": result.number("request_throughput"),
        "isl": first((isl, result.number("isl"))),
        "osl": first((osl, result.number("osl"))),
        "model": result.first_text("model_id", "model") or server.text("model_path"),
        "gpu": result.text("gpu"),
        "engine": result.text("engine") or next((name for name in _ENGINES if backend.startswith(name)), None),
        "engine_version": result.text("engine_version") or server.text("version"),
        **_formats(result, server),
        **_limits(server if server.data else result, plan["dp"] if server.data else 1),
        "prefix": result.whole("prefix"),
        "date": day(result.text("date")),
        "note": "; ".join(notes) or None,
        "settings": settings_of(result.data, server.data),
    }


#: Largest p99 over median of requests that are all of one length: of E2EL, which longer answers alone would move more;
#: of TTFT, where that is not stated.
_EQUAL_E2EL, _EQUAL_TTFT = 1.18, 2.0


def _are_equal(lengths: Iterable[float | None], time: Callable[[str, str], float | None]) -> bool | None:
    """Whether all requests are of one length: whole means, which others hardly have, and like E2EL; None: perhaps."""
    if not all(length is not None and length.is_integer() for length in lengths):
        return False
    for metric, most, told in (("e2el", _EQUAL_E2EL, True), ("ttft", _EQUAL_TTFT, None)):
        last, middle = time("p99", metric), time("median", metric)
        if last is not None and middle:
            return told if last <= most * middle else False
    return False


def _vllm_load(result: JsonNode, completed: float | None, notes: list[str]) -> Fields:
    """The load: a cap on requests in flight, a rate, or all requests at once."""
    rate, cap = result.rate("request_rate"), result.number("max_concurrency")
    prompts = result.number("num_prompts") or completed
    if rate is not None and math.isfinite(rate):
        in_flight = result.number("concurrency")  # SGLang's mean over the run
        if in_flight:
            notes.append(f"{in_flight:.3g} requests were in flight on average at {rate:g} requests/s")
        elif cap is not None:
            notes.append(f"at most {cap:g} requests in flight at {rate:g} requests/s: assumed always in flight")
        return {"request_rate": rate, "concurrency": in_flight or cap}
    if cap is not None:
        return {"concurrency": cap if prompts is None else min(cap, prompts), "num_prompts": prompts}
    if rate is None or prompts is None:
        return {}
    if prompts > 1.0:
        notes.append(f"all {prompts:g} requests were sent at once: predicted as a burst")
    return {"concurrency": prompts, "num_prompts": prompts}


def _stated_plan(result: JsonNode) -> Fields:
    """Parallel degrees from the metadata of a vLLM run."""
    plan = {name: result.whole(name) for name in ("tp", "pp", "ep", "dp")}
    return {**plan, "tp": first((plan["tp"], result.whole("tensor_parallel_size")))}


#: Formats of the KV cache that SGLang names otherwise; ``auto`` is the checkpoint's own.
_SGLANG_CACHES = {"fp8_e4m3": "fp8", "fp8_e5m2": "fp8", "bf16": "bf16", "bfloat16": "bf16"}


#: SGLang's ``--quantization`` -> preset.
_SGLANG_WEIGHTS = {
    "fp8": "fp8", "w8a8_fp8": "fp8", "modelopt_fp8": "fp8_static", "awq": "int4", "awq_marlin": "int4", "gptq": "int4",
    "gptq_marlin": "int4", "modelopt_fp4": "nvfp4", "mxfp4": "mxfp4", "w8a8_int8": "int8",
}  # fmt: skip


def _formats(result: JsonNode, server: JsonNode) -> Fields:
    """Formats of weights and KV cache, as the result or SGLang's server states them."""
    stated, cache = result.text("quantization"), result.text("kv_cache_dtype")
    weights = None if stated else _SGLANG_WEIGHTS.get(server.text("quantization") or "")
    cache = cache or _SGLANG_CACHES.get(server.text("kv_cache_dtype") or "")
    return {"quantization": stated or weights, "kv_cache_dtype": cache or ("auto" if weights else None)}


#: Limits of a step -> their names in a result's metadata, and in SGLang's server_info.
_STEPS = {
    "max_num_seqs": ("max_num_seqs", "max_running_requests"),
    "max_num_batched_tokens": ("max_num_batched_tokens", "chunked_prefill_size"),
}


def _limits(stated: JsonNode, ranks: float | None) -> Fields:
    """Limits of a step of one rank; SGLang states those of all of them."""
    found: Fields = {}
    for name, spellings in _STEPS.items():
        values = [value for spelling in spellings if isinstance(value := stated.data.get(spelling), (int, str))]
        numbers = [int(value) for value in values if str(value).isdecimal() and 0 < int(value) < BILLION]
        found[name] = max(numbers[0] // int(ranks or 1), 1) if numbers else None
    return found


def _sglang_plan(server: JsonNode) -> Fields:
    """Parallel degrees of an SGLang server; with data-parallel attention its dp_size divides its tp_size."""
    tp, dp = server.whole("tp_size"), server.whole("dp_size") or 1
    if tp is not None and server.data.get("enable_dp_attention") is True:
        tp = max(tp // dp, 1)
    return {"tp": tp, "dp": dp, "pp": server.whole("pp_size"), "ep": server.whole("ep_size")}


def _aiperf(result: JsonNode, statistic: str | None) -> Fields:
    """AIPerf's profile_export_aiperf.json and genai-perf's profile_export_genai_perf.json.

    `inter_token_latency` is (latency - TTFT) / (tokens - 1): vLLM's TPOT. AIPerf: aiperf/exporters/
    metrics_json_exporter.py at 047d59d, and an export of 0.10.0; genai-perf: export_data/json_exporter.py
    at 263c5f6. `input_config` differs between versions; all of its forms are tried.
    """
    metrics = {"ttft": "time_to_first_token", "tpot": "inter_token_latency", "e2el": "request_latency"}

    def time(name: str, metric: str) -> float | None:
        node = result.at(metrics[metric])
        value = first(node.number(word) for word in STATISTICS[name])
        unit = node.text("unit") or "ms"
        if unit not in _TIME_UNITS:
            raise BadInput(f"{result.source}: {node.path}unit = {shown(unit)} must be one of {', '.join(_TIME_UNITS)}")
        return None if value is None else value * _TIME_UNITS[unit]

    config = result.at("input_config")
    phases = [JsonNode(phase, result.source, "input_config.phases.") for phase in as_list(config.data.get("phases"))]
    homes = [phase for phase in phases if phase.data.get("exclude_from_results") is not True][:1]
    homes += [config.at("loadgen"), config.at("perf_analyzer", "stimulus"), config]
    rates = [home.rate(key) for home in homes for key in ("rate", "request_rate") if home.data.get(key) != ""]
    return {
        **measured_times(result, statistic, time),
        "model": _aiperf_model(config),
        "gpu": the_one(_gpu_names(result)),
        "isl": result.at("input_sequence_length").number("avg"),
        "osl": result.at("output_sequence_length").number("avg"),
        "has_equal_lengths": all(
            result.at(f"{side}_sequence_length").number("std") == 0.0 for side in ("input", "output")
        ),
        "concurrency": first(home.number("concurrency") for home in homes if home.data.get("concurrency") != ""),
        "request_rate": first(rate for rate in rates if rate != math.inf),
        "answered_rate": result.at("request_throughput").number("avg"),
        "date": day(result.text("start_time")),
    }


def _aiperf_model(config: JsonNode) -> str | None:
    """Model of a run, from any form of the configuration; None for a run over several."""
    items = [JsonNode(item, config.source).text("name") for item in as_list(config.at("models").data.get("items"))]
    homes = (items, config.at("endpoint").data.get("model_names"), config.data.get("model_names"))
    names = next((as_list(home) for home in (*homes, config.data.get("model")) if as_list(home)), [])
    return the_one(name for name in names if isinstance(name, str))


def _gpu_names(result: JsonNode) -> Iterator[str | None]:
    """Names of the GPUs whose telemetry AIPerf collected."""
    endpoints = result.at("telemetry_data", "endpoints")
    for endpoint in endpoints.data:
        gpus = endpoints.at(endpoint, "gpus")
        yield from (gpus.at(gpu).text("gpu_name") for gpu in gpus.data)


def _guidellm(run: JsonNode, statistic: str | None) -> Fields:
    """One run of GuideLLM's benchmarks.json.

    `inter_token_latency_ms` is vLLM's TPOT; `time_per_output_token_ms` holds the first token too, and is
    not read; `request_latency` is in seconds. Source: src/guidellm/schemas/request_stats.py and
    benchmark/schemas at ee7a774 (after 0.7.3), benchmark/benchmark.py at 0.3.1.
    """
    metrics = run.at("metrics")
    units = {"ttft": ("time_to_first_token_ms", MILLI), "tpot": ("inter_token_latency_ms", MILLI)}

    def time(name: str, metric: str) -> float | None:
        key, unit = units.get(metric, ("request_latency", 1.0))
        good = metrics.at(key, "successful")
        value = good.at("percentiles").number("p99") if name == "p99" else good.number(name)
        return None if value is None or good.number("count") == 0.0 else value * unit

    return {
        **measured_times(run, statistic, time),
        **_guidellm_load(run),
        "model": run.at("config", "backend").text("model") or run.at("worker").text("backend_model"),
        "isl": metrics.at("prompt_token_count", "successful").number("mean"),
        "osl": metrics.at("output_token_count", "successful").number("mean"),
        "answered_rate": metrics.at("requests_per_second", "successful").number("mean"),
    }


def _guidellm_load(run: JsonNode) -> Fields:
    """Streams of a closed loop, else the mean number of requests in flight."""
    strategy = run.at("config", "strategy") if run.at("config").data else run.at("args", "strategy")
    kind = strategy.text("type_") or "unnamed"
    if kind == "synchronous":
        return {"concurrency": 1.0}
    if kind == "concurrent":
        return {"concurrency": strategy.number("streams")}
    in_flight = run.at("metrics", "request_concurrency", "successful").number("mean") or None
    note = f"{kind} strategy: {in_flight:.3g} requests were in flight on average" if in_flight else None
    return {"concurrency": in_flight, "request_rate": strategy.number("rate"), "note": note}


def _guidellm_runs(report: JsonNode) -> list[JsonNode]:
    runs = as_list(report.data.get("benchmarks"))
    if not runs:
        raise BadInput(f"{report.source}: benchmarks is empty: GuideLLM finished no benchmark")
    return [JsonNode(run, report.source, f"benchmarks[{place}].") for place, run in enumerate(runs)]


def _inferencex(result: JsonNode, statistic: str | None) -> Fields:
    """InferenceX's (InferenceMAX's) agg_*.json: vLLM's keys in seconds.

    Source: utils/process_result.py at 843c625 (2026-08). Its tp counts all GPUs, which dp_attention
    divides; lengths are nominal; the model is the checkpoint that was served.
    """

    def time(name: str, metric: str) -> float | None:
        return first(result.number(f"{word}_{metric}") for word in STATISTICS[name])

    nominal = map(result.whole, ("isl", "osl"))
    isl, osl = (None if length is None else _MEAN_OF_NOMINAL * length for length in nominal)
    notes = []
    if isl is not None:
        notes.append("isl and osl are 0.9 of nominal: InferenceX draws lengths from 0.8 to 1 of it")
    tp, dp = result.whole("tp"), 1
    if tp is not None and str(result.data.get("dp_attention")).lower() == "true":
        tp, dp = 1, tp
    if tp is None and result.data.get("prefill_tp") is not None:
        plans = ", ".join(f"{kind} tp {result.whole(f'{kind}_tp')}" for kind in ("prefill", "decode"))
        notes.append(f"prefill and decode may have run on separate GPUs ({plans}); one plan does not cover both")
    drafts = result.first_text("spec_decoding", "mtp") or "none"
    if drafts.lower() not in ("none", "off"):
        notes.append(_speculative(drafts))
    if result.text("precision") is not None:
        notes.append(f"precision {_quoted(result.text('precision'))}: read as the formats of the named checkpoint")
    runner = (result.text("hw") or "").lower()
    gpu = _RUNNER.match(runner)
    return {
        **measured_times(result, statistic, time),
        "model": result.text("model"),
        "gpu": gpu[1] if gpu else runner or None,
        "engine": result.text("framework"),
        "engine_version": (result.text("image") or "").partition(":")[2] or None,
        "isl": isl,
        "osl": osl,
        "tp": tp,
        "pp": result.whole("pp"),
        "ep": result.whole("ep"),
        "dp": dp,
        "concurrency": result.number("conc"),
        "num_prompts": None if result.number("conc") is None else _PROMPTS_PER_USER * (result.number("conc") or 1.0),
        "note": "; ".join(notes) or None,
    }


#: Quantization of TensorRT-LLM checkpoints -> preset.
_OF_TRTLLM = {"FP8": "fp8_static", "FP8_BLOCK_SCALES": "fp8_block", "NVFP4": "nvfp4"}


def _trtllm_bench(result: JsonNode, statistic: str | None) -> Fields:
    """The report of ``trtllm-bench ... --streaming --report_json``: milliseconds.

    TensorRT-LLM: tensorrt_llm/bench/dataclasses/reporting.py, get_statistics_dict.
    """
    streamed, performance = result.at("streaming_metrics"), result.at("performance")

    def time(name: str, metric: str) -> float | None:
        if name == "mean":
            return (
                performance.number("avg_request_latency_ms")
                if metric == "e2el"
                else streamed.number(f"avg_{metric}_ms")
            )
        of = (
            performance.at("request_latency_percentiles_ms")
            if metric == "e2el"
            else streamed.at(f"{metric}_percentiles")
        )
        return of.number("p99" if name == "p99" else "p50")

    engine, world, requests = result.at("engine"), result.at("world_info"), result.at("request_info")
    form, cache = (engine.text(key) or "" for key in ("quantization", "kv_cache_dtype"))
    notes = []
    if form and form.upper() != "NONE" and form.upper() not in _OF_TRTLLM:
        notes.append(f"quantization {_quoted(form)}: read as the formats of the named checkpoint")
    return {
        **measured_times(result, statistic, time, MILLI),
        "model": engine.text("model"),
        "engine": "trtllm",
        "engine_version": engine.text("version"),
        "quantization": _OF_TRTLLM.get(form.upper()),
        "kv_cache_dtype": {"FP8": "fp8", "NVFP4": "nvfp4"}.get(cache.upper()),
        "isl": requests.number("avg_input_length"),
        "osl": requests.number("avg_output_length"),
        "concurrency": requests.number("avg_num_concurrent_requests"),
        "num_prompts": requests.number("num_requests"),
        "answered_rate": performance.number("request_throughput_req_s"),
        **{name: world.whole(f"{name}_size") for name in ("tp", "pp", "ep")},
        "note": "; ".join(notes) or None,
    }


#: Formats in the names of GGUF files -> preset; others are 16 bits, or unknown here.
_GGUF = re.compile(r"[-.](?:UD-)?(?:(IQ4|Q4|MXFP4)|(Q8)|(B?F16|Q\d|IQ\d))\w*$", re.IGNORECASE)


def _llama_bench(row: JsonNode, statistic: str | None) -> Fields:
    """A row of ``llama-bench -o json``: tokens per second of a prompt, or of an answer, of one sequence.

    llama.cpp: tools/llama-bench/llama-bench.cpp, json_printer.
    """
    speed, prompt, answer = row.number("avg_ts"), row.number("n_prompt") or 0.0, row.number("n_gen") or 0.0
    if not speed or (prompt > 0.0) == (answer > 0.0):
        raise BadInput(f"{row.source}: a row of llama-bench needs avg_ts, and a prompt (-p) or an answer (-n) alone")
    if statistic not in (None, "mean"):
        raise BadInput(f"{row.source}: llama-bench states means, not the {statistic}")
    depth = row.number("n_depth") or 0.0
    name = (row.text("model_filename") or "").replace("\\", "/").rpartition("/")[2].removesuffix(".gguf")
    form = _GGUF.search(name)
    notes = ["tokens of one sequence, without a server"]
    if form is not None and (form[1] or form[2]):
        notes.append(f"{form[0][1:]} read as {'int4' if form[1] else 'int8'}")
    return {
        "statistic": "mean",
        "ttft": prompt / speed if prompt else None,
        "tpot": 1.0 / speed if answer else None,
        "model": name[: form.start()] if form else name or None,
        "gpu": row.text("gpu_info"),
        "engine": "none" if prompt else "llama.cpp",  # whose overhead was measured in decode steps alone
        "quantization": None if form is None else "int4" if form[1] else "int8" if form[2] else None,
        "isl": prompt + depth if prompt else max(depth, 1.0),
        "osl": answer + 1.0 if answer else 1.0,
        "prefix": depth if prompt and depth else None,
        "batch": 1.0,
        "tp": 1,
        "note": "; ".join(notes),
    }


def _vllm_latency(result: JsonNode, statistic: str | None) -> Fields:
    """``vllm bench latency --output-json``: seconds of a whole batch, from its prompts to its last tokens.

    vLLM: vllm/benchmarks/latency.py. It states neither lengths nor batch nor model.
    """
    found = {"mean": result.number("avg_latency"), "median": result.at("percentiles").number("50")}
    name = statistic or ("median" if found["median"] else "mean")
    time = result.at("percentiles").number("99") if name == "p99" else found[name]
    if not time:
        raise BadInput(f"{result.source}: has no {name} latency")
    return {
        "statistic": name,
        "e2el": time,
        "is_whole": True,
        "engine": "vllm",
        "note": "E2EL is that of a whole batch",
    }


def _vllm_throughput(result: JsonNode, statistic: str | None) -> Fields:
    """``vllm bench throughput --output-json``: seconds of a run whose requests all wait from the start.

    vLLM: vllm/benchmarks/throughput.py. It states neither lengths nor model.
    """
    if statistic not in (None, "mean"):
        raise BadInput(f"{result.source}: a throughput is of the whole run, not a {statistic}")
    requests = result.number("num_requests")
    return {
        "statistic": "mean",
        "e2el": result.number("elapsed_time"),
        "num_prompts": requests,
        "is_queue": True,
        "is_whole": True,
        "engine": "vllm",
        "note": f"E2EL is the time of the whole run of {requests or 0.0:,.0f} requests, which all wait from the start",
    }


def _quoted(text: str | None) -> str:
    """A word of a result, shortened for a note."""
    return shown(text).strip("'")


def _speculative(how: str) -> str:
    return f"speculative decoding ({_quoted(how)}): tpot is per token; the prediction has no speculation"


def _has_unit(value: object) -> bool:
    return isinstance(value, Mapping) and "unit" in value


#: Every format of a JSON document that is read, most distinctive first.
RESULT_FORMATS = (
    ResultFormat("GuideLLM", "benchmarks", lambda d: "benchmarks" in d, _guidellm, _guidellm_runs),
    ResultFormat(
        "AIPerf or genai-perf",
        "time_to_first_token or inter_token_latency with a unit",
        lambda d: any(_has_unit(d.get(k)) for k in ("time_to_first_token", "inter_token_latency", "request_latency")),
        _aiperf,
    ),
    ResultFormat(
        "trtllm-bench --report_json",
        "request_info and performance",
        lambda d: "request_info" in d and "performance" in d,
        _trtllm_bench,
    ),
    ResultFormat(
        "vllm bench latency", "avg_latency and latencies", {"avg_latency", "latencies"}.issubset, _vllm_latency
    ),
    ResultFormat(
        "vllm bench throughput",
        "elapsed_time, num_requests and requests_per_second",
        {"elapsed_time", "num_requests", "requests_per_second"}.issubset,
        _vllm_throughput,
    ),
    ResultFormat(
        "llama-bench -o json", "n_prompt, n_gen and avg_ts", {"n_prompt", "n_gen", "avg_ts"}.issubset, _llama_bench
    ),
    ResultFormat(
        "vllm bench serve or sglang.bench_serving",
        "mean_ttft_ms, median_tpot_ms and the like",
        lambda d: any(_VLLM_KEY.fullmatch(str(key)) for key in d),
        _vllm,
    ),
    ResultFormat(
        "InferenceX",
        "hw, conc, and mean_ttft, median_tpot and the like",
        lambda d: "hw" in d and "conc" in d and any(_INFERENCEX_KEY.fullmatch(str(key)) for key in d),
        _inferencex,
    ),
)
