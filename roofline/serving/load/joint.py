"""Share of the requests of a load that meet limits on several of their latencies together."""

from __future__ import annotations

from collections.abc import Mapping
from math import log
from statistics import NormalDist

from roofline.serving.load.mixtures import Component, rare_time, survival, usual_time
from roofline.serving.load.tails import AnswerSlice, Tails

_NODES = 64  # of all TPOTs; at least `_FEWEST` of answers of one length
_FEWEST = 4
_NO_LIMIT = float("inf")
_NORMAL = NormalDist()


def share_within(spread: Tails, metric: str, limit: float) -> float:
    """Share of the requests, or of the gaps of all of them, within a limit on one latency.

    Args:
        spread: distributions of the latencies.
        metric: one of `LATENCIES`; an answer of a single token has no TPOT, and meets any limit on it.
        limit: time [s].

    Returns:
        Share [1]; an E2EL is no shorter than its TTFT.

    Source:
        Arithmetic.
    """
    if metric == "tpot" and spread.answers:
        return sum(float(answers.weight) * _tpot_within(answers, limit) for answers in spread.answers)
    within = 1.0 - float(survival(getattr(spread, metric), limit))
    return min(within, 1.0 - float(survival(spread.ttft, limit))) if metric == "e2el" else within


def joint_share(spread: Tails, limits: Mapping[str, float]) -> float:
    r"""Share of the requests that meet all limits on TTFT, TPOT and E2EL.

    .. math:: s = P(TTFT \le t)\ P(TPOT \le g)\ \frac{\sum_{o, i} w_{o i}\, P(TTFT \le \min(t,\ e - (o - 1)\, x_{o i}))}
              {P(TTFT \le t) \sum_{o, i} w_{o i}}

    The E2EL is that of the same request: its TTFT, and for each of its tokens after the first its TPOT x, at nodes i of
    the TPOTs up to g of answers of o tokens. TTFT and TPOT of a request are independent: lengths of prompts and answers
    are, and what the load of the moment does to both raises the share by 0.3 percentage points on average.

    Args:
        spread: distributions of the latencies.
        limits: t, g and e by `ttft`, `tpot` and `e2el`, as far as there are any [s].

    Returns:
        Share [1].

    Source:
        Arithmetic; "Goodput" in docs/method.md.
    """
    if not limits:
        return 1.0
    if spread.mixed:  # a rate of the moment slows both latencies of a request
        return sum(float(share) * joint_share(each, limits) for share, each in spread.mixed)
    single = {metric: share_within(spread, metric, limit) for metric, limit in limits.items()}
    product = single.get("ttft", 1.0) * single.get("tpot", 1.0)
    if "e2el" not in limits:
        return product
    if len(limits) == 1 or not spread.answers or not product:
        return min(product, single["e2el"])
    first, step, whole = (limits.get(name, _NO_LIMIT) for name in ("ttft", "tpot", "e2el"))
    nodes = max(_NODES // len(spread.answers), _FEWEST)
    met = possible = 0.0
    for answers in spread.answers:
        within = _tpot_within(answers, step)
        weight, tokens = float(answers.weight) * within / nodes, float(answers.tokens)
        possible += nodes * weight
        for number in range(nodes if weight else 0):
            time = _quantile(answers.tpot, within * (number + 0.5) / nodes) if tokens else 0.0
            met += weight * (1.0 - float(survival(spread.ttft, min(first, whole - tokens * time))))
    return min(product, single["e2el"], single.get("tpot", 1.0) * met / possible)


def _tpot_within(answers: AnswerSlice, limit: float) -> float:
    """Share of answers of one length whose TPOT is within a limit; single tokens have none."""
    part = answers.tpot
    if limit == _NO_LIMIT or not (float(answers.tokens) > 0.0 and float(part.weight) > 0.0):
        return 1.0
    return 1.0 - float(survival((part._replace(weight=1.0),), limit))


def _quantile(part: Component, share: float) -> float:
    """Time within which a share of a component lies [s], inverse of `gamma_survival`."""
    mean, variance = float(part.mean), float(part.variance)
    square = mean * mean
    if variance <= 0.0 or square <= 0.0:
        return float(part.least) + mean
    if square <= variance:  # some wait an exponential time
        waits = 2.0 * square / (variance + square)
        time = rare_time(part, -log(min((1.0 - share) / waits, 1.0)))
    else:
        time = usual_time(part, _NORMAL.inv_cdf(share))
    return float(part.least) + min(float(time), float(part.most))
