"""Runs whose requests are all of one length: users who begin together stay in step, so that prompts come in waves.

The means of a closed loop hold for lengths that differ. Equal ones, which are the default of several benchmarks, never
part the users: every wave of prompts waits for itself, and nothing interrupts the answers between two waves. Such a run
is simulated, token by token, at the step times of the prediction.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from statistics import fmean, median

from roofline.physics.plan import Deployment
from roofline.serving.latency import EQUAL, Workload, lanes
from roofline.serving.load.equations import server_of
from roofline.serving.load.simulation import QUICK, Arrivals, simulated
from roofline.specs.load import Users
from roofline.specs.workload import OF_REQUESTS, Measurement
from roofline.support.errors import BadInput
from roofline.support.records import NamedTuple, replace

_WAVES, _MOST = 10, 2000  # of a run that are simulated; requests
_TAIL = 0.99

#: Statistic -> metric -> time [s].
Times = Mapping[str, Mapping[str, float]]


class InStep(NamedTuple):
    """Times of a run in step, and whether they hold: known, or nearer to what was measured than others."""

    times: Times
    holds: bool


def run_in_step(deployment: Deployment, workload: Workload, requests: float) -> Times | None:
    """Times of a run of requests of one length, by statistic and metric; None where none can be simulated.

    Args:
        deployment: the server.
        workload: users, and the lengths of their requests.
        requests: of the run [requests].
    """
    ranks = float(lanes(deployment))
    users = workload.load.users_on(ranks)
    if users is None or float(users) != round(float(users)) or users <= 1.0:
        return None
    own = round(float(users))
    count = min(max(round(requests / ranks), own), _WAVES * own, max(_MOST, own))
    plain = replace(workload, load=Users(float(workload.load.amount)), lengths=None)
    try:
        arrivals = Arrivals(count, users=own, is_burst=True, lengths=EQUAL, events=QUICK)
        found = simulated(server_of(deployment, plain), arrivals)
    except BadInput:  # too many events
        return None
    columns = {name: [getattr(one, name) for one in found] for name in OF_REQUESTS}
    known = {name: sorted(values) for name, values in columns.items() if not any(map(math.isnan, values))}
    return {
        "mean": {name: fmean(values) for name, values in known.items()},
        "median": {name: median(values) for name, values in known.items()},
        "p99": {name: values[min(int(_TAIL * len(values)), len(values) - 1)] for name, values in known.items()},
    }


def in_step(
    measurement: Measurement,
    deployment: Deployment,
    workload: Workload,
    times: Mapping[str, float | None],
    intervals: Mapping[str, tuple[float, float] | None],
) -> InStep | None:
    """What a run of equal lengths should take in step; None where its lengths differ, or may.

    Where the result does not prove equal lengths, the nearer of the two predictions is taken: in sigmas, over TTFT and
    TPOT.

    Args:
        measurement: the run.
        deployment: its server.
        workload: its load.
        times: predicted for users who are not in step [s].
        intervals: 80 % ranges of these [s].
    """
    if measurement.has_equal_lengths is False or not measurement.num_prompts:
        return None
    found = run_in_step(deployment, workload, measurement.num_prompts)
    if found is None:
        return None
    off = {"apart": 0.0, "in step": 0.0}
    statistic = measurement.statistic or "mean"
    for name in ("ttft", "tpot"):
        measured, apart, ends = getattr(measurement, name), times.get(name), intervals.get(name)
        together = found[statistic].get(name)
        if measured and apart and together and ends is not None:
            sigma = math.log(ends[1] / ends[0])
            off["apart"] += (math.log(measured / apart) / sigma) ** 2
            off["in step"] += (math.log(measured / together) / sigma) ** 2
    return InStep(found, bool(measurement.has_equal_lengths) or off["in step"] < off["apart"])
