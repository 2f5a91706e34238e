"""Profiles of serving engines: what they add to the kernels, from their files."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from functools import cache, lru_cache
from typing import Any

from roofline.catalog.files import ENDINGS, kind_of, own_folder, spec_text, yaml_files
from roofline.catalog.shipped_yaml import shipped_content
from roofline.errors import BadInput, BadSpec, UnknownName
from roofline.quantity import from_text
from roofline.specs.engine import Engine, Tuning
from roofline.specs.kernels import CALIBRATED
from roofline.specs.names import fold

__all__ = ["NO_ENGINE_NAME", "engine_names", "engine_paths", "engine_record", "load_engine", "profile_of"]

NO_ENGINE_NAME = "none"
_TIMES = ("request", "network", "prefill", "step", "layer", "sequence", "all_reduce")
_NUMBERS = ("stretch", "reserve", "sigma_ttft", "sigma_tpot")
_TEXTS = ("name", "aliases", "title", "versions", "year", "sources")
_DEFAULT = "generic"
_VERSIONED = ("trtllm",)  # profiles of which the version decides
#: Programs without a server, beginnings or parts of their folded names.
_PROGRAMS = ("pytorch", "transformers", "gptfast", "torchao", "llamacpp", "mlc", "awq", "tinychat", "exllama", "gaudi")
_NEW_TRTLLM, _NEW_NIM = (0, 13), (1, 3)  # first versions with the decode attention of today
_KINDS = tuple(kind.name for kind in CALIBRATED)
_TUNING = ("kind", "dtype", "generation", "peak", "eta_c", "compute", "memory")


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
    package = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    inside = os.path.join(package, "engine_specs")
    return tuple(
        yaml_files(inside if os.path.isdir(inside) else os.path.join(os.path.dirname(package), "engine_specs"))
    )


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
        raise UnknownName(f"{name!r} is no name of an engine profile")
    if name.endswith(ENDINGS):
        return engine_record(_own_content(os.path.expanduser(name)), name)
    specs = specs or os.environ.get("ROOFLINE_SPECS")
    for path in yaml_files(own_folder(specs)) if specs else ():
        if kind_of(spec_text(path)) == "engine" and fold(os.path.splitext(os.path.basename(path))[0]) == fold(name):
            return engine_record(_own_content(path), path)
    return _shipped(fold(name), name)


def profile_of(engine: str | None, version: str | None = None) -> str:
    """Profile of an engine as a measurement calls it.

    Args:
        engine: e.g. ``vLLM``, ``TensorRT-LLM``, ``NIM``; None where it is not stated [text].
        version: of the engine; TensorRT-LLM before 0.13 decoded with other kernels [text].

    Returns:
        Name of a profile; ``generic`` for servers without one and where the engine is not stated, ``none`` for
        programs that serve nobody [text].
    """
    if not engine:
        return _DEFAULT
    if engine.endswith(ENDINGS):
        return engine
    if fold(engine) in engine_names() and fold(engine) not in _VERSIONED:
        return fold(engine)
    folded = re.sub(r"[^a-z0-9]", "", engine.lower())
    number = re.match(r"v?(\d+)\.(\d+)", version or "")
    stated = (int(number.group(1)), int(number.group(2))) if number else None
    if re.search(r"(?<![a-z])nim(?![a-z])", engine.lower()):
        return "trtllm" if stated is not None and stated >= _NEW_NIM else "nim-2024"
    if re.search(r"tensorrtllm|trtllm|^trt$|dynamotrt$", folded):
        return "trtllm-0.9" if stated is not None and stated < _NEW_TRTLLM else "trtllm"
    for name, beginning in (("vllm", "vllm"), ("sglang", "sgl")):
        if beginning in folded:
            return name
    return NO_ENGINE_NAME if any(program in folded for program in _PROGRAMS) else _DEFAULT


def engine_record(content: Mapping[str, Any], path: str) -> Engine:
    """Record of a profile's file.

    Args:
        content: the mapping of the file [record].
        path: of the file, for messages [path].

    Returns:
        The record, in SI units.

    Raises:
        BadSpec: an unknown key, a figure that is none or has no unit, no name or sources.
    """
    for key in content:
        if key not in (*_TIMES, *_NUMBERS, *_TEXTS, "chunk", "tunings"):
            raise BadSpec(
                f"{path}:1: {key}: unknown key; an engine profile may state {', '.join((*_TIMES, *_NUMBERS))}"
            )
    for key in ("name", "sources"):
        if not content.get(key):
            raise BadSpec(f"{path}:1: {key}: missing")
    chunk = content.get("chunk")
    if chunk is not None and (type(chunk) is not int or chunk < 1):
        raise BadSpec(f"{path}:1: chunk: {chunk!r} must be a positive whole number of tokens")
    tunings = content.get("tunings", [])
    if not isinstance(tunings, list) or not all(isinstance(entry, Mapping) for entry in tunings):
        raise BadSpec(f"{path}:1: tunings: must be a list of mappings, each with a kind of kernel")
    if not isinstance(content["name"], str):
        raise BadSpec(f"{path}:1: name: {content['name']!r} must be a text")
    if "stretch" in content and not (type(content["stretch"]) in (int, float) and content["stretch"] >= 1.0):
        raise BadSpec(f"{path}:1: stretch: {content['stretch']!r} must be 1 or more: no host makes kernels faster")
    return Engine(
        name=content["name"],
        chunk=chunk,
        tunings=tuple(_tuning(entry, path) for entry in tunings),
        versions=str(content.get("versions", "")),
        year=str(content.get("year", "")),
        **{key: _time(content[key], key, path) for key in _TIMES if key in content},
        **{key: _positive(content[key], key, path) for key in _NUMBERS if key in content},
    )


@cache
def _shipped(folded: str, name: str) -> Engine:
    """Shipped profile of a folded name."""
    if folded == NO_ENGINE_NAME:
        return Engine(NO_ENGINE_NAME)
    for path in engine_paths():  # most are called like their file
        if fold(os.path.basename(path)[: -len(ENDINGS[0])]) == folded:
            return engine_record(_content(path), path)
    for path in engine_paths():
        if folded in {fold(alias) for alias in _content(path).get("aliases", ())}:
            return engine_record(_content(path), path)
    known = ", ".join(engine_names())
    folder = os.path.dirname(engine_paths()[0])
    raise UnknownName(f"no engine profile {name!r}; known: {known}, or the path of a YAML file like those in {folder}")


def _tuning(entry: Mapping[str, Any], path: str) -> Tuning:
    unknown = [key for key in entry if key not in _TUNING]
    if unknown or "kind" not in entry:
        raise BadSpec(f"{path}:1: tunings: each has a kind and may have {', '.join(_TUNING[1:])}; not {unknown}")
    if entry["kind"] not in _KINDS:
        raise BadSpec(f"{path}:1: tunings.kind: {entry['kind']!r} is no kind of kernel; it may be {', '.join(_KINDS)}")
    figures = {
        key: _positive(entry[key], f"tunings.{key}", path) for key in ("eta_c", "compute", "memory") if key in entry
    }
    texts = {key: str(entry[key]) for key in ("kind", "dtype", "generation", "peak") if key in entry}
    return Tuning(**texts, **figures)  # type: ignore[arg-type]


def _time(value: Any, key: str, path: str) -> float:
    try:
        return from_text(str(value), "s")
    except BadInput as fault:
        raise BadSpec(f"{path}:1: {key}: {fault}") from None


def _positive(value: Any, key: str, path: str) -> float:
    if type(value) not in (int, float) or not 0.0 < value < float("inf"):
        raise BadSpec(f"{path}:1: {key}: {value!r} must be a positive number")
    return float(value)


def _own_content(path: str) -> dict[str, Any]:
    from roofline.catalog.yaml_lines import read_untrusted

    content, _, faults = read_untrusted(path)
    if faults:
        raise BadSpec("\n".join(faults))
    if not isinstance(content, dict):
        raise BadSpec(f"{path}:1: describes no engine profile")
    return content


@lru_cache(maxsize=16)
def _content(path: str) -> dict[str, Any]:
    return shipped_content(spec_text(path).partition("\nsources:")[0] + "\nsources: [stated]\n")
