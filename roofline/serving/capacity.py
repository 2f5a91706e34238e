"""Capacity within an SLO: the largest rate that a deployment, or a pair of pools, sustains."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cache, cached_property
from itertools import pairwise

from roofline.numbers.operations import Json, is_nan
from roofline.numbers.roots import narrowed, narrowing
from roofline.physics.plan import Deployment
from roofline.serving.latency import UNCORRECTED, Correction, Served, Workload, mean_gap
from roofline.serving.load.equations import capacity
from roofline.serving.load.joint import joint_share, share_within
from roofline.serving.load.limits import equal_steps, latency_over_requests, limited_latencies, of_tails
from roofline.serving.load.mixtures import survival
from roofline.serving.load.pools import Pooled, Pools, pool_tails, pooled
from roofline.serving.load.steady import served, tails
from roofline.serving.load.tails import Tails, latency_percentile
from roofline.serving.verdict import FAIL, IN_RANGE, LIKELY, UNKNOWN, UNLIKELY
from roofline.specs.load import Burst, Rate
from roofline.specs.workload import BETWEEN_TOKENS, LATENCIES, OF_REQUESTS, P99_WITHIN, is_on_mean, metric_and_level
from roofline.support.errors import Overloaded
from roofline.support.records import NamedTuple, replace

# Goodput: the largest rate at which an SLO is met, and the limit that binds there.
#
# A limit means what it means in a prediction: on the mean, or on the percentile that it names. A share of requests,
# where one is asked for, replaces the mean: so many must meet all limits without a percentile together.

#: What binds where every limit is met up to saturation.
SATURATION = "saturation"

#: What binds where a limited percentile is not known beyond.
NOT_KNOWN = "not known beyond"

#: Share of the saturation rate at which a server counts as idle.
LEAST = 2.0**-12

#: Share of the saturation rate below which a goodput is next to nothing.
IDLE = 0.05
#: Share of the saturation rate up to which rates are tried.
MOST = 0.999

_CLOSE = 2.0**-30
_SURELY_BELOW = 0.0099  # share of the requests beyond a time, with which it lies above the p99
_NEGLIGIBLE = 2.0**-40  # excess of a limit that counts as met
_SLACK = 2.0**-12  # relative, of a limit and of a rate, within which it binds


class Goodput(NamedTuple):
    rate: float  # [1/s] of the whole deployment; 0 where even an idle server misses a limit
    util: float  # rate / max_request_rate [1]
    max_request_rate: float  # [1/s] saturation
    binding: str  # key of the limit just met, or missed on an idle server; `SATURATION` or `NOT_KNOWN`
    attained: Mapping[str, float]  # share of requests within each limit; for `p99_within` the multiple [1]
    joint: float  # share of requests within all limits without a percentile [1]

    @property
    def is_idle(self) -> bool:
        """Whether next to nothing is answered, so that a price, or a change in percent, says nothing."""
        return self.util < IDLE

    @property
    def is_known(self) -> bool:
        """Whether it is the largest; otherwise a limited percentile is not known beyond."""
        return self.binding != NOT_KNOWN


class WithinLimits(NamedTuple):
    shares: dict[str, float]  # of requests within each limit by its key; for `p99_within` the multiple of the median
    joint: float  # share of requests within all limits without a percentile


class Loaded:
    """A deployment under a load: its means, and each further figure once, when it is asked for."""

    def __init__(
        self,
        deployment: Deployment,
        workload: Workload,
        correction: Correction = UNCORRECTED,
        means: Served | None = None,
    ) -> None:
        self.deployment, self.workload, self.correction = deployment, workload, correction
        self.means = served(deployment, workload) if means is None else means

    @cached_property
    def tails(self) -> Tails:
        """Distributions over the requests."""
        return tails(self.deployment, self.workload, self.means)

    @cached_property
    def mean_latencies(self) -> dict[str, float]:
        """Mean latencies, corrected by the measurement [s]."""
        found = limited_latencies(self.deployment, self.workload, LATENCIES, self.correction, self.means)
        return {name: float(time) for name, time in found.items()}

    def latencies(self, keys: Iterable[str]) -> dict[str, float]:
        """Latencies by the keys of limits [s], infinite where not known; p99 over median [1]."""
        found = {key: self._latency(key) for key in keys}
        return {key: float("inf") if is_nan(time) else time for key, time in found.items()}

    def _latency(self, key: str) -> float:
        metric, level = metric_and_level(key)
        if metric in BETWEEN_TOKENS and self.workload.osl <= 1.0:
            return 0.0  # a single token has none
        if level is None and metric != P99_WITHIN:
            return self.mean_latencies[metric]
        return float(of_tails(self.tails, self.means, self.mean_latencies, equal_steps(self.workload), key))

    def _p99_over_median(self, least: float) -> float:
        """The larger p99 over median of TTFT and TPOT [1], infinite where not known; a lower bound where below `least`.

        Fewer than 1 % of the requests beyond a time prove that the p99 is below it.
        """
        means = {**_latencies(self.deployment, self.workload, self.means), "tpot": self.mean_latencies["tpot"]}
        names = [name for name in ("ttft", "tpot") if means[name] > 0.0]  # a single token has no TPOT
        medians = [float(latency_percentile(self.tails, means, 0.0, name, 50.0)) for name in names]
        if any(map(is_nan, medians)):
            return float("inf")
        largest = 1.0
        for name, median in zip(names, medians, strict=True):
            beyond = float(survival(getattr(self.tails, name), max(least, largest) * median))
            if beyond > _SURELY_BELOW:
                largest = max(largest, float(latency_percentile(self.tails, means, 0.0, name, 99.0)) / median)
        return largest

    def within(self, slo: Mapping[str, float], share: float | None) -> WithinLimits:
        """As `attained`."""
        raw = _latencies(self.deployment, self.workload, self.means)
        factors = None
        if self.correction != UNCORRECTED:
            factors = {name: self.mean_latencies[name] / raw[name] for name in OF_REQUESTS}
            factors["itl"] = factors["tpot"]
        return shares_within(self.tails, slo, self.workload, raw, share, factors)

    def exceeded(self, slo: Mapping[str, float], share: float | None) -> dict[str, float]:
        """By how much each limit is exceeded [1]; with a share, limits without a percentile by the requests missing.

        Of a p99 over its median that another limit exceeds, a lower bound.
        """
        together = {} if share is None else {key: slo[key] for key in slo if key in OF_REQUESTS}
        apart = [key for key in slo if key not in together]
        times = self.latencies(key for key in apart if key != P99_WITHIN)
        if P99_WITHIN in slo:
            worst = max((time / slo[key] for key, time in times.items()), default=0.0)
            times[P99_WITHIN] = self._p99_over_median(worst * slo[P99_WITHIN])
        over = {key: times[key] / slo[key] - 1.0 for key in apart}
        if share is not None and together:
            over |= _missing(self.within(together, share), share)
        return over


def attained(
    deployment: Deployment,
    workload: Workload,
    slo: Mapping[str, float],
    means: Served,
    share: float | None = None,
    correction: Correction = UNCORRECTED,
) -> WithinLimits:
    r"""Shares of requests that meet their limits.

    .. math:: s = P(TTFT \le t,\ TPOT \le g,\ E2EL \le e)

    TTFT and TPOT of a request are taken as independent; its E2EL depends on both (`joint_share`).

    Args:
        deployment: model, GPU, plan, quantization, basis, engine and replicas.
        workload: lengths and load.
        slo: limits by their keys [s].
        means: mean latencies under the load.
        share: that is required, at which the distributions must hold; None: at their medians [1].
        correction: from a measurement of this deployment.

    Returns:
        Share within each limit by its key, for `p99_within` the multiple of the median; and the share s within all
        limits without a percentile [1]. NaN where the distribution contradicts its mean (`latency_percentile`).

    Source:
        Goodput and SLO attainment: Zhong et al., "DistServe", OSDI 2024.
    """
    return Loaded(deployment, workload, correction, means).within(slo, share)


def shares_within(
    tails: Tails,
    slo: Mapping[str, float],
    workload: Workload,
    means: Mapping[str, float],
    share: float | None = None,
    factors: Mapping[str, float] | None = None,
) -> WithinLimits:
    """Shares as `attained` returns them, from the distributions of the latencies; factors correct each latency.

    `means` are those that the distributions stand for [s].
    """
    is_single = workload.osl <= 1.0
    means = {**means, "tpot": 0.0} if is_single else means
    steps, usual = equal_steps(workload), 50.0 if share is None else 100.0 * share

    def is_unknown(metric: str, level: float | None) -> bool:
        return bool(is_nan(latency_over_requests(tails, means, steps, metric, usual if level is None else level)))

    shares: dict[str, float] = {}
    together: dict[str, float] = {}
    for key, limit in slo.items():
        metric, level = metric_and_level(key)
        if metric == P99_WITHIN:
            shares[key] = float(latency_over_requests(tails, means, steps, metric, level))
        elif metric in BETWEEN_TOKENS and is_single:
            shares[key] = 1.0
        else:
            bound = limit if factors is None else limit / factors[metric]
            shares[key] = share_within(tails, metric, bound)
            if is_unknown(metric, level):
                shares[key] = float("nan")
            if level is None and metric in OF_REQUESTS:
                together[metric] = bound
    unknown = any(is_nan(share) for key, share in shares.items() if key in LATENCIES)
    return WithinLimits(shares, float("nan") if unknown else joint_share(tails, together))


def largest_rate(
    deployment: Deployment,
    workload: Workload,
    slo: Mapping[str, float],
    share: float | None = None,
    correction: Correction = UNCORRECTED,
) -> Goodput:
    """Largest rate of Poisson arrivals at which an SLO is met.

    Args:
        deployment: model, GPU, plan, quantization, basis, engine and replicas.
        workload: lengths; its load is ignored.
        slo: limits by their keys, at least one [s].
        share: of requests that must meet all limits without a percentile together; None for limits on means [1].
        correction: from a measurement of this deployment.

    Returns:
        The rate, and what binds.

    Valid:
        As `roofline.serving.load.tails`.

    Source:
        docs/method.md, "Goodput".
    """
    return rates(deployment, workload, slo, share, correction).largest()


def rates(
    deployment: Deployment,
    workload: Workload,
    slo: Mapping[str, float],
    share: float | None = None,
    correction: Correction = UNCORRECTED,
) -> Rates:
    """The search of `largest_rate`, with the same arguments."""
    idle = replace(workload, load=Rate(1.0))
    saturation_rate = float(capacity(deployment, idle))

    @cache
    def at(util: float) -> Loaded:
        return Loaded(deployment, replace(idle, load=Rate(util * saturation_rate)), correction)

    def excesses(util: float) -> dict[str, float] | None:
        return at(util).exceeded(slo, share) if at(util).means.is_stable else None

    def within(util: float) -> WithinLimits:
        return at(util).within(slo, share) if at(util).means.is_stable else WithinLimits({}, 0.0)

    on_means = {key: limit for key, limit in slo.items() if key in LATENCIES and is_on_mean(key, share)}

    def misses_a_mean(util: float) -> bool:
        return not at(util).means.is_stable or any(over > 0.0 for over in at(util).exceeded(on_means, None).values())

    return Rates(excesses, within, saturation_rate, misses_a_mean)


def misses_alone(
    deployment: Deployment,
    workload: Workload,
    slo: Mapping[str, float],
    share: float | None = None,
    correction: Correction = UNCORRECTED,
) -> bool:
    """Whether a request of mean lengths misses a limit on a mean without a load, as it then does at every rate."""
    alone = replace(workload, load=Burst(), lengths=None, cold_start=None)
    on_means = [key for key in slo if key in LATENCIES and is_on_mean(key, share)]
    times = limited_latencies(deployment, alone, on_means, correction)
    return any(times[key] > slo[key] for key in on_means)


_PROBED = (0.1, 0.3, 0.5, 0.7, 0.85, 0.95, MOST)  # shares of the saturation rate between which limits are narrowed


class Rates:
    """Rates at which an SLO is met, as shares of the saturation rate."""

    def __init__(
        self,
        excesses: Callable[[float], dict[str, float] | None],
        within: Callable[[float], WithinLimits],
        saturation_rate: float,
        misses_a_mean: Callable[[float], bool] = lambda _: False,
    ) -> None:
        """Functions of a share of the saturation rate [1/s].

        `excesses` gives by how much each limit is exceeded, infinite where that is not known, None without a steady
        state; `within` the shares of requests; `misses_a_mean` whether a mean exceeds its limit, as it then does at
        every larger rate.
        """
        self._excesses, self._within, self._most = cache(excesses), within, saturation_rate
        self._misses_a_mean = misses_a_mean
        self._steps = self._brackets()
        self.low, self.high = 0.0, MOST * saturation_rate  # bounds of the largest rate so far [1/s]
        self._seen: dict[float, str] = {}  # share -> limit exceeded most there
        self._unknown: set[float] = set()  # shares at which a limited percentile is not known
        self._unstable: set[float] = set()  # shares without a steady state

    def largest(self) -> Goodput:
        """The largest rate at which no limit is exceeded."""
        met, missed = self._range()
        if not met:
            return self._answer(LEAST, 0.0)
        if missed is None:
            return self._answer(met, met * self._most)._replace(binding=SATURATION)
        return self._between(met, missed)

    def exceeds(self, other: Rates, ratio: float) -> bool:
        """Whether the largest rate is above `ratio` times another; both are narrowed as far as it takes to tell."""
        if self._misses_a_mean(other.low * ratio / self._most):
            return False
        while self.low <= ratio * other.high and ratio * other.low < self.high:
            wider = self if self.high - self.low >= ratio * (other.high - other.low) else other
            if wider.low == wider.high:
                break
            wider.narrow()
        return self.low > ratio * other.low

    @property
    def is_positive(self) -> bool:
        """Whether any rate meets the SLO."""
        if not self.low:
            self.narrow()
        return self.low > 0.0

    def narrow(self) -> None:
        """Bring the bounds of the largest rate closer together, by a step."""
        low, high = next(self._steps, (self.low, self.low))
        self.low, self.high = low, high

    def _brackets(self) -> Iterator[tuple[float, float]]:
        """Bounds of the largest rate [1/s], each pair within the one before."""
        most = self._most
        met, missed = self._range()
        if not met or missed is None:
            yield met * most, met * most
            return
        ends = (met, self._shortfall(met)), (missed, self._shortfall(missed))
        for low, high in narrowing(self._shortfall, *ends, _NEGLIGIBLE):
            yield low * most, high * most

    def _range(self) -> tuple[float, float | None]:
        """The last share probed at which the SLO is met, and the next, at which it is not; 0 where it never is met."""
        met, over = LEAST, self._shortfall(LEAST)
        if over > 0.0 and self._seen[LEAST] != P99_WITHIN:
            return 0.0, LEAST
        for util in _PROBED:
            missing = self._shortfall(util)
            if missing > 0.0 >= over:
                return met, util
            met, over = util, missing
        return (met, None) if over <= 0.0 else (0.0, MOST)

    def _between(self, met: float, missed: float) -> Goodput:
        """The largest rate between two shares, at the first of which the SLO is met."""
        shortfall = self._shortfall
        util = narrowed(shortfall, (met, shortfall(met)), (missed, shortfall(missed)), _NEGLIGIBLE)
        missing = shortfall(util)
        if missing > _NEGLIGIBLE:
            util *= 1.0 - _CLOSE
            missing = shortfall(util)
        if missing > _NEGLIGIBLE:  # a limit that comes and goes
            util = met
            missing = shortfall(util)
        best = self._answer(util, util * self._most)
        just_above = util * (1.0 + _SLACK)
        is_jump = missing < -_SLACK
        if is_jump and any(share < just_above for share in self._unstable):
            return best._replace(binding=SATURATION)
        if any(met < share < just_above for share in self._unknown):
            return best._replace(binding=NOT_KNOWN)
        return (
            best._replace(binding=self._seen[min(above for above in self._seen if above > util)]) if is_jump else best
        )

    def _shortfall(self, util: float) -> float:
        exceeded = self._excesses(util)
        if exceeded is None:
            self._unstable.add(util)
            self._seen[util] = SATURATION
            return 1.0
        binding = self._seen[util] = max(exceeded, key=lambda key: exceeded[key])
        if exceeded[binding] == float("inf"):
            self._unknown.add(util)
        return exceeded[binding]

    def _answer(self, util: float, rate: float) -> Goodput:
        return Goodput(rate, rate / self._most, self._most, self._seen[util], *self._within(util))


def share_verdict(
    deployment: Deployment,
    workload: Workload,
    slo: Mapping[str, float],
    share: float,
    correction: Correction = UNCORRECTED,
) -> dict[str, Json]:
    """Whether a share of requests meets all limits without a percentile together, as keys of a row.

    Empty where no limit applies.
    """
    if workload.osl <= 1.0 and all(metric_and_level(key)[0] in BETWEEN_TOKENS for key in slo):
        return {}
    loaded = Loaded(deployment, workload, correction)
    if not loaded.means.is_stable:
        return {"slo_met": False, "slo_verdict": FAIL, "slo_reason": Overloaded.short}
    over = loaded.exceeded(slo, share).values()
    if any(excess > 0.0 for excess in over if excess != float("inf")):
        return {"slo_met": False, "slo_verdict": UNLIKELY, "slo_reason": IN_RANGE}
    if float("inf") in over:
        return {"slo_met": False, "slo_verdict": None, "slo_reason": UNKNOWN}
    return {"slo_met": True, "slo_verdict": LIKELY, "slo_reason": IN_RANGE}


def _latencies(decoding: Deployment, workload: Workload, means: Served | Pooled) -> dict[str, float]:
    """Mean latencies, not corrected by a measurement [s]."""
    gap = mean_gap(decoding, workload, means.tpot, means.decode)
    return {"ttft": means.ttft, "tpot": means.tpot, "itl": gap, "e2el": means.ttft + means.decode}


def _missing(within: WithinLimits, share: float) -> dict[str, float]:
    """Share of requests missing under the limit that fewest meet [1]; infinite where that is not known."""
    unknown = [key for key, met in within.shares.items() if is_nan(met)]
    if unknown:
        return {unknown[0]: float("inf")}
    return {min(within.shares, key=lambda key: within.shares[key]): share - within.joint}


# Goodput of separate prefill and decode pools, and the TPOT limits at which one pool overtakes them.

# Shares of the largest rate.
_CURVE = (LEAST, 0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 0.99)


class Crossover(NamedTuple):
    """A TPOT limit at which one way of serving overtakes the other."""

    tpot: float  # [s]
    rate: float  # [1/s] of both
    to_pools: bool  # separate pools answer more at looser limits


def pool_goodput(pools: Pools, workload: Workload, slo: Mapping[str, float], share: float | None = None) -> Goodput:
    """Largest rate of Poisson arrivals at which two pools meet an SLO.

    Args:
        pools: both deployments and the link.
        workload: lengths; its load is ignored.
        slo: limits by their keys, at least one [s].
        share: of requests that must meet all limits without a percentile together; None for limits on means [1].

    Returns:
        The rate, and what binds.

    Valid:
        As `roofline.serving.load.pools.pool_tails`.

    Source:
        docs/method.md, "Goodput".
    """
    idle = replace(workload, load=Rate(1.0))
    saturation_rate = float(pooled(pools, idle).max_request_rate)
    together = () if share is None else tuple(key for key in slo if key in OF_REQUESTS)

    def tails_at(util: float) -> tuple[Pooled, Tails] | None:
        loaded = replace(idle, load=Rate(util * saturation_rate))
        means = pooled(pools, loaded)
        return (means, pool_tails(pools, loaded, means)) if means.is_stable else None

    def excesses(util: float) -> dict[str, float] | None:
        known = tails_at(util)
        if known is None:
            return None
        times = pool_latencies(pools, *known, idle, [key for key in slo if key not in together])
        exceeded = {key: time / slo[key] - 1.0 for key, time in times.items()}
        if share is not None and together:
            limits = {key: slo[key] for key in together}
            exceeded |= _missing(
                shares_within(known[1], limits, idle, _latencies(pools.decode, idle, known[0]), share), share
            )
        return exceeded

    def within(util: float) -> WithinLimits:
        known = tails_at(util)
        return (
            WithinLimits({}, 0.0)
            if known is None
            else shares_within(known[1], slo, idle, _latencies(pools.decode, idle, known[0]), share)
        )

    return Rates(excesses, within, saturation_rate).largest()


def pool_latencies(
    pools: Pools, means: Pooled, tails: Tails, workload: Workload, keys: Iterable[str]
) -> dict[str, float]:
    """Latencies of two pools by the keys of limits [s], infinite where not known; p99 over median [1]."""
    tpot = means.tpot if workload.osl > 1.0 else 0.0
    means_of = {**_latencies(pools.decode, workload, means), "tpot": tpot}
    steps = equal_steps(workload)
    known = {key: float(latency_over_requests(tails, means_of, steps, *metric_and_level(key))) for key in keys}
    if workload.osl <= 1.0:
        known |= {key: 0.0 for key in known if metric_and_level(key)[0] in BETWEEN_TOKENS}  # one token has none
    return {key: float("inf") if is_nan(time) else time for key, time in known.items()}


def crossovers(
    pools: Pools, replica: Deployment, workload: Workload, replicas: float, width: float = 1.0
) -> tuple[list[Crossover], float, float]:
    """Limits on the mean TPOT at which two pools and one pool of the same price have the same throughput.

    Args:
        pools: both deployments and the link.
        replica: of the single pool.
        workload: lengths.
        replicas: of the single pool; may be a fraction [1].
        width: high over low end of the 80 % interval of TPOT [1].

    Returns:
        The crossings by rising TPOT, without ranges of limits that are narrower than that interval; the largest rates
        of the two pools and of the single pool [1/s].

    Source:
        Linear interpolation of both curves of TPOT over the rate.
    """
    idle = replace(workload, load=Rate(1.0))
    one_pool_rate = float(capacity(replica, idle)) * replicas
    two_pools_rate = float(pooled(pools, idle).max_request_rate)

    def of_one(rate: float) -> float:
        means = served(replica, replace(idle, load=Rate(rate / replicas)))
        return float(means.tpot) if means.is_stable else float("inf")

    def of_pools(rate: float) -> float:
        means = pooled(pools, replace(idle, load=Rate(rate)))
        return float(means.tpot) if means.is_stable else float("inf")

    two_pools, one_pool = _tpot_curve(of_pools, two_pools_rate), _tpot_curve(of_one, one_pool_rate)
    if not two_pools or not one_pool:
        return [], two_pools_rate, one_pool_rate
    ends = sorted({tpot for tpot, _ in (*two_pools, *one_pool)})
    crossings: list[Crossover] = []
    for low, high in pairwise(ends):
        before, after = (_rate_within(two_pools, end) - _rate_within(one_pool, end) for end in (low, high))
        if (before > 0.0) != (after > 0.0) and after != before:
            share = before / (before - after)
            tpot = low + share * (high - low)
            crossings.append(Crossover(tpot, _rate_within(two_pools, tpot), after > 0.0))
    return wide_ranges(crossings, ends[0], width), two_pools_rate, one_pool_rate


def wide_ranges(crossings: Sequence[Crossover], least: float, width: float) -> list[Crossover]:
    """Crossings between ranges of limits [s] whose ends differ by a factor of at least `width`; `least`: the lowest.

    A narrower range falls to the way of serving that answers more on both sides of it; the first, to the next one.

    >>> narrow = [Crossover(2.0, 1.0, True), Crossover(8.0, 1.0, False), Crossover(8.1, 1.0, True)]
    >>> [crossing.tpot for crossing in wide_ranges(narrow, 1.0, 1.5)]
    [2.0]
    >>> wide_ranges(narrow[:1], 1.9, 1.5)
    []
    """
    kept = list(crossings)
    while kept:
        ends = [least, *(crossing.tpot for crossing in kept)]
        narrowest = min(range(len(kept)), key=lambda place: ends[place + 1] / ends[place])
        if ends[narrowest + 1] / ends[narrowest] >= width:
            break
        del kept[max(narrowest - 1, 0) : narrowest + 1]
    return kept


def _tpot_curve(tpot_at: Callable[[float], float], largest_rate: float) -> list[tuple[float, float]]:
    """Pairs of mean TPOT [s] and rate [1/s], both rising."""
    points: list[tuple[float, float]] = []
    for share in _CURVE:
        tpot = tpot_at(share * largest_rate)
        if tpot == float("inf"):
            break
        if not points or tpot > points[-1][0]:
            points.append((tpot, share * largest_rate))
    return points


def _rate_within(points: Sequence[tuple[float, float]], limit: float) -> float:
    """Rate at which the mean TPOT just meets a limit; 0 if an idle server misses it."""
    if limit < points[0][0]:
        return 0.0
    for (low, near), (high, far) in pairwise(points):
        if limit <= high:
            return near + (limit - low) / (high - low) * (far - near)
    return points[-1][1]
