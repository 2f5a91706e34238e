"""Pictures in files (matplotlib): 16:9 for a slide, light or dark, with the whole case at the foot."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import chain, pairwise
from typing import Any

from roofline.numbers.quantity import rounded
from roofline.outputs.panels import ROOM, AnyPanel, Bars, Cells, Marked, Panel, Scatter, Series, axis_ticks, is_wide
from roofline.support.errors import BadInput, needing, printable
from roofline.support.records import NamedTuple

_SALT = "roofline"  # of element ids in an SVG
_INCHES = (40.0 / 3.0, 7.5)  # of a slide
_DPI = 150
_MOST = 4  # panels that share a slide in this size; of more, both sides grow
_FOOT = 190  # characters in a line of the footer
_HEADING = 120  # characters above all panels of a row
_RANGE = "80 % range"


class _Theme(NamedTuple):
    ground: str
    ink: str
    faint: str
    palette: Sequence[str]


#: Colours that people with any colour vision tell apart (Okabe and Ito, 2008).
_BLUE, _VERMILION, _GREEN, _ORANGE, _SKY, _PURPLE, _YELLOW = (
    "#0072B2", "#D55E00", "#009E73", "#E69F00", "#56B4E9", "#CC79A7", "#F0E442",
)  # fmt: skip
_LIGHT = _Theme("white", "#1A1A1A", "#6B6B6B", (_BLUE, _VERMILION, _GREEN, _ORANGE, _SKY, _PURPLE, "#1A1A1A"))
_DARK = _Theme("#14171C", "#F2F2F2", "#A9AFB8", (_SKY, _VERMILION, _GREEN, _ORANGE, _YELLOW, _PURPLE, "#F2F2F2"))
_MARKERS = ("o", "s", "^", "D", "v", "P", "X")
_HATCHES = ("", "///", "...", "xx")  # of bars beyond the colours
_MARKS = 8  # along a line


def draw(
    title: str, panels: Sequence[AnyPanel], footer: str, columns: int | None, file: Any, form: str, *, is_dark: bool
) -> None:
    """Write a picture to a path or an open file.

    Raises:
        BadInput: a format that cannot be written, or matplotlib is missing.
    """
    with needing("charts need matplotlib", "plot"):
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure
    from matplotlib import rc_context

    theme = _DARK if is_dark else _LIGHT
    no_date = {"svg": {"Date": None}, "pdf": {"CreationDate": None}}.get(form)  # reproducible files
    settings: Any = {"svg.hashsalt": _SALT, **_settings(theme)}
    with rc_context(settings):
        columns = columns or _columns(len(panels))
        rows = -(-len(panels) // columns)
        growth = max(len(panels) / _MOST, 1.0) ** 0.5
        figure = Figure(figsize=(_INCHES[0] * growth, _INCHES[1] * growth), layout="constrained")
        FigureCanvasAgg(figure)
        figure.suptitle(
            printable(title, lines=True), x=0.01, ha="left", fontsize="large", weight="bold", parse_math=False
        )
        if footer:
            figure.supxlabel(
                _broken(footer, round(_FOOT * growth)), x=0.01, ha="left", fontsize=9.0, color=theme.faint,
                parse_math=False,
            )  # fmt: skip
        places = list(figure.subplots(rows, columns, squeeze=False).flat)
        for axes, panel in zip(places, panels, strict=False):
            _draw_panel(axes, panel, theme)
            if isinstance(panel, Bars) and any(panel.names) and not _shared_names(panels):
                axes.legend(loc="upper center", bbox_to_anchor=(0.5, 0.0), borderaxespad=4.0, ncols=4, frameon=False)
            axes.set_title(_broken(axes.get_title(loc="left"), _HEADING // columns), loc="left")
        for axes in places[len(panels) :]:
            axes.set_axis_off()
        if _shared_names(panels):
            figure.legend(*places[0].get_legend_handles_labels(), loc="outside upper right", ncols=8, frameon=False)
        figure.draw_without_rendering()
        figure.set_layout_engine("none")  # texts go where lines leave room, which must not move any more
        for axes, panel in zip(places, panels, strict=False):
            _write_on(axes, panel, theme)
        try:
            figure.savefig(file, format=form, dpi=_DPI, metadata=no_date)
        except ValueError as fault:
            raise BadInput(f"charts cannot be written as .{form}: {fault}") from None


def _shared_names(panels: Sequence[AnyPanel]) -> bool:
    """Whether bars of all panels have the same parts, which then share a legend."""
    names = {tuple(panel.names) if isinstance(panel, Bars) else () for panel in panels}
    return len(panels) > 1 and len(names) == 1 and any(names.pop())


def _settings(theme: _Theme) -> dict[str, Any]:
    inks = ("axes.edgecolor", "axes.labelcolor", "text.color", "xtick.color", "ytick.color", "hatch.color")
    grounds = ("figure.facecolor", "axes.facecolor", "savefig.facecolor", "legend.facecolor")
    return {
        **dict.fromkeys(inks, theme.ink),
        **dict.fromkeys(grounds, theme.ground),
        "grid.color": theme.faint,
        "font.size": 12.0,
        "axes.titlesize": 11.5,
        "axes.spines.top": False,
        "axes.spines.right": False,
        "legend.fontsize": "small",
        "lines.linewidth": 2.0,
        "hatch.linewidth": 0.6,
    }


def _columns(panels: int) -> int:
    """Panels beside each other in a wide picture."""
    return panels if panels <= _MOST - 1 else -(-panels // 2) if panels <= 2 * _MOST else _MOST


def _broken(text: str, width: int) -> str:
    from textwrap import wrap

    return "\n".join(wrap(printable(text), width, break_on_hyphens=False))


def _draw_panel(axes: Any, panel: AnyPanel, theme: _Theme) -> None:
    if isinstance(panel, Bars):
        _draw_bars(axes, panel, theme)
    elif isinstance(panel, Cells):
        _draw_cells(axes, panel)
    elif isinstance(panel, Scatter):
        _draw_scatter(axes, panel, theme)
    else:
        _draw_lines(axes, panel, theme)


def _write_on(axes: Any, panel: AnyPanel, theme: _Theme) -> None:
    """Texts beside what is drawn, once its place is known."""
    if isinstance(panel, Panel):
        _label_lines(axes, panel, theme)
    elif isinstance(panel, Scatter):
        _write_plans(axes, panel, theme)


def _colour(theme: _Theme, place: int) -> str:
    return theme.palette[place % len(theme.palette)]


# Lines and points.


def _draw_lines(axes: Any, panel: Panel, theme: _Theme) -> None:
    highest = 0.0
    for line in panel.series:
        colour, marker = _colour(theme, line.colour), _MARKERS[line.colour % len(_MARKERS)]
        style: dict[str, Any] = {"linestyle": "--" if line.is_dashed else "-", "markersize": 5}
        style["markevery"] = max(len(line.places) // _MARKS, 1)
        if line.is_point:
            style = {"markersize": 9, "linestyle": "none", "markeredgecolor": theme.ground}
        if line.is_point and line.is_dashed:
            style |= {"markerfacecolor": "none", "markeredgecolor": colour, "markeredgewidth": 2.0}
        if line.is_bare:
            marker = ""
        axes.plot(line.places, line.values, color=colour, marker=marker, **style)
        if line.band is not None:
            axes.fill_between(line.places, *line.band, color=colour, alpha=0.18, linewidth=0.0)
        highest = max(highest, *line.values, *(line.band[1] if line.band else ()))
    for value in panel.levels.values():
        if value <= highest * ROOM:
            axes.axhline(value, color=theme.ink, linewidth=1.2, linestyle=":")
    for value in panel.ends.values():
        axes.axvline(value, color=theme.faint, linewidth=1.0, linestyle="-.")
    places = [place for line in panel.series for place in line.places]
    if panel.is_logarithmic:
        base = 10 if is_wide(places) else 2
        axes.set_xscale("log", base=base)
        axes.xaxis.set_major_formatter(lambda value, _: f"{value:g}")
    if panel.is_y_logarithmic:
        axes.set_yscale("log")
        axes.yaxis.set_major_formatter(lambda value, _: rounded(value))
    lowest, above = (None, panel.top) if panel.is_y_logarithmic else (0.0, 1.05 * highest)
    axes.set_ylim(lowest, None if panel.top is None or above is None else min(panel.top, above))
    bands = ", 80 % band" if any(line.band for line in panel.series) else ""
    axes.set_title(printable(panel.title) + bands, loc="left")
    axes.set_xlabel(printable(panel.x_label))
    axes.set_ylabel(printable(panel.y_label))
    axes.grid(visible=True, linewidth=0.3)


_Box = tuple[float, float, float, float]  # left, bottom, right, top [pixel]
_GAP = 6.0  # pixels between a line and its text
_ALONG = (0.98, 0.9, 0.8, 0.7, 0.6, 0.5, 0.4, 0.3, 0.2, 0.1, 0.02)  # of a line, where its text may stand
_SIDES = (("right", "bottom"), ("left", "top"), ("left", "bottom"), ("right", "top"))
_STEP = 4.0  # pixels between points of a line that a text must not cover


def _label_lines(axes: Any, panel: Panel, theme: _Theme) -> None:
    """Names beside lines where they cover nothing; a legend where one would."""
    taken: list[_Box] = []
    named = [(line.label, _visible(axes, line), _colour(theme, line.colour)) for line in panel.series]
    across = axes.get_window_extent()
    levels = []
    for label, value in panel.levels.items():
        height = axes.transData.transform((1.0, value))[1]
        if across.y0 <= height <= across.y1:
            levels.append((label, list(_between([(across.x0, height), (across.x1, height)])), theme.ink))
    covered = [point for _, path, _ in [*named, *levels] for point in path]
    for label, value in panel.ends.items():
        taken.append(_upright(axes, label, value, theme.faint, covered))
    for label, path, colour in levels:
        _placed(axes, label, path, colour, covered, taken, is_forced=True)
    if panel.texts:  # among so many points the legend comes first
        taken.append(_legend(axes, panel, "lower right").get_window_extent().extents)
    for x, y, label in panel.texts:
        _placed(axes, label, [tuple(axes.transData.transform((x, y)))], theme.ink, covered, taken, size="x-small")
    if panel.texts:
        return
    texts = [_placed(axes, label, path, colour, covered, taken) for label, path, colour in named if label and path]
    if None in texts:
        for text in texts:
            if text is not None:
                text.remove()
        _legend(axes, panel, "best")


def _legend(axes: Any, panel: Panel, place: str) -> Any:
    lines = zip(axes.get_lines(), panel.series, strict=False)
    shown = [(handle, printable(line.label)) for handle, line in lines if line.label]
    return axes.legend(*map(list, zip(*shown, strict=True)), loc=place)


def _upright(axes: Any, label: str, value: float, colour: str, covered: Sequence[tuple[float, ...]]) -> _Box:
    """A text along a vertical line, at the end and on the side where it covers the least; its box."""
    found: tuple[int, Any] | None = None
    for height, end in ((0.98, "top"), (0.02, "bottom")):
        for side in ("right", "left"):
            text = axes.annotate(
                printable(label), (value, height), xycoords=("data", "axes fraction"), rotation=90, va=end, ha=side,
                xytext=(-3.0 if side == "right" else 3.0, 0.0), textcoords="offset points", fontsize="x-small",
                color=colour, parse_math=False,
            )  # fmt: skip
            extent, room = text.get_window_extent(), axes.get_window_extent()
            is_outside = extent.x1 > room.x1
            covers = sum(_holds(extent.extents, point) for point in covered) + (1000 if is_outside else 0)
            if found is None or covers < found[0]:
                if found is not None:
                    found[1].remove()
                found = covers, text
            else:
                text.remove()
    box: _Box = found[1].get_window_extent().extents if found is not None else (0.0, 0.0, 0.0, 0.0)
    return box


def _visible(axes: Any, line: Series) -> list[tuple[float, float]]:
    """Pixels of a line inside the axes."""
    box = axes.get_window_extent()
    points = [tuple(axes.transData.transform(point)) for point in zip(line.places, line.values, strict=True)]
    path = points if line.is_point else list(_between(points))
    return [(x, y) for x, y in path if box.x0 <= x <= box.x1 and box.y0 <= y <= box.y1]


def _between(points: Sequence[tuple[float, ...]]) -> Iterator[tuple[float, float]]:
    """Points along a line, close to each other."""
    for (x, y), (right, up) in pairwise(points):
        steps = int(min(max(abs(right - x), abs(up - y)) / _STEP, 1000.0)) + 1
        for part in range(steps):
            yield x + (right - x) * part / steps, y + (up - y) * part / steps
    if points:
        yield points[-1][0], points[-1][1]


def _placed(
    axes: Any,
    label: str,
    path: Sequence[tuple[float, ...]],
    colour: str,
    covered: Sequence[tuple[float, ...]],
    taken: list[_Box],
    *,
    is_forced: bool = False,
    size: str = "small",
) -> Any:
    """A text beside a line where it covers neither a line nor a text; None where there is no such place."""
    text = axes.annotate(
        printable(label), (0.0, 0.0), xycoords="figure pixels", color=colour, fontsize=size, parse_math=False
    )
    extent, room = text.get_window_extent(), axes.get_window_extent()
    wide, high = extent.width, extent.height
    spots = [path[min(int(place * len(path)), len(path) - 1)] for place in _ALONG] if len(path) > 1 else path[:1]
    for x, y in spots:
        for side, end in _SIDES:
            left = x - _GAP - wide if side == "right" else x + _GAP
            low = y + _GAP if end == "bottom" else y - _GAP - high
            box = (left, low, left + wide, low + high)
            is_inside = room.x0 <= left and box[2] <= room.x1 and room.y0 <= low and box[3] <= room.y1
            if is_inside and not any(_holds(box, point) for point in covered) and not _meets(box, taken):
                taken.append(box)
                text.set_position((0.0, 0.0))
                text.xy = axes.transData.inverted().transform((left, low))
                text.xycoords = "data"
                text.set_horizontalalignment("left")
                text.set_verticalalignment("bottom")
                text.anncoords = "offset points"
                return text
    if is_forced and path:
        text.xy, text.xycoords, text.anncoords = axes.transData.inverted().transform(path[0]), "data", "offset points"
        text.set_position((2.0, 2.0))
        taken.append(text.get_window_extent().extents)
        return text
    text.remove()
    return None


def _holds(box: _Box, point: tuple[float, ...]) -> bool:
    return box[0] - 2.0 < point[0] < box[2] + 2.0 and box[1] - 2.0 < point[1] < box[3] + 2.0


def _meets(box: _Box, others: Sequence[_Box]) -> bool:
    return any(box[0] < right and left < box[2] and box[1] < top and low < box[3] for left, low, right, top in others)


# Bars and cells.

_BESIDE_ONE, _BESIDE_BOTH = 0.15, 0.35  # of the width, for values beside bars on one side or on both
_LABEL = 40  # characters in a line of a label


def _draw_bars(axes: Any, panel: Bars, theme: _Theme) -> None:
    heights = list(range(len(panel.bars)))
    starts = [0.0] * len(panel.bars)
    for number, name in enumerate(panel.names):
        parts = [bar.parts[number] for bar in panel.bars]
        hatch = _HATCHES[number // len(theme.palette) % len(_HATCHES)]
        axes.barh(heights, parts, left=starts, color=_colour(theme, number), hatch=hatch, label=printable(name) or None)
        starts = [start + part for start, part in zip(starts, parts, strict=True)]
    reached = [0.0]
    for height, bar, end in zip(heights, panel.bars, starts, strict=True):
        edge = end if end < 0.0 else max(end, *bar.span) if bar.span else end
        reached += [end, edge]
        if bar.span is not None:
            low, high = bar.span
            axes.errorbar(
                end, height, xerr=[[max(end - low, 0.0)], [max(high - end, 0.0)]], color=theme.ink, capsize=4,
                linewidth=1.2,
            )  # fmt: skip
        if not panel.has_values:
            continue
        axes.annotate(
            rounded(end), (edge, height), xytext=(5.0 if end >= 0.0 else -5.0, 0.0), textcoords="offset points",
            va="center", ha="left" if end >= 0.0 else "right", fontsize="small",
            bbox={"facecolor": theme.ground, "edgecolor": "none", "pad": 1.0},
        )  # fmt: skip
    for label, value in panel.levels.items():
        axes.axvline(value, color=theme.ink, linewidth=1.2, linestyle=":")
        axes.annotate(
            printable(f"{label} {rounded(value)}"), (value, 0.0), xycoords=("data", "axes fraction"), xytext=(4.0, 3.0),
            textcoords="offset points", fontsize="x-small", va="bottom", ha="left",
        )  # fmt: skip
    axes.set_yticks(heights, [_broken(bar.label, _LABEL) for bar in panel.bars], fontsize="small")
    axes.invert_yaxis()
    axes.axvline(0.0, color=theme.ink, linewidth=0.8)
    low, high = min(reached), max(reached)
    room = (high - low) * ((_BESIDE_BOTH if low < 0.0 else _BESIDE_ONE) if panel.has_values else 0.0)
    axes.set_xlim(low - (room if low < 0.0 else 0.0), (high + (room if high > 0.0 else 0.0)) or 1.0)
    axes.set_title(printable(panel.title), loc="left")
    axes.set_xlabel(printable(panel.x_label))
    axes.grid(visible=True, axis="x", linewidth=0.3)
    axes.set_axisbelow(True)


def _draw_cells(axes: Any, panel: Cells) -> None:
    from matplotlib.colors import LogNorm

    known = [value for value in chain.from_iterable(panel.values) if value is not None]
    figures = [[float("nan") if value is None else value for value in row] for row in panel.values]
    norm = LogNorm(min(known), max(known)) if min(known) > 0.0 and max(known) > min(known) else None
    image = axes.imshow(figures, origin="lower", aspect="auto", cmap="cividis", norm=norm)
    for up, row in enumerate(panel.values):
        for across, value in enumerate(row):
            if value is None:
                continue
            red, green, blue, _ = image.cmap(image.norm(value))
            ink = "black" if 0.3 * red + 0.6 * green + 0.1 * blue > 0.5 else "white"
            is_over = panel.limit is not None and value > panel.limit
            text = f"{rounded(value)}{' x' if is_over else ''}"
            axes.text(across, up, text, ha="center", va="center", fontsize="x-small", color=ink)
    axes.set_xticks(range(len(panel.places)), [rounded(place) for place in panel.places])
    axes.set_yticks(range(len(panel.heights)), [rounded(height) for height in panel.heights])
    over = "" if panel.limit is None else f" (x: above {rounded(panel.limit)})"
    axes.set_title(printable(f"{panel.title}: {panel.legend}{over}"), loc="left")
    axes.set_xlabel(printable(panel.x_label))
    axes.set_ylabel(printable(panel.y_label))


# Points of a frontier.

_OFFSET = 7.0  # points between a mark and its text
_TEXT = (1.2, 0.2)  # [inch] of a text
_LINE_STYLES = ("-", "--", ":", "-.")  # of owners beyond the colours


def _draw_scatter(axes: Any, scatter: Scatter, theme: _Theme) -> None:
    """A line for each owner, the frontier with its ranges, and the knee."""
    colours = _owners(scatter, theme)
    for number, (owner, curve) in enumerate(scatter.curves.items()):
        places, values = zip(*curve, strict=True)
        axes.plot(
            places, values, color=colours[owner], label=printable(owner), markersize=5, linewidth=1.4,
            linestyle=_LINE_STYLES[number // len(theme.palette) % len(_LINE_STYLES)],
            marker=_MARKERS[number % len(_MARKERS)],
        )  # fmt: skip
    _draw_frontier(axes, scatter, theme, colours)
    for axis, name, is_log in (
        (axes.xaxis, "x", scatter.is_x_logarithmic),
        (axes.yaxis, "y", scatter.is_y_logarithmic),
    ):
        if is_log:
            getattr(axes, f"set_{name}scale")("log")
            axis.set_ticks(axis_ticks(*axis.get_view_interval(), is_log=True))
            axis.set_minor_locator(_no_ticks())
            axis.set_major_formatter(lambda value, _: rounded(value))
    axes.set_xlabel(printable(scatter.x_label))
    axes.set_ylabel(printable(scatter.y_label))
    axes.legend()
    axes.grid(visible=True, linewidth=0.3)


def _owners(scatter: Scatter, theme: _Theme) -> dict[str, str]:
    return {owner: _colour(theme, number) for number, owner in enumerate(scatter.curves)}


def _draw_frontier(axes: Any, scatter: Scatter, theme: _Theme, colours: Mapping[str, str]) -> None:
    """A band along the frontier, its points with their ranges, and the knee."""
    points = scatter.frontier
    axes.plot(
        [point.x for point in points], [point.y for point in points], color=theme.ink, alpha=0.15, linewidth=10.0,
        solid_capstyle="round", label="frontier", zorder=0,
    )  # fmt: skip
    label: str | None = _RANGE
    for point in points:
        error = {
            "xerr": None if point.x_range is None else [[point.x - point.x_range[0]], [point.x_range[1] - point.x]],
            "yerr": None if point.y_range is None else [[point.y - point.y_range[0]], [point.y_range[1] - point.y]],
        }
        has_range = any(error.values())
        axes.errorbar(
            point.x, point.y, **error, color=theme.faint, ecolor=theme.faint, elinewidth=0.8, marker="o", markersize=5,
            markerfacecolor=colours[point.owner], linestyle="none", label=label if has_range else None, alpha=0.8,
        )  # fmt: skip
        label = None if has_range else label
    if scatter.knee is not None:
        turn = points[scatter.knee]
        axes.plot(
            turn.x, turn.y, marker="*", markersize=20, color=_YELLOW, markeredgecolor=theme.ink, linestyle="none",
            label="knee", zorder=5,
        )  # fmt: skip


def _write_plans(axes: Any, scatter: Scatter, theme: _Theme) -> None:
    """The plan beside each point where it changes, on the better side, where another does not stand there already."""
    colours = _owners(scatter, theme)
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
