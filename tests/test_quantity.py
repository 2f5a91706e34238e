"""Unit-bearing text to SI numbers and back: strict, exact, and judged by pint."""

import math
from itertools import pairwise

import pint
import pytest
from every_case import each
from hypothesis import example, given
from hypothesis import strategies as st

from roofline.numbers.quantity import DIMENSIONS, count_from_text, from_text, to_text
from roofline.support.errors import BadInput

DECIMAL = ("", "k", "M", "G", "T", "P", "E")
BINARY = ("", "Ki", "Mi", "Gi", "Ti")
PREFIXED = {"FLOP/s": "FLOP/s", "B": "B", "B/s": "B/s", "exp/s": "exp/s", "W": "W"}  # dimension -> SI unit
UNITS = [(dimension, unit) for dimension, units in DIMENSIONS.items() for unit in units]

positive = st.floats(1e-6, 1e6, allow_nan=False)


@pytest.fixture(scope="module")
def ureg():
    registry = pint.UnitRegistry()
    for definition in ("FLOP = [flops]", "OP = FLOP", "exp = [exponentials]", "USD = [dollars]"):
        registry.define(definition)
    return registry


@each(
    ("text", "dimension", "value"),
    [
        ("3.35 TB/s", "B/s", 3.35e12), ("400 Gbit/s", "B/s", 50e9), ("79.65 GiB", "B", 79.65 * 1024**3),
        ("80 GB", "B", 80e9), ("989.4 TFLOP/s", "FLOP/s", 989.4e12), ("1979 TOP/s", "FLOP/s", 1979e12),
        ("1.5 PFLOP/s", "FLOP/s", 1.5e15), ("3.87 Texp/s", "exp/s", 3.87e12), ("12.5 us", "s", 12.5e-6),
        ("12.5 µs", "s", 12.5e-6), ("3 ms", "s", 3e-3), ("0.526 ns", "s", 0.526e-9), ("700 W", "W", 700.0),
        ("1.4 kW", "W", 1400.0), ("3.60 USD/h", "USD/s", 0.001), ("0.001 USD/s", "USD/s", 0.001),
        ("  80GB  ", "B", 80e9), ("+8e1 GB", "B", 80e9), (".5 GB", "B", 0.5e9),
    ],
)  # fmt: skip
def test_a_data_sheets_own_text_is_read_into_si(text, dimension, value):
    assert from_text(text, dimension) == pytest.approx(value, rel=1e-15)


@each(("dimension", "unit"), UNITS)
def test_every_unit_means_what_pint_says_it_means(ureg, dimension, unit):
    si = {"B": "B", "B/s": "B/s", "USD/s": "USD/s"}.get(dimension, dimension)
    assert from_text(f"1 {unit}", dimension) == pytest.approx(ureg.Quantity(1.0, unit).to(si).magnitude, rel=1e-12)


def test_each_prefix_is_a_thousand_or_1024_times_the_one_before_and_eight_bits_a_byte():
    values = [from_text(f"1 {unit}", "s") for unit in ("s", "ms", "us", "ns")]
    assert [round(larger / smaller, 9) for larger, smaller in pairwise(values)] == [1000.0] * 3
    for dimension, unit in PREFIXED.items():
        values = [from_text(f"1 {prefix}{unit}", dimension) for prefix in DECIMAL]
        assert values[0] == 1.0
        assert [larger / smaller for smaller, larger in pairwise(values)] == [1000.0] * 6
    for unit in ["B", "B/s"]:
        values = [from_text(f"1 {prefix}{unit}", unit) for prefix in BINARY]
        assert [larger / smaller for smaller, larger in pairwise(values)] == [1024.0] * 4
    for prefix in DECIMAL:
        assert from_text(f"8 {prefix}bit/s", "B/s") == from_text(f"1 {prefix}B/s", "B/s")


@given(number=positive, which=st.sampled_from(UNITS))
def test_reading_is_proportional_to_the_number_and_blanks_do_not_matter(number, which):
    dimension, unit = which
    one, many = from_text(f"1 {unit}", dimension), from_text(f"{number!r} {unit}", dimension)
    assert many == pytest.approx(number * one, rel=1e-15)
    assert from_text(f" {number!r}{unit}\t", dimension) == from_text(f"{number!r} {unit}", dimension)


def test_what_is_no_quantity_is_refused():
    for said, dimension, *wrong in (
        ("write it as 80 GB", "B", "80", "80 ", "1e12", "", "   ", "GB", "GB 80", "1,5 GB", "1 000 GB", "1e GB",
         "--5 GB", "0x10 GB", "1_0 GB"),
        ("has no unit", "B", 80, 80.0, 1e12, True, False, None, [], ["80 GB"], {"value": "80 GB"}, b"80 GB", 1j),
        ("must be positive and finite", "B", "0 GB", "0.0 GB", "-80 GB", "-0 GB", "1e400 GB", "1e308 GB", "1e-400 GB"),
        ("not a number with a unit", "B", "nan GB", "inf GB", "-inf GB", "NaN", "Infinity B"),
        ("sparse figure; give the dense one", "FLOP/s", "1979 TFLOP/s sparse", "1979 TFLOP/s (with sparsity)",
         "1979 sparse TFLOP/s"),
        (r"ambiguous.*Gbit/s or GB/s", "B/s", "400 Gb/s", "400 Tb/s", "400 Mb/s", "400 Gbps", "400 GBps", "400 Gb",
         "400 b/s"),
        ("is not a unit of B/s", "B/s", "80 GB", "3 TB / s", "3 Gibit/s"),
        ("is not a unit of B", "B", "3 TB/s", "80 gb", "80 KB", "80 giB"),
        ("is not a unit of FLOP/s", "FLOP/s", "989 TFLOPS", "989 TFLOP", "989 tflop/s"),
        ("is not a unit of W", "W", "700 watts"),
        ("is not a unit of s", "s", "3 m", "3 min"),
        ("is not a unit of USD/s", "USD/s", "3 USD", "3 EUR/h"),
    ):  # fmt: skip
        for value in wrong:
            with pytest.raises(BadInput, match=said):
                from_text(value, dimension)


_odd_texts = st.text(max_size=30) | st.builds(
    "{}{}{}".format,
    st.sampled_from(("1", "-1", "0", ".", "1e9", "1e999", "٣", "²", "nan", "inf", "")),
    st.sampled_from(("", " ", "\n", "\u00a0", "\x00")),
    st.sampled_from(tuple(unit for _, unit in UNITS)) | st.text(max_size=6),
)
_odd_objects = st.none() | st.booleans() | st.integers() | st.floats() | st.binary(max_size=4) | st.lists(st.text())


@given(value=_odd_texts | _odd_objects, dimension=st.sampled_from(sorted(DIMENSIONS)))
@example("9" * 5000 + " GB", "B")
@example("1" + " " * 500 + "GB", "B")
@example("\ud800 GB", "B")
@example("1 \ud800", "B")
def test_anything_is_either_refused_or_a_positive_finite_number(value, dimension):
    try:
        number = from_text(value, dimension)
    except BadInput:
        return
    assert isinstance(value, str)
    assert isinstance(number, float)
    assert 0.0 < number < math.inf


@each(
    ("value", "unit", "text"),
    [
        (3.35e12, "B/s", "3.35 TB/s"), (989.4e12, "FLOP/s", "989 TFLOP/s"), (0.0448, "s", "44.8 ms"), (1.0, "s", "1 s"),
        (61.25, "s", "61.2 s"), (12.34e-6, "s", "12.3 us"), (5e-9, "s", "5 ns"), (80e9, "B", "80 GB"),
        (1234.0, "W", "1.23 kW"), (999.4e9, "B", "999 GB"), (999.6e9, "B", "1 TB"), (0.9996e-3, "s", "1 ms"),
        (12345.0, "s", "12345 s"), (-0.0448, "s", "-44.8 ms"),
    ],
)  # fmt: skip
def test_a_value_is_written_at_three_significant_digits_with_the_prefix_that_suits_it(value, unit, text):
    assert to_text(value, unit) == text


def test_what_has_no_digits_or_rounds_to_a_thousand_seconds_is_still_written():
    for unit in ["s", "B"]:
        for value in [math.nan, math.inf, -math.inf, 0.0]:
            written, written_unit = to_text(value, unit).split(" ")
            assert str(float(written)) == str(value)
            assert written_unit.endswith(unit)
    for value in [999.5, 999.6, 999.99, 1000.0, 1000.4]:
        assert to_text(value, "s") in ("1000 s", "1.00 ks")


@given(exponent=st.floats(0.0, 20.9), which=st.sampled_from(sorted(PREFIXED.items())))
def test_an_amount_survives_writing_and_reading_at_three_digits(exponent, which):
    dimension, unit = which
    value = 10.0**exponent
    assert from_text(to_text(value, unit), dimension) == pytest.approx(value, rel=0.00501)


@given(exponent=st.floats(-8.9, 2.99))
def test_a_time_survives_writing_and_reading_at_three_digits(exponent):
    value = 10.0**exponent
    assert from_text(to_text(value, "s"), "s") == pytest.approx(value, rel=0.00501)


@given(exponent=st.floats(-9.0, 20.9), unit=st.sampled_from(("s", "B/s")))
def test_a_written_number_has_at_most_three_significant_digits_or_none_after_the_point(exponent, unit):
    value = 10.0**exponent
    if unit == "B/s" and value < 1.0:
        value = 1.0 / value
    number = to_text(value, unit).split(" ")[0]
    assert "e" not in number
    digits = number.replace(".", "").strip("0")
    assert len(digits) <= 3 or ("." not in number and float(number) >= 1000.0)


def test_a_count_is_an_integer_or_a_number_with_its_letter_or_refused():
    values = [count_from_text(f"1 {letter}") for letter in "KMBT"]
    assert values == [1e3, 1e6, 1e9, 1e12]
    for value, count in [
        ("37 B", 37e9), ("8.03 B", 8.03e9), ("1.04 T", 1.04e12), ("355M", 355e6), (" 12 K ", 12e3),
        (8030261248, 8030261248.0), (1, 1.0),
    ]:  # fmt: skip
        assert count_from_text(value) == pytest.approx(count, rel=1e-15)
    for value in [
        0, -1, True, False, 8.03e9, "8.03", "8.03e9", "8 G", "8 b", "8 billion", "-8 B", "0 B", "0.0 B", "", None, [],
        {},
    ]:  # fmt: skip
        with pytest.raises(BadInput, match="number of parameters"):
            count_from_text(value)


@given(value=st.text(max_size=12) | _odd_objects)
@example(10**400)
@example(10**5000)
@example("9" * 400 + " B")
@example("0." + "0" * 400 + "1 B")
def test_any_count_is_either_refused_or_a_positive_finite_number(value):
    try:
        count = count_from_text(value)
    except BadInput:
        return
    assert not isinstance(value, bool)
    assert 0.0 < count < math.inf
