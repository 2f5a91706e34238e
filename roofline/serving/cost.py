"""What answers cost: the rent of the GPUs over the tokens that they write."""

from __future__ import annotations

from roofline.ops import Real
from roofline.quantity import MEGA

__all__ = ["usd_per_m_output_tok"]


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
