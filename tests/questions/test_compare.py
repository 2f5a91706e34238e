"""GPUs side by side: one plan for all, ratios, sentences whose figures add up, refusals without losing the rest."""

import math
import re
from dataclasses import replace

import numpy as np
import pytest
from cli.asking import answered, document, noted, shown, strict_json
from every_case import each

import roofline as rl
from roofline.questions.compare import FORMATS, compare, quantize
from roofline.serving.comparison import why_faster

CASE = {"isl": 2000, "osl": 300, "batch": 16}
SEVERAL = ("h100-sxm", "b200", "b300", "a100-sxm-80gb", "mi300x")


def figures(sentence):
    """Speed-up of a sentence, and the sum of the gains and losses it names."""
    speedup, _, said = sentence.partition("x: ")
    clauses = said.partition("; ")[0].split(", ")
    total = 0.0
    for clause in clauses:
        number = float(re.match(r"\d+(\.\d+)?", clause)[0]) if clause[0].isdigit() else 0.0
        is_loss = " lost " in clause or " to " in clause
        total += -number if is_loss else number
    return float(speedup), total


@each("basis", ["ideal", "calibrated"])
@each("model", ["llama-3.1-70b", "gpt-oss-120b", "qwen3-next-80b-a3b"])
def test_the_figures_of_a_sentence_add_up_to_its_speedup(model, basis):
    rows = compare(model, SEVERAL, basis=basis, allow_oversize=True, **CASE).to_records()
    assert len(rows) == len(SEVERAL)
    for row in rows[1:]:
        for name in ("prefill", "decode"):
            speedup, total = figures(row[f"why_{name}"])
            assert speedup == pytest.approx(row[f"{name}_speedup"], rel=0.00501, abs=0.00501)
            assert total == pytest.approx(speedup - 1.0, abs=1e-9), row[f"why_{name}"]


@each("basis", ["ideal", "calibrated"])
@each("model", ["llama-3.1-70b", "gpt-oss-120b", "deepseek-r1"])
def test_the_kernels_of_the_answer_add_up_to_its_ratios(model, basis):
    found = compare(model, ("gb200-nvl72", "mi300x", "l40s"), tp=8, basis=basis, allow_oversize=True, **CASE)
    kernels = found.kernel_records()
    for row in found.to_records()[1:]:
        for name in ("prefill", "decode"):
            mine = [entry["contribution"] for entry in kernels if (entry["gpu"], entry["pass"]) == (row["gpu"], name)]
            assert math.fsum(mine) == pytest.approx(row[f"{name}_speedup"] - 1.0, abs=1e-12)


def test_ratios_are_those_of_the_latencies():
    first, second = compare("llama-3.1-8b", ["h100-sxm", "b200"], **CASE).to_records()
    assert second["prefill_speedup"] == pytest.approx(first["ttft_ms"] / second["ttft_ms"], rel=1e-12)
    assert second["decode_speedup"] == pytest.approx(first["tpot_ms"] / second["tpot_ms"], rel=1e-12)
    assert (first["prefill_speedup"], first["why_decode"]) == (None, None)
    assert first["reference"] == second["reference"] == "h100-sxm"


def test_at_light_speed_a_dense_step_gains_the_ratio_of_the_bandwidths_and_says_so():
    row = compare("llama-3.1-8b", ["h100-sxm", "b200"], basis="ideal", isl=10, osl=2).to_records()[1]
    ratio = rl.load_gpu("b200").bandwidth / rl.load_gpu("h100-sxm").bandwidth
    assert row["decode_speedup"] == pytest.approx(ratio, rel=1e-12)
    assert "come from bandwidth in the linear layers" in row["why_decode"]


def test_what_a_faster_link_gains_goes_to_the_link():
    slow = rl.load_gpu("h100-sxm")
    fast = replace(slow, name="fast-link", link=replace(slow.link, bandwidth=2.0 * slow.link.bandwidth))
    found = compare("llama-3.1-70b", [slow, fast], tp=8, basis="ideal", isl=8000, osl=300, batch=4)
    assert re.match(
        r"[\d.]+x: ([\d.]+) of the \1 gained come from the link in the all-reduces", found.gpus[1].why_prefill
    )
    gained = {entry["kernel"] for entry in found.kernel_records() if entry["contribution"] != 0.0}
    assert gained == {"attention all-reduce", "ffn all-reduce", "logits all-gather"}


def test_only_what_got_faster_is_credited():
    slow = rl.load_gpu("h100-sxm")
    mine = replace(slow, name="my-h100", bandwidth=2.0 * slow.bandwidth)
    found = compare("llama-3.1-8b", [slow, mine], isl=2000, osl=300, batch=16)
    row = found.to_records()[1]
    for sentence in (row["why_prefill"], row["why_decode"]):
        terms = re.findall(r"(?:from|to) ([a-z ]+?) in ", sentence)
        assert terms
        assert set(terms) == {"bandwidth"}, sentence
    moved = [kernel for kernel in found.kernel_records() if kernel["contribution"]]
    assert {kernel["cause"] for kernel in moved} == {"memory"}
    assert "compute" in {kernel["bound"] for kernel in moved}


def test_the_host_does_not_change_between_gpus():
    case = {"isl": 4000, "osl": 300}  # longer kernels than the host's launches
    row = compare("llama-3.1-8b", ["h100-sxm", "b200"], **case).to_records()[1]
    assert "unchanged: the host" in row["why_prefill"]
    # Shorter kernels: the faster GPU waits for the host.
    assert "lost to the host" in compare("llama-3.1-8b", ["h100-sxm", "b200"], isl=100).to_records()[1]["why_prefill"]


def test_equal_gpus_have_nothing_to_explain():
    gpu = rl.load_gpu("h100-sxm")
    found = compare("llama-3.1-8b", [gpu, replace(gpu, name="twin")], **CASE)
    assert why_faster(found.gpus[1].decode, "step").startswith("1.000x: no kernel changes")


# --- text --------------------------------------------------------------------------------------


def test_a_comparison_prints_a_line_a_gpu_with_its_main_figures():
    found = compare("deepseek-r1", ["b200", "h100-sxm", "b300"], **CASE)
    lines = str(found).splitlines()
    assert len(lines) == 1 + len(found.gpus) + len(found.refused) + len(found.notes)
    assert lines[0] == "deepseek-r1, isl 2000, osl 300, batch 16, tp 4, against b200"
    row = found.to_records()[1]
    assert lines[1].startswith("  b200: TTFT ")
    assert "fast" not in lines[1]
    assert lines[2].startswith("  b300: TTFT ")
    assert (
        f"{row['prefill_speedup']:.2f}x as fast as b200 in prefill, {row['decode_speedup']:.2f}x in decode" in lines[2]
    )
    assert lines[3].startswith("  h100-sxm: deepseek-r1 does not fit")
    assert str(found.gpus[1]) == lines[2].strip()


# --- the plan ----------------------------------------------------------------------------------


def test_without_a_plan_all_take_the_smallest_tp_at_which_each_fits():
    smallest = {gpu: rl.predict("llama-3.1-70b", gpu, **CASE).deployment.plan.tp for gpu in ("h100-sxm", "b200")}
    assert smallest["b200"] < smallest["h100-sxm"]
    found = compare("llama-3.1-70b", ["b200", "h100-sxm"], **CASE)
    assert [row["tp"] for row in found.to_records()] == [smallest["h100-sxm"]] * 2
    assert any("tp = 2 for all" in note for note in found.notes)


def test_a_given_tp_is_kept():
    found = compare("llama-3.1-70b", ["b200", "h100-sxm"], tp=8, **CASE)
    assert {row["tp"] for row in found.to_records()} == {8}
    assert found.notes == ()


def test_replicas_count_at_the_common_tp():
    rows = compare("llama-3.1-70b", ["b200", "h100-sxm"], num_gpus=8, **CASE).to_records()
    assert [(row["tp"], row["num_gpus"]) for row in rows] == [(2, 8), (2, 8)]


# --- refusals ----------------------------------------------------------------------------------


def test_a_gpu_that_cannot_run_the_case_does_not_take_the_others_with_it():
    found = compare("deepseek-r1", ["b200", "h100-sxm", "b300"], **CASE)
    assert [row["gpu"] for row in found.to_records()] == ["b200", "b300"]
    assert isinstance(found.refused["h100-sxm"], rl.DoesNotFit)
    assert found.to_records()[1]["decode_speedup"] is not None
    assert found.to_dict()["refused"]["h100-sxm"].startswith("DoesNotFit: ")


def test_where_the_first_cannot_run_the_case_the_next_is_the_reference_and_that_is_said():
    found = compare("deepseek-r1", ["h100-sxm", "b200", "b300"], **CASE)
    assert {row["reference"] for row in found.to_records()} == {"b200"}
    assert "b200 is the reference, because h100-sxm cannot run the case" in found.notes


def test_a_format_that_one_gpu_lacks_refuses_that_one():
    found = compare("llama-3.1-8b", ["h100-sxm", "a100-sxm-80gb"], quantization="fp8", **CASE)
    assert isinstance(found.refused["a100-sxm-80gb"], rl.UnsupportedPrecision)


def test_where_none_can_run_it_the_error_names_each():
    with pytest.raises(rl.DoesNotFit, match=r"h100-sxm(.|\n)*a100-sxm-80gb"):
        compare("deepseek-r1", ["h100-sxm", "a100-sxm-80gb"], **CASE)


@each("gpus, options, message", [
    (["h100-sxm"], {}, "two GPUs or more"),
    ("h100-sxm", {}, "two GPUs or more"),
    ([], {}, "two GPUs or more"),
    (3, {}, "two GPUs or more"),
    (["h100-sxm", "h100-80gb", "b200"], {}, "twice"),
    (["h100-sxm", "b200"], {"batch": np.array([1, 2])}, "not an array"),
    (["h100-sxm", "b200"], {"batch": 10**400}, "batch"),
    (["h100-sxm", "b200"], {"tp": 10**30}, "tp"),
    (["h100-sxm", "b200"], {"measured": {"ttft": 1.0}}, "measured"),
])  # fmt: skip
def test_what_cannot_be_compared_is_refused_in_one_line(gpus, options, message):
    with pytest.raises(rl.BadInput, match=message) as caught:
        compare("llama-3.1-8b", gpus, **options)
    assert "\n" not in str(caught.value)


def test_a_single_token_has_no_decode_to_compare():
    row = compare("llama-3.1-8b", ["h100-sxm", "b200"], osl=1).to_records()[1]
    assert (row["decode_speedup"], row["why_decode"]) == (None, None)
    assert row["prefill_speedup"] > 1.0


def test_sizes_of_any_number_are_compared():
    found = compare("llama-3.1-8b", ["h100-sxm", "b200"], isl=np.int64(2000), osl=np.float64(300.0))
    assert found.to_records() == compare("llama-3.1-8b", ["h100-sxm", "b200"], isl=2000, osl=300).to_records()


def test_where_the_case_fits_none_the_widest_plan_is_taken_if_that_is_asked_for():
    found = compare("deepseek-r1", ["h100-sxm", "a100-sxm-80gb"], allow_oversize=True, **CASE)
    assert [(row["tp"], row["fits"]) for row in found.to_records()] == [(8, False), (8, False)]
    assert "tp = 8 for all: the largest; it fits none of them" in found.notes


SHELL = ("--isl", "2000", "--osl", "300", "--batch", "16")
QUANTIZE = ("quantize", "-m", "llama-3.1-8b", "-g", "h100-sxm", *SHELL)
COMPARE = ("compare", "-m", "llama-3.1-8b", "-g", "h100-sxm", "-g", "b200", *SHELL)
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
    said = noted("quantize", "-m", "llama-3.1-8b", "-g", "a100-sxm-80gb", *SHELL)
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


# --- compare -----------------------------------------------------------------------------------


def test_compare_says_which_tp_was_taken():
    assert "note: tp = 1 for all" in noted(*COMPARE)
    assert "tp = " not in noted(*COMPARE, "--tp", "2")
    assert [line[2] for line in shown(*COMPARE, "--tp", "2")] == ["plan", "tp2", "tp2"]


def test_json_of_compare_has_kernels_that_add_up():
    found = document(*COMPARE)
    for name in ("prefill", "decode"):
        mine = [kernel["contribution"] for kernel in found["kernels"] if kernel["pass"] == name]
        assert math.fsum(mine) == pytest.approx(found["rows"][1][f"{name}_speedup"] - 1.0, abs=1e-12)


# --- refusals ----------------------------------------------------------------------------------


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
