"""What a serving engine adds to the kernels."""

from __future__ import annotations

from dataclasses import dataclass

from roofline.ops import Real

__all__ = ["Engine", "Tuning"]


@dataclass(frozen=True, slots=True)
class Tuning:
    """How the kernels of an engine differ from those that the calibrations were measured on."""

    kind: str  # of kernel
    dtype: str | None = None  # key of its calibration; None: all of them
    generation: str | None = None  # of the GPU; None: all of them
    peak: str | None = None  # dtype of the units that multiply, where they are not the tensor cores
    eta_c: Real | None = None  # share of that peak, instead of the calibration's
    compute: Real = 1.0  # factor on the shares of peak and special-function rate
    memory: Real = 1.0  # factor on the share of the HBM bandwidth


@dataclass(frozen=True, slots=True)
class Engine:
    """What a serving engine adds to the kernels: time of the host, chunks of prompts, kernels of its own."""

    name: str
    request: Real = 0.0  # [s] per request, before its prompt is computed
    network: Real = 0.0  # [s] round trip between client and server
    prefill: Real = 0.0  # [s] per prefill pass
    stretch: Real = 1.0  # of a prompt's steps while others decode
    step: Real = 0.0  # [s] per decode step
    layer: Real = 0.0  # [s] per layer of a decode step, where no CUDA graph replays it
    sequence: Real = 0.0  # [s] per sequence of a decode step
    all_reduce: Real = 0.0  # [s] more per all-reduce than its calibration has
    chunk: int | None = None  # [tokens] of prompts that one step computes at most; None: whole prompts
    reserve: Real = 1.0  # share of the answer for which a request must find memory before it starts
    tunings: tuple[Tuning, ...] = ()
    sigma_ttft: float | None = None  # of ln(predicted / measured) of whole passes, kernels apart
    sigma_tpot: float | None = None
    versions: str = ""  # of the engine that the constants were fitted on
    year: str = ""
