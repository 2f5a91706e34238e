"""How a model is laid out on GPUs, and everything else that decides what one pass costs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from roofline.ops import Real
from roofline.quantity import MEGA
from roofline.records import NamedTuple, dataclass, replace
from roofline.specs.engine import Engine
from roofline.specs.gpu import Gpu
from roofline.specs.model import Model
from roofline.specs.speculation import Acceptance

__all__ = [
    "DEFAULT_SKEW",
    "LEAST_SKEW",
    "MOST_SKEW",
    "NO_ENGINE",
    "Deployment",
    "Draft",
    "Plan",
    "Precision",
    "Scheme",
]

#: Routing skew c of the expert choice: fitted on MoE kernels timed with power-law routing
#: (aiconfigurator-core 0.12.0 tables, 2026), 0.5-0.7 over data types; docs/method.md.
DEFAULT_SKEW = 0.66

#: Beyond them the occupancy law loses its digits.
LEAST_SKEW, MOST_SKEW = 0.01, MEGA


#: Kernels alone: no host, no network, no queue.
NO_ENGINE = Engine("none")


@dataclass(frozen=True, slots=True)
class Plan:
    """Parallel degrees of one replica.

    Attention is sharded by tp, experts over tp x dp ranks of which ep hold different experts;
    layers are split over pp stages.
    """

    tp: int = 1
    pp: int = 1
    ep: int = 1
    dp: int = 1

    @property
    def num_gpus(self) -> int:
        """GPUs of one replica."""
        return self.tp * self.pp * self.dp

    @property
    def expert_ranks(self) -> int:
        """Ranks over which the experts of a layer are spread."""
        return self.tp * self.dp

    @property
    def expert_tp(self) -> Real:
        """Ranks that share one expert: a whole number where ep divides tp x dp, as it must."""
        return self.tp * self.dp / self.ep


class Scheme(NamedTuple):
    """How the matrices of one section of a model are stored and multiplied."""

    format: str  # number format of the weights
    weight_nbytes: float  # [B] per weight, scales included
    activation_nbytes: float  # [B] per activation read by the multiplication
    peak: str  # dtype of the tensor cores that multiply
    key: str  # dtype key of the calibration
    dynamic: bool = False  # activations are quantised in a pass of their own


class Precision(NamedTuple):
    """Schemes of the sections of a model, and the format of its KV cache."""

    sections: Mapping[str, Scheme]  # linear experts embed head router norm
    kv_format: str
    kv_nbytes: float  # [B] per cached value
    kv_key: str  # dtype key of the attention calibration
    attention_peak: str  # dtype at which attention multiplies
    sixteen_bit_peak: str  # 16-bit dtype of everything that is not quantised
    notes: tuple[str, ...] = ()  # what was set or replaced, to be said in the result


@dataclass(frozen=True, slots=True)
class Draft:
    """What proposes tokens before each decode step, which the step then verifies (speculative decoding)."""

    method: str  # mtp, eagle, ngram, or model for a model of its own
    acceptance: Acceptance
    model: Model | None = None  # what proposes: a module of one layer, or a model; None: a search in the text so far
    precision: Precision | None = None  # of it
    joined: int = 0  # widths of the model that a module joins into its input

    @property
    def tokens(self) -> int:
        """Tokens that are proposed before a step [tokens]."""
        return self.acceptance.drafts

    @property
    def is_module(self) -> bool:
        """Whether it shares the model's embedding and head."""
        return self.joined > 0


class _Remembering:
    """What keeps what was computed of it; copies and changed ones begin with nothing."""

    __slots__ = ("_memo",)
    _memo: dict[Any, Any]

    @property
    def memo(self) -> dict[Any, Any]:
        """Programs of its figures, and whatever else holds for all of its cases."""
        try:
            found = self._memo
        except AttributeError:
            found = {}
            object.__setattr__(self, "_memo", found)
        return found


@dataclass(frozen=True, slots=True)
class Deployment(_Remembering):
    """A model on GPUs under a plan, a precision and a basis."""

    model: Model
    gpu: Gpu
    plan: Plan
    precision: Precision
    basis: str = "calibrated"  # ideal, calibrated, inherited or generic
    skew: Real | None = DEFAULT_SKEW  # c of the expert choice; None: uniform routing
    replicas: int = 1
    engine: Engine = NO_ENGINE
    draft: Draft | None = None  # None: a token a step
    prefix_cache: Real = 0.0  # [B] of the memory of one replica, kept for cached prefixes

    def at(self, plan: Plan) -> Deployment:
        """The same with another plan.

        Args:
            plan: parallel degrees.

        Returns:
            The deployment; the same programs each time.
        """
        return self if plan == self.plan else self._known(plan, plan=plan)

    def on(self, basis: str) -> Deployment:
        """The same on another basis.

        Args:
            basis: ideal, calibrated, inherited or generic [text].

        Returns:
            The deployment; the same programs each time.
        """
        return self if basis == self.basis else self._known(basis, basis=basis)

    def _known(self, key: Any, **changes: Any) -> Deployment:
        known: Deployment | None = self.memo.get(key)
        if known is None:
            known = self.memo[key] = replace(self, **changes)
        return known.copies(self.replicas)

    def copies(self, replicas: int) -> Deployment:
        """The same model on the same GPUs, another number of times.

        Args:
            replicas: how often [1].

        Returns:
            The deployment; programs of either serve both.
        """
        if replicas is self.replicas:
            return self
        found = replace(self, replicas=replicas)
        object.__setattr__(found, "_memo", self.memo)
        return found

    @property
    def host(self) -> Engine:
        """Engine whose host time counts: none at light speed."""
        return NO_ENGINE if self.basis == "ideal" else self.engine

    @property
    def tokens_per_step(self) -> Real:
        """Tokens that a sequence gains in a decode step, on average [tokens]."""
        return 1.0 if self.draft is None else self.draft.acceptance.tokens

    @property
    def queries(self) -> Real:
        """Tokens that a decode step computes of each sequence: the next one, and those proposed after it [tokens]."""
        return 1.0 if self.draft is None else self.draft.tokens + 1.0

    @property
    def drafting(self) -> Deployment | None:
        """What proposes, on the same GPUs: one pipeline stage, without an engine; None where nothing is computed."""
        draft = self.draft
        if draft is None or draft.model is None or draft.precision is None:
            return None
        plan = Plan(self.plan.tp, 1, self.plan.ep if draft.model.is_moe else 1, self.plan.dp)
        return replace(self, model=draft.model, precision=draft.precision, plan=plan, engine=NO_ENGINE, draft=None)

    @property
    def num_gpus(self) -> int:
        """GPUs of all replicas."""
        return self.plan.num_gpus * self.replicas
