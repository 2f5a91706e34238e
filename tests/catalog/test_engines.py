"""Profiles of serving engines: every shipped one reads, one's own by its path, and what cannot be is refused."""

from dataclasses import fields, replace
from pathlib import Path

import numpy as np
import pytest
import yaml
from every_case import each
from spec_texts import ENGINE, every_fault, faults, line_of, writer, wrong_values

import roofline as rl
from roofline.catalog.checks import checked_document
from roofline.catalog.find import NO_ENGINE_NAME, engine_names, engine_paths, load_engine, profile_of
from roofline.specs.build import engine_record
from roofline.specs.engine import BY_GPU, Engine
from roofline.specs.gpu import HOST
from roofline.specs.names import fold

FILES = sorted((Path(__file__).resolve().parents[2] / "engine_specs").glob("*.yaml"))
TIMES = ("request", "network", "prefill", "step", "layer", "sequence", "all_reduce")
SMALL = ("llama-3.1-8b", "h100-sxm")


@pytest.fixture
def profile(tmp_path):
    """Writes a profile of one's own; called with replacements, gives its path."""
    return writer(tmp_path, ENGINE)


def test_the_shipped_profiles_are_listed_none_first_which_adds_nothing():
    names = engine_names()
    assert names[0] == NO_ENGINE_NAME == "none"
    assert list(names[1:]) == sorted(path.stem for path in FILES)
    assert {"generic", "trtllm", "vllm", "sglang"} <= set(names)
    engine = load_engine("none")
    assert engine == Engine("none")
    assert all(getattr(engine, time) == 0.0 for time in TIMES)
    assert (engine.prefill_slowdown, engine.tunings) == (1.0, ())
    assert (engine.max_num_batched_tokens, engine.max_num_seqs, engine.max_model_len) == (None, None, None)
    kernels = rl.predict(*SMALL, engine="none").prefill.kernels + rl.predict(*SMALL, engine="none").decode.kernels
    assert all(kernel.kind is not HOST for kernel in kernels)


@each("path", FILES, ids=lambda path: path.stem)
def test_a_shipped_profile_is_named_after_its_file_and_states_versions_and_dated_sources(path):
    content = yaml.safe_load(path.read_text(encoding="utf-8"))
    assert content["name"] == path.stem
    engine = engine_record(content)
    newest = {
        "tunings": tuple(tuning for tuning in engine.tunings if not tuning.before),
        "start_up": tuple(rule for rule in engine.start_up if not rule.before),
        "by_gpu": tuple(
            (name, tuple(entry for entry in entries if not entry.before)) for name, entries in engine.by_gpu
        ),
    }
    assert load_engine(path.stem) == replace(engine, **newest)
    assert load_engine(path.stem) == load_engine(str(path))
    engine = load_engine(path.stem)
    assert engine.versions
    assert 2023 <= int(engine.year) <= 2030
    for source in content["sources"].values():
        assert source["title"]
        assert source["url"].startswith("https://")
        assert int(str(source["date"])[:4]) >= 2023


@each("name", engine_names())
def test_a_profile_adds_time_settles_on_every_gpu_and_never_takes_any_away(name):
    engine = load_engine(name)
    assert engine.name == name
    assert all(0.0 <= getattr(engine, time) < 1.0 for time in TIMES)
    assert engine.step + engine.layer * 100 < 0.01  # of a decode step, which takes some ten milliseconds
    assert engine.sequence < 1e-4
    assert 1.0 <= engine.prefill_slowdown < 2.0
    assert 0.0 < engine.reserve <= 1.0
    assert engine.network == 0.0  # where the client is, no profile knows
    for gpu in rl.gpus():
        settled = load_engine(name).on(rl.load_gpu(gpu))
        assert settled.by_gpu == ()
        assert settled.on(rl.load_gpu("t4")) is settled


def test_a_profile_answers_to_its_aliases_in_any_spelling_and_no_name_belongs_to_two():
    for path in FILES:
        content = yaml.safe_load(path.read_text(encoding="utf-8"))
        for alias in (content["name"], *content["aliases"]):
            for spelling in (alias, alias.upper(), alias.replace("-", "_"), f" {alias} "):
                assert load_engine(spelling).name == path.stem
    owners = {fold("none"): "none"}
    for path in FILES:
        content = yaml.safe_load(path.read_text(encoding="utf-8"))
        for name in {fold(name) for name in (content["name"], *content["aliases"])}:
            assert owners.setdefault(name, path.stem) == path.stem, name


def test_what_is_no_name_of_a_profile_is_answered_with_those_that_exist():
    for name in ["vllm2", "", "none.", "/tmp", "v"]:
        with pytest.raises(rl.UnknownName) as caught:
            load_engine(name)
        assert repr(name) in str(caught.value)
        assert all(known in str(caught.value) for known in engine_names())
    for name in [None, 5, 1.0, True, b"vllm", [], ["vllm"], {}, {"name": "vllm"}]:
        with pytest.raises(rl.UnknownName):
            rl.predict(*SMALL, engine=name)


@each(
    ("engine", "version", "profile"),
    [
        (None, None, "generic"), ("", None, "generic"), ("vLLM", "0.11.0", "vllm@0.11.0"),
        ("vllm-openai", None, "vllm"),
        ("SGLang", "v0.5.3", "sglang@v0.5.3"), ("TensorRT-LLM", None, "trtllm"),
        ("TensorRT-LLM", "1.2.0rc5", "trtllm@1.2.0rc5"), ("SGLang", "nightly", "sglang"),
        ("TensorRT-LLM", "0.9.0", "trtllm-0.9"), ("trtllm", "v0.9", "trtllm-0.9"), ("NIM", "1.0.0", "nim-2024"),
        ("NVIDIA NIM", None, "nim-2024"), ("none", None, "none"), ("my own loop", "3.1", "generic"),
        ("trt", None, "trtllm"), ("dynamo-trt", None, "trtllm"), ("MiniMax engine", None, "generic"),
        ("gpt-fast", None, "none"), ("torchao (generate.py)", None, "none"), ("pytorch-graph", None, "none"),
        ("MLC LLM", None, "none"), ("TinyChat", None, "none"), ("pytorch-eager", None, "eager"),
        ("AutoAWQ", None, "eager"), ("Hugging Face Transformers", None, "eager"), ("llama.cpp", None, "eager"),
        ("trtllm-0.9", None, "trtllm-0.9"),
    ],
)  # fmt: skip
def test_what_a_measurement_calls_its_engine_leads_to_a_profile(engine, version, profile):
    assert profile_of(engine, version) == profile
    assert load_engine(profile_of(engine, version)).name == profile


def test_a_profile_of_ones_own_is_read_in_si_units(profile):
    engine = load_engine(profile())
    assert (engine.name, engine.versions, engine.year) == ("acme-serve", "Acme 1.2", "2026")
    times = [getattr(engine, time) for time in TIMES]
    assert times == pytest.approx([0.005, 0.0, 0.0002, 0.0005, 0.0, 1e-5, 0.0], rel=1e-12)
    assert (engine.prefill_slowdown, engine.scheduler, engine.reserve) == (1.1, "prompts first", 0.5)
    assert (engine.max_num_batched_tokens, engine.max_num_seqs, engine.max_model_len) == (4096, 128, 65536)
    assert engine.gpu_memory_utilization == 0.9
    assert (engine.sigma_ttft, engine.sigma_tpot) == (None, 0.2)
    first, second = engine.tunings
    assert (first.kind, first.dtype, first.generation) == ("gemm", "bf16", "hopper")
    assert (first.compute, first.memory) == (0.9, 1.0)
    assert (second.kind, second.dtype, second.generation, second.memory) == ("attention_decode", None, None, 0.8)


@pytest.mark.parametrize("ending", ["yaml", "yml"])
def test_a_profile_of_ones_own_serves_a_prediction(profile, ending):
    own, kernels = (
        rl.predict(*SMALL, engine=name)
        for name in (profile(("tunings", "# "), ("start_up", "# "), ("  - {", "# "), name=f"own.{ending}"), "none")
    )
    assert own.engine == "acme-serve"
    # One sequence: a step of 0.5 ms and 10 us; a request of 5 ms, a prefill of 0.2 ms, gaps of a tenth.
    assert own.tpot == pytest.approx(kernels.tpot + 510e-6, rel=1e-12)
    assert own.ttft == pytest.approx(kernels.ttft + 5.2e-3, rel=1e-12)


def test_a_changed_profile_is_read_anew_below_home_too(profile, monkeypatch):
    path = Path(profile())
    monkeypatch.setenv("HOME", str(path.parent))
    assert load_engine(f"~/{path.name}").name == "acme-serve"
    before = rl.predict(*SMALL, engine=profile()).ttft
    after = rl.predict(*SMALL, engine=profile(("request: 5 ms", "request: 105 ms"))).ttft
    assert after == pytest.approx(before + 0.1, rel=1e-12)


def test_every_field_of_the_record_can_be_stated_and_an_older_file_says_stretch(profile):
    stated = {
        "network": "network: 3 ms", "arrival": "arrival: 9 ms", "handover": "handover: 8 ms",
        "launch": "launch: 20 us", "launch_decode": "launch_decode: 10 us", "layer": "layer: 20 us",
        "all_reduce": "all_reduce: 9 us", "sigma_ttft": "sigma_ttft: 0.1",
        "sigma_loaded_ttft": "sigma_loaded_ttft: 0.3", "full_length_kv": "full_length_kv: 0.8",
        "overlaps": "overlaps: [shared experts]", "runs": "runs: vllm@0.19",
        "fitted_on": "fitted_on: [llama-3.1-8b bf16 on h100-sxm]", "scatter_ttft": "scatter_ttft: 0.5",
        "scatter_tpot": "scatter_tpot: 0.4",
    }  # fmt: skip
    engine = load_engine(profile(("request: 5 ms", "\n".join(["request: 5 ms", *stated.values()]))))
    plain = Engine("none")
    for field in fields(Engine):
        if field.name not in ("by_gpu", "stated"):  # settings that a file states by GPU, that a question states
            assert getattr(engine, field.name) != getattr(plain, field.name), field.name
    assert load_engine(profile(("prefill_slowdown: 1.1", "stretch: 1.3"))).prefill_slowdown == 1.3


# engine, GPU -> tokens a step, sequences, share of the memory, as the sources of the engines state them
STARTS = {
    ("vllm", "l40s"): (2048, 256, 0.92),
    ("vllm", "a100-sxm-40gb"): (2048, 256, 0.92),
    ("vllm", "a100-sxm-80gb"): (2048, 256, 0.92),  # an A100 keeps the small defaults whatever its memory
    ("vllm", "h100-sxm"): (8192, 1024, 0.92),  # 79.65 GiB
    ("vllm", "h20"): (8192, 1024, 0.92),
    ("vllm", "gh200-96gb"): (8192, 1024, 0.92),
    ("vllm", "h200-sxm"): (8192, 1024, 0.92),
    ("vllm", "b200"): (16_384, 1024, 0.92),  # 179 GiB
    ("vllm", "mi300x"): (16_384, 1024, 0.92),
    ("sglang", "t4"): (2048, 4096, 0.75),
    ("sglang", "l4"): (4096, 4096, 0.7),
    ("sglang", "l40s"): (4096, 4096, 0.85),
    ("sglang", "a100-sxm-80gb"): (8192, 4096, 0.83),
    ("sglang", "h100-sxm"): (8192, 4096, 0.83),
    ("sglang", "h200-sxm"): (8192, 4096, 0.9),
    ("sglang", "b200"): (16_384, 4096, 0.86),
    ("trtllm", "l40s"): (8192, 2048, 0.9),  # of what is free after the weights
    ("trtllm", "b200"): (8192, 2048, 0.9),
    ("vllm@0.19", "b200"): (8192, 1024, 0.9),  # before 0.28 and 0.20
    ("vllm@0.25", "b200"): (8192, 1024, 0.92),
    ("vllm@0.19", "l40s"): (2048, 256, 0.9),
}


@each(("engine", "gpu", "start"), [(*case, start) for case, start in STARTS.items()])
def test_an_engine_starts_on_a_gpu_with_the_limits_that_its_source_states(engine, gpu, start):
    found = rl.predict("llama-3.2-1b", gpu, engine=engine).deployment.engine
    assert (found.max_num_batched_tokens, found.max_num_seqs, found.gpu_memory_utilization) == start


@each("gpu", ["t4", "l40s", "a100-sxm-80gb", "h100-sxm", "h200-sxm", "b200", "mi300x"])
def test_a_default_of_the_generic_profile_is_the_median_of_the_three_engines(gpu):
    gpu = rl.load_gpu(gpu)
    generic, *others = (load_engine(name).on(gpu) for name in ("generic", "vllm", "sglang", "trtllm"))
    assert generic.gpu_memory_utilization == others[0].gpu_memory_utilization  # the shares are of different things
    for name in BY_GPU[:2]:
        assert getattr(generic, name) == sorted(getattr(other, name) for other in others)[1], name


BY_MEMORY = """\
max_num_seqs:
  - {memory: 70 GiB, other_than: [a100], value: 700}
  - {memory: 40 GB, value: 400}
  - {value: 100}"""


def test_a_default_by_gpu_may_be_stated_and_is_refused_in_another_shape(profile):
    for gpu, most in [("h100-sxm", 700), ("a100-sxm-80gb", 400), ("l40s", 400), ("l4", 100)]:
        path = profile(("max_num_seqs: 128", BY_MEMORY))
        assert rl.predict("llama-3.2-1b", gpu, engine=path).deployment.engine.max_num_seqs == most
        stated = rl.predict("llama-3.2-1b", gpu, engine=path, max_num_seqs=33).deployment.engine
        assert stated.max_num_seqs == 33
    for entries, line, words in [
        ("[]", 0, "at least 1 item"),
        ("[{memory: 70 GiB, value: 7}]", 0, "the last entry is for all other GPUs"),
        ("[{other_than: [a100], value: 7}]", 0, "the last entry is for all other GPUs"),
        ("\n  - {memory: 70, value: 7}\n  - {value: 3}", 1, "memory"),
        ("\n  - {memory: 70 GiB, value: many}\n  - {value: 3}", 1, "value"),
        ("\n  - {memory: 70 GiB, value: 0}\n  - {value: 3}", 1, "value"),
        ("\n  - {value: 7}\n  - {valeu: 3}", 2, "did you mean value?"),
        ("many", 0, "valid integer"),
        ("{memory: 70 GiB, value: 7}", 0, "valid integer"),
    ]:
        path = profile(("max_num_seqs: 128", f"max_num_seqs: {entries}"))
        with pytest.raises(rl.BadSpec) as caught:
            load_engine(path)
        start = line_of(Path(path).read_text(encoding="utf-8"), "max_num_seqs")
        assert any(where == start + line and words in text for where, text in faults(caught.value)), str(caught.value)


def test_users_beyond_the_old_256_slots_run_at_once_under_vllm():
    case = {"quantization": "fp8", "tp": 4, "concurrency": 512, "isl": 1024, "osl": 128, "engine": "vllm"}
    found = rl.predict("llama-3.3-70b", "h100", **case)
    assert found.ttft == rl.predict("llama-3.3-70b", "h100", max_num_seqs=1024, **case).ttft < 2.0
    assert rl.predict("llama-3.3-70b", "h100", max_num_seqs=256, **case).ttft > 10.0


# Words of a fault -> lines that it is told of; (what is replaced, the field that is named, words, by what, ...)
ENGINE_FAULTS = wrong_values(ENGINE, {
    "has no unit": ["request: 5", "request: [5 ms]", "request:"],
    "is not a unit": ["request: 5 GB"],
    "must be positive": ["request: -5 ms", "request: 0 ms"],
    "finite": ["request: 1e999 ms"],
    "not a number": ["request: soon"],
    "a valid number": ["prefill_slowdown: 1.1 ms", "prefill_slowdown: true", "prefill_slowdown:",
        "gpu_memory_utilization:", "reserve:", "sigma_tpot:"],
    "a finite number": ["prefill_slowdown: .inf", "sigma_tpot: .inf"],
    "": ["prefill_slowdown: .nan"],
    "greater than or equal to 1": ["prefill_slowdown: 0", "prefill_slowdown: 0.99", "max_num_batched_tokens: 0",
        "max_num_batched_tokens: -4096", "max_num_seqs: 0", "max_model_len: 0"],
    "a valid integer": ["max_num_batched_tokens: 1.5", "max_num_batched_tokens: 4k", "max_num_batched_tokens: true",
        "max_num_seqs: 12.8", "max_model_len: 64k"],
    "Input should be 'decode first'": ["scheduler: prompts", "scheduler:"],
    "greater than 0": ["gpu_memory_utilization: 0", "reserve: 0", "sigma_tpot: 0", "sigma_tpot: -0.2"],
    "less than or equal to 1": ["gpu_memory_utilization: 90", "reserve: 1.5"],
    "a valid string": ["name:", "name: 5", "versions: 1.10"],
    "at least 1 character": ["name: ''"],
    "a valid list": ["aliases: acme"],
    "is not a year; write it as 2026": ["year: soon", "year: true"],
}) + every_fault(
    ("step: 0.5 ms", "stepp", "unknown key; did you mean step?", "stepp: 0.5 ms"),
    ("step: 0.5 ms", "kernels", "unknown key", "kernels: 0.5 ms"),
    ("max_num_batched_tokens: 4096", "chunk", "unknown key", "chunk: 4096"),
    ("name: acme-serve\n", "name", "missing", ""),
    ("aliases: [acme]", "aliases.0", "a valid string", "aliases: [5]"),
    ("sources:\n  bench: {title: Acme benchmark, date: 2026-01-02}\n", "sources", "missing", ""),
    ("  bench: {title: Acme benchmark, date: 2026-01-02}\n", "sources", "a mapping of fields", ""),
    (", date: 2026-01-02", "sources.bench.date", "missing", ""),
    ("title: Acme benchmark, ", "sources.bench.title", "missing", ""),
    ("kind: gemm, ", "tunings.0.kind", "missing", ""),
    ("kind: gemm, ", "tunings.0.kind", "Input should be 'gemm', ", "kind: matmul, ", "kind: [gemm], "),
    ("compute: 0.9", "tunings.0.speed", "unknown key", "speed: 0.9"),
    ("compute: 0.9", "tunings.0.compute", "a valid number", "compute: fast", "compute: null"),
    ("compute: 0.9", "tunings.0.compute", "greater than or equal to 0.001", "compute: 0"),
    ("compute: 0.9", "tunings.0.compute", "less than or equal to 1000", "compute: .inf"),
    ("memory: 0.8", "tunings.1.memory", "greater than or equal to 0.001", "memory: -0.8", "memory: 2.5e-165"),
    ("compute: 0.9", "tunings.0.eta_c", "greater than 0", "eta_c: -1"),
    ("compute: 0.9", "tunings.0.eta_c", "less than or equal to 1", "eta_c: 50"),
    ("dtype: bf16", "tunings.0.dtype", "a valid string", "dtype: 16"),
    ("dtype: bf16", "tunings.0.peak", "Input should be 'fp32', ", "peak: fp5"),
    ("max_num_seqs: 128", None, "key '5' must be plain text", "5: five"),
    ("compute: 0.9", None, "key 'null' must be plain text", "null: 0.9"),
    ("max_num_seqs: 128", "step", "duplicate key", "step: 1 ms"),
)  # fmt: skip


@each(("old", "new", "field", "words"), ENGINE_FAULTS, ids=[case[1] for case in ENGINE_FAULTS])
def test_a_fault_of_a_profile_is_refused_with_its_line_and_field(profile, old, new, field, words):
    path = profile((old, new))
    with pytest.raises(rl.BadSpec) as caught:
        load_engine(path)
    assert str(caught.value).startswith(f"{path}:")
    told = [fault for fault in faults(caught.value) if field is not None or "plain text" in fault[1]]
    ((line, fault),) = told  # a key that is no text is also one that no profile has
    assert words in fault
    assert field is None or fault.startswith(f"{field}: ")
    assert not new or line == line_of(Path(path).read_text(encoding="utf-8"), new)


def test_all_faults_of_a_profile_are_reported_at_once_and_a_source_stands_for_all_figures(profile):
    path = profile(
        ("prefill_slowdown: 1.1", "prefill_slowdown: 0"),
        ("kind: gemm", "kind: matmul"),
        ("date: 2026-01-02", "date: soon"),
    )
    with pytest.raises(rl.BadSpec) as loaded:
        load_engine(path)
    with pytest.raises(rl.BadSpec) as checked:
        checked_document(path)
    assert faults(loaded.value) == faults(checked.value)
    fields_at_fault = [fault.split(": ")[0] for _, fault in faults(loaded.value)]
    assert fields_at_fault == ["prefill_slowdown", "tunings.0.kind", "sources.bench.date"]
    assert rl.check_specs(path) == str(loaded.value).splitlines()
    (fault,) = rl.check_specs(profile(("2026-01-02", "2999-01-02")))
    assert "sources.bench.date: 2999-01-02 is in the future" in fault
    assert rl.check_specs(profile()) == []


def test_one_figure_is_enough_for_a_file_to_be_checked_and_only_name_and_sources_are_required(tmp_path):
    for field in [*TIMES, "prefill_slowdown", "reserve"]:
        (tmp_path / "own.yaml").write_text(
            f"name: own\n{field}: none\nsources:\n  bench: {{title: Acme benchmark, date: 2026-01-02}}\n"
        )
        (fault,) = rl.check_specs(str(tmp_path))
        assert fault.startswith(f"{tmp_path / 'own.yaml'}:2: {field}: ")
    for limit in ["max_num_batched_tokens", "max_num_seqs", "max_model_len"]:
        path = tmp_path / "own.yaml"
        path.write_text(f"name: own\n{limit}: null\nsources:\n  bench: {{title: Acme benchmark, date: 2026-01-02}}\n")
        assert load_engine(str(path)) == Engine("own")


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("prefill_slowdown: 1.1", "prefill_slowdown: 0.5"),
        ("kind: gemm, dtype: bf16", "kind: gemm, peak: fp8, eta_c: 1"),
        ("kind: gemm, dtype: bf16", "kind: gemm, eta_c: 50"),
        ("compute: 0.9", "compute: 50, memory: 50"),
        ("memory: 0.8", "memory: 50"),
    ],
)
def test_a_profile_that_is_faster_than_the_hardware_limit_is_refused_or_held_back(profile, old, new):
    path = profile((old, new))
    ideal = rl.predict(*SMALL, isl=4000, batch=4, basis="ideal")
    try:
        found = rl.predict(*SMALL, isl=4000, batch=4, engine=path)
    except rl.BadSpec:
        return
    assert found.ttft >= ideal.ttft
    assert found.tpot >= ideal.tpot


def test_a_file_that_is_no_profile_is_refused(tmp_path, profile):
    for text, words in [
        ("", "empty"),
        ("- a\n- b\n", "a specification must be a mapping"),
        ("name: [", "did not"),
        (ENGINE + "step: 1 ms\n", "duplicate"),
        ("name: x\n" * 3 + "\0", "not allowed"),
    ]:
        path = tmp_path / "own.yaml"
        path.write_text(text, encoding="utf-8")
        with pytest.raises(rl.BadSpec, match=words):
            load_engine(str(path))
    for path in ["no-such-file.yaml", "~nobody-of-this-name/own.yaml", "a\0b.yaml", "x" * 5000 + ".yaml"]:
        with pytest.raises(rl.BadSpec, match="cannot be read"):
            load_engine(path)
    for tunings in [
        "tunings:", "tunings: 5", "tunings: gemm", "tunings: [5]", "tunings: [null]", "tunings: {kind: gemm}",
    ]:  # fmt: skip
        path = profile(("tunings:\n", f"{tunings}\n"), ("  - {kind: gemm", "#"), ("  - {kind: attention", "#"))
        with pytest.raises(rl.BadSpec, match="tunings"):
            load_engine(path)


def test_a_profile_in_the_folder_of_ones_own_is_found_by_name_and_checked(tmp_path):
    text = Path(engine_paths()[-1]).read_text().replace("name: vllm", "name: mine").replace("aliases: []\n", "")
    (tmp_path / "mine.yaml").write_text(text)
    assert load_engine("mine", str(tmp_path)) == replace(load_engine("vllm"), name="mine")
    assert rl.predict("llama-3.1-8b", "h100-sxm", engine="mine", specs=str(tmp_path)).engine == "mine"
    assert rl.gpus(str(tmp_path)) == rl.gpus()  # it is no GPU
    assert rl.check_specs(str(tmp_path)) == []
    (tmp_path / "mine.yaml").write_text(text.replace("step:", "stepp:"))
    (fault,) = rl.check_specs(str(tmp_path))
    assert "stepp: unknown key" in fault


def test_every_door_starts_an_engine_with_the_limits_of_its_gpu():
    case = {"engine": "vllm", "isl": 12_000, "osl": 200, "batch": 4, "tp": 1}
    gpus = ["a100-sxm-80gb", "h100-sxm", "b200"]  # six, two and one chunk of a prompt
    rows = {row["gpu"]: row["ttft_ms"] for row in rl.table("llama-3.1-8b", gpus, **case)}
    for gpu in gpus:
        ttft = rl.predict("llama-3.1-8b", gpu, **case).ttft
        assert rows[gpu] == pytest.approx(1e3 * ttft, rel=1e-12)
        stated = {"max_num_batched_tokens": STARTS["vllm", gpu][0], "engine": "vllm"}
        assert ttft == rl.predict("llama-3.1-8b", gpu, **{**case, **stated}).ttft
        lengths = np.array([12_000.0, 100.0])
        assert rl.predict("llama-3.1-8b", gpu, **{**case, "isl": lengths}).ttft[0] == pytest.approx(ttft, rel=1e-12)
