"""What a deployment costs at a load, and from which load on it beats an API."""

import pytest
from every_case import each

import roofline as rl
from roofline.serving.phases import tokens_by_phase

MODEL, GPU = "llama-3.1-8b", "h100-sxm"
CASE = {"isl": 2000, "osl": 200, "prefix": 1500, "tp": 1, "gpu_price": "2-4"}
API = "in:0.05,out:0.2,cached:0.005"
BILL = (500 * 0.05 + 1500 * 0.005 + 200 * 0.2) / 1e6  # USD per request
SLO = "ttft:200,tpot:15"


def cost(**options):
    (found,) = rl.cost(MODEL, GPU, **{**CASE, **options})
    return found


def test_at_the_break_even_rate_a_request_costs_what_the_api_asks():
    api = cost(api_price=API).api
    assert api.usd_per_request == pytest.approx(BILL, rel=1e-12)
    assert api.pays
    there = rl.predict(MODEL, GPU, **CASE, request_rate=api.request_rate)
    assert there.usd_per_request == pytest.approx(BILL, rel=1e-12)
    assert there.util == pytest.approx(api.utils[1], rel=1e-12)
    row = cost(api_price=API).to_dict()
    assert row["break_even_requests_day"] == pytest.approx(86400 * api.request_rate, rel=1e-12)
    assert row["break_even_tok_day"] == pytest.approx(86400 * 2200 * api.request_rate, rel=1e-12)
    assert row["break_even_util_low"] == pytest.approx(row["break_even_util"] * 2 / 3, rel=1e-12)  # of 2-4, about 3


def test_a_deployment_that_never_pays_says_by_how_much():
    found = cost(api_price={"in": 0.0005, "out": 0.002})
    assert not found.api.pays
    asked = (2000 * 0.0005 + 200 * 0.002) / 1e6  # cached tokens cost like others where nothing is said of them
    assert found.api.factor == pytest.approx(found.full.usd_per_request / asked, rel=1e-12)
    assert str(found.api).startswith("never pays: even when full")
    assert found.to_dict(["break_even_util", "pays"]) == {"break_even_util": None, "pays": False}


def test_headroom_plans_for_less_than_the_saturation_or_the_goodput():
    full, less = cost(), cost(headroom="30%")
    assert less.planned.request_rate == pytest.approx(0.7 * full.full.request_rate, rel=1e-9)
    assert less.prediction.util == pytest.approx(0.7, rel=1e-9)
    assert less.planned.usd_per_request == pytest.approx(full.planned.usd_per_request / 0.7, rel=1e-9)
    within, both = cost(slo=SLO), cost(slo=SLO, headroom=0.3)
    (good,) = rl.goodput(MODEL, GPU, **CASE, slo=SLO)
    assert within.planned.request_rate == pytest.approx(good.rate, rel=1e-5)
    assert both.planned.request_rate == pytest.approx(0.7 * good.rate, rel=1e-5)
    assert within.full.usd_per_request < within.planned.usd_per_request < both.planned.usd_per_request


def test_a_load_asked_is_what_predict_says_of_it():
    found = cost(request_rate=5.0, slo=SLO)
    one = rl.predict(MODEL, GPU, **CASE, request_rate=5.0)
    row, stated = found.to_dict(), one.to_dict()
    keys = [key for key in stated if key.startswith("usd_per_")]
    assert {key: row[key] for key in keys} == pytest.approx({key: stated[key] for key in keys}, rel=1e-12)
    assert row["usd_per_m_blended_tok_saturation"] < row["usd_per_m_blended_tok_goodput"]
    ends = [row[f"usd_per_m_input_tok_{end}"] / row["usd_per_m_input_tok"] for end in ("low", "high")]
    assert ends == pytest.approx([2 / 3, 4 / 3], rel=1e-12)
    tokens = tokens_by_phase(one.deployment, one.workload)
    parts = zip(tokens, found.full.prices, strict=False)
    assert sum(n * c for n, c in parts) / 1e6 == pytest.approx(found.full.usd_per_request, rel=1e-12)


def test_within_an_slo_a_deployment_pays_only_below_its_goodput():
    free = cost(slo=SLO)
    between = (free.full.request_rate + free.within_slo.request_rate) / 2.0
    bill = 3.0 / 3600.0 / between  # USD per request, of an API at which so many requests a second break even
    within = cost(slo=SLO, api_price={"in": 0, "out": bill / 200 * 1e6})
    assert within.api.request_rate == pytest.approx(between, rel=1e-12)
    assert not within.api.pays
    assert str(within.api).startswith("does not pay: within the SLO")
    assert within.api.factor == pytest.approx(within.planned.usd_per_request / bill, rel=1e-5)


def test_without_a_load_the_tensor_parallelism_is_the_one_that_costs_least():
    case = {"isl": 4000, "osl": 300, "basis": "ideal"}
    (best,) = rl.cost("llama-3.1-70b", GPU, **case)
    costs = {tp: rl.cost("llama-3.1-70b", GPU, **case, tp=tp)[0].planned.prices.blended for tp in (2, 4, 8)}
    assert costs[best.asked["tp"]] == best.planned.prices.blended == min(costs.values())


def test_a_gpu_without_a_price_asks_for_one():
    with pytest.raises(rl.BadInput, match=r"l20 has no rental price in the catalog; give one, such as `gpu_price`"):
        rl.cost(MODEL, "l20", isl=500)
    priced, unpriced = rl.cost(MODEL, ["l20", GPU], isl=500)
    assert priced.planned is not None
    assert unpriced.planned is None
    assert "`gpu_price`" in unpriced.to_dict()["reason"]


@each("options, said", [
    ({"api_price": "in:0.5"}, "needs out"),
    ({"api_price": "in:0.5,put:1"}, "write in:0.5,out:1.5"),
    ({"api_price": {"inn": 0.5, "out": 1}}, "in, out and cached"),
    ({"api_price": {"in": -0.5, "out": 1}}, "api_price in"),
    ({"api_price": "in:0,out:0"}, "zero for all tokens"),
    ({"headroom": 1.5}, "headroom"),
    ({"headroom": 0.2, "concurrency": 8}, "leave out concurrency"),
])  # fmt: skip
def test_what_cannot_be_is_refused_by_name(options, said):
    with pytest.raises(rl.BadInput, match=said):
        cost(**{"prefix": 0, **options})
