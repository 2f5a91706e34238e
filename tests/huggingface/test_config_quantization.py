"""Number formats from what configurations say of quantisation, section by section."""

from configurations import LATENT, LLAMA, MOE, config_of, imported, model, refusal, without


def native(config, quantization=None):
    return model(config, quantization).native


def test_unquantised_weights_have_the_stated_type_and_a_head_that_is_not_ignored_is_quantised():
    assert native(LLAMA | {"torch_dtype": "float16"})["linear"] == "fp16"
    assert native(without(LLAMA, "torch_dtype") | {"dtype": "bfloat16"})["head"] == "bf16"
    content, cautions = imported(LLAMA | {"torch_dtype": "float32"})
    assert content["native"]["linear"] == "bf16"
    assert "float32" in cautions[0]
    section = compressed({"num_bits": 8, "type": "int"}, ignore=())
    config = LLAMA | {"quantization_config": section}
    assert native(config)["head"] == "int8"
    assert native(config | {"tie_word_embeddings": True})["head"] == "bf16"


def test_a_method_of_quantisation_becomes_a_format():
    for section, expected in [
        ({"quant_method": "fp8", "weight_block_size": [128, 128]}, "fp8_block"),
        ({"quant_method": "fp8", "activation_scheme": "dynamic"}, "fp8"),
        ({"quant_method": "fp8", "activation_scheme": "static"}, "fp8_static"),
        ({"quant_method": "fbgemm_fp8"}, "fp8"),
        ({"quant_method": "awq", "bits": 4, "group_size": 128}, "int4"),
        ({"quant_method": "gptq", "bits": 8}, "int8"),
        ({"quant_method": "gptq", "bits": 4, "group_size": 32}, "int4_g32"),
        ({"quant_method": "bitsandbytes", "load_in_8bit": True}, "int8"),
        ({"quant_method": "bitsandbytes", "load_in_4bit": True}, "int4"),
        ({"quant_method": "modelopt", "quant_algo": "NVFP4"}, "nvfp4"),
        ({"quant_algo": "FP8", "producer": {"name": "modelopt"}}, "fp8_static"),
    ]:
        found = native(LLAMA | {"quantization_config": section})
        assert (found["linear"], found["attention"]) == (expected, expected)
        assert (found["embed"], found["norm"], found["head"]) == ("bf16", "bf16", "bf16")
    for section, expected in [
        (compressed({"num_bits": 4, "type": "int", "group_size": 128}), "int4"),
        (compressed({"num_bits": 4, "type": "int", "group_size": 32}), "int4_g32"),
        (compressed({"num_bits": 8, "type": "int"}), "int8"),
        (compressed({"num_bits": 8, "type": "float"}), "fp8"),
        (compressed({"num_bits": 8, "type": "float"}, inputs={"dynamic": False}), "fp8_static"),
        (compressed({"num_bits": 8, "type": "float", "strategy": "block"}), "fp8_block"),
        (compressed({"num_bits": 4, "type": "float"}, packing="nvfp4-pack-quantized"), "nvfp4"),
        (compressed({"num_bits": 4, "type": "float"}, packing="mxfp4-pack-quantized"), "mxfp4"),
    ]:
        assert native(LLAMA | {"quantization_config": section})["linear"] == expected


def compressed(weights, *, ignore=("lm_head",), packing="pack-quantized", inputs=None, targets=("Linear",)):
    group = {"weights": weights, "input_activations": inputs, "targets": list(targets)}
    return {
        "quant_method": "compressed-tensors",
        "format": packing,
        "config_groups": {"group_0": group},
        "ignore": list(ignore),
    }


def test_groups_modules_published_files_and_caches_have_formats_of_their_own():
    section = compressed({"num_bits": 8, "type": "float"}, targets=["re:.*self_attn.*"])
    experts = {
        "weights": {"num_bits": 4, "type": "float"},
        "format": "nvfp4-pack-quantized",
        "targets": ["re:.*experts.*"],
    }
    section["config_groups"]["group_1"] = experts
    found = native(MOE | {"quantization_config": section})
    assert (found["attention"], found["experts"]) == ("fp8", "nvfp4")
    section = {"quant_method": "fp8", "modules_to_not_convert": ["model.layers.0.self_attn"]}
    content, cautions = imported(LLAMA | {"quantization_config": section})
    assert content["native"]["linear"] == "fp8"
    assert "attention" not in content["native"]
    assert "attention: counted as fp8 throughout, but 25% (bf16) of its weights are not" in cautions
    names = {
        f"model.layers.{index}.mlp.experts.0.{name}": {"quant_algo": "NVFP4"}
        for index in range(4)
        for name in ("gate_proj", "up_proj", "down_proj")
    }
    names |= {f"model.layers.{index}.self_attn.o_proj": {"quant_algo": "FP8"} for index in range(4)}
    found, cautions = imported(MOE, {"quant_algo": "MIXED_PRECISION", "quantized_layers": names})
    assert found["native"]["experts"] == "nvfp4"
    assert found["native"]["linear"] == "bf16"
    assert any("attention: counted as bf16 throughout, but 40% (fp8_static)" in caution for caution in cautions)
    found = native(*config_of("openai/gpt-oss-20b"))
    assert (found["experts"], found["attention"], found["head"]) == ("mxfp4", "bf16", "bf16")
    found = native(*config_of("deepseek-ai/DeepSeek-V4-Pro"))
    assert (found["experts"], found["shared"], found["attention"]) == ("mxfp4", "fp8_block", "fp8_block")
    beside = {"quantization": {"quant_algo": "FP8", "kv_cache_quant_algo": "FP8", "exclude_modules": ["lm_head"]}}
    found = native(LLAMA, beside)
    assert (found["linear"], found["kv"], found["head"]) == ("fp8_static", "fp8", "bf16")
    for scheme in ["FP8", {"num_bits": 8, "type": "float"}]:
        section = {"quant_method": "modelopt", "quant_algo": "FP8", "kv_cache_scheme": scheme}
        assert native(LLAMA | {"quantization_config": section})["kv"] == "fp8"


def test_what_is_excluded_stays_wide():
    for pattern in [
        "re:.*self_attn.*", "model.layers.*.self_attn*", "*self_attn*", "self_attn",
        "re:^model\\.layers\\.\\d+\\.self_attn",
    ]:  # fmt: skip
        section = {"quant_method": "fp8", "modules_to_not_convert": [pattern]}
        found = native(MOE | {"quantization_config": section})
        assert (found["attention"], found["experts"]) == ("bf16", "fp8")
    section = {"quant_method": "fp8", "modules_to_not_convert": ["gate", "lm_head"]}
    assert native(LLAMA | {"quantization_config": section})["linear"] == "fp8"
    section = {"quant_method": "fp8", "modules_to_not_convert": ["re:.*shared_experts.*"]}
    found = native(LATENT | {"quantization_config": section})
    assert (found["shared"], found["experts"], found["linear"]) == ("bf16", "fp8", "fp8")


def test_an_unknown_quantisation_is_refused_by_its_field_and_with_the_methods_that_are_known():
    for section, field in [
        ({"quant_method": "aqlm"}, "quant_method"),
        ({"quant_method": "exotic"}, "quant_method"),
        ({"quant_method": "hqq"}, "quant_config"),
        ({"quant_method": "awq", "bits": 5}, "bits"),
        ({"quant_method": "modelopt", "quant_algo": "NF3"}, "quant_algo"),
        ({"quant_method": "fp8", "modules_to_not_convert": "lm_head"}, "modules_to_not_convert"),
        ({"quant_method": "fp8", "modules_to_not_convert": ["re:("]}, "modules_to_not_convert"),
        ({"quant_method": "fp8", "modules_to_not_convert": ["re:(a+)+b"]}, "modules_to_not_convert"),
        (compressed({"num_bits": 3, "type": "int"}), "num_bits"),
        (["fp8"], "quantization_config"),
    ]:
        text = refusal(LLAMA | {"quantization_config": section})
        assert text.startswith("config.json:1: ")
        assert field in text
    text = refusal(LLAMA | {"quantization_config": {"quant_method": "exotic"}})
    assert "exotic" in text
    assert all(method in text for method in ("awq", "gptq", "fp8", "modelopt", "mxfp4", "compressed-tensors"))
