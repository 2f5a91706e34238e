"""Records of GPUs and models by name or path.

Shipped files are read without checks, because the tests prove them; users' files go through the schema.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping, Sequence
from functools import cache, lru_cache
from typing import Any

from roofline.catalog.files import (
    ENDINGS,
    entries,
    kind_of,
    own_entry,
    own_folder,
    shipped_by_name,
    shipped_document,
    shipped_entry,
    shipped_figures,
    shipped_root,
    spec_text,
    yaml_files,
)
from roofline.numbers.quantity import GIGA, KIBI, from_text
from roofline.specs.arguments import Arguments
from roofline.specs.build import (
    arguments_record,
    calibration_record,
    engine_record,
    gpu_record,
    model_record,
    sustained_efficiencies,
    sustained_share,
    without_nulls,
    workload_record,
)
from roofline.specs.engine import Engine
from roofline.specs.gpu import Calibration, CollectiveEfficiency, Efficiency, Gpu, TimedEngine
from roofline.specs.model import Model
from roofline.specs.names import (
    LABELS,
    Entry,
    Label,
    Match,
    fold,
    label_of,
    labelled,
    match_name,
    match_quantised,
    match_words,
    nearest_names,
)
from roofline.specs.versions import place_of
from roofline.specs.what_if import Setting, changed, once, settings_of
from roofline.specs.workload import NamedWorkload
from roofline.specs.written import counted_refusal
from roofline.support.errors import BadInput, BadSpec, UnknownName, did_you_mean, shown
from roofline.support.reading import Unreadable, allowed, check_allowed, is_bounded
from roofline.support.records import NamedTuple, replace

_WEIGHTS = (".json", ".safetensors", ".gguf")  # files that hold a model or its configuration
FILES = (*ENDINGS, *_WEIGHTS)  #: Endings of all files that users may name
_GENERIC = "generic"  # calibration of generations without one
_SAME_SIZE = 0.02  # relative difference between figures for one memory
_HUB_ID = r"(?a:[\w.-]+/[\w.-]+)"
_PATHS = ("/", "~", "./", "../", "\\")  # beginnings of texts that are no names


class Found(NamedTuple):
    """The record of a name."""

    record: Any
    note: str | None  # how an abbreviated name was read


class Listed(NamedTuple):
    """One entry of a catalog."""

    record: Any
    entry: Entry

    @property
    def content(self) -> dict[str, Any]:
        return _entry_content(self.entry)


def load_gpu(
    name: str,
    specs: str | None = None,
    *,
    set: str | Mapping[str, float | str] | None = None,  # noqa: A002 - as the option is named
) -> Gpu:
    """GPU by name, with the calibration of its generation.

    Args:
        name: canonical name, alias or the beginning of one, regardless of case and separators; the label that tools
            print, such as ``NVIDIA H100 80GB HBM3``; or the path of a specification.
        specs: folder of your own specifications, searched first; default $ROOFLINE_SPECS.
        set: figures of hypothetical hardware, as paths in the GPU's file with values, such as
            ``memory.bandwidth=12TB/s``, or a mapping of them, numbers in SI units. The record is named ``b200*``.

    Raises:
        UnknownName: no such GPU; the message names the nearest three.
        BadSpec: the file has faults; the message lists them all.
        BadInput: a figure that cannot be set, or a value that no accelerator has.

    >>> import roofline as rl
    >>> rl.load_gpu("h100")
    <Gpu h100-sxm: 989 TFLOP/s bf16, 3.35 TB/s, 85.5 GB>
    >>> rl.load_gpu("b200", set={"memory.bandwidth": "12 TB/s"})
    <Gpu b200*: 2.25 PFLOP/s bf16, 12 TB/s, 192 GB>
    """
    record: Gpu = find_gpu(name, specs).record
    if set is None:
        return record
    return changed(record, named_settings(settings_of(set), specs))


def named_settings(settings: Sequence[Setting], specs: str | None = None) -> tuple[Setting, ...]:
    """Settings with the canonical names of the GPUs that they are of.

    Raises:
        UnknownName: no such GPU.
        BadInput: a figure of one GPU is set twice, under two of its names.
    """
    named = [each._replace(gpu=find_gpu(each.gpu, specs).record.name) if each.gpu else each for each in settings]
    return once(tuple(named))


def load_model(name: str, specs: str | None = None, assume: str | None = None) -> Model:
    """Model by name or path.

    Args:
        name: Hugging Face id, short name, alias, the beginning or some words of one, regardless of case and
            separators, or the id of a quantized copy; or the path of a specification, a config.json, a file of weights
            (.safetensors, .gguf) or its index, or a folder with any of these.
        specs: folder of your own specifications, searched first; default $ROOFLINE_SPECS.
        assume: family, such as ``llama``, to read a config.json of an unknown model_type as; None to refuse it.

    Raises:
        UnknownName: no such model; the message names the nearest three.
        BadSpec: the file has faults; the message lists them all.

    >>> import roofline as rl
    >>> rl.load_model("llama-3.1-8b")
    <Model llama-3.1-8b (meta-llama/Llama-3.1-8B): 32 layers, hidden 4096, dense>
    """
    record: Model = find_model(name, specs, assume).record
    return record


def find_gpu(name: str, specs: str | None = None) -> Found:
    """GPU by name as for `load_gpu`, with a note where the name was abbreviated."""
    return _find(name, "gpu", specs)


def find_model(name: str, specs: str | None = None, assume: str | None = None) -> Found:
    """Model by name as for `load_model`, with a note where the name was abbreviated."""
    place = None if assume is None or not isinstance(name, str) else _place(name, "model", _specs_folder(specs))
    if place is None:
        return _find(name, "model", specs)
    if not isinstance(place, str):
        raise BadInput(
            f"assume = {shown(assume)} is for a config.json of an unknown family; {name} has a specification, which "
            "leaves nothing to assume: leave it out"
        )
    from roofline.catalog.huggingface.files import file_model

    return Found(file_model(place, assume), None)


def gpu_names(specs: str | None = None) -> tuple[str, ...]:
    return tuple(sorted({entry.short for entry in entries("gpu", specs)}))


def is_file_of_model(name: str, specs: str | None = None) -> bool:
    """Whether the name of a model is that of a file, or of a configuration of the hub, and in no catalog."""
    return name.strip().endswith(ENDINGS) or isinstance(_place(name, "model", _specs_folder(specs)), str)


def is_gpu_name(name: str, specs: str | None = None) -> bool:
    """Whether a text is the full name or an alias of a GPU, or ends like a specification file."""
    known = (entry.names for entry in entries("gpu", _specs_folder(specs)))
    return name.strip().endswith(ENDINGS) or any(fold(name) in names for names in known)


def model_names(specs: str | None = None) -> tuple[str, ...]:
    return tuple(sorted({entry.short for entry in entries("model", specs)}))


def listed(kind: str, specs: str | None = None) -> Iterator[Listed]:
    """All entries of a kind, ``gpu`` or ``model``, sorted by name and read one by one."""
    specs = _specs_folder(specs)
    for entry in sorted(entries(kind, specs), key=lambda entry: entry.short):
        content = _entry_content(entry) if kind == "gpu" else None  # with sources: a row shows the date of the price
        yield Listed(_record(entry, kind, specs, content), entry)


def document(name: str, kind: str, specs: str | None = None, assume: str | None = None) -> dict[str, Any]:
    """Content of the file of a GPU or model as written; a config.json is converted to a specification."""
    place = _place(name, kind, _specs_folder(specs))
    if not isinstance(place, str):
        return _entry_content(place.entry)
    from roofline.catalog.huggingface.files import file_document

    return file_document(place, assume=assume).document


def written(name: str, kind: str, specs: str | None = None) -> str:
    """Text of the file of a GPU or model, as it can be saved; a config.json is converted to a specification."""
    place = _place(name, kind, _specs_folder(specs))
    if not isinstance(place, str):
        return spec_text(place.entry.path)
    from roofline.catalog.entries import spec_yaml
    from roofline.catalog.huggingface.files import file_document

    return spec_yaml(file_document(place).document)


def _specs_folder(specs: Any) -> str | None:
    """Folder of the user's specifications: the argument, else $ROOFLINE_SPECS."""
    specs = os.fspath(specs) if isinstance(specs, os.PathLike) else specs
    if specs is not None and not isinstance(specs, str):
        raise BadInput(f"specs = {shown(specs)} must be the path of a folder")
    return specs or os.environ.get("ROOFLINE_SPECS")


def _find(name: str, kind: str, specs: str | None) -> Found:
    if not isinstance(name, str):
        several = (
            "; of several, table makes a row of each: rl.table(models, gpus)" if isinstance(name, (list, tuple)) else ""
        )
        raise UnknownName(f"{kind} = {shown(name)} must be the name of a {LABELS[kind]}, as text, or a record{several}")
    specs = _specs_folder(specs)
    if not specs and _local(name, kind) is None:
        shipped = _find_shipped(name, kind)
        if shipped is not None:
            return shipped
    place = _place(name, kind, specs)
    if isinstance(place, str):
        from roofline.catalog.huggingface.files import file_model

        return Found(file_model(place), None)
    return _read_match(place, kind, specs)


def _read_match(match: Match, kind: str, specs: str | None) -> Found:
    """Record of an entry, with the number format that the name states."""
    record = _record(match.entry, kind, specs)
    return Found(record if match.preset is None else replace(record, preset=match.preset), match.note)


@cache
def _find_shipped(name: str, kind: str) -> Found | None:
    """Record by a name of the shipped catalog; None for other names."""
    likely = shipped_entry(name, kind)
    match = match_name(name, [likely], kind) if likely and fold(name) in likely.names else None
    match = match or match_name(name, entries(kind, None), kind)
    return None if match is None else _read_match(match, kind, None)


def _place(name: str, kind: str, specs: str | None) -> Match | str:
    """Catalog entry of a name, or the path of a configuration or of weights."""
    known: tuple[Entry, ...] = ()
    place = _local(name, kind)
    if place is None:
        known = entries(kind, specs)
        place = match_name(name, known, kind)
    if place is None and kind == "model":
        place = _config(name) or match_quantised(name, known)  # a folder of this name, if no catalog has it
    if place is None:
        for entry in known:
            if entry.own:
                _checked(entry.path)  # report its faults: it may be the file that was meant
        place = match_words(name, known) if kind == "model" else _match_label(name, known)
    return place or _from_hub(name, kind, known, specs)


def _match_label(name: str, known: tuple[Entry, ...]) -> Match | None:
    """The GPU of a label such as ``NVIDIA H100 80GB HBM2e``, whose memory must be as the label says."""
    label = label_of(name)
    if label is None:
        return None
    for entries_of_name in labelled(label, known):
        matches = [entry for entry in entries_of_name if _agrees(_entry_content(entry), label)]
        if len(matches) == 1:
            return Match(matches[0])
    return None


def _agrees(content: dict[str, Any], label: Label) -> bool:
    """Whether a specification has the memory of a label."""
    memory = content["memory"]
    if label.kind not in (None, str(memory.get("kind")).lower()):
        return False
    sold, usable = (from_text(memory[key]["value"], "B") for key in ("label", "usable"))
    least, most = min(sold / GIGA, usable / KIBI**3), max(sold, usable) / GIGA  # as sold or as reported, in GB or GiB
    return label.gigabytes is None or least * (1.0 - _SAME_SIZE) < label.gigabytes < most * (1.0 + _SAME_SIZE)


def _local(name: str, kind: str) -> Match | str | None:
    """Place of a name that is written like a path; others are left to the catalog, which files must not hide."""
    path = os.path.expanduser(name.strip())
    if path.endswith(ENDINGS):
        actual = kind_of(spec_text(path))
        if actual != kind:
            raise BadSpec(f"{path}:1: is a {LABELS.get(actual, actual)} specification, not a {LABELS[kind]}")
        return Match(own_entry(path))
    if kind != "model":
        return None
    if path.endswith(_WEIGHTS) or path.startswith(_PATHS):
        try:
            check_allowed(path)
        except Unreadable as fault:
            raise BadSpec(f"{path}:1: {fault}") from None
    if path.endswith(_WEIGHTS):
        return path
    return _config(path) if os.sep in path else None


def _config(path: str) -> str | None:
    """The path itself if it is a file, or a folder with a config.json or weights; else None."""
    if not allowed(path):
        return None
    try:
        names = [""] if os.path.isfile(path) else os.listdir(path)
    except (OSError, ValueError):  # no folder, or a zero byte in the path
        return None
    files = (name for name in names if name in ("", "config.json") or name.endswith(_WEIGHTS[1:]))
    return path if any(os.path.isfile(os.path.join(path, name) if name else path) for name in files) else None


def _from_hub(name: str, kind: str, known: tuple[Entry, ...], specs: str | None) -> str:
    """Path of the config.json of a Hugging Face id; refuses texts that are not ids, and any without the client."""
    listing = f"roofline {kind}s" + (f" --specs {specs}" if specs else "; yours: specs = DIR")
    if not name.strip():
        raise UnknownName(f"the name of the {LABELS[kind]} is empty; all: {listing}")
    refusal = f"unknown {LABELS[kind]} {name!r}{did_you_mean(nearest_names(name, known))} (all: {listing})"
    if kind != "model":
        raise UnknownName(counted_refusal(name, known) or refusal)
    refusal += ", or give the path of a Hugging Face config.json"
    if is_bounded():
        raise UnknownName(f"{refusal}; configurations of the hub are not fetched here")
    if not re.fullmatch(_HUB_ID, name.strip()):
        raise UnknownName(refusal)
    from importlib.util import find_spec

    if find_spec("huggingface_hub") is None:
        raise UnknownName(f"{refusal}, or any Hugging Face id after pip install 'roofline[hub]'")
    from roofline.catalog.huggingface.config import hub_config

    try:
        return hub_config(name.strip())
    except UnknownName as reason:
        raise UnknownName(f"{refusal}; {reason}") from None


def _record(entry: Entry, kind: str, specs: str | None, content: dict[str, Any] | None = None) -> Any:
    """Record of a file; faults that only building reveals are also reported as `BadSpec`."""
    if content is None:
        content = _entry_content(entry) if entry.own else shipped_figures(entry.path)  # sources are not needed
    try:
        if kind == "model":
            return model_record(content)
        calibration = _calibration(content["generation"], specs)
        if entry.own and calibration is not None and calibration is _shipped_calibration(content["generation"]):
            calibration = replace(calibration, measured_on=())  # it was the shipped GPU
        if calibration is not None:
            calibration = sustained_efficiencies(content["name"], sustained_share(content), calibration)
        return gpu_record(content, calibration)
    except (KeyError, TypeError, ValueError, AttributeError, BadInput) as fault:
        raise BadSpec(f"{entry.path}:1: {type(fault).__name__}: {fault}") from None


def _entry_content(entry: Entry) -> dict[str, Any]:
    return _checked(entry.path) if entry.own else _shipped_content(entry.path)


def _checked(path: str, kind: str | None = None) -> dict[str, Any]:
    """Content of a user's file, checked against its schema; without `kind`, its fields tell which."""
    from roofline.catalog.checks import checked_document

    return dict(without_nulls(checked_document(path, kind)))


@lru_cache(maxsize=512)
def _shipped_content(path: str) -> dict[str, Any]:
    return shipped_document(path)


def _calibration(generation: str, specs: str | None) -> Calibration | None:
    """Calibration of a generation: the user's, else the shipped one, else the generic one."""
    for path in yaml_files(own_folder(specs)) if specs else ():
        if os.path.splitext(os.path.basename(path))[0] == generation and kind_of(spec_text(path)) == "calibration":
            return calibration_record(_checked(path))
    return _shipped_calibration(generation)


@lru_cache(maxsize=64)
def _shipped_calibration(generation: str) -> Calibration | None:
    path = os.path.join(shipped_root("gpu"), "calibration", f"{generation}.yaml")
    if os.path.basename(path) == f"{generation}.yaml" and os.path.isfile(path):  # no path elsewhere
        return replace(calibration_record(shipped_figures(path)), by_engine=_timed_apart(generation))
    return _shipped_calibration(_GENERIC) if generation != _GENERIC else None


def _timed_apart(generation: str) -> tuple[TimedEngine, ...]:
    """Engines that have calibrations of their own: files such as ``hopper-vllm-0.31.0.yaml``."""
    names = [name.removesuffix(ENDINGS[0]) for name in _calibrations()]
    starts = {engine: f"{generation}-{engine}-" for engine in _VERSIONED}
    folder = os.path.join(shipped_root("gpu"), "calibration")
    return tuple(
        TimedEngine(engine, name.removeprefix(start), os.path.join(folder, name + ENDINGS[0]))
        for engine, start in starts.items()
        for name in names
        if name.startswith(start)
    )


@cache
def _calibrations() -> tuple[str, ...]:
    """Names of the shipped files."""
    return tuple(sorted(os.listdir(os.path.join(shipped_root("gpu"), "calibration"))))


#: GPU by identity, engine and version -> the GPU, and the same with that engine's kernels.
_RUN_BY: dict[tuple[int, str, str], tuple[Gpu, Gpu]] = {}
_MOST_RUN_BY = 512


def run_by(gpu: Gpu, engine: Engine) -> Gpu:
    """The GPU with the kernels that an engine runs, where they were timed apart: of the version nearest to it."""
    calibration = gpu.calibration
    if calibration is None or not any(timed.engine == engine.family for timed in calibration.by_engine):
        return gpu
    key = id(gpu), engine.family, engine.version
    known = _RUN_BY.get(key)
    if known is None:
        if len(_RUN_BY) >= _MOST_RUN_BY:
            _RUN_BY.clear()
        timed = [each for each in calibration.by_engine if each.engine == engine.family]
        known = _RUN_BY[key] = gpu, replace(gpu, calibration=_run_by(gpu, calibration, timed, engine.version))
    return known[1]


def _run_by(gpu: Gpu, calibration: Calibration, timed: Sequence[TimedEngine], version: str) -> Calibration:
    """A calibration with the sets of an engine in place of those of all engines: the newest, or the nearest to one."""
    wanted = place_of(version) if version else max(place_of(each.version) for each in timed)
    kernels: dict[tuple[str, str], Efficiency] = {}
    links: dict[str, CollectiveEfficiency] = {}
    used, measurements = [], 0
    for each in sorted(timed, key=lambda each: (abs(place_of(each.version) - wanted), -place_of(each.version))):
        own = sustained_efficiencies(gpu.name, gpu.sustained, _engine_calibration(each.path))
        if not (own.kernels.keys() <= kernels.keys() and own.collectives.keys() <= links.keys()):
            used.append(f"{each.engine} {each.version}")
            measurements += own.measurements
        kernels, links = {**own.kernels, **kernels}, {**own.collectives, **links}
    return replace(
        calibration,
        kernels={**calibration.kernels, **kernels},
        collectives={**calibration.collectives, **links},
        measurements=measurements,
        run_by=tuple(used),
    )


@lru_cache(maxsize=64)
def _engine_calibration(path: str) -> Calibration:
    return calibration_record(shipped_figures(path))


# Profiles of serving engines, from their files.

NO_ENGINE_NAME = "none"
_DEFAULT = "generic"
_EAGER = "eager"


#: Engines timed by version -> profiles of older versions, each with the first version that it does not hold for.
_VERSIONED: Mapping[str, tuple[tuple[str, str], ...]] = {
    "trtllm": (("0.13", "trtllm-0.9"), ("1.1", "trtllm-1.0")),
    "vllm": (),
    "sglang": (),
}
_SUCH_AS = {"trtllm": "1.2", "vllm": "0.25", "sglang": "0.5"}  # versions for an error to show
#: Parts of the folded names of programs without a server: those that replay graphs or compile whole passes, which take
#: precedence, and those whose host launches every kernel.
_REPLAYED = ("graph", "gptfast", "torchao", "mlc", "tinychat", "gaudi")
_LAUNCHED = ("pytorch", "transformers", "huggingface", "llamacpp", "awq", "gptq", "exllama")
_VERSION = re.compile(r"v?\d{1,9}\.\d{1,9}[\w.+-]{0,40}$")
#: Profile -> pattern of the folded names of its engine.
_FAMILIES = (("trtllm", r"tensorrtllm|trtllm|^trt$|dynamotrt$"), ("vllm", "vllm"), ("sglang", "sgl"))
_NEW_NIM = "1.3"  # first version with the current decode attention kernels


def engine_names() -> tuple[str, ...]:
    """Names of the shipped profiles, `none` first."""
    return (NO_ENGINE_NAME, *sorted(os.path.basename(path)[: -len(ENDINGS[0])] for path in engine_paths()))


@cache
def engine_paths() -> tuple[str, ...]:
    root = shipped_root("engine")
    return tuple(path for path in yaml_files(root) if os.path.dirname(path) == root)


@cache
def load_arguments(engine: str) -> Arguments:
    """Command-line arguments of an engine whose parsers were read: ``vllm``, ``sglang`` or ``trtllm``."""
    path = os.path.join(shipped_root("engine"), "arguments", f"{engine}{ENDINGS[0]}")
    return arguments_record(shipped_document(path))


def engines_with_arguments() -> tuple[str, ...]:
    """Names of the engines whose arguments are known."""
    folder = os.path.join(shipped_root("engine"), "arguments")
    return tuple(os.path.basename(path)[: -len(ENDINGS[0])] for path in yaml_files(folder))


def load_engine(name: str, specs: str | None = None) -> Engine:
    """Profile by name or alias, or from a user's file; the folder `specs` (default $ROOFLINE_SPECS) comes first."""
    if not isinstance(name, str):
        raise UnknownName(f"engine = {shown(name)} must be the name of an engine profile, as text")
    if name.endswith(ENDINGS):
        return _user_engine(os.path.expanduser(name))
    specs = specs or os.environ.get("ROOFLINE_SPECS")
    for path in yaml_files(own_folder(specs)) if specs else ():
        if kind_of(spec_text(path)) == "engine" and fold(os.path.splitext(os.path.basename(path))[0]) == fold(name):
            return _user_engine(path)
    family, at, version = name.partition("@")
    return _versioned_engine(family.strip(), version.strip()) if at else _shipped_engine(fold(name), name)


@lru_cache(maxsize=64)
def _versioned_engine(family: str, version: str) -> Engine:
    """The profile as a version of the engine, or that of its older versions; kernels follow in `run_by`."""
    engine = _shipped_engine(fold(family), family)
    if engine.name not in _VERSIONED:
        raise UnknownName(f"engine {engine.name} has no versions here, unlike {', '.join(_VERSIONED)}")
    if _VERSION.match(version) is None:
        example = f"{engine.name}@{_SUCH_AS[engine.name]}"
        raise UnknownName(f"version {shown(version)} of {engine.name} needs major.minor, such as {example}")
    older = (name for before, name in _VERSIONED[engine.name] if place_of(version) < place_of(before))
    content = shipped_by_name(next(older, engine.name), engine_paths(), _engine_content) or {}
    of_version = _of_version(engine_record(content), f"{engine.name}@{version}")
    # A profile without the engine's kernels says in its tunings how they differ from those of all engines together.
    has_kernels = engine.name in (content["name"], content.get("runs", "").partition("@")[0])
    return replace(of_version, runs="") if has_kernels else _shipped_engine(content["name"], content["name"])


def _of_version(engine: Engine, name: str) -> Engine:
    """A profile with what holds for the version in its name; without one, for the newest."""
    version = name.partition("@")[2]

    def holds(entry: Any) -> bool:
        return not entry.before or (bool(version) and place_of(version) < place_of(entry.before))

    defaults = tuple((setting, tuple(filter(holds, entries))) for setting, entries in engine.by_gpu)
    start_up = tuple(filter(holds, engine.start_up))
    return replace(engine, name=name, tunings=tuple(filter(holds, engine.tunings)), by_gpu=defaults, start_up=start_up)


def profile_of(engine: str | None, version: str | None = None) -> str:
    """Name of the profile of an engine as measurements call it, such as ``TensorRT-LLM``, with its version if known.

    ``generic`` for an unknown server or None, ``eager`` for programs that launch every kernel, ``none`` for those that
    replay graphs. TensorRT-LLM before 0.13 has a profile of its own, because it decoded with other kernels.

    >>> profile_of("vLLM", "0.19.0"), profile_of("TensorRT-LLM", "0.9.0")
    ('vllm@0.19.0', 'trtllm-0.9')
    """
    if not engine:
        return _DEFAULT
    if engine.endswith(ENDINGS):
        return engine
    engine, _, stated = engine.partition("@")
    version = stated or version
    if fold(engine) in engine_names() and fold(engine) not in _VERSIONED:
        return fold(engine)
    folded = re.sub(r"[^a-z0-9]", "", engine.lower())
    known = version if _VERSION.match(version or "") else None
    if re.search(r"(?<![a-z])nim(?![a-z])", engine.lower()):
        return "trtllm" if known is not None and place_of(known) >= place_of(_NEW_NIM) else "nim-2024"
    for name, pattern in _FAMILIES:
        if re.search(pattern, folded):
            return name if known is None else _versioned_engine(name, known).name
    if any(program in folded for program in _REPLAYED):
        return NO_ENGINE_NAME
    return _EAGER if any(program in folded for program in _LAUNCHED) else _DEFAULT


@cache
def _shipped_engine(folded: str, name: str) -> Engine:
    if folded == NO_ENGINE_NAME:
        return Engine(NO_ENGINE_NAME)
    content = shipped_by_name(folded, engine_paths(), _engine_content)
    if content is not None:
        return _of_version(engine_record(content), content["name"])
    from difflib import get_close_matches

    known = ", ".join(engine_names())
    folder = os.path.dirname(engine_paths()[0])
    near = did_you_mean(get_close_matches(folded, engine_names(), 2))
    raise UnknownName(f"unknown engine {name!r}{near} (all: {known}; or your own YAML file, examples in {folder})")


def _user_engine(path: str) -> Engine:
    """Record of a user's file, checked against the schema."""
    document = _checked(path, "engine")
    if "stretch" in document:  # the key of older files
        document["prefill_slowdown"] = document.pop("stretch")
    engine = engine_record(document)
    return _of_version(engine, engine.name)


@lru_cache(maxsize=16)
def _engine_content(path: str) -> dict[str, Any]:
    """Content of a shipped file without its sources."""
    return shipped_figures(path)


# Named workloads, from their files.


def workload_names() -> tuple[str, ...]:
    """Names of the shipped workloads."""
    return tuple(sorted(os.path.basename(path)[: -len(ENDINGS[0])] for path in workload_paths()))


@cache
def workload_paths() -> tuple[str, ...]:
    return tuple(yaml_files(shipped_root("workload")))


def load_workload(name: str, specs: str | None = None) -> NamedWorkload:
    """Workload by name or alias, or from your own file.

    Args:
        name: e.g. ``chat``, or the path of a YAML file.
        specs: folder of your own specifications, searched first; default $ROOFLINE_SPECS.

    Raises:
        UnknownName: no such workload; the message names the nearest three.
        BadSpec: the file has faults.

    >>> import roofline as rl
    >>> rl.load_workload("chat")
    <NamedWorkload chat: isl 1155, osl 211; SLO ttft:300ms,tpot:25ms,p99:2x>
    """
    if not isinstance(name, str):
        raise UnknownName(f"workload = {shown(name)} must be the name of a workload, as text")
    if name.endswith(ENDINGS):
        return _user_workload(os.path.expanduser(name))
    users = tuple(_user_entries(specs or os.environ.get("ROOFLINE_SPECS")))
    for entry in users:
        if fold(name) in entry.names:
            return _user_workload(entry.path)
    workload = _shipped_workload(fold(name))
    if workload is None:
        near = did_you_mean(dict.fromkeys(nearest_names(name, (*users, *_shipped_entries()))))
        folder = shipped_root("workload")
        raise UnknownName(
            f"unknown workload {name!r}{near} (all: roofline workloads; or give your own YAML file, as in {folder})"
        )
    return workload


def _user_entries(specs: str | None) -> Iterator[Entry]:
    """Workloads in a user's folder, under their names and that of the file."""
    for path in yaml_files(own_folder(specs)) if specs else ():
        if kind_of(spec_text(path)) == "workload":
            entry = own_entry(path)
            stem = fold(os.path.splitext(os.path.basename(path))[0])
            yield entry._replace(names=tuple(dict.fromkeys((*entry.names, stem))))


@cache
def _shipped_workload(folded: str) -> NamedWorkload | None:
    """Shipped workload by folded name; None without one."""
    content = shipped_by_name(folded, workload_paths(), _workload_content)
    return None if content is None else workload_record(content)


def _shipped_entries() -> Iterator[Entry]:
    for path in workload_paths():
        content = _workload_content(path)
        yield Entry(path, tuple(fold(name) for name in (content["name"], *content.get("aliases", ()))))


def _user_workload(path: str) -> NamedWorkload:
    """Record of a user's file, checked against the schema."""
    return workload_record(_checked(path, "workload"))


@cache
def _workload_content(path: str) -> dict[str, Any]:
    return shipped_document(path)
