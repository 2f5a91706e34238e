"""Experts in balance: how even ranks are before and after, what moving experts costs, what two half batches gain."""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce
from typing import Any, TypeAlias

from roofline.numbers.operations import Real, figure_text, maximum, minimum, never, where
from roofline.numbers.quantity import BILLION, GIGA, MILLI, counted, to_text
from roofline.physics.equation import Work, collective_time, link_roof
from roofline.physics.layers.networks import balanced_rank, fullest_rank
from roofline.physics.memory import redundant_bytes, stage_parameters
from roofline.physics.plan import DIRECT, Deployment
from roofline.serving.latency import request_passes
from roofline.specs.gpu import ALL_TO_ALL
from roofline.specs.model import MoeFfn
from roofline.support.records import NamedTuple, replace

#: A `Prediction`, whose module is beside this one.
_Prediction: TypeAlias = Any

#: Steps after which engines move experts again, by default: vLLM's step_interval, SGLang's
#: --eplb-rebalance-num-iterations. Others count as vLLM.
INTERVALS = {"vllm": 3000.0, "sglang": 1000.0}
_DEFAULT = "vllm"


class Balance(NamedTuple):
    """How even the ranks of the experts are: tokens of the mean rank over those of the fullest [1]."""

    before: Real
    after: Real


def expert_balance(deployment: Deployment) -> Balance:
    r"""Balancedness of the ranks, as engines log it, with experts in order and with experts placed by their load.

    .. math:: \beta = 1 / \lambda,\quad \beta' = 1 / \lambda'

    Args:
        deployment: model, plan, routing skew and slots for copies; the mean over its layers with experts.

    Returns:
        Balancedness before and after [1].

    Valid:
        Of one layer; tokens summed over layers look more even, as layers have their popular experts on different ranks.

    Source:
        `fullest_rank` and `balanced_rank`; vLLM (eplb_state.py, "balancedness") and SGLang (expert_distribution.py)
        log the mean over the largest likewise.
    """
    plan, skew = deployment.plan, deployment.routing_skew
    redundant = 0.0 if deployment.spread.redundant is None else deployment.spread.redundant
    layers, before, after = 0, 0.0, 0.0
    for count, ffn in deployment.model.ffns:
        if isinstance(ffn, MoeFfn):
            layers += count
            before = before + count * maximum(fullest_rank(ffn.experts, plan.ep, skew), 1.0)
            after = after + count * balanced_rank(ffn.experts, plan.ep, skew, redundant)
    return Balance(layers / before, layers / after)


class Rearrangement(NamedTuple):
    """What it takes to move experts to where their load is even, on one rank."""

    copies: Real  # [B] that copies of experts take of the memory of a GPU
    nbytes: Real  # [B] received
    time: Real  # [s] on the links


def rearrangement(deployment: Deployment) -> Rearrangement:
    r"""Bytes and time of placing the experts of all layers anew.

    .. math:: V = (W_e + W_R) \left(1 - \min\left(\frac{E + R}{E\, ep}, 1\right)\right),\quad
              t = \sum_{layers} t_{all-to-all}(V / layers)

    Args:
        deployment: model, plan, quantization and slots for copies.

    Returns:
        Memory of the copies, bytes that a GPU receives, and their time [B, s].

    Valid:
        A new placement knows nothing of the last: a slot keeps its expert only if that is on the rank by chance. The
        time is what the links need; engines that stop for it take longer, those that move experts beside the steps
        (vLLM's use_async) hide most of it.

    Source:
        Arithmetic; vLLM (eplb/rebalance_execute.py) and SGLang (expert_location_updater.py) exchange experts between
        ranks, layer by layer.
    """
    model, plan, quantization = deployment.model, deployment.plan, deployment.quantization
    redundant = 0.0 if deployment.spread.redundant is None else deployment.spread.redundant
    nbytes = quantization.sections["experts"].weight_nbytes
    stages = model.stages(plan.pp)
    copies = [redundant_bytes(model, plan, quantization, stage, redundant) for stage in stages]
    held = [
        stage_parameters(model, stage, plan.tp, plan.expert_ranks).experts * nbytes + more
        for stage, more in zip(stages, copies, strict=True)
    ]
    sparse = [(count, ffn.experts) for count, ffn in model.ffns if isinstance(ffn, MoeFfn)]
    layers = sum(count for count, _ in sparse)
    kept = sum(count * minimum((number + redundant) / (number * plan.ep), 1.0) for count, number in sparse) / layers
    moved = reduce(maximum, held) * (1.0 - kept)
    if never(plan.ep > 1):
        return Rearrangement(0.0, 0.0, 0.0)
    stage_layers = reduce(maximum, (sum(n for n, ffn in stage.ffns if isinstance(ffn, MoeFfn)) for stage in stages))
    roof = link_roof(deployment.gpu, deployment.basis, ALL_TO_ALL, plan.ep)
    time = stage_layers * collective_time(Work(link_bytes=moved / stage_layers), roof).total
    return Rearrangement(reduce(maximum, copies), moved, time)


class Payback(NamedTuple):
    """When moving the experts pays."""

    steps: Real  # decode steps whose gain makes up for it; infinite where a step gains nothing
    seconds: Real  # the time that they take
    prefills: Real  # likewise, passes over the prompts
    lost: Real  # share of the time that it takes at the engine's interval


_NEVER = float("inf")
_LEAST_GAIN = 1.0 / BILLION  # of the time that moving experts takes, a step


def steps_until(time: Real, gain: Real) -> Real:
    """Steps whose gain [s] makes up for a time [s]; infinite where there is none.

    >>> steps_until(6.0, 2.0)
    3.0
    """
    gains = gain > _LEAST_GAIN * time  # less is the rounding of two equal steps
    return where(gains, time / where(gains, gain, 1.0), _NEVER)


def payback(prediction: _Prediction) -> Payback:
    """When moving the experts pays at the load of a prediction, and what it costs at the interval of its engine."""
    deployment = prediction.deployment
    time = rearrangement(deployment).time
    before, after = _both(prediction, replace(deployment, spread=deployment.spread._replace(redundant=None)))
    prefills = steps_until(time, before[0] - after[0])
    step = after[0] if prediction.tpot is None else after[1]
    steps = _NEVER if prediction.tpot is None else steps_until(time, before[1] - after[1])
    return Payback(steps, steps * after[1], prefills, time / (interval(deployment) * step))


def interval(deployment: Deployment) -> float:
    """Steps after which the engine moves experts again, by default."""
    return INTERVALS.get(deployment.effective_engine.family, INTERVALS[_DEFAULT])


def _both(prediction: _Prediction, other: Deployment) -> tuple[tuple[Real, Real], tuple[Real, Real]]:
    """Times of the prefill and of a decode step: of another deployment in the same state, and of its own [s]."""
    prefill, decode = request_passes(other, prediction.workload, prediction.served)
    return (prefill.time, decode.time), (prediction.prefill.time, prediction.decode.time)


class Halved(NamedTuple):
    """How much faster a pass is as two half batches than as one: less than 1 where it is slower."""

    prefill: Real
    decode: Real | None  # None for a single output token


def halved(prediction: _Prediction) -> Halved:
    """What two half batches gain in the state of a prediction."""
    deployment = prediction.deployment
    whole, now = _both(prediction, replace(deployment, spread=deployment.spread._replace(two_batches=False)))
    return Halved(whole[0] / now[0], None if prediction.tpot is None else whole[1] / now[1])


# Figures of a row, None without these options; and the same as text.


def _balanced(value: Callable[[_Prediction], Real], unit: float = 1.0) -> Callable[[Any], Any]:
    """A figure of experts in balance; None without them."""
    return lambda p: None if p.deployment.spread.redundant is None else _plain(value(p), unit)


def _divided(value: Callable[[Halved], Real | None]) -> Callable[[Any], Any]:
    """A figure of two half batches; None without them."""
    return lambda p: _plain(value(halved(p)), 1.0) if p.deployment.spread.two_batches else None


def _plain(value: Real | None, unit: float) -> Any:
    """JSON value; None for what is not finite."""
    if type(value) is int or type(value) is float:
        return value / unit if value - value == 0.0 else None
    return value if value is None or unit == 1.0 else value / unit


BALANCE_FIGURES: dict[str, Callable[[Any], Any]] = {
    "eplb": lambda p: None if p.deployment.spread.redundant is None else int(p.deployment.spread.redundant),
    "expert_balance": _balanced(lambda p: expert_balance(p.deployment).before),
    "expert_balance_after": _balanced(lambda p: expert_balance(p.deployment).after),
    "expert_copies_gb": _balanced(lambda p: rearrangement(p.deployment).copies, GIGA),
    "rearrange_gb": _balanced(lambda p: rearrangement(p.deployment).nbytes, GIGA),
    "rearrange_ms": _balanced(lambda p: rearrangement(p.deployment).time, MILLI),
    "rearrange_steps": _balanced(lambda p: payback(p).steps),
    "rearrange_prefills": _balanced(lambda p: payback(p).prefills),
    "rearrange_lost": _balanced(lambda p: payback(p).lost),
    "two_batch_prefill": _divided(lambda h: h.prefill),
    "two_batch_decode": _divided(lambda h: h.decode),
    "all_to_all": lambda p: p.deployment.spread.exchange if p.deployment.spread.exchange != DIRECT else None,
}


_PERCENT = 100.0


def balance_text(prediction: _Prediction) -> tuple[str, ...]:
    """What one case is told of its experts: balance, cost of moving them, what half batches gain, the exchange."""
    spread = prediction.deployment.spread
    parts = []
    if spread.redundant is not None:
        parts += _balance_parts(prediction, spread.redundant)
    if spread.two_batches:
        gains = halved(prediction)
        figures = {"prefill": gains.prefill, "decode": gains.decode}
        said = [_speed(name, float(gain)) for name, gain in figures.items() if gain is not None]
        parts.append(f"two half batches: {', '.join(said)}")
    if spread.exchange != DIRECT:
        limit = "" if spread.nodes is None else f", {counted(int(spread.nodes), 'node')} of a token at most"
        parts.append(f"all-to-all {spread.exchange}{limit}")
    return (parts[0], "".join(f"\n{part}" for part in parts[1:])) if parts else ()


def _balance_parts(prediction: _Prediction, redundant: Real) -> list[str]:
    deployment = prediction.deployment
    balance, moved = expert_balance(deployment), rearrangement(deployment)
    even = f"balance {float(balance.before):.2f} before, {float(balance.after):.2f} after (mean over fullest rank)"
    copies = f"; {counted(int(redundant), 'slot')} for copies, {figure_text(moved.copies / GIGA)} GB a GPU"
    first = even + (copies if redundant else "; no slots for copies")
    if not moved.nbytes:
        return [first]
    pays = payback(prediction)
    nbytes, time = figure_text(moved.nbytes / GIGA), to_text(float(moved.time), "s")
    cost = f"moving experts: {nbytes} GB per rank, {time} on the links"
    if pays.steps < _NEVER:
        many = counted(figure_text(maximum(pays.steps, 1.0)), "decode step")
        gain = f"pays after {many} ({to_text(float(pays.seconds), 's')})"
    elif pays.prefills < _NEVER:
        many = figure_text(maximum(pays.prefills, 1.0))
        gain = f"pays after {counted(many, 'prefill pass', 'prefill passes')}, no decode step gains"
    else:
        gain = "never pays at this load"
    family = deployment.effective_engine.family
    whose = {"vllm": "vLLM", "sglang": "SGLang"}.get(family, "vLLM")
    often = f"every {interval(deployment):,.0f} steps ({whose}) it costs {_PERCENT * float(pays.lost):.2g} %"
    return [first, f"{cost}; {gain}; {often}"]


def _speed(name: str, gain: float) -> str:
    """How fast a pass is as two half batches."""
    if gain < 1.0:
        return f"{name} {_PERCENT * (1.0 / gain - 1.0):.2g} % slower than as one batch"
    return f"{name} {_PERCENT * (gain - 1.0):.2g} % more throughput"
