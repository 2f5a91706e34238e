"""Launch commands: what is typed is what the engine's version takes, says where it comes from, and is safe to type."""

import json
import shlex
import subprocess
from dataclasses import replace

import pytest
import tiers
import yaml
from cli.asking import answered, ask, strict_json
from every_case import each

import roofline as rl
from roofline.catalog.find import load_arguments
from roofline.questions.inputs.flags import ARGUMENTS, CACHES, ONLINE
from roofline.questions.launch import SETTINGS_FILE
from roofline.specs.versions import place_of

LLAMA, MOE, DEEPSEEK = "llama-3.1-8b", "qwen3-30b-a3b", "deepseek-r1"
DRAFTED = {"draft_tokens": 3, "acceptance": 0.7}
#: Cases of each kind of model, format and draft: model, GPU, options.
CASES = {
    "dense": (LLAMA, "h100-sxm", {"tp": 2, "concurrency": 8}),
    "pipeline": ("llama-3.3-70b", "h100-sxm", {"tp": 2, "pp": 2, "concurrency": 4}),
    "replicas": (LLAMA, "h100-sxm", {"tp": 2, "num_gpus": 8, "concurrency": 16}),
    "experts": (MOE, "h100-sxm", {"tp": 2, "ep": 2, "concurrency": 8}),
    "ranks": (DEEPSEEK, "h200-sxm", {"tp": 1, "dp": 8, "ep": 8, "concurrency": 64}),
    "fp8 cache": (LLAMA, "h100-sxm", {"kv_cache_dtype": "fp8", "concurrency": 8}),
    "fp8": ("qwen3-8b", "h100-sxm", {"quantization": "fp8", "concurrency": 8}),
    "int4": ("qwen3-8b", "h100-sxm", {"quantization": "int4", "concurrency": 8}),
    "heads": (DEEPSEEK, "h200-sxm", {"tp": 8, "draft": "mtp", "concurrency": 8, **DRAFTED}),
    "eagle": (LLAMA, "h100-sxm", {"draft": "eagle", "concurrency": 8, **DRAFTED}),
    "ngram": (LLAMA, "h100-sxm", {"draft": "ngram", "concurrency": 8, **DRAFTED}),
    "draft model": ("llama-3.3-70b", "h100-sxm", {"tp": 4, "draft": LLAMA, "concurrency": 8, **DRAFTED}),
    "budgets": (
        LLAMA,
        "h100-sxm",
        {
            "max_num_seqs": 100,
            "max_num_batched_tokens": 3000,
            "max_model_len": 10_000,
            "gpu_memory_utilization": 0.87,
            "concurrency": 8,
        },
    ),
}
VERSIONS = (
    "vllm", "vllm@0.9", "vllm@0.19", "vllm@0.25", "sglang", "sglang@0.4.10", "sglang@0.5.6", "trtllm", "trtllm@1.0",
    "trtllm@1.3",
)  # fmt: skip
#: Names that a shell, YAML or a comment would read as something else.
ODD_NAMES = (
    "two words", "it's", 'a "quoted" name', "x; rm -rf /", "x && echo y", "x | cat", "$(echo y)", "`echo y`", "$HOME",
    "${PATH}", "~", "*", "?", "!!", "#x", "back\\slash", "line\nbreak", "line\n# comment", "EOF",
    "\nEOF\n", "tab\there", "{model}", "%s", "> file", "a\rb", "\u043c\u043e\u0434\u0435\u043b\u044c", "\U0001f600",
    "a\u2028b: c", "a\x85- b", "\x9b31m", "\ufffe",
)  # fmt: skip


def asked(case, to, **more):
    model, gpu, options = CASES[case]
    return rl.launch(model, gpu, to=to, **options, **more)


def emitted(case, to):
    """The launch text of a case, or None where this version of the engine cannot be told to run it."""
    try:
        return asked(case, to)
    except rl.BadInput:
        return None


def flat(tree, before=""):
    for key, value in tree.items():
        if isinstance(value, dict):
            yield from flat(value, f"{before}{key}.")
        else:
            yield f"{before}{key}", value


def settings(launch):
    """Arguments of the command and of its file, as a reader of both finds them."""
    words = shlex.split(launch.command)
    places = [place for place, word in enumerate(words) if word.startswith("-") and word not in ("-m", "--model-path")]
    found = {}
    for place in places:
        following = words[place + 1 : place + 2]
        found[words[place]] = following[0] if following and place + 1 not in places else True
    found.pop("--extra_llm_api_options", None)
    return {**found, **dict(flat(yaml.safe_load(launch.file) or {}))}


# --- what is typed -------------------------------------------------------------------------------

# Written by hand from the engines' own documentation. vLLM has --tensor-parallel-size ranks in each of
# --data-parallel-size; SGLang and TensorRT-LLM count all ranks in the tensor-parallel size, and the attention is
# shared by them, or is on each of them. Of SGLang the budgets are those of all ranks: 8 of 16 sequences are 128.
# A draft of three tokens is checked in a step of four.
COMMANDS = [
    ("dense", "vllm", {}, "vllm serve meta-llama/Llama-3.1-8B --tensor-parallel-size 2", {}),
    ("dense", "sglang", {}, "python3 -m sglang.launch_server --model-path meta-llama/Llama-3.1-8B --tp-size 2", {}),
    ("dense", "trtllm", {}, "trtllm-serve serve meta-llama/Llama-3.1-8B --tp_size 2", {}),
    (
        "pipeline",
        "vllm@0.19",
        {},
        "vllm serve meta-llama/Llama-3.3-70B-Instruct --tensor-parallel-size 2 --pipeline-parallel-size 2",
        {},
    ),
    (
        "experts",
        "vllm@0.19",
        {},
        "vllm serve Qwen/Qwen3-30B-A3B --tensor-parallel-size 2 --enable-expert-parallel",
        {},
    ),
    (
        "experts",
        "sglang",
        {},
        "python3 -m sglang.launch_server --model-path Qwen/Qwen3-30B-A3B --tp-size 2 --ep-size 2",
        {},
    ),
    (
        "ranks",
        "vllm@0.19",
        {},
        "vllm serve deepseek-ai/DeepSeek-R1 --data-parallel-size 8 --enable-expert-parallel",
        {},
    ),
    (
        "ranks",
        "sglang@0.5.6",
        {"max_num_seqs": 16},
        (
            "python3 -m sglang.launch_server --model-path deepseek-ai/DeepSeek-R1 --tp-size 8 --dp-size 8 "
            "--enable-dp-attention --ep-size 8 --max-running-requests 128"
        ),
        {},
    ),
    (
        "ranks",
        "sglang@0.5.22",
        {"max_num_batched_tokens": 1000},
        (
            "python3 -m sglang.launch_server --model-path deepseek-ai/DeepSeek-R1 --tp-size 8 --attn-dp-size 8 "
            "--ep-size 8 --chunked-prefill-size 8000"
        ),
        {},
    ),
    (
        "ranks",
        "trtllm",
        {},
        "trtllm-serve serve deepseek-ai/DeepSeek-R1 --tp_size 8 --ep_size 8 --extra_llm_api_options trtllm.yaml",
        {"enable_attention_dp": True},
    ),
    ("fp8 cache", "vllm@0.19", {}, "vllm serve meta-llama/Llama-3.1-8B --kv-cache-dtype fp8", {}),
    (
        "fp8 cache",
        "sglang",
        {},
        "python3 -m sglang.launch_server --model-path meta-llama/Llama-3.1-8B --kv-cache-dtype fp8_e4m3",
        {},
    ),
    (
        "fp8 cache",
        "trtllm",
        {},
        "trtllm-serve serve meta-llama/Llama-3.1-8B --extra_llm_api_options trtllm.yaml",
        {"kv_cache_config": {"dtype": "fp8"}},
    ),
    (
        "fp8",
        "vllm@0.19",
        {"kv_cache_dtype": "bf16"},
        "vllm serve Qwen/Qwen3-8B --quantization fp8",
        {},
    ),
    (
        "heads",
        "sglang",
        {},
        (
            "python3 -m sglang.launch_server --model-path deepseek-ai/DeepSeek-R1 --tp-size 8 "
            "--speculative-algorithm NEXTN --speculative-num-steps 3 --speculative-eagle-topk 1 "
            "--speculative-num-draft-tokens 4"
        ),
        {},
    ),
    (
        "heads",
        "trtllm",
        {},
        "trtllm-serve serve deepseek-ai/DeepSeek-R1 --tp_size 8 --extra_llm_api_options trtllm.yaml",
        {"speculative_config": {"decoding_type": "MTP", "num_nextn_predict_layers": 3}},
    ),
    (
        "budgets",
        "vllm@0.19",
        {},
        (
            "vllm serve meta-llama/Llama-3.1-8B --max-num-seqs 100 --max-num-batched-tokens 3000 --max-model-len 10000 "
            "--gpu-memory-utilization 0.87"
        ),
        {},
    ),
    (
        "budgets",
        "sglang",
        {},
        (
            "python3 -m sglang.launch_server --model-path meta-llama/Llama-3.1-8B --max-running-requests 100 "
            "--chunked-prefill-size 3000 --context-length 10000 --mem-fraction-static 0.87"
        ),
        {},
    ),
    (
        "budgets",
        "trtllm",
        {},
        (
            "trtllm-serve serve meta-llama/Llama-3.1-8B --max_batch_size 100 --max_num_tokens 3000 --max_seq_len 10000 "
            "--kv_cache_free_gpu_memory_fraction 0.87"
        ),
        {},
    ),
]


@each("case, to, more, command, file", COMMANDS)
def test_a_command_is_what_the_documentation_of_the_engine_says(case, to, more, command, file):
    launch = asked(case, to, **more)
    assert launch.command == command
    assert (yaml.safe_load(launch.file) or {}) == file


@each(
    "to, config",
    [
        ("vllm@0.19", {"method": "mtp", "num_speculative_tokens": 3}),
        ("vllm@0.10", {"method": "deepseek_mtp", "num_speculative_tokens": 3}),
    ],
)
def test_a_draft_of_vllm_is_one_json_text(to, config):
    words = shlex.split(asked("heads", to).command)
    assert json.loads(words[words.index("--speculative-config") + 1]) == config


def test_a_draft_model_is_named_in_the_draft_of_vllm():
    words = shlex.split(asked("draft model", "vllm").command)
    assert json.loads(words[words.index("--speculative-config") + 1]) == {
        "method": "draft_model",
        "num_speculative_tokens": 3,
        "model": "meta-llama/Llama-3.1-8B",
    }


@tiers.has_more_cases
@pytest.mark.parametrize("to", tiers.some(VERSIONS, 3))
def test_every_argument_is_known_to_the_version_and_takes_its_value(to):
    table = load_arguments(to.partition("@")[0])
    seen = 0
    for case in CASES:
        launch = emitted(case, to)
        if launch is None:
            continue
        for name, value in settings(launch).items():
            argument = table.named(name, launch.target.version)
            assert argument.name == name
            if value is True:
                assert argument.type in ("bool", "bool-no"), (case, name)
            else:
                argument.value(str(value), launch.target.version)
            seen += 1
    assert seen > len(CASES)


@pytest.mark.parametrize("to", ("vllm", "sglang", "trtllm"))
def test_the_newest_version_of_an_engine_can_be_told_every_case(to):
    assert all(emitted(case, to) is not None for case in CASES)


@each(
    "to, answered",
    [("vllm", "vLLM 0.33.0"), ("vllm@0.19", "vLLM 0.19.0"), ("vllm@v0.25.0", "vLLM 0.25.0"), ("trtllm@1.0",
        "TensorRT-LLM 1.0.0"), ("sglang@0.5.6.post2", "SGLang 0.5.6")],
)  # fmt: skip
def test_a_launch_names_the_version_that_it_is_for(to, answered):
    launch = rl.launch(LLAMA, "h100-sxm", to=to, concurrency=4)
    assert launch.title == answered
    assert launch.text.startswith(f"# {answered}: llama-3.1-8b on 1x h100-sxm")


def test_formats_of_the_table_are_choices_of_the_engines():
    for engine, forms in ONLINE.items():
        table = load_arguments(engine)
        argument = table.arguments[ARGUMENTS["weights"][engine]]
        for entries in forms.values():
            for place, (first, name) in enumerate(entries):
                last = place_of(entries[place + 1][0]) if place + 1 < len(entries) else float("inf")
                for version in table.versions:
                    if place_of(first) <= place_of(version) < last:
                        assert name in argument.choices_of(version), (engine, version, name)


def test_formats_of_the_kv_cache_are_choices_of_the_newest_engines():
    for engine, names in CACHES.items():
        table = load_arguments(engine)
        choices = table.arguments[ARGUMENTS["kv_cache_dtype"][engine]].choices_of(table.version_of(""))
        assert not choices or set(names.values()) <= set(choices)


def test_every_argument_of_the_table_of_settings_is_in_the_table_of_its_engine():
    for setting, names in ARGUMENTS.items():
        for engine, name in names.items():
            assert name in load_arguments(engine).arguments, (setting, engine)


# --- what is left out, and what is not -----------------------------------------------------------


@pytest.mark.parametrize("to", VERSIONS)
def test_what_the_engine_does_anyway_is_left_out_unless_all_is_asked_for(to):
    launch, whole = asked("dense", to), asked("dense", to, every=True)
    assert not any(line.is_default for line in launch.lines)
    assert [line for line in whole.lines if not line.is_default] == list(launch.lines)
    assert len(whole.lines) > len(launch.lines)


@pytest.mark.parametrize("to", ("vllm@0.19", "vllm", "sglang", "trtllm"))
@pytest.mark.parametrize("setting", ("max_num_seqs", "max_num_batched_tokens", "gpu_memory_utilization"))
def test_a_setting_is_typed_where_it_is_not_the_default_of_the_engine(to, setting):
    engine = rl.predict(LLAMA, "h100-sxm", engine=to, concurrency=4).deployment.engine
    usual = getattr(engine, setting)
    name = ARGUMENTS[setting][to.partition("@")[0]]
    same = rl.launch(LLAMA, "h100-sxm", to=to, concurrency=4, **{setting: usual})
    other = usual - 1 if isinstance(usual, int) else usual - 0.01
    changed = rl.launch(LLAMA, "h100-sxm", to=to, concurrency=4, **{setting: other})
    assert name not in settings(same)
    assert settings(changed)[name] == f"{other:.12g}"


@pytest.mark.parametrize("engine", ("vllm", "sglang", "trtllm"))
def test_defaults_of_the_profiles_are_those_of_the_engines_own_parsers(engine):
    table = load_arguments(engine)
    compared = 0
    for version in table.versions:
        profile = rl.predict(LLAMA, "h100-sxm", engine=f"{engine}@{version}", concurrency=4).deployment.engine
        for setting in ("max_num_seqs", "max_num_batched_tokens", "gpu_memory_utilization", "max_model_len"):
            default = table.arguments[ARGUMENTS[setting][engine]].default_of(version)
            if default is not None:
                assert getattr(profile, setting) == default, (version, setting)
                compared += 1
    assert compared or engine == "sglang"


def test_the_longest_request_is_typed_where_the_one_of_the_model_would_not_start():
    launch = rl.launch(LLAMA, "l4", to="vllm", concurrency=2)
    length = int(settings(launch)["--max-model-len"])
    (at,) = rl.fits(LLAMA, "l4", engine="vllm", max_model_len=length)
    (above,) = rl.fits(LLAMA, "l4", engine="vllm", max_model_len=length + 16)  # a block of the KV cache more
    assert at.starts
    assert not above.starts
    assert length < rl.load_model(LLAMA).max_context


@each("to", ["vllm", "sglang", "trtllm"])
def test_a_format_of_the_kv_cache_that_the_engine_has_no_word_for_is_not_dropped_without_a_word(to):
    try:
        launch = rl.launch(LLAMA, "h100-sxm", to=to, kv_cache_dtype="int8", concurrency=8)
    except rl.RooflineError as refusal:
        assert "int8" in str(refusal)
    else:
        assert "int8" in " ".join((*launch.notes, launch.command, launch.file))


def test_weights_that_the_engine_cannot_make_are_a_note():
    launch = asked("int4", "vllm")
    assert "--quantization" not in launch.command
    assert launch.notes == ("weights int4: put a checkpoint that has them in place of Qwen/Qwen3-8B",)
    assert f"# {launch.notes[0]}\n" in launch.text


def test_replicas_are_counted_in_a_comment():
    launch = asked("replicas", "vllm")
    assert launch.deployment.replicas == 4
    assert "# 4 replicas: run it 4 times, on 2 GPUs each" in launch.text
    assert launch.command == "vllm serve meta-llama/Llama-3.1-8B --tensor-parallel-size 2"


# --- where values come from ----------------------------------------------------------------------


@tiers.has_more_cases
@pytest.mark.parametrize("to", tiers.some(VERSIONS, 3))
def test_each_value_has_a_comment_of_where_it_comes_from(to):
    seen = 0
    for case in CASES:
        launch = emitted(case, to)
        if launch is None:
            continue
        comments = dict(
            line[2:].split(": ", 1) for line in launch.text.replace("\n#   ", " ").splitlines() if line.startswith("# ")
        )
        for name in settings(launch):
            assert comments[name].strip(), (case, name)
            seen += 1
    assert seen > len(CASES)


# 1024 tokens in and 128 out: 1152 of 16384 are 7.03 %; 1024 tokens in chunks of 300 take four steps.
@each(
    "more, argument, origin",
    [
        ({"max_model_len": "16384"}, "--max-model-len", "as asked; requests here have 1152 tokens, 7.03 % of it"),
        ({"max_num_batched_tokens": 300}, "--max-num-batched-tokens",
            "as asked; a prompt of 1024 tokens takes 4 steps"),
        ({"max_num_batched_tokens": 1024}, "--max-num-batched-tokens",
            "as asked; a prompt of 1024 tokens takes 1 step"),
        ({"kv_cache_dtype": "fp8"}, "--kv-cache-dtype", "as asked; half of the bytes of 16 bits"),
        ({"quantization": "fp8"}, "--quantization", "as asked; quantized from bf16 as it is loaded"),
        ({"pp": 2}, "--pipeline-parallel-size", "as asked"),
    ],
)  # fmt: skip
def test_an_origin_says_who_chose_a_value_and_how_much_room_it_leaves(more, argument, origin):
    launch = rl.launch(LLAMA, "h100-sxm", to="vllm@0.19", concurrency=8, **more)
    assert {line.argument: line.origin for line in launch.lines}[argument] == origin


def test_the_share_of_memory_in_use_is_that_of_the_prediction():
    launch = rl.launch(LLAMA, "h100-sxm", to="vllm", tp=2, concurrency=8)
    used = 100.0 * rl.predict(LLAMA, "h100-sxm", engine="vllm", tp=2, concurrency=8).to_dict()["hbm_used_frac"]
    (line,) = launch.lines
    assert line.origin.startswith("as asked; ")
    assert float(line.origin.removeprefix("as asked; ").partition(" %")[0]) == pytest.approx(used, rel=5e-3)


def test_a_degree_that_was_not_asked_for_is_the_smallest_that_serves():
    launch = rl.launch("llama-3.3-70b", "h100-sxm", to="vllm", concurrency=4)
    (line,) = [line for line in launch.lines if line.argument == "--tensor-parallel-size"]
    assert line.origin.startswith("the smallest that serves the case")


@each("to", ["sglang", "sglang@0.5.6", "vllm@0.19", "trtllm"])
def test_every_argument_of_a_degree_that_was_asked_for_says_so(to):
    origins = {line.argument: line.origin for line in asked("ranks", to).lines}
    assert {name: origin for name, origin in origins.items() if not origin.startswith("as asked")} == {}


def test_an_argument_says_only_once_where_a_draft_comes_from():
    comments = [line for line in asked("heads", "sglang").text.splitlines() if line.startswith("# --speculative")]
    assert comments[0].startswith("# --speculative-algorithm: as asked; ")
    assert {line.partition(": ")[2] for line in comments[1:]} == {"with it"}


# --- names that are no plain words ---------------------------------------------------------------


def named(name):
    return replace(rl.load_model(LLAMA), name=name)


#: A program that prints its words, each ended by a null character.
_PRINTS = """
vllm() { printf '%s\\0' "$@"; }
trtllm-serve() { printf '%s\\0' "$@"; }
python3() { printf '%s\\0' "$@"; }
"""


def typed(text, folder):
    """Words that a shell hands to the program of a launch text."""
    run = subprocess.run(
        ["bash", "-c", _PRINTS + text],
        cwd=folder,
        capture_output=True,
        check=True,
        timeout=20,
        env={"PATH": "/usr/bin:/bin", "LC_ALL": "C.UTF-8", "HOME": str(folder)},
    )
    assert run.stderr == b""
    return run.stdout.decode().split("\0")[:-1]


@each("name", ODD_NAMES, ids=ascii)
def test_a_name_is_one_word_of_the_command(name):
    for to, before in (("vllm", ["vllm", "serve"]), ("trtllm", ["trtllm-serve", "serve"])):
        launch = rl.launch(named(name), "h100-sxm", to=to, tp=2)
        words = shlex.split(launch.command)
        assert words[:3] == [*before, name]
        assert len(words) == 5  # the tensor-parallel size and its value
    words = shlex.split(rl.launch(named(name), "h100-sxm", to="sglang").command)
    assert words == ["python3", "-m", "sglang.launch_server", "--model-path", name]


@pytest.mark.parametrize("to", ("vllm", "sglang", "trtllm"))
def test_a_shell_hands_a_name_to_the_program_as_one_word_and_runs_nothing_else(to, tmp_path):
    launches = [
        rl.launch(named(name), "h100-sxm", to=to, kv_cache_dtype="fp8") for name in ODD_NAMES
    ]  # the cache puts a file beside the command of TensorRT-LLM
    words = typed("\n".join(launch.text for launch in launches), tmp_path)
    program = 2 if to == "sglang" else 1
    expected = [word for launch in launches for word in launch.words[1:]]
    assert words == expected
    each_of = len(launches[0].words) - 1
    assert [words[place * each_of + program + (to == "sglang")] for place in range(len(ODD_NAMES))] == list(ODD_NAMES)
    assert [path.name for path in tmp_path.iterdir()] == ([SETTINGS_FILE] if to == "trtllm" else [])


@each("name", ODD_NAMES, ids=ascii)
def test_comments_stay_on_their_lines_whatever_the_name(name):
    launch = rl.launch(named(name), "h100-sxm", to="vllm", weights="int4")
    head = launch.text.partition("\nvllm serve")[0]
    assert all(line.startswith("# ") for line in head.split("\n"))
    assert all(line.startswith("# ") for line in head.splitlines() if "\u2028" not in name and "\x85" not in name)


@each("name", ODD_NAMES, ids=ascii)
def test_the_name_of_a_draft_model_is_one_text_of_json_and_of_the_file(name):
    draft = replace(rl.load_model("llama-3.2-1b"), name=name)
    case = {"draft": draft, **DRAFTED}
    words = shlex.split(rl.launch(LLAMA, "h100-sxm", to="vllm", **case).command)
    assert json.loads(words[words.index("--speculative-config") + 1])["model"] == name
    words = shlex.split(rl.launch(LLAMA, "h100-sxm", to="sglang", **case).command)
    assert words[words.index("--speculative-draft-model-path") + 1] == name
    file = yaml.safe_load(rl.launch(LLAMA, "h100-sxm", to="trtllm", **case).file)
    assert file["speculative_config"]["speculative_model_dir"] == name


def test_the_file_of_a_text_is_what_the_shell_writes(tmp_path):
    launch = asked("draft model", "trtllm")
    words = typed(launch.text, tmp_path)
    assert words == shlex.split(launch.command)[1:]
    assert (tmp_path / SETTINGS_FILE).read_text() == launch.file
    assert yaml.safe_load(launch.file)["speculative_config"] == {
        "decoding_type": "DraftTarget",
        "max_draft_len": 3,
        "speculative_model_dir": "meta-llama/Llama-3.1-8B",
    }


# --- what is refused -----------------------------------------------------------------------------


@each("to", ["vlm", "dynamo", "", "generic", "tgi@1.0", "$(echo y)"])
def test_an_engine_without_a_command_is_refused_with_those_that_have_one(to):
    with pytest.raises(rl.UnknownName, match="those known: sglang, trtllm, vllm"):
        rl.launch(LLAMA, "h100-sxm", to=to, concurrency=4)


@each("name", ["-x", "--tp 2", "-"])
def test_a_name_that_a_program_would_read_as_an_option_is_refused(name):
    draft = replace(rl.load_model("llama-3.2-1b"), name=name)
    for to in ("vllm", "sglang", "trtllm"):
        with pytest.raises(rl.BadInput, match="begins with -"):
            rl.launch(named(name), "h100-sxm", to=to, concurrency=4)
        with pytest.raises(rl.BadInput, match="begins with -"):
            rl.launch(LLAMA, "h100-sxm", to=to, draft=draft, concurrency=4, **DRAFTED)


@each("to", [3, None, ["vllm"], True])
def test_what_names_no_engine_is_refused(to):
    with pytest.raises(rl.BadInput, match="must be one of sglang, trtllm, vllm"):
        rl.launch(LLAMA, "h100-sxm", to=to, concurrency=4)


@each("to, known", [("vllm@0.1", "0.33"), ("vllm@9", "0.33"), ("vllm@newest", "0.33"), ("sglang@0.3", "0.5"),
    ("trtllm@0.9", "1.0, 1.1, 1.2, 1.3")])  # fmt: skip
def test_a_version_whose_arguments_were_not_read_is_refused_with_those_that_were(to, known):
    with pytest.raises(rl.UnknownName, match="known versions: ") as refusal:
        rl.launch(LLAMA, "h100-sxm", to=to, concurrency=4)
    assert to.partition("@")[2] in str(refusal.value)
    assert known in str(refusal.value).partition("known versions: ")[2]


@each(
    "case, to, said",
    [
        (("dense", {"engine": "sglang"}), "vllm", "the case is of engine sglang"),
        ((None, {"tp": 4, "dp": 2, "ep": 4}), "vllm", "on one rank or on all 8, not ep 4"),
        ((None, {"tp": 4, "dp": 2, "ep": 8}), "trtllm", "not tp 4 beside dp 2"),
        (("draft model", {}), "vllm@0.12", "runs no draft models"),
    ],
)
def test_what_an_engine_cannot_be_told_is_refused_with_the_reason(case, to, said):
    name, more = case
    with pytest.raises(rl.BadInput) as refusal:
        if name is None:
            rl.launch(DEEPSEEK, "h200-sxm", to=to, concurrency=8, **more)
        else:
            asked(name, to, **more)
    assert said in str(refusal.value)


# --- doors ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("case", ("dense", "ranks", "heads"))
def test_a_prediction_is_launched_as_its_case_is(case):
    model, gpu, options = CASES[case]
    prediction = rl.predict(model, gpu, engine="vllm", **options)
    assert rl.launch(prediction, to="vllm").text == asked(case, "vllm").text


@pytest.mark.parametrize("to", ("vllm@0.19", "sglang", "trtllm"))
def test_the_shell_prints_the_text_that_python_has(to):
    case = ["-m", "qwen3-8b", "-g", "h100-sxm", "-c", "8", "--tp", "2", "--kv-cache-dtype", "fp8"]
    launch = rl.launch("qwen3-8b", "h100-sxm", to=to, concurrency=8, tp=2, kv_cache_dtype="fp8")
    assert answered("predict", *case, "--emit", to) == launch.text
    row = strict_json(answered("predict", *case, "--emit", to, "--format", "json"))
    assert row == launch.to_dict()
    assert row["command"] == launch.command
    assert [each["argument"] for each in row["settings"]] == [line.argument for line in launch.lines]


def test_the_keys_of_a_launch_can_be_chosen():
    launch = asked("dense", "vllm")
    assert launch.to_dict(["command", "replicas"]) == {"command": launch.command, "replicas": 1}


@each(
    "arguments, code, said",
    [
        (["--emit", "vlm"], 1, "vlm"),
        (["--emit", "vllm@0.1"], 1, "known versions"),
        (["--emit", "vllm", "--format", "csv"], 2, "--emit"),
        (["--emit", "vllm", "--engine", "sglang"], 1, "sglang"),
    ],
)
def test_the_shell_refuses_what_python_does(arguments, code, said):
    result = ask("predict", "-m", LLAMA, "-g", "h100-sxm", "-c", "8", *arguments)
    assert result.exit_code == code, result.output
    assert said in result.stderr
    assert result.stdout == ""


def test_a_start_without_graphs_is_launched_without_them():
    text = answered("fits", "-m", LLAMA, "-g", "h100-sxm", "--emit", "vllm", "--enforce-eager")
    assert shlex.split(text, comments=True)[:3] == ["vllm", "serve", "meta-llama/Llama-3.1-8B"]
    assert "--enforce-eager" in shlex.split(text, comments=True)


def test_a_degree_of_a_start_that_was_asked_for_says_so():
    text = answered("fits", "-m", LLAMA, "-g", "h100-sxm", "--tp", "2", "--emit", "vllm")
    assert "--tensor-parallel-size 2" in text
    assert "the smallest that serves" not in text


# --- the engine itself ---------------------------------------------------------------------------


@pytest.mark.parametrize("case", tuple(CASES))
def test_the_parser_of_vllm_takes_the_command(case):
    vllm = pytest.importorskip("vllm")
    make_arg_parser = pytest.importorskip("vllm.entrypoints.openai.cli_args").make_arg_parser
    try:
        from vllm.utils.argparse_utils import FlexibleArgumentParser
    except ImportError:  # before 0.12
        from vllm.utils import FlexibleArgumentParser

    launch = emitted(case, f"vllm@{vllm.__version__}")
    if launch is None:
        pytest.skip("this version cannot be told the case")
    parsed = make_arg_parser(FlexibleArgumentParser()).parse_args(launch.words[2:])
    assert parsed.model_tag == launch.deployment.model.name
    assert parsed.tensor_parallel_size == launch.deployment.plan.tp
