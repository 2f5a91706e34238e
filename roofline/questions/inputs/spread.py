"""Experts in balance and steps of two batches as callers write them: values, plans that they go with, notes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from roofline.physics.plan import Deployment, Spread
from roofline.questions.inputs.arguments import plain_value, scalar
from roofline.specs.model import Model, MoeFfn
from roofline.support.errors import BadInput, shown


def spread_of(model: Model, eplb: Any, two_batch_overlap: Any) -> Spread:
    """What a case states about its experts; a dense model has none."""
    redundant, two_batches = plain_value("eplb", scalar(eplb)), scalar(two_batch_overlap)
    if type(two_batches) is not bool:
        raise BadInput(f"two_batch_overlap = {shown(two_batches)} must be True or False")
    if type(redundant) is float and redundant.is_integer():
        redundant = int(redundant)
    if redundant is not None and (type(redundant) is not int or redundant < 0):
        raise BadInput(f"eplb = {shown(eplb)} must be a whole number of slots for copies of experts; 0 for none")
    for name, is_stated in (("eplb", redundant is not None), ("two_batch_overlap", two_batches)):
        if is_stated and not model.is_moe:
            raise BadInput(f"{name} needs a mixture of experts; {model.short_name} is dense")
    return Spread(None if redundant is None else float(redundant), two_batches)


def notes(deployment: Deployment) -> Iterator[str]:
    """What has no effect on this plan, and what engines do not start with; too many copies are refused."""
    plan, spread = deployment.plan, deployment.spread
    if spread.redundant is not None:
        yield from _balance_notes(deployment, int(spread.redundant))
    if spread.two_batches and (plan.ep == 1 or plan.dp == 1):
        yield (
            f"two-batch overlap changes nothing: with ep {plan.ep} and dp {plan.dp} no tokens are exchanged; it needs "
            "both above 1"
        )


def _balance_notes(deployment: Deployment, redundant: int) -> Iterator[str]:
    model, plan = deployment.model, deployment.plan
    if plan.ep == 1:
        yield "eplb changes nothing: with ep 1 every rank has a part of all experts; give ep, such as ep = all"
        return
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
