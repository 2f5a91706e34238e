"""From names to records: a name or a path finds its file, and the file becomes a record.

Shipped files are proven in the tests and read plainly; a user's own go through the schema, which reports all faults.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from functools import cache, lru_cache
from typing import Any

from roofline.catalog.files import (
    ENDINGS,
    entries,
    kind_of,
    own_entry,
    own_folder,
    shipped_entry,
    shipped_root,
    spec_text,
    yaml_files,
)
from roofline.catalog.shipped import shipped_document, shipped_figures
from roofline.errors import BadInput, BadSpec, UnknownName, did_you_mean, shown
from roofline.grammar.pools import counted_refusal
from roofline.records import NamedTuple, replace
from roofline.specs.build import calibration_record, gpu_record, model_record, sustained_efficiencies, without_nulls
from roofline.specs.calibration import Calibration
from roofline.specs.gpu import Gpu
from roofline.specs.model import Model
from roofline.specs.names import LABELS, Entry, Match, fold, match_name, match_quantised, nearest_names

__all__ = [
    "FILES",
    "Found",
    "Listed",
    "document",
    "find_gpu",
    "find_model",
    "gpu_names",
    "is_gpu_name",
    "listed",
    "load_gpu",
    "load_model",
    "model_names",
]

_WEIGHTS = (".json", ".safetensors", ".gguf")  # files that hold a model or its configuration
FILES = (*ENDINGS, *_WEIGHTS)  #: endings of whatever is read from a file of one's own
_GENERIC = "generic"  # calibration of generations that have none
_HUB_ID = r"(?a:[\w.-]+/[\w.-]+)"


class Found(NamedTuple):
    """What a name stands for."""

    record: Any
    note: str | None  # what the beginning of a name is read as


class Listed(NamedTuple):
    """One entry of a catalog."""

    record: Any
    entry: Entry

    @property
    def content(self) -> dict[str, Any]:
        """The mapping of its file."""
        return _content(self.entry)


def load_gpu(name: str, specs: str | None = None) -> Gpu:
    """GPU of a name, with the calibration of its generation.

    Args:
        name: canonical name, alias or the beginning of one, case and separators folded; or the
            path of a specification [text].
        specs: folder of specifications of one's own, searched first; default $ROOFLINE_SPECS [path].

    Returns:
        The record.

    Raises:
        UnknownName: no such GPU; the message names the nearest three.
        BadSpec: the file has faults; the message lists them all.

    >>> import roofline as rl
    >>> rl.load_gpu("h100")
    <Gpu h100-sxm: 989 TFLOP/s bf16, 3.35 TB/s, 85.5 GB>
    """
    record: Gpu = find_gpu(name, specs).record
    return record


def load_model(name: str, specs: str | None = None, assume: str | None = None) -> Model:
    """Model of a name.

    Args:
        name: Hugging Face id, short name, alias or the beginning of one, case and separators folded, or the id of
            a quantised copy; or the path of a specification, of a config.json, of a file of weights (.safetensors,
            .gguf) or an index of them, or of a folder that holds any of these [text].
        specs: folder of specifications of one's own, searched first; default $ROOFLINE_SPECS [path].
        assume: family, such as ``llama``, as which a config.json of an unknown one is read; None to refuse it [text].

    Returns:
        The record.

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
    """GPU of a name, and what the answer must say about the name.

    Args:
        name: as `load_gpu` takes it [text].
        specs: folder of specifications of one's own; default $ROOFLINE_SPECS [path].

    Returns:
        The record, and a note where only the beginning of a name was given.

    Raises:
        UnknownName: no such GPU, or several whose names begin so.
        BadSpec: the file has faults.
    """
    return _found(name, "gpu", specs)


def find_model(name: str, specs: str | None = None, assume: str | None = None) -> Found:
    """Model of a name, and what the answer must say about the name.

    Args:
        name: as `load_model` takes it [text].
        specs: folder of specifications of one's own; default $ROOFLINE_SPECS [path].
        assume: as `load_model` takes it [text].

    Returns:
        The record, and a note where only the beginning of a name was given.

    Raises:
        UnknownName: no such model, or several whose names begin so.
        BadSpec: the file has faults.
    """
    place = None if assume is None or not isinstance(name, str) else _place(name, "model", _own_specs(specs))
    if not isinstance(place, str):
        return _found(name, "model", specs)
    from roofline.huggingface.files import file_model

    return Found(file_model(place, assume), None)


def gpu_names(specs: str | None = None) -> tuple[str, ...]:
    """Canonical names of all GPUs.

    Args:
        specs: folder of specifications of one's own; default $ROOFLINE_SPECS [path].

    Returns:
        Names, sorted [text].
    """
    return tuple(sorted({entry.short for entry in entries("gpu", specs)}))


def is_gpu_name(name: str, specs: str | None = None) -> bool:
    """Whether a text is the full name or an alias of a GPU, or the path of a specification.

    Args:
        name: any spelling [text].
        specs: folder of specifications of one's own; default $ROOFLINE_SPECS [path].

    Returns:
        True or false.
    """
    known = (entry.names for entry in entries("gpu", _own_specs(specs)))
    return name.strip().endswith(ENDINGS) or any(fold(name) in names for names in known)


def model_names(specs: str | None = None) -> tuple[str, ...]:
    """Short names of all models.

    Args:
        specs: folder of specifications of one's own; default $ROOFLINE_SPECS [path].

    Returns:
        Names, sorted [text].
    """
    return tuple(sorted({entry.short for entry in entries("model", specs)}))


def listed(kind: str, specs: str | None = None) -> Iterator[Listed]:
    """All GPUs or models, each with its record, in the order of their names.

    Args:
        kind: ``gpu`` or ``model`` [text].
        specs: folder of specifications of one's own; default $ROOFLINE_SPECS [path].

    Returns:
        The entries, read one by one.

    Raises:
        BadSpec: a file has faults.
    """
    specs = _own_specs(specs)
    for entry in sorted(entries(kind, specs), key=lambda entry: entry.short):
        content = _content(entry) if kind == "gpu" else None  # its row shows the date of the price, a source's
        yield Listed(_record(entry, kind, specs, content), entry)


def document(name: str, kind: str, specs: str | None = None, assume: str | None = None) -> dict[str, Any]:
    """Content of the file that describes a GPU or a model, as written.

    Args:
        name: as `load_gpu` and `load_model` take it [text].
        kind: ``gpu`` or ``model`` [text].
        specs: folder of specifications of one's own; default $ROOFLINE_SPECS [path].
        assume: as `load_model` takes it [text].

    Returns:
        The mapping of the file; of a config.json the specification that it amounts to.

    Raises:
        UnknownName: no such entry.
        BadSpec: the file has faults.
    """
    place = _place(name, kind, _own_specs(specs))
    if not isinstance(place, str):
        return _content(place.entry)
    from roofline.huggingface.files import file_document

    return file_document(place, assume=assume).document


# --- finding -----------------------------------------------------------------------------------


def _own_specs(specs: Any) -> str | None:
    """Folder of specifications of one's own that is asked for, else that of the environment."""
    specs = os.fspath(specs) if isinstance(specs, os.PathLike) else specs
    if specs is not None and not isinstance(specs, str):
        raise BadInput(f"specs = {shown(specs)} must be the path of a folder")
    return specs or os.environ.get("ROOFLINE_SPECS")


def _found(name: str, kind: str, specs: str | None) -> Found:
    """What a name stands for."""
    if not isinstance(name, str):
        raise UnknownName(f"{kind} = {shown(name)} must be the name of a {LABELS[kind]}, as text, or a record")
    specs = _own_specs(specs)
    if not specs and _local(name, kind) is None:
        shipped = _found_among_shipped(name, kind)
        if shipped is not None:
            return shipped
    place = _place(name, kind, specs)
    if isinstance(place, str):
        from roofline.huggingface.files import file_model

        return Found(file_model(place), None)
    return _answered(place, kind, specs)


def _answered(match: Match, kind: str, specs: str | None) -> Found:
    """Record of an entry, in the format that its name states beside the model."""
    record = _record(match.entry, kind, specs)
    return Found(record if match.preset is None else replace(record, preset=match.preset), match.note)


@cache
def _found_among_shipped(name: str, kind: str) -> Found | None:
    """What a name of the shipped catalog stands for, read once."""
    likely = shipped_entry(name, kind)
    found = match_name(name, [likely], kind) if likely and fold(name) in likely.names else None
    found = found or match_name(name, entries(kind, None), kind)
    return None if found is None else _answered(found, kind, None)


def _place(name: str, kind: str, specs: str | None) -> Match | str:
    """Entry that a name means, or the path of a configuration or of weights."""
    known: tuple[Entry, ...] = ()
    found = _local(name, kind)
    if found is None:
        known = entries(kind, specs)
        found = match_name(name, known, kind)
    if found is None and kind == "model":
        found = _config(name)  # a folder of this name, which no catalog knows
    if found is None and kind == "model":
        found = match_quantised(name, known)
    if found is None:
        for entry in known:
            if entry.own:
                _checked(entry.path)  # a faulty file may be the one that was meant
    return found or _from_hub(name, kind, known, specs)


def _local(name: str, kind: str) -> Match | str | None:
    """File that a name is the path of: only what is written like a path, so no file hides a catalog's name."""
    path = os.path.expanduser(name.strip())
    if path.endswith(ENDINGS):
        found = kind_of(spec_text(path))
        if found != kind:
            raise BadSpec(f"{path}:1: is a {LABELS.get(found, found)} specification, not a {LABELS[kind]}")
        return Match(own_entry(path))
    if kind != "model":
        return None
    if path.endswith(_WEIGHTS):
        return path
    return _config(path) if os.sep in path else None


def _config(path: str) -> str | None:
    """A file, or a folder that holds a config.json or weights."""
    try:
        names = [""] if os.path.isfile(path) else os.listdir(path)
    except (OSError, ValueError):  # no folder; a zero byte
        return None
    held = (name for name in names if name in ("", "config.json") or name.endswith(_WEIGHTS[1:]))
    return path if any(os.path.isfile(os.path.join(path, name) if name else path) for name in held) else None


def _from_hub(name: str, kind: str, known: tuple[Entry, ...], specs: str | None) -> str:
    """The config.json of a Hugging Face id, where the client is installed; else the refusal of the name."""
    listing = f"roofline {kind}s" + (f" --specs {specs}" if specs else "; yours: --specs DIR")
    if not name.strip():
        raise UnknownName(f"the name of the {LABELS[kind]} is empty; all: {listing}")
    refusal = f"unknown {LABELS[kind]} {name!r}{did_you_mean(nearest_names(name, known))} (all: {listing})"
    if kind != "model":
        raise UnknownName(counted_refusal(name, known) or refusal)
    refusal += ", or give the path of a Hugging Face config.json"
    if not re.fullmatch(_HUB_ID, name.strip()):
        raise UnknownName(refusal)
    from importlib.util import find_spec

    if find_spec("huggingface_hub") is None:
        raise UnknownName(f"{refusal}, or any Hugging Face id after pip install 'roofline[hub]'")
    from roofline.huggingface.config import hub_config

    try:
        return hub_config(name.strip())
    except UnknownName as reason:
        raise UnknownName(f"{refusal}; {reason}") from None


# --- reading -----------------------------------------------------------------------------------


def _record(entry: Entry, kind: str, specs: str | None, content: dict[str, Any] | None = None) -> Any:
    """Record of a file; a fault that only building shows is reported like any other."""
    if content is None:
        content = _content(entry) if entry.own else shipped_figures(entry.path)  # sources apart, but prices
    try:
        if kind == "model":
            return model_record(content)
        calibration = _calibration(content["generation"], specs)
        if entry.own and calibration is not None and calibration is _shipped_calibration(content["generation"]):
            calibration = replace(calibration, measured_on=())  # measured on the shipped GPU, not on this one
        return gpu_record(content, sustained_efficiencies(content, calibration))
    except (KeyError, TypeError, ValueError, AttributeError, BadInput) as fault:
        raise BadSpec(f"{entry.path}:1: {type(fault).__name__}: {fault}") from None


def _content(entry: Entry) -> dict[str, Any]:
    return _checked(entry.path) if entry.own else _plain(entry.path)


def _checked(path: str) -> dict[str, Any]:
    """Content of a file of the user's own that keeps its schema."""
    from roofline.catalog.checks import checked_document

    return dict(without_nulls(checked_document(path)))


@lru_cache(maxsize=512)
def _plain(path: str) -> dict[str, Any]:
    return shipped_document(path)


def _calibration(generation: str, specs: str | None) -> Calibration | None:
    """Calibration of a generation: the user's own, else the shipped one, else the generic one."""
    for path in yaml_files(own_folder(specs)) if specs else ():
        if os.path.splitext(os.path.basename(path))[0] == generation and kind_of(spec_text(path)) == "calibration":
            return calibration_record(_checked(path))
    return _shipped_calibration(generation)


@lru_cache(maxsize=64)
def _shipped_calibration(generation: str) -> Calibration | None:
    path = os.path.join(shipped_root("gpu"), "calibration", f"{generation}.yaml")
    if os.path.basename(path) == f"{generation}.yaml" and os.path.isfile(path):  # a generation is no way elsewhere
        return calibration_record(shipped_figures(path))
    return _shipped_calibration(_GENERIC) if generation != _GENERIC else None
