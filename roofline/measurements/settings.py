"""Settings of a server that a result states beside its figures, and the part of its time that each decides.

Results carry them as metadata (``vllm bench serve --metadata enforce_eager=true``) or in ``server_info`` (SGLang).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from roofline.support.records import NamedTuple

#: Settings of a result: names and values as text.
Settings = tuple[tuple[str, str], ...]

_MORE = "more"  # the larger number is the faster one
_LONGEST = 60  # characters of a value
_PREFIXES = ("vllm_", "sglang_", "trtllm_")  # of environment variables

#: Setting -> part, and the value at which the server is faster; None: it depends.
SETTINGS: Mapping[str, tuple[str, str | None]] = {
    "enforce_eager": ("host", "false"),
    "disable_cuda_graph": ("host", "false"),
    "use_cuda_graph": ("host", "true"),
    "cudagraph_mode": ("host", None),
    "torch_compile": ("host", "true"),
    "enable_torch_compile": ("host", "true"),
    "async_scheduling": ("host", "true"),
    "disable_overlap_schedule": ("host", "false"),
    "disable_overlap_scheduler": ("host", "false"),
    "num_scheduler_steps": ("host", _MORE),
    "api_server_count": ("host", _MORE),
    "max_num_seqs": ("batch limit", _MORE),
    "max_running_requests": ("batch limit", _MORE),
    "max_batch_size": ("batch limit", _MORE),
    "enable_prefix_caching": ("cache", "true"),
    "disable_radix_cache": ("cache", "false"),
    "enable_block_reuse": ("cache", "true"),
    "attention_backend": ("kernels", None),
    "prefill_attention_backend": ("kernels", None),
    "decode_attention_backend": ("kernels", None),
    "moe_backend": ("kernels", None),
    "moe_runner_backend": ("kernels", None),
    "moe_a2a_backend": ("kernels", None),
    "all2all_backend": ("kernels", None),
    "fp8_gemm_backend": ("kernels", None),
    "use_deep_gemm": ("kernels", None),
    "disable_custom_all_reduce": ("kernels", "false"),
    "multiple_profiles": ("kernels", "true"),
    "use_paged_context_fmha": ("kernels", None),
    "gemm_plugin": ("kernels", None),
    "gemm_swiglu_plugin": ("kernels", None),
    "low_latency_gemm_plugin": ("kernels", None),
    "reduce_fusion": ("kernels", "true"),
    "user_buffer": ("kernels", "true"),
}


class Stated(NamedTuple):
    """A difference between two results that they state, and the part that it can have changed."""

    part: str
    text: str
    sign: int  # of the change of the latencies that is expected; 0 where it is not known


def settings_of(*mappings: Mapping[str, Any]) -> Settings:
    """Known settings in mappings of a result; the first that states one decides.

    >>> settings_of({"enforce_eager": True, "note": "x"}, {"enforce_eager": False, "VLLM_USE_DEEP_GEMM": 0})
    (('enforce_eager', 'true'), ('use_deep_gemm', '0'))
    """
    known: dict[str, str] = {}
    for mapping in mappings:
        for key, value in mapping.items():
            name = _name(str(key))
            if name in SETTINGS and isinstance(value, (bool, int, float, str)):
                known.setdefault(name, str(value).strip().lower()[:_LONGEST])
    return tuple(known.items())


def differences(before: Iterable[Settings], after: Iterable[Settings]) -> tuple[Stated, ...]:
    """Settings that all runs of each side state, with one value before and another after.

    >>> differences([(("max_num_seqs", "2"),)], [(("max_num_seqs", "64"),)])
    (Stated(part='batch limit', text='max num seqs 2, then 64', sign=-1),)
    """
    first, last = _common(before), _common(after)
    found = []
    for name, value in first.items():
        other = last.get(name, value)
        if other != value:
            part, faster = SETTINGS[name]
            found.append(Stated(part, f"{name.replace('_', ' ')} {value}, then {other}", _sign(value, other, faster)))
    return tuple(found)


def _common(side: Iterable[Settings]) -> dict[str, str]:
    runs = [dict(settings) for settings in side]
    if not runs:
        return {}
    return {name: value for name, value in runs[0].items() if all(run.get(name) == value for run in runs[1:])}


def _sign(before: str, after: str, faster: str | None) -> int:
    if faster is None:
        return 0
    if faster == _MORE:
        try:
            return -1 if float(after) > float(before) else 1
        except ValueError:
            return 0
    ends = {"1": "true", "0": "false"}
    return -1 if ends.get(after, after) == faster else 1


def _name(key: str) -> str:
    name = key.strip().lower().lstrip("-").replace("-", "_")
    return next((name[len(prefix) :] for prefix in _PREFIXES if name.startswith(prefix)), name)
