"""A table in numbered blocks that any worker can compute from the question alone; kept in a folder, or reduced."""

from __future__ import annotations

import json
import math
import pickle
import sys
import threading
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from time import perf_counter
from typing import TYPE_CHECKING, Any, Protocol, cast

from roofline.numbers.operations import Json
from roofline.numbers.quantity import KIBI, counted
from roofline.outputs.dataset import Folder, arrow_of, block_bytes, opened, size_of
from roofline.questions.inputs.own_files import as_written, catalog_fingerprint, described, unpacked
from roofline.questions.reducers import (
    Reduction,
    State,
    check_limits,
    counted_rows,
    from_json,
    kept_rows,
    merged,
    reduced,
    to_json,
)
from roofline.questions.workers import Workers
from roofline.serving.answers import Answer, check_keys, listed_keys
from roofline.specs.written import DEGREES
from roofline.support.errors import BadInput, RooflineError
from roofline.support.progress import counting
from roofline.support.records import NamedTuple, dataclass, field

if TYPE_CHECKING:
    from roofline.outputs.files import ArrowTable, InColumns, PolarsFrame

#: Layout of a folder: other versions are not gone on with.
_FORMAT = 1
_MOST_STEPS, _BLOCKS, _FEW_CASES = 8, 64, KIBI
_RECORD = "record"
_MANY = 8  # values of a list that may be a range
_REDUCTION = "reduction"  # key of the reduction that kept a row
_ROW = "row"  # key of the number of a row
_MOST_WHOLE = 10_000  # rows with all keys; of more, what they are
_BRIEF = ("model", "gpu", "num_gpus", *DEGREES, "isl", "osl", "batch", "concurrency", "request_rate", "reason")


class Source(Protocol):
    """A table whose rows can be had in any order, and which travels."""

    @property
    def rows(self) -> int: ...
    @property
    def step(self) -> int: ...  # rows that are computed together
    @property
    def cases(self) -> int: ...  # rows of one deployment
    @property
    def has_limits(self) -> bool: ...
    @property
    def files(self) -> Mapping[str, bytes]: ...  # of the user, by their places in a folder
    @property
    def paths(self) -> Mapping[str, str]: ...
    @property
    def models(self) -> Sequence[Any]: ...
    @property
    def gpus(self) -> Sequence[Any]: ...
    @property
    def options(self) -> Mapping[str, Sequence[Any]]: ...
    @property
    def lengths(self) -> Mapping[str, Sequence[Any]]: ...

    def placed(self, folder: str) -> Source:
        """The same with its files in a folder."""
        ...

    def part(self, start: int, end: int, keys: Sequence[str]) -> InColumns:
        """Rows from a number up to another."""
        ...

    def rows_at(self, numbers: Sequence[int], keys: Sequence[str] | None) -> list[dict[str, Any]]:
        """Some rows, by their numbers."""
        ...


class BlocksAsked(NamedTuple):
    """A question as workers get it."""

    source: Any  # Source
    keys: tuple[str, ...]  # of the rows that are written; none are where it is empty
    reductions: tuple[Reduction, ...]
    rows_of_block: int
    digest: str  # of the question

    @property
    def blocks(self) -> int:
        """How many there are."""
        return -(-int(self.source.rows) // self.rows_of_block)

    def range(self, number: int) -> tuple[int, int]:
        """First row of a block, and the first of the next."""
        start = number * self.rows_of_block
        return start, min(start + self.rows_of_block, self.source.rows)


class Block(NamedTuple):
    """A block as a worker hands it back."""

    rows: int
    data: bytes  # its file; empty where no rows are written
    states: list[State]  # what its reductions keep


# On a worker.

_one_at_a_time = threading.Lock()  # compiled programs use their buffers again


def computed_block(question: bytes, number: int) -> Block:
    """A block of a question, which needs nothing but this package.

    Raises:
        BadInput: the worker has another version or catalog; or more groups or rows than a reduction keeps.
    """
    with _one_at_a_time:
        asked = _read(question)
        with unpacked(asked.source.files) as folder:
            return _computed(asked, number, folder)


@lru_cache(maxsize=2)
def _read(question: bytes) -> BlocksAsked:
    head, _, content = question.partition(b"\n")
    version, catalog = head.decode().split(" ")
    if version != _version():
        raise BadInput(f"a worker has roofline {_version()}, the question is of {version}; install that there")
    if catalog != catalog_fingerprint():
        raise BadInput("a worker has another catalog than the question; install the same roofline there")
    asked: BlocksAsked = pickle.loads(zlib.decompress(content))  # noqa: S301 - from the process that asks, as is this call
    return asked


def _written(asked: BlocksAsked, catalog: str) -> bytes:
    """A question for workers; who may read it stands before the rest."""
    return f"{_version()} {catalog}\n".encode() + zlib.compress(pickle.dumps(asked), 1)


def _computed(asked: BlocksAsked, number: int, folder: str) -> Block:
    source: Source = asked.source.placed(folder) if folder else asked.source
    start, end = asked.range(number)
    states: list[State] = [{} for _ in asked.reductions]
    plain: list[Any] = []

    def tables() -> Iterator[InColumns]:
        for first in range(start, end, source.step):
            last = min(first + source.step, end)
            whole = source.part(first, last, _keys_of(asked))
            if folder:
                _rewrite(whole, folder, source.paths)
            for place, each in enumerate(asked.reductions):
                more = reduced(each, whole.columns, last - first, first, has_limits=source.has_limits)
                states[place] = merged(each, states[place], more)
            yield _chosen(whole, asked.keys)
        plain.extend(map(to_json, states))

    if asked.keys:
        data = block_bytes(tables(), asked.digest, number, plain)
    else:
        data = b""
        for _ in tables():
            pass
    return Block(end - start, data, states)


def _keys_of(asked: BlocksAsked) -> tuple[str, ...]:
    """Keys of the rows that are written, and those that reductions read."""
    limits = asked.source.has_limits
    read = (key for each in asked.reductions for key in each.keys(has_limits=limits))
    return tuple(dict.fromkeys((*asked.keys, *read)))


class _Columns(NamedTuple):
    columns: dict[str, Any]
    rows: int

    def __len__(self) -> int:
        return self.rows

    def to_rows(self) -> list[Any]:
        """Not asked for: blocks are written by columns."""
        raise NotImplementedError


def _chosen(table: InColumns, keys: Sequence[str]) -> InColumns:
    return _Columns({key: table.columns[key] for key in keys}, len(table))


def _rewrite(table: InColumns, folder: str, paths: Mapping[str, str]) -> None:
    """Put the paths that the user wrote in place of those on a worker."""

    def written(word: Any) -> Any:
        if isinstance(word, tuple):
            return tuple(map(written, word))
        return as_written(word, folder, paths) if isinstance(word, str) else word

    columns: Iterable[Any] = table.columns.values()
    for column in columns:
        if hasattr(column, "words"):
            column.words = [written(word) for word in column.words]


# What is asked.


def _asked(source: Source, keys: Sequence[str], reductions: Sequence[Reduction]) -> tuple[BlocksAsked, dict[str, Any]]:
    """A question for workers, and its manifest."""
    rows_of_block = _rows_of_block(source)
    catalog = catalog_fingerprint()
    manifest: dict[str, Any] = {
        "format": _FORMAT,
        "roofline": _version(),
        "catalog": catalog,
        "rows": source.rows,
        "rows_of_block": rows_of_block,
        "blocks": -(-source.rows // rows_of_block),
        "keys": list(keys),
        "reduce": [each.text for each in reductions],
        "question": _question_text(source),
    }
    digest = _digest(manifest)
    asked = BlocksAsked(source, tuple(keys), tuple(reductions), rows_of_block, digest)
    return asked, {**manifest, "sha256": digest, "complete": False}


def _version() -> str:
    """Version of this package; its root imports everything, and is not imported here."""
    return str(sys.modules[__name__.partition(".")[0]].__version__)


def _rows_of_block(source: Source) -> int:
    """Rows of a block: enough of them for files of a good size, and few enough that little is lost with one."""
    most = _MOST_STEPS if source.cases >= _FEW_CASES else 2
    return source.step * min(max(source.rows // (_BLOCKS * source.step), 1), most)


def _digest(content: Any) -> str:
    import hashlib

    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()


def _question_text(source: Source) -> dict[str, Any]:
    """A question as JSON that tells it from others."""
    import hashlib

    return {
        "model": _listed(source.models),
        "gpu": _listed(source.gpus),
        **{name: _listed(values) for name, values in source.options.items()},
        **{name: _listed(values) for name, values in source.lengths.items()},
        "files": {place: hashlib.sha256(data).hexdigest() for place, data in source.files.items()},
    }


def _listed(values: Sequence[Any]) -> Any:
    """Values as JSON; a long list of equal steps by its ends."""
    if len(values) > _MANY and all(type(value) in (int, float) and math.isfinite(value) for value in values):
        step = values[1] - values[0]
        if all(values[0] + place * step == value for place, value in enumerate(values)):
            return {"first": values[0], "step": step, "count": len(values)}
    return [_plain(value) for value in values]


def _plain(value: Any) -> Any:
    """A value as JSON; records by the hash of their fields."""
    if isinstance(value, float) and not math.isfinite(value):
        return repr(value)
    if value is None or isinstance(value, (bool, int, float)):
        return value
    if isinstance(value, str):
        return described(value)
    if isinstance(value, Mapping):
        return {str(key): _plain(one) for key, one in value.items()}
    fields = getattr(type(value), "__record_fields__", None) or getattr(value, "_fields", None)
    if fields is not None:
        content = {name: _plain(getattr(value, name)) for name in fields}
        name = getattr(value, "name", None)
        return {_RECORD: name if isinstance(name, str) else type(value).__name__, "sha256": _digest(content)}
    if hasattr(value, "tolist"):
        return _plain(value.tolist())
    if isinstance(value, (set, frozenset)):
        return sorted((_plain(one) for one in value), key=str)
    if isinstance(value, (list, tuple)):
        return [_plain(one) for one in value]
    return repr(value)


# The answer.


@dataclass(frozen=True, repr=False)
class DataSet(Answer[dict[str, Json]]):
    """A table in a folder of blocks, or what its rows were reduced to.

    >>> import roofline as rl
    >>> found = rl.table("llama-3.1-8b", ["h100-sxm", "l40s"], isl=range(100, 1100), basis="ideal",
    ...     reduce=["best:ttft:gpu", "histogram:ttft:10,100"])
    >>> found
    <DataSet: 2000 rows; best:ttft_ms:gpu, histogram:ttft_ms:10,100>
    >>> len(found)
    2000
    >>> [(row["gpu"], row["isl"]) for row in found.reduced["best:ttft_ms:gpu"]]
    [('h100-sxm', 100), ('l40s', 100)]
    >>> found.to_dict(["gpu"])["row_count"], found.to_rows(["gpu"])[0]
    (2000, {'reduction': 'best:ttft_ms:gpu', 'gpu': 'h100-sxm'})
    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as folder:
    ...     found = rl.table("llama-3.1-8b", "h100-sxm", isl=range(100, 1100), keys=["isl", "ttft_ms"], out=folder)
    ...     found.to_arrow(["isl"]).num_rows, found.nbytes > 1000
    (1000, True)
    >>> found.to_polars().shape  # doctest: +SKIP
    (1000, 3)
    """

    rows: int
    folder: str | None  # None where no rows were written
    blocks: int
    computed: int  # rows that were computed now, not before
    seconds: float = field(repr=False)
    reduced: Mapping[str, Sequence[Mapping[str, Json]]] = field(default_factory=dict, repr=False)

    def __repr__(self) -> str:
        where = "" if self.folder is None else f" {self.folder}: {counted(self.blocks, 'block')},"
        kinds = f"; {', '.join(self.reduced)}" if self.reduced else ""
        colon = ":" if self.folder is None else ""
        return f"<DataSet{colon}{where} {counted(self.rows, 'row')}{kinds}>"

    def __len__(self) -> int:
        return self.rows

    def to_dict(self, keys: Iterable[str] | None = None) -> Mapping[str, object]:
        """Where the rows are, how many, and what they were reduced to.

        Args:
            keys: the keys of reduced rows to keep; None for all.
        """
        rows: list[dict[str, object]] = [
            {_REDUCTION: name, **row} for name, kept in self.reduced.items() for row in kept
        ]
        if keys is not None:
            columns = (_REDUCTION, *listed_keys(keys))
            check_keys(columns, dict.fromkeys(key for row in rows for key in row) or columns)
            rows = [{key: row[key] for key in columns if key in row} for row in rows]
        return {
            "folder": self.folder,
            "row_count": self.rows,
            "blocks": self.blocks,
            "computed": self.computed,
            "rows": rows,
        }

    @property
    def nbytes(self) -> int:
        """Size of the files of its blocks [B]."""
        return 0 if self.folder is None else size_of(self._path())

    def to_arrow(self, keys: Iterable[str] | None = None) -> ArrowTable:
        """All rows as a table of pyarrow, in memory.

        Args:
            keys: the keys to keep; None for all.

        Raises:
            BadInput: no rows were written.
        """
        return arrow_of(self._path(), None if keys is None else listed_keys(keys))

    def to_polars(self, keys: Iterable[str] | None = None) -> PolarsFrame:
        """All rows as a data frame of polars, in memory; `polars.scan_parquet` reads them as they are needed.

        Args:
            keys: the keys to keep; None for all.

        Raises:
            BadInput: no rows were written, or polars is not installed.
        """
        from roofline.outputs.files import frame_of_arrow

        return frame_of_arrow(self.to_arrow(keys))

    def _path(self) -> Any:
        from pathlib import Path

        if self.folder is None:
            raise BadInput("no rows were written; give `out`, a folder")
        return Path(self.folder)


class Stopped(KeyboardInterrupt):
    """Ctrl-C; the message says what is done."""


def compute(
    source: Source,
    keys: Sequence[str],
    reductions: Sequence[Reduction],
    workers: Workers,
    *,
    out: str | None = None,
    resume: bool = False,
) -> DataSet:
    """Compute the blocks of a table that are missing, and keep what is asked for.

    Raises:
        BadInput: a folder that is another question's or cannot be written to, or a reduction that keeps too much.
        Failed: workers that die, or lack the package.
        Stopped: Ctrl-C.
    """
    check_limits(reductions, has_limits=source.has_limits)
    if out is None and not reductions:
        raise BadInput("nothing would be kept; give `out`, a folder for the rows, or `reduce`")
    asked, manifest = _asked(source, keys if out is not None else (), reductions)
    if out is None:
        if resume:
            raise BadInput("`resume` goes on with a folder; give `out`")
        return _run(asked, workers, None)
    with opened(out, manifest, resume=resume) as folder:
        return _run(asked, workers, folder)


def _run(asked: BlocksAsked, workers: Workers, folder: Folder | None) -> DataSet:
    start = perf_counter()
    source: Source = asked.source
    states: list[State] = [{} for _ in asked.reductions]
    rows_of = {number: end - first for number in range(asked.blocks) for first, end in [asked.range(number)]}
    present = 0
    for number, kept in ({} if folder is None else folder.kept(rows_of)).items():
        present += kept.rows
        del rows_of[number]
        more = [from_json(each, state) for each, state in zip(asked.reductions, kept.states, strict=True)]
        states = _together(asked, states, more)
    count = asked.blocks - len(rows_of)
    question = _written(asked, catalog_fingerprint())
    try:
        with counting("rows", source.rows, before=present) as done:
            rows = present
            for number, block in workers.answers(computed_block, question, list(rows_of)):
                if folder is not None:
                    folder.write(number, block.data)
                states = _together(asked, states, block.states)
                rows, count = rows + block.rows, count + 1
                done(rows)
    except KeyboardInterrupt:
        raise Stopped(f"stopped: {_so_far(asked, folder, count)}") from None
    except RooflineError as error:
        if folder is None:
            raise
        raise _with_end(error, f"; {_so_far(asked, folder, count)}") from None
    reduced_rows = {each.text: _rows(each, state, source) for each, state in zip(asked.reductions, states, strict=True)}
    if folder is not None:
        folder.finish(reduced_rows)
    path = None if folder is None else str(folder.path)
    return DataSet(source.rows, path, asked.blocks, source.rows - present, perf_counter() - start, reduced_rows)


def _together(asked: BlocksAsked, states: list[State], more: list[State]) -> list[State]:
    return [merged(each, one, other) for each, one, other in zip(asked.reductions, states, more, strict=True)]


def _so_far(asked: BlocksAsked, folder: Folder | None, count: int) -> str:
    done = f"{count:,} of {counted(f'{asked.blocks:,}', 'block')}"
    if folder is None:
        return f"computed {done}; nothing is kept without a folder (`out`)"
    return f"{folder.path} holds {done}; the same question with `resume` goes on"


def _with_end(error: RooflineError, end: str) -> RooflineError:
    """The same error, whose message says what is done."""
    return type(error)(f"{error}{end}")


def _rows(reduction: Reduction, state: State, source: Source) -> list[Mapping[str, Any]]:
    """What a reduction kept, as rows."""
    if not reduction.keeps_rows:
        return cast("list[Mapping[str, Any]]", counted_rows(reduction, state))
    points = kept_rows(state)
    with unpacked(source.files) as folder:
        placed = source.placed(folder) if folder else source
        numbers = [int(point[-1]) for _, point in points]
        rows = placed.rows_at(numbers, None if len(numbers) <= _MOST_WHOLE else _BRIEF)
    for row, (group, point) in zip(rows, points, strict=True):
        row.update(zip(reduction.per, group, strict=True))
        row.update(zip(reduction.figures, point, strict=False))  # as they were compared, to the last digit
        row[_ROW] = int(point[-1])
    return cast("list[Mapping[str, Any]]", rows)
