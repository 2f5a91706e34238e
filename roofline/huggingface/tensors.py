"""Layers from the names and shapes of tensors, or a refusal with the exact parameter count.

Every tensor must have a known role and a shape that agrees with its neighbours. Experts per token and windows of layers
come from the configuration.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Mapping
from math import prod
from typing import Any

from roofline.huggingface.fields import Fields
from roofline.huggingface.layers import Block, LayerList, Shape, part

Tensors = dict[str, tuple[int, ...]]

_IN_LAYER = re.compile(r"^(.*?)\b(layers|h|blocks|block)\.(\d+)\.(.+)$")
_EXPERT = re.compile(r"\bexperts\.(\d+)\.")
_ATTENTION = re.compile(r"attn|attention")
_NORM = re.compile(r"norm|^ln_|^ln\d|_ln$|^ln$")
#: Fields of models that repeat, skip or reorder layers, or share KV caches between them.
_UNUSUAL = re.compile(r"cycles|recurren|loop|kv_shared|cross_attention|altup|per_layer_input|early_exit|zero_expert")
_SIDE_BY_SIDE = ("use_parallel_residual", "parallel_attn")
_NO_WINDOWS = ("max_window_layers", "use_sliding_window")
_TOP_K = ("num_experts_per_tok", "num_experts_per_token", "moe_topk", "moe_top_k", "moe_k", "top_k_experts")

_Q, _K, _V = (("q_proj", "wq"), ("k_proj", "wk"), ("v_proj", "wv"))
_QKV = ("qkv_proj", "query_key_value", "Wqkv", "wqkv", "W_pack", "c_attn", "qkv")
_O = ("o_proj", "out_proj", "wo", "dense", "c_proj")
_Q_NORM, _K_NORM = ("q_norm", "q_layernorm", "query_layernorm"), ("k_norm", "k_layernorm", "key_layernorm")
_GATE, _UP, _DOWN = ("gate_proj", "w1"), ("up_proj", "w3"), ("down_proj", "w2", "output_linear")
_GATE_UP = ("gate_up_proj", "gate_and_up_proj", "input_linear")
_WIDE, _NARROW = ("fc1", "c_fc", "dense_h_to_4h", "fc_in", "up_proj"), ("fc2", "c_proj", "dense_4h_to_h", "fc_out")


class _UnclearError(Exception):
    """Why shapes do not say what the layers are."""


def shape_of_tensors(facts: Fields, tensors: Mapping[str, tuple[int, ...]]) -> Shape:
    """Shape of a model from its tensors; `facts` are the fields of its configuration.

    >>> tensors = {"embed.wte.weight": (10, 4), "norm.weight": (4,), "layers.0.mystery.weight": (4, 4)}
    >>> facts = Fields({"model_type": "new", "num_hidden_layers": 1}, "config.json")
    >>> shape_of_tensors(facts, tensors)  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    ...
    roofline.errors.BadSpec: config.json:1: model_type: 'new' has exactly 60 parameters, but ...
    """
    total = sum(map(prod, tensors.values()))
    try:
        return _shape(facts, dict(tensors))
    except _UnclearError as reason:
        text = f"{facts.text('model_type')!r} has exactly {total} parameters, but {reason}"
        raise facts.fault("model_type", f"{text}; describe it as a specification instead") from None


def _shape(facts: Fields, tensors: Tensors) -> Shape:
    for name, value in facts.values.items():
        if value not in (None, False, 0, [], {}) and _UNUSUAL.search(name):
            raise _UnclearError(f"{name} says that it is no plain stack of layers")
    layers, ends = _by_layer(facts, tensors)
    embedding = _take(ends, "embed_tokens", "wte", "word_embeddings", "embeddings", "embed_in", "tok_embeddings")
    if embedding is None or len(embedding) != 2:
        raise _UnclearError("it has no embedding that is known as one")
    vocab, hidden = embedding
    head = _take(ends, "lm_head", "embed_out", "output")
    if head not in (None, embedding):
        raise _UnclearError(f"its head of {head} does not fit its embedding of {embedding}")
    head_bias = _take(ends, "lm_head", "embed_out", kind="bias") is not None
    final_norms = [name for name in ends if ends[name] == (hidden,) and _NORM.search(_leaf(name))]
    biases = [name for name in final_norms if name.endswith("bias")]
    for name in final_norms:
        ends.pop(name)
    if ends or len(final_norms) - len(biases) != 1:
        raise _UnclearError(f"{next(iter(ends), 'its last norm')} is not known beside its layers")
    blocks: LayerList = []
    norms: set[tuple[int, bool]] = set()
    for index, layer in enumerate(layers):
        mixer, ffn, count, has_bias = _layer(_layer_facts(facts, index), layer, hidden, index)
        blocks.append((mixer, ffn))
        norms.add((count, has_bias))
    if len(norms) != 1:
        raise _UnclearError("its layers have different numbers of norms")
    count, has_bias = norms.pop()
    if has_bias != bool(biases):
        raise _UnclearError("only some of its norms have biases")
    is_whole = all("none" not in (mixer["kind"], ffn["kind"]) for mixer, ffn in blocks)
    family = (facts.text("model_type") or "").partition("_")[0]
    return Shape(
        family,
        hidden,
        vocab,
        tied=head is None,
        layers=blocks,
        norms=count,
        norm_bias=has_bias,
        head_bias=head_bias,
        parallel=is_whole and (count == 1 or any(facts.flag(name) for name in _SIDE_BY_SIDE)),
    )


def _by_layer(facts: Fields, tensors: Tensors) -> tuple[list[Tensors], Tensors]:
    """Tensors of each layer by their name within it, with experts stacked, and the tensors outside of all layers."""
    stacks: dict[str, dict[int, Tensors]] = defaultdict(lambda: defaultdict(dict))
    ends: Tensors = {}
    for name, sizes in tensors.items():
        match = _IN_LAYER.match(name)
        if match is None:
            ends[name] = sizes
        else:
            stacks[match[1] + match[2]][int(match[3])][match[4]] = sizes
    if len(stacks) != 1:
        raise _UnclearError(f"it has {len(stacks)} stacks of layers")
    stack = next(iter(stacks.values()))
    if sorted(stack) != list(range(facts.layers())):
        raise _UnclearError(f"its tensors have {len(stack)} layers and num_hidden_layers is {facts.layers()}")
    return [_stack_experts(stack[index]) for index in sorted(stack)], ends


def _stack_experts(layer: Tensors) -> Tensors:
    """The tensors of a layer with single experts stacked into one tensor, their number as its first size."""
    stacked: Tensors = {}
    experts: dict[str, list[tuple[int, ...]]] = defaultdict(list)
    for name, sizes in layer.items():
        if _EXPERT.search(name):
            experts[_EXPERT.sub("experts.", name)].append(sizes)
        else:
            stacked[name] = sizes
    for name, shapes in experts.items():
        if len(set(shapes)) != 1:
            raise _UnclearError(f"its experts differ in {name}")
        stacked[name] = (len(shapes), *shapes[0])
    return stacked


def _layer_facts(facts: Fields, index: int) -> Fields:
    """Facts with the overrides of one layer."""
    overrides = facts.values.get("per_layer_config")
    if not isinstance(overrides, Mapping):
        return facts
    settings: Mapping[str, Any] = next((item for name, item in overrides.items() if int(name) == index), {})
    return Fields({**facts.values, **settings}, facts.where)


def _layer(facts: Fields, tensors: Tensors, hidden: int, index: int) -> tuple[Block, Block, int, bool]:
    """Mixer, FFN, number of norms, and whether the norms have biases."""
    attention, network = {}, {}
    norms = biases = 0
    for name, sizes in tensors.items():
        module, _, kind = name.rpartition(".")
        path, _, leaf = module.rpartition(".")
        is_norm = bool(_NORM.search(leaf)) and sizes == (hidden,) and not _ATTENTION.search(path)
        if is_norm and kind in ("weight", "bias") and leaf not in ("q_norm", "k_norm"):
            norms, biases = norms + (kind == "weight"), biases + (kind == "bias")
        elif _ATTENTION.search(module):
            attention[name] = sizes
        else:
            network[name] = sizes
    if not norms or biases not in (0, norms):
        raise _UnclearError(f"layer {index} has {norms} norms and {biases} biases of them")
    mixer = _attention(facts, attention, hidden, index) if attention else part("none")
    ffn = _network(facts, network, hidden) if network else part("none")
    unknown = next(iter(attention | network), None)
    if unknown is not None:
        raise _UnclearError(f"{unknown} of layer {index} is not known")
    return mixer, ffn, norms, biases > 0


def _attention(facts: Fields, tensors: Tensors, hidden: int, index: int) -> Block:
    heads = facts.count("num_attention_heads", "n_head", "n_heads")
    queries, keys, values = (_rows(_take(tensors, *names), hidden) for names in (_Q, _K, _V))
    stated_dim = facts.optional("head_dim")
    if queries is None:
        fused = _rows(_take(tensors, *_QKV), hidden)
        head_dim = stated_dim or max(1, hidden // heads)
        kv_heads = facts.count("num_key_value_heads", default=heads)
        if fused is None or fused != (heads + 2 * kv_heads) * head_dim:
            raise _UnclearError(f"layer {index} has no queries, keys and values that are known as such")
        queries, keys, values = heads * head_dim, kv_heads * head_dim, kv_heads * head_dim
        bias = _take(tensors, *_QKV, kind="bias") is not None
    else:
        biases = [_take(tensors, *names, kind="bias") is not None for names in (_Q, _K, _V)]
        bias = biases[0]
        if len(set(biases)) != 1:
            raise _UnclearError(f"only some projections of layer {index} have biases")
    if keys is None or values is None:
        raise _UnclearError(f"layer {index} has queries without keys or values")
    head_dim = stated_dim or max(1, queries // heads)
    output = _rows(_take(tensors, *_O), hidden)
    is_gated = queries == 2 * heads * head_dim and output == heads * head_dim
    kv_heads = max(1, keys // head_dim)
    if queries != heads * head_dim * (1 + is_gated) or kv_heads * head_dim != keys or heads % kv_heads:
        raise _UnclearError(f"{queries} queries and {keys} keys of layer {index} are not those of {heads} heads")
    v_head_dim = values // kv_heads
    if v_head_dim * kv_heads != values or output != heads * v_head_dim:
        raise _UnclearError(f"{values} values and {output} outputs of layer {index} do not fit {heads} heads")
    if is_gated and bias:
        raise _UnclearError(f"the gate of layer {index} has biases")
    return part(
        "gqa",
        heads=heads,
        kv_heads=kv_heads,
        head_dim=head_dim,
        v_head_dim=v_head_dim if v_head_dim != head_dim else None,
        qkv_bias=bias,
        o_bias=_take(tensors, *_O, kind="bias") is not None,
        qk_norm=_qk_norm(tensors, heads, kv_heads, head_dim),
        sinks=_take_sinks(tensors, heads),
        out_gate=is_gated,
        **_window(facts, index),
    )


def _take_sinks(tensors: Tensors, heads: int) -> bool:
    name = next((name for name in tensors if name.rpartition(".")[2] == "sinks" and tensors[name] == (heads,)), "")
    return tensors.pop(name, None) is not None


def _qk_norm(tensors: Tensors, heads: int, kv_heads: int, head_dim: int) -> str | None:
    """Whether queries and keys are normalized per head, over all heads ("full"), or not at all (None)."""
    both = _take(tensors, *_Q_NORM), _take(tensors, *_K_NORM)
    if both == (None, None):
        return None
    if both == ((head_dim,), (head_dim,)):
        return "head"
    if None not in both and [prod(sizes or ()) for sizes in both] == [heads * head_dim, kv_heads * head_dim]:
        return "full"
    raise _UnclearError(f"norms of queries and keys of {both} do not fit its heads")


def _window(facts: Fields, index: int) -> dict[str, int | None]:
    """Window or chunk of a layer [tokens], from the configuration; empty where it attends to the whole context."""
    kinds = facts.values.get("layer_types")
    window, chunk = facts.optional("sliding_window", least=0), facts.optional("attention_chunk_size", least=0)
    if not isinstance(kinds, list) or len(kinds) <= index:
        unknown = (value for name, value in facts.values.items() if "window" in name and name not in _NO_WINDOWS)
        if window or chunk or any(isinstance(value, int) and value > 0 for value in unknown):
            raise _UnclearError("its configuration has a window and does not say which layers slide")
        return {}
    kind = kinds[index]
    if kind == "full_attention":
        return {}
    if kind == "sliding_attention" and window:
        return {"window": window}
    if kind == "chunked_attention" and chunk:
        return {"chunk": chunk}
    raise _UnclearError(f"layer {index} is of the kind {str(kind)[:40]!r}")


def _network(facts: Fields, tensors: Tensors, hidden: int) -> Block:
    """Feed-forward network of a layer: a mixture where one of its tensors belongs to experts."""
    experts = {
        name: tensors.pop(name) for name in list(tensors) if re.search(r"\bexperts\b", name) and "shared" not in name
    }
    if not experts:
        width, is_gated, bias = _dense(tensors, hidden)
        return {"kind": "dense", "width": width, "gated": is_gated} | ({"bias": True} if bias else {})
    shared = {name: tensors.pop(name) for name in list(tensors) if "shared" in name}
    gate = _take(shared, "shared_expert_gate", "shared_experts_gate")
    if gate not in (None, (1, hidden)):
        raise _UnclearError(f"the gate of its shared experts is {gate}")
    shared_width, shared_gated, shared_bias = _dense(shared, hidden) if shared else (0, None, False)
    count, width, is_gated, expert_bias = _experts(experts, hidden)
    if shared_bias or shared_gated not in (None, is_gated) or shared or experts:
        raise _UnclearError(
            f"its shared experts are unlike the routed ones in {next(iter(shared | experts), 'biases')}"
        )
    router = _take(tensors, "gate", "router", "classifier", "wg")
    if router != (count, hidden):
        raise _UnclearError(f"it has no router that is known as one of {count} experts")
    router_biases = [name for name in tensors if prod(tensors[name]) == count and name.endswith("bias")]
    for name in router_biases:
        tensors.pop(name)
    block: Block = {"kind": "moe", "experts": count, "top_k": facts.count(*_TOP_K), "width": width}
    flags = {
        "shared_width": shared_width,
        "router_bias": len(router_biases) == 1,
        "expert_bias": expert_bias,
        "shared_gate": gate is not None,
    }
    if len(router_biases) > 1:
        raise _UnclearError(f"its router has {len(router_biases)} biases")
    return block | {"gated": is_gated} | {name: value for name, value in flags.items() if value}


def _experts(tensors: Tensors, hidden: int) -> tuple[int, int, bool, bool]:
    """Number and width of stacked experts, whether they are gated, and whether they have biases."""
    down = _take(tensors, *_DOWN)
    fused = _take(tensors, *_GATE_UP)
    gate, up = (None, None) if fused else (_take(tensors, *_GATE), _take(tensors, *_UP))
    if down is None or len(down) != 3 or hidden not in down[1:]:
        raise _UnclearError("its experts are not known by their names")
    count, width = down[0], prod(down[1:]) // hidden
    values = sum(prod(sizes) for sizes in (fused, gate, up) if sizes is not None)
    is_gated = values == 2 * count * width * hidden
    if not is_gated and values != count * width * hidden:
        raise _UnclearError(f"its experts of width {width} have {values} values before it")
    expected = sorted((count * hidden, count * width * (1 + is_gated)))  # biases of the down and the up projection
    biases = [tensors.pop(name) for name in list(tensors) if name.endswith("bias")]
    if sorted(map(prod, biases)) not in ([], expected):
        raise _UnclearError("only some matrices of its experts have biases")
    return count, width, is_gated, bool(biases)


def _dense(tensors: Tensors, hidden: int) -> tuple[int, bool, bool]:
    """Width of a dense FFN, whether it is gated, and whether it has biases; its tensors are removed."""
    names: tuple[tuple[str, ...], ...] = (_GATE_UP, _DOWN)
    first = _rows(_take(tensors, *_GATE_UP), hidden)
    parts = 1
    if first is None and any(_leaf(name) in _GATE for name in tensors):
        names, parts = (_GATE, _UP, _DOWN), 2
        first = _rows(_take(tensors, *_GATE), hidden)
        second = _rows(_take(tensors, *_UP), hidden)
        if first != second:
            raise _UnclearError(f"a gate of {first} and a network of {second} are not of one width")
    is_gated = first is not None
    width = first if parts == 2 or first is None else first // 2
    if width is None:
        names = (_WIDE, (*_NARROW, *_DOWN))
        width = _rows(_take(tensors, *_WIDE), hidden)
    if width is None or _rows(_take(tensors, *names[-1]), hidden) != width:
        raise _UnclearError(f"{next(iter(tensors), 'its network')} is not known as a feed-forward network")
    biases = [_take(tensors, *leaves, kind="bias") is not None for leaves in names]
    if len(set(biases)) != 1:
        raise _UnclearError("only some matrices of its network have biases")
    return width, is_gated, biases[0]


def _leaf(name: str) -> str:
    """Last module in the name of a tensor; the name of a stacked expert ends with the module itself."""
    module, _, kind = name.rpartition(".")
    return module.rpartition(".")[2] if kind in ("weight", "bias") else kind


def _take(tensors: Tensors, *leaves: str, kind: str = "weight") -> tuple[int, ...] | None:
    """Remove the only tensor of a role from those left and return its shape; None where none or several match."""
    matches = [name for name in tensors if _leaf(name) in leaves and (name.endswith("bias") == (kind == "bias"))]
    return tensors.pop(matches[0]) if len(matches) == 1 else None


def _rows(sizes: tuple[int, ...] | None, hidden: int) -> int | None:
    """The size of a matrix in the dimension that is not the model width, whichever way it is stored."""
    if sizes is None:
        return None
    if len(sizes) != 2 or hidden not in sizes:
        raise _UnclearError(f"a matrix of {sizes} does not work on {hidden} values")
    return sizes[0] if sizes[1] == hidden else sizes[1]
