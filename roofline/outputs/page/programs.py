"""The module `programs.js` of a page: every formula, printed from the graph, and what is known of their numbers."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from roofline.outputs.page import answers, passes
from roofline.outputs.page.passes import EFFICIENCY, Class, Kinds
from roofline.outputs.page.symbols import COLLECTIVE_KINDS, Library, Shape, roof_name
from roofline.physics.plan import Deployment
from roofline.serving.load.regions import errors_text, leaves, nearest
from roofline.serving.quantization import SECTIONS
from roofline.serving.verdict import AT_HARDWARE_LIMIT, IN_RANGE, INHERITED, NOT_KERNELS, NOT_TIMED, OUTSIDE
from roofline.specs.gpu import KINDS


def programs(kinds: Kinds, sample: Deployment) -> str:
    """The module.

    Args:
        kinds: of layers, and what surrounds them.
        sample: any deployment, whose programs have as many results as those of the page.

    Returns:
        JavaScript.
    """
    layers = passes.passes_of(kinds)
    classes = passes.classes_of(layers.shapes)
    asked, library = _printed_answers(sample)
    held = [f"{kind.name}_held" for kind in kinds.kinds] + [f"{name}_stage" for name, _ in kinds.frames]
    constants = {
        "SECTIONS": list(SECTIONS),
        "COLLECTIVES": [kind.name for kind in COLLECTIVE_KINDS],
        "CONSTANTS": list(EFFICIENCY),
        "WIDER": INHERITED,
        "CLASSES": [list(each) for each in classes],
        "ROOFS": {"numbers": {kind.name: list(kind.numbers) for kind in kinds.kinds}, "roofs": _roofs(classes)},
        "SHAPES": {name: [_shape(shape, classes) for shape in each] for name, each in layers.shapes.items()},
        "SERVED": list(answers.SERVED),
        "FIGURES": list(answers.FIGURES),
        "PERCENTILES": [list(each) for each in answers.PERCENTILES],
        "OUTSIDE": asked.conditions,
        "BEYOND": answers.beyond_texts(sample, library),
        "LABELS": {kind.name: [kind.label, int(kind.goes_by_part), int(kind.is_minor)] for kind in KINDS.values()},
        "REGIONS": {name: errors_text(name) for name in sorted(map(nearest, leaves()))},
        "WORDS": {
            "inRange": IN_RANGE,
            "outside": OUTSIDE,
            "atLimit": AT_HARDWARE_LIMIT,
            "notTimed": NOT_TIMED,
            "notKernels": NOT_KERNELS,
        },
    }
    parts = [
        *(f"export const {name} = {_json(value)};" for name, value in constants.items()),
        passes.equations(), layers.source, passes.reads(classes), passes.memory_of_layers(kinds),
        passes.memory_of_cases(), *library.sources, *asked.sources,
        f"export const LAYERS = {{ {', '.join([*layers.shapes, *held])} }};",
        f"export const ANSWERS = {{ {', '.join(asked.names)} }};",
    ]  # fmt: skip
    return "\n".join((*parts, f"export {{ {', '.join(EXPORTED)} }};", ""))


_PRINTED: list[tuple[answers.Answers, Library]] = []


def _printed_answers(sample: Deployment) -> tuple[answers.Answers, Library]:
    """Programs of answers, which are the same for all models, and what they call; printed once."""
    if not _PRINTED:
        library = Library()
        _PRINTED.append((answers.printed_answers(sample, library), library))
    return _PRINTED[0]


#: Functions that other modules import by name.
EXPORTED = (
    "averaged_steps", "beyond_mixed", "beyond_plain", "bound_times", "ends_of_percentile", "held_by_burst",
    "held_under_load", "knees_affine", "knees_any", "limited_by", "verdict_timed", "verdict_untimed", "chunk",
    "decode_host", "memory_rules", "padding_bytes", "part_times", "pass_time", "per_sequence", "prefill_host",
    "prompt", "sides_of", "times_of_chunks", "token_bytes", "variance_of_groups",
)  # fmt: skip


def _json(value: Any) -> str:
    return json.dumps(value, separators=(",", ":"))


def _roofs(classes: Sequence[Class]) -> list[list[Any]]:
    """Roofs that the formulas name: name, kind, section or format, order of the norm."""
    found = {
        roof_name(each.kind, each.key): [each.kind, each.key, KINDS[each.kind].order]
        for each in classes
        if not KINDS[each.kind].is_collective and each.key
    }
    return [[name, *facts] for name, facts in found.items()]


def _shape(shape: Shape, classes: Sequence[Class]) -> list[Any]:
    """Name of a kernel, its class, what the host launches for it, whether it reads mostly weights, part."""
    kind = KINDS[shape.kind]
    return [shape.name, classes.index(Class.of(shape)), kind.launches, int(kind.bears_weights), shape.part]
