"""Formulas of passes as JavaScript: kernels of layers and of what surrounds them, their times, memory."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import SimpleNamespace
from typing import Any

from roofline.outputs.layer_kinds import structure_of
from roofline.outputs.page.symbols import (
    COLLECTIVE_KINDS,
    FRAME,
    TERMS,
    PageAssembly,
    PageGraph,
    Shape,
    call_of,
    deployment_of,
    gpu_of,
    printed,
    record_of,
    shape_of,
)
from roofline.physics import memory, passes
from roofline.physics.equation import IDEAL, Kernel, Roof, Terms, Work, collective_time, kernel_time, link_roof
from roofline.physics.kernels import Span
from roofline.physics.layers.kinds import MIXER_KINDS, NETWORK_KINDS
from roofline.physics.passes import LAUNCHES, Pass
from roofline.serving import knee
from roofline.serving.latency import averaged_steps, chunk_of, chunks
from roofline.serving.load import server
from roofline.serving.prompts import prompt_kinds
from roofline.serving.verdict import kernel_sigma, variance_of_groups
from roofline.specs.engine import OF_ALL, OF_FREE, OF_REST, StartUp
from roofline.specs.gpu import ALL_REDUCE, GEMM, HEAD, HOST, KINDS, LOADING, NETWORK, Efficiency, KernelKind
from roofline.specs.model import Ffn, Mixer, Model, MoeFfn, Stage
from roofline.support.records import NamedTuple, replace

#: Contexts in which layers run.
PREFILL, DECODE = "prefill", "decode"

_FRAME: Any = SimpleNamespace(**dict.fromkeys(FRAME, 0))  # of a deployment whose layers do not matter
_NUMBERS = ("x0", "x1", "x2")
_ORDERS = (1.0, 3.0)  # of the norm, by kind of kernel
#: Figures of `memory.Held` that no page has: of adapters and of encoders.
_NOT_THERE = ("adapters", "workspace")
EFFICIENCY = ("t0", "eta_c", "eta_m", "eta_x", "eta_s", "kappa", "kappa_s", "eps")


class Kind(NamedTuple):
    """Layers of one structure."""

    name: str
    example: Mixer | Ffn
    numbers: tuple[str, ...]
    frame: Model  # a model that has such layers


class Kinds:
    """Kinds of layers of several models, and what surrounds layers."""

    def __init__(self, models: Sequence[Model]) -> None:
        self._kinds: dict[Any, Kind] = {}
        self._frames: dict[Any, tuple[str, Model]] = {}
        counts: dict[str, int] = {}
        for model in models:
            self._frames.setdefault(_frame_key(model), (f"frame_{len(self._frames)}", model))
            for _, record in (*model.mixers, *model.ffns):
                key = self._key(model, record)
                if key not in self._kinds:
                    stem = type(record).__name__.lower()
                    place = counts[stem] = counts.get(stem, 0) + 1
                    self._kinds[key] = Kind(f"{stem}_{place}", record, structure_of(record)[1], model)

    @staticmethod
    def _key(model: Model, record: Any) -> Any:
        around = _frame_key(model) if isinstance(record, Mixer) else ()  # whose norms and streams count as a mixer's
        return around, structure_of(record)

    @property
    def kinds(self) -> tuple[Kind, ...]:
        return tuple(self._kinds.values())

    @property
    def frames(self) -> tuple[tuple[str, Model], ...]:
        """What surrounds layers: a name, and a model that has it."""
        return tuple(self._frames.values())

    def kind_of(self, model: Model, record: Any) -> Kind:
        return self._kinds[self._key(model, record)]

    def frame_of(self, model: Model) -> str:
        return self._frames[_frame_key(model)][0]


def _frame_key(model: Model) -> tuple[Any, ...]:
    return (*(getattr(model, name) for name in FRAME), bool(_idle(model)), model.last)


def _idle(model: Model) -> list[Mixer]:
    """Mixers of layers that requests without images skip."""
    return [mixer for _, mixer in model.mixers if MIXER_KINDS[type(mixer)].is_idle]


class Printed(NamedTuple):
    """Functions as JavaScript, and the shapes of the kernels that some of them return."""

    source: str
    shapes: dict[str, list[Shape]]


def passes_of(kinds: Kinds) -> Printed:
    """Kernels of all layers and frames."""
    parts: list[str] = []
    shapes: dict[str, list[Shape]] = {}

    def add(name: str, assembly: PageAssembly) -> None:
        shapes[name] = [shape_of(kernel) for kernel in assembly.kernels]
        outputs = [each for kernel in assembly.kernels for each in (kernel.count, call_of(kernel))]
        parts.append(printed(name, outputs, ("e", "l", *_NUMBERS)))

    for kind in kinds.kinds:
        is_mixer = isinstance(kind.example, Mixer)
        for context in (PREFILL, DECODE) if is_mixer else ("",):
            graph, assembly, span = _begun(kind.frame, context or PREFILL)
            record, count = record_of(graph, kind.example, kind.numbers), graph.input("l.count")
            if is_mixer:
                MIXER_KINDS[type(record)].add_kernels(assembly, count, record, span)
            else:
                NETWORK_KINDS[type(record)].add_kernels(assembly, count, record)
            add("_".join(filter(None, (kind.name, context))), assembly)
    for name, model in kinds.frames:
        _, assembly, span = _begun(model, PREFILL)
        passes.add_model(assembly, span)
        add(name, assembly)
    return Printed("\n".join(parts), shapes)


def _begun(model: Model, context: str) -> tuple[PageGraph, PageAssembly, Span]:
    """A pass whose kernels are still to be added: prompts, or a decode step, whose batches are whole."""
    graph = PageGraph()
    batch, second, third = (graph.input(name) for name in _NUMBERS)
    idle = [(graph.input("e.idle"), mixer) for mixer in _idle(model)[:1]]
    deployment = deployment_of(graph, model, idle)
    if context == PREFILL:
        return graph, PageAssembly(graph, deployment, batch, second), Span(second, third)
    return graph, PageAssembly(graph, deployment, batch, 1.0), Span(third, second, is_decode=True)


def equations() -> str:
    """The one equation, collectives, bounds, host time and chunks."""
    parts = [*map(_kernel_time, _ORDERS), _kernel_time(None)]
    for kind in COLLECTIVE_KINDS:
        parts += [_collective(kind, "ideal"), _collective(kind, "calibrated"), _dispatch(kind)]
    return "\n".join((*parts, _kernel_dispatch(), *_of_one_kernel(), *_hosts(), *_prompts()))


def _kernel_time(order: float | None) -> str:
    """The one equation at an order of its norm; None: the hardware limit."""
    graph = PageGraph()
    names = Work._fields[:-1]
    work = Work(*map(graph.input, names))
    peak, bandwidth, exp_rate = (graph.input(f"r.{name}") for name in ("peak", "bandwidth", "exp_rate"))
    efficiency = IDEAL
    if order is not None:
        constants: dict[str, Any] = {name: graph.input(f"r.{name}") for name in EFFICIENCY}
        efficiency = Efficiency(**constants, p=order)
    terms = kernel_time(work, Roof(peak, bandwidth, exp_rate, efficiency))
    name = "kernel_time_ideal" if order is None else f"kernel_time_{order:g}"
    return printed(name, list(terms), ("r", *names))


def _collective(kind: KernelKind, basis: str) -> str:
    """Time of a collective: terms, then rate, least share and doublings of its link."""
    graph = PageGraph()
    ranks, sent = graph.input("ranks"), graph.input("sent")
    roof = link_roof(gpu_of(graph), basis, kind, ranks)
    terms = collective_time(Work(link_bytes=sent), roof)
    if kind is ALL_REDUCE and basis != "ideal":
        extra = graph.input("e.all_reduce")
        terms = terms._replace(total=terms.total + extra, latency=terms.latency + extra)
    outputs = [*terms, roof.bandwidth, roof.least, roof.doublings]
    return printed(f"{kind.name}_{basis}", outputs, ("e", "ranks", "sent"))


def _dispatch(kind: KernelKind) -> str:
    name = kind.name
    return (
        f"function {name}(e, ranks, sent) {{\n"
        f"    const t = e.is_ideal ? {name}_ideal(e, ranks, sent) : {name}_calibrated(e, ranks, sent);\n"
        f'    t.link = {{ kind: "{name}", ranks, sent }};\n    return t;\n}}'
    )


def _kernel_dispatch() -> str:
    """The one equation at the order of a roof, with the work for those who show it."""
    names = Work._fields[:-1]
    defaults, listed = ", ".join(f"{name} = 0" for name in names), ", ".join(names)
    return (
        f"function kernel_time(r, {defaults}) {{\n"
        f"    const time = r.order === 3 ? kernel_time_3 : r.order === 1 ? kernel_time_1 : kernel_time_ideal;\n"
        f"    const t = time(r, {listed});\n"
        f"    t.work = [{listed}];\n    t.roof = r;\n    return t;\n}}"
    )


def _of_one_kernel() -> list[str]:
    """Time of a kernel by its bound, and both sides of its norm, from its count and terms."""
    graph = PageGraph()
    terms = Terms(*(graph.input(f"t[{place}]") for place in range(TERMS)))
    count: Any = graph.input("count")
    kernel = Kernel("", GEMM, "", count, Work(), Roof.ideal(1.0, 1.0), terms)
    return [
        printed(name, list(read(Pass((kernel,)))), ("count", "t"))
        for name, read in (("bound_times", passes._bound_times), ("sides_of", knee._sides))
    ]


def _hosts() -> list[str]:
    """Host time of both passes, from the launches and the time of their kernels: waiting, then the rest."""
    parts = []
    for context, add_host in ((PREFILL, passes.add_prefill_host), (DECODE, passes.add_decode_host)):
        graph = PageGraph()
        assembly = PageAssembly(graph, deployment_of(graph, _FRAME), graph.input("batch"), 1.0)
        kernels: Any = [SimpleNamespace(kind=GEMM, count=graph.input("launches"), time=graph.input("time"))]
        assembly.kernels = kernels
        add_host(assembly)
        outputs = [kernel.terms.total for kernel in assembly.kernels[1:]]
        parts.append(printed(f"{context}_host", outputs, ("e", "batch", "launches", "time")))
    return parts


def _prompts() -> list[str]:
    """What a prompt computes; its chunks: their number, what the mean one computes, what is cached before; steps."""
    graph = PageGraph()
    deployment = deployment_of(graph, _FRAME)
    (kind,) = prompt_kinds(deployment, graph.input("isl"), graph.input("prefix"), None)
    tokens, cached = graph.input("tokens"), graph.input("cached")
    count = chunks(tokens, deployment.engine.max_num_batched_tokens)
    return [
        printed("prompt", [kind.computed, kind.cached], ("e", "isl", "prefix")),
        printed("chunk", [count, *chunk_of(deployment, cached + tokens, tokens)], ("e", "tokens", "cached")),
        printed("averaged_steps", [averaged_steps(graph.input("osl"))], ("osl",)),
    ]


# Sums over the kernels of a pass, by what is known of them before their numbers.


class Class(NamedTuple):
    """Kernels of a pass whose times are summed."""

    kind: str
    key: str  # of their roof
    part: str = ""  # of the model or of the host, where figures tell it apart
    name: str = ""  # likewise

    @classmethod
    def of(cls, shape: Shape) -> Class:
        return cls(shape.kind, shape.key, shape.part if shape.part in _PARTS else "")


_PARTS = (HEAD, NETWORK, LOADING)
_HOSTS = (
    Class(HOST.name, "", NETWORK), Class(HOST.name, ""), Class(HOST.name, "", "", LAUNCHES),
    Class(HOST.name, "", LOADING),
)  # fmt: skip


def classes_of(shapes: Mapping[str, Sequence[Shape]]) -> list[Class]:
    """Classes of all kernels, those of the host last."""
    found = dict.fromkeys(Class.of(shape) for each in shapes.values() for shape in each)
    return [*sorted(found), *_HOSTS]


def reads(classes: Sequence[Class]) -> str:
    """Figures of a pass from the time of each class: `t`, in their order."""
    parts = []
    for name, read in (
        ("pass_time", passes._time),
        ("part_times", server._part_times),
        ("per_sequence", server._per_sequence),
    ):
        graph = PageGraph()
        parts.append(printed(name, list(read(_summed(graph, classes))), ("t",)))
    graph = PageGraph()
    chunk = _summed(graph, classes, graph.input("launches"))
    engine = deployment_of(graph, _FRAME).engine
    outputs = [*server.times_of_chunks(engine, graph.input("count"), chunk)]
    parts.append(printed("times_of_chunks", outputs, ("e", "count", "launches", "t")))
    return "\n".join((*parts, _variance(classes)))


def _summed(graph: PageGraph, classes: Sequence[Class], launches: Any = None) -> Any:
    """A pass with one kernel for each class, and all launches in one more."""
    kernels: list[Any] = [
        SimpleNamespace(
            kind=KINDS[each.kind], part=each.part, name=each.name, time=graph.input(f"t[{place}]"), count=0.0
        )
        for place, each in enumerate(classes)
    ]
    if launches is not None:
        kernels.append(SimpleNamespace(kind=GEMM, part="", name="", time=0.0, count=launches))
    return Pass(tuple(kernels))


def _variance(classes: Sequence[Class]) -> str:
    """Variance of the logarithm of a pass, from the time and sigma of each group of kernels: `t` and `s`."""
    graph = PageGraph()
    groups = []
    for place, each in enumerate(classes):
        if each.part in (NETWORK, LOADING) or each.name == LAUNCHES:  # stated by the user; host time like the rest
            continue
        residual: Any = graph.input(f"s[{place}]")
        groups.append((graph.input(f"t[{place}]"), kernel_sigma(KINDS[each.kind], residual)))
    outputs = [variance_of_groups(groups, is_novel=graph.input("e.is_novel") > 0.0)]
    return printed("variance_of_groups", outputs, ("e", "t", "s"))


# Memory.


def memory_of_layers(kinds: Kinds) -> str:
    """What a layer holds: parameters by section, cache as read and as kept; or parameters and the values inside."""
    parts = []
    for kind in kinds.kinds:
        graph = PageGraph()
        deployment, record = deployment_of(graph, kind.frame), record_of(graph, kind.example, kind.numbers)
        model, plan, length = deployment.model, deployment.plan, graph.input("length")
        if isinstance(kind.example, Mixer):
            nbytes, share = deployment.quantization.kv_nbytes, deployment.engine.full_length_kv
            kept = (memory.kept_bytes(record, length, nbytes, plan.tp, each) for each in (0.0, share))
            outputs = [*memory.mixer_count(model, record, plan.tp), *kept]
        else:
            inside = NETWORK_KINDS[type(record)].inner_width(record, model.hidden, plan)
            outputs = [*memory.network_count(record, model.hidden, plan.tp, plan.expert_ranks), inside]
            if isinstance(kind.example, MoeFfn):
                padded = graph.input("e.start.padded_experts")
                outputs.append(memory.padding_factor(record.width / plan.expert_tp, padded))
        parts.append(printed(f"{kind.name}_held", outputs, ("e", "l", "length")))
    for name, model in kinds.frames:
        graph = PageGraph()
        deployment = deployment_of(graph, model)
        stage = Stage((), (), graph.input("s.is_first") > 0.0, graph.input("s.is_last") > 0.0)
        counts: list[Any] = [graph.input(f"n[{place}]") for place in range(len(SECTION_COUNTS))]
        count = memory.ParameterCount(*counts)
        outputs = [memory.stage_bytes(deployment.model, deployment.plan, deployment.quantization, stage, count)]
        parts.append(printed(f"{name}_stage", outputs, ("e", "s", "n")))
    return "\n".join(parts)


#: Counts of parameters that a layer has.
SECTION_COUNTS = memory.ParameterCount._fields


def memory_of_cases() -> str:
    """Memory and the largest batch, from what the layers hold: `h`; for each way of engines to divide it."""
    graph = PageGraph()
    outputs = [memory.token_bytes(deployment_of(graph, _FRAME).model, graph.input("widest"))]
    parts = [printed("token_bytes", outputs, ("e", "widest"))]
    for place, rule in enumerate(RULES):
        graph = PageGraph()
        deployment = deployment_of(graph, _FRAME)
        if rule is not None:
            numbers: dict[str, Any] = {name: graph.input(f"e.start.{name}") for name in START_UP}
            deployment = replace(deployment, engine=replace(deployment.engine, start_up=(replace(rule, **numbers),)))
        held = memory.Held(**{name: graph.input(f"h.{name}") for name in memory.Held._fields if name not in _NOT_THERE})
        batch, length = graph.input("batch"), graph.input("length")
        outputs = [*memory.memory_of(deployment, held, batch, length)]
        parts.append(printed(f"memory_{place}", outputs, ("e", "h", "batch", "length")))
        outputs = [memory.largest_of(deployment, held, length)]
        parts.append(printed(f"largest_batch_{place}", outputs, ("e", "h", "length")))
    graph = PageGraph()
    padding = memory.padding_bytes(graph.input("experts"), graph.input("e.experts_w"), graph.input("factor"))
    parts.append(printed("padding_bytes", [padding], ("e", "experts", "factor")))
    names = ", ".join(f"[memory_{place}, largest_batch_{place}]" for place in range(len(RULES)))
    return "\n".join((*parts, f"const memory_rules = [{names}];"))


#: How engines divide the memory when they start, numbers apart; None: by a share alone.
RULES: tuple[StartUp | None, ...] = (
    None, StartUp(OF_ALL), StartUp(OF_ALL, counts_graphs=False), StartUp(OF_FREE), StartUp(OF_REST),
)  # fmt: skip
START_UP = ("driver", "context", "fixed", "linked", "activations", "sampler", "table", "graph")


def rule_of(rule: StartUp | None) -> int:
    """Place among `RULES`."""
    if rule is None:
        return 0
    counts = rule.counts_graphs or rule.share_of != OF_ALL
    return next(
        place
        for place, each in enumerate(RULES)
        if each is not None and each.share_of == rule.share_of and each.counts_graphs == counts
    )
