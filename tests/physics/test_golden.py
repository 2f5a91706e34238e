"""Arithmetic and bytes of a pass against counts worked out by hand from the models' shapes."""

import csv
from pathlib import Path

from conftest import deploy
from every_case import each

import roofline as rl
from roofline.physics.passes import decode_pass, prefill_pass

# Counts of public architectures from their configurations (Hugging Face config.json), made apart
# from this package: 2 FLOP a multiply-add, exact causal half, head for the last position only,
# uniform routing, KV written once and read up to the new token itself.
_PATH = Path(__file__).parents[1] / "fixtures" / "golden_counts.csv"
_NAMES = {
    "meta-llama/Meta-Llama-3.1-8B": "llama-3.1-8b",
    "meta-llama/Meta-Llama-3.1-70B": "llama-3.1-70b",
    "mistralai/Mixtral-8x7B-v0.1": "mixtral-8x7b",
    "google/gemma-3-27b-it": "gemma-3-27b",
    "Qwen/Qwen3-32B": "qwen3-32b",
    "Qwen/Qwen3-235B-A22B": "qwen3-235b-a22b",
    "deepseek-ai/DeepSeek-V3": "deepseek-v3",
    "openai/gpt-oss-120b": "gpt-oss-120b",
    "openai/gpt-oss-20b": "gpt-oss-20b",
    "Qwen/Qwen3-Next-80B-A3B-Instruct": "qwen3-next-80b-a3b",
    "Qwen/Qwen3.5-397B-A17B": "qwen3.5-397b-a17b",
    "deepseek-ai/DeepSeek-V3.2": "deepseek-v3.2",
    "deepseek-ai/DeepSeek-V4-Pro": "deepseek-v4-pro",
    "zai-org/GLM-5": "glm-5",
    "MiniMaxAI/MiniMax-M1-80k": "minimax-m1",
    "nvidia/NVIDIA-Nemotron-3-Nano-30B-A3B-BF16": "nemotron-3-nano",
    "ai21labs/Jamba-v0.1": "jamba-v0.1",
    "meta-llama/Llama-4-Scout-17B-16E-Instruct": "llama-4-scout",
    "mosaicml/mpt-7b": "mpt-7b",
    "google/PaLM-540B": "palm-540b",
}

#: Relative tolerance where the counts leave something out that a pass does: short convolutions and the
#: gate of the shared experts (Qwen3-Next, Nemotron), the mixing of residual streams and the start of the
#: sequence, where fewer entries exist than the indexer may choose (DeepSeek-V4).
_LOOSER = {"deepseek-v4-pro": 0.004, "nemotron-3-nano": 0.0015}
_LOOSE = 6e-4
FIRST = tuple(_NAMES)[:9]
with _PATH.open() as _file:
    ROWS = [row for row in csv.DictReader(_file) if row["model"] in _NAMES]


def agrees(value, printed, model=""):
    """Within 1e-4 (four printed digits), or half a unit of the last digit where fewer are printed."""
    digits = len(printed.partition(".")[2])
    first = model in FIRST
    tolerance = 1e-4 if first else _LOOSER.get(_NAMES.get(model, ""), _LOOSE)
    return abs(value - float(printed)) <= max(tolerance * float(printed), 0.5 * 10.0**-digits)


def of(row):
    return deploy(_NAMES[row["model"]], "h100-sxm", basis="ideal", routing_skew=None)


def total(kernels, *fields):
    return sum(kernel.count * getattr(kernel.work, field) for kernel in kernels for field in fields)


def decoded(row):
    return decode_pass(of(row), float(row["B"]), float(row["ctx"]) - 1.0)


def case(row):
    return f"{row['model'].split('/')[1]}-{row['B']}x{row['ctx']}"


every_row = each("row", ROWS, ids=case)


def test_three_rows_of_each_of_the_twenty_models_are_compared():
    assert len(ROWS) == 60
    assert {row["model"] for row in ROWS} == set(_NAMES)


@each("row", ROWS[::3], ids=case)
@each("tokens", [2048, 32768])
def test_prefill_flops_are_those_worked_out_by_hand(row, tokens):
    passed = prefill_pass(of(row), 1.0, float(tokens))
    assert agrees(passed.flop / 1e12, row[f"prefill_TFLOP_S{tokens}"], row["model"])


@every_row
def test_decode_flops_are_those_worked_out_by_hand(row):
    assert agrees(decoded(row).flop / 1e9, row["decode_GFLOP"], row["model"])


@every_row
def test_weights_read_in_a_step_are_those_worked_out_by_hand(row):
    kernels = [kernel for kernel in decoded(row).kernels if kernel.name != "embedding"]
    assert agrees(total(kernels, "weight_bytes") / 1e9, row["weights_read_GB"], row["model"])


@every_row
def test_kv_cache_read_and_written_in_a_step_is_that_worked_out_by_hand(row):
    assert agrees(total(decoded(row).kernels, "kv_bytes") / 1e9, row["kv_read_write_GB"], row["model"])


@every_row
def test_embedding_rows_and_logits_are_those_worked_out_by_hand(row):
    kernels = decoded(row).kernels
    gathered = total([kernel for kernel in kernels if kernel.name == "embedding"], "weight_bytes")
    logits = total([kernel for kernel in kernels if kernel.name == "sample"], "activation_bytes")
    assert agrees((gathered + logits) / 1e6, row["embed_logits_MB"], row["model"])


@every_row
def test_intensity_of_a_step_is_that_worked_out_by_hand(row):
    passed = decoded(row)
    logits = total([kernel for kernel in passed.kernels if kernel.name == "sample"], "activation_bytes")
    moved = total(passed.kernels, "weight_bytes", "kv_bytes") + logits
    assert agrees(passed.flop / moved, row["intensity_flop_per_byte"], row["model"])


def test_the_head_multiplies_the_last_position_only_at_prefill_and_every_sequence_at_decode():
    deployment = deploy("llama-3.1-8b", "h100-sxm", basis="ideal")
    once = 2.0 * 128256 * 4096  # 2 FLOP x vocabulary x width of Llama-3.1-8B
    heads = {
        (name, batch): next(kernel.work.flop for kernel in passed.kernels if kernel.name == "head")
        for batch in (1.0, 5.0)
        for name, passed in (
            ("prefill", prefill_pass(deployment, batch, 700.0)),
            ("decode", decode_pass(deployment, batch, 700.0)),
        )
    }
    assert heads == {(name, batch): batch * once for name in ("prefill", "decode") for batch in (1.0, 5.0)}


def test_a_tied_head_is_read_in_every_step_though_it_is_held_once():
    model = rl.load_model("gemma-3-27b")
    assert model.tied
    passed = decode_pass(deploy(model, "h100-sxm", basis="ideal"), 1.0, 100.0)
    head = next(kernel for kernel in passed.kernels if kernel.name == "head")
    assert head.work.weight_bytes == 2.0 * 262144 * 5376  # bf16 x vocabulary x width of gemma-3-27b


def test_norms_of_the_latents_read_and_write_both_of_them():
    # DeepSeek-V3: a query latent of 1536 values and a KV latent of 512, 16 bits each, in 61 layers.
    passed = decode_pass(deploy("deepseek-v3", "h200-sxm", basis="ideal"), 3.0, 100.0)
    norms = [kernel for kernel in passed.kernels if "latent norm" in kernel.name]
    assert total(norms, "activation_bytes") == 61 * 3 * 2 * 2 * (1536 + 512)
