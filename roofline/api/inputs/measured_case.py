"""Correction factors from one measurement of a deployment."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from roofline.api.inputs import case
from roofline.api.inputs.arguments import scalar
from roofline.api.inputs.texts import plain_value
from roofline.errors import BadInput, shown
from roofline.ops import Real
from roofline.physics.plan import Deployment
from roofline.quantity import BILLION, rounded, to_text
from roofline.serving.correction import SIGMA_TPOT, SIGMA_TTFT, Correction
from roofline.serving.latency import BURST, Workload, time_per_token
from roofline.serving.served import request_passes

_FAR = 2.0  # factor beyond which a note asks to check the deployment
_MOST_FACTOR = 30.0  # factor beyond which the measurement is refused
_FIELDS = ("isl", "osl", "batch", "prefix")


def correction(deployment: Deployment, workload: Workload, measured: Any) -> Correction:
    """Factors on predictions; the measurement has the lengths and load of the case unless it states others."""
    if deployment.basis == "ideal":
        raise BadInput("the ideal basis is the hardware limit, which measured cannot scale; leave out one of them")
    measured = plain_value("measured", scalar(measured))
    fields = tuple(dict.fromkeys((*_FIELDS, *case.LOADS)))
    known = ("ttft", "tpot", *fields)
    if not isinstance(measured, Mapping) or not {"ttft", "tpot"} & set(measured) or not set(measured) <= set(known):
        raise BadInput(
            f"measured = {shown(measured)} must give ttft or tpot in seconds, and may give {', '.join(fields)}"
        )
    measured = {key: plain_value(key, scalar(value)) for key, value in measured.items()}
    for key, value in measured.items():
        if type(value) not in (float, int) or not (0.0 < value <= BILLION or (key == "prefix" and value == 0.0)):
            raise BadInput(f"measured {key} = {shown(value)} must be a positive number")
    loads = [name for name in case.LOADS if name in measured]
    load = "batch" if workload.load == BURST else workload.load
    needed = ("isl", "osl", "prefix", *(loads or (load,)))
    missing = [name for name in needed if name not in measured and type(getattr(workload, name)) is not float]
    if missing:
        raise BadInput(f"measured must state its {' and '.join(missing)}; the case has several")
    values = {name: measured.get(name, getattr(workload, name)) for name in needed}
    cache = workload.cache if values["prefix"] else None
    own_workload = case.workload(**{"batch": None, **values}, cache=cache)
    from roofline.serving.traffic.load import mean_latencies

    predicted = dict(zip(("ttft", "tpot"), mean_latencies(deployment, own_workload), strict=True))
    least_of = dict(zip(("ttft", "tpot"), _at_hardware_limit(deployment, own_workload), strict=True))
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
        network = deployment.effective_engine.network if key == "ttft" else 0.0
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


def correction_notes(factors: Correction) -> tuple[str, ...]:
    notes = []
    for name, factor in (("ttft", factors.ttft), ("tpot", factors.tpot)):
        if factor != 1.0:
            note = f"{name} scaled by the measurement: {rounded(factor)}x the prediction"
            if not 1.0 / _FAR <= factor <= _FAR:
                note += ", far outside its interval; check that the deployment is the same"
            notes.append(note)
    return tuple(notes)


def _at_hardware_limit(deployment: Deployment, workload: Workload) -> tuple[Real, Real]:
    """TTFT and TPOT at the hardware limit, with the calibrated number of concurrent sequences [s]."""
    from roofline.serving.traffic.load import served

    load = None if workload.load == BURST else served(deployment, workload)
    first, step = request_passes(deployment.on("ideal"), workload, load)
    return first.time, time_per_token(deployment, workload.osl, step.time)
