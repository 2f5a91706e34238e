"""A named workload: lengths and arrivals of its requests, and their SLO."""

from __future__ import annotations

from roofline.records import dataclass
from roofline.specs.figures import Share

#: Laws of prompt and answer lengths.
LAWS = ("lognormal", "uniform")
#: How requests arrive: open loop, closed loop, or all at once.
ARRIVALS = ("rate", "users", "batch")
#: What somebody waits for: the first token of an answer that is read as it comes, the whole answer, or nothing.
AWAITED = FIRST_TOKEN, WHOLE_ANSWER, NOTHING = "first token", "whole answer", "nothing"
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
    waits_for: str = ""  # of `AWAITED`; empty: as the SLO says
    notes: tuple[str, ...] = ()
    source: str = ""  # title of the first source
    url: str = ""  # its address
    date: str = ""  # its date, or the day it was read

    @property
    def awaited(self) -> str:
        """What somebody waits for; where it is not stated, what the SLO limits: nothing without one."""
        if self.waits_for:
            return self.waits_for
        if not self.slo:
            return NOTHING
        return FIRST_TOKEN if "ttft" in self.slo.lower() else WHOLE_ANSWER

    def __repr__(self) -> str:
        prefix = f", prefix {self.prefix}" if self.prefix else ""
        slo = f"; SLO {self.slo}" if self.slo else ""
        return f"<NamedWorkload {self.name}: isl {self.isl}, osl {self.osl}{prefix}{slo}>"
