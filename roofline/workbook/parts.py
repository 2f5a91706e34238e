"""Passes and memory of a case in cells, with the steps of the answer that they belong to."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from roofline.ops import Real, where
from roofline.physics.assembly import rank_batch
from roofline.physics.forward import Pass
from roofline.physics.memory import Memory, memory
from roofline.physics.one_equation import LinkRoof, Terms
from roofline.physics.plan import Deployment
from roofline.records import replace
from roofline.serving.latency import Workload, decode, prefill
from roofline.specs.kernels import HOST
from roofline.workbook.cell import named, scope, unmarked


@scope("")
def passes(is_ideal: Any, deployment: Deployment, workload: Workload) -> tuple[Pass, Pass]:
    """Prefill and mean decode step on either basis."""
    ideal = replace(deployment, basis="ideal")

    def part(of: Callable[[Deployment, Workload], Pass]) -> Pass:
        both = of(ideal, workload), of(deployment, workload)
        named("rank batch", rank_batch(workload.batch, deployment.plan.dp))  # the cell that both passes made
        for passed in both:
            _name_kernels(passed)
        return _either(is_ideal, *both)

    return part(prefill), part(decode)


@scope("")
def held_memory(deployment: Deployment, batch: Real, length: Real) -> Memory:
    """Memory of the fullest GPU."""
    need = memory(deployment, batch, length)
    named("weight bytes", need.weights)
    named("cache bytes", need.kv_cache)
    named("activation bytes", need.activations)
    return need


def _name_kernels(passed: Pass) -> None:
    """Name the work of a pass after its kernels, and their times after their equation."""
    for kernel in passed.kernels:
        is_collective = isinstance(kernel.roof, LinkRoof)
        for number in (*kernel.work, kernel.count):
            named(unmarked(kernel.name), number)
        for number in kernel.roof if is_collective else ():
            named("link roof", number)
        for number in kernel.terms:
            named("collective time" if is_collective else "kernel time", number)


@scope("either")
def _either(is_ideal: Any, ideal: Pass, real: Pass) -> Pass:
    """A pass on either basis; the host takes time on the calibrated basis only."""
    others = iter(ideal.kernels)
    kernels = []
    for kernel in real.kernels:
        other = kernel._replace(terms=Terms(*[0.0] * len(kernel.terms))) if kernel.kind is HOST else next(others)
        terms = Terms(*(where(is_ideal, *pair) for pair in zip(other.terms, kernel.terms, strict=True)))
        kernels.append(kernel._replace(count=where(is_ideal, other.count, kernel.count), terms=terms))
    return Pass(tuple(kernels))
