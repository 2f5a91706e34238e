"""Options written as texts, with the same grammar and parsers as in the shell."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from roofline.api.inputs.arguments import name_or_record, scalar, scalars, several
from roofline.errors import BadInput, shown
from roofline.grammar.lengths import lengths_of_text
from roofline.grammar.measured import measured_of_text
from roofline.grammar.numbers import (
    PromptShare,
    number_of_text,
    numbers_of_text,
    prefix_of_text,
    prefixes_of_text,
    share_of_text,
    time_of_text,
    whole_of_text,
    wholes_of_text,
    words_of_text,
)
from roofline.grammar.pools import Pool
from roofline.grammar.prices import api_price_of_text, price_of_text
from roofline.quantity import from_text
from roofline.serving.lengths import LAWS

__all__ = [
    "PromptShare",
    "all_values",
    "api_price_of_text",
    "is_file",
    "lengths_of_text",
    "listed_names",
    "measured_of_text",
    "number_of_text",
    "numbers_of_text",
    "plain_counts",
    "plain_options",
    "plain_value",
    "prefix_of_text",
    "prefixes_of_text",
    "price_of_text",
    "share_of_text",
    "time_of_text",
    "tokens_of_prefix",
    "whole_of_text",
    "wholes_of_text",
    "words_of_text",
]

#: Parser of each option.
_ONE: dict[str, Callable[[str], Any]] = {
    **dict.fromkeys(("isl", "osl", "batch", "tp", "pp", "ep", "dp", "num_gpus", "spare", "requests"), whole_of_text),
    **dict.fromkeys(("max_num_batched_tokens", "max_num_seqs", "max_model_len"), whole_of_text),
    **dict.fromkeys(("concurrency", "request_rate", "num_prompts"), number_of_text),
    **dict.fromkeys(("isl_cv", "osl_cv", "gpu_memory_utilization", "share", "spread", "cache_hit"), share_of_text),
    "cache_size": partial(from_text, dimension="B"),
    "cache_bandwidth": partial(from_text, dimension="B/s"),
    **dict.fromkeys(("network", "ttft", "tpot", "e2el"), partial(time_of_text, needs_unit=True)),
    "prefix": prefix_of_text,
    "measured": measured_of_text,
    "gpu_price": price_of_text,
}

#: Parser of each option that takes several values.
_MANY: dict[str, Callable[[str], list[Any]]] = {
    **dict.fromkeys(("isl", "osl", "batch", "tp", "pp", "ep", "dp", "num_gpus"), wholes_of_text),
    **dict.fromkeys(("concurrency", "request_rate", "num_prompts"), numbers_of_text),
    **dict.fromkeys(("quantization", "kv_cache_dtype"), words_of_text),
    "prefix": prefixes_of_text,
}


def listed_names(name: str, value: Any) -> list[Any]:
    """Names or records; a text is split at its commas, unless it is a path.

    >>> listed_names("gpus", ["h100, b200", "l40s:tp2"])
    ['h100', 'b200', 'l40s:tp2']
    """
    names: list[Any] = []
    for item in several(name, value):
        text: Any = item if isinstance(item, Pool) else name_or_record(name, item)
        parts = [text] if not isinstance(text, str) or "," not in text or is_file(text) else text.split(",")
        if len(parts) > 1:
            parts = [part.strip() for part in parts]
            if not all(parts):
                raise BadInput(f"{name} = {shown(text)} has an empty name between its commas")
        names += parts
    return names


def is_file(text: str) -> bool:
    """Whether a path exists; false for invalid paths."""
    return os.path.exists(text)  # noqa: PTH110 - pathlib costs start-up time


def plain_value(name: str, value: Any) -> Any:
    """The value of an option, parsed if it is a text with a grammar.

    >>> plain_value("isl", "4k"), plain_value("share", "99%"), plain_value("engine", "vllm")
    (4096, 0.99, 'vllm')
    """
    if not isinstance(value, str) or name not in _ONE:
        return value
    try:
        return _ONE[name](str.__str__(value))
    except BadInput as error:
        raise BadInput(f"{name} = {error}") from None


def all_values(name: str, value: Any) -> list[Any]:
    """Values of an option that may have several: from commas and ranges in a text, or from a list.

    >>> all_values("isl", "1k,4k"), all_values("tp", "1:8:x2"), all_values("isl", ["1k", 2000])
    ([1024, 4096], [1, 2, 4, 8], [1024, 2000])
    """
    text = scalar(value)
    if isinstance(text, str) and name in _MANY:
        try:
            return _MANY[name](text)
        except BadInput as error:
            raise BadInput(f"{name} = {error}") from None
    if isinstance(value, PromptShare):
        return [value]
    return [plain_value(name, item) for item in several(name, value)]


def plain_counts(**options: Any) -> tuple[Any, ...]:
    """Whole numbers from numbers or texts, in the order given."""
    return tuple(plain_value(name, value) for name, value in zip(options, scalars(**options), strict=True))


def plain_options(options: Mapping[str, Any]) -> dict[str, Any]:
    """Options with texts parsed; a prefix share becomes tokens unless isl is an array or comes from a trace."""
    plain = {name: plain_value(name, value) for name, value in options.items()}
    isl = scalar(plain.get("isl"))
    is_trace = isinstance(plain.get("lengths"), Mapping) or plain.get("lengths") not in (None, *LAWS)
    if isinstance(plain.get("prefix"), PromptShare) and type(isl) in (int, float) and not is_trace:
        plain["prefix"] = plain["prefix"].tokens(isl)
    return plain


def tokens_of_prefix(prefix: Any, isl: Any) -> Any:
    """A cached prefix in tokens, in the shape of `isl` where it is a share of it."""
    text = prefix if isinstance(prefix, PromptShare) else scalar(prefix)
    known = plain_value("prefix", text) if isinstance(text, str) else text
    if not isinstance(known, PromptShare):
        return prefix if text is not known or not isinstance(text, str) else known
    if type(isl) in (int, float):
        return known.tokens(isl)
    if not hasattr(isl, "round"):
        raise BadInput(f"prefix = {shown(prefix)} is a share of the prompt, which is {shown(isl)}")
    return (isl * known.share).round()
