"""Tables for programs: flat rows as CSV, JSON, Parquet and sheets."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from roofline.errors import BadInput, printable

if TYPE_CHECKING:
    from pathlib import Path

__all__ = ["SCHEMA_VERSION", "SUFFIXES", "csv_text", "json_text", "write_rows"]

#: Formats of tables, by the suffix of the file.
SUFFIXES = (".csv", ".json", ".parquet", ".xlsx")

SCHEMA_VERSION = 1

# A text that begins so would be calculated, the full-width signs in some languages; an apostrophe makes it a text.
_FORMULA = tuple("=+-@\uff1d\uff0b\uff0d\uff20")
_NEXT_CELL = r"([;\t]\s*)(?=[=+\-@\uff1d\uff0b\uff0d\uff20])"  # where other separators are usual
_WIDEST = 40  # characters of a column of a sheet


def write_rows(rows: Sequence[Mapping[str, Any]], path: str, *, force: bool) -> None:
    """Write flat rows as the table that a file's suffix names; to a pipe or device without one as CSV.

    Args:
        rows: flat rows that share their keys.
        path: file ending in one of `SUFFIXES` [path].
        force: overwrite a file that exists [bool].

    Raises:
        BadInput: another suffix, a library that is not installed, or a file that exists or cannot be written.
    """
    from pathlib import Path

    from roofline.api.writing import is_stream, write_whole

    suffix = Path(path).suffix.lower() or (SUFFIXES[0] if is_stream(path) else "")
    if suffix not in SUFFIXES:
        raise BadInput(f"{path}: not a table; end the name in {', '.join(SUFFIXES)}")
    writer = {".parquet": _parquet, ".xlsx": _sheet}.get(suffix)
    if writer is not None:
        found = writer(rows)
        write_whole(path, found, force=force)
        return
    text = csv_text(rows) if suffix == ".csv" else json_text(rows)
    write_whole(path, lambda beside: beside.write_text(text, encoding="utf-8"), force=force)


def json_text(rows: Sequence[Mapping[str, Any]], extra: Mapping[str, Any] | None = None) -> str:
    """Rows in the JSON contract.

    Args:
        rows: flat rows.
        extra: further top-level keys.

    Returns:
        The text, ending in a new line [text].
    """
    import json

    content = {"schema_version": SCHEMA_VERSION, "rows": list(rows), **(extra or {})}
    return json.dumps(content, indent=2, default=_day) + "\n"


def csv_text(rows: Sequence[Mapping[str, Any]]) -> str:
    """Rows as comma-separated values under the keys of the first.

    Args:
        rows: flat rows that share their keys.

    Returns:
        The text; nothing stands for what does not apply, lists are joined by semicolons [text].
    """
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
    """A value as text for a file that spreadsheets open: none of it is a formula, no line is broken by a return."""
    cell = _joined(value)
    if isinstance(cell, bool):
        return "true" if cell else "false"
    if not isinstance(cell, str):
        return cell
    text = re.sub(_NEXT_CELL, r"\1'", cell.replace("\r\n", "\n").replace("\r", "\n"))
    return printable(f"'{text}" if text.lstrip().startswith(_FORMULA) else text, lines=True)


def _parquet(rows: Sequence[Mapping[str, Any]]) -> Callable[[Path], object]:
    try:
        import pyarrow as pa
        import pyarrow.parquet as pq
    except ImportError:
        raise BadInput('Parquet needs pyarrow: pip install "roofline[parquet]"') from None
    table = pa.Table.from_pylist([{key: _fit(value) for key, value in row.items()} for row in rows])
    return lambda beside: pq.write_table(table, beside, compression="zstd")


def _sheet(rows: Sequence[Mapping[str, Any]]) -> Callable[[Path], object]:
    try:
        from roofline.workbook.writer import Book
    except ImportError:
        raise BadInput('a sheet needs XlsxWriter: pip install "roofline[xlsx]"') from None

    def write(beside: Path) -> None:
        book = Book(beside)
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


def _day(value: Any) -> str:
    """A day, as YAML reads it without quotes, as the text that a shipped file has for it."""
    if not hasattr(value, "isoformat"):
        raise TypeError(f"{type(value).__name__} cannot be written as JSON")
    return str(value.isoformat())


def _joined(value: Any) -> Any:
    return "; ".join(map(str, value)) if isinstance(value, (list, tuple)) else value


def _fit(value: Any) -> Any:
    """A value whose texts any reader can show."""
    if isinstance(value, (list, tuple)):
        return [_fit(item) for item in value]
    return printable(value, lines=True) if isinstance(value, str) else value
