"""Which plans are possible, and the smallest that fits."""

from __future__ import annotations

from collections.abc import Iterator

from roofline.errors import BadInput, DoesNotFit, UnsupportedPrecision, shown
from roofline.ops import Real, where
from roofline.physics.layers.kinds import MIXER_KINDS, NETWORK_KINDS
from roofline.physics.memory import largest_batch, memory
from roofline.physics.plan import Deployment, Plan
from roofline.quantity import BILLION, GIGA
from roofline.records import replace
from roofline.roots import largest_that_holds
from roofline.serving.precision import precision
from roofline.specs.layers import MoeFfn
from roofline.specs.model import Model

__all__ = [
    "LONGEST",
    "MOST_GPUS",
    "check_count",
    "check_degrees",
    "check_plan",
    "does_not_fit",
    "expert_faults",
    "longest_context",
    "plan_fault",
    "possible_tp",
    "smallest_tp",
    "tp_faults",
    "widest_tp",
]

#: Contexts beyond this many tokens are not searched.
LONGEST = BILLION

#: GPUs of all replicas at most; more are a slip.
MOST_GPUS = 1_000_000
_MOST_RANKS = 512  # wider tensor parallelism is not suggested
_MOST_STAGES = 16  # pipelines are not made longer than this to make a model fit


def possible_tp(model: Model, most: int) -> list[int]:
    """Tensor-parallel degrees that divide a model, smallest first.

    Args:
        model: the model.
        most: largest degree to consider [1].

    Returns:
        Degrees [1].
    """
    return [tp for tp in range(1, most + 1) if _fault(model, tp) is None]


def check_count(name: str, count: object) -> None:
    """Refuse what is no number of GPUs.

    Args:
        name: what it counts, for the message [text].
        count: the number [1].

    Raises:
        BadInput: not a whole number from 1 to a million.
    """
    if not isinstance(count, int) or isinstance(count, bool):
        raise BadInput(f"{name} = {shown(count)} must be a whole number")
    if not 1 <= count <= MOST_GPUS:
        raise BadInput(f"{name} = {shown(count)} must be between 1 and {MOST_GPUS}")


def check_degrees(model: Model, plan: Plan) -> None:
    """Refuse degrees that are no numbers of GPUs, or more stages than layers.

    Args:
        model: the model.
        plan: parallel degrees.

    Raises:
        BadInput: with what is possible.
    """
    for name in ("tp", "pp", "ep", "dp"):
        check_count(name, getattr(plan, name))
    check_count("tp x pp x dp", plan.num_gpus)
    if plan.pp > model.layers:
        raise BadInput(f"pp = {plan.pp} must not exceed the {model.layers} layers of {model.short_name}")


def check_plan(model: Model, plan: Plan) -> None:
    """Refuse a plan that does not divide the model.

    Args:
        model: the model.
        plan: parallel degrees.

    Raises:
        BadInput: with the degrees that would.
    """
    check_degrees(model, plan)
    fault = _fault(model, plan.tp)
    if fault is not None:
        choices = ", ".join(str(tp) for tp in possible_tp(model, _most_ranks(model)))
        raise BadInput(f"tp = {plan.tp} does not divide {model.short_name} ({fault}); choose from {choices}")
    fault = _fault_experts(model, plan)
    if fault is not None:
        raise BadInput(fault)


def plan_fault(model: Model, plan: Plan) -> str | None:
    """Why a model cannot be laid out as a plan says.

    Args:
        model: the model.
        plan: parallel degrees.

    Returns:
        The reason, or None where it can be [text].
    """
    return _fault(model, plan.tp) or _fault_experts(model, plan)


def smallest_tp(deployment: Deployment, batch: Real, length: Real) -> int | None:
    """Smallest tensor-parallel degree within the scale-up domain at which a batch fits.

    Args:
        deployment: model, GPU, precision and a plan whose other degrees hold.
        batch: sequences of the replica [sequences].
        length: tokens that each reaches [tokens].

    Returns:
        The degree, or None where none fits [1].
    """
    for candidate in _candidates(deployment):
        if memory(candidate, batch, length).fits:
            return candidate.plan.tp
    return None


def _candidates(deployment: Deployment) -> Iterator[Deployment]:
    """The deployment at each tensor-parallel degree of its scale-up domain that divides the model."""
    for tp in range(1, widest_tp(deployment) + 1):
        plan = deployment.plan
        candidate = deployment if tp == plan.tp else deployment.at(replace(plan, tp=tp))
        if plan_fault not in candidate.memo:
            candidate.memo[plan_fault] = plan_fault(candidate.model, candidate.plan)
        if candidate.memo[plan_fault] is None:
            yield candidate


def widest_tp(deployment: Deployment) -> int:
    """Ranks that tensor parallelism may take within a node; stages may lie in other nodes.

    Args:
        deployment: GPU and plan.

    Returns:
        The degree [1].
    """
    return max(deployment.gpu.node // deployment.plan.dp, 1)


def longest_context(deployment: Deployment, batch: Real) -> Real:
    """Longest sequences, prompt and answer, of which a batch fits.

    Args:
        deployment: model, GPU, plan and precision.
        batch: sequences of the replica [sequences].

    Returns:
        Whole tokens, zero where not even one fits; not more than `LONGEST` [tokens].
    """
    return largest_that_holds(lambda length: memory(deployment, batch, length).fits, LONGEST + 0.0 * batch)


def does_not_fit(deployment: Deployment, batch: Real, length: Real) -> DoesNotFit:
    """Error that names the shortfall and what would fit.

    Args:
        deployment: model, GPU, plan and precision.
        batch: sequences of the replica [sequences].
        length: tokens that each reaches [tokens].

    Returns:
        The error, to be raised.
    """
    need, plan = memory(deployment, batch, length), deployment.plan
    model, gpu = deployment.model, deployment.gpu
    cached = f" + cached prefixes {need.prefixes / GIGA:.1f} GB" if deployment.prefix_cache else ""
    return DoesNotFit(
        f"{model.short_name} does not fit {gpu.name} at tp {plan.tp}, pp {plan.pp}, "
        f"batch {batch:g}, {length:g} tokens: "
        f"weights {need.weights / GIGA:.1f} GB + KV cache {need.kv_cache / GIGA:.1f} GB + activations "
        f"{need.activations / GIGA:.1f} GB + reserve {need.reserve / GIGA:.1f} GB{cached} exceed the usable "
        f"{need.usable / GIGA:.1f} GB per GPU by {(need.used - need.usable) / GIGA:.1f} GB; "
        f"try {', or '.join(_remedies(deployment, batch, length))}"
    )


def _remedies(deployment: Deployment, batch: Real, length: Real) -> list[str]:
    """Nearest cases that do fit: a larger tp, a smaller batch, fewer bits, more stages."""
    found = []
    tp = smallest_tp(deployment, batch, length)
    if tp is not None:
        found.append(f"tp = {tp}")
    most = int(largest_batch(deployment, length))
    if 0 < most < batch:
        found.append(f"batch = {most}")
    if not found and memory(deployment, batch, 1.0).fits:
        found.append(f"isl + osl = {int(longest_context(deployment, batch))}")
    for preset in ("fp8", "int4"):
        quantised = _quantised(deployment, preset)
        fewer = None if quantised is None else smallest_tp(quantised, batch, length)
        if fewer is not None and (tp is None or fewer < tp):
            found.append(f"--quantization {preset} at tp = {fewer}")
            break
    if tp is None:
        found += _more_stages(deployment, batch, length)
    return found or ["a smaller model, or a GPU with more memory"]


def _quantised(deployment: Deployment, preset: str) -> Deployment | None:
    """The deployment with fewer bits per weight, where its GPU runs them and they are fewer."""
    section = "experts" if deployment.model.is_moe else "linear"
    try:
        chosen = precision(deployment.model, deployment.gpu, preset)
    except UnsupportedPrecision:
        return None
    fewer = chosen.sections[section].weight_nbytes < deployment.precision.sections[section].weight_nbytes
    return replace(deployment, precision=chosen) if fewer else None


def _more_stages(deployment: Deployment, batch: Real, length: Real) -> list[str]:
    """Fewest pipeline stages that fit, each at the widest tp of a node."""
    plan, model = deployment.plan, deployment.model
    degrees = [tp for tp in possible_tp(model, deployment.gpu.node) if not plan_fault(model, replace(plan, tp=tp))]
    for pp in range(plan.pp + 1, min(model.layers, _MOST_STAGES) + 1):
        candidate = replace(deployment, plan=replace(plan, tp=max(degrees, default=1), pp=pp))
        if memory(candidate, batch, length).fits:
            return [f"tp = {candidate.plan.tp}, pp = {pp}"]
    return []


def _fault(model: Model, tp: int) -> str | None:
    """Why a tensor-parallel degree does not divide a model, or None."""
    return next((said for fails, said in tp_faults(model, tp) if fails), None)


def tp_faults(model: Model, tp: Real) -> Iterator[tuple[Real, str]]:
    """What a tensor-parallel degree must divide.

    Args:
        model: the model.
        tp: tensor-parallel degree [1].

    Returns:
        Whether it does not, and what [condition, text].
    """
    for count, mixer in model.mixers:
        for dealt in MIXER_KINDS[type(mixer)].matrices.dealt(mixer, model.hidden):
            number, fails = dealt.number, dealt.number % tp > 0
            if not dealt.is_replicated:
                yield _is_there(count, fails), f"{number} {dealt.of}"
                continue
            fails = where(fails, tp % number > 0, fails)
            yield _is_there(count, fails), f"{number} {dealt.of} can be neither split nor replicated"
    for count, ffn in model.ffns:
        for dealt in NETWORK_KINDS[type(ffn)].matrices.dealt(ffn, model.hidden):
            yield _is_there(count, dealt.number % tp > 0), f"{dealt.of} {dealt.number}"


def _is_there(count: Real, fails: Real) -> Real:
    """A condition on a layer, of which a model may have none."""
    return where(count > 0, fails, count < 0)


def _most_ranks(model: Model) -> int:
    """Largest tensor-parallel degree that can be possible."""
    numbers = [
        dealt.number
        for _, mixer in model.mixers
        for dealt in MIXER_KINDS[type(mixer)].matrices.dealt(mixer, model.hidden)
        if not dealt.is_replicated
    ]
    return min(min(numbers, default=1), _MOST_RANKS)


def _fault_experts(model: Model, plan: Plan) -> str | None:
    """Why the experts cannot be spread as a plan says, or None."""
    return next((said for fails, said in expert_faults(model, plan) if fails), None)


def expert_faults(model: Model, plan: Plan) -> Iterator[tuple[Real, str]]:
    """What spreading the experts asks of a plan.

    Args:
        model: the model.
        plan: parallel degrees.

    Returns:
        Whether it fails, and why [condition, text].
    """
    ep, several = plan.ep, plan.ep > 1
    moes = [(count, ffn) for count, ffn in model.ffns if isinstance(ffn, MoeFfn)]
    layers = sum(count for count, _ in moes)
    yield where(several, layers < 1, several), f"ep = {ep} needs a mixture of experts; {model.short_name} is dense"
    ranks = f"tp x dp = {plan.expert_ranks}, the ranks that hold the experts"
    yield plan.expert_ranks % ep > 0, f"ep = {ep} must divide {ranks}"
    for count, ffn in moes:
        said = f"ep = {ep} must divide the {ffn.experts} experts of {model.short_name}"
        yield _is_there(count, ffn.experts % ep > 0), said
        said = f"expert width {ffn.width} of {model.short_name} does not divide over {plan.expert_tp:g} ranks"
        yield _is_there(count, ffn.width % plan.expert_tp > 0), f"{said}; use --ep to keep experts whole"
