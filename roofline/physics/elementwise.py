"""Work of memory-bound kernels: norms, activations, embedding, sampling."""

from __future__ import annotations

from roofline.ops import Real
from roofline.physics.one_equation import Work

_NBYTES = 2.0  # activations and norm weights are 16-bit
_LOGIT_NBYTES = 4.0  # logits are widened to fp32 for sampling


def norm_add(tokens: Real, hidden: int, streams: int = 1) -> Work:
    """Work of a norm fused with the residual addition: the streams and one layer's input, read and written.

    Args:
        tokens: tokens of the pass [tokens].
        hidden: model width [1].
        streams: residual streams; more than one with hyper-connections [1].

    Returns:
        The work [B].

    Source:
        Arithmetic: each value is read and written once, in 16 bits where no other width is named.
    """
    return Work(weight_bytes=_NBYTES * hidden, activation_bytes=(2.0 * streams + 2.0) * _NBYTES * tokens * hidden)


def rope_append(tokens: Real, cached_nbytes: Real, norm_values: float) -> Work:
    """Work of rotating queries and keys (and of their norms, if any) and appending to the KV cache.

    The traffic of queries and keys counts with the attention kernel.

    Args:
        tokens: tokens of the pass [tokens].
        cached_nbytes: bytes appended per token [B].
        norm_values: weights of query, key or latent norms [1].

    Returns:
        The work [B].

    Source:
        Arithmetic: each value is read and written once, in 16 bits where no other width is named.
    """
    return Work(weight_bytes=_NBYTES * norm_values, kv_bytes=tokens * cached_nbytes)


def activation(tokens: Real, width: Real, gated: bool) -> Work:
    """Work of the activation between the two halves of a feed-forward network.

    Args:
        tokens: tokens of the pass [tokens].
        width: width of the network on this GPU [1].
        gated: whether gate and up are multiplied: two reads and a write; else one of each [bool].

    Returns:
        The work [B].

    Source:
        Arithmetic: each value is read and written once, in 16 bits where no other width is named.
    """
    return Work(activation_bytes=(3.0 if gated else 2.0) * _NBYTES * tokens * width)


def latent_norm(tokens: Real, rank: int) -> Work:
    """Work of normalizing a query or KV latent: a read and a write; its weights count with `rope_append`.

    Args:
        tokens: tokens of the pass [tokens].
        rank: width of the latent [1].

    Returns:
        The work [B].

    Source:
        Arithmetic: each value is read and written once, in 16 bits where no other width is named.
    """
    return Work(activation_bytes=2.0 * _NBYTES * tokens * rank)


def top_k(tokens: Real, experts: int) -> Work:
    """Work of choosing experts: one read of the router's fp32 scores.

    Args:
        tokens: tokens of the pass [tokens].
        experts: scores per token [1].

    Returns:
        The work [B].

    Source:
        Arithmetic: each value is read and written once, in 16 bits where no other width is named.
    """
    return Work(activation_bytes=_LOGIT_NBYTES * tokens * experts)


def add(tokens: Real, hidden: int) -> Work:
    """Work of adding two activations, such as the outputs of shared and routed experts: two reads and a write.

    Args:
        tokens: tokens of the pass [tokens].
        hidden: model width [1].

    Returns:
        The work [B].

    Source:
        Arithmetic: each value is read and written once, in 16 bits where no other width is named.
    """
    return Work(activation_bytes=3.0 * _NBYTES * tokens * hidden)


def embedding(tokens: Real, hidden: int, weight_nbytes: float) -> Work:
    """Work of the input embedding: a gather of one row per token.

    Args:
        tokens: tokens of the pass [tokens].
        hidden: model width [1].
        weight_nbytes: bytes per weight [B].

    Returns:
        The work [B].

    Source:
        Arithmetic: each value is read and written once, in 16 bits where no other width is named.
    """
    return Work(weight_bytes=tokens * hidden * weight_nbytes, activation_bytes=_NBYTES * tokens * hidden)


def sample(sequences: Real, vocab: Real) -> Work:
    """Work of sampling a token from fp32 logits.

    Args:
        sequences: sequences [sequences].
        vocab: logits per sequence [1].

    Returns:
        The work [B].

    Valid:
        Each rank reads all logits, after they were gathered.

    Source:
        Arithmetic: each value is read and written once, in 16 bits where no other width is named.
    """
    return Work(activation_bytes=_LOGIT_NBYTES * sequences * vocab)
