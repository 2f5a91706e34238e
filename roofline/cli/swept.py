"""Sweeps among results: their summary on a screen, and their charts, for the `check` command."""

from __future__ import annotations

from collections.abc import Sequence

from roofline.cli.options import echo
from roofline.cli.screen import flags, prose, room, terminal_width
from roofline.questions.check import MeasurementCheck
from roofline.questions.sweeps import MeasuredSweep, no_sweep_text
from roofline.support.errors import BadInput

_MOST = 4  # sweeps on a first screen
_HIGH = 20  # rows of a chart that need not share a screen
_INDENT = "    "  # of a line that goes on


def sweep_lines(sweeps: Sequence[MeasuredSweep], *, is_full: bool) -> list[str]:
    """The only sweep in full; of several a line each where they share a screen."""
    if is_full or len(sweeps) == 1:
        lines = [line for sweep in sweeps for line in sweep.lines]
    else:
        lines = [sweep.brief for sweep in sweeps[:_MOST]]
        if len(sweeps) > 1:
            more = f"{len(sweeps) - _MOST} more sweeps, " if len(sweeps) > _MOST else ""
            lines.append(f"{more}step lines and saturation: --all")
    return [part for line in lines for part in prose(line, None, _INDENT).split("\n")]


def drawn(
    sweeps: Sequence[MeasuredSweep], runs: Sequence[MeasurementCheck], picture: str | None, *, in_terminal: bool
) -> bool:
    """Save the charts to a file, if any; show them where that is asked for, and say whether."""
    if not in_terminal and picture is None:
        return False
    if not sweeps:
        raise BadInput(f"nothing to draw: {no_sweep_text(runs)}")
    from roofline.questions.sweep_pictures import first_sweep_text, save_sweeps, sweeps_text

    if picture is not None:
        save_sweeps(sweeps, picture, force=flags().force)
        echo(f"wrote {picture}", err=True)
    if in_terminal:
        lines, width = room(flags()), terminal_width() - 1
        if lines is None:
            echo(sweeps_text(sweeps, width, _HIGH))
        else:
            echo(prose(sweeps[0].brief, None, _INDENT))
            used = prose(sweeps[0].brief, None, _INDENT).count("\n") + 1
            echo(first_sweep_text(sweeps[0], width, lines - used - 1))
            echo("throughput, TPOT against sequences, other sweeps: --all")
    return in_terminal
