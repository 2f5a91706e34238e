"""Numbers that remember how they came about: value, derivatives and the arithmetic behind them.

The formulas of the inner rings run on them unchanged. A maximum keeps the larger side by value and
records how close the other was, so that what remains is smooth.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

from roofline.ops import Operations, Real, plain, register

__all__ = ["FLAT", "FOLLOWED", "IMPLICIT", "Switch", "Trace", "Traced", "is_rational", "replayed"]

#: Operations that round up: flat between whole numbers, or followed along them.
FLAT, FOLLOWED = "ceil", "ceil, followed"

#: A number that a calculation leaves as it is: known with its slopes, not as an expression.
IMPLICIT = "fixed point"


class Switch(NamedTuple):
    """A choice that a formula made by value: it changes where both sides are equal."""

    left: Real
    right: Real
    meaning: str  # what happens there, as the formula said it
    section: str  # part of the answer it was made for

    @property
    def is_tie(self) -> bool:
        """Whether both sides are equal to rounding."""
        left, right = plain(self.left), plain(self.right)
        return abs(left - right) <= _ROUNDING * max(abs(left), abs(right))


class Trace:
    """Inputs of a traced evaluation, and the choices made on the way."""

    def __init__(self) -> None:
        self.switches: list[Switch] = []
        self.values: dict[str, float] = {}  # of the inputs
        self.stepped: set[str] = set()  # inputs that were rounded up: an answer moves in steps with them
        self._section = ""

    def input(self, name: str, value: float) -> Traced:
        """A number that everything computed from it remembers.

        Args:
            name: of the input [text].
            value: its value [any].

        Returns:
            The number.
        """
        self.values[name] = value
        return Traced(value, {name: 1.0}, "input", (name,), self)

    @contextmanager
    def section(self, name: str) -> Iterator[None]:
        """Mark the choices made within as belonging to a part of the answer.

        Args:
            name: of the part [text].

        Yields:
            Nothing.
        """
        before, self._section = self._section, name
        yield
        self._section = before

    def chose(self, left: Real, right: Real, meaning: str = "") -> None:
        """Record a choice between two finite numbers.

        Args:
            left: one side [any].
            right: the other [any].
            meaning: what happens where they are equal [text].
        """
        if math.isfinite(plain(left)) and math.isfinite(plain(right)):
            self.switches.append(Switch(left, right, meaning, self._section))


class Traced:
    """A float with its derivatives to every input, and the operation that made it."""

    __slots__ = ("args", "gradient", "operation", "trace", "value")

    def __init__(
        self, value: float, gradient: dict[str, float], operation: str, args: tuple[Any, ...], trace: Trace
    ) -> None:
        self.value = value
        self.gradient = gradient
        self.operation = operation
        self.args = args
        self.trace = trace

    def __repr__(self) -> str:
        return f"Traced({self.value!r})"

    def __hash__(self) -> int:
        return hash(self.value)

    def __format__(self, spec: str) -> str:
        return format(self.value, spec)

    def __add__(self, other: Real) -> Real:
        if type(other) is not Traced and other == 0.0:
            return self
        return _node("+", self, other, plain(self) + plain(other), 1.0, 1.0)

    __radd__ = __add__

    def __sub__(self, other: Real) -> Real:
        if type(other) is not Traced and other == 0.0:
            return self
        return _node("-", self, other, plain(self) - plain(other), 1.0, -1.0)

    def __rsub__(self, other: Real) -> Real:
        return _node("-", other, self, other - self.value, 1.0, -1.0)

    def __neg__(self) -> Real:
        return _node("*", -1.0, self, -self.value, self.value, -1.0)

    def __abs__(self) -> Real:
        return self if self.value >= 0.0 else -self

    def __mul__(self, other: Real) -> Real:
        if type(other) is not Traced and (other in (0.0, 1.0) or math.isinf(other)):
            return self if other == 1.0 else other * (1.0 if other == 0.0 else self.value)
        return _node("*", self, other, self.value * plain(other), plain(other), self.value)

    __rmul__ = __mul__

    def __truediv__(self, other: Real) -> Real:
        if type(other) is not Traced and (other == 1.0 or math.isinf(other)):
            return self if other == 1.0 else 0.0
        value, by = self.value, plain(other)
        return _node("/", self, other, value / by, 1.0 / by, -value / by**2)

    def __rtruediv__(self, other: Real) -> Real:
        if other == 0.0:
            return 0.0
        return _node("/", other, self, other / self.value, 1.0 / self.value, -other / self.value**2)

    def __pow__(self, other: Real) -> Real:
        base, order = self.value, plain(other)
        if type(other) is not Traced:
            if order == 1.0:
                return self
            if self.operation == "**" and order * plain(self.args[1]) == 1.0 and type(self.args[0]) is Traced:
                return self.args[0]  # the norm of one side alone
        slope = order * base ** (order - 1.0) if base or order > 1.0 else 0.0
        growth = base**order * math.log(base) if type(other) is Traced and base > 0.0 else 0.0
        return _node("**", self, other, base**order, slope, growth)

    def __rpow__(self, other: Real) -> Real:
        value = other**self.value
        return _node("**", other, self, value, 0.0, value * math.log(other))

    def __floordiv__(self, other: Real) -> Real:
        return 0.0 - _ceil(-(self / other))

    def __rfloordiv__(self, other: Real) -> Real:
        return 0.0 - _ceil(-(other / self))

    def __lt__(self, other: Real) -> bool:
        self.trace.chose(self, other)
        return self.value < plain(other)

    def __le__(self, other: Real) -> bool:
        self.trace.chose(self, other)
        return self.value <= plain(other)

    def __gt__(self, other: Real) -> bool:
        self.trace.chose(self, other)
        return self.value > plain(other)

    def __ge__(self, other: Real) -> bool:
        self.trace.chose(self, other)
        return self.value >= plain(other)

    def __eq__(self, other: object) -> bool:
        return self.value == plain(other)


def replayed(numbers: Sequence[Real], changes: Mapping[str, float]) -> list[float]:
    """Values that traced numbers take where some inputs change and every choice stays as it was.

    Args:
        numbers: traced, or plain floats [any].
        changes: new values of inputs [any].

    Returns:
        The values, NaN where the arithmetic has no result [any].
    """
    known: dict[int, float] = {}

    def value(node: Real) -> float:
        if type(node) is not Traced:
            return float(node)
        found = known.get(id(node))
        if found is None:
            if node.operation == FLAT or node.gradient.keys().isdisjoint(changes):
                found = node.value
            elif node.operation == "input":
                found = changes[node.args[0]]
            elif node.operation == IMPLICIT:  # along its slopes
                known_inputs = node.trace.values
                found = node.value + sum(
                    slope * (changes[name] - known_inputs[name])
                    for name, slope in node.gradient.items()
                    if name in changes
                )
            else:
                found = _applied(node.operation, [value(argument) for argument in node.args])
            known[id(node)] = found
        return found

    return [value(number) for number in numbers]


def is_rational(number: Real, name: str) -> bool:
    """Whether a number came from an input by addition, multiplication and division alone.

    Args:
        number: traced, or a plain float [any].
        name: of the input [text].

    Returns:
        False where a power, a root or rounding lies between [bool].
    """
    seen: set[int] = set()
    open_ = [number]
    while open_:
        node = open_.pop()
        if type(node) is not Traced or id(node) in seen or name not in node.gradient or node.operation == "input":
            continue
        if node.operation in ("**", FLAT, FOLLOWED, IMPLICIT):
            return False
        seen.add(id(node))
        open_ += node.args
    return True


def _applied(operation: str, values: list[float]) -> float:
    try:
        return _APPLY[operation](*values)
    except (ArithmeticError, ValueError):
        return math.nan


def _node(operation: str, left: Real, right: Real, value: float, to_left: float, to_right: float) -> Traced:
    """Result of an operation on two numbers, its gradient by the chain rule."""
    if type(left) is not Traced:
        trace, gradient = right.trace, {name: to_right * slope for name, slope in right.gradient.items()}
    else:
        trace, gradient = left.trace, {name: to_left * slope for name, slope in left.gradient.items()}
        if type(right) is Traced:
            for name, slope in right.gradient.items():
                gradient[name] = gradient.get(name, 0.0) + to_right * slope
    return Traced(value, gradient, operation, (left, right), trace)


def _trace(left: Real, right: Real) -> Trace:
    trace: Trace = left.trace if type(left) is Traced else right.trace
    return trace


def _chosen(left: Real, right: Real, meaning: str, *, is_left: bool) -> Real:
    _trace(left, right).chose(left, right, meaning)
    return left if is_left else right


def _compared(relation: Callable[[Real, Real], Real], left: Real, right: Real, meaning: str) -> Real:
    _trace(left, right).chose(left, right, meaning)
    return relation(plain(left), plain(right))


def _ceil(number: Real, meaning: str = "") -> Real:
    """Rounded up: flat between whole numbers; at one, and where steps are fine, it follows what is rounded."""
    if type(number) is not Traced:
        return float(math.ceil(number))
    above = float(math.ceil(number.value))
    if above <= _FINE:
        number.trace.chose(number, above, meaning)
        number.trace.chose(number, above - 1.0, meaning)
    if above == number.value or above > _FINE:
        return Traced(above, dict(number.gradient), FOLLOWED, (number,), number.trace)
    number.trace.stepped.update(number.gradient)
    return Traced(above, dict.fromkeys(number.gradient, 0.0), FLAT, (number,), number.trace)


def _settled(round_: Callable[[tuple[Any, ...]], tuple[Any, ...]], values: tuple[Any, ...]) -> tuple[Real, ...]:
    """Numbers where a calculation stands still, with slopes: x = g(x, p) makes dx/dp = (1 - dg/dx)^-1 dg/dp."""
    trace = next(each.trace for each in round_(values) if type(each) is Traced)
    names = [f"{_OWN}{place}" for place in range(len(values))]
    before, trace.switches = trace.switches, []  # the round was traced already; its choices count once
    results = round_(
        tuple(Traced(value, {name: 1.0}, "input", (name,), trace) for name, value in zip(names, values, strict=True))
    )
    trace.switches = before
    slopes = [each.gradient if type(each) is Traced else {} for each in results]
    matrix = [
        [float(row == column) - slope.get(name, 0.0) for column, name in enumerate(names)]
        for row, slope in enumerate(slopes)
    ]
    inputs = sorted({name for slope in slopes for name in slope if not name.startswith(_OWN)})
    sides = [[slope.get(name, 0.0) for name in inputs] for slope in slopes]
    solved = _solved(matrix, sides)
    return tuple(
        Traced(value, dict(zip(inputs, row, strict=True)), IMPLICIT, (), trace)
        for value, row in zip(values, solved, strict=True)
    )


def _solved(matrix: list[list[float]], sides: list[list[float]]) -> list[list[float]]:
    """Solution of some linear equations with several right-hand sides, by elimination with pivots."""
    rows = [[*left, *right] for left, right in zip(matrix, sides, strict=True)]
    size = len(rows)
    for place in range(size):
        best = max(range(place, size), key=lambda row: abs(rows[row][place]))
        rows[place], rows[best] = rows[best], rows[place]
        pivot = rows[place][place]
        rows[place] = [value / pivot for value in rows[place]]
        for other in range(size):
            factor = rows[other][place]
            if other != place and factor:
                rows[other] = [value - factor * lead for value, lead in zip(rows[other], rows[place], strict=True)]
    return [row[size:] for row in rows]


_OWN = "@"  # no input of a case is called so
_ROUNDING = 2.0**-40
_FINE = 100.0  # beyond this many, a step of rounding up is below 1 % and no change of regime
_APPLY: dict[str, Callable[..., float]] = {
    "+": lambda a, b: a + b,
    "-": lambda a, b: a - b,
    "*": lambda a, b: a * b,
    "/": lambda a, b: a / b,
    "**": math.pow,
    FLAT: lambda a: float(math.ceil(a)),
    FOLLOWED: lambda a: float(math.ceil(a)),
}

register(
    Traced,
    Operations(
        maximum=lambda a, b, meaning: _chosen(a, b, meaning, is_left=plain(a) >= plain(b)),
        minimum=lambda a, b, meaning: _chosen(a, b, meaning, is_left=plain(a) <= plain(b)),
        ceil=_ceil,
        where=lambda condition, a, b: a if plain(condition) else b,
        compared=_compared,
        settled=_settled,
    ),
)
