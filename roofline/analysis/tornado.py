"""A tornado chart of elasticities."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from roofline.analysis.figure import blank_figure, write_figure
from roofline.analysis.sensitivity import Sensitivity

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
    """Write a chart with a panel per result and a bar per input, in the order of the rows."""
    results = list(dict.fromkeys(row.result for row in rows))
    shares = [sum(row.result == result for row in rows) for result in results]
    height = 1.0 + sum(_HEIGHT * share + 0.6 for share in shares)
    figure = blank_figure(_WIDTH, height, title, "small")
    from matplotlib.patches import Patch

    panels = figure.subplots(len(results), 1, squeeze=False, height_ratios=shares)[:, 0]
    for panel, result in zip(panels, results, strict=True):
        bars = [row for row in rows if row.result == result]
        names = [row.input for row in bars]
        panel.barh(names, [row.elasticity for row in bars], color=[_COLOURS[row.kind] for row in bars])
        panel.invert_yaxis()
        panel.axvline(0.0, color="black", linewidth=0.8)
        panel.set_title(f"{result}: % change per 1 % change of", fontsize="medium")
    kinds = list(dict.fromkeys(row.kind for row in rows))
    patches = [Patch(color=_COLOURS[kind], label=kind) for kind in kinds]
    figure.legend(handles=patches, loc="outside lower center", ncols=len(kinds), fontsize="small")
    write_figure(figure, path, form)
