"""Parameters by section, of a whole model or on one rank."""

from __future__ import annotations

from roofline.ops import Real, where
from roofline.physics.layers.kinds import NETWORK_KINDS, mixer_parameters
from roofline.physics.projection import local
from roofline.physics.side_inputs import altup_parameters, layer_input_parameters, lookup_parameters
from roofline.records import NamedTuple
from roofline.specs.layers import Ffn, Layer, Mixer, MoeFfn, Stage
from roofline.specs.model import Model

#: What published counts of active parameters leave out, besides idle experts.
CONVENTIONS = ("all", "no-embedding", "no-embedding-no-head")


class ParameterCount(NamedTuple):
    """Parameters by the section whose number format they share."""

    linear: float = 0.0  # dense feed-forward networks
    attention: float = 0.0  # matrices of the mixers
    shared: float = 0.0  # shared experts, and projections to the latent of the routed ones
    experts: float = 0.0
    router: float = 0.0
    norm: float = 0.0  # norms, biases and sinks: kept in 16 bits
    embed: float = 0.0
    head: float = 0.0  # zero where the head shares the embedding

    @property
    def total(self) -> float:
        return 1.0 * sum(self)

    def plus(self, other: ParameterCount, times: Real = 1) -> ParameterCount:
        """Sum with `times` another count."""
        return ParameterCount(*(count + times * more for count, more in zip(self, other, strict=True)))


def parameters(model: Model) -> ParameterCount:
    """Parameters of a whole model, to the unit, without draft modules.

    Args:
        model: the model.

    Returns:
        Counts by section [1].

    Source:
        Shapes of the checkpoints' tensors; checked against published totals in the tests.
    """
    table = 1.0 * model.vocab * model.hidden
    ends = ParameterCount(norm=final_parameters(model), embed=table, head=0.0 if model.tied else table)
    count = ends.plus(entry_parameters(model)).plus(stage_parameters(model, model.stages(1)[0]))
    return count if model.ngrams is None else count.plus(ngram_parameters(model))


def entry_parameters(model: Model) -> ParameterCount:
    """Parameters before the first layer, besides the token embedding: other tables, preparation of layers' inputs.

    Args:
        model: the model.

    Returns:
        Counts by section [1].

    Source:
        Shapes of the checkpoints' tensors.
    """
    inputs, norm = layer_input_parameters(model, of_layer=False)
    streams, _, _ = altup_parameters(model, of_layer=False)
    return ParameterCount(linear=inputs + streams, norm=norm, embed=lookup_parameters(model))


def final_parameters(model: Model) -> Real:
    """Parameters between the last layer and the LM head's matrix: a norm, stream weights, the head's bias.

    A norm between the embedding and the first layer counts here.

    Args:
        model: the model.

    Returns:
        The count [1].

    Source:
        Shapes of the checkpoints' tensors.
    """
    bias = where(model.head_bias, model.vocab, 0)
    return model.final_norms * _norm_values(model) + stream_parameters(model, is_head=True) + bias


def active_parameters(model: Model, convention: str = "no-embedding") -> float:
    """Parameters that one token uses: all but the idle experts and what a convention leaves out.

    Args:
        model: the model.
        convention: one of `CONVENTIONS`; publishers differ, and the input embedding does no arithmetic [text].

    Returns:
        The count [1].

    Source:
        Counts on model cards, which differ by `CONVENTIONS`.
    """
    count = parameters(model)
    idle = sum(
        layers * (ffn.experts - ffn.chosen) * _expert_values(ffn, model.hidden)
        for layers, ffn in model.ffns
        if isinstance(ffn, MoeFfn)
    )
    ends = {"all": 0.0, "no-embedding": count.embed, "no-embedding-no-head": count.embed + count.head}
    excluded = ends[convention]
    if model.tied and convention == "no-embedding":
        excluded = lookup_parameters(model)  # the token embedding is the head too
    return float(count.total - idle - excluded)


def stage_parameters(model: Model, stage: Stage, tp: Real = 1, expert_ranks: Real = 1) -> ParameterCount:
    """Parameters of the layers of a pipeline stage on one rank.

    KV projections are replicated where tp exceeds the KV heads; latent projections of MLA, the router and norms always
    are.

    Args:
        model: the model, for its width and norms.
        stage: its layers.
        tp: tensor-parallel degree [1].
        expert_ranks: ranks over which the experts are spread [1].

    Returns:
        Counts by section [1].

    Source:
        Shapes of the checkpoints' tensors; checked against published totals in the tests.
    """
    count = ParameterCount()
    for times, mixer in stage.mixers:
        count = count.plus(_mixer_count(model, mixer, tp), times)
    for times, ffn in stage.ffns:
        count = count.plus(_network_count(ffn, model.hidden, tp, expert_ranks), times)
    return count


def layer_parameters(model: Model, layer: Layer, tp: Real = 1, expert_ranks: Real = 1) -> ParameterCount:
    """Parameters of one layer on one rank.

    Args:
        model: the model, for its width and norms.
        layer: the layer.
        tp: tensor-parallel degree [1].
        expert_ranks: ranks over which the experts are spread [1].

    Returns:
        Counts by section [1].

    Source:
        Shapes of the checkpoints' tensors; checked against published totals in the tests.
    """
    return _network_count(layer.ffn, model.hidden, tp, expert_ranks).plus(_mixer_count(model, layer.mixer, tp))


def mtp_parameters(model: Model) -> Real:
    """Parameters of the draft modules for speculative decoding, which no total includes.

    Each has a layer like the last, norms of its two inputs and of its output, and a matrix that joins the hidden state
    with the embedding of the previous draft token. It shares the model's embedding and head.

    Args:
        model: the model.

    Returns:
        The count; zero without draft modules [1].

    Source:
        DeepSeek-V3 report, arXiv:2412.19437, section 2.2.
    """
    last = layer_parameters(model, model.groups[-1].layers[-1]).total
    return model.mtp_layers * (last + 2.0 * model.hidden * model.hidden + 3.0 * _norm_values(model))


def stream_parameters(model: Model, *, is_head: bool = False) -> float:
    """Parameters that mix the residual streams of a layer, or collapse them before the head.

    Args:
        model: the model with s streams; one stream is an ordinary residual connection without parameters.
        is_head: whether to count those before the head [bool].

    Returns:
        Per layer, twice s (2 + s) x s h weights with their biases and scales. With a gate of rank r, twice 2 r x s h
        and s x s h weights, and the part of norms over all streams that exceeds one stream [1].

    Source:
        Manifold-constrained hyper-connections of DeepSeek-V4, gated residuals of Qwen4Exp (transformers, 2026).
    """
    streams = model.streams
    if streams == 1 or (is_head and model.stream_average):
        return 0.0
    width = streams * model.hidden
    if model.stream_rank:
        gate = 2.0 * model.stream_rank * width + width - model.hidden
        return float(gate if is_head else 2.0 * (gate + streams * width))
    if is_head:
        return float(streams * width + streams + 1)
    mixed = (2 + streams) * streams
    return 2.0 * (mixed * width + mixed + 3)


def ngram_parameters(model: Model, tp: Real = 1) -> ParameterCount:
    """Parameters of n-gram embeddings on one rank, which has its share of the tables' columns.

    Args:
        model: the model with s streams.
        tp: tensor-parallel degree [1].

    Returns:
        The tables; for each, one key per stream and one value, three norms and a convolution of k tokens over all
        streams. Zero where a model has none [1].

    Source:
        Per-layer embeddings of Qwen4Exp (transformers 5.23, 2026).
    """
    ngrams = model.ngrams
    if ngrams is None:
        return ParameterCount()
    row_width, width = ngrams.lookups * ngrams.width, model.streams * model.hidden
    return ParameterCount(
        linear=1.0 * ngrams.tables * row_width * (width + model.hidden),
        norm=ngrams.tables * (3.0 + ngrams.conv) * width,
        embed=ngrams.rows * ngrams.width / tp,
    )


def _norm_values(model: Model) -> Real:
    """Values of one norm over the model width."""
    return model.hidden * where(model.norm_bias, 2, 1) if model.norm_weights else 0.0


def _mixer_count(model: Model, mixer: Mixer, tp: Real) -> ParameterCount:
    """Parameters of a mixer, with the norms, stream weights and inputs of its layer."""
    matrices, small = mixer_parameters(mixer, model.hidden, tp)
    inputs, _ = layer_input_parameters(model, of_layer=True)
    laurel, router, scales = altup_parameters(model, of_layer=True)
    norms = model.norms * _norm_values(model) + stream_parameters(model)
    return ParameterCount(linear=inputs + laurel, attention=matrices, router=router, norm=small + norms + scales)


def _network_count(ffn: Ffn, hidden: Real, tp: Real, expert_ranks: Real) -> ParameterCount:
    return ParameterCount(**NETWORK_KINDS[type(ffn)].matrices.values(ffn, hidden, tp, expert_ranks))


def _expert_values(ffn: MoeFfn, hidden: Real) -> Real:
    """Parameters of one expert, biases included."""
    moe = NETWORK_KINDS[type(ffn)]
    matrices = (matrix for matrix in moe.matrices.whole(ffn, hidden) if matrix.copies is not None)
    return 1.0 * sum(local(matrix.columns, 1) * (local(matrix.inner, 1) + int(matrix.bias)) for matrix in matrices)
