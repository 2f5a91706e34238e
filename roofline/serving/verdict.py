"""Whether a case meets its SLO, and how sure that is: pass, pass?, fail? or fail.

The one rule for every command, for scalars and arrays: an unqualified verdict needs figures that were found, kernels
that were timed, a load inside the validated range, and 80 % ranges clear of every limit. Without timed kernels only
what misses even at the hardware limit is missed for certain.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from roofline.elements import is_nan, negated
from roofline.ops import Real, always, maximum, never, where
from roofline.records import NamedTuple
from roofline.specs.slo import key_text

#: Verdicts: met or missed for certain, or by the central estimate alone.
PASS, LIKELY, UNLIKELY, FAIL = "pass", "pass?", "fail?", "fail"

#: Reasons: why a verdict is not certain, or why there is none.
IN_RANGE = "the 80 % range includes the limit"
AT_HARDWARE_LIMIT = "times are the hardware limit, which no GPU reaches"
UNKNOWN = "this percentile is not known for this load: its closed form contradicts the mean; see --simulate"
NOT_TIMED = "an estimate: no kernel of this GPU's generation was timed"
NOTHING_APPLIES = "no limit applies: an answer of one token has no TPOT"
OUTSIDE = "outside the validated range"
#: Reasons: why a case has no times.
DOES_NOT_FIT, OVERLOADED = "does not fit", "overloaded"


class Limited(NamedTuple):
    """A latency over its limit: central estimate, and the ends of its 80 % range [1]. NaN where it is not known."""

    key: str
    central: Real
    low: Real
    high: Real
    least: Real = 0.0  # at the hardware limit, at least; matters where no kernel was timed
    applies: Real = True  # a limit on TPOT does not, to answers of one token


class Verdict(NamedTuple):
    """The verdict on an SLO; arrays for many cases."""

    word: Any  # PASS, LIKELY, UNLIKELY or FAIL; None where a limited latency is not known, or no limit applies
    reason: Any  # why it is not PASS; None where it is
    binding: Any  # key of the limit that is taken up most; None where none applies

    @property
    def text(self) -> str:
        """The word of a single case, for people."""
        return str(self.word or ("does not apply" if self.binding is None else "not known"))


def verdict(
    limited: Sequence[Limited],
    unchecked: Iterable[tuple[Real, str]] = (),
    without_times: Iterable[tuple[Real, str]] = (),
    in_range: str = IN_RANGE,
    *,
    is_mean: bool = False,
    is_timed: bool = True,
) -> Verdict:
    """The verdict on limits that must hold together.

    Args:
        limited: the limited latencies, also those to which their limit does not apply.
        unchecked: conditions outside what was checked, with words for them.
        without_times: conditions under which there are no times, with words for them.
        in_range: why a verdict is not certain where a range includes its limit.
        is_mean: whether requests differ, so that a limit without a percentile is on their mean.
        is_timed: whether kernels of the GPU's generation were timed.

    Returns:
        Word, reason and binding limit, element by element.

    >>> verdict([Limited("ttft", 0.5, 0.4, 0.6), Limited("tpot", 0.9, 0.7, 1.2)])
    Verdict(word='pass?', reason='the 80 % range includes the limit', binding='tpot')
    >>> verdict([Limited("ttft", 0.5, 0.4, 0.6)], is_timed=False).word
    'pass?'
    >>> verdict([Limited("ttft", 0.5, 0.4, 0.6)], [(True, "single-token answers")]).reason
    'outside the validated range: single-token answers'
    >>> verdict([])
    Verdict(word=None, reason='no limit applies: an answer of one token has no TPOT', binding=None)
    """
    if not limited or all(never(each.applies) for each in limited):
        return Verdict(*_without_times(None, NOTHING_APPLIES, without_times), None)
    first = limited[0]
    central: Real = 0.0
    low: Real = 0.0
    high: Real = 0.0
    least: Real = 0.0
    binding: Any = first.key
    is_unknown: Any = False
    applies: Any = False  # whether any limit does
    for each in limited:
        unknown = is_nan(each.central) & each.applies
        is_unknown, applies = is_unknown | unknown, applies | each.applies
        is_left_out = unknown | negated(each.applies)
        shares = (where(is_left_out, 0.0, share) for share in each[1:5])
        each_central, each_low, each_high, each_least = shares
        binding = where(each_central > central, each.key, binding)
        central, low, high = maximum(central, each_central), maximum(low, each_low), maximum(high, each_high)
        least = maximum(least, each_least)
    missed: Any = f"{key_text(first.key, is_mean=is_mean)} exceeds its limit"
    for each in limited[1:]:
        missed = where(binding == each.key, f"{key_text(each.key, is_mean=is_mean)} exceeds its limit", missed)
    word: Any = where(central > 1.0, where(low > 1.0, FAIL, UNLIKELY), where(high > 1.0, LIKELY, PASS))
    reason: Any = where(word == FAIL, missed, where(word == PASS, "", in_range))
    if not is_timed:
        is_estimate = (word == PASS) | ((word == FAIL) & (least <= 1.0))
        word = where(is_estimate, where(word == PASS, LIKELY, UNLIKELY), word)
        reason = where(is_estimate, NOT_TIMED, reason)
    for is_outside, text in reversed(list(unchecked)):
        word = where(is_outside, where(central > 1.0, UNLIKELY, LIKELY), word)
        reason = where(is_outside, f"{OUTSIDE}: {text}", reason)
    if not never(is_unknown):
        is_open = is_unknown & (central <= 1.0)
        word, reason = where(is_open, None, word), where(is_open, UNKNOWN, reason)
    if not always(applies):
        word, reason = where(applies, word, None), where(applies, reason, NOTHING_APPLIES)
        binding = where(applies, binding, None)
    word, reason = _without_times(word, reason, without_times)
    return Verdict(word, _absent_as_none(reason), binding)


def _without_times(word: Any, reason: Any, conditions: Iterable[tuple[Real, str]]) -> tuple[Any, Any]:
    """Word and reason where a case that has no times fails, whatever is asked of them."""
    for fails, text in conditions:
        word, reason = where(fails, FAIL, word), where(fails, text, reason)
    return word, reason


def _absent_as_none(reason: Any) -> Any:
    """None for an empty reason."""
    if isinstance(reason, str):
        return reason or None
    return where(reason == "", None, reason)
