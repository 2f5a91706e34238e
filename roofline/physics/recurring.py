"""Figures of a deployment, asked again and again: at first as formulas compute them, then by a program of them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from roofline.errors import RooflineError
from roofline.ops import Real
from roofline.physics.plan import Deployment
from roofline.records import NamedTuple

__all__ = ["Recurring", "figures_of", "recurring"]

_FEW = 32  # questions whose answers cost as much as a program does
_WORTH = 64  # elements of an array that are worth a program at once

_Numbers = tuple[Real, ...]


class Recurring(NamedTuple):
    """What is computed of a deployment and some numbers, all of them floats or arrays."""

    make: Callable[..., Any]
    deployment: Deployment
    numbers: _Numbers
    arrays: tuple[bool, ...] | None  # which of the numbers are arrays; None: none is
    size: int = 1  # elements of the largest

    def made(self) -> Any:
        """What is computed, as formulas compute it."""
        return self.make(self.deployment, *self.numbers)

    def answered(self, read: Callable[[Any], _Numbers], wrap: Callable[[Any], Any]) -> _Numbers | None:
        """Figures of what is computed, by a program of them.

        Args:
            read: the figures, of what is computed once it is wrapped [function].
            wrap: a record around what is computed [function].

        Returns:
            The figures; None where there is no program of them yet, or none that has a result for these numbers [any].
        """
        memo, key = self.deployment.memo, (read, self.make, self.arrays)
        known = memo.get(key, 0)
        if type(known) is int:
            memo[key] = known + 1
            if known < _FEW and self.size < _WORTH:
                return None
            known = memo[key] = _program(self, read, wrap)
        if known is None:
            return None
        try:
            found: _Numbers = known(*self.numbers)
        except ArithmeticError:  # as formulas would raise it, or where they look at fewer branches
            return None
        return found


def recurring(make: Callable[..., Any], deployment: Deployment, numbers: _Numbers) -> Recurring | None:
    """What is computed of a deployment and some numbers, to be answered by a program.

    Args:
        make: what is computed, of both [function].
        deployment: model, GPU, plan, precision, basis and engine.
        numbers: of any kind [any].

    Returns:
        The question; None where a number is neither a float nor an array, or where the deployment's are not.
    """
    if type(deployment.gpu.bandwidth) is not float:
        return None
    for number in numbers:
        if type(number) is not float:
            return _of_arrays(make, deployment, numbers)
    return Recurring(make, deployment, numbers, None)


def figures_of(make: Callable[..., _Numbers], deployment: Deployment, *numbers: Real) -> _Numbers:
    """Figures of a deployment.

    Args:
        make: the figures, of a deployment and numbers [function].
        deployment: model, GPU, plan, precision, basis and engine.
        numbers: of any kind [any].

    Returns:
        The figures [any].
    """
    asked = recurring(make, deployment, numbers)
    found = None if asked is None else asked.answered(_itself, _itself)
    return make(deployment, *numbers) if found is None else found


def _itself(value: Any) -> Any:
    return value


def _of_arrays(make: Callable[..., Any], deployment: Deployment, numbers: _Numbers) -> Recurring | None:
    arrays = tuple(hasattr(number, "dtype") and bool(number.shape) for number in numbers)
    others = [number for number, one in zip(numbers, arrays, strict=True) if not one]
    if not any(arrays) or any(type(number) is not float for number in others):
        return None
    size = max(number.size for number, one in zip(numbers, arrays, strict=True) if one)
    return Recurring(make, deployment, numbers, arrays, size)


def _program(asked: Recurring, read: Callable[[Any], _Numbers], wrap: Callable[[Any], Any]) -> Any:
    """A function of the numbers that gives the figures; None where the structure hangs on them."""
    from roofline.symbolic.graph import Graph

    graph = Graph()
    inputs = [graph.input(f"x{place}") for place in range(len(asked.numbers))]
    try:
        outputs = read(wrap(asked.make(asked.deployment, *inputs)))
        if asked.arrays is None:
            from roofline.symbolic.program import python_program

            return python_program(outputs, inputs)
        from roofline.symbolic.array_program import array_program

        return array_program(outputs, inputs, asked.arrays)
    except (RooflineError, TypeError):
        return None
