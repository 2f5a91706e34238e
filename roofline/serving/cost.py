"""What answers cost: the rent of the GPUs over the tokens that they read and write."""

from __future__ import annotations

from roofline.ops import Real, always, comparable, never, where
from roofline.quantity import MEGA
from roofline.records import NamedTuple

__all__ = ["ByPhase", "TokenPrices", "break_even_rate", "token_bill", "token_prices", "usd_per_m_output_tok"]

_NOT_APPLICABLE = float("nan")


@comparable
class ByPhase(NamedTuple):
    """Figures of one request by what its tokens are: how many there are, what time they take, what one costs."""

    input: Real  # prompt tokens that are computed
    cached: Real  # prompt tokens whose KV was there
    output: Real  # tokens of the answer


@comparable
class TokenPrices(NamedTuple):
    """What a million tokens of each kind cost; NaN where there are none of a kind."""

    input: Real  # [USD per million tokens]
    cached: Real  # [USD per million tokens]
    output: Real  # [USD per million tokens]
    blended: Real  # [USD per million tokens] of all three together


def usd_per_m_output_tok(usd_per_second_all_gpus: Real, output_tok_s: Real) -> Real:
    """Rent of the GPUs for a million output tokens.

    .. math:: c = 10^6 \\, \\frac{r}{X}

    Args:
        usd_per_second_all_gpus: rent r of all GPUs of the deployment [USD/s].
        output_tok_s: output tokens X per second of all replicas [1/s].

    Returns:
        An estimate [USD per million output tokens].

    Valid:
        The load lasts all the time that the GPUs are rented; bursts start when the one before has ended. The price is a
        typical rental price of the GPU, the server's share included; prompts are not counted as tokens, their time is.

    Source:
        Arithmetic; prices in the GPU specifications, with their dates.

    >>> usd_per_m_output_tok(0.002, 1000.0)
    2.0
    """
    return usd_per_second_all_gpus / output_tok_s * MEGA


def token_prices(usd_per_request: Real, tokens: ByPhase, times: ByPhase) -> TokenPrices:
    r"""What a million tokens of each kind cost, where kinds share the rent by the time that they take.

    .. math:: c_i = 10^6\, \frac{R}{n_i}\, \frac{t_i}{t_s + t_c + t_o},\quad c = 10^6\, \frac{R}{n_s + n_c + n_o}

    so that :math:`n_s c_s + n_c c_c + n_o c_o` is the rent again: all rented time is paid for, and idle time is shared
    as busy time is.

    Args:
        usd_per_request: rent R of all GPUs over the requests that they answer [USD].
        tokens: n of a request: prompt tokens s that are computed, cached ones c, output o [tokens].
        times: t that they take of a busy server [s]; where pools of GPUs do one phase each, the rents of these [USD].

    Returns:
        The prices [USD per million tokens]; NaN where there are no such tokens.

    Valid:
        A way to share, not a law of nature: other shares leave the rent as it is. The first output token comes with
        the prompt, which pays for it.

    Source:
        Arithmetic.

    >>> token_prices(3.0, ByPhase(1e6, 0.0, 1e6), ByPhase(1.0, 0.0, 2.0))
    TokenPrices(input=1.0, cached=nan, output=2.0, blended=1.5)
    """
    whole = times.input + times.cached + times.output
    input_, cached, output = (
        _over(MEGA * usd_per_request * time / whole, number) for number, time in zip(tokens, times, strict=True)
    )
    every = tokens.input + tokens.cached + tokens.output
    return TokenPrices(input_, cached, output, MEGA * usd_per_request / every)


def token_bill(prices: ByPhase, tokens: ByPhase) -> Real:
    r"""What a request costs at prices of its tokens.

    .. math:: R = 10^{-6} \left(c_s n_s + c_c n_c + c_o n_o\right)

    Args:
        prices: c of prompt tokens s that are computed, cached ones c, output o [USD per million tokens].
        tokens: n of a request [tokens].

    Returns:
        The bill [USD].

    Source:
        Arithmetic.

    >>> token_bill(ByPhase(0.5, 0.05, 1.5), ByPhase(1e6, 2e6, 1e6))
    2.1
    """
    return (prices.input * tokens.input + prices.cached * tokens.cached + prices.output * tokens.output) / MEGA


def break_even_rate(usd_per_second_all_gpus: Real, usd_per_request: Real) -> Real:
    r"""Request rate at which GPUs of one's own cost what an API asks for the same requests.

    .. math:: X = \frac{r}{R}

    Args:
        usd_per_second_all_gpus: rent r of all GPUs of the deployment, busy or not [USD/s].
        usd_per_request: what the API asks for a request R [USD].

    Returns:
        The rate; a deployment that cannot answer as many never pays [1/s].

    Source:
        Arithmetic.

    >>> break_even_rate(0.002, 0.001)
    2.0
    """
    return usd_per_second_all_gpus / usd_per_request


def _over(amount: Real, number: Real) -> Real:
    """An amount for each of a number of tokens, of which there may be none."""
    some = number > 0.0
    if always(some):
        return amount / number
    return _NOT_APPLICABLE if never(some) else where(some, amount / where(some, number, 1.0), _NOT_APPLICABLE)
