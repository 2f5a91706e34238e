"""A prefix cache: its hit rate, and where it is stored."""

from __future__ import annotations

from roofline.ops import Real, comparable
from roofline.records import dataclass

#: Where cached prefixes are stored: GPU memory, host memory, local disks, another node.
TIERS = HBM, HOST_MEMORY, NVME, NETWORK_CACHE = "hbm", "host", "nvme", "network"


@comparable
@dataclass(frozen=True, slots=True, eq=False)
class PromptCache:
    """A cache of prefixes, all of one length."""

    hit: Real | None = None  # share of requests that hit [1]; None: by the working set, else all
    tier: str = HBM
    bandwidth: Real | None = None  # [B/s] to one GPU; None: of its link to the tier
    size: float | None = None  # [B] per replica
    working_set: float | None = None  # [B] of all prefixes in demand
    zipf: float | None = None  # exponent of their popularity; None: uniform
