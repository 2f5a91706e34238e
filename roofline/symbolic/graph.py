"""A calculation as a graph: nodes are operations, and what is made of the same by the same operation is one node.

The formulas of the inner rooms run on nodes unchanged. A graph leaves choices open and knows no values, so that it
stands for every case of one structure; its kinds settle choices by value (`symbolic/traced.py`) or keep the values of a
column of cases (`workbook/cell.py`). What is read off a graph (values, slopes, texts and programs) lies beside it.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any

from roofline.ops import Operations, Real, always, never, register
from roofline.records import NamedTuple

__all__ = [
    "COMMUTATIVE",
    "CONDITIONS",
    "INPUT",
    "LINEAR",
    "LOOP",
    "OF_LOOP",
    "Graph",
    "Loop",
    "Node",
    "nodes_of",
]

#: Operations that are more than arithmetic: an input, an iteration, and one of the numbers that it ends with.
INPUT, LOOP, OF_LOOP = "input", "loop", "of loop"

#: A number that a calculation leaves as it is, known by its value and its slopes: its arguments are inputs, and those.
LINEAR = "fixed point"

#: Operations whose result says whether something holds.
CONDITIONS = frozenset({"<", "<=", ">", ">=", "==", "!=", "and", "or", "not"})

#: Operations whose arguments may change places.
COMMUTATIVE = frozenset({"+", "*", "==", "!=", "max", "min", "and", "or"})

_State = tuple[Any, ...]


class Loop(NamedTuple):
    """An iteration: numbers that are replaced together, again and again."""

    bound: tuple[Node, ...]  # stand for the numbers within
    after: tuple[Any, ...]  # what replaces them
    goes_on: Any  # whether there is another turn [condition]
    most: int  # turns


class Graph:
    """Nodes of one calculation."""

    conditions = CONDITIONS  # operations of nodes that have no truth of their own

    def __init__(self) -> None:
        self.inputs: list[Node] = []
        self.nodes: list[Node] = []  # arguments before what is made of them
        self._known: dict[tuple[Any, ...], Node] = {}
        self._scope = ""
        self._variables = 0  # inputs, and numbers bound by loops

    def input(self, name: str, value: Any = None) -> Node:
        """A number that the calculation starts from.

        Args:
            name: of the input [text].
            value: what it has, where the graph keeps values [any].

        Returns:
            The node; the same for the same name.
        """
        known = self._known.get((INPUT, name))
        if known is None:
            known = self._made(INPUT, (name,), value, self._variable())
            self._known[INPUT, name] = known
            self.inputs.append(known)
        return known

    def node(self, operation: str, *args: Any) -> Node:
        """The node of an operation.

        Args:
            operation: an operator or a function [text].
            args: nodes, plain numbers and texts [any].

        Returns:
            The node; the same for the same operation on the same arguments.
        """
        keys = [arg.key if isinstance(arg, Node) else (type(arg) is bool, arg) for arg in args]
        if operation in COMMUTATIVE and isinstance(args[0], Node) and isinstance(args[1], Node):
            keys.sort(key=id)
        key = (operation, *keys)
        known = self._known.get(key)
        if known is None:
            reach = 0
            for arg in args:
                if isinstance(arg, Node):
                    reach |= arg.reach
            known = self._known[key] = self._made(operation, args, self.value_of(operation, args), reach)
        return known

    def value_of(self, operation: str, args: tuple[Any, ...]) -> Any:
        """Value of an operation on arguments, where the graph keeps values.

        Args:
            operation: an operator or a function [text].
            args: nodes, plain numbers and texts [any].

        Returns:
            The value; None where it keeps none [any].
        """
        del operation, args

    def repeated(
        self, turn: Callable[[_State], tuple[_State, Any]], start: _State, most: int, begins: Any = True
    ) -> _State:
        """Numbers that are replaced together, again and again.

        Args:
            turn: from the numbers to those that replace them, and whether there is another turn [function].
            start: the numbers at first [any].
            most: turns at most [1].
            begins: whether there is a first turn [condition].

        Returns:
            The numbers at last.
        """
        bits = [self._variable() for _ in start]
        bound = tuple(self._made(INPUT, (f"state {bit.bit_length()}",), None, bit) for bit in bits)
        after, goes_on = turn(bound)
        reach = 0
        for part in (*start, *after, goes_on, begins):
            if isinstance(part, Node):
                reach |= part.reach
        node = self._made(LOOP, (*start, begins, Loop(bound, after, goes_on, most)), None, reach & ~sum(bits))
        return tuple(self.node(OF_LOOP, node, float(place)) for place in range(len(start)))

    @contextmanager
    def scope(self, name: str) -> Iterator[None]:
        """Name the part of the calculation that nodes made within belong to.

        Args:
            name: of the part [text].

        Yields:
            Nothing.
        """
        before, self._scope = self._scope, name
        yield
        self._scope = before

    def maximum(self, a: Any, b: Any, meaning: str = "") -> Any:
        """The larger of two numbers, left open."""
        del meaning
        return a if a is b else self.node("max", a, b)

    def minimum(self, a: Any, b: Any, meaning: str = "") -> Any:
        """The smaller of two numbers, left open."""
        del meaning
        return a if a is b else self.node("min", a, b)

    def ceil(self, a: Any, meaning: str = "") -> Any:
        """A number rounded up."""
        del meaning
        return a if a.operation in ("ceil", "floor") else self.node("ceil", a)

    def compared(self, relation: str, a: Any, b: Any, meaning: str = "") -> Any:
        """A condition between two numbers, left open."""
        del meaning
        return self.node(relation, a, b)

    def where(self, condition: Any, a: Any, b: Any) -> Any:
        """One of two numbers by a condition, left open."""
        if a is b or (type(a) in _SIMPLE and type(a) is type(b) and a == b):
            return a
        return self.node("where", condition, a, b)

    def settled(self, round_: Callable[[_State], _State], values: _State) -> _State:
        """Numbers where a calculation stands still, as they are."""
        del round_
        return values

    def _variable(self) -> int:
        self._variables += 1
        return 1 << self._variables

    def _made(self, operation: str, args: tuple[Any, ...], value: Any, reach: int) -> Node:
        node = self.kind(self, operation, args, value, reach, self._scope)
        self.nodes.append(node)
        return node

    @property
    def kind(self) -> type[Node]:
        """Class of its nodes."""
        return Node


class Node:
    """An operation on numbers, and what is known of its result."""

    __slots__ = ("args", "graph", "home", "key", "operation", "place", "reach", "value")

    def __init__(self, graph: Graph, operation: str, args: tuple[Any, ...], value: Any, reach: int, home: str) -> None:
        self.graph = graph
        self.operation = operation
        self.args = args
        self.value = value  # None where the graph keeps none
        self.reach = reach  # bits of the inputs that it depends on
        self.home = home  # named part of the calculation
        self.place = len(graph.nodes)  # arguments come before what is made of them
        self.key = object()  # nodes compare as numbers; this compares by identity

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.operation}, {self.value!r})"

    def __hash__(self) -> int:
        return id(self)

    def __format__(self, spec: str) -> str:
        return format(self.value, spec)

    def __bool__(self) -> bool:
        """A number is there, whatever it is; what an open condition says is not known."""
        if self.operation in self.graph.conditions:
            raise TypeError(f"an open condition has no truth of its own: {self.operation}")
        return True

    def any(self) -> bool:
        """Whether a condition may hold in some case: it is open."""
        return True

    def all(self) -> bool:
        """Whether a condition holds in every case: not for certain, as it is open."""
        return False

    def __add__(self, other: Real) -> Real:
        return self if _is(other, 0.0) else self.graph.node("+", self, other)

    def __radd__(self, other: Real) -> Real:
        return self if _is(other, 0.0) else self.graph.node("+", other, self)

    def __sub__(self, other: Real) -> Real:
        if _is(other, 0.0):
            return self
        if isinstance(other, Node) and other.operation == "neg":
            return self.graph.node("+", self, other.args[0])
        return self.graph.node("-", self, other)

    def __rsub__(self, other: Real) -> Real:
        return -self if _is(other, 0.0) else self.graph.node("-", other, self)

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
        if _is(other, 0.0):
            return 0.0
        return self if _is(other, 1.0) else self.graph.node("*", left, right)

    def __truediv__(self, other: Real) -> Real:
        if _is(other, _INFINITE):
            return 0.0
        return self if _is(other, 1.0) else self.graph.node("/", self, other)

    def __rtruediv__(self, other: Real) -> Real:
        return 0.0 if _is(other, 0.0) else self.graph.node("/", other, self)

    def __mod__(self, other: Real) -> Real:
        return self.graph.node("mod", self, other)

    def __rmod__(self, other: Real) -> Real:
        return self.graph.node("mod", other, self)

    def __pow__(self, other: Real) -> Real:
        if _is(other, 1.0):
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
    """Nodes that some numbers are made of, those themselves among them.

    Args:
        roots: nodes; plain numbers are passed over [any].
        within: bits of inputs: only nodes that come from one of them; all for 0 [1].

    Returns:
        Each once, arguments before what is made of them; of a loop what its turns need, too.
    """
    found: dict[int, Node] = {}
    open_ = [root for root in roots if isinstance(root, Node)]
    while open_:
        node = open_.pop()
        if node.place in found or (within and not node.reach & within):
            continue
        found[node.place] = node
        for arg in node.args:
            if isinstance(arg, Node):
                open_.append(arg)
            elif isinstance(arg, Loop):
                within |= sum(each.reach for each in arg.bound) if within else 0
                open_ += [part for part in (*arg.bound, *arg.after, arg.goes_on) if isinstance(part, Node)]
    return [found[place] for place in sorted(found)]


def _is(other: Any, number: float) -> bool:
    return type(other) in (float, int) and other == number


def _graph(*values: Any) -> Graph:
    graph: Graph = next(value.graph for value in values if isinstance(value, Node))
    return graph


_INFINITE = float("inf")
_SIMPLE = (float, int, str, bool)
_RELATIONS = {operator.lt: "<", operator.le: "<=", operator.gt: ">", operator.ge: ">="}


def _repeated(
    turn: Callable[[_State], tuple[_State, Any]], start: _State, most: int, among: _State, begins: Any
) -> _State:
    return _graph(*start, *among, begins).repeated(turn, start, most, begins)


register(
    Node,
    Operations(
        maximum=lambda a, b, meaning: _graph(a, b).maximum(a, b, meaning),
        minimum=lambda a, b, meaning: _graph(a, b).minimum(a, b, meaning),
        ceil=lambda a, meaning: _graph(a).ceil(a, meaning),
        where=lambda condition, a, b: _graph(condition).where(condition, a, b),
        compared=lambda relation, a, b, meaning: _graph(a, b).compared(_RELATIONS[relation], a, b, meaning),
        repeated=_repeated,
        settled=lambda round_, values, among: _graph(among).settled(round_, values),
    ),
)
