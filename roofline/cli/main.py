"""The `roofline` command: one noun per question."""

from __future__ import annotations

from typing import Any

import click

import roofline
from roofline.cli.catalog import gpus, models
from roofline.cli.predict import knee, predict, tpot, ttft
from roofline.errors import RooflineError

__all__ = ["cli", "main"]


class _Questions(click.Group):
    """A group whose commands' own errors become one clear message and exit code 1."""

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except RooflineError as error:
            raise click.ClickException(str(error)) from None


@click.group(cls=_Questions, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(roofline.__version__, prog_name="roofline")
def cli() -> None:
    """Answer how fast a model runs on a GPU, and why.

    \b
    Examples:
      roofline ttft -m llama-3.1-70b --isl 2000
      roofline predict -m llama-3.1-70b -g h100-sxm --tp 4 --isl 2000 --osl 300 --batch 16 -q fp8
      roofline knee -m llama-3.1-8b -g h100 --slo ttft:300,tpot:25
      roofline gpus show h100-sxm

    \b
    Shell completion of commands, models and GPUs (bash; zsh and fish likewise):
      eval "$(_ROOFLINE_COMPLETE=bash_source roofline)"
    """


for _command in (ttft, tpot, predict, knee, gpus, models):
    cli.add_command(_command)


def main() -> None:
    """Run the command line."""
    cli()
