"""The `roofline` command: one noun per question."""

from __future__ import annotations

import errno
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from importlib import import_module
from io import TextIOWrapper
from typing import Any

import click

import roofline
from roofline.errors import RooflineError, printable

__all__ = ["cli", "main"]

#: Command -> module that holds it; a module is imported when its command is asked for.
_COMMANDS = {
    "ttft": "roofline.cli.predict",
    "tpot": "roofline.cli.predict",
    "predict": "roofline.cli.predict",
    "knee": "roofline.cli.predict",
    "sensitivity": "roofline.cli.sensitivity",
    "formula": "roofline.cli.formula",
    "solve": "roofline.cli.solve",
    "quantize": "roofline.cli.quantize",
    "compare": "roofline.cli.compare",
    "size": "roofline.cli.size",
    "goodput": "roofline.cli.goodput",
    "curve": "roofline.cli.curve",
    "sweep": "roofline.cli.sweep",
    "sheet": "roofline.cli.sheet",
    "check": "roofline.cli.check",
    "calibrate": "roofline.cli.calibrate",
    "gpus": "roofline.cli.catalog",
    "models": "roofline.cli.catalog",
    "workloads": "roofline.cli.catalog",
    "check-specs": "roofline.cli.catalog",
}


class _Questions(click.Group):
    """A group whose commands' own errors become one clear message and exit code 1."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002
        return list(_COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002
        home = _COMMANDS.get(cmd_name)
        command: click.Command | None = (
            None if home is None else getattr(import_module(home), cmd_name.replace("-", "_"))
        )
        return command

    def make_context(self, *args: Any, **extra: Any) -> click.Context:
        with _printable_errors():
            return super().make_context(*args, **extra)

    def invoke(self, ctx: click.Context) -> Any:
        with _printable_errors():
            try:
                return super().invoke(ctx)
            except RooflineError as error:
                raise click.ClickException(str(error)) from None


@contextmanager
def _printable_errors() -> Iterator[None]:
    """A message that quotes what was typed is fit for any terminal, too."""
    try:
        yield
    except click.ClickException as error:
        vars(error)["message"] = printable(error.message, lines=True)
        raise


_SETTINGS: dict[str, Any] = {
    "help_option_names": ["-h", "--help"],
    "token_normalize_func": lambda token: token.replace("_", "-"),  # --tensor_parallel_size works, too
}


@click.group(cls=_Questions, context_settings=_SETTINGS)
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


def main() -> None:
    """Run the command line; a closed pipe ends quietly, a full disk or a closed output with one message."""
    _open_streams()
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")  # letters that the terminal's encoding does not have
    try:
        try:
            cli()
        finally:
            sys.stdout.flush()
    except OSError as error:
        if error.errno != errno.EPIPE:
            with suppress(OSError):
                click.echo(f"Error: cannot write the answer: {error.strerror}", err=True)
        _discard()
        sys.exit(1)
    finally:
        try:
            sys.stderr.flush()
        except OSError:
            _discard()


def _open_streams() -> None:
    """Put a stream where the caller closed one: what is written to the output fails as on a full disk, notes are lost.

    No file that is opened later takes their number, so that no text of ours ends in it.
    """
    for number, name, mode in ((0, "stdin", os.O_RDONLY), (1, "stdout", os.O_RDONLY), (2, "stderr", os.O_WRONLY)):
        if getattr(sys, name) is not None:
            continue
        opened = os.open(os.devnull, mode)
        if opened != number:
            os.dup2(opened, number)
            os.close(opened)
        setattr(sys, name, open(number, "r" if name == "stdin" else "w", encoding="utf-8", closefd=False))  # noqa: SIM115


def _discard() -> None:
    """Let what is left to be written end nowhere: nothing more can be written where it was to go."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError):
            os.dup2(nowhere, stream.fileno())
