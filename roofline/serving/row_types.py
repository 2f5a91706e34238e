"""Types of the flat rows of the JSON contract, by key.

Written by docs/build_schema.py from the tables that make the rows. Annotations are no texts: `typing` would
compile each of them.
"""

from typing import TypedDict


class Row(TypedDict, total=False):
    """A prediction of one case, or the requested keys of it; None where a value does not apply."""

    model: str
    model_id: str
    gpu: str
    num_gpus: int | None
    tp: int | None
    pp: int | None
    ep: int | None
    dp: int | None
    cp: int | None
    dcp: int | None
    isl: float
    osl: float
    prefix: float
    cache_hit: float | None
    cache_tier: str | None
    cache_load_ms: float | None
    isl_cv: float | None
    osl_cv: float | None
    media: str | None
    media_tokens: int | None
    batch: float | None
    load: str
    num_prompts: float | None
    duration_s: float | None
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
    draft: str | None
    draft_tokens: int | None
    tokens_per_step: float | None
    fits: bool | None
    ttft_ms: float | None
    tpot_ms: float | None
    itl_ms: float | None
    e2el_ms: float | None
    encoder_ms: float | None
    ttft_low_ms: float | None
    ttft_high_ms: float | None
    tpot_low_ms: float | None
    tpot_high_ms: float | None
    itl_low_ms: float | None
    itl_high_ms: float | None
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
    itl_p50_ms: float | None
    itl_p50_low_ms: float | None
    itl_p50_high_ms: float | None
    itl_p90_ms: float | None
    itl_p90_low_ms: float | None
    itl_p90_high_ms: float | None
    itl_p95_ms: float | None
    itl_p95_low_ms: float | None
    itl_p95_high_ms: float | None
    itl_p99_ms: float | None
    itl_p99_low_ms: float | None
    itl_p99_high_ms: float | None
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
    load_region: str | None
    load_error_ttft: float | None
    load_error_tpot: float | None
    load_error_ttft_p99: float | None
    load_error_tpot_p99: float | None
    slo_met: bool | None
    slo_binding: str | None
    slo_verdict: str | None
    slo_reason: str | None
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
    lora: str | None
    lora_gb: float | None
    offload_gb: float | None
    hbm_used_frac: float | None
    eplb: int | None
    expert_balance: float | None
    expert_balance_after: float | None
    expert_copies_gb: float | None
    rearrange_gb: float | None
    rearrange_ms: float | None
    rearrange_steps: float | None
    rearrange_prefills: float | None
    rearrange_lost: float | None
    two_batch_prefill: float | None
    two_batch_decode: float | None
    all_to_all: str | None
    usd_per_hour: float | None
    usd_per_m_output_tok: float | None
    usd_per_month: float | None
    usd_per_hour_low: float | None
    usd_per_hour_high: float | None
    price_source: str | None
    usd_per_request: float | None
    usd_per_m_input_tok: float | None
    usd_per_m_cached_tok: float | None
    usd_per_m_decode_tok: float | None
    usd_per_m_blended_tok: float | None
    mean_power_w: float | None
    mean_power_low_w: float | None
    mean_power_high_w: float | None
    prefill_power_w: float | None
    decode_power_w: float | None
    j_per_request: float | None
    j_per_output_tok: float | None
    j_per_input_tok: float | None
    j_per_decode_tok: float | None
    kwh_per_m_output_tok: float | None
    energy_usd_per_m_output_tok: float | None
    energy_usd_per_hour: float | None
    power_cap_w: float | None
    energy_basis: str | None
    gpu_status: str | None
    warnings: list[str]
    reason: str | None


class PlanRow(Row, total=False):
    """A row of `plan`: the prediction of a deployment, whether it meets the SLO, and why."""

    quantization: str | None
    meets: bool | None
    meets_high: bool | None
    flags: list[str]
    excess: float | None
    over_budget: float | None
    slo_probability: float | None
    largest_load: float | None
    load_headroom: float | None
    goodput: float | None
    break_even_gpu_price: float | None
    leads: bool
    why: str | None
    options: dict[str, object] | None


class GoodputRow(Row, total=False):
    """A row of `goodput`: the prediction at the goodput, and the goodput itself."""

    goodput: float
    goodput_gpu: float
    goodput_util: float | None
    headroom: float | None
    goodput_binding: str | None
    goodput_share: float | None
    attained_share: float | None


class CacheRow(Row, total=False):
    """A row of `prompt_cache`: the prediction with the cache in one tier, and that tier's figures."""

    cache_bandwidth_gb_s: float | None
    recompute_ms: float | None
    load_us_per_token: float | None
    recompute_us_per_token: float | None
    recompute_ns_per_square: float | None
    break_even_prefix: float | None
    break_even_formula: float | None
    is_straight: bool | None
    faster: str | None
    prefixes_held: float | None
    flags: list[str]


class BudgetRow(Row, total=False):
    """A row of `budgets`: the prediction with one value of a setting, and the value itself."""

    setting: str
    setting_value: float
    is_default: bool | None
    is_best_value: bool | None


class FitRow(Row, total=False):
    """A row of `fits`: whether an engine starts, its memory, and what its log says."""

    model: str
    model_id: str
    gpu: str
    num_gpus: int | None
    tp: int | None
    pp: int | None
    ep: int | None
    dp: int | None
    engine: str
    weight_dtype: str | None
    kv_cache_dtype: str | None
    start_verdict: str | None
    start_error: str | None
    remedies: list[str]
    max_model_len: float | None
    max_num_seqs: float | None
    max_num_batched_tokens: float | None
    gpu_memory_utilization: float | None
    total_gib: float | None
    weights_gib: float | None
    activations_gib: float | None
    graphs_gib: float | None
    other_gib: float | None
    kv_cache_gib: float | None
    kv_cache_low_gib: float | None
    kv_cache_high_gib: float | None
    kv_tokens: float | None
    max_concurrency: float | None
    largest_max_model_len: float | None
    largest_max_num_seqs: float | None
    log: list[str]
    smallest_gpu: str | None
    widest_format: str | None
    warnings: list[str]


class ComparedRow(Row, total=False):
    """A row of `compare`: a prediction, and its speed-up over the reference."""

    label: str
    reference: str
    prefill_speedup: float | None
    decode_speedup: float | None
    why_prefill: str | None
    why_decode: str | None


class QuantizedRow(Row, total=False):
    """A row of `quantize`: a prediction in one pair of formats, and its speed-up over the baseline."""

    quantization: str
    num_gpus_smallest: int | None
    largest_batch: float | None
    output_tok_s_largest_batch: float | None
    assumed: list[str]
    prefill_speedup: float | None
    decode_speedup: float | None
    why_prefill: str | None
    why_decode: str | None
    baseline: str


class LeverRow(Row, total=False):
    """A row of `levers`: the prediction of the changed case, and the effect of the change."""

    lever: str
    lever_kind: str
    levers: list[str]
    options: dict[str, object] | None
    ttft_p50_change: float | None
    ttft_p99_change: float | None
    tpot_change: float | None
    goodput: float | None
    goodput_binding: str | None
    goodput_change: float | None
    goodput_usd_per_m_output_tok: float | None
    lever_usd_per_request: float | None
    cost_change: float | None
    helps: bool | None
    prefill_speedup: float | None
    decode_speedup: float | None
    why_prefill: str | None
    why_decode: str | None
    why: str | None
    quality: str | None
    assumption: str | None
    flags: list[str]


class ParetoRow(Row, total=False):
    """A row of `pareto`: the prediction of a point of the frontier, and the options that make it."""

    quantization: str | None
    x: str
    y: str
    x_low: float | None
    x_high: float | None
    y_low: float | None
    y_high: float | None
    frontier_knee: bool
    options: dict[str, object] | None


class CostRow(Row, total=False):
    """A row of `cost`: the prediction at one load, and its cost."""

    cost_at: str | None
    usd_per_m_input_tok_low: float | None
    usd_per_m_input_tok_high: float | None
    usd_per_m_cached_tok_low: float | None
    usd_per_m_cached_tok_high: float | None
    usd_per_m_decode_tok_low: float | None
    usd_per_m_decode_tok_high: float | None
    usd_per_m_blended_tok_low: float | None
    usd_per_m_blended_tok_high: float | None
    usd_per_request_low: float | None
    usd_per_request_high: float | None
    usd_per_m_blended_tok_saturation: float | None
    usd_per_m_blended_tok_goodput: float | None
    goodput_util: float | None
    api_usd_per_request: float | None
    pays: bool | None
    break_even_util: float | None
    break_even_util_low: float | None
    break_even_util_high: float | None
    break_even_request_rate: float | None
    break_even_requests_day: float | None
    break_even_tok_day: float | None
    break_even_factor: float | None
    break_even: str | None
    own_usd_per_hour: float | None
    own_pays_after_months: float | None
    own_usd_per_m_blended_tok: float | None
    own_break_even_util: float | None
    own_break_even_requests_day: float | None
    flags: list[str]
