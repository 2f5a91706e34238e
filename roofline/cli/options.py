"""Options that commands share: models, GPUs, their files, and the output."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import click

from roofline.cli.screen import set_flag
from roofline.cli.values import GpuName, ModelName, PathName

__all__ = [
    "FORMATS",
    "Command",
    "gpu_option",
    "model_option",
    "output_options",
    "screen_options",
    "specs_option",
]

FORMATS = ("table", "markdown", "csv", "json")

Command = Callable[..., Any]


def model_option(function: Command, *, one: bool = False) -> Command:
    """Add ``--model``.

    Args:
        function: the command [function].
        one: whether the command takes a single model [bool].

    Returns:
        The command with the option [function].
    """
    repeatable = "." if one else "; several with commas."
    return click.option(
        "-m",
        "--model",
        "--model-path",
        "models",
        type=ModelName(),
        multiple=True,
        required=True,
        help=f"Model: short name, alias or Hugging Face id{repeatable}",
    )(function)


def gpu_option(function: Command, *, one: bool = False) -> Command:
    """Add ``--gpu``.

    Args:
        function: the command [function].
        one: whether the command takes a single GPU [bool].

    Returns:
        The command with the option [function].
    """
    repeatable = "." if one else "; several with commas.  [default: all]"
    return click.option(
        "-g",
        "--gpu",
        "--system",
        "--hardware",
        "gpus",
        type=GpuName(),
        multiple=True,
        help=f"GPU, e.g. h100, 8xh100 or b200:tp4:fp8x2{repeatable}",
    )(function)


def specs_option(function: Command) -> Command:
    """Add ``--specs``.

    Args:
        function: the command [function].

    Returns:
        The command with the option [function].
    """
    return click.option(
        "--specs",
        type=PathName(),
        help="Folder of your own GPU and model files.  [default: $ROOFLINE_SPECS]",
    )(function)


def output_options(function: Command) -> Command:
    """Add ``--format``, ``--all`` and ``--notes``.

    Args:
        function: the command [function].

    Returns:
        The command with the options [function].
    """
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
    """Add ``--all`` and ``--notes``, which the first screen of an answer leaves out.

    Args:
        function: the command [function].

    Returns:
        The command with the options [function].
    """
    for name, flag, text in (
        ("with_notes", "--notes", "Print the notes: assumptions, and what was not checked."),
        ("is_full", "--all", "Print every row, not just the first ten."),
    ):
        function = click.option(
            flag, name, is_flag=True, expose_value=False, callback=partial(set_flag, name=name), help=text
        )(function)
    return function
