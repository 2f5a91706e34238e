"""A cache of prompts that begin alike: which requests find their prefix in it, and where it lies."""

from __future__ import annotations

from roofline.ops import Real, comparable
from roofline.records import dataclass

__all__ = ["HBM", "HOST_MEMORY", "NETWORK_CACHE", "NVME", "TIERS", "PromptCache"]

#: Where cached prefixes lie: memory of the GPU, of its host, its disks, or of another node.
TIERS = HBM, HOST_MEMORY, NVME, NETWORK_CACHE = "hbm", "host", "nvme", "network"


@comparable
@dataclass(frozen=True, slots=True, eq=False)
class PromptCache:
    """What is known of a cache of prefixes, all of one length."""

    hit: Real | None = None  # share of the requests whose prefix is there [1]; None: of the working set, or all
    tier: str = HBM
    bandwidth: Real | None = None  # [B/s] to one GPU; None for that of the GPU's link to the tier
    size: float | None = None  # [B] of one replica
    working_set: float | None = None  # [B] of all prefixes that are asked for
    zipf: float | None = None  # exponent of their popularity; None where all are asked for alike
