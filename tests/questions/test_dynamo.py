"""Deployment files of Dynamo: YAML with the pools, their GPUs and replicas, and arguments that the engine knows."""

import json
import re
from dataclasses import replace

import pytest
import yaml
from cli.asking import answered, ask, strict_json
from every_case import each

import roofline as rl
from roofline.catalog.find import load_arguments
from roofline.questions.dynamo import RELEASES
from roofline.specs.versions import place_of

LLAMA, DEEPSEEK = "llama-3.3-70b", "deepseek-r1"
ENGINES = ("vllm", "sglang", "trtllm")
#: Model, GPU and options of a case, and its GPUs in each replica and replicas, by hand: four of eight GPUs are two
#: replicas; tp 2 in two stages are four GPUs; eight ranks of one GPU are eight.
CASES = [
    ("llama-3.1-8b", "h100-sxm", {"tp": 1}, 1, 1),
    (LLAMA, "h100-sxm", {"tp": 4}, 4, 1),
    (LLAMA, "8xh100", {"tp": 4}, 4, 2),
    ("llama-3.1-8b", "8xh100", {"tp": 2}, 2, 4),
    (LLAMA, "h100-sxm", {"tp": 2, "pp": 2}, 4, 1),
    ("qwen3-30b-a3b", "h100-sxm", {"tp": 2, "ep": 2}, 2, 1),
    (DEEPSEEK, "h200-sxm", {"tp": 1, "dp": 8, "ep": 8}, 8, 1),
]
#: Arguments of Dynamo's own workers, and what its TensorRT-LLM worker calls those of trtllm-serve.
OF_WORKERS = {"--model", "--model-path", "--disaggregation-mode", "--override-engine-args"}
OF_TRTLLM = {
    "--tensor-parallel-size": "--tp_size", "--pipeline-parallel-size": "--pp_size",
    "--expert-parallel-size": "--ep_size", "--max-batch-size": "--max_batch_size",
    "--max-num-tokens": "--max_num_tokens", "--max-seq-len": "--max_seq_len",
    "--free-gpu-memory-fraction": "--kv_cache_free_gpu_memory_fraction",
}  # fmt: skip
ODD_NAMES = (
    "two words", "it's", 'a "quoted" name', "x: y", "# x", "a # b", "{a: b}", "[a]", "&a", "*a", "!!python/x",
    "|", ">", "%x", "@x", "`x`", "$(echo y)", "null", "true", "1e3", "back\\slash", "line\nbreak", "a\nkind: Secret",
    "tab\there", "a\rb", "~", "", " ", "\u043c\u043e\u0434\u0435\u043b\u044c", "\U0001f600", "a\u2028kind: Secret",
    "a\u2029kind: Secret", "a\x85kind: Secret", "\x9b", "\x7f", "\ufeff",
)  # fmt: skip


class Part:
    """A component of a deployment file of either API."""

    def __init__(self, name, document, is_late):
        self.name = name
        self.replicas = document["replicas"]
        self.nodes = document.get("multinode", {}).get("nodeCount", 1)
        if is_late:
            self.kind = document["type"]
            (container,) = document["podTemplate"]["spec"]["containers"]
            limits = container.get("resources", {}).get("limits", {})
            self.gpus = int(limits.get("nvidia.com/gpu", 0))
            assert container["name"] == "main"
        else:
            self.kind = document.get("subComponentType", document["componentType"])
            container = document["extraPodSpec"]["mainContainer"]
            self.gpus = int(document.get("resources", {}).get("limits", {}).get("gpu", 0))
        self.image, self.command, self.args = container["image"], container["command"], container.get("args", [])


def parts(text):
    """Components of a file by name; it must be one document of the four keys, and of texts and numbers alone."""
    (document,) = yaml.safe_load_all(text)
    assert list(document) == ["apiVersion", "kind", "metadata", "spec"]
    assert document["kind"] == "DynamoGraphDeployment"
    is_late = document["apiVersion"] == "nvidia.com/v1beta1"
    spec = document["spec"]
    listed = {one["name"]: one for one in spec["components"]} if is_late else spec["services"]
    found = {name: Part(name, one, is_late) for name, one in listed.items()}
    assert all(isinstance(word, str) for part in found.values() for word in (*part.args, *part.command))
    return found


def options_of(args):
    """Arguments of a worker with their values; True for a switch."""
    places = [place for place, word in enumerate(args) if word.startswith("--")]
    ends = [*places[1:], len(args)]
    return {args[place]: args[place + 1] if end > place + 1 else True for place, end in zip(places, ends, strict=True)}


# --- one pool ------------------------------------------------------------------------------------


@pytest.mark.parametrize("release", tuple(RELEASES))
@pytest.mark.parametrize("to", ENGINES)
def test_a_file_has_a_frontend_and_workers_with_their_gpus_and_replicas(to, release):
    for model, gpu, options, gpus, replicas in CASES:
        answer = rl.dynamo(model, gpu, to=to, release=release, concurrency=8, **options)
        found = parts(answer.text)
        assert list(found) == ["Frontend", "worker"]
        frontend, worker = found["Frontend"], found["worker"]
        assert (frontend.kind, frontend.replicas, frontend.gpus, frontend.args) == ("frontend", 1, 0, [])
        assert frontend.command == ["python3", "-m", "dynamo.frontend"]
        assert (worker.kind, worker.replicas, worker.gpus, worker.nodes) == ("worker", replicas, gpus, 1)
        assert worker.command == ["python3", "-m", f"dynamo.{to}"]
        plan = answer.pools[0].deployment.plan
        assert worker.gpus == plan.tp * plan.pp * plan.dp


@each("release, api, version", [("1.0", "nvidia.com/v1alpha1", "1.0.2"), ("1.6", "nvidia.com/v1beta1", "1.6.1")])
def test_a_file_is_of_the_api_and_the_images_of_its_release(release, api, version):
    for to, image in (("vllm", "vllm"), ("sglang", "sglang"), ("trtllm", "tensorrtllm")):
        answer = rl.dynamo("qwen3-8b", "l40s", to=to, release=release, concurrency=4)
        document = yaml.safe_load(answer.text)
        assert document["apiVersion"] == api
        assert document["spec"]["backendFramework"] == to
        assert answer.version == version
        assert {part.image for part in parts(answer.text).values()} == {
            f"nvcr.io/nvidia/ai-dynamo/{image}-runtime:{version}"
        }


def test_the_newest_release_is_taken_where_none_is_named():
    newest = max(RELEASES, key=place_of)
    unnamed = rl.dynamo("qwen3-8b", "l40s", to="vllm", concurrency=4)
    assert unnamed.text == rl.dynamo("qwen3-8b", "l40s", to="vllm", release=newest, concurrency=4).text
    assert unnamed.release == newest


@pytest.mark.parametrize("release", tuple(RELEASES))
@pytest.mark.parametrize("to", ENGINES)
def test_every_argument_of_a_worker_is_known_to_the_engine_of_the_release(to, release):
    table = load_arguments(to)
    version = RELEASES[release].engines[to]
    assert version in table.versions
    seen = 0
    for model, gpu, options, *_ in CASES:
        case = {**options, "concurrency": 8, "max_num_seqs": 64, "max_model_len": 8000, "kv_cache_dtype": "fp8"}
        worker = parts(rl.dynamo(model, gpu, to=to, release=release, every=True, **case).text)["worker"]
        for name, value in options_of(worker.args).items():
            if name in OF_WORKERS:
                continue
            argument = table.named(OF_TRTLLM.get(name, name) if to == "trtllm" else name, version)
            assert (value is True) == (argument.type in ("bool", "bool-no")), name
            if value is not True:
                argument.value(value, version)
            seen += 1
    assert seen > len(CASES)


# Eight ranks share the experts: SGLang and TensorRT-LLM count them in the tensor-parallel size.
@each(
    "to, release, expected",
    [
        ("vllm", "1.6", {"--data-parallel-size": "8", "--enable-expert-parallel": True}),
        ("sglang", "1.0", {"--tp-size": "8", "--dp-size": "8", "--enable-dp-attention": True, "--ep-size": "8"}),
        ("trtllm", "1.6", {"--tensor-parallel-size": "8", "--expert-parallel-size": "8"}),
    ],
)
def test_a_worker_has_the_arguments_of_its_plan(to, release, expected):
    answer = rl.dynamo(DEEPSEEK, "h200-sxm", to=to, release=release, concurrency=64, tp=1, dp=8, ep=8)
    options = options_of(parts(answer.text)["worker"].args)
    model = options.pop("--model" if to == "vllm" else "--model-path")
    override = json.loads(options.pop("--override-engine-args", "{}"))
    assert model == "deepseek-ai/DeepSeek-R1"
    assert options == expected
    assert override == ({"enable_attention_dp": True} if to == "trtllm" else {})


def test_settings_without_an_argument_are_nested_in_those_of_the_engine():
    case = {"kv_cache_dtype": "fp8", "draft": "ngram", "draft_tokens": 3, "acceptance": 0.6}
    worker = parts(rl.dynamo("llama-3.1-8b", "h100-sxm", to="trtllm", concurrency=8, **case).text)["worker"]
    override = json.loads(options_of(worker.args)["--override-engine-args"])
    assert override["kv_cache_config"] == {"dtype": "fp8"}
    assert override["speculative_config"]["decoding_type"] == "NGram"
    assert override["speculative_config"]["max_draft_len"] == 3


# --- more GPUs than a machine has ----------------------------------------------------------------


# 8 GPUs a machine: 20 GPUs are four a machine on five, as all machines have equally many and whole groups of tp 4.
@each("tp, pp", [(8, 1), (8, 2), (4, 3), (8, 5), (4, 5), (2, 9)])
@pytest.mark.parametrize("release", tuple(RELEASES))
def test_machines_of_a_replica_have_all_its_gpus_together(release, tp, pp):
    answer = rl.dynamo("llama-3.1-405b", "h200-sxm", to="vllm", release=release, tp=tp, pp=pp, concurrency=4)
    worker = parts(answer.text)["worker"]
    assert worker.gpus * worker.nodes == tp * pp
    assert worker.gpus <= 8
    assert worker.gpus % tp == 0


# --- two pools -----------------------------------------------------------------------------------


def two_pools(to, release="1.6", model=LLAMA):
    engine = f"{to}@{RELEASES[release].engines[to]}"
    answer = rl.disaggregate(model, "h100:tp4x2", "h200:tp8x3", engine=engine, request_rate=2, isl=4000, osl=200)
    return rl.dynamo(answer, to=to, release=release)


@pytest.mark.parametrize("release", tuple(RELEASES))
@pytest.mark.parametrize("to", ENGINES)
def test_two_pools_are_a_prefill_and_a_decode_part(to, release):
    answer = two_pools(to, release)
    found = parts(answer.text)
    assert list(found) == ["Frontend", "prefill", "decode"]
    assert answer.roles == ("prefill", "decode")
    for role, gpus, replicas in (("prefill", 4, 2), ("decode", 8, 3)):
        part = found[role]
        assert (part.kind, part.gpus, part.replicas, part.nodes) == (role, gpus, replicas, 1)
        options = options_of(part.args)
        assert options["--disaggregation-mode"] == role
        assert options["--tp-size" if to == "sglang" else "--tensor-parallel-size"] == str(gpus)


def test_each_engine_is_told_how_kv_caches_are_moved():
    for role in ("prefill", "decode"):
        of_vllm = options_of(parts(two_pools("vllm").text)[role].args)
        of_sglang = options_of(parts(two_pools("sglang").text)[role].args)
        of_trtllm = options_of(parts(two_pools("trtllm").text)[role].args)
        assert json.loads(of_vllm["--kv-transfer-config"])["kv_connector"] == "NixlConnector"
        assert of_sglang["--disaggregation-transfer-backend"] == "nixl"
        override = json.loads(of_trtllm["--override-engine-args"])
        assert override["cache_transceiver_config"] == {"backend": "DEFAULT"}
        assert override.get("disable_overlap_scheduler", False) is (role == "prefill")


def test_degrees_of_pools_are_not_said_to_be_searched_for():
    assert "the smallest that serves" not in two_pools("vllm").text


# --- names ---------------------------------------------------------------------------------------


def named(name):
    return replace(rl.load_model("llama-3.1-8b"), name=name)


@each("name", ODD_NAMES, ids=ascii)
def test_a_name_is_one_text_of_the_file(name):
    for release in RELEASES:
        for to in ("vllm", "trtllm"):
            answer = rl.dynamo(named(name), "h100-sxm", to=to, release=release, weights="int4")
            worker = parts(answer.text)["worker"]
            assert worker.args[1] == name
            assert answer.to_dict()["file"] == answer.text


@each("name", ["a b", "it's", '"', "x\ny", "\U0001f600", "a\u2028b"], ids=ascii)
def test_the_name_of_a_draft_is_one_text_of_the_file(name):
    draft = replace(rl.load_model("llama-3.2-1b"), name=name)
    case = {"draft": draft, "draft_tokens": 3, "acceptance": 0.6}
    answer = rl.dynamo("llama-3.1-8b", "h100-sxm", to="vllm", **case)
    config = options_of(parts(answer.text)["worker"].args)["--speculative-config"]
    assert json.loads(config)["model"] == name


@each("name", ["a\u2028kind: Secret", "a\x85kind: Secret", "a\nkind: Secret", "\x9b"], ids=ascii)
def test_the_short_name_of_a_model_stays_in_its_comment(name):
    model = replace(rl.load_model("llama-3.1-8b"), short_name=name)
    worker = parts(rl.dynamo(model, "h100-sxm", to="vllm").text)["worker"]
    assert worker.args[1] == "meta-llama/Llama-3.1-8B"


# A name of Kubernetes: at most 63 letters, digits and hyphens, neither first nor last a hyphen.
@each("name", [
    "llama-3.1-8b", "A Model (of ours)", "x" * 200, "a" * 49 + "-b", "a" * 49 + ".b", "--x--", "...", "\u6a21\u578b",
    "x\ny", "UPPER_case",
], ids=ascii)  # fmt: skip
def test_the_resource_has_a_name_that_kubernetes_takes(name):
    model = replace(rl.load_model("llama-3.1-8b"), short_name=name)
    document = yaml.safe_load(rl.dynamo(model, "h100-sxm", to="vllm").text)
    assert re.fullmatch(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?", document["metadata"]["name"])


# --- what is refused, and doors ------------------------------------------------------------------


@each("release", ["1.5", "2.0", "latest", "", "0.9.1", "1"])
def test_a_release_that_is_not_known_is_refused_with_those_that_are(release):
    with pytest.raises(rl.UnknownName, match=r"known versions: 1\.0\.2, 1\.6\.1") as refusal:
        rl.dynamo("qwen3-8b", "l40s", to="vllm", release=release, concurrency=4)
    assert f"Dynamo {release} is not known" in str(refusal.value)


@each("release", ["1.6", "1.6.1", "v1.6.1"])
def test_a_release_is_named_with_or_without_its_patch(release):
    assert rl.dynamo("qwen3-8b", "l40s", to="vllm", release=release, concurrency=4).version == "1.6.1"


@each("to", ["tgi", "", "dynamo", None])
def test_an_engine_that_dynamo_does_not_run_is_refused(to):
    with pytest.raises(rl.RooflineError, match="vllm, sglang, trtllm"):
        rl.dynamo("qwen3-8b", "l40s", to=to, concurrency=4)


def test_a_version_that_the_release_does_not_hold_is_refused():
    with pytest.raises(rl.RooflineError, match=r"holds vLLM 0\.31\.0, not 'vllm@0\.19'"):
        rl.dynamo("qwen3-8b", "l40s", to="vllm@0.19", concurrency=4)
    with pytest.raises(rl.RooflineError, match=r"holds vLLM 0\.31\.0, not 'vllm@0\.19'"):
        rl.dynamo("qwen3-8b", "l40s", to="vllm", engine="vllm@0.19", concurrency=4)
    same = rl.dynamo("qwen3-8b", "l40s", to="vllm@0.31", concurrency=4)
    assert same.text == rl.dynamo("qwen3-8b", "l40s", to="vllm", engine="vllm", concurrency=4).text


@each("name", ["- x", "-x", "--tp 2"])
def test_a_name_that_a_worker_would_read_as_an_option_is_refused(name):
    with pytest.raises(rl.BadInput, match="begins with -"):
        rl.dynamo(named(name), "h100-sxm", to="vllm", concurrency=4)


def test_a_case_of_another_engine_is_refused():
    with pytest.raises(rl.BadInput, match="sglang"):
        rl.dynamo("qwen3-8b", "l40s", to="vllm", engine="sglang", concurrency=4)
    with pytest.raises(rl.BadInput, match="sglang"):
        rl.dynamo(rl.predict("qwen3-8b", "l40s", engine="sglang", concurrency=4), to="vllm")


def test_what_the_engine_cannot_be_told_is_refused():
    with pytest.raises(rl.BadInput, match="not ep 4"):
        rl.dynamo(DEEPSEEK, "h200-sxm", to="vllm", tp=4, dp=2, ep=4, concurrency=8)


@pytest.mark.parametrize("release", tuple(RELEASES))
def test_the_shell_prints_the_text_that_python_has(release):
    case = ["-m", "qwen3-8b", "-g", "h100-sxm", "-c", "8", "--tp", "2", "--engine", "sglang"]
    answer = rl.dynamo("qwen3-8b", "h100-sxm", to="sglang", release=release, concurrency=8, tp=2)
    assert answered("predict", *case, "--emit", f"dynamo@{release}") == answer.text
    assert strict_json(answered("predict", *case, "--emit", f"dynamo@{release}", "--format", "json")) == (
        answer.to_dict()
    )


def test_the_shell_prints_two_pools():
    text = answered(
        "disaggregate", "-m", LLAMA, "--prefill", "h100:tp4x2", "--decode", "h200:tp8x3", "--engine", "vllm",
        "--request-rate", "2", "--isl", "4000", "--osl", "200", "--emit", "dynamo",
    )  # fmt: skip
    assert text == two_pools("vllm").text


@each("emit", ["dynamo@1.5", "dynamo@x"])
def test_the_shell_refuses_what_python_does(emit):
    result = ask("predict", "-m", "qwen3-8b", "-g", "h100-sxm", "-c", "8", "--emit", emit)
    assert result.exit_code == 1, result.output
    assert "known versions" in result.stderr
    assert result.stdout == ""
