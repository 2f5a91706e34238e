"""Base model and number format in the name of a quantized checkpoint."""

from __future__ import annotations

import re
from collections.abc import Iterator

from roofline.records import NamedTuple
from roofline.specs.formats import STORED_BITS

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
_PLAIN = r"nvfp4|mxfp4|fp4|fp8|int4|int8|w4a16|w8a16|w8a8|w4afp8|bf16|fp16|" + "|".join(
    sorted(STORED_BITS, key=len)[::-1]
)
_BITS = r"(?a:(\d)bit)"
_SEAM = r"[-:]|(?<=quantized)\."
_FLAVOUR = r"(?a:-(?:instruct|it|chat|base|thinking|hf)(?=-|$)|-\d{4}(?:\d\d)?$)"
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
    bits = next((int(match[1]) for word in words if (match := re.fullmatch(_BITS, word))), None)
    if "bnb" in words:
        return "bitsandbytes"
    if "fp8" in words:
        return next((name for word, name in _EIGHT_BITS.items() if word in words), "fp8")
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
