"""Plans with separate prefill and decode pools: the frontiers of both roles, matched."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from itertools import product
from typing import Any

from roofline.physics.plan import Deployment
from roofline.questions.disaggregate import Disaggregation, PoolCase, pool_case
from roofline.questions.inputs.deployment import gpu_of
from roofline.questions.pools import deployment_of_pool, kv_link_between
from roofline.questions.ranking import month_text
from roofline.serving.fewest import Degrees, possible_plans
from roofline.serving.load.pools import Pools, pooled
from roofline.serving.shown import times_text
from roofline.specs.gpu import Gpu
from roofline.specs.model import Model
from roofline.specs.workload import BETWEEN_TOKENS, P99_WITHIN, metric_and_level
from roofline.support.errors import RooflineError
from roofline.support.progress import each
from roofline.support.records import NamedTuple

_KEPT = 3  # plans of each role that are matched
_MANY = 512  # replicas of the other role while one is searched
_MOST = 4096  # replicas
_GROWTH = 0.125  # of a role whose limit is missed
_ROUNDS = 60  # of growing both pools together


class _Role(NamedTuple):
    """One replica of a pool, and what its GPU costs."""

    replica: Deployment
    preset: str | None

    def cost(self, count: int) -> tuple[bool, float]:
        """Rent of so many replicas [USD/s], unknown rents last by GPUs."""
        gpus = count * self.replica.plan.num_gpus
        price = self.replica.gpu.price
        return price is None, gpus * (1.0 if price is None else price.typical)


def pool_plans(
    model: str | Model,
    gpus: Sequence[str | Gpu],
    presets: Sequence[str | None],
    options: Mapping[str, Any],
    available: Callable[[Gpu], int | None],
) -> list[Disaggregation]:
    """Prefill and decode pools that meet an SLO with the least rent, kinds of GPU and formats of both apart.

    Each role is searched beside plenty of the other; the three plans of each that cost least are matched, and replicas
    are added to the role whose limit is missed, then taken away where none is. `available` says how many GPUs of a kind
    there are, None without a limit.
    """
    options = {name: value for name, value in options.items() if value is not None}
    slo = options.pop("slo")
    case = pool_case(model, slo, options)
    prefills = _replicas("prefill", case, gpus, presets)
    decodes = _replicas("decode", case, gpus, presets)
    if not prefills or not decodes:
        return []
    widest = [max(roles, key=lambda role: role.replica.plan.num_gpus) for roles in (prefills, decodes)]
    first = _cheapest(prefills, available, lambda role, count: _judged(case, role, widest[1], count, _MANY)[0])
    second = _cheapest(decodes, available, lambda role, count: max(_judged(case, widest[0], role, _MANY, count)))
    found = []
    for prefill, most in each(first, "prefill pools"):
        for decode, least in second:
            answer = _matched(case, prefill, decode, most, least)
            if answer is not None and _is_available(answer, available):
                found.append(answer)
    return sorted(found, key=_rank)


def _is_available(answer: Disaggregation, available: Callable[[Gpu], int | None]) -> bool:
    """Whether there are as many GPUs of each kind as both pools take together."""
    pools = answer.pools.prefill, answer.pools.decode
    counts = [(pool.gpu, sum(each.num_gpus for each in pools if each.gpu.name == pool.gpu.name)) for pool in pools]
    return all(most is None or count <= most for gpu, count in counts for most in [available(gpu)])


def _rank(answer: Disaggregation) -> tuple[bool, float, int, float]:
    """By rent, unknown ones last, GPUs, and latencies over their limits."""
    rent = answer.usd_per_hour
    return rent is None, rent or 0.0, answer.num_gpus, sum(answer.slo_shares.values())


def _replicas(role: str, case: PoolCase, gpus: Sequence[str | Gpu], presets: Sequence[str | None]) -> list[_Role]:
    """Every plan of one replica that holds the model, in every format."""
    own = case.prefill_options if role == "prefill" else case.decode_options
    found = []
    for gpu in gpus:
        record = gpu_of(gpu, case.options.get("specs"))
        for preset, plan in product(presets, possible_plans(case.model, record.node, math.inf, Degrees())):
            ranks = plan.expert_ranks
            if plan.ep not in (1, ranks) or (plan.dp > 1 and (role == "prefill" or plan.ep == 1)):
                continue  # attention is copied on decode ranks that share all experts alone
            degrees = {"tp": plan.tp, "pp": plan.pp, "ep": plan.ep, "dp": plan.dp}
            with suppress(RooflineError):  # does not fit, or has no such format
                deployment, _ = deployment_of_pool(role, case.model, gpu, {**own, "quantization": preset, **degrees})
                found.append(_Role(deployment, preset))
    return found


def _cheapest(
    roles: Sequence[_Role], available: Callable[[Gpu], int | None], worst: Callable[[_Role, int], float]
) -> list[tuple[_Role, int]]:
    """The plans of a role that cost least, each with the fewest replicas that meet its limits, if there are so many."""
    priced = []
    for role in roles:
        count, most = _fewest(partial(_holds, worst, role)), available(role.replica.gpu)
        if count is not None and (most is None or count * role.replica.plan.num_gpus <= most):
            priced.append((role, count))
    priced.sort(key=lambda pair: pair[0].cost(pair[1]))
    return priced[:_KEPT]


def _holds(worst: Callable[[_Role, int], float], role: _Role, count: int) -> bool:
    return worst(role, count) <= 1.0


def _fewest(holds: Callable[[int], bool]) -> int | None:
    """The least number from which a condition holds, by doubling and halving."""
    high = 1
    while not holds(high):
        high *= 2
        if high > _MOST:
            return None
    low = high // 2
    while high - low > 1:
        middle = (low + high) // 2
        if holds(middle):
            high = middle
        else:
            low = middle
    return high


def _answer(case: PoolCase, prefill: _Role, decode: _Role, prefills: int, decodes: int) -> Disaggregation | None:
    """Both pools with so many replicas; None where they have no steady state."""
    first, second = prefill.replica.copies(prefills), decode.replica.copies(decodes)
    pools = Pools(first, second, kv_link_between(first, second, None, layerwise=False))
    found = pooled(pools, case.workload)
    if not found.is_stable:
        return None
    formats = {name: role.preset for name, role in (("prefill", prefill), ("decode", decode)) if role.preset}
    return Disaggregation(pools, case.workload, found, case.limits, case.notes, formats)


def _judged(case: PoolCase, prefill: _Role, decode: _Role, prefills: int, decodes: int) -> tuple[float, float]:
    """Worst latency over its limit: until the first token, and between tokens; infinite without a steady state."""
    answer = _answer(case, prefill, decode, prefills, decodes)
    if answer is None:
        return math.inf, math.inf
    until, between = 0.0, 0.0
    for key, limit in case.limits.items():
        time = answer.latency(key)
        share = math.inf if time is None else time / limit
        if metric_and_level(key)[0] in BETWEEN_TOKENS:
            between = max(between, 0.0 if answer.tpot is None else share)
        else:
            until = max(until, share)
    return until, between


def _matched(case: PoolCase, prefill: _Role, decode: _Role, prefills: int, decodes: int) -> Disaggregation | None:
    """Both pools with as few replicas as meet all limits together; None where none do."""
    for _ in range(_ROUNDS):
        until, between = _judged(case, prefill, decode, prefills, decodes)
        if max(until, between) <= 1.0:
            break
        more = prefills + max(int(_GROWTH * prefills), 1), decodes + max(int(_GROWTH * decodes), 1)
        if between > 1.0 or until == math.inf:  # a full decode pool lets requests wait for a slot, too
            decodes = more[1]
        if until > 1.0 and _judged(case, prefill, decode, more[0], decodes)[0] < until:
            prefills = more[0]
        elif until > 1.0:
            decodes = more[1]
    else:
        return None
    for _ in range(_ROUNDS):
        fewer = [(prefills - 1, decodes), (prefills, decodes - 1)]
        fewer = [pair for pair in fewer if min(pair) > 0 and max(_judged(case, prefill, decode, *pair)) <= 1.0]
        if not fewer:
            break
        prefills, decodes = min(fewer, key=lambda pair: prefill.cost(pair[0])[1] + decode.cost(pair[1])[1])
    return _answer(case, prefill, decode, prefills, decodes)


def pools_text(answer: Disaggregation) -> str:
    """Two pools in a line: ``b200:tp1x2 + h200:tp4x3: TTFT 162 ms, TPOT 21 ms, 20,878 USD/month``, and the verdict."""
    texts = answer.texts
    limited = {key: answer.latency(key) for key in answer.slo if key != P99_WITHIN}
    times = times_text(limited or {"ttft": answer.ttft}, is_mean=answer.workload.is_mean)
    verdict = "" if answer.verdict is None else f"; SLO {answer.verdict}"
    return f"{texts['prefill']} + {texts['decode']}: {times}, {month_text(answer.usd_per_hour)}{verdict}"
