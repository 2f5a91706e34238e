"""Vision and audio towers of a Hugging Face configuration, in the words of a specification.

Matrices, biases and norms as the classes of transformers 5.23 have them (https://pypi.org/project/transformers/5.23.0/,
models/*/modeling_*.py; of Kimi-K3, which has none there, as engines load its checkpoint); resizing as their image
processors do (image_processing_*.py), whose limits are not in ``config.json``; of Qwen3-VL those of its checkpoints.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any

from roofline.catalog.huggingface.blocks import Block, Fields
from roofline.numbers.quantity import KIBI
from roofline.specs.media import AUDIO, VISION
from roofline.support.errors import BadSpec

_RGB = 3  # channels of a pixel


def encoders(outer: Fields, text_hidden: int) -> list[Block]:
    """Towers of a configuration, whose language model is so wide; those of unknown types or sizes are left out."""
    found: list[Block] = []
    for name, kind, known in (("vision_config", VISION, _VISION), ("audio_config", AUDIO, _AUDIO)):
        if not isinstance(outer.values.get(name), Mapping):
            continue
        tower = Fields(outer.values[name], outer.where, f"{name}.")
        types = (tower.values.get("model_type"), outer.values.get("model_type"))
        read = next((known[key] for key in types if isinstance(key, str) and key in known), None)
        if read is not None:
            with suppress(BadSpec):
                found.append({"kind": kind, **read(tower, outer, text_hidden)})
    return found


def _step(inner: int, outer: int, count: int = 1, rows: float = 1.0) -> Block:
    more: Block = {"count": count} if count != 1 else {}
    return {"inner": inner, "outer": outer, **more, **({"rows": rows} if rows != 1.0 else {})}


def _sizes(tower: Fields) -> tuple[int, int, int, int]:
    """Width, layers, heads and width of the networks."""
    return (
        tower.count("hidden_size", "vt_hidden_size", "d_model"),
        tower.layers("depth", "num_hidden_layers", "vt_num_hidden_layers", "encoder_layers"),
        tower.count("num_heads", "num_attention_heads", "vt_num_attention_heads", "encoder_attention_heads"),
        tower.count("intermediate_size", "vt_intermediate_size", "encoder_ffn_dim"),
    )


def _layers(tower: Fields) -> Block:
    hidden, layers, heads, width = _sizes(tower)
    return {"hidden": hidden, "layers": layers, "heads": heads, "width": width}


def _usual_vectors(hidden: int, width: int) -> int:
    """Two layer norms with biases, and biases of q, k, v, o and both matrices of the network."""
    return 9 * hidden + width


def _qwen3(tower: Fields, _outer: Fields, text: int) -> Block:
    hidden, *_, width = _sizes(tower)
    patch, frames = tower.count("patch_size", default=16), tower.count("temporal_patch_size", default=2)
    merge, out = tower.count("spatial_merge_size", default=2), tower.count("out_hidden_size", default=text)
    positions = tower.count("num_position_embeddings", default=2304)
    deep = len(tower.counts("deepstack_visual_indexes") or ())
    merged, mergers = hidden * merge**2, 1 + deep
    norms = 2 * hidden + deep * 2 * merged
    return {
        **_layers(tower),
        "layer_vectors": _usual_vectors(hidden, width),
        "vectors": hidden * (1 + positions) + norms + mergers * (merged + out),
        "stem": [_step(_RGB * patch**2 * frames, hidden)],
        "projector": [_step(merged, merged, mergers), _step(merged, out, mergers)],
        "rule": "area",
        "patch": patch,
        "merge": merge,
        "min_pixels": 64 * KIBI,
        "max_pixels": 16 * KIBI * KIBI,
        "frames": frames,
        "markers": 2,
    }


def _qwen25(tower: Fields, _outer: Fields, text: int) -> Block:
    hidden, layers, _, width = _sizes(tower)
    patch, frames = tower.count("patch_size", default=14), tower.count("temporal_patch_size", default=2)
    merge, out = tower.count("spatial_merge_size", default=2), tower.count("out_hidden_size", default=text)
    merged, across = hidden * merge**2, tower.count("window_size", default=112) // patch
    full = tower.counts("fullatt_block_indexes")
    return {
        **_layers(tower),
        "gated": True,
        "layer_vectors": 2 * hidden + 5 * hidden + 2 * width,
        "vectors": hidden + merged + out,
        "stem": [_step(_RGB * patch**2 * frames, hidden)],
        "projector": [_step(merged, merged), _step(merged, out)],
        "window": across**2,
        "full_layers": layers if full is None else len(full),
        "rule": "area",
        "patch": patch,
        "merge": merge,
        "min_pixels": 56 * 56,
        "max_pixels": 28 * 28 * 16 * KIBI,
        "frames": frames,
        "markers": 2,
    }


def _kimi(tower: Fields, _outer: Fields, text: int) -> Block:
    hidden, _, heads, width = _sizes(tower)
    patch, merge = tower.count("patch_size", default=14), (tower.counts("merge_kernel_size") or [2, 2])[0]
    positions = tower.count("init_pos_emb_height", default=64) * tower.count("init_pos_emb_width", default=64)
    out, merged = tower.count("text_hidden_size", default=text), hidden * merge**2
    is_plain = tower.text("mm_projector_type") == "patchmergerv2"  # Kimi-K3: no biases, RMS norms
    block = {
        **_layers(tower),
        "layer_vectors": 2 * hidden if is_plain else _usual_vectors(hidden, width),
        "vectors": hidden * positions + (hidden + out if is_plain else 5 * hidden + merged + out),
        "stem": [_step(_RGB * patch**2, hidden)],
        "projector": [_step(merged, merged), _step(merged, out)],
        "rule": "native",
        "patch": patch,
        "merge": merge,
        "max_pixels": 16 * KIBI * patch**2,
        "side": 512 * patch,
        "joint_frames": tower.count("init_pos_emb_time", default=4),
        "markers": 4,
    }
    inner = tower.optional("qkv_hidden_size")
    if inner is not None:
        block["head_dim"] = tower.divided("qkv_hidden_size", inner, heads)
    return block


def _glm(tower: Fields, _outer: Fields, text: int) -> Block:
    hidden, _, heads, width = _sizes(tower)
    patch, frames = tower.count("patch_size", default=14), tower.count("temporal_patch_size", default=2)
    merge, out = tower.count("spatial_merge_size", default=2), tower.count("out_hidden_size", default=text)
    inner = tower.count("projection_intermediate_size")
    biases = 5 * hidden + 2 * width if tower.flag("attention_bias", default=True) else 0
    side = patch * merge
    return {
        **_layers(tower),
        "gated": True,
        "layer_vectors": 2 * hidden + 2 * (hidden // heads) + biases,
        "vectors": 2 * hidden + 3 * out,
        "stem": [_step(_RGB * patch**2 * frames, hidden)],
        "projector": [_step(hidden * merge**2, out), _step(out, out), _step(out, 2 * inner), _step(inner, out)],
        "rule": "canvas",
        "patch": patch,
        "merge": merge,
        "min_pixels": 16 * side**2,
        "max_pixels": 8000 * side**2,
        "frames": frames,
        "markers": 2,
    }


def _muse(tower: Fields, outer: Fields, text: int) -> Block:
    hidden, layers, _, width = _sizes(tower)
    patch, frames = tower.count("patch_size", default=14), tower.count("patch_temporal", default=2)
    merge = tower.count("merge_size", default=2)
    height, across = tower.count("pos_emb_height", default=32), tower.count("pos_emb_width", default=32)
    inner = outer.count("projector_hidden_size", default=4096)
    full = tower.marks("layer_types", layers, "full_attention", "window_attention")
    if full is None:
        full = [(number + 1) % 4 == 0 or number == layers - 1 for number in range(layers)]
    return {
        **_layers(tower),
        "layer_vectors": _usual_vectors(hidden, width),
        "vectors": hidden * (height * across + 4),
        "stem": [_step(_RGB * patch**2 * frames, hidden)],
        "projector": [_step(hidden * merge**2, inner), _step(inner, inner), _step(inner, text)],
        "window": height * across,
        "full_layers": sum(full),
        "rule": "aspect",
        "patch": patch,
        "merge": merge,
        "most_tokens": 4096,
        "frames": frames,
        "markers": 2,
    }


def _minimax(tower: Fields, outer: Fields, text: int) -> Block:
    hidden, _, _, width = _sizes(tower)
    patch, merge, frames = tower.count("patch_size", default=14), tower.count("spatial_merge_size", default=2), 2
    inner, joined = outer.count("projector_hidden_size"), merge**2
    return {
        **_layers(tower),
        "layer_vectors": _usual_vectors(hidden, width),
        "vectors": 2 * hidden + 2 * inner + 2 * text,
        "stem": [_step(_RGB * patch**2 * frames, hidden)],
        "projector": [
            _step(hidden, inner, rows=float(joined)), _step(inner, text, rows=float(joined)),
            _step(text * joined, inner), _step(inner, text),
        ],
        "rule": "area",
        "patch": patch,
        "merge": merge,
        "min_pixels": 4 * 28 * 28,
        "max_pixels": 451_584,
        "frames": frames,
        "markers": 2,
    }  # fmt: skip


def _gemma4(tower: Fields, outer: Fields, text: int) -> Block:
    hidden, _, heads, _ = _sizes(tower)
    patch, merge = tower.count("patch_size", default=16), tower.count("pooling_kernel_size", default=3)
    head_dim = tower.count("head_dim", default=hidden // heads)
    table = 2 * tower.count("position_embedding_size", default=10_240) * hidden
    return {
        **_layers(tower),
        "head_dim": head_dim,
        "gated": True,
        "layer_vectors": 4 * hidden + 2 * head_dim,
        "vectors": table,
        "stem": [_step(_RGB * patch**2, hidden)],
        "projector": [_step(hidden, text)],
        "rule": "budget",
        "patch": patch,
        "merge": merge,
        "most_tokens": outer.count("vision_soft_tokens_per_image", default=280),
        "frame_tokens": tower.count("video_seq_length", default=70),
        "markers": 2,
    }


def _gemma3(tower: Fields, outer: Fields, text: int) -> Block:
    hidden, _, _, width = _sizes(tower)
    patch, side = tower.count("patch_size", default=14), tower.count("image_size", default=896)
    tokens = outer.count("mm_tokens_per_image", default=256)
    positions = (side // patch) ** 2
    return {
        **_layers(tower),
        "layer_vectors": _usual_vectors(hidden, width),
        "vectors": hidden * (1 + positions + 2) + hidden,
        "stem": [_step(_RGB * patch**2, hidden)],
        "projector": [_step(hidden, text)],
        "rule": "fixed",
        "patch": patch,
        "merge": side // patch // round(tokens**0.5),
        "side": side,
        "markers": 4,
    }


def _llama4(tower: Fields, _outer: Fields, text: int) -> Block:
    hidden, _, _, width = _sizes(tower)
    patch, side = tower.count("patch_size", default=14), tower.count("image_size", default=336)
    merge = round(1.0 / tower.number("pixel_shuffle_ratio", 0.5))
    inner, out = tower.count("projector_input_dim", default=4096), tower.count("projector_output_dim", default=4096)
    positions = (side // patch) ** 2 + 1
    return {
        **_layers(tower),
        "layer_vectors": _usual_vectors(hidden, width),
        "vectors": hidden * (1 + positions + 4),
        "stem": [_step(_RGB * patch**2, hidden)],
        "projector": [_step(hidden * merge**2, inner), _step(inner, out), _step(out, text)],
        "rule": "canvases",
        "patch": patch,
        "merge": merge,
        "side": side,
        "most_tiles": 16,
        "extra_patches": 1,
        "markers": 3,
        "tile_markers": 1,
    }


def _pixtral(tower: Fields, outer: Fields, text: int) -> Block:
    hidden, _, _, _ = _sizes(tower)
    patch, merge = tower.count("patch_size", default=14), outer.count("spatial_merge_size", default=2)
    biases = 2 * text if outer.flag("multimodal_projector_bias") else 0
    return {
        **_layers(tower),
        "gated": True,
        "layer_vectors": 2 * hidden,
        "vectors": 2 * hidden + biases,
        "stem": [_step(_RGB * patch**2, hidden)],
        "projector": [_step(hidden * merge**2, hidden), _step(hidden, text), _step(text, text)],
        "rule": "longest",
        "patch": patch,
        "merge": merge,
        "side": tower.count("image_size", default=1540),
        "row_markers": 1,
    }


def _lfm2(tower: Fields, outer: Fields, text: int) -> Block:
    hidden, _, _, width = _sizes(tower)
    patch, merge = tower.count("patch_size", default=16), outer.count("downsample_factor", default=2)
    inner, merged = outer.count("projector_hidden_size", default=2048), hidden * merge**2
    norm = 2 * merged if outer.flag("projector_use_layernorm", default=True) else 0
    biases = inner + text if outer.flag("projector_bias", default=True) else 0
    side = patch * merge
    return {
        **_layers(tower),
        "layer_vectors": _usual_vectors(hidden, width),
        "vectors": hidden * (1 + tower.count("num_patches", default=256) + 2) + norm + biases,
        "stem": [_step(_RGB * patch**2, hidden)],
        "projector": [_step(merged, inner), _step(inner, text)],
        "rule": "thumbnail",
        "patch": patch,
        "merge": merge,
        "min_pixels": outer.count("min_image_tokens", default=64) * side**2,
        "max_pixels": outer.count("max_image_tokens", default=256) * side**2,
        "side": outer.count("tile_size", default=512),
        "least_tiles": outer.count("min_tiles", default=2),
        "most_tiles": outer.count("max_tiles", default=10),
        "most_tokens": outer.count("max_image_tokens", default=256),
        "markers": 2,
        "tile_markers": 1,
    }


def _internvl(tower: Fields, outer: Fields, text: int) -> Block:
    hidden, _, _, width = _sizes(tower)
    sides = [tower.counts(name) if isinstance(tower.values.get(name), list) else None
             for name in ("patch_size", "image_size")]  # fmt: skip
    patch = sides[0][0] if sides[0] else tower.count("patch_size", default=14)
    side = sides[1][0] if sides[1] else tower.count("image_size", default=448)
    merge = round(1.0 / outer.number("downsample_ratio", 0.5))
    merged, positions = hidden * merge**2, (side // patch) ** 2 + 1
    bias = 3 * hidden if tower.flag("attention_bias") else 0
    norms = 2 * hidden if tower.flag("use_qk_norm") else 0
    return {
        **_layers(tower),
        "layer_vectors": 4 * hidden + 2 * hidden + bias + norms + hidden + width + hidden,  # norms, scales, biases
        "vectors": hidden * (1 + 1 + positions) + 2 * merged + 2 * text,
        "stem": [_step(_RGB * patch**2, hidden)],
        "projector": [_step(merged, text), _step(text, text)],
        "rule": "tiles",
        "patch": patch,
        "merge": merge,
        "side": side,
        "most_tiles": 12,
        "extra_patches": 1,
        "markers": 2,
    }


def _whisper(tower: Fields) -> Block:
    """A Whisper encoder; its positions are for 30 s."""
    hidden, _, _, width = _sizes(tower)
    mels, positions = tower.count("num_mel_bins", default=128), tower.count("max_source_positions", default=1500)
    return {
        **_layers(tower),
        "layer_vectors": _usual_vectors(hidden, width) - hidden,  # keys have no bias
        "vectors": 2 * hidden + positions * hidden + 2 * hidden,
        "stem": [_step(3 * mels, hidden, rows=2.0), _step(3 * hidden, hidden)],
        "rule": "padded",
        "chunk": 30.0,
        "rate": positions / 30.0,
    }


def _voxtral(tower: Fields, _outer: Fields, text: int) -> Block:
    block, hidden = _whisper(tower), tower.count("hidden_size", "d_model")
    merge = tower.count("intermediate_size", "encoder_ffn_dim") // hidden
    return {**block, "projector": [_step(hidden * merge, text), _step(text, text)], "merge": merge, "markers": 1}


def _qwen2_audio(tower: Fields, _outer: Fields, text: int) -> Block:
    """Pairs of frames are averaged; the prompt gets tokens for what was said, not for the padding."""
    block, hidden = _whisper(tower), tower.count("d_model", "hidden_size")
    return {
        **block,
        "vectors": block["vectors"] + text,
        "projector": [_step(hidden, text)],
        "rule": "unpadded",
        "merge": 2,
        "markers": 2,
    }


_Reader = Callable[[Fields, Fields, int], dict[str, Any]]
_QWEN3 = ("qwen3_vl", "qwen3_vl_moe", "qwen3_5", "qwen3_5_moe")
#: Types of towers, or of the models around them -> how they are read.
_VISION: Mapping[str, _Reader] = {
    **{name + end: _qwen3 for name in _QWEN3 for end in ("", "_vision")},
    **dict.fromkeys(("qwen2_5_vl", "qwen2_5_vl_vision"), _qwen25),
    **dict.fromkeys(("kimi_k25", "kimi_k25_vision", "kimi_k3", "kimi_k3_vision"), _kimi),
    "glm5_next_vision": _glm,
    "muse_glimmer_vision": _muse,
    "minimax_m3_vl": _minimax,
    "minimax_m3_vl_vision": _minimax,
    "gemma4_vision": _gemma4,
    "gemma3": _gemma3,
    "llama4_vision_model": _llama4,
    "pixtral": _pixtral,
    "lfm2_vl": _lfm2,
    "lfm2-vl": _lfm2,
    "internvl_vision": _internvl,
}
_AUDIO: Mapping[str, _Reader] = {"voxtral_encoder": _voxtral, "qwen2_audio_encoder": _qwen2_audio}
