"""Many cases as one table of columns: every combination of the values given."""

from __future__ import annotations

import math
import operator
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import cached_property
from itertools import product
from math import prod
from typing import TYPE_CHECKING, Any, SupportsIndex, Unpack, cast, overload

from roofline.numbers.operations import any_of, element, negated
from roofline.numbers.quantity import BILLION, GIGA, KIBI, rounded
from roofline.questions import catalog
from roofline.questions.inputs import arguments, case, deployment, load
from roofline.questions.inputs.arguments import all_values, listed_names, plain_value, slo_limits
from roofline.questions.inputs.arrivals import process_of
from roofline.questions.inputs.case import LEAST_RATE, LENGTHS
from roofline.questions.inputs.options import ALL, understood
from roofline.questions.predict import DEFAULTS, predict, refused_row
from roofline.serving.answers import Answer, Answers, check_keys, html_of, listed_keys, selected
from roofline.serving.knee import check_count
from roofline.serving.latency import Lengths
from roofline.serving.prediction import Prediction, memory_of
from roofline.serving.row_types import Row
from roofline.serving.shown import KEYS, ROW_KEYS, figures
from roofline.serving.verdict import assumptions, beyond
from roofline.specs.gpu import Gpu
from roofline.specs.load import RUN, Rate, stated
from roofline.specs.model import Model
from roofline.specs.workload import LAWS
from roofline.specs.written import DEGREES, PromptShare
from roofline.support.errors import (
    BadInput,
    DoesNotFit,
    NoSteadyState,
    Overloaded,
    OverloadedAtTimes,
    RooflineError,
    UnknownName,
    shown,
)
from roofline.support.progress import counting
from roofline.support.records import NamedTuple, dataclass, replace

if TYPE_CHECKING:
    from concurrent.futures import Executor

    from roofline.numbers.arrays import Array, DataFrame
    from roofline.numbers.columns import Column
    from roofline.outputs.files import ArrowTable, PolarsFrame
    from roofline.questions.blocks import DataSet
    from roofline.questions.inputs.signatures import Grid


_BLOCK = 16 * KIBI  # rows predicted together: temporaries stay in the CPU cache
_MOST_BYTES = int(8 * GIGA)  # of a table in memory
_NUMBER_BYTES, _WORD_BYTES = 8, 4  # of a row in a column
_NUMERIC = ("number", "integer")
_FEW_PLANS = 4096  # that are checked one by one
_FEW = 5  # rows at either end of a table in a notebook
_DEGREES = (*DEGREES, "num_gpus")
#: Keys whose whole numbers are plain integers in rows, and those of them that always are.
_WHOLE = ("isl", "osl", "batch", "concurrency", "prefix", "memory_knee", "slo_knee")
_ALWAYS_WHOLE = ("memory_knee", "slo_knee")
_REASON, _WARNINGS = "reason", "warnings"
_LONG_PREFIX = BadInput("prefix exceeds the prompt")


class Table(Answer[Row], Sequence[Row]):
    """Predictions of many cases in columns; rows are made when they are asked for.

    >>> import roofline as rl
    >>> found = rl.table("llama-3.1-8b", "h100-sxm", isl=[1000, 2000], keys=["isl", "ttft_ms"], basis="ideal")
    >>> found["ttft_ms"].round(2), list(found.columns)
    (array([16.18, 32.57]), ['isl', 'ttft_ms', 'reason'])
    >>> len(found), found[0]["isl"], found[1:].to_rows(["isl"])
    (2, 1000, [{'isl': 2000}])
    >>> found.to_dict(["isl"]), found.to_arrow(["isl"]).num_rows
    ({'rows': [{'isl': 1000}, {'isl': 2000}]}, 2)
    >>> found.to_polars().shape  # doctest: +SKIP
    (2, 3)
    """

    def __init__(self, columns: Mapping[str, Column], rows: int) -> None:
        self.columns = dict(columns)
        self._rows = rows

    def __len__(self) -> int:
        return self._rows

    @overload
    def __getitem__(self, index: SupportsIndex) -> Row: ...
    @overload
    def __getitem__(self, index: slice) -> Answers[Row, Row]: ...
    @overload
    def __getitem__(self, index: str) -> Any: ...
    def __getitem__(self, index: SupportsIndex | slice | str) -> Any:
        """A row by its place, rows by a slice, or a column by its key: an array of numbers, or a list of words."""
        if isinstance(index, str):
            check_keys([index], self.columns)
            column: Any = self.columns[index]
            return column.values if hasattr(column, "values") else column.listed(0, self._rows)
        places = range(self._rows)[index]
        if isinstance(places, int):
            return next(self._run(places, places + 1))
        if abs(places.step) == 1 and places:
            ends = sorted((places[0], places[-1]))
            return Answers(list(self._run(ends[0], ends[1] + 1))[:: places.step])
        return Answers(self[place] for place in places)

    def __iter__(self) -> Iterator[Row]:
        for start in range(0, self._rows, KIBI):
            yield from self._run(start, min(start + KIBI, self._rows))

    def _run(self, start: int, end: int) -> Iterator[Row]:
        from roofline.numbers.columns import rows_listed

        return cast("Iterator[Row]", rows_listed(self.columns, start, end))

    def __eq__(self, other: object) -> bool:
        """Whether it has the same rows as another table or a list."""
        if isinstance(other, Table):
            return list(self.columns) == list(other.columns) and self.columns == other.columns
        if not isinstance(other, list):
            return NotImplemented
        return len(self) == len(other) and all(map(operator.eq, self, other))

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        """The first rows, as many as fit on a line, and how many more there are."""
        first = repr(self[:_FEW])
        hidden = len(self) - _FEW
        if hidden <= 0:
            return first
        if first.endswith(" more]"):
            start, _, more = first.removesuffix(" more]").rpartition(" ")
            return f"{start} {int(more) + hidden} more]"
        return f"{first.removesuffix(']')}, ... {hidden} more]"

    def _repr_html_(self) -> str | None:
        """The first and last rows for a notebook, and the size."""
        return html_of(self, f"{len(self):,} rows x {len(self.columns)} columns", both_ends=True)

    def _select(self, keys: Iterable[str] | None) -> Table:
        """The table with some of its columns, in their order; None for all."""
        return Table(selected(self.columns, keys), self._rows)

    def to_dict(self, keys: Iterable[str] | None = None) -> Mapping[str, object]:
        """The rows under the key ``rows``, as in ``--format json``.

        Args:
            keys: the keys to keep; None for all.
        """
        return {"rows": self.to_rows(keys)}

    def to_rows(self, keys: Iterable[str] | None = None) -> list[Row]:
        """All rows as dictionaries.

        Args:
            keys: the keys to keep; None for all.
        """
        return list(self._select(keys))

    def to_pandas(self, keys: Iterable[str] | None = None) -> DataFrame:
        """The columns as a data frame of pandas.

        Args:
            keys: the keys to keep; None for all.

        Raises:
            BadInput: pandas is not installed.
        """
        from roofline.numbers.arrays import data_frame_of

        frame: Any = {key: column.of_frame() for key, column in self._select(keys).columns.items()}
        return data_frame_of(frame)

    def to_arrow(self, keys: Iterable[str] | None = None) -> ArrowTable:
        """The columns as a table of pyarrow.

        Args:
            keys: the keys to keep; None for all.

        Raises:
            BadInput: pyarrow is not installed.
        """
        from roofline.outputs.files import arrow_table

        return arrow_table(self._select(keys).columns)

    def to_polars(self, keys: Iterable[str] | None = None) -> PolarsFrame:
        """The columns as a data frame of polars.

        Args:
            keys: the keys to keep; None for all.

        Raises:
            BadInput: polars or pyarrow is not installed.
        """
        from roofline.outputs.files import polars_frame

        return polars_frame(self._select(keys).columns)

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        """The columns for any library that reads Arrow, such as DuckDB and polars."""
        return self.to_arrow().__arrow_c_stream__(requested_schema)


@overload
def table(
    models: str | Model | Sequence[str | Model],
    gpus: str | Gpu | Sequence[str | Gpu] | None = None,
    *,
    keys: Sequence[str] | None = None,
    out: None = None,
    reduce: None = None,
    **options: Unpack[Grid],
) -> Table: ...
@overload
def table(
    models: str | Model | Sequence[str | Model],
    gpus: str | Gpu | Sequence[str | Gpu] | None = None,
    *,
    keys: Sequence[str] | None = None,
    out: str | os.PathLike[str] | None = None,
    resume: bool = False,
    reduce: Sequence[str] | str | None = None,
    jobs: int | str | None = None,
    executor: Executor | None = None,
    dask: str | None = None,
    **options: Unpack[Grid],
) -> DataSet: ...
@understood
def table(
    models: str | Model | Sequence[str | Model],
    gpus: str | Gpu | Sequence[str | Gpu] | None = None,
    *,
    keys: Sequence[str] | None = None,
    out: str | os.PathLike[str] | None = None,
    resume: bool = False,
    reduce: Sequence[str] | str | None = None,
    jobs: int | str | None = None,
    executor: Executor | None = None,
    dask: str | None = None,
    **options: Unpack[Grid],
) -> Table | DataSet:
    """Predictions of every combination as a table of columns, for pandas, polars, DuckDB or plain rows.

    Without `tp`, every case runs at the one that `predict` chooses for it. With `out` or `reduce`, rows are computed in
    blocks, of any number, by as many workers as there are; memory holds a few blocks.

    Args:
        models: one name, alias or record, or several.
        gpus: one name, alias or record, or several; None for the whole catalog.
        keys: keys of the JSON contract; None for all. A table of few is far faster and smaller.
        out: folder to write the rows to, as Parquet files of numbered blocks with a manifest of the question.
        resume: whether to compute only the blocks that are missing in `out`.
        reduce: what to keep of the rows: ``best:KEY[:PER]``, ``top:N:KEY[:PER]``, ``frontier:KEY,KEY[:PER]`` (rows that
            meet the SLO, where there is one), ``histogram:KEY[:EDGES][:PER]``, or ``share[:PER]`` of rows that meet the
            SLO; PER are keys whose values make groups.
        jobs: processes on this machine [1], or ``all`` for one a core.
        executor: in their place, any `concurrent.futures.Executor` or client of Dask.
        dask: in their place, the address of a Dask scheduler, or its scheduler file.
        options: keyword arguments of `predict`; each may be a list or an array, every value of which is tried.

    Returns:
        Rows in the order of models, GPUs, options and lengths, the last changing fastest. `reason` says why a case
        does not fit or cannot be run; else it is None. With `out` or `reduce`: where they are, and what was kept.

    Raises:
        UnknownName: no such model, GPU, key or format.
        BadInput: more rows than memory should hold, an empty list, a set, nested lists, or impossible numbers; or a
            folder that has other files or another question's blocks.

    >>> import roofline as rl
    >>> rl.table("llama-3.1-8b", "h100-sxm", isl=[1000, 2000], keys=["isl", "fits"])
    [{'isl': 1000, 'fits': True, 'reason': None}, {'isl': 2000, 'fits': True, 'reason': None}]
    """
    if out is not None or reduce is not None:
        from roofline.questions.blocks import compute
        from roofline.questions.reducers import reductions_of
        from roofline.questions.workers import workers_of

        reductions = reductions_of(() if reduce is None else reduce)
        grid = _grid(models, gpus, keys, dict(options))
        if out is not None and not isinstance(out, (str, os.PathLike)):
            raise BadInput(f"out = {shown(out)} must be the path of a folder")
        folder = None if out is None else os.fspath(out)
        source = _source(grid)
        return compute(source, grid.keys, reductions, workers_of(jobs, executor, dask), out=folder, resume=resume)
    alone = {"resume": resume or None, "jobs": jobs, "executor": executor, "dask": dask}
    if any(value is not None for value in alone.values()):
        stray = next(name for name, value in alone.items() if value is not None)
        raise BadInput(f"{stray} is for blocks: give `out` (a folder for the rows), `reduce`, or both")
    grid = _grid(models, gpus, keys, dict(options))
    nbytes = grid.rows * sum(_NUMBER_BYTES if _is_numeric(key) else _WORD_BYTES for key in grid.keys)
    if nbytes > _MOST_BYTES:
        raise BadInput(
            f"{grid.rows} rows of {len(grid.keys)} keys take {nbytes / GIGA:.1f} GB; use fewer values or keys, or "
            "write them to a folder (`out`)"
        )
    whole, axes = _empty(grid.keys, grid.rows, grid.whole), grid.axes
    with counting("rows", grid.rows) as done:
        for start in range(0, grid.rows, _BLOCK):
            done(start)
            _fill(whole, grid, axes, start, min(start + _BLOCK, grid.rows), start)
    return whole


@understood
def table_in_blocks(
    models: str | Model | Sequence[str | Model],
    gpus: str | Gpu | Sequence[str | Gpu] | None = None,
    *,
    keys: Sequence[str] | None = None,
    **options: Unpack[Grid],
) -> TableBlocks:
    """The same, a block of rows after the other, of any number; names are refused before the first."""
    grid = _grid(models, gpus, keys, dict(options))
    if grid.rows > _BLOCK:
        _check_names(grid)
    return TableBlocks(grid)


class TableBlocks:
    """A table that is too large to hold, as blocks of its rows."""

    def __init__(self, grid: _Grid) -> None:
        self._grid = grid
        self.rows = grid.rows

    def only_row(self) -> Row | None:
        """The row of a table of one, without arrays; None where there are several, or where it has no times."""
        return _only_row(self._grid) if self.rows == 1 else None

    def __iter__(self) -> Iterator[Table]:
        grid, axes = self._grid, self._grid.axes
        with counting("rows", grid.rows) as done:
            for start in range(0, grid.rows, _BLOCK):
                done(start)
                end = min(start + _BLOCK, grid.rows)
                block = _empty(grid.keys, end - start, grid.whole)
                _fill(block, grid, axes, start, end, 0)
                yield block


class TableSource:
    """A table that travels: any of its rows, from names, values and the user's own files."""

    step = _BLOCK

    def __init__(self, grid: _Grid, files: Mapping[str, bytes], paths: Mapping[str, str]) -> None:
        self._grid = grid
        self.rows, self.cases = grid.rows, grid.cases
        self.files, self.paths = dict(files), dict(paths)
        self.models, self.gpus, self.options = grid.models, grid.gpus, grid.plans.options
        self.has_limits = any(self.options.get("slo", ()))

    @property
    def lengths(self) -> dict[str, list[Any]]:
        """Values of lengths and load; shares of the prompt as texts."""
        shares = self._grid.shares
        return {
            name: [f"{shares[place]!r} of isl" if math.isnan(value) else value for place, value in enumerate(values)]
            for name, values in self._grid.numbers.items()
        }

    def placed(self, folder: str) -> TableSource:
        """The same with its files in a folder."""
        from roofline.questions.inputs.own_files import placed

        grid = self._grid
        gpus = [placed(gpu, folder) for gpu in grid.gpus]
        options = {name: [placed(value, folder) for value in values] for name, values in grid.plans.options.items()}
        return TableSource(grid._replace(gpus=gpus, plans=_EveryPlan(options)), self.files, self.paths)

    def part(self, start: int, end: int, keys: Sequence[str]) -> Table:
        """Rows from a number up to another."""
        grid = self._grid
        block = _empty(keys, end - start, grid.whole)
        _fill(block, grid, grid.axes, start, end, 0)
        return block

    def rows_at(self, numbers: Sequence[int], keys: Sequence[str] | None) -> list[dict[str, Any]]:
        """Some rows, by their numbers; with all keys where none are given."""
        from roofline.numbers.columns import grid_rows_at

        grid, axes = self._grid, self._grid.axes
        block = _empty(keys or (*ROW_KEYS, _REASON), len(numbers), grid.whole)
        of_deployment: dict[int, list[int]] = {}
        for place, number in enumerate(numbers):
            of_deployment.setdefault(number // grid.cases, []).append(place)
        for number, places in of_deployment.items():
            model, gpu, plan = grid.deployment(number)
            chosen = deployment.choice(gpu, plan)
            run = _Cases(block, model, chosen.gpu, chosen.options, tuple(axes))
            cases = [numbers[place] % grid.cases for place in places]
            _predict_into(run, places, grid_rows_at(axes, cases, grid.shares), len(places))
        return cast("list[dict[str, Any]]", block.to_rows())


def _source(grid: _Grid) -> TableSource:
    """A grid with what it needs of the user's files."""
    from roofline.questions.inputs.own_files import carried

    _check_names(grid)
    found = carried(grid.models, grid.gpus, grid.plans.options)
    own = grid._replace(models=found.models, gpus=found.gpus, plans=_EveryPlan(found.options))
    return TableSource(own, found.files, found.paths)


# What was asked for: deployments, and the axes of their cases.


class _EveryPlan(Sequence[dict[str, Any]]):
    """Every combination of the values of options, made when it is asked for; the last option changes fastest."""

    def __init__(self, options: Mapping[str, Sequence[Any]]) -> None:
        self.options = {name: list(values) for name, values in options.items()}

    def __len__(self) -> int:
        return prod(map(len, self.options.values()))

    @overload
    def __getitem__(self, index: int) -> dict[str, Any]: ...
    @overload
    def __getitem__(self, index: slice) -> list[dict[str, Any]]: ...
    def __getitem__(self, index: int | slice) -> Any:
        places = range(len(self))[index]
        if not isinstance(places, int):
            return [self[place] for place in places]
        chosen = {}
        for name, values in reversed(self.options.items()):
            places, place = divmod(places, len(values))
            chosen[name] = values[place]
        return {name: chosen[name] for name in self.options}

    def apart(self) -> Iterator[dict[str, Any]]:
        """Plans in which every value of every option occurs: all of them, if they are few."""
        if len(self) <= _FEW_PLANS:
            yield from self
            return
        first = self[0]
        for name, values in self.options.items():
            for value in values:
                yield {**first, name: value}


class _Grid(NamedTuple):
    """Every combination of deployments and cases."""

    models: list[Any]
    gpus: list[Any]
    plans: _EveryPlan  # options of a deployment and its traffic
    numbers: dict[str, list[float]]  # values of lengths and load, NaN for a share of the prompt
    shares: dict[int, float]  # of the prompt [1], by their places among the prefixes
    keys: tuple[str, ...]  # of the table, `reason` last
    whole: tuple[str, ...]  # keys of whole numbers alone

    @property
    def cases(self) -> int:
        """Cases of one deployment."""
        return prod(map(len, self.numbers.values()))

    @property
    def rows(self) -> int:
        return len(self.models) * len(self.gpus) * len(self.plans) * self.cases

    @property
    def axes(self) -> dict[str, Array]:
        """The same as arrays."""
        from roofline.numbers.arrays import as_array

        return {name: as_array(name, values) for name, values in self.numbers.items()}

    def deployment(self, place: int) -> tuple[Any, Any, dict[str, Any]]:
        """Model, GPU and options of one of the deployments."""
        rest, plan = divmod(place, len(self.plans))
        model, gpu = divmod(rest, len(self.gpus))
        return self.models[model], self.gpus[gpu], self.plans[plan]


def _grid(models: Any, gpus: Any, keys: Any, options: dict[str, Any]) -> _Grid:
    columns = ROW_KEYS if keys is None else listed_keys(keys)
    row_keys = tuple(key for key in columns if not (isinstance(key, str) and key == _REASON))  # every row has one
    check_keys(row_keys, ROW_KEYS)
    (specs,) = arguments.scalars(specs=options.get("specs"))
    model_names = listed_names("models", models)
    gpu_names = listed_names("gpus", catalog.gpus(specs) if gpus is None else gpus)
    plain = _with_trace(options)
    names = _length_names(plain)
    lengths = {name: all_values(name, plain.get(name, DEFAULTS.get(name))) for name in names}
    for name, values in lengths.items():
        odd = [value for value in values if type(value) not in (float, int, PromptShare)]
        if odd:
            raise BadInput(f"{name} = {shown(odd[0])} must be a number or a list of numbers")
        of_run = {"concurrency": 1} if name == "num_prompts" else {}
        probe: dict[str, Any] = {"isl": BILLION, "osl": 1, "batch": None, "prefix": 0, **of_run}
        plain_values = [value for value in values if type(value) is not PromptShare] or [1]
        case.workload(**{**probe, name: plain_values if len(plain_values) > 1 else plain_values[0]})
    others = {
        name: [_option(name, item) for item in ([value] if _is_pair(name, value) else all_values(name, value))]
        for name, value in plain.items()
        if name not in LENGTHS
    }
    plans = _EveryPlan(others)
    for plan in _EveryPlan({name: others[name] for name in ("specs", "set") if name in others}):
        deployment.check_settings(gpu_names, plan)
    shares = {place: one.share for place, one in enumerate(lengths["prefix"]) if isinstance(one, PromptShare)}
    numbers = {
        name: [math.nan if isinstance(value, PromptShare) else float(value) for value in values]
        for name, values in lengths.items()
    }
    whole = [
        name
        for name, values in numbers.items()
        if name in _WHOLE and all(math.isnan(one) or one.is_integer() for one in values)
    ]
    own = ("isl", "osl") if any(map(_is_trace, others.get("lengths", ()))) else ()  # which a trace has
    always = (*(name for name in whole if name not in own), *_ALWAYS_WHOLE)
    return _Grid(model_names, gpu_names, plans, numbers, shares, (*row_keys, _REASON), always)


def _check_names(grid: _Grid) -> None:
    """Refuse names that nobody knows before anything is written."""
    for gpu, plan in product(grid.gpus, grid.plans.apart()):
        deployment.choice(gpu, plan)
    first = [(grid.models[0], grid.gpus[0], plan) for plan in grid.plans.apart()]
    plan = grid.plans[0]
    pairs = [(model, gpu, plan) for model, gpu in product(grid.models, grid.gpus)]
    if len(pairs) > _FEW_PLANS:
        pairs = [(model, grid.gpus[0], plan) for model in grid.models]
        pairs += [(grid.models[0], gpu, plan) for gpu in grid.gpus]
    for model, gpu, plan in (*first, *(pairs if len(grid.plans) > 1 else pairs[1:])):
        chosen = deployment.choice(gpu, plan)
        error = _error_of_all(model, chosen.gpu, chosen.options, tuple(grid.numbers))
        if isinstance(error, UnknownName):
            raise error  # others are the reason of their rows


def _error_of_all(model: Any, gpu: Any, options: Mapping[str, Any], names: Iterable[str]) -> RooflineError | None:
    """What is wrong with a short request alone, and so with every case; `names` are those of lengths and load."""
    light: dict[str, Any] = {"isl": 2, "osl": 2, Rate.option: LEAST_RATE}
    try:
        predict(model, gpu, **{**options, **{name: light.get(name, 1) for name in names}})
    except RooflineError as error:
        return error
    return None


# Rows by the block.


def _is_numeric(key: str) -> bool:
    return key != _REASON and KEYS[key].kind in _NUMERIC


def _empty(keys: Sequence[str], rows: int, whole: Sequence[str] = ()) -> Table:
    """A table of so many rows to be filled."""
    from roofline.numbers.columns import Numbers, Words

    columns: dict[str, Column] = {}
    for key in keys:
        if _is_numeric(key):
            is_whole = key in whole or KEYS[key].kind == "integer"
            columns[key] = Numbers(rows, is_whole=is_whole, shows_whole=key in _WHOLE)
        else:
            columns[key] = Words(rows, "text" if key == _REASON else KEYS[key].kind)
    return Table(columns, rows)


def _fill(block: Table, grid: _Grid, axes: dict[str, Array], start: int, end: int, place: int) -> None:
    """Fill in rows `start` to `end` of a grid from a place of the block on, one deployment after the other."""
    from roofline.numbers.columns import grid_rows

    cases = grid.cases
    while start < end:
        number, first = divmod(start, cases)
        count = min(end - start, cases - first)
        model, gpu, plan = grid.deployment(number)
        chosen = deployment.choice(gpu, plan)
        run = _Cases(block, model, chosen.gpu, chosen.options, tuple(axes))
        _predict_into(run, place, grid_rows(axes, first, first + count, grid.shares), count)
        start, place = start + count, place + count


def _only_row(grid: _Grid) -> Row | None:
    """The row of a grid of one, as columns would give it; None where it needs them to say why it has no times."""
    model, gpu, plan = grid.deployment(0)
    chosen = deployment.choice(gpu, plan)
    lengths = {name: values[0] for name, values in grid.numbers.items()}
    if grid.shares:
        lengths["prefix"] = float(round(lengths["isl"] * grid.shares[0]))
    if lengths["prefix"] > lengths["isl"]:
        return None
    try:
        prediction = _predicted(model, chosen.gpu, chosen.options, lengths, 1)
    except RooflineError:
        return None
    if any(hasattr(number, "dtype") for number in (prediction.fits, prediction.ttft)) or not prediction.fits:
        return None
    row: dict[str, Any] = {}
    for key, value in figures(prediction, tuple(key for key in grid.keys if key not in (_REASON, _WARNINGS))).items():
        row[key] = _cell(value, is_whole=key in _WHOLE or KEYS[key].kind == "integer") if _is_numeric(key) else value
    if _WARNINGS in grid.keys:
        ((notes,), _) = _warnings(prediction, 1)
        row[_WARNINGS] = list(notes)
    row[_REASON] = None
    return cast("Row", {key: row[key] for key in grid.keys})


def _cell(value: Any, *, is_whole: bool) -> float | None:
    """A number as a column lists it."""
    if value is None or isinstance(value, str):
        return None
    number = float(value)
    return int(number) if is_whole and number.is_integer() else number


@dataclass(frozen=True)
class _Cases:
    """One deployment, and the block that takes its rows."""

    block: Table
    model: Any
    gpu: Any
    options: dict[str, Any]
    names: tuple[str, ...]  # of lengths and load

    @cached_property
    def error(self) -> RooflineError | None:
        return _error_of_all(self.model, self.gpu, self.options, self.names)


def _predict_into(run: _Cases, places: Any, lengths: dict[str, Any], rows: int) -> None:
    """Predict cases of one deployment and put them in their places, of which the first is given, or all.

    What is refused is divided until only those cases are left that are refused alone.
    """
    from roofline.numbers.columns import places_where, shifted

    places = shifted(None, places, rows)
    exceeds = lengths["prefix"] > lengths["isl"]
    if any_of(exceeds):
        beyond_prompt, others = places_where(exceeds, rows), places_where(negated(exceeds), rows)
        _refuse(run, shifted(beyond_prompt, places, rows), _at(lengths, beyond_prompt), _LONG_PREFIX)
        if len(others):
            _predict_into(run, shifted(others, places, rows), _at(lengths, others), len(others))
        return
    try:
        _put(run.block, places, _predicted(run.model, run.gpu, run.options, lengths, rows), rows)
    except UnknownName:
        raise
    except RooflineError as error:
        is_one_case = all(type(value) is float for value in lengths.values())
        if rows == 1 and not is_one_case:  # for the error of one case
            _predict_into(run, places, {name: float(element(value, 0)) for name, value in lengths.items()}, 1)
            return
        if is_one_case or _is_of_all(run, error):
            _refuse(run, places, lengths, error)
            return
        for part in (slice(0, rows // 2), slice(rows // 2, rows)):
            some = places_where(True, rows)[part]  # noqa: FBT003
            _predict_into(run, shifted(some, places, rows), _at(lengths, some), len(some))


def _predicted(
    model: Any, gpu: Any, options: Mapping[str, Any], lengths: Mapping[str, Any], rows: int
) -> Prediction[Any, Any, Any]:
    """The prediction of some cases: on numbers where all are one case, on arrays where these have no answer."""
    case_of: dict[str, Any] = {**options, **lengths}
    if any(type(value) is not float for value in lengths.values()):
        return predict(model, gpu, **case_of)
    if "batch" in lengths and options.get("max_model_len") is None:
        return _without_times(predict(model, gpu, **{**case_of, "allow_oversize": True}), options)
    with suppress(DoesNotFit, Overloaded):
        return predict(model, gpu, **case_of)
    arrays: dict[str, Any] = {name: [value] * rows for name, value in lengths.items()}
    return predict(model, gpu, **{**options, **arrays})


def _is_of_all(run: _Cases, error: RooflineError) -> bool:
    """Whether every case has an error; what does not fit at one tp may at another."""
    return not isinstance(error, DoesNotFit) and (type(run.error), str(run.error)) == (type(error), str(error))


def _without_times(prediction: Prediction[Any, Any, Any], options: Mapping[str, Any]) -> Prediction[Any, Any, Any]:
    """A burst as in an array: what does not fit has no times, unless it may be oversize."""
    if prediction.fits or arguments.scalars(allow_oversize=options.get("allow_oversize"))[0]:
        return prediction
    from roofline.numbers.arrays import as_array

    workload = prediction.workload.at({"batch": as_array("batch", [prediction.workload.batch])})
    memory = memory_of(prediction.deployment, workload, None)
    return replace(prediction, memory=memory, allow_oversize=False, added=())


def _at(lengths: Mapping[str, Any], places: Any) -> dict[str, Any]:
    """Lengths and loads of some of the cases."""
    return {name: element(value, places) for name, value in lengths.items()}


def _put(block: Table, places: Any, prediction: Prediction[Any, Any, Any], rows: int) -> None:
    """Put a prediction into rows."""
    from roofline.numbers.columns import shifted
    from roofline.serving.mixed_plans import MixedPlans  # they are of arrays alone

    if isinstance(prediction, MixedPlans):
        for part, of_part in zip(prediction.parts, prediction.places, strict=True):
            _put(block, shifted(of_part, places, rows), part, len(of_part))
        return
    columns: dict[str, Any] = block.columns
    own = tuple(key for key in columns if key not in (_REASON, _WARNINGS))
    for key, value in figures(prediction, own).items():
        columns[key].put(places, value)
    if _WARNINGS in columns:
        columns[_WARNINGS].put_each(places, *_warnings(prediction, rows))
    if _REASON in columns:
        columns[_REASON].put_each(places, *_reasons(prediction, rows))


def split_rows(prediction: Prediction[Any, Any, Any], keys: Sequence[str]) -> Iterator[Row]:
    """One row for each element of a prediction over arrays."""
    rows = len(prediction.ttft)
    block = _empty((*keys, _REASON), rows)
    _put(block, slice(0, rows), prediction, rows)
    yield from block


def _length_names(options: Mapping[str, Any]) -> tuple[str, ...]:
    """Names of the lengths and the load of a table; a burst where no load is given."""
    run = (RUN,) if options.get(RUN) is not None else ()
    return "isl", "osl", stated(options).option, *run, "prefix"


def _reasons(prediction: Prediction, rows: int) -> tuple[list[str | None], list[int]]:
    """Why rows have no times, None where they have: the reasons, and which of them each row has."""
    from roofline.numbers.columns import places_where

    fits, served = prediction.fits, prediction.served
    fails = negated(fits) if served is None else negated(fits & served.is_stable)
    reasons: dict[str | None, int] = {None: 0}
    which = [0] * rows
    for place in places_where(fails, rows).tolist() if any_of(fails) else ():
        which[place] = reasons.setdefault(_reason(prediction, place), len(reasons))
    return list(reasons), which


def _reason(prediction: Prediction, place: int) -> str:
    """Why one row has no times."""
    if not element(prediction.fits, place):
        return load.oversize_text(prediction, place)
    served = prediction.served
    if served is None:
        return ""  # pragma: no cover - for the type checker: a burst that fits has times
    most = element(served.max_request_rate, place)
    if not prediction.workload.load.is_open or element(served.request_rate, place) < most:
        is_bunched = prediction.workload.arrivals is not None
        return OverloadedAtTimes.short if is_bunched else NoSteadyState.short
    return f"{Overloaded.short}: at most {rounded(float(most))} requests/s"


def _warnings(prediction: Prediction, rows: int) -> tuple[list[tuple[str, ...]], Any]:
    """Notes of rows, which differ by lengths and load: the lists of notes, and which of them each row has."""
    on_lengths = list(beyond(prediction.deployment, prediction.workload))
    texts = {note for _, note in on_lengths}
    assumed = assumptions(prediction.deployment, prediction.prefill, prediction.decode)
    of_all = [note for note in (*prediction.said, *assumed) if note not in texts]
    on_load, notes = load.notes_of_cases(prediction)
    first, which = _distinct([*(exceeds for exceeds, _ in on_lengths), *on_load], rows)
    lists = []
    for place in first:
        lengths = [note for exceeds, note in on_lengths if element(exceeds, place)]
        lists.append((*of_all, *notes(place), *lengths))
    return lists, which


def _distinct(conditions: Sequence[Any], rows: int) -> tuple[list[int], Any]:
    """`combinations_of` conditions, of which none may be an array."""
    if not any(hasattr(condition, "dtype") for condition in conditions):
        return [0], [0] * rows
    from roofline.numbers.columns import combinations_of

    return combinations_of(conditions, rows)


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


def _refuse(run: _Cases, places: Any, lengths: Mapping[str, Any], error: RooflineError) -> None:
    """Rows without figures, with the reason; they differ by their lengths and loads alone."""
    from roofline.numbers.columns import combinations_of, shifted

    rows = max([1, *(len(value) for value in lengths.values() if getattr(value, "shape", ()))])
    columns: dict[str, Any] = run.block.columns
    first, which = combinations_of([lengths["osl"] > 1.0], rows)  # a limit on TPOT applies to several tokens
    for number, place in enumerate(first):
        one = {name: float(element(value, place)) for name, value in lengths.items()}
        name = run.gpu.name if isinstance(run.gpu, Gpu) else run.gpu
        row = {**refused_row(run.model, name, error, **{**run.options, **one})}
        row[_REASON] = f"{type(error).__name__}: {error}"
        alike = [at for at, kind in enumerate(which) if kind == number]
        for key, column in columns.items():
            column.put(shifted(alike, places, rows) if rows > 1 else places, row[key])
    for name, value in lengths.items():
        if name in columns and row.get(name) is not None:
            columns[name].put(places, value)


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
    if name == "arrivals":
        return process_of(value, None)
    if name == "gpu_price":
        return value  # a number, or the ends of a range
    if name == "slo":
        return slo_limits(value)
    return value if isinstance(value, Mapping) else plain_value(name, arguments.scalars(**{name: value})[0])
