"""What one measurement of a deployment says of the predictions for it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from roofline.api.inputs.arguments import scalar
from roofline.api.inputs.case import LOADS, workload
from roofline.api.inputs.texts import plain_value
from roofline.errors import BadInput, shown
from roofline.ops import Real
from roofline.physics.plan import Deployment
from roofline.quantity import BILLION, rounded, to_text
from roofline.serving.correction import SIGMA_TPOT, SIGMA_TTFT, Correction
from roofline.serving.latency import BURST, Workload, time_per_token
from roofline.serving.served import request_passes

__all__ = ["corrected", "correction"]

_FAR = 2.0
_MOST_FACTOR = 30.0  # of a measurement over its prediction
_FIELDS = ("isl", "osl", "batch", "prefix")


def correction(deployment: Deployment, wanted: Workload, measured: Any) -> Correction:
    """What one measurement of a deployment says of the predictions for it.

    Args:
        deployment: model, GPU, plan, precision, basis and engine that were measured.
        wanted: lengths and load of the case, at which the measurement was taken where it says nothing else.
        measured: `ttft`, `tpot` [s] or both; lengths, `prefix` and the load where they differ; or a text such as
            ``tpot=14.2,batch=1``, bare times in ms.

    Returns:
        Factors, and what remains uncertain.

    Raises:
        BadInput: nothing measured, an unknown key, a figure that is none or that is faster than light.
    """
    if deployment.basis == "ideal":
        raise BadInput("the ideal basis is the hardware limit, which measured cannot scale; leave out one of them")
    measured = plain_value("measured", scalar(measured))
    fields = tuple(dict.fromkeys((*_FIELDS, *LOADS)))
    known = ("ttft", "tpot", *fields)
    if not isinstance(measured, Mapping) or not {"ttft", "tpot"} & set(measured) or not set(measured) <= set(known):
        raise BadInput(
            f"measured = {shown(measured)} must give ttft or tpot in seconds, and may give {', '.join(fields)}"
        )
    measured = {key: plain_value(key, scalar(value)) for key, value in measured.items()}
    for key, value in measured.items():
        if type(value) not in (float, int) or not (0.0 < value <= BILLION or (key == "prefix" and value == 0.0)):
            raise BadInput(f"measured {key} = {shown(value)} must be a positive number")
    stated = [name for name in LOADS if name in measured]
    here = "batch" if wanted.load == BURST else wanted.load
    needed = ("isl", "osl", "prefix", *(stated or (here,)))
    unsaid = [name for name in needed if name not in measured and type(getattr(wanted, name)) is not float]
    if unsaid:
        raise BadInput(f"measured must state its {' and '.join(unsaid)}; the case has several")
    values = {name: measured.get(name, getattr(wanted, name)) for name in needed}
    cache = wanted.cache if values["prefix"] else None
    at = workload(**{"batch": None, **{name: measured[name] for name in stated}, **values}, cache=cache)
    from roofline.serving.traffic.load import mean_latencies

    predicted = dict(zip(("ttft", "tpot"), mean_latencies(deployment, at), strict=True))
    least_of = dict(zip(("ttft", "tpot"), _light(deployment, at), strict=True))
    factors = {}
    for key in ("ttft", "tpot"):
        if key not in measured:
            continue
        least = least_of[key]
        if measured[key] < least:
            raise BadInput(
                f"measured {key} = {to_text(float(measured[key]), 's')} is below the hardware limit of "
                f"{to_text(least, 's')}; check its unit, load, lengths, precision and tp"
            )
        network = deployment.host.network if key == "ttft" else 0.0
        if network > 0.0 and measured[key] < least + network:
            raise BadInput(
                f"measured ttft = {to_text(float(measured[key]), 's')} is less than the network's round trip of "
                f"{to_text(network, 's')} and the {to_text(least, 's')} that the same work takes at full rates; give "
                "the ttft that the client saw, or leave out network"
            )
        factors[key] = float(measured[key]) / predicted[key]
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
            far = (
                ""
                if 1.0 / _FAR <= factor <= _FAR
                else ", far outside its interval; check that the deployment is the same"
            )
            said.append(f"{name} scaled by the measurement: {rounded(factor)}x the prediction{far}")
    return tuple(said)


def _light(deployment: Deployment, at: Workload) -> tuple[Real, Real]:
    """TTFT and TPOT of a case at light speed, as many sequences together as the calibrated kernels have [s]."""
    from roofline.serving.traffic.load import served

    found = None if at.load == BURST else served(deployment, at)
    first, step = request_passes(deployment.on("ideal"), at, found)
    return first.time, time_per_token(deployment, at.osl, step.time)
