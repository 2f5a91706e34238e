"""Many cases as one flat table: every combination of the values given."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from itertools import product
from math import prod
from typing import TYPE_CHECKING, Any, Unpack, cast

from roofline.numbers.quantity import BILLION, KIBI, MEGA, rounded
from roofline.questions import catalog
from roofline.questions.inputs import arguments, case, deployment, load
from roofline.questions.inputs.arguments import all_values, listed_names, plain_value, slo_limits
from roofline.questions.inputs.case import LENGTHS
from roofline.questions.inputs.options import ALL, understood
from roofline.questions.predict import DEFAULTS, predict, refused_row
from roofline.serving.answers import Answers, check_keys, listed_keys
from roofline.serving.knee import check_count
from roofline.serving.latency import Lengths
from roofline.serving.mixed_plans import MixedPlans
from roofline.serving.prediction import Prediction
from roofline.serving.row_types import Row
from roofline.serving.shown import ROW_KEYS
from roofline.serving.shown import row as row_of
from roofline.specs.gpu import Gpu
from roofline.specs.load import RUN, stated
from roofline.specs.model import Model
from roofline.specs.workload import LAWS
from roofline.specs.written import PromptShare
from roofline.support.errors import BadInput, DoesNotFit, NoSteadyState, Overloaded, RooflineError, UnknownName, shown
from roofline.support.progress import each

if TYPE_CHECKING:
    from roofline.questions.inputs.signatures import Grid


_BLOCK = 16 * KIBI  # cases predicted together: temporaries stay in the CPU cache
_MOST_ROWS = int(2 * MEGA)
_DEGREES = ("tp", "pp", "ep", "dp", "num_gpus")
_WHOLE = ("isl", "osl", "batch", "concurrency", "prefix", "memory_knee", "slo_knee")


@understood
def table(
    models: str | Model | Sequence[str | Model],
    gpus: str | Gpu | Sequence[str | Gpu] | None = None,
    *,
    keys: Sequence[str] | None = None,
    **options: Unpack[Grid],
) -> Answers[Row, Row]:
    """Predictions of every combination as flat rows for pandas, polars or DuckDB.

    Without `tp`, every case runs at the one that `predict` chooses for it.

    Args:
        models: one name, alias or record, or several.
        gpus: one name, alias or record, or several; None for the whole catalog.
        keys: keys of the JSON contract; None for all.
        options: keyword arguments of `predict`; each may be a list or an array, of which every value is tried.

    Returns:
        Rows in the order of models, GPUs, options and lengths, the last changing fastest. `reason` says why a case
        does not fit or cannot be run; else it is None.

    Raises:
        UnknownName: no such model, GPU, key or format.
        BadInput: more than two million rows, an empty list, a set, nested lists, or impossible numbers.

    >>> import roofline as rl
    >>> rl.table("llama-3.1-8b", "h100-sxm", isl=[1000, 2000], keys=["isl", "fits"])
    [{'isl': 1000, 'fits': True, 'reason': None}, {'isl': 2000, 'fits': True, 'reason': None}]
    """
    plain: dict[str, Any] = dict(options)
    columns = ROW_KEYS if keys is None else listed_keys(keys)
    row_keys = tuple(key for key in columns if not (isinstance(key, str) and key == "reason"))  # every row has one
    check_keys(row_keys, ROW_KEYS)
    (specs,) = arguments.scalars(specs=plain.get("specs"))
    model_names = listed_names("models", models)
    gpu_names = listed_names("gpus", catalog.gpus(specs) if gpus is None else gpus)
    plain = _with_trace(plain)
    names = _length_names(plain)
    lengths = [all_values(name, plain.get(name, DEFAULTS.get(name))) for name in names]
    for name, values in zip(names, lengths, strict=True):
        odd = [value for value in values if type(value) not in (float, int, PromptShare)]
        if odd:
            raise BadInput(f"{name} = {shown(odd[0])} must be a number or a list of numbers")
        of_run = {"concurrency": 1} if name == "num_prompts" else {}
        probe: dict[str, Any] = {"isl": BILLION, "osl": 1, "batch": None, "prefix": 0, **of_run}
        case.workload(**{**probe, name: [value for value in values if type(value) is not PromptShare] or 1})
    others = {
        name: [_option(name, item) for item in ([value] if _is_pair(name, value) else all_values(name, value))]
        for name, value in plain.items()
        if name not in LENGTHS
    }
    plans = [dict(zip(others, values, strict=True)) for values in product(*others.values())]
    count = len(model_names) * len(gpu_names) * len(plans) * prod(map(len, lengths))
    if count > _MOST_ROWS:
        raise BadInput(f"{count} rows exceed the limit of {_MOST_ROWS}; use fewer values")
    cases = [_case(dict(zip(names, values, strict=True))) for values in product(*lengths)]
    chosen = [(model, deployment.choice(gpu, plan)) for model, gpu, plan in product(model_names, gpu_names, plans)]
    return Answers(
        cast("Row", row)
        for model, pooled in each(chosen, "deployments")
        for start in range(0, len(cases), _BLOCK)
        for row in _rows(model, pooled.gpu, pooled.options, cases[start : start + _BLOCK], row_keys)
    )


def _case(values: Mapping[str, Any]) -> dict[str, float]:
    """Lengths and load of one case, the prefix in tokens."""
    prefix = values["prefix"]
    tokens = prefix.tokens(float(values["isl"])) if isinstance(prefix, PromptShare) else prefix
    return {name: float(value) for name, value in {**values, "prefix": tokens}.items()}


def _rows(
    model: str | Model,
    gpu: Any,
    options: Mapping[str, Any],
    cases: list[dict[str, float]],
    keys: tuple[str, ...],
) -> list[dict[str, Any]]:
    """Rows of one model on one GPU with one set of options, in the order of the cases."""
    pending = [place for place, lengths in enumerate(cases) if lengths["prefix"] <= lengths["isl"]]
    failure: RooflineError = BadInput("prefix exceeds the prompt")
    rows: dict[int, dict[str, Any]] = {}
    if pending:
        chosen = {name: [cases[place][name] for place in pending] for name in cases[0]}
        try:
            prediction = predict(model, gpu, **{**options, **chosen})
            rows = dict(zip(pending, split_rows(prediction, keys), strict=True))
        except UnknownName:
            raise
        except RooflineError as error:
            failure = error
    return [
        rows[place] if place in rows else _refused(model, gpu, options, cases[place], failure, keys)
        for place in range(len(cases))
    ]


def split_rows(prediction: Prediction, keys: tuple[str, ...]) -> Iterator[dict[str, Any]]:
    """One row for each element of a prediction over arrays."""
    if isinstance(prediction, MixedPlans):
        numbered = [
            (place, row)
            for part, places in zip(prediction.parts, prediction.places, strict=True)
            for place, row in zip(places.tolist(), split_rows(part, keys), strict=True)
        ]
        yield from (row for _, row in sorted(numbered, key=lambda pair: pair[0]))
        return
    times: Any = prediction.ttft
    size = len(times)
    columns = row_of(prediction, (*keys, "fits", "hbm_used_frac"))
    lists = {
        key: value if isinstance(value, list) and key != "warnings" else [value] * size
        for key, value in columns.items()
    }
    if "warnings" in lists:
        lists["warnings"] = _warnings(prediction, size)
    for place in range(size):
        row = {key: lists[key][place] for key in keys}
        for key in _WHOLE:
            if isinstance(row.get(key), float) and row[key].is_integer():
                row[key] = int(row[key])
        used = lists["hbm_used_frac"][place]
        yield {**row, "reason": _reason(prediction, place, fits=lists["fits"][place], used=used)}


def _length_names(options: Mapping[str, Any]) -> tuple[str, ...]:
    """Names of the lengths and the load of a table; a burst where no load is given."""
    run = (RUN,) if options.get(RUN) is not None else ()
    return "isl", "osl", stated(options).option, *run, "prefix"


def _reason(prediction: Prediction, place: int, *, fits: bool, used: float) -> str | None:
    """Why a row has no times; None where it has."""
    if not fits:
        return f"{DoesNotFit.short}: {used:.0%} of the usable memory"
    served = prediction.served
    if served is None or bool(_element(served.is_stable, place)):
        return None
    most = _element(served.max_request_rate, place)
    if not prediction.workload.load.is_open or _element(served.request_rate, place) < most:
        return NoSteadyState.short
    return f"{Overloaded.short}: at most {rounded(float(most))} requests/s"


def _element(values: Any, place: int) -> Any:
    """One element of an array, or the scalar that stands for all of them."""
    return values[place] if getattr(values, "shape", ()) else values


def _warnings(prediction: Prediction, size: int) -> list[list[str]]:
    """Notes of each row; those on lengths differ from row to row."""
    deployment, lengths = prediction.deployment, prediction.workload
    of_any = case.length_warnings(deployment, lengths)
    of_all = [note for note in prediction.warnings if note not in of_any and not note.startswith(load.UNDER_LOAD)]
    of_load = load.domains(prediction, size)
    if not of_any:
        return [[*of_all, *notes] for notes in of_load]
    rows = []
    for place, notes in enumerate(of_load):
        numbers = {name: float(_element(column, place)) for name, column in lengths.numbers.items()}
        rows.append([*of_all, *notes, *case.length_warnings(deployment, lengths.at(numbers))])
    return rows


def _with_trace(options: Mapping[str, Any]) -> dict[str, Any]:
    """Options with a trace read once; its means become the lengths of every case."""
    lengths = options.get("lengths")
    trace = case.lengths_of(lengths, None, None) if _is_trace(lengths) else None
    if not isinstance(trace, tuple):
        return dict(options)
    length = next((name for name in ("isl", "osl") if options.get(name) is not None), None)
    if length is not None:
        raise BadInput(f"a trace has its own lengths; leave out {length}")
    return {**options, "isl": trace[0], "osl": trace[1], "lengths": trace[2]}


def _is_pair(name: str, value: Any) -> bool:
    """Whether two values belong together; several prices are a list, one range is a tuple."""
    return name == "cold_start" or (name == "gpu_price" and isinstance(value, tuple))


def _is_trace(lengths: Any) -> bool:
    """Whether `lengths` is a single trace, not a distribution or several values."""
    return isinstance(lengths, Mapping) or (isinstance(lengths, str) and lengths not in LAWS)


def _refused(
    model: str | Model,
    gpu: Any,
    options: Mapping[str, Any],
    lengths: Mapping[str, float],
    error: RooflineError,
    keys: tuple[str, ...],
) -> dict[str, Any]:
    numbers = {key: int(value) if value.is_integer() else value for key, value in lengths.items()}
    row = refused_row(model, gpu.name if isinstance(gpu, Gpu) else gpu, error, **{**options, **numbers})
    return {**{key: row[key] for key in keys}, "reason": f"{type(error).__name__}: {error}"}


def _option(name: str, value: Any) -> Any:
    """One value of an option; NaN, a gap in a column, is None."""
    if isinstance(value, float) and math.isnan(value):
        return None
    if name in _DEGREES:
        (degree,) = arguments.scalars(**{name: value})
        degree = int(degree) if type(degree) is float and degree.is_integer() else degree  # as a column holds them
        if degree is not None and (name, degree) != ("ep", ALL):
            check_count(name, degree)
        return degree
    if name == "lengths" and isinstance(value, Lengths):
        return value
    if name == "cold_start":
        return case.cold_start_of(value)
    if name == "gpu_price":
        return value  # a number, or the ends of a range
    if name == "slo":
        return slo_limits(value)
    return value if isinstance(value, Mapping) else plain_value(name, arguments.scalars(**{name: value})[0])
