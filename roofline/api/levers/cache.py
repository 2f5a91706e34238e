"""A prompt cache: for every tier the time to load a prefix against that to compute it again, and what it holds."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Unpack, cast

from roofline.analysis.recompute import EvenPrefix, Recompute, even_prefix, recompute
from roofline.api import catalog
from roofline.api.inputs.pools import gpu_of
from roofline.api.inputs.texts import listed_names, plain_options
from roofline.api.predict import predict
from roofline.api.refused import refused_row
from roofline.errors import BadInput, RooflineError, UnknownName
from roofline.number_types import Json
from roofline.ops import floor
from roofline.quantity import GIGA, MICRO, MILLI, NANO, rounded, to_text
from roofline.records import dataclass, field
from roofline.serving.latency import Workload
from roofline.serving.prediction import Prediction
from roofline.serving.prompt_cache import cached_prefixes, computed, hit_rate, load_time, tier_bandwidth
from roofline.serving.row import ROW_KEYS, check_keys, listed_keys
from roofline.serving.row import row as row_of
from roofline.serving.row_types import CacheRow
from roofline.specs.gpu import Gpu
from roofline.specs.model import Model
from roofline.specs.prompt_cache import HBM, HOST_MEMORY, NETWORK_CACHE, NVME, TIERS, PromptCache

if TYPE_CHECKING:
    from roofline.api.inputs.options import Case

__all__ = ["CACHE_KEYS", "LOADING_WINS", "RECOMPUTING_WINS", "CacheTier", "prompt_cache"]

#: Keys of a row beside those of a prediction.
CACHE_KEYS = (
    "cache_bandwidth_gb_s", "recompute_ms", "load_us_per_token", "recompute_us_per_token", "recompute_ns_per_square",
    "break_even_prefix", "break_even_formula", "is_straight", "faster", "prefixes_held", "reason",
)  # fmt: skip

#: What takes less time.
LOADING_WINS, RECOMPUTING_WINS = "loading", "recomputing"

_MOST = 0.999  # of the memory beside the batch that prefixes may take


@dataclass(frozen=True, repr=False)
class CacheTier:
    """A tier of the prompt cache of one kind of GPU: loading a prefix from it against computing the prefix again.

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
    again: Recompute | None = None  # what computing it takes
    even: EvenPrefix | None = None  # None where loading is never, or always, the faster
    prefixes: float | None = None  # that the cache holds; None where its size is not known
    hit: float | None = None  # share of the requests that find theirs; None where it is not known
    warnings: tuple[str, ...] = ()
    reason: str | None = None  # why there is no answer
    asked: Mapping[str, Json] = field(default_factory=dict, repr=False)

    @property
    def faster(self) -> str | None:
        """Whether loading or recomputing the prefix takes less time; None where there is no answer."""
        if self.again is None:
            return None
        return LOADING_WINS if self.load <= self.again.time else RECOMPUTING_WINS

    @property
    def load_per_token(self) -> float | None:
        """Time to load one token of the prefix that is asked about [s]."""
        return None if self.prediction is None else self.load / self.prefix

    @property
    def formula(self) -> float | None:
        """Break-even by the closed form, with a and b of the prefix that is asked about [tokens].

        None where a load is faster at any length, or nothing is loaded.
        """
        if self.again is None or self.bandwidth is None or self.load_per_token is None:
            return None
        surplus = self.load_per_token - self.again.per_token
        return surplus / self.again.per_square if surplus > 0.0 and self.again.per_square > 0.0 else None

    def __str__(self) -> str:
        """One line: both times, which wins, and the break-even."""
        if self.prediction is None or self.again is None:
            return f"{self.gpu.name}, {self.tier}: {self.reason}"
        prefix = f"{self.prefix:,.0f} tokens"
        times = f"{prefix} load in {to_text(self.load, 's') if self.load else '0 s'}"
        again = f"recomputing takes {to_text(self.again.time, 's') if self.again.time > 0.0 else '0 s'}"
        even = "" if self.even is None else f"; break-even {rounded(self.even.prefix)} tokens"
        return f"{self.gpu.name}, {self.tier}: {times}, {again}{even}"

    def __repr__(self) -> str:
        """The same line, for lists of them."""
        return f"<CacheTier {self}>"

    def to_dict(self, keys: Sequence[str] | None = None) -> CacheRow:
        """Flat row of the JSON contract: a prediction with the cache in this tier, and the tier itself."""
        known = tuple(dict.fromkeys((*ROW_KEYS, *CACHE_KEYS)))
        wanted = known if keys is None else listed_keys(keys)
        check_keys(wanted, known)
        of_row = tuple(key for key in wanted if key in ROW_KEYS)
        row: dict[str, Any] = {key: self.asked.get(key) for key in of_row}
        if self.prediction is not None:
            row = row_of(self.prediction, of_row)
        even, again = self.even, self.again
        row |= {
            "cache_hit": self.hit,
            "cache_tier": self.tier,
            "warnings": list(self.warnings),
            "cache_bandwidth_gb_s": None if self.bandwidth is None else self.bandwidth / GIGA,
            "recompute_ms": None if again is None else again.time / MILLI,
            "load_us_per_token": None if self.load_per_token is None else self.load_per_token / MICRO,
            "recompute_us_per_token": None if again is None else again.per_token / MICRO,
            "recompute_ns_per_square": None if again is None else again.per_square / NANO,
            "break_even_prefix": None if even is None else even.prefix,
            "break_even_formula": self.formula,
            "is_straight": None if even is None else even.is_straight,
            "faster": self.faster,
            "prefixes_held": self.prefixes,
            "reason": self.reason,
        }
        return cast("CacheRow", {key: row[key] for key in wanted})


def prompt_cache(
    model: str | Model, gpus: str | Gpu | Sequence[str | Gpu] | None = None, **options: Unpack[Case]
) -> list[CacheTier]:
    r"""For every tier that a prompt cache may lie in: the time to load a prefix, and that to compute it again.

    .. math:: \frac{kv}{W} = a + b\, p

    at the break-even: the KV cache of a token over the bandwidth of the tier, against the time of a further token and
    that of its attention to the prefix before it.

    Args:
        model: name, alias or record [text].
        gpus: names, aliases or records; None for the whole catalog [text].
        options: keyword arguments of `predict`, with a `prefix`. Every tier with a known bandwidth is answered, or
            that of `cache_tier`; disks have one only where `cache_tier="nvme"` and `cache_bandwidth` say it. With a
            `working_set` the answer has the hit rate of the `cache_size`, in the memory of the GPU of whatever is left
            beside the batch where no size is given.

    Returns:
        Tiers, GPU by GPU, the fastest to load from first; a GPU that cannot run the case has one, with the reason.

    Raises:
        UnknownName: no such model, GPU, format or tier.
        BadInput: no prefix, arrays, or values that cannot be.
        DoesNotFit: a single GPU whose memory is too small.

    >>> import roofline as rl
    >>> rl.prompt_cache("llama-3.1-8b", "h100-sxm", isl=4000, prefix=3000, basis="ideal", cache_tier="host")
    [<CacheTier h100-sxm, host: 3,000 tokens load in 6.24 ms, recomputing takes 49.2 ms; break-even 1 tokens>]
    """
    plain = plain_options(options)
    if not plain.get("prefix"):
        raise BadInput("a prompt cache needs a prefix, the prompt tokens that it holds; give prefix, such as 2k or 80%")
    specs = plain.get("specs")
    record, note = (model, None) if isinstance(model, Model) else catalog.find_model(model, specs, plain.get("assume"))
    names: list[Any] = list(catalog.gpus(specs)) if gpus is None else listed_names("gpus", gpus)
    said = () if note is None else (note,)
    found: list[CacheTier] = []
    for name in names:
        try:
            found += sorted(_tiers(record, name, plain, said), key=lambda one: one.load)
        except UnknownName:
            raise
        except RooflineError as error:
            if len(names) == 1 or isinstance(error, BadInput):
                raise
            asked = refused_row(record, name, error, **plain)
            gpu, tier = gpu_of(name, specs), str(plain.get("cache_tier") or HBM)
            found.append(CacheTier(record, gpu, tier, reason=str(error), warnings=said, asked=asked))
    return found


def _tiers(model: Model, name: Any, options: Mapping[str, Any], said: tuple[str, ...]) -> Iterator[CacheTier]:
    """Tiers of one kind of GPU."""
    sized = {name: options.get(name) for name in ("cache_size", "working_set", "cache_hit")}
    case = {key: value for key, value in options.items() if key not in (*sized, "cache_tier", "cache_bandwidth")}
    alone = predict(model, name, **case)
    if type(alone.workload.isl + alone.workload.osl + alone.workload.prefix) is not float:
        raise BadInput("a prompt cache is asked of one case; lengths must be numbers, not arrays")
    degrees = {"tp": alone.deployment.plan.tp}
    spare = max(_MOST * float(alone.memory.usable - alone.memory.used), 0.0) * alone.deployment.plan.num_gpus
    stated, rate = options.get("cache_tier"), options.get("cache_bandwidth")
    gpu = alone.deployment.gpu
    known = {HBM: True, HOST_MEMORY: gpu.host_link is not None, NVME: False, NETWORK_CACHE: gpu.scale_out is not None}
    for tier in [tier for tier in TIERS if known[tier]] if stated is None else [stated]:
        size = sized["cache_size"]
        if size is None and tier == HBM:
            size = spare if sized["working_set"] is not None and spare >= 1.0 else None
        is_sized = size is not None or sized["working_set"] is None
        cache = {"cache_tier": tier, "cache_bandwidth": None if stated is None else rate, "cache_size": size}
        cache |= {name: sized[name] if is_sized else None for name in ("working_set", "cache_hit")}
        one = predict(model, name, **{**case, **({} if "tp" in case else degrees), **cache})
        yield _answer(one, alone.workload, spare, said, is_sized=is_sized)


def _answer(one: Prediction, workload: Workload, spare: float, said: tuple[str, ...], *, is_sized: bool) -> CacheTier:
    """One tier of one kind of GPU."""
    deployment, cache = one.deployment, one.workload.cache or PromptCache()
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
        prediction=one,
        prefix=prefix,
        bandwidth=None if rate is None else float(rate),
        load=float(load_time(deployment, prefix, cache)),
        again=recompute(deployment, rest, prefix),
        even=None if rate is None else even_prefix(deployment, rest, cache),
        prefixes=prefixes,
        hit=float(hit_rate(deployment, prefix, cache)) if is_asked else None,
        warnings=(*said, *one.warnings, *notes),
    )
