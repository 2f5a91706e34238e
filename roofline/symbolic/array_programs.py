"""Graphs as numpy programs: one ufunc call per operation, on blocks that reuse their buffers.

What depends on no array is computed once per block with Python floats. A loop turns for the elements that go on alone.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import lru_cache
from typing import Any

from roofline.support.records import NamedTuple
from roofline.symbolic.graph import (
    CALL,
    CONDITIONS,
    INPUT,
    LOOP,
    RESULT,
    Function,
    Loop,
    Node,
    inside_bits,
    nodes_of,
    of_branches,
    turn_nodes,
)
from roofline.symbolic.programs import PYTHON, compile_make, text_of

#: numpy ufunc of each operation.
FUNCTIONS = {
    "+": "add",
    "-": "subtract",
    "*": "multiply",
    "/": "divide",
    "neg": "negative",
    "**": "power",
    "mod": "mod",
    "abs": "absolute",
    "max": "maximum",
    "min": "minimum",
    "ceil": "ceil",
    "floor": "floor",
    "<": "less",
    "<=": "less_equal",
    ">": "greater",
    ">=": "greater_equal",
    "==": "equal",
    "!=": "not_equal",
    "and": "logical_and",
    "or": "logical_or",
    "not": "logical_not",
}
_E = math.e
_ROOTS = {0.5: "sqrt", 1.0 / 3.0: "cbrt"}
_PRODUCTS = {2.0: 1, 3.0: 2}  # multiplications
_compile_once = lru_cache(maxsize=256)(compile_make)  # programs of the same structure share their code

_Program = Callable[..., tuple[Any, ...]]


def array_program(outputs: Sequence[Any], inputs: Sequence[Node], is_array: Sequence[bool]) -> _Program:
    """A function of floats and of arrays that broadcast together, as `is_array` says, that returns all `outputs`."""
    return ArrayProgram(outputs, inputs, (), is_array).bound()


class ArrayProgram:
    """The code of an `array_program`, for any values of its parameters and any functions that it calls."""

    def __init__(
        self, outputs: Sequence[Any], inputs: Sequence[Node], parameters: Sequence[Node], is_array: Sequence[bool]
    ) -> None:
        from roofline.numbers.arrays import block_functions

        self._is_array = tuple(is_array)
        if not any(node.operation in (LOOP, CALL) for node in nodes_of(outputs)):
            columns = sum(node.reach for node, is_column in zip(inputs, is_array, strict=True) if is_column)
            outputs = _with_sums_collected(outputs, sum(node.reach for node in (*inputs, *parameters)) & ~columns)
        self._writer = writer = _Writer(parameters, of_branches(nodes_of(outputs), outputs))
        for node, is_column in zip(inputs, is_array, strict=True):
            writer.add_input(node, is_column=is_column)
        self._body = writer.function("run", outputs, inputs)
        self._functions = block_functions()
        known = (*writer.constants.values(), *self._functions, *writer.called.values(), *writer.parameters)
        lines = "\n".join(line for function in writer.functions for line in function)
        self._make = _compile_once(f"def make({', '.join(known)}):\n{lines}\n    return run")

    @property
    def called(self) -> list[tuple[Function, tuple[bool, ...]]]:
        """Functions that `bound` takes, each with which of its arguments are arrays."""
        return list(self._writer.called)

    def bound(self, *values: Any) -> _Program:
        """The program with its functions and the values of its parameters."""
        from roofline.numbers.arrays import in_blocks

        run = self._make(*self._writer.constants, *self._functions.values(), *values)
        return in_blocks(run, self._is_array, *self._body)


class _Sum(NamedTuple):
    """A number as a constant and multiples of powers of other numbers."""

    constant: Any
    parts: dict[tuple[object, int], tuple[Any, Any]]  # (key of a number, power) -> the number, its factor


_MOST_POWER = 3  # of a number in a sum


def _with_sums_collected(outputs: Sequence[Any], early: int) -> list[Any]:
    """The outputs with factors of sums collected, which depend on inputs with the bits `early` alone.

    Equal up to rounding. Most of the work of a pass is in sums of multiples of its tokens, and in cubes of these.
    """
    sums: dict[object, _Sum] = {}

    def sum_of(value: Any) -> _Sum:
        if not isinstance(value, Node) or not value.reach & ~early:
            return _Sum(value, {})
        known = sums.get(value.key)
        return _Sum(0.0, {(value.key, 1): (value, 1.0)}) if known is None else known

    def number_of(value: Any) -> Any:
        return _number_of_sum(sum_of(value))

    for node in nodes_of(outputs):
        if node.operation == INPUT or not node.reach & ~early:
            continue
        operands = [sum_of(arg) for arg in node.args] if node.operation in _OF_SUMS else []
        found = _combined(node, operands)
        if found is None:
            same = node.graph.node(node.operation, *map(number_of, node.args))
            found = _Sum(0.0, {(same.key, 1): (same, 1.0)}) if isinstance(same, Node) else _Sum(same, {})
        sums[node.key] = found
    return [number_of(output) for output in outputs]


_OF_SUMS = ("+", "-", "neg", "*", "/", "**")


def _combined(node: Node, operands: Sequence[_Sum]) -> _Sum | None:
    """An operation on sums as a sum; None where it is none."""
    left, right = (*operands, None)[:2] if operands else (None, None)
    if left is None:
        return None
    if node.operation == "neg":
        return _scaled(left, -1.0)
    if right is None:
        return None
    if node.operation == "+":
        return _added(left, right)
    if node.operation == "-":
        return _added(left, _scaled(right, -1.0))
    if node.operation == "*":
        return _product(left, right)
    if node.operation == "/":
        return None if right.parts else _scaled(left, 1.0 / right.constant)
    if type(node.args[1]) is not float or node.args[1] != _MOST_POWER or not left.parts:
        return None
    square = _product(left, left)
    return None if square is None else _product(square, left)


def _scaled(one: _Sum, factor: Any) -> _Sum:
    parts = {key: (number, own * factor) for key, (number, own) in one.parts.items()}
    return _Sum(one.constant * factor, parts)


def _added(one: _Sum, other: _Sum) -> _Sum:
    parts = dict(one.parts)
    for key, (number, factor) in other.parts.items():
        parts[key] = (number, parts[key][1] + factor) if key in parts else (number, factor)
    return _Sum(one.constant + other.constant, parts)


def _product(one: _Sum, other: _Sum) -> _Sum | None:
    """The product of sums of powers of one number, up to the third; None for others."""
    if not (one.parts and other.parts):
        return _scaled(one, other.constant) if one.parts else _scaled(other, one.constant)
    keys = {key for key, _ in (*one.parts, *other.parts)}
    powers = [max(power for _, power in each.parts) for each in (one, other)]
    if len(keys) > 1 or sum(powers) > _MOST_POWER:
        return None
    total = _scaled(one, other.constant)
    for (key, power), (number, factor) in other.parts.items():
        shifted = {(key, power + own): (number, factor * of) for (_, own), (_, of) in one.parts.items()}
        total = _added(total, _Sum(0.0, {(key, power): (number, factor * one.constant), **shifted}))
    return total


def _number_of_sum(one: _Sum) -> Any:
    """A sum as nodes, by Horner's rule."""
    total: Any = None
    for key in dict.fromkeys(key for key, _ in one.parts):
        factors = {power: factor for (own, power), (_, factor) in one.parts.items() if own == key}
        base = next(number for (own, _), (number, _) in one.parts.items() if own == key)
        term: Any = 0.0
        for power in range(max(factors), 0, -1):
            term = (term + factors.get(power, 0.0)) * base
        total = term if total is None else total + term
    return one.constant if total is None else total + one.constant


class _Buffers:
    """Names of buffers of one kind, reused once their contents are no longer needed."""

    def __init__(self, letter: str) -> None:
        self.letter = letter
        self.number = 0
        self._free: list[str] = []

    def take(self) -> str:
        if self._free:
            return self._free.pop()
        self.number += 1
        return f"{self.letter}{self.number - 1}"

    def give_back(self, name: str) -> None:
        self._free.append(name)


class _Writer:
    """Writes the functions of a program: one for a block, and one for a turn of each loop."""

    def __init__(self, parameters: Sequence[Node], of_branches: Mapping[object, Node]) -> None:
        self._of_branches = of_branches
        self.constants: dict[float, str] = {}
        self.called: dict[tuple[Function, tuple[bool, ...]], str] = {}
        self.functions: list[list[str]] = []
        self.parameters = [f"p{place}" for place in range(len(parameters))]
        self._names: dict[object, str] = {node.key: f"p{place}" for place, node in enumerate(parameters)}
        self._arrays: set[object] = set()  # keys of the nodes that are arrays
        self._flags: set[object] = set()  # keys of the nodes that are conditions
        self._language = PYTHON._replace(number=self._number)

    def add_input(self, node: Node, *, is_column: bool) -> None:
        self._names[node.key] = f"x{node.place}"
        if is_column:
            self._arrays.add(node.key)

    def function(self, name: str, outputs: Sequence[Any], inputs: Sequence[Node]) -> tuple[int, int]:
        """Write a function of a block; how many buffers it takes for numbers and for conditions."""
        floats, flags = _Buffers("b"), _Buffers("f")
        known = {node.key for node in inputs}
        nodes = [node for node in _in_scope(outputs, known, self._of_branches) if node.operation != INPUT]
        free = {node.key: _free(node, self._of_branches) for node in nodes if node.operation == LOOP}
        uses = {
            node.key: [arg for arg in (*node.args, *free.get(node.key, ())) if isinstance(arg, Node)] for node in nodes
        }
        last = {arg.key: place for place, node in enumerate(nodes) for arg in uses[node.key]}
        kept = {output.key for output in outputs if isinstance(output, Node)} | known
        lines: list[str] = []
        for place, node in enumerate(nodes):
            if node.operation == LOOP:
                lines.append(self._loop(node, free[node.key]))
            elif node.operation == CALL:
                lines.append(self._call(node))
            elif node.operation == RESULT:
                self._result(node)
            elif not any(arg.key in self._arrays for arg in uses[node.key]):
                lines.append(f"s{node.place} = {self.text(node)}")
                self._names[node.key] = f"s{node.place}"
            else:
                self._arrays.add(node.key)
                if self._is_flag(node):
                    self._flags.add(node.key)
                ending = {arg.key for arg in uses[node.key] if last[arg.key] == place} - kept
                freed = [name for name in (self._names[key] for key in ending) if name[0] in "bf"]
                reads_twice = node.operation in (
                    "where",
                    "**",
                )  # their first call must not overwrite what the second reads
                if not reads_twice:
                    _release(freed, floats, flags)
                target = (flags if node.key in self._flags else floats).take()
                if reads_twice:
                    _release(freed, floats, flags)
                lines += _statements(node, [self.text(arg) for arg in node.args], target)
                self._names[node.key] = target
        buffers = [f"{pool.letter}{place}" for pool in (floats, flags) for place in range(pool.number)]
        arguments = ", ".join(["n", *(self._names[node.key] for node in inputs), *buffers])
        results = ", ".join(map(self.text, outputs))
        body = (f"        {line}" for line in lines)
        self.functions.append([f"    def {name}({arguments}):", *body, f"        return {results},"])
        return floats.number, flags.number

    def text(self, value: Any) -> str:
        return text_of(value, self._language, lambda node: self._names.get(node.key))

    def _number(self, value: Any) -> str:
        if type(value) is float and math.isfinite(value):
            return self.constants.setdefault(value, f"c{len(self.constants)}")
        return PYTHON.number(value)

    def _call(self, node: Node) -> str:
        function, *args = node.args
        is_array = tuple(isinstance(arg, Node) and arg.key in self._arrays for arg in args)
        called = self.called.setdefault((function, is_array), f"call{len(self.called)}")
        if any(is_array):
            self._arrays.add(node.key)
        self._names[node.key] = f"r{node.place}"
        block = ".block(n, " if any(is_array) else "("
        return f"r{node.place} = {called}{block}{', '.join(map(self.text, args))})"

    def _result(self, node: Node) -> None:
        """One of the results of a loop or a call."""
        whole, place = node.args
        self._names[node.key] = f"{self._names[whole.key]}[{int(place)}]"
        if whole.key in self._arrays:
            self._arrays.add(node.key)
        if whole.operation == LOOP and self._is_flag(whole.args[-1].bound[int(place)]):
            self._flags.add(node.key)

    def _loop(self, node: Node, free: Sequence[Node]) -> str:
        """Write the turn of a loop; the statement that runs it."""
        *start, begins, loop = node.args
        name = f"turn{node.place}"
        for bound, value in zip(loop.bound, start, strict=True):
            self._names[bound.key] = f"v{bound.place}"
            self._arrays.add(bound.key)
            if self._is_flag(value):
                self._flags.add(bound.key)
        outer = {each.key: self._names[each.key] for each in free}
        self._names.update((each.key, f"y{place}") for place, each in enumerate(free))
        buffers = self.function(name, [*loop.after, loop.goes_on], [*loop.bound, *free])
        self._names.update(outer)
        self._names[node.key] = f"l{node.place}"
        self._arrays.add(node.key)
        starts, known = (f"({''.join(f'{text}, ' for text in map(self.text, group))})" for group in (start, free))
        return f"l{node.place} = turned({name}, {buffers}, {loop.most}, n, {self.text(begins)}, {starts}, {known})"

    def _is_flag(self, value: Any) -> bool:
        if not isinstance(value, Node):
            return type(value) is bool
        if value.operation == "where":
            return any(self._is_flag(arg) for arg in value.args[1:])
        return value.operation in CONDITIONS or value.key in self._flags


def _in_scope(outputs: Sequence[Any], known: set[object], of_branches: Mapping[object, Node]) -> list[Node]:
    """Nodes to compute in a scope, arguments first: up to what is known, and not those of a turn of an inner loop."""
    nodes: dict[int, Node] = {}
    pending = [output for output in outputs if isinstance(output, Node)]
    while pending:
        node = pending.pop()
        if node.place in nodes or node.key in known:
            continue
        nodes[node.place] = node
        pending += [arg for arg in node.args if isinstance(arg, Node)]
        if node.operation == LOOP:
            pending += _free(node, of_branches)
    return [nodes[place] for place in sorted(nodes)]


def _free(node: Node, of_branches: Mapping[object, Node]) -> list[Node]:
    """What a turn of a loop reads and does not change; a branch computes what nobody else reads."""
    loop: Loop = node.args[-1]
    parts = turn_nodes(node)
    inside = inside_bits(node, parts)
    free: dict[int, Node] = {}
    pending = [arg for each in parts if each.reach & inside for arg in _arguments(each)]
    pending += [output for output in (*loop.after, loop.goes_on) if isinstance(output, Node)]
    seen: set[int] = set()
    while pending:
        each = pending.pop()
        if each.place in seen or each.reach & inside:
            continue
        seen.add(each.place)
        if of_branches.get(each.key) is node:
            pending += _arguments(each)
            pending += _free(each, of_branches) if each.operation == LOOP else []
        else:
            free[each.place] = each
    return [free[place] for place in sorted(free)]


def _arguments(node: Node) -> Iterable[Node]:
    for arg in node.args:
        if isinstance(arg, Node):
            yield arg
        elif isinstance(arg, Loop):
            yield from (part for part in (*arg.after, arg.goes_on) if isinstance(part, Node))


def _release(names: Sequence[str], floats: _Buffers, flags: _Buffers) -> None:
    for name in names:
        (floats if name[0] == floats.letter else flags).give_back(name)


def _statements(node: Node, args: list[str], target: str) -> list[str]:
    """Calls that write a node's value to the buffer `target`."""
    operation = node.operation
    if operation == "where":
        return [f"copyto({target}, {args[2]})", f"copyto({target}, {args[1]}, where={args[0]})"]
    order = node.args[1] if operation == "**" and type(node.args[1]) is float else None
    if operation == "**" and type(node.args[0]) is float and node.args[0] == _E:
        return [f"exp({args[1]}, {target})"]
    if order in _ROOTS:
        return [f"{_ROOTS[order]}({args[0]}, {target})"]
    if order in _PRODUCTS:
        first = f"multiply({args[0]}, {args[0]}, {target})"
        return [first, *[f"multiply({target}, {args[0]}, {target})"] * (_PRODUCTS[order] - 1)]
    return [f"{FUNCTIONS[operation]}({', '.join(args)}, out={target})"]
