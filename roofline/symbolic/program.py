"""A graph as a program: statements of Python on floats, or of JavaScript.

Subexpressions used once are inlined, others get names; loop invariants stand before the loop. Programs of the same
structure share their code: constants are arguments of the function that makes them.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from roofline.ops import always
from roofline.records import NamedTuple
from roofline.symbolic.graph import INPUT, LOOP, OF_LOOP, Loop, Node, nodes_of
from roofline.symbolic.languages import JAVASCRIPT, PYTHON, Language, text_of

_DEEP = 24  # nested operations in one expression
_MOST_PROGRAMS = 256  # cached, one per structure
_TWICE = ("max", "min", "**")  # their forms may repeat an argument


class _Style(NamedTuple):
    """How a language writes statements."""

    fixed: str = ""  # keyword before a constant
    changing: str = ""  # keyword before a variable
    end: str = ""
    together: str = "{0} = {1}"
    once: str = "if {begins}:"
    turns: str = "for {turn} in range({most}):"
    turns_if: str = "for {turn} in range({most} if ({begins}) else 0):"
    stop: str = "if not goes_on: break"
    close: str = ""


_PYTHON_STYLE = _Style()
_SCRIPT_STYLE = _Style(
    fixed="const ",
    changing="let ",
    end=";",
    together="[{0}] = [{1}]",
    once="if ({begins}) {{",
    turns="for (let {turn} = 0; {turn} < {most}; {turn}++) {{",
    turns_if="for (let {turn} = ({begins}) ? 0 : {most}; {turn} < {most}; {turn}++) {{",
    stop="if (!goes_on) break",
    close="}",
)


class _Statements:
    """Statements of one language that compute the outputs."""

    def __init__(self, language: Language, outputs: Sequence[Any], names: dict[object, str]) -> None:
        self.language = language
        self.outputs = outputs
        self.names = names  # of nodes, by their keys
        self.lines: list[str] = []
        self._nodes = nodes_of(outputs)
        self._bound = 0
        for node in self._nodes:
            if node.operation == LOOP:
                for bound in node.args[-1].bound:
                    self._bound |= bound.reach
        self._inline = self._used_once()
        self._written: set[object] = set()

    def write(self, margin: str) -> list[str]:
        """Statements for all outputs, each indented by `margin`."""
        self._block(self._nodes, 0, margin)
        return self.lines

    def text(self, value: Any) -> str:
        """A node's name, or its expression."""
        return text_of(value, self.language, lambda node: self.names.get(node.key))

    def _block(self, nodes: Iterable[Node], scope: int, margin: str) -> None:
        """Statements of the nodes that can be computed inside the loops whose bits are in `scope`."""
        for node in nodes:
            if node.key in self._written or node.operation == INPUT or (node.reach & self._bound) & ~scope:
                continue
            if node.operation == LOOP:
                self._loop(node, scope, margin)
            elif node.operation == OF_LOOP:
                self.names[node.key] = f"{self._name(node.args[0])}_{node.args[1]:g}"
            elif node.key not in self._inline:
                text = self.text(node)  # which has no name yet
                self._line(margin, f"{self._style.fixed}{self._name(node)} = {text}")
            else:
                continue
            self._written.add(node.key)

    def _loop(self, node: Node, scope: int, margin: str) -> None:
        """A loop; one of at most a single turn is a branch."""
        *start, begins, loop = node.args
        name, style, deeper = self._name(node), self._style, margin + "    "
        states = [f"{name}_{place}" for place in range(len(start))]
        for state, value in zip(states, start, strict=True):
            self._line(margin, f"{style.changing}{state} = {self.text(value)}")
        self.names.update((bound.key, state) for bound, state in zip(loop.bound, states, strict=True))
        head = style.once if loop.most == 1 else style.turns if always(begins) else style.turns_if
        self.lines.append(margin + head.format(turn=f"turn{node.place}", most=loop.most, begins=self.text(begins)))
        self._block(nodes_of([*loop.after, loop.goes_on]), scope | sum(bound.reach for bound in loop.bound), deeper)
        ends = loop.most > 1 and not always(loop.goes_on)
        if ends:
            self._line(deeper, f"{style.fixed}goes_on = {self.text(loop.goes_on)}")
        changed = [
            (state, self.text(value))
            for bound, state, value in zip(loop.bound, states, loop.after, strict=True)
            if value is not bound
        ]
        together = style.together if len(changed) > 1 else "{0} = {1}"
        self._line(deeper, together.format(*map(", ".join, zip(*changed, strict=True))))
        if ends:
            self._line(deeper, style.stop)
        if style.close:
            self.lines.append(margin + style.close)

    def _used_once(self) -> set[object]:
        """Keys of the nodes to inline."""
        uses: dict[object, int] = {}
        named: set[object] = set()
        for node in self._nodes:
            loops = [arg for arg in node.args if isinstance(arg, Loop)]
            for loop in loops:
                for part in (*loop.after, loop.goes_on):
                    if isinstance(part, Node):
                        uses[part.key] = uses.get(part.key, 0) + 1
                        if (part.reach ^ sum(bound.reach for bound in loop.bound)) & self._bound:
                            named.add(part.key)
            for arg in node.args:
                if isinstance(arg, Node):
                    uses[arg.key] = uses.get(arg.key, 0) + 1
                    if node.operation in _TWICE or (arg.reach ^ node.reach) & self._bound:
                        named.add(arg.key)
        for output in self.outputs:
            if isinstance(output, Node):
                uses[output.key] = uses.get(output.key, 0) + 1
        inline: set[object] = set()
        depth: dict[object, int] = {}
        for node in self._nodes:
            deep = 1 + max((depth.get(arg.key, 0) for arg in node.args if isinstance(arg, Node)), default=0)
            is_used_once = uses.get(node.key, 0) <= 1 and node.key not in named
            if is_used_once and deep < _DEEP and node.operation not in (INPUT, LOOP, OF_LOOP):
                inline.add(node.key)
                depth[node.key] = deep
        return inline

    def _name(self, node: Node) -> str:
        return self.names.setdefault(node.key, f"t{node.place}")

    def _line(self, margin: str, statement: str) -> None:
        self.lines.append(f"{margin}{statement}{self._style.end}")

    @property
    def _style(self) -> _Style:
        return _SCRIPT_STYLE if self.language is JAVASCRIPT else _PYTHON_STYLE


def python_program(outputs: Sequence[Any], inputs: Sequence[Node]) -> Callable[..., tuple[Any, ...]]:
    """A function of as many floats as `inputs` that returns all `outputs`; arithmetic errors raise as in Python.

    >>> from roofline.symbolic.graph import Graph
    >>> graph = Graph()
    >>> a, b = graph.input("a"), graph.input("b")
    >>> python_program([(a * a + b * b) ** 0.5], [a, b])(3.0, 4.0)
    (5.0,)
    """
    key, constants = _structure(outputs, inputs)
    make = _PROGRAMS.get(key)
    if make is None:
        if len(_PROGRAMS) >= _MOST_PROGRAMS:
            _PROGRAMS.clear()
        make = _PROGRAMS[key] = _compiled(outputs, inputs, constants)
    program: Callable[..., tuple[Any, ...]] = make(*constants, math.cbrt, _ceil, _floor)
    return program


def _structure(outputs: Sequence[Any], inputs: Sequence[Node]) -> tuple[Any, dict[float, str]]:
    """Cache key of programs that share their code, and the names of the constants in which they differ."""
    nodes = nodes_of(outputs)
    slots = {node.key: slot for slot, node in enumerate(nodes)}
    constants: dict[float, str] = {}

    def part(value: Any) -> Any:
        if isinstance(value, Node):
            return slots[value.key]
        if isinstance(value, Loop):
            return tuple(map(part, value.bound)), tuple(map(part, value.after)), part(value.goes_on), value.most
        if type(value) is float and not (value.is_integer() and abs(value) <= _LARGEST_LITERAL):
            return constants.setdefault(value, f"c{len(constants)}")
        return type(value), value

    rows = []
    for node in nodes:
        if node.operation == "**" and type(node.args[1]) is float:  # the order decides the form
            rows.append(("**", part(node.args[0]), part(node.args[1]), node.args[1]))
        else:
            rows.append((node.operation, *map(part, node.args)) if node.operation != INPUT else (INPUT,))
    return (tuple(rows), tuple(map(part, outputs)), tuple(slots.get(node.key) for node in inputs)), constants


def _compiled(outputs: Sequence[Any], inputs: Sequence[Node], constants: dict[float, str]) -> Callable[..., Any]:
    """The function that makes a program from its constants."""

    def number(value: Any) -> str:
        return constants.get(value) or PYTHON.number(value) if type(value) is float else PYTHON.number(value)

    names: dict[object, str] = {node.key: f"x{place}" for place, node in enumerate(inputs)}
    statements = _Statements(PYTHON._replace(number=number), outputs, names)
    lines = statements.write("        ")
    results = ", ".join(map(statements.text, outputs))
    source = "\n".join(
        (
            f"def make({', '.join((*constants.values(), 'cbrt', 'ceil', 'floor'))}):",
            f"    def run({', '.join(names[node.key] for node in inputs)}):",
            *lines,
            f"        return {results},",
            "    return run",
        )
    )
    return compile_make(source)


def javascript_source(name: str, outputs: Sequence[Any], inputs: Sequence[Node]) -> str:
    """Source of a JavaScript function that takes the inputs by their names and returns an array of the outputs.

    >>> from roofline.symbolic.graph import Graph
    >>> graph = Graph()
    >>> print(javascript_source("twice", [2.0 * graph.input("a")], graph.inputs))
    function twice(a) {
        return [2.0 * a];
    }
    """
    names: dict[object, str] = {node.key: node.args[0] for node in inputs}
    statements = _Statements(JAVASCRIPT, outputs, names)
    lines = statements.write("    ")
    results = ", ".join(map(statements.text, outputs))
    head = f"function {name}({', '.join(node.args[0] for node in inputs)}) {{"
    return "\n".join((head, *lines, f"    return [{results}];", "}"))


def compile_make(source: str) -> Callable[..., Any]:
    """The function `make` that a source defines."""
    space: dict[str, Any] = {}
    exec(source, space)  # noqa: S102  our own text
    make: Callable[..., Any] = space["make"]
    return make


def _ceil(value: float) -> float:
    return float(math.ceil(value)) if math.isfinite(value) else value


def _floor(value: float) -> float:
    return float(math.floor(value)) if math.isfinite(value) else value


_LARGEST_LITERAL = 4.0
_PROGRAMS: dict[Any, Callable[..., Any]] = {}  # by structure
