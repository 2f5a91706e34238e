"""Entries of the catalog: chosen by kind or size, their figures with sources, and their text as YAML."""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, TypeVar

from roofline.numbers.quantity import BILLION, DIMENSIONS, count_from_text, from_text, rounded
from roofline.physics.memory import parameters
from roofline.specs.gpu import Gpu
from roofline.specs.keys import SHARED, Key, Keys, cells, taken
from roofline.specs.model import FFNS, MIXERS, Model
from roofline.specs.names import LABELS, fold
from roofline.support.errors import BadInput, UnknownName, shown
from roofline.support.records import NamedTuple

# GPUs by vendor, generation and status; models by family, size and kind.

_Entry = TypeVar("_Entry", Gpu, Model)
_UNBOUNDED = float("inf")


def chosen_gpus(
    gpus: Iterable[Gpu], vendor: str | None = None, generation: str | None = None, status: str | None = None
) -> list[Gpu]:
    """GPUs whose vendor, generation and status begin with these words: ``blackwell`` includes ``blackwell-ultra``."""
    listed = chosen = list(gpus)
    criteria: tuple[tuple[str, str | None, Callable[[Gpu], str]], ...] = (
        ("vendor", vendor, lambda gpu: gpu.vendor),
        ("generation", generation, lambda gpu: gpu.generation),
        ("status", status, lambda gpu: gpu.status),
    )
    for criterion in criteria:
        names = {gpu.name for gpu in _matching(listed, "gpu", *criterion)}
        chosen = [gpu for gpu in chosen if gpu.name in names]
    return chosen


def chosen_models(
    models: Iterable[Model],
    family: str | None = None,
    min_parameters: float | None = None,
    max_parameters: float | None = None,
    moe: bool | None = None,
) -> list[Model]:
    """Models whose family begins with a word, by number of parameters, idle experts included, and by kind."""
    least, most = _bound("min_parameters", min_parameters, 0.0), _bound("max_parameters", max_parameters, _UNBOUNDED)
    if least > most:
        fewest, largest = (f"{rounded(bound / BILLION)} B" for bound in (least, most))
        raise BadInput(f"min_parameters = {fewest} must not exceed max_parameters = {largest}")
    chosen = list(_matching(list(models), "model", "family", family, lambda model: model.family))
    if moe is not None:
        chosen = [model for model in chosen if model.is_moe == moe]
    if min_parameters is None and max_parameters is None:
        return chosen
    return [model for model in chosen if least <= parameters(model).total <= most]


def _bound(name: str, value: float | None, default: float) -> float:
    if value is None:
        return default
    try:
        number = float(value)
    except (TypeError, ValueError, OverflowError):
        number = -1.0
    if isinstance(value, (bool, str)) or not number >= 0.0:
        raise BadInput(f"{name} = {shown(value)} must be a number of parameters")
    return number


def _matching(
    entries: Sequence[_Entry], kind: str, what: str, word: str | None, property_of: Callable[[_Entry], str]
) -> Sequence[_Entry]:
    """Entries with a property that begins with the word; all entries where it is None."""
    if word is None:
        return entries
    prefix = fold(word) if isinstance(word, str) else ""
    matching = [entry for entry in entries if prefix and fold(property_of(entry)).startswith(prefix)]
    if not matching:
        known = ", ".join(sorted({property_of(entry) for entry in entries} - {""}, key=str.lower)) or "none"
        raise UnknownName(f"no {LABELS[kind]} has {what} {shown(word)}; choose from {known}")
    return matching


# Figures of a specification, each with its source, date, note and confidence.

_PROVENANCE = ("source", "note", "confidence")


class Figure(NamedTuple):
    """One figure of a specification and its provenance."""

    field: str
    value: str
    source: str  # title of the source
    url: str
    date: str
    note: str
    confidence: str


#: Keys of a row of a figure.
FIGURE_KEYS: Keys[Figure] = {
    "field": Key.text("Field of the specification.", is_open=False),
    **taken(SHARED, value=None, source=None, url=None, date=None, note=None),
    "confidence": Key.text("How sure the figure is."),
    "si_value": Key.number("as `si_unit`", "The figure in SI.", lambda f: _si(f)[0]),
    "si_unit": Key.text("SI unit of the figure.", lambda f: _si(f)[1]),
}


def figure_row(figure: Figure) -> dict[str, Any]:
    """Flat row of the JSON contract."""
    return cells(FIGURE_KEYS, figure)


def _si(figure: Figure) -> tuple[float | None, str | None]:
    return si_value(figure.field, figure.value) or (None, None)


def figures(content: Mapping[str, Any]) -> list[Figure]:
    """All figures of a specification in the order of the file."""
    return list(_walk("", content, content.get("sources", {})))


def sources(content: Mapping[str, Any]) -> list[Figure]:
    """The sources of a specification, with their keys as `field`."""
    return [_of_source(key, entry) for key, entry in content.get("sources", {}).items()]


def _of_source(field: str, source: Mapping[str, Any], value: str = "", note: str = "", confidence: str = "") -> Figure:
    url = str(source.get("url", ""))
    return Figure(field, value, str(source["title"]), url, str(source["date"]), note, confidence)


def si_value(field: str, text: object) -> tuple[float, str] | None:
    """SI value and unit of a figure; None if it is neither a quantity nor a count.

    >>> si_value("memory.bandwidth", "3.35 TB/s")
    (3350000000000.0, 'B/s')
    """
    value = int(text) if isinstance(text, str) and text.isdecimal() else text
    if field.startswith("parameters."):
        return count_from_text(value), "1"
    if isinstance(value, int) and not isinstance(value, bool):
        return float(value), "1"
    for dimension in DIMENSIONS:
        try:
            return from_text(text, dimension), dimension
        except BadInput:  # the units of the dimensions are disjoint
            continue
    return None


_WITHOUT_UNITS = ("sources", "encoders")


def with_si(content: Mapping[str, Any]) -> dict[str, Any]:
    """A specification with `si_value` and `si_unit` added to its figures; those of a price are by key."""
    return {key: item if key in _WITHOUT_UNITS else _add_si(str(key), item) for key, item in content.items()}


def _add_si(field: str, value: Any) -> Any:
    if isinstance(value, list):
        return [_add_si(field, item) for item in value]
    if not isinstance(value, Mapping):
        return value
    if "source" not in value:
        return {key: _add_si(f"{field}.{key}", item) for key, item in value.items()}
    if "value" in value:
        quantity = si_value(field, value["value"])
        return {**value, **({} if quantity is None else {"si_value": quantity[0], "si_unit": quantity[1]})}
    quantities = {key: si_value(key, item) for key, item in value.items() if key not in _PROVENANCE}
    numbers = {key: quantity[0] for key, quantity in quantities.items() if quantity is not None}
    units = {quantity[1] for quantity in quantities.values() if quantity is not None}
    return {**value, **({"si_value": numbers, "si_unit": units.pop()} if len(units) == 1 else {})}


def _walk(prefix: str, value: Any, known: Mapping[str, Any]) -> Iterator[Figure]:
    """Figures below a value: the mappings that name a source."""
    if isinstance(value, list):
        for place, item in enumerate(value):
            yield from _walk(f"{prefix}.{place}", item, known)
    if not isinstance(value, Mapping):
        return
    if "source" in value and value["source"] in known:
        source = known[value["source"]]
        figure = value.get("value")
        if figure is None:
            parts = {key: item for key, item in value.items() if key not in _PROVENANCE and not isinstance(item, list)}
            figure = ", ".join(f"{key} {item}" for key, item in parts.items())
        note, confidence = str(value.get("note", "")), str(value.get("confidence", ""))
        yield _of_source(prefix, source, str(figure), note, confidence)
        return
    for key, item in value.items():
        if key != "sources":
            yield from _walk(f"{prefix}.{key}" if prefix else str(key), item, known)


# Text of a model's specification file, in the layout of the shipped ones.

_COMMENTS = {"norms": "# norm vectors of the hidden width per layer", "mtp": "# draft modules, not in the totals"}
_COMMENTS_AT = 30  # column
_ALWAYS_QUOTED = ("note", "title")


def spec_yaml(document: Mapping[str, Any]) -> str:
    """Text of a specification file; name and aliases are on the first two lines, repeated layer parts have anchors."""
    lines: list[str] = []
    for key, value in document.items():
        if key == "groups":
            lines += ["groups:", *_group_lines(value)]
        elif key == "sources":
            lines += ["sources:", *_source_lines(value)]
        elif key == "notes":
            lines += ["notes:", *(f"  - {yaml_quoted(note)}" for note in value)] if value else ["notes: []"]
        elif key == "parameters":
            lines += ["parameters:", *(f"  {_entry(name, figure)}" for name, figure in value.items())]
        else:
            line, comment = _entry(key, value), _COMMENTS.get(key)
            lines.append(f"{line:<{_COMMENTS_AT - 1}} {comment}" if comment else line)
    return "\n".join(lines) + "\n"


def _source_lines(sources: Mapping[str, Mapping[str, Any]]) -> Iterator[str]:
    for key, source in sources.items():
        yield f"  {yaml_scalar(key)}:"
        for name, value in source.items():
            yield f"    {_entry(name, value)}"


class _Parts:
    """Mixers and feed-forward networks of a document; equal ones share an anchor at the first."""

    def __init__(self, groups: list[Mapping[str, Any]]) -> None:
        self._uses: dict[str, int] = {}
        self._anchors: dict[str, str] = {}
        for layer in (layer for group in groups for layer in group.get("pattern") or [group]):
            for part in (layer["mixer"], layer["ffn"]):
                self._uses[repr(part)] = self._uses.get(repr(part), 0) + 1

    def text(self, part: Mapping[str, Any]) -> str:
        """A part as YAML, or the alias of an earlier equal one."""
        key = repr(part)
        if key in self._anchors:
            return f"*{self._anchors[key]}"
        if self._uses[key] < 2 or part["kind"] in ("none", "linear"):
            return _part(part)
        name = self._anchors[key] = self._free(_anchor(part))
        return f"&{name} {_part(part)}"

    def is_short(self, layer: Mapping[str, Any]) -> bool:
        """Whether a layer fits on one line because its parts are aliases."""
        return all(part["kind"] == "none" or repr(part) in self._anchors for part in (layer["mixer"], layer["ffn"]))

    def _free(self, name: str) -> str:
        taken = set(self._anchors.values())
        candidates = (name, *(f"{name}{number}" for number in range(2, 2000)))
        return next(candidate for candidate in candidates if candidate not in taken)


_LONGEST_PART = 180  # [characters]


def _group_lines(groups: list[Mapping[str, Any]]) -> Iterator[str]:
    parts = _Parts(groups)
    for group in groups:
        yield f"  - repeat: {yaml_scalar(group['repeat'])}"
        if "pattern" not in group:
            yield f"    mixer: {parts.text(group['mixer'])}"
            yield f"    ffn: {parts.text(group['ffn'])}"
            continue
        yield "    pattern:"
        for layer in group["pattern"]:
            if parts.is_short(layer):
                yield f"      - {{mixer: {parts.text(layer['mixer'])}, ffn: {parts.text(layer['ffn'])}}}"
            else:
                yield f"      - mixer: {parts.text(layer['mixer'])}"
                yield f"        ffn: {parts.text(layer['ffn'])}"


def _anchor(part: Mapping[str, Any]) -> str:
    """Name of the anchor of a part."""
    kind = str(part["kind"])
    if kind == "gqa":
        names = (("window", "local"), ("chunk", "chunked"), ("indexer", "sparse"))
        return next((name for field, name in names if field in part), "full")
    if kind == "csa":
        return f"csa{part.get('ratio', 0)}"
    if kind == "csa2":
        own = part.get("indexer", {}).get("own", True)
        return "full" if "kv_shared" not in part else "reindex" if own else "reuse"
    if kind == "relative":
        return "local" if "window" in part else "full"
    if kind == "mla" and not part.get("indexer", {}).get("own", True):
        return "follower"
    return {"dense": "mlp"}.get(kind, kind) if kind in (*MIXERS, *FFNS) else "part"


def _part(part: Mapping[str, Any]) -> str:
    """A mixer or network on one line, or on two where it is long and has an indexer."""
    text = _flow(part)
    return text if len(text) <= _LONGEST_PART else text.replace(", indexer:", f",\n{' ' * 9}indexer:")


def _flow(value: Any) -> str:
    """A value on one line."""
    if isinstance(value, Mapping):
        return "{" + ", ".join(_entry(key, item) for key, item in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(_flow(item) for item in value) + "]"
    return yaml_scalar(value)


def _entry(key: str, value: Any) -> str:
    if isinstance(value, str) and key in _ALWAYS_QUOTED:
        return f"{yaml_scalar(key)}: {yaml_quoted(value)}"
    if isinstance(value, str) and key == "date":
        return f"{key}: {yaml_date(value)}"
    return f"{yaml_scalar(key)}: {_flow(value)}"


# Values as YAML that reads back as the same values; texts that are not plainly text are quoted.

# Texts that need no quotes: words, ids, a number with its unit, addresses.
_PLAIN = re.compile(
    r"[A-Za-z_][\w./+-]*( [\w./+-]+)*|[0-9]+(\.[0-9]+)?(e[+-]?[0-9]+)? [A-Za-z][\w./-]*|https?://[\w/.@%+~=-]+",
    re.ASCII,
).fullmatch
_WORDS = frozenset({"true", "false", "null", "yes", "no", "on", "off", "y", "n", "nan", "inf"})
_DAY = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}").fullmatch
_MONTH = re.compile(r"[0-9]{4}-[0-9]{2}").fullmatch
_LONGEST_PLAIN = 500


def yaml_scalar(value: object) -> str:
    """A scalar for a flow or block mapping, as key or value; BadInput if YAML cannot hold it.

    >>> [yaml_scalar(value) for value in ("3.4 us", "no", "a: b", 0.5, 2)]
    ['3.4 us', '"no"', '"a: b"', '0.5', '2']
    """
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        return repr(int(value))
    if isinstance(value, float):
        return _decimal(float(value))
    if isinstance(value, dt.date) and not isinstance(value, dt.datetime):
        return value.isoformat()
    if not isinstance(value, str):
        raise BadInput(f"{shown(value)} cannot be written to a specification; it must be text or a number")
    is_plain = _PLAIN(value) and len(value) <= _LONGEST_PLAIN and value.lower() not in _WORDS
    return value if is_plain else yaml_quoted(value)


def yaml_quoted(text: str) -> str:
    """A text in double quotes, on one line; BadInput for half a surrogate pair.

    >>> print(yaml_quoted('two\\nlines of "text"'))
    "two\\nlines of \\"text\\""
    """
    return '"' + "".join(map(_escaped, text)) + '"'


def yaml_date(text: str) -> str:
    """A day or a month without quotes, as readers of specifications expect; anything else as text.

    >>> yaml_date("2026-11-21"), yaml_date("2026-11"), yaml_date("2026"), yaml_date("2026-02-31")
    ('2026-11-21', '2026-11', '"2026"', '"2026-02-31"')
    """
    if _MONTH(text):
        return text
    try:
        is_day = bool(_DAY(text)) and dt.date.fromisoformat(text) is not None
    except ValueError:
        is_day = False
    return text if is_day else yaml_scalar(text)


def _escaped(character: str) -> str:
    if character in '"\\':
        return "\\" + character
    if character.isprintable():
        return character
    code = ord(character)
    if character == "\n":
        return "\\n"
    if 0xD800 <= code <= 0xDFFF:
        raise BadInput(f"{character!a} is half of a surrogate pair, which cannot be written to a file")
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


def _decimal(value: float) -> str:
    """A float as YAML 1.1 reads it: with a point even before an exponent."""
    text = repr(value)
    if text.lstrip("-") in ("inf", "nan"):
        return text.replace("inf", ".inf").replace("nan", ".nan")
    mantissa, mark, exponent = text.partition("e")
    if not mark:
        return text
    return f"{mantissa if '.' in mantissa else f'{mantissa}.0'}e{exponent if exponent[0] in '+-' else f'+{exponent}'}"
