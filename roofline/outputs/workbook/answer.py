"""Sheets that a planner reads first: the answer with its inputs, all of its figures, and the engine's constants."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from roofline.numbers.operations import where
from roofline.numbers.quantity import GIGA, HOUR, MILLI, MONTH
from roofline.outputs.workbook.case import (
    Contents,
    LookupCase,
    Trials,
    knees_of,
)
from roofline.outputs.workbook.cells import INFINITE, Cell, named, scope
from roofline.outputs.workbook.inputs import choice_inputs, engine_inputs, write_input
from roofline.outputs.workbook.judged import NO_LIMIT, range_of, words_on
from roofline.outputs.workbook.writer import Book, Sheet, address
from roofline.serving.verdict import PASS
from roofline.specs.workload import BETWEEN_TOKENS
from roofline.specs.workload import OF_REQUESTS as SLO_KEYS
from roofline.support.records import NamedTuple

_HEAD = 3  # row of the verdict
#: Labels of the figures at the head of the answer, and those of their limit.
_HEADLINE = (
    ("TTFT", "TTFT [ms]", "ms", "time to first token", "ttft"),
    ("TPOT", "TPOT [ms]", "ms", "time per output token after the first", "tpot"),
    ("E2EL", "E2EL [ms]", "ms", "whole request, until its last token", "e2el"),
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


def figures_of(case: LookupCase, trials: Trials) -> Iterator[Figure]:
    """All figures of a case."""
    prediction, memory = case.prediction, case.prediction.memory
    ok = case.reason == ""

    def shown(cell: Any) -> Any:
        return where(ok, cell, "")

    def held(cell: Any) -> Any:
        return where(case.impossible == "", cell, "")

    def finite(cell: Any) -> Any:
        return where(ok, where(cell < INFINITE, cell, "none"), "")

    several: Any = prediction.workload.osl > 1.0
    step: Any = prediction.tpot
    ideal = prediction.ideal
    yield Figure("answer", where(ok, "ok", case.reason), "word")
    word, why = words_on(prediction, SLO_KEYS)
    yield Figure("verdict", shown(word), "word", "certain where the whole 80 % range meets or misses the limits")
    yield Figure("reason", shown(why), "word", "why the verdict is not pass")
    yield Figure("note", shown(case.note), "word", "where the case is beyond the timed kernels")
    yield Figure("TTFT [ms]", shown(prediction.ttft / MILLI), "result", "time to first token")
    yield Figure(
        "TPOT [ms]", shown(where(several, step / MILLI, "")), "result", "time per output token after the first"
    )
    yield Figure("E2EL [ms]", shown(prediction.e2el / MILLI), "result", "request until last token")
    yield from range_figures(case)
    yield Figure("tok/s/user", shown(where(several, prediction.tok_s_user, "")), "result", "one user, while decoding")
    yield Figure("output tok/s", shown(prediction.output_tok_s), "result", "of all replicas")
    yield Figure("output tok/s/GPU", shown(prediction.output_tok_s_gpu), "result")
    yield Figure("prefill bound", shown(named("bound", prediction.prefill.bound)), "word")
    yield Figure("decode bound", shown(where(several, named("bound", prediction.decode.bound), "")), "word")
    yield Figure("TTFT, hardware limit [ms]", shown(ideal[0].time / MILLI), "number", "full rates, no host")
    yield Figure("TPOT, hardware limit [ms]", shown(where(several, ideal[1].time / MILLI, "")), "number")
    yield Figure("GPUs", shown(prediction.deployment.num_gpus), "whole", "of all replicas")
    yield Figure("weights [GB/GPU]", held(memory.weights / GIGA), "number")
    yield Figure("KV cache [GB/GPU]", held(memory.kv_cache / GIGA), "number")
    yield Figure("activations [GB/GPU]", held(memory.activations / GIGA), "number")
    yield Figure("reserve [GB/GPU]", held(memory.reserve / GIGA), "number")
    yield Figure("HBM used", held(memory.used_fraction), "share", "of the usable memory")
    yield Figure("fits", held(where(memory.fits, "yes", "no")), "word")
    knees = knees_of(trials)
    with scope("smallest"):
        smallest, name = knees.smallest
    yield Figure("knee [sequences]", shown(smallest), "number", "batch beyond which decode stops being cheap")
    yield Figure("knee set by", shown(name), "word")
    yield Figure("ridge knee", finite(knees.ridge), "number", "weights turn compute-bound")
    yield Figure("half knee", finite(knees.half), "number", "half of the peak throughput")
    yield Figure("memory knee", shown(knees.memory), "whole", "largest batch that fits")
    yield Figure("SLO knee", shown(knees.slo), "whole", "largest batch that fits and meets the limits")
    hourly: Any = prediction.usd_per_hour
    per_token = prediction.usd_per_m_output_tok
    priced = hourly > 0
    yield Figure("USD/h", shown(where(priced, hourly, "no price")), "number", "typical price of all GPUs")
    monthly = where(priced, hourly * (MONTH / HOUR), "no price")
    yield Figure("USD/month", shown(monthly), "money", f"{MONTH / HOUR:g} hours of all GPUs")
    yield Figure("USD/M output tok", shown(where(priced, per_token, "no price")), "result", "at full utilisation")
    for key in SLO_KEYS:
        yield Figure(f"SLO {key.upper()}", shown(words_on(prediction, [key])[0]), "word", "this limit alone")


def range_figures(case: LookupCase, *, in_words: bool = True) -> Iterator[Figure]:
    """Ends of the 80 % ranges of a case, and with `in_words` both as one text."""
    several: Any = case.prediction.workload.osl > 1.0
    for metric in SLO_KEYS:
        ends = range_of(case.prediction, metric)
        for label, cell in zip(("low", "high", "80 % range")[: 3 if in_words else 2], ends, strict=False):
            shown = where(several, cell, "") if metric in BETWEEN_TOKENS else cell
            style, note = ("range", "") if cell is ends.text else ("number", f"{label} end of the 80 % range")
            yield Figure(f"{metric.upper()}, {label} [ms]", where(case.reason == "", shown, ""), style, note)


def write_answer(book: Book, sheet: Sheet, contents: Contents, places: Mapping[str, Any]) -> None:
    """Write the sheet Answer; `places` are address and value of each figure on the sheet Details."""
    sheet.text(0, 0, "How fast does this model run on this GPU, and does it meet the limits?", "title")
    about = "Change the yellow cells; all else follows. A replica starts `batch` requests together on an idle server."
    sheet.text(1, 0, about, "note")
    _write_verdict(sheet, places)
    sheet.texts(_HEAD + 1, ("figure", "value", "unit", "80 % range", "what it is", "verdict on its limit"), "group")
    for line, (label, figure, unit, note, key) in enumerate(_HEADLINE, _HEAD + 2):
        style, (cell, value) = places[figure][0], places[figure][1:]
        sheet.text(line, 0, label)
        sheet.formula(line, 1, cell, value, style)
        sheet.text(line, 2, unit, "unit")
        sheet.text(line, 4, note, "said")
        if key:
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
