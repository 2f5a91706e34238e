"""Prompt cache options: parsed into a record, checked, and described in notes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from roofline.api.inputs.arguments import number, scalar
from roofline.api.inputs.texts import plain_value
from roofline.elements import all_of
from roofline.errors import BadInput, UnknownName, shown
from roofline.grammar.numbers import number_of_text
from roofline.ops import Real
from roofline.physics.plan import Deployment
from roofline.quantity import BILLION, from_text, rounded, to_text
from roofline.records import replace
from roofline.serving.latency import Workload, prefill_of_kinds
from roofline.serving.prompt_cache import (
    cached_prefixes,
    cached_text,
    hit_rate,
    is_a_mixture,
    load_time,
    tier_bandwidth,
)
from roofline.specs.prompt_cache import HBM, TIERS, PromptCache

__all__ = ["CACHE", "TIERS", "cache_notes", "cached_text", "deployed", "prompt_cache_of", "with_cache"]

#: Options of `predict` that describe a prompt cache.
CACHE = ("cache_hit", "cache_tier", "cache_bandwidth", "cache_size", "working_set")

_MOST_BYTES = BILLION * BILLION  # and bytes per second
_MOST_ZIPF = 4.0
_ZIPF = "zipf"


def prompt_cache_of(
    cache_hit: Any = None,
    cache_tier: Any = None,
    cache_bandwidth: Any = None,
    cache_size: Any = None,
    working_set: Any = None,
) -> PromptCache | None:
    """A prompt cache from its options; None where none of them is given."""
    if all(value is None for value in (cache_hit, cache_tier, cache_bandwidth, cache_size, working_set)):
        return None
    tier = HBM if scalar(cache_tier) is None else scalar(cache_tier)
    if tier not in TIERS:
        raise UnknownName(f"unknown cache_tier {shown(tier)}; choose from {', '.join(TIERS)}")
    hit, size = plain_value("cache_hit", scalar(cache_hit)), plain_value("cache_size", scalar(cache_size))
    if hit is not None:
        hit = number("cache_hit", hit, 0.0, 1.0)
    if size is not None:
        size = number("cache_size", size, 1.0, _MOST_BYTES)
    rate = plain_value("cache_bandwidth", scalar(cache_bandwidth))
    if rate is not None:
        if tier == HBM:
            raise BadInput("cache_bandwidth is that of a tier; give cache_tier host, nvme or network, too")
        rate = number("cache_bandwidth", rate, 1.0, _MOST_BYTES)
    total, exponent = _working_set(scalar(working_set))
    if total is not None:
        if hit is not None:
            raise BadInput("cache_hit is the hit rate that working_set asks for; leave out one of them")
        if size is None:
            raise BadInput("working_set needs a cache_size, such as 500GB, for its hit rate")
    return PromptCache(hit, tier, rate, size, total, exponent)


def with_cache(workload: Workload, cache: PromptCache | None) -> Workload:
    """A workload with its prefixes in a cache; at a hit rate of 0 the prefix is 0."""
    if cache is None:
        return workload
    if not all_of(workload.prefix > 0.0):
        raise BadInput("a prompt cache needs a prefix, the prompt tokens that it holds; give prefix, such as 2k or 80%")
    if cache.zipf is not None and type(workload.prefix) is not float:
        raise BadInput("the hit rate of Zipf's law takes prefixes of one length; prefix must be a number, not an array")
    prefix = 0.0 * workload.prefix if cache.hit == 0.0 else workload.prefix
    return replace(workload, prefix=prefix, cache=cache)


def deployed(deployment: Deployment, cache: PromptCache | None) -> Deployment:
    """The deployment; a sized cache in HBM is taken from the memory of the batch."""
    if cache is None:
        return deployment
    tier_bandwidth(deployment, cache)
    is_kept = cache.tier == HBM and cache.size is not None
    return replace(deployment, prefix_cache=cache.size) if is_kept else deployment


def cache_notes(deployment: Deployment, workload: Workload) -> Iterator[str]:
    cache = workload.cache
    if cache is None:
        return
    if cache.working_set is not None and type(workload.prefix) is float:
        share = f"{100.0 * float(hit_rate(deployment, workload.prefix, cache)):.3g} %"
        if cache.zipf is None:
            law = "cache over working set, all prefixes asked for alike, any policy"
        else:
            held, total = (
                rounded(float(cached_prefixes(deployment, workload.prefix, size or 0.0)))
                for size in (cache.size, cache.working_set)
            )
            law = f"{held} of {total} prefixes, Zipf {cache.zipf:g}, least recently used dropped (Che's approximation)"
        yield f"cache hit rate {share}: {law}"
    if cache.tier == HBM and cache.size is None:
        yield "memory of the cached prefixes is not counted; give cache_size to take it from the batch"
    if cache.tier != HBM and type(workload.isl + workload.prefix) is float and workload.prefix:
        again, loading = _recompute_time(deployment, workload), float(load_time(deployment, workload.prefix, cache))
        if loading > again:
            yield (
                f"loading {workload.prefix:,.0f} tokens from {cache.tier} takes {to_text(loading, 's')}, recomputing "
                f"would take {to_text(again, 's')}: the cache makes requests slower"
            )
    batch: Real = workload.batch
    if is_a_mixture(cache) and not all_of(batch <= 1.0):
        yield "a burst with a cache is the mean of one in which all prompts hit and one in which all miss"


def _recompute_time(deployment: Deployment, workload: Workload) -> float:
    """Prefill time of one prompt that a prefix in HBM saves [s]."""
    single = replace(workload, batch=1.0)
    ((_, hit),) = prefill_of_kinds(deployment, replace(single, cache=None))
    ((_, miss),) = prefill_of_kinds(deployment, replace(single, cache=None, prefix=0.0))
    return float(miss - hit)


def _working_set(value: Any) -> tuple[float | None, float | None]:
    """Size of a working set [B] and its Zipf exponent; None where not given."""
    if not isinstance(value, str):
        return None if value is None else number("working_set", value, 1.0, _MOST_BYTES), None
    text, colon, law = value.partition(":")
    name, form = law.strip().lower(), "write it as 2TB, or with its law, 2TB:zipf0.9"
    if colon and not name.startswith(_ZIPF):
        raise BadInput(f"working_set = {shown(value)}: {shown(law)} is no law of popularity; {form}")
    try:
        size = from_text(text.strip(), "B")
        exponent = number_of_text(name.removeprefix(_ZIPF)) if colon else None
    except BadInput as error:
        raise BadInput(f"working_set = {shown(value)}: {error}; {form}") from None
    if exponent is not None:
        exponent = number("the exponent of zipf", exponent, 0.0, _MOST_ZIPF)
    return number("working_set", size, 1.0, _MOST_BYTES), exponent
