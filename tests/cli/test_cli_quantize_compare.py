"""The commands quantize and compare: what they print, in which format, and how they refuse."""

import math
import re

import pytest
from asking import answered, ask, cells, csv_rows, document, strict_json

from roofline.analysis.quantization import FORMATS
from roofline.api.compare import compare, quantize

CASE = ("--isl", "2000", "--osl", "300", "--batch", "16")
QUANTIZE = ("quantize", "-m", "llama-3.1-8b", "-g", "h100-sxm", *CASE)
COMPARE = ("compare", "-m", "llama-3.1-8b", "-g", "h100-sxm", "-g", "b200", *CASE)
REFUSED = ("compare", "-m", "deepseek-r1", "-g", "h100-sxm", "-g", "b200", "-g", "b300")


# --- quantize ----------------------------------------------------------------------------------


def test_quantize_lists_every_pair_of_formats_at_three_digits():
    heading, *body = cells(answered(*QUANTIZE))
    assert heading[:3] == ["weights", "KV", "compute"]
    assert [(line[0], line[1]) for line in body] == [(name, kv) for name in FORMATS for kv in ("bf16", "fp8")]
    for line, row in zip(
        body, quantize("llama-3.1-8b", "h100-sxm", isl=2000, osl=300, batch=16).to_records(), strict=True
    ):
        for name, key in (
            ("TTFT [ms]", "ttft_ms"),
            ("TPOT [ms]", "tpot_ms"),
            ("max batch", "largest_batch"),
            ("tok/s there", "output_tok_s_largest_batch"),
            ("decode x", "decode_speedup"),
        ):
            assert float(line[heading.index(name)]) == pytest.approx(row[key], rel=0.00501)


def test_quantize_says_why_below_the_table_and_more_with_explain():
    found = quantize("llama-3.1-8b", "h100-sxm", isl=2000, osl=300, batch=16)
    sentences = {(row["weight_dtype"], row["kv_dtype"]): row["why_decode"] for row in found.to_records()}
    text = answered(*QUANTIZE)
    assert sentences["int4", "bf16"] in text
    assert sentences["bf16", "fp8"] in text
    assert "kernel " not in text
    explained = answered(*QUANTIZE, "--explain")
    assert all(sentence in explained for sentence in sentences.values() if sentence != "the baseline")
    assert "fp8 weights, bf16 KV cache, decode against bf16:" in explained
    assert explained.count("gate, up") == 2 * len(sentences)


def test_notes_of_quantize_name_the_format_they_belong_to_on_stderr():
    result = ask("quantize", "-m", "llama-3.1-8b", "-g", "a100-sxm-80gb", *CASE)
    assert result.exit_code == 0
    assert "note: nvfp4: a100-sxm-80gb cannot multiply nvfp4 weights" in result.stderr
    assert "note: " not in result.stdout
    assert "--quantization" not in result.stderr  # the columns say it


def test_json_of_quantize_has_flat_rows_and_kernels_that_add_up():
    found = document(*QUANTIZE)
    assert found["rows"] == strict_json(answered(*QUANTIZE, "-f", "json"))["rows"]
    keys = set(found["rows"][0])
    assert keys >= {"ttft_ms", "tpot_ms", "output_tok_s", "knee", "weights_gb", "kv_cache_gb", "hbm_used_frac", "fits"}
    assert keys >= {"num_gpus_smallest", "largest_batch", "output_tok_s_largest_batch", "warnings"}
    assert keys >= {"prefill_speedup", "decode_speedup", "why_prefill", "why_decode"}
    for row in found["rows"]:
        assert not any(isinstance(value, dict) for value in row.values())
        mine = [
            kernel["contribution"]
            for kernel in found["kernels"]
            if (kernel["quantization"], kernel["kv_dtype"], kernel["pass"])
            == (row["quantization"], row["kv_dtype"], "decode")
        ]
        assert math.fsum(mine) == pytest.approx(row["decode_speedup"] - 1.0, abs=1e-12)


@pytest.mark.parametrize("question", [QUANTIZE, COMPARE], ids=["quantize", "compare"])
def test_csv_has_the_rows_of_the_json(question):
    header, body = csv_rows(answered(*question, "-f", "csv"))
    found = document(*question)["rows"]
    assert header == list(found[0])
    assert len(body) == len(found)


@pytest.mark.parametrize("question", [QUANTIZE, COMPARE], ids=["quantize", "compare"])
def test_markdown_is_a_table_with_sentences_below(question):
    text = answered(*question, "-f", "markdown")
    assert text.startswith("| ")
    assert "\n  " in text
    assert "decode " in text


def test_the_baseline_is_an_option():
    rows = document(*QUANTIZE, "--baseline", "fp8")["rows"]
    assert {row["baseline"] for row in rows} == {"fp8"}
    assert [row["quantization"] for row in rows if row["why_decode"] == "the baseline"] == ["fp8"]


def test_formats_with_slow_kernels_have_a_note_that_says_what_that_stands_on():
    result = ask("quantize", "-m", "gpt-oss-120b", "-g", "b200", "--workload", "8k1k", "--batch", "64")
    (note,) = [line for line in result.stderr.splitlines() if "as long" in line]
    assert note.startswith("note: int4: prefill takes ")
    assert note.endswith("(weight-only; timed on blackwell)")


@pytest.mark.parametrize(
    ("command", "absent", "present"),
    [
        ("quantize", ("--quantization", "--weights", "--kv-cache-dtype", "--compute", "--measured"), "--baseline"),
        ("compare", ("--measured",), "--quantization"),
    ],
)
def test_options_that_would_be_refused_are_not_in_the_help(command, absent, present):
    text = answered(command, "--help")
    assert not [option for option in absent if option in text]
    assert present in text


# --- compare -----------------------------------------------------------------------------------


def test_compare_lists_gpus_in_the_order_given_and_says_why():
    text = answered(*COMPARE)
    heading, first, second = cells(text)
    assert (first[0], second[0]) == ("h100-sxm", "b200")
    row = compare("llama-3.1-8b", ["h100-sxm", "b200"], isl=2000, osl=300, batch=16).to_records()[1]
    assert float(second[heading.index("decode x")]) == pytest.approx(row["decode_speedup"], rel=0.00501)
    assert first[heading.index("decode x")] == "-"
    assert f"b200 against h100-sxm:\n  prefill {row['why_prefill']}\n  decode  {row['why_decode']}\n" in text


def test_compare_says_which_tp_was_taken():
    result = ask(*COMPARE)
    assert "note: tp = 1 for all" in result.stderr
    assert "tp = " not in ask(*COMPARE, "--tp", "2").stderr


def test_explain_of_compare_lists_every_kernel_of_both_passes():
    text = answered(*COMPARE, "--explain")
    assert "b200, prefill against h100-sxm:" in text
    assert "b200, decode against h100-sxm:" in text
    assert text.count("gate, up") == 2
    heading = next(line for line in text.splitlines() if line.startswith("kernel "))
    assert heading.split()[:3] == ["kernel", "bound", "cause"]


def test_a_gpu_that_cannot_run_the_case_is_a_row_a_message_and_exit_code_1():
    result = ask(*REFUSED)
    assert result.exit_code == 1
    heading, *body = cells(result.stdout)
    assert [line[0] for line in body] == ["b200", "b300", "h100-sxm"]
    assert body[-1][heading.index("bound")] == "does not fit"
    assert "b300 against b200" in result.stdout
    assert "Error: deepseek-r1 does not fit h100-sxm" in result.stderr
    rows = strict_json(ask(*REFUSED, "-f", "json").stdout)["rows"]
    assert [row["fits"] for row in rows] == [True, True, False]
    assert len({tuple(row) for row in rows}) == 1  # the same keys
    assert rows[-1]["warnings"][0].startswith("DoesNotFit: ")


def test_json_of_compare_has_kernels_that_add_up():
    found = document(*COMPARE)
    for name in ("prefill", "decode"):
        mine = [kernel["contribution"] for kernel in found["kernels"] if kernel["pass"] == name]
        assert math.fsum(mine) == pytest.approx(found["rows"][1][f"{name}_speedup"] - 1.0, abs=1e-12)


# --- refusals ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("question", "code", "message"),
    [
        (("compare", "-m", "llama-3.1-8b", "-g", "h100-sxm"), 2, "two GPUs or more"),
        (("compare", "-m", "llama-3.1-8b"), 2, "two GPUs or more"),
        ((*COMPARE, "-m", "qwen3-32b"), 2, "one model"),
        ((*COMPARE, "--explain", "-f", "csv"), 2, "no CSV form"),
        ((*COMPARE, "-g", "h999"), 1, "no GPU named 'h999'"),
        ((*COMPARE, "-g", "b200"), 1, "named twice"),
        ((*COMPARE, "--measured", "ttft=100"), 2, "No such option"),
        ((*COMPARE, "--tp", "3"), 1, "tp = 3 does not divide"),
        (("quantize", "-m", "llama-3.1-8b"), 2, "one model and one GPU"),
        ((*QUANTIZE, "-g", "b200"), 2, "one model and one GPU"),
        ((*QUANTIZE, "--explain", "-f", "csv"), 2, "no CSV form"),
        ((*QUANTIZE, "--baseline", "fp7"), 1, "no baseline 'fp7'"),
        ((*QUANTIZE, "-q", "fp8"), 2, "No such option"),
        ((*QUANTIZE, "--batch", "9" * 30), 1, "batch = "),
        (("quantize", "-m", "llama-9", "-g", "h100-sxm"), 1, "no model named"),
        (("quantize", "-m", "llama-3.1-8b", "-g", "rubin-cpx"), 1, "no 16-bit peak"),
    ],
)
def test_what_cannot_be_asked_ends_in_one_message(question, code, message):
    result = ask(*question)
    assert result.exit_code == code
    assert message in result.stderr
    assert result.stderr.count("Error: ") == 1
    assert result.stdout == ""


@pytest.mark.parametrize("question", [QUANTIZE, COMPARE], ids=["quantize", "compare"])
def test_a_single_token_has_a_dash_for_decode(question):
    arguments = [*question, "--osl", "1"]
    heading, *body = cells(answered(*arguments))
    assert {line[heading.index("decode x")] for line in body} == {"-"}
    text = answered(*arguments)
    assert re.search(r"prefill +\d", text)
    assert not re.search(r"decode +\d", text)
