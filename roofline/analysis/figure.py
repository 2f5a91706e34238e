"""Figures of matplotlib, made without a display."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from roofline.errors import BadInput, printable

_SALT = "roofline"  # of element ids in an SVG


def blank_figure(width: float, height: float, title: str, fontsize: str) -> Any:
    """A figure of this size [inch]."""
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
    from matplotlib import rc_context

    no_date = {"svg": {"Date": None}, "pdf": {"CreationDate": None}}.get(form)  # reproducible files
    try:
        with rc_context({"svg.hashsalt": _SALT}):
            figure.savefig(path, format=form, dpi=150, metadata=no_date)
    except ValueError as fault:
        raise BadInput(f"charts cannot be written as .{form}: {fault}") from None
