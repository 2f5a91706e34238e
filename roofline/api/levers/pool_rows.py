"""The answer for two pools as a flat row."""

from __future__ import annotations

from typing import TYPE_CHECKING

from roofline.number_types import Json
from roofline.quantity import GIGA, MILLI
from roofline.specs.slo import LATENCIES, LEVELS, key_of, limits_text

if TYPE_CHECKING:
    from roofline.api.levers.pool_answer import Disaggregation


_PERCENTILES = tuple(key_of(name, level) for name in LATENCIES for level in LEVELS)

#: Keys of the row of two pools.
POOL_KEYS = (
    "model", "model_id", "prefill_pool", "decode_pool", "num_gpus", "prefill_gpus", "decode_gpus", "isl", "osl",
    "prefix", "isl_cv", "osl_cv", "load", "concurrency", "request_rate", "max_request_rate", "util", "prefill_util",
    "decode_util", "link_util", "ttft_ms", "tpot_ms", "e2el_ms", *(f"{key}_ms" for key in _PERCENTILES), "queue_ms",
    "prompt_ms", "prompt_wait_ms", "transfer_ms", "transfer_wait_ms", "step_wait_ms", "slot_wait_ms", "kv_link",
    "kv_link_gb_s", "layerwise", "decode_batch", "output_tok_s", "output_tok_s_gpu", "usd_per_hour",
    "usd_per_m_output_tok", "exact_ratio", "best_prefill_replicas", "best_decode_replicas", "best_rate_per_gpu", "slo",
    "slo_met", "slo_binding", "slo_verdict", "slo_reason", "prefill_basis", "decode_basis", "warnings",
)  # fmt: skip


def pool_row(answer: Disaggregation) -> dict[str, Json]:
    """Values by `POOL_KEYS`; what does not apply is None."""
    load, workload, pools, texts = answer.found, answer.workload, answer.pools, answer.texts
    judged = answer.slo_verdict
    utils, ratio, lengths = answer.utils, answer.best_ratio(), workload.lengths
    bandwidth = float(pools.link.bandwidth)
    row: dict[str, Json] = {
        "model": answer.model.short_name,
        "model_id": answer.model.name,
        "prefill_pool": texts["prefill"],
        "decode_pool": texts["decode"],
        "num_gpus": answer.num_gpus,
        "prefill_gpus": pools.prefill.num_gpus,
        "decode_gpus": pools.decode.num_gpus,
        "isl": float(workload.isl),
        "osl": float(workload.osl),
        "prefix": float(workload.prefix),
        "isl_cv": None if lengths is None else lengths.prompts.cv,
        "osl_cv": None if lengths is None else lengths.answers.cv,
        "load": answer.load,
        "concurrency": answer.concurrency,
        "request_rate": answer.request_rate,
        "max_request_rate": answer.max_request_rate,
        "util": answer.util,
        **{f"{name}_util": share for name, share in utils.items()},
        **{f"{key}_ms": _ms(answer.latency(key)) for key in (*LATENCIES, *_PERCENTILES)},
        "queue_ms": _ms(answer.queue),
        "prompt_ms": _ms(float(load.prompt)),
        "prompt_wait_ms": _ms(float(load.prompt_wait)),
        "transfer_ms": _ms(answer.transfer),
        "transfer_wait_ms": _ms(float(load.transfer_wait)),
        "step_wait_ms": _ms(float(load.step_wait)),
        "slot_wait_ms": _ms(float(load.slot_wait)),
        "kv_link": pools.link.kind,
        "kv_link_gb_s": None if bandwidth == float("inf") else bandwidth / GIGA,
        "layerwise": pools.link.is_layerwise,
        "decode_batch": float(load.batch),
        "output_tok_s": answer.output_tok_s,
        "output_tok_s_gpu": answer.output_tok_s_gpu,
        "usd_per_hour": answer.usd_per_hour,
        "usd_per_m_output_tok": answer.usd_per_m_output_tok,
        "exact_ratio": None if ratio is None else ratio.exact,
        "best_prefill_replicas": None if ratio is None else ratio.prefill,
        "best_decode_replicas": None if ratio is None else ratio.decode,
        "best_rate_per_gpu": None if ratio is None else ratio.rate_per_gpu,
        "slo": limits_text(answer.slo) if answer.slo else None,
        "slo_met": answer.slo_met,
        "slo_binding": None if judged is None else judged.binding,
        "slo_verdict": answer.verdict,
        "slo_reason": None if judged is None else judged.reason,
        "prefill_basis": pools.prefill.basis,
        "decode_basis": pools.decode.basis,
        "warnings": list(answer.warnings),
    }
    return row


def _ms(time: float | None) -> float | None:
    return None if time is None else time / MILLI
