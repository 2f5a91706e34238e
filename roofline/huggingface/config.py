"""Models from Hugging Face: a ``config.json`` to the document of a specification file."""

from __future__ import annotations

import datetime as dt
import json
import os
import re
from collections.abc import Mapping
from math import prod
from typing import Any

from roofline.errors import BadSpec, UnknownName, did_you_mean, shown
from roofline.huggingface.families import DEFAULTS, FAMILIES
from roofline.huggingface.fields import LARGEST, Fields
from roofline.huggingface.groups import groups
from roofline.huggingface.layers import Shape
from roofline.huggingface.overrides import layer_by_layer
from roofline.huggingface.quantization import native_formats
from roofline.huggingface.tensors import shape_of_tensors
from roofline.huggingface.trace import class_tensors
from roofline.huggingface.unread import check_foreign, check_unread, family_of, noting, refuse_no_decoder, unknown_type
from roofline.huggingface.unstated import unstated_format
from roofline.physics.parameters import parameters
from roofline.reading import CONFIG_BYTES, Unreadable, check_json_amount, check_json_depth, content
from roofline.records import NamedTuple, replace
from roofline.specs.build import model_record
from roofline.specs.model import Model
from roofline.specs.names import name_fault

__all__ = [
    "Described",
    "Imported",
    "completed",
    "config_document",
    "described_model",
    "hub_config",
    "load_config",
    "read_config",
]

_CONFIG = "config.json"
_QUANTIZATION = "hf_quant_config.json"
_HUB = "https://huggingface.co"
_ID = re.compile(r"[A-Za-z0-9][\w.-]{0,95}/[A-Za-z0-9][\w.-]{0,95}", re.ASCII)
_MOST_BYTES = CONFIG_BYTES
_LONGEST_NAME = 200  # characters of a field that say what it is
_LANGUAGE = ("text_config", "language_config", "llm_config", "language_model_config")
_OWN_ENDS = ("llama4",)  # wrappers whose text ties its ends itself; all others tie them whatever the text says
_TOWERS = ("vision_config", "audio_config", "speech_config", "visual", "vision_tower", "mm_vision_tower")
_CONTEXT = ("max_position_embeddings", "max_seq_len", "max_sequence_length", "n_positions", "seq_length")


class Described(NamedTuple):
    """The layers that a configuration describes, and what they were read from."""

    fields: Fields
    shape: Shape
    document: dict[str, Any]  # without number formats and sources
    cautions: tuple[str, ...]
    exact: int | None = None  # parameters, where the class in transformers counted them


class Imported(NamedTuple):
    """A specification read from a configuration, and what a reader of its figures should know."""

    document: dict[str, Any]
    cautions: tuple[str, ...]


def config_document(
    config: Mapping[str, Any],
    name: str,
    quantization: Mapping[str, Any] | None = None,
    where: str = _CONFIG,
    assume: str | None = None,
) -> Imported:
    """Specification of the model that a configuration describes.

    Args:
        config: content of ``config.json`` [record].
        name: name to give the model, best its Hugging Face id [text].
        quantization: content of ``hf_quant_config.json``, if there is one [record].
        where: the file, for messages and as the source that the specification cites [path].
        assume: family, such as ``llama``, as which a configuration of an unknown one is read; None to refuse it [text].

    Returns:
        The document as a specification file would hold it, with cautions.

    Raises:
        BadSpec: a field is missing or wrong, or the architecture is not known.
        UnknownName: no family of the name that is assumed.
    """
    described = described_model(config, name, where, assume)
    if quantization is not None and not isinstance(quantization, Mapping):
        raise BadSpec(f"{where}:1: {_QUANTIZATION}: must be a mapping of fields")
    native = native_formats(described.fields, described.shape, quantization)
    unstated = unstated_format(described.document["name"], where, native.formats)
    return completed(described, native.formats, (*described.cautions, *native.cautions, *unstated), where)


def described_model(config: Mapping[str, Any], name: str, where: str, assume: str | None = None) -> Described:
    """Layers of the model that a configuration describes, without number formats.

    Args:
        config: content of ``config.json`` [record].
        name: name to give the model [text].
        where: the file, for messages [path].
        assume: family, such as ``llama``, as which a configuration of an unknown one is read; None to refuse it [text].

    Returns:
        The document so far, what it was made of, and cautions.

    Raises:
        BadSpec: a field is missing or wrong, or the architecture is not known.
    """
    if not isinstance(config, Mapping):
        raise BadSpec(f"{where}:1: file: a configuration must be a mapping of fields")
    name = _checked_name(name, where)
    outer = Fields(config, where)
    fields, cautions = _language_model(outer)
    refuse_no_decoder(fields, FAMILIES)
    shape, notes, exact = _shape(fields, outer, _checked_assumption(assume))
    return Described(fields, shape, _document(fields, shape, name, where), (*cautions, *notes), exact)


def completed(
    described: Described, formats: Mapping[str, str], cautions: tuple[str, ...], where: str, read: str = _CONFIG
) -> Imported:
    """The document of a model with its number formats and its source.

    Args:
        described: its layers [record].
        formats: number formats by section [text].
        cautions: what a reader of its figures should know [text].
        where: the file that it comes from [path].
        read: what was read of it, for the title of the source [text].

    Returns:
        The document as a specification file would hold it, with the cautions.
    """
    document = {**described.document, "native": dict(formats), "architecture": {"source": "config"}}
    document["sources"] = {"config": _source(document["name"], where, read)}
    if described.exact is not None and parameters(model_record(document)).total != described.exact:
        said = f"has exactly {described.exact} parameters, which its layers do not add up to"
        raise described.fields.fault("model_type", said)
    document["notes"] = [f"{caution[0].upper()}{caution[1:]}." for caution in cautions]
    return Imported(document, cautions)


def read_config(path: str) -> tuple[dict[str, Any], dict[str, Any] | None, str]:
    """Configuration at a path, the quantisation file that lies beside it, and the model's name.

    Args:
        path: a ``config.json``, or a folder that holds one [path].

    Returns:
        Content of ``config.json``, that of ``hf_quant_config.json`` or None, and the name.

    Raises:
        BadSpec: a file cannot be read or is no mapping in JSON.
    """
    path = _file_of(path)
    config = _json(path)
    beside = os.path.join(os.path.dirname(path), _QUANTIZATION)
    quantization = _json(beside) if os.path.isfile(beside) else None
    return config, quantization, _name(config, path)


def load_config(path: str, assume: str | None = None) -> Model:
    """Model that a configuration describes.

    Args:
        path: a ``config.json``, or a folder that holds one [path].
        assume: as `config_document` takes it [text].

    Returns:
        The record, with cautions.

    Raises:
        BadSpec: the file cannot be read, or its architecture is not known.
    """
    config, quantization, name = read_config(path)
    document, cautions = config_document(config, name, quantization, _file_of(path), assume)
    return replace(model_record(document), cautions=cautions)


def hub_config(model_id: str) -> str:
    """Path of a model's ``config.json``, fetched from the Hugging Face hub.

    Args:
        model_id: Hugging Face id, e.g. ``Qwen/Qwen3-8B`` [text].

    Returns:
        The file in the hub's local cache; the quantisation file lies beside it where there is one [path].

    Raises:
        UnknownName: no such model, no access to it, no network, or no package ``huggingface_hub``.
    """
    if not isinstance(model_id, str) or not _ID.fullmatch(model_id):
        raise UnknownName(f"{shown(model_id)} is not a Hugging Face id; write it as Qwen/Qwen3-8B")
    try:
        from importlib import import_module

        hf_hub_download = import_module("huggingface_hub").hf_hub_download
    except ImportError:
        raise UnknownName(
            f"{model_id} is not in the catalog; to fetch its configuration, pip install roofline[hub]"
        ) from None
    try:
        path = str(hf_hub_download(model_id, _CONFIG))
    except Exception as fault:  # noqa: BLE001 - the package has a class for each reason, and more with each version
        reason = str(fault).strip().split("\n")[0][:200] or type(fault).__name__
        raise UnknownName(f"cannot fetch the configuration of {model_id} from {_HUB}: {reason}") from None
    try:
        hf_hub_download(model_id, _QUANTIZATION)
    except Exception:  # noqa: BLE001 - most models have none
        return path
    return path


# --- from fields to a document -------------------------------------------------------------------


def _language_model(outer: Fields) -> tuple[Fields, tuple[str, ...]]:
    """Fields of the language model, and whether towers of other modalities were left out."""
    cautions: tuple[str, ...] = ()
    inner = next((outer.section(name) for name in _LANGUAGE if outer.section(name) is not None), None)
    if inner is not None or outer.has(*_TOWERS):
        cautions = ("only the language model is counted; vision and audio encoders are left out",)
    if inner is None:
        return outer, cautions
    shared = ("tie_word_embeddings", "torch_dtype", "dtype", "quantization_config", "is_encoder_decoder")
    values = {name: outer.values[name] for name in shared if outer.has(name)}
    if not inner.has("model_type"):
        values["model_type"] = outer.values.get("model_type")
    values |= {name: value for name, value in inner.values.items() if value is not None}
    if outer.has("tie_word_embeddings") and outer.text("model_type") not in _OWN_ENDS:
        values["tie_word_embeddings"] = outer.values["tie_word_embeddings"]
    return Fields(values, outer.where), cautions


def _shape(fields: Fields, outer: Fields, assume: str | None) -> tuple[Shape, tuple[str, ...], int | None]:
    """What the family of a configuration makes of it; else its class in transformers, with the exact count.

    Without that package an unknown type is refused, or read as the family assumed.
    """
    model_type = fields.text("model_type") or "missing"
    family = family_of(model_type, FAMILIES)
    seen: set[str] = {"model_type", "tie_word_embeddings", *_CONTEXT}
    if family is not None:
        missing = {name: value for name, value in DEFAULTS.get(family, {}).items() if not fields.has(name)}
        notes = tuple(f"{name} missing: {value} assumed, the default of {family}" for name, value in missing.items())
        shape = layer_by_layer(Fields({**fields.values, **missing}, fields.where), noting(FAMILIES[family], seen))
        check_unread(fields, family, seen)
        return shape, notes, None
    found = class_tensors(outer) if assume is None else None
    if found is not None:
        shape = shape_of_tensors(Fields(found.facts, fields.where), found.tensors)
        notes = (f"model_type {shown(model_type)} is read by its class in transformers {found.version}",)
        return shape, notes, sum(map(prod, found.tensors.values()))
    if assume is None:
        raise unknown_type(fields, FAMILIES)
    shape = layer_by_layer(fields, noting(FAMILIES[assume], seen))
    check_foreign(fields, seen)
    said = f"model_type {shown(model_type)} is unknown: read as {assume}, as assumed; its counts may be wrong"
    return shape, (said,), None


def _checked_assumption(assume: str | None) -> str | None:
    """A family to read unknown types as."""
    if assume is None or (isinstance(assume, str) and assume in FAMILIES):
        return assume
    from difflib import get_close_matches

    near = get_close_matches(str(assume).lower()[:_LONGEST_NAME], FAMILIES, 3)
    raise UnknownName(f"assume: unknown family {shown(assume)}{did_you_mean(near)} (llama is the usual one)")


def _document(fields: Fields, shape: Shape, name: str, where: str) -> dict[str, Any]:
    """The document without formats and sources, in the order of the shipped files."""
    sizes = [("hidden_size", shape.hidden), ("vocab_size", shape.vocab), *shape.extras.items()]
    for part in {id(part): part for layer in shape.layers for part in layer}.values():
        sizes += part.items()
    for label, value in sizes:
        if type(value) is int and value > LARGEST:
            raise BadSpec(f"{where}:1: {label}: {value} must not exceed {LARGEST}")
    document: dict[str, Any] = {
        "name": name,
        "aliases": [name.rpartition("/")[2].lower()],
        "family": shape.family,
        "hidden": shape.hidden,
        "vocab": shape.vocab,
        "tied": shape.tied,
        "norms": shape.norms,
    }
    if shape.norm_bias:
        document["norm_bias"] = True
    if shape.head_bias:
        document["head_bias"] = True
    if shape.parallel:
        document["parallel"] = True
    if shape.streams > 1:
        document["streams"] = shape.streams
    document |= shape.extras
    context = fields.optional(*_CONTEXT)
    if context is not None:
        document["max_context"] = context
    document["groups"] = groups(shape.layers)
    if shape.mtp:
        document["mtp"] = {"layers": shape.mtp}
    return document


def _source(name: str, where: str, read: str) -> dict[str, str]:
    """The configuration file as a source: its address where it comes from the hub, and its date."""
    try:
        date = dt.datetime.fromtimestamp(os.path.getmtime(where), tz=dt.UTC).date()
    except (OSError, ValueError, OverflowError):
        date = dt.datetime.now(tz=dt.UTC).date()
    source = {"title": f"{read} of {name}"}
    cached = _cached(where)
    if cached is not None:
        source["url"] = f"{_HUB}/{cached[0]}/blob/{cached[1]}/{_CONFIG}"
    return source | {"date": date.isoformat()}


# --- files and names -----------------------------------------------------------------------------


def _file_of(path: str) -> str:
    return os.path.join(path, _CONFIG) if os.path.isdir(path) else path


def _json(path: str) -> dict[str, Any]:
    """Content of a JSON file that holds a mapping."""
    try:
        read = content(path, _MOST_BYTES, "configuration")
        text = read.decode("utf-8-sig")
        check_json_amount(text)
        data = json.loads(text)
        check_json_depth(data)
    except Unreadable as fault:
        raise BadSpec(f"{path}:1: {fault}") from None
    except UnicodeDecodeError as fault:
        line = read.count(b"\n", 0, fault.start) + 1
        raise BadSpec(f"{path}:{line}: not UTF-8 text: {fault.reason}") from None
    except json.JSONDecodeError as fault:
        raise BadSpec(f"{path}:{fault.lineno}: not JSON: {fault.msg}") from None
    except (ValueError, RecursionError) as fault:  # digits beyond what Python converts, depth beyond its stack
        raise BadSpec(f"{path}:1: unreadable JSON: {type(fault).__name__}") from None
    if not isinstance(data, dict):
        raise BadSpec(f"{path}:1: a configuration must be a mapping of fields, not a {type(data).__name__}")
    return data


def _name(config: Mapping[str, Any], path: str) -> str:
    """Name of a model: as the configuration says, of the hub's cache, of its folder, of its file."""
    stated = config.get("_name_or_path")
    if isinstance(stated, str) and _ID.fullmatch(stated):
        return stated
    cached = _cached(path)
    if cached is not None:
        return cached[0]
    folder = os.path.basename(os.path.dirname(os.path.abspath(path)))
    stem = os.path.splitext(os.path.basename(path))[0]
    return folder if os.path.basename(path) == _CONFIG and folder else stem


def _cached(path: str) -> tuple[str, str] | None:
    """Hugging Face id and commit of a file in the hub's local cache."""
    found = re.search(r"models--([\w.-]+?)--([\w.-]+)[/\\]snapshots[/\\]([0-9a-f]+)[/\\]", path, re.ASCII)
    return None if found is None else (f"{found[1]}/{found[2]}", found[3])


def _checked_name(name: str, where: str) -> str:
    """A name that keeps the rule of all names."""
    fault = name_fault(name)
    if fault is not None:
        raise BadSpec(f"{where}:1: name: {shown(name)} cannot be a model name: {fault}; give one with --name")
    return name
