"""Elasticities and derivatives of every result with respect to every quantity it depends on."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, overload

from roofline.formulas.case import NO_FORMULA, RESULTS, CaseTrace, check_results
from roofline.numbers.operations import Json, plain
from roofline.serving.answers import Answer, selected, selected_rows
from roofline.serving.prediction import Prediction
from roofline.specs.gpu import KINDS as KERNEL_KINDS
from roofline.specs.keys import SHARED, Key, Keys, cells, taken
from roofline.support.errors import BadInput, printable
from roofline.support.records import dataclass, field

if TYPE_CHECKING:
    from roofline.formulas.closed import ClosedForms, Expression


_PERCENT = 100.0
_PHASES = ("prefill", "decode")
_NOTHING = 2.0**-44  # elasticities below are rounding errors


#: Keys of a row.
SENSITIVITY_KEYS: Keys[Sensitivity] = {
    "result": SHARED["result"],
    "input": Key.text("Input that moves it.", is_open=False),
    **taken(SHARED, kind=None, value=None),
    "elasticity": Key.number("1", "% change of the result per 1 % change of the input."),
    "derivative": Key.number("result per input, SI", "Derivative of the result to the input."),
    **taken(SHARED, formula=None, regime=None),
    "margin": Key.number("1", "Relative change of the input at which the regime ends."),
    "unit": SHARED["unit"],
    "meaning": Key.text("What the input is."),
    "elasticity_below": Key.number("1", "The same for a smaller input."),
    "elasticity_above": Key.number("1", "The same for a larger input."),
}


@dataclass(frozen=True, repr=False)
class Sensitivity(Answer[dict[str, Json]]):
    """How one result changes with one input.

    >>> import roofline as rl
    >>> row = rl.sensitivity("llama-3.1-8b", "h100-sxm", of="tpot", basis="ideal")[0]
    >>> row
    <Sensitivity of tpot to bandwidth: -1 % per +1 %>
    >>> row.to_dict()["kind"]
    'rate'
    """

    result: str
    input: str
    kind: str  # rate, latency, efficiency, workload, quantization or plan
    unit: str  # of the input
    meaning: str  # of the input
    value: float  # of the input, SI
    elasticity: float  # d ln(result) / d ln(input)
    derivative: float  # d result / d input, SI
    regime: str  # in which the derivative holds
    margin: float | None  # [% of the input] to the nearest change of regime, signed; None where there is none near
    elasticity_below: float  # just below the value; differs from that above only at a tie
    elasticity_above: float
    _forms: Sensitivities = field(repr=False, compare=False)

    def __repr__(self) -> str:
        return f"<Sensitivity of {self.result} to {self.input}: {self.elasticity:+.3g} % per +1 %>"

    @property
    def words(self) -> str:
        """The input in words, such as ``linear layers bf16: share of the HBM bandwidth``."""
        said, _, of = self.meaning.rpartition(", ")
        dtype, _, name = of.rpartition(" ")
        if not said or name not in KERNEL_KINDS:
            return self.meaning
        label = KERNEL_KINDS[name].label
        phase = name.rpartition("_")[2]
        return f"{' '.join([label, *([phase] if phase in _PHASES else []), *([dtype] if dtype else [])])}: {said}"

    @property
    def formula(self) -> str | None:
        """The derivative as Python text that `sympy.sympify` reads too; None under a load."""
        if self._forms.prediction.served is not None:
            return None
        return self._forms.closed.derivative_text(self.result, self.input) if self.derivative else "0"

    @property
    def expression(self) -> Expression:
        """The derivative as a sympy expression of inputs and named parts of `Sensitivities.closed`."""
        return self._forms.closed.derivative(self.result, self.input)

    def to_dict(self, keys: Iterable[str] | None = None) -> dict[str, Json]:
        """Flat row of the JSON contract.

        Args:
            keys: the keys to keep; None for all.
        """
        return cells(selected(SENSITIVITY_KEYS, keys), self)


class Sensitivities(Sequence[Sensitivity], Answer[dict[str, Json]]):
    """Rows of every result, each with its most important input first.

    >>> import roofline as rl
    >>> result = rl.sensitivity("llama-3.1-8b", "h100-sxm", of="tpot", basis="ideal")
    >>> result.what_to_buy["tpot"]
    <Sensitivity of tpot to bandwidth: -1 % per +1 %>
    >>> len(result.to_records()) == len(result.to_dict()["rows"]) == len(result)
    True
    """

    def __init__(self, case: CaseTrace, of: tuple[str, ...]) -> None:
        self.case = case
        self.prediction = case.prediction
        self.of = of
        self._rows = tuple(row for result in of for row in self._sorted(result))

    @overload
    def __getitem__(self, index: int) -> Sensitivity: ...
    @overload
    def __getitem__(self, index: slice) -> tuple[Sensitivity, ...]: ...
    def __getitem__(self, index: int | slice) -> Sensitivity | tuple[Sensitivity, ...]:
        return self._rows[index]

    def __len__(self) -> int:
        return len(self._rows)

    def __iter__(self) -> Iterator[Sensitivity]:
        return iter(self._rows)

    def __str__(self) -> str:
        """One line per row: result, input, elasticity."""
        width = max((len(row.input) for row in self), default=0)
        return "\n".join(f"{row.result} to {row.input.ljust(width)}  {row.elasticity:+.4f}" for row in self)

    def __repr__(self) -> str:
        first = {row.result: row for row in reversed(self)}
        largest = ", ".join(f"{name} to {row.input} {row.elasticity:+.3g}" for name, row in reversed(first.items()))
        return f"<Sensitivities, {len(self)} rows; largest: {largest}>"

    @cached_property
    def closed(self) -> ClosedForms:
        """Closed forms of the rows (imports sympy).

        Raises:
            BadInput: under a load, whose answer is a fixed point.
        """
        if self.prediction.served is not None:
            raise BadInput(NO_FORMULA)
        from roofline.formulas.closed import ClosedForms

        return ClosedForms(self.case)

    @property
    def what_to_buy(self) -> dict[str, Sensitivity]:
        """The hardware rate that moves each result most, by result."""
        largest: dict[str, Sensitivity] = {}
        for row in self:
            if row.kind == "rate":
                largest.setdefault(row.result, row)
        return largest

    def to_dict(self, keys: Iterable[str] | None = None) -> dict[str, Json]:
        """The case, its results at the present inputs [s, 1/s], and the rows.

        Args:
            keys: the keys to keep; None for all.
        """
        deployment = self.prediction.deployment
        return {
            "case": self.case.title,
            "model": deployment.model.short_name,
            "gpu": deployment.gpu.name,
            "results": {result: getattr(self.prediction, result) for result in self.of},
            "rows": selected_rows((row.to_dict() for row in self), keys),
        }

    def _sorted(self, result: str) -> list[Sensitivity]:
        number = self.case.number(result)
        if number is None:
            return []
        rows = [self._row(result, name, plain(number), slope) for name, slope in self.case.gradient(result).items()]
        return sorted(rows, key=lambda row: (-abs(row.elasticity), row.input))

    def _row(self, result: str, name: str, value: float, slope: float) -> Sensitivity:
        entry = self.case.inputs[name]
        elasticity = slope * entry.value / value if entry.value else 0.0
        if entry.value and abs(elasticity) < _NOTHING:  # rounding: the result does not move
            elasticity = slope = 0.0
        change, label = self.case.margin(result, name)
        below = above = elasticity
        if self.case.is_tie(result, name) and entry.value:
            sides = self.case.beside(result, name)
            below, above = (elasticity if side is None else side for side in sides)
            change = 0.0
        regime = self.case.regime(result)
        return Sensitivity(
            result=result,
            input=name,
            kind=entry.kind,
            unit=entry.unit,
            meaning=entry.meaning,
            value=entry.value,
            elasticity=elasticity,
            derivative=slope,
            regime=f"{regime} until {label}" if label else regime,
            margin=None if change is None else _PERCENT * change,
            elasticity_below=below,
            elasticity_above=above,
            _forms=self,
        )


def sensitivities(prediction: Prediction, of: Sequence[str] = RESULTS) -> Sensitivities:
    r"""Elasticities and derivatives of results with respect to every quantity they depend on.

    .. math:: e = \frac{\partial \ln y}{\partial \ln x} = \frac{x}{y} \frac{\partial y}{\partial x}

    The elasticities over rates minus those over latencies sum to -1 for a time, +1 for a throughput.

    Args:
        prediction: a single case.
        of: results: ttft, tpot, e2el, output_tok_s_gpu, output_tok_s, tok_s_user.

    Returns:
        The rows, exact to rounding (automatic differentiation of the prediction).

    Raises:
        UnknownName: no such result.
        BadInput: isl, osl, batch or prefix is an array, or no result applies.

    Valid:
        In the stated regime: the larger side of a maximum stays larger, rounded-up values stay constant. Steps
        finer than 1 % do not count as changes of regime.

    Source:
        The chain rule, backward (Linnainmaa, BIT 16(2), 1976).
    """
    rows = Sensitivities(CaseTrace(prediction), check_results(of))
    if not rows:
        raise BadInput("tpot needs at least two output tokens; osl is 1: ask for ttft, or raise `osl`")
    return rows


# Derivatives of results as text for people and as LaTeX.


def text_of_derivatives(sensitivities: Sensitivities, rows: Sequence[Sensitivity]) -> str:
    """Derivatives of results, followed by the expressions that they share."""
    from roofline.formulas.closed import equation_lines, parts_lines

    lines = [printable(sensitivities.case.title), ""]
    stages, expressions = sensitivities.closed.stages, [row.expression for row in rows]
    for row, expression in zip(rows, expressions, strict=True):
        lines += [*equation_lines(f"d {row.result} / d {row.input}", expression), f"  = {row.derivative!r}"]
    symbols = stages.symbols(sensitivities.case.inputs, *expressions)
    return "\n".join([*lines, *parts_lines(stages.used(*expressions), symbols)])


def latex_of_derivatives(sensitivities: Sensitivities, rows: Sequence[Sensitivity]) -> str:
    """The same as an ``align*`` environment of amsmath."""
    from roofline.formulas.closed import derivative_tex, equations_latex

    stages, expressions = sensitivities.closed.stages, [row.expression for row in rows]
    lefts = [derivative_tex(row.result, row.input) for row in rows]
    symbols = stages.symbols(sensitivities.case.inputs, *expressions)
    return equations_latex(zip(lefts, expressions, strict=True), stages.used(*expressions), symbols)
