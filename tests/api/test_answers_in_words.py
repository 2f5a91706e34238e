"""What a REPL shows: one line for every answer, a screen for one case, a small table for many; and `dir(rl)`."""

import doctest
import inspect
import re

import numpy as np
import pytest
from every_case import each

import roofline as rl
from roofline.numbers.quantity import to_text
from roofline.questions.compare import compare, quantize

MODEL, GPU = "llama-3.1-8b", "h100-sxm"
ERRORS = {
    name for name in rl.__all__ if inspect.isclass(getattr(rl, name)) and issubclass(getattr(rl, name), Exception)
}
#: Answers of every public function that a REPL shows.
ANSWERS = {
    "predict": lambda: rl.predict(MODEL, GPU),
    "knee": lambda: rl.knee(MODEL, GPU),
    "knee of many": lambda: rl.knee(MODEL, GPU, isl=[500, 1000]),
    "no knee": lambda: rl.predict(MODEL, GPU, request_rate=1).knees,
    "size": lambda: rl.size("llama-3.3-70b", [GPU, "l40s"], slo="ttft:300,tpot:25"),
    "no size": lambda: rl.size("llama-3.1-405b", "l4", slo="tpot:1"),
    "one size": lambda: rl.size(MODEL, GPU, slo="tpot:25").plans[0],
    "goodput": lambda: rl.goodput(MODEL, GPU, slo="ttft:300,tpot:25")[0],
    "no goodput": lambda: rl.goodput(MODEL, GPU, slo="tpot:1")[0],
    "curve": lambda: rl.curve(MODEL, GPU, slo="tpot:25"),
    "curve of users": lambda: rl.curve(MODEL, GPU, against="users"),
    "pareto": lambda: rl.pareto(MODEL, GPU, batch=[1, 8, 64]),
    "no frontier": lambda: rl.pareto(MODEL, GPU, batch=[1, 8], slo="tpot:1"),
    "a point of a frontier": lambda: rl.pareto(MODEL, GPU, batch=[1, 8, 64]).points[0],
    "speculate": lambda: rl.speculate(MODEL, GPU, draft="ngram", acceptance=0.6, draft_tokens=2),
    "simulate": lambda: rl.simulate(MODEL, GPU, concurrency=4, requests=50),
    "simulate one token": lambda: rl.simulate(MODEL, GPU, request_rate=1, osl=1, requests=50),
    "solve": lambda: rl.solve(MODEL, GPU, "bandwidth", slo="ttft:300@p95", request_rate=1),
    "no solution": lambda: rl.solve(MODEL, GPU, "bandwidth", ttft=1e-4),
    "sensitivity": lambda: rl.sensitivity(MODEL, GPU),
    "one sensitivity": lambda: rl.sensitivity(MODEL, GPU)[0],
    "formula": lambda: rl.formula(MODEL, GPU, "tpot"),
    "formula of a rate": lambda: rl.formula(MODEL, GPU, "tok_s_user"),
    "compare": lambda: compare(MODEL, [GPU, "h200", "l40s"]),
    "compare one token": lambda: compare(MODEL, [GPU, "h200"], osl=1),
    "one compared": lambda: compare(MODEL, [GPU, "h200"]).gpus[1],
    "quantize": lambda: quantize(MODEL, GPU),
    "one quantized": lambda: quantize(MODEL, GPU).formats[3],
    "calibrate_once": lambda: rl.calibrate_once(MODEL, GPU, {"ttft": 0.1, "tpot": 0.01}),
    "not calibrated": lambda: rl.predict(MODEL, GPU).correction,
    "load_gpu": lambda: rl.load_gpu(GPU),
    "load_model": lambda: rl.load_model("mixtral-8x7b"),
    "load_workload": lambda: rl.load_workload("chat"),
}
#: Cases whose summaries are long, each in a way of its own.
LONG = {
    "burst": {"batch": 64, "slo": "ttft:300,tpot:25"},
    "users": {"concurrency": 64, "isl_cv": 0.5, "osl_cv": 1.0, "slo": "ttft:300@p95,tpot:25,e2el:30s@p99,p99:2x"},
    "rate": {"request_rate": 3.3, "prefix": 512, "cold_start": "1%:2s", "slo": "ttft:300@p95,p99:2x"},
    "run": {"concurrency": 32, "num_prompts": 320, "measured": {"ttft": 0.5, "tpot": 0.03, "concurrency": 32}},
    "plan": {"tp": 4, "pp": 2, "num_gpus": 32, "batch": 3, "network": 0.02},
    "ideal": {"basis": "ideal", "concurrency": 16},
    "drafts": {"draft": "llama-3.2-1b", "draft_tokens": 4, "acceptance": 0.7, "request_rate": 1.0},
    "oversize": {"tp": 1, "allow_oversize": True, "quantization": "bf16"},
    "one token": {"osl": 1},
}


@each("question", ANSWERS)
def test_an_answer_is_one_readable_line_in_a_repl(question):
    answer = ANSWERS[question]()
    line = repr(answer)
    assert line.startswith(tuple(f"<{kind.__name__}" for kind in type(answer).__mro__))
    assert line.endswith(">")
    assert "\n" not in line
    assert len(line) <= 250
    assert not any(noise in line for noise in (" at 0x", "(name=", "Prediction(", "None", "nan", "'"))
    assert line in repr([answer])


@each("options, end", [
    ({"batch": 16}, "; isl 1024, osl 128, batch 16>"),
    ({"concurrency": 8, "isl": 2000}, "; isl 2000, osl 128, 8 users>"),
    ({"request_rate": 1.5, "prefix": 64}, "; isl 1024, osl 128, prefix 64, 1.5 requests/s>"),
    ({"basis": "ideal"}, "; isl 1024, osl 128, batch 1, ideal>"),
    ({"slo": "ttft:10s"}, "; isl 1024, osl 128, batch 1, SLO pass>"),
    ({"slo": "ttft:10s,tpot:1"}, "; isl 1024, osl 128, batch 1, SLO fail>"),
])  # fmt: skip
def test_the_line_of_a_prediction_says_what_where_how_fast_and_under_which_load(options, end):
    p = rl.predict("llama-3.1-70b", GPU, tp=4, quantization="fp8", **options)
    times = f"TTFT {to_text(p.ttft, 's')}, TPOT {to_text(p.tpot, 's')}"
    assert repr(p) == f"<Prediction llama-3.1-70b fp8 on 4x h100-sxm: {times}{end}"


def test_a_single_token_has_no_tpot_in_its_line():
    assert "TPOT" not in repr(rl.predict(MODEL, GPU, osl=1))


def test_the_line_of_many_cases_has_ranges():
    p = rl.predict(MODEL, GPU, isl=[1000, 500, 2000], batch=2)
    low, high = (to_text(end(p.ttft), "s") for end in (min, max))
    assert f": TTFT {low} to {high}, TPOT " in repr(p)
    assert repr(p).endswith("; 3 cases, isl 500 to 2000, osl 128, batch 2>")


@each(("model", "gpu"), [("llama-3.3-70b", "h200"), ("deepseek-r1", "gb200-nvl72")])
@each("case", LONG)
def test_a_summary_fits_a_screen(model, gpu, case):
    text = str(rl.predict(model, gpu, **LONG[case]))
    assert max(map(len, text.splitlines())) <= 80
    assert len(text.splitlines()) <= 24
    assert not any(noise in text for noise in ("nan", "None", "light speed"))


def test_a_summary_says_what_is_met_and_what_is_missed():
    text = " ".join(str(rl.predict(MODEL, GPU, concurrency=8, slo="ttft:10s@p95,tpot:1")).split())
    assert re.search(r"TTFT p95 [\d.]+ ms <= 10 s, mean TPOT [\d.]+ ms > 1 ms: fail", text)
    unsure = " ".join(str(rl.predict(MODEL, GPU, basis="ideal", slo="ttft:10s")).split())
    assert "<= 10 s: pass? (times are the hardware limit, which no GPU reaches)" in unsure


@pytest.mark.parametrize("basis", ["ideal", "calibrated"])
def test_a_summary_gives_the_shares_of_the_hardware_limit(basis):
    p = rl.predict(MODEL, GPU, basis=basis)
    first, step = (f"{100.0 * p.ideal_share[part]:.0f} %" for part in ("prefill", "decode"))
    text = " ".join(str(p).split())
    assert f"{first} of " in text
    assert f"in prefill, {step} in decode" in text
    assert ("these times are the hardware limit" in text) is (basis == "ideal")


# --- many cases ----------------------------------------------------------------------------------


def test_many_cases_are_a_table_of_ten_rows_and_a_count():
    p = rl.predict(MODEL, GPU, isl=np.arange(1000.0, 2000.0))
    lines = str(p).splitlines()
    heading, names, rows, more = lines[:-12], lines[-12], lines[-11:-1], lines[-1]
    assert heading[0].startswith("llama-3.1-8b bf16 on 1x h100-sxm, tp 1")
    assert "1000 cases, isl 1000 to 1999, osl 128, batch 1, calibrated" in " ".join(" ".join(heading).split())
    assert names.split("  ")[0].strip() == "isl"
    assert more == "... 990 more"
    assert max(map(len, lines)) <= 80
    for place, row in enumerate(rows):
        cells = row.split()
        assert cells[0] == f"{1000 + place}"
        assert float(cells[1]) == pytest.approx(p.ttft[place] * 1e3, rel=0.005)
        assert float(cells[2]) == pytest.approx(p.tpot[place] * 1e3, rel=0.005)


@pytest.mark.parametrize("options, varied", [
    ({"batch": [1, 2, 4], "isl": 500}, ["batch"]),
    ({"isl": [[500], [1000]], "osl": [10, 100, 200]}, ["isl", "osl"]),
    ({"request_rate": [1, 2], "slo": "ttft:300@p95"}, ["requests/s"]),
    ({"concurrency": [1, 64, 4096], "prefix": [0, 10, 20]}, ["prefix", "users"]),
])  # fmt: skip
def test_a_table_has_a_column_for_what_varies(options, varied):
    p = rl.predict(MODEL, GPU, **options)
    lines = str(p).splitlines()
    place = next(place for place, line in enumerate(lines) if "TTFT [ms]" in line)
    assert lines[place].split("TTFT")[0].split() == varied
    assert len(lines[place + 1 :]) == p.ttft.size
    assert ("SLO" in lines[place]) is ("slo" in options)
    assert max(map(len, lines)) <= 80
    assert "nan" not in str(p)


def test_a_case_that_does_not_fit_has_dashes():
    rows = str(rl.predict(MODEL, GPU, tp=1, batch=[1, 100_000])).splitlines()[-2:]
    assert rows[0].split()[1] != "-"
    assert rows[1].split()[1:4] == ["-", "-", "-"]


# --- verdicts ------------------------------------------------------------------------------------


@pytest.mark.parametrize("slo", [None, "ttft:10s", "tpot:1", "ttft:10s,tpot:1"])
def test_slo_met_is_what_the_row_says(slo):
    p = rl.predict(MODEL, GPU, concurrency=4, slo=slo)
    assert p.slo_met is p.to_dict()["slo_met"]
    assert p.slo_met is (None if slo is None else slo == "ttft:10s")
    many = rl.predict(MODEL, GPU, isl=[1000, 2000], slo=slo)
    assert (many.slo_met is None) is (slo is None)
    if slo is not None:
        assert many.slo_met.tolist() == many.to_dict()["slo_met"] == [slo == "ttft:10s"] * 2


# --- the names of the package ----------------------------------------------------------------------


def test_dir_has_the_public_names_and_a_few_of_pythons():
    private = {name for name in dir(rl) if name.startswith("_")}
    assert set(dir(rl)) - private == set(rl.__all__)
    assert private <= {"__all__", "__doc__", "__file__", "__name__", "__path__", "__version__"}
    assert dir(rl) == sorted(dir(rl))
    assert all(hasattr(rl, name) for name in dir(rl))


#: Methods of every answer, which the example of `rl.Answer` shows.
FAMILY = ("to_rows", "to_pandas", "to_records", "plot")


def examples(thing):
    return "".join(example.source for example in doctest.DocTestParser().get_examples(inspect.getdoc(thing) or ""))


@each("name", [name for name in rl.__all__ if inspect.isfunction(getattr(rl, name))])
def test_every_public_function_has_an_example_that_calls_it(name):
    shown = getattr(rl, name)
    assert f"{shown.__name__}(" in examples(shown)


@each(
    "name",
    [
        name
        for name in rl.__all__
        if inspect.isclass(getattr(rl, name)) and name not in ERRORS and not issubclass(getattr(rl, name), dict)
    ],
)
def test_every_public_record_has_an_example_of_each_of_its_methods(name):
    record = getattr(rl, name)
    shown = examples(record)
    assert shown
    methods = [
        method
        for kind in record.__mro__
        if kind.__module__.startswith("roofline")
        for method, member in vars(kind).items()
        if inspect.isfunction(member) and not method.startswith("_") and (name == "Answer" or method not in FAMILY)
    ]
    assert [method for method in methods if f".{method}(" not in shown] == []
