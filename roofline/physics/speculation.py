"""Draft models for speculative decoding: MTP modules trained with the model, EAGLE heads over its hidden states."""

from __future__ import annotations

from typing import Any

from roofline.errors import BadInput
from roofline.physics.layers.kinds import MIXER_KINDS
from roofline.records import replace
from roofline.specs.layers import DenseFfn, Group, Layer
from roofline.specs.model import Model

_EAGLE_VOCAB = 32_000  # tokens that published EAGLE-3 heads choose from
#: What a module of one layer lacks, whatever the model has.
_PLAIN: dict[str, Any] = {
    "streams": 1, "stream_rank": 0, "stream_average": False, "mtp_layers": 0, "positions": 0, "layer_input": 0,
    "layer_vocab": 0, "altup": 0, "laurel": 0, "ngrams": None,
}  # fmt: skip
_DENSE_WIDTH = 4  # width of a head's network over the model's width, where the model has no dense layer


def mtp_module(model: Model) -> Model:
    """The module for multi-token prediction: a layer like the model's last, run once per draft token.

    Args:
        model: the model with draft modules.

    Returns:
        A model of that layer.

    Raises:
        BadInput: the model has no draft modules.

    Source:
        DeepSeek-V3 report, arXiv:2412.19437, section 2.2.
    """
    if not model.mtp_layers:
        raise BadInput(
            f"{model.short_name} has no MTP module to draft with; use draft = eagle, ngram, or the name of a smaller "
            "model"
        )
    return _one_layer_model(model, model.groups[-1].layers[-1], model.vocab)


def eagle_head(model: Model) -> Model:
    """An EAGLE head of one layer: attention like the model's last, and a dense FFN.

    Args:
        model: the target model.

    Returns:
        A model of that layer, with a vocabulary of at most 32,000 tokens.

    Valid:
        An estimate: heads differ. For a mixture of experts the head's network is as wide as a dense layer of the
        model, or four times the model's width.

    Source:
        EAGLE-3, arXiv:2503.01840, section 3; configurations of its published heads (one Llama layer, draft_vocab_size
        32000).
    """
    layers = [layer for group in model.groups for layer in group.layers]
    mixers = [layer.mixer for layer in layers if MIXER_KINDS[type(layer.mixer)].is_attention]
    networks = [layer.ffn for layer in layers if isinstance(layer.ffn, DenseFfn)]
    network = networks[-1] if networks else DenseFfn(_DENSE_WIDTH * model.hidden)
    return _one_layer_model(model, Layer((mixers or [layers[-1].mixer])[-1], network), min(model.vocab, _EAGLE_VOCAB))


def _one_layer_model(model: Model, layer: Layer, vocab: int) -> Model:
    return replace(model, groups=(Group(1, (layer,)),), vocab=vocab, **_PLAIN)
