"""Profiles of serving engines: what they add to the kernels, from their files."""

from __future__ import annotations

import os
import re
from functools import cache, lru_cache
from typing import Any

from roofline.catalog.files import ENDINGS, kind_of, own_folder, shipped_root, spec_text, yaml_files
from roofline.catalog.shipped import shipped_figures
from roofline.errors import UnknownName, did_you_mean, shown
from roofline.specs.build import engine_record, without_nulls
from roofline.specs.engine import Engine
from roofline.specs.names import fold

__all__ = ["NO_ENGINE_NAME", "engine_names", "engine_paths", "load_engine", "profile_of"]

NO_ENGINE_NAME = "none"
_DEFAULT = "generic"
_EAGER = "eager"
_VERSIONED = ("trtllm",)  # profiles of which the version decides
#: Programs without a server, parts of their folded names: those that replay graphs or compile whole passes, looked for
#: first, and those whose host launches every kernel.
_REPLAYED = ("graph", "gptfast", "torchao", "mlc", "tinychat", "gaudi")
_LAUNCHED = ("pytorch", "transformers", "huggingface", "llamacpp", "awq", "gptq", "exllama")
_NEW_TRTLLM, _NEW_NIM = (0, 13), (1, 3)  # first versions with the decode attention of today


def engine_names() -> tuple[str, ...]:
    """Names of the shipped profiles, `none` first.

    Returns:
        Names [text].
    """
    return (NO_ENGINE_NAME, *sorted(os.path.basename(path)[: -len(ENDINGS[0])] for path in engine_paths()))


@cache
def engine_paths() -> tuple[str, ...]:
    """Files of the shipped profiles.

    Returns:
        Their paths, sorted [path].
    """
    return tuple(yaml_files(shipped_root("engine")))


def load_engine(name: str, specs: str | None = None) -> Engine:
    """Profile of a name or alias, or of a file of one's own.

    Args:
        name: e.g. ``vllm``, ``none``, or the path of a YAML file [text].
        specs: folder of specifications of one's own, searched first; default $ROOFLINE_SPECS [path].

    Returns:
        The record; ``none`` adds nothing.

    Raises:
        UnknownName: no such profile.
        BadSpec: the file has faults.
    """
    if not isinstance(name, str):
        raise UnknownName(f"engine = {shown(name)} must be the name of an engine profile, as text")
    if name.endswith(ENDINGS):
        return _own_record(os.path.expanduser(name))
    specs = specs or os.environ.get("ROOFLINE_SPECS")
    for path in yaml_files(own_folder(specs)) if specs else ():
        if kind_of(spec_text(path)) == "engine" and fold(os.path.splitext(os.path.basename(path))[0]) == fold(name):
            return _own_record(path)
    return _shipped(fold(name), name)


def profile_of(engine: str | None, version: str | None = None) -> str:
    """Profile of an engine as a measurement calls it.

    Args:
        engine: e.g. ``vLLM``, ``TensorRT-LLM``, ``NIM``; None where it is not stated [text].
        version: of the engine; TensorRT-LLM before 0.13 decoded with other kernels [text].

    Returns:
        Name of a profile; ``generic`` for servers without one and where the engine is not stated, ``eager`` for
        programs that serve nobody and launch every kernel, ``none`` for those that replay graphs [text].
    """
    if not engine:
        return _DEFAULT
    if engine.endswith(ENDINGS):
        return engine
    if fold(engine) in engine_names() and fold(engine) not in _VERSIONED:
        return fold(engine)
    folded = re.sub(r"[^a-z0-9]", "", engine.lower())
    number = re.match(r"v?(\d{1,9})\.(\d{1,9})", version or "")
    stated = (int(number.group(1)), int(number.group(2))) if number else None
    if re.search(r"(?<![a-z])nim(?![a-z])", engine.lower()):
        return "trtllm" if stated is not None and stated >= _NEW_NIM else "nim-2024"
    if re.search(r"tensorrtllm|trtllm|^trt$|dynamotrt$", folded):
        return "trtllm-0.9" if stated is not None and stated < _NEW_TRTLLM else "trtllm"
    for name, beginning in (("vllm", "vllm"), ("sglang", "sgl")):
        if beginning in folded:
            return name
    if any(program in folded for program in _REPLAYED):
        return NO_ENGINE_NAME
    return _EAGER if any(program in folded for program in _LAUNCHED) else _DEFAULT


@cache
def _shipped(folded: str, name: str) -> Engine:
    """Shipped profile of a folded name."""
    if folded == NO_ENGINE_NAME:
        return Engine(NO_ENGINE_NAME)
    for path in engine_paths():  # most are called like their file
        if fold(os.path.basename(path)[: -len(ENDINGS[0])]) == folded:
            return engine_record(_content(path))
    for path in engine_paths():
        if folded in {fold(alias) for alias in _content(path).get("aliases", ())}:
            return engine_record(_content(path))
    from difflib import get_close_matches

    known = ", ".join(engine_names())
    folder = os.path.dirname(engine_paths()[0])
    near = did_you_mean(get_close_matches(folded, engine_names(), 2))
    raise UnknownName(f"unknown engine {name!r}{near} (all: {known}; or your own YAML file, examples in {folder})")


def _own_record(path: str) -> Engine:
    """Record of a file of the user's own that keeps its schema."""
    from roofline.catalog.checks import checked_document

    return engine_record(without_nulls(checked_document(path, "engine")))


@lru_cache(maxsize=16)
def _content(path: str) -> dict[str, Any]:
    """A shipped file up to its sources, which no record needs."""
    return shipped_figures(path)
