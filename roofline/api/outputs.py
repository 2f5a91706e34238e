"""Flat rows as CSV, JSON, Parquet and XLSX files."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from roofline.errors import BadInput, printable

if TYPE_CHECKING:
    from pathlib import Path


#: Formats of tables, by the suffix of the file.
SUFFIXES = (".csv", ".json", ".parquet", ".xlsx")

SCHEMA_VERSION = 1

# Spreadsheets evaluate a text that begins like this (full-width signs in some languages); an apostrophe prevents it.
_FORMULA = tuple("=+-@\uff1d\uff0b\uff0d\uff20")
_NEXT_CELL = r"([;\t]\s*)(?=[=+\-@\uff1d\uff0b\uff0d\uff20])"  # for locales with other separators
_WIDEST = 40  # characters of a column


def write_rows(rows: Sequence[Mapping[str, Any]], path: str, *, force: bool) -> None:
    """Write rows in the format that the suffix names; to a pipe or device without one as CSV."""
    from pathlib import Path

    from roofline.api.writing import is_stream, write_whole

    suffix = Path(path).suffix.lower() or (SUFFIXES[0] if is_stream(path) else "")
    if suffix not in SUFFIXES:
        raise BadInput(f"{path}: not a table; end the name in {', '.join(SUFFIXES)}")
    writer = {".parquet": _parquet, ".xlsx": _sheet}.get(suffix)
    if writer is not None:
        write_whole(path, writer(rows), force=force)
        return
    text = csv_text(rows) if suffix == ".csv" else json_text(rows)
    write_whole(path, lambda file: file.write_text(text, encoding="utf-8"), force=force)


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
    try:
        import pyarrow as pa
        import pyarrow.parquet as pq
    except ImportError:
        raise BadInput('Parquet needs pyarrow: pip install "roofline[parquet]"') from None
    table = pa.Table.from_pylist([{key: _printable(value) for key, value in row.items()} for row in rows])
    return lambda file: pq.write_table(table, file, compression="zstd")


def _sheet(rows: Sequence[Mapping[str, Any]]) -> Callable[[Path], object]:
    try:
        from roofline.workbook.writer import Book
    except ImportError:
        raise BadInput('a sheet needs XlsxWriter: pip install "roofline[xlsx]"') from None

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
