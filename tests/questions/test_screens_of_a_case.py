"""The four questions about a case: what they print, in which format, and what they say beside it."""

import inspect
import math
import re
from itertools import pairwise

import click
import pytest
from cli.asking import answered, ask, cells, document, noted, row, rows, shown
from every_case import each

import roofline as rl
from roofline.cli.main import cli
from roofline.cli.screen import cell_text
from roofline.numbers.quantity import to_text
from roofline.questions.inputs.options import IN_PYTHON
from roofline.questions.inputs.options import QUESTIONS as TAKEN

QUESTIONS = ("ttft", "tpot", "predict", "knee")
CASE = ("-m", "llama-3.1-8b", "-g", "h100-sxm", "--isl", "2000", "--osl", "300")
KEYS = list(rl.predict("llama-3.1-8b", "h100-sxm").to_dict())


# --- tables ------------------------------------------------------------------------------------


def named(cell):
    """GPUs and their number in a cell such as 4x b200; the number is missing where there is no plan."""
    count, _, gpu = cell.rpartition("x ")
    return gpu, int(count) if count else None


def interval(cell):
    """Value and ends of its range in a cell such as 224 (146-344)."""
    return tuple(map(float, re.fullmatch(r"(\S+) \((\S+?)-(\S+)\)", cell).groups()))


MARKS = {"*": "calibrated", "+": "inherited", "#": "served", "?": "generic", "~": "generic"}


def test_ttft_over_the_catalog_lists_every_gpu_once_those_that_can_be_rented_and_were_timed_first():
    heading, *body = shown("ttft", "-m", "llama-3.1-70b", "--isl", "2000")
    assert heading[:6] == ["", "GPU", "plan", "TTFT ms (80 %)", "bound by", "TPOT ms"]
    assert heading[-3:] == ["USD/h", "USD/M out", "basis"]
    assert sorted(named(line[1])[0] for line in body) == list(rl.gpus())
    answers = [line for line in body if line[3] != "-"]
    assert body[: len(answers)] == answers
    shipping, price = rl.gpus(status="shipping"), heading.index("USD/h")
    is_first = [line[0] in "*+" and named(line[1])[0] in shipping and line[price] != "-" for line in answers]
    assert is_first == sorted(is_first, reverse=True)
    assert 10 < is_first.count(True) < len(answers)
    times = [interval(line[3]) for line in answers]
    announced = [line[0] == "~" for line in answers]
    assert announced == sorted(announced)
    ends_of_groups = (0, is_first.count(True), announced.count(False), len(answers))
    for start, end in pairwise(ends_of_groups):
        assert times[start:end] == sorted(times[start:end], key=lambda ends: ends[0])
    assert all(low <= time <= high for time, low, high in times)
    assert all(line[4] in ("compute", "memory", "latency", "exponentials", "link") for line in answers)
    assert [line[-1].partition(":")[0] for line in answers] == [MARKS[line[0]] for line in answers]
    assert {line[0] for line in answers} == set(MARKS)


def test_the_figures_of_the_table_are_those_of_the_api_at_three_digits():
    answers = [line for line in shown("ttft", "-m", "llama-3.1-70b", "--isl", "2000")[1:] if line[3] != "-"]
    assert answers
    for _, gpus, plan, times, bound, tpot, *others in answers:
        gpu, num_gpus = named(gpus)
        price, per_token, basis = others[-3:]
        prediction = rl.predict("llama-3.1-70b", gpu, isl=2000)
        assert num_gpus == prediction.deployment.num_gpus
        assert plan == f"tp{prediction.deployment.plan.tp}"
        expected = [end * 1e3 for end in (prediction.ttft, *prediction.ttft_interval)]
        assert interval(times) == pytest.approx(expected, rel=0.00501)
        assert float(tpot) == pytest.approx(prediction.tpot * 1e3, rel=0.00501)
        assert (bound, basis) == (prediction.bound["prefill"], prediction.basis_detail)
        for cell, money in (
            (price, prediction.usd_per_hour),
            (per_token, prediction.to_dict(["usd_per_m_output_tok"])["usd_per_m_output_tok"]),
        ):
            assert cell == "-" if money is None else float(cell) == pytest.approx(money, rel=0.00501)


@pytest.mark.parametrize(("question", "key"), [("ttft", "ttft_light_frac"), ("tpot", "tpot_light_frac")])
def test_at_the_hardware_limit_a_table_shows_what_is_reached_of_it_in_place_of_an_interval(question, key):
    heading, line = shown(question, *CASE, "--basis", "ideal")
    assert not [name for name in heading if "80 %" in name]
    assert heading[heading.index("reached") - 1] == f"{question.upper()} ms"
    reached = float(line[heading.index("reached")].removesuffix("%")) / 100.0
    assert reached == pytest.approx(row(question, *CASE)[key], abs=0.00501)
    assert 0.0 < reached < 1.0


@pytest.mark.parametrize(("question", "time"), [("ttft", rl.ttft), ("predict", rl.ttft), ("tpot", rl.tpot)])
def test_a_table_is_sorted_by_what_was_asked(question, time):
    of_names = [named(line[1])[0] for line in shown(question, "-m", "llama-3.1-8b", "-g", "l4,b200,h20,a100,h100")[1:]]
    assert of_names == sorted(of_names, key=lambda gpu: time("llama-3.1-8b", gpu))
    marked = [(line[0], named(line[1])) for line in shown(question, "-m", "llama-3.1-8b")[1:]]
    calibrated = [gpu for mark, (gpu, count) in marked if mark == "*" and count is not None]
    calibrated = [gpu for gpu in calibrated if rl.load_gpu(gpu).price is not None]  # others are listed below
    assert len(calibrated) > 3
    assert calibrated == sorted(calibrated, key=lambda gpu: time("llama-3.1-8b", gpu))


def test_gpus_that_answer_a_single_token_are_listed_although_they_have_no_tpot():
    found = rows("tpot", "-m", "llama-3.1-8b", "--osl", "1")
    assert sorted(line["gpu"] for line in found) == list(rl.gpus())
    assert {line["tpot_ms"] for line in found} == {None}


def test_predict_answers_a_single_case_in_sentences():
    expected = rl.predict("llama-3.1-8b", "h100-sxm", isl=2000, osl=300)
    text = answered("predict", *CASE, "--notes", env={"COLUMNS": "400"})
    assert text == f"{expected}\n"
    assert answered("predict", *CASE).split("\n  ")[0] == text.split("\n  ")[0]


@each("value, text", [
    (0.04432, "0.0443"), (44.32, "44.3"), (999.4, "999"), (2677.8, "2678"), (1e6, "1000000"), (None, "-"),
    (True, "yes"), (7, "7"), (["a", "b"], "a; b"),
])  # fmt: skip
def test_a_cell_for_people_has_three_significant_digits(value, text):
    assert cell_text(value) == text


@pytest.mark.parametrize("value", [999.5, 999.7, 999.999])
def test_a_cell_that_rounds_to_a_thousand_has_no_exponent(value):
    assert cell_text(value) == "1000"


def test_a_table_has_the_cells_of_markdown_and_below_them_what_the_marks_mean():
    case = ("ttft", "-m", "llama-3.1-8b")
    lines = answered(*case, "--format", "markdown").strip().split("\n")
    assert re.fullmatch(r"\|(:?-+:?\|)+", lines[1])
    heading, *body = cells("\n".join(lines))
    text = answered(*case, "--all", "--notes", env={"COLUMNS": "400"})
    above, titles, *table = text.strip("\n").split("\n")
    assert above == "llama-3.1-8b bf16 \u00b7 1024 in, 128 out \u00b7 1 request, idle server"
    assert re.split(r" {2,}", titles.strip()) == heading[1:]
    assert table.pop() == "* calibrated  + same generation  # servers alone  ? not timed  ~ announced"
    assert table.pop().startswith("rents over 120 days old: ")
    (rule,) = [line for line in table if line.startswith("--")]
    assert rule.startswith("-- not timed, or no rental price known ---")
    table.remove(rule)
    assert len(table) == len(body) == len(rl.gpus())
    for line, row_cells in zip(table, body, strict=True):
        assert " ".join(line.split()) == " ".join(" ".join(row_cells).split())


# --- what is refused ---------------------------------------------------------------------------


def test_a_gpu_of_the_catalog_that_cannot_run_a_case_is_a_row_with_the_reason():
    found = {line["gpu"]: line for line in rows("ttft", "-m", "llama-3.1-70b", "-q", "nvfp4", "--tp", "1")}
    assert set(found) == set(rl.gpus())
    for gpu in ("a100-sxm-80gb", "h100-sxm", "h200-sxm", "l40s"):
        line = found[gpu]
        assert list(line) == KEYS
        assert line["fits"] is None
        assert (line["ttft_ms"], line["tpot_ms"], line["knee"]) == (None, None, None)
        assert (line["model"], line["tp"], line["isl"], line["batch"]) == ("llama-3.1-70b", 1, 1024, 1)
        assert line["warnings"][0].startswith("UnsupportedPrecision: ")
        assert gpu in line["warnings"][0]
    for gpu in ("b200", "gb200-nvl72", "b300", "gb300-nvl72"):
        assert found[gpu]["fits"] is True


def test_refused_gpus_stand_below_the_others_with_dashes_and_the_reason_in_a_word():
    result = ask("ttft", "-m", "llama-3.1-405b", "--tp", "4")
    assert result.exit_code == 0
    heading, *body = shown("ttft", "-m", "llama-3.1-405b", "--tp", "4")
    times = [line[3] for line in body]
    assert "-" in times
    assert times[times.index("-") :] == ["-"] * times.count("-")
    reasons = {named(line[1])[0]: line[heading.index("bound by")] for line in body if line[3] == "-"}
    assert reasons["l40s"] == "does not fit"
    assert reasons["rubin-cpx"] == "unsupported"
    assert set(reasons.values()) <= {"does not fit", "unsupported", "refused"}
    assert f"{len(body) - 10} more: --all" in result.stdout
    (l40s,) = [line for line in rows("ttft", "-m", "llama-3.1-405b", "--tp", "4") if line["gpu"] == "l40s"]
    assert l40s["warnings"][0].startswith("DoesNotFit: llama-3.1-405b does not fit l40s at tp 4")


@each("question", QUESTIONS)
@each("output", ["table", "markdown", "csv", "json"])
def test_a_plan_that_was_asked_for_and_does_not_fit_ends_in_an_error(question, output):
    result = ask(question, "-m", "llama-3.1-405b", "-g", "h100", "--tp", "1", "-f", output)
    assert result.exit_code == 1
    assert result.stdout == ""
    assert result.stderr.startswith("Error: llama-3.1-405b does not fit h100-sxm at tp 1")


def test_a_model_that_fits_no_gpu_of_the_catalog_is_an_error():
    result = ask("ttft", "-m", "kimi-k2.5", "-q", "bf16", "--tp", "1", "--isl", "100000")
    assert result.exit_code == 1
    assert "does not fit" in result.stderr


# --- options -----------------------------------------------------------------------------------


@each("arguments, expected", [
    (("--isl", "2000"), {"isl": 2000, "osl": 128}),
    (("--input-len", "2000", "--output-len", "300"), {"isl": 2000, "osl": 300}),
    (("--workload", "1k1k"), {"isl": 1024, "osl": 1024}),
    (("--workload", "8k1k"), {"isl": 8192, "osl": 1024}),
    (("--workload", "1k8k"), {"isl": 1024, "osl": 8192}),
    (("--workload", "8K/1K"), {"isl": 8192, "osl": 1024}),
    (("--workload", "2000x300"), {"isl": 2000, "osl": 300}),
    (("--workload", "2000:300"), {"isl": 2000, "osl": 300}),
    (("--workload", "1k300"), {"isl": 1024, "osl": 300}),
    (("--workload", "1.5k1k"), {"isl": 1536, "osl": 1024}),
    (("--isl", "2000", "--prefix", "1500"), {"prefix": 1500}),
    (("--isl", "2000", "--prefix", "80%"), {"prefix": 1600}),
    (("--isl", "2000", "--prefix", "0%"), {"prefix": 0}),
    (("--isl", "2000", "--prefix", "100%"), {"prefix": 2000}),
    (("--prefix", "50%"), {"isl": 1024, "prefix": 512}),
    (("--workload", "8k1k", "--prefix", "25%"), {"prefix": 2048}),
    (("--prefix", "12.5%", "--isl", "1000"), {"prefix": 125}),
    (("-b", "16"), {"batch": 16}),
    (("--batch", "16"), {"batch": 16, "load": "burst", "concurrency": None, "request_rate": None}),
    (("-c", "16"), {"concurrency": 16, "load": "concurrency", "batch": None}),
    (("--concurrency", "16"), {"concurrency": 16}),
    (("--request-rate", "1.5"), {"request_rate": 1.5, "load": "request_rate", "batch": None}),
    (("--rate", "1.5"), {"request_rate": 1.5}),
    (("--tp", "2"), {"tp": 2, "num_gpus": 2}),
    (("--tensor_parallel_size", "2", "--kv_cache_dtype", "fp8_e4m3"), {"tp": 2, "kv_cache_dtype": "fp8"}),
    (("--weights", "auto", "--kv-cache-dtype", "auto"), {"weight_dtype": "bf16", "kv_cache_dtype": "bf16"}),
    (("--prompt-input-tokens-mean", "700", "--prompt-output-tokens-mean", "70"), {"isl": 700, "osl": 70}),
    (("--weight-dtype", "int4", "--compute-dtype", "bf16"), {"weight_dtype": "int4", "compute_dtype": "bf16"}),
    (("-c", "4", "--goodput", "time_to_first_token:300 inter_token_latency:25"), {"slo_met": True}),  # AIPerf
    (("-pp", "2"), {"pp": 2, "num_gpus": 2}),
    (("-dp", "2"), {"dp": 2, "num_gpus": 2}),
    (("--data-parallel-size", "2"), {"dp": 2}),
    (("--num-gpus", "4"), {"num_gpus": 4, "tp": 1}),
    (("--total-gpus", "4"), {"num_gpus": 4}),
    (("-q", "fp8"), {"weight_dtype": "fp8", "kv_cache_dtype": "fp8", "compute_dtype": "fp8"}),
    (("--quantization", "FP8"), {"weight_dtype": "fp8"}),
    (("--weights", "int4"), {"weight_dtype": "int4", "compute_dtype": "bf16"}),
    (("--weights", "fp16"), {"weight_dtype": "fp16"}),
    (("--weights", "fp8", "--compute", "bf16"), {"weight_dtype": "fp8", "compute_dtype": "bf16"}),
    (("--kv-cache-dtype", "fp8"), {"kv_cache_dtype": "fp8", "weight_dtype": "bf16"}),
    (("--kv-cache-dtype", "fp8_e4m3"), {"kv_cache_dtype": "fp8"}),
    (("--basis", "ideal"), {"basis": "ideal", "engine": "none"}),
    (("--engine", "trt-llm"), {"engine": "trtllm"}),
    (("--engine", "NONE"), {"engine": "none", "basis": "calibrated"}),
], ids=lambda value: " ".join(value) if isinstance(value, tuple) else "")  # fmt: skip
def test_an_option_means_what_the_parameter_means(arguments, expected):
    line = row("predict", "-m", "llama-3.1-8b", "-g", "h100-sxm", *arguments)
    assert {key: line[key] for key in expected} == expected


@pytest.mark.parametrize("options, value, parameter", [
    (("--max-num-batched-tokens", "--max-num-tokens", "--chunked-prefill-size"), 700, "max_num_batched_tokens"),
    (("--max-num-seqs", "--max-running-requests", "--max-batch-size"), 5, "max_num_seqs"),
    (("--gpu-memory-utilization", "--mem-fraction-static"), 0.25, "gpu_memory_utilization"),
])  # fmt: skip
def test_settings_of_an_engine_answer_to_the_names_that_engines_give_them(options, value, parameter):
    case = ("predict", *CASE, "--concurrency", "64", "--tp", "1")
    asked = {"isl": 2000, "osl": 300, "concurrency": 64, "tp": 1, parameter: value}
    line = rl.predict("llama-3.1-8b", "h100-sxm", **asked).to_dict()
    assert line["ttft_ms"] > 1.01 * row(*case)["ttft_ms"]
    for option in options:
        assert row(*case, option, value) == line


@pytest.mark.parametrize("option", ["--max-model-len", "--context-length", "--max-seq-len"])
def test_the_longest_request_that_is_served_bounds_lengths_alone(option):
    assert row("predict", *CASE, option, "2300") == row("predict", *CASE)
    assert "--max-model-len 2299" in ask("predict", *CASE, option, "2299").stderr


@pytest.mark.parametrize("arguments", [
    ("--model", "llama-3.1-8b", "--gpu", "h100"),
    ("--model-path", "llama-3.1-8b", "--system", "h100"),
    ("-m", "meta-llama/Llama-3.1-8B", "--hardware", "H100_SXM"),
])  # fmt: skip
def test_model_and_gpu_answer_to_the_names_of_other_tools(arguments):
    line = row("ttft", *arguments)
    assert (line["model"], line["gpu"]) == ("llama-3.1-8b", "h100-sxm")


def test_expert_parallelism_answers_to_the_name_of_other_tools():
    line = row("predict", "-m", "qwen3-30b-a3b", "-g", "h100", "--tp", "4", "--expert-parallel-size", "4")
    assert (line["tp"], line["ep"]) == (4, 4)


@pytest.mark.parametrize(
    "text", ["ttft:300,tpot:25", "ttft:300 tpot:25", "TTFT:300,TPOT:25", "tpot:25,ttft:300", "ttft:3e2,tpot:25.0"]
)
def test_limits_are_given_in_milliseconds(text):
    line = row("knee", *CASE, "--slo", text)
    expected = rl.predict("llama-3.1-8b", "h100-sxm", isl=2000, osl=300, slo={"ttft": 0.3, "tpot": 0.025})
    assert line["slo_knee"] == expected.knees.slo
    assert row("knee", *CASE, "--goodput", text)["slo_knee"] == line["slo_knee"]


@pytest.mark.parametrize("text", ["20ms", "20 ms", "20", "0.02s", "20000us"])
def test_a_round_trip_is_a_time_with_its_unit_or_milliseconds(text):
    near, far = row("ttft", *CASE), row("ttft", *CASE, "--network", text)
    assert far["ttft_ms"] - near["ttft_ms"] == pytest.approx(20.0, rel=1e-9)
    assert far["tpot_ms"] == near["tpot_ms"]


def test_a_measurement_is_given_in_milliseconds_with_what_it_was_taken_at():
    line = row("predict", *CASE, "--batch", "64", "--measured", "tpot=14.5,ttft=3000,batch=64")
    assert line["tpot_ms"] == pytest.approx(14.5, rel=1e-12)
    assert line["ttft_ms"] == pytest.approx(3000.0, rel=1e-12)
    expected = rl.predict(
        "llama-3.1-8b", "h100-sxm", isl=2000, osl=300, batch=8, measured={"tpot": 0.0145, "batch": 64.0}
    )
    assert row("predict", *CASE, "-b", "8", "--measured", "TPOT=14.5 batch=64") == expected.to_dict()


def case_commands():
    context = click.Context(cli)
    return [pytest.param(cli.get_command(context, name), id=name) for name in QUESTIONS]


@pytest.mark.parametrize("command", case_commands())
def test_what_is_left_out_keeps_the_default_of_the_api(command, monkeypatch):
    given = {}

    def predict_each_gpu(*places, **options):
        given.update(options)
        raise rl.BadInput("enough")

    monkeypatch.setattr("roofline.cli.predict.predict_each_gpu", predict_each_gpu)
    assert ask(command.name, "-m", "llama-3.1-8b").exit_code == 1
    parameters = inspect.signature(rl.predict).parameters
    assert set(given) <= set(parameters)
    for name, value in given.items():
        assert value == parameters[name].default, name


@pytest.mark.parametrize("command", case_commands())
def test_every_parameter_of_the_api_is_an_option(command):
    options = {parameter.name for parameter in command.params}
    asked = {
        name
        for name, parameter in inspect.signature(rl.predict).parameters.items()
        if parameter.kind is parameter.KEYWORD_ONLY
    }
    assert asked - options == set(TAKEN[command.name].refused)
    of_a_load = set() if command.name == "knee" else {"simulated", "seed", "requests"}
    of_the_output = {"output_format", "output", "force", "is_full", "with_notes", "explain", "case", "save", "command"}
    own = {"with_knee", "emit", "plot"} if command.name == "predict" else set()
    assert options - asked == {"words", "models", "gpus", *IN_PYTHON, *of_the_output, *of_a_load, *own}


@pytest.mark.parametrize("command", case_commands())
def test_the_defaults_in_the_help_are_those_of_the_api(command):
    text = " ".join(command.get_help(click.Context(command)).split())
    defaults = {name: parameter.default for name, parameter in inspect.signature(rl.predict).parameters.items()}
    assert defaults["batch"] is None  # where no load is given, a burst of what the help says
    defaults["batch"] = row("predict", "-m", "llama-3.1-8b", "-g", "h100-sxm")["batch"]
    for option in ("isl", "osl", "batch", "routing", "basis", "engine"):
        described = re.search(rf"--{option}\b.*?\[default: ([^\]]+)\]", text)
        assert described, option
        assert described[1] == str(defaults[option]), option


def test_specifications_of_ones_own_are_found_through_the_option_and_the_environment(tmp_path):
    content = (
        "name: tiny-gpu\naliases: [tiny]\nvendor: Acme\ngeneration: rubin\n"
        "peak:\n  bf16: {value: 100 TFLOP/s, source: s}\n"
        "memory:\n  label: {value: 40 GB, source: s}\n  usable: {value: 40 GB, source: s}\n"
        "  bandwidth: {value: 1 TB/s, source: s}\n"
        "scale_up:\n  kind: link\n  bandwidth: {value: 100 GB/s, source: s}\n  domain: {value: 2, source: s}\n"
        "sources:\n  s: {title: sheet, date: 2026-01-02}\n"
    )
    (tmp_path / "tiny.yaml").write_text(content)
    question = ("ttft", "-m", "llama-3.1-8b", "-g", "tiny")
    result = ask(*question, "--specs", tmp_path)
    assert result.exit_code == 0
    assert "\n?  1x tiny-gpu  tp1 " in result.stdout
    assert "? not timed" in result.stdout
    assert "of its generation were timed" in noted(*question, "--specs", tmp_path)
    assert answered(*question, env={"ROOFLINE_SPECS": str(tmp_path)}) == result.stdout
    assert "tiny-gpu" in answered("gpus", "--specs", tmp_path)
    assert ask(*question).exit_code == 1
    (tmp_path / "tiny.yaml").write_text(content.replace("40 GB", "40").replace("vendor: Acme\n", ""))
    result = ask(*question, "--specs", tmp_path)
    assert result.exit_code == 1
    places = re.findall(r"tiny\.yaml:(\d+): (\S+):", result.stderr)
    assert sorted(places) == [("1", "vendor"), ("7", "memory.label.value"), ("8", "memory.usable.value")]


# --- why ---------------------------------------------------------------------------------------

EXPLAINED = [
    ("-m", "llama-3.1-8b", "-g", "h100-sxm", "--isl", "2000", "--osl", "300"),
    ("-m", "llama-3.1-70b", "-g", "l40s", "--isl", "2000", "-q", "int8"),
    ("-m", "deepseek-v3", "-g", "b200", "--tp", "8", "--ep", "8", "--batch", "64"),
    ("-m", "gpt-oss-120b", "-g", "h100", "--isl", "8000", "--prefix", "50%"),
    ("-m", "llama-3.1-70b", "-g", "h200", "--tp", "4", "--pp", "2", "--batch", "8", "-q", "fp8"),
    ("-m", "llama-3.1-8b", "-g", "a100", "--basis", "ideal"),
    ("-m", "deepseek-v3", "-g", "h200", "--tp", "8", "--basis", "ideal"),
    ("-m", "qwen3-235b-a22b", "-g", "gb200", "--tp", "4", "--batch", "128"),
]


@each("case", EXPLAINED, ids=" ".join)
def test_the_kernels_sum_to_the_answer(case):
    found = document("predict", *case, "--explain")
    assert list(found) == ["schema_version", "rows", "kernels"]
    (line,) = found["rows"]
    for name, key in (("prefill", "ttft_ms"), ("decode", "tpot_ms")):
        kernels = [kernel for kernel in found["kernels"] if kernel["pass"] == name]
        assert math.fsum(kernel["total_us"] for kernel in kernels) == pytest.approx(line[key] * 1e3, rel=1e-12)
        assert math.fsum(kernel["share"] for kernel in kernels) == pytest.approx(1.0, rel=1e-12)
        for kernel in kernels:
            assert kernel["total_us"] == pytest.approx(kernel["count"] * kernel["time_us"], rel=1e-12)
            assert (kernel["model"], kernel["gpu"]) == (line["model"], line["gpu"])


UNITS = {"s": 1.0, "ms": 1e-3, "us": 1e-6, "ns": 1e-9}


def evaluated(equation):
    """Left and right side of a printed equation, worked out from its own numbers [s]."""
    left, right = equation.replace(" of the engine", "").split(" = ")
    left = re.sub(r"([\d.]+(?:e[+-]?\d+)?) (s|ms|us|ns)\b", lambda m: f"({m[1]} * {UNITS[m[2]]})", left)
    left = re.sub(r"\|\| (.+?) , (.+?) \|\|_([\d.]+|inf)", r"norm(\1, \2, \3)", left).replace(" x ", " * ")
    assert re.fullmatch(r"[\d.e+\-*/(), a-z]+", left), left

    def norm(a, b, p):
        return max(a, b) if p == math.inf else (a**p + b**p) ** (1.0 / p)

    number, unit = re.match(r"([\d.]+) (s|ms|us|ns)\b", right).groups()
    names = {"norm": norm, "max": max, "min": min, "sqrt": math.sqrt, "inf": math.inf, "__builtins__": {}}
    return eval(left, names), float(number) * UNITS[unit]


@each("case", EXPLAINED, ids=" ".join)
def test_every_printed_equation_comes_out_at_its_right_side_and_at_the_time_of_its_kernel(case):
    kernels = document("predict", *case, "--explain")["kernels"]
    assert len(kernels) >= 15
    for kernel in kernels:
        if kernel["kind"] == "host":  # which has a time and no equation
            assert kernel["equation"] == f"time of the host = {to_text(kernel['time_us'] * 1e-6, 's')}"
            continue
        left, right = evaluated(kernel["equation"])
        assert right == pytest.approx(kernel["time_us"] * 1e-6, rel=0.006, abs=1e-12), kernel["equation"]
        assert left == pytest.approx(kernel["time_us"] * 1e-6, rel=0.02, abs=2e-12), kernel[
            "equation"
        ]  # three digits a number
        if kernel["count"] > 1:
            assert kernel["equation"].endswith(f", {kernel['count']} times")


def test_the_explanation_for_people_shows_every_kernel_and_the_equation():
    text = answered("ttft", *CASE, "--explain", env={"COLUMNS": "400"})
    kernels = document("ttft", *CASE, "--explain")["kernels"]
    assert "t = t0 + || F/(eta_c P)" in text
    assert "prefill of 1 x 2000 tokens" in text
    assert "decode step" in text
    for kernel in kernels:
        assert f"  {kernel['kernel']}: {kernel['equation']}" in text
    kernels_alone = text[text.index("prefill of 1 x 2000 tokens") :]
    shares = [float(share) for share in re.findall(r" ([\d.]+)%  ", kernels_alone)]
    assert len(shares) == len(kernels)
    assert sum(shares) == pytest.approx(200.0, abs=2.0)  # two passes


def test_the_explanation_names_the_tokens_that_are_computed():
    assert "prefill of 2 x 500 tokens" in answered("ttft", *CASE, "--prefix", "1500", "-b", "2", "--explain")
    assert "prefill of 1 x 1 tokens" in answered("ttft", *CASE, "--prefix", "100%", "--explain")


def test_a_single_token_is_explained_without_a_decode_step():
    found = document("predict", "-m", "llama-3.1-8b", "-g", "h100", "--osl", "1", "--explain")
    assert {kernel["pass"] for kernel in found["kernels"]} == {"prefill"}


def test_an_explanation_of_several_cases_explains_each():
    found = document("ttft", "-m", "llama-3.1-8b", "-g", "h100", "-g", "b200", "--explain")
    assert {kernel["gpu"] for kernel in found["kernels"]} == {"h100-sxm", "b200"}


def test_an_explanation_in_markdown_has_markdown_tables():
    text = answered("ttft", *CASE, "--explain", "-f", "markdown")
    assert len(re.findall(r"^\|:?-", text, re.MULTILINE)) == 3


# --- beside the answer -------------------------------------------------------------------------


GPT_OSS = ("ttft", "-m", "gpt-oss-120b", "-g", "h100", "-g", "h100-sxm")


@pytest.mark.parametrize(
    "asked", [("--notes",), ("--notes", "--all"), ("-f", "markdown"), ("-f", "markdown", "--notes")]
)
def test_notes_go_to_stderr_and_each_is_said_once(asked):
    result = ask(*GPT_OSS, *asked)
    assert result.stderr.count("note: mxfp4 weights run weight-only on h100-sxm") == 1
    assert all(line.startswith("note: ") for line in result.stderr.splitlines())
    assert "note:" not in result.stdout


@pytest.mark.parametrize("asked", [(), ("--all",), ("-f", "table")])
def test_notes_that_are_not_printed_are_counted_below_the_table(asked):
    result = ask(*GPT_OSS, *asked)
    assert result.stderr == ""
    count = noted(*GPT_OSS).count("note: ")
    assert f"\n{count} note{'' if count == 1 else 's'}: --notes" in result.stdout


def test_that_a_name_was_read_as_another_is_no_note():
    assert "is read as" not in noted("ttft", "-m", "Meta-Llama-3.1-8B", "-g", "H100")
    assert row("ttft", "-m", "Meta-Llama-3.1-8B", "-g", "H100") == row("ttft", "-m", "llama-3.1-8b", "-g", "h100-sxm")


def test_notes_of_a_single_case_are_said_beside_its_sentences_or_counted_below_them():
    case = ("predict", "-m", "llama-3.1-8b", "-g", "b200", "--isl", "140000")
    said = noted(*case)
    assert "note: context beyond 131,072 tokens" in said
    assert "isl + osl exceeds" not in said  # a warning that the sentences have
    result = ask(*case)
    assert result.stderr == ""
    assert re.search(r"\n  warning +isl \+ osl exceeds the 131072-token context of llama-3.1-8b\n", result.stdout)
    count = said.count("note: ")
    assert result.stdout.endswith(f"\n{count} note{'' if count == 1 else 's'}: --notes\n")


@each("question", [
    ("ttft", "-c", "2"),
    ("sweep", "--osl", "10,20"),
    ("compare", "-g", "b200"),
    ("quantize",),
    ("cost",),
    ("goodput", "--slo", "ttft:30s"),
    ("goodput", "--slo", "ttft:3"),
    ("size", "--slo", "ttft:30s"),
    ("size", "--slo", "ttft:3"),
    ("curve",),
    ("solve", "--for", "batch", "--ttft", "30s"),
])  # fmt: skip
def test_requests_beyond_the_context_of_the_model_are_a_warning_on_the_first_screen(question):
    result = ask(question[0], "-m", "llama-3.1-8b", "-g", "h100", "--isl", "200k", *question[1:])
    assert "warning: isl + osl exceeds the 131072-token context of llama-3.1-8b" in result.stdout
