"""The document of a calibration to the text of its file, in the layout of the shipped ones."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

from roofline.quantity import MICRO, NANO

__all__ = ["calibration_text", "parameter_texts"]

_HEADER = """\
# {title}
# t = t0 + || F/(eta_c P) + kappa d , Q/(eta_m W) ||_p + X/(eta_x S) + Q_s/(eta_s W) + kappa_s d_s + eps n
# collectives: t = a0 + a1 (n-1) + a2 log2(n) + sqrt(q V/B) + min(V/(eta B), S/(eta_switch B))
# V: bytes that one GPU sends, 2 (n-1)/n S of a tensor S for an all-reduce on a ring
# residual: median |ln(predicted/measured)| of the rows fitted; sigma: of the log-normal whose 80 % interval holds
# 80 % of them. A set without measurements is an assumption that its source explains; its sigma, if it has one, is
# that of the set it was made from.
"""
_PLAIN = re.compile(r"[A-Za-z0-9][\w.+/-]*( [\w.+/-]+)*|https://[\w./@%+~=-]+", re.ASCII).fullmatch
_UNITS = {"t0": ("us", MICRO), "a0": ("us", MICRO), "a1": ("us", MICRO), "a2": ("us", MICRO), "q": ("us", MICRO),
          "kappa": ("ns", NANO), "kappa_s": ("ns", NANO), "eps": ("ns", NANO)}  # fmt: skip
_ORDER = ("t0", "eta_c", "eta_x", "eta_m", "kappa", "eta_s", "kappa_s", "eps", "p", "a0", "a1", "a2", "q", "eta",
          "eta_switch", "residual", "sigma", "measurements", "source", "note", "title", "url", "date", "engines",
          "gpus")  # fmt: skip


def parameter_texts(parameters: Mapping[str, float]) -> dict[str, Any]:
    """Parameters of the equation as a calibration file states them: three digits, times with their unit.

    Args:
        parameters: fields of an efficiency in SI units [s, 1].

    Returns:
        The same, times as texts [record].

    >>> parameter_texts({"t0": 3.4e-6, "eta_c": 0.8})
    {'t0': '3.4 us', 'eta_c': 0.8}
    """
    found: dict[str, Any] = {}
    for name, value in parameters.items():
        unit, size = _UNITS.get(name, ("", 1.0))
        digits = _three_digits(value / size)
        found[name] = f"{digits:.12g} {unit}" if unit else digits
    return found


def calibration_text(document: Mapping[str, Any], title: str) -> str:
    """Text of a calibration file.

    Args:
        document: the calibration as a mapping [record].
        title: first line, a comment [text].

    Returns:
        YAML that reads back as the document [text].
    """
    lines = [_HEADER.format(title=title), f"name: {document['name']}\n"]
    lines.append(f"measured_on: {_scalar('', document['measured_on'])}\n")
    if document.get("engines"):
        lines.append(f"engines: {_scalar('', document['engines'])}\n")
    if document.get("link"):
        lines.append(f"link: {document['link']}\n")
    if document.get("date"):
        lines.append(f"date: {document['date']}\n")
    lines.append("kernels:\n")
    for kind, sets in document["kernels"].items():
        lines.append(f"  {kind}:\n")
        lines += [f"    {dtype}: {_flow(entry)}\n" for dtype, entry in sets.items()]
    lines.append("collectives:\n")
    lines += [f"  {name}: {_flow(entry)}\n" for name, entry in document["collectives"].items()]
    lines.append("sources:\n")
    lines += [f"  {key}: {_flow(source)}\n" for key, source in document["sources"].items()]
    return "".join(lines)


def _flow(entry: Mapping[str, Any]) -> str:
    names = sorted(entry, key=lambda name: _ORDER.index(name) if name in _ORDER else -1)
    return "{" + ", ".join(f"{name}: {_scalar(name, entry[name])}" for name in names) + "}"


def _scalar(name: str, value: Any) -> str:
    if isinstance(value, (list, tuple)):
        return "[" + ", ".join(_scalar("", item) for item in value) + "]"
    if name in ("title", "note") or (isinstance(value, str) and not _PLAIN(value)):
        return json.dumps(value, ensure_ascii=False)
    if isinstance(value, float):
        return "inf" if value == float("inf") else _decimal(value)
    return str(value)


def _decimal(value: float) -> str:
    """Without an exponent, which YAML reads as text."""
    return f"{value:.12f}".rstrip("0").rstrip(".")


def _three_digits(value: float) -> float:
    return float(f"{value:.3g}")
