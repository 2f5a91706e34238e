"""A graph as a numpy program: one ufunc call per operation, on blocks that reuse their buffers.

What depends on no array is computed once per block with Python floats. Graphs with loops have no such program: every
element would wait for the slowest.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any

from roofline.arrays import block_functions, in_blocks
from roofline.errors import BadInput
from roofline.symbolic.graph import CONDITIONS, INPUT, LOOP, Node, nodes_of
from roofline.symbolic.languages import PYTHON, text_of
from roofline.symbolic.program import compile_make

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
_ROOTS = {0.5: "sqrt", 1.0 / 3.0: "cbrt"}
_PRODUCTS = {2.0: 1, 3.0: 2}  # multiplications
_compile_once = lru_cache(maxsize=256)(compile_make)  # programs of the same structure share their code


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


def array_program(
    outputs: Sequence[Any], inputs: Sequence[Node], is_array: Sequence[bool]
) -> Callable[..., tuple[Any, ...]]:
    """A function of floats and of arrays of one shape, as `is_array` says, that returns all `outputs`."""
    mask = sum(node.reach for node, is_column in zip(inputs, is_array, strict=True) if is_column)
    names: dict[object, str] = {node.key: f"x{place}" for place, node in enumerate(inputs)}
    constants: dict[float, str] = {}
    floats, flags = _Buffers("b"), _Buffers("f")
    nodes = [node for node in nodes_of(outputs) if node.operation != INPUT]
    if any(node.operation == LOOP for node in nodes):
        raise BadInput("an iteration has no program of arrays")
    last = {arg.key: place for place, node in enumerate(nodes) for arg in node.args if isinstance(arg, Node)}
    output_keys = {output.key for output in outputs if isinstance(output, Node)}
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
            code = text_of(node, language, lambda other, node=node: None if other is node else names.get(other.key))  # type: ignore[misc]
            names[node.key] = f"s{place}"
            scalars.append(f"s{place} = {code}")
            continue
        pool = flags if _is_flag(node) else floats
        ending = {arg.key for arg in node.args if isinstance(arg, Node) and last[arg.key] == place} - output_keys
        freed = [names[key] for key in ending if names[key][0] in "bf"]
        reads_twice = node.operation in ("where", "**")  # their first call must not overwrite what the second reads
        if not reads_twice:
            _release(freed, floats, flags)
        target = pool.take()
        if reads_twice:
            _release(freed, floats, flags)
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
    run = _compile_once(source)(*constants, *functions.values())
    return in_blocks(run, tuple(is_array), floats.number, flags.number)


def _release(names: Sequence[str], floats: _Buffers, flags: _Buffers) -> None:
    for name in names:
        (floats if name[0] == floats.letter else flags).give_back(name)


def _is_flag(node: Node) -> bool:
    if node.operation == "where":
        return any(isinstance(arg, Node) and _is_flag(arg) for arg in node.args[1:])
    return node.operation in CONDITIONS


def _statements(node: Node, args: list[str], target: str) -> list[str]:
    """Calls that write a node's value to the buffer `target`."""
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
