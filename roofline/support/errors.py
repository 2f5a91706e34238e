"""The errors that roofline raises, and how they show texts and values."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from contextlib import contextmanager


class RooflineError(Exception):
    """Base of every error that a caller can cause and correct; any terminal can print its message."""

    #: Why a case has no answer, in a word or two: in tables, and in the reasons of rows and verdicts.
    short = "refused"

    def __str__(self) -> str:
        return printable(super().__str__(), lines=True)


class UnknownName(RooflineError):
    """A GPU, model, format or SLO key that no catalog knows; the message names the nearest ones."""


class UnsupportedPrecision(RooflineError):
    """A number format that the GPU's tensor cores do not have."""

    short = "unsupported"


class DoesNotFit(RooflineError):
    """Weights, KV cache and activations exceed the GPU's memory; the message names the shortfall."""

    short = "does not fit"


class Overloaded(RooflineError):
    """Requests arrive faster than the deployment can answer them."""

    short = "overloaded"


class NoSteadyState(Overloaded):
    """A load that the equations have no solution for, though it may be answered."""

    short = "no steady state was found"


class OverloadedAtTimes(Overloaded):
    """Requests that bunch, of which too many meet a rate above the saturation for closed forms to hold."""

    short = "overloaded at times"
    prediction: object = None  # without times, for a simulation


class BadSpec(RooflineError):
    """A faulty specification file; the message lists every fault as file:line: field: fault."""


class BadInput(RooflineError):
    """An impossible number or plan: negative, not finite, absurdly large, not divisible."""


def check_known(
    what: str,
    value: object,
    names: Collection[str],
    *,
    start: str = "",
    end: str = "",
    error: type[RooflineError] = UnknownName,
) -> None:
    """Refuse a value that is not among some names; `start` and `end` surround the message.

    >>> check_known("basis", "ideal", ("ideal", "calibrated"))
    """
    if not isinstance(value, str) or value not in names:
        raise error(f"{start}unknown {what} {shown(value)}; choose from {', '.join(names)}{end}")


@contextmanager
def needing(what: str, extra: str) -> Iterator[None]:
    """Import of an optional library; where it is missing, the error says what needs it and how to install it."""
    try:
        yield
    except ImportError:
        raise BadInput(f'{what}: pip install "roofline[{extra}]"') from None


def did_you_mean(nearest: Iterable[str]) -> str:
    """The end of a message about an unknown name: known names, nearest first.

    >>> did_you_mean(["h100-sxm", "h100-pcie", "h100-nvl"]), did_you_mean([])
    ('; did you mean h100-sxm, h100-pcie or h100-nvl?', '')
    """
    names = list(nearest)
    if not names:
        return ""
    return f"; did you mean {', '.join(names[:-1])}{' or ' if len(names) > 1 else ''}{names[-1]}?"


def percent_hint(value: object, most: float = 1.0) -> str:
    """The end of a message about a share, at most `most`, that must have been meant in percent.

    >>> percent_hint(80), percent_hint(1.5)
    ('; write 80% or 0.8', '')
    """
    if not isinstance(value, (int, float)) or not 2.0 <= value <= 100.0 * most:
        return ""
    return f"; write {value:g}% or {value / 100.0:g}"


def printable(text: str, *, lines: bool = False) -> str:
    """A text with control, bidirectional and other unprintable characters escaped.

    Every text from a file or an option passes through here before a person sees it: a terminal obeys escape
    sequences, U+202E reverses a line, U+2028 breaks one, and half a surrogate pair cannot be written.

    >>> printable("red \\x1b[31m, turned \\u202e")
    'red \\\\x1b[31m, turned \\\\u202e'
    """
    if text.isprintable():
        return text
    if lines:
        return "\n".join(map(printable, text.split("\n")))
    return "".join(
        character if character.isprintable() else character.encode("unicode_escape").decode() for character in text
    )


def shown(value: object) -> str:
    """A value as a message shows it, in at most 60 characters; a number that nobody counts out in four digits.

    >>> shown(2000), shown(10**30), shown(10**5000)
    ('2000', '1e+30', 'a huge number')
    """
    try:
        text = repr(value)
        if type(value) in (int, float) and len(text.partition(".")[0]) > _MOST_DIGITS:
            text = f"{value:.4g}"
    except (ValueError, OverflowError):  # more digits than Python converts, or than a float holds
        return "a huge number"
    text = printable(text)
    return text if len(text) <= _LONGEST else text[: _LONGEST - 3] + "..."


_LONGEST = 60
_MOST_DIGITS = 13  # of a number that is counted out
