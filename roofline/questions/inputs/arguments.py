"""Arguments of the public functions, coerced to plain Python values; errors name the argument.

Scalars of numpy, pandas and similar libraries, Decimals, Fractions and enumeration members become the number or text
that they hold, without importing those libraries.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Set, Sized
from contextlib import suppress
from functools import cache
from itertools import islice, product
from operator import index
from typing import Any

from roofline.numbers.quantity import BILLION, MILLI, MINUTE, rounded
from roofline.specs.gpu import Gpu
from roofline.specs.model import Model
from roofline.specs.workload import (
    LATENCIES,
    LAWS,
    OF_REQUESTS,
    P99_WITHIN,
    SLO_EXAMPLE,
    Limits,
    binding_text,
    check_limits,
    is_on_mean,
    is_stated,
    key_of,
    key_text,
    limited_twice,
    limits_of_text,
    limits_words,
    metric_and_level,
    ratio_of_text,
    speed_key,
    time_at_speed,
)
from roofline.specs.written import (
    Pool,
    PromptShare,
    api_price_of_text,
    read_as,
    time_of_text,
)
from roofline.support.errors import BadInput, UnknownName, percent_hint, shown
from roofline.support.reading import exists

__all__ = [
    "LATENCIES",
    "OF_REQUESTS",
    "P99_WITHIN",
    "api_price_of_text",
    "binding_text",
    "is_on_mean",
    "key_text",
    "limits_words",
]


#: Types that need no coercion.
PLAIN = frozenset({int, float, str, bool, type(None)})
#: Types of parallel degrees and numbers of GPUs that need none.
COUNTS = frozenset({int, type(None)})

_EXACT = 2.0**53
_MOST_VALUES = 2_000_000
_NO_NUMBER = ("M", "m")  # numpy kinds of dates and durations, which count in their own units
_BYTES = (bytes, bytearray, memoryview)
_OF_SEVERAL = "of several, table makes a row of each: rl.table(models, gpus, ...)"


def scalar(value: Any) -> Any:
    """The plain value that a scalar stands for.

    >>> from fractions import Fraction
    >>> scalar(Fraction(4, 2)), scalar(Fraction(1, 2)), scalar([2])
    (2, 0.5, [2])
    """
    if type(value) in PLAIN:
        return value
    if isinstance(value, str):
        return str.__str__(value)
    if isinstance(value, os.PathLike):
        return os.fspath(value)
    if type(value).__name__ == "NAType" or isinstance(value, (*_BYTES, Mapping, Set)):
        return None if type(value).__name__ == "NAType" else value
    if getattr(value, "ndim", None) == 0:
        return _item(value)
    return value if isinstance(value, Sized) else _number(value)


def scalars(**arguments: Any) -> tuple[Any, ...]:
    """Plain values of arguments that hold one value each, in the order given."""
    return tuple(_plain(name, value) for name, value in arguments.items())


def number(name: str, value: Any, least: float, most: float) -> float:
    """A number between two bounds, as a float.

    >>> number("burst", 1, 0.0, 1.0)
    1.0
    """
    plain = scalar(value)
    if type(plain) not in (float, int) or not least <= plain <= most:
        hint = percent_hint(plain, most) if most <= 1.0 else ""
        raise BadInput(f"{name} = {shown(value)} must be a number between {least:g} and {most:g}{hint}")
    return float(plain)


def whole(name: str, value: Any) -> int:
    if type(value) is not int:
        raise BadInput(f"{name} = {shown(value)} must be a whole number")
    return value


def one_case(question: str, value: Any, what: str = "lengths") -> None:
    """Refuse arrays: `value` is a figure, or the sum of figures, that is a float where all are."""
    if type(value) is not float:
        raise BadInput(f"{question} takes one case; {what} must be numbers, not arrays; {_OF_SEVERAL}")


def single_numbers(question: str, options: Mapping[str, Any], names: Iterable[str]) -> None:
    """Refuse arrays among the named options, before anything is computed."""
    for name in names:
        if values_of(name, options.get(name)) is not None:
            raise BadInput(
                f"{question} takes one case: {name} = {shown(options[name])} must be a single number, not an array; "
                f"{_OF_SEVERAL}"
            )


def without(question: str, options: Mapping[str, Any]) -> dict[str, Any]:
    """Options other than those that a question refuses; refused with the reason where one of these is given."""
    from roofline.questions.inputs.options import QUESTIONS

    refused = QUESTIONS[question].refused
    for name, why in refused.items():
        value = scalar(options.get(name))
        if value is not None and value is not False:
            raise BadInput(f"{question} takes no {name}: {why.replace('`', '')}")
    return {name: value for name, value in options.items() if name not in refused}


def flag(name: str, value: Any) -> bool:
    plain = scalar(value)
    if type(plain) is not bool:
        raise BadInput(f"{name} = {shown(value)} must be True or False")
    return plain


def path(name: str, value: Any) -> str:
    """A text or a `pathlib.Path`, as text."""
    plain = scalar(value)
    if not isinstance(plain, str) or not plain or "\0" in plain:
        raise BadInput(f"{name} = {shown(value)} must be the path of a file")
    return plain


def folder(specs: Any) -> str | None:
    """A folder of specifications, as text; None for $ROOFLINE_SPECS."""
    plain = scalar(specs)
    if not (plain is None or isinstance(plain, str)):
        raise BadInput(f"specs = {shown(specs)} must be the path of a folder, as text")
    return plain


def name_or_record(name: str, value: Any) -> Any:
    if isinstance(value, (Model, Gpu)):
        return value
    plain = scalar(value)
    if not isinstance(plain, str):
        raise UnknownName(f"{name} = {shown(value)} must be a name, as text, or a record")
    return plain


def several(name: str, value: Any) -> list[Any]:
    """Values of an argument given once or as a sequence, which must not be empty."""
    values = values_of(name, value)
    if values is None:
        return [scalar(value)]
    if not values:
        raise BadInput(f"{name} must not be an empty list")
    return values


def values_of(name: str, value: Any) -> list[Any] | None:
    """Values of a sequence, at most two million; None for a single value."""
    if type(value) in PLAIN or isinstance(value, (str, *_BYTES, Mapping, Model, Gpu)):
        return None
    if isinstance(value, Set) and not hasattr(value, "mapping"):  # dict.keys() is an ordered set
        raise BadInput(f"{name} = {shown(value)} is an unordered set; use a list")
    refuse_masked(name, value)
    many = False
    if isinstance(value, Iterator):
        values = list(islice(value, _MOST_VALUES + 1))
    elif getattr(value, "ndim", None) == 0 or not isinstance(value, Sized):
        return None
    else:
        try:
            many = len(value) > _MOST_VALUES
            items: Any = value.tolist() if hasattr(value, "tolist") and not many else value
            values = [] if many else list(items)
        except TypeError:
            raise BadInput(f"{name} = {shown(value)} must be a list of values") from None
    if many or len(values) > _MOST_VALUES:
        raise BadInput(f"{name} has more than {_MOST_VALUES} values; use fewer at a time")
    plain = [scalar(item) for item in values]
    nested = next((item for item in plain if isinstance(item, (list, tuple)) or hasattr(item, "shape")), None)
    if nested is not None:
        raise BadInput(f"{name} = {shown(value)} contains a list, {shown(nested)}; use one flat list")
    return plain


def refuse_masked(name: str, value: Any) -> None:
    mask = getattr(value, "mask", None) if hasattr(value, "filled") else None
    if mask is not None and getattr(mask, "any", bool)():
        raise BadInput(f"{name} has masked elements; use {name}.compressed() or fill them")


def _plain(name: str, value: Any) -> Any:
    plain = scalar(value)
    if type(plain) not in PLAIN:
        error = UnknownName if name == "engine" else BadInput
        several = f"; {_OF_SEVERAL}" if isinstance(value, (list, tuple)) else ""
        raise error(f"{name} = {shown(value)} must be a single number or text{several}")
    return plain


def _item(value: Any) -> Any:
    """The element of a zero-dimensional array, or of a scalar that behaves like one."""
    refuse_masked("a number", value)
    if getattr(getattr(value, "dtype", None), "kind", "") in _NO_NUMBER:
        return value
    with suppress(AttributeError, TypeError, ValueError):
        item = value.item()
        return item if type(item) in PLAIN else value if item is value else _number(item)
    return value


def _number(value: Any) -> Any:
    """An int where the value is whole, else a float; the value itself where it is not a number."""
    with suppress(TypeError, ValueError, OverflowError):
        return int(index(value))
    with suppress(AttributeError, TypeError, ValueError, OverflowError):
        number = float(value.__float__())
        is_exact = hasattr(value, "as_integer_ratio") and not isinstance(value, float)  # a Fraction, a Decimal
        return int(number) if is_exact and number.is_integer() and abs(number) < _EXACT else number
    return value


# Options written as texts, with the same grammar and parsers as in the shell.


@cache
def _parsers() -> tuple[dict[str, Callable[[str], Any]], dict[str, Callable[[str], list[Any]]]]:
    """Parser of each option, and of those that take several values."""
    from roofline.questions.inputs.options import COUNT, OPTIONS, SHARE, TIME

    values = {
        **dict.fromkeys(("spare", "requests"), COUNT),  # of single questions
        **dict.fromkeys(("share", "spread"), SHARE),
        **dict.fromkeys(("ttft", "tpot", "e2el"), TIME),
        **{name: option.value for name, option in OPTIONS.items()},
    }
    one = {name: value.read for name, value in values.items() if value.read is not None}
    return one, {name: value.read_all for name, value in values.items() if value.read_all is not None}


def listed_names(name: str, value: Any) -> list[Any]:
    """Names or records; a text is split at its commas, unless it is a path.

    >>> listed_names("gpus", ["h100, b200", "l40s:tp2"])
    ['h100', 'b200', 'l40s:tp2']
    """
    names: list[Any] = []
    for item in several(name, value):
        text: Any = item if isinstance(item, Pool) else name_or_record(name, item)
        parts = [text] if not isinstance(text, str) or "," not in text or is_file(text) else text.split(",")
        if len(parts) > 1:
            parts = [part.strip() for part in parts]
            if not all(parts):
                raise BadInput(f"{name} = {shown(text)} has an empty name between its commas")
        names += parts
    return names


def is_file(text: str) -> bool:
    """Whether a path exists and may be read; false for invalid paths."""
    return exists(text)


def plain_value(name: str, value: Any) -> Any:
    """The value of an option, parsed if it is a text with a grammar.

    >>> plain_value("isl", "4k"), plain_value("share", "99%"), plain_value("engine", "vllm")
    (4096, 0.99, 'vllm')
    """
    read = _parsers()[0].get(name) if isinstance(value, str) else None
    return value if read is None else read_as(f"{name} = ", read, str.__str__(value))


def all_values(name: str, value: Any) -> list[Any]:
    """Values of an option that may have several: from commas and ranges in a text, or from a list.

    >>> all_values("isl", "1k,4k"), all_values("tp", "1:8:x2"), all_values("isl", ["1k", 2000])
    ([1024, 4096], [1, 2, 4, 8], [1024, 2000])
    """
    text = scalar(value)
    read_all = _parsers()[1].get(name) if isinstance(text, str) else None
    if read_all is not None:
        return read_as(f"{name} = ", read_all, text)
    if isinstance(value, PromptShare):
        return [value]
    return [plain_value(name, item) for item in several(name, value)]


def each_case(question: str, model: Any, options: Mapping[str, Any]) -> list[tuple[Any, dict[str, Any]]]:
    """Model and options of each case, of a question that answers a row for each of several models and values."""
    from roofline.questions.inputs.options import LISTED, QUESTIONS, combinations

    taken = QUESTIONS[question]
    listed = {
        name: all_values(name, value) if name in LISTED and name not in taken.several else value
        for name, value in options.items()
    }
    return list(product(each_model(model), combinations(listed, taken)))


def each_model(model: Any) -> list[Any]:
    """The model, or each of several, named in a list or with commas."""
    is_one = values_of("model", model) is None and not (isinstance(model, str) and "," in model)
    return [model] if is_one else listed_names("model", model)


def plain_counts(**options: Any) -> tuple[Any, ...]:
    """Whole numbers from numbers or texts, in the order given."""
    return tuple(plain_value(name, value) for name, value in zip(options, scalars(**options), strict=True))


def plain_options(options: Mapping[str, Any]) -> dict[str, Any]:
    """Options with texts parsed; a prefix share becomes tokens unless isl is an array or comes from a trace."""
    plain = {name: plain_value(name, value) for name, value in options.items()}
    isl = scalar(plain.get("isl"))
    is_trace = isinstance(plain.get("lengths"), Mapping) or plain.get("lengths") not in (None, *LAWS)
    if isinstance(plain.get("prefix"), PromptShare) and type(isl) in (int, float) and not is_trace:
        plain["prefix"] = plain["prefix"].tokens(isl)
    return plain


def named_records(options: Mapping[str, Any]) -> dict[str, Any]:
    """Options as JSON values that questions read: models and GPUs by their names, limits over a minute as texts."""

    def plain(value: Any) -> Any:
        if isinstance(value, (Model, Gpu)):
            return value.short_name if isinstance(value, Model) else value.name
        if isinstance(value, Limits):
            return {key: f"{limit!r} s" if MINUTE < limit < BILLION else limit for key, limit in value.items()}
        return str(value) if isinstance(value, PromptShare) else value

    return {name: plain(value) for name, value in options.items()}


def number_if_given(name: str, value: Any, least: float, most: float) -> float | None:
    """A number between two bounds, from a number or a text."""
    plain = plain_value(name, scalar(value))
    return None if plain is None else number(name, plain, least, most)


def tokens_of_prefix(prefix: Any, isl: Any) -> Any:
    """A cached prefix in tokens, in the shape of `isl` where it is a share of it."""
    text = prefix if isinstance(prefix, PromptShare) else scalar(prefix)
    known = plain_value("prefix", text) if isinstance(text, str) else text
    if not isinstance(known, PromptShare):
        return prefix if text is not known or not isinstance(text, str) else known
    if type(isl) in (int, float):
        return known.tokens(isl)
    if not hasattr(isl, "round"):
        raise BadInput(f"prefix = {shown(prefix)} is a share of the prompt, which is {shown(isl)}")
    return (isl * known.share).round()


# Limits on latencies, as callers write them.


def required_limits(question: str, slo: Any) -> Limits:
    """Limits in seconds, at least one."""
    limits = slo_limits(slo)
    if not limits:
        raise BadInput(f"{question} needs an SLO, such as slo = ttft:300ms@p95,tpot:25ms")
    return limits


def slo_limits(slo: Any) -> Limits | None:
    """Limits in seconds; bare numbers are ms in a text, seconds in a mapping."""
    slo = scalar(slo) if not isinstance(slo, Mapping) else slo
    if slo is None:
        return None
    if isinstance(slo, str):
        return limits_of_text(slo)
    if type(slo) is Limits:
        check_limits(slo)
        return slo
    if not isinstance(slo, Mapping):
        example = "{'ttft': 0.3}"
        raise BadInput(
            f"slo = {shown(slo)} must be a mapping of limits in seconds, such as {example}, or {SLO_EXAMPLE!r}"
        )
    limits = Limits()
    for name, limit in slo.items():
        plain_name, text = scalar(name), scalar(limit)
        of_speed = speed_key(plain_name)
        metric, level = metric_and_level(of_speed or plain_name)
        if isinstance(text, str) and "@" in text and not is_stated(of_speed or str(plain_name)):
            text, _, level_text = text.partition("@")
            _, level = metric_and_level(f"{metric}@{level_text.strip()}")
        key = key_of(metric, level)
        if key in limits:
            raise BadInput(limited_twice(key, slo))
        if of_speed is not None:
            limits[key] = time_at_speed(text, f"SLO {name} = {shown(limit)}")
        elif key == P99_WITHIN:
            limits[key] = ratio_of_text(text) if isinstance(text, str) else number(key, text, 1.0, BILLION)
        else:
            limits[key] = _time_limit(f"SLO {name}", text)
    check_limits(limits)
    return limits


def with_p99_within(slo: Limits | None, within: float) -> Limits:
    """Limits with one on the p99 over the median added [1]."""
    if slo is not None and P99_WITHIN in slo:
        raise BadInput("the SLO already limits the p99 over the median; state it once")
    return Limits({**(slo or {}), P99_WITHIN: within})


def _time_limit(name: str, value: Any) -> float:
    """A limit on a latency [s]; a bare number over a minute is refused as milliseconds."""
    time = scalar(value)
    if isinstance(time, str):
        return _parsed_time(name, time)
    if type(time) not in (float, int) or not 0.0 < time <= BILLION:
        raise BadInput(f"{name} = {shown(value)} must be a positive, finite time in seconds")
    if MINUTE < time < BILLION:  # a billion, the largest number, is no limit at all
        text = shown(time)
        raise BadInput(
            f"{name} = {text} is over a minute (bare numbers are seconds); write {rounded(time * MILLI)} for "
            f"{text} ms, or {text + ' s'!r} if that is meant"
        )
    return float(time)


def _parsed_time(name: str, text: str) -> float:
    try:
        time = time_of_text(text, needs_unit=True)
    except BadInput:
        time = 0.0
    if not 0.0 < time <= BILLION:
        raise BadInput(f"{name} = {shown(text)} must be a time in seconds, such as 0.3 or '300 ms'")
    return time
