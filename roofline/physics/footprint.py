"""What a model keeps per token and per sequence, whatever GPU and plan serve it."""

from __future__ import annotations

from roofline.ops import Real
from roofline.physics.layers.kinds import MIXER_KINDS, cache_bytes
from roofline.specs.formats import number_format
from roofline.specs.model import Model

__all__ = ["attends", "kv_bytes_per_token", "kv_growth_per_token", "state_bytes_per_sequence"]


_LONG = 1 << 17  # tokens, where a model states no longest context


def kv_bytes_per_token(model: Model) -> Real:
    """KV cache of one token in all layers, index keys included, in the model's own format.

    Args:
        model: the model.

    Returns:
        Bytes; zero where no layer attends [B].
    """
    return _cached(model, 1.0)


def kv_growth_per_token(model: Model) -> Real:
    """KV cache that one more token adds at the end of the longest context: full windows no longer grow.

    Args:
        model: the model.

    Returns:
        Bytes, compressed entries spread over the tokens that they stand for [B].
    """
    length = float(model.max_context or _LONG)
    return _cached(model, length) - _cached(model, length - 1.0)


def state_bytes_per_sequence(model: Model) -> Real:
    """Recurrent state of one sequence in all layers.

    Args:
        model: the model.

    Returns:
        Bytes; zero where no layer is recurrent [B].
    """
    return sum(layers * cache_bytes(mixer, 0.0, 1.0) for layers, mixer in model.mixers)


def attends(model: Model) -> bool:
    """Whether any layer keeps something of every token.

    Args:
        model: the model.

    Returns:
        True or false.
    """
    return any(MIXER_KINDS[type(mixer)].is_attention for _, mixer in model.mixers)


def _cached(model: Model, tokens: float) -> Real:
    """What attention keeps of a sequence, states apart [B]."""
    nbytes = number_format(model.native["kv"]).nbytes
    kept = (
        count * cache_bytes(mixer, tokens, nbytes)
        for count, mixer in model.mixers
        if MIXER_KINDS[type(mixer)].is_attention
    )
    return float(sum(kept))
