"""Matrices of a layer: their names in checkpoints, their section of a specification, their size."""

from __future__ import annotations

from collections.abc import Iterator

from roofline.huggingface.layers import Block
from roofline.records import NamedTuple


class Weight(NamedTuple):
    """One matrix, or several of the same name."""

    section: str  # linear, attention, shared or experts
    size: int  # values
    names: tuple[str, ...]  # possible paths in a checkpoint


def layer_weights(index: int, mixer: Block, ffn: Block, hidden: int, family: str) -> Iterator[Weight]:
    """Matrices of one layer that matter for the most common format of a section; small projections are left out."""
    for section, size, modules, names in (*_mixer(mixer, hidden), *_ffn(ffn, hidden)):
        parents = _MODULES.get((family, section), modules)
        yield Weight(section, size, tuple(f"layers.{index}.{parent}.{name}" for parent in parents for name in names))


_Matrix = tuple[str, int, tuple[str, ...], tuple[str, ...]]  # section, values, modules that may hold it, its names

_ATTENTION = ("self_attn", "attn", "attention", "self_attention", "mixer")
_FUSED = ("qkv_proj", "query_key_value", "c_attn", "Wqkv")
_CONV, _CROSS = ("conv",), ("cross_attn",)
_RECURRENT = ("linear_attn", "self_attn", "mamba", "mixer")
_RECURRENT_NAMES = {  # projections of the mixed inputs, the gate and the output
    "gdn": (("in_proj_qkv", "in_proj_qkvz"), ("in_proj_z", "in_proj_qkvz"), ("out_proj",)),
    "kda": (("q_proj",), ("g_proj",), ("o_proj",)),
    "lightning": (("qkv_proj",), ("output_gate",), ("out_proj",)),
    "mamba1": (("in_proj",), ("in_proj",), ("out_proj",)),
    "mamba2": (("in_proj",), ("in_proj",), ("out_proj",)),
}
_DENSE = ("mlp", "feed_forward", "mixer", "ffn")
_EXPERTS = (
    "mlp.experts.0",
    "block_sparse_moe.experts.0",
    "feed_forward.experts.0",
    "mixer.experts.0",
    "ffn.experts.0",
    "moe.experts.0",
    "mlp.experts",
    "experts",
    "moe",
)
_SHARED = (
    "mlp.shared_experts",
    "mlp.shared_expert",
    "mixer.shared_experts",
    "feed_forward.shared_expert",
    "block_sparse_moe.shared_experts",
    "ffn.shared_experts",
    "share_expert",
    "shared_mlp",
)
_MODULES = {("gemma", "experts"): ("experts", "moe"), ("gemma", "shared"): ("mlp",)}  # alongside the dense FFN
_UP = ("gate_proj", "up_proj", "gate_up_proj", "w1", "w3", "fc1", "c_fc", "fc_in", "dense_h_to_4h")
_DOWN = ("down_proj", "w2", "fc2", "c_proj", "fc_out", "dense_4h_to_h")


def _mixer(mixer: Block, hidden: int) -> list[_Matrix]:
    kind = mixer["kind"]
    if kind == "gqa":
        return _gqa(mixer, hidden)
    if kind == "mla":
        return _mla(mixer, hidden)
    if kind == "csa":
        return _csa(mixer, hidden)
    if kind == "none":
        return []
    if kind == "linear":
        return [("attention", hidden * hidden, _ATTENTION, ("linear_attn", "o_proj"))]
    if kind == "short_conv":
        width = hidden * mixer["width"]
        return [("attention", 3 * width, _CONV, ("in_proj",)), ("attention", width, _CONV, ("out_proj",))]
    if kind == "cross":
        queries, width = hidden * mixer["heads"] * mixer["head_dim"], hidden * mixer["width"]
        return [("attention", 2 * queries, _CROSS, ("q_proj", "o_proj")), ("attention", 3 * width, _DENSE, _UP)]
    return _recurrent(mixer, hidden)


def _gqa(mixer: Block, hidden: int) -> list[_Matrix]:
    queries, keys = mixer["heads"] * mixer["head_dim"], mixer["kv_heads"] * mixer["head_dim"]
    gate = 2 if mixer.get("out_gate") else 1
    matrices: list[_Matrix] = [
        ("attention", hidden * queries * gate, _ATTENTION, ("q_proj", *_FUSED)),
        ("attention", hidden * queries, _ATTENTION, ("o_proj", "out_proj", "dense", "c_proj")),
    ]
    if not mixer.get("kv_shared"):
        matrices.append(("attention", hidden * keys, _ATTENTION, ("k_proj", *_FUSED)))
        if not mixer.get("k_eq_v"):
            matrices.append(("attention", hidden * keys, _ATTENTION, ("v_proj", *_FUSED)))
    return matrices


def _mla(mixer: Block, hidden: int) -> list[_Matrix]:
    heads, rank = mixer["heads"], mixer["kv_rank"]
    query, value = heads * (mixer["nope"] + mixer["rope"]), heads * mixer["v"]
    matrices: list[_Matrix] = [
        ("attention", hidden * (rank + mixer["rope"]), _ATTENTION, ("kv_a_proj_with_mqa", "fused_qkv_a_proj")),
        ("attention", rank * heads * (mixer["nope"] + mixer["v"]), _ATTENTION, ("kv_b_proj",)),
        ("attention", hidden * value, _ATTENTION, ("o_proj",)),
    ]
    if "q_rank" in mixer:
        matrices += [
            ("attention", hidden * mixer["q_rank"], _ATTENTION, ("q_a_proj", "fused_qkv_a_proj")),
            ("attention", mixer["q_rank"] * query, _ATTENTION, ("q_b_proj",)),
        ]
    else:
        matrices.append(("attention", hidden * query, _ATTENTION, ("q_proj",)))
    if mixer.get("out_gate"):
        matrices.append(("attention", hidden * value, _ATTENTION, ("g_proj",)))
    indexer = mixer.get("indexer")
    if indexer and indexer.get("own", True):
        keys = indexer["heads"] * indexer["dim"]
        matrices.append(("attention", mixer["q_rank"] * keys, _ATTENTION, ("indexer.wq_b",)))
        matrices.append(("attention", hidden * indexer["dim"], _ATTENTION, ("indexer.wk",)))
    return matrices


def _csa(mixer: Block, hidden: int) -> list[_Matrix]:
    values = mixer["heads"] * mixer["head_dim"]
    return [
        ("attention", hidden * mixer["q_rank"], _ATTENTION, ("wq_a", "q_a_proj")),
        ("attention", mixer["q_rank"] * values, _ATTENTION, ("wq_b", "q_b_proj")),
        ("attention", hidden * mixer["head_dim"], _ATTENTION, ("wkv", "kv_proj")),
        ("attention", values * mixer["o_rank"], _ATTENTION, ("wo_a", "o_a_proj")),
        ("attention", mixer["o_groups"] * mixer["o_rank"] * hidden, _ATTENTION, ("wo_b", "o_b_proj")),
    ]


def _recurrent(mixer: Block, hidden: int) -> list[_Matrix]:
    kind = mixer["kind"]
    if kind == "gdn":
        keys, values = mixer["k_heads"] * mixer["k_dim"], mixer["v_heads"] * mixer["v_dim"]
        mixing, gate, width = 2 * keys + values, values, values
    elif kind in ("kda", "lightning"):
        width = mixer["heads"] * mixer["dim"]
        mixing, gate = 3 * width, width if kind == "lightning" or mixer.get("full_rank_gate") else 0
    elif kind == "mamba2":
        width = mixer["heads"] * mixer["head_dim"]
        mixing, gate = width + 2 * mixer["groups"] * mixer["state"], width
    else:
        width = mixer["inner"]
        mixing, gate = width, width
    inputs, gates, outputs = _RECURRENT_NAMES[kind]
    return [
        ("attention", hidden * mixing, _RECURRENT, inputs),
        ("attention", hidden * gate, _RECURRENT, gates),
        ("attention", hidden * width, _RECURRENT, outputs),
    ]


def _ffn(ffn: Block, hidden: int) -> list[_Matrix]:
    if ffn["kind"] == "none":
        return []
    if ffn["kind"] == "linear":
        return [("linear", hidden * hidden, _DENSE, ("linear_mlp", *_DOWN))]
    up = 2 if ffn["gated"] else 1
    if ffn["kind"] == "dense":
        width = hidden * ffn["width"]
        return [("linear", up * width, _DENSE, _UP), ("linear", width, _DENSE, _DOWN)]
    inner = ffn.get("latent", hidden)
    width = ffn["experts"] * inner * ffn["width"]
    matrices: list[_Matrix] = [("experts", up * width, _EXPERTS, _UP), ("experts", width, _EXPERTS, _DOWN)]
    if ffn.get("shared_width"):
        width = hidden * ffn["shared_width"]
        matrices += [("shared", up * width, _SHARED, _UP), ("shared", width, _SHARED, _DOWN)]
    return matrices
