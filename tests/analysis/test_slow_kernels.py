"""Formats whose kernels are slower: said where they are, with what that stands on, computed from their constants."""

import re
from dataclasses import replace

import pytest

import roofline as rl
from roofline.questions.compare import quantize
from roofline.specs.gpu import MOE

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
    gpu = changed("mi300x", ("gemm", "fp8"), eta_c=0.1)
    (note,) = slow(quantize("llama-3.1-8b", gpu, isl=2000, batch=16), "fp8")
    assert note.endswith("(medians of other generations: cdna3 not timed)")
