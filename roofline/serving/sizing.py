"""Valid parallel plans, the smallest that fits, and suggestions where none does."""

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
from roofline.serving.quantization import resolved_quantization
from roofline.specs.layers import MoeFfn
from roofline.specs.model import Model

#: Longest context that is searched [tokens].
LONGEST = BILLION

#: GPUs of all replicas at most; more must be a typing error.
MOST_GPUS = 1_000_000
_MOST_RANKS = 512  # wider tensor parallelism is not suggested
_MOST_STAGES = 16  # pipelines are not made longer than this to make a model fit


def possible_tp(model: Model, most: int) -> list[int]:
    """Tensor-parallel degrees that divide a model, up to `most`, in ascending order."""
    return [tp for tp in range(1, most + 1) if _tp_fault(model, tp) is None]


def check_count(name: str, count: object) -> None:
    """Refuse a number of GPUs that is not an integer from 1 to `MOST_GPUS`."""
    if not isinstance(count, int) or isinstance(count, bool):
        raise BadInput(f"{name} = {shown(count)} must be a whole number")
    if not 1 <= count <= MOST_GPUS:
        raise BadInput(f"{name} = {shown(count)} must be between 1 and {MOST_GPUS}")


def check_degrees(model: Model, plan: Plan) -> None:
    """Refuse invalid degrees, and more pipeline stages than layers."""
    for name in ("tp", "pp", "ep", "dp"):
        check_count(name, getattr(plan, name))
    check_count("tp x pp x dp", plan.num_gpus)
    if plan.pp > model.layers:
        raise BadInput(f"pp = {plan.pp} must not exceed the {model.layers} layers of {model.short_name}")


def check_plan(model: Model, plan: Plan) -> None:
    """Refuse a plan that does not divide the model."""
    check_degrees(model, plan)
    fault = _tp_fault(model, plan.tp)
    if fault is not None:
        choices = ", ".join(str(tp) for tp in possible_tp(model, _most_ranks(model)))
        raise BadInput(f"tp = {plan.tp} does not divide {model.short_name} ({fault}); choose from {choices}")
    fault = _expert_fault(model, plan)
    if fault is not None:
        raise BadInput(fault)


def plan_fault(model: Model, plan: Plan) -> str | None:
    """Why a plan does not divide a model; None if it does."""
    return _tp_fault(model, plan.tp) or _expert_fault(model, plan)


def smallest_tp(deployment: Deployment, batch: Real, length: Real) -> int | None:
    """Smallest tensor-parallel degree in a node at which a batch of `length` tokens each fits; None if none does."""
    for candidate in _candidates(deployment):
        if memory(candidate, batch, length).fits:
            return candidate.plan.tp
    return None


def _candidates(deployment: Deployment) -> Iterator[Deployment]:
    """The deployment at each tensor-parallel degree in a node that divides the model."""
    for tp in range(1, widest_tp(deployment) + 1):
        plan = deployment.plan
        candidate = deployment if tp == plan.tp else deployment.at(replace(plan, tp=tp))
        if plan_fault not in candidate.memo:
            candidate.memo[plan_fault] = plan_fault(candidate.model, candidate.plan)
        if candidate.memo[plan_fault] is None:
            yield candidate


def widest_tp(deployment: Deployment) -> int:
    """Largest tensor-parallel degree within a node; pipeline stages may lie in other nodes."""
    return max(deployment.gpu.node // deployment.plan.dp, 1)


def longest_context(deployment: Deployment, batch: Real) -> Real:
    """Longest sequences at which a batch fits, at most `LONGEST` [tokens]; 0 if none."""
    return largest_that_holds(lambda length: memory(deployment, batch, length).fits, LONGEST + 0.0 * batch)


def does_not_fit(deployment: Deployment, batch: Real, length: Real) -> DoesNotFit:
    """The error, with the shortfall and what would fit."""
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
            remedies.append(f"--quantization {preset} at tp = {fewer}")
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
    plan, model = deployment.plan, deployment.model
    degrees = [tp for tp in possible_tp(model, deployment.gpu.node) if not plan_fault(model, replace(plan, tp=tp))]
    for pp in range(plan.pp + 1, min(model.layers, _MOST_STAGES) + 1):
        candidate = replace(deployment, plan=replace(plan, tp=max(degrees, default=1), pp=pp))
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


def _expert_fault(model: Model, plan: Plan) -> str | None:
    return next((message for fails, message in expert_faults(model, plan) if fails), None)


def expert_faults(model: Model, plan: Plan) -> Iterator[tuple[Real, str]]:
    """Conditions of expert parallelism: whether a plan fails each, and the message."""
    ep, is_spread = plan.ep, plan.ep > 1
    moes = [(count, ffn) for count, ffn in model.ffns if isinstance(ffn, MoeFfn)]
    layers = sum(count for count, _ in moes)
    yield where(is_spread, layers < 1, is_spread), f"ep = {ep} needs a mixture of experts; {model.short_name} is dense"
    ranks = f"tp x dp = {plan.expert_ranks}, the ranks that hold the experts"
    yield plan.expert_ranks % ep > 0, f"ep = {ep} must divide {ranks}"
    for count, ffn in moes:
        message = f"ep = {ep} must divide the {ffn.experts} experts of {model.short_name}"
        yield _in_model(count, ffn.experts % ep > 0), message
        message = f"expert width {ffn.width} of {model.short_name} does not divide over {plan.expert_tp:g} ranks"
        yield _in_model(count, ffn.width % plan.expert_tp > 0), f"{message}; use --ep to keep experts whole"
