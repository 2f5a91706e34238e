"""Loading a cached prefix or recomputing it: both times, and the break-even length."""

from __future__ import annotations

from roofline.errors import BadInput
from roofline.physics.plan import Deployment
from roofline.quantity import MEGA
from roofline.records import NamedTuple
from roofline.roots import narrowed
from roofline.serving.latency import chunks, prompt_chunk
from roofline.serving.prompt_cache import prefix_bytes, tier_bandwidth
from roofline.specs.prompt_cache import PromptCache

_LONGEST = MEGA  # [tokens] where the model states no maximum context
_STRAIGHT = 0.1  # relative error of constant a and b at half and twice the length


class Recompute(NamedTuple):
    """Time that a cached prefix saves, as a parabola in its length."""

    time: float  # [s]
    per_token: float  # [s] a, everything linear in the tokens
    per_square: float  # [s] b, causal attention of the prefix on itself, per token squared

    def at(self, prefix: float) -> float:
        """Time of another prefix length with the same a and b [s]."""
        return self.per_token * prefix + self.per_square * prefix * prefix


class EvenPrefix(NamedTuple):
    """The prefix length at which loading takes as long as recomputing."""

    prefix: float  # [tokens]; shorter prefixes are recomputed faster, longer ones loaded
    load_per_token: float  # [s] kv / W at this length
    recompute: Recompute  # at this length
    is_straight: bool  # a and b also hold at half and twice the length, as the closed form assumes


def recompute(deployment: Deployment, rest: float, prefix: float) -> Recompute:
    r"""Time to recompute a prefix before the rest of its prompt, on an idle server.

    .. math:: R(p) = T(p + m\ \text{after}\ 0) - T(m\ \text{after}\ p) = a\, p + b\, p^2

    The rest attends to the prefix either way, so only the attention of the prefix on itself remains: b does not depend
    on m. Everything but attention is linear in the tokens, a.

    Args:
        deployment: model, GPU, plan, quantization and engine.
        rest: prompt tokens after the prefix, m [tokens].
        prefix: p [tokens].

    Returns:
        R, a and b at this prefix.

    Valid:
        a and b are constant for prompts long enough to be compute-bound. For short prompts, bound by reading the
        weights, a is smaller.

    Source:
        The prefill pass of docs/method.md, with and without the prefix.
    """
    uncached, cached = (_parts(deployment, prefix + rest, new) for new in (prefix + rest, rest))
    time, attention = (more - less for more, less in zip(uncached, cached, strict=True))
    return Recompute(time, (time - attention) / prefix, attention / (prefix * prefix))


def even_prefix(deployment: Deployment, rest: float, cache: PromptCache) -> EvenPrefix | None:
    r"""Break-even prefix: loading it takes as long as recomputing it.

    .. math:: \frac{kv}{W} = a + b\, p,\quad p = \frac{kv / W - a}{b}

    Args:
        deployment: model, GPU, plan, quantization and engine.
        rest: prompt tokens after the prefix [tokens].
        cache: tier and bandwidth.

    Returns:
        The prefix with a, b and load time per token at its length; None where recomputing is faster at any length that
        the model takes.

    Raises:
        BadInput: a tier of unknown bandwidth, or GPU memory, from which nothing is loaded.

    Valid:
        The closed form assumes constant a and b; `is_straight` says whether they are.

    Source:
        `recompute` and `roofline.serving.prompt_cache.load_time`.
    """
    rate = tier_bandwidth(deployment, cache)
    if rate is None:
        raise BadInput("nothing is loaded from the memory of the GPU; a break-even needs another cache_tier")
    speed = float(rate)

    def surplus(prefix: float) -> float:
        """Load time less recompute time, per token [s]."""
        return (
            float(prefix_bytes(deployment, prefix)) / speed / prefix - recompute(deployment, rest, prefix).time / prefix
        )

    longest = max((deployment.model.max_context or _LONGEST) - rest, 1.0)
    low = high = 1.0
    surplus_low = surplus_high = surplus(low)
    while surplus_high > 0.0 and high < longest:
        low, surplus_low = high, surplus_high
        high = min(2.0 * high, longest)
        surplus_high = surplus(high)
    if surplus_high > 0.0:
        return None
    prefix = low if surplus_low <= 0.0 else narrowed(surplus, (high, surplus_high), (low, surplus_low))
    saved = recompute(deployment, rest, prefix)
    neighbours = ((length, recompute(deployment, rest, length).time) for length in (0.5 * prefix, 2.0 * prefix))
    is_straight = all(abs(saved.at(length) - time) <= _STRAIGHT * time for length, time in neighbours)
    return EvenPrefix(prefix, float(prefix_bytes(deployment, prefix)) / speed / prefix, saved, is_straight)


def _parts(deployment: Deployment, isl: float, new: float) -> tuple[float, float]:
    """Prefill time of one prompt, and the attention arithmetic in it [s]."""
    count = chunks(new, deployment.effective_engine.max_num_batched_tokens)
    kernels = prompt_chunk(deployment, 1.0, isl, new).kernels
    attention = sum(
        kernel.count * (kernel.terms.compute + kernel.terms.exponentials)
        for kernel in kernels
        if kernel.kind.is_per_sequence
    )
    return float(count * sum(kernel.time for kernel in kernels)), float(count * attention)
