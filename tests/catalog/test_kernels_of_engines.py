"""Kernels of single engines and of their versions: which sets an answer uses, and what it says of them."""

import json
import math
from pathlib import Path

import pytest

import roofline as rl
from roofline.catalog.find import load_engine, run_by
from roofline.specs.gpu import TimedEngine
from roofline.support.records import replace

each = pytest.mark.parametrize
GENERATIONS = {
    "a100-sxm-80gb": "ampere", "l40s": "ada", "h100-sxm": "hopper", "b200": "blackwell",
    "gb300-nvl72": "blackwell-ultra", "rtx-pro-6000-server": "blackwell-rtx",
}  # fmt: skip


def sets_of(gpu, engine):
    return run_by(rl.load_gpu(gpu), load_engine(engine)).calibration.kernels


@each("gpu", GENERATIONS)
@each("engine", ["trtllm", "vllm", "sglang"])
def test_an_engine_has_sets_of_its_own_and_the_pooled_ones_elsewhere(gpu, engine):
    record = rl.load_gpu(gpu)
    timed = [each for each in record.calibration.by_engine if each.engine == engine]
    own, pooled = sets_of(gpu, engine), record.calibration.kernels
    assert timed
    assert own.keys() >= pooled.keys()
    different = {key for key in own if own[key] != pooled.get(key)}
    assert different
    assert different != set(own)
    for key in different:
        assert own[key].sigma is not None
        assert 0.0 < own[key].eta_m <= 1.0


def test_the_pool_serves_where_no_engine_is_named():
    gpu = rl.load_gpu("h100")
    assert run_by(gpu, load_engine("generic")) is gpu
    assert run_by(gpu, load_engine("trtllm-0.9")) is gpu
    assert run_by(rl.load_gpu("mi300x"), load_engine("vllm")).calibration.run_by == ()


def test_a_version_takes_the_nearest_that_was_timed_and_none_the_newest():
    key = "gemm", "fp8_block"
    newest, old = sets_of("h100", "sglang")[key], sets_of("h100", "sglang@0.5.6")[key]
    assert newest == sets_of("h100", "sglang@0.5.20")[key] == sets_of("h100", "sglang@0.9")[key]
    assert old == sets_of("h100", "sglang@0.5.1")[key] == sets_of("h100", "sglang@v0.5.6.post2")[key]
    assert newest != old
    used = run_by(rl.load_gpu("h100"), load_engine("sglang@0.5.1")).calibration.run_by
    assert used[0] == "sglang 0.5.6.post2"


def test_a_tie_goes_to_the_newer_version():
    gpu = rl.load_gpu("h100")
    paths = {timed.version: timed.path for timed in gpu.calibration.by_engine if timed.engine == "vllm"}
    timed = (TimedEngine("vllm", "0.24.0", paths["0.25.0"]), TimedEngine("vllm", "0.26.0", paths["0.31.0"]))
    tied = replace(gpu, calibration=replace(gpu.calibration, by_engine=timed))
    assert run_by(tied, load_engine("vllm@0.25")).calibration.run_by[0] == "vllm 0.26.0"


def test_a_sibling_inherits_the_sets_with_its_sustained_clocks():
    own, of_sibling = sets_of("l40s", "vllm"), sets_of("rtx-4090", "vllm")
    share = rl.load_gpu("rtx-4090").sustained
    for key, entry in own.items():
        assert of_sibling[key].eta_c == pytest.approx(min(entry.eta_c * share, 1.0), rel=1e-12)


def test_your_own_calibration_holds_for_every_engine(tmp_path):
    source = Path(next(timed.path for timed in rl.load_gpu("h100").calibration.by_engine))
    (tmp_path / "hopper.yaml").write_text(source.with_name("hopper.yaml").read_text(encoding="utf-8"), encoding="utf-8")
    gpu = rl.load_gpu("h100", specs=str(tmp_path))
    assert run_by(gpu, load_engine("vllm")) is gpu


@each(
    ("engine", "words"),
    [
        ("generic@1.0", "engine generic has no versions here, unlike trtllm, vllm, sglang"),
        ("none@1.0", "engine none has no versions"), ("eager@2", "engine eager has no versions"),
        ("vllm@", "version '' of vllm needs major.minor, such as vllm@0.25"),
        ("vllm@main", "version 'main' of vllm needs major.minor"), ("vlm@0.19", "unknown engine 'vlm'; did you mean"),
        ("vllm@" + "9" * 5000 + ".1", "needs major.minor"),
    ],
)  # fmt: skip
def test_versions_that_nobody_knows_are_refused_in_a_sentence(engine, words):
    with pytest.raises(rl.UnknownName, match=words):
        rl.predict("llama-3.1-8b", "h100", engine=engine)


def test_constants_of_older_versions_are_those_of_their_profile():
    assert load_engine("trtllm@0.9").name == "trtllm-0.9"
    assert load_engine("TensorRT-LLM@1.0.0rc3").arrival == load_engine("trtllm-1.0").arrival
    assert load_engine("TensorRT-LLM-1.0").family == "trtllm"
    assert load_engine("trtllm@1.0").name == "trtllm@1.0"
    assert load_engine("trtllm@1.2").arrival == load_engine("trtllm").arrival != load_engine("trtllm-1.0").arrival
    assert sets_of("h100", "trtllm-1.0") == sets_of("h100", "trtllm@1.0")  # by either name the engine's own kernels
    assert sets_of("h100", "trtllm@1.0")["moe", "bf16"] == sets_of("h100", "trtllm@1.3.0rc10")["moe", "bf16"]


def test_a_slow_version_says_so_and_is_slow():
    case = {"model": "deepseek-r1", "gpu": "b200", "tp": 8, "quantization": "nvfp4", "batch": 64}
    old, new = (rl.predict(**case, engine=engine) for engine in ("trtllm@1.1.0rc2", "trtllm@1.2"))
    assert old.tpot > 1.1 * new.tpot
    assert any("slow in this version" in note and note.startswith("trtllm@1.1.0rc2") for note in old.warnings)
    assert not any("slow" in note for note in new.warnings)
    dense = rl.predict("llama-3.1-70b", "b200", quantization="nvfp4", engine="trtllm@1.1.0rc2")
    assert not any("slow" in note for note in dense.warnings)
    hopper = rl.predict("deepseek-r1", "h200", tp=8, engine="trtllm@1.1.0rc2")
    assert not any("slow" in note for note in hopper.warnings)


def test_the_basis_names_the_versions_whose_kernels_were_used():
    detail = rl.predict("llama-3.1-8b", "h100-sxm", engine="vllm@0.19").basis_detail
    assert "vLLM 0.25" in detail
    assert ", else TRT-LLM 1.3 / vLLM 0.24" in detail
    assert "else" not in rl.predict("llama-3.1-8b", "h100-sxm").basis_detail


def test_a_version_gives_one_answer_whichever_door():
    from click.testing import CliRunner

    from roofline.cli.main import cli

    lengths = [500.0, 1000.0, 4000.0]
    options = {"tp": 4, "batch": 16, "osl": 200, "engine": "vllm@0.19"}
    one = [rl.predict("llama-3.1-70b", "h100", isl=isl, **options) for isl in lengths]
    many = rl.predict("llama-3.1-70b", "h100", isl=lengths, **options)
    rows = list(rl.table("llama-3.1-70b", "h100", isl=lengths, **options))
    for place, scalar in enumerate(one):
        assert math.isclose(many.tpot[place], scalar.tpot, rel_tol=1e-12)
        assert math.isclose(rows[place]["tpot_ms"], 1e3 * scalar.tpot, rel_tol=1e-12)
        words = ["predict", "llama-3.1-70b", "h100", "--isl", f"{lengths[place]:g}", "--tp", "4", "--batch", "16"]
        printed = CliRunner().invoke(cli, [*words, "--osl", "200", "--engine", "vllm@0.19", "--json"]).output
        assert math.isclose(json.loads(printed)["rows"][0]["tpot_ms"], 1e3 * scalar.tpot, rel_tol=1e-12)


def test_shared_experts_have_no_start_of_their_own_where_an_engine_overlaps_them():
    served, launched = (
        {kernel.name: kernel for kernel in rl.predict("deepseek-r1", "h200", tp=8, engine=engine).decode.kernels}
        for engine in ("sglang", "none")
    )
    for name in ("shared gate, up", "shared activation", "shared down"):
        assert served[name].roof.efficiency.t0 == 0.0
        assert launched[name].roof.efficiency.t0 > 0.0
    assert served["o"].roof.efficiency.t0 > 0.0


def test_a_profile_of_ones_own_runs_the_kernels_that_it_names(tmp_path):
    profile = tmp_path / "mine.yaml"
    lines = ["name: mine", 'title: "Mine"', 'versions: "1"', "year: 2026", "request: 5 ms"]
    for more, same_as in ([], "generic"), (["runs: vllm@0.19"], "vllm@0.19"), (["runs: sglang"], "sglang"):
        profile.write_text("\n".join([*lines, *more, 'sources: {a: {title: "A", url: https://a.b, date: 2026-01}}']))
        assert sets_of("h100", str(profile)) == sets_of("h100", same_as)
