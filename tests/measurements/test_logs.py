"""What people paste: the summary of a benchmark in its log, the metrics of a server, rows with the names of a tool."""

import json
import re
from pathlib import Path

import pytest
import tiers
from cli.asking import ask
from every_case import each
from hypothesis import given, settings
from hypothesis import strategies as st

import roofline as rl
from roofline.measurements.logs import is_metrics, metrics, summaries
from roofline.measurements.results import read_results, results
from roofline.support.errors import BadInput

FOLDER = Path(__file__).parents[1] / "fixtures" / "results"
LOG, METRICS = (FOLDER / name for name in ("sglang.log", "vllm_metrics.txt"))


def only(path, statistic=None):
    (found,) = read_results(str(path), statistic).measurements
    return found


def test_the_summary_of_a_log_is_what_the_same_tool_saves():
    found = only(LOG)
    assert (found.ttft, found.tpot, found.e2el) == pytest.approx((0.08089, 0.00952, 2.49329), rel=1e-12)
    assert (found.isl, found.osl, found.concurrency, found.num_prompts) == (1024.0, 256.0, 8.0, 80.0)
    assert (found.model, found.engine) == ("meta-llama/Llama-3.1-8B-Instruct", "sglang")
    saved = {
        "backend": "sglang", "model_id": found.model, "request_rate": "inf", "max_concurrency": 8, "num_prompts": 80,
        "completed": 80, "total_input_tokens": 81920, "total_output_tokens": 20480, "request_throughput": 3.25,
        "median_ttft_ms": 80.89, "median_tpot_ms": 9.52, "median_e2e_latency_ms": 2493.29, "mean_ttft_ms": 91.59,
        "mean_tpot_ms": 9.47, "mean_e2e_latency_ms": 2443.32, "p99_ttft_ms": 224.81,
    }  # fmt: skip
    (same,) = results(json.dumps(saved).encode(), found.source).measurements
    assert same == found
    assert only(LOG, "p99").ttft == pytest.approx(0.22481, rel=1e-12)


def test_each_summary_of_a_log_is_a_run_with_the_arguments_printed_before_it():
    text = LOG.read_text()
    second = text.replace("max_concurrency=8", "max_concurrency=16").replace("concurrency:                 8", "x: 8")
    found = results((text + "\nprogress: 100%|####| 80/80\n" + second).encode(), "log").measurements
    assert [(run.source, run.concurrency) for run in found] == [("log[0]", 8.0), ("log[1]", 16.0)]


def test_vllm_says_a_rate_where_one_was_configured_and_all_at_once_where_not():
    lines = "Successful requests: 50\nTotal input tokens: 5000\nTotal generated tokens: 500\nMean TTFT (ms): 20.5\n"
    head = "============ Serving Benchmark Result ============\n"
    (rated,) = results(f"{head}{lines}Request rate configured (RPS): 2.50\n".encode(), "log").measurements
    assert (rated.request_rate, rated.concurrency, rated.ttft) == (2.5, None, 0.0205)
    (burst,) = results(f"{head}{lines}".encode(), "log").measurements
    assert (burst.request_rate, burst.concurrency, burst.num_prompts) == (None, 50.0, 50.0)


def test_metrics_between_two_snapshots_are_means_of_the_requests_in_between():
    found = only(METRICS)
    # 2,000 requests later: 210 s of TTFT, 510,000 gaps in 5,699.5 s, 5,908.5 s in all; 307,200 of 2,048,000 tokens hit.
    assert found.ttft == pytest.approx(210.0 / 2000, rel=1e-12)
    assert found.tpot == pytest.approx(5699.5 / 510_000, rel=1e-12)
    assert found.e2el == pytest.approx(5908.5 / 2000, rel=1e-12)
    assert (found.isl, found.osl, found.prefix, found.concurrency) == (1024.0, 256.0, 153.0, 16.0)
    assert (found.engine, found.model, found.statistic) == ("vllm", "meta-llama/Llama-3.1-8B-Instruct", "mean")
    first = METRICS.read_text()[: METRICS.read_text().index("# HELP", 10)]
    (alone,) = results(first.encode(), "metrics").measurements
    assert alone.ttft == pytest.approx(90.5 / 1000, rel=1e-12)
    assert "since the server started" in alone.note


def test_metrics_have_means_alone_and_say_what_they_lack():
    with pytest.raises(BadInput, match="the metrics of a server have means, not the p99"):
        read_results(str(METRICS), "p99")
    idle = METRICS.read_text().replace("} 16.0", "} 0.0")
    (found,) = results(idle.encode(), "metrics").measurements
    assert found.concurrency is None


def test_rows_may_have_the_column_names_of_a_tool():
    text = (
        "model,gpu,tp,isl,osl,max_concurrency,median_ttft_ms,median_tpot_ms\nllama-3.1-8b,h100,1,1000,200,8,80.9,9.5\n"
    )
    (found,) = results(text.encode(), "rows").measurements
    assert (found.ttft, found.tpot) == pytest.approx((0.0809, 0.0095), rel=1e-12)
    assert (found.isl, found.osl, found.concurrency, found.gpu, found.tp) == (1000.0, 200.0, 8.0, "h100", 1)


def test_what_sglang_states_of_its_server_is_used():
    server = {"model_path": "x", "tp_size": 2, "version": "0.5.9", "kv_cache_dtype": "fp8_e4m3"}
    document = {"backend": "sglang", "server_info": server, "max_concurrency": 4, "median_ttft_ms": 30.0}
    (found,) = results(json.dumps(document).encode(), "result").measurements
    assert (found.tp, found.engine_version, found.kv_cache_dtype) == (2, "0.5.9", "fp8")


def test_trtllm_bench_states_its_server_and_its_statistics():
    found = only(FOLDER / "trtllm_bench.json")
    assert (found.ttft, found.tpot, found.e2el) == pytest.approx((0.084, 0.00802, 2.14), rel=1e-12)
    assert (found.isl, found.osl, found.concurrency, found.num_prompts, found.tp) == (1024.0, 256.0, 63.2, 640.0, 1)
    assert (found.engine, found.engine_version, found.quantization, found.kv_cache_dtype) == (
        "trtllm", "1.2.1", "fp8_static", "fp8",
    )  # fmt: skip
    mean = only(FOLDER / "trtllm_bench.json", "mean")
    assert (mean.ttft, mean.tpot, mean.e2el) == pytest.approx((0.092, 0.00807, 2.15), rel=1e-12)
    document = json.loads((FOLDER / "trtllm_bench.json").read_text())
    (fault,) = results(json.dumps({**document, "streaming_metrics": None}).encode(), "result").faults
    assert "measure with streaming" in str(fault)


def test_llama_bench_has_a_prompt_or_an_answer_of_one_sequence_a_row():
    prompt, answer = read_results(str(FOLDER / "llama_bench.json")).measurements
    assert (prompt.ttft, prompt.tpot, prompt.isl, prompt.osl) == (512 / 11130.0, None, 512.0, 1.0)
    assert (answer.ttft, answer.tpot, answer.isl, answer.osl) == (None, 1 / 132.0, 1024.0, 129.0)
    for row in (prompt, answer):
        assert (row.model, row.gpu, row.quantization, row.batch, row.tp) == (
            "Llama-3.1-8B-Instruct", "NVIDIA GeForce RTX 4090", "int4", 1.0, 1,
        )  # fmt: skip
        assert "Q4_K_M read as int4" in row.note
    both = {"n_prompt": 512, "n_gen": 128, "avg_ts": 100.0}
    (fault,) = results(json.dumps(both).encode(), "result").faults
    assert "a prompt (-p) or an answer (-n) alone" in str(fault)


@each(
    "file, name, form",
    [
        ("Qwen3-8B-Q8_0.gguf", "Qwen3-8B", "int8"),
        ("C:\\models\\Qwen3-8B-BF16.gguf", "Qwen3-8B", None),
        ("Meta-Llama-3.1-8B-Instruct-IQ4_XS.gguf", "Meta-Llama-3.1-8B-Instruct", "int4"),
        ("gpt-oss-20b-UD-Q4_K_XL.gguf", "gpt-oss-20b", "int4"),
        ("plain.gguf", "plain", None),
    ],
)
def test_the_name_of_a_gguf_file_tells_model_and_format(file, name, form):
    row = {"n_prompt": 512, "n_gen": 0, "avg_ts": 100.0, "model_filename": file}
    (found,) = results(json.dumps(row).encode(), "result").measurements
    assert (found.model, found.quantization) == (name, form)


@settings(deadline=None, max_examples=tiers.times(15, 60))
@given(st.text(max_size=300))
def test_no_text_behind_a_summary_or_a_metric_ends_in_anything_but_an_answer(text):
    for head in ("=== Serving Benchmark Result ===\n", "Namespace(", 'vllm:num_requests_running{a="b"} 1\n'):
        try:
            results((head + text).encode("utf-8", "replace"), "x")
        except BadInput as error:
            assert str(error).startswith("x")


def test_a_large_log_is_read_in_no_time_and_cannot_make_the_reader_crawl():
    hostile = "=" * 1_000_000 + "A" * 50_000 + ": " * 20_000 + "\n" + "Namespace(" * 100_000
    assert summaries(hostile) == []
    (found,) = summaries(f"{hostile}\n= Serving Benchmark Result =\nA: x{' ' * 1_000_000}y\nMean TTFT (ms): 5\n")
    assert found == {"request_rate": "inf", "mean_ttft_ms": 5.0}
    assert not is_metrics("vllm:" + "a" * 100_000)
    assert metrics("sglang:" + "a_" * 50_000 + " 1\n")["engine"] == "sglang"


# --- a limit for nightly jobs --------------------------------------------------------------------

SLOW = ["check", LOG, "-g", "h100", "--tp", 1]


def test_a_time_slower_than_allowed_ends_with_a_code_of_its_own():
    (run,) = rl.check(str(LOG), gpu="h100", tp=1)
    over = run.ratio("tpot") - 1.0
    assert over > 0.05
    within = ask(*SLOW, "--fail-above", f"tpot:+{100 * over + 0.01:.4f}%")
    beyond = ask(*SLOW, "--fail-above", f"ttft:10%,tpot:+{100 * over - 0.01:.4f}%")
    assert (within.exit_code, within.stderr.count("slower")) == (0, 0)
    assert beyond.exit_code == 3
    assert "slower than allowed: " in beyond.stderr
    assert re.search(r"sglang.log: TPOT \+\d+\.\d% > \+\d+\.\d%", beyond.stderr)
    assert beyond.stdout == within.stdout


@each("limits", ["ttft", "itl:5%", "ttft:5", "ttft:-5%", "", "ttft:5%;tpot:5%"])
def test_limits_that_say_nothing_are_refused(limits):
    refused = ask(*SLOW, "--fail-above", limits)
    assert refused.exit_code == 2
    assert "must be like ttft:+10%" in refused.stderr
