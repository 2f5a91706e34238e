"""How each tool is asked for one answer, time to first token and time per output token in seconds.

A function prepares what does not depend on the question and returns what is timed. A tool that is not installed is not
imported; those of others run in an environment of their own.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any, NamedTuple

Ask = Callable[[int, int, int], tuple[float, float]]


class Case(NamedTuple):
    """A model on GPUs, as we name them."""

    model: str
    gpu: str
    tp: int


#: 16-bit, but for DeepSeek-V3, whose checkpoint is fp8.
CASES = {
    "Llama-3.1-8B on H100": Case("llama-3.1-8b", "h100-sxm", 1),
    "Llama-3.1-70B on 4 H100": Case("llama-3.1-70b", "h100-sxm", 4),
    "DeepSeek-V3 on 8 H200": Case("deepseek-v3", "h200-sxm", 8),
    "Llama-3.1-8B on H200": Case("llama-3.1-8b", "h200-sxm", 1),
}
#: Case that wakes the interpreter before another one is timed.
WARM_UP = {"Llama-3.1-8B on H100": "Llama-3.1-70B on 4 H100", "servcalc": "Llama-3.1-8B on H200"}
#: The two models of Meta, from their config.json.
LLAMA = {
    "llama-3.1-8b": {
        "hidden_size": 4096,
        "num_hidden_layers": 32,
        "num_attention_heads": 32,
        "intermediate_size": 14336,
    },
    "llama-3.1-70b": {
        "hidden_size": 8192,
        "num_hidden_layers": 80,
        "num_attention_heads": 64,
        "intermediate_size": 28672,
    },
}


def points(count: int) -> list[tuple[int, int, int]]:
    """Prompt tokens, answer tokens and batch of the questions: drawn, always the same, none twice in a row."""
    draw = random.Random(1)
    return [(draw.randint(500, 4000), draw.randint(100, 400), draw.randint(1, 32)) for _ in range(count)]


def roofline(case: Case) -> Ask:
    import roofline as rl

    rl.load_model(case.model), rl.load_gpu(case.gpu)

    def ask(isl: int, osl: int, batch: int) -> tuple[float, float]:
        answer = rl.predict(case.model, case.gpu, tp=case.tp, isl=isl, osl=osl, batch=batch)
        return answer.ttft, answer.tpot

    return ask


def servcalc(case: Case) -> Ask:
    from servcalc import Workload, estimate

    if case.tp > 1:
        raise NotImplementedError("one GPU only")
    config = LLAMA[case.model] | {
        "num_key_value_heads": 8,
        "head_dim": 128,
        "vocab_size": 128256,
        "tie_word_embeddings": False,
        "model_type": "llama",
        "architectures": ["LlamaForCausalLM"],
    }
    gpu = {"h100-sxm": "H100 80GB", "h200-sxm": "H200"}[case.gpu]

    def ask(isl: int, osl: int, batch: int) -> tuple[float, float]:
        answer = estimate(config, gpu, workload=Workload(isl, osl, (batch,))).points[0]
        return answer.ttft_ms.mid / 1000, answer.itl_ms.mid / 1000

    return ask


def aiconfigurator(case: Case) -> Ask:
    from aiconfigurator_core.sdk.engine import EngineHandle

    return session(case, EngineHandle)


def aisimulate(case: Case) -> Ask:
    from aisimulate_core.sdk.engine import EngineHandle

    return session(case, EngineHandle)


def session(case: Case, engine: Any) -> Ask:
    names = {
        "llama-3.1-8b": "meta-llama/Meta-Llama-3.1-8B",
        "llama-3.1-70b": "meta-llama/Meta-Llama-3.1-70B",
        "deepseek-v3": "deepseek-ai/DeepSeek-V3",
    }
    experts = {"moe_tp_size": case.tp} if case.model.startswith("deepseek") else {}
    system = case.gpu.replace("-", "_")
    compiled = engine.compile(names[case.model], system, "vllm", tp_size=case.tp, **experts)

    def ask(isl: int, osl: int, batch: int) -> tuple[float, float]:
        prefill_ms, decode_ms, _ = compiled.run_static(batch_size=batch, isl=isl, osl=osl)
        return prefill_ms / 1000, decode_ms / (osl - 1) / 1000

    return ask


def llm_analysis(case: Case) -> Ask:
    import logging

    from llm_analysis import analysis, config

    logging.disable(logging.WARNING)
    if case.model not in LLAMA:
        raise NotImplementedError("no latent attention")
    shape = LLAMA[case.model]
    model = config.ModelConfig(
        name=case.model,
        num_layers=shape["num_hidden_layers"],
        n_head=shape["num_attention_heads"],
        num_key_value_heads=8,
        hidden_dim=shape["hidden_size"],
        expansion_ratio=3.5,
        vocab_size=128256,
        model_type="llama",
    )
    gpu = config.get_gpu_config_by_name("h100-sxm-80gb")
    formats = config.get_dtype_config_by_name("w16a16e16")
    tool = analysis.LLMAnalysis(model, gpu, formats, config.ParallelismConfig(tp_size=case.tp))

    def ask(isl: int, osl: int, batch: int) -> tuple[float, float]:
        answer = tool.inference(batch_size_per_gpu=batch, seq_len=isl, num_tokens_to_generate=osl)
        return answer["prefill_latency"], answer["total_decode_latency"] / osl

    return ask


def genz(case: Case) -> Ask:
    from GenZ import decode_moddeling, prefill_moddeling

    if case.model not in LLAMA:
        raise NotImplementedError("no latent attention")
    size = case.model.rpartition("-")[2].upper()
    same = {
        "model": f"meta-llama/Llama-3.1-{size}",
        "system_name": "H100_GPU",
        "bits": "bf16",
        "tensor_parallel": case.tp,
    }

    def ask(isl: int, osl: int, batch: int) -> tuple[float, float]:
        prefill = prefill_moddeling(batch_size=batch, input_tokens=isl, **same)
        decode = decode_moddeling(batch_size=batch, input_tokens=isl, output_tokens=osl, Bb=1, **same)
        return prefill["Latency"] / 1000, decode["Latency"] / 1000

    return ask


TOOLS = {
    "roofline": roofline,
    "servcalc": servcalc,
    "aiconfigurator": aiconfigurator,
    "aisimulate": aisimulate,
    "llm-analysis": llm_analysis,
    "genz": genz,
}
#: Tools that take a tenth of a second an answer, and learn nothing: they are asked less.
SLOW = ("genz",)
