"""A language model as its layers."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from itertools import accumulate, pairwise

from roofline.records import dataclass
from roofline.specs.layers import Ffn, Group, Mixer, MoeFfn, Ngrams, Stage


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
    def is_moe(self) -> bool:
        """Whether any layer is a mixture of experts."""
        return any(isinstance(ffn, MoeFfn) for _, ffn in self.ffns)
