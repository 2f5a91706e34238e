"""Texts of options as values: counts, times, lengths, limits, names."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, ClassVar

import click

from roofline.api import catalog
from roofline.api.inputs import texts
from roofline.api.inputs.slo import ratio_of_text, slo_limits
from roofline.errors import BadInput, RooflineError
from roofline.quantity import count_from_text

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

__all__ = [
    "ApiPrice",
    "Count",
    "Duration",
    "GpuName",
    "GpuPrice",
    "Measured",
    "ModelName",
    "NumberOrShare",
    "Numbers",
    "PathName",
    "Prefix",
    "Prefixes",
    "Rates",
    "Ratio",
    "ShareOfRequests",
    "Size",
    "Slo",
    "Users",
    "Words",
    "WorkloadText",
    "split_names",
]

_COUNT_BEFORE = r"(?:.*,)?\s*(?:[0-9]+\s*[xX]\s*)?"  # of a name: other names, and a number of GPUs


class GpuName(click.ParamType):
    """A GPU of the catalog or a pool of them, completed in the shell."""

    name = "gpu"

    def shell_complete(self, ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:  # noqa: ARG002
        """Names that begin like that."""
        return _completions(catalog.gpus, incomplete)


class ModelName(click.ParamType):
    """A model of the catalog, completed in the shell."""

    name = "model"

    def shell_complete(self, ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:  # noqa: ARG002
        """Names that begin like that."""
        return _completions(catalog.models, incomplete)


class PathName(click.Path):
    """A path; one that no file can have is refused like any other odd text."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """The path."""
        try:
            return super().convert(value, param, ctx)
        except ValueError:  # a zero byte, or what has no bytes at all
            self.fail(f"{value!r} is not a path", param, ctx)


class _Read(click.ParamType):
    """A value that one parser of the API reads; its refusal is the message."""

    name = "value"
    read: ClassVar[Any] = staticmethod(str)  # text -> value

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """The value."""
        if not isinstance(value, str):
            return value
        try:
            return type(self).read(value)
        except RooflineError as error:
            self.fail(str(error), param, ctx)


class Count(_Read):
    """A whole number, e.g. 4096 or 4k; k stands for 1024."""

    name = "n"
    read = staticmethod(texts.whole_of_text)


class Users(_Read):
    """A number of users or requests, e.g. 64, 1k or 12.5; k stands for 1024."""

    name = "n"
    read = staticmethod(texts.number_of_text)


class Numbers(_Read):
    """Whole numbers, e.g. 500,2k,8k; ranges 0:64:8 (steps) and 1:256:x2 (factors); k stands for 1024."""

    name = "n,n"
    read = staticmethod(texts.wholes_of_text)


class Rates(_Read):
    """Numbers, e.g. 0.5,1,2; ranges 1:5:0.5 (steps) and 0.5:8:x2 (factors)."""

    name = "x,x"
    read = staticmethod(texts.numbers_of_text)


class Prefix(_Read):
    """Cached prompt tokens, or a share of the prompt in per cent."""

    name = "tokens|%"
    read = staticmethod(texts.prefix_of_text)


class Prefixes(_Read):
    """Cached prompt tokens, ranges of them, and shares of the prompt, e.g. 0,1k,80%."""

    name = "tokens|%,..."
    read = staticmethod(texts.prefixes_of_text)


class NumberOrShare(_Read):
    """A number, or a share in per cent, e.g. 0.5 or 50%."""

    name = "x|%"
    read = staticmethod(texts.share_of_text)


class Duration(_Read):
    """A time with its unit, e.g. 20ms; a bare number is milliseconds."""

    name = "time"
    read = staticmethod(texts.time_of_text)


class Measured(_Read):
    """Times in milliseconds and what they were taken at, e.g. tpot=12.3,batch=8."""

    name = "key=value"
    read = staticmethod(texts.measured_of_text)


class GpuPrice(_Read):
    """Rent of a GPU by the hour, or its range, e.g. 2.5 or 2-4."""

    name = "USD/h"
    read = staticmethod(texts.price_of_text)


class ApiPrice(_Read):
    """What an API asks for its tokens, e.g. in:0.5,out:1.5,cached:0.05."""

    name = "key:USD"
    read = staticmethod(texts.api_price_of_text)


class Slo(_Read):
    """Limits in milliseconds, e.g. ttft:300@p95,tpot:25."""

    name = "key:ms"
    read = staticmethod(slo_limits)


class Ratio(_Read):
    """A multiple of the median, e.g. 2x."""

    name = "Nx"
    read = staticmethod(ratio_of_text)


class Words(_Read):
    """Words, e.g. bf16,fp8."""

    name = "word,word"
    read = staticmethod(texts.words_of_text)


class ShareOfRequests(_Read):
    """A share of requests, e.g. 99%."""

    name = "share"

    @staticmethod
    def read(value: str) -> float:
        """The share, neither none nor all of the requests."""
        from roofline.api.goodput import check_share

        return check_share(value)


class Size(click.ParamType):
    """A number of parameters such as 7B."""

    name = "count"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """The count."""
        text = str(value).strip().upper()
        try:
            return count_from_text(int(text) if text.isdecimal() else text)
        except (BadInput, ValueError):
            self.fail(f"{value!r} is not a number of parameters such as 7B, 350M or 1.5T", param, ctx)


class WorkloadText(_Read):
    """Prompt and answer length in one word, e.g. 8k1k, or the name of a workload."""

    name = "8k1k|name"

    @staticmethod
    def read(value: str) -> Any:
        """Both lengths, or the name."""
        return texts.lengths_of_text(value) or value.strip()

    def shell_complete(self, ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:  # noqa: ARG002
        """Names that begin like that."""
        from roofline.api.workloads import workloads

        return _completions(workloads, incomplete)


def split_names(names: tuple[str, ...]) -> tuple[str, ...]:
    """Names that may stand in one option, with commas between them; what is a path stays whole.

    Args:
        names: as given [text].

    Returns:
        One name each [text].

    >>> split_names(("h100,b200", "l40s"))
    ('h100', 'b200', 'l40s')
    """
    return tuple(texts.listed_names("names", list(names))) if names else ()


def _completions(names: Callable[[], tuple[str, ...]], incomplete: str) -> list[CompletionItem]:
    """Names that begin like the last one that was typed, after what stands before it."""
    from click.shell_completion import CompletionItem

    before = re.match(_COUNT_BEFORE, incomplete)
    done = before[0] if before is not None else ""
    begun = incomplete[len(done) :].lower()
    try:
        return [CompletionItem(done + name) for name in names() if name.startswith(begun) and name.isprintable()]
    except RooflineError:
        return []
