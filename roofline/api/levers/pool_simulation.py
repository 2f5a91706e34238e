"""Two pools simulated, compared with their closed forms."""

from __future__ import annotations

import math
from collections.abc import Mapping
from statistics import fmean
from typing import TYPE_CHECKING

from roofline.api.inputs.arguments import number
from roofline.errors import BadInput, shown
from roofline.quantity import to_text
from roofline.records import dataclass, field
from roofline.serving.latency import USERS
from roofline.serving.lengths import UNIFORM, lengths_by_law
from roofline.serving.traffic.pool_simulation import pools_simulated
from roofline.serving.traffic.simulation import Arrivals
from roofline.specs.slo import LATENCIES, LEVELS, key_of

if TYPE_CHECKING:
    from roofline.api.levers.pool_answer import Disaggregation


_FEWEST, _PER_USER, _MOST = 8000, 20, 200_000  # default number of requests
_USERS_CV = 0.3 / 3.0**0.5  # equal lengths would keep users in step forever


@dataclass(frozen=True, repr=False)
class PoolSimulation:
    """Means and percentiles over requests of a simulation of two pools."""

    closed: Disaggregation = field(repr=False)
    requests: int
    seed: int
    latencies: Mapping[str, float]  # [s] by the keys of limits, such as `ttft` or `tpot_p99`

    def ratio(self, key: str) -> float | None:
        """Closed form over simulation [1]; None where either does not apply."""
        closed, mean = self.closed.latency(key), self.latencies.get(key)
        return None if closed is None or not mean else closed / mean

    def __repr__(self) -> str:
        pairs = [
            f"{key.upper()} {to_text(self.latencies[key], 's')} (closed form {to_text(closed, 's')})"
            for key in ("ttft", "tpot")
            if (closed := self.closed.latency(key)) is not None and key in self.latencies
        ]
        return f"<PoolSimulation of {self.requests} requests, seed {self.seed}: {', '.join(pairs)}>"


def simulation_of_pools(closed: Disaggregation, requests: int | None, seed: int) -> PoolSimulation:
    """The case of an answer, simulated; users' lengths vary a little, or they would stay in step."""
    workload = closed.workload
    if type(seed) is not int:
        raise BadInput(f"seed = {shown(seed)} must be a whole number")
    if workload.num_prompts is not None:
        raise BadInput("a simulation of two pools knows the steady state alone; leave out num_prompts")
    users = round(float(workload.concurrency or 1.0))
    if workload.load == USERS and users != workload.concurrency:
        raise BadInput(f"a simulation has whole users; concurrency = {workload.concurrency:g}")
    usual = min(max(_FEWEST, _PER_USER * users), _MOST)
    count = usual if requests is None else int(number("requests", requests, 1.0, 10_000_000.0))
    cv = _USERS_CV if workload.load == USERS else 0.0
    lengths = workload.lengths or lengths_by_law(UNIFORM, cv, cv)
    rate = None if workload.request_rate is None else float(workload.request_rate)
    finished = pools_simulated(closed.pools, workload, Arrivals(count, rate, users, lengths=lengths, seed=seed))
    latencies: dict[str, float] = {}
    for name in LATENCIES:
        times = sorted(time for request in finished if not math.isnan(time := getattr(request, name)))
        if not times:
            continue
        latencies[name] = fmean(times)
        for level in LEVELS:
            latencies[key_of(name, level)] = times[min(int(level / 100.0 * len(times)), len(times) - 1)]
    return PoolSimulation(closed, len(finished), seed, latencies)
