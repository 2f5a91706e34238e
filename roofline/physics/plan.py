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

#: Matrices that adapters may have: every linear layer; those of attention alone; all but the routed experts'.
TARGETS = ALL_LINEAR, OF_ATTENTION, ALL_BUT_EXPERTS = "all", "attention", "dense"

#: Kernels only: no host, no network, no queue.
NO_ENGINE = Engine("none")


@dataclass(frozen=True, slots=True)
class Plan:
    """Parallel degrees of one replica: tp shards attention, tp x dp x cp ranks share the experts, pp splits the layers.

    cp splits the tokens of a prompt over ranks of their own, dcp the cached tokens of a sequence over ranks of tp.
    """

    tp: int = 1
    pp: int = 1
    ep: int = 1
    dp: int = 1
    cp: int = 1
    dcp: int = 1

    @property
    def token_ranks(self) -> int:
        """Ranks with tokens of their own: of data parallelism, and of a prompt."""
        return self.dp if self.cp == 1 else self.dp * self.cp

    @property
    def shards(self) -> int:
        """Ranks that share the cached tokens of a sequence."""
        return self.cp * self.dcp

    @property
    def sequence_gpus(self) -> int:
        """GPUs that hold the tokens of one sequence, each its part or a copy."""
        gpus = self.tp * self.pp
        return gpus if self.cp == 1 else gpus * self.cp

    @property
    def splits_context(self) -> bool:
        """Whether several ranks have tokens of one sequence."""
        return not self.cp == self.dcp == 1

    @property
    def num_gpus(self) -> int:
        return self.tp * self.pp * self.token_ranks

    @property
    def expert_ranks(self) -> int:
        return self.tp * self.token_ranks

    @property
    def expert_tp(self) -> Real:
        """Ranks that share one expert; ep divides tp x dp x cp."""
        return self.tp * self.token_ranks / self.ep


#: Exchanges of tokens with experts: every copy straight to its rank, ranks alike; once to each node, and on over its
#: links; as the last for prompts, and straight to ranks in decode steps.
DIRECT, PER_NODE, DEEPEP = "direct", "per-node", "deepep"


class Spread(NamedTuple):
    """How a replica runs the experts that its ranks share, beyond the degrees of the plan."""

    redundant: Real | None = None  # expert slots of a layer beyond its experts, all ranks; None: no load balancing
    two_batches: bool = False  # each step as two halves, one of which computes while the other exchanges tokens
    exchange: str = DIRECT
    nodes: Real | None = None  # that the experts of a token are on at most; None: no limit


#: Experts stay where they are, and a step is one batch.
PLAIN_SPREAD = Spread()


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


class Adapters(NamedTuple):
    """LoRA adapters that one replica serves together, and the slots in which its GPUs hold them."""

    number: int  # of adapters; each request asks for one of them, all alike
    rank: int
    slots: int  # that memory is set aside for
    slot_rank: int  # that each has room for, and that kernels compute
    targets: str  # which matrices have them: one of `TARGETS`


class Offload(NamedTuple):
    """Weights that stay in host memory, and how they reach the multiplication."""

    size: Real | None  # [B] per GPU; None: all that may stay there
    is_experts: bool = False  # of routed experts alone; else of every layer
    bandwidth: Real | None = None  # [B/s] from host memory to one GPU; None: the host link's
    cpu_bandwidth: Real | None = None  # [B/s] of host memory, where the CPU multiplies them in decode
    is_tables: bool = False  # tables of n-grams alone, of which the rows that are looked up cross the link


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
    basis: str = "calibrated"  # ideal, calibrated, inherited, served or generic
    routing_skew: Real | None = DEFAULT_SKEW  # c; None: uniform routing
    replicas: int = 1
    engine: Engine = NO_ENGINE
    draft: Draft | None = None  # None: one token per step
    prefix_cache: Real = 0.0  # [B] of one replica's memory, reserved for cached prefixes
    spread: Spread = PLAIN_SPREAD
    adapters: Adapters | None = None  # None: the model as it is
    offload: Offload | None = None  # None: all weights in GPU memory
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
    def passes(self) -> tuple[Real, Real] | None:
        """Factors on prefill passes and decode steps, where servers told them; none at the hardware limit."""
        return None if self.basis == "ideal" else self.gpu.passes

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
        plan = replace(self.plan, pp=1, ep=self.plan.ep if draft.model.is_moe else 1)
        if plan.dcp != 1 and not draft.is_module:  # another model, whose KV heads may be as many as the ranks
            plan = replace(plan, dcp=1)
        return replace(
            self,
            model=draft.model,
            quantization=draft.quantization,
            plan=plan,
            draft=None,
            spread=PLAIN_SPREAD,
            adapters=None,
            offload=None,
            media=None,
        )

    @property
    def num_gpus(self) -> int:
        return self.plan.num_gpus * self.replicas
