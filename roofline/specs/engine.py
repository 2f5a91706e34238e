"""Serving engine profiles."""

from __future__ import annotations

from typing import Any

from roofline.ops import Real
from roofline.records import dataclass, replace
from roofline.specs.figures import Bytes, Seconds, Share
from roofline.specs.gpu import Gpu

#: Settings whose default may depend on the GPU.
BY_GPU = ("max_num_batched_tokens", "max_num_seqs", "gpu_memory_utilization")


@dataclass(frozen=True, slots=True)
class KernelOverride:
    """How an engine's kernels differ from the calibrated ones."""

    kind: str  # of kernel
    dtype: str | None = None  # key of its calibration; None: all of them
    generation: str | None = None  # of the GPU; None: all of them
    peak: str | None = None  # dtype of the units that multiply, if not the tensor cores
    eta_c: Share | None = None  # share of that peak; None: the calibration's
    compute: Real = 1.0  # factor on eta_c and eta_x
    memory: Real = 1.0  # factor on eta_m


@dataclass(frozen=True, slots=True)
class GpuDefault:
    """Default of a setting on some GPUs."""

    value: int | float
    memory: Bytes = 0.0  # of a GPU, from which on it holds
    other_than: tuple[str, ...] = ()  # parts of the names of GPUs that it does not hold for

    def holds_for(self, gpu: Gpu) -> bool:
        return gpu.memory >= self.memory and not any(part in gpu.name for part in self.other_than)


@dataclass(frozen=True, slots=True)
class Engine:
    """What a serving engine adds to the kernels: host time, batching limits, kernel overrides."""

    name: str
    request: Seconds = 0.0  # per request, before its prompt is computed on an idle server
    network: Seconds = 0.0  # round trip between client and server
    prefill: Seconds = 0.0  # per prefill pass
    prefill_slowdown: Real = 1.0  # factor on a prompt's steps while others decode
    step: Seconds = 0.0  # per decode step
    layer: Seconds = 0.0  # per layer of a decode step, without CUDA graphs
    sequence: Seconds = 0.0  # per sequence of a decode step
    all_reduce: Seconds = 0.0  # per all-reduce, on top of its calibration
    arrival: Seconds = 0.0  # extra per request that arrives while others decode
    launch: Seconds = 0.0  # per kernel of a prefill-only pass, without CUDA graphs
    launch_decode: Seconds = 0.0  # per kernel of a decode step, without CUDA graphs
    scheduler: str = "decode first"  # or "prompts first": what a mixed step computes first
    max_num_batched_tokens: int | None = None  # [tokens] per step at most; None: no limit
    max_num_seqs: int | None = None  # [sequences] per data-parallel rank at most; None: by memory
    gpu_memory_utilization: Share = 0.92  # share of the usable memory for weights, activations and KV cache
    max_model_len: int | None = None  # [tokens] of the longest request; None: the model's limit
    reserve: Share = 1.0  # share of the answer that must have memory before a request starts
    tunings: tuple[KernelOverride, ...] = ()
    sigma_ttft: float | None = None  # of ln(predicted / measured) of whole passes, beyond the kernels' own
    sigma_tpot: float | None = None
    sigma_loaded_ttft: float | None = None  # likewise of TTFT under a load
    versions: str = ""  # on which the constants were fitted
    year: str = ""
    stated: tuple[str, ...] = ()  # settings that a question states in place of the profile's
    by_gpu: tuple[tuple[str, tuple[GpuDefault, ...]], ...] = ()  # setting -> its defaults, the first that holds counts

    def on(self, gpu: Gpu) -> Engine:
        """The engine as it starts on a GPU: the defaults that depend on the GPU are plain numbers."""
        if not self.by_gpu:
            return self
        settled: dict[str, Any] = {
            name: next(each.value for each in defaults if each.holds_for(gpu)) for name, defaults in self.by_gpu
        }
        return replace(self, by_gpu=(), **settled)
