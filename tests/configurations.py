"""The configurations under tests/fixtures, and small ones made by hand."""

import csv
import json
from functools import cache
from pathlib import Path

import pytest

from roofline.catalog.huggingface.config import config_document
from roofline.specs.build import model_record
from roofline.support.errors import BadSpec

FIXTURES = Path(__file__).parent / "fixtures"
PATHS = sorted((FIXTURES / "configs").glob("*.json"))
IDS = [path.stem.replace("__", "/") for path in PATHS]

LLAMA = {
    "model_type": "llama", "hidden_size": 64, "num_hidden_layers": 4, "num_attention_heads": 8,
    "num_key_value_heads": 2, "intermediate_size": 192, "vocab_size": 1000, "max_position_embeddings": 2048,
    "torch_dtype": "bfloat16",
}  # fmt: skip
MOE = LLAMA | {
    "model_type": "qwen3_moe", "moe_intermediate_size": 32, "num_experts": 16, "num_experts_per_tok": 4,
}  # fmt: skip
LATENT = LLAMA | {
    "model_type": "deepseek_v3", "kv_lora_rank": 16, "q_lora_rank": 24, "qk_nope_head_dim": 8, "qk_rope_head_dim": 4,
    "v_head_dim": 8, "n_routed_experts": 16, "n_shared_experts": 2, "num_experts_per_tok": 4,
    "moe_intermediate_size": 32, "first_k_dense_replace": 1,
}  # fmt: skip


def config_of(model_id):
    """Content of a fixture, and what lies beside it on the hub."""
    config = json.loads((FIXTURES / "configs" / f"{model_id.replace('/', '__')}.json").read_text())
    return config, config.pop("_hf_quant_config", None)


@cache
def imported_fixture(model_id):
    """What the importer makes of a fixture: read once, changed by nobody."""
    config, quantization = config_of(model_id)
    return config_document(config, model_id, quantization).document


def imported(config, quantization=None):
    """Document and cautions of a configuration."""
    return config_document(config, "org/model", quantization)


def document(config, quantization=None):
    """Document of a configuration."""
    return imported(config, quantization).document


def model(config, quantization=None):
    """Record of a configuration."""
    return model_record(document(config, quantization))


def layers(content):
    """Mixer and ffn of every layer of a document, in order."""
    return [
        (layer["mixer"], layer["ffn"])
        for group in content["groups"]
        for _ in range(group["repeat"])
        for layer in group.get("pattern") or [group]
    ]


def without(config, *names):
    """A configuration that lacks fields."""
    return {name: value for name, value in config.items() if name not in names}


def refusal(config, quantization=None):
    """What is said of a configuration that must be refused."""
    with pytest.raises(BadSpec) as fault:
        document(config, quantization)
    return str(fault.value)


def stated():
    """Parameter counts that publishers state, by model."""
    with (FIXTURES / "stated_parameters.csv").open(encoding="utf-8") as file:
        return {row["model"]: row for row in csv.DictReader(file)}


#: Totals that differ by more than a hundredth, and why.
OTHER_TOTALS = {
    "moonshotai/Kimi-K2-Instruct": "1.026 T rounded to 1 T",
    "Qwen/Qwen3-VL-32B-Instruct": "that of the name, with the vision encoder",
    "Qwen/Qwen3-VL-30B-A3B-Instruct": "that of the name, with the vision encoder",
    "deepseek-ai/DeepSeek-V4-Pro": "1.573 T rounded to 1.6 T",
    "meta-llama/Llama-4-Scout-17B-16E-Instruct": "the vision encoder, 0.9 B, is counted",
    "moonshotai/Kimi-K2.5": "1.026 T rounded to 1 T",
    "XiaomiMiMo/MiMo-7B-Base": "the draft module, 0.2 B, is counted",
    "tiiuae/falcon-7b": "the checkpoint stores the tied head twice",
    "tiiuae/falcon-40b": "the checkpoint stores the tied head twice",
}
