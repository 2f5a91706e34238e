"""Named workloads: every shipped one reads and cites its sources, one's own by name or path, faults are refused."""

import os
import re
import subprocess
import sys
from dataclasses import fields
from math import sqrt
from pathlib import Path

import pytest
import yaml
from every_case import each
from spec_texts import WORKLOAD, every_fault, faults, line_of, writer, wrong_values

from roofline.catalog.checks import SCHEMAS, audit, checked, spec_files
from roofline.catalog.files import kind_of
from roofline.catalog.find import load_workload, workload_names, workload_paths
from roofline.specs.build import workload_record
from roofline.specs.names import fold
from roofline.specs.workload import ARRIVALS, LAWS, UNIFORM_CV, NamedWorkload, limits_of_text
from roofline.support.errors import BadSpec, UnknownName

FILES = sorted((Path(__file__).resolve().parents[2] / "workload_specs").glob("*.yaml"))
MODELS = ("llama2-70b", "llama3.1-405b", "llama3.1-8b", "deepseek-r1", "gpt-oss-120b")
OTHERS = {
    "chat", "summarization", "rag", "agent-turn", "coding-agent", "code-completion", "batch", "structured-output",
    "reasoning", "aa-agentperf", "aa-system-load-test",
}  # fmt: skip


@pytest.fixture
def own(tmp_path):
    """Writes a workload of one's own; called with replacements, gives its path."""
    return writer(tmp_path, WORKLOAD)


def shipped(path):
    return yaml.safe_load(path.read_text(encoding="utf-8"))


def test_the_shipped_workloads_are_those_of_mlperf_inferencex_artificial_analysis_and_nine_uses():
    images = "qwen3-vl-235b-a22b"  # whose limits are on whole answers
    mlperf = {f"mlperf-{scenario}-{model}" for scenario in ("server", "interactive") for model in (*MODELS, images)}
    inferencex = {"inferencex-1k1k", "inferencex-8k1k", "inferencex-1k8k", "inferencex-agentic"}
    assert workload_names() == tuple(sorted(path.stem for path in FILES))
    assert set(workload_names()) == mlperf | inferencex | OTHERS


@each("path", FILES, ids=lambda path: path.stem)
def test_a_shipped_workload_keeps_its_schema_cites_dated_sources_and_can_be(path):
    assert checked(str(path)).faults == []
    assert kind_of(path.read_text(encoding="utf-8")) == "workload"
    assert shipped(path)["name"] == path.stem
    assert load_workload(path.stem) == workload_record(shipped(path)) == load_workload(str(path))
    content, workload = shipped(path), load_workload(path.stem)
    for source in content["sources"].values():
        assert source["title"]
        assert source["url"].startswith("https://")
        assert 2023 <= int(str(source["date"])[:4]) <= 2026
    if len(content["sources"]) > 1:
        notes = "\n".join(content["notes"])
        assert not [key for key in content["sources"] if not re.search(rf"\b{key}\b", notes)]
    first = next(iter(content["sources"].values()))
    assert (workload.source, workload.url, workload.date) == (first["title"], first["url"], str(first["date"]))


def test_the_lengths_of_a_shipped_workload_can_be_and_its_slo_parses():
    for name in workload_names():
        workload = load_workload(name)
        assert 0 <= workload.prefix <= workload.isl
        assert workload.isl > 0
        assert workload.osl > 0
        assert workload.lengths in LAWS
        assert workload.arrivals in ARRIVALS
        assert workload.lengths != "uniform" or max(workload.isl_cv, workload.osl_cv) <= UNIFORM_CV
        assert workload.share is None  # limits are on means or on percentiles, as sources state them
        assert workload.title
        assert workload.notes
        if workload.slo:
            assert all(limit > 0.0 for limit in limits_of_text(workload.slo).values())
    for name in [name for name in workload_names() if not load_workload(name).slo]:
        assert name in ("batch", "aa-system-load-test") or name.startswith("inferencex-")
    assert limits_of_text(load_workload("chat").slo) == {"ttft": 0.3, "tpot": 0.025, "p99_within": 2.0}


@pytest.mark.parametrize("model", MODELS)
def test_mlperf_limits_p99_and_the_interactive_scenario_is_the_stricter_one_of_the_same_requests(model):
    server, interactive = (load_workload(f"mlperf-{scenario}-{model}") for scenario in ("server", "interactive"))
    loose, strict = limits_of_text(server.slo), limits_of_text(interactive.slo)
    assert loose.keys() == strict.keys() == {"ttft_p99", "tpot_p99"}
    assert all(strict[key] < loose[key] for key in loose)
    assert all(getattr(server, name) == getattr(interactive, name) for name in ("isl", "osl", "isl_cv", "osl_cv"))
    assert server.prefix == 0  # the rules forbid a KV cache across requests


@pytest.mark.parametrize(("name", "isl", "osl"), [("1k1k", 1024, 1024), ("8k1k", 8192, 1024), ("1k8k", 1024, 8192)])
def test_inferencex_draws_lengths_uniformly_from_four_fifths_of_the_nominal_to_the_whole(name, isl, osl):
    workload = load_workload(f"inferencex-{name}")
    for nominal, mean, cv in ((isl, workload.isl, workload.isl_cv), (osl, workload.osl, workload.osl_cv)):
        low = int(nominal * 0.8)
        assert mean == pytest.approx((low + nominal) / 2, abs=0.5)
        assert cv == pytest.approx(sqrt(((nominal - low + 1) ** 2 - 1) / 12) / ((low + nominal) / 2), rel=2e-3)
    assert workload.lengths == "uniform"


def test_shipped_workloads_load_without_pydantic_and_numpy():
    code = (
        "import sys; from roofline.catalog.find import load_workload, workload_names\n"
        "assert all(load_workload(name).isl for name in workload_names())\n"
        "assert not {'pydantic', 'numpy'} & set(sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_a_workload_answers_to_its_aliases_in_any_spelling_and_no_name_belongs_to_two():
    owners = {}
    for path in FILES:
        for name in {fold(name) for name in (shipped(path)["name"], *shipped(path)["aliases"])}:
            assert owners.setdefault(name, path.stem) == path.stem, name
            assert not re.fullmatch(r"[\d.]+k?(?:[x/,:]|(?<=k))[\d.]+k?", name), name
    for path in FILES:
        content = shipped(path)
        for alias in (content["name"], *content["aliases"]):
            for spelling in (alias, alias.upper(), alias.replace("-", "_"), f" {alias} "):
                assert load_workload(spelling).name == path.stem


@each(
    ("name", "near"),
    [
        ("chatt", "chat"), ("rags", "rag"), ("inferencex-1k2k", "inferencex-1k1k"),
        ("mlperf-server-llama3-8b", "mlperf-server-llama3.1-8b"), ("summarisation", "summarization"),
        ("8k1k", "inferencex-8k1k"),
    ],
)  # fmt: skip
def test_an_unknown_name_is_answered_with_the_nearest_three(name, near):
    with pytest.raises(UnknownName) as caught:
        load_workload(name)
    assert repr(name) in str(caught.value)
    listed = re.split(r", | or ", re.search(r"did you mean (.*)\? \(all: ", str(caught.value))[1])
    assert near in listed
    assert len(listed) == 3


def test_a_name_that_is_none_is_answered_with_those_that_exist():
    for name in ["", " ", "/tmp", "."]:
        with pytest.raises(UnknownName, match="did you mean "):
            load_workload(name)
    for name in [None, 5, True, b"chat", ["chat"], {}]:
        with pytest.raises(UnknownName):
            load_workload(name)


def test_a_workload_of_ones_own_is_read_with_every_field(own):
    workload = load_workload(own())
    assert workload == NamedWorkload(
        name="my-support", isl=1800, osl=240, aliases=("support",), title="Our support chat", isl_cv=0.9, osl_cv=0.5,
        lengths="lognormal", prefix=600, slo="ttft:1s,tpot:50ms", share=0.95, arrivals="users",
        waits_for="whole answer", notes=("prefix is a judgement: the system prompt.",), source="Our gateway",
        url="https://acme.example/logs", date="2026-10-08",
    )  # fmt: skip
    assert {field.name for field in fields(NamedWorkload)} - {"source", "url", "date"} <= set(yaml.safe_load(WORKLOAD))


def test_a_null_counts_as_left_out_and_a_share_may_be_a_whole_number(tmp_path, own):
    path = tmp_path / "own.yaml"
    path.write_text("name: own\nisl: 100\nosl: 10\nslo: null\nsources:\n  guess: {title: A guess, date: 2026-01-02}\n")
    assert load_workload(str(path)) == NamedWorkload("own", 100, 10, source="A guess", date="2026-01-02")
    workload = load_workload(own(("share: 0.95", "share: 1"), ("isl_cv: 0.9", "isl_cv: 1")))
    assert (workload.share, workload.isl_cv) == (1.0, 1.0)
    assert isinstance(workload.isl_cv, float)


@pytest.mark.parametrize("name", ["my-support", "Support", "own"])
def test_a_workload_in_the_folder_of_ones_own_is_found_by_name_alias_or_file(own, tmp_path, monkeypatch, name):
    own()
    assert load_workload(name, str(tmp_path)).name == "my-support"
    monkeypatch.setenv("ROOFLINE_SPECS", str(tmp_path))
    assert load_workload(name).name == "my-support"


def test_names_in_the_folder_of_ones_own_come_first_and_are_suggested_too(own, tmp_path, monkeypatch):
    own(("name: my-support", "name: chat"))
    assert load_workload("chat", str(tmp_path)).isl == 1800
    assert load_workload("chat").isl == 1155
    own()
    with pytest.raises(UnknownName, match="my-support"):
        load_workload("my-supprt", str(tmp_path))
    monkeypatch.setenv("HOME", str(tmp_path))
    assert load_workload(f"~/{Path(own()).name}").name == "my-support"


def test_a_workload_is_neither_a_gpu_nor_a_model_nor_an_engine(own):
    path = own()
    assert audit([path]).counts == {"gpu": 0, "model": 0, "calibration": 0, "engine": 0, "workload": 1, "arguments": 0}
    assert audit([path]).faults == ()
    assert set(map(str, FILES)) <= set(map(os.path.realpath, spec_files(None)))
    assert set(workload_paths()) <= set(spec_files(None))
    assert "workload" in SCHEMAS


# Words of a fault -> lines that it is told of; (what is replaced, the field that is named, words, by what, ...)
WORKLOAD_FAULTS = wrong_values(WORKLOAD, {
    "greater than or equal to 1": ["isl: 0", "osl: -240"],
    "a valid integer": ["isl: 1.8k", "isl: 1800.5", "isl: true", "isl: 1e12", "osl:", "prefix: 60 %"],
    "greater than or equal to 0": ["isl_cv: -0.9", "prefix: -1"],
    "less than or equal to 10": ["isl_cv: 90", "isl_cv: .inf"],
    "": ["isl_cv: .nan"],
    "a valid number": ["osl_cv: wide", "share: most"],
    "Input should be 'lognormal' or 'uniform'": ["lengths: normal", "lengths: [uniform]"],
    "a uniform law allows a cv of at most 0.577, not 0.9": ["lengths: uniform"],
    "must not exceed the prompt, isl = 1800": ["prefix: 1801"],
    "'fast' is not a limit; write an SLO as ttft:300@p95": ["slo: fast"],
    "'soon' is not a time; write it as 300, 300ms or 0.3s": ['slo: "ttft:soon"'],
    "p100 is not a percentile; it must be between p0 and p100": ['slo: "ttft:1s@p100"'],
    "limited twice": ['slo: "ttft:1s,ttft:2s"'],
    "unknown SLO key 'speed'; choose from ttft, tpot, itl, e2el": ['slo: "speed:1s"'],
    "'' is not a limit": ['slo: ""'],
    "a valid string": ["slo: {ttft: 1s}", "name: 5"],
    "less than or equal to 1": ["share: 95"],
    "greater than 0": ["share: 0"],
    "Input should be 'rate', 'users' or 'batch'": ["arrivals: poisson"],
    "a valid list": ["aliases: support"],
}) + every_fault(
    ("isl: 1800\n", "isl", "missing", ""),
    ("osl: 240\n", "osl", "missing", ""),
    ("osl_cv: 0.5", "osl_cvv", "unknown key; did you mean osl_cv?", "osl_cvv: 0.5"),
    ("name: my-support\n", "name", "missing", ""),
    ("date: 2026-10-08", "sources.logs.date", "is not a date", "date: soon"),
    (", date: 2026-10-08", "sources.logs.date", "missing", ""),
    ('title: "Our gateway", ', "sources.logs.title", "missing", ""),
    ("arrivals: users", "osl_cv", "duplicate key", "osl_cv: 0.25"),
)  # fmt: skip


@each(("old", "new", "field", "words"), WORKLOAD_FAULTS, ids=[case[1] for case in WORKLOAD_FAULTS])
def test_a_fault_of_a_workload_is_refused_with_its_file_line_and_field(own, old, new, field, words):
    path = own((old, new))
    with pytest.raises(BadSpec) as caught:
        load_workload(path)
    assert str(caught.value).startswith(f"{path}:")
    ((line, fault),) = faults(caught.value)
    assert fault.startswith(f"{field}: ")
    assert words in fault
    assert not new or line == line_of(Path(path).read_text(encoding="utf-8"), new)


def test_all_faults_of_a_workload_are_told_at_once_in_the_order_of_their_lines(own):
    path = own(("osl: 240", "osl: 0"), ('slo: "ttft:1s,tpot:50ms"', "slo: fast"), ("share: 0.95", "share: 95"))
    with pytest.raises(BadSpec) as caught:
        load_workload(path)
    assert [fault.split(": ")[0] for _, fault in faults(caught.value)] == ["osl", "slo", "share"]
    assert audit([path]).faults == tuple(str(caught.value).splitlines())
    with pytest.raises(BadSpec) as caught:
        load_workload(own(("isl: 1800", "isl: many"), ("prefix: 600", "prefix: 5000")))
    assert [fault.split(": ")[0] for _, fault in faults(caught.value)] == ["isl"]


def test_a_file_that_is_no_workload_is_refused(tmp_path):
    for path in ["no-such-file.yaml", "a\0b.yaml", "x" * 5000 + ".yaml"]:
        with pytest.raises(BadSpec, match="cannot be read"):
            load_workload(path)
    for text in ["", "- a\n", "name: [", "name: x\n\0"]:
        path = tmp_path / "own.yaml"
        path.write_text(text, encoding="utf-8")
        with pytest.raises(BadSpec):
            load_workload(str(path))
