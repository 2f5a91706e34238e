"""Methods of quantization that state bits and groups: their formats by hand."""

import pytest
from configurations import LLAMA, MOE, document, refusal

from roofline.specs.formats import number_format

HQQ = {"quant_method": "hqq", "quant_config": {"weight_quant_params": {"nbits": 3, "group_size": 64}}}
TORCHAO = {"quant_method": "torchao", "quant_type": {"default": {"_type": "Int4WeightOnlyConfig", "_data": {}}}}
QUARK = {
    "quant_method": "quark", "exclude": ["lm_head", "re:.*self_attn.*"],
    "global_quant_config": {"weight": {"dtype": "fp4", "group_size": 32}, "input_tensors": {"is_dynamic": True}},
}  # fmt: skip
STATIC = {"weight": {"dtype": "fp8_e4m3", "qscheme": "per_tensor"}, "input_tensors": {"is_dynamic": False}}
MLX = {"group_size": 64, "bits": 4}


def native(section, config=LLAMA):
    return document(config | {"quantization_config": section})["native"]


@pytest.mark.parametrize(
    ("section", "stored"),
    [
        (HQQ, "3.5bpw"),  # 3 bits, and a scale and a zero of 16 bits for each 64 weights
        (TORCHAO, "int4"),
        (TORCHAO | {"quant_type": "int4_weight_only", "quant_type_kwargs": {"group_size": 32}}, "int4_g32"),
        ({"quant_method": "torchao", "quant_type": "int8_dynamic_activation_int8_weight"}, "int8"),
        ({"quant_method": "torchao", "quant_type": "float8_weight_only"}, "8bpw"),
        (QUARK, "mxfp4"),
        (QUARK | {"global_quant_config": STATIC}, "fp8_static"),
        (MLX, "4.5bpw"),
        (MLX | {"mode": "mxfp4"}, "mxfp4"),
        ({"quant_method": "eetq"}, "8bpw"),
        ({"quant_method": "bitnet", "linear_class": "bitlinear"}, "2bpw"),
        ({"quant_method": "bitnet", "linear_class": "autobitlinear", "quantization_mode": "online"}, "bf16"),
        ({"quant_method": "higgs", "bits": 4, "group_size": 256}, "4.0625bpw"),
        ({"quant_method": "fp_quant", "forward_dtype": "mxfp4"}, "mxfp4"),
        ({"quant_method": "fouroversix"}, "nvfp4"),
        ({"quant_method": "nvfp4"}, "nvfp4"),
        ({"quant_method": "quanto", "weights": "int2"}, "2.25bpw"),
        ({"quant_method": "sinq", "nbits": 4}, "4.5bpw"),
        ({"quant_method": "metal", "bits": 8, "group_size": 32}, "9bpw"),
        ({"quant_method": "gptq", "bits": 3, "group_size": 128}, "3.14844bpw"),
        ({"quant_method": "auto-round", "bits": 4, "data_type": "mx_fp4", "group_size": 32}, "mxfp4"),
    ],
)  # fmt: skip
def test_a_method_that_states_bits_and_groups_gives_the_format_of_the_layers(section, stored):
    assert native(section)["linear"] == stored
    assert 0.2 < number_format(stored).nbytes <= 2.0


def test_mxfp8_has_a_scale_for_each_32_weights():
    for section in ({"quant_method": "mxfp8"}, {"quant_method": "modelopt", "quant_algo": "MXFP8"}):
        assert number_format(native(section)["linear"]).nbytes == pytest.approx(1.0 + 1.0 / 32.0)


def test_modules_have_formats_of_their_own():
    assert native(QUARK)["attention"] == "bf16"
    own = QUARK | {"layer_quant_config": {"*experts*": STATIC}}
    assert (native(own, MOE)["experts"], native(own, MOE)["linear"]) == ("fp8_static", "bf16")
    found = native(MLX)
    assert (found["embed"], found["head"]) == ("4.5bpw", "4.5bpw")
    plain = {f"model.layers.{layer}.self_attn.{name}_proj": False for layer in range(4) for name in "qkvo"}
    assert native(MLX | plain)["attention"] == "bf16"
    gptq = {"quant_method": "gptq", "bits": 4, "group_size": 128}
    assert native(gptq | {"dynamic": {"-:.*self_attn.*": {}, "+:.*mlp.*": {"bits": 8}}}) | {"linear": "int8"} == (
        native(gptq) | {"linear": "int8", "attention": "bf16"}
    )
    rounded = gptq | {"quant_method": "auto-round", "extra_config": {"self_attn": {"bits": 16}}}
    assert native(rounded)["attention"] == "bf16"


@pytest.mark.parametrize(
    ("section", "field"),
    [
        ({"quant_method": "aqlm"}, "quant_method: aqlm"),
        ({"quant_method": "vptq"}, "quant_method: vptq"),
        ({"quant_method": "spqr"}, "quant_method: spqr"),
        ({"quant_method": "hqq", "quant_config": {"self_attn.q_proj": {}}}, "quant_config.weight_quant_params"),
        ({"quant_method": "torchao", "quant_type": "fancy"}, "quant_type"),
        ({"quant_method": "torchao", "quant_type": {"a": {}, "b": {}}}, "quant_type"),
        ({"quant_method": "quark", "global_quant_config": {"weight": {"dtype": "int3"}}}, "weight.dtype"),
        ({"quant_method": "quanto", "weights": "int5"}, "weights"),
        (MLX | {"bits": 17}, "bits"),
        (MLX | {"mode": "fancy"}, "mode"),
    ],
)
def test_what_a_method_cannot_say_is_refused_by_its_field(section, field):
    assert field in refusal(LLAMA | {"quantization_config": section})
