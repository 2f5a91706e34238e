"""What a lever costs in answer quality, according to public evaluations."""

from __future__ import annotations

from roofline.specs.formats import FORMATS

#: For levers that change neither model nor formats.
SAME_ANSWERS = "the same answers"
#: For speculation with exact verification.
VERIFIED = "lossless: every draft is verified exactly (Leviathan et al., arXiv 2211.17192); relaxed acceptance is not"
#: For everything else.
CHECK = "check on your own data"

_AND = " + "  # joins the notes of combined levers
_FREE = (SAME_ANSWERS, VERIFIED)
_HALF = 0.75  # size of a value that separates 4-bit from 8-bit formats [B]
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
        name: of the format.

    Returns:
        A phrase with its source.

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
        name: of the format.

    Returns:
        A phrase with its source.

    Source:
        SGLang documentation, "Quantized KV Cache": throughput gains, "may introduce minimal accuracy degradation".
    """
    return f"{name} KV cache: little is lost as a rule ({_KV}); {CHECK}"


def is_free(quality: str) -> bool:
    """Whether a lever is known to cost no quality."""
    return all(part in _FREE for part in quality.split(_AND))


def both_qualities(*qualities: str) -> str:
    """The quality notes of several levers, each once.

    >>> both_qualities(SAME_ANSWERS, "fp8 KV cache", SAME_ANSWERS)
    'fp8 KV cache'
    """
    parts = dict.fromkeys(part for quality in qualities for part in quality.split(_AND) if part != SAME_ANSWERS)
    return _AND.join(parts) or SAME_ANSWERS
