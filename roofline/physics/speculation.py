"""What proposes tokens for a step to verify: a module trained with the model, a head over its hidden states."""

from __future__ import annotations

from typing import Any

from roofline.errors import BadInput
from roofline.physics.layers.kinds import MIXER_KINDS
from roofline.records import replace
from roofline.specs.layers import DenseFfn, Group, Layer
from roofline.specs.model import Model

__all__ = ["eagle_head", "mtp_module"]

_EAGLE_VOCAB = 32_000  # tokens that published EAGLE-3 heads choose from
#: What a module of one layer has not, whatever the model has.
_PLAIN: dict[str, Any] = {
    "streams": 1, "stream_rank": 0, "stream_average": False, "mtp_layers": 0, "positions": 0, "layer_input": 0,
    "layer_vocab": 0, "altup": 0, "laurel": 0, "ngrams": None,
}  # fmt: skip
_DENSE_WIDTH = 4  # of a head's network over the model's width, where the model has no dense one


def mtp_module(model: Model) -> Model:
    """The module for multi-token prediction: a layer like the model's last one, run once for each token.

    Args:
        model: with draft modules.

    Returns:
        A model of that layer.

    Raises:
        BadInput: a model without such modules.

    Source:
        DeepSeek-V3 report, arXiv:2412.19437, section 2.2.
    """
    if not model.mtp_layers:
        raise BadInput(
            f"{model.short_name} has no MTP module to draft with; use draft = eagle, ngram, or the name of a smaller "
            "model"
        )
    return _of_layer(model, model.groups[-1].layers[-1], model.vocab)


def eagle_head(model: Model) -> Model:
    """A head of one layer over hidden states: attention like the model's last, and a dense network.

    Args:
        model: that it proposes for.

    Returns:
        A model of that layer, which chooses from at most 32,000 tokens.

    Valid:
        An estimate: heads differ. Of a mixture of experts the head's network is as wide as a dense layer of the model,
        or four times the model's width.

    Source:
        EAGLE-3, arXiv:2503.01840, section 3; configurations of its published heads (one Llama layer, draft_vocab_size
        32000).
    """
    layers = [layer for group in model.groups for layer in group.layers]
    mixers = [layer.mixer for layer in layers if MIXER_KINDS[type(layer.mixer)].is_attention]
    networks = [layer.ffn for layer in layers if isinstance(layer.ffn, DenseFfn)]
    network = networks[-1] if networks else DenseFfn(_DENSE_WIDTH * model.hidden)
    return _of_layer(model, Layer((mixers or [layers[-1].mixer])[-1], network), min(model.vocab, _EAGLE_VOCAB))


def _of_layer(model: Model, layer: Layer, vocab: int) -> Model:
    """A model of one layer."""
    return replace(model, groups=(Group(1, (layer,)),), vocab=vocab, **_PLAIN)
