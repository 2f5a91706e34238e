"""Answers under a load: at first by formulas, then by compiled programs.

A program calls those of the steps and prompts of a deployment. It belongs to the structure of engine, plan and
workload, and is shared by all models and GPUs.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from typing import Any

from roofline.numbers.operations import Real, all_of, any_of
from roofline.physics.assembly import absent
from roofline.physics.plan import Deployment
from roofline.physics.programs import (
    Parameters,
    Template,
    engine_structure,
    kept_for,
)
from roofline.serving.latency import Workload
from roofline.support.errors import RooflineError
from roofline.support.records import NamedTuple, replace

SMALL = 64  # elements of an array, up to which its cases are answered one by one
LARGE = 1 << 14  # elements of an array that pay for one at once
_MOST = 256  # programs that are kept

#: A calculation on a deployment, a workload and further numbers; its answer is a tuple of numbers and tuples.
Ask = Callable[[Deployment, Workload, Sequence[Real]], Any]


class _Case(NamedTuple):
    """An answer that is asked for."""

    ask: Ask
    deployment: Deployment
    workload: Workload
    more: Sequence[Real]

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the numbers of the workload that are inputs; without a prefix, there is none to compute."""
        numbers = self.workload.numbers
        return tuple(name for name, value in numbers.items() if type(value) is not float or value != 0.0)

    @property
    def several(self) -> bool | None:
        """Whether answers are of several tokens; None where some are."""
        several = self.workload.osl > 1.0
        return True if all_of(several) else None if any_of(several) else False

    @property
    def structure(self) -> Hashable:
        """Key of the answers that share a program, but for which of their numbers are arrays."""
        one, workload = self.deployment, self.workload
        draft = None if one.draft is None else (one.draft.acceptance.rates, one.draft.tokens)
        lengths = None if workload.lengths is None else kept_for(workload.lengths, _of_lengths)
        cache = workload.cache and tuple(getattr(workload.cache, name) for name in workload.cache.__match_args__)
        gpu = one.gpu.host_link is None, one.gpu.scale_out is None, one.gpu.passes is None
        plan = one.plan.dp == 1, one.plan.pp == 1, one.plan.cp, one.plan.dcp
        return (
            self.ask, engine_structure(one.engine), one.basis == "ideal", draft, plan, gpu, self.names,
            self.several, lengths, workload.cold_start, cache, len(self.more), one.adapters is None,
            workload.media, one.media, one.offload is None or one.offload.cpu_bandwidth is None,
            absent(one.model.late),
        )  # fmt: skip


def answered(ask: Ask, deployment: Deployment, workload: Workload, more: Sequence[Real] = ()) -> Any:
    """`ask(deployment, workload, more)`: by a program where there is one, of few cases one by one."""
    known = by_program(ask, deployment, workload, more)
    if known is None and any(map(_is_array, (*workload.numbers.values(), *more))):
        known = _one_by_one(ask, deployment, workload, more)
    return ask(deployment, workload, more) if known is None else known


def _one_by_one(ask: Ask, deployment: Deployment, workload: Workload, more: Sequence[Real]) -> Any:
    """The answer of a small array from those of its cases; None for larger ones, and where one has no result."""
    from roofline.numbers.arrays import cases_of, stacked

    numbers = workload.numbers
    shape, cases = cases_of((*numbers.values(), *more), SMALL)
    if not cases or (workload.cache is not None and _is_array(workload.cache.hit)):
        return None
    answers = []
    for case in cases:
        own = workload.at(dict(zip(numbers, case[: len(numbers)], strict=True)))
        try:
            answers.append(answered(ask, deployment, own, case[len(numbers) :]))
        except ArithmeticError:
            return None
    return stacked(answers, shape)


def by_program(ask: Ask, deployment: Deployment, workload: Workload, more: Sequence[Real] = ()) -> Any:
    """`ask(deployment, workload, more)` by a program; None where there is none yet, or it has no result."""
    values = (*workload.numbers.values(), *more)
    arrays, size = None, 1
    if any(type(value) is not float for value in values):
        arrays, size = tuple(map(_is_array, values)), max(getattr(value, "size", 1) for value in values)
        if any(type(value) is not float and not is_array for value, is_array in zip(values, arrays, strict=True)):
            return None
        if size < LARGE:  # whether or not there is a program: rounding stays the same
            return None
    if not isinstance(deployment, Deployment) or type(deployment.gpu.bandwidth) is not float:
        return None
    if workload.cache is not None and _is_array(workload.cache.hit):
        return None
    case = _Case(ask, deployment, workload, more)
    key = case.structure, arrays
    known = deployment.memo.get(key)
    if known is None or known.replicas != deployment.replicas:
        shared = _SHARED.get(key, lambda: _compiled(case), at_once=arrays is not None)
        known = deployment.memo[key] = None if shared is None else shared.bound(deployment)
    return None if known is None else known(workload.numbers, more)


def _is_array(value: Any) -> bool:
    return hasattr(value, "dtype") and bool(value.shape)


class _Shared(NamedTuple):
    """A program of all deployments of a structure."""

    template: Template
    names: tuple[str, ...]  # of its inputs among the numbers of the workload
    form: Callable[..., Any]  # of its answer

    def bound(self, deployment: Deployment) -> _Bound:
        return _Bound(self.template.bound(deployment), self.names, self.form, deployment.replicas)


class _Bound(NamedTuple):
    """The program of a deployment."""

    run: Callable[..., tuple[float, ...]]
    names: tuple[str, ...]
    form: Callable[..., Any]
    replicas: int

    def __call__(self, numbers: Mapping[str, float], more: Sequence[float]) -> Any:
        try:
            figures = self.run(*(numbers[name] for name in self.names), *more)
        except (ArithmeticError, ValueError):  # formulas raise it too, or evaluate fewer branches
            return None
        return self.form(*figures)


class Programs:
    """Programs by their keys, compiled once there were more than a few calls."""

    def __init__(self, few: int) -> None:
        self.few = few
        self._known: dict[Hashable, Any] = {}  # number of calls so far, then the program

    def get(self, key: Hashable, compiled: Callable[[], Any], *, at_once: bool) -> Any:
        """The program; None as long as there were few calls, and where there cannot be one."""
        known = self._known.get(key, 0)
        if type(known) is int:
            if known < self.few and not at_once:
                self._known[key] = known + 1
                return None
            if len(self._known) >= _MOST:
                self._known.clear()
            known = self._known[key] = compiled()
        return known


_SHARED = Programs(few=96)  # of all deployments: as many answers cost as much as compiling one


def _compiled(case: _Case) -> _Shared | None:
    """The program; None where the structure depends on the numbers, or where a kernel is in it instead of called."""
    from roofline.symbolic.graph import Calls, nodes_of

    graph, one = Calls(), case.deployment
    inputs = {name: graph.input(name) for name in case.names}
    more = [graph.input(f"more{place}") for place in range(len(case.more))]
    osl, several = inputs["osl"], case.several
    if several is not None:
        for number, limit in ((osl, 1.0), (osl - 1.0, 0.0)):
            graph.know(number, limit, is_above=several)
    parameters = Parameters(graph)
    stub = _parametrized(one, parameters)
    graph.home, graph.sample = stub, one
    try:
        answer = case.ask(stub, case.workload.at(inputs), more)
    except (RooflineError, TypeError):
        return None
    outputs = [*_numbers_of(answer)]
    bandwidth: Any = stub.gpu.bandwidth
    if any(node.key is bandwidth.key for node in nodes_of(outputs)):
        return None
    values = [*(case.workload.numbers[name] for name in case.names), *case.more]
    arrays = tuple(map(_is_array, values)) if any(map(_is_array, values)) else None
    template = Template(outputs, [*inputs.values(), *more], parameters, arrays)
    return _Shared(template, case.names, _former(answer))


def _numbers_of(answer: Any) -> Iterator[Real]:
    """Numbers of nested tuples, in order."""
    if isinstance(answer, tuple):
        for part in answer:
            yield from _numbers_of(part)
    else:
        yield answer


def _former(form: Any) -> Callable[..., Any]:
    """A function from numbers to nested tuples in the form of others."""
    from roofline.symbolic.programs import compile_make

    classes: dict[type, str] = {}
    names: list[str] = []

    def text(part: Any) -> str:
        if not isinstance(part, tuple):
            names.append(f"x{len(names)}")
            return names[-1]
        known = hasattr(part, "_fields")
        name = classes.setdefault(type(part), f"kind{len(classes)}") if known else ""
        return f"{name}({', '.join(map(text, part))}{'' if known or not part else ','})"

    body = text(form)
    source = f"def make({', '.join(classes.values())}):\n    return lambda {', '.join(names)}: {body}"
    return compile_make(source)(*classes)  # type: ignore[no-any-return]


def _parametrized(deployment: Deployment, parameters: Parameters) -> Deployment:
    """The deployment with inputs in place of what a load needs beside the passes."""
    gpu, plan = deployment.gpu, deployment.plan

    def number(value: Any, *path: str) -> Any:
        return value if value is None or value == 1 else parameters.number(value, path)

    return replace(
        deployment,
        engine=parameters.record(deployment.engine, ("engine",)),
        gpu=replace(
            gpu, **{name: number(getattr(gpu, name), "gpu", name) for name in ("bandwidth", "host_link", "scale_out")}
        ),
        plan=replace(plan, dp=number(plan.dp, "plan", "dp"), pp=number(plan.pp, "plan", "pp")),
        replicas=parameters.number(deployment.replicas, ("replicas",)),
    )


def _of_lengths(lengths: Any) -> Hashable:
    return lengths.prompts, lengths.answers, lengths.product
