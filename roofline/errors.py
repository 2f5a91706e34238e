"""The errors that roofline raises: what was asked, what is wrong with it, what to do."""

from __future__ import annotations

from collections.abc import Iterable

__all__ = [
    "BadInput",
    "BadSpec",
    "DoesNotFit",
    "Overloaded",
    "RooflineError",
    "UnknownName",
    "UnsupportedPrecision",
    "did_you_mean",
    "printable",
    "shown",
]


class RooflineError(Exception):
    """Base of every error that a caller can cause and correct; its message is fit for any terminal."""

    def __str__(self) -> str:
        return printable(super().__str__(), lines=True)


class UnknownName(RooflineError):
    """A GPU, model, format or SLO key that no catalog knows; the message names the nearest ones."""


class UnsupportedPrecision(RooflineError):
    """A number format that the GPU's tensor cores do not have."""


class DoesNotFit(RooflineError):
    """Weights, KV cache and activations exceed the GPU's memory; the message names the shortfall."""


class Overloaded(RooflineError):
    """More requests come than the deployment can answer."""


class BadSpec(RooflineError):
    """A specification file with faults; the message lists all of them as file:line: field: fault."""


class BadInput(RooflineError):
    """A number or a plan that cannot be: negative, not finite, absurdly large, not divisible."""


def did_you_mean(nearest: Iterable[str]) -> str:
    """The end of a message on an unknown name: the nearest known ones.

    Args:
        nearest: known names, best first [text].

    Returns:
        A question after a semicolon; empty where nothing is near [text].

    >>> did_you_mean(["h100-sxm", "h100-pcie", "h100-nvl"]), did_you_mean([])
    ('; did you mean h100-sxm, h100-pcie or h100-nvl?', '')
    """
    names = list(nearest)
    if not names:
        return ""
    return f"; did you mean {', '.join(names[:-1])}{' or ' if len(names) > 1 else ''}{names[-1]}?"


def printable(text: str, *, lines: bool = False) -> str:
    """A text that shows what it is: control, bidirectional and other unprintable characters as their escapes.

    Text from files and options goes through here before a person sees it: a terminal obeys an escape
    sequence, U+202E turns a line round, U+2028 breaks one, and half a surrogate pair cannot be written.

    Args:
        text: whatever it holds [text].
        lines: leave line ends as they are [bool].

    Returns:
        Text that any terminal and any file can hold [text].

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
    """A value as a message can show it: short, whatever it is.

    Args:
        value: anything [any].

    Returns:
        Text of at most 60 characters [text].

    >>> shown(2000), shown(10**5000)
    ('2000', 'a huge number')
    """
    try:
        text = repr(value)
    except ValueError:  # more digits than Python converts
        return "a huge number"
    text = printable(text)
    return text if len(text) <= _LONGEST else text[: _LONGEST - 3] + "..."


_LONGEST = 60
