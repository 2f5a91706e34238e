"""Tables in columns: their elements are single predictions, their rows and every other form hold the same values."""

import copy
import csv
import io
import json
import math
import pickle
import random
import tracemalloc

import numpy as np
import pytest
import tiers
from cli.asking import ask
from every_case import each

import roofline as rl
from roofline.outputs.files import csv_parts, csv_text, json_parts, json_text, write_blocks
from roofline.questions import table as table_room
from roofline.questions.table import table_in_blocks
from roofline.serving.knee import _tp_fault, possible_tp

MODEL, GPU = "llama-3.1-8b", "h100-sxm"
FIGURES = ("ttft_ms", "tpot_ms", "e2el_ms", "output_tok_s_gpu", "hbm_used_frac", "tpot_high_ms", "half_knee", "util")
WORDS = ("prefill_bound", "decode_bound", "slo_verdict", "fits", "load_region")
RANDOM = random.Random(35)


def some(*values, count=3):
    return RANDOM.sample(values, count)


GRIDS = {
    "burst": {"batch": some(1, 7, 64, 300, 5000)},
    "rate": {"request_rate": some(0.3, 2.0, 9.0, 400.0)},
    "users": {"concurrency": some(1, 5, 48, 500)},
}


@each("load", GRIDS)
@tiers.has_more_cases
def test_elements_are_single_predictions(load):
    lengths = {"isl": some(130, 900, 4000, 30_000), "osl": [1, *some(2, 60, 700, count=2)], "prefix": [0, 100]}
    options = {"slo": "ttft:400,tpot:20", "tp": 1}
    keys = ["isl", "osl", "prefix", *GRIDS[load], *FIGURES, *WORDS]
    for gpu in tiers.some(("h100-sxm", "l40s"), 1):
        rows = rl.table(MODEL, gpu, **lengths, **GRIDS[load], **options, keys=keys).to_rows()
        refused = [row for row in rows if row["reason"] is not None]
        tried = RANDOM.sample(rows, tiers.times(3, 9)) + refused[: tiers.times(1, 3)]
        for row in tried:  # of one program: what is wrong with it is wrong in most rows
            case = {name: row[name] for name in (*lengths, *GRIDS[load])}
            if row["reason"] is not None:
                with pytest.raises((rl.DoesNotFit, rl.Overloaded)):
                    rl.predict(MODEL, gpu, **case, **options)
                assert row["ttft_ms"] is row["tpot_ms"] is row["e2el_ms"] is None
                continue
            alone = rl.predict(MODEL, gpu, **case, **options).to_dict()
            near = 1e-12 if load == "burst" else 1e-10
            for key in FIGURES:
                assert row[key] == (None if alone[key] is None else pytest.approx(alone[key], rel=near)), (key, case)
            assert {key: row[key] for key in WORDS} == {key: alone[key] for key in WORDS}, case


def test_a_row_is_the_same_whether_its_table_has_one_row_or_many():
    gpus = ["h100-sxm", "l40s", "rubin-cpx", "mi300x"]
    cases = [(gpu, batch) for gpu in gpus for batch in (1, 9000)]
    together = rl.table("llama-3.1-70b", gpus, batch=[1, 9000]).to_rows()
    for (gpu, batch), row in zip(cases, together, strict=True):
        (alone,) = rl.table("llama-3.1-70b", gpu, batch=batch)
        for key, value in row.items():
            assert alone[key] == (pytest.approx(value, rel=1e-12) if isinstance(value, float) else value), (gpu, key)


@each("options", [
    {"batch": 9000, "tp": 1, "allow_oversize": True},
    {"batch": 5, "model": "llama-3.1-70b", "tp": 1},
    {"request_rate": 2, "cold_start": "1%:2s", "slo": "ttft:500@p99"},
    {"concurrency": 5, "cold_start": "5%:3s", "tp": 2},
    {"request_rate": 0.1, "model": "llama-3.1-70b", "tp": 1, "allow_oversize": True},
    {"request_rate": 1000, "model": "llama-3.1-70b", "tp": 1, "allow_oversize": True},
], ids=str, few=3)  # fmt: skip
def test_a_row_says_the_same_whatever_else_is_in_its_table(options):
    load = next(name for name in ("batch", "concurrency", "request_rate") if name in options)
    case = {"model": MODEL, **options}
    model, amount = case.pop("model"), case[load]
    (alone,) = rl.table(model, GPU, **case)
    among = rl.table(model, GPU, **{**case, load: [3 * amount, amount, 4 * amount]})[1]
    for key, value in among.items():
        assert alone[key] == (pytest.approx(value, rel=1e-9) if isinstance(value, float) else value), key
    if alone["reason"] is None or ("allow_oversize" in options and alone["ttft_ms"] is not None):
        said = [note for note in rl.predict(model, GPU, **case).warnings if not note.startswith("a benchmark of")]
        assert sorted(alone["warnings"]) == sorted(said)


def test_a_server_that_neither_fits_nor_keeps_up_has_no_times():
    with pytest.raises(rl.Overloaded, match="answers at most"):
        rl.predict("llama-3.1-70b", GPU, tp=1, request_rate=1000, allow_oversize=True)


ONE_ROW = {
    "burst": {"isl": 1000, "batch": 16},
    "half a prompt": {"isl": 333, "prefix": "50%"},
    "half a token": {"isl": 700.5, "osl": 1},
    "rate": {"request_rate": 2, "slo": "ttft:300@p95,tpot:25", "isl_cv": 0.5},
    "users": {"concurrency": 64, "num_prompts": 640},
    "too fast": {"request_rate": 2000},
    "too large": {"batch": 9000},
    "oversize": {"batch": 9000, "allow_oversize": True},
    "prefix too long": {"isl": 1000, "prefix": 2000},
    "no such plan": {"tp": 7},
}


_OF_COLUMNS = (
    "too fast",
    "too large",
    "oversize",
    "prefix too long",
    "no such plan",
)  # these say why they have no times


@each("name", ONE_ROW)
def test_the_only_row_of_a_sweep_is_that_of_columns(name):
    blocks = table_in_blocks(MODEL, GPU, **ONE_ROW[name])
    (row,) = (row for block in blocks for row in block)
    alone = blocks.only_row()
    assert (alone is None) == (name in _OF_COLUMNS)
    if alone is not None:
        assert (json_text([alone]), csv_text([alone])) == ("".join(json_parts(blocks)), "".join(csv_parts(blocks)))
        assert list(map(type, alone.values())) == list(map(type, row.values()))
    assert table_in_blocks(MODEL, GPU, isl=[1, 2]).only_row() is None


def test_columns_hold_what_rows_hold():
    table = rl.table(MODEL, ["h100-sxm", "l40s"], osl=[1, 50], batch=[1, 4000], tp=1, slo="tpot:20")
    rows = list(table)
    assert rows == table
    assert table == table.to_rows()
    assert len(rows) == len(table) == 8
    for key in table.columns:
        column, values = table[key], [row[key] for row in rows]
        if isinstance(column, np.ndarray):
            assert column.dtype == np.float64
            assert [None if math.isnan(number) else number for number in column] == values
        else:
            assert column == values
    assert {type(value) for value in (rows[0]["isl"], rows[0]["num_gpus"], rows[0]["memory_knee"])} == {int}
    assert table[-1] == rows[-1]
    assert table[1:6:2] == rows[1:6:2]
    assert table[::-1] == rows[::-1]
    assert table[3:3] == []
    assert isinstance(table[1:], rl.Answers)
    assert table != rows[1:]
    assert rows[2] in table
    assert table.to_rows(["tp", "gpu"]) == [{"tp": row["tp"], "gpu": row["gpu"]} for row in rows]
    for twin in (copy.copy(table), pickle.loads(pickle.dumps(table))):
        assert type(twin) is rl.Table
        assert twin == table
    with pytest.raises(rl.UnknownName, match="unknown key 'ttft'"):
        table["ttft"]
    with pytest.raises(IndexError):
        table[8]


def test_one_case_that_is_refused_does_not_take_the_others_with_it():
    keys = ["isl", "ttft_ms"]
    rows = rl.table(MODEL, GPU, isl=[100, 9000, 200, 5000, 300], max_model_len=4096, keys=keys)
    assert [row["ttft_ms"] is None for row in rows] == [False, True, False, True, False]
    assert rows[1]["reason"] == "BadInput: isl + osl = 9128 tokens exceed max_model_len = 4096"
    assert rows[0]["ttft_ms"] == pytest.approx(1e3 * rl.ttft(MODEL, GPU, isl=100), rel=1e-12)
    cached = rl.table(MODEL, GPU, prefix=[0, 500], cache_hit=0.5, keys=keys)
    assert [row["ttft_ms"] is None for row in cached] == [True, False]
    assert cached[0]["reason"].startswith("BadInput: a prompt cache needs a prefix")
    beyond = rl.table(MODEL, GPU, isl=[100, 1000], prefix=[0, 500], keys=[*keys, "prefix"])
    assert [row["reason"] for row in beyond] == [None, "BadInput: prefix exceeds the prompt", None, None]
    assert [row["prefix"] for row in beyond] == [0, 500, 0, 500]


def test_a_deployment_that_cannot_be_is_refused_in_all_of_its_rows_and_at_once():
    rows = rl.table(MODEL, GPU, tp=[3, 1], batch=range(1, 3001), keys=["tp", "batch", "ttft_ms", "fits", "warnings"])
    assert len(rows) == 6000
    reasons = rows["reason"]
    assert len(set(reasons[:3000])) == 1
    assert reasons[0].startswith("BadInput: tp = 3 does not divide llama-3.1-8b")
    assert rows["batch"][:3000].tolist() == list(range(1, 3001))
    assert np.isnan(rows["ttft_ms"][:3000]).all()
    assert not np.isnan(rows["ttft_ms"][3000:3400]).any()


def test_an_error_of_all_cases_is_found_at_once(monkeypatch):
    asked = []

    def counted(*args, **options):
        asked.append(options)
        return predict(*args, **options)

    predict = table_room.predict
    monkeypatch.setattr(table_room, "predict", counted)
    rows = rl.table(MODEL, GPU, isl=range(1, 3001), isl_cv=0.5, keys=["isl"])
    assert set(rows["reason"]) == {"BadInput: length distributions need a load; give concurrency or request_rate"}
    assert len(asked) == 2


def test_what_does_not_fit_at_the_tp_of_one_load_may_at_that_of_another():
    few, many = rl.table("llama-3.1-70b", GPU, concurrency=[1, 200], max_model_len=100_000)
    assert few["reason"].startswith("DoesNotFit: llama-3.1-70b does not fit h100-sxm at tp 2")
    assert (many["tp"], many["reason"]) == (4, None)


def test_the_reason_of_a_refused_row_is_what_predict_says():
    (row,) = rl.table(MODEL, GPU, concurrency=[4, 7], num_prompts=5)[1:]
    with pytest.raises(rl.BadInput) as alone:
        rl.predict(MODEL, GPU, concurrency=7.0, num_prompts=5.0)
    assert row["reason"] == f"BadInput: {alone.value}"


def test_traces_beside_one_another_have_means_of_their_own():
    traces = [{"isl": [1000, 601], "osl": [100, 50]}, {"isl": [500], "osl": [20]}]
    arrow = rl.table(MODEL, GPU, request_rate=2, lengths=traces, keys=["isl", "osl"]).to_arrow()
    assert arrow.column("isl").to_pylist() == [800.5, 500.0]


def test_more_rows_than_two_million_of_few_keys():
    table = rl.table(MODEL, GPU, isl=range(1, 2202), osl=range(1, 1001), keys=["ttft_ms"], tp=1)
    assert len(table) == 2_201_000
    last = 1e3 * rl.ttft(MODEL, GPU, isl=2201, osl=1000)
    assert table[-1]["ttft_ms"] == pytest.approx(last, rel=1e-12)
    assert repr(table).endswith(" more]")


def test_the_degrees_of_a_model_are_those_that_divide_it():
    for name in ("llama-3.1-8b", "deepseek-v3", "gpt-oss-120b", "gemma-3-27b", "qwen3-8b"):
        model = rl.load_model(name)
        assert possible_tp(model, 300) == [tp for tp in range(1, 301) if _tp_fault(model, tp) is None]


def test_a_notebook_shows_both_ends_and_the_size():
    html = rl.table(MODEL, GPU, isl=range(100, 200), keys=["isl"])._repr_html_()
    for shown in (">100<", ">104<", ">195<", ">199<", "100 rows x 2 columns", ">...<"):
        assert shown in html
    assert ">105<" not in html
    assert "..." not in rl.table(MODEL, GPU, isl=range(100, 110), keys=["isl"])._repr_html_()


# --- other libraries ------------------------------------------------------------------------------


def mixed():
    """A table with every kind of column and gaps in them."""
    return rl.table("llama-3.1-70b", ["h100-sxm", "a30", "rubin-cpx"], isl=[100, 1000], osl=[1, 20], slo="tpot:30")


def test_arrow_holds_the_rows():
    pa = pytest.importorskip("pyarrow")
    table = mixed()
    assert table.to_arrow().to_pylist() == table.to_rows()
    assert pa.table(table).equals(table.to_arrow())
    assert table.to_arrow(["isl"]).schema.field("isl").type == pa.int64()


def test_polars_holds_the_rows():
    pl = pytest.importorskip("polars")
    table = mixed()
    frame = table.to_polars()
    assert isinstance(frame, pl.DataFrame)
    assert frame.to_dicts() == table.to_rows()
    assert pl.DataFrame(table).shape == frame.shape


def test_pandas_holds_the_columns():
    pd = pytest.importorskip("pandas")
    table = mixed()
    frame = table.to_pandas()
    assert list(frame.columns) == list(table.columns)
    assert frame["ttft_ms"].dtype == np.float64
    assert frame["isl"].dtype == np.int64
    assert pd.DataFrame(table).shape == frame.shape


@each(("library", "method"), [("polars", "to_polars"), ("pyarrow", "to_arrow"), ("pandas", "to_pandas")])
def test_a_library_that_is_missing_is_named(library, method):
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(__import__("sys").modules, library, None)
        with pytest.raises(rl.BadInput, match="pip install"):
            getattr(rl.table(MODEL, GPU, keys=["isl"]), method)()


# --- files, a block after the other ----------------------------------------------------------------


def test_blocks_are_written_as_the_rows_are(tmp_path):
    case = {"isl": [100, 1000], "osl": [1, 20], "slo": "tpot:30"}
    asked = ("llama-3.1-70b", ["h100-sxm", "a30", "rubin-cpx"])
    rows = rl.table(*asked, **case).to_rows()
    assert "".join(csv_parts(table_in_blocks(*asked, **case))) == csv_text(rows)
    assert "".join(json_parts(table_in_blocks(*asked, **case))) == json_text(rows)
    assert write_blocks(table_in_blocks(*asked, **case), str(tmp_path / "rows.parquet"), force=False) == len(rows)
    parquet = pytest.importorskip("pyarrow.parquet")
    assert parquet.read_table(tmp_path / "rows.parquet").to_pylist() == rows


def test_a_sweep_in_several_blocks_is_one_table():
    words = ("sweep", "-m", MODEL, "-g", GPU, "--isl", "1:200", "--osl", "1:100", "--tp", "1")
    read = list(csv.DictReader(io.StringIO(ask(*words, "-f", "csv").stdout)))
    table = rl.table(MODEL, GPU, isl=range(1, 201), osl=range(1, 101), tp=1, keys=["isl", "ttft_ms"])
    assert [float(row["isl"]) for row in read] == table["isl"].tolist()
    assert [row["ttft_ms"] for row in read] == list(map(repr, table["ttft_ms"].tolist()))


@each("lengths", ["1000", "1:9000"])
@each("written", ["csv", "json"])
def test_a_refused_name_leaves_nothing_half_written(lengths, written):
    done = ask("sweep", "-m", MODEL, "-g", GPU, "-q", "bf16,fp9", "--isl", lengths, "-f", written)
    assert done.exit_code != 0
    assert done.stdout == ""
    assert "fp9" in done.stderr


def test_a_pool_that_contradicts_an_option_leaves_nothing_half_written():
    done = ask("sweep", "-m", MODEL, "-g", f"{GPU},b200:tp4", "--tp", "4,8", "--isl", "1:9000", "-f", "csv")
    assert (done.exit_code, done.stdout) == (1, "")
    assert "tp is stated twice" in done.stderr


def test_a_sheet_has_no_more_rows_than_fit_on_one(tmp_path):
    path = tmp_path / "rows.xlsx"
    done = ask("sweep", "-m", MODEL, "-g", GPU, "--isl", "1:1200", "--osl", "1:1000", "-o", str(path))
    assert done.exit_code == 1
    assert "1200000 rows exceed the 1048575 of a sheet; write them to a file in .csv or .parquet" in done.stderr
    assert not path.exists()


def test_a_screen_of_too_many_rows_is_refused_before_anything_is_computed():
    done = ask("sweep", "-m", MODEL, "-g", GPU, "--isl", "1:1000", "--osl", "1:1000")
    assert done.exit_code == 1
    assert "1,000,000 rows are too many for a screen; write them to a file: -o rows.parquet" in done.stderr


def test_memory_does_not_grow_with_the_rows(tmp_path):
    def peak(isl):
        tracemalloc.start()
        blocks = table_in_blocks(MODEL, GPU, isl=range(1, isl + 1), osl=range(1, 501), tp=1, keys=["isl", "ttft_ms"])
        rows = write_blocks(blocks, str(tmp_path / "rows.csv"), force=True)
        _, most = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        assert rows == 500 * isl
        return most

    peak(10)  # programs are compiled, modules imported
    assert peak(400) < 1.25 * peak(100)  # blocks of 16384 rows: 12 and 3


def test_two_columns_take_their_numbers_and_no_more():
    tracemalloc.start()
    table = rl.table(MODEL, GPU, isl=range(1, 801), osl=range(1, 501), tp=1, keys=["ttft_ms", "tpot_ms"])
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert len(table) == 400_000
    assert most < 400_000 * (8 + 8 + 4) + 24e6


def test_json_of_a_slice_is_that_of_its_rows():
    table = rl.table(MODEL, GPU, isl=[100, 200], keys=["isl"])
    assert json.loads(json.dumps(table[1:])) == [{"isl": 200, "reason": None}]
