"""A case at other batches or prompts: rows for the search of its knees, and for its curves."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from roofline.ops import Real, minimum
from roofline.physics.forward import Pass
from roofline.physics.memory import largest_batch
from roofline.physics.one_equation import HOST_ROOF, Kernel, Terms, Work
from roofline.records import NamedTuple, dataclass, field, replace
from roofline.roots import crossing, largest_that_holds
from roofline.serving.knee import (
    LARGEST_BATCH,
    Knees,
    asymptotic_time,
    half_surplus,
    ridge_surplus,
    weight_sides,
)
from roofline.serving.latency import decode, prefill, slo_excess
from roofline.serving.prediction import Prediction
from roofline.specs.kernels import GEMM
from roofline.workbook.case import LookupCase
from roofline.workbook.cell import Cell, CellPool, named, scope
from roofline.workbook.parts import held_memory, passes

_RIDGE_STEPS = 64  # usually a dozen; over several ranks the surplus has a step and takes them all
_HALF_STEPS = 20
_HALVINGS = 21  # of the range up to `LARGEST_BATCH`


class Trial(NamedTuple):
    """A case at another batch."""

    step: Real  # [s]
    compute: Real  # [s] of the weight-bearing kernels of a decode step
    memory: Real  # [s] of their overlapped traffic
    excess: Real  # largest share of a limit of the SLO


class CurvePoint(NamedTuple):
    """A case at other batches or prompts."""

    ttft: Any  # [s]
    tpot: Any  # [s]
    fits: Any  # in memory


@dataclass
class Trials:
    """Trial rows of a case, added as the search asks for them."""

    case: LookupCase
    at: Callable[[float], Trial]  # of the case in the workbook at a batch
    place: Callable[[int, str], str]  # address of a field of a row
    batches: list[Any] = field(default_factory=list)  # cells or numbers, a row each

    def row(self, batch: Real) -> Trial:
        """The row of a batch, added if there is none."""
        line = next((line for line, tried in enumerate(self.batches) if _is_same(tried, batch)), len(self.batches))
        if line == len(self.batches):
            self.batches.append(batch)
        pool: CellPool = self.case.pool
        value = float(np.ravel(batch.value)[0]) if isinstance(batch, Cell) else float(batch)
        known = zip(Trial._fields, self.at(value), strict=True)
        return Trial(*(pool.input(self.place(line, name), np.array([number])) for name, number in known))

    def step(self, batch: Real) -> Pass:
        """A decode step at a batch, as one kernel."""
        trial = self.row(batch)
        terms = Terms(trial.step, trial.compute, trial.memory, 0.0)
        return Pass((Kernel("decode step", GEMM, "", 1, Work(), HOST_ROOF, terms),))


def _is_same(tried: Any, batch: Any) -> bool:
    if isinstance(tried, Cell) or isinstance(batch, Cell):
        return tried is batch
    return bool(tried == batch)


def knees_of(trials: Trials) -> Knees:
    """The four knees of a case, searched in its trial rows."""
    workload, deployment = trials.case.prediction.workload, trials.case.prediction.deployment
    with scope("largest batch"):
        fits = largest_batch(deployment, workload.isl + workload.osl)
    with scope("crossing"):
        ridge = crossing(ridge_surplus(trials.step), LARGEST_BATCH, _RIDGE_STEPS)
        with scope("asymptotic time"):
            slope = asymptotic_time(trials.step)
        half = crossing(half_surplus(trials.step, slope), LARGEST_BATCH, _HALF_STEPS)
    with scope("largest that holds"):
        limit = minimum(fits, LARGEST_BATCH)
        slo = largest_that_holds(lambda batch: trials.row(batch).excess <= 1.0, limit, _HALVINGS)
    return Knees(ridge, half, fits, slo)


def at_batches(case: LookupCase, batch: Cell, slo: Mapping[str, Real]) -> Trial:
    workload = replace(case.prediction.workload, batch=batch)
    first, step = passes(case.is_ideal, case.prediction.deployment, workload)
    compute, traffic = (named("weight sides", side) for side in weight_sides(step))
    time = named("time", step.time)
    excess = slo_excess(named("time", first.time), time, workload.osl, slo)
    return Trial(time, compute, traffic, named("slo excess", excess))


def one_trial(prediction: Prediction, batch: float, slo: Mapping[str, float]) -> Trial:
    """A trial row of a prediction in floats."""
    workload = replace(prediction.workload, batch=batch)
    first, step = prefill(prediction.deployment, workload), decode(prediction.deployment, workload)
    compute, traffic = weight_sides(step)
    return Trial(step.time, compute, traffic, slo_excess(first.time, step.time, workload.osl, slo))


def curve_point(case: LookupCase, batch: Cell, isl: Cell) -> CurvePoint:
    """Formulas of a row of the curves."""
    before = case.prediction.workload
    workload = replace(before, batch=batch, isl=isl, prefix=minimum(before.prefix, isl))
    first, step = passes(case.is_ideal, case.prediction.deployment, workload)
    need = held_memory(case.prediction.deployment, batch, isl + workload.osl)
    return CurvePoint(named("time", first.time), named("time", step.time), named("fits", need.fits))
