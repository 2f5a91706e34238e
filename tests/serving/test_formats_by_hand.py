"""How weights in each format are stored and multiplied on GPUs that can and cannot, worked out by hand."""

from dataclasses import replace

import pytest
from every_case import each

import roofline as rl
from roofline.serving.quantization import (
    MATRICES,
    SECTIONS,
    canonical_preset,
    preset_name,
    resolved_quantization,
    summary,
)
from roofline.support.errors import BadInput, UnknownName, UnsupportedPrecision

MODEL = rl.load_model("llama-3.1-8b")
SPARSE = rl.load_model("mixtral-8x7b")
H100 = rl.load_gpu("h100-sxm")


def gpu(*dtypes, **rates):
    return replace(H100, name="part", peaks={**dict.fromkeys(dtypes, 1000000000000000.0), **rates})


def stored(weights, model=MODEL):
    """The model with a checkpoint whose matrices have a format."""
    return replace(model, native={**model.native, **dict.fromkeys(MATRICES, weights)})


WIDE, FP8, FP4 = gpu("bf16", "fp16"), gpu("bf16", "fp8"), gpu("bf16", "fp8", "fp4")
INT8 = gpu("bf16", "int8")
MICRO, BLOCK4, GROUPED = 0.5 + 1 / 32, 0.5 + 1 / 16, 0.5 + 2 / 128  # bytes of a weight with its scales

# checkpoint, GPU, choices -> format, bytes of a weight and of an activation, tensor cores, calibration, dynamic scales
SCHEMES = [
    ("bf16", WIDE, {}, ("bf16", 2.0, 2.0, "bf16", "bf16", False)),
    ("bf16", gpu("fp16"), {}, ("bf16", 2.0, 2.0, "fp16", "bf16", False)),  # neither is emulated
    ("fp16", WIDE, {}, ("fp16", 2.0, 2.0, "fp16", "bf16", False)),
    ("fp16", FP8, {}, ("fp16", 2.0, 2.0, "bf16", "bf16", False)),
    ("fp32", WIDE, {}, ("fp32", 4.0, 2.0, "bf16", "bf16", False)),
    ("bf16", WIDE, {"compute": "fp16"}, ("bf16", 2.0, 2.0, "fp16", "bf16", False)),
    ("bf16", FP8, {"quantization": "fp8"}, ("fp8", 1.0, 1.0, "fp8", "fp8", True)),
    ("bf16", FP8, {"quantization": "fp8_static"}, ("fp8_static", 1.0, 1.0, "fp8", "fp8_static", False)),
    ("fp8", FP8, {}, ("fp8", 1.0, 1.0, "fp8", "fp8", True)),
    ("fp8", WIDE, {}, ("fp8", 1.0, 2.0, "bf16", "weight_only_8bit", False)),
    ("fp8", FP8, {"compute": "bf16"}, ("fp8", 1.0, 2.0, "bf16", "weight_only_8bit", False)),
    ("fp8_block", FP8, {"quantization": "fp8"}, ("fp8_block", 1 + 4 / 2**14, 1.0, "fp8", "fp8_block", True)),  # is kept
    ("bf16", INT8, {"weights": "int8"}, ("int8", 1.0, 1.0, "int8", "int8", True)),
    ("bf16", WIDE, {"quantization": "int4"}, ("int4", GROUPED, 2.0, "bf16", "int4", False)),
    ("bf16", FP8, {"quantization": "int4", "compute": "fp8"}, ("int4", GROUPED, 1.0, "fp8", "int4_fp8", False)),
    ("mxfp4", FP8, {}, ("mxfp4", MICRO, 2.0, "bf16", "mxfp4", False)),  # needs 4-bit tensor cores beside
    ("mxfp4", FP4, {}, ("mxfp4", MICRO, 1.0, "fp8", "mxfp4_fp8", False)),
    ("mxfp4", FP4, {"compute": "fp4"}, ("mxfp4", MICRO, BLOCK4, "fp4", "mxfp4_fp4", False)),
    ("nvfp4", FP4, {}, ("nvfp4", BLOCK4, BLOCK4, "fp4", "nvfp4", True)),
    ("nvfp4", FP8, {}, ("nvfp4", BLOCK4, 2.0, "bf16", "weight_only_4bit", False)),
]


@each(("checkpoint", "part", "choices", "expected"), SCHEMES)
def test_matrices_are_stored_and_multiplied_as_worked_out_by_hand(checkpoint, part, choices, expected):
    found = resolved_quantization(stored(checkpoint), part, **choices)
    assert tuple(found.sections["linear"]) == tuple(found.sections["attention"]) == expected
    for section in set(SECTIONS) - set(MATRICES):  # nobody quantises what is no matrix of a layer
        assert found.sections[section].weight_nbytes == 2.0
    assert summary(MODEL, found) == (expected[0], found.kv_format, expected[3])


@pytest.mark.parametrize(
    ("choices", "part", "expected"),
    [
        ({}, FP8, ("bf16", 2.0, "bf16", "bf16")),
        ({"quantization": "fp8"}, FP8, ("fp8", 1.0, "fp8", "fp8")),
        ({"quantization": "fp8", "kv_cache_dtype": "auto"}, FP8, ("bf16", 2.0, "bf16", "bf16")),
        ({"quantization": "fp8", "kv_cache_dtype": "bf16"}, FP8, ("bf16", 2.0, "bf16", "bf16")),
        ({"weights": "fp8"}, FP8, ("bf16", 2.0, "bf16", "bf16")),  # a format of weights says nothing of the cache
        ({"quantization": "int4"}, FP8, ("bf16", 2.0, "bf16", "bf16")),
        ({"quantization": "nvfp4"}, FP4, ("fp8", 1.0, "fp8", "fp8")),
        ({"kv_cache_dtype": "fp8"}, WIDE, ("fp8", 1.0, "fp8", "bf16")),
        ({"kv_cache_dtype": "int8"}, FP8, ("int8", 1.0, "bf16", "bf16")),
    ],
)
def test_the_cache_has_the_format_of_the_preset_unless_another_is_chosen(choices, part, expected):
    found = resolved_quantization(MODEL, part, **choices)
    assert (found.kv_format, found.kv_nbytes, found.kv_key, found.attention_peak) == expected


@pytest.mark.parametrize("left", [None, "auto", "AUTO"])
@each(
    ("model", "preset", "meant"),
    [
        (stored("fp8"), None, "fp8"),
        (stored("bf16"), "native", "bf16"),
        (replace(MODEL, preset="fp8"), None, "fp8"),  # the name of the checkpoint says its format
        (replace(MODEL, preset="fp8"), "native", "bf16"),
    ],
)
def test_weights_that_are_left_open_are_the_checkpoint_s_own(left, model, preset, meant):
    assert resolved_quantization(model, FP8, preset, weights=left).sections["linear"].format == meant
    assert resolved_quantization(replace(MODEL, preset="fp8"), FP8, weights="bf16").sections["linear"].format == "bf16"


def test_a_preset_replaces_what_the_checkpoint_quantises_or_all_matrices():
    experts_alone = replace(SPARSE, native={**SPARSE.native, "experts": "int4"})
    found = resolved_quantization(experts_alone, FP8, "fp8")
    assert {name: found.sections[name].format for name in MATRICES} == {
        "linear": "bf16", "attention": "bf16", "shared": "bf16", "experts": "fp8",
    }  # fmt: skip
    assert "only the experts are fp8, as in the checkpoint" in found.notes
    assert not [note for note in found.notes if "the name of the model" in note]  # which states no format
    whole = resolved_quantization(SPARSE, FP8, "fp8")
    assert {whole.sections[name].format for name in MATRICES} == {"fp8"}
    assert not [note for note in whole.notes if note.startswith("only the")]
    assert summary(SPARSE, found) == ("fp8", "fp8", "fp8")
    kept = resolved_quantization(stored("fp8_block"), FP8, "fp8")
    assert kept.notes[-1] == "the checkpoint is already fp8_block; its format is kept"


@pytest.mark.parametrize(
    ("model", "part", "choices", "error", "message"),
    [
        (MODEL, WIDE, {"quantization": "fp8"}, UnsupportedPrecision, "no fp8 tensor cores .bf16, fp16.; run"),
        (MODEL, FP8, {"quantization": "nvfp4"}, UnsupportedPrecision, "part has no fp4 tensor cores"),
        (MODEL, FP8, {"compute": "fp4"}, UnsupportedPrecision, "part has no fp4 tensor cores"),
        (MODEL, gpu("fp8"), {}, UnsupportedPrecision, "part has no 16-bit peak"),
        (MODEL, FP8, {"compute": "fp8"}, BadInput, "bf16 weights cannot run in fp8; choose `weights` fp8 or"),
        (MODEL, INT8, {"quantization": "w8a16", "compute": "int8"}, BadInput, "stated twice: bf16 by 'w8a16'"),
        (MODEL, gpu("fp16", "int8"), {"quantization": "w8a16", "compute": "bf16"}, BadInput, "twice: fp16 by .w8a16."),
        (MODEL, FP8, {"compute": 8}, UnknownName, "compute 8 must be the name of a dtype"),
        (MODEL, FP8, {"compute": "fp9"}, UnknownName, "unknown compute dtype 'fp9'; choose from fp32, bf16"),
        (MODEL, FP8, {"quantization": 8}, UnknownName, "quantization 8 must be the name of a preset"),
        (MODEL, FP8, {"quantization": "fp7"}, UnknownName, "unknown quantization preset 'fp7'"),
        (MODEL, FP8, {"kv_cache_dtype": "int4"}, UnknownName, "unknown KV cache format 'int4'; choose from bf16, fp16"),
    ],
)
def test_what_a_gpu_or_a_choice_cannot_be_is_refused_by_name(model, part, choices, error, message):
    with pytest.raises(error, match=message):
        resolved_quantization(model, part, **choices)


def test_a_spelling_may_say_how_weights_are_multiplied():
    found = resolved_quantization(MODEL, gpu("bf16", "int8"), "w8a16").sections["linear"]
    assert (found.format, found.peak, found.key) == ("int8", "bf16", "weight_only_8bit")
    assert resolved_quantization(MODEL, gpu("fp16", "int8"), "w8a16").sections["linear"].peak == "fp16"
    assert resolved_quantization(MODEL, INT8, "w8a16", compute="bf16").sections["linear"].peak == "bf16"


def test_int8_that_is_slower_than_16_bits_is_said():
    slow = gpu("bf16", int8=0.5e15)

    def said(part, **choices):
        return [note for note in resolved_quantization(MODEL, part, **choices).notes if "slower" in note]

    (note,) = said(slow, weights="int8")
    assert note.startswith("int8 is slower than bf16 on part")
    assert said(INT8, weights="int8") == said(slow) == []


def test_names_of_presets_are_those_of_rows():
    assert preset_name("AWQ") == "int4"
    for name, said in (("w8a16", "fixes its compute dtype"), ("q4_k_m", "says only how weights are stored")):
        with pytest.raises(UnknownName, match=f"'{name}' {said}"):
            preset_name(name)
    names = {None: None, " FP8 ": "fp8", "W8A16": "w8a16", "no such preset": "no such preset"}
    assert {name: canonical_preset(name) for name in names} == names
    assert [canonical_preset("fp4", vendor) for vendor in ("nvidia", "amd", None)] == ["nvfp4", "mxfp4", "fp4"]
