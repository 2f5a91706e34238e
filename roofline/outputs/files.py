"""Flat rows as CSV, JSON, Parquet and XLSX files, written whole or not at all."""

from __future__ import annotations

import errno
import os
import re
import stat
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

from roofline.support.errors import BadInput, needing, printable
from roofline.support.reading import descriptor_of

if TYPE_CHECKING:
    from pathlib import Path

    import polars as pl
    import pyarrow as pa

    from roofline.numbers.columns import Column

    ArrowTable: TypeAlias = pa.Table
    PolarsFrame: TypeAlias = pl.DataFrame

# Flat rows as CSV, JSON, Parquet and XLSX files.

#: Formats of tables, by the suffix of the file.
SUFFIXES = (".csv", ".json", ".parquet", ".xlsx")

SCHEMA_VERSION = 1

# Spreadsheets evaluate a text that begins like this (full-width signs in some languages); an apostrophe prevents it.
_FORMULA = tuple("=+-@\uff1d\uff0b\uff0d\uff20")
_NEXT_CELL = r"([;\t]\s*)(?=[=+\-@\uff1d\uff0b\uff0d\uff20])"  # for locales with other separators
_MOST_ROWS = (1 << 20) - 1  # of a sheet, below its heads
_WIDEST = 40  # characters of a column


def write_rows(rows: Sequence[Mapping[str, Any]], path: str, *, force: bool, piped: str = SUFFIXES[0]) -> None:
    """Write rows in the format that the suffix names; to a pipe or device without one as `piped`."""
    suffix = _suffix_of(path, piped)
    writer = {".parquet": _parquet, ".xlsx": _sheet}.get(suffix)
    if writer is not None:
        write_whole(path, writer(rows), force=force)
        return
    text = csv_text(rows) if suffix == ".csv" else json_text(rows)
    write_whole(path, lambda file: file.write_text(text, encoding="utf-8"), force=force)


def _suffix_of(path: str, piped: str) -> str:
    """The suffix that says the format of a table; of a pipe or device without one, `piped`."""
    from pathlib import Path

    suffix = Path(path).suffix.lower() or (piped if is_stream(path) else "")
    if suffix not in SUFFIXES:
        raise BadInput(f"{path}: not a table; end the name in {', '.join(SUFFIXES)}")
    return suffix


def json_text(rows: Sequence[Mapping[str, Any]], extra: Mapping[str, Any] | None = None) -> str:
    """Rows in the JSON contract; `extra` are further top-level keys."""
    import json

    content = {"schema_version": SCHEMA_VERSION, "rows": list(rows), **(extra or {})}
    return json.dumps(content, indent=2, default=_iso_date) + "\n"


def csv_text(rows: Sequence[Mapping[str, Any]]) -> str:
    """Rows as CSV, headed by the keys of the first; lists are joined by semicolons, None is empty."""
    import csv
    import io

    text = io.StringIO()
    if rows:
        writer = csv.DictWriter(text, fieldnames=list(rows[0]), lineterminator="\n")
        writer.writeheader()
        for row in rows:
            writer.writerow({key: _csv_cell(value) for key, value in row.items()})
    return text.getvalue()


def _csv_cell(value: Any) -> Any:
    """A value that spreadsheets read as text, never as a formula, and without carriage returns."""
    cell = _joined(value)
    if isinstance(cell, bool):
        return "true" if cell else "false"
    if not isinstance(cell, str):
        return cell
    text = re.sub(_NEXT_CELL, r"\1'", cell.replace("\r\n", "\n").replace("\r", "\n"))
    return printable(f"'{text}" if text.lstrip().startswith(_FORMULA) else text, lines=True)


def _parquet(rows: Sequence[Mapping[str, Any]]) -> Callable[[Path], object]:
    with needing("Parquet needs pyarrow", "parquet"):
        import pyarrow as pa
        import pyarrow.parquet as pq
    table = pa.Table.from_pylist([{key: _printable(value) for key, value in row.items()} for row in rows])
    return lambda file: pq.write_table(table, file, compression="zstd")


def _check_sheet(rows: int) -> None:
    if rows > _MOST_ROWS:
        raise BadInput(f"{rows} rows exceed the {_MOST_ROWS} of a sheet; write them to a file in .csv or .parquet")


def _sheet(rows: Sequence[Mapping[str, Any]]) -> Callable[[Path], object]:
    _check_sheet(len(rows))
    with needing("a sheet needs XlsxWriter", "xlsx"):
        from roofline.outputs.workbook.writer import Book

    def write(file: Path) -> None:
        book = Book(file)
        sheet = book.sheet("predictions")
        keys = list(rows[0]) if rows else []
        for column, key in enumerate(keys):
            cells = [_joined(row[key]) for row in rows]
            sheet.text(0, column, key, "bold")
            for line, cell in enumerate(cells, 1):
                sheet.value(line, column, cell)
            sheet.widen(column, column, min(max(map(len, map(str, (key, *cells)))), _WIDEST))
        sheet.head(1, 0, (len(rows), len(keys)) if rows else None)
        book.close()

    return write


# Tables of columns: the same files, written a block of rows after the other.


class InColumns(Protocol):
    """A block of rows, by its columns."""

    @property
    def columns(self) -> dict[str, Column]: ...

    def __len__(self) -> int: ...
    def to_rows(self) -> list[Any]: ...


def write_blocks(blocks: Iterable[InColumns], path: str, *, force: bool, piped: str = SUFFIXES[0]) -> int:
    """Write blocks of rows as `write_rows` does, with memory for one of them; a sheet is put together first.

    Returns:
        Number of rows.
    """
    suffix, counts = _suffix_of(path, piped), [0]

    def counted_blocks() -> Iterator[InColumns]:
        for block in blocks:
            counts[0] += len(block)
            yield block

    if suffix == ".xlsx":
        _check_sheet(getattr(blocks, "rows", 0))
        rows = [row for block in counted_blocks() for row in block.to_rows()]
        write_whole(path, _sheet(rows), force=force)
    elif suffix == ".parquet":
        write_whole(path, _parquet_of_blocks(counted_blocks()), force=force)
    else:
        parts = csv_parts(counted_blocks()) if suffix == ".csv" else json_parts(counted_blocks())

        def write(file: Path) -> None:
            with file.open("w", encoding="utf-8", newline="\n") as opened:
                opened.writelines(parts)

        write_whole(path, write, force=force)
    return counts[0]


def csv_parts(blocks: Iterable[InColumns]) -> Iterator[str]:
    """The text of `csv_text` block by block."""
    for number, block in enumerate(blocks):
        if not number:
            yield ",".join(map(_csv_text, block.columns)) + "\n"
        columns: Mapping[str, Any] = block.columns
        parts: list[list[str]] = []  # of a line; columns with the same text in all rows are one with those beside them
        for column in columns.values():
            texts = column.texts() if hasattr(column, "values") else column.texts(_csv_text)
            if len(texts) == 1 and parts and len(parts[-1]) == 1:
                parts[-1] = [f"{parts[-1][0]},{texts[0]}"]
            else:
                parts.append(texts)
        rows = len(block)
        lines = zip(*(part if len(part) == rows else part * rows for part in parts), strict=True)
        yield "\n".join(map(",".join, lines)) + "\n"


def _csv_text(value: Any) -> str:
    """A cell of `csv_text`, quoted where it must be."""
    import csv
    import io

    text = io.StringIO()
    csv.writer(text, lineterminator="").writerow([_csv_cell(list(value) if isinstance(value, tuple) else value), None])
    return text.getvalue().removesuffix(",")


def json_parts(blocks: Iterable[InColumns]) -> Iterator[str]:
    """The text of `json_text` block by block."""
    import json

    start, end = json_text([]).split("]")
    before = start  # not printed before there is a block
    for block in blocks:
        for row in block.to_rows():
            text = json.dumps(row, indent=2, default=_iso_date).replace("\n", "\n    ")
            yield f"{before}\n    {text}"
            before = ","
    yield f"\n  ]{end}"


def arrow_table(columns: Mapping[str, Column]) -> ArrowTable:
    """Columns as a table of pyarrow."""
    with needing("Arrow needs pyarrow", "parquet"):
        import pyarrow as pa
    return pa.table({key: _arrow_column(column) for key, column in columns.items()})


def polars_frame(columns: Mapping[str, Column]) -> PolarsFrame:
    """Columns as a data frame of polars."""
    return frame_of_arrow(arrow_table(columns))


def frame_of_arrow(table: ArrowTable) -> PolarsFrame:
    """A table of pyarrow as a data frame of polars, which is optional, and imported here alone."""
    try:
        import polars as pl
    except ImportError:
        raise BadInput("to_polars needs polars: pip install polars; to_rows gives the rows as dictionaries") from None
    return pl.DataFrame(table)


def _arrow_column(column: Any) -> Any:
    import pyarrow as pa

    if hasattr(column, "values"):
        numbers = pa.array(column.values, from_pandas=True)
        return numbers.cast(pa.int64()) if column.is_whole else numbers
    words = [_printable(list(word) if isinstance(word, tuple) else word) for word in column.words]
    kind = {"texts": pa.list_(pa.string()), "flag": pa.bool_()}.get(column.kind, pa.string())
    return pa.array(words, kind).take(pa.array(column.codes))


def _parquet_of_blocks(blocks: Iterable[InColumns]) -> Callable[[Path], object]:
    with needing("Parquet needs pyarrow", "parquet"):
        import pyarrow.parquet as pq

    def write(file: Path) -> None:
        tables = (arrow_table(block.columns) for block in blocks)
        first = next(tables, None)
        if first is None:
            return
        with pq.ParquetWriter(file, first.schema, compression="zstd") as writer:
            writer.write_table(first)
            for table in tables:
                writer.write_table(table)

    return write


def _iso_date(value: Any) -> str:
    """YAML reads an unquoted date as a date object; JSON gets the text of the file back."""
    if not hasattr(value, "isoformat"):
        raise TypeError(f"{type(value).__name__} cannot be written as JSON")
    return str(value.isoformat())


def _joined(value: Any) -> Any:
    return "; ".join(map(str, value)) if isinstance(value, (list, tuple)) else value


def _printable(value: Any) -> Any:
    if isinstance(value, (list, tuple)):
        return [_printable(item) for item in value]
    return printable(value, lines=True) if isinstance(value, str) else value


# Writing files: whole or not at all, and over an existing file only on request.

_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_NOFOLLOW", 0)
_NO_SYNC = {errno.EINVAL, errno.ENOSYS, errno.ENOTSUP}  # the file system has no fsync
_NO_LINK = {errno.EPERM, errno.ENOSYS, errno.ENOTSUP, errno.EACCES, errno.EMLINK, errno.EXDEV}  # has no hard links
_MOST_LINKS = 40
_SEPARATORS = tuple(filter(None, (os.sep, os.altsep)))


def is_stream(path: str) -> bool:
    """Whether writes pass through the path: a pipe, a device, or an open file such as ``/dev/stdout``."""
    from pathlib import Path

    try:
        return descriptor_of(path) is not None or stat.S_IFMT(Path(path).stat().st_mode) in (stat.S_IFIFO, stat.S_IFCHR)
    except (OSError, ValueError):
        return False


def check_target(path: str, *, force: bool) -> None:
    """Refuse a target that must not be written, before any work is done."""
    try:
        if not is_stream(path):
            _followed(path, _present(path, force=force))
    except (OSError, ValueError) as fault:
        raise _cannot(path, fault) from None


def write_whole(path: str, write: Callable[[Path], object], *, force: bool, make_folder: bool = False) -> None:
    """Write a file in one step, so that a failure leaves the old content.

    Links are followed; the file they lead to is written and keeps its mode. Pipes, devices and open files
    (``/dev/stdout``, ``/dev/fd/3``) are written to directly. `write` gets the path of an empty file to fill.
    """
    path = os.fspath(path)
    try:
        if is_stream(path):
            _pass_through(path, write)
            return
        old = _present(path, force=force)
        target = _followed(path, old)
        if make_folder:
            target.parent.mkdir(parents=True, exist_ok=True)
        _replace(path, target, old, write, force=force)
    except (OSError, ValueError) as fault:  # ValueError: a zero byte in the name
        raise _cannot(path, fault) from None


def _cannot(path: str, fault: Exception) -> BadInput:
    return BadInput(f"{path} cannot be written: {getattr(fault, 'strerror', None) or fault}")


def _exists(path: str) -> BadInput:
    return BadInput(f"{path} exists; overwrite it with `force`")


def _present(path: str, *, force: bool) -> os.stat_result | None:
    """The file at a path, links followed, if it may be overwritten; None where there is nothing."""
    from pathlib import Path

    if not path:
        raise BadInput("the output path is empty; give a file name")
    try:
        old = Path(path).stat()
    except FileNotFoundError:
        if path.endswith(_SEPARATORS):
            raise BadInput(f"{path} is a folder; give a file name in it") from None
        return None
    if stat.S_ISDIR(old.st_mode):
        raise BadInput(f"{path} is a folder; give a file name in it")
    if not stat.S_ISREG(old.st_mode):
        raise BadInput(f"{path} cannot be written: not a regular file")
    if not force:
        raise _exists(path)
    if not os.access(path, os.W_OK):
        raise BadInput(f"{path} cannot be written: read-only")
    return old


def _followed(path: str, old: os.stat_result | None) -> Path:
    """The file that a path leads to, links followed."""
    from pathlib import Path

    target = Path(path)
    for _ in range(_MOST_LINKS):
        if not target.is_symlink():
            return target
        if old is None:
            raise BadInput(f"{path} is a link to {target.readlink()}, which does not exist; give that file instead")
        target = target.parent / target.readlink()
    raise OSError(errno.ELOOP, os.strerror(errno.ELOOP))


def _replace(
    path: str, target: Path, old: os.stat_result | None, write: Callable[[Path], object], *, force: bool
) -> None:
    """Write to a temporary file in the same folder, and rename it over the target."""
    temporary = target.parent / f".roofline-{os.urandom(8).hex()}"  # short: the file's own may be the longest
    os.close(os.open(temporary, _NEW, 0o666 if old is None else 0o600))  # a new file has the mode of the umask
    try:
        write(temporary)
        if old is not None:
            _keep_owner_and_mode(temporary, old)
        sync(temporary)
        if force:
            temporary.replace(target)
        else:
            _take_name(path, temporary, target)
    finally:
        with suppress(OSError):
            temporary.unlink()


def _take_name(path: str, temporary: Path, target: Path) -> None:
    """Link the file to its name, unless another process has taken it meanwhile."""
    try:
        os.link(temporary, target)
    except FileExistsError:
        raise _exists(path) from None
    except OSError as fault:
        if fault.errno not in _NO_LINK:
            raise
        if os.path.lexists(target):
            raise _exists(path) from None
        temporary.replace(target)


def _keep_owner_and_mode(temporary: Path, old: os.stat_result) -> None:
    new = temporary.stat()
    if (new.st_uid, new.st_gid) != (old.st_uid, old.st_gid):
        with suppress(OSError):  # only root may give files away
            os.chown(temporary, old.st_uid, old.st_gid)
    temporary.chmod(stat.S_IMODE(old.st_mode))


def sync(temporary: Path) -> None:
    """Flush to disk before the rename: a crash leaves the old file or the new one."""
    opened = os.open(temporary, os.O_RDONLY)
    try:
        os.fsync(opened)
    except OSError as fault:
        if fault.errno not in _NO_SYNC:
            raise
    finally:
        os.close(opened)


def _pass_through(path: str, write: Callable[[Path], object]) -> None:
    """Write to a pipe, a device or an open file by way of a temporary file."""
    import tempfile
    from pathlib import Path
    from shutil import copyfileobj

    number = descriptor_of(path)
    with tempfile.TemporaryDirectory() as folder:
        whole = Path(folder) / "whole"
        whole.touch()
        write(whole)
        for stream in (sys.stdout, sys.stderr):
            if stream is not None:
                stream.flush()  # keeps earlier output first
        opened = os.open(path, os.O_WRONLY) if number is None else os.dup(number)
        with os.fdopen(opened, "wb") as file, whole.open("rb") as data:
            copyfileobj(data, file)
