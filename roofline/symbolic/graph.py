"""A calculation as a graph: nodes are operations; the same operation on the same arguments is one node.

Formulas run on nodes unchanged. A plain graph holds no values and leaves choices open, so it stands for every case of
one structure; subclasses settle choices by value (`symbolic/graph.py`) or hold the values of a column of cases
(`outputs/workbook/cells.py`).
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any

from roofline.numbers import operations
from roofline.numbers.operations import Operations, Real, always, any_of, never, plain, register
from roofline.numbers.roots import turned
from roofline.support.errors import BadInput
from roofline.support.records import NamedTuple

#: Operations other than arithmetic: an input, a loop, a call of a function that is not part of the graph, and one of
#: the results of a loop or a call.
INPUT, LOOP, CALL, RESULT = "input", "loop", "call", "result of"

#: A fixed point, known by its value and slopes: its arguments are inputs, then the slopes to them.
LINEAR = "fixed point"

CONDITIONS = frozenset({"<", "<=", ">", ">=", "==", "!=", "and", "or", "not"})
COMMUTATIVE = frozenset({"+", "*", "==", "!=", "max", "min", "and", "or"})

_State = tuple[Any, ...]


class Loop(NamedTuple):
    """A loop over numbers that each turn replaces together."""

    bound: tuple[Node, ...]  # stand for the numbers before a turn
    after: tuple[Any, ...]  # the numbers after it
    goes_on: Any  # condition: whether another turn follows
    most: int  # turns


class Function(NamedTuple):
    """A function of numbers that a graph calls by its name, with several results."""

    name: str
    results: int
    key: Any = None  # what it computes, for whoever has to find it


class Graph:
    """Nodes of one calculation."""

    conditions = CONDITIONS  # operations whose nodes have no truth value

    def __init__(self) -> None:
        self.inputs: list[Node] = []
        self.nodes: list[Node] = []  # arguments first
        self._known: dict[tuple[Any, ...], Node] = {}
        self._scope = ""
        self._variables = 0  # inputs and loop variables
        self._facts: dict[tuple[str, object, float], bool] = {}

    def know(self, number: Node, limit: float, *, is_above: bool) -> None:
        """Settle whether a number is above a limit."""
        for relation, holds in ((">", is_above), ("<=", not is_above)):
            self._facts[relation, number.key, limit] = holds

    def input(self, name: str, value: Any = None) -> Node:
        """The input of this name, created on first use."""
        node = self._known.get((INPUT, name))
        if node is None:
            node = self._known[INPUT, name] = self._new_node(INPUT, (name,), value, self._variable())
            self.inputs.append(node)
        return node

    def node(self, operation: str, *args: Any) -> Node:
        """The node of an operation on nodes, plain numbers and texts; the same for the same arguments."""
        keys = [arg.key if isinstance(arg, Node) else (type(arg) is bool, arg) for arg in args]
        if operation in COMMUTATIVE and isinstance(args[0], Node) and isinstance(args[1], Node):
            keys.sort(key=id)
        key = (operation, *keys)
        node = self._known.get(key)
        if node is None:
            node = self._known[key] = self._new_node(operation, args, self.value_of(operation, args), reach_of(args))
        return node

    def value_of(self, operation: str, args: tuple[Any, ...]) -> Any:
        """Value of an operation; None where the graph keeps no values."""
        del operation, args

    def calls(self, home: Any) -> bool:  # noqa: ARG002
        """Whether it calls the programs of a deployment instead of holding their operations."""
        return False

    def repeated(
        self, turn: Callable[[_State], tuple[_State, Any]], start: _State, most: int, begins: Any = True
    ) -> _State:
        """The numbers after at most `most` turns; `turn` returns those that replace them and whether to go on."""
        bits = [self._variable() for _ in start]
        bound = tuple(self._new_node(INPUT, (f"state {bit.bit_length()}",), None, bit) for bit in bits)
        after, goes_on = turn(bound)
        reach = reach_of((*start, *after, goes_on, begins))
        node = self._new_node(LOOP, (*start, begins, Loop(bound, after, goes_on, most)), None, reach & ~sum(bits))
        return self._results(node, len(start))

    def call(self, function: Function, args: Sequence[Any]) -> _State:
        """The results of a function that is known by its name alone."""
        return self._results(self.node(CALL, function, *args), function.results)

    def outlined(self, name: str, compute: Callable[..., Any], values: Sequence[Any]) -> Any:  # noqa: ARG002
        """`compute(*values)`, as part of the graph or as a function that it calls."""
        return compute(*values)

    def _results(self, node: Node, count: int) -> _State:
        return tuple(self.node(RESULT, node, float(place)) for place in range(count))

    @contextmanager
    def scope(self, name: str) -> Iterator[None]:
        """Name the part of the calculation that nodes created inside belong to."""
        before, self._scope = self._scope, name
        yield
        self._scope = before

    def maximum(self, a: Any, b: Any, meaning: str = "") -> Any:
        del meaning
        return a if a is b else self.node("max", a, b)

    def minimum(self, a: Any, b: Any, meaning: str = "") -> Any:
        del meaning
        return a if a is b else self.node("min", a, b)

    def ceil(self, a: Any, meaning: str = "") -> Any:
        del meaning
        return a if a.operation in ("ceil", "floor") else self.node("ceil", a)

    def compared(self, relation: str, a: Any, b: Any, meaning: str = "") -> Any:
        del meaning
        if self._facts and isinstance(a, Node) and not isinstance(b, Node):
            known = self._facts.get((relation, a.key, b), True if relation == "<=" and b == _INFINITE else None)
            if known is not None:
                return known
        return self.node(relation, a, b)

    def where(self, condition: Any, a: Any, b: Any) -> Any:
        if a is b or (type(a) in _SIMPLE and type(a) is type(b) and a == b):
            return a
        return self.node("where", condition, a, b)

    def settled(self, round_: Callable[[_State], _State], values: _State) -> _State:
        """The numbers at a fixed point, as they are."""
        del round_
        return values

    def _variable(self) -> int:
        self._variables += 1
        return 1 << self._variables

    def _new_node(self, operation: str, args: tuple[Any, ...], value: Any, reach: int) -> Node:
        node = self.kind(self, operation, args, value, reach, self._scope)
        self.nodes.append(node)
        return node

    @property
    def kind(self) -> type[Node]:
        return Node


class Calls(Graph):
    """A graph that calls the programs of a deployment, `home`, instead of holding their operations."""

    home: Any = None
    sample: Any = None  # the same with plain numbers

    def calls(self, home: Any) -> bool:
        """Whether it calls the programs of a deployment."""
        return self.home is home

    def call_of(self, home: Any, figures: Any, args: Sequence[Any]) -> _State:  # noqa: ARG002
        """The results of a program for figures of such a deployment."""
        return self.call(figures.function(self.sample), args)


class Node:
    __slots__ = ("args", "graph", "home", "key", "operation", "place", "reach", "value")

    def __init__(self, graph: Graph, operation: str, args: tuple[Any, ...], value: Any, reach: int, home: str) -> None:
        self.graph = graph
        self.operation = operation
        self.args = args
        self.value = value  # None where the graph keeps no values
        self.reach = reach  # bits of the inputs that it depends on
        self.home = home  # named part of the calculation
        self.place = len(graph.nodes)  # larger than those of its arguments
        self.key = object()  # nodes compare as numbers, keys by identity

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.operation}, {self.value!r})"

    def __hash__(self) -> int:
        return id(self)

    def __format__(self, spec: str) -> str:
        return format(self.value, spec)

    def __bool__(self) -> bool:
        """True: a number exists, even if it is zero; an open condition has no truth value."""
        if self.operation in self.graph.conditions:
            raise TypeError(f"an open condition has no truth of its own: {self.operation}")
        return True

    def any(self) -> bool:
        """Whether the condition may hold in some case: an open one may."""
        return True

    def all(self) -> bool:
        """Whether the condition holds in every case: an open one may not."""
        return False

    def __add__(self, other: Real) -> Real:
        return self if _is_number(other, 0.0) else self.graph.node("+", self, other)

    def __radd__(self, other: Real) -> Real:
        return self if _is_number(other, 0.0) else self.graph.node("+", other, self)

    def __sub__(self, other: Real) -> Real:
        if _is_number(other, 0.0):
            return self
        if isinstance(other, Node) and other.operation == "neg":
            return self.graph.node("+", self, other.args[0])
        return self.graph.node("-", self, other)

    def __rsub__(self, other: Real) -> Real:
        return -self if _is_number(other, 0.0) else self.graph.node("-", other, self)

    def __neg__(self) -> Real:
        if self.operation == "neg":
            return self.args[0]
        if self.operation == "ceil" and getattr(self.args[0], "operation", "") == "neg":
            return self.graph.node("floor", self.args[0].args[0])
        return self.graph.node("neg", self)

    def __mul__(self, other: Real) -> Real:
        return self._scaled(self, other, other)

    def __rmul__(self, other: Real) -> Real:
        return self._scaled(other, self, other)

    def _scaled(self, left: Real, right: Real, other: Real) -> Real:
        if _is_number(other, 0.0):
            return 0.0
        return self if _is_number(other, 1.0) else self.graph.node("*", left, right)

    def __truediv__(self, other: Real) -> Real:
        if _is_number(other, _INFINITE):
            return 0.0
        if other is self:
            return 1.0
        return self if _is_number(other, 1.0) else self.graph.node("/", self, other)

    def __rtruediv__(self, other: Real) -> Real:
        return 0.0 if _is_number(other, 0.0) else self.graph.node("/", other, self)

    def __mod__(self, other: Real) -> Real:
        return self.graph.node("mod", self, other)

    def __rmod__(self, other: Real) -> Real:
        return self.graph.node("mod", other, self)

    def __pow__(self, other: Real) -> Real:
        if _is_number(other, 1.0):
            return self
        is_undone = (
            self.operation == "**" and type(other) is type(self.args[1]) is float and other * self.args[1] == 1.0
        )
        return self.args[0] if is_undone else self.graph.node("**", self, other)

    def __rpow__(self, other: Real) -> Real:
        return self.graph.node("**", other, self)

    def __abs__(self) -> Real:
        return self.graph.node("abs", self)

    def __lt__(self, other: Real) -> Any:
        return self.graph.compared("<", self, other)

    def __le__(self, other: Real) -> Any:
        return self.graph.compared("<=", self, other)

    def __gt__(self, other: Real) -> Any:
        return self.graph.compared(">", self, other)

    def __ge__(self, other: Real) -> Any:
        return self.graph.compared(">=", self, other)

    def __eq__(self, other: object) -> Any:
        return self.graph.compared("==", self, other)

    def __ne__(self, other: object) -> Any:
        return self.graph.compared("!=", self, other)

    def __invert__(self) -> Any:
        return self.args[0] if self.operation == "not" else self.graph.node("not", self)

    def __and__(self, other: Real) -> Any:
        if never(other):
            return False
        return self if always(other) else self.graph.node("and", self, other)

    __rand__ = __and__

    def __or__(self, other: Real) -> Any:
        if always(other):
            return True
        return self if never(other) else self.graph.node("or", self, other)

    __ror__ = __or__


def nodes_of(roots: Iterable[Any], within: int = 0) -> list[Node]:
    """Nodes that `roots` depend on, themselves included: each once, arguments first, with the turns of loops.

    `within` holds bits of inputs: only nodes that depend on one of them; 0 means all nodes.
    """
    nodes: dict[int, Node] = {}
    pending = [root for root in roots if isinstance(root, Node)]
    while pending:
        node = pending.pop()
        if node.place in nodes or (within and not node.reach & within):
            continue
        nodes[node.place] = node
        for arg in node.args:
            if isinstance(arg, Node):
                pending.append(arg)
            elif isinstance(arg, Loop):
                within |= sum(variable.reach for variable in arg.bound) if within else 0
                pending += [part for part in (*arg.bound, *arg.after, arg.goes_on) if isinstance(part, Node)]
    return [nodes[place] for place in sorted(nodes)]


def reach_of(args: Iterable[Any]) -> int:
    """Bits of the inputs that some numbers depend on."""
    reach = 0
    for arg in args:
        if isinstance(arg, Node):
            reach |= arg.reach
    return reach


def bound_bits(nodes: Iterable[Node]) -> int:
    """Bits of what the loops among some nodes replace."""
    return sum(bound.reach for node in nodes if node.operation == LOOP for bound in node.args[-1].bound)


def inside_bits(loop_node: Node, parts: Sequence[Node]) -> int:
    """Bits that change within a turn of a loop, those of loops inside it included; `parts`: nodes of the turn."""
    inside = bound_bits([loop_node])
    inner = [node for node in parts if node.operation == LOOP]
    before = -1
    while before != inside:
        before = inside
        for node in inner:
            inside |= bound_bits([node]) if node.reach & inside else 0
    return inside


def turn_nodes(loop_node: Node) -> list[Node]:
    """Nodes of a turn of a loop, with all that they depend on."""
    loop: Loop = loop_node.args[-1]
    return nodes_of([*loop.after, loop.goes_on])


def of_branches(nodes: Sequence[Node], outputs: Sequence[Any]) -> dict[object, Node]:
    """Nodes that only a branch, a loop of at most one turn, reads: by their keys, with that loop.

    `nodes`: all that the outputs depend on.
    """
    found: dict[object, Node] = {}
    for branch in nodes:
        if branch.operation != LOOP or branch.args[-1].most > 1:
            continue
        parts = turn_nodes(branch)
        inside = inside_bits(branch, parts)
        read = {arg.place for node in nodes if node is branch for arg in node.args if isinstance(arg, Node)}
        read |= {output.place for output in outputs if isinstance(output, Node)}
        candidates = {node.place for node in parts if not node.reach & inside and node.operation != INPUT}
        for node in reversed(nodes):  # whoever reads a node comes after it
            is_outside = node.place not in candidates or node.place in read
            if is_outside and not node.reach & inside:
                for arg in node.args:
                    ends = (*arg.after, arg.goes_on) if isinstance(arg, Loop) and node is not branch else (arg,)
                    read |= {end.place for end in ends if isinstance(end, Node)}
        found |= {node.key: branch for node in parts if node.place in candidates - read and node.key not in found}
    return found


def _is_number(other: Any, number: float) -> bool:
    return type(other) in (float, int) and other == number


def _graph_of(*values: Any) -> Graph:
    graph: Graph = next(value.graph for value in values if isinstance(value, Node))
    return graph


_INFINITE = float("inf")
_SIMPLE = (float, int, str, bool)
_RELATIONS = {operator.lt: "<", operator.le: "<=", operator.gt: ">", operator.ge: ">="}


register(
    Node,
    Operations(
        maximum=lambda a, b, meaning: _graph_of(a, b).maximum(a, b, meaning),
        minimum=lambda a, b, meaning: _graph_of(a, b).minimum(a, b, meaning),
        ceil=lambda a, meaning: _graph_of(a).ceil(a, meaning),
        where=lambda condition, a, b: _graph_of(condition).where(condition, a, b),
        compared=lambda relation, a, b, meaning: _graph_of(a, b).compared(_RELATIONS[relation], a, b, meaning),
        repeated=lambda turn, start, most, among, begins: _graph_of(*start, *among, begins).repeated(
            turn, start, most, begins
        ),
        settled=lambda round_, values, among: _graph_of(among).settled(round_, values),
        outlined=lambda name, compute, among, values: _graph_of(among).outlined(name, compute, values),
    ),
)


# Gradients of a graph that has values, by reverse accumulation from one number to all its inputs.
#
# A choice has the slope of the side taken. A rounded number is flat between whole numbers; at a whole number, and
# where the steps are fine, it follows its argument.

#: Above this value, a rounding step is below 1 % and not a change of regime.
FINE = 100.0

_Value = Callable[[Any], Any]


def follows(node: Node, value: _Value = plain) -> bool:
    """Whether a rounded number moves with its argument; else it is flat."""
    whole: float = value(node)
    return bool(whole == value(node.args[0]) or (whole if node.operation == "ceil" else -whole) > FINE)


def gradient(number: Real, value: _Value = plain) -> dict[str, float]:
    """Slope by name of every input that a number depends on; reverse-mode chain rule (Linnainmaa, BIT 16(2), 1976).

    >>> from roofline.symbolic.graph import Trace
    >>> trace = Trace()
    >>> gradient(trace.input("a", 3.0) / trace.input("b", 2.0))
    {'b': -0.75, 'a': 0.5}
    """
    slopes: dict[str, float] = {}
    if not isinstance(number, Node):
        return slopes
    weights = {number.place: 1.0}
    for node in reversed(nodes_of((number,))):
        weight = weights.get(node.place, 0.0)
        if node.operation == INPUT:
            slopes[node.args[0]] = weight
        elif weight:
            for arg, slope in zip(node.args, _slopes(node, value), strict=False):
                if isinstance(arg, Node):
                    weights[arg.place] = weights.get(arg.place, 0.0) + weight * slope
    return slopes


def implicit(bound: Sequence[Node], results: Sequence[Real]) -> list[dict[str, float]]:
    """Slopes of a fixed point x = g(x, p) to its other inputs: dx/dp = (1 - dg/dx)^-1 dg/dp; `bound` stand for x."""
    slopes = [gradient(result) for result in results]
    bound_names = [node.args[0] for node in bound]
    names = sorted({name for slope in slopes for name in slope} - set(bound_names))
    matrix = [
        [float(row == column) - slope.get(name, 0.0) for column, name in enumerate(bound_names)]
        for row, slope in enumerate(slopes)
    ]
    solution = _linear_solution(matrix, [[slope.get(name, 0.0) for name in names] for slope in slopes])
    return [dict(zip(names, row, strict=True)) for row in solution]


def _slopes(node: Node, value: _Value) -> Sequence[float]:
    operation = node.operation
    if operation == LINEAR:
        slopes: Sequence[float] = node.args[-1]
        return slopes
    if operation in CONDITIONS:
        return ()
    if operation in ("ceil", "floor"):
        return (float(follows(node, value)),)
    if operation not in _SLOPES:
        raise BadInput(f"a formula with {operation!r} has no slopes; those of a fixed point need traced values")
    return _SLOPES[operation](*map(value, node.args))


def _power_slopes(base: float, order: float) -> Sequence[float]:
    slope = order * base ** (order - 1.0) if base or order > 1.0 else 0.0
    return slope, base**order * math.log(base) if base > 0.0 else 0.0


_SLOPES: dict[str, Callable[..., Sequence[float]]] = {
    "+": lambda *_: (1.0, 1.0),
    "-": lambda *_: (1.0, -1.0),
    "*": lambda a, b: (b, a),
    "/": lambda a, b: (1.0 / b, -a / b**2),
    "neg": lambda _: (-1.0,),
    "**": _power_slopes,
    "abs": lambda a: (1.0 if a >= 0.0 else -1.0,),
    "mod": lambda a, b: (1.0, -float(a // b)),
    "max": lambda a, b: (1.0, 0.0) if a >= b else (0.0, 1.0),
    "min": lambda a, b: (1.0, 0.0) if a <= b else (0.0, 1.0),
    "where": lambda condition, *_: (0.0, 1.0, 0.0) if condition else (0.0, 0.0, 1.0),
}


def _linear_solution(matrix: list[list[float]], sides: list[list[float]]) -> list[list[float]]:
    """Solution of linear equations with several right-hand sides, by Gauss-Jordan elimination with pivoting."""
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


# Values of a graph's nodes at values of its inputs: floats or arrays.

_Step = tuple[int, Callable[..., Any], Callable[[list[Any]], Sequence[Any]]]


def _power(base: Any, order: Any) -> Any:
    value = base**order
    return math.nan if type(value) is complex else value


OPERATIONS: dict[str, Callable[..., Any]] = {
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
    "/": operator.truediv,
    "neg": operator.neg,
    "**": _power,
    "mod": operator.mod,
    "abs": abs,
    "max": operations.maximum,
    "min": operations.minimum,
    "ceil": operations.ceil,
    "floor": operations.floor,
    "where": operations.where,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
    "==": operator.eq,
    "!=": operator.ne,
    "and": operator.and_,
    "or": operator.or_,
    RESULT: lambda state, place: state[int(place)],
    "not": lambda condition: not condition if type(condition) is bool else ~condition,
}


class Values:
    """Values of some numbers as a function of some inputs; NaN where arithmetic has no result.

    What does not depend on these inputs keeps its value in the graph, and so does a rounded number, like every choice
    that the graph settled.

    >>> from roofline.symbolic.graph import Graph
    >>> graph = Graph()
    >>> a, b = graph.input("a"), graph.input("b")
    >>> Values([a + 1.0, (a * a + b * b) ** 0.5], [a, b])(3.0, 4.0)
    [4.0, 5.0]
    """

    def __init__(self, numbers: Sequence[Real], inputs: Sequence[Node]) -> None:
        nodes = nodes_of(numbers, sum(node.reach for node in inputs))
        self._slots = {node.place: slot for slot, node in enumerate(nodes)}
        self._known: list[Any] = [node.value for node in nodes]
        self._bound = bound_bits(nodes)
        self._steps = self._steps_of(nodes, 0)
        self._inputs = [self._slot(node) for node in inputs]
        self._numbers = [self._slot(number) for number in numbers]

    def __call__(self, *values: Any) -> list[Any]:
        known = self._known
        for slot, value in zip(self._inputs, values, strict=True):
            known[slot] = value
        self._run(self._steps)
        return [known[slot] for slot in self._numbers]

    def of(self, number: Real) -> Any:
        """Value of a node at the last call."""
        slot = self._slots.get(number.place) if isinstance(number, Node) else None
        return plain(number) if slot is None else self._known[slot]

    def _run(self, steps: Iterable[_Step]) -> None:
        known = self._known
        for slot, apply, pick in steps:
            try:
                known[slot] = apply(*pick(known))
            except (ArithmeticError, ValueError):
                known[slot] = math.nan

    def _steps_of(self, nodes: Iterable[Node], scope: int) -> list[_Step]:
        """Steps of the nodes that can be computed inside the loops whose bits are in `scope`."""
        return [
            (self._slots[node.place], *self._step(node, scope))
            for node in nodes
            if node.operation != INPUT and not (node.reach & self._bound) & ~scope and not _is_frozen(node)
        ]

    def _step(self, node: Node, scope: int) -> tuple[Callable[..., Any], Callable[[list[Any]], Sequence[Any]]]:
        args: Sequence[Any] = node.args
        if node.operation == LOOP:
            *state, begins, loop = args
            args = (begins, *state)
            apply: Callable[..., Any] = self._loop(loop, scope)
        elif node.operation == LINEAR:
            *args, slopes = args
            apply = partial(_along_slopes, node.value, [plain(arg) for arg in args], slopes)
        else:
            apply = OPERATIONS[node.operation]
        slots = [self._slot(arg) for arg in args]
        return apply, operator.itemgetter(*slots) if len(slots) > 1 else partial(_as_tuple, slots[0])

    def _slot(self, number: Real) -> int:
        slot = self._slots.get(number.place) if isinstance(number, Node) else None
        if slot is None:
            slot = len(self._known)
            self._known.append(plain(number))
        return slot

    def _loop(self, loop: Loop, scope: int) -> Callable[..., Sequence[Any]]:
        turn_bits = sum(node.reach for node in loop.bound)
        turning = [node for node in nodes_of([*loop.after, loop.goes_on]) if node.reach & turn_bits]
        steps, known = self._steps_of(turning, scope | turn_bits), self._known
        bound, after = [self._slot(node) for node in loop.bound], [self._slot(number) for number in loop.after]
        goes_on = self._slot(loop.goes_on)

        def repeated(begins: Any, *state: Any) -> Sequence[Any]:
            for _ in range(loop.most if any_of(begins) else 0):
                for slot, value in zip(bound, state, strict=True):
                    known[slot] = value
                self._run(steps)
                state = tuple(known[slot] for slot in after)
                if not any_of(known[goes_on]):
                    break
            return state

        return repeated


def _is_frozen(node: Node) -> bool:
    """Whether a rounded number keeps its value."""
    return node.operation in ("ceil", "floor") and node.value is not None and not follows(node)


def _along_slopes(value: float, origin: Sequence[float], slopes: Sequence[float], *inputs: float) -> float:
    return value + sum(slope * (new - old) for slope, new, old in zip(slopes, inputs, origin, strict=True))


def _as_tuple(slot: int, known: list[Any]) -> Sequence[Any]:
    return (known[slot],)


# A graph of one case: nodes have values, which settle choices.
#
# A maximum keeps the larger side and records both, so that the rest is smooth.


class Switch(NamedTuple):
    """A choice that a formula made by value; it changes where both sides are equal."""

    left: Real
    right: Real
    meaning: str  # what happens there, in the formula's words
    section: str  # part of the answer that the choice belongs to

    @property
    def is_tie(self) -> bool:
        """Whether both sides are equal up to rounding."""
        left, right = plain(self.left), plain(self.right)
        return abs(left - right) <= _ROUNDING * max(abs(left), abs(right))


class Trace(Graph):
    """Nodes with values, and the choices made on the way."""

    def __init__(self) -> None:
        super().__init__()
        self.switches: list[Switch] = []
        self.stepped = 0  # bits of inputs that were rounded: the answer moves in steps with them

    def bit(self, name: str) -> int:
        """The bit of an input in the `reach` of nodes; 0 where there is no such input."""
        node = self._known.get((INPUT, name))
        return 0 if node is None else node.reach

    def node(self, operation: str, *args: Any) -> Any:
        """The node of an operation; a share of an infinite rate is a plain infinity."""
        if operation == "abs":
            return args[0] if args[0].value >= 0.0 else -args[0]
        node = super().node(operation, *args)
        return math.inf if operation == "*" and node.value == math.inf else node

    def value_of(self, operation: str, args: tuple[Any, ...]) -> Any:
        return OPERATIONS[operation](*[arg.value if isinstance(arg, Node) else arg for arg in args])

    def maximum(self, a: Any, b: Any, meaning: str = "") -> Any:
        self._record_choice(a, b, meaning)
        return a if plain(a) >= plain(b) else b

    def minimum(self, a: Any, b: Any, meaning: str = "") -> Any:
        self._record_choice(a, b, meaning)
        return a if plain(a) <= plain(b) else b

    def compared(self, relation: str, a: Any, b: Any, meaning: str = "") -> Any:
        if relation not in ("==", "!="):
            self._record_choice(a, b, meaning)
        return OPERATIONS[relation](plain(a), plain(b))

    def ceil(self, a: Any, meaning: str = "") -> Any:
        raised = self.node("ceil", a)
        if raised.value <= FINE:
            self._record_choice(a, raised.value, meaning)
            self._record_choice(a, raised.value - 1.0, meaning)
        if not follows(raised):
            self.stepped |= raised.reach
        return raised

    def repeated(
        self, turn: Callable[[_State], tuple[_State, Any]], start: _State, most: int, begins: Any = True
    ) -> _State:
        """The numbers after as many turns as their values require."""
        return turned(turn, start, most, begins)

    def settled(self, round_: Callable[[_State], _State], values: _State) -> _State:
        """The numbers at a fixed point, with slopes by implicit differentiation."""
        bound = [self.input(f"{_UNNAMED}{len(self.nodes)}", value) for value in values]
        before, self.switches = self.switches, []  # the round was traced before: its choices count once
        slopes = implicit(bound, round_(tuple(bound)))
        self.switches = before
        nodes = []
        for value, row in zip(values, slopes, strict=True):
            inputs = [self.input(name) for name in row]
            nodes.append(self._new_node(LINEAR, (*inputs, tuple(row.values())), value, sum(x.reach for x in inputs)))
        return tuple(nodes)

    def _record_choice(self, left: Real, right: Real, meaning: str) -> None:
        if math.isfinite(plain(left)) and math.isfinite(plain(right)):
            self.switches.append(Switch(left, right, meaning, self._scope))


def depends(number: Real, name: str) -> bool:
    """Whether a number depends on an input, even with a slope of zero."""
    return bool(_bit_of(number, name))


def is_rational(number: Real, name: str) -> bool:
    """Whether a number depends on an input through addition, multiplication and division alone."""
    bit = _bit_of(number, name)
    return not bit or all(node.operation in _RATIONAL for node in nodes_of([number], bit))


def _bit_of(number: Real, name: str) -> int:
    """The bit of an input; 0 where the number does not depend on it."""
    return number.reach & number.graph.bit(name) if isinstance(number, Node) and isinstance(number.graph, Trace) else 0


_UNNAMED = "@"  # no input of a case has this name
_ROUNDING = 2.0**-40
_RATIONAL = (INPUT, "+", "-", "*", "/", "neg")
