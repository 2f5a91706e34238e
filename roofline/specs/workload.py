"""A named workload: lengths and arrivals of its requests, and their SLO."""

from __future__ import annotations

from roofline.records import dataclass
from roofline.specs.figures import Share

#: Laws of prompt and answer lengths.
LAWS = ("lognormal", "uniform")
#: How requests arrive: open loop, closed loop, or all at once.
ARRIVALS = ("rate", "users", "batch")
#: Largest coefficient of variation of a uniform law, from 0 to twice the mean: 1 / sqrt(3), rounded down [1].
UNIFORM_CV = 0.577


@dataclass(frozen=True, slots=True, repr=False)
class NamedWorkload:
    """One kind of request, and the SLO that goes with it.

    >>> import roofline as rl
    >>> rl.load_workload("chat")
    <NamedWorkload chat: isl 1155, osl 211; SLO ttft:300ms,tpot:25ms,p99:2x>
    """

    name: str
    isl: int  # [tokens] of a prompt, mean
    osl: int  # [tokens] of an answer, mean
    aliases: tuple[str, ...] = ()
    title: str = ""
    isl_cv: float = 0.0  # of prompt lengths: standard deviation over mean [1]
    osl_cv: float = 0.0  # of answer lengths [1]
    lengths: str = "lognormal"  # law of the lengths, or "uniform"
    prefix: int = 0  # [tokens] of a prompt that are already in the KV cache, mean
    slo: str = ""  # as roofline.specs.slo reads it; empty: none
    share: Share | None = None  # of requests that must meet all limits without a percentile together; None: on means
    arrivals: str = "rate"  # or "users", "batch"
    notes: tuple[str, ...] = ()
    source: str = ""  # title of the first source
    url: str = ""  # its address
    date: str = ""  # its date, or the day it was read

    def __repr__(self) -> str:
        prefix = f", prefix {self.prefix}" if self.prefix else ""
        slo = f"; SLO {self.slo}" if self.slo else ""
        return f"<NamedWorkload {self.name}: isl {self.isl}, osl {self.osl}{prefix}{slo}>"
