"""Any table of timed kernels is read or refused; what is read is finite, and fits or is refused."""

import math
import tempfile
from pathlib import Path

import tiers
from fuzz.strategies import kernel_tables
from hypothesis import given, settings

import roofline as rl
from roofline.measurements.tables import kernel_groups
from roofline.questions.calibrate import calibrate


@given(text=kernel_tables())
@settings(max_examples=tiers.times(12, 60))
def test_any_kernel_table_is_read_or_refused(text):
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "kernels.csv"
        path.write_bytes(text.encode("utf-8", "surrogatepass"))
        try:
            groups = kernel_groups([str(path)])
        except rl.BadInput as error:
            assert str(error)
            return
        for group in groups:
            assert all(0.0 <= number < math.inf for column in group.columns.values() for number in column)
        try:
            fit = calibrate([str(path)], "h100-sxm")
        except rl.BadInput as error:
            assert str(error)
        else:
            assert fit.text
