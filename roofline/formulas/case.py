"""One case traced: its inputs by name, every operation behind its answer, and where its regime ends."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from functools import cached_property, reduce
from typing import Any, TypeVar

from roofline.numbers.operations import Real, plain
from roofline.numbers.quantity import BITS_PER_BYTE
from roofline.numbers.roots import narrowed
from roofline.physics.equation import BOUNDS, CHANGES_SIDES, DOUBLING
from roofline.physics.passes import Pass
from roofline.physics.plan import Deployment, ModelQuantization, Offload
from roofline.physics.programs import calling
from roofline.serving.latency import Workload, request_passes
from roofline.serving.load.steady import mean_latencies, served
from roofline.serving.prediction import LIMIT_BINDS, Prediction, memory_of
from roofline.serving.prompts import is_a_mixture
from roofline.serving.quantization import MATRICES
from roofline.serving.shown import case_text, degrees_text, deployed_text
from roofline.specs.engine import Engine
from roofline.specs.formats import format_symbol
from roofline.specs.gpu import Calibration, CollectiveEfficiency, Efficiency, Gpu
from roofline.specs.load import LASTING, RUN
from roofline.support.errors import BadInput, RooflineError, check_known
from roofline.support.records import NamedTuple, replace
from roofline.symbolic.graph import (
    Calls,
    Function,
    Graph,
    Node,
    Switch,
    Trace,
    Values,
    depends,
    gradient,
    nodes_of,
    reach_of,
)
from roofline.symbolic.programs import called, javascript_source

# Every quantity that a prediction depends on, as an input that can be named, changed or traced.

#: Time is homogeneous of degree -1 in rates and 1 / latencies.
KINDS = ("rate", "latency", "efficiency", "workload", "precision", "plan", "capacity")

WORKLOAD = {
    "isl": ("tokens", "prompt length"),
    "osl": ("tokens", "answer length"),
    "batch": ("sequences", "sequences in the batch"),
    "prefix": ("tokens", "cached prompt tokens"),
    **{name: (kind.measure, kind.meaning) for name, kind in LASTING.items()},
    RUN: ("requests", "requests in the run"),
}

#: Part of a prediction with the equations of a load, in addition to prefill and decode.
LOAD = ""

_KERNEL = {
    "t0": ("latency", "s", "kernel launch and pipeline fill"),
    "t0_ep": ("latency", "s", "kernel launch and pipeline fill, experts spread over ranks"),
    "kappa": ("latency", "s", "per tile step, overlapped with compute"),
    "kappa_s": ("latency", "s", "per tile step, not overlapped"),
    "eps": ("latency", "s", "per active expert"),
    "eta_c": ("efficiency", "1", "share of the peak"),
    "eta_m": ("efficiency", "1", "share of the HBM bandwidth"),
    "eta_x": ("efficiency", "1", "share of the special-function rate"),
    "eta_s": ("efficiency", "1", "share of the HBM bandwidth, traffic not overlapped"),
}
_COLLECTIVE = {
    "a0": ("latency", "s", "start-up"),
    "a1": ("latency", "s", "per additional rank"),
    "a2": ("latency", "s", "per doubling of the ranks"),
    "q": ("latency", "s", "pipeline ramp-up"),
    "eta": ("efficiency", "1", "share of the link's rate"),
    "eta_switch": ("efficiency", "1", "share of the link's rate, in-switch reduction"),
}
#: Meaning of every time of an engine.
HOST_TIMES = {
    "network": "round trip between client and server",
    "request": "host, per request",
    "arrival": "host, more per request that comes while others are decoded, times the square root of their number",
    "handover": "engine, per request that goes from a prefill to a decode pool",
    "prefill": "host, per prefill pass",
    "launch": "host, per kernel of a pass over prompts",
    "launch_decode": "host, per kernel of a decode step",
    "step": "host, per decode step",
    "layer": "host, per layer of a decode step",
    "sequence": "host, per sequence of a decode step",
    "all_reduce": "engine, per all-reduce",
}
_TUNING = {
    "eta_c": "share of the peak",
    "compute": "factor on the share of the peak",
    "memory": "factor on the share of the bandwidth",
}


class Input(NamedTuple):
    name: str
    kind: str
    unit: str
    value: float
    meaning: str


Make = Callable[[Input], Real]
_Entry = TypeVar("_Entry", Efficiency, CollectiveEfficiency)


def with_inputs(
    prediction: Prediction, make: Make, part: Callable[[str], AbstractContextManager[Any]] = nullcontext
) -> Prediction:
    """The prediction of a single case computed again, every input replaced by `make(input)`; its `memory` stays.

    `part` gives the context in which the prefill, the decode pass and the load are computed, by name.
    """
    deployment, workload = prediction.deployment, prediction.workload
    plan = deployment.plan
    if plan.tp > 1:
        plan = replace(plan, tp=make(Input("tp", "plan", "1", float(plan.tp), "tensor-parallel degree")))
    deployment = replace(
        deployment,
        plan=plan,
        gpu=_gpu(deployment, make),
        offload=_offload(deployment.offload, make),
        quantization=_quantization(deployment, make),
        engine=_engine(deployment.engine, make),
        routing_skew=_input(
            make, "routing_skew", "workload", "1", deployment.routing_skew, "routing skew of the experts"
        ),
    )
    numbers = workload.numbers
    lengths = {
        name: make(Input(name, "workload", unit, float(numbers[name]), meaning))
        for name, (unit, meaning) in WORKLOAD.items()
        if name in numbers
    }
    workload = workload.at(lengths)
    cache = workload.cache
    if cache is not None and type(cache.hit) is float and is_a_mixture(cache):
        hit = make(Input("cache_hit", "workload", "1", cache.hit, "share of requests whose prefix is cached"))
        workload = replace(workload, cache=replace(cache, hit=hit))
    under_load = prediction.served
    if under_load is not None:
        with part(LOAD):
            under_load = served(deployment, workload, tuple(map(plain, under_load.state)))
    with part("prefill"):  # a new deployment per part: choices in its memo would belong to another part
        prefill, _ = request_passes(replace(deployment), workload, under_load)
    with part("decode"):
        _, decode = request_passes(replace(deployment), workload, under_load)
    factors = {
        name: value
        if value == 1.0
        else make(Input(f"correction_{name}", "efficiency", "1", value, "correction by a measurement"))
        for name, value in (("ttft", prediction.correction.ttft), ("tpot", prediction.correction.tpot))
    }
    correction = prediction.correction._replace(**factors)
    return replace(
        prediction,
        deployment=deployment,
        workload=workload,
        prefill=prefill,
        decode=decode,
        correction=correction,
        served=under_load,
    )


def inputs(prediction: Prediction) -> dict[str, Input]:
    """Inputs of a single case by name, whether or not a result depends on them."""
    entries: dict[str, Input] = {}

    def collect(entry: Input) -> float:
        entries[entry.name] = entry
        return entry.value

    with_inputs(prediction, collect)
    return entries


def changed(prediction: Prediction, changes: Mapping[str, Any]) -> Prediction:
    """The prediction of a single case with inputs at other values, its memory included."""
    if changes.keys() <= set(WORKLOAD):  # the deployment stays
        deployment, workload = prediction.deployment, prediction.workload.at(changes)
        under_load = None if prediction.served is None else served(deployment, workload)
        prefill, decode = request_passes(deployment, workload, under_load)
        result = replace(prediction, workload=workload, prefill=prefill, decode=decode, served=under_load)
    else:
        result = with_inputs(prediction, lambda entry: changes.get(entry.name, entry.value))
    return replace(result, memory=memory_of(result.deployment, result.workload, result.served))


def refuse_arrays(prediction: Prediction, question: str) -> None:
    """Refuse a prediction of several cases; `question` opens the message."""
    for name, number in prediction.workload.numbers.items():
        if not isinstance(number, float):
            raise BadInput(f"{question} takes one case, but {name} is an array; call it once per element")


def _input(make: Make, name: str, kind: str, unit: str, value: Real | None, meaning: str) -> Any:
    """`make` of an input; a value that is absent or zero stays as it is."""
    if value is None or value == 0.0:
        return value
    return make(Input(name if name.isidentifier() else _identifier(name), kind, unit, float(value), meaning))


def _identifier(name: str) -> str:
    """A name, parts of which may come from a file, as an identifier."""
    return re.sub(r"\W+", "_", name, flags=re.ASCII)


def _gpu(deployment: Deployment, make: Make) -> Gpu:
    gpu, per_s = deployment.gpu, "B/s"
    link = gpu.link
    return replace(
        gpu,
        peaks={
            dtype: _input(make, f"peak_{dtype}", "rate", "FLOP/s", rate, f"dense {dtype} peak")
            for dtype, rate in gpu.peaks.items()
        },
        bandwidth=_input(make, "bandwidth", "rate", per_s, gpu.bandwidth, "HBM bandwidth"),
        power_cap=_input(make, "power_cap", "capacity", "1", gpu.power_cap, "power cap over the TDP"),
        memory=_input(make, "memory", "capacity", "B", gpu.memory, "usable HBM"),
        exp_rate=_input(make, "exp_rate", "rate", "exp/s", gpu.exp_rate, "special-function rate"),
        scale_out=_input(make, "scale_out", "rate", per_s, gpu.scale_out, "network per GPU"),
        host_link=gpu.host_link
        if gpu.host_domain is None and deployment.offload is None
        else _input(make, "host_link", "rate", per_s, gpu.host_link, "PCIe per direction"),
        link=replace(
            link,
            bandwidth=_input(make, "link_bandwidth", "rate", per_s, link.bandwidth, f"{link.kind} per direction"),
            peer_bandwidth=_input(make, "peer_bandwidth", "rate", per_s, link.peer_bandwidth, "link to one peer"),
        ),
        calibration=None if gpu.calibration is None else _calibration(gpu.calibration, make),
    )


def _offload(offload: Offload | None, make: Make) -> Offload | None:
    """Size of what stays in host memory, and the rates that are stated for it."""
    if offload is None:
        return None
    of_cpu = "host memory, read by the CPU"
    return Offload(
        _input(make, "offload", "plan", "B", offload.size, "weights per GPU in host memory"),
        offload.is_experts,
        _input(make, "offload_bandwidth", "rate", "B/s", offload.bandwidth, "host memory to one GPU"),
        _input(make, "cpu_bandwidth", "rate", "B/s", offload.cpu_bandwidth, of_cpu),
        offload.is_tables,
    )


def _calibration(calibration: Calibration, make: Make) -> Calibration:
    kernels = {
        (kind, dtype): _fitted(entry, make, _KERNEL, f"{kind}_{dtype}", f"{dtype} {kind}")
        for (kind, dtype), entry in calibration.kernels.items()
    }
    collectives = {
        name: _fitted(entry, make, _COLLECTIVE, name, name) for name, entry in calibration.collectives.items()
    }
    return replace(calibration, kernels=kernels, collectives=collectives)


def _fitted(entry: _Entry, make: Make, facts: Mapping[str, tuple[str, str, str]], name: str, of: str) -> _Entry:
    """Efficiencies with an input for each of the fields in `facts`, which give its kind, unit and meaning."""
    values = {
        field: _input(make, f"{field}_{name}", kind, unit, getattr(entry, field), f"{meaning}, {of}")
        for field, (kind, unit, meaning) in facts.items()
    }
    return replace(entry, **values)


def _engine(engine: Engine, make: Make) -> Engine:
    times = {
        field: _input(
            make, field if field == "network" else f"host_{field}", "latency", "s", getattr(engine, field), meaning
        )
        for field, meaning in HOST_TIMES.items()
    }
    tunings = tuple(
        replace(
            tuning,
            **{
                field: _input(
                    make,
                    "_".join(filter(None, (f"tuning_{field}", tuning.kind, tuning.dtype, tuning.generation))),
                    "efficiency",
                    "1",
                    getattr(tuning, field),
                    f"{meaning} of {engine.name}'s kernels",
                )
                for field, meaning in _TUNING.items()
            },
        )
        for tuning in engine.tunings
    )
    return replace(engine, **times, tunings=tunings)


def _quantization(deployment: Deployment, make: Make) -> ModelQuantization:
    """Bits per weight are one input per format of the matrices, one for the head, one for the KV cache."""
    quantization = deployment.quantization
    weights = [name for name in MATRICES if deployment.model.is_moe or name in ("linear", "attention")]
    formats = dict.fromkeys(quantization.sections[name].format for name in weights)
    bits: dict[str, Real] = {}
    for name in formats:
        stored = next(scheme for scheme in quantization.sections.values() if scheme.format == name)
        key = "weight_bits" if len(formats) == 1 else f"weight_bits_{format_symbol(name)}"
        bits[name] = make(Input(key, "precision", "bit", stored.weight_nbytes * BITS_PER_BYTE, f"{name} weights"))
    sections = {
        name: scheme._replace(weight_nbytes=bits[scheme.format] / BITS_PER_BYTE) if name in weights else scheme
        for name, scheme in quantization.sections.items()
    }
    head = quantization.sections["head"]
    head_bits = make(Input("head_bits", "precision", "bit", head.weight_nbytes * BITS_PER_BYTE, "LM head weights"))
    sections["head"] = head._replace(weight_nbytes=head_bits / BITS_PER_BYTE)
    kv_bits = make(Input("kv_bits", "precision", "bit", quantization.kv_nbytes * BITS_PER_BYTE, "KV cache values"))
    return quantization._replace(sections=sections, kv_nbytes=kv_bits / BITS_PER_BYTE)


# A prediction on traced numbers: its results, their slopes, and where they change regime.

#: Unit of every result.
UNITS = {
    "ttft": "s",
    "tpot": "s",
    "e2el": "s",
    "output_tok_s_gpu": "1/s",
    "output_tok_s": "1/s",
    "tok_s_user": "1/s",
}
RESULTS = ("ttft", "tpot", "e2el", "output_tok_s_gpu")
NO_FORMULA = (
    "no closed form under concurrency or request_rate, where the answer is a fixed point; use batch instead, or "
    "roofline sensitivity for every slope"
)

_PARTS = {"ttft": ("prefill",), "tpot": ("decode",), "tok_s_user": ("decode",)}
_NOTABLE = 0.01  # least share of a pass for a kernel's bound to be part of the regime
_BESIDE = 2.0**-30  # relative step to either side of a tie
_JUMP = 2.0**-20  # a larger relative change of a result over that step is a jump
_OTHER_BRANCH = "another branch of the model applies"


class CaseTrace:
    """One case, traced once."""

    def __init__(self, prediction: Prediction) -> None:
        refuse_arrays(prediction, "a derivative")
        self.prediction = prediction
        self.inputs: dict[str, Input] = {}
        self.trace = Trace()
        self.traced = with_inputs(prediction, self._input, self.trace.scope)
        total: Any = self.traced.e2el  # computing it makes every choice
        has_doubling_cost = any(name.startswith("a2_") and depends(total, name) for name in self.inputs)
        self._switches = [
            switch for switch in dict.fromkeys(self.trace.switches) if has_doubling_cost or switch.meaning != DOUBLING
        ]
        self._slopes: dict[str, dict[str, float]] = {}
        self._ends: dict[tuple[str, str], End] = {}
        self._beside: dict[tuple[str, float], tuple[Trace, Prediction]] = {}

    def _input(self, entry: Input) -> Node:
        self.inputs[entry.name] = entry
        return self.trace.input(entry.name, entry.value)

    @property
    def title(self) -> str:
        """The case in one line."""
        prediction = self.prediction
        deployment, workload = prediction.deployment, prediction.workload
        degrees = degrees_text(deployment.plan)
        return (
            f"{deployed_text(deployment)}{f' ({degrees})' if degrees else ''}, {case_text(workload)}, "
            f"prefix {workload.prefix:g}, {prediction.basis}, engine {prediction.engine}"
        )

    def number(self, result: str) -> Node | None:
        """A result on traced numbers; None where it does not apply."""
        node: Node | None = getattr(self.traced, result)
        return node

    def passes(self, result: str) -> tuple[tuple[str, Pass], ...]:
        """Name and pass of each part of a result, on traced numbers."""
        both = {"prefill": self.traced.prefill, "decode": self.traced.decode}
        return tuple((name, both[name]) for name in self._parts(result))

    def regime(self, result: str) -> str:
        """What binds the passes of a result, such as ``prefill compute-bound``."""
        return ", ".join(f"{name} {self._bound[name]}-bound" for name in self._parts(result))

    def gradient(self, result: str) -> dict[str, float]:
        """Slope of a result by input; empty where the result does not apply."""
        slopes = self._slopes.get(result)
        if slopes is None:
            slopes = self._slopes[result] = gradient(self.number(result))
        return slopes

    def margin(self, result: str, name: str) -> End:
        """The nearest end of a result's regime along an input."""
        return reduce(nearer, (self._end(section, name) for section in (*self._parts(result), LOAD)), NOWHERE)

    def _end(self, section: str, name: str) -> End:
        end = self._ends.get((section, name))
        if end is None:
            entry, regime = self.inputs[name], self._regimes.get(section)
            end = self._ends[section, name] = NOWHERE if regime is None or not entry.value else regime.nearest(entry)
        return end

    def is_tie(self, result: str, name: str) -> bool:
        """Whether the derivative jumps at the input's present value."""
        parts = self._parts(result)
        return any(
            name in moved for switch, moved in self._ties if switch.section in parts or switch.meaning == LIMIT_BINDS
        )

    def beside(self, result: str, name: str) -> tuple[float | None, float | None]:
        """Elasticities [1] just below and above an input's value; None where there is no case or the result steps."""
        elasticities: list[float | None] = []
        here = getattr(self.prediction, result)
        for side in (1.0 - _BESIDE, 1.0 + _BESIDE):
            try:
                trace, traced = self._traced_beside(name, side)
                number = getattr(traced, result)
            except (RooflineError, ZeroDivisionError):
                elasticities.append(None)
            else:
                if abs(number.value / here - 1.0) > _JUMP and trace.stepped & trace.bit(name):
                    return None, None  # a step: neither side has a slope
                elasticities.append(gradient(number).get(name, 0.0) * self.inputs[name].value / number.value)
        return elasticities[0], elasticities[1]

    def _traced_beside(self, name: str, side: float) -> tuple[Trace, Prediction]:
        """The case traced with an input at `side` times its value."""
        beside = self._beside.get((name, side))
        if beside is None:
            trace = Trace()
            traced = with_inputs(
                self.prediction,
                lambda entry: trace.input(entry.name, entry.value * (side if entry.name == name else 1.0)),
            )
            beside = self._beside[name, side] = trace, traced
        return beside

    @cached_property
    def _bound(self) -> dict[str, Real]:
        return self.prediction.bound

    def _parts(self, result: str) -> tuple[str, ...]:
        has_decode = self.prediction.tpot is not None
        return _PARTS.get(result, ("prefill", "decode") if has_decode else ("prefill",))

    @cached_property
    def _ties(self) -> list[tuple[Switch, set[str]]]:
        """Choices whose sides are equal, and the inputs that separate them."""
        ties = []
        for switch in self._switches:
            if switch.is_tie:
                left, right = gradient(switch.left), gradient(switch.right)
                ties.append((switch, {name for name in left | right if left.get(name, 0.0) != right.get(name, 0.0)}))
        return ties

    @cached_property
    def _regimes(self) -> dict[str, Regime]:
        """By part of the answer: where another term binds a notable kernel, and where choices of formulas change."""
        sides: dict[str, list[tuple[Real, Real, str]]] = {}
        for section in self._parts("e2el"):
            sides[section] = [*_pass_bounds(getattr(self.traced, section), section), *self._kernel_bounds(section)]
        for switch in self._switches:
            if self.prediction.basis == "ideal" and switch.meaning == CHANGES_SIDES:  # among the bounds already
                continue
            if switch.section or switch.meaning == LIMIT_BINDS:  # a limit counts only where it binds
                sides.setdefault(switch.section, []).append(
                    (switch.left, switch.right, switch.meaning or _OTHER_BRANCH)
                )
        return {section: Regime(self.trace, boundaries) for section, boundaries in sides.items()}

    def _kernel_bounds(self, section: str) -> list[tuple[Real, Real, str]]:
        bounds = []
        total = plain(getattr(self.prediction, section).time)
        is_ideal = self.prediction.basis == "ideal"  # then every kernel has a kink where two terms are equal
        for kernel in getattr(self.traced, section).kernels:
            if not kernel.count or (plain(kernel.time) < _NOTABLE * total and not is_ideal):
                continue
            terms = {name: getattr(kernel.terms, name) for name in BOUNDS if plain(getattr(kernel.terms, name))}
            binding = _binding(terms)
            bounds += [
                (terms[binding], term, f"{section} {kernel.name} turns {name}-bound")
                for name, term in terms.items()
                if name != binding
            ]
        return bounds


def check_results(of: Sequence[str]) -> tuple[str, ...]:
    """Names of results, each once, with underscores for hyphens."""
    requested = (of,) if isinstance(of, str) else of
    names = tuple(name.replace("-", "_") if isinstance(name, str) else name for name in requested)
    if not names:
        raise BadInput(f"of is empty; choose from {', '.join(UNITS)}")
    for name in names:
        check_known("result", name, UNITS)
    return tuple(dict.fromkeys(names))


def _binding(terms: dict[str, Real]) -> str:
    return max(terms, key=lambda name: plain(terms[name]))


def _pass_bounds(passed: Pass, name: str) -> list[tuple[Real, Real, str]]:
    """Where another bound comes to take the largest share of a pass."""
    shares: dict[str, Real] = {}
    for kernel in passed.kernels:
        bound = _binding({term: getattr(kernel.terms, term) for term in BOUNDS})
        shares[bound] = shares.get(bound, 0.0) + kernel.time
    binding = _binding(shares)
    return [
        (shares[binding], share, f"{name} turns {bound}-bound")
        for bound, share in shares.items()
        if bound != binding and plain(share)
    ]


# Where a regime ends: the nearest value of an input at which two sides of a choice are equal.

_FARTHEST = math.log(1000.0)
_ROUNDS = 60
_EXACT = 2.0**-40
_DIGITS = 9  # of a guess: boundaries at equal distance keep their order
_ALL_BUT = 1.0 - 2.0**-20

#: Signed relative change of an input at which a regime ends, None for none within a factor of 1000; what happens there.
End = tuple[float | None, str]
NOWHERE: End = (None, "")


class Boundary(NamedTuple):
    """Two positive sides of a choice; where they are equal, the regime ends."""

    left: Real
    right: Real
    label: str  # what happens there
    reach: int  # bits of the inputs that the sides depend on

    @property
    def gap(self) -> float:
        return plain(self.left) - plain(self.right)

    @property
    def is_tie(self) -> bool:
        """Whether both sides are equal up to rounding."""
        return abs(self.gap) <= _EXACT * max(plain(self.left), plain(self.right))


class Regime:
    """The choices of a traced case, and how far an input may move before one changes."""

    def __init__(self, trace: Trace, boundaries: Iterable[tuple[Real, Real, str]]) -> None:
        self._trace = trace
        self._boundaries = [
            Boundary(left, right, label, reach_of((left, right)))
            for left, right, label in dict.fromkeys(boundaries)
            if plain(left) > 0.0 and plain(right) > 0.0
        ]
        self._slopes: dict[int, dict[str, float]] = {}  # of the sides, by place

    def nearest(self, entry: Input) -> End:
        """The nearest boundary along an input, all choices unchanged up to there.

        Values and slopes give a first guess of the distance. Boundaries whose sides have changed places within it, up
        or down, are nearer.
        """
        name, bit = entry.name, self._trace.bit(entry.name)
        moved = [boundary for boundary in self._boundaries if boundary.reach & bit]
        for boundary in moved:
            if boundary.is_tie and self._slope(boundary.left, name) != self._slope(boundary.right, name):
                return 0.0, boundary.label
        moved = [boundary for boundary in moved if not boundary.is_tie]
        if not moved:
            return NOWHERE
        guesses = {place: self._guess(boundary, entry) for place, boundary in enumerate(moved)}
        values = Values([side for boundary in moved for side in boundary[:2]], [self._trace.input(name)])
        gaps = [boundary.gap for boundary in moved]

        def crossed_at(share: float) -> list[tuple[float, int]]:
            """Boundaries whose sides have changed places at a share of the reach: which end, and which boundary."""
            crossed = []
            for end in _ends(share * reach, entry):
                sides = values(entry.value * math.exp(end))
                crossed += [
                    (end, place)
                    for place, (gap, left, right) in enumerate(zip(gaps, sides[::2], sides[1::2], strict=True))
                    if (left - right) * gap < 0.0 and place in guesses
                ]
            return crossed

        reach = math.expm1(min(guesses.values()))
        best = NOWHERE
        for _ in range(_ROUNDS):
            crossed = crossed_at(1.0) or crossed_at(0.5)  # halfway as well: sides may cross twice
            if crossed:
                end, place = min(crossed, key=lambda candidate: round(guesses[candidate[1]], _DIGITS))
                change = self._crossing(moved[place], entry, end)
                if change is None or abs(change) > reach:
                    del guesses[place]
                else:
                    best, reach = (change, moved[place].label), abs(change) * (1.0 - _EXACT)
            elif best[0] is None and reach < math.inf:
                reach = reach * 4.0 if reach < math.expm1(_FARTHEST) else math.inf  # the guess fell short
            else:
                break
        return best

    def _slope(self, number: Real, name: str) -> float:
        if not isinstance(number, Node):
            return 0.0
        slopes = self._slopes.get(number.place)
        if slopes is None:
            slopes = self._slopes[number.place] = gradient(number)
        return slopes.get(name, 0.0)

    def _guess(self, boundary: Boundary, entry: Input) -> float:
        """Distance in the input's logarithm, from values and slopes; infinite where it is far.

        The nearer of two: with both sides as power laws (right for rates), and as straight lines (right for amounts).
        """
        left, right = plain(boundary.left), plain(boundary.right)
        rise, other = (self._slope(side, entry.name) * entry.value for side in boundary[:2])
        guesses = []
        if rise / left != other / right:
            guesses.append(abs(math.log(left / right) / (rise / left - other / right)))
        if rise != other and (right - left) / (rise - other) > -1.0:
            guesses.append(abs(math.log1p((right - left) / (rise - other))))
        near = min(guesses, default=math.inf)
        return near if near <= _FARTHEST else math.inf

    def _crossing(self, boundary: Boundary, entry: Input, end: float) -> float | None:
        """Relative change at which both sides are equal, between here and `end`; None where there is none."""
        values = Values(boundary[:2], [self._trace.input(entry.name)])

        def gap(distance: float) -> float:
            left, right = values(entry.value * math.exp(distance))
            return float(left - right)

        distance = narrowed(gap, (0.0, boundary.gap), (end, gap(end)))
        return None if math.isnan(distance) else math.expm1(distance)


def nearer(first: End, second: End) -> End:
    """The nearer of two ends of a regime; the first where they are at equal distance."""
    if first[0] is None or second[0] is None:
        return second if first[0] is None else first
    return second if abs(second[0]) < abs(first[0]) * (1.0 - _EXACT) else first


def _ends(reach: float, entry: Input) -> list[float]:
    """Ends up and down, in the input's logarithm, of a relative change, within the input's own range."""
    up = min(math.log1p(reach), _FARTHEST)
    down = max(math.log1p(-reach) if reach < 1.0 else -_FARTHEST, -_FARTHEST)
    if entry.kind == "efficiency" and entry.name.startswith(
        ("eta_c", "eta_m", "eta_s", "eta_all", "eta_red", "eta_p2p")
    ):
        up = min(up, -math.log(entry.value))  # a share is at most one
    if entry.name == "cache_hit":
        up = min(up, -math.log(entry.value))
    elif entry.kind in ("workload", "plan") and entry.name not in ("routing_skew", "prefix"):
        down = max(down, -math.log(entry.value) * _ALL_BUT)  # a count is at least one; below, collectives vanish
    return [end for end in (up, down) if abs(end) > _EXACT]


# Mean latencies as JavaScript functions without dependencies; the iterations of a load are loops there too.


def latency_graph(deployment: Deployment, workload: Workload) -> tuple[Graph, tuple[Real, Real]]:
    """Graph of TTFT and TPOT [s], whose inputs are isl, osl, prefix and the workload's load; all else is constant."""
    graph = Graph()
    inputs = {name: graph.input(name) for name in ("isl", "osl", workload.load.option, "prefix")}
    return graph, _latencies(deployment, workload, inputs)


def _latencies(deployment: Deployment, workload: Workload, inputs: Mapping[str, Node]) -> tuple[Real, Real]:
    if workload.cache is not None and workload.cache.hit is None and workload.cache.zipf is not None:
        raise BadInput("a hit rate by Zipf's law cannot be a formula of the prefix; give cache_hit")
    return mean_latencies(deployment, workload.at(inputs))


def latency_script(deployment: Deployment, workload: Workload, name: str = "latencies") -> str:
    """Source of a JavaScript function of the inputs of `latency_graph` that returns [TTFT, TPOT], and of what it calls.

    Passes and prompts are functions of their own, so that a load, which asks for them again and again, stays short.
    """
    graph = Calls()
    inputs = {each: graph.input(each) for each in ("isl", "osl", workload.load.option, "prefix")}
    graph.home, graph.sample = calling(deployment, graph), deployment
    latencies = _latencies(graph.home, workload, inputs)
    units = ", ".join(f"{each} [{WORKLOAD[each][0]}]" for each in inputs)
    case = f"{deployed_text(deployment)}, {degrees_text(deployment.plan, ('tp', 'pp', 'ep', 'dp'))}"
    head = f"/** Mean TTFT and TPOT [s] of {case}, by {units}. */"
    nodes = nodes_of(latencies)
    parts = [_function_script(function, deployment) for function in called(nodes)]
    if graph.home.gpu.bandwidth.key in {node.key for node in nodes}:  # of kernels that no function holds
        parts.append(f"var bandwidth = {deployment.gpu.bandwidth!r};")
    return "\n".join((*parts, head, javascript_source(name, latencies, list(inputs.values())), ""))


def _function_script(function: Function, deployment: Deployment) -> str:
    """Source of a function that a program of a deployment calls."""
    graph, figures = Graph(), function.key
    inputs = [graph.input(f"x{place}") for place in range(figures.size)]
    head = f"/** {function.name} of {', '.join(figures.arguments)}. */"
    return f"{head}\n{javascript_source(function.name, figures.of(deployment, inputs), inputs)}"
