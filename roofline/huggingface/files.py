"""The model in a file or folder: a configuration, or a checkpoint with its headers."""

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

_ENDINGS = (".safetensors", ".gguf", ".safetensors.index.json")
_CONFIG = "config.json"
_SIXTEEN_BIT = ("bf16", "fp16")
_CLOSE = 0.02  # relative difference allowed between the sizes of index and configuration, such as draft modules


def is_checkpoint_name(path: str) -> bool:
    """Whether a path ends like a file of weights or its index.

    >>> is_checkpoint_name("model-00001-of-00004.safetensors"), is_checkpoint_name("config.json")
    (True, False)
    """
    return path.endswith(_ENDINGS)


def file_document(path: str, name: str | None = None, assume: str | None = None) -> Imported:
    """Specification of the model in a ``config.json``, a file of weights, its index, or a folder with any of these.

    Without `name` the model is called as its files say; `assume` is as for `config_document`.
    """
    files = checkpoint_at(path) if is_checkpoint_name(path) or os.path.isdir(path) else []
    if files:
        return checkpoint_document(files, name, assume)
    folder = path if os.path.isdir(path) else os.path.dirname(path)
    config_path = os.path.join(folder, _CONFIG) if is_checkpoint_name(path) or os.path.isdir(path) else path
    config, quantization, stated_name = read_config(config_path)
    imported = config_document(config, name or stated_name, quantization, config_path, assume)
    index = os.path.join(folder, INDEX)
    if config_path == path or not os.path.isfile(index):
        return imported
    return _add_index(read_index(index), imported, config, config_path, assume)


def file_model(path: str, assume: str | None = None) -> Model:
    document, cautions = file_document(path, assume=assume)
    return replace(model_record(document), cautions=tuple(cautions))


def _add_index(index: Index, imported: Imported, config: Mapping[str, Any], where: str, assume: str | None) -> Imported:
    """Add to a specification what an index without its files states: unstated formats, and a caution about the size."""
    document, cautions = imported
    formats = document["native"]
    if all(formats.get(section, "bf16") in _SIXTEEN_BIT for section in MATRICES):
        described = described_model(config, document["name"], where, assume)
        quantised = formats_of_names(index.names, described.shape)
        if quantised:
            listed = " and ".join(f"{section} {stored}" for section, stored in quantised.items())
            cautions = (*described.cautions, f"formats as the names of tensors in {INDEX} tell them: {listed}")
            unquantised = dict.fromkeys(("attention", "shared", "experts"), formats["linear"])
            document, cautions = completed(described, {**formats, **unquantised, **quantised}, cautions, where)
    if index.nbytes is None:
        return Imported(document, cautions)
    model = model_record(document)
    counts = parameters(model)._asdict().items()
    counted = sum(count * number_format(model.native[section]).nbytes for section, count in counts if count)
    sizes = f"{index.nbytes / BILLION:.4g} GB, the formats counted here make {counted / BILLION:.4g} GB"
    if abs(counted / index.nbytes - 1.0) > _CLOSE:
        cautions = (*cautions, f"{INDEX} states {sizes}; the files of weights, or their headers, would tell why")
    return Imported(document, cautions)
