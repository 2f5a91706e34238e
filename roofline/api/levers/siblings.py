"""The next smaller model of a line, and the next GPU with more bandwidth, from the catalog."""

from __future__ import annotations

import re

from roofline.catalog import find
from roofline.physics.efficiency import basis_of
from roofline.physics.parameters import active_parameters, parameters
from roofline.specs.gpu import Gpu
from roofline.specs.model import Model

#: Largest share of the total or active parameters of a smaller sibling [1].
SMALLER = 0.7
#: Least factor on the bandwidth that makes another GPU worthwhile [1].
MORE_BANDWIDTH = 1.2

_VERSION = re.compile(r"([a-z]*)(\d+)(?:\.\d+)?").fullmatch
_SIZE = re.compile(r"[ae]?\d+(?:\.\d+)?[bm]|\d+x\d+b").fullmatch


def line_of(model: Model) -> tuple[str, str]:
    """The line of a model: its family, and its name up to the major version.

    >>> import roofline as rl
    >>> line_of(rl.load_model("llama-3.3-70b")), line_of(rl.load_model("qwen3-32b"))
    (('llama', 'llama-3'), ('qwen3', 'qwen3'))
    """
    first, *rest = model.short_name.split("-")
    first_version = _VERSION(first)
    if first_version is not None:  # qwen2.5: the version is part of the word
        return model.family, f"{first_version[1]}{first_version[2]}"
    version = _VERSION(rest[0]) if rest and not _SIZE(rest[0]) else None
    return model.family, first if version is None else f"{first}-{version[1]}{version[2]}"


def smaller_sibling(model: Model, specs: str | None = None) -> Model | None:
    """The next smaller model of the same line in the catalog; None where there is none.

    It has the same family and major version, no more total and active parameters, and at most `SMALLER` of either.
    The largest such model wins; among equals the one with the same version and number format, else the latest, with
    the shortest name.

    >>> import roofline as rl
    >>> smaller_sibling(rl.load_model("llama-3.3-70b")).short_name
    'llama-3.1-8b'
    """
    total, active, line = parameters(model).total, active_parameters(model), line_of(model)
    best: tuple[tuple[float, bool, float, bool, int], Model] | None = None
    for entry in find.listed("model", specs):
        other: Model = entry.record
        if line_of(other) != line:
            continue
        its_total, its_active = parameters(other).total, active_parameters(other)
        if its_total > total or its_active > active:
            continue
        if its_total > SMALLER * total and its_active > SMALLER * active:
            continue
        version, own_version = _version(other), _version(model)
        place = (its_total, version == own_version, version, other.native == model.native, -len(other.short_name))
        if best is None or place > best[0]:
            best = place, other
    return None if best is None else best[1]


def wider_gpu(gpu: Gpu, dtype: str, specs: str | None = None) -> Gpu | None:
    """The next GPU of the same vendor with more HBM bandwidth; None where there is none.

    It ships, has a known rental price and timed kernels of its generation (where `gpu` has them), is no slower in the
    same dtype, joins at least as many GPUs by its scale-up link, and has at least `MORE_BANDWIDTH` times the bandwidth.
    Of those the one with the least bandwidth wins.

    >>> import roofline as rl
    >>> wider_gpu(rl.load_gpu("h100"), "fp8").name
    'h200-sxm'
    """
    best: tuple[tuple[float, bool, float], Gpu] | None = None
    is_timed = basis_of(gpu, "calibrated") != "generic"
    for entry in find.listed("gpu", specs):
        other: Gpu = entry.record
        basis = basis_of(other, "calibrated")
        if other.vendor != gpu.vendor or other.status != "shipping" or other.price is None:
            continue
        if (is_timed and basis == "generic") or other.node < gpu.node:
            continue
        if other.bandwidth < MORE_BANDWIDTH * gpu.bandwidth or other.peaks.get(dtype, 0.0) < gpu.peaks.get(dtype, 0.0):
            continue
        place = (other.bandwidth, basis != "calibrated", other.price.typical)
        if best is None or place < best[0]:
            best = place, other
    return None if best is None else best[1]


def _version(model: Model) -> float:
    """Version in a name, 3.1 of llama-3.1-8b; 0 without one."""
    for part in model.short_name.split("-"):
        match = re.fullmatch(r"[a-z]*(\d+(?:\.\d+)?)", part)
        if match is not None:
            return float(match[1])
    return 0.0
