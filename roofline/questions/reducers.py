"""What is kept of the rows of a table, in words: the best, the first few, a frontier, a histogram, a share."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise
from typing import Any, TypeAlias

from roofline.numbers.quantity import MEGA
from roofline.questions.inputs.figures import figure_key, near_figures, with_unit
from roofline.serving.shown import KEYS, ROW_KEYS
from roofline.specs.keys import Key, Keys, better
from roofline.support.errors import BadInput, UnknownName, did_you_mean, shown
from roofline.support.records import NamedTuple

#: What is kept of each group, by its values of some keys: points of rows, or counts.
State: TypeAlias = dict[tuple[Any, ...], Any]

#: Kind -> how it is written.
FORMS = {
    "best": "best:KEY[:PER]",
    "top": "top:N:KEY[:PER]",
    "frontier": "frontier:KEY,KEY[:PER]",
    "histogram": "histogram:KEY[:EDGES][:PER]",
    "share": "share[:PER]",
}
_POINTS = ("best", "top", "frontier")
_MET, _REASON = "slo_met", "reason"
_EXAMPLES = "ttft_ms", "output_tok_s_gpu"
_MOST_KEPT = int(MEGA)  # rows of a reduction
_MOST_GROUPS = 100_000
_MOST_EDGES = 1000
_GROUPED = ("text", "flag", "number", "integer")
#: Keys of what is kept, beside those of a prediction: of rows, of the bins of a histogram, and of a share.
REDUCED_KEYS: Keys[Any] = {
    "reduction": Key.text("What was kept of the rows of a table, as `reduce` states it.", is_open=False),
    "row": Key.integer("1", "Number of the row in the table, from 0."),
    "bin_low": Key.number("as its key", "Lower end of a bin; null of the first, and of rows without the figure."),
    "bin_high": Key.number("as its key", "Upper end of a bin; null of the last, and of rows without the figure."),
    "row_count": Key.integer("1", "Rows of the table that are in the bin or group; of a data set, all of them."),
    "row_share": Key.number("1", "Share of the rows of the group that are in the bin.", is_open=False),
    "met_count": Key.integer("1", "Rows of the group that meet the SLO by the central estimate."),
    "unknown_count": Key.integer("1", "Rows of the group of which that is not known, or that have no times."),
    "met_share": Key.number("1", "Share of the rows of the group that meet the SLO.", is_open=False),
}
_BIN = ("bin_low", "bin_high", "row_count", "row_share")
_SHARE = ("row_count", "met_count", "unknown_count", "met_share")


class Reduction(NamedTuple):
    """One way to keep little of many rows."""

    text: str  # as it is written
    kind: str
    figures: tuple[str, ...] = ()  # keys
    per: tuple[str, ...] = ()  # keys whose values make groups
    most: int = 1  # rows of each group that stay
    edges: tuple[float, ...] = ()  # of bins; none: ten a decade

    @property
    def sides(self) -> tuple[float, ...]:
        """1.0 for figures of which more is better, -1.0 for others."""
        return tuple(better(KEYS[key]) or 1.0 for key in self.figures)

    @property
    def keeps_rows(self) -> bool:
        """Whether rows are kept, not counts."""
        return self.kind in _POINTS

    def keys(self, *, has_limits: bool) -> tuple[str, ...]:
        """Keys of a row that it reads."""
        needs_verdict = self.kind == "share" or (self.keeps_rows and has_limits)
        return (*self.figures, *self.per, *((_MET,) if needs_verdict else ()))


# Words.


def reductions_of(texts: Iterable[Any]) -> tuple[Reduction, ...]:
    """Reductions as callers write them.

    Raises:
        UnknownName: no such kind or key.
        BadInput: a text that is no reduction, or one that is given twice.

    >>> reductions_of(["best:ttft:gpu", "top:3:usd_per_m_output_tok"])[0].figures
    ('ttft_ms',)
    """
    if not isinstance(texts, (str, list, tuple)):
        raise BadInput(f"reduce = {shown(texts)} must be a list of texts such as best:ttft:gpu")
    found = tuple(map(_reduction_of, [texts] if isinstance(texts, str) else texts))
    for place, each in enumerate(found):
        if each.text in [other.text for other in found[:place]]:
            raise BadInput(f"reduce = {each.text} is given twice; leave one out")
    return found


def _reduction_of(text: Any) -> Reduction:
    if not isinstance(text, str):
        raise BadInput(f"reduce = {shown(text)} must be a text such as best:ttft:gpu")
    kind, *parts = [part.strip() for part in text.strip().split(":")]
    kind = kind.lower()
    if kind not in FORMS:
        from difflib import get_close_matches

        known = f"; choose from {', '.join(FORMS.values())}"
        raise UnknownName(f"unknown reduction {shown(text)}{did_you_mean(get_close_matches(kind, FORMS, 1))}{known}")
    count = 1
    edges: tuple[float, ...] = ()
    if kind == "top":
        count, parts = _count(text, parts[:1]), parts[1:]
    if kind == "histogram" and len(parts) > 1 and _is_numeric(parts[1]):
        edges, parts = _edges(text, parts[1]), [parts[0], *parts[2:]]
    figures: tuple[str, ...] = ()
    if kind != "share":
        figures, parts = _figures(kind, text, parts[:1]), parts[1:]
    if len(parts) > 1:
        raise BadInput(f"{shown(text)} has too many parts; write {FORMS[kind]}")
    per = tuple(_group_key(text, key.strip()) for part in parts for key in part.split(","))
    return Reduction(_text(kind, count, figures, edges, per), kind, figures, per, count, edges)


def _text(kind: str, count: int, figures: Sequence[str], edges: Sequence[float], per: Sequence[str]) -> str:
    """The one text of a reduction."""
    parts = [
        *([str(count)] if kind == "top" else []),
        ",".join(figures),
        ",".join(f"{edge:.17g}" if edge != round(edge, 6) else f"{edge:g}" for edge in edges),
        ",".join(per),
    ]
    return ":".join([kind, *filter(None, parts)])


def _count(text: str, parts: Sequence[str]) -> int:
    number = parts[0] if parts else ""
    if not number.isascii() or not number.isdecimal() or not 1 <= int(number[:9]) <= _MOST_KEPT or len(number) > 7:
        raise BadInput(f"{shown(text)}: how many rows? Write {FORMS['top']}, N from 1 to {_MOST_KEPT:,}")
    return int(number)


def _is_numeric(part: str) -> bool:
    return all(_number(number) is not None for number in part.split(","))


def _number(text: str) -> float | None:
    try:
        number = float(text)
    except ValueError:
        return None
    return number if abs(number) < float("inf") else None


def _edges(text: str, part: str) -> tuple[float, ...]:
    edges = tuple(number for each in part.split(",") if (number := _number(each)) is not None)
    if len(edges) > _MOST_EDGES or any(low >= high for low, high in pairwise(edges)):
        raise BadInput(f"{shown(text)}: edges of bins must rise, at most {_MOST_EDGES}, such as 50,100,200")
    return edges


def _figures(kind: str, text: str, parts: Sequence[str]) -> tuple[str, ...]:
    names = [name.strip() for part in parts for name in part.split(",") if name.strip()]
    wanted = 2 if kind == "frontier" else 1
    if len(names) != wanted:
        raise BadInput(f"{shown(text)} names {len(names)} figures in place of {wanted}; write {FORMS[kind]}")
    if kind == "histogram":
        return (_numeric_key(text, names[0]),)
    keys = tuple(figure_key(kind, name, *_EXAMPLES) for name in names)
    if len(set(keys)) < wanted:
        raise BadInput(f"{shown(text)} names {keys[0]} twice; a frontier needs two figures")
    return keys


def _numeric_key(text: str, name: str) -> str:
    key = with_unit(name)
    if key not in ROW_KEYS:
        raise UnknownName(f"unknown key {shown(name)} of a figure{near_figures(name)}")
    if KEYS[key].kind not in ("number", "integer"):
        raise BadInput(f"{shown(text)}: {key} is no number; choose a figure such as {_EXAMPLES[0]}")
    return key


def _group_key(text: str, name: str) -> str:
    key = with_unit(name)
    if key not in ROW_KEYS and key != _REASON:
        from difflib import get_close_matches

        raise UnknownName(f"{shown(text)}: unknown key {shown(name)}{did_you_mean(get_close_matches(name, ROW_KEYS))}")
    if key != _REASON and KEYS[key].kind not in _GROUPED:
        raise BadInput(f"{shown(text)}: rows cannot be grouped by {key}; choose a key such as gpu, tp or isl")
    return key


def check_limits(reductions: Sequence[Reduction], *, has_limits: bool) -> None:
    """Refuse a share of rows that meet an SLO where there is none."""
    if any(each.kind == "share" for each in reductions) and not has_limits:
        raise BadInput("share is of rows that meet the SLO; state one, e.g. slo = ttft:300,tpot:25")


# Rows of a block, and blocks together.


def reduced(reduction: Reduction, columns: Mapping[str, Any], rows: int, start: int, *, has_limits: bool) -> State:
    """What is kept of a block of rows, the first of which has the number `start`."""
    from roofline.numbers import reductions as arrays

    groups, which = arrays.row_groups(columns, reduction.per, rows)
    if reduction.kind == "share":
        met = columns[_MET]
        flags = [arrays.rows_with(met, True), arrays.rows_with(met, None)]  # noqa: FBT003
        return dict(zip(groups, arrays.counts_of(flags, which, len(groups)), strict=True))
    figures = [columns[key].values for key in reduction.figures]
    if reduction.kind == "histogram":
        counts = arrays.counts_in_bins(figures[0], bin_edges(reduction), which, len(groups))
        return dict(zip(groups, counts, strict=True))
    usable = arrays.rows_with(columns[_MET], True) if has_limits else None  # noqa: FBT003
    points, places = arrays.points_of(figures, usable, start)
    parts = arrays.divided(points, which[places], len(groups))
    return {group: _kept(reduction, part) for group, part in zip(groups, parts, strict=True) if len(part)}


def _kept(reduction: Reduction, points: Any) -> Any:
    from roofline.numbers import reductions as arrays

    if reduction.kind == "frontier":
        return arrays.frontier(points, reduction.sides)
    return arrays.best(points, reduction.sides, reduction.most)


def merged(reduction: Reduction, one: State, other: State) -> State:
    """What is kept of two blocks together; in any order the same.

    Raises:
        BadInput: more groups or rows than a reduction keeps.
    """
    whole = dict(one)
    for group, part in other.items():
        known = whole.get(group)
        if known is None:
            whole[group] = part
        elif reduction.keeps_rows:
            from roofline.numbers.reductions import joined

            whole[group] = _kept(reduction, joined(known, part))
        else:
            whole[group] = known + part
    if len(whole) > _MOST_GROUPS:
        raise BadInput(f"{reduction.text}: more than {_MOST_GROUPS:,} groups; group by keys with fewer values")
    if reduction.keeps_rows and sum(map(len, whole.values())) > _MOST_KEPT:
        raise BadInput(f"{reduction.text}: more than {_MOST_KEPT:,} rows are kept; ask for fewer, or fewer groups")
    return whole


def unit_of(text: str) -> str:
    """Unit of the bins of a histogram, as headings have it; none of a share or of what has no unit.

    >>> unit_of("histogram:ttft_ms:gpu"), unit_of("share:gpu")
    ('ms', '')
    """
    kind, _, rest = text.partition(":")
    unit = KEYS[rest.partition(":")[0]].unit if kind == "histogram" else None
    return "" if unit in (None, "1") else str(unit)


def bin_edges(reduction: Reduction) -> tuple[float, ...]:
    """Edges of the bins of a histogram."""
    if reduction.edges:
        return reduction.edges
    from roofline.numbers.reductions import decimal_edges

    return decimal_edges()


# States as JSON, and as rows.


def to_json(state: State) -> list[Any]:
    """A state as plain values."""
    return [[list(group), kept.tolist()] for group, kept in state.items()]


def from_json(reduction: Reduction, content: Sequence[Any]) -> State:
    """A state from plain values.

    Raises:
        ValueError: they are none.
    """
    from roofline.numbers.reductions import counts_of_lists, points_of_lists

    read = points_of_lists if reduction.keeps_rows else counts_of_lists
    return {tuple(group): read(kept) for group, kept in content}


def in_order(state: State) -> list[tuple[tuple[Any, ...], Any]]:
    """Groups in the order of their values, those without one last."""
    return sorted(state.items(), key=lambda item: [_sort_key(value) for value in item[0]])


def _sort_key(value: Any) -> tuple[Any, ...]:
    if value is None:
        return (3, 0)
    return (0, value) if isinstance(value, (bool, int, float)) else (1, str(value))


def counted_rows(reduction: Reduction, state: State) -> list[dict[str, Any]]:
    """Rows of a histogram or of a share."""
    rows: list[dict[str, Any]] = []
    for group, counts in in_order(state):
        of_group = dict(zip(reduction.per, group, strict=True))
        numbers: list[int] = counts.tolist()
        if reduction.kind == "share":
            every, met, unknown = numbers
            cells = zip(_SHARE, (every, met, unknown, met / every), strict=True)
            rows.append({**of_group, **dict(cells)})
            continue
        edges, every = bin_edges(reduction), sum(numbers)
        ends = [(None, edges[0]), *pairwise(edges), (edges[-1], None), (None, None)]
        for (low, high), count in zip(ends, numbers, strict=True):
            if count or reduction.edges:
                rows.append({**of_group, **dict(zip(_BIN, (low, high, count, count / every), strict=True))})
    return rows


def kept_rows(state: State) -> list[tuple[tuple[Any, ...], list[float]]]:
    """Groups, and figures and number of each row that is kept, in order."""
    return [(group, point) for group, points in in_order(state) for point in points.tolist()]
