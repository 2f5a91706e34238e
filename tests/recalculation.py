"""Proof that a workbook is live: its cached values are poisoned, an engine recalculates it, stale cells are refused.

XlsxWriter stores a value beside every formula, and most readers believe it: LibreOffice recalculates such a file only
when told to. A test that reads values back from a file that nobody recalculated compares Python with itself. Nothing
here returns a value of a workbook, therefore, before every formula has lost the value that it was written with; only
`Cells` reads what a file says.

Two engines that know nothing of this project: betteroffice-xlsx, which is fast and takes edits in place (`Live`), and
LibreOffice where it is installed, one start for many workbooks (`recalculated_many`). Limits that bite:

* betteroffice-xlsx refuses a formula more than 100 deep (so a sum of more than 100 terms) and one of 19 aggregates
  (MAX, MIN, SUM, SUMPRODUCT) directly inside one another, whose time doubles with every level: it then keeps the
  cached value, which is caught here. It forgives what Excel does not: functions without their `_xlfn.` prefix.
* XlsxWriter writes inputs (not cached values) with 16 digits, LibreOffice everything with 15; LibreOffice's
  comparisons, INT and sums near zero round to about as many, its ROUNDUP to 12 (CEILING(x,1) to 15).
* A number joined to text by `&` is written by each engine in its own way; TEXT() is not.
"""

import io
import os
import posixpath
import re
import shutil
import signal
import subprocess
from functools import cache, lru_cache
from html import unescape
from pathlib import Path
from tempfile import TemporaryDirectory
from xml.etree import ElementTree as ET
from xml.sax.saxutils import escape
from zipfile import ZipFile

import openpyxl
from betteroffice_xlsx import CellError, Workbook

#: What stands in place of every cached value; no formula of the project gives it.
POISON = -12345
#: Most that LibreOffice takes for a batch of workbooks; it needs seconds [s].
PATIENCE = 300

_CELL = re.compile(r'<c r="([A-Z]+[0-9]+)"([^>]*?)(?:/>|>(.*?)</c>)', re.DOTALL)
_FORMULA = re.compile(r"<f(?: [^>]*?)?(?:/>|>[^<]*</f>)")
_ARRAY = re.compile(r't="array" ref="[^"]*:')
_KIND = re.compile(r' t="(\w+)"')
_VALUE = re.compile(r"<v>([^<]*)</v>")
_TEXT = re.compile(r"<t(?: [^>]*)?>([^<]*)</t>")
_MAIN = "{http://schemas.openxmlformats.org/spreadsheetml/2006/main}"
_ID = "{http://schemas.openxmlformats.org/officeDocument/2006/relationships}id"

#: LibreOffice's setting "Recalculation on File Load, Excel 2007 and newer": 0 always, 1 never.
_PROFILE = """<?xml version="1.0" encoding="UTF-8"?>
<oor:items xmlns:oor="http://openoffice.org/2001/registry"><item oor:path="/org.openoffice.Office.Calc/Formula/Load">
<prop oor:name="OOXMLRecalcMode" oor:op="fuse"><value>{mode}</value></prop></item></oor:items>
"""


def poison(path, out):
    """How many formulas a copy of a workbook has, whose every cached value (numbers, texts, errors) is now POISON."""
    count = 0

    def poisoned(cell):
        nonlocal count
        address, attributes, body = cell.groups()
        formula = _FORMULA.match(body or "")
        if formula is None:
            return cell[0]
        if _ARRAY.search(formula[0]):
            raise AssertionError(f"{path}: the array in {address} leaves values in cells that have no formula")
        count += 1
        return f'<c r="{address}"{_KIND.sub("", attributes)}>{formula[0]}<v>{POISON}</v></c>'

    expected = 0
    with ZipFile(path) as archive:
        changed = {}
        for part in _sheets(archive).values():
            text = archive.read(part).decode()
            expected += text.count("<f>") + text.count("<f ")
            changed[part] = _CELL.sub(poisoned, text)
        _copy(archive, out, changed)
    if count != expected:
        raise AssertionError(f"{path}: {expected} formulas, {count} of them poisoned")
    return count


def edit(path, out, changes):
    """Writes a copy of a workbook with other inputs: `edit(path, out, {("Calculator", "B7"): 32})`; caches stay.

    Numbers, texts, truth values or None (empty). A cell that is not in the file, or that holds a formula, is refused.
    """
    with ZipFile(path) as archive:
        sheets = _sheets(archive)
        changed = {}
        for sheet in {sheet for sheet, _ in changes}:
            wanted = {address: value for (name, address), value in changes.items() if name == sheet}

            def edited(cell, wanted=wanted):
                address, attributes, body = cell.groups()
                if address not in wanted or _FORMULA.match(body or ""):
                    return cell[0]
                return f'<c r="{address}"{_KIND.sub("", attributes)}' + _content(wanted.pop(address))

            changed[sheets[sheet]] = _CELL.sub(edited, archive.read(sheets[sheet]).decode())
            if wanted:
                raise AssertionError(f"{path}: {sheet} has no input in {', '.join(wanted)}")
        _copy(archive, out, changed)


def recalculated(path, engine="betteroffice"):
    """A workbook after an engine recalculated it from poisoned caches: `recalculated(path).value("Calculator", "B7")`.

    Raises AssertionError if the workbook has no formula, or if any still has the poison for its value.
    """
    return recalculated_many([path], engine)[0]


def recalculated_many(paths, engine="betteroffice"):
    """Several workbooks recalculated; one start of LibreOffice serves them all."""
    return {"betteroffice": lambda paths: list(map(Live, paths)), "libreoffice": _libreoffice}[engine](paths)


@lru_cache(maxsize=3)
def opened(path):
    """A workbook with its looks as openpyxl reads it, once: that takes seconds. Not of a file that is written again."""
    return openpyxl.load_workbook(path)


@lru_cache(maxsize=3)
def cells_of(path):
    """What a workbook says, read once. Not of a file that is written again."""
    return Cells(path)


@lru_cache(maxsize=3)
def names_of(path):
    """Names that a workbook defines, and the cells that they stand for."""
    with ZipFile(path) as archive:
        names = ET.fromstring(archive.read("xl/workbook.xml")).iter(f"{_MAIN}definedName")
    return {entry.get("name"): entry.text for entry in names if not entry.get("name").startswith("_xlnm.")}


def libreoffice_is_installed():
    """Whether the second engine is there."""
    return shutil.which("soffice") is not None


class Cells:
    """What a file says, calculated or not: numbers as floats, errors as their text, an empty cell as None."""

    def __init__(self, path):
        self._values, self.formulas, self.inputs = {}, [], []
        with ZipFile(path) as archive:
            texts = _shared_texts(archive)
            for sheet, part in _sheets(archive).items():
                self._values[sheet] = {}
                for address, attributes, body in _CELL.findall(archive.read(part).decode()):
                    kind = _KIND.search(attributes)
                    self._values[sheet][address] = _value(kind and kind[1], body, texts)
                    (self.formulas if _FORMULA.match(body) else self.inputs).append((sheet, address))

    def value(self, sheet, address):
        """Value of a cell."""
        return self._values[sheet].get(address)

    def rows(self, sheet):
        """Values of a sheet by column, row by row; an empty cell is left out, and a formula has what it last gave."""
        rows = {}
        for address, value in self._values[sheet].items():
            column = address.rstrip("0123456789")
            rows.setdefault(int(address[len(column) :]), {})[column] = value
        return rows


class Live:
    """A workbook held open by betteroffice-xlsx: an edit recalculates what depends on it, without a file."""

    def __init__(self, path):
        file = io.BytesIO()
        poison(path, file)
        self._workbook = Workbook.open_recalculated(file.getvalue())
        written = Cells(file)
        self.formulas, self.inputs = written.formulas, set(written.inputs)
        done = self._workbook.last_calculation()
        if done.cycles or done.limited:
            raise AssertionError(f"{path}: {done.cycles} formulas on a circle, {done.limited} beyond the engine")
        _refuse_stale(path, self.formulas, self)

    def set(self, sheet, address, value):
        """Sets an input: a number, a text, a truth value or None (empty), as `edit` does."""
        if (sheet, address) not in self.inputs:
            raise AssertionError(f"{sheet} has no input in {address}")
        # The engine reads a text as if it were typed, so that "1e5" would become a number; the apostrophe says text.
        self._workbook.set(sheet, address, f"'{value}" if isinstance(value, str) else value)
        if self.value(sheet, address) != value:
            raise AssertionError(f"{sheet}!{address}: {value!r} became {self.value(sheet, address)!r}")

    def set_many(self, changes):
        """Sets several inputs, by sheet and address, and recalculates once; those that stay are left alone."""
        wanted = {place: value for place, value in changes.items() if self.value(*place) != value}
        missing = next((place for place in wanted if place not in self.inputs), None)
        if missing is not None:
            raise AssertionError(f"{missing[0]} has no input in {missing[1]}")
        for sheet in {place[0] for place in wanted}:
            typed = {
                address: f"'{value}" if isinstance(value, str) else value
                for (name, address), value in wanted.items()
                if name == sheet
            }
            self._workbook.set_many(sheet, typed)
        for place, value in wanted.items():
            if self.value(*place) != value:
                raise AssertionError(f"{place}: {value!r} became {self.value(*place)!r}")

    def value(self, sheet, address):
        """Value of a cell: numbers as floats, errors as their text, an empty cell as None."""
        value = self._workbook.value(sheet, address)
        return str(value) if isinstance(value, CellError) else value


@cache
def _profile(mode):
    """A profile with a setting, until Python ends: LibreOffice takes seconds to fill a new one."""
    folder = TemporaryDirectory()
    (Path(folder.name) / "user").mkdir()
    (Path(folder.name) / "user" / "registrymodifications.xcu").write_text(_PROFILE.format(mode=mode))
    return folder


def _libreoffice(paths, mode=0):
    with TemporaryDirectory() as name:
        folder = Path(name)
        copies = [folder / f"{place}.xlsx" for place in range(len(paths))]
        for path, copy in zip(paths, copies, strict=True):
            poison(path, copy)
        profile = f"-env:UserInstallation={Path(_profile(mode).name).as_uri()}"
        convert = ["--headless", "--norestore", "--convert-to", "xlsx", "--outdir", folder / "out"]
        _run(["soffice", profile, *convert, *copies])
        answers = [Cells(folder / "out" / copy.name) for copy in copies]
        for path, copy, answer in zip(paths, copies, answers, strict=True):
            _refuse_stale(path, Cells(copy).formulas, answer)
        return answers


def _run(command):
    """Runs a command; the whole family of processes ends with it if it takes too long."""
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "start_new_session": True}
    with subprocess.Popen(command, **pipes) as process:
        try:
            output, _ = process.communicate(timeout=PATIENCE)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            raise
    if process.returncode != 0:
        raise AssertionError(f"soffice failed: {output.decode()}")


def _refuse_stale(path, formulas, cells):
    if not formulas:
        raise AssertionError(f"{path} has no formulas: nothing in it is live")
    stale = ["!".join(place) for place in formulas if cells.value(*place) in {POISON, str(POISON)}]
    if stale:
        raise AssertionError(f"{path}: {len(stale)} of {len(formulas)} formulas not recalculated: {stale[:5]}")


def _sheets(archive):
    """The part of the archive that holds each sheet, by the sheet's name."""
    relations = ET.fromstring(archive.read("xl/_rels/workbook.xml.rels"))
    targets = {relation.get("Id"): relation.get("Target") for relation in relations}
    sheets = ET.fromstring(archive.read("xl/workbook.xml")).iter(f"{_MAIN}sheet")
    return {sheet.get("name"): posixpath.join("/xl", targets[sheet.get(_ID)]).lstrip("/") for sheet in sheets}


def _shared_texts(archive):
    if "xl/sharedStrings.xml" not in archive.namelist():
        return []
    root = ET.fromstring(archive.read("xl/sharedStrings.xml"))
    return ["".join(run.text or "" for run in item.iter(f"{_MAIN}t")) for item in root]


def _value(kind, body, texts):
    if kind == "inlineStr":
        return unescape("".join(_TEXT.findall(body)))
    found = _VALUE.search(body)
    if found is None:
        return None
    if kind in {"str", "e"} or not found[1]:  # XlsxWriter leaves the kind out where the text is empty
        return unescape(found[1])
    return texts[int(found[1])] if kind == "s" else found[1] == "1" if kind == "b" else float(found[1])


def _content(value):
    if value is None:
        return "/>"
    if isinstance(value, str):
        return f' t="inlineStr"><is><t xml:space="preserve">{escape(value)}</t></is></c>'
    return f' t="b"><v>{value:d}</v></c>' if isinstance(value, bool) else f"><v>{value}</v></c>"


def _copy(archive, out, changed):
    """Writes the archive anew; parts that did not change stay as they are, byte for byte."""
    parts = {item: archive.read(item) for item in archive.infolist()}
    with ZipFile(out, "w") as copy:
        for item, data in parts.items():
            copy.writestr(item, changed[item.filename].encode() if item.filename in changed else data)
