"""Sheets of a workbook: cells with formulas and the values that they have, names, choices, styles."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
import xlsxwriter
from xlsxwriter.utility import xl_col_to_name
from xlsxwriter.worksheet import Worksheet

from roofline.errors import BadInput, printable
from roofline.workbook.cell import INFINITE, Cell
from roofline.workbook.cell_text import spreadsheet_formula

__all__ = ["Book", "Sheet", "address", "cached"]

_SHARED = "\2"  # before the range, the number and the text of a formula that many rows share

#: XlsxWriter shares no formulas; where its inner workings are others than known, ours are written out.
_CAN_SHARE = hasattr(Worksheet, "_xml_formula_element") and hasattr(Worksheet, "_prepare_formula")

_STYLES: Mapping[str, Mapping[str, Any]] = {
    "title": {"bold": True, "font_size": 14},
    "head": {"bold": True, "bottom": 1, "text_wrap": True, "valign": "top"},
    "label": {},
    "bold": {"bold": True},
    "word": {"bold": True, "align": "right"},
    "note": {"font_color": "#666666", "italic": True},
    "input": {"bg_color": "#FFF6CC", "border": 1, "border_color": "#CCCCCC"},
    "result": {"bold": True, "num_format": "#,##0.00"},
    "number": {"num_format": "#,##0.00"},
    "whole": {"num_format": "#,##0"},
    "share": {"num_format": "0%"},
    "small": {"num_format": "0.000E+00"},
    "rate": {"num_format": '0.00,,,," T/s"'},
    "flops": {"num_format": '#,##0.0,,,," T"'},
    "bytes": {"num_format": '0.0,,," GB"'},
    "link": {"num_format": '#,##0.0,,," GB/s"'},
    "general": {},
    "wrapped": {"text_wrap": True, "valign": "top"},
}


class _Plain(Worksheet):  # type: ignore[misc]
    """A sheet whose formulas are written as they are: they have no function that needs a prefix.

    A formula that fills many rows is written once and shared, as spreadsheets themselves save it: a tenth of the file.
    """

    def _prepare_formula(self, formula: str, expand_future_functions: bool = False) -> str:  # noqa: ARG002
        return formula.removeprefix("=")

    def _xml_formula_element(self, formula: str, result: Any, attributes: Sequence[tuple[str, Any]] = ()) -> None:
        if not formula.startswith(_SHARED):
            super()._xml_formula_element(formula, result, attributes)
            return
        _, area, index, text = formula.split(_SHARED)
        own = "".join(f' {key}="{self._escape_attributes(value)}"' for key, value in attributes)
        first = f' ref="{area}" si="{index}">{self._escape_data(text)}</f>'
        said = '<f t="shared"' + (first if area else f' si="{index}"/>')
        self.fh.write(f"<c{own}>{said}<v>{self._escape_data(result)}</v></c>")


class Book:
    """A workbook that is being written."""

    def __init__(self, path: Path) -> None:
        self.path, self._content = path, BytesIO()
        options = {"strings_to_formulas": False, "strings_to_urls": False, "in_memory": True}
        self.book = xlsxwriter.Workbook(self._content, options)
        self.book.set_calc_mode("auto")
        typed = {f"{name} input": {**style, **_STYLES["input"]} for name, style in _STYLES.items()}
        styles = {**_STYLES, **typed}
        self.styles = {name: self.book.add_format(dict(style)) for name, style in styles.items()}

    def sheet(self, name: str) -> Sheet:
        """A new sheet, after those before.

        Args:
            name: of the sheet [text].

        Returns:
            The sheet.
        """
        sheet = self.book.add_worksheet(name, worksheet_class=_Plain)
        sheet.set_landscape()
        sheet.fit_to_pages(1, 0)  # as wide as a page when printed
        return Sheet(self, sheet, name)

    def define(self, name: str, reference: str) -> None:
        """Give cells a name that formulas use.

        Args:
            name: which looks like no address [text].
            reference: the cells [text].

        Raises:
            BadInput: spreadsheets do not take such a name.
        """
        if self.book.define_name(name, f"={reference}") != 0:
            raise BadInput(f"{name} is not a valid name in a workbook")

    def close(self) -> None:
        """Write the file.

        Raises:
            OSError: it cannot be written.
        """
        self.book.close()
        self.path.write_bytes(self._content.getvalue())


class Sheet:
    """One sheet of a workbook; rows and columns count from zero."""

    def __init__(self, book: Book, sheet: Any, name: str) -> None:
        self.book, self.sheet, self.name = book, sheet, name
        self.shared = 0  # formulas that fill several rows

    def text(self, row: int, column: int, text: str, style: str = "label") -> None:
        """Write a text as a text, whatever it begins with and holds.

        Args:
            row: of the cell [1].
            column: of the cell [1].
            text: the text [text].
            style: of the cell [text].
        """
        self.sheet.write_string(row, column, printable(text, lines=True), self.book.styles[style])

    def value(self, row: int, column: int, value: Any, style: str = "general") -> None:
        """Write what is typed in: a number, a text, or nothing.

        Args:
            row: of the cell [1].
            column: of the cell [1].
            value: number, text, or None for a blank.
            style: of the cell [text].
        """
        if value is None or value == "":
            self.sheet.write_blank(row, column, None, self.book.styles[style])
        elif isinstance(value, str):
            self.text(row, column, value, style)
        elif isinstance(value, bool):
            self.sheet.write_boolean(row, column, value, self.book.styles[style])
        elif not math.isfinite(value):
            self.sheet.write_formula(row, column, "NA()", self.book.styles[style], "#N/A")
        else:
            self.sheet.write_number(row, column, value, self.book.styles[style])

    def formula(self, row: int, column: int, text: str, value: Any, style: str = "general") -> None:
        """Write a formula with the value that it has now.

        Args:
            row: of the cell [1].
            column: of the cell [1].
            text: without an equal sign [text].
            value: number, text or truth.
            style: of the cell [text].
        """
        self.sheet.write_formula(row, column, text, self.book.styles[style], cached(value))

    def cell(
        self, row: int, column: int, cell: Any, places: Mapping[int, str], style: str = "general", line: int = 0
    ) -> None:
        """Write a cell of a sheet: its formula, or the plain number or text that it is.

        Args:
            row: of the cell [1].
            column: of the cell [1].
            cell: what to write.
            places: addresses of cells that have a place; its own is left aside.
            style: of the cell [text].
            line: which of its values is shown [1].
        """
        if isinstance(cell, Cell):
            self.formula(row, column, spreadsheet_formula(cell, places), _at(cell.value, line), style)
        else:
            self.value(row, column, cell, style)

    def rows(
        self,
        first: int,
        columns: Sequence[tuple[int, Any, str]],
        places: Mapping[int, str],
        count: int,
        *,
        share: bool = True,
    ) -> None:
        """Write cells of many cases, each a column, a row each.

        Args:
            first: row of the first case [1].
            columns: place, cell and style of each column.
            places: addresses; a NUL in them stands for the row.
            count: number of cases [1].
            share: write a formula once for all rows, as spreadsheets do; rows that depend on each other are written
                out, as LibreOffice 7.4 loses its way in long chains of shared ones [bool].
        """
        for column, cell, style in columns:
            if not isinstance(cell, Cell):
                for line in range(count):
                    self.value(first + line, column, cell, style)
                continue
            values = np.broadcast_to(np.asarray(cell.value).reshape(-1), (count,)).tolist()
            chosen, text = self.book.styles[style], spreadsheet_formula(cell, places)
            if not (share and _CAN_SHARE and count > 1):
                for line, value in enumerate(values):
                    own = text.replace("\0", f"${first + line + 1}")
                    self.sheet.write_formula(first + line, column, own, chosen, cached(value))
                continue
            area = f"{address(first, column)}:{address(first + count - 1, column)}".replace("$", "")
            text = text.replace("\0", str(first + 1))
            rest = _SHARED.join(("", "", str(self.shared), ""))
            for line, value in enumerate(values):
                own = rest if line else _SHARED.join(("", area, str(self.shared), text))
                self.sheet.write_formula(first + line, column, own, chosen, cached(value))
            self.shared += 1

    def widen(self, first: int, last: int, width: float, *, folded: bool = False) -> None:
        """Set the width of columns.

        Args:
            first: first column [1].
            last: last column [1].
            width: in characters [1].
            folded: whether they are folded away, to be opened by a click [bool].
        """
        how = {"level": 1, "hidden": True} if folded else {}
        self.sheet.set_column(first, last, width, None, how)

    def head(self, rows: int, columns: int, area: tuple[int, int] | None = None) -> None:
        """Keep the first rows and columns in sight, and let a table be filtered.

        Args:
            rows: first rows [1].
            columns: first columns [1].
            area: rows below the head and columns of the table; None for no filter [1].
        """
        self.sheet.freeze_panes(rows, columns)
        if area is not None:
            self.sheet.autofilter(0, 0, area[0], area[1] - 1)

    def choices(self, first: int, last: int, column: int, source: Any, *, strict: bool = True) -> None:
        """Offer choices in cells of a column.

        Args:
            first: first row [1].
            last: last row [1].
            column: the column [1].
            source: texts and numbers, or the name of the cells that hold them.
            strict: refuse anything else [bool].
        """
        offered = {"validate": "list", "source": source, "show_error": strict}
        self.sheet.data_validation(first, column, last, column, offered)


def address(row: int | None, column: int, sheet: str = "") -> str:
    """Absolute address of a cell.

    Args:
        row: from 0 on; None for a NUL, which stands for the row of a formula [1].
        column: from 0 on [1].
        sheet: name of its sheet, where it is another one [text].

    Returns:
        The address [text].

    >>> address(4, 27, "Kernels")
    'Kernels!$AB$5'
    """
    place = f"${xl_col_to_name(column)}\0" if row is None else f"${xl_col_to_name(column)}${row + 1}"
    return f"{sheet}!{place}" if sheet else place


def cached(value: Any) -> Any:
    """A value as it stands beside its formula.

    Args:
        value: number, text or truth, of numpy or not.

    Returns:
        It as a file has it; what is no number is the error that a sheet shows.
    """
    plain = value.item() if isinstance(value, np.generic) else value
    if isinstance(plain, float) and math.isnan(plain):
        return "#N/A"
    return INFINITE if isinstance(plain, float) and math.isinf(plain) else plain


def _at(value: Any, line: int) -> Any:
    flat = np.asarray(value).reshape(-1)
    return flat[line if len(flat) > 1 else 0]
