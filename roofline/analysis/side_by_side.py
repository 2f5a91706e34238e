"""A prediction beside that of a reference: what every comparison of two of them says."""

from __future__ import annotations

from typing import Any

from roofline.analysis.difference import Difference, difference_rows, ratio_text
from roofline.number_types import Json
from roofline.quantity import to_text
from roofline.records import dataclass
from roofline.serving.prediction import Prediction
from roofline.serving.row import ROW_KEYS
from roofline.serving.row import row as row_of
from roofline.specs.slo import key_text

__all__ = ["SideBySide", "latencies", "speedups"]


@dataclass(frozen=True)
class SideBySide:
    """A prediction and how many times faster than a reference it is, with the reasons."""

    prediction: Prediction
    prefill: Difference | None  # None for a reference that is not compared with itself
    decode: Difference | None  # None for a single output token, too
    why_prefill: str | None
    why_decode: str | None

    def __repr__(self) -> str:
        """The line of `str`, for lists of them."""
        return f"<{type(self).__name__} {self}>"

    def row(self, **further: Any) -> dict[str, Any]:
        """Flat row: the keys of a prediction, further ones, speed-ups and their reasons, and the warnings."""
        return {
            **row_of(self.prediction, (key for key in ROW_KEYS if key != "warnings")),
            **further,
            "prefill_speedup": None if self.prefill is None else self.prefill.speedup,
            "decode_speedup": None if self.decode is None else self.decode.speedup,
            "why_prefill": self.why_prefill,
            "why_decode": self.why_decode,
            "warnings": list(self.prediction.warnings),
        }

    def kernel_records(self, **labels: str) -> list[dict[str, Json]]:
        """Every kernel's part in both speed-ups, as flat rows that begin with labels."""
        return [
            row
            for name, found in (("prefill", self.prefill), ("decode", self.decode))
            if found is not None
            for row in difference_rows(found, **labels, **{"pass": name})
        ]


def latencies(found: Prediction) -> str:
    """Latencies of one case in a few words: the percentiles that an SLO limits, else the means.

    Args:
        found: the prediction; a single case.

    Returns:
        Text such as ``TTFT 98.3 ms, TPOT 9.12 ms`` [text].
    """
    limited = [key for key in found.slo if key.startswith(("ttft_p", "tpot_p"))]
    keys = [next((key for key in limited if key.startswith(metric)), metric) for metric in ("ttft", "tpot")]
    times = {key: found.latency(key) for key in keys}
    return ", ".join(f"{key_text(key)} {to_text(time, 's')}" for key, time in times.items() if time is not None)


def speedups(prefill: Difference | None, decode: Difference | None, reference: str) -> str:
    """Speed-ups in a few words, the end of a line.

    Args:
        prefill: against the reference; None for the reference itself.
        decode: the same of a decode step; None where there is none, too.
        reference: what it is compared with [text].

    Returns:
        Text such as ``; 2.41x as fast as h100-sxm in prefill, 1.83x in decode``, empty for the reference itself [text].
    """
    known = {"prefill": prefill, "decode": decode}
    said = [(name, ratio_text(found.speedup)) for name, found in known.items() if found is not None]
    named = [f"{ratio}{'' if i else f' as fast as {reference}'} in {name}" for i, (name, ratio) in enumerate(said)]
    return f"; {', '.join(named)}" if named else ""
