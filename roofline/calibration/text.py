"""Text of a calibration file, in the layout of the shipped ones."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from roofline.errors import BadInput, printable
from roofline.quantity import MICRO, NANO
from roofline.specs.yaml_text import yaml_date, yaml_quoted, yaml_scalar

_HEADER = """\
# {title}
# t = t0 + || F/(eta_c P) + kappa d , Q/(eta_m W) ||_p + X/(eta_x S) + Q_s/(eta_s W) + kappa_s d_s + eps n
# collectives: t = a0 + a1 (n-1) + a2 log2(n) + sqrt(q V/B) + min(V/(eta B), S/(eta_switch B))
# V: bytes that one GPU sends, 2 (n-1)/n S of a tensor S for an all-reduce on a ring
# residual: median |ln(predicted/measured)| of the rows fitted; sigma: of the log-normal whose 80 % interval holds
# 80 % of them. A set without measurements is an assumption that its source explains; its sigma, if it has one, is
# that of the set it was made from.
"""
_UNITS = {
    **dict.fromkeys(("t0", "t0_ep", "a0", "a1", "a2", "q"), ("us", MICRO)),
    **dict.fromkeys(("kappa", "kappa_s", "eps"), ("ns", NANO)),
}
_ORDER = ("t0", "t0_ep", "eta_c", "eta_x", "eta_m", "kappa", "eta_s", "kappa_s", "eps", "p", "a0", "a1", "a2", "q",
          "eta", "eta_switch", "residual", "sigma", "measurements", "source", "note", "title", "url", "date", "engines",
          "gpus")  # fmt: skip


def parameter_texts(parameters: Mapping[str, float]) -> dict[str, Any]:
    """Parameters as a calibration file states them: in three digits, times with a unit.

    >>> parameter_texts({"t0": 3.4e-6, "eta_c": 0.8})
    {'t0': '3.4 us', 'eta_c': 0.8}
    """
    texts: dict[str, Any] = {}
    for name, value in parameters.items():
        unit, size = _UNITS.get(name, ("", 1.0))
        digits = _three_digits(value / size)
        texts[name] = f"{digits:.12g} {unit}" if unit else digits
    return texts


def calibration_text(document: Mapping[str, Any], title: str) -> str:
    """YAML that reads back as the document; `title` is its first comment."""
    lines = [_HEADER.format(title=printable(title)), f"name: {yaml_scalar(document['name'])}\n"]
    lines.append(f"measured_on: {_scalar('', document['measured_on'])}\n")
    lines += [
        f"{name}: {_scalar(name, document[name])}\n" for name in ("engines", "link", "date") if document.get(name)
    ]
    lines.append("kernels:\n" if document["kernels"] else "kernels: {}\n")
    for kind, sets in document["kernels"].items():
        lines.append(f"  {yaml_scalar(kind)}:\n" if sets else f"  {yaml_scalar(kind)}: {{}}\n")
        lines += [f"    {yaml_scalar(dtype)}: {_flow(entry)}\n" for dtype, entry in sets.items()]
    for section in ("collectives", "sources"):
        lines.append(f"{section}:\n" if document[section] else f"{section}: {{}}\n")
        lines += [f"  {yaml_scalar(name)}: {_flow(entry)}\n" for name, entry in document[section].items()]
    if document.get("notes"):
        lines += ["notes:\n", *(f"  - {yaml_quoted(note)}\n" for note in document["notes"])]
    return "".join(lines)


def _flow(entry: Mapping[str, Any]) -> str:
    names = sorted(entry, key=lambda name: _ORDER.index(name) if name in _ORDER else -1)
    return "{" + ", ".join(f"{yaml_scalar(name)}: {_scalar(name, entry[name])}" for name in names) + "}"


def _scalar(name: str, value: Any) -> str:
    if isinstance(value, (list, tuple)):
        return "[" + ", ".join(_scalar("", item) for item in value) + "]"
    if isinstance(value, str) and name in ("title", "note"):
        return yaml_quoted(value)
    if isinstance(value, str) and name == "date":
        return yaml_date(value)
    if isinstance(value, float):
        if value - value != 0.0 and name != "p":  # NaN or infinite; an infinite p is the maximum of both sides
            raise BadInput(f"{name} = {value} must be finite")
        return _decimal(value)
    return yaml_scalar(value)


def _decimal(value: float) -> str:
    """A number without an exponent, where that loses nothing."""
    text = f"{value:.12f}".rstrip("0").rstrip(".")
    return text if value - value == 0.0 and float(text) == value else yaml_scalar(value)


def _three_digits(value: float) -> float:
    return float(f"{value:.3g}")
