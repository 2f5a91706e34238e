"""matplotlib's home: a tornado chart of elasticities."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from roofline.analysis.sensitivity import Sensitivity
from roofline.errors import BadInput, printable

__all__ = ["tornado"]

_HEIGHT = 0.3  # [inch] of one bar
_WIDTH = 8.0  # [inch]
_COLOURS = {
    "rate": "tab:blue",
    "latency": "tab:red",
    "efficiency": "tab:cyan",
    "workload": "tab:orange",
    "precision": "tab:green",
    "plan": "tab:purple",
}


def tornado(rows: Sequence[Sensitivity], title: str, path: Path, form: str) -> None:
    """Write a tornado chart: one bar for each input, longest on top, one panel for each result.

    Args:
        rows: sensitivities, the most important of each result first.
        title: above the chart [text].
        path: of the file [path].
        form: format, such as png, svg or pdf [text].

    Raises:
        BadInput: matplotlib is not installed or knows no such format.
        OSError: it cannot be written.
    """
    try:
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure
        from matplotlib.patches import Patch
    except ImportError:
        raise BadInput('a chart needs matplotlib: pip install "roofline[plot]"') from None
    results = list(dict.fromkeys(row.result for row in rows))
    shares = [sum(row.result == result for row in rows) for result in results]
    figure = Figure(figsize=(_WIDTH, 1.0 + sum(_HEIGHT * share + 0.6 for share in shares)), layout="constrained")
    FigureCanvasAgg(figure)
    panels = figure.subplots(len(results), 1, squeeze=False, height_ratios=shares)[:, 0]
    for panel, result in zip(panels, results, strict=True):
        own = [row for row in rows if row.result == result]
        names = [row.input for row in own]
        panel.barh(names, [row.elasticity for row in own], color=[_COLOURS[row.kind] for row in own])
        panel.invert_yaxis()
        panel.axvline(0.0, color="black", linewidth=0.8)
        panel.set_title(f"{result}: per cent for each per cent of", fontsize="medium")
    kinds = list(dict.fromkeys(row.kind for row in rows))
    bars = [Patch(color=_COLOURS[kind], label=kind) for kind in kinds]
    figure.legend(handles=bars, loc="outside lower center", ncols=len(kinds), fontsize="small")
    figure.suptitle(printable(title), fontsize="small", parse_math=False)
    try:
        figure.savefig(path, format=form)
    except ValueError as fault:
        raise BadInput(f"no chart is written as .{form}: {fault}") from None
