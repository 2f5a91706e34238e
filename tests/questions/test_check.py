"""A measurement beside its prediction: ratios, shares of the machine, suspects, reasons, and what changed."""

import json
import math
import os
import re
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
import tiers
from cli.asking import answered, ask, document, rows
from click.testing import CliRunner
from every_case import each
from hypothesis import assume, given
from hypothesis import strategies as st

import roofline as rl
from roofline.cli.main import cli
from roofline.physics.equation import Kernel, LinkRoof, Roof, Terms, Work
from roofline.physics.passes import Pass
from roofline.questions.check import check_measurement, expected
from roofline.questions.diagnosis import MOST_PLAUSIBLE, MOST_SUSPECTS, PartOf, Timed, ranked_suspects
from roofline.questions.measured_passes import mbu, mfu, parts
from roofline.specs.gpu import HEAD, KINDS, CollectiveEfficiency, Efficiency
from roofline.specs.workload import Measurement

MEASURED = Measurement(
    "run.json", model="llama-3.1-8b", gpu="h100-sxm", tp=1, isl=2000.0, osl=300.0, batch=4.0, ttft=0.2, tpot=0.01
)


def kernel(name, kind, time, count=1, work=Work(), peak=1e15, part=""):  # noqa: B008  frozen
    """A kernel of which one run takes a given time."""
    link, gpu = LinkRoof(1e11, 2, CollectiveEfficiency()), Roof(peak, 1e12, math.inf, Efficiency())
    roof = link if KINDS[kind].is_collective else gpu
    return Kernel(name, KINDS[kind], "bf16", count, work, roof, Terms(time, time, 0.0, 0.0), part)


PASS = Pass(
    (
        kernel("qkv", "gemm", 2e-3, count=2),
        kernel("attention", "attention_decode", 3e-3),
        kernel("all-reduce", "all_reduce", 1e-3),
        kernel("norm", "elementwise", 0.5e-3, count=2),
        kernel("head", "gemm", 1e-3, part=HEAD),
    )
)  # 10 ms


# --- shares of the machine -----------------------------------------------------------------------


def test_mfu_counts_each_kernel_at_the_peak_of_its_dtype():
    kernels = (
        kernel("a", "gemm", 1.0, count=3, work=Work(flop=1e12), peak=1e15),
        kernel("b", "gemm", 1.0, work=Work(flop=4e12), peak=2e15),
        kernel("c", "all_reduce", 1.0, work=Work(link_bytes=1e9)),
    )
    assert mfu(Pass(kernels), 0.010) == pytest.approx((3e12 / 1e15 + 4e12 / 2e15) / 0.010, rel=1e-12)


def test_mbu_counts_all_traffic():
    work = Work(weight_bytes=1e9, kv_bytes=2e9, activation_bytes=3e9, serial_bytes=4e9)
    assert mbu(Pass((kernel("a", "gemm", 1.0, count=2, work=work),)), 1e12, 0.1) == pytest.approx(0.2, rel=1e-12)


def test_mfu_and_mbu_of_a_dense_model_agree_with_a_count_by_hand():
    found = check_measurement(MEASURED)
    layer = 4096 * (4096 + 2 * 1024) + 4096 * 4096 + 3 * 4096 * 14336  # parameters of q, k, v; o; the network
    tokens, pairs = 4 * 2000, 4 * 2000 * 2001 / 2
    flop = 2 * 32 * layer * tokens + 4 * 32 * 128 * pairs * 32 + 2 * 4 * 4096 * 128256
    assert found.mfu == pytest.approx(flop / (0.2 * 989.4e12), rel=1e-3)
    weights = 2 * (32 * layer + 4096 * 128256)
    kv = 4 * 2 * 32 * 8 * 128 * 2 * 2150  # mean KV length of 299 steps from 2000 on
    assert found.mbu == pytest.approx((weights + kv) / (0.01 * 3.35e12), rel=0.01)  # activations are below 1 %


# --- parts ---------------------------------------------------------------------------------------


def test_kernels_are_grouped_into_parts_of_a_step():
    found = {part.name: part for part in parts(PASS, 10e-3, 12e-3)}
    assert {name: round(part.time * 1e3, 9) for name, part in found.items()} == {
        "linear layers": 4.0,
        "attention": 3.0,
        "collectives": 1.0,
        "element-wise passes": 1.0,
        "head": 1.0,
    }
    assert found["linear layers"].share == pytest.approx(0.4)


def test_the_factor_is_what_the_part_alone_would_need():
    found = {part.name: part.factor for part in parts(PASS, 10e-3, 12e-3)}
    assert found["linear layers"] == pytest.approx(1.5)  # 6 + 1.5 x 4 = 12
    assert found["attention"] == pytest.approx(5.0 / 3.0)
    assert found["collectives"] == found["head"] == pytest.approx(3.0)


def test_the_part_that_has_to_change_least_comes_first():
    assert [part.name for part in parts(PASS, 10e-3, 12e-3)][:2] == ["linear layers", "attention"]
    below = parts(PASS, 10e-3, 8.5e-3)
    assert below[0].name == "linear layers"
    assert below[0].factor == pytest.approx(0.625)


def test_a_part_that_would_have_to_take_no_time_explains_nothing():
    found = {part.name: part for part in parts(PASS, 10e-3, 8.5e-3)}
    assert found["head"].factor is None
    assert not found["head"].is_plausible
    assert [part.factor for part in parts(PASS, 10e-3, 1e-3)] == [None] * 5


def test_no_part_explains_a_time_that_is_much_longer():
    found = parts(PASS, 10e-3, 1.0)
    assert all(part.factor > MOST_PLAUSIBLE for part in found)
    assert not any(part.is_plausible for part in found)


def test_what_the_host_does_is_a_part():
    found = {
        part.name: part.time for part in parts(Pass((*PASS.kernels, kernel("host, step", "host", 2e-3))), 12e-3, 1)
    }
    assert found["host"] == 2e-3


def test_what_exceeds_the_kernels_is_a_part():
    found = {part.name: part for part in parts(PASS, 12e-3, 14e-3)}
    assert found["queue and other prompts"].time == pytest.approx(2e-3)
    assert found["queue and other prompts"].factor == pytest.approx(2.0)
    assert "queue and other prompts" not in {part.name for part in parts(PASS, 10e-3, 14e-3)}


def test_every_kernel_of_a_mixture_of_experts_is_in_a_part_that_readers_know():
    asked = replace(MEASURED, model="deepseek-r1", gpu="h200-sxm", tp=8, ep=8)
    found = check_measurement(asked)
    names = {part.name for part in (*found.prefill_parts, *found.decode_parts)}
    assert names - {"host"} == {
        "linear layers", "attention", "experts", "collectives", "element-wise passes", "head",
    }  # fmt: skip


@given(times=st.lists(st.floats(1e-6, 1.0), min_size=1, max_size=5), measured=st.floats(1e-6, 100.0))
def test_a_factor_on_its_part_makes_the_measured_time(times, measured):
    kinds = ("gemm", "attention_decode", "moe", "elementwise", "all_reduce")
    kernels = tuple(kernel(kind, kind, time) for kind, time in zip(kinds, times, strict=False))
    step = sum(times)
    found = parts(Pass(kernels), step, measured)
    assert sum(part.time for part in found) == pytest.approx(step)
    for part in found:
        if part.factor is not None:
            assert step - part.time + part.factor * part.time == pytest.approx(measured, rel=1e-6)
        else:
            assert step - part.time >= measured * (1.0 - 1e-9)


# --- the case that a measurement stands for ------------------------------------------------------


class Asked:
    """`roofline.predict` that keeps what it was asked."""

    def __init__(self):
        self.cases = []

    def __call__(self, model, gpu, **case):
        self.cases.append({"model": model, "gpu": gpu, **case})
        return rl.predict(model, gpu, **case)


def test_a_static_batch_is_asked_for_as_it_is(monkeypatch):
    asked = Asked()
    monkeypatch.setattr("roofline.questions.check.predict", asked)
    found = expected(MEASURED, basis="calibrated")
    (case,) = asked.cases
    assert {key: case[key] for key in ("model", "gpu", "tp", "pp", "ep", "dp", "isl", "osl", "batch")} == {
        "model": "llama-3.1-8b", "gpu": "h100-sxm", "tp": 1, "pp": 1, "ep": 1, "dp": 1,
        "isl": 2000.0, "osl": 300.0, "batch": 4.0,
    }  # fmt: skip
    direct = rl.predict("llama-3.1-8b", "h100-sxm", tp=1, isl=2000, osl=300, batch=4)
    assert (found.ttft, found.tpot, found.e2el) == (direct.ttft, direct.tpot, direct.e2el)


def test_requests_in_flight_are_users_who_ask_again(monkeypatch):
    asked = Asked()
    monkeypatch.setattr("roofline.questions.check.predict", asked)
    found = expected(replace(MEASURED, batch=None, concurrency=64.0))
    (case,) = asked.cases
    assert case["concurrency"] == 64.0
    assert not {"batch", "request_rate", "num_prompts"} & set(case)
    direct = rl.predict("llama-3.1-8b", "h100-sxm", concurrency=64, tp=1, isl=2000, osl=300)
    assert (found.ttft, found.tpot, found.e2el) == (direct.ttft, direct.tpot, direct.e2el)
    assert found.e2el == pytest.approx(direct.ttft + 299 * direct.tpot)
    assert found.notes[0] == "64 requests in flight: predicted as a closed loop of users"


def test_a_single_request_in_flight_waits_for_nobody():
    alone, burst, two = (
        expected(replace(MEASURED, **load))
        for load in ({"batch": None, "concurrency": 1.0}, {"batch": 1.0}, {"batch": None, "concurrency": 2.0})
    )
    assert (alone.ttft, alone.tpot) == pytest.approx((burst.ttft, burst.tpot), rel=1e-12)
    assert alone.batch == 1.0
    assert two.ttft > alone.ttft
    assert two.tpot > alone.tpot


def test_less_than_one_request_in_flight_is_one():
    less, one = (expected(replace(MEASURED, batch=None, concurrency=users)) for users in (0.3, 1.0))
    assert (less.ttft, less.tpot, less.batch) == (one.ttft, one.tpot, 1.0)


@pytest.mark.parametrize("users, statistic, is_run", [
    (64.0, "mean", True), (64.0, None, True), (64.0, "median", False), (321.0, "median", True), (1.0, "mean", False),
])  # fmt: skip
def test_the_start_of_a_run_counts_for_means_and_for_medians_where_most_requests_belong_to_it(users, statistic, is_run):
    run = replace(MEASURED, batch=None, concurrency=users, num_prompts=640.0, statistic=statistic)
    case = {"tp": 1, "isl": 2000, "osl": 300, "concurrency": users}
    steady, begun = (rl.predict("llama-3.1-8b", "h100-sxm", **case, **more) for more in ({}, {"num_prompts": 640}))
    assert users == 1.0 or begun.ttft > 1.1 * steady.ttft
    found = expected(run)
    assert found.ttft == (begun if is_run else steady).ttft
    assert found.notes[0].endswith("in a run of 640 requests that starts all users at once") is is_run


def test_a_run_that_the_file_states_is_not_advised_and_what_is_compared_is_said():
    run = replace(MEASURED, batch=None, concurrency=64.0, num_prompts=640.0, statistic="median")
    median, mean = (expected(replace(run, statistic=statistic)) for statistic in ("median", "mean"))
    assert median.against == (
        "the mean of the steady state; of the run of 640 requests only means are predicted (statistic = mean)"
    )
    assert mean.against == "the mean over the run of 640 requests, its start included"
    assert not any("--num-prompts" in note for note in (*median.notes, *mean.notes))
    unknown = expected(replace(run, num_prompts=None))
    assert unknown.against == "the mean of the steady state"
    assert any("`num_prompts` 640" in note for note in unknown.notes)
    assert expected(MEASURED).against == ""


@pytest.mark.parametrize(("tpot", "is_common"), [(5.5, True), (2.0, False)])
def test_latencies_that_are_slow_alike_have_a_common_factor(tpot, is_common):
    run = replace(MEASURED, batch=None, concurrency=64.0, statistic="mean")
    predicted = expected(run)
    slow = check_measurement(replace(run, ttft=6.0 * predicted.ttft, tpot=tpot * predicted.tpot))
    assert ("slow by a common factor of about 5.7, as with lower clocks" in (slow.unexplained or "")) is is_common


def test_stages_of_a_pipeline_share_the_requests_in_flight_and_ranks_share_a_batch():
    shared = replace(MEASURED, model="llama-3.1-70b", batch=None, concurrency=64.0)
    for plan, most in (({"tp": 2, "pp": 2}, 32.0), ({"tp": 4, "dp": 2}, 64.0)):  # dp divides it inside a replica
        found = expected(replace(shared, **plan)).batch
        assert 0.95 * most < found < most, plan  # all but those whose prompt is computed or waits


def test_a_rate_alone_is_that_of_random_arrivals(monkeypatch):
    asked = Asked()
    monkeypatch.setattr("roofline.questions.check.predict", asked)
    rate = replace(MEASURED, batch=None, request_rate=4.0, osl=101.0)
    found = expected(rate)
    (case,) = asked.cases
    assert case["request_rate"] == 4.0
    assert not {"batch", "concurrency", "num_prompts"} & set(case)
    direct = rl.predict("llama-3.1-8b", "h100-sxm", request_rate=4, tp=1, isl=2000, osl=101)
    assert (found.ttft, found.tpot, found.e2el) == (direct.ttft, direct.tpot, direct.e2el)
    assert found.notes[0] == "4 requests/s: predicted as Poisson arrivals"


def test_a_rate_beyond_what_can_be_answered_is_refused_and_so_is_no_load():
    rate = replace(MEASURED, batch=None, request_rate=400.0, osl=101.0)
    most = rl.predict("llama-3.1-8b", "h100-sxm", request_rate=4, tp=1, isl=2000, osl=101).max_request_rate
    with pytest.raises(rl.RooflineError, match=rf"at most {most:.3g} (requests/s|are predicted)"):
        expected(rate)
    with pytest.raises(rl.BadInput, match="no load given; add concurrency, request_rate or batch"):
        expected(replace(rate, request_rate=None))


def test_a_case_that_ran_is_compared_though_it_does_not_fit_by_our_count():
    crowded = replace(MEASURED, batch=4000.0)
    assert any("of the usable memory as computed" in note for note in expected(crowded).notes)


def test_weights_that_cannot_have_been_there_are_refused():
    with pytest.raises(rl.DoesNotFit, match=r"141.1 GB .* exceed .* check tp, gpu and quantization"):
        expected(replace(MEASURED, model="llama-3.1-70b"))


# --- the comparison ------------------------------------------------------------------------------


@pytest.mark.parametrize("model", ["llama-3.1-8b", "mixtral-8x7b", "deepseek-r1"])
def test_a_measurement_equal_to_its_prediction_has_ratio_one_and_factors_of_one(model):
    case = replace(MEASURED, model=model, gpu="h200-sxm", tp=8)
    predicted = expected(case)
    found = check_measurement(replace(case, ttft=predicted.ttft, tpot=predicted.tpot, e2el=predicted.e2el))
    assert (found.ratio("ttft"), found.ratio("tpot"), found.ratio("e2el")) == (1.0, 1.0, 1.0)
    assert all(part.factor == pytest.approx(1.0) for part in (*found.prefill_parts, *found.decode_parts))
    assert sum(part.share for part in found.decode_parts) == pytest.approx(1.0)


@given(slower=st.floats(1.0, 50.0))
def test_shares_fall_as_the_measured_time_grows(slower):
    light = expected(MEASURED, basis="ideal")
    found = check_measurement(replace(MEASURED, ttft=light.ttft * slower, tpot=light.tpot * slower))
    for metric, used in (("ttft", found.mfu), ("tpot", found.mbu)):
        assert found.ideal_share(metric) == pytest.approx(1.0 / slower)
        assert used <= found.ideal_share(metric) * (1.0 + 1e-9)  # light needs at least each of the two


def test_a_time_that_light_cannot_make_is_said():
    light = expected(MEASURED, basis="ideal")
    found = check_measurement(replace(MEASURED, ttft=light.ttft / 2, tpot=light.tpot / 2))
    assert any(note.startswith("ttft is below the hardware limit: prompts were cached") for note in found.notes)
    assert any(note.startswith("tpot is below the hardware limit: ") for note in found.notes)
    assert not any("hardware limit" in note for note in check_measurement(MEASURED).notes)


def test_what_was_not_measured_is_not_compared():
    first_only = check_measurement(replace(MEASURED, tpot=None, osl=None))
    assert (first_only.ratio("tpot"), first_only.mbu, first_only.decode_parts) == (None, None, ())
    assert first_only.ratio("ttft") is not None
    steps_only = check_measurement(replace(MEASURED, ttft=None))
    assert (steps_only.ratio("ttft"), steps_only.mfu, steps_only.prefill_parts) == (None, None, ())


def test_the_ideal_basis_is_the_hardware_limit():
    found = check_measurement(MEASURED, basis="ideal")
    for metric in ("ttft", "tpot"):
        assert found.ratio(metric) == pytest.approx(1.0 / found.ideal_share(metric))


@given(cached=st.integers(0, 2000))
def test_a_cached_prefix_is_no_work(cached):
    assume(cached < 1999)
    found = check_measurement(replace(MEASURED, prefix=float(cached)))
    assert found.mfu <= check_measurement(MEASURED).mfu


def test_check_takes_options_by_the_names_that_callers_know_and_no_rule_for_a_degree():
    with pytest.raises(rl.BadInput, match="takes the degree that ran"):
        rl.check("missing.json", gpu="h100", ep="all")
    with pytest.raises(rl.BadInput, match="cannot be read"):
        rl.check("missing.json", gpu="h100", users=4, input_len=200, tensor_parallel_size=1)


pytestmark = pytest.mark.usefixtures("_figures_predicted_once")

FOLDER = Path(__file__).parents[1] / "fixtures" / "results"
VLLM = str(FOLDER / "vllm.json")
PASSES = str(FOLDER / "passes.csv")
COMMAND = Path(sys.executable).with_name("roofline")


def piped(data, *arguments):
    """Result of a command that reads the data from standard input."""
    return CliRunner().invoke(cli, ["check", "-", *arguments], input=data)


def changed(**figures):
    """The fixture of vLLM with other figures."""
    return json.dumps({**json.loads(Path(VLLM).read_text()), **figures})


def test_the_answer_begins_with_a_verdict_for_each_metric_and_its_range():
    (row,) = rows("check", VLLM)
    lines = answered("check", VLLM).split("\n")
    for line, metric in zip(lines, ("ttft", "tpot"), strict=False):
        low, high = row[f"predicted_{metric}_low_ms"], row[f"predicted_{metric}_high_ms"]
        place = "inside" if low <= row[f"measured_{metric}_ms"] <= high else "outside"
        percent = abs(row[f"{metric}_ratio"] - 1.0) * 100.0
        word = "slower" if row[f"{metric}_ratio"] > 1.0 else "faster"
        said = rf"{metric.upper()} ([\d.]+) % {word} than predicted: {place} the 80 % range"
        verdict = re.fullmatch(rf"{said}, ([\d.]+) ms \(([\d.]+)-([\d.]+)\)", line)
        assert [float(text) for text in verdict.groups()] == pytest.approx(
            [percent, row[f"predicted_{metric}_ms"], low, high], rel=0.05
        )
        assert (row[f"{metric}_inside"], row[f"{metric}_verdict"]) == (place == "inside", line[5:])


def test_at_most_two_suspects_are_named_with_what_each_explains():
    text = piped(changed(median_ttft_ms=190.0, median_tpot_ms=13.6)).stdout
    lines = [" ".join(line.split()) for line in re.findall(r"^\d\. .*(?:\n  .*)*", text, re.MULTILINE)]
    sentence = r"(\d)\. (.+): ([\d.]+)x its predicted time \(([\d.]+) times its uncertainty\); explains (.+); look at"
    suspects = [re.fullmatch(sentence + " --.+", line).groups() for line in lines]
    assert [rank for rank, *_ in suspects] == ["1", "2"]
    assert "TTFT and TPOT" in {explained for *_, explained in suspects}
    page = (Path(__file__).parents[2] / "docs" / "measurements.md").read_text("utf-8")
    assert text.split("\n\n")[0] in page
    found = json.loads(piped(changed(median_ttft_ms=190.0, median_tpot_ms=13.6), "-f", "json").stdout)
    assert [(each["rank"], each["part"]) for each in found["suspects"]] == [(int(r), part) for r, part, *_ in suspects]
    assert [f"{rank}. {text}" for rank, text in enumerate(found["rows"][0]["suspects"], 1)] == [
        " ".join(line.split()) for line in re.findall(r"^\d\. .*(?:\n  .*)*", text, re.MULTILINE)
    ]


def test_a_gap_that_no_part_explains_is_said_so():
    data = json.loads(changed(median_ttft_ms=10000.0))
    checks = rl.check(data)
    text = checks[0].unexplained
    assert text is not None
    assert re.search(r"No single part explains TTFT: [\d.]+ s more than the kernels", text)
    is_named = any(found.together for found in checks.findings)  # then that is said in its place
    assert ("No single part explains" in piped(json.dumps(data)).stdout) is not is_named
    below = " ".join(answered("check", VLLM, "--concurrency", "9000", "--num-prompts", "90000", "--all").split())
    assert "No single part explains TTFT and TPOT: check GPU, plan, formats, lengths, requests in flight" in below


def test_answers_of_another_length_show_in_the_end_to_end_latency_alone():
    (row,) = rows("check", VLLM)
    times = {"median_ttft_ms": row["predicted_ttft_ms"], "median_tpot_ms": row["predicted_tpot_ms"]}
    text = piped(changed(**times, median_e2el_ms=3.0 * row["predicted_e2el_ms"])).stdout
    assert re.search(r"\nE2EL 3 x as long as predicted: outside the 80 % range, ", text)
    assert "\nE2EL alone is outside: the answers may be longer or shorter than stated.\n" in text


def test_a_prediction_that_agrees_needs_no_explanation():
    (row,) = rows("check", VLLM)
    measured = {"model": "llama-3.1-8b", "gpu": "h100-sxm", "tp": 1, "isl": 2000, "osl": 300, "concurrency": 16}
    measured |= {"engine": "vllm", "engine_version": "0.24.0"}
    times = {"ttft_ms": row["predicted_ttft_ms"] * 1.01, "tpot_ms": row["predicted_tpot_ms"] * 0.99}
    table = [",".join(map(str, {**measured, **times})), ",".join(map(str, {**measured, **times}.values()))]
    text = piped("\n".join(table)).stdout
    assert text.startswith("TTFT as predicted (1 % slower): inside the 80 % range, ")
    assert "\nTPOT as predicted (1 % faster): inside the 80 % range, " in text
    assert "\nNothing needs explaining.\n" in text


def test_the_json_has_a_row_a_measurement_and_the_parts_of_both_passes():
    found = document("check", VLLM)
    (row,) = found["rows"]
    assert (row["model"], row["gpu"], row["concurrency"], row["statistic"]) == (
        "llama-3.1-8b",
        "h100-sxm",
        16,
        "median",
    )
    assert row["tpot_ratio"] == pytest.approx(row["measured_tpot_ms"] / row["predicted_tpot_ms"])
    assert 0.0 < row["decode_mbu"] <= row["tpot_light_frac"] * (1.0 + 1e-12) <= 1.0
    parts = [part for part in found["parts"] if part["pass"] == "decode"]
    assert row["decode_suspect"] == parts[0]["part"]
    assert sum(part["predicted_ms"] for part in parts) == pytest.approx(row["predicted_tpot_ms"])
    gap = row["measured_tpot_ms"] - row["predicted_tpot_ms"]
    assert any(part["factor"] is not None for part in parts)
    for part in parts:
        if part["factor"] is None:
            assert part["predicted_ms"] <= -gap  # all of it would not be enough
            continue
        assert (part["factor"] - 1.0) * part["predicted_ms"] == pytest.approx(gap)


def test_several_files_are_several_measurements_and_notes_say_which():
    result = ask("check", VLLM, PASSES, "--all")
    assert result.exit_code == 0
    assert result.stdout.count("predicted ms") == 4
    lines = answered("check", VLLM, PASSES).splitlines()
    (heading,) = (place for place, line in enumerate(lines) if "predicted ms (80 %)" in line)
    assert len(lines[heading + 1 : -1]) == 8
    assert f"{VLLM}: 16 requests in flight" in ask("check", VLLM, PASSES, "--notes").output
    assert f"{VLLM}: 16 requests in flight" not in ask("check", VLLM, "--notes").output
    assert "16 requests in flight" in ask("check", VLLM, "--notes").output


def test_equal_notes_of_several_files_are_one():
    assert ask("check", VLLM, VLLM, VLLM, "--notes").output.count("16 requests in flight") == 1


@pytest.mark.parametrize("data", [Path(VLLM).read_bytes(), b"\xef\xbb\xbf" + Path(VLLM).read_bytes()])
def test_a_dash_reads_standard_input(data):
    result = piped(data)
    assert result.exit_code == 0
    assert "(median, calibrated, engine vllm@0.24.0, stdin)" in result.stdout
    assert piped(b"").exit_code == 1
    assert "stdin: the file is empty" in piped(b"").stderr


def test_common_spellings_of_lengths_and_shares_are_understood():
    (row,) = rows("check", VLLM, "--isl", "4k", "--concurrency", "1k", "--prefix", "50%", "--osl", "1K")
    assert (row["isl"], row["concurrency"], row["prefix"], row["osl"]) == (4096, 1024, 2048, 1024)


def test_options_override_the_file():
    (row,) = rows(
        "check", VLLM, "-g", "b200", "--tp", 2, "--isl", 1000, "--batch", 8, "-q", "fp8", "--statistic", "mean"
    )
    assert (row["gpu"], row["tp"], row["isl"], row["batch"], row["concurrency"]) == ("b200", 2, 1000, 8, None)
    assert (row["quantization"], row["statistic"], row["measured_ttft_ms"]) == ("fp8", "mean", 130.0)


def test_the_basis_can_be_the_ideal_one():
    (row,) = rows("check", VLLM, "--batch", "16", "--basis", "ideal")
    assert row["basis"] == "ideal"
    assert row["tpot_ratio"] == pytest.approx(1.0 / row["tpot_light_frac"])


def test_at_light_speed_a_request_among_others_still_meets_their_prompts():
    (row,) = rows("check", VLLM, "--basis", "ideal")
    assert (row["basis"], row["concurrency"]) == ("ideal", 16)
    assert 0.7 < row["tpot_ratio"] * row["tpot_light_frac"] < 1.0
    assert row["tpot_ratio"] > rows("check", VLLM)[0]["tpot_ratio"]


def test_what_is_missing_is_asked_for_in_one_message():
    result = ask("check", str(FOLDER / "genai_perf.json"))
    assert result.exit_code == 1
    assert "genai_perf.json: the result states no GPU and no tp: give gpu and tp" in result.stderr
    assert result.stdout == ""


@tiers.has_more_cases
def test_every_fixture_can_be_compared_once_the_rest_is_said():
    missing = {"sglang.jsonl": {"model": "qwen3-8b"}, "guidellm.json": {"model": "qwen3-8b"}}
    for path in tiers.some(sorted(FOLDER.iterdir()), 3):
        if path.suffix != ".md":
            found = rl.check(path, gpu="h200", tp=8, **missing.get(path.name, {}))
            assert len(found) > 0
            assert found.findings is not None  # found for any of them
            assert all((run.ratio("tpot") or run.ratio("ttft")) > 0.0 for run in found)


def test_what_can_be_compared_is_shown_though_the_rest_fails():
    result = ask("check", VLLM, "no-such-file.json", str(FOLDER / "inferencex.json"), "--all")
    assert result.exit_code == 1
    assert "llama-3.1-8b on 1x h100-sxm" in result.stdout
    assert "deepseek-r1 on 8x h200-sxm" in result.stdout
    assert "no-such-file.json: cannot be read: No such file" in result.stderr
    assert "inferencex.json[2]: the result states no tp: give tp" in result.stderr


def test_a_name_that_no_catalog_knows_is_asked_for():
    data = json.dumps({**json.loads(Path(VLLM).read_text()), "model_id": "/models/llama"})
    result = piped(data)
    assert result.exit_code == 1
    assert "stdin: unknown model '/models/llama'" in result.stderr
    assert "or give model" in result.stderr
    assert piped(data, "-m", "llama-3.1-8b").exit_code == 0
    assert "or give model" not in piped(data, "-m", "lama").stderr


def test_a_rate_alone_is_predicted_as_random_arrivals():
    data = json.dumps({**json.loads(Path(VLLM).read_text()), "max_concurrency": None, "request_rate": 5.0})
    result = piped(data, "-f", "json")
    assert result.exit_code == 0
    (row,) = json.loads(result.stdout)["rows"]
    assert (row["batch"], row["concurrency"], row["request_rate"]) == (None, None, 5.0)
    direct = rl.predict("llama-3.1-8b", "h100-sxm", tp=1, isl=2000, osl=300, request_rate=5, engine="vllm@0.24.0")
    assert [row["predicted_ttft_ms"], row["predicted_tpot_ms"]] == pytest.approx([direct.ttft * 1e3, direct.tpot * 1e3])
    assert "5 requests/s: predicted as Poisson arrivals" in piped(data, "--notes").output


def test_a_rate_that_cannot_be_answered_is_refused_unless_those_in_flight_are_said():
    data = json.dumps({**json.loads(Path(VLLM).read_text()), "max_concurrency": None, "request_rate": 500.0})
    result = piped(data)
    assert result.exit_code == 1
    assert result.stdout == ""
    assert re.search(r"Error: stdin: .*at most [\d.]+ ", result.stderr)
    assert piped(data, "--concurrency", "14.8").exit_code == 0


@each("arguments", [
    ("--tp", "9" * 400), ("--isl", "9" * 400), ("--isl", "nan"), ("--batch", "inf"), ("--concurrency", "1e300"),
    ("--concurrency", "0"), ("--request-rate", "0"), ("--request-rate", "nan"), ("--num-prompts", "-1"),
    ("--num-prompts", "8"), ("--concurrency", "2", "--request-rate", "2"), ("--osl", "-5"), ("--prefix", "1e9"),
    ("--batch", "2", "--concurrency", "2"), ("-q", "fp2"), ("--kv-cache-dtype", "fp3"), ("-g", ""), ("-m", "/"),
])  # fmt: skip
def test_odd_options_are_refused_in_one_message(arguments):
    result = ask("check", VLLM, *arguments)
    assert result.exit_code in (1, 2)  # 2: what is no number at all
    assert "Error: " in result.stderr
    assert result.stdout == ""


def shell(script, **environment):
    path = f"{COMMAND.parent}{os.pathsep}{os.environ['PATH']}"
    env = {**os.environ, "PATH": path, **environment}
    return subprocess.run(["bash", "-c", script], capture_output=True, text=True, check=False, timeout=60, env=env)


def test_a_closed_standard_input_is_one_message():
    done = shell("roofline check - <&-")
    assert done.returncode == 1
    assert done.stderr.startswith("Error: stdin: ")
    assert "Traceback" not in done.stderr


def test_a_file_name_that_is_no_text_is_no_traceback(tmp_path):
    odd = os.fsencode(tmp_path) + b"/\xff\xe9.json"
    done = subprocess.run([COMMAND, b"check", odd], capture_output=True, check=False, timeout=60)
    assert done.returncode == 1
    assert b"Traceback" not in done.stderr
    Path(os.fsdecode(odd)).write_bytes(Path(VLLM).read_bytes())
    done = subprocess.run(
        [COMMAND, b"check", odd], capture_output=True, check=False, timeout=60, env={**os.environ, "LC_ALL": "C"}
    )
    assert done.returncode == 0, done.stderr


# --- what changed --------------------------------------------------------------------------------


def run_of(folder, name, **figures):
    path = folder / name
    path.write_text(json.dumps({**json.loads(Path(VLLM).read_text()), **figures}))
    return str(path)


@pytest.fixture(name="sweeps", scope="module")
def fixture_sweeps(tmp_path_factory):
    """Results of one server at 4 and 64 users, and of the same server with a slower host."""
    from dataclasses import replace

    from roofline.questions.predict import predict
    from roofline.serving.load.steady import served

    folder = tmp_path_factory.mktemp("sweeps")
    sides = ([], [])
    for users in (4, 64):
        found = predict("llama-3.1-8b", "h100-sxm", tp=1, isl=2000, osl=300, engine="vllm", concurrency=users)
        slower = replace(found.deployment, engine=replace(found.deployment.engine, step=0.005))
        for side, deployment in zip(sides, (found.deployment, slower), strict=True):
            times = served(deployment, found.workload)
            figures = {
                "max_concurrency": users,
                "median_ttft_ms": times.ttft * 1e3,
                "median_tpot_ms": times.tpot * 1e3,
                "request_throughput": times.request_rate,
            }
            side.append(run_of(folder, f"{'after' if side is sides[1] else 'before'}-{users}.json", **figures))
    return sides


def test_two_sweeps_say_what_changed_and_by_how_much(sweeps):
    before, after = sweeps
    text = answered("check", *before, "--after", *after, "--all")
    assert re.match(
        r"What changed: host: 4\.[5-9] ms more a step; look at --enforce-eager or\s+--async-scheduling\n", text
    )
    assert re.match(
        r"What changed: host: 4\.[5-9] ms more a step; look at --enforce-eager or\s+--async-scheduling\n",
        answered("check", *before, "--after", *after),
    )
    assert text.count("the 80 % range, ") == 8  # each run has its own verdict
    found = document("check", *before, "--after", *after, "-g", "h100")
    assert (found["changed"]["answer"], found["changed"]["loads"]) == ("host", 2)
    assert found["changed"]["causes"][0]["size"] == pytest.approx(0.005 - 0.000218, rel=0.1)
    assert len(found["rows"]) == 4
    assert "What changed: host: " in ask("check", *before, "--after", *after, "-f", "csv").stderr


def test_two_files_are_compared_and_three_are_not(sweeps):
    before, after = sweeps
    moved, changed, *_ = answered("check", before[0], after[0]).split("\n")
    assert re.fullmatch(r"TTFT [\d.]+ -> [\d.]+ ms \([+-]\d+ %\), TPOT [\d.]+ -> [\d.]+ ms \([+-]\d+ %\).*", moved)
    assert changed.startswith("What changed: ")
    assert "What changed" not in answered("check", *before, after[0])
    assert document("check", *before, after[0])["changed"] is None
    assert "one load only: a second would tell" in answered("check", before[0], after[0])


def test_a_run_compared_with_itself_has_not_changed(sweeps):
    moved, changed, *_ = answered("check", sweeps[0][1], sweeps[0][1]).split("\n")
    assert moved.count("(+0 %)") == moved.count(" -> ") >= 2
    assert changed.startswith("What changed: nothing beyond the scatter of ")


def test_what_the_results_state_is_known_to_differ(sweeps, tmp_path):
    newer = run_of(tmp_path, "newer.json", engine_version="0.30.0")
    text = answered("check", VLLM, newer)
    assert "the results state: engine version 0.24.0, then 0.30.0" in text


def test_runs_that_cannot_be_compared_are_said_so(sweeps):
    assert "runs of different models" in ask("check", VLLM, PASSES, "--notes").output
    result = ask("check", VLLM, "--after", PASSES)
    assert result.exit_code == 1
    assert "what changed cannot be told: runs of different models" in result.stderr
    assert ask("check", VLLM, "--after").exit_code == 2


def timed(metric, measured, *parts, sigma=0.2, is_outside=True):
    """A measured time whose prediction is the sum of its parts."""
    return Timed(metric, measured, sum(part.time for part in parts), parts, sigma, is_outside)


def test_the_part_that_is_least_certain_comes_first():
    parts = PartOf("linear layers", 5.0, 0.05, 1.0), PartOf("attention", 5.0, 0.35, 1.0)
    first, *_ = ranked_suspects([timed("tpot", 12.0, *parts)])
    assert first.part == "attention"
    assert first.sigmas == pytest.approx(math.log(first.factor) / 0.35)


def test_what_explains_both_times_comes_before_what_explains_one():
    shared, alone = PartOf("host", 2.0, 0.5, 0.0), PartOf("queue", 5.0, 0.5, 0.0)
    both = [timed("ttft", 10.0, shared, alone), timed("tpot", 8.0, shared, PartOf("linear layers", 3.0, 0.1, 0.0))]
    first = ranked_suspects(both)[0]
    assert (first.part, first.explains) == ("host", ("ttft", "tpot"))
    assert first.factor == pytest.approx(2.5, rel=0.1)  # 5 + 2.5 x 2 = 10, and 3 + 2.5 x 2 = 8


def test_a_time_inside_its_range_need_not_be_met_but_is_not_spoilt():
    host = PartOf("host", 2.0, 0.5, 0.0)
    inside = timed("ttft", 10.0, host, PartOf("linear layers", 8.0, 0.1, 4.0), sigma=0.05, is_outside=False)
    outside = timed("tpot", 9.0, host, PartOf("linear layers", 4.0, 0.1, 2.0))
    found = {suspect.part: suspect for suspect in ranked_suspects([inside, outside])}
    assert found["host"].explains == ("tpot",)
    assert found["host"].factor == pytest.approx(2.5, rel=0.1)  # 2 + 3 = 2.5 x 2


def test_no_part_is_suspected_of_being_faster_than_the_hardware():
    fast = PartOf("linear layers", 8.0, 0.3, 7.9), PartOf("attention", 2.0, 0.3, 0.1)
    assert ranked_suspects([timed("tpot", 6.0, *fast)]) == ()
    slow = PartOf("linear layers", 8.0, 0.3, 1.0), PartOf("attention", 2.0, 0.3, 0.1)
    assert [suspect.part for suspect in ranked_suspects([timed("tpot", 6.0, *slow)])] == ["linear layers"]


def test_nothing_is_suspected_of_more_than_its_residuals_allow():
    parts = PartOf("linear layers", 5.0, 0.05, 1.0), PartOf("head", 5.0, 0.05, 1.0)
    assert ranked_suspects([timed("tpot", 20.0, *parts)]) == ()


def test_at_most_two_are_named():
    parts = [PartOf(name, 2.0, 0.5, 0.0) for name in ("a", "b", "c", "d")]
    assert len(ranked_suspects([timed("tpot", 9.0, *parts)])) == MOST_SUSPECTS == 2
