"""Number formats in the words of engines and quantisers."""

import pytest
from every_case import each

import roofline as rl
from roofline.serving.quantization import PRESETS, canonical_preset
from roofline.specs.formats import FORMATS, is_format, number_format, spelling

SMALL = ("llama-3.1-8b", "h100-sxm")


def dtypes(gpu, **options):
    row = rl.predict("llama-3.1-8b", gpu, **options).to_dict()
    return row["weight_dtype"], row["compute_dtype"]


# vLLM's --quantization and llm-compressor's schemes, SGLang's --quantization, ModelOpt's formats, TensorRT-LLM's
# algorithms: what each stores, and what multiplies it.
@each(
    ("word", "stored", "multiplied"),
    [
        ("awq", "int4", "bf16"), ("gptq", "int4", "bf16"), ("awq_marlin", "int4", "bf16"),
        ("gptq_marlin", "int4", "bf16"), ("w4a16", "int4", "bf16"), ("W4A16_AWQ", "int4", "bf16"),
        ("int4_awq", "int4", "bf16"), ("int4-awq", "int4", "bf16"), ("w4afp8", "int4", "fp8"),
        ("w4a8_awq", "int4", "fp8"), ("w8a8", "int8", "int8"), ("W8A8-INT8", "int8", "int8"),
        ("w8a8_int8", "int8", "int8"), ("w8a8-fp8", "fp8", "fp8"), ("w8a8_fp8", "fp8", "fp8"), ("FP8", "fp8", "fp8"),
        ("fp8-dynamic", "fp8", "fp8"), ("fp8_e4m3", "fp8", "fp8"), ("ptpc_fp8", "fp8", "fp8"),
        ("modelopt", "fp8_static", "fp8"), ("FP8_BLOCK_SCALES", "fp8_block", "fp8"), ("w8a16", "int8", "bf16"),
        ("bfloat16", "bf16", "bf16"), ("half", "fp16", "fp16"), ("mxfp4", "mxfp4", "bf16"),
    ],
)  # fmt: skip
def test_a_preset_is_understood_as_the_format_that_it_is(word, stored, multiplied):
    assert dtypes("h100-sxm", quantization=word) == (stored, multiplied)


def test_four_bit_floats_are_those_of_the_vendor_and_spellings_answer_as_their_names():
    assert dtypes("b200", quantization="fp4") == ("nvfp4", "fp4")
    assert dtypes("b200", weights="fp4") == ("nvfp4", "fp4")
    assert dtypes("mi355x", quantization="fp4")[0] == "mxfp4"
    tpu = next(name for name in rl.gpus(vendor="google"))
    with pytest.raises(rl.UnknownName, match=r"fp4 is not a format of 'Google' GPUs: write nvfp4 \(NVIDIA\) or mxfp4"):
        rl.predict("llama-3.1-8b", tpu, quantization="fp4")
    with pytest.raises(rl.UnknownName, match="fp4 depends on the vendor"):
        rl.sheet("a.xlsx", *SMALL, quantization="fp4")
    for word, canonical in [("awq", "int4"), ("w8a8", "int8"), ("fp8-dynamic", "fp8"), ("FP8_STATIC", "fp8_static")]:
        first, second = (rl.predict(*SMALL, quantization=name) for name in (word, canonical))
        assert (first.ttft, first.tpot, first.memory) == (second.ttft, second.tpot, second.memory)
        assert canonical_preset(word) == canonical
    for name in FORMATS:
        assert spelling(name).format == name
        assert number_format(name.upper().replace("_", "-")).name == name
        assert is_format(name)
    assert set(PRESETS) <= set(FORMATS)
    found = rl.size("llama-3.1-8b", "b200", slo="tpot:50", quantization="fp4")
    assert found.to_records()[0]["quantization"] == "nvfp4"
    assert rl.size(*SMALL, slo="tpot:50", quantization="awq").to_records()[0]["quantization"] == "int4"


def test_what_is_not_modelled_or_stated_twice_is_refused_with_the_nearest():
    for word, advice in [
        ("w4a8", "int8 activations, for which no kernel is modelled; w4afp8"), ("qoq", "w4a16"),
        ("nf4", "int4 is nearest"), ("bitsandbytes", "int4 is nearest"),
        ("compressed-tensors", "not a number format; say which one it holds"), ("gguf", "say which one it holds"),
        ("experts_int8", "w8a16 is nearest"), ("mxfp8", "fp8_block is nearest"), ("w4a4", "write nvfp4 or mxfp4"),
        ("int3", "int4 is the narrowest"), ("fp6", "fp8 and mxfp4 are nearest"), ("fp9", "did you mean"),
        ("", "fp8_block"),
    ]:  # fmt: skip
        for options in ({"quantization": word}, {"weights": word}):
            with pytest.raises(rl.UnknownName) as caught:
                rl.predict(*SMALL, **options)
            assert advice in str(caught.value)
    assert dtypes("h100-sxm", quantization="w8a16", compute="bf16") == ("int8", "bf16")
    with pytest.raises(rl.BadInput, match="compute dtype is stated twice: fp8 by 'w4afp8', and compute = 'bf16'"):
        rl.predict(*SMALL, quantization="w4afp8", compute="bf16")
    with pytest.raises(rl.UnknownName, match="write `weights` int8, `compute` bf16, or `quantization` w8a16"):
        rl.predict(*SMALL, weights="w8a16")


def test_a_kv_cache_and_a_compute_dtype_are_written_as_engines_write_them():
    for word, kept in [
        ("fp8_e4m3", "fp8"), ("fp8_e5m2", "fp8"), ("FP8", "fp8"), ("bfloat16", "bf16"), ("auto", "bf16"),
        ("int8", "int8"),
    ]:  # fmt: skip
        assert rl.predict(*SMALL, kv_cache_dtype=word).to_dict()["kv_cache_dtype"] == kept
    for word in ["awq", "nvfp4", "fp4_e2m1"]:
        with pytest.raises(rl.UnknownName):
            rl.predict(*SMALL, kv_cache_dtype=word)
    for word, multiplied in [("bfloat16", "bf16"), ("half", "fp16"), ("FP8", "fp8"), ("fp8_e4m3", "fp8")]:
        weights = "fp8" if multiplied == "fp8" else "bf16"
        assert dtypes("h100-sxm", weights=weights, compute=word) == (weights, multiplied)
