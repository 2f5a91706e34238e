"""Rows of CSV files, within size limits."""

from __future__ import annotations

import csv
import re
from collections import Counter

from roofline.errors import BadInput, shown
from roofline.reading import RESULT_BYTES, Unreadable, content

_MOST_LINES, _MOST_COLUMNS, _MOST_CELLS = 100_000, 500, 3_000_000
_LINE = re.compile(r"\r\n|\r|\n")


def csv_file(path: str, kind: str) -> tuple[list[str], list[tuple[int, list[str]]]]:
    """Heading and rows of a CSV file; `kind` says in messages what it should be."""
    try:
        text = content(path, RESULT_BYTES, kind).decode("utf-8-sig")
    except Unreadable as fault:
        raise BadInput(f"{path} {fault}") from None
    except UnicodeDecodeError as fault:
        raise BadInput(f"{path} cannot be read: {fault}") from None
    return csv_rows(text, path)


def csv_rows(text: str, source: str) -> tuple[list[str], list[tuple[int, list[str]]]]:
    """Column names, and the cells of each row with its line number; blank lines and lines with # are comments.

    >>> csv_rows("kind,m\\n# both\\ngemm,5\\n", "a.csv")
    (['kind', 'm'], [(3, ['gemm', '5'])])
    """
    if text.count("\n") + text.count("\r") > 2 * _MOST_LINES:
        raise BadInput(f"{source}: has more than {_MOST_LINES} lines; split it")
    lines = [(number, line) for number, line in enumerate(_LINE.split(text), 1) if line.strip()]
    lines = [(number, line) for number, line in lines if not line.lstrip().startswith("#")]
    if len(lines) > _MOST_LINES:
        raise BadInput(f"{source}: has more than {_MOST_LINES} lines; split it")
    reader = csv.reader((line for _, line in lines), strict=True)
    rows: list[tuple[int, list[str]]] = []
    cells = 0
    try:
        for row in reader:
            number = lines[reader.line_num - 1][0]
            if len(row) > _MOST_COLUMNS:
                raise BadInput(f"{source}:{number}: {len(row)} columns; at most {_MOST_COLUMNS} are read")
            cells += len(row)
            if cells > _MOST_CELLS:
                raise BadInput(f"{source}:{number}: more than {_MOST_CELLS} cells so far; split the table")
            rows.append((number, row))
    except csv.Error as error:
        raise BadInput(f"{source}:{lines[max(reader.line_num, 1) - 1][0]}: not CSV: {error}") from None
    heading = [cell.strip() for cell in rows[0][1]] if rows else []
    twice = next((name for name, times in Counter(heading).items() if name and times > 1), None)
    if twice is not None:
        raise BadInput(f"{source}:{rows[0][0]}: two columns are called {shown(twice)}")
    return heading, rows[1:]
