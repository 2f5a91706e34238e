"""Load curves: their points, their pictures in a terminal and in a file, and what is refused."""

from itertools import pairwise

import numpy as np
import pytest
from cli.asking import ask, strict_json
from conftest import close
from every_case import each

import roofline as rl
from roofline.cli.screen import cell_text
from roofline.questions.curve import CURVE_KEYS, curve_picture
from roofline.serving.shown import ROW_KEYS

MODEL, GPU = "llama-3.1-8b", "h100-sxm"
CASE = {"isl": 1000, "osl": 300, "tp": 1}
SLO = "ttft:150,tpot:15@p99"


@pytest.fixture(scope="module")
def rates():
    return rl.curve(MODEL, GPU, slo=SLO, **CASE)


@pytest.fixture(scope="module")
def users():
    return rl.curve(MODEL, GPU, against="concurrency", slo=SLO, max_num_seqs=64, **CASE)


# --- points ------------------------------------------------------------------------------------


def test_points_run_from_an_idle_server_to_a_full_one(rates):
    assert set(CURVE_KEYS) <= set(ROW_KEYS)
    assert all(list(row) == list(CURVE_KEYS) for row in rates.rows)
    assert {type(row[key]) for row in rates.rows for key in ("tp", "num_gpus")} == {int}
    loads = [row["request_rate"] for row in rates.rows]
    assert loads == sorted(set(loads))
    assert loads[0] <= 0.02 * rates.saturation
    assert 0.9 * rates.saturation <= loads[-1] < rates.saturation
    for key in ("ttft_ms", "ttft_p99_ms", "tpot_ms", "tpot_p99_ms", "output_tok_s_gpu", "util"):
        assert all(fewer[key] <= more[key] * 1.005 for fewer, more in pairwise(rates.rows)), key
    assert all(more["tok_s_user"] <= fewer["tok_s_user"] for fewer, more in pairwise(rates.rows))
    assert all(more["usd_per_m_output_tok"] < fewer["usd_per_m_output_tok"] for fewer, more in pairwise(rates.rows))


def test_a_point_is_the_prediction_at_that_load(rates, users):
    for one, place in ((rates, 10), (users, 5)):
        row = one.rows[place]
        engine = {} if one is rates else {"max_num_seqs": 64}
        load = {one.against: row[one.against]}
        plain = rl.predict(MODEL, GPU, **CASE, **load, **engine, slo=SLO).to_dict(CURVE_KEYS)
        for key in CURVE_KEYS:
            same = row[key] == plain[key] or close(row[key], plain[key], 1e-9)
            assert same, key


def test_a_curve_of_users_goes_beyond_those_for_whom_there_is_a_slot(users):
    loads = [row["concurrency"] for row in users.rows]
    assert users.saturation == 64.0
    assert loads[0] == 1
    assert loads == sorted(set(loads))
    assert loads[-1] > 64
    assert all(load == int(load) for load in loads)
    assert users.rows[-1]["output_tok_s_gpu"] <= 1.001 * max(row["output_tok_s_gpu"] for row in users.rows)


def test_replicas_and_ranks_have_slots_for_as_many_users_as_they_are():
    for plan in ({"num_gpus": 2}, {"dp": 2}):
        assert rl.curve(MODEL, GPU, against="concurrency", max_num_seqs=16, **CASE, **plan).saturation == 32.0


def test_the_goodput_lies_on_the_curve(rates):
    (found,) = rl.goodput(MODEL, GPU, slo=SLO, **CASE)
    assert close(rates.goodput.rate, found.rate, 1e-9)
    speed, output = rates.at_goodput
    near = min(rates.rows, key=lambda row: abs(row["request_rate"] - found.rate))
    assert abs(speed / near["tok_s_user"] - 1.0) < 0.1
    assert abs(output / near["output_tok_s_gpu"] - 1.0) < 0.1
    met = [row["slo_met"] for row in rates.rows]
    assert met == sorted(met, reverse=True)
    assert {True, False} == set(met)
    assert rl.curve(MODEL, GPU, **CASE).goodput is None
    assert rl.curve(MODEL, GPU, slo="ttft:1", **CASE).at_goodput is None


@each(("options", "columns"), [([], 80), (["-g", "b200"], 80), (["--against", "users"], 120)])
def test_a_table_has_the_medians_in_their_ranges_as_predict_writes_them(options, columns):
    command = ["curve", "-m", MODEL, "-g", GPU, "--isl", 1000, "--osl", 300, *options]
    shown = ask(*command, "--all", env={"COLUMNS": str(columns)}).stdout.splitlines()
    rows = strict_json(ask(*command, "--format", "json").stdout)["rows"]
    heading = next(place for place, line in enumerate(shown) if "TTFT p50 ms (80 %)" in line)
    assert "TPOT p50 ms (80 %)" in shown[heading]
    assert max(map(len, shown)) <= columns
    for row, line in zip(rows, shown[heading + 1 :], strict=False):
        for key in ("ttft_p50", "tpot_p50"):
            value, low, high = (row[f"{key}{end}_ms"] for end in ("", "_low", "_high"))
            assert low < value < high
            assert f"{cell_text(value)} ({cell_text(low)}-{cell_text(high)})" in line


def test_the_hardware_limit_has_no_ranges():
    shown = ask("curve", "-m", MODEL, "-g", GPU, "--basis", "ideal").stdout
    assert "TTFT p50 ms " in shown
    assert "80 %" not in shown
    row = rl.curve(MODEL, GPU, basis="ideal").rows[0]
    assert {row[key] for key in CURVE_KEYS if key.endswith(("_low_ms", "_high_ms"))} == {None}


def test_a_notebook_shows_the_means_in_their_ranges(rates):
    html, row = rates._repr_html_(), rates.rows[0]
    assert "TTFT (80 %)" in html
    assert "TPOT (80 %)" in html
    low, high = row["ttft_low_ms"], row["ttft_high_ms"]
    assert f"{row['ttft_ms']:.3g} ms ({low:.3g} to {high:.3g})" in html


# --- pictures ----------------------------------------------------------------------------------


@pytest.mark.parametrize("width", [60, 100])
def test_pictures_in_a_terminal_have_their_legend_and_keep_to_its_width(rates, users, width):
    pytest.importorskip("plotext")
    for one, x_label in ((rates, "requests/s"), (users, "users")):
        text = curve_picture([one], with_ranges=False).text(width, 16)
        assert max(map(len, text.splitlines())) <= width
        for words in ("TTFT [ms]", "TPOT [ms]", "mean", "p99", "tokens/s per user", x_label):
            assert words in text
        assert "TTFT limit" in text
        assert "goodput" in text
        assert "\x1b" not in text


def test_several_curves_are_told_apart_by_their_gpu():
    pytest.importorskip("plotext")
    curves = [rl.curve(MODEL, gpu, **CASE) for gpu in ("h100-sxm", "b200")]
    text = curve_picture(curves).text(100, 18)
    assert "h100-sxm median" in text
    assert "b200 p99" in text


def test_a_single_token_has_a_picture_of_its_ttft():
    pytest.importorskip("plotext")
    text = curve_picture([rl.curve(MODEL, GPU, isl=1000, osl=1, tp=1)]).text(80, 16)
    assert "TTFT [ms]" in text
    assert "TPOT [ms]" not in text


@pytest.mark.parametrize(("suffix", "begin"), [("svg", b"<?xml"), ("PNG", b"\x89PNG")])
def test_pictures_are_written_to_a_file(rates, tmp_path, suffix, begin):
    pytest.importorskip("matplotlib")
    path = tmp_path / f"curve.{suffix}"
    curve_picture([rates]).save(str(path), force=False)
    content = path.read_bytes()
    assert content.startswith(begin)
    assert [one.name for one in tmp_path.iterdir()] == [path.name]
    if suffix == "svg":
        assert b"llama-3.1-8b on 1x h100-sxm (tp 1)" in content
        with pytest.raises(rl.BadInput, match="force"):
            curve_picture([rates]).save(str(path), force=False)
        assert path.read_bytes() == content
        path.write_bytes(b"old")
        curve_picture([rates]).save(str(path), force=True)
        assert path.read_bytes().startswith(begin)


@pytest.mark.parametrize("name", ["curve", "curve.", "curve.xyz", "curve.txt", "no-such-folder/curve.svg"])
def test_a_file_that_no_picture_can_be_written_to_is_refused(rates, tmp_path, name):
    pytest.importorskip("matplotlib")
    with pytest.raises(
        rl.BadInput, match=r"charts cannot be written|not a picture; end the name in .svg, .png or .pdf|no-such-folder"
    ):
        curve_picture([rates]).save(str(tmp_path / name), force=False)
    assert list(tmp_path.iterdir()) == []


# --- what is refused ---------------------------------------------------------------------------


@each("options, said", [
    ({"against": "x"}, "against = 'x' must be rate or users"),
    ({"against": "batch"}, "must be rate or users"),
    ({"against": np.array([1.0, 2.0])}, "must be rate or users"),
    ({"against": None}, "must be rate or users"),
    ({"against": ["request_rate"]}, "must be rate or users"),
    ({"batch": 4}, "takes no batch: "),
    ({"request_rate": 1.0}, "takes no request_rate: "),
    ({"concurrency": 1}, "takes no concurrency: "),
    ({"num_prompts": 100}, "takes no num_prompts: "),
    ({"slo": "ttft:soon"}, "'soon' is not a time; write it as 300, 300ms or 0.3s"),
    ({"slo": SLO, "share": 0.0}, "share"),
    ({"slo": SLO, "share": 2.0}, "share"),
], ids=str)  # fmt: skip
def test_what_no_curve_can_be_drawn_of_is_refused(options, said):
    with pytest.raises(rl.BadInput, match=said):
        rl.curve(MODEL, GPU, **{**CASE, **options})


def test_a_curve_has_the_plan_of_the_goodput_and_without_an_slo_that_of_the_cheapest_tokens():
    case = {"quantization": "fp8", "slo": "ttft:1s@p95,tpot:40"}
    drawn = rl.curve("llama-3.3-70b", "8xh100", **case)
    (found,) = rl.goodput("llama-3.3-70b", "8xh100", **case)
    assert drawn.prediction.deployment.plan.tp == found.prediction.deployment.plan.tp == 2
    assert drawn.goodput.rate == found.rate
    (cheapest,) = rl.cost("llama-3.3-70b", "h100", quantization="fp8")
    drawn = rl.curve("llama-3.3-70b", "h100", quantization="fp8")
    assert drawn.prediction.deployment.plan.tp == cheapest.to_dict()["tp"]
