"""Methods of quantization that state bits and groups: Quark, torchao, HQQ, MLX and others.

Fields as the configuration classes of transformers 5.24 have them (https://github.com/huggingface/transformers,
src/transformers/utils/quantization_config.py), those of Quark as AMD publishes them (https://quark.docs.amd.com), those
of torchao as its classes are saved (https://github.com/pytorch/ao), those of MLX as mlx-lm writes them
(https://github.com/ml-explore/mlx-lm).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping

from roofline.catalog.huggingface.blocks import Fields, Names
from roofline.catalog.huggingface.module_rules import MXFP8, SMALL_GROUP, Rules, integer, names_of, texts, weight_only

_SCALE_AND_ZERO = 32  # bits of each group
_SIXTEEN = 16  # bits of weights that are not quantized
_MOST_RULES = 1000  # modules with a format of their own
_MODES = {"mxfp4": "mxfp4", "mxfp8": MXFP8, "nvfp4": "nvfp4"}


def rules_of(method: str, config: Fields) -> Rules:
    """Number formats of modules, by one of the methods of this module."""
    return _READERS[method](config)


def _skipped(config: Fields) -> Names:
    return names_of(config, "modules_to_not_convert", "skip_modules", "exclude")


def _grouped(config: Fields, bits: str, default_group: int | None = None) -> str:
    """Format of weights with a 16-bit scale and a 16-bit zero or bias per group."""
    group = config.optional("group_size", least=-1)
    group = default_group if group is None else group
    return weight_only(_bits(config, bits), group or -1, _SCALE_AND_ZERO)


def _bits(config: Fields, name: str, default: int = 4) -> int:
    return config.limited(name, config.count(name, default=default), _SIXTEEN, "bits")


def _hqq(config: Fields) -> Rules:
    inner = config.section("quant_config")
    weights = inner.section("weight_quant_params") if inner else None
    if weights is None:
        raise config.fault("quant_config.weight_quant_params", "missing; formats of single layers are not supported")
    return Rules(_grouped(weights, "nbits"), _skipped(config))


def _mlx(config: Fields) -> Rules:
    """MLX quantizes embedding and head too; a module may have bits of its own, or stay as it is (false)."""
    mode = config.text("mode") or "affine"
    if mode not in ("affine", *_MODES):
        raise config.fault("mode", f"{mode!r} is not supported; only affine, {', '.join(_MODES)}")
    default = _MODES.get(mode) or _grouped(config, "bits", 64)
    plain, named = [], []
    for name, value in config.values.items():
        if value is False:
            plain.append(name)
        elif isinstance(value, Mapping) and ("bits" in value or "group_size" in value):
            own = Fields(value, config.where, f"quantization.{name}.")
            named.append((Names((name,), config, "quantization"), _grouped(own, "bits", 64)))
    _check_number(config, "quantization", len(named))
    return Rules(default, Names(plain, config, "quantization"), tuple(named), head=True, embed=True)


def _eight_bit(config: Fields) -> Rules:
    """EETQ: 8-bit weights, multiplied in 16 bits."""
    return Rules(weight_only(8, -1, 0), _skipped(config))


def _quanto(config: Fields) -> Rules:
    stored = config.text("weights") or "int8"
    formats = {"int8": weight_only(8, -1, 0), "float8": weight_only(8, -1, 0), "int4": "int4"}
    formats["int2"] = weight_only(2, 128, _SCALE_AND_ZERO)
    return Rules(_chosen(config, "weights", stored, formats), _skipped(config))


def _higgs(config: Fields) -> Rules:
    return Rules(weight_only(_bits(config, "bits"), config.count("group_size", default=256), 16), _skipped(config))


def _bitnet(config: Fields) -> Rules:
    """Four ternary weights a byte; `autobitlinear` online keeps weights in 16 bits and rounds them as they are used."""
    is_packed = config.text("linear_class") != "autobitlinear" or config.text("quantization_mode") == "offline"
    return Rules(weight_only(2, -1, 0) if is_packed else None, _skipped(config))


def _fp_quant(config: Fields) -> Rules:
    stored = config.text("forward_dtype") or "nvfp4"
    return Rules(_chosen(config, "forward_dtype", stored, {"nvfp4": "nvfp4", "mxfp4": "mxfp4"}), _skipped(config))


def _four_over_six(config: Fields) -> Rules:
    if config.has("module_config_overrides"):
        raise config.fault("module_config_overrides", "formats of single modules are not supported")
    stored = config.text("weight_dtype") or config.text("dtype") or "nvfp4"
    return Rules(_chosen(config, "dtype", stored, {"nvfp4": "nvfp4", "mxfp4": "mxfp4"}), _skipped(config))


def _chosen(config: Fields, field: str, stored: str, formats: Mapping[str, str]) -> str:
    if stored not in formats:
        raise config.fault(field, f"{stored!r} is not supported; only {', '.join(formats)}")
    return formats[stored]


# torchao: one configuration for all modules.

_TORCHAO = (  # beginning of the name of a class, or of its short name -> format; None: from its fields
    ("int4weightonly", None),
    ("int8weightonly", "8bpw"),
    ("int8dynamicactivationint8weight", "int8"),
    ("float8weightonly", "8bpw"),
    ("float8dynamicactivationfloat8weight", "fp8"),
    ("float8staticactivationfloat8weight", "fp8_static"),
    ("float8dynamicactivationint4weight", None),
    ("int8dynamicactivationint4weight", None),
    ("nvfp4", "nvfp4"),
    ("mxfp4", "mxfp4"),
)


def _torchao(config: Fields) -> Rules:
    kind = config.values.get("quant_type")
    details = config.section("quant_type_kwargs") or Fields({}, config.where, "quant_type_kwargs.")
    if isinstance(kind, Mapping):
        if set(kind) != {"default"} or not isinstance(kind["default"], Mapping):
            raise config.fault("quant_type", "formats of single modules are not supported")
        section = Fields(kind["default"], config.where, "quant_type.default.")
        kind, details = section.text("_type"), section.section("_data") or details
    if not isinstance(kind, str):
        raise config.fault("quant_type", "missing")
    name = re.sub(r"_|config$", "", kind.lower()[:100])
    found = next(((start, stored) for start, stored in _TORCHAO if name.startswith(start)), None)
    if found is None:
        raise config.fault("quant_type", f"{kind[:60]!r} is not supported")
    stored = found[1] or integer(Fields({**details.values, "bits": 4}, config.where, "quant_type."), "bits")
    whole = config.flag("include_input_output_embeddings")
    return Rules(stored, _skipped(config), head=whole, embed=whole)


# Quark: one configuration for all modules, others for those that match a pattern.


def _quark(config: Fields) -> Rules:
    common = config.section("global_quant_config") or Fields({}, config.where, "global_quant_config.")
    if config.has("layer_type_quant_config"):
        raise config.fault("layer_type_quant_config", "formats of types of modules are not supported")
    named = []
    layers = config.section("layer_quant_config") or Fields({}, config.where)
    _check_number(config, "layer_quant_config", len(layers.values))
    plain = list(texts(config, "exclude"))
    for name in layers.values:
        own = layers.section(name)
        stored = _quark_format(own) if own is not None else None
        if stored is None:
            plain.append(name)
        else:
            named.append((Names((name,), config, "layer_quant_config"), stored))
    return Rules(_quark_format(common), Names(plain, config, "exclude"), tuple(named), head=True)


def _quark_format(config: Fields) -> str | None:
    weights = config.section("weight")
    if weights is None:
        return None
    kind, scheme = weights.text("dtype") or "missing", weights.text("qscheme") or ""
    inputs = config.section("input_tensors")
    if kind in ("fp4", "mx"):
        return "mxfp4" if weights.optional("group_size", least=-1) == SMALL_GROUP else "nvfp4"
    if kind.startswith("fp8"):
        if scheme == "per_group":
            return "fp8_block"
        return "fp8_static" if inputs is not None and not inputs.flag("is_dynamic", default=True) else "fp8"
    if kind in ("int8", "uint8"):
        return "int8" if inputs is not None else weight_only(8, -1, 0)
    if kind in ("int4", "uint4"):
        return integer(Fields({**weights.values, "bits": 4}, config.where, "weight."), "bits")
    raise weights.fault("dtype", f"{kind!r} is not supported; only fp4, fp8, int8 and int4")


# GPTQ and auto-round: exceptions by pattern or name.


def with_exceptions(config: Fields, rules: Rules) -> Rules:
    """Rules with those of single modules: `dynamic` of GPTQModel, `extra_config` and `data_type` of auto-round."""
    plain, named = list(rules.ignored.texts), []
    dynamic = config.section("dynamic") or Fields({}, config.where)
    extra = config.section("extra_config") or Fields({}, config.where)
    _check_number(config, "dynamic", len(dynamic.values) + len(extra.values))
    for name, value in (*dynamic.values.items(), *extra.values.items()):
        pattern = f"re:{re.sub(r'^[+-]:', '', name)}" if name in dynamic.values else name
        if name.startswith("-:"):
            plain.append(pattern)
        elif isinstance(value, Mapping) and value.get("bits") is not None:
            own = Fields({"group_size": config.values.get("group_size"), **value}, config.where, f"{name[:60]}.")
            if own.count("bits") >= _SIXTEEN:
                plain.append(pattern)
            else:
                named.append((Names((pattern,), config, "dynamic"), integer(own, "bits")))
    kind = config.text("data_type") or "int"
    default = rules.default
    if kind.startswith(("mx_fp", "nv_fp", "fp")):
        default = "nvfp4" if kind.startswith("nv_fp") else "mxfp4" if kind.startswith("mx_fp4") else "fp8_block"
        if config.count("bits", default=4) == 4 and default == "fp8_block":
            default = "mxfp4"
    return rules._replace(default=default, ignored=Names(plain, config, "dynamic"), named=tuple(named))


def _check_number(config: Fields, field: str, number: int) -> None:
    if number > _MOST_RULES:
        raise config.fault(field, f"{number} formats of modules exceed the limit of {_MOST_RULES}")


_READERS: Mapping[str, Callable[[Fields], Rules]] = {
    "bitnet": _bitnet,
    "eetq": _eight_bit,
    "fouroversix": _four_over_six,
    "fp-quant": _fp_quant,
    "higgs": _higgs,
    "hqq": _hqq,
    "metal": lambda config: Rules(_grouped(config, "bits", 64), _skipped(config)),
    "mlx": _mlx,
    "mxfp8": lambda config: Rules(MXFP8, _skipped(config)),
    "nvfp4": lambda config: Rules("nvfp4", _skipped(config)),
    "quanto": _quanto,
    "quark": _quark,
    "sinq": lambda config: Rules(_grouped(config, "nbits", 64), _skipped(config)),
    "torchao": _torchao,
}
