"""Result files of benchmark tools: how each is recognized, and what its keys mean.

Keys are those of the sources named at each reader; other keys are ignored. Times become seconds, and
TPOT is vLLM's everywhere: (e2el - ttft) / (output tokens - 1).
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from roofline.errors import BadInput, shown
from roofline.measurements.fields import STATISTICS, Fields, JsonNode, as_list, day, first, measured_times, the_one
from roofline.quantity import MICRO, MILLI, NANO
from roofline.records import NamedTuple

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
    return {
        **measured_times(result, statistic, time, MILLI),
        **(_sglang_plan(server) if server.data else _stated_plan(result)),
        **_vllm_load(result, completed, notes),
        "answered_rate": result.number("request_throughput"),
        "isl": isl,
        "osl": osl,
        "model": result.first_text("model_id", "model") or server.text("model_path"),
        "gpu": result.text("gpu"),
        "engine": result.text("engine") or next((name for name in _ENGINES if backend.startswith(name)), None),
        "engine_version": result.text("engine_version"),
        "quantization": result.text("quantization"),
        "kv_cache_dtype": result.text("kv_cache_dtype"),
        "prefix": result.whole("prefix"),
        "date": day(result.text("date")),
        "note": "; ".join(notes) or None,
    }


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

    isl, osl = (
        None if nominal is None else _MEAN_OF_NOMINAL * nominal for nominal in map(result.whole, ("isl", "osl"))
    )
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
