"""Unit-bearing text to SI numbers and back; the one place where powers of ten and 1024 live.

A quantity in a specification file is the data sheet's own text: ``3.35 TB/s``, ``79.65 GiB``,
``989.4 TFLOP/s``. It is read here, strictly, into SI: seconds, bytes, FLOP/s, B/s, W, Hz, USD/s.
"""

from __future__ import annotations

import math
import re

from roofline.support.errors import BadInput

NANO = 1e-9
MICRO = 1e-6
MILLI = 1e-3
KILO = 1e3
MEGA = 1e6
GIGA = 1e9
TERA = 1e12
BILLION = 1e9
KIBI = 1024  # `1k1k` of InferenceX means 1024 tokens in, 1024 out
GIBI = 1024.0**3
MINUTE = 60.0
HOUR = 3600.0
DAY = 24.0 * HOUR
YEAR = 365.0 * DAY
MONTH = YEAR / 12.0  # 730 h, as clouds bill it
BITS_PER_BYTE = 8.0
#: Pattern of the commas that group digits, as in 83,512.
GROUPING = r"(?<=\d),(?=\d{3}(?:\D|$))"

_DECIMAL = {"": 1.0, "k": 1e3, "M": 1e6, "G": 1e9, "T": 1e12, "P": 1e15, "E": 1e18}
_BINARY = {"Ki": 1024.0, "Mi": 1024.0**2, "Gi": 1024.0**3, "Ti": 1024.0**4}


def _prefixed(unit: str, prefixes: dict[str, float], scale: float = 1.0) -> dict[str, float]:
    return {prefix + unit: factor * scale for prefix, factor in prefixes.items()}


#: dimension -> {unit text: SI factor}. Single-letter `b` never appears: `Gb/s` is ambiguous.
DIMENSIONS: dict[str, dict[str, float]] = {
    "FLOP/s": _prefixed("FLOP/s", _DECIMAL) | _prefixed("OP/s", _DECIMAL),
    "B": _prefixed("B", _DECIMAL) | _prefixed("B", _BINARY),
    "B/s": _prefixed("B/s", _DECIMAL) | _prefixed("B/s", _BINARY) | _prefixed("bit/s", _DECIMAL, 1.0 / BITS_PER_BYTE),
    "exp/s": _prefixed("exp/s", _DECIMAL),
    "s": {"s": 1.0, "ms": MILLI, "us": MICRO, "µs": MICRO, "ns": NANO},
    "W": _prefixed("W", _DECIMAL),
    "Hz": _prefixed("Hz", _DECIMAL),
    "USD/s": {"USD/h": 1.0 / HOUR, "USD/s": 1.0},
}

_QUANTITY = r"\s*([+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?)\s*(\S.*?)?\s*"
_AMBIGUOUS = r"[kMGTPE]?(b|bps|bit|Bps)(/s|ps)?"
_COUNT = r"(\d+(?:\.\d+)?)\s*([KMBT])"
_MOST_PARAMETERS = 10**18
_LONGEST = 100  # characters of a quantity; the patterns above take quadratic time
_COUNT_SCALE = {"K": 1e3, "M": 1e6, "B": 1e9, "T": 1e12}


def from_text(text: object, dimension: str) -> float:
    """SI value of a text with a unit of the given dimension, a key of `DIMENSIONS`.

    >>> from_text("3.35 TB/s", "B/s")
    3350000000000.0
    >>> from_text("400 Gbit/s", "B/s")
    50000000000.0
    """
    units = DIMENSIONS[dimension]
    if not isinstance(text, str):
        raise BadInput(f"{text!r} has no unit; {_advice(dimension)}")
    if len(text) > _LONGEST:
        raise BadInput(f"{len(text)} characters are not a number with a unit; {_advice(dimension)}")
    match = re.fullmatch(_QUANTITY, text)
    if match is None:
        raise BadInput(f"{text!r} is not a number with a unit; {_advice(dimension)}")
    number, unit = match.groups()
    if unit is None:
        raise BadInput(f"{text!r} has no unit; {_advice(dimension)}")
    if "spars" in unit.lower():
        raise BadInput(f"{text!r} is a sparse figure; give the dense one (sparse peaks are not accepted)")
    if unit not in units:
        hint = " (ambiguous: write Gbit/s or GB/s)" if re.fullmatch(_AMBIGUOUS, unit) else ""
        raise BadInput(f"{text!r}: {unit!r} is not a unit of {dimension}{hint}; {_advice(dimension)}")
    value = float(number) * units[unit]
    if not 0.0 < value < float("inf"):
        raise BadInput(f"{text!r} must be positive and finite")
    return value


def duration(text: str) -> float:
    """A time [s] from text; a bare number is in milliseconds.

    >>> duration("20ms"), duration("25")
    (0.02, 0.025)
    """
    try:
        return float(text) * MILLI
    except ValueError:
        return from_text(text.strip(), "s")


def count_from_text(value: object) -> float:
    """Number of parameters from an integer or a text such as ``37 B``.

    >>> count_from_text("37 B")
    37000000000.0
    """
    if isinstance(value, int) and abs(value) > _MOST_PARAMETERS:
        raise BadInput(f"a {value.bit_length()}-bit integer is too large for a number of parameters")
    if isinstance(value, int) and not isinstance(value, bool) and value > 0:
        return float(value)
    if isinstance(value, str) and len(value) > _LONGEST:
        raise BadInput(
            f"{len(value)} characters are not a number of parameters; write an integer, or text such as 8.03 B"
        )
    match = re.fullmatch(_COUNT, value.strip()) if isinstance(value, str) else None
    if match is None or float(match[1]) == 0.0:
        raise BadInput(f"{value!r} is not a number of parameters; write an integer, or text such as 8.03 B")
    count = float(match[1]) * _COUNT_SCALE[match[2]]
    if count > _MOST_PARAMETERS:
        raise BadInput(f"{value!r} is too large for a number of parameters")
    return count


def rounded(number: float, digits: int = 3) -> str:
    """A number for people: significant digits, no exponent unless the number is tiny.

    >>> rounded(0.044321), rounded(999.6), rounded(12345.0)
    ('0.0443', '1000', '12345')
    """
    near = float(f"{number:.{digits}g}")
    return f"{number:.0f}" if abs(near) >= 10.0 ** (digits - 1) else f"{near:.{digits}g}"


def counted(count: int | str, one: str, many: str = "") -> str:
    """A count, or its text, with its noun; `many` is the plural where it is not `one` with an s.

    >>> counted(1, "row"), counted("0.5", "row"), counted(2, "kind of GPU", "kinds of GPU")
    ('1 row', '0.5 rows', '2 kinds of GPU')
    """
    return f"{count} {one if str(count) == '1' else many or f'{one}s'}"


def rounded_down(number: float, digits: int = 3) -> str:
    """A number for people, rounded down: a limit that is typed back is still met.

    >>> rounded_down(2.4399), rounded_down(0.0)
    ('2.43', '0')
    """
    if number <= 0.0:
        return rounded(number, digits)
    step = 10.0 ** (math.floor(math.log10(number)) - digits + 1)
    return f"{math.floor(number / step) * step:.{digits}g}" if step < 1.0 else f"{math.floor(number):d}"


def percent_figure(share: float, digits: int = 3) -> str:
    """A share in percent for people, never with an exponent.

    >>> percent_figure(0.1234), percent_figure(27.2), percent_figure(1.2e-7)
    ('12.3', '2720', '0.000012')
    """
    text = f"{100.0 * share:.{digits}g}"
    if "e" not in text:
        return text
    near = float(text)
    return f"{100.0 * share:.0f}" if abs(near) >= 1.0 else f"{near:.12f}".rstrip("0").rstrip(".")


def to_text(value: float, unit: str, digits: int = 3) -> str:
    """Text of an SI value with a fitting decimal prefix.

    >>> to_text(3.35e12, "B/s")
    '3.35 TB/s'
    >>> to_text(0.0448, "s")
    '44.8 ms'
    """
    if value - value != 0.0:  # NaN or infinite
        return f"{value} {unit}"
    ladder = (
        [("", 1.0), ("m", MILLI), ("u", MICRO), ("n", NANO)]
        if unit == "s"
        else [(prefix, factor) for prefix, factor in reversed(_DECIMAL.items())]
    )
    for prefix, factor in ladder:
        if abs(value) >= factor * (1.0 - 0.5 * 10.0**-digits):
            return f"{rounded(value / factor, digits)} {prefix}{unit}"
    prefix, factor = ladder[-1]
    return f"{rounded(value / factor, digits)} {prefix}{unit}"


def distinct_texts(first: float, second: float, unit: str | None) -> tuple[str, str]:
    """Two values in as many digits as tell them apart; without a unit as multiples.

    >>> distinct_texts(0.0080004, 0.008, "s"), distinct_texts(1.5, 2.0, None)
    (('8.0004 ms', '8 ms'), ('1.5x', '2x'))
    """
    for digits in range(3, 10 if first != second else 4):
        texts = [
            f"{rounded(each, digits)}x" if unit is None else to_text(each, unit, digits) for each in (first, second)
        ]
        if texts[0] != texts[1]:
            break
    return texts[0], texts[1]


def _advice(dimension: str) -> str:
    examples = {
        "FLOP/s": ("989.4 TFLOP/s", "1979 TOP/s"),
        "B": ("80 GB", "79.65 GiB"),
        "B/s": ("3.35 TB/s", "400 Gbit/s"),
        "exp/s": ("3.87 Texp/s",),
        "s": ("12.5 us", "3 ms"),
        "W": ("700 W",),
        "Hz": ("1830 MHz",),
        "USD/s": ("2.95 USD/h",),
    }[dimension]
    return f"write it as {' or '.join(examples)}"
