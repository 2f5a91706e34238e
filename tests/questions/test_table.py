"""Tables of many cases: every row is the prediction of its case; lists of the shell and files of rows."""

import math

import numpy as np
import pytest
from cli.asking import ask, rows
from cli.asking import row as shell_row
from click.testing import CliRunner
from every_case import each

import roofline as rl
from roofline.cli.main import cli
from roofline.serving.shown import ROW_KEYS


def test_every_row_is_the_prediction_of_its_case():
    rows = rl.table(
        ["llama-3.1-8b", "gpt-oss-120b"],
        ["h100-sxm", "b200"],
        isl=[500, 4000],
        batch=[1, 32],
        quantization=[None, "fp8"],
        prefix=[0, 100],
    )
    assert len(rows) == 2 * 2 * 2 * 2 * 2 * 2
    assert list(rows[0]) == [*ROW_KEYS, "reason"]
    for place, row in enumerate(rows):
        options = {key: row[key] for key in ("isl", "batch", "prefix", "tp")}
        preset = (None, "fp8")[place // 8 % 2]
        alone = rl.predict(row["model"], row["gpu"], quantization=preset, **options).to_dict()
        for key in ("ttft_ms", "tpot_ms", "e2el_ms", "output_tok_s_gpu", "hbm_used_frac", "knee"):
            assert math.isclose(row[key], alone[key], rel_tol=1e-9), key
        assert row["prefill_bound"] == alone["prefill_bound"]
        assert row["reason"] is None


def test_rows_come_in_the_order_of_what_was_given_lengths_changing_fastest():
    rows = rl.table(
        "llama-3.1-8b",
        ["b200", "h100-sxm"],
        tp=[1, 2],
        isl=[100, 200],
        batch=[1, 2],
        keys=("gpu", "tp", "isl", "batch"),
    )
    assert [(row["gpu"], row["tp"], row["isl"], row["batch"]) for row in rows] == [
        (gpu, tp, isl, batch) for gpu in ("b200", "h100-sxm") for tp in (1, 2) for isl in (100, 200) for batch in (1, 2)
    ]
    assert all(type(row["isl"]) is int for row in rows)


def test_each_case_has_the_smallest_tp_at_which_it_fits():
    rows = rl.table("llama-3.1-8b", "h100-sxm", isl=[1000, 4096], batch=[1, 64, 2000])
    for row in rows[:5]:
        assert (
            row["tp"] == rl.predict("llama-3.1-8b", "h100-sxm", isl=row["isl"], batch=row["batch"]).deployment.plan.tp
        )
    assert {row["tp"] for row in rows} == {1, 4, 8}


def test_what_does_not_fit_or_cannot_run_has_a_reason_and_no_times():
    rows = rl.table(
        "llama-3.1-70b", ["gh200-96gb-single", "rubin-cpx", "h100-sxm"], isl=[500, 100_000], prefix=[0, 1000], batch=16
    )
    reasons = {(row["gpu"], row["isl"], row["prefix"]): row["reason"] for row in rows}
    assert reasons["gh200-96gb-single", 500, 0].startswith("does not fit: ")
    assert "UnsupportedPrecision" in reasons["rubin-cpx", 500, 0]
    assert "prefix exceeds the prompt" in reasons["h100-sxm", 500, 1000]
    assert reasons["h100-sxm", 500, 0] is None
    for row in rows:
        assert (row["ttft_ms"] is None) == (row["reason"] is not None)


def test_arrays_are_lists_of_values():
    rows = rl.table("llama-3.1-8b", "h100-sxm", isl=np.array([500, 1000]), batch=np.array([1.0, 4.0]))
    assert [(row["isl"], row["batch"]) for row in rows] == [(500, 1), (500, 4), (1000, 1), (1000, 4)]
    assert np.array([row["ttft_ms"] for row in rows]).dtype == float


def test_thousands_of_rows_are_predicted_together():
    rows = rl.table(
        "llama-3.1-8b", "h100-sxm", isl=range(100, 4100, 100), batch=range(1, 200), keys=("isl", "batch", "ttft_ms")
    )
    assert len(rows) == 40 * 199
    place = 17 * 199 + 42
    assert math.isclose(
        rows[place]["ttft_ms"], 1e3 * rl.ttft("llama-3.1-8b", "h100-sxm", isl=1800, batch=43), rel_tol=1e-9
    )


@each("options, error, said", [
    ({"isl": []}, rl.BadInput, "isl must not be an empty list"),
    ({"keys": ("ttft",)}, rl.UnknownName, "unknown key 'ttft'; choose from .*ttft_ms"),
    (
        {"isl": range(1, 3000), "batch": range(1, 3000)},
        rl.BadInput,
        "8994001 rows of 170 keys take 11.2 GB; use fewer values or keys, or write them to a folder",
    ),
    ({"isl": [1000, -5]}, rl.BadInput, "isl"),
    ({"isl": ["long"]}, rl.BadInput, "isl"),
    ({"quantization": ["bf16", "fp9"]}, rl.UnknownName, "fp9"),
])  # fmt: skip
def test_what_cannot_be_a_table_is_refused(options, error, said):
    with pytest.raises(error, match=said):
        rl.table("llama-3.1-8b", "h100-sxm", **options)


def test_what_lengths_bring_with_them_is_said_of_their_own_row_alone():
    rows = rl.table(
        "llama-3.1-8b", "h100-sxm", isl=[1000, 4000, 200_000], batch=[1, 64], tp=1, keys=["isl", "batch", "warnings"]
    )
    for row in rows:
        alone = rl.predict("llama-3.1-8b", "h100-sxm", isl=row["isl"], batch=row["batch"], tp=1, allow_oversize=True)
        assert row["warnings"] == [said for said in alone.warnings if not said.startswith("does not fit")]
    assert len({tuple(row["warnings"]) for row in rows}) > 2


def test_degrees_may_come_from_a_column_of_floats_with_gaps_and_reason_is_a_key():
    rows = rl.table("llama-3.1-8b", "h100-sxm", tp=[2.0, float("nan")], keys=["tp", "ttft_ms", "reason"])
    assert [row["tp"] for row in rows] == [2, 1]
    assert [row["reason"] for row in rows] == [None, None]
    with pytest.raises(rl.BadInput, match="whole number"):
        rl.predict("llama-3.1-8b", "h100-sxm", tp=2.5)


def test_native_is_the_precision_of_the_checkpoint():
    assert rl.ttft("llama-3.1-8b", "h100-sxm", quantization="native") == rl.ttft("llama-3.1-8b", "h100-sxm")


SWEEP = ["sweep", "-m", "llama-3.1-8b", "-g", "h100-sxm"]


def run(*words):
    return CliRunner().invoke(cli, [*SWEEP, *words])


def test_rows_are_written_to_a_file_and_counted(tmp_path):
    path = tmp_path / "rows.xlsx"
    done = run("--isl", "500,2000", "-o", str(path))
    assert done.stdout == ""
    assert f"wrote 2 rows to {path}" in done.stderr
    assert path.read_bytes().startswith(b"PK")
    again = run("--isl", "500,2000", "-o", str(path))
    assert again.exit_code == 1
    assert "--force" in again.stderr


# --- one way to write a number -----------------------------------------------------------------


@each("written, meant", [
    ("1:16:x2", [1, 2, 4, 8, 16]), ("1:20:x3", [1, 3, 9]), ("1:4", [1, 2, 3, 4]), ("8:32:8", [8, 16, 24, 32]),
    ("1:4:x2,6,8:9", [1, 2, 4, 6, 8, 9]), ("1k:4k:x2", [1024, 2048, 4096]),
])  # fmt: skip
def test_lists_take_ranges_by_steps_and_by_factors(written, meant):
    found = rows("sweep", "-m", "llama-3.1-8b", "-g", "h100-sxm", "--batch", written)
    assert [entry["batch"] for entry in found] == meant


@each("written", ["1:16:x1", "1:16:0", "16:1", "1:2:3:4", "1:", ":4", "-1:4", "0:8:x2", "1:1q", "x2", ""])
def test_what_is_no_range_is_refused(written):
    result = ask("sweep", "-m", "llama-3.1-8b", "-g", "h100-sxm", "--batch", written)
    assert result.exit_code == 2
    assert "1:256:x2" in " ".join(result.stderr.split())


def test_names_of_models_and_gpus_may_stand_in_one_option():
    together = rows("predict", "-m", "llama-3.1-8b,qwen3-8b", "-g", "h100,b200")
    apart = rows("predict", "-m", "llama-3.1-8b", "-m", "qwen3-8b", "-g", "h100", "-g", "b200")
    assert together == apart
    assert len(together) == 4


def test_users_prefixes_and_shares_take_the_same_words():
    case = ("predict", "-m", "llama-3.1-8b", "-g", "h100-sxm", "--isl", "4k")
    assert shell_row(*case, "-c", "1k") == shell_row(*case, "-c", "1024")
    assert shell_row(*case, "--prefix", "1k")["prefix"] == 1024
    assert shell_row(*case, "-c", "8", "--isl-cv", "30%")["isl_cv"] == 0.3
    assert shell_row(*case, "--gpu-memory-utilization", "80%") == shell_row(*case, "--gpu-memory-utilization", "0.8")
