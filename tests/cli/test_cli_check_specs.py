"""roofline check-specs: one line when all is well, else every fault as file:line: field: fault."""

import pytest
from asking import answered, ask

import roofline as rl

GPU = """\
name: my-gpu
vendor: Acme
generation: acme-1
peak: {bf16: {value: 1000 TFLOP/s, source: sheet}}
memory:
  label: {value: 96 GB, source: sheet}
  usable: {value: 94 GiB, source: sheet}
  bandwidth: {value: 4 TB/s, source: sheet}
scale_up: {kind: link, bandwidth: {value: 450 GB/s, source: sheet}, domain: {value: 8, source: sheet}}
sources:
  sheet: {title: Acme data sheet, date: 2026-01-02}
"""


def test_all_is_well_in_one_line(tmp_path):
    (tmp_path / "a.yaml").write_text(GPU)
    assert answered("check-specs", tmp_path) == "1 GPU: no faults\n"
    (tmp_path / "b.yaml").write_text(GPU.replace("my-gpu", "other-gpu"))
    assert answered("check-specs", tmp_path) == "2 GPUs: no faults\n"
    assert answered("check-specs", tmp_path / "a.yaml") == "1 GPU: no faults\n"


def test_the_shipped_catalogs_are_checked_by_default():
    result = ask("check-specs")
    faults = rl.check_specs()
    assert result.exit_code == (1 if faults else 0)
    assert f"{len(rl.gpus())} GPUs, {len(rl.models())} models, " in result.output
    assert result.stdout.splitlines()[: len(faults)] == faults


def test_every_fault_is_printed_with_file_line_and_field(tmp_path):
    path = tmp_path / "a.yaml"
    path.write_text(GPU.replace("4 TB/s", "4 GB/s").replace("96 GB", "96").replace("vendor", "vender"))
    result = ask("check-specs", tmp_path)
    assert result.exit_code == 1
    assert [line.split(": ")[:2] for line in result.stdout.splitlines()] == [
        [f"{path}:1", "vendor"],
        [f"{path}:2", "vender"],
        [f"{path}:6", "memory.label.value"],
        [f"{path}:8", "memory.bandwidth"],
    ]
    assert result.stderr == "4 faults in 1 GPU\n"


@pytest.mark.parametrize("content", ["", "- a list", "name: [", "\x00", "name: a\nname: b\n"])
def test_a_file_that_is_hardly_a_specification_is_a_fault_and_no_traceback(tmp_path, content):
    (tmp_path / "a.yaml").write_text(content)
    result = ask("check-specs", tmp_path)
    assert result.exit_code == 1
    assert result.stdout.startswith(f"{tmp_path / 'a.yaml'}:")


@pytest.mark.parametrize("name", ["missing", "empty", "text.txt", "zero\0"])
def test_where_nothing_is_found_it_is_said(tmp_path, name):
    (tmp_path / "empty").mkdir()
    (tmp_path / "text.txt").write_text(GPU)
    result = ask("check-specs", f"{tmp_path}/{name}")
    assert result.exit_code == 1
    assert result.stdout == ""
    assert result.stderr.startswith(f"Error: {tmp_path}/{name.split(chr(0))[0]}")


def test_a_wrong_use_ends_in_exit_code_2():
    assert ask("check-specs", "a", "b").exit_code == 2
    assert ask("check-specs", "--all").exit_code == 2
