"""Questions as tools for agents: arguments with their schema, short answers, and what a call may not do.

A tool takes what its question in Python takes; names, types and words come from the signatures, from the one table of
options and from docstrings. This module knows no protocol: `roofline.cli.mcp` speaks it.
"""

from __future__ import annotations

import inspect
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cache
from itertools import chain
from math import prod
from types import SimpleNamespace, UnionType
from typing import Any, TypeVar, Union, Unpack, get_args, get_origin, get_overloads, get_type_hints, is_typeddict

import roofline as rl
from roofline.cli.answers import split_by_rule
from roofline.cli.case import gpu_option, meaning, model_option, with_names
from roofline.cli.options import labelled
from roofline.numbers.quantity import MILLI, rounded, to_text
from roofline.questions import catalog, listing
from roofline.questions.check import CHECK_KEYS, reading_of
from roofline.questions.fits import surest_first
from roofline.questions.inputs import signatures
from roofline.questions.inputs.arguments import OF_REQUESTS, all_values, listed_names
from roofline.questions.inputs.options import FLAG, LISTED, OPTIONS, QUESTIONS, SPELLINGS, Option, Question
from roofline.questions.saved import in_python
from roofline.support.errors import BadInput, RooflineError, UnknownName, did_you_mean, shown
from roofline.support.records import NamedTuple, replace

_MOST_ROWS, _MOST_OF_ALL = 5, 200  # of a short answer, and of a full one
_MOST_BESIDE = 8  # entries of what a short answer has beside its rows
_MOST_LISTED = 64  # values of one argument
_MOST_TRIED = 512  # cases times GPUs: 60 ms each
_LEADING, _PER_PAIR, _PER_GROWTH = 3, 3, 5  # GPUs that `plan` pairs of its own, and how many cases take as long
_MOST_RUNS = 64  # results to compare with predictions: 50 ms each
_LONGEST = 100_000  # characters of a text
_MOST_INSIDE = 20_000  # values inside an object

#: Row keys of latencies with their 80 % ranges, by metric.
_RANGES = {metric: tuple(f"{metric}{end}_ms" for end in ("", "_low", "_high")) for metric in OF_REQUESTS}
_TIMES = tuple(chain(*_RANGES.values()))
_VERDICT = ("slo_verdict", "slo_binding", "slo_reason")
_FORMATS = ("weight_dtype", "kv_cache_dtype")
_METRIC_KEYS = ("measured_{}_ms", "predicted_{}_ms", "predicted_{}_low_ms", "predicted_{}_high_ms", "{}_verdict")


_Words = Callable[[Any, Sequence[Mapping[str, Any]], int], Iterator[str]]


class Told(NamedTuple):
    """An answer, for a program and in words."""

    content: dict[str, Any]
    text: str


class Tool(NamedTuple):
    """A question that agents ask."""

    function: Callable[..., Any]  # whose signature and docstring it has
    told: Callable[[dict[str, Any], _Asked], Told]  # its answer
    further: Mapping[str, Callable[..., Any]] = {}  # argument -> function whose signature and docstring have it
    more: str = ""  # what the docstring leaves out

    @property
    def name(self) -> str:
        return str(self.function.__name__)

    @property
    def question(self) -> Question:
        return QUESTIONS.get(self.name, Question(only=("specs",)))


# What a tool takes.

_KEYS: Mapping[str, Any] = {
    "type": "array",
    "items": {"type": "string"},
    "maxItems": 1000,
    "description": "Keys of the rows, in place of the usual ones (see docs/glossary.md, or `full`).",
}
_FULL: Mapping[str, Any] = {
    "type": "boolean",
    "description": f"Every row (of many the first {_MOST_OF_ALL}) and, without `keys`, every key.",
}
_NUMBERS: Any = float | str | Iterable[float | str]
_JSON = {int: "integer", float: "number", str: "string", bool: "boolean"}
_WORDS = {
    "integer": "a whole number", "number": "a number", "string": "a text", "boolean": "true or false",
    "array": "a list", "object": "an object",
}  # fmt: skip
_ARGUMENT = re.compile(r"^ {4}(\w+): (.*(?:\n {8}.*)*)", re.MULTILINE)
_FLAG = re.compile(r"(?<![\w-])--([a-z][\w-]*)")


def tool_names() -> tuple[str, ...]:
    return tuple(_TOOLS)


@cache
def schema(name: str) -> dict[str, Any]:
    """JSON Schema of the arguments of a tool."""
    tool = _TOOLS[name]
    stated, hints = _signature(tool.function)
    words = _said(tool)
    numbers = _NUMBERS if tool.question.each else float | str
    properties = {
        argument: {**_of_types(_types(hint, numbers)), "description": words.get(argument, argument)}
        for argument, hint in {**_of_further(tool), **hints}.items()
        if argument not in OPTIONS
    }
    properties |= {
        option.name: _option_schema(option, tool.question, _types(hints.get(option.name), numbers))
        for option in tool.question.taken
    }
    return {
        "type": "object",
        "properties": {**properties, "keys": dict(_KEYS), "full": dict(_FULL)},
        "required": [argument for argument in stated if stated[argument]],
        "additionalProperties": False,
    }


def description(name: str) -> str:
    """What a tool answers: the first paragraphs of the docstring of its question."""
    tool = _TOOLS[name]
    doc = inspect.getdoc(tool.function) or name
    paragraphs = doc.partition("\nArgs:")[0].strip().split("\n\n")
    return _plain(" ".join((*paragraphs[:2], tool.more)))


def _signature(function: Callable[..., Any]) -> tuple[dict[str, bool], dict[str, Any]]:
    """Arguments of a question that is asked with names: whether each is needed, and the types of all."""
    plain = inspect.unwrap(function)
    asked = next(reversed(get_overloads(plain)), plain)
    names = {**vars(signatures), **vars(sys.modules[plain.__module__])}
    annotations = {name: hint for name, hint in asked.__annotations__.items() if name != "return"}
    hints = get_type_hints(SimpleNamespace(__annotations__=annotations), names, names)
    needed: dict[str, bool] = {}
    types: dict[str, Any] = {}
    for argument in inspect.signature(asked).parameters.values():
        hint = hints[argument.name]
        if argument.kind is argument.VAR_KEYWORD:
            (record,) = get_args(hint) if get_origin(hint) is Unpack else (None,)
            of_options = get_origin(record) or record
            types |= get_type_hints(of_options, names, names) if is_typeddict(of_options) else {}
        elif argument.kind is not argument.VAR_POSITIONAL:
            types[argument.name] = hint
            is_by_name = argument.kind is argument.KEYWORD_ONLY  # a named workload may state it
            needed[argument.name] = argument.default is argument.empty and not is_by_name
    return needed, types


def _of_further(tool: Tool) -> dict[str, Any]:
    return {argument: _signature(function)[1][argument] for argument, function in tool.further.items()}


def _said(tool: Tool) -> Mapping[str, str]:
    """What the arguments of a tool are that are in no table of options."""
    is_one = "array" not in _types(_signature(tool.function)[1].get("model", str), None)
    named = {
        "model": model_option(single=is_one).help,
        "gpus": gpu_option(tool.question).help,
        "gpu": gpu_option(Question(single=True)).help,
    }
    texts = {argument: key.meaning for argument, key in CHECK_KEYS.items()}
    for function in (tool.function, *tool.further.values()):
        texts |= dict(_ARGUMENT.findall(inspect.getdoc(function) or ""))
    texts |= {argument: str(text) for argument, text in named.items()}
    return {argument: _plain(text) for argument, text in texts.items()}


def _option_schema(option: Option, question: Question, types: Mapping[str, dict[str, Any]]) -> dict[str, Any]:
    value = question.kinds.get(option.name, option.value)
    text = _plain(with_names(meaning(option, question)))
    if value is FLAG:
        return {"type": "boolean", "description": text}
    inside = {name: kinds for name, kinds in types.items() if name != "object"}
    if value.in_shell is not None:  # a bare number is of another unit there: texts state it
        inside = {name: kinds for name, kinds in inside.items() if name == "array"}
    kind = {"type": "string", "enum": list(value.choices)} if value.choices else _of_types({**inside, "string": {}})
    return {**kind, "description": text}


def _types(hint: Any, numbers: Any) -> dict[str, dict[str, Any]]:
    """JSON types that a type of Python stands for, with those inside of a list; records have none."""
    origin = get_origin(hint)
    if isinstance(hint, TypeVar):
        return _types(numbers, numbers)
    if origin in (Union, UnionType):
        found: dict[str, dict[str, Any]] = {}
        for each in get_args(hint):
            for name, inside in _types(each, numbers).items():
                found[name] = {**found.get(name, {}), **inside}
        return found
    if hint in _JSON:
        return {_JSON[hint]: {}}
    if not isinstance(origin, type) or origin is tuple:
        return {}
    if issubclass(origin, Mapping):
        return {"object": {}}
    return {"array": _types(get_args(hint)[0], numbers)} if issubclass(origin, Iterable) else {}


def _of_types(types: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    names = [name for name in _WORDS if name in types and not (name == "integer" and "number" in types)]
    kind: dict[str, Any] = {"type": names[0] if len(names) == 1 else names}
    if "array" in types:
        kind |= {"items": _of_types(types["array"]), "maxItems": _MOST_LISTED}
    return kind


def _plain(text: str) -> str:
    """A text of the help or of a docstring as a sentence."""
    words = " ".join(_unflagged(text).replace("``", "`").replace(" [1].", ".").split())
    return words[:1].upper() + words[1:]


def _unflagged(text: str) -> str:
    """A text for a reader who types no flags."""
    return _FLAG.sub(lambda flag: f"`{flag[1].replace('-', '_')}`", text)


# A call.


def ask(name: str, arguments: Mapping[str, Any]) -> Told:
    """The answer of a tool.

    Raises:
        UnknownName: no such tool or argument, or no such name in one.
        RooflineError: as the question raises.
    """
    tool = _TOOLS.get(name)
    if tool is None:
        raise UnknownName(f"unknown tool {shown(name)}; choose from {', '.join(_TOOLS)}")
    asked = _checked(tool, arguments)
    keys, is_full = asked.pop("keys", None), asked.pop("full", False)
    _check_amount(tool, asked)
    return tool.told(asked, _Asked(keys, is_full))


def _checked(tool: Tool, arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Arguments under their names; null stands for one that is left out."""
    known: Mapping[str, Any] = schema(tool.name)["properties"]
    asked: dict[str, Any] = {}
    for name, value in arguments.items():
        plain = name if name in known else SPELLINGS.get(name.lower().replace("-", "_"), name)
        if plain not in known:
            raise UnknownName(_no_argument(tool, plain, known))
        if value is None:
            continue
        if plain in asked:
            raise BadInput(f"{tool.name} got {plain} twice, as {shown(name)} too; keep one")
        _check_value(plain, value, known[plain])
        asked[plain] = value
    missing = [name for name in schema(tool.name)["required"] if name not in asked]
    if missing:
        raise BadInput(f"{tool.name} needs {' and '.join(missing)}: {known[missing[0]]['description']}")
    return asked


def _no_argument(tool: Tool, name: str, known: Mapping[str, Any]) -> str:
    if name in tool.question.refused:
        return f"{tool.name} takes no {name}: {_unflagged(tool.question.refused[name])}"
    from difflib import get_close_matches

    near = get_close_matches(name, known, 3)
    return f"{tool.name} takes no {shown(name)}{did_you_mean(near)}"


def _check_value(name: str, value: Any, kind: Mapping[str, Any]) -> None:
    """Refuse a value of another type than the schema states, and one that is too large."""
    types = kind.get("type", "string")
    of_value = _type_of(value)
    if of_value not in types and not (of_value == "integer" and "number" in types):
        listed = [_WORDS[each] for each in ([types] if isinstance(types, str) else types)]
        raise BadInput(f"{name} = {shown(value)} must be {' or '.join(listed)}")
    if isinstance(value, str) and len(value) > _LONGEST:
        raise BadInput(f"{name} has {len(value):,} characters; a call takes at most {_LONGEST:,}")
    if isinstance(value, list):
        if len(value) > kind["maxItems"]:
            raise BadInput(f"{name} has {len(value):,} values; a call takes at most {kind['maxItems']:,}")
        for each in value:
            _check_value(f"each of {name}", each, kind["items"])
    if isinstance(value, dict) and _amount(value) > _MOST_INSIDE:
        raise BadInput(
            f"{name} holds more than {_MOST_INSIDE:,} values; save it as a file in a folder that is allowed, and give "
            "its path"
        )


def _type_of(value: Any) -> str:
    if isinstance(value, (list, dict)):
        return "array" if isinstance(value, list) else "object"
    return _JSON.get(type(value), "null")


def _amount(value: Any) -> int:
    """Number of values inside of an object, counted up to the limit."""
    level, seen = [value], 0
    while level and seen <= _MOST_INSIDE:
        level = [
            part
            for each in level
            for part in (each.values() if isinstance(each, dict) else each if isinstance(each, list) else ())
        ]
        seen += len(level)
    return seen


def _check_amount(tool: Tool, asked: Mapping[str, Any]) -> None:
    """Refuse a call that would take minutes."""
    if "results" in asked:
        runs = sum(_runs(source) for side in ("results", "after") for source in _sources(asked.get(side)))
        if runs > _MOST_RUNS:
            raise BadInput(f"the results state {runs:,} runs; a call takes at most {_MOST_RUNS}: give fewer of them")
        return
    counts = _tried(tool, asked)
    if prod(counts.values()) > _MOST_TRIED:
        listed = " x ".join(f"{number} {name}" for name, number in counts.items() if number > 1)
        raise BadInput(f"{listed} are too many to try in a call, which takes at most {_MOST_TRIED}; give fewer values")


def _tried(tool: Tool, asked: Mapping[str, Any]) -> dict[str, int]:
    """Numbers of what a call tries with each other, by what they are of."""
    several = (*LISTED, *tool.question.several)
    counts = {name: len(all_values(name, asked[name])) for name in several if name in asked}
    if "gpus" not in schema(tool.name)["properties"]:
        return counts
    gpus = None if asked.get("gpus") is None else listed_names("gpus", asked["gpus"])
    kinds = len(catalog.gpus(asked.get("specs")) if gpus is None else gpus)
    if asked.get("disaggregate"):
        paired = _LEADING if gpus is None else kinds
        counts["GPUs, alone and in pairs"] = kinds + _PER_PAIR * paired**2
    else:
        counts["GPUs"] = kinds
    if asked.get("growth") is not None:
        counts["loads of a growth"] = _PER_GROWTH
    return {"models": len(listed_names("model", asked["model"])), **counts}


def _sources(side: Any) -> list[Any]:
    return side if isinstance(side, list) else [] if side is None else [side]


def _runs(source: Any) -> int:
    """Runs that a result states; of one that cannot be read, `check` says why."""
    try:
        return len(reading_of(source, None).measurements)
    except RooflineError:
        return 0


# What is told.


class _Asked(NamedTuple):
    """How much of an answer is asked for."""

    keys: Sequence[str] | None  # of the rows; None for the usual ones, or for all
    is_full: bool

    @property
    def most(self) -> int:
        """Rows at most."""
        return _MOST_OF_ALL if self.is_full else _MOST_ROWS

    @property
    def is_short(self) -> bool:
        """Whether an answer in words is asked for."""
        return self.keys is None and not self.is_full


def _answered(
    ask_one: Callable[..., Any], usual: tuple[str, ...], words: _Words, details: tuple[str, ...] = ()
) -> Callable[[dict[str, Any], _Asked], Told]:
    """How a question answers with rows: `usual` are the keys of a short answer, which leaves out `details`."""

    def told(arguments: dict[str, Any], asked: _Asked) -> Told:
        answer = ask_one(**in_python(arguments))
        content = _content(answer, usual if asked.is_short else asked.keys, asked, details)
        if not asked.is_short:
            return _as_json(content)
        warnings = [row.pop("warnings") for row in content["rows"]]
        content["warnings"] = labelled(zip(map(_label, content["rows"]), warnings, strict=True))
        return Told(content, "\n".join([*words(answer, content["rows"], asked.most), *_further_words(content)]))

    return told


def _content(answer: Any, keys: Sequence[str] | None, asked: _Asked, details: tuple[str, ...]) -> dict[str, Any]:
    """Rows of an answer, as many as are told, and what goes with them."""
    parts: dict[str, Any] = dict(answer.to_dict(keys))
    if "rows" in parts:
        rows = parts.pop("rows")
    else:  # one case: the answer is its row
        parts, rows = {}, answer.to_rows(keys)
    refused = getattr(answer, "refused", ())
    if "refused" not in parts and refused:
        parts["refused"] = [f"{type(error).__name__}: {error}" for error in refused]
    content: dict[str, Any] = {}
    for name, part in {"rows": rows, **parts}.items():
        if not asked.is_full and name != "rows" and (not part or name in details):
            continue
        most = asked.most if name == "rows" else len(part or ()) if asked.is_full else _MOST_BESIDE
        content[name] = part[:most] if isinstance(part, list) else part
        if isinstance(part, list) and len(part) > most:
            content[f"more_{name}"] = len(part) - most
    return content


def _as_json(content: dict[str, Any]) -> Told:
    import json

    return Told(content, json.dumps(content))


def _label(row: Mapping[str, Any]) -> str:
    return str(row.get("label") or row.get("source") or row.get("gpu"))


def _further_words(content: Mapping[str, Any]) -> Iterator[str]:
    """What goes with the rows."""
    left = {name.removeprefix("more_"): content[name] for name in content if name.startswith("more_")}
    if left:
        texts = (f"{number} more {name if number > 1 else name.removesuffix('s')}" for name, number in left.items())
        yield f"{', '.join(texts)}: full"
    refused = content.get("refused", ())
    yield from [f"{name}: {text}" for name, text in refused.items()] if isinstance(refused, dict) else refused
    yield from (f"note: {text}" for text in dict.fromkeys((*content.get("notes", ()), *content["warnings"])))


def _range_words(row: Mapping[str, Any]) -> str:
    """80 % ranges of a row, and its basis."""
    ends = {metric: [row[key] for key in keys[1:] if row.get(key) is not None] for metric, keys in _RANGES.items()}
    texts = [
        f"{metric.upper()} {' to '.join(to_text(end * MILLI, 's') for end in pair)}"
        for metric, pair in ends.items()
        if pair
    ]
    return f"80 %: {', '.join(texts)}; basis {row['basis']}" if texts else f"basis {row['basis']}"


def _prediction_words(answer: Any, rows: Sequence[Mapping[str, Any]], most: int) -> Iterator[str]:  # noqa: ARG001
    yield str(answer)
    yield from map(_range_words, rows if len(rows) > 1 else ())


def _plan_words(answer: Any, rows: Sequence[Mapping[str, Any]], most: int) -> Iterator[str]:
    shown_part = replace(answer, plans=answer.plans[:most], steps=answer.steps[:_MOST_BESIDE], notes=())
    heading, *lines = str(shown_part).split("\n")
    yield heading
    for place, line in enumerate(lines):
        is_found = place < len(rows) and rows[place]["ttft_ms"] is not None
        yield f"{line}; {_range_words(rows[place])}" if is_found else line
    for pair in answer.pools[:_MOST_BESIDE]:
        pools, times, *others = str(pair).split("\n")
        yield "; ".join([f"  pools: {pools}", times, *(text for text in others if text.startswith("SLO"))])


def _comparison_words(answer: Any, rows: Sequence[Mapping[str, Any]], most: int) -> Iterator[str]:
    heading, *lines = str(replace(answer, gpus=answer.gpus[:most], notes=(), refused={})).split("\n")
    yield heading
    yield from (f"{line}; {_range_words(row)}" for line, row in zip(lines, rows, strict=True))


def _start_words(answer: Any, rows: Sequence[Mapping[str, Any]], most: int) -> Iterator[str]:  # noqa: ARG001
    for fit in answer[:most]:
        yield str(fit)
        if fit.remedies:
            yield f"  starts with {' or '.join(fit.remedies)}"
        yield from (f"  log: {line}" for line in fit.log)


def _check_words(answer: Any, rows: Sequence[Mapping[str, Any]], most: int) -> Iterator[str]:
    for run, row in zip(answer[:most], rows, strict=True):
        verdicts = {metric: row[f"{metric}_verdict"] for metric in OF_REQUESTS}
        told = "; ".join(f"{metric.upper()} {text}" for metric, text in verdicts.items() if text is not None)
        yield f"{row['source']} ({row['model']} on {row['gpu']}, basis {row['basis']}): {told}"
        yield from (f"  suspect: {text}" for text in row["suspects"])
        if run.unexplained:
            yield f"  {run.unexplained}"
    for found in answer.findings:
        yield from (f"{found.server}: {line}" if place == 0 else f"  {line}" for place, line in enumerate(found.lines))
    if answer.changed is not None:
        yield f"What changed: {answer.changed.text}"


def _ranked_plans(**options: Any) -> Any:
    """Plans; of the whole catalog those first that a screen shows first: shipping, timed, with a known rent."""
    answer = rl.plan(**options)
    found = [plan for plan in answer.plans if plan.prediction is not None]
    rows = [{**plan.to_dict(["basis", "usd_per_hour", "slo_verdict"]), "plan": plan} for plan in found]
    first, others = split_by_rule((plan.gpu.status for plan in found), rows, is_named=answer.is_named)
    misses = [plan for plan in answer.plans if plan.prediction is None]
    return replace(answer, plans=(*(row["plan"] for row in (*first, *others)), *misses))


def _surest_starts(**options: Any) -> Any:
    """Answers of `fits`; of the whole catalog the surest first."""
    answer = rl.fits(**options)
    return rl.Answers(surest_first(answer)) if options.get("gpus") is None else answer


# The catalog: names, rows, or one entry.


class _Kind(NamedTuple):
    """A kind of entries."""

    kind: str
    names: Callable[..., Iterable[str]]
    rows: Callable[..., list[dict[str, Any]]]
    row: Callable[..., dict[str, Any]]
    record: Callable[..., Any]
    counts: Callable[[Any], dict[str, Any]] | None = None  # what a whole entry has beside its document

    def told(self, arguments: dict[str, Any], asked: _Asked) -> Told:
        """All entries or those that filters leave, or the one with a name."""
        specs, name = arguments.get("specs"), arguments.pop("name", None)
        if name is None:
            names = self.names(**arguments)
            if asked.is_short:
                return Told({"names": list(names)}, ", ".join(names))
            rows = [row for row in self.rows(specs) if row[self.kind] in names]
            return _as_json(_content(rl.Answers(rows), asked.keys, asked._replace(is_full=True), ()))
        others = [filtering for filtering in arguments if filtering != "specs"]
        if others:
            raise BadInput(f"a name and {others[0]} together; leave out one of them")
        found = self.record(name, specs)
        if asked.is_full and asked.keys is None:
            document = listing.document(name, self.kind, specs)
            figures = list(map(listing.figure_row, listing.figures(document)))
            counted_parts = {} if self.counts is None else {"counted": self.counts(found.record)}
            return _as_json({"rows": figures, "document": listing.with_si(document), **counted_parts})
        row = self.row(name, specs)
        if asked.keys is not None:
            return _as_json(_content(rl.Answers([row]), asked.keys, asked, ()))
        notes = [] if found.note is None else [found.note]
        lines = (f"{key} {_cell(value)}" for key, value in row.items() if value not in (None, []))
        told = Told({"rows": [row]}, "\n".join([*lines, *(f"note: {note}" for note in notes)]))
        return told._replace(content={**told.content, "notes": notes}) if notes else told


def _cell(value: Any) -> str:
    if isinstance(value, list):
        return ", ".join(value)
    return rounded(value) if isinstance(value, float) else str(value)


_LOAD = ("isl", "osl", "batch", "concurrency", "request_rate")
_PLAN = ("model", "gpu", "num_gpus", "tp", "ep", "dp", "cp", "dcp")
_TAIL = ("basis", "warnings")

_GPUS = _Kind("gpu", rl.gpus, listing.gpu_rows, listing.gpu_row, catalog.find_gpu)
_MODELS = _Kind(
    "model", rl.models, listing.model_rows, listing.model_row, catalog.find_model, listing.model_counts
)  # fmt: skip
_ENTRY = "With a `name`, the figures of one; with `full` each with its source, and the whole specification."
_TOOLS: Mapping[str, Tool] = {
    "predict": Tool(
        rl.predict,
        _answered(
            rl.predict,
            (*_PLAN, *_LOAD, *_FORMATS, "engine", "fits", *_TIMES, *_VERDICT, "output_tok_s_gpu", "usd_per_hour",
             "usd_per_m_output_tok", "knee", "knee_bound", *_TAIL),
            _prediction_words,
        ),
    ),
    "plan": Tool(
        rl.plan,
        _answered(
            _ranked_plans,
            (*_PLAN, "quantization", "meets", "slo_verdict", "slo_binding", "reason", *_RANGES["ttft"],
             *_RANGES["tpot"], "usd_per_hour", "usd_per_m_output_tok", *_TAIL),
            _plan_words,
            details=("pools",),
        ),
    ),
    "fits": Tool(
        rl.fits,
        _answered(
            _surest_starts,
            ("model", "gpu", "tp", "engine", *_FORMATS, "start_verdict", "start_error", "remedies", "weights_gib",
             "kv_cache_gib", "kv_cache_low_gib", "kv_cache_high_gib", "kv_tokens", "max_concurrency",
             "largest_max_model_len", "largest_max_num_seqs", "warnings"),
            _start_words,
        ),
    ),
    "check": Tool(
        rl.check,
        _answered(
            rl.check,
            ("source", "model", "gpu", "engine", "engine_version", "tp", *_LOAD, "statistic",
             *(key.format(metric) for metric in OF_REQUESTS for key in _METRIC_KEYS), "suspects", *_TAIL),
            _check_words,
            details=("findings", "parts"),
        ),
    ),
    "compare": Tool(
        rl.compare,
        _answered(
            rl.compare,
            ("label", "reference", *_PLAN, "weight_dtype", *_RANGES["ttft"], *_RANGES["tpot"], *_VERDICT,
             "prefill_speedup", "decode_speedup", "output_tok_s_gpu", "usd_per_m_output_tok", *_TAIL),
            _comparison_words,
            details=("kernels",),
        ),
    ),
    "gpus": Tool(rl.gpus, _GPUS.told, {"name": rl.load_gpu}, _ENTRY),
    "models": Tool(rl.models, _MODELS.told, {"name": rl.load_model}, _ENTRY),
}  # fmt: skip
