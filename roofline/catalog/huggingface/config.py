"""A Hugging Face ``config.json`` as the document of a specification file."""

from __future__ import annotations

import datetime as dt
import json
import os
import re
from collections.abc import Callable, Collection, Mapping
from contextlib import suppress
from functools import partial
from math import prod
from typing import Any

from roofline.catalog.huggingface.absent import assumed, read_as_none
from roofline.catalog.huggingface.blocks import LARGEST, Block, Fields, Shape, groups, json_kind
from roofline.catalog.huggingface.context import CONTEXT, scaled_context
from roofline.catalog.huggingface.dense import FAMILIES
from roofline.catalog.huggingface.quantization import native_formats
from roofline.catalog.huggingface.traced import class_tensors, shape_of_tensors
from roofline.catalog.huggingface.unread import check_foreign, check_unread, noting
from roofline.physics.memory import parameters
from roofline.specs.build import model_record
from roofline.specs.formats import format_in_name
from roofline.specs.model import WITHOUT_TOWERS
from roofline.specs.names import name_fault
from roofline.support.errors import BadSpec, UnknownName, did_you_mean, shown
from roofline.support.reading import CONFIG_BYTES, Unreadable, check_json_amount, check_json_depth, content, is_bounded
from roofline.support.records import NamedTuple, replace

_CONFIG = "config.json"
_QUANTIZATION = "hf_quant_config.json"
_HUB = "https://huggingface.co"
_ID = re.compile(r"[A-Za-z0-9][\w.-]{0,95}/[A-Za-z0-9][\w.-]{0,95}", re.ASCII)
_MOST_BYTES = CONFIG_BYTES
_CLASS = re.compile(r"(For(CausalLM|ConditionalGeneration)|LMHeadModel)$")  # ends of names of classes
_LONGEST_NAME = 200  # characters of a name that are examined
_LANGUAGE = ("text_config", "language_config", "llm_config", "language_model_config")
#: Wrappers whose text_config says whether the head is tied; in all others the wrapper does.
_TIED_BY_TEXT = ("llama4", "blip-2", "instructblip", "instructblipvideo", "nemo_speechlm", "nemotron_h_omni")
#: Wrappers whose head is tied as soon as one of both says so.
_TIED_BY_EITHER = (
    "glm4v", "glm4v_moe", "glm_ocr", "hunyuan_vl", "llava", "llava_next_video", "llava_onevision", "minimax_m3_vl",
    "paddleocr_vl",
)  # fmt: skip
_TIED_ALWAYS = {"omniasr": False}  # wrappers that heed neither
#: What classes of wrappers assume where the file does not say whether the head is tied: tied, and not tied.
_ASSUME_TIED = frozenset((
    "cohere2_vision", "deepseek_vl", "deepseek_vl_hybrid", "gemma3", "gemma4", "gemma4_unified", "glmasr",
    "got_ocr2", "granite_speech", "granite_speech_plus", "hyperclovax_vision_v2", "internvl", "janus", "kimi_k25",
    "lfm2_vl", "lfm3_vl", "lighton_ocr", "minicpm_ocr", "mistral3", "moss_transcribe_diarize", "ovis2", "paligemma",
    "pp_chart2table", "qwen3_asr",
))  # fmt: skip
_ASSUME_UNTIED = frozenset((
    "aria", "cosmos3_omni", "exaone4_5", "fuyu", "glm46v", "glmga", "idefics2", "idefics3", "llava_next",
    "minicpmv4_6", "minicpmv4_7", "muse_glimmer", "qianfan_ocr", "qwen2_5_omni_thinker", "qwen2_audio", "qwen3_5",
    "qwen3_5_moe", "qwen3_omni_moe_thinker", "qwen3_vl", "qwen3_vl_moe", "qwen4_exp", "smolvlm",
))  # fmt: skip
_WRAPPERS = frozenset((
    *_TIED_BY_TEXT, *_TIED_BY_EITHER, *_TIED_ALWAYS, *_ASSUME_TIED, *_ASSUME_UNTIED, "inkling_mm_model", "kimi_k3",
    "mllama",
))  # fmt: skip
_ENCODED = re.compile(r"vision|visual|vit_|image|video|audio|speech|sound|media")  # fields of models with encoders
_TOWERS = ("vision_config", "audio_config", "speech_config", "visual", "vision_tower", "mm_vision_tower")
#: Sections of a configuration that `huggingface.towers` reads.
ENCODERS = ("vision_config", "audio_config")


class Described(NamedTuple):
    """The layers of a configuration, and the fields that they were read from."""

    fields: Fields
    shape: Shape
    document: dict[str, Any]  # without number formats and sources
    cautions: tuple[str, ...]
    exact: int | None = None  # parameters counted by the class in transformers; None where a reader knows the family


class Imported(NamedTuple):
    """A specification read from a configuration or a checkpoint, and what to know about its figures."""

    document: dict[str, Any]
    cautions: tuple[str, ...]


def config_document(
    config: Mapping[str, Any],
    name: str,
    quantization: Mapping[str, Any] | None = None,
    where: str = _CONFIG,
    assume: str | None = None,
) -> Imported:
    """Specification of the model that a configuration describes; `quantization` is its ``hf_quant_config.json``.

    `where` is the file for messages and the source. `assume` is the family as which an unknown model_type is read; None
    to refuse it.
    """
    described = described_model(config, name, where, assume)
    if quantization is not None and not isinstance(quantization, Mapping):
        raise BadSpec(f"{where}:1: {_QUANTIZATION}: must be a mapping of fields")
    native = native_formats(described.fields, described.shape, quantization)
    unstated = unstated_format(described.document["name"], where, native.formats)
    return completed(described, native.formats, (*described.cautions, *native.cautions, *unstated), where)


def described_model(config: Mapping[str, Any], name: str, where: str, assume: str | None = None) -> Described:
    """Layers of the model that a configuration describes, without number formats and sources."""
    if not isinstance(config, Mapping):
        raise BadSpec(f"{where}:1: file: a configuration must be a mapping of fields")
    name = _checked_name(name, where)
    outer, assumed = _with_type(Fields(config, where))
    fields, cautions = _language_model(outer)
    cautions += assumed
    refuse_no_decoder(fields, FAMILIES)
    shape, notes, exact = _shape(fields, outer, _checked_assumption(assume))
    if shape.family == "deepseek" and (outer.text("model_type") or "").startswith("kimi"):
        shape = replace(shape, family="kimi")  # whose text says deepseek_v3 once transformers has saved it
    notes += _doubt_about_ties(outer, tied=shape.tied)
    towers: list[Block] = []
    if outer.has(*ENCODERS):
        from roofline.catalog.huggingface.towers import encoders

        towers = encoders(outer, shape.hidden)
    return Described(fields, shape, _document(fields, shape, name, where, towers), (*cautions, *notes), exact)


def completed(
    described: Described, formats: Mapping[str, str], cautions: tuple[str, ...], where: str, read: str = _CONFIG
) -> Imported:
    """The document with number formats by section, cautions as notes and its source; `read` names what was read."""
    document = {**described.document, "native": dict(formats), "architecture": {"source": "config"}}
    document["sources"] = {"config": _source(document["name"], where, read)}
    if described.exact is not None and parameters(model_record(document)).total != described.exact:
        text = f"has exactly {described.exact} parameters, which its layers do not add up to"
        raise described.fields.fault("model_type", text)
    document["notes"] = [f"{caution[0].upper()}{caution[1:]}." for caution in cautions]
    return Imported(document, cautions)


def read_config(path: str) -> tuple[dict[str, Any], dict[str, Any] | None, str]:
    """Configuration at a path, the ``hf_quant_config.json`` beside it or None, and the name of the model."""
    path = _file_of(path)
    config = _json(path)
    quantization_path = os.path.join(os.path.dirname(path), _QUANTIZATION)
    quantization = _json(quantization_path) if os.path.isfile(quantization_path) else None
    return config, quantization, _name(config, path)


def hub_config(model_id: str) -> str:
    """Path of the ``config.json`` of a model such as ``Qwen/Qwen3-8B``, fetched into the cache of the hub's client."""
    if not isinstance(model_id, str) or not _ID.fullmatch(model_id):
        raise UnknownName(f"{shown(model_id)} is not a Hugging Face id; write it as Qwen/Qwen3-8B")
    if is_bounded():
        raise UnknownName(f"{model_id} is not in the catalog, and configurations of the hub are not fetched here")
    try:
        from importlib import import_module

        hf_hub_download = import_module("huggingface_hub").hf_hub_download
    except ImportError:
        raise UnknownName(
            f"{model_id} is not in the catalog; to fetch its configuration, pip install roofline[hub]"
        ) from None
    try:
        path = str(hf_hub_download(model_id, _CONFIG))
    except Exception as fault:  # noqa: BLE001 - the package has many classes of errors, more in each version
        reason = str(fault).strip().split("\n")[0][:200] or type(fault).__name__
        raise UnknownName(f"cannot fetch the configuration of {model_id} from {_HUB}: {reason}") from None
    with suppress(Exception):  # most models have none
        hf_hub_download(model_id, _QUANTIZATION)
    return path


def _with_type(outer: Fields) -> tuple[Fields, tuple[str, ...]]:
    """The fields with the model_type that `architectures` names where the file has none, as a plain save leaves out."""
    names = outer.values.get("architectures")
    if (
        outer.values.get("model_type")
        or not isinstance(names, list)
        or len(names) != 1
        or not isinstance(names[0], str)
    ):
        return outer, ()
    stem = _CLASS.sub("", names[0][:_LONGEST_NAME]).lower()
    found = [name for name in FAMILIES if re.sub(r"[_.-]", "", name) == stem]
    if len(found) != 1:
        return outer, ()
    caution = f"model_type missing: read as {found[0]}, as architectures says"
    return Fields({**outer.values, "model_type": found[0]}, outer.where), (caution,)


def _doubt_about_ties(outer: Fields, *, tied: bool) -> tuple[str, ...]:
    """Caution where a wrapper does not say whether the head is tied, and its class assumes otherwise than its text."""
    wrapper = outer.text("model_type") or ""
    if outer.has("tie_word_embeddings") or wrapper not in (_ASSUME_UNTIED if tied else _ASSUME_TIED):
        return ()
    read, other = ("tied", "separate") if tied else ("separate", "tied")
    return (
        f"tie_word_embeddings missing: head and embedding are {read}, where the class of {wrapper} has them {other}",
    )


def _unknown_wrapper(outer: Fields, part: str | None) -> str:
    """Caution where a file has a text part in a wrapper that nobody knows, and no sign of an encoder; else empty."""
    wrapper = outer.text("model_type")
    if part is None or any(re.search(_ENCODED, str(name)[:_LONGEST_NAME]) for name in outer.values):
        return ""
    if wrapper is None:
        return f"the file has no model_type: only its {part} is read"
    if family_of(wrapper, FAMILIES) is not None or wrapper in _WRAPPERS:
        return ""
    return f"the wrapper {shown(wrapper)} is unknown: only its {part} is read"


def _language_model(outer: Fields) -> tuple[Fields, tuple[str, ...]]:
    """Fields of the language model, and a caution where encoders of other modalities are left out."""
    cautions: tuple[str, ...] = ()
    thinker = outer.section("thinker_config")  # of models that also speak: the part that reads and writes text
    if thinker is not None:
        fields, cautions = _language_model(thinker)
        return fields, (*cautions, "only the thinker is counted; what makes speech of its text is left out")
    part = next((name for name in _LANGUAGE if outer.section(name) is not None), None)
    inner = None if part is None else outer.section(part)
    if inner is not None or outer.has(*_TOWERS):
        cautions = (_unknown_wrapper(outer, part) or WITHOUT_TOWERS,)
    if inner is None:
        return outer, cautions
    shared = ("tie_word_embeddings", "torch_dtype", "dtype", "quantization_config", "is_encoder_decoder")
    values = {name: outer.values[name] for name in shared if outer.has(name)}
    if not inner.has("model_type"):
        values["model_type"] = outer.values.get("model_type")
    values |= {name: value for name, value in inner.values.items() if value is not None}
    if outer.has("tie_word_embeddings") and outer.text("model_type") not in _TIED_BY_TEXT:
        values["tie_word_embeddings"] = outer.values["tie_word_embeddings"]
    if outer.text("model_type") in _TIED_BY_EITHER and not outer.values.get("tie_word_embeddings"):
        values.pop("tie_word_embeddings", None)
        values |= {name: inner.values[name] for name in ("tie_word_embeddings",) if inner.has(name)}
    ties = _TIED_ALWAYS.get(outer.text("model_type") or "")
    if ties is not None:
        values["tie_word_embeddings"] = ties
    return Fields(values, outer.where), cautions


def _shape(fields: Fields, outer: Fields, assume: str | None) -> tuple[Shape, tuple[str, ...], int | None]:
    """Shape, cautions, and the exact parameter count where the class in transformers gives the shape.

    A known type is read by its family, an unknown one as the assumed family or, without one, by its class in
    transformers.
    """
    model_type = fields.text("model_type") or "missing"
    family = family_of(model_type, FAMILIES)
    seen: set[str] = {"model_type", "tie_word_embeddings", *CONTEXT}
    if family is not None:
        shape, notes = _read_family(fields, family, seen)
        return shape, (*notes, *check_unread(fields, family, seen)), None
    traced = class_tensors(outer) if assume is None else None
    if traced is not None:
        shape = shape_of_tensors(Fields(traced.facts, fields.where), traced.tensors)
        notes = (f"model_type {shown(model_type)} is read by its class in transformers {traced.version}",)
        return shape, notes, sum(map(prod, traced.tensors.values()))
    if assume is None:
        raise unknown_type(fields, FAMILIES)
    shape = layer_by_layer(fields, noting(FAMILIES[assume], seen))
    check_foreign(fields, seen)
    caution = f"model_type {shown(model_type)} is unknown: read as {assume}, as assumed; its counts may be wrong"
    return shape, (caution,), None


def _read_family(fields: Fields, family: str, seen: set[str]) -> tuple[Shape, tuple[str, ...]]:
    """Shape of a known type, and a note for each value that is assumed; `seen` gets the fields that are read."""
    missing = assumed(family, fields)
    shape = layer_by_layer(Fields({**fields.values, **missing}, fields.where), noting(FAMILIES[family], seen))
    notes = [
        f"{name} missing: {value} assumed, the default of {family}" for name, value in missing.items() if name in seen
    ]
    return shape, (*notes, *read_as_none(family, fields), *_doubt_about_windows(family, shape))


def _doubt_about_windows(family: str, shape: Shape) -> tuple[str, ...]:
    """Caution where a Llama states a window, which vLLM gives every layer, and the class in transformers none."""
    window = next((part["window"] for layer in shape.layers for part in layer if part.get("window")), None)
    if family != "llama" or window is None:
        return ()
    return (f"sliding_window {window} is counted, as vLLM has it; the class of llama in transformers has no window",)


def _checked_assumption(assume: str | None) -> str | None:
    if assume is None or (isinstance(assume, str) and assume in FAMILIES):
        return assume
    from difflib import get_close_matches

    near = get_close_matches(str(assume).lower()[:_LONGEST_NAME], FAMILIES, 3)
    raise UnknownName(f"assume: unknown family {shown(assume)}{did_you_mean(near)} (llama is the usual one)")


def _document(fields: Fields, shape: Shape, name: str, where: str, towers: list[Block]) -> dict[str, Any]:
    """The document without number formats and sources, its fields in the order of the shipped files."""
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
    document |= {name: True for name in ("norm_bias", "head_bias", "parallel") if getattr(shape, name)}
    if shape.streams > 1:
        document["streams"] = shape.streams
    document |= shape.extras
    context = scaled_context(fields)
    if context is not None:
        document["max_context"] = context
    document["groups"] = groups(shape.layers)
    if shape.mtp:
        document["mtp"] = {"layers": shape.mtp}
    if towers:
        document["encoders"] = [{**tower, "source": "config"} for tower in towers]
    return document


def _source(name: str, where: str, read: str) -> dict[str, str]:
    """The file as a source: its date, and its address where it lies in the hub's cache."""
    try:
        date = dt.datetime.fromtimestamp(os.path.getmtime(where), tz=dt.UTC).date()
    except (OSError, ValueError, OverflowError):
        date = dt.datetime.now(tz=dt.UTC).date()
    source = {"title": f"{read} of {name}"}
    cached = _hub_location(where)
    if cached is not None:
        source["url"] = f"{_HUB}/{cached[0]}/blob/{cached[1]}/{_CONFIG}"
    return source | {"date": date.isoformat()}


def _file_of(path: str) -> str:
    return os.path.join(path, _CONFIG) if os.path.isdir(path) else path


def _json(path: str) -> dict[str, Any]:
    try:
        raw = content(path, _MOST_BYTES, "configuration")
        text = raw.decode("utf-8-sig")
        check_json_amount(text)
        data = json.loads(text, object_pairs_hook=partial(_once, path))
        check_json_depth(data)
    except Unreadable as fault:
        raise BadSpec(f"{path}:1: {fault}") from None
    except UnicodeDecodeError as fault:
        line = raw.count(b"\n", 0, fault.start) + 1
        raise BadSpec(f"{path}:{line}: not UTF-8 text: {fault.reason}") from None
    except json.JSONDecodeError as fault:
        raise BadSpec(f"{path}:{fault.lineno}: not JSON: {fault.msg}") from None
    except RecursionError:
        raise BadSpec(f"{path}:1: unreadable JSON: nested too deeply") from None
    except ValueError:  # digits beyond what Python converts
        raise BadSpec(f"{path}:1: unreadable JSON: a number has too many digits") from None
    if not isinstance(data, dict):
        raise BadSpec(f"{path}:1: a configuration must be a mapping of fields, not {json_kind(data)}")
    return data


def _once(path: str, pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """A mapping of JSON, unless a field has two values."""
    found: dict[str, Any] = {}
    for name, value in pairs:
        if name in found and found[name] != value:
            raise BadSpec(f"{path}:1: {shown(name)} is there twice, with two values; keep one")
        found[name] = value
    return found


def _name(config: Mapping[str, Any], path: str) -> str:
    """Name of a model: from the configuration, else the hub's cache, else the folder, else the file."""
    name = config.get("_name_or_path")
    if isinstance(name, str) and _ID.fullmatch(name):
        return name
    cached = _hub_location(path)
    if cached is not None:
        return cached[0]
    folder = os.path.basename(os.path.dirname(os.path.abspath(path)))
    stem = os.path.splitext(os.path.basename(path))[0]
    return folder if os.path.basename(path) == _CONFIG and folder else stem


def _hub_location(path: str) -> tuple[str, str] | None:
    """Hugging Face id and commit of a file in the hub's local cache; None for files elsewhere."""
    match = re.search(r"models--([\w.-]+?)--([\w.-]+)[/\\]snapshots[/\\]([0-9a-f]+)[/\\]", path, re.ASCII)
    return None if match is None else (f"{match[1]}/{match[2]}", match[3])


def _checked_name(name: str, where: str) -> str:
    fault = name_fault(name)
    if fault is not None:
        raise BadSpec(f"{where}:1: name: {shown(name)} cannot be a model name: {fault}; give one with `name`")
    return name


# Refusals: models that are not decoders, and unknown model types.

_NEAREST = 3

# Model types that are not decoder language models. Most are encoders, some of which transformers also lists as causal
# models because they can be run as decoders.
_NO_DECODERS = (  # compiled on use
    r"albert|bart|beit|bert|big_?bird|blenderbot|blip|canine|clip|convnext|data2vec|deberta|deit|detr|distil|dinov|dit\b"
    r"|dream|electra|^ernie$|ernie_m|esm|flux|funnel|^git$|llada|longformer|m2m|marian|mbart|mpnet|mt5|mvp|nystromformer"
    r"|opt_encoder|pegasus|perceiver|prophetnet|reformer|roberta|roformer|segformer|siglip|swin|t5|trocr|unet|vae|vit"
    r"|wav2vec|whisper|xlm|xlnet|xmod|yoso"
)
_DECODER = "decoder"  # of ModernBERT and the like


def refuse_no_decoder(fields: Fields, known: Collection[str]) -> None:
    """Refuse encoders, diffusion models and adapters."""
    model_type, only = fields.text("model_type") or "", "only decoder language models are"
    if fields.flag("is_encoder_decoder"):
        raise fields.fault("is_encoder_decoder", f"encoder-decoder models are not supported; {only}")
    if fields.has("_class_name", "_diffusers_version"):
        raise fields.fault("_class_name", f"diffusion models are not supported; {only}")
    if fields.has("peft_type"):
        raise fields.fault("peft_type", "this is an adapter; give the configuration of its base model")
    lower = model_type.lower()
    if family_of(model_type, known) is None and re.search(_NO_DECODERS, lower) and _DECODER not in lower:
        raise fields.fault("model_type", f"{shown(model_type)} is not supported; {only}")


def family_of(model_type: str, known: Collection[str]) -> str | None:
    """Known type of a model or, for a multimodal wrapper, of its language model; None where neither is known."""
    return next((name for name in (model_type, f"{model_type}_text") if name in known), None)


def unknown_type(fields: Fields, known: Collection[str]) -> Exception:
    """Error for an unknown model type, with the nearest known ones."""
    model_type = fields.text("model_type")
    accept = (
        "install roofline[trace] and torch to read any type that transformers has;"
        " `assume` llama reads it as Llama, and says so in every answer"
    )
    if model_type is None:
        return fields.fault("model_type", f"missing; write which family the layers are of; {accept}")
    from difflib import get_close_matches

    near = get_close_matches(model_type.lower()[:_LONGEST_NAME], known, _NEAREST, 0.6)
    stem = re.match(r"[a-z]+", model_type.lower())
    near += [name for name in sorted(known) if stem and name.startswith(stem[0]) and name not in near]
    advice = f"nearest known: {', '.join(near[:_NEAREST])}" if near else "no known family has such a name"
    return fields.fault("model_type", f"{shown(model_type)} is unknown; {advice}; {accept}")


# Models whose name states a quantization and whose configuration does not.

_SIXTEEN_BIT = ("bf16", "fp16")
_MATRICES = ("linear", "attention", "shared", "experts")


def unstated_format(name: str, where: str, formats: Mapping[str, str]) -> tuple[str, ...]:
    """Caution where the name, folder or file states a number format that the configuration does not; else empty."""
    if any(formats.get(section, _SIXTEEN_BIT[0]) not in _SIXTEEN_BIT for section in _MATRICES):
        return ()
    path = os.path.abspath(where) if where else ""
    folder, stem = os.path.basename(os.path.dirname(path)), os.path.splitext(os.path.basename(path))[0]
    for label in (name, folder, stem):
        named = format_in_name(label)
        if named is not None and named.preset not in _SIXTEEN_BIT:
            preset = "int4" if named.preset == "bitsandbytes" else named.preset
            mismatch = f"the name {label} says {named.preset}, the configuration states no quantisation"
            advice = f"choose -q {preset}, or put hf_quant_config.json or the weights beside it"
            return (f"{mismatch}: counted as {formats['linear']}; {advice}",)
    return ()


# Settings of single layers, which transformers saves as `per_layer_config` since version 5.

_FIELD = "per_layer_config"
_MOST_KINDS = 100  # distinct settings; the most varied model known has a third of that
_MOST_DIGITS = 9
_SKIPPED = "skip"


def layer_by_layer(fields: Fields, read: Callable[[Fields], Shape]) -> Shape:
    """Shape of a model with layers that override fields of the configuration.

    Args:
        fields: of the configuration.
        read: reader of the family, which knows no overrides.

    Returns:
        The shape; each layer is as the family would read it if all layers had its settings.

    Raises:
        BadSpec: an override is malformed, or changes more than its layer.

    Source:
        `HeterogeneousConfigMixin` of transformers 5 (https://github.com/huggingface/transformers,
        src/transformers/integrations/heterogeneity): settings by layer index; other layers have the common ones.
    """
    if not fields.has(_FIELD):
        return read(fields)
    common = {name: value for name, value in fields.values.items() if name != _FIELD}
    overrides = _overrides(fields)
    first = read(Fields({**common, **overrides.get(0, {})}, fields.where))
    for layer in overrides:
        if layer >= len(first.layers):
            raise fields.fault(_FIELD, f"there is no layer {layer}; the model has {len(first.layers)}")
    shapes: dict[str, Shape] = {}
    layers = []
    for layer in range(len(first.layers)):
        settings = overrides.get(layer, {})
        key = repr(sorted(settings.items()))
        if key not in shapes:
            shapes[key] = read(Fields({**common, **settings}, fields.where))
            if replace(shapes[key], layers=[]) != replace(first, layers=[]) or len(shapes[key].layers) <= layer:
                raise fields.fault(f"{_FIELD}.{layer}", "changes more than its layer")
        layers.append(shapes[key].layers[layer])
    return replace(first, layers=layers)


def _overrides(fields: Fields) -> dict[int, Mapping[str, Any]]:
    """Settings by layer index."""
    section = fields.section(_FIELD) or Fields({}, fields.where)
    overrides: dict[int, Mapping[str, Any]] = {}
    for name in section.values:
        is_index = isinstance(name, str) and name.isascii() and name.isdigit() and len(name) <= _MOST_DIGITS
        layer = section.section(name) if is_index else None
        if layer is None:
            raise fields.fault(_FIELD, f"{shown(name)} must be the index of a layer, with a mapping")
        if any(not isinstance(key, str) for key in layer.values):
            raise layer.fault("", "its names must be text")
        if layer.values.get(_SKIPPED):
            raise layer.fault(_SKIPPED, "layers without one of their halves are not supported")
        overrides[int(name)] = {key: value for key, value in layer.values.items() if key != _SKIPPED}
    if len({repr(sorted(settings.items())) for settings in overrides.values()}) > _MOST_KINDS:
        raise fields.fault(_FIELD, f"more than {_MOST_KINDS} kinds of layers")
    return overrides
