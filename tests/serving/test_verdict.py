"""Verdicts, what pass, pass?, fail? and fail take, by every door; and the 80 % interval that they rest on."""

import math
import re
from dataclasses import replace
from itertools import pairwise
from random import Random

import numpy as np
import pytest
from conftest import SAMPLE_GPUS, close, deploy
from every_case import each
from hypothesis import given
from hypothesis import strategies as st

import roofline as rl
from roofline.physics.passes import Pass, decode_pass, prefill_pass
from roofline.physics.plan import Plan
from roofline.serving.shown import beside_limit
from roofline.serving.verdict import (
    AT_HARDWARE_LIMIT,
    HALF_WIDTH,
    IN_RANGE,
    NOT_TIMED,
    NOTHING_APPLIES,
    OUTSIDE,
    UNKNOWN,
    Limited,
    basis_of_range,
    kernel_sigma,
    pass_sigma,
    spread,
    stated_sigma,
    verdict,
)
from roofline.specs.gpu import ATTENTION_PREFILL, GEMM

MODEL, GPU = "llama-3.1-8b", "h100-sxm"
CASE = {"isl": 1000, "osl": 100, "tp": 1}
WORDS = ("slo_verdict", "slo_reason", "slo_binding", "slo_met")


def judged(prediction):
    """Word, reason, binding limit and whether it is met, as a row has them."""
    return tuple(prediction.to_dict(WORDS).values())


def by_every_door(model=MODEL, gpu=GPU, **options):
    """What is judged of one case: the same in an array, and in a table."""
    one = judged(rl.predict(model, gpu, **options))
    two = {**options, "isl": [options["isl"], 2 * options["isl"]]}
    assert tuple(column[0] for column in judged(rl.predict(model, gpu, **two))) == one
    first = rl.table(model, gpu, keys=WORDS, **two)[0]
    assert tuple(first[key] for key in WORDS) == one
    return one


# --- the rule ----------------------------------------------------------------------------------


@each(
    ("ends", "word"),
    [((0.8, 0.7, 0.9), "pass"), ((0.8, 0.7, 1.1), "pass?"), ((1.1, 0.9, 1.3), "fail?"), ((1.2, 1.1, 1.4), "fail")],
)
def test_a_verdict_is_certain_where_the_range_is_clear_of_the_limit(ends, word):
    found = verdict([Limited("ttft", 0.5, 0.4, 0.6), Limited("tpot_p99", *ends)])
    assert found.word == word
    assert found.binding == "tpot_p99"
    assert found.reason == {"pass": None, "fail": "TPOT p99 exceeds its limit"}.get(word, IN_RANGE)


def test_a_verdict_outside_what_was_checked_is_never_certain_and_gives_its_first_reason():
    for central, word in ((0.5, "pass?"), (2.0, "fail?")):
        limited = [Limited("ttft", central, 0.9 * central, 1.1 * central)]
        found = verdict(limited, [(False, "this"), (True, "that"), (True, "more")])
        assert found == (word, f"{OUTSIDE}: that", "ttft")


def test_what_is_not_known_is_neither_met_nor_missed_unless_another_limit_is_missed():
    unknown, missed = Limited("e2el_p99", *3 * [float("nan")]), Limited("ttft", 2.0, 1.5, 3.0)
    assert verdict([Limited("ttft", 0.5, 0.4, 0.6), unknown]) == (None, UNKNOWN, "ttft")
    assert verdict([unknown, missed])[::2] == ("fail", "ttft")
    assert verdict([missed], (), [(True, "overloaded")]) == ("fail", "overloaded", "ttft")


# --- limits around a figure and its range ------------------------------------------------------


@each(
    ("load", "key"),
    [
        ({"batch": 4}, "ttft"),
        ({"batch": 4}, "e2el"),
        ({"request_rate": 2.0}, "tpot"),
        ({"request_rate": 2.0}, "ttft_p95"),
        ({"concurrency": 6}, "e2el_p99"),
    ],
)
def test_limits_around_the_central_figure_and_beyond_the_ends_of_its_range(load, key):
    plain = rl.predict(MODEL, GPU, **CASE, **load)
    central, (low, high) = plain.latency(key), plain.latency_interval(key)
    assert low < central < high
    limits = {0.999 * low: "fail", 0.999 * central: "fail?", 1.001 * central: "pass?", 1.001 * high: "pass"}
    for limit, word in limits.items():
        found, reason, binding, met = by_every_door(**CASE, **load, slo={key: limit})
        assert (found, binding, met) == (word, key, word.startswith("pass")), limit
        assert (reason == IN_RANGE) == word.endswith("?")
        assert (reason is None) == (word == "pass")


def test_a_hardware_limit_passes_nothing_for_certain_but_fails_what_it_exceeds():
    time = rl.ttft(MODEL, GPU, **CASE, basis="ideal")
    assert by_every_door(**CASE, basis="ideal", slo={"ttft": 100 * time})[:2] == ("pass?", AT_HARDWARE_LIMIT)
    assert by_every_door(**CASE, basis="ideal", slo={"ttft": 0.999 * time})[0] == "fail"


# --- outside what was checked ------------------------------------------------------------------

LOOSE = "ttft:1000s,tpot:100s"
BUSY = 0.9 * rl.predict(MODEL, GPU, **CASE, request_rate=1.0).max_request_rate
UNCHECKED = {
    "a rate above 80 % utilisation": ({"request_rate": BUSY}, "utilisation above 80%"),
    "single tokens": ({"request_rate": 1.0, "osl": 1}, "single-token answers"),
    "a run": ({"concurrency": 4, "num_prompts": 40}, "a run that includes its start"),
    "a pipeline": ({"request_rate": 1.0, "pp": 2}, "pipeline parallelism"),
}


@each("case", UNCHECKED)
def test_outside_the_validated_range_nothing_passes_for_certain(case):
    options, words = UNCHECKED[case]
    options = {**CASE, **options}
    assert by_every_door(**options, slo=LOOSE)[:2] == ("pass?", f"{OUTSIDE}: {words}")
    p = rl.predict(MODEL, GPU, **options, slo=LOOSE)
    assert p.slo_met is True
    assert ": pass? (not validated)" in " ".join(str(p).split())
    assert repr(p).endswith(", SLO pass?>")
    strict = by_every_door(**options, slo="ttft:1us")
    assert strict[:2] == ("fail?", f"{OUTSIDE}: {words}")


def test_a_load_states_the_errors_of_loads_like_it_inside_and_outside_the_validated_range():
    (outside,), (inside,) = (
        [text for text in rl.predict(MODEL, GPU, **CASE, request_rate=rate).warnings if "under load" in text]
        for rate in (BUSY, 1.0)
    )
    assert "outside the validated range (utilisation above 80%" in outside
    assert "(random arrivals, decode first, 20 tokens and more, util above 80 %): mean error TTFT" in outside
    assert "(random arrivals, decode first, 20 tokens and more, inside): mean error TTFT" in inside


# --- percentiles that are not known ------------------------------------------------------------


#: E2EL p99 of users that has no figure: answers of one or a few tokens.
UNKNOWN_P99 = {"isl": 6869, "osl": 2, "osl_cv": 1.0, "engine": "sglang", "slo": "e2el:50s@p99"}
#: Long prompts that come first keep all of the few slots taken.
FULL = {"engine": "sglang", "isl": 18_000, "osl": 11, "tp": 1}


def test_a_percentile_that_contradicts_its_mean_has_no_figure_and_no_verdict():
    case = {**FULL, "request_rate": 0.9, "slo": "ttft:20s@p99"}
    p = rl.predict("llama-3.1-8b", "h100", **case)
    assert p.latency("ttft_p99") is None
    assert p.to_dict()["ttft_p99_ms"] is None
    word, reason, _, met = by_every_door("llama-3.1-8b", "h100", **case)
    assert (word, reason, met) == (None, UNKNOWN, False)
    assert "SLO not known" in repr(p)
    assert ": not known (this percentile is not known" in " ".join(str(p).split())


def test_an_end_to_end_latency_is_no_shorter_than_its_first_token():
    p = rl.predict(MODEL, "h100", isl=2000, osl=16, isl_cv=2, request_rate=5, tp=1)
    for level in (10, 50, 75, 90, 95, 99):
        assert p.latency(f"e2el_p{level}") >= p.latency(f"ttft_p{level}")
    # 20,000 simulated requests: 2.98 s; the prompts spread too far for what was checked
    assert p.latency("e2el_p99") == pytest.approx(2.98, rel=0.3)


# --- a jump of the distribution ----------------------------------------------------------------

COLD = {"isl": 1000, "osl": 100, "tp": 1, "slo": "e2el:1501@p99"}


def doors(cold_start):
    """Whether each door finds loads at which the limit is met."""
    case = {**COLD, "cold_start": cold_start}
    solved = rl.solve(MODEL, GPU, "request_rate", **case).value
    return {
        "predict": rl.predict(MODEL, GPU, **case, request_rate=2.0).slo_met,
        "array": bool(rl.predict(MODEL, GPU, **case, request_rate=[1.0, 2.0]).slo_met[1]),
        "table": rl.table(MODEL, GPU, **case, request_rate=[1.0, 2.0])[1]["slo_met"],
        "goodput": rl.goodput(MODEL, GPU, **case)[0].rate > 0.0,
        "curve": any(row["slo_met"] for row in rl.curve(MODEL, GPU, **case).rows),
        "size": rl.size(MODEL, GPU, **case, request_rate=2.0).cheapest is not None,
        "knee": rl.predict(MODEL, GPU, **case, concurrency=2).knees.slo >= 1.0,
        "solve": solved is not None and solved > 0.0,
    }


def test_where_one_request_in_a_hundred_starts_cold_its_p99_is_cold_by_every_door():
    warm = rl.predict(MODEL, GPU, isl=1000, osl=100, tp=1, request_rate=2.0).latency("e2el_p99")
    assert warm < 1.4  # so that the limit is missed for the cold start of 2 s alone
    assert [door for door, meets in doors("1%:2s").items() if meets] == []
    assert [door for door, meets in doors("0.9%:2s").items() if not meets] == []
    cold = rl.predict(MODEL, GPU, isl=1000, osl=100, tp=1, request_rate=2.0, cold_start="1%:2s")
    assert cold.latency("e2el_p99") > 2.0
    assert rl.predict(MODEL, GPU, **COLD, request_rate=2.0, cold_start="1%:2s").verdict == "fail"


# --- goodput -----------------------------------------------------------------------------------


@pytest.mark.parametrize("slo", ["ttft:150,tpot:15", "ttft:100@p95,tpot:12@p99", "p99:2x", "e2el:1200@p90,tpot:20"])
def test_a_goodput_is_the_last_rate_that_predict_finds_within_the_limits(slo):
    (found,) = rl.goodput(MODEL, GPU, **CASE, slo=slo)
    assert 0.0 < found.rate < 0.99 * found.found.max_request_rate
    rates = (1.0 - 1e-6) * found.rate, 1.02 * found.rate
    below, above = (rl.predict(MODEL, GPU, **CASE, slo=slo, request_rate=rate) for rate in rates)
    assert (below.slo_met, above.slo_met) == (True, False)
    assert below.slo_verdict.binding == found.found.binding


# --- random loads ------------------------------------------------------------------------------

LOADS = ("request_rate", "concurrency", "batch", "request_rate")
SPREAD = (0, 1)  # groups whose lengths spread, which take longer
LEVELS, METRICS = (50, 90, 99), ("ttft", "tpot", "e2el")
ROUNDING = 1.0 + 1e-9
LIMITS = "ttft:400@p95,tpot:12,e2el:3s@p99"


def drawn_options(draw, *, spreads):
    """Options that a group of cases shares."""
    options = {"tp": draw.choice((1, 2)), "slo": LIMITS}
    if spreads:
        options |= draw.choice(({"isl_cv": 0.5}, {"isl_cv": 1.5}, {"osl_cv": 0.3}, {"osl_cv": 1.0}))
    if draw.random() < 0.4:
        options |= {"prefix": 100, "cache_hit": draw.choice((0.3, 1.0))}
    if draw.random() < 0.4:
        options |= {"draft": "ngram", "draft_tokens": 2, "acceptance": 0.6}
    if draw.random() < 0.4 and not spreads:
        options |= {"cold_start": draw.choice(("1%:1s", "5%:300ms"))}
    return options


@each("seed", range(8))
def test_of_random_loads_percentiles_are_ordered_and_an_array_is_judged_like_its_cases(seed):
    draw = Random(seed)
    spreads, load = seed in SPREAD, LOADS[seed % len(LOADS)]
    options, number = drawn_options(draw, spreads=spreads), 6 if spreads else 14
    if load == "batch":
        options.pop("cold_start", None)
    amounts = {"request_rate": lambda: draw.uniform(0.1, 9.0)}.get(load, lambda: draw.choice((1, 3, 20, 150)))
    drawn = {"isl": lambda: draw.randint(128, 4000), "osl": lambda: draw.choice((1, 16, 200, 600)), load: amounts}
    columns = {name: [one() for _ in range(number)] for name, one in drawn.items()}
    whole = judged(rl.predict(MODEL, GPU, **columns, **options))
    for place, values in enumerate(zip(*columns.values(), strict=True)):
        case = dict(zip(columns, values, strict=True))
        in_array = tuple(column[place] for column in whole)
        try:
            one = rl.predict(MODEL, GPU, **case, **options)
        except rl.RooflineError:  # more than can be answered: an array goes on without its times
            assert in_array[0] == "fail", case
            assert in_array[1] in (rl.DoesNotFit.short, rl.Overloaded.short), case
            continue
        assert judged(one) == in_array, case
        times = {metric: [one.latency(f"{metric}_p{level}") for level in LEVELS] for metric in METRICS}
        for found in times.values():
            known = [time for time in found if time is not None]
            assert all(low <= high * ROUNDING for low, high in pairwise(known)), case
        for first, end in zip(times["ttft"], times["e2el"], strict=True):
            assert first is None or end is None or end * ROUNDING >= first, case


def test_single_tokens_whose_answers_would_spread_end_with_the_first():
    p = rl.predict(MODEL, GPU, isl=2000, osl=1, osl_cv=1.0, request_rate=2.0, tp=1)
    assert p.e2el == p.ttft
    array = rl.predict(MODEL, GPU, isl=2000, osl=[1, 200], isl_cv=0.5, request_rate=6.0, tp=1)
    one = rl.predict(MODEL, GPU, isl=2000, osl=1, isl_cv=0.5, request_rate=6.0, tp=1)
    assert array.latency("e2el_p99")[0] == pytest.approx(one.latency("ttft_p99"), rel=1e-9)


@each("limit", [(0.1, "pass?"), (0.01, "fail?"), (0.007, "fail")])  # hardware limit 7.7 ms, range 14 to 56 ms
def test_a_gpu_that_was_never_timed_has_no_verdict_for_certain_but_beyond_the_hardware_limit(limit):
    time, word = limit
    case = {"isl": 2000, "osl": 300, "tp": 1, "slo": {"ttft": time}}
    one = rl.predict(MODEL, "vr200", **case)
    many = rl.predict(MODEL, "vr200", **{**case, "isl": np.array([2000.0, 2000.0])})
    reason = NOT_TIMED if word != "fail" else "TTFT exceeds its limit"
    assert judged(one)[:2] == (word, reason)
    assert (list(many.slo_verdict.word), list(many.slo_verdict.reason)) == ([word] * 2, [reason] * 2)
    (row,) = rl.table(MODEL, "vr200", **case)
    assert (row["slo_verdict"], row["slo_reason"]) == (word, reason)
    (sized,) = rl.size(MODEL, "vr200", **case).plans
    assert sized.verdict == word


def test_pools_on_gpus_that_were_never_timed_are_judged_by_the_same_rule():
    case = {"isl": 2000, "osl": 300, "request_rate": 4}
    loose, tight = (rl.disaggregate(MODEL, "vr200", "vr200", **case, slo={"tpot": tpot}) for tpot in (1.0, 1e-4))
    assert (loose.slo_verdict.word, loose.slo_verdict.reason) == ("pass?", NOT_TIMED)
    assert tight.slo_verdict.word == "fail"


# --- limits that do not apply, and percentiles that are not known ---------------------------------


@each("limit", ["tpot:40", "tpot:40@p50", "tpot:40@p99"], few=1)
def test_a_limit_on_tpot_does_not_apply_to_answers_of_one_token(limit):
    case = {"isl": 1024, "osl": 1, "concurrency": 19, "slo": limit, "tp": 1}
    assert by_every_door(**case) == (None, NOTHING_APPLIES, None, None)
    p = rl.predict(MODEL, GPU, **case)
    assert (p.slo_verdict.text, p.knees.slo) == ("does not apply", None)
    mixed = rl.predict(MODEL, GPU, **{**case, "osl": [1, 2]})
    nothing = [[word is None for word in words] for words in (mixed.slo_verdict.word, mixed.slo_met)]
    assert nothing == [[True, False], [True, False]]
    both = judged(rl.predict(MODEL, GPU, **{**case, "slo": f"{limit},ttft:5s"}))
    assert both == judged(rl.predict(MODEL, GPU, **{**case, "slo": "ttft:5s"}))
    (priced,) = rl.cost(MODEL, GPU, **case)
    assert (priced.verdict, priced.to_dict()["slo_reason"]) == (None, NOTHING_APPLIES)
    (sized,) = rl.size(MODEL, GPU, **{**case, "tp": 1}).plans
    assert (sized.verdict, sized.meets, sized.reason) == (None, None, NOTHING_APPLIES)
    assert sized.prediction.deployment.num_gpus == 1
    case.pop("concurrency")
    (rate,) = rl.goodput(MODEL, GPU, **case)
    assert (rate.found.binding, rate.to_dict()["slo_reason"]) == ("saturation", NOTHING_APPLIES)
    if limit == "tpot:40":
        (shared,) = rl.goodput(MODEL, GPU, share=0.9, **case)
        assert shared.to_dict()["slo_verdict"] is None


def test_two_pools_are_judged_of_single_tokens_by_the_same_rule():
    case = {"isl": 1024, "request_rate": 1, "quantization": "fp8", "prefill": "h100:tp2", "decode": "h100:tp2"}
    none = rl.disaggregate("llama-3.3-70b", osl=1, slo="tpot:40", **case)
    assert (none.slo_verdict, none.slo_met) == ((None, NOTHING_APPLIES, None), None)
    for osl in (1, 2, 9):
        few = rl.disaggregate("llama-3.3-70b", osl=osl, slo="ttft:1s@p95", **case)
        assert (few.verdict, few.slo_verdict.reason) == ("pass?", f"{OUTSIDE}: answers of fewer than 10 decode steps")


def test_size_does_not_buy_gpus_for_a_percentile_that_is_not_known():
    (sized,) = rl.size("gpt-oss-20b", "h100", concurrency=40, **UNKNOWN_P99).plans
    assert (sized.verdict, sized.meets, sized.meets_high) == (None, None, None)
    assert sized.prediction.e2el < 50.0  # the mean is within the limit
    assert sized.prediction.deployment.num_gpus == 1
    least = int(re.search(r"E2EL p99 has no figure below (\d+) GPUs", sized.reason)[1])
    fewer, enough = (rl.predict("gpt-oss-20b", "h100", concurrency=40, num_gpus=n, **UNKNOWN_P99) for n in (1, least))
    assert (fewer.latency("e2el_p99"), enough.verdict) == (None, "pass?")
    fleet = rl.size(MODEL, ["h100-sxm", "b200"], isl=2000, osl=1, concurrency=3, slo="ttft:1s@p95")
    assert [size.meets for size in fleet.plans] == sorted((size.meets for size in fleet.plans), key=lambda met: not met)


def test_users_beyond_whom_a_percentile_is_not_known_are_no_most_and_no_knee():
    case = {"tp": 1, **UNKNOWN_P99}
    most = rl.solve("gpt-oss-20b", "h100", "concurrency", **case)
    assert (most.is_known, most.limited_by) == (False, "not known beyond")
    last, more = (rl.predict("gpt-oss-20b", "h100", concurrency=most.whole + n, **case) for n in (0, 1))
    assert (last.verdict, more.latency("e2el_p99")) == ("pass?", None)
    assert "not known beyond: its closed form contradicts the mean" in most.reason
    assert "at most" not in str(most)
    p = rl.predict("gpt-oss-20b", "h100", concurrency=40, **case)
    assert (p.knees.slo, p.knee_bound) == (None, "half")
    several = rl.predict("gpt-oss-20b", "h100", concurrency=[4, 40], **case)
    assert (p.to_dict(["slo_knee"]), several.to_dict(["slo_knee"])) == ({"slo_knee": None}, {"slo_knee": [None, None]})
    least = rl.solve("gpt-oss-20b", "h100", "tp", concurrency=40, **UNKNOWN_P99)
    assert (least.value, least.verdict, least.is_known) == (None, None, False)


def test_levers_rank_by_the_mean_where_the_p99_of_the_case_is_not_known():
    answer = rl.levers("llama-3.1-8b", "h100", request_rate=0.9, **FULL)
    assert (answer.goal_text, answer.start.figure("ttft_p99")) == ("mean TTFT", None)
    assert answer.best.figure("ttft") < answer.start.figure("ttft")
    assert any("ranked by the mean TTFT" in note for note in answer.notes)


def test_a_goodput_beyond_which_a_percentile_is_not_known_says_so():
    (found,) = rl.goodput("llama-3.1-8b", "h100", slo="ttft:60s@p99", **FULL)
    assert (found.found.is_known, found.found.binding) == (False, "not known beyond")
    assert found.reason.startswith("this percentile is not known beyond this rate")
    assert rl.predict("llama-3.1-8b", "h100", request_rate=1.01 * found.rate, **FULL).latency("ttft_p99") is None
    (limited,) = rl.goodput("llama-3.1-8b", "h100", slo="ttft:5s@p99", **FULL)
    assert limited.found.binding == "ttft_p99"


@each(("time", "figure"), [(0.0080004, "8.0004 ms > 8 ms"), (float("nan"), "not known, against 8 ms")])
def test_a_latency_that_rounds_to_its_limit_is_told_from_it(time, figure):
    assert beside_limit("tpot", time, 0.008) == f"mean TPOT {figure}"


# --- intervals, as wide as the evidence is thin ---------------------------------------------------

SMALL = ("llama-3.1-8b", "h100-sxm")
EIGHT = {"isl": 2000, "osl": 300, "batch": 8}
RESULTS = ("ttft", "tpot", "e2el")


def width(prediction, result="tpot"):
    """High end of an interval over its low end."""
    low, high = getattr(prediction, f"{result}_interval")
    return high / low


def sigma(deployment, basis="calibrated", whole=0.1):
    return pass_sigma(prefill_pass(deployment, 4.0, 1000.0), basis, whole)


def with_kernel_sigma(deployment, value):
    """The deployment with one residual for all measured kernels of its calibration."""
    calibration = deployment.gpu.calibration
    kernels = {key: replace(entry, sigma=value) for key, entry in calibration.kernels.items()}
    return replace(deployment, gpu=replace(deployment.gpu, calibration=replace(calibration, kernels=kernels)))


# --- ends --------------------------------------------------------------------------------------


def test_the_half_width_is_that_of_an_interval_which_holds_four_of_five():
    assert math.erf(HALF_WIDTH / math.sqrt(2.0)) == pytest.approx(0.8, abs=1e-4)


@given(time=st.floats(1e-6, 1e3), deviation=st.floats(0.0, 2.0))
def test_the_ends_lie_as_far_below_as_above_in_logarithms(time, deviation):
    low, high = spread(time, deviation)
    assert low <= time <= high
    assert close(low * high, time * time)
    assert math.log(high / time) == pytest.approx(HALF_WIDTH * deviation, abs=1e-12)


@each("gpu", SAMPLE_GPUS)
@each("model", ["llama-3.1-8b", "mixtral-8x7b", "deepseek-v3.2"])
@each("engine", ["generic", "none", "trtllm-0.9"])
def test_an_answer_lies_inside_its_interval(model, gpu, engine):
    found = rl.predict(model, gpu, engine=engine, allow_oversize=True, **EIGHT)
    for result in RESULTS:
        low, high = getattr(found, f"{result}_interval")
        assert 0.0 < low < getattr(found, result) < high
    for result in ("ttft", "tpot"):
        low, high = getattr(found, f"{result}_interval")
        light = found.ideal[0 if result == "ttft" else 1].time  # no end is faster than the hardware limit
        assert low == light or close(low * high, getattr(found, result) ** 2)
        assert low >= light


def test_the_ends_of_a_request_are_those_of_its_first_token_and_of_all_others_and_a_row_has_them_in_ms():
    found = rl.predict(*SMALL, **EIGHT)
    for end, name in enumerate(("low", "high")):
        assert close(found.e2el_interval[end], found.ttft_interval[end] + 299 * found.tpot_interval[end])
        in_ms = {f"{result}_{name}_ms": getattr(found, f"{result}_interval")[end] * 1e3 for result in RESULTS}
        assert found.to_dict(list(in_ms)) == pytest.approx(in_ms, rel=1e-12)


# --- where there is none -----------------------------------------------------------------------


def test_light_speed_is_a_bound_and_has_no_interval():
    found = rl.predict(*SMALL, basis="ideal", **EIGHT)
    assert (found.ttft_interval, found.tpot_interval, found.e2el_interval) == (None, None, None)
    row = found.to_dict()
    assert all(row[f"{result}_{end}_ms"] is None for result in RESULTS for end in ("low", "high"))
    assert "[" not in str(found)


def test_a_single_token_has_an_interval_of_its_first_token_and_of_all_of_it():
    found = rl.predict(*SMALL, isl=2000, osl=1)
    assert found.tpot_interval is None
    assert found.e2el_interval == found.ttft_interval
    assert found.to_dict()["tpot_low_ms"] is None


# --- how wide ----------------------------------------------------------------------------------


@each("result", RESULTS)
@each("engine", ["none", "generic"])
def test_the_further_the_evidence_the_wider_the_interval(result, engine):
    calibrated, inherited, generic = (
        rl.predict("llama-3.1-8b", gpu, engine=engine, **EIGHT) for gpu in ("h100-sxm", "h200-sxm", "mi250x")
    )
    assert [p.basis for p in (calibrated, inherited, generic)] == ["calibrated", "inherited", "generic"]
    assert width(calibrated, result) < width(inherited, result) < width(generic, result)


@pytest.mark.parametrize("model", ["llama-3.1-8b", "mixtral-8x7b", "deepseek-v3"])
def test_the_same_pass_is_less_certain_on_a_gpu_that_was_not_timed_and_least_on_another_vendors(model):
    deployment = deploy(model, "h100-sxm", Plan(tp=8))
    assert sigma(deployment) < sigma(deployment, "inherited") < sigma(deployment, "foreign")
    assert sigma(deployment) < sigma(deployment, "generic") < sigma(deployment, "foreign")


def test_medians_of_a_vendor_say_more_of_its_next_generation_than_of_another_vendors():
    ours, theirs = deploy(*SMALL), rl.load_gpu("mi455x")
    untimed = {
        vendor: replace(ours, gpu=replace(theirs, vendor=vendor), basis="generic") for vendor in ("NVIDIA", "AMD", "")
    }
    assert [basis_of_range(each) for each in untimed.values()] == ["generic", "foreign", "foreign"]
    assert basis_of_range(ours) == "calibrated"
    same, other, _ = (0.6 * stated_sigma(GEMM, None, each.gpu) for each in untimed.values())
    assert (same, other) == pytest.approx([kernel_sigma(GEMM, None, basis) for basis in ("generic", "foreign")])
    assert same < other


def test_programs_of_passes_keep_the_vendors_apart():
    for place in range(40):  # beyond the first answers, passes are programs that all GPUs share
        ours, theirs = (rl.predict(MODEL, gpu, isl=1000 + place, osl=100) for gpu in ("vr200-nvl72", "mi455x"))
        assert ours.tpot_interval[1] / ours.tpot < theirs.tpot_interval[1] / theirs.tpot


@given(first=st.floats(0.01, 1.0), more=st.floats(0.01, 1.0))
def test_kernels_further_off_their_measurements_make_a_pass_less_certain(first, more):
    deployment = deploy(*SMALL)
    near, far = (sigma(with_kernel_sigma(deployment, value)) for value in (first, first + more))
    assert 0.1 < near < far
    assert sigma(with_kernel_sigma(deployment, None)) > sigma(
        deployment
    )  # assumed constants, of which nothing is known


def test_whole_passes_and_kernels_are_off_independently():
    # Kernels that are never off leave what whole passes are off by; of both, the squares add up.
    exact, off = (with_kernel_sigma(deploy(*SMALL), value) for value in (0.0, 0.3))
    assert close(sigma(exact, whole=0.2), 0.2)
    assert close(sigma(off, whole=0.2) ** 2 - sigma(off, whole=0.1) ** 2, 0.2**2 - 0.1**2)


def test_kernels_of_two_kinds_are_off_independently_and_of_one_kind_together():
    passed = prefill_pass(with_kernel_sigma(deploy(*SMALL), 0.3), 4.0, 1000.0)
    (qkv,) = (kernel for kernel in passed.kernels if kernel.name == "qkv")
    twin = qkv._replace(name="twin")
    other = qkv._replace(name="other", kind=ATTENTION_PREFILL)
    alone, together, apart = (
        pass_sigma(Pass(kernels), "calibrated", 0.0) for kernels in ((qkv,), (qkv, twin), (qkv, other))
    )
    assert alone > 0.0
    assert close(together, alone)
    assert close(apart, alone / math.sqrt(2.0))


def test_latent_attention_is_less_certain_than_dense_layers_of_the_same_kernels():
    dense, latent = (
        decode_pass(with_kernel_sigma(deploy(model, "b200", Plan(tp=8)), 0.0), 8.0, 1000.0)
        for model in ("llama-3.1-70b", "deepseek-v3")
    )
    assert pass_sigma(dense, "calibrated", 0.1) < pass_sigma(latent, "calibrated", 0.1)


def test_an_answer_that_is_mostly_host_is_less_certain_than_its_kernels():
    served, kernels = (rl.predict(*SMALL, engine=name, isl=16, osl=2) for name in ("sglang", "none"))
    assert served.ttft > 5.0 * kernels.ttft
    assert width(served, "ttft") > width(kernels, "ttft")


# --- arrays ------------------------------------------------------------------------------------


def test_the_intervals_of_a_sweep_are_those_of_its_cases():
    isl, batch = np.array([[500], [4000]]), np.array([[1, 16, 64]])
    over = rl.predict(*SMALL, isl=isl, batch=batch, osl=100, tp=1)
    for place in np.ndindex(2, 3):
        single = rl.predict(*SMALL, isl=int(isl[place[0], 0]), batch=int(batch[0, place[1]]), osl=100, tp=1)
        for result in RESULTS:
            for end in (0, 1):
                found = np.broadcast_to(getattr(over, f"{result}_interval")[end], (2, 3))[place]
                assert close(found, getattr(single, f"{result}_interval")[end])


def test_the_interval_of_a_case_that_does_not_fit_or_has_no_further_token_is_no_number():
    over = rl.predict(*SMALL, isl=1000, osl=[1, 100, 100], batch=[1, 10**6, 4], tp=1)
    assert np.isnan(over.ttft_interval[0]).tolist() == [False, True, False]
    assert np.isnan(over.tpot_interval[1]).tolist() == [True, True, False]
    assert over.to_dict()["tpot_low_ms"][:2] == [None, None]


# --- the interval holds its value ----------------------------------------------------------------


@given(
    network=st.sampled_from([0.0, 1e-6, 0.08, 1.0]),
    share=st.floats(0.0, 1.0),
    isl=st.lists(st.integers(1, 200_000), min_size=1, max_size=3),
    osl=st.integers(1, 2000),
    engine=st.sampled_from(["none", "generic", "vllm"]),
    gpu=st.sampled_from(["h100-sxm", "mi300x"]),
)
def test_every_interval_holds_its_value_measured_or_not_at_one_case_or_many(network, share, isl, osl, engine, gpu):
    case = {"osl": osl, "engine": engine, "network": network, "allow_oversize": True}
    at = {"isl": 3000, "osl": 200, "batch": 1}
    one = rl.predict("llama-3.1-8b", gpu, **{**case, **at})
    light = one.ideal[0].time + network, one.ideal[1].time
    measured = {  # from the hardware limit to three times the prediction
        "ttft": light[0] * (1.0 + 1e-12) + share * 2.0 * one.ttft,
        "tpot": light[1] * (1.0 + 1e-12) + share * 2.0 * one.tpot,
        **at,
    }
    for lengths in (isl, isl[0]):
        for given_ in (None, measured):
            found = rl.predict("llama-3.1-8b", gpu, isl=lengths, measured=given_, **case)
            for result in ("ttft", "tpot", "e2el"):
                time, ends = getattr(found, result), getattr(found, f"{result}_interval")
                if time is not None:
                    assert np.all((ends[0] <= time) & (time <= ends[1])), (result, given_)
            assert np.all(found.ttft >= found.ideal[0].time + network)
            assert np.all(found.ttft_interval[0] >= found.ideal[0].time)


def test_a_measured_first_token_faster_than_the_network_is_refused():
    for ttft in (0.03, 0.08, 0.0801):
        with pytest.raises(rl.BadInput, match=r"measured ttft = .* less than the network's round trip of 80 ms"):
            rl.predict("llama-3.1-8b", "h100-sxm", isl=1000, network=0.08, measured={"ttft": ttft})
    low, high = rl.predict("llama-3.1-8b", "h100-sxm", isl=1000, network=0.08, measured={"ttft": 0.12}).ttft_interval
    assert 0.08 < low < 0.12 < high
