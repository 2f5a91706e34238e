"""Sweeps among results: their summary on a screen, and their charts, for the `check` command."""

from __future__ import annotations

from collections.abc import Sequence

from roofline.cli.options import HIGH, TERMINAL, echo, is_picture_asked, save_plot
from roofline.cli.screen import flags, prose, room, terminal_width
from roofline.numbers.quantity import counted
from roofline.questions.check import MeasurementCheck
from roofline.questions.sweeps import MeasuredSweep, named_apart, no_sweep_text
from roofline.support.errors import BadInput

_MOST = 4  # sweeps on a first screen


def sweep_lines(sweeps: Sequence[MeasuredSweep], *, is_full: bool) -> list[str]:
    """The only sweep in full; of several a line each where they share a screen."""
    named = named_apart(sweeps)
    if is_full or len(named) == 1:
        lines = [line for sweep in named for line in sweep.lines]
    else:
        lines = [sweep.brief for sweep in named[:_MOST]]
        more = f"{counted(len(sweeps) - _MOST, 'more sweep')}, " if len(sweeps) > _MOST else ""
        lines += [f"{more}step lines and saturation: --all"] if sweeps else []
    return [part for line in lines for part in _wrapped(line)]


def _wrapped(line: str) -> list[str]:
    """A line in the width of the terminal; what goes on is indented more."""
    inside = len(line) - len(line.lstrip())
    return prose(line, None, " " * (inside + 4)).split("\n")


def drawn(sweeps: Sequence[MeasuredSweep], runs: Sequence[MeasurementCheck], plot: str | None) -> bool:
    """Save the charts to a file, if any; show them where that is asked for, and say whether."""
    if plot is None and not is_picture_asked():
        return False
    if not sweeps:
        raise BadInput(f"nothing to draw: {no_sweep_text(runs)}")
    from roofline.questions.sweep_pictures import first_sweep_text, sweep_picture, sweeps_text

    save_plot(plot, lambda: sweep_picture(sweeps))
    if plot != TERMINAL:
        return False
    lines, width = room(flags()), terminal_width() - 1
    if lines is None:
        echo(sweeps_text(sweeps, width, HIGH))
    else:
        brief = _wrapped(sweeps[0].brief)
        echo("\n".join([*brief, first_sweep_text(sweeps[0], width, lines - len(brief) - 1)]))
        others = "" if len(sweeps) == 1 else f", {counted(len(sweeps) - 1, 'other sweep')}"
        echo(f"throughput, TPOT against sequences{others}: --all")
    return True
