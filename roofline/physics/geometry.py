"""Attention geometry: how many query-key pairs a pass computes."""

from __future__ import annotations

from roofline.ops import Real, comparable, floor, minimum
from roofline.records import NamedTuple
from roofline.specs.layers import Gqa, Mla

WINDOW_FILLED = "the attention window fills"


@comparable
class Span(NamedTuple):
    """Tokens of a sequence that a pass computes: those of a prompt, or one in each of several decode steps."""

    new: Real  # [tokens]
    cached: Real  # [tokens] in the cache before them
    is_decode: bool = False  # the pass is the mean of `new` decode steps

    @property
    def steps(self) -> Real:
        """Passes that the tokens take [1]."""
        return self.new if self.is_decode else 1.0


def pairs(new: Real, cached: Real, mixer: Gqa | Mla) -> Real:
    r"""Query-key pairs of `new` tokens after `cached` ones.

    .. math:: \text{pairs}(N, P) = N P + \frac{N (N + 1)}{2}\ \text{(full)},\quad
              \text{windowed}(N, P)\ \text{(window)},\quad
              (k_1 - k_0) \frac{c (c + 1)}{2} + \frac{(r_1 - r_0) (r_1 + r_0 + 1)}{2}\ \text{(chunk)}

    with :math:`P = k_0 c + r_0` and :math:`P + N = k_1 c + r_1`. An indexer that keeps the best k tokens counts as a
    window of k. The pairs of the chunks of a prompt sum exactly to those of the prompt; divided by N they are the mean
    length that attention sees while N tokens are generated. No form subtracts squares of lengths: for a few tokens
    after a long context their difference would be rounding error.

    Args:
        new: tokens N computed now [tokens].
        cached: tokens P already in the cache [tokens].
        mixer: attention whose `window`, `chunk` or `indexer` limits what a token sees.

    Returns:
        Pairs; every token sees itself [1].

    Source:
        Sum over the tokens of what each sees (causal masks of arXiv:1706.03762, windows of
        arXiv:2310.06825, chunks of the Llama 4 model card).

    >>> pairs(1.0, 1023.0, Gqa(heads=1, kv_heads=1, head_dim=1, v_head_dim=1))
    1024.0
    >>> pairs(4.0, 0.0, Gqa(heads=1, kv_heads=1, head_dim=1, v_head_dim=1, window=2))
    7.0
    """
    indexer = mixer.indexer
    window = getattr(mixer, "window", None) if indexer is None else indexer.top_k
    chunk = getattr(mixer, "chunk", None)
    if window is not None:
        return windowed_pairs(new, cached, window)
    if chunk is not None:
        complete = _chunks(cached + new, chunk) - _chunks(cached, chunk)
        start, end = _rest(cached, chunk), _rest(cached + new, chunk)
        return complete * (chunk * (chunk + 1.0) / 2.0) + (end - start) * (end + start + 1.0) / 2.0
    return causal_pairs(new, cached)


def windowed_pairs(new: Real, cached: Real, window: Real) -> Real:
    r"""Query-key pairs of `new` tokens, each of which sees at most the last `window` ones.

    .. math:: \text{windowed}(N, P) = \frac{(r_1 - r_0) (r_1 + r_0 + 1)}{2} + (N - (r_1 - r_0)) w,\quad
              r_0 = \min(P, w),\ r_1 = \min(P + N, w)

    The first r_1 - r_0 tokens fill the window, each seeing one token more; the others see a full window.

    Args:
        new: tokens N computed now [tokens].
        cached: tokens P already in the cache [tokens].
        window: most tokens w that a token sees, itself included [tokens].

    Returns:
        Pairs [1].

    Source:
        Sum over the tokens of what each sees (windows of arXiv:2310.06825).

    >>> windowed_pairs(4.0, 0.0, 2.0)
    7.0
    """
    start, end = _filled(cached, window), _filled(cached + new, window)
    filling = end - start
    return filling * (end + start + 1.0) / 2.0 + (new - filling) * window


def causal_pairs(new: Real, cached: Real) -> Real:
    """Query-key pairs of `new` tokens that see all tokens before them, and themselves.

    Args:
        new: tokens computed now [tokens].
        cached: tokens already in the cache [tokens].

    Returns:
        Pairs [1].

    Source:
        Sum over the tokens of what each sees (causal masks of arXiv:1706.03762).

    >>> causal_pairs(2.0, 3.0)
    9.0
    """
    return new * cached + new * (new + 1.0) / 2.0


def reach(tokens: Real, mixer: Gqa | Mla) -> Real:
    """Tokens that must stay cached, since the last one may see them: the sequence, the window or the chunk.

    Args:
        tokens: length of the sequence [tokens].
        mixer: attention whose `window` or `chunk` limits what a token sees.

    Returns:
        Tokens [tokens].

    Source:
        Windows of arXiv:2310.06825, chunks of the Llama 4 model card.
    """
    window = getattr(mixer, "window", None)
    limit = getattr(mixer, "chunk", None) if window is None else window
    return tokens if limit is None else minimum(tokens, 1.0 * limit, WINDOW_FILLED)


def _filled(tokens: Real, window: Real) -> Real:
    return minimum(tokens, 1.0 * window, WINDOW_FILLED)


def _chunks(tokens: Real, chunk: Real) -> Real:
    """Complete chunks of a sequence [1]."""
    return floor(tokens / chunk, "the next attention chunk begins")


def _rest(tokens: Real, chunk: Real) -> Real:
    """Tokens in the incomplete chunk of a sequence [tokens]."""
    return tokens - _chunks(tokens, chunk) * chunk
