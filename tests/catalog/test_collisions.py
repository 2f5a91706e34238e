"""A name belongs to one entry: a copied file neither hides a shipped one nor passes for a measured one."""

from pathlib import Path

import pytest

import roofline as rl

H100 = Path(__file__).parents[2] / "hardware_specs" / "nvidia" / "h100-sxm.yaml"


def copied(folder, *changes):
    text = H100.read_text()
    for old, new in changes:
        assert old in text
        text = text.replace(old, new)
    (folder / "copy.yaml").write_text(text)
    return str(folder)


def test_neither_a_copy_under_another_name_nor_a_twin_may_keep_a_name(tmp_path):
    specs = copied(tmp_path, ("name: h100-sxm", "name: my-h100"))
    with pytest.raises(rl.BadSpec, match="is already taken by h100-sxm"):
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
