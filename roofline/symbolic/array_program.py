"""A graph as a program of numpy: one call of a universal function an operation, on blocks whose buffers are used again.

What depends on no array is computed once a block, as Python computes floats. Iterations have no such program: elements
would wait for the slowest.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from roofline.arrays import block_functions, in_blocks
from roofline.errors import BadInput
from roofline.symbolic.graph import CONDITIONS, INPUT, LOOP, Node, nodes_of
from roofline.symbolic.languages import PYTHON, text_of
from roofline.symbolic.program import made_by

__all__ = ["FUNCTIONS", "array_program"]

#: Functions of numpy that do an operation on arrays.
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
_ROOTS = {0.5: "sqrt", 1.0 / 3.0: "cbrt"}
_PRODUCTS = {2.0: 1, 3.0: 2}  # multiplications


class _Buffers:
    """Buffers of one kind that come free when what they hold was used for the last time."""

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


def array_program(
    outputs: Sequence[Any], inputs: Sequence[Node], is_array: Sequence[bool]
) -> Callable[..., tuple[Any, ...]]:
    """A function of arrays of one shape, and of floats, that computes some numbers of a graph.

    Args:
        outputs: the numbers: nodes, or plain ones [any].
        inputs: nodes whose values the function takes.
        is_array: which of them are arrays [bool].

    Returns:
        The function, of as many numbers; it gives as many as there are outputs, those that depend on an array as
        arrays.

    Raises:
        BadInput: the graph iterates.
    """
    mask = sum(node.reach for node, is_one in zip(inputs, is_array, strict=True) if is_one)
    names: dict[object, str] = {node.key: f"x{place}" for place, node in enumerate(inputs)}
    constants: dict[float, str] = {}
    floats, flags = _Buffers("b"), _Buffers("f")
    nodes = [node for node in nodes_of(outputs) if node.operation != INPUT]
    if any(node.operation == LOOP for node in nodes):
        raise BadInput("an iteration has no program of arrays")
    last = {arg.key: place for place, node in enumerate(nodes) for arg in node.args if isinstance(arg, Node)}
    kept = {output.key for output in outputs if isinstance(output, Node)}
    scalars: list[str] = []
    lines: list[str] = []

    def number(value: Any) -> str:
        if type(value) is float and math.isfinite(value):
            return constants.setdefault(value, f"c{len(constants)}")
        return PYTHON.number(value)

    language = PYTHON._replace(number=number)

    def text(value: Any) -> str:
        return text_of(value, language, lambda node: names.get(node.key))

    for place, node in enumerate(nodes):
        if not node.reach & mask:
            one = text_of(node, language, lambda other, node=node: None if other is node else names.get(other.key))  # type: ignore[misc]
            names[node.key] = f"s{place}"
            scalars.append(f"s{place} = {one}")
            continue
        pool = flags if _is_flag(node) else floats
        done = {arg.key for arg in node.args if isinstance(arg, Node) and last[arg.key] == place} - kept
        done_with = [names[key] for key in done if names[key][0] in "bf"]
        careful = node.operation in ("where", "**")  # whose first step would overwrite what the second reads
        if not careful:
            _free(done_with, floats, flags)
        target = pool.take()
        if careful:
            _free(done_with, floats, flags)
        lines += _statements(node, [text(arg) for arg in node.args], target)
        names[node.key] = target
    results = ", ".join(map(text, outputs))
    buffers = [f"{pool.letter}{place}" for pool in (floats, flags) for place in range(pool.number)]
    arguments = [names[node.key] for node in inputs] + buffers
    functions = block_functions()
    source = "\n".join(
        (
            f"def make({', '.join((*constants.values(), *functions))}):",
            f"    def run({', '.join(arguments)}):",
            *(f"        {line}" for line in (*scalars, *lines)),
            f"        return {results},",
            "    return run",
        )
    )
    run = made_by(source)(*constants, *functions.values())
    return in_blocks(run, tuple(is_array), floats.number, flags.number)


def _free(names: Sequence[str], floats: _Buffers, flags: _Buffers) -> None:
    for name in names:
        (floats if name[0] == floats.letter else flags).give_back(name)


def _is_flag(node: Node) -> bool:
    if node.operation == "where":
        return any(isinstance(arg, Node) and _is_flag(arg) for arg in node.args[1:])
    return node.operation in CONDITIONS


def _statements(node: Node, args: list[str], target: str) -> list[str]:
    """Calls that leave a node's value in a buffer."""
    operation = node.operation
    if operation == "where":
        return [f"copyto({target}, {args[2]})", f"copyto({target}, {args[1]}, where={args[0]})"]
    order = node.args[1] if operation == "**" and type(node.args[1]) is float else None
    if order in _ROOTS:
        return [f"{_ROOTS[order]}({args[0]}, {target})"]
    if order in _PRODUCTS:
        first = f"multiply({args[0]}, {args[0]}, {target})"
        return [first, *[f"multiply({target}, {args[0]}, {target})"] * (_PRODUCTS[order] - 1)]
    return [f"{FUNCTIONS[operation]}({', '.join(args)}, out={target})"]
