"""A prompt cache: from the plain values of its options to its record, refused where it cannot be, and what to say."""

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
    hit_rate,
    is_a_mixture,
    load_time,
    tier_bandwidth,
)
from roofline.specs.prompt_cache import HBM, TIERS, PromptCache

__all__ = ["CACHE", "TIERS", "cache_notes", "deployed", "prompt_cache_of", "recomputing", "with_cache"]

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
    """A prompt cache from its options.

    Args:
        cache_hit: share of the requests whose prefix is in the cache, such as 0.6 or ``60%`` [1].
        cache_tier: where it lies, one of `TIERS`; None for the memory of the GPU [text].
        cache_bandwidth: of the tier to one GPU, such as ``12GB/s``; None for that of the GPU's link [B/s].
        cache_size: of the cache of one replica, such as ``500GB`` [B].
        working_set: of all prefixes that are asked for, such as ``2TB``, or ``2TB:zipf0.9`` where their popularity
            follows Zipf's law [B].

    Returns:
        The cache; None where nothing is said of one.

    Raises:
        UnknownName: no such tier.
        BadInput: values that cannot be, or that do not go together.
    """
    options = (cache_hit, cache_tier, cache_bandwidth, cache_size, working_set)
    if all(value is None for value in options):
        return None
    given = dict(zip(CACHE, (scalar(value) for value in options), strict=True))
    tier = HBM if given["cache_tier"] is None else given["cache_tier"]
    if tier not in TIERS:
        raise UnknownName(f"unknown cache_tier {shown(tier)}; choose from {', '.join(TIERS)}")
    hit, size = plain_value("cache_hit", given["cache_hit"]), plain_value("cache_size", given["cache_size"])
    if hit is not None:
        hit = number("cache_hit", hit, 0.0, 1.0)
    if size is not None:
        size = number("cache_size", size, 1.0, _MOST_BYTES)
    rate = plain_value("cache_bandwidth", given["cache_bandwidth"])
    if rate is not None:
        if tier == HBM:
            raise BadInput("cache_bandwidth is that of a tier; give cache_tier host, nvme or network, too")
        rate = number("cache_bandwidth", rate, 1.0, _MOST_BYTES)
    asked, exponent = _working_set(given["working_set"])
    if asked is not None:
        if hit is not None:
            raise BadInput("cache_hit is the hit rate that working_set asks for; leave out one of them")
        if size is None:
            raise BadInput("working_set needs a cache_size, such as 500GB, for its hit rate")
    return PromptCache(hit, tier, rate, size, asked, exponent)


def with_cache(workload: Workload, cache: PromptCache | None) -> Workload:
    """A workload whose prefixes lie in a cache.

    Args:
        workload: lengths and load.
        cache: None for a prefix that every request finds in the memory of the GPU.

    Returns:
        The workload; a prefix that no request finds is none.

    Raises:
        BadInput: no prefix.
    """
    if cache is None:
        return workload
    if not all_of(workload.prefix > 0.0):
        raise BadInput("a prompt cache needs a prefix, the prompt tokens that it holds; give prefix, such as 2k or 80%")
    if cache.zipf is not None and type(workload.prefix) is not float:
        raise BadInput("the hit rate of Zipf's law takes prefixes of one length; prefix must be a number, not an array")
    prefix = 0.0 * workload.prefix if cache.hit == 0.0 else workload.prefix
    return replace(workload, prefix=prefix, cache=cache)


def deployed(deployment: Deployment, cache: PromptCache | None) -> Deployment:
    """A deployment whose memory holds a cache.

    Args:
        deployment: whose GPU states its links.
        cache: of a workload; None for none.

    Returns:
        The deployment; a cache in the memory of its GPUs is taken from their batches.

    Raises:
        BadInput: a tier whose bandwidth is neither given nor stated.
    """
    if cache is None:
        return deployment
    tier_bandwidth(deployment, cache)
    is_kept = cache.tier == HBM and cache.size is not None
    return replace(deployment, prefix_cache=cache.size) if is_kept else deployment


def cache_notes(deployment: Deployment, workload: Workload) -> Iterator[str]:
    """What a reader should know of a cache.

    Args:
        deployment: model, GPU, plan and precision.
        workload: with its cache.

    Returns:
        One sentence each [text].
    """
    cache = workload.cache
    if cache is None:
        return
    if cache.working_set is not None and type(workload.prefix) is float:
        share = f"{100.0 * float(hit_rate(deployment, workload.prefix, cache)):.3g} %"
        if cache.zipf is None:
            law = "cache over working set, all prefixes asked for alike, any policy"
        else:
            held, asked = (
                rounded(float(cached_prefixes(deployment, workload.prefix, size or 0.0)))
                for size in (cache.size, cache.working_set)
            )
            law = f"{held} of {asked} prefixes, Zipf {cache.zipf:g}, least recently used dropped (Che's approximation)"
        yield f"cache hit rate {share}: {law}"
    if cache.tier == HBM and cache.size is None:
        yield "memory of the cached prefixes is not counted; give cache_size to take it from the batch"
    if cache.tier != HBM and type(workload.isl + workload.prefix) is float and workload.prefix:
        again, loading = recomputing(deployment, workload), float(load_time(deployment, workload.prefix, cache))
        if loading > again:
            yield (
                f"loading {workload.prefix:,.0f} tokens from {cache.tier} takes {to_text(loading, 's')}, recomputing "
                f"would take {to_text(again, 's')}: the cache makes requests slower"
            )
    batch: Real = workload.batch
    if is_a_mixture(cache) and not all_of(batch <= 1.0):
        yield "a burst with a cache is the mean of one in which all prompts hit and one in which all miss"


def recomputing(deployment: Deployment, workload: Workload) -> float:
    """Time by which the prefill of one prompt is shorter where its prefix is in the memory of the GPU.

    Args:
        deployment: model, GPU, plan, precision and engine.
        workload: of one case, with a cache.

    Returns:
        Time [s].
    """
    one = replace(workload, batch=1.0)
    ((_, found),) = prefill_of_kinds(deployment, replace(one, cache=None))
    ((_, missed),) = prefill_of_kinds(deployment, replace(one, cache=None, prefix=0.0))
    return float(missed - found)


def _working_set(value: Any) -> tuple[float | None, float | None]:
    """Bytes of a working set, and the exponent of its popularity."""
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
