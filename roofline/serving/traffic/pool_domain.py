"""Where the equations of two pools were checked against a simulation of every step."""

from __future__ import annotations

from roofline.quantity import MILLI
from roofline.serving.disaggregation import Pools
from roofline.serving.latency import Workload
from roofline.serving.traffic.pools import Pooled

__all__ = ["pools_outside"]

#: Within them the equations were checked against a simulation of every step (docs/method.md, "Separate pools").
_MOST_PREFILL, _MOST_DECODE, _MOST_LINK, _MOST_WAITING, _MOST_CV = 0.8, 0.8, 0.5, MILLI, 0.3
_MOST_OF_BUDGET = 0.5  # tokens of a prompt over those of a pass: beyond it, passes hold parts of prompts


def pools_outside(pools: Pools, workload: Workload, found: Pooled) -> str:
    """Whether a case lies inside the range in which the equations were checked against a simulation.

    Args:
        pools: both deployments and the link.
        workload: lengths and load, of one case.
        found: its means.

    Returns:
        A sentence [text].
    """
    lengths = workload.lengths
    rate, budget = found.request_rate, pools.prefill.host.max_num_batched_tokens or float("inf")
    fails = [
        said
        for is_outside, said in (
            (rate > _MOST_PREFILL * found.max_prefill_rate, f"prefill pool above {_MOST_PREFILL:.0%} of what it takes"),
            (rate > _MOST_DECODE * found.max_decode_rate, f"decode pool above {_MOST_DECODE:.0%}"),
            (rate > _MOST_LINK * found.max_link_rate, f"link above {_MOST_LINK:.0%}"),
            (
                workload.isl - workload.prefix > _MOST_OF_BUDGET * budget,
                "prompts above half of the token budget",
            ),
            (found.waiting_share > _MOST_WAITING, "requests wait for slots"),
            (lengths is not None and lengths.prompts.cv > _MOST_CV, f"prompt length cv above {_MOST_CV:g}"),
            (workload.num_prompts is not None, "a run that includes its start"),
            (pools.prefill.plan.pp * pools.decode.plan.pp > 1, "pipeline parallelism"),
        )
        if is_outside
    ]
    if not fails:
        return "under load: inside the validated range of separate pools"
    return f"under load: outside the validated range of separate pools ({', '.join(fails)}); see simulate"
