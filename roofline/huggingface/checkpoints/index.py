"""Formats of a checkpoint whose files are elsewhere: what the names of its tensors tell, from its index alone."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from roofline.huggingface.checkpoints.packing import owner_of
from roofline.huggingface.checkpoints.sections import section_of
from roofline.huggingface.layers import Shape

__all__ = ["MATRICES", "formats_of_names"]

#: Sections of the matrices of the layers.
MATRICES = ("linear", "attention", "shared", "experts")

# Ending of what stands beside a matrix -> format of the matrix; the first that is there decides.
_TELLING = (
    (".weight_scale_2", "nvfp4"),
    (".weight_global_scale", "nvfp4"),
    (".weight_scale_inv", "fp8_block"),
    ("_weight_scale_inv", "fp8_block"),
    ("_scale_inv", "fp8_block"),
    (".qzeros", "int4"),
    (".g_idx", "int4"),
    (".weight_shape", "int4"),
    (".weight.absmax", "int4"),
    ("_scales", "mxfp4"),
    (".input_scale", "fp8_static"),
    (".weight_scale", "fp8"),
)


def formats_of_names(names: Collection[str], shape: Shape) -> Mapping[str, str]:
    """Number formats that the names of tensors tell, by the scales beside the matrices.

    Args:
        names: of all tensors [text].
        shape: of the model: layers and draft modules [record].

    Returns:
        Formats of the sections most of whose matrices have scales; none for the others [text].
    """
    known = set(names)
    beside: dict[str, set[str]] = {}
    for name in known:
        owner, ending = owner_of(name, known)
        if owner is not None:
            beside.setdefault(owner, set()).add(ending)
    votes: dict[str, dict[str, int]] = {}
    for name in known:
        if owner_of(name, known)[0] is not None:
            continue
        section = section_of(name, len(shape.layers), shape.mtp, is_vector=False)
        if section in MATRICES:
            told = next((stored for ending, stored in _TELLING if ending in beside.get(name, ())), "")
            votes.setdefault(section, {})[told] = votes.get(section, {}).get(told, 0) + 1
    most = {section: max(counts, key=lambda stored: counts[stored]) for section, counts in votes.items()}
    return {section: stored for section, stored in most.items() if stored}
