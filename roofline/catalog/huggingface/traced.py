"""Models of types without a reader: their tensors from transformers, and the layers that the shapes leave."""

from __future__ import annotations

import copy
import re
from collections import defaultdict
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from importlib import import_module
from importlib.util import find_spec
from math import prod
from typing import Any

from roofline.catalog.huggingface.blocks import LARGEST, MOST_LAYERS, Block, Fields, LayerList, Shape, part
from roofline.support.records import NamedTuple

# Tensors of an unknown model type, from its class in transformers built on torch's meta device.
#
# Nothing is downloaded or allocated. Needs the extra `trace` (transformers) and torch.

_AUTO = ("AutoModelForCausalLM", "AutoModelForImageTextToText", "AutoModelForMultimodalLM")
_TOWERS = re.compile(r"vision|visual|audio|speech|image_newline|multi_modal_projector|mm_projector")
_DRAFTS = re.compile(r"(^|\.)(mtp|nextn)(\.|_|$)")
_LAYER = re.compile(r"\blayers\.(\d+)\.")
_MOST_EXPERTS = 10_000


class MetaTensor(NamedTuple):
    """One tensor of a checkpoint."""

    name: str
    shape: tuple[int, ...]
    is_parameter: bool  # else a buffer, such as the correction bias of a router
    is_draft: bool  # of a draft module

    @property
    def values(self) -> int:
        """Number of values."""
        return prod(self.shape)


class ClassTensors(NamedTuple):
    """A model as transformers builds it from a configuration."""

    facts: Mapping[str, Any]  # fields of the text model, under its own and under common names
    tensors: Mapping[str, tuple[int, ...]]  # shapes of its parameters and of its routers' correction biases
    version: str  # of transformers


def class_tensors(fields: Fields) -> ClassTensors | None:
    """Tensors of the class of a configuration; None without torch and transformers, or without such a class."""
    model_type = fields.text("model_type")
    if model_type is None or find_spec("torch") is None or find_spec("transformers") is None:
        return None
    transformers = import_module("transformers")
    known = import_module("transformers.models.auto.configuration_auto").CONFIG_MAPPING
    if model_type not in known:
        return None
    _check_sizes(fields)
    with _quiet(transformers):
        try:
            config = known[model_type].from_dict(_with_floats(dict(fields.values)))
            if _auto_class(config) is None:
                return None
            tensors = meta_tensors(config)
        except Exception as fault:  # noqa: BLE001 - a class has a hundred ways to refuse a configuration
            reason = " ".join(str(fault).split())[:200] or type(fault).__name__
            text = f"transformers {transformers.__version__} refuses this configuration of {model_type!r}: {reason}"
            raise fields.fault("model_type", text) from None
        facts = _facts(config.get_text_config(decoder=True))
    shapes = {
        tensor.name: tensor.shape
        for tensor in tensors
        if not tensor.is_draft and (tensor.is_parameter or tensor.name.endswith("correction_bias"))
    }
    return ClassTensors(facts, shapes, transformers.__version__)


def meta_tensors(config: Any) -> list[MetaTensor]:
    """Tensors of the text model of a configuration in the order of the class, tied ones under their first name."""
    auto = _auto_class(config)
    if auto is None:
        raise LookupError(f"transformers has no decoder class for {config.model_type}")
    with import_module("torch").device("meta"):
        model = auto.from_config(copy.deepcopy(config))
    text = config.get_text_config(decoder=True)
    text_ids = None if text is config else _text_tensor_ids(model)
    layers = getattr(text, "num_hidden_layers", None)
    parameter = import_module("torch").nn.Parameter
    seen: set[int] = set()
    tensors = []
    for name, tensor in model.state_dict(keep_vars=True).items():
        if id(tensor) in seen or (text_ids is not None and id(tensor) not in text_ids):
            continue
        seen.add(id(tensor))
        index = _LAYER.search(name)
        is_beyond = index is not None and isinstance(layers, int) and int(index[1]) >= layers
        is_draft = is_beyond or _DRAFTS.search(name) is not None
        tensors.append(MetaTensor(name, tuple(tensor.shape), isinstance(tensor, parameter), is_draft))
    return tensors


def _auto_class(config: Any) -> Any:
    """Auto class of transformers that builds the decoder, or the wrapper around it; None if there is none."""
    transformers = import_module("transformers")
    is_wrapper = config.get_text_config(decoder=True) is not config
    for name in (*_AUTO[1:], _AUTO[0]) if is_wrapper else _AUTO:
        auto = getattr(transformers, name, None)
        if auto is not None and type(config) in auto._model_mapping:  # noqa: SLF001 - there is no public look-up
            return auto
    return None


def _facts(text: Any) -> dict[str, Any]:
    """Fields of the text model, under its own and under common names."""
    facts = dict(text.to_dict())
    for name in ("num_attention_heads", "num_key_value_heads", "hidden_size", "num_hidden_layers"):
        alias = text.attribute_map.get(name, name)
        if facts.get(name) is None and facts.get(alias) is not None:
            facts[name] = facts[alias]
    return facts


def _with_floats(value: Any) -> Any:
    """A copy with floats that JSON cannot hold, such as `{"__float__": "Infinity"}`, as numbers."""
    if isinstance(value, Mapping):
        if set(value) == {"__float__"} and isinstance(value["__float__"], str):
            return float(value["__float__"])
        return {name: _with_floats(item) for name, item in value.items()}
    return [_with_floats(item) for item in value] if isinstance(value, list) else value


def _text_tensor_ids(model: Any) -> set[int]:
    """Identities of the tensors of the decoder inside a wrapper, its embedding and its head."""
    decoder = model.get_decoder()
    if decoder is None or decoder is model:
        return {id(tensor) for name, tensor in model.state_dict(keep_vars=True).items() if not _TOWERS.search(name)}
    parts = (decoder, model.get_input_embeddings(), model.get_output_embeddings())
    return {id(tensor) for part in parts if part is not None for tensor in part.state_dict(keep_vars=True).values()}


def _check_sizes(fields: Fields) -> None:
    """Refuse sizes that take too long to build: every module is created, even without values."""
    most = {"layers": MOST_LAYERS, "layer": MOST_LAYERS, "experts": _MOST_EXPERTS}
    for name, value in fields.values.items():
        if isinstance(value, Mapping) and isinstance(name, str):
            _check_sizes(Fields(value, fields.where))
        elif isinstance(value, int) and isinstance(name, str):
            limit = most.get(name.rpartition("_")[2], LARGEST)
            if value > limit:
                raise fields.fault(name, f"{value} must not exceed {limit}")


@contextmanager
def _quiet(transformers: Any) -> Iterator[None]:
    """Silence the warnings of transformers."""
    before = transformers.logging.get_verbosity()
    transformers.logging.set_verbosity(50)
    try:
        yield
    finally:
        transformers.logging.set_verbosity(before)


# Layers from the names and shapes of tensors, or a refusal with the exact parameter count.
#
# Every tensor must have a known role and a shape that agrees with its neighbours. Experts per token and windows of
# layers come from the configuration.

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
    roofline.support.errors.BadSpec: config.json:1: model_type: 'new' has exactly 60 parameters, but ...
    """
    total = sum(map(prod, tensors.values()))
    try:
        return _shape(facts, dict(tensors))
    except _UnclearError as reason:
        text = f"{facts.text('model_type')!r} has exactly {total} parameters, but {reason}"
        raise facts.fault("model_type", f"{text}; describe it as a specification instead") from None


def _shape(facts: Fields, tensors: Tensors) -> Shape:
    if 0 in map(prod, tensors.values()):
        raise _UnclearError("one of its tensors is empty")
    for name, value in facts.values.items():
        if value not in (None, False, 0, [], {}) and _UNUSUAL.search(name):
            raise _UnclearError(f"{name} says that it is not a plain stack of layers")
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


# Matrices of a layer: their names in checkpoints, their section of a specification, their size.


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

_ATTENTION_MODULES = ("self_attn", "attn", "attention", "self_attention", "mixer")
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
_SHARED_EXPERT_MODULES = (
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
_UP_MODULES = ("gate_proj", "up_proj", "gate_up_proj", "w1", "w3", "fc1", "c_fc", "fc_in", "dense_h_to_4h")
_DOWN_MODULES = ("down_proj", "w2", "fc2", "c_proj", "fc_out", "dense_4h_to_h")


def _mixer(mixer: Block, hidden: int) -> list[_Matrix]:
    kind = mixer["kind"]
    if kind in _ATTENTIONS:
        return [("attention", size, _ATTENTION_MODULES, names) for size, names in _ATTENTIONS[kind](mixer, hidden)]
    if kind == "none":
        return []
    if kind == "linear":
        return [("attention", hidden * hidden, _ATTENTION_MODULES, ("linear_attn", "o_proj"))]
    if kind == "short_conv":
        width = hidden * mixer["width"]
        return [("attention", 3 * width, _CONV, ("in_proj",)), ("attention", width, _CONV, ("out_proj",))]
    if kind == "cross":
        queries, width = hidden * mixer["heads"] * mixer["head_dim"], hidden * mixer["width"]
        return [("attention", 2 * queries, _CROSS, ("q_proj", "o_proj")), ("attention", 3 * width, _DENSE, _UP_MODULES)]
    return _recurrent(mixer, hidden)


_Projections = Iterator[tuple[int, tuple[str, ...]]]  # values and names of a matrix of attention


def _gqa(mixer: Block, hidden: int) -> _Projections:
    queries, keys = mixer["heads"] * mixer["head_dim"], mixer["kv_heads"] * mixer["head_dim"]
    yield hidden * queries * (2 if mixer.get("out_gate") else 1), ("q_proj", *_FUSED)
    yield hidden * queries, ("o_proj", "out_proj", "dense", "c_proj")
    if not mixer.get("kv_shared"):
        yield hidden * keys, ("k_proj", *_FUSED)
        if not mixer.get("k_eq_v"):
            yield hidden * keys, ("v_proj", *_FUSED)


def _mla(mixer: Block, hidden: int) -> _Projections:
    heads, rank = mixer["heads"], mixer["kv_rank"]
    query, value = heads * (mixer["nope"] + mixer["rope"]), heads * mixer["v"]
    if not mixer.get("kv_shared"):
        yield hidden * (rank + mixer["rope"]), ("kv_a_proj_with_mqa", "fused_qkv_a_proj")
    yield rank * heads * (mixer["nope"] + mixer["v"]), ("kv_b_proj",)
    yield hidden * value, ("o_proj",)
    if "q_rank" in mixer:
        yield hidden * mixer["q_rank"], ("q_a_proj", "fused_qkv_a_proj")
        yield mixer["q_rank"] * query, ("q_b_proj",)
    else:
        yield hidden * query, ("q_proj",)
    if mixer.get("out_gate"):
        yield hidden * value, ("g_proj",)
    indexer = mixer.get("indexer")
    if indexer and indexer.get("own", True):
        yield mixer.get("q_rank", hidden) * indexer["heads"] * indexer["dim"], ("indexer.wq_b",)
        yield hidden * indexer["dim"], ("indexer.wk",)


def _csa(mixer: Block, hidden: int) -> _Projections:
    values = mixer["heads"] * mixer["head_dim"]
    yield hidden * mixer["q_rank"], ("wq_a", "q_a_proj")
    yield mixer["q_rank"] * values, ("wq_b", "q_b_proj")
    yield hidden * mixer["head_dim"], ("wkv", "kv_proj")
    yield values * mixer["o_rank"], ("wo_a", "o_a_proj")
    yield mixer["o_groups"] * mixer["o_rank"] * hidden, ("wo_b", "o_b_proj")


_ATTENTIONS = {"gqa": _gqa, "relative": _gqa, "blocks": _gqa, "mla": _mla, "csa": _csa, "csa2": _csa}


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
        width = mixing = gate = mixer["inner"]
    inputs, gates, outputs = _RECURRENT_NAMES[kind]
    projections = ((mixing, inputs), (gate, gates), (width, outputs))
    return [("attention", hidden * size, _RECURRENT, names) for size, names in projections]


def _ffn(ffn: Block, hidden: int) -> list[_Matrix]:
    if ffn["kind"] == "none":
        return []
    if ffn["kind"] == "linear":
        return [("linear", hidden * hidden, _DENSE, ("linear_mlp", *_DOWN_MODULES))]
    up = 2 if ffn["gated"] else 1
    if ffn["kind"] == "dense":
        width = hidden * ffn["width"]
        return [("linear", up * width, _DENSE, _UP_MODULES), ("linear", width, _DENSE, _DOWN_MODULES)]
    inner = ffn.get("latent", hidden)
    parts: list[tuple[str, int, tuple[str, ...]]] = [("experts", ffn["experts"] * inner * ffn["width"], _EXPERTS)]
    if ffn.get("shared_width"):
        parts.append(("shared", hidden * ffn["shared_width"], _SHARED_EXPERT_MODULES))
    sides = ((up, _UP_MODULES), (1, _DOWN_MODULES))
    return [(section, side * width, modules, names) for section, width, modules in parts for side, names in sides]
