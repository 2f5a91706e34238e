"""A step-by-step simulation of a server, compared with the closed forms."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import cached_property
from math import isfinite
from statistics import fmean
from typing import TYPE_CHECKING, Unpack, overload

from roofline.numbers.operations import Json
from roofline.numbers.quantity import MILLI, counted, rounded, to_text
from roofline.questions.inputs.arguments import number, one_case, whole
from roofline.questions.inputs.options import understood
from roofline.questions.predict import predicted
from roofline.serving.answers import Answer, selected
from roofline.serving.latency import UNIFORM, Lengths, lanes, lengths_by_law
from roofline.serving.load.equations import not_simulated, server_of
from roofline.serving.load.sessions import tier_tokens
from roofline.serving.load.simulation import (
    MOST_EVENTS,
    QUICK,
    Arrivals,
    Finished,
    intervals,
    simulated,
    simulated_latencies,
)
from roofline.serving.load.steady import served
from roofline.serving.prediction import Prediction
from roofline.serving.shown import row
from roofline.specs.gpu import Gpu
from roofline.specs.keys import LATENCY_NAMES, OVER, Key, Keys, cells
from roofline.specs.load import LASTING
from roofline.specs.model import Model
from roofline.specs.workload import LATENCIES, LEVELS, OF_REQUESTS, key_of, key_text, metric_and_level
from roofline.support.errors import BadInput, OverloadedAtTimes
from roofline.support.records import dataclass, field, replace

if TYPE_CHECKING:
    from roofline.questions.inputs.signatures import Case


#: What a simulation measures, in display order.
SIMULATED = ("ttft", "tpot", "itl", "e2el", "queue", "concurrency", "request_rate")

__all__ = ["QUICK"]

_PERCENTILES = tuple(key_of(name, level) for name in LATENCIES for level in LEVELS)


def _mean(name: str) -> Callable[[Simulation], float | None]:
    return lambda s: _milliseconds(getattr(s, name))


def _end(name: str, place: int) -> Callable[[Simulation], float | None]:
    return lambda s: _milliseconds(s.intervals[name][place]) if name in s.intervals else None


def _percentile(key: str) -> Callable[[Simulation], float | None]:
    return lambda s: _milliseconds(s.percentiles.get(key))


#: Keys of a row in addition to those of a prediction.
SIMULATED_KEYS: Keys[Simulation] = {
    **{
        f"simulated_{name}_ms": Key.number("ms", f"{text}, mean over the {OVER[name]} of the simulation.", _mean(name))
        for name, text in LATENCY_NAMES.items()
    },
    "simulated_queue_ms": Key.number("ms", "Mean wait before anything of a prompt is computed.", _mean("queue")),
    **{
        f"simulated_{key}_ms": Key.number(
            "ms", f"{key_text(key)} over the {OVER[metric_and_level(key)[0]]} of the simulation.", _percentile(key)
        )
        for key in _PERCENTILES
    },
    **{
        f"simulated_{name}_{end}_ms": Key.number(
            "ms",
            f"{end.capitalize()} end of the 95 % interval of that mean; null for a run, or for few requests.",
            _end(name, place),
        )
        for name in OF_REQUESTS
        for place, end in enumerate(("low", "high"))
    },
    "simulated_concurrency": Key.number(
        "requests", "Mean requests in flight in the simulation.", lambda s: s.concurrency
    ),
    "simulated_request_rate": Key.number(
        "1/s", "Requests per second answered in the simulation.", lambda s: s.request_rate
    ),
    "simulated_requests": Key.integer("requests", "Requests counted, of one rank.", lambda s: s.requests),
    "seed": Key.integer("1", "Seed of the random numbers."),
}

_USERS_SPREAD = 0.3  # equal lengths would keep users in step forever
_UNITS = {"ttft": "s", "tpot": "s", "itl": "s", "e2el": "s", "queue": "s"}
_NAMES = {"ttft": "TTFT", "tpot": "TPOT", "itl": "ITL", "e2el": "E2EL", "queue": "queue", "concurrency": "in flight",
          "request_rate": "requests/s"}  # fmt: skip


@dataclass(frozen=True, repr=False)
class Simulation(Answer[dict[str, Json]]):
    """Means over the requests of a simulation, and the closed forms of the same case.

    >>> import roofline as rl
    >>> result = rl.simulate("llama-3.1-8b", "h100-sxm", request_rate=1.0, requests=50, basis="ideal")
    >>> result.requests, 0.9 < result.ratio("tpot") < 1.1, result.to_dict()["seed"]
    (50, True, 0)
    """

    prediction: Prediction = field(repr=False)
    requests: int  # counted, of one rank
    seed: int
    lengths: Lengths  # their spread about the means
    ttft: float  # [s]
    tpot: float | None  # [s] mean over requests; None for single tokens
    itl: float | None  # [s] mean over the gaps of all requests; None for single tokens
    e2el: float  # [s]
    queue: float  # [s] before the first chunk of a prompt is computed
    concurrency: float  # [requests] in flight on the whole deployment
    request_rate: float  # [1/s] answered by the whole deployment
    percentiles: Mapping[str, float]  # [s] by the keys of limits, such as `ttft_p99`
    intervals: Mapping[str, tuple[float, float]]  # [s] 95 % intervals of means in steady state, such as of `ttft`

    @cached_property
    def alike(self) -> Prediction:
        """The prediction for the simulated lengths; those of users differ where the case states no spread."""
        deployment, workload = self.prediction.deployment, replace(self.prediction.workload, lengths=self.lengths)
        if self.lengths.is_fixed or self.prediction.workload.lengths is not None:
            return self.prediction
        return replace(self.prediction, workload=workload, served=served(deployment, workload))

    @property
    def is_answered(self) -> bool:
        """Whether the closed forms have an answer too."""
        return self.prediction.served is None or bool(self.prediction.served.is_stable)

    def ratio(self, name: str) -> float | None:
        """Closed form over simulation [1]; None where either does not apply."""
        if not self.is_answered:
            return None
        closed = self.alike.latency(name) if name in self.percentiles else getattr(self.prediction, name)
        mean = self.percentiles[name] if name in self.percentiles else getattr(self, name)
        return None if closed is None or not mean else float(closed) / mean

    def to_dict(self, keys: Iterable[str] | None = None) -> dict[str, Json]:
        """Flat row: the keys of a prediction, and the means of the simulation.

        Args:
            keys: the keys to keep; None for all.
        """
        closed = row(self.prediction)
        if not self.is_answered:
            closed = {key: None if isinstance(value, float) and not isfinite(value) else value
                      for key, value in closed.items()}  # fmt: skip
        return selected({**closed, **cells(SIMULATED_KEYS, self)}, keys)

    def __repr__(self) -> str:
        pairs = {"TTFT": (self.ttft, self.prediction.ttft), "TPOT": (self.tpot, self.prediction.tpot)}
        times = ", ".join(
            f"{name} {to_text(mean, 's')} (closed form {to_text(closed, 's')})"
            for name, (mean, closed) in pairs.items()
            if mean is not None and closed is not None
        )
        return f"<Simulation of {counted(self.requests, 'request')}, seed {self.seed}: {times}>"

    @property
    def brief(self) -> str:
        """Means with their 95 % intervals and p99 of TTFT and TPOT, the requests and the seed, in a sentence."""
        figures = []
        for name in ("ttft", "tpot"):
            mean, p99 = getattr(self, name), self.percentiles.get(key_of(name, 99.0))
            if mean is not None:
                tail = "" if p99 is None else f", p99 {to_text(p99, 's')}"
                figures.append(f"{_NAMES[name]} {to_text(mean, 's')}{self._width(name)}{tail}")
        sure = "; 95 % intervals" if self.intervals else ""
        return f"{'; '.join(figures)} ({counted(self.requests, 'request')}, seed {self.seed}{sure})"

    def _width(self, name: str) -> str:
        """Half width of the interval of a mean, as text; empty without one."""
        if name not in self.intervals:
            return ""
        low, high = self.intervals[name]
        return f" +-{rounded(50.0 * (high - low) / getattr(self, name))} %"

    def __str__(self) -> str:
        lines = [f"{'':<12}{'closed form':>12}{'simulation':>12}{'ratio':>8}"]
        for name in SIMULATED:
            closed, mean, ratio = getattr(self.prediction, name), getattr(self, name), self.ratio(name)
            if name != "queue" and (ratio is not None or (mean is not None and not self.is_answered)):
                cells = ("-", _text(mean, name), "-")
                if ratio is not None:
                    cells = (_text(closed, name), _text(mean, name), f"{ratio:.3f}")
                lines.append(f"{_NAMES[name]:<12}{cells[0]:>12}{cells[1]:>12}{cells[2]:>8}")
        for name, time in self.percentiles.items():
            closed, ratio = self.alike.latency(name) if self.is_answered else None, self.ratio(name)
            closed_text = "-" if closed is None else _text(float(closed), "ttft")
            ratio_text = "-" if ratio is None else f"{ratio:.3f}"
            metric, level = name.split("_")
            lines.append(f"{f'{metric.upper()} {level}':<12}{closed_text:>12}{_text(time, 'ttft'):>12}{ratio_text:>8}")
        process = self.prediction.workload.arrivals
        of = "one rank" if process is None else "a rank of every replica"
        come = "" if process is None else f"; {process}"
        lines.append(f"{counted(self.requests, 'request')} of {of}, seed {self.seed}, lengths {self.lengths}{come}")
        if self.intervals:
            ends = ", ".join(f"{_NAMES[name]}{self._width(name)}" for name in self.intervals)
            lines.append(f"95 % intervals of means: {ends}")
        return "\n".join(lines)


@overload
def simulate(
    model: Prediction,
    *,
    requests: int | None = None,
    seed: int = 0,
    spread: float | None = None,
    progress: Callable[[int], None] | None = None,
) -> Simulation: ...
@overload
def simulate(
    model: str | Model,
    gpu: str | Gpu,
    *,
    requests: int | None = None,
    seed: int = 0,
    spread: float | None = None,
    progress: Callable[[int], None] | None = None,
    **options: Unpack[Case],
) -> Simulation: ...
@understood
def simulate(
    model: str | Model | Prediction,
    gpu: str | Gpu | None = None,
    *,
    requests: int | None = None,
    seed: int = 0,
    spread: float | None = None,
    progress: Callable[[int], None] | None = None,
    **options: Unpack[Case],
) -> Simulation:
    """A server simulated step by step under a load, compared with the closed forms.

    Args:
        model: name, alias or record; or a prediction, in place of GPU and options.
        gpu: name, alias, pool such as ``8xh100`` or ``b200:tp4:fp8``, or record.
        requests: number of requests to count on one rank; None for enough, or for those of a run (`num_prompts`)
            [requests].
        seed: seed of the random numbers [1].
        spread: lengths are uniform between 1 - spread and 1 + spread times the mean, where the case states no spread;
            None for 0 under a rate, and for 0.3 with users, who would stay in step otherwise [1].
        progress: called now and then with the number of requests answered.
        options: keyword arguments of `predict`, with `concurrency` or `request_rate`; numbers, not arrays.

    Returns:
        Means of the simulation and the prediction.

    Raises:
        BadInput: a burst, an array, or an impossible number.
        RooflineError: as `predict` raises.

    >>> import roofline as rl
    >>> rl.simulate("llama-3.1-8b", "h100-sxm", concurrency=4, requests=50, basis="ideal").requests
    50
    """
    try:
        prediction = predicted("simulate", model, gpu, options)
    except OverloadedAtTimes as refusal:
        prediction = unanswered(refusal)
    return simulation(prediction, requests=requests, seed=seed, spread=spread, progress=progress)


def unanswered(refusal: OverloadedAtTimes) -> Prediction:
    """The case without times that closed forms refuse; refused again where nothing is known of it."""
    if not isinstance(refusal.prediction, Prediction):
        raise refusal
    return refusal.prediction


def simulation(
    prediction: Prediction,
    *,
    requests: int | None = None,
    seed: int = 0,
    spread: float | None = None,
    progress: Callable[[int], None] | None = None,
    events: int = MOST_EVENTS,
) -> Simulation:
    """`simulate` for a prediction that is already made, in at most about so many events."""
    arrivals = replace(arrivals_of(prediction, requests, seed, spread), events=events)
    deployment, workload = prediction.deployment, prediction.workload
    finished = simulated(server_of(deployment, workload), arrivals, progress)
    return _means(prediction, arrivals, finished)


def arrivals_of(prediction: Prediction, requests: int | None, seed: int, spread: float | None) -> Arrivals:
    """Arrivals at one rank; None: as many requests, and as wide a spread, as the load calls for."""
    workload, served = prediction.workload, prediction.served
    if served is None:
        raise BadInput(f"a burst is exact without simulation; give {' or '.join(LASTING)}")
    one_case("a simulation", served.ttft, "lengths and load")
    for words in not_simulated(prediction.deployment):
        raise BadInput(f"{words}: no simulation runs them; predict has the closed forms")
    whole("seed", seed)
    ranks = float(lanes(prediction.deployment))
    rate = workload.load.rate_on(ranks)
    users_per_rank = 1.0 if rate is not None else workload.load.users_on(ranks)  # fewer than ranks leave some idle
    users = round(users_per_rank)
    if users != users_per_rank:
        raise BadInput(
            f"a simulation has whole {workload.load.unit} on each rank: {workload.load.option} = "
            f"{workload.load.amount:g} over {ranks:g} makes {users_per_rank:g} of them; try {users * ranks:g}"
        )
    run = max(round(workload.num_prompts / ranks), users) if workload.load.is_run else None
    count = run if requests is None else int(number("requests", requests, 1.0, 10_000_000.0))
    lengths = workload.lengths
    if lengths is not None and spread is not None:
        raise BadInput("the case already has a spread; leave out spread")
    if lengths is None:
        usual_width = 0.0 if workload.load.is_open or workload.load.is_queue else _USERS_SPREAD
        width = usual_width if spread is None else number("spread", spread, 0.0, 1.0)
        lengths = lengths_by_law(UNIFORM, width / 3.0**0.5, width / 3.0**0.5)
    process, deployment, sessions = workload.arrivals, prediction.deployment, workload.sessions
    if sessions is not None and workload.cache is not None and workload.cache.hit is not None:
        raise BadInput("a simulation finds itself what turns find of their context; leave out cache_hit")
    tier = 0.0 if sessions is None else float(tier_tokens(deployment, workload))
    if process is None:
        return Arrivals(count, rate, users, run is not None, lengths, seed, sessions=sessions, tier=tier)
    replicas = int(deployment.replicas)
    return Arrivals(
        count, workload.request_rate, lengths=lengths, seed=seed, process=process, replicas=replicas,
        ranks=int(ranks) // replicas, sessions=sessions, tier=tier,
    )  # fmt: skip


def _means(prediction: Prediction, arrivals: Arrivals, finished: list[Finished]) -> Simulation:
    """Means over requests; rate and concurrency of all ranks, by Little's law."""
    deployment, workload = prediction.deployment, prediction.workload
    ranks = float(lanes(deployment))
    found = simulated_latencies(finished)
    e2el = found["e2el"]
    if workload.load.is_queue:
        rate = len(finished) * ranks / max(request.e2el for request in finished)
    else:
        rate = workload.concurrency / (e2el + workload.think) if arrivals.rate is None else workload.request_rate
    return Simulation(
        prediction=prediction,
        requests=len(finished),
        seed=arrivals.seed,
        lengths=arrivals.lengths,
        ttft=found["ttft"],
        tpot=found.get("tpot") if workload.osl > 1.0 else None,
        itl=found.get("itl") if workload.osl > 1.0 else None,
        e2el=e2el,
        queue=fmean(request.wait for request in finished),
        concurrency=rate * e2el,
        request_rate=rate,
        intervals={} if arrivals.is_burst else intervals(finished),
        percentiles={key: found[key] for key in _PERCENTILES if key in found and not arrivals.is_burst},
    )


def _text(value: float, name: str) -> str:
    return to_text(float(value), "s") if name in _UNITS else rounded(float(value))


def _milliseconds(time: float | None) -> float | None:
    return None if time is None else time / MILLI
