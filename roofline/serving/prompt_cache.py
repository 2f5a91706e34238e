"""Prompts that find their prefix in a cache, and prompts that do not: what of them is computed, and what loaded."""

from __future__ import annotations

from functools import lru_cache
from math import exp

from roofline.errors import BadInput
from roofline.ops import Real, comparable, maximum, plain
from roofline.physics.memory import kv_bytes_per_sequence
from roofline.physics.plan import Deployment
from roofline.quantity import BILLION, to_text
from roofline.records import NamedTuple
from roofline.roots import root
from roofline.specs.prompt_cache import HBM, HOST_MEMORY, NETWORK_CACHE, PromptCache

__all__ = [
    "PromptKind",
    "cache_text",
    "cached_prefixes",
    "computed",
    "hit_rate",
    "is_a_mixture",
    "load_time",
    "lru_hit_rate",
    "prefix_bytes",
    "prompt_kinds",
    "tier_bandwidth",
    "uniform_hit_rate",
]

_EXACT_RANKS = 128  # of Zipf's law that are summed one by one; the others in groups
_LONGEST = BILLION**4  # characteristic time, in requests
_GROUPS_PER_E = 24.0  # groups of ranks while their number grows by e


@comparable
class PromptKind(NamedTuple):
    """A share of the requests, and what is done for their prompts."""

    weight: Real  # share of the requests [1]
    computed: Real  # [tokens] of the mean prompt
    cached: Real  # [tokens] before them
    loading: Real  # [s] until those are in the memory of the GPU, the link being free

    @property
    def is_loaded(self) -> bool:
        """Whether they come from elsewhere."""
        return not (type(self.loading) is float and self.loading == 0.0)


def computed(isl: Real, prefix: Real) -> Real:
    """Tokens of a prompt that are computed: all but what is cached, at least one.

    Args:
        isl: length of the prompt [tokens].
        prefix: tokens of it whose KV is cached already [tokens].

    Returns:
        Tokens [tokens].

    Source:
        Arithmetic.

    >>> computed(1000.0, 400.0)
    600.0
    """
    return maximum(isl - prefix, 1.0, "a single prompt token is left to compute")


def prompt_kinds(deployment: Deployment, isl: Real, prefix: Real, cache: PromptCache | None) -> tuple[PromptKind, ...]:
    """Prompts whose prefix is in the cache, and those whose prefix is not.

    Args:
        deployment: model, GPU, plan and precision.
        isl: mean prompt [tokens].
        prefix: tokens of it that may be cached [tokens].
        cache: where they lie, and how often; None where they always lie in the memory of the GPU.

    Returns:
        Hits and misses, or the one of them that there is.

    Source:
        A prompt that finds its prefix computes what follows it; one that does not computes all of it.
    """
    new = computed(isl, prefix)
    if cache is None:
        return (PromptKind(1.0, new, isl - new, 0.0),)
    found = PromptKind(1.0, new, isl - new, load_time(deployment, prefix, cache))
    hit = hit_rate(deployment, prefix, cache)
    if type(hit) is float and hit == 1.0:
        return (found,)
    missed = PromptKind(1.0, isl, 0.0, 0.0)
    if (type(hit) is float and hit == 0.0) or (type(prefix) is float and prefix == 0.0):
        return (missed,)
    return found._replace(weight=hit), missed._replace(weight=1.0 - hit)


def is_a_mixture(cache: PromptCache | None) -> bool:
    """Whether some requests may find their prefix and others not.

    Args:
        cache: of a workload; None for none.

    Returns:
        True or false.
    """
    if cache is None:
        return False
    if cache.hit is None:
        return cache.working_set is not None
    return not (type(cache.hit) is float and cache.hit in (0.0, 1.0))


def prefix_bytes(deployment: Deployment, prefix: Real) -> Real:
    """KV cache of a prefix on one GPU, of the fullest pipeline stage.

    Args:
        deployment: model, plan and precision.
        prefix: its length [tokens].

    Returns:
        Bytes [B].

    Source:
        `roofline.physics.memory.kv_bytes_per_sequence`.
    """
    return kv_bytes_per_sequence(deployment.model, deployment.plan, deployment.precision, prefix)


def tier_bandwidth(deployment: Deployment, cache: PromptCache) -> Real | None:
    """Rate at which prefixes come from a tier into the memory of one GPU.

    Args:
        deployment: whose GPU states its links.
        cache: tier, and the bandwidth where it is given.

    Returns:
        Rate of one direction [B/s]; None in the memory of the GPU, where nothing is loaded.

    Raises:
        BadInput: neither the case nor the GPU states one.
    """
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
    r"""Time to load a prefix into the memory of the GPUs, each its own part at the same time.

    .. math:: t = \frac{kv(p)}{W_{tier}}

    Args:
        deployment: model, GPU, plan and precision.
        prefix: tokens [tokens].
        cache: tier and bandwidth.

    Returns:
        Time [s]; zero in the memory of the GPU.

    Raises:
        BadInput: a tier whose bandwidth is not known.

    Valid:
        At the rate of the link, without latency: large blocks, of all layers together.

    Source:
        Arithmetic.
    """
    rate = tier_bandwidth(deployment, cache)
    return 0.0 if rate is None else prefix_bytes(deployment, prefix) / rate


def cached_prefixes(deployment: Deployment, prefix: Real, size: Real) -> Real:
    """Prefixes that a cache of one replica holds.

    Args:
        deployment: model, plan and precision.
        prefix: length of each [tokens].
        size: of the cache [B].

    Returns:
        How many, not rounded [1].

    Valid:
        Each lies on one data-parallel rank, as it lies in the memory of its GPUs: copies that tensor parallelism makes
        of a latent cache count.

    Source:
        Arithmetic.
    """
    plan = deployment.plan
    return size / (prefix_bytes(deployment, prefix) * plan.tp * plan.pp)


def hit_rate(deployment: Deployment, prefix: Real, cache: PromptCache) -> Real:
    """Share of the requests whose prefix is in a cache, as it is given or follows from its size.

    Args:
        deployment: model, plan and precision.
        prefix: length of each prefix [tokens].
        cache: its hit rate, or its size and the working set; where neither is known every request finds its prefix.

    Returns:
        Share [1]; with respect to a prefix that is traced, a constant.

    Source:
        `uniform_hit_rate` and `lru_hit_rate`.
    """
    if cache.hit is not None:
        return cache.hit
    if cache.working_set is None or cache.size is None:
        return 1.0
    if cache.zipf is None:
        return uniform_hit_rate(cache.size, cache.working_set)
    length = plain(prefix)
    if length == 0.0:
        return 0.0
    held, asked = (float(cached_prefixes(deployment, length, size)) for size in (cache.size, cache.working_set))
    return lru_hit_rate(held, asked, cache.zipf)


def uniform_hit_rate(size: float, working_set: float) -> float:
    r"""Hit rate of a cache of prefixes that are asked for alike, independent of each other.

    .. math:: h = \min\left(1, \frac{C}{N}\right)

    Args:
        size: of the cache, C [B].
        working_set: of all prefixes, N [B].

    Returns:
        Share of the requests [1].

    Valid:
        Any policy that does not know the future: each holds as much of what is asked for as any other.

    Source:
        The independent reference model: Coffman and Denning, "Operating Systems Theory", 1973, section 6.6.

    >>> uniform_hit_rate(500e9, 2e12)
    0.25
    """
    return min(1.0, size / working_set)


@lru_cache(maxsize=256)
def lru_hit_rate(held: float, asked: float, exponent: float) -> float:
    r"""Hit rate of a cache that drops what was used longest ago, of prefixes whose popularity follows Zipf's law.

    .. math:: h = \sum_i q_i \left(1 - e^{-q_i T}\right),\quad \sum_i \left(1 - e^{-q_i T}\right) = C,\quad
              q_i = \frac{i^{-s}}{\sum_j j^{-s}}

    Args:
        held: prefixes that the cache holds, C [1].
        asked: prefixes that are asked for at all, N [1].
        exponent: s of the law [1].

    Returns:
        Share of the requests [1].

    Valid:
        Prefixes of one size, requests independent of each other; more than a few prefixes in the cache. Ranks beyond
        the first 128 are summed in groups within which popularity hardly changes.

    Source:
        Che, Tung and Wang, "Hierarchical Web Caching Systems", IEEE JSAC 20(7), 2002, equations 3 to 5.
    """
    if held >= asked:
        return 1.0
    ranks = _ranks(asked)
    total = sum(count * rank**-exponent for count, rank in ranks)
    shares = [(count, rank**-exponent / total) for count, rank in ranks]

    def surplus(time: float) -> float:
        return sum(count * (1.0 - exp(-share * time)) for count, share in shares) - held

    time = root(surplus, asked, 0.0, _LONGEST)
    hits = sum(count * share * (1.0 - exp(-share * time)) for count, share in shares)
    return min(float(hits), 1.0)


def _ranks(asked: float) -> list[tuple[float, float]]:
    """Ranks of popularity up to a number, in groups: how many are in each, and the middle one."""
    exact = min(int(asked), _EXACT_RANKS)
    groups = [(1.0, float(rank)) for rank in range(1, exact + 1)]
    low = exact + 0.5
    while low < asked + 0.5:
        high = min(low * exp(1.0 / _GROUPS_PER_E), asked + 0.5)
        groups.append((high - low, (low * high) ** 0.5))
        low = high
    return groups


def cache_text(deployment: Deployment, prefix: float, cache: PromptCache) -> str:
    """A cache in a few words, of one case.

    Args:
        deployment: model, GPU, plan and precision.
        prefix: tokens [tokens].
        cache: the cache.

    Returns:
        Text such as ``60 % of requests find 2,000 tokens in host memory (loads in 12 ms)`` [text].
    """
    where = {HBM: "in GPU memory", HOST_MEMORY: "in host memory", NETWORK_CACHE: "over the network"}
    share = 100.0 * float(hit_rate(deployment, prefix, cache))
    time = float(load_time(deployment, prefix, cache))
    loads = "" if cache.tier == HBM else f" (loads in {to_text(time, 's') if time else '0 s'})"
    return f"{share:.3g} % of requests find {prefix:,.0f} tokens {where.get(cache.tier, 'on NVMe')}{loads}"
