"""Names of quantised repositories: the model that they are made of, in the format that they state."""

import json

import pytest
from checkpoint_files import LLAMA_8B
from every_case import each

import roofline as rl

ANSWERED = [
    ("RedHatAI/Llama-3.3-70B-Instruct-FP8-dynamic", "llama-3.3-70b", "fp8"),
    ("nvidia/DeepSeek-R1-0528-NVFP4", "deepseek-r1", "nvfp4"),
    ("nvidia/DeepSeek-R1-FP4", "deepseek-r1", "nvfp4"),
    ("hugging-quants/Meta-Llama-3.1-8B-Instruct-AWQ-INT4", "llama-3.1-8b", "int4"),
    ("Qwen/Qwen2.5-72B-Instruct-GPTQ-Int4", "qwen2.5-72b", "int4"),
    ("Qwen/Qwen2.5-72B-Instruct-GPTQ-Int8", "qwen2.5-72b", "w8a16"),
    ("RedHatAI/Meta-Llama-3.1-8B-Instruct-quantized.w8a8", "llama-3.1-8b", "w8a8"),
    ("RedHatAI/Qwen3-32B-quantized.w4a16", "qwen3-32b", "w4a16"),
    ("unsloth/Llama-3.3-70B-Instruct-GGUF", "llama-3.3-70b", "q4_k_m"),
    ("unsloth/Qwen3-8B-GGUF:Q5_K_M", "qwen3-8b", "q5_k_m"),
    ("google/gemma-3-27b-it-qat-q4_0-gguf", "gemma-3-27b", "q4_0"),
    ("turboderp/Llama-3.1-8B-Instruct-exl2-4.65bpw", "llama-3.1-8b", "4.65bpw"),
    ("mlx-community/Qwen3-8B-4bit", "qwen3-8b", "4.5bpw"),
    ("qwen3-8b-awq", "qwen3-8b", "awq"),
    ("nvidia/DeepSeek-R1-0528-FP4-V2", "deepseek-r1", "nvfp4"),
    ("amd/DeepSeek-R1-0528-MXFP4-v2", "deepseek-r1", "mxfp4"),
    ("nvidia/Qwen3.5-397B-A17B-NVFP4-V2", "qwen3.5-397b-a17b", "nvfp4"),
    ("MiniMaxAI/MiniMax-M3-MXFP8", "minimax-m3", "fp8_block"),
]


@each(("name", "base", "preset"), ANSWERED)
def test_a_quantised_name_answers_as_its_base_with_the_format_chosen(name, base, preset):
    options = {"gpu": "b200", "tp": 8, "isl": 4000, "osl": 100, "batch": 16}
    answer, expected = rl.predict(name, **options), rl.predict(base, quantization=preset, **options)
    figures = ("ttft", "tpot", "memory")
    assert [getattr(answer, name) for name in figures] == [getattr(expected, name) for name in figures]
    assert answer.deployment.quantization.kv_format == expected.deployment.quantization.kv_format
    assert any(f"{name} is read as {base} in " in text for text in answer.warnings)


def test_a_stated_format_wins_and_the_answer_says_so():
    name = "RedHatAI/Llama-3.3-70B-Instruct-FP8-dynamic"
    for choice in ({"quantization": "int4"}, {"weights": "int4"}):
        answer = rl.predict(name, "h100", tp=4, **choice)
        assert answer.deployment.quantization.sections["linear"].format == "int4"
        assert "the name of the model says fp8; what was chosen holds instead" in answer.warnings
    assert (
        rl.predict(name, "h100", tp=8, quantization="native").deployment.quantization.sections["linear"].format
        == "bf16"
    )


def test_names_of_the_catalog_stay_and_an_unknown_base_or_format_is_refused():
    assert rl.load_model("nvidia/DeepSeek-V3.2-NVFP4").preset is None
    assert rl.load_model("qwen3-32b-fp8").preset is None
    assert rl.load_model("Qwen/Qwen3-32B").preset is None
    for name in ["foo/Bar-8B-FP8", "Qwen/Qwen2.5-VL-72B-Instruct-AWQ", "FP8", "-awq", "x/-GGUF"]:
        with pytest.raises(rl.UnknownName, match="unknown model"):
            rl.load_model(name)
    with pytest.raises(rl.UnknownName, match="bitsandbytes, which are not modelled; int4 is nearest"):
        rl.predict("unsloth/Qwen3-14B-unsloth-bnb-4bit", "h100")


@pytest.mark.parametrize(
    ("folder", "said"),
    [
        ("GLM-5-NVFP4", "says nvfp4, the configuration states no quantisation: counted as bf16; choose -q nvfp4"),
        ("Llama-3.1-8B-Instruct-FP8", "choose -q fp8"), ("Llama-AWQ", "choose -q int4"),
        ("Llama-GPTQ-Int8", "choose -q w8a16"), ("Llama-3.1-8B", None), ("Llama-BF16", None),
    ],
)  # fmt: skip
def test_a_configuration_that_does_not_state_the_format_of_its_name_is_warned_about(tmp_path, folder, said):
    path = tmp_path / folder
    path.mkdir()
    (path / "config.json").write_text(json.dumps(LLAMA_8B))
    cautions = " ".join(rl.load_model(str(path)).cautions)
    assert (said or "") in cautions
    assert ("states no quantisation" in cautions) is (said is not None)
    stated = {"quantization_config": {"quant_method": "fp8"}}
    (path / "config.json").write_text(json.dumps(LLAMA_8B | stated))
    assert "states no quantisation" not in " ".join(rl.load_model(str(path)).cautions)


#: Bits per weight of Llama-3.1-8B, and the size that llama.cpp states for it [GiB] (tools/quantize/README.md).
PUBLISHED = {"q4_k_m": 4.58, "q5_k_m": 5.33, "q6_k": 6.14, "q8_0": 7.95, "iq4_xs": 4.17, "q2_k": 2.95}


@each("preset", PUBLISHED)
def test_mixtures_of_llama_cpp_take_what_it_states(preset):
    answer = rl.predict("llama-3.1-8b", "h100", quantization=preset.upper())
    assert answer.memory.weights / 2**30 == pytest.approx(PUBLISHED[preset], abs=0.006)
    scheme = answer.deployment.quantization.sections["linear"]
    assert (scheme.format, scheme.peak) == (preset, "bf16")


def test_bits_per_weight_are_read_and_multiplied_in_sixteen():
    answer, narrow = (rl.predict("qwen3-8b", "h100", quantization=bits) for bits in ("4.9bpw", "3bpw"))
    sections = answer.deployment.quantization.sections
    assert {sections[name].weight_nbytes for name in ("linear", "attention", "embed", "head")} == {4.9 / 8}
    assert sections["norm"].weight_nbytes == 2.0
    assert sections["linear"].peak == "bf16"
    assert narrow.tpot < answer.tpot < rl.predict("qwen3-8b", "h100").tpot
    assert any("4.9bpw: 4.9 bits per weight; multiplied in 16 bits" in text for text in answer.warnings)
    for wrong in ("0bpw", "0.5bpw", "99bpw", "1e3bpw", "-4bpw", "bpw", "4.9.1bpw"):
        with pytest.raises(rl.UnknownName, match=r"unknown quantization preset .*bits per weight as 4\.9bpw"):
            rl.predict("qwen3-8b", "h100", quantization=wrong)
