"""Named workloads, limits on latencies, measurements."""

from __future__ import annotations

import re
from collections.abc import Mapping

from roofline.numbers.quantity import BILLION, MILLI, duration, rounded, to_text
from roofline.specs.names import Share
from roofline.support.errors import BadInput, UnknownName, check_known, shown
from roofline.support.records import dataclass

# A named workload: lengths and arrivals of its requests, and their SLO.

#: Laws of prompt and answer lengths.
LAWS = ("lognormal", "uniform")
#: How requests arrive: open loop, closed loop, or all at once.
ARRIVALS = ("rate", "users", "batch")
#: What somebody waits for: the first token of an answer that is read as it comes, the whole answer, or nothing.
AWAITED = FIRST_TOKEN, WHOLE_ANSWER, NOTHING = "first token", "whole answer", "nothing"
#: Largest coefficient of variation of a uniform law, from 0 to twice the mean: 1 / sqrt(3), rounded down [1].
UNIFORM_CV = 0.577


@dataclass(frozen=True, slots=True, repr=False)
class NamedWorkload:
    """One kind of request, and the SLO that goes with it.

    >>> import roofline as rl
    >>> rl.load_workload("chat")
    <NamedWorkload chat: isl 1155, osl 211; SLO ttft:300ms,tpot:25ms,p99:2x>
    """

    name: str
    isl: int  # [tokens] of a prompt, mean
    osl: int  # [tokens] of an answer, mean
    aliases: tuple[str, ...] = ()
    title: str = ""
    isl_cv: float = 0.0  # of prompt lengths: standard deviation over mean [1]
    osl_cv: float = 0.0  # of answer lengths [1]
    lengths: str = "lognormal"  # law of the lengths, or "uniform"
    prefix: int = 0  # [tokens] of a prompt that are already in the KV cache, mean
    slo: str = ""  # as roofline.specs.workload reads it; empty: none
    share: Share | None = None  # of requests that must meet all limits without a percentile together; None: on means
    arrivals: str = "rate"  # or "users", "batch"
    waits_for: str = ""  # of `AWAITED`; empty: as the SLO says
    notes: tuple[str, ...] = ()
    source: str = ""  # title of the first source
    url: str = ""  # its address
    date: str = ""  # its date, or the day it was read

    @property
    def awaited(self) -> str:
        """What the user waits for; where it is not stated, what the SLO limits, if there is one."""
        if self.waits_for:
            return self.waits_for
        if not self.slo:
            return NOTHING
        return FIRST_TOKEN if "ttft" in self.slo.lower() else WHOLE_ANSWER

    def __repr__(self) -> str:
        prefix = f", prefix {self.prefix}" if self.prefix else ""
        slo = f"; SLO {self.slo}" if self.slo else ""
        return f"<NamedWorkload {self.name}: isl {self.isl}, osl {self.osl}{prefix}{slo}>"


# Limits on latencies: one grammar for the command line, Python and files.

#: Latencies that every request has.
OF_REQUESTS = ("ttft", "tpot", "e2el")
#: Latencies that may be limited, in the mean or at a percentile: over requests, and ITL over the gaps of all of them.
LATENCIES = ("ttft", "tpot", "itl", "e2el")
#: Those that a single token has not.
BETWEEN_TOKENS = ("tpot", "itl")

#: Percentiles in answers [%].
LEVELS = (50.0, 90.0, 95.0, 99.0)
#: Latencies whose errors under a load are stated (docs/load.md).
JUDGED = ("ttft", "tpot", "ttft_p99", "tpot_p99")

#: Key of the limit on tail latency: p99 over median, of TTFT and TPOT [1].
P99_WITHIN = "p99_within"

SLO_EXAMPLE = "ttft:300@p95,tpot:25,e2el:8s@p99"

_BENCHMARKS = {"time_to_first_token": "ttft", "inter_token_latency": "tpot", "request_latency": "e2el"}  # AIPerf's
_ALIASES = {
    **_BENCHMARKS,
    "e2e": "e2el",
    "latency": "e2el",
    "p99": P99_WITHIN,
    "p99-within": P99_WITHIN,
}
_MEAN = "mean"  # says what a limit without a percentile is on
# Tokens per second of one user, which limit its TPOT: tps, tok/s, tok_s, tokens/s, tok/s/user, with @p95 or @mean.
_SPEED = rf"(?:tps|tok(?:en)?s?[/_ ]s(?:ec(?:ond)?)?)(?:[/_ ]user)?((?:[_@]?p[0-9.]+|[_@]{_MEAN})?)"
_SPEED_TEXT = r"([0-9]{1,12}(?:\.[0-9]{0,12})?|\.[0-9]{1,12})\s*(?:(?:tok(?:en)?s?)?\s*/\s*s(?:ec(?:ond)?)?|tps)?"
_SPEED_EXAMPLE = "tps:30 or tok/s:30@p95, or tpot:33ms for the time per token"
_SLOWEST, _FASTEST = 0.1, 10_000.0  # [tokens/s] of one user that somebody may ask for
_KEY = rf"({'|'.join(_BENCHMARKS)}|[a-z0-9]+)(?:[_@]?p([0-9.]+)|[_@]({_MEAN}))?"
_PART = rf"([a-z0-9_/\-]+(?:@p[0-9.]+|@{_MEAN})?)\s*:\s*([^@]*?)\s*(?:@\s*(\S+))?"
_BETWEEN = r"\s*,\s*|\s+(?=[A-Za-z][\w\-@./]*\s*:)"
_SLOW = ("ttft", "e2el")  # a bare fraction of a millisecond must have been meant as seconds
_LONGEST_SLO = 200  # characters of an SLO
_DIGITS = 6  # significant, of a limit that may be typed again
_READ = 4  # of one that is read


class Limits(dict[str, float]):
    """Limits [s] by key, such as `ttft`, `ttft_p95` or `p99_within` [1]."""


def key_of(metric: str, level: float | None = None) -> str:
    """Key of a limit on a latency or its alias, at a percentile [%]; None for the mean.

    >>> key_of("itl"), key_of("ttft", 95.0)
    ('itl', 'ttft_p95')
    """
    known = _ALIASES.get(metric, metric)
    if known == P99_WITHIN and level is None:
        return known
    if known not in LATENCIES:
        check_known("SLO key", metric, LATENCIES, end=f", as in {SLO_EXAMPLE}, or {P99_WITHIN}")
    if level is None:
        return known
    if not 0.0 < level < 100.0:
        raise BadInput(f"p{level:g} is not a percentile; it must be between p0 and p100, such as p95")
    return f"{known}_p{_level_text(level)}"


def metric_and_level(key: str) -> tuple[str, float | None]:
    """Latency (or `P99_WITHIN`) and percentile [%] of a key; None for the mean.

    >>> metric_and_level("ttft_p95"), metric_and_level("e2el"), metric_and_level("e2el@mean")
    (('ttft', 95.0), ('e2el', None), ('e2el', None))
    """
    if not isinstance(key, str):
        check_known("SLO key", key, LATENCIES)
    name = key.strip().lower()
    if name == P99_WITHIN or _ALIASES.get(name) == P99_WITHIN:
        return P99_WITHIN, None
    match = re.fullmatch(_KEY, name)
    if match is None:
        key_of(name)
        raise UnknownName(f"unknown SLO key {shown(key)}; choose from {', '.join(LATENCIES)}")
    level = None if match[2] is None else _percentile(match[2], key)
    if key_of(match[1], level) == P99_WITHIN:
        raise BadInput(_ratio_only(key))
    return _ALIASES.get(match[1], match[1]), level


def is_stated(key: str) -> bool:
    """Whether a key says itself what it limits: the mean, or a percentile.

    >>> is_stated("ttft@mean"), is_stated("ttft_p95"), is_stated("ttft")
    (True, True, False)
    """
    match = re.fullmatch(_KEY, key.strip().lower())
    return match is not None and (match[2] is not None or match[3] is not None)


def speed_key(key: object) -> str | None:
    """The key on TPOT that a key on the tokens per second of one user stands for; None for other keys.

    >>> speed_key("tok/s"), speed_key("tps@p95"), speed_key("tpot")
    ('tpot', 'tpot@p95', None)
    """
    match = re.fullmatch(_SPEED, key.strip().lower()) if isinstance(key, str) else None
    return None if match is None else f"tpot{match[1]}"


def time_at_speed(speed: object, part: str) -> float:
    """TPOT [s] at a number of tokens per second of one user, from a number or a text.

    >>> time_at_speed(50, "tps:50"), time_at_speed("40 tok/s", "tps:40 tok/s")
    (0.02, 0.025)
    """
    match = re.fullmatch(_SPEED_TEXT, speed.strip().lower()) if isinstance(speed, str) else None
    rate = speed if match is None else float(match[1])
    if type(rate) not in (float, int):
        raise BadInput(f"{part} is not in tokens per second; write {_SPEED_EXAMPLE}")
    if not _SLOWEST <= rate <= _FASTEST:  # type: ignore[operator]
        raise BadInput(
            f"{part} must be between {_SLOWEST:g} and {_FASTEST:,.0f} tokens per second of one user, not of the "
            f"deployment; write {_SPEED_EXAMPLE}"
        )
    return 1.0 / rate  # type: ignore[operator]


def limits_of_text(text: str) -> Limits:
    """Limits [s] from text; bare numbers are milliseconds, those of tps are tokens per second of one user.

    >>> limits_of_text("ttft:300@p95, e2el:8s, p99:2x"), limits_of_text("tps:50")
    ({'ttft_p95': 0.3, 'e2el': 8.0, 'p99_within': 2.0}, {'tpot': 0.02})
    """
    limits = Limits()
    if len(text) > _LONGEST_SLO:
        raise BadInput(f"{text[:20]!r}... is not an SLO: {len(text)} characters; write it as {SLO_EXAMPLE}")
    for part in re.split(_BETWEEN, text.strip()):
        match = re.fullmatch(_PART, part.strip().lower())
        if match is None:
            raise BadInput(f"{part!r} is not a limit; write an SLO as {SLO_EXAMPLE} (bare numbers: ms)")
        of_speed = speed_key(match[1])
        stated = of_speed or match[1]
        metric, level = metric_and_level(stated)
        if match[3] is not None and is_stated(stated):
            raise BadInput(f"{part!r} says twice what is limited; keep one of {match[1].partition('@')[2]}, {match[3]}")
        if match[3] is not None and metric == P99_WITHIN:
            raise BadInput(_ratio_only(part))
        if match[3] not in (None, _MEAN):
            level = _percentile(match[3].removeprefix("p").removesuffix("%"), part)
        key = key_of(metric, level)
        if key in limits:
            raise BadInput(limited_twice(key, text))
        if of_speed is not None:
            limits[key] = time_at_speed(match[2], repr(part))
            continue
        limits[key] = ratio_of_text(match[2]) if key == P99_WITHIN else _seconds(match[2], part)
        if metric in _SLOW and limits[key] < MILLI and _is_bare(match[2]):
            raise BadInput(f"{part!r} is {match[2]} ms; write {metric}:{match[2]}s for seconds, or {match[2]}ms")
    return limits


def check_limits(slo: Mapping[str, object]) -> None:
    """Refuse limits that are not positive, finite times."""
    for key, limit in slo.items():
        metric_and_level(key)
        if type(limit) not in (float, int) or not 0.0 < limit <= BILLION:  # type: ignore[operator]
            raise BadInput(f"SLO {key} = {shown(limit)} must be a positive, finite time in seconds")
        if key == P99_WITHIN and not limit > 1.0:  # type: ignore[operator]
            raise BadInput(f"{P99_WITHIN} = {shown(limit)} must be above 1, as a p99 exceeds its median")


def key_text(key: str, *, is_mean: bool = False) -> str:
    """Key of a limit as people read it; `is_mean`: requests differ, so without a percentile it is on their mean.

    >>> key_text("ttft_p95", is_mean=True), key_text("ttft", is_mean=True), key_text("ttft"), key_text("p99_within")
    ('TTFT p95', 'mean TTFT', 'TTFT', 'p99/median')
    """
    metric, level = metric_and_level(key)
    if metric == P99_WITHIN:
        return "p99/median"
    if level is None:
        return f"{_MEAN} {metric.upper()}" if is_mean else metric.upper()
    return f"{metric.upper()} p{_level_text(level)}"


def binding_text(key: str, *, is_mean: bool = False) -> str:
    """Limits as `key_text` reads them; other words, such as ``saturation``, as they are."""
    is_limit = key == P99_WITHIN or key.partition("_")[0] in LATENCIES
    return key_text(key, is_mean=is_mean) if is_limit else key


def is_on_mean(key: str, share: float | None) -> bool:
    """Whether a limit is on the mean of differing requests where a share of them must meet limits without a percentile.

    >>> is_on_mean("ttft", 0.9), is_on_mean("itl", 0.9), is_on_mean("ttft", None)
    (False, True, True)
    """
    return share is None or key not in OF_REQUESTS


def limits_words(limits: Mapping[str, float], *, is_mean: bool = False, among: str = "") -> str:
    """Limits as people read them; `is_mean` as in `key_text`, `among` says for which requests.

    >>> limits_words({"ttft": 0.3, "tpot_p99": 0.025, "p99_within": 2.0}, is_mean=True)
    'mean TTFT <= 300 ms, TPOT p99 <= 25 ms, p99 <= 2x the median'
    """
    words = [
        f"p99 <= {rounded(limit, _READ)}x the median"
        if key == P99_WITHIN
        else f"{key_text(key, is_mean=is_mean)} <= {to_text(limit, 's', _READ)}"
        for key, limit in limits.items()
    ]
    return ", ".join(words) + (f" {among}" if among and words else "")


def limits_text(limits: Mapping[str, float]) -> str:
    """Limits in the syntax of the command line.

    >>> limits_text({"ttft_p95": 0.3, "e2el": 8.0, "p99_within": 2.0})
    'ttft:300ms@p95,e2el:8s,p99:2x'
    """
    parts = []
    for key, limit in limits.items():
        metric, level = metric_and_level(key)
        if metric == P99_WITHIN:
            parts.append(f"p99:{rounded(limit, _DIGITS)}x")
        else:
            percentile = "" if level is None else f"@p{_level_text(level)}"
            parts.append(f"{metric}:{to_text(limit, 's', _DIGITS).replace(' ', '')}{percentile}")
    return ",".join(parts)


def ratio_of_text(text: str) -> float:
    """A ratio above 1 from text.

    >>> ratio_of_text("2x")
    2.0
    """
    try:
        ratio = float(text.strip().lower().removesuffix("x"))
    except ValueError:
        ratio = 0.0
    if not 1.0 < ratio <= BILLION:
        raise BadInput(f"{text!r} is not a multiple above 1 of the median; write it as 2x")
    return ratio


def limited_twice(key: str, whole: object) -> str:
    """The message about a key that an SLO limits twice."""
    also = " (tps and tok/s limit tpot)" if key.startswith("tpot") else ""
    return f"{key!r} is limited twice in {shown(whole)}; keep one{also}"


def _ratio_only(text: str) -> str:
    return f"{shown(text)}: the p99 over the median is one figure of all requests; write {P99_WITHIN}, or p99:2x"


def _level_text(level: float) -> str:
    return f"{level:.9f}".rstrip("0").rstrip(".")


def _percentile(text: str, part: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise BadInput(f"{text!r} in {part!r} is not a percentile; write it as p95, or mean for the mean") from None


def _is_bare(text: str) -> bool:
    return text.strip()[-1:] in ("", ".") or text.strip()[-1].isdigit()


def _seconds(text: str, part: str) -> float:
    """Seconds from a time with its unit, or from a bare number of milliseconds."""
    try:
        time = duration(text)
    except BadInput:
        time = 0.0
    if not 0.0 < time <= BILLION:
        is_speed = not _is_bare(text) and re.fullmatch(_SPEED_TEXT, text) is not None
        speed = "; tokens per second are written tps:30" if is_speed else ""
        raise BadInput(f"{part!r}: {text!r} is not a time; write it as 300, 300ms or 0.3s{speed}")
    return time


# Measurements of a served model.


@dataclass(frozen=True, slots=True)
class Measurement:
    """Latencies of a served model and the conditions behind them; None: not stated."""

    source: str  # file and place in it
    gpu: str | None = None
    model: str | None = None
    engine: str | None = None
    engine_version: str | None = None
    tp: int | None = None
    pp: int | None = None
    ep: int | None = None
    dp: int | None = None
    quantization: str | None = None
    kv_cache_dtype: str | None = None
    isl: float | None = None  # [tokens] mean over the requests
    osl: float | None = None  # [tokens] mean over the requests
    prefix: float | None = None  # [tokens]
    batch: float | None = None  # [sequences] started together
    concurrency: float | None = None  # [requests] in flight
    num_prompts: float | None = None  # [requests] of the run, which all users begin together
    request_rate: float | None = None  # [1/s]
    answered_rate: float | None = None  # [1/s] of answers
    ttft: float | None = None  # [s]
    tpot: float | None = None  # [s] (e2el - ttft) / (osl - 1)
    e2el: float | None = None  # [s]
    max_num_seqs: int | None = None  # [sequences] of a rank
    max_num_batched_tokens: int | None = None  # [tokens] of a step of a rank
    is_queue: bool = False  # all requests wait from the start, and e2el is the time of the whole run
    has_equal_lengths: bool | None = False  # all prompts, and all answers; None: perhaps
    ttft_mean: float | None = None  # [s] means and the median, whatever the statistic of the times above
    tpot_mean: float | None = None  # [s]
    e2el_mean: float | None = None  # [s]
    ttft_median: float | None = None  # [s]
    statistic: str | None = None  # mean, median or p99 over the requests
    date: str | None = None
    note: str | None = None
    settings: tuple[tuple[str, str], ...] = ()  # of the server, beside the above
    cp: int | None = None
    dcp: int | None = None
