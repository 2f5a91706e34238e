"""Result files of benchmark tools: every tool's own keys and units become the same record."""

import json
from pathlib import Path

import pytest
from every_case import each

from roofline.measurements.results import CSV_COLUMNS, RESULT_FORMATS, check_complete, override, read_results, results
from roofline.specs.workload import Measurement
from roofline.support.errors import BadInput

FOLDER = Path(__file__).parents[1] / "fixtures" / "results"
FILES = sorted(path.name for path in FOLDER.iterdir() if path.suffix in (".json", ".jsonl", ".csv"))
JSON_FILES = [name for name in FILES if name.endswith(".json")]


def read(name, statistic=None):
    """Measurements of a fixture, all of which must be readable."""
    reading = read_results(str(FOLDER / name), statistic)
    assert reading.faults == ()
    return reading.measurements


def loaded(name):
    return json.loads((FOLDER / name).read_text())


def of(document, statistic=None):
    """The one measurement of a document."""
    reading = results(json.dumps(document).encode(), "result", statistic)
    assert reading.faults == ()
    (only,) = reading.measurements
    return only


def refused(document):
    """Message of the one fault of a document without a measurement."""
    data = document if isinstance(document, bytes) else json.dumps(document).encode()
    try:
        reading = results(data, "result")
    except BadInput as error:
        return str(error)
    assert reading.measurements == ()
    (fault,) = reading.faults
    return str(fault)


def ms(measurement):
    """Times in milliseconds, rounded to a nanosecond; None stays."""
    times = (measurement.ttft, measurement.tpot, measurement.e2el)
    return tuple(None if time is None else round(time * 1e3, 6) for time in times)


def test_vllm_states_milliseconds_totals_and_what_its_user_adds():
    (found,) = read("vllm.json")
    assert ms(found) == (120.0, 9.5, None)
    assert found.statistic == "median"
    assert (found.isl, found.osl) == (400000 / 200, 60000 / 200)
    assert (found.concurrency, found.batch, found.request_rate, found.num_prompts) == (16.0, None, None, 200.0)
    assert (found.model, found.engine, found.engine_version) == ("meta-llama/Llama-3.1-8B-Instruct", "vllm", "0.24.0")
    assert (found.gpu, found.tp, found.pp) == ("h100-sxm", 1, None)
    assert found.date == "2026-11-15"
    assert found.note is None


def test_the_statistic_that_is_asked_for_is_taken_else_the_median_else_the_mean():
    for statistic, expected in [("mean", (130.0, 9.6)), ("median", (120.0, 9.5)), ("p99", (243.3, 11.2))]:
        (found,) = read("vllm.json", statistic)
        assert ms(found)[:2] == expected
        assert found.statistic == statistic
    found = of({"mean_ttft_ms": 10.0, "p99_ttft_ms": 30.0, "mean_tpot_ms": 2.0})
    assert (found.statistic, ms(found)) == ("mean", (10.0, 2.0, None))
    assert [found.source[-2:] for found in read("passes.csv", "mean")] == [":6"]
    with pytest.raises(BadInput, match="no row has statistic p99"):
        read_results(str(FOLDER / "passes.csv"), "p99")
    with pytest.raises(BadInput, match="unknown statistic 'p90'; choose from median, mean, p99"):
        results(b"{}", "x", "p90")
    (fault,) = results(b'{"mean_ttft_ms": 5.0}', "x", "p99").faults
    assert "the result has neither ttft nor tpot (p99)" in str(fault)


def test_answered_rates_are_read_where_they_are_stated():
    for name, rate in [("vllm.json", 5.14), ("aiperf.json", 5.23)]:
        assert read_results(str(FOLDER / name)).measurements[0].answered_rate == rate
    row = "model,gpu,tp,isl,osl,concurrency,answered_rate,ttft_ms\nllama-3.1-8b,h100-sxm,1,100,10,4,"
    assert results(f"{row}2.5,9\n".encode(), "x").measurements[0].answered_rate == 2.5
    assert results(f"{row}0,9\n".encode(), "x").measurements[0].answered_rate is None


def test_loads_are_bursts_rates_or_users_and_failures_are_said():
    burst = of({**loaded("vllm.json"), "max_concurrency": None})
    assert (burst.batch, burst.concurrency, burst.num_prompts, burst.request_rate) == (None, 200.0, 200.0, None)
    assert "all 200 requests were sent at once" in burst.note
    rate = of({**loaded("vllm.json"), "max_concurrency": None, "request_rate": 4.0})
    assert (rate.batch, rate.concurrency, rate.num_prompts, rate.request_rate) == (None, None, None, 4.0)
    both = of({**loaded("vllm.json"), "request_rate": 4.0})
    assert (both.concurrency, both.request_rate) == (16.0, 4.0)
    assert "at most 16" in both.note
    assert of({**loaded("vllm.json"), "failed": 3}).note == "failed requests, not counted: 3"
    assert of({**loaded("vllm.json"), "max_concurrency": 500}).concurrency == 200.0
    one = {**loaded("vllm.json"), "total_output_tokens": 200, "median_tpot_ms": 0.0}
    assert of(one).tpot is None
    assert "tpot = 0 ms must be positive" in refused({**loaded("vllm.json"), "median_tpot_ms": 0.0})


def test_sglang_runs_are_lines_and_count_all_gpus_in_tp():
    rate, loop = read("sglang.jsonl")
    assert ms(rate) == (90.0, 10.8, 2800.0)
    assert (rate.isl, rate.osl, rate.engine, rate.model) == (1020.0, 255.0, "sglang", None)
    assert (rate.concurrency, rate.request_rate) == (11.5, 4.0)
    assert "11.5 requests were in flight on average" in rate.note
    assert (loop.model, loop.tp, loop.dp, loop.ep) == ("deepseek-ai/DeepSeek-R1-0528", 1, 8, 8)
    assert (loop.concurrency, loop.request_rate) == (8.0, None)
    assert "speculative decoding (2.4 tokens a step)" in loop.note
    assert rate.source.endswith("sglang.jsonl[0]")


def test_aiperf_and_genai_perf_are_read_in_the_unit_that_they_state():
    (found,) = read("aiperf.json")
    assert ms(found) == (120.5, 13.25, 2189.7)
    assert (found.isl, found.osl, found.concurrency) == (367.3, 198.8, 16.0)
    assert (found.model, found.gpu, found.date) == ("Qwen/Qwen3-32B", "NVIDIA H100 80GB HBM3", "2026-07-03")
    assert ms(read("aiperf.json", "mean")[0]) == (119.1, 13.05, 2695.1)
    assert ms(read("aiperf.json", "p99")[0]) == (254.5, 30.3, 9533.2)
    document = loaded("aiperf.json")
    gpus = document["telemetry_data"]["endpoints"]["localhost:9401"]["gpus"]
    gpus["gpu_1"] = {"gpu_name": "NVIDIA H200"}
    assert of(document).gpu is None
    (found,) = read("genai_perf.json")
    assert ms(found) == (195.9, 8.7, 4355.9)
    assert (found.model, found.concurrency) == ("meta-llama/Llama-3.1-8B-Instruct", 100.0)
    for unit, factor in [("ms", 1.0), ("sec", 1e3), ("us", 1e-3), ("ns", 1e-6)]:
        found = of({"time_to_first_token": {"unit": unit, "p50": 7.0}})
        assert found.ttft * 1e3 == pytest.approx(7.0 * factor, rel=1e-12)
    assert "unit = 'ticks'" in refused({"time_to_first_token": {"unit": "ticks", "p50": 7.0}})


@each(
    ("config", "model", "concurrency", "rate"),
    [
        ({"endpoint": {"model_names": ["m"]}, "loadgen": {"concurrency": 4}}, "m", 4.0, None),
        ({"endpoint": {"model_names": ["m", "n"]}, "loadgen": {"request_rate": 2.5}}, None, None, 2.5),
        ({"model": ["m"], "concurrency": 2, "request_rate": None}, "m", 2.0, None),
        ({"model_names": ["m"], "perf_analyzer": {"stimulus": {"request_rate": 3}}, "concurrency": ""}, "m", None, 3.0),
        ({"models": {"items": [{"name": "m"}]}, "phases": [{"type": "poisson", "rate": 1.0}]}, "m", None, 1.0),
        ({}, None, None, None),
    ],
)
def test_every_form_of_the_configuration_of_aiperf_and_genai_perf_is_read(config, model, concurrency, rate):
    found = of({**loaded("aiperf.json"), "input_config": config})
    assert (found.model, found.concurrency, found.request_rate) == (model, concurrency, rate)


def test_guidellm_of_any_version_is_read_and_what_has_no_answers_spoils_nothing():
    closed, open_loop = read("guidellm.json")
    assert ms(closed) == (60.0, 9.2, 2400.0)
    assert (closed.model, closed.concurrency, closed.request_rate) == ("Qwen/Qwen3-8B", 8.0, None)
    assert (closed.isl, closed.osl) == (1000.0, 256.0)
    assert (open_loop.model, open_loop.concurrency, open_loop.request_rate) == (None, 4.7, 2.0)
    assert ms(read("guidellm.json", "p99")[0])[:2] == (90.0, 11.0)
    run = loaded("guidellm.json")["benchmarks"][0]
    config = run.pop("config")
    old = {**run, "args": {"strategy": config["strategy"]}, "worker": {"backend_model": "Qwen/Qwen3-8B"}}
    found = of({"benchmarks": [old]})
    assert (found.model, found.concurrency, ms(found)[0]) == ("Qwen/Qwen3-8B", 8.0, 60.0)
    document = loaded("guidellm.json")
    for metric in ("time_to_first_token_ms", "inter_token_latency_ms"):
        document["benchmarks"][1]["metrics"][metric]["successful"].update(count=0, mean=0.0, median=0.0)
    reading = results(json.dumps(document).encode(), "runs.json")
    assert [found.concurrency for found in reading.measurements] == [8.0]
    (fault,) = reading.faults
    assert "benchmarks[1] has neither ttft nor tpot" in str(fault)


def test_inferencex_is_in_seconds_and_its_lengths_are_nominal():
    plain, shared, split = read("inferencex.json")
    assert ms(plain) == (400.0, 30.0, 28400.0)
    assert plain.isl == pytest.approx(0.9 * 1024)
    assert (plain.gpu, plain.model, plain.concurrency) == ("h200", "deepseek-ai/DeepSeek-R1-0528", 64.0)
    assert plain.num_prompts == 10 * 64  # of its scripts, which the file does not say
    assert (plain.engine, plain.engine_version) == ("sglang", "v0.5.5-cu129")
    assert (plain.tp, plain.dp, plain.ep) == (8, 1, 1)
    assert "isl and osl are 0.9 of nominal" in plain.note
    assert (shared.gpu, shared.tp, shared.dp, shared.ep) == ("b200", 1, 8, 8)
    assert "speculative decoding (mtp)" in shared.note
    assert split.tp is None
    assert "prefill tp 4, decode tp 16" in split.note
    assert of(loaded("inferencex.json")[0]).tp == 8


def test_our_csv_has_a_case_a_row():
    first, second, third = read("passes.csv")
    assert ms(first) == (28.5, 7.2, None)
    assert (first.gpu, first.model, first.tp, first.pp) == ("h100-sxm", "llama-3.1-8b", 1, None)
    assert (first.batch, first.concurrency, first.quantization) == (1.0, None, None)
    assert (ms(second), second.quantization) == ((410.0, 9.1, 1570.0), "fp8")
    assert second.note == "bench_one_batch; warm, second run"
    assert second.source.endswith("passes.csv:4")
    assert (third.concurrency, third.prefix, third.kv_cache_dtype, third.ttft) == (64.0, 1000.0, "fp8", None)
    assert third.source.endswith("passes.csv:6")
    assert set(CSV_COLUMNS.values()) == set(Measurement.__dataclass_fields__) - {
        "burst",  # which loads of tools alone have
        "settings", "has_equal_lengths", "is_queue", "max_num_seqs", "max_num_batched_tokens", "ttft_mean", "tpot_mean",
        "e2el_mean", "ttft_median",
    }  # fmt: skip


def rewritten(data):
    return [b"\xef\xbb\xbf" + data, data.replace(b"\n", b"\r\n"), b"\n \n" + data + b"\n\n"]


def test_names_marks_line_ends_and_blank_lines_do_not_matter(tmp_path):
    for name in FILES:
        data = (FOLDER / name).read_bytes()
        plain = results(data, name)
        for other in rewritten(data)[:2]:
            assert results(other, name) == plain
        assert len(results(rewritten(data)[2], name).measurements) == len(plain.measurements)
    for name in FILES:
        other = tmp_path / "anything.bin"
        other.write_bytes((FOLDER / name).read_bytes())
        assert [ms(found) for found in read_results(str(other)).measurements] == [ms(found) for found in read(name)]


def test_names_keys_that_nobody_knows_and_appended_runs_do_not_matter():
    for name in JSON_FILES:
        document = loaded(name)
        for part in document if isinstance(document, list) else [document]:
            part.update({"new_key": {"deep": [1, None]}, "other": "text", "nothing": None})
        reading = results(json.dumps(document).encode(), name)
        assert [ms(found) for found in reading.measurements] == [ms(found) for found in read(name)]
    text = (FOLDER / "vllm.json").read_text().strip()
    for between in ("", "\n", "\n\n"):
        found = results(f"{text}{between}{text}".encode(), "appended").measurements
        assert [measurement.source for measurement in found] == ["appended[0]", "appended[1]"]


@each(
    ("change", "words"),
    [
        ({"median_ttft_ms": "120"}, ("median_ttft_ms = '120'", "must be a number, not text")),
        ({"median_ttft_ms": True}, ("median_ttft_ms = True must be a number",)),
        ({"median_ttft_ms": float("nan")}, ("median_ttft_ms = nan must be finite",)),
        ({"median_ttft_ms": float("inf")}, ("median_ttft_ms = inf must be finite",)),
        ({"median_ttft_ms": -1.0}, ("median_ttft_ms = -1.0 must not be negative",)),
        ({"median_ttft_ms": 0.0}, ("ttft = 0 ms must be positive",)),
        ({"completed": 0}, ("completed = 0", "no request succeeded")),
        ({"request_rate": "fast"}, ("request_rate = 'fast' must be a number, not text",)),
        ({"tensor_parallel_size": "1.5"}, ("tensor_parallel_size = '1.5' must be a whole number",)),
        ({"total_input_tokens": 100}, ("isl = 0.5 must be at least 1",)),
        ({"max_concurrency": 0}, ("concurrency = 0 must be positive",)),
        ({"num_prompts": -1}, ("num_prompts = -1 must not be negative",)),
    ],
)
def test_a_figure_that_cannot_be_is_refused_by_its_key(change, words):
    message = refused({**loaded("vllm.json"), **change})
    for word in ("result", *words):
        assert word in message


def test_an_unknown_format_names_those_that_are_known_and_what_was_looked_for():
    message = refused({"latency": 3.0, "model": "m"})
    assert "its keys: latency, model" in message
    for known in RESULT_FORMATS:
        assert known.name in message
        assert known.keys in message
    assert "CSV" in message
    assert "empty" in refused({})
    assert "(3)" in refused([3])
    assert "a list in a list" in refused([[]])


def test_what_is_said_overrides_the_file_and_what_is_missing_is_named_at_once():
    (found,) = read("vllm.json")
    said = override(found, gpu="b200", tp=2, isl=None, model=None)
    assert (said.gpu, said.tp, said.isl, said.model) == ("b200", 2, found.isl, found.model)
    assert override(found) == found
    first, _ = read("sglang.jsonl")
    said = override(first, batch=3.0)
    assert (said.batch, said.concurrency, said.request_rate) == (3.0, None, None)
    with pytest.raises(BadInput, match="batch and concurrency are given"):
        override(first, batch=3.0, concurrency=2.0)
    for options in [{"tp": 0}, {"concurrency": -1.0}, {"isl": 0.0}, {"batch": float("nan")}]:
        with pytest.raises(BadInput, match=next(iter(options))):
            override(read("vllm.json")[0], **options)
    bare = of({"mean_ttft_ms": 5.0, "mean_tpot_ms": 1.0})
    with pytest.raises(BadInput) as caught:
        check_complete(bare)
    assert str(caught.value) == (
        "result: the result states no model, no GPU, no tp, no isl, no osl and no load: "
        "give model, gpu, tp, isl, osl and concurrency, request_rate or batch"
    )
    with pytest.raises(BadInput, match=r"states no GPU: give gpu$"):
        check_complete(Measurement("f", model="m", tp=1, isl=5.0, batch=1.0, ttft=1.0))
    check_complete(read("vllm.json")[0])
