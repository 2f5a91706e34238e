"""Flat rows of the JSON contract for a type checker: keys, and what stands under each."""

from __future__ import annotations

from typing import TypedDict

__all__ = ["ComparedRow", "GoodputRow", "QuantizedRow", "Row", "SizeRow"]


class Row(TypedDict, total=False):
    """A prediction of one case as a flat row, or the keys of it that were asked for; None is what does not apply."""

    model: str
    model_id: str
    gpu: str
    num_gpus: int | None
    tp: int | None
    pp: int | None
    ep: int | None
    dp: int | None
    isl: float
    osl: float
    prefix: float
    isl_cv: float | None
    osl_cv: float | None
    batch: float | None
    load: str
    concurrency: float | None
    request_rate: float | None
    util: float | None
    running: float | None
    waiting: float | None
    queue_ms: float | None
    max_request_rate: float | None
    weight_dtype: str | None
    kv_cache_dtype: str | None
    compute_dtype: str | None
    basis: str | None
    basis_detail: str | None
    engine: str
    fits: bool | None
    ttft_ms: float | None
    tpot_ms: float | None
    itl_ms: float | None
    e2el_ms: float | None
    ttft_low_ms: float | None
    ttft_high_ms: float | None
    tpot_low_ms: float | None
    tpot_high_ms: float | None
    e2el_low_ms: float | None
    e2el_high_ms: float | None
    ttft_p50_ms: float | None
    ttft_p50_low_ms: float | None
    ttft_p50_high_ms: float | None
    ttft_p90_ms: float | None
    ttft_p90_low_ms: float | None
    ttft_p90_high_ms: float | None
    ttft_p95_ms: float | None
    ttft_p95_low_ms: float | None
    ttft_p95_high_ms: float | None
    ttft_p99_ms: float | None
    ttft_p99_low_ms: float | None
    ttft_p99_high_ms: float | None
    tpot_p50_ms: float | None
    tpot_p50_low_ms: float | None
    tpot_p50_high_ms: float | None
    tpot_p90_ms: float | None
    tpot_p90_low_ms: float | None
    tpot_p90_high_ms: float | None
    tpot_p95_ms: float | None
    tpot_p95_low_ms: float | None
    tpot_p95_high_ms: float | None
    tpot_p99_ms: float | None
    tpot_p99_low_ms: float | None
    tpot_p99_high_ms: float | None
    e2el_p50_ms: float | None
    e2el_p50_low_ms: float | None
    e2el_p50_high_ms: float | None
    e2el_p90_ms: float | None
    e2el_p90_low_ms: float | None
    e2el_p90_high_ms: float | None
    e2el_p95_ms: float | None
    e2el_p95_low_ms: float | None
    e2el_p95_high_ms: float | None
    e2el_p99_ms: float | None
    e2el_p99_low_ms: float | None
    e2el_p99_high_ms: float | None
    slo_met: bool | None
    slo_binding: str | None
    ttft_light_frac: float | None
    tpot_light_frac: float | None
    tok_s_user: float | None
    output_tok_s: float | None
    output_tok_s_gpu: float | None
    prefill_bound: str | None
    decode_bound: str | None
    ridge_knee: float | None
    half_knee: float | None
    memory_knee: float | None
    slo_knee: float | None
    knee: float | None
    knee_bound: str | None
    weights_gb: float | None
    kv_cache_gb: float | None
    hbm_used_frac: float | None
    usd_per_hour: float | None
    usd_per_m_output_tok: float | None
    warnings: list[str]
    reason: str | None


class SizeRow(Row, total=False):
    """A row of `size`: a prediction with the fewest GPUs, and whether it meets the SLO."""

    quantization: str | None
    meets: bool
    meets_high: bool | None
    excess: float | None


class GoodputRow(Row, total=False):
    """A row of `goodput`: a prediction at the goodput, and the goodput itself."""

    goodput: float
    goodput_gpu: float
    goodput_util: float | None
    headroom: float | None
    goodput_binding: str | None
    goodput_share: float
    attained_share: float | None


class _SpeedupRow(Row, total=False):
    prefill_speedup: float | None
    decode_speedup: float | None
    why_prefill: str | None
    why_decode: str | None


class ComparedRow(_SpeedupRow, total=False):
    """A row of `compare`: a prediction, and how many times faster than the reference it is."""

    label: str
    reference: str


class QuantizedRow(_SpeedupRow, total=False):
    """A row of `quantize`: a prediction in one pair of formats, and how many times faster than the baseline it is."""

    quantization: str
    baseline: str
    num_gpus_smallest: int | None
    largest_batch: float | None
    output_tok_s_largest_batch: float | None
    assumed: list[str]
