"""Whether a server starts: memory by hand, limits that are limits, remedies that help, and the same from every door."""

import shlex

import pytest
from cli.asking import answered, ask, rows
from every_case import each

import roofline as rl
from roofline.specs.gpu import ANNOUNCED

GIB = 1024.0**3
LLAMA = "llama-3.1-8b"
KV_TOKEN = 2 * 8 * 128 * 2 * 32  # [B] keys and values, heads, width, bytes, layers of Llama-3.1-8B
ENGINES = ("vllm@0.10.2", "vllm@0.19", "vllm@0.24", "vllm", "sglang", "trtllm")
#: Dense, windows beside full layers, experts, latents, states.
MODELS = ("llama-3.1-8b", "gemma-3-27b", "gpt-oss-20b", "deepseek-v2-lite", "qwen3-next-80b-a3b")


def fit_of(model, gpu, **options):
    (fit,) = rl.fits(model, gpu, **options)
    return fit


# --- memory and log ------------------------------------------------------------------------------


def test_memory_of_vllm_is_its_share_less_what_it_holds():
    fit = fit_of(LLAMA, "l4", engine="vllm@0.19", max_model_len=8192)
    memory = fit.memory
    assert memory.total == rl.load_gpu("l4").memory - 0.5 * GIB  # what the driver keeps
    assert memory.weights == pytest.approx(2 * 8_030_261_248, rel=1e-4)
    logits = 4.2 * 4 * 256 * 128_256  # copies in 4 bytes of those of 256 sequences
    assert memory.activations == pytest.approx(logits, rel=1e-9)
    left = 0.9 * memory.total - memory.weights - memory.activations - 0.2 * GIB
    assert memory.kv_cache == pytest.approx(left, rel=1e-9)
    assert fit.tokens == 16 * (memory.kv_cache // (16 * KV_TOKEN))
    assert fit.max_concurrency == pytest.approx(memory.kv_cache / (8192 * KV_TOKEN), rel=1e-12)
    assert fit.log == (
        f"Available KV cache memory: {memory.kv_cache / GIB:.2f} GiB",
        f"GPU KV cache size: {fit.tokens:,.0f} tokens",
        f"Maximum concurrency for 8,192 tokens per request: {fit.max_concurrency:.2f}x",
    )


@each("engine, share, loses", [("sglang", 0.8, "activations"), ("trtllm", 0.8, ""), ("vllm", 0.8, "")])
def test_the_share_is_of_what_each_engine_says(engine, share, loses):
    fit = fit_of(LLAMA, "h100", engine=engine, gpu_memory_utilization=share)
    memory, rule = fit.memory, fit.deployment.engine.start_up[0]
    expected = {
        "vllm": share * memory.total - memory.weights - memory.activations - rule.fixed,
        "sglang": share * (memory.total - rule.context) - memory.weights - rule.fixed,
        "trtllm": share
        * (memory.total - rule.context - memory.weights - memory.activations - rule.fixed - memory.graphs),
    }[engine]
    assert memory.kv_cache == pytest.approx(expected, rel=1e-12)
    assert bool(loses) == (rule.share_of == "free")


@each("model, engine", [(model, engine) for model in MODELS for engine in ENGINES])
def test_tp_halves_the_weights_and_more_memory_holds_more(model, engine):
    gpu = "h200" if model != "qwen3-next-80b-a3b" else "b300"
    one, two = (fit_of(model, gpu, engine=engine, tp=tp, max_model_len=4096) for tp in (1, 2))
    assert two.memory.weights < 0.62 * one.memory.weights
    assert two.tokens > one.tokens
    less = fit_of(model, gpu, engine=engine, tp=1, max_model_len=4096, gpu_memory_utilization=0.8)
    usual = fit_of(model, gpu, engine=engine, tp=1, max_model_len=4096, gpu_memory_utilization=0.85)
    assert less.tokens < usual.tokens


def test_without_graphs_a_version_that_counts_them_has_more_left():
    for engine, counts in (("vllm@0.19", False), ("vllm@0.24", True)):
        usual, eager = (fit_of(LLAMA, "h100", engine=engine, enforce_eager=eager) for eager in (False, True))
        assert eager.memory.graphs == 0.0 < usual.memory.graphs
        assert (eager.memory.kv_cache > usual.memory.kv_cache + usual.memory.graphs / 2) == counts


# --- limits --------------------------------------------------------------------------------------


@each("model, engine", [(model, engine) for model in MODELS for engine in ENGINES])
def test_the_largest_values_start_and_what_lies_beyond_does_not(model, engine):
    case = {"engine": engine, "max_model_len": 4096}
    fit = fit_of(model, "h100" if model != "qwen3-next-80b-a3b" else "2xh200:tp2", **case)
    gpu, tp = fit.gpu, fit.deployment.plan.tp
    longest = fit.largest_max_model_len
    assert longest is not None
    assert fit_of(model, gpu, tp=tp, **{**case, "max_model_len": int(longest)}).starts
    if longest < (fit.model.max_context or 0):
        block = fit.deployment.engine.start_up[0].block
        beyond = fit_of(model, gpu, tp=tp, **{**case, "max_model_len": int(longest) + 2 * block})
        assert beyond.max_concurrency < 1.0
        assert beyond.starts is (not engine.startswith("vllm"))  # others start, and refuse longer requests
    most = fit.largest_max_num_seqs
    assert most
    assert fit_of(model, gpu, tp=tp, **{**case, "max_num_seqs": int(most)}).starts
    budget = fit.deployment.engine.max_num_batched_tokens
    if most < budget:
        assert not fit_of(model, gpu, tp=tp, **{**case, "max_num_seqs": int(most) + 1}).starts


def test_the_verdict_is_certain_away_from_the_limit_alone():
    longest = int(fit_of(LLAMA, "l4", engine="vllm@0.19").largest_max_model_len)
    lengths = {longest // 2: "pass", longest - 16: "pass?", longest + 32: "fail?", 2 * longest: "fail"}
    found = {length: fit_of(LLAMA, "l4", engine="vllm@0.19", max_model_len=length).verdict for length in lengths}
    assert found == lengths
    assert fit_of(LLAMA, "mi300x").verdict == "pass?"  # nobody measured an AMD GPU here
    for engine in ("sglang", "trtllm"):  # nor enough starts of these
        assert fit_of(LLAMA, "h200", engine=engine).verdict == "pass?"
    assert fit_of("llama-3.1-405b", "h100", engine="sglang").verdict == "fail"  # the weights alone are too large


def test_a_prediction_and_the_server_agree_on_what_fits():
    fit = fit_of(LLAMA, "h100", engine="vllm@0.19", max_model_len=8192)
    most = int(fit.max_concurrency)
    case = {"engine": "vllm@0.19", "isl": 8000, "osl": 192, "tp": 1}
    assert rl.knee(LLAMA, "h100", **case).memory == most
    for batch, fits in ((most, True), (most + 1, False)):
        assert rl.predict(LLAMA, "h100", batch=batch, allow_oversize=True, **case).fits is fits


# --- errors and remedies -------------------------------------------------------------------------

FAILING = [
    ("llama-3.1-8b", "l4", "vllm", "0.19.0"),
    ("gpt-oss-120b", "h100", "vllm", "0.19.0"),
    ("gpt-oss-120b", "h100", "vllm", "0.33.0"),
    ("llama-3.3-70b", "h100", "vllm", "0.25.0"),
    ("qwen3-32b", "l40s", "vllm", "0.12.0"),
    ("llama-3.1-70b", "l4", "vllm", "0.28.0"),
    ("llama-3.1-8b", "l4", "sglang", "0.5.10"),
    ("qwen3-32b", "l40s", "sglang", "0.5.23"),
    ("llama-3.3-70b", "h100", "trtllm", "1.2.1"),
]
_STARTS = {
    "vllm": "vllm serve {model} {flags}",
    "sglang": "python3 -m sglang.launch_server --model-path {model} {flags}",
    "trtllm": "trtllm-serve serve {model} {flags}",
}
_TITLES = {"vllm": "vLLM", "sglang": "SGLang", "trtllm": "TensorRT-LLM"}


@each("model, gpu, engine, version", FAILING)
def test_each_remedy_alone_makes_it_start(model, gpu, engine, version):
    fit = fit_of(model, gpu, engine=f"{engine}@{version}")
    assert not fit.starts
    assert fit.error
    assert fit.remedies
    for remedy in fit.remedies:
        if remedy.startswith("a checkpoint in "):
            form, _, flags = remedy.removeprefix("a checkpoint in ").partition(" ")
            more = {"weights": form}
        else:
            flags, more = remedy, {}
        text = f"# {_TITLES[engine]} {version}:\n{_STARTS[engine].format(model=fit.model.name, flags=flags)}"
        case = {**rl.command_case(text), **more}
        named = case.pop("model")
        eager = "--enforce-eager" in shlex.split(flags)
        (changed,) = rl.fits(named, gpu, enforce_eager=eager, **case)
        assert changed.starts, remedy


def test_the_error_of_vllm_is_the_one_that_it_prints():
    fit = fit_of(LLAMA, "l4", engine="vllm@0.19")
    assert fit.error.startswith(
        "To serve at least one request with the model's max seq len (131072), (16.00 GiB KV cache is needed, which is "
        f"larger than the available KV cache memory ({fit.memory.kv_cache / GIB:.2f} GiB). Based on the available "
        f"memory, the estimated maximum model length is {fit.largest_max_model_len:.0f}."
    )
    result = ask("fits", "-m", LLAMA, "-g", "l4", "--engine", "vllm@0.19")
    assert " ".join(fit.error.split()) in " ".join(result.stdout.split())
    assert result.exit_code == 1
    assert result.stderr.endswith("does not start on l4; try --max-model-len 33744 or --tensor-parallel-size 2\n")
    loading = fit_of("llama-3.1-70b", "l4", engine="vllm@0.19")
    assert loading.error.startswith("torch.OutOfMemoryError: CUDA out of memory (loading 131.")
    assert loading.verdict == "fail"


# --- other cards and formats ---------------------------------------------------------------------


@each("model", ["llama-3.1-8b", "qwen3-32b", "gpt-oss-120b"])
def test_the_smallest_card_is_enough_and_no_smaller_one_is(model):
    case = {"engine": "vllm@0.19", "max_model_len": 8192}
    smallest = fit_of(model, "b200", **case).smallest
    assert fit_of(model, smallest, **case).starts
    gpus = [rl.load_gpu(name) for name in rl.gpus()]
    smaller = [
        gpu
        for gpu in gpus
        if gpu.memory < rl.load_gpu(smallest).memory
        and gpu.vendor in ("NVIDIA", "AMD")
        and gpu.status not in ANNOUNCED
        and gpu.memory > 0.9 * fit_of(model, "b200", **case).memory.weights
    ]
    for gpu in smaller:
        try:
            starts = fit_of(model, gpu, **case).starts
        except rl.RooflineError:  # a format that it does not multiply
            starts = False
        assert not starts, gpu.name


def test_the_widest_format_starts_and_wider_ones_do_not():
    fit = fit_of("qwen3-32b", "l40s", engine="vllm@0.19", max_model_len=16384)
    assert (fit.starts, fit.widest) == (False, "fp8")
    assert fit_of("qwen3-32b", "l40s", engine="vllm@0.19", max_model_len=16384, weights="fp8").starts


# --- doors and refusals --------------------------------------------------------------------------


def test_a_prediction_asks_as_its_options_do():
    options = {"engine": "vllm@0.19", "tp": 2, "max_model_len": 16384, "max_num_seqs": 64, "kv_cache_dtype": "fp8"}
    (asked,) = rl.fits(rl.predict("qwen3-32b", "h100", **options))
    assert asked.to_dict() == fit_of("qwen3-32b", "h100", **options).to_dict()


def test_a_pool_is_divided_as_far_as_it_takes():
    fit = fit_of("llama-3.3-70b", "8xh100", engine="vllm@0.19", max_model_len=16384)
    tp = fit.deployment.plan.tp
    assert fit.starts
    assert not fit_of("llama-3.3-70b", "h100", engine="vllm@0.19", max_model_len=16384, tp=tp // 2).starts


def test_the_whole_catalog_is_asked_where_no_gpu_is_named():
    found = rows("fits", "-m", LLAMA, "--max-model-len", "8k")
    assert {row["gpu"] for row in found} == set(rl.gpus())
    order = ["pass", "pass?", "fail?", "fail"]
    places = [order.index(row["start_verdict"]) for row in found]
    assert places == sorted(places)
    assert len(set(places)) >= 3
    sizes = [row["total_gib"] for row in found if row["start_verdict"] == "pass"]
    assert sizes == sorted(sizes)


@each(
    "options, said",
    [
        ({"engine": "generic"}, "no command is known for engine 'generic'; those known: sglang, trtllm, vllm"),
        ({"engine": "vllm@9.9"}, "known versions: 0.8, "),
        ({"engine": "acme"}, "unknown engine profile 'acme'|no command is known for engine 'acme'"),
        ({"max_model_len": 0}, "max_model_len"),
        ({"gpu_memory_utilization": 1.5}, "gpu_memory_utilization"),
        ({"num_gpus": 2**53}, "num_gpus = 9.007e.15 must be between 1 and 1000000"),  # not tried one by one
        ({"num_gpus": -1}, "num_gpus = -1 must be between 1 and 1000000"),
        ({"num_gpus": 2.5}, "num_gpus = 2.5 must be a whole number"),
        ({"num_gpus": 8, "dp": 0}, "dp = 0 must be between 1 and 1000000"),
        ({"num_gpus": 8, "pp": 16}, "num_gpus = 8 must be a multiple of pp x dp = 16"),
    ],
)
def test_what_cannot_be_asked_is_refused_with_the_reason(options, said):
    with pytest.raises(rl.RooflineError, match=said):
        rl.fits(LLAMA, "h100", **options)


def test_a_server_that_does_not_start_has_no_command_unless_a_shorter_limit_helps():
    refused = ask("fits", "-m", "llama-3.1-70b", "-g", "h100", "--engine", "vllm@0.19", "--emit", "vllm@0.19")
    assert refused.exit_code == 1
    assert "does not start: torch.OutOfMemoryError" in " ".join(refused.stderr.split())
    shorter = answered("fits", "-m", LLAMA, "-g", "l4", "--engine", "vllm@0.19", "--emit", "vllm@0.19")
    longest = int(fit_of(LLAMA, "l4", engine="vllm@0.19").largest_max_model_len)
    assert f"--max-model-len {longest}" in shorter


def test_the_screen_says_may_not_where_the_verdict_does_and_none_where_nothing_is_left():
    unsure = ask("fits", "-m", LLAMA, "-g", "arc-pro-b60", "--engine", "vllm@0.20")
    assert "it may not start on 1x arc-pro-b60" in unsure.stdout
    assert "vLLM 0.20.0 may not start on arc-pro-b60; try" in unsure.stderr
    sure = ask("fits", "-m", "llama-3.1-405b", "-g", "gaudi3")
    assert "nothing left for the KV cache" in " ".join(sure.stdout.split())
    assert "CUDA" not in sure.stdout
    assert "does not start on gaudi3" in sure.stderr
    table = ask("fits", "-m", "llama-3.1-405b", "-g", "l4,gaudi3").stdout
    assert table.count(" none ") == 2
    assert "(-" not in table
