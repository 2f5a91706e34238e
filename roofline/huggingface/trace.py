"""Tensors of a model type that no reader knows, from its class in transformers, built on torch's meta device.

Nothing is downloaded and nothing allocated: the class is built without values, and says what a checkpoint holds. Needs
the extra `trace` (transformers) and torch; without them no type is answered this way.
"""

from __future__ import annotations

import copy
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from importlib import import_module
from importlib.util import find_spec
from typing import Any

from roofline.huggingface.fields import LARGEST, MOST_LAYERS, Fields
from roofline.records import NamedTuple

__all__ = ["ClassTensors", "MetaTensor", "class_tensors", "meta_tensors"]

_AUTO = ("AutoModelForCausalLM", "AutoModelForImageTextToText", "AutoModelForMultimodalLM")
_TOWERS = re.compile(r"vision|visual|audio|speech|image_newline|multi_modal_projector|mm_projector")
_DRAFTS = re.compile(r"(^|\.)(mtp|nextn)(\.|_|$)")
_LAYER = re.compile(r"\blayers\.(\d+)\.")
_MOST_EXPERTS = 10_000


class MetaTensor(NamedTuple):
    """One tensor that a checkpoint would hold."""

    name: str
    shape: tuple[int, ...]
    is_parameter: bool  # else a buffer: a correction bias of a router, a scale
    is_draft: bool  # of a module that drafts tokens

    @property
    def values(self) -> int:
        """Values in it."""
        count = 1
        for size in self.shape:
            count *= size
        return count


class ClassTensors(NamedTuple):
    """What transformers makes of a configuration."""

    facts: Mapping[str, Any]  # fields of the text model under the names that all classes share, and its own
    tensors: Mapping[str, tuple[int, ...]]  # shapes of its parameters and of its routers' correction biases
    version: str  # of transformers


def class_tensors(fields: Fields) -> ClassTensors | None:
    """Tensors of the class that a configuration names.

    Args:
        fields: of the whole configuration, wrappers of other modalities included [record].

    Returns:
        Facts and shapes; None without transformers and torch, or where transformers has no such causal class.

    Raises:
        BadSpec: the class refuses the configuration.
    """
    model_type = fields.text("model_type")
    if model_type is None or find_spec("torch") is None or find_spec("transformers") is None:
        return None
    transformers = import_module("transformers")
    known = import_module("transformers.models.auto.configuration_auto").CONFIG_MAPPING
    if model_type not in known:
        return None
    _check_sizes(fields)
    with _quiet(transformers):
        try:
            config = known[model_type].from_dict(_with_floats(dict(fields.values)))
            if _auto(config) is None:
                return None
            tensors = meta_tensors(config)
        except Exception as fault:  # noqa: BLE001 - a class has a hundred ways to refuse a configuration
            reason = " ".join(str(fault).split())[:200] or type(fault).__name__
            said = f"transformers {transformers.__version__} refuses this configuration of {model_type!r}: {reason}"
            raise fields.fault("model_type", said) from None
        facts = _facts(config.get_text_config(decoder=True))
    shapes = {
        tensor.name: tensor.shape
        for tensor in tensors
        if not tensor.is_draft and (tensor.is_parameter or tensor.name.endswith("correction_bias"))
    }
    return ClassTensors(facts, shapes, transformers.__version__)


def meta_tensors(config: Any) -> list[MetaTensor]:
    """Tensors of the text part of a configuration's class, a tied one under its first name alone.

    Args:
        config: configuration of transformers [any].

    Returns:
        The tensors in the order of the class.

    Raises:
        LookupError: transformers has no causal class for it.
    """
    auto = _auto(config)
    if auto is None:
        raise LookupError(f"transformers has no decoder class for {config.model_type}")
    with import_module("torch").device("meta"):
        model = auto.from_config(copy.deepcopy(config))
    text = config.get_text_config(decoder=True)
    kept = None if text is config else _of_text(model)
    layers = getattr(text, "num_hidden_layers", None)
    parameter = import_module("torch").nn.Parameter
    seen: set[int] = set()
    found = []
    for name, tensor in model.state_dict(keep_vars=True).items():
        if id(tensor) in seen or (kept is not None and id(tensor) not in kept):
            continue
        seen.add(id(tensor))
        index = _LAYER.search(name)
        is_beyond = index is not None and isinstance(layers, int) and int(index[1]) >= layers
        is_draft = is_beyond or _DRAFTS.search(name) is not None
        found.append(MetaTensor(name, tuple(tensor.shape), isinstance(tensor, parameter), is_draft))
    return found


def _auto(config: Any) -> Any:
    """The class of transformers that builds a decoder, first the whole where one is wrapped; None without any."""
    transformers = import_module("transformers")
    is_wrapper = config.get_text_config(decoder=True) is not config
    for name in (*_AUTO[1:], _AUTO[0]) if is_wrapper else _AUTO:
        auto = getattr(transformers, name, None)
        if auto is not None and type(config) in auto._model_mapping:  # noqa: SLF001 - there is no public question
            return auto
    return None


def _facts(text: Any) -> dict[str, Any]:
    """Fields of the text model, under its own names and under those that all classes share."""
    facts = dict(text.to_dict())
    for name in ("num_attention_heads", "num_key_value_heads", "hidden_size", "num_hidden_layers"):
        own = text.attribute_map.get(name, name)
        if facts.get(name) is None and facts.get(own) is not None:
            facts[name] = facts[own]
    return facts


def _with_floats(value: Any) -> Any:
    """A copy in which what JSON cannot say of a number is one again: `{"__float__": "Infinity"}`."""
    if isinstance(value, Mapping):
        if set(value) == {"__float__"} and isinstance(value["__float__"], str):
            return float(value["__float__"])
        return {name: _with_floats(each) for name, each in value.items()}
    return [_with_floats(each) for each in value] if isinstance(value, list) else value


def _of_text(model: Any) -> set[int]:
    """Identities of the tensors of the decoder inside a wrapper, and of both ends."""
    decoder = model.get_decoder()
    if decoder is None or decoder is model:
        return {id(tensor) for name, tensor in model.state_dict(keep_vars=True).items() if not _TOWERS.search(name)}
    parts = (decoder, model.get_input_embeddings(), model.get_output_embeddings())
    return {id(tensor) for part in parts if part is not None for tensor in part.state_dict(keep_vars=True).values()}


def _check_sizes(fields: Fields) -> None:
    """Refuse sizes of which a class would take too long to build: modules are made one by one even without values."""
    most = {"layers": MOST_LAYERS, "layer": MOST_LAYERS, "experts": _MOST_EXPERTS}
    for name, value in fields.values.items():
        if isinstance(value, Mapping) and isinstance(name, str):
            _check_sizes(Fields(value, fields.where))
        elif isinstance(value, int) and isinstance(name, str):
            limit = most.get(name.rpartition("_")[2], LARGEST)
            if value > limit:
                raise fields.fault(name, f"{value} must not exceed {limit}")


@contextmanager
def _quiet(transformers: Any) -> Iterator[None]:
    """Without the remarks of transformers on fields that say nothing of tensors."""
    before = transformers.logging.get_verbosity()
    transformers.logging.set_verbosity(50)
    try:
        yield
    finally:
        transformers.logging.set_verbosity(before)
