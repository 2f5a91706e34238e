"""Fleet and Summary say what Python says of the same cases, after edits too."""

import math
from dataclasses import replace

import pytest
import tiers
from recalculation import Live, names_of

import roofline as rl

MODELS, GPUS = ("llama-3.1-8b", "gpt-oss-20b"), ("h100-sxm", "l40s", "b200")
START = {"isl": 1000, "osl": 200, "batch": 8}
MONTH = 365 / 12  # days


@pytest.fixture(scope="module")
def live(shared_book):
    return Live(shared_book)


@pytest.fixture(scope="module")
def named(shared_book):
    """Sheet and address of each named input."""
    return {
        name: tuple(text.replace("$", "").split("!")) for name, text in names_of(shared_book).items() if "in_" in name
    }


def fleet_lines(live):
    """What Fleet shows of each GPU."""
    first = next(row for row in range(6, 30) if live.value("Fleet", f"A{row}") == "GPU")
    heads = [live.value("Fleet", f"{column}{first}") for column in "ABCDEFGHI"]
    lines = [[live.value("Fleet", f"{column}{row}") for column in "ABCDEFGHI"] for row in range(first + 1, first + 5)]
    return [dict(zip(heads, line, strict=True)) for line in lines]


DEMANDS = (
    {"rate": 10, "users": None, "growth": 0, "years": 1, "headroom": 20, "hours": 24},
    {"rate": "2k", "users": 40, "growth": 50, "years": 2, "headroom": 0, "hours": 10},
    {"rate": None, "users": 3000, "growth": 0, "years": 0, "headroom": 25, "hours": 24},
)


@tiers.has_more_cases
@pytest.mark.parametrize("demand", tiers.some(DEMANDS, 2))
def test_a_fleet_serves_the_demand_with_the_throughput_that_python_states(live, named, demand):
    case = {"model": "gpt-oss-20b", "isl": 1500, "osl": 200, "batch": 16}
    live.set_many({named[f"in_fleet_{name}"]: value for name, value in demand.items()})
    live.set_many({named[f"in_{name}"]: value for name, value in case.items()})
    rate = 2000 if demand["rate"] == "2k" else demand["rate"] or 0
    factor = (1 + demand["growth"] / 100) ** demand["years"] / (1 - demand["headroom"] / 100)
    lines, costs = fleet_lines(live), {}
    assert [line["GPU"] for line in lines] == [*GPUS, "my-gpu"]
    for line, gpu in zip(lines, (*GPUS, GPUS[0]), strict=True):
        record = rl.load_gpu(gpu) if line["GPU"] != "my-gpu" else replace(rl.load_gpu(gpu), name="my-gpu")
        known = rl.predict(**case, gpu=record, slo={"ttft": 0.5, "tpot": 0.02})
        each = known.output_tok_s / case["osl"]
        replicas = max(1, math.ceil(max(rate / each, (demand["users"] or 0) / case["batch"]) * factor))
        cost = replicas * known.to_dict()["usd_per_hour"] * demand["hours"] * MONTH
        assert line["replicas"] == replicas, gpu
        assert line["GPUs"] == replicas * known.deployment.num_gpus, gpu
        assert math.isclose(line["requests/s of a replica"], each, rel_tol=1e-9)
        assert math.isclose(line["TTFT [ms]"], known.ttft * 1000, rel_tol=1e-9)
        assert math.isclose(line["USD/month"], cost, rel_tol=1e-9)
        is_met = known.ttft <= 0.5 and known.tpot <= 0.02
        assert line["verdict"] == known.verdict, gpu
        if is_met:
            costs[line["GPU"]] = cost
    cheapest = min(costs, key=costs.get)
    assert live.value("Fleet", "B3").startswith(f"{cheapest}: ")
    assert live.value("Fleet", "B3").endswith(f" {round(costs[cheapest])} USD a month")


def test_what_a_fleet_cannot_be_is_said(live, named):
    good = {named[f"in_fleet_{name}"]: value for name, value in DEMANDS[0].items()}
    for name, value, said in (
        ("rate", "many", "requests must be a number from 0 to 1e+09"),
        ("headroom", 100, "headroom must be a number from 0 to 99"),
        ("hours", -1, "hours must be a number from 0 to 24"),
    ):
        live.set_many({**good, named[f"in_fleet_{name}"]: value})
        assert live.value("Fleet", "B3") == said
        assert {line["replicas"] for line in fleet_lines(live)} <= {"", None}
    live.set_many({**good, named["in_slo_tpot"]: 0.001})
    assert live.value("Fleet", "B3") == "no GPU with a price meets the limits"
    live.set_many({named["in_slo_tpot"]: 20})
    live.set_many({named["in_batch"]: 100_000})
    for line in fleet_lines(live):
        assert line["verdict"].startswith("does not fit: "), line
        assert line["USD/month"] in ("", None)
    live.set_many({named["in_batch"]: 8})


def test_the_summary_shows_the_scenarios_of_one_length(live, named):
    assert live.value("Summary", "A1")
    for isl in (1000, "6000", 5000):
        live.set_many({named["in_summary_isl"]: isl})
        heads = {live.value("Summary", f"{column}9"): column for column in "BCDEFGHIJKLM"}
        ttft, verdict = heads["TTFT [ms]"], heads["verdict"]
        assert [live.value("Summary", f"{chr(ord(ttft) + place)}10") for place in (0, 1)] == list(MODELS)
        for row, gpu in enumerate(GPUS, 11):
            assert live.value("Summary", f"A{row}") == gpu
            for place, model in enumerate(MODELS):
                shown = live.value("Summary", f"{chr(ord(ttft) + place)}{row}")
                if isl == 5000:
                    assert shown in ("", None)
                    continue
                known = rl.predict(model, gpu, **{**START, "isl": int(isl)}, slo={"ttft": 0.5, "tpot": 0.02})
                assert math.isclose(shown, known.ttft * 1000, rel_tol=1e-9)
                assert live.value("Summary", f"{chr(ord(verdict) + place)}{row}") == known.verdict
    live.set_many({named["in_summary_isl"]: 1000})
    ttft = {live.value("Summary", f"{column}9"): column for column in "BCDEFGHIJKLM"}["TTFT [ms]"]
    for typed, is_shown in (("*", False), (" Native", True), ("fp8", False), ("n?tive", False)):
        live.set_many({named["in_summary_quantization"]: typed})
        assert (live.value("Summary", f"{ttft}11") not in ("", None)) == is_shown, typed
    live.set_many({named["in_summary_quantization"]: "native"})
