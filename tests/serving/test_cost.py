"""What answers cost: rent over output."""

import numpy as np
import pytest

import roofline as rl
from roofline.serving.cost import usd_per_m_output_tok

CASE = {"isl": 2000, "osl": 300, "batch": 16}


def test_a_million_tokens_take_a_million_over_the_rate_seconds_of_rent():
    # 3600 USD/h is 1 USD/s; at 500 tokens a second a million takes 2000 s.
    assert usd_per_m_output_tok(3600.0 / 3600.0, 500.0) == 2000.0


def test_a_prediction_divides_its_rent_by_its_output():
    found = rl.predict("llama-3.1-70b", "h100-sxm", tp=4, **CASE)
    tokens_per_hour = found.output_tok_s * 3600.0
    assert found.usd_per_m_output_tok == pytest.approx(found.usd_per_hour / tokens_per_hour * 1e6, rel=1e-12)


def test_replicas_pay_and_write_alike():
    one = rl.predict("llama-3.1-70b", "h100-sxm", tp=4, **CASE)
    three = rl.predict("llama-3.1-70b", "h100-sxm", tp=4, num_gpus=12, **CASE)
    assert three.usd_per_hour == pytest.approx(3.0 * one.usd_per_hour, rel=1e-12)
    assert three.usd_per_m_output_tok == pytest.approx(one.usd_per_m_output_tok, rel=1e-12)


def test_a_larger_batch_makes_tokens_cheaper():
    costs = rl.predict("llama-3.1-8b", "h100-sxm", isl=2000, osl=300, batch=np.array([1, 8, 64])).usd_per_m_output_tok
    assert costs.shape == (3,)
    assert np.all(np.diff(costs) < 0.0)


def test_without_a_price_there_is_no_cost_and_the_text_has_no_figure():
    unpriced = rl.predict("llama-3.1-8b", "mi355x", **CASE)
    assert unpriced.usd_per_hour is None
    assert unpriced.usd_per_m_output_tok is None
    assert unpriced.to_dict()["usd_per_m_output_tok"] is None
    assert "USD per million" not in str(unpriced)


def test_the_readable_answer_gives_the_cost_of_a_million_tokens():
    found = rl.predict("llama-3.1-8b", "h100-sxm", **CASE)
    (line,) = [line for line in str(found).splitlines() if line.startswith("  cost")]
    figure = float(line.partition("USD/h, ")[2].split()[0])
    assert figure == pytest.approx(found.usd_per_m_output_tok, rel=0.00501)


def test_the_row_has_the_cost_right_after_the_rent():
    keys = list(rl.predict("llama-3.1-8b", "h100-sxm", **CASE).to_dict())
    assert keys[keys.index("usd_per_hour") + 1] == "usd_per_m_output_tok"
