"""Which tokens see which: `pairs`, the one source of attention geometry."""

from __future__ import annotations

from roofline.ops import Real, comparable, floor, minimum
from roofline.records import NamedTuple
from roofline.specs.layers import Gqa, Mla

__all__ = ["WINDOW_FILLED", "Span", "causal_pairs", "pairs", "reach", "windowed_pairs"]

#: What it means that a sequence has as many tokens as one of them may see.
WINDOW_FILLED = "the attention window fills"


@comparable
class Span(NamedTuple):
    """Tokens of a sequence that a pass computes: of a prompt, or one in each of several decode steps."""

    new: Real  # [tokens]
    cached: Real  # [tokens] in the cache before the first of them
    is_decode: bool = False  # the pass is the mean of `new` steps

    @property
    def steps(self) -> Real:
        """Steps that the tokens take [1]."""
        return self.new if self.is_decode else 1.0


def pairs(new: Real, cached: Real, mixer: Gqa | Mla) -> Real:
    r"""Query-key pairs of `new` tokens after `cached` ones: the one source of attention geometry.

    .. math:: \text{pairs}(N, P) = N P + \frac{N (N + 1)}{2}\ \text{(full)},\quad
              \text{windowed}(N, P)\ \text{(window)},\quad
              (k_1 - k_0) \frac{c (c + 1)}{2} + \frac{(r_1 - r_0) (r_1 + r_0 + 1)}{2}\ \text{(chunk)}

    with :math:`P = k_0 c + r_0` and :math:`P + N = k_1 c + r_1`. An indexer that keeps the best k tokens for each one
    limits what it sees as a window of k does. Over chunks of a prompt it sums exactly to the whole; divided by N it is
    the mean length that a generation of N tokens sees. No form subtracts two squares of a length, of which little would
    be left of few tokens after very many.

    Args:
        new: tokens N computed now [tokens].
        cached: tokens P already in the cache [tokens].
        mixer: attention whose `window`, `chunk` or `indexer` limits what a token sees.

    Returns:
        Pairs, every token seeing itself [1].

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
    r"""Query-key pairs of `new` tokens of which every one sees the last `window` ones at most.

    .. math:: \text{windowed}(N, P) = \frac{(r_1 - r_0) (r_1 + r_0 + 1)}{2} + (N - (r_1 - r_0)) w,\quad
              r_0 = \min(P, w),\ r_1 = \min(P + N, w)

    The first r_1 - r_0 of them fill the window, each seeing one token more; the others see a full one.

    Args:
        new: tokens N computed now [tokens].
        cached: tokens P already in the cache [tokens].
        window: tokens w that one sees at most, itself included [tokens].

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
    """Query-key pairs of `new` tokens that see all before them, whatever their attention keeps of those.

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
    """Tokens that the last of a sequence sees at most, and so must be kept: its length, window or chunk.

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
    """Tokens of a window that a sequence fills [tokens]."""
    return minimum(tokens, 1.0 * window, WINDOW_FILLED)


def _chunks(tokens: Real, chunk: Real) -> Real:
    """Complete chunks of a sequence [1]."""
    return floor(tokens / chunk, "the next attention chunk begins")


def _rest(tokens: Real, chunk: Real) -> Real:
    """Tokens of a sequence in the chunk that is not complete [tokens]."""
    return tokens - _chunks(tokens, chunk) * chunk
