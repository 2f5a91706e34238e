"""The check of specifications: counts, sources, names and kinds, each fault with its line, never a traceback."""

import shutil
from pathlib import Path

import pytest
from spec_texts import CALIBRATION, FULL_GPU, GPU, MIXED_MODEL, MODEL, line_of

import roofline as rl
from roofline.catalog import files
from roofline.catalog.checks import audit, spec_files


def found(tmp_path, text, name="spec.yaml"):
    """Faults of one file, without the path before them."""
    path = tmp_path / name
    path.write_text(text)
    listed = rl.check_specs(str(path))
    assert all(fault.startswith(f"{path}:") for fault in listed)
    return [fault[len(str(path)) + 1 :] for fault in listed]


def test_the_shipped_catalogs_and_good_files_have_no_faults(tmp_path):
    report = audit(spec_files(None))
    assert report.counts["gpu"] == len(rl.gpus())
    assert report.counts["model"] == len(rl.models())
    assert report.counts["calibration"] == len(list(Path(files.shipped_root("gpu"), "calibration").glob("*.yaml")))
    assert report.faults == ()
    for text in [GPU, FULL_GPU, MIXED_MODEL, MODEL]:
        assert found(tmp_path, text) == []


def test_a_folder_may_hold_all_kinds_and_a_copy_of_the_catalog_is_as_good_as_the_catalog(tmp_path):
    for name, text in (("a/my-gpu.yaml", GPU), ("b/c/tiny.yml", MODEL), ("hopper.yaml", CALIBRATION)):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    (tmp_path / "README.md").write_text("not: [a specification")
    report = audit(spec_files(str(tmp_path)))
    assert report.counts == {"gpu": 1, "model": 1, "calibration": 1, "engine": 0, "workload": 0, "arguments": 0}
    assert report.faults == ()
    shutil.copytree(files.shipped_root("gpu"), tmp_path / "copy")
    mine = rl.check_specs(str(tmp_path / "copy"))
    shipped = rl.check_specs(files.shipped_root("gpu"))
    assert [fault.rpartition("/")[2] for fault in mine] == [fault.rpartition("/")[2] for fault in shipped]


@pytest.mark.parametrize(
    ("convention", "stated", "is_fault"),
    [
        ("", "1.03 B", False),  # 1.030 B with both ends, 0.965 without the embedding, 0.899 without the head, too
        ("", "0.9 B", False),
        ("", "0.85 B", True),
        (", convention: all", "1.03 B", False),
        (", convention: all", "0.965 B", True),
        (", convention: no-embedding", "0.97 B", False),
        (", convention: no-embedding", "1.03 B", True),
        (", convention: no-embedding-no-head", "0.9 B", False),
    ],
)
def test_stated_active_parameters_are_compared_under_their_convention(tmp_path, convention, stated, is_fault):
    active = f"  active: {{value: {stated}, source: card{convention}}}\n"
    text = MODEL.replace("architecture:", f"{active}architecture:")
    assert [fault.split(": ")[1] for fault in found(tmp_path, text)] == ["parameters.active"] * is_fault


def test_stated_parameters_that_the_layers_do_not_add_up_to_and_large_caches_need_a_note(tmp_path):
    text = MODEL.replace("kv_heads: 4, head_dim: 128}", "kv_heads: 16, head_dim: 65536}", 1)
    assert any("groups: a KV cache of" in fault for fault in found(tmp_path, text))
    for stated in ["1.19 B", "1.22 B", "120 M", "1.2 T"]:
        text = MODEL.replace("1.2 B", stated)
        (fault,) = found(tmp_path, text)
        assert fault.startswith(f"{line_of(text, '  total:')}: parameters.total: ")
        assert "stated, but the layers add up to 1.207" in fault
        assert found(tmp_path, text.replace(f"value: {stated}", f"value: {stated}, note: with towers")) == []


SPARE = "sources:\n  spare-page:\n    title: Spare page, second edition\n    date: 2026-01-02\n"


def test_a_source_is_cited_or_mentioned_in_a_note_and_has_a_date_that_has_come(tmp_path):
    text = GPU.replace("sources:\n", SPARE)
    assert found(tmp_path, text) == [
        f"{line_of(text, '  spare-page')}: sources.spare-page: source is never cited; cite it or remove it"
    ]
    for note in ["see spare-page", "the Spare page says so", "Spare page, second edition: wrong"]:
        text = GPU.replace("sources:\n", SPARE)
        assert found(tmp_path, text.replace("- prototype", f'- "{note}"')) == []
        assert found(tmp_path, text.replace("700 W, source: sheet", f'700 W, source: sheet, note: "{note}"')) == []
    for date in ["2999-01-01", "2999-01", "'2999'"]:
        (fault,) = found(tmp_path, GPU.replace("2026-01-02", date))
        assert "sources.sheet.date" in fault
        assert "is in the future" in fault


def test_a_name_of_the_shipped_catalog_is_taken_but_the_canonical_one_of_a_file_that_replaces_it(tmp_path):
    for alias in ["H100", "h100_sxm"]:
        text = GPU.replace("[mine,", f"[{alias},")
        (fault,) = found(tmp_path, text)
        assert fault == f"2: aliases.0: the name {alias!r} is already taken by h100-sxm; choose another"
    assert found(tmp_path, GPU.replace("name: my-gpu", "name: h100-sxm").replace("[mine,", "[h100,")) == []


def test_two_files_may_not_share_a_name_and_a_calibration_is_called_like_its_generation(tmp_path):
    (tmp_path / "a.yaml").write_text(MODEL)
    (tmp_path / "b.yaml").write_text(
        MODEL.replace("acme/Tiny-1B\n", "other/Big\n").replace(
            "[tiny-1b, acme/Tiny-1B-Instruct]", "[big, other/Tiny-1B-Instruct]"
        )
    )
    (fault,) = rl.check_specs(str(tmp_path))
    taken = "aliases.1: the name 'other/Tiny-1B-Instruct' is already taken by"
    assert fault.startswith(f"{tmp_path / 'b.yaml'}:2: {taken}")
    assert found(tmp_path, CALIBRATION, "hopper.yaml") == []
    (fault,) = found(tmp_path, CALIBRATION, "my-efficiencies.yaml")
    assert fault.startswith("1: name: ")
    assert "rename the file to hopper.yaml" in fault


def test_faults_of_several_files_come_in_the_order_of_files_and_lines(tmp_path):
    (tmp_path / "a.yaml").write_text(GPU.replace("700 W", "700").replace("96 GB", "96"))
    (tmp_path / "b.yaml").write_text("- a list")
    (tmp_path / "c.yaml").write_bytes(b"\xff\xfe")
    (tmp_path / "d.yaml").write_text(GPU.replace("my-gpu", "other").replace("mine", "others").replace("2000 T", "2 T"))
    listed = [fault[len(str(tmp_path)) + 1 :].split(":")[:2] for fault in rl.check_specs(str(tmp_path))]
    assert listed == [["a.yaml", "10"], ["a.yaml", "20"], ["b.yaml", "1"], ["c.yaml", "1"], ["d.yaml", "7"]]


@pytest.mark.parametrize("name", ["missing", "missing.yaml", "notes.txt", "empty"])
def test_where_there_is_nothing_to_check_it_is_said(tmp_path, name):
    (tmp_path / "notes.txt").write_text(GPU)
    (tmp_path / "empty").mkdir()
    with pytest.raises(rl.BadSpec) as caught:
        rl.check_specs(str(tmp_path / name))
    assert str(caught.value).startswith(str(tmp_path / name))
    assert "\n" not in str(caught.value)
