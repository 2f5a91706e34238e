"""How people write values: numbers and lists, rates, measurements, lengths, prices, pools of GPUs, acceptances."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from contextlib import suppress
from typing import Any, TypeVar

from roofline.numbers.quantity import BILLION, DAY, HOUR, KIBI, KILO, MEGA, MINUTE, MONTH, YEAR, duration
from roofline.specs.engine import MOST_DRAFTS, PRESETS_OF_ACCEPTANCE, Acceptance
from roofline.specs.formats import is_format
from roofline.specs.names import Entry, match_name
from roofline.support.errors import BadInput, UnknownName, percent_hint, shown
from roofline.support.records import dataclass

# Sizes, lists, ranges, shares and times from text.

_NUMBER = r"([+-]?)([0-9]{1,300})(\.[0-9]{1,300})?([km]?)"
_DECIMAL = r"[+-]?(?:[0-9]{1,300}\.?[0-9]{0,300}|\.[0-9]{1,300})(?:e[+-]?[0-9]{1,4})?"
_SCALES = {"": 1, "k": KIBI, "m": KIBI * KIBI}
_GROUPED = r"[0-9]{1,3}(?:[,_'][0-9]{3})+"
_SEPARATOR = r"[,_'](?=[0-9]{3})"
_SIZE_WORDS = f"a whole number such as 4096, 4k or 32K (k = {KIBI})"
_NUMBERS = f"a number such as 64, 12.5 or 1k (k = {KIBI})"
_MOST_NUMBERS = 10_000  # numbers of a list
_NO_TIME = r"(?:0+\.?0*|\.0+)\s*([A-Za-z\u00b5]+)"
_THOUSANDS = {"": 1.0, "k": KILO, "m": MEGA}  # of requests per second and money, which nobody counts in 1,024
_PERIODS = {  # [s] by word; ps to pd end rps, qpm and the like
    **dict.fromkeys(("s", "sec", "second", "ps"), 1.0),
    **dict.fromkeys(("min", "minute", "pm"), MINUTE),
    **dict.fromkeys(("h", "hr", "hour", "ph"), HOUR),
    **dict.fromkeys(("d", "day", "pd"), DAY),
    **dict.fromkeys(("mo", "month"), MONTH),
    **dict.fromkeys(("y", "yr", "year"), YEAR),
}
_PLAIN_NUMBER = r"[0-9]{1,12}(?:\.[0-9]{0,12})?|\.[0-9]{1,12}"
_PER = r"(?:/|per\s)\s*"
_RATE = (
    rf"({_PLAIN_NUMBER})\s*([km]?)\s*"
    rf"(?:(?:req(?:uest)?s?|queries|prompts?)?\s*{_PER}([a-z]{{1,12}})|[rq](p[smhd]))?"
)
_NEAR = 2.0**-30  # of a step: rounding by which a range may miss its end

_Value = TypeVar("_Value")


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
        raise BadInput(f"{shown(text)} is not {_SIZE_WORDS}{_hint(text)}")
    sign, digits, fraction, letter = match.groups()
    scale = _SCALES[letter.lower()]
    if fraction is None:
        number = int(digits) * scale
    else:
        exact = float(digits + fraction) * scale
        if not exact < BILLION * BILLION or exact != int(exact):
            raise BadInput(f"{shown(text)} is {exact:.7g}, which is not whole; write {_SIZE_WORDS.removeprefix('a ')}")
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
    _refuse_grouped(text)
    numbers: list[int] = []
    for part in text.split(","):
        numbers += _range_of_wholes(part, text) if ":" in part else [_whole_part(part, text)]
        _check_many(numbers, text)
    return list(dict.fromkeys(numbers)) if ":" in text else numbers


def _refuse_grouped(text: str) -> None:
    """Refuse a number with separators of thousands, which would be a list with an odd element."""
    if re.fullmatch(_GROUPED, text.strip()) and any(part.startswith("0") for part in text.split(",")[1:]):
        raise BadInput(f"{shown(text)} reads as a list; write {_plain(text)} if one number is meant")


def numbers_of_text(text: str, read: Callable[[str], float] = number_of_text) -> list[float]:
    """Numbers from a list of values and ranges, each as `read` reads it; ranges include both ends.

    >>> numbers_of_text("0.5,1"), numbers_of_text("1:2:0.5"), numbers_of_text("0.5:2:x2")
    ([0.5, 1.0], [1.0, 1.5, 2.0], [0.5, 1.0, 2.0])
    """
    _refuse_grouped(text)
    numbers: list[float] = []
    for part in text.split(","):
        numbers += _range_of_numbers(part, text, read) if ":" in part else [_number_part(part, text, read)]
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


def rate_of_text(text: str) -> float:
    """A rate of requests [1/s] from text, per second unless it has a period; k is a thousand.

    >>> rate_of_text("1800/min"), rate_of_text("36k/h"), rate_of_text("30 requests/s"), rate_of_text("1k")
    (30.0, 10.0, 30.0, 1000.0)
    """
    match = re.fullmatch(_RATE, text.strip(), re.IGNORECASE)
    if match is None:
        try:
            return number_of_text(text)
        except BadInput:
            raise BadInput(f"{shown(text)} is not a rate such as 4, 30/s, 1800/min or 100k/h{_hint(text)}") from None
    amount, letter, period, short = match.groups()
    return (
        float(amount) * _THOUSANDS[letter.lower()] / _period(period or short or "s", text, "30/s, 1800/min or 100k/h")
    )


def rates_of_text(text: str) -> list[float]:
    """Rates [1/s] from a list of values and ranges, with or without a period.

    >>> rates_of_text("0.5,120/min"), rates_of_text("1:4:x2")
    ([0.5, 2.0], [1.0, 2.0, 4.0])
    """
    period = text.partition("/")
    if period[1] and re.fullmatch(_GROUPED, period[0].strip()):
        raise BadInput(
            f"{shown(text)} reads as a list; write {_plain(period[0])}/{period[2].strip()} if one rate is meant"
        )
    return numbers_of_text(text, rate_of_text)


def _period(word: str, text: str, examples: str) -> float:
    """Seconds of a period such as ``h``, ``min`` or ``month``."""
    if word.lower() not in _PERIODS:
        either = ": min or month?" if word.lower() == "m" else ""
        raise BadInput(f"{shown(text)}: {shown(word)} is not a period{either}; write it as {examples}")
    return _PERIODS[word.lower()]


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


def _number_part(part: str, text: str, read: Callable[[str], float]) -> float:
    try:
        return read(part)
    except BadInput as error:
        raise BadInput(f"{error}, nor a range such as 0.5:8:x2{_in_whole(part, text)}") from None


def _range_of_wholes(part: str, text: str) -> list[int]:
    """Whole numbers of from:to:step or from:to:xfactor, both ends included."""
    ends, step, is_factor = _range_parts(part, text)
    first, last = (_whole_part(end, text) for end in ends)
    width = _whole_part(step, text)
    _check_range(part, text, first, last, width, is_factor=is_factor)
    if not is_factor:
        return list(range(first, last + 1, width)[: _MOST_NUMBERS + 1])
    numbers = [first]
    while numbers[-1] * width <= last:
        numbers.append(numbers[-1] * width)
    return numbers


def _range_of_numbers(part: str, text: str, read: Callable[[str], float]) -> list[float]:
    ends, step, is_factor = _range_parts(part, text)
    first, last = (_number_part(end, text, read) for end in ends)
    width = _number_part(step, text, read)
    _check_range(part, text, first, last, width, is_factor=is_factor)
    if is_factor:
        count = math.floor(math.log(last / first) / math.log(width) + _NEAR)
        return [_tidy(first * width**place) for place in range(min(count, _MOST_NUMBERS) + 1)]
    count = math.floor((last - first) / width + _NEAR)
    return [_tidy(first + place * width) for place in range(min(count, _MOST_NUMBERS) + 1)]


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
    if len(numbers) > _MOST_NUMBERS:
        raise BadInput(f"{shown(text)} holds more than {_MOST_NUMBERS} numbers; take a larger step")


def _in_whole(part: str, text: str) -> str:
    """The text that a part belongs to, unless it is the whole text."""
    return "" if part.strip() == text.strip() else f" (in {shown(text)})"


def _tidy(number: float) -> float:
    """A number without the rounding errors of its range."""
    return float(f"{number:.12g}")


def _hint(text: str) -> str:
    """What to write instead of a common mistake."""
    stripped = text.strip()
    if re.fullmatch(rf"\$?{_GROUPED}(?:\s*/.*)?", stripped):
        return f"; write {re.sub(_SEPARATOR, '', stripped)}"
    if "," in stripped or ":" in stripped:
        return "; a single value is wanted, not a list or a range"
    unit = re.fullmatch(
        r"([0-9.]+[km]?)\s*(?:tokens?|toks?|users?|requests?|reqs?|b|x|/s|rps|qps)", stripped, re.IGNORECASE
    )
    return f"; write {unit[1]}" if unit else ""


def _plain(text: str) -> str:
    return re.sub(r"[^0-9]", "", text)


# A measurement of a deployment from text.

#: Latencies that may be measured.
TIMES = ("ttft", "tpot")

#: What a measurement looks like.
MEASURED_EXAMPLE = "tpot=14.2,batch=1 or ttft=0.3s,isl=4k,concurrency=64"

_KEYS = (*TIMES, "isl", "osl", "batch", "prefix", "concurrency", "request_rate")
_ALIASES = {"itl": "tpot", "users": "concurrency", "rate": "request_rate"}
_LONGEST_MEASUREMENT = 300  # characters


def read_as(start: str, read: Callable[[str], _Value], text: str) -> _Value:
    """What a parser makes of a text; its errors get the `start`, which names the option."""
    try:
        return read(text)
    except BadInput as error:
        raise BadInput(f"{start}{error}") from None


def measured_of_text(text: str) -> dict[str, float]:
    """Latencies [s] with the lengths and the load they were measured at; a bare time is in milliseconds.

    >>> measured_of_text("tpot=25ms, isl=4k, batch=1")
    {'tpot': 0.025, 'isl': 4096.0, 'batch': 1.0}
    """
    if len(text) > _LONGEST_MEASUREMENT:
        raise BadInput(f"{shown(text)} is not a measurement; write {MEASURED_EXAMPLE}")
    measured: dict[str, float] = {}
    for part in re.split(r"\s*[,;]\s*|\s+(?=[A-Za-z])", text.strip()):
        key, sign, value = (piece.strip() for piece in part.partition("="))
        name = key.lower().replace("-", "_")
        name = _ALIASES.get(name, name)
        if not sign or name not in _KEYS:
            raise BadInput(f"{shown(part)} is not key=value with a key of {', '.join(_KEYS)}; write {MEASURED_EXAMPLE}")
        if name in measured:
            raise BadInput(f"{name} is stated twice in {shown(text)}; leave one out")
        read = time_of_text if name in TIMES else rate_of_text if name == "request_rate" else number_of_text
        measured[name] = read_as(f"{key} = ", read, value)
    return measured


# Prompt and answer length from one word such as 8k1k.

_SIZE = r"[0-9]{1,12}(?:\.[0-9]{1,12})?[km]?"
_WORD = rf"({_SIZE})(?:(?<=[km])|\s*[/x:]\s*)({_SIZE})"
_WORDS = r"[a-z~./\\]"


def lengths_of_text(text: str) -> tuple[int, int] | None:
    """Prompt and answer length [tokens] from one word; None for the name or the path of a workload.

    >>> lengths_of_text("8k1k"), lengths_of_text("2000x300"), lengths_of_text("chat")
    ((8192, 1024), (2000, 300), None)
    """
    stripped = text.strip()
    if re.match(_WORDS, stripped, re.IGNORECASE):
        return None
    match = re.fullmatch(_WORD, stripped, re.IGNORECASE)
    try:
        lengths = None if match is None else (whole_of_text(match[1]), whole_of_text(match[2]))
    except BadInput:
        lengths = None
    if lengths is None or max(lengths) > BILLION:
        raise BadInput(f"{shown(text)} is not a workload such as 1k1k, 8k1k or 2000x300, nor the name of one")
    return lengths


# Prices from text: of a GPU by the hour, of an API by the million tokens.

#: Kinds of tokens that an API bills, and how else people write them.
API_TOKENS = {"in": ("in", "input"), "out": ("out", "output"), "cached": ("cached", "cache")}

_RENT = (
    rf"\$?\s*({_PLAIN_NUMBER})(k?)(?:\s*(?:-|to)\s*\$?\s*({_PLAIN_NUMBER})(k?))?\s*(?:usd|\$)?\s*"
    rf"(?:{_PER}(?:gpu\s*[-/]?\s*)?([a-z]{{1,12}}))?"
)
_RENTS = "2.5/h, 2-4/h, 36/day or 1500/month"
#: Parts of what owning a GPU costs.
OWNING = ("price", "years", "power", "kwh", "hosting")
#: What they look like.
OWNING_EXAMPLE = "price:30k,years:4,power:1000,kwh:0.1,hosting:0.2 (USD, years, W, USD/kWh, USD per GPU-hour)"
_COST_OF_OWNING = rf"\s*([a-z]+)\s*[:=]\s*\$?\s*({_PLAIN_NUMBER})\s*(k?)\s*"
_TOKEN_PRICE = rf"\s*([a-z]+)\s*[:=]\s*\$?\s*({_PLAIN_NUMBER})\s*"


def price_of_text(text: str) -> float | tuple[float, float]:
    """Rent of a GPU [USD/h] from text: a number, or both ends of a range; by the hour unless a period is given.

    >>> price_of_text("2.5/h"), price_of_text("2-4 USD/h"), price_of_text("36/day"), price_of_text("1.46k/month")
    (2.5, (2.0, 4.0), 1.5, 2.0)
    """
    match = re.fullmatch(_RENT, text.strip(), re.IGNORECASE)
    if match is None:
        raise BadInput(f"{shown(text)} is not a price in USD such as {_RENTS} (bare numbers: per hour){_hint(text)}")
    low, letter, high, last_letter, period = match.groups()
    if high is not None and letter.lower() != last_letter.lower():
        raise BadInput(f"{shown(text)} has a k at one end alone; write both ends alike, as in 1.2k-1.5k/month")
    if letter and period is None:
        raise BadInput(f"{shown(text)} is thousands of USD per hour; add the period, as in {low}k/month")
    hours = _period(period or "h", text, _RENTS) / HOUR
    prices = [float(end) * _THOUSANDS[letter.lower()] / hours for end in (low, high) if end is not None]
    return prices[0] if high is None else (prices[0], prices[1])


def api_price_of_text(text: str) -> dict[str, float]:
    """Prices of an API [USD per million tokens] by kind of token: in, out, cached.

    >>> api_price_of_text("in:0.5,out:1.5")
    {'in': 0.5, 'out': 1.5}
    """
    names = {name: key for key, several in API_TOKENS.items() for name in several}
    prices: dict[str, float] = {}
    for part in text.split(","):
        match = re.fullmatch(_TOKEN_PRICE, part, re.IGNORECASE)
        key = None if match is None else names.get(match[1].lower())
        if match is None or key is None:
            raise BadInput(
                f"{shown(part.strip())} is not a token price; write in:0.5,out:1.5,cached:0.05 (USD per million tokens)"
            )
        if key in prices:
            raise BadInput(f"{key!r} is priced twice in {shown(text)}")
        prices[key] = float(match[2])
    return prices


def ownership_of_text(text: str) -> dict[str, float]:
    """What owning a GPU costs: price [USD], years, power [W], kwh [USD], hosting [USD/h].

    >>> ownership_of_text("price:30k,years:4,power:1000")
    {'price': 30000.0, 'years': 4.0, 'power': 1000.0}
    """
    costs: dict[str, float] = {}
    for part in text.split(","):
        match = re.fullmatch(_COST_OF_OWNING, part, re.IGNORECASE)
        if match is None or match[1].lower() not in OWNING:
            raise BadInput(f"{shown(part.strip())} is not a cost of owning; write {OWNING_EXAMPLE}")
        name = match[1].lower()
        if name in costs:
            raise BadInput(f"{name!r} is stated twice in {shown(text)}")
        costs[name] = float(match[2]) * _THOUSANDS[match[3].lower()]
    return costs


# A pool of GPUs in one word: GPU, count, plan, number format and replicas.

#: Parallel degrees that a pool may state.
DEGREES = ("tp", "pp", "ep", "dp", "cp", "dcp")

#: What a pool looks like.
POOL_EXAMPLE = "8xh100, b200:tp4 or b200:tp4:fp8x2 (GPU, plan, format, replicas)"

_COUNTED = r"([0-9]{1,6})\s*[x\u00d7*]\s*(\S.*)"
_NO_NAME = r"[0-9]+\s*[x\u00d7*]"
_BEHIND = r"(\S.*?)\s*[x\u00d7*]\s*([0-9]{1,6})"
_SPACED = r"([0-9]{1,6})\s+(\S.*)"
_BARE = r"([0-9]{1,4})\s*([a-wyz][^:]*)(:.*)?"
_TIMES = r"(.*?)[x\u00d7*]([0-9]{1,6})"
_PLAN = r"(?:(?:tp|pp|ep|dcp|dp|cp)=?[0-9]{1,6})+"
_DEGREE = r"(tp|pp|ep|dcp|dp|cp)=?([0-9]+)"
_NATIVE = "native"  # the checkpoint's own formats
_LONGEST = 500  # characters


@dataclass(frozen=True, slots=True)
class Pool:
    """GPUs of one kind that serve one model; None where options or the search decide."""

    gpu: str  # name, alias or path
    tp: int | None = None
    pp: int | None = None
    ep: int | None = None
    dp: int | None = None
    quantization: str | None = None  # preset of number formats
    num_gpus: int | None = None  # GPUs of all replicas
    replicas: int | None = None
    cp: int | None = None
    dcp: int | None = None

    @property
    def options(self) -> dict[str, Any]:
        """Keyword arguments of `predict` that the pool fixes, without replicas."""
        names = (*DEGREES, "quantization", "num_gpus")
        return {name: getattr(self, name) for name in names if getattr(self, name) is not None}


def is_pool(text: str) -> bool:
    """Whether a text may be a pool rather than the name of a GPU; some names look like pools.

    >>> is_pool("8xh100"), is_pool("b200:tp4"), is_pool("rtx-5090")
    (True, True, False)
    """
    return ":" in text or re.fullmatch(_COUNTED, text.strip(), re.IGNORECASE) is not None


def pool_of_text(text: str) -> Pool:
    """A pool from text; plan and number format come in any order, replicas last.

    >>> pool_of_text("b200:tp4:fp8x2")
    Pool(gpu='b200', tp=4, pp=None, ep=None, dp=None, quantization='fp8', num_gpus=None, replicas=2, cp=None, dcp=None)
    """
    whole = shown(text)
    if len(text) > _LONGEST:
        raise BadInput(f"{whole} is not a GPU; write {POOL_EXAMPLE}")
    name, *parts = text.split(":")
    counted = re.fullmatch(_COUNTED, name.strip(), re.IGNORECASE)
    fields: dict[str, Any] = {}
    if counted is not None:
        name = counted[2]
        _set_once(fields, "num_gpus", _count(counted[1], whole), whole)
    name = name.strip()
    if not name or re.fullmatch(_NO_NAME, name, re.IGNORECASE):
        raise BadInput(f"{whole} names no GPU; write {POOL_EXAMPLE}")
    for place, part in enumerate(parts):
        _read_part(re.sub(r"\s+", "", part).lower(), fields, whole, is_last=place == len(parts) - 1)
    return Pool(name, **_agreeing(fields, whole))


def pool_text(pool: Pool) -> str:
    """The text that `pool_of_text` reads back as the pool.

    >>> pool_text(Pool("b200", tp=4, quantization="fp8", replicas=2))
    'b200:tp4:fp8x2'
    """
    plan = "".join(f"{name}{getattr(pool, name)}" for name in DEGREES if getattr(pool, name) is not None)
    parts = [part for part in (plan, pool.quantization) if part]
    if pool.replicas is not None:
        parts = [*parts[:-1], f"{parts[-1] if parts else ''}x{pool.replicas}"]
    count = "" if pool.num_gpus is None else f"{pool.num_gpus}x"
    return ":".join((count + pool.gpu, *parts))


def bare_count(text: str) -> tuple[str, str] | None:
    """The GPU of a text such as 8h100, and the pool that it is if there is such a GPU; None for other texts.

    >>> bare_count("8h100:tp4"), bare_count("8xh100")
    (('h100', '8xh100:tp4'), None)
    """
    match = re.fullmatch(_BARE, text.strip(), re.IGNORECASE)
    return None if match is None else (match[2].rstrip(), f"{match[1]}x{match[2]}{match[3] or ''}")


def counted_name(text: str) -> tuple[str, str] | None:
    """Name and count of a text such as h100x8, whose count stands where a pool cannot have it; else None.

    >>> counted_name("h100x8"), counted_name("8 h100"), counted_name("h100")
    (('h100', '8'), ('h100', '8'), None)
    """
    behind = re.fullmatch(_BEHIND, text.strip(), re.IGNORECASE)
    if behind is not None:
        return behind[1].rstrip(" -_"), behind[2]
    before = re.fullmatch(_SPACED, text.strip())
    return None if before is None else (before[2], before[1])


def counted_refusal(name: str, known: tuple[Entry, ...]) -> str | None:
    """The error message for a text such as h100x8; None for any other text."""
    counted = counted_name(name)
    with suppress(UnknownName):  # ambiguous, but a GPU all the same
        if counted is None or match_name(counted[0], known, "gpu") is None:
            return None
    gpu, n = counted or ("", "")
    return f"unknown GPU {name!r}; write {n}x{gpu} for {n} GPUs in all, or {gpu}:x{n} for {n} replicas"


def _read_part(part: str, fields: dict[str, Any], whole: str, *, is_last: bool) -> None:
    """Record what one part between colons says: plan, number format or replicas."""
    body, count = part, None
    if not is_format(part):
        times = re.fullmatch(_TIMES, part)
        if times is not None:
            body, count = times.groups()
    if count is not None:
        if not is_last:
            raise BadInput(f"replicas come last: {shown(part)} in {whole} is not the last part; write {POOL_EXAMPLE}")
        _set_once(fields, "replicas", _count(count, whole), whole)
        if not body:
            return
    if re.fullmatch(_PLAN, body):
        for name, degree in re.findall(_DEGREE, body):
            _set_once(fields, name, _count(degree, whole), whole)
        return
    if body != _NATIVE and not is_format(body):
        hint = ""
        if body.isdecimal():
            hint = f" (x{body} for {body} replicas, or {body}x before the name for {body} GPUs in all)"
        raise BadInput(
            f"{shown(body)} in {whole} is neither a plan (tp4, tp4pp2), a number format (fp8) nor replicas (x2)"
            f"{hint}; write {POOL_EXAMPLE}"
        )
    _set_once(fields, "quantization", body, whole)


def _set_once(fields: dict[str, Any], name: str, value: Any, whole: str) -> None:
    if name in fields:
        what = {"quantization": "the number format", "num_gpus": "the number of GPUs"}.get(name, name)
        raise BadInput(f"{what} is stated twice in {whole}; leave one out")
    fields[name] = value


def _count(digits: str, whole: str) -> int:
    count = int(digits)
    if count < 1:
        raise BadInput(f"{digits} in {whole} must be at least 1; write {POOL_EXAMPLE}")
    return count


def _agreeing(fields: dict[str, Any], whole: str) -> dict[str, Any]:
    """The fields of a pool whose parts agree; GPU count and replicas together imply a tp that is not fields."""
    if "num_gpus" not in fields or "replicas" not in fields:
        return fields
    others = fields.get("pp", 1) * fields.get("dp", 1) * fields.get("cp", 1)
    gpus_each, rest = divmod(fields["num_gpus"], fields["replicas"])
    tp, more = divmod(gpus_each, others)
    if rest or more or not tp or fields.get("tp", tp) != tp:
        of_one = f"{fields.get('tp', 1) * others} GPUs" if "tp" in fields else f"a multiple of {others} GPUs"
        raise BadInput(
            f"{whole} disagrees with itself: {fields['num_gpus']} GPUs are not {fields['replicas']} replicas of "
            f"{of_one}; leave out the number in front, or the replicas"
        )
    return {**fields, "tp": tp}


# The acceptance of draft tokens from text: rates, tokens per step, or a published preset.

#: What an acceptance looks like.
EXAMPLES_OF_ACCEPTANCE = (
    f"0.8, .92,.86,.8 (one for each token), '2.8 tokens' (per step), or {' or '.join(PRESETS_OF_ACCEPTANCE)}"
)

_KEPT_TOKENS = r"(?i:([0-9]*\.?[0-9]+)\s*tok(?:ens?)?(?:\s*(?:per|a|/)\s*step)?)"
_NAME = r"(?i:[a-z][a-z0-9.-]*)"
_ROUNDS = 60  # of a bisection


def acceptance_of_text(text: str, drafts: int | None) -> Acceptance:
    """Acceptance rates from text; `drafts` is the number of tokens proposed before a step, None to count the rates.

    >>> acceptance_of_text(".92,.86,.8", None).tokens == 1 + 0.92 * (1 + 0.86 * 1.8)
    True
    """
    whole = text.strip()
    preset = PRESETS_OF_ACCEPTANCE.get(whole.lower())
    if preset is not None:
        return preset.acceptance if drafts is None else preset.acceptance.of(_checked_drafts(drafts))
    counted = re.fullmatch(_KEPT_TOKENS, whole)
    if counted is not None:
        return acceptance_of_tokens(float(counted[1]), drafts)
    if re.fullmatch(_NAME, whole):
        raise UnknownName(f"unknown acceptance {shown(text)}; write {EXAMPLES_OF_ACCEPTANCE}")
    try:
        rates = tuple(share_of_text(part) for part in whole.split(","))
    except BadInput:
        raise BadInput(
            f"acceptance = {shown(text)} must be between 0 and 1 for each token; write {EXAMPLES_OF_ACCEPTANCE}"
        ) from None
    return acceptance_of_rates(rates, drafts)


def acceptance_of_rates(rates: tuple[float, ...], drafts: int | None) -> Acceptance:
    """Acceptance of the given rates [1]: one rate for all draft tokens, or one for each."""
    for rate in rates:
        if not 0.0 <= rate <= 1.0:
            hint = f"; {rate:g} tokens per step are written '{rate:g} tokens'" if rate > 1.0 else ""
            if rate > MOST_DRAFTS:
                hint = percent_hint(rate)
            raise BadInput(f"acceptance = {rate:g} must be between 0 and 1{hint}")
    if drafts is None or len(rates) == drafts:
        return Acceptance(rates)
    if len(rates) == 1:
        return Acceptance(rates).of(_checked_drafts(drafts))
    raise BadInput(
        f"{len(rates)} rates of acceptance and draft_tokens = {drafts} disagree; give one rate for each token"
    )


def acceptance_of_tokens(tokens: float, drafts: int | None) -> Acceptance:
    r"""The one rate at which a decode step yields so many tokens.

    .. math:: 1 + a + \dots + a^g = \tau

    Args:
        tokens: tau, of a step [tokens].
        drafts: g, proposed before a step [tokens].

    Returns:
        The same rate for every draft token [1].

    Raises:
        BadInput: `drafts` is None, or cannot yield so many tokens.

    Source:
        Leviathan et al., arXiv:2211.17192, section 3.1, solved for a by bisection.
    """
    if drafts is None:
        raise BadInput(f"{tokens:g} tokens per step need draft_tokens, the tokens proposed before each step")
    if not 1.0 <= tokens <= _checked_drafts(drafts) + 1.0:
        raise BadInput(f"{tokens:g} tokens per step must be between 1 and {drafts + 1}, with draft_tokens = {drafts}")
    low, high = 0.0, 1.0
    for _ in range(_ROUNDS):
        middle = (low + high) / 2.0
        low, high = (middle, high) if Acceptance((middle,) * drafts).tokens < tokens else (low, middle)
    return Acceptance((high,) * drafts)


def _checked_drafts(drafts: int) -> int:
    if not 1 <= drafts <= MOST_DRAFTS:
        raise BadInput(f"draft_tokens = {drafts} must be between 1 and {MOST_DRAFTS}")
    return drafts
