"""Settings of single layers, which transformers saves as `per_layer_config` since version 5."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from roofline.errors import shown
from roofline.huggingface.fields import Fields
from roofline.huggingface.layers import Shape
from roofline.records import replace

_FIELD = "per_layer_config"
_MOST_KINDS = 100  # distinct settings; the most varied model known has a third of that
_MOST_DIGITS = 9
_SKIPPED = "skip"


def layer_by_layer(fields: Fields, read: Callable[[Fields], Shape]) -> Shape:
    """Shape of a model with layers that override fields of the configuration.

    Args:
        fields: of the configuration.
        read: reader of the family, which knows no overrides.

    Returns:
        The shape; each layer is as the family would read it if all layers had its settings.

    Raises:
        BadSpec: an override is malformed, or changes more than its layer.

    Source:
        `HeterogeneousConfigMixin` of transformers 5 (https://github.com/huggingface/transformers,
        src/transformers/integrations/heterogeneity): settings by layer index; other layers have the common ones.
    """
    if not fields.has(_FIELD):
        return read(fields)
    common = {name: value for name, value in fields.values.items() if name != _FIELD}
    overrides = _overrides(fields)
    first = read(Fields({**common, **overrides.get(0, {})}, fields.where))
    for layer in overrides:
        if layer >= len(first.layers):
            raise fields.fault(_FIELD, f"there is no layer {layer}; the model has {len(first.layers)}")
    shapes: dict[str, Shape] = {}
    layers = []
    for layer in range(len(first.layers)):
        settings = overrides.get(layer, {})
        key = repr(sorted(settings.items()))
        if key not in shapes:
            shapes[key] = read(Fields({**common, **settings}, fields.where))
            if replace(shapes[key], layers=[]) != replace(first, layers=[]) or len(shapes[key].layers) <= layer:
                raise fields.fault(f"{_FIELD}.{layer}", "changes more than its layer")
        layers.append(shapes[key].layers[layer])
    return replace(first, layers=layers)


def _overrides(fields: Fields) -> dict[int, Mapping[str, Any]]:
    """Settings by layer index."""
    section = fields.section(_FIELD) or Fields({}, fields.where)
    overrides: dict[int, Mapping[str, Any]] = {}
    for name in section.values:
        is_index = isinstance(name, str) and name.isascii() and name.isdigit() and len(name) <= _MOST_DIGITS
        layer = section.section(name) if is_index else None
        if layer is None:
            raise fields.fault(_FIELD, f"{shown(name)} must be the index of a layer, with a mapping")
        if any(not isinstance(key, str) for key in layer.values):
            raise layer.fault("", "its names must be text")
        if layer.values.get(_SKIPPED):
            raise layer.fault(_SKIPPED, "layers without one of their halves are not supported")
        overrides[int(name)] = {key: value for key, value in layer.values.items() if key != _SKIPPED}
    if len({repr(sorted(settings.items())) for settings in overrides.values()}) > _MOST_KINDS:
        raise fields.fault(_FIELD, f"more than {_MOST_KINDS} kinds of layers")
    return overrides
