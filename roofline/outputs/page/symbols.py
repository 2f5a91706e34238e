"""A deployment of symbols: each number of model, GPU, formats, plan and engine is a field of a JavaScript object."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from roofline.numbers.operations import Real, above, never, where
from roofline.outputs.layer_kinds import StagedModel, number_of, with_numbers
from roofline.physics import kernels
from roofline.physics.assembly import Assembly
from roofline.physics.equation import Kernel, Terms, Work, beyond_bridge
from roofline.physics.plan import Deployment, ModelQuantization, Plan, Scheme
from roofline.serving.quantization import SECTIONS
from roofline.specs.engine import OVERLAPS, Engine
from roofline.specs.gpu import COLLECTIVES, Calibration, CollectiveEfficiency, Gpu, KernelKind, Link, Price
from roofline.specs.model import Model, Stage
from roofline.support.records import NamedTuple
from roofline.symbolic.graph import Calls, Function, Node
from roofline.symbolic.programs import javascript_source

#: Fields of an engine that are numbers of the object.
ENGINE = (
    "request", "network", "prefill", "prefill_slowdown", "step", "layer", "sequence", "all_reduce", "arrival", "launch",
    "launch_decode", "max_num_batched_tokens", "max_num_seqs", "gpu_memory_utilization", "reserve", "full_length_kv",
)  # fmt: skip
#: Its uncertainties.
SIGMAS = ("sigma_ttft", "sigma_tpot", "sigma_loaded_ttft")
#: Fields of a model that are, and those whose values decide its structure.
MODEL = ("hidden", "vocab", "norms", "layers")
FLAGS = ("tied", "norm_bias", "head_bias", "parallel")
FRAME = (
    "positions", "layer_input", "layer_vocab", "altup", "laurel", "streams", "stream_rank", "stream_average", "ngrams",
    "final_norms", "norm_weights",
)  # fmt: skip
#: Constants of a collective.
COLLECTIVE = ("a0", "a1", "a2", "q", "eta", "eta_switch")
#: Collectives of a pass.
COLLECTIVE_KINDS = tuple(kind for kind in COLLECTIVES if kind.is_in_passes)
TERMS = len(Terms._fields)
#: Kernels of a layer that an engine may run beside others have roofs of their own.
BESIDE = "_beside"

_OBJECTS = ("e", "w")  # that functions of a case take: the deployment, and lengths and load
_SLOTS = 2  # groups of GPUs that no number of ranks divides into


#: Functions all of whose numbers are parameters, constants included, so that few serve all places.
_OF_ALL_NUMBERS = ("percentile", "gamma_survival")


class Library:
    """Functions that several programs call, each printed once, whoever needs it first."""

    def __init__(self) -> None:
        self._names: dict[tuple[str, str], str] = {}
        self.sources: list[str] = []

    def name_of(self, stem: str, outputs: Sequence[Any], parameters: Sequence[str]) -> str:
        """Name of a function of that source, printed where there was none."""
        body = printed("", outputs, parameters)
        name = self._names.get((stem, body))
        if name is None:
            number = sum(known == stem for known, _ in self._names)
            name = self._names[stem, body] = f"{stem}_{number}"
            self.sources.append(printed(name, outputs, parameters))
        return name


def printed(name: str, outputs: Sequence[Any], parameters: Sequence[str]) -> str:
    """A JavaScript function whose variables are numbered from 0, so that like functions are the same text; in short."""
    places: dict[str, str] = {}
    text = re.sub(
        r"(?<![.\w])(t|turn)(\d+)(?=\W|_)",
        lambda match: f"{match[1]}{places.setdefault(match[2], str(len(places)))}",
        javascript_source(name, outputs, (), parameters),
    )
    return re.sub(r"(?<![\w.])(\d+)\.0(?![\de])", r"\1", re.sub(r"^ +", " ", text, flags=re.MULTILINE))


class PageGraph(Calls):
    """A graph whose calls name the object that they are about: `e`, or `e.ideal` at the hardware limit."""

    ideal: Any = None  # `home` at the hardware limit
    library: Library | None = None  # where parts of a calculation are functions of their own

    def __init__(self) -> None:
        super().__init__()
        self._outlined: dict[Any, tuple[Function, Any]] = {}

    def outlined(self, name: str, compute: Callable[..., Any], values: Sequence[Any]) -> Any:
        """A call of the calculation, printed as a function of the objects and of its own numbers."""
        if self.library is None:
            return compute(*values)
        numbers: list[Any] = []

        def opened(value: Any) -> Any:
            """A value with parameters in place of its numbers."""
            if isinstance(value, tuple):
                parts = map(opened, value)
                return type(value)(*parts) if hasattr(value, "_fields") else tuple(parts)
            if not isinstance(value, Node) and (name not in _OF_ALL_NUMBERS or type(value) is not float):
                return value
            numbers.append(value)
            return self.input(f"a{len(numbers) - 1}")

        bound = tuple(map(opened, values))
        key = name, tuple(_constants(bound))
        known = self._outlined.get(key)
        if known is None:
            form = compute(*bound)
            outputs = [*_numbers_in(form)]
            parameters = [
                *(() if name in _OF_ALL_NUMBERS else _OBJECTS),
                *(f"a{place}" for place in range(len(numbers))),
            ]
            function = Function(self.library.name_of(name, outputs, parameters), len(outputs))
            known = self._outlined[key] = function, form
        function, form = known
        shared = () if name in _OF_ALL_NUMBERS else tuple(map(self.input, _OBJECTS))
        return _formed(form, iter(self.call(function, (*shared, *numbers))))

    def calls(self, home: Any) -> bool:
        """Whether it calls the functions of a deployment."""
        return home is self.home or home is self.ideal

    def call_of(self, home: Any, figures: Any, args: Sequence[Any]) -> tuple[Any, ...]:
        """The results of a function for figures of such a deployment."""
        home_name = "e.ideal" if home is self.ideal else "e"
        return self.call(figures.function(self.sample), (self.input(home_name), *args))


def _constants(value: Any) -> Iterator[Any]:
    """What is not a number of a graph, in order."""
    if isinstance(value, tuple):
        yield len(value)
        for part in value:
            yield from _constants(part)
    else:
        yield "number" if isinstance(value, Node) else value


def _numbers_in(value: Any) -> Iterator[Any]:
    """Numbers of records and tuples, in order."""
    if isinstance(value, tuple):
        for part in value:
            yield from _numbers_in(part)
    elif value is not None:
        yield value


def _formed(form: Any, numbers: Iterator[Any]) -> Any:
    """Records and tuples of that form, of other numbers; what is a constant there stays one."""
    if isinstance(form, tuple):
        parts = (_formed(part, numbers) for part in form)
        return type(form)(*parts) if hasattr(form, "_fields") else tuple(parts)
    if form is None:
        return None
    number = next(numbers)
    return number if isinstance(form, Node) else form


class _AnyPeak(dict[str, Real]):
    """Peaks of a GPU of which nothing is asked but whether it multiplies in fp8, which its roofs settle."""

    def __contains__(self, dtype: object) -> bool:
        return dtype == "fp8"


def deployment_of(
    graph: PageGraph, frame: Model, mixers: Sequence[tuple[Any, Any]] = (), ffns: Sequence[tuple[Any, Any]] = ()
) -> Deployment:
    """The deployment of symbols.

    Args:
        graph: of its nodes.
        frame: a model whose `FRAME` it has.
        mixers: of its layers, with their numbers.
        ffns: of its layers, with their numbers.
    """

    def number(name: str) -> Any:
        return graph.input(f"e.{name}")

    def flag(name: str) -> Any:
        return number(name) > 0.0

    late = getattr(frame, "last", 0)
    stage = Stage(tuple(mixers), tuple(ffns), flag("is_first"), flag("is_last"))
    model = StagedModel(
        name="", short_name="", aliases=(), groups=(), native={}, max_context=number("max_context"),
        **{name: number(name) for name in MODEL if name != "layers"},
        **{name: flag(name) for name in FLAGS},
        **{name: getattr(frame, name) for name in FRAME},
        whole=stage, fullest=(stage,), count=number("layers"),
        late_layers=number("late") if late else 0, late_tokens=late,
    )  # fmt: skip
    schemes = {
        name: Scheme(name, number(f"{name}_w"), number(f"{name}_a"), name, name, flag(f"{name}_d")) for name in SECTIONS
    }
    formats = ModelQuantization(schemes, "", number("kv_nbytes"), "kv", "kv", "16-bit")
    plan: Any = Plan(*(number(name) for name in ("tp", "pp", "ep", "dp")))
    engine = Engine("", **{name: number(name) for name in (*ENGINE, *SIGMAS)}, overlaps=OVERLAPS)
    return Deployment(model, gpu_of(graph), plan, formats, "calibrated", replicas=number("replicas"), engine=engine)


def gpu_of(graph: PageGraph) -> Gpu:
    """The GPU of symbols, whose links are those of any GPU."""

    def number(name: str) -> Any:
        return graph.input(f"e.{name}")

    collectives = {}
    for kind in COLLECTIVE_KINDS:
        for name, place in ((kind.name, kind.name), (beyond_bridge(kind), f"{kind.name}_pcie")):
            collectives[name] = CollectiveEfficiency(**{each: number(f"links.{place}.{each}") for each in COLLECTIVE})
    rent = number("price")
    return Gpu(
        name="", aliases=(), vendor="", generation="", peaks=_AnyPeak(), bandwidth=number("bandwidth"),
        memory=number("memory"), memory_label=0.0,
        link=Link("", number("link"), number("domain"), number("in_switch") > 0.0, number("peer")),
        exp_rate=number("exp_rate"), scale_out=number("scale_out"), host_link=number("host_link"),
        host_domain=number("host_domain"), price=Price(rent, rent, rent),
        passes=(number("slow_prefill"), number("slow_decode")),
        calibration=Calibration("", (), {}, collectives),
    )  # fmt: skip


def record_of(graph: PageGraph, example: Any, numbers: Sequence[str]) -> Any:
    """A layer like an example, its numbers being fields of an object `l`."""
    return with_numbers(example, {name: graph.input(f"l.{name}", f"{{{name}}}") for name in numbers})


def numbers_of(record: Any, names: Sequence[str]) -> dict[str, Any]:
    """Numbers of a layer by name."""
    return {name: number_of(record, name) for name in names}


class PageAssembly(Assembly):
    """Kernels whose times are calls: of the one equation under a roof of the object, and of collectives."""

    def __init__(self, graph: PageGraph, deployment: Deployment, batch: Real, new: Real) -> None:
        super().__init__(deployment, batch, new)
        self.graph = graph

    @property
    def is_bound(self) -> Real:
        """A flag of the object."""
        return self.graph.input("e.is_ideal") > 0.0

    def kernel(self, name: str, kind: KernelKind, key: str, peak: str, count: Real, work: Work) -> Kernel:  # noqa: ARG002
        """A kernel, not added, whose roof is looked up by its kind and the part of the model it serves."""
        roof: Any = self.graph.input(f"e.roofs.{roof_name(kind.name, key, is_beside=self._starts_hidden)}")
        amounts = [*work[:-1]]  # of which no kernel of a GPU alone sends any over a link
        while amounts and type(amounts[-1]) in (float, int) and amounts[-1] == 0:
            amounts.pop()
        terms = self.graph.call(Function("kernel_time", TERMS), (roof, *amounts))
        return Kernel(name, kind, key, count, work, roof, Terms(*terms), self._part)

    def collective(
        self,
        name: str,
        collective: KernelKind,
        count: Real,
        tensor: Real,
        ranks: Real,
        takes_place: Real | None = None,
        stride: Real = 1,  # noqa: ARG002  a page has no ranks that are apart
    ) -> None:
        """Add a collective over a tensor [B], if `takes_place`; None: if there are several ranks."""
        if takes_place is None:
            takes_place = above(ranks, 1, "")
        if never(takes_place):
            return
        ranks, count = where(takes_place, ranks, _SLOTS), where(takes_place, count, 0)
        sent = kernels.sent_bytes(collective, tensor, ranks)
        terms = self.graph.call(Function(collective.name, TERMS), (self.graph.input("e"), ranks, sent))
        roof: Any = None
        self.kernels.append(
            Kernel(name, collective, "bf16", count, Work(link_bytes=sent), roof, Terms(*terms), self._part)
        )


def roof_name(kind: str, key: str, *, is_beside: bool = False) -> str:
    """Name of a roof: of a kind of kernel, and of the section or format that it multiplies."""
    return f"{kind}_{key}{BESIDE if is_beside else ''}"


class Shape(NamedTuple):
    """What is known of a kernel before its numbers."""

    name: str
    kind: str
    key: str
    part: str


def shape_of(kernel: Kernel) -> Shape:
    return Shape(kernel.name, kernel.kind.name, kernel.dtype, kernel.part)


def call_of(kernel: Kernel) -> Node:
    """The call of a kernel's time."""
    node: Node = kernel.terms.total.args[0]
    return node


Make = Callable[[PageAssembly], None]
