"""Import of a model: from a Hugging Face configuration or a checkpoint to a specification in YAML."""

from __future__ import annotations

from pathlib import Path

from roofline.api.inputs.arguments import path as path_of
from roofline.api.inputs.arguments import scalars
from roofline.api.inputs.texts import is_file
from roofline.catalog.checks import document_faults
from roofline.catalog.spec_text import spec_yaml
from roofline.errors import BadSpec
from roofline.huggingface.config import hub_config
from roofline.huggingface.files import file_document

_FILES = (".json", ".safetensors", ".gguf")


def imported_model(config: str, name: str | None = None, assume: str | None = None) -> tuple[str, tuple[str, ...]]:
    """Specification of a model as YAML, and cautions; `config` is a path or a Hugging Face id."""
    config = path_of("config", config)
    name, assume = scalars(name=name, assume=assume)
    path = config if is_file(config) or config.endswith(_FILES) else hub_config(config)
    where = str(Path(path) / "config.json") if Path(path).is_dir() else path
    document, cautions = file_document(path, name, assume=assume)
    faults = document_faults(document, "model")
    if faults:
        raise BadSpec("\n".join(f"{where}:1: {fault}" for fault in faults))
    return spec_yaml(document), tuple(cautions)
