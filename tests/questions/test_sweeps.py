"""Runs of one server at several loads: step line, saturation, where they leave the prediction, and their pictures."""

import json
import math
from functools import cache
from pathlib import Path

import pytest
from cli.asking import ask, document
from every_case import each

import roofline as rl
from roofline.questions.simulate import simulation
from roofline.questions.step_line import outlying, weighted_line
from roofline.questions.sweep_pictures import sweeps_text
from roofline.questions.sweeps import AtLoad, BeyondSaturation, Leaving, _flat_from, no_sweep_text
from roofline.specs.engine import KernelOverride
from roofline.specs.load import Rate, Users
from roofline.support.records import replace

RESULTS = Path(__file__).parents[1] / "fixtures" / "results"
SWEEP = str(Path(__file__).parents[2] / "examples" / "sweep.csv")
CASE = {"model": "llama-3.1-8b", "gpu": "h100-sxm", "tp": 1, "engine": "vllm"}
SHORT = {"isl": 2000, "osl": 300}
LONG = {"isl": 12000, "osl": 800}
pytestmark = pytest.mark.usefixtures("_figures_predicted_once")
USERS = (1, 8, 24, 64)
RATES = (1.0, 4.0, 7.0)
SEED = 20_291_000  # not used while the module was written


@cache
def swept(fault="none", kind="concurrency", lengths="short"):
    """The sweep of a server that is simulated with a fault, which its results do not state."""
    case = {**CASE, **(SHORT if lengths == "short" else LONG)}
    results = []
    loads = USERS if kind == "concurrency" else RATES
    for number, load in enumerate(loads if lengths == "short" else [max(load // 4, 1) for load in loads]):
        stated = rl.predict(**case, **{kind: load})
        engine = stated.deployment.engine
        if fault == "host":
            engine = replace(engine, step=engine.step + 5e-3)
        if fault == "attention":
            slower = KernelOverride("attention_decode", memory=1 / 3, compute=1 / 3)
            engine = replace(engine, tunings=(*engine.tunings, slower))
        if fault == "slots":
            engine = replace(engine, max_num_seqs=16)
        server = replace(stated, deployment=replace(stated.deployment, engine=engine))
        found = simulation(server, requests=600 if kind == "concurrency" else 5000, seed=SEED + number)
        results.append(result(load, found.ttft, found.tpot, found.request_rate, kind))
    (sweep,) = rl.check(results, **case).sweeps
    return sweep


def result(load, ttft, tpot, answered=None, kind="concurrency"):
    """What a benchmark writes."""
    users = {"max_concurrency": load, "request_rate": "inf"}
    rate = {} if answered is None else {"request_throughput": answered}
    times = {"mean_ttft_ms": 1e3 * ttft, "mean_tpot_ms": 1e3 * tpot}
    return {**times, **rate, **(users if kind == "concurrency" else {kind: load})}


def as_predicted(loads=USERS, factor=None, kind="concurrency"):
    """Results as predicted; times of some loads are a factor longer."""
    results = []
    for load in loads:
        p = rl.predict(**CASE, **SHORT, **{kind: load})
        longer = (factor or {}).get(load, 1.0)
        results.append(result(load, longer * p.ttft, longer * p.tpot, None if kind == "concurrency" else load, kind))
    return results


def checked(results, **options):
    return rl.check(results, **{**CASE, **SHORT, **options})


def leaving(sweep, metric):
    return next(one for one in sweep.leaving if one.metric == metric)


# --- the line ------------------------------------------------------------------------------------


def test_a_line_of_least_squares_agrees_with_a_count_by_hand():
    # x 0, 1, 2 with y 1, 2, 6 of equal variance 1: mean 1 and 3, slope 5 / 2, left over 1/4 + 1 + 1/4 = 1.5
    fit = weighted_line([0.0, 1.0, 2.0], [1.0, 2.0, 6.0], [1.0, 1.0, 1.0])
    assert fit[:2] == pytest.approx((0.5, 2.5))
    assert fit.each_sigma == pytest.approx((1.5 / 2.0) ** 0.5)
    assert fit.fixed_sigma == pytest.approx((1.5 * (1.0 / 3.0 + 1.0 / 2.0)) ** 0.5)


def test_three_points_that_agree_by_chance_are_no_surer_than_their_scatter():
    exact = weighted_line([0.0, 1.0, 2.0], [1.0, 2.0, 3.0], [4.0, 4.0, 4.0])
    assert exact.each_sigma == pytest.approx(2.0 / 2.0**0.5)


def test_a_point_far_off_the_others_counts_less():
    places, values = [1.0, 2.0, 3.0, 4.0, 5.0], [1.0, 2.0, 3.0, 14.0, 5.0]
    taken = outlying(places, values, [0.01] * 5)
    plain, robust = (weighted_line(places, values, variances) for variances in ([0.01] * 5, taken))
    assert taken.index(max(taken)) == 3
    assert abs(robust.each - 1.0) < 0.1 < abs(plain.each - 1.0)


def test_sequences_follow_littles_law_and_a_request_sees_itself():
    p = rl.predict(**CASE, **SHORT, request_rate=4.0)
    (sweep,) = checked(as_predicted((1.0, 2.0, 4.0), kind="request_rate")).sweeps
    assert sweep.points[-1].sequences == pytest.approx(1.0 + 4.0 * 299 * p.tpot)
    (of_users,) = checked(as_predicted()).sweeps
    assert of_users.points[0].sequences == 1.0
    q = rl.predict(**CASE, **SHORT, concurrency=64)
    assert of_users.points[-1].sequences == pytest.approx(1.0 + 63.0 * (q.e2el - q.ttft) / q.e2el)
    assert of_users.points[-1].rate == pytest.approx(64 / q.e2el)


def test_what_is_measured_as_predicted_has_the_predicted_line():
    for results in (as_predicted(), as_predicted(RATES, kind="request_rate")):
        (sweep,) = checked(results).sweeps
        for one in (sweep.step.fixed, sweep.step.each):
            assert one.measured == pytest.approx(one.predicted, rel=1e-9)
            assert one.predicted_low < one.predicted < one.predicted_high
        assert all(one.inside for one in sweep.leaving)


def test_the_parts_of_a_step_add_up_to_its_line():
    (sweep,) = checked(as_predicted()).sweeps
    step = sweep.step
    assert sum(part.fixed for part in step.parts) == pytest.approx(step.fixed.predicted, rel=1e-6)
    assert sum(part.each for part in step.parts) == pytest.approx(step.each.predicted, rel=1e-6)
    assert {"linear layers", "attention", "host"} <= {part.name for part in step.parts}


def test_one_run_that_went_wrong_moves_neither_number_out_of_its_range():
    (sweep,) = checked(as_predicted((1, 4, 8, 16, 32, 64), {16: 2.0})).sweeps
    assert sweep.step.off == ()
    assert sweep.step.each.measured == pytest.approx(sweep.step.each.predicted, rel=0.1)
    assert leaving(sweep, "tpot").text(Users) == "TPOT inside, but for 2x at 16 users"


@each("kind, lengths", [("concurrency", "short"), ("request_rate", "short"), ("concurrency", "long")])
def test_a_server_as_predicted_is_inside_throughout(kind, lengths):
    sweep = swept("none", kind, lengths)
    assert sweep.step.off == ()
    assert [one.inside for one in sweep.leaving] == [True, True]
    assert not sweep.saturation.is_limited


@each("kind", ["concurrency", "request_rate"])
def test_a_host_that_takes_longer_a_step_is_found_in_a_by_as_much(kind):
    sweep = swept("host", kind)
    assert sweep.step.off == ("a",)
    assert sweep.step.fixed.measured - sweep.step.fixed.predicted == pytest.approx(5e-3, rel=0.1)
    assert "a of the step line is off" in leaving(sweep, "tpot").differs


def test_slower_reads_of_the_cache_are_found_in_b_by_as_much():
    sweep = swept("attention", lengths="long")
    assert sweep.step.off == ("b",)
    share = sum(part.each for part in sweep.step.parts if part.name == "attention") / sweep.step.each.predicted
    assert sweep.step.each.measured / sweep.step.each.predicted == pytest.approx(1.0 + 2.0 * share, rel=0.1)


def test_fewer_slots_are_a_lower_saturation_with_so_many_sequences():
    sweep = swept("slots")
    found = sweep.saturation
    assert sweep.step.off == ()
    assert found.is_limited
    assert found.inside is False
    assert found.rate < 0.75 * found.predicted
    assert found.running == pytest.approx(16, rel=0.1)
    assert found.running < 0.5 * found.predicted_running
    assert (found.rising_at, found.flat_from) in ((8, 24), (1, 8))
    assert any("--max-num-seqs" in line for line in sweep.lines)
    late = leaving(sweep, "ttft")
    assert (late.before, late.load) == (8, 24)
    assert any("16 sequences decode at once, predicted 23" in text for text in late.differs)


# --- loads that are too few, too high or not alike -----------------------------------------------


def test_two_loads_give_ratios_alone():
    (sweep,) = checked(as_predicted((1, 16))).sweeps
    assert sweep.step is None
    p, q = (rl.predict(**CASE, **SHORT, concurrency=users) for users in (1, 16))
    times = f"{q.tpot / p.tpot:.3g}x"
    assert f"TPOT {times}, predicted {times}" in "\n".join(sweep.lines)


def test_one_load_is_no_sweep_and_the_reason_says_so():
    for results in (as_predicted((8,)), as_predicted((8, 8))):
        answer = checked(results)
        assert answer.sweeps == ()
        assert "two loads or more" in no_sweep_text(list(answer)) or "different loads" in no_sweep_text(list(answer))


def test_runs_of_other_lengths_formats_or_kinds_of_load_are_other_sweeps():
    others = [
        dict(one, total_input_tokens=50_000, total_output_tokens=30_000, completed=100) for one in as_predicted((1, 8))
    ]
    mixed = [
        *as_predicted((1, 8)),
        *[dict(one, kv_cache_dtype="fp8") for one in as_predicted((1, 8))],
        *as_predicted((1.0, 4.0), kind="request_rate"),
    ]
    answer = rl.check(mixed, **CASE, **SHORT)
    assert [len(sweep.points) for sweep in answer.sweeps] == [2, 2, 2]
    alike = [dict(one, total_input_tokens=200_100 - 900 * n, total_output_tokens=30_000, completed=100)
             for n, one in enumerate(as_predicted((1, 8, 24)))]  # fmt: skip
    (sweep,) = rl.check([*alike], **CASE).sweeps
    assert len(sweep.points) == 3
    assert len(rl.check([*alike, *others], **CASE).sweeps) == 2


def test_rates_beyond_the_predicted_saturation_are_points_without_a_prediction():
    full = rl.predict(**CASE, **SHORT, request_rate=1.0).max_request_rate
    results = as_predicted(RATES, kind="request_rate")
    results += [result(rate, 20.0, 0.06, 0.95 * full, "request_rate") for rate in (1.2 * full, 1.6 * full)]
    answer = checked(results)
    assert [type(error) for error in answer.refused] == [BeyondSaturation] * 2
    (sweep,) = answer.sweeps
    assert [point.run is None for point in sweep.points] == [False] * 3 + [True] * 2
    found = sweep.saturation
    assert found.rate == pytest.approx(0.95 * full)
    assert found.flat_from == pytest.approx(1.2 * full)
    assert found.rising_at == 7.0
    assert found.inside is True
    assert "no steady state is predicted at" in "\n".join(sweep.lines)


def test_figures_that_are_missing_are_said():
    plain = {"p99_ttft_ms": 300.0, "p99_tpot_ms": 20.0}
    (tails,) = checked([{**plain, "request_rate": rate} for rate in (1, 2, 4)], statistic="p99").sweeps
    assert "means or medians" in tails.step_reason
    (first,) = checked([{"mean_ttft_ms": 100.0, "request_rate": rate} for rate in (1, 2, 4)]).sweeps
    assert "no TPOT" in first.step_reason
    assert "answered" in first.saturation_reason


def test_bursts_have_a_line_and_no_saturation(tmp_path):
    predicted = {batch: rl.predict(**CASE, **SHORT, batch=batch) for batch in (1, 8, 64)}
    rows = [f"{batch},{1e3 * p.ttft},{1e3 * p.tpot}" for batch, p in predicted.items()]
    path = tmp_path / "bursts.csv"
    path.write_text("\n".join(["batch,ttft_ms,tpot_ms", *rows]))
    (sweep,) = checked(str(path)).sweeps
    assert sweep.step.each.measured == pytest.approx(sweep.step.each.predicted, rel=1e-6)
    assert sweep.saturation is None
    assert "bursts end" in sweep.saturation_reason
    assert "sweep of 3 loads, batch 1 to 64" in sweep.lines[0]


def test_folders_with_the_same_loads_are_sweeps_of_their_own(tmp_path):
    paths = {}
    for name, loads, factor in (("one", (1, 8), 1.0), ("two", (1, 8), 1.5), ("three", (24, 64), 1.0)):
        (tmp_path / name).mkdir()
        paths[name] = [tmp_path / name / f"{load}.json" for load in loads]
        for path, one in zip(paths[name], as_predicted(loads, dict.fromkeys(loads, factor)), strict=True):
            path.write_text(json.dumps(one))
    apart = checked([*paths["one"], *paths["two"]]).sweeps
    assert [leaving(sweep, "tpot").inside for sweep in apart] == [True, False]
    assert [sweep.home for sweep in apart] == [str(tmp_path / name) for name in ("one", "two")]
    changed = checked(paths["one"], after=paths["two"]).sweeps
    assert [sweep.home for sweep in changed] == [sweep.home for sweep in apart]
    (together,) = checked([*paths["one"], *paths["three"]]).sweeps
    assert (together.loads, together.home) == ([1, 8, 24, 64], "")
    path = tmp_path / "runs.csv"
    rows = [f"{one['max_concurrency']},{one['mean_ttft_ms']},{one['mean_tpot_ms']}" for one in as_predicted((1, 8))]
    path.write_text("\n".join(["concurrency,ttft_ms,tpot_ms", *rows]))
    assert len(checked([path, *paths["two"]]).sweeps) == 2


def test_both_sides_of_a_change_have_sweeps_of_their_own():
    answer = rl.check(as_predicted((1, 8)), after=as_predicted((1, 8), {1: 1.5, 8: 1.5}), **CASE, **SHORT)
    assert [len(sweep.points) for sweep in answer.sweeps] == [2, 2]
    assert [leaving(sweep, "tpot").inside for sweep in answer.sweeps] == [True, False]


# --- flat, and outside ---------------------------------------------------------------------------


@each(
    "loads, values, place",
    [
        ([1, 2, 4, 8], [1, 2, 4, 8], None),
        ([1, 2, 4, 8], [1, 2, 2.1, 2.2], 1),
        ([1, 2, 4, 8], [1, 2, 3, 3.3], 2),
        ([1, 8, 9], [1, 5, 5], None),  # 9 is hardly more than 8
        ([1, 2, 4], [3, 2, 2], 0),
    ],
)
def test_throughput_is_flat_where_twice_the_load_gives_less_than_15_percent_more(loads, values, place):
    assert _flat_from(loads, values) == place


@each(
    "outside, text",
    [
        ("....", "TTFT inside throughout"),
        ("####", "TTFT outside throughout: 2x at 1 user, 2x at 8"),
        ("..##", "TTFT outside from 4 users on: 2x; before, at 2, 1x"),
        ("#.##", "TTFT outside from 4 users on, and at 1: 2x; before, at 2, 1x"),
        ("##..", "TTFT outside up to 2 users: 2x at 1; inside from 4 on"),
        (".#..", "TTFT inside, but for 2x at 2 users"),
    ],
)
def test_where_a_latency_leaves_its_range_in_words(outside, text):
    judged = tuple(AtLoad(2.0**n, 2.0 if mark == "#" else 1.0, mark == "#") for n, mark in enumerate(outside))
    found = Leaving("ttft", judged, ())
    assert found.text(Users) == text
    assert found.inside is ("#" not in outside)
    assert found.load == (2.0 ** (4 - len(outside) + len(outside.rstrip("#"))) if outside.endswith("#") else None)


def test_of_many_loads_a_sentence_names_the_first():
    judged = tuple(AtLoad(float(n), 2.0, n % 2 == 1) for n in range(1, 16))
    assert Leaving("ttft", judged[:-1], ()).text(Users).endswith("2x at 7 users and 3 more")


def test_rates_are_told_in_requests_per_second():
    found = Leaving("tpot", (AtLoad(0.5, 1.0, False), AtLoad(1.0, 1.5, True)), ())
    assert found.text(Rate) == "TPOT outside from 1 request/s on: 1.5x; before, at 0.5, 1x"


# --- screens, rows and pictures ------------------------------------------------------------------


def test_a_measured_sweep_is_told_above_its_runs():
    done = ask("check", SWEEP, env={"COLUMNS": "80"})
    lines = done.stdout.splitlines()
    assert lines[0].startswith("healthy: ")
    assert any(line.startswith("sweep of 5 loads, 4 to 64 users: llama-3.1-70b on 4x h100-sxm") for line in lines)
    assert sum(len(line) > 80 for line in lines) == 0
    assert len(lines) <= 22
    words = " ".join(done.stdout.split())
    assert "TPOT outside from 32 users on: 1.19x; before, at 16, 1.06x; b of the step line is off" in words
    assert "saturation: not reached" in words


def test_rows_of_a_sweep_say_what_its_text_does():
    found = document("check", SWEEP)
    (row,) = found["sweeps"]
    assert (row["first_load"], row["last_load"], row["loads"]) == (4, 64, 5)
    assert (row["step_fixed_inside"], row["step_each_inside"]) == (True, False)
    assert row["measured_step_each_ms"] > row["predicted_step_each_high_ms"]
    assert (row["tpot_leaves_at"], row["tpot_leaves_after"], row["ttft_leaves_at"]) == (32, 16, None)
    assert row["saturated"] is False
    assert row["saturated_inside"] is None
    assert [point["source"] for point in found["sweep_points"]] == row["sources"]
    assert sum(part["each_ms"] for part in found["sweep_parts"]) == pytest.approx(row["predicted_step_each_ms"])
    assert row["summary"][0].startswith("sweep of 5 loads")


def test_charts_show_measured_marks_predicted_lines_and_ranges():
    (sweep,) = checked(as_predicted(USERS, {64: 1.5})).sweeps
    text = sweeps_text([sweep], 79, 16)
    for title in ("TTFT [ms] against users", "TPOT [ms] against users", "output tokens/s", "sequences in a step"):
        assert title in text
    assert text.count("* measured") == 4
    assert text.count(". range") == 4
    assert text.count("*") >= 4 + 4 * len(USERS) - 4  # marks may share a cell
    done = ask("check", SWEEP, "--plot", env={"COLUMNS": "80", "LINES": "24"})
    lines = done.stdout.splitlines()
    assert len(lines) <= 23
    assert max(map(len, lines)) <= 80
    assert "* measured" in done.stdout


@each("suffix", ["png", "svg"])
def test_a_picture_of_a_sweep_is_a_file(tmp_path, suffix):
    path = tmp_path / f"sweep.{suffix}"
    done = ask("check", SWEEP, "-o", str(path))
    assert done.exit_code == 0
    assert "\nsweep of" in done.stdout
    assert path.read_bytes()[:5] in (b"\x89PNG\r", b"<?xml")
    assert path.stat().st_size > 10_000


def test_what_is_no_sweep_cannot_be_drawn(tmp_path):
    done = ask("check", str(RESULTS / "vllm.json"), "-g", "h100-sxm", "--tp", "1", "--plot")
    assert done.exit_code == 1
    assert "vllm.json is one load; a sweep needs runs of one server at two loads or more" in done.stderr
    done = ask("check", str(RESULTS / "vllm.json"), "-g", "h100-sxm", "--tp", "1", "-o", str(tmp_path / "x.png"))
    assert done.exit_code == 1
    assert not (tmp_path / "x.png").exists()


def test_two_files_that_are_to_be_drawn_are_a_sweep_and_not_before_and_after(tmp_path):
    paths = []
    for one in as_predicted((1, 16)):
        path = tmp_path / f"{one['max_concurrency']}.json"
        path.write_text(json.dumps({**one, "model_id": CASE["model"]}))
        paths.append(str(path))
    options = ("-g", "h100-sxm", "--tp", "1", "--isl", "2000", "--osl", "300", "--engine", "vllm")
    assert "What changed" in ask("check", *paths, *options).stdout
    drawn = ask("check", *paths, *options, "--plot").stdout
    assert "What changed" not in drawn
    assert "sweep of 2 loads, 1 to 16 users" in drawn


def test_a_sweep_says_itself_on_one_line():
    (sweep,) = checked(as_predicted()).sweeps
    assert repr(sweep) == "<MeasuredSweep of 4 loads, 1 to 64 users: TTFT inside throughout; TPOT inside throughout>"
    assert sweep.to_dict(["loads", "gpu"]) == {"loads": 4, "gpu": "h100-sxm"}
    assert math.isfinite(sweep.to_rows()[0]["most_output_tok_s"])
