"""A prediction on traced numbers: its results, what they depend on, and where they change regime."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import cached_property
from typing import NamedTuple

from roofline.errors import BadInput, RooflineError, UnknownName
from roofline.evaluate.inputs import Input, inputs, refuse_arrays, with_inputs
from roofline.evaluate.traced import Switch, Trace, Traced, plain, replayed
from roofline.ops import Real
from roofline.physics.forward import Pass
from roofline.serving.prediction import Prediction

__all__ = ["RESULTS", "UNITS", "Boundary", "CaseTrace", "check_results"]

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

_PARTS = {"ttft": ("prefill",), "tpot": ("decode",), "tok_s_user": ("decode",)}
_TERMS = ("compute", "memory", "exponentials", "link", "latency")
_NOTABLE = 0.01  # share of a pass from which on what binds a kernel is part of the regime
_BESIDE = 2.0**-30  # relative step to either side of a tie
_MOST_TRIES = 4  # nearest boundaries, by first order, of which the nearest is found exactly
_MOST_STEPS = 40
_FARTHEST = math.log(1000.0)
_EXACT = 2.0**-40
_PHRASES = {
    "local_kv_heads": "KV heads begin or cease to be replicated",
    "windowed_pairs": "a window is filled",
    "reach": "a window is filled",
    "visible_pairs": "the next chunk begins",
    "prefill": "a single prompt token is left to compute",
    "decode": "a single step is left",
    "rank_batch": "a data-parallel rank gets another sequence",
    "link_roof": "the ranks leave the scale-up domain",
    "_across_domains": "another scale-up domain takes part",
    "doublings": "another doubling of the ranks begins",
    "collective_time": "ring and switch change places",
    "_add_prompt": "attention after the prefix is absorbed or expanded",
    "tuned": "an efficiency reaches 1",
    "_corrected": "light speed binds",
    "kernel_time": "a kernel changes sides",
    "crossings": "a stage moves to another domain",
    "all_reduce": "no collective is left",
    "_add_dispatch": "experts begin or cease to be shared by ranks",
    "_add_combine": "experts begin or cease to be shared by ranks",
    "_add_head": "no collective is left",
}


class Boundary(NamedTuple):
    """Where a regime ends: both sides equal."""

    left: Real
    right: Real
    label: str  # what happens there


class CaseTrace:
    """One case, traced once."""

    def __init__(self, prediction: Prediction) -> None:
        refuse_arrays(prediction, "a derivative")
        self.prediction = prediction
        self.inputs: dict[str, Input] = inputs(prediction)
        self.trace = Trace()
        self.traced = with_inputs(
            prediction, lambda entry: self.trace.input(entry.name, entry.value), self.trace.section
        )
        if not any(name.startswith("a2_") for name in self.inputs):  # doublings of the ranks cost nothing
            self.trace.switches = [switch for switch in self.trace.switches if switch.home != "doublings"]
        self._boundaries: dict[str, list[Boundary]] = {}

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
            f"batch {workload.batch:g}, prefix {workload.prefix:g}, {prediction.basis}, engine {prediction.engine}"
        )

    def number(self, result: str) -> Traced | None:
        """A result on traced numbers.

        Args:
            result: one of `UNITS` [text].

        Returns:
            The number; None where it does not apply.
        """
        found: Traced | None = getattr(self.traced, result)
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
        bound = self.prediction.bound
        return ", ".join(f"{name} {bound[name]}-bound" for name in self._parts(result))

    def margin(self, result: str, name: str) -> tuple[float | None, str]:
        """How far an input may move before a result changes its regime.

        Args:
            result: one of `UNITS` [text].
            name: of the input [text].

        Returns:
            The nearest change, relative to the input and signed; None where there is none within a factor of a
            thousand [1]. What happens there [text].
        """
        entry = self.inputs[name]
        if not entry.value:
            return None, ""
        near = sorted(
            (abs(distance), position, boundary)
            for position, boundary in enumerate(self._bounds(result))
            if (distance := _first_order(boundary, entry)) is not None
        )
        found: list[tuple[float, float, str]] = []
        for _, _, boundary in near[:_MOST_TRIES]:
            change = _crossing(boundary, entry)
            if change is not None:
                found.append((abs(change), change, boundary.label))
        if not found:
            return None, ""
        _, change, label = min(found)
        return change, label

    def is_tie(self, result: str, name: str) -> bool:
        """Whether a derivative jumps just where the input is.

        Args:
            result: one of `UNITS` [text].
            name: of the input [text].

        Returns:
            Whether it does [bool].
        """
        return any(
            switch.is_tie and _moves(switch.left, switch.right, name)
            for switch in self.trace.switches
            if switch.section in ("", *self._parts(result))
        )

    def beside(self, result: str, name: str) -> tuple[float | None, float | None]:
        """Elasticities just below and just above an input's value.

        Args:
            result: one of `UNITS` [text].
            name: of the input [text].

        Returns:
            Both; None where the case does not exist on that side [1].
        """
        found: list[float | None] = []
        for side in (1.0 - _BESIDE, 1.0 + _BESIDE):
            trace = Trace()
            try:
                again = with_inputs(
                    self.prediction,
                    lambda entry, trace=trace, side=side: trace.input(  # type: ignore[misc]  # bound now, not later
                        entry.name, entry.value * (side if entry.name == name else 1.0)
                    ),
                )
                number = getattr(again, result)
            except (RooflineError, ZeroDivisionError):
                found.append(None)
            else:
                found.append(number.gradient.get(name, 0.0) * self.inputs[name].value / number.value)
        return found[0], found[1]

    def _parts(self, result: str) -> tuple[str, ...]:
        several = self.prediction.tpot is not None
        return _PARTS.get(result, ("prefill", "decode") if several else ("prefill",))

    def _bounds(self, result: str) -> list[Boundary]:
        """Changes of what binds a kernel that matters, and choices that formulas made."""
        found = self._boundaries.get(result)
        if found is None:
            parts = ("", *self._parts(result))
            every = (*self._kernel_bounds, *self._kinks)
            found = self._boundaries[result] = [boundary for section, boundary in every if section in parts]
        return found

    @cached_property
    def _kernel_bounds(self) -> list[tuple[str, Boundary]]:
        found = []
        for section in self._parts("e2el"):
            for kernel in getattr(self.traced, section).kernels:
                total = plain(getattr(self.prediction, section).time)
                is_light = self.prediction.basis == "ideal"  # every kernel has a kink where its sides are equal
                if plain(kernel.time) < _NOTABLE * total and not is_light:
                    continue
                terms = {name: getattr(kernel.terms, name) for name in _TERMS if plain(getattr(kernel.terms, name))}
                binding = max(terms, key=lambda name: plain(terms[name]))
                found += [
                    (section, Boundary(terms[binding], term, f"{kernel.name} turns {name}-bound"))
                    for name, term in terms.items()
                    if name != binding
                ]
        return found

    @cached_property
    def _kinks(self) -> list[tuple[str, Boundary]]:
        at_light_speed = self.prediction.basis == "ideal"  # then kernels have their bounds already
        return [
            (switch.section, Boundary(switch.left, switch.right, _label(switch)))
            for switch in self.trace.switches
            if not (at_light_speed and switch.home == "kernel_time")
        ]


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
    names = (of,) if isinstance(of, str) else tuple(of)
    if not names:
        raise BadInput(f"of names no result; it may be {', '.join(UNITS)}")
    for name in names:
        if name not in UNITS:
            raise UnknownName(f"no result {name!r}; it may be {', '.join(UNITS)}")
    return tuple(dict.fromkeys(names))


def _label(switch: Switch) -> str:
    return _PHRASES.get(switch.home, f"the other side of {switch.home} holds")


def _moves(left: Real, right: Real, name: str) -> bool:
    """Whether an input moves one number against another."""
    one = left.gradient.get(name, 0.0) if type(left) is Traced else 0.0
    other = right.gradient.get(name, 0.0) if type(right) is Traced else 0.0
    return bool(one != other) or _is_rounded(left, name) or _is_rounded(right, name)


def _is_rounded(number: Real, name: str) -> bool:
    return type(number) is Traced and number.operation == "ceil" and name in number.gradient


def _first_order(boundary: Boundary, entry: Input) -> float | None:
    """Distance of a boundary in the logarithm of an input, as if both sides were power laws; None where far."""
    left, right = plain(boundary.left), plain(boundary.right)
    if not (left > 0.0 and right > 0.0) or not _moves(boundary.left, boundary.right, entry.name):
        return None
    slope = 0.0
    for number, sign in ((boundary.left, 1.0), (boundary.right, -1.0)):
        if type(number) is Traced:
            slope += sign * number.gradient.get(entry.name, 0.0) * entry.value / number.value
    if not slope:
        return None
    distance = -math.log(left / right) / slope
    return distance if abs(distance) <= _FARTHEST else None


def _crossing(boundary: Boundary, entry: Input) -> float | None:
    """Relative change of an input at which both sides are equal, by the secant method in logarithms."""

    def gap(distance: float) -> float | None:
        at = {entry.name: entry.value * math.exp(distance)}
        try:
            left, right = replayed(boundary.left, at), replayed(boundary.right, at)
        except (ArithmeticError, ValueError):
            return None
        return math.log(left / right) if left > 0.0 and right > 0.0 else None

    before, there, here = 0.0, _first_order(boundary, entry), gap(0.0)
    if there is None or here is None:
        return None
    for _ in range(_MOST_STEPS):
        if abs(here) <= _EXACT:
            return math.expm1(before)
        beyond = gap(there) if abs(there) <= _FARTHEST else None
        if beyond is None:
            there = 0.5 * (before + there)
            continue
        if beyond == here:
            return None
        before, here, there = there, beyond, there - beyond * (there - before) / (beyond - here)
    return None
