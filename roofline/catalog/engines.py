"""Profiles of serving engines, from their files."""

from __future__ import annotations

import os
import re
from functools import cache, lru_cache
from typing import Any

from roofline.catalog.files import ENDINGS, kind_of, own_folder, shipped_root, spec_text, yaml_files
from roofline.catalog.shipped import shipped_by_name, shipped_figures
from roofline.errors import UnknownName, did_you_mean, shown
from roofline.specs.build import engine_record, without_nulls
from roofline.specs.engine import Engine
from roofline.specs.names import fold

NO_ENGINE_NAME = "none"
_DEFAULT = "generic"
_EAGER = "eager"
_VERSIONED = ("trtllm",)  # engines with several profiles, one per range of versions
#: Parts of the folded names of programs without a server: those that replay graphs or compile whole passes, which take
#: precedence, and those whose host launches every kernel.
_REPLAYED = ("graph", "gptfast", "torchao", "mlc", "tinychat", "gaudi")
_LAUNCHED = ("pytorch", "transformers", "huggingface", "llamacpp", "awq", "gptq", "exllama")
_NEW_TRTLLM, _NEW_NIM = (0, 13), (1, 3)  # first versions with the current decode attention kernels


def engine_names() -> tuple[str, ...]:
    """Names of the shipped profiles, `none` first."""
    return (NO_ENGINE_NAME, *sorted(os.path.basename(path)[: -len(ENDINGS[0])] for path in engine_paths()))


@cache
def engine_paths() -> tuple[str, ...]:
    return tuple(yaml_files(shipped_root("engine")))


def load_engine(name: str, specs: str | None = None) -> Engine:
    """Profile by name or alias, or from a user's file; the folder `specs` (default $ROOFLINE_SPECS) comes first."""
    if not isinstance(name, str):
        raise UnknownName(f"engine = {shown(name)} must be the name of an engine profile, as text")
    if name.endswith(ENDINGS):
        return _user_record(os.path.expanduser(name))
    specs = specs or os.environ.get("ROOFLINE_SPECS")
    for path in yaml_files(own_folder(specs)) if specs else ():
        if kind_of(spec_text(path)) == "engine" and fold(os.path.splitext(os.path.basename(path))[0]) == fold(name):
            return _user_record(path)
    return _shipped(fold(name), name)


def profile_of(engine: str | None, version: str | None = None) -> str:
    """Name of the profile of an engine as measurements call it, such as ``TensorRT-LLM``.

    ``generic`` for an unknown server or None, ``eager`` for programs that launch every kernel, ``none`` for those that
    replay graphs. TensorRT-LLM before 0.13 has a profile of its own, because it decoded with other kernels.
    """
    if not engine:
        return _DEFAULT
    if engine.endswith(ENDINGS):
        return engine
    if fold(engine) in engine_names() and fold(engine) not in _VERSIONED:
        return fold(engine)
    folded = re.sub(r"[^a-z0-9]", "", engine.lower())
    number = re.match(r"v?(\d{1,9})\.(\d{1,9})", version or "")
    numbers = (int(number.group(1)), int(number.group(2))) if number else None
    if re.search(r"(?<![a-z])nim(?![a-z])", engine.lower()):
        return "trtllm" if numbers is not None and numbers >= _NEW_NIM else "nim-2024"
    if re.search(r"tensorrtllm|trtllm|^trt$|dynamotrt$", folded):
        return "trtllm-0.9" if numbers is not None and numbers < _NEW_TRTLLM else "trtllm"
    for name, fragment in (("vllm", "vllm"), ("sglang", "sgl")):
        if fragment in folded:
            return name
    if any(program in folded for program in _REPLAYED):
        return NO_ENGINE_NAME
    return _EAGER if any(program in folded for program in _LAUNCHED) else _DEFAULT


@cache
def _shipped(folded: str, name: str) -> Engine:
    if folded == NO_ENGINE_NAME:
        return Engine(NO_ENGINE_NAME)
    content = shipped_by_name(folded, engine_paths(), _content)
    if content is not None:
        return engine_record(content)
    from difflib import get_close_matches

    known = ", ".join(engine_names())
    folder = os.path.dirname(engine_paths()[0])
    near = did_you_mean(get_close_matches(folded, engine_names(), 2))
    raise UnknownName(f"unknown engine {name!r}{near} (all: {known}; or your own YAML file, examples in {folder})")


def _user_record(path: str) -> Engine:
    """Record of a user's file, checked against the schema."""
    from roofline.catalog.checks import checked_document

    document = without_nulls(checked_document(path, "engine"))
    if "stretch" in document:  # the key of older files
        document["prefill_slowdown"] = document.pop("stretch")
    return engine_record(document)


@lru_cache(maxsize=16)
def _content(path: str) -> dict[str, Any]:
    """Content of a shipped file without its sources."""
    return shipped_figures(path)
