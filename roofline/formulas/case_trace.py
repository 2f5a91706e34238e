"""A prediction on traced numbers: its results, their slopes, and where they change regime."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property, reduce
from typing import Any

from roofline.errors import BadInput, RooflineError, UnknownName, shown
from roofline.formulas.inputs import LOAD, Input, refuse_arrays, with_inputs
from roofline.formulas.regimes import NOWHERE, End, Regime, nearer
from roofline.ops import Real, plain
from roofline.physics.efficiency import DOUBLING
from roofline.physics.forward import Pass
from roofline.physics.one_equation import CHANGES_SIDES
from roofline.serving.latency import load_text
from roofline.serving.prediction import LIMIT_BINDS, Prediction
from roofline.symbolic.gradient import gradient
from roofline.symbolic.graph import Node
from roofline.symbolic.traced import Switch, Trace, depends

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
_TERMS = ("compute", "memory", "exponentials", "link", "latency")
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
        plan = deployment.plan
        degrees = ", ".join(
            f"{name} {value}" for name in ("tp", "pp", "ep", "dp") if (value := getattr(plan, name)) > 1
        )
        return (
            f"{deployment.model.short_name} on {deployment.num_gpus} x {deployment.gpu.name}"
            f"{f' ({degrees})' if degrees else ''}, isl {workload.isl:g}, osl {workload.osl:g}, "
            f"{load_text(workload)}, prefix {workload.prefix:g}, {prediction.basis}, engine {prediction.engine}"
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
            terms = {name: getattr(kernel.terms, name) for name in _TERMS if plain(getattr(kernel.terms, name))}
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
        if not isinstance(name, str) or name not in UNITS:
            raise UnknownName(f"unknown result {shown(name)}; choose from {', '.join(UNITS)}")
    return tuple(dict.fromkeys(names))


def _binding(terms: dict[str, Real]) -> str:
    return max(terms, key=lambda name: plain(terms[name]))


def _pass_bounds(passed: Pass, name: str) -> list[tuple[Real, Real, str]]:
    """Where another bound comes to take the largest share of a pass."""
    shares: dict[str, Real] = {}
    for kernel in passed.kernels:
        bound = _binding({term: getattr(kernel.terms, term) for term in _TERMS})
        shares[bound] = shares.get(bound, 0.0) + kernel.time
    binding = _binding(shares)
    return [
        (shares[binding], share, f"{name} turns {bound}-bound")
        for bound, share in shares.items()
        if bound != binding and plain(share)
    ]
