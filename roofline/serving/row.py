"""A prediction as a flat row for programs."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from collections.abc import Set as AbstractSet
from contextlib import suppress
from itertools import islice
from typing import TYPE_CHECKING, Any

from roofline.errors import BadInput, UnknownName, shown
from roofline.ops import Real, always, where
from roofline.quantity import GIGA, MILLI
from roofline.serving.prompt_cache import hit_rate, load_time
from roofline.serving.quantization import summary
from roofline.specs.slo import LATENCIES, LEVELS, key_of

if TYPE_CHECKING:
    from roofline.physics.plan import Deployment, Draft
    from roofline.serving.prediction import Prediction
    from roofline.specs.prompt_cache import PromptCache


_MOST_KEYS = 1000  # guards against endless iterables


def row(prediction: Prediction[Any, Any, Any], keys: Iterable[str] | None = None) -> dict[str, Any]:
    """Row of the JSON contract, or some of its keys; None where a value does not apply, lists for arrays."""
    if keys is None:
        return {key: value(prediction) for key, value in _VALUES.items()}
    chosen = keys if type(keys) is tuple else listed_keys(keys)
    check_keys(chosen)
    return {key: _VALUES[key](prediction) for key in chosen}


def check_keys(keys: Iterable[str], known: Iterable[str] | None = None) -> None:
    """Refuse unknown keys of a row; `known`: None for `ROW_KEYS`."""
    choices = ROW_KEYS if known is None else tuple(known)
    for key in keys:
        if not isinstance(key, str) or key not in choices:
            raise UnknownName(f"unknown key {shown(key)}; choose from {', '.join(choices)}")


def listed_keys(keys: Iterable[str]) -> tuple[str, ...]:
    """Keys as a tuple; BadInput for a single text, a set, a mapping or what cannot be iterated over."""
    listed: tuple[str, ...] | None = None
    if not isinstance(keys, (str, bytes, AbstractSet, Mapping)):
        with suppress(TypeError):
            listed = tuple(islice(keys, _MOST_KEYS))
    if listed is None:
        raise BadInput(f"keys = {shown(keys)} must be a list of keys of a row, such as ['ttft_ms', 'tpot_ms']")
    return listed


def _json_value(value: Real, unit: float = 1.0) -> Any:
    """JSON value: floats, texts, lists; None for what is not a finite number."""
    if value is None or isinstance(value, (bool, str)):
        return value
    if isinstance(value, (float, int)):
        number = value / unit
        return number if number - number == 0.0 else None
    return [_json_value(item, unit) for item in (value if isinstance(value, list) else value.tolist())]


def _integral(value: Real) -> Any:
    """JSON value, with whole floats as integers."""
    number = _json_value(value)
    return int(number) if isinstance(number, float) and number.is_integer() else number


def _interval(result: str) -> dict[str, Callable[[Prediction], Any]]:
    """Both ends of an 80 % interval; None on the ideal basis."""

    def end(prediction: Prediction, place: int) -> Any:
        interval = getattr(prediction, f"{result}_interval")
        return None if interval is None else _json_value(interval[place], MILLI)

    return {f"{result}_low_ms": lambda p: end(p, 0), f"{result}_high_ms": lambda p: end(p, 1)}


def _percentile(key: str) -> dict[str, Callable[[Prediction], Any]]:
    """A percentile and both ends of its 80 % interval; None for a burst."""

    def value(prediction: Prediction) -> Any:
        return None if prediction.tails is None else _json_value(prediction.latency(key), MILLI)

    def end(prediction: Prediction, place: int) -> Any:
        interval = None if prediction.tails is None else prediction.latency_interval(key)
        return None if interval is None else _json_value(interval[place], MILLI)

    return {
        f"{key}_ms": value,
        f"{key}_low_ms": lambda p: end(p, 0),
        f"{key}_high_ms": lambda p: end(p, 1),
    }


def _token_price(prediction: Prediction, kind: str) -> Any:
    prices = prediction.token_prices
    return None if prices is None else _json_value(getattr(prices, kind))


def _of_decode(prediction: Prediction, value: Callable[[], Real]) -> Any:
    """A figure of decode steps; None for single tokens, which have none."""
    if prediction.tpot is None:
        return None
    several = prediction.workload.osl > 1.0
    return _json_value(value() if always(several) else where(several, value(), None))


def _verdict(part: str) -> Callable[[Prediction], Any]:
    """Part of the verdict on the SLO; None without one."""
    return lambda p: None if p.slo_verdict is None else _words(getattr(p.slo_verdict, part))


def _words(words: Any) -> Any:
    return words if words is None or isinstance(words, str) else words.tolist()


def draft_name(draft: Draft) -> str:
    return draft.model.short_name if draft.method == "model" and draft.model is not None else draft.method


def _cache_figure(prediction: Prediction, figure: Callable[[Deployment, Real, PromptCache], Real], unit: float) -> Any:
    """A figure of the prompt cache; None without one."""
    cache = prediction.workload.cache
    if cache is None:
        return None
    return _json_value(figure(prediction.deployment, prediction.workload.prefix, cache), unit)


_VALUES: dict[str, Callable[[Prediction], Any]] = {
    "model": lambda p: p.deployment.model.short_name,
    "model_id": lambda p: p.deployment.model.name,
    "gpu": lambda p: p.deployment.gpu.name,
    "num_gpus": lambda p: p.deployment.num_gpus,
    "tp": lambda p: p.deployment.plan.tp,
    "pp": lambda p: p.deployment.plan.pp,
    "ep": lambda p: p.deployment.plan.ep,
    "dp": lambda p: p.deployment.plan.dp,
    "isl": lambda p: _integral(p.workload.isl),
    "osl": lambda p: _integral(p.workload.osl),
    "prefix": lambda p: _integral(p.workload.prefix),
    "cache_hit": lambda p: _cache_figure(p, hit_rate, 1.0),
    "cache_tier": lambda p: None if p.workload.cache is None else p.workload.cache.tier,
    "cache_load_ms": lambda p: _cache_figure(p, load_time, MILLI),
    "isl_cv": lambda p: 0.0 if p.workload.lengths is None else p.workload.lengths.prompts.cv,
    "osl_cv": lambda p: 0.0 if p.workload.lengths is None else p.workload.lengths.answers.cv,
    "batch": lambda p: _integral(p.workload.batch) if p.served is None else None,
    "load": lambda p: p.load,
    "concurrency": lambda p: _integral(p.concurrency),
    "request_rate": lambda p: _json_value(p.request_rate),
    "util": lambda p: _json_value(p.util),
    "running": lambda p: _json_value(p.running),
    "waiting": lambda p: _json_value(p.waiting),
    "queue_ms": lambda p: _json_value(p.queue, MILLI),
    "max_request_rate": lambda p: _json_value(p.max_request_rate),
    "weight_dtype": lambda p: summary(p.deployment.model, p.deployment.quantization)[0],
    "kv_cache_dtype": lambda p: summary(p.deployment.model, p.deployment.quantization)[1],
    "compute_dtype": lambda p: summary(p.deployment.model, p.deployment.quantization)[2],
    "basis": lambda p: p.basis,
    "basis_detail": lambda p: p.basis_detail,
    "engine": lambda p: p.engine,
    "draft": lambda p: None if p.deployment.draft is None else draft_name(p.deployment.draft),
    "draft_tokens": lambda p: None if p.deployment.draft is None else p.deployment.draft.tokens,
    "tokens_per_step": lambda p: p.deployment.tokens_per_step,
    "fits": lambda p: _json_value(p.fits),
    "ttft_ms": lambda p: _json_value(p.ttft, MILLI),
    "tpot_ms": lambda p: _json_value(p.tpot, MILLI),
    "itl_ms": lambda p: _json_value(p.itl, MILLI),
    "e2el_ms": lambda p: _json_value(p.e2el, MILLI),
    **_interval("ttft"),
    **_interval("tpot"),
    **_interval("e2el"),
    **{
        key: value
        for metric in LATENCIES
        for level in LEVELS
        for key, value in _percentile(key_of(metric, level)).items()
    },
    "slo_met": lambda p: _json_value(p.slo_met),
    "slo_binding": _verdict("binding"),
    "slo_verdict": _verdict("word"),
    "slo_reason": _verdict("reason"),
    "ttft_light_frac": lambda p: _json_value(p.ideal_share["prefill"]),
    "tpot_light_frac": lambda p: _of_decode(p, lambda: p.ideal_share["decode"]),
    "tok_s_user": lambda p: _json_value(p.tok_s_user),
    "output_tok_s": lambda p: _json_value(p.output_tok_s),
    "output_tok_s_gpu": lambda p: _json_value(p.output_tok_s_gpu),
    "prefill_bound": lambda p: _json_value(p.prefill.bound),
    "decode_bound": lambda p: _of_decode(p, lambda: p.decode.bound),
    "ridge_knee": lambda p: _json_value(p.knees.ridge),
    "half_knee": lambda p: _json_value(p.knees.half),
    "memory_knee": lambda p: _integral(p.knees.memory),
    "slo_knee": lambda p: _integral(p.knees.slo),
    "knee": lambda p: _json_value(p.knee),
    "knee_bound": lambda p: _json_value(p.knee_bound),
    "weights_gb": lambda p: _json_value(p.memory.weights, GIGA),
    "kv_cache_gb": lambda p: _json_value(p.memory.kv_cache, GIGA),
    "hbm_used_frac": lambda p: _json_value(p.memory.used_fraction),
    "usd_per_hour": lambda p: _json_value(p.usd_per_hour),
    "usd_per_m_output_tok": lambda p: _json_value(p.usd_per_m_output_tok),
    "usd_per_hour_low": lambda p: None if p.usd_per_hour_range is None else _json_value(p.usd_per_hour_range[0]),
    "usd_per_hour_high": lambda p: None if p.usd_per_hour_range is None else _json_value(p.usd_per_hour_range[1]),
    "price_source": lambda p: p.price_source,
    "usd_per_request": lambda p: _json_value(p.usd_per_request),
    "usd_per_m_input_tok": lambda p: _token_price(p, "input"),
    "usd_per_m_cached_tok": lambda p: _token_price(p, "cached"),
    "usd_per_m_decode_tok": lambda p: _token_price(p, "output"),
    "usd_per_m_blended_tok": lambda p: _token_price(p, "blended"),
    "warnings": lambda p: list(p.warnings),
}

#: Keys of a row of the JSON contract, in order.
ROW_KEYS = tuple(_VALUES)
