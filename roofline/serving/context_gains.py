"""From which lengths on context parallelism pays."""

from __future__ import annotations

from collections.abc import Iterator

from roofline.numbers.operations import Real
from roofline.numbers.quantity import KIBI, MEGA
from roofline.numbers.roots import crossing
from roofline.physics.passes import decode_pass
from roofline.physics.plan import Deployment
from roofline.serving.knee import plan_fault
from roofline.serving.latency import Workload, prefill
from roofline.support.records import replace

_LONGEST = 2.0 * MEGA  # tokens up to which a length from which it pays is looked for
#: Prompts at which plans are compared: pieces of a prompt and its exchange win at some lengths and lose at others.
_LENGTHS = tuple(float(KIBI << power) for power in range(11))  # [tokens]
_BATCHES = (1.0, 64.0)  # at which decode with and without it is compared


def paying_context(deployment: Deployment, batch: float) -> float:
    """Context beyond which decode steps are faster than without dcp; 0 where they always are, infinite: never [tokens].

    Args:
        deployment: with a plan of several decode context parallel ranks.
        batch: sequences of a step [sequences].

    >>> import roofline as rl
    >>> split = rl.predict("deepseek-r1", "b200", tp=8, dcp=8).deployment
    >>> paying_context(split, 1.0) > paying_context(split, 64.0) > 0.0
    True
    """
    whole = deployment.at(replace(deployment.plan, dcp=1))

    def lost(context: Real) -> Real:
        return decode_pass(deployment, batch, context).time - decode_pass(whole, batch, context).time

    return float(crossing(lost, _LONGEST))


def paying_prompt(deployment: Deployment) -> float | None:
    """Prompt from which on TTFT is shorter than with tp alone on as many GPUs; None: tp cannot be so wide [tokens].

    Args:
        deployment: with a plan of several ranks that split prompts.

    >>> import roofline as rl
    >>> split = rl.predict("llama-3.1-70b", "h100-sxm", tp=8, cp=2).deployment
    >>> 1.0 < paying_prompt(split) < 10_000.0
    True
    """
    plan = deployment.plan
    wide = replace(plan, tp=plan.tp * plan.cp, cp=1)
    if plan_fault(deployment.model, wide) is not None:
        return None
    whole = deployment.at(wide)

    def lost(isl: Real) -> Real:
        case = Workload(isl, 1.0)
        return prefill(deployment, case).time - prefill(whole, case).time

    pays = [length for length in _LENGTHS if lost(length) < 0.0]
    if not pays:
        return float("inf")
    before = max((length for length in _LENGTHS if length < pays[0]), default=1.0)
    return float(crossing(lost, pays[0], low=before))


def context_notes(deployment: Deployment) -> Iterator[str]:
    """From which lengths on the plan pays, for the notes of a case."""
    plan = deployment.plan
    if plan.dcp != 1:
        where = [_beyond(paying_context(deployment, batch), f"context at batch {batch:g}") for batch in _BATCHES]
        known = " and ".join(text for text in where if text)
        pays = f"faster than with dcp 1 {known}" if known else "slower than with dcp 1 at any context"
        yield f"dcp {plan.dcp}: each rank keeps and reads 1/{plan.dcp} of the KV cache; decode is {pays}"
    if plan.cp == 1:
        return
    yield (
        f"cp {plan.cp}: keys and values are gathered before attention; an engine that sends them round a ring "
        "meanwhile hides some of that time"
    )
    prompt, wider = paying_prompt(deployment), plan.tp * plan.cp
    if prompt is None:
        yield f"cp {plan.cp}: {deployment.model.short_name} cannot have tp {wider}, which would take as many GPUs"
        return
    where_prompts = _beyond(prompt, "prompt")
    shorter = (
        f"TTFT is shorter {where_prompts}" if where_prompts else "TTFT is longer at any length from 1k to 1M tokens"
    )
    yield f"cp {plan.cp}: {shorter} than with tp {wider} on as many GPUs"


def _beyond(length: float, of: str) -> str:
    """Text such as ``beyond 12000 tokens of context``; empty where there is no such length."""
    if length == float("inf"):
        return ""
    return f"at any {of}" if length <= 1.0 else f"beyond {float(f'{length:.2g}'):,.0f} tokens of {of}"
