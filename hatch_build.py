"""What a build adds: the catalog, parsed and compared with PyYAML's reading, and the README as the index shows it."""

import datetime as dt
import json
import re
import sys
import tempfile
from pathlib import Path
from typing import Any

import yaml
from hatchling.builders.hooks.plugin.interface import BuildHookInterface
from hatchling.metadata.plugin.interface import MetadataHookInterface

FOLDERS = ("engine_specs", "hardware_specs", "model_specs", "workload_specs")

#: The target of a relative link of Markdown, or of a picture.
_TARGET = re.compile(r"\]\((?!\w+:|#)([^)\s]+)\)")
#: What the README says in a checkout, and what it says on the index, where the package has a name and an address.
_PUBLISHED = (
    ("In a clone of this repository\n", "This\n"),
    ("pip install . &&", "pip install {name} &&"),
    ('pip install ".[xlsx]"', 'pip install "{name}[xlsx]"'),
    ('`pip install ".[docs]"', 'In a clone, `pip install ".[docs]"'),
    ('\npip install ".[dev]"', '\ngit clone {source} {name} && cd {name}\npip install ".[dev]"'),
)


class Description(MetadataHookInterface):
    """The README as the index shows it: links lead to the repository, at the tag of the version."""

    def update(self, metadata: dict[str, Any]) -> None:
        """Put it into the metadata; without an address of the source it stays as it is."""
        text = Path(self.root, "README.md").read_text(encoding="utf-8")
        source = metadata.get("urls", {}).get("Source")
        if source:
            text = published(text, metadata["name"], metadata["version"], source)
        metadata["readme"] = {"content-type": "text/markdown", "text": text}


def published(readme: str, name: str, version: str, source: str) -> str:
    """The README of a version, for readers who have no checkout."""
    for checkout, index in _PUBLISHED:
        if readme.count(checkout) != 1:
            raise ValueError(f"README.md does not say {checkout.strip()!r} once: see hatch_build.py")
        readme = readme.replace(checkout, index.format(name=name, source=source))

    def absolute(link: re.Match[str]) -> str:
        view = "raw" if link[1].endswith((".png", ".svg")) else "blob"
        return f"]({source}/{view}/v{version}/{link[1]})"

    return _TARGET.sub(absolute, readme)


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
