"""The sizing workbook is live: engines that are not ours recalculate it and agree with Python, whatever is chosen."""

import itertools
import math
import random
import re
import zipfile
from contextlib import closing
from dataclasses import replace
from html import unescape

import openpyxl
import pandas as pd
import pytest
import tiers
from recalculation import (
    Cells,
    Live,
    cells_of,
    edit,
    libreoffice_is_installed,
    names_of,
    opened,
    recalculated,
    recalculated_many,
)

import roofline as rl
from roofline.catalog.find import load_engine
from roofline.formulas.case import HOST_TIMES
from roofline.outputs.layer_kinds import layer_kinds_of
from roofline.outputs.workbook.case import CHOICES
from roofline.outputs.workbook.sheets import SHEETS

START = {
    **dict.fromkeys(("tp", "pp", "ep", "dp", "replicas", "batch"), 1), "isl": 1000, "osl": 128, "prefix": 0,
    "quantization": "native", "kv_cache_dtype": "as quantization", "basis": "calibrated",
}  # fmt: skip
#: Dense; windows and experts; MLA and experts.
MODELS = ("llama-3.1-8b", "gpt-oss-20b", *tiers.times((), ("deepseek-v2-lite",)))
GPUS = ("h100-sxm", "b200", "l40s")
SLO = {"ttft": 0.5, "tpot": 0.025}
KEYS = {
    "TTFT [ms]": "ttft_ms", "TPOT [ms]": "tpot_ms", "E2EL [ms]": "e2el_ms", "tok/s/user": "tok_s_user",
    "output tok/s": "output_tok_s", "HBM used": "hbm_used_frac", "weights [GB/GPU]": "weights_gb",
    "USD/M output tok": "usd_per_m_output_tok",
    **{
        f"{metric.upper()}, {end} [ms]": f"{metric}_{end}_ms"
        for metric, end in itertools.product(("ttft", "tpot", "e2el"), ("low", "high"))
    },
}  # fmt: skip
DETAILS = {
    **KEYS, "output tok/s/GPU": "output_tok_s_gpu", "prefill bound": "prefill_bound", "decode bound": "decode_bound",
    "KV cache [GB/GPU]": "kv_cache_gb", "knee [sequences]": "knee", "knee set by": "knee_bound",
    "ridge knee": "ridge_knee", "half knee": "half_knee", "memory knee": "memory_knee", "SLO knee": "slo_knee",
    "USD/h": "usd_per_hour", "GPUs": "num_gpus",
}  # fmt: skip
SCENARIOS = {**KEYS, "tok/s/GPU": "output_tok_s_gpu", "largest batch": "memory_knee", "USD/h": "usd_per_hour"}


@pytest.fixture(scope="module")
def book(tmp_path_factory):
    path = tmp_path_factory.mktemp("sheets") / "sizing.xlsx"
    rl.sheet(str(path), MODELS, GPUS, isl=700, batch=[1, 24], spare=2, slo=SLO)
    return path


@pytest.fixture(scope="module")
def recalculated_book(book):
    """The book held open by another engine, and what its formulas gave before anything was edited."""
    live = Live(book)
    return live, {place: live.value(*place) for place in live.formulas}


@pytest.fixture(scope="module")
def live(recalculated_book):
    return recalculated_book[0]


def placed(book, sheet, column):
    """Row of each label of a column."""
    rows = cells_of(book).rows(sheet)
    return {values[column]: row for row, values in rows.items() if values.get(column)}


def placed_inputs(book):
    """Row of each input of the sheet Answer: below its figures, some of which have the same name."""
    return {name: row for name, row in placed(book, "Answer", "A").items() if row > 18}


def headed(book, sheet):
    """Column of each heading, the first where there are several."""
    head = cells_of(book).rows(sheet)[1]
    return {text: column for column, text in reversed(head.items())}


def answer(case, **more):
    """What Python says of the choices of a case, or the error that it refuses them with."""
    own = {name: value for name, value in case.items() if name in ("isl", "osl", "batch", "prefix", "basis")}
    plan = {name: case[name] for name in ("tp", "pp", "ep", "dp")}
    gpus = case["replicas"] * case["tp"] * case["pp"] * case["dp"]
    formats = {
        "quantization": None if case["quantization"] == "native" else case["quantization"],
        "kv_cache_dtype": None if case["kv_cache_dtype"] == "as quantization" else case["kv_cache_dtype"],
    }
    try:
        return rl.predict(case["model"], case["gpu"], **own, **plan, **formats, num_gpus=gpus, **more)
    except rl.RooflineError as error:
        return error


def agrees(shown, known):
    if known is None:
        return shown in ("", None, "none", "no price")
    return shown == known if isinstance(known, str) else math.isclose(shown, known, rel_tol=1e-9)


def drawn(draw):
    """A random case, most of which can be run."""
    choice = draw.choice
    return {
        "model": choice(MODELS), "gpu": choice(GPUS),
        "quantization": choice(["native", "native", "bf16", "fp8", "int4", "nvfp4", "mxfp4", "int8"]),
        "kv_cache_dtype": choice(["as quantization", "auto", "fp8", "bf16"]), "tp": choice([1, 2, 4, 8]),
        "pp": choice([1, 1, 2, 3]), "ep": choice([1, 1, 1, 2, 8]), "dp": choice([1, 1, 2]), "replicas": choice([1, 2]),
        "isl": choice([1, 150, 2500, 30000]), "osl": choice([1, 2, 300]), "batch": choice([1, 3, 40]),
        "prefix": choice([0, 0, 100]), "basis": choice(["calibrated", "ideal"]),
    }  # fmt: skip


def test_whatever_is_computed_apart_says_what_it_belongs_to(book):
    lookups = cells_of(book).rows("Lookups")
    steps = [values["A"] for row, values in lookups.items() if row > 1 and "B" in values]
    headings = [text for sheet in ("Curves", "Scenarios") for text in cells_of(book).rows(sheet)[1].values()]
    headings += [values.get("A") for values in cells_of(book).rows("Knees").values()]
    assert len(steps) > 300
    assert all("\1" not in str(name) for name in (*steps, *filter(None, headings)))
    assert all(steps)
    kernels = {"qkv", "attention", "experts", "head"}
    assert {"kernel time", "collective time", "link roof", "rank batch", "weight bytes", "crossing", *kernels} <= {
        *steps
    }


def test_every_value_beside_a_formula_is_what_another_engine_calculates(book, recalculated_book):
    says, (_, anew) = cells_of(book), recalculated_book
    assert len(anew) > 5000
    for (sheet, address), there in anew.items():
        if sheet in ("Lookups", "Knees", "Rounds"):
            continue  # a search that has settled goes on with what rounding leaves of zero
        here = says.value(sheet, address)
        assert agrees(there, None if here == "" else here), (sheet, address, here, there)


@tiers.has_more_cases
def test_the_answer_is_that_of_python_whatever_is_chosen(book, live):
    inputs, results = placed_inputs(book), placed(book, "Details", "A")
    draw, answered, refused = random.Random(11), 0, 0
    grid = [(model, gpu, quantization) for model in MODELS for gpu in GPUS for quantization in ("native", "fp8")]
    for model, gpu, quantization in draw.sample(grid, tiers.times(2, 9)):
        case = {**drawn(draw), "model": model, "gpu": gpu, "quantization": quantization}
        limits = {"ttft": draw.choice([None, 90, 2000]), "tpot": draw.choice([None, 12, 60])}
        changes = {("Answer", f"B{inputs[name]}"): case[name] for name in CHOICES}
        changes |= {("Answer", f"B{inputs[f'SLO {key}']}"): limit for key, limit in limits.items()}
        live.set_many(changes)
        slo = {key: limit / 1000 for key, limit in limits.items() if limit}
        known = answer(case, slo=slo or None)
        shown = {label: live.value("Details", f"B{row}") for label, row in results.items()}
        if isinstance(known, rl.RooflineError):
            refused += 1
            assert shown["answer"] != "ok", (case, known)
            assert shown["TTFT [ms]"] in ("", None)
            continue
        answered += 1
        row = known.to_dict()
        if not slo:
            row["slo_knee"] = row["memory_knee"]
        assert shown["answer"] == "ok", (case, shown["answer"])
        for label, key in DETAILS.items():
            assert agrees(shown[label], row[key]), (label, shown[label], row[key], case)
        for key, limit in limits.items():
            alone = limit and answer(case, slo={key: limit / 1000}).slo_verdict
            assert shown[f"SLO {key.upper()}"] == (alone.text if limit else "no limit"), (case, limits)
        judged = known.slo_verdict
        assert shown["verdict"] == (judged.text if slo else "no limit"), (case, limits)
        assert (shown["reason"] or "") == ((judged.reason or "") if slo else ""), (case, limits)
    assert answered >= tiers.times(1, 3)
    assert refused >= tiers.times(0, 1)


@tiers.has_more_cases
def test_a_blank_tp_is_the_one_that_python_takes(book, live):
    inputs, results = placed_inputs(book), placed(book, "Details", "A")
    draw, degrees = random.Random(5), set()
    plain = {"kv_cache_dtype": "as quantization", "pp": 1, "ep": 1, "dp": 1, "replicas": 1, "prefix": 0}
    for model, batch in tiers.times([(MODELS[1], 400)], [*itertools.product(MODELS, (1, 400))]):
        case = {**plain, "model": model, "gpu": draw.choice(GPUS), "quantization": "native", "batch": batch}
        case |= {"isl": draw.choice([150, 2500]), "osl": 300, "basis": "calibrated", "tp": ""}
        live.set_many({("Answer", f"B{inputs[name]}"): case[name] for name in CHOICES})
        asked = {name: case[name] for name in ("isl", "osl", "batch")}
        try:
            known = rl.predict(model, case["gpu"], **asked)
        except rl.RooflineError:
            assert live.value("Details", f"B{results['answer']}") != "ok", case
            continue
        assert live.value("Details", f"B{results['GPUs']}") == known.deployment.plan.tp, case
        assert agrees(live.value("Details", f"B{results['TTFT [ms]']}"), known.to_dict()["ttft_ms"]), case
        degrees.add(known.deployment.plan.tp)
    assert len(degrees) >= tiers.times(1, 2)


@tiers.has_more_cases
def test_any_rows_of_the_scenarios_may_be_changed_and_no_other_notices(book, live):
    heads = headed(book, "Scenarios")
    draw, answered = random.Random(4), 0
    before = live.value("Scenarios", f"{heads['TTFT [ms]']}2")
    inputs = placed_inputs(book)
    live.set_many({("Answer", f"B{inputs[f'SLO {key}']}"): SLO[key] * 1000 for key in SLO})
    for _ in range(tiers.times(1, 2)):
        rows = range(3, len(MODELS) * len(GPUS) * 2 + 2)
        cases = {row: drawn(draw) for row in draw.sample(rows, tiers.times(9, 15))}
        live.set_many(
            {("Scenarios", f"{heads[name]}{row}"): case[name] for row, case in cases.items() for name in CHOICES}
        )
        for row, case in cases.items():
            known = answer(case)
            reason = live.value("Scenarios", f"{heads['reason']}{row}")
            if isinstance(known, rl.RooflineError):
                assert reason, (case, known)
                continue
            answered += 1
            assert reason in ("", None), (case, reason)
            shown = {label: live.value("Scenarios", f"{heads[label]}{row}") for label in SCENARIOS}
            told = known.to_dict()
            for label, key in SCENARIOS.items():
                assert agrees(shown[label], told[key]), (label, shown[label], told[key], case)
            judged = answer(case, slo=SLO).slo_verdict
            for label, text in (("SLO", judged.text), ("SLO reason", judged.reason or "")):
                assert (live.value("Scenarios", f"{heads[label]}{row}") or "") == text, case
    assert answered >= tiers.times(3, 12)
    assert live.value("Scenarios", f"{heads['TTFT [ms]']}2") == before  # rows do not know of each other


def test_a_blank_row_says_nothing_until_it_is_filled_in(book, live):
    heads = headed(book, "Scenarios")
    last = len(MODELS) * len(GPUS) * 2 + 3
    assert live.value("Scenarios", f"{heads['TTFT [ms]']}{last}") in ("", None)
    assert live.value("Scenarios", f"{heads['reason']}{last}") in ("", None)
    filled = {"model": "llama-3.1-8b", "gpu": "b200", "isl": 900, "osl": 50, "batch": 2}
    live.set_many({("Scenarios", f"{heads[name]}{last}"): value for name, value in filled.items()})
    known = rl.predict("llama-3.1-8b", "b200", isl=900, osl=50, batch=2, tp=1)
    assert agrees(live.value("Scenarios", f"{heads['TTFT [ms]']}{last}"), known.ttft * 1000)


@pytest.fixture(scope="module")
def shown_of(book, live):
    """What columns of the scenarios show of cases, each on a row of its own: one recalculation answers all."""
    heads = headed(book, "Scenarios")

    def shown(cases, *columns):
        most = len(MODELS) * len(GPUS) * 2
        if len(cases) > most:
            return shown(cases[:most], *columns) + shown(cases[most:], *columns)
        rows = range(2, len(cases) + 2)
        live.set_many(
            {
                ("Scenarios", f"{heads[name]}{row}"): value
                for row, case in zip(rows, cases, strict=True)
                for name, value in case.items()
            }
        )
        return [[live.value("Scenarios", f"{heads[name]}{row}") for name in columns] for row in rows]

    return shown


BEYOND = (
    ({"isl": 1000, "batch": 1}, 0),
    ({"isl": 8000, "batch": 20}, 1),
    ({"isl": 17_000, "batch": 15}, 0),  # in two steps, of 127,500 tokens each
    ({"isl": 9000, "batch": 30}, 1),
    ({"isl": 200_000, "batch": 1}, 2),
    ({"isl": 200_000, "batch": 20, "tp": 8, "kv_cache_dtype": "fp8"}, 3),
    ({"isl": 200_000, "batch": 1, "basis": "ideal"}, 1),
)


def test_what_lies_beyond_the_kernels_timed_is_said_of_the_row_that_asks_for_it(shown_of):
    start = {"model": "llama-3.1-8b", "gpu": "b200", "quantization": "native", "kv_cache_dtype": "auto", "prefix": 0}
    start |= {**dict.fromkeys(("tp", "pp", "ep", "dp", "replicas"), 1), "osl": 100, "basis": "calibrated"}
    cases = [{**start, **case} for case, _ in BEYOND]
    for case, (_, notes), (note,) in zip(cases, BEYOND, shown_of(cases, "note"), strict=True):
        said = [sentence for sentence in answer(case).warnings if f"{sentence}. " in (note or "")]
        assert len(said) == (note or "").count(". ") == notes, case


@pytest.fixture(scope="module")
def smallest(tmp_path_factory):
    """A book of one model on one GPU, held open, and its inputs as they were written."""
    path = tmp_path_factory.mktemp("own") / "own.xlsx"
    rl.sheet(str(path), MODELS[0], GPUS[0], spare=0)
    live = Live(path)
    return path, live, {place: live.value(*place) for place in live.inputs}


@pytest.fixture
def own(smallest):
    """This book as it was written, whatever was typed before."""
    path, live, written = smallest
    live.set_many(written)
    return path, live


def test_a_gpu_and_a_model_of_ones_own_may_be_filled_in(own):
    book, live = own
    gpus, models = headed(book, "GPUs"), headed(book, "Models")
    line, row = 3, 3
    assert live.value("GPUs", f"A{line}") == "my-gpu"
    gpu = {"name": "next-gpu", "HBM bandwidth [B/s]": 9e12, "bf16 peak, dense [FLOP/s]": 4e15}
    model = {
        "name": "my-3b", "hidden": 3072, "vocab": 128256, "tied": 1, "gqa 1 layers": 28, "gqa 1 heads": 24,
        "denseffn 1 layers": 28, "denseffn 1 width": 8192,
    }  # fmt: skip
    inputs, results = placed_inputs(book), placed(book, "Details", "A")
    case = {"model": "my-3b", "gpu": "next-gpu", "isl": 2000, "pp": 2}
    live.set_many(
        {
            **{("GPUs", f"{gpus[heading]}{line}"): value for heading, value in gpu.items()},
            **{("Models", f"{models[heading]}{row}"): value for heading, value in model.items()},
            **{("Answer", f"B{inputs[name]}"): value for name, value in case.items()},
        }
    )
    h100 = rl.load_gpu("h100-sxm")
    own = replace(h100, bandwidth=9e12, peaks={**h100.peaks, "bf16": 4e15})
    known = rl.predict("llama-3.2-3b", own, isl=2000, osl=128, batch=1, tp=1, pp=2).to_dict()
    for label in ("TTFT [ms]", "TPOT [ms]", "weights [GB/GPU]", "HBM used", "half knee"):
        assert agrees(live.value("Details", f"B{results[label]}"), known[DETAILS[label]]), label


REFUSED = (
    ({"model": "no-such"}, "unknown model no-such; the sheet Models lists all"),
    ({"gpu": "=1+1"}, "unknown GPU =1+1; the sheet GPUs lists all"),
    ({"quantization": "fp2"}, "unknown quantization fp2"),
    ({"kv_cache_dtype": "fp2"}, "unknown KV cache format fp2"),
    ({"isl": 0}, "isl must be a number from 1 to 1000000000"),
    ({"batch": "many"}, "batch = many is text where a number belongs; write 2000, or 2k for 2048"),
    ({"isl": "1,5k"}, "isl = 1,5k is text where a number belongs; write 2000, or 2k for 2048"),
    ({"osl": "1-2"}, "osl = 1-2 is text where a number belongs; write 2000, or 2k for 2048"),
    ({"tp": "1.2.3"}, "tp = 1.2.3 is text where a number belongs; write 2000, or 2k for 2048"),
    ({"isl": "2kk"}, "isl = 2kk is text where a number belongs; write 2000, or 2k for 2048"),
    ({"isl": "-2k"}, "isl must be a number from 1 to 1000000000"),
    ({"model": "llama*"}, "unknown model llama*; the sheet Models lists all"),
    ({"model": "llama-3.1-?b"}, "unknown model llama-3.1-?b; the sheet Models lists all"),
    ({"model": "~llama-3.1-8b"}, "unknown model ~llama-3.1-8b; the sheet Models lists all"),
    ({"gpu": "h*"}, "unknown GPU h*; the sheet GPUs lists all"),
    ({"quantization": "fp*"}, "unknown quantization fp*"),
    ({"kv_cache_dtype": "fp?"}, "unknown KV cache format fp?"),
    ({"basis": "*"}, "basis must be calibrated or ideal"),
    ({"prefix": 5000}, "prefix must be 0 or from 1 to isl"),
    ({"tp": 1.5}, "tp must be a whole number, at least 1"),
    ({"basis": "hope"}, "basis must be calibrated or ideal"),
    ({"tp": 3}, "tp = 3 does not divide llama-3.1-8b: 32 heads"),
    ({"ep": 2}, "ep = 2 needs a mixture of experts; llama-3.1-8b is dense"),
    ({"pp": 17}, "pp = 17 exceeds the layers of llama-3.1-8b or the sheet Stages"),
    ({"gpu": "l40s", "quantization": "nvfp4"}, "l40s cannot multiply in nvfp4; choose another quantization"),
    ({"gpu": "l40s", "batch": 500}, re.compile(r"does not fit: \d+% of the usable memory")),
)


def test_what_cannot_be_is_refused_in_words(shown_of):
    start = {**dict.fromkeys(("tp", "pp", "ep", "dp", "replicas", "batch"), 1), "isl": 1000, "osl": 100, "prefix": 0}
    start |= {"model": "llama-3.1-8b", "gpu": "h100-sxm", "quantization": "native", "kv_cache_dtype": "auto"}
    cases = [{**start, "basis": "calibrated", **changes} for changes, _ in REFUSED]
    for (changes, said), (reason, ttft) in zip(REFUSED, shown_of(cases, "reason", "TTFT [ms]"), strict=True):
        assert said.fullmatch(reason) if isinstance(said, re.Pattern) else reason == said, changes
        assert ttft in ("", None), changes


TEXT = "is text where a number belongs; write a number, or"
WRONG = (
    (
        "GPUs",
        "HBM bandwidth [B/s]",
        "fast",
        "my-gpu: HBM bandwidth [B/s] is text where a number belongs; write a number, or 900 GB/s",
    ),
    (
        "GPUs",
        "usable HBM [B]",
        "80 Gb",
        "my-gpu: usable HBM [B] is text where a number belongs; write a number, or 80 GB",
    ),
    ("GPUs", "HBM bandwidth [B/s]", 0, "my-gpu: HBM bandwidth [B/s] must be a number above 0"),
    ("GPUs", "GPUs per scale-up domain", None, "my-gpu: GPUs per scale-up domain must be a number above 0"),
    ("GPUs", "link per direction [B/s]", -1, "my-gpu: link per direction [B/s] must be a number, or blank"),
    ("GPUs", "GPUs per scale-up domain", "8 GPUs", "my-gpu: GPUs per scale-up domain must be a number above 0"),
    ("GPUs", "kernels like", "h900", "my-gpu: kernels like must name a GPU of this sheet"),
    ("GPUs", "bf16 peak, dense [FLOP/s]", None, "my-gpu cannot multiply in native; choose another quantization"),
    ("Models", "hidden", None, "my-model: hidden must be a number above 0"),
    ("Models", "gqa 1 kv heads", 3, "my-model: kv heads of gqa_1 must divide its heads"),
    ("Models", "gqa 1 layers", 3, "my-model: mixers and networks must have the same number of layers"),
    ("Engine", "routing skew", 0, "routing skew must be a number from 0.01 to 1e+06"),
    ("Engine", "request", None, "request must be at least 0 ms"),
    ("Answer", "SLO ttft", 0, "SLO ttft must be above 0 ms, or blank"),
    ("Engine", "request", "long", "long is text where a number belongs: request must be at least 0 ms"),
)


@tiers.has_more_cases
def test_figures_of_ones_own_that_cannot_be_are_refused_and_a_link_is_missed_where_several_need_it(own):
    path, live = own
    inputs, results = placed_inputs(path), placed(path, "Details", "A")
    constants = placed(path, "Engine", "A")
    choices = {"model": "my-model", "gpu": "my-gpu"}
    live.set_many({("Answer", f"B{inputs[name]}"): value for name, value in choices.items()})
    last = {}
    for sheet, name, value, said in tiers.some(WRONG, 5):
        cell = f"B{(inputs | constants)[name]}" if sheet in ("Answer", "Engine") else f"{headed(path, sheet)[name]}3"
        before = live.value(sheet, cell)
        live.set_many({**last, (sheet, cell): value})  # with the last one as it was: it would still be named
        last = {(sheet, cell): before}
        shown = {label: live.value("Details", f"B{row}") for label, row in results.items()}
        assert shown["answer"] == said
        assert not [word for word in shown.values() if isinstance(word, str) and word.startswith("#")], said
    live.set_many(last)
    assert live.value("Details", f"B{results['answer']}") == "ok"
    path, live = own
    link, tp = f"{headed(path, 'GPUs')['link per direction [B/s]']}3", f"B{placed_inputs(path)['tp']}"
    answer_ = f"B{placed(path, 'Details', 'A')['answer']}"
    before = live.value("GPUs", link)
    live.set_many({("GPUs", link): None})
    assert live.value("Details", answer_) == "ok"
    live.set_many({("Answer", tp): 2})
    assert live.value("Details", answer_) == "my-gpu has no link between GPUs"
    live.set_many({("Answer", tp): 1, ("GPUs", link): before})


ALLOWED = frozenset(
    "ABS AND CHOOSE EXACT FIND IF IFERROR INDEX INT ISERROR ISNUMBER LEFT LEN LN MATCH MAX MIN MOD NA NOT OR "  # noqa: SIM905
    "POWER RIGHT ROUND SQRT SUBSTITUTE SUM TRIM VALUE".split()
)


def formulas(book):
    with zipfile.ZipFile(book) as archive:
        for part in archive.namelist():
            if part.startswith("xl/worksheets/sheet"):
                yield from re.findall(r"<f[^>/]*>([^<]*)</f>", archive.read(part).decode())


def nested(text):
    """Brackets inside each other, and most arguments of a function."""
    open_, deepest, most = [], 0, 0
    for sign in re.findall("[(),]", text):
        if sign == "(":
            open_.append(1)
        elif sign == "," and open_:
            open_[-1] += 1
        elif sign == ")":
            most = max(most, open_.pop())
        deepest = max(deepest, len(open_))
    return deepest, most


def test_only_functions_that_excel_libreoffice_and_google_sheets_share(book):
    longest = 0
    for text in map(unescape, formulas(book)):
        bare = re.sub(r'"[^"]*"', '""', text)
        deepest, most = nested(bare)
        assert deepest < 64, text
        assert most <= 255, text
        assert all(len(said) <= 255 for said in re.findall(r'"([^"]*)"', text)), text
        assert set(re.findall(r"([A-Z][A-Z.]*)\(", bare)) <= ALLOWED, text
        assert "^" not in bare, text
        assert not re.search(r"(^|[(,=<>])-[$A-Z(]", bare), text  # a sign binds tighter than a power
        longest = max(longest, len(text))
    assert 500 < longest < 8192


def test_names_point_into_the_book_and_nothing_leaves_it(book):
    names = names_of(book)
    assert len(names) > 80
    for name, text in names.items():
        assert not re.fullmatch(r"[A-Za-z]{1,3}\d+|[RrCc](\d.*)?", name), name
        assert re.fullmatch(r"(\w+)!\$[A-Z]+\$\d+(:\$[A-Z]+\$\d+)?", text), text
    with zipfile.ZipFile(book) as archive:
        assert not [part for part in archive.namelist() if "vba" in part.lower() or "externalLink" in part]
        assert not any("://" in text for text in formulas(book))
    engine, labels = load_engine("generic"), placed(book, "Engine", "A")
    times = {name for name in HOST_TIMES if getattr(engine, name) > 0.0}
    assert {"arrival", "launch", "prefill"} <= times
    assert {name for name in times if name in labels} == times


def test_sheets_stand_in_their_order_and_every_figure_names_its_source(book):
    with closing(openpyxl.load_workbook(book, read_only=True)) as sheets:
        assert tuple(sheets.sheetnames) == SHEETS
        sources = list(sheets["Sources"].iter_rows(min_row=2, values_only=True))
        about = {row[0]: row[1] for row in sheets["About"].iter_rows(values_only=True)}
    of = {row[0] for row in sources}
    assert {*MODELS, *GPUS} <= of
    assert all(row[3] and row[5] for row in sources), "a figure without source or date"
    layers = {row[0]: row[2] for row in sources if row[1] == "memory.bandwidth"}
    assert len(set(layers.values())) == len(GPUS), "figures of one GPU under the name of another"
    assert about["version"] == rl.__version__
    assert re.match(r"[0-9a-f]{12} ", about["catalog hash"])
    assert about["basis, h100-sxm"].startswith("calibrated: hopper")
    assert "80 % interval" in about["error band"]


def test_readers_that_do_not_calculate_see_the_right_numbers_and_sums_over_kernels(book):
    frame = pd.read_excel(book, sheet_name="Scenarios").dropna(subset="model")
    assert len(frame) == len(MODELS) * len(GPUS) * 2
    first = frame.iloc[0]
    known = rl.predict(first["model"], first["gpu"], isl=700, osl=128, batch=1)
    assert agrees(float(first["TTFT [ms]"]), known.ttft * 1000)
    assert agrees(float(first["TPOT [ms]"]), known.tpot * 1000)
    with closing(openpyxl.load_workbook(book, read_only=True)) as sheets:
        kernels = list(sheets["Kernels"].iter_rows(min_row=2, max_col=6))
    totals = [row for row in kernels if str(row[0].value).endswith(", all")]
    assert [row[0].value for row in totals] == ["prefill, all", "decode, all"]
    for row in totals:
        assert re.fullmatch(r"=SUM\(\$F\$\d+:\$F\$\d+\)", row[5].value), row[5].value
    names = [row[1].value for row in kernels]
    assert {"qkv", "attention", "experts", "host, decode step", "head"} <= set(names)
    frame = pd.read_excel(book, sheet_name="Kernels").set_index(["pass", "kernel"])
    frame = frame[frame["time [s]"] > 0.0]  # kernels of other kinds of layers have the same names
    known = rl.predict(MODELS[0], GPUS[0], isl=700, batch=1)
    for kernel in known.prefill.kernels:
        if kernel.kind.name in ("gemm", "attention_prefill", "elementwise"):
            row = frame.loc["prefill", kernel.name]
            for name in ("eta_c", "eta_m", "eta_x", "eta_s", "kappa", "kappa_s", "eps"):
                assert row[name] == getattr(kernel.roof.efficiency, name), (kernel.name, name)
            assert row["t0 [s]"] == kernel.roof.efficiency.t0
            assert math.isnan(row["link [B/s]"])
    assert frame.loc["prefill", "attention"]["kappa_s"] > 0.0


@pytest.mark.skipif(not libreoffice_is_installed(), reason="LibreOffice is not installed")
def test_libreoffice_agrees_after_edits_and_on_knees_of_uniform_routing_and_of_many_kinds_of_layers(tmp_path):
    """One test: its start takes LibreOffice longer than all of the workbooks."""
    book, uniform, many = (tmp_path / f"{name}.xlsx" for name in ("small", "uniform", "many"))
    rl.sheet(str(uniform), "gpt-oss-20b", "h100-sxm", isl=8000, routing="uniform", spare=0)
    kinds = ["jamba-v0.1", "qwen3-next-80b-a3b", "gemma-3-27b"]
    rl.sheet(str(many), kinds, ["h100-nvl", "mi300x"], spare=0, slo=SLO)
    rl.sheet(str(book), MODELS, GPUS[:2], tp=8, slo=SLO, spare=0)
    inputs, results = placed_inputs(book), placed(book, "Details", "A")
    draw, cases, paths = random.Random(2), [], []
    while len(cases) < 2:
        case = drawn(draw)
        if case["gpu"] not in GPUS[:2] or isinstance(answer(case), rl.RooflineError):
            continue
        paths.append(tmp_path / f"case{len(cases)}.xlsx")
        edit(book, paths[-1], {("Answer", f"B{inputs[name]}"): case[name] for name in CHOICES})
        cases.append(case)
    *edited, of_uniform, of_many = recalculated_many([*paths, uniform, many], "libreoffice")
    for case, anew in zip(cases, edited, strict=True):
        row = answer(case, slo=SLO).to_dict()
        for label, key in {**DETAILS, "verdict": "slo_verdict", "reason": "slo_reason"}.items():
            assert agrees(anew.value("Details", f"B{results[label]}"), row[key]), (label, case)
    for path, anew in ((uniform, of_uniform), (many, of_many)):
        says = Cells(path)
        for sheet, address in says.formulas:
            if sheet in ("Lookups", "Knees", "Rounds"):
                continue  # as above
            here, there = (cells.value(sheet, address) for cells in (says, anew))
            assert agrees(there, None if here == "" else here), (path.name, sheet, address, here, there)


#: Models with more kinds of layers together than most workbooks hold.
MANY_KINDS = (
    "llama-3.3-nemotron-super-49b", "gemma-4-26b-a4b", "glm-5.2", "gpt-oss-120b", "kimi-k3", "lfm2-8b-a1b",
    "muse-spark-816b-a42b",
)  # fmt: skip


def test_models_of_any_number_of_kinds_of_layers_share_a_workbook(tmp_path):
    path = tmp_path / "kinds.xlsx"
    kinds, _ = layer_kinds_of([rl.load_model(name) for name in MANY_KINDS])
    assert len(kinds) > 24
    rl.sheet(str(path), MANY_KINDS, "b200", isl=3000, tp=8, spare=0)
    live, heads = Live(path), headed(path, "Scenarios")
    for row, name in enumerate(MANY_KINDS, 2):
        known = answer({**START, "model": name, "gpu": "b200", "isl": 3000, "tp": 8})
        shown = live.value("Scenarios", f"{heads['TTFT [ms]']}{row}")
        if isinstance(known, rl.RooflineError):
            assert live.value("Scenarios", f"{heads['reason']}{row}"), name
        else:
            assert agrees(shown, known.ttft * 1000), name


def test_five_hundred_scenarios_stay_small_and_nothing_is_overwritten_unasked(tmp_path, book):
    path = tmp_path / "big.xlsx"
    rows = rl.sheet(str(path), MODELS[:2], GPUS[:2], isl=[100, 500, 1000, 4000, 8000], batch=list(range(1, 26)))
    assert rows == 500
    assert path.stat().st_size < 5e6
    path = tmp_path / "mine.xlsx"
    path.write_text("a planner's work")
    with pytest.raises(rl.BadInput, match="overwrite it with `force`"):
        rl.sheet(str(path), "llama-3.1-8b", "h100-sxm")
    assert path.read_text() == "a planner's work"
    rl.sheet(str(path), "llama-3.1-8b", "h100-sxm", spare=0, force=True)
    with closing(openpyxl.load_workbook(path, read_only=True)) as written:
        assert written.sheetnames[0] == "Answer"
    with pytest.raises(rl.BadInput, match="cannot be written"):
        rl.sheet(str(tmp_path / "none" / "sizing.xlsx"), "llama-3.1-8b", "h100-sxm")
    with pytest.raises(rl.BadInput, match="cannot be written"):
        rl.sheet(str(tmp_path / f"{'n' * 300}.xlsx"), "llama-3.1-8b", "h100-sxm")


def test_what_a_workbook_cannot_express_is_refused_by_name(tmp_path):
    model, gpu = rl.load_model("llama-3.1-8b"), rl.load_gpu("h100-sxm")
    other = {key: replace(entry, p=2.0) for key, entry in gpu.calibration.kernels.items()}
    small = ("llama-3.1-8b", "h100-sxm")
    twins = [model, replace(model, name="other", short_name="Llama-3.1-8B")]
    for case, options, error, said in (
        (("deepseek-v4-flash", gpu), {}, rl.BadInput, r"v4-flash: compressed attention \(csa\) is not supported"),
        (("glm-5.3-flash", gpu), {}, rl.BadInput, r"glm-5\.3-flash: hyper-connections are not supported"),
        (small, {"measured": {"ttft": 1.0}}, rl.BadInput, "sheet takes no measured: a workbook has no cell for it"),
        (small[:1], {"isl": list(range(1, 9000))}, rl.BadInput, "728919 scenarios exceed the limit of 5000; use fewer"),
        (small, {"quantization": "fp2"}, rl.UnknownName, None),
        (("deepseek-v3", "l40s"), {}, rl.DoesNotFit, None),
        ((twins, gpu), {}, rl.BadInput, r"two models are called llama-3\.1-8b"),
        ((model, replace(gpu, name="my-gpu")), {}, rl.BadInput, "two GPUs are called my-gpu"),
        ((model, replace(gpu, name="a*b")), {}, rl.BadInput, r"'a\*b' cannot be a workbook name"),
        ((model, replace(gpu, calibration=None)), {}, rl.BadInput, "h100-sxm has no calibration"),
        ((model, replace(gpu, calibration=replace(gpu.calibration, kernels=other))), {}, rl.BadInput,
         "its calibration has p = 2 for gemm kernels, not 3"),
    ):  # fmt: skip
        with pytest.raises(error, match=said):
            rl.sheet(str(tmp_path / "no.xlsx"), *case, **options)
    with pytest.raises(rl.BadInput, match=r"no\.csv: the file name must end in \.xlsx"):
        rl.sheet(str(tmp_path / "no.csv"), *small)
    assert not list(tmp_path.iterdir())


def test_text_of_a_catalog_never_becomes_a_formula(tmp_path):
    path = tmp_path / "text.xlsx"
    model, gpu = rl.load_model("llama-3.1-8b"), rl.load_gpu("h100-sxm")
    models = [replace(model, short_name="=1+1"), replace(model, name="other", short_name="-1")]
    rl.sheet(str(path), models, [replace(gpu, name="@SUM(A1)"), replace(gpu, name="+1")], spare=0)
    sheets = opened(path)
    inputs = placed_inputs(path)
    names = {
        ("Answer", f"B{inputs['model']}"): "=1+1",
        ("Scenarios", "A2"): "=1+1",
        ("Models", "A3"): "-1",
        ("GPUs", "A3"): "+1",
    }
    names |= {("Answer", f"B{inputs['gpu']}"): "@SUM(A1)", ("GPUs", "A2"): "@SUM(A1)"}
    for (sheet, address), name in names.items():
        cell = sheets[sheet][address]
        assert cell.value == name
        assert cell.data_type == "s", "text, not a formula"
    known, results = rl.predict(model, gpu), placed(path, "Details", "A")
    assert agrees(Live(path).value("Details", f"B{results['TTFT [ms]']}"), known.ttft * 1000)


@pytest.mark.parametrize("engine", ["none", "trtllm-0.9", "eager"])
def test_engines_and_uniform_routing_hold_for_the_whole_workbook(tmp_path, engine):
    path = tmp_path / "engine.xlsx"
    rl.sheet(str(path), "qwen3-30b-a3b", "h100-sxm", isl=1500, batch=8, engine=engine, routing="uniform", spare=0)
    anew, results = recalculated(path), placed(path, "Details", "A")
    known = rl.predict("qwen3-30b-a3b", "h100-sxm", isl=1500, batch=8, engine=engine, routing="uniform").to_dict()
    for label in KEYS:
        assert agrees(anew.value("Details", f"B{results[label]}"), known[KEYS[label]]), label
