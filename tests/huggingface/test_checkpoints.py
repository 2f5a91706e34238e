"""Checkpoints by their headers: the bytes of the file, format by format, and nothing read of what is hostile."""

import json
import re
import struct

import pytest
from checkpoint_files import LLAMA_8B, llama_tensors, values, write_gguf, write_safetensors

import roofline as rl
from roofline.physics.memory import parameters
from roofline.questions.listing import imported_model
from roofline.specs.formats import number_format


def matrix(name):
    return "proj.weight" in name


def fp8_block(name, shape):
    blocks = tuple(-(-length // 128) for length in shape)
    return {name: ("F8_E4M3", shape), f"{name}_scale_inv": ("F32", blocks)}


def fp8_static(name, shape):
    scales = {name.removesuffix("weight") + scale: ("F32", ()) for scale in ("weight_scale", "input_scale")}
    return {name: ("F8_E4M3", shape), **scales}


def fp8_channel(name, shape):
    return {name: ("F8_E4M3", shape), f"{name}_scale": ("BF16", (shape[0], 1))}


def modelopt_nvfp4(name, shape):
    outer, inner = shape
    scales = {name.removesuffix("weight") + scale: ("F32", ()) for scale in ("weight_scale_2", "input_scale")}
    return {name: ("U8", (outer, inner // 2)), f"{name}_scale": ("F8_E4M3", (outer, inner // 16)), **scales}


def packed_nvfp4(name, shape):
    outer, inner = shape
    scales = {f"{name}_scale": ("F8_E4M3", (outer, inner // 16)), f"{name}_global_scale": ("F32", (1,))}
    return {f"{name}_packed": ("U8", (outer, inner // 2)), **scales}


def packed_int4(name, shape):
    outer, inner = shape
    aside = {f"{name}_scale": ("BF16", (outer, inner // 128)), f"{name}_shape": ("I64", (2,))}
    return {f"{name}_packed": ("I32", (outer, inner // 8)), **aside}


def awq(name, shape):
    (outer, inner), stem = shape, name.removesuffix("weight")
    groups = inner // 128
    zeros = {f"{stem}qzeros": ("I32", (groups, outer // 8)), f"{stem}scales": ("F16", (groups, outer))}
    return {f"{stem}qweight": ("I32", (inner, outer // 8)), **zeros}


def gptq(bits):
    def pack(name, shape):
        (outer, inner), stem = shape, name.removesuffix("weight")
        groups, pack = inner // 128, 32 // bits
        zeros = {f"{stem}qzeros": ("I32", (groups, outer // pack)), f"{stem}scales": ("F16", (groups, outer))}
        return {f"{stem}qweight": ("I32", (inner // pack, outer)), **zeros, f"{stem}g_idx": ("I32", (inner,))}

    return pack


def bitsandbytes(name, shape):
    blocks = values(shape) // 64
    aside = {"absmax": ("U8", (blocks,)), "quant_map": ("F32", (16,)), "nested_absmax": ("F32", (blocks // 256,))}
    packed = {f"{name}.{key}": tensor for key, tensor in aside.items()}
    return {name: ("U8", (values(shape) // 2, 1)), **packed, f"{name}.quant_state.bitsandbytes__nf4": ("U8", (80,))}


def unchanged(name, shape):
    return {name: ("BF16", shape)}


def quantised(tensors, pack, only=matrix):
    found = {}
    for name, (dtype, shape) in tensors.items():
        found |= pack(name, shape) if only(name) else {name: (dtype, shape)}
    return found


def held(model):
    """Bytes of a model in its own formats, a tied table once."""
    counts = parameters(model)._asdict()
    return sum(count * number_format(model.native[section]).nbytes for section, count in counts.items() if count)


def saved(folder, tensors, config=LLAMA_8B):
    folder.mkdir(exist_ok=True)
    (folder / "config.json").write_text(json.dumps(config))
    return write_safetensors(folder / "model.safetensors", tensors)


@pytest.mark.parametrize(
    ("pack", "base", "compute"),
    [
        (unchanged, "bf16", "bf16"), (fp8_block, "fp8_block", "fp8"), (fp8_static, "fp8_static", "fp8"),
        (fp8_channel, "fp8", "fp8"), (modelopt_nvfp4, "nvfp4", "fp4"), (packed_nvfp4, "nvfp4", "fp4"),
        (packed_int4, "int4", "bf16"), (awq, "int4", "bf16"), (gptq(4), "int4", "bf16"), (gptq(8), "", "bf16"),
        (bitsandbytes, "int4", "bf16"),
    ],
)  # fmt: skip
def test_formats_and_bytes_are_those_of_the_tensors(tmp_path, pack, base, compute):
    nbytes = saved(tmp_path, quantised(llama_tensors(LLAMA_8B), pack))
    model = rl.load_model(str(tmp_path / "model.safetensors"))
    assert held(model) == pytest.approx(nbytes, rel=1e-6)
    stored = number_format(model.native["linear"])
    assert stored.base == (base or stored.name)
    answer = rl.predict(model, "b200", tp=1)
    assert answer.memory.weights == pytest.approx(nbytes, rel=1e-6)
    assert answer.deployment.quantization.sections["linear"].peak == compute
    assert model.native["embed"] == model.native["head"] == model.native["norm"] == "bf16"


def test_a_mixture_within_a_section_is_counted_byte_by_byte(tmp_path):
    mixed = quantised(llama_tensors(LLAMA_8B), modelopt_nvfp4, lambda name: matrix(name) and "self_attn.v" not in name)
    nbytes = saved(tmp_path, mixed)
    model = rl.load_model(str(tmp_path))
    assert held(model) == pytest.approx(nbytes, rel=1e-6)
    queries, keys, scales = 2 * 32 * 128, 8 * 128, 2 * 32 / (4096 * 4096)
    bits = ((queries + keys) * 4.5 + keys * 16.0) / (queries + 2 * keys)
    assert model.native["attention"].startswith("nvfp4@")
    assert number_format(model.native["attention"]).nbytes * 8 == pytest.approx(bits, rel=2 * scales)
    assert model.native["linear"].startswith("nvfp4")
    assert number_format(model.native["linear"]).nbytes * 8 == pytest.approx(4.5, rel=1e-4)


def test_the_published_size_of_gpt_oss_20b_comes_out_to_the_byte(tmp_path):
    """MXFP4 experts beside bf16: total_size of its index is 13,761,264,768 (huggingface.co/openai/gpt-oss-20b)."""
    hidden, experts = 2880, 32
    config = {
        "model_type": "gpt_oss", "hidden_size": hidden, "intermediate_size": hidden, "num_hidden_layers": 24,
        "num_attention_heads": 64, "num_key_value_heads": 8, "head_dim": 64, "vocab_size": 201088,
        "num_local_experts": experts, "num_experts_per_tok": 4, "sliding_window": 128,
        "quantization_config": {"quant_method": "mxfp4"},
    }  # fmt: skip
    tensors = dict.fromkeys(("model.embed_tokens.weight", "lm_head.weight"), ("BF16", (201088, hidden)))
    tensors["model.norm.weight"] = ("BF16", (hidden,))
    for layer in range(24):
        at = f"model.layers.{layer}."
        for name, outer, inner in (("q", 4096, hidden), ("k", 512, hidden), ("v", 512, hidden), ("o", hidden, 4096)):
            tensors[f"{at}self_attn.{name}_proj.weight"] = ("BF16", (outer, inner))
            tensors[f"{at}self_attn.{name}_proj.bias"] = ("BF16", (outer,))
        tensors[f"{at}self_attn.sinks"] = ("BF16", (64,))
        for name in ("input_layernorm", "post_attention_layernorm"):
            tensors[f"{at}{name}.weight"] = ("BF16", (hidden,))
        tensors[f"{at}mlp.router.weight"] = ("BF16", (experts, hidden))
        tensors[f"{at}mlp.router.bias"] = ("BF16", (experts,))
        for name, outer in (("gate_up", 2 * hidden), ("down", hidden)):
            stem = f"{at}mlp.experts.{name}_proj"
            tensors[f"{stem}_blocks"] = ("U8", (experts, outer, 90, 16))
            tensors[f"{stem}_scales"] = ("U8", (experts, outer, 90))
            tensors[f"{stem}_bias"] = ("BF16", (experts, outer))
    assert len(tensors) == 459
    assert saved(tmp_path, tensors, config) == 13_761_264_768
    model = rl.load_model(str(tmp_path))
    assert held(model) == pytest.approx(13_761_264_768, rel=1e-6)
    assert (model.native["experts"], model.native["attention"]) == ("mxfp4", "bf16")


def deepseek(config, experts, drafts):
    """A small DeepSeek-V3 with its draft module, in fp8 blocks."""
    hidden, width, moe = config["hidden_size"], config["intermediate_size"], config["moe_intermediate_size"]
    heads, rank, rope = config["num_attention_heads"], config["kv_lora_rank"], config["qk_rope_head_dim"]
    query, value = config["qk_nope_head_dim"] + rope, config["v_head_dim"]
    tensors = dict.fromkeys(("model.embed_tokens.weight", "lm_head.weight"), ("BF16", (config["vocab_size"], hidden)))
    tensors["model.norm.weight"] = ("BF16", (hidden,))
    for layer in range(config["num_hidden_layers"] + drafts):
        at = f"model.layers.{layer}."
        matrices = {
            "self_attn.q_a_proj": (config["q_lora_rank"], hidden),
            "self_attn.q_b_proj": (heads * query, config["q_lora_rank"]),
            "self_attn.kv_a_proj_with_mqa": (rank + rope, hidden),
            "self_attn.kv_b_proj": (heads * (config["qk_nope_head_dim"] + value), rank),
            "self_attn.o_proj": (hidden, heads * value),
        }
        sparse = layer >= config["first_k_dense_replace"]
        networks = [("mlp", width)] if not sparse else [("mlp.shared_experts", moe)]
        networks += [(f"mlp.experts.{expert}", moe) for expert in range(experts)] if sparse else []
        for place, columns in networks:
            matrices |= {f"{place}.{name}_proj": (columns, hidden) for name in ("gate", "up")}
            matrices[f"{place}.down_proj"] = (hidden, columns)
        for name, shape in matrices.items():
            tensors |= fp8_block(f"{at}{name}.weight", shape)
        if sparse:
            tensors[f"{at}mlp.gate.weight"] = ("BF16", (experts, hidden))
            tensors[f"{at}mlp.gate.e_score_correction_bias"] = ("F32", (experts,))
        norms = {"self_attn.q_a_layernorm": config["q_lora_rank"], "self_attn.kv_a_layernorm": rank}
        norms |= dict.fromkeys(("input_layernorm", "post_attention_layernorm"), hidden)
        if layer >= config["num_hidden_layers"]:
            norms |= dict.fromkeys(("enorm", "hnorm", "shared_head.norm"), hidden)
            tensors[f"{at}eh_proj.weight"] = ("BF16", (hidden, 2 * hidden))
        tensors |= {f"{at}{name}.weight": ("BF16", (length,)) for name, length in norms.items()}
    return tensors


DEEPSEEK = {
    "model_type": "deepseek_v3", "hidden_size": 1024, "intermediate_size": 2048, "moe_intermediate_size": 256,
    "num_hidden_layers": 3, "first_k_dense_replace": 1, "num_attention_heads": 16, "kv_lora_rank": 256,
    "q_lora_rank": 384, "qk_nope_head_dim": 64, "qk_rope_head_dim": 32, "v_head_dim": 64, "n_routed_experts": 8,
    "n_shared_experts": 1, "num_experts_per_tok": 2, "num_nextn_predict_layers": 1, "vocab_size": 4096,
    "quantization_config": {"quant_method": "fp8", "weight_block_size": [128, 128]},
}  # fmt: skip


def test_draft_modules_and_towers_are_named_and_left_out(tmp_path):
    tensors = deepseek(DEEPSEEK, 8, 1)
    whole = saved(tmp_path, {**tensors, "vision_tower.blocks.0.attn.qkv.weight": ("BF16", (3072, 1024))}, DEEPSEEK)
    drafts = {name: entry for name, entry in tensors.items() if ".layers.3." in name}
    aside = write_safetensors(tmp_path / "drafts", drafts) + 2 * 3072 * 1024
    model = rl.load_model(str(tmp_path))
    assert held(model) == pytest.approx(whole - aside, rel=1e-5)
    said = " ".join(model.cautions)
    assert f"{(aside - 2 * 3072 * 1024) / 1e9:.4g} GB of draft modules" in said
    assert "0.006291 GB of what is beside the language model" in said
    assert {model.native[name] for name in ("attention", "experts", "shared")} == {"fp8_block"}


def test_an_index_alone_is_compared_with_the_configuration_and_parts_are_read_together(tmp_path):
    tensors = list(llama_tensors(LLAMA_8B).items())
    (tmp_path / "config.json").write_text(json.dumps(LLAMA_8B))
    names = [f"model-{part:05d}-of-00003.safetensors" for part in (1, 2, 3)]
    parts = [dict(tensors[part::3]) for part in range(3)]
    total = sum(write_safetensors(tmp_path / name, part) for name, part in zip(names, parts, strict=True))
    ways = [tmp_path / names[1], tmp_path]
    index = tmp_path / "model.safetensors.index.json"
    weight_map = {tensor: name for name, part in zip(names, parts, strict=True) for tensor in part}
    index.write_text(json.dumps({"metadata": {"total_size": total}, "weight_map": weight_map}))
    for way in (*ways, index):
        model = rl.load_model(str(way))
        assert held(model) == pytest.approx(total, rel=1e-6)
        assert "headers of 3 files" in " ".join(model.cautions)
    (tmp_path / names[2]).unlink()
    with pytest.raises(rl.BadSpec, match=r"weight_map: 1 of 3 files are missing, first model-00003-of-00003"):
        rl.load_model(str(index))
    index.unlink()
    with pytest.raises(rl.BadSpec, match=r"1 of its 3 parts are missing, first model-00003"):
        rl.load_model(str(tmp_path / names[0]))
    (tmp_path / "config.json").write_text(json.dumps(LLAMA_8B))
    index = tmp_path / "model.safetensors.index.json"
    for size, expected in ((16_060_522_496, False), (5_730_000_000, True)):
        weight_map = {"lm_head.weight": "model-00001-of-00001.safetensors"}
        index.write_text(json.dumps({"metadata": {"total_size": size}, "weight_map": weight_map}))
        said = " ".join(rl.load_model(str(index)).cautions)
        assert ("states 5.73 GB, the formats counted here make 16.06 GB" in said) is expected


@pytest.mark.parametrize(
    ("pack", "stored"),
    [(modelopt_nvfp4, "nvfp4"), (packed_nvfp4, "nvfp4"), (fp8_block, "fp8_block"), (fp8_channel, "fp8"), (awq, "int4")],
)
def test_names_in_an_index_tell_the_formats_that_the_configuration_does_not(tmp_path, pack, stored):
    only = lambda name: matrix(name) and "self_attn" not in name  # noqa: E731 - one use
    tensors = quantised(llama_tensors(LLAMA_8B), pack, only)
    total = write_safetensors(tmp_path / "elsewhere", tensors)
    folder = tmp_path / "Some-NVFP4"
    folder.mkdir()
    (folder / "config.json").write_text(json.dumps(LLAMA_8B))
    weight_map = dict.fromkeys(tensors, "model-00001-of-00002.safetensors")
    document = {"metadata": {"total_size": total}, "weight_map": weight_map}
    (folder / "model.safetensors.index.json").write_text(json.dumps(document))
    model = rl.load_model(str(folder))
    assert (model.native["linear"], model.native["attention"], model.native["embed"]) == (stored, "bf16", "bf16")
    assert held(model) == pytest.approx(total, rel=0.005)
    assert not any("states no quantisation" in text or "would tell why" in text for text in model.cautions)


def test_tensors_that_are_not_those_of_the_configuration_are_refused(tmp_path):
    saved(tmp_path, llama_tensors(LLAMA_8B), LLAMA_8B | {"num_hidden_layers": 31})
    with pytest.raises(rl.BadSpec, match=r"9 belong to no known part of a model: model\.layers\.31\."):
        rl.load_model(str(tmp_path))
    saved(tmp_path, llama_tensors(LLAMA_8B), LLAMA_8B | {"num_hidden_layers": 33})
    with pytest.raises(rl.BadSpec, match=r"hold 8\.03 billion weights, .* 8\.248: linear 5\.637 instead of 5\.813"):
        rl.load_model(str(tmp_path))
    strange = {"model.layers.0.wormhole.w": ("BF16", (40960, 4096))}
    saved(tmp_path, llama_tensors(LLAMA_8B) | strange)
    with pytest.raises(rl.BadSpec, match=r"belong to no known part of a model: model\.layers\.0\.wormhole\.w"):
        rl.load_model(str(tmp_path))
    (tmp_path / "config.json").unlink()
    with pytest.raises(rl.BadSpec, match=r"config\.json:1: file: missing; it says which layers"):
        rl.load_model(str(tmp_path / "model.safetensors"))


HOSTILE = {
    "no_header": b"",
    "short": struct.pack("<Q", 100) + b"{}",
    "huge": struct.pack("<Q", 1 << 60) + b"{}",
    "no_json": struct.pack("<Q", 4) + b"\xff\xfe{}",
    "list": struct.pack("<Q", 2) + b"[]",
    "deep": struct.pack("<Q", 2000) + b"[" * 2000,
    "entry": struct.pack("<Q", 10) + b'{"a": "b"}',
    "negative": struct.pack("<Q", 56) + b'{"a": {"dtype":"F32","shape":[-1],"data_offsets":[0,4]}}',
    "mismatch": struct.pack("<Q", 55) + b'{"a": {"dtype":"F32","shape":[9],"data_offsets":[0,4]}}',
    "dtype": struct.pack("<Q", 54) + b'{"a": {"dtype":"X9","shape":[1],"data_offsets":[0,4]}}',
    "floats": struct.pack("<Q", 57) + b'{"a": {"dtype":"F32","shape":[1.0],"data_offsets":[0,4]}}',
    "bools": struct.pack("<Q", 58) + b'{"a": {"dtype":"F32","shape":[true],"data_offsets":[0,4]}}',
}


def test_hostile_headers_are_refused_with_the_file(tmp_path):
    for content in HOSTILE.values():
        (tmp_path / "config.json").write_text(json.dumps(LLAMA_8B))
        path = tmp_path / "model.safetensors"
        path.write_bytes(content)
        with pytest.raises(rl.BadSpec, match=r"model\.safetensors:1: (header|tensor)"):
            rl.load_model(str(path))
    for cut in [3, 7, 20, 40, 200, 5000]:
        path = tmp_path / "m.gguf"
        write_gguf(path, *gguf_llama(LLAMA_8B, set()))
        path.write_bytes(path.read_bytes()[:cut])
        with pytest.raises(rl.BadSpec, match=re.escape("m.gguf:1: header: ")):
            rl.load_model(str(path))
    path = tmp_path / "m.gguf"
    head = b"GGUF" + struct.pack("<I", 3)
    key = struct.pack("<Q", 1) + b"k"
    for body in (
        struct.pack("<QQ", 1 << 62, 0),
        struct.pack("<QQ", 0, 1 << 40),
        struct.pack("<QQ", 0, 1) + struct.pack("<Q", 1 << 63),
        struct.pack("<QQ", 0, 1) + key + struct.pack("<IIQ", 9, 8, 1 << 60),
        struct.pack("<QQ", 0, 1) + key + struct.pack("<IIQ", 9, 10, 1 << 61),
        struct.pack("<QQ", 0, 1) + key + struct.pack("<IIQIQ", 9, 9, 1, 9, 1) + struct.pack("<IQ", 9, 1) * 4,
        struct.pack("<QQ", 0, 1) + key + struct.pack("<IQ", 8, (1 << 64) - 1),
        struct.pack("<QQ", 0, 1) + key + struct.pack("<I", 99),
        struct.pack("<QQ", 1, 0) + key + struct.pack("<I", 1 << 30),
        struct.pack("<QQ", 1, 0) + key + struct.pack("<IQQIQ", 2, 1 << 40, 1 << 40, 0, 0),
        struct.pack("<QQ", 1, 0) + key + struct.pack("<IQIQ", 1, 256, 999, 0),
    ):
        path.write_bytes(head + body + bytes(64))
        with pytest.raises(rl.BadSpec, match=re.escape("m.gguf:1: ")):
            rl.load_model(str(path))


def gguf_llama(config, sixes, architecture="llama", table="Q4_K", extra=()):
    """Tensors of a Q4_K_M file of llama.cpp: values and half of the down projections of `sixes` layers in six bits."""
    hidden, width, head = config["hidden_size"], config["intermediate_size"], config["head_dim"]
    queries, keys = config["num_attention_heads"] * head, config["num_key_value_heads"] * head
    tensors = {"token_embd.weight": (table, (hidden, config["vocab_size"]))}
    for layer in range(config["num_hidden_layers"]):
        at, mixed = f"blk.{layer}.", "Q6_K" if layer in sixes else "Q4_K"
        tensors |= {
            f"{at}attn_q.weight": ("Q4_K", (hidden, queries)),
            f"{at}attn_k.weight": ("Q4_K", (hidden, keys)),
            f"{at}attn_v.weight": (mixed, (hidden, keys)),
            f"{at}attn_output.weight": ("Q4_K", (queries, hidden)),
            f"{at}ffn_gate.weight": ("Q4_K", (hidden, width)),
            f"{at}ffn_up.weight": ("Q4_K", (hidden, width)),
            f"{at}ffn_down.weight": (mixed, (width, hidden)),
            f"{at}attn_norm.weight": ("F32", (hidden,)),
            f"{at}ffn_norm.weight": ("F32", (hidden,)),
        }
        tensors |= {f"{at}{name}": ("F32", (length,)) for name, length in extra}
    tensors["output_norm.weight"] = ("F32", (hidden,))
    if not config.get("tie_word_embeddings"):
        tensors["output.weight"] = ("Q6_K", (hidden, config["vocab_size"]))
    metadata = {
        "general.architecture": architecture,
        "general.name": "Some Model",
        "tokenizer.ggml.tokens": ["a", "longer text"] * 1000,
        f"{architecture}.block_count": config["num_hidden_layers"],
        f"{architecture}.context_length": 8192,
        f"{architecture}.embedding_length": hidden,
        f"{architecture}.feed_forward_length": width,
        f"{architecture}.attention.head_count": config["num_attention_heads"],
        f"{architecture}.attention.head_count_kv": config["num_key_value_heads"],
        f"{architecture}.attention.key_length": head,
        f"{architecture}.rope.freq_base": 500000.0,
    }
    return metadata, tensors


def more_bits(layers):
    """Layers whose sensitive matrices llama.cpp keeps in six bits (use_more_bits of src/llama-quant.cpp)."""
    eighth = layers // 8
    return {layer for layer in range(layers) if layer < eighth or layer >= 7 * layers // 8 or (layer - eighth) % 3 == 2}


QWEN3_1B7 = LLAMA_8B | {
    "hidden_size": 2048, "intermediate_size": 6144, "num_hidden_layers": 28, "num_attention_heads": 16,
    "vocab_size": 151936, "tie_word_embeddings": True,
}  # fmt: skip
HEAD_NORMS = (("attn_q_norm.weight", 128), ("attn_k_norm.weight", 128))


@pytest.mark.parametrize(
    ("config", "architecture", "extra", "table", "kinds", "gib", "bpw"),
    [
        # sizes as llama.cpp itself prints them when it loads these files ("file size = 4.58 GiB (4.89 BPW)")
        (LLAMA_8B, "llama", (), "Q4_K", {"F32": 65, "Q4_K": 193, "Q6_K": 33}, 4.58, 4.89),
        (QWEN3_1B7, "qwen3", HEAD_NORMS, "Q6_K", {"F32": 113, "Q4_K": 168, "Q6_K": 29}, 1.03, 5.12),
    ],
)
def test_gguf_files_have_the_size_that_llama_cpp_prints(tmp_path, config, architecture, extra, table, kinds, gib, bpw):
    sixes = more_bits(config["num_hidden_layers"])
    metadata, tensors = gguf_llama(config, sixes, architecture, table, extra)
    counted = {kind: sum(entry[0] == kind for entry in tensors.values()) for kind in kinds}
    assert counted == kinds
    path = tmp_path / "model-Q4_K_M.gguf"
    size = write_gguf(path, metadata, tensors)
    model = rl.load_model(str(path))
    assert held(model) == pytest.approx(size, rel=1e-3)
    assert held(model) / 2**30 == pytest.approx(gib, abs=0.006)
    assert held(model) * 8 / parameters(model).total == pytest.approx(bpw, abs=0.006)
    assert model.name == "Some Model"
    assert model.tied is bool(config.get("tie_word_embeddings"))
    assert model.native["norm"] == "fp32"
    assert model.native["kv"] == "fp16"
    answer = rl.predict(model, "h100", batch=1)
    assert answer.memory.weights == pytest.approx(held(model), rel=1e-6)
    assert answer.deployment.quantization.sections["linear"].peak == "bf16"


def test_a_gguf_file_is_the_model_says_what_is_missing_and_becomes_a_specification(tmp_path):
    path = tmp_path / "m.gguf"
    write_gguf(path, *gguf_llama(LLAMA_8B, set()))
    assert rl.load_model(str(path)).groups == rl.load_model("llama-3-8b").groups
    path = tmp_path / "m.gguf"
    metadata, tensors = gguf_llama(LLAMA_8B, set())
    write_gguf(path, metadata | {"general.architecture": "wormhole"}, tensors)
    with pytest.raises(rl.BadSpec, match=r"'wormhole' is not read from metadata; put the config\.json"):
        rl.load_model(str(path))
    (tmp_path / "config.json").write_text(json.dumps(LLAMA_8B))
    assert rl.load_model(str(path)).layers == 32
    (tmp_path / "config.json").unlink()
    write_gguf(path, {name: value for name, value in metadata.items() if "head_count" not in name}, tensors)
    with pytest.raises(rl.BadSpec, match="num_attention_heads"):
        rl.load_model(str(path))
    (tmp_path / "n.gguf").write_bytes(path.read_bytes())
    with pytest.raises(rl.BadSpec, match="2 GGUF files; name the one that is meant"):
        rl.load_model(str(tmp_path))
    path = tmp_path / "m.gguf"
    write_gguf(path, *gguf_llama(LLAMA_8B, more_bits(32)))
    text, _ = imported_model(str(path), "mine/llama-q4")
    (tmp_path / "mine.yaml").write_text(text)
    model, kept = rl.load_model(str(path)), rl.load_model(str(tmp_path / "mine.yaml"))
    assert (kept.native, kept.groups) == (model.native, model.groups)
    assert kept.name == "mine/llama-q4"
