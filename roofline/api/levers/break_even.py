"""Break-even against an API: the load from which self-hosted GPUs cost less per request."""

from __future__ import annotations

from typing import Any

from roofline.quantity import HOUR, KILO, MEGA, rounded
from roofline.records import dataclass
from roofline.serving.cost import ByPhase, break_even_rate, token_bill

#: Keys of a row that compare with an API.
BREAK_EVEN_KEYS = (
    "api_usd_per_request", "pays", "break_even_util", "break_even_util_low", "break_even_util_high",
    "break_even_request_rate", "break_even_requests_day", "break_even_tok_day", "break_even_factor", "break_even",
)  # fmt: skip

_DAY = 24.0 * HOUR
_SMALL = 0.1


@dataclass(frozen=True, slots=True)
class BreakEven:
    """The load at which self-hosted GPUs and an API cost the same."""

    usd_per_request: float  # of the API
    rates: tuple[float, float, float]  # [1/s] at which both cost the same: at the low, typical and high rent
    max_request_rate: float  # [1/s] saturation
    limit: float  # [1/s] largest rate within the SLO, and with the headroom
    tokens: float  # of a request, of all kinds [tokens]
    limited_by: str = ""  # what keeps the limit below saturation

    @property
    def request_rate(self) -> float:
        """Break-even request rate at the typical rent [1/s]."""
        return self.rates[1]

    @property
    def utils(self) -> tuple[float, float, float]:
        """Break-even over saturation rate [1] at the low, typical and high rent; above 1 where never reached."""
        low, typical, high = (rate / self.max_request_rate for rate in self.rates)
        return low, typical, high

    @property
    def pays(self) -> bool:
        """Whether some load within the limit costs less than the API, at the typical rent."""
        return self.request_rate <= self.limit

    @property
    def factor(self) -> float | None:
        """Cost of a request at the limit, over that of the API [1]; None where no request is answered."""
        return None if self.limit <= 0.0 else self.request_rate / self.limit

    def __str__(self) -> str:
        if self.pays:
            rate = f"{rounded(self.request_rate)} requests/s, {_short(self.request_rate * _DAY)} requests a day"
            return f"pays from {_percent(self.utils[1])} utilisation ({rate}){self._ends}"
        if self.factor is None:
            return f"never pays: no request is answered {self.limited_by}"
        costs = f"a request costs {rounded(self.factor)}x what the API asks"
        full = f"{rounded(self.limit)} requests/s"
        never = "does not pay" if self.rates[0] <= self.max_request_rate else "never pays"
        if not self.limited_by:
            return f"{never}: even when full ({full}) {costs}{self._ends}"
        share = _percent(self.limit / self.max_request_rate)
        return f"{never}: {self.limited_by} ({full} at most, {share} of the saturation) {costs}{self._ends}"

    @property
    def _ends(self) -> str:
        """The break-even at both ends of the range of the rent; empty where there is no range."""
        (low, _, high), (least, _, most) = self.utils, self.rates
        if least == most or least > self.limit:
            return ""
        at_high = f"from {_percent(high)}" if most <= self.limit else "never"
        return f"; at the lowest rent from {_percent(low)}, at the highest {at_high}"


def break_even(
    rents: tuple[float, float, float],
    api: ByPhase,
    tokens: ByPhase,
    max_request_rate: float,
    limit: float,
    limited_by: str = "",
) -> BreakEven:
    """Break-even load for rents [USD/s] and API prices [USD per million tokens] of requests with these tokens."""
    bill = float(token_bill(api, tokens))
    low, typical, high = (float(break_even_rate(rent, bill)) if bill > 0.0 else float("inf") for rent in rents)
    return BreakEven(bill, (low, typical, high), max_request_rate, limit, float(sum(tokens)), limited_by)


def break_even_row(comparison: BreakEven | None) -> dict[str, Any]:
    """Row values by `BREAK_EVEN_KEYS`; a break-even beyond saturation is None."""
    if comparison is None:
        return dict.fromkeys(BREAK_EVEN_KEYS)
    low, typical, high = (util if util <= 1.0 else None for util in comparison.utils)
    rate = comparison.request_rate if typical is not None else None
    return {
        "api_usd_per_request": comparison.usd_per_request,
        "pays": comparison.pays,
        "break_even_util": typical,
        "break_even_util_low": low,
        "break_even_util_high": high,
        "break_even_request_rate": rate,
        "break_even_requests_day": None if rate is None else rate * _DAY,
        "break_even_tok_day": None if rate is None else rate * _DAY * comparison.tokens,
        "break_even_factor": comparison.factor,
        "break_even": str(comparison),
    }


def _percent(share: float) -> str:
    return f"{100.0 * share:.2g} %" if share < _SMALL else f"{100.0 * share:.0f} %"


def _short(number: float) -> str:
    """A large number: 164k, 1.2M."""
    for scale, letter in ((MEGA, "M"), (KILO, "k")):
        if number >= scale:
            return f"{rounded(number / scale)}{letter}"
    return rounded(number)
