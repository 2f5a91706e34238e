"""Values as YAML that reads back as the same values; texts that are not plainly text are quoted."""

from __future__ import annotations

import datetime as dt
import re

from roofline.errors import BadInput, shown

# Texts that need no quotes: words, ids, a number with its unit, addresses.
_PLAIN = re.compile(
    r"[A-Za-z_][\w./+-]*( [\w./+-]+)*|[0-9]+(\.[0-9]+)?(e[+-]?[0-9]+)? [A-Za-z][\w./-]*|https?://[\w/.@%+~=-]+",
    re.ASCII,
).fullmatch
_WORDS = frozenset({"true", "false", "null", "yes", "no", "on", "off", "y", "n", "nan", "inf"})
_DAY = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}").fullmatch
_MONTH = re.compile(r"[0-9]{4}-[0-9]{2}").fullmatch
_LONGEST_PLAIN = 500


def yaml_scalar(value: object) -> str:
    """A scalar for a flow or block mapping, as key or value; BadInput if YAML cannot hold it.

    >>> [yaml_scalar(value) for value in ("3.4 us", "no", "a: b", 0.5, 2)]
    ['3.4 us', '"no"', '"a: b"', '0.5', '2']
    """
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        return repr(int(value))
    if isinstance(value, float):
        return _decimal(float(value))
    if isinstance(value, dt.date) and not isinstance(value, dt.datetime):
        return value.isoformat()
    if not isinstance(value, str):
        raise BadInput(f"{shown(value)} cannot be written to a specification; it must be text or a number")
    is_plain = _PLAIN(value) and len(value) <= _LONGEST_PLAIN and value.lower() not in _WORDS
    return value if is_plain else yaml_quoted(value)


def yaml_quoted(text: str) -> str:
    """A text in double quotes, on one line; BadInput for half a surrogate pair.

    >>> print(yaml_quoted('two\\nlines of "text"'))
    "two\\nlines of \\"text\\""
    """
    return '"' + "".join(map(_escaped, text)) + '"'


def yaml_date(text: str) -> str:
    """A day or a month without quotes, as readers of specifications expect; anything else as text.

    >>> yaml_date("2026-11-21"), yaml_date("2026-11"), yaml_date("2026"), yaml_date("2026-02-31")
    ('2026-11-21', '2026-11', '"2026"', '"2026-02-31"')
    """
    if _MONTH(text):
        return text
    try:
        is_day = bool(_DAY(text)) and dt.date.fromisoformat(text) is not None
    except ValueError:
        is_day = False
    return text if is_day else yaml_scalar(text)


def _escaped(character: str) -> str:
    if character in '"\\':
        return "\\" + character
    if character.isprintable():
        return character
    code = ord(character)
    if character == "\n":
        return "\\n"
    if 0xD800 <= code <= 0xDFFF:
        raise BadInput(f"{character!a} is half of a surrogate pair, which cannot be written to a file")
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


def _decimal(value: float) -> str:
    """A float as YAML 1.1 reads it: with a point even before an exponent."""
    text = repr(value)
    if text.lstrip("-") in ("inf", "nan"):
        return text.replace("inf", ".inf").replace("nan", ".nan")
    mantissa, mark, exponent = text.partition("e")
    if not mark:
        return text
    return f"{mantissa if '.' in mantissa else f'{mantissa}.0'}e{exponent if exponent[0] in '+-' else f'+{exponent}'}"
