"""A folder of specifications of one's own: found by name, searched first, names of its own, clear where unreadable."""

import subprocess
import sys
import tempfile
import textwrap
from pathlib import Path

import pytest
from every_case import each
from spec_texts import CALIBRATION, GPU, MODEL

import roofline as rl

H100 = Path(__file__).parents[2] / "hardware_specs" / "nvidia" / "h100-sxm.yaml"


@pytest.fixture
def specs(tmp_path):
    """A folder with a GPU, a model in a folder of its own, and files that are none."""
    (tmp_path / "acme-model").mkdir()
    (tmp_path / "my-gpu.yaml").write_text(GPU)
    (tmp_path / "acme-model" / "tiny.yml").write_text(MODEL)
    (tmp_path / "README.md").write_text("not: [a specification")
    return tmp_path


@pytest.fixture
def public_path():
    """A folder that every user of the machine can reach, unlike pytest's own."""
    with tempfile.TemporaryDirectory() as folder:
        Path(folder).chmod(0o755)
        yield Path(folder)


def unprivileged(code, *arguments):
    """Run Python code that calls `drop()` to lose the rights of root; the interpreter may lie where only root reads."""
    preamble = """
        import os, sys
        import roofline as rl
        import roofline.catalog.checks, roofline.cli.predict
        rl.predict("llama-3.1-8b", "h100-sxm", isl=10, osl=2); rl.gpus(); rl.models()
        def drop():
            if os.geteuid() == 0:
                os.setgroups([]); os.setgid(65534); os.setuid(65534)
    """
    script = textwrap.dedent(preamble) + textwrap.dedent(code)
    return subprocess.run(
        [sys.executable, "-c", script, *arguments], capture_output=True, text=True, check=False, timeout=60
    )


def test_names_and_aliases_of_ones_own_may_be_written_and_asked_for_in_any_style(specs):
    for name in ["my-gpu", "MY_GPU", "mine", "my gpu 96GB"]:
        assert rl.load_gpu(name, str(specs)).name == "my-gpu"
    for name in ["acme/Tiny-1B", "tiny-1b", "Tiny 1B", "tiny-1b-instruct"]:
        assert rl.load_model(name, str(specs)).name == "acme/Tiny-1B"


def test_names_and_aliases_may_be_written_in_any_style_of_yaml(tmp_path):
    for names in [
        "aliases:\n  - mine\n  - my-gpu-96gb",
        "aliases: [mine,\n  my-gpu-96gb]",
        "aliases: ['mine', \"my-gpu-96gb\"]",
    ]:
        (tmp_path / "gpu.yaml").write_text(GPU.replace("aliases: [mine, my-gpu-96gb]", names))
        assert rl.load_gpu("mine", str(tmp_path)).aliases == ("mine", "my-gpu-96gb")
        assert rl.load_gpu("my-gpu-96gb", str(tmp_path)).name == "my-gpu"
    for name in ["name: 'my-gpu'", "name:   my-gpu   # ours", "name: &gpu my-gpu", "name: >-\n  my-gpu"]:
        (tmp_path / "gpu.yaml").write_text(GPU.replace("name: my-gpu", name))
        assert rl.load_gpu("my-gpu", str(tmp_path)).name == "my-gpu"
        assert "my-gpu" in rl.gpus(str(tmp_path))


def test_ones_own_are_listed_beside_the_shipped_and_are_no_part_of_the_catalog_without_the_folder(specs):
    assert set(rl.gpus(str(specs))) == {*rl.gpus(), "my-gpu"}
    assert set(rl.models(str(specs))) == {*rl.models(), "tiny-1b"}
    assert rl.load_gpu("my-gpu", str(specs))
    with pytest.raises(rl.UnknownName):
        rl.load_gpu("my-gpu")
    assert rl.load_gpu("h100", str(specs)) == rl.load_gpu("h100")


def test_an_argument_goes_before_the_environment_which_names_the_folder(specs, monkeypatch, tmp_path):
    monkeypatch.setenv("HOME", str(specs.parent))
    assert rl.load_gpu("my-gpu", f"~/{specs.name}").name == "my-gpu"
    monkeypatch.setenv("ROOFLINE_SPECS", str(specs))
    assert rl.load_gpu("my-gpu").bandwidth == 4e12
    assert "tiny-1b" in rl.models()
    assert rl.predict("tiny-1b", "my-gpu", isl=100, osl=10).deployment.gpu.name == "my-gpu"
    other = tmp_path / "other"
    other.mkdir()
    (other / "gpu.yaml").write_text(GPU.replace("4 TB/s", "5 TB/s"))
    (specs / "my-gpu.yaml").write_text(GPU)
    monkeypatch.setenv("ROOFLINE_SPECS", str(specs))
    assert rl.load_gpu("my-gpu", str(other)).bandwidth == 5e12


def test_ones_own_override_a_shipped_one_of_the_name(tmp_path):
    (tmp_path / "h100.yaml").write_text(GPU.replace("name: my-gpu", "name: h100-sxm"))
    assert rl.load_gpu("h100-sxm", str(tmp_path)).bandwidth == 4e12
    assert rl.load_gpu("h100-sxm").bandwidth == 3.35e12
    assert rl.gpus(str(tmp_path)).count("h100-sxm") == 1
    own = rl.predict("llama-3.1-8b", "h100-sxm", isl=100, osl=10, basis="ideal", specs=str(tmp_path))
    shipped = rl.predict("llama-3.1-8b", "h100-sxm", isl=100, osl=10, basis="ideal")
    assert own.tpot / shipped.tpot == pytest.approx(3.35 / 4.0, rel=1e-9)  # decode of one sequence reads memory
    (tmp_path / "llama.yaml").write_text(
        MODEL.replace("acme/Tiny-1B\n", "meta-llama/Llama-3.1-8B\n").replace("tiny-1b", "llama-3.1-8b")
    )
    assert rl.load_model("llama-3.1-8b", str(tmp_path)).hidden == 2048
    assert rl.load_model("llama-3.1-8b").hidden == 4096
    assert rl.models(str(tmp_path)).count("llama-3.1-8b") == 1


def test_a_changed_file_is_read_anew_and_a_faulty_one_is_named(specs):
    path = specs / "my-gpu.yaml"
    assert rl.load_gpu("my-gpu", str(specs)).bandwidth == 4e12
    path.write_text(GPU.replace("4 TB/s", "5 TB/s"))
    assert rl.load_gpu("my-gpu", str(specs)).bandwidth == 5e12
    (specs / "other.yaml").write_text(GPU.replace("my-gpu", "other").replace("mine", "others").replace("96 GB", "96"))
    with pytest.raises(rl.BadSpec, match=r"other\.yaml:10: memory\.label\.value"):
        rl.load_gpu("other", str(specs))
    assert rl.load_gpu("my-gpu", str(specs)).name == "my-gpu"


def test_a_gpu_of_ones_own_inherits_the_efficiencies_of_its_generation_unless_it_has_its_own(specs):
    prediction = rl.predict("llama-3.1-8b", "my-gpu", isl=1000, osl=10, specs=str(specs))
    assert prediction.basis == "inherited"
    assert prediction.deployment.gpu.calibration.kernels == rl.load_gpu("h100-sxm").calibration.kernels
    shipped = rl.predict("llama-3.1-8b", "my-gpu", isl=1000, osl=10, specs=str(specs))
    (specs / "hopper.yaml").write_text(CALIBRATION)
    own = rl.predict("llama-3.1-8b", "my-gpu", isl=1000, osl=10, specs=str(specs))
    assert (shipped.basis, own.basis) == ("inherited", "calibrated")
    assert own.ttft > shipped.ttft  # half of every rate is less than any shipped efficiency
    assert "hopper" not in rl.gpus(str(specs))


def test_an_unmeasured_generation_stands_on_medians_of_the_others_until_a_calibration_of_ones_own_is_there(tmp_path):
    (tmp_path / "my-gpu.yaml").write_text(GPU.replace("generation: hopper", "generation: rubin"))
    prediction = rl.predict("llama-3.1-8b", "my-gpu", isl=1000, osl=10, specs=str(tmp_path))
    asked = rl.predict("llama-3.1-8b", "my-gpu", isl=1000, osl=10, basis="ideal", specs=str(tmp_path))
    assert (prediction.basis, asked.basis) == ("generic", "ideal")
    assert prediction.ttft > asked.ttft
    assert any(warning.startswith("my-gpu: no kernels of its generation were timed") for warning in prediction.warnings)
    assert not any("basis" in warning for warning in asked.warnings)
    assert prediction.basis_detail == "generic: medians of other generations, rubin not timed"
    (tmp_path / "my-gpu.yaml").write_text(GPU.replace("generation: hopper", "generation: rubin"))
    (tmp_path / "rubin.yaml").write_text(CALIBRATION.replace("name: hopper", "name: rubin"))
    own = rl.predict("llama-3.1-8b", "my-gpu", isl=1000, osl=10, specs=str(tmp_path))
    assert own.basis == "calibrated"
    assert not any("generic" in warning for warning in own.warnings)


def test_a_changed_calibration_is_read_anew_and_one_that_lacks_a_kind_of_kernel_is_refused(specs):
    (specs / "hopper.yaml").write_text(CALIBRATION)
    before = rl.predict("llama-3.1-8b", "my-gpu", isl=1000, osl=10, engine="none", specs=str(specs))
    (specs / "hopper.yaml").write_text(CALIBRATION.replace("eta_c: 0.5", "eta_c: 0.25"))
    after = rl.predict("llama-3.1-8b", "my-gpu", isl=1000, osl=10, engine="none", specs=str(specs))
    assert after.ttft > 1.3 * before.ttft
    lacking = CALIBRATION.replace("  gemm:\n    bf16: {t0: 3 us, eta_c: 0.5, eta_m: 0.5, source: bench}\n", "")
    (specs / "hopper.yaml").write_text(lacking)
    with pytest.raises(rl.RooflineError, match="gemm"):
        rl.predict("llama-3.1-8b", "my-gpu", isl=1000, osl=10, specs=str(specs))


def test_a_calibration_of_ones_own_holds_for_shipped_gpus_and_missing_rates_are_said(tmp_path):
    (tmp_path / "hopper.yaml").write_text(CALIBRATION)
    own = rl.predict("llama-3.1-8b", "h100-sxm", isl=1000, osl=10, specs=str(tmp_path))
    assert own.basis == "inherited"
    assert own.ttft > rl.predict("llama-3.1-8b", "h100-sxm", isl=1000, osl=10).ttft
    (tmp_path / "my-gpu.yaml").write_text(GPU.replace("exp_per_s: {value: 4 Texp/s, source: sheet}\n", ""))
    prediction = rl.predict("llama-3.1-8b", "my-gpu", isl=1000, osl=10, specs=str(tmp_path))
    assert any("special-function rate" in warning for warning in prediction.warnings)


QUESTIONS = {
    "load_gpu": lambda specs: rl.load_gpu("h100-sxm", specs),
    "load_model": lambda specs: rl.load_model("llama-3.1-8b", specs),
    "gpus": rl.gpus,
    "models": rl.models,
    "predict": lambda specs: rl.predict("llama-3.1-8b", "h100-sxm", specs=specs),
}


@each("question", QUESTIONS.values(), ids=QUESTIONS)
@each("folder", ["missing", "my-gpu.yaml", "no\0folder", "~nobody-of-this-name/specs", "x" * 5000])
def test_a_folder_that_is_none_gives_one_clear_message(specs, folder, question):
    path = folder if folder.startswith(("~", "no\0")) else str(specs / folder)
    with pytest.raises(rl.BadSpec) as caught:
        question(path)
    assert path.replace("\0", r"\x00") in str(caught.value)
    assert "folder" in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_missing_folder_of_the_environment_gives_the_same_message_and_an_empty_name_is_none(specs, monkeypatch):
    for question in QUESTIONS.values():
        monkeypatch.setenv("ROOFLINE_SPECS", str(specs / "missing"))
        with pytest.raises(rl.BadSpec, match=r"missing.*folder"):
            question(None)
    monkeypatch.setenv("ROOFLINE_SPECS", "")
    assert rl.gpus() == rl.gpus("")


@pytest.mark.parametrize("mode", [0o000, 0o100, 0o400], ids=oct)
def test_an_unreadable_folder_gives_one_clear_message(public_path, mode):
    folder = public_path / "closed"
    folder.mkdir()
    (folder / "my-gpu.yaml").write_text(GPU)
    folder.chmod(mode)
    code = """
        drop()
        for ask in (lambda: rl.load_gpu("h100-sxm", sys.argv[1]), lambda: rl.gpus(sys.argv[1])):
            try:
                print("answered", ask())
            except rl.BadSpec as error:
                print("BadSpec", error)
    """
    done = unprivileged(code, str(folder))
    folder.chmod(0o755)
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert len(lines) == 2
    assert all(line.startswith("BadSpec") and str(folder) in line for line in lines), lines


@pytest.mark.parametrize("closed", ["my-gpu.yaml", "inner"])
def test_an_unreadable_file_or_subfolder_is_named_and_never_skipped(public_path, closed):
    folder = public_path / "specs"
    (folder / "inner").mkdir(parents=True)
    (folder / "my-gpu.yaml").write_text(GPU)
    (folder / "inner" / "tiny.yaml").write_text(MODEL)
    (folder / closed).chmod(0o000)
    code = """
        drop()
        try:
            print("answered", rl.gpus(sys.argv[1]), rl.models(sys.argv[1]))
        except rl.BadSpec as error:
            print("BadSpec", error)
    """
    done = unprivileged(code, str(folder))
    (folder / closed).chmod(0o755)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("BadSpec")
    assert str(folder / closed) in done.stdout


def test_links_of_a_folder_are_followed_once_and_a_dangling_one_is_named(specs):
    (specs / "acme-model" / "again").symlink_to(specs)
    assert rl.load_gpu("my-gpu", str(specs)).name == "my-gpu"
    assert rl.gpus(str(specs)).count("my-gpu") == 1
    (specs / "link.yaml").symlink_to(specs / "gone.yaml")
    with pytest.raises(rl.BadSpec, match=r"link\.yaml"):
        rl.load_gpu("my-gpu", str(specs))


def copied(folder, *changes):
    text = H100.read_text()
    for old, new in changes:
        assert old in text
        text = text.replace(old, new)
    (folder / "copy.yaml").write_text(text)
    return str(folder)


def test_neither_a_copy_under_another_name_nor_a_twin_may_keep_a_name(tmp_path):
    specs = copied(tmp_path, ("name: h100-sxm", "name: my-h100"))
    with pytest.raises(rl.BadSpec, match=r"copy.yaml:2: h100, .* are already taken by h100-sxm; delete them here"):
        rl.load_gpu("h100", specs)
    specs = copied(tmp_path)
    (tmp_path / "twin.yaml").write_text((tmp_path / "copy.yaml").read_text())
    with pytest.raises(rl.BadSpec, match="is already taken by"):
        rl.gpus(specs)


def test_a_copy_under_the_same_name_replaces_the_shipped_one_and_inherits(tmp_path):
    specs = copied(tmp_path, ("3.35 TB/s, source", "1 TB/s, source"))
    p = rl.predict("llama-3.1-8b", "h100", specs=specs)
    assert p.deployment.gpu.bandwidth == 1e12
    assert p.basis == "inherited"
    assert rl.predict("llama-3.1-8b", "h100").basis == "calibrated"


def test_a_file_without_its_name_is_reported_though_another_name_was_asked_for(tmp_path):
    specs = copied(tmp_path, ("name: h100-sxm", "nmae: my-h100"), ("aliases: [", "aliases: [mine] #"))
    with pytest.raises(rl.BadSpec, match="name: missing"):
        rl.load_gpu("my-h100", specs)
