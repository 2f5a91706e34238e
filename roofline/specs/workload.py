"""A named workload: how long its requests are, how they come, and what they are promised."""

from __future__ import annotations

from roofline.records import dataclass
from roofline.specs.figures import Share

__all__ = ["ARRIVALS", "LAWS", "UNIFORM_CV", "NamedWorkload"]

#: Laws that lengths of prompts and answers follow.
LAWS = ("lognormal", "uniform")
#: How requests come: at a rate, from users of whom each waits for an answer, or all at once.
ARRIVALS = ("rate", "users", "batch")
#: Most that a uniform law varies, from zero to twice its mean: 1 / sqrt(3), rounded down [1].
UNIFORM_CV = 0.577


@dataclass(frozen=True, slots=True, repr=False)
class NamedWorkload:
    """Requests of one sort, and the SLO that goes with them.

    >>> import roofline as rl
    >>> rl.load_workload("chat")
    <NamedWorkload chat: isl 1155, osl 211; SLO ttft:300ms,tpot:25ms,p99:2x>
    """

    name: str
    isl: int  # [tokens] of a prompt, mean
    osl: int  # [tokens] of an answer, mean
    aliases: tuple[str, ...] = ()
    title: str = ""
    isl_cv: float = 0.0  # standard deviation of the prompts' lengths over their mean [1]
    osl_cv: float = 0.0  # of the answers' lengths [1]
    lengths: str = "lognormal"  # law of the lengths; or "uniform"
    prefix: int = 0  # [tokens] of a prompt whose KV cache is there already, mean
    slo: str = ""  # limits as roofline.specs.slo reads them; empty: none
    share: Share = 0.9  # of the requests that must meet every limit that names no percentile
    arrivals: str = "rate"  # or "users", "batch"
    notes: tuple[str, ...] = ()
    source: str = ""  # title of the first source
    url: str = ""  # its address
    date: str = ""  # its date, or the day on which it was read

    def __repr__(self) -> str:
        """Lengths and limits in one line."""
        prefix = f", prefix {self.prefix}" if self.prefix else ""
        slo = f"; SLO {self.slo}" if self.slo else ""
        return f"<NamedWorkload {self.name}: isl {self.isl}, osl {self.osl}{prefix}{slo}>"
