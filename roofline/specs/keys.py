"""Every key of a row of the JSON contract, with its unit and meaning."""

from __future__ import annotations

from collections.abc import Mapping

from roofline.specs.workload import LATENCIES, LEVELS, key_of, key_text
from roofline.support.records import NamedTuple


class Key(NamedTuple):
    kind: str  # text, number, integer, flag, texts, mapping, or value: a number or a text with unit
    unit: str | None  # None for what has none
    meaning: str
    is_open: bool = True  # may be null


def _text(meaning: str, *, is_open: bool = True) -> Key:
    return Key("text", None, meaning, is_open)


def _number(unit: str, meaning: str, *, is_open: bool = True) -> Key:
    return Key("number", unit, meaning, is_open)


def _integer(unit: str, meaning: str) -> Key:
    return Key("integer", unit, meaning)


def _flag(meaning: str, *, is_open: bool = True) -> Key:
    return Key("flag", None, meaning, is_open)


_NAMES = {
    "ttft": "Time to first token",
    "tpot": "Mean time per output token after the first",
    "e2el": "End-to-end latency",
}


def _latencies() -> dict[str, Key]:
    """Keys of means, percentiles and interval ends: predicted, simulated and measured."""
    keys: dict[str, Key] = {}
    for metric, name in _NAMES.items():
        keys[f"{metric}_ms"] = _number("ms", f"{name}; under a load the mean over requests.")
        keys[f"simulated_{metric}_ms"] = _number("ms", f"{name}, mean over the requests of the simulation.")
        keys[f"measured_{metric}_ms"] = _number("ms", f"{name} as measured.")
        keys[f"predicted_{metric}_ms"] = _number("ms", f"{name} as predicted for the measurement.")
        keys[f"target_{metric}_ms"] = _number("ms", f"Target for the mean of {metric.upper()}.")
        keys[f"value_for_{metric}"] = _number(
            "as `unit`",
            f"Value of the input at which the target for {metric.upper()} is met; null where none or all do.",
        )
        keys[f"{metric}_ratio"] = _number("1", f"{metric.upper()}, measured over predicted.")
        keys[f"{metric}_inside"] = _flag(f"Whether {metric.upper()} as measured lies in the 80 % interval.")
        keys[f"{metric}_verdict"] = _text(f"How {metric.upper()} as measured compares with the prediction.")
        for end in ("low", "high"):
            keys[f"predicted_{metric}_{end}_ms"] = _number("ms", f"{end.capitalize()} end of the 80 % interval of it.")
            keys[f"simulated_{metric}_{end}_ms"] = _number(
                "ms", f"{end.capitalize()} end of the 95 % interval of that mean; null for a run, or for few requests."
            )
        keys[f"{metric}_light_frac"] = _number("1", f"Share of the hardware limit that {metric.upper()} reaches.")
    for metric in LATENCIES:
        for level in (None, *LEVELS):
            key, text = key_of(metric, level), key_text(key_of(metric, level))
            keys[f"{key}_low_ms"] = _number("ms", f"Lower end of the 80 % interval of {text}.")
            keys[f"{key}_high_ms"] = _number("ms", f"Upper end of the 80 % interval of {text}.")
            if level is not None:
                keys[f"{key}_ms"] = _number("ms", f"{text} over the requests of a load.")
                keys[f"simulated_{key}_ms"] = _number("ms", f"{text} over the requests of the simulation.")
    return keys


#: Key of a row -> unit and meaning; no key means two things.
KEYS: Mapping[str, Key] = {
    # the case
    "model": _text("Short name of the model.", is_open=False),
    "model_id": _text("Hugging Face id of the model.", is_open=False),
    "gpu": _text("Canonical name of the GPU.", is_open=False),
    "label": _text("GPU with what its pool states of plan and format, such as h100-sxm:tp4:fp8.", is_open=False),
    "num_gpus": _integer("1", "GPUs of all replicas (--num-gpus)."),
    "tp": _integer("1", "Tensor-parallel degree."),
    "pp": _integer("1", "Pipeline-parallel degree."),
    "ep": _integer("1", "Expert-parallel degree."),
    "dp": _integer("1", "Data-parallel degree of the attention."),
    "isl": _number("tokens", "Prompt length, or its mean."),
    "osl": _number("tokens", "Answer length, or its mean."),
    "prefix": _number("tokens", "Prompt tokens whose KV is cached already."),
    "cache_hit": _number("1", "Share of the requests whose prefix is in the cache; null without a cache."),
    "cache_tier": _text("Where the cache lies: hbm, host, nvme or network; null without one."),
    "cache_load_ms": _number(
        "ms", "Time to load a prefix, waits apart; 0 in the memory of the GPU, null without a cache."
    ),
    "isl_cv": _number("1", "Standard deviation of prompt lengths over their mean."),
    "osl_cv": _number("1", "Standard deviation of answer lengths over their mean."),
    "batch": _number("sequences", "Requests of a burst on each replica; null under a load."),
    "load": _text("What comes to the deployment: burst, concurrency or request_rate.", is_open=False),
    "concurrency": _number("requests", "Requests in flight on the whole deployment."),
    "request_rate": _number("1/s", "Requests per second at the whole deployment."),
    "util": _number("1", "request_rate over max_request_rate."),
    "running": _number("requests", "Mean requests that are worked on."),
    "waiting": _number("requests", "Mean requests that wait."),
    "queue_ms": _number("ms", "What others cost the first token."),
    "max_request_rate": _number("1/s", "The largest rate that can be answered."),
    "weight_dtype": _text("Number format of the weights (--weights, --weight-dtype)."),
    "kv_cache_dtype": _text("Number format of the KV cache (--kv-cache-dtype)."),
    "compute_dtype": _text("Dtype at which weights are multiplied (--compute, --compute-dtype)."),
    "basis": _text("What the figures stand on: calibrated, inherited, generic or ideal."),
    "basis_detail": _text("The same with the measurements behind it."),
    "engine": _text("Profile of the serving engine."),
    "draft": _text("What proposes tokens: mtp, eagle, ngram or a model; null without speculative decoding."),
    "draft_tokens": _integer("tokens", "Tokens that are proposed before each decode step."),
    "draft_speedup": _number("1", "TPOT without drafts over TPOT with them."),
    "is_best": _flag("Whether this number of proposed tokens has the least TPOT at its load."),
    "tokens_per_step": _number("tokens", "Mean tokens that a sequence gains in a decode step."),
    # the answer
    "fits": _flag("Whether the case fits the memory."),
    "itl_ms": _number("ms", "Mean inter-token latency: of a step, which with drafts hands out several tokens."),
    **_latencies(),
    "slo_met": _flag("Whether the central estimate meets every limit of the SLO; null without one that applies."),
    "slo_binding": _text("Key of the limit that is taken up most; null where none applies."),
    "slo_verdict": _text(
        "pass, pass?, fail? or fail; null where a limited percentile is not known or no limit applies."
    ),
    "slo_reason": _text("Why the verdict is not pass."),
    "tok_s_user": _number("1/s", "Output tokens per second that one user sees."),
    "output_tok_s": _number("1/s", "Output tokens per second of all replicas."),
    "output_tok_s_gpu": _number("1/s", "Output tokens per second and GPU."),
    "prefill_bound": _text("What most of the prefill waits for."),
    "decode_bound": _text("What most of a decode step waits for."),
    "ridge_knee": _number("sequences", "Batch or users at which decode turns compute-bound."),
    "half_knee": _number("sequences", "Batch or users at which throughput reaches half of its asymptote."),
    "memory_knee": _number("sequences", "Most sequences, or users, for whom there is memory."),
    "slo_knee": _number("sequences", "Most sequences, or users, with whom the SLO is met; null where not known."),
    "knee": _number("sequences", "The smallest of the four, of those that are known."),
    "knee_bound": _text("Which of the four it is."),
    "weights_gb": _number("GB", "Weights on one GPU."),
    "kv_cache_gb": _number("GB", "KV cache on one GPU."),
    "hbm_used_frac": _number("1", "Share of the usable memory that is taken."),
    "usd_per_hour": _number("USD/h", "Typical rental of all GPUs; in a list of GPUs, of one."),
    "usd_per_m_output_tok": _number(
        "USD", "All of the rental per million output tokens; prompt tokens are not counted."
    ),
    "usd_per_hour_low": _number("USD/h", "The same rental at the low end of the price's range."),
    "usd_per_hour_high": _number("USD/h", "The same rental at the high end of it."),
    "price_source": _text("Where the price comes from: given, or the catalog with its date."),
    "usd_per_request": _number("USD", "Rental per request."),
    "usd_per_m_input_tok": _number("USD", "Part of the rental that computed prompt tokens take, per million of them."),
    "usd_per_m_cached_tok": _number("USD", "Part of the rental that cached prompt tokens take, per million of them."),
    "usd_per_m_decode_tok": _number("USD", "Part of the rental that decode takes, per million output tokens."),
    "usd_per_m_blended_tok": _number(
        "USD", "All of the rental per million of all tokens, blended: input, cached and output."
    ),
    "warnings": Key("texts", None, "What a reader of the figures should know.", is_open=False),
    "reason": _text("Why there is no answer, or why it is not known; null or empty otherwise."),
    # size and goodput
    "quantization": _text("Preset of number formats; null for the checkpoint's own."),
    "meets": _flag("Whether the central estimate meets the SLO; null where that is not known."),
    "meets_high": _flag("Whether the upper ends of the 80 % intervals meet it, too."),
    "excess": _number("1", "Worst latency of the nearest plan over its limit."),
    "goodput": _number("1/s", "The largest request rate at which the SLO is met; null without one."),
    "goodput_gpu": _number("1/s", "The same per GPU.", is_open=False),
    "goodput_util": _number("1", "The same over the largest rate that can be answered."),
    "headroom": _number("1", "1 - goodput_util."),
    "goodput_binding": _text("Key of the limit that is just met, saturation, or that one is not known beyond."),
    "goodput_share": _number(
        "1", "Share of the requests that must meet all limits without a percentile together; null for limits on means."
    ),
    "attained_share": _number("1", "Share of the requests that meet all limits without a percentile together."),
    # costs
    "cost_at": _text("Load at which the cost is stated: the one asked, bursts, goodput or saturation."),
    **{
        f"usd_per_m_{kind}_tok_{end}": _number("USD", f"usd_per_m_{kind}_tok at the {end} end of the rent.")
        for kind in ("input", "cached", "decode", "blended")
        for end in ("low", "high")
    },
    "usd_per_request_low": _number("USD", "usd_per_request at the low end of the rent."),
    "usd_per_request_high": _number("USD", "usd_per_request at the high end of the rent."),
    "usd_per_m_blended_tok_saturation": _number("USD", "usd_per_m_blended_tok at the saturation."),
    "usd_per_m_blended_tok_goodput": _number("USD", "usd_per_m_blended_tok at the goodput."),
    "api_usd_per_request": _number("USD", "What the API asks for such a request."),
    "pays": _flag("Whether there is a load at which the GPUs cost less than the API, at the typical rent."),
    "break_even_util": _number("1", "Share of the saturation at which both cost the same; null where never."),
    "break_even_util_low": _number("1", "The same at the low end of the rent."),
    "break_even_util_high": _number("1", "The same at the high end of the rent."),
    "break_even_request_rate": _number("1/s", "Requests per second at which both cost the same."),
    "break_even_requests_day": _number("1/day", "Requests a day at which both cost the same."),
    "break_even_tok_day": _number("tokens/day", "Tokens of any kind a day at which both cost the same."),
    "break_even_factor": _number("1", "Cost of a request at the largest load that is planned, over what the API asks."),
    "break_even": _text("From which load on the GPUs pay, or that they never do."),
    # prompt caches
    "cache_bandwidth_gb_s": _number("GB/s", "Bandwidth of the tier to one GPU; null in its own memory."),
    "recompute_ms": _number("ms", "Time to compute the prefix again."),
    "load_us_per_token": _number("us", "Time to load the prefix, per token."),
    "recompute_us_per_token": _number(
        "us", "a: time to compute the prefix, per token, but for its attention to itself."
    ),
    "recompute_ns_per_square": _number("ns", "b: time of the attention of the prefix to itself, per token squared."),
    "break_even_prefix": _number("tokens", "The prefix from which on loading is faster; null where it never is."),
    "break_even_formula": _number("tokens", "The same by (kv / W - a) / b with a and b of this prefix."),
    "is_straight": _flag("Whether a and b hold at half and twice the break-even, too."),
    "faster": _text("Which takes less time: loading or recomputing."),
    "prefixes_held": _number("1", "Prefixes that the cache holds; in hbm those beside the batch."),
    # comparisons
    "reference": _text("Label of the row that this one is compared with."),
    "baseline": _text("Format that the others are compared with.", is_open=False),
    "prefill_speedup": _number("1", "How many times faster the prefill is than that of the reference."),
    "decode_speedup": _number("1", "How many times faster a decode step is."),
    "why_prefill": _text("Which kernels make the prefill faster or slower."),
    "why_decode": _text("Which kernels make a decode step faster or slower."),
    "num_gpus_smallest": _integer("1", "Fewest GPUs of one replica that hold the case."),
    "largest_batch": _number("sequences", "The largest batch, or number of users, that fits."),
    "output_tok_s_largest_batch": _number("1/s", "Output tokens per second at it."),
    "assumed": Key("texts", None, "Kinds of kernel whose constants are assumed, not fitted.", is_open=False),
    # simulations
    "simulated_queue_ms": _number("ms", "Mean wait before anything of a prompt is computed."),
    "simulated_concurrency": _number("requests", "Mean requests in flight in the simulation."),
    "simulated_request_rate": _number("1/s", "Requests per second answered in the simulation."),
    "simulated_requests": _integer("requests", "Requests counted, of one rank."),
    "seed": _integer("1", "Seed of the random numbers."),
    # why
    "result": _text("Latency or throughput that is asked about.", is_open=False),
    "input": _text("Input that moves it.", is_open=False),
    "kind": _text("Kind of the input or of the kernel.", is_open=False),
    "value": Key("value", "as `unit`", "Value of the input, of the result or of the figure."),
    "unit": _text("Unit of the value.", is_open=False),
    "elasticity": _number("1", "% change of the result per 1 % change of the input."),
    "elasticity_below": _number("1", "The same for a smaller input."),
    "elasticity_above": _number("1", "The same for a larger input."),
    "derivative": _number("result per input, SI", "Derivative of the result to the input."),
    "formula": _text("Closed form."),
    "regime": _text("What bounds the case, and until when."),
    "margin": _number("1", "Relative change of the input at which the regime ends."),
    "meaning": _text("What the input is."),
    "unknown": _text("Input that is sought.", is_open=False),
    "present": Key("value", "as `unit`", "Value of the input now."),
    "binding": _text("Target that decides."),
    "method": _text("How the value was found."),
    "limited_by": _text(
        "What ends the value: a target, max_num_seqs, memory, max_model_len, saturation, the search range, beyond "
        "which it lies, or that a target is not known beyond; null where any value will do."
    ),
    "symbols": Key("mapping", None, "Values of the symbols of the formula."),
    "is_implicit": _flag("Whether the result is where the formula is zero.", is_open=False),
    "regime_ends": Key("mapping", None, "Inputs whose change ends the regime, and what then bounds the case."),
    # kernels
    "pass": _text("Prefill or decode.", is_open=False),
    "kernel": _text("Name of the kernel.", is_open=False),
    "part": _text("Part of the model or of the time.", is_open=False),
    "dtype": _text("Dtype at which it multiplies.", is_open=False),
    "count": _number("1", "How often it runs in a pass.", is_open=False),
    "flop": _number("FLOP", "Arithmetic of one run.", is_open=False),
    "nbytes": _number("B", "Memory traffic of one run.", is_open=False),
    "link_bytes": _number("B", "Bytes sent over the link in one run.", is_open=False),
    "time_us": _number("us", "Time of one run.", is_open=False),
    "total_us": _number("us", "Time of all runs.", is_open=False),
    "share": _number("1", "Share of the time, or of the requests; null where limits are on means."),
    "bound": _text("What it waits for."),
    "other_bound": _text("What it waits for in the reference."),
    "cause": _text("Term of its time that moved most."),
    "equation": _text("Its time as an equation with numbers.", is_open=False),
    "reference_us": _number("us", "Time in the reference."),
    "gain_us": _number("us", "Time gained.", is_open=False),
    "contribution": _number("1", "Part of the speed-up that it makes.", is_open=False),
    # measurements
    "source": _text("File, or where a figure comes from."),
    "engine_version": _text("Version of the engine that was measured."),
    "num_prompts": _number("requests", "Requests of the run."),
    "statistic": _text("Of the requests: mean, median or a percentile."),
    "date": _text("Date of the measurement or of the source."),
    "prefill_mfu": _number("1", "Achieved over peak compute in prefill."),
    "decode_mbu": _number("1", "Achieved over peak bandwidth in decode."),
    "prefill_suspect": _text("What would explain the gap of TTFT best."),
    "prefill_suspect_factor": _number("1", "How many times as long it would take."),
    "decode_suspect": _text("What would explain the gap of TPOT best."),
    "decode_suspect_factor": _number("1", "How many times as long it would take."),
    "predicted_ms": _number("ms", "Predicted time of the part.", is_open=False),
    "factor": _number("1", "How many times as long the part would take to explain the gap."),
    "sigma": _number("1", "Standard deviation of ln(predicted / measured) of the part."),
    "sigmas": _number("1", "How many standard deviations away that factor is."),
    "rank": _integer("1", "Place among the suspects, the most plausible first."),
    "explains": Key("texts", None, "Latencies that the suspect explains.", is_open=False),
    "suspects": Key("texts", None, "What would explain the gaps, the most plausible first.", is_open=False),
    "plausible": _flag("Whether that is plausible.", is_open=False),
    # catalog
    "aliases": Key("texts", None, "Further names that look-up takes.", is_open=False),
    "vendor": _text("Who makes the GPU.", is_open=False),
    "generation": _text("Architecture of the GPU.", is_open=False),
    "status": _text("Whether it ships."),
    **{f"{dtype}_tflop_s": _number("TFLOP/s", f"Dense peak in {dtype}.") for dtype in ("bf16", "fp8", "int8", "fp4")},
    "bandwidth_tb_s": _number("TB/s", "HBM bandwidth."),
    "memory_gb": _number("GB", "Usable memory."),
    "link": _text("Scale-up fabric."),
    "link_gb_s": _number("GB/s", "Its bandwidth per direction and GPU."),
    "domain": _integer("1", "GPUs that it joins."),
    "power_w": _number("W", "Board power."),
    "price_date": _text("Date of the price."),
    "family": _text("Line of models."),
    "layers": _integer("1", "Layers of the model."),
    "parameters_b": _number("billions", "Parameters, counted from the layers."),
    "active_b": _number("billions", "Parameters that one token uses."),
    "stated_parameters_b": _number("billions", "Parameters as published."),
    "stated_active_b": _number("billions", "Active parameters as published."),
    "max_context": _integer("tokens", "Longest sequence."),
    "field": _text("Field of the specification.", is_open=False),
    "url": _text("Address of the source."),
    "note": _text("How the figure was worked out."),
    "confidence": _text("How sure the figure is."),
    "si_value": _number("as `si_unit`", "The figure in SI."),
    "si_unit": _text("SI unit of the figure."),
    "workload": _text("Name of the workload.", is_open=False),
    "title": _text("What its requests are."),
    "arrivals": _text("How requests come: rate, users or batch."),
    "slo": _text("Its limits."),
    "dominates": _text(
        "The part of an answer that takes most of its time: TTFT, TPOT (all tokens after the first) or both."
    ),
    "ttft_share": _number("1", "TTFT over E2EL on an idle server."),
    "tightest": _text("Key of the limit that is taken up most."),
    "waits_for": _text("What somebody waits for: first token, whole answer, or nothing."),
    "why": _text("Why."),
    "notes": Key("texts", None, "What a reader should know of the workload."),
    # levers
    "lever": _text("What is changed, in words.", is_open=False),
    "lever_kind": _text("Kind of lever, reference for the case as it is, or together.", is_open=False),
    "levers": Key("texts", None, "Levers that are pulled together; one of a lever alone.", is_open=False),
    "options": Key("mapping", None, "Keyword arguments of predict (or of disaggregate) that make the case."),
    **{
        f"{figure}_change": _number("1", f"Relative change of {words} against the case as it is.")
        for figure, words in (
            ("ttft_p50", "TTFT p50"),
            ("ttft_p99", "TTFT p99"),
            ("tpot", "TPOT"),
            ("goodput", "the goodput"),
            ("cost", "the rent per request, at the goodput where there is an SLO, else at this load"),
        )
    },
    "goodput_usd_per_m_output_tok": _number("USD", "All of the rental per million output tokens at the goodput."),
    "lever_usd_per_request": _number("USD", "Rental per request, at the goodput where there is an SLO."),
    "helps": _flag("Whether the lever moves the goal to the better."),
    "quality": _text("What the lever costs in the quality of answers, with the source."),
    "assumption": _text("What the lever assumes of the case."),
    "goal": _text("What the levers are ranked by: ttft, tpot, goodput or cost.", is_open=False),
    "prefill_pool": _text("Pool that computes prompts: GPU, plan and replicas.", is_open=False),
    "decode_pool": _text("Pool that writes answers.", is_open=False),
    "prefill_gpus": _integer("1", "GPUs of the prefill pool."),
    "decode_gpus": _integer("1", "GPUs of the decode pool."),
    "prefill_util": _number("1", "request_rate over the largest that the prefill pool answers."),
    "decode_util": _number("1", "request_rate over the largest that the decode pool answers."),
    "link_util": _number("1", "request_rate over the largest that the links between the pools carry."),
    "prompt_ms": _number("ms", "Of the TTFT: one's own prompt on an idle rank."),
    "prompt_wait_ms": _number("ms", "Of the TTFT: prompts of others."),
    "transfer_ms": _number("ms", "Of the TTFT: the KV cache on its way, as far as it shows."),
    "transfer_wait_ms": _number("ms", "Of the TTFT: KV caches of others on the same links."),
    "step_wait_ms": _number("ms", "Of the TTFT: the end of the decode step that runs."),
    "slot_wait_ms": _number("ms", "Of the TTFT: a slot of the decode pool."),
    "kv_link": _text("What KV caches move over: nvlink, rdma, pcie or given.", is_open=False),
    "kv_link_gb_s": _number("GB/s", "Its bandwidth per GPU and direction; null where it is infinite."),
    "layerwise": _flag("Whether layers are sent while later ones are computed.", is_open=False),
    "decode_batch": _number("sequences", "Sequences of a decode replica that decode together when a request does."),
    "exact_ratio": _number("1", "Prefill replicas per decode replica at which neither pool waits for the other."),
    "best_prefill_replicas": _integer("1", "Prefill replicas of the best whole numbers on as many GPUs."),
    "best_decode_replicas": _integer("1", "Decode replicas of the best whole numbers on as many GPUs."),
    "best_rate_per_gpu": _number("1/s", "Requests per second and GPU that these answer at most."),
    "prefill_basis": _text("What the figures of the prefill pool stand on."),
    "decode_basis": _text("What the figures of the decode pool stand on."),
}
