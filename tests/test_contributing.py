"""The page on adding a GPU, a model or a kind of layer: followed to the letter, it leads where it says."""

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from roofline.catalog.find import load_workload

ROOT = Path(__file__).parents[1]
PAGE = (ROOT / "docs" / "contributing.md").read_text(encoding="utf-8")
FILES = re.findall(r"^Save this as `(\S+)`:\n\n```yaml\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)
SESSIONS = re.findall(r"^```console\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)


def conversations():
    """Commands of the page, each with what it shows below."""
    for session in SESSIONS:
        yield from re.findall(r"^\$ (.*)\n((?:(?!\$ ).*\n)*)", session, re.MULTILINE)


def run(folder, command):
    path = os.pathsep.join((str(Path(sys.executable).parent), os.environ["PATH"]))
    env = {**os.environ, "PATH": path}
    return subprocess.run(command, shell=True, cwd=folder, env=env, capture_output=True, text=True, check=False)


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "my-specs").mkdir()
    return tmp_path


def test_the_page_has_a_file_of_each_kind_and_names_schemas_that_are_there():
    assert [name for name, _ in FILES] == ["my-specs/acme-a1.yaml", "my-specs/tiny-1.3b.yaml"]
    assert len(SESSIONS) == 3
    assert len(list(conversations())) == 5
    for _, text in FILES:
        schema = re.search(r"\$schema=\.\./(\S+)", text)
        assert (Path(__file__).parents[1] / schema[1]).is_file()


def test_the_commands_print_what_the_page_shows(folder):
    for name, text in FILES:
        pages_before = PAGE.index(f"`{name}`")
        (folder / name).write_text(text, encoding="utf-8")
        following = PAGE.find("Save this as", pages_before + 1)
        for command, shown in conversations():
            if pages_before < PAGE.index(f"$ {command}\n") < (following if following > 0 else len(PAGE)):
                done = run(folder, command)
                assert done.returncode == (1 if "sed " in command else 0), done.stderr
                # Times move with the physics; all else on the page must be what is printed.
                assert words(done.stdout) == words(shown), command
                assert times(done.stdout) == pytest.approx(times(shown), rel=0.5)
        (folder / name).unlink()
    assert not list((folder / "my-specs").iterdir())


# A time and the two ends of its interval stand before what bounds it.
_TIME = r" +(\d+\.?\d*)(?=(?: +\d+\.?\d*){0,2} +(?:compute|memory|latency|exponentials|link)\b)"


def words(text):
    return re.sub(r"-{2,}", "--", re.sub(r" +", " ", re.sub(_TIME, " #", text)))


def times(text):
    return [float(number) for number in re.findall(_TIME, text)]


def test_a_model_of_a_configuration_is_shown_as_the_page_says(folder):
    assert "roofline models show path/to/config.json --format json" in PAGE
    (folder / "path" / "to").mkdir(parents=True)
    config = (
        '{"model_type": "llama", "hidden_size": 2048, "num_hidden_layers": 24, "num_attention_heads": 16, '
        '"num_key_value_heads": 4, "head_dim": 128, "intermediate_size": 6144, "vocab_size": 64000, '
        '"tie_word_embeddings": true, "hidden_act": "silu", "max_position_embeddings": 32768, '
        '"torch_dtype": "bfloat16"}'
    )
    (folder / "path" / "to" / "config.json").write_text(config, encoding="utf-8")
    done = run(folder, "roofline models show path/to/config.json --format json")
    assert done.returncode == 0, done.stderr
    assert '"document"' in done.stdout
    assert '"kv_heads": 4' in done.stdout


def test_the_workload_and_the_engine_of_the_page_are_one_file_each(folder):
    (text,) = re.findall(
        r"^```yaml\n(# yaml-language-server: \$schema=\S+workload.*?)^```", PAGE, re.MULTILINE | re.DOTALL
    )
    (folder / "my-support.yaml").write_text(text, encoding="utf-8")
    done = run(folder, "roofline check-specs my-support.yaml")
    assert (done.returncode, done.stdout) == (0, "1 workload: no faults\n")
    workload = load_workload("support", str(folder))
    assert workload == load_workload(str(folder / "my-support.yaml"))
    assert (workload.isl, workload.prefix, workload.share, workload.date) == (1800, 600, 0.95, "2026-10-08")
    assert (ROOT / re.search(r"\$schema=\.\./(\S+)", text)[1]).is_file()
    text = re.search(r"^## An engine\n.*?^```yaml\n(.*?)^```\n\n```\n(.*?)\n```", PAGE, re.MULTILINE | re.DOTALL)
    (folder / "my-engine.yaml").write_text(text[1], encoding="utf-8")
    done = run(folder, "roofline check-specs my-engine.yaml")
    assert (done.returncode, done.stdout) == (0, "1 engine profile: no faults\n")
    done = run(folder, f"{text[2]} --format json")
    assert json.loads(done.stdout)["rows"][0]["engine"].startswith("acme-serve")


EDITS = re.findall(r"^```diff\n(\S+)\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)
NEW_FILES = re.findall(r"^```python\n# (\S+)\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)


def files_of(section):
    """Files that a section of the page edits or adds."""
    text = re.search(rf"^## {section}\n(.*?)(?=^## )", PAGE, re.MULTILINE | re.DOTALL)[1]
    edited = re.findall(r"^```diff\n(\S+)\n", text, re.MULTILINE)
    return [*edited, *re.findall(r"^```python\n# (\S+)\n", text, re.MULTILINE)]


RETENTION_SPEC = """\
name: acme/Retentive
aliases: [retentive]
hidden: 2048
vocab: 64000
tied: true
groups:
  - repeat: 24
    mixer: {kind: retention, heads: 8, dim: 256, v_dim: 512}
    ffn: {kind: dense, width: 6144}
architecture: {source: page}
sources:
  page: {title: An example, date: 2026-11-22}
"""
ASK = """
import json, roofline as rl
from roofline.physics.memory import parameters
model = rl.load_model("retentive")
whole = rl.predict(model, "h100-sxm", tp=1, isl=1000, osl=2, engine="none")
halves = rl.predict(model, "h100-sxm", tp=2, isl=1000, osl=2, engine="none")
rl.sheet("retentive.xlsx", model, "h100-sxm", isl=1000, tp=2)
print(json.dumps({
    "parameters": parameters(model)._asdict(),
    "cache": [p.memory.kv_cache for p in (whole, halves)],
    "kernels": sorted({k.name for k in whole.decode.kernels if "(retention)" in k.name}),
    "faster": [whole.ttft / halves.ttft, whole.tpot / halves.tpot],
    "moved": [row.input for row in rl.sensitivity(model, "h100-sxm", of=["tpot"])][:3],
}))
"""


@pytest.fixture(scope="module")
def changed_package(tmp_path_factory):
    """A copy of the package in which the page was followed."""
    root = tmp_path_factory.mktemp("house")
    for folder in ("roofline", "hardware_specs", "model_specs", "engine_specs", "workload_specs"):
        shutil.copytree(ROOT / folder, root / folder)  # with the byte code of what stays as it is
    for name, text in NEW_FILES:
        assert not (root / name).exists()
        (root / name).write_text(text, encoding="utf-8")
    for name, diff in EDITS:
        text = (root / name).read_text(encoding="utf-8")
        for old, new in re.findall(r"((?:^-.*\n)+)((?:^\+.*\n)+)", diff, re.MULTILINE):
            before, after = (re.sub(r"(?m)^[-+]", "", lines).rstrip("\n") for lines in (old, new))
            assert text.count(before) == 1, f"{name} has {text.count(before)} places like {before!r}"
            text = text.replace(before, after)
        (root / name).write_text(text, encoding="utf-8")
    (root / "specs").mkdir()
    (root / "specs" / "retentive.yaml").write_text(RETENTION_SPEC, encoding="utf-8")
    return root


def in_package(root, *command):
    env = {**os.environ, "PYTHONPATH": str(root), "ROOFLINE_SPECS": str(root / "specs")}
    return subprocess.run([sys.executable, *command], cwd=root, env=env, capture_output=True, text=True, check=False)


def test_what_takes_code_takes_few_files():
    assert {Path(name).parts[:2] for name in files_of("A kind of layer")} == {
        ("roofline", "specs"),
        ("roofline", "physics"),
    }
    for section, most in [
        ("A kind of layer", 3), ("A kind of load", 4), ("A lever", 1), ("A key of an answer", 1), ("An option", 3),
        ("A command", 2),
    ]:  # fmt: skip
        assert 0 < len(files_of(section)) <= most


def test_a_lever_a_key_and_a_command_added_as_the_page_says_are_there(changed_package):
    ask = """
import json, roofline as rl
from roofline.cli.main import cli
answer = rl.levers("llama-3.1-8b", "h100", isl=2000, concurrency=16)
row = next(row for row in answer.to_records() if row["lever_kind"] == "shorter prompts")
one = rl.predict("llama-3.1-8b", "h100", isl=2000, concurrency=16).to_dict()
print(json.dumps([row["lever"], row["ttft_ms"] < one["ttft_ms"], one["input_tok_s"] / one["output_tok_s"]]), flush=True)
cli(["reading", "-m", "llama-3.1-8b", "-g", "h100,l40s", "--format", "json"])
"""
    done = in_package(changed_package, "-c", ask)
    assert done.returncode == 0, done.stderr
    said, _, document = done.stdout.partition("\n")
    assert json.loads(said) == ["prompts of 1600 tokens", True, pytest.approx(2000 / 128)]
    rows = json.loads(document)["rows"]
    assert [row["gpu"] for row in rows] == ["h100-sxm", "l40s"]
    assert rows[0]["words_s"] == pytest.approx(0.75 * rows[0]["tok_s_user"])


def test_an_option_added_as_the_page_says_is_taken_by_the_shell_by_python_and_by_every_question(changed_package):
    ask = """
import json, roofline as rl
from roofline.cli.main import cli
case = ("llama-3.1-8b", "h100-sxm")
tight = rl.predict(*case, batch=16, slo="tpot:20", margin="50%").slo
found = [
    [bool(one.prediction.slo_met) for one in rl.compare(case[0], ["h100", "b200"], slo="tpot:8", **options).gpus]
    for options in ({"margin": 0.5}, {})
]
rows = rl.table(*case, slo="tpot:20", margin=[0.0, 0.9], keys=["slo_met"]).to_rows()
print(json.dumps([tight, rows, found]), flush=True)
try:
    rl.predict(*case, slo="tpot:20", margin="120%")
except rl.BadInput as error:
    print(error, flush=True)
cli(["ttft", "-m", "llama-3.1-8b", "-g", "h100", "--slo", "ttft:40", "--margin", "50%", "--json"],
    standalone_mode=False)
cli(["ttft", "--help"])
"""
    done = in_package(changed_package, "-c", ask)
    assert done.returncode == 0, done.stderr
    said, refused, rest = done.stdout.split("\n", 2)
    limits, rows, of_compare = json.loads(said)
    assert limits == {"tpot": 0.01}
    assert [row["slo_met"] for row in rows] == [True, False]
    assert of_compare == [[True, False], [True, True]]  # b200 in 3.6 ms, h100 in 6.6
    assert refused.startswith("margin = ")
    document, _, page = rest.partition("\n}\n")
    assert json.loads(document + "\n}")["rows"][0]["slo_met"] is False  # 32.4 ms of 40, of which half is to stay free
    assert " --margin X|% " in page


def test_a_kind_of_load_added_as_the_page_says_is_answered_by_every_question(changed_package):
    ask = """
import json, roofline as rl
from roofline.cli.main import cli
case = ("llama-3.1-8b", "h100-sxm")
few, many = (rl.predict(*case, isl=1000, people=people) for people in (600, 4500))
simulated = rl.simulate(*case, isl=1000, people=600, requests=300)
print(json.dumps({
    "loads": [few.load, *[row["load"] for row in rl.table(*case, people=[300, 600])]],
    "flow": [[p.request_rate, p.concurrency, p.e2el] for p in (few, many)],
    "as a rate": few.to_dict() == {**rl.predict(*case, isl=1000, request_rate=2.0).to_dict(), "load": "people"},
    "simulated": [simulated.request_rate, simulated.concurrency / few.concurrency],
    "most": [rl.solve(*case, unknown, ttft=0.3).value for unknown in ("people", "request_rate")],
    "moves": "people" in [row.input for row in rl.sensitivity(*case, people=4500)],
}), flush=True)
try:
    rl.predict(*case, people=60000, tp=1)
except rl.Overloaded as error:
    print(error, flush=True)
try:
    rl.predict(*case, people=6, concurrency=2)
except rl.BadInput as error:
    print(error, flush=True)
cli(["predict", "-m", "llama-3.1-8b", "-g", "h100,l40s", "--people", "600"])
"""
    done = in_package(changed_package, "-c", ask)
    assert done.returncode == 0, done.stderr
    first, overloaded, both, *screen = done.stdout.splitlines()
    answer = json.loads(first)
    assert answer["loads"] == ["people"] * 3
    for people, (rate, in_flight, e2el) in zip((600, 4500), answer["flow"], strict=True):
        assert rate == people / 300.0
        assert in_flight == pytest.approx(rate * e2el, rel=1e-12)  # Little's law
    assert answer["as a rate"] is True
    assert answer["simulated"] == [2.0, pytest.approx(1.0, rel=0.05)]
    people, rate = answer["most"]
    assert people == pytest.approx(300.0 * rate, rel=1e-6)
    assert answer["moves"] is True
    assert "60000 people exceeds that" in overloaded
    assert both.startswith("a case has one load; concurrency and people are given")
    assert screen[0].endswith(" \u00b7 600 people")
    assert screen[1].startswith("fastest: 1x h100-sxm")


def test_a_key_added_as_the_page_says_has_a_type_a_schema_and_an_entry_of_the_glossary(changed_package):
    shutil.copytree(ROOT / "docs", changed_package / "docs")
    done = in_package(changed_package, "docs/build_schema.py")
    assert done.returncode == 0, done.stderr
    types = (changed_package / "roofline" / "serving" / "row_types.py").read_text(encoding="utf-8")
    assert "    input_tok_s: float | None\n    output_tok_s: float | None\n" in types
    glossary = (changed_package / "docs" / "glossary.md").read_text(encoding="utf-8")
    assert "| `input_tok_s` | Prompt tokens per second of all replicas. | 1/s |" in glossary
    schema = json.loads((changed_package / "docs" / "schema" / "output.schema.json").read_text(encoding="utf-8"))
    assert schema["$defs"]["Keys"]["properties"]["input_tok_s"]["unit"] == "1/s"
    assert "input_tok_s" in schema["$defs"]["GoodputRow"]["required"]


def test_a_mixer_added_as_the_page_says_is_counted_cached_run_and_checked(changed_package):
    done = in_package(changed_package, "-c", ASK)
    assert done.returncode == 0, done.stderr
    answer = json.loads(done.stdout)
    layer = 2048 * (2 * 8 * 256 + 2 * 8 * 512) + 8 * 512 * 2048  # q, k; v, gate; output
    assert answer["parameters"]["attention"] == 24 * layer
    assert answer["parameters"]["norm"] == 24 * (8 * 512 + 2 * 2048) + 2048  # of the output, of the layer; the last one
    state = 24 * 4 * 8 * 256 * 512  # a matrix of fp32 for each head, whatever the length
    assert answer["cache"] == [state, state / 2]
    assert answer["kernels"] == [
        "gated norm (retention)", "in (retention)", "out (retention)", "recurrence (retention)",
    ]  # fmt: skip
    assert all(1.0 < faster < 2.0 for faster in answer["faster"])
    assert "bandwidth" in answer["moved"]
    assert (changed_package / "retentive.xlsx").stat().st_size > 0
    ask = "from roofline.cli.main import main; main()"
    done = in_package(changed_package, "-c", ask, "check-specs", "specs")
    assert (done.returncode, done.stdout) == (0, "1 model: no faults\n")
    wrong = RETENTION_SPEC.replace("dim: 256", "dim: 0").replace("retentive", "wrong").replace("Retentive", "Wrong")
    (changed_package / "wrong.yaml").write_text(wrong, encoding="utf-8")
    done = in_package(changed_package, "-c", ask, "check-specs", "wrong.yaml")
    assert done.returncode == 1
    assert done.stdout.startswith("wrong.yaml:8: groups.0.mixer.dim: ")
    done = in_package(changed_package, "-c", ask, "predict", "-m", "retentive", "-g", "h100-sxm", "--tp", "3")
    assert done.returncode == 1
    assert "--tp 3 does not divide retentive (8 heads); choose from 1, 2, 4, 8" in done.stderr
