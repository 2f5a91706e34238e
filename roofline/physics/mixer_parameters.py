"""Parameters of mixers: the shapes of their matrices, and the small vectors beside them."""

from __future__ import annotations

from roofline.ops import Real
from roofline.physics.cache import conv_channels, local_kv_heads
from roofline.specs.layers import Csa, Gdn, Gqa, Indexer, Kda, Lightning, Linear, Mamba1, Mamba2, Mixer, Mla, NoMixer

__all__ = ["compressed_values", "mixer_parameters"]

_INDEXED_RATIO = 2  # compressed entries that an indexer chooses from overlap: two projections in the place of one


def mixer_parameters(mixer: Mixer, hidden: Real, tp: Real = 1) -> tuple[Real, Real]:
    """Parameters of a mixer on one rank: of its matrices, and of its norms, biases and other vectors.

    KV projections are replicated where tp exceeds the KV heads; latent projections and indexers always are.

    Args:
        mixer: the mixer.
        hidden: model width [1].
        tp: tensor-parallel degree [1].

    Returns:
        Two counts [1].

    Source:
        Shapes of the checkpoints' tensors; totals are checked against published ones in the tests.
    """
    match mixer:
        case Gqa():
            return _gqa(mixer, hidden, tp)
        case Mla():
            return _mla(mixer, hidden, tp)
        case Csa():
            return _csa(mixer, hidden, tp)
        case Gdn():
            return _gdn(mixer, hidden, tp)
        case Kda():
            return _kda(mixer, hidden, tp)
        case Lightning():
            width = mixer.heads * mixer.dim / tp
            return 5.0 * hidden * width, width  # q, k, v, gate, output; norm of the output
        case Mamba2():
            return _mamba2(mixer, hidden, tp)
        case Mamba1():
            return _mamba1(mixer, hidden, tp)
        case Linear():
            return 1.0 * hidden * hidden / tp, 0.0
        case NoMixer():
            return 0.0, 0.0


def compressed_values(mixer: Csa) -> int:
    """Values per token that are projected to make compressed entries and their index keys.

    Args:
        mixer: compressed attention.

    Returns:
        Contents and gates together [1].

    Source:
        DeepSeek-V4 implementations (transformers, vLLM), 2026: entries that an indexer chooses from
        overlap, so that each token gives to two of them.
    """
    if not mixer.ratio:
        return 0
    if mixer.indexer is None:
        return 2 * mixer.head_dim
    return 2 * _INDEXED_RATIO * (mixer.head_dim + mixer.indexer.dim)


def _gqa(mixer: Gqa, hidden: Real, tp: Real) -> tuple[Real, Real]:
    heads, kv_heads = mixer.heads / tp, local_kv_heads(mixer, tp)
    values = 0 if mixer.k_eq_v else mixer.v_head_dim
    qkv = heads * mixer.head_dim + kv_heads * (mixer.head_dim + values)
    gate = heads * mixer.v_head_dim if mixer.out_gate else 0.0
    index, index_small = _gqa_indexer(mixer.indexer, kv_heads / mixer.kv_heads)
    small = (
        (qkv if mixer.qkv_bias else 0.0)
        + (1.0 * hidden if mixer.o_bias else 0.0)
        + _qk_norm_values(mixer, heads, kv_heads)
        + (heads if mixer.sinks else 0.0)
    )
    return hidden * (qkv + gate + index) + heads * mixer.v_head_dim * hidden, small + index_small


def _qk_norm_values(mixer: Gqa, heads: Real, kv_heads: Real) -> Real:
    """Weights of the norms of queries and keys: one vector each, or one per head."""
    if mixer.qk_norm is None:
        return 0.0
    return mixer.head_dim * (heads + kv_heads if mixer.qk_norm == "full" else 2.0)


def _gqa_indexer(indexer: Indexer | None, share: Real) -> tuple[Real, Real]:
    """Columns of the index queries (split like KV heads) and of the one index key, and their norms."""
    if indexer is None or not indexer.own:
        return 0.0, 0.0
    return (share * indexer.heads + 1.0) * indexer.dim, 2.0 * indexer.dim


def _mla(mixer: Mla, hidden: Real, tp: Real) -> tuple[Real, Real]:
    heads = mixer.heads / tp
    query = heads * (mixer.nope + mixer.rope)
    queries = hidden * query if mixer.q_rank is None else (hidden + query) * mixer.q_rank
    latent = hidden * (mixer.kv_rank + mixer.rope)
    expand = mixer.kv_rank * heads * (mixer.nope + mixer.v)
    gate = hidden * heads * mixer.v if mixer.out_gate else 0.0
    index, index_small = _mla_indexer(mixer, hidden)
    matrices = queries + latent + expand + heads * mixer.v * hidden + gate + index
    return matrices, 1.0 * ((mixer.q_rank or 0) + mixer.kv_rank) + index_small


def _mla_indexer(mixer: Mla, hidden: Real) -> tuple[Real, Real]:
    """Index queries from the query latent, index key and head weights from the stream; norm of the key."""
    indexer = mixer.indexer
    if indexer is None or not indexer.own:
        return 0.0, 0.0
    queries = (mixer.q_rank or 0) * indexer.heads * indexer.dim
    return 1.0 * (queries + hidden * (indexer.dim + indexer.heads)), 2.0 * indexer.dim


def _csa(mixer: Csa, hidden: Real, tp: Real) -> tuple[Real, Real]:
    heads, dim = mixer.heads / tp, mixer.head_dim
    queries = hidden * mixer.q_rank + mixer.q_rank * heads * dim
    output = heads * dim * mixer.o_rank + mixer.o_groups / tp * mixer.o_rank * hidden
    matrices = queries + hidden * (dim + compressed_values(mixer)) + output
    small = mixer.q_rank + dim + heads  # norms of query and key, sinks
    if mixer.ratio:
        indexer = mixer.indexer
        overlap = 1 if indexer is None else _INDEXED_RATIO
        small += dim + overlap * mixer.ratio * dim  # norm and position bias of the entries
        if indexer is not None:
            matrices += mixer.q_rank * indexer.heads * indexer.dim + hidden * indexer.heads
            small += indexer.dim + overlap * mixer.ratio * indexer.dim
    return matrices, 1.0 * small


def _gdn(mixer: Gdn, hidden: Real, tp: Real) -> tuple[Real, Real]:
    keys, values = mixer.k_heads * mixer.k_dim / tp, mixer.v_heads * mixer.v_dim / tp
    heads = mixer.v_heads / tp
    matrices = hidden * (2 * keys + 2 * values + 2 * heads) + values * hidden
    return matrices, mixer.conv * conv_channels(mixer, tp) + 2 * heads + mixer.v_dim


def _kda(mixer: Kda, hidden: Real, tp: Real) -> tuple[Real, Real]:
    heads, width = mixer.heads / tp, mixer.heads * mixer.dim / tp
    gate = hidden * width if mixer.full_rank_gate else (hidden + width) * mixer.dim
    decay = (hidden + width) * mixer.dim
    matrices = 4 * hidden * width + hidden * heads + decay + gate
    return matrices, mixer.conv * conv_channels(mixer, tp) + heads + width + mixer.dim


def _mamba2(mixer: Mamba2, hidden: Real, tp: Real) -> tuple[Real, Real]:
    heads, inner = mixer.heads / tp, mixer.heads * mixer.head_dim / tp
    channels = conv_channels(mixer, tp)
    matrices = hidden * (inner + channels + heads) + inner * hidden
    return matrices, (mixer.conv + 1) * channels + 3 * heads + inner


def _mamba1(mixer: Mamba1, hidden: Real, tp: Real) -> tuple[Real, Real]:
    inner = mixer.inner / tp
    inputs = mixer.dt_rank + 2 * mixer.state
    matrices = 2 * hidden * inner + inner * inputs + mixer.dt_rank * inner + inner * hidden
    norms = inputs if mixer.inner_norms else 0
    small = (mixer.conv + 1) * inner + inner + inner * mixer.state + inner + norms
    return matrices, small
