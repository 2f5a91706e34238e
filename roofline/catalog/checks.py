"""Checks of a specification file against its schema: all faults at once, with file, line and field."""

from __future__ import annotations

import datetime as dt
import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from difflib import get_close_matches
from functools import cache
from typing import Any

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from roofline.catalog.files import (
    ENDINGS,
    kind_of_fields,
    own_folder,
    shipped_document,
    shipped_entries,
    shipped_root,
    yaml_files,
)
from roofline.catalog.schema import ArgumentsSpec, CalibrationSpec, EngineSpec, GpuSpec, ModelSpec, Strict, WorkloadSpec
from roofline.catalog.yaml import Lines, fault_text, read_untrusted
from roofline.numbers.quantity import BILLION, MEGA, from_text, rounded
from roofline.physics.memory import CONVENTIONS, active_parameters, attends, kv_bytes_per_token, parameters
from roofline.specs.build import model_record, without_nulls
from roofline.specs.gpu import ANNOUNCED
from roofline.specs.model import FFNS, MIXERS, Model
from roofline.specs.names import fold, match_name, nearest_names
from roofline.specs.what_if import FIGURES, PEAK
from roofline.support.errors import BadInput, BadSpec, did_you_mean, printable, shown
from roofline.support.records import NamedTuple

SCHEMAS: Mapping[str, type[Strict]] = {
    "gpu": GpuSpec,
    "model": ModelSpec,
    "calibration": CalibrationSpec,
    "engine": EngineSpec,
    "workload": WorkloadSpec,
    "arguments": ArgumentsSpec,
}

_MOST_FAULTS = 200  # reported faults of the schema
_OWN = ("name", "aliases", "notes", "other_nodes")  # which no file inherits
_Where = tuple[str | int, ...]


class Checked(NamedTuple):
    """Content of a specification file, and its faults."""

    path: str
    kind: str  # gpu, model, calibration, engine or workload
    data: Mapping[str, Any]
    lines: Lines
    faults: list[str]


def checked_document(path: str, kind: str | None = None) -> dict[str, Any]:
    """Content of a specification file, which must have no faults; without `kind`, its fields tell what it describes."""
    file = checked(path, kind)
    if file.faults:
        raise BadSpec("\n".join(file.faults))
    return dict(file.data)


def document_faults(document: Mapping[str, Any], kind: str) -> list[str]:
    """Faults that reading a document would report, as ``field: fault``."""
    try:
        SCHEMAS[kind].model_validate(document)
    except ValidationError as errors:
        faults = [(tuple(error["loc"]), error["msg"]) for error in errors.errors()]
    else:
        faults = list(_unknown_sources((), document, document.get("sources")))
    return list(dict.fromkeys(printable(f"{'.'.join(map(str, where))}: {text}") for where, text in faults))


def checked(path: str, kind: str | None = None) -> Checked:
    """A specification file with its faults in the order of lines: of YAML, of the schema, of implausible figures."""
    data, lines, faults = read_untrusted(path)
    if not isinstance(data, dict):
        raise BadSpec(fault_text(path, 1, "a specification must be a mapping of fields"))
    kind = kind or kind_of_fields(data)
    if kind == "gpu" and "inherit" in data:
        data = _heir(path, lines, data)
    try:
        SCHEMAS[kind].model_validate(data)
    except ValidationError as errors:
        names = _field_names(SCHEMAS[kind])
        details = errors.errors(include_url=False, include_context=False, include_input=False)
        faults += [_schema_fault(path, lines, error, names) for error in details[:_MOST_FAULTS]]
        if len(details) > _MOST_FAULTS:
            faults.append(fault_text(path, 1, f"file: {len(details) - _MOST_FAULTS} more faults"))
    further = [*_unknown_sources((), data, data.get("sources")), *(slips(data) if kind == "gpu" else ())]
    return Checked(path, kind, data, lines, ordered(path, [*faults, *located(path, lines, further)]))


def _heir(path: str, lines: Lines, data: Mapping[str, Any]) -> dict[str, Any]:
    """Content of a GPU's file with what it leaves out: that of the catalog's GPU which `inherit` names."""
    named = data["inherit"]
    entry = None
    if isinstance(named, str):
        match = match_name(named, shipped_entries("gpu"), "gpu")
        entry = None if match is None else match.entry
    if entry is None:
        known = nearest_names(str(named), shipped_entries("gpu"))
        text = f"inherit: the catalog has no GPU {shown(named)}{did_you_mean(known)}"
        raise BadSpec(fault_text(path, lines[("inherit",)], text))
    parent = {key: value for key, value in shipped_document(entry.path).items() if key not in _OWN}
    merged = _merged(parent, {key: value for key, value in data.items() if key != "inherit"})
    cited, own = set(_cited(merged)), data.get("sources")
    kept = cited | (set(own) if isinstance(own, Mapping) else set())
    merged["sources"] = {key: value for key, value in merged["sources"].items() if key in kept}
    return merged


def _cited(value: Any) -> Iterator[str]:
    """Keys of the sources that the figures of a document cite."""
    if isinstance(value, Mapping):
        if isinstance(value.get("source"), str):
            yield value["source"]
        for key, item in value.items():
            if key != "sources":
                yield from _cited(item)


def _merged(parent: Mapping[str, Any], data: Mapping[str, Any]) -> dict[str, Any]:
    """Fields of both; where both have one, those of `data`, and a figure as a whole with its source and notes."""
    merged = dict(parent)
    for key, value in data.items():
        old = parent.get(key)
        is_group = isinstance(old, Mapping) and isinstance(value, Mapping) and not {"value", "low", "title"} & set(old)
        merged[key] = _merged(old, value) if is_group else value  # type: ignore[arg-type]
    return merged


def located(path: str, lines: Lines, faults: Iterable[Fault]) -> list[str]:
    """Faults as ``file:line: field: text``, each on the line of the innermost field that the file has."""
    return [_located(path, lines, where, text) for where, text in faults]


def ordered(path: str, faults: Iterable[str]) -> list[str]:
    """Faults of one file sorted by line, without duplicates."""
    start = len(printable(path)) + 1
    return sorted(dict.fromkeys(faults), key=lambda fault: int(fault[start:].partition(":")[0]))


def _unknown_sources(where: _Where, value: Any, known: Any) -> Iterator[Fault]:
    """Citations of sources that the file does not list."""
    if isinstance(value, Mapping):
        cited = value.get("source")
        if isinstance(cited, str) and not (isinstance(known, Mapping) and cited in known):
            yield (*where, "source"), f"{cited!r} is not listed under sources"
        for key, item in value.items():
            if where or key != "sources":
                yield from _unknown_sources((*where, key), item, known)
    elif isinstance(value, list):
        for position, item in enumerate(value):
            yield from _unknown_sources((*where, position), item, known)


def _schema_fault(path: str, lines: Lines, error: ErrorDetails, names: Set[str]) -> str:
    """One fault of the schema in words of this project."""
    where: _Where = ()
    for part in error["loc"]:  # without the branches of choices that pydantic tried
        if (*where, part) in lines or part not in (*MIXERS, *FFNS, "[key]", "[number]", "[list]"):
            where = (*where, part)
    text = error["msg"]
    if error["type"] == "missing":
        text = "missing"
    elif error["type"] in {"model_type", "dict_type"}:
        text = "must be a mapping of fields"
    elif error["type"] == "extra_forbidden":
        near = get_close_matches(str(where[-1]), names - {where[-1]}, 1, 0.6)
        text = "unknown key" + (f"; did you mean {near[0]}?" if near else "")
    return _located(path, lines, where, text)


def _located(path: str, lines: Lines, where: _Where, text: str) -> str:
    nearest = where
    while nearest not in lines:
        nearest = nearest[:-1]
    return fault_text(path, lines[nearest], f"{'.'.join(map(str, where)) or 'file'}: {text}")


@cache
def _field_names(schema: type[BaseModel]) -> frozenset[str]:
    """Names of all fields of a schema, at any depth."""
    document = schema.model_json_schema()
    parts = (document, *document.get("$defs", {}).values())
    return frozenset(name for part in parts for name in part.get("properties", {}))


# Plausibility of the figures of a GPU: wrong units or prefixes, sparse peaks, ratios that no GPU has.
#
# Slips are refused wherever a user's file is read; doubts are reported by `roofline check-specs` alone. A note that
# explains a figure silences both.

#: Path of a fault, as keys and positions, and its description.
Fault = tuple[tuple[str | int, ...], str]

# Dense 16-bit ridge points of accelerators range from 37 (H20) to 420 FLOP/B (L40S); a sparse peak doubles them, and a
# wrong prefix is a factor of a thousand.
_LOWEST_RIDGE, _HIGHEST_RIDGE = 15.0, 500.0
_HIGHEST_FP8_RATIO = 2.2

# Figure -> dimension and range of GPUs on the market, with an order of magnitude to spare.
_RANGES = {**FIGURES, "clock": ("Hz", "0.1 GHz", "10 GHz")}
_PEAKS = PEAK
_PRICES = ("USD/s", "0.01 USD/h", "1000 USD/h")
_SMALLEST_USABLE_SHARE = 0.8

# Usual ratios of dense tensor-core rates to the 16-bit rate.
_RATIOS = {
    "fp16": (1.0,),
    "tf32": (0.5,),
    "fp8": (2.0,),
    "int8": (1.0, 2.0),
    "fp6": (2.0, 4.0),
    "fp4": (4.0,),
    "int4": (4.0,),
}
_RATIO_TOLERANCE = 0.03
# Special functions per core and clock: 16 on NVIDIA's SMs, 32 on Blackwell Ultra; a factor of four to spare.
_FEWEST_EXPS, _MOST_EXPS = 4.0, 128.0
_ROUNDING = 1.005


def slips(data: Mapping[str, Any]) -> Iterator[Fault]:
    """Figures of a GPU that can only be mistakes; `data` may hold anything."""
    yield from _sparse_peaks(data)
    for dtype in _mapping(data, "peak"):
        yield from _out_of_range(data, ("peak", dtype), *_PEAKS)
    for path, bounds in _RANGES.items():
        yield from _out_of_range(data, tuple(path.split(".")), *bounds)
    yield from _prices(data)
    yield from _memory(data)
    peer = _value(data, ("scale_up", "peer_bandwidth"), "B/s")
    total = _value(data, ("scale_up", "bandwidth"), "B/s")
    if peer and total and peer > total * _ROUNDING:
        yield ("scale_up", "peer_bandwidth"), "exceeds scale_up.bandwidth, the rate to all peers together"


def doubts(data: Mapping[str, Any]) -> Iterator[Fault]:
    """Figures of a GPU that need a note to explain them; `data` may hold anything."""
    sixteen_bit = _sixteen_bit_peak(data)
    reference = sixteen_bit and _value(data, ("peak", sixteen_bit), "FLOP/s")
    if reference:
        for dtype, ratios in _RATIOS.items():
            value = _value(data, ("peak", dtype), "FLOP/s")
            if value is None or dtype == sixteen_bit or _is_explained(data, ("peak", dtype)):
                continue
            if all(abs(value / reference / ratio - 1.0) > _RATIO_TOLERANCE for ratio in ratios):
                found, usual = f"{value / reference:.2f}", " or ".join(f"{ratio:g}" for ratio in ratios)
                yield ("peak", dtype), f"{found} times the {sixteen_bit} peak, not {usual}; explain it in a note"
    link, memory = _value(data, ("scale_up", "bandwidth"), "B/s"), _value(data, ("memory", "bandwidth"), "B/s")
    is_possible = link and memory and _is_within(memory, *_RANGES["memory.bandwidth"])
    if link and memory and is_possible and link > memory and not _is_explained(data, ("scale_up", "bandwidth")):
        advice = "give it per direction and GPU, or explain it in a note"
        yield ("scale_up", "bandwidth"), f"exceeds the memory bandwidth; {advice}"
    yield from _exponentials(data)


def _exponentials(data: Mapping[str, Any]) -> Iterator[Fault]:
    """A rate of special functions that is implausible for the cores and their clock."""
    rate, clock = _value(data, ("exp_per_s",), "exp/s"), _value(data, ("clock",), "Hz")
    cores = _mapping(data, "cores").get("value")
    if not (rate and clock and type(cores) is int and cores > 0) or _is_explained(data, ("exp_per_s",)):
        return
    per_clock = rate / cores / clock
    if not _FEWEST_EXPS <= per_clock <= _MOST_EXPS:
        yield ("exp_per_s",), f"{per_clock:.3g} per core and clock, usually 16; explain it in a note"


def _sparse_peaks(data: Mapping[str, Any]) -> Iterator[Fault]:
    """A missing 16-bit peak, and peaks that can only be 2:4 sparse or have a wrong prefix."""
    peaks = {dtype: _value(data, ("peak", dtype), "FLOP/s") for dtype in _mapping(data, "peak")}
    sixteen_bit = _sixteen_bit_peak(data)
    is_new = data.get("status") in ANNOUNCED  # which state narrow peaks first
    if peaks and not sixteen_bit and not is_new:
        yield ("peak",), "bf16 or fp16 is missing; every model needs one"
    reference, bandwidth = peaks.get(sixteen_bit or ""), _value(data, ("memory", "bandwidth"), "B/s")
    if not sixteen_bit or not reference:
        return
    advice = "suggests a sparse peak; give the dense one, or explain it in a note"
    is_possible = bandwidth and _is_within(reference, *_PEAKS) and _is_within(bandwidth, *_RANGES["memory.bandwidth"])
    if bandwidth and is_possible and not _is_explained(data, ("peak", sixteen_bit), ("memory", "bandwidth")):
        ridge = reference / bandwidth
        if ridge > _HIGHEST_RIDGE:
            yield ("peak", sixteen_bit), f"a ridge of {ridge:.0f} FLOP/B {advice}"
        elif ridge < _LOWEST_RIDGE:
            text = f"a ridge of {ridge:.2g} FLOP/B is lower than any accelerator's; check the units of the peak"
            yield ("peak", sixteen_bit), f"{text} and the memory bandwidth, or explain it in a note"
    ratio = (peaks.get("fp8") or 0.0) / reference
    if ratio > _HIGHEST_FP8_RATIO and not _is_explained(data, ("peak", "fp8")):
        yield ("peak", "fp8"), f"{ratio:.1f} times the 16-bit peak {advice}"


def _prices(data: Mapping[str, Any]) -> Iterator[Fault]:
    price = _mapping(data, "price")
    amounts = [_amount(price.get(key), "USD/s") for key in ("low", "typical", "high")]
    least, most = (from_text(bound, _PRICES[0]) for bound in _PRICES[1:])
    for key, amount in zip(("low", "typical", "high"), amounts, strict=True):
        if amount and not least <= amount <= most and not _is_explained(data, ("price",)):
            text = f"{price[key]} is not between {_PRICES[1]} and {_PRICES[2]}; correct it or explain it in a note"
            yield ("price", key), text
    low, typical, high = amounts
    if low and typical and high and not low <= typical <= high:
        yield ("price",), "must satisfy low <= typical <= high"


def _memory(data: Mapping[str, Any]) -> Iterator[Fault]:
    """Usable memory that exceeds the label, even if that means GiB, or is far below it."""
    label, usable = _value(data, ("memory", "label"), "B"), _value(data, ("memory", "usable"), "B")
    if not label or not usable or _is_explained(data, ("memory", "label")):
        return
    binary = from_text("1 GiB", "B") / from_text("1 GB", "B")
    comparison = f"{data['memory']['usable']['value']} usable of {data['memory']['label']['value']}"
    if usable > label * binary * _ROUNDING:
        yield ("memory", "usable"), f"{comparison}: more than the label, even in GiB"
    elif usable < label * _SMALLEST_USABLE_SHARE and not _is_explained(data, ("memory", "usable")):
        yield ("memory", "usable"), f"{comparison}: less than {_SMALLEST_USABLE_SHARE:.0%}; explain it in a note"


def _out_of_range(
    data: Mapping[str, Any], path: tuple[str, ...], dimension: str, low: str, high: str
) -> Iterator[Fault]:
    value = _value(data, path, dimension)
    if not (value is None or _is_explained(data, path) or _is_within(value, dimension, low, high)):
        text = _figure(data, path)["value"]
        yield path, f"{text!r} is not between {low} and {high}; check the unit, or explain it in a note"


def _is_within(value: float, dimension: str, low: str, high: str) -> bool:
    return from_text(low, dimension) <= value <= from_text(high, dimension)


def _sixteen_bit_peak(data: Mapping[str, Any]) -> str | None:
    """The 16-bit dtype that other peaks are compared with; None without one."""
    return next((dtype for dtype in ("bf16", "fp16") if dtype in _mapping(data, "peak")), None)


def _is_explained(data: Mapping[str, Any], *paths: tuple[str, ...]) -> bool:
    return any(bool(_figure(data, path).get("note")) for path in paths)


def _value(data: Mapping[str, Any], path: tuple[str, ...], dimension: str) -> float | None:
    """SI value of a figure; None where it is absent or unreadable, which the schema reports."""
    return _amount(_figure(data, path).get("value"), dimension)


def _amount(text: object, dimension: str) -> float | None:
    try:
        return from_text(text, dimension)
    except BadInput:
        return None


def _figure(data: Mapping[str, Any], path: tuple[str, ...]) -> Mapping[str, Any]:
    for key in path:
        data = _mapping(data, key)
    return data


def _mapping(data: Mapping[str, Any], key: str) -> Mapping[str, Any]:
    value = data.get(key)
    return value if isinstance(value, Mapping) else {}


# Checks of `roofline check-specs` beyond those of reading a specification.
#
# Sources must be cited and dated, names unique, unusual figures explained in a note, and the stated parameters of a
# model must agree with its layers.

_ENTRIES = ("gpu", "model")
_UNCITED = ("engine", "workload", "arguments")  # kinds whose figures do not cite sources one by one
# Sources of this release are not in the future, even where the clock of a machine is wrong.
_RELEASED = dt.date(2026, 11, 21)
_SHORTEST_MENTION = 4
_MOST_UNCITED, _LONGEST_NOTES = 100, 1 << 16  # sources to search for in notes, characters of notes: bounds the time


class Report(NamedTuple):
    """Number of files checked, and their faults."""

    counts: Mapping[str, int]  # kind of a specification -> files
    faults: tuple[str, ...]  # file:line: field: fault


def spec_files(path: str | None) -> list[str]:
    """Specification files at a path, a file or a folder; None means the shipped catalogs."""
    if path is None:
        return [file for kind in (*_ENTRIES, *_UNCITED[:2]) for file in yaml_files(shipped_root(kind))]
    if os.path.isfile(path):
        if not path.endswith(ENDINGS):
            raise BadSpec(f"{path}: not a specification; its file name must end in {' or '.join(ENDINGS)}")
        return [path]
    paths = yaml_files(own_folder(path))
    if not paths:
        raise BadSpec(f"{path}: no specifications here; their file names must end in {' or '.join(ENDINGS)}")
    return paths


def audit(paths: Sequence[str]) -> Report:
    """Check files one by one, and their names against each other and the shipped ones."""
    faults: dict[str, list[str]] = {}
    files: list[Checked] = []
    for path in paths:
        try:
            file = checked(path)
        except BadSpec as error:
            faults[path] = str(error).splitlines()
            continue
        files.append(file)
        further = [*_source_faults(file), *_doubts(file), *(() if file.faults else _layer_faults(file))]
        faults[path] = [*file.faults, *located(path, file.lines, further)]
    for file, fault in _name_faults(files):
        faults[file.path] += located(file.path, file.lines, [fault])
    counts = {kind: sum(file.kind == kind for file in files) for kind in (*_ENTRIES, "calibration", *_UNCITED)}
    return Report(counts, tuple(line for path in paths for line in ordered(path, faults[path])))


def _doubts(file: Checked) -> Iterator[Fault]:
    if file.kind == "gpu":
        yield from doubts(file.data)
    name = file.data.get("name")
    if file.kind == "calibration" and isinstance(name, str):
        stem = os.path.splitext(os.path.basename(file.path))[0]
        if stem != name:
            yield ("name",), f"does not match the file name; rename the file to {name}{ENDINGS[0]}"


def _layer_faults(file: Checked) -> Iterator[Fault]:
    """Faults of a model's stated parameters, or the one that only building its record reveals."""
    if file.kind != "model":
        return
    data = without_nulls(dict(file.data))
    try:
        yield from stated_faults(model_record(data), data)
    except (KeyError, TypeError, ValueError, AttributeError, ArithmeticError, BadInput) as fault:
        yield (), f"{type(fault).__name__}: {fault}"


def _source_faults(file: Checked) -> Iterator[Fault]:
    """Sources that are neither cited nor mentioned, and dates in the future."""
    sources = file.data.get("sources")
    if not isinstance(sources, Mapping):
        return
    rest = {key: value for key, value in file.data.items() if key != "sources"}
    cited, notes = set(_texts(rest, "source")), "\n".join((*_texts(rest, "note"), *_texts(rest, "notes")))
    notes, uncited = notes[:_LONGEST_NOTES], 0
    today = max(dt.datetime.now(tz=dt.UTC).date(), _RELEASED)
    for key, source in sources.items():
        entry = source if isinstance(source, Mapping) else {}
        is_uncited = file.kind not in _UNCITED and key not in cited
        uncited += is_uncited
        if is_uncited and (uncited > _MOST_UNCITED or not _is_mentioned(str(key), str(entry.get("title", "")), notes)):
            yield ("sources", key), "source is never cited; cite it or remove it"
        first = _first_day(str(entry.get("date", "")))
        if first is not None and first > today:
            yield ("sources", key, "date"), f"{entry['date']} is in the future"


def _is_mentioned(key: str, title: str, notes: str) -> bool:
    """Whether the notes mention a source by its key, its title, or the beginning of its title."""
    beginning = re.split(r"[,(:@]", title)[0].strip()
    words = [word for word in (key, title.strip(), beginning) if word == key or len(word) >= _SHORTEST_MENTION]
    return any(re.search(rf"(?<![\w-]){re.escape(word)}(?![\w-])", notes, re.IGNORECASE) for word in words)


def _texts(value: Any, name: str, key: Any = None) -> Iterator[str]:
    """Texts of all fields of a name, at any depth below a value."""
    if isinstance(value, Mapping):
        for field, item in value.items():
            yield from _texts(item, name, field)
    elif isinstance(value, list):
        for item in value:
            yield from _texts(item, name, key)
    elif key == name and isinstance(value, str):
        yield value


def _first_day(date: str) -> dt.date | None:
    """First day of a year or month, or the day itself; None for other texts."""
    try:
        return dt.date.fromisoformat((date + "-01-01")[:10])
    except ValueError:
        return None


def _name_faults(files: Sequence[Checked]) -> Iterator[tuple[Checked, Fault]]:
    """Names that two entries of a kind claim; the canonical name of a shipped file may be claimed, to replace it."""
    checked_paths = {os.path.realpath(file.path) for file in files}
    for kind in _ENTRIES:
        named = [(file, _stated_names(file.data)) for file in files if file.kind == kind]
        canonical = {fold(names[0][1]) for _, names in named if names}
        owners: dict[str, tuple[object, str]] = {}
        for entry in shipped_entries(kind):
            if os.path.realpath(entry.path) not in checked_paths and entry.names[0] not in canonical:
                spellings = (spelling for name in entry.names for spelling in _spellings(name))
                owners.update(dict.fromkeys(spellings, (entry, entry.short)))
        for file, names in named:
            for where, name in names:
                for spelling in _spellings(name):
                    owner, owner_name = owners.setdefault(spelling, (file, str(names[0][1])))
                    if owner is not file:
                        yield file, (where, f"the name {name!r} is already taken by {owner_name}; choose another")
                        break


def _stated_names(data: Mapping[str, Any]) -> list[tuple[tuple[str | int, ...], str]]:
    """Canonical name and aliases, each with its path in the file."""
    aliases = data.get("aliases")
    numbered = enumerate(aliases) if isinstance(aliases, list) else ()
    names = [(("name",), data.get("name")), *((("aliases", position), alias) for position, alias in numbered)]
    return [(where, name) for where, name in names if isinstance(name, str)]


def _spellings(name: str) -> tuple[str, ...]:
    """A folded name, with and without its organisation."""
    folded = fold(name)
    return (folded, folded.rpartition("/")[2]) if "/" in folded else (folded,)


# Stated parameter counts of a model against those of its layers.

_TOTAL_TOLERANCE = 0.01
_ACTIVE_TOLERANCE = 0.025  # publishers round to two digits
_MOST_KV_PER_TOKEN = 10 * MEGA  # [B]; 4.5 MB for models like MPT-30B without shared KV heads


def stated_faults(model: Model, data: Mapping[str, Any]) -> Iterator[tuple[tuple[str | int, ...], str]]:
    """Stated counts that the layers contradict, unless a note explains them, and an implausible KV cache."""
    figures = data.get("parameters") or {}
    if model.stated_total is not None and not figures["total"].get("note"):
        yield from _disagreement("total", model.stated_total, parameters(model).total, _TOTAL_TOLERANCE)
    if model.stated_active is not None and not figures["active"].get("note"):
        convention = figures["active"].get("convention")
        allowed = (convention,) if convention else CONVENTIONS
        counts = [active_parameters(model, name) for name in allowed]
        nearest = min(counts, key=lambda count: abs(count - (model.stated_active or 0.0)))
        yield from _disagreement("active", model.stated_active, nearest, _ACTIVE_TOLERANCE)
    if attends(model):
        nbytes = kv_bytes_per_token(model)
        if not 0.0 < nbytes < _MOST_KV_PER_TOKEN:
            text = f"a KV cache of {rounded(nbytes / MEGA)} MB per token is implausible; check heads and layers"
            yield ("groups",), text


def _disagreement(name: str, stated: float, counted: float, tolerance: float) -> Iterator[Fault]:
    gap = counted / stated - 1.0
    if abs(gap) > tolerance:
        sizes = f"{rounded(stated / BILLION, 4)} B stated, but the layers add up to {rounded(counted / BILLION, 4)} B"
        advice = "correct it or explain it in a note"
        yield ("parameters", name), f"{sizes} ({gap:+.1%}, beyond {tolerance:.1%}); {advice}"
