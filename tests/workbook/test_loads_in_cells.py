"""Users and request rates in cells say what Python says: means, percentiles, ranges, verdicts and reasons."""

import math
import random
from dataclasses import replace

import numpy as np
import pytest
import tiers
from recalculation import Live, edit, libreoffice_is_installed, recalculated_many
from test_sheets import agrees, placed, placed_inputs

import roofline as rl
from roofline.outputs.workbook import rounds
from roofline.outputs.workbook.case import CHOICES, TYPED, case_inputs, lookup_case
from roofline.outputs.workbook.cells import Cell, CellPool
from roofline.outputs.workbook.judged import range_of
from roofline.outputs.workbook.loads import asked_case, typed_loads
from roofline.outputs.workbook.rounds import Rounds
from roofline.outputs.workbook.typed import LEVELS
from roofline.questions.sheet import _contents
from roofline.specs.workload import OF_REQUESTS, key_of

#: Of a percentile, which may lie where its distribution is nearly flat; of anything else.
FLAT, EXACT = 1e-7, 1e-9
MODELS = {"vllm": ["llama-3.1-8b"], "sglang": ["qwen3-30b-a3b"], "generic": ["deepseek-v2-lite"]}
GPUS = ["h100-sxm", "l40s", "mi300x", "gaudi3"]
PLAIN = {
    "gpu": "h100-sxm", "quantization": "native", "kv_cache_dtype": "as quantization", "tp": 1, "pp": 1, "ep": 1,
    "dp": 1, "replicas": 1, "isl": 1000, "osl": 200, "batch": 8, "prefix": 0, "basis": "calibrated",
}  # fmt: skip
#: A load whose 99th percentile is not known: its closed form contradicts the mean.
_CONTRADICTED = {"model": "qwen3-30b-a3b", **PLAIN}, {"request_rate": 7.9173}, "p99", {"ttft": 30.0, "tpot": 5.0}
UNKNOWN = {"sglang": [_CONTRADICTED]}
DETAILS = {
    "TTFT [ms]": "ttft_ms", "TPOT [ms]": "tpot_ms", "E2EL [ms]": "e2el_ms", "TTFT p99 [ms]": "ttft_p99_ms",
    "TPOT p95 [ms]": "tpot_p95_ms", "output tok/s": "output_tok_s", "requests in flight": "concurrency",
    "requests/s": "request_rate", "most requests/s": "max_request_rate", "utilisation": "util",
    "GPUs": "num_gpus", "USD/M output tok": "usd_per_m_output_tok",
    "KV cache [GB/GPU]": "kv_cache_gb", "prefill bound": "prefill_bound", "decode bound": "decode_bound",
    "verdict": "slo_verdict", "reason": "slo_reason",
}  # fmt: skip


def values(cell, count):
    """The values of a cell, one for each case."""
    held = cell.value if isinstance(cell, Cell) else cell
    return np.broadcast_to(np.asarray(held, dtype=object).reshape(-1), (count,)).tolist()


def drawn(draw, model):
    """A random case with a load and limits."""
    choice = draw.choice
    row = {
        "model": model, "gpu": choice(GPUS), "quantization": choice(["native", "fp8"]),
        "kv_cache_dtype": "as quantization", "tp": choice([1, 4, 8, None]), "pp": choice([1, 1, 1, 2]), "ep": 1,
        "dp": choice([1, 1, 2]), "replicas": choice([1, 2]), "isl": choice([100, 700, 3000]),
        "osl": choice([1, 2, 60, 300]), "batch": 8, "prefix": choice([0, 0, 60]), "basis": "calibrated",
    }  # fmt: skip
    if row["tp"] is None:
        row |= {"pp": 1, "dp": 1, "replicas": 1}
    load = choice([{"users": choice([1, 3, 24, 120])}, {"request_rate": choice([0.2, 1.5, 6.0])}])
    slo = {"ttft": choice([0.1, 0.5, 3.0]), "tpot": choice([0.012, 0.03, 0.1])}
    return row, load, choice([*LEVELS]), slo


def predicted(engine, row, load, level, slo):
    """What Python says, or why it refuses."""
    at = "" if level == "mean" else f"@{level}"
    options = {name: row[name] for name in ("isl", "osl", "prefix", "pp", "ep", "dp")}
    if row["tp"] is not None:
        options |= {"tp": row["tp"], "num_gpus": row["tp"] * row["pp"] * row["dp"] * row["replicas"]}
    if row["quantization"] != "native":
        options["quantization"] = row["quantization"]
    asked = {"concurrency" if name == "users" else name: amount for name, amount in load.items()}
    limits = {f"{metric}{at}": limit for metric, limit in slo.items()}
    try:
        return rl.predict(row["model"], row["gpu"], engine=engine, slo=limits, **options, **asked)
    except rl.RooflineError as error:
        return error


def asked_of(contents, cases):
    """All cases in cells under their loads."""

    def column(entries):
        entries = [float("nan") if entry is None else entry for entry in entries]
        return np.array(entries, dtype=object if isinstance(entries[0], str) else float)

    rows, loads, levels, limits = zip(*cases, strict=True)
    contents = replace(
        contents,
        loads={name: column([load.get(name) for load in loads]) for name in TYPED},
        level=column(levels),
        slo={key: column([slo[key] for slo in limits]) for key in limits[0]},
    )
    pool = CellPool()
    cells = {name: pool.input(f"in_{name}", column([row[name] for row in rows])) for name in CHOICES}
    typed = typed_loads(contents, pool)
    case = lookup_case(contents.catalog, case_inputs(contents, pool, cells)._replace(loads=typed))
    return asked_case(contents, case, typed, Rounds("Rounds"))


@tiers.has_more_cases
@pytest.mark.parametrize("engine", MODELS)
def test_loads_in_cells_are_those_of_python(engine):
    contents, _ = _contents(MODELS[engine], GPUS, 0, {"engine": engine, "tp": 8})
    draw, answered, refused = random.Random(f"loads of {engine}"), 0, 0
    cases = [*UNKNOWN.get(engine, ()), *(drawn(draw, MODELS[engine][0]) for _ in range(tiers.times(12, 40)))]
    shown = figures(asked_of(contents, cases), len(cases))
    for place, case in enumerate(cases):
        known, here = predicted(engine, *case), {name: column[place] for name, column in shown.items()}
        reason = here["refused"]
        if isinstance(known, rl.RooflineError):
            refused += 1
            assert reason.partition(":")[0] == known.short or known.short == "refused", (reason, known, case)
        elif "ask roofline predict" in reason:  # outside the validated range
            assert known.slo_verdict.reason.startswith("outside"), (reason, case)
        else:
            assert reason == "", (reason, case)
            answered += 1
            check(here, known, case)
    assert answered >= tiers.times(5, 20)
    assert refused + answered >= tiers.times(9, 32)


def figures(asked, count):
    """What cells say, by name, of each case."""
    cells = {"refused": asked.reason, "used": asked.of(lambda each: each.memory.used)}
    cells["tp"] = asked.of(lambda each: each.deployment.plan.tp)
    for name in ("output_tok_s", "util", "concurrency", "queue"):
        cells[name] = asked.of(lambda each, name: getattr(each, name) or 0.0, name)
    for metric in OF_REQUESTS:
        for level in LEVELS.values():
            key = key_of(metric, level)
            cells[key] = asked.of(lambda each, key: each.latency(key), key)
            for end in (0, 1):
                cells[key, end] = asked.of(lambda each, key, end: range_of(each, key)[end], key, end)
    cells["word"], cells["why"] = asked.verdict([*asked.case.prediction.slo])
    return {name: values(cell, count) for name, cell in cells.items()}


def check(here, known, case):
    """Figures, ranges, verdict and reason."""
    for metric in OF_REQUESTS:
        for level in () if metric == "tpot" and known.tpot is None else LEVELS.values():
            key, far = key_of(metric, level), EXACT if level is None else FLAT
            there = known.latency(key)
            assert math.isnan(here[key]) if there is None else math.isclose(here[key], there, rel_tol=far), (key, case)
            if there is not None:
                ends = [1e3 * end for end in known.latency_interval(key)]
                assert [here[key, 0], here[key, 1]] == pytest.approx(ends, rel=far), (key, case)
    for name in ("output_tok_s", "util", "concurrency", "queue"):
        assert here[name] == pytest.approx(getattr(known, name), rel=EXACT, abs=1e-12), (name, case)
    assert here["used"] == pytest.approx(known.memory.used, rel=EXACT), case
    assert here["tp"] == known.deployment.plan.tp, case
    assert (here["word"], here["why"] or None) == (known.slo_verdict.text, known.slo_verdict.reason), case


@pytest.mark.parametrize(
    ("rows", "said"),
    [
        (
            {4: 512, 8: 3, 12: 128},
            ("", "not known", "a percentile takes more rounds than the sheet Rounds has rows for; ask"),
        ),
        ({4: 1, 12: 128}, ("this load takes more rounds than the sheet Rounds has rows for; ask roofline predict",)),
    ],
)
def test_what_has_no_rows_left_is_said_and_never_passes(monkeypatch, rows, said):
    monkeypatch.setattr(rounds, "_MOST_OF_FEWER", rows)
    contents, _ = _contents(["llama-3.1-8b"], ["l40s"], 0, {"engine": "vllm", "tp": 1})
    row = {**PLAIN, "model": "llama-3.1-8b", "gpu": "l40s", "isl": 3000, "osl": 300}
    case = row, {"request_rate": 0.9}, "p99", {"ttft": 1e3, "tpot": 1e3}
    shown = {name: column[0] for name, column in figures(asked_of(contents, [case]), 1).items()}
    found = [shown[name] for name in ("refused", "word", "why")][: len(said)]
    assert all(here == word or (word and here.startswith(word)) for here, word in zip(found, said, strict=True)), found


def test_another_engine_says_of_a_load_what_python_says_and_a_blank_one_is_a_burst(tmp_path):
    book = tmp_path / "loads.xlsx"
    rl.sheet(
        str(book), "llama-3.1-8b", "h100-sxm", isl=900, osl=120, spare=0, concurrency=20, slo="ttft:150@p99,tpot:9@p99"
    )
    inputs, results = placed_inputs(book), placed(book, "Details", "A")
    asked = {"isl": 900, "osl": 120}
    cases = [
        ({"users": 20, "request_rate": None, "SLO level": "p99"}, {"concurrency": 20}, "@p99"),
        ({"users": None, "request_rate": 4.5, "SLO level": "p95"}, {"request_rate": 4.5}, "@p95"),
        ({"users": None, "request_rate": None, "SLO level": "mean", "batch": 1}, {}, ""),
    ]
    paths = []
    for place, (typed, _, _) in enumerate(cases):
        paths.append(tmp_path / f"load{place}.xlsx")
        edit(book, paths[-1], {("Answer", f"B{inputs[name]}"): number for name, number in typed.items()})
    engine = "libreoffice" if libreoffice_is_installed() else "betteroffice"
    for anew, (_, load, at) in zip(recalculated_many(paths, engine), cases, strict=True):
        row = rl.predict("llama-3.1-8b", "h100-sxm", slo=f"ttft:150{at},tpot:9{at}", **asked, **load).to_dict()
        for label, key in DETAILS.items():
            shown = anew.value("Details", f"B{results[label]}")
            if not load and key.endswith(("p95_ms", "p99_ms")):
                continue  # of a burst the mean
            assert agrees(shown, row[key] if row[key] is not None else None), (label, shown, row[key], load)


def test_what_is_typed_as_a_load_is_refused_in_words(tmp_path):
    book = tmp_path / "loads.xlsx"
    rl.sheet(str(book), "llama-3.1-8b", "h100-sxm", isl=900, osl=120, spare=0)
    live, inputs, results = Live(book), placed_inputs(book), placed(book, "Details", "A")
    places = {name: ("Answer", f"B{row}") for name, row in inputs.items()}
    blank = {place: live.value(*place) for place in places.values()}
    for typed, said in (
        ({"users": 3, "request_rate": 2}, "choose users or request_rate, not both"),
        ({"users": "many"}, "users = many is text where a number belongs"),
        ({"users": 0}, "users must be at least 1, or blank"),
        ({"users": 1e12}, "users must be at most 1000000000, or blank"),
        ({"request_rate": "3 a second"}, "request_rate = 3 a second is text where a number belongs; write 3, 3/s"),
        ({"request_rate": 500}, "overloaded: at most"),
        ({"users": 3, "basis": "ideal"}, "cells answer loads on the calibrated basis only; ask roofline predict"),
        ({"SLO level": "p90"}, "SLO level = p90 must be one of mean, p95, p99"),
    ):
        live.set_many({**blank, **{places[name]: value for name, value in typed.items()}})
        assert live.value("Details", f"B{results['answer']}").startswith(said), typed
        assert live.value("Details", f"B{results['TTFT [ms]']}") in ("", None)


def test_the_head_says_the_load_that_is_typed_and_levels_are_read_in_any_spelling(tmp_path):
    book = tmp_path / "loads.xlsx"
    rl.sheet(str(book), "llama-3.1-8b", "h100-sxm", isl=900, osl=120, spare=0, concurrency=20, slo="ttft:150@p95")
    inputs, live = placed_inputs(book), Live(book)
    usual = {"users": 20, "request_rate": None, "SLO level": "p95", "batch": 3}
    asked = {"isl": 900, "osl": 120}
    for typed, load, said, level in (
        ({}, {"concurrency": 20}, "20 users", "p95"),
        ({"SLO level": "P95 "}, {"concurrency": 20}, "20 users", "p95"),
        ({"users": None, "request_rate": "120/min"}, {"request_rate": 2}, "2 requests/s", "p95"),
        ({"users": 1, "SLO level": None}, {"concurrency": 1}, "1 user", None),
        ({"users": None}, {"batch": 3}, "a burst of batch 3 on each idle replica", "p95"),
    ):
        live.set_many({("Answer", f"B{inputs[name]}"): value for name, value in {**usual, **typed}.items()})
        known = rl.predict("llama-3.1-8b", "h100-sxm", **asked, **load)
        assert live.value("Answer", "A2").endswith(f"Load: {said}."), typed
        assert live.value("Answer", "A6") == ("TTFT p95" if level else "TTFT"), typed
        time = known.ttft if level is None or "batch" in load else known.latency("ttft_p95")
        assert math.isclose(live.value("Answer", "B6"), 1e3 * time, rel_tol=FLAT), typed
        assert ("Fleet counts bursts" in live.value("Fleet", "A2")) == ("batch" not in load), typed
    live.set_many({("Answer", f"B{inputs['request_rate']}"): 900})  # of which it answers fewer
    assert live.value("Answer", "A2").endswith("Load: 900 requests/s.")
    live.set_many({("Answer", f"B{inputs['request_rate']}"): "fast"})
    assert "Load" not in live.value("Answer", "A2")


def test_a_fleet_opens_with_the_load_as_its_demand_and_the_batch_that_decodes_together(tmp_path):
    for load, users, rate in (({"concurrency": 20}, 20, None), ({"request_rate": 4}, None, 4)):
        contents, _ = _contents("llama-3.1-8b", "h100-sxm", 0, {"isl": 900, "osl": 120, **load})
        known = rl.predict("llama-3.1-8b", "h100-sxm", isl=900, osl=120, **load)
        assert contents.case["batch"] == math.ceil(known.decode_batch) > 1
        book = tmp_path / f"{next(iter(load))}.xlsx"
        rl.sheet(str(book), "llama-3.1-8b", "h100-sxm", isl=900, osl=120, spare=0, **load)
        live = Live(book)
        assert (live.value("Fleet", "B7"), live.value("Fleet", "B6")) == (users, rate)


def test_limits_at_other_levels_and_loads_of_two_kinds_are_refused(tmp_path):
    path = str(tmp_path / "no.xlsx")
    for options, said in (
        ({"slo": "ttft:300@p90"}, "in the mean, at p95 or at p99, not ttft_p90"),
        ({"slo": "ttft:300@p95,tpot:20"}, "all for the mean, or all for one percentile"),
        ({"concurrency": 4, "request_rate": 2}, "concurrency"),
        ({"concurrency": 0}, "concurrency"),
        ({"num_prompts": 50}, "num_prompts"),
    ):
        with pytest.raises(rl.BadInput, match=said):
            rl.sheet(path, "llama-3.1-8b", "h100-sxm", **options)
