"""Figures of a deployment that are asked again and again: at first by formulas, then by a compiled program.

A program belongs to a structure: model, formats, plan and what is absent or zero. Rates, efficiencies and host times
are its parameters, so that all GPUs of a structure share it.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from typing import Any

from roofline.numbers.operations import Real
from roofline.physics.plan import DIRECT, Deployment, Plan
from roofline.specs.engine import Engine, KernelOverride, StartUp
from roofline.specs.gpu import PCIE, CollectiveEfficiency, Efficiency, Gpu, Link
from roofline.support.errors import RooflineError
from roofline.support.records import NamedTuple, replace

_FEW = 32  # evaluations that cost as much as compiling a program
_LARGE = 64  # elements of an array that pay for a program at once
_MOST = 1000  # programs, structures and shapes that are kept

_Numbers = tuple[Real, ...]
_Read = Callable[[Any], _Numbers]
_Program = Callable[..., _Numbers]


class Recurring(NamedTuple):
    """A call of `make` with a deployment and numbers that are floats or arrays."""

    make: Callable[..., Any]
    deployment: Deployment
    numbers: _Numbers
    arrays: tuple[bool, ...] | None  # which numbers are arrays; None: none of them
    size: int = 1  # elements of the largest array

    def compute(self) -> Any:
        return self.make(self.deployment, *self.numbers)

    def by_program(self, read: _Read, wrap: Callable[[Any], Any]) -> _Numbers | None:
        """`read(wrap(result))` by a compiled program; None where there is none yet, or where it has no result."""
        if self.arrays is not None and self.size < _LARGE:  # whether or not there is one: rounding stays the same
            return None
        memo, key = self.deployment.memo, (read, self.make, self.arrays)
        program = memo.get(key, _NOT_YET)  # None where there cannot be one
        if program == _NOT_YET:
            figures = Figures(self.make, read, wrap, len(self.numbers), self.arrays)
            program = known_program(figures, self.deployment)
            if program == _NOT_YET:
                asked = figures, structure(self.deployment)
                if len(_ASKED) >= _MOST:
                    _ASKED.clear()
                _ASKED[asked] = number = _ASKED.get(asked, 0) + 1
                if number <= _FEW and self.arrays is None:
                    return None
                program = program_of(figures, self.deployment)
            memo[key] = program
        if program is None:
            return None
        try:
            return program(*self.numbers)  # type: ignore[no-any-return]
        except ArithmeticError:  # formulas raise it too, or evaluate fewer branches
            return None


class Called(NamedTuple):
    """A call of `make` on numbers of a graph that calls programs instead of holding their operations."""

    make: Callable[..., Any]
    deployment: Deployment
    numbers: _Numbers
    graph: Any

    def compute(self) -> Any:
        return self.make(self.deployment, *self.numbers)

    def by_program(self, read: _Read, wrap: Callable[[Any], Any]) -> _Numbers:
        figures = Figures(self.make, read, wrap, len(self.numbers))
        return self.graph.call_of(self.deployment, figures, self.numbers)  # type: ignore[no-any-return]


def recurring(make: Callable[..., Any], deployment: Deployment, numbers: _Numbers) -> Recurring | Called | None:
    """The call, if a program can replace it; None where a number is neither a float nor an array.

    Where the numbers of the deployment are those of a graph that calls its programs, a call of one.
    """
    if type(deployment.gpu) is not Gpu:
        return None
    bandwidth: Any = deployment.gpu.bandwidth
    if type(bandwidth) is not float:
        graph = getattr(bandwidth, "graph", None)
        return Called(make, deployment, numbers, graph) if graph is not None and graph.calls(deployment) else None
    for number in numbers:
        if type(number) is not float:
            return _of_arrays(make, deployment, numbers)
    return Recurring(make, deployment, numbers, None)


def calling(deployment: Deployment, graph: Any) -> Deployment:
    """The deployment as `home` of a graph of `Calls`: its bandwidth, which kernels alone read, is an input there."""
    return replace(deployment, gpu=replace(deployment.gpu, bandwidth=graph.input("bandwidth")))


def figures_of(make: Callable[..., _Numbers], deployment: Deployment, *numbers: Real) -> _Numbers:
    """`make(deployment, *numbers)`, by a compiled program where there is one."""
    question = recurring(make, deployment, numbers)
    figures = None if question is None else question.by_program(_identity, _identity)
    return make(deployment, *numbers) if figures is None else figures


def _identity(value: Any) -> Any:
    return value


def _of_arrays(make: Callable[..., Any], deployment: Deployment, numbers: _Numbers) -> Recurring | None:
    arrays = tuple(hasattr(number, "dtype") and bool(number.shape) for number in numbers)
    others = [number for number, is_array in zip(numbers, arrays, strict=True) if not is_array]
    if not any(arrays) or any(type(number) is not float for number in others):
        return None
    size = max(number.size for number, is_array in zip(numbers, arrays, strict=True) if is_array)
    return Recurring(make, deployment, numbers, arrays, size)


# What a program computes, and the program of a structure.


class Figures(NamedTuple):
    """`read(wrap(make(deployment, *numbers)))`."""

    make: Callable[..., Any]
    read: _Read
    wrap: Callable[[Any], Any]
    size: int  # of the numbers
    arrays: tuple[bool, ...] | None = None  # which of them are arrays; None: none

    @property
    def arguments(self) -> tuple[str, ...]:
        """Names of the numbers."""
        code = self.make.__code__
        return code.co_varnames[1 : 1 + self.size]

    def of(self, deployment: Deployment, numbers: Iterable[Real]) -> _Numbers:
        return self.read(self.wrap(self.make(deployment, *numbers)))

    def function(self, sample: Deployment) -> Any:
        """The function by which a graph calls it."""
        from roofline.symbolic.graph import Function

        results = _RESULTS.get(self)
        if results is None:
            results = _RESULTS[self] = len(self.of(sample, [1.0] * self.size))
        read = "" if self.read is _identity else self.read.__name__
        return Function(f"{self.make.__name__}{read}".strip("_"), results, self)


_NOT_YET = 0
_RESULTS: dict[Figures, int] = {}
_ASKED: dict[Any, int] = {}  # questions by structure, before there was a program
_TEMPLATES: dict[Any, list[Template] | None] = {}  # by structure; None where there cannot be one


def known_program(figures: Figures, deployment: Deployment) -> Any:
    """The program, if one of its structure has been compiled; else `_NOT_YET`."""
    known = _TEMPLATES.get((figures, structure(deployment)), ())
    if known is None:
        return None
    template = next((each for each in known if each.holds_for(deployment)), None)
    return _NOT_YET if template is None else template.bound(deployment)


def program_of(figures: Figures, deployment: Deployment) -> _Program | None:
    """The program, compiled where there is none yet; None where the structure depends on the numbers."""
    found = known_program(figures, deployment)
    if found == _NOT_YET:
        if len(_TEMPLATES) >= _MOST:
            _TEMPLATES.clear()
        key = figures, structure(deployment)
        try:
            template = Template.of(figures, deployment)
        except (RooflineError, TypeError):
            _TEMPLATES[key] = found = None
        else:
            _TEMPLATES[key] = [*(_TEMPLATES.get(key) or ()), template]
            found = template.bound(deployment)
    return found  # type: ignore[no-any-return]


class Template:
    """A calculation on the numbers of a structure, traced and compiled once."""

    def __init__(self, outputs: Sequence[Any], inputs: Sequence[Any], parameters: Parameters, arrays: Any) -> None:
        from roofline.symbolic import programs
        from roofline.symbolic.graph import nodes_of

        needed = nodes_of(outputs)
        used = {node.key for node in needed}
        known = [(node, path) for node, path in parameters.known if node.key in used]
        self._values = _getter([path for _, path in known])
        self._looked_up = [(each.name, each.seen) for each in parameters.mappings if each.seen]
        nodes = [node for node, _ in known]
        if arrays is None:
            self._make: Callable[..., _Program] = programs.python_maker(outputs, inputs, nodes)
            self._called: list[tuple[Any, tuple[bool, ...]]] = [(each, ()) for each in programs.called(needed)]
        else:
            from roofline.symbolic.array_programs import ArrayProgram

            program = ArrayProgram(outputs, inputs, nodes, arrays)
            self._make, self._called = program.bound, program.called

    def holds_for(self, deployment: Deployment) -> bool:
        """Whether the tables of a deployment have what was looked up, and lack what was not found."""
        for name, seen in self._looked_up:
            shapes = kept_for(_table(deployment.gpu, name), _shapes_of)
            if any(shapes.get(key) != shape for key, shape in seen.items()):
                return False
        return True

    @classmethod
    def of(cls, figures: Figures, deployment: Deployment) -> Template:
        from roofline.symbolic.graph import Graph

        graph = Graph()
        inputs = [graph.input(f"x{place}") for place in range(figures.size)]
        parameters = Parameters(graph)
        outputs = figures.of(parameters.deployment(deployment), inputs)
        return cls(outputs, inputs, parameters, figures.arrays)

    def bound(self, deployment: Deployment) -> _Program:
        """The program with a deployment's own numbers."""
        called = (
            function_of(function.key._replace(arrays=arrays if any(arrays) else None), deployment)
            for function, arrays in self._called
        )
        return self._make(*called, *self._values(deployment))


def function_of(figures: Figures, deployment: Deployment) -> _Program:
    """A function that another program calls."""
    key = (figures.read, figures.make, figures.arrays)
    program = deployment.memo.get(key)
    if program is None:
        program = deployment.memo[key] = program_of(figures, deployment)
    return program or (lambda *numbers: figures.of(deployment, numbers))


# Structure and parameters of a deployment.

#: Fields whose numbers are parameters, unless they are zero or absent.
_PARAMETERS: Mapping[type, tuple[str, ...]] = {
    Gpu: ("bandwidth", "memory", "exp_rate", "scale_out", "host_link", "link", "power_cap", "passes"),
    Link: ("bandwidth", "peer_bandwidth"),
    Efficiency: ("t0", "eta_c", "eta_m", "eta_x", "eta_s", "kappa", "kappa_s", "eps", "t0_ep", "sigma"),
    CollectiveEfficiency: ("a0", "a1", "a2", "q", "eta", "eta_switch", "sigma"),
    Engine: (
        "request", "network", "prefill", "prefill_slowdown", "step", "layer", "sequence", "all_reduce", "arrival",
        "handover", "launch", "launch_decode", "max_num_batched_tokens", "max_num_seqs", "gpu_memory_utilization",
        "reserve", "full_length_kv", "tunings", "start_up",
    ),
    StartUp: ("driver", "context", "fixed", "linked", "activations", "sampler", "table", "graph"),
    KernelOverride: ("eta_c", "compute", "memory", "start"),
}  # fmt: skip
#: Fields that are part of the structure.
_STRUCTURE: Mapping[type, tuple[str, ...]] = {
    Gpu: ("host_domain",),
    Link: ("domain", "in_switch_reduction"),
    Efficiency: ("p", "is_measured"),
    CollectiveEfficiency: ("is_measured",),
    Engine: ("scheduler", "overlaps"),
    KernelOverride: ("kind", "dtype", "peak"),
    StartUp: ("share_of", "counts_graphs", "padded_experts"),
}
#: Tables of a GPU, of which what is looked up is part of the structure.
_TABLES = ("peaks", "kernels", "collectives")
_ENDLESS: Any = float("inf")  # GPUs of a domain that nothing leaves
_CONSTANT = frozenset({0.0, float("inf")})
_SHAPES: dict[tuple[int, Any], tuple[Any, Any]] = {}  # of GPUs, engines and models, by identity
_INTERNED: dict[Hashable, Hashable] = {}


class Parameters:
    """Inputs of a graph that stand for the numbers of a deployment."""

    def __init__(self, graph: Any) -> None:
        self._graph = graph
        self.known: list[tuple[Any, tuple[Any, ...]]] = []  # inputs, with their places in a deployment
        self.mappings: list[_Looked] = []

    def deployment(self, deployment: Deployment) -> Deployment:
        """The deployment with inputs in place of its numbers."""
        gpu, calibration = self.record(deployment.gpu, ("gpu",)), deployment.gpu.calibration
        if calibration is not None:
            tables: dict[str, Any] = {
                name: self._table(getattr(calibration, name), name, "calibration") for name in _TABLES[1:]
            }
            calibration = replace(calibration, **tables)
        gpu = replace(gpu, peaks=self._table(gpu.peaks, "peaks"), calibration=calibration)
        plan = deployment.plan
        if is_within_domain(deployment):
            gpu, plan = replace(gpu, link=replace(gpu.link, domain=_ENDLESS)), self._plan(plan)
        return replace(deployment, gpu=gpu, plan=plan, engine=self.record(deployment.engine, ("engine",)))

    def _plan(self, plan: Plan) -> Plan:
        """The plan with an input in place of its tp, and of an ep over all ranks."""
        if plan.tp == 1:
            return plan
        tp: Any = self.number(plan.tp, ("plan", "tp"))
        self._graph.know(tp, 1, is_above=True)
        ranks = tp * plan.token_ranks
        self._graph.know(ranks, 1, is_above=True)
        return replace(plan, tp=tp, ep=ranks if plan.ep == plan.expert_ranks else plan.ep)

    def record(self, record: Any, path: tuple[Any, ...]) -> Any:
        """A record or a tuple with inputs in place of its numbers."""
        if isinstance(record, tuple):
            return tuple(self.opened(value, (*path, (place,))) for place, value in enumerate(record))
        names = _PARAMETERS[type(record)]
        return replace(record, **{name: self.opened(getattr(record, name), (*path, name)) for name in names})

    def number(self, value: float, path: tuple[Any, ...]) -> Any:
        """An input in place of a number; a constant stays one."""
        if value in _CONSTANT:
            return value
        node = self._graph.input(f"p{len(self.known)}")
        self.known.append((node, path))
        return node

    def opened(self, value: Any, path: tuple[Any, ...]) -> Any:
        """A value with inputs in place of its numbers."""
        if type(value) in (float, int):
            return self.number(value, path)
        return value if value is None or isinstance(value, str) else self.record(value, path)

    def _table(self, table: Mapping[Any, Any], name: str, *path: str) -> _Looked:
        found = _Looked(table, self, ("gpu", *path, name))
        self.mappings.append(found)
        return found


class _Looked(dict[Any, Any]):
    """A table that notes what was looked up."""

    def __init__(self, table: Mapping[Any, Any], parameters: Parameters, path: tuple[str, ...]) -> None:
        super().__init__(table)
        self._parameters = parameters
        self._path = path
        self._opened: dict[Any, Any] = {}
        self.name = path[-1]
        self.seen: dict[Any, Hashable] = {}  # keys that were looked up, and the shape of what was found; None: nothing

    def get(self, key: Any, default: Any = None) -> Any:
        if key not in self:  # which notes the look-up
            return default
        return self[key]

    def __contains__(self, key: Any) -> bool:
        found = super().get(key)
        self.seen[key] = None if found is None else _shape(found)
        return found is not None

    def __getitem__(self, key: Any) -> Any:
        if key not in self:
            raise KeyError(key)
        if key not in self._opened:
            self._opened[key] = self._parameters.opened(super().__getitem__(key), (*self._path, (key,)))
        return self._opened[key]

    def __iter__(self) -> Any:
        raise TypeError("a structure hangs on all keys of a table")

    def items(self) -> Any:
        raise TypeError("a structure hangs on all keys of a table")

    keys = values = items


def _getter(paths: Sequence[tuple[Any, ...]]) -> Callable[[Any], tuple[Any, ...]]:
    """A function from a deployment to its numbers at some places."""
    keys: dict[Any, str] = {}
    texts = []
    for path in paths:
        text = "one"
        for step in path:
            is_key = type(step) is tuple
            text += f"[{keys.setdefault(step[0], f'k{len(keys)}')}]" if is_key else f".{step}"
        texts.append(f"{text}, ")
    source = f"def make({', '.join(keys.values())}):\n    return lambda one: ({''.join(texts)})"
    from roofline.symbolic.programs import compile_make

    found: Callable[[Any], tuple[Any, ...]] = compile_make(source)(*keys)
    return found


def structure(deployment: Deployment) -> Hashable:
    """Key of the deployments that share their programs, if what these look up in tables is alike."""
    known: Hashable = deployment.memo.get(structure)
    if known is None:
        gpu = deployment.gpu
        tunings = tuple(tuning.generation in (None, gpu.generation) for tuning in deployment.engine.tunings)
        key = (
            _of_ranks(deployment), gpu.exp_rate is None, gpu.calibration is None, tunings,
            kept_for(deployment.engine, _shape), _identity_of(deployment.model),
            _of_quantization(deployment.quantization), deployment.basis == "ideal", deployment.routing_skew,
            _of_draft(deployment.draft), deployment.prefix_cache, deployment.spread, deployment.adapters,
            deployment.offload, deployment.media, gpu.power_cap is None, gpu.passes is None,
            deployment.spread.exchange != DIRECT and (gpu.scale_out is None, gpu.host_domain),
        )  # fmt: skip
        known = deployment.memo[structure] = _interned(key)
    return known


def _of_ranks(deployment: Deployment) -> Hashable:
    """What plan and links decide; within a scale-up domain neither its size nor tp does, unless that is one."""
    gpu, plan = deployment.gpu, deployment.plan
    if plan.num_gpus == 1:
        return plan.ep
    link, calibration = gpu.link, None if gpu.calibration is None else gpu.calibration.link
    own = link.kind == PCIE, link.in_switch_reduction, link.peer_bandwidth is None, calibration
    if not is_within_domain(deployment):
        return (*own, plan, kept_for(gpu, _shape))
    return (
        *own,
        plan.tp == 1,
        plan.pp,
        plan.dp,
        plan.shards,
        plan.cp,
        "all" if plan.ep == plan.expert_ranks else plan.ep,
    )


def is_within_domain(deployment: Deployment) -> bool:
    """Whether all ranks of a replica reach each other over the scale-up link."""
    return deployment.plan.num_gpus <= deployment.gpu.link.domain


def engine_structure(engine: Engine) -> Hashable:
    """Key of the engines that differ in numbers alone."""
    key: Hashable = kept_for(engine, _shape)
    return key


def _of_quantization(quantization: Any) -> Hashable:
    return (tuple(quantization.sections.items()), *quantization[1:-1])


def _of_draft(draft: Any) -> Hashable:
    if draft is None:
        return None
    schemes = None if draft.quantization is None else _of_quantization(draft.quantization)
    return draft.method, draft.acceptance.rates, _identity_of(draft.model), schemes, draft.joined


def _identity_of(record: Any) -> Hashable:
    key: Hashable = kept_for(record, _itself)
    return key


def _itself(_: Any) -> Hashable:
    return _Shape()


def kept_for(record: Any, make: Callable[[Any], Any]) -> Any:
    """What is made of a record once; the record is kept, so that no other gets its identity."""
    key = id(record), make
    known = _SHAPES.get(key)
    if known is None:
        if len(_SHAPES) >= _MOST:
            _SHAPES.clear()
        made = make(record)
        known = _SHAPES[key] = record, made if isinstance(made, dict) else _interned(made)
    return known[1]


def _table(gpu: Gpu, name: str) -> Any:
    return gpu.peaks if name == "peaks" else getattr(gpu.calibration, name)


def _shapes_of(table: Mapping[Any, Any]) -> dict[Any, Hashable]:
    return {key: _shape(value) for key, value in table.items()}


def _shape(value: Any) -> Hashable:
    """What is left of a record without its parameters."""
    if type(value) in (float, int):
        return value if value in _CONSTANT else "number"
    if value is None or isinstance(value, str):
        return value
    if isinstance(value, tuple):
        return tuple(map(_shape, value))
    fixed = tuple(getattr(value, name) for name in _STRUCTURE[type(value)])
    return fixed, tuple(_shape(getattr(value, name)) for name in _PARAMETERS[type(value)])


class _Shape:
    """Stands for a key that takes long to compare."""

    __slots__ = ()


def _interned(key: Hashable) -> Hashable:
    if len(_INTERNED) >= _MOST * 4:
        _INTERNED.clear()
    return _INTERNED.setdefault(key, _Shape())
