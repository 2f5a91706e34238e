"""The model that a file or a folder holds: a configuration, or a checkpoint with its headers."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

from roofline.huggingface.checkpoints.index import MATRICES, formats_of_names
from roofline.huggingface.checkpoints.load import checkpoint_at, checkpoint_document
from roofline.huggingface.checkpoints.safetensors import INDEX, Index, read_index
from roofline.huggingface.config import Imported, completed, config_document, described_model, read_config
from roofline.physics.parameters import parameters
from roofline.quantity import BILLION
from roofline.records import replace
from roofline.specs.build import model_record
from roofline.specs.formats import number_format
from roofline.specs.model import Model

__all__ = ["file_document", "file_model", "is_checkpoint_name"]

_ENDINGS = (".safetensors", ".gguf", ".safetensors.index.json")
_CONFIG = "config.json"
_WIDE = ("bf16", "fp16")
_CLOSE = 0.02  # share by which the sizes of an index and of a configuration may differ: draft modules and the like


def is_checkpoint_name(path: str) -> bool:
    """Whether a path ends like a file of weights or an index of them.

    Args:
        path: any text [path].

    Returns:
        True or false.

    >>> is_checkpoint_name("model-00001-of-00004.safetensors"), is_checkpoint_name("config.json")
    (True, False)
    """
    return path.endswith(_ENDINGS)


def file_document(path: str, name: str | None = None, assume: str | None = None) -> Imported:
    """Specification of the model that a path means.

    Args:
        path: a ``config.json``, a file of weights, an index of them, or a folder with any of these [path].
        name: to give the model; None for what its files say [text].
        assume: family, such as ``llama``, as which a configuration of an unknown one is read; None to refuse it [text].

    Returns:
        The document as a specification file would hold it, with cautions.

    Raises:
        BadSpec: a file cannot be read, or its architecture is not known.
    """
    files = checkpoint_at(path) if is_checkpoint_name(path) or os.path.isdir(path) else []
    if files:
        return checkpoint_document(files, name, assume)
    folder = path if os.path.isdir(path) else os.path.dirname(path)
    config = os.path.join(folder, _CONFIG) if is_checkpoint_name(path) or os.path.isdir(path) else path
    content, quantization, called = read_config(config)
    index = os.path.join(folder, INDEX)
    if config == path or not os.path.isfile(index):
        return config_document(content, name or called, quantization, config, assume)
    imported = config_document(content, name or called, quantization, config, assume)
    return _by_index(read_index(index), imported, content, config, assume)


def file_model(path: str, assume: str | None = None) -> Model:
    """Model that a path means.

    Args:
        path: a ``config.json``, a file of weights, an index of them, or a folder with any of these [path].
        assume: family, such as ``llama``, as which a configuration of an unknown one is read; None to refuse it [text].

    Returns:
        The record, with cautions.

    Raises:
        BadSpec: a file cannot be read, or its architecture is not known.
    """
    document, cautions = file_document(path, assume=assume)
    return replace(model_record(document), cautions=tuple(cautions))


def _by_index(index: Index, imported: Imported, config: Mapping[str, Any], where: str, assume: str | None) -> Imported:
    """What an index without its files adds: formats that the configuration does not state, and the size."""
    document, cautions = imported
    formats = document["native"]
    if all(formats.get(section, "bf16") in _WIDE for section in MATRICES):
        described = described_model(config, document["name"], where, assume)
        told = formats_of_names(index.names, described.shape)
        if told:
            said = " and ".join(f"{section} {stored}" for section, stored in told.items())
            cautions = (*described.cautions, f"formats as the names of tensors in {INDEX} tell them: {said}")
            kept = dict.fromkeys(("attention", "shared", "experts"), formats["linear"])
            document, cautions = completed(described, {**formats, **kept, **told}, cautions, where)
    if index.nbytes is None:
        return Imported(document, cautions)
    model = model_record(document)
    counts = parameters(model)._asdict().items()
    counted = sum(count * number_format(model.native[section]).nbytes for section, count in counts if count)
    sizes = f"{index.nbytes / BILLION:.4g} GB, the formats counted here make {counted / BILLION:.4g} GB"
    if abs(counted / index.nbytes - 1.0) > _CLOSE:
        cautions = (*cautions, f"{INDEX} states {sizes}; the files of weights, or their headers, would tell why")
    return Imported(document, cautions)
