"""The batch at which decode stops being cheap: four knees, each with its formula."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from roofline.ops import Real, floor, maximum, minimum, where
from roofline.physics.forward import WEIGHT_BEARING, Pass, decode_pass
from roofline.physics.memory import largest_batch
from roofline.physics.plan import Deployment
from roofline.physics.work import Roof

__all__ = ["LARGEST_BATCH", "Knees", "half_knee", "knees", "largest_that_holds", "ridge_knee", "slo_knee"]

#: Batches beyond this many sequences are not searched; a knee that lies there is reported as none.
LARGEST_BATCH = 2.0**20

_HALVINGS = 45  # of 40 octaves: a part in 10^12


@dataclass(frozen=True, slots=True)
class Knees:
    """The four knees, and the smallest."""

    ridge: Real | None  # weight-bearing kernels turn compute-bound [sequences]
    half: Real | None  # throughput reaches half of its asymptote [sequences]
    memory: Real  # largest batch that fits [sequences]
    slo: Real | None  # largest batch that meets the SLO [sequences]

    @property
    def smallest(self) -> tuple[Real, Real]:
        """The knee that binds, and its name [sequences, text]."""
        value, name = self.memory, "memory"
        for other, candidate in (("slo", self.slo), ("half", self.half), ("ridge", self.ridge)):
            if candidate is not None:
                smaller = candidate < value
                value, name = where(smaller, candidate, value), where(smaller, other, name)
        return value, name


def knees(
    deployment: Deployment,
    isl: Real,
    osl: Real,
    meets: Callable[[Real], Real] | None = None,
) -> Knees:
    """Knees of a deployment at prompt length `isl` and answer length `osl`.

    Args:
        deployment: model, GPU, plan, precision and basis.
        isl: prompt tokens [tokens].
        osl: answer tokens [tokens].
        meets: whether a batch meets the SLO; None without one [condition].

    Returns:
        The knees [sequences].
    """
    steps = maximum(osl - 1.0, 1.0)

    def step(batch: Real) -> Pass:
        return decode_pass(deployment, batch, isl, steps)

    fits = largest_batch(deployment, isl + osl)
    return Knees(
        ridge=ridge_knee(step, affine=not deployment.model.is_moe and deployment.plan.dp == 1),
        half=half_knee(step),
        memory=fits,
        slo=None if meets is None else slo_knee(meets, fits),
    )


def ridge_knee(step: Callable[[Real], Pass], affine: bool) -> Real:
    r"""Batch where the weight-bearing kernels of a decode step turn from memory- to compute-bound.

    .. math:: \sum C(b) = \sum M(b), \quad b = \frac{M_0 - C_0}{C_1 - M_1} \text{ where both are affine}

    C is arithmetic with its serial walk, M the HBM traffic of GEMMs and experts. The pass as a
    whole often never turns: KV traffic grows as fast as the arithmetic.

    Args:
        step: decode pass of a batch.
        affine: whether work grows linearly with the batch, as it does without experts [bool].

    Returns:
        Batch, infinite where they stay memory-bound up to `LARGEST_BATCH` [sequences].

    Source:
        Ridge point of Williams et al., CACM 52(4), 2009, solved for the batch.
    """
    if affine:
        compute_0, memory_0 = _weight_sides(step(0.0))
        compute_1, memory_1 = _weight_sides(step(1.0))
        gain = (compute_1 - compute_0) - (memory_1 - memory_0)
        crossing = (memory_0 - compute_0) / where(gain > 0.0, gain, 1.0)
        return where(gain > 0.0, maximum(crossing, 0.0), float("inf"))

    def memory_bound(batch: Real) -> Real:
        compute, memory = _weight_sides(step(batch))
        return compute < memory

    return _crossing(memory_bound)


def half_knee(step: Callable[[Real], Pass]) -> Real:
    r"""Batch at which decode throughput reaches half of its asymptote.

    .. math:: D(b) = 2 b D_1,\quad D_1 = \lim_{b \to \infty} D(b) / b;\qquad
              b = D_0 / D_1 \text{ where } D = D_0 + D_1 b

    Args:
        step: decode pass of a batch.

    Returns:
        Batch [sequences].

    Source:
        Half-performance length n_1/2 of Hockney and Jesshope, "Parallel Computers", 1981.
    """
    slope = step(LARGEST_BATCH**2).time / LARGEST_BATCH**2

    def below(batch: Real) -> Real:
        return step(batch).time > 2.0 * batch * slope

    return _crossing(below)


def slo_knee(meets: Callable[[Real], Real], fits: Real) -> Real:
    """Largest whole batch that meets the SLO and fits.

    Args:
        meets: whether a batch meets it; once missed, missed by every larger one [condition].
        fits: largest batch that fits [sequences].

    Returns:
        Batch, zero where not even one sequence meets it [sequences].
    """
    return largest_that_holds(meets, minimum(fits, LARGEST_BATCH))


def largest_that_holds(holds: Callable[[Real], Real], limit: Real) -> Real:
    """Largest whole number from 1 to a limit for which a monotone condition holds, else 0.

    Args:
        holds: the condition [condition].
        limit: largest number to try [1].

    Returns:
        The number [1].

    >>> largest_that_holds(lambda n: n * n <= 50, 100.0)
    7.0
    """
    low, high = limit * 0.0, limit
    while _any(low < high):
        middle = floor((low + high + 1.0) / 2.0)
        good, is_open = holds(maximum(middle, 1.0)), low < high
        high = where(is_open, where(good, high, middle - 1.0), high)
        low = where(is_open, where(good, middle, low), low)
    return low


def _crossing(holds: Callable[[Real], Real]) -> Real:
    """Number up to which a monotone condition holds: bisection between 2^-20 and 2^20, in logarithms."""
    low, high = 1.0 / LARGEST_BATCH, LARGEST_BATCH
    never_ends = holds(high)
    for _ in range(_HALVINGS):
        middle = (low * high) ** 0.5
        good = holds(middle)
        low, high = where(good, middle, low), where(good, high, middle)
    return where(never_ends, float("inf"), high)


def _weight_sides(decode: Pass) -> tuple[Real, Real]:
    """Compute and memory side of all weight-bearing kernels [s]."""
    compute: Real = 0.0
    memory: Real = 0.0
    for kernel in decode.kernels:
        work, roof = kernel.work, kernel.roof
        if kernel.kind in WEIGHT_BEARING and isinstance(roof, Roof):
            efficiency = roof.efficiency
            arithmetic = work.flop / (efficiency.eta_c * roof.peak) + efficiency.kappa * work.depth
            compute = compute + kernel.count * arithmetic
            memory = memory + kernel.count * work.overlapped_bytes / (efficiency.eta_m * roof.bandwidth)
    return compute, memory


def _any(condition: Real) -> bool:
    """Whether a condition holds for any element."""
    return bool(condition.any()) if hasattr(condition, "any") else bool(condition)
