"""Cost of answers: the GPUs' rent over the tokens read and written."""

from __future__ import annotations

from roofline.numbers.operations import Real, always, comparable, never, where
from roofline.numbers.quantity import KILO, MEGA
from roofline.support.records import NamedTuple

_NOT_APPLICABLE = float("nan")
_HOURS_OF_A_YEAR = 8766.0  # 365.25 days


@comparable
class ByPhase(NamedTuple):
    """Counts, times or prices of one request's tokens, by kind."""

    input: Real  # computed prompt tokens
    cached: Real  # cached prompt tokens
    output: Real  # output tokens


@comparable
class TokenPrices(NamedTuple):
    """Prices per kind of token; NaN for kinds that do not occur."""

    input: Real  # [USD per million tokens]
    cached: Real  # [USD per million tokens]
    output: Real  # [USD per million tokens]
    blended: Real  # [USD per million tokens] of any kind


def usd_per_m_output_tok(usd_per_second_all_gpus: Real, output_tok_s: Real) -> Real:
    """Rent of the GPUs per million output tokens.

    .. math:: c = 10^6 \\, \\frac{r}{X}

    Args:
        usd_per_second_all_gpus: rent r of all GPUs of the deployment [USD/s].
        output_tok_s: output tokens X per second of all replicas [1/s].

    Returns:
        An estimate [USD per million output tokens].

    Valid:
        The load lasts as long as the GPUs are rented; bursts follow each other without a gap. The price is a typical
        rental price, the GPU's share of its server included. Prompt tokens are not counted, but their time is.

    Source:
        Arithmetic; prices in the GPU specifications, with their dates.

    >>> usd_per_m_output_tok(0.002, 1000.0)
    2.0
    """
    return usd_per_second_all_gpus / output_tok_s * MEGA


def token_prices(usd_per_request: Real, tokens: ByPhase, times: ByPhase) -> TokenPrices:
    r"""Price of a million tokens of each kind, when kinds share the rent by the time they take.

    .. math:: c_i = 10^6\, \frac{R}{n_i}\, \frac{t_i}{t_s + t_c + t_o},\quad c = 10^6\, \frac{R}{n_s + n_c + n_o}

    The prices add up to the rent, :math:`n_s c_s + n_c c_c + n_o c_o`: idle time is shared in proportion to busy time.

    Args:
        usd_per_request: rent R of all GPUs over the requests that they answer [USD].
        tokens: n per request: computed prompt tokens s, cached ones c, output o [tokens].
        times: t that they take on a busy server [s]; for separate pools of GPUs, the rents of the pools [USD].

    Returns:
        Prices [USD per million tokens]; NaN where there are no such tokens.

    Valid:
        An accounting convention; any other split adds up to the same rent. The prompt pays for the first output token.

    Source:
        Arithmetic.

    >>> token_prices(3.0, ByPhase(1e6, 0.0, 1e6), ByPhase(1.0, 0.0, 2.0))
    TokenPrices(input=1.0, cached=nan, output=2.0, blended=1.5)
    """
    busy = times.input + times.cached + times.output
    input_, cached, output = (
        _per_token(MEGA * usd_per_request * time / busy, number) for number, time in zip(tokens, times, strict=True)
    )
    count = tokens.input + tokens.cached + tokens.output
    return TokenPrices(input_, cached, output, MEGA * usd_per_request / count)


def token_bill(prices: ByPhase, tokens: ByPhase) -> Real:
    r"""Cost of a request at given token prices.

    .. math:: R = 10^{-6} \left(c_s n_s + c_c n_c + c_o n_o\right)

    Args:
        prices: c of computed prompt tokens s, cached ones c, output o [USD per million tokens].
        tokens: n per request [tokens].

    Returns:
        Cost [USD].

    Source:
        Arithmetic.

    >>> token_bill(ByPhase(0.5, 0.05, 1.5), ByPhase(1e6, 2e6, 1e6))
    2.1
    """
    return (prices.input * tokens.input + prices.cached * tokens.cached + prices.output * tokens.output) / MEGA


def break_even_rate(usd_per_second_all_gpus: Real, usd_per_request: Real) -> Real:
    r"""Request rate at which rented GPUs cost as much as an API.

    .. math:: X = \frac{r}{R}

    Args:
        usd_per_second_all_gpus: rent r of all GPUs of the deployment, busy or not [USD/s].
        usd_per_request: API price R of a request [USD].

    Returns:
        Rate [1/s]; a deployment that cannot answer that many never pays off.

    Source:
        Arithmetic.

    >>> break_even_rate(0.002, 0.001)
    2.0
    """
    return usd_per_second_all_gpus / usd_per_request


class Ownership(NamedTuple):
    """What owning one GPU costs."""

    price: Real  # of the GPU, with its share of server and network [USD]
    years: Real  # that it is used [1]
    power: Real  # it draws, cooling included [W]
    usd_per_kwh: Real
    hosting: Real  # rack, network, hands [USD/h]


def running_rate(own: Ownership) -> Real:
    r"""Cost of running an owned GPU.

    .. math:: r_r = 10^{-3} P e + h

    Args:
        own: power P [W], price of energy e [USD/kWh], hosting h [USD/h].

    Returns:
        Cost [USD/h].

    Source:
        Arithmetic.

    >>> running_rate(Ownership(30e3, 4.0, 1000.0, 0.1, 0.2))
    0.30000000000000004
    """
    return own.power / KILO * own.usd_per_kwh + own.hosting


def owning_rate(own: Ownership) -> Real:
    r"""Cost of owning and running a GPU, its price spread evenly over the years.

    .. math:: r_o = \frac{C}{8766\,y} + r_r

    Args:
        own: price C [USD], years y, and what it costs to run.

    Returns:
        Cost [USD/h].

    Valid:
        Busy or not; no interest, no resale value.

    Source:
        Arithmetic.

    >>> round(owning_rate(Ownership(8766.0, 1.0, 1000.0, 0.1, 0.2)), 3)
    1.3
    """
    return own.price / (_HOURS_OF_A_YEAR * own.years) + running_rate(own)


def _per_token(amount: Real, count: Real) -> Real:
    """Amount per token; NaN where there are no tokens."""
    has_any = count > 0.0
    if always(has_any):
        return amount / count
    return _NOT_APPLICABLE if never(has_any) else where(has_any, amount / where(has_any, count, 1.0), _NOT_APPLICABLE)
