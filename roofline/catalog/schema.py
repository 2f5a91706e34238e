"""Schemas of the specification files of GPUs, calibrations, models, engines and workloads."""

from __future__ import annotations

import datetime as dt
import re
import unicodedata
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import MISSING, fields
from difflib import get_close_matches
from functools import reduce
from operator import or_
from types import MappingProxyType, NoneType, UnionType
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeAlias, Union, get_args, get_origin, get_type_hints

from pydantic import (
    AfterValidator,
    AliasChoices,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    ValidationInfo,
    create_model,
    model_validator,
)
from pydantic_core import CoreSchema, PydanticCustomError, core_schema

from roofline.numbers.quantity import BILLION, count_from_text, from_text
from roofline.physics.media import RULES
from roofline.specs.arguments import BINARY, LETTERS, TYPES, Argument, Arguments
from roofline.specs.build import DEFAULT_NATIVE, LIKE_LINEAR
from roofline.specs.engine import OF_ALL, OF_FREE, OF_REST, OVERLAPS, Engine, GpuDefault, KernelOverride, StartUp
from roofline.specs.formats import FORMATS, KV_FORMATS, PEAKS, STORED_BITS, is_format
from roofline.specs.gpu import (
    CALIBRATED,
    COLLECTIVES,
    UNTIMED,
    Calibration,
    CollectiveEfficiency,
    Efficiency,
    Gpu,
    Link,
    PassFactor,
    ServedPasses,
)
from roofline.specs.media import AUDIO, AUDIO_RULES, VISION, Step, Tower
from roofline.specs.model import (
    FFNS,
    MIXERS,
    Blocks,
    Csa,
    Csa2,
    Gdn,
    Gqa,
    Indexer,
    Mamba2,
    MemoryFfn,
    Mla,
    Model,
    MoeFfn,
    Ngrams,
    Relative,
)
from roofline.specs.names import Bytes, BytesPerSecond, Seconds, Share, Watts, name_fault
from roofline.specs.workload import ARRIVALS, AWAITED, LAWS, SLO_EXAMPLE, UNIFORM_CV, NamedWorkload, limits_of_text
from roofline.support.errors import BadInput, RooflineError, printable

# Parts of the schemas of specification files, and schemas made of records.
#
# pydantic is imported here, in the schemas and in `checks` alone, which only users' files need.


def _refusal(kind: str, fault: object) -> PydanticCustomError:
    """The error for a value, with a text of ours that may hold braces."""
    return PydanticCustomError(kind, "{fault}", {"fault": str(fault)})


def _check_name(value: str) -> str:
    fault = name_fault(value)
    if fault is not None:
        raise _refusal("name", fault)
    return value


def _check_line(value: str) -> str:
    """One line of prose in any alphabet, without control characters."""
    for character in value:
        if not (character.isprintable() or character in _JOINERS or unicodedata.category(character) == "Zs"):
            raise _refusal("text", f"text must be printable; found {printable(character)}")
    return value


def _check_prose(value: str) -> str:
    """Prose of several lines."""
    for line in value.split("\n"):
        _check_line(line)
    return value


_JOINERS = "\u200c\u200d"  # part of words in Persian, Hindi and others

Name = Annotated[str, Field(min_length=1, max_length=200), AfterValidator(_check_name)]
_NameOrNone = Annotated[str, Field(max_length=200), AfterValidator(lambda value: value and _check_name(value))]
Title = Annotated[str, Field(max_length=2000), AfterValidator(_check_line)]
Prose = Annotated[str, Field(max_length=20_000), AfterValidator(_check_prose)]
Count = Annotated[int, Field(ge=1, le=int(BILLION))]
WholeNumber = Annotated[int, Field(ge=0, le=int(BILLION))]
Positive = Annotated[float, Field(gt=0.0, allow_inf_nan=False)]
Fraction = Annotated[float, Field(gt=0.0, le=1.0)]
#: Standard deviation of ln(predicted / measured); 5 is a factor of 148.
Deviation = Annotated[float, Field(gt=0.0, le=5.0, allow_inf_nan=False)]


class OneOf:
    """Annotation: a text that is one of the names."""

    def __init__(self, names: Collection[str]) -> None:
        self._names = names

    def __get_pydantic_core_schema__(self, source: Any, handler: Any) -> CoreSchema:
        return core_schema.literal_schema([*self._names])


class FormatOfWeights:
    """Annotation: a number format of weights, or bits per weight, such as ``4.9bpw``."""

    def __get_pydantic_core_schema__(self, source: Any, handler: Any) -> CoreSchema:
        return core_schema.no_info_wrap_validator_function(self._check, core_schema.literal_schema([*FORMATS]))

    def __get_pydantic_json_schema__(self, schema: CoreSchema, handler: Any) -> dict[str, Any]:
        bits = rf"^(({'|'.join(FORMATS)})@)?[0-9]{{1,3}}(\.[0-9]{{1,6}})?bpw$"
        return {"anyOf": [{"enum": [*FORMATS]}, {"enum": [*STORED_BITS]}, {"pattern": bits}], "type": "string"}

    def _check(self, value: object, handler: Any) -> Any:
        is_plain = isinstance(value, str) and value == value.strip().lower()
        is_stored = is_plain and (value in STORED_BITS or (str(value).endswith("bpw") and is_format(str(value))))
        return value if is_stored else handler(value)


class Quantity:
    """Annotation: a quantity of one dimension, as a text with its unit."""

    def __init__(self, dimension: str) -> None:
        self._dimension = dimension

    def __get_pydantic_core_schema__(self, source: Any, handler: Any) -> CoreSchema:
        return core_schema.no_info_before_validator_function(self._check, handler(source))

    def __get_pydantic_json_schema__(self, schema: CoreSchema, handler: Any) -> dict[str, Any]:
        return {**handler(schema), "dimension": self._dimension}

    def _check(self, value: object) -> object:
        return check_readable(from_text, value, self._dimension)


def check_readable(read: Callable[..., object], value: object, *arguments: str) -> object:
    """The value itself if `read` accepts it, else its `BadInput` as an error of pydantic."""
    if isinstance(value, str):
        _check_line(value)
    try:
        read(value, *arguments)
    except BadInput as fault:
        raise _refusal("quantity", fault) from None
    return value


class Strict(BaseModel):
    """No silent conversion, no unknown key."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True, defer_build=True)


class Cited(Strict):
    """Where something comes from."""

    source: Name
    note: Prose | None = None
    confidence: Literal["high", "medium", "low"] | None = None


_DATE = r"\d{4}(-(0[1-9]|1[0-2])(-(0[1-9]|[12]\d|3[01]))?)?"


def _check_date(value: object) -> object:
    """A day, month or year as text; YAML turns days into dates."""
    if isinstance(value, dt.datetime) or not isinstance(value, (dt.date, str)):
        raise _refusal("date", "a date must be written as 2026-11-21, 2026-11 or '2026'")
    if isinstance(value, str) and not re.fullmatch(_DATE, value, re.ASCII):
        raise _refusal("date", f"{printable(value)} is not a date; write it as 2026-11-21, 2026-11 or '2026'")
    return str(value)


Date = Annotated[str, BeforeValidator(_check_date)]


class _Source(Strict):
    title: Annotated[Title, Field(min_length=1)]
    url: Title | None = None
    date: Date
    engines: list[Name] | None = None
    gpus: list[Name] | None = None


class Document(Strict):
    """What every file has."""

    name: Name
    sources: dict[Name, _Source] = Field(min_length=1)
    notes: list[Prose] = []


#: When the fields of a record contradict each other, and what to say, with the record as {0}.
_Rule = tuple[Callable[[Any], Any], str]
#: Type of a field in a record -> type in a file.
_FILE_TYPES: dict[Any, Any] = {
    int: Count,
    str: Name,
    tuple[str, ...]: list[Name],
    float: Positive,
    Any: Positive,
    Seconds: Annotated[str, Quantity("s")],
    Bytes: Annotated[str, Quantity("B")],
    Share: Fraction,
}
_EMPTY_TYPES = {int: WholeNumber, str: _NameOrNone}  # the same for fields with a default of zero or ""


def of_record(
    record: type,
    otherwise: Mapping[str, tuple[Any, Any]],
    *,
    base: type[Strict] = Strict,
    without: Collection[str] = (),
    nulls: bool | None = None,
    rules: Sequence[_Rule] = (),
    figures: Mapping[Any, Any] = MappingProxyType({}),
) -> type[Strict]:
    """Schema of a record in a file: its fields with their types and defaults, named and described like the record.

    Whole numbers are positive, or not negative where zero is the default; times are texts with units; shares lie in
    (0, 1]; other numbers are positive and finite. `otherwise` has type and default of fields that differ, or that only
    files have; `without` names fields that no file has. `nulls` says whether fields with a default may be null (None:
    those that may be None in the record). `rules` hold for the fields together. `figures` are types of fields whose
    files state their source too.
    """
    hints = get_type_hints(record, localns={"Tower": Tower}, include_extras=True)
    members: dict[str, Any] = {name: kind for name, kind in otherwise.items() if name not in hints}
    for field in fields(record):
        hint, default = hints[field.name], field.default
        parts = get_args(hint) if get_origin(hint) in {Union, UnionType} else (hint,)
        types = [figures.get(part) or _file_type(part, default) for part in parts if part is not NoneType]
        if default is not MISSING and (NoneType in parts if nulls is None else nulls):
            types.append(NoneType)
        # times are texts in a file, so that the default of the record cannot be that of the file
        members[field.name] = (
            reduce(or_, types),
            ... if default is MISSING else None if hint in {Seconds, Bytes} else default,
        )
    members.update(otherwise)
    checks: dict[str, Any] = {"_check": model_validator(mode="after")(_keeping(rules))} if rules else {}
    schema: type[Strict] = create_model(
        record.__name__,
        __base__=base,
        __doc__=str(record.__doc__).partition(">>>")[0].rstrip(),
        __validators__=checks,
        **{name: kind for name, kind in members.items() if name not in without},
    )
    return schema


def _file_type(hint: Any, default: Any) -> Any:
    file_type = _FILE_TYPES.get(hint, hint)
    return _EMPTY_TYPES.get(hint, file_type) if default in {0, ""} else file_type


def _keeping(rules: Sequence[_Rule]) -> Callable[[Any], Any]:
    """Validator that refuses what breaks a rule."""

    def check(value: Any) -> Any:
        for is_broken, text in rules:
            if is_broken(value):
                raise _refusal("fields", text.format(value))
        return value

    return check


# Schemas of the specification files of GPUs and calibrations.


class _Rate(Cited):
    value: Annotated[str, Quantity("FLOP/s")]


class _Bytes(Cited):
    value: Annotated[str, Quantity("B")]


class _Bandwidth(Cited):
    value: Annotated[str, Quantity("B/s")]


class _Exponentials(Cited):
    value: Annotated[str, Quantity("exp/s")]


class _Power(Cited):
    value: Annotated[str, Quantity("W")]


class _Clock(Cited):
    value: Annotated[str, Quantity("Hz")]


class _Integer(Cited):
    value: Count


class _Flag(Cited):
    value: bool


class _Memory(Strict):
    kind: Name | None = None
    label: _Bytes
    usable: _Bytes
    bandwidth: _Bandwidth
    unified: bool | None = None


class _Network(Strict):
    bandwidth: _Bandwidth


class _HostLink(_Network):
    domain: _Integer | None = None


class _Ratio(Cited):
    value: Positive


class _Price(Cited):
    low: Annotated[str, Quantity("USD/s")]
    typical: Annotated[str, Quantity("USD/s")]
    high: Annotated[str, Quantity("USD/s")]


def _check_dtypes(value: Any) -> Any:
    for dtype in value if isinstance(value, Mapping) else ():
        if "spars" in str(dtype):
            raise _refusal("peak", f"{dtype}: sparse peaks are not accepted; give the dense peak")
        if dtype not in PEAKS:
            near = ", ".join(get_close_matches(str(dtype), PEAKS, 3, 0.3) or PEAKS)
            raise _refusal("peak", f"unknown dtype {dtype}; did you mean {near}?")
    return value


_FIGURES = {int: _Integer, Bytes: _Bytes, BytesPerSecond: _Bandwidth, Watts: _Power}
_LINK: Any = of_record(
    Link,
    {
        "topology": (Literal["switch", "mesh", "torus", "ring", "pcie"] | None, None),
        "in_switch_reduction": (_Flag | None, None),
    },
    figures=_FIGURES,
)
GpuSpec = of_record(
    Gpu,
    {
        "aliases": (list[Name], []),
        "status": (Literal["shipping", "announced", "pre-release", "end-of-life"], "shipping"),
        "form_factor": (Name | None, None),
        "compute_capability": (Name | None, None),
        "peak": (Annotated[dict[str, _Rate], Field(min_length=1), BeforeValidator(_check_dtypes)], ...),
        "exp_per_s": (_Exponentials | None, None),
        "cores": (_Integer | None, None),
        "clock": (_Clock | None, None),
        "memory": (_Memory, ...),
        "scale_up": (_LINK | None, None),
        "scale_out": (_Network | None, None),
        "host_link": (_HostLink | None, None),
        "sustained": (_Ratio | None, None),
        "price": (_Price | None, None),
    },
    base=Document,
    without=(
        "peaks",
        "bandwidth",
        "memory_label",
        "is_unified",
        "link",
        "exp_rate",
        "host_domain",
        "cautions",
        "power_cap",
        "electricity",
        "calibration",
        "passes",
    ),
    figures=_FIGURES,
)


class _Fit(Strict):
    """Where the efficiencies of a set come from, and how well they fit."""

    source: Name
    note: Prose | None = None
    residual: Annotated[float, Field(ge=0.0, le=5.0)] | None = None
    sigma: Annotated[float, Field(ge=0.0, le=5.0)] | None = None
    measurements: Count | None = None


if TYPE_CHECKING:  # type checkers do not take a generated class for a type
    _Kernel: TypeAlias = Any
    _Collective: TypeAlias = Any
else:
    _UNSTATED = ("is_measured", "sigma")
    _LOOSER = {
        "eta_x": (Annotated[float, Field(gt=0.0, le=2.0)] | None, None),
        "p": (Annotated[float, Field(ge=1.0)] | None, None),
    }
    _Kernel = of_record(Efficiency, _LOOSER, base=_Fit, without=_UNSTATED, nulls=True)
    _Collective = of_record(CollectiveEfficiency, {"eta": (Fraction, ...)}, base=_Fit, without=_UNSTATED, nulls=True)


class _Told(Strict):
    """Where the factor of a pass comes from."""

    source: Name
    note: Prose | None = None


if TYPE_CHECKING:
    _PassFactor: TypeAlias = Any
    _ServedPasses: TypeAlias = Any
else:
    _PassFactor = of_record(
        PassFactor,
        {
            "factor": (Annotated[float, Field(ge=0.1, le=20.0)], ...),
            "sigma": (Annotated[float, Field(gt=0.0, le=5.0)], ...),
        },
        base=_Told,
    )
    _ServedPasses = of_record(ServedPasses, {"prefill": (_PassFactor, ...), "decode": (_PassFactor, ...)})


#: Kinds of kernel with constants in a calibration; `pcie` stands for all collectives over PCIe.
_KINDS = tuple(kind.name for kind in (*CALIBRATED, *UNTIMED))
_LINKS = (*(kind.name for kind in COLLECTIVES), "pcie")


CalibrationSpec = of_record(
    Calibration,
    {
        "link": (Literal["nvlink", "pcie"], "nvlink"),
        "date": (Date | None, None),
        "kernels": (dict[Annotated[str, OneOf(_KINDS)], dict[Name, _Kernel]], ...),
        "collectives": (dict[Annotated[str, OneOf(_LINKS)], _Collective], ...),
        "served": (_ServedPasses | None, None),
    },
    base=Document,
    without=("measurements", "year", "by_engine", "run_by"),
)


# Schema of a model's specification file; its layers have the fields of their records.


def _multiple(whole: str, part: str) -> _Rule:
    """The rule that one field is a multiple of another."""
    text = f"{whole} ({{0.{whole}}}) must be a multiple of {part} ({{0.{part}}})"
    return lambda record: getattr(record, whole) % getattr(record, part), text


#: Record -> rules for its fields together.
_RULES: Mapping[type, Sequence[_Rule]] = {
    Csa: (
        _multiple("heads", "o_groups"),
        (lambda m: m.indexer and not m.ratio, "an indexer needs compressed entries to choose from; give ratio"),
    ),
    Csa2: (
        _multiple("heads", "o_groups"),
        (lambda m: m.indexer and not m.ratio, "an indexer needs compressed entries to choose from; give ratio"),
        (lambda m: m.kv_shared and not m.ratio, "kv_shared is about compressed entries; give ratio"),
        (
            lambda m: m.last and m.ratio and not m.kv_shared,
            "a layer with entries of its own needs every token of a prompt; leave out last, or give kv_shared",
        ),
        (
            lambda m: m.indexer and m.indexer.candidates and not m.kv_shared,
            "candidates are those of an earlier layer, whose entries this one reads; give kv_shared",
        ),
    ),
    Relative: (
        _multiple("heads", "kv_heads"),
        (lambda m: m.conv_out and not m.conv, "conv_out is about convolutions; give conv"),
        (lambda m: m.conv == 1, "a convolution over one token is none; leave conv out"),
    ),
    Blocks: (
        _multiple("heads", "kv_heads"),
        (
            lambda m: m.dense and m.dense < m.block * m.top_k,
            "dense ({0.dense}) must be at least the {0.top_k} blocks of {0.block} tokens that are selected",
        ),
    ),
    Gdn: (_multiple("v_heads", "k_heads"),),
    Gqa: (
        _multiple("heads", "kv_heads"),
        (
            lambda m: sum(limit is not None for limit in (m.window, m.chunk, m.indexer)) > 1,
            "window, chunk and indexer exclude each other; give one",
        ),
        (
            lambda m: m.k_eq_v and m.v_head_dim not in (None, m.head_dim),
            "with k_eq_v, v_head_dim must equal head_dim",
        ),
    ),
    Mamba2: (_multiple("heads", "groups"),),
    MemoryFfn: (
        (lambda f: f.key_dim % 2, "key_dim ({0.key_dim}) must be even: a query has two halves"),
        (lambda f: f.top_k > f.keys, "top_k ({0.top_k}) must not exceed keys ({0.keys})"),
    ),
    MoeFfn: (
        (lambda f: f.top_k > f.experts, "top_k ({0.top_k}) must not exceed experts ({0.experts})"),
        (lambda f: f.latent_norms and f.latent is None, "latent_norms needs a width of their own; give latent"),
        (lambda f: f.shared_gate and not f.shared_width, "shared_gate needs shared experts; give shared_width"),
    ),
}
_INDEXER = (
    of_record(
        Indexer,
        {},
        rules=[
            _multiple("top_k", "block"),
            (
                lambda i: i.candidates and i.candidates < i.top_k,
                "top_k ({0.top_k}) must not exceed candidates ({0.candidates})",
            ),
        ],
    )
    | None,
    None,
)
_VALUES = (Count | None, None)  # defaults to head_dim
#: Record -> type and default of fields that differ between file and record.
_OVERRIDES: Mapping[type, Mapping[str, tuple[Any, Any]]] = {
    Csa: {"indexer": _INDEXER},
    Csa2: {"indexer": _INDEXER},
    Relative: {"qk_norm": (Literal["head"] | None, None), "v_head_dim": _VALUES},
    Blocks: {"qk_norm": (Literal["head"] | None, None), "v_head_dim": _VALUES},
    Gqa: {
        "indexer": _INDEXER,
        "qk_norm": (Literal["head", "full"] | None, None),
        "v_head_dim": _VALUES,
    },
    Mla: {"indexer": _INDEXER, "rope": (WholeNumber, ...)},  # zero in GLM-5.3-Flash
}


def _one_of(records: Mapping[str, type]) -> Any:
    """Schema of one of several records, which `kind` tells apart."""
    schemas = [
        of_record(record, {"kind": (Literal[kind], ...), **_OVERRIDES.get(record, {})}, rules=_RULES.get(record, ()))
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
            raise _refusal("group", "a group must have either a mixer and an ffn, or a pattern")
        if single:
            _check_not_empty(self.mixer, self.ffn)
        return self


def _check_not_empty(mixer: Any, ffn: Any) -> None:
    if mixer.kind == ffn.kind == "none":
        raise _refusal("group", "a layer must have a mixer, an ffn or both")
    if getattr(mixer, "last", 0) != getattr(ffn, "last", 0):
        raise _refusal(
            "group", "mixer and ffn of a layer must compute the same last tokens of a prompt; give both last"
        )


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


def _of_streams(name: str) -> _Rule:
    text = f"{name} says how several residual streams are mixed; give streams"
    return lambda model: getattr(model, name) and model.streams <= 1, text


def _in_order(model: Any) -> Iterator[Any]:
    """Layers in order; what repeats more than twice is the same as what repeats twice."""
    for group in model.groups:
        for _ in range(min(group.repeat, 2)):
            yield from group.pattern or [group]


def _skips_midway(model: Any) -> bool:
    """Whether layers that compute the end of a prompt alone come before others, or differ, or are all there are."""
    ends = [getattr(layer.ffn, "last", 0) for layer in _in_order(model)]
    late = [end for end in ends if end]
    return bool(late) and (len(late) == len(ends) or ends[-len(late) :] != late[:1] * len(late))


def _lacks_owner(model: Any) -> bool:
    """Whether a layer reads what no earlier one has: a latent, entries, candidates, rows."""
    owned = set()
    for layer in _in_order(model):
        for part in (layer.mixer, layer.ffn):
            if part.kind not in ("csa2", "mla", "memory"):
                continue
            of, indexer = (part.kind, getattr(part, "ratio", 0)), getattr(part, "indexer", None)
            if (getattr(part, "kv_shared", False) or getattr(part, "shared", False)) and of not in owned:
                return True
            owned.add(of)
            if indexer and indexer.candidates and (of, "scored") not in owned:
                return True
            if indexer and indexer.own and not indexer.candidates:
                owned.add((of, "scored"))
    return False


class _Mtp(Strict):
    """Draft modules for speculative decoding, in no total."""

    layers: Annotated[int, Field(ge=1, le=100)]


_STEP: Any = of_record(Step, {})
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

_Tower: Any = of_record(
    Tower,
    {
        "kind": (Literal["vision", "audio"], VISION),
        "rule": (Annotated[str, OneOf((*RULES, *AUDIO_RULES))], ...),
        "stem": (Annotated[list[_STEP], Field(min_length=1, max_length=100)], ...),
        "projector": (Annotated[list[_STEP], Field(min_length=1, max_length=100)], ...),
    },
    base=Cited,
    rules=[
        (
            lambda t: t.kind == VISION and (not t.patch or t.rule in AUDIO_RULES),
            "a vision tower needs the side of its patches and a rule for images; give patch and rule",
        ),
        (
            lambda t: t.kind == AUDIO and not (t.rule in AUDIO_RULES and t.chunk and t.rate),
            f"an audio tower needs chunk and rate, and the rule {' or '.join(AUDIO_RULES)}",
        ),
        (lambda t: not t.head_dim and t.hidden % t.heads, "heads ({0.heads}) must divide hidden ({0.hidden})"),
        (lambda t: t.full_layers > t.layers, "full_layers ({0.full_layers}) exceed the layers ({0.layers})"),
        (
            lambda t: t.rule in ("area", "canvas", "native", "thumbnail") and not t.max_pixels,
            "rule {0.rule} needs the most pixels of an image; give max_pixels",
        ),
        (
            lambda t: t.rule in ("native", "longest", "fixed", "canvases", "tiles", "thumbnail") and not t.side,
            "rule {0.rule} needs the side of an image or tile; give side",
        ),
        (
            lambda t: t.rule in ("aspect", "budget", "thumbnail") and not t.most_tokens,
            "rule {0.rule} needs the most tokens of an image; give most_tokens",
        ),
    ],
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
        "ngrams": (of_record(Ngrams, {"conv": (WholeNumber, 4), "norms": (WholeNumber, 3)}) | None, None),
        "encoders": (Annotated[list[_Tower], Field(max_length=4)], []),
    },
    base=Document,
    without=("short_name", "stated_total", "stated_active", "mtp_layers", "cautions", "preset"),
    rules=[
        _of_streams("stream_rank"),
        _of_streams("stream_average"),
        (_skips_midway, "layers that compute the last tokens of a prompt alone are the last ones; give them one last"),
        (_lacks_owner, "a layer reads what an earlier one of its kind (and ratio) keeps or chooses; none does so"),
    ],
)


# Schema of the file of an engine profile, which has the fields of its record.


def _check_year(value: object) -> object:
    if isinstance(value, bool) or not re.fullmatch(r"\d{4}", str(value), re.ASCII):
        raise _refusal("year", f"{value!r} is not a year; write it as 2026")
    return value


_Factor = Annotated[float, Field(ge=0.001, le=1000.0)]
_TUNING: Any = of_record(
    KernelOverride,
    {
        "kind": (Annotated[str, OneOf(_KINDS)], ...),
        "peak": (Annotated[str, OneOf(PEAKS)], None),
        "compute": (_Factor, 1.0),
        "memory": (_Factor, 1.0),
    },
    nulls=False,
)


def _check_last(entries: list[Any]) -> list[Any]:
    """Every GPU has a default: the last entry is for those that no other is for."""
    if entries[-1].memory is not None or entries[-1].other_than or entries[-1].before:
        raise _refusal("by_gpu", "the last entry is for all other GPUs; leave out its memory, other_than and before")
    return entries


class _OrByGpu:
    """Annotation: a number, or a list of defaults by GPU."""

    def __get_pydantic_core_schema__(self, source: Any, handler: Any) -> CoreSchema:
        entry = of_record(GpuDefault, {"value": (source, ...)}, nulls=False)
        entries = Annotated[list[entry], Field(min_length=1, max_length=20), AfterValidator(_check_last)]  # type: ignore[valid-type]
        return core_schema.tagged_union_schema(
            {"[number]": handler(source), "[list]": handler.generate_schema(entries)},
            lambda value: "[list]" if isinstance(value, list) else "[number]",
        )


_NotNegative = Annotated[float, Field(ge=0.0, le=1000.0)]
_START_UP: Any = of_record(
    StartUp,
    {
        "share_of": (Annotated[str, OneOf((OF_ALL, OF_FREE, OF_REST))], OF_ALL),
        "sampler": (_NotNegative, 1.0),
        "table": (_NotNegative, 0.0),
    },
    nulls=False,
)

_SLOWDOWN = AliasChoices("prefill_slowdown", "stretch")  # the latter in older files

EngineSpec = of_record(
    Engine,
    {
        "aliases": (list[Name], []),
        "title": (Title, ""),
        "year": (Annotated[int | str, BeforeValidator(_check_year)], ""),
        "prefill_slowdown": (Annotated[float, Field(ge=1.0, allow_inf_nan=False, validation_alias=_SLOWDOWN)], 1.0),
        "scheduler": (Literal["decode first", "prompts first"], "decode first"),
        "max_num_batched_tokens": (Annotated[Count | None, _OrByGpu()], None),
        "max_num_seqs": (Annotated[Count | None, _OrByGpu()], None),
        "gpu_memory_utilization": (Annotated[Fraction, _OrByGpu()], 0.92),
        "max_model_len": (Count | None, None),
        "tunings": (list[_TUNING], []),
        "start_up": (list[_START_UP], []),
        "overlaps": (list[Annotated[str, OneOf(OVERLAPS)]], []),
        "sigma_ttft": (Deviation, None),
        "sigma_tpot": (Deviation, None),
        "sigma_loaded_ttft": (Deviation, None),
        "ranges": (dict[Name, Annotated[list[float | str], Field(min_length=2, max_length=2)]], {}),
    },
    base=Document,
    without=("by_gpu", "stated"),
    nulls=False,
)


# Schema of the file of an engine's command-line arguments.

_Version = Annotated[str, Field(pattern=r"^\d+(\.\d+)+[\w.]*$")]
_ByVersion = dict[_Version, list[Name]]
_ARGUMENT: Any = of_record(
    Argument,
    {
        "type": (Annotated[str, OneOf(TYPES)], "str"),
        "aliases": (list[Name], []),
        "least": (float | None, None),
        "most": (float | None, None),
        "human": (Annotated[str, OneOf((LETTERS, BINARY))], ""),
        "choices": (_ByVersion, {}),
        "default": (dict[_Version, Any], {}),
    },
    without=("name",),
)

ArgumentsSpec = of_record(
    Arguments,
    {
        "name": (Name, ...),
        "aliases": (list[Name], []),
        "title": (Title, ""),
        "versions": (Annotated[list[_Version], Field(min_length=1)], ...),
        "arguments": (dict[Name, _ARGUMENT], ...),
    },
    base=Document,
    without=("engine", "source"),
    nulls=False,
)


# Schema of the file of a named workload, which has the fields of its record.


def _check_slo(value: str) -> str:
    try:
        limits_of_text(value)
    except RooflineError as fault:
        raise _refusal("slo", fault) from None
    return value


def _check_prefix(value: int, info: ValidationInfo) -> int:
    """Refuse a prefix longer than the prompt; a faulty isl is reported by itself."""
    isl = info.data.get("isl", value)
    if value > isl:
        raise _refusal("prefix", f"must not exceed the prompt, isl = {isl}")
    return value


def _check_lengths(value: str, info: ValidationInfo) -> str:
    """Refuse a uniform law for lengths that vary more than it can."""
    widest = max(info.data.get(name, 0.0) for name in ("isl_cv", "osl_cv"))
    if value == "uniform" and widest > UNIFORM_CV:
        raise _refusal("lengths", f"a uniform law allows a cv of at most {UNIFORM_CV}, not {widest:g}; use lognormal")
    return value


#: Standard deviation over mean; above 10, the mean of a thousand requests is meaningless.
_Variation = Annotated[float, Field(ge=0.0, le=10.0)]
_LIMIT = r"[\w\-]+(@([pP][\d.]+|mean))?\s*:\s*[+]?[\d.][^,:]*"
_SHAPE = {"pattern": rf"^\s*{_LIMIT}([,\s]\s*{_LIMIT})*$"}  # for editors; `limits_of_text` is stricter
_Slo = Annotated[
    str, Field(max_length=200, examples=[SLO_EXAMPLE], json_schema_extra=_SHAPE), AfterValidator(_check_slo)
]

WorkloadSpec = of_record(
    NamedWorkload,
    {
        "title": (Title, ""),
        "isl_cv": (_Variation, 0.0),
        "osl_cv": (_Variation, 0.0),
        "lengths": (Annotated[str, OneOf(LAWS), AfterValidator(_check_lengths)], "lognormal"),
        "prefix": (Annotated[WholeNumber, AfterValidator(_check_prefix)], 0),
        "slo": (_Slo | None, None),
        "arrivals": (Annotated[str, OneOf(ARRIVALS)], "rate"),
        "waits_for": (Annotated[str, OneOf(AWAITED)] | None, None),
        "notes": (list[Prose], []),
    },
    base=Document,
    without=("source", "url", "date"),
    nulls=False,
)
