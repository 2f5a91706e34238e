"""Records from the mappings that YAML files hold."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from roofline.numbers.quantity import count_from_text, from_text
from roofline.specs.arguments import Argument, Arguments
from roofline.specs.engine import BY_GPU, Engine, GpuDefault, KernelOverride, StartUp
from roofline.specs.formats import COMPUTE
from roofline.specs.gpu import (
    UNLINKED,
    Calibration,
    CollectiveEfficiency,
    Efficiency,
    Gpu,
    Link,
    PassFactor,
    Price,
    ServedPasses,
)
from roofline.specs.model import FFNS, MIXERS, Ffn, Group, Indexer, Layer, Mixer, Model, Ngrams
from roofline.specs.names import declared
from roofline.specs.workload import NamedWorkload
from roofline.support.records import replace

if TYPE_CHECKING:
    from roofline.specs.media import Tower

#: Section of a checkpoint -> its number format where a file states none.
DEFAULT_NATIVE = {"linear": "bf16", "embed": "bf16", "head": "bf16", "router": "bf16", "norm": "bf16", "kv": "bf16"}
#: Type of a field -> dimension of the text that files state.
_DIMENSIONS = {"Seconds": "s", "Bytes": "B", "BytesPerSecond": "B/s", "Watts": "W"}
#: What holds for the memory of one chip with CPU and GPU.
_UNIFIED = "CPU and GPU share the memory and its bandwidth; what else runs there takes its part of both"
#: Sections whose format is that of `linear` where a file states none.
LIKE_LINEAR = ("attention", "shared", "experts")
#: Kinds of mixers whose values are as wide as their keys where a file does not say.
WITH_VALUES = ("gqa", "relative", "blocks")


def gpu_record(document: Mapping[str, Any], calibration: Calibration | None) -> Gpu:
    """The record in SI units; KeyError where a required field is missing."""
    memory, host = document["memory"], document.get("host_link", {})
    derived: dict[str, Any] = {
        "aliases": tuple(document.get("aliases", ())),
        "peaks": {dtype: from_text(figure["value"], "FLOP/s") for dtype, figure in document["peak"].items()},
        "bandwidth": from_text(memory["bandwidth"]["value"], "B/s"),
        "memory": from_text(memory["usable"]["value"], "B"),
        "memory_label": from_text(memory["label"]["value"], "B"),
        "is_unified": bool(memory.get("unified")),
        "link": Link(**_fields(Link, document["scale_up"])) if "scale_up" in document else UNLINKED,
        "exp_rate": _optional(document, "exp_per_s", "exp/s"),
        "scale_out": _optional(document.get("scale_out", {}), "bandwidth", "B/s"),
        "host_link": _optional(host, "bandwidth", "B/s"),
        "host_domain": host["domain"]["value"] if "domain" in host else None,
        "price": _price(document),
        "cautions": _cautions(document),
        "calibration": calibration,
        "passes": _factors(calibration),
    }
    stated = {name: value for name, value in document.items() if name not in derived}
    return Gpu(**_fields(Gpu, stated), **derived)


def _factors(calibration: Calibration | None) -> tuple[float, float] | None:
    served = None if calibration is None else calibration.served
    return None if served is None else (served.prefill.factor, served.decode.factor)


def sustained_efficiencies(name: str, sustained: float, calibration: Calibration) -> Calibration:
    """Inherited efficiencies, with compute shares scaled by what the GPU sustains under load (at most 1).

    Unchanged for a GPU that was timed itself or states no `sustained`.
    """
    if sustained == 1.0 or name in calibration.measured_on:
        return calibration
    sets = {key: replace(entry, eta_c=min(entry.eta_c * sustained, 1.0)) for key, entry in calibration.kernels.items()}
    return replace(calibration, kernels=sets)


def model_record(document: Mapping[str, Any]) -> Model:
    aliases = tuple(document["aliases"])
    published = document.get("parameters", {})
    native = {**DEFAULT_NATIVE, **document.get("native", {})}
    for section in LIKE_LINEAR:
        native.setdefault(section, native["linear"])
    derived = {
        "short_name": aliases[0],
        "aliases": aliases,
        "groups": tuple(_group(group) for group in document["groups"]),
        "native": native,
        "stated_total": _count(published, "total"),
        "stated_active": _count(published, "active"),
        "mtp_layers": document.get("mtp", {}).get("layers", 0),
        "ngrams": Ngrams(**document["ngrams"]) if "ngrams" in document else None,
        "encoders": tuple(map(_tower, document.get("encoders", ()))),
    }
    return Model(**{**_fields(Model, document), **derived})


def calibration_record(document: Mapping[str, Any]) -> Calibration:
    sets = [entry for kinds in document["kernels"].values() for entry in kinds.values()]
    served = document.get("served")
    known = {} if served is None else {"sigma": 0.0}  # servers say how far off whole passes are, their kernels together
    derived = {
        "kernels": {
            (kind, dtype): Efficiency(**{**_fields(Efficiency, entry), **known}, is_measured=_is_measured(entry))
            for kind, kinds in document["kernels"].items()
            for dtype, entry in kinds.items()
        },
        "collectives": {
            name: CollectiveEfficiency(
                **{**_fields(CollectiveEfficiency, entry), **known}, is_measured=_is_measured(entry)
            )
            for name, entry in document["collectives"].items()
        },
        "measurements": sum(entry.get("measurements", 0) for entry in (*sets, *document["collectives"].values())),
        "year": str(document.get("date", ""))[:4],
        "served": None
        if served is None
        else ServedPasses(*(PassFactor(**_fields(PassFactor, served[name])) for name in ("prefill", "decode"))),
    }
    return Calibration(**{**_fields(Calibration, document), **derived})


def engine_record(document: Mapping[str, Any]) -> Engine:
    fields = _fields(Engine, document)
    listed = {name: fields.pop(name) for name in BY_GPU if isinstance(fields.get(name), list)}
    return Engine(
        **{
            **fields,
            "by_gpu": tuple((name, tuple(map(_gpu_default, entries))) for name, entries in listed.items()),
            "tunings": tuple(KernelOverride(**_fields(KernelOverride, entry)) for entry in fields.get("tunings", ())),
            "start_up": tuple(StartUp(**_fields(StartUp, entry)) for entry in fields.get("start_up", ())),
        }
    )


def arguments_record(document: Mapping[str, Any]) -> Arguments:
    versions = tuple(map(str, document["versions"]))
    listed = {name: _argument(name, entry) for name, entry in document["arguments"].items()}
    source = next(iter(document["sources"].values()))
    return Arguments(document["name"], document["title"], versions, listed, source["url"])


def _argument(name: str, entry: Mapping[str, Any]) -> Argument:
    by_version = {
        "choices": tuple((version, tuple(map(str, words))) for version, words in entry.get("choices", {}).items()),
        "default": tuple(entry.get("default", {}).items()),
    }
    plain = {key: value for key, value in entry.items() if key not in by_version}
    return Argument(name, **{**plain, "aliases": tuple(entry.get("aliases", ())), **by_version})


def _gpu_default(entry: Mapping[str, Any]) -> GpuDefault:
    return GpuDefault(**_fields(GpuDefault, entry))


def workload_record(document: Mapping[str, Any]) -> NamedWorkload:
    """The record, citing the first of its sources."""
    first = next(iter(document["sources"].values()))
    cited = {"source": first["title"], "url": first.get("url", ""), "date": str(first["date"])}
    return NamedWorkload(**{**_fields(NamedWorkload, document), **cited})


def without_nulls(value: Any) -> Any:
    """A document without its null fields, which count as left out."""
    if isinstance(value, dict):
        return {key: without_nulls(item) for key, item in value.items() if item is not None}
    return [without_nulls(item) for item in value] if isinstance(value, list) else value


def _fields(record: type, document: Mapping[str, Any]) -> dict[str, Any]:
    """Fields of a record that a document states, in SI units."""
    types = declared(record)
    return {name: _si_value(types[name], value) for name, value in document.items() if name in types}


def _si_value(kind: str, value: Any) -> Any:
    """A value in the type of its field; a figure may stand beside its source."""
    if isinstance(value, dict) and "value" in value:
        value = value["value"]
    dimension = _DIMENSIONS.get(kind.removesuffix(" | None"))
    if dimension is not None:
        return from_text(value, dimension)
    if kind == "tuple[str, ...]":
        return tuple(value)
    if kind == "str":
        return str(value)  # YAML reads a year as a number
    return float(value) if type(value) is int and not kind.startswith("int") else value


def _is_measured(entry: Mapping[str, Any]) -> bool:
    """Only sets fitted on measurements have a residual."""
    return "residual" in entry


def sustained_share(document: Mapping[str, Any]) -> float:
    """What a GPU sustains of its peaks under load, relative to the GPU of its calibration."""
    return float(document.get("sustained", {"value": 1.0})["value"])


def _optional(document: Mapping[str, Any], field: str, dimension: str) -> float | None:
    figure = document.get(field)
    return None if figure is None else from_text(figure["value"], dimension)


def _price(document: Mapping[str, Any]) -> Price | None:
    price = document.get("price")
    if price is None:
        return None
    low, typical, high = (from_text(price[key], "USD/s") for key in ("low", "typical", "high"))
    source = document.get("sources", {}).get(price.get("source"), {})
    return Price(low, typical, high, f"catalog {source.get('date', '')}".strip())


def _cautions(document: Mapping[str, Any]) -> tuple[str, ...]:
    """Memory that the CPU shares, and figures with low confidence that decide times, memory or cost."""
    name = document["name"]
    shared = [f"{name}: {_UNIFIED}"] if document["memory"].get("unified") else []
    figures = {f"peak.{dtype}": figure for dtype, figure in document["peak"].items() if dtype in COMPUTE[1:]}
    figures |= {f"memory.{name}": document["memory"][name] for name in ("usable", "bandwidth")}
    figures |= {"scale_up.bandwidth": document.get("scale_up", {}).get("bandwidth") or {}}
    figures |= {"exp_per_s": document.get("exp_per_s") or {}}
    figures["price"] = document.get("price") or {}
    doubtful = [name for name, figure in figures.items() if figure.get("confidence") == "low"]
    if doubtful:
        shared.append(f"{name}: low confidence in {', '.join(doubtful)} (roofline gpus show {name})")
    return tuple(shared)


def _count(parameters: Mapping[str, Any], field: str) -> float | None:
    figure = parameters.get(field)
    return None if figure is None else count_from_text(figure["value"])


def _group(group: Mapping[str, Any]) -> Group:
    pattern = group.get("pattern") or [group]
    return Group(group["repeat"], tuple(Layer(_mixer(layer["mixer"]), _ffn(layer["ffn"])) for layer in pattern))


def _tower(document: Mapping[str, Any]) -> Tower:
    from roofline.specs.media import Step, Tower

    values = _fields(Tower, document)
    return Tower(**{**values, **{part: tuple(Step(**step) for step in values[part]) for part in ("stem", "projector")}})


def _mixer(fields: Mapping[str, Any]) -> Mixer:
    values = {key: value for key, value in fields.items() if key != "kind"}
    if "indexer" in values:
        values["indexer"] = Indexer(**values["indexer"])
    if fields["kind"] in WITH_VALUES:
        values.setdefault("v_head_dim", values["head_dim"])
    return MIXERS[fields["kind"]](**values)


def _ffn(fields: Mapping[str, Any]) -> Ffn:
    return FFNS[fields["kind"]](**{key: value for key, value in fields.items() if key != "kind"})
