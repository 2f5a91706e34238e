"""Batches and plans: the knees at which decode stops being cheap, and the smallest plan that fits."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from functools import cache
from typing import TYPE_CHECKING, Generic

from roofline.numbers.operations import (
    Json,
    Number,
    Real,
    Word,
    all_of,
    comparable,
    floor,
    maximum,
    minimum,
    negated,
    span_text,
    where,
)
from roofline.numbers.quantity import BILLION, GIGA
from roofline.numbers.roots import crossing, largest_that_holds
from roofline.physics.layers.kinds import MIXER_KINDS, NETWORK_KINDS
from roofline.physics.memory import largest_batch, memory
from roofline.physics.passes import Pass, decode_pass
from roofline.physics.plan import Deployment, Plan
from roofline.physics.programs import figures_of
from roofline.serving.answers import data_frame, html_of, picture_of, rows_of_cases
from roofline.serving.quantization import resolved_quantization
from roofline.specs.gpu import ADAPTERS
from roofline.specs.load import Load
from roofline.specs.model import Model, MoeFfn
from roofline.support.errors import BadInput, DoesNotFit, UnsupportedPrecision, shown
from roofline.support.records import NamedTuple, replace

if TYPE_CHECKING:
    from roofline.numbers.arrays import DataFrame
    from roofline.serving.latency import Served, Workload

# The batch at which decode stops being cheap: four knees, each with its formula.

#: Largest batch that is searched; knees beyond it are infinite.
LARGEST_BATCH = 2.0**20


@comparable
class Knees(NamedTuple, Generic[Number, Word]):
    """The four knees of decode.

    >>> import roofline as rl
    >>> rl.knee("llama-3.1-8b", "h100-sxm", basis="ideal").smallest[1]
    'half'
    >>> rl.knee("llama-3.1-8b", "h100-sxm", basis="ideal").to_dict(["memory_knee", "knee_bound"])
    {'memory_knee': 406, 'knee_bound': 'half'}
    """

    ridge: Number | float | None  # weight-bearing kernels turn compute-bound [sequences]
    half: Number | float | None  # throughput reaches half of its asymptote [sequences]
    memory: Number | float | None  # largest batch that fits [sequences]
    slo: Number | float | None  # largest batch that meets the SLO [sequences]

    def __repr__(self) -> str:
        known = {name: knee for name, knee in self._asdict().items() if knee is not None}
        listed = ", ".join(f"{name} {span_text(knee)}" for name, knee in known.items())
        smallest = self.smallest[1] if known else "none: the batch follows from the request rate"
        return (
            f"<Knees {listed}; smallest: {smallest}>"
            if isinstance(smallest, str) and listed
            else f"<Knees {listed or smallest}>"
        )

    @property
    def smallest(self) -> tuple[Number | float | None, Word | str | None]:
        """The binding knee [sequences] and its name; None for both where there is no knee."""
        if self.memory is None:
            return None, None
        value: Real = self.memory
        name: Real = "memory"
        for label, candidate in (("slo", self.slo), ("half", self.half), ("ridge", self.ridge)):
            if candidate is not None:
                smaller = candidate < value
                value, name = where(smaller, candidate, value), where(smaller, label, name)
        return value, name

    def to_dict(self, keys: Iterable[str] | None = None) -> dict[str, Json]:
        """Flat row of the knees, with the keys that a prediction has for them; lists for arrays.

        Args:
            keys: the keys to keep; None for all.
        """
        from roofline.serving.shown import knee_row

        return knee_row(self, keys)

    def to_rows(self, keys: Iterable[str] | None = None) -> list[dict[str, Json]]:
        """Flat rows, one for each case.

        Args:
            keys: the keys to keep; None for all.
        """
        shape = getattr(self.smallest[0], "shape", ())
        return rows_of_cases(self.to_dict(keys), shape) if shape else [self.to_dict(keys)]

    def to_pandas(self, keys: Iterable[str] | None = None) -> DataFrame:
        """The rows as a data frame, a column for each key.

        Args:
            keys: the keys to keep; None for all.
        """
        return data_frame(self.to_rows(keys))

    def plot(self) -> object:
        """Refused: knees have no picture."""
        return picture_of(self)

    def _repr_html_(self) -> str | None:
        return html_of(self)


def knees(
    deployment: Deployment,
    isl: Real,
    osl: Real,
    meets: Callable[[Real], Real] | None = None,
    most: Real | None = None,
) -> Knees:
    """The four knees; `meets` says whether a batch, or users up to `most`, meet the SLO, None without one."""
    ridge, half, fits = figures_of(_knees, deployment, isl, osl)
    return Knees(ridge, half, fits, None if meets is None else slo_knee(meets, fits if most is None else most))


def _knees(deployment: Deployment, isl: Real, osl: Real) -> tuple[Real, ...]:
    return knees_of_steps(deployment, isl, osl, affine=is_affine(deployment))


def knees_of_steps(deployment: Deployment, isl: Real, osl: Real, *, affine: bool) -> tuple[Real, ...]:
    """The knees that follow from the time of steps and from memory: ridge, half, memory [sequences]."""
    steps = maximum(osl - 1.0, 1.0)

    def step(batch: Real) -> Pass:
        return decode_pass(deployment, batch, isl, steps)

    if type(isl) is type(osl) is float:
        step = cache(step)  # both knees ask for a step without sequences
    ridge = ridge_knee(step, affine=affine)
    return ridge, half_knee(step), largest_batch(deployment, isl + osl)


def is_affine(deployment: Deployment) -> bool:
    """Whether the work of weight-bearing kernels grows linearly with the batch."""
    return not deployment.model.is_moe and deployment.plan.dp == 1


def ridge_knee(step: Callable[[Real], Pass], affine: bool) -> Real:
    r"""Batch where the weight-bearing kernels of a decode step turn from memory- to compute-bound.

    .. math:: \sum C(b) = \sum M(b), \quad b = \frac{M_0}{C_1 - M_1} \text{ where } C = C_1 b,\ M = M_0 + M_1 b

    C is the time of arithmetic alone, M that of HBM traffic alone, of GEMMs and experts. The whole pass often never
    turns compute-bound, as KV traffic grows as fast as the arithmetic.

    Args:
        step: decode pass of a batch.
        affine: whether work grows linearly with the batch [bool].

    Returns:
        Batch [sequences]; infinite if they stay memory-bound up to `LARGEST_BATCH`.

    Valid:
        Affine without experts and with dp = 1. Neglects t0, kappa d and, except at the hardware limit, Q_s.

    Source:
        Ridge point of Williams et al., CACM 52(4), 2009, solved for the batch.
    """
    if affine:
        _, memory_0 = weight_sides(step(0.0))
        compute_1, memory_1 = weight_sides(step(1.0))
        gain = compute_1 - (memory_1 - memory_0)
        return where(gain > 0.0, memory_0 / where(gain > 0.0, gain, 1.0), float("inf"))
    return crossing(ridge_surplus(step), LARGEST_BATCH)


def ridge_surplus(step: Callable[[Real], Pass]) -> Callable[[Real], Real]:
    """HBM time less arithmetic time of the weight-bearing kernels [s], by batch; zero at the ridge."""

    def surplus(batch: Real) -> Real:
        compute, memory = weight_sides(step(batch))
        return memory - compute

    return surplus


def half_knee(step: Callable[[Real], Pass]) -> Real:
    r"""Batch at which decode throughput reaches half of its asymptote.

    .. math:: D(b) = 2 b D_1,\quad D_1 = \lim_{b \to \infty} D(b) / b;\qquad
              b = D_0 / D_1 \text{ where } D = D_0 + D_1 b

    Args:
        step: decode pass of a batch.

    Returns:
        Batch [sequences].

    Valid:
        The slope is taken at 2^40 sequences, where D_0 is negligible.

    Source:
        Half-performance length n_1/2 of Hockney and Jesshope, "Parallel Computers", 1981.
    """
    return crossing(half_surplus(step, asymptotic_time(step)), LARGEST_BATCH)


def asymptotic_time(step: Callable[[Real], Pass]) -> Real:
    """Time per additional sequence of a very large step, D_1.

    Args:
        step: decode pass of a batch.

    Returns:
        Time per sequence of a step of `LARGEST_BATCH` squared [s].

    Source:
        Its limit is the slope of `half_knee`'s asymptote.
    """
    return step(LARGEST_BATCH**2).time / LARGEST_BATCH**2


def half_surplus(step: Callable[[Real], Pass], slope: Real) -> Callable[[Real], Real]:
    """Step time less twice the asymptote's time [s], by batch; zero at half the asymptotic throughput."""
    return lambda batch: step(batch).time - 2.0 * batch * slope


def slo_knee(meets: Callable[[Real], Real], fits: Real) -> Real:
    """Largest whole batch that meets the SLO and fits; a batch beyond one that misses it must miss it too."""
    return largest_that_holds(meets, minimum(fits, LARGEST_BATCH))


def weight_sides(decode: Pass) -> tuple[Real, Real]:
    """Compute and memory time of the weight-bearing kernels of a decode step: both sides of the norm.

    Args:
        decode: the step.

    Returns:
        Time of arithmetic alone, and that of overlapped HBM traffic alone [s].

    Source:
        Roofline of the GEMMs and experts; docs/method.md, "Knees".
    """
    compute, memory = decode.figures(_sides)
    return compute, memory


def _sides(decode: Pass) -> tuple[Real, ...]:
    compute: Real = 0.0
    memory: Real = 0.0
    for kernel in decode.kernels:
        if kernel.kind.bears_weights and kernel.part != ADAPTERS:
            compute = compute + kernel.count * kernel.terms.compute
            memory = memory + kernel.count * kernel.terms.overlapped
    return compute, memory


def held_at_once(deployment: Deployment, workload: Workload, under_load: Served | None) -> tuple[Real, Real]:
    """Sequences of a replica that are in memory together, and the tokens of each."""
    if under_load is None:
        return workload.batch, workload.isl + workload.osl
    return under_load.batch, workload.isl + deployment.engine.reserve * workload.osl


# Valid parallel plans, the smallest that fits, and suggestions where none does.

#: Longest context that is searched [tokens].
LONGEST = BILLION
_ROUNDING = 2.0**-10  # [tokens] that a longest context is off at most before it is rounded down

#: GPUs of all replicas at most; more must be a typing error.
MOST_GPUS = 1_000_000
_MOST_RANKS = 512  # wider tensor parallelism is not suggested
_MOST_STAGES = 16  # pipelines are not made longer than this to make a model fit


def possible_tp(model: Model, most: int) -> list[int]:
    """Tensor-parallel degrees that divide a model, up to `most`, in ascending order."""
    whole = math.gcd(*split_numbers(model))  # 0 where ranks may replicate everything
    degrees = range(1, min(most, whole or most) + 1)
    return [tp for tp in degrees if whole % tp == 0 and _tp_fault(model, tp) is None]


def split_numbers(model: Model) -> list[int]:
    """Numbers that tensor parallelism divides and cannot replicate."""
    splits = [
        *(MIXER_KINDS[type(mixer)].matrices.sharded_widths(mixer, model.hidden) for n, mixer in model.mixers if n),
        *(NETWORK_KINDS[type(ffn)].matrices.sharded_widths(ffn, model.hidden) for n, ffn in model.ffns if n),
    ]
    return [int(split.number) for several in splits for split in several if not split.is_replicated]


def check_count(name: str, count: object) -> None:
    """Refuse a number of GPUs that is not an integer from 1 to `MOST_GPUS`."""
    if not isinstance(count, int) or isinstance(count, bool):
        raise BadInput(f"{name} = {shown(count)} must be a whole number")
    if not 1 <= count <= MOST_GPUS:
        raise BadInput(f"{name} = {shown(count)} must be between 1 and {MOST_GPUS}")


def check_degrees(model: Model, plan: Plan) -> None:
    """Refuse invalid degrees, and more pipeline stages than layers."""
    for name in ("tp", "pp", "ep", "dp", "cp", "dcp"):
        check_count(name, getattr(plan, name))
    check_count("tp x pp x dp", plan.num_gpus)
    if plan.pp > model.layers:
        raise BadInput(f"pp = {plan.pp} must not exceed the {model.layers} layers of {model.short_name}")


def check_plan(model: Model, plan: Plan, redundant: float | None = None) -> None:
    """Refuse a plan that does not divide the model, of whose experts there may be copies."""
    check_degrees(model, plan)
    fault = _tp_fault(model, plan.tp)
    if fault is not None:
        choices = ", ".join(str(tp) for tp in possible_tp(model, _most_ranks(model)))
        raise BadInput(f"tp = {plan.tp} does not divide {model.short_name} ({fault}); choose from {choices}")
    fault = _expert_fault(model, plan, redundant) or _context_fault(model, plan)
    if fault is not None:
        raise BadInput(fault)


def plan_fault(model: Model, plan: Plan, redundant: float | None = None) -> str | None:
    """Why a plan does not divide a model, of whose experts there may be copies; None if it does."""
    return _tp_fault(model, plan.tp) or _expert_fault(model, plan, redundant) or _context_fault(model, plan)


def smallest_tp(deployment: Deployment, batch: Real, length: Real) -> int | None:
    """Smallest tensor-parallel degree in a node at which a batch of `length` tokens each fits; None if none does."""
    for candidate in candidates_of(deployment):
        if memory(candidate, batch, length).fits:
            return candidate.plan.tp
    return None


class Score(NamedTuple):
    """How well a plan serves a case."""

    value: Real  # the more, the better
    gain: float  # relative, that does not justify a wider plan
    is_enough: Real


_GAIN_OF_WIDER = 0.01  # relative gain in capacity that does not justify a wider plan


def score_of_load(takes: Real, load: Load) -> Score:
    """Whether a plan takes a load, given the most that it takes [requests, or 1/s]."""
    return Score(takes, _GAIN_OF_WIDER, takes > load.request_rate if load.is_open else takes >= load.at_once)


def least_enough(scored: Iterable[tuple[Real, Real, Score]], zero: Real = 0.0) -> Real:
    """The first degree that fits and is enough, else the smallest of those that serve best; 0 where none fits.

    Args:
        scored: degrees in ascending order, each with whether it fits and its score.
        zero: 0 in the shape of the cases.

    >>> least_enough([(1.0, True, Score(5.0, 0.01, False)), (2.0, True, Score(9.0, 0.01, False))])
    2.0
    """
    chosen, best, settled = zero, zero, zero > 0.0
    for degree, fits, score in scored:
        is_better = fits & ((chosen == 0.0) | (score.value > best * (1.0 + score.gain)))
        takes_it = negated(settled) & is_better
        chosen, best = where(takes_it, degree, chosen), where(takes_it, score.value, best)
        enough = negated(settled) & fits & score.is_enough
        chosen, settled = where(enough, degree, chosen), settled | enough
        if all_of(settled):
            break
    return chosen


def candidates_of(deployment: Deployment) -> Iterator[Deployment]:
    """The deployment at each tensor-parallel degree in a node that divides the model, smallest first."""
    model, plan = deployment.model, deployment.plan
    if possible_tp not in deployment.memo:
        plans = (replace(plan, tp=tp) for tp in possible_tp(model, widest_tp(deployment)))
        redundant = deployment.spread.redundant
        deployment.memo[possible_tp] = [
            each for each in plans if not (_expert_fault(model, each, redundant) or _context_fault(model, each))
        ]
    for candidate in deployment.memo[possible_tp]:
        yield deployment.at(candidate)


def widest_tp(deployment: Deployment) -> int:
    """Largest tensor-parallel degree within a node; pipeline stages may lie in other nodes."""
    return max(deployment.gpu.node // deployment.plan.dp, 1)


def longest_context(deployment: Deployment, batch: Real) -> Real:
    """Longest sequences at which a batch fits, at most `LONGEST` [tokens]; 0 if none."""

    def spare(length: Real) -> Real:
        need = memory(deployment, batch, length)
        return need.usable - need.used

    longest = floor(minimum(crossing(spare, LONGEST + 0.0 * batch), LONGEST) + _ROUNDING)
    return maximum(where(spare(longest) >= 0.0, longest, longest - 1.0), 0.0)


def does_not_fit(deployment: Deployment, batch: Real, length: Real) -> DoesNotFit:
    """The error, with the shortfall and what would fit."""
    need, plan = memory(deployment, batch, length), deployment.plan
    model, gpu = deployment.model, deployment.gpu
    cached = f" + cached prefixes {need.prefixes / GIGA:.1f} GB" if deployment.prefix_cache else ""
    cached += f" + adapters {need.adapters / GIGA:.1f} GB" if deployment.adapters is not None else ""
    return DoesNotFit(
        f"{model.short_name} does not fit {gpu.name} at tp {plan.tp}, pp {plan.pp}, "
        f"batch {batch:.12g}, {length:.12g} tokens: "
        f"weights {need.weights / GIGA:.1f} GB + KV cache {need.kv_cache / GIGA:.1f} GB + activations "
        f"{need.activations / GIGA:.1f} GB + reserve {need.reserve / GIGA:.1f} GB{cached} exceed the usable "
        f"{need.usable / GIGA:.1f} GB per GPU by {(need.used - need.usable) / GIGA:.1f} GB; "
        f"try {', or '.join(_remedies(deployment, batch, length))}"
    )


def _remedies(deployment: Deployment, batch: Real, length: Real) -> list[str]:
    """Nearest cases that fit: larger tp, smaller batch, shorter context, fewer bits, more stages."""
    remedies = []
    tp = smallest_tp(deployment, batch, length)
    if tp is not None:
        remedies.append(f"tp = {tp}")
    most = int(largest_batch(deployment, length))
    if 0 < most < batch:
        remedies.append(f"batch = {most}")
    if not remedies and memory(deployment, batch, 1.0).fits:
        remedies.append(f"isl + osl = {int(longest_context(deployment, batch))}")
    for preset in ("fp8", "int4"):
        quantised = _quantised(deployment, preset)
        fewer = None if quantised is None else smallest_tp(quantised, batch, length)
        if fewer is not None and (tp is None or fewer < tp):
            remedies.append(f"`quantization` {preset} at tp = {fewer}")
            break
    if tp is None:
        remedies += _more_stages(deployment, batch, length)
    return remedies or ["a smaller model, or a GPU with more memory"]


def _quantised(deployment: Deployment, preset: str) -> Deployment | None:
    """The deployment in a preset; None if its GPU cannot run it, or it takes no fewer bits."""
    section = "experts" if deployment.model.is_moe else "linear"
    try:
        chosen = resolved_quantization(deployment.model, deployment.gpu, preset)
    except UnsupportedPrecision:
        return None
    fewer = chosen.sections[section].weight_nbytes < deployment.quantization.sections[section].weight_nbytes
    return replace(deployment, quantization=chosen) if fewer else None


def _more_stages(deployment: Deployment, batch: Real, length: Real) -> list[str]:
    """Fewest pipeline stages that fit, at the widest tp of a node."""
    plan, model, copies = deployment.plan, deployment.model, deployment.spread.redundant
    degrees = [
        tp for tp in possible_tp(model, deployment.gpu.node) if not plan_fault(model, replace(plan, tp=tp), copies)
    ]
    gpu = deployment.gpu
    for pp in range(plan.pp + 1, min(model.layers, _MOST_STAGES) + 1):
        candidate = replace(deployment, plan=replace(plan, tp=max(degrees, default=1), pp=pp))
        if gpu.scale_out is None and candidate.plan.num_gpus > gpu.node:
            break  # without a network
        if memory(candidate, batch, length).fits:
            return [f"tp = {candidate.plan.tp}, pp = {pp}"]
    return []


def _tp_fault(model: Model, tp: int) -> str | None:
    return next((message for fails, message in tp_faults(model, tp) if fails), None)


def tp_faults(model: Model, tp: Real) -> Iterator[tuple[Real, str]]:
    """Numbers that tp must divide: whether it fails to, and the message."""
    for count, mixer in model.mixers:
        for split in MIXER_KINDS[type(mixer)].matrices.sharded_widths(mixer, model.hidden):
            number, fails = split.number, split.number % tp > 0
            if not split.is_replicated:
                yield _in_model(count, fails), f"{number} {split.of}"
                continue
            fails = where(fails, tp % number > 0, fails)
            yield _in_model(count, fails), f"{number} {split.of} can be neither split nor replicated"
    for count, ffn in model.ffns:
        for split in NETWORK_KINDS[type(ffn)].matrices.sharded_widths(ffn, model.hidden):
            yield _in_model(count, split.number % tp > 0), f"{split.of} {split.number}"


def _in_model(count: Real, fails: Real) -> Real:
    """A failure counts only if the model has such layers: their number may be an array."""
    return where(count > 0, fails, count < 0)


def _most_ranks(model: Model) -> int:
    """Largest tensor-parallel degree worth trying."""
    numbers = [
        split.number
        for _, mixer in model.mixers
        for split in MIXER_KINDS[type(mixer)].matrices.sharded_widths(mixer, model.hidden)
        if not split.is_replicated
    ]
    return min(min(numbers, default=1), _MOST_RANKS)


def _expert_fault(model: Model, plan: Plan, redundant: float | None = None) -> str | None:
    return next((message for fails, message in expert_faults(model, plan, redundant) if fails), None)


def _context_fault(model: Model, plan: Plan) -> str | None:
    if not plan.splits_context:
        return None
    from roofline.serving.contexts import context_fault

    return context_fault(model, plan)


def expert_faults(model: Model, plan: Plan, redundant: float | None = None) -> Iterator[tuple[Real, str]]:
    """Conditions of expert parallelism: whether a plan fails each, and the message.

    Copies of experts make other degrees possible: ep divides all slots.
    """
    ep, is_spread = plan.ep, plan.ep > 1
    moes = [(count, ffn) for count, ffn in model.ffns if isinstance(ffn, MoeFfn)]
    layers = sum(count for count, _ in moes)
    yield where(is_spread, layers < 1, is_spread), f"ep = {ep} needs a mixture of experts; {model.short_name} is dense"
    degrees = "tp x dp" if plan.cp == 1 else "tp x dp x cp"
    ranks = f"{degrees} = {plan.expert_ranks}, the ranks that hold the experts"
    yield plan.expert_ranks % ep > 0, f"ep = {ep} must divide {ranks}"
    for count, ffn in moes:
        message, fails = f"ep = {ep} must divide the {ffn.experts} experts of {model.short_name}", ffn.experts % ep > 0
        if redundant is not None and fails:
            fails = (ffn.experts + redundant) % ep > 0
            message += f", or with eplb = {redundant:g} the {ffn.experts + redundant:g} slots"
        yield _in_model(count, fails), message
        message = f"expert width {ffn.width} of {model.short_name} does not divide over {plan.expert_tp:g} ranks"
        yield _in_model(count, ffn.width % plan.expert_tp > 0), f"{message}; use `ep` to keep experts whole"
