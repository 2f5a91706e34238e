"""Texts of options as values: counts, times, lengths, limits, names."""

from __future__ import annotations

import re
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from roofline.api import catalog
from roofline.api.inputs.slo import ratio_of_text, slo_limits
from roofline.api.predict import DEFAULTS, LOADS
from roofline.errors import BadInput, RooflineError
from roofline.quantity import BILLION, KIBI, MILLI, count_from_text, duration

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

__all__ = [
    "Count",
    "Duration",
    "GpuName",
    "Measured",
    "ModelName",
    "NumberOrShare",
    "Numbers",
    "PathName",
    "Prefix",
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

_MOST_NUMBERS = 10_000  # of a list
_MEASURED_AT = tuple(dict.fromkeys((*DEFAULTS, *LOADS)))
_WORKLOAD = r"(\d{1,12}(?:\.\d+)?)(k?)(?:(?<=k)|[/x:])(\d{1,12}(?:\.\d+)?)(k?)"


class GpuName(click.ParamType):
    """A GPU of the catalog, completed in the shell."""

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
            self.fail(f"{value!r} is no path", param, ctx)


class Size(click.ParamType):
    """A number of parameters such as 7B."""

    name = "count"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """The count."""
        text = str(value).strip().upper()
        try:
            return count_from_text(int(text) if text.isdecimal() else text)
        except (BadInput, ValueError):
            self.fail(f"{value!r} is no number of parameters such as 7B, 350M or 1.5T", param, ctx)


class Prefix(click.ParamType):
    """Cached prompt tokens, or a share of the prompt in per cent."""

    name = "tokens|%"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """The value."""
        text = str(value).strip()
        whole = _whole(text)
        try:
            number = float(text.removesuffix("%")) if whole is None else float(whole)
        except ValueError:
            self.fail(f"{value!r} is neither a number of tokens nor a share such as 80%", param, ctx)
        if not text.endswith("%"):
            return number
        if not 0.0 <= number <= 100.0:
            self.fail(f"{value!r} is not between 0% and 100%", param, ctx)
        return lambda isl: float(round(min(isl, BILLION) * number / 100.0))


class ShareOfRequests(click.ParamType):
    """A share of requests, e.g. 99%."""

    name = "share"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """The share."""
        text = str(value).strip()
        try:
            share = float(text.removesuffix("%")) / (100.0 if text.endswith("%") else 1.0)
        except ValueError:
            share = 0.0
        if not 0.0 < share < 1.0:
            self.fail(f"{value!r} is no share between 0 and 1, such as 99% or 0.99", param, ctx)
        return share


class Ratio(click.ParamType):
    """A multiple of the median, e.g. 2x."""

    name = "Nx"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """The multiple."""
        try:
            return ratio_of_text(str(value))
        except BadInput as error:
            self.fail(str(error), param, ctx)


class Slo(click.ParamType):
    """Limits in milliseconds, e.g. ttft:300@p95,tpot:25."""

    name = "key:ms"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """The value."""
        try:
            return slo_limits(str(value))
        except RooflineError as error:
            self.fail(str(error), param, ctx)


class Duration(click.ParamType):
    """A time with its unit, e.g. 20ms; a bare number is milliseconds."""

    name = "time"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """The value."""
        try:
            time = duration(str(value))
        except BadInput:
            self.fail(f"{value!r} is no time such as 20ms", param, ctx)
        if not 0.0 <= time < float("inf"):
            self.fail(f"{value!r} is no time such as 20ms: it must be positive and finite", param, ctx)
        return time


class Measured(click.ParamType):
    """Times in milliseconds and what they were taken at, e.g. tpot=12.3,batch=8."""

    name = "key=value"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """The value."""
        found: dict[str, float] = {}
        for part in re.split(r"[,\s]+", str(value).strip()):
            key, sign, number = part.partition("=")
            key = key.strip().lower()
            if not sign or key in found or key not in ("ttft", "tpot", *_MEASURED_AT):
                known = ", ".join(("ttft", "tpot", *_MEASURED_AT))
                self.fail(f"{part!r} is not key=value with a key of {known}, each once", param, ctx)
            try:
                found[key] = float(number) * (MILLI if key in ("ttft", "tpot") else 1.0)
            except ValueError:
                self.fail(f"{number!r} in {part!r} is no number", param, ctx)
        return found


class WorkloadText(click.ParamType):
    """Prompt and answer length in one word, e.g. 8k1k, or the name of a workload."""

    name = "8k1k|name"

    def shell_complete(self, ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:  # noqa: ARG002
        """Names that begin like that."""
        from roofline.api.workloads import workloads

        return _completions(workloads, incomplete)

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """The value."""
        if re.match(r"[a-z~./\\]", str(value).strip(), re.IGNORECASE):
            return str(value).strip()
        match = re.fullmatch(_WORKLOAD, str(value).strip(), re.IGNORECASE)
        lengths = (
            [] if match is None else [float(n) * (KIBI if k else 1) for n, k in (match.group(1, 2), match.group(3, 4))]
        )
        if not lengths or not all(length.is_integer() and length <= BILLION for length in lengths):
            self.fail(f"{value!r} is not a workload such as 1k1k, 8k1k or 2000x300", param, ctx)
        return tuple(int(length) for length in lengths)


class Count(click.ParamType):
    """A whole number, e.g. 4096 or 4k; k stands for 1024."""

    name = "n"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """The number."""
        found = _whole(str(value))
        if found is None:
            self.fail(f"{value!r} is no whole number such as 2000 or 8k", param, ctx)
        return found


class Users(click.ParamType):
    """A number of users or requests, e.g. 64, 1k or 12.5; k stands for 1024."""

    name = "n"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """The number."""
        whole = _whole(str(value))
        try:
            return float(str(value)) if whole is None else float(whole)
        except ValueError:
            self.fail(f"{value!r} is no number such as 64 or 1k", param, ctx)


class NumberOrShare(click.ParamType):
    """A number, or a share in per cent, e.g. 0.5 or 50%."""

    name = "x|%"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """The number."""
        text = str(value).strip()
        try:
            return float(text.removesuffix("%")) / (100.0 if text.endswith("%") else 1.0)
        except ValueError:
            self.fail(f"{value!r} is no number such as 0.5 or 50%", param, ctx)


class Numbers(click.ParamType):
    """Whole numbers, e.g. 500,2k,8k; ranges 0:64:8 (steps) and 1:256:x2 (factors); k stands for 1024."""

    name = "n,n"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """The numbers."""
        found: list[int] = []
        for part in str(value).split(","):
            several = _range(part.strip())
            if several is None:
                said = (
                    f"{part.strip()!r} in {value!r} is no whole number such as 2000 or 8k, nor a range such as 1:256:x2"
                )
                self.fail(said, param, ctx)
            found += several
            if len(found) > _MOST_NUMBERS:
                self.fail(f"{value!r} holds more than {_MOST_NUMBERS} numbers", param, ctx)
        return list(dict.fromkeys(found)) if ":" in str(value) else found


class Rates(click.ParamType):
    """Positive numbers, e.g. 0.5,1,2."""

    name = "x,x"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """The numbers."""
        found = []
        for part in str(value).split(","):
            try:
                found.append(float(part))
            except ValueError:
                self.fail(f"{part.strip()!r} in {value!r} is no number such as 0.5", param, ctx)
        return found


class Words(click.ParamType):
    """Words, e.g. bf16,fp8."""

    name = "word,word"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """The words."""
        found = [part.strip() for part in str(value).split(",")]
        if not all(found):
            self.fail(f"{value!r} has an empty word", param, ctx)
        return found


def split_names(names: tuple[str, ...]) -> tuple[str, ...]:
    """Names that may stand in one option, with commas between them; what is a path stays whole.

    Args:
        names: as given [text].

    Returns:
        One name each [text].

    >>> split_names(("h100,b200", "l40s"))
    ('h100', 'b200', 'l40s')
    """
    found: list[str] = []
    for name in names:
        is_path = False
        with suppress(OSError, ValueError):
            is_path = "," in name and Path(name).exists()
        found += [name] if is_path else [part.strip() for part in name.split(",")]
    return tuple(found)


def _whole(text: str) -> int | None:
    """A whole number from text; None where it is none."""
    match = re.fullmatch(r"([+-]?\d{1,300})(k?)", text.strip(), re.IGNORECASE)
    return None if match is None else int(match[1]) * (KIBI if match[2] else 1)


def _range(text: str) -> list[int] | None:
    """Whole numbers of a part of a list: one, or from:to:step, or from:to:xfactor, both ends included."""
    if text[:1] in ("+", "-"):
        return None
    begin, *rest = text.split(":")
    first = _whole(begin)
    if first is None or not rest:
        return None if first is None else [first]
    last = _whole(rest[0])
    step = rest[1] if len(rest) == 2 else "1"
    width = _whole(step.removeprefix("x"))
    if last is None or width is None or len(rest) > 2 or last < first:
        return None
    if not step.startswith("x"):
        return list(range(first, last + 1, width)[: _MOST_NUMBERS + 1]) if width > 0 else None
    if width < 2 or first < 1:
        return None
    found = [first]
    while found[-1] * width <= last:
        found.append(found[-1] * width)
    return found


def _completions(names: Callable[[], tuple[str, ...]], incomplete: str) -> list[CompletionItem]:
    from click.shell_completion import CompletionItem

    try:
        return [CompletionItem(name) for name in names() if name.startswith(incomplete.lower()) and name.isprintable()]
    except RooflineError:
        return []
