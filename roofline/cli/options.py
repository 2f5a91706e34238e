"""Options that commands share: the case, the output, and how their texts become values."""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import click

from roofline import api
from roofline.catalog.engines import engine_names
from roofline.errors import BadInput, RooflineError
from roofline.physics.efficiency import BASES
from roofline.quantity import BILLION, KIBI, MILLI, count_from_text, from_text
from roofline.serving.latency import SLO_KEYS
from roofline.serving.precision import PRESETS

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

__all__ = [
    "FORMATS",
    "GpuName",
    "ModelName",
    "Size",
    "case_options",
    "gpu_option",
    "model_option",
    "output_options",
    "specs_option",
]

FORMATS = ("table", "markdown", "csv", "json")

_WORKLOAD = r"(\d{1,12}(?:\.\d+)?)(k?)(?:(?<=k)|[/x:])(\d{1,12}(?:\.\d+)?)(k?)"
_Command = Callable[..., Any]


class GpuName(click.ParamType):
    """A GPU of the catalog, completed in the shell."""

    name = "gpu"

    def shell_complete(self, ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:  # noqa: ARG002
        """Names that begin like that."""
        return _completions(api.gpus, incomplete)


class ModelName(click.ParamType):
    """A model of the catalog, completed in the shell."""

    name = "model"

    def shell_complete(self, ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:  # noqa: ARG002
        """Names that begin like that."""
        return _completions(api.models, incomplete)


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


class _Prefix(click.ParamType):
    """Cached prompt tokens, or a share of the prompt in per cent."""

    name = "tokens|%"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        text = str(value).strip()
        try:
            number = float(text.removesuffix("%"))
        except ValueError:
            self.fail(f"{value!r} is neither a number of tokens nor a share such as 80%", param, ctx)
        if not text.endswith("%"):
            return number
        if not 0.0 <= number <= 100.0:
            self.fail(f"{value!r} is not between 0% and 100%", param, ctx)
        return lambda isl: float(round(min(isl, BILLION) * number / 100.0))


class _Slo(click.ParamType):
    """Limits in milliseconds, e.g. ttft:300,tpot:25."""

    name = "key:ms"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        limits = {}
        for part in re.split(r"[,\s]+", str(value).strip()):
            key, colon, number = part.partition(":")
            key = key.strip().lower()
            if key in limits:
                self.fail(f"{key!r} is limited twice", param, ctx)
            try:
                limits[key] = float(number) * MILLI
            except ValueError:
                colon = ""
            if not colon:
                self.fail(f"{part!r} is not key:milliseconds with a key of {', '.join(SLO_KEYS)}", param, ctx)
        return limits


class _Duration(click.ParamType):
    """A time with its unit, e.g. 20ms; a bare number is milliseconds."""

    name = "time"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        text = str(value).strip()
        try:
            return float(text) * MILLI
        except ValueError:
            pass
        try:
            return from_text(re.sub(r"(?<=[0-9.])(?=[a-zA-Zµ])", " ", text), "s")
        except BadInput:
            self.fail(f"{value!r} is no time such as 20ms", param, ctx)


class _Measured(click.ParamType):
    """Times in milliseconds and what they were taken at, e.g. tpot=12.3,batch=8."""

    name = "key=value"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        found: dict[str, float] = {}
        for part in re.split(r"[,\s]+", str(value).strip()):
            key, sign, number = part.partition("=")
            key = key.strip().lower()
            if not sign or key in found or key not in ("ttft", "tpot", *api.DEFAULTS):
                known = ", ".join(("ttft", "tpot", *api.DEFAULTS))
                self.fail(f"{part!r} is not key=value with a key of {known}, each once", param, ctx)
            try:
                found[key] = float(number) * (MILLI if key in ("ttft", "tpot") else 1.0)
            except ValueError:
                self.fail(f"{number!r} in {part!r} is no number", param, ctx)
        return found


class _Workload(click.ParamType):
    """Prompt and answer length in one word, e.g. 8k1k."""

    name = "8k1k"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        match = re.fullmatch(_WORKLOAD, str(value).strip(), re.IGNORECASE)
        lengths = (
            [] if match is None else [float(n) * (KIBI if k else 1) for n, k in (match.group(1, 2), match.group(3, 4))]
        )
        if not lengths or not all(length.is_integer() and length <= BILLION for length in lengths):
            self.fail(f"{value!r} is not a workload such as 1k1k, 8k1k or 2000x300", param, ctx)
        return tuple(int(length) for length in lengths)


def model_option(function: _Command) -> _Command:
    """Add ``--model``.

    Args:
        function: the command [function].

    Returns:
        The command with the option [function].
    """
    return click.option(
        "-m",
        "--model",
        "--model-path",
        "models",
        type=ModelName(),
        multiple=True,
        required=True,
        help="Model: Hugging Face id, short name or alias. Repeatable.",
    )(function)


def gpu_option(function: _Command) -> _Command:
    """Add ``--gpu``.

    Args:
        function: the command [function].

    Returns:
        The command with the option [function].
    """
    return click.option(
        "-g",
        "--gpu",
        "--system",
        "--hardware",
        "gpus",
        type=GpuName(),
        multiple=True,
        help="GPU: name or alias. Repeatable; all of the catalog by default.",
    )(function)


def specs_option(function: _Command) -> _Command:
    """Add ``--specs``.

    Args:
        function: the command [function].

    Returns:
        The command with the option [function].
    """
    return click.option(
        "--specs",
        type=click.Path(),
        help="Folder of GPU and model specifications of your own; default $ROOFLINE_SPECS.",
    )(function)


def output_options(function: _Command) -> _Command:
    """Add ``--format``.

    Args:
        function: the command [function].

    Returns:
        The command with the option [function].
    """
    return click.option(
        "-f",
        "--format",
        "output_format",
        type=click.Choice(FORMATS),
        default="table",
        show_default=True,
        help="How to print: for people, for documents, for programs.",
    )(function)


_CASE = (
    click.option(
        "--isl",
        "--input-len",
        "--random-input-len",
        type=int,
        help=f"Prompt length [tokens].  [default: {api.DEFAULTS['isl']}]",
    ),
    click.option(
        "--osl",
        "--output-len",
        "--random-output-len",
        type=int,
        help=f"Answer length [tokens].  [default: {api.DEFAULTS['osl']}]",
    ),
    click.option(
        "-b",
        "--batch",
        type=int,
        default=api.DEFAULTS["batch"],
        show_default=True,
        help="Sequences per replica, whose prompts start together.",
    ),
    click.option(
        "--prefix", "--prefix-prompt-length", type=_Prefix(), default="0", help="Cached prompt tokens, or e.g. 80%."
    ),
    click.option("--workload", type=_Workload(), help="isl and osl in one word: 1k1k, 8k1k, 1k8k."),
    click.option(
        "--tp",
        "-tp",
        "--tensor-parallel-size",
        type=int,
        help="Tensor-parallel degree.  [default: smallest that fits]",
    ),
    click.option(
        "--pp",
        "-pp",
        "--pipeline-parallel-size",
        type=int,
        default=1,
        show_default=True,
        help="Pipeline-parallel degree.",
    ),
    click.option(
        "--ep",
        "--expert-parallel-size",
        type=int,
        default=1,
        show_default=True,
        help="Expert-parallel degree.",
    ),
    click.option(
        "--dp",
        "-dp",
        "--data-parallel-size",
        type=int,
        default=1,
        show_default=True,
        help="Data-parallel degree of the attention.",
    ),
    click.option("--num-gpus", "--total-gpus", type=int, help="GPUs of all replicas.  [default: one replica]"),
    click.option(
        "-q",
        "--quantization",
        type=str,
        help=f"Preset of number formats: {', '.join(PRESETS)}.",
    ),
    click.option("--weights", type=str, help="Number format of the weights."),
    click.option("--kv-cache-dtype", type=str, help="Number format of the KV cache."),
    click.option("--compute", type=str, help="Dtype at which weights are multiplied."),
    click.option("--routing", type=str, help="Expert choice: uniform, or the skew c.  [default: 0.66]"),
    click.option(
        "--basis", type=click.Choice(BASES), default="calibrated", show_default=True, help="What the figures stand on."
    ),
    click.option(
        "--engine",
        type=str,
        default=api.DEFAULT_ENGINE,
        show_default=True,
        help=f"Profile of the serving engine: {', '.join(engine_names())}, or the path of your own.",
    ),
    click.option("--network", type=_Duration(), help="Round trip between client and server, e.g. 20ms.  [default: 0]"),
    click.option(
        "--measured",
        type=_Measured(),
        help="One measurement of this deployment, in ms, e.g. tpot=12.3,ttft=350,batch=8; it scales the answer.",
    ),
    click.option("--slo", "--goodput", type=_Slo(), help="Limits [ms], e.g. ttft:300,tpot:25."),
    click.option("--allow-oversize", is_flag=True, help="Predict a plan that does not fit, too."),
)


def case_options(function: _Command) -> _Command:
    """Add every option of a case; the command gets them as keyword arguments of `api.predict`.

    Args:
        function: the command, called with `models`, `gpus`, `options` [function].

    Returns:
        The command with the options [function].
    """

    @functools.wraps(function)
    def command(models: tuple[str, ...], gpus: tuple[str, ...], **given: Any) -> Any:
        own = {name: given.pop(name) for name in ("output_format", "explain") if name in given}
        return function(models=models, gpus=gpus, options=_arguments(given), **own)

    for option in reversed(_CASE):
        command = option(command)
    return model_option(gpu_option(specs_option(command)))


def _arguments(given: Mapping[str, Any]) -> dict[str, Any]:
    """Keyword arguments of the API from options as given; what was left out keeps the API's default."""
    options = {name: value for name, value in given.items() if value is not None}
    workload = options.pop("workload", None)
    if workload is not None:
        if "isl" in options or "osl" in options:
            raise click.UsageError("--workload sets both lengths; leave out --isl and --osl")
        options["isl"], options["osl"] = workload
    if callable(options.get("prefix")):
        options["prefix"] = options["prefix"](options.get("isl", api.DEFAULTS["isl"]))
    return options


def _completions(names: Callable[[], tuple[str, ...]], incomplete: str) -> list[CompletionItem]:
    from click.shell_completion import CompletionItem

    try:
        return [CompletionItem(name) for name in names() if name.startswith(incomplete.lower())]
    except RooflineError:
        return []
