"""A language model as its layers."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from itertools import accumulate, pairwise

from roofline.records import dataclass
from roofline.specs.layers import Ffn, Group, Mixer, MoeFfn, Ngrams, Stage

__all__ = ["Model"]


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
    native: Mapping[str, str]  # section (attention linear shared experts embed head router norm kv) -> format name
    stated_total: float | None = None  # parameters, as published
    stated_active: float | None = None
    norm_bias: bool = False  # norms have a bias vector beside their weights
    head_bias: bool = False
    streams: int = 1  # residual streams that hyper-connections mix
    parallel: bool = False  # mixer and network read the same input; one all-reduce sums both
    mtp_layers: int = 0  # draft modules, in no total; they work under speculative decoding only
    cautions: tuple[str, ...] = ()  # what a reader of any figure of this model should know
    preset: str | None = None  # quantisation that the name it was asked by states; holds where none is chosen
    norm_weights: bool = True  # False: norms have no parameters
    final_norms: int = 1  # norms over the hidden width outside the layers: the last one, one after the embedding
    positions: int = 0  # rows of a table of learned positions
    layer_input: int = 0  # width of what is looked up for a token anew in every layer (Gemma's E models)
    layer_vocab: int = 0  # rows of the table of it
    altup: int = 0  # alternating streams, of which a layer updates one (Gemma-3n)
    laurel: int = 0  # rank of a residual connection that is learnt (Gemma-3n)
    stream_rank: int = 0  # rank of the gate that mixes several residual streams; 0: their weights are one matrix
    stream_average: bool = False  # the streams are averaged before the head, not weighted
    ngrams: Ngrams | None = None  # embeddings of n-grams, beside that of the token

    def __repr__(self) -> str:
        """Names and size in one line."""
        kind = "mixture of experts" if self.is_moe else "dense"
        return f"<Model {self.short_name} ({self.name}): {self.layers} layers, hidden {self.hidden}, {kind}>"

    @cached_property
    def layers(self) -> int:
        """Number of layers."""
        return sum(group.repeat * len(group.layers) for group in self.groups)

    @cached_property
    def mixers(self) -> tuple[tuple[int, Mixer], ...]:
        """Distinct mixers, each with the number of layers that have it."""
        counts: dict[Mixer, int] = {}
        for group in self.groups:
            for layer in group.layers:
                counts[layer.mixer] = counts.get(layer.mixer, 0) + group.repeat
        return tuple((count, mixer) for mixer, count in counts.items())

    @cached_property
    def ffns(self) -> tuple[tuple[int, Ffn], ...]:
        """Distinct feed-forward networks, each with the number of layers that have it."""
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
