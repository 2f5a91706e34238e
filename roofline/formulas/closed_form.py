"""The closed form of an answer and of its derivatives, for one case."""

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

__all__ = ["ClosedForms", "Expression", "Formula"]

#: An expression of inputs and of the named parts of a formula.
Expression: TypeAlias = "sympy.Expr"


class Formula:
    """A number as an expression of inputs, in stages: parts by name, each of inputs and of earlier parts.

    >>> import roofline as rl
    >>> found = rl.formula("llama-3.1-8b", "h100-sxm", "tpot", basis="ideal")
    >>> found
    <Formula tpot = 4.53 ms: 12 parts of 7 inputs; decode memory-bound>
    >>> "bandwidth" in found.flat, "frac" in found.to_latex(), "def " in found.to_python()
    (True, True, True)
    >>> found.to_dict()["unit"]
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
        self.is_implicit = is_implicit  # the expression is zero at the result, which is one of its symbols
        self.ends = dict(ends or {})  # of the regime, by input [text]
        self.definitions: list[Definition] = stages.used(expression)
        self.inputs: dict[str, Input] = stages.symbols(known, expression)
        self._stages = stages

    def __repr__(self) -> str:
        """The value, and of what it is made, in one line."""
        made = f"{len(self.definitions)} parts of {len(self.inputs)} inputs"
        value = to_text(self.value, self.unit) if self.unit == "s" else f"{rounded(self.value)} {self.unit}"
        return f"<Formula {self.name} = {value}: {made}; {self.regime}>"

    @property
    def flat(self) -> str:
        """The whole formula in inputs alone, on one line, read by Python and by `sympy.sympify` [text]."""
        return self._stages.flat(self.expression)

    def __str__(self) -> str:
        """For people: symbolic, with numbers, and the values of its parts and symbols."""
        return formula_text.readable(self)

    def to_latex(self) -> str:
        """LaTeX, an ``align*`` of amsmath [text]."""
        return formula_text.latex(self)

    def to_python(self) -> str:
        """Source of a Python function of the symbols; run, it prints the result [text]."""
        return formula_text.python_source(self)

    def to_dict(self) -> dict[str, Json]:
        """Result, its formula, and the values of its symbols."""
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
        """Expression of a result, of inputs and of the named parts in `stages`.

        Args:
            result: one of ttft, tpot, e2el, output_tok_s_gpu, output_tok_s, tok_s_user [text].

        Returns:
            The expression.

        Raises:
            BadInput: the result does not apply.
        """
        found = self._expressions.get(result)
        if found is None:
            number = self.case.number(result)
            if number is None:
                raise BadInput(f"{result} needs at least two output tokens; osl is 1")
            found = self._expressions[result] = self.stages.expression(number)
        return found

    def formula(self, result: str) -> Formula:
        """Closed form of a result.

        Args:
            result: one of ttft, tpot, e2el, output_tok_s_gpu, output_tok_s, tok_s_user [text].

        Returns:
            The formula.

        Raises:
            BadInput: the result does not apply.
        """
        expression = self.expression(result)
        value = getattr(self.case.prediction, result)
        return Formula(
            result,
            value,
            UNITS[result],
            expression,
            self.stages,
            self.case.inputs,
            self.case.regime(result),
            title=self.case.title,
            ends={name: text for name in self.case.inputs if (text := self._end(result, name))},
        )

    def _end(self, result: str, name: str) -> str:
        """Where the regime ends along an input."""
        if not depends(self.case.number(result), name):
            return ""
        change, label = self.case.margin(result, name)
        return "" if change is None else f"regime ends at {100.0 * change:+.3g} %: {label}"

    def derivative(self, result: str, name: str) -> Any:
        """Expression of the derivative of a result to an input.

        Args:
            result: name of the result [text].
            name: of the input [text].

        Returns:
            The expression, of inputs and of the named parts in `stages`.
        """
        return self.stages.derivative(self.expression(result), name)

    def derivative_text(self, result: str, name: str) -> str:
        """The derivative in inputs alone, on one line.

        Args:
            result: name of the result [text].
            name: of the input [text].

        Returns:
            The text [text].
        """
        return self.stages.flat(self.derivative(result, name))

    def solved(self, result: str, name: str, target: float) -> Formula | None:
        """Closed form of the value of an input at which a result meets a target, in the present regime.

        Args:
            result: name of the result [text].
            name: of the input [text].
            target: of the result [s].

        Returns:
            The formula, with the target as the symbol ``target``; None where the result is no quadratic or simpler
            function of the input or of its inverse.
        """
        found = self.stages.solved_for(self.expression(result), name, target, self.case.inputs[name].value)
        if found is None:
            return None
        expression, _ = found
        value = self.stages.evaluated(self.stages.flat(expression), {"target": target})
        known = {
            **self.case.inputs,
            "target": Input("target", "target", UNITS[result], target, f"target of {result}"),
        }
        unit, regime = self.case.inputs[name].unit, self.case.regime(result)
        return Formula(name, value, unit, expression, self.stages, known, regime, title=self.case.title)
