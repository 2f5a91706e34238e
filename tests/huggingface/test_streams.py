"""Families of late 2026: several residual streams or gates on one, n-grams, pooled index keys, experts in a latent."""

import pytest
from configurations import LATENT, LLAMA, config_of, document, layers, model, refusal, without
from every_case import each

import roofline as rl
from roofline.catalog.huggingface.hybrids import _primes
from roofline.physics.layers.kinds import cache_bytes
from roofline.physics.memory import ngram_parameters, parameters
from roofline.specs.build import model_record

FLASH_NEXT = LLAMA | {
    "model_type": "qwen4_exp_text", "head_dim": 8, "linear_num_key_heads": 2, "linear_num_value_heads": 4,
    "linear_key_head_dim": 8, "linear_value_head_dim": 8, "num_experts": 8, "num_experts_per_tok": 2,
    "moe_intermediate_size": 16, "shared_expert_intermediate_size": 16, "hc_count": 4, "hc_lowrank": 5,
    "ple_layer_ids": [2], "ngram_size": 3, "heads_per_ngram": 2, "ngram_vocab_size_base": 100,
    "make_ngram_vocab_size_divisible_by": 8, "indexer_n_heads": 2, "indexer_kv_heads": 1, "indexer_head_dim": 8,
    "indexer_budget": 64, "indexer_compress_ratio": 4,
}  # fmt: skip
GLM = LATENT | {
    "model_type": "glm5_next_text", "qk_rope_head_dim": 0,
    "layer_types": ["linear_attention", "linear_attention", "linear_attention", "deepseek_sparse_attention"],
    "linear_attn_config": {"num_heads": 4, "head_dim": 8, "short_conv_kernel_size": 4}, "index_n_heads": 2,
    "index_head_dim": 8, "index_topk": 64, "index_kpool": 4, "hc_mult": 4,
    "mlp_layer_types": ["dense", "sparse", "sparse", "sparse"],
}  # fmt: skip
MUSE = LLAMA | {
    "model_type": "muse_spark_text", "num_local_experts": 8, "num_experts_per_tok": 2, "moe_intermediate_size": 16,
    "moe_hidden_size": 32, "sliding_window": 128, "head_dim": 8,
}  # fmt: skip
#: What their classes in transformers 5.23.0 hold on torch's meta device, correction biases of routers included.
IN_TORCH = [(FLASH_NEXT, 346_320), (GLM, 592_804), (MUSE, 254_560), (LATENT | {"model_type": "mistral4"}, 545_504)]


def test_layers_and_n_grams_add_up_to_what_torch_counts():
    for config, count in IN_TORCH:
        assert parameters(model(config)).total == count
    assert _primes(100, 5) == [101, 103, 107, 109, 113]
    assert _primes(1, 4) == [2, 3, 5, 7]
    assert document(config_of("Qwen/Qwen3.8-Flash-Next")[0])["ngrams"] == {
        "rows": 320_001_536,  # of the released checkpoint
        "width": 160,
        "lookups": 16,
    }
    assert document(FLASH_NEXT)["ngrams"] == {"rows": 424, "width": 16, "lookups": 4}  # 101 + 103 + 107 + 109, padded
    # keys of 64 values for four streams and one value of 64 wide from 4 x 16; three norms and four taps over 256
    assert ngram_parameters(model(FLASH_NEXT)) == (64 * 320, 0, 0, 0, 0, 7 * 256, 424 * 16, 0)
    assert ngram_parameters(model(FLASH_NEXT), tp=4).embed == 424 * 4


def test_saved_again_layers_have_another_name_and_the_same_meaning():
    kinds = ["linear_attention"] * 3 + ["indexed_attention"]
    assert layers(document(FLASH_NEXT | {"layer_types": kinds})) == layers(document(FLASH_NEXT))
    assert layers(document(GLM | {"layer_types": kinds})) == layers(document(GLM))
    config, _ = config_of("moonshotai/Kimi-Linear-48B-A3B-Instruct")
    listed = config["linear_attn_config"]["full_attn_layers"]
    again = without(config, "linear_attn_config", "first_k_dense_replace") | {
        "linear_num_heads": 32,
        "linear_head_dim": 128,
        "layer_types": ["full_attention" if index + 1 in listed else "linear_attention" for index in range(27)],
    }
    assert layers(document(again)) == layers(document(config))


@pytest.mark.parametrize("config", [FLASH_NEXT, GLM])
def test_pooled_index_keys_take_their_share_of_the_cache_and_of_the_scores(config):
    pooled = next(mixer for _, mixer in model(config).mixers if getattr(mixer, "indexer", None))
    name = "indexer_compress_ratio" if "indexer_compress_ratio" in config else "index_kpool"
    each = next(mixer for _, mixer in model(config | {name: 1}).mixers if getattr(mixer, "indexer", None))
    kept, whole = (cache_bytes(mixer, 1000.0, 2.0) for mixer in (pooled, each))
    key = 8 * (2.0 if config is FLASH_NEXT else 1.0 + 4.0 / 128)  # in the format of the cache, or fp8 with scales
    assert whole - kept == pytest.approx(1000 * key * 3 / 4, rel=1e-12)
    assert (pooled.indexer.top_k, pooled.indexer.block, pooled.indexer.ratio) == (64, 4, 4)


def test_streams_that_are_averaged_have_no_weights_and_muse_spark_slides():
    averaged = model(GLM)
    assert (averaged.streams, averaged.stream_average) == (4, True)
    assert model(GLM | {"mhc": False}).streams == 1
    content = document(GLM) | {"stream_average": False}
    assert parameters(model_record(content)).total - parameters(averaged).total == 4 * 4 * 64 + 4 + 1
    rows = layers(document(MUSE | {"num_hidden_layers": 6}))
    assert [mixer.get("window") for mixer, _ in rows] == [128, None, 128, 128, 128, None]
    assert all(mixer["out_gate"] and ffn["latent"] == 32 for mixer, ffn in rows)


@each(
    ("config", "fault"),
    [
        (FLASH_NEXT | {"indexer_kv_heads": 2}, "indexer_kv_heads: only one head"),
        (without(FLASH_NEXT, "indexer_budget"), "indexer_budget: missing"),
        (FLASH_NEXT | {"indexer_budget": 62}, "indexer_compress_ratio: 4 does not divide 62"),
        (FLASH_NEXT | {"heads_per_ngram": 10**6}, "heads_per_ngram: "),
        (FLASH_NEXT | {"ngram_vocab_size_base": 10**9}, "ngram_vocab_size_base: "),
        (FLASH_NEXT | {"hc_count": 65}, "hc_count: 65 residual streams"),
        (GLM | {"indexer_types": ["shared"] * 4}, "indexer_types: the first layer that attends"),
        (GLM | {"index_kpool": 3}, "index_kpool: 3 does not divide 64"),
        (without(MUSE, "moe_hidden_size"), "moe_hidden_size: missing"),
    ],
)
def test_what_these_families_cannot_be_is_refused_by_the_field(config, fault):
    assert fault in refusal(config)


def test_flash_next_reads_its_tables_by_look_up_and_holds_them():
    case = {"isl": 4000, "osl": 64, "tp": 8, "batch": 4}
    held = rl.predict("qwen3.8-flash-next", "b200", **case)
    # 176.9 B in 16 bits over eight, the tables among them
    assert held.memory.weights == pytest.approx(2 * 176.9e9 / 8, rel=0.04)  # gates of the streams are on every rank
    assert held.tpot < rl.predict("qwen3-235b-a22b", "b200", **case).tpot
