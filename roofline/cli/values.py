"""Types of option values: counts, times, lengths, limits, names."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

import click

from roofline.api import catalog
from roofline.api.inputs import texts
from roofline.api.inputs.slo import ratio_of_text, slo_limits
from roofline.cli.completion import completions
from roofline.errors import BadInput, RooflineError
from roofline.quantity import count_from_text

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem


class PathName(click.Path):
    """A path; texts that cannot be one, such as with a zero byte, are usage errors."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        try:
            return super().convert(value, param, ctx)
        except ValueError:
            self.fail(f"{value!r} is not a path", param, ctx)


class Parsed(click.ParamType):
    """A text that a parser of the API reads, completed from names; `name` is its placeholder in help."""

    def __init__(self, name: str, read: Callable[[str], Any] = str, names: Callable[[], Iterable[str]] = tuple) -> None:
        self.name = name
        self._read = read
        self._names = names

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        if not isinstance(value, str):
            return value
        try:
            return self._read(value)
        except RooflineError as error:
            self.fail(str(error), param, ctx)

    def shell_complete(self, ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:  # noqa: ARG002
        return completions(self._names, incomplete)


def suggested(name: str, names: Callable[[], Iterable[str]]) -> Parsed:
    """A text completed from names; others are accepted too."""
    return Parsed(name, names=names)


def suggested_words(names: Callable[[], Iterable[str]]) -> Parsed:
    """Words separated by commas, each completed from names."""
    return Parsed(WORDS.name, texts.words_of_text, names)


def _parameters(text: str) -> float:
    number = text.strip().upper()
    try:
        return count_from_text(int(number) if number.isdecimal() else number)
    except (BadInput, ValueError):
        raise BadInput(f"{text!r} is not a number of parameters such as 7B, 350M or 1.5T") from None


def _share_of_requests(text: str) -> float | None:
    from roofline.api.goodput import check_share

    return check_share(text)


def _workload_names() -> Iterable[str]:
    from roofline.api.workloads import workloads

    return workloads()


GPU = Parsed("gpu", names=catalog.gpus)  # h100, 8xh100, b200:tp4
MODEL = Parsed("model", names=catalog.models)
COUNT = Parsed("n", texts.whole_of_text)  # 4096, 4k
NUMBER = Parsed("n", texts.number_of_text)  # 64, 1k, 12.5
COUNTS = Parsed("n,n", texts.wholes_of_text)  # 500,2k; 0:64:8; 1:256:x2
NUMBERS = Parsed("x,x", texts.numbers_of_text)  # 0.5,1; 1:5:0.5; 0.5:8:x2
PREFIX = Parsed("tokens|%", texts.prefix_of_text)  # 1k, 80%
PREFIXES = Parsed("tokens|%,...", texts.prefixes_of_text)  # 0,1k,80%
SHARE = Parsed("x|%", texts.share_of_text)  # 0.5, 50%
DURATION = Parsed("time", texts.time_of_text)  # 20ms; a bare number is milliseconds
MEASURED = Parsed("key=value", texts.measured_of_text)  # tpot=12.3,batch=8
GPU_PRICE = Parsed("USD/h", texts.price_of_text)  # 2.5, 2-4
API_PRICE = Parsed("key:USD", texts.api_price_of_text)  # in:0.5,out:1.5,cached:0.05
SLO = Parsed("key:ms", slo_limits)  # ttft:300@p95,tpot:25
RATIO = Parsed("Nx", ratio_of_text)  # 2x
WORDS = Parsed("word,word", texts.words_of_text)  # bf16,fp8
SHARE_OF_REQUESTS = Parsed("share", _share_of_requests)  # 99%
PARAMETERS = Parsed("count", _parameters)  # 7B
WORKLOAD = Parsed("8k1k|name", lambda text: texts.lengths_of_text(text) or text.strip(), _workload_names)


def split_names(names: tuple[str, ...]) -> tuple[str, ...]:
    """Names separated by commas, one each; paths stay whole.

    >>> split_names(("h100,b200", "l40s"))
    ('h100', 'b200', 'l40s')
    """
    return tuple(texts.listed_names("names", list(names))) if names else ()
