"""Options that commands share: the case, the output, and how their texts become values."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Mapping
from typing import Any

import click

from roofline.api.inputs.case import BASES, PRESETS, engine_names
from roofline.api.inputs.slo import with_p99_within
from roofline.api.predict import DEFAULT_ENGINE, DEFAULTS, LOADS
from roofline.cli.values import (
    Count,
    Duration,
    GpuName,
    Measured,
    ModelName,
    NumberOrShare,
    Numbers,
    PathName,
    Prefix,
    Rates,
    Ratio,
    Slo,
    Users,
    Words,
    WorkloadText,
    split_names,
)

__all__ = [
    "FORMATS",
    "case_options",
    "gpu_option",
    "list_options",
    "model_option",
    "one_case",
    "output_options",
    "specs_option",
]

FORMATS = ("table", "markdown", "csv", "json")

_Command = Callable[..., Any]


def model_option(function: _Command, *, one: bool = False) -> _Command:
    """Add ``--model``.

    Args:
        function: the command [function].
        one: whether the command takes a single model [bool].

    Returns:
        The command with the option [function].
    """
    repeatable = "" if one else " Several with commas."
    return click.option(
        "-m",
        "--model",
        "--model-path",
        "models",
        type=ModelName(),
        multiple=True,
        required=True,
        help=f"Model: Hugging Face id, short name or alias.{repeatable}",
    )(function)


def gpu_option(function: _Command, *, one: bool = False) -> _Command:
    """Add ``--gpu``.

    Args:
        function: the command [function].
        one: whether the command takes a single GPU [bool].

    Returns:
        The command with the option [function].
    """
    repeatable = "." if one else ", several with commas; all of the catalog by default."
    return click.option(
        "-g",
        "--gpu",
        "--system",
        "--hardware",
        "gpus",
        type=GpuName(),
        multiple=True,
        help=f"GPU: name or alias{repeatable}",
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
        type=PathName(),
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
        type=Count(),
        help=f"Prompt length [tokens].  [default: {DEFAULTS['isl']}]",
    ),
    click.option(
        "--osl",
        "--output-len",
        "--random-output-len",
        type=Count(),
        help=f"Answer length [tokens].  [default: {DEFAULTS['osl']}]",
    ),
    click.option(
        "-b", "--batch", type=Count(), help="A burst: requests that start together on an idle replica.  [default: 1]"
    ),
    click.option(
        "-c",
        "--concurrency",
        "--max-concurrency",
        "--users",
        type=Users(),
        help="Users of the whole deployment, who ask again as soon as they are answered.",
    ),
    click.option("--request-rate", "--rate", type=float, help="Requests per second, at random (Poisson)."),
    click.option(
        "--num-prompts",
        type=Users(),
        help="Requests of a run that all users begin together, for its means.  [default: steady state]",
    ),
    click.option(
        "--prefix", "--prefix-prompt-length", type=Prefix(), default="0", help="Cached prompt tokens, or e.g. 80%."
    ),
    click.option(
        "--workload",
        type=WorkloadText(),
        help="isl and osl in one word: 1k1k, 8k1k, 1k8k; or a workload by name, with its SLO: roofline workloads.",
    ),
    click.option(
        "--isl-cv", type=NumberOrShare(), help="Spread of prompts under a load: standard deviation over mean, e.g. 0.5."
    ),
    click.option("--osl-cv", type=NumberOrShare(), help="The same of answers."),
    click.option("--lengths", help="Law of both, lognormal or uniform; or a trace.csv with columns isl and osl."),
    click.option("--cold-start", help="Share of requests that start cold, and how long that takes, e.g. 1%:2s."),
    click.option("--derate", help="Shares of rates lost to neighbours or virtualisation, e.g. bandwidth:5%,peak:3%."),
    click.option(
        "--tp",
        "-tp",
        "--tensor-parallel-size",
        type=Count(),
        help="Tensor-parallel degree.  [default: smallest that fits]",
    ),
    click.option(
        "--pp",
        "-pp",
        "--pipeline-parallel-size",
        type=Count(),
        default=1,
        show_default=True,
        help="Pipeline-parallel degree.",
    ),
    click.option(
        "--ep",
        "--expert-parallel-size",
        type=Count(),
        default=1,
        show_default=True,
        help="Expert-parallel degree.",
    ),
    click.option(
        "--dp",
        "-dp",
        "--data-parallel-size",
        type=Count(),
        default=1,
        show_default=True,
        help="Data-parallel degree of the attention.",
    ),
    click.option("--num-gpus", "--total-gpus", type=Count(), help="GPUs of all replicas.  [default: one replica]"),
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
        default=DEFAULT_ENGINE,
        show_default=True,
        help=f"Profile of the serving engine: {', '.join(engine_names())}, or the path of your own.",
    ),
    click.option(
        "--max-num-batched-tokens",
        "--max-num-tokens",
        "--chunked-prefill-size",
        type=Count(),
        help="Tokens that a step computes at most.  [default: the engine's]",
    ),
    click.option(
        "--max-num-seqs",
        "--max-running-requests",
        "--max-batch-size",
        type=Count(),
        help="Sequences that a data-parallel rank runs at most.  [default: the engine's]",
    ),
    click.option(
        "--gpu-memory-utilization",
        "--mem-fraction-static",
        type=NumberOrShare(),
        help="Share of the memory that the engine may take.  [default: the engine's, 0.92]",
    ),
    click.option(
        "--max-model-len",
        "--context-length",
        "--max-seq-len",
        type=Count(),
        help="Longest request that is served.  [default: the model's]",
    ),
    click.option("--network", type=Duration(), help="Round trip between client and server, e.g. 20ms.  [default: 0]"),
    click.option(
        "--measured",
        type=Measured(),
        help="One measurement of this deployment, in ms, e.g. tpot=12.3,ttft=350,batch=8; it scales the answer.",
    ),
    click.option("--slo", "--goodput", type=Slo(), help="Limits [ms], e.g. ttft:300@p95,tpot:25,e2el:8s@p99."),
    click.option("--p99-within", type=Ratio(), help="Limit of the p99 over the median, e.g. 2x."),
    click.option("--allow-oversize", is_flag=True, help="Predict a plan that does not fit, too."),
)


_LISTS = (
    click.option("--isl", "--input-len", type=Numbers(), help="Prompt lengths [tokens], e.g. 500,2k,8k."),
    click.option("--osl", "--output-len", type=Numbers(), help="Answer lengths [tokens]."),
    click.option("-b", "--batch", type=Numbers(), help="Bursts: requests that start together on an idle replica."),
    click.option(
        "-c",
        "--concurrency",
        "--max-concurrency",
        "--users",
        type=Numbers(),
        help="Users of the whole deployment, who ask again.",
    ),
    click.option("--request-rate", "--rate", type=Rates(), help="Requests per second, at random (Poisson)."),
    click.option("--prefix", type=Numbers(), help="Cached prompt tokens."),
    click.option(
        "--tp", "-tp", "--tensor-parallel-size", type=Numbers(), help="Degrees.  [default: smallest that fits]"
    ),
    click.option("-q", "--quantization", type=Words(), help="Presets of number formats, e.g. bf16,fp8."),
)


def case_options(
    function: _Command, without: tuple[str, ...] = (), *, one: bool = False, of_loads: bool = False
) -> _Command:
    """Add every option of a case; the command gets them as keyword arguments of `predict`.

    Args:
        function: the command, called with `models`, `gpus`, `options`, and options of its own by name [function].
        without: parameters whose options the command has no use for, or adds in a form of its own [text].
        one: whether the command takes a single model and a single GPU [bool].
        of_loads: whether it asks about requests that come one by one, whatever the options say [bool].

    Returns:
        The command with the options [function].
    """
    wanted = inspect.signature(function).parameters

    @functools.wraps(function)
    def command(models: tuple[str, ...], gpus: tuple[str, ...], **given: Any) -> Any:
        models, gpus = split_names(models), split_names(gpus)
        own = {name: given.pop(name) for name in tuple(given) if name in wanted}
        is_loaded = of_loads or str(own.get("unknown", "")).replace("-", "_") in LOADS[1:]
        options = _arguments(given, of_loads=is_loaded, with_share="share" in wanted)
        return function(models=models, gpus=gpus, options=options, **own)

    for option in reversed(_CASE):
        command = option(command)
        parameters: list[click.Parameter] = vars(command)["__click_params__"]
        if parameters[-1].name in without:
            parameters.pop()
    return model_option(gpu_option(specs_option(command), one=one), one=one)


def list_options(function: _Command, without: tuple[str, ...] = ()) -> _Command:
    """Add the options of a case that may be given several times, as lists; `case_options` without them goes outside.

    Args:
        function: the command [function].
        without: parameters whose options the command has no use for [text].

    Returns:
        The command with the options [function].
    """
    for option in reversed(_LISTS):
        function = option(function)
        parameters: list[click.Parameter] = vars(function)["__click_params__"]
        if parameters[-1].name in without:
            parameters.pop()
    return function


def one_case(models: tuple[str, ...], gpus: tuple[str, ...]) -> tuple[str, str]:
    """The model and the GPU of a question that is asked of one case.

    Args:
        models: models named [text].
        gpus: GPUs named [text].

    Returns:
        Model and GPU [text].

    Raises:
        click.UsageError: not just one of each.
    """
    if len(models) != 1 or len(gpus) != 1:
        raise click.UsageError("this question is asked of one case: name one model (-m) and one GPU (-g)")
    return models[0], gpus[0]


def _arguments(given: Mapping[str, Any], *, of_loads: bool, with_share: bool) -> dict[str, Any]:
    """Keyword arguments of the API from options as given; what was left out keeps the API's default."""
    options = {name: value for name, value in given.items() if value is not None}
    within = options.pop("p99_within", None)
    workload = options.pop("workload", None)
    if workload is not None:
        if "isl" in options or "osl" in options:
            raise click.UsageError("--workload sets both lengths; leave out --isl and --osl")
        if isinstance(workload, str):
            options = _named(workload, options, of_loads=of_loads, with_share=with_share)
        else:
            options["isl"], options["osl"] = workload
    if within is not None:
        options["slo"] = with_p99_within(options.get("slo"), within)
    if callable(options.get("prefix")):
        options["prefix"] = options["prefix"](options.get("isl", DEFAULTS["isl"]))
    return options


def _named(workload: str, options: dict[str, Any], *, of_loads: bool, with_share: bool) -> dict[str, Any]:
    """Options with those that a named workload stands for, where they are not given themselves."""
    from roofline.api.workloads import load_workload, workload_options

    found = load_workload(workload, options.get("specs"))
    stands_for = workload_options(found, loaded=of_loads or bool(set(LOADS[1:]) & set(options)))
    if with_share:
        stands_for["share"] = found.share
    if callable(options.get("prefix")) or options.get("prefix"):
        stands_for.pop("prefix")
    else:
        options.pop("prefix", None)
    return {**stands_for, **options}
