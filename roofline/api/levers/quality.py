"""What a lever costs in the quality of answers, as far as public evaluations say."""

from __future__ import annotations

from roofline.specs.formats import FORMATS

__all__ = ["CHECK", "SAME_ANSWERS", "VERIFIED", "both_qualities", "cache_quality", "is_free", "weights_quality"]

#: Of levers that leave model and formats alone.
SAME_ANSWERS = "the same answers"
#: Of speculation whose drafts are verified exactly.
VERIFIED = "lossless: every draft is verified exactly (Leviathan et al., arXiv 2211.17192); relaxed acceptance is not"
#: Where nothing general is known.
CHECK = "check on your own data"

_AND = " + "  # between what is said of levers that are pulled together
_FREE = (SAME_ANSWERS, VERIFIED)
_STUDY = "Kurtic et al., arXiv 2411.02355"
_CARD = "huggingface.co/nvidia/DeepSeek-R1-FP4"
_KV = "docs.sglang.io/advanced_features/quantized_kv_cache.html"
_EIGHT = {
    "fp8": f"fp8 weights and activations: effectively lossless on Llama 3.1 8B to 405B ({_STUDY})",
    "int8": f"int8 weights and activations: 1-3 % lower scores on Llama 3.1, well tuned ({_STUDY})",
}
_FOUR = {
    "nvfp4": f"nvfp4: 0 to 1.2 points lower than fp8 on five benchmarks of DeepSeek-R1 ({_CARD}); {CHECK}",
    "int4": f"int4 weights: close to 8 bits on Llama 3.1 ({_STUDY}); {CHECK}",
}


def weights_quality(name: str) -> str:
    """What a number format of the weights costs in quality.

    Args:
        name: of the format [text].

    Returns:
        A phrase with its source [text].

    Source:
        Kurtic et al., "Give Me BF16 or Give Me Death?", arXiv 2411.02355, abstract; NVIDIA's model card of
        DeepSeek-R1-FP4, evaluation (MMLU 90.8 to 90.7, GSM8K 96.3 to 96.1, AIME 2024 80.0 to 80.0, GPQA Diamond 69.7
        to 69.2, MATH-500 95.4 to 94.2).

    >>> weights_quality("mxfp4")
    'mxfp4 weights: check on your own data'
    """
    kind = FORMATS[name].compute if FORMATS[name].nbytes > _HALF else None
    known = _EIGHT.get(kind or "") if kind is not None else _FOUR.get(FORMATS[name].kin or name)
    return f"{name} weights: {CHECK}" if known is None else known


def cache_quality(name: str) -> str:
    """What a number format of the KV cache costs in quality.

    Args:
        name: of the format [text].

    Returns:
        A phrase with its source [text].

    Source:
        SGLang documentation, "Quantized KV Cache": throughput gains, "may introduce minimal accuracy degradation".
    """
    return f"{name} KV cache: little is lost as a rule ({_KV}); {CHECK}"


def is_free(quality: str) -> bool:
    """Whether a lever is known to cost nothing in quality.

    Args:
        quality: what is said of it [text].

    Returns:
        Whether answers stay what they are [bool].
    """
    return all(part in _FREE for part in quality.split(_AND))


def both_qualities(*qualities: str) -> str:
    """What several levers cost in the quality of answers.

    Args:
        qualities: what is said of each [text].

    Returns:
        All that is to be said, each once [text].

    >>> both_qualities(SAME_ANSWERS, "fp8 KV cache", SAME_ANSWERS)
    'fp8 KV cache'
    """
    said = dict.fromkeys(part for quality in qualities for part in quality.split(_AND) if part != SAME_ANSWERS)
    return _AND.join(said) or SAME_ANSWERS


_HALF = 0.75  # [B] per value, which tells 4-bit formats from 8-bit ones
