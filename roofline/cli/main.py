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
from roofline.cli.mistakes import reword
from roofline.errors import RooflineError

_HOME, _ROOM = "roofline.cli.commands.", "levers."
#: Section -> commands, their module (empty or ``levers.``: one module per command), a sentence of help. Modules are
#: imported when their command runs.
SECTIONS: dict[str, tuple[tuple[tuple[str, ...], str, str], ...]] = {
    "Ask": (
        (("predict",), "predict", "Predict latency, throughput, memory and cost."),
        (("ttft", "tpot", "knee"), "predict", "Show one of these on every GPU, best first."),
        (("size",), "", "Find the fewest GPUs that meet an SLO."),
        (("goodput", "curve"), "", "Find the load within an SLO, or draw them."),
        (("cost",), "levers.", "Price tokens, and compare with an API."),
        (("sweep",), "", "Predict every combination of many cases."),
    ),
    "Why": (
        (("compare", "quantize"), "", "Compare GPUs or formats, and say why."),
        (("sensitivity", "solve"), "", "Rank inputs; find one that meets a target."),
        (("formula",), "", "Write out the closed form of an answer."),
    ),
    "Plan": (
        (("levers",), "levers.", "Rank what would help, alone and together."),
        (("cache", "speculate"), "levers.", "See what cached prompts or drafts bring."),
        (("disaggregate",), "levers.", "Separate pools for prompts and answers."),
        (("sheet",), "", "Write a sizing workbook with live formulas."),
    ),
    "Measure": ((("check", "calibrate"), "", "Judge a benchmark; fit kernels you timed."),),
    "Catalog": (
        (("gpus", "models", "workloads"), "catalog", "List them, or show one with its sources."),
        (("check-specs",), "catalog", "Check specification files of your own."),
    ),
}
_COMMANDS = {
    name: _HOME + (module + name if module in ("", _ROOM) else module)
    for entries in SECTIONS.values()
    for names, module, _ in entries
    for name in names
}
_GAP = 2


class _Questions(click.Group):
    """A group that turns errors of the API into a message and exit code 1."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002
        return list(_COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002
        home = _COMMANDS.get(cmd_name)
        command: click.Command | None = (
            None if home is None else getattr(import_module(home), cmd_name.replace("-", "_"))
        )
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002
        rows = [
            (section if place == 0 else "", ", ".join(names), sentence)
            for section, entries in SECTIONS.items()
            for place, (names, _, sentence) in enumerate(entries)
        ]
        wide = [max(len(row[column]) for row in rows) + _GAP for column in (0, 1)]
        formatter.write("\n")
        for section, names, sentence in rows:
            formatter.write(f"{section.ljust(wide[0])}{names.ljust(wide[1])}{sentence}\n")

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write commands only; the usage shows both options."""
        self.format_commands(ctx, formatter)

    def make_context(self, *args: Any, **extra: Any) -> click.Context:
        with _reworded_errors():
            return super().make_context(*args, **extra)

    def invoke(self, ctx: click.Context) -> Any:
        with _reworded_errors():
            try:
                return super().invoke(ctx)
            except RooflineError as error:
                raise click.ClickException(str(error)) from None


@contextmanager
def _reworded_errors() -> Iterator[None]:
    """Reword errors of click, and escape what they quote."""
    try:
        yield
    except click.ClickException as error:
        reword(error, tuple(_COMMANDS))
        raise


_SETTINGS: dict[str, Any] = {
    "help_option_names": ["--help", "-h"],
    "token_normalize_func": lambda token: token.replace("_", "-"),  # --tensor_parallel_size
}


@click.group(
    cls=_Questions,
    context_settings=_SETTINGS,
    options_metavar="[--help | --version]",
    subcommand_metavar="COMMAND [--help | OPTIONS]",
    help="How fast will this model answer on this GPU, and why?",
    epilog="\b\nroofline ttft -m llama-3.1-70b --isl 2000     every GPU, the fastest first"
    "\nroofline size -m llama-3.1-70b -q fp8 --slo ttft:300 --isl 4k -c 64",
)
@click.version_option(roofline.__version__, prog_name="roofline")
def cli() -> None:
    """Entry point; the commands do the work."""


def main() -> None:
    """Run the command line; a closed pipe ends silently, a full disk or a closed output with one message."""
    _open_streams()
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")  # letters missing in the terminal's encoding
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
    """Replace standard streams that the caller closed: writing to stdout fails as on a full disk, stderr is lost.

    Their file descriptors are taken, so that no text ends in a file opened later.
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
    """Send what is still buffered to the null device, as the output cannot take it."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError):
            os.dup2(nowhere, stream.fileno())
