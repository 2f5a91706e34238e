"""Results of servers with a known fault, measured on an H100: they read as results, and their figures agree."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from roofline.measurements.results import read_results
from roofline.questions.catalog import load_gpu

_FILES = sorted((Path(__file__).parents[1] / "fixtures" / "faults").glob("*.json"))


def _rows(path: Path) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = json.loads(path.read_text(encoding="utf-8"))
    return rows


@pytest.mark.parametrize("path", _FILES, ids=lambda path: path.stem)
def test_each_states_its_fault_gpu_lengths_and_load(path: Path) -> None:
    measurements = read_results(str(path)).measurements
    rows = _rows(path)
    assert len(measurements) == len(rows)
    for measurement, row in zip(measurements, rows, strict=True):
        assert row["fault"] == path.stem
        assert row["completed"] == row["num_prompts"]
        assert load_gpu(measurement.gpu).name == "h100-sxm"
        assert (measurement.isl, measurement.tp, measurement.engine) == (1024.0, 1, "vllm")
        assert measurement.osl == (200.0 if path.stem == "longer_answers" else 100.0)
        assert measurement.concurrency == row["max_concurrency"]


@pytest.mark.parametrize("path", _FILES, ids=lambda path: path.stem)
def test_the_means_of_a_row_agree_with_each_other(path: Path) -> None:
    for row in _rows(path):
        osl = row["total_output_tokens"] / row["completed"]
        assert row["mean_e2el_ms"] == pytest.approx(row["mean_ttft_ms"] + (osl - 1.0) * row["mean_tpot_ms"], rel=1e-3)
        in_flight = row["request_throughput"] * row["mean_e2el_ms"] / 1000.0  # by Little; fewer at the end of a run
        assert 0.75 * row["max_concurrency"] < in_flight <= row["max_concurrency"]


def test_a_fault_shows_where_it_must() -> None:
    figures = {path.stem: {row["max_concurrency"]: row for row in _rows(path)} for path in _FILES}
    healthy = figures["healthy"]
    assert figures["enforce_eager"][1]["median_tpot_ms"] > 2.0 * healthy[1]["median_tpot_ms"]
    assert figures["seqs_4"][32]["median_ttft_ms"] > 10.0 * healthy[32]["median_ttft_ms"]
    assert figures["repeated_prompts"][32]["median_ttft_ms"] < 0.5 * healthy[32]["median_ttft_ms"]
    assert figures["weights_fp8"][1]["median_tpot_ms"] < 0.7 * healthy[1]["median_tpot_ms"]
