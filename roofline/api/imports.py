"""Importing a model: a Hugging Face configuration or a checkpoint to the text of a specification."""

from __future__ import annotations

from pathlib import Path

from roofline.api.inputs.arguments import path as path_of
from roofline.api.inputs.arguments import scalars
from roofline.catalog.checks import document_faults
from roofline.catalog.spec_text import spec_yaml
from roofline.errors import BadSpec
from roofline.huggingface.config import hub_config
from roofline.huggingface.files import file_document

__all__ = ["imported_model"]

_FILES = (".json", ".safetensors", ".gguf")


def imported_model(config: str, name: str | None = None, assume: str | None = None) -> tuple[str, tuple[str, ...]]:
    """Specification of the model that a configuration describes.

    Args:
        config: a config.json, a file of weights, a folder that holds one, or a Hugging Face id [path or text].
        name: of the model, best its Hugging Face id; None for what the configuration says [text].
        assume: family, such as ``llama``, as which a configuration of an unknown one is read; None to refuse it [text].

    Returns:
        The text of the specification, and what a reader of any figure of the model should know [text].

    Raises:
        BadSpec: the configuration cannot be read or has faults.
        UnknownName: no such configuration, or no family of the name that is assumed.
    """
    config = path_of("config", config)
    name, assume = scalars(name=name, assume=assume)
    path = config if _exists(config) or config.endswith(_FILES) else hub_config(config)
    where = str(Path(path) / "config.json") if Path(path).is_dir() else path
    document, cautions = file_document(path, name, assume=assume)
    faults = document_faults(document, "model")
    if faults:
        raise BadSpec("\n".join(f"{where}:1: {fault}" for fault in faults))
    return spec_yaml(document), tuple(cautions)


def _exists(path: str) -> bool:
    try:
        return Path(path).exists()
    except OSError:  # a name longer than any
        return False
