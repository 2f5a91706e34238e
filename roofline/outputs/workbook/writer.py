"""Writing sheets of a workbook: formulas with their values, names, drop-downs and styles."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
import xlsxwriter
from xlsxwriter.utility import xl_col_to_name
from xlsxwriter.worksheet import Worksheet

from roofline.outputs.workbook.cells import INFINITE, Cell, spreadsheet_formula
from roofline.outputs.workbook.typed import READINGS
from roofline.support.errors import BadInput, printable

_SHARED_FORMULA = "\2"  # before range, number and text of a formula that rows share

#: XlsxWriter cannot share formulas; without its known internals every formula is written out.
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
    """A sheet whose formulas are written as they are, because no function in them needs a prefix.

    A formula that fills many rows is written once and shared, as spreadsheets save it, in a tenth of the size.
    """

    def _prepare_formula(self, formula: str, expand_future_functions: bool = False) -> str:  # noqa: ARG002
        return formula.removeprefix("=")

    def _xml_formula_element(self, formula: str, result: Any, attributes: Sequence[tuple[str, Any]] = ()) -> None:
        if not formula.startswith(_SHARED_FORMULA):
            super()._xml_formula_element(formula, result, attributes)
            return
        _, area, index, text = formula.split(_SHARED_FORMULA)
        shared_attributes = "".join(f' {key}="{self._escape_attributes(value)}"' for key, value in attributes)
        first = f' ref="{area}" si="{index}">{self._escape_data(text)}</f>'
        formula_element = '<f t="shared"' + (first if area else f' si="{index}"/>')
        self.fh.write(f"<c{shared_attributes}>{formula_element}<v>{self._escape_data(result)}</v></c>")


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
        sheet = self.book.add_worksheet(name, worksheet_class=_Plain)
        sheet.set_landscape()
        sheet.fit_to_pages(1, 0)  # as wide as a page when printed
        return Sheet(self, sheet, name)

    def define(self, name: str, reference: str) -> None:
        """Name cells for formulas."""
        if self.book.define_name(name, f"={reference}") != 0:
            raise BadInput(f"{name} is not a valid name in a workbook")

    def close(self) -> None:
        self.book.close()
        self.path.write_bytes(self._content.getvalue())


class Sheet:
    """One sheet of a workbook; rows and columns count from zero."""

    def __init__(self, book: Book, sheet: Any, name: str) -> None:
        self.book, self.sheet, self.name = book, sheet, name
        self.shared = 0  # shared formulas so far

    def text(self, row: int, column: int, text: str, style: str = "label") -> None:
        """Write a text that is never taken for a formula."""
        self.sheet.write_string(row, column, printable(text, lines=True), self.book.styles[style])

    def texts(self, row: int, texts: Iterable[str], style: str = "head", first: int = 0) -> None:
        """Write texts beside each other."""
        for column, text in enumerate(texts, first):
            self.text(row, column, text, style)

    def value(self, row: int, column: int, value: Any, style: str = "general") -> None:
        """Write a number, a text, a truth value or a blank."""
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
        """Write a formula (without its equal sign) with its current value."""
        self.sheet.write_formula(row, column, text, self.book.styles[style], cached(value))

    def cell(
        self, row: int, column: int, cell: Any, places: Mapping[int, str], style: str = "general", line: int = 0
    ) -> None:
        """Write a cell as a formula, anything else as a value; `line` is the case whose value is shown."""
        if isinstance(cell, Cell):
            self.formula(row, column, spreadsheet_formula(cell, places), _beside(cell, _at(cell.value, line)), style)
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
        """Write columns with a row for each case."""
        for column, cell, style in columns:
            if not isinstance(cell, Cell):
                for line in range(count):
                    self.value(first + line, column, cell, style)
                continue
            values = np.broadcast_to(np.asarray(cell.value).reshape(-1), (count,)).tolist()
            values = [_beside(cell, value) for value in values]
            chosen, text = self.book.styles[style], spreadsheet_formula(cell, places)
            if not (share and _CAN_SHARE and count > 1):
                for line, value in enumerate(values):
                    row_text = text.replace("\0", f"${first + line + 1}")
                    self.sheet.write_formula(first + line, column, row_text, chosen, cached(value))
                continue
            area = f"{address(first, column)}:{address(first + count - 1, column)}".replace("$", "")
            text = text.replace("\0", str(first + 1))
            rest = _SHARED_FORMULA.join(("", "", str(self.shared), ""))
            for line, value in enumerate(values):
                row_text = rest if line else _SHARED_FORMULA.join(("", area, str(self.shared), text))
                self.sheet.write_formula(first + line, column, row_text, chosen, cached(value))
            self.shared += 1

    def widen(self, first: int, last: int, width: float, *, folded: bool = False) -> None:
        how = {"level": 1, "hidden": True} if folded else {}
        self.sheet.set_column(first, last, width, None, how)

    def head(self, rows: int, columns: int, area: tuple[int, int] | None = None) -> None:
        """Freeze the first rows and columns, and add filters to a table."""
        self.sheet.freeze_panes(rows, columns)
        if area is not None:
            self.sheet.autofilter(0, 0, area[0], area[1] - 1)

    def choices(self, first: int, last: int, column: int, source: Any, *, strict: bool = True) -> None:
        """Add a drop-down to cells of a column."""
        offered = {"validate": "list", "source": source, "show_error": strict}
        self.sheet.data_validation(first, column, last, column, offered)


def address(row: int | None, column: int, sheet: str = "") -> str:
    """Absolute address of a cell; without a row, of the row that a formula is in.

    >>> address(4, 27, "Kernels")
    'Kernels!$AB$5'
    """
    place = f"${xl_col_to_name(column)}\0" if row is None else f"${xl_col_to_name(column)}${row + 1}"
    return f"{sheet}!{place}" if sheet else place


def cached(value: Any) -> Any:
    """The value that the file stores beside a formula."""
    plain = value.item() if isinstance(value, np.generic) else value
    if isinstance(plain, float) and math.isnan(plain):
        return "#N/A"
    return INFINITE if isinstance(plain, float) and math.isinf(plain) else plain


def _beside(cell: Cell, value: Any) -> Any:
    """The value of a formula; what reads a blank, which is NaN among numbers, shows a blank."""
    is_blank = cell.operation in READINGS and isinstance(value, float) and math.isnan(value)
    return "" if is_blank else value


def _at(value: Any, line: int) -> Any:
    flat = np.asarray(value).reshape(-1)
    return flat[line if len(flat) > 1 else 0]
