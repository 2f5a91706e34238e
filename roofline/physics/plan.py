"""A deployment: model, GPU, parallel plan, quantization and engine, which decide what one pass costs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from roofline.numbers.operations import Real
from roofline.numbers.quantity import MEGA
from roofline.specs.engine import Acceptance, Engine
from roofline.specs.gpu import Gpu
from roofline.specs.model import Model
from roofline.support.records import NamedTuple, dataclass, replace

if TYPE_CHECKING:
    from roofline.specs.media import Media

#: Routing skew c: fitted on MoE kernels timed with power-law routing
#: (aiconfigurator-core 0.12.0 tables, 2026), 0.5-0.7 over data types; docs/method.md.
DEFAULT_SKEW = 0.66

#: Beyond these the occupancy law loses precision.
LEAST_SKEW, MOST_SKEW = 0.01, MEGA

#: Kernels only: no host, no network, no queue.
NO_ENGINE = Engine("none")


@dataclass(frozen=True, slots=True)
class Plan:
    """Parallel degrees of one replica: tp shards attention, tp x dp ranks share the experts, pp splits the layers."""

    tp: int = 1
    pp: int = 1
    ep: int = 1
    dp: int = 1

    @property
    def num_gpus(self) -> int:
        return self.tp * self.pp * self.dp

    @property
    def expert_ranks(self) -> int:
        return self.tp * self.dp

    @property
    def expert_tp(self) -> Real:
        """Ranks that share one expert; ep divides tp x dp."""
        return self.tp * self.dp / self.ep


class Scheme(NamedTuple):
    """How the matrices of one section of a model are stored and multiplied."""

    format: str  # number format of the weights
    weight_nbytes: float  # [B] per weight, scales included
    activation_nbytes: float  # [B] per activation read by the multiplication
    peak: str  # dtype of the tensor cores that multiply
    key: str  # dtype key of the calibration
    dynamic: bool = False  # activations are quantized in a separate pass


class ModelQuantization(NamedTuple):
    """Schemes of the sections of a model, and the format of its KV cache."""

    sections: Mapping[str, Scheme]  # linear experts embed head router norm
    kv_format: str
    kv_nbytes: float  # [B] per cached value
    kv_key: str  # dtype key of the attention calibration
    attention_peak: str  # dtype at which attention multiplies
    sixteen_bit_peak: str  # 16-bit dtype of everything that is not quantized
    notes: tuple[str, ...] = ()  # what was set or replaced, for the result's notes


@dataclass(frozen=True, slots=True)
class Draft:
    """Speculative decoding: a draft proposes tokens, and the decode step verifies them."""

    method: str  # mtp, eagle, ngram or model
    acceptance: Acceptance
    model: Model | None = None  # draft model, or module of one layer; None: a search in the text so far
    quantization: ModelQuantization | None = None  # of the draft model
    joined: int = 0  # model widths that a module joins into its input

    @property
    def tokens(self) -> int:
        """Tokens proposed before each step [tokens]."""
        return self.acceptance.drafts

    @property
    def is_module(self) -> bool:
        """Whether it shares the model's embedding and head."""
        return self.joined > 0


class _HasMemo:
    """A cache on a frozen record; `replace` and copies start with an empty one."""

    __slots__ = ("_memo",)
    _memo: dict[Any, Any]

    @property
    def memo(self) -> dict[Any, Any]:
        """Programs and results that hold for all of its cases."""
        try:
            return self._memo
        except AttributeError:
            memo: dict[Any, Any] = {}
            object.__setattr__(self, "_memo", memo)
            return memo


@dataclass(frozen=True, slots=True)
class Deployment(_HasMemo):
    model: Model
    gpu: Gpu
    plan: Plan
    quantization: ModelQuantization
    basis: str = "calibrated"  # ideal, calibrated, inherited or generic
    routing_skew: Real | None = DEFAULT_SKEW  # c; None: uniform routing
    replicas: int = 1
    engine: Engine = NO_ENGINE
    draft: Draft | None = None  # None: one token per step
    prefix_cache: Real = 0.0  # [B] of one replica's memory, reserved for cached prefixes
    media: Media | None = None  # images, video and audio of each request; None: text alone

    def at(self, plan: Plan) -> Deployment:
        """The deployment with another plan; the same object each time, so that programs are reused."""
        return self if plan == self.plan else self._variant(plan, plan=plan)

    def on(self, basis: str) -> Deployment:
        """The deployment on another basis; the same object each time."""
        return self if basis == self.basis else self._variant(basis, basis=basis)

    def _variant(self, key: Any, **changes: Any) -> Deployment:
        variant: Deployment | None = self.memo.get(key)
        if variant is None:
            variant = self.memo[key] = replace(self, **changes)
        return variant.copies(self.replicas)

    def copies(self, replicas: int) -> Deployment:
        """The deployment with another number of replicas; both share their programs."""
        if replicas is self.replicas:
            return self
        other = replace(self, replicas=replicas)
        object.__setattr__(other, "_memo", self.memo)
        return other

    @property
    def effective_engine(self) -> Engine:
        """The engine; at the hardware limit none, so no host time."""
        return NO_ENGINE if self.basis == "ideal" else self.engine

    @property
    def tokens_per_step(self) -> Real:
        """Mean tokens that a sequence gains per decode step [tokens]."""
        return 1.0 if self.draft is None else self.draft.acceptance.tokens

    @property
    def queries(self) -> Real:
        """Tokens per sequence that a decode step computes: the next one, and the draft tokens after it [tokens]."""
        return 1.0 if self.draft is None else self.draft.tokens + 1.0

    @property
    def drafting(self) -> Deployment | None:
        """The draft model on the same GPUs and engine, as one pipeline stage; None without a draft model."""
        draft = self.draft
        if draft is None or draft.model is None or draft.quantization is None:
            return None
        plan = Plan(self.plan.tp, 1, self.plan.ep if draft.model.is_moe else 1, self.plan.dp)
        return replace(self, model=draft.model, quantization=draft.quantization, plan=plan, draft=None, media=None)

    @property
    def num_gpus(self) -> int:
        return self.plan.num_gpus * self.replicas
