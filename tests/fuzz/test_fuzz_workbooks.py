"""Any inputs of a workbook give one that opens, without an empty result, or are refused and leave no file."""

import tempfile
import zipfile
from pathlib import Path

import tiers
from fuzz.strategies import workbooks
from hypothesis import given, settings

import roofline as rl


@given(inputs=workbooks())
@settings(max_examples=tiers.times(2, 6))
def test_any_inputs_of_a_workbook_are_written_or_refused(inputs):
    models, gpus, options = inputs
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "sizing.xlsx"
        try:
            rows = rl.sheet(str(path), models, gpus, **options)
        except rl.RooflineError as error:
            assert str(error)
            assert list(Path(folder).iterdir()) == []
            return
        assert rows >= 1
        with zipfile.ZipFile(path) as book:
            assert book.testzip() is None
            sheets = [book.read(name) for name in book.namelist() if name.startswith("xl/worksheets/")]
    assert sheets
    assert not any(b"<v>nan</v>" in sheet or b"<v>inf</v>" in sheet for sheet in sheets)
