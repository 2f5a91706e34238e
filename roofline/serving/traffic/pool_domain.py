"""The validated range of the equations of two pools."""

from __future__ import annotations

from collections.abc import Iterator

from roofline.ops import Real
from roofline.quantity import MILLI
from roofline.serving.disaggregation import Pools
from roofline.serving.latency import Workload, steps_of_answer
from roofline.serving.traffic.pools import Pooled

#: Bounds of the validated range (docs/method.md, "Separate pools").
_MOST_PREFILL, _MOST_DECODE, _MOST_LINK, _MOST_WAITING, _MOST_CV = 0.8, 0.8, 0.5, MILLI, 0.3
_FEWEST_STEPS = 10.0  # prompts of one pass begin to decode together, so that short answers meet each other
_MOST_OF_BUDGET = 0.5  # prompt tokens over the token budget: beyond it, passes hold parts of prompts


def outside_pools(pools: Pools, workload: Workload, means: Pooled) -> Iterator[tuple[Real, str]]:
    """Conditions of the validated range: whether a case fails each, and the words for it."""
    lengths = workload.lengths
    rate, budget = means.request_rate, pools.prefill.effective_engine.max_num_batched_tokens or float("inf")
    yield rate > _MOST_PREFILL * means.max_prefill_rate, f"prefill pool above {_MOST_PREFILL:.0%} of what it takes"
    yield rate > _MOST_DECODE * means.max_decode_rate, f"decode pool above {_MOST_DECODE:.0%}"
    yield rate > _MOST_LINK * means.max_link_rate, f"link above {_MOST_LINK:.0%}"
    yield workload.isl - workload.prefix > _MOST_OF_BUDGET * budget, "prompts above half of the token budget"
    yield means.waiting_share > _MOST_WAITING, "requests wait for slots"
    yield lengths is not None and lengths.prompts.cv > _MOST_CV, f"prompt length cv above {_MOST_CV:g}"
    yield (
        steps_of_answer(pools.decode, workload.osl) < _FEWEST_STEPS,
        f"answers of fewer than {_FEWEST_STEPS:g} decode steps",
    )
    yield workload.num_prompts is not None, "a run that includes its start"
    yield pools.prefill.plan.pp * pools.decode.plan.pp > 1, "pipeline parallelism"


def pools_outside(pools: Pools, workload: Workload, means: Pooled) -> str:
    """A sentence on whether one case is inside the validated range."""
    fails = [reason for is_outside, reason in outside_pools(pools, workload, means) if is_outside]
    if not fails:
        return "under load: inside the validated range of separate pools"
    return (
        f"under load: outside the validated range of separate pools ({', '.join(fails)}): the closed form may be far "
        "off there, and percentiles that contradict their mean are left out; compare with simulate"
    )
