"""The commands quantize and compare: what they print, in which format, and how they refuse."""

import math
import re

import pytest
from asking import answered, ask, cells, csv_rows, document, noted, shown, strict_json
from every_case import each

from roofline.questions.compare import FORMATS, compare, quantize

CASE = ("--isl", "2000", "--osl", "300", "--batch", "16")
QUANTIZE = ("quantize", "-m", "llama-3.1-8b", "-g", "h100-sxm", *CASE)
COMPARE = ("compare", "-m", "llama-3.1-8b", "-g", "h100-sxm", "-g", "b200", *CASE)
REFUSED = ("compare", "-m", "deepseek-r1", "-g", "h100-sxm", "-g", "b200", "-g", "b300")


# --- quantize ----------------------------------------------------------------------------------


def test_quantize_lists_every_pair_of_formats_at_three_digits():
    heading, *body = shown(*QUANTIZE)
    assert heading[:4] == ["", "weights", "KV", "compute"]
    assert [(line[1], line[2]) for line in body] == [(name, kv) for kv in ("bf16", "fp8") for name in FORMATS]
    records = {
        (row["weight_dtype"], row["kv_cache_dtype"]): row
        for row in quantize("llama-3.1-8b", "h100-sxm", isl=2000, osl=300, batch=16).to_records()
    }
    for line in body:
        row = records[line[1], line[2]]
        assert line[0] == {"calibrated": "*", "inherited": "+", "generic": "?"}[row["basis"]]
        for name, key in (
            ("TTFT ms", "ttft_ms"),
            ("TPOT ms", "tpot_ms"),
            ("GB", "weights_gb"),
            ("max batch", "largest_batch"),
            ("tok/s at max", "output_tok_s_largest_batch"),
        ):
            assert float(line[heading.index(name)]) == pytest.approx(row[key], rel=0.00501)
        assert line[heading.index("decode")] == f"{row['decode_speedup']:.2f}x"
        assert line[heading.index("kernels")] == ("assumed" if row["assumed"] else "-")
    assert {bool(row["assumed"]) for row in records.values()} == {True, False}


def test_quantize_says_why_below_the_table_with_explain():
    found = quantize("llama-3.1-8b", "h100-sxm", isl=2000, osl=300, batch=16)
    sentences = {(row["weight_dtype"], row["kv_cache_dtype"]): row["why_decode"] for row in found.to_records()}
    text = answered(*QUANTIZE)
    assert "\nwhy: --explain\n" in text
    assert "kernel " not in text
    explained = answered(*QUANTIZE, "--explain", env={"COLUMNS": "1000"})
    assert all(sentence in explained for sentence in sentences.values() if sentence != "the baseline")
    assert "fp8 weights, bf16 KV cache, decode against bf16:" in explained
    assert explained.count("gate, up") == 2 * len(sentences)


def test_notes_of_quantize_name_the_format_they_belong_to():
    said = noted("quantize", "-m", "llama-3.1-8b", "-g", "a100-sxm-80gb", *CASE)
    for name in ("fp8", "fp8_static", "nvfp4"):
        assert f"note: {name}: a100-sxm-80gb has no tensor cores for {name}: weight-only, at the bf16 peak" in said
    assert "--quantization" not in said  # the columns say it


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
            if (kernel["quantization"], kernel["kv_cache_dtype"], kernel["pass"])
            == (row["quantization"], row["kv_cache_dtype"], "decode")
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
    text = answered(*question, "-f", "markdown", *(["--explain"] if question is QUANTIZE else []))
    assert text.startswith("| ")
    table, below = text[: text.index("\n", text.rindex("\n| ", 0, text.index("decode 1.")))], text
    assert "decode 1." not in table
    assert re.search(r"^[^|\n].*decode 1\.\d", below, re.MULTILINE)


def test_the_baseline_is_an_option():
    rows = document(*QUANTIZE, "--baseline", "fp8")["rows"]
    assert {row["baseline"] for row in rows} == {"fp8"}
    assert [row["quantization"] for row in rows if row["why_decode"] == "the baseline"] == ["fp8"]


def test_formats_with_slow_kernels_have_a_note_that_says_what_that_stands_on():
    said = noted("quantize", "-m", "gpt-oss-120b", "-g", "b200", "--workload", "8k1k", "--batch", "64")
    (note,) = [line for line in said.splitlines() if "weight-only; timed on blackwell" in line]
    assert note.startswith("note: int4: prefill ")


@pytest.mark.parametrize("command, absent, present", [
    ("quantize", ("--quantization", "--weights", "--kv-cache-dtype", "--compute", "--measured"), "--baseline"),
    ("compare", ("--measured",), "--quantization"),
])  # fmt: skip
def test_options_that_would_be_refused_are_not_in_the_help(command, absent, present):
    text = answered(command, "--help")
    assert not [option for option in absent if option in text]
    assert present in text


# --- compare -----------------------------------------------------------------------------------


def test_compare_lists_gpus_in_the_order_given_and_says_why():
    heading, first, second = shown(*COMPARE)
    assert (first[1], second[1]) == ("1x h100-sxm", "1x b200")
    row = compare("llama-3.1-8b", ["h100-sxm", "b200"], isl=2000, osl=300, batch=16).to_records()[1]
    assert second[heading.index("decode")] == f"{row['decode_speedup']:.2f}x"
    assert first[heading.index("decode")] == "-"
    text = answered(*COMPARE, env={"COLUMNS": "1000"})
    assert "speed-ups over 1x h100-sxm" in text.split("\n")[0]
    assert f"\nb200 prefill {row['why_prefill']}\nb200 decode {row['why_decode']}\n" in text
    assert f"b200 decode {row['why_decode']}" in " ".join(answered(*COMPARE).split())


def test_compare_says_which_tp_was_taken():
    assert "note: tp = 1 for all" in noted(*COMPARE)
    assert "tp = " not in noted(*COMPARE, "--tp", "2")
    assert [line[2] for line in shown(*COMPARE, "--tp", "2")] == ["plan", "tp2", "tp2"]


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
    assert re.search(r"^ +h100-sxm .* does not fit( +-)*$", result.stdout, re.MULTILINE)
    heading, *body = cells(ask(*REFUSED, "-f", "markdown").stdout)
    assert [line[1].rpartition("x ")[2] for line in body] == ["b200", "b300", "h100-sxm"]
    assert body[-1][heading.index("bound by")] == "does not fit"
    assert "\nb300 decode 1." in result.stdout
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


@each("question, code, message", [
    (("compare", "-m", "llama-3.1-8b", "-g", "h100-sxm"), 2, "two GPUs or more"),
    (("compare", "-m", "llama-3.1-8b"), 2, "two GPUs or more"),
    ((*COMPARE, "-m", "qwen3-32b"), 2, "one model"),
    ((*COMPARE, "--explain", "-f", "csv"), 2, "no CSV form"),
    ((*COMPARE, "-g", "h999"), 1, "GPU 'h999'; did you mean"),
    ((*COMPARE, "-g", "b200"), 1, "named twice"),
    ((*COMPARE, "--measured", "ttft=100"), 2, "compare takes no --measured"),
    ((*COMPARE, "--tp", "3"), 1, "tp = 3 does not divide"),
    (("quantize", "-m", "llama-3.1-8b"), 2, "one model and one GPU"),
    ((*QUANTIZE, "-g", "b200"), 2, "one model and one GPU"),
    ((*QUANTIZE, "--explain", "-f", "csv"), 2, "no CSV form"),
    ((*QUANTIZE, "--baseline", "fp7"), 1, "baseline 'fp7'; choose from bf16"),
    ((*QUANTIZE, "-q", "fp8"), 2, "quantize takes no -q: it compares all formats"),
    ((*QUANTIZE, "--batch", "9" * 30), 1, "batch = "),
    (("quantize", "-m", "llama-9", "-g", "h100-sxm"), 1, "model 'llama-9'; did you mean"),
    (("quantize", "-m", "llama-3.1-8b", "-g", "rubin-cpx"), 1, "no 16-bit peak"),
])  # fmt: skip
def test_what_cannot_be_asked_ends_in_one_message(question, code, message):
    result = ask(*question)
    assert result.exit_code == code
    assert message in result.stderr
    assert result.stderr.count("Error: ") == 1
    assert result.stdout == ""


@pytest.mark.parametrize("question", [QUANTIZE, COMPARE], ids=["quantize", "compare"])
def test_a_single_token_has_no_column_of_decode(question):
    arguments = [*question, "--osl", "1"]
    heading = shown(*arguments)[0]
    assert "decode" not in heading  # a column of dashes says nothing
    assert "prefill" in heading
    assert not [name for name in heading if name.startswith("TPOT")]
    text = answered(*arguments, "--explain")
    assert re.search(r"prefill +(takes +)?\d", text)
    assert not re.search(r"decode +\d", text)
