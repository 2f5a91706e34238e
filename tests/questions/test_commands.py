"""Launch commands read back: what `launch` writes gives the same figures, and what people have is read or refused."""

import itertools
import json

import pytest
import tiers
from cli.asking import ask, rows
from every_case import each
from hypothesis import assume, given, settings
from hypothesis import strategies as st

import roofline as rl
from roofline.questions.commands import read_command

LLAMA = "meta-llama/Llama-3.1-8B"
QWEN = "Qwen/Qwen3-30B-A3B"
DEEPSEEK = "deepseek-ai/DeepSeek-R1"
#: Of an answer, what does not say how the engine was named and calibrated, which a version in the text may add.
NAMES = {"engine", "basis_detail", "warnings"}
LOAD = {"concurrency": 16, "isl": 2000, "osl": 200}


def figures(prediction):
    """Every number and word of an answer, beside the names."""
    return {key: value for key, value in prediction.to_dict().items() if key not in NAMES}


def assert_same(one, other):
    """Answers that agree to 1e-12: latencies, memory, rates, formats, degrees, and settings of the engine."""
    before, after = figures(one), figures(other)
    assert before.keys() == after.keys()
    for key, value in before.items():
        if isinstance(value, float):
            assert after[key] == pytest.approx(value, rel=1e-12, abs=0.0), key
        else:
            assert after[key] == value, key
    first, second = one.deployment, other.deployment
    assert second.plan == first.plan
    assert second.replicas == first.replicas
    for setting in ("max_num_seqs", "max_num_batched_tokens", "max_model_len", "gpu_memory_utilization"):
        assert getattr(second.engine, setting) == getattr(first.engine, setting), setting
    assert float(other.memory.kv_cache) == pytest.approx(float(one.memory.kv_cache), rel=1e-12)


def read_back(text, gpu, load, **more):
    """The prediction of a launch text, whose command says no GPU, no load and no acceptance."""
    return rl.predict(gpu=gpu, **rl.command_case(text), **load, **more)


# --- there and back ------------------------------------------------------------------------------

MODELS = {
    "dense": ("llama-3.1-8b", "h100-sxm", {"tp": 2}),
    "pipeline": ("llama-3.3-70b", "h100-sxm", {"tp": 2, "pp": 2}),
    "experts": ("qwen3-30b-a3b", "h100-sxm", {"tp": 2, "ep": 2}),
    "ranks": ("deepseek-r1", "h200-sxm", {"tp": 1, "dp": 8, "ep": 8}),
    "native mxfp4": ("gpt-oss-120b", "b200", {"tp": 2}),
}
SETTINGS = {
    "plain": {},
    "fp8": {"quantization": "fp8"},
    "fp8 cache": {"kv_cache_dtype": "fp8"},
    "int4": {"quantization": "int4"},
    "fp8 with a cache of 16 bits": {"quantization": "fp8", "kv_cache_dtype": "bf16"},
    "budgets": {"max_num_seqs": 24, "max_num_batched_tokens": 1536, "max_model_len": 6000},
    "memory": {"gpu_memory_utilization": 0.855, "max_model_len": "32k"},
    "ngram": {"draft": "ngram", "draft_tokens": 4, "acceptance": 0.6},
}
TARGETS = (
    "vllm", "vllm@0.19", "vllm@0.25", "vllm@0.33", "sglang", "sglang@0.5.6", "trtllm", "trtllm@1.2.1", "trtllm@1.3",
)  # fmt: skip


@tiers.has_more_cases
@pytest.mark.parametrize(("kind", "to"), tiers.some(itertools.product(MODELS, TARGETS), 12))
def test_a_command_gives_the_figures_of_the_case_that_it_was_written_for(kind, to):
    model, gpu, plan = MODELS[kind]
    start = (list(MODELS).index(kind) + TARGETS.index(to)) % 2  # every other one; all, over the models and the targets
    compared = 0
    for name in tiers.some(list(SETTINGS)[start::2], 3):
        options = SETTINGS[name]
        try:
            prediction = rl.predict(model, gpu, engine=to, **LOAD, **plan, **options)
            text = rl.launch(prediction, to=to).text
        except rl.RooflineError:  # formats that the GPU or the engine has not
            continue
        more = {key: value for key, value in options.items() if key == "acceptance"}
        try:
            assert_same(prediction, read_back(text, gpu, LOAD, **more))
        except Exception as failure:
            failure.add_note(f"{name}: {text}")
            raise
        compared += 1
    assert compared >= tiers.times(1, 2)


@each("to", [*TARGETS, "vllm@0.19.1", "trtllm@1.2.0", "trtllm@1.0"])
def test_the_engine_is_read_back_with_its_version_where_one_was_asked_for(to):
    text = rl.launch("llama-3.1-8b", "h100-sxm", to=to, tp=2, **LOAD).text
    assert rl.command_case(text)["engine"] == to
    prediction = rl.predict("llama-3.1-8b", "h100-sxm", engine=to, tp=2, **LOAD)
    assert read_back(text, "h100-sxm", LOAD).to_dict() == prediction.to_dict()
    assert rl.launch(prediction, to=to.partition("@")[0]).text == text


@each("to", ["vllm", "vllm@0.19", "sglang", "trtllm"])
def test_a_draft_gives_the_figures_of_the_case_that_it_was_written_for(to):
    for model, gpu, options in (
        ("deepseek-r1", "h200-sxm", {"tp": 8, "draft": "mtp", "draft_tokens": 2}),
        ("llama-3.1-8b", "h100-sxm", {"draft": "eagle", "draft_tokens": 3}),
        ("llama-3.3-70b", "h100-sxm", {"tp": 4, "draft": "llama-3.1-8b", "draft_tokens": 5}),
    ):
        case = {**options, "acceptance": 0.7}
        prediction = rl.predict(model, gpu, engine=to, **LOAD, **case)
        assert_same(prediction, read_back(rl.launch(prediction, to=to).text, gpu, LOAD, acceptance=0.7))


@pytest.mark.parametrize("to", TARGETS)
def test_all_settings_that_are_stated_give_the_same_as_those_that_differ(to):
    for kind in ("dense", "experts"):
        model, gpu, plan = MODELS[kind]
        short = rl.launch(model, gpu, to=to, **LOAD, **plan)
        whole = rl.launch(model, gpu, to=to, every=True, **LOAD, **plan)
        assert len(whole.lines) > len(short.lines)
        assert_same(read_back(short.text, gpu, LOAD), read_back(whole.text, gpu, LOAD))


@pytest.mark.parametrize("to", TARGETS)
def test_a_command_that_was_read_is_written_as_it_was(to):
    for model, gpu, plan in MODELS.values():
        launch = rl.launch(model, gpu, to=to, **LOAD, **plan)
        again = rl.launch(read_back(launch.text, gpu, LOAD), to=to)
        assert again.words == launch.words
        assert again.file == launch.file


def test_a_plan_that_was_searched_for_is_read_back():
    best = rl.plan("qwen3-32b", "h100-sxm", slo="ttft:1000,tpot:30", concurrency=32, engine="vllm").plans[0]
    text = rl.launch(best.prediction, to="vllm").text
    again = read_back(text, "h100-sxm", {"concurrency": 32}, num_gpus=best.prediction.deployment.num_gpus)
    assert again.tpot == pytest.approx(best.prediction.tpot, rel=1e-12)
    assert again.ttft == pytest.approx(best.prediction.ttft, rel=1e-12)


some = st.sampled_from
optional = {
    "pp": some((1, 2)),
    "ep": some(("all", 1)),
    "dp": some((1, 2, 4)),
    "quantization": some(("fp8", "fp8_block", "int4", "nvfp4")),
    "kv_cache_dtype": some(("fp8", "bf16")),
    "max_num_seqs": st.integers(1, 3000),
    "max_num_batched_tokens": st.integers(256, 40_000),
    "max_model_len": st.integers(4096, 60_000),
    "gpu_memory_utilization": st.integers(600, 980).map(lambda share: share / 1000),
}


@settings(max_examples=tiers.times(5, 15), deadline=None)
@given(
    model=some(("llama-3.1-8b", "qwen3-32b", "qwen3-30b-a3b", "gpt-oss-120b", "mixtral-8x7b")),
    gpu=some(("h100-sxm", "h200-sxm", "b200")),
    to=some(TARGETS),
    tp=some((1, 2, 4)),
    options=st.fixed_dictionaries({}, optional=optional),
)
def test_any_case_is_read_back_as_it_was(model, gpu, to, tp, options):
    is_moe = rl.load_model(model).is_moe
    case = {"tp": tp, **options} if is_moe else {"tp": tp, **{key: options[key] for key in options if key != "dp"}}
    try:
        prediction = rl.predict(model, gpu, engine=to, **LOAD, **case)
        text = rl.launch(prediction, to=to).text
    except rl.RooflineError:
        assume(False)
    assert_same(prediction, read_back(text, gpu, LOAD))


# --- commands that people have -------------------------------------------------------------------


@each(
    "text, case",
    [
        (f"vllm serve {LLAMA}", {"model": LLAMA, "engine": "vllm", "tp": 1}),
        (f"vllm serve --model {LLAMA} -tp 4", {"model": LLAMA, "engine": "vllm", "tp": 4}),
        (f"vllm serve --tensor_parallel_size=4 {LLAMA}", {"model": LLAMA, "engine": "vllm", "tp": 4}),
        (f"vllm serve {LLAMA} -tp=4 -pp 2", {"model": LLAMA, "engine": "vllm", "tp": 4, "pp": 2}),
        (
            f"vllm serve {LLAMA} \\\n  --max-model-len 32k \\\n  --max-num-batched-tokens 8K \\\n  --max-num-seqs 64\n",
            {"model": LLAMA, "engine": "vllm", "tp": 1, "max_num_seqs": 64, "max_num_batched_tokens": 8192,
             "max_model_len": 32_000},
        ),
        (
            f"# a server of ours\nvllm serve {LLAMA}\n  # the end\n",
            {"model": LLAMA, "engine": "vllm", "tp": 1},
        ),
        (f"vllm serve {LLAMA} -tp 2  # two GPUs", {"model": LLAMA, "engine": "vllm", "tp": 2}),
        (
            f"CUDA_VISIBLE_DEVICES=0,1 HF_TOKEN=x nohup vllm serve {LLAMA} -tp 2 > server.log 2>&1 &",
            {"model": LLAMA, "engine": "vllm", "tp": 2},
        ),
        (f"/opt/venv/bin/vllm serve {LLAMA} -tp 2 && echo done", {"model": LLAMA, "engine": "vllm", "tp": 2}),
        (f"cd /srv; vllm serve {LLAMA} -tp 2; ls", {"model": LLAMA, "engine": "vllm", "tp": 2}),
        (f"vllm serve {LLAMA} -tp 2 2>&1 | tee server.log", {"model": LLAMA, "engine": "vllm", "tp": 2}),
        (f"vllm serve {LLAMA} > 'server log' --seed 2 2>errors -tp 4", {"model": LLAMA, "engine": "vllm", "tp": 4}),
        (f"vllm serve {LLAMA} --api-key 'a;b #c' -tp 2", {"model": LLAMA, "engine": "vllm", "tp": 2}),
        (f"vllm \\\n serve \\\n {LLAMA} \\\n -tp 2 \\\n", {"model": LLAMA, "engine": "vllm", "tp": 2}),
        (f"vllm serve {LLAMA} \\\n  # -tp 2 \\\n  -pp 2", {"model": LLAMA, "engine": "vllm", "tp": 1, "pp": 2}),
        (f"vllm serve {LLAMA} --tensor-parallel 2 -O3 -O 3 -O=3", {"model": LLAMA, "engine": "vllm", "tp": 2}),
        (f"vllm serve {LLAMA} -tp 2 & vllm serve {QWEN} -tp 4", {"model": LLAMA, "engine": "vllm", "tp": 2}),
        (
            f"python3 -m vllm.entrypoints.openai.api_server --model {LLAMA} --gpu-memory-utilization 0.8",
            {"model": LLAMA, "engine": "vllm", "tp": 1, "gpu_memory_utilization": 0.8},
        ),
        (
            ("docker run --rm --gpus all -v ~/.cache/huggingface:/root/.cache/huggingface -p 8000:8000 --ipc=host "
            f"vllm/vllm-openai:v0.19.0 --model {LLAMA} --tensor-parallel-size 2"),
            {"model": LLAMA, "engine": "vllm@0.19.0", "tp": 2},
        ),
        (
            f"podman run docker.io/vllm/vllm-openai:v0.19.0 --model {LLAMA}",
            {"model": LLAMA, "engine": "vllm@0.19.0", "tp": 1},
        ),
        (
            f"docker run --entrypoint vllm vllm/vllm-openai:v0.19.0 serve {LLAMA} -tp 2",
            {"model": LLAMA, "engine": "vllm@0.19.0", "tp": 2},
        ),
        (
            ("docker pull vllm/vllm-openai:v0.19.0 && docker run --entrypoint=python3 vllm/vllm-openai:v0.19.0 "
            f"-m vllm.entrypoints.openai.api_server --model {LLAMA}"),
            {"model": LLAMA, "engine": "vllm@0.19.0", "tp": 1},
        ),
        (f"docker run vllm/vllm-openai:latest {LLAMA}", {"model": LLAMA, "engine": "vllm", "tp": 1}),
        (
            f"vllm serve {QWEN} -tp 2 -dp 4 --enable-expert-parallel",
            {"model": QWEN, "engine": "vllm", "tp": 2, "dp": 4, "ep": "all"},
        ),
        (f"vllm serve {LLAMA} -tp 2 -dp 3", {"model": LLAMA, "engine": "vllm", "tp": 2, "dp": 3}),
        (
            f"vllm serve {LLAMA} -q fp8_per_tensor --kv-cache-dtype fp8_e5m2",
            {"model": LLAMA, "engine": "vllm", "tp": 1, "weights": "fp8", "kv_cache_dtype": "fp8"},
        ),
        (f"vllm serve {LLAMA} --max-model-len auto", {"model": LLAMA, "engine": "vllm", "tp": 1}),
        (
            (f"vllm serve {DEEPSEEK} -tp 8 --speculative-config "
            """'{"method": "deepseek_mtp", "num_speculative_tokens": 2}'"""),
            {"model": DEEPSEEK, "engine": "vllm", "tp": 8, "draft": "mtp", "draft_tokens": 2},
        ),
        (
            f"python -m sglang.launch_server --model-path {LLAMA} --tp-size 2 --context-length 32Ki",
            {"model": LLAMA, "engine": "sglang", "tp": 2, "max_model_len": 32_768},
        ),
        # SGLang counts all ranks in the tensor-parallel size, and shares the budgets out to them: 128 / 8, 8192 / 8
        (
            (f"python -m sglang.launch_server --model-path {DEEPSEEK} --tp-size 8 --dp-size 8 --enable-dp-attention "
            "--ep-size 8 --max-running-requests 128 --chunked-prefill-size 8192"),
            {"model": DEEPSEEK, "engine": "sglang", "tp": 1, "dp": 8, "ep": 8, "max_num_seqs": 16,
             "max_num_batched_tokens": 1024},
        ),
        # without the switch the ranks are replicas: 2 of 4 GPUs
        (
            f"python -m sglang.launch_server --model-path {LLAMA} --tp-size 4 --dp-size 2",
            {"model": LLAMA, "engine": "sglang", "tp": 4, "num_gpus": 8},
        ),
        # argparse takes the beginning of an option for it, and all the documentation of SGLang writes these
        (
            f"python -m sglang.launch_server --model {LLAMA} --tp 4 --dp 2",
            {"model": LLAMA, "engine": "sglang", "tp": 4, "num_gpus": 8},
        ),
        (
            f"docker run --gpus all lmsysorg/sglang:v0.5.6.post1 python3 -m sglang.launch_server --model-path {LLAMA}",
            {"model": LLAMA, "engine": "sglang@0.5.6", "tp": 1},
        ),
        (
            (f"sglang serve --model-path {DEEPSEEK} --speculative-algorithm EAGLE3 --speculative-num-steps 3 "
            "--speculative-eagle-topk 1 --speculative-num-draft-tokens 4"),
            {"model": DEEPSEEK, "engine": "sglang", "tp": 1, "draft": "eagle", "draft_tokens": 3},
        ),
        (
            f"trtllm-serve {LLAMA} --tp_size 4 --max_batch_size 64 --kv_cache_free_gpu_memory_fraction 0.8",
            {"model": LLAMA, "engine": "trtllm", "tp": 4, "max_num_seqs": 64, "gpu_memory_utilization": 0.8},
        ),
        (
            f"docker run nvcr.io/nvidia/tensorrt-llm/release:1.0.0 trtllm-serve serve {LLAMA}",
            {"model": LLAMA, "engine": "trtllm@1.0.0", "tp": 1},
        ),
        (
            ("cat > extra.yaml <<EOF\nenable_attention_dp: true\nkv_cache_config:\n  dtype: fp8\nEOF\n"
            f"trtllm-serve {DEEPSEEK} --tp_size 8 --ep_size 8 --extra_llm_api_options extra.yaml"),
            {"model": DEEPSEEK, "engine": "trtllm", "tp": 1, "dp": 8, "ep": 8, "kv_cache_dtype": "fp8"},
        ),
        (
            (f"cat > extra.yaml <<EOF\nkv_cache_config:\n  free_gpu_memory_fraction: 0.8\nEOF\ntrtllm-serve {LLAMA} "
            "--extra_llm_api_options extra.yaml"),
            {"model": LLAMA, "engine": "trtllm", "tp": 1, "gpu_memory_utilization": 0.8},
        ),
        # the file comes after the command; what it leaves open is that of the command
        (
            ("cat > notes.yaml <<EOF\nmax_batch_size: 1\nEOF\ncat > /tmp/extra.yaml <<EOF\ntensor_parallel_size: 4\n"
            "pipeline_parallel_size: 2\nmax_batch_size: 32\nmax_num_tokens: 4096\nmax_seq_len: null\nEOF\n"
            f"trtllm-serve {LLAMA} --tp_size 2 --max_seq_len 9000 --config extra.yaml"),
            {"model": LLAMA, "engine": "trtllm", "tp": 4, "pp": 2, "max_num_seqs": 32, "max_num_batched_tokens": 4096,
             "max_model_len": 9000},
        ),
        (
            (f"cat > extra.yaml <<EOF\nmoe_expert_parallel_size: 4\nenable_attention_dp: True\nEOF\n"
            f"trtllm-serve {QWEN} --tp_size 4 --extra_llm_api_options extra.yaml"),
            {"model": QWEN, "engine": "trtllm", "tp": 1, "dp": 4, "ep": 4},
        ),
        (f"cat > other.yaml <<EOF\n- a\nEOF\ntrtllm-serve {LLAMA}", {"model": LLAMA, "engine": "trtllm", "tp": 1}),
        (f"python3 -m dynamo.vllm --model {LLAMA} -tp 2", {"model": LLAMA, "engine": "vllm", "tp": 2}),
    ],
)  # fmt: skip
def test_a_command_is_read_as_the_engine_reads_it(text, case):
    assert rl.command_case(text) == case


@each("text", [f"docker run vllm/vllm-openai:v0.19.0 --model {LLAMA}", f"# vLLM 0.19.0: ours\nvllm serve {LLAMA}"])
def test_the_version_of_an_image_or_of_the_first_comment_is_that_of_the_engine(text):
    case = rl.command_case(text)
    prediction = rl.predict(gpu="h100-sxm", concurrency=4, **case)
    assert prediction.deployment.engine.version == "0.19.0"
    # 0.9 of the memory until 0.19, 0.92 from 0.20 on
    assert prediction.deployment.engine.gpu_memory_utilization == 0.9


def test_the_newest_version_is_kept_where_an_image_names_it():
    case = rl.command_case(f"docker run nvcr.io/nvidia/tensorrt-llm/release:1.2.1 trtllm-serve {LLAMA} --tp_size 2")
    expected = rl.predict("llama-3.1-8b", "h100-sxm", engine="trtllm@1.2.1", tp=2, **LOAD)
    assert_same(expected, rl.predict(gpu="h100-sxm", **LOAD, **case))


# --- what is no part of the answer ---------------------------------------------------------------


def test_options_that_no_figure_depends_on_are_listed():
    read = read_command(f"vllm serve {LLAMA} --port 8001 --seed 3 --trust-remote-code --api-key one two -tp 2")
    assert read.options == {"model": LLAMA, "engine": "vllm", "tp": 2}
    (note,) = read.notes
    assert note.startswith("no part of the answer: ")
    assert set(note.partition(": ")[2].split(", ")) == {"--port", "--seed", "--trust-remote-code", "--api-key"}


@each(
    "text, name",
    [
        (f"vllm serve {LLAMA} --enforce-eager", "--enforce-eager"),
        (f"vllm serve {LLAMA} --no-enable-prefix-caching", "--no-enable-prefix-caching"),
        (f"vllm serve {LLAMA} --no-enable-chunked-prefill", "--no-enable-chunked-prefill"),
        (f"vllm serve {LLAMA} --config server.yaml", "server.yaml"),
        (f"vllm serve {LLAMA} -q compressed-tensors", "compressed-tensors"),
        (f"python -m sglang.launch_server --model-path {LLAMA} --tp 2 --dp 2", "replicas"),
        (f"python -m sglang.launch_server --model-path {LLAMA} --disable-cuda-graph", "--disable-cuda-graph"),
        (f"python -m sglang.launch_server --model-path {LLAMA} --config server.yaml", "server.yaml"),
        (f"python -m sglang.launch_server --model-path {LLAMA} --chunked-prefill-size -1", "--chunked-prefill-size"),
        (f"trtllm-serve {LLAMA} --config server.yaml", "server.yaml"),
        (f"vllm serve {LLAMA} --enforce-eager", "assumes CUDA graphs"),
        (f"vllm serve {LLAMA} -O3", "-O3"),
        (f"vllm serve {LLAMA} & vllm serve {QWEN}", "of the 2 servers"),
        (
            f"cat > a.yaml <<EOF\nmax_batch_size: 8\nEOF\ntrtllm-serve {LLAMA} --max_batch_size 4 --config a.yaml",
            "max_batch_size of the file replaces --max_batch_size",
        ),
    ],
)
def test_what_was_read_and_is_not_in_the_case_is_a_note(text, name):
    assert name in " ".join(read_command(text).notes)


def test_a_command_of_plain_settings_has_no_note():
    read = read_command(f"vllm serve {LLAMA} -tp 2 --max-num-seqs 64 --max-model-len 8192 --kv-cache-dtype fp8")
    assert read.notes == ()


# --- what is refused -----------------------------------------------------------------------------


@each(
    "text, said",
    [
        (f"vllm serve {LLAMA} --tensor-paralel-size 2", "did you mean --tensor-parallel-size"),
        (f"vllm serve {LLAMA} --attn-dp-size 2", "vLLM 0.33.0 does not know --attn-dp-size"),
        (f"python -m sglang.launch_server --model-path {LLAMA} --max-num-seqs 2", "SGLang 0.5.23 does not know"),
        (f"trtllm-serve {LLAMA} --max-batch-size 4", "did you mean --max_batch_size"),
        (
            (
                f"docker run lmsysorg/sglang:v0.5.6 python3 -m sglang.launch_server --model-path {DEEPSEEK} "
                "--tp-size 8 --attn-dp-size 8"
            ),
            "SGLang 0.5.6 does not know --attn-dp-size; versions from 0.5.22 on do",
        ),
        (
            f"docker run vllm/vllm-openai:v0.8.5 --model {LLAMA} --async-scheduling",
            "vLLM 0.8.5 does not know --async-scheduling; versions from 0.10.2 on do",
        ),
        (
            f"docker run vllm/vllm-openai:v0.30.0 --model {LLAMA} --max-num-partial-prefills 2",
            "versions up to 0.26.0 do",
        ),
        (f"docker run vllm/vllm-openai:v0.1.0 --model {LLAMA}", "known versions: 0.8"),
        (f"vllm serve {LLAMA} --max-num 4", "--max-num is the beginning of several options of vLLM 0.33.0"),
        (f"trtllm-serve {LLAMA} --tp 4", "TensorRT-LLM 1.2.1 does not know --tp"),
    ],
)
def test_an_option_of_no_version_or_of_another_is_refused_with_what_is_near(text, said):
    with pytest.raises(rl.UnknownName) as refusal:
        rl.command_case(text)
    assert said in str(refusal.value)


def file_of(text):
    return f"cat > extra.yaml <<EOF\n{text}\nEOF\ntrtllm-serve {LLAMA} --extra_llm_api_options extra.yaml"


def drafted(config):
    return f"vllm serve {LLAMA} --speculative-config '{config}'"


@each(
    "text",
    [
        "", "   \n", "#", "ls -l", "vllm", "vllm bench serve --model x", "{}", "\x00", "- a: b",
        "vllm serve", "vllm serve --port 80", "vllm serve 'x", 'vllm serve "x', "vllm serve x y",
        f"vllm serve {LLAMA} {LLAMA}",
        f"vllm serve {LLAMA} -tp", f"vllm serve {LLAMA} -tp two", f"vllm serve {LLAMA} -tp 0",
        f"vllm serve {LLAMA} -tp ''",
        f"vllm serve {LLAMA} -tp 2.0", f"vllm serve {LLAMA} --enable-expert-parallel=false",
        f"vllm serve {LLAMA} --max-model-len {'9' * 400}k", f"vllm serve {LLAMA} --max-model-len {'9' * 5000}",
        f"vllm serve {LLAMA} --gpu-memory-utilization nan", f"vllm serve {LLAMA} --gpu-memory-utilization 1.5",
        f"vllm serve {LLAMA} --kv-cache-dtype turbo", f"vllm serve {LLAMA} --kv-cache-dtype nvfp4",
        f"vllm serve {LLAMA} -q marlin",
        f"python -m sglang.launch_server --model-path {LLAMA} --tp-size 8 --attn-dp-size 3",
        drafted("3"), drafted("[]"), drafted('"mtp"'), drafted("{"), drafted("[" * 50_000),
        drafted('{"method": "medusa"}'), drafted('{"method": "draft_model"}'), drafted('{"method": ["mtp"]}'),
        drafted('{"method": "ngram", "num_speculative_tokens": "abc"}'),
        drafted('{"method": "ngram", "num_speculative_tokens": {}}'),
        drafted('{"method": "ngram", "num_speculative_tokens": 2.5}'),
        drafted('{"method": "ngram", "num_speculative_tokens": 1e999}'),
        drafted('{"method": "ngram", "num_speculative_tokens": true}'),
        drafted('{"method": "ngram", "num_speculative_tokens": 0}'), drafted('{"model": 3}'),
        "vllm serve --model=-x", "vllm serve --model '--tp 2'", f"trtllm-serve {LLAMA} --trust_remote_code=true",
        "vllm serve <model>", "docker pull vllm/vllm-openai:v0.19.0",
        file_of("- a\n- b"), file_of("text"), file_of(": : :\n\t- x"), file_of("kv_cache_config:\n  dtype: [1]"),
        file_of("kv_cache_config:\n  dtype: 3"), file_of("enable_attention_dp: maybe"),
        file_of("speculative_config:\n  decoding_type: MTP\n  num_nextn_predict_layers: abc"),
        file_of("speculative_config:\n  decoding_type: Medusa"),
        file_of("kv_cache_config: 3"), file_of("kv_cache_config:\n  free_gpu_memory_fraction: .nan"),
        file_of("max_batch_size: [1]"), file_of("max_batch_size: true"), file_of("a: &a {b: *a}"), file_of("# empty"),
        file_of("a: {" * 5000), file_of("\n".join(f"a{place}: 1" for place in range(2000))),
        "vllm serve x " * 10_000,
    ],
    ids=lambda text: ascii(text[:70]),
)  # fmt: skip
def test_what_no_engine_would_start_is_refused_and_is_no_traceback(text):
    with pytest.raises(rl.BadInput) as refusal:
        rl.command_case(text)
    assert len(str(refusal.value)) < 1000


@each("text", [None, 3, b"vllm serve x", ["vllm", "serve", LLAMA], {"model": LLAMA}, True])
def test_what_is_no_text_is_refused(text):
    with pytest.raises(rl.BadInput, match="must be the launch command of a server"):
        rl.command_case(text)


words = some((
    "vllm", "serve", LLAMA, "--model", "-tp", "2", "--tp-size", "--max-model-len", "32k", "--speculative-config",
    "'{}'", '\'{"method": "ngram"}\'', "--kv-cache-dtype", "fp8", "-q", "&&", "=", "--", "-", "--no-", "--disable-",
    "\\\n", "#", "'", "--config", "x.yaml", "--enable-expert-parallel", "--seed=", "trtllm-serve",
    "sglang.launch_server",
))  # fmt: skip


@settings(max_examples=tiers.times(15, 60), deadline=None)
@given(
    start=some(("vllm serve", "python -m sglang.launch_server", "trtllm-serve")),
    rest=st.lists(words | st.text(max_size=8)),
)
def test_any_words_after_a_program_are_a_case_or_a_refusal(start, rest):
    try:
        case = rl.command_case(" ".join((start, *rest)))
    except rl.RooflineError:
        return
    assert isinstance(case["model"], str)
    assert json.dumps(case)


# --- doors ---------------------------------------------------------------------------------------

TEXT = f"vllm serve {LLAMA} -tp 2 --max-num-seqs 64 --kv-cache-dtype fp8 --port 80"


def test_the_shell_asks_about_the_server_of_a_command():
    (row,) = rows("predict", "--command", TEXT, "-g", "h100-sxm", "-c", "8")
    expected = rl.predict(gpu="h100-sxm", concurrency=8, **rl.command_case(TEXT)).to_dict()
    for key in ("model", "tp", "kv_cache_dtype", "ttft_ms", "tpot_ms", "hbm_used_frac", "request_rate"):
        assert row[key] == expected[key], key


def test_the_shell_says_what_was_left_aside():
    result = ask("predict", "--command", TEXT, "-g", "h100-sxm", "-c", "8")
    assert result.exit_code == 0
    assert "--port" in result.stderr


def test_what_is_typed_comes_before_the_command():
    (row,) = rows("predict", "--command", TEXT, "-g", "h100-sxm", "-c", "8", "--tp", "4")
    assert row["tp"] == 4


@each("text", ["ls", f"vllm serve {LLAMA} --tensor-paralel-size 2", drafted("3"), drafted("[" * 50_000)])
def test_the_shell_refuses_what_python_does(text):
    result = ask("predict", "--command", text, "-g", "h100-sxm", "-c", "8")
    assert result.exit_code == 1, result.output
    assert result.stdout == ""


# --- logs ----------------------------------------------------------------------------------------

_LOG_OF_VLLM = """\
(APIServer pid=1) INFO 11-27 14:00:00 [api_server.py:1234] vLLM API server version 0.19.0
(APIServer pid=1) INFO 11-27 14:00:00 [utils.py:233] non-default args: {'model_tag': 'deepseek-ai/DeepSeek-R1', \
'host': '0.0.0.0', 'model': 'deepseek-ai/DeepSeek-R1', 'trust_remote_code': True, 'max_model_len': 8192, \
'tensor_parallel_size': 8, 'enable_expert_parallel': True, 'gpu_memory_utilization': 0.95, 'kv_cache_dtype': 'fp8', \
'speculative_config': {'method': 'mtp', 'num_speculative_tokens': 1}}
(APIServer pid=1) INFO 11-27 14:00:09 [model.py:547] Resolved architecture: DeepseekV3ForCausalLM
"""
_LOG_OF_SGLANG = (
    "[2026-11-27 14:00:00] server_args=ServerArgs(model_path='Qwen/Qwen3-32B', tokenizer_path='Qwen/Qwen3-32B', "
    "skip_server_warmup=False, quantization='fp8', kv_cache_dtype='fp8_e4m3', mem_fraction_static=0.83, "
    "max_running_requests=None, chunked_prefill_size=8192, tp_size=2, dp_size=1, ep_size=1, pp_size=1, "
    "enable_dp_attention=False, context_length=None)"
)


def test_the_arguments_that_a_log_states_are_those_of_a_command():
    command = (
        "# vLLM 0.19.0:\nvllm serve deepseek-ai/DeepSeek-R1 --max-model-len 8192 -tp 8 --enable-expert-parallel "
        "--gpu-memory-utilization 0.95 --kv-cache-dtype fp8 "
        """--speculative-config '{"method": "mtp", "num_speculative_tokens": 1}'"""
    )
    assert rl.command_case(_LOG_OF_VLLM) == rl.command_case(command)
    command = (
        "python -m sglang.launch_server --model-path Qwen/Qwen3-32B --quantization fp8 --kv-cache-dtype fp8_e4m3 "
        "--mem-fraction-static 0.83 --chunked-prefill-size 8192 --tp-size 2"
    )
    assert rl.command_case(_LOG_OF_SGLANG) == rl.command_case(command)


@each(
    "log",
    [
        "non-default args: {}",
        "non-default args: {'max_num_seqs': 64}",
        "ServerArgs()",
        "non-default args: {'model': 'x', 'speculative_config': {1 +}}",
        "non-default args: {'model': 'x', 'max_num_seqs': many}",
        "non-default args: {'model': '$(rm -rf /)', 'max_num_seqs': -1}",
    ],
)
def test_a_log_that_states_no_server_is_refused(log):
    with pytest.raises(rl.RooflineError):
        rl.command_case(log)
