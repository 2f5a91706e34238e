"""A prediction as a flat row for programs, and as text for people."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any

from roofline.numbers.operations import Real, always, figure_text, span_text, where
from roofline.numbers.quantity import GIGA, HOUR, MILLI, MONTH, counted, distinct_texts, rounded, to_text
from roofline.physics.plan import PLAIN_SPREAD
from roofline.serving.answers import check_keys, listed_keys, selected
from roofline.serving.latency import Workload, cold_start_text, load_text
from roofline.serving.prompts import cached_text, hit_rate, is_a_mixture, load_time
from roofline.serving.quantization import summary
from roofline.serving.verdict import DERATED, FAIL, OUTSIDE, PASS, Verdict, is_pressing
from roofline.specs.engine import HBM
from roofline.specs.keys import LATENCY_NAMES, OVER, Key, Keys, cells, taken
from roofline.specs.load import LASTING, OPTIONS, RUN
from roofline.specs.what_if import is_change
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
from roofline.support.dates import OLD, price_age

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


def _experts(prediction: Prediction) -> dict[str, tuple[str, ...]]:
    """Balance of the experts and what it costs, half batches, the exchange; where one of them is asked for."""
    if prediction.deployment.spread is PLAIN_SPREAD:
        return {}
    from roofline.serving.expert_balance import balance_text

    return {"experts": balance_text(prediction)}


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
    "basis": Key.text("What the figures stand on: calibrated, inherited, generic or ideal."),
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


# A prediction as text: one line for a REPL, a summary of one case, a small table of many.

_ROUNDED = 0.0005  # of the turns: less is shown as none
_WIDTH = 80  # columns of a terminal
_INDENT = " " * 13  # of continuation lines
_MOST_ROWS = 10  # of a table
_LENGTHS = ("isl", "osl", "prefix", *OPTIONS)
_NAMES = {**{name: kind.unit for name, kind in LASTING.items()}, RUN: "requests of a run"}


def prediction_line(prediction: Prediction[Any, Any, Any]) -> str:
    """One line: what runs where, latencies, lengths and load."""
    times = {"TTFT": prediction.ttft, "TPOT": prediction.tpot}
    answer = ", ".join(f"{name} {span_text(time, 's')}" for name, time in times.items() if time is not None)
    end = "" if prediction.basis == "calibrated" else f", {prediction.basis}"
    if prediction.slo_verdict is not None and not _shape(prediction):
        end += f", SLO {prediction.slo_verdict.text}"
    return f"{_title(prediction)}: {answer}; {_count(prediction)}{_case(prediction)}{end}"


def prediction_text(prediction: Prediction[Any, Any, Any], most: int | None = None) -> str:
    """A prediction as text of at most 80 columns; of one case without what matters least, where it has `most` lines."""
    return _table(prediction) if _shape(prediction) else _summary(prediction, most)


#: Labels of a summary by what goes first where lines are scarce: of each the last part, such as the percentiles.
_LEAST_FIRST = (
    "cost", "memory", "E2EL", "knee", "load", "TPOT", "engine", "limit", "queue", "knee", "TTFT", "basis", "memory",
    "derated", "what if", "output", "drafts", "adapters", "offload", "measured", "cost", "workload", "E2EL", "energy",
    "plan",
)  # fmt: skip


def prediction_facts(prediction: Prediction[Any, Any, Any]) -> dict[str, tuple[str, ...]]:
    """What is known of one case, by labels: parts of texts, of which the last may be left out."""
    deployment, workload = prediction.deployment, prediction.workload
    weights, kv, compute = summary(deployment.model, deployment.quantization)
    plan = plan_text(deployment.plan, replicas=deployment.replicas)
    speeds = f"{figure_text(prediction.tok_s_user)} tok/s per user, {figure_text(prediction.output_tok_s)} tok/s, "
    speeds += figure_text(prediction.output_tok_s_gpu)
    facts: dict[str, tuple[str, ...]] = {
        "plan": (f"{plan}; weights {weights}, KV cache {kv}, compute {compute}",),
        "workload": (_workload(prediction),),
        **_said(prediction),
        **_load(prediction),
        **_sessions(prediction),
        **_side_weights(prediction),
        "TTFT": (
            f"{_with_interval(prediction, 'ttft')}, {prediction.prefill.bound}-bound{_prompts(workload)}",
            _percentiles(prediction, "ttft"),
        ),
        **_encoder(prediction),
        "TPOT": (
            f"{_with_interval(prediction, 'tpot')}, {prediction.decode.bound}-bound",
            _percentiles(prediction, "tpot") + _longest_gaps(prediction),
        ),
        **_draft(prediction),
        "E2EL": (_with_interval(prediction, "e2el"), _percentiles(prediction, "e2el")),
        **_slo(prediction),
        "limit": (_limit(prediction),),
        "output": (f"{speeds} tok/s per GPU",),
        **_knee(prediction),
        "memory": _memory(prediction),
        **_experts(prediction),
        "cost": _cost(prediction),
        **_energy_facts(prediction),
        "basis": (prediction.basis_detail,),
        "engine": (_engine(prediction),),
        **_measured(prediction),
    }
    if prediction.tpot is None:
        facts["TPOT"] = ("none: a single output token",)
    return facts


def _summary(prediction: Prediction, most: int | None) -> str:
    deployment, facts = prediction.deployment, prediction_facts(prediction)
    title = _wrapped_lines(deployed_text(deployment, f"({deployment.model.name})"), "  ")
    lines = [*title, *_fact_lines(facts)]
    for label in _LEAST_FIRST:
        if most is None or len(lines) <= most:
            break
        facts[label] = facts.get(label, ())[:-1]
        lines = [*title, *_fact_lines(facts)]
    return "\n".join(lines)


def _energy_facts(prediction: Prediction) -> dict[str, tuple[str, ...]]:
    """Power and energy, where a power cap, a PUE or a price of energy is stated."""
    gpu = prediction.deployment.gpu
    if gpu.power_cap is None and gpu.electricity is None:
        return {}
    from roofline.serving.energy import energy_facts

    return energy_facts(prediction)


def _fact_lines(facts: Mapping[str, tuple[str, ...]]) -> list[str]:
    return [
        line
        for label, parts in facts.items()
        for number, text in enumerate("".join(parts).split("\n") if parts else ())
        for line in _wrapped_lines(f"  {'' if number else label:<10} {text}", _INDENT)
    ]


def _wrapped_lines(line: str, indent: str) -> list[str]:
    from textwrap import wrap

    return wrap(line, _WIDTH, subsequent_indent=indent, break_on_hyphens=False, drop_whitespace=True)


def _title(prediction: Prediction) -> str:
    deployment = prediction.deployment
    return deployed_text(deployment, summary(deployment.model, deployment.quantization)[0])


def _case(prediction: Prediction) -> str:
    """Lengths and load in a few words."""
    workload = prediction.workload
    parts = [f"isl {span_text(workload.text)}{_media_text(prediction)}", f"osl {span_text(workload.osl)}"]
    if getattr(workload.prefix, "shape", ()) or workload.prefix:
        is_mixed = is_a_mixture(workload.cache)
        parts.append(f"prefix {span_text(workload.prefix)}{' for some requests' if is_mixed else ''}")
    parts.append(workload.load.text(span_text, " in "))
    return ", ".join([*parts, *([] if workload.arrivals is None else [str(workload.arrivals)])])


def _media_text(prediction: Prediction) -> str:
    media = prediction.deployment.media
    return "" if media is None else f" + {media.tokens:,} of {media.text}"


def _encoding_time(prediction: Prediction) -> Real:
    from roofline.serving.media_shown import encoding_time

    return encoding_time(prediction.prefill)


def _encoder(prediction: Prediction) -> dict[str, tuple[str, ...]]:
    if prediction.deployment.media is None:
        return {}
    from roofline.serving.media_shown import encoder_facts

    return encoder_facts(prediction.deployment, prediction.prefill)


def _workload(prediction: Prediction) -> str:
    """Lengths, burst size, how lengths vary, cold starts."""
    workload = prediction.workload
    parts = [f"isl {figure_text(workload.text)}{_media_text(prediction)}", f"osl {figure_text(workload.osl)}"]
    parts += [f"batch {figure_text(workload.batch)}"] if prediction.served is None else []
    parts += _cached(prediction)
    parts += [] if workload.lengths is None else [f"lengths {workload.lengths}"]
    parts += [] if workload.cold_start is None else [cold_start_text(*workload.cold_start)]
    parts += [] if workload.arrivals is None else [str(workload.arrivals)]
    parts += [] if workload.sessions is None else [str(workload.sessions)]
    return ", ".join(parts)


def _cached(prediction: Prediction) -> list[str]:
    """How many tokens of a prompt are cached, where, and for how many requests."""
    workload, deployment = prediction.workload, prediction.deployment
    if not workload.prefix:
        return [] if workload.cache is None else ["none of the prompt cached"]
    isl, prefix = figure_text(workload.isl), figure_text(workload.prefix)
    if workload.cache is None or workload.sessions is not None:
        return [cached_text(isl, prefix)]
    share, time = (float(of(deployment, workload.prefix, workload.cache)) for of in (hit_rate, load_time))
    return [cached_text(isl, prefix, workload.cache.tier, share, f"loads in {to_text(time, 's')}" if time else "")]


def _load(prediction: Prediction) -> dict[str, tuple[str, ...]]:
    """Users or request rate, utilization, queue."""
    if prediction.served is None:
        return {}
    rate = f"{figure_text(prediction.request_rate)} requests/s"
    stated = prediction.workload.load
    load = stated.flow(rate, figure_text(prediction.concurrency))
    if prediction.workload.think and not stated.is_open:
        load = f"{stated.flow(rate, figure_text(stated.amount))}, {figure_text(prediction.concurrency)} in flight"
    process = prediction.workload.arrivals
    if process is not None and not process.is_poisson:
        load = load.replace(" at random times", " in bunches")
    if stated.is_queue:
        load = f"{stated.text(figure_text)}, answered in {figure_text(prediction.duration, 's')}; {load}"
    elif stated.is_run:
        load += f"{stated.run_text(figure_text, ', in ')} that all users begin together"
    most = f"{_percent(prediction.util)} of the largest, {figure_text(prediction.max_request_rate)}/s"
    requests = (
        f"{counted(figure_text(prediction.running), 'request')} running, {figure_text(prediction.waiting)} waiting"
    )
    return {
        "load": (load, f"; {most}"),
        "queue": (f"{figure_text(prediction.queue, 's')} of the TTFT; {requests}",),
    }


def _sessions(prediction: Prediction) -> dict[str, tuple[str, ...]]:
    """What turns find of their context; times of the first, the middle and the last turn, and of a session."""
    times, sessions = prediction.session_times, prediction.workload.sessions
    if times is None or sessions is None:
        return {}
    found, last = times.found, len(times.turns) - 1
    ways = [f"{_percent(found.hit)} of later turns find their context in GPU memory"]
    if prediction.workload.cache is not None and prediction.workload.cache.tier != HBM:
        ways.append(f"{_percent(found.loaded)} load it from {prediction.workload.cache.tier}")
    if found.hit + found.loaded < 1.0 - _ROUNDED:
        ways.append(f"{_percent(1.0 - found.hit - found.loaded)} compute it again")
    some = [times.turns[place] for place in dict.fromkeys((0, last // 2, last))]
    ttft = ", ".join(f"turn {each.turn} {figure_text(each.ttft, 's')}" for each in some)
    waits = f"contexts of {found.waiting:,.0f} tokens wait at a rank, with room for {found.room:,.0f}"
    return {
        "sessions": (
            ", ".join(ways) if last else "no later turns",
            f"\nTTFT: {ttft}; a session takes {figure_text(times.duration, 's')}\n{waits}",
        )
    }


def _percentiles(prediction: Prediction, metric: str) -> str:
    """Percentiles under a load, on a line of their own."""
    if prediction.tails is None:
        return ""
    times = [(level, prediction.latency(key_of(metric, level))) for level in LEVELS]
    text = ", ".join(f"p{level:g} {figure_text(time, 's')}" for level, time in times if time is not None)
    return f"\n{text}" if text else ""


def _longest_gaps(prediction: Prediction) -> str:
    """The p99 of single gaps between tokens, under a load, beside the percentiles of TPOT."""
    time = None if prediction.served is None or prediction.tails is None else prediction.latency("itl_p99")
    return "" if time is None else f"; ITL p99 {figure_text(time, 's')}"


def _draft(prediction: Prediction) -> dict[str, tuple[str, ...]]:
    draft = prediction.deployment.draft
    if draft is None or prediction.itl is None:
        return {}
    proposed = f"{counted(draft.tokens, 'proposed token')}"
    step = f"{rounded(draft.acceptance.tokens)} tokens per step of {figure_text(prediction.itl, 's')} (ITL)"
    return {"drafts": (f"{draft_name(draft)}, {proposed}: {step}",)}


def _slo(prediction: Prediction) -> dict[str, tuple[str, ...]]:
    """Each limit, the latency compared with it, and the verdict on all of them."""
    judged, slo = prediction.slo_verdict, prediction.slo
    if judged is None:
        return {}
    times = {key: share * slo[key] for key, share in prediction.slo_shares.items()}
    reason = "not validated" if str(judged.reason).startswith(OUTSIDE) else None  # a note has the conditions
    return {"SLO": (verdict_text(judged, slo, times, is_mean=prediction.workload.is_mean, reason=reason),)}


def _limit(prediction: Prediction) -> str:
    """Shares of the hardware limit."""
    shares = prediction.ideal_share
    reached = f"{_percent(shares['prefill'])} of the hardware limit in prefill"
    if prediction.tpot is not None:
        reached += f", {_percent(shares['decode'])} in decode"
    if prediction.basis != "ideal":
        return reached
    return f"these times are the hardware limit; calibrated kernels reach {reached.replace('the hardware limit', 'it')}"


def _knee(prediction: Prediction) -> dict[str, tuple[str, ...]]:
    knees = prediction.knees
    if knees.memory is None:
        return {}
    candidates = {"ridge": knees.ridge, "half": knees.half, "memory": knees.memory, "SLO": knees.slo}
    listed = ", ".join(f"{name} {figure_text(knee)}" for name, knee in candidates.items() if knee is not None)
    listed += (
        ", SLO not known" if knees.slo is None and prediction.slo_verdict and prediction.slo_verdict.binding else ""
    )
    unit = "batch" if prediction.served is None else "users"
    bound = "the SLO" if prediction.knee_bound == "slo" else prediction.knee_bound
    return {"knee": (f"{unit} {figure_text(prediction.knee)}, set by {bound}", f" ({listed})")}


def _memory(prediction: Prediction) -> tuple[str, ...]:
    memory = prediction.memory
    taken = f"weights {figure_text(memory.weights, 'B')}, KV cache {figure_text(memory.kv_cache, 'B')}"
    fits = "yes" if prediction.fits else "no"
    longest = f"longest context {figure_text(prediction.longest_context)} tokens"
    return f"{taken} of {figure_text(memory.usable, 'B')} per GPU; fits: {fits}", f"; {longest}"


def _cost(prediction: Prediction) -> tuple[str, ...]:
    """Hourly rent, and the price per million tokens of each kind."""
    if prediction.usd_per_hour is None:
        return ("no price known",)
    hourly = f"{figure_text(prediction.usd_per_hour)} USD/h"
    if prediction.usd_per_m_output_tok is None:
        return (hourly,)  # pragma: no cover - for the type checker: known wherever a price is
    figures = f"{hourly}, {figure_text(prediction.usd_per_m_output_tok)} USD per million output tokens at this load"
    prices, price, count = prediction.token_prices, prediction.price, prediction.deployment.num_gpus
    if prices is None or price is None:
        return (figures,)  # pragma: no cover - likewise
    kinds = {"input": prices.input, "cached": prices.cached, "decode": prices.output}
    parts = ", ".join(f"{figure_text(value)} {name}" for name, value in kinds.items() if math.isfinite(value))
    low, high = (rounded(rent * HOUR * count) for rent in (price.low, price.high))
    age = price_age(price.source)
    source = price.source if age is None or age <= OLD else f"{price.source} ({age} days ago)"
    rent = source if low == high else f"{source}, {low}-{high} USD/h"
    month = f"{rent_of_a_month(prediction.usd_per_hour):,.0f} USD/month"
    return figures, f"; by the time that each takes {parts}; rent: {rent}, {month}"


def _engine(prediction: Prediction) -> str:
    """Engine, and the versions that its constants were fitted on."""
    engine = prediction.deployment.engine
    if prediction.engine == "none":
        return "none: kernels only"
    fitted = ", ".join(part for part in (engine.versions, engine.year) if part)
    words = {
        "max_num_batched_tokens": f"{engine.max_num_batched_tokens} tokens a step",
        "max_num_seqs": f"at most {engine.max_num_seqs} sequences",
        "gpu_memory_utilization": f"{_percent(engine.gpu_memory_utilization)} of the memory",
        "max_model_len": f"requests up to {engine.max_model_len} tokens",
        "network": f"network {to_text(engine.network, 's')}",
    }
    limits = [words[name] for name in engine.stated]
    return ", ".join([engine.name + (f" ({fitted})" if fitted else ""), *limits])


def _side_weights(prediction: Prediction) -> dict[str, tuple[str, ...]]:
    """Adapters, and weights in host memory."""
    if prediction.deployment.adapters is None and prediction.deployment.offload is None:
        return {}
    from roofline.serving.side_weights import side_weight_facts

    return side_weight_facts(prediction)


def _measured(prediction: Prediction) -> dict[str, tuple[str, ...]]:
    """Factors of a measurement of this deployment."""
    factors = {"TTFT": prediction.correction.ttft, "TPOT": prediction.correction.tpot}
    corrections = ", ".join(f"{name} x {rounded(factor)}" for name, factor in factors.items() if factor != 1.0)
    return {"measured": (f"scaled by a measurement of this deployment: {corrections}",)} if corrections else {}


def _said(prediction: Prediction) -> dict[str, tuple[str, ...]]:
    """Warnings that may not wait for ``--notes``, and what was taken from the hardware."""
    lost = [text.removeprefix(DERATED) for text in prediction.said if text.startswith(DERATED)]
    pressing = [text for text in prediction.warnings if is_pressing(text)]
    mark = f"{prediction.deployment.gpu.name}: "
    changed = [text.removeprefix(mark) for text in prediction.deployment.gpu.cautions if is_change(text, mark)]
    return {
        **({"what if": ("; ".join(changed),)} if changed else {}),
        **({"derated": ("; ".join(lost),)} if lost else {}),
        **({"warning": ("; ".join(pressing),)} if pressing else {}),
    }


def _prompts(workload: Workload) -> str:
    """The first token of a burst waits for all of its prompts."""
    return f"; a burst: all {workload.batch:g} prompts together" if workload.batch > 1.0 else ""


def _with_interval(prediction: Prediction, result: str) -> str:
    """A time with its 80 % interval."""
    time, ends = getattr(prediction, result), getattr(prediction, f"{result}_interval")
    interval = (
        "" if time is None or ends is None else f" (80 %: {figure_text(ends[0], 's')} to {figure_text(ends[1], 's')})"
    )
    return figure_text(time, "s") + interval


def _table(prediction: Prediction[Any, Any, Any]) -> str:
    """One row per case, up to `_MOST_ROWS`."""
    numbers = prediction.workload.numbers
    columns = {_NAMES.get(name, name): numbers[name] for name in _LENGTHS if _is_array(numbers.get(name))}
    columns |= {
        "TTFT [ms]": prediction.ttft / MILLI,
        "TPOT [ms]": None if prediction.tpot is None else prediction.tpot / MILLI,
        "E2EL [ms]": prediction.e2el / MILLI,
        "tok/s/GPU": prediction.output_tok_s_gpu,
        "USD/M": prediction.usd_per_m_output_tok,
        "meets": prediction.slo_met,
    }
    shape = _shape(prediction)
    flattened = {name: _flat(value, shape) for name, value in columns.items() if value is not None}
    size = math.prod(shape)
    rows = [[_cell(values[place]) for values in flattened.values()] for place in range(min(size, _MOST_ROWS))]
    table = [list(flattened), *rows]
    widths = [max(map(len, cells)) for cells in zip(*table, strict=True)]
    lines = ["  ".join(cell.rjust(width) for cell, width in zip(line, widths, strict=True)) for line in table]
    more = [f"... {size - _MOST_ROWS} more"] if size > _MOST_ROWS else []
    plan = plan_text(prediction.deployment.plan, replicas=prediction.deployment.replicas)
    heading = f"{_title(prediction)}, {plan}; {_count(prediction)}{_case(prediction)}, {prediction.basis}"
    return "\n".join([*_wrapped_lines(heading, "  "), *lines, *more])


def _is_array(value: Real) -> bool:
    return bool(getattr(value, "shape", ()))


def _shape(prediction: Prediction[Any, Any, Any]) -> tuple[int, ...]:
    """Axes of the cases; () for a single one."""
    return getattr(prediction.ttft, "shape", ())


def _count(prediction: Prediction[Any, Any, Any]) -> str:
    shape = _shape(prediction)
    return f"{' x '.join(map(str, shape))} cases, " if shape else ""


def _flat(values: Real, shape: tuple[int, ...]) -> list[Any]:
    """Elements in the order of the cases; smaller arrays broadcast."""
    broadcast = values if getattr(values, "shape", ()) == shape else values + 0.0 * _zeros(shape)
    return list(broadcast.ravel().tolist())


def _zeros(shape: tuple[int, ...]) -> Real:
    from roofline.numbers.arrays import as_array

    return as_array("shape", [0.0] * math.prod(shape)).reshape(shape)


def _cell(value: float | bool) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    return rounded(value) if math.isfinite(value) else "-"


def _percent(share: Real) -> str:
    return f"{100.0 * share:.0f} %"


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
