"""Experts in balance and steps of two batches as callers write them: values, plans that they go with, notes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from roofline.physics.plan import DEEPEP, DIRECT, PER_NODE, PLAIN_SPREAD, Deployment, Spread
from roofline.questions.inputs.arguments import plain_value, scalar
from roofline.specs.model import Model, MoeFfn
from roofline.support.errors import BadInput, shown

#: Exchanges by the names of engines -> ours.
_NAMES = {
    **{name: name for name in (DIRECT, PER_NODE, DEEPEP)},
    **dict.fromkeys(("none", "naive", "pplx", "allgather_reducescatter", "flashinfer_all2allv"), DIRECT),
    "deepep_high_throughput": PER_NODE,
    "deepep_low_latency": DIRECT,
}
_MOST_NODES = 1000
_LEAST_SKEW = 0.5  # of drawn loads that the balance was compared with


def spread_of(model: Model, eplb: Any, two_batch_overlap: Any, all_to_all: Any = None) -> Spread:
    """What a case states about its experts; a dense model has none."""
    redundant, two_batches = plain_value("eplb", scalar(eplb)), scalar(two_batch_overlap)
    if type(two_batches) is not bool:
        raise BadInput(f"two_batch_overlap = {shown(two_batches)} must be True or False")
    if type(redundant) is float and redundant.is_integer():
        redundant = int(redundant)
    if redundant is not None and (type(redundant) is not int or redundant < 0):
        raise BadInput(f"eplb = {shown(eplb)} must be a whole number of slots for copies of experts; 0 for none")
    exchange, nodes = (DIRECT, None) if all_to_all is None else _exchange(scalar(all_to_all))
    is_stated_of = {"eplb": redundant is not None, "two_batch_overlap": two_batches, "all_to_all": exchange != DIRECT}
    for name, is_stated in is_stated_of.items():
        if is_stated and not model.is_moe:
            raise BadInput(f"{name} needs a mixture of experts; {model.short_name} is dense")
    spread = Spread(None if redundant is None else float(redundant), two_batches, exchange, nodes)
    return PLAIN_SPREAD if spread == PLAIN_SPREAD else spread


def _exchange(value: Any) -> tuple[str, float | None]:
    """The exchange that a caller names, and the most nodes of a token."""
    name, colon, limit = value.strip().lower().partition(":") if isinstance(value, str) else ("", "", "")
    exchange = _NAMES.get(name.strip().replace("-", "_"), _NAMES.get(name.strip()))
    is_fine = exchange is not None and (not colon or exchange != DIRECT)
    if colon and not (limit.strip().isdecimal() and 1 <= int(limit) <= _MOST_NODES):
        is_fine = False
    if exchange is None or not is_fine:
        raise BadInput(
            f"all_to_all = {shown(value)} must be {DIRECT}, {PER_NODE} or {DEEPEP}, the last two with the most nodes "
            f"of a token, as in {PER_NODE}:4"
        )
    return exchange, float(limit) if colon else None


def notes(deployment: Deployment) -> Iterator[str]:
    """What has no effect on this plan, and what engines do not start with; too many copies are refused."""
    plan, spread = deployment.plan, deployment.spread
    if spread.redundant is not None:
        yield from _balance_notes(deployment, int(spread.redundant))
    for name, is_stated in (("two-batch overlap", spread.two_batches), ("all-to-all", spread.exchange != DIRECT)):
        if is_stated and (plan.ep == 1 or plan.token_ranks == 1):
            yield (
                f"{name} changes nothing: with ep {plan.ep} and dp {plan.dp} no tokens are exchanged; it needs both "
                "above 1"
            )


def _balance_notes(deployment: Deployment, redundant: int) -> Iterator[str]:
    model, plan = deployment.model, deployment.plan
    if plan.ep == 1:
        yield "eplb changes nothing: with ep 1 every rank has a part of all experts; give ep, such as ep = all"
        return
    skew = deployment.routing_skew
    if skew is not None and skew < _LEAST_SKEW:
        yield f"eplb: the law of popular experts was checked from a routing skew of {_LEAST_SKEW} on, not at {skew:g}"
    for number in dict.fromkeys(ffn.experts for _, ffn in model.ffns if isinstance(ffn, MoeFfn)):
        most = number * (plan.ep - 1)
        if redundant > most:
            raise BadInput(
                f"eplb = {redundant}: with {most} slots each of {plan.ep} ranks has all {number} experts; give fewer"
            )
        rest = (number + redundant) % plan.ep
        if rest:
            yield (
                f"eplb {redundant}: engines want as many slots on every rank, and {number} + {redundant} do not divide "
                f"by ep {plan.ep}; use {redundant + plan.ep - rest}"
            )
