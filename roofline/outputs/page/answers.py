"""Answers as JavaScript: means under a load, what follows from them, percentiles, ranges, verdicts."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from types import SimpleNamespace
from typing import Any

from roofline.outputs.page.symbols import FRAME, Library, PageGraph, deployment_of, printed
from roofline.physics.memory import Memory
from roofline.physics.passes import Pass
from roofline.physics.plan import Deployment
from roofline.serving.latency import Served, Workload
from roofline.serving.load.equations import outside, served_by_formulas
from roofline.serving.prediction import Prediction
from roofline.specs.engine import PromptCache
from roofline.specs.load import Burst, Load, Rate, Users
from roofline.specs.workload import LATENCIES, LEVELS, key_of
from roofline.support.records import NamedTuple, replace
from roofline.symbolic.graph import Function

#: Loads of a page.
LOADS: tuple[type[Load], ...] = (Burst, Users, Rate)
SCHEDULERS = ("decode first", "prompts first")
#: Figures of `Served` that a page keeps: all but the state and whether it is stable, which come last.
SERVED = tuple(name for name in Served._fields if name not in ("state", "is_stable"))

_FRAME: Any = SimpleNamespace(**dict.fromkeys(FRAME, 0))


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
    return Traced(graph, home, Workload(isl, osl, structure.load(amount), prefix, cache=cache))


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
        state = tuple(graph.input(f"s.state[{place}]") for place in range(3 if structure.load is Users else 2))
        under_load = Served(**means, state=state, is_stable=True)

    def asked(name: str, home: str) -> _Asked:
        def call(read: str) -> tuple[Any, ...]:
            results = 5 if read == "bound_times" else 2 if read == "sides" else 1
            args = (graph.input(home), graph.input("w"), graph.input("s"))
            return graph.call(Function(f"{name}_{read}", results), args)

        return _Asked(call)

    held = Memory(*(graph.input(f"m[{place}]") for place in range(len(Memory._fields))))
    prediction = Prediction(
        case.deployment, case.workload, asked("prompts", "e"), asked("step", "e"), memory=held, served=under_load,
        allow_oversize=True,
    )  # fmt: skip
    vars(prediction)["ideal"] = asked("prompts", "e.ideal"), asked("step", "e.ideal")
    return case, prediction


#: Figures of an answer, in the order in which its function returns them.
FIGURES: dict[str, Callable[[Prediction], Any]] = {
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
    outputs = [each for each in (read(prediction) for read in FIGURES.values())]
    outputs = [float("nan") if each is None else each for each in outputs]
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
    found = Answers([], [], {})
    bursts = [Structure(Burst, SCHEDULERS[0], is_single=False, is_mixed=is_mixed) for is_mixed in (False, True)]
    for structure in (*bursts, *structures()):
        parts = {"figures": figures_source, "percentiles": percentiles_source}
        if structure.load is not Burst:
            parts["served"] = served_source
            source, words = domain_source(structure, sample, library)
            found.sources.append(source)
            found.names.append(f"outside_{structure.name}")
            found.conditions[structure.name] = words
        found.sources.extend(source_of(structure, sample, library) for source_of in parts.values())
        found.names.extend(f"{name}_{structure.name}" for name in parts)
    return found


def domain_source(structure: Structure, sample: Deployment, library: Library) -> tuple[str, list[str]]:
    """Whether each condition of the validated range fails, and the words for it."""
    _, prediction = predicted(structure, sample, library)
    assert prediction.served is not None  # noqa: S101  of loads alone
    conditions = list(outside(prediction.deployment, prediction.workload, prediction.served))
    source = printed(f"outside_{structure.name}", [each for each, _ in conditions], ("e", "w", "s"))
    return source, [text for _, text in conditions]
