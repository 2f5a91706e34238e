"""Pictures as data: panels of lines, points, bars and cells with the case below; as text for a terminal (plotext)."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import zip_longest
from pathlib import Path
from typing import Any

from roofline.numbers.quantity import rounded
from roofline.outputs.files import write_whole
from roofline.outputs.panels import ROOM, TICKS, AnyPanel, Bars, Cells, Panel, Scatter, Series, axis_ticks, is_wide
from roofline.support.errors import BadInput, needing, printable
from roofline.support.records import NamedTuple

# Panels.

_WIDEST = 160  # terminal columns
_BETWEEN = 2  # columns between charts
_LOWEST = 8  # rows of a chart
_SHORT_RANGE, _DOT = "range", "."  # of a band, in the legend
_SIGNS = ("▞", "*", "o", "x", "+", "#", "@", "%")  # markers in the legend
_MARKERS = ("hd", "*", "o", "x", "+", "#", "@", "%")


class Picture(NamedTuple):
    """What a picture shows, before it is drawn."""

    title: str
    panels: Sequence[AnyPanel]
    footer: str = ""  # the whole case
    columns: int | None = None  # of panels; None: by their number

    def save(self, path: str, *, force: bool = False) -> None:
        """Write it to a file, whose suffix names the format; a name such as ``x.dark.svg`` makes it dark.

        Raises:
            BadInput: a suffix of no picture, a file that exists without `force`, or matplotlib is missing.
        """
        form = picture_form(path)
        from roofline.outputs.drawing import draw

        is_dark = Path(path).stem.lower().endswith(DARK)
        write_whole(path, lambda file: draw(*self, file, form, is_dark=is_dark), force=force)

    def text(self, width: int = 79, height: int = 20) -> str:
        """Its panels for a terminal, one below the other; height is in rows each."""
        parts = [_text_of(panel, width, height) for panel in self.panels]
        footer = f"\n{_wrapped(printable(self.footer), width)}" if self.footer else ""
        return "\n\n".join([printable(self.title, lines=True), *parts]) + footer

    def first_text(self, width: int, most: int) -> tuple[str, int]:
        """Its first panels for a terminal, two side by side or as many as so many lines hold, and how many they are."""
        beside = [panel for panel in self.panels if isinstance(panel, Panel)][:_BESIDE]
        if len(beside) == len(self.panels[:_BESIDE]):
            return panels_beside(beside, width, most), len(beside)
        left = most
        parts: list[str] = []
        for panel in self.panels:
            text = _text_of(panel, width, left - _LEGEND)
            if parts and len(text.split("\n")) > left:
                break
            parts.append(text)
            left -= len(text.split("\n")) + 1
            if left < _LOWEST:
                break
        return "\n\n".join(parts), len(parts)

    def _repr_svg_(self) -> str:
        """For a notebook."""
        from io import BytesIO

        from roofline.outputs.drawing import draw

        content = BytesIO()
        draw(*self, content, "svg", is_dark=False)
        return content.getvalue().decode()


#: At the end of a file's name before the suffix: a picture on a dark ground.
DARK = ".dark"
_BESIDE = 2  # panels side by side on a screen
_LEGEND = 3  # rows that a legend may take


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
    return [_terminal_panel(_figure(width, height), panel, width) for panel in panels]


def _figure(width: int, height: int) -> Any:
    """An empty figure of plotext without colour."""
    with needing("charts in a terminal need plotext", "plot"):
        import plotext
    plotext.figure.clear()
    plotext.figure.theme("colorless")
    plotext.figure.plot_size(min(width, _WIDEST), height)
    return plotext.figure


def _text_with_legend(figure: Any, labels: Sequence[str], width: int) -> str:
    """A figure as text with the legend below, where it hides no line."""
    import plotext

    text: str = plotext.uncolorize(str(figure.build()))
    legend = _wrapped("   ".join(map(printable, labels)), width)
    return "\n".join(line.rstrip() for line in [*text.splitlines(), *legend.splitlines()])


def _terminal_panel(figure: Any, panel: Panel, width: int) -> str:
    import math

    def place(value: float) -> float:
        return math.log2(value) if panel.is_logarithmic else value

    highest = max((value for line in panel.series for value in (*line.values, *_high_ends(line))), default=1.0)
    highest = highest if panel.top is None else min(panel.top, highest)
    lowest = min((value for line in panel.series for value in line.values), default=1.0)

    def level(value: float) -> float:
        return math.log2(max(value, lowest)) if panel.is_y_logarithmic else value

    step = float(f"{highest / TICKS:.1g}") or 1.0
    heights = [step * part for part in range(int(highest / step) + 1)]
    if panel.is_y_logarithmic:
        heights = axis_ticks(lowest, highest, is_log=True)
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
        if value <= highest * ROOM:
            figure.line(level(value), "h")
            legend_labels.append(f"─ {label}")
    for label, value in panel.ends.items():
        figure.line(place(value), "v")
        legend_labels.append(f"│ {label}")
    if panel.is_logarithmic:
        ticks = sorted({x for line in panel.series for x in line.places})
        powers = [float(2**power) for power in range(-64, 64) if ticks[0] <= 2.0**power <= ticks[-1]]
        shown = powers if len(powers) > 1 else ticks
        if is_wide(ticks):
            shown = [x for x in axis_ticks(ticks[0], ticks[-1], is_log=True) if f"{x:e}"[0] == "1"]
        figure.ruler("x").ticks([place(x) for x in shown], [f"{x:g}" for x in shown])
    else:
        across = [x for line in panel.series for x in line.places] + list(panel.ends.values())
        shown = axis_ticks(min(across), max(across), is_log=False)
        figure.ruler("x").ticks(shown, list(map(rounded, shown)))
    figure.title(printable(panel.title))
    figure.label(printable(panel.x_label), "x")
    return _text_with_legend(figure, legend_labels, width)


def _high_ends(line: Series) -> Sequence[float]:
    return () if line.band is None else line.band[1]


# Points of a frontier.


def scatter_text(scatter: Scatter, width: int, height: int) -> str:
    """The points for a terminal without colour: a letter for each owner, a capital on the frontier, @ at the knee."""
    import math

    figure = _figure(width, height)
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
        ticks = axis_ticks(min(values), max(values), is_log=is_log)
        room = 0.0 if max(places) > min(places) else 1.0  # around a single value
        figure.ruler(name).lim(min(places) - room, max(places) + room)
        figure.ruler(name).ticks([math.log10(tick) if is_log else tick for tick in ticks], list(map(rounded, ticks)))
    figure.title(printable(f"{scatter.y_label} (up) against {scatter.x_label}"))
    legend = [f"{letter} {owner}" for owner, letter in letters.items()]
    legend += ["capitals: frontier", *(["@ knee"] if scatter.knee is not None else [])]
    return _text_with_legend(figure, legend, width)


# Bars and cells, in a terminal.

_BAR_SIGNS = ("#", "=", "+", "*", "o", "x", "-", "~", "%", "@")
_LONGEST = 34  # columns of a label


def _text_of(panel: AnyPanel, width: int, height: int) -> str:
    if isinstance(panel, Bars):
        return bars_text(panel, width, height)
    if isinstance(panel, Cells):
        return cells_text(panel, width)
    if isinstance(panel, Scatter):
        return scatter_text(panel, width, height)
    return panels_text([panel], width, height)


def bars_text(panel: Bars, width: int, height: int | None = None) -> str:
    """Bars with their values; a range as ``(low to high)``. At most `height` lines, where one is given."""
    bars = panel.bars if height is None else panel.bars[: max(height - 2, 1)]
    values = [sum(bar.parts) for bar in bars]
    figures = [
        rounded(value) + ("" if bar.span is None else f" ({rounded(bar.span[0])} to {rounded(bar.span[1])})")
        for bar, value in zip(bars, values, strict=True)
    ]
    labels = [printable(bar.label) for bar in bars]
    labels = [label if len(label) <= _LONGEST else f"{label[: _LONGEST - 3]}..." for label in labels]
    indent, end = max(map(len, labels)), max(map(len, figures))
    room = max(width - indent - end - 2, 1)
    most = max((sum(map(abs, bar.parts)) for bar in bars), default=1.0) or 1.0
    lines = [printable(f"{panel.title} [{panel.x_label}]" if panel.x_label else panel.title)]
    for label, bar, figure in zip(labels, bars, figures, strict=True):
        drawn, reached = "", 0.0
        for sign, part in zip(_signs(len(panel.names)), bar.parts, strict=True):
            reached += abs(part)
            drawn += sign * (round(room * reached / most) - len(drawn))
        lines.append(f"{label:<{indent}} {drawn:<{room}} {figure}".rstrip())
    hidden = len(panel.bars) - len(bars)
    legend = [f"{sign} {name}" for sign, name in zip(_signs(len(panel.names)), panel.names, strict=True) if name]
    legend += [f"{name} {rounded(value)}" for name, value in panel.levels.items()]
    legend += [f"{hidden} more"] if hidden else []
    return "\n".join([*lines, *([_wrapped("   ".join(map(printable, legend)), width)] if legend else [])])


def _signs(number: int) -> list[str]:
    return [_BAR_SIGNS[place % len(_BAR_SIGNS)] for place in range(number)]


def cells_text(panel: Cells, width: int) -> str:
    """A heat map as a table of figures; those above the limit have a mark."""
    rows = [["", *(rounded(place) for place in panel.places)]]
    for height, values in sorted(zip(panel.heights, panel.values, strict=True), reverse=True):
        rows.append([rounded(height), *(_cell(value, panel.limit) for value in values)])
    sizes = [max(map(len, column)) for column in zip(*rows, strict=True)]
    while sum(sizes) + len(sizes) - 1 > width and len(sizes) > _BESIDE:
        sizes = [*sizes[:1], *sizes[2:]]  # narrow screens leave out the smallest places
        rows = [[*row[:1], *row[2:]] for row in rows]
    lines = [" ".join(cell.rjust(size) for cell, size in zip(row, sizes, strict=True)).rstrip() for row in rows]
    mark = "" if panel.limit is None else f"; ! above {rounded(panel.limit)}"
    said = f"{panel.title}: {panel.legend}; {panel.y_label} (down) against {panel.x_label} (across){mark}"
    return "\n".join([_wrapped(printable(said), width), *lines])


def _cell(value: float | None, limit: float | None) -> str:
    if value is None:
        return "-"
    return rounded(value) + ("!" if limit is not None and value > limit else " " if limit is not None else "")


def _wrapped(text: str, width: int) -> str:
    import textwrap

    return "\n".join(textwrap.wrap(text, width, break_long_words=False))
