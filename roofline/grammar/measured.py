"""A measurement of a deployment from text."""

from __future__ import annotations

import re

from roofline.errors import BadInput, shown
from roofline.grammar.numbers import number_of_text, time_of_text

#: Latencies that may be measured.
TIMES = ("ttft", "tpot")

#: What a measurement looks like.
MEASURED_EXAMPLE = "tpot=14.2,batch=1 or ttft=0.3s,isl=4k,concurrency=64"

_KEYS = (*TIMES, "isl", "osl", "batch", "prefix", "concurrency", "request_rate")
_ALIASES = {"itl": "tpot", "users": "concurrency", "rate": "request_rate"}
_MOST = 300  # characters


def measured_of_text(text: str) -> dict[str, float]:
    """Latencies [s] with the lengths and the load they were measured at; a bare time is in milliseconds.

    >>> measured_of_text("tpot=25ms, isl=4k, batch=1")
    {'tpot': 0.025, 'isl': 4096.0, 'batch': 1.0}
    """
    if len(text) > _MOST:
        raise BadInput(f"{shown(text)} is not a measurement; write {MEASURED_EXAMPLE}")
    measured: dict[str, float] = {}
    for part in re.split(r"\s*[,;]\s*|\s+(?=[A-Za-z])", text.strip()):
        key, sign, value = (piece.strip() for piece in part.partition("="))
        name = key.lower().replace("-", "_")
        name = _ALIASES.get(name, name)
        if not sign or name not in _KEYS:
            raise BadInput(f"{shown(part)} is not key=value with a key of {', '.join(_KEYS)}; write {MEASURED_EXAMPLE}")
        if name in measured:
            raise BadInput(f"{name} is stated twice in {shown(text)}; leave one out")
        try:
            measured[name] = time_of_text(value) if name in TIMES else number_of_text(value)
        except BadInput as error:
            raise BadInput(f"{key} = {error}") from None
    return measured
