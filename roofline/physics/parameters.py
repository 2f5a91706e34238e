"""Parameters of a model by section, whole or as one rank of a plan holds them."""

from __future__ import annotations

from typing import NamedTuple

from roofline.catalog.records import DenseFfn, Ffn, Gqa, Layer, Mixer, Mla, Model, MoeFfn
from roofline.physics.attention import local_kv_heads
from roofline.physics.ffn import matrices

__all__ = ["ParameterCount", "active_parameters", "layer_parameters", "parameters"]


class ParameterCount(NamedTuple):
    """Parameters by the section whose number format they share."""

    linear: float = 0.0
    experts: float = 0.0
    router: float = 0.0
    norm: float = 0.0  # norms, biases and sinks: kept in 16 bits
    embed: float = 0.0
    head: float = 0.0  # zero where the head shares the embedding

    @property
    def total(self) -> float:
        """All of them."""
        return self.linear + self.experts + self.router + self.norm + self.embed + self.head

    def plus(self, other: ParameterCount, times: int = 1) -> ParameterCount:
        """Sum with another count taken several times.

        Args:
            other: what to add.
            times: how often [1].

        Returns:
            The sum.
        """
        return ParameterCount(
            self.linear + times * other.linear,
            self.experts + times * other.experts,
            self.router + times * other.router,
            self.norm + times * other.norm,
            self.embed + times * other.embed,
            self.head + times * other.head,
        )


def parameters(model: Model) -> ParameterCount:
    """Parameters of a whole model, to the unit.

    Args:
        model: the model.

    Returns:
        Counts by section [1].

    Source:
        Shapes of the checkpoints' tensors; checked against published totals in the tests.
    """
    count = ParameterCount(
        norm=float(model.hidden),
        embed=float(model.vocab * model.hidden),
        head=0.0 if model.tied else float(model.vocab * model.hidden),
    )
    for group in model.groups:
        for layer in group.layers:
            count = count.plus(layer_parameters(model, layer), group.repeat)
    return count


def active_parameters(model: Model) -> float:
    """Parameters that one token uses: everything but the idle experts and the input embedding.

    Args:
        model: the model.

    Returns:
        The count; of the published conventions the one that follows the arithmetic [1].
    """
    count = parameters(model)
    idle = sum(
        layers * (ffn.experts - ffn.top_k) * _expert_values(ffn, model.hidden, ffn.width)
        for layers, ffn in model.ffns
        if isinstance(ffn, MoeFfn)
    )
    embedding = 0.0 if model.tied else count.embed
    return count.total - idle - embedding


def layer_parameters(model: Model, layer: Layer, tp: int = 1, expert_ranks: int = 1) -> ParameterCount:
    """Parameters of one layer that one rank holds.

    KV projections are replicated where tp exceeds the KV heads; the latent projections of MLA, the
    router and the norms always are.

    Args:
        model: the model, for its width and norms.
        layer: the layer.
        tp: tensor-parallel degree [1].
        expert_ranks: ranks over which the experts are spread [1].

    Returns:
        Counts by section [1].
    """
    matrix, small = _mixer(layer.mixer, model.hidden, tp)
    norms = float(model.norms * model.hidden)
    return _ffn(layer.ffn, model.hidden, tp, expert_ranks).plus(ParameterCount(linear=matrix, norm=small + norms))


def _mixer(mixer: Mixer, hidden: int, tp: int) -> tuple[float, float]:
    """Matrix and small parameters of a mixer on one rank."""
    if isinstance(mixer, Mla):
        return _mla(mixer, hidden, tp)
    return _gqa(mixer, hidden, tp)


def _gqa(mixer: Gqa, hidden: int, tp: int) -> tuple[float, float]:
    heads = mixer.heads / tp
    kv_heads = local_kv_heads(mixer, tp)
    qkv = heads * mixer.head_dim + kv_heads * (mixer.head_dim + mixer.v_head_dim)
    small = (
        (qkv if mixer.qkv_bias else 0.0)
        + (hidden if mixer.o_bias else 0.0)
        + _qk_norm_values(mixer, heads, kv_heads)
        + (heads if mixer.sinks else 0.0)
    )
    return hidden * qkv + heads * mixer.v_head_dim * hidden, float(small)


def _qk_norm_values(mixer: Gqa, heads: float, kv_heads: float) -> float:
    """Weights of the norms of queries and keys: one vector each, or one per head."""
    if mixer.qk_norm is None:
        return 0.0
    return mixer.head_dim * (heads + kv_heads if mixer.qk_norm == "full" else 2.0)


def _mla(mixer: Mla, hidden: int, tp: int) -> tuple[float, float]:
    heads = mixer.heads / tp
    query = heads * (mixer.nope + mixer.rope)
    queries = hidden * query if mixer.q_rank is None else (hidden + query) * mixer.q_rank
    latent = hidden * (mixer.kv_rank + mixer.rope)
    expand = mixer.kv_rank * heads * (mixer.nope + mixer.v)
    return queries + latent + expand + heads * mixer.v * hidden, float((mixer.q_rank or 0) + mixer.kv_rank)


def _ffn(ffn: Ffn, hidden: int, tp: int, expert_ranks: int) -> ParameterCount:
    count = matrices(ffn)
    if isinstance(ffn, DenseFfn):
        width = ffn.width / tp
        bias = (count - 1) * width + hidden if ffn.bias else 0.0
        return ParameterCount(linear=count * hidden * width, norm=bias)
    biases = ffn.experts / expert_ranks * ((count - 1) * ffn.width + hidden) if ffn.expert_bias else 0.0
    return ParameterCount(
        linear=count * hidden * ffn.shared_width / tp,
        experts=ffn.experts / expert_ranks * count * hidden * ffn.width,
        router=float(hidden * ffn.experts),
        norm=biases + (ffn.experts if ffn.router_bias else 0.0),
    )


def _expert_values(ffn: MoeFfn, hidden: int, width: float) -> float:
    """Parameters of one expert, biases included."""
    count = matrices(ffn)
    return count * hidden * width + (((count - 1) * width + hidden) if ffn.expert_bias else 0.0)
