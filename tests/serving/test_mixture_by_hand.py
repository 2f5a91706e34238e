"""Mixtures of gammas at numbers that can be worked out: exponential waits, places of a normal, groups of prompts."""

from math import exp, inf

import pytest
from every_case import each

from roofline.serving.latency import Spread
from roofline.serving.load.tails import (
    Component,
    by_prompt_length,
    gamma_survival,
    mean_of,
    merged,
    percentile,
    survival,
)

exactly = lambda number: pytest.approx(number, rel=1e-12, abs=1e-12)  # noqa: E731


def test_where_waits_are_rare_a_share_waits_an_exponential_time():
    # mean 2, variance 12: k = 1/3, half of the requests wait, 4 on average
    assert gamma_survival(0.0, 2.0, 12.0) == exactly(0.5)
    assert gamma_survival(4.0, 2.0, 12.0) == exactly(0.5 * exp(-1))
    assert gamma_survival(-1e-9, 2.0, 12.0) == 1.0
    # k = 1: all wait exponentially
    assert gamma_survival(6.0, 2.0, 4.0) == exactly(exp(-3))


@each(
    ("place", "above"),
    [
        (0.0, 0.5), (1.0, 0.158655254), (2.0, 0.0227501319), (-1.0, 0.841344746), (3.0, 0.00134989803),
        (-3.0, 0.998650102),
    ],
)  # fmt: skip
def test_many_small_waits_follow_a_normal_in_their_cube_root(place, above):
    # k = 4, so that 3 k^0.5 = 6: t = mean (1 - 1/36 + place/6)^3; shares of a normal as tables have them
    time = 8.0 * (1 - 1 / 36 + place / 6) ** 3
    assert gamma_survival(time, 8.0, 16.0) == pytest.approx(above, abs=1e-7)


def test_a_survival_adds_its_parts_each_beyond_its_least_and_not_beyond_its_most():
    rare = Component(0.75, 1.0, 2.0, 12.0)
    ends = Component(0.25, 3.0, 2.0, 4.0, most=5.0)
    assert survival((rare, ends), 0.5) == exactly(1.0)
    assert survival((rare, ends), 5.0) == exactly(0.75 * 0.5 * exp(-1) + 0.25 * exp(-1))
    assert survival((rare, ends), 9.0) == exactly(0.75 * 0.5 * exp(-2))
    assert survival((ends,), 8.0) == 0.0  # its most is where it ends


def test_a_percentile_of_an_exponential_is_its_logarithm():
    part = Component(1.0, 5.0, 2.0, 4.0)
    assert survival((part,), percentile((part,), 90.0)) == pytest.approx(0.1, rel=2e-6)  # a millionth beyond, see below
    assert percentile((part,), 99.0) == pytest.approx(5 + 2 * 4.605170186, rel=1e-6)


def test_some_of_the_requests_take_longer():
    assert Component(0.5, 1.0, 2.0, 3.0, 4.0).later(10.0, 0.25) == Component(0.125, 11.0, 2.0, 3.0, 4.0)


def test_merged_parts_have_the_variance_within_and_between_them():
    parts = Component(0.1, 1.0, 2.0, 3.0), Component(0.3, 5.0, 2.0, 7.0)
    # 3 and 7 with weights 1 to 3: mean 6, within 6, between 3; the least is the first's
    assert merged(parts) == Component(exactly(0.4), 1.0, exactly(5.0), exactly(9.0))
    none = Component(0.0, 0.5, 0.0, 0.0)
    assert merged((none, *parts)).least == 1.0  # nobody has it
    assert merged((Component(0.5, 2.0, 0.0, 0.0),)) == Component(0.5, 2.0, 0.0, 0.0, inf)


def test_a_percentile_at_a_jump_is_on_its_slower_side():
    # 99 % take 1 to a little over 1 s, 1 % take 9 s: each time between leaves 1 %
    parts = Component(0.99, 1.0, 0.0, 0.0), Component(0.01, 9.0, 0.0, 0.0)
    assert percentile(parts, 99.0) == pytest.approx(9.0, rel=1e-6)
    assert percentile(parts, 98.9) == pytest.approx(1.0, rel=1e-6)
    level = 100.0 * (1.0 - 0.008)
    assert percentile((parts[0]._replace(weight=0.992), parts[1]._replace(weight=0.008)), level) == pytest.approx(9.0)
    cold = percentile((Component(0.99, 1.0, 0.2, 0.04), Component(0.01, 9.0, 0.2, 0.04)), 99.0)
    assert 8.999 < cold < 9.01


def test_the_mean_of_a_mixture_is_that_of_its_parts_by_weight():
    assert mean_of((Component(0.25, 1.0, 3.0, 5.0), Component(0.75, 2.0, 0.0, 0.0))) == exactly(2.5)


def test_prompts_are_grouped_into_the_shorter_half_most_of_the_longer_and_the_longest():
    prompts = Spread(cv=0.1, slices=((0.3, 0.8), (0.25, 0.9), (0.37, 1.1), (0.08, 1.5)))
    parts = [
        Component(share * weight, later + time, 0.0, 0.0)
        for weight, time in ((0.3, 1.0), (0.25, 2.0), (0.37, 4.0), (0.08, 8.0))
        for share, later in ((0.75, 10.0), (0.25, 0.0))  # with others, and on an idle server: not mixed
    ]
    found = by_prompt_length(parts, prompts)
    weights = [exactly(share * weight) for weight in (0.55, 0.37, 0.08) for share in (0.75, 0.25)]
    assert [each_part.weight for each_part in found] == weights
    mean = (0.3 + 0.5) / 0.55
    times = [exactly(later + time) for time in (mean, 4.0, 8.0) for later in (10.0, 0.0)]
    assert [each_part.least + each_part.mean for each_part in found] == times
    assert found[1].variance == exactly((0.3 * (1 - mean) ** 2 + 0.25 * (2 - mean) ** 2) / 0.55)
    assert found[0].variance == exactly(found[1].variance)
