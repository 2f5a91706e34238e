"""Options that commands share."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import click

from roofline.api.inputs.slo import LATENCIES
from roofline.cli.screen import set_flag
from roofline.cli.values import COUNT, GPU, MODEL, SHARE_OF_REQUESTS, PathName

FOR_PEOPLE, FOR_PROGRAMS = ("table", "markdown"), ("csv", "json")
FORMATS = (*FOR_PEOPLE, *FOR_PROGRAMS)

Command = Callable[..., Any]


def model_option(function: Command, *, single: bool = False) -> Command:
    repeatable = "." if single else "; several with commas."
    return click.option(
        "-m",
        "--model",
        "--model-path",
        "models",
        type=MODEL,
        multiple=True,
        required=True,
        help=f"Model: short name, alias or Hugging Face id{repeatable}",
    )(function)


def gpu_option(function: Command, *, single: bool = False) -> Command:
    repeatable = "." if single else "; several with commas.  [default: all]"
    return click.option(
        "-g",
        "--gpu",
        "--system",
        "--hardware",
        "gpus",
        type=GPU,
        multiple=True,
        help=f"GPU, e.g. h100, 8xh100 or b200:tp4:fp8x2{repeatable}",
    )(function)


def specs_option(function: Command) -> Command:
    return click.option(
        "--specs",
        type=PathName(),
        help="Folder of your own GPU and model files.  [default: $ROOFLINE_SPECS]",
    )(function)


def share_option(function: Command) -> Command:
    return click.option(
        "--share",
        type=SHARE_OF_REQUESTS,
        help="Share of requests that must meet all limits without a percentile.  [default: these limit means]",
    )(function)


def most_per_gpu_option(function: Command) -> Command:
    """The tensor-parallel degree, for questions that find the load."""
    return click.option(
        "--tp",
        "-tp",
        "--tensor-parallel-size",
        "--tp-size",
        type=COUNT,
        help="Tensor-parallel degree.  [default: the most requests per GPU]",
    )(function)


def required_share(options: dict[str, Any], share: float | None) -> float | None:
    """The share of ``--share``, else that of a workload, which is taken out of the options of the case."""
    of_workload = options.pop("share", None)
    if share is not None and not any(key in LATENCIES for key in options.get("slo") or ()):
        raise click.UsageError(
            "--share is of requests that meet limits without a percentile; add one, e.g. --slo ttft:300,tpot:25"
        )
    return of_workload if share is None else share


def output_options(function: Command) -> Command:
    """Add ``--format``, ``--all`` and ``--notes``."""
    format_option = click.option(
        "-f",
        "--format",
        "output_format",
        type=click.Choice(FORMATS),
        default="table",
        show_default=True,
        help="For people, documents or programs; csv and json have every row and key.",
    )
    return format_option(screen_options(function))


def screen_options(function: Command) -> Command:
    """Add ``--all`` and ``--notes``, for what the first screen leaves out."""
    for name, flag, text in (
        ("with_notes", "--notes", "Print the notes: assumptions, and what was not checked."),
        ("is_full", "--all", "Print every row, not just the first ten."),
    ):
        function = click.option(
            flag, name, is_flag=True, expose_value=False, callback=partial(set_flag, name=name), help=text
        )(function)
    return function
