"""Power cap, PUE and price of energy as callers write them."""

from __future__ import annotations

from typing import Any

from roofline.numbers.operations import figure_text
from roofline.numbers.quantity import from_text, to_text
from roofline.physics.power import IDLE, LEAST_CAP, MEASURED, is_measured
from roofline.questions.inputs.arguments import number, scalar
from roofline.specs.gpu import Electricity, Gpu
from roofline.specs.written import number_of_text, read_as, share_of_text
from roofline.support.errors import BadInput, shown
from roofline.support.records import replace

_MOST_PUE = 5.0
_MOST_PRICE = 10.0  # [USD/kWh]
_HALF = 0.5
_PER_KWH = ("usd/kwh", "/kwh")
_HOW = "must be a power such as 500W, or a share of the GPU's, such as 70%"


def powered(gpu: Gpu, basis: Any, power_cap: Any, pue: Any, kwh_price: Any) -> Gpu:
    """A GPU with a power cap and what its energy costs; unchanged where nothing is stated, or the cap is its TDP.

    Raises:
        BadInput: a cap above the TDP or too near what an idle board draws, or on a GPU whose power was not measured.
    """
    power_cap, pue, kwh_price = scalar(power_cap), scalar(pue), scalar(kwh_price)
    if power_cap is not None:
        if scalar(basis) == "ideal":
            raise BadInput("power_cap slows measured kernels; the ideal basis is the hardware limit: leave out one")
        share = _share(gpu, power_cap)
        gpu = gpu if share is None else replace(gpu, power_cap=share)
    if pue is None and kwh_price is None:
        return gpu
    factor = 1.0 if pue is None else number("pue", _read("pue", pue), 1.0, _MOST_PUE)
    price = None if kwh_price is None else number("kwh_price", _read("kwh_price", kwh_price), 0.0, _MOST_PRICE)
    return replace(gpu, electricity=Electricity(factor, price))


def _read(name: str, value: Any) -> Any:
    if not isinstance(value, str):
        return value
    text = value.strip()
    if name == "kwh_price":
        unit = next((each for each in _PER_KWH if text.lower().endswith(each)), "")
        text = text[: len(text) - len(unit)].strip()
    return read_as(f"{name}: ", number_of_text, text)


def _share(gpu: Gpu, value: Any) -> float | None:
    """The cap over the TDP; None where it is the TDP itself."""
    if gpu.power is None:
        raise BadInput(f"power_cap: the specification of {gpu.name} states no power")
    if not is_measured(gpu):
        raise BadInput(
            f"power_cap: the power of kernels was measured on {' and '.join(MEASURED)} boards alone, so nothing says "
            f"which ones a cap slows on {gpu.name}"
        )
    watts = _watts(gpu.power, value)
    limit = to_text(gpu.power, "W")
    if watts > gpu.power:
        raise BadInput(f"power_cap = {to_text(watts, 'W')} is above the {limit} of {gpu.name}; leave it out")
    if watts < LEAST_CAP * gpu.power:
        idle, least = (to_text(share * gpu.power, "W") for share in (IDLE, LEAST_CAP))
        raise BadInput(
            f"power_cap = {to_text(watts, 'W')} is too low: {gpu.name} draws {idle} between kernels; "
            f"give {least} or more"
        )
    return None if watts == gpu.power else watts / gpu.power


def _watts(power: float, value: Any) -> float:
    if isinstance(value, str):
        if value.strip().endswith("%"):
            return power * read_as("power_cap: ", share_of_text, value)
        return read_as("power_cap: ", lambda text: from_text(text, "W"), value)
    if type(value) not in (float, int) or not 0.0 < value < float("inf"):
        raise BadInput(f"power_cap = {shown(value)} {_HOW}")
    return float(value)


def cap_note(cap: float, gpu: Gpu) -> str:
    """What a reader of figures under a power cap should know."""
    said = (
        f"power capped at {figure_text(cap * (gpu.power or 0.0), 'W')}: cores slow down by the cube law, not measured"
    )
    return said if cap >= _HALF else f"{said}; below half of the TDP they may slow down more"
