"""A cached prefix, loaded or computed again: both times, and the length at which they are equal."""

from __future__ import annotations

from roofline.errors import BadInput
from roofline.physics.plan import Deployment
from roofline.quantity import MEGA
from roofline.records import NamedTuple
from roofline.roots import narrowed
from roofline.serving.latency import chunks, prompt_chunk
from roofline.serving.prompt_cache import prefix_bytes, tier_bandwidth
from roofline.specs.prompt_cache import PromptCache

__all__ = ["EvenPrefix", "Recompute", "even_prefix", "recompute"]

_LONGEST = MEGA  # tokens of a prefix, where the model states no context
_STRAIGHT = 0.1  # of the time to compute, that constant a and b may be off at half and twice the length


class Recompute(NamedTuple):
    """Time that a cached prefix saves, as a parabola through it."""

    time: float  # [s]
    per_token: float  # [s] a, of everything that grows with the tokens
    per_square: float  # [s] b, arithmetic of the causal attention of the prefix on itself, per token squared

    def at(self, prefix: float) -> float:
        """Time of another prefix, with the same a and b [s]."""
        return self.per_token * prefix + self.per_square * prefix * prefix


class EvenPrefix(NamedTuple):
    """The prefix whose load takes as long as to compute it again."""

    prefix: float  # [tokens]; shorter ones are computed sooner, longer ones loaded
    load_per_token: float  # [s] kv / W there
    recompute: Recompute  # there
    is_straight: bool  # whether the same a and b hold at half and twice the length, as the closed form has it


def recompute(deployment: Deployment, rest: float, prefix: float) -> Recompute:
    r"""Time to compute a prefix again, before the rest of its prompt, on an idle server.

    .. math:: R(p) = T(p + m\ \text{after}\ 0) - T(m\ \text{after}\ p) = a\, p + b\, p^2

    The rest attends to the prefix either way, so that of the attention only that of the prefix on itself remains: b
    does not depend on m. What is not arithmetic of attention grows with the tokens, and is a.

    Args:
        deployment: model, GPU, plan, precision and engine.
        rest: prompt tokens after the prefix, m [tokens].
        prefix: p [tokens].

    Returns:
        R, a and b at this prefix.

    Valid:
        a and b are constant where the prompt is long enough to be bound by arithmetic. Where it is so short that its
        kernels read the weights all the same, a is smaller.

    Source:
        The prefill pass of docs/method.md, with and without the prefix.
    """
    whole, alone = (_parts(deployment, prefix + rest, new) for new in (prefix + rest, rest))
    time, attention = (more - less for more, less in zip(whole, alone, strict=True))
    return Recompute(time, (time - attention) / prefix, attention / (prefix * prefix))


def even_prefix(deployment: Deployment, rest: float, cache: PromptCache) -> EvenPrefix | None:
    r"""The prefix at which a load takes as long as to compute the prefix again.

    .. math:: \frac{kv}{W} = a + b\, p,\quad p = \frac{kv / W - a}{b}

    Args:
        deployment: model, GPU, plan, precision and engine.
        rest: prompt tokens after the prefix [tokens].
        cache: tier and bandwidth.

    Returns:
        The prefix, with a, b and the KV cache per token as they are there; None where computing is sooner at any length
        that the model takes.

    Raises:
        BadInput: a tier whose bandwidth is not known; the memory of the GPU, from which nothing is loaded.

    Valid:
        The closed form has constant a and b: `is_straight` says whether they are.

    Source:
        `recompute` and `roofline.serving.prompt_cache.load_time`.
    """
    rate = tier_bandwidth(deployment, cache)
    if rate is None:
        raise BadInput("nothing is loaded from the memory of the GPU; a break-even needs another cache_tier")
    speed = float(rate)

    def surplus(prefix: float) -> float:
        """What a load takes beyond computing, per token."""
        return (
            float(prefix_bytes(deployment, prefix)) / speed / prefix - recompute(deployment, rest, prefix).time / prefix
        )

    most = max((deployment.model.max_context or _LONGEST) - rest, 1.0)
    low = high = 1.0
    above = at = surplus(low)
    while at > 0.0 and high < most:
        low, above = high, at
        high = min(2.0 * high, most)
        at = surplus(high)
    if at > 0.0:
        return None
    prefix = low if above <= 0.0 else narrowed(surplus, (high, at), (low, above))
    there = recompute(deployment, rest, prefix)
    beside = ((length, recompute(deployment, rest, length).time) for length in (0.5 * prefix, 2.0 * prefix))
    is_straight = all(abs(there.at(length) - time) <= _STRAIGHT * time for length, time in beside)
    return EvenPrefix(prefix, float(prefix_bytes(deployment, prefix)) / speed / prefix, there, is_straight)


def _parts(deployment: Deployment, isl: float, new: float) -> tuple[float, float]:
    """Time of the prefill of one prompt, and what of it is arithmetic of attention [s]."""
    count = chunks(new, deployment.host.max_num_batched_tokens)
    kernels = prompt_chunk(deployment, 1.0, isl, new).kernels
    attention = sum(
        kernel.count * (kernel.terms.compute + kernel.terms.exponentials)
        for kernel in kernels
        if kernel.kind.is_per_sequence
    )
    return float(count * sum(kernel.time for kernel in kernels)), float(count * attention)
