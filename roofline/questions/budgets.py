"""Latencies along a setting of the engine: the token budget of a step, or the most sequences that run at once."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Unpack, cast, overload

from roofline.numbers.operations import Json
from roofline.numbers.quantity import KIBI, MILLI, percent_figure, to_text
from roofline.questions.inputs.arguments import plain_options, scalar, several, single_numbers, slo_limits, without
from roofline.questions.inputs.case import engine
from roofline.questions.inputs.deployment import choice, gpu_of
from roofline.questions.inputs.options import OPTIONS, SPELLINGS, understood
from roofline.questions.predict import DEFAULT_ENGINE, answer_row, asked_case, given_gpu, predict, refused_row
from roofline.serving.answers import Answer, Answers
from roofline.serving.prediction import Prediction
from roofline.serving.row_types import BudgetRow
from roofline.serving.verdict import FAIL, LIKELY, PASS, UNLIKELY
from roofline.specs.gpu import Gpu
from roofline.specs.keys import SHARED, Key, Keys, cells
from roofline.specs.load import LASTING
from roofline.specs.model import Model
from roofline.specs.workload import key_text
from roofline.specs.written import Pool, wholes_of_text
from roofline.support.errors import BadInput, RooflineError, shown
from roofline.support.progress import each
from roofline.support.records import dataclass, field, replace

if TYPE_CHECKING:
    from roofline.questions.inputs.signatures import Case

#: Settings along which latencies are asked for.
SETTINGS = ("max_num_batched_tokens", "max_num_seqs")
#: Values of each where none are given: token budgets; sequences.
_LADDERS: Mapping[str, tuple[int, ...]] = {
    "max_num_batched_tokens": (KIBI // 2, KIBI, 2 * KIBI, 4 * KIBI, 8 * KIBI, 16 * KIBI, 32 * KIBI),
    "max_num_seqs": (8, 16, 32, 64, 128, 256, 512, KIBI),
}
_MOST = 2.0**53  # of a value
_SAME = 0.005  # relative difference of two worst shares of limits that decides nothing
_WORTH = 0.01  # least relative change that is told
_MEANS = ("ttft", "tpot")
_FIGURES = {"ttft_p99": "TTFT p99", "tpot_p99": "TPOT p99", "itl_p99": "ITL p99", "ttft": "TTFT", "tpot": "TPOT"}


@overload
def budgets(model: Prediction, *, over: str, values: float | Iterable[float] | str | None = None) -> Budgets: ...
@overload
def budgets(
    model: str | Model,
    gpu: str | Gpu,
    *,
    over: str,
    values: float | Iterable[float] | str | None = None,
    **options: Unpack[Case],
) -> Budgets: ...
@understood
def budgets(
    model: str | Model | Prediction,
    gpu: str | Gpu | None = None,
    *,
    over: str,
    values: float | Iterable[float] | str | None = None,
    **options: Unpack[Case],
) -> Budgets:
    """Latencies of a case under a load at several values of an engine setting, and the best value for its SLO.

    A smaller token budget cuts long prompts into more chunks: gaps between tokens become shorter, and the first token
    comes later. Fewer sequences at once make steps faster, and requests wait.

    Args:
        model: name, alias or record; or a prediction under a load, in place of GPU and options: it keeps its plan.
        gpu: name, alias, pool such as ``8xh100`` or ``b200:tp4:fp8``, or record.
        over: ``max_num_batched_tokens`` [tokens] or ``max_num_seqs`` [sequences].
        values: one or several values of the setting, or a text such as ``2k,4k,8k``; None for powers of two and the
            engine's default [as `over`].
        options: keyword arguments of `predict` with `concurrency` or `request_rate`; lengths and load are single
            numbers.

    Returns:
        A row for each value; where one has no answer, the reason.

    Raises:
        BadInput: another setting, no load, or as `predict` raises.
        RooflineError: the case has no answer with any value.

    Valid:
        As `predict` is: inside the domain of the closed forms of a load.

    >>> import roofline as rl
    >>> rl.budgets("llama-3.1-8b", "h100-sxm", over="max_num_seqs", values="16,64", concurrency=64, basis="ideal")
    [<Budget 16: TTFT 2.63e+03 ms, TPOT 6.7 ms>, <Budget 64: TTFT 28 ms, TPOT 14.4 ms>]
    """
    setting = scalar(over)
    setting = SPELLINGS.get(str(setting).strip().lstrip("-").replace("-", "_"), setting)
    if setting not in SETTINGS:
        raise BadInput(f"over = {shown(over)} must be {' or '.join(SETTINGS)}")
    asked = asked_case("budgets", model, gpu, options)
    plain = {
        name: value for name, value in plain_options(without("budgets", asked.options)).items() if value is not None
    }
    if not LASTING.keys() & set(plain):
        raise BadInput("budgets need a load: give `request_rate` or `concurrency`")
    single_numbers("budgets", plain, ("isl", "osl", "prefix", *LASTING))
    case = {name: value for name, value in plain.items() if name != setting}
    limits = slo_limits(case.get("slo"))
    if limits is not None:
        case["slo"] = limits
    where = given_gpu("budgets", asked.gpu)
    usual = default_of(where, setting, case)
    if choice(where, case).options.get("tp") is None:
        with suppress(RooflineError):  # where the default has no answer, each value has a plan of its own
            case["tp"] = predict(asked.model, where, **case).deployment.plan.tp
    rows = [
        _row(asked.model, where, setting, value, usual, case)
        for value in each(_values(setting, values, usual), "values")
    ]
    answered = [row for row in rows if row.prediction is not None]
    if not answered:
        raise rows[0].error or BadInput("no value has an answer")
    best = _best(answered) if limits else None
    return Budgets(replace(row, is_best=row is best) for row in rows)


def default_of(gpu: Any, setting: str, case: Mapping[str, Any]) -> float | None:
    """The engine's default of a setting on a GPU; None where it has none."""
    chosen = choice(gpu, case)
    name = gpu_of(chosen.gpu.gpu if isinstance(chosen.gpu, Pool) else chosen.gpu, case.get("specs"))
    profile = engine(str(case.get("engine", DEFAULT_ENGINE)), 0.0, case.get("specs"), name)
    value: float | None = getattr(profile, setting)
    return None if value is None else float(value)


def _values(setting: str, values: Any, usual: float | None) -> list[float]:
    """The values of the rows, in order."""
    if values is None:
        return sorted({*map(float, _LADDERS[setting]), *([] if usual is None else [usual])})
    listed = wholes_of_text(values) if isinstance(values, str) else several("values", values)
    for value in listed:
        if type(value) not in (float, int) or not abs(value) <= _MOST:
            raise BadInput(f"values = {shown(values)}: {shown(value)} must be a number, as a value of {setting}")
    return sorted(dict.fromkeys(map(float, listed)))


def _row(
    model: str | Model, gpu: Any, setting: str, value: float, usual: float | None, case: Mapping[str, Any]
) -> Budget:
    """The case with one value."""
    options: dict[str, Any] = {**case, setting: int(value) if value == int(value) else value}
    try:
        return Budget(setting, value, predict(model, gpu, **options), is_default=value == usual)
    except RooflineError as error:
        row = refused_row(model, gpu, error, **options)
        return Budget(setting, value, is_default=value == usual, reason=str(error), asked=row, error=error)


def _best(rows: list[Budget]) -> Budget:
    """Of those that pass, the shortest E2EL; without one, the smallest worst share of a limit; the default if alike.

    Where every value passes, its limit no longer tells two apart, and one that is not limited could grow without end.
    """
    order = {PASS: 0, LIKELY: 1, UNLIKELY: 2, FAIL: 2}
    first = min(order.get(row.verdict or "", len(order)) for row in rows)
    alike = [row for row in rows if order.get(row.verdict or "", len(order)) == first]
    weighed = [(_e2el(row) if first == order[PASS] else row.excess, row) for row in alike]
    least = min(weight for weight, _ in weighed)
    near = [row for weight, row in weighed if weight <= least * (1.0 + _SAME)]
    return next((row for row in near if row.is_default), near[-1])


def _e2el(row: Budget) -> float:
    return float("inf") if row.prediction is None else float(row.prediction.e2el)


#: Keys of a row in addition to those of a prediction.
BUDGET_KEYS: Keys[Budget] = {
    "setting": Key.text("Setting of the engine that varies.", is_open=False),
    "setting_value": Key.number("as `setting`", "Its value in this row.", lambda row: row.value, is_open=False),
    "is_default": Key.flag("Whether it is the default of the engine on this GPU."),
    "is_best_value": Key.flag(
        "Whether it is the best for the SLO: of the values that pass the one with the shortest E2EL; where none does, "
        "the one whose worst latency is the smallest share of its limit; false without an SLO.",
        lambda row: row.is_best,
    ),
    "reason": SHARED["reason"],
}


@dataclass(frozen=True, repr=False)
class Budget(Answer[BudgetRow]):
    """One case at one value of an engine setting.

    >>> import roofline as rl
    >>> case = {"over": "max_num_batched_tokens", "request_rate": 4, "engine": "vllm"}
    >>> first, *rest = rl.budgets("llama-3.1-8b", "h100-sxm", **case)
    >>> first.value, first.setting, [one.value for one in rest if one.is_default]
    (512.0, 'max_num_batched_tokens', [8192.0])
    >>> first.to_dict(["setting_value", "is_default"])
    {'setting_value': 512.0, 'is_default': False}
    """

    setting: str
    value: float
    prediction: Prediction | None = field(default=None, repr=False)
    is_default: bool = False
    is_best: bool = False
    reason: str | None = None  # why there is no answer
    asked: Mapping[str, Json] = field(default_factory=dict, repr=False)
    error: RooflineError | None = field(default=None, repr=False)  # of `reason`

    @property
    def verdict(self) -> str | None:
        """Verdict on the SLO; None without one, or where it is not known."""
        judged = None if self.prediction is None else self.prediction.slo_verdict
        return None if judged is None else judged.text

    @property
    def excess(self) -> float:
        """The worst latency over its limit; infinite where there is no answer, or no limit [1]."""
        shares = {} if self.prediction is None else self.prediction.slo_shares
        return max((float(share) for share in shares.values()), default=float("inf"))

    def __str__(self) -> str:
        if self.prediction is None:
            return f"{self.value:g}: {self.reason}"
        row = self.prediction.to_dict(["ttft_ms", "tpot_ms"])
        return f"{self.value:g}: TTFT {row['ttft_ms']:.3g} ms, TPOT {row['tpot_ms']:.3g} ms"

    def __repr__(self) -> str:
        return f"<Budget {self}>"

    def to_dict(self, keys: Iterable[str] | None = None) -> BudgetRow:
        """Flat row of the JSON contract: the prediction with this value, and the value itself."""
        return cast("BudgetRow", answer_row(keys, BUDGET_KEYS, self.prediction, self.asked, cells(BUDGET_KEYS, self)))


class Budgets(Answers[Budget, BudgetRow]):
    """One case at several values of an engine setting.

    >>> import roofline as rl
    >>> case = {"over": "max_num_seqs", "concurrency": 16, "engine": "vllm", "slo": "tpot:40"}
    >>> result = rl.budgets("llama-3.1-8b", "h100-sxm", **case)
    >>> result.best.value, result.default.value
    (1024.0, 1024.0)
    >>> len(result.to_dict()["rows"]) == len(result.to_rows())
    True
    """

    @property
    def best(self) -> Budget | None:
        """The best value for the SLO; None without an SLO, or where none has an answer."""
        return next((row for row in self if row.is_best), None)

    @property
    def default(self) -> Budget | None:
        """The engine's default; None where it has none."""
        return next((row for row in self if row.is_default), None)

    @property
    def why(self) -> str:
        """What the best value gains over the default, and what it costs the other side."""
        best, usual = self.best, self.default
        if best is None or best.prediction is None:
            return self._ends()
        is_usual = ", the engine's default" if usual is best else ""
        head = f"best: {flag_of(best.setting)} {best.value:g}{is_usual} ({best.verdict}{_binding_text(best)})"
        if usual is None or usual.prediction is None or usual is best:
            return head
        changes = _changes(usual.prediction, best.prediction)
        gains = [text for text, change in changes if change < 0.0]
        costs = [text for text, change in changes if change > 0.0]
        against = f"against the default {usual.value:g}"
        told = ", ".join(gains) or "nothing changes by 1 %"
        return f"{head}; {against}: {told}{'; it costs ' + ', '.join(costs) if costs else ''}"

    def _ends(self) -> str:
        """What the largest value gains over the smallest, and what it costs, where no SLO chooses."""
        first, *rest = [row for row in self if row.prediction is not None]
        if not rest or first.prediction is None or rest[-1].prediction is None:
            return str(first)
        changes = [text for text, _ in _changes(first.prediction, rest[-1].prediction)]
        told = ", ".join(changes) or "no latency changes by 1 %"
        return f"from {first.value:g} to {rest[-1].value:g}: {told}; with an SLO the best is chosen"


def flag_of(setting: str) -> str:
    """The setting as the shell spells it."""
    return OPTIONS[setting].flags[0]


def _binding_text(row: Budget) -> str:
    shares = {} if row.prediction is None else row.prediction.slo_shares
    key = max(shares, key=lambda name: float(shares[name]), default=None)
    return "" if key is None else f": {key_text(key)} at {percent_figure(float(shares[key]))} % of its limit"


def _changes(before: Prediction, after: Prediction) -> list[tuple[str, float]]:
    """Relative changes of latencies by one per cent or more, as texts."""
    keys = [f"{name}_ms" for name in _FIGURES]
    old: Mapping[str, Any] = before.to_dict(keys)
    new: Mapping[str, Any] = after.to_dict(keys)
    changes = []
    for name, label in _FIGURES.items():
        first, second = old[f"{name}_ms"], new[f"{name}_ms"]
        is_told = name in _MEANS and old[f"{name}_p99_ms"] is not None  # by its p99
        if not first or second is None or is_told:
            continue
        change = second / first - 1.0
        if abs(change) >= _WORTH:
            changes.append((f"{label} {100.0 * change:+.0f} % to {to_text(second * MILLI, 's')}", change))
    return changes
