"""The closed form of a result and of its derivatives, for one case."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, TypeAlias

from roofline.errors import BadInput
from roofline.formulas import formula_text
from roofline.formulas.case_trace import UNITS, CaseTrace
from roofline.formulas.formula import Definition, Stages
from roofline.formulas.inputs import Input
from roofline.number_types import Json
from roofline.quantity import rounded, to_text
from roofline.symbolic.traced import depends

if TYPE_CHECKING:
    import sympy


#: An expression of inputs and named parts.
Expression: TypeAlias = "sympy.Expr"


class Formula:
    """A number as an expression of inputs and named parts; each part is one of inputs and earlier parts.

    >>> import roofline as rl
    >>> formula = rl.formula("llama-3.1-8b", "h100-sxm", "tpot", basis="ideal")
    >>> formula
    <Formula tpot = 4.53 ms: 12 parts of 7 inputs; decode memory-bound>
    >>> "bandwidth" in formula.flat, "frac" in formula.to_latex(), "def " in formula.to_python()
    (True, True, True)
    >>> formula.to_dict()["unit"]
    's'
    """

    def __init__(
        self,
        name: str,
        value: float,
        unit: str,
        expression: Expression,
        stages: Stages,
        known: Mapping[str, Input],
        regime: str = "",
        *,
        title: str = "",
        is_implicit: bool = False,
        ends: Mapping[str, str] | None = None,
    ) -> None:
        self.name = name
        self.title = title  # of the case
        self.value = value
        self.unit = unit
        self.expression = expression  # sympy
        self.regime = regime
        self.is_implicit = is_implicit  # the result is one of the symbols, at whose value the expression is zero
        self.ends = dict(ends or {})  # of the regime, by input
        self.definitions: list[Definition] = stages.used(expression)
        self.inputs: dict[str, Input] = stages.symbols(known, expression)
        self._stages = stages

    def __repr__(self) -> str:
        value = to_text(self.value, self.unit) if self.unit == "s" else f"{rounded(self.value)} {self.unit}"
        parts = f"{len(self.definitions)} parts of {len(self.inputs)} inputs"
        return f"<Formula {self.name} = {value}: {parts}; {self.regime}>"

    @property
    def flat(self) -> str:
        """The whole formula in inputs alone, on one line; Python and `sympy.sympify` can read it."""
        return self._stages.flat(self.expression)

    def __str__(self) -> str:
        """For people: in symbols, in numbers, and the values of parts and symbols."""
        return formula_text.readable(self)

    def to_latex(self) -> str:
        """LaTeX, as an ``align*`` of amsmath."""
        return formula_text.latex(self)

    def to_python(self) -> str:
        """Source of a Python function of the symbols; run as a script, it prints the result."""
        return formula_text.python_source(self)

    def to_dict(self) -> dict[str, Json]:
        """The result, its formula, and the values of its symbols."""
        return {
            "result": self.name,
            "value": self.value,
            "unit": self.unit,
            "formula": self.flat,
            "is_implicit": self.is_implicit,
            "symbols": {name: entry.value for name, entry in self.inputs.items()},
            "regime": self.regime,
            "regime_ends": self.ends,
        }


class ClosedForms:
    """Formulas of the results of one case."""

    def __init__(self, case: CaseTrace) -> None:
        self.case = case
        self.stages = Stages()
        self._expressions: dict[str, Any] = {}
        for result, (name, passed) in zip(("ttft", "tpot"), case.passes("e2el"), strict=False):
            self.stages.name_kernels(passed, f"{name}_")
            number: Any = case.number(result)
            self.stages.name_result(result, number)
            self._expressions[result] = self.stages.definitions[self.stages.expression(number)].expression

    def expression(self, result: str) -> Any:
        """Expression of a result, of inputs and the named parts in `stages`."""
        expression = self._expressions.get(result)
        if expression is None:
            number = self.case.number(result)
            if number is None:
                raise BadInput(f"{result} needs at least two output tokens; osl is 1")
            expression = self._expressions[result] = self.stages.expression(number)
        return expression

    def formula(self, result: str) -> Formula:
        """Closed form of a result."""
        return Formula(
            result,
            getattr(self.case.prediction, result),
            UNITS[result],
            self.expression(result),
            self.stages,
            self.case.inputs,
            self.case.regime(result),
            title=self.case.title,
            ends={name: text for name in self.case.inputs if (text := self._end(result, name))},
        )

    def _end(self, result: str, name: str) -> str:
        """Where the regime ends along an input; empty where it does not."""
        if not depends(self.case.number(result), name):
            return ""
        change, label = self.case.margin(result, name)
        return "" if change is None else f"regime ends at {100.0 * change:+.3g} %: {label}"

    def derivative(self, result: str, name: str) -> Any:
        return self.stages.derivative(self.expression(result), name)

    def derivative_text(self, result: str, name: str) -> str:
        """The derivative in inputs alone, on one line."""
        return self.stages.flat(self.derivative(result, name))

    def solved(self, result: str, name: str, target: float) -> Formula | None:
        """Closed form of the input at which a result [s] meets a target in this regime; None where there is none."""
        solution = self.stages.solved_for(self.expression(result), name, target, self.case.inputs[name].value)
        if solution is None:
            return None
        expression, _ = solution
        value = self.stages.evaluated(self.stages.flat(expression), {"target": target})
        known = {
            **self.case.inputs,
            "target": Input("target", "target", UNITS[result], target, f"target of {result}"),
        }
        unit, regime = self.case.inputs[name].unit, self.case.regime(result)
        return Formula(name, value, unit, expression, self.stages, known, regime, title=self.case.title)
