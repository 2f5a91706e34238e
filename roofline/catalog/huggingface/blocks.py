"""Blocks that readers share: fields of a configuration, layers, groups of layers, patterns of names."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from fnmatch import translate
from time import thread_time
from typing import Any

from roofline.support.errors import BadSpec, printable, shown
from roofline.support.records import NamedTuple, dataclass, field

# Fields of a Hugging Face configuration, read strictly: errors name the field.

#: Largest count and most layers of a configuration; a file with more is damaged.
LARGEST = 1_000_000_000
MOST_LAYERS = 1000
_LONGEST_TEXT, _LONGEST_NAME, _LONGEST_FAULT = 10_000, 200, 1000  # [characters]


class Fields:
    """One mapping of a configuration; a field that is null counts as absent."""

    def __init__(self, values: Mapping[str, Any], where: str, prefix: str = "") -> None:
        self.values = values
        self.where = where
        self._prefix = prefix

    def fault(self, name: str, text: str) -> BadSpec:
        """The error to raise for a field."""
        message = printable(f"{self._prefix}{name[:_LONGEST_NAME]}: {text}")
        if len(message) > _LONGEST_FAULT:
            message = f"{message[:_LONGEST_FAULT]}..."
        return BadSpec(f"{self.where}:1: {message}")

    def has(self, *names: str) -> bool:
        """Whether any of the fields is there and not null."""
        return any(self.values.get(name) is not None for name in names)

    def pass_over(self, *names: str) -> None:
        """Mark fields without a meaning for the family as read, so that `check_unread` accepts them."""
        for name in names:
            self.values.get(name)

    def require(self, *names: str) -> None:
        """Refuse a configuration that lacks fields, naming them all; ``a|b`` is satisfied by either."""
        missing = [name.replace("|", " or ") for name in names if not self.has(*name.split("|"))]
        if missing:
            text = "missing" if len(missing) == 1 else "all missing"
            raise self.fault(", ".join(missing), f"{text}; needed to build the layers")

    def refuse(self, name: str, text: str, *, value: bool = True) -> None:
        """Refuse a configuration whose flag has this value; a missing flag has the other."""
        if self.flag(name, default=not value) is value:
            raise self.fault(name, text)

    def optional(self, *names: str, least: int = 1) -> int | None:
        """A whole number under the first of the names that is there; None without any."""
        for name in names:
            value = self.values.get(name)
            if value is not None:
                return self._whole(name, value, least)
        return None

    def count(self, *names: str, default: int | None = None, least: int = 1) -> int:
        """A whole number under the first of the names that is there; required unless there is a default."""
        value = self.optional(*names, least=least)
        if value is None:
            value = default
        if value is None:
            raise self.fault(" or ".join(names), "missing")
        return value

    def layers(self, *names: str) -> int:
        names = names or ("num_hidden_layers",)
        return self.limited(names[0], self.count(*names), MOST_LAYERS, "layers")

    def flag(self, name: str, *, default: bool = False) -> bool:
        value = self.values.get(name)
        if value is None:
            return default
        if not isinstance(value, bool):
            raise self.fault(name, f"{shown(value)} must be true or false")
        return value

    def number(self, name: str, default: float) -> float:
        """A positive finite number."""
        value = self.values.get(name)
        if value is None:
            return default
        if isinstance(value, bool) or not isinstance(value, (int, float)):
            raise self.fault(name, f"{shown(value)} must be a number")
        if not (0 < value <= LARGEST and math.isfinite(value)):
            raise self.fault(name, f"{shown(value)} must be above 0 and at most {LARGEST}")
        return float(value)

    def text(self, name: str) -> str | None:
        value = self.values.get(name)
        if value is not None and not isinstance(value, str):
            raise self.fault(name, f"{shown(value)} must be text")
        if value is not None and len(value) > _LONGEST_TEXT:
            raise self.fault(name, f"text of {len(value)} characters exceeds the limit of {_LONGEST_TEXT}")
        return value

    def counts(self, name: str, length: int | None = None, *, least: int = 0) -> list[int] | None:
        items = self._items(name, length)
        return None if items is None else [self._whole(name, item, least) for item in items]

    def choices(self, name: str, allowed: Collection[str], length: int | None = None) -> list[str] | None:
        """A list of words that are all among the allowed ones."""
        items = self._items(name, length)
        for item in items or ():
            if not isinstance(item, str) or item not in allowed:
                raise self.fault(name, f"{shown(item)} is not supported; only {', '.join(sorted(allowed))}")
        return items

    def section(self, name: str) -> Fields | None:
        """A nested mapping; None where it is absent."""
        value = self.values.get(name)
        if value is None:
            return None
        if not isinstance(value, Mapping):
            raise self.fault(name, f"{shown(value)} must be a mapping")
        return Fields(value, self.where, f"{self._prefix}{name[:_LONGEST_NAME]}.")

    def sections(self, name: str, length: int | None = None) -> list[Fields]:
        sections = []
        for position, item in enumerate(self._items(name, length) or ()):
            if not isinstance(item, Mapping):
                raise self.fault(name, f"{shown(item)} must be a mapping")
            sections.append(Fields(item, self.where, f"{self._prefix}{name}.{position}."))
        return sections

    def marks(self, name: str, length: int, kind: str, *others: str) -> list[bool] | None:
        """Whether each of a list of words is a certain one of those allowed; None where there is no list."""
        kinds = self.choices(name, {kind, *others}, length)
        return None if kinds is None else [word == kind for word in kinds]

    def bounded(self, name: str, value: int, fault: str, most: int = LARGEST) -> int:
        """A value that follows from several fields, unless it exceeds the limit; `name` is the field to blame."""
        if value > most:
            raise self.fault(name, fault)
        return value

    def limited(self, name: str, number: int, most: int, what: str) -> int:
        return self.bounded(name, number, f"{number} {what} exceed the limit of {most}", most)

    def divided(self, name: str, total: int, parts: int) -> int:
        """The quotient, which must be whole; `name` is the field to blame."""
        if parts > total or total % parts:
            raise self.fault(name, f"{parts} does not divide {total}")
        return total // parts

    def _items(self, name: str, length: int | None) -> list[Any] | None:
        value = self.values.get(name)
        if value is None:
            return None
        if not isinstance(value, list):
            raise self.fault(name, f"{shown(value)} must be a list")
        if length is not None and len(value) != length:
            raise self.fault(name, f"has {len(value)} entries for {length} layers")
        return value

    def _whole(self, name: str, value: object, least: int) -> int:
        if isinstance(value, bool) or not isinstance(value, int):
            raise self.fault(name, f"{shown(value)} must be a whole number")
        if not least <= value <= LARGEST:
            raise self.fault(name, f"{shown(value)} must be between {least} and {LARGEST}")
        return value


def json_kind(value: object) -> str:
    """What a value of JSON is, in words."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true or false"
    kinds = ((Mapping, "a mapping"), (list, "a list"), (str, "text"), ((int, float), "a number"))
    return next(name for kind, name in kinds if isinstance(value, kind))


# Building blocks of layers, in the words of a specification, from the fields of a configuration.

Block = dict[str, Any]
LayerList = list[tuple[Block, Block]]

#: Fields that nearly every configuration has.
SIZES = ("hidden_size", "num_hidden_layers", "num_attention_heads", "vocab_size")

#: Fields that every configuration of a plain dense decoder has.
DENSE = ("hidden_size", "num_hidden_layers", "num_attention_heads", "intermediate_size", "vocab_size")

_EXPERTS = ("n_routed_experts", "num_local_experts", "num_experts", "moe_num_experts")
_TOP_K = (
    "num_experts_per_tok",
    "num_experts_per_token",
    "experts_per_token",
    "top_k_experts",
    "moe_top_k",
    "moe_k",
    "moe_topk",
)
_COUNTS_OF_SHARED_EXPERTS = ("n_shared_experts", "num_shared_experts", "moe_num_shared_experts")
_MOST_DRAFTS = 100
_SLIDING = {"sliding_attention": True, "full_attention": False}


@dataclass(frozen=True, slots=True)
class Shape:
    """A model as its family reads it from a configuration."""

    family: str
    hidden: int
    vocab: int
    tied: bool
    layers: LayerList  # one mixer and one feed-forward network each
    norms: int = 2
    norm_bias: bool = False
    head_bias: bool = False
    parallel: bool = False
    streams: int = 1
    mtp: int = 0
    extras: Mapping[str, Any] = field(default_factory=dict)  # other fields of the specification


def shape(
    fields: Fields,
    family: str,
    layers: LayerList,
    *,
    tied: bool = False,
    hidden: tuple[str, ...] = ("hidden_size",),
    vocab: str = "vocab_size",
    **more: Any,
) -> Shape:
    """Shape of a model; `hidden` and `vocab` are the fields that state its width and its vocabulary."""
    width, rows = fields.count(*hidden), fields.count(vocab)
    return Shape(family, width, rows, fields.flag("tie_word_embeddings", default=tied), layers, **more)


def conv_bias(fields: Fields, name: str) -> None:
    """Refuse a state-space layer whose short convolution has no bias; a missing field means that it has one."""
    fields.refuse(name, "a short convolution without biases is not supported", value=False)


def drafts(fields: Fields) -> int:
    """Number of draft modules for speculative decoding."""
    count = fields.count("num_nextn_predict_layers", "mtp_num_hidden_layers", "num_mtp_modules", default=0, least=0)
    return fields.limited("num_nextn_predict_layers", count, _MOST_DRAFTS, "draft modules")


def part(kind: str, **fields: Any) -> Block:
    """A mixer or feed-forward network; fields that are None or False are left out."""
    return {"kind": kind} | {name: value for name, value in fields.items() if value is not None and value is not False}


def uniform(count: int, mixer: Block, ffn: Block) -> LayerList:
    return [(mixer, ffn)] * count


def gqa(fields: Fields, *, heads: int | None = None, kv_heads: int | None = None, **traits: Any) -> Block:
    """Grouped-query attention; without a stated number of KV heads, every query head has its own."""
    heads = heads or fields.count("num_attention_heads")
    kv_heads = kv_heads or fields.count("num_key_value_heads", default=heads)
    fields.divided("num_key_value_heads", heads, kv_heads)
    head_dim = traits.pop("head_dim", None) or fields.optional("head_dim")
    if head_dim is None:
        head_dim = fields.divided("num_attention_heads", fields.count("hidden_size"), heads)
    return part("gqa", heads=heads, kv_heads=kv_heads, head_dim=head_dim, **traits)


def gqa_by_window(fields: Fields, layer_windows: Sequence[int | None], **traits: Any) -> list[Block]:
    """Grouped-query attention of each layer, which differs by its window alone."""
    mixers = {window: gqa(fields, window=window, **traits) for window in dict.fromkeys(layer_windows)}
    return [mixers[window] for window in layer_windows]


def attention_biases(fields: Fields, name: str = "attention_bias", *, default: bool = False) -> dict[str, bool]:
    """Traits of attention whose projections all have biases, or none."""
    bias = fields.flag(name, default=default)
    return {"qkv_bias": bias, "o_bias": bias}


def mla(fields: Fields, **traits: Any) -> Block:
    """Multi-head latent attention (MLA)."""
    fields.require("num_attention_heads", "kv_lora_rank", "qk_nope_head_dim", "qk_rope_head_dim", "v_head_dim")
    fields.refuse("attention_bias", "latent attention with biases is not supported")
    fields.pass_over("head_dim", "num_key_value_heads", "qk_head_dim")  # the last is the sum of two that are read
    return part(
        "mla",
        heads=fields.count("num_attention_heads"),
        q_rank=fields.optional("q_lora_rank"),
        kv_rank=fields.count("kv_lora_rank"),
        nope=fields.count("qk_nope_head_dim"),
        rope=fields.count("qk_rope_head_dim", least=0),
        v=fields.count("v_head_dim"),
        **traits,
    )


def dense(fields: Fields, *names: str, width: int | None = None, gated: bool = True, bias: bool = False) -> Block:
    """Dense feed-forward network; `names` are the fields that may state its width."""
    width = width or fields.count(*(names or ("intermediate_size",)))
    return {"kind": "dense", "width": width, "gated": gated} | ({"bias": True} if bias else {})


def moe(
    fields: Fields,
    width: str = "moe_intermediate_size",
    *,
    shared_width: int | None = None,
    gated: bool = True,
    **traits: Any,
) -> Block:
    """Mixture of experts; `width` is the field that states the width of one, or several as ``a|b``.

    Without `shared_width`, the configuration says how many shared experts of that width there are.
    """
    experts, top_k = fields.count(*_EXPERTS), fields.count(*_TOP_K)
    other = next((name for name in _EXPERTS if fields.optional(name, least=0) not in (None, experts)), None)
    if other is not None:
        raise fields.fault(other, f"contradicts the {experts} experts that another field states")
    if top_k > experts:
        name = next(name for name in _TOP_K if fields.has(name))
        raise fields.fault(name, f"top {top_k} of {experts} experts is impossible")
    expert_width = fields.count(*width.split("|"))
    if shared_width is None:
        shared_width = expert_width * fields.count(*_COUNTS_OF_SHARED_EXPERTS, default=0, least=0)
    fields.bounded(" or ".join(_COUNTS_OF_SHARED_EXPERTS), shared_width, "implausibly wide shared experts")
    block: Block = {"kind": "moe", "experts": experts, "top_k": top_k, "width": expert_width}
    if shared_width:
        block["shared_width"] = shared_width
    return block | {"gated": gated} | {name: value for name, value in traits.items() if value}


def is_sparse(fields: Fields, layers: int, *, dense_first: int = 0) -> list[bool]:
    """Whether each layer is a mixture of experts, from the fields that DeepSeek, GLM and Kimi share."""
    sparse = fields.marks("mlp_layer_types", layers, "sparse", "dense")
    if sparse is not None:
        fields.pass_over("first_k_dense_replace", "moe_layer_freq")
        return sparse
    first = fields.count("first_k_dense_replace", default=dense_first, least=0)
    if isinstance(fields.values.get("moe_layer_freq"), list):
        marks = fields.counts("moe_layer_freq", layers) or []
        return [index >= first and mark > 0 for index, mark in enumerate(marks)]
    every = fields.count("moe_layer_freq", default=1)
    return [index >= first and index % every == 0 for index in range(layers)]


def networks(fields: Fields, experts: Block, sparse: Sequence[bool], **traits: Any) -> list[Block]:
    """Feed-forward network of each layer: the mixture of experts where it is sparse, else a dense FFN."""
    network = experts if all(sparse) else dense(fields, **traits)
    return [experts if is_mixture else network for is_mixture in sparse]


def windows(
    fields: Fields,
    layers: int,
    slides: Callable[[int], bool] = lambda _: True,
    *,
    default: int | None = None,
) -> list[int | None]:
    """Window of each layer [tokens]; None where a layer attends to the whole context.

    `slides` says which layers have a window where `layer_types` does not. A window as long as the longest context
    counts as none, and `use_sliding_window: false` switches it off.
    """
    kinds = fields.choices("layer_types", set(_SLIDING), layers)
    window = fields.optional("sliding_window", least=0)
    window = default if window is None else window
    longest = fields.optional("max_position_embeddings")
    if not fields.flag("use_sliding_window", default=True) or (window and longest and window >= longest):
        return [None] * layers
    if kinds is not None:
        if not window and "sliding_attention" in kinds:
            raise fields.fault("sliding_window", "missing; layer_types has sliding attention")
        return [window if _SLIDING[kind] else None for kind in kinds]
    return [(window or None) if slides(index) else None for index in range(layers)]


# Families whose layers are declared: which field states which argument of a block.

Family = Callable[[Fields], Shape]
#: Arguments of a block by name: a value, or the function that reads it from the fields.
Arguments = Mapping[str, Any]


def flag(name: str, yes: Any = True, no: Any = False, *, default: bool = False) -> Callable[[Fields], Any]:
    """Value that a flag states: `yes` where it is true, else `no`."""
    return lambda fields: yes if fields.flag(name, default=default) else no


def size(*names: str, default: int = 0) -> Callable[[Fields], int]:
    """Whole number that one of the fields states."""
    return lambda fields: fields.count(*names, default=default, least=0)


def sliding(slides: Callable[[int], bool], default: int | None = None) -> Callable[[Fields, int], list[int | None]]:
    """Window of each layer as in `windows`."""
    return lambda fields, layers: windows(fields, layers, slides, default=default)


def period_of(*names: str, default: int, window: int | None = None) -> Callable[[Fields, int], list[int | None]]:
    """Window of each layer, where one of the fields says how often a layer has none."""

    def read(fields: Fields, layers: int) -> list[int | None]:
        period = fields.count(*names, default=default)
        return windows(fields, layers, lambda index: (index + 1) % period != 0, default=window)

    return read


@dataclass(frozen=True, slots=True)
class Declared:
    """A family whose layers differ by their window and by whether they are mixtures of experts alone."""

    family: str
    attention: Arguments = field(default_factory=dict)  # of `gqa`
    ffn: Arguments = field(default_factory=dict)  # of `dense`
    model: Arguments = field(default_factory=dict)  # of `shape`
    needs: tuple[str, ...] | None = None  # required beside SIZES; None: DENSE
    refuses: Mapping[str, str] = field(default_factory=dict)  # flags that must not be set -> what to say
    window: Callable[[Fields, int], list[int | None]] | None = windows  # of each layer [tokens]; None: no layer has one
    experts: Arguments | None = None  # of `moe`
    sparse: Callable[[Fields, int], Sequence[bool]] | None = None  # which layers are mixtures; None: all

    def __call__(self, fields: Fields) -> Shape:
        """Read a configuration."""
        fields.require(*(DENSE if self.needs is None else (*SIZES, *self.needs)))
        for name, text in self.refuses.items():
            fields.refuse(name, text)
        layers = fields.layers()
        layer_windows = [None] * layers if self.window is None else self.window(fields, layers)
        ffns = self._networks(fields, layers)
        mixers = gqa_by_window(fields, layer_windows, **_read(self.attention, fields))
        return shape(fields, self.family, list(zip(mixers, ffns, strict=True)), **_read(self.model, fields))

    def _networks(self, fields: Fields, layers: int) -> list[Block]:
        if self.experts is None:
            return [dense(fields, **_read(self.ffn, fields))] * layers
        experts = moe(fields, **_read(self.experts, fields))
        sparse = [True] * layers if self.sparse is None else self.sparse(fields, layers)
        return networks(fields, experts, sparse, **_read(self.ffn, fields))


def _read(arguments: Arguments, fields: Fields) -> dict[str, Any]:
    return {name: value(fields) if callable(value) else value for name, value in arguments.items()}


def biases_of(name: str, *, default: bool = False) -> dict[str, Any]:
    """Biases of all projections of attention, or of none."""
    return {"qkv_bias": flag(name, default=default), "o_bias": flag(name, default=default)}


BIASES = biases_of("attention_bias")
HEAD_NORMS = {"qk_norm": "head"}
#: Experts `intermediate_size` wide: all of them, or with shared ones of their own width.
WIDE = {"width": "intermediate_size", "shared_width": 0}
WIDE_SHARED = {"width": "intermediate_size", "shared_width": size("shared_intermediate_size")}


# A list of layers as the shortest equivalent list of groups.

_LONGEST_PATTERN = 48  # layers; no known model repeats more at once

# Cost of a group in lines of a specification file: repeat, mixer and ffn of a single layer; repeat and heading of a
# pattern, to which each layer adds a line. Layers of a pattern that does not repeat count double: it reads badly.
_SINGLE = 3
_PATTERN = 2


class _Step(NamedTuple):
    """First group of the shortest description from some layer on."""

    cost: int  # of the whole description [lines]
    repeat: int
    length: int


def groups(layers: LayerList) -> list[dict[str, Any]]:
    """Groups of a specification from its layers.

    >>> full, window, ffn = {"kind": "a"}, {"kind": "b"}, {"kind": "f"}
    >>> [group["repeat"] for group in groups([(window, ffn), (full, ffn)] * 9 + [(full, ffn)])]
    [9, 1]
    """
    keys = _keys(layers)
    runs: list[dict[str, Any]] = []
    start = 0
    for step in _shortest(keys):
        block = layers[start : start + step.length]
        if step.length == 1:
            runs.append({"repeat": step.repeat, "mixer": block[0][0], "ffn": block[0][1]})
        else:
            pattern = [{"mixer": mixer, "ffn": ffn} for mixer, ffn in block]
            runs.append({"repeat": step.repeat, "pattern": pattern})
        start += step.repeat * step.length
    return runs


def _keys(layers: LayerList) -> list[int]:
    """A small number per layer, the same for equal layers."""
    seen: dict[str, int] = {}
    return [seen.setdefault(repr(layer), len(seen)) for layer in layers]


def _shortest(keys: Sequence[int]) -> list[_Step]:
    """Cheapest sequence of groups, by dynamic programming from the last layer to the first."""
    longest = min(_LONGEST_PATTERN, len(keys))
    alike = {length: _alike(keys, length) for length in range(1, longest + 1)}
    best: list[_Step] = [_Step(0, 0, 0)] * (len(keys) + 1)
    for start in range(len(keys) - 1, -1, -1):
        best[start] = min(
            (
                _Step(_cost(repeat, length) + best[start + repeat * length].cost, repeat, length)
                for length in range(1, min(longest, len(keys) - start) + 1)
                for repeat in _repeats(1 + alike[length][start] // length)
            ),
            key=lambda step: (step.cost, step.length, -step.repeat),
        )
    steps, start = [], 0
    while start < len(keys):
        steps.append(best[start])
        start += best[start].repeat * best[start].length
    return steps


def _alike(keys: Sequence[int], distance: int) -> list[int]:
    """Number of consecutive layers, from each one on, that equal the layer `distance` after them."""
    counts = [0] * (len(keys) + 1)
    for index in range(len(keys) - distance - 1, -1, -1):
        counts[index] = counts[index + 1] + 1 if keys[index] == keys[index + distance] else 0
    return counts


def _repeats(most: int) -> tuple[int, ...]:
    """Repeats to consider for a pattern that occurs `most` times in a row: all, one less, or one."""
    return (1,) if most == 1 else (most, most - 1, 1) if most > 2 else (2, 1)


def _cost(repeat: int, length: int) -> int:
    if length == 1:
        return _SINGLE
    return _PATTERN + (length if repeat > 1 else 2 * length)


# Names and patterns of modules in quantization configurations.

# Prefixes of `layers.0` in checkpoints of plain models, multimodal wrappers and ModelOpt.
_PREFIXES = ("model.", "", "model.language_model.", "language_model.model.", "language_model.", "backbone.")
_LONGEST_PREFIXES = ("model.language_model.", "language_model.model.", "backbone.")  # all others are suffixes of these
_MOST_NAMES = 200_000
_FEW = 24  # names that are searched one by one; with more, the parts of a path are looked up instead
_MOST_EXPRESSIONS, _MOST_CHARACTERS = 500, 100_000  # patterns that begin with re:; characters of all patterns
_LONGEST_EXPRESSION = 300
# Groups that repeat take exponential time, several repeats or options a power of the length of a name.
_REPEATED_GROUP = re.compile(r"\)[*+{]").search
_REPEATS, _MOST_REPEATS = re.compile(r"[*+{]").findall, 4
_OPTIONS, _MOST_OPTIONS = re.compile(r"(?<![(*+}])\?").findall, 4
_PATIENCE = 1.0  # CPU time for all names of a configuration [s]; honest ones take milliseconds


class Names:
    """A list of names, globs and ``re:`` patterns, and whether a module is among them.

    A plain name covers a module if it is the path of the module or a whole part of it: ``gate`` covers
    ``layers.0.mlp.gate`` but not ``layers.0.mlp.gate_proj``; ``layers.0.self_attn`` covers all of that attention.
    """

    def __init__(self, texts: Collection[str], config: Fields | None = None, field: str = "") -> None:
        self.texts = tuple(texts)
        self._config = config
        self._field = field
        if len(self.texts) > _MOST_NAMES:
            raise self._fault(f"{len(self.texts)} names exceed the limit of {_MOST_NAMES}")
        patterns = [text for text in self.texts if text.startswith("re:") or set(text) & set("*?[")]
        expressions = [text for text in dict.fromkeys(patterns) if text.startswith("re:")]
        if len(expressions) > _MOST_EXPRESSIONS:
            raise self._fault(f"{len(expressions)} regular expressions exceed the limit of {_MOST_EXPRESSIONS}")
        characters = sum(map(len, patterns))
        if characters > _MOST_CHARACTERS:
            raise self._fault(f"{characters} characters of patterns exceed the limit of {_MOST_CHARACTERS}")
        self._plain = frozenset(self.texts).difference(patterns)
        lengths: dict[str, set[int]] = {}
        for text in self._plain:
            first, _, rest = text.partition(".")
            lengths.setdefault(first, set()).add(rest.count(".") + 2 if "." in text else 1)
        self._lengths = {first: sorted(counts) for first, counts in lengths.items()}
        self._dotted = tuple(f".{text}." for text in self._plain) if len(self._plain) <= _FEW else ()
        globs = [translate(text) for text in dict.fromkeys(patterns) if not text.startswith("re:")]
        self._patterns = [self._compile(text[3:]) for text in expressions]
        if globs:
            self._patterns.append(re.compile("|".join(globs)))
        self._since = thread_time()
        self._seen: dict[str, bool] = {}

    def match(self, paths: Iterable[str]) -> bool:
        """Whether any of the possible paths of a module is covered."""
        if not self.texts:
            return False
        for path in paths:
            if path not in self._seen:
                self._seen[path] = self._covers(path)
            if self._seen[path]:
                return True
        return False

    def _covers(self, path: str) -> bool:
        if thread_time() - self._since > _PATIENCE:
            raise self._fault("too costly to match against the modules of the model")
        if self._dotted:
            dotted = [f".{prefix}{path}." for prefix in _LONGEST_PREFIXES]
            if any(text in name for text in self._dotted for name in dotted):
                return True
        for prefix in _LONGEST_PREFIXES if self._plain and not self._dotted else ():
            if not self._plain.isdisjoint(_parts(prefix + path, self._lengths)):
                return True
        return any(pattern.match(prefix + path) for pattern in self._patterns for prefix in _PREFIXES)

    def _compile(self, text: str) -> re.Pattern[str]:
        repeats, options = len(_REPEATS(text)), len(_OPTIONS(text))
        is_slow = _REPEATED_GROUP(text) or repeats > _MOST_REPEATS or options > _MOST_OPTIONS
        if len(text) > _LONGEST_EXPRESSION or is_slow:
            raise self._fault(f"{text[:40]!r}... is too complex a pattern")
        try:
            return re.compile(text)
        except (re.error, OverflowError, RecursionError) as fault:
            raise self._fault(f"{text[:40]!r} is not a regular expression: {fault}") from None

    def _fault(self, text: str) -> Exception:
        config = self._config or Fields({}, "config.json")
        return config.fault(self._field or "names", text)


def _parts(path: str, lengths: Mapping[str, Sequence[int]]) -> Iterator[str]:
    """Parts of a path, each with as many components as some name that begins with the same component."""
    components = path.split(".")
    for start, component in enumerate(components):
        for length in lengths.get(component, ()):
            if start + length <= len(components):
                yield ".".join(components[start : start + length])
