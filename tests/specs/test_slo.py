"""One grammar of limits: for the shell, for Python and for files."""

import math
import re

import pytest
from conftest import close
from every_case import each
from hypothesis import given
from hypothesis import strategies as st

import roofline as rl
from roofline.questions.inputs.arguments import slo_limits, with_p99_within
from roofline.specs.workload import (
    Limits,
    check_limits,
    key_of,
    key_text,
    limits_of_text,
    limits_text,
    limits_words,
    metric_and_level,
)
from roofline.support.errors import BadInput

SMALL = ("llama-3.1-8b", "h100-sxm")


@each(
    ("text", "limits"),
    [
        ("ttft:300", {"ttft": 0.3}),
        ("ttft:300@p95,tpot:25", {"ttft_p95": 0.3, "tpot": 0.025}),
        ("ttft:300ms@p95 tpot:0.025s", {"ttft_p95": 0.3, "tpot": 0.025}),
        ("TTFT:300 , Tpot : 25", {"ttft": 0.3, "tpot": 0.025}),
        ("e2el:8s@p99", {"e2el_p99": 8.0}),
        ("e2el:8 s @ p99", {"e2el_p99": 8.0}),
        ("ttft:300@95", {"ttft_p95": 0.3}),
        ("ttft:300@p95%", {"ttft_p95": 0.3}),
        ("ttft:300@p99.9", {"ttft_p99.9": 0.3}),
        ("ttft:300@mean", {"ttft": 0.3}),
        ("ttft@mean:300,tpot:25@p90", {"ttft": 0.3, "tpot_p90": 0.025}),
        ("ttft_p95:300", {"ttft_p95": 0.3}),
        ("ttft@p95:300", {"ttft_p95": 0.3}),
        ("ttft:300,ttft:500@p99,ttft:400@p95", {"ttft": 0.3, "ttft_p99": 0.5, "ttft_p95": 0.4}),
        ("itl:25,e2e:8s", {"itl": 0.025, "e2el": 8.0}),
        ("itl:40@p99,tpot:25", {"itl_p99": 0.04, "tpot": 0.025}),
        ("inter_token_latency:25", {"tpot": 0.025}),
        ("latency:8s@p50", {"e2el_p50": 8.0}),
        ("ttft:3e2,tpot:25000us", {"ttft": 0.3, "tpot": 0.025}),
        ("p99:2x", {"p99_within": 2.0}),
        ("p99-within:1.5", {"p99_within": 1.5}),
        ("ttft:300@p95,tpot:25,e2el:8s@p99,p99:2x",
         {"ttft_p95": 0.3, "tpot": 0.025, "e2el_p99": 8.0, "p99_within": 2.0}),
    ],
)  # fmt: skip
def test_a_text_names_latencies_percentiles_and_times(text, limits):
    found = limits_of_text(text)
    assert found.keys() == limits.keys()
    assert all(close(found[key], limit) for key, limit in limits.items())
    assert slo_limits(text) == found
    assert type(found) is Limits


def test_a_text_that_is_no_slo_is_refused_in_a_line():
    for text in [
        "", "   ", ",", "300", "ttft", "ttft:", ":300", "ttft:300,", "ttft:300,,tpot:25", "ttft=300", "ttft:fast",
        "ttft:0", "ttft:-5", "ttft:nan", "ttft:inf", "ttft:1e400", "ttft:300@p0", "ttft:300@p100", "ttft:300@p-5",
        "ttft:300@pnan", "ttft:300@pinf", "ttft:300@p", "ttft:300@", "ttft:300@median", "ttft:300@p95@p99",
        "ttft:300,ttft:200", "ttft:300@p95,ttft_p95:200", "tpot:20,inter_token_latency:30", "ttft@p95:300@p95",
        "ttft:300@p9.5.1", "itl:20,itl:30",
        "p99:0.5x", "p99:1x", "p99:x", "p99:nan", "p99:-2x", "p99:1e400", "ttft:300kg", "ttft:3 0 0",
        "ttft@mean:300@p95", "ttft@p95:300@mean", "p99:2x@mean", "p99@mean:2x", "ttft:300,ttft:300@mean",
        "ttft:300@avg",
        "ttft:300," * 55 + "tpot:25",
    ]:  # fmt: skip
        with pytest.raises(rl.BadInput) as fault:
            limits_of_text(text)
        assert len(str(fault.value)) < 250
        with pytest.raises(rl.BadInput):
            rl.predict(*SMALL, request_rate=1.0, slo=text)
    for text in ["ttfd:300", "speed:3", "ttft_q95:300", "p95:300", "p99@p95:2x"]:
        with pytest.raises(
            rl.UnknownName, match=r"unknown SLO key .*; choose from ttft, tpot, itl, e2el, as in ttft:300@p95"
        ):
            limits_of_text(text)
    with pytest.raises(rl.BadInput, match="500 characters") as fault:
        limits_of_text("ttft:300@p95" + "0" * 488)
    assert len(str(fault.value)) < 150


def test_a_mapping_has_seconds_or_units_percentiles_and_means():
    for slo, limits in [
        ({"ttft": 0.3}, {"ttft": 0.3}), ({"ttft": 1}, {"ttft": 1.0}), ({"ttft": "300 ms"}, {"ttft": 0.3}),
        ({"ttft_p95": 0.3}, {"ttft_p95": 0.3}), ({"ttft@p95": "300 ms"}, {"ttft_p95": 0.3}),
        ({"TTFT": "300 ms @ p95"}, {"ttft_p95": 0.3}),
        ({"ttft": "0.3 s@p95", "itl": 0.025}, {"ttft_p95": 0.3, "itl": 0.025}),
        ({"e2el@p99": "120 s"}, {"e2el_p99": 120.0}), ({"p99_within": 2}, {"p99_within": 2.0}),
        ({"p99": "2x", "e2el": 8.0}, {"p99_within": 2.0, "e2el": 8.0}), ({}, {}),
    ]:  # fmt: skip
        assert slo_limits(slo) == limits
    assert slo_limits({"ttft@mean": 0.3, "tpot": "25 ms@mean"}) == {"ttft": 0.3, "tpot": 0.025}
    with pytest.raises(BadInput, match="must be a time"):
        slo_limits({"ttft@mean": "300 ms@p95"})
    long = slo_limits("e2el:120s@p99,ttft:90s")
    assert slo_limits(long) == long == {"e2el_p99": 120.0, "ttft": 90.0}
    with pytest.raises(rl.BadInput):
        check_limits(Limits(ttft=-1.0))
    assert with_p99_within(slo_limits("ttft:300"), 2.0) == {"ttft": 0.3, "p99_within": 2.0}
    assert with_p99_within(None, 2.0) == {"p99_within": 2.0}
    with pytest.raises(rl.BadInput, match="once"):
        with_p99_within(slo_limits("p99:3x"), 2.0)


@each(
    ("slo", "error", "said"),
    [
        ({"ttft": 300}, rl.BadInput, "300 is over a minute .bare numbers are seconds.; write 0.3 for 300 ms"),
        ({"ttft_p95": 300}, rl.BadInput, "write 0.3"), ({"ttft": 0.0}, rl.BadInput, "positive"),
        ({"ttft": math.nan}, rl.BadInput, "positive"), ({"ttft": math.inf}, rl.BadInput, "positive"),
        ({"ttft": "soon"}, rl.BadInput, "must be a time in seconds"),
        ({"ttft": "-1 s"}, rl.BadInput, "must be a time in seconds"),
        ({"ttft@p100": 0.3}, rl.BadInput, "p100 is not a percentile; it must be between p0 and p100"),
        ({"ttft_p0": 0.3}, rl.BadInput, "p0 is not a percentile; it must be between p0 and p100"),
        ({"ttft": 0.3, "TTFT": 0.4}, rl.BadInput, "'ttft' is limited twice"),
        ({"ttft_p95": 0.3, "ttft": "400 ms@p95"}, rl.BadInput, "'ttft_p95' is limited twice"),
        ({"tpot": 0.02, "inter_token_latency": 0.03}, rl.BadInput, "'tpot' is limited twice"),
        ({"p99_within": 1.0}, rl.BadInput, "above 1"), ({"p99_within": "0.5x"}, rl.BadInput, "above 1"),
        ({"p99_within": math.nan}, rl.BadInput, "p99_within"),
        ({"p95_within": 2.0}, rl.UnknownName, "unknown SLO key 'p95_within'; choose from ttft, tpot, itl, e2el"),
        ({5: 0.3}, rl.UnknownName, "unknown SLO key 5; choose from ttft, tpot, itl, e2el"),
        ({"": 0.3}, rl.UnknownName, "unknown SLO key ''; choose from ttft, tpot, itl, e2el"),
        (0.3, rl.BadInput, "must be a mapping of limits in seconds"),
        ([("ttft", 0.3)], rl.BadInput, "must be a mapping of limits in seconds"),
    ],
    ids=str,
)  # fmt: skip
def test_a_mapping_that_is_no_slo_is_refused(slo, error, said):
    with pytest.raises(error, match=said):
        slo_limits(slo)


keys = st.builds(
    key_of, st.sampled_from(("ttft", "tpot", "e2el")), st.none() | st.sampled_from((1.0, 50.0, 95.0, 99.9))
)
times = st.builds(lambda digits, power: float(f"{digits}e{power}"), st.integers(1, 999), st.integers(-5, 1))


@given(
    limits=st.dictionaries(keys, times, min_size=1, max_size=6), within=st.none() | st.sampled_from((1.25, 2.0, 12.5))
)
def test_limits_survive_the_way_to_text_and_back(limits, within):
    whole = limits if within is None else {**limits, "p99_within": within}
    again = limits_of_text(limits_text(whole))
    assert list(again) == list(whole)
    assert all(close(again[key], limit, 1e-9) for key, limit in whole.items())


@given(metric=st.sampled_from(("ttft", "tpot", "e2el")), level=st.floats(0.01, 99.9999))
def test_a_key_says_its_latency_and_its_percentile(metric, level):
    found, again = metric_and_level(key_of(metric, level))
    assert found == metric
    assert close(again, level, 1e-5)
    assert slo_limits({f"{metric}@p{level:.4f}": 0.3}) == limits_of_text(f"{metric}:300@p{level:.4f}")


def test_keys_and_limits_are_read_aloud():
    assert [key_text(key) for key in ("ttft", "tpot_p99", "p99_within")] == ["TTFT", "TPOT p99", "p99/median"]
    limits = {"ttft": 0.3, "tpot_p99": 0.025, "p99_within": 2.0}
    assert limits_words(limits) == "TTFT <= 300 ms, TPOT p99 <= 25 ms, p99 <= 2x the median"
    assert limits_words(limits, is_mean=True) == "mean TTFT <= 300 ms, TPOT p99 <= 25 ms, p99 <= 2x the median"


def test_an_answer_says_of_each_limit_whether_it_is_met():
    found = rl.predict(*SMALL, isl=1000, osl=300, request_rate=6.0, slo="ttft:300@p95,tpot:5,e2el:60s@p99,p99:9x")
    shares = found.slo_shares
    assert list(shares) == ["ttft_p95", "tpot", "e2el_p99", "p99_within"]
    assert close(shares["ttft_p95"], found.latency("ttft_p95") / 0.3)
    assert close(shares["tpot"], found.tpot / 0.005)
    ratios = [found.latency(f"{metric}_p99") / found.latency(f"{metric}_p50") for metric in ("ttft", "tpot")]
    assert close(shares["p99_within"], max(ratios) / 9.0, 1e-9)
    row = found.to_dict()
    assert (row["slo_met"], row["slo_binding"]) == (False, "tpot")
    text = " ".join(str(found).split())
    signs = re.search(
        r"TTFT p95 .* (<=|>) 300 ms, mean TPOT .* (<=|>) 5 ms, E2EL p99 .* (<=|>) 60 s, .* (<=|>) 9x: fail ", text
    )
    assert signs is not None
    assert signs.groups() == ("<=", ">", "<=", "<=")


def test_bursts_single_tokens_and_runs_are_judged_as_what_they_are():
    found = rl.predict(*SMALL, isl=1000, osl=300, batch=4, slo="ttft:300@p99,ttft:300,p99:1.5x")
    assert found.slo_shares["ttft_p99"] == found.slo_shares["ttft"]
    assert close(found.slo_shares["p99_within"], 1.0 / 1.5)
    one = rl.predict(*SMALL, osl=1, slo="tpot:25")
    column = rl.predict(*SMALL, osl=[1, 2], slo="tpot:25")
    assert one.to_dict()["slo_met"] is None
    assert column.to_dict()["slo_met"] == [None, True]
    assert rl.predict(*SMALL, osl=[1, 2], slo="tpot:1").to_dict()["slo_met"] == [None, False]
    found = rl.predict(*SMALL, concurrency=4, num_prompts=40, slo="itl:25")
    assert found.latency("tpot") == found.latency("itl") == found.tpot
    assert found.latency("ttft_p99") is None


@pytest.mark.parametrize("level", [99.99999, 0.00001])
def test_a_percentile_of_seven_digits_is_kept_or_refused_as_what_it_is(level):
    try:
        found = slo_limits({f"ttft@p{level:.7f}": 0.3})
    except rl.BadInput as fault:
        assert f"{level:.7f}"[:7] in str(fault)
        return
    assert close(metric_and_level(next(iter(found)))[1], level, 1e-9)
