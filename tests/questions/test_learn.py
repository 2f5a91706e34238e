"""A profile fitted to runs of a server: hidden constants come back, and what the runs do not tell stays."""

import json
import math
from dataclasses import replace
from pathlib import Path

import pytest
from cli.asking import ask
from every_case import each

import roofline as rl
from roofline.catalog.find import load_engine
from roofline.catalog.yaml import read_untrusted
from roofline.questions.learn import profile_fields
from roofline.questions.posterior import FACTORS, PRIORS, engine_at
from roofline.serving.verdict import deployment_name

MODEL, GPU, BASE = "llama-3.1-8b", "h100-sxm", "vllm"
#: Users, tokens of prompt and answer.
LOADS = ((1, 1000, 200), (16, 1000, 200), (8, 4000, 100), (64, 256, 256), (100, 1000, 200))
OTHERS = ((32, 2000, 100), (128, 500, 300))
#: Constants of servers, over those of the profile.
HIDDEN = {
    "healthy": {},
    "slow host": {"request": 4.0, "memory": 1.15},
    "busy host": {"arrival": 2.5, "prefill": 4.0, "sequence": 3.0},
    "other kernels": {"arithmetic": 1.3, "memory": 0.9},
}


def profile(folder, hidden):
    """A file of a profile with hidden constants."""
    base = load_engine(BASE)
    fields = profile_fields(engine_at(base, {name: math.log(factor) for name, factor in hidden.items()}), base)
    source = {"made-up": {"title": "made up", "date": "2026-11-27"}}
    path = folder / "hidden.yaml"
    path.write_text(json.dumps({"name": "hidden", **fields, "sources": source}))  # JSON is YAML
    return str(path)


def result(users, isl, osl, ttft, tpot, **more):
    """What `vllm bench serve` saves; times in seconds."""
    number = max(10 * users, 30)
    return {
        "backend": "vllm", "model_id": MODEL, "max_concurrency": users, "num_prompts": number, "completed": number,
        "total_input_tokens": isl * number, "total_output_tokens": osl * number, "mean_ttft_ms": 1e3 * ttft,
        "mean_tpot_ms": 1e3 * tpot, **more,
    }  # fmt: skip


def case(users, isl, osl, engine):
    number = max(10 * users, 30)
    return {"isl": isl, "osl": osl, "tp": 1, "concurrency": users, "num_prompts": number, "engine": engine}


def simulated(folder, hidden, loads=LOADS):
    """Results of a simulated server."""
    engine = profile(folder, hidden)
    answers = [(load, rl.simulate(MODEL, GPU, **case(*load, engine), seed=load[0])) for load in loads]
    return [result(*load, answer.ttft, answer.tpot) for load, answer in answers]


def predicted(engine, loads=LOADS, factor=1.0):
    """Results as predicted with a profile, all times longer by a factor."""
    answers = [(load, rl.predict(MODEL, GPU, **case(*load, engine))) for load in loads]
    return [result(*load, factor * float(answer.ttft), factor * float(answer.tpot)) for load, answer in answers]


def fitted(results, **options):
    return rl.calibrate_engine(results, **{"gpu": GPU, "tp": 1, "engine": BASE, **options})


def by_name(fit):
    return {each.constant: each for each in fit.constants}


@pytest.fixture(name="folder", scope="module")
def fixture_folder(tmp_path_factory):
    return tmp_path_factory.mktemp("profiles")


@pytest.fixture(name="fits", scope="module")
def fixture_fits(folder):
    return {name: fitted(simulated(folder, hidden)) for name, hidden in HIDDEN.items()}


@pytest.fixture(name="slow", scope="module")
def fixture_slow(folder, fits):
    path = folder / "slow.yaml"
    path.write_text(fits["slow host"].text)
    return str(path)


# Simulated servers with hidden constants.


@each("name", HIDDEN)
def test_hidden_constants_of_a_simulated_server_lie_in_their_ranges(fits, name):
    found = by_name(fits[name])
    outside = [
        constant
        for constant, each in found.items()
        if not each.low <= HIDDEN[name].get(constant, 1.0) * each.shipped <= each.high
    ]
    assert len(outside) <= 1, outside  # nine ranges of 80 %, all of which a single draw need not hold


def test_constants_that_move_are_found_and_the_others_are_not(fits):
    slow, kernels, healthy = (by_name(fits[name]) for name in ("slow host", "other kernels", "healthy"))
    assert slow["request"].fitted == pytest.approx(4.0 * slow["request"].shipped, rel=0.25)
    assert slow["memory"].fitted == pytest.approx(1.15, rel=0.05)
    assert kernels["memory"].fitted == pytest.approx(0.9, rel=0.05)
    assert kernels["arithmetic"].fitted > 1.1
    assert all(0.94 < healthy[name].fitted < 1.06 for name in FACTORS)
    assert not fits["healthy"].notes


def test_a_fitted_profile_predicts_loads_that_it_has_not_seen(folder, slow):
    measured = simulated(folder, HIDDEN["slow host"], OTHERS)
    errors = {}
    for engine in (BASE, slow):
        runs = rl.check(measured, gpu=GPU, tp=1, engine=engine)
        errors[engine] = [abs(math.log(run.ratio(metric))) for run in runs for metric in ("ttft", "tpot")]
    assert max(errors[slow]) < 0.15  # of which the closed forms, beside the simulation, take up to 0.1
    assert sum(errors[slow]) < 0.5 * sum(errors[BASE])


def test_the_factor_on_each_pass_is_that_of_its_kernels(fits):
    passes = fits["other kernels"].passes
    assert passes["decode"][0] < 1.0 < passes["prefill"][0]
    assert all(low < factor < high for factor, low, high in passes.values())


# What runs do not tell.


@pytest.fixture(name="single", scope="module")
def fixture_single():
    return fitted(predicted(BASE, LOADS[:1], 1.3))


def test_a_single_user_does_not_move_what_only_a_load_shows(single):
    found = by_name(single)
    for name in ("arrival", "prefill_slowdown", "sequence", "attention"):
        assert found[name].fitted == found[name].shipped, name
        assert found[name].narrowed > 0.95
        assert not found[name].known
    assert found["memory"].fitted > 1.02  # 30 % slower decoding shows in what a single request can tell


def test_the_run_that_is_named_tells_the_constant(single):
    found = by_name(single)["sequence"]
    users, isl, osl = (int(word) for word in found.telling.replace(",", "").split() if word.isdigit())
    assert (users, isl) == (256, 128)
    more = fitted(predicted(BASE, (LOADS[0], (users, isl, osl)), 1.3))
    assert by_name(more)["sequence"].narrowed < 0.9 * found.narrowed


def test_runs_as_predicted_change_nothing_and_a_constant_the_profile_lacks_stays_out():
    fit = fitted(predicted(BASE))
    assert all(each.fitted == pytest.approx(each.shipped, rel=0.01) for each in fit.constants)
    assert not fit.notes
    without = fitted(predicted("none", LOADS[:2]), engine="none")
    assert {each.constant for each in without.constants} == {"prefill_slowdown", *FACTORS}


# Runs that do not fit.


def test_a_run_with_its_warm_up_hardly_moves_the_others():
    clean = predicted(BASE)
    dirty = [*clean[:-1], {**clean[-1], "mean_ttft_ms": 5.0 * clean[-1]["mean_ttft_ms"],
                           "mean_tpot_ms": 1.6 * clean[-1]["mean_tpot_ms"]}]  # fmt: skip
    fit = fitted(dirty)
    assert [run.weight < 0.2 for run in fit.runs] == 8 * [False] + 2 * [True]
    assert all(run.fitted == pytest.approx(run.shipped, rel=0.05) for run in fit.runs[:8])
    assert sum("check its warm-up" in note for note in fit.notes) == 2


def test_runs_that_contradict_each_other_are_named():
    first, second = predicted(BASE, LOADS[1:2]), predicted(BASE, LOADS[1:2], 1.6)
    (note, *_) = [note for note in fitted([*first, *second]).notes if "the same load" in note]
    assert "TTFT differs by 60 %" in note


def test_runs_of_several_servers_widen_the_ranges_and_are_told():
    servers = [run for factor, load in zip((0.5, 2.0, 0.6, 1.9, 0.5), LOADS, strict=True)
               for run in predicted(BASE, (load,), factor)]  # fmt: skip
    fit, calm = fitted(servers), fitted(predicted(BASE))
    assert fit.scatter["tpot"] > 2.0 * calm.scatter["tpot"]
    assert any("disagree with each other" in note for note in fit.notes)


# The file.


def test_a_profile_reads_back_and_narrows_ranges_where_it_was_measured(fits, slow):
    load = case(*LOADS[1], slow)
    p, shipped = rl.predict(MODEL, GPU, **load), rl.predict(MODEL, GPU, **{**load, "engine": BASE})
    alike = [run for run in fits["slow host"].runs if run.shipped == pytest.approx(shipped.tpot, rel=1e-6)]
    (run,) = alike
    assert p.tpot == pytest.approx(run.fitted, rel=1e-4)
    width, before = (math.log(one.tpot_interval[1] / one.tpot) for one in (p, shipped))
    assert width == pytest.approx(fits["slow host"].scatter["tpot"] * before, rel=0.1)  # shares of kernels have moved
    assert fits["slow host"].scatter["tpot"] < 0.7
    data, _, faults = read_untrusted(slow)
    assert not faults
    assert data["fitted_on"] == [deployment_name(p.deployment)] == ["llama-3.1-8b bf16 on h100-sxm"]
    assert set(data["ranges"]) == set(PRIORS)


def test_elsewhere_the_ranges_are_as_wide_as_before_and_a_note_says_so(slow):
    elsewhere = rl.predict("qwen3-8b", GPU, **case(*LOADS[1], slow))
    assert any("was fitted to runs of llama-3.1-8b bf16 on h100-sxm" in note for note in elsewhere.warnings)
    engine = replace(elsewhere.deployment.engine, fitted_on=())
    wide = replace(elsewhere, deployment=replace(elsewhere.deployment, engine=engine))
    assert elsewhere.tpot_interval == wide.tpot_interval
    assert not any("was fitted" in note for note in rl.predict(MODEL, GPU, **case(*LOADS[1], slow)).warnings)


def test_a_folder_of_specifications_holds_a_profile(folder, slow):
    load = case(*LOADS[0], "slow")
    found = rl.predict(MODEL, GPU, specs=str(folder), **load)
    assert found.tpot == rl.predict(MODEL, GPU, **{**load, "engine": slow}).tpot


def test_a_fitted_profile_is_fitted_again_without_narrowing_twice(slow):
    again = fitted(predicted(slow), engine=slow)
    assert all(each.fitted == pytest.approx(each.shipped, rel=0.01) for each in again.constants)
    assert again.scatter["tpot"] == pytest.approx(fitted(predicted(BASE)).scatter["tpot"], rel=0.1)


def test_a_profile_of_a_version_keeps_the_defaults_of_the_version(folder):
    fit = fitted(predicted("vllm@0.19", LOADS[:1]), engine="vllm@0.19")
    path = folder / "version.yaml"
    path.write_text(fit.text)
    load = case(*LOADS[0], str(path))
    own, version = rl.predict(MODEL, GPU, **load), rl.predict(MODEL, GPU, **{**load, "engine": "vllm@0.19"})
    assert own.deployment.engine.family == "vllm"
    assert own.tpot == pytest.approx(version.tpot, rel=1e-5)
    assert own.memory.reserve == pytest.approx(version.memory.reserve, rel=1e-5)


# Refusals, and the command.


def test_the_newest_date_of_the_runs_is_that_of_the_profile(monkeypatch):
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "1795000000")  # 2026-11-18
    (run,) = predicted(BASE, LOADS[:1])
    for dates, date in ((("2026-03-02", "2025-12-01"), "date: 2026-03-02"), (("long ago",), "date: 2026-11-18")):
        fit = fitted([{**run, "date": day} for day in dates])
        assert fit.text.count(date) == 2


def test_results_of_several_engines_models_or_servers_are_refused():
    runs = predicted(BASE, LOADS[:1])
    for other, what in (({"backend": "sglang"}, "engines: vllm, sglang"), ({"model_id": "qwen3-8b"}, "models")):
        with pytest.raises(rl.BadInput, match=f"results of 2 {what}"):
            rl.calibrate_engine([*runs, {**runs[0], **other}], gpu=GPU, tp=1)
    with pytest.raises(rl.RooflineError, match="no tp: give tp"):
        rl.calibrate_engine(runs, gpu=GPU)
    (refused,) = rl.calibrate_engine([*runs, {"mean_ttft_ms": 1.0}], gpu=GPU, tp=1).refused
    assert "no model" in str(refused)


def test_tails_and_impossible_times_are_left_out():
    (run,) = predicted(BASE, LOADS[1:2])
    tail = {**run, "p99_ttft_ms": 400.0, "p99_tpot_ms": 20.0}
    with pytest.raises(rl.BadInput, match="medians or means, not to a p99"):
        fitted([tail], statistic="p99")
    fit = fitted([run, {**run, "mean_tpot_ms": 0.5}])
    assert fit.count == 1
    assert "below the hardware limit" in fit.notes[0]


@pytest.fixture(name="files")
def fixture_files(tmp_path):
    paths = []
    for place, run in enumerate(predicted(BASE, LOADS[:2], 1.2)):
        paths.append(tmp_path / f"run{place}.json")
        paths[-1].write_text(json.dumps(run))
    return [str(path) for path in paths]


def test_the_command_writes_a_profile_that_check_uses(files, tmp_path):
    path = tmp_path / "mine.yaml"
    done = ask("calibrate", *files, "-g", GPU, "--tp", 1, "-o", path)
    assert done.exit_code == 0, done.output
    assert "use it with --engine" in done.stdout
    assert len(done.stdout.splitlines()) < 24
    assert [line for line in done.stdout.splitlines() if len(line) > 80 and str(tmp_path) not in line] == []
    assert ask("calibrate", *files, "-g", GPU, "--tp", 1, "-o", path).exit_code == 1  # the file is there
    checked = rl.check(files, gpu=GPU, tp=1, engine=str(path))
    assert all(abs(math.log(run.ratio("tpot"))) < 0.1 for run in checked)
    printed = ask("calibrate", *files, "-g", GPU, "--tp", 1, "--name", "mine")
    assert printed.stdout == path.read_text()


def test_what_is_about_kernels_or_no_file_of_yaml_is_refused(files):
    for words, message in (
        (("--title", "x"), "--title is about tables of kernels"),
        (("--alone",), "--alone is about tables of kernels"),
        (("-o", "mine.txt"), "a profile is a YAML file: mine.yaml"),
    ):
        done = ask("calibrate", *files, "-g", GPU, "--tp", 1, *words)
        assert done.exit_code in (1, 2), words
        assert message in " ".join(done.stderr.split()), words


def test_tables_of_kernels_are_told_from_results_by_what_they_hold(files, tmp_path):
    table = tmp_path / "results.csv"
    table.write_text("# timed here\ngpu,kind,dtype,m,n,k,latency_us\nh100-sxm,gemm,bf16,1,2,3,4\n")
    for words, message in (
        ((table, files[0], "-g", GPU), "is a table of kernels and"),
        ((table,), "tables of kernels need the GPU"),
        ((table, "-g", GPU, "--tp", 2), "--tp is about results of a server"),
        ((table, "-g", GPU), "1 gemm rows are too few"),
    ):
        done = ask("calibrate", *words)
        assert done.exit_code in (1, 2), words
        assert message in " ".join(done.stderr.split()), words


def test_runs_in_step_are_left_out() -> None:
    path = str(Path(__file__).parents[1] / "fixtures" / "faults" / "healthy.json")
    fit = rl.calibrate_engine(path, model="llama-3.1-8b")
    assert sum("stay in step" in note for note in fit.notes) == 2
    assert "3 runs" not in repr(fit)
