"""Number formats of a checkpoint from its index alone, by the names of its tensors."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from roofline.huggingface.checkpoints.packing import owner_of
from roofline.huggingface.checkpoints.sections import section_of
from roofline.huggingface.layers import Shape

#: Sections of the matrices of the layers.
MATRICES = ("linear", "attention", "shared", "experts")

# Ending of an auxiliary tensor -> format of the matrix that it belongs to; the first match decides.
_FORMATS = (
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
    """Number format of each section in which most matrices have scales, by the names of the scales."""
    known = set(names)
    endings: dict[str, set[str]] = {}
    for name in known:
        owner, ending = owner_of(name, known)
        if owner is not None:
            endings.setdefault(owner, set()).add(ending)
    votes: dict[str, dict[str, int]] = {}
    for name in known:
        if owner_of(name, known)[0] is not None:
            continue
        section = section_of(name, len(shape.layers), shape.mtp, is_vector=False)
        if section in MATRICES:
            stored = next((stored for ending, stored in _FORMATS if ending in endings.get(name, ())), "")
            votes.setdefault(section, {})[stored] = votes.get(section, {}).get(stored, 0) + 1
    most = {section: max(counts, key=lambda stored: counts[stored]) for section, counts in votes.items()}
    return {section: stored for section, stored in most.items() if stored}
