"""Prices from text: of a GPU by the hour, of an API by the million tokens."""

from __future__ import annotations

import re

from roofline.errors import BadInput, shown

#: Kinds of tokens that an API bills, and how else people write them.
API_TOKENS = {"in": ("in", "input"), "out": ("out", "output"), "cached": ("cached", "cache")}

_AMOUNT = r"[0-9]{1,12}(?:\.[0-9]{0,12})?|\.[0-9]{1,12}"
_HOURLY = rf"\$?\s*({_AMOUNT})(?:\s*(?:-|to)\s*\$?\s*({_AMOUNT}))?\s*(?:usd)?\s*(?:/\s*(?:h|hr|hour))?"
_TOKENS = rf"\s*([a-z]+)\s*[:=]\s*\$?\s*({_AMOUNT})\s*"


def price_of_text(text: str) -> float | tuple[float, float]:
    """Rent of a GPU [USD/h] from text: a number, or both ends of a range.

    >>> price_of_text("2.5/h"), price_of_text("2-4 USD/h")
    (2.5, (2.0, 4.0))
    """
    match = re.fullmatch(_HOURLY, text.strip(), re.IGNORECASE)
    if match is None:
        raise BadInput(f"{shown(text)} is not a price such as 2.5, 2.5/h or 2-4/h (USD per GPU-hour)")
    low, high = match.groups()
    return float(low) if high is None else (float(low), float(high))


def api_price_of_text(text: str) -> dict[str, float]:
    """Prices of an API [USD per million tokens] by kind of token: in, out, cached.

    >>> api_price_of_text("in:0.5,out:1.5")
    {'in': 0.5, 'out': 1.5}
    """
    names = {name: key for key, several in API_TOKENS.items() for name in several}
    prices: dict[str, float] = {}
    for part in text.split(","):
        match = re.fullmatch(_TOKENS, part, re.IGNORECASE)
        key = None if match is None else names.get(match[1].lower())
        if match is None or key is None:
            raise BadInput(
                f"{shown(part.strip())} is not a token price; write in:0.5,out:1.5,cached:0.05 (USD per million tokens)"
            )
        if key in prices:
            raise BadInput(f"{key!r} is priced twice in {shown(text)}")
        prices[key] = float(match[2])
    return prices
