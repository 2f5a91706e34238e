"""KV cache per token and state per sequence of a model, regardless of GPU and plan."""

from __future__ import annotations

from roofline.ops import Real
from roofline.physics.layers.kinds import MIXER_KINDS, cache_bytes
from roofline.specs.formats import number_format
from roofline.specs.model import Model

_LONG = 1 << 17  # tokens, where a model states no context limit


def kv_bytes_per_token(model: Model) -> Real:
    """KV cache [B] of one token in all layers, index keys included, in the model's own number format."""
    return _cached(model, 1.0)


def kv_growth_per_token(model: Model) -> Real:
    """KV cache [B] that one more token adds at the context limit, where windows are full."""
    length = float(model.max_context or _LONG)
    return _cached(model, length) - _cached(model, length - 1.0)


def state_bytes_per_sequence(model: Model) -> Real:
    """Recurrent state [B] of one sequence in all layers."""
    return sum(layers * cache_bytes(mixer, 0.0, 1.0) for layers, mixer in model.mixers)


def attends(model: Model) -> bool:
    """Whether any layer has a KV cache."""
    return any(MIXER_KINDS[type(mixer)].is_attention for _, mixer in model.mixers)


def _cached(model: Model, tokens: float) -> Real:
    """KV cache of one sequence, without recurrent states [B]."""
    nbytes = number_format(model.native["kv"]).nbytes
    return float(
        sum(
            count * cache_bytes(mixer, tokens, nbytes)
            for count, mixer in model.mixers
            if MIXER_KINDS[type(mixer)].is_attention
        )
    )
