"""Writing sheets of a workbook: formulas with their values, names, drop-downs and styles."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from io import BytesIO
from pathlib import Path
from textwrap import wrap
from typing import Any

import numpy as np
import xlsxwriter
from xlsxwriter import worksheet
from xlsxwriter.utility import xl_col_to_name
from xlsxwriter.worksheet import Worksheet

from roofline.outputs.workbook.cells import INFINITE, Cell, spreadsheet_formula
from roofline.outputs.workbook.typed import READINGS
from roofline.support.errors import BadInput, printable
from roofline.support.records import NamedTuple

_SHARED_FORMULA = "\2"  # before range, number and text of a formula that rows share

#: XlsxWriter cannot share formulas; without its known internals every formula is written out.
_CAN_SHARE = all(hasattr(Worksheet, name) for name in ("_xml_formula_element", "_prepare_formula"))
_CAN_SKIP = hasattr(Worksheet, "_write_formula") and hasattr(worksheet, "CellFormulaTuple")
_DIGITS = 12  # of stored values of formulas that people do not read

_STYLES: Mapping[str, Mapping[str, Any]] = {
    "title": {"bold": True, "font_size": 14},
    "verdict": {"bold": True, "font_size": 14, "text_wrap": True, "valign": "top"},
    "group": {"bold": True, "bottom": 1, "top": 1, "bg_color": "#EAEFF5"},
    "head": {"bold": True, "bottom": 1, "text_wrap": True, "valign": "top"},
    "label": {"valign": "top"},
    "bold": {"bold": True, "valign": "top"},
    "word": {"bold": True, "align": "right"},
    "range": {"align": "right", "indent": 1},
    "note": {"font_color": "#555555", "italic": True},
    "said": {"font_color": "#555555", "italic": True, "text_wrap": True, "valign": "top", "indent": 1},
    "unit": {"font_color": "#555555", "indent": 1},
    "input": {"bg_color": "#FFF6CC", "border": 1, "border_color": "#CCCCCC", "locked": False},
    "result": {"bold": True, "num_format": "#,##0.00"},
    "number": {"num_format": "#,##0.00"},
    "whole": {"num_format": "#,##0"},
    "share": {"num_format": "0%"},
    "small": {"num_format": "0.000E+00"},
    "traffic": {"num_format": '0.00,,,," TB/s"'},
    "rate": {"num_format": '0.00,,,," T/s"'},
    "flops": {"num_format": '#,##0.0,,,," T"'},
    "bytes": {"num_format": '0.0,,," GB"'},
    "link": {"num_format": '#,##0.0,,," GB/s"'},
    "general": {},
    "money": {"num_format": "#,##0", "bold": True, "align": "right"},
    "wrapped": {"text_wrap": True, "valign": "top"},
}


_A4 = 9
_LINE = 15.0  # height of a line [points]
_USUAL_WIDTH = 8.43  # of a column [characters]
_UNSEEN = 1000.0  # width that no text exceeds
_WRAPPED = ("head", "wrapped", "said")
_NOTHING = "XFD1048576"  # a cell that is always empty
#: What a sheet that is protected, without a password, still allows.
_ALLOWED = {"format_columns": True, "format_rows": True, "autofilter": True, "sort": True}
_LONGEST_TITLE, _LONGEST_MESSAGE = 32, 255  # characters of a prompt


class _Plain(Worksheet):  # type: ignore[misc]
    """A sheet whose formulas are written as they are, because no function in them needs a prefix.

    A formula that fills many rows is written once and shared, as spreadsheets save it, in a tenth of the size.
    """

    def _prepare_formula(self, formula: str, expand_future_functions: bool = False) -> str:  # noqa: ARG002
        return formula.removeprefix("=")

    def _write_formula(self, row: int, col: int, formula: str, cell_format: Any = None, value: Any = 0) -> int:
        """Skip the search for functions of later versions of Excel, which costs most of the time."""
        if not _CAN_SKIP or self._check_dimensions(row, col):
            code: int = super()._write_formula(row, col, formula, cell_format, value)
            return code
        self.table[row][col] = worksheet.CellFormulaTuple(self._prepare_formula(formula), cell_format, value)
        return 0

    def _xml_formula_element(self, formula: str, result: Any, attributes: Sequence[tuple[str, Any]] = ()) -> None:
        if not formula.startswith(_SHARED_FORMULA):
            super()._xml_formula_element(formula, result, attributes)
            return
        _, area, index, text = formula.split(_SHARED_FORMULA)
        shared_attributes = "".join([f' {key}="{value}"' for key, value in attributes])  # addresses and numbers
        first = f' ref="{area}" si="{index}">{self._escape_data(text)}</f>'
        formula_element = '<f t="shared"' + (first if area else f' si="{index}"/>')
        shown = self._escape_data(result) if isinstance(result, str) else result
        self.fh.write(f"<c{shared_attributes}>{formula_element}<v>{shown}</v></c>")


class Book:
    """A workbook that is being written."""

    def __init__(self, path: Path, title: str = "") -> None:
        self.path, self._content = path, BytesIO()
        self.sheets: list[Sheet] = []
        options = {"strings_to_formulas": False, "strings_to_urls": False, "in_memory": True}
        self.book = xlsxwriter.Workbook(self._content, options)
        self.book.set_calc_mode("auto")
        self.book.set_properties({"title": title, "author": "roofline", "comments": "Written by `roofline sheet`."})
        typed = {f"{name} input": {**style, **_STYLES["input"]} for name, style in _STYLES.items()}
        styles = {**_STYLES, **typed}
        self.styles = {name: self.book.add_format(dict(style)) for name, style in styles.items()}

    def sheet(self, name: str, colour: str = "", *, is_read: bool = True) -> Sheet:
        """A sheet that may be changed in its inputs alone; `is_read`: by people, who may print it."""
        sheet = self.book.add_worksheet(name, worksheet_class=_Plain)
        sheet.protect("", _ALLOWED)
        if colour:
            sheet.set_tab_color(colour)
        sheet.set_landscape()
        sheet.set_paper(_A4)
        sheet.set_margins(left=0.5, right=0.5, top=0.6, bottom=0.7)
        sheet.fit_to_pages(1, 0)  # as wide as a page when printed
        sheet.set_footer("&L&F&C&A&Rpage &P of &N")
        if not is_read:
            sheet.print_area(_NOTHING)
        made = Sheet(self, sheet, name)
        self.sheets.append(made)
        return made

    def define(self, name: str, reference: str) -> None:
        """Name cells for formulas."""
        if self.book.define_name(name, f"={reference}") != 0:
            raise BadInput(f"{name} is not a valid name in a workbook")

    def close(self) -> None:
        for sheet in self.sheets:
            sheet.fit_rows()
        self.book.close()
        self.path.write_bytes(self._content.getvalue())


class Sheet:
    """One sheet of a workbook; rows and columns count from zero."""

    def __init__(self, book: Book, sheet: Any, name: str) -> None:
        self.book, self.sheet, self.name = book, sheet, name
        self.shared = 0  # shared formulas so far
        self.wrapped: list[tuple[int, int, str]] = []  # texts that may take several lines
        self.widths: dict[int, float] = {}  # of columns [characters]

    def text(self, row: int, column: int, text: str, style: str = "label") -> None:
        """Write a text that is never taken for a formula."""
        if style in _WRAPPED:
            self.wrapped.append((row, column, text))
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
        total: int | None = None,
        start: int = 0,
    ) -> None:
        """Write columns with a row for each of `count` cases, from the case `start` on, of all that cells hold."""
        for column, cell, style in columns:
            if not isinstance(cell, Cell):
                for line in range(count):
                    self.value(first + line, column, cell, style)
                continue
            values = np.broadcast_to(np.asarray(cell.value).reshape(-1), (total or count,)).tolist()
            spots = [(first + line, column) for line in range(count)]
            self._run(spots, cell, values[start : start + count], places, style)

    def across(self, first: int, rows: Sequence[tuple[int, Any, str]], places: Mapping[int, str], count: int) -> None:
        """Write rows with a column for each of `count` cases, from a column on; \0 stands for its letters."""
        for row, cell, style in rows:
            spots = [(row, first + place) for place in range(count)]
            if isinstance(cell, Cell):
                self._run(spots, cell, np.broadcast_to(np.asarray(cell.value).reshape(-1), (count,)), places, style)
            else:
                for spot in spots:
                    self.value(*spot, cell, style)

    def column(
        self, first: int, column: int, cell: Any, values: Sequence[Any], places: Mapping[int, str], *, back: int = 0
    ) -> None:
        """Write small numbers below each other; their formula reads cells of the row so many rows above its own."""
        spots = [(first + line, column) for line, _ in enumerate(values)]
        if isinstance(cell, Cell):
            self._run(spots, cell, values, places, "small", back)
        else:
            for spot in spots:
                self.value(*spot, cell, "small")

    def _run(
        self,
        spots: Sequence[tuple[int, int]],
        cell: Cell,
        values: Iterable[Any],
        places: Mapping[int, str],
        style: str,
        back: int = 0,
    ) -> None:
        """Write the formula of a cell in each row, or each column, with its value there."""
        is_across = spots[0][0] == spots[-1][0] and len(spots) > 1
        text, chosen = spreadsheet_formula(cell, places), self.book.styles[style]
        names = [xl_col_to_name(column) if is_across else str(row + 1 - back) for row, column in spots]
        stored = [cached(_beside(cell, value)) for value in values]
        if style == "small":
            stored = [float(f"{value:.{_DIGITS}g}") if type(value) is float else value for value in stored]
        shared = _CAN_SHARE and len(spots) > 1
        area = ":".join(address(*spot).replace("$", "") for spot in (spots[0], spots[-1]))
        rest = _SHARED_FORMULA.join(("", "", str(self.shared), ""))
        for place, ((row, column), name, value) in enumerate(zip(spots, names, stored, strict=True)):
            formula = rest if shared and place else text.replace("\0", name)
            if shared and place == 0:
                formula = _SHARED_FORMULA.join(("", area, str(self.shared), formula))
            self.sheet.write_formula(row, column, formula, chosen, value)
        self.shared += shared

    def widen(self, first: int, last: int, width: float, *, folded: bool = False) -> None:
        self.widths |= dict.fromkeys(range(first, last + 1), _UNSEEN if folded else width)
        how = {"level": 1, "hidden": True} if folded else {}
        self.sheet.set_column(first, last, width, None, how)

    def fit_rows(self) -> None:
        """Make rows as high as their texts: not every spreadsheet does so when it opens a file."""
        lines: dict[int, int] = {}
        for row, column, text in self.wrapped:
            width = max(1, int(self.widths.get(column, _USUAL_WIDTH)))
            taken = sum(len(wrap(part, width)) or 1 for part in text.split("\n"))
            lines[row] = max(lines.get(row, 1), taken)
        for row, count in lines.items():
            if count > 1:
                self.sheet.set_row(row, _LINE * count)

    def paragraph(self, row: int, last: int, text: str) -> None:
        """Write a note across the first columns, on as many lines as it takes."""
        room = sum(self.widths.get(column, _USUAL_WIDTH) for column in range(last + 1))
        self.sheet.merge_range(row, 0, row, last, printable(text, lines=True), self.book.styles["said"])
        self.sheet.set_row(row, _LINE * len(wrap(text, int(room))))

    def wide(self, row: int, first: int, last: int, text: str, value: Any, style: str, lines: float) -> None:
        """Write a formula across columns, with room for so many lines."""
        chosen = self.book.styles[style]
        self.sheet.merge_range(row, first, row, last, "", chosen)
        self.formula(row, first, text, value, style)
        self.sheet.set_row(row, _LINE * lines)

    def head(self, rows: int, columns: int, area: tuple[int, int] | None = None, first: int = 0) -> None:
        """Freeze the first rows and columns, repeat the rows on every page, and add filters to a table."""
        self.sheet.freeze_panes(rows, columns)
        self.sheet.repeat_rows(0, rows - 1)
        if area is not None:
            self.sheet.autofilter(first, 0, area[0], area[1] - 1)

    def prints(self, rows: int, columns: int, *, pages: int = 0) -> None:
        """Print the first rows and columns, on so many pages or as many as it takes."""
        self.sheet.print_area(0, 0, rows - 1, columns - 1)
        self.sheet.fit_to_pages(1, pages)

    def rule(self, first: int, last: int, column: int, rule: Rule) -> None:
        """Prompt for the inputs of a column, offer what they may be, and refuse what they may not."""
        cell = address(first, column).replace("$", "")
        if rule.offered is not None:
            limit: dict[str, Any] = {"validate": "list", "source": rule.offered}
        elif rule.allowed:
            limit = {"validate": "custom", "value": f"={rule.allowed.format(cell)}"}
        else:
            limit = {"validate": "any"}
        title, message = rule.title[:_LONGEST_TITLE], rule.message[:_LONGEST_MESSAGE]
        said = {"input_title": title, "input_message": message, "error_title": title, "error_message": message}
        self.sheet.data_validation(first, column, last, column, {**limit, **said, "error_type": rule.severity})


class Rule(NamedTuple):
    """What an input may be."""

    title: str
    message: str
    offered: Any = None  # entries of its drop-down, or the formula of a range
    allowed: str = ""  # condition on the cell {0}
    severity: str = "stop"  # for anything else: `stop`, `warning` or `information`


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
