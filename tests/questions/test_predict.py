"""Names and plain numbers in, predictions out; whatever cannot be is refused by one of five errors."""

import copy
import json
import math
import pickle
import re

import numpy as np
import pytest
import tiers
from conftest import SAMPLE_GPUS, SAMPLE_MODELS
from every_case import each
from hypothesis import example, given
from hypothesis import strategies as st

import roofline as rl
from roofline.serving.knee import possible_tp
from roofline.serving.shown import ROW_KEYS

CASE = {"isl": 2000, "osl": 300}
SMALL = ("llama-3.1-8b", "h100-sxm")


def formats(model, gpu, **options):
    row = rl.predict(model, gpu, **CASE, **options).to_dict()
    return row["weight_dtype"], row["kv_cache_dtype"], row["compute_dtype"]


def short(value):
    """Name of a parameter that is the same in every run, however long or without a text the value is."""
    try:
        text = repr(value)
    except ValueError:  # an integer of more digits than Python writes
        text = "huge"
    return type(value).__name__ if " at 0x" in text or len(text) > 30 else text


def said(prediction, *words):
    """Whether one warning holds all the words."""
    return any(all(word in warning for word in words) for warning in prediction.warnings)


# --- formats -----------------------------------------------------------------------------------

# preset -> GPU -> weights, KV cache, compute; None where the GPU lacks the tensor cores.
PRESETS = {
    (None, "h100-sxm"): ("bf16", "bf16", "bf16"),
    ("bf16", "h100-sxm"): ("bf16", "bf16", "bf16"),
    ("fp16", "h100-sxm"): ("fp16", "bf16", "fp16"),
    ("fp8", "h100-sxm"): ("fp8", "fp8", "fp8"),
    ("fp8_static", "h100-sxm"): ("fp8_static", "fp8", "fp8"),
    ("fp8_block", "h100-sxm"): ("fp8_block", "bf16", "fp8"),
    ("int8", "h100-sxm"): ("int8", "bf16", "int8"),
    ("int4", "h100-sxm"): ("int4", "bf16", "bf16"),
    ("mxfp4", "h100-sxm"): ("mxfp4", "bf16", "bf16"),
    ("nvfp4", "h100-sxm"): None,
    ("fp8", "b200"): ("fp8", "fp8", "fp8"),
    ("int4", "b200"): ("int4", "bf16", "bf16"),
    ("mxfp4", "b200"): ("mxfp4", "bf16", "fp8"),
    ("nvfp4", "b200"): ("nvfp4", "fp8", "fp4"),
    ("nvfp4", "gb300-nvl72"): ("nvfp4", "fp8", "fp4"),
    ("int8", "b300"): ("int8", "bf16", "int8"),
    ("fp8", "a100-sxm-80gb"): None,
    ("fp8_static", "a100-sxm-80gb"): None,
    ("fp8_block", "a100-sxm-80gb"): None,
    ("int8", "a100-sxm-80gb"): ("int8", "bf16", "int8"),
    ("int4", "a100-sxm-80gb"): ("int4", "bf16", "bf16"),
    ("fp8", "l40s"): ("fp8", "fp8", "fp8"),
    ("nvfp4", "l40s"): None,
}


@each(("asked", "formats_set"), PRESETS.items(), ids=[f"{case[0]}-{case[1]}" for case in PRESETS])
def test_a_preset_sets_weights_kv_cache_and_compute_and_says_so(asked, formats_set):
    preset, gpu = asked
    if formats_set is None:
        with pytest.raises(rl.UnsupportedPrecision):
            rl.predict("llama-3.1-8b", gpu, quantization=preset)
        return
    prediction = rl.predict("llama-3.1-8b", gpu, **CASE, quantization=preset)
    assert formats("llama-3.1-8b", gpu, quantization=preset) == formats_set
    weights, kv, compute = formats_set
    assert preset is None or said(
        prediction, f"`quantization` {preset}", f"weights {weights}", f"compute {compute}", f"KV cache {kv}"
    )


@pytest.mark.parametrize("spelling", ["FP8", " fp8 ", "fp8-static", "FP8_Block"])
def test_the_spelling_of_a_preset_does_not_matter(spelling):
    assert formats(*SMALL, quantization=spelling)[2] == "fp8"


# Llama 3.1 8B: 32 layers x (qkv 4096 x 6144 + o 4096^2 + 3 x 4096 x 14336) = 6,979,321,856 linear weights;
# embedding, head and norms are the other 1,050,939,392 of 8,030,261,248 and stay bf16.
LINEAR, REST = 6_979_321_856, 1_050_939_392


@each("preset, bits", [
    ("bf16", 16), ("fp8", 8), ("fp8_static", 8), ("fp8_block", 8 + 32 / 128**2), ("int8", 8), ("int4", 4 + 16 / 128),
    ("mxfp4", 4 + 8 / 32),
])  # fmt: skip
def test_a_preset_takes_the_bytes_of_its_format_scales_included(preset, bits):
    prediction = rl.predict(*SMALL, **CASE, quantization=preset)
    assert prediction.memory.weights == pytest.approx(LINEAR * bits / 8 + REST * 2, rel=1e-12)


@each("options, dtype, nbytes", [
    ({}, "bf16", 2),
    ({"kv_cache_dtype": "fp8"}, "fp8", 1),
    ({"kv_cache_dtype": "fp8_e4m3"}, "fp8", 1),
    ({"kv_cache_dtype": "FP8-E5M2"}, "fp8", 1),
    ({"kv_cache_dtype": "int8"}, "int8", 1),
    ({"kv_cache_dtype": "bf16"}, "bf16", 2),
    ({"kv_cache_dtype": "bfloat16"}, "bf16", 2),
    ({"kv_cache_dtype": "fp16"}, "fp16", 2),
    ({"quantization": "fp8"}, "fp8", 1),
    ({"quantization": "fp8", "kv_cache_dtype": "bf16"}, "bf16", 2),
    ({"quantization": "int4", "kv_cache_dtype": "fp8"}, "fp8", 1),
])  # fmt: skip
def test_the_kv_cache_takes_the_bytes_of_its_own_format(options, dtype, nbytes):
    prediction = rl.predict(*SMALL, isl=2000, osl=300, batch=4, **options)
    assert prediction.to_dict()["kv_cache_dtype"] == dtype
    values = 32 * 2 * 8 * 128  # layers, keys and values, KV heads, head width
    assert prediction.memory.kv_cache == pytest.approx(4 * 2300 * values * nbytes, rel=1e-12)


@pytest.mark.parametrize(("model", "gpu"), [SMALL, ("gpt-oss-20b", "b200"), ("deepseek-v3", "b300")])
def test_auto_is_what_the_checkpoint_has(model, gpu):
    assert formats(model, gpu, weights="auto", kv_cache_dtype="auto") == formats(model, gpu)


@pytest.mark.parametrize("dtype", ["int4", "mxfp4", "nvfp4", "fp8_block", "fp32"])
def test_a_format_that_no_kv_cache_has_is_refused_with_those_that_it_may_have(dtype):
    with pytest.raises(rl.UnknownName, match="bf16, fp16, fp8, int8"):
        rl.predict(*SMALL, kv_cache_dtype=dtype)


@each("options", [{"quantization": "nvfp4"}, {"weights": "nvfp4"}, {"compute": "fp4"}, {"compute": "nvfp4"}])
@each("gpu", ["h100-sxm", "h200-sxm"])
def test_four_bit_arithmetic_on_hopper_is_refused_with_the_dtypes_that_exist_and_the_way_out(gpu, options):
    with pytest.raises(rl.UnsupportedPrecision) as caught:
        rl.predict("llama-3.1-8b", gpu, **options)
    message = str(caught.value)
    assert f"{gpu} has no fp4 tensor cores" in message
    assert "(bf16, fp16, fp8, int8)" in message
    assert "`compute` bf16" in message


@pytest.mark.parametrize(("gpu", "weights"), [("h100-sxm", "nvfp4"), ("a100-sxm-80gb", "fp8"), ("l40s", "nvfp4")])
def test_the_way_out_of_an_unsupported_precision_is_one(gpu, weights):
    assert formats("llama-3.1-8b", gpu, weights=weights, compute="bf16") == (weights, "bf16", "bf16")


@pytest.mark.parametrize("gpu", ["h100-sxm", "h200-sxm", "a100-sxm-80gb"])
def test_gpt_oss_runs_its_native_mxfp4_weight_only_before_blackwell_and_says_so(gpu):
    prediction = rl.predict("gpt-oss-120b", gpu, **CASE)
    row = prediction.to_dict()
    assert (row["weight_dtype"], row["compute_dtype"]) == ("mxfp4", "bf16")
    assert said(prediction, "mxfp4", "weight-only", gpu, "bf16 rate")


def test_gpt_oss_multiplies_its_native_mxfp4_on_blackwell():
    prediction = rl.predict("gpt-oss-120b", "b200", **CASE)
    assert prediction.to_dict()["compute_dtype"] == "fp8"
    assert not said(prediction, "weight-only")


def test_a_preset_for_gpt_oss_replaces_the_experts_alone_and_says_so():
    prediction = rl.predict("gpt-oss-120b", "b200", **CASE, quantization="nvfp4")
    assert prediction.to_dict()["weight_dtype"] == "nvfp4"
    assert said(prediction, "only the experts")


@pytest.mark.parametrize("model", ["deepseek-v3", "deepseek-r1"])
def test_the_fp8_preset_keeps_the_block_scales_of_deepseek_and_says_so(model):
    prediction = rl.predict(model, "h200-sxm", **CASE, tp=8, quantization="fp8")
    row = prediction.to_dict()
    assert (row["weight_dtype"], row["compute_dtype"], row["kv_cache_dtype"]) == ("fp8_block", "fp8", "fp8")
    assert said(prediction, "the checkpoint is already fp8_block; its format is kept")
    native = rl.predict(model, "h200-sxm", **CASE, tp=8)
    assert native.memory.weights == prediction.memory.weights
    assert native.to_dict()["kv_cache_dtype"] == "bf16"


def test_deepseek_without_fp8_tensor_cores_is_weight_only():
    prediction = rl.predict("deepseek-v3", "a100-sxm-80gb", **CASE, tp=8, pp=2)
    assert prediction.to_dict()["compute_dtype"] == "bf16"
    assert said(prediction, "fp8_block", "weight-only", "a100")


@pytest.mark.parametrize("compute", ["fp8", "int8"])
def test_sixteen_bit_weights_cannot_be_multiplied_in_eight(compute):
    with pytest.raises(rl.BadInput, match=f"bf16 weights cannot run in {compute}.*`weights` .*{compute}"):
        rl.predict(*SMALL, compute=compute)


@pytest.mark.parametrize("weights, compute", [("int4", "int8"), ("int8", "fp8"), ("fp8", "int8"), ("mxfp4", "int8")])
def test_weights_cannot_be_multiplied_in_a_dtype_without_kernels_for_them(weights, compute):
    with pytest.raises(rl.BadInput, match=f"{weights} weights cannot run in {compute}"):
        rl.predict(*SMALL, weights=weights, compute=compute)


@each("weights", ["fp8", "fp8_block", "int8", "int4", "mxfp4", "nvfp4", "fp16"])
@each("compute", ["bf16", "bfloat16", "fp16"])
def test_any_weights_can_be_multiplied_in_sixteen_bits(weights, compute):
    wide = compute.replace("bfloat", "bf")
    assert formats(*SMALL, weights=weights, compute=compute) == (weights, "bf16", wide)


def test_four_bit_weights_can_be_multiplied_in_fp8():
    assert formats(*SMALL, weights="int4", compute="fp8") == ("int4", "bf16", "fp8")


@pytest.mark.parametrize("gpu", ["b300", "gb300-nvl72"])
def test_int8_on_blackwell_ultra_is_said_to_be_slower_than_bf16(gpu):
    prediction = rl.predict("llama-3.1-8b", gpu, **CASE, quantization="int8")
    assert said(prediction, "int8 is slower than bf16", gpu)
    assert prediction.ttft > rl.predict("llama-3.1-8b", gpu, **CASE).ttft


def test_int8_elsewhere_is_not_said_to_be_slower():
    assert not said(rl.predict(*SMALL, **CASE, quantization="int8"), "slower")


@each("options, near", [
    ({"quantization": "fp9"}, "fp8"), ({"quantization": "nvfp5"}, "nvfp4"), ({"quantization": ""}, "fp8"),
    ({"weights": "fp9"}, "fp8"), ({"weights": "bf61"}, "bf16"), ({"weights": "int5"}, "int4"),
    ({"kv_cache_dtype": "fp7"}, "fp8"), ({"compute": "tf32"}, "fp32"), ({"compute": "bf17"}, "bf16"),
    ({"slo": {"tppt": 1.0}}, "tpot"),
])  # fmt: skip
def test_an_unknown_name_is_answered_with_the_nearest(options, near):
    asked = next(iter(next(iter(options.values())))) if "slo" in options else next(iter(options.values()))
    with pytest.raises(rl.UnknownName) as caught:
        rl.predict(*SMALL, **options)
    assert repr(asked) in str(caught.value)
    assert near in str(caught.value)


@each("option", ["quantization", "weights", "kv_cache_dtype", "compute", "basis", "engine", "routing"])
@each("value", [8, 8.0, True, [], ["fp8"], {}, b"fp8", object()], ids=short)
def test_what_is_no_text_is_no_name_of_a_format(option, value):
    if option == "routing" and isinstance(value, (int, float)):
        return  # a skew is a number
    with pytest.raises((rl.UnknownName, rl.BadInput)):
        rl.predict(*SMALL, **{option: value})


@pytest.mark.parametrize("record", [None, 5, [], {}, object()], ids=short)
def test_what_is_neither_a_name_nor_a_record_is_refused(record):
    with pytest.raises(rl.UnknownName):
        rl.predict(record, "h100-sxm")
    with pytest.raises(rl.UnknownName):
        rl.predict("llama-3.1-8b", record)


@pytest.mark.parametrize("basis", ["Calibrated", "inherited", "", "optimistic"])
def test_an_unknown_basis_is_refused_with_those_that_exist(basis):
    with pytest.raises(rl.BadInput, match="calibrated, ideal"):
        rl.predict(*SMALL, basis=basis)


@each("routing", [0, -1.0, math.nan, math.inf, 10**400, "none", "", None, [0.5], "0", "nan", 1e-300], ids=short)
def test_a_routing_that_is_neither_uniform_nor_a_skew_is_refused(routing):
    with pytest.raises(rl.BadInput, match="routing"):
        rl.predict("mixtral-8x7b", "h100-sxm", tp=2, routing=routing)


def test_routing_may_be_a_number_or_its_text():
    one, two = (
        rl.predict("mixtral-8x7b", "h100-sxm", tp=2, batch=16, routing=routing).tpot for routing in (0.66, "0.66")
    )
    default = rl.predict("mixtral-8x7b", "h100-sxm", tp=2, batch=16).tpot
    uniform = rl.predict("mixtral-8x7b", "h100-sxm", tp=2, batch=16, routing="uniform").tpot
    assert one == two == default
    assert uniform > default  # evenly spread tokens touch more experts


# --- plans -------------------------------------------------------------------------------------


@each("model, tp, possible", [
    ("llama-3.1-70b", 3, "1, 2, 4, 8"),
    ("llama-3.1-70b", 7, "1, 2, 4, 8"),
    ("llama-3.1-70b", 12, "1, 2, 4, 8, 16"),
    ("llama-3.1-8b", 64, "1, 2, 4, 8, 16, 32"),
    ("llama-2-7b", 6, "1, 2, 4, 8"),
    ("llama-2-7b", 64, "1, 2, 4, 8, 16, 32"),
    ("gpt-oss-20b", 3, "1, 2, 4, 8"),
    ("gemma-3-27b", 5, "1, 2, 4, 8"),
    ("deepseek-v3", 3, "1, 2, 4, 8"),
])  # fmt: skip
def test_a_tp_that_does_not_divide_the_model_is_refused_with_those_that_do(model, tp, possible):
    with pytest.raises(rl.BadInput) as caught:
        rl.predict(model, "h100-sxm", tp=tp, allow_oversize=True)
    message = str(caught.value)
    assert message.startswith(f"tp = {tp} ")
    assert re.search(rf"choose from {possible}\b", message)
    named = [int(number) for number in re.findall(r"\d+", message.split("choose from ")[1])]
    for degree in named:
        assert rl.predict(model, "h100-sxm", tp=degree, allow_oversize=True).deployment.plan.tp == degree


def test_a_tp_beyond_the_kv_heads_replicates_them():
    narrow, wide = (rl.predict("llama-3.1-70b", "gb200-nvl72", tp=tp, **CASE) for tp in (8, 64))
    assert wide.memory.kv_cache == narrow.memory.kv_cache  # eight KV heads: one each at 8, still one each at 64
    assert wide.memory.weights < narrow.memory.weights / 4.0


@each("name", ["tp", "pp", "ep", "dp", "num_gpus"])
@each("value", [0, -1, 1.0, 2.5, True, "2.5", [2], math.nan, math.inf, -(10**400)], ids=short)
def test_a_degree_that_is_no_count_of_gpus_is_refused(name, value):
    with pytest.raises(rl.BadInput, match=f"{name} = "):
        rl.predict(*SMALL, **{name: value})


@pytest.mark.parametrize("name", ["pp", "ep", "dp"])
def test_only_tp_and_num_gpus_may_be_left_open(name):
    with pytest.raises(rl.BadInput, match=f"{name} = None"):
        rl.predict(*SMALL, **{name: None})


@pytest.mark.parametrize("name", ["dp", "num_gpus"])
@pytest.mark.parametrize("value", [10**30, 10**400], ids=short)
def test_an_absurd_number_of_gpus_is_refused(name, value):
    with pytest.raises(rl.BadInput, match=name):
        rl.predict(*SMALL, **{name: value})


@pytest.mark.parametrize(
    ("plan", "ranks"), [({"tp": 8, "ep": 3}, 8), ({"tp": 4, "ep": 8}, 4), ({"tp": 2, "dp": 2, "ep": 8}, 4)]
)
def test_ep_must_divide_the_ranks_that_share_the_experts(plan, ranks):
    with pytest.raises(rl.BadInput, match=f"ep = {plan['ep']} must divide tp x dp = {ranks}"):
        rl.predict("qwen3-30b-a3b", "h100-sxm", **plan)


def test_ep_must_divide_the_experts():
    with pytest.raises(rl.BadInput, match="ep = 16 must divide the 8 experts of mixtral-8x7b"):
        rl.predict("mixtral-8x7b", "h200-sxm", tp=8, dp=2, ep=16)


@pytest.mark.parametrize("plan", [{"tp": 8, "ep": 8}, {"tp": 1, "dp": 8, "ep": 8}, {"tp": 4, "dp": 2, "ep": 4}])
def test_experts_are_spread_over_tp_times_dp(plan):
    prediction = rl.predict("deepseek-v3", "h200-sxm", **CASE, **plan)
    assert prediction.to_dict()["num_gpus"] == 8
    assert prediction.memory.weights < 671e9 / 8 * 1.35  # all experts are shared out; attention may be replicated


def test_pp_may_not_exceed_the_layers():
    with pytest.raises(rl.BadInput, match=r"pp = 33 must not exceed the 32 layers of llama-3.1-8b"):
        rl.predict(*SMALL, tp=1, pp=33)
    with pytest.raises(rl.BadInput, match=r"pp = 33 must not exceed the 32 layers of llama-3.1-8b"):
        rl.predict(*SMALL, pp=33)


def test_pp_that_divides_the_layers_divides_the_weights():
    one, two = (rl.predict(*SMALL, **CASE, tp=1, pp=pp).memory.weights for pp in (1, 2))
    assert two == pytest.approx((one - 2 * 4096) / 2.0, rel=1e-5)  # embedding on the first stage, head on the last


@pytest.mark.parametrize("num_gpus", [1, 3, 7, 9])
def test_the_gpus_must_be_a_multiple_of_those_of_a_replica(num_gpus):
    with pytest.raises(
        rl.BadInput, match=f"num_gpus = {num_gpus} must be a multiple of 8, the GPUs that one replica needs"
    ):
        rl.predict("llama-3.1-70b", "h100-sxm", tp=4, pp=2, num_gpus=num_gpus)


def test_what_is_overloaded_meets_no_slo_not_even_of_a_single_token():
    case = {"isl": 2000, "osl": 1, "slo": "tpot:40"}
    light, heavy = (rl.table("llama-3.1-8b", "h100", request_rate=rate, **case)[0] for rate in (1, 100))
    assert light["slo_met"] is None
    assert heavy["reason"].startswith("overloaded")
    assert heavy["slo_met"] is False


def test_so_many_gpus_work_together_as_their_slo_asks():
    case = {"isl": 4096, "osl": 500, "concurrency": 16}
    free = rl.predict("llama-3.3-70b", "8xh100:fp8", **case)
    bound = rl.predict("llama-3.3-70b", "8xh100:fp8", slo="ttft:500@p95", **case)
    by_tp = {tp: rl.predict("llama-3.3-70b", f"8xh100:tp{tp}:fp8", slo="ttft:500@p95", **case) for tp in (1, 2, 4, 8)}
    meeting = [tp for tp, one in by_tp.items() if one.slo_met]
    assert free.deployment.plan.tp < min(meeting)
    assert bound.deployment.plan.tp == min(meeting)
    hopeless = rl.predict("llama-3.3-70b", "8xh100:fp8", slo="ttft:10@p95", **case)
    nearest = min(by_tp, key=lambda tp: by_tp[tp].latency("ttft_p95"))
    assert hopeless.deployment.plan.tp == nearest


def test_most_users_of_so_many_gpus_are_those_of_their_best_plan():
    case = {"isl": 4096, "osl": 500, "slo": "ttft:500@p95"}
    found = rl.solve("llama-3.3-70b", "8xh100:fp8", "concurrency", **case)
    each = [rl.solve("llama-3.3-70b", f"8xh100:tp{tp}:fp8", "concurrency", **case).value or 0.0 for tp in (2, 4, 8)]
    assert found.value == max(each) > 0.0


def test_more_gpus_add_replicas_that_answer_no_faster_but_more():
    one, four = (rl.predict("llama-3.1-70b", "h100-sxm", tp=2, num_gpus=num_gpus, **CASE) for num_gpus in (None, 8))
    assert (one.deployment.replicas, four.deployment.replicas) == (1, 4)
    assert (one.ttft, one.tpot) == (four.ttft, four.tpot)
    assert four.output_tok_s == pytest.approx(4.0 * one.output_tok_s, rel=1e-12)
    assert four.output_tok_s_gpu == pytest.approx(one.output_tok_s_gpu, rel=1e-12)
    assert four.usd_per_hour == pytest.approx(4.0 * one.usd_per_hour, rel=1e-12)


@each("model, gpu, options, tp", [
    ("llama-3.1-8b", "h100-sxm", {}, 1),  # 16.1 GB of 85.5
    ("llama-3.1-70b", "h100-sxm", {}, 2),  # 141 GB
    ("llama-3.1-70b", "h100-sxm", {"quantization": "fp8"}, 1),  # 72.7 GB with the bf16 head and embedding
    ("llama-3.1-70b", "b200", {}, 1),  # of 192 GB
    ("llama-3.1-405b", "h200-sxm", {}, 8),  # 812 GB of 8 x 151
    ("llama-3.1-405b", "h100-sxm", {"quantization": "fp8"}, 8),
    ("llama-3.1-70b", "l40s", {}, 4),  # of 48 GB
    ("deepseek-v3", "h200-sxm", {}, 8),
])  # fmt: skip
def test_without_a_tp_the_smallest_that_fits_is_taken(model, gpu, options, tp):
    prediction = rl.predict(model, gpu, **CASE, **options)
    assert prediction.deployment.plan.tp == tp
    assert prediction.fits is True
    for smaller in possible_tp(prediction.deployment.model, tp - 1):
        with pytest.raises(rl.DoesNotFit):
            rl.predict(model, gpu, **CASE, tp=smaller, **options)


def test_a_longer_answer_or_a_larger_batch_takes_a_larger_tp():
    assert rl.predict(*SMALL, isl=1000, osl=10, batch=1000).deployment.plan.tp > 1


# --- memory ------------------------------------------------------------------------------------


def test_a_case_that_does_not_fit_names_the_shortfall():
    with pytest.raises(rl.DoesNotFit) as caught:
        rl.predict("llama-3.1-405b", "h100-sxm", tp=1)
    message = str(caught.value)
    # 405,853,388,800 parameters in bf16 are 811.7 GB; 79.65 GiB are 85.5 GB, of which 8 % are reserved.
    assert "weights 811.7 GB" in message
    assert "usable 85.5 GB" in message
    assert "reserve 6.8 GB" in message
    shortfall = float(re.search(r"per GPU by ([\d.]+) GB", message)[1])
    parts = [float(number) for number in re.findall(r"(?:weights|cache|activations|reserve) ([\d.]+) GB", message)]
    assert len(parts) == 4
    assert shortfall == pytest.approx(sum(parts) - 85.5, abs=0.2)


OVERSIZED = [
    ("llama-3.1-405b", "h100-sxm", {"tp": 1}),
    ("llama-3.1-405b", "h100-sxm", {}),
    ("llama-3.1-405b", "h100-sxm", {"tp": 8}),
    ("llama-3.1-405b", "h200-sxm", {"tp": 4}),
    ("llama-3.1-405b", "a100-sxm-80gb", {}),
    ("llama-3.1-405b", "a100-sxm-80gb", {"tp": 8}),
    ("llama-3.1-405b", "l40s", {}),
    ("llama-3.1-405b", "l40s", {"pp": 2}),
    ("llama-3.1-70b", "h100-sxm", {"tp": 1}),
    ("llama-3.1-70b", "h100-sxm", {"tp": 2, "batch": 4096}),
    ("llama-3.1-70b", "h100-sxm", {"tp": 1, "quantization": "fp8", "isl": 100_000, "batch": 8}),
    ("llama-3.1-70b", "a100-sxm-80gb", {"tp": 1}),
    ("llama-3.1-70b", "l40s", {"tp": 1}),
    ("llama-3.1-70b", "l40s", {"tp": 2}),
    ("llama-3.1-8b", "h100-sxm", {"tp": 1, "batch": 10_000}),
    ("llama-3.1-8b", "h100-sxm", {"batch": 1_000_000}),
    ("llama-3.1-8b", "l40s", {"tp": 1, "isl": 120_000, "batch": 4}),
    ("llama-2-70b", "h100-sxm", {"dp": 8}),
    ("llama-2-70b", "a100-sxm-80gb", {"dp": 8}),
    ("llama-2-7b", "l40s", {"tp": 1, "isl": 4000, "osl": 90, "batch": 64}),
    ("qwen3-235b-a22b", "h100-sxm", {"tp": 4}),
    ("qwen3-235b-a22b", "a100-sxm-80gb", {"tp": 4}),
    ("qwen3-235b-a22b", "l40s", {}),
    ("mixtral-8x7b", "h100-sxm", {"tp": 1}),
    ("mixtral-8x7b", "l40s", {"tp": 2}),
    ("deepseek-v3", "h100-sxm", {}),
    ("deepseek-v3", "h100-sxm", {"dp": 8, "ep": 8}),
    ("deepseek-v3", "a100-sxm-80gb", {"tp": 8}),
    ("deepseek-v3", "b200", {"tp": 2}),
    ("gpt-oss-120b", "l40s", {"tp": 1}),
    ("gpt-oss-120b", "h100-sxm", {"tp": 1, "batch": 4000}),
    ("gemma-3-27b", "l40s", {"tp": 1}),
    ("gemma-3-27b", "l40s", {"tp": 1, "isl": 100_000, "batch": 16}),
]


@each(("model", "gpu", "options"), OVERSIZED, ids=["-".join(map(str, case)) for case in OVERSIZED])
def test_what_the_error_proposes_really_fits(model, gpu, options):
    with pytest.raises(rl.DoesNotFit) as caught:
        rl.predict(model, gpu, **options)
    message = str(caught.value)
    taken = int(re.search(r"at tp (\d+)", message)[1])
    proposals = re.split(r",? or ", message.split("; try ")[1])
    assert proposals
    tried = 0
    for proposal in proposals:
        changes = {name: int(number) for name, number in re.findall(r"\b(tp|pp|batch) = (\d+)", proposal)}
        preset = re.search(r"`quantization` (\w+)", proposal)
        if preset:
            changes["quantization"] = preset[1]
        if changes:
            prediction = rl.predict(model, gpu, **{"tp": taken, **options, **changes})
            assert prediction.fits is True, proposal
            tried += 1
    assert tried or "more memory" in message


@each(("model", "gpu", "options"), OVERSIZED[:12], ids=["-".join(map(str, case)) for case in OVERSIZED[:12]])
def test_an_oversized_plan_is_predicted_on_request(model, gpu, options):
    prediction = rl.predict(model, gpu, **options, allow_oversize=True)
    assert prediction.fits is False
    assert prediction.ttft > 0.0
    row = prediction.to_dict()
    assert row["fits"] is False
    assert row["hbm_used_frac"] > 1.0


def test_a_batch_fits_exactly_up_to_the_memory_knee():
    options = {"isl": 8000, "osl": 1000, "tp": 1}  # prompts that fill a chunk
    knee = rl.predict(*SMALL, **options).knees.memory
    assert rl.predict(*SMALL, **options, batch=knee).fits is True
    with pytest.raises(rl.DoesNotFit):
        rl.predict(*SMALL, **options, batch=knee + 1)


# --- numbers -----------------------------------------------------------------------------------

NUMBERS = ("isl", "osl", "batch", "prefix")
LOADS = ("batch", "concurrency", "request_rate")
IMPOSSIBLE = [
    -1, -0.5, 1e30, 10**40, 10**400, 10**5000, -(10**5000), math.nan, math.inf, -math.inf, True, False, "five", b"5",
    "", None, 1j, [], (), {}, {5}, object(), [1, "a"], [None], [True], [[1], [1, 2]], [math.nan, 1.0], [1.0, math.inf],
    [10**40], [10**5000], np.array([]), np.array([[]]), np.array(["5"]), np.array([1j]), np.array([True]),
    np.array([5], dtype=object), np.array(["2026-01-01"], dtype="datetime64[D]"), np.float64("nan"), np.bool_(True),
    iter([5]), range,
]  # fmt: skip


@each("value", IMPOSSIBLE, ids=short)
@each("name", [*NUMBERS, "concurrency", "request_rate"])
def test_what_is_no_length_is_refused_by_name(name, value):
    if value is None and name in LOADS:
        return  # another load, or none at all
    with pytest.raises(rl.BadInput, match=name) as caught:
        rl.predict(*SMALL, **{name: value})
    assert len(str(caught.value)) < 300


def test_no_load_is_a_burst_of_one_request():
    one = rl.predict(*SMALL, batch=1)
    assert (one.load, one.workload.batch) == ("burst", 1.0)
    assert rl.predict(*SMALL) == rl.predict(*SMALL, **dict.fromkeys(LOADS)) == one


@each("name", ["isl", "osl", "batch", "concurrency"])
@each("value", [0, 0.0, 0.999, [0, 1], np.zeros(3)], ids=short)
def test_less_than_one_token_or_sequence_is_refused(name, value):
    with pytest.raises(rl.BadInput, match=rf"^{name} = .* must be at least 1$"):
        rl.predict(*SMALL, **{name: value})


_odd_numbers = (
    st.integers()
    | st.floats()
    | st.none()
    | st.booleans()
    | st.text(max_size=4)
    | st.complex_numbers()
    | st.binary(max_size=2)
)


@given(value=_odd_numbers | st.lists(_odd_numbers, max_size=3), name=st.sampled_from(NUMBERS))
@example(2**1024, "isl")
@example(5e-324, "batch")
def test_any_value_is_refused_or_predicted(value, name):
    try:
        prediction = rl.predict(*SMALL, **{name: value}, tp=1, allow_oversize=True)
    except rl.BadInput:
        return
    assert np.all(np.asarray(prediction.ttft, dtype=float)[np.asarray(prediction.fits)] > 0.0)
    json.dumps(prediction.to_dict(), allow_nan=False)


@pytest.mark.parametrize("prefix", [1001, 1000.5, [0, 1001], 10**6])
def test_a_prefix_beyond_the_prompt_is_refused(prefix):
    with pytest.raises(rl.BadInput, match=r"prefix = .* must not exceed the prompt, isl = 1000"):
        rl.predict(*SMALL, isl=1000, prefix=prefix)


def test_a_prompt_that_is_cached_whole_still_computes_one_token():
    whole, all_but_one = (rl.predict(*SMALL, isl=1000, osl=10, prefix=prefix) for prefix in (1000, 999))
    assert whole.ttft == all_but_one.ttft
    assert 0.0 < whole.ttft < rl.predict(*SMALL, isl=1000, osl=10).ttft


def test_a_cached_prefix_shortens_the_first_token_and_no_other():
    plain, cached = (rl.predict(*SMALL, isl=4000, osl=100, prefix=prefix) for prefix in (0, 3000))
    assert cached.ttft < plain.ttft
    assert cached.tpot == plain.tpot
    assert cached.memory.kv_cache == plain.memory.kv_cache


@pytest.mark.parametrize(("isl", "osl", "warns"), [(131_000, 72, False), (131_000, 73, True), (200_000, 1, True)])
def test_a_context_beyond_that_of_the_model_is_said(isl, osl, warns):
    prediction = rl.predict("llama-3.1-8b", "b200", isl=isl, osl=osl)
    assert said(prediction, "exceeds the 131072-token context of llama-3.1-8b") is warns


def test_a_column_of_contexts_of_which_one_is_too_long_is_said():
    assert said(rl.predict(*SMALL, isl=[1000, 140_000], osl=10), "exceeds the 131072-token context")


@each("within, beyond, words", [
    ({"isl": 8192, "batch": 16}, {"isl": 8192, "batch": 17}, "131,072 prompt tokens in one pass"),
    ({"isl": 131_000, "osl": 72}, {"isl": 131_000, "osl": 73}, "context beyond 131,072 tokens"),
    ({"isl": 10, "batch": 2048}, {"isl": 10, "batch": 2049}, "batch beyond 2,048 sequences"),
    ({"isl": 10, "batch": 4096, "dp": 2}, {"isl": 10, "batch": 4097, "dp": 2}, "batch beyond 2,048 sequences"),
    ({"isl": 9000, "batch": 16, "prefix": 1000}, {"isl": 9000, "batch": 17, "prefix": 1000}, "prompt tokens in one"),
    ({"isl": 16_385, "batch": 15}, {"isl": 16_385, "batch": 16}, "prompt tokens in one"),  # in two steps each
    (
        {"isl": 9000, "batch": 14, "max_num_batched_tokens": 9000},
        {"isl": 9000, "batch": 15, "max_num_batched_tokens": 9000},
        "prompt tokens in one",
    ),
])  # fmt: skip
def test_shapes_beyond_the_kernels_that_were_timed_are_said(within, beyond, words):
    assert not said(rl.predict("llama-3.1-8b", "gb300-nvl72", **within), words)
    assert said(rl.predict("llama-3.1-8b", "gb300-nvl72", **beyond), words)
    assert not said(rl.predict("llama-3.1-8b", "gb300-nvl72", basis="ideal", **beyond), words)  # light has no shapes


def test_a_single_token_has_no_time_per_further_token():
    prediction = rl.predict(*SMALL, isl=1000, osl=1)
    assert prediction.tpot is None
    assert prediction.itl is None
    assert prediction.tok_s_user is None
    assert prediction.e2el == prediction.ttft
    row = prediction.to_dict()
    assert (row["tpot_ms"], row["itl_ms"], row["tok_s_user"]) == (None, None, None)
    assert rl.tpot(*SMALL, isl=1000, osl=1) is None


# --- limits ------------------------------------------------------------------------------------


@each("limit", [0, -1.0, math.nan, math.inf, "0.3", None, True, [0.3], 1j, 10**400], ids=short)
@each("key", ["ttft", "tpot", "e2el"])
def test_a_limit_that_is_no_positive_time_is_refused(key, limit):
    with pytest.raises(rl.BadInput, match=key):
        rl.predict(*SMALL, slo={key: limit})


@each("key", ["tppt", "TT FT", "", "ttft p", 5, None])
def test_a_limit_on_what_is_no_latency_is_refused_with_those_that_are(key):
    with pytest.raises(rl.UnknownName, match="ttft, tpot, itl, e2el"):
        rl.predict(*SMALL, slo={key: 1.0})


@pytest.mark.parametrize("slo", ["ttft=300", 5, [("ttft", 0.3)], ["ttft"]])
def test_limits_that_are_neither_text_nor_mapping_are_refused(slo):
    with pytest.raises((rl.BadInput, rl.UnknownName)):
        rl.predict(*SMALL, slo=slo)


def test_the_slo_knee_is_the_largest_batch_that_meets_the_limits():
    slo = {"ttft": 0.3, "tpot": 0.0125}
    knee = rl.predict(*SMALL, **CASE, slo=slo).knees.slo
    assert knee is not None
    assert knee >= 1.0
    at, beyond = (rl.predict(*SMALL, **CASE, tp=1, batch=batch) for batch in (knee, knee + 1.0))
    assert at.ttft <= slo["ttft"]
    assert at.tpot <= slo["tpot"]
    assert beyond.ttft > slo["ttft"] or beyond.tpot > slo["tpot"]


@pytest.mark.parametrize("slo", [None, {}])
def test_without_limits_there_is_no_slo_knee(slo):
    assert rl.predict(*SMALL, **CASE, slo=slo).to_dict()["slo_knee"] is None


def test_limits_that_no_batch_meets_give_a_knee_of_zero():
    prediction = rl.predict(*SMALL, **CASE, slo={"ttft": 1e-9})
    assert prediction.to_dict()["slo_knee"] == 0
    assert prediction.knee_bound == "slo"


# --- arrays ------------------------------------------------------------------------------------


@each("isl", [
    [1000, 2000],
    (1000, 2000),
    np.array([1000, 2000]),
    np.array([1000, 2000], dtype=np.int32),
    np.array([1000, 2000], dtype=np.uint16),
    np.array([1000.0, 2000.0], dtype=np.float32),
    range(1000, 3000, 1000),
    np.array([1000, 0, 2000])[::2],
], ids=["list", "tuple", "int64", "int32", "uint16", "float32", "range", "strided"])  # fmt: skip
def test_a_column_of_any_kind_gives_what_its_numbers_give(isl):
    column = rl.predict(*SMALL, isl=isl, osl=100, tp=1)
    singles = [rl.predict(*SMALL, isl=length, osl=100, tp=1) for length in (1000, 2000)]
    # From numpy 2.5 on, a power of an array differs from that of a float in the last bit.
    assert list(column.ttft) == pytest.approx([single.ttft for single in singles], rel=1e-12)
    assert list(column.tpot) == pytest.approx([single.tpot for single in singles], rel=1e-12)
    assert list(column.bound["prefill"]) == [single.bound["prefill"] for single in singles]
    assert column.ttft.dtype == np.float64


@pytest.mark.parametrize("isl", [np.array(1000), np.float64(1000.0), np.int64(1000), np.float32(1000.0), 1000.0])
def test_a_scalar_of_any_kind_gives_a_plain_number(isl):
    prediction = rl.predict(*SMALL, isl=isl)
    assert type(prediction.ttft) is float
    assert prediction.ttft == rl.predict(*SMALL, isl=1000).ttft
    assert prediction.to_dict() == rl.predict(*SMALL, isl=1000).to_dict()


def test_rows_and_columns_broadcast_to_a_table():
    isl, batch = np.array([[1000], [2000]]), np.array([[1, 8, 64]])
    table = rl.predict(*SMALL, isl=isl, batch=batch, osl=100, tp=1)
    assert table.ttft.shape == table.e2el.shape == (2, 3)
    for row, length in enumerate(isl[:, 0]):
        for column, size in enumerate(batch[0]):
            single = rl.predict(*SMALL, isl=int(length), batch=int(size), osl=100, tp=1)
            assert table.ttft[row, column] == pytest.approx(single.ttft, rel=1e-12)


@each(("one", "other"), [([1, 2], [1, 2, 3]), (np.ones((2, 3)), np.ones((3, 2))), (np.ones((2, 2)), np.ones(3))])
@each("names", [("isl", "osl"), ("isl", "batch"), ("osl", "batch"), ("isl", "prefix"), ("prefix", "batch")])
def test_shapes_that_do_not_go_together_are_refused(names, one, other):
    with pytest.raises(rl.BadInput, match="broadcast"):
        rl.predict(*SMALL, **dict(zip(names, (one, other), strict=True)))


def test_times_are_missing_where_a_case_of_a_column_does_not_fit():
    column = rl.predict(*SMALL, isl=1000, osl=100, batch=[1, 10**6, 4], tp=1)
    assert list(column.fits) == [True, False, True]
    for time in (column.ttft, column.tpot, column.e2el, column.output_tok_s, column.tok_s_user):
        assert list(np.isnan(time)) == [False, True, False]


def test_each_case_of_a_column_takes_its_own_tp():
    column = rl.predict("llama-3.1-70b", "h100-sxm", isl=1000, osl=100, batch=[1, 200])
    singles = [rl.predict("llama-3.1-70b", "h100-sxm", isl=1000, osl=100, batch=batch) for batch in (1, 200)]
    degrees = [single.deployment.plan.tp for single in singles]
    assert degrees[0] < degrees[1]
    assert column.deployment.plan.tp.tolist() == degrees
    assert column.ttft.tolist() == pytest.approx([single.ttft for single in singles], rel=1e-12)
    assert bool(column.fits.all())


def test_a_single_token_in_a_column_has_no_time_per_further_token():
    column = rl.predict(*SMALL, isl=1000, osl=[1, 100])
    assert list(np.isnan(column.tpot)) == [True, False]
    assert column.e2el[0] == column.ttft[0]
    assert column.to_dict()["tpot_ms"][0] is None


def test_the_arrays_that_are_given_are_left_as_they_were():
    isl = np.array([1000, 2000])
    kept = isl.copy()
    rl.predict(*SMALL, isl=isl, osl=isl, batch=isl).to_dict()
    assert isl.dtype == kept.dtype
    assert list(isl) == list(kept)


# --- the answer --------------------------------------------------------------------------------

ANSWERS = {
    "plain": lambda: rl.predict(*SMALL, **CASE),
    "ideal": lambda: rl.predict(*SMALL, **CASE, basis="ideal"),
    "one token": lambda: rl.predict(*SMALL, isl=2000, osl=1),
    "limits": lambda: rl.predict(*SMALL, **CASE, slo={"ttft": 0.3, "tpot": 0.02}),
    "experts": lambda: rl.predict("deepseek-v3", "b200", tp=8, batch=16, **CASE),
    "fp8": lambda: rl.predict("llama-3.1-70b", "h100-sxm", **CASE, quantization="fp8"),
    "oversize": lambda: rl.predict("llama-3.1-405b", "h100-sxm", tp=1, allow_oversize=True),
    "column": lambda: rl.predict(*SMALL, isl=[1000, 2000], osl=[1, 300], batch=[1, 10**6], tp=1),
    "users": lambda: rl.predict(*SMALL, **CASE, concurrency=64, slo={"ttft": 0.3, "tpot": 0.02}),
    "a run": lambda: rl.predict(*SMALL, **CASE, concurrency=64, num_prompts=640),
    "rate": lambda: rl.predict(*SMALL, **CASE, request_rate=1.5),
    "rates": lambda: rl.predict(*SMALL, isl=[1000, 2000], osl=300, request_rate=[1.5, 900.0], tp=1),
    "table": lambda: rl.predict(*SMALL, isl=[[1000], [2000]], osl=[[1, 300, 10]], batch=[[1, 2, 10**6]], tp=1),
}


@pytest.fixture(params=ANSWERS)
def answer(request):
    return ANSWERS[request.param]()


def test_a_row_has_exactly_the_agreed_keys_in_order(answer):
    assert list(answer.to_dict()) == list(ROW_KEYS)


def test_a_row_is_json_without_what_json_does_not_know(answer):
    row = answer.to_dict()
    assert json.loads(json.dumps(row, allow_nan=False)) == row


def test_a_row_says_the_same_as_the_attributes_in_its_own_units(answer):
    row = answer.to_dict()
    stated = {
        "ttft_ms": (answer.ttft, 1e3), "tpot_ms": (answer.tpot, 1e3), "itl_ms": (answer.itl, 1e3),
        "e2el_ms": (answer.e2el, 1e3), "tok_s_user": (answer.tok_s_user, 1.0),
        "output_tok_s": (answer.output_tok_s, 1.0), "output_tok_s_gpu": (answer.output_tok_s_gpu, 1.0),
        "weights_gb": (answer.memory.weights, 1e-9), "kv_cache_gb": (answer.memory.kv_cache, 1e-9),
        "hbm_used_frac": (answer.memory.used / answer.memory.usable, 1.0), "half_knee": (answer.knees.half, 1.0),
        "memory_knee": (answer.knees.memory, 1.0), "ridge_knee": (answer.knees.ridge, 1.0),
        "slo_knee": (answer.knees.slo, 1.0), "knee": (answer.knee, 1.0), "usd_per_hour": (answer.usd_per_hour, 1.0),
        "usd_per_m_output_tok": (answer.usd_per_m_output_tok, 1.0), "isl": (answer.workload.isl, 1.0),
        "osl": (answer.workload.osl, 1.0), "batch": (answer.workload.batch if answer.load == "burst" else None, 1.0),
        "concurrency": (answer.concurrency, 1.0), "request_rate": (answer.request_rate, 1.0),
        "util": (answer.util, 1.0), "running": (answer.running, 1.0), "waiting": (answer.waiting, 1.0),
        "queue_ms": (answer.queue, 1e3), "max_request_rate": (answer.max_request_rate, 1.0),
        "prefix": (answer.workload.prefix, 1.0),
        **{
            f"{result}_{end}_ms": (None if interval is None else interval[position], 1e3)
            for result, interval in (
                ("ttft", answer.ttft_interval),
                ("tpot", answer.tpot_interval),
                ("e2el", answer.e2el_interval),
            )
            for position, end in enumerate(("low", "high"))
        },
    }  # fmt: skip
    for key, (value, scale) in stated.items():
        expected = np.full((), math.nan) if value is None else np.asarray(value, dtype=float) * scale
        expected = np.where(np.isfinite(expected), expected, math.nan)
        found = np.array(row[key], dtype=object)
        found = np.where(found == None, math.nan, found).astype(float)  # noqa: E711
        assert found.shape == expected.shape, key
        assert np.allclose(found, expected, rtol=1e-12, atol=0.0, equal_nan=True), key


def test_a_row_names_the_plan_and_what_it_stands_on(answer):
    row, deployment = answer.to_dict(), answer.deployment
    assert (row["model"], row["model_id"]) == (deployment.model.short_name, deployment.model.name)
    assert row["gpu"] == deployment.gpu.name
    assert row["num_gpus"] == row["tp"] * row["pp"] * row["dp"] * deployment.replicas
    assert (row["basis"], row["engine"]) == (answer.basis, "none" if answer.basis == "ideal" else "generic")
    assert row["basis_detail"].startswith(f"{answer.basis}: ")
    assert row["warnings"] == list(answer.warnings)
    fits = np.asarray(row["fits"])
    assert fits.dtype == bool
    assert np.array_equal(fits, np.asarray(answer.fits))


def test_the_end_to_end_latency_is_the_first_token_and_the_steps_after_it():
    prediction = rl.predict(*SMALL, **CASE)
    assert prediction.e2el == pytest.approx(prediction.ttft + 299 * prediction.tpot, rel=1e-12)
    assert prediction.itl == prediction.tpot
    assert prediction.tok_s_user == pytest.approx(1.0 / prediction.tpot, rel=1e-12)
    assert prediction.output_tok_s == pytest.approx(300 / prediction.e2el, rel=1e-12)
    assert prediction.tpot_first < prediction.tpot < prediction.tpot_last


def test_the_breakdown_sums_to_the_latencies():
    prediction = rl.predict("deepseek-v3", "h200-sxm", tp=8, **CASE)
    assert sum(prediction.breakdown["prefill"].values()) == pytest.approx(prediction.ttft, rel=1e-12)
    assert sum(prediction.breakdown["decode"].values()) == pytest.approx(prediction.tpot, rel=1e-12)


def test_the_knee_is_the_smallest_of_the_four_and_named(answer):
    if answer.load == "request_rate":  # which sets the batch itself
        row = answer.to_dict()
        assert {row[key] for key in row if "knee" in key} == {None}
        return
    knees = {
        "ridge": answer.knees.ridge, "half": answer.knees.half, "memory": answer.knees.memory, "slo": answer.knees.slo,
    }  # fmt: skip
    values = {
        name: np.broadcast_to(np.asarray(value, dtype=float), np.shape(answer.knee))
        for name, value in knees.items()
        if value is not None
    }
    assert np.array_equal(answer.knee, np.minimum.reduce(list(values.values())))
    for place, name in np.ndenumerate(answer.knee_bound):
        assert values[str(name)][place] == np.asarray(answer.knee)[place]


def test_an_answer_in_words_never_falls_into_exponents():
    for isl in (1000, 8000, 64_000):
        for batch in (1, 100, 1000):
            text = str(rl.predict("llama-3.1-8b", "gb200-nvl72", isl=isl, osl=100, batch=batch, allow_oversize=True))
            assert not re.search(r"\de[+-]?\d", text), text


def test_a_number_that_rounds_to_a_thousand_is_written_as_one():
    assert "isl 1000," in str(rl.predict(*SMALL, isl=999.7))


@pytest.mark.parametrize("attribute", ["engine", "warnings", "workload", "ttft", "made_up"])
def test_an_answer_cannot_be_changed(attribute):
    prediction = rl.predict(*SMALL)
    with pytest.raises(AttributeError):
        setattr(prediction, attribute, None)


def test_the_records_cannot_be_changed():
    for record, attribute in ((rl.load_gpu("h100"), "bandwidth"), (rl.load_model("llama-3.1-8b"), "hidden")):
        with pytest.raises(AttributeError):
            setattr(record, attribute, 1)


def test_an_answer_survives_copying_and_pickling():
    prediction = rl.predict(*SMALL, **CASE, slo={"ttft": 0.3})
    for twin in (copy.copy(prediction), copy.deepcopy(prediction), pickle.loads(pickle.dumps(prediction))):
        assert twin.to_dict() == prediction.to_dict()


def test_asking_twice_gives_the_same_answer():
    assert rl.predict(*SMALL, **CASE).to_dict() == rl.predict(*SMALL, **CASE).to_dict()


def test_records_are_accepted_in_place_of_names():
    by_name = rl.predict("llama-3.1-70b", "h100-sxm", **CASE)
    by_record = rl.predict(rl.load_model("llama-3.1-70b"), rl.load_gpu("h100"), **CASE)
    assert by_name.to_dict() == by_record.to_dict()


def test_the_short_functions_give_what_the_prediction_gives():
    prediction = rl.predict(*SMALL, **CASE)
    assert rl.ttft(*SMALL, **CASE) == prediction.ttft
    assert rl.tpot(*SMALL, **CASE) == prediction.tpot
    assert rl.knee(*SMALL, **CASE) == prediction.knees


def test_the_lengths_default_to_those_of_the_random_data_set_of_vllm_bench_serve():
    workload = rl.predict(*SMALL).workload
    assert (workload.isl, workload.osl, workload.batch, workload.prefix) == (1024.0, 128.0, 1.0, 0.0)


def test_the_calibrated_basis_is_never_faster_than_the_ideal_one():
    for model in SAMPLE_MODELS:
        for gpu in SAMPLE_GPUS:
            ideal, real = (
                rl.predict(model, gpu, **CASE, allow_oversize=True, basis=basis) for basis in ("ideal", "calibrated")
            )
            assert real.ttft >= ideal.ttft
            assert real.tpot >= ideal.tpot


@tiers.has_more_cases
def test_every_model_and_every_gpu_runs_or_is_refused_for_its_size():
    usual = ("h100-sxm", "mi300x", "gb300-nvl72")
    pairs = {(model, usual[place % 3]) for place, model in enumerate(rl.models())}
    pairs |= {(model, gpu) for model in SAMPLE_MODELS for gpu in usual}
    narrow = {"mi430x", "rubin-cpx", "trainium4"}  # announced with peaks of fewer bits alone
    for place, gpu in enumerate(name for name in rl.gpus() if name not in narrow):
        pairs |= {(model, gpu) for model in SAMPLE_MODELS[place % 4 :: 4]}
    assert {model for model, _ in pairs} == set(rl.models())
    assert {gpu for _, gpu in pairs} == set(rl.gpus()) - narrow
    for model, gpu in tiers.some(sorted(pairs), 90):
        try:
            row = rl.predict(model, gpu, **CASE).to_dict()
        except rl.DoesNotFit:
            continue
        assert row["ttft_ms"] > 0.0
        assert row["tpot_ms"] > 0.0
        assert row["hbm_used_frac"] <= 1.0


def test_a_gpu_that_states_no_16_bit_peak_is_refused_by_name():
    with pytest.raises(rl.UnsupportedPrecision, match="rubin-cpx has no 16-bit peak"):
        rl.predict("llama-3.1-8b", "rubin-cpx")
