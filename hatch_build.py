"""What the build of the wheel adds: the parsed catalog, compared with what PyYAML's safe loader reads."""

import datetime as dt
import json
import sys
import tempfile
from pathlib import Path
from typing import Any

import yaml
from hatchling.builders.hooks.plugin.interface import BuildHookInterface

FOLDERS = ("engine_specs", "hardware_specs", "model_specs", "workload_specs")


class ParsedCatalog(BuildHookInterface):
    """Puts `compiled.jsonl` beside its reader; an editable install reads YAML."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Write the file into a folder of its own and have it packed."""
        if version == "editable":
            return
        sys.path.insert(0, self.root)
        from roofline.catalog.files import COMPILED, compiled  # noqa: PLC0415  the source tree is no package before

        paths = sorted(str(path) for folder in FOLDERS for path in Path(self.root, folder).rglob("*.yaml"))
        parsed = compiled(paths)
        index, *lines = parsed.decode().split("\n")
        for path, name, line in zip(paths, json.loads(index), lines, strict=True):
            if json.loads(line) != _as_texts(yaml.safe_load(Path(path).read_text(encoding="utf-8"))):
                raise ValueError(f"{name} is read in two ways: see roofline/catalog/yaml.py")
        self._folder = tempfile.TemporaryDirectory()
        file = Path(self._folder.name, "compiled.jsonl")
        file.write_bytes(parsed)
        build_data["force_include"][str(file)] = str(Path(COMPILED).relative_to(self.root))

    def finalize(self, version: str, build_data: dict[str, Any], artifact_path: str) -> None:  # noqa: ARG002
        """Clean up."""
        if version != "editable":
            self._folder.cleanup()


def _as_texts(value: Any) -> Any:
    """A document whose dates are the texts that they are written as."""
    if isinstance(value, dict):
        return {key: _as_texts(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_as_texts(item) for item in value]
    return str(value) if isinstance(value, dt.date) else value
