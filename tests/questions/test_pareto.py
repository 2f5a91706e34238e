"""The Pareto frontier: equal to brute force, its knee, its options, its ranges, its pictures, and what is refused."""

import json
import math
import random
from itertools import pairwise, product

import pytest
import tiers
from cli.asking import ask, strict_json
from conftest import close
from every_case import each

import roofline as rl
from roofline.questions.pareto import figure_range, frontier_knee, maxima, pareto_picture, pareto_text

MODEL, GPU = "llama-3.1-8b", "h100-sxm"
LESS = ("ttft_ms", "ttft_p99_ms", "tpot_ms", "e2el_ms", "usd_per_m_output_tok", "usd_per_hour")
MORE = ("tok_s_user", "output_tok_s_gpu", "output_tok_s")
PAIRS = [
    ("tok_s_user", "output_tok_s_gpu"), ("ttft_ms", "usd_per_m_output_tok"), ("tpot_ms", "output_tok_s"),
    ("output_tok_s_gpu", "e2el_ms"), ("usd_per_hour", "ttft_p99_ms"), ("ttft_p99_ms", "usd_per_m_output_tok"),
]  # fmt: skip

RATES, COUNTS = [0.1, 0.5, 1.0, 3.0, 8.0, 20.0, 90.0], [1, 2, 3, 5, 8, 13, 40, 100, 200, 2000]


# --- equal to brute force ----------------------------------------------------------------------


def drawn(seed):
    """A case: its model and GPUs, the values tried, and the rest."""
    draw = random.Random(seed)
    model = draw.choice([MODEL, "qwen3-32b", "gpt-oss-20b"])
    gpus = draw.sample([GPU, "h200-sxm", "b200", "l40s", "mi300x", "a100-sxm-80gb"], draw.randint(1, 3))
    load = draw.choice(["batch", "concurrency", "request_rate"])
    tried = {
        "tp": draw.sample([1, 2, 4, 8], draw.randint(1, 2)),
        "quantization": draw.sample([None, "fp8", "bf16"], draw.randint(1, 2)),
        load: sorted(draw.sample(RATES if load == "request_rate" else COUNTS, 6)),
    }
    if model == "gpt-oss-20b":
        tried["ep"], tried["quantization"] = [1, "all"], [None]
    rest = {"isl": draw.choice([300, 2000]), "osl": draw.choice([50, 400])}
    if draw.random() < 0.6:
        rest["slo"] = draw.choice(["ttft:2s,tpot:40", "tpot:20", "ttft:800", "e2el:19s"])
    pair = draw.choice([pair for pair in PAIRS if load != "batch" or "ttft_p99_ms" not in pair])
    return model, gpus, tried, rest, pair


def by_scalars(model, gpus, tried, rest, pair):
    """Options and figures of every point that one question at a time answers and that meets the SLO."""
    points = []
    for gpu, values in product(gpus, product(*tried.values())):
        options = {**dict(zip(tried, values, strict=True)), **rest}
        try:
            row = rl.predict(model, gpu, **options).to_dict((*pair, "slo_met"))
        except (rl.DoesNotFit, rl.Overloaded, rl.UnsupportedPrecision, rl.BadInput):
            continue
        if row["slo_met"] is not False and None not in (row[pair[0]], row[pair[1]]):
            points.append(({"model": model, "gpu": gpu, **options}, (row[pair[0]], row[pair[1]])))
    return points


def beats(one, other, pair):
    """Whether a point is as good as another in both figures, and better in one; last digits aside."""
    sides = [1.0 if key in MORE else -1.0 for key in pair]
    gains = [side * (a - b) / max(abs(a), abs(b)) for side, a, b in zip(sides, one, other, strict=True)]
    return min(gains) > -1e-9 and max(gains) > 1e-9


@tiers.has_more_cases
@pytest.mark.parametrize("seed", tiers.some(range(12), 3))
def test_the_frontier_is_that_of_every_point_alone(seed):
    model, gpus, tried, rest, pair = drawn(seed)
    points = by_scalars(model, gpus, tried, rest, pair)
    best = [mine for _, mine in points if not any(beats(other, mine, pair) for _, other in points)]
    answer = rl.pareto(model, gpus, x=pair[0], y=pair[1], **tried, **rest)
    expected = sorted({tuple(f"{value:.9g}" for value in figures) for figures in best})
    assert sorted(tuple(f"{value:.9g}" for value in point.figures) for point in answer.points) == expected
    assert answer.count >= len(points)


def test_seeds_meet_every_load_reason_and_figure():
    cases = [drawn(seed) for seed in range(12)]
    assert {load for _, _, tried, _, _ in cases for load in tried} >= {"batch", "concurrency", "request_rate", "ep"}
    assert {key for *_, pair in cases for key in pair} >= {"tok_s_user", "usd_per_m_output_tok", "ttft_p99_ms"}
    answers = [rl.pareto(m, g, x=p[0], y=p[1], **t, **r) for m, g, t, r, p in cases]
    reasons = {reason for answer in answers for reason in answer.left_out}
    assert reasons >= {"does not fit", "misses the SLO", "overloaded"}
    assert sum(len(answer.points) > 3 for answer in answers) > 5


def test_points_that_others_dominate_are_dropped_and_equal_ones_kept_once():
    draw = random.Random(7)
    for _ in range(200):
        points = [(draw.randint(0, 6), draw.randint(0, 6)) for _ in range(draw.randint(1, 25))]
        best = {
            one
            for one in points
            if not any(other != one and other[0] >= one[0] and other[1] >= one[1] for other in points)
        }
        places = maxima(points)
        assert {points[place] for place in places} == best
        assert len(places) == len(best)
        assert all(points[one][0] > points[other][0] for one, other in pairwise(places))
        assert all(points.index(points[place]) == place for place in places)


# --- the knee ----------------------------------------------------------------------------------


def test_the_knee_is_farthest_from_the_chord_whatever_the_units():
    points = [(128.0, 1.0), (96.0, 60.0), (20.0, 90.0), (1.0, 128.0)]  # 2^7 on both axes
    beyond = [math.log2(x) / 7.0 + math.log2(y) / 7.0 - 1.0 for x, y in points]
    assert frontier_knee(points) == beyond.index(max(beyond)) == 1
    assert frontier_knee([(1000.0 * x, y / 3600.0) for x, y in points]) == 1
    assert frontier_knee([(1.0 / x, 1.0 / y) for x, y in points]) == 1  # less is better: seconds per token, seconds
    assert frontier_knee([(x, y) for y, x in reversed(points)]) == 2
    for none in (points[:1], points[:2], [(4.0, 1.0), (1.5, 1.5), (1.0, 4.0)]):
        assert frontier_knee(none) is None
    assert frontier_knee([(10.0, 0.0), (9.0, 5.0), (0.0, 6.0)]) == 1  # linear where a figure is 0


# --- points ------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def answer():
    return rl.pareto(MODEL, [GPU, "b200"], quantization="bf16,fp8", isl=1000, osl=300, slo="ttft:1s@p95", engine="vllm")


def test_options_of_a_point_make_it(answer):
    assert len(answer.points) > 10
    for point, row in zip(answer.points, answer.to_rows(), strict=True):
        alone = rl.predict(**json.loads(json.dumps(row["options"])))
        for key, value in alone.to_dict().items():
            same = row[key] == value or (isinstance(value, float) and close(row[key], value, 1e-9))
            assert same, key
        for key, figure in zip(answer.keys, point.figures, strict=True):
            assert close(row[key], figure, 1e-10)
        assert row["slo_met"]
        assert row["fits"]
        assert (row["x"], row["y"]) == answer.keys == ("tok_s_user", "output_tok_s_gpu")
        assert row["quantization"] == point.options["quantization"]


@each("options", [
    {"slo": "e2el:120s,p99:9x"}, {"prefix": "50%"}, {"prefix": "50%", "isl": 4000}, {"slo": {"ttft": "90 s"}},
], ids=str)  # fmt: skip
def test_options_of_a_point_survive_json(options):
    found = rl.pareto(MODEL, GPU, tp=[1, 2], concurrency=[1, 8], **options)
    assert found.points
    for point, row in zip(found.points, found.to_rows(), strict=True):
        alone = rl.predict(**json.loads(json.dumps(row["options"])))
        assert (alone.ttft, alone.slo, alone.workload.prefix) == (
            pytest.approx(point.prediction.ttft, rel=1e-12), point.prediction.slo, point.prediction.workload.prefix
        )  # fmt: skip


def test_points_run_from_the_fastest_user_to_the_fullest_gpu_with_one_knee(answer):
    rows = answer.to_rows()
    assert all(one["tok_s_user"] > other["tok_s_user"] for one, other in pairwise(rows))
    assert all(one["output_tok_s_gpu"] < other["output_tok_s_gpu"] for one, other in pairwise(rows))
    assert [row["frontier_knee"] for row in rows].count(True) == 1
    (place,) = (place for place, row in enumerate(rows) if row["frontier_knee"])
    assert 0 < place < len(rows) - 1
    assert answer.knee is answer.points[place]
    assert place == frontier_knee([point.figures for point in answer.points])
    assert set(answer.by_gpu) == {GPU, "b200"}
    best = {point.figures for point in answer.points}
    assert best <= {figures for figures_of_gpu in answer.by_gpu.values() for figures in figures_of_gpu}


def test_ranges_contain_their_figures_and_follow_from_those_of_latencies(answer):
    for row in answer.to_rows():
        assert row["x_low"] <= row["tok_s_user"] <= row["x_high"]
        assert close(row["x_low"] * row["tpot_high_ms"], 1000.0, 1e-12)
        assert row["y_low"] <= row["output_tok_s_gpu"] <= row["y_high"]
        assert close(row["y_high"] / row["output_tok_s_gpu"], row["e2el_ms"] / row["e2el_low_ms"], 1e-12)


def test_ranges_by_hand():
    burst = rl.predict(MODEL, GPU, batch=8, gpu_price=(2.0, 4.0))
    typical, (low, high) = burst.usd_per_m_output_tok, figure_range(burst, "usd_per_m_output_tok")
    assert close(low / typical, burst.e2el_interval[0] / burst.e2el * 2.0 / 3.0, 1e-12)
    assert close(high / typical, burst.e2el_interval[1] / burst.e2el * 4.0 / 3.0, 1e-12)
    assert figure_range(burst, "ttft_ms") == tuple(burst.to_dict()[f"ttft_{end}_ms"] for end in ("low", "high"))
    assert figure_range(burst, "usd_per_hour") == (2.0, 4.0)
    rate = rl.predict(MODEL, GPU, request_rate=2, gpu_price=(2.0, 4.0))
    assert figure_range(rate, "output_tok_s_gpu") is None  # as much as is asked
    assert figure_range(rate, "usd_per_request") == pytest.approx(
        [rate.usd_per_request * 2.0 / 3.0, rate.usd_per_request * 4.0 / 3.0]
    )
    ideal = rl.predict(MODEL, GPU, basis="ideal", batch=8)
    assert [figure_range(ideal, key) for key in ("tok_s_user", "output_tok_s_gpu", "ttft_ms", "util")] == [None] * 4


# --- what is tried -----------------------------------------------------------------------------


def test_without_a_tp_every_plan_of_the_domain_is_tried():
    tried = rl.pareto(MODEL, "l40s", batch=1, x="ttft", y="tpot")
    assert tried.count == 4  # tp 1, 2, 4, 8 on the 8 cards of a host
    mixture = rl.pareto("gpt-oss-20b", GPU, batch=1, tp=None)
    alone = rl.pareto("gpt-oss-20b", GPU, batch=1, dp=2, ep="all")
    pairs = 4 + 3 + 2 + 1  # tp x dp of at most 8
    assert mixture.count == 2 * pairs - 1  # ep 1 and on all ranks, the same on one
    assert alone.count == 3  # tp 1, 2, 4
    assert rl.pareto(MODEL, "4xh100", batch=1).count == 3
    assert rl.pareto(MODEL, GPU, num_gpus=6, batch=1).count == 2  # replicas of one, and of two
    assert rl.pareto(MODEL, ["h100:tp2:fp8", "h100:tp1x3"], batch=[1, 2]).count == 4


def test_without_a_load_users_fill_all_slots_and_rates_end_below_saturation():
    users = rl.pareto(MODEL, GPU, tp=1, max_num_seqs=50)
    assert users.points[0].options["concurrency"] == 1
    assert users.points[-1].options["concurrency"] == 50
    two = rl.pareto(MODEL, GPU, tp=1, max_num_seqs=50, num_gpus=2)
    assert two.points[-1].options["concurrency"] == 100
    assert rl.pareto(MODEL, GPU, tp=1, num_prompts=30).points[-1].options["concurrency"] == 30
    rates = rl.pareto(MODEL, GPU, tp=1, against="rate", isl_cv=0.5)
    last = rates.points[-1].prediction
    assert 0.97 < last.util < 1.0
    assert rates.left_out == {}


def test_a_prediction_gives_lengths_limits_and_formats():
    p = rl.predict(MODEL, "h100:fp8", isl=700, osl=90, concurrency=3, slo="tpot:9")
    assert (
        rl.pareto(p).to_dict() == rl.pareto(MODEL, "h100", quantization="fp8", isl=700, osl=90, slo="tpot:9").to_dict()
    )


def test_gpus_that_cannot_run_the_case_are_told_and_others_answer():
    mixed = rl.pareto(MODEL, ["a100", "l40s"], quantization="fp8", tp=[1, 3], batch=4)
    assert {name.partition(" ")[0] for name in mixed.refused} == {"a100-sxm-80gb", "l40s"}
    assert any("has no fp8 tensor cores" in note for note in mixed.notes)
    assert {point.options["gpu"] for point in mixed.points} == {"l40s"}
    priced = rl.pareto(MODEL, [GPU, "b100"], tp=1, batch=[1, 8], y="usd_per_m_output_tok")
    assert priced.left_out == {"has no usd_per_m_output_tok": 2}


# --- no point, one point -----------------------------------------------------------------------


@each("options, why, todo", [
    ({"slo": "ttft:1", "batch": [1, 2]}, "misses the SLO: 2", "loosen the SLO"),
    ({"batch": 100_000}, "does not fit: 1", "more GPUs a replica"),
    ({"request_rate": [1e4, 2e4]}, "overloaded: 2", "lower the rate"),
    ({"osl": 1, "batch": 1}, "has no tok_s_user: 1", "a single token has no TPOT"),
    (
        {"request_rate": 0.23, "isl": 20_000, "osl": 40, "engine": "sglang", "max_num_seqs": 1, "isl_cv": 1,
         "slo": "ttft:100s@p99"},
        "has a percentile that is not known: 1", "limit another percentile or a mean",
    ),
    ({"batch": 1, "x": "ttft_p99"}, "has no ttft_p99_ms: 1", "a burst or a finite run no percentiles"),
])  # fmt: skip
def test_where_no_point_is_left_the_reason_says_what_to_do(options, why, todo):
    empty = rl.pareto(MODEL, GPU, tp=1, **options)
    assert (empty.points, empty.knee, empty.to_rows()) == ((), None, [])
    assert why in empty.reason
    assert todo in empty.reason
    assert "0 of " in repr(empty)


def test_a_single_point_is_a_frontier_without_a_knee():
    one = rl.pareto(MODEL, GPU, tp=1, batch=1)
    assert (len(one.points), one.knee, one.reason) == (1, None, None)
    pytest.importorskip("plotext")
    assert "A" in pareto_text(one, 60, 10)


# --- what is refused ---------------------------------------------------------------------------


@each("options, error, said", [
    ({"x": "util"}, rl.BadInput, "x = util has no better side; choose a latency or a price"),
    ({"y": "gpu"}, rl.BadInput, "y = gpu has no better side"),
    ({"x": "tok_s_usr"}, rl.UnknownName, "unknown key 'tok_s_usr' of a figure; did you mean tok_s_user"),
    ({"x": None}, rl.BadInput, "x = None must be a key of a row"),
    ({"x": ["ttft_ms"]}, rl.BadInput, "must be a key of a row"),
    ({"x": "ttft", "y": "ttft_ms"}, rl.BadInput, "x and y are both ttft_ms; a frontier needs two figures"),
    ({"against": "batch"}, rl.BadInput, "against = 'batch' must be rate or users"),
    ({"against": "users", "batch": 1}, rl.BadInput, "two loads; leave out one"),
    ({"batch": 1, "users": 1}, rl.BadInput, "a case has one load"),
    ({"batch": [], "tp": 1}, rl.BadInput, "batch must not be an empty list"),
    ({"batch": range(1, 2_000_001), "tp": [1, 2]}, rl.BadInput, "4000000 points exceed the limit"),
    ({"isl": [1, 2]}, rl.BadInput, "pareto takes one case: isl"),
    ({"tp": 3}, rl.BadInput, "tp = 3 does not divide"),
    ({"dp": 0, "num_gpus": 8, "batch": 1}, rl.BadInput, "dp = 0 must be between 1 and"),
    ({"pp": 0, "batch": 1}, rl.BadInput, "pp = 0 must be between 1 and"),
    ({"num_gpus": 0, "batch": 1}, rl.BadInput, "num_gpus = 0 must be between 1 and"),
    ({"batch": [1, None]}, rl.BadInput, "batch = None must be a number or a list of numbers"),
    ({"concurrency": [True]}, rl.BadInput, "concurrency = True must be a number"),
    ({"measured": {"ttft": 0.1}}, rl.BadInput, "pareto takes no measured"),
    ({"allow_oversize": True}, rl.BadInput, "pareto takes no allow_oversize"),
    ({"quantization": "fp4", "batch": 1}, rl.UnsupportedPrecision, "has no fp4 tensor cores"),
], ids=str)  # fmt: skip
def test_what_has_no_frontier_is_refused(options, error, said):
    with pytest.raises(error, match=said):
        rl.pareto(MODEL, GPU, **options)


def test_a_frontier_needs_a_gpu():
    with pytest.raises(rl.BadInput, match="pareto needs a model and one GPU or several"):
        rl.pareto(MODEL)


# --- pictures and screens ----------------------------------------------------------------------


@pytest.mark.parametrize(("width", "height"), [(60, 9), (119, 20)])
def test_the_picture_in_a_terminal_keeps_to_its_size(answer, width, height):
    pytest.importorskip("plotext")
    lines = pareto_text(answer, width, height).splitlines()
    assert max(map(len, lines)) <= width
    assert len(lines) <= height + 2
    assert "\x1b" not in "".join(lines)
    assert "tokens/s per user" in lines[0]
    drawn_part, legend = "".join(lines[1:height]), "".join(lines[height:])
    assert drawn_part.count("@") == 1
    assert "B" in drawn_part  # b200 is on the frontier
    assert f"a {GPU}" in legend
    assert "b b200" in legend


@pytest.mark.parametrize("pair", [("tok_s_user", "output_tok_s_gpu"), ("output_tok_s_gpu", "queue_ms")])
def test_the_picture_in_a_file_has_plans_ranges_and_the_knee(tmp_path, pair):
    pytest.importorskip("matplotlib")
    drawn_answer = rl.pareto(MODEL, [GPU, "l40s"], x=pair[0], y=pair[1], against="rate", tp=[1, 2])
    path = tmp_path / "frontier.svg"
    pareto_picture(drawn_answer).save(str(path))
    content = path.read_text()
    for words in (MODEL, GPU, "l40s", "tp 1", "frontier"):
        assert words in content, words
    assert ("80 % range" in content) == (pair[0] == "tok_s_user")
    with pytest.raises(rl.BadInput, match="force"):
        pareto_picture(drawn_answer).save(str(path))
    for name, said in (("frontier", "end the name in .svg"), ("frontier.xyz", "charts cannot be written")):
        with pytest.raises(rl.BadInput, match=said):
            pareto_picture(drawn_answer).save(str(tmp_path / name))
    with pytest.raises(rl.BadInput, match="the only point is left out"):
        pareto_picture(rl.pareto(MODEL, GPU, tp=1, batch=10**5)).save(str(tmp_path / "none.svg"))


CASE = ["-m", MODEL, "-g", f"{GPU},l40s", "--tp", "1,2", "-b", "1:64:x4"]


def test_curve_pareto_is_the_same_command():
    one, other = (ask(*words, *CASE, "--json") for words in (["pareto"], ["curve", "--pareto"]))
    assert one.exit_code == 0
    assert one.stdout == other.stdout
    assert len(strict_json(one.stdout)["rows"]) == len(
        rl.pareto(MODEL, [GPU, "l40s"], tp="1,2", batch="1:64:x4").points
    )
    assert "--pareto" in ask("curve", "--help").stdout


def test_a_screen_has_the_picture_and_the_knee_and_fits(monkeypatch):
    pytest.importorskip("plotext")
    for columns, lines in ((80, 24), (120, 40)):
        monkeypatch.setenv("COLUMNS", str(columns))
        monkeypatch.setenv("LINES", str(lines))
        screen = ask("pareto", *CASE[:4], "--isl", "1k", "--osl", "1k", "--slo", "ttft:2s@p95").stdout.splitlines()
        assert len(screen) <= lines - 2
        assert max(map(len, screen)) <= columns
        assert sum(line.startswith("*@ ") for line in screen) == 1  # of the table
        assert any(line.startswith("knee: ") for line in screen)


def test_a_missing_library_leaves_the_table_and_a_note(monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "plotext", None)
    done = ask("pareto", *CASE, "--notes")
    assert done.exit_code == 0
    assert "tok/s/user" in done.stdout
    assert 'charts in a terminal need plotext: pip install "roofline[plot]"' in done.stderr


def test_the_shell_says_why_there_is_no_point():
    done = ask("pareto", *CASE, "--slo", "ttft:1")
    assert done.exit_code == 1
    assert "none of 16 points is left (misses the SLO: 16); loosen the SLO" in done.stderr
    assert ask("pareto", "-m", MODEL).exit_code == ask("pareto", "-m", f"{MODEL},qwen3-8b", "-g", GPU).exit_code == 2
