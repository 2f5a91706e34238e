"""Measurements of a served model."""

from __future__ import annotations

from roofline.records import dataclass


@dataclass(frozen=True, slots=True)
class Measurement:
    """Latencies of a served model and the conditions behind them; None: not stated."""

    source: str  # file and place in it
    gpu: str | None = None
    model: str | None = None
    engine: str | None = None
    engine_version: str | None = None
    tp: int | None = None
    pp: int | None = None
    ep: int | None = None
    dp: int | None = None
    quantization: str | None = None
    kv_cache_dtype: str | None = None
    isl: float | None = None  # [tokens] mean over the requests
    osl: float | None = None  # [tokens] mean over the requests
    prefix: float | None = None  # [tokens]
    batch: float | None = None  # [sequences] started together
    concurrency: float | None = None  # [requests] in flight
    num_prompts: float | None = None  # [requests] of the run, which all users begin together
    request_rate: float | None = None  # [1/s]
    answered_rate: float | None = None  # [1/s] of answers
    ttft: float | None = None  # [s]
    tpot: float | None = None  # [s] (e2el - ttft) / (osl - 1)
    e2el: float | None = None  # [s]
    statistic: str | None = None  # mean, median or p99 over the requests
    date: str | None = None
    note: str | None = None
