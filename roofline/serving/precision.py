"""Four choices - weights, KV cache, compute, preset - to the scheme of every section of a model."""

from __future__ import annotations

from roofline.errors import BadInput, UnknownName, UnsupportedPrecision, did_you_mean, shown
from roofline.physics.plan import Precision, Scheme
from roofline.specs.formats import COMPUTE, FORMATS, KV_FORMATS, WIDE, Format, Spelling, number_format, spelling
from roofline.specs.gpu import Gpu
from roofline.specs.model import Model

__all__ = [
    "AS_PRECISION",
    "AUTO",
    "MATRICES",
    "NATIVE",
    "PRESETS",
    "SECTIONS",
    "cache_scheme",
    "canonical_preset",
    "precision",
    "preset_name",
    "scheme",
    "summary",
    "wide_dtype",
]

#: preset -> (weight format of the quantised sections, KV format or None for the checkpoint's own).
#: FP8 and NVFP4 checkpoints are commonly served with an FP8 KV cache (TensorRT-LLM's recipes);
#: block-scaled FP8, INT8, INT4 and MXFP4 ones are not.
PRESETS: dict[str, tuple[str, str | None]] = {
    "bf16": ("bf16", None),
    "fp16": ("fp16", None),
    "fp8": ("fp8", "fp8"),
    "fp8_static": ("fp8_static", "fp8"),
    "fp8_block": ("fp8_block", None),
    "int8": ("int8", None),
    "int4": ("int4", None),
    "mxfp4": ("mxfp4", None),
    "nvfp4": ("nvfp4", "fp8"),
}

#: Choices that leave the formats to the checkpoint: of its weights, of its KV cache.
NATIVE, AUTO = "native", "auto"
#: The KV cache that a preset sets, else the checkpoint's own.
AS_PRECISION = "as precision"

_SIXTEEN = ("bf16", "fp16")
#: Sections of a model, and those of matrices that presets quantise.
SECTIONS = ("linear", "attention", "shared", "experts", "embed", "head", "router", "norm")
MATRICES = ("linear", "attention", "shared", "experts")
_ACTIVATION_NBYTES = {"fp8": 1.0, "int8": 1.0, "fp4": 0.5 + 1.0 / 16}
_FP8_FAMILY = frozenset({"fp8", "fp8_static", "fp8_block"})


def precision(
    model: Model,
    gpu: Gpu,
    quantization: str | None = None,
    weights: str | None = None,
    kv_cache_dtype: str | None = None,
    compute: str | None = None,
) -> Precision:
    """How every section of a model is stored and multiplied on a GPU.

    Without any choice the checkpoint's own formats hold. A preset replaces the formats of the
    sections that the checkpoint quantises (of linear layers and experts, if it quantises none) and
    may set the KV format; `weights`, `kv_cache_dtype` and `compute` override it one by one.

    Args:
        model: the model, with the native formats of its checkpoint.
        gpu: the GPU, with the dtypes of its tensor cores.
        quantization: one of `PRESETS` [text].
        weights: number format of the weights; auto for the preset's or the checkpoint's own [text].
        kv_cache_dtype: number format of the KV cache; auto for the checkpoint's own [text].
        compute: dtype at which weights are multiplied; 16-bit ones make any format weight-only [text].

    Returns:
        The schemes, with notes on what was set or replaced.

    Raises:
        UnknownName: no such preset or format.
        UnsupportedPrecision: the GPU cannot multiply in the requested format.
        BadInput: choices that contradict each other.
    """
    if _is_auto(weights):
        weights = None
    named = None if model.preset is None or (quantization is None and weights is None) else model.preset
    if quantization is None and weights is None:
        quantization = model.preset
    if _is_auto(kv_cache_dtype):
        kv_cache_dtype = model.native["kv"]
    wide = wide_dtype(gpu)
    preset_weights, preset_kv, compute = _preset(quantization, compute, gpu)
    chosen = preset_weights if weights is None else weights
    notes: list[str] = []
    formats = {section: number_format(model.native[section]) for section in SECTIONS}
    if chosen is not None:
        target = number_format(chosen, gpu.vendor)
        sections = _quantised_sections(model, formats)
        kept = weights is None and target.name == "fp8" and all(formats[name].base in _FP8_FAMILY for name in sections)
        if kept:
            notes.append(f"the checkpoint is already {formats[sections[0]].base}; its format is kept")
        elif target.is_whole:
            formats.update(dict.fromkeys((*_held_sections(model), "embed", "head"), target))
            notes.append(target.said)
        else:
            formats.update(dict.fromkeys(sections, target))
            if len(sections) < len(_held_sections(model)):
                named = " and ".join(sections)
                notes.append(f"only the {named} are {target.name}, as in the checkpoint")
    required = _compute_dtype(compute, gpu)
    asked = chosen is not None
    schemes: dict[str, Scheme] = {}
    for section in SECTIONS:
        if section in MATRICES:
            schemes[section] = _scheme(formats[section], gpu, wide, required, asked=asked, notes=notes)
        else:
            schemes[section] = _scheme(formats[section], gpu, wide, None, asked=False, notes=notes)
    _check_compute(required, schemes, model)
    kv = _kv_format((preset_kv or model.native["kv"]) if kv_cache_dtype is None else kv_cache_dtype)
    on_cache = cache_scheme(kv, gpu)
    if quantization is not None:
        notes.insert(0, _said(quantization, schemes, kv.name, model))
    if named is not None:
        notes.append(f"the name of the model says {named}; what was chosen holds instead")
    notes += _slow_int8(gpu, schemes)
    return Precision(
        sections=schemes,
        kv_format=kv.name,
        kv_nbytes=kv.nbytes,
        kv_key=on_cache.key,
        attention_peak=on_cache.peak,
        sixteen_bit_peak=wide,
        notes=tuple(dict.fromkeys(notes)),
    )


def summary(model: Model, chosen: Precision) -> tuple[str, str, str]:
    """Weight, KV and compute dtype of the section that holds most of the parameters.

    Args:
        model: the model.
        chosen: its precision.

    Returns:
        Three names [text].
    """
    scheme = chosen.sections["experts" if model.is_moe else "linear"]
    return scheme.format, chosen.kv_format, scheme.peak


def scheme(weight: Format, gpu: Gpu, *, asked: bool) -> Scheme:
    """How one format of weights is multiplied on a GPU.

    Args:
        weight: the format.
        gpu: the GPU, with the dtypes of its tensor cores.
        asked: whether it was asked for, and is not just what a checkpoint has [bool].

    Returns:
        The scheme: native where the GPU can, else weight-only at the 16-bit rate.

    Raises:
        UnsupportedPrecision: it was asked for, and the GPU cannot multiply in it.
    """
    return _scheme(weight, gpu, wide_dtype(gpu), None, asked=asked, notes=[])


def cache_scheme(kv: Format, gpu: Gpu) -> Scheme:
    """How attention over a KV cache of one format multiplies on a GPU.

    Args:
        kv: the format.
        gpu: the GPU, with the dtypes of its tensor cores.

    Returns:
        The scheme: in fp8 over an fp8 cache where the GPU can, else in 16 bits.

    Raises:
        UnsupportedPrecision: the GPU states no 16-bit peak.
    """
    key = "fp8" if kv.name == "fp8" else "bf16"
    peak = "fp8" if key == "fp8" and "fp8" in gpu.peaks else wide_dtype(gpu)
    return Scheme(kv.name, kv.nbytes, 2.0, peak, key)  # queries and outputs are 16-bit


def wide_dtype(gpu: Gpu) -> str:
    """The 16-bit dtype at which a GPU multiplies what is not quantised.

    Args:
        gpu: the GPU.

    Returns:
        ``bf16``, else ``fp16`` [text].

    Raises:
        UnsupportedPrecision: it states a peak for neither.
    """
    for dtype in _SIXTEEN:
        if dtype in gpu.peaks:
            return dtype
    raise UnsupportedPrecision(f"{gpu.name} has no 16-bit peak (bf16 or fp16), which every model needs")


def _is_auto(name: object) -> bool:
    """Whether a choice is left to the checkpoint, in vLLM's word."""
    return isinstance(name, str) and name.lower() == AUTO


def _preset(name: str | None, compute: str | None, gpu: Gpu) -> tuple[str | None, str | None, str | None]:
    """Weights and KV format of a preset, and the compute dtype of either."""
    if name is None or (isinstance(name, str) and name.strip().lower() == NATIVE):
        return None, None, compute
    known = _known_preset(name, gpu.vendor)
    usual = PRESETS.get(known.format, (known.format, None))
    stated = wide_dtype(gpu) if known.compute == WIDE else known.compute
    if stated is not None and isinstance(compute, str) and _folded_dtype(compute) != stated:
        raise BadInput(f"the compute dtype is stated twice: {stated} by {shown(name)}, and compute = {shown(compute)}")
    return *usual, compute if stated is None else stated


def preset_name(name: str) -> str:
    """Name of a preset as `PRESETS` has it.

    Args:
        name: any spelling [text].

    Returns:
        The name [text].

    Raises:
        UnknownName: no such preset, or one that states the compute dtype as well.
    """
    known = _known_preset(name, None)
    if known.compute is not None:
        raise UnknownName(f"{shown(name)} fixes its compute dtype, which cannot be chosen here")
    if known.format not in PRESETS:
        raise UnknownName(f"{shown(name)} says only how weights are stored; choose from {', '.join(PRESETS)} here")
    return known.format


def canonical_preset(name: str | None, vendor: str | None = None) -> str | None:
    """Name of a preset in rows: as `PRESETS` has it, else as it is spelt.

    Args:
        name: any spelling; None for the checkpoint's own formats [text].
        vendor: of the GPU, which decides what fp4 is; None where it is open [text].

    Returns:
        The name [text].

    >>> canonical_preset("AWQ"), canonical_preset("W8A16"), canonical_preset("fp4", "nvidia")
    ('int4', 'w8a16', 'nvfp4')
    """
    if name is None:
        return None
    try:
        known = spelling(name, vendor)
    except UnknownName:  # refused, or open, where it is used
        known = None
    return name.strip().lower() if known is None or known.compute is not None else known.format


def _known_preset(name: str, vendor: str | None) -> Spelling:
    """What the spelling of a preset stands for."""
    if not isinstance(name, str):
        raise UnknownName(f"quantization {shown(name)} must be the name of a preset")
    known = spelling(name, vendor)
    if known is None or (known.format not in PRESETS and not number_format(known.format).is_whole):
        from difflib import get_close_matches

        near = did_you_mean(get_close_matches(name.strip().lower(), PRESETS, 3, 0.3))
        listed = f"{', '.join(PRESETS)}; q4_k_m and the like; bits per weight as 4.9bpw"
        raise UnknownName(f"unknown quantization preset {shown(name)}{near} (known: {listed})")
    return known


def _kv_format(name: str) -> Format:
    kv = number_format(name)
    if kv.name not in KV_FORMATS:
        raise UnknownName(f"unknown KV cache format {shown(name)}; choose from {', '.join(KV_FORMATS)}")
    return kv


def _compute_dtype(compute: str | None, gpu: Gpu) -> str | None:
    if compute is None:
        return None
    if not isinstance(compute, str):
        raise UnknownName(f"compute {shown(compute)} must be the name of a dtype")
    folded = _folded_dtype(compute)
    if folded not in COMPUTE:
        raise UnknownName(f"unknown compute dtype {shown(compute)}; choose from {', '.join(COMPUTE)}")
    if folded not in gpu.peaks:
        raise UnsupportedPrecision(
            f"{gpu.name} has no {folded} tensor cores ({_peaks(gpu)}); "
            "leave out --compute, or run the weights with --compute bf16"
        )
    return folded


def _folded_dtype(compute: str) -> str:
    """A compute dtype as `COMPUTE` has it: fp4 is what either 4-bit float is multiplied in."""
    folded = compute.strip().lower()
    try:
        known = spelling(folded) if folded != "fp4" else None
    except UnknownName:
        known = None
    dtype = folded if known is None or known.compute is not None else known.format
    return "fp4" if dtype in ("nvfp4", "mxfp4") else dtype


def _held_sections(model: Model) -> list[str]:
    """Sections of matrices that a model has."""
    return list(MATRICES) if model.is_moe else ["linear", "attention"]


def _quantised_sections(model: Model, formats: dict[str, Format]) -> list[str]:
    """Sections that a preset replaces: those the checkpoint quantises, or all if it quantises none."""
    candidates = _held_sections(model)
    return [name for name in candidates if formats[name].base not in (*_SIXTEEN, "fp32")] or candidates


def _scheme(weight: Format, gpu: Gpu, wide: str, required: str | None, asked: bool, notes: list[str]) -> Scheme:
    """How one format is multiplied: natively where the GPU can, else weight-only at the 16-bit rate."""
    if weight.compute in (*_SIXTEEN, None) and required in (None, *_SIXTEEN):
        peak = required or (weight.compute if weight.compute in gpu.peaks else wide) or wide
        return Scheme(weight.name, weight.nbytes, 2.0, peak, _wide_key(weight))
    if required is not None:
        if required in _SIXTEEN:
            return Scheme(weight.name, weight.nbytes, 2.0, required, _weight_only_key(weight))
        if required == weight.compute or required in weight.also:
            return _native(weight, required)
        return Scheme(weight.name, weight.nbytes, 2.0, wide, _weight_only_key(weight))  # judged by _check_compute
    compute = weight.compute or wide
    if (weight.needs or compute) in gpu.peaks and compute in gpu.peaks:
        return _native(weight, compute)
    if asked and weight.compute is not None and weight.base != "mxfp4":
        raise UnsupportedPrecision(
            f"{gpu.name} has no {compute} tensor cores ({_peaks(gpu)}); "
            f"run {weight.name} weights with --compute {wide} (weight-only)"
        )
    notes.append(f"{weight.name} weights run weight-only on {gpu.name}, at the {wide} rate")
    return Scheme(weight.name, weight.nbytes, 2.0, wide, _weight_only_key(weight))


def _native(weight: Format, compute: str) -> Scheme:
    name = weight.kin or weight.name
    key = name if compute == weight.compute and weight.needs is None else f"{name}_{compute}"
    return Scheme(weight.name, weight.nbytes, _ACTIVATION_NBYTES[compute], compute, key, weight.dynamic)


def _wide_key(weight: Format) -> str:
    return (weight.kin or weight.name) if weight.compute is None else "bf16"


def _weight_only_key(weight: Format) -> str:
    if weight.compute is None or weight.base == "mxfp4":
        return weight.kin or weight.name
    return "weight_only_8bit" if weight.nbytes >= 1.0 else "weight_only_4bit"


def _check_compute(required: str | None, schemes: dict[str, Scheme], model: Model) -> None:
    if required is None or required in _SIXTEEN:
        return
    sections = _held_sections(model)
    if not any(schemes[name].peak == required for name in sections):
        stored = schemes[sections[-1]].format
        fit = [name for name, entry in FORMATS.items() if required == entry.compute or required in entry.also]
        raise BadInput(
            f"{stored} weights cannot run in {required}; choose --weights {' or '.join(fit)}, or another --compute"
        )


def _said(preset: str, schemes: dict[str, Scheme], kv: str, model: Model) -> str:
    scheme = schemes["experts" if model.is_moe else "linear"]
    said = f"--quantization {preset}: weights {scheme.format}, compute {scheme.peak}, KV cache {kv}"
    if scheme.format == "fp8" and scheme.dynamic:
        return f"{said}; dynamic scales (fp8_static avoids their cost)"
    return said


def _slow_int8(gpu: Gpu, schemes: dict[str, Scheme]) -> list[str]:
    wide = wide_dtype(gpu)
    if any(scheme.peak == "int8" for scheme in schemes.values()) and gpu.peaks["int8"] < gpu.peaks[wide]:
        return [
            f"int8 is slower than {wide} on {gpu.name} beyond about 20 tokens per step: its int8 tensor cores were cut"
        ]
    return []


def _peaks(gpu: Gpu) -> str:
    return ", ".join(dtype for dtype in gpu.peaks if dtype in COMPUTE and dtype != "fp32")
