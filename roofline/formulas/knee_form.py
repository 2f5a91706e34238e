"""The knees of the decode batch as formulas: a closed form, or the equation that the knee solves."""

from __future__ import annotations

from roofline.errors import BadInput, UnknownName
from roofline.formulas.case_trace import CaseTrace
from roofline.formulas.closed_form import Formula
from roofline.formulas.formula import Stages
from roofline.formulas.inputs import Input
from roofline.ops import Real, maximum
from roofline.physics.forward import Pass, decode_pass
from roofline.physics.memory import largest_batch
from roofline.quantity import rounded
from roofline.serving.knee import asymptotic_time, half_surplus, is_affine, ridge_knee, ridge_surplus
from roofline.symbolic.graph import Node

_ZERO = 2.0**-30

#: `knee` is the one that binds, the smallest.
KNEES = ("knee", "ridge_knee", "half_knee", "memory_knee")


def knee_formula(case: CaseTrace, which: str = "knee") -> Formula:
    """Formula of a knee; implicit but for the memory's and, without experts, the ridge's."""
    if which not in KNEES:
        raise UnknownName(f"unknown knee {which!r}; choose from {', '.join(KNEES)}")
    prediction = case.prediction
    if which == "knee":
        if prediction.knee_bound == "slo":
            raise BadInput(
                f"the knee ({rounded(float(prediction.knee or 0.0))}) is set by the SLO and has no formula; use "
                "roofline solve --for batch for the batch at which a limit is just met"
            )
        which = f"{prediction.knee_bound}_knee"
    value = getattr(prediction.knees, which.removesuffix("_knee"))
    if value is None or value in (0.0, float("inf")):
        raise BadInput(f"{which} has no formula here: {'there is none' if not value else 'no batch reaches it'}")
    stages = Stages()
    deployment, workload = case.traced.deployment, case.traced.workload
    steps = maximum(workload.osl - 1.0, 1.0)

    passes: list[tuple[str, Pass]] = []

    def step(batch: Real) -> Pass:
        passed = decode_pass(deployment, batch, workload.isl, steps)
        passes.append(("" if isinstance(batch, Node) else "asymptote_", passed))
        return passed

    slope: Real | None = None
    known = {**case.inputs, which: Input(which, "result", "sequences", value, "the knee")}
    if which == "memory_knee":
        number, is_implicit = largest_batch(deployment, workload.isl + workload.osl), False
    elif which == "ridge_knee" and is_affine(prediction.deployment):
        number, is_implicit = ridge_knee(step, affine=True), False
    else:
        slope = None if which == "ridge_knee" else asymptotic_time(step)
        surplus = ridge_surplus(step) if slope is None else half_surplus(step, slope)
        number, is_implicit = surplus(case.trace.input(which, value)), True
    if is_implicit and abs(number.value) > _ZERO * prediction.decode.time:
        raise BadInput(f"{which} = {rounded(value)} has no formula here: with dp, the batch per rank moves in steps")
    for name, passed in passes:
        stages.name_kernels(passed, name)
    if isinstance(slope, Node):
        stages.name_result("time_per_sequence", slope)
    if not isinstance(number, Node):
        raise BadInput(f"{which} = {rounded(value)} has no formula here: it is a bound")
    return Formula(
        which,
        value,
        "sequences",
        stages.expression(number),
        stages,
        known,
        case.regime("tpot"),
        title=case.title,
        is_implicit=is_implicit,
    )
