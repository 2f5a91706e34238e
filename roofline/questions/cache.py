"""Prompt cache tiers: the time to load a prefix against the time to recompute it, and what a tier holds."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Unpack, cast, overload

from roofline.numbers.operations import Json, floor
from roofline.numbers.quantity import GIGA, MEGA, MICRO, MILLI, NANO, rounded, to_text
from roofline.numbers.roots import narrowed
from roofline.physics.plan import Deployment
from roofline.questions.inputs.arguments import each_model, one_case, plain_options
from roofline.questions.inputs.deployment import own_settings
from roofline.questions.inputs.flags import cache_flags
from roofline.questions.inputs.options import understood
from roofline.questions.predict import OneGpu, answer_row, asked_case, on_each_gpu, predict, refused_row
from roofline.serving.answers import Answer, Answers
from roofline.serving.latency import Workload, chunks, prompt_chunk
from roofline.serving.prediction import Prediction
from roofline.serving.prompts import cached_prefixes, computed, hit_rate, load_time, prefix_bytes, tier_bandwidth
from roofline.serving.row_types import CacheRow
from roofline.specs.engine import HBM, HOST_MEMORY, NETWORK_CACHE, NVME, TIERS, PromptCache
from roofline.specs.gpu import Gpu
from roofline.specs.keys import SHARED, Key, Keys, cells
from roofline.specs.model import Model
from roofline.support.errors import BadInput, RooflineError
from roofline.support.records import NamedTuple, dataclass, field

if TYPE_CHECKING:
    from roofline.questions.inputs.signatures import Case, Many


def _recompute(unit: str, figure: str, scale: float, meaning: str) -> Key[CacheTier]:
    return Key.number(unit, meaning, lambda c: None if c.again is None else getattr(c.again, figure) / scale)


#: Keys of a row in addition to those of a prediction.
CACHE_KEYS: Keys[CacheTier] = {
    "cache_bandwidth_gb_s": Key.number(
        "GB/s",
        "Bandwidth of the tier to one GPU; null in its own memory.",
        lambda c: None if c.bandwidth is None else c.bandwidth / GIGA,
    ),
    "recompute_ms": _recompute("ms", "time", MILLI, "Time to compute the prefix again."),
    "load_us_per_token": Key.number(
        "us",
        "Time to load the prefix, per token.",
        lambda c: None if c.load_per_token is None else c.load_per_token / MICRO,
    ),
    "recompute_us_per_token": _recompute(
        "us", "per_token", MICRO, "a: time to compute the prefix, per token, but for its attention to itself."
    ),
    "recompute_ns_per_square": _recompute(
        "ns", "per_square", NANO, "b: time of the attention of the prefix to itself, per token squared."
    ),
    "break_even_prefix": Key.number(
        "tokens",
        "The prefix from which on loading is faster; null where it never is.",
        lambda c: None if c.even is None else c.even.prefix,
    ),
    "break_even_formula": Key.number(
        "tokens", "The same by (kv / W - a) / b with a and b of this prefix.", lambda c: c.formula
    ),
    "is_straight": Key.flag(
        "Whether a and b also hold at half and twice the break-even.",
        lambda c: None if c.even is None else c.even.is_straight,
    ),
    "faster": Key.text("Which takes less time: loading or recomputing."),
    "prefixes_held": Key.number(
        "1", "Prefixes that the cache holds; in hbm those beside the batch.", lambda c: c.prefixes
    ),
    "flags": SHARED["flags"]._replace(of=lambda c: c.flags),
    "reason": SHARED["reason"],
}

#: Values of `faster`.
LOADING_WINS, RECOMPUTING_WINS = "loading", "recomputing"

_MOST_CACHED = 0.999  # share of the memory left by the batch that prefixes may take


@dataclass(frozen=True, repr=False)
class CacheTier(Answer[CacheRow]):
    """One tier of the prompt cache on one kind of GPU: loading a prefix against recomputing it.

    >>> import roofline as rl
    >>> memory, *others = rl.prompt_cache("llama-3.1-8b", "h100-sxm", isl=4000, prefix=3000, basis="ideal")
    >>> memory.tier, memory.load, [one.tier for one in others]
    ('hbm', 0.0, ['host', 'network'])
    >>> others[0].to_dict(["gpu", "cache_tier", "faster"])
    {'gpu': 'h100-sxm', 'cache_tier': 'host', 'faster': 'loading'}
    """

    model: Model = field(repr=False)
    gpu: Gpu = field(repr=False)
    tier: str
    prediction: Prediction | None = field(default=None, repr=False)  # with the cache in this tier
    prefix: float = 0.0  # [tokens]
    bandwidth: float | None = None  # [B/s] to one GPU; None in its memory
    load: float = 0.0  # [s] of the prefix
    again: Recompute | None = None  # time to recompute the prefix
    even: EvenPrefix | None = None  # break-even; None where loading is never, or always, faster
    prefixes: float | None = None  # that the cache holds; None where its size is unknown
    hit: float | None = None  # hit rate [1]; None where unknown
    warnings: tuple[str, ...] = ()
    reason: str | None = None  # why there is no answer
    asked: Mapping[str, Json] = field(default_factory=dict, repr=False)

    @property
    def flags(self) -> list[str]:
        """Options of the engine that keep prefixes in this tier."""
        return [] if self.prediction is None else cache_flags(self.prediction.deployment.engine.name, self.tier)

    @property
    def faster(self) -> str | None:
        """Whether loading or recomputing takes less time; None where there is no answer."""
        if self.again is None:
            return None
        return LOADING_WINS if self.load <= self.again.time else RECOMPUTING_WINS

    @property
    def load_per_token(self) -> float | None:
        """Time to load one token of this prefix [s]."""
        return None if self.prediction is None else self.load / self.prefix

    @property
    def formula(self) -> float | None:
        """Break-even by the closed form, with a and b of this prefix [tokens].

        None where loading is faster at any length, or nothing is loaded.
        """
        if self.again is None or self.bandwidth is None or self.load_per_token is None:
            return None
        surplus = self.load_per_token - self.again.per_token
        return surplus / self.again.per_square if surplus > 0.0 and self.again.per_square > 0.0 else None

    def __str__(self) -> str:
        if self.prediction is None or self.again is None:
            return f"{self.gpu.name}, {self.tier}: {self.reason}"
        prefix = f"{self.prefix:,.0f} tokens"
        times = f"{prefix} load in {to_text(self.load, 's') if self.load else '0 s'}"
        again = f"recomputing takes {to_text(self.again.time, 's') if self.again.time > 0.0 else '0 s'}"
        even = "" if self.even is None else f"; break-even {rounded(self.even.prefix)} tokens"
        return f"{self.gpu.name}, {self.tier}: {times}, {again}{even}"

    def __repr__(self) -> str:
        return f"<CacheTier {self}>"

    def to_dict(self, keys: Iterable[str] | None = None) -> CacheRow:
        """Flat row of the JSON contract: a prediction with the cache in this tier, and the tier itself."""
        of_tier = {"cache_hit": self.hit, "cache_tier": self.tier, "warnings": list(self.warnings)}
        values = {**of_tier, **cells(CACHE_KEYS, self)}
        return cast("CacheRow", answer_row(keys, CACHE_KEYS, self.prediction, self.asked, values))


@overload
def prompt_cache(model: Prediction) -> Answers[CacheTier, CacheRow]: ...
@overload
def prompt_cache(
    model: Many[str | Model], gpus: str | Gpu | Sequence[str | Gpu] | None = None, **options: Unpack[Case]
) -> Answers[CacheTier, CacheRow]: ...
@understood
def prompt_cache(
    model: Many[str | Model] | Prediction, gpus: str | Gpu | Sequence[str | Gpu] | None = None, **options: Unpack[Case]
) -> Answers[CacheTier, CacheRow]:
    r"""For every tier of a prompt cache, the time to load a prefix and the time to recompute it.

    .. math:: \frac{kv}{W} = a + b\, p

    holds at the break-even: the KV cache of a token over the bandwidth of the tier equals the time to compute one more
    token, plus that of its attention to the prefix.

    Args:
        model: name, alias or record, or several; or a prediction, in place of GPUs and options.
        gpus: names, aliases or records; None for the whole catalog.
        options: keyword arguments of `predict`, with a `prefix`. By default every tier with a known bandwidth is
            answered; disks need `cache_tier="nvme"` and `cache_bandwidth`. With a `working_set` the answer has the hit
            rate of `cache_size`, which in HBM defaults to the memory left by the batch.

    Returns:
        Tiers, GPU by GPU, the fastest to load from first; a GPU that cannot run the case has a single row, with the
        reason.

    Raises:
        UnknownName: no such model, GPU, format or tier.
        BadInput: no prefix, arrays, or impossible values.
        DoesNotFit: the case does not fit on the only GPU.

    >>> import roofline as rl
    >>> rl.prompt_cache("llama-3.1-8b", "h100-sxm", isl=4000, prefix=3000, basis="ideal", cache_tier="host")
    [<CacheTier h100-sxm, host: 3,000 tokens load in 6.24 ms, recomputing takes 49.2 ms; break-even 1 tokens>]
    """
    model, gpus, asked = asked_case("prompt_cache", model, gpus, options)
    plain = plain_options(asked)
    if not plain.get("prefix"):
        raise BadInput("a prompt cache needs a prefix, the prompt tokens that it holds; give prefix, such as 2k or 80%")

    def answer(one: OneGpu) -> list[CacheTier]:
        return sorted(
            _tiers(one.model, one.name, own_settings(one.name, plain), one.model_notes), key=lambda tier: tier.load
        )

    def refused(one: OneGpu, error: RooflineError) -> list[CacheTier]:
        if one.is_only or isinstance(error, BadInput):
            raise error
        row, tier = refused_row(one.model, one.name, error, **plain), str(plain.get("cache_tier") or HBM)
        return [CacheTier(one.model, one.gpu, tier, reason=str(error), warnings=one.model_notes, asked=row)]

    return Answers(
        tier
        for name in each_model(model)
        for _, tiers in on_each_gpu(name, gpus, plain, answer, refused)
        for tier in tiers
    )


def _tiers(model: Model, name: Any, options: Mapping[str, Any], notes: tuple[str, ...]) -> Iterator[CacheTier]:
    """Tiers on one kind of GPU."""
    sized = {name: options.get(name) for name in ("cache_size", "working_set", "cache_hit")}
    case = {key: value for key, value in options.items() if key not in (*sized, "cache_tier", "cache_bandwidth")}
    alone = predict(model, name, **case)
    one_case("a prompt cache", alone.workload.isl + alone.workload.osl + alone.workload.prefix)
    degrees = {"tp": alone.deployment.plan.tp}
    spare = max(_MOST_CACHED * float(alone.memory.usable - alone.memory.used), 0.0) * alone.deployment.plan.num_gpus
    only_tier, rate = options.get("cache_tier"), options.get("cache_bandwidth")
    gpu = alone.deployment.gpu
    known = {HBM: True, HOST_MEMORY: gpu.host_link is not None, NVME: False, NETWORK_CACHE: gpu.scale_out is not None}
    for tier in [tier for tier in TIERS if known[tier]] if only_tier is None else [only_tier]:
        size = sized["cache_size"]
        if size is None and tier == HBM:
            size = spare if sized["working_set"] is not None and spare >= 1.0 else None
        is_sized = size is not None or sized["working_set"] is None
        cache = {"cache_tier": tier, "cache_bandwidth": None if only_tier is None else rate, "cache_size": size}
        cache |= {name: sized[name] if is_sized else None for name in ("working_set", "cache_hit")}
        prediction = predict(model, name, **{**case, **({} if "tp" in case else degrees), **cache})
        yield _answer(prediction, alone.workload, spare, notes, is_sized=is_sized)


def _answer(
    prediction: Prediction, workload: Workload, spare: float, name_notes: tuple[str, ...], *, is_sized: bool
) -> CacheTier:
    deployment, cache = prediction.deployment, prediction.workload.cache or PromptCache()
    prefix, rest = float(workload.prefix), float(computed(workload.isl, workload.prefix))
    rate = tier_bandwidth(deployment, cache)
    size = cache.size if cache.size is not None or cache.tier != HBM else spare
    prefixes = None if size is None else float(floor(cached_prefixes(deployment, prefix, size)))
    notes = [] if is_sized else [f"the hit rate of tier {cache.tier} needs its cache_size"]
    is_asked = cache.hit is not None or cache.working_set is not None
    return CacheTier(
        model=deployment.model,
        gpu=deployment.gpu,
        tier=cache.tier,
        prediction=prediction,
        prefix=prefix,
        bandwidth=None if rate is None else float(rate),
        load=float(load_time(deployment, prefix, cache)),
        again=recompute(deployment, rest, prefix),
        even=None if rate is None else even_prefix(deployment, rest, cache),
        prefixes=prefixes,
        hit=float(hit_rate(deployment, prefix, cache)) if is_asked else None,
        warnings=(*name_notes, *prediction.warnings, *notes),
    )


# Loading a cached prefix or recomputing it: both times, and the break-even length.

_LONGEST = MEGA  # [tokens] where the model states no maximum context
_STRAIGHT = 0.1  # relative error of constant a and b at half and twice the length


class Recompute(NamedTuple):
    """Time that a cached prefix saves, as a parabola in its length."""

    time: float  # [s]
    per_token: float  # [s] a, everything linear in the tokens
    per_square: float  # [s] b, causal attention of the prefix on itself, per token squared

    def at(self, prefix: float) -> float:
        """Time of another prefix length with the same a and b [s]."""
        return self.per_token * prefix + self.per_square * prefix * prefix


class EvenPrefix(NamedTuple):
    """The prefix length at which loading takes as long as recomputing."""

    prefix: float  # [tokens]; shorter prefixes are recomputed faster, longer ones loaded
    load_per_token: float  # [s] kv / W at this length
    recompute: Recompute  # at this length
    is_straight: bool  # a and b also hold at half and twice the length, as the closed form assumes


def recompute(deployment: Deployment, rest: float, prefix: float) -> Recompute:
    r"""Time to recompute a prefix before the rest of its prompt, on an idle server.

    .. math:: R(p) = T(p + m\ \text{after}\ 0) - T(m\ \text{after}\ p) = a\, p + b\, p^2

    The rest attends to the prefix either way, so only the attention of the prefix on itself remains: b does not depend
    on m. Everything but attention is linear in the tokens, a.

    Args:
        deployment: model, GPU, plan, quantization and engine.
        rest: prompt tokens after the prefix, m [tokens].
        prefix: p [tokens].

    Returns:
        R, a and b at this prefix.

    Valid:
        a and b are constant for prompts long enough to be compute-bound. For short prompts, bound by reading the
        weights, a is smaller.

    Source:
        The prefill pass of docs/method.md, with and without the prefix.
    """
    uncached, cached = (_parts(deployment, prefix + rest, new) for new in (prefix + rest, rest))
    time, attention = (more - less for more, less in zip(uncached, cached, strict=True))
    return Recompute(time, (time - attention) / prefix, attention / (prefix * prefix))


def even_prefix(deployment: Deployment, rest: float, cache: PromptCache) -> EvenPrefix | None:
    r"""Break-even prefix: loading it takes as long as recomputing it.

    .. math:: \frac{kv}{W} = a + b\, p,\quad p = \frac{kv / W - a}{b}

    Args:
        deployment: model, GPU, plan, quantization and engine.
        rest: prompt tokens after the prefix [tokens].
        cache: tier and bandwidth.

    Returns:
        The prefix with a, b and load time per token at its length; None where recomputing is faster at any length that
        the model takes.

    Raises:
        BadInput: a tier of unknown bandwidth, or GPU memory, from which nothing is loaded.

    Valid:
        The closed form assumes constant a and b; `is_straight` says whether they are.

    Source:
        `recompute` and `roofline.serving.latency.load_time`.
    """
    rate = tier_bandwidth(deployment, cache)
    if rate is None:
        raise BadInput("nothing is loaded from the memory of the GPU; a break-even needs another cache_tier")
    speed = float(rate)

    def surplus(prefix: float) -> float:
        """Load time less recompute time, per token [s]."""
        return (
            float(prefix_bytes(deployment, prefix)) / speed / prefix - recompute(deployment, rest, prefix).time / prefix
        )

    longest = max((deployment.model.max_context or _LONGEST) - rest, 1.0)
    low = high = 1.0
    surplus_low = surplus_high = surplus(low)
    while surplus_high > 0.0 and high < longest:
        low, surplus_low = high, surplus_high
        high = min(2.0 * high, longest)
        surplus_high = surplus(high)
    if surplus_high > 0.0:
        return None
    prefix = low if surplus_low <= 0.0 else narrowed(surplus, (high, surplus_high), (low, surplus_low))
    saved = recompute(deployment, rest, prefix)
    neighbours = ((length, recompute(deployment, rest, length).time) for length in (0.5 * prefix, 2.0 * prefix))
    is_straight = all(abs(saved.at(length) - time) <= _STRAIGHT * time for length, time in neighbours)
    return EvenPrefix(prefix, float(prefix_bytes(deployment, prefix)) / speed / prefix, saved, is_straight)


def _parts(deployment: Deployment, isl: float, new: float) -> tuple[float, float]:
    """Prefill time of one prompt, and the attention arithmetic in it [s]."""
    count = chunks(new, deployment.effective_engine.max_num_batched_tokens)
    kernels = prompt_chunk(deployment, 1.0, isl, new).kernels
    attention = sum(
        kernel.count * (kernel.terms.compute + kernel.terms.exponentials)
        for kernel in kernels
        if kernel.kind.is_per_sequence
    )
    return float(count * sum(kernel.time for kernel in kernels)), float(count * attention)
