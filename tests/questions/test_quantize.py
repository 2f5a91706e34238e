"""Number formats side by side: bytes by hand, sums, sentences from the kernels; slower kernels are said."""

import math
import re
from dataclasses import replace

import pytest
from every_case import each

import roofline as rl
from roofline.questions.compare import FORMATS, quantize, why_quantized
from roofline.specs.gpu import MOE
from roofline.specs.model import Group, Layer, Mamba2

CASE = {"isl": 2000, "osl": 300, "batch": 16}


def row_of(found, quantization, kv="bf16"):
    """The row of a pair of formats."""
    (only,) = [row for row in found.to_records() if (row["quantization"], row["kv_cache_dtype"]) == (quantization, kv)]
    return only


# --- by hand -----------------------------------------------------------------------------------

# llama-3.1-8b: 32 layers of qkv 4096 x (32 + 2 x 8) x 128, o 4096 x 4096, three matrices 4096 x 14336; one head.
MATRICES = 32 * (4096 * 48 * 128 + 4096 * 4096 + 3 * 4096 * 14336)
HEAD = 4096 * 128256


def test_at_light_speed_int4_gains_the_ratio_of_the_bytes_of_a_step():
    found = quantize("llama-3.1-8b", "h100-sxm", basis="ideal", isl=100, osl=2)
    wide, narrow = row_of(found, "bf16"), row_of(found, "int4")
    bandwidth = rl.load_gpu("h100-sxm").bandwidth
    others = wide["tpot_ms"] * 1e-3 * bandwidth - 2 * (MATRICES + HEAD)
    assert 0.0 < others < 0.01 * 2 * MATRICES  # KV cache, activations, embedding
    ratio = (2 * (MATRICES + HEAD) + others) / ((0.5 + 2 / 128) * MATRICES + 2 * HEAD + others)
    assert narrow["decode_speedup"] == pytest.approx(ratio, rel=1e-12)
    assert "weight traffic, which falls to 31 %" in narrow["why_decode"]  # the head stays


def test_the_share_of_weight_traffic_in_a_sentence_is_that_of_the_bytes():
    found = quantize("llama-3.1-8b", "h100-sxm", basis="ideal", isl=8000, osl=2, batch=16)
    wide = row_of(found, "bf16")
    share = 2 * (MATRICES + HEAD) / (wide["tpot_ms"] * 1e-3 * rl.load_gpu("h100-sxm").bandwidth)
    cached = 16 * 2 * 2 * 8 * 128 * 32 * 8000 / (wide["tpot_ms"] * 1e-3 * rl.load_gpu("h100-sxm").bandwidth)
    assert 0.3 < share < 0.6
    said = row_of(found, "int4")["why_decode"]
    first = re.search(r"(\d+) % of the step is KV and state traffic, which stays the same", said)  # the larger first
    assert float(first[1]) == pytest.approx(100 * cached, abs=1.0)  # the step appends a token, too
    assert f"{100 * share:.0f} % is weight traffic, which falls to 31 %" in said
    narrow = row_of(found, "bf16", "fp8")
    assert "KV and state traffic, which halves" in narrow["why_decode"]
    assert "weight traffic, which stays the same" in narrow["why_decode"]
    assert narrow["decode_speedup"] == pytest.approx(1.0 / (1.0 - cached / 2.0), rel=0.01)


def test_at_light_speed_fp8_doubles_the_arithmetic_of_a_prompt():
    found = quantize("llama-3.1-8b", "h100-sxm", basis="ideal", isl=2000, osl=2, batch=8)
    rate = rl.load_gpu("h100-sxm").peaks["fp8"] / rl.load_gpu("h100-sxm").peaks["bf16"]
    assert f"arithmetic, at {rate:.2f}x the rate" in row_of(found, "fp8", "fp8")["why_prefill"]
    assert "arithmetic, at 1.9" in row_of(found, "fp8")["why_prefill"]  # attention stays in 16 bits
    assert "arithmetic, which stays the same" in row_of(found, "int4")["why_prefill"]


# --- sums --------------------------------------------------------------------------------------


@each("basis", ["ideal", "calibrated"])
@each("model", ["llama-3.1-70b", "gpt-oss-120b", "deepseek-r1", "qwen3-next-80b-a3b"], few=1)
def test_the_kernels_of_the_answer_add_up_to_its_speedups(model, basis):
    found = quantize(model, "b300", basis=basis, **CASE)
    kernels = found.kernel_records()
    assert len(found.to_records()) == 2 * len(FORMATS)
    for row in found.to_records():
        for name in ("prefill", "decode"):
            mine = [
                entry["contribution"]
                for entry in kernels
                if (entry["quantization"], entry["kv_cache_dtype"], entry["pass"])
                == (row["quantization"], row["kv_cache_dtype"], name)
            ]
            assert math.fsum(mine) == pytest.approx(row[f"{name}_speedup"] - 1.0, abs=1e-12)


@each("baseline", FORMATS)
def test_speedups_are_ratios_of_latencies_against_any_baseline(baseline):
    found = quantize("llama-3.1-8b", "b200", baseline=baseline.upper(), **CASE)
    reference = row_of(found, baseline)
    assert (reference["prefill_speedup"], reference["why_decode"]) == (1.0, "the baseline")
    for row in found.to_records():
        assert row["baseline"] == baseline
        assert row["prefill_speedup"] == pytest.approx(reference["ttft_ms"] / row["ttft_ms"], rel=1e-12)
        assert row["decode_speedup"] == pytest.approx(reference["tpot_ms"] / row["tpot_ms"], rel=1e-12)


@each("quantization", FORMATS)
def test_a_row_is_the_prediction_in_its_formats(quantization):
    row = row_of(quantize("llama-3.1-70b", "b200", tp=2, **CASE), quantization, "fp8")
    one = rl.predict("llama-3.1-70b", "b200", tp=2, quantization=quantization, kv_cache_dtype="fp8", **CASE).to_dict()
    assert {key: row[key] for key in one} == one


# --- plans and memory --------------------------------------------------------------------------


def test_all_rows_run_at_the_smallest_plan_of_the_baseline():
    found = quantize("llama-3.1-70b", "h100-sxm", **CASE)
    assert {row["tp"] for row in found.to_records()} == {2}
    wide = [row for row in found.to_records() if row["kv_cache_dtype"] == "bf16"]
    fewest = {row["quantization"]: row["num_gpus_smallest"] for row in wide}
    assert (fewest["bf16"], fewest["int4"]) == (2, 1)
    for name, num_gpus in fewest.items():
        kv = {"kv_cache_dtype": "bf16", "compute": "bf16" if name == "nvfp4" else None}
        assert rl.predict("llama-3.1-70b", "h100-sxm", quantization=name, **kv, **CASE).deployment.plan.tp == num_gpus


def test_a_baseline_that_fits_nowhere_takes_the_widest_plan_and_rows_say_whether_they_fit():
    found = quantize("deepseek-r1", "h100-sxm", **CASE)
    wide, narrow = row_of(found, "bf16"), row_of(found, "int4")
    assert (wide["tp"], wide["fits"], wide["num_gpus_smallest"], wide["largest_batch"]) == (8, False, None, 0)
    assert wide["output_tok_s_largest_batch"] is None
    assert wide["tpot_ms"] > narrow["tpot_ms"] > 0.0
    assert narrow["fits"] is True
    assert any("baseline does not fit" in note for note in found.notes)


def test_throughput_at_the_largest_batch_is_that_of_a_prediction_there():
    row = row_of(quantize("llama-3.1-8b", "h100-sxm", **CASE), "fp8", "fp8")
    case = {**CASE, "batch": row["largest_batch"]}
    there = rl.predict("llama-3.1-8b", "h100-sxm", tp=1, quantization="fp8", **case)
    assert row["output_tok_s_largest_batch"] == pytest.approx(there.output_tok_s, rel=1e-12)
    with pytest.raises(rl.DoesNotFit):
        rl.predict("llama-3.1-8b", "h100-sxm", tp=1, quantization="fp8", **{**case, "batch": case["batch"] + 1})


# --- what stays, and what cannot be multiplied -------------------------------------------------


def test_attention_of_gpt_oss_stays_bf16_and_that_is_said():
    found = quantize("gpt-oss-120b", "b200", **CASE)
    for entry in found.formats:
        sections = entry.prediction.deployment.quantization.sections
        assert sections["attention"].format == "bf16"
        assert sections["experts"].format == entry.quantization
    (said,) = [note for note in found.notes if "weights unchanged in every format" in note]
    assert "attention, router, embedding, head bf16" in said
    assert "dense" not in said  # it has no dense networks
    unmoved = {
        entry["kernel"]: entry["contribution"] for entry in found.kernel_records() if entry["kv_cache_dtype"] == "bf16"
    }
    assert unmoved["qkv"] == unmoved["o"] == 0.0 != unmoved["experts"]


@pytest.mark.parametrize(("gpu", "formats"), [("a100-sxm-80gb", {"fp8", "fp8_static", "nvfp4"}), ("mi300x", {"nvfp4"})])
def test_what_a_gpu_cannot_multiply_runs_weight_only_and_says_so(gpu, formats):
    found = quantize("llama-3.1-8b", gpu, **CASE)
    assert {row["quantization"] for row in found.to_records()} == set(FORMATS)
    for row in found.to_records():
        said = any(
            note.startswith(f"{gpu} has no tensor cores for {row['quantization']}: weight-only")
            for note in row["warnings"]
        )
        assert said == (row["quantization"] in formats)
        if said:
            assert row["compute_dtype"] == "bf16"
    assert row_of(found, "nvfp4")["decode_speedup"] > 1.0


def test_int8_on_blackwell_ultra_is_slower_than_bf16_and_says_so():
    row = row_of(quantize("llama-3.1-70b", "b300", **{**CASE, "batch": 64}), "int8")
    assert any("int8 is slower than bf16 on b300" in note for note in row["warnings"])
    assert row["prefill_speedup"] < 0.5
    assert "arithmetic, at 0." in row["why_prefill"]
    other = row_of(quantize("llama-3.1-70b", "b200", **CASE), "int8")
    assert other["prefill_speedup"] > 1.0


def with_rate(gpu, key, share):
    """The GPU with another share of the peak at one kind and dtype."""
    sets = {**gpu.calibration.kernels}
    sets[key] = replace(sets[key], eta_c=share)
    return replace(gpu, calibration=replace(gpu.calibration, kernels=sets))


def test_weight_only_kernels_that_reach_more_of_the_same_peak_are_not_said_to_have_another_rate():
    gpu = rl.load_gpu("a100-sxm-80gb")
    sets = gpu.calibration.kernels
    found = quantize("llama-3.1-70b", gpu, **CASE)
    said = row_of(found, "fp8")["why_prefill"]
    reached = re.search(r"arithmetic, at the same peak, reached ([\d.]+)x as far \(as timed\)", said)
    ratio = sets["gemm", "weight_only_8bit"].eta_c / sets["gemm", "bf16"].eta_c
    assert 1.05 < float(reached[1]) <= ratio + 0.005  # attention takes a little of it
    assert "the rate" not in said
    assert "the rate" not in row_of(found, "int4")["why_prefill"]
    assumed = replace(sets["gemm", "weight_only_8bit"], is_measured=False)
    changed = replace(gpu.calibration, kernels={**sets, ("gemm", "weight_only_8bit"): assumed})
    other = row_of(quantize("llama-3.1-70b", replace(gpu, calibration=changed), **CASE), "fp8")["why_prefill"]
    assert "(partly assumed)" in other


@pytest.mark.parametrize(("factor", "stays"), [(1.02, True), (0.98, True), (1.06, False), (0.94, False)])
def test_arithmetic_stays_where_its_rate_moves_by_less_than_three_percent(factor, stays):
    gpu = rl.load_gpu("a100-sxm-80gb")
    share = gpu.calibration.kernels["gemm", "bf16"].eta_c
    said = row_of(quantize("llama-3.1-70b", with_rate(gpu, ("gemm", "int4"), factor * share), **CASE), "int4")
    assert ("arithmetic, which stays the same" in said["why_prefill"]) == stays


def test_passes_that_quantise_activations_are_named_where_they_cost():
    found = quantize("llama-3.1-70b", "h100-sxm", tp=4, **CASE)
    assert "quantising activations costs" in row_of(found, "fp8")["why_prefill"]
    assert "quantising" not in row_of(found, "int4")["why_prefill"]
    back = quantize("llama-3.1-70b", "h100-sxm", tp=4, baseline="fp8", **CASE)
    assert "quantising activations saves" in row_of(back, "bf16")["why_prefill"]


def test_the_all_reduces_are_named_as_what_does_not_change():
    said = row_of(quantize("llama-3.1-70b", "h100-sxm", tp=8, **CASE), "fp8")["why_prefill"]
    assert "unchanged: the all-reduces" in said


def test_a_sentence_follows_its_kernels():
    one = rl.predict("llama-3.1-8b", "h100-sxm", quantization="bf16", **CASE)
    found = quantize("llama-3.1-8b", "h100-sxm", **CASE).formats[2]
    said = why_quantized(found.decode, one.decode, one.decode, "step")
    assert "weight traffic, which stays the same" in said
    assert "halves" not in said


def test_a_model_without_kv_cache_has_no_rows_for_its_format():
    model = rl.load_model("llama-3.1-8b")
    (group,) = model.groups
    (layer,) = group.layers
    mixer = Mamba2(heads=64, head_dim=64, state=128, groups=8, conv=4)
    recurrent = replace(model, groups=(Group(group.repeat, (Layer(mixer, layer.ffn),)),))
    found = quantize(recurrent, "h100-sxm", **CASE)
    assert [row["quantization"] for row in found.to_records()] == list(FORMATS)


# --- text --------------------------------------------------------------------------------------


def test_a_quantization_prints_a_line_a_pair_of_formats_with_its_main_figures():
    found = quantize("deepseek-r1", "h100-sxm", **CASE)
    lines = str(found).splitlines()
    assert len(lines) == 1 + len(found.formats) + len(found.notes)
    assert lines[0] == "deepseek-r1 on 8x h100-sxm, isl 2000, osl 300, batch 16, baseline bf16"
    assert lines[1].startswith("  bf16, KV bf16: TTFT ")
    assert "does not fit" in lines[1]
    row = row_of(found, "int4", "fp8")
    (line,) = [line for line in lines if line.startswith("  int4, KV fp8: ")]
    assert "does not fit" not in line
    assert f"{row['prefill_speedup']:.2f}x as fast as the baseline in prefill" in line
    assert lines[-1].startswith("  note: ")


# --- input -------------------------------------------------------------------------------------


def test_a_single_token_has_no_decode_to_speed_up():
    row = row_of(quantize("llama-3.1-8b", "h100-sxm", osl=1), "fp8")
    assert (row["tpot_ms"], row["decode_speedup"], row["why_decode"]) == (None, None, None)
    assert row["prefill_speedup"] > 0.0


@each("options, message", [
    ({"batch": range(3)}, "batch.*not an array"),
    ({"batch": 10**400}, "batch"),
    ({"batch": True}, "batch"),
    ({"quantization": "fp8"}, "quantization.*baseline"),
    ({"weights": "fp8"}, "weights.*baseline"),
    ({"kv_cache_dtype": "fp8"}, "kv_cache_dtype"),
    ({"compute": "bf16"}, "compute"),
    ({"measured": {"ttft": 1.0}}, "measured"),
])  # fmt: skip
def test_what_cannot_be_asked_is_refused_in_one_line(options, message):
    with pytest.raises(rl.BadInput, match=message) as caught:
        quantize("llama-3.1-8b", "h100-sxm", **options)
    assert "\n" not in str(caught.value)


@each("baseline", ["fp7", "", None])
def test_an_unknown_baseline_is_refused(baseline):
    with pytest.raises(rl.UnknownName):
        quantize("llama-3.1-8b", "h100-sxm", baseline=baseline)


def test_a_gpu_without_any_16_bit_rate_is_refused():
    with pytest.raises(rl.UnsupportedPrecision, match="16-bit"):
        quantize("llama-3.1-8b", "rubin-cpx")


LONG = {"isl": 8192, "osl": 1024, "batch": 64}


def slow(found, label):
    """Notes on the slow kernels of one format."""
    return [note for note in found.notes if note.startswith(f"{label}: ") and "as long" in note]


def changed(name, key, **constants):
    """A GPU with other constants at one kind and dtype, or without them."""
    gpu = rl.load_gpu(name)
    sets = dict(gpu.calibration.kernels)
    before = sets.pop(key)
    if constants:
        sets[key] = replace(before, **constants)
    return replace(gpu, calibration=replace(gpu.calibration, kernels=sets))


def test_int4_experts_of_blackwell_multiply_as_the_ratio_of_their_constants_says():
    sets = rl.load_gpu("b200").calibration.kernels
    rate = sets["moe", "int4"].eta_c / sets["moe", "bf16"].eta_c
    found = quantize("gpt-oss-120b", "b200", **LONG)
    (note,) = slow(found, "int4")
    pattern = (
        r"int4: prefill takes ([\d.]+)x as long in the experts as with bf16: its kernels multiply at ([\d.]+)x the "
    )
    longer, said = re.match(pattern + r"rate \(weight-only; timed on blackwell\)$", note).groups()
    assert float(said) == pytest.approx(rate, abs=0.006)  # two digits
    wide, narrow = (
        sum(kernel.time for kernel in entry.prediction.prefill.kernels if kernel.kind is MOE)
        for entry in (found.formats[0], next(one for one in found.formats if one.quantization == "int4"))
    )
    assert float(longer) == pytest.approx(narrow / wide, rel=0.01)
    assert [label for label in ("fp8", "mxfp4", "nvfp4", "KV fp8") if slow(found, label)] == []


def test_what_was_assumed_or_stands_in_is_not_called_timed():
    (note,) = slow(quantize("gpt-oss-120b", changed("b200", ("moe", "int4"), is_measured=False), **LONG), "int4")
    assert note.endswith("(weight-only; not timed on blackwell: assumed)")
    (note,) = slow(quantize("gpt-oss-120b", changed("b200", ("moe", "int4")), **LONG), "int4")
    assert note.endswith("(weight-only; not timed on blackwell: other formats stand in)")


def test_constants_as_fast_as_the_baselines_need_no_note():
    wide = rl.load_gpu("b200").calibration.kernels["moe", "bf16"]
    same = {name: getattr(wide, name) for name in ("t0", "eta_c", "eta_m", "eta_s", "kappa_s", "eps")}
    assert slow(quantize("gpt-oss-120b", changed("b200", ("moe", "int4"), **same), **LONG), "int4") == []


def test_fp8_experts_that_multiply_faster_are_slow_at_moving_activations():
    sets = rl.load_gpu("h200-sxm").calibration.kernels
    rate = sets["moe", "fp8_block"].eta_s / sets["moe", "bf16"].eta_s
    (note,) = slow(quantize("deepseek-r1", "h200", **LONG), "fp8_block")
    said = re.search(r"in the experts .* its kernels move activations at ([\d.]+)x the rate \(timed on hopper\)$", note)
    assert float(said[1]) == pytest.approx(rate, abs=0.00501)


def test_latencies_are_named_where_they_make_steps_longer():
    found = quantize("deepseek-r1", "h200", **LONG)
    (note,) = slow(found, "int8")
    assert re.search(r"decode takes .* in the linear layers .* launch and fill in [\d.]+x the time \(not timed", note)
    none = changed("h200-sxm", ("gemm", "bf16"), t0=0.0, kappa=0.0)
    assert "launch and fill in " in slow(quantize("deepseek-r1", none, **LONG), "int8")[0]


@pytest.mark.parametrize("model", ["llama-3.1-8b", "gpt-oss-120b"])
def test_at_light_speed_only_a_lower_peak_is_slow(model):
    found = quantize(model, "b300", basis="ideal", **LONG)
    peaks = rl.load_gpu("b300").peaks
    (note,) = [note for note in found.notes if "as long" in note]
    assert note.startswith("int8: prefill takes ")
    assert f"{peaks['int8'] / peaks['bf16']:.2g}x the peak (at the hardware limit)" in note


def test_more_bytes_at_the_same_rate_are_no_fault_of_the_kernels():
    found = quantize("llama-3.1-8b", "b200", baseline="int4", basis="ideal", isl=100, osl=100)
    assert found.formats[0].decode.speedup < 0.5
    assert [note for note in found.notes if "as long" in note] == []


def test_more_bytes_are_said_beside_a_lower_rate():
    (note,) = slow(quantize("llama-3.1-8b", "h100-sxm", baseline="int4"), "fp8")
    assert re.search(r"read 1\.\d+x as much at 0\.9\d+x the rate and launch and fill in", note)


def test_kernels_that_an_engine_changes_are_said_to_be():
    found = quantize("llama-3.1-8b", "h100-sxm", baseline="int4", engine="nim-2024", isl=2000, batch=16)
    (note,) = [note for note in slow(found, "bf16") if "prefill" in note]
    assert "timed on hopper; adjusted for nim-2024)" in note


def test_attention_over_a_narrow_cache_is_a_note_of_the_cache():
    slower = changed("h100-sxm", ("attention_prefill", "fp8"), eta_c=0.1)
    found = quantize("llama-3.1-8b", slower, isl=30000, batch=1)
    (note,) = [note for note in found.notes if "as long" in note]
    assert note.startswith("KV fp8: prefill takes ")
    assert "in attention as with a bf16 KV cache: its kernels multiply at " in note


def test_where_no_kernel_of_the_generation_was_timed_that_is_said():
    gpu = changed("gaudi3", ("gemm", "fp8"), eta_c=0.1)
    (note,) = slow(quantize("llama-3.1-8b", gpu, isl=2000, batch=16), "fp8")
    assert note.endswith("(medians of other generations: gaudi3 not timed)")
