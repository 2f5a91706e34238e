"""Graphs as text and as programs: one printer for all languages, programs in Python and JavaScript."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from itertools import zip_longest
from typing import Any

from roofline.numbers.operations import always
from roofline.support.errors import BadInput
from roofline.support.records import NamedTuple
from roofline.symbolic.graph import (
    CALL,
    INPUT,
    LOOP,
    RESULT,
    Function,
    Loop,
    Node,
    bound_bits,
    nodes_of,
    of_branches,
    turn_nodes,
)

# How each language writes an operation: one table of precedence and forms, with the differences of each language.
#
# Precedence decides where brackets are needed, so that the text computes in the same order.

#: Precedence levels, loosest first.
ANYTHING, OR, AND, NOT, COMPARISON, CONCATENATION, SUM, PRODUCT, SIGN, POWER, ATOM = range(11)

_Name = Callable[[Node], str | None]


class Form(NamedTuple):
    """How an operation is written."""

    pattern: str  # with placeholders for its arguments
    level: int = ATOM  # precedence of the result
    levels: tuple[int, ...] = ()  # least precedence of each argument without brackets; none: any
    joint: str = ""  # separator of a variadic function, whose arguments share one placeholder


def _infix(sign: str, level: int) -> Form:
    return Form(f"{{0}} {sign} {{1}}", level, (level, level + 1))


def _call(name: str) -> Form:
    return Form(f"{name}({{0}})")


def _nest(name: str) -> Form:
    """A variadic function: max(max(a, b), c) is written max(a, b, c)."""
    return Form(f"{name}({{0}})", joint=", ")


_COMMON = {
    "+": _infix("+", SUM),
    "-": _infix("-", SUM),
    "*": _infix("*", PRODUCT),
    "/": _infix("/", PRODUCT),
    "neg": Form("-{0}", SIGN, (SIGN,)),
    "**": Form("{0}**{1}", POWER, (ATOM, SIGN)),
    **{sign: Form(f"{{0}} {sign} {{1}}", COMPARISON, (SUM, SUM)) for sign in ("<", "<=", ">", ">=", "==", "!=")},
    "and": Form("{0} and {1}", AND, (AND, NOT)),
    "or": Form("{0} or {1}", OR, (OR, AND)),
    "not": Form("not {0}", NOT, (NOT,)),
    "mod": Form("{0} % {1}", PRODUCT, (PRODUCT, SIGN)),
    "abs": _call("abs"),
    "max": _nest("max"),
    "min": _nest("min"),
    "ceil": _call("ceil"),
    "floor": _call("floor"),
    "where": Form("{1} if {0} else {2}", ANYTHING, (OR, OR, ANYTHING)),
}


class Style(NamedTuple):
    """How a language writes statements."""

    fixed: str = ""  # keyword before a constant
    changing: str = ""  # keyword before a variable
    end: str = ""
    together: str = "{0} = {1}"
    results: str = "({results},) = {call}"  # of a call, whose name is `{name}`
    result: str = "{name}_{place}"  # one of them
    once: str = "if {begins}:"
    turns: str = "for {turn} in range({most}):"
    turns_if: str = "for {turn} in range({most} if ({begins}) else 0):"
    stop: str = "if not goes_on: break"
    close: str = ""


_PYTHON_STYLE = Style()
_SCRIPT_STYLE = Style(
    fixed="const ",
    changing="let ",
    end=";",
    together="[{0}] = [{1}]",
    results="{name} = {call}",
    result="{name}[{place}]",
    once="if ({begins}) {{",
    turns="for (let {turn} = 0; {turn} < {most}; {turn}++) {{",
    turns_if="for (let {turn} = ({begins}) ? 0 : {most}; {turn} < {most}; {turn}++) {{",
    stop="if (!goes_on) break",
    close="}",
)


class Language(NamedTuple):
    name: str
    forms: Mapping[str, Form]
    number: Callable[[float], str]
    symbol: Callable[[str], str] = str
    power: Callable[[float], Form | None] = lambda _: None  # special form for powers of some orders
    quoted: Callable[[str], str] = lambda text: f'"{text}"'
    call: str = "{name}({args})[{place}]"  # one of the results of a function
    joint: str = ", "  # between arguments
    style: Style | None = None  # of statements; None where there are only formulas

    def form(self, node: Node) -> Form:
        order = node.args[1] if node.operation == "**" else None
        special = self.power(order) if isinstance(order, (float, int)) else None
        form = self.forms.get(node.operation) if special is None else special
        if form is None:
            raise BadInput(f"{self.name} has no formula for {_NAMES.get(node.operation, node.operation)}")
        return form


_NAMES = {LOOP: "an iteration", RESULT: "an iteration (a fixed point or a search)"}


def text_of(value: Any, language: Language, name: _Name = lambda _: None) -> str:
    """A node or plain number as the text of a formula; `name` gives names of nodes that are defined elsewhere.

    >>> from roofline.symbolic.graph import Graph
    >>> graph = Graph()
    >>> a, b = graph.input("a"), graph.input("b")
    >>> text_of(2.0 * (a + b) ** 0.5 / (a - b), PYTHON)
    '2.0 * (a + b)**0.5 / (a - b)'
    """
    return _text(value, language, name)[0]


def _text(value: Any, language: Language, name: _Name) -> tuple[str, int]:
    if not isinstance(value, Node):
        text = language.quoted(value) if isinstance(value, str) else language.number(value)
        return text, language.forms["neg"].level if text.startswith("-") else ATOM
    known = name(value)
    if known is not None:
        return known, ATOM
    if value.operation == INPUT:
        return language.symbol(value.args[0]), ATOM
    if value.operation == RESULT and value.args[0].operation == CALL:
        called, place = value.args[0], int(value.args[1])
        function = language.symbol(called.args[0].name)
        return language.call.format(name=function, args=_arguments(called, language, name), place=place), ATOM
    form = language.form(value)
    parts = []
    for arg, least in zip_longest(
        _flattened(value, name) if form.joint else value.args, form.levels, fillvalue=ANYTHING
    ):
        text, level = _text(arg, language, name)
        parts.append(text if level >= least else f"({text})")
    return form.pattern.format(*([form.joint.join(parts)] if form.joint else parts)), form.level


def _arguments(called: Node, language: Language, name: _Name) -> str:
    """Arguments of a call, as text."""
    return language.joint.join(_text(arg, language, name)[0] for arg in called.args[1:])


def _flattened(node: Node, name: _Name) -> list[Any]:
    """Arguments of nested calls of one operation, in order."""
    flat: list[Any] = []
    for arg in node.args:
        is_same = isinstance(arg, Node) and arg.operation == node.operation and name(arg) is None
        flat += _flattened(arg, name) if is_same else [arg]
    return flat


def _python_number(value: Any) -> str:
    if isinstance(value, bool):
        return str(value)
    value = float(value)
    return repr(value) if math.isfinite(value) else f"float('{value}')"


def _python_power(order: float) -> Form | None:
    """Cubes and cube roots as `norm` computes them; other powers, whole ones too, as Python does."""
    if type(order) is int:
        return None
    return _call("cbrt") if order == _THIRD else _CUBES.get(order)


def _short(value: Any) -> str:
    return f"{value:g}" if f"{value:g}" == repr(value) or float(f"{value:g}") == value else repr(value)


def _tex_number(value: Any) -> str:
    mantissa, _, exponent = _short(value).partition("e")
    return mantissa if not exponent else f"{mantissa} \\cdot 10^{{{int(exponent)}}}"


def _sheet_number(value: Any) -> str:
    if isinstance(value, bool):
        return "TRUE" if value else "FALSE"
    if math.isnan(value):
        return "NA()"
    return f"{int(value)}" if float(value).is_integer() and abs(value) < _WHOLE else repr(float(value)).upper()


def _script_number(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if value is None:
        return "null"
    if math.isnan(value):
        return "NaN"
    return repr(float(value)) if math.isfinite(value) else f"{'-' if value < 0 else ''}Infinity"


_THIRD = 1.0 / 3.0
_WHOLE = 2.0**50
_CUBES = {3.0: Form("{0} * {0} * {0}", PRODUCT, (ATOM,))}

_SCRIPT_ROOTS = {0.5: _call("Math.sqrt"), _THIRD: _call("Math.cbrt")}

#: For people; Python can read it.
TEXT = Language("text", {**_COMMON, "ceil": _call("ceiling")}, _short)
#: Statements on floats; `symbolic/programs.py` defines `cbrt`, `ceil` and `floor`.
PYTHON = Language(
    "Python",
    {
        **_COMMON,
        "max": Form("{0} if {0} >= {1} else {1}", ANYTHING, (ATOM, ATOM)),
        "min": Form("{0} if {0} <= {1} else {1}", ANYTHING, (ATOM, ATOM)),
    },
    _python_number,
    power=_python_power,
    style=_PYTHON_STYLE,
)
LATEX = Language(
    "LaTeX",
    {
        **_COMMON,
        "*": _infix("\\,", PRODUCT),
        "/": Form("\\frac{{{0}}}{{{1}}}"),
        "**": Form("{{{0}}}^{{{1}}}", POWER, (ATOM, ANYTHING)),
        "<=": Form("{0} \\le {1}", COMPARISON, (SUM, SUM)),
        ">=": Form("{0} \\ge {1}", COMPARISON, (SUM, SUM)),
        "==": Form("{0} = {1}", COMPARISON, (SUM, SUM)),
        "!=": Form("{0} \\ne {1}", COMPARISON, (SUM, SUM)),
        "and": Form("{0} \\land {1}", AND, (AND, NOT)),
        "or": Form("{0} \\lor {1}", OR, (OR, AND)),
        "not": Form("\\lnot {0}", NOT, (ATOM,)),
        "mod": Form("{0} \\bmod {1}", PRODUCT, (PRODUCT, SIGN)),
        "abs": Form("\\left|{0}\\right|"),
        "max": Form("\\max\\left({0}\\right)", joint=", "),
        "min": Form("\\min\\left({0}\\right)", joint=", "),
        "ceil": Form("\\left\\lceil {0} \\right\\rceil"),
        "floor": Form("\\left\\lfloor {0} \\right\\rfloor"),
        "where": Form("\\begin{{cases}} {1} & {0} \\\\ {2} & \\text{{otherwise}} \\end{{cases}}"),
    },
    _tex_number,
    symbol=lambda name: f"\\mathrm{{{name.replace('_', chr(92) + '_')}}}" if len(name) > 1 else name,
    call="{name}\\left({args}\\right)_{{{place}}}",
)
#: Formulas of cells. There a unary minus binds tighter than a power, and powers associate to the left: neither is used.
SPREADSHEET = Language(
    "a spreadsheet",
    {
        **{name: form._replace(pattern=form.pattern.replace(" ", "")) for name, form in _COMMON.items()},
        "neg": Form("0-{0}", SUM, (PRODUCT,)),
        "**": Form("POWER({0},{1})"),
        "==": Form("{0}={1}", COMPARISON, (CONCATENATION, CONCATENATION)),
        "!=": Form("{0}<>{1}", COMPARISON, (CONCATENATION, CONCATENATION)),
        "&": Form("{0}&{1}", CONCATENATION, (CONCATENATION, SUM)),
        **{name.lower(): Form(f"{name}({{0}})", joint=",") for name in ("AND", "OR", "MAX", "MIN")},
        "not": _call("NOT"),
        "mod": Form("MOD({0},{1})"),
        "abs": _call("ABS"),
        "ceil": Form("0-INT(0-{0})", SUM, (PRODUCT,)),
        "floor": _call("INT"),
        "where": Form("IF({0},{1},{2})"),
    },
    _sheet_number,
    quoted=lambda text: '"' + text.replace('"', '""') + '"',
    power=lambda order: _call("SQRT") if order == 0.5 else None,
    call="INDEX({name}({args}),{place}+1)",
    joint=",",
)
JAVASCRIPT = Language(
    "JavaScript",
    {
        **_COMMON,
        "**": Form("Math.pow({0}, {1})"),
        "==": Form("{0} === {1}", COMPARISON, (SUM, SUM)),
        "!=": Form("{0} !== {1}", COMPARISON, (SUM, SUM)),
        "and": Form("{0} && {1}", AND, (AND, NOT)),
        "or": Form("{0} || {1}", OR, (OR, AND)),
        "not": Form("!{0}", SIGN, (ATOM,)),
        "abs": _call("Math.abs"),
        "max": _nest("Math.max"),
        "min": _nest("Math.min"),
        "ceil": _call("Math.ceil"),
        "floor": _call("Math.floor"),
        "where": Form("{0} ? {1} : {2}", ANYTHING, (OR, OR, ANYTHING)),
    },
    _script_number,
    power=lambda order: _SCRIPT_ROOTS.get(order) or _CUBES.get(order),
    style=_SCRIPT_STYLE,
)
LANGUAGES = (TEXT, LATEX, PYTHON, SPREADSHEET, JAVASCRIPT)


# A graph as a program: statements of Python on floats, or of JavaScript.
#
# Subexpressions used once are inlined, others get names; loop invariants stand before the loop. Programs of the same
# structure share their code: constants are arguments of the function that makes them.

_DEEP = 24  # nested operations in one expression
_STATE = "{name}_{place}"  # one of the numbers that a loop replaces
_MOST_PROGRAMS = 256  # cached, one per structure
_TWICE = ("max", "min", "**")  # their forms may repeat an argument


class _Statements:
    """Statements of one language that compute the outputs."""

    def __init__(self, language: Language, outputs: Sequence[Any], names: dict[object, str], early: int = 0) -> None:
        self.language = language
        self.outputs = outputs
        self.names = names  # of nodes, by their keys
        self.lines: list[str] = []
        self._style = language.style or Style()
        self._early = early  # bits of the inputs that are known before the others
        self._nodes = nodes_of(outputs)
        self._bound = bound_bits(self._nodes)
        self._inline = self._used_once()
        self._of_branches = of_branches(self._nodes, outputs)
        self._written: set[object] = set()

    def write(self, margin: str) -> list[str]:
        """Statements for all outputs, each indented by `margin`."""
        self._block(self._nodes, 0, margin)
        return self.lines

    def write_early(self, margin: str) -> list[str]:
        """Statements for what depends on early inputs alone."""
        self._block([node for node in self._nodes if self._is_early(node)], 0, margin)
        lines, self.lines = self.lines, []
        return lines

    def _is_early(self, node: Node) -> bool:
        return not node.reach & ~self._early

    def text(self, value: Any) -> str:
        """A node's name, or its expression."""
        return text_of(value, self.language, lambda node: self.names.get(node.key))

    def _block(self, nodes: Iterable[Node], scope: int, margin: str, branch: Node | None = None) -> None:
        """Statements of the nodes that can be computed inside the loops whose bits are in `scope`, and a branch."""
        for node in nodes:
            if node.key in self._written or node.operation == INPUT or (node.reach & self._bound) & ~scope:
                continue
            if self._of_branches.get(node.key, branch) is not branch:
                continue
            if node.operation == LOOP:
                self._loop(node, scope, margin, branch)
            elif node.operation == CALL:
                self._call(node, margin)
            elif node.operation == RESULT:
                pattern = self._style.result if node.args[0].operation == CALL else _STATE
                self.names[node.key] = pattern.format(name=self._name(node.args[0]), place=int(node.args[1]))
            elif node.key not in self._inline:
                text = self.text(node)  # which has no name yet
                self._line(margin, f"{self._style.fixed}{self._name(node)} = {text}")
            else:
                continue
            self._written.add(node.key)

    def _call(self, node: Node, margin: str) -> None:
        function, name = node.args[0], self._name(node)
        results = ", ".join(self._style.result.format(name=name, place=place) for place in range(function.results))
        call = f"{function.name}({_arguments(node, self.language, lambda arg: self.names.get(arg.key))})"
        self._line(margin, self._style.fixed + self._style.results.format(results=results, name=name, call=call))

    def _loop(self, node: Node, scope: int, margin: str, branch: Node | None) -> None:
        """A loop; one of at most a single turn is a branch."""
        *start, begins, loop = node.args
        name, style, deeper = self._name(node), self._style, margin + "    "
        states = [_STATE.format(name=name, place=place) for place in range(len(start))]
        for state, value in zip(states, start, strict=True):
            self._line(margin, f"{style.changing}{state} = {self.text(value)}")
        self.names.update((bound.key, state) for bound, state in zip(loop.bound, states, strict=True))
        head = style.once if loop.most == 1 else style.turns if always(begins) else style.turns_if
        self.lines.append(margin + head.format(turn=f"turn{node.place}", most=loop.most, begins=self.text(begins)))
        self._block(turn_nodes(node), scope | bound_bits([node]), deeper, node if loop.most == 1 else branch)
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
                        is_outside = (part.reach ^ sum(bound.reach for bound in loop.bound)) & self._bound
                        if is_outside or self._is_early(part):
                            named.add(part.key)
            for arg in node.args:
                if isinstance(arg, Node):
                    uses[arg.key] = uses.get(arg.key, 0) + 1
                    is_earlier = self._is_early(arg) and not self._is_early(node)
                    if node.operation in _TWICE or is_earlier or (arg.reach ^ node.reach) & self._bound:
                        named.add(arg.key)
        for output in self.outputs:
            if isinstance(output, Node):
                uses[output.key] = uses.get(output.key, 0) + 1
        inline: set[object] = set()
        depth: dict[object, int] = {}
        for node in self._nodes:
            deep = 1 + max((depth.get(arg.key, 0) for arg in node.args if isinstance(arg, Node)), default=0)
            is_used_once = uses.get(node.key, 0) <= 1 and node.key not in named
            if is_used_once and deep < _DEEP and node.operation not in (INPUT, LOOP, CALL, RESULT):
                inline.add(node.key)
                depth[node.key] = deep
        return inline

    def _name(self, node: Node) -> str:
        return self.names.setdefault(node.key, f"t{node.place}")

    def _line(self, margin: str, statement: str) -> None:
        self.lines.append(f"{margin}{statement}{self._style.end}")


def python_program(outputs: Sequence[Any], inputs: Sequence[Node]) -> Callable[..., tuple[Any, ...]]:
    """A function of as many floats as `inputs` that returns all `outputs`; arithmetic errors raise as in Python.

    >>> from roofline.symbolic.graph import Graph
    >>> graph = Graph()
    >>> a, b = graph.input("a"), graph.input("b")
    >>> python_program([(a * a + b * b) ** 0.5], [a, b])(3.0, 4.0)
    (5.0,)
    """
    return python_maker(outputs, inputs)()


def python_maker(
    outputs: Sequence[Any], inputs: Sequence[Node], parameters: Sequence[Node] = ()
) -> Callable[..., Callable[..., tuple[Any, ...]]]:
    """A function of the functions that `called` lists and of the `parameters`, which returns a `python_program`.

    What depends on parameters alone is computed once.

    >>> from roofline.symbolic.graph import Graph
    >>> graph = Graph()
    >>> a, b = graph.input("a"), graph.input("b")
    >>> double = python_maker([a * b**2.0], [a], [b])(2.0**0.5)
    >>> round(double(3.0)[0], 12)
    6.0
    """
    nodes = nodes_of(outputs)
    key, constants = _structure(nodes, outputs, inputs, parameters)
    make = _PROGRAMS.get(key)
    if make is None:
        if len(_PROGRAMS) >= _MOST_PROGRAMS:
            _PROGRAMS.clear()
        make = _PROGRAMS[key] = _compiled(nodes, outputs, inputs, parameters, constants)
    return partial(make, *constants, math.cbrt, _ceil, _floor)


def called(nodes: Iterable[Node]) -> list[Function]:
    """Functions that nodes call, each once."""
    return list(dict.fromkeys(node.args[0] for node in nodes if node.operation == CALL))


def _structure(
    nodes: Sequence[Node], outputs: Sequence[Any], inputs: Sequence[Node], parameters: Sequence[Node]
) -> tuple[Any, dict[float, str]]:
    """Cache key of programs that share their code, and the names of the constants in which they differ."""
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
    used = (tuple(slots.get(node.key) for node in group) for group in (inputs, parameters))
    return (tuple(rows), tuple(map(part, outputs)), *used), constants


def _compiled(
    nodes: Sequence[Node],
    outputs: Sequence[Any],
    inputs: Sequence[Node],
    parameters: Sequence[Node],
    constants: dict[float, str],
) -> Callable[..., Any]:
    """The function that makes a program from its constants, the functions that it calls, and its parameters."""

    def number(value: Any) -> str:
        return constants.get(value) or PYTHON.number(value) if type(value) is float else PYTHON.number(value)

    names: dict[object, str] = {node.key: f"x{place}" for place, node in enumerate(inputs)}
    names |= {node.key: f"p{place}" for place, node in enumerate(parameters)}
    early = sum(node.reach for node in parameters)
    statements = _Statements(PYTHON._replace(number=number), outputs, names, early)
    first = statements.write_early("    ") if early else []
    lines = statements.write("        ")
    functions = (function.name for function in called(nodes))
    known = (*constants.values(), "cbrt", "ceil", "floor", *functions, *(names[node.key] for node in parameters))
    arguments = [names[node.key] for node in inputs]
    return compile_make(_make_source(known, arguments, lines, map(statements.text, outputs), first))


def _make_source(
    known: Iterable[str], inputs: Iterable[str], lines: Iterable[str], results: Iterable[str], first: Iterable[str] = ()
) -> str:
    """Source of the function that makes a program of statements, from what the program knows."""
    head = (f"def make({', '.join(known)}):", *first, f"    def run({', '.join(inputs)}):")
    return "\n".join((*head, *lines, f"        return {', '.join(results)},", "    return run"))


def javascript_source(
    name: str, outputs: Sequence[Any], inputs: Sequence[Node], parameters: Sequence[str] | None = None
) -> str:
    """Source of a JavaScript function that takes the inputs by their names and returns an array of the outputs.

    Args:
        name: of the function.
        outputs: numbers; a call stands for the array of its results.
        inputs: nodes whose names are those of the parameters.
        parameters: what it takes instead, where inputs are named as parts of them, such as ``e.hidden``.

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
    taken = [node.args[0] for node in inputs] if parameters is None else parameters
    head = f"function {name}({', '.join(taken)}) {{"
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
