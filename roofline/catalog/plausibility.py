"""Plausibility of the figures of a GPU: wrong units or prefixes, sparse peaks, ratios that no GPU has.

Slips are refused wherever a user's file is read; doubts are reported by `roofline check-specs` alone. A note that
explains a figure silences both.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from roofline.errors import BadInput
from roofline.quantity import from_text

#: Path of a fault, as keys and positions, and its description.
Fault = tuple[tuple[str | int, ...], str]

# Dense 16-bit ridge points of accelerators range from 37 (H20) to 420 FLOP/B (L40S); a sparse peak doubles them, and a
# wrong prefix is a factor of a thousand.
_LOWEST_RIDGE, _HIGHEST_RIDGE = 15.0, 500.0
_HIGHEST_FP8_RATIO = 2.2

# Figure -> dimension and range of GPUs on the market, with an order of magnitude to spare.
_RANGES = {
    "exp_per_s": ("exp/s", "10 Gexp/s", "1 Pexp/s"),
    "clock": ("Hz", "0.1 GHz", "10 GHz"),
    "cache": ("B", "100 kB", "100 GB"),
    "memory.label": ("B", "1 GB", "10 TB"),
    "memory.usable": ("B", "1 GB", "10 TB"),
    "memory.bandwidth": ("B/s", "10 GB/s", "100 TB/s"),
    "scale_up.bandwidth": ("B/s", "1 GB/s", "10 TB/s"),
    "scale_up.peer_bandwidth": ("B/s", "1 GB/s", "10 TB/s"),
    "scale_out.bandwidth": ("B/s", "0.1 GB/s", "10 TB/s"),
    "host_link.bandwidth": ("B/s", "0.1 GB/s", "10 TB/s"),
    "power": ("W", "5 W", "10 kW"),
}
_PEAKS = ("FLOP/s", "1 TFLOP/s", "100 PFLOP/s")
_PRICES = ("USD/s", "0.01 USD/h", "1000 USD/h")
_SMALLEST_USABLE_SHARE = 0.8

# Usual ratios of dense tensor-core rates to the 16-bit rate.
_RATIOS = {
    "fp16": (1.0,),
    "tf32": (0.5,),
    "fp8": (2.0,),
    "int8": (1.0, 2.0),
    "fp6": (2.0, 4.0),
    "fp4": (4.0,),
    "int4": (4.0,),
}
_RATIO_TOLERANCE = 0.03
# Special functions per core and clock: 16 on NVIDIA's SMs, 32 on Blackwell Ultra; a factor of four to spare.
_FEWEST_EXPS, _MOST_EXPS = 4.0, 128.0
_ROUNDING = 1.005


def slips(data: Mapping[str, Any]) -> Iterator[Fault]:
    """Figures of a GPU that can only be mistakes; `data` may hold anything."""
    yield from _sparse_peaks(data)
    for dtype in _mapping(data, "peak"):
        yield from _out_of_range(data, ("peak", dtype), *_PEAKS)
    for path, bounds in _RANGES.items():
        yield from _out_of_range(data, tuple(path.split(".")), *bounds)
    yield from _prices(data)
    yield from _memory(data)
    peer = _value(data, ("scale_up", "peer_bandwidth"), "B/s")
    total = _value(data, ("scale_up", "bandwidth"), "B/s")
    if peer and total and peer > total * _ROUNDING:
        yield ("scale_up", "peer_bandwidth"), "exceeds scale_up.bandwidth, the rate to all peers together"


def doubts(data: Mapping[str, Any]) -> Iterator[Fault]:
    """Figures of a GPU that need a note to explain them; `data` may hold anything."""
    sixteen_bit = _sixteen_bit_peak(data)
    reference = sixteen_bit and _value(data, ("peak", sixteen_bit), "FLOP/s")
    if reference:
        for dtype, ratios in _RATIOS.items():
            value = _value(data, ("peak", dtype), "FLOP/s")
            if value is None or dtype == sixteen_bit or _is_explained(data, ("peak", dtype)):
                continue
            if all(abs(value / reference / ratio - 1.0) > _RATIO_TOLERANCE for ratio in ratios):
                usual = " or ".join(f"{ratio:g}" for ratio in ratios)
                text = f"{value / reference:.2f} times the {sixteen_bit} peak, not {usual}; explain it in a note"
                yield ("peak", dtype), text
    link, memory = _value(data, ("scale_up", "bandwidth"), "B/s"), _value(data, ("memory", "bandwidth"), "B/s")
    is_possible = link and memory and _is_within(memory, *_RANGES["memory.bandwidth"])
    if link and memory and is_possible and link > memory and not _is_explained(data, ("scale_up", "bandwidth")):
        text = "exceeds the memory bandwidth; give it per direction and GPU, or explain it in a note"
        yield ("scale_up", "bandwidth"), text
    yield from _exponentials(data)


def _exponentials(data: Mapping[str, Any]) -> Iterator[Fault]:
    """A rate of special functions that is implausible for the cores and their clock."""
    rate, clock = _value(data, ("exp_per_s",), "exp/s"), _value(data, ("clock",), "Hz")
    cores = _mapping(data, "cores").get("value")
    if not (rate and clock and type(cores) is int and cores > 0) or _is_explained(data, ("exp_per_s",)):
        return
    per_clock = rate / cores / clock
    if not _FEWEST_EXPS <= per_clock <= _MOST_EXPS:
        yield ("exp_per_s",), f"{per_clock:.3g} per core and clock, usually 16; explain it in a note"


def _sparse_peaks(data: Mapping[str, Any]) -> Iterator[Fault]:
    """A missing 16-bit peak, and peaks that can only be 2:4 sparse or have a wrong prefix."""
    peaks = {dtype: _value(data, ("peak", dtype), "FLOP/s") for dtype in _mapping(data, "peak")}
    sixteen_bit = _sixteen_bit_peak(data)
    if (
        peaks and not sixteen_bit and data.get("status") not in ("announced", "pre-release")
    ):  # which state narrow peaks first
        yield ("peak",), "bf16 or fp16 is missing; every model needs one"
    reference, bandwidth = peaks.get(sixteen_bit or ""), _value(data, ("memory", "bandwidth"), "B/s")
    if not sixteen_bit or not reference:
        return
    advice = "suggests a sparse peak; give the dense one, or explain it in a note"
    is_possible = bandwidth and _is_within(reference, *_PEAKS) and _is_within(bandwidth, *_RANGES["memory.bandwidth"])
    if bandwidth and is_possible and not _is_explained(data, ("peak", sixteen_bit), ("memory", "bandwidth")):
        ridge = reference / bandwidth
        if ridge > _HIGHEST_RIDGE:
            yield ("peak", sixteen_bit), f"a ridge of {ridge:.0f} FLOP/B {advice}"
        elif ridge < _LOWEST_RIDGE:
            text = f"a ridge of {ridge:.2g} FLOP/B is lower than any accelerator's; check the units of the peak"
            yield ("peak", sixteen_bit), f"{text} and the memory bandwidth, or explain it in a note"
    ratio = (peaks.get("fp8") or 0.0) / reference
    if ratio > _HIGHEST_FP8_RATIO and not _is_explained(data, ("peak", "fp8")):
        yield ("peak", "fp8"), f"{ratio:.1f} times the 16-bit peak {advice}"


def _prices(data: Mapping[str, Any]) -> Iterator[Fault]:
    price = _mapping(data, "price")
    amounts = [_amount(price.get(key), "USD/s") for key in ("low", "typical", "high")]
    least, most = (from_text(bound, _PRICES[0]) for bound in _PRICES[1:])
    for key, amount in zip(("low", "typical", "high"), amounts, strict=True):
        if amount and not least <= amount <= most and not _is_explained(data, ("price",)):
            text = f"{price[key]} is not between {_PRICES[1]} and {_PRICES[2]}; correct it or explain it in a note"
            yield ("price", key), text
    low, typical, high = amounts
    if low and typical and high and not low <= typical <= high:
        yield ("price",), "must satisfy low <= typical <= high"


def _memory(data: Mapping[str, Any]) -> Iterator[Fault]:
    """Usable memory that exceeds the label, even if that means GiB, or is far below it."""
    label, usable = _value(data, ("memory", "label"), "B"), _value(data, ("memory", "usable"), "B")
    if not label or not usable or _is_explained(data, ("memory", "label")):
        return
    binary = from_text("1 GiB", "B") / from_text("1 GB", "B")
    comparison = f"{data['memory']['usable']['value']} usable of {data['memory']['label']['value']}"
    if usable > label * binary * _ROUNDING:
        yield ("memory", "usable"), f"{comparison}: more than the label, even in GiB"
    elif usable < label * _SMALLEST_USABLE_SHARE and not _is_explained(data, ("memory", "usable")):
        yield ("memory", "usable"), f"{comparison}: less than {_SMALLEST_USABLE_SHARE:.0%}; explain it in a note"


def _out_of_range(
    data: Mapping[str, Any], path: tuple[str, ...], dimension: str, low: str, high: str
) -> Iterator[Fault]:
    value = _value(data, path, dimension)
    if value is None or _is_explained(data, path):
        return
    if not _is_within(value, dimension, low, high):
        text = _figure(data, path)["value"]
        yield path, f"{text!r} is not between {low} and {high}; check the unit, or explain it in a note"


def _is_within(value: float, dimension: str, low: str, high: str) -> bool:
    return from_text(low, dimension) <= value <= from_text(high, dimension)


def _sixteen_bit_peak(data: Mapping[str, Any]) -> str | None:
    """The 16-bit dtype that other peaks are compared with; None without one."""
    return next((dtype for dtype in ("bf16", "fp16") if dtype in _mapping(data, "peak")), None)


def _is_explained(data: Mapping[str, Any], *paths: tuple[str, ...]) -> bool:
    return any(bool(_figure(data, path).get("note")) for path in paths)


def _value(data: Mapping[str, Any], path: tuple[str, ...], dimension: str) -> float | None:
    """SI value of a figure; None where it is absent or unreadable, which the schema reports."""
    return _amount(_figure(data, path).get("value"), dimension)


def _amount(text: object, dimension: str) -> float | None:
    try:
        return from_text(text, dimension)
    except BadInput:
        return None


def _figure(data: Mapping[str, Any], path: tuple[str, ...]) -> Mapping[str, Any]:
    for key in path:
        data = _mapping(data, key)
    return data


def _mapping(data: Mapping[str, Any], key: str) -> Mapping[str, Any]:
    value = data.get(key)
    return value if isinstance(value, Mapping) else {}
