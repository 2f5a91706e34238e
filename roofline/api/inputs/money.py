"""Prices as callers write them: the hourly rent of a GPU, and what an API charges for tokens."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from roofline.api.inputs.arguments import number, scalar, values_of
from roofline.api.inputs.texts import plain_value
from roofline.errors import BadInput, shown
from roofline.grammar.prices import API_TOKENS, api_price_of_text
from roofline.quantity import HOUR, MEGA
from roofline.records import replace
from roofline.serving.cost import ByPhase
from roofline.specs.gpu import Gpu, Price

#: Source of a price that does not come from the catalog.
GIVEN_PRICE = "given"

_HOW = "must be USD per GPU-hour: a number such as 2.5, or a range such as 2-4"


def price_of(value: Any) -> Price | None:
    """Price of one GPU from a number, a range or a text in USD/h [USD/s]; the middle of a range is typical."""
    value = plain_value("gpu_price", scalar(value))
    if value is None:
        return None
    ends = values_of("gpu_price", value)
    pair = [value, value] if ends is None else ends
    if len(pair) != 2 or any(type(end) not in (float, int) or not 0.0 < end <= MEGA for end in pair):
        raise BadInput(f"gpu_price = {shown(value)} {_HOW}")
    low, high = (float(end) / HOUR for end in pair)
    if low > high:
        raise BadInput(f"gpu_price = {shown(value)} has its ends in the wrong order; write {pair[1]:g}-{pair[0]:g}")
    return Price(low, (low + high) / 2.0, high, GIVEN_PRICE)


def priced(gpu: Gpu, value: Any) -> Gpu:
    """A GPU at the price given; None keeps the catalog's."""
    price = price_of(value)
    return gpu if price is None else replace(gpu, price=price)


def api_prices_of(value: Any) -> ByPhase | None:
    """Prices of an API [USD per million tokens]; cached tokens cost as much as others by default."""
    value = value if isinstance(value, Mapping) else scalar(value)
    if value is None:
        return None
    if isinstance(value, str):
        try:
            value = api_price_of_text(value)
        except BadInput as error:
            raise BadInput(f"api_price: {error}") from None
    names = {name: key for key, several in API_TOKENS.items() for name in several}
    if not isinstance(value, Mapping) or any(name not in names for name in value):
        raise BadInput(f"api_price = {shown(value)} must be prices of in, out and cached: in:0.5,out:1.5,cached:0.05")
    prices = {names[name]: number(f"api_price {name}", price, 0.0, MEGA) for name, price in value.items()}
    missing = [key for key in ("in", "out") if key not in prices]
    if missing:
        raise BadInput(f"api_price needs {' and '.join(missing)}: in:0.5,out:1.5 (USD per million tokens)")
    if not any(prices.values()):
        raise BadInput("api_price is nothing for all tokens; give what the API asks, as in in:0.5,out:1.5")
    return ByPhase(prices["in"], prices.get("cached", prices["in"]), prices["out"])
