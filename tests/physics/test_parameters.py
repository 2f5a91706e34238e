"""Parameter counts to the unit, KV bytes per token, and what each rank of a plan holds."""

from dataclasses import replace

import pytest
from conftest import close, deploy, models
from every_case import each
from hypothesis import given

import roofline as rl
from roofline.physics.layers.kinds import cache_bytes
from roofline.physics.memory import active_parameters, kv_bytes_per_sequence, layer_parameters, parameters
from roofline.physics.plan import Plan
from roofline.specs.model import Gqa, Group, Mla

# Totals of the checkpoints' tensors: safetensors metadata on Hugging Face for the first seven, the
# model cards or reports (DeepSeek-V3 report, Qwen3 report, gpt-oss model card) for the others.
_EXACT = {
    "llama-3.1-8b": 8_030_261_248,
    "llama-3.1-70b": 70_553_706_496,
    "llama-3.1-405b": 405_853_388_800,
    "mixtral-8x7b": 46_702_792_704,
    "llama-2-7b": 6_738_415_616,
    "llama-2-70b": 68_976_648_192,
    "qwen3-32b": 32_762_123_264,
}
_PRINTED = {"gpt-oss-120b": "116.83", "gpt-oss-20b": "20.91", "deepseek-v3": "671.03", "qwen3-235b-a22b": "235.09"}

# bf16 bytes that one token leaves in the cache: 2 (key and value) x kv heads x head width x 2 x layers,
# (512 + 64) x 2 x 61 for DeepSeek; and those of them in layers without a window.
_KV = {
    "llama-3.1-8b": (2 * 8 * 128 * 2 * 32, 131072),
    "llama-3.1-70b": (2 * 8 * 128 * 2 * 80, 327680),
    "llama-3.1-405b": (2 * 8 * 128 * 2 * 126, 516096),
    "qwen3-235b-a22b": (2 * 4 * 128 * 2 * 94, 192512),
    "deepseek-v3": (576 * 2 * 61, 70272),
    "gpt-oss-120b": (2 * 8 * 64 * 2 * 36, 36864),
    "gemma-3-27b": (2 * 16 * 128 * 2 * 62, 81920),
}


@each(("name", "count"), _EXACT.items())
def test_parameters_equal_the_checkpoint_to_the_unit(name, count):
    assert parameters(rl.load_model(name)).total == count


@pytest.mark.parametrize(("name", "billions"), _PRINTED.items())
def test_parameters_equal_the_published_total_to_the_printed_digits(name, billions):
    assert f"{parameters(rl.load_model(name)).total / 1e9:.2f}" == billions


#: Published totals that mean something else, as the notes of their files say: rounded to one or two
#: digits, a vision tower, a draft module or a second copy of the tied head counted in.
EXCEPTIONS = {"deepseek-v4-pro", "falcon-40b", "falcon-7b", "kimi-k2.5", "llama-4-scout", "mimo-7b"}


@each("name", sorted({*rl.models()} - EXCEPTIONS))
def test_every_model_of_the_catalog_is_within_a_percent_of_its_stated_total(name):
    model = rl.load_model(name)
    assert model.stated_total is not None
    assert abs(parameters(model).total / model.stated_total - 1.0) < 0.01


@pytest.mark.parametrize(
    ("name", "billions", "tolerance"),
    # Model cards and reports; "active" is counted in several ways, which differ by the embedding.
    [("gpt-oss-120b", 5.13, 0.005), ("gpt-oss-20b", 3.61, 0.005), ("deepseek-v3", 37.0, 0.02)],
)
def test_active_parameters_are_the_published_ones(name, billions, tolerance):
    assert abs(active_parameters(rl.load_model(name)) / 1e9 / billions - 1.0) < tolerance


@each(("name", "expected"), _KV.items())
def test_kv_bytes_per_token_are_the_published_ones(name, expected):
    held, growing = expected
    deployment = deploy(name, "h100-sxm")
    model, nbytes = deployment.model, 2.0
    assert sum(count * cache_bytes(mixer, 1.0, nbytes) for count, mixer in model.mixers) == held

    def cache(length):
        return kv_bytes_per_sequence(model, Plan(), deployment.quantization, length)

    assert cache(1.0) == held
    beyond = 50_000.0
    assert cache(beyond + 1.0) - cache(beyond) == growing


@each("name", ["llama-3.1-8b", "mixtral-8x7b", "qwen3-235b-a22b", "deepseek-v3"])
@each("tp", [2, 4, 8])
def test_shards_sum_to_the_whole_but_for_what_is_replicated(name, tp):
    model = rl.load_model(name)
    for group in model.groups:
        for layer in group.layers:
            whole, shard = layer_parameters(model, layer), layer_parameters(model, layer, tp, tp)
            mixer = layer.mixer
            if isinstance(mixer, Mla):
                replicated = (tp - 1) * model.hidden * (mixer.q_rank + mixer.kv_rank + mixer.rope)
            else:  # KV heads share out, but for Qwen3's four over eight ranks
                copies = max(tp / mixer.kv_heads, 1.0)
                replicated = (copies - 1) * model.hidden * mixer.kv_heads * (mixer.head_dim + mixer.v_head_dim)
            assert tp * shard.attention - replicated == whole.attention
            assert tp * (shard.linear + shard.shared) == whole.linear + whole.shared
            assert tp * shard.experts == whole.experts
            assert shard.router == whole.router


@pytest.mark.parametrize("tp", [16, 32])
def test_kv_heads_are_replicated_where_tp_exceeds_them(tp):
    model = rl.load_model("llama-3.1-8b")
    layer = model.groups[0].layers[0]
    assert isinstance(layer.mixer, Gqa)
    assert layer.mixer.kv_heads == 8
    copies = tp // 8
    kv = model.hidden * layer.mixer.kv_heads * (layer.mixer.head_dim + layer.mixer.v_head_dim)
    whole = layer_parameters(model, layer).attention
    assert tp * layer_parameters(model, layer, tp).attention == whole + (copies - 1) * kv
    assert cache_bytes(layer.mixer, 1.0, 2.0, tp) == cache_bytes(layer.mixer, 1.0, 2.0, 8)


def test_the_latent_cache_is_the_same_on_every_rank():
    mixer = rl.load_model("deepseek-v3").groups[0].layers[0].mixer
    assert [cache_bytes(mixer, 1.0, 1.0, tp) for tp in (1, 2, 8)] == [576.0, 576.0, 576.0]


@given(model=models())
def test_two_half_models_have_the_parameters_of_the_whole_with_the_ends_twice(model):
    halves = [replace(model, groups=tuple(Group(repeat, group.layers) for group in model.groups)) for repeat in (3, 4)]
    whole = replace(model, groups=tuple(Group(7, group.layers) for group in model.groups))
    ends = parameters(replace(model, groups=())).total
    assert close(sum(parameters(half).total for half in halves), parameters(whole).total + ends)


@given(model=models())
def test_active_parameters_never_exceed_all_of_them(model):
    assert 0.0 < active_parameters(model) <= parameters(model).total
