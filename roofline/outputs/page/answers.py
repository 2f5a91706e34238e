"""Answers as JavaScript: means under a load, what follows from them, percentiles, ranges, verdicts."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from types import SimpleNamespace
from typing import Any

from roofline.numbers.operations import where
from roofline.outputs.page.symbols import FRAME, Library, PageGraph, deployment_of, printed
from roofline.physics.memory import Memory
from roofline.physics.passes import Pass
from roofline.physics.plan import Deployment
from roofline.serving.knee import held_at_once, knees_of_steps
from roofline.serving.latency import Served, Workload
from roofline.serving.load.equations import _capacity, outside, served_by_formulas
from roofline.serving.load.regions import by_region, leaves, nearest
from roofline.serving.prediction import Prediction
from roofline.serving.verdict import (
    IN_RANGE,
    OUTSIDE,
    Limited,
    best_of,
    beyond,
    ends_of_percentile,
    limited_by,
    verdict,
    wider,
)
from roofline.specs.engine import PromptCache
from roofline.specs.load import Burst, Load, Rate, Users
from roofline.specs.workload import LATENCIES, LEVELS, OF_REQUESTS, key_of
from roofline.support.records import NamedTuple, replace
from roofline.symbolic.graph import Function

#: Loads of a page.
LOADS: tuple[type[Load], ...] = (Burst, Users, Rate)
SCHEDULERS = ("decode first", "prompts first")
#: Figures of `Served` that a page keeps: all but the state and whether it is stable, which come last.
SERVED = tuple(name for name in Served._fields if name not in ("state", "is_stable"))

_STATES: dict[type[Load], int] = {Users: 3, Rate: 2}  # numbers of `Served.state`
_FRAME: Any = SimpleNamespace(**dict.fromkeys(FRAME, 0), last=1)  # whose late layers are those of `e`


class Structure(NamedTuple):
    """What decides the form of the equations of a case."""

    load: type[Load]
    scheduler: str
    is_single: bool  # one data-parallel rank
    is_mixed: bool  # some requests find their prefix in the cache, others do not

    @property
    def name(self) -> str:
        """End of the names of its functions."""
        parts = self.load.option, self.scheduler.split()[0], "dp1" if self.is_single else "dp"
        return "_".join((*parts, *(["mixed"] if self.is_mixed else [])))


def structures(schedulers: Sequence[str] = SCHEDULERS) -> list[Structure]:
    """All of them, bursts apart."""
    return [
        Structure(load, scheduler, is_single, is_mixed)
        for load in LOADS[1:]
        for scheduler in schedulers
        for is_single in (True, False)
        for is_mixed in (False, True)
    ]


class _Asked(Pass):
    """A pass of a case, whose figures are calls."""

    __slots__ = ("_call",)

    def __init__(self, call: Callable[[str], tuple[Any, ...]]) -> None:
        super().__init__((), None)
        self._call = call

    def figures(self, read: Callable[[Pass], tuple[Any, ...]]) -> tuple[Any, ...]:
        """`read` of the pass, by its name."""
        return self._call(read.__name__.strip("_"))


class _Ranged(Prediction[Any, Any, Any]):
    """A prediction whose ranges are wider where constants come from elsewhere, or passes from servers."""

    def _sigma_of(self, result: str) -> Any:
        graph = self.workload.isl.graph
        sigma, served = graph.input("e.wider") * super()._sigma_of(result), graph.input(f"e.served_{result}")
        return where(served > 0.0, wider(sigma, served), sigma)


class Traced(NamedTuple):
    """A case of symbols."""

    graph: PageGraph
    deployment: Deployment
    workload: Workload


def traced(structure: Structure, sample: Deployment, library: Library) -> Traced:
    """A case of symbols: lengths and load are fields of `w`."""
    graph = PageGraph()
    graph.library = library
    home = deployment_of(graph, _FRAME)
    plan = replace(home.plan, dp=1) if structure.is_single else home.plan
    home = replace(home, plan=plan, engine=replace(home.engine, scheduler=structure.scheduler))
    ideal = replace(home, basis="ideal")
    home.memo["ideal"] = ideal
    graph.home, graph.ideal, graph.sample = home, ideal, sample
    isl, osl, prefix, amount = (graph.input(f"w.{name}") for name in ("isl", "osl", "prefix", "amount"))
    cache = PromptCache(hit=graph.input("w.hit")) if structure.is_mixed else None
    return Traced(graph, home, Workload(isl, osl, structure.load.of(amount), prefix, cache=cache))


def served_source(structure: Structure, sample: Deployment, library: Library) -> str:
    """Means under a load: `SERVED`, whether they are found, then the state."""
    case = traced(structure, sample, library)
    found = served_by_formulas(case.deployment, case.workload)
    outputs = [*(getattr(found, name) for name in SERVED), found.is_stable, *found.state]
    return printed(f"served_{structure.name}", outputs, ("e", "w"))


def predicted(structure: Structure, sample: Deployment, library: Library) -> tuple[Traced, Prediction]:
    """The prediction of a case whose means are fields of `s`."""
    case = traced(structure, sample, library)
    graph, under_load = case.graph, None
    if structure.load is not Burst:
        means = {name: graph.input(f"s.{name}") for name in SERVED}
        state = tuple(graph.input(f"s.state[{place}]") for place in range(_STATES[structure.load]))
        under_load = Served(**means, state=state, is_stable=True)

    def asked(name: str, home: str) -> _Asked:
        def call(read: str) -> tuple[Any, ...]:
            results = 5 if read == "bound_times" else 2 if read == "sides" else 1
            args = (graph.input(home), graph.input("w"), graph.input("s"))
            return graph.call(Function(f"{name}_{read}", results), args)

        return _Asked(call)

    held = Memory(*(graph.input(f"m[{place}]") for place in range(_HELD)))
    prediction = _Ranged(
        case.deployment, case.workload, asked("prompts", "e"), asked("step", "e"), memory=held, served=under_load,
        allow_oversize=True,
    )  # fmt: skip
    vars(prediction)["ideal"] = asked("prompts", "e.ideal"), asked("step", "e.ideal")
    return case, prediction


#: Uses of memory that the page knows: all but adapters.
_HELD = len(Memory._fields) - 1

#: Figures of an answer, in the order in which its function returns them.
FIGURES: dict[str, Callable[[Any], Any]] = {
    "ttft": lambda p: p.ttft,
    "tpot": lambda p: p._step,
    "itl": lambda p: p.itl,
    "e2el": lambda p: p.e2el,
    "ttft_low": lambda p: p.ttft_interval[0],
    "ttft_high": lambda p: p.ttft_interval[1],
    "tpot_low": lambda p: p.tpot_interval[0],
    "tpot_high": lambda p: p.tpot_interval[1],
    "itl_low": lambda p: p.itl_interval[0],
    "itl_high": lambda p: p.itl_interval[1],
    "e2el_low": lambda p: p.e2el_interval[0],
    "e2el_high": lambda p: p.e2el_interval[1],
    "concurrency": lambda p: p.concurrency,
    "request_rate": lambda p: p.request_rate,
    "max_request_rate": lambda p: p.max_request_rate,
    "util": lambda p: p.util,
    "queue": lambda p: p.queue,
    "running": lambda p: p.running,
    "waiting": lambda p: p.waiting,
    "output_tok_s": lambda p: p.output_tok_s,
    "output_tok_s_gpu": lambda p: p.output_tok_s_gpu,
    "decode_batch": lambda p: p.decode_batch,
    "usd_per_hour": lambda p: p.usd_per_hour,
    "usd_per_m_output_tok": lambda p: p.usd_per_m_output_tok,
    "ideal_ttft": lambda p: p._least["ttft"],
    "ideal_tpot": lambda p: p._least["tpot"],
    "ideal_itl": lambda p: p._least["itl"],
    "ideal_e2el": lambda p: p._least["e2el"],
}


def figures_source(structure: Structure, sample: Deployment, library: Library) -> str:
    """`FIGURES` of a case."""
    _, prediction = predicted(structure, sample, library)
    found = (read(prediction) for read in FIGURES.values())
    outputs = [float("nan") if each is None else each for each in found]
    return printed(f"figures_{structure.name}", outputs, ("e", "w", "s", "m"))


#: Percentiles of a page.
PERCENTILES = tuple((metric, level) for metric in LATENCIES for level in LEVELS)


def percentiles_source(structure: Structure, sample: Deployment, library: Library) -> str:
    """`PERCENTILES` of a case [s]; NaN where one is not known."""
    _, prediction = predicted(structure, sample, library)
    outputs = [prediction._latency(key_of(metric, level)) for metric, level in PERCENTILES]
    return printed(f"percentiles_{structure.name}", outputs, ("e", "w", "s", "m"))


class Answers(NamedTuple):
    """Programs of all answers."""

    sources: list[str]
    names: list[str]
    conditions: dict[str, list[str]]  # words for what `outside_...` says, by the end of its name


def printed_answers(sample: Deployment, library: Library) -> Answers:
    """Programs of all structures."""
    found = Answers(common_sources(sample, library), [], {})
    bursts = [Structure(Burst, SCHEDULERS[0], is_single=False, is_mixed=is_mixed) for is_mixed in (False, True)]
    for structure in (*bursts, *structures()):
        parts = {"figures": figures_source, "percentiles": percentiles_source}
        if structure.load is not Burst:
            parts |= {"served": served_source, "capacity": capacity_source}
            if structure.load is Users and not structure.is_mixed:
                parts["benchmark"] = benchmark_source
            source, words = domain_source(structure, sample, library)
            found.sources.append(source)
            found.names.append(f"outside_{structure.name}")
            found.conditions[structure.name] = words
        found.sources.extend(source_of(structure, sample, library) for source_of in parts.values())
        found.names.extend(f"{name}_{structure.name}" for name in parts)
    return found


def benchmark_source(structure: Structure, sample: Deployment, library: Library) -> str:
    """Mean TTFT of a benchmark of so many prompts that all users begin together [s]."""
    case = traced(structure, sample, library)
    start = [case.graph.input(f"s.state[{place}]") for place in range(_STATES[Users])]
    run = Users(case.workload.concurrency, case.graph.input("prompts"))
    found = served_by_formulas(case.deployment, replace(case.workload, load=run), start)
    return printed(f"benchmark_{structure.name}", [found.ttft], ("e", "w", "s", "prompts"))


def domain_source(structure: Structure, sample: Deployment, library: Library) -> tuple[str, list[str]]:
    """The region of a load, whether each condition of the validated range fails; and the words for these."""
    _, prediction = predicted(structure, sample, library)
    under_load: Any = prediction.served
    case = prediction.deployment, prediction.workload, under_load
    conditions = list(outside(*case))
    outputs = [by_region(*case, _region, ""), *(each for each, _ in conditions)]
    return printed(f"outside_{structure.name}", outputs, ("e", "w", "s")), [text for _, text in conditions]


def _region(name: str) -> str:
    """The region whose errors are stated for one; empty where no case lies in it."""
    return nearest(name) if name in leaves() else ""


def capacity_source(structure: Structure, sample: Deployment, library: Library) -> str:
    """The most that a deployment takes: users, or requests per second."""
    case = traced(structure, sample, library)
    outputs = [_capacity(case.deployment, case.workload)]
    return printed(f"capacity_{structure.name}", outputs, ("e", "w"))


def isl_of(case: Traced) -> Any:
    return case.workload.isl


def osl_of(case: Traced) -> Any:
    return case.workload.osl


def beyond_texts(sample: Deployment, library: Library) -> list[str]:
    """Words for what `beyond_plain` says, with the model's name and its limit as placeholders."""
    case = traced(Structure(Burst, SCHEDULERS[0], is_single=False, is_mixed=False), sample, library)
    context: Any = case.graph.input("limit", "{context}")
    model = replace(case.deployment.model, short_name="{model}", max_context=context)
    return [text for _, text in beyond(replace(case.deployment, model=model), case.workload)]


def common_sources(sample: Deployment, library: Library) -> list[str]:
    """What all answers share: memory that a case holds, ranges of percentiles, limits, the verdict."""
    graph = PageGraph()
    home = deployment_of(graph, _FRAME)
    isl, osl, batch = (graph.input(f"w.{name}") for name in ("isl", "osl", "batch"))
    under_load: Any = SimpleNamespace(batch=graph.input("s.batch"))
    workload = Workload(isl, osl, Burst(batch))
    parts = [
        printed("held_by_burst", [*held_at_once(home, workload, None)], ("e", "w")),
        printed("held_under_load", [*held_at_once(home, workload, under_load)], ("e", "w", "s")),
    ]
    time, low, high, mean, limit, least = map(graph.input, ("time", "low", "high", "mean", "limit", "least"))
    ends = ends_of_percentile((low, high), mean, (time, time))
    parts.append(printed("ends_of_percentile", [*ends], ("low", "high", "mean", "time")))
    limited = limited_by("", limit, time, (low, high), best_of(time, mean, least), applies=True)
    parts.append(printed("limited_by", [*limited[1:5]], ("limit", "time", "low", "high", "mean", "least")))
    for is_mixed in (False, True):
        case = traced(Structure(Burst, SCHEDULERS[0], is_single=False, is_mixed=is_mixed), sample, library)
        conditions = [fails for fails, _ in beyond(case.deployment, replace(case.workload, load=Burst(batch)))]
        parts.append(printed(f"beyond_{'mixed' if is_mixed else 'plain'}", conditions, ("e", "w")))
    for affine in (True, False):
        case = traced(Structure(Burst, SCHEDULERS[0], is_single=False, is_mixed=False), sample, library)
        outputs = knees_of_steps(case.deployment, isl_of(case), osl_of(case), affine=affine)
        parts.append(printed(f"knees_{'affine' if affine else 'any'}", [*outputs], ("e", "w")))
    return [*parts, _verdict("timed", is_timed=True), _verdict("untimed", is_timed=False)]


def _verdict(name: str, *, is_timed: bool) -> str:
    """The verdict on limits of TTFT, TPOT and E2EL, each with its shares: word, reason, binding limit."""
    graph = PageGraph()
    limited = []
    for key in OF_REQUESTS:
        central, low, high, least, applies = (graph.input(f"{key}[{place}]") for place in range(5))
        limited.append(Limited(key, central, low, high, least, applies > 0.0))
    unchecked = [(graph.input("outside") > 0.0, OUTSIDE)]
    found = verdict(limited, unchecked, (), IN_RANGE, is_timed=is_timed)
    outputs = [*found]
    return printed(f"verdict_{name}", outputs, (*OF_REQUESTS, "outside"))
