"""A prediction next to that of a reference."""

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


@dataclass(frozen=True)
class SideBySide:
    prediction: Prediction
    prefill: Difference | None  # None for the reference itself
    decode: Difference | None  # None also for a single output token
    why_prefill: str | None
    why_decode: str | None

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self}>"

    def row(self, **further: Any) -> dict[str, Any]:
        """Flat row: a prediction, further keys, speed-ups, their reasons and the warnings."""
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
        """Contribution of every kernel to both speed-ups, as flat rows that begin with the labels."""
        return [
            row
            for name, change in (("prefill", self.prefill), ("decode", self.decode))
            if change is not None
            for row in difference_rows(change, **labels, **{"pass": name})
        ]


def latencies(prediction: Prediction) -> str:
    """Text such as ``TTFT 98.3 ms, TPOT 9.12 ms``: percentiles where the SLO limits them, else means."""
    limited = [key for key in prediction.slo if key.startswith(("ttft_p", "tpot_p"))]
    keys = [next((key for key in limited if key.startswith(metric)), metric) for metric in ("ttft", "tpot")]
    times, is_mean = {key: prediction.latency(key) for key in keys}, prediction.workload.is_mean
    return ", ".join(
        f"{key_text(key, is_mean=is_mean)} {to_text(time, 's')}" for key, time in times.items() if time is not None
    )


def speedups(prefill: Difference | None, decode: Difference | None, reference: str) -> str:
    """Text such as ``; 2.41x as fast as h100-sxm in prefill, 1.83x in decode``; empty for the reference itself."""
    known = {"prefill": prefill, "decode": decode}
    ratios = [(name, ratio_text(change.speedup)) for name, change in known.items() if change is not None]
    named = [f"{ratio}{'' if i else f' as fast as {reference}'} in {name}" for i, (name, ratio) in enumerate(ratios)]
    return f"; {', '.join(named)}" if named else ""
