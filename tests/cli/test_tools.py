"""What tools for agents take and tell, and which files a call may look at: no protocol, and no process of its own."""

import io
import json
import os
import shutil
import sys
from pathlib import Path

import jsonschema
import pytest
from every_case import each
from spec_texts import GPU, MODEL

import roofline as rl
from roofline.cli.tools import ask, description, schema, tool_names
from roofline.questions.catalog import reading_only
from roofline.questions.inputs.options import IN_PYTHON, OPTIONS, QUESTIONS

FIXTURES = Path(__file__).parents[1] / "fixtures"
CASE = {"model": "llama-3.1-8b", "gpu": "h100-sxm"}
BESIDE = {"model": "llama-3.1-8b", "gpus": ["h100-sxm", "h200"]}
RUN = {"mean_ttft_ms": 30.0, "mean_tpot_ms": 20.0}
OF_RUN = {**CASE, "tp": 1, "isl": 1024, "osl": 100, "batch": 1}


@each("name", tool_names())
def test_a_schema_is_one_and_every_argument_says_what_it_is(name):
    jsonschema.Draft202012Validator.check_schema(schema(name))
    properties = schema(name)["properties"]
    assert set(schema(name)["required"]) <= set(properties)
    for argument, kind in properties.items():
        assert len(kind["description"]) > 10, argument
        assert "type" in kind, argument
        assert "``" not in kind["description"], argument
    assert len(description(name)) > 40
    taken = {option.name for option in QUESTIONS[name].taken} if name in QUESTIONS else {"specs"}
    assert taken <= set(properties)
    assert set(properties) & set(OPTIONS) == taken


def test_types_are_those_of_python_and_a_number_of_another_unit_in_the_shell_is_a_text():
    known = schema("predict")["properties"]
    assert known["isl"]["type"] == ["number", "string", "array"]
    assert known["tp"]["type"] == ["integer", "string"]
    assert known["allow_oversize"]["type"] == "boolean"
    assert known["basis"] == {"type": "string", "enum": ["calibrated", "ideal"], **_words(known["basis"])}
    assert {known[name]["type"] for name in ("network", "slo", "cache_size", "p99_within", "set")} == {"string"}
    assert schema("plan")["properties"]["quantization"]["type"] == ["string", "array"]
    assert schema("compare")["properties"]["gpus"]["type"] == "array"
    assert schema("check")["properties"]["results"]["type"] == ["string", "array", "object"]


def _words(kind):
    return {"description": kind["description"]}


#: Tool, its arguments, the same in Python, and a word of the short answer.
SAME = [
    ("predict", {**CASE, "users": 8, "isl": "4k"}, lambda: rl.predict(**CASE, concurrency=8, isl=4096), "80 %"),
    ("predict", {**CASE, "isl": [500, 1000]}, lambda: rl.predict(**CASE, isl=[500, 1000]), "80 %"),
    ("predict", {**CASE, "network": "20ms", "ep": None}, lambda: rl.predict(**CASE, network=0.02), "calibrated"),
    (
        "predict",
        {**CASE, "workload": "chat", "concurrency": 4},
        lambda: rl.predict(**CASE, **rl.workload_options("chat"), concurrency=4),
        "SLO",
    ),
    ("predict", {**CASE, "workload": "8k1k"}, lambda: rl.predict(**CASE, isl=8192, osl=1024), "isl 8192"),
    (
        "predict",
        {**CASE, "concurrency": 4, "slo": "tpot:25", "p99_within": "2x", "enable_expert_parallel": False},
        lambda: rl.predict(**CASE, concurrency=4, slo="tpot:25,p99:2x"),
        "pass",
    ),
    (
        "plan",
        {**BESIDE, "slo": "ttft:300,tpot:25", "concurrency": 64, "quantization": ["fp8", "bf16"], "growth": "2x"},
        lambda: rl.plan(**BESIDE, slo="ttft:300,tpot:25", concurrency=64, quantization=["fp8", "bf16"], growth="2x"),
        "80 %: TTFT",
    ),
    ("plan", {**BESIDE, "slo": "ttft:1"}, lambda: rl.plan(**BESIDE, slo="ttft:1"), "misses"),
    ("fits", {**BESIDE, "gpus": "l4,h100"}, lambda: rl.fits("llama-3.1-8b", "l4,h100"), "starts with --max-model-len"),
    ("compare", {**BESIDE, "slo": "tpot:6"}, lambda: rl.compare(**BESIDE, slo="tpot:6"), "basis inherited"),
    ("check", {"results": RUN, **OF_RUN}, lambda: rl.check(RUN, **OF_RUN), "outside the 80 % range"),
    (
        "check",
        {"results": RUN, "after": [{"mean_ttft_ms": 30.0, "mean_tpot_ms": 9.0}], **OF_RUN},
        lambda: rl.check(RUN, [{"mean_ttft_ms": 30.0, "mean_tpot_ms": 9.0}], **OF_RUN),
        "What changed:",
    ),
]


@each(("tool", "arguments", "python", "word"), SAME)
def test_an_answer_is_that_of_python_short_and_in_words_or_in_full(tool, arguments, python, word):
    answer = python()
    told = ask(tool, arguments)
    rows = told.content["rows"]
    keys = list(rows[0])
    assert rows == answer.to_rows(keys)
    assert "basis" in keys or tool == "fits"
    assert not {f"{metric}_{end}_ms" for metric in ("ttft", "tpot") for end in ("low", "high")} - set(keys) or tool in (
        "fits", "check",
    )  # fmt: skip
    warnings = [text for row in answer.to_rows(["warnings"]) for text in row["warnings"]]
    assert bool(warnings) == bool(told.content["warnings"])
    assert word in told.text
    assert all(note in told.text for note in told.content["warnings"])
    assert len(told.text) < 4000
    full = ask(tool, {**arguments, "full": True})
    assert full.content["rows"] == answer.to_rows()
    assert json.loads(full.text) == full.content
    whole = answer.to_dict()
    for part in set(whole) - {"rows"} if "rows" in whole else ():
        assert full.content[part] == whole[part], part
    chosen = ask(tool, {**arguments, "keys": ["gpu", "tp"]})
    assert chosen.content["rows"] == answer.to_rows(["gpu", "tp"])


def test_a_short_answer_has_few_rows_and_says_how_many_there_are():
    asked = {"model": "llama-3.1-8b", "slo": "tpot:25"}
    told = ask("plan", asked)
    assert len(told.content["rows"]) == 5
    assert told.content["more_rows"] == len(rl.gpus()) - 5
    assert f"{len(rl.gpus()) - 5} more rows: full" in told.text
    assert told.content["rows"][0]["gpu"] == rl.plan(**asked).best.gpu.name
    assert all(row["basis"] != "generic" for row in told.content["rows"])
    every = ask("plan", {**asked, "full": True, "keys": ["gpu"]}).content["rows"]
    assert {row["gpu"] for row in every} == set(rl.gpus())


def test_what_goes_with_the_rows_is_cut_too_and_is_whole_in_full():
    asked = {"model": "llama-3.1-8b", "gpus": "h100", "slo": "tpot:9", "concurrency": 200, "growth": "3x"}
    told, full = ask("plan", asked), ask("plan", {**asked, "full": True, "keys": ["gpu"]})
    steps = rl.plan(**asked).to_dict()["steps"]
    assert full.content["steps"] == steps
    assert told.content["steps"] == steps[:8]
    assert told.content["more_steps"] == len(steps) - 8 > 1
    assert f"{len(steps) - 8} more steps: full" in told.text
    assert "kernels" not in ask("compare", BESIDE).content
    assert ask("compare", {**BESIDE, "full": True}).content["kernels"] == rl.compare(**BESIDE).to_dict()["kernels"]


def test_two_pools_have_a_line_each_with_their_verdict():
    asked = {"model": "llama-3.1-8b", "gpus": "h100", "slo": "ttft:500,tpot:25", "concurrency": 50}
    lines = [line for line in ask("plan", {**asked, "disaggregate": True}).text.split("\n") if "  pools: " in line]
    assert lines
    assert all("prefill h100" in line and "; TTFT" in line and "; SLO: " in line for line in lines)


def test_the_catalog_is_names_rows_or_one_entry_with_its_sources():
    assert ask("gpus", {"vendor": "amd"}).content == {"names": list(rl.gpus(vendor="amd"))}
    rows = ask("models", {"family": "llama", "min_parameters": 1e11, "keys": ["model", "layers"]}).content["rows"]
    assert [row["model"] for row in rows] == list(rl.models(family="llama", min_parameters=1e11))
    told = ask("gpus", {"name": "h100"})
    (row,) = told.content["rows"]
    assert row["bandwidth_tb_s"] == pytest.approx(float(rl.load_gpu("h100").bandwidth) / 1e12)
    assert "bandwidth_tb_s 3.35" in told.text
    assert ask("gpus", {"name": "h100", "keys": ["gpu", "basis"]}).content["rows"] == [
        {"gpu": "h100-sxm", "basis": "calibrated"}
    ]
    full = ask("models", {"name": "llama-3.1-8b", "full": True}).content
    assert full["counted"]["parameters"] == 8_030_261_248
    assert {"field", "value", "source", "date"} <= set(full["rows"][0])
    assert full["document"]["name"] == "meta-llama/Llama-3.1-8B"


#: Tool, its arguments, and what the refusal says.
REFUSED = [
    ("forecast", {}, "unknown tool 'forecast'; choose from predict, plan"),
    ("predict", {}, "predict needs model and gpu: "),
    ("predict", {**CASE, "gpu": "h101"}, "unknown GPU 'h101'; did you mean h100-sxm"),
    ("predict", {**CASE, "model": "llama-3.1-8x"}, "did you mean llama-3.1-8b"),
    ("predict", {**CASE, "concurency": 3}, "predict takes no 'concurency'; did you mean concurrency"),
    ("predict", {**CASE, "users": 3, "concurrency": 4}, "concurrency twice, as 'concurrency' too"),
    ("compare", {**BESIDE, "measured": "tpot=9"}, "compare takes no measured: a measurement is of one deployment only"),
    ("predict", {**CASE, "slo": {"tpot": 25}}, "slo = {'tpot': 25} must be a text"),
    ("predict", {**CASE, "network": 20}, "network = 20 must be a text"),
    ("predict", {**CASE, "tp": 1.5}, "tp = 1.5 must be a whole number or a text"),
    ("predict", {**CASE, "isl": True}, "isl = True must be a number or a text or a list"),
    ("predict", {**CASE, "isl": [[1]]}, "each of isl = [1] must be a number or a text"),
    ("predict", {**CASE, "isl": list(range(1, 66))}, "isl has 65 values; a call takes at most 64"),
    ("predict", {**CASE, "basis": "guess"}, "unknown basis 'guess'; choose from"),
    ("predict", {**CASE, "keys": ["ttft"]}, "unknown key 'ttft'; choose from"),
    ("predict", {**CASE, "model": "x" * 100_001}, "model has 100,001 characters; a call takes at most 100,000"),
    ("plan", {**BESIDE}, "plan needs an SLO"),
    ("plan", {"model": "llama-3.1-8b", "slo": "tpot:25", "isl": "1:50"}, "are too many to try in a call"),
    ("plan", {**BESIDE, "slo": "tpot:25", "max_num_seqs": "1:2000"}, "are too many to try in a call"),
    (
        "plan",
        {**BESIDE, "slo": "tpot:25", "gpus": ["h100"] * 20, "concurrency": 9, "disaggregate": True},
        "1220 GPUs, alone and in pairs are too many to try",
    ),
    (
        "plan",
        {"model": "llama-3.1-8b", "slo": "tpot:25", "users": [9, 99], "growth": "9x"},
        "x 5 loads of a growth are",
    ),
    ("fits", {"model": "llama-3.1-8b", "isl": 5}, "fits takes no 'isl'"),
    ("check", {**OF_RUN, "results": {"ttfts": list(range(20_001))}}, "results holds more than 20,000 values"),
    ("check", {**OF_RUN, "results": [RUN] * 65}, "results has 65 values; a call takes at most 64"),
    ("check", {**OF_RUN, "results": [RUN] * 40, "after": [RUN] * 40}, "state 80 runs; a call takes at most 64"),
    ("check", {**OF_RUN, "results": "no.json"}, "no.json: cannot be read"),
    ("gpus", {"name": "h100", "vendor": "amd"}, "a name and vendor together"),
    ("gpus", {"name": "h1000"}, "unknown GPU 'h1000'; did you mean"),
]


@each(("tool", "arguments", "said"), REFUSED)
def test_what_cannot_be_asked_is_refused_in_a_sentence_with_what_may_be_meant(tool, arguments, said):
    with pytest.raises(rl.RooflineError) as refusal:
        ask(tool, arguments)
    assert said in str(refusal.value)
    assert len(str(refusal.value)) < 3000


def test_every_option_that_python_lacks_is_said_in_its_way():
    assert set(IN_PYTHON) == {"workload", "p99_within", "enable_expert_parallel", "enable_eplb"}
    for name in IN_PYTHON:
        assert name in schema("predict")["properties"]


# Files: below the folders that are allowed alone.

SOURCES = "sources:\n  mine: {title: mine, url: 'https://acme.example', date: 2026-01-02}\n"
TRACE = "isl,osl\n100,10\n200,20\n"
#: File -> its content.
FILES = {
    "my-gpu.yaml": GPU,
    "tiny-1b.yaml": MODEL,
    "my-workload.yaml": f"name: my-workload\ntitle: mine\nisl: 100\nosl: 10\narrivals: rate\n{SOURCES}",
    "my-engine.yaml": f"name: my-engine\ntitle: mine\nversions: '1'\nyear: 2026\nprefill: 5 ms\n{SOURCES}",
    "trace.csv": TRACE,
    "prices.csv": "gpu,usd_per_hour\nh100-sxm,1.5\n",
    "run.json": json.dumps({"date": "20260101-000000", "model_id": "llama-3.1-8b", **RUN}),
}
USERS = {**CASE, "concurrency": 4}
#: Name -> tool, and arguments of a call that names a file or folder; {} stands for the folder.
NAMING = {
    "model, configuration": ("predict", {**CASE, "model": "{}/small/config.json"}),
    "model, its folder": ("predict", {**CASE, "model": "{}/small"}),
    "model, weights": ("predict", {**CASE, "model": "{}/weights/model.gguf"}),
    "model, index": ("predict", {**CASE, "model": "{}/weights/model.safetensors.index.json"}),
    "model, specification": ("predict", {**CASE, "model": "{}/tiny-1b.yaml"}),
    "model, of several": ("fits", {"model": "llama-3.1-8b,{}/tiny-1b.yaml", "gpus": "h100"}),
    "gpu": ("predict", {**CASE, "gpu": "{}/my-gpu.yaml"}),
    "gpu, several": ("plan", {**BESIDE, "gpus": ["{}/my-gpu.yaml"], "slo": "tpot:25"}),
    "gpu, compared": ("compare", {**BESIDE, "gpus": ["h100", "{}/my-gpu.yaml"]}),
    "gpu, a pool": ("predict", {**CASE, "gpu": "2x{}/my-gpu.yaml"}),
    "have": ("plan", {"model": "llama-3.1-8b", "have": {"{}/my-gpu.yaml": 8}, "slo": "tpot:25"}),
    "set": ("predict", {**CASE, "set": "{}/my-gpu.yaml.memory.bandwidth=5TB/s"}),
    "engine": ("predict", {**CASE, "engine": "{}/my-engine.yaml"}),
    "workload": ("predict", {**CASE, "workload": "{}/my-workload.yaml"}),
    "lengths": ("predict", {**USERS, "lengths": "{}/trace.csv"}),
    "price_file": ("predict", {**CASE, "price_file": "{}/prices.csv"}),
    "draft": ("predict", {**CASE, "draft": "{}/small/config.json", "draft_tokens": 2, "acceptance": 0.7}),
    "specs": ("predict", {**CASE, "gpu": "my-gpu", "specs": "{}"}),
    "specs, listed": ("gpus", {"specs": "{}"}),
    "specs, of a plan": ("plan", {"model": "tiny-1b", "gpus": "h100", "specs": "{}", "slo": "tpot:25"}),
    "an entry": ("gpus", {"name": "{}/my-gpu.yaml"}),
    "an entry, a model": ("models", {"name": "{}/small", "full": True}),
    "results": ("check", {**OF_RUN, "results": "{}/run.json"}),
    "results, several": ("check", {**OF_RUN, "results": [RUN, "{}/run.json"]}),
    "results, after": ("check", {**OF_RUN, "results": RUN, "after": ["{}/run.json"]}),
    "results, their model": ("check", {**OF_RUN, "results": RUN, "model": "{}/small/config.json"}),
    "results, their command": ("check", {"results": RUN, "gpu": "h100", "isl": 9, "osl": 9, "batch": 1,
                                         "command": "vllm serve {}/small"}),
    "results that name a model": ("check", {"results": {**RUN, "model_id": "{}/small"}, "gpu": "h100", "tp": 1,
                                            "isl": 9, "osl": 9, "batch": 1}),
}  # fmt: skip
#: Calls that have no answer although their file may be read, and why.
NO_ANSWER = {
    "model, weights": "header is cut off", "model, index": "weight_map", "gpu, a pool": "outside the folders",
    "set": "names my-gpu, which is not the GPU asked about",
    "results that name a model": "is a path, which a result must not choose",
}  # fmt: skip

_seen: list[str] = []
_is_watching: list[bool] = []


def _watch(event, arguments):
    """Notes what is opened or listed, whoever does it: the interpreter tells."""
    if _is_watching and event in ("open", "os.listdir", "os.scandir") and isinstance(arguments[0], (str, os.PathLike)):
        _seen.append(f"{event} {os.fspath(arguments[0])}")


sys.addaudithook(_watch)


@pytest.fixture
def looked_at(monkeypatch):
    """What is opened, listed, or asked for its state."""
    _seen.clear()
    state = os.stat
    monkeypatch.setattr(
        os, "stat", lambda path, *args, **more: (_seen.append(f"stat {path}"), state(path, *args, **more))[1]
    )
    _is_watching.append(True)
    yield _seen
    _is_watching.clear()


@pytest.fixture(scope="module")
def places(tmp_path_factory):
    """A folder that is allowed, with links out of it, and one that is not: both hold the same files."""
    root = tmp_path_factory.mktemp("places")
    for name in ("allowed", "secret"):
        folder = root / name
        (folder / "small").mkdir(parents=True)
        (folder / "weights").mkdir()
        for file, text in FILES.items():
            (folder / file).write_text(text, encoding="utf-8")
        shutil.copy(FIXTURES / "configs" / "Qwen__Qwen3-0.6B.json", folder / "small" / "config.json")
        (folder / "weights" / "model.gguf").write_bytes(b"no")
        (folder / "weights" / "model.safetensors.index.json").write_text("{}")
    (root / "linking" / "to-files").mkdir(parents=True)
    (root / "linking" / "to-folder").symlink_to(root / "secret")
    for file in (*FILES, "small", "weights"):
        (root / "linking" / "to-files" / file).symlink_to(root / "secret" / file)
    (root / "allowed-too").symlink_to(root / "secret")
    return root


def in_folder(arguments, folder):
    """Arguments with the folder put in, nothing else being replaced."""
    return json.loads(json.dumps(arguments).replace("{}/", f"{folder}/").replace('"{}"', json.dumps(str(folder))))


WAYS = ("{root}/secret", "{root}/allowed/../secret", "{root}/linking/to-folder", "{root}/linking/to-files",
        "{root}/allowed-too", "secret", "./secret", "allowed/../secret")  # fmt: skip


@each(("name", "way"), [(name, way) for name in NAMING for way in WAYS])
def test_a_file_outside_is_neither_read_nor_looked_for_whatever_names_it(name, way, places, looked_at, monkeypatch):
    monkeypatch.chdir(places)
    tool, arguments = NAMING[name]
    folder = way.format(root=places)
    with bounded(places):
        looked_at.clear()
        if name == "results, several":
            (said,) = ask(tool, in_folder(arguments, folder)).content["refused"]
        else:
            with pytest.raises(rl.RooflineError) as refusal:
                ask(tool, in_folder(arguments, folder))
            said = str(refusal.value)
    assert [text for text in looked_at if is_secret(text.partition(" ")[2], places)] == []
    if name in ("results that name a model", "gpu, a pool", "have"):
        return
    is_like_a_name = way in ("secret", "allowed/../secret") and '{}/small"' in json.dumps(arguments)
    assert ("unknown model" if is_like_a_name else "outside the folders that are allowed") in said
    assert is_like_a_name or said.endswith("start it with --folder")


def bounded(places):
    return reading_only([str(places / "allowed"), str(places / "linking")], "start it with --folder")


def is_secret(path, places):
    return os.path.realpath(path).startswith(str(places / "secret"))


@each("name", NAMING)
def test_a_file_below_a_folder_that_is_allowed_is_read(name, places, looked_at):
    tool, arguments = NAMING[name]
    asked = in_folder(arguments, places / "allowed")
    with bounded(places):
        if name in NO_ANSWER:
            with pytest.raises(rl.RooflineError, match=NO_ANSWER[name]):
                ask(tool, asked)
            return
        told = ask(tool, asked)
    assert told.content
    assert any(str(places / "allowed") in text for text in looked_at)


def test_no_folder_allows_no_file_and_the_sentence_says_how(tmp_path):
    (tmp_path / "run.json").write_text(FILES["run.json"])
    with reading_only([], "start it with --folder"):
        with pytest.raises(rl.RooflineError) as refusal:
            ask("check", {**OF_RUN, "results": str(tmp_path / "run.json")})
        said = "not read: it is outside the folders that are allowed (none); start it with --folder"
        assert str(refusal.value) == f"{tmp_path / 'run.json'}: {said}"
        assert ask("predict", CASE).content["rows"][0]["ttft_ms"] == rl.predict(**CASE).to_dict()["ttft_ms"]
    assert ask("check", {**OF_RUN, "results": str(tmp_path / "run.json")}).content["rows"]


@each("path", ["/dev/stdin", "/dev/fd/0", "/proc/self/fd/0", "/proc/self/environ", "\0", "/", "~/.ssh", "-"])
def test_pipes_and_the_rest_of_the_machine_are_no_files_to_read(path, tmp_path, monkeypatch):
    monkeypatch.setattr(sys, "stdin", io.StringIO(FILES["run.json"]))
    with reading_only([str(tmp_path)], "start it with --folder"), pytest.raises(rl.RooflineError):
        ask("check", {**OF_RUN, "results": path})


def test_the_folder_of_the_environment_is_allowed(places, monkeypatch):
    monkeypatch.setenv("ROOFLINE_SPECS", str(places / "secret"))
    with reading_only([], "start it with --folder"):
        assert ask("predict", {**CASE, "gpu": "my-gpu"}).content["rows"][0]["gpu"] == "my-gpu"


def test_nothing_is_fetched_for_an_unknown_model(monkeypatch):
    monkeypatch.setitem(sys.modules, "huggingface_hub", None)
    with reading_only([], "start it with --folder"), pytest.raises(rl.UnknownName, match="are not fetched here"):
        ask("predict", {**CASE, "model": "acme/never-seen-1b"})


def test_a_call_opens_no_file_to_write(places):
    opened = []
    watched = []

    def note(event, arguments):
        if watched and event == "open":
            opened.append(arguments)

    sys.addaudithook(note)
    with bounded(places):
        watched.append(True)
        for tool, arguments, _, _ in SAME:
            ask(tool, arguments)
        for name, (tool, arguments) in NAMING.items():
            if name not in NO_ANSWER:
                ask(tool, in_folder(arguments, places / "allowed"))
        watched.clear()
    assert opened
    flags = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC
    written = [path for path, mode, flag in opened if flag & flags or set(mode or "") & set("wax+")]
    assert [path for path in written if "__pycache__" not in str(path)] == []
