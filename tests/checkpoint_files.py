"""Headers of checkpoints without their weights: what a test needs of files of hundreds of gigabytes."""

import json
import struct

BITS = {"BF16": 16, "F16": 16, "F32": 32, "F8_E4M3": 8, "F8_E8M0": 8, "U8": 8, "I8": 8, "I32": 32, "I64": 64}
BLOCKS = {"F32": (0, 1, 4), "F16": (1, 1, 2), "Q8_0": (8, 32, 34), "Q4_K": (12, 256, 144), "Q6_K": (14, 256, 210)}


def values(shape):
    count = 1
    for length in shape:
        count *= length
    return count


def write_safetensors(path, tensors):
    """Write a header: name -> (dtype, shape), and give the bytes of the weights that do not follow."""
    header, end = {"__metadata__": {"format": "pt"}}, 0
    for name, (dtype, shape) in tensors.items():
        start, end = end, end + values(shape) * BITS[dtype] // 8
        header[name] = {"dtype": dtype, "shape": list(shape), "data_offsets": [start, end]}
    text = json.dumps(header).encode()
    path.write_bytes(struct.pack("<Q", len(text)) + text)
    return end


def text_of(value):
    data = value.encode()
    return struct.pack("<Q", len(data)) + data


def field(value):
    if isinstance(value, str):
        return struct.pack("<I", 8) + text_of(value)
    if isinstance(value, list) and isinstance(value[0], str):
        return struct.pack("<IIQ", 9, 8, len(value)) + b"".join(map(text_of, value))
    if isinstance(value, list):
        return struct.pack(f"<IIQ{len(value)}I", 9, 4, len(value), *value)
    return struct.pack("<If", 6, value) if isinstance(value, float) else struct.pack("<II", 4, value)


def write_gguf(path, metadata, tensors):
    """Write a header: name -> (type, shape, fastest dimension first), and give the size of the whole file."""
    parts = [b"GGUF", struct.pack("<IQQ", 3, len(tensors), len(metadata))]
    parts += [text_of(name) + field(value) for name, value in metadata.items()]
    at = 0
    for name, (kind, shape) in tensors.items():
        number, block, nbytes = BLOCKS[kind]
        parts.append(text_of(name) + struct.pack(f"<I{len(shape)}Q", len(shape), *shape))
        parts.append(struct.pack("<IQ", number, at))
        size = values(shape) // block * nbytes
        end, at = at + size, at + -(-size // 32) * 32
    data = b"".join(parts)
    path.write_bytes(data)
    return -(-len(data) // 32) * 32 + end


def llama_tensors(config, dtype="BF16"):
    """Tensors of a Llama-like checkpoint as the hub holds them."""
    hidden, width, head = config["hidden_size"], config["intermediate_size"], config["head_dim"]
    queries, keys = config["num_attention_heads"] * head, config["num_key_value_heads"] * head
    tensors = {"model.embed_tokens.weight": (dtype, (config["vocab_size"], hidden))}
    for layer in range(config["num_hidden_layers"]):
        at = f"model.layers.{layer}"
        for name, shape in (
            ("self_attn.q_proj", (queries, hidden)), ("self_attn.k_proj", (keys, hidden)),
            ("self_attn.v_proj", (keys, hidden)), ("self_attn.o_proj", (hidden, queries)),
            ("mlp.gate_proj", (width, hidden)), ("mlp.up_proj", (width, hidden)), ("mlp.down_proj", (hidden, width)),
        ):  # fmt: skip
            tensors[f"{at}.{name}.weight"] = (dtype, shape)
        for name in ("input_layernorm", "post_attention_layernorm"):
            tensors[f"{at}.{name}.weight"] = (dtype, (hidden,))
    tensors["model.norm.weight"] = (dtype, (hidden,))
    if not config.get("tie_word_embeddings"):
        tensors["lm_head.weight"] = (dtype, (config["vocab_size"], hidden))
    return tensors


LLAMA_8B = {
    "model_type": "llama", "hidden_size": 4096, "intermediate_size": 14336, "num_hidden_layers": 32,
    "num_attention_heads": 32, "num_key_value_heads": 8, "head_dim": 128, "vocab_size": 128256,
    "max_position_embeddings": 131072, "torch_dtype": "bfloat16",
}  # fmt: skip
