"""A tornado chart of elasticities."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from roofline.analysis.figure import blank_figure, write_figure
from roofline.analysis.sensitivity import Sensitivity

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
    results = list(dict.fromkeys(row.result for row in rows))
    shares = [sum(row.result == result for row in rows) for result in results]
    height = 1.0 + sum(_HEIGHT * share + 0.6 for share in shares)
    figure = blank_figure(_WIDTH, height, title, "small")
    from matplotlib.patches import Patch

    panels = figure.subplots(len(results), 1, squeeze=False, height_ratios=shares)[:, 0]
    for panel, result in zip(panels, results, strict=True):
        own = [row for row in rows if row.result == result]
        names = [row.input for row in own]
        panel.barh(names, [row.elasticity for row in own], color=[_COLOURS[row.kind] for row in own])
        panel.invert_yaxis()
        panel.axvline(0.0, color="black", linewidth=0.8)
        panel.set_title(f"{result}: % change per 1 % change of", fontsize="medium")
    kinds = list(dict.fromkeys(row.kind for row in rows))
    bars = [Patch(color=_COLOURS[kind], label=kind) for kind in kinds]
    figure.legend(handles=bars, loc="outside lower center", ncols=len(kinds), fontsize="small")
    write_figure(figure, path, form)
