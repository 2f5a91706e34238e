"""Charts of a load and of elasticities, in a terminal (plotext) or in a file (matplotlib)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import cycle, zip_longest
from pathlib import Path
from typing import Any

from roofline.formulas.sensitivity import Sensitivity
from roofline.numbers.quantity import rounded
from roofline.support.errors import BadInput, needing, printable
from roofline.support.records import NamedTuple

# Figures of matplotlib, made without a display.

_SALT = "roofline"  # of element ids in an SVG


def blank_figure(width: float, height: float, title: str, fontsize: str) -> Any:
    """A figure of this size [inch]."""
    with needing("charts need matplotlib", "plot"):
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure
    figure = Figure(figsize=(width, height), layout="constrained")
    FigureCanvasAgg(figure)
    figure.suptitle(printable(title, lines=True), fontsize=fontsize, parse_math=False)
    return figure


def write_figure(figure: Any, path: Path, form: str) -> None:
    from matplotlib import rc_context

    no_date = {"svg": {"Date": None}, "pdf": {"CreationDate": None}}.get(form)  # reproducible files
    try:
        with rc_context({"svg.hashsalt": _SALT}):
            figure.savefig(path, format=form, dpi=150, metadata=no_date)
    except ValueError as fault:
        raise BadInput(f"charts cannot be written as .{form}: {fault}") from None


# Charts of a load, in a terminal (plotext) or in a file (matplotlib).

_INCHES = (7.5, 3.3)  # of a panel
_WIDEST = 160  # terminal columns
_BETWEEN = 2  # columns between charts
_LOWEST = 8  # rows of a chart
_TICKS = 4  # approximate number on the y axis above zero
_ROOM = 1.25  # of the highest value, up to which a limit is drawn
_SIGNS = ("▞", "*", "o", "x", "+", "#", "@", "%")  # markers in the legend
_MARKERS = ("hd", "*", "o", "x", "+", "#", "@", "%")
_LINE_COLOURS = ("tab:blue", "tab:orange", "tab:green", "tab:red", "tab:purple", "tab:brown", "tab:pink", "tab:olive")


class Series(NamedTuple):
    label: str
    places: Sequence[float]
    values: Sequence[float]
    colour: int | str = 0  # index of its deployment, or a name of matplotlib
    is_dashed: bool = False
    is_point: bool = False
    band: tuple[Sequence[float], Sequence[float]] | None = None  # low and high ends of its values


#: Colours that people with any colour vision tell apart (Okabe and Ito, 2008).
BLUE, VERMILION, GREEN = "#0072B2", "#D55E00", "#009E73"
_RANGE, _SHORT_RANGE, _DOT = "80 % range", "range", "."  # of a band, in the legend


class Panel(NamedTuple):
    title: str
    x_label: str
    y_label: str
    series: Sequence[Series]
    levels: Mapping[str, float] = {}  # horizontal lines by label
    ends: Mapping[str, float] = {}  # vertical lines by label
    is_logarithmic: bool = False  # x axis
    top: float | None = None  # of the y axis; None for the highest value
    is_y_logarithmic: bool = False


def picture_form(path: str) -> str:
    """The format of a picture, which the suffix of its file names."""
    form = Path(path).suffix.lower().removeprefix(".")
    if not form:
        raise BadInput(
            f"{path}: not a picture; end the name in .svg, .png or .pdf (for rows: .csv, .json, .parquet, .xlsx)"
        )
    return form


def panels_text(panels: Sequence[Panel], width: int, height: int) -> str:
    """Charts for a terminal without colour, one below the other; height is in rows each."""
    return "\n\n".join(_terminal_panels(panels, width, height))


def panels_beside(panels: Sequence[Panel], width: int, most: int) -> str:
    """Charts for a terminal side by side, in at most so many lines where that leaves room for a chart."""
    each = (width - _BETWEEN * (len(panels) - 1)) // len(panels)
    height = most
    while True:
        parts = [text.split("\n") for text in _terminal_panels(panels, each, height)]
        over = max(map(len, parts)) - most
        if over <= 0 or height <= _LOWEST:
            break
        height = max(height - over, _LOWEST)
    rows = zip_longest(*parts, fillvalue="")
    return "\n".join((" " * _BETWEEN).join(line.ljust(each) for line in row).rstrip() for row in rows)


def _terminal_panels(panels: Sequence[Panel], width: int, height: int) -> list[str]:
    with needing("`plot` needs plotext", "plot"):
        import plotext
    texts = []
    for panel in panels:
        figure = plotext.figure
        figure.clear()
        figure.theme("colorless")
        figure.plot_size(min(width, _WIDEST), height)
        texts.append(_terminal_panel(plotext, figure, panel, width))
    return texts


def _terminal_panel(plotext: Any, figure: Any, panel: Panel, width: int) -> str:
    """One chart with the legend below, where it hides no line."""
    import math
    import textwrap

    def place(value: float) -> float:
        return math.log2(value) if panel.is_logarithmic else value

    highest = max((value for line in panel.series for value in (*line.values, *_high_ends(line))), default=1.0)
    highest = highest if panel.top is None else min(panel.top, highest)
    lowest = min((value for line in panel.series for value in line.values), default=1.0)

    def level(value: float) -> float:
        return math.log2(max(value, lowest)) if panel.is_y_logarithmic else value

    step = float(f"{highest / _TICKS:.1g}") or 1.0
    heights = [step * part for part in range(int(highest / step) + 1)]
    if panel.is_y_logarithmic:
        heights = _ticks(lowest, highest, is_log=True)
    figure.ruler("y").lim(level(0.0), level(highest))
    figure.ruler("y").ticks(list(map(level, heights)), list(map(rounded, heights)))
    legend_labels = []
    for line in panel.series:
        for ends in line.band or ():
            points = [(place(x), level(y)) for x, y in zip(line.places, ends, strict=True) if y <= highest]
            if points:
                figure.draw(figure.signal(*map(list, zip(*points, strict=True)), marker=_DOT).lines(active=True))
    legend_labels += [f"{_SIGNS[number % len(_SIGNS)]} {line.label}" for number, line in enumerate(panel.series)]
    for number, line in sorted(enumerate(panel.series), key=lambda entry: entry[1].is_point):  # points above lines
        points = [(place(x), level(y)) for x, y in zip(line.places, line.values, strict=True) if y <= highest]
        if not points:
            continue
        signal = figure.signal(*map(list, zip(*points, strict=True)), marker=_MARKERS[number % len(_MARKERS)])
        if not line.is_point:
            signal.lines(active=True)
        figure.draw(signal)
    if any(line.band for line in panel.series):
        legend_labels.append(f"{_DOT} {_SHORT_RANGE}")
    for label, value in panel.levels.items():
        if value <= highest * _ROOM:
            figure.line(level(value), "h")
            legend_labels.append(f"─ {label}")
    for label, value in panel.ends.items():
        figure.line(place(value), "v")
        legend_labels.append(f"│ {label}")
    if panel.is_logarithmic:
        ticks = sorted({x for line in panel.series for x in line.places})
        powers = [x for x in ticks if math.log2(x).is_integer()]
        shown = powers if len(powers) > 1 else ticks
        figure.ruler("x").ticks([place(x) for x in shown], [f"{x:g}" for x in shown])
    figure.title(printable(panel.title))
    figure.label(printable(panel.x_label), "x")
    text: str = plotext.uncolorize(str(figure.build()))
    legend = textwrap.wrap("   ".join(printable(label) for label in legend_labels), width, break_long_words=False)
    return "\n".join(line.rstrip() for line in [*text.splitlines(), *legend])


def _high_ends(line: Series) -> Sequence[float]:
    return () if line.band is None else line.band[1]


def draw_panels(panels: Sequence[Panel], title: str, path: Path, form: str, columns: int = 1) -> None:
    """Write charts to a file, one below the other, or in so many columns."""
    rows = -(-len(panels) // columns)
    figure = blank_figure(_INCHES[0] * columns, _INCHES[1] * rows + 0.5, title, "medium")
    places = figure.subplots(rows, columns, squeeze=False).flat
    for axes, panel in zip_longest(places, panels):
        if panel is None:
            axes.set_axis_off()
        else:
            _draw_panel(axes, panel)
    write_figure(figure, path, form)


def _draw_panel(axes: Any, panel: Panel) -> None:
    highest = 0.0
    for line in panel.series:
        named = line.colour if isinstance(line.colour, str) else None
        colour = named or _LINE_COLOURS[int(line.colour) % len(_LINE_COLOURS)]
        style: dict[str, Any] = {"linestyle": "--" if line.is_dashed else "-"}
        if line.is_point:
            style = {"marker": "o", "markersize": 8, "linestyle": "none"}
        axes.plot(line.places, line.values, color=colour, label=printable(line.label), **style)
        if line.band is not None:
            axes.fill_between(line.places, *line.band, color=colour, alpha=0.2, linewidth=0.0, label=_RANGE)
        highest = max(highest, *line.values, *_high_ends(line))
    for number, (label, value) in enumerate(panel.levels.items()):
        if value <= highest * _ROOM:
            axes.axhline(value, color="black", linewidth=0.8, linestyle=":")
            axes.annotate(
                printable(label), (0.005, value), xycoords=("axes fraction", "data"), va="bottom", fontsize="small",
                xytext=(number * 70.0, 1.0), textcoords="offset points",
            )  # fmt: skip
    for label, value in panel.ends.items():
        axes.axvline(value, color="grey", linewidth=0.8, linestyle="-.")
        axes.annotate(
            printable(label), (value, 0.98), xycoords=("data", "axes fraction"), rotation=90, va="top", ha="right",
            fontsize="x-small", color="grey",
        )  # fmt: skip
    if panel.is_logarithmic:
        axes.set_xscale("log", base=2)
        axes.xaxis.set_major_formatter(lambda value, _: f"{value:g}")
    if panel.is_y_logarithmic:
        axes.set_yscale("log")
        axes.yaxis.set_major_formatter(lambda value, _: rounded(value))
    lowest, above = (None, panel.top) if panel.is_y_logarithmic else (0.0, 1.05 * highest)
    axes.set_ylim(lowest, None if panel.top is None or above is None else min(panel.top, above))
    axes.set_title(printable(panel.title), fontsize="medium")
    axes.set_xlabel(printable(panel.x_label))
    axes.set_ylabel(printable(panel.y_label))
    axes.legend(fontsize="small")
    axes.grid(visible=True, linewidth=0.3)


# Points of a frontier, in a terminal or in a file.

_SCATTER_INCHES = (9.0, 6.0)
_OFFSET = 7.0  # points between a mark and its text
_TEXT = (0.9, 0.15)  # [inch] of a text
_TICKS_OF_A_DECADE = (1, 2, 5)
_LINE_STYLES = ("-", "--", ":", "-.")  # of owners beyond the colours


class Marked(NamedTuple):
    """A point of a frontier."""

    x: float
    y: float
    owner: str  # curve that it lies on
    text: str
    x_range: tuple[float, float] | None = None
    y_range: tuple[float, float] | None = None


class Scatter(NamedTuple):
    title: str
    x_label: str
    y_label: str
    curves: Mapping[str, Sequence[tuple[float, float]]]  # points by their owner
    frontier: Sequence[Marked]
    knee: int | None  # place in the frontier
    is_x_logarithmic: bool = False
    is_y_logarithmic: bool = False
    better: tuple[float, float] = (1.0, 1.0)  # side of each axis: 1.0 where more is, -1.0 where less is


def scatter_text(scatter: Scatter, width: int, height: int) -> str:
    """The points for a terminal without colour: a letter for each owner, a capital on the frontier, @ at the knee."""
    import math
    import textwrap

    with needing("the picture of a frontier needs plotext", "plot"):
        import plotext
    figure = plotext.figure
    figure.clear()
    figure.theme("colorless")
    figure.plot_size(min(width, _WIDEST), height)
    letters = {owner: chr(ord("a") + number % 26) for number, owner in enumerate(scatter.curves)}
    marks = [(letters[owner], x, y) for owner, curve in scatter.curves.items() for x, y in curve]
    marks += [(letters[point.owner].upper(), point.x, point.y) for point in scatter.frontier]
    if scatter.knee is not None:
        turn = scatter.frontier[scatter.knee]
        marks.append(("@", turn.x, turn.y))
    across, up = (
        [math.log10(value) if is_log else value for value in values]
        for values, is_log in (
            ([x for _, x, _ in marks], scatter.is_x_logarithmic),
            ([y for _, _, y in marks], scatter.is_y_logarithmic),
        )
    )
    for (letter, _, _), x, y in zip(marks, across, up, strict=True):
        figure.draw(figure.signal([x], [y], marker=letter))
    for name, places, values, is_log in (
        ("x", across, [x for _, x, _ in marks], scatter.is_x_logarithmic),
        ("y", up, [y for _, _, y in marks], scatter.is_y_logarithmic),
    ):
        ticks = _ticks(min(values), max(values), is_log=is_log)
        room = 0.0 if max(places) > min(places) else 1.0  # around a single value
        figure.ruler(name).lim(min(places) - room, max(places) + room)
        figure.ruler(name).ticks([math.log10(tick) if is_log else tick for tick in ticks], list(map(rounded, ticks)))
    figure.title(printable(f"{scatter.y_label} (up) against {scatter.x_label}"))
    text: str = plotext.uncolorize(str(figure.build()))
    legend = [f"{letter} {owner}" for owner, letter in letters.items()]
    legend += ["capitals: frontier", *(["@ knee"] if scatter.knee is not None else [])]
    lines = textwrap.wrap("   ".join(map(printable, legend)), width, break_long_words=False)
    return "\n".join(line.rstrip() for line in [*text.splitlines(), *lines])


def draw_scatter(scatter: Scatter, path: Path, form: str) -> None:
    """Write the points to a file: a line for each owner, the frontier with its ranges and texts, and the knee."""
    figure = blank_figure(*_SCATTER_INCHES, scatter.title, "medium")
    axes = figure.subplots()
    colours = dict(zip(scatter.curves, cycle(_LINE_COLOURS), strict=False))
    for number, (owner, curve) in enumerate(scatter.curves.items()):
        places, values = zip(*curve, strict=True)
        style = _LINE_STYLES[number // len(_LINE_COLOURS) % len(_LINE_STYLES)]
        axes.plot(
            places, values, color=colours[owner], label=printable(owner), linestyle=style, marker=".", markersize=4,
            linewidth=1.0,
        )  # fmt: skip
    _draw_frontier(axes, scatter, colours)
    for axis, name, is_log in (
        (axes.xaxis, "x", scatter.is_x_logarithmic),
        (axes.yaxis, "y", scatter.is_y_logarithmic),
    ):
        if is_log:
            getattr(axes, f"set_{name}scale")("log")
            axis.set_ticks(_ticks(*axis.get_view_interval(), is_log=True))
            axis.set_minor_locator(_no_ticks())
            axis.set_major_formatter(lambda value, _: rounded(value))
    _write_plans(axes, scatter, colours)
    axes.set_xlabel(printable(scatter.x_label))
    axes.set_ylabel(printable(scatter.y_label))
    axes.legend(fontsize="small")
    axes.grid(visible=True, linewidth=0.3)
    write_figure(figure, path, form)


def _draw_frontier(axes: Any, scatter: Scatter, colours: Mapping[str, str]) -> None:
    """A band along the frontier, its points with their ranges, and the knee."""
    points = scatter.frontier
    axes.plot(
        [point.x for point in points], [point.y for point in points], color="black", alpha=0.15, linewidth=8.0,
        solid_capstyle="round", label="frontier", zorder=0,
    )  # fmt: skip
    label: str | None = "80 % range"
    for point in points:
        error = {
            "xerr": None if point.x_range is None else [[point.x - point.x_range[0]], [point.x_range[1] - point.x]],
            "yerr": None if point.y_range is None else [[point.y - point.y_range[0]], [point.y_range[1] - point.y]],
        }
        has_range = any(error.values())
        axes.errorbar(
            point.x, point.y, **error, color="grey", ecolor="grey", elinewidth=0.6, marker="o", markersize=4,
            markerfacecolor=colours[point.owner], linestyle="none", label=label if has_range else None, alpha=0.8,
        )  # fmt: skip
        label = None if has_range else label
    if scatter.knee is not None:
        turn = points[scatter.knee]
        axes.plot(
            turn.x, turn.y, marker="*", markersize=16, color="gold", markeredgecolor="black", linestyle="none",
            label="knee", zorder=5,
        )  # fmt: skip


def _write_plans(axes: Any, scatter: Scatter, colours: Mapping[str, str]) -> None:
    """The plan beside each point where it changes, on the better side, where another does not stand there already."""
    written: list[tuple[float, float]] = []
    inch = axes.figure.dpi
    before: Marked | None = None
    for point in scatter.frontier:
        is_new = before is None or (before.owner, before.text) != (point.owner, point.text)
        before = point
        x, y = (float(place) / inch for place in axes.transData.transform((point.x, point.y)))
        if not is_new or any(abs(x - other) < _TEXT[0] and abs(y - height) < _TEXT[1] for other, height in written):
            continue
        written.append((x, y))
        across, up = scatter.better
        axes.annotate(
            printable(point.text), (point.x, point.y), xytext=(_OFFSET * across, _OFFSET * up), fontsize="x-small",
            textcoords="offset points", color=colours[point.owner], ha="left" if across > 0.0 else "right",
            va="bottom" if up > 0.0 else "top",
        )  # fmt: skip


def _no_ticks() -> Any:
    from matplotlib.ticker import NullLocator

    return NullLocator()


def _ticks(low: float, high: float, *, is_log: bool) -> list[float]:
    """Round numbers between two ends of an axis."""
    if not is_log:
        step = float(f"{(high - low) / _TICKS:.1g}") or 1.0
        return [step * part for part in range(int(low / step), int(high / step) + 1) if low <= step * part]
    first, last = (int(f"{end:e}".partition("e")[2]) for end in (low, high))
    ticks = [float(f"{digit}e{power}") for power in range(first, last + 1) for digit in _TICKS_OF_A_DECADE]
    ticks = [tick for tick in ticks if low <= tick <= high]
    return ticks or [low, high]


# A tornado chart of elasticities.

_HEIGHT = 0.3  # [inch] of one bar
_WIDTH = 8.0  # [inch]
_GROUP_COLOURS = {
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
        panel.barh(names, [row.elasticity for row in bars], color=[_GROUP_COLOURS[row.kind] for row in bars])
        panel.invert_yaxis()
        panel.axvline(0.0, color="black", linewidth=0.8)
        panel.set_title(f"{result}: % change per 1 % change of", fontsize="medium")
    kinds = list(dict.fromkeys(row.kind for row in rows))
    patches = [Patch(color=_GROUP_COLOURS[kind], label=kind) for kind in kinds]
    figure.legend(handles=patches, loc="outside lower center", ncols=len(kinds), fontsize="small")
    write_figure(figure, path, form)
