"""Lengths that spread: their moments, the traces that they are read from, and what is refused."""

import random
import statistics

import numpy as np
import pytest
from conftest import close
from every_case import each

import roofline as rl
from roofline.measurements.tables import read_trace
from roofline.serving.latency import EQUAL, MOST_CV, lengths_by_law, lengths_of_rows

SMALL = ("llama-3.1-8b", "h100-sxm")
ROWS = [(100.0, 10.0), (300.0, 50.0), (200.0, 20.0), (1400.0, 120.0)]
SPREADS = [("lognormal", cv) for cv in (0.05, 0.3, 1.0, 2.0)] + [("uniform", cv) for cv in (0.05, 0.3, 0.577)]


def predicted(**options):
    return rl.predict(*SMALL, request_rate=2.0, **options)


@pytest.fixture
def trace(tmp_path, monkeypatch):
    """Writes a trace into the working directory and gives its name."""
    monkeypatch.chdir(tmp_path)

    def written(text, name="trace.csv"):
        (tmp_path / name).write_text(text, encoding="utf-8")
        return name

    return written


# --- laws --------------------------------------------------------------------------------------


@each(("law", "cv"), SPREADS)
def test_nodes_have_the_mean_and_the_variance_that_were_asked_for(law, cv):
    spread = lengths_by_law(law, cv, 0.0).prompts
    mean = sum(weight * length for weight, length in spread.nodes)
    square = sum(weight * length**2 for weight, length in spread.nodes)
    assert close(sum(weight for weight, _ in spread.nodes), 1.0, 1e-9)
    assert close(mean, 1.0, 1e-6)
    if cv <= 1.0:  # far tails of a log-normal are beyond nine nodes
        assert close(square - mean**2, cv**2, 1e-6)
    assert close(spread.biased, 1.0 + cv**2)


@each(("law", "cv"), SPREADS)
def test_slices_are_whole_and_hold_the_quantiles_of_the_law(law, cv):
    spread = lengths_by_law(law, 0.0, cv).answers
    assert close(sum(weight for weight, _ in spread.slices), 1.0, 1e-9)
    lengths = [length for _, length in spread.slices]
    assert lengths == sorted(lengths)
    assert lengths[0] > 0.0
    whole, generator = lengths_by_law(law, 0.0, cv), random.Random(4)
    drawn = [whole.draw(generator)[1] for _ in range(20_000)]
    reached = 0.0
    for weight, length in spread.slices:
        share = sum(one <= length for one in drawn) / len(drawn)
        assert abs(share - (reached + weight / 2.0)) <= 0.015
        reached += weight
    assert abs(statistics.fmean(drawn) - 1.0) <= 0.02 * (1.0 + cv**2)


def test_prompts_and_answers_spread_each_by_its_own():
    found = lengths_by_law("lognormal", 0.5, 0.0)
    assert (found.prompts.is_fixed, found.answers.is_fixed, EQUAL.is_fixed, found.product) == (False, True, True, 1.0)


@each(
    ("options", "error", "said"),
    [
        ({"isl_cv": -0.1}, rl.BadInput, "isl_cv = -0.1 must be between 0 and 3"),
        ({"osl_cv": 3.5}, rl.BadInput, "osl_cv = 3.5 must be between 0 and 3"),
        ({"isl_cv": float("nan")}, rl.BadInput, "isl_cv = nan"),
        ({"isl_cv": "wide"}, rl.BadInput, "isl_cv = 'wide' is not a share such as 80% or 0.8"),
        ({"isl_cv": True}, rl.BadInput, "isl_cv = True"),
        ({"isl_cv": [0.1, 0.5]}, rl.BadInput, "isl_cv = .* must be a number"),
        ({"lengths": "uniform", "isl_cv": 0.6}, rl.BadInput, "between 0 and 0.577 for uniform lengths"),
        (
            {"lengths": "log-normal", "isl_cv": 0.6},
            rl.UnknownName,
            "distribution 'log-normal'; choose from lognormal, uni",
        ),
        ({"lengths": np.array([1, 2])}, rl.BadInput, "must be a distribution, the path of a trace, or columns"),
        ({"lengths": "gaussian"}, rl.UnknownName, "'gaussian'; choose from lognormal, uniform, or a trace"),
        ({"lengths": "uniform"}, rl.BadInput, "give isl_cv or osl_cv"),
        ({"lengths": 7}, rl.BadInput, "= 7 must be a distribution, the path of a trace, or columns isl and osl"),
        ({"lengths": {"isl": [100]}}, rl.BadInput, "columns isl and osl"),
        ({"lengths": {"isl": [100, 200], "osl": [10]}}, rl.BadInput, "have 2 isl and 1 osl"),
        ({"lengths": {"isl": [100, 0], "osl": [10, 10]}}, rl.BadInput, "isl"),
        ({"lengths": {"isl": [], "osl": []}}, rl.BadInput, "isl must not be an empty list"),
    ],
    ids=str,
)
def test_lengths_that_cannot_be_are_refused(options, error, said):
    with pytest.raises(error, match=said):
        predicted(**options)


def test_a_uniform_length_reaches_down_to_zero_and_no_further():
    assert close(MOST_CV["uniform"], 3.0**-0.5)
    spread = lengths_by_law("uniform", MOST_CV["uniform"], 0.0).prompts
    assert min(length for _, length in spread.slices) > 0.0


def test_longer_and_shorter_requests_of_one_mean_take_longer_at_the_end():
    plain, wide = predicted(isl=2000, osl=300), predicted(isl=2000, osl=300, isl_cv=0.5, osl_cv=0.8)
    for key in ("ttft_p99", "tpot_p99", "e2el_p99"):
        assert wide.latency(key) > plain.latency(key)
    assert "lognormal, cv 0.5 and 0.8" in str(wide)


# --- traces ------------------------------------------------------------------------------------


def test_a_trace_has_its_own_means_spread_and_product():
    isl, osl, lengths = lengths_of_rows(ROWS, "here")
    prompts, answers = zip(*ROWS, strict=True)
    assert (isl, osl) == (500.0, 50.0)
    assert close(lengths.prompts.cv, statistics.pstdev(prompts) / isl, 1e-9)
    assert close(lengths.answers.cv, statistics.pstdev(answers) / osl, 1e-9)
    assert close(lengths.product * isl * osl, statistics.fmean(a * b for a, b in ROWS), 1e-9)
    for spread in (lengths.prompts, lengths.answers):
        for pairs in (spread.nodes, spread.slices):
            assert close(sum(weight for weight, _ in pairs), 1.0, 1e-9)
        assert close(sum(weight * length for weight, length in spread.nodes), 1.0, 1e-9)
    generator = random.Random(1)
    assert {lengths.draw(generator) for _ in range(200)} == {(a / isl, b / osl) for a, b in ROWS}
    assert str(lengths).startswith("4 requests of here, cv ")


def test_a_trace_is_a_file_or_columns_and_its_means_are_those_of_the_answer(trace):
    name = trace("isl,osl\n" + "".join(f"{a:g},{b:g}\n" for a, b in ROWS))
    one = predicted(lengths=name)
    other = predicted(lengths={"isl": [a for a, _ in ROWS], "osl": [b for _, b in ROWS]})
    assert (one.workload.isl, one.workload.osl) == (500.0, 50.0)
    assert (one.ttft, one.e2el) == (other.ttft, other.e2el)
    assert close(one.concurrency, one.request_rate * one.e2el, 1e-9)
    assert one.latency("ttft_p99") > 1.1 * predicted(isl=500, osl=50).latency("ttft_p99")


def test_a_trace_of_equal_requests_is_no_spread():
    same = predicted(lengths={"isl": [500, 500], "osl": [50, 50]})
    plain = predicted(isl=500, osl=50)
    for key in ("ttft", "tpot", "e2el", "ttft_p99", "e2el_p99"):
        assert close(same.latency(key), plain.latency(key), 1e-9)


def test_columns_may_be_named_as_public_traces_name_them(trace):
    azure = trace(
        "TIMESTAMP,ContextTokens,GeneratedTokens\n2023-11-16 18:17:03.97,374,44\n2023-11-16 18:17:04.03,396,109\n"
    )
    assert read_trace(azure) == [(374.0, 44.0), (396.0, 109.0)]
    burst = trace("Timestamp,Model,Request tokens,Response tokens,Total tokens\n5,ChatGPT,472,18,490\n", "burst.csv")
    assert read_trace(burst) == [(472.0, 18.0)]
    assert read_trace(trace("osl,isl\n1,2\n", "turned.csv")) == [(2.0, 1.0)]


@each(
    ("text", "said"),
    [
        ("isl,osl\n100,10\n-5,10\n", r"trace\.csv:3: isl = '-5' must be from 1 to a billion tokens"),
        *((f"isl,osl\n100,{osl}\n", rf"trace\.csv:2: osl = '{osl}'") for osl in ("many", "nan", "inf", "0", "")),
        ("isl,tokens\n100,10\n", r"trace\.csv: no column osl .* its columns are isl, tokens"),
        ("isl,osl\n", r"trace\.csv: has no requests"),
        ("", r"trace\.csv"),
    ],
)
def test_a_trace_with_a_fault_is_refused_with_file_and_line(trace, text, said):
    with pytest.raises(rl.BadInput, match=said):
        predicted(lengths=trace(text))


BESIDE = {"isl": [100, 200], "osl": [10, 20]}


@each(
    ("options", "said"),
    [
        ({"lengths": "no/such/trace.csv"}, r"no/such/trace\.csv"),
        ({"lengths": BESIDE, "isl": 2000}, "a trace has its own lengths; leave out isl = 2000"),
        ({"lengths": BESIDE, "osl": 300}, "leave out osl = 300"),
        ({"lengths": BESIDE, "isl_cv": 0.5}, "leave out isl_cv"),
    ],
)
def test_a_trace_that_is_not_there_and_lengths_beside_one_are_refused(options, said):
    with pytest.raises(rl.BadInput, match=said):
        predicted(**options)
