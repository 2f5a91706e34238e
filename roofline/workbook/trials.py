"""Rows beside a case that differ from it in batch or prompt alone: the search for its knees, and its curves."""

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
from roofline.workbook.case import AnyCase
from roofline.workbook.cell import Cell, CellPool, named, scope
from roofline.workbook.parts import held_memory, passes

__all__ = ["CurvePoint", "Trial", "Trials", "at_batches", "curve_point", "knees_of", "one_trial"]

_RIDGE_STEPS = 64  # a dozen are usual; over several ranks it is a step, which takes them
_HALF_STEPS = 20
_HALVINGS = 21  # of the batches up to `LARGEST_BATCH`


class Trial(NamedTuple):
    """One row: what a case takes at another batch."""

    step: Real  # [s]
    compute: Real  # [s] of the weight-bearing kernels of a decode step
    memory: Real  # [s] likewise, of their overlapped traffic
    excess: Real  # largest share of a limit of the SLO


class CurvePoint(NamedTuple):
    """Cells of rows at other batches or prompts."""

    ttft: Any  # [s]
    tpot: Any  # [s]
    fits: Any  # whether the memory is enough


@dataclass
class Trials:
    """Rows in which the formulas of a case are asked at further batches."""

    case: AnyCase
    at: Callable[[float], Trial]  # what the functions give for the case at hand and a batch
    place: Callable[[int, str], str]  # address of a field of a row
    batches: list[Any] = field(default_factory=list)  # cells or numbers, a row each

    def row(self, batch: Real) -> Trial:
        """The cells of a row that asks at a batch.

        Args:
            batch: cell, or a number [sequences].

        Returns:
            Its results as cells.
        """
        line = next((line for line, asked in enumerate(self.batches) if _is_same(asked, batch)), len(self.batches))
        if line == len(self.batches):
            self.batches.append(batch)
        pool: CellPool = self.case.pool
        value = float(np.ravel(batch.value)[0]) if isinstance(batch, Cell) else float(batch)
        known = zip(Trial._fields, self.at(value), strict=True)
        return Trial(*(pool.input(self.place(line, name), np.array([number])) for name, number in known))

    def step(self, batch: Real) -> Pass:
        """A decode step at a batch, one kernel standing for all.

        Args:
            batch: cell, or a number [sequences].

        Returns:
            The pass: its time, and both sides of its weight-bearing kernels.
        """
        found = self.row(batch)
        terms = Terms(found.step, found.compute, found.memory, 0.0)
        return Pass((Kernel("decode step", GEMM, "", 1, Work(), HOST_ROOF, terms),))


def _is_same(asked: Any, batch: Any) -> bool:
    if isinstance(asked, Cell) or isinstance(batch, Cell):
        return asked is batch
    return bool(asked == batch)


def knees_of(trials: Trials) -> Knees:
    """The four knees of a case, found in its trial rows by the functions that find them elsewhere.

    Args:
        trials: rows to ask in; they are added to it.

    Returns:
        The knees; that of the SLO is the largest batch that fits where nothing is limited [sequences].
    """
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


def at_batches(case: AnyCase, batch: Cell, slo: Mapping[str, Real]) -> Trial:
    """The formulas of a trial row.

    Args:
        case: the case.
        batch: cell of the row that holds its batch, zero and more than any included.
        slo: limits [s].

    Returns:
        The row's results.
    """
    workload = replace(case.prediction.workload, batch=batch)
    first, step = passes(case.is_ideal, case.prediction.deployment, workload)
    compute, traffic = (named("weight sides", side) for side in weight_sides(step))
    time = named("time", step.time)
    excess = slo_excess(named("time", first.time), time, workload.osl, slo)
    return Trial(time, compute, traffic, named("slo excess", excess))


def one_trial(prediction: Prediction, batch: float, slo: Mapping[str, float]) -> Trial:
    """What a trial row holds for a plain prediction.

    Args:
        prediction: of the same case in plain numbers.
        batch: of the row [sequences].
        slo: limits [s].

    Returns:
        The row's values.
    """
    workload = replace(prediction.workload, batch=batch)
    first, step = prefill(prediction.deployment, workload), decode(prediction.deployment, workload)
    compute, traffic = weight_sides(step)
    return Trial(step.time, compute, traffic, slo_excess(first.time, step.time, workload.osl, slo))


def curve_point(case: AnyCase, batch: Cell, isl: Cell) -> CurvePoint:
    """The formulas of a row of a curve.

    Args:
        case: the case.
        batch: cell of the row that holds its batch.
        isl: cell of the row that holds its prompt length.

    Returns:
        The row's results.
    """
    before = case.prediction.workload
    workload = replace(before, batch=batch, isl=isl, prefix=minimum(before.prefix, isl))
    first, step = passes(case.is_ideal, case.prediction.deployment, workload)
    need = held_memory(case.prediction.deployment, batch, isl + workload.osl)
    return CurvePoint(named("time", first.time), named("time", step.time), named("fits", need.fits))
