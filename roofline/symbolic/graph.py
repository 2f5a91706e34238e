"""A calculation as a graph: nodes are operations; the same operation on the same arguments is one node.

Formulas run on nodes unchanged. A plain graph holds no values and leaves choices open, so it stands for every case of
one structure; subclasses settle choices by value (`symbolic/traced.py`) or hold the values of a column of cases
(`workbook/cell.py`).
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any

from roofline.ops import Operations, Real, always, never, register
from roofline.records import NamedTuple

#: Operations other than arithmetic: an input, a loop, and one of the final values of a loop.
INPUT, LOOP, OF_LOOP = "input", "loop", "of loop"

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


class Graph:
    """Nodes of one calculation."""

    conditions = CONDITIONS  # operations whose nodes have no truth value

    def __init__(self) -> None:
        self.inputs: list[Node] = []
        self.nodes: list[Node] = []  # arguments first
        self._known: dict[tuple[Any, ...], Node] = {}
        self._scope = ""
        self._variables = 0  # inputs and loop variables

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
            node = self._known[key] = self._new_node(operation, args, self.value_of(operation, args), _reach(args))
        return node

    def value_of(self, operation: str, args: tuple[Any, ...]) -> Any:
        """Value of an operation; None where the graph keeps no values."""
        del operation, args

    def repeated(
        self, turn: Callable[[_State], tuple[_State, Any]], start: _State, most: int, begins: Any = True
    ) -> _State:
        """The numbers after at most `most` turns; `turn` returns those that replace them and whether to go on."""
        bits = [self._variable() for _ in start]
        bound = tuple(self._new_node(INPUT, (f"state {bit.bit_length()}",), None, bit) for bit in bits)
        after, goes_on = turn(bound)
        reach = _reach((*start, *after, goes_on, begins))
        node = self._new_node(LOOP, (*start, begins, Loop(bound, after, goes_on, most)), None, reach & ~sum(bits))
        return tuple(self.node(OF_LOOP, node, float(place)) for place in range(len(start)))

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


def _reach(args: Iterable[Any]) -> int:
    """Bits of the inputs that some numbers depend on."""
    reach = 0
    for arg in args:
        if isinstance(arg, Node):
            reach |= arg.reach
    return reach


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
    ),
)
