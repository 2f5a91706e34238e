"""What answers cost: rent over output, and what each phase pays of it by the time that it takes."""

import math

import numpy as np
import pytest
from every_case import each

import roofline as rl
from roofline.serving.cost import ByPhase, token_prices, usd_per_m_output_tok
from roofline.serving.phases import full_server, tokens_by_phase

MODEL, GPU = "llama-3.1-8b", "h100-sxm"
CASE = {"isl": 2000, "osl": 200, "tp": 1}
LOADS = [{"batch": 8}, {"request_rate": 4.0}, {"concurrency": 24}, {"request_rate": 2.0, "isl_cv": 0.3, "osl_cv": 0.3}]


def paid(found):
    """What the tokens of a request pay at their prices [USD]."""
    tokens, prices = tokens_by_phase(found.deployment, found.workload), found.token_prices
    parts = [np.where(n > 0, n * np.nan_to_num(c), 0.0) for n, c in zip(tokens, prices, strict=False)]
    return sum(parts) / 1e6


@each("load", LOADS, ids=str)
@each("prefix", [0, 1500, 2000])
def test_tokens_pay_the_whole_rent(load, prefix):
    found = rl.predict(MODEL, GPU, **CASE, **load, prefix=prefix)
    rate = found.output_tok_s / CASE["osl"]
    assert paid(found) == pytest.approx(found.usd_per_hour / 3600.0 / rate, rel=1e-12)
    assert found.token_prices.blended * 2200 / 1e6 == pytest.approx(found.usd_per_request, rel=1e-12)
    assert math.isnan(found.token_prices.cached) == (prefix == 0)
    assert (found.to_dict()["usd_per_m_cached_tok"] is None) == (prefix == 0)


def test_an_array_of_cases_is_priced_element_by_element():
    many = rl.predict(MODEL, GPU, isl=2000, tp=1, osl=[1, 200, 200], prefix=[0, 0, 1500], request_rate=[1.0, 4.0, 4.0])
    assert paid(many) == pytest.approx(many.usd_per_request, rel=1e-12)
    one = rl.predict(MODEL, GPU, **CASE, prefix=1500, request_rate=4.0)
    assert [prices[2] for prices in many.token_prices] == pytest.approx(list(one.token_prices), rel=1e-9)
    assert many.to_dict()["usd_per_m_cached_tok"][0] is None


def test_the_share_of_a_phase_is_its_time():
    # Twice the time for the answer as for the prompt: two of three dollars, over twice the tokens.
    assert token_prices(3.0, ByPhase(1e6, 0.0, 2e6), ByPhase(1.0, 0.0, 2.0))[::2] == (1.0, 1.0)
    halves = token_prices(3.0, ByPhase(1e6, 1e6, 1e6), ByPhase(1.0, 0.0, 0.0))
    assert halves == (3.0, 0.0, 0.0, 1.0)


@pytest.mark.parametrize("load", [{"batch": 4}, {"request_rate": 2.0}, {"concurrency": 4}], ids=str)
def test_with_a_single_output_token_all_is_prefill(load):
    found = rl.predict(MODEL, GPU, isl=2000, osl=1, tp=1, **load)
    assert found.token_prices.output == 0.0
    assert found.token_prices.input * 2000 / 1e6 == pytest.approx(found.usd_per_request, rel=1e-12)


@pytest.mark.parametrize("load", [{"request_rate": 1e-5}, {"concurrency": 1}], ids=str)
def test_an_idle_server_shares_as_a_burst_of_one_does(load):
    alone, found = rl.predict(MODEL, GPU, **CASE, prefix=500), rl.predict(MODEL, GPU, **CASE, prefix=500, **load)
    assert list(found.phase_times) == pytest.approx(list(alone.phase_times), rel=1e-3)


def test_at_the_saturation_a_request_takes_all_of_the_time_that_there_is():
    found = rl.predict(MODEL, GPU, **CASE, prefix=500, request_rate=1.0)
    full = full_server(found.deployment, found.workload)
    assert full.request_rate == found.max_request_rate
    assert sum(full.times) == pytest.approx(1.0 / full.request_rate, rel=1e-12)
    near = rl.predict(MODEL, GPU, **CASE, prefix=500, request_rate=0.97 * full.request_rate)
    assert near.phase_times.input / sum(near.phase_times) == pytest.approx(full.times.input / sum(full.times), rel=0.1)


@pytest.mark.parametrize("load", [{"batch": 8}, {"request_rate": 4.0}, {"concurrency": 16}], ids=str)
def test_cached_tokens_pay_for_the_attention_to_them_alone(load):
    few, many = (rl.predict(MODEL, GPU, isl=p + 500, osl=200, tp=1, prefix=p, **load) for p in (2000, 8000))
    bare = rl.predict(MODEL, GPU, isl=500, osl=200, tp=1, **load)
    assert few.token_prices.cached < few.token_prices.input / 10
    assert 0.0 < few.phase_times.cached < many.phase_times.cached
    # batches differ a little under a load
    assert few.phase_times.input == pytest.approx(bare.phase_times.input, rel=0.05)


def test_a_price_given_takes_the_place_of_the_catalogs():
    asked, given = (rl.predict(MODEL, GPU, **CASE, batch=8, gpu_price=price) for price in (None, "2-4/h"))
    assert (asked.price_source, given.price_source) == ("catalog 2026-09-19", "given")
    assert given.usd_per_hour_range == pytest.approx((2.0, 4.0), rel=1e-12)
    assert given.usd_per_hour == pytest.approx(3.0, rel=1e-12)
    assert given.usd_per_m_output_tok == pytest.approx(asked.usd_per_m_output_tok * 3.0 / asked.usd_per_hour, rel=1e-12)
    assert rl.predict(MODEL, GPU, **CASE, batch=8, gpu_price=(2, 4)) == given
    keys = ["price_source", "usd_per_request", "usd_per_m_input_tok"]
    assert rl.predict(MODEL, "l20", **CASE).to_dict(keys) == dict.fromkeys(keys)
    assert rl.predict(MODEL, "l20", **CASE, gpu_price=2.5).usd_per_hour == pytest.approx(2.5, rel=1e-12)


def test_every_question_takes_the_price_given():
    lengths, slo = {"isl": 2000, "osl": 200}, "ttft:2000,tpot:50"
    (good,) = rl.goodput(MODEL, GPU, **CASE, slo=slo, gpu_price=36)
    (sized,) = rl.size(MODEL, GPU, **lengths, concurrency=4, slo=slo, gpu_price=36).plans
    compared = rl.compare(MODEL, [GPU, "l20"], **CASE, gpu_price=36).to_records()
    points = rl.curve(MODEL, GPU, **CASE, gpu_price=36).rows
    assert good.prediction.usd_per_hour == pytest.approx(36.0, rel=1e-12)
    assert sized.usd_per_hour == pytest.approx(36.0 * sized.prediction.deployment.num_gpus, rel=1e-12)
    assert [row["usd_per_hour"] for row in compared] == pytest.approx([36.0, 36.0], rel=1e-12)
    assert all(row["usd_per_m_output_tok"] * row["output_tok_s_gpu"] == pytest.approx(1e4, rel=1e-9) for row in points)
    rows = rl.table(MODEL, GPU, **CASE, gpu_price=["2", "2-4"], keys=["usd_per_hour"])
    assert [row["usd_per_hour"] for row in rows] == pytest.approx([2.0, 3.0])


@each("price", ["cheap", "4-2", (4, 2), 0, -1, [1, 2, 3], "2 EUR/h", math.inf])
def test_a_price_that_is_none_is_refused_by_name(price):
    with pytest.raises(rl.BadInput, match="gpu_price"):
        rl.predict(MODEL, GPU, gpu_price=price)


# --- rent over output -----------------------------------------------------------------------------

BURST = {"isl": 2000, "osl": 300, "batch": 16}


def test_a_million_tokens_take_a_million_over_the_rate_seconds_of_rent_of_one_replica_or_several():
    # 3600 USD/h is 1 USD/s; at 500 tokens a second a million takes 2000 s.
    assert usd_per_m_output_tok(3600.0 / 3600.0, 500.0) == 2000.0
    one, three = (rl.predict("llama-3.1-70b", "h100-sxm", tp=4, num_gpus=n, **BURST) for n in (4, 12))
    assert one.usd_per_m_output_tok == pytest.approx(one.usd_per_hour / (one.output_tok_s * 3600.0) * 1e6, rel=1e-12)
    assert three.usd_per_hour == pytest.approx(3.0 * one.usd_per_hour, rel=1e-12)
    assert three.usd_per_m_output_tok == pytest.approx(one.usd_per_m_output_tok, rel=1e-12)


def test_a_larger_batch_makes_tokens_cheaper():
    costs = rl.predict(MODEL, GPU, isl=2000, osl=300, batch=np.array([1, 8, 64])).usd_per_m_output_tok
    assert costs.shape == (3,)
    assert np.all(np.diff(costs) < 0.0)


def test_without_a_price_there_is_no_cost_and_the_text_has_no_figure():
    unpriced = rl.predict("llama-3.1-8b", "l20", **BURST)
    assert unpriced.usd_per_hour is unpriced.usd_per_m_output_tok is None
    assert unpriced.to_dict()["usd_per_m_output_tok"] is None
    assert "USD per million" not in str(unpriced)


def test_text_and_row_have_the_cost_beside_the_rent():
    found = rl.predict(MODEL, GPU, **BURST)
    (line,) = [line for line in str(found).splitlines() if line.startswith("  cost")]
    figure = float(line.partition("USD/h, ")[2].split()[0])
    assert figure == pytest.approx(found.usd_per_m_output_tok, rel=0.00501)
    keys = list(found.to_dict())
    assert keys[keys.index("usd_per_hour") + 1] == "usd_per_m_output_tok"


def test_owned_gpus_cost_what_price_energy_and_hosting_add_up_to():
    own = {"price": 30e3, "years": 4.0, "power": 1000.0, "kwh": 0.1, "hosting": 0.2}
    case = {"isl": 1000, "osl": 200, "quantization": "fp8", "slo": "tpot:25", "api_price": "in:0.2,out:0.6"}
    (answer,) = rl.cost("qwen3-32b", "h100-sxm", own=own, gpu_price=2.5, **case)
    gpus, row = answer.prediction.deployment.num_gpus, answer.to_dict()
    hourly = gpus * (30e3 / (4 * 365.25 * 24) + 1.0 * 0.1 + 0.2)
    assert row["own_usd_per_hour"] == pytest.approx(hourly)
    assert row["own_pays_after_months"] == pytest.approx(30e3 / (2.5 - 0.3) / 730.0)
    assert row["own_usd_per_m_blended_tok"] == pytest.approx(row["usd_per_m_blended_tok"] * hourly / (2.5 * gpus))
    if row["break_even_util"] is not None:
        assert row["own_break_even_util"] == pytest.approx(row["break_even_util"] * hourly / (2.5 * gpus))
    (rented,) = rl.cost("qwen3-32b", "h100-sxm", own=own, gpu_price=0.25, **case)
    assert rented.to_dict()["own_pays_after_months"] is None
    (without,) = rl.cost("qwen3-32b", "h100-sxm", gpu_price=2.5, **case)
    assert without.to_dict()["own_usd_per_hour"] is None
    for wrong in ("price:many", "years:3", "price:1,price:2", {"price": -1}, {"cost": 3}, "price:30k,years:0", 7):
        with pytest.raises(rl.BadInput):
            rl.cost("qwen3-32b", "h100-sxm", own=wrong, **case)


def test_a_day_costs_the_mean_of_its_rates_and_is_judged_at_its_peak():
    case = {"isl": 1000, "osl": 200, "quantization": "fp8", "tp": 2, "num_gpus": 4, "gpu_price": 2.0, "slo": "tpot:25"}
    rates = {0: 1.0, 8: 6.0, 20: 2.0}
    (answer,) = rl.cost("qwen3-32b", "h100-sxm", rate_by_hour=rates, api_price="in:0.2,out:0.6", **case)
    row, requests = answer.to_dict(), (8 * 1.0 + 12 * 6.0 + 4 * 2.0) * 3600.0
    assert row["usd_per_request"] == pytest.approx(24 * 4 * 2.0 / requests)
    assert row["usd_per_m_output_tok"] == pytest.approx(24 * 4 * 2.0 / requests / 200 * 1e6)
    assert row["cost_at"] == "the mean of the day"
    at_peak = rl.predict("qwen3-32b", "h100-sxm", request_rate=6.0, **case)
    assert (row["request_rate"], row["tpot_ms"], row["slo_verdict"]) == (
        6.0,
        pytest.approx(1e3 * at_peak.tpot),
        at_peak.verdict,
    )
    (flat,) = rl.cost("qwen3-32b", "h100-sxm", rate_by_hour=[3.0] * 24, **case)
    (plain,) = rl.cost("qwen3-32b", "h100-sxm", request_rate=3.0, **case)
    assert flat.planned == plain.planned
    for more in ({"request_rate": 2.0}, {"headroom": 0.2}):
        with pytest.raises(rl.BadInput, match="leave out"):
            rl.cost("qwen3-32b", "h100-sxm", rate_by_hour=rates, **case, **more)
