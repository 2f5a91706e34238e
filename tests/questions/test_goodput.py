"""Goodput: the largest rate at which requests meet their limits, what binds there, and what moves it."""

import re
from dataclasses import replace
from functools import partial
from itertools import pairwise

import pytest
import tiers
from click.testing import CliRunner
from conftest import close, faster, with_shorter_host_times, with_shorter_latencies
from every_case import each

import roofline as rl
from roofline.cli.main import cli
from roofline.questions.goodput import GOODPUT_KEYS, headroom
from roofline.questions.pareto import _SHARES
from roofline.serving.capacity import SATURATION, attained, largest_rate
from roofline.serving.load.steady import served
from roofline.serving.shown import ROW_KEYS
from roofline.specs.load import Rate
from roofline.specs.workload import key_text
from roofline.specs.written import time_of_text

MODEL, GPU = "llama-3.1-8b", "h100-sxm"
CASE = {"isl": 1000, "osl": 300, "tp": 1}
SPREAD = {"isl_cv": 0.5, "osl_cv": 0.5}


def one(slo="ttft:150,tpot:15", gpu=GPU, **options):
    (found,) = rl.goodput(MODEL, gpu, slo=slo, **{**CASE, **options})
    return found


def at(found, rate, slo):
    """Shares of the requests at a rate."""
    deployment, workload = found.prediction.deployment, replace(found.prediction.workload, load=Rate(rate))
    return attained(deployment, workload, slo, served(deployment, workload))


# --- what it is --------------------------------------------------------------------------------


@each("share", [0.5, 0.9, 0.99])
@each("shape", [{}, SPREAD, {"engine": "sglang"}], ids=str)
def test_where_plain_limits_bind_just_that_share_of_the_requests_meets_them(share, shape):
    found = one(share=share, **shape)
    assert found.found.binding in ("ttft", "tpot")
    assert close(found.found.joint, share, 1e-6)
    shares = found.found.attained
    assert close(shares["ttft"] * shares["tpot"], share, 1e-6)
    assert found.found.binding == min(shares, key=shares.get)
    limits = {"ttft": 0.15, "tpot": 0.015}
    assert at(found, 0.99 * found.rate, limits)[1] > share
    assert at(found, 1.01 * found.rate, limits)[1] < share


@pytest.mark.parametrize("key", ["ttft_p95", "tpot_p99", "e2el_p90"])
def test_a_limit_on_a_percentile_is_just_reached_whatever_the_share(key):
    at_most = {"ttft_p95": 0.15, "tpot_p99": 0.014, "e2el_p90": 3.8}[key]
    found, same = one({key: at_most}), one({key: at_most, "e2el": "1000 s"}, share=0.5)
    assert found.found.binding == key
    assert close(found.rate, same.rate)
    assert close(found.found.attained[key], float(key[-2:]) / 100.0, 1e-6)
    assert close(found.prediction.latency(key), at_most, 1e-5)
    assert found.to_dict()["slo_met"] is True


@each("share", [None, 0.9])
def test_at_a_jump_the_limit_that_is_exceeded_just_above_it_binds(share):
    found = one("itl:40@p99,ttft:300", share=share, isl=2000)
    assert found.found.binding == "itl_p99"
    assert at(found, 1.001 * found.rate, {"itl_p99": 0.04})[0]["itl_p99"] < 0.99 < found.found.attained["itl_p99"]


def test_a_limit_on_gaps_is_on_their_mean_whatever_the_share():
    assert "set by mean ITL" in str(one("itl:9,ttft:300", share=0.9))
    assert "set by TTFT" in str(one("itl:90,ttft:150", share=0.9))


@each(("factor", "word"), [(0.8, "pass"), (0.98, "pass?"), (1.02, "fail?"), (1.3, "fail")])
def test_a_verdict_on_itl_is_certain_only_away_from_the_jump(factor, word):
    found = one("itl:40@p99", isl=2000)
    near = rl.predict(MODEL, GPU, **{**CASE, "isl": 2000}, request_rate=factor * found.rate, slo="itl:40@p99")
    assert near.slo_verdict.word == word
    low, high = near.latency_interval("itl_p99")
    assert low < near.latency("itl_p99") < high
    assert near.latency_interval("itl_p1")[0] > 0.0


def test_both_parts_of_an_answer_and_the_whole_are_those_of_the_same_request():
    found = one("ttft:150,tpot:15,e2el:4s")
    shares = found.found.attained
    parts = shares["ttft"] * shares["tpot"]
    assert parts * shares["e2el"] < found.found.joint < min(parts, shares["e2el"])


# --- what moves it -----------------------------------------------------------------------------


@pytest.mark.parametrize("slos", [
    [f"ttft:{limit},tpot:15" for limit in (60, 90, 150, 300, 2000)],
    [f"ttft:200,tpot:{limit}" for limit in (8, 10, 12, 15, 30)],
    [f"ttft:{limit}@p95" for limit in (60, 100, 200, 400)],
    [f"e2el:{limit}s@p99,ttft:200" for limit in (3, 4, 6, 12)],
    [f"tpot:15,p99:{limit}x" for limit in (1.1, 1.5, 2, 3, 5)],
], ids=lambda slos: slos[0])  # fmt: skip
def test_a_tighter_limit_never_raises_the_goodput(slos):
    rates = [one(slo).rate for slo in slos]
    assert all(tight <= lax * (1.0 + 1e-9) for tight, lax in pairwise(rates))
    assert rates[0] < rates[-1]


@each("engine", ["vllm", "sglang", "trtllm", "generic"])
def test_the_goodput_grows_from_the_idle_time_to_first_token_on_without_a_jump(engine):
    """The host takes longer for a request the more others decode, and no longer for the first of them than for more."""
    idle = rl.predict(MODEL, GPU, engine=engine, **CASE).ttft
    rates = [one(f"ttft:{1e3 * idle + more:.6f}", engine=engine).rate for more in range(1, 142, 10)]
    gains = [more - fewer for fewer, more in pairwise([0.0, *rates])]
    assert all(gain > 0.0 for gain in gains), rates
    assert max(gains) <= 0.35 * rates[-1], gains  # steep where a second request is met, but no jump
    assert rates[len(rates) // 2] >= 0.25 * rates[-1], rates


@tiers.has_more_cases
def test_a_larger_share_never_raises_the_goodput():
    rates = [one(share=share, **SPREAD).rate for share in tiers.some((0.3, 0.5, 0.8, 0.9, 0.95, 0.99, 0.999), 3)]
    assert all(more <= fewer for fewer, more in pairwise(rates))
    assert rates[-1] < 0.9 * rates[0]


@pytest.mark.parametrize("rate", ["bandwidth", "peak", "link"])
def test_a_derated_gpu_never_gains(rate):
    case = {"tp": 2, "slo": "ttft:120,tpot:12"}
    rates = [one(**case, derate=f"{rate}:{lost}%").rate for lost in (0, 5, 20, 50)]
    assert close(rates[0], one(**case).rate)
    assert all(less <= more * (1.0 + 1e-9) for more, less in pairwise(rates))
    assert rates[-1] < rates[0]


@pytest.mark.parametrize("times", [1.5, 4.0])
def test_a_gpu_that_is_faster_throughout_never_loses(times):
    gpu = rl.load_gpu(GPU)
    assert one(gpu=faster(gpu, times)).rate > one().rate
    # and with every latency and limit as much shorter it answers as many times more
    start = rl.predict(MODEL, GPU, **CASE, request_rate=1.0)
    quick = replace(
        start.deployment,
        gpu=with_shorter_latencies(faster(gpu, times), times),
        engine=with_shorter_host_times(start.deployment.engine, times),
    )
    slo = {"ttft": 0.15, "tpot": 0.015}
    shorter = {key: limit / times for key, limit in slo.items()}
    slow, fast = (
        largest_rate(start.deployment, start.workload, slo, 0.9),
        largest_rate(quick, start.workload, shorter, 0.9),
    )
    assert close(fast.max_request_rate, times * slow.max_request_rate, 1e-6)
    assert close(fast.rate, times * slow.rate, 1e-6)


def test_cold_starts_and_lengths_that_spread_cost_goodput():
    slo = "ttft:160@p95,tpot:20"
    plain = one(slo)
    assert plain.rate > 0.0
    assert one(slo, isl_cv=0.8).rate < plain.rate
    assert one(slo, cold_start="3%:2s").rate < plain.rate
    assert one(slo, cold_start="6%:2s").rate == 0.0


# --- what binds --------------------------------------------------------------------------------


def test_up_to_the_saturation_lax_limits_bind_nothing():
    found = one({"ttft": "600 s", "tpot": 60.0})
    assert found.found.binding == SATURATION
    assert found.found.util > 0.99
    assert 0.0 <= found.headroom < 0.01
    assert found.to_dict()["goodput_binding"] == "saturation"


def test_limits_on_what_a_single_token_has_not_bind_nothing():
    found = one("tpot:5", osl=1)
    assert found.reason is None
    assert found.found.binding == SATURATION
    assert found.headroom < 0.1


def test_a_measurement_moves_the_goodput_and_its_prediction_alike():
    plain = rl.predict(MODEL, GPU, **CASE)
    found = one("e2el:4s@p95", measured={"ttft": 1.3 * plain.ttft, "tpot": 1.1 * plain.tpot, "batch": 1})
    assert found.rate < one("e2el:4s@p95").rate
    assert close(found.prediction.latency("e2el_p95"), 4.0, 1e-4)
    with pytest.raises(
        rl.BadInput, match="a measurement needs its load here; add batch or concurrency or request_rate"
    ):
        one("e2el:4s@p95", measured={"ttft": 1.3 * plain.ttft, "tpot": 1.1 * plain.tpot})


@pytest.mark.parametrize("slo, binding, limit", [
    ("ttft:1", "ttft", "1 ms"), ("ttft:1s,tpot:1", "tpot", "1 ms"), ("ttft:5@p95", "ttft_p95", "5 ms"),
    ("e2el:500", "e2el", "500 ms"),
])  # fmt: skip
def test_what_an_idle_server_misses_is_said_with_both_times(slo, binding, limit):
    found = one(slo)
    assert found.prediction is None
    said = re.fullmatch(
        rf"misses: {key_text(binding, is_mean=True)} (.*) > {limit} even on an idle server of 1x h100-sxm", found.reason
    )
    alone = rl.predict(MODEL, GPU, **CASE).latency(binding.partition("_")[0])
    assert 0.998 * alone < time_of_text(said[1]) < 1.03 * alone  # hardly anybody else is there
    row = found.to_dict()
    assert (row["goodput"], row["goodput_binding"], row["headroom"]) == (0.0, binding, None)
    assert row["gpu"] == GPU
    assert row["ttft_ms"] is None


def test_where_the_mean_meets_a_limit_that_too_many_miss_the_reason_says_how_many_do():
    found = one("ttft:300", cold_start="20%:300ms", share=0.9)
    assert found.rate == 0.0
    assert found.reason.startswith("misses: 80 % of the requests meet TTFT 300 ms on an idle server")
    assert found.to_dict()["goodput_binding"] == "ttft"
    assert one("ttft:300", cold_start="20%:300ms").rate > 0.0  # the mean alone has 60 ms of it


def test_lengths_alone_may_spread_further_than_a_p99_may():
    found = one("p99:1.05x", isl_cv=1.0)
    assert found.rate == 0.0
    assert "misses: lengths alone put the p99 at 4." in found.reason
    assert "above 1.05x" in found.reason


def test_what_a_p99_within_a_multiple_of_the_median_leaves_free():
    found = one("p99:1.4x")
    assert found.found.binding == "p99_within"
    assert close(found.found.attained["p99_within"], 1.4, 1e-6)
    ratios = [
        found.prediction.latency(f"{key}_p99") / found.prediction.latency(f"{key}_p50") for key in ("ttft", "tpot")
    ]
    assert close(max(ratios), 1.4, 1e-4)
    assert close(found.headroom, 1.0 - found.found.util)
    asked = rl.predict(MODEL, GPU, **CASE, request_rate=2.0, slo="p99:1.4x")
    assert close(headroom(asked).rate, found.rate, 1e-9)
    assert headroom(rl.predict(MODEL, GPU, **CASE, request_rate=2.0, slo="ttft:300")) is None


def test_a_prediction_says_whether_its_p99_stays_within_a_multiple_of_the_median():
    free = one("p99:2x").rate
    below, above = (rl.predict(MODEL, GPU, **CASE, request_rate=n * free, slo="p99:2x") for n in (0.98, 1.02))
    assert (below.to_dict()["slo_met"], above.to_dict()["slo_met"]) == (True, False)
    assert above.to_dict()["slo_binding"] == "p99_within"
    assert (below.verdict, above.verdict) == ("pass?", "fail?")  # 2 % from a limit, errors are larger
    assert ": pass? (" in str(below)
    assert ": fail? (" in str(above)


# --- deployments -------------------------------------------------------------------------------


def test_the_degree_that_is_given_is_kept_and_else_the_one_with_most_per_gpu_taken():
    slo = "ttft:400,tpot:20"
    each = {tp: one(slo, tp=tp).rate_per_gpu for tp in (1, 2, 4)}
    assert {tp: one(slo, tp=tp).prediction.deployment.plan.tp for tp in each} == {tp: tp for tp in each}
    best = one(slo, tp=None)
    assert close(best.rate_per_gpu, max(each.values()))
    assert best.prediction.deployment.plan.tp == max(each, key=each.get)
    assert not [text for text in best.warnings if text.startswith("tp =")]


def test_replicas_share_the_requests():
    alone, four = one(), one(num_gpus=4)
    assert four.prediction.deployment.replicas == 4
    assert close(four.rate, 4.0 * alone.rate, 1e-6)
    assert close(four.rate_per_gpu, alone.rate, 1e-6)
    shared = one("ttft:30,tpot:6", tp=None, num_gpus=8)
    assert shared.prediction is None or shared.prediction.deployment.num_gpus == 8


def test_answers_come_by_the_price_of_a_token_and_refusals_after_them():
    found = rl.goodput("llama-3.1-70b", ["a100-sxm-80gb", "h100-sxm", "l40s", "b200"], slo="ttft:500,tpot:30", tp=2)
    rows = [answer.to_dict() for answer in found]
    priced = [row["usd_per_m_output_tok"] for row in rows if row["goodput"]]
    assert len(priced) >= 2
    assert priced == sorted(priced)
    assert [bool(row["goodput"]) for row in rows] == sorted((bool(row["goodput"]) for row in rows), reverse=True)
    refused = next(row for row in rows if row["gpu"] == "l40s")
    assert refused["reason"].startswith(("does not fit: ", "misses: "))
    assert all(list(row) == [*ROW_KEYS, *GOODPUT_KEYS] for row in rows)


def test_a_row_is_a_prediction_at_the_goodput():
    found = one()
    row = found.to_dict()
    plain = rl.predict(MODEL, GPU, **CASE, request_rate=found.prediction.request_rate, slo="ttft:150,tpot:15").to_dict()
    assert {key: row[key] for key in ROW_KEYS if key != "warnings"} == {
        key: plain[key] for key in ROW_KEYS if key != "warnings"
    }
    assert (row["slo_met"], row["slo_verdict"]) == (True, "pass?")
    assert row["slo_binding"] == row["goodput_binding"]
    assert close(row["request_rate"], row["goodput"], 1e-5)
    assert close(row["util"], row["goodput_util"], 1e-5)
    assert row["goodput_share"] is None
    shared = one(share=0.9).to_dict()
    assert shared["goodput_share"] == 0.9
    assert close(shared["attained_share"], 0.9, 1e-6)
    assert (shared["slo_met"], shared["slo_verdict"]) == (True, "pass?")
    assert found.to_dict(["goodput", "gpu"]) == {"goodput": row["goodput"], "gpu": GPU}
    with pytest.raises(rl.UnknownName, match="'x'"):
        found.to_dict(["x"])


# --- what is refused ---------------------------------------------------------------------------


@each("share", [0, 1, 1.5, -1, 0.0, 1.0, float("nan"), "most", [0.9]], ids=str)
def test_a_share_that_is_none_is_refused(share):
    with pytest.raises(rl.BadInput, match="share"):
        one(share=share)


@each("slo", ["ttft:300@p95", "itl:40", "itl:40@p99,e2el:9000@p99"])
def test_a_share_of_requests_needs_a_limit_that_it_can_be_of(slo):
    case = rl.disaggregate(MODEL, "h100-sxm:tp1x1", "h100-sxm:tp1x1", isl=1000, osl=300, request_rate=1)
    levers = partial(rl.levers, request_rate=1)
    for asked in (rl.goodput, rl.curve, levers, lambda *_, **options: case.goodput(**options)):
        with pytest.raises(rl.BadInput, match=r"share = 0\.9 is of requests that meet limits on TTFT, TPOT or E2EL"):
            asked(MODEL, GPU, share=0.9, slo=slo)


@each("options, said", [
    ({"batch": 1}, "takes no batch: "),
    ({"concurrency": 8}, "takes no concurrency: "),
    ({"request_rate": 2.0}, "takes no request_rate: "),
    ({"num_prompts": 100}, "takes no num_prompts: "),
    ({"slo": None}, "goodput needs an SLO"),
    ({"slo": {}}, "goodput needs an SLO"),
    ({"slo": "ttft:0"}, "'0' is not a time; write it as 300"),
    ({"slo": {"ttft": 300}}, "is over a minute"),
    ({"num_gpus": 10**400, "tp": None}, "num_gpus"),
], ids=str)  # fmt: skip
def test_what_no_goodput_can_be_found_of_is_refused(options, said):
    with pytest.raises(rl.BadInput, match=said):
        one(**options)


@each("derate, error, said", [
    ("bandwith:5%", rl.UnknownName, "unknown rate 'bandwith' to derate; choose from bandwidth, peak, link"),
    ("bandwidth", rl.BadInput, "is not a share such as 80%"),
    ("bandwidth:half", rl.BadInput, "'half' is not a share"),
    ("bandwidth:5", rl.BadInput, "between 0 and 0.99"),
    ("bandwidth:-5%", rl.BadInput, "between 0 and 0.99"),
    ("bandwidth:100%", rl.BadInput, "between 0 and 0.99"),
    ("peak:nan", rl.BadInput, "'nan' is not a share"),
    ("peak:3%,peak:4%", rl.BadInput, "derated twice"),
    ({"peak": "much"}, rl.BadInput, "'much' is not a share"),
    (0.05, rl.BadInput, "must be shares of rates"),
])  # fmt: skip
def test_a_derate_that_is_none_is_refused(derate, error, said):
    with pytest.raises(error, match=said):
        one(derate=derate)


def test_a_derate_is_said_once_and_scales_the_rates_that_it_names():
    full, less = (rl.predict(MODEL, GPU, **CASE, derate=derate) for derate in (None, "bandwidth:5%,peak:3%,link:10%"))
    assert close(less.deployment.gpu.bandwidth, 0.95 * full.deployment.gpu.bandwidth)
    assert all(close(less.deployment.gpu.peaks[key], 0.97 * peak) for key, peak in full.deployment.gpu.peaks.items())
    assert close(less.deployment.gpu.link.bandwidth, 0.9 * full.deployment.gpu.link.bandwidth)
    assert [text for text in less.warnings if text.startswith("derated: ")] == [
        "derated: HBM bandwidth 5 % below the specification",
        "derated: dense peaks 3 % below the specification",
        "derated: scale-up bandwidth 10 % below the specification",
    ]
    assert less.tpot > full.tpot
    assert rl.predict(MODEL, GPU, **CASE, derate={"bandwidth": 0.05, "peak": "3%", "link": 0.1}) == less


@each(
    ("model", "gpu", "plan"),
    [
        ("gpt-oss-120b", "h100-sxm", {"tp": 1, "dp": 2, "max_num_seqs": 4}),
        ("deepseek-r1", "b200", {"tp": 1, "dp": 8, "ep": 8}),
        ("llama-3.1-8b", "h100-sxm", {"tp": 1, "dp": 2, "pp": 2, "max_num_seqs": 8}),
    ],
    few=1,
)
def test_every_question_knows_one_saturation(model, gpu, plan):
    saturation = rl.predict(model, gpu, request_rate=0.01, **plan).max_request_rate
    (found,) = rl.goodput(model, gpu, slo="ttft:1000", **plan).to_dict()["rows"]
    assert found["goodput"] / found["goodput_util"] == pytest.approx(saturation, rel=1e-9)
    assert found["max_request_rate"] == pytest.approx(saturation, rel=1e-9)
    curve = rl.curve(model, gpu, against="rate", **plan)
    assert curve.saturation == pytest.approx(saturation, rel=1e-9)
    tried = rl.pareto(model, gpu, against="rate", x="request_rate", y="ttft", **plan)
    shares = [point.prediction.workload.request_rate / saturation for point in tried.points]
    assert max(shares) <= 0.985 * (1.0 + 1e-9)
    assert all(any(abs(share - usual) < 1e-9 for usual in _SHARES) for share in shares)


# --- next to nothing ---------------------------------------------------------------------------


def test_a_goodput_next_to_nothing_has_no_price_on_the_screen():
    case = ["-m", "llama-3.1-8b", "-g", "h100,b200", "--isl-cv", "0.5", "--slo", "ttft:36"]
    for question in ("goodput", "cost"):
        result = CliRunner().invoke(cli, [question, *case])
        assert result.exit_code == 0
        assert "next to none" in result.stdout
        assert "USD/M" not in result.stdout, question
    assert "% of the saturation" in str(rl.goodput("llama-3.1-8b", "b200", isl_cv=0.5, slo="ttft:36")[0])


def test_a_ratio_that_an_idle_server_misses_and_a_loaded_one_meets_has_the_rates_at_which_it_is_met():
    case = {"isl": 4000, "osl": 64, "isl_cv": 0.9, "tp": 2, "slo": "p99:5.75x,tpot:20ms"}
    assert not rl.predict(MODEL, GPU, request_rate=0.001, **case).slo_met
    (found,) = rl.goodput(MODEL, GPU, **case)
    below, above = (rl.predict(MODEL, GPU, request_rate=found.rate * factor, **case) for factor in (0.999, 1.001))
    assert (below.slo_met, above.slo_met) == (True, False)
