"""Schema of a model's specification file; its layers have the fields of their records."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import reduce
from operator import or_
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeAlias

from pydantic import BeforeValidator, Field, create_model, model_validator
from pydantic_core import PydanticCustomError

from roofline.catalog.schema_parts import (
    Cited,
    Count,
    Document,
    FormatOfWeights,
    Name,
    OneOf,
    Strict,
    WholeNumber,
    check_readable,
    of_record,
)
from roofline.quantity import count_from_text
from roofline.specs.build import DEFAULT_NATIVE, LIKE_LINEAR
from roofline.specs.formats import KV_FORMATS
from roofline.specs.layers import FFNS, MIXERS, Csa, Gdn, Gqa, Indexer, Mamba2, Mla, MoeFfn, Ngrams
from roofline.specs.model import Model


def _gqa_fault(mixer: Gqa) -> str | None:
    if mixer.heads % mixer.kv_heads:
        return f"heads ({mixer.heads}) must be a multiple of kv_heads ({mixer.kv_heads})"
    if sum(limit is not None for limit in (mixer.window, mixer.chunk, mixer.indexer)) > 1:
        return "window, chunk and indexer exclude each other; give one"
    if mixer.k_eq_v and mixer.v_head_dim not in (None, mixer.head_dim):
        return "with k_eq_v, v_head_dim must equal head_dim"
    return None


def _mla_fault(mixer: Mla) -> str | None:
    if mixer.indexer is not None and mixer.indexer.own and mixer.q_rank is None:
        return "an indexer needs the query latent; give q_rank"
    return None


def _csa_fault(mixer: Csa) -> str | None:
    if mixer.heads % mixer.o_groups:
        return f"heads ({mixer.heads}) must be a multiple of o_groups ({mixer.o_groups})"
    if mixer.indexer is not None and not mixer.ratio:
        return "an indexer needs compressed entries to choose from; give ratio"
    return None


def _gdn_fault(mixer: Gdn) -> str | None:
    if mixer.v_heads % mixer.k_heads:
        return f"v_heads ({mixer.v_heads}) must be a multiple of k_heads ({mixer.k_heads})"
    return None


def _mamba2_fault(mixer: Mamba2) -> str | None:
    if mixer.heads % mixer.groups:
        return f"heads ({mixer.heads}) must be a multiple of groups ({mixer.groups})"
    return None


def _indexer_fault(indexer: Indexer) -> str | None:
    if indexer.top_k % indexer.block:
        return f"top_k ({indexer.top_k}) must be a multiple of block ({indexer.block})"
    return None


def _moe_fault(ffn: MoeFfn) -> str | None:
    if ffn.top_k > ffn.experts:
        return f"top_k ({ffn.top_k}) must not exceed experts ({ffn.experts})"
    if ffn.latent_norms and ffn.latent is None:
        return "latent_norms needs a width of their own; give latent"
    if ffn.shared_gate and not ffn.shared_width:
        return "shared_gate needs shared experts; give shared_width"
    return None


#: Record -> check of its fields together, None where they agree.
_FAULTS: Mapping[type, Callable[[Any], str | None]] = {
    Csa: _csa_fault,
    Gdn: _gdn_fault,
    Gqa: _gqa_fault,
    Mamba2: _mamba2_fault,
    Mla: _mla_fault,
    MoeFfn: _moe_fault,
}
_INDEXER = (of_record(Indexer, {}, fault=_indexer_fault) | None, None)
#: Record -> type and default of fields that differ between file and record.
_OVERRIDES: Mapping[type, Mapping[str, tuple[Any, Any]]] = {
    Csa: {"indexer": _INDEXER},
    Gqa: {
        "indexer": _INDEXER,
        "qk_norm": (Literal["head", "full"] | None, None),
        "v_head_dim": (Count | None, None),  # defaults to head_dim
    },
    Mla: {"indexer": _INDEXER, "rope": (WholeNumber, ...)},  # zero in GLM-5.3-Flash
}


def _one_of(records: Mapping[str, type]) -> Any:
    """Schema of one of several records, which `kind` tells apart."""
    schemas = [
        of_record(record, {"kind": (Literal[kind], ...), **_OVERRIDES.get(record, {})}, fault=_FAULTS.get(record))
        for kind, record in records.items()
    ]
    return Annotated[reduce(or_, schemas), Field(discriminator="kind")]


if TYPE_CHECKING:  # type checkers do not take a generated class for a type
    _Mixer: TypeAlias = Any
    _Ffn: TypeAlias = Any
else:
    _Mixer, _Ffn = _one_of(MIXERS), _one_of(FFNS)


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
            raise PydanticCustomError("group", "a group must have either a mixer and an ffn, or a pattern", {})
        if single:
            _check_not_empty(self.mixer, self.ffn)
        return self


def _check_not_empty(mixer: Any, ffn: Any) -> None:
    if mixer.kind == ffn.kind == "none":
        raise PydanticCustomError("group", "a layer must have a mixer, an ffn or both", {})


class _Parameters(Cited):
    """A number of parameters with its source."""

    value: Annotated[int | str, BeforeValidator(lambda value: check_readable(count_from_text, value))]


class _Active(_Parameters):
    """Active parameters, and what their count leaves out besides the idle experts."""

    convention: Literal["all", "no-embedding", "no-embedding-no-head"] | None = None


class _Stated(Strict):
    """Parameters as published."""

    total: _Parameters | None = None
    active: _Active | None = None


def _streams_fault(model: Any) -> str | None:
    for name in ("stream_rank", "stream_average"):
        if getattr(model, name) and model.streams <= 1:
            return f"{name} says how several residual streams are mixed; give streams"
    return None


class _Mtp(Strict):
    """Draft modules for speculative decoding, in no total."""

    layers: Annotated[int, Field(ge=1, le=100)]


_Stored = Annotated[str, FormatOfWeights()]
_SECTIONS: dict[str, Any] = {
    **{section: (_Stored, name) for section, name in DEFAULT_NATIVE.items()},
    "kv": (Annotated[str, OneOf(KV_FORMATS)], DEFAULT_NATIVE["kv"]),
    **dict.fromkeys(LIKE_LINEAR, (_Stored | None, None)),
}
_Native = create_model(
    "Native",
    __base__=Strict,
    __doc__=f"Number formats of the checkpoint; {', '.join(LIKE_LINEAR)} are stored like `linear` where not given.",
    **_SECTIONS,
)

ModelSpec = of_record(
    Model,
    {
        "aliases": (Annotated[list[Name], Field(min_length=1)], ...),
        "norms": (Annotated[int, Field(ge=0, le=16)], 2),
        "final_norms": (Annotated[int, Field(ge=0, le=16)], 1),
        "streams": (Annotated[int, Field(ge=1, le=64)], 1),
        "groups": (Annotated[list[_Group], Field(min_length=1, max_length=1000)], ...),
        "native": (_Native, {}),
        "parameters": (_Stated, {}),
        "architecture": (Cited, ...),
        "mtp": (_Mtp | None, None),
        "ngrams": (of_record(Ngrams, {}) | None, None),
    },
    base=Document,
    without=("short_name", "stated_total", "stated_active", "mtp_layers", "cautions", "preset"),
    fault=_streams_fault,
)
