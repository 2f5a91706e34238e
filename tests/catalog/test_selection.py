"""GPUs and models by vendor, generation, status, family, size and kind."""

import pytest
from spec_texts import GPU, MODEL

import roofline as rl
from roofline.physics.memory import parameters


def test_gpus_are_chosen_by_vendor_and_generation_together():
    ultra, all_of_them = rl.gpus(generation="blackwell-ultra"), rl.gpus(generation="Blackwell")
    assert {"b300", "gb300-nvl72"} <= set(ultra) < set(all_of_them)
    assert {rl.load_gpu(name).generation.split("-")[0] for name in all_of_them} == {"blackwell"}
    for vendor in sorted({rl.load_gpu(name).vendor for name in rl.gpus()}):
        chosen = rl.gpus(vendor=vendor.lower())
        assert list(chosen) == [name for name in rl.gpus() if rl.load_gpu(name).vendor == vendor]
    chosen = rl.gpus(vendor="nvidia", generation="hopper", status="shipping")
    assert "h100-sxm" in chosen
    assert all(rl.load_gpu(name).generation == "hopper" for name in chosen)
    assert rl.gpus(vendor="amd", generation="hopper") == ()


def test_models_are_chosen_by_family_size_and_kind_and_bounds_may_leave_nothing_out():
    chosen = rl.models(family="Qwen", min_parameters=3e10, max_parameters=4e10)
    assert {"qwen3-30b-a3b", "qwen3-32b"} <= set(chosen)
    for name in chosen:
        assert 3e10 <= parameters(rl.load_model(name)).total <= 4e10
    assert "qwen3-30b-a3b" in rl.models(family="qwen", moe=True)
    assert "qwen3-30b-a3b" not in rl.models(family="qwen", moe=False)
    assert set(rl.models(moe=True)) | set(rl.models(moe=False)) == set(rl.models())
    for bound in [0, 1e30]:
        limits = {"min_parameters": 0.0, "max_parameters": bound} if bound else {"min_parameters": bound}
        assert rl.models(**limits) == rl.models()


def test_unknown_words_and_bounds_that_are_none_are_refused():
    for ask, words in [
        (lambda: rl.gpus(vendor="acme"), r"no GPU has vendor 'acme'; choose from .*AMD.*NVIDIA"),
        (lambda: rl.gpus(generation="maxwell"), r"no GPU has generation 'maxwell'; choose from .*hopper"),
        (lambda: rl.gpus(status="sold"), r"no GPU has status 'sold'; choose from .*shipping"),
        (lambda: rl.gpus(vendor=""), r"no GPU has vendor ''"),
        (lambda: rl.gpus(vendor=5), r"no GPU has vendor 5"),
        (lambda: rl.models(family="bert"), r"no model has family 'bert'; choose from .*llama"),
    ]:
        with pytest.raises(rl.UnknownName, match=words):
            ask()
    for limits in [
        {"min_parameters": -1.0},
        {"min_parameters": float("nan")},
        {"min_parameters": "7B"},
        {"max_parameters": True},
        {"max_parameters": [7e9]},
        {"min_parameters": 8e9, "max_parameters": 7e9},
    ]:
        with pytest.raises(rl.BadInput, match="parameters"):
            rl.models(**limits)


def test_ones_own_are_chosen_among_the_shipped(tmp_path):
    (tmp_path / "gpu.yaml").write_text(GPU)
    (tmp_path / "model.yaml").write_text(MODEL)
    assert rl.gpus(str(tmp_path), vendor="acme") == ("my-gpu",)
    assert "my-gpu" in rl.gpus(str(tmp_path), generation="hopper")
    assert rl.models(str(tmp_path), family="tiny") == ("tiny-1b",)
    with pytest.raises(rl.UnknownName):
        rl.gpus(vendor="acme")
