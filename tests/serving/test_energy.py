"""Power and energy under a load, per token, and what the energy costs."""

import pytest

import roofline as rl
from roofline.physics.power import IDLE, MOST
from roofline.serving.energy import BOUND, MEASURED
from roofline.serving.shown import ENERGY_KEYS

MODEL, GPU, TDP = "llama-3.1-8b", "h100-sxm", 700.0
CASE = {"isl": 1000, "osl": 200}


def energy(gpu=GPU, **options):
    return rl.predict(MODEL, gpu, **{**CASE, **options}).energy


def test_the_energy_of_a_burst_is_that_of_its_parts():
    """Prefill and decode at their own powers for their own times."""
    prediction = rl.predict(MODEL, GPU, **CASE, batch=8, engine="none")
    found = prediction.energy
    joules = found.prefill_power * prediction.prefill.time + found.decode_power * prediction.decode.time * 199
    assert 8 * found.per_request == pytest.approx(joules, rel=1e-12)
    assert found.per_input_token * 8000 == pytest.approx(found.prefill_power * prediction.prefill.time, rel=1e-12)
    assert found.per_decode_token * 8 == pytest.approx(found.decode_power * prediction.decode.time, rel=1e-12)
    assert found.per_output_token == pytest.approx(found.per_request / 200, rel=1e-12)


def test_a_server_draws_what_its_requests_take_above_idle():
    """Twice the rate, twice the energy above idle, while the batch hardly changes; idle at no rate at all."""
    powers = [energy(request_rate=rate).power for rate in (0.001, 0.01, 0.02)]
    assert powers[0] == pytest.approx(IDLE * TDP, rel=0.01)
    assert powers[2] - IDLE * TDP == pytest.approx(2.0 * (powers[1] - IDLE * TDP), rel=0.02)
    full = rl.predict(MODEL, GPU, **CASE, concurrency=64)
    assert IDLE * TDP < full.energy.power <= MOST * TDP
    per_request = full.energy.power * 1 / full.request_rate
    assert full.energy.per_request == pytest.approx(per_request, rel=1e-12)


def test_tokens_take_less_energy_in_larger_batches():
    joules = [energy(batch=batch) for batch in (1, 4, 16, 64)]
    for figures in ([each.per_decode_token for each in joules], [each.per_output_token for each in joules]):
        assert figures == sorted(figures, reverse=True)
        assert figures[0] > 10.0 * figures[-1]


@pytest.mark.parametrize("load", [{"batch": 4}, {"concurrency": 4}])
def test_replicas_and_ranks_count_all_boards(load):
    one = energy(tp=1, **load)
    several = {name: 3 * value for name, value in load.items()} if "concurrency" in load else load
    three = energy(tp=1, num_gpus=3, **several)
    assert three.power == pytest.approx(one.power, rel=1e-9)
    assert three.per_request == pytest.approx(one.per_request, rel=1e-9)
    two = rl.predict(MODEL, GPU, **CASE, tp=2, **load)
    requests = two.output_tok_s / 200
    assert two.energy.per_request == pytest.approx(2.0 * two.energy.power / requests, rel=1e-12)


def test_stages_and_data_parallel_ranks_draw_within_the_limits():
    for plan in ({"pp": 2}, {"dp": 4, "ep": 4}, {"tp": 2, "dp": 2, "ep": 4}):
        for load in ({"batch": 8}, {"concurrency": 16}):
            found = rl.predict("qwen3-30b-a3b", GPU, **CASE, **{"tp": 1, **plan}, **load).energy
            assert IDLE * TDP < found.power <= MOST * TDP
            assert found.power_range[0] <= found.power <= found.power_range[1]
            assert found.per_decode_token < found.per_output_token < found.per_request


def test_where_nothing_was_measured_the_tdp_is_a_bound():
    prediction = rl.predict(MODEL, "mi300x", **CASE, concurrency=8, kwh_price=0.1)
    found = prediction.energy
    assert (found.basis, found.power, found.power_range) == (BOUND, 750.0, None)
    assert found.per_request == pytest.approx(750.0 / prediction.request_rate, rel=1e-12)
    assert "at most 750 W per GPU, its TDP" in str(prediction)
    assert energy().basis == MEASURED


def test_what_has_no_energy_says_so():
    ideal = rl.predict(MODEL, GPU, **CASE, basis="ideal", kwh_price=0.1)
    assert ideal.energy is None
    assert set(ideal.to_dict(list(ENERGY_KEYS)).values()) == {None}
    assert "energy     not known: the hardware limit has none" in str(ideal)
    unstated = rl.predict(MODEL, "trainium2", **CASE, pue=1.2)
    assert unstated.energy is None
    assert "trainium2 states no power" in str(unstated)


def test_kwh_and_their_price_by_hand():
    found = energy(batch=4, kwh_price="0.12 USD/kWh", pue=1.5, tp=2)
    assert found.kwh_per_m_output_tok == pytest.approx(1e6 * found.per_output_token * 1.5 / 3.6e6, rel=1e-12)
    assert found.usd_per_m_output_tok == pytest.approx(0.12 * found.kwh_per_m_output_tok, rel=1e-12)
    assert found.usd_per_hour == pytest.approx(2 * found.power / 1000 * 1.5 * 0.12, rel=1e-12)
    assert energy(batch=4, pue=1.5).usd_per_hour is None


def test_a_price_of_energy_changes_no_other_key():
    plain, priced = (rl.predict(MODEL, GPU, **CASE, **more).to_dict() for more in ({}, {"kwh_price": 0.1, "pue": 2}))
    differ = {key for key in plain if plain[key] != priced[key]}
    assert differ == {"kwh_per_m_output_tok", "energy_usd_per_m_output_tok", "energy_usd_per_hour"}


def test_rows_of_arrays_have_the_energy_of_their_cases():
    together = rl.predict(MODEL, GPU, isl=[500, 1000], osl=[1, 200], kwh_price=0.1)
    for row, isl, osl in zip(together.to_rows(list(ENERGY_KEYS)), (500, 1000), (1, 200), strict=True):
        alone = rl.predict(MODEL, GPU, isl=isl, osl=osl, kwh_price=0.1).to_dict(list(ENERGY_KEYS))
        for key, value in alone.items():
            assert row[key] == (pytest.approx(value, rel=1e-12) if isinstance(value, float) else value), key
    table = rl.table(MODEL, [GPU, "mi300x"], **CASE, power_cap=[None, "50%"], keys=["mean_power_w", "power_cap_w"])
    assert [row["power_cap_w"] for row in table] == [None, 350.0, None, None]
    assert "was measured on hopper and blackwell boards alone" in table[3]["reason"]


def test_costs_at_saturation_and_over_a_day_have_the_energy_of_their_load():
    (full,) = rl.cost(MODEL, GPU, **CASE, kwh_price=0.1, tp=1)
    row = full.to_dict()
    assert 0.5 * TDP < row["mean_power_w"] <= MOST * TDP
    assert 0.0 < row["energy_usd_per_m_output_tok"] < row["usd_per_m_output_tok"]
    (day,) = rl.cost(MODEL, GPU, **CASE, kwh_price=0.1, tp=1, rate_by_hour="0:1,12:3")
    assert day.to_dict()["mean_power_w"] == pytest.approx(energy(tp=1, request_rate=2).power, rel=1e-9)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"power_cap": "701W"}, r"power_cap = 701 W is above the 700 W of h100-sxm; leave it out"),
        (
            {"power_cap": "174W"},
            r"power_cap = 174 W is too low: h100-sxm draws 140 W between kernels; give 175 W or more",
        ),
        ({"power_cap": 1e-3}, r"is too low"),
        ({"power_cap": "500"}, r"power_cap: '500' has no unit"),
        ({"power_cap": -1}, r"power_cap = -1 must be a power such as 500W, or a share"),
        ({"power_cap": float("nan")}, r"must be a power"),
        ({"power_cap": "400W", "basis": "ideal"}, r"the ideal basis is the hardware limit"),
        ({"pue": 0.9}, r"pue = 0.9 must be a number between 1 and 5"),
        ({"kwh_price": -0.1}, r"kwh_price = -0.1 must be a number between 0 and 10"),
        ({"kwh_price": "12 cents"}, r"kwh_price: "),
    ],
)
def test_impossible_values_are_refused(options, message):
    with pytest.raises(rl.BadInput, match=message):
        rl.predict(MODEL, GPU, **CASE, **options)


def test_questions_without_energy_refuse_its_price():
    with pytest.raises(rl.BadInput, match="curve takes no kwh_price: its rows state no energy"):
        rl.curve(MODEL, GPU, **CASE, kwh_price=0.1)
    with pytest.raises(rl.BadInput, match="power_cap"):
        rl.sheet("x.xlsx", MODEL, GPU, power_cap="400W")


@pytest.mark.parametrize(
    ("model", "options", "words"),
    [
        ("llama-3.1-8b", {"power_cap": "400W"}, "a power cap"),
        ("llama-3.1-8b", {"lora": "4:8"}, "adapters"),
        ("qwen3-vl-8b", {"images": 2}, "encoders"),
    ],
)
@pytest.mark.parametrize("load", [{"batch": 2}, {"concurrency": 4}])
def test_what_was_never_measured_is_no_bare_pass(model, options, words, load):
    case = {"isl": 1000, "osl": 100, "slo": "ttft:5s", **load}
    assert rl.predict(model, "h100-sxm", **case).slo_verdict.word == "pass"
    judged = rl.predict(model, "h100-sxm", **case, **options).slo_verdict
    assert judged.word == "pass?"
    assert judged.reason.startswith(f"outside the validated range: {words}")
