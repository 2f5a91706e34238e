"""What the questions of this ring take from a measurement; the record itself lives with the readers of files."""

from __future__ import annotations

from typing import Protocol

__all__ = ["Measured"]


class Measured(Protocol):
    """What a comparison takes from a measurement; None where it is not stated."""

    @property
    def source(self) -> str:
        """Where it was read."""

    @property
    def model(self) -> str | None:
        """Name of the model."""

    @property
    def gpu(self) -> str | None:
        """Name of the GPU."""

    @property
    def tp(self) -> int | None:
        """Tensor-parallel degree."""

    @property
    def pp(self) -> int | None:
        """Pipeline-parallel degree; one where not stated."""

    @property
    def ep(self) -> int | None:
        """Expert-parallel degree; one where not stated."""

    @property
    def dp(self) -> int | None:
        """Data-parallel degree; one where not stated."""

    @property
    def quantization(self) -> str | None:
        """Preset of formats; the checkpoint's own where not stated."""

    @property
    def kv_cache_dtype(self) -> str | None:
        """Format of the KV cache."""

    @property
    def isl(self) -> float | None:
        """Mean prompt [tokens]."""

    @property
    def osl(self) -> float | None:
        """Mean answer [tokens]; one where not stated."""

    @property
    def prefix(self) -> float | None:
        """Cached prompt tokens; none where not stated."""

    @property
    def batch(self) -> float | None:
        """Sequences started together."""

    @property
    def concurrency(self) -> float | None:
        """Requests in flight on the deployment."""

    @property
    def burst(self) -> float | None:
        """Share of the requests that were sent at once at the start; none where not stated."""

    @property
    def request_rate(self) -> float | None:
        """Requests per second [1/s]."""

    @property
    def ttft(self) -> float | None:
        """Time to first token [s]."""

    @property
    def tpot(self) -> float | None:
        """Time per output token after the first [s]."""

    @property
    def e2el(self) -> float | None:
        """End-to-end latency [s]."""
