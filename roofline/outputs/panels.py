"""What pictures show, as data: panels of lines, points, bars and cells, and the ticks of their axes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from roofline.support.records import NamedTuple

#: Times the highest value, up to which a limit is drawn.
ROOM = 1.25
#: Approximate number of ticks on an axis above zero.
TICKS = 4
_WIDE = 2000.0
_TICKS_OF_A_DECADE = (1, 2, 5)


class Series(NamedTuple):
    label: str
    places: Sequence[float]
    values: Sequence[float]
    colour: int = 0  # place in the palette: what is one thing has one colour
    is_dashed: bool = False
    is_point: bool = False  # hollow where it is dashed
    band: tuple[Sequence[float], Sequence[float]] | None = None  # low and high ends of its values
    is_bare: bool = False  # a bound, without marks


#: Places in the palette of what is predicted, measured and a limit of the hardware.
PREDICTED, MEASURED, HARDWARE = 0, 1, 2


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
    texts: Sequence[tuple[float, float, str]] = ()  # beside points, in files


class Bar(NamedTuple):
    """A bar in parts, one after the other."""

    label: str
    parts: Sequence[float]  # by the names of the panel
    span: tuple[float, float] | None = None  # ends of the range of the whole


class Bars(NamedTuple):
    """Horizontal bars, the first on top."""

    title: str
    x_label: str
    names: Sequence[str]  # of the parts; a single empty one needs no legend
    bars: Sequence[Bar]
    levels: Mapping[str, float] = {}  # vertical lines by label
    has_values: bool = True  # beside the bars


class Cells(NamedTuple):
    """A heat map."""

    title: str
    x_label: str
    y_label: str
    places: Sequence[float]  # of columns
    heights: Sequence[float]  # of rows, the lowest first
    values: Sequence[Sequence[float | None]]  # by row; None: not known
    legend: str
    limit: float | None = None  # cells above it are marked


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


#: What a panel can be.
AnyPanel = Panel | Bars | Cells | Scatter


def is_wide(places: Sequence[float]) -> bool:
    """Whether a logarithmic axis counts in powers of ten, not of two."""
    return min(places) > 0.0 and max(places) > _WIDE * min(places)


def axis_ticks(low: float, high: float, *, is_log: bool) -> list[float]:
    """Round numbers between two ends of an axis."""
    if not is_log:
        step = float(f"{(high - low) / TICKS:.1g}") or 1.0
        return [step * part for part in range(int(low / step), int(high / step) + 1) if low <= step * part]
    first, last = (int(f"{end:e}".partition("e")[2]) for end in (low, high))
    ticks = [float(f"{digit}e{power}") for power in range(first, last + 1) for digit in _TICKS_OF_A_DECADE]
    ticks = [tick for tick in ticks if low <= tick <= high]
    return ticks or [low, high]
