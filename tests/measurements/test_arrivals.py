"""Arrivals of traces: columns of public ones, times in seconds and as dates, and what is wrong with a file."""

import random

import pytest

import roofline as rl
from roofline.measurements.arrivals import read_arrivals
from roofline.questions.inputs.arrivals import process_of
from roofline.support.errors import RooflineError


def written(folder, heading, rows):
    path = folder / "trace.csv"
    path.write_text("\n".join([heading, *rows]) + "\n", encoding="utf-8")
    return str(path)


def poisson(count, rate=5.0):
    draw, now = random.Random(1), 0.0
    for _ in range(count):
        now += draw.expovariate(rate)
        yield now


def test_times_in_seconds_and_as_dates_are_the_same_trace(tmp_path):
    times = [round(time, 6) for time in poisson(2000)]
    seconds = read_arrivals(written(tmp_path, "Timestamp,Model,Request tokens", [f"{time},m,5" for time in times]))
    dates = [f"2023-11-16 18:{int(time // 60):02}:{time % 60:09.6f}0,374,44" for time in times]
    azure = read_arrivals(written(tmp_path, "TIMESTAMP,ContextTokens,GeneratedTokens", dates))
    assert azure.times == pytest.approx(seconds.times, abs=2e-6)
    assert seconds.rate == pytest.approx(5.0, rel=0.05)
    assert all(point.dispersion == pytest.approx(1.0, abs=0.35) for point in seconds.points)
    assert seconds.points[0].window < 0.2 / 7 < 0.2 < seconds.points[-1].window < 2000 / 5 / 20


def test_a_trace_is_replayed_at_the_rate_that_is_stated(tmp_path):
    path = written(tmp_path, "timestamp", [str(time) for time in poisson(1000)])
    own = process_of(path, None).rate
    with pytest.raises(RooflineError, match=rf"give request_rate \({own:.3g} is that of the trace\)"):
        rl.predict("llama-3.1-8b", "h100-sxm", arrivals=path)
    assert rl.predict("llama-3.1-8b", "h100-sxm", arrivals=path, request_rate=2.0).workload.request_rate == 2.0


@pytest.mark.parametrize(
    ("heading", "rows", "message"),
    [
        ("time_of_day", ["1"] * 300, "no column timestamp"),
        ("timestamp", ["1", "2", "soon"], "neither a time in seconds nor a date"),
        ("timestamp", [str(n) for n in range(20)], "20 requests are too few"),
        ("timestamp", ["7"] * 300, "too few"),
        ("timestamp", ["1e300"] * 300, "is not a time in seconds"),
    ],
)
def test_what_is_wrong_with_a_trace_is_said(tmp_path, heading, rows, message):
    with pytest.raises(RooflineError, match=message):
        read_arrivals(written(tmp_path, heading, rows))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("idc:", "has no index"),
        ("idc:1s", "has no index"),
        ("idc:1=2", "no unit"),
        ("idc:1s=-2", "between 0 and"),
        ("idc:1s=nan", "between 0 and"),
        ("idc:1s=2,1000ms=3", "1 s twice"),
        ("idc:1s=many", "is not an index"),
        ("bursty", "must be poisson, idc"),
        (5.0, "must be poisson, idc"),
        ({}, "from 1 to 100 windows"),
    ],
)
def test_what_is_wrong_with_arrivals_is_said(text, message):
    with pytest.raises(RooflineError, match=message):
        process_of(text, None)


def test_a_mapping_says_the_same_as_a_text():
    assert process_of({1.0: 1.4, "10s": 3.9}, "random").points == process_of("idc: 1s=1.4, 10s=3.9", None).points
    assert process_of(" Poisson ", None) is None
    assert process_of(None, "round-robin").router == "round-robin"
