"""Figures of a deployment that are computed again and again: at first by formulas, then by a compiled program."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from roofline.errors import RooflineError
from roofline.ops import Real
from roofline.physics.plan import Deployment
from roofline.records import NamedTuple

_FEW = 32  # evaluations that cost as much as compiling a program
_LARGE = 64  # elements of an array that pay for a program at once

_Numbers = tuple[Real, ...]


class Recurring(NamedTuple):
    """A call of `make` with a deployment and numbers that are floats or arrays."""

    make: Callable[..., Any]
    deployment: Deployment
    numbers: _Numbers
    arrays: tuple[bool, ...] | None  # which numbers are arrays; None: none of them
    size: int = 1  # elements of the largest array

    def compute(self) -> Any:
        return self.make(self.deployment, *self.numbers)

    def by_program(self, read: Callable[[Any], _Numbers], wrap: Callable[[Any], Any]) -> _Numbers | None:
        """`read(wrap(result))` by a compiled program; None where there is none yet, or where it has no result."""
        memo, key = self.deployment.memo, (read, self.make, self.arrays)
        program = memo.get(key, 0)  # calls so far, then the program; None where there cannot be one
        if type(program) is int:
            memo[key] = program + 1
            if program < _FEW and self.size < _LARGE:
                return None
            program = memo[key] = _program(self, read, wrap)
        if program is None:
            return None
        try:
            figures: _Numbers = program(*self.numbers)
        except ArithmeticError:  # formulas raise it too, or evaluate fewer branches
            return None
        return figures


def recurring(make: Callable[..., Any], deployment: Deployment, numbers: _Numbers) -> Recurring | None:
    """The call, if a program can replace it; None where a number is neither a float nor an array."""
    if type(deployment.gpu.bandwidth) is not float:
        return None
    for number in numbers:
        if type(number) is not float:
            return _array_question(make, deployment, numbers)
    return Recurring(make, deployment, numbers, None)


def figures_of(make: Callable[..., _Numbers], deployment: Deployment, *numbers: Real) -> _Numbers:
    """`make(deployment, *numbers)`, by a compiled program where there is one."""
    question = recurring(make, deployment, numbers)
    figures = None if question is None else question.by_program(_identity, _identity)
    return make(deployment, *numbers) if figures is None else figures


def _identity(value: Any) -> Any:
    return value


def _array_question(make: Callable[..., Any], deployment: Deployment, numbers: _Numbers) -> Recurring | None:
    arrays = tuple(hasattr(number, "dtype") and bool(number.shape) for number in numbers)
    others = [number for number, is_array in zip(numbers, arrays, strict=True) if not is_array]
    if not any(arrays) or any(type(number) is not float for number in others):
        return None
    size = max(number.size for number, is_array in zip(numbers, arrays, strict=True) if is_array)
    return Recurring(make, deployment, numbers, arrays, size)


def _program(question: Recurring, read: Callable[[Any], _Numbers], wrap: Callable[[Any], Any]) -> Any:
    """A function from the numbers to the figures; None where the structure depends on the numbers."""
    from roofline.symbolic.graph import Graph

    graph = Graph()
    inputs = [graph.input(f"x{place}") for place in range(len(question.numbers))]
    try:
        outputs = read(wrap(question.make(question.deployment, *inputs)))
        if question.arrays is None:
            from roofline.symbolic.program import python_program

            return python_program(outputs, inputs)
        from roofline.symbolic.array_program import array_program

        return array_program(outputs, inputs, question.arrays)
    except (RooflineError, TypeError):
        return None
