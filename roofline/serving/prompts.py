"""Prompts and their cached prefixes: which tokens are computed, which are loaded, and how often prefixes hit."""

from __future__ import annotations

from functools import lru_cache
from math import exp

from roofline.numbers.operations import Real, comparable, maximum, plain
from roofline.numbers.quantity import BILLION, percent_figure
from roofline.numbers.roots import root
from roofline.physics.memory import kv_bytes_per_sequence
from roofline.physics.plan import Deployment
from roofline.physics.programs import figures_of
from roofline.specs.engine import HBM, HOST_MEMORY, NETWORK_CACHE, PromptCache
from roofline.support.errors import BadInput
from roofline.support.records import NamedTuple

_EXACT_RANKS = 128  # of Zipf's law that are summed one by one; others in groups
_LONGEST = BILLION**4  # characteristic time [requests]
_GROUPS_PER_E = 24.0  # groups per e-fold of the rank


@comparable
class PromptKind(NamedTuple):
    """A share of the requests, and what is computed and loaded for their prompts."""

    weight: Real  # share of requests [1]
    computed: Real  # [tokens] of the mean prompt
    cached: Real  # [tokens]
    loading: Real  # [s] to load the cached tokens into GPU memory over an idle link

    @property
    def is_loaded(self) -> bool:
        return not (type(self.loading) is float and self.loading == 0.0)


def computed(isl: Real, prefix: Real) -> Real:
    """Computed tokens of a prompt: all that are not cached, at least one.

    Args:
        isl: length of the prompt [tokens].
        prefix: cached tokens of it [tokens].

    Returns:
        Tokens [tokens].

    Source:
        Arithmetic.

    >>> computed(1000.0, 400.0)
    600.0
    """
    return maximum(isl - prefix, 1.0, "a single prompt token is left to compute")


def prompt_kinds(deployment: Deployment, isl: Real, prefix: Real, cache: PromptCache | None) -> tuple[PromptKind, ...]:
    """Prompts that hit the prefix cache, and prompts that miss it.

    Args:
        deployment: model, GPU, plan and quantization.
        isl: mean prompt [tokens].
        prefix: tokens of it that may be cached [tokens].
        cache: tier and hit rate; None where all prefixes are in GPU memory.

    Returns:
        Hits, then misses; only one of them where the other has no weight.

    Source:
        A hit computes what follows the prefix; a miss computes the whole prompt.
    """
    uncached = computed(isl, prefix)
    if cache is None:
        return (PromptKind(1.0, uncached, isl - uncached, 0.0),)
    if cache.turns is not None:
        return tuple(
            kind._replace(weight=group.weight * kind.weight)
            for group in cache.turns.groups
            for kind in kinds_of_turn(deployment, isl, prefix, cache, group.cached)
        )
    hit = PromptKind(1.0, uncached, isl - uncached, load_time(deployment, prefix, cache))
    rate = hit_rate(deployment, prefix, cache)
    if type(rate) is float and rate == 1.0:
        return (hit,)
    miss = PromptKind(1.0, isl, 0.0, 0.0)
    if (type(rate) is float and rate == 0.0) or (type(prefix) is float and prefix == 0.0):
        return (miss,)
    return hit._replace(weight=rate), miss._replace(weight=1.0 - rate)


def kinds_of_turn(
    deployment: Deployment, isl: Real, prefix: Real, cache: PromptCache, context: float
) -> tuple[PromptKind, ...]:
    """Prompts of a turn that finds its context in GPU memory, loads it from the tier, or computes it again.

    Args:
        deployment: model, GPU, plan and quantization.
        isl: mean prompt of all turns [tokens].
        prefix: mean context before all turns [tokens].
        cache: the sessions, and the shares of later turns that find and load their context.
        context: before this turn [tokens].

    Returns:
        Those kinds that have a weight. What all sessions begin with is always found.

    Source:
        Arithmetic.
    """
    sessions = cache.turns
    assert sessions is not None  # noqa: S101  # as who calls has seen
    new = computed(isl, prefix)
    here = prefix + (context - sessions.prefix)
    found = PromptKind(1.0, new, here, 0.0)
    if context <= sessions.system or cache.loaded is None:
        return (found,)
    hit: Real = 1.0 if cache.hit is None else cache.hit
    again = PromptKind(
        1.0 - hit - cache.loaded, new + (context - sessions.system), here - (context - sessions.system), 0.0
    )
    loads = PromptKind(cache.loaded, new, here, load_time(deployment, here - sessions.system, cache))
    kinds = found._replace(weight=hit), loads, again
    return tuple(kind for kind in kinds if type(kind.weight) is not float or kind.weight > 0.0)


def is_a_mixture(cache: PromptCache | None) -> bool:
    """Whether some requests may hit the cache and others miss it."""
    if cache is None:
        return False
    if cache.turns is not None:
        return cache.turns.turns > 1
    if cache.hit is None:
        return cache.working_set is not None
    return not (type(cache.hit) is float and cache.hit in (0.0, 1.0))


def prefix_bytes(deployment: Deployment, prefix: Real) -> Real:
    """KV cache of a prefix per GPU, of the fullest pipeline stage.

    Args:
        deployment: model, plan and quantization.
        prefix: its length [tokens].

    Returns:
        Bytes [B].

    Source:
        `roofline.physics.memory.kv_bytes_per_sequence`.
    """
    return figures_of(_prefix_bytes, deployment, prefix)[0]


def _prefix_bytes(deployment: Deployment, prefix: Real) -> tuple[Real, ...]:
    return (kv_bytes_per_sequence(deployment.model, deployment.plan, deployment.quantization, prefix),)


def tier_bandwidth(deployment: Deployment, cache: PromptCache) -> Real | None:
    """Bandwidth from a tier to one GPU, one direction [B/s]; None in GPU memory. BadInput if unknown."""
    if cache.tier == HBM:
        return None
    gpu = deployment.gpu
    known = {HOST_MEMORY: ("host_link", gpu.host_link), NETWORK_CACHE: ("scale_out", gpu.scale_out)}
    name, stated = known.get(cache.tier, ("", None))
    rate = stated if cache.bandwidth is None else cache.bandwidth
    if rate is None:
        why = f"{gpu.name} states no {name}" if name else "no GPU states the bandwidth of its disks"
        raise BadInput(f"cache_tier = {cache.tier} needs a bandwidth, and {why}; give cache_bandwidth, such as 12GB/s")
    return rate


def load_time(deployment: Deployment, prefix: Real, cache: PromptCache) -> Real:
    r"""Time to load a prefix into GPU memory, all GPUs in parallel.

    .. math:: t = \frac{kv(p)}{W_{tier}}

    Args:
        deployment: model, GPU, plan and quantization.
        prefix: tokens [tokens].
        cache: tier and bandwidth.

    Returns:
        Time [s]; zero in GPU memory.

    Raises:
        BadInput: the bandwidth of the tier is unknown.

    Valid:
        At link rate, without latency: large blocks of all layers together.

    Source:
        Arithmetic.
    """
    rate = tier_bandwidth(deployment, cache)
    return 0.0 if rate is None else prefix_bytes(deployment, prefix) / rate


def cached_prefixes(deployment: Deployment, prefix: Real, size: Real) -> Real:
    """Prefixes that the cache of one replica holds.

    Args:
        deployment: model, plan and quantization.
        prefix: length of each [tokens].
        size: of the cache [B].

    Returns:
        Number, not rounded [1].

    Valid:
        Each is stored once, in the layout of one data-parallel rank: the copies that tensor parallelism makes of a
        latent cache count.

    Source:
        Arithmetic.
    """
    plan = deployment.plan
    return size / (prefix_bytes(deployment, prefix) * plan.sequence_gpus)


def hit_rate(deployment: Deployment, prefix: Real, cache: PromptCache) -> Real:
    """Share of requests that hit a cache, as stated or from its size.

    Args:
        deployment: model, plan and quantization.
        prefix: length of each prefix [tokens].
        cache: hit rate, or size and working set; where neither is known, every request hits.

    Returns:
        Share [1]; a constant with respect to a traced prefix.

    Source:
        `uniform_hit_rate` and `lru_hit_rate`.
    """
    if cache.turns is not None:
        later = 1.0 - 1.0 / cache.turns.turns
        hit: Real = 1.0 if cache.hit is None else cache.hit
        return 1.0 - later + later * (hit + (0.0 if cache.loaded is None else cache.loaded))
    if cache.hit is not None:
        return cache.hit
    if cache.working_set is None or cache.size is None:
        return 1.0
    size = cache.size * deployment.replicas if cache.is_split else cache.size
    if cache.zipf is None:
        return uniform_hit_rate(size, cache.working_set)
    length = plain(prefix)
    if length == 0.0:
        return 0.0
    held, demanded = (float(cached_prefixes(deployment, length, each)) for each in (size, cache.working_set))
    return lru_hit_rate(held, demanded, cache.zipf)


def uniform_hit_rate(size: float, working_set: float) -> float:
    r"""Hit rate where all prefixes are equally popular, and requests independent.

    .. math:: h = \min\left(1, \frac{C}{N}\right)

    Args:
        size: of the cache, C [B].
        working_set: of all prefixes, N [B].

    Returns:
        Share of the requests [1].

    Valid:
        Any replacement policy without knowledge of the future.

    Source:
        The independent reference model: Coffman and Denning, "Operating Systems Theory", 1973, section 6.6.

    >>> uniform_hit_rate(500e9, 2e12)
    0.25
    """
    return min(1.0, size / working_set)


@lru_cache(maxsize=256)
def lru_hit_rate(held: float, demanded: float, exponent: float) -> float:
    r"""Hit rate of an LRU cache of prefixes whose popularity follows Zipf's law.

    .. math:: h = \sum_i q_i \left(1 - e^{-q_i T}\right),\quad \sum_i \left(1 - e^{-q_i T}\right) = C,\quad
              q_i = \frac{i^{-s}}{\sum_j j^{-s}}

    Args:
        held: prefixes that the cache holds, C [1].
        demanded: prefixes in demand, N [1].
        exponent: s of Zipf's law [1].

    Returns:
        Share of the requests [1].

    Valid:
        Prefixes of one size, independent requests, more than a few prefixes in the cache. Ranks beyond 128 are summed
        in groups of nearly equal popularity.

    Source:
        Che, Tung and Wang, "Hierarchical Web Caching Systems", IEEE JSAC 20(7), 2002, equations 3 to 5.
    """
    if held >= demanded:
        return 1.0
    ranks = _ranks(demanded)
    total = sum(count * rank**-exponent for count, rank in ranks)
    shares = [(count, rank**-exponent / total) for count, rank in ranks]

    def surplus(time: float) -> float:
        return sum(count * (1.0 - exp(-share * time)) for count, share in shares) - held

    time = root(surplus, demanded, 0.0, _LONGEST)
    hits = sum(count * share * (1.0 - exp(-share * time)) for count, share in shares)
    return min(float(hits), 1.0)


def _ranks(number: float) -> list[tuple[float, float]]:
    """Groups of popularity ranks up to a number: size and geometric middle of each."""
    exact = min(int(number), _EXACT_RANKS)
    groups = [(1.0, float(rank)) for rank in range(1, exact + 1)]
    low = exact + 0.5
    while low < number + 0.5:
        high = min(low * exp(1.0 / _GROUPS_PER_E), number + 0.5)
        groups.append((high - low, (low * high) ** 0.5))
        low = high
    return groups


def cached_text(isl: str, prefix: str, tier: str = HBM, share: Real = 1.0, detail: str = "") -> str:
    """A cached prefix in words; `share` of the requests find it [1], `detail` follows in brackets.

    >>> cached_text("6144", "4096"), cached_text("6144", "4096", "host", 0.8)
    ('4096 of 6144 cached', '4096 of 6144 cached in host memory for 80 % of requests')
    """
    place = {HBM: "", HOST_MEMORY: " in host memory", NETWORK_CACHE: " over the network"}.get(tier, " on NVMe")
    among = "" if share == 1.0 else f" for {percent_figure(share)} % of requests"
    return f"{prefix} of {isl} cached{place}{among}{f' ({detail})' if detail else ''}"
