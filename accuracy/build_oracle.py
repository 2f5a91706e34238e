"""Counts of torch, the authority on what a configuration holds: parameters of transformers' classes on the meta device.

    python accuracy/build_oracle.py --type dots1 --seed 1     a drawn configuration as transformers saves it, and its count
    python accuracy/build_oracle.py --config PATH [--shapes]  the same of a config.json
    python accuracy/build_oracle.py --write                   tests/fixtures/oracle/*, which the tests read without torch

Needs transformers and torch (`pip install transformers` and torch by its CPU index); no weights, no network. A draw
depends on type and seed alone. Seed 0 is the class as it stands, seed 1 draws sizes, further seeds draw switches, too.
"""

from __future__ import annotations

import argparse
import json
import logging
import os
import random
import re
import sys
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

os.environ.setdefault("TRANSFORMERS_VERBOSITY", "critical")
os.environ.setdefault("HF_HUB_OFFLINE", "1")

import torch
import transformers
from transformers.models.auto import modeling_auto
from transformers.models.auto.configuration_auto import CONFIG_MAPPING

from roofline.catalog.huggingface.blocks import Fields
from roofline.catalog.huggingface.traced import class_tensors, meta_tensors

FIXTURES = Path(__file__).parent.parent / "tests" / "fixtures"
FOLDER = FIXTURES / "oracle"
SEEDS = (1, 2, 3)
#: Draws whose shapes are stored: layers that shapes say, and at the end some that they do not.
SHAPES = (
    "gpt_oss:2 ernie4_5_moe:1 qwen3_moe:1 qwen2_moe:2 glm4_moe:1 olmo2:1 gpt_neox:1 gptj:1 mpt:1 cohere2:1 exaone_moe:1"
    " dots1:1 aria_text:1 granitemoeshared:1 hunyuan_v1_moe:1 stablelm:2 minimax_m2:1 nemotron:1 llama4_text:1"
    " mamba:1 deepseek_v3:1 hrm_text:1 gpt2:1 qwen3_next:1 lfm2_moe:1 afmoe:1 mistral:1 helium:1"
)
#: Causal types that are no decoders of text alone: encoders, halves of encoder-decoders, speech, music, diffusion.
NO_DECODERS = frozenset(
    [
        "bart",
        "beam",
        "bert",
        "bert-generation",
        "big_bird",
        "bigbird_pegasus",
        "blenderbot",
        "blenderbot-small",
        "blt",
        "camembert",
        "cpmant",
        "data2vec-text",
        "electra",
        "emu3",
        "ernie",
        "fuyu",
        "gemma4_assistant",
        "gemma4_unified_assistant",
        "git",
        "got_ocr2",
        "marian",
        "mbart",
        "megatron-bert",
        "moshi",
        "moss_transcribe_diarize",
        "musicgen",
        "musicgen_melody",
        "mvp",
        "pegasus",
        "plbart",
        "prophetnet",
        "reformer",
        "rembert",
        "roberta",
        "roberta-prelayernorm",
        "roc_bert",
        "roformer",
        "trocr",
        "whisper",
        "xlm",
        "xlm-roberta",
        "xlm-roberta-xl",
        "xlnet",
        "xmod",
    ]
)
#: Wrappers of a decoder that are no causal class of their own.
WRAPPERS = (
    "blip-2",
    "cosmos3_edge",
    "glm4v",
    "glm4v_moe",
    "glm_ocr",
    "granite_docling",
    "hunyuan_vl",
    "minimax_m3_vl",
    "mistral3",
    "mllama",
    "ovis2",
    "paddleocr_vl",
    "qwen2_5_omni_thinker",
    "qwen2_5_vl",
    "qwen2_vl",
    "qwen3_omni_moe_thinker",
    "qwen3_vl",
    "qwen3_vl_moe",
    "step3p7",
)
#: Model types of checkpoints whose code is theirs, and the class of transformers that has the same tensors.
SAME_TENSORS = {"kimi_k2": "deepseek_v3", "mimo": "qwen2"}
#: What says nothing of tensors, to keep the fixtures small.
NOISE = re.compile(
    r"dropout|_token_id$|initializer|^output_|^return_|use_cache|transformers_version|_eps$|epsilon|hidden_act"
    r"|activation_function|pretraining_tp|^summary_|chunk_size_feed|id2label|label2id|problem_type|_coef$|_loss|jitter"
    r"|^architectures$|pdrop|^_attn|^_exp|_cross_attention|^is_decoder$|prune|task_specific|gradient|rope_theta"
    r"|^time_step_(?!rank)|^rope_scaling$|_multiplier$|_logit|softcap|^partial_rotary|^original_max|^use_mamba|^use_assoc|residual_in|rescale"
)


@dataclass(frozen=True)
class Count:
    """What torch holds for a configuration."""

    parameters: int  # tied tensors once, text part, without draft modules
    buffers: int  # values that a checkpoint stores and that are no parameters: correction biases of routers, scales
    mtp: int  # parameters of draft modules
    shapes: dict[str, list[int]]  # of every tensor counted, by name


# --- counting --------------------------------------------------------------------------------------


def counted(config: Any) -> Count:
    """Exact count of the text part of a configuration."""
    found = meta_tensors(config)
    kept = [tensor for tensor in found if not tensor.is_draft]
    return Count(
        parameters=sum(tensor.values for tensor in kept if tensor.is_parameter),
        buffers=sum(tensor.values for tensor in kept if not tensor.is_parameter),
        mtp=sum(tensor.values for tensor in found if tensor.is_draft),
        shapes={tensor.name: list(tensor.shape) for tensor in kept},
    )


TOWERS = re.compile(r"vision|visual|audio|speech")


# --- configurations ----------------------------------------------------------------------------------


def config_of(values: dict[str, Any]) -> Any:
    """Configuration object of the content of a config.json, or of a fixture, which leaves out what is null."""
    values = {name: value for name, value in values.items() if not name.startswith("_")}
    model_type = values["model_type"]
    model_type = SAME_TENSORS.get(model_type, model_type)
    if model_type not in CONFIG_MAPPING:
        raise LookupError(f"transformers {transformers.__version__} has no model type {model_type}")
    cls = CONFIG_MAPPING[model_type]
    if "text_config" in getattr(cls, "sub_configs", {}) and not any(name.endswith("_config") for name in values):
        outer = ("architectures", "model_type", "tie_word_embeddings")
        text = {name: value for name, value in values.items() if name not in outer}
        values = {name: value for name, value in values.items() if name in outer} | {"text_config": text}
    if isinstance(getattr(cls, "head_dim", None), property):
        values.pop("head_dim", None)
    if model_type == "falcon" and "num_key_value_heads" in values:  # a fixture derived from a table
        values["num_kv_heads"] = values.pop("num_key_value_heads")
        values.setdefault("new_decoder_architecture", values["num_kv_heads"] > 1)
    if model_type == "mistral":
        values.setdefault("sliding_window", None)
    return cls.from_dict(values | {"model_type": model_type})


def saved(config: Any) -> dict[str, Any]:
    """What `save_pretrained` writes."""
    return dict(json.loads(config.to_json_string(use_diff=True)))


def without_noise(values: dict[str, Any]) -> dict[str, Any]:
    """The fields of a saved configuration that may say something of tensors."""
    kept = {}
    for name, value in values.items():
        if NOISE.search(name):
            continue
        if re.search(TOWERS, name) and isinstance(value, dict):
            value = {}  # noqa: PLW2901 - towers are not counted; that there is one is said
        kept[name] = without_noise(value) if isinstance(value, dict) else value
    return kept


def drawn(model_type: str, seed: int) -> Any:
    """A configuration of a type with small sizes; bolder draws give way to tamer ones where the class refuses them."""
    cls = CONFIG_MAPPING[model_type]
    if seed == 0:
        return cls()
    faults = []
    for attempt in range(24):
        dice = random.Random(f"{model_type}/{seed}/{attempt}")
        try:
            config = cls()
            inner = config.get_text_config(decoder=True)
            values = sizes(inner.to_dict(), dice, switches=seed > 1 and attempt < 16, bold=attempt < 8)
            if type(inner).model_type.removesuffix("_text") in PECULIAR:
                values |= PECULIAR[type(inner).model_type.removesuffix("_text")](values, dice)
            text = type(inner)(**values)
            if inner is not config:
                name = next(key for key in vars(config) if getattr(config, key, None) is inner)
                tied = dice.random() < 0.5  # whatever the text says of itself
                text = cls(**{name: text.to_dict()}, tie_word_embeddings=tied)
            said_tied = getattr(text, "tie_word_embeddings", False)
            if "lm_head.weight" in counted(text).shapes and said_tied and attempt < 16:
                raise ValueError("the class ties nothing")  # noqa: TRY301 - as it refuses other draws
        except Exception as fault:  # noqa: BLE001 - a class has a hundred ways to refuse sizes
            faults.append(f"{type(fault).__name__}: {str(fault)[:300]}")
            continue
        return text
    raise LookupError(f"{model_type}: no draw is accepted: {faults[-1]}")


def sizes(default: dict[str, Any], dice: random.Random, *, switches: bool, bold: bool) -> dict[str, Any]:
    """Small sizes for the fields that a class has; what is derived from others is left to the class."""
    heads = dice.choice((4, 6, 8, 12))
    kv_heads = dice.choice([kv for kv in (1, 2, 3, 4, 6) if heads % kv == 0])
    head_dim = dice.choice((16, 32, 48))
    hidden = heads * head_dim
    if bold and "head_dim" in default:
        hidden = heads * dice.choice((16, 24, 40))
    layers = dice.choice((4, 5, 6, 8, 9))
    experts = dice.choice((4, 6, 8, 16))
    top_k = dice.choice((1, 2, 3))
    k_heads = dice.choice((2, 4))
    per = (
        (heads, "num_attention_heads n_head n_heads num_heads attention_heads"),
        (kv_heads, "num_key_value_heads num_kv_heads swa_num_key_value_heads"),
        (head_dim, "head_dim swa_head_dim"),
        (hidden, "hidden_size n_embd d_model embedding_size word_embed_proj_dim"),
        (layers, "num_hidden_layers n_layer n_layers num_layers"),
        (experts, "num_experts n_routed_experts num_local_experts moe_num_experts"),
        (top_k, "num_experts_per_tok num_experts_per_token moe_topk moe_k top_k_experts"),
    )
    values: dict[str, Any] = {name: value for value, names in per for name in names.split()}
    values |= {
        "vocab_size": dice.choice((1000, 1536, 2001)),
        "max_position_embeddings": 512,
        "n_positions": 512,
        "max_seq_len": 512,
        "intermediate_size": dice.choice((96, 160, 224)),
        "n_inner": dice.choice((96, 160, 224)),
        "ffn_dim": dice.choice((96, 160, 224)),
        "ffn_hidden_size": dice.choice((96, 160, 224)),
        "expert_ffn_hidden_size": dice.choice((24, 40, 56)),
        "intermediate_size_mlp": dice.choice((96, 160, 224)),
        "dense_intermediate_size": dice.choice((96, 160, 224)),
        "moe_intermediate_size": dice.choice((24, 40, 56)),
        "shared_expert_intermediate_size": dice.choice((24, 40, 56)),
        "moe_shared_expert_intermediate_size": dice.choice((24, 40, 56)),
        "shared_intermediate_size": dice.choice((24, 40, 56)),
        "n_shared_experts": dice.choice((1, 2)),
        "num_shared_experts": dice.choice((1, 2)),
        "moe_num_shared_experts": dice.choice((1, 2)),
        "n_group": 1,
        "topk_group": 1,
        "num_expert_group": 1,
        "first_k_dense_replace": dice.choice((0, 1, 2)),
        "num_dense_layers": dice.choice((0, 1, 2)),
        "kv_lora_rank": dice.choice((24, 40)),
        "q_lora_rank": dice.choice((24, 40)),
        "qk_nope_head_dim": dice.choice((16, 24)),
        "qk_rope_head_dim": dice.choice((8, 16)),
        "v_head_dim": dice.choice((16, 24)),
        "index_n_heads": dice.choice((2, 4)),
        "index_head_dim": dice.choice((16, 32)),
        "index_topk": 64,
        "o_lora_rank": 24,
        "o_groups": 2,
        "sliding_window": 128,
        "linear_num_key_heads": k_heads,
        "linear_num_value_heads": k_heads * dice.choice((1, 2)),
        "linear_key_head_dim": dice.choice((16, 24)),
        "linear_value_head_dim": dice.choice((16, 32)),
        "mamba_d_state": dice.choice((8, 16)),
        "mamba_d_conv": dice.choice((3, 4)),
        "ssm_state_size": dice.choice((8, 16)),
        "state_size": dice.choice((8, 16)),
        "conv_kernel": dice.choice((3, 4)),
        "conv_L_cache": dice.choice((3, 4)),
        "time_step_rank": dice.choice((8, 12)),
        "mamba_num_heads": 8,
        "mamba_head_dim": dice.choice((8, 16)),
        "n_groups": dice.choice((1, 2)),
        "hidden_size_per_layer_input": dice.choice((8, 16)),
        "vocab_size_per_layer_input": 900,
        "laurel_rank": 8,
    }
    if values.get("qk_head_dim") is None:
        values["qk_head_dim"] = values["qk_nope_head_dim"] + values["qk_rope_head_dim"]
    if "n_inner" in default and default.get("n_inner") is None and not bold:
        values.pop("n_inner")
    values |= {
        name: 0 for name in ("pad_token_id", "bos_token_id", "eos_token_id") if isinstance(default.get(name), int)
    }
    chosen = {name: value for name, value in values.items() if name in default}
    if "n_head" in default and "num_attention_heads" not in default:
        chosen.pop("head_dim", None)
    if "head_dim" in chosen and default["head_dim"] is None and not bold:
        chosen.pop("head_dim")
    listed = default.get("layer_types")
    if bold and switches and isinstance(listed, list) and len(set(listed)) > 1:
        chosen["layer_types"] = kinds(dice, layers, *sorted(set(listed)))
    if switches:
        names = "attention_bias mlp_bias tie_word_embeddings use_qk_norm use_bias add_qkv_bias attention_out_bias qk_layernorm"
        for name in names.split():
            if isinstance(default.get(name), bool) and dice.random() < 0.4:
                chosen[name] = not default[name]
    return chosen


def kinds(dice: random.Random, layers: int, *names: str) -> list[str]:
    """A kind a layer, the first and the last ones stated in full so that each occurs."""
    listed = [*names, *(dice.choice(names) for _ in range(max(0, layers - 2 * len(names)))), *names]
    return listed[:layers]


def shared_caches(values: dict[str, Any], dice: random.Random) -> dict[str, Any]:
    """Of Gemma-3n and 4: layers that read the cache of an earlier one; embeddings a layer, or none."""
    found: dict[str, Any] = {
        "num_hidden_layers": 8,
        "layer_types": kinds(dice, 8, "sliding_attention", "full_attention"),
        "num_kv_shared_layers": dice.choice((0, 2, 3)),
    }
    if "hidden_size_per_layer_input" in values:
        found["hidden_size_per_layer_input"] = dice.choice((0, 16))
    return found


#: What a type needs beyond sizes, from those that were drawn.
PECULIAR: dict[str, Callable[[dict[str, Any], random.Random], dict[str, Any]]] = {
    "dbrx": lambda values, dice: {
        "attn_config": {"kv_n_heads": 2, "rope_theta": 10000.0},
        "ffn_config": {
            "ffn_hidden_size": dice.choice((24, 40)),
            "moe_num_experts": dice.choice((4, 6)),
            "moe_top_k": 2,
            "hidden_size": values["d_model"],
        },
    },
    "deepseek_v4": lambda values, dice: {
        "n_shared_experts": 1,  # the class has one, whatever the field says
        "layer_types": kinds(
            dice,
            values["num_hidden_layers"],
            "sliding_attention",
            "compressed_sparse_attention",
            "heavily_compressed_attention",
        ),
    },
    "dots3_note": lambda values, _dice: {"num_key_value_heads": values["num_attention_heads"]},
    "gemma3n": lambda _values, dice: (
        shared_caches({}, dice) | {"num_kv_shared_layers": dice.choice((2, 3)), "intermediate_size": 96}
    ),
    "gemma4": shared_caches,
    "gpt_neo": lambda _values, _dice: {"num_layers": 6, "attention_types": [[["global", "local"], 3]]},
    "granitemoehybrid": lambda values, dice: {
        "layer_types": kinds(dice, values["num_hidden_layers"], "linear_attention", "full_attention")
    },
    "kimi_linear": lambda values, dice: {
        "layer_types": kinds(dice, values["num_hidden_layers"], "linear_attention", "full_attention"),
        "linear_num_heads": dice.choice((2, 4)),
        "linear_head_dim": dice.choice((16, 32)),
    },
    "minimax_m3_vl": lambda values, dice: {
        "layer_types": kinds(dice, values["num_hidden_layers"], "minimax_m3_sparse", "full_attention"),
        "mlp_layer_types": kinds(dice, values["num_hidden_layers"], "dense", "sparse"),
    },
    "mimo_v2_flash": lambda _values, dice: {"num_key_value_heads": dice.choice((1, 2))},
    "lfm2_moe": lambda values, dice: {
        "layer_types": kinds(dice, values["num_hidden_layers"], "conv", "full_attention"),
        "num_dense_layers": dice.choice((1, 2)),
    },
    "nemotron_h": lambda _values, dice: {
        "layers_block_type": kinds(dice, 9, "linear_attention", "moe", "full_attention", "mlp"),
        "moe_latent_size": dice.choice((None, 24)),
        "n_shared_experts": 1,  # the class has one, whatever the field says
    },
    "qwen4_exp": lambda _values, _dice: {
        "indexer_n_heads": 2,
        "indexer_kv_heads": 1,
        "indexer_head_dim": 64,
        "indexer_budget": 64,
        "indexer_compress_ratio": 4,
    },
    "zamba2": lambda _values, _dice: {
        "num_hidden_layers": 6,
        "layers_block_type": ["linear_attention", "linear_attention", "hybrid"] * 2,
    },
}


# --- the fixtures ------------------------------------------------------------------------------------


def patch(old: dict[str, Any], new: dict[str, Any]) -> dict[str, Any]:
    """What makes one mapping of another, as a JSON merge patch (RFC 7396); noise is left as it is."""
    gone = {name: None for name in old if name not in new and not NOISE.search(name) and not name.startswith("_")}
    changed = {}
    for name, value in new.items():
        if isinstance(value, dict) and isinstance(old.get(name), dict):
            inner = patch(old[name], value)
            changed |= {name: inner} if inner else {}
        elif value != old.get(name):
            changed[name] = value
    return gone | changed


def of_catalog(path: Path) -> dict[str, Any] | None:
    """Count of a fixture, and what saving it with transformers changes."""
    values = json.loads(path.read_text(encoding="utf-8"))
    values.pop("_hf_quant_config", None)
    if values["model_type"] not in CONFIG_MAPPING and values["model_type"] not in SAME_TENSORS:
        return None
    config = config_of(values)
    try:
        found = counted(config)
    except LookupError as fault:  # a text model whose class is that of its wrapper
        print(f"{path.stem}: {fault}", file=sys.stderr)
        return None
    row = {"model": path.stem.replace("__", "/"), "parameters": found.parameters, "buffers": found.buffers}
    if values["model_type"] not in SAME_TENSORS:
        row["resaved"] = patch(values, without_noise(saved(config)))
    return row


def of_type(model_type: str, seed: int) -> dict[str, Any]:
    """A draw with its count."""
    config = drawn(model_type, seed)
    found = counted(config)
    row = {"type": model_type, "seed": seed, "parameters": found.parameters, "buffers": found.buffers}
    return row | {"config": without_noise(saved(config))}


def of_shapes(model_type: str, seed: str) -> dict[str, Any]:
    """Facts and shapes of a draw, from which layers are grouped without a reader."""
    config = drawn(model_type, int(seed))
    found = class_tensors(Fields(saved(config), "config.json"))
    assert found is not None
    return {"type": model_type, "facts": without_noise(found.facts), "tensors": found.tensors}


def write() -> None:
    """Both fixtures, a row a line, under the versions that made them."""
    versions = {"transformers": transformers.__version__, "torch": torch.__version__}
    catalog = [row for path in sorted((FIXTURES / "configs").glob("*.json")) if (row := of_catalog(path)) is not None]
    store("catalog.json", versions, catalog)
    types = [name for name in modeling_auto.MODEL_FOR_CAUSAL_LM_MAPPING_NAMES if name not in NO_DECODERS]
    rows, refused = [], {}
    for name in sorted({*types, *WRAPPERS}):
        for seed in SEEDS:
            try:
                rows.append(of_type(name, seed))
            except LookupError as fault:
                refused[name] = str(fault)
    store("drawn.json", versions, rows)
    store("shapes.json", versions, [of_shapes(*pair.split(":")) for pair in SHAPES.split()])
    for name, fault in refused.items():
        print(f"no draw of {name}: {fault}", file=sys.stderr)
    print(f"{len(catalog)} of the catalog, {len(rows)} draws of {len({row['type'] for row in rows})} types")


def store(name: str, versions: dict[str, str], rows: list[dict[str, Any]]) -> None:
    """Rows, one a line."""
    FOLDER.mkdir(exist_ok=True)
    lines = ",\n".join(json.dumps(row, separators=(",", ":"), sort_keys=False) for row in rows)
    text = f'{{"versions": {json.dumps(versions)},\n"rows": [\n{lines}\n]}}\n'
    (FOLDER / name).write_text(text, encoding="utf-8")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--type", help="model type of transformers")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--config", type=Path, help="a config.json")
    parser.add_argument("--shapes", action="store_true", help="print the shape of every tensor, too")
    parser.add_argument("--write", action="store_true", help="write the fixtures")
    asked = parser.parse_args()
    warnings.filterwarnings("ignore")
    logging.disable(logging.CRITICAL)
    if asked.write:
        write()
        return
    if asked.type:
        config = drawn(asked.type, asked.seed)
    elif asked.config:
        config = config_of(json.loads(asked.config.read_text(encoding="utf-8")))
    else:
        parser.error("give --type, --config or --write")
    print(json.dumps(saved(config), indent=1))
    found = counted(config)
    if asked.shapes:
        print("\n".join(f"{name} {shape}" for name, shape in found.shapes.items()))
    print(f"parameters {found.parameters} buffers {found.buffers} mtp {found.mtp}")


if __name__ == "__main__":
    main()
