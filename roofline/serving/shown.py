"""A prediction as a flat row for programs, and the words for its parts."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any

from roofline.numbers.operations import Real, always, span_text, where
from roofline.numbers.quantity import GIGA, HOUR, MILLI, MONTH, counted, distinct_texts, to_text
from roofline.physics.plan import PLAIN_SPREAD
from roofline.serving.answers import check_keys, listed_keys, selected
from roofline.serving.latency import Workload, load_text
from roofline.serving.prompts import hit_rate, load_time
from roofline.serving.quantization import summary
from roofline.serving.verdict import FAIL, PASS, Verdict
from roofline.specs.keys import LATENCY_NAMES, OVER, Key, Keys, cells, taken
from roofline.specs.workload import (
    JUDGED,
    LATENCIES,
    LEVELS,
    P99_WITHIN,
    key_of,
    key_text,
    limits_words,
    metric_and_level,
)

if TYPE_CHECKING:
    from roofline.physics.plan import Deployment, Draft
    from roofline.serving.knee import Knees
    from roofline.serving.prediction import Prediction
    from roofline.specs.engine import PromptCache


# A prediction as a flat row for programs.


def row(prediction: Prediction[Any, Any, Any], keys: Iterable[str] | None = None) -> dict[str, Any]:
    """Row of the JSON contract, or some of its keys; None where a value does not apply, lists for arrays."""
    if keys is None:
        return _json_values(figures(prediction, ROW_KEYS))
    chosen = keys if type(keys) is tuple else listed_keys(keys)
    check_keys(chosen, ROW_KEYS)
    return _json_values(figures(prediction, chosen))


def figures(prediction: Prediction[Any, Any, Any], keys: Iterable[str]) -> dict[str, Any]:
    """The same with arrays as they are computed, in which a number that is not finite stands for None."""
    return {key: _VALUES[key](prediction) for key in keys}


def _json_values(values: dict[str, Any]) -> dict[str, Any]:
    """Values of a row with lists in place of arrays."""
    arrays = [key for key, value in values.items() if hasattr(value, "dtype")]
    if arrays:
        from roofline.numbers.arrays import listed

        values |= {key: listed(values[key]) for key in arrays}
    return values


def _json_value(value: Real, unit: float = 1.0) -> Any:
    """JSON value, None for a number that is not finite; an array in the unit."""
    if value is None or isinstance(value, (bool, str)):
        return value
    if isinstance(value, (float, int)):
        number = value / unit
        return number if number - number == 0.0 else None
    return value if unit == 1.0 else value / unit


def _integral(value: Real) -> Any:
    """JSON value, with whole floats as integers."""
    number = _json_value(value)
    return int(number) if isinstance(number, float) and number.is_integer() else number


def _figure(name: str) -> Callable[[Prediction], Any]:
    return lambda p: _json_value(getattr(p, name))


def _mean(latency: str) -> Key[Prediction]:
    meaning = f"{LATENCY_NAMES[latency]}; under a load the mean over {OVER[latency]}."
    return Key.number("ms", meaning, lambda p: _json_value(getattr(p, latency), MILLI))


def _interval(result: str) -> Keys[Prediction]:
    """Both ends of an 80 % interval; None on the ideal basis."""
    return _ends(result, lambda p: getattr(p, f"{result}_interval"))


def _percentile(key: str) -> Keys[Prediction]:
    """A percentile and both ends of its 80 % interval; None for a burst."""

    def value(prediction: Prediction) -> Any:
        return None if prediction.tails is None else _json_value(prediction.latency(key), MILLI)

    over = OVER[metric_and_level(key)[0]]
    return {
        f"{key}_ms": Key.number("ms", f"{key_text(key)} over the {over} of a load.", value),
        **_ends(key, lambda p: None if p.tails is None else p.latency_interval(key)),
    }


def _ends(key: str, interval: Callable[[Prediction], Any]) -> Keys[Prediction]:
    def end(prediction: Prediction, place: int) -> Any:
        found = interval(prediction)
        return None if found is None else _json_value(found[place], MILLI)

    of = f"end of the 80 % interval of {key_text(key)}."
    return {
        f"{key}_low_ms": Key.number("ms", f"Lower {of}", lambda p: end(p, 0)),
        f"{key}_high_ms": Key.number("ms", f"Upper {of}", lambda p: end(p, 1)),
    }


def _token_price(kind: str, meaning: str) -> Key[Prediction]:
    def value(prediction: Prediction) -> Any:
        return None if prediction.token_prices is None else _json_value(getattr(prediction.token_prices, kind))

    return Key.number("USD", meaning, value)


def rent_of_a_month(usd_per_hour: float | None) -> float | None:
    """Rent for 730 hours [USD/month]; None where that of an hour is not known."""
    return None if usd_per_hour is None else usd_per_hour * MONTH / HOUR


def _rent(end: int, meaning: str) -> Key[Prediction]:
    def value(prediction: Prediction) -> Any:
        return None if prediction.usd_per_hour_range is None else _json_value(prediction.usd_per_hour_range[end])

    return Key.number("USD/h", meaning, value)


def _spread(of: str, meaning: str) -> Key[Prediction]:
    def value(prediction: Prediction) -> Any:
        lengths = prediction.workload.lengths
        return 0.0 if lengths is None else getattr(lengths, of).cv

    return Key.number("1", meaning, value)


def _format(place: int, meaning: str) -> Key[Prediction]:
    return Key.text(meaning, lambda p: summary(p.deployment.model, p.deployment.quantization)[place])


def _of_decode(prediction: Prediction, value: Callable[[], Real], without: float | None = None) -> Any:
    """A figure of decode steps; None for single tokens, which have none: in an array `without`."""
    if prediction.tpot is None:
        return None
    several = prediction.workload.osl > 1.0
    return _json_value(value() if always(several) else where(several, value(), without))


def _load_error(key: str) -> Key[Prediction]:
    meaning = f"Error of the {key_text(key)} against simulations that nine in ten of those cases stay within."
    return Key.number("1", meaning, lambda p: _json_value(p.load_error(key)))


def _verdict(part: str) -> Callable[[Prediction], Any]:
    """Part of the verdict on the SLO; None without one."""
    return lambda p: None if p.slo_verdict is None else getattr(p.slo_verdict, part)


def draft_name(draft: Draft) -> str:
    return draft.model.short_name if draft.method == "model" and draft.model is not None else draft.method


def _cache_figure(prediction: Prediction, figure: Callable[[Deployment, Real, PromptCache], Real], unit: float) -> Any:
    """A figure of the prompt cache; None without one."""
    cache = prediction.workload.cache
    if cache is None:
        return None
    return _json_value(figure(prediction.deployment, prediction.workload.prefix, cache), unit)


def _of_spread(name: str) -> Callable[[Prediction], Any]:
    """A figure of experts in balance, half batches or the exchange; None where the case asks for none of them."""

    def figure(prediction: Prediction) -> Any:
        if prediction.deployment.spread is PLAIN_SPREAD:
            return None
        from roofline.serving.expert_balance import BALANCE_FIGURES

        return BALANCE_FIGURES[name](prediction)

    return figure


def _lora(prediction: Prediction) -> str | None:
    adapters = prediction.deployment.adapters
    if adapters is None:
        return None
    from roofline.serving.side_weights import adapters_text

    return adapters_text(adapters)


def _offloaded(prediction: Prediction) -> Real:
    from roofline.physics.memory import offloaded_bytes

    return offloaded_bytes(prediction.deployment)


#: Keys of knees, and of them in a row.
KNEE_KEYS: Keys[Knees[Any, Any]] = {
    "ridge_knee": Key.number(
        "sequences", "Batch or users at which decode turns compute-bound.", lambda k: _json_value(k.ridge)
    ),
    "half_knee": Key.number(
        "sequences", "Batch or users at which throughput reaches half of its asymptote.", lambda k: _json_value(k.half)
    ),
    "memory_knee": Key.number(
        "sequences", "Most sequences, or users, for whom there is memory.", lambda k: _integral(k.memory)
    ),
    "slo_knee": Key.number(
        "sequences",
        "Most sequences, or users, with whom the SLO is met; null where not known.",
        lambda k: _integral(k.slo),
    ),
    "knee": Key.number(
        "sequences", "The smallest of the four, of those that are known.", lambda k: _json_value(k.smallest[0])
    ),
    "knee_bound": Key.text("Which of the four it is.", lambda k: _json_value(k.smallest[1])),
}


def knee_row(knees: Knees[Any, Any], keys: Iterable[str] | None = None) -> dict[str, Any]:
    """Row of knees alone, or some of its keys; lists for arrays."""
    return _json_values(cells(selected(KNEE_KEYS, keys), knees))


def _of_knees(name: str) -> Callable[[Prediction], Any]:
    return lambda p: cells({name: KNEE_KEYS[name]}, p.knees)[name]


def _of_energy(unit: str, name: str, meaning: str, end: int | None = None) -> Key[Prediction]:
    """A figure of the energy, or an end of a range; None where it does not apply."""

    def value(prediction: Prediction) -> Any:
        found = None if prediction.energy is None else getattr(prediction.energy, name)
        return _json_value(found if found is None or end is None else found[end])

    return Key.number(unit, meaning, value)


def _of_step_energy(name: str) -> Callable[[Prediction], Any]:
    return lambda p: None if p.energy is None else _of_decode(p, lambda: getattr(p.energy, name), math.nan)


def _encoding_time(prediction: Prediction) -> Real:
    from roofline.serving.media_shown import encoding_time

    return encoding_time(prediction.prefill)


#: Keys of a row about power and energy; null on the ideal basis, and where a GPU states no power.
ENERGY_KEYS: Keys[Prediction] = {
    "mean_power_w": _of_energy(
        "W", "power", "Mean board power of one GPU under the load; at most, where `energy_basis` is bound."
    ),
    "mean_power_low_w": _of_energy("W", "power_range", "Lower end of its 80 % interval; null for a bound.", 0),
    "mean_power_high_w": _of_energy("W", "power_range", "Upper end of its 80 % interval; null for a bound.", 1),
    "prefill_power_w": _of_energy("W", "prefill_power", "Board power of one GPU while a prompt is computed."),
    "decode_power_w": Key.number(
        "W",
        "Board power of one GPU in a decode step.",
        _of_step_energy("decode_power"),
    ),
    "j_per_request": _of_energy("J", "per_request", "Energy of all boards per request, idle time included."),
    "j_per_output_tok": _of_energy("J", "per_output_token", "The same per output token, prompts included."),
    "j_per_input_tok": _of_energy("J", "per_input_token", "Energy of the prefill alone, per prompt token."),
    "j_per_decode_tok": Key.number(
        "J",
        "Energy of a decode step alone, per token of it.",
        _of_step_energy("per_decode_token"),
    ),
    "kwh_per_m_output_tok": _of_energy(
        "kWh", "kwh_per_m_output_tok", "Energy per million output tokens, prompts and `pue` included."
    ),
    "energy_usd_per_m_output_tok": _of_energy(
        "USD", "usd_per_m_output_tok", "Price of that energy at `kwh_price`; not part of the rent, nor added to it."
    ),
    "energy_usd_per_hour": _of_energy("USD/h", "usd_per_hour", "The same for an hour of all GPUs under the load."),
    "power_cap_w": _of_energy("W", "cap", "Power to which each GPU is limited (`power_cap`)."),
    "energy_basis": Key.text(
        "measured-generation: from measured power of kernels; bound: the TDP, which no such board exceeds.",
        lambda p: None if p.energy is None else p.energy.basis,
    ),
}

#: Keys of a row of the JSON contract, in order; without `of`, the value is the figure of that name.
KEYS: Keys[Prediction] = {
    "model": Key.text("Short name of the model.", lambda p: p.deployment.model.short_name, is_open=False),
    "model_id": Key.text("Hugging Face id of the model.", lambda p: p.deployment.model.name, is_open=False),
    "gpu": Key.text("Canonical name of the GPU.", lambda p: p.deployment.gpu.name, is_open=False),
    "num_gpus": Key.integer("1", "GPUs of all replicas (`num_gpus`).", lambda p: p.deployment.num_gpus),
    "tp": Key.integer("1", "Tensor-parallel degree.", lambda p: p.deployment.plan.tp),
    "pp": Key.integer("1", "Pipeline-parallel degree.", lambda p: p.deployment.plan.pp),
    "ep": Key.integer("1", "Expert-parallel degree.", lambda p: p.deployment.plan.ep),
    "dp": Key.integer("1", "Data-parallel degree of the attention.", lambda p: p.deployment.plan.dp),
    "cp": Key.integer("1", "Ranks that split the tokens of each prompt.", lambda p: p.deployment.plan.cp),
    "dcp": Key.integer("1", "Ranks of tp that split the cache of each sequence.", lambda p: p.deployment.plan.dcp),
    "isl": Key.number("tokens", "Prompt length, or its mean.", lambda p: _integral(p.workload.text), is_open=False),
    "osl": Key.number("tokens", "Answer length, or its mean.", lambda p: _integral(p.workload.osl), is_open=False),
    "prefix": Key.number(
        "tokens", "Prompt tokens whose KV is cached already.", lambda p: _integral(p.workload.prefix), is_open=False
    ),
    "cache_hit": Key.number(
        "1",
        "Share of the requests whose prefix is in the cache; null without a cache.",
        lambda p: _cache_figure(p, hit_rate, 1.0),
    ),
    "cache_tier": Key.text(
        "Where the cache lies: hbm, host, nvme or network; null without one.",
        lambda p: None if p.workload.cache is None else p.workload.cache.tier,
    ),
    "cache_load_ms": Key.number(
        "ms",
        "Time to load a prefix, waits apart; 0 in the memory of the GPU, null without a cache.",
        lambda p: _cache_figure(p, load_time, MILLI),
    ),
    "isl_cv": _spread("prompts", "Standard deviation of prompt lengths over their mean."),
    "osl_cv": _spread("answers", "Standard deviation of answer lengths over their mean."),
    "media": Key.text(
        "Images, video and audio of a request; null without any.",
        lambda p: None if p.deployment.media is None else p.deployment.media.text,
    ),
    "media_tokens": Key.integer(
        "tokens",
        "Prompt tokens that they add to `isl`; null without any.",
        lambda p: None if p.deployment.media is None else p.deployment.media.tokens,
    ),
    "batch": Key.number(
        "sequences",
        "Requests of a burst on each replica; null under a load.",
        lambda p: _integral(p.workload.batch) if p.served is None else None,
    ),
    "load": Key.text(
        "What comes to the deployment: burst, concurrency, request_rate or, where all requests wait from the start, "
        "num_prompts.",
        is_open=False,
    ),
    "num_prompts": Key.number("requests", "Requests of the run.", lambda p: _integral(p.workload.num_prompts)),
    "duration_s": Key.number(
        "s",
        "Time from the start of a run to its last answer; null in the steady state.",
        lambda p: _json_value(p.duration),
    ),
    "concurrency": Key.number(
        "requests", "Requests in flight on the whole deployment.", lambda p: _integral(p.concurrency)
    ),
    "request_rate": Key.number("1/s", "Requests per second at the whole deployment."),
    "util": Key.number("1", "request_rate over max_request_rate."),
    "running": Key.number("requests", "Mean requests that are worked on."),
    "waiting": Key.number("requests", "Mean requests that wait."),
    "queue_ms": Key.number("ms", "What others cost the first token.", lambda p: _json_value(p.queue, MILLI)),
    "max_request_rate": Key.number("1/s", "The largest rate that can be answered."),
    "weight_dtype": _format(0, "Number format of the weights (`weights`)."),
    "kv_cache_dtype": _format(1, "Number format of the KV cache (`kv_cache_dtype`)."),
    "compute_dtype": _format(2, "Dtype at which weights are multiplied (`compute`)."),
    "basis": Key.text("What the figures stand on: calibrated, inherited, served, generic or ideal."),
    "basis_detail": Key.text("The same with the measurements behind it."),
    "engine": Key.text("Profile of the serving engine.", is_open=False),
    "draft": Key.text(
        "What proposes tokens: mtp, eagle, ngram or a model; null without speculative decoding.",
        lambda p: None if p.deployment.draft is None else draft_name(p.deployment.draft),
    ),
    "draft_tokens": Key.integer(
        "tokens",
        "Tokens that are proposed before each decode step.",
        lambda p: None if p.deployment.draft is None else p.deployment.draft.tokens,
    ),
    "tokens_per_step": Key.number(
        "tokens", "Mean tokens that a sequence gains in a decode step.", lambda p: p.deployment.tokens_per_step
    ),
    "fits": Key.flag("Whether the case fits the memory."),
    "ttft_ms": _mean("ttft"),
    "tpot_ms": _mean("tpot"),
    "itl_ms": Key.number(
        "ms",
        "Mean inter-token latency, over the gaps of all requests: of a step, whatever its tokens.",
        lambda p: _json_value(p.itl, MILLI),
    ),
    "e2el_ms": _mean("e2el"),
    "encoder_ms": Key.number(
        "ms",
        "Part of `ttft_ms` in which images, video and audio are encoded, on an idle server; null without any.",
        lambda p: None if p.deployment.media is None else _json_value(_encoding_time(p), MILLI),
    ),
    **{end: key for name in LATENCIES for end, key in _interval(name).items()},
    **{
        name: key
        for metric in LATENCIES
        for level in LEVELS
        for name, key in _percentile(key_of(metric, level)).items()
    },
    "load_region": Key.text(
        "Cases like this one, of which docs/load.md states the errors of the closed forms; null for a burst.",
        lambda p: p.load_region,
    ),
    **{f"load_error_{key}": _load_error(key) for key in JUDGED},
    "slo_met": Key.flag("Whether the central estimate meets every limit of the SLO; null without one that applies."),
    "slo_binding": Key.text("Key of the limit that is taken up most; null where none applies.", _verdict("binding")),
    "slo_verdict": Key.text(
        "pass, pass?, fail? or fail; null where a limited percentile is not known or no limit applies.",
        _verdict("word"),
    ),
    "slo_reason": Key.text("Why the verdict is not pass.", _verdict("reason")),
    "ttft_light_frac": Key.number(
        "1", "Share of the hardware limit that TTFT reaches.", lambda p: _json_value(p.ideal_share["prefill"])
    ),
    "tpot_light_frac": Key.number(
        "1",
        "Share of the hardware limit that TPOT reaches.",
        lambda p: _of_decode(p, lambda: p.ideal_share["decode"], math.nan),
    ),
    "tok_s_user": Key.number("1/s", "Output tokens per second that one user sees."),
    "output_tok_s": Key.number("1/s", "Output tokens per second of all replicas."),
    "output_tok_s_gpu": Key.number("1/s", "Output tokens per second and GPU."),
    "prefill_bound": Key.text("What most of the prefill waits for.", lambda p: _json_value(p.prefill.bound)),
    "decode_bound": Key.text("What most of a decode step waits for.", lambda p: _of_decode(p, lambda: p.decode.bound)),
    **taken(KNEE_KEYS, **{name: _of_knees(name) for name in KNEE_KEYS}),
    "weights_gb": Key.number("GB", "Weights on one GPU.", lambda p: _json_value(p.memory.weights, GIGA)),
    "kv_cache_gb": Key.number("GB", "KV cache on one GPU.", lambda p: _json_value(p.memory.kv_cache, GIGA)),
    "lora": Key.text("Adapters and their rank, as in 8:16; null without any.", _lora),
    "lora_gb": Key.number(
        "GB",
        "Slots of adapters on one GPU; null without any.",
        lambda p: None if p.deployment.adapters is None else _json_value(p.memory.adapters, GIGA),
    ),
    "offload_gb": Key.number(
        "GB",
        "Weights of one GPU that stay in host memory; null without any.",
        lambda p: None if p.deployment.offload is None else _json_value(_offloaded(p), GIGA),
    ),
    "hbm_used_frac": Key.number(
        "1", "Share of the usable memory that is taken.", lambda p: _json_value(p.memory.used_fraction)
    ),
    "eplb": Key.integer(
        "1", "Slots for copies of popular experts (`eplb`); null where nothing balances experts.", _of_spread("eplb")
    ),
    "expert_balance": Key.number(
        "1",
        "Tokens of the mean expert-parallel rank over those of the fullest, before balancing; null without `eplb`.",
        _of_spread("expert_balance"),
    ),
    "expert_balance_after": Key.number(
        "1", "The same with experts placed by their load.", _of_spread("expert_balance_after")
    ),
    "expert_copies_gb": Key.number("GB", "Copies of experts on one GPU.", _of_spread("expert_copies_gb")),
    "rearrange_gb": Key.number(
        "GB", "Experts that a GPU receives when all are placed anew.", _of_spread("rearrange_gb")
    ),
    "rearrange_ms": Key.number("ms", "Time that the links need for them.", _of_spread("rearrange_ms")),
    "rearrange_steps": Key.number(
        "1",
        "Decode steps whose gain makes up for that time; null where a step gains nothing.",
        _of_spread("rearrange_steps"),
    ),
    "rearrange_prefills": Key.number("1", "Likewise, passes over the prompts.", _of_spread("rearrange_prefills")),
    "rearrange_lost": Key.number(
        "1",
        "Share of the time that it takes at the interval of the engine; not part of the latencies.",
        _of_spread("rearrange_lost"),
    ),
    "two_batch_prefill": Key.number(
        "1",
        "Time of a prefill pass as one batch over its time as two half batches; null without `two_batch_overlap`.",
        _of_spread("two_batch_prefill"),
    ),
    "two_batch_decode": Key.number("1", "Likewise, of a decode step.", _of_spread("two_batch_decode")),
    "all_to_all": Key.text("How tokens reach their experts (`all_to_all`); null for direct.", _of_spread("all_to_all")),
    "usd_per_hour": Key.number("USD/h", "Typical rental of all GPUs; in a list of GPUs, of one."),
    "usd_per_m_output_tok": Key.number(
        "USD", "All of the rental per million output tokens; prompt tokens are not counted."
    ),
    "usd_per_month": Key.number(
        "USD/month", "The same for a month of 730 hours.", lambda p: rent_of_a_month(p.usd_per_hour)
    ),
    "usd_per_hour_low": _rent(0, "The same rental at the low end of the price's range."),
    "usd_per_hour_high": _rent(1, "The same rental at the high end of it."),
    "price_source": Key.text("Where the price comes from: given, or the catalog with its date."),
    "usd_per_request": Key.number("USD", "Rental per request."),
    "usd_per_m_input_tok": _token_price(
        "input", "Part of the rental that computed prompt tokens take, per million of them."
    ),
    "usd_per_m_cached_tok": _token_price(
        "cached", "Part of the rental that cached prompt tokens take, per million of them."
    ),
    "usd_per_m_decode_tok": _token_price("output", "Part of the rental that decode takes, per million output tokens."),
    "usd_per_m_blended_tok": _token_price(
        "blended", "All of the rental per million of all tokens, blended: input, cached and output."
    ),
    **ENERGY_KEYS,
    "gpu_status": Key.text("Whether the GPU ships, as the catalog says.", lambda p: p.deployment.gpu.status),
    "warnings": Key.texts("What a reader of the figures should know.", lambda p: list(p.warnings)),
}

ROW_KEYS = tuple(KEYS)
_VALUES = {name: key.of or _figure(name) for name, key in KEYS.items()}


# How a deployment, a plan, a latency beside its limit and a verdict read, wherever an answer is put into words.

_DEGREES = ("tp", "pp", "ep", "dp", "cp", "dcp")


def gpus_text(gpu: str, count: Real | None) -> str:
    """GPUs of one kind and their number, where it is known.

    >>> gpus_text("h100-sxm", 8), gpus_text("h100-sxm", None)
    ('8x h100-sxm', 'h100-sxm')
    """
    return gpu if count is None else f"{span_text(count)}x {gpu}"


def deployed_text(deployment: Deployment, formats: str = "") -> str:
    """Text such as ``llama-3.1-8b on 2x h100-sxm``; `formats` follow the model."""
    model = f"{deployment.model.short_name} {formats}".rstrip()
    return f"{model} on {gpus_text(deployment.gpu.name, deployment.num_gpus)}"


def degrees_text(degrees: Any, always: tuple[str, ...] = ()) -> str:
    """Parallel degrees that are stated and not 1, and those that are `always` said: text such as ``tp 8, ep 8``."""
    texts = {name: span_text(getattr(degrees, name, 1)) for name in _DEGREES}
    return ", ".join(f"{name} {text}" for name, text in texts.items() if name in always or text not in ("1", "-"))


def plan_text(plan: Any, preset: str | None = None, replicas: Real = 1) -> str:
    """Text such as ``tp 8, ep 8, fp8, 2 replicas``: tp always, other degrees and replicas only above 1.

    >>> from roofline.physics.plan import Plan
    >>> plan_text(Plan(tp=8, ep=8), "fp8"), plan_text(Plan(tp=1), replicas=2)
    ('tp 8, ep 8, fp8', 'tp 1, 2 replicas')
    """
    copies = "" if span_text(replicas) == "1" else f"{counted(span_text(replicas), 'replica')}"
    return ", ".join(part for part in (degrees_text(plan, ("tp",)), preset, copies) if part)


def case_text(workload: Workload) -> str:
    """Lengths and load of one case: text such as ``isl 2000, osl 300, 64 users``."""
    media = f" + {workload.media:g} of media" if workload.media else ""
    return f"isl {workload.text:g}{media}, osl {workload.osl:g}, {load_text(workload)}"


def times_text(times: Mapping[str, Real | None], *, is_mean: bool = False) -> str:
    """Latencies by their keys [s]: text such as ``TTFT 98.3 ms, TPOT 9.12 ms``; None: left out."""
    known = {key_text(key, is_mean=is_mean): time for key, time in times.items() if time is not None}
    return ", ".join(f"{name} {to_text(float(time), 's')}" for name, time in known.items())


def beside_limit(key: str, time: float | None, limit: float, *, is_mean: bool = True, least: str = "") -> str:
    """A latency beside its limit, in as many digits as tell them apart; None: it is not known.

    >>> beside_limit("ttft_p95", 0.3004, 0.3), beside_limit("tpot", 0.02, 0.025), beside_limit("p99_within", None, 2.0)
    ('TTFT p95 300.4 ms > 300 ms', 'mean TPOT 20 ms <= 25 ms', 'p99/median not known, against 2x')
    """
    name, unit = key_text(key, is_mean=is_mean), None if key == P99_WITHIN else "s"
    if time is None or time != time:  # noqa: PLR0124 - NaN
        return f"{name} not known, against {distinct_texts(limit, limit, unit)[1]}"
    figure, most = distinct_texts(time, limit, unit)
    return f"{name} {least}{figure} {'<=' if time <= limit else '>'} {most}"


def verdict_text(
    judged: Verdict,
    slo: Mapping[str, float],
    times: Mapping[str, float | None],
    *,
    is_mean: bool = True,
    reason: str | None = None,
) -> str:
    """The limits of an SLO that apply, with the latencies beside them, and the verdict; `reason` in place of its own.

    >>> verdict_text(Verdict("pass?", "not validated", "ttft"), {"ttft": 0.3}, {"ttft": 0.25})
    'mean TTFT 250 ms <= 300 ms: pass? (not validated)'
    """
    if judged.binding is None:
        return f"{limits_words(slo, is_mean=is_mean)}: {judged.reason}"
    limits = ", ".join(beside_limit(key, time, slo[key], is_mean=is_mean) for key, time in times.items())
    why = reason or judged.reason
    return f"{limits}: {judged.text}" + (f" ({why})" if why and judged.word not in (PASS, FAIL) else "")
