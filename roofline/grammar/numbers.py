"""Sizes, lists, ranges, shares and times from text."""

from __future__ import annotations

import math
import re

from roofline.errors import BadInput, shown
from roofline.quantity import BILLION, KIBI, duration
from roofline.records import dataclass

_NUMBER = r"([+-]?)([0-9]{1,300})(\.[0-9]{1,300})?([km]?)"
_DECIMAL = r"[+-]?(?:[0-9]{1,300}\.?[0-9]{0,300}|\.[0-9]{1,300})(?:e[+-]?[0-9]{1,4})?"
_SCALES = {"": 1, "k": KIBI, "m": KIBI * KIBI}
_GROUPED = r"[0-9]{1,3}(?:[,_'][0-9]{3})+"
_SIZE = f"a whole number such as 4096, 4k or 32K (k = {KIBI})"
_NUMBERS = f"a number such as 64, 12.5 or 1k (k = {KIBI})"
_MOST = 10_000  # numbers of a list
_NO_TIME = r"(?:0+\.?0*|\.0+)\s*([A-Za-z\u00b5]+)"
_NEAR = 2.0**-30  # of a step: rounding by which a range may miss its end


@dataclass(frozen=True, slots=True)
class PromptShare:
    """A cached prefix as a share of the prompt."""

    share: float  # [1]

    def __str__(self) -> str:
        return f"{100.0 * self.share:.6g}%"

    def tokens(self, isl: float) -> float:
        """Whole tokens of a prompt that are cached [tokens]."""
        return float(round(min(isl, BILLION) * self.share))


def whole_of_text(text: str) -> int:
    """A whole number from text; k is 1024 and m is 1024 x 1024.

    >>> whole_of_text("4k"), whole_of_text("1.5K"), whole_of_text("4096")
    (4096, 1536, 4096)
    """
    match = re.fullmatch(_NUMBER, text.strip(), re.IGNORECASE)
    if match is None:
        raise BadInput(f"{shown(text)} is not {_SIZE}{_hint(text)}")
    sign, digits, fraction, letter = match.groups()
    scale = _SCALES[letter.lower()]
    if fraction is None:
        number = int(digits) * scale
    else:
        exact = float(digits + fraction) * scale
        if not exact < BILLION * BILLION or exact != int(exact):
            raise BadInput(f"{shown(text)} is {exact:.7g}, which is not whole; write {_SIZE.removeprefix('a ')}")
        number = int(exact)
    return -number if sign == "-" else number


def number_of_text(text: str) -> float:
    """A number from text; k is 1024.

    >>> number_of_text("1k"), number_of_text("0.5")
    (1024.0, 0.5)
    """
    stripped = text.strip()
    if re.fullmatch(_DECIMAL, stripped, re.IGNORECASE):
        return float(stripped)
    match = re.fullmatch(_NUMBER, stripped, re.IGNORECASE)
    if match is None:
        raise BadInput(f"{shown(text)} is not {_NUMBERS}{_hint(text)}")
    return float(stripped[:-1]) * _SCALES[match[4].lower()]


def share_of_text(text: str) -> float:
    """A share [1] from text.

    >>> share_of_text("80%"), share_of_text("0.8")
    (0.8, 0.8)
    """
    stripped = text.strip()
    number = stripped.removesuffix("%").rstrip()
    if not re.fullmatch(_DECIMAL, number, re.IGNORECASE):
        raise BadInput(f"{shown(text)} is not a share such as 80% or 0.8{_hint(text)}")
    return float(number) / 100.0 if stripped.endswith("%") else float(number)


def prefix_of_text(text: str) -> int | PromptShare:
    """A cached prefix from text: tokens, or a percentage of the prompt.

    >>> prefix_of_text("1k"), prefix_of_text("80%").tokens(1000.0)
    (1024, 800.0)
    """
    if not text.strip().endswith("%"):
        try:
            return whole_of_text(text)
        except BadInput:
            raise BadInput(
                f"{shown(text)} is neither tokens, such as 1k, nor a share of the prompt, such as 80%"
            ) from None
    share = share_of_text(text)
    if not 0.0 <= share <= 1.0:
        raise BadInput(f"{shown(text)} is not between 0% and 100% of the prompt")
    return PromptShare(share)


def wholes_of_text(text: str) -> list[int]:
    """Whole numbers from a list of values and ranges; ranges include both ends.

    >>> wholes_of_text("1k,4k"), wholes_of_text("0:64:32"), wholes_of_text("1:8:x2")
    ([1024, 4096], [0, 32, 64], [1, 2, 4, 8])
    """
    grouped = re.fullmatch(_GROUPED, text.strip())
    if grouped and any(part.startswith("0") for part in text.split(",")[1:]):
        raise BadInput(f"{shown(text)} reads as a list; write {_plain(text)} if one number is meant")
    numbers: list[int] = []
    for part in text.split(","):
        numbers += _range_of_wholes(part, text) if ":" in part else [_whole_part(part, text)]
        _check_many(numbers, text)
    return list(dict.fromkeys(numbers)) if ":" in text else numbers


def numbers_of_text(text: str) -> list[float]:
    """Numbers from a list of values and ranges; ranges include both ends.

    >>> numbers_of_text("0.5,1"), numbers_of_text("1:2:0.5"), numbers_of_text("0.5:2:x2")
    ([0.5, 1.0], [1.0, 1.5, 2.0], [0.5, 1.0, 2.0])
    """
    numbers: list[float] = []
    for part in text.split(","):
        numbers += _range_of_numbers(part, text) if ":" in part else [_number_part(part, text)]
        _check_many(numbers, text)
    return list(dict.fromkeys(numbers)) if ":" in text else numbers


def prefixes_of_text(text: str) -> list[int | PromptShare]:
    """Cached prefixes from a list of tokens, ranges of tokens and percentages of the prompt.

    >>> prefixes_of_text("0,50%")
    [0, PromptShare(share=0.5)]
    """
    prefixes: list[int | PromptShare] = []
    for part in text.split(","):
        prefixes += [prefix_of_text(part)] if part.strip().endswith("%") else wholes_of_text(part)
    return prefixes


def words_of_text(text: str) -> list[str]:
    """Words from a comma-separated list.

    >>> words_of_text("bf16, fp8")
    ['bf16', 'fp8']
    """
    words = [part.strip() for part in text.split(",")]
    if not all(words):
        raise BadInput(f"{shown(text)} has an empty word; write it as bf16,fp8")
    return words


def time_of_text(text: str, *, needs_unit: bool = False) -> float:
    """A time [s] from text; a bare number is in milliseconds, and an error where `needs_unit`.

    >>> time_of_text("300ms"), time_of_text("25")
    (0.3, 0.025)
    """
    stripped = text.strip()
    is_bare = re.fullmatch(_DECIMAL, stripped, re.IGNORECASE) is not None
    if is_bare and needs_unit:
        raise BadInput(f"{shown(text)} has no unit; write {stripped}ms or {stripped}s, or a number of seconds")
    try:
        zero = re.fullmatch(_NO_TIME, stripped)  # `duration` refuses it
        time = duration(stripped) if zero is None else 0.0 * duration(f"1{zero[1]}")
    except BadInput:
        raise BadInput(f"{shown(text)} is not a time such as 300ms, 0.3s or 25us") from None
    if not 0.0 <= time < math.inf:
        raise BadInput(f"{shown(text)} is not a time such as 300ms: it must be positive and finite")
    return time


def _whole_part(part: str, text: str) -> int:
    try:
        return whole_of_text(part)
    except BadInput as error:
        raise BadInput(f"{error}, nor a range such as 1:256:x2{_in_whole(part, text)}") from None


def _number_part(part: str, text: str) -> float:
    try:
        return number_of_text(part)
    except BadInput as error:
        raise BadInput(f"{error}, nor a range such as 0.5:8:x2{_in_whole(part, text)}") from None


def _range_of_wholes(part: str, text: str) -> list[int]:
    """Whole numbers of from:to:step or from:to:xfactor, both ends included."""
    ends, step, is_factor = _range_parts(part, text)
    first, last = (_whole_part(end, text) for end in ends)
    width = _whole_part(step, text)
    _check_range(part, text, first, last, width, is_factor=is_factor)
    if not is_factor:
        return list(range(first, last + 1, width)[: _MOST + 1])
    numbers = [first]
    while numbers[-1] * width <= last:
        numbers.append(numbers[-1] * width)
    return numbers


def _range_of_numbers(part: str, text: str) -> list[float]:
    ends, step, is_factor = _range_parts(part, text)
    first, last = (_number_part(end, text) for end in ends)
    width = _number_part(step, text)
    _check_range(part, text, first, last, width, is_factor=is_factor)
    if is_factor:
        count = math.floor(math.log(last / first) / math.log(width) + _NEAR)
        return [_tidy(first * width**place) for place in range(min(count, _MOST) + 1)]
    count = math.floor((last - first) / width + _NEAR)
    return [_tidy(first + place * width) for place in range(min(count, _MOST) + 1)]


def _range_parts(part: str, text: str) -> tuple[list[str], str, bool]:
    """Both ends of a range, its step or factor, and whether it is a factor."""
    ends = [end.strip() for end in part.split(":")]
    if len(ends) not in (2, 3):
        raise BadInput(f"{shown(part.strip())} is not a range such as 0:64:8 or 1:256:x2{_in_whole(part, text)}")
    step = ends.pop() if len(ends) == 3 else "1"
    is_factor = step[:1].lower() == "x"
    return ends, step[1:] if is_factor else step, is_factor


def _check_range(part: str, text: str, first: float, last: float, width: float, *, is_factor: bool) -> None:
    fault = None
    if first < 0:
        fault = "begins below 0"
    elif last < first:
        fault = "ends before it begins"
    elif not is_factor and not width > 0:
        fault = "never ends: its step must be above 0"
    elif is_factor and not width > 1:
        fault = "never ends: its factor must be above 1"
    elif is_factor and not first > 0:
        fault = "never leaves 0: with a factor it must begin above 0"
    if fault is not None:
        raise BadInput(
            f"the range {shown(part.strip())} {fault}; write it as 0:64:8 or 1:256:x2{_in_whole(part, text)}"
        )


def _check_many(numbers: list[int] | list[float], text: str) -> None:
    if len(numbers) > _MOST:
        raise BadInput(f"{shown(text)} holds more than {_MOST} numbers; take a larger step")


def _in_whole(part: str, text: str) -> str:
    """The text that a part belongs to, unless it is the whole text."""
    return "" if part.strip() == text.strip() else f" (in {shown(text)})"


def _tidy(number: float) -> float:
    """A number without the rounding errors of its range."""
    return float(f"{number:.12g}")


def _hint(text: str) -> str:
    """What to write instead of a common mistake."""
    stripped = text.strip()
    if re.fullmatch(_GROUPED, stripped):
        return f"; write {_plain(stripped)}"
    if "," in stripped or ":" in stripped:
        return "; a single value is wanted, not a list or a range"
    unit = re.fullmatch(
        r"([0-9.]+[km]?)\s*(?:tokens?|toks?|users?|requests?|reqs?|b|x|/s|rps|qps)", stripped, re.IGNORECASE
    )
    return f"; write {unit[1]}" if unit else ""


def _plain(text: str) -> str:
    return re.sub(r"[^0-9]", "", text)
