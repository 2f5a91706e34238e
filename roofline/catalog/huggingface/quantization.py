"""Number formats of a checkpoint by section, from the quantization that its configuration states."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from roofline.catalog.huggingface.blocks import Fields, Names, Shape
from roofline.catalog.huggingface.module_rules import (
    BITS,
    MXFP8,
    SMALL_GROUP,
    Rules,
    integer,
    names_of,
    texts,
)
from roofline.catalog.huggingface.traced import Weight, layer_weights
from roofline.numbers.quantity import MILLI
from roofline.support.records import NamedTuple

_NEGLIGIBLE = MILLI  # share of the weights of a section below which a caution leaves them out
_MOST_GROUPS = 1000  # groups of modules with a format each
_ALGORITHMS = {
    "FP8": "fp8_static",
    "FP8_PER_CHANNEL_PER_TOKEN": "fp8",
    "FP8_PB_WO": "fp8_block",
    "FP8_PB_REAL": "fp8_block",
    "INT4_AWQ": "int4",
    "INT8_SQ": "int8",
    "MXFP4": "mxfp4",
    "MXFP8": MXFP8,
    "NVFP4": "nvfp4",
    "NVFP4_AWQ": "nvfp4",
    "W4A16_AWQ": "int4",
    "W4A16_NVFP4": "nvfp4",
    "W4A8_AWQ": "int4",
    "W4A8_MXFP4_FP8": "mxfp4",
    "W8A8_SQ_PER_CHANNEL": "int8",
}
_METHODS = ("awq", "bitsandbytes", "compressed-tensors", "fbgemm_fp8", "fp8", "gptq", "modelopt", "mxfp4")
#: Methods of transformers 5.24 that `huggingface.methods` reads, and those whose tables of codes it cannot count.
_OTHERS = (
    "bitnet", "eetq", "fouroversix", "fp-quant", "higgs", "hqq", "metal", "mlx", "mxfp8", "nvfp4", "quanto", "quark",
    "sinq", "torchao",
)  # fmt: skip
_CODED = ("aqlm", "vptq", "spqr", "gguf", "gemma")
_CACHES = {"FP8": "fp8", "INT8": "int8", "NVFP4": "fp8", "NONE": None}
_SIXTEEN_BIT = {
    "bfloat16": "bf16",
    "float16": "fp16",
    "half": "fp16",
    "float32": "bf16",
    "float": "bf16",
    "torch.bfloat16": "bf16",
    "torch.float16": "fp16",
    "torch.float32": "bf16",
    "float8_e4m3fn": "bf16",
}


class Native(NamedTuple):
    """Number formats by section of a specification, and what to know about them."""

    formats: dict[str, str]
    cautions: tuple[str, ...]


def native_formats(fields: Fields, shape: Shape, quantization: Mapping[str, Any] | None) -> Native:
    """Number formats of a checkpoint; `quantization` is the content of ``hf_quant_config.json``, if there is one.

    A section has the format of most of its weights, with a caution where others differ.
    """
    sixteen_bit, cautions = _sixteen_bit_format(fields)
    config = fields.section("quantization_config") or fields.section("compression_config")
    if config is None and isinstance(fields.values.get("quantization"), Mapping):  # of MLX
        config = fields.section("quantization")
    separate = Fields({"hf_quant_config": quantization}, fields.where).section("hf_quant_config")
    separate = (separate.section("quantization") or separate) if separate else None
    rules = _rules(config if config is not None and config.values else separate)
    if config is not None and separate is not None and separate.has("quantized_layers"):
        rules = rules._replace(named=(*_rules(separate).named, *rules.named))
    sections, mixed = _section_formats(shape, rules, sixteen_bit)
    cautions += (*rules.cautions, *mixed)
    return Native(_ordered(fields, sections, rules, sixteen_bit, _cache(config, separate), shape.tied), cautions)


def _sixteen_bit_format(fields: Fields) -> tuple[str, tuple[str, ...]]:
    """The format of unquantized weights, and cautions about it."""
    name = fields.text("dtype") or fields.text("torch_dtype") or "bfloat16"
    if name not in _SIXTEEN_BIT:
        raise fields.fault("torch_dtype", f"{name!r} is not supported; only {', '.join(_SIXTEEN_BIT)}")
    if name.endswith(("float32", "float")):
        return "bf16", ("stored as float32; counted as bf16, as it is served",)
    return _SIXTEEN_BIT[name], ()


def _ordered(
    fields: Fields, sections: Mapping[str, str], rules: Rules, sixteen_bit: str, cache: str | None, tied: bool
) -> dict[str, str]:
    """Formats in the order of a specification, without sections that have the format of `linear` by default."""
    linear = sections.get("linear") or sections.get("attention") or sixteen_bit
    formats = {"linear": linear}
    for section in ("attention", "shared"):
        if sections.get(section, linear) != linear:
            formats[section] = sections[section]
    experts = sections.get("experts")
    if experts is not None:
        stated = fields.section("quantization_config")
        narrow = fields.text("expert_dtype") or (None if stated is None else stated.text("expert_dtype"))
        if narrow not in (None, "fp4", "fp8", "bf16"):
            raise fields.fault("expert_dtype", f"{narrow!r} is not supported; only fp4, fp8 and bf16")
        formats["experts"] = "mxfp4" if narrow == "fp4" and experts in (rules.default, sixteen_bit) else experts
    head = rules.default if rules.head and not tied and not rules.ignored.match(("lm_head",)) else None
    embed = rules.default if rules.embed and not rules.ignored.match(("embed_tokens",)) else None
    formats |= {"embed": embed or sixteen_bit, "head": (embed if tied else head) or sixteen_bit}
    if experts is not None:
        formats["router"] = sixteen_bit
    return formats | {"norm": sixteen_bit, "kv": cache or sixteen_bit}


def _section_formats(shape: Shape, rules: Rules, sixteen_bit: str) -> tuple[dict[str, str], tuple[str, ...]]:
    """Format of most weights of each section, and cautions about the others."""
    votes: dict[str, dict[str, int]] = {}
    for index, (mixer, ffn) in enumerate(shape.layers):
        for weight in layer_weights(index, mixer, ffn, shape.hidden, shape.family):
            votes.setdefault(weight.section, {})
            stored = _format_of(weight, rules) or sixteen_bit
            votes[weight.section][stored] = votes[weight.section].get(stored, 0) + weight.size
    formats, cautions = {}, []
    for section, counts in votes.items():
        formats[section] = max(counts, key=lambda name: counts[name])
        total = sum(counts.values())
        others = [
            f"{count / total:.0%} ({name})"
            for name, count in counts.items()
            if name != formats[section] and count > _NEGLIGIBLE * total
        ]
        if others:
            shares = " and ".join(others)
            cautions.append(f"{section}: counted as {formats[section]} throughout, but {shares} of its weights are not")
    return formats, tuple(cautions)


def _format_of(weight: Weight, rules: Rules) -> str | None:
    if (rules.experts_only and weight.section != "experts") or rules.ignored.match(weight.names):
        return None
    return next((stored for names, stored in rules.named if names.match(weight.names)), rules.default)


def _rules(config: Fields | None) -> Rules:
    if config is None or not config.values:
        return Rules(None, Names(()))
    method = _method(config)
    if method == "modelopt":
        return _modelopt(config)
    if method == "compressed-tensors":
        return _compressed(config)
    if method in _OTHERS:
        from roofline.catalog.huggingface.methods import rules_of

        return rules_of(method, config)
    ignored = names_of(config, "modules_to_not_convert", "llm_int8_skip_modules", "ignored_layers")
    if method in ("fp8", "fbgemm_fp8"):
        return Rules(_fp8(config) if method == "fp8" else "fp8", ignored)
    if method == "mxfp4":
        return Rules("mxfp4", ignored, experts_only=True)
    if method == "bitsandbytes":
        return _bitsandbytes(config, ignored)
    if method == "gptq":
        from roofline.catalog.huggingface.methods import with_exceptions

        return with_exceptions(config, Rules(integer(config, "bits"), ignored, head=config.flag("lm_head")))
    return Rules(integer(config, "bits"), ignored, head=config.flag("lm_head"))


def _method(config: Fields) -> str:
    """Method of quantization, by its name or by the tool that wrote the file."""
    method = config.text("quant_method")
    producer = config.section("producer")
    if method is None and (config.has("quant_algo") or (producer and producer.text("name") == "modelopt")):
        method = "modelopt"
    if method is None and (config.has("load_in_4bit") or config.has("load_in_8bit")):
        method = "bitsandbytes"
    normalised = (method or "missing").lower().replace("_", "-").replace("fbgemm-fp8", "fbgemm_fp8")
    if normalised.startswith("modelopt"):
        return "modelopt"
    normalised = {"auto-round": "gptq", "intel/auto-round": "gptq", "awq-marlin": "awq", "gptq-marlin": "gptq"}.get(
        normalised, normalised
    )
    if method is None and config.has("group_size") and config.has("bits"):
        return "mlx"
    if normalised in _CODED:
        raise config.fault(
            "quant_method", f"{method}: not supported; its codes have tables, which only the weights tell"
        )
    if normalised not in (*_METHODS, *_OTHERS):
        known = ", ".join(sorted((*_METHODS, *_OTHERS)))
        raise config.fault("quant_method", f"{method or 'missing'}: not supported; only {known}")
    return normalised


def _fp8(config: Fields) -> str:
    block = config.counts("weight_block_size", least=1)
    if block is not None:
        return "fp8_block"
    return "fp8_static" if config.text("activation_scheme") == "static" else "fp8"


def _bitsandbytes(config: Fields, ignored: Names) -> Rules:
    if config.flag("load_in_8bit"):
        return Rules("int8", ignored)
    if not config.flag("load_in_4bit", default=True):
        return Rules(None, ignored)
    return Rules("int4", ignored, cautions=("bitsandbytes 4-bit weights are counted as int4 with one scale per 128",))


def _modelopt(config: Fields) -> Rules:
    """NVIDIA ModelOpt: one algorithm for all modules except the excluded ones, or one per module."""
    lists_exceptions = config.has("exclude_modules", "ignore")
    ignored = names_of(config, "exclude_modules", "ignore", "modules_to_not_convert")
    algorithm = config.text("quant_algo")
    if algorithm is None:
        inner = config.section("quantization")
        if inner is not None:
            return _modelopt(inner)
        if config.has("config_groups"):
            return _compressed(config)
        raise config.fault("quant_algo", "missing")
    modules = config.section("quantized_layers")
    if algorithm.upper() != "MIXED_PRECISION":
        return Rules(_algorithm(config, "quant_algo", algorithm), ignored, head=lists_exceptions)
    if modules is None:
        raise config.fault("quantized_layers", "missing; quant_algo MIXED_PRECISION needs it")
    by_format: dict[str, list[str]] = {}
    for name in modules.values:
        module = modules.section(name)
        module_algorithm = module.text("quant_algo") if module else None
        stored = _algorithm(modules, f"{name}.quant_algo", module_algorithm or "missing")
        by_format.setdefault(stored, []).append(name)
    named = tuple((Names(tuple(names), modules, "names"), stored) for stored, names in by_format.items())
    return Rules(None, ignored, named)


def _algorithm(config: Fields, field: str, name: str) -> str:
    if name.upper() not in _ALGORITHMS:
        raise config.fault(field, f"{name}: not supported; only {', '.join((*_ALGORITHMS, 'MIXED_PRECISION'))}")
    return _ALGORITHMS[name.upper()]


def _compressed(config: Fields) -> Rules:
    """compressed-tensors: groups of modules, each with its format."""
    ignored = names_of(config, "ignore")
    groups = config.section("config_groups")
    if groups is None:
        raise config.fault("config_groups", "missing")
    if len(groups.values) > _MOST_GROUPS:
        raise config.fault("config_groups", f"{len(groups.values)} groups exceed the limit of {_MOST_GROUPS}")
    default, named = None, []
    for name in groups.values:
        group = groups.section(name)
        if group is None:
            continue
        stored = _group_format(config, group)
        targets = texts(group, "targets")
        if not targets or "Linear" in targets:
            default = stored
        else:
            named.append((Names(targets, group, "targets"), stored))
    return Rules(default, ignored, tuple(named), head=True)


def _group_format(config: Fields, group: Fields) -> str:
    packing = group.text("format") or config.text("format") or ""
    for name in ("nvfp4", "mxfp4"):
        if packing.startswith(name):
            return name
    weights = group.section("weights")
    if weights is None:
        raise group.fault("weights", "missing")
    bits, kind = weights.count("num_bits"), weights.text("type") or "int"
    size = weights.optional("group_size", least=-1)
    if (bits, kind) == (4, "float"):
        return "mxfp4" if size == SMALL_GROUP else "nvfp4"
    if (bits, kind) == (8, "float"):
        if weights.text("strategy") == "block" or weights.has("block_structure"):
            return "fp8_block"
        inputs = group.section("input_activations")
        return "fp8_static" if inputs is not None and not inputs.flag("dynamic", default=True) else "fp8"
    if kind == "int" and bits in BITS:
        return "int4_g32" if bits == 4 and size == SMALL_GROUP else BITS[bits]
    raise weights.fault("num_bits", f"{bits}-bit {kind} weights are not supported")


def _cache(*configs: Fields | None) -> str | None:
    """Format of the KV cache; None where none is stated."""
    sources = (source for config in configs if config for source in (config, config.section("quantization")))
    schemes = (_scheme(source) for source in sources if source is not None)
    return next((scheme for scheme in schemes if scheme is not None), None)


def _scheme(config: Fields) -> str | None:
    name = "kv_cache_scheme" if config.values.get("kv_cache_scheme") else "kv_cache_quant_algo"
    value = config.values.get(name)
    if value is None:
        return None
    if isinstance(value, Mapping):
        scheme = Fields(value, config.where, f"{name}.")
        bits, kind = scheme.count("num_bits", default=8), scheme.text("type") or "float"
        if bits not in (4, 8):
            raise scheme.fault("num_bits", f"{bits} bits: not supported; only 8 and 4")
        return "int8" if kind == "int" else "fp8"
    if not isinstance(value, str) or re.sub(r"\W", "", value.upper()) not in _CACHES:
        raise config.fault(name, f"{value!r:.40} is not supported; only {', '.join(_CACHES)}")
    return _CACHES[re.sub(r"\W", "", value.upper())]
