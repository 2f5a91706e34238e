"""How each language writes an operation: one table of precedence and forms, with the differences of each language.

Precedence decides where brackets are needed, so that the text computes in the same order.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from itertools import zip_longest
from typing import Any

from roofline.errors import BadInput
from roofline.records import NamedTuple
from roofline.symbolic.graph import INPUT, LOOP, OF_LOOP, Node

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


class Language(NamedTuple):
    name: str
    forms: Mapping[str, Form]
    number: Callable[[float], str]
    symbol: Callable[[str], str] = str
    power: Callable[[float], Form | None] = lambda _: None  # special form for powers of some orders
    quoted: Callable[[str], str] = lambda text: f'"{text}"'

    def form(self, node: Node) -> Form:
        order = node.args[1] if node.operation == "**" else None
        special = self.power(order) if isinstance(order, (float, int)) else None
        form = self.forms.get(node.operation) if special is None else special
        if form is None:
            raise BadInput(f"{self.name} has no formula for {_NAMES.get(node.operation, node.operation)}")
        return form


_NAMES = {LOOP: "an iteration", OF_LOOP: "an iteration (a fixed point or a search)"}


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
    form = language.form(value)
    parts = []
    for arg, least in zip_longest(
        _flattened(value, name) if form.joint else value.args, form.levels, fillvalue=ANYTHING
    ):
        text, level = _text(arg, language, name)
        parts.append(text if level >= least else f"({text})")
    return form.pattern.format(*([form.joint.join(parts)] if form.joint else parts)), form.level


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
    """Cubes and cube roots as `ops.norm` computes them; other powers as Python does."""
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
    return repr(float(value)) if math.isfinite(value) else f"{'-' if value < 0 else ''}Infinity"


_THIRD = 1.0 / 3.0
_WHOLE = 2.0**50
_CUBES = {3.0: Form("{0} * {0} * {0}", PRODUCT, (ATOM,))}

#: For people; Python can read it.
TEXT = Language("text", {**_COMMON, "ceil": _call("ceiling")}, _short)
#: Statements on floats; `symbolic/program.py` defines `cbrt`, `ceil` and `floor`.
PYTHON = Language(
    "Python",
    {
        **_COMMON,
        "max": Form("{0} if {0} >= {1} else {1}", ANYTHING, (ATOM, ATOM)),
        "min": Form("{0} if {0} <= {1} else {1}", ANYTHING, (ATOM, ATOM)),
    },
    _python_number,
    power=_python_power,
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
    power=lambda order: _call("Math.sqrt") if order == 0.5 else _CUBES.get(order),
)
LANGUAGES = (TEXT, LATEX, PYTHON, SPREADSHEET, JAVASCRIPT)
