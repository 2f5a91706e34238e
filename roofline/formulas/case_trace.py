"""A prediction on traced numbers: its results, what they depend on, and where they change regime."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Any

from roofline.errors import BadInput, RooflineError, UnknownName, shown
from roofline.formulas.inputs import LOAD, Input, refuse_arrays, with_inputs
from roofline.formulas.regimes import NOWHERE, End, Regime, nearer
from roofline.ops import Real, plain
from roofline.physics.efficiency import DOUBLING
from roofline.physics.forward import Pass
from roofline.physics.one_equation import CHANGES_SIDES
from roofline.serving.latency import load_text
from roofline.serving.prediction import LIGHT_BINDS, Prediction
from roofline.symbolic.gradient import gradient
from roofline.symbolic.graph import Node
from roofline.symbolic.traced import Switch, Trace, depends

__all__ = ["NO_FORMULA", "RESULTS", "UNITS", "CaseTrace", "check_results"]

#: Results that can be asked for, with the unit of each.
UNITS = {
    "ttft": "s",
    "tpot": "s",
    "e2el": "s",
    "output_tok_s_gpu": "1/s",
    "output_tok_s": "1/s",
    "tok_s_user": "1/s",
}
RESULTS = ("ttft", "tpot", "e2el", "output_tok_s_gpu")
#: Why there is no formula under a load.
NO_FORMULA = (
    "no closed form under concurrency or request_rate, where the answer is a fixed point; use batch instead, or "
    "roofline sensitivity for every slope"
)

_PARTS = {"ttft": ("prefill",), "tpot": ("decode",), "tok_s_user": ("decode",)}
_TERMS = ("compute", "memory", "exponentials", "link", "latency")
_NOTABLE = 0.01  # share of a pass from which on what binds a kernel is part of the regime
_BESIDE = 2.0**-30  # relative step to either side of a tie
_JUMP = 2.0**-20  # relative change of a result over that step beyond which it jumps
_UNSAID = "another branch of the model applies"


class CaseTrace:
    """One case, traced once."""

    def __init__(self, prediction: Prediction) -> None:
        refuse_arrays(prediction, "a derivative")
        self.prediction = prediction
        self.inputs: dict[str, Input] = {}
        self.trace = Trace()
        self.traced = with_inputs(prediction, self._input, self.trace.scope)
        total: Any = self.traced.e2el  # every choice is made with it
        costs_doublings = any(name.startswith("a2_") and depends(total, name) for name in self.inputs)
        self._switches = [
            switch for switch in dict.fromkeys(self.trace.switches) if costs_doublings or switch.meaning != DOUBLING
        ]
        self._slopes: dict[str, dict[str, float]] = {}
        self._ends: dict[tuple[str, str], End] = {}
        self._beside: dict[tuple[str, float], tuple[Trace, Prediction]] = {}

    def _input(self, entry: Input) -> Node:
        self.inputs[entry.name] = entry
        return self.trace.input(entry.name, entry.value)

    @property
    def title(self) -> str:
        """The case in a line."""
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
        """A result on traced numbers.

        Args:
            result: one of `UNITS` [text].

        Returns:
            The number; None where it does not apply.
        """
        found: Node | None = getattr(self.traced, result)
        return found

    def passes(self, result: str) -> tuple[tuple[str, Pass], ...]:
        """Passes that a result is made of.

        Args:
            result: one of `UNITS` [text].

        Returns:
            Name and pass of each, on traced numbers.
        """
        both = {"prefill": self.traced.prefill, "decode": self.traced.decode}
        return tuple((name, both[name]) for name in self._parts(result))

    def regime(self, result: str) -> str:
        """What binds the passes of a result.

        Args:
            result: one of `UNITS` [text].

        Returns:
            Text such as ``prefill compute-bound`` [text].
        """
        return ", ".join(f"{name} {self._bound[name]}-bound" for name in self._parts(result))

    def gradient(self, result: str) -> dict[str, float]:
        """Slopes of a result.

        Args:
            result: one of `UNITS` [text].

        Returns:
            Slope by name of every input that the result came from; none where it does not apply.
        """
        found = self._slopes.get(result)
        if found is None:
            found = self._slopes[result] = gradient(self.number(result))
        return found

    def margin(self, result: str, name: str) -> End:
        """How far an input may move before a result changes its regime.

        Args:
            result: one of `UNITS` [text].
            name: of the input [text].

        Returns:
            The nearest change, relative to the input and signed; None where there is none within a factor of a
            thousand [1]. What happens there [text].
        """
        best = NOWHERE
        for section in (*self._parts(result), LOAD):
            best = nearer(best, self._end(section, name))
        return best

    def _end(self, section: str, name: str) -> End:
        found = self._ends.get((section, name))
        if found is None:
            entry, regime = self.inputs[name], self._regimes.get(section)
            found = self._ends[section, name] = NOWHERE if regime is None or not entry.value else regime.nearest(entry)
        return found

    def is_tie(self, result: str, name: str) -> bool:
        """Whether a derivative jumps just where the input is.

        Args:
            result: one of `UNITS` [text].
            name: of the input [text].

        Returns:
            Whether it does [bool].
        """
        parts = self._parts(result)
        return any(
            name in moved for switch, moved in self._ties if switch.section in parts or switch.meaning == LIGHT_BINDS
        )

    def beside(self, result: str, name: str) -> tuple[float | None, float | None]:
        """Elasticities just below and just above an input's value.

        Args:
            result: one of `UNITS` [text].
            name: of the input [text].

        Returns:
            Both; None where the case does not exist on that side, or the result takes a step [1].
        """
        found: list[float | None] = []
        here = getattr(self.prediction, result)
        for side in (1.0 - _BESIDE, 1.0 + _BESIDE):
            try:
                trace, again = self._at(name, side)
                number = getattr(again, result)
            except (RooflineError, ZeroDivisionError):
                found.append(None)
            else:
                if abs(number.value / here - 1.0) > _JUMP and trace.stepped & trace.bit(name):
                    return None, None  # a step: neither side has a slope, the answer is followed along whole numbers
                found.append(gradient(number).get(name, 0.0) * self.inputs[name].value / number.value)
        return found[0], found[1]

    def _at(self, name: str, side: float) -> tuple[Trace, Prediction]:
        """The case traced with an input to one side of its value."""
        found = self._beside.get((name, side))
        if found is None:
            trace = Trace()
            again = with_inputs(
                self.prediction,
                lambda entry: trace.input(entry.name, entry.value * (side if entry.name == name else 1.0)),
            )
            found = self._beside[name, side] = trace, again
        return found

    @cached_property
    def _bound(self) -> dict[str, Real]:
        return self.prediction.bound

    def _parts(self, result: str) -> tuple[str, ...]:
        several = self.prediction.tpot is not None
        return _PARTS.get(result, ("prefill", "decode") if several else ("prefill",))

    @cached_property
    def _ties(self) -> list[tuple[Switch, set[str]]]:
        """Choices whose sides are equal, and the inputs that move one side against the other."""
        found = []
        for switch in self._switches:
            if switch.is_tie:
                left, right = gradient(switch.left), gradient(switch.right)
                found.append((switch, {name for name in left | right if left.get(name, 0.0) != right.get(name, 0.0)}))
        return found

    @cached_property
    def _regimes(self) -> dict[str, Regime]:
        """Changes of what binds a kernel that matters, and choices that formulas made, by part of the answer."""
        sides: dict[str, list[tuple[Real, Real, str]]] = {}
        for section in self._parts("e2el"):
            sides[section] = [*_pass_bounds(getattr(self.traced, section), section), *self._kernel_bounds(section)]
        at_light_speed = self.prediction.basis == "ideal"  # then kernels have their bounds already
        for switch in self._switches:
            if at_light_speed and switch.meaning == CHANGES_SIDES:
                continue
            if switch.section or switch.meaning == LIGHT_BINDS:  # light speed itself matters where it binds alone
                sides.setdefault(switch.section, []).append((switch.left, switch.right, switch.meaning or _UNSAID))
        return {section: Regime(self.trace, each) for section, each in sides.items()}

    def _kernel_bounds(self, section: str) -> list[tuple[Real, Real, str]]:
        found = []
        total = plain(getattr(self.prediction, section).time)
        is_light = self.prediction.basis == "ideal"  # every kernel has a kink where its sides are equal
        for kernel in getattr(self.traced, section).kernels:
            if not kernel.count or (plain(kernel.time) < _NOTABLE * total and not is_light):
                continue
            terms = {name: getattr(kernel.terms, name) for name in _TERMS if plain(getattr(kernel.terms, name))}
            binding = _binding(terms)
            found += [
                (terms[binding], term, f"{section} {kernel.name} turns {name}-bound")
                for name, term in terms.items()
                if name != binding
            ]
        return found


def check_results(of: Sequence[str]) -> tuple[str, ...]:
    """Names of results, each once.

    Args:
        of: one name or several [text].

    Returns:
        The names [text].

    Raises:
        UnknownName: a name that is none.
        BadInput: none at all.
    """
    names = tuple(
        name.replace("-", "_") if isinstance(name, str) else name for name in ((of,) if isinstance(of, str) else of)
    )
    if not names:
        raise BadInput(f"of is empty; choose from {', '.join(UNITS)}")
    for name in names:
        if not isinstance(name, str) or name not in UNITS:
            raise UnknownName(f"unknown result {shown(name)}; choose from {', '.join(UNITS)}")
    return tuple(dict.fromkeys(names))


def _binding(terms: dict[str, Real]) -> str:
    """Name of the largest term."""
    return max(terms, key=lambda name: plain(terms[name]))


def _pass_bounds(passed: Pass, name: str) -> list[tuple[Real, Real, str]]:
    """Where another bound takes the largest share of a pass."""
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
