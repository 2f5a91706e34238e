"""Sheets that a planner reads first: the answer with its inputs, all of its figures, and the engine's constants."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np

from roofline.numbers.operations import is_nan, where
from roofline.numbers.quantity import GIGA, HOUR, MILLI, MONTH
from roofline.outputs.workbook.case import Contents
from roofline.outputs.workbook.cells import INFINITE, Cell, named, scope
from roofline.outputs.workbook.inputs import choice_inputs, engine_inputs, write_input
from roofline.outputs.workbook.judged import NO_LIMIT, Judged, range_of
from roofline.outputs.workbook.loads import Asked
from roofline.outputs.workbook.typed import LEVELS
from roofline.outputs.workbook.writer import Book, Sheet, address
from roofline.physics.memory import Memory
from roofline.serving.knee import Knees
from roofline.serving.verdict import NOT_KNOWN, PASS
from roofline.specs.workload import BETWEEN_TOKENS, key_of
from roofline.specs.workload import OF_REQUESTS as SLO_KEYS
from roofline.support.records import NamedTuple

_HEAD = 3  # row of the verdict
_TEXT = 2  # place of the text of a range
#: Labels of the figures at the head of the answer, and those of their limit.
_HEADLINE = (
    ("TTFT", "TTFT at the SLO's level [ms]", "ms", "time to first token", "ttft"),
    ("TPOT", "TPOT at the SLO's level [ms]", "ms", "time per output token after the first", "tpot"),
    ("E2EL", "E2EL at the SLO's level [ms]", "ms", "whole request, until its last token", "e2el"),
    ("requests/s", "requests/s", "1/s", "answered by all replicas; blank for a burst", ""),
    ("utilisation", "utilisation", "", "of the most requests/s; blank for a burst", ""),
    ("output tokens", "output tok/s", "tok/s", "of all replicas", ""),
    ("GPUs", "GPUs", "", "of all replicas", ""),
    ("memory used", "HBM used", "", "of the usable memory of the fullest GPU", ""),
    ("cost", "USD/month", "USD/month", "730 hours of all GPUs at their typical price", ""),
    ("cost of answers", "USD/M output tok", "USD/M tok", "per million output tokens at full utilisation", ""),
    ("prefill is bound by", "prefill bound", "", "what most of the time to first token waits for", ""),
    ("decode is bound by", "decode bound", "", "what most of the time per output token waits for", ""),
    ("note", "note", "", "", ""),
)  # fmt: skip


class Figure(NamedTuple):
    """One line of the answer, or one column of a scenario's."""

    label: str
    cell: Any
    style: str
    note: str = ""

    def name_cell(self) -> None:
        named(self.label.partition(" [")[0], self.cell)


def figures_of(asked: Asked, load: Any, knees: Knees[Any, Any]) -> Iterator[Figure]:
    """All figures of a case under its load, which `load` says in words."""
    case, ok = asked.case, asked.reason == ""
    several: Any = case.prediction.workload.osl > 1.0

    def shown(cell: Any) -> Any:
        return where(ok, cell, "")

    def of(read: Callable[..., Any], *more: Any) -> Any:
        return shown(asked.of(read, *more))

    def after_first(read: Callable[..., Any], *more: Any) -> Any:
        return shown(where(several, asked.of(read, *more), ""))

    yield Figure("answer", where(ok, "ok", asked.reason), "word")
    keys = [*case.prediction.slo]
    verdict, why = asked.verdict(keys)
    yield Figure("verdict", shown(verdict), "word", "certain where the whole 80 % range meets or misses the limits")
    yield Figure("reason", shown(why), "word", "why the verdict is not pass")
    yield Figure("load", load, "word", "what the figures hold for")
    yield Figure("level", where(asked.is_typed, asked.level, ""), "word", "what the limits hold for")
    yield Figure("note", shown(where(asked.is_burst, case.note, asked.load_note)), "word", "what to mind")
    yield Figure("TTFT [ms]", of(lambda each: each.ttft / MILLI), "result", "time to first token, mean")
    yield Figure("TPOT [ms]", after_first(lambda each: each.tpot / MILLI), "result", "time per output token, mean")
    yield Figure("E2EL [ms]", of(lambda each: each.e2el / MILLI), "result", "request until last token, mean")
    yield from _at_levels(asked, shown)
    yield from range_figures(lambda metric, read: shown(asked.at_level(metric, read)), several)
    yield from _of_loads(of)
    yield Figure("tok/s/user", after_first(lambda each: each.tok_s_user), "result", "one user, while decoding")
    yield Figure("output tok/s", of(lambda each: each.output_tok_s), "result", "of all replicas")
    yield Figure("output tok/s/GPU", of(lambda each: each.output_tok_s_gpu), "result")
    yield Figure("prefill bound", of(lambda each: named("bound", each.prefill.bound)), "word")
    yield Figure("decode bound", after_first(lambda each: named("bound", each.decode.bound)), "word")
    yield Figure("TTFT, hardware limit [ms]", of(_at_limit, 0), "number", "full rates, no host")
    yield Figure("TPOT, hardware limit [ms]", after_first(_at_limit, 1), "number")
    yield Figure("GPUs", of(lambda each: each.deployment.num_gpus), "whole", "of all replicas")
    yield from _of_memory(asked)
    yield from _of_knees(knees, lambda cell: where(asked.is_burst, shown(cell), ""))
    yield from _of_costs(asked, of)
    for metric in SLO_KEYS:
        keys = [key_of(metric, level) for level in LEVELS.values()]
        yield Figure(f"SLO {metric.upper()}", shown(asked.verdict(keys)[0]), "word", "this limit alone")


def _at_limit(prediction: Judged, part: int) -> Any:
    """Prefill or decode step at the hardware limit [ms]."""
    return prediction.ideal[part].time / MILLI


def _latency(prediction: Judged, key: str) -> Any:
    return prediction.latency(key)


def _known(time: Any) -> Any:
    """A latency [ms], or that it is not known."""
    return where(is_nan(time), NOT_KNOWN, time / MILLI)


def _at_levels(asked: Asked, shown: Callable[[Any], Any]) -> Iterator[Figure]:
    """Percentiles, and what the limits hold for."""
    several: Any = asked.case.prediction.workload.osl > 1.0
    for metric in SLO_KEYS:
        for name, level in [*LEVELS.items()][1:]:
            known = _known(asked.of(_latency, key_of(metric, level)))
            known = where(several, known, "") if metric in BETWEEN_TOKENS else known
            yield Figure(
                f"{metric.upper()} {name} [ms]", shown(known), "number", f"{name} over requests; of a burst the mean"
            )
    for metric in SLO_KEYS:
        known = _known(asked.at_level(metric, _latency))
        known = where(several, known, "") if metric in BETWEEN_TOKENS else known
        yield Figure(f"{metric.upper()} at the SLO's level [ms]", shown(known), "result", "mean, p95 or p99")


def _of_loads(of: Callable[..., Any]) -> Iterator[Figure]:
    """Figures that a load has and a burst has not."""

    def loaded(name: str) -> Any:
        return of(lambda each: "" if each.served is None else getattr(each, name))

    yield Figure("requests in flight", loaded("concurrency"), "number", "users, or by Little's law; blank for a burst")
    yield Figure("requests/s", loaded("request_rate"), "number", "answered by all replicas")
    yield Figure("most requests/s", loaded("max_request_rate"), "number", "at saturation")
    yield Figure("utilisation", loaded("util"), "share", "requests/s over the most")
    yield Figure("sequences that decode", of(lambda each: each.decode_batch), "number", "together on one replica")


def _of_memory(asked: Asked) -> Iterator[Figure]:
    """Memory of the fullest GPU, also of a case that does not fit."""

    def held(read: Callable[..., Any], *more: Any) -> Any:
        return where(asked.case.impossible == "", asked.of(lambda each: read(each.memory, *more)), "")

    for name in ("weights", "kv_cache", "activations", "reserve"):
        label = f"{'KV cache' if name == 'kv_cache' else name} [GB/GPU]"
        yield Figure(label, held(_size, name), "number")
    yield Figure("HBM used", held(lambda memory: memory.used_fraction), "share", "of the usable memory")
    yield Figure("fits", held(lambda memory: where(memory.fits, "yes", "no")), "word")


def _size(memory: Memory[Any, Any], name: str) -> Any:
    return getattr(memory, name) / GIGA


def _of_knees(knees: Knees[Any, Any], shown: Callable[[Any], Any]) -> Iterator[Figure]:
    """The knees of a burst."""

    def finite(cell: Any) -> Any:
        return shown(where(cell < INFINITE, cell, "none"))

    with scope("smallest"):
        smallest, name = knees.smallest
    note = "batch of a burst beyond which decode stops being cheap"
    yield Figure("knee [sequences]", shown(smallest), "number", note)
    yield Figure("knee set by", shown(name), "word")
    yield Figure("ridge knee", finite(knees.ridge), "number", "weights turn compute-bound")
    yield Figure("half knee", finite(knees.half), "number", "half of the peak throughput")
    yield Figure("memory knee", shown(knees.memory), "whole", "largest batch that fits")
    yield Figure("SLO knee", shown(knees.slo), "whole", "largest batch that fits and meets the limits")


def _of_costs(asked: Asked, of: Callable[..., Any]) -> Iterator[Figure]:
    """What the GPUs cost, and the tokens."""
    hourly: Any = asked.case.prediction.usd_per_hour
    priced = hourly > 0

    def cost(name: str, factor: float = 1.0) -> Any:
        return of(lambda each: where(priced, getattr(each, name) * factor, "no price"))

    yield Figure("USD/h", cost("usd_per_hour"), "number", "typical price of all GPUs")
    months = f"{MONTH / HOUR:g} hours of all GPUs"
    yield Figure("USD/month", cost("usd_per_hour", MONTH / HOUR), "money", months)
    yield Figure("USD/M output tok", cost("usd_per_m_output_tok"), "result", "GPUs busy with this load")


def range_figures(read: Callable[..., Any], several: Any, *, in_words: bool = True) -> Iterator[Figure]:
    """Ends of the 80 % ranges of a case, and with `in_words` both as one text; `read` knows the case."""
    for metric in SLO_KEYS:
        for part, label in enumerate(("low", "high", "80 % range")[: 3 if in_words else 2]):
            cell = read(metric, partial(_end_of_range, part=part))
            shown = where(several, cell, "") if metric in BETWEEN_TOKENS else cell
            style, note = (
                ("range", "") if part == _TEXT else ("number", f"{label} end of the 80 % range, at the SLO's level")
            )
            yield Figure(f"{metric.upper()}, {label} [ms]", shown, style, note)


def _end_of_range(prediction: Judged, key: str, part: int) -> Any:
    """An end of a range, or both as a text."""
    return range_of(prediction, key)[part]


def write_answer(book: Book, sheet: Sheet, contents: Contents, places: Mapping[str, Any]) -> None:
    """Write the sheet Answer; `places` are address and value of each figure on the sheet Details."""
    sheet.text(0, 0, "How fast does this model run on this GPU, and does it meet the limits?", "title")
    about, (_, load, words) = "Change the yellow cells; all else follows. ", places["load"]
    said = f"{about}Load: {words}." if words else about
    sheet.wide(1, 0, 5, f'"{about}"&IF({load}="","","Load: "&{load}&".")', said, "note", 1.0)
    _write_verdict(sheet, places)
    sheet.texts(_HEAD + 1, ("figure", "value", "unit", "80 % range", "what it is", "verdict on its limit"), "group")
    for line, (label, figure, unit, note, key) in enumerate(_HEADLINE, _HEAD + 2):
        style, (cell, value) = places[figure][0], places[figure][1:]
        sheet.text(line, 0, label)
        sheet.formula(line, 1, cell, value, style)
        sheet.text(line, 2, unit, "unit")
        sheet.text(line, 4, note, "said")
        if key:
            _, level, name = places["level"]
            mean = next(iter(LEVELS))
            shown = label if name in (mean, "") else f"{label} {name}"
            sheet.formula(line, 0, f'"{label}"&IF(OR({level}="{mean}",{level}=""),""," "&{level})', shown, "label")
            for column, name in ((3, f"{key.upper()}, 80 % range [ms]"), (5, f"SLO {key.upper()}")):
                chosen, cell, value = places[name]
                sheet.formula(line, column, cell, value, chosen)
    line = _HEAD + 3 + len(_HEADLINE)
    for group, entries in choice_inputs(contents):
        sheet.texts(line, (group, *[""] * 5), "group")
        for entry in entries:
            line += 1
            write_input(book, sheet, line, entry, note=4)
        line += 1
    sheet.text(line + 1, 0, "The engine's times and the routing skew are on the sheet Engine.", "note")
    for column, width in enumerate((20, 28, 12, 18, 66, 20)):
        sheet.widen(column, column, width)
    sheet.sheet.freeze_panes(_HEAD + 1, 0)
    sheet.prints(line + 2, 6, pages=1)
    colour_words(sheet, (_HEAD, 1, _HEAD + 8, 5))


def _write_verdict(sheet: Sheet, places: Mapping[str, Any]) -> None:
    """Write the verdict with its reason."""
    (answer, why), (verdict, word), (reason, because) = (places[name][1:] for name in ("answer", "verdict", "reason"))
    unlimited, passed = "no limit is set; type one under Limits", f"{PASS}: every limit is met, by the whole 80 % range"
    chosen = f'IF({verdict}="{NO_LIMIT}","{unlimited}",IF({verdict}="{PASS}","{passed}",{verdict}&" ("&{reason}&")"))'
    said = {NO_LIMIT: unlimited, PASS: passed}.get(word, f"{word} ({because})") if why == "ok" else f"no answer: {why}"
    sheet.text(_HEAD, 0, "Verdict", "verdict")
    sheet.wide(_HEAD, 1, 5, f'IF({answer}="ok",{chosen},"no answer: "&{answer})', said, "verdict", 2.6)


def write_details(
    sheet: Sheet, figures: Sequence[Figure], places: Mapping[int, str]
) -> dict[str, tuple[str, str, Any]]:
    """Write every figure of the answer; returns style, address and value of each."""
    sheet.texts(0, ("figure", "value", "what it is"))
    at: dict[str, tuple[str, str, Any]] = {}
    for line, figure in enumerate(figures, 1):
        sheet.text(line, 0, figure.label)
        sheet.cell(line, 1, figure.cell, places, figure.style)
        sheet.text(line, 2, figure.note, "said")
        value = np.ravel(figure.cell.value)[0] if isinstance(figure.cell, Cell) else figure.cell
        at[figure.label] = figure.style, address(line, 1, sheet.name), value
    sheet.widen(0, 0, 28)
    sheet.widen(1, 1, 24)
    sheet.widen(2, 2, 60)
    sheet.head(1, 1)
    sheet.prints(1 + len(figures), 3, pages=1)
    colour_words(sheet, (1, 1, len(figures), 1))
    return at


def colour_words(sheet: Sheet, area: tuple[int, int, int, int]) -> None:
    """Colour verdicts."""
    bad, good = ({"bg_color": colour} for colour in ("#F8CBAD", "#C6E0B4"))
    for text, look in (("fail", bad), ("fail?", bad), ("no", bad), ("pass?", good), ("pass", good), ("yes", good)):
        chosen = sheet.book.book.add_format(look)
        sheet.sheet.conditional_format(
            *area, {"type": "cell", "criteria": "==", "value": f'"{text}"', "format": chosen}
        )
    for text, look in (("fail", bad), ("no answer", bad), ("pass", good)):
        begins = {"type": "text", "criteria": "begins with", "value": text}
        sheet.sheet.conditional_format(_HEAD, 1, _HEAD, 1, {**begins, "format": sheet.book.book.add_format(look)})


def write_engine(book: Book, sheet: Sheet, contents: Contents) -> None:
    """Write the constants of the engine, which hold for every case of the workbook."""
    sheet.text(0, 0, f"Constants of the engine {contents.engine.name}, for every case of this workbook", "title")
    sheet.texts(1, ("constant", "value", "unit", "what it is"), "head")
    line = 1
    for line, entry in enumerate(engine_inputs(contents), 2):
        write_input(book, sheet, line, entry)
    for column, width in enumerate((20, 16, 8, 80)):
        sheet.widen(column, column, width)
    sheet.head(2, 0)
    sheet.prints(line + 1, 4, pages=1)
