"""Learned positions, per-layer inputs (Gemma's E models), alternating streams: what runs alongside the layers."""

from __future__ import annotations

from roofline.ops import Real
from roofline.physics import elementwise
from roofline.physics.assembly import ACTIVATION_NBYTES, Assembly
from roofline.physics.one_equation import Work
from roofline.specs.model import Model

_SECTION = "linear"


def lookup_parameters(model: Model) -> Real:
    r"""Parameters of look-up tables besides the input embedding: positions and per-layer inputs.

    .. math:: \text{positions}\, H + \text{layer\_vocab}\, L\, w

    Args:
        model: the model, whose layers have inputs of width w.

    Returns:
        The count [1].

    Source:
        `wpe` of GPT-2, `embed_tokens_per_layer` of Gemma-3n and Gemma-4 in Hugging Face transformers.
    """
    rows = 0.0 if _absent(model.positions) else 1.0 * model.positions * model.hidden
    if _absent(model.layer_input):
        return rows
    return rows + 1.0 * model.layer_vocab * model.layers * model.layer_input


def layer_input_parameters(model: Model, *, of_layer: bool) -> tuple[Real, Real]:
    r"""Parameters that project per-layer inputs.

    .. math:: 2 H w\ \text{(a layer)},\quad H L w + w\ \text{(all together)}

    Args:
        model: the model, whose layers have inputs of width w.
        of_layer: whether to count those of one layer; else those that all layers share [bool].

    Returns:
        Of matrices, and of norms [1].

    Source:
        `per_layer_input_gate`, `per_layer_projection` and `per_layer_model_projection` of Gemma-3n and Gemma-4 in
        Hugging Face transformers.
    """
    width = model.layer_input
    if _absent(width):
        return 0.0, 0.0
    return (2.0 * model.hidden * width, 0.0) if of_layer else (1.0 * model.hidden * model.layers * width, 1.0 * width)


def altup_parameters(model: Model, *, of_layer: bool) -> tuple[Real, Real, Real]:
    r"""Parameters of alternating streams, and of the learned residual connection.

    .. math:: 2 H r,\ n H + n^2 + n^3,\ 3 H\ \text{(a layer)},\quad 2 (n - 1) H^2\ \text{(all together)}

    Args:
        model: the model with n streams and a residual connection of rank r.
        of_layer: whether to count those of one layer; else those that all layers share [bool].

    Returns:
        Of matrices, of the router and its coefficients, and of norms and scales [1].

    Source:
        `Gemma3nTextAltUp` and `Gemma3nTextLaurelBlock` of Hugging Face transformers; Baykal et al., "Alternating
        Updates for Efficient Transformers", arXiv:2301.13310.
    """
    streams, hidden, rank = model.altup, model.hidden, model.laurel
    matrices, norm = (0.0, 0.0) if _absent(rank) else (2.0 * hidden * rank, 1.0 * hidden)
    if not of_layer:
        return (0.0 if _absent(streams) else 2.0 * (streams - 1) * hidden * hidden), 0.0, 0.0
    if _absent(streams):
        return matrices, 0.0, norm
    return matrices, 1.0 * streams * hidden + streams**2 + streams**3, norm + 2.0 * hidden


def altup_mix(tokens: Real, hidden: Real, streams: Real) -> Work:
    r"""Work of predicting all streams before a layer, and of correcting them after it.

    .. math:: F = 2 n^2 H T + 2 n H T,\quad Q = 2 (5 n + 1) H T

    Args:
        tokens: tokens T of the pass [tokens].
        hidden: model width H [1].
        streams: their number n [1].

    Returns:
        The work [FLOP, B]: prediction reads and writes the streams; correction reads them, their predictions and the
        layer's output, and writes them.

    Source:
        `predict` and `correct` of `Gemma3nTextAltUp`, Hugging Face transformers; arXiv:2301.13310.
    """
    return Work(
        flop=2.0 * tokens * hidden * streams * (streams + 1),
        activation_bytes=ACTIVATION_NBYTES * tokens * hidden * (5.0 * streams + 1.0),
    )


def add_positions(assembly: Assembly) -> None:
    """Add learned positions: one row per token, added to its embedding."""
    if not assembly.model.positions:
        return
    nbytes = assembly.quantization.sections["embed"].weight_nbytes
    assembly.elementwise("positions", 1, elementwise.embedding(assembly.tokens, assembly.hidden, nbytes))
    assembly.elementwise("positions, add", 1, elementwise.add(assembly.tokens, assembly.hidden))


def add_layer_inputs(assembly: Assembly) -> None:
    """Add per-layer inputs: look-up, projection, and their gate and projection in every layer."""
    model, tokens = assembly.model, assembly.tokens
    width, layers = model.layer_input, model.layers
    if not width:
        return
    nbytes = assembly.quantization.sections["embed"].weight_nbytes
    assembly.elementwise("layer inputs", 1, elementwise.embedding(tokens, layers * width, nbytes))
    assembly.gemm("layer inputs, projection", 1, layers * width, assembly.hidden, _SECTION)
    assembly.elementwise("layer inputs, add", 1, elementwise.add(tokens, layers * width))
    assembly.gemm("layer input, gate", layers, width, assembly.hidden, _SECTION)
    assembly.elementwise("layer input, activation", layers, elementwise.activation(tokens, width, gated=True))
    assembly.gemm("layer input, projection", layers, assembly.hidden, width, _SECTION)


def add_altup(assembly: Assembly) -> None:
    """Add alternating streams and the learned residual connection."""
    model, tokens, hidden = assembly.model, assembly.tokens, assembly.hidden
    streams, layers = model.altup, model.layers
    if streams:
        assembly.gemm("streams, projection", 2 * (streams - 1), hidden, hidden, _SECTION)  # into the streams, and out
        assembly.gemm("stream router", 2 * layers, streams, hidden, "router")  # to predict, and to correct
        assembly.elementwise("stream mix", layers, altup_mix(tokens, hidden, streams))
    if model.laurel:
        assembly.gemm("laurel, down", layers, model.laurel, hidden, _SECTION)
        assembly.gemm("laurel, up", layers, hidden, model.laurel, _SECTION)
        assembly.elementwise("laurel, add", layers, elementwise.add(tokens, hidden))


def _absent(number: Real) -> bool:
    """Whether a number of a record is a plain zero."""
    return type(number) is int and not number
