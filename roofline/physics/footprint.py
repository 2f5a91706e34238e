"""What a model keeps per token and per sequence, whatever GPU and plan serve it."""

from __future__ import annotations

from roofline.ops import Real
from roofline.physics.cache import cache_bytes, state_bytes
from roofline.specs.formats import FORMATS
from roofline.specs.layers import Csa, Gqa, Mixer, Mla, Recurrent
from roofline.specs.model import Model

__all__ = ["kv_bytes_per_token", "kv_growth_per_token", "state_bytes_per_sequence"]


_ATTENTION = (Gqa, Mla, Csa)
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
    return sum(layers * state_bytes(mixer) for layers, mixer in model.mixers if isinstance(mixer, Recurrent))


def _cached(model: Model, tokens: float) -> Real:
    nbytes = FORMATS[model.native["kv"]].nbytes
    found = (count * cache_bytes(mixer, tokens, nbytes) for count, mixer in model.mixers if _attends(mixer))
    return float(sum(found))


def _attends(mixer: Mixer) -> bool:
    return isinstance(mixer, _ATTENTION)
