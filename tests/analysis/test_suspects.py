"""Which part of a pass is suspected: by its own residuals, by what it explains, never faster than the hardware."""

import math

import pytest

from roofline.questions.diagnosis import MOST_SUSPECTS, PartOf, Timed, ranked_suspects


def timed(metric, measured, *parts, sigma=0.2, is_outside=True):
    """A measured time whose prediction is the sum of its parts."""
    return Timed(metric, measured, sum(part.time for part in parts), parts, sigma, is_outside)


def test_the_part_that_is_least_certain_comes_first():
    parts = PartOf("linear layers", 5.0, 0.05, 1.0), PartOf("attention", 5.0, 0.35, 1.0)
    first, *_ = ranked_suspects([timed("tpot", 12.0, *parts)])
    assert first.part == "attention"
    assert first.sigmas == pytest.approx(math.log(first.factor) / 0.35)


def test_what_explains_both_times_comes_before_what_explains_one():
    shared, alone = PartOf("host", 2.0, 0.5, 0.0), PartOf("queue", 5.0, 0.5, 0.0)
    both = [timed("ttft", 10.0, shared, alone), timed("tpot", 8.0, shared, PartOf("linear layers", 3.0, 0.1, 0.0))]
    first = ranked_suspects(both)[0]
    assert (first.part, first.explains) == ("host", ("ttft", "tpot"))
    assert first.factor == pytest.approx(2.5, rel=0.1)  # 5 + 2.5 x 2 = 10, and 3 + 2.5 x 2 = 8


def test_a_time_inside_its_range_need_not_be_met_but_is_not_spoilt():
    host = PartOf("host", 2.0, 0.5, 0.0)
    inside = timed("ttft", 10.0, host, PartOf("linear layers", 8.0, 0.1, 4.0), sigma=0.05, is_outside=False)
    outside = timed("tpot", 9.0, host, PartOf("linear layers", 4.0, 0.1, 2.0))
    found = {suspect.part: suspect for suspect in ranked_suspects([inside, outside])}
    assert found["host"].explains == ("tpot",)
    assert found["host"].factor == pytest.approx(2.5, rel=0.1)  # 2 + 3 = 2.5 x 2


def test_no_part_is_suspected_of_being_faster_than_the_hardware():
    fast = PartOf("linear layers", 8.0, 0.3, 7.9), PartOf("attention", 2.0, 0.3, 0.1)
    assert ranked_suspects([timed("tpot", 6.0, *fast)]) == ()
    slow = PartOf("linear layers", 8.0, 0.3, 1.0), PartOf("attention", 2.0, 0.3, 0.1)
    assert [suspect.part for suspect in ranked_suspects([timed("tpot", 6.0, *slow)])] == ["linear layers"]


def test_nothing_is_suspected_of_more_than_its_residuals_allow():
    parts = PartOf("linear layers", 5.0, 0.05, 1.0), PartOf("head", 5.0, 0.05, 1.0)
    assert ranked_suspects([timed("tpot", 20.0, *parts)]) == ()


def test_at_most_two_are_named():
    parts = [PartOf(name, 2.0, 0.5, 0.0) for name in ("a", "b", "c", "d")]
    assert len(ranked_suspects([timed("tpot", 9.0, *parts)])) == MOST_SUSPECTS == 2
