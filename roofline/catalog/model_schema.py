"""What a model's specification file must look like, stated once."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated, Any, Literal

from pydantic import Field, model_validator
from pydantic_core import PydanticCustomError

from roofline.catalog.schema import Confidence, Count, Document, Name, Parameters, Strict
from roofline.quantity import BILLION
from roofline.specs.formats import FORMATS, KV_FORMATS

__all__ = ["ModelSpec"]


class _Indexer(Strict):
    """Small attention that chooses what the attention proper reads."""

    heads: Count
    dim: Count
    top_k: Count
    block: Count = 1
    own: bool = True

    @model_validator(mode="after")
    def _check(self) -> _Indexer:
        if self.top_k % self.block:
            raise PydanticCustomError(
                "mixer", "top_k {k} is not a whole number of blocks of {b}", {"k": self.top_k, "b": self.block}
            )
        return self


class _Gqa(Strict):
    """Grouped-query attention."""

    kind: Literal["gqa"]
    heads: Count
    kv_heads: Count
    head_dim: Count
    v_head_dim: Count | None = None
    window: Count | None = None
    chunk: Count | None = None
    qkv_bias: bool = False
    o_bias: bool = False
    qk_norm: Literal["head", "full"] | None = None
    sinks: bool = False
    out_gate: bool = False
    k_eq_v: bool = False
    indexer: _Indexer | None = None

    @model_validator(mode="after")
    def _check(self) -> _Gqa:
        if self.heads % self.kv_heads:
            raise PydanticCustomError(
                "mixer", "{kv} kv_heads do not divide {q} heads", {"kv": self.kv_heads, "q": self.heads}
            )
        if sum(limit is not None for limit in (self.window, self.chunk, self.indexer)) > 1:
            raise PydanticCustomError("mixer", "a layer has a window, a chunk or an indexer, not several", {})
        if self.k_eq_v and self.v_head_dim not in (None, self.head_dim):
            raise PydanticCustomError("mixer", "keys that are values have the same head_dim", {})
        return self


class _Mla(Strict):
    """Multi-head latent attention."""

    kind: Literal["mla"]
    heads: Count
    q_rank: Count | None = None
    kv_rank: Count
    nope: Count
    rope: Count
    v: Count
    out_gate: bool = False
    indexer: _Indexer | None = None

    @model_validator(mode="after")
    def _check(self) -> _Mla:
        if self.indexer is not None and self.indexer.own and self.q_rank is None:
            raise PydanticCustomError("mixer", "an indexer works on the query latent: give q_rank", {})
        return self


class _Csa(Strict):
    """Compressed attention of DeepSeek-V4."""

    kind: Literal["csa"]
    heads: Count
    head_dim: Count
    q_rank: Count
    o_rank: Count
    o_groups: Count
    window: Count
    ratio: Annotated[int, Field(ge=0, le=int(BILLION))] = 0
    indexer: _Indexer | None = None

    @model_validator(mode="after")
    def _check(self) -> _Csa:
        if self.heads % self.o_groups:
            raise PydanticCustomError(
                "mixer", "{g} o_groups do not divide {q} heads", {"g": self.o_groups, "q": self.heads}
            )
        if self.indexer is not None and not self.ratio:
            raise PydanticCustomError("mixer", "an indexer chooses among compressed entries: give a ratio", {})
        return self


class _Gdn(Strict):
    """Gated delta net."""

    kind: Literal["gdn"]
    k_heads: Count
    v_heads: Count
    k_dim: Count
    v_dim: Count
    conv: Count

    @model_validator(mode="after")
    def _check(self) -> _Gdn:
        if self.v_heads % self.k_heads:
            raise PydanticCustomError(
                "mixer", "{k} k_heads do not divide {v} v_heads", {"k": self.k_heads, "v": self.v_heads}
            )
        return self


class _Kda(Strict):
    """Kimi delta attention."""

    kind: Literal["kda"]
    heads: Count
    dim: Count
    conv: Count
    full_rank_gate: bool = False


class _Lightning(Strict):
    """Lightning attention."""

    kind: Literal["lightning"]
    heads: Count
    dim: Count


class _Mamba1(Strict):
    """Selective state space."""

    kind: Literal["mamba1"]
    inner: Count
    state: Count
    dt_rank: Count
    conv: Count
    inner_norms: bool = False


class _Mamba2(Strict):
    """State-space duality layer."""

    kind: Literal["mamba2"]
    heads: Count
    head_dim: Count
    groups: Count
    state: Count
    conv: Count

    @model_validator(mode="after")
    def _check(self) -> _Mamba2:
        if self.heads % self.groups:
            raise PydanticCustomError(
                "mixer", "{g} groups do not divide {h} heads", {"g": self.groups, "h": self.heads}
            )
        return self


class _Linear(Strict):
    """One square matrix in the place of a mixer or a feed-forward network."""

    kind: Literal["linear"]


class _None(Strict):
    """Nothing: the layer has its other half alone."""

    kind: Literal["none"]


class _Dense(Strict):
    """Feed-forward network."""

    kind: Literal["dense"]
    width: Count
    gated: bool = True
    bias: bool = False


class _Moe(Strict):
    """Mixture of experts."""

    kind: Literal["moe"]
    experts: Count
    top_k: Count
    width: Count
    gated: bool = True
    shared_width: Annotated[int, Field(ge=0, le=int(BILLION))] = 0
    shared_gate: bool = False
    router_bias: bool = False
    expert_bias: bool = False
    latent: Count | None = None

    @model_validator(mode="after")
    def _check(self) -> _Moe:
        if self.top_k > self.experts:
            raise PydanticCustomError("ffn", "top_k {k} exceeds {e} experts", {"k": self.top_k, "e": self.experts})
        if self.shared_gate and not self.shared_width:
            raise PydanticCustomError("ffn", "a shared_gate needs shared experts: give shared_width", {})
        return self


_Mixer = Annotated[
    _Gqa | _Mla | _Csa | _Gdn | _Kda | _Lightning | _Mamba1 | _Mamba2 | _Linear | _None, Field(discriminator="kind")
]
_Ffn = Annotated[_Dense | _Moe | _Linear | _None, Field(discriminator="kind")]


class _Layer(Strict):
    """A mixer and a feed-forward network."""

    mixer: _Mixer
    ffn: _Ffn

    @model_validator(mode="after")
    def _check(self) -> _Layer:
        _check_not_empty(self.mixer, self.ffn)
        return self


class _Group(Strict):
    """A run of identical layers, or of identical blocks of layers."""

    repeat: Annotated[int, Field(ge=1, le=10_000)]
    mixer: _Mixer | None = None
    ffn: _Ffn | None = None
    pattern: list[_Layer] | None = Field(default=None, min_length=1, max_length=1000)

    @model_validator(mode="after")
    def _check(self) -> _Group:
        single = self.mixer is not None and self.ffn is not None
        if single == (self.pattern is not None) or (self.mixer is None) != (self.ffn is None):
            raise PydanticCustomError("group", "a group has either a mixer and an ffn, or a pattern of layers", {})
        if single:
            _check_not_empty(self.mixer, self.ffn)
        return self


def _check_not_empty(mixer: object, ffn: object) -> None:
    if isinstance(mixer, _None) and isinstance(ffn, _None):
        raise PydanticCustomError("group", "a layer has a mixer, a feed-forward network or both", {})


def _one_of(names: Iterable[str]) -> Any:
    """Field that holds one of some names."""
    return Field(pattern=f"^({'|'.join(names)})$")


_FormatName = Annotated[str, _one_of(FORMATS)]
_KvFormatName = Annotated[str, _one_of(KV_FORMATS)]


class _Native(Strict):
    """Number formats of the checkpoint; attention, shared and experts are stored like `linear` where not given."""

    linear: _FormatName = "bf16"
    attention: _FormatName | None = None
    shared: _FormatName | None = None
    experts: _FormatName | None = None
    embed: _FormatName = "bf16"
    head: _FormatName = "bf16"
    router: _FormatName = "bf16"
    norm: _FormatName = "bf16"
    kv: _KvFormatName = "bf16"


class _Active(Parameters):
    """Active parameters, and what their count leaves out beside the idle experts."""

    convention: Literal["all", "no-embedding", "no-embedding-no-head"] | None = None


class _Stated(Strict):
    """Parameters as published."""

    total: Parameters | None = None
    active: _Active | None = None


class _Cited(Strict):
    """Where something comes from."""

    source: Name
    note: str | None = None
    confidence: Confidence | None = None


class _Mtp(Strict):
    """Draft modules for speculative decoding, in no total."""

    layers: Annotated[int, Field(ge=1, le=100)]


class ModelSpec(Document):
    """A language model."""

    aliases: list[Name] = Field(min_length=1)
    family: str = ""
    hidden: Count
    vocab: Count
    tied: bool
    norms: Annotated[int, Field(ge=0, le=16)] = 2
    norm_bias: bool = False
    head_bias: bool = False
    parallel: bool = False
    streams: Annotated[int, Field(ge=1, le=64)] = 1
    max_context: Count | None = None
    groups: list[_Group] = Field(min_length=1, max_length=1000)
    native: _Native = _Native()
    parameters: _Stated = _Stated()
    architecture: _Cited
    mtp: _Mtp | None = None
