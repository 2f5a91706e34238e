"""The batch at which decode stops being cheap: four knees, each with its formula."""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic

from roofline.elements import span_text
from roofline.number_types import Number, Word
from roofline.ops import Real, comparable, maximum, minimum, where
from roofline.physics.forward import Pass, decode_pass
from roofline.physics.memory import largest_batch
from roofline.physics.plan import Deployment
from roofline.physics.recurring import figures_of
from roofline.records import NamedTuple
from roofline.roots import crossing, largest_that_holds

#: Largest batch that is searched; knees beyond it are infinite.
LARGEST_BATCH = 2.0**20


@comparable
class Knees(NamedTuple, Generic[Number, Word]):
    """The four knees of decode.

    >>> import roofline as rl
    >>> rl.knee("llama-3.1-8b", "h100-sxm", basis="ideal").smallest[1]
    'half'
    """

    ridge: Number | float | None  # weight-bearing kernels turn compute-bound [sequences]
    half: Number | float | None  # throughput reaches half of its asymptote [sequences]
    memory: Number | float | None  # largest batch that fits [sequences]
    slo: Number | float | None  # largest batch that meets the SLO [sequences]

    def __repr__(self) -> str:
        known = {name: knee for name, knee in self._asdict().items() if knee is not None}
        listed = ", ".join(f"{name} {span_text(knee)}" for name, knee in known.items())
        smallest = self.smallest[1] if known else "none: the batch follows from the request rate"
        return (
            f"<Knees {listed}; smallest: {smallest}>"
            if isinstance(smallest, str) and listed
            else f"<Knees {listed or smallest}>"
        )

    @property
    def smallest(self) -> tuple[Number | float | None, Word | str | None]:
        """The binding knee [sequences] and its name; None for both where there is no knee."""
        if self.memory is None:
            return None, None
        value: Real = self.memory
        name: Real = "memory"
        for label, candidate in (("slo", self.slo), ("half", self.half), ("ridge", self.ridge)):
            if candidate is not None:
                smaller = candidate < value
                value, name = where(smaller, candidate, value), where(smaller, label, name)
        return value, name


def knees(
    deployment: Deployment,
    isl: Real,
    osl: Real,
    meets: Callable[[Real], Real] | None = None,
    most: Real | None = None,
) -> Knees:
    """The four knees; `meets` says whether a batch, or users up to `most`, meet the SLO, None without one."""
    ridge, half, fits = figures_of(_knees, deployment, isl, osl)
    return Knees(ridge, half, fits, None if meets is None else slo_knee(meets, fits if most is None else most))


def _knees(deployment: Deployment, isl: Real, osl: Real) -> tuple[Real, ...]:
    steps = maximum(osl - 1.0, 1.0)

    def step(batch: Real) -> Pass:
        return decode_pass(deployment, batch, isl, steps)

    ridge = ridge_knee(step, affine=is_affine(deployment))
    return ridge, half_knee(step), largest_batch(deployment, isl + osl)


def is_affine(deployment: Deployment) -> bool:
    """Whether the work of weight-bearing kernels grows linearly with the batch."""
    return not deployment.model.is_moe and deployment.plan.dp == 1


def ridge_knee(step: Callable[[Real], Pass], affine: bool) -> Real:
    r"""Batch where the weight-bearing kernels of a decode step turn from memory- to compute-bound.

    .. math:: \sum C(b) = \sum M(b), \quad b = \frac{M_0}{C_1 - M_1} \text{ where } C = C_1 b,\ M = M_0 + M_1 b

    C is the time of arithmetic alone, M that of HBM traffic alone, of GEMMs and experts. The whole pass often never
    turns compute-bound, as KV traffic grows as fast as the arithmetic.

    Args:
        step: decode pass of a batch.
        affine: whether work grows linearly with the batch [bool].

    Returns:
        Batch [sequences]; infinite if they stay memory-bound up to `LARGEST_BATCH`.

    Valid:
        Affine without experts and with dp = 1. Neglects t0, kappa d and, except at the hardware limit, Q_s.

    Source:
        Ridge point of Williams et al., CACM 52(4), 2009, solved for the batch.
    """
    if affine:
        _, memory_0 = weight_sides(step(0.0))
        compute_1, memory_1 = weight_sides(step(1.0))
        gain = compute_1 - (memory_1 - memory_0)
        return where(gain > 0.0, memory_0 / where(gain > 0.0, gain, 1.0), float("inf"))
    return crossing(ridge_surplus(step), LARGEST_BATCH)


def ridge_surplus(step: Callable[[Real], Pass]) -> Callable[[Real], Real]:
    """HBM time less arithmetic time of the weight-bearing kernels [s], by batch; zero at the ridge."""

    def surplus(batch: Real) -> Real:
        compute, memory = weight_sides(step(batch))
        return memory - compute

    return surplus


def half_knee(step: Callable[[Real], Pass]) -> Real:
    r"""Batch at which decode throughput reaches half of its asymptote.

    .. math:: D(b) = 2 b D_1,\quad D_1 = \lim_{b \to \infty} D(b) / b;\qquad
              b = D_0 / D_1 \text{ where } D = D_0 + D_1 b

    Args:
        step: decode pass of a batch.

    Returns:
        Batch [sequences].

    Valid:
        The slope is taken at 2^40 sequences, where D_0 is negligible.

    Source:
        Half-performance length n_1/2 of Hockney and Jesshope, "Parallel Computers", 1981.
    """
    return crossing(half_surplus(step, asymptotic_time(step)), LARGEST_BATCH)


def asymptotic_time(step: Callable[[Real], Pass]) -> Real:
    """Time per additional sequence of a very large step, D_1.

    Args:
        step: decode pass of a batch.

    Returns:
        Time per sequence of a step of `LARGEST_BATCH` squared [s].

    Source:
        Its limit is the slope of `half_knee`'s asymptote.
    """
    return step(LARGEST_BATCH**2).time / LARGEST_BATCH**2


def half_surplus(step: Callable[[Real], Pass], slope: Real) -> Callable[[Real], Real]:
    """Step time less twice the asymptote's time [s], by batch; zero at half the asymptotic throughput."""
    return lambda batch: step(batch).time - 2.0 * batch * slope


def slo_knee(meets: Callable[[Real], Real], fits: Real) -> Real:
    """Largest whole batch that meets the SLO and fits; a batch beyond one that misses it must miss it too."""
    return largest_that_holds(meets, minimum(fits, LARGEST_BATCH))


def weight_sides(decode: Pass) -> tuple[Real, Real]:
    """Compute and memory time of the weight-bearing kernels of a decode step: both sides of the norm.

    Args:
        decode: the step.

    Returns:
        Time of arithmetic alone, and that of overlapped HBM traffic alone [s].

    Source:
        Roofline of the GEMMs and experts; docs/method.md, "Knees".
    """
    compute, memory = decode.figures(_sides)
    return compute, memory


def _sides(decode: Pass) -> tuple[Real, ...]:
    compute: Real = 0.0
    memory: Real = 0.0
    for kernel in decode.kernels:
        if kernel.kind.bears_weights:
            compute = compute + kernel.count * kernel.terms.compute
            memory = memory + kernel.count * kernel.terms.overlapped
    return compute, memory
