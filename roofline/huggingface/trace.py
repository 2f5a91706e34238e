"""Tensors of an unknown model type, from its class in transformers built on torch's meta device.

Nothing is downloaded or allocated. Needs the extra `trace` (transformers) and torch.
"""

from __future__ import annotations

import copy
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from importlib import import_module
from importlib.util import find_spec
from math import prod
from typing import Any

from roofline.huggingface.fields import LARGEST, MOST_LAYERS, Fields
from roofline.records import NamedTuple

_AUTO = ("AutoModelForCausalLM", "AutoModelForImageTextToText", "AutoModelForMultimodalLM")
_TOWERS = re.compile(r"vision|visual|audio|speech|image_newline|multi_modal_projector|mm_projector")
_DRAFTS = re.compile(r"(^|\.)(mtp|nextn)(\.|_|$)")
_LAYER = re.compile(r"\blayers\.(\d+)\.")
_MOST_EXPERTS = 10_000


class MetaTensor(NamedTuple):
    """One tensor of a checkpoint."""

    name: str
    shape: tuple[int, ...]
    is_parameter: bool  # else a buffer, such as the correction bias of a router
    is_draft: bool  # of a draft module

    @property
    def values(self) -> int:
        """Number of values."""
        return prod(self.shape)


class ClassTensors(NamedTuple):
    """A model as transformers builds it from a configuration."""

    facts: Mapping[str, Any]  # fields of the text model, under its own and under common names
    tensors: Mapping[str, tuple[int, ...]]  # shapes of its parameters and of its routers' correction biases
    version: str  # of transformers


def class_tensors(fields: Fields) -> ClassTensors | None:
    """Tensors of the class of a configuration; None without torch and transformers, or without such a class."""
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
            if _auto_class(config) is None:
                return None
            tensors = meta_tensors(config)
        except Exception as fault:  # noqa: BLE001 - a class has a hundred ways to refuse a configuration
            reason = " ".join(str(fault).split())[:200] or type(fault).__name__
            text = f"transformers {transformers.__version__} refuses this configuration of {model_type!r}: {reason}"
            raise fields.fault("model_type", text) from None
        facts = _facts(config.get_text_config(decoder=True))
    shapes = {
        tensor.name: tensor.shape
        for tensor in tensors
        if not tensor.is_draft and (tensor.is_parameter or tensor.name.endswith("correction_bias"))
    }
    return ClassTensors(facts, shapes, transformers.__version__)


def meta_tensors(config: Any) -> list[MetaTensor]:
    """Tensors of the text model of a configuration in the order of the class, tied ones under their first name."""
    auto = _auto_class(config)
    if auto is None:
        raise LookupError(f"transformers has no decoder class for {config.model_type}")
    with import_module("torch").device("meta"):
        model = auto.from_config(copy.deepcopy(config))
    text = config.get_text_config(decoder=True)
    text_ids = None if text is config else _text_tensor_ids(model)
    layers = getattr(text, "num_hidden_layers", None)
    parameter = import_module("torch").nn.Parameter
    seen: set[int] = set()
    tensors = []
    for name, tensor in model.state_dict(keep_vars=True).items():
        if id(tensor) in seen or (text_ids is not None and id(tensor) not in text_ids):
            continue
        seen.add(id(tensor))
        index = _LAYER.search(name)
        is_beyond = index is not None and isinstance(layers, int) and int(index[1]) >= layers
        is_draft = is_beyond or _DRAFTS.search(name) is not None
        tensors.append(MetaTensor(name, tuple(tensor.shape), isinstance(tensor, parameter), is_draft))
    return tensors


def _auto_class(config: Any) -> Any:
    """Auto class of transformers that builds the decoder, or the wrapper around it; None if there is none."""
    transformers = import_module("transformers")
    is_wrapper = config.get_text_config(decoder=True) is not config
    for name in (*_AUTO[1:], _AUTO[0]) if is_wrapper else _AUTO:
        auto = getattr(transformers, name, None)
        if auto is not None and type(config) in auto._model_mapping:  # noqa: SLF001 - there is no public look-up
            return auto
    return None


def _facts(text: Any) -> dict[str, Any]:
    """Fields of the text model, under its own and under common names."""
    facts = dict(text.to_dict())
    for name in ("num_attention_heads", "num_key_value_heads", "hidden_size", "num_hidden_layers"):
        alias = text.attribute_map.get(name, name)
        if facts.get(name) is None and facts.get(alias) is not None:
            facts[name] = facts[alias]
    return facts


def _with_floats(value: Any) -> Any:
    """A copy with floats that JSON cannot hold, such as `{"__float__": "Infinity"}`, as numbers."""
    if isinstance(value, Mapping):
        if set(value) == {"__float__"} and isinstance(value["__float__"], str):
            return float(value["__float__"])
        return {name: _with_floats(item) for name, item in value.items()}
    return [_with_floats(item) for item in value] if isinstance(value, list) else value


def _text_tensor_ids(model: Any) -> set[int]:
    """Identities of the tensors of the decoder inside a wrapper, its embedding and its head."""
    decoder = model.get_decoder()
    if decoder is None or decoder is model:
        return {id(tensor) for name, tensor in model.state_dict(keep_vars=True).items() if not _TOWERS.search(name)}
    parts = (decoder, model.get_input_embeddings(), model.get_output_embeddings())
    return {id(tensor) for part in parts if part is not None for tensor in part.state_dict(keep_vars=True).values()}


def _check_sizes(fields: Fields) -> None:
    """Refuse sizes that take too long to build: every module is created, even without values."""
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
    """Silence the warnings of transformers."""
    before = transformers.logging.get_verbosity()
    transformers.logging.set_verbosity(50)
    try:
        yield
    finally:
        transformers.logging.set_verbosity(before)
