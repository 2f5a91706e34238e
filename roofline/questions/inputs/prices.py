"""Rents of GPUs from a CSV of the user's."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any

from roofline.catalog.find import find_gpu
from roofline.numbers.quantity import GROUPING, HOUR, MEGA
from roofline.questions.inputs.arguments import path as path_of
from roofline.specs.gpu import Gpu, Price
from roofline.specs.names import fold
from roofline.specs.what_if import CHANGED
from roofline.specs.written import price_of_text
from roofline.support.errors import BadInput, RooflineError, shown
from roofline.support.reading import SPEC_BYTES, Unreadable, check_allowed, content

#: Columns of rents, and what one of their numbers is per.
_COLUMNS = {"usd_per_hour": "h", "usd_per_month": "month", "price": "h"}
_EXAMPLE = "gpu,usd_per_hour"
_BARE = r"[\d.\s-]+"  # a number or a range without its period


def price_in(file: Any, gpu: Gpu, specs: str | None = None) -> Price | None:
    """Price of a GPU in a file of prices; None where the file does not name it.

    Args:
        file: path of a CSV with a column `gpu` (names and aliases of the catalog) and one of `usd_per_hour`,
            `usd_per_month` or `price` (a text such as ``1500/month`` or ``2-4``); `low` and `high` may state the ends
            of the range, in the unit of the price. Of several lines of a GPU the last holds.
        gpu: whose price.
        specs: folder of the user's specifications.

    Raises:
        BadInput: the file cannot be read, has other columns, or a line states no price; the message has file and line.
        UnknownName: a line names no GPU.
    """
    path = path_of("price_file", file)
    try:
        check_allowed(path)
        state = Path(path).stat()
        key = path, state.st_mtime_ns, state.st_size
    except Unreadable as fault:
        raise BadInput(f"price_file: {path}: {fault}") from None
    except (OSError, ValueError) as error:
        raise BadInput(f"price_file: {path} cannot be read: {getattr(error, 'strerror', None) or error}") from None
    return _prices(key, specs).get(fold(gpu.name.rstrip(CHANGED)))


@lru_cache(maxsize=8)
def _prices(key: tuple[str, int, int], specs: str | None) -> Mapping[str, Price]:
    path = key[0]
    try:
        text = content(path, SPEC_BYTES, "file of prices").decode("utf-8-sig")
    except Unreadable as fault:
        raise BadInput(f"price_file: {path}: {fault}") from None
    except UnicodeDecodeError:
        raise BadInput(f"price_file: {path} is not UTF-8 text") from None
    rows = csv.reader(io.StringIO(text), skipinitialspace=True)
    names: list[str] = []
    prices = {}
    try:
        for cells in rows:
            where = f"{path}:{rows.line_num}"
            if not any(cell.strip() for cell in cells):
                continue
            if not names:
                names = _headings(where, cells)
                continue
            if any(cell.strip() for cell in cells[len(names) :]):
                raise BadInput(f"{where}: {len(cells)} cells below {len(names)} headings; quote a text with a comma")
            row = dict(zip(names, map(str.strip, cells), strict=False))
            prices[_gpu_of(where, row["gpu"], specs)] = _price_of(where, row)
    except csv.Error as error:
        raise BadInput(f"{path}:{rows.line_num}: {error}") from None
    if not names:
        _headings(f"{path}:1", [])
    if not prices:
        raise BadInput(f"price_file: {path} has no line below its headings")
    return prices


def _headings(where: str, cells: list[str]) -> list[str]:
    """Names of the columns."""
    names = [fold(cell).replace("-", "_") for cell in cells]
    if "gpu" not in names or not set(_COLUMNS) & set(names):
        found = ", ".join(name for name in names if name) or "none"
        raise BadInput(
            f"{where}: a file of prices has columns gpu and {' or '.join(_COLUMNS)}, such as {_EXAMPLE}; found {found}"
        )
    twice = next((name for name in names if name and names.count(name) > 1), None)
    if twice is not None:
        raise BadInput(f"{where}: two columns are called {twice}")
    return names


def _gpu_of(where: str, name: str | None, specs: str | None) -> str:
    try:
        return fold(find_gpu((name or "").strip(), specs).record.name)
    except RooflineError as error:
        raise type(error)(f"{where}: {error}") from None


def _price_of(where: str, row: Mapping[str, str]) -> Price:
    """Price of a line [USD/s]; the middle of a range is typical."""
    filled = [name for name in _COLUMNS if row.get(name)]
    if len(filled) != 1:
        said = " and ".join(filled) or " or ".join(_COLUMNS)
        raise BadInput(f"{where}: {'leave out one of' if filled else 'states no'} {said}")
    (column,) = filled
    per = _COLUMNS[column]
    rent = _rent(where, row, column, per)
    typical = sum(rent) / len(rent)
    low, high = (
        _rent(where, row, name, per)[place] if row.get(name) else rent[place]
        for name, place in (("low", 0), ("high", -1))
    )
    if not low <= typical <= high:
        raise BadInput(f"{where}: {low:g}, {typical:g} and {high:g} USD/h must satisfy low <= {column} <= high")
    return Price(low / HOUR, typical / HOUR, high / HOUR, Path(where.rpartition(":")[0]).name)


def _rent(where: str, row: Mapping[str, str], column: str, per: str) -> tuple[float, ...]:
    """A rent, or both ends of its range [USD/h]."""
    text = re.sub(GROUPING, "", row[column].replace("$", ""))
    is_bare = re.fullmatch(_BARE, text) is not None
    try:
        read = price_of_text(f"{text}/{per}" if is_bare else text)
    except BadInput as error:
        raise BadInput(f"{where}: {column}: {error}") from None
    ends = read if isinstance(read, tuple) else (read,)
    if not all(0.0 < end <= MEGA for end in ends):
        raise BadInput(f"{where}: {column} = {shown(text)} must be a positive rent in USD")
    return ends
