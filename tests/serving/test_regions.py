"""Regions of loads: what each answer states of its errors is what docs/load.md has of cases like it."""

import statistics
from functools import partial
from itertools import product
from pathlib import Path

import pytest
import tiers
from build_load_page import (
    LEAST,
    WIDE,
    Judged,
    errors_by_region,
    judged_rate,
    judged_users,
    regions_text,
    table,
)
from conftest import close
from every_case import each

import roofline as rl
from roofline.serving.load.region_errors import ERRORS
from roofline.serving.load.regions import Errors, Off, domain, errors, leaves, nearest
from roofline.specs.workload import JUDGED

SMALL = ("llama-3.1-8b", "h100-sxm")
PAGE = (Path(__file__).parents[2] / "docs" / "load.md").read_text(encoding="utf-8")
KEYS = ("load_region", *(f"load_error_{key}" for key in JUDGED))
INSIDE = "random arrivals, decode first, 20 tokens and more, inside"
RARE = "random arrivals, prompts first, 20 tokens and more, inside"


def rows(lines):
    cells = ([cell.strip() for cell in line.strip("| ").split(" | ")] for line in lines if line.startswith("| "))
    return {row[0]: row[1:] for row in cells if len(row) == 7 and row[0] != "region"}


def as_cells(found):
    """Errors as the page prints them."""
    offs = ("-" if off is None else f"{100 * off.mean:.1f} / {100 * off.most:.1f}" for off in found[1:])
    return [str(found.cases), *offs]


# --- the page and the table --------------------------------------------------------------------


def test_the_page_has_what_answers_state_row_by_row():
    page = rows(PAGE.splitlines())
    assert list(page) == list(ERRORS)
    for name in ERRORS:
        assert page[name][:5] == as_cells(errors(name)), name


def made_up(region, sizes, **further):
    return [Judged(region, "made up", off={"ttft": size, "tpot": -2.0 * size}, **further) for size in sizes]


def test_errors_of_a_region_are_the_mean_and_the_ninth_of_ten_of_its_cases():
    cases = made_up(INSIDE, [0.01 * number for number in range(1, 11)])
    found = errors_by_region([*cases, *enough_elsewhere()])[INSIDE]
    assert found == Errors(10, Off(0.055, 0.09), Off(0.11, 0.18))


def enough_elsewhere(apart_from=()):
    return [case for name in leaves() if name not in (INSIDE, *apart_from) for case in made_up(name, [0.5] * LEAST)]


def test_a_region_of_too_few_cases_is_stated_with_its_neighbours():
    few = made_up(RARE, [0.1] * (LEAST - 1))
    found = errors_by_region([*few, *made_up(INSIDE, [0.3] * LEAST), *enough_elsewhere((RARE,))])
    assert RARE not in found
    both = found["random arrivals, 20 tokens and more, inside"]
    assert both.cases == 2 * LEAST - 1
    assert close(both.ttft.mean, statistics.fmean([0.1] * (LEAST - 1) + [0.3] * LEAST), 0.01)


def test_what_is_not_known_counts_as_all_of_it_and_is_counted():
    unknown = [Judged(INSIDE, "made up", off={"ttft": 0.0, "ttft_p99": 1.0}, unknown=("ttft_p99",))] * LEAST
    cases = [*unknown, *enough_elsewhere()]
    stated = errors_by_region(cases)
    assert stated[INSIDE] == Errors(LEAST, Off(0.0, 0.0), None, Off(1.0, 1.0))
    assert rows(regions_text(stated, cases))[INSIDE] == [str(LEAST), "0.0 / 0.0", "-", "100.0 / 100.0", "-", str(LEAST)]


def test_the_module_that_is_written_and_the_page_say_the_same():
    cases = [*made_up(INSIDE, [0.01, 0.26] * LEAST), *enough_elsewhere()]
    stated = errors_by_region(cases)
    written = {}
    exec(table(stated), written)
    assert list(written["ERRORS"]) == list(stated)
    assert written["ERRORS"][INSIDE] == (2 * LEAST, 0.135, 0.26, 0.27, 0.52, None, None, None, None)
    assert rows(regions_text(stated, cases))[INSIDE][:2] == [str(2 * LEAST), "13.5 / 26.0"]


def test_every_region_has_errors_of_enough_cases_and_no_row_stands_for_nothing():
    for name in leaves():
        assert errors(name).cases >= LEAST, name
        assert errors(name).ttft is not None, name
    assert {nearest(name) for name in leaves()} == set(ERRORS)


# --- answers -----------------------------------------------------------------------------------


def answers():
    """Cases of all kinds of loads, with the beginning of their region where no other stands for it."""
    for engine, osl, (name, load) in product(
        ("vllm", "sglang"),
        (1, 2, 19, 20, 300),
        (
            ("random arrivals", {"request_rate": 1}),
            ("random arrivals", {"request_rate": 9}),
            ("users", {"concurrency": 8}),
        ),
    ):
        order = "decode first" if engine == "vllm" else "prompts first"
        length = "1 token" if osl == 1 else "2 to 19 tokens" if osl < 20 else "20 tokens and more"
        yield {"engine": engine, "osl": osl, **load}, f"{name}, {order}, {length}, "
    case = {"osl": 100, "request_rate": 1}
    yield {"osl": 100, "concurrency": 8, "num_prompts": 80}, "a run with its start, 20 tokens and more, outside"
    yield {**case, "draft": "ngram", "draft_tokens": 3, "acceptance": 0.7}, "speculative decoding, inside"
    yield {**case, "prefix": 500, "cache_hit": 0.5}, "prompt cache, inside"


@each("case, name", answers)
def test_an_answer_under_a_load_lies_in_one_region_and_states_its_errors(case, name):
    found = rl.predict(*SMALL, isl=1000, tp=1, **case)
    leaf = next(each for each in leaves() if each.startswith(name) and nearest(each) == found.load_region)
    is_outside = any("outside the validated range" in text for text in found.warnings)
    assert leaf.endswith("inside") != is_outside
    stated = errors(found.load_region)
    row = found.to_dict(KEYS)
    for key in JUDGED:
        off = getattr(stated, key)
        assert row[f"load_error_{key}"] == (None if off is None else off.most)
        assert found.load_error(key) == row[f"load_error_{key}"]
    (note,) = [text for text in found.warnings if text.startswith("under load")]
    assert f"in {stated.cases} cases like this one ({found.load_region}): mean error TTFT" in note


def test_an_array_and_a_table_have_the_regions_of_their_cases():
    options = {"isl": 1000, "tp": 1}
    rates, lengths = (1.0, 9.0, 2.0, 9e5), (1, 8, 300, 300)
    whole = rl.predict(*SMALL, osl=list(lengths), request_rate=list(rates), **options).to_rows(KEYS)
    listed = rl.table([SMALL[0]], [SMALL[1]], osl=[1, 8, 300], request_rate=[2.0], **options)
    for row, osl, rate in zip(whole[:3], lengths, rates, strict=False):
        assert row == rl.predict(*SMALL, osl=osl, request_rate=rate, **options).to_dict(KEYS)
    assert whole[3] == dict.fromkeys(KEYS)  # overloaded
    for row in listed.to_rows():
        alone = rl.predict(*SMALL, osl=row["osl"], request_rate=2.0, **options)
        assert {key: row[key] for key in KEYS} == alone.to_dict(KEYS)
        assert [text for text in row["warnings"] if text.startswith("under load")] == [
            text for text in alone.warnings if text.startswith("under load")
        ]


def test_a_cache_in_which_all_or_none_find_their_prefix_is_no_mixture():
    options = {"isl": 1000, "osl": 300, "prefix": 500, "tp": 1, "request_rate": 1.0}
    regions = [rl.predict(*SMALL, cache_hit=hit, **options).load_region for hit in (0.0, 0.5, 1.0)]
    assert regions == [INSIDE, "prompt cache, inside", INSIDE]


def test_a_burst_has_no_region_and_two_pools_have_their_own():
    burst = rl.predict(*SMALL, isl=1000, osl=100)
    assert burst.to_dict(KEYS) == dict.fromkeys(KEYS)
    assert (burst.load_region, burst.load_error("ttft")) == (None, None)
    near, far = (rl.disaggregate(SMALL[0], "h100", "h100", isl=2000, osl=osl, request_rate=4) for osl in (200, 5))
    assert near.load_region == "separate pools, inside"
    assert far.load_region == "separate pools, outside"
    assert near.to_dict(KEYS)["load_error_ttft"] == errors("separate pools, inside").ttft.most
    single = rl.disaggregate(SMALL[0], "h100", "h100", isl=2000, osl=1, request_rate=4)
    assert "(separate pools, outside)" in " ".join(single.warnings)


def test_the_sentence_states_means_and_what_nine_in_ten_stay_within():
    mean, most = errors(INSIDE).ttft
    text = domain([], INSIDE)
    assert text.startswith(
        "under load: inside the validated range; closed form against a simulation with the same step"
    )
    assert f"TTFT {in_percent(mean)} % (90 % within {in_percent(most)} %), TPOT" in text
    overloaded = domain(["a reason"], None)
    assert overloaded.startswith(
        "under load: outside the validated range (a reason); percentiles that contradict their"
    )


def in_percent(share):
    return f"{100.0 * share:.3g}"


# --- a sample ----------------------------------------------------------------------------------


@tiers.has_more_cases
def test_cases_drawn_anew_stay_within_what_is_stated_of_nine_in_ten_of_their_regions():
    judges = [partial(judge, ranges=WIDE) for judge in (judged_rate, judged_users)]
    draws = [(777_400 + number, 1500, first) for first in ("decode", "prompts") for number in range(tiers.times(4, 15))]
    within = []
    for judge, draw in product(judges, draws):
        case = judge(draw)
        stated = errors(case.region)
        within += [abs(case.off[key]) <= getattr(stated, key).most for key in JUDGED if key in case.off]
    assert len(within) > tiers.times(50, 200)
    assert statistics.fmean(within) >= 0.8


@pytest.mark.parametrize("key", ["ttft", "tpot"])
def test_cases_inside_the_validated_range_are_nearer_than_those_outside(key):
    pairs = [(name, name.replace("inside", "outside")) for name in leaves() if name.endswith("inside")]
    near, far = ([getattr(errors(name), key).mean for name in names] for names in zip(*pairs, strict=True))
    assert statistics.fmean(near) < statistics.fmean(far) / 2.0
