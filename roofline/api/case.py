"""A case: from the plain values a caller writes to what the rings take, refused where it cannot be."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from roofline.api.arguments import PLAIN, refuse_masked, scalar
from roofline.catalog.engines import engine_names, load_engine
from roofline.errors import BadInput, shown
from roofline.ops import Real
from roofline.physics.efficiency import BASES, calibrated_set, measured_kind
from roofline.physics.forward import crossings
from roofline.physics.layers.kinds import mixer_kinds
from roofline.physics.plan import LEAST_SKEW, MOST_SKEW, Deployment, Plan
from roofline.quantity import BILLION, MINUTE, rounded, to_text
from roofline.serving.correction import SIGMA_TPOT, SIGMA_TTFT, Correction
from roofline.serving.latency import SLO_KEYS, Workload, decode, prefill
from roofline.serving.limits import beyond
from roofline.serving.precision import PRESETS
from roofline.serving.sizing import (
    check_count,
    check_degrees,
    check_plan,
    does_not_fit,
    possible_tp,
    smallest_tp,
    widest_tp,
)
from roofline.specs.engine import Engine
from roofline.specs.kernels import GEMM, MOE

__all__ = [
    "BASES",
    "PRESETS",
    "SLO_KEYS",
    "at_smallest_tp",
    "corrected",
    "correction",
    "engine",
    "engine_names",
    "length_warnings",
    "replicas",
    "skew",
    "warnings",
    "workload",
]

_LONGEST = BILLION  # tokens or sequences; beyond it the input is a slip
_FAR = 2.0
_MOST_FACTOR = 30.0  # of a measurement over its prediction
_FIELDS = ("isl", "osl", "batch", "prefix")


def workload(isl: Real, osl: Real, batch: Real, prefix: Real) -> Workload:
    """Lengths and batch as floats or float64 arrays.

    Args:
        isl: prompt length [tokens].
        osl: answer length [tokens].
        batch: sequences advanced together on one replica [sequences].
        prefix: prompt tokens whose KV is cached already [tokens].

    Returns:
        The workload.

    Raises:
        BadInput: not numbers, not finite, below one or absurdly large, a prefix beyond the prompt,
            shapes that do not broadcast together.
    """
    given = dict(zip(_FIELDS, (isl, osl, batch, prefix), strict=True))
    values = {name: _number(name, value) for name, value in given.items()}
    for name, value in values.items():
        least = 0.0 if name == "prefix" else 1.0
        if not _all((value >= least) & (value <= _LONGEST)):
            raise BadInput(f"{name} = {shown(given[name])} must be between {least:g} and {_LONGEST:g}")
    try:
        reaches = values["prefix"] <= values["isl"]
        values["isl"] + values["osl"] + values["batch"] + values["prefix"]
    except ValueError as fault:
        raise BadInput(f"isl, osl, batch and prefix do not broadcast together: {fault}") from None
    if not _all((values["prefix"] == 0.0) | (values["prefix"] >= 1.0)):
        raise BadInput(f"prefix = {shown(prefix)} is less than a token; write a share as 80%, or its tokens")
    if not _all(reaches):
        raise BadInput(f"prefix = {shown(prefix)} exceeds the prompt, isl = {shown(isl)}")
    return Workload(values["isl"], values["osl"], values["batch"], values["prefix"])


def skew(routing: str | float) -> float | None:
    """Skew of the expert choice.

    Args:
        routing: ``uniform``, or the skew c [1].

    Returns:
        c, or None for uniform [1].

    Raises:
        BadInput: neither.
    """
    if routing == "uniform":
        return None
    try:
        value = float(routing)
    except (TypeError, ValueError, OverflowError):
        raise BadInput(f"routing {shown(routing)} is neither uniform nor a number") from None
    if not LEAST_SKEW <= value <= MOST_SKEW:
        bounds = f"between {LEAST_SKEW:g} and {MOST_SKEW:g}"
        raise BadInput(f"routing skew {shown(routing)} must be {bounds}; uniform routing is called uniform")
    return value


def engine(name: str, network: float, specs: str | None = None) -> Engine:
    """Profile of a serving engine, with the network before it.

    Args:
        name: of the profile, or the path of one's own [text].
        network: round trip between client and server [s].
        specs: folder of specifications of one's own; default $ROOFLINE_SPECS [path].

    Returns:
        The profile.

    Raises:
        UnknownName: no such profile.
        BadInput: a network that is no time.
        BadSpec: a profile of one's own has faults.
    """
    if type(network) not in (float, int) or not 0.0 <= network <= MINUTE:
        raise BadInput(f"network = {shown(network)} must be a time in seconds, at most a minute: 0.08 for 80 ms")
    profile = load_engine(name, specs)
    return replace(profile, network=float(network)) if network else profile


def correction(deployment: Deployment, wanted: Workload, measured: Mapping[str, float]) -> Correction:
    """What one measurement of a deployment says of the predictions for it.

    Args:
        deployment: model, GPU, plan, precision, basis and engine that were measured.
        wanted: lengths and batch of the case, at which the measurement was taken where it says nothing else.
        measured: `ttft`, `tpot` [s] or both; `isl`, `osl`, `batch` and `prefix` where they differ.

    Returns:
        Factors, and what remains uncertain.

    Raises:
        BadInput: nothing measured, an unknown key, a figure that is none or that is faster than light.
    """
    if deployment.basis == "ideal":
        raise BadInput("the ideal basis is light speed, which no measurement moves; leave out measured, or the basis")
    known = ("ttft", "tpot", *_FIELDS)
    if not isinstance(measured, Mapping) or not {"ttft", "tpot"} & set(measured) or not set(measured) <= set(known):
        raise BadInput(
            f"measured = {shown(measured)} must give ttft or tpot in seconds, and may give {', '.join(_FIELDS)}"
        )
    measured = {key: scalar(value) for key, value in measured.items()}
    for key, value in measured.items():
        if type(value) not in (float, int) or not (0.0 < value <= _LONGEST or (key == "prefix" and value == 0.0)):
            raise BadInput(f"measured {key} = {shown(value)} must be a positive number")
    unsaid = [name for name in _FIELDS if name not in measured and type(getattr(wanted, name)) is not float]
    if unsaid:
        raise BadInput(f"measured must say at which {' and '.join(unsaid)} it was taken: the case asks for several")
    at = workload(*(measured.get(name, _largest(getattr(wanted, name))) for name in _FIELDS))
    light = replace(deployment, basis="ideal")
    factors = {}
    for key, passed in (("ttft", prefill), ("tpot", decode)):
        if key not in measured:
            continue
        least = passed(light, at).time
        if measured[key] < least:
            raise BadInput(
                f"measured {key} = {to_text(float(measured[key]), 's')} is faster than light: the same work takes "
                f"{to_text(least, 's')} at full rates; check its unit, batch, lengths, precision and tp"
            )
        network = deployment.host.network if key == "ttft" else 0.0
        if network > 0.0 and measured[key] < least + network:
            raise BadInput(
                f"measured ttft = {to_text(float(measured[key]), 's')} is less than the network's round trip of "
                f"{to_text(network, 's')} and the {to_text(least, 's')} that the same work takes at full rates; give "
                "the ttft that the client saw, or leave out network"
            )
        factors[key] = float(measured[key]) / passed(deployment, at).time
        if factors[key] > _MOST_FACTOR:
            raise BadInput(
                f"measured {key} = {to_text(float(measured[key]), 's')} is {factors[key]:.0f} times the prediction: "
                "a slip of the unit, or another deployment? (here in seconds, on the command line in milliseconds)"
            )
    return Correction(
        **factors,
        sigma_ttft=SIGMA_TTFT if "ttft" in measured else None,
        sigma_tpot=SIGMA_TPOT if "tpot" in measured else None,
    )


def corrected(found: Correction) -> tuple[str, ...]:
    """What a reader of scaled figures should know.

    Args:
        found: factors of a measurement.

    Returns:
        One sentence for each factor [text].
    """
    said = []
    for name, factor in (("ttft", found.ttft), ("tpot", found.tpot)):
        if factor != 1.0:
            far = "" if 1.0 / _FAR <= factor <= _FAR else ": far outside its interval; is it the same deployment?"
            said.append(f"{name} scaled by the measurement, {rounded(factor)} times the prediction{far}")
    return tuple(said)


def at_smallest_tp(deployment: Deployment, wanted: Workload, *, allow_oversize: bool) -> Deployment:
    """The deployment at the smallest tp at which its case fits, the largest one where there are several.

    Args:
        deployment: model, GPU, precision and a plan whose other degrees hold.
        wanted: lengths and batch.
        allow_oversize: take the largest tp of the scale-up domain where none fits [bool].

    Returns:
        The deployment.

    Raises:
        BadInput: a plan that cannot be.
        DoesNotFit: a single case that fits at no tp.
    """
    plan = deployment.plan
    check_degrees(deployment.model, plan)
    length = wanted.isl + wanted.osl
    batch, longest = _largest(wanted.batch), _largest(length)
    tp = smallest_tp(deployment, batch, longest)
    if tp is None:
        widest = widest_tp(deployment)
        possible = [tp for tp in possible_tp(deployment.model, widest) if (tp * plan.dp) % plan.ep == 0] or [1]
        deployment = replace(deployment, plan=replace(plan, tp=possible[-1]))
        check_plan(deployment.model, deployment.plan)
        if not allow_oversize and type(wanted.batch + length) is float:
            raise does_not_fit(deployment, batch, longest)
        return deployment
    return deployment if tp == plan.tp else replace(deployment, plan=replace(plan, tp=tp))


def replicas(plan: Plan, num_gpus: int) -> int:
    """Replicas that a number of GPUs holds.

    Args:
        plan: parallel degrees of one replica.
        num_gpus: GPUs of all replicas [1].

    Returns:
        Replicas [1].

    Raises:
        BadInput: not a multiple of the GPUs of one replica.
    """
    check_count("num_gpus", num_gpus)
    whole, rest = divmod(num_gpus, plan.num_gpus)
    if rest or not whole:
        raise BadInput(
            f"num_gpus = {num_gpus} is not a multiple of the {plan.num_gpus} GPUs of one replica "
            f"(tp {plan.tp} x pp {plan.pp} x dp {plan.dp})"
        )
    return whole


def warnings(
    deployment: Deployment, requested: str, wanted: Workload, *, is_smallest_tp: bool = False
) -> tuple[str, ...]:
    """What the reader should know: assumptions, stand-ins, limits exceeded.

    Args:
        deployment: model, GPU, plan, precision and basis.
        requested: basis that was asked for [text].
        wanted: lengths and batch.
        is_smallest_tp: whether tp was chosen, not given [bool].

    Returns:
        One sentence each [text].
    """
    length = wanted.isl + wanted.osl
    model, gpu, plan = deployment.model, deployment.gpu, deployment.plan
    said = [*model.cautions, *gpu.cautions, *deployment.precision.notes]
    if is_smallest_tp and type(length + wanted.batch) is not float:
        said.append(f"tp = {plan.tp} for all cases: the smallest at which the largest of them fits")
    if requested == "calibrated" and deployment.basis == "ideal":
        said.append("basis ideal: no calibration at hand; its figures are light speed, which no GPU reaches")
    if deployment.basis == "generic":
        said.append(
            "basis generic: no kernel of the GPU's generation was timed; constants are medians of others, "
            "and the interval is wide"
        )
    said += length_warnings(deployment, wanted)
    if gpu.link.kind == "pcie" and plan.tp * plan.dp > 1 and deployment.basis != "ideal":
        said.append(
            "collectives over PCIe depend on the server's switches: their share of the time is the least certain"
        )
    ranks = max(plan.tp, plan.expert_ranks if model.is_moe else 1)
    if ranks > gpu.link.domain:
        said.append(
            f"{ranks} ranks exceed the {gpu.link.domain} GPUs of one {gpu.link.kind} domain: the network takes part"
        )
    if crossings(plan, gpu.link.domain):
        said.append(f"{crossings(plan, gpu.link.domain):.0f} of {plan.pp - 1} stage hand-overs cross the network")
    if gpu.exp_rate is None and deployment.basis != "ideal":
        said.append(f"{gpu.name} states no special-function rate: softmax exponentials are not charged")
    return (*said, *_stand_ins(deployment))


def length_warnings(deployment: Deployment, wanted: Workload) -> list[str]:
    """What lies outside the shapes that the calibrations were fitted on, or beyond the positions of a model.

    Args:
        deployment: model, GPU, plan, precision and basis.
        wanted: lengths and batch.

    Returns:
        One sentence each, for whatever element of an array exceeds them [text].
    """
    return [said for exceeds, said in beyond(deployment, wanted) if _any(exceeds)]


def _number(name: str, value: Any) -> Real:
    if type(value) is float or type(value) is int:
        try:
            return float(value)
        except OverflowError:
            raise BadInput(f"{name} = {shown(value)} must be between 1 and {_LONGEST:g}") from None
    refuse_masked(name, value)
    number = scalar(value)
    if type(number) is float or type(number) is int:
        return _number(name, number)
    if type(number) in PLAIN or isinstance(value, (bytes, bytearray, memoryview)):
        raise BadInput(f"{name} = {shown(value)} is neither a number nor an array of numbers")
    from roofline.arrays import as_array

    return as_array(name, value)


def _any(condition: Real) -> bool:
    return bool(condition.any()) if hasattr(condition, "any") else bool(condition)


def _all(condition: Real) -> bool:
    return bool(condition.all()) if hasattr(condition, "all") else bool(condition)


def _stand_ins(deployment: Deployment) -> list[str]:
    """Dtypes whose kernels were never measured on the generation, and what stands in for them."""
    calibration = deployment.gpu.calibration
    if deployment.basis in ("ideal", "generic") or calibration is None:
        return []  # of a generic one all are stand-ins
    said = []
    sets, sections = calibration.kernels, deployment.precision.sections
    used = dict.fromkeys((GEMM, sections[name].key) for name in ("linear", "attention"))
    if deployment.model.is_moe:
        used[MOE, sections["experts"].key] = None
    for kind, key in used:
        _, found = calibrated_set(sets, kind, key)
        if found != key:
            said.append(f"no {key} {kind.name} kernels measured on {calibration.name}: {found} parameters stand in")
    for kind in mixer_kinds(mixer for _, mixer in deployment.model.mixers):
        instead = measured_kind(sets, kind)
        if instead is not kind:
            said.append(f"no {kind.name} kernels measured on {calibration.name}: {instead.name} parameters stand in")
    return said


def _largest(values: Real) -> float:
    """Largest element of a number of any shape."""
    return values if type(values) is float else float(values.max())
