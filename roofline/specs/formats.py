"""Number formats: bytes per stored value, scales included, and the compute dtypes that can multiply it."""

from __future__ import annotations

import re
from collections.abc import Iterator

from roofline.numbers.quantity import BITS_PER_BYTE, MICRO
from roofline.support.errors import UnknownName, did_you_mean, shown
from roofline.support.records import NamedTuple

#: Dtypes at which weights can be multiplied.
COMPUTE = ("fp32", "bf16", "fp16", "fp8", "int8", "fp4")

#: Dtypes for which a GPU states a dense peak; those not in `COMPUTE` are only shown.
PEAKS = (*COMPUTE, "tf32", "fp6", "int4")

#: Formats of a KV cache.
KV_FORMATS = ("bf16", "fp16", "fp8", "int8")


class Format(NamedTuple):
    """A number format of stored values."""

    name: str
    nbytes: float  # [B] per value, block scales included
    compute: str | None  # dtype at which tensor cores multiply it natively; None: weight-only
    needs: str | None = None  # peak that a GPU must have for that, if not `compute`
    dynamic: bool = False  # activations are quantized at run time, in an extra pass
    also: tuple[str, ...] = ()  # other dtypes that kernels exist for (W4A8)
    kin: str | None = None  # format whose kernels multiply it; None: its own
    is_whole: bool = False  # embedding and head are stored in it too

    @property
    def base(self) -> str:
        """Name without bits per weight (``@4.5bpw``)."""
        return self.name.partition("@")[0]

    @property
    def note(self) -> str:
        """Note for users: bits per weight, and the kernels assumed to multiply it."""
        bits = f"{self.name}: {self.nbytes * BITS_PER_BYTE:.4g} bits per weight"
        scope = ", those of Llama-3.1-8B; a .gguf file says them exactly" if self.name in STORED_BITS else ""
        kin = {"int4": "4-bit integers", "weight_only_8bit": "8-bit weights"}.get(self.kin or "", "16-bit weights")
        return f"{bits}{scope}; multiplied in 16 bits by kernels as of {kin}"


# Bytes per weight: 8-bit formats with per-tensor or per-channel scales count 1 (scales < 0.1 %); fp8
# blocks of 128 x 128 carry an fp32 scale (DeepSeek-V3 report, arXiv:2412.19437, section 3.3); OCP
# Microscaling (MX) v1.0: blocks of 32 with an 8-bit scale; NVFP4: blocks of 16 with an fp8 scale
# (NVIDIA, "Introducing NVFP4", 2025-06); INT4 AWQ/GPTQ: groups of 128, Kimi-K2.5: of 32,
# with a 16-bit scale.
FORMATS: dict[str, Format] = {
    entry.name: entry
    for entry in (
        Format("fp32", 4.0, "bf16"),  # routers kept in fp32 are multiplied at the 16-bit rate
        Format("bf16", 2.0, "bf16"),
        Format("fp16", 2.0, "fp16"),
        Format("fp8", 1.0, "fp8", dynamic=True),
        Format("fp8_static", 1.0, "fp8"),
        Format("fp8_block", 1.0 + 4.0 / (128 * 128), "fp8", dynamic=True),
        Format("int8", 1.0, "int8", dynamic=True),
        Format("int4", 0.5 + 2.0 / 128, None, also=("fp8",)),
        Format("int4_g32", 0.5 + 2.0 / 32, None, also=("fp8",), kin="int4"),
        Format("mxfp4", 0.5 + 1.0 / 32, "fp8", needs="fp4", also=("fp4",)),
        Format("nvfp4", 0.5 + 1.0 / 16, "fp4", dynamic=True),
    )
}


#: llama.cpp mixture -> bits per weight of a whole file of Llama-3.1-8B, embedding and head included; other models
#: differ a little. From the table of tools/quantize/README.md; those missing there from the sizes of Llama-3-8B (8.03 B
#: weights) in tools/quantize/quantize.cpp (https://github.com/ggml-org/llama.cpp).
STORED_BITS: dict[str, float] = {
    "iq1_s": 2.0042, "iq1_m": 2.1460, "iq2_xxs": 2.3824, "iq2_xs": 2.5882, "iq2_s": 2.7403, "iq2_m": 2.9294,
    "iq3_xxs": 3.2548, "iq3_xs": 3.4977, "iq3_s": 3.6606, "iq3_m": 3.7628, "iq4_xs": 4.4597, "iq4_nl": 4.6818,
    "q2_k_s": 2.9697, "q2_k": 3.1593, "q3_k_s": 3.6429, "q3_k_m": 4.0007, "q3_k_l": 4.2979,
    "q4_0": 4.6425, "q4_1": 5.1131, "q4_k_s": 4.6672, "q4_k_m": 4.8944,
    "q5_0": 5.5731, "q5_1": 6.0438, "q5_k_s": 5.5704, "q5_k_m": 5.7036, "q6_k": 6.5633, "q8_0": 8.5008,
}  # fmt: skip

_GGUF_ALIASES = {"q3_k": "q3_k_m", "q4_k": "q4_k_m", "q5_k": "q5_k_m", "q8": "q8_0"}  # as in llama-quantize
_BITS = r"(?a:(?:([a-z0-9_]+)@)?(\d{1,3}(?:\.\d{1,6})?)_?bpw)"
_FEWEST_BITS, _MOST_BITS = 1.0, 32.0
# Below this many bits per weight, 4-bit and 8-bit kernels stand in for storage-only formats; above, 16-bit ones.
_NARROW, _HALF = 6.25, 12.0

#: The GPU's 16-bit compute dtype, whichever it has ("a16").
SIXTEEN_BIT = "16-bit"

#: Spelling -> format: vLLM and SGLang (`--quantization`, `--kv-cache-dtype`), llm-compressor schemes, ModelOpt and
#: TensorRT-LLM algorithms. AWQ, GPTQ and Marlin checkpoints are 4-bit integers in groups of 128 with 16-bit compute;
#: W8A8 is INT8 unless it says FP8.
SPELLINGS = {
    **dict.fromkeys(("bfloat16", "w16a16"), "bf16"),
    **dict.fromkeys(("float16", "half"), "fp16"),
    **dict.fromkeys(("float32", "float"), "fp32"),
    **dict.fromkeys(("fp8_e4m3", "fp8_e4m3fn", "fp8_e5m2", "fp8_inc", "fp8_dynamic", "float8"), "fp8"),
    **dict.fromkeys(("w8a8_fp8", "ptpc_fp8", "fbgemm_fp8", "fp8_per_channel_per_token"), "fp8"),
    **dict.fromkeys(("modelopt", "modelopt_fp8", "w8a8_fp8_static"), "fp8_static"),
    **dict.fromkeys(("fp8_block_scales", "fp8_blockwise", "block_fp8", "deepgemm_fp8"), "fp8_block"),
    **dict.fromkeys(("w8a8", "w8a8_int8", "int8_w8a8", "int8_dynamic"), "int8"),
    **dict.fromkeys(("awq", "awq_marlin", "gptq", "gptq_marlin", "marlin", "int4_awq", "int4_gptq"), "int4"),
    **dict.fromkeys(("awq_int4", "gptq_int4", "w4a16", "w4a16_awq", "w4a16_gptq"), "int4"),
    **dict.fromkeys(("modelopt_fp4", "nvfp4_awq"), "nvfp4"),
}  # fmt: skip

#: Spelling -> format and compute dtype.
_WITH_COMPUTE = {
    **dict.fromkeys(("w8a16", "w8a16_int8", "w8a16_gptq", "int8_wo", "int8_weight_only"), ("int8", SIXTEEN_BIT)),
    **dict.fromkeys(("w4afp8", "w4a8_fp8", "w4a8_awq"), ("int4", "fp8")),
    "w4a16_mxfp4": ("mxfp4", SIXTEEN_BIT),
}

#: Vendor -> what "fp4" means on its tensor cores.
_FOUR_BITS = {"nvidia": "nvfp4", "amd": "mxfp4"}

_CONTAINER = (
    "names a kind of checkpoint, not a number format; say which one it holds, such as fp8, int8, w4a16 or nvfp4"
)
_INT8_ACTIVATIONS = "multiplies int4 weights with int8 activations, for which no kernel is modelled; w4afp8 (fp8 "
_INT8_ACTIVATIONS += "activations) and w4a16 are"
_BITSANDBYTES = "dequantises with kernels of bitsandbytes, which are not modelled; int4 is nearest in size"
_FEW_BITS = "has no kernels here; int4 is the narrowest integer format"

#: Spelling -> why it is not supported, and the nearest format.
_NO_FORMAT = {
    **dict.fromkeys(("compressed_tensors", "quark", "torchao", "auto_round", "inc", "gguf", "modelslim"), _CONTAINER),
    **dict.fromkeys(("w4a8", "w4a8_int8", "qoq", "qserve", "qqq"), _INT8_ACTIVATIONS),
    **dict.fromkeys(("bitsandbytes", "bnb", "nf4", "qlora"), _BITSANDBYTES),
    **dict.fromkeys(("int2", "int3", "w2a16", "w3a16", "aqlm", "hqq"), _FEW_BITS),
    "experts_int8": "quantises the experts alone, to int8 with 16-bit compute; w8a16 is nearest",
    "moe_wna16": "leaves the number of bits open; write w4a16 or w8a16",
    "int8_sq": "has static scales; int8, whose scales are computed on the fly, is nearest",
    "int4_wo": "has one scale a channel; int4, with one for 128 weights, is nearest",
    "w4a4": "may be either 4-bit float; write nvfp4 or mxfp4",
    **dict.fromkeys(("mxfp8", "modelopt_mxfp8"), "has no kernels here; fp8_block is nearest"),
    **dict.fromkeys(("fp6", "mxfp6"), "has no kernels here; fp8 and mxfp4 are nearest"),
    **dict.fromkeys(("nvfp4a16", "petit_nvfp4"), "is nvfp4 with 16-bit compute; write nvfp4 and `compute` bf16"),
}


class Spelling(NamedTuple):
    """What a spelling of a number format stands for."""

    format: str  # key of `FORMATS`, or bits per weight as `number_format` reads them
    compute: str | None = None  # compute dtype that the spelling states; `SIXTEEN_BIT` for bf16 or fp16


def spelling(name: object, vendor: str | None = None) -> Spelling | None:
    """Format and compute dtype of any engine's spelling; None if unknown.

    UnknownName where the format is known but not modelled, or is fp4 and `vendor` None.

    >>> spelling("AWQ"), spelling("w8a16").compute, spelling("fp4", "amd").format
    (Spelling(format='int4', compute=None), '16-bit', 'mxfp4')
    """
    folded = _folded(name)
    if folded in FORMATS:
        return Spelling(folded)
    storage = _storage_format(folded)
    if storage is not None:
        return Spelling(storage.name)
    if folded == "fp4":
        brand = vendor.lower() if vendor else None
        if brand not in _FOUR_BITS:
            problem = "depends on the vendor" if vendor is None else f"is not a format of {shown(vendor)} GPUs"
            raise UnknownName(f"fp4 {problem}: write nvfp4 (NVIDIA) or mxfp4 (AMD, OCP Microscaling)")
        return Spelling(_FOUR_BITS[brand])
    if folded in _NO_FORMAT:
        raise UnknownName(f"{shown(name)} {_NO_FORMAT[folded]}")
    if folded in _WITH_COMPUTE:
        return Spelling(*_WITH_COMPUTE[folded])
    return Spelling(SPELLINGS[folded]) if folded in SPELLINGS else None


def is_format(name: str) -> bool:
    """Whether a word spells a number format, supported or refused.

    >>> is_format("gptq"), is_format("tp4")
    (True, False)
    """
    folded = _folded(name)
    if folded == "fp4" or _storage_format(folded) is not None:
        return True
    return any(folded in words for words in (FORMATS, SPELLINGS, _WITH_COMPUTE, _NO_FORMAT))


def number_format(name: str, vendor: str | None = None) -> Format:
    """The format; UnknownName if there is none, or if the spelling states a compute dtype too.

    >>> number_format("nvfp4").nbytes
    0.5625
    """
    if not isinstance(name, str):
        raise UnknownName(f"{shown(name)} is not the name of a number format")
    if name in FORMATS:
        return FORMATS[name]
    known = spelling(name, vendor)
    if known is None:
        from difflib import get_close_matches

        near = did_you_mean(get_close_matches(_folded(name), FORMATS, 3, 0.3))
        raise UnknownName(f"unknown number format {shown(name)}{near} (all: {', '.join(FORMATS)})")
    if known.compute is not None:
        compute = "bf16" if known.compute == SIXTEEN_BIT else known.compute
        raise UnknownName(
            f"{shown(name)} states weights and compute; write `weights` {known.format}, `compute` {compute}, "
            f"or `quantization` {_folded(name)}"
        )
    return _storage_format(known.format) or FORMATS[known.format]


def at_bits(name: str, bits: float) -> str:
    """Name of a format with a checkpoint's bits per weight, unless they are the format's own.

    >>> at_bits("nvfp4", 4.531), at_bits("bf16", 16.0), number_format("nvfp4@4.531bpw").compute
    ('nvfp4@4.531bpw', 'bf16', 'fp4')
    """
    if name not in FORMATS:
        return f"{_digits(bits)}bpw"
    nominal = FORMATS[name].nbytes * BITS_PER_BYTE
    return name if abs(bits / nominal - 1.0) < _SAME_BITS else f"{name}@{_digits(bits)}bpw"


def _digits(bits: float) -> str:
    return f"{min(max(bits, 0.01), 999.0):.5f}".rstrip("0").rstrip(".")


def format_symbol(name: str) -> str:
    """A format's name as an identifier.

    >>> format_symbol("nvfp4@4.531bpw"), format_symbol("fp8")
    ('nvfp4_4_531bpw', 'fp8')
    """
    return re.sub(r"\W", "_", name)


_SAME_BITS = 10 * MICRO  # relative difference in bits that no figure shows


def _storage_format(folded: str) -> Format | None:
    """A format that states its bits per weight: a llama.cpp mixture, or ``...bpw``."""
    name = _GGUF_ALIASES.get(folded, folded)
    if name in STORED_BITS:
        return _format_of_bits(name, STORED_BITS[name])
    match = re.fullmatch(_BITS, folded)
    if match is None or not float(match[2]):
        return None
    if match[1] is None:
        if not _FEWEST_BITS <= float(match[2]) <= _MOST_BITS:
            return None
        return _format_of_bits(folded.replace("_", ""), float(match[2]))
    base = FORMATS.get(match[1])
    if base is None:
        return None
    return base._replace(name=folded, nbytes=float(match[2]) / BITS_PER_BYTE, kin=base.kin or base.name)


def _format_of_bits(name: str, bits: float) -> Format:
    """Weights stored in `bits` and multiplied in 16."""
    kin = "int4" if bits < _NARROW else "weight_only_8bit" if bits < _HALF else "bf16"
    return Format(name, bits / BITS_PER_BYTE, None, kin=kin, is_whole=True)


def _folded(name: object) -> str:
    return name.strip().lower().replace("-", "_") if isinstance(name, str) else ""


# Base model and number format in the name of a quantized checkpoint.

# The file that llama.cpp's `-hf` loads by default (https://github.com/ggml-org/llama.cpp, tools/server/README.md).
_DEFAULT_GGUF = "q4_k_m"
_MLX_OVERHEAD = 0.5  # [bit] per weight: a 16-bit scale and a 16-bit bias per 64 weights (mlx.core.quantize)
_VENDORS = {"nvidia": "nvfp4", "amd": "mxfp4"}
_EIGHT_BITS = {"dynamic": "fp8", "static": "fp8_static", "block": "fp8_block"}
# Words about a format that do not name one: method, tool, cache.
_QUALIFIERS = (
    r"(?a:dynamic|static|block|kv|preview|marlin|qat|quantized|g\d{2,3}|h\d|exl[23]|mlx|autoround|i1|ud|unsloth|gs\d+"
    r"|awq|gptq|gguf|bnb|\dbit|\d{1,2}(?:\.\d{1,3})?bpw)"
)
_PLAIN = r"nvfp4|mxfp4|mxfp8|fp4|fp8|int4|int8|w4a16|w8a16|w8a8|w4afp8|bf16|fp16|" + "|".join(
    sorted(STORED_BITS, key=len)[::-1]
)
_BIT_WIDTH = r"(?a:(\d)bit)"
_SEAM = r"[-:]|(?<=quantized)\."
_FLAVOUR = r"(?a:-(?:instruct|it|chat|base|thinking|hf)(?=-|$)|-\d{4}(?:\d\d)?$)"
_EDITION, _EDITED = r"(?a:v\d)", 2  # of the quantization, behind its format; parts of a name that are left
_LONGEST = 200  # characters of a name


class FormatInName(NamedTuple):
    base: str  # the name without its format
    preset: str  # number format as `--quantization` takes it
    assumed: bool = False  # the name says GGUF without a mixture


def format_in_name(name: str) -> FormatInName | None:
    """The number format in a Hugging Face id, folder or file name, as publishers write it; None if it names none.

    >>> format_in_name("RedHatAI/Llama-3.3-70B-Instruct-FP8-dynamic")
    FormatInName(base='RedHatAI/Llama-3.3-70B-Instruct', preset='fp8', assumed=False)
    >>> format_in_name("unsloth/Qwen3-8B-GGUF:Q5_K_M").preset, format_in_name("Qwen/Qwen3-8B")
    ('q5_k_m', None)
    """
    name = name.strip().removesuffix(".gguf")
    owner, slash, last = name[:_LONGEST].rpartition("/")
    parts = re.split(_SEAM, last)
    words: list[str] = []
    if len(parts) > _EDITED and re.fullmatch(_EDITION, parts[-1].lower()) and _is_about_formats(parts[-2].lower()):
        parts.pop()
    while len(parts) > 1 and _is_about_formats(parts[-1].lower()):
        words.append(parts.pop().lower())
    preset = _preset(frozenset(words), owner.lower()) if words else None
    if preset is None:
        return None
    is_assumed = preset == _DEFAULT_GGUF and _DEFAULT_GGUF not in words
    return FormatInName(owner + slash + last[: _prefix_length(last, len(parts))], preset, is_assumed)


def base_names(name: str) -> Iterator[str]:
    """Lower-case candidates for the base model's name: as given, then without flavour, date and "meta-".

    Fine-tuning changes no shape: instruct, chat and dated editions count alike.

    >>> list(base_names("RedHatAI/Meta-Llama-3-8B-Instruct"))
    ['meta-llama-3-8b-instruct', 'meta-llama-3-8b', 'llama-3-8b']
    """
    last = name.rpartition("/")[2].lower()
    yield last
    plain = last
    while (shorter := re.sub(_FLAVOUR, "", plain, count=1)) != plain:
        plain = shorter
        yield plain
    if plain.startswith("meta-"):
        yield plain.removeprefix("meta-")


def _is_about_formats(word: str) -> bool:
    return re.fullmatch(_PLAIN, word) is not None or re.fullmatch(_QUALIFIERS, word) is not None


def _prefix_length(last: str, parts: int) -> int:
    """Characters of the first `parts` parts of a name."""
    seams = [seam.start() for seam in re.finditer(_SEAM, last)]
    return seams[parts - 1] if parts <= len(seams) else len(last)


def _preset(words: frozenset[str], owner: str) -> str | None:
    """The number format that the words name together."""
    for word in words:
        if word in STORED_BITS or word.endswith("bpw"):
            return word
    bits = next((int(match[1]) for word in words if (match := re.fullmatch(_BIT_WIDTH, word))), None)
    if "bnb" in words:
        return "bitsandbytes"
    if "fp8" in words:
        return next((name for word, name in _EIGHT_BITS.items() if word in words), "fp8")
    if "mxfp8" in words:  # 8 bits with a scale for each block, as DeepSeek's
        return "fp8_block"
    if "fp4" in words:
        return _VENDORS.get(owner, "fp4")
    if words & {"gptq", "awq", "autoround"}:
        return "w8a16" if bits == 8 or "int8" in words else "int4"
    plain = next((word for word in sorted(words) if re.fullmatch(_PLAIN, word)), None)
    if plain is not None:
        return plain
    if bits is not None and ("mlx" in words or owner == "mlx-community"):
        return f"{bits + _MLX_OVERHEAD:g}bpw"
    return _DEFAULT_GGUF if "gguf" in words else None
