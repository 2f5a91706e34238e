"""A language model as its layers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from functools import cached_property
from itertools import accumulate, pairwise
from typing import TYPE_CHECKING

from roofline.numbers.operations import Real
from roofline.support.records import NamedTuple, dataclass

if TYPE_CHECKING:
    from roofline.specs.media import Tower


#: Caution on a model that was read from a configuration with towers.
WITHOUT_TOWERS = "only the language model is counted; vision and audio encoders are left out"


@dataclass(frozen=True, kw_only=True, repr=False)
class Model:
    """A language model as an ordered list of layer groups.

    >>> import roofline as rl
    >>> rl.load_model("llama-3.1-8b")
    <Model llama-3.1-8b (meta-llama/Llama-3.1-8B): 32 layers, hidden 4096, dense>
    >>> len(rl.load_model("llama-3.1-8b").stages(pp=2))
    2
    """

    name: str  # Hugging Face id
    short_name: str
    aliases: tuple[str, ...]
    family: str = ""
    hidden: int
    vocab: int  # as stored, padding included
    tied: bool  # the head shares the embedding matrix
    norms: int = 2  # norm layers over the hidden width per layer
    max_context: int | None = None  # [tokens]
    groups: tuple[Group, ...]
    native: Mapping[str, str]  # section of the checkpoint (linear, experts, kv, ...) -> format
    stated_total: float | None = None  # parameters, as published
    stated_active: float | None = None
    norm_bias: bool = False  # norms have a bias vector
    head_bias: bool = False
    streams: int = 1  # residual streams that hyper-connections mix
    parallel: bool = False  # mixer and FFN read the same input; one all-reduce sums both
    mtp_layers: int = 0  # draft modules, for speculative decoding; in no parameter total
    cautions: tuple[str, ...] = ()  # for readers of any figure of this model
    preset: str | None = None  # quantization in the name it was loaded by; used where none is chosen
    norm_weights: bool = True  # False: norms have no parameters
    final_norms: int = 1  # norms outside the layers: the last one, one after the embedding
    positions: int = 0  # learned position embeddings
    layer_input: int = 0  # width of per-layer embeddings (Gemma's E models)
    layer_vocab: int = 0  # rows of their table
    altup: int = 0  # alternating streams, one updated per layer (Gemma-3n)
    laurel: int = 0  # rank of the learned residual connection (Gemma-3n)
    stream_rank: int = 0  # rank of the gate that mixes residual streams; 0: one full matrix
    stream_average: bool = False  # streams are averaged before the head, not weighted
    ngrams: Ngrams | None = None  # n-gram embeddings, in addition to the token's
    encoders: tuple[Tower, ...] = ()  # towers of images and audio, which text leaves idle; in no parameter total

    def __repr__(self) -> str:
        kind = "mixture of experts" if self.is_moe else "dense"
        return f"<Model {self.short_name} ({self.name}): {self.layers} layers, hidden {self.hidden}, {kind}>"

    @cached_property
    def layers(self) -> int:
        return sum(group.repeat * len(group.layers) for group in self.groups)

    @cached_property
    def mixers(self) -> tuple[tuple[int, Mixer], ...]:
        """Distinct mixers, with the number of layers of each."""
        counts: dict[Mixer, int] = {}
        for group in self.groups:
            for layer in group.layers:
                counts[layer.mixer] = counts.get(layer.mixer, 0) + group.repeat
        return tuple((count, mixer) for mixer, count in counts.items())

    @cached_property
    def ffns(self) -> tuple[tuple[int, Ffn], ...]:
        """Distinct feed-forward networks, with the number of layers of each."""
        counts: dict[Ffn, int] = {}
        for group in self.groups:
            for layer in group.layers:
                counts[layer.ffn] = counts.get(layer.ffn, 0) + group.repeat
        return tuple((count, ffn) for ffn, count in counts.items())

    def stages(self, pp: int) -> tuple[Stage, ...]:
        """Pipeline stages: contiguous layers, the first stages one longer where pp does not divide.

        Args:
            pp: number of stages [1].

        Returns:
            The stages, in order.
        """
        if pp == 1:
            return (Stage(self.mixers, self.ffns),)
        layers = [layer for group in self.groups for _ in range(group.repeat) for layer in group.layers]
        short, longer = divmod(len(layers), pp)
        ends = list(accumulate(short + (stage < longer) for stage in range(pp)))
        return tuple(
            Stage.of(layers[start:end], is_first=start == 0, is_last=end == len(layers))
            for start, end in pairwise([0, *ends])
        )

    @cached_property
    def late(self) -> int:
        """Layers whose mixer and network compute only the last tokens of a prompt."""
        return sum(group.repeat for group in self.groups for layer in group.layers if last_of(layer))

    @cached_property
    def last(self) -> int:
        """Tokens of a prompt that those layers compute; 0 where there are none."""
        return max((last_of(layer) for group in self.groups for layer in group.layers), default=0)

    @cached_property
    def is_moe(self) -> bool:
        """Whether any layer is a mixture of experts."""
        return any(isinstance(ffn, MoeFfn) for _, ffn in self.ffns)


# Kinds of layers: token mixers, feed-forward networks and how they are stacked.


@dataclass(frozen=True, slots=True)
class Indexer:
    """Small attention that scores the cache and selects the entries that the main attention reads.

    DeepSeek Sparse Attention scores tokens; MiniMax-M3 scores tokens and keeps whole blocks; Qwen Sparse Attention
    and GLM-5.3-Flash score pools of tokens.
    """

    heads: int
    dim: int
    top_k: int  # [tokens], or [entries] of compressed attention, that a token attends to at most
    block: int = 1  # [tokens] kept or dropped together
    own: bool = True  # False: the layer uses the choice of another layer's indexer
    ratio: int = 1  # [tokens] whose index keys are pooled into one
    learned_pool: bool = False  # pooled keys are weighted by a gate and position biases; else averaged
    candidates: int = 0  # [entries] that an earlier layer's indexer pre-selected, the only ones scored; 0: all


@dataclass(frozen=True, slots=True)
class Gqa:
    """Grouped-query attention (MHA with kv_heads = heads, MQA with one), full, windowed or chunked."""

    heads: int
    kv_heads: int
    head_dim: int
    v_head_dim: int
    window: int | None = None  # [tokens] that a token sees, itself included
    chunk: int | None = None  # [tokens]; a token sees only its own chunk
    qkv_bias: bool = False
    o_bias: bool = False
    qk_norm: str | None = None  # head: one vector shared by the heads; full: over all of them
    sinks: bool = False  # one learnt logit per head
    out_gate: bool = False  # the output is multiplied by a gate of its width
    k_eq_v: bool = False  # keys serve as values: no value projection, both are cached
    indexer: Indexer | None = None
    qk_norm_bias: bool = False  # the norms of queries and keys have biases
    head_gate: bool = False  # each head's output is multiplied by one value
    kv_shared: bool = False  # reads the KV cache of an earlier layer


@dataclass(frozen=True, slots=True)
class Mla:
    """Multi-head latent attention: one latent of kv_rank + rope values per token, shared by all heads."""

    heads: int
    kv_rank: int
    nope: int
    rope: int
    v: int
    q_rank: int | None = None  # None: queries are projected directly
    out_gate: bool = False  # the output is multiplied by a gate of its width
    indexer: Indexer | None = None
    head_gate: bool = False  # each head's output is multiplied by one value
    kv_shared: bool = False  # reads the latents of an earlier layer
    log_scale: bool = False  # queries are scaled by the logarithm of their position, with two values per head


@dataclass(frozen=True, slots=True)
class Relative:
    """Grouped-query attention without rotary positions: scores have a learned bias of their distance (Inkling, T5)."""

    heads: int
    kv_heads: int
    head_dim: int
    v_head_dim: int
    extent: int  # [tokens] back to which there is a bias; of a table of buckets, their number
    rank: int = 0  # values per head by which a token mixes profiles of the bias; 0: one table for all tokens
    window: int | None = None  # [tokens] that a token sees, itself included
    qk_norm: str | None = None  # head: one vector shared by the heads
    conv: int = 0  # [tokens] width of short convolutions of keys and values
    conv_out: int = 0  # channels of such convolutions over the outputs of mixer and network, both together
    pair_keys: bool = False  # the distance has a key of its own, which queries multiply (Transformer-XL)


@dataclass(frozen=True, slots=True)
class Blocks:
    """Grouped-query attention to whole blocks of tokens that pooled keys pre-select (InfLLM-v2, MoBA)."""

    heads: int
    kv_heads: int
    head_dim: int
    v_head_dim: int
    block: int  # [tokens] of a block
    top_k: int  # blocks that a token attends to at most, the last ones among them
    stride: int  # [tokens] from one pooled key to the next
    dense: int = 0  # [tokens] up to which all are attended to
    qkv_bias: bool = False
    o_bias: bool = False
    qk_norm: str | None = None  # head: one vector shared by the heads


@dataclass(frozen=True, slots=True)
class Csa2:
    """Compressed attention of DeepSeek-V4.1: a window of its own, and entries that several layers share."""

    heads: int
    head_dim: int
    q_rank: int
    o_rank: int  # rank of the output projection of each group of heads
    o_groups: int
    window: int  # [tokens]
    ratio: int = 0  # [tokens] per compressed entry; 0: the window alone
    kv_shared: bool = False  # reads the entries and index keys of an earlier layer
    indexer: Indexer | None = None  # chooses among the entries
    packed: bool = False  # entries and index keys are kept in FP4, whatever the format of the cache
    last: int = 0  # [tokens] of a prompt that the layer computes; 0: all


@dataclass(frozen=True, slots=True)
class Csa:
    """Compressed attention of DeepSeek-V4: a window of shared key-values, then one entry per `ratio` tokens."""

    heads: int
    head_dim: int
    q_rank: int
    o_rank: int  # rank of the output projection of each group of heads
    o_groups: int
    window: int  # [tokens]
    ratio: int = 0  # [tokens] per compressed entry; 0: the window alone
    indexer: Indexer | None = None  # chooses among the compressed entries


@dataclass(frozen=True, slots=True)
class Gdn:
    """Gated delta net: a state of k_dim x v_dim per value head."""

    k_heads: int
    v_heads: int
    k_dim: int
    v_dim: int
    conv: int  # [tokens] width of the short convolution


@dataclass(frozen=True, slots=True)
class Kda:
    """Kimi delta attention: a state of dim x dim per head, forgotten channel by channel."""

    heads: int
    dim: int
    conv: int  # [tokens] width of the short convolution
    full_rank_gate: bool = False  # the output gate is one matrix, not two of rank `dim`
    full_rank_decay: bool = False  # the same for the decay


@dataclass(frozen=True, slots=True)
class Lightning:
    """Lightning attention: linear attention with a state of dim x dim per head and a fixed decay."""

    heads: int
    dim: int


@dataclass(frozen=True, slots=True)
class Mamba2:
    """State-space duality layer: a state of head_dim x state per head."""

    heads: int
    head_dim: int
    groups: int  # of heads that share their input and output matrices
    state: int
    conv: int  # [tokens] width of the short convolution
    no_norm: bool = False  # the output is gated, but not normalized


@dataclass(frozen=True, slots=True)
class Mamba1:
    """Selective state space: `state` values per channel."""

    inner: int  # channels
    state: int
    dt_rank: int
    conv: int  # [tokens] width of the short convolution
    inner_norms: bool = False  # time step, input and output matrices are normalized (Jamba)


@dataclass(frozen=True, slots=True)
class ShortConv:
    """Gated short convolution (LFM2): each channel sees its own recent inputs."""

    width: int  # channels
    conv: int  # [tokens] width of the convolution
    bias: bool = False  # of the projections and of the convolution


@dataclass(frozen=True, slots=True)
class CrossAttention:
    """Image cross-attention with its feed-forward network (Llama-3.2-Vision): takes memory, idle without an image."""

    heads: int
    kv_heads: int
    head_dim: int
    width: int  # of its network


@dataclass(frozen=True, slots=True)
class Linear:
    """One square matrix instead of attention (Puzzle)."""


@dataclass(frozen=True, slots=True)
class NoMixer:
    """No mixer: the layer is a feed-forward network alone."""


@dataclass(frozen=True, slots=True)
class DenseFfn:
    """Feed-forward network: three matrices when gated, two otherwise."""

    width: int
    gated: bool = True
    bias: bool = False
    last: int = 0  # [tokens] of a prompt that the layer computes; 0: all


@dataclass(frozen=True, slots=True)
class MoeFfn:
    """Mixture of experts with optional shared experts."""

    experts: int
    top_k: int
    width: int
    gated: bool = True
    shared_width: int = 0  # summed over the shared experts
    router_bias: bool = False
    expert_bias: bool = False
    shared_gate: bool = False  # a gate weights the shared experts' output
    latent: int | None = None  # width of the routed experts' input; None: the model's
    latent_norms: int = 0  # norms of that width
    zero_experts: int = 0  # identity experts (LongCat); top_k counts them
    shared_scores: int = 0  # rows of the router for shared experts (Inkling)
    last: int = 0  # [tokens] of a prompt that the layer computes; 0: all

    @property
    def chosen(self) -> Real:
        """Real experts per token; an average where some experts return their input."""
        if type(self.zero_experts) is int and not self.zero_experts:
            return self.top_k
        return self.top_k * self.experts / (self.experts + self.zero_experts)


@dataclass(frozen=True, slots=True)
class MemoryFfn:
    """Product-key memory: the best of keys x keys rows of a table, weighted and summed, as a feed-forward network."""

    keys: int  # of each half of a query; their pairs are the rows
    heads: int  # queries of a token
    key_dim: int  # values of a query, both halves together
    top_k: int  # rows that a head reads
    width: int  # values of a row
    gated: bool = True  # the sum is gated by the input, and projected back to the model's width
    shared: bool = False  # the rows are those of an earlier layer


@dataclass(frozen=True, slots=True)
class Ngrams:
    """Embeddings of hashed n-grams, looked up before a layer, gated by and added to each residual stream."""

    rows: int  # of all tables together
    width: int  # values of a row
    lookups: int  # rows of a table per token
    tables: int = 1  # layers that have one
    conv: int = 4  # [tokens] width of the short convolution over the embeddings; 0: none
    norms: int = 3  # over all residual streams, per layer that has a table
    gated: bool = True  # False: the rows are projected and added to the token's embedding, without a key (LongCat)
    packed: bool = False  # rows are kept in FP8 with a scale for each 32 values, whatever the embedding's format


@dataclass(frozen=True, slots=True)
class LinearFfn:
    """One square matrix instead of a feed-forward network (Puzzle)."""


@dataclass(frozen=True, slots=True)
class NoFfn:
    """No feed-forward network: the layer is a mixer alone."""


Recurrent = Gdn | Kda | Lightning | Mamba1 | Mamba2
Mixer = Gqa | Mla | Relative | Blocks | Csa | Csa2 | Recurrent | ShortConv | CrossAttention | Linear | NoMixer
Ffn = DenseFfn | MoeFfn | MemoryFfn | LinearFfn | NoFfn

#: Kind in a specification -> record of a mixer.
MIXERS: Mapping[str, type[Mixer]] = {
    "gqa": Gqa,
    "mla": Mla,
    "relative": Relative,
    "blocks": Blocks,
    "csa": Csa,
    "csa2": Csa2,
    "gdn": Gdn,
    "kda": Kda,
    "lightning": Lightning,
    "mamba1": Mamba1,
    "mamba2": Mamba2,
    "short_conv": ShortConv,
    "cross": CrossAttention,
    "linear": Linear,
    "none": NoMixer,
}
#: Kind in a specification -> record of a feed-forward network.
FFNS: Mapping[str, type[Ffn]] = {
    "dense": DenseFfn,
    "moe": MoeFfn,
    "memory": MemoryFfn,
    "linear": LinearFfn,
    "none": NoFfn,
}


class Layer(NamedTuple):
    """One mixer and one feed-forward network."""

    mixer: Mixer
    ffn: Ffn


def last_of(layer: Layer) -> int:
    """Tokens of a prompt that a layer computes, where it does not compute all; else 0."""
    return layer.ffn.last if isinstance(layer.ffn, (DenseFfn, MoeFfn)) else 0


class Group(NamedTuple):
    """A run of identical blocks of layers."""

    repeat: int
    layers: tuple[Layer, ...]


class Stage(NamedTuple):
    """The layers of one pipeline stage by kind, and which ends of the model it holds."""

    mixers: tuple[tuple[Real, Mixer], ...]  # (number of layers, kind)
    ffns: tuple[tuple[Real, Ffn], ...]
    is_first: Real = True  # holds the embedding
    is_last: Real = True  # holds the head

    @property
    def layers(self) -> Real:
        return sum(count for count, _ in self.mixers)

    @classmethod
    def of(cls, layers: Sequence[Layer], *, is_first: bool = True, is_last: bool = True) -> Stage:
        mixers, ffns = Counter(layer.mixer for layer in layers), Counter(layer.ffn for layer in layers)
        return cls(
            tuple((count, mixer) for mixer, count in mixers.items()),
            tuple((count, ffn) for ffn, count in ffns.items()),
            is_first,
            is_last,
        )
