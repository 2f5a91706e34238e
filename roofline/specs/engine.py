"""What a serving engine adds to the kernels."""

from __future__ import annotations

from roofline.ops import Real
from roofline.records import dataclass
from roofline.specs.figures import Seconds, Share

__all__ = ["Engine", "KernelOverride"]


@dataclass(frozen=True, slots=True)
class KernelOverride:
    """How the kernels of an engine differ from those that the calibrations were measured on."""

    kind: str  # of kernel
    dtype: str | None = None  # key of its calibration; None: all of them
    generation: str | None = None  # of the GPU; None: all of them
    peak: str | None = None  # dtype of the units that multiply, where they are not the tensor cores
    eta_c: Share | None = None  # share of that peak, instead of the calibration's
    compute: Real = 1.0  # factor on the shares of peak and special-function rate
    memory: Real = 1.0  # factor on the share of the HBM bandwidth


@dataclass(frozen=True, slots=True)
class Engine:
    """What a serving engine adds to the kernels: time of the host, chunks of prompts, kernels of its own."""

    name: str
    request: Seconds = 0.0  # per request to an idle server, before its prompt is computed
    network: Seconds = 0.0  # round trip between client and server
    prefill: Seconds = 0.0  # per prefill pass
    stretch: Real = 1.0  # of a prompt's steps while others decode
    step: Seconds = 0.0  # per decode step
    layer: Seconds = 0.0  # per layer of a decode step, where no CUDA graph replays it
    sequence: Seconds = 0.0  # per sequence of a decode step
    all_reduce: Seconds = 0.0  # more per all-reduce than its calibration has
    arrival: Seconds = 0.0  # more per request that comes while others are decoded
    launch: Seconds = 0.0  # of the host per kernel of a pass over prompts alone, which no CUDA graph replays
    launch_decode: Seconds = 0.0  # likewise per kernel of a decode step, where no CUDA graph replays it either
    scheduler: str = "decode first"  # what a step computes where some decode and prompts wait; or "prompts first"
    max_num_batched_tokens: int | None = None  # [tokens] that one step computes at most; None: no limit
    max_num_seqs: int | None = None  # [sequences] that a data-parallel rank runs at most; None: no limit but memory
    gpu_memory_utilization: Share = 0.92  # of the usable memory, for weights, activations and KV cache
    max_model_len: int | None = None  # [tokens] of the longest request that is served; None: the model's own
    reserve: Share = 1.0  # share of the answer for which a request must find memory before it starts
    tunings: tuple[KernelOverride, ...] = ()
    sigma_ttft: float | None = None  # of ln(predicted / measured) of whole passes, kernels apart
    sigma_tpot: float | None = None
    sigma_loaded_ttft: float | None = None  # likewise of first tokens under a load
    versions: str = ""  # of the engine that the constants were fitted on
    year: str = ""
