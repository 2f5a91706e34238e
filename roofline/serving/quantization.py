"""From a preset and overrides (weights, KV cache, compute) to the scheme of every section of a model."""

from __future__ import annotations

from roofline.physics.plan import ModelQuantization, Scheme
from roofline.specs.formats import COMPUTE, FORMATS, KV_FORMATS, SIXTEEN_BIT, Format, Spelling, number_format, spelling
from roofline.specs.gpu import Gpu
from roofline.specs.model import Model
from roofline.support.errors import BadInput, UnknownName, UnsupportedPrecision, check_known, did_you_mean, shown

#: Preset -> (weight format of the quantized sections, KV format or None for the checkpoint's own). FP8 and NVFP4
#: checkpoints are commonly served with an FP8 KV cache (TensorRT-LLM's recipes); block-scaled FP8, INT8, INT4 and MXFP4
#: ones are not.
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

#: Choices that keep the checkpoint's formats of weights and of the KV cache.
NATIVE, AUTO = "native", "auto"
#: KV cache format of the preset, else the checkpoint's own.
AS_QUANTIZATION = "as quantization"

_SIXTEEN = ("bf16", "fp16")
#: Sections of a model; those that presets quantize.
SECTIONS = ("linear", "attention", "shared", "experts", "embed", "head", "router", "norm")
MATRICES = ("linear", "attention", "shared", "experts")
_ACTIVATION_NBYTES = {"fp8": 1.0, "int8": 1.0, "fp4": 0.5 + 1.0 / 16}
_FP8_FAMILY = frozenset({"fp8", "fp8_static", "fp8_block"})


def resolved_quantization(
    model: Model,
    gpu: Gpu,
    quantization: str | None = None,
    weights: str | None = None,
    kv_cache_dtype: str | None = None,
    compute: str | None = None,
) -> ModelQuantization:
    """How every section of a model is stored and multiplied on a GPU, with notes on what was set or replaced.

    By default the checkpoint's own formats. A preset replaces the formats of the sections that the checkpoint
    quantizes (of linear layers and experts, if it quantizes none) and may set the KV format; `weights`,
    `kv_cache_dtype` and `compute` override it one by one.
    """
    if _is_auto(weights):
        weights = None
    name_preset = None if model.preset is None or (quantization is None and weights is None) else model.preset
    if quantization is None and weights is None:
        quantization = model.preset
    if _is_auto(kv_cache_dtype):
        kv_cache_dtype = model.native["kv"]
    sixteen_bit = sixteen_bit_dtype(gpu)
    preset_weights, preset_kv, compute = _preset(quantization, compute, gpu)
    chosen = preset_weights if weights is None else weights
    notes: list[str] = []
    formats = {section: number_format(model.native[section]) for section in SECTIONS}
    if chosen is not None:
        target = number_format(chosen, gpu.vendor)
        sections = _quantised_sections(model, formats)
        is_fp8 = all(formats[name].base in _FP8_FAMILY for name in sections)
        if weights is None and target.name == "fp8" and is_fp8:
            notes.append(f"the checkpoint is already {formats[sections[0]].base}; its format is kept")
        elif target.is_whole:
            formats.update(dict.fromkeys((*_held_sections(model), "embed", "head"), target))
            notes.append(target.note)
        else:
            formats.update(dict.fromkeys(sections, target))
            if len(sections) < len(_held_sections(model)):
                names = " and ".join(sections)
                notes.append(f"only the {names} are {target.name}, as in the checkpoint")
    required = _compute_dtype(compute, gpu)
    schemes: dict[str, Scheme] = {}
    for section in SECTIONS:
        dtype, is_requested = (required, chosen is not None) if section in MATRICES else (None, False)
        if required is None and section in MATRICES and _is_quark(formats[section], model.native[section], gpu):
            dtype = "fp4"
        schemes[section] = _scheme(formats[section], gpu, sixteen_bit, dtype, is_requested=is_requested, notes=notes)
    _check_compute(required, schemes, model)
    kv = _kv_format((preset_kv or model.native["kv"]) if kv_cache_dtype is None else kv_cache_dtype)
    attention = cache_scheme(kv, gpu)
    if quantization is not None:
        notes.insert(0, _preset_note(quantization, schemes, kv.name, model))
    if name_preset is not None:
        notes.append(f"the name of the model says {name_preset}; what was chosen holds instead")
    notes += _slow_int8(gpu, schemes)
    return ModelQuantization(
        sections=schemes,
        kv_format=kv.name,
        kv_nbytes=kv.nbytes,
        kv_key=attention.key,
        attention_peak=attention.peak,
        sixteen_bit_peak=sixteen_bit,
        notes=tuple(dict.fromkeys(notes)),
    )


def _is_quark(weight: Format, native: str, gpu: Gpu) -> bool:
    """Whether weights are of AMD's checkpoints, which Quark quantizes to MXFP4 with activations (amd/*-MXFP4)."""
    is_chosen = weight.base == "mxfp4" and number_format(native).base != "mxfp4"  # gpt-oss: weights alone
    return is_chosen and gpu.vendor == "AMD" and "fp4" in gpu.peaks


def summary(model: Model, chosen: ModelQuantization) -> tuple[str, str, str]:
    """Weight, KV and compute dtype of the section with most of the parameters."""
    scheme = chosen.sections["experts" if model.is_moe else "linear"]
    return scheme.format, chosen.kv_format, scheme.peak


def scheme(weight: Format, gpu: Gpu, *, asked: bool) -> Scheme:
    """How a weight format is multiplied on a GPU: natively, else weight-only at the 16-bit rate.

    `asked`: chosen by the user, so that UnsupportedPrecision is raised where the GPU cannot multiply natively.
    """
    return _scheme(weight, gpu, sixteen_bit_dtype(gpu), None, is_requested=asked, notes=[])


def cache_scheme(kv: Format, gpu: Gpu) -> Scheme:
    """How attention over a KV cache multiplies: in fp8 over an fp8 cache where the GPU can, else in 16 bits."""
    key = "fp8" if kv.name == "fp8" else "bf16"
    peak = "fp8" if key == "fp8" and "fp8" in gpu.peaks else sixteen_bit_dtype(gpu)
    return Scheme(kv.name, kv.nbytes, 2.0, peak, key)  # queries and outputs are 16-bit


def sixteen_bit_dtype(gpu: Gpu) -> str:
    """The GPU's 16-bit dtype: ``bf16``, else ``fp16``."""
    for dtype in _SIXTEEN:
        if dtype in gpu.peaks:
            return dtype
    raise UnsupportedPrecision(f"{gpu.name} has no 16-bit peak (bf16 or fp16), which every model needs")


def _is_auto(name: object) -> bool:
    return isinstance(name, str) and name.lower() == AUTO


def _preset(name: str | None, compute: str | None, gpu: Gpu) -> tuple[str | None, str | None, str | None]:
    """Weight format, KV format and compute dtype."""
    if name is None or (isinstance(name, str) and name.strip().lower() == NATIVE):
        return None, None, compute
    known = _known_preset(name, gpu.vendor)
    formats = PRESETS.get(known.format, (known.format, None))
    stated = sixteen_bit_dtype(gpu) if known.compute == SIXTEEN_BIT else known.compute
    if stated is not None and isinstance(compute, str) and _folded_dtype(compute) != stated:
        raise BadInput(f"the compute dtype is stated twice: {stated} by {shown(name)}, and compute = {shown(compute)}")
    return *formats, compute if stated is None else stated


def preset_name(name: str) -> str:
    """Key of `PRESETS` for any spelling; UnknownName if it is none, or fixes the compute dtype too."""
    known = _known_preset(name, None)
    if known.compute is not None:
        raise UnknownName(f"{shown(name)} fixes its compute dtype, which cannot be chosen here")
    if known.format not in PRESETS:
        raise UnknownName(f"{shown(name)} says only how weights are stored; choose from {', '.join(PRESETS)} here")
    return known.format


def canonical_preset(name: str | None, vendor: str | None = None) -> str | None:
    """Name of a preset in rows: the key of `PRESETS` where there is one, else the user's spelling in lower case.

    >>> canonical_preset("AWQ"), canonical_preset("W8A16"), canonical_preset("fp4", "nvidia")
    ('int4', 'w8a16', 'nvfp4')
    """
    if name is None:
        return None
    try:
        known = spelling(name, vendor)
    except UnknownName:  # refused where it is used
        known = None
    return name.strip().lower() if known is None or known.compute is not None else known.format


def _known_preset(name: str, vendor: str | None) -> Spelling:
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
    check_known("KV cache format", kv.name if kv.name in KV_FORMATS else name, KV_FORMATS)
    return kv


def _compute_dtype(compute: str | None, gpu: Gpu) -> str | None:
    if compute is None:
        return None
    if not isinstance(compute, str):
        raise UnknownName(f"compute {shown(compute)} must be the name of a dtype")
    folded = _folded_dtype(compute)
    check_known("compute dtype", folded if folded in COMPUTE else compute, COMPUTE)
    if folded not in gpu.peaks:
        raise UnsupportedPrecision(
            f"{gpu.name} has no {folded} tensor cores ({_peaks(gpu)}); "
            "leave out `compute`, or run the weights with `compute` bf16"
        )
    return folded


def _folded_dtype(compute: str) -> str:
    """Key of `COMPUTE`; both 4-bit float formats are multiplied in fp4."""
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
    """Sections that a preset replaces: those that the checkpoint quantizes, or all if it quantizes none."""
    candidates = _held_sections(model)
    return [name for name in candidates if formats[name].base not in (*_SIXTEEN, "fp32")] or candidates


def _scheme(
    weight: Format, gpu: Gpu, sixteen_bit: str, required: str | None, is_requested: bool, notes: list[str]
) -> Scheme:
    if weight.compute in (*_SIXTEEN, None) and required in (None, *_SIXTEEN):
        peak = required or (weight.compute if weight.compute in gpu.peaks else sixteen_bit) or sixteen_bit
        return Scheme(weight.name, weight.nbytes, 2.0, peak, _sixteen_bit_key(weight))
    if required is not None:
        if required in _SIXTEEN:
            return Scheme(weight.name, weight.nbytes, 2.0, required, _weight_only_key(weight))
        if required == weight.compute or required in weight.also:
            return _native(weight, required)
        # `_check_compute` refuses it
        return Scheme(weight.name, weight.nbytes, 2.0, sixteen_bit, _weight_only_key(weight))
    compute = weight.compute or sixteen_bit
    if (weight.needs or compute) in gpu.peaks and compute in gpu.peaks:
        return _native(weight, compute)
    if is_requested and weight.compute is not None and weight.base != "mxfp4":
        raise UnsupportedPrecision(
            f"{gpu.name} has no {compute} tensor cores ({_peaks(gpu)}); "
            f"run {weight.name} weights with `compute` {sixteen_bit} (weight-only)"
        )
    notes.append(f"{weight.name} weights run weight-only on {gpu.name}, at the {sixteen_bit} rate")
    return Scheme(weight.name, weight.nbytes, 2.0, sixteen_bit, _weight_only_key(weight))


def _native(weight: Format, compute: str) -> Scheme:
    name = weight.kin or weight.name
    key = name if compute == weight.compute and weight.needs is None else f"{name}_{compute}"
    return Scheme(weight.name, weight.nbytes, _ACTIVATION_NBYTES[compute], compute, key, weight.dynamic)


def _sixteen_bit_key(weight: Format) -> str:
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
            f"{stored} weights cannot run in {required}; choose `weights` {' or '.join(fit)}, or another `compute`"
        )


def _preset_note(preset: str, schemes: dict[str, Scheme], kv: str, model: Model) -> str:
    scheme = schemes["experts" if model.is_moe else "linear"]
    note = f"`quantization` {preset}: weights {scheme.format}, compute {scheme.peak}, KV cache {kv}"
    if scheme.format == "fp8" and scheme.dynamic:
        return f"{note}; dynamic scales (fp8_static avoids their cost)"
    return note


def _slow_int8(gpu: Gpu, schemes: dict[str, Scheme]) -> list[str]:
    sixteen_bit = sixteen_bit_dtype(gpu)
    if any(scheme.peak == "int8" for scheme in schemes.values()) and gpu.peaks["int8"] < gpu.peaks[sixteen_bit]:
        slower = f"int8 is slower than {sixteen_bit} on {gpu.name}"
        return [f"{slower} beyond about 20 tokens per step: its int8 tensor cores were cut"]
    return []


def _peaks(gpu: Gpu) -> str:
    return ", ".join(dtype for dtype in gpu.peaks if dtype in COMPUTE and dtype != "fp32")
