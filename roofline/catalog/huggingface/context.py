"""The longest context of a configuration, as a server derives it from the positions and their scaling."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from roofline.catalog.huggingface.blocks import LARGEST, Fields

#: Fields that state the longest context.
CONTEXT = (
    "max_position_embeddings",
    "max_seq_len",
    "max_sequence_length",
    "n_positions",
    "seq_length",
    "model_max_length",
)
_SCALINGS = ("rope_scaling", "rope_parameters")
_KINDS = ("rope_type", "type")
_BEFORE_SCALING = "original_max_position_embeddings"
#: Kinds of scaling whose `max_position_embeddings` is the scaled length already, or that scale nothing.
_SCALED_ALREADY = frozenset(("default", "llama3", "longrope", "mrope", "su"))
_SCALED_MODELS = "gemma3"  # whose files state the scaled length, whatever the kind


def scaled_context(fields: Fields) -> int | None:
    """Longest context that a server allows a model [tokens]; None where the file states none.

    Args:
        fields: of the configuration.

    Returns:
        The stated length; with YaRN its factor times the length before scaling, with linear, dynamic and other kinds
        the factor times the stated length.

    Raises:
        BadSpec: a length or a scaling is malformed.

    Source:
        `_get_and_verify_max_len` of vLLM (https://github.com/vllm-project/vllm, vllm/config/model.py).
    """
    stated = fields.optional(*CONTEXT)
    scalings = list(_scalings(fields))
    if stated is None or _SCALED_MODELS in (fields.text("model_type") or ""):
        return stated
    length, factor, blamed = stated, 1.0, ""
    for name, scaling in scalings:
        kind = next((text for text in map(scaling.text, _KINDS) if text), "default")
        if kind in _SCALED_ALREADY:
            continue
        factor, blamed = scaling.number("factor", factor), name
        if kind == "yarn":
            length = scaling.optional(_BEFORE_SCALING) or fields.optional(_BEFORE_SCALING) or stated
    longest = int(length * factor)
    return max(fields.bounded(blamed, longest, f"scales the context to {longest}; the limit is {LARGEST}"), 1)


def _scalings(fields: Fields) -> Iterator[tuple[str, Fields]]:
    """The scaling of the positions, or that of each kind of layer, with the field that states it."""
    sections = {name: section for name in _SCALINGS if (section := fields.section(name)) is not None}
    name = next((name for name, section in sections.items() if section.values), None)
    if name is None:
        return
    section = sections[name]
    if section.has(*_KINDS, "factor"):
        yield name, section
        return
    for key, value in section.values.items():
        if isinstance(key, str) and isinstance(value, Mapping):
            yield name, Fields(value, fields.where, f"{name}.{key}.")
