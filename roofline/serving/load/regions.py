"""Regions of loads: how far the closed forms are off there, against simulations with the same step times.

docs/load.md has the cases. `accuracy/build_load_page.py` writes it together with `region_errors.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from itertools import product
from typing import Any

from roofline.numbers.operations import Real, any_of, negated, where
from roofline.numbers.quantity import rounded
from roofline.physics.plan import Deployment
from roofline.serving.latency import BENCHMARK, UNDER_LOAD, Served, Workload
from roofline.serving.load.equations import MOST_UTIL, outside
from roofline.serving.load.region_errors import ERRORS
from roofline.serving.load.server import PROMPTS_FIRST
from roofline.serving.prompts import is_a_mixture
from roofline.specs.workload import JUDGED
from roofline.support.records import NamedTuple

#: Where a case lies: in the validated range, outside it, and at random arrivals above the utilization validated.
INSIDE, OUTSIDE, BEYOND = "inside", "outside", f"util above {100.0 * MOST_UTIL:.0f} %"
_RANGES = (INSIDE, OUTSIDE, BEYOND)
#: How long answers are.
SINGLE, SHORT, LONG = "1 token", "2 to 19 tokens", "20 tokens and more"
_ANSWERS = (SINGLE, SHORT, LONG)
_LONG = 20.0  # [tokens]
#: What comes to a server, and what it computes first.
ARRIVALS, USERS = "random arrivals", "users"
_ORDERS = ("decode first", PROMPTS_FIRST)
#: What has regions of its own, whatever else differs.
RUN, DRAFTS, CACHE, POOLS = "a run with its start", "speculative decoding", "prompt cache", "separate pools"
BUNCHED, ROUTED, SESSIONS = "arrivals that bunch", "a router's arrivals", "sessions"

#: Fewest cases from which errors are stated.
LEAST = 10


class Off(NamedTuple):
    """Errors |closed form / simulation - 1| of one latency; what is refused or not known counts as 1."""

    mean: float  # [1]
    most: float  # [1] of nine cases in ten


class Errors(NamedTuple):
    """Errors of the closed forms over the cases of a region; None for a latency that has no meaning there."""

    cases: int
    ttft: Off | None
    tpot: Off | None = None
    ttft_p99: Off | None = None
    tpot_p99: Off | None = None


@cache
def leaves() -> dict[str, tuple[str, ...]]:
    """All regions, each with the wider ones that stand for it where cases are too few, nearest first."""
    found: dict[str, tuple[str, ...]] = {}
    for load, order, answers, place in product((ARRIVALS, USERS), _ORDERS, _ANSWERS, _RANGES):
        if (load == ARRIVALS or place != BEYOND) and (answers != SINGLE or place != INSIDE):  # which none is
            wider = _name(load, answers, place), _name(load, place), place, OUTSIDE
            found[_name(load, order, answers, place)] = wider
    found |= {_name(RUN, answers, OUTSIDE): (_name(RUN, OUTSIDE), OUTSIDE) for answers in _ANSWERS}
    places = {
        **dict.fromkeys((DRAFTS, CACHE, BUNCHED, ROUTED), _RANGES),
        **dict.fromkeys((SESSIONS, POOLS), (INSIDE, OUTSIDE)),
    }
    return found | {_name(of, place): (of, place, OUTSIDE) for of in places for place in places[of]}


def region(deployment: Deployment, workload: Workload, under_load: Served) -> Any:
    """Name of the region whose errors are stated for each case; None for a queue and under overload.

    >>> import roofline as rl
    >>> p = rl.predict("llama-3.1-8b", "h100-sxm", isl=2000, osl=300, request_rate=2)
    >>> region(p.deployment, p.workload, p.served)
    'random arrivals, decode first, 20 tokens and more, inside'
    """
    return by_region(deployment, workload, under_load, nearest)


def by_region(
    deployment: Deployment, workload: Workload, under_load: Served, figure: Callable[[str], Any], without: Any = None
) -> Any:
    """A figure of the region of each case, by its name in `leaves`; `without` under overload."""
    if workload.load.is_queue:  # nothing but its equations: docs/method.md states their errors
        return without
    answers: dict[str, Real] = {SINGLE: workload.osl <= 1.0, SHORT: (workload.osl > 1.0) & (workload.osl < _LONG)}
    answers[LONG] = workload.osl >= _LONG
    kind = _name(ARRIVALS if workload.load.is_open else USERS, deployment.engine.scheduler)
    if workload.load.is_run:
        kind = RUN
    elif workload.sessions is not None:
        kind, answers = SESSIONS, {"": True}
    elif workload.arrivals is not None:
        kind, answers = ROUTED if workload.arrivals.is_poisson else BUNCHED, {"": True}
    elif deployment.draft is not None or is_a_mixture(workload.cache):
        kind, answers = CACHE if deployment.draft is None else DRAFTS, {"": True}  # too few to tell apart by length
    is_outside: Real = False
    for fails, _ in outside(deployment, workload, under_load):
        is_outside = is_outside | fails
    is_beyond = under_load.util > MOST_UTIL if workload.load.is_open else False
    if workload.sessions is not None:
        is_beyond = False
    places = {INSIDE: negated(is_outside), OUTSIDE: is_outside & negated(is_beyond), BEYOND: is_beyond}
    found = without
    for (place, lies_there), (length, is_so_long) in product(places.items(), answers.items()):
        is_it = under_load.is_stable & lies_there & is_so_long
        if any_of(is_it):
            found = where(is_it, figure(_name(kind, length, place)), found)
    return found


def pool_region(*, is_outside: bool) -> str:
    """The same of two pools."""
    return _name(POOLS, OUTSIDE if is_outside else INSIDE)


def nearest(name: str) -> str:
    """The region whose cases stand for one: itself, or a wider one where they are too few."""
    return name if name in ERRORS else next(wider for wider in leaves()[name] if wider in ERRORS)


def errors(name: str) -> Errors:
    """Errors of the closed forms in a region.

    >>> found = errors("random arrivals, decode first, 20 tokens and more, inside")
    >>> found.cases >= LEAST, found.ttft.mean < 0.1
    (True, True)
    """
    cases, *figures = ERRORS[nearest(name)]
    pairs = zip(figures[::2], figures[1::2], strict=True)
    return Errors(cases, *(None if mean is None or most is None else Off(mean, most) for mean, most in pairs))


def error_of(name: str, key: str) -> float:
    """What nine in ten cases of a region stay within [1]; NaN for a latency that has no meaning there."""
    off: Off | None = getattr(errors(name), key)
    return float("nan") if off is None else off.most


def domain(fails: Sequence[str], name: str | None) -> str:
    """A sentence on whether one case is inside the validated range, and on the errors in its region.

    Args:
        fails: failed conditions of the range.
        name: of the region; None under overload.
    """
    sentence = f"{UNDER_LOAD}: inside the validated range"
    if fails:
        sentence = f"{UNDER_LOAD}: outside the validated range ({', '.join(fails)})"
    if name is not None:
        sentence += f"; {errors_text(name)}"
    if fails:
        sentence += "; percentiles that contradict their mean are left out; compare with `simulate`"
    return sentence


def errors_text(name: str) -> str:
    """How far the closed forms are off in a region, in words."""
    found = errors(name)
    parts: list[str] = []
    for key in JUDGED:
        off = getattr(found, key)
        if off is not None:
            most = f"{_percent(off.most)}" if parts else f"90 % within {_percent(off.most)}"
            parts.append(f"{key.upper().replace('_P', ' p')} {_percent(off.mean)} ({most})")
    return (
        "closed form against a simulation with the same step times, not against GPUs, in "
        f"{found.cases} cases like this one ({nearest(name)}): mean error {', '.join(parts)}"
    )


def restated(
    warnings: Sequence[str], deployment: Deployment, workload: Workload, under_load: Served | None
) -> tuple[str, ...]:
    """Warnings of a case, with those on its load replaced for another deployment and workload; None: a burst."""
    other_warnings = tuple(text for text in warnings if not text.startswith((UNDER_LOAD, BENCHMARK)))
    if under_load is None or not under_load.is_stable:
        return other_warnings
    fails = [text for is_outside, text in outside(deployment, workload, under_load) if is_outside]
    return (*other_warnings, domain(fails, region(deployment, workload, under_load)))


def _name(*parts: str) -> str:
    return ", ".join(filter(None, parts))


def _percent(share: float) -> str:
    return f"{rounded(100.0 * share)} %"
