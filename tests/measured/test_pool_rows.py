"""How rows of two pools are read: one trap a test, from lines written by hand."""

import csv
import importlib.util
import sys
from pathlib import Path

import pytest

import roofline as rl

FOLDER = Path(rl.__file__).parent.parent / "accuracy"
BOTH = {
    "num_workers": "1", "tp_size": "1", "pp_size": "1", "attention_dp_size": "4", "moe_tp_size": "1",
    "moe_ep_size": "4", "batch_size": "1",
}  # fmt: skip
ROW = {
    "id": "one", "silicon_data_source": "db-dump/2026-04-27; silicon_concurrency=64; measured=2026-03-01",
    "backend": "sglang", "backend_version": "0.5.9", "model_path": "deepseek-ai/DeepSeek-V3", "system": "gb200",
    "precision": "fp4", "mode": "disagg", "isl": "1024", "osl": "1024", "silicon_ttft_ms": "700",
    "silicon_tpot_ms": "10",
    **{f"{part}_{name}": value for part in ("prefill", "decode") for name, value in BOTH.items()},
}  # fmt: skip


@pytest.fixture(scope="module")
def pools():
    sys.path.insert(0, str(FOLDER))
    try:
        spec = importlib.util.spec_from_file_location("pool_rows", FOLDER / "pool_rows.py")
        module = importlib.util.module_from_spec(spec)
        sys.modules["pool_rows"] = module  # its dataclasses look their own module up
        spec.loader.exec_module(module)
    finally:
        sys.path.remove(str(FOLDER))
    return module


def read(pools, tmp_path, **changes):
    path = tmp_path / "rows.csv"
    with path.open("w", newline="") as file:
        table = csv.DictWriter(file, list(ROW))
        table.writeheader()
        table.writerow({**ROW, **changes})
    return pools.pool_rows(path)


def slip(ranks):
    """A label that no deployment has."""
    return {"attention_dp_size": str(ranks), "moe_tp_size": str(ranks), "moe_ep_size": "1"}


def labelled(**pools):
    return {f"{pool}_{name}": value for pool, label in pools.items() for name, value in label.items()}


def test_a_printed_label_is_read_as_printed(pools, tmp_path):
    (row,) = read(pools, tmp_path)
    assert row.label == "printed"
    assert (row.decode.tp, row.decode.dp, row.decode.ep, row.concurrency) == (1, 4, 4, 64)
    assert row.prefill.text("gb200") == "gb200:tp1pp1dp4ep4:x1"


@pytest.mark.parametrize(
    ("decode", "label", "prefill_means", "decode_means"),
    [
        (4, "recipe", (4, 1, 1), (4, 1, 1)),  # workers of four ranks: tensor parallelism
        (32, None, (1, 4, 4), (1, 32, 32)),  # wider decode workers: experts are spread
    ],
)
def test_a_slip_is_read_as_the_plan_that_was_meant(pools, tmp_path, decode, label, prefill_means, decode_means):
    (row,) = read(pools, tmp_path, **labelled(prefill=slip(4), decode=slip(decode)))
    assert label in (None, row.label)
    plans = [(workers.tp, workers.dp, workers.ep) for workers in (row.prefill, row.decode)]
    assert plans == [prefill_means, decode_means]


def test_a_row_without_both_pools_is_none(pools, tmp_path):
    assert read(pools, tmp_path, prefill_num_workers="") == []
    assert read(pools, tmp_path, mode="agg") == []
