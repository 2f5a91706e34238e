"""Figures of matplotlib: made without a display, written in the format that is asked for."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from roofline.errors import BadInput, printable

__all__ = ["blank_figure", "write_figure"]

_SALT = "roofline"  # of the names of parts of an SVG


def blank_figure(width: float, height: float, title: str, fontsize: str) -> Any:
    """A figure that needs no display.

    Args:
        width: of it [inch].
        height: of it [inch].
        title: above its panels [text].
        fontsize: of the title, a name of matplotlib's [text].

    Returns:
        matplotlib's figure.

    Raises:
        BadInput: matplotlib is not installed.
    """
    try:
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure
    except ImportError:
        raise BadInput('charts need matplotlib: pip install "roofline[plot]"') from None
    figure = Figure(figsize=(width, height), layout="constrained")
    FigureCanvasAgg(figure)
    figure.suptitle(printable(title), fontsize=fontsize, parse_math=False)
    return figure


def write_figure(figure: Any, path: Path, form: str) -> None:
    """Write a figure to a file.

    Args:
        figure: of `blank_figure`.
        path: of the file [path].
        form: format, such as png, svg or pdf [text].

    Raises:
        BadInput: matplotlib knows no such format.
        OSError: it cannot be written.
    """
    from matplotlib import rc_context

    undated = {"svg": {"Date": None}, "pdf": {"CreationDate": None}}.get(form)  # the same answer, the same file
    try:
        with rc_context({"svg.hashsalt": _SALT}):
            figure.savefig(path, format=form, dpi=150, metadata=undated)
    except ValueError as fault:
        raise BadInput(f"charts cannot be written as .{form}: {fault}") from None
