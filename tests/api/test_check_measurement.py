"""A measurement beside its prediction: ratios, shares of the machine, and parts that would explain a gap."""

import math
from dataclasses import replace

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

import roofline as rl
from roofline.physics.equation import Kernel, LinkRoof, Roof, Terms, Work
from roofline.physics.passes import Pass
from roofline.questions.check import check_measurement, expected, mbu, mfu, parts
from roofline.questions.diagnosis import MOST_PLAUSIBLE
from roofline.specs.gpu import HEAD, KINDS, CollectiveEfficiency, Efficiency
from roofline.specs.workload import Measurement

MEASURED = Measurement(
    "run.json", model="llama-3.1-8b", gpu="h100-sxm", tp=1, isl=2000.0, osl=300.0, batch=4.0, ttft=0.2, tpot=0.01
)


def kernel(name, kind, time, count=1, work=Work(), peak=1e15, part=""):  # noqa: B008  frozen
    """A kernel of which one run takes a given time."""
    link, gpu = LinkRoof(1e11, 2, CollectiveEfficiency()), Roof(peak, 1e12, math.inf, Efficiency())
    roof = link if KINDS[kind].is_collective else gpu
    return Kernel(name, KINDS[kind], "bf16", count, work, roof, Terms(time, time, 0.0, 0.0), part)


PASS = Pass(
    (
        kernel("qkv", "gemm", 2e-3, count=2),
        kernel("attention", "attention_decode", 3e-3),
        kernel("all-reduce", "all_reduce", 1e-3),
        kernel("norm", "elementwise", 0.5e-3, count=2),
        kernel("head", "gemm", 1e-3, part=HEAD),
    )
)  # 10 ms


# --- shares of the machine -----------------------------------------------------------------------


def test_mfu_counts_each_kernel_at_the_peak_of_its_dtype():
    kernels = (
        kernel("a", "gemm", 1.0, count=3, work=Work(flop=1e12), peak=1e15),
        kernel("b", "gemm", 1.0, work=Work(flop=4e12), peak=2e15),
        kernel("c", "all_reduce", 1.0, work=Work(link_bytes=1e9)),
    )
    assert mfu(Pass(kernels), 0.010) == pytest.approx((3e12 / 1e15 + 4e12 / 2e15) / 0.010, rel=1e-12)


def test_mbu_counts_all_traffic():
    work = Work(weight_bytes=1e9, kv_bytes=2e9, activation_bytes=3e9, serial_bytes=4e9)
    assert mbu(Pass((kernel("a", "gemm", 1.0, count=2, work=work),)), 1e12, 0.1) == pytest.approx(0.2, rel=1e-12)


def test_mfu_and_mbu_of_a_dense_model_agree_with_a_count_by_hand():
    found = check_measurement(MEASURED)
    layer = 4096 * (4096 + 2 * 1024) + 4096 * 4096 + 3 * 4096 * 14336  # parameters of q, k, v; o; the network
    tokens, pairs = 4 * 2000, 4 * 2000 * 2001 / 2
    flop = 2 * 32 * layer * tokens + 4 * 32 * 128 * pairs * 32 + 2 * 4 * 4096 * 128256
    assert found.mfu == pytest.approx(flop / (0.2 * 989.4e12), rel=1e-3)
    weights = 2 * (32 * layer + 4096 * 128256)
    kv = 4 * 2 * 32 * 8 * 128 * 2 * 2150  # mean KV length of 299 steps from 2000 on
    assert found.mbu == pytest.approx((weights + kv) / (0.01 * 3.35e12), rel=0.01)  # activations are below 1 %


# --- parts ---------------------------------------------------------------------------------------


def test_kernels_are_grouped_into_parts_of_a_step():
    found = {part.name: part for part in parts(PASS, 10e-3, 12e-3)}
    assert {name: round(part.time * 1e3, 9) for name, part in found.items()} == {
        "linear layers": 4.0,
        "attention": 3.0,
        "collectives": 1.0,
        "element-wise passes": 1.0,
        "head": 1.0,
    }
    assert found["linear layers"].share == pytest.approx(0.4)


def test_the_factor_is_what_the_part_alone_would_need():
    found = {part.name: part.factor for part in parts(PASS, 10e-3, 12e-3)}
    assert found["linear layers"] == pytest.approx(1.5)  # 6 + 1.5 x 4 = 12
    assert found["attention"] == pytest.approx(5.0 / 3.0)
    assert found["collectives"] == found["head"] == pytest.approx(3.0)


def test_the_part_that_has_to_change_least_comes_first():
    assert [part.name for part in parts(PASS, 10e-3, 12e-3)][:2] == ["linear layers", "attention"]
    below = parts(PASS, 10e-3, 8.5e-3)
    assert below[0].name == "linear layers"
    assert below[0].factor == pytest.approx(0.625)


def test_a_part_that_would_have_to_take_no_time_explains_nothing():
    found = {part.name: part for part in parts(PASS, 10e-3, 8.5e-3)}
    assert found["head"].factor is None
    assert not found["head"].is_plausible
    assert [part.factor for part in parts(PASS, 10e-3, 1e-3)] == [None] * 5


def test_no_part_explains_a_time_that_is_much_longer():
    found = parts(PASS, 10e-3, 1.0)
    assert all(part.factor > MOST_PLAUSIBLE for part in found)
    assert not any(part.is_plausible for part in found)


def test_what_the_host_does_is_a_part():
    found = {
        part.name: part.time for part in parts(Pass((*PASS.kernels, kernel("host, step", "host", 2e-3))), 12e-3, 1)
    }
    assert found["host"] == 2e-3


def test_what_exceeds_the_kernels_is_a_part():
    found = {part.name: part for part in parts(PASS, 12e-3, 14e-3)}
    assert found["queue and other prompts"].time == pytest.approx(2e-3)
    assert found["queue and other prompts"].factor == pytest.approx(2.0)
    assert "queue and other prompts" not in {part.name for part in parts(PASS, 10e-3, 14e-3)}


def test_every_kernel_of_a_mixture_of_experts_is_in_a_part_that_readers_know():
    asked = replace(MEASURED, model="deepseek-r1", gpu="h200-sxm", tp=8, ep=8)
    found = check_measurement(asked)
    names = {part.name for part in (*found.prefill_parts, *found.decode_parts)}
    assert names - {"host"} == {
        "linear layers", "attention", "experts", "collectives", "element-wise passes", "head",
    }  # fmt: skip


@given(
    times=st.lists(st.floats(1e-6, 1.0), min_size=1, max_size=5),
    measured=st.floats(1e-6, 100.0),
)
def test_a_factor_on_its_part_makes_the_measured_time(times, measured):
    kinds = ("gemm", "attention_decode", "moe", "elementwise", "all_reduce")
    kernels = tuple(kernel(kind, kind, time) for kind, time in zip(kinds, times, strict=False))
    step = sum(times)
    found = parts(Pass(kernels), step, measured)
    assert sum(part.time for part in found) == pytest.approx(step)
    for part in found:
        if part.factor is not None:
            assert step - part.time + part.factor * part.time == pytest.approx(measured, rel=1e-6)
        else:
            assert step - part.time >= measured * (1.0 - 1e-9)


# --- the case that a measurement stands for ------------------------------------------------------


class Asked:
    """`roofline.predict` that keeps what it was asked."""

    def __init__(self):
        self.cases = []

    def __call__(self, model, gpu, **case):
        self.cases.append({"model": model, "gpu": gpu, **case})
        return rl.predict(model, gpu, **case)


def test_a_static_batch_is_asked_for_as_it_is(monkeypatch):
    asked = Asked()
    monkeypatch.setattr("roofline.questions.check.predict", asked)
    found = expected(MEASURED, basis="calibrated")
    (case,) = asked.cases
    assert {key: case[key] for key in ("model", "gpu", "tp", "pp", "ep", "dp", "isl", "osl", "batch")} == {
        "model": "llama-3.1-8b", "gpu": "h100-sxm", "tp": 1, "pp": 1, "ep": 1, "dp": 1,
        "isl": 2000.0, "osl": 300.0, "batch": 4.0,
    }  # fmt: skip
    direct = rl.predict("llama-3.1-8b", "h100-sxm", tp=1, isl=2000, osl=300, batch=4)
    assert (found.ttft, found.tpot, found.e2el) == (direct.ttft, direct.tpot, direct.e2el)


def test_requests_in_flight_are_users_who_ask_again(monkeypatch):
    asked = Asked()
    monkeypatch.setattr("roofline.questions.check.predict", asked)
    found = expected(replace(MEASURED, batch=None, concurrency=64.0))
    (case,) = asked.cases
    assert case["concurrency"] == 64.0
    assert not {"batch", "request_rate", "num_prompts"} & set(case)
    direct = rl.predict("llama-3.1-8b", "h100-sxm", concurrency=64, tp=1, isl=2000, osl=300)
    assert (found.ttft, found.tpot, found.e2el) == (direct.ttft, direct.tpot, direct.e2el)
    assert found.e2el == pytest.approx(direct.ttft + 299 * direct.tpot)
    assert found.notes[0] == "64 requests in flight: predicted as a closed loop of users"


def test_a_single_request_in_flight_waits_for_nobody():
    alone, burst, two = (
        expected(replace(MEASURED, **load))
        for load in ({"batch": None, "concurrency": 1.0}, {"batch": 1.0}, {"batch": None, "concurrency": 2.0})
    )
    assert (alone.ttft, alone.tpot) == pytest.approx((burst.ttft, burst.tpot), rel=1e-12)
    assert alone.batch == 1.0
    assert two.ttft > alone.ttft
    assert two.tpot > alone.tpot


def test_less_than_one_request_in_flight_is_one():
    less, one = (expected(replace(MEASURED, batch=None, concurrency=users)) for users in (0.3, 1.0))
    assert (less.ttft, less.tpot, less.batch) == (one.ttft, one.tpot, 1.0)


@pytest.mark.parametrize("users, statistic, is_run", [
    (64.0, "mean", True), (64.0, None, True), (64.0, "median", False), (321.0, "median", True), (1.0, "mean", False),
])  # fmt: skip
def test_the_start_of_a_run_counts_for_means_and_for_medians_where_most_requests_belong_to_it(users, statistic, is_run):
    run = replace(MEASURED, batch=None, concurrency=users, num_prompts=640.0, statistic=statistic)
    case = {"tp": 1, "isl": 2000, "osl": 300, "concurrency": users}
    steady, begun = (rl.predict("llama-3.1-8b", "h100-sxm", **case, **more) for more in ({}, {"num_prompts": 640}))
    assert users == 1.0 or begun.ttft > 1.1 * steady.ttft
    found = expected(run)
    assert found.ttft == (begun if is_run else steady).ttft
    assert found.notes[0].endswith("in a run of 640 requests that starts all users at once") is is_run


def test_a_run_that_the_file_states_is_not_advised_and_what_is_compared_is_said():
    run = replace(MEASURED, batch=None, concurrency=64.0, num_prompts=640.0, statistic="median")
    median, mean = (expected(replace(run, statistic=statistic)) for statistic in ("median", "mean"))
    assert median.against == (
        "the mean of the steady state; of the run of 640 requests only means are predicted (statistic = mean)"
    )
    assert mean.against == "the mean over the run of 640 requests, its start included"
    assert not any("--num-prompts" in note for note in (*median.notes, *mean.notes))
    unknown = expected(replace(run, num_prompts=None))
    assert unknown.against == "the mean of the steady state"
    assert any("`num_prompts` 640" in note for note in unknown.notes)
    assert expected(MEASURED).against == ""


@pytest.mark.parametrize(("tpot", "is_common"), [(5.5, True), (2.0, False)])
def test_latencies_that_are_slow_alike_have_a_common_factor(tpot, is_common):
    run = replace(MEASURED, batch=None, concurrency=64.0, statistic="mean")
    predicted = expected(run)
    slow = check_measurement(replace(run, ttft=6.0 * predicted.ttft, tpot=tpot * predicted.tpot))
    assert ("slow by a common factor of about 5.7, as with lower clocks" in (slow.unexplained or "")) is is_common


def test_stages_of_a_pipeline_share_the_requests_in_flight_and_ranks_share_a_batch():
    shared = replace(MEASURED, model="llama-3.1-70b", batch=None, concurrency=64.0)
    for plan, most in (({"tp": 2, "pp": 2}, 32.0), ({"tp": 4, "dp": 2}, 64.0)):  # dp divides it inside a replica
        found = expected(replace(shared, **plan)).batch
        assert 0.95 * most < found < most, plan  # all but those whose prompt is computed or waits


def test_a_rate_alone_is_that_of_random_arrivals(monkeypatch):
    asked = Asked()
    monkeypatch.setattr("roofline.questions.check.predict", asked)
    rate = replace(MEASURED, batch=None, request_rate=4.0, osl=101.0)
    found = expected(rate)
    (case,) = asked.cases
    assert case["request_rate"] == 4.0
    assert not {"batch", "concurrency", "num_prompts"} & set(case)
    direct = rl.predict("llama-3.1-8b", "h100-sxm", request_rate=4, tp=1, isl=2000, osl=101)
    assert (found.ttft, found.tpot, found.e2el) == (direct.ttft, direct.tpot, direct.e2el)
    assert found.notes[0] == "4 requests/s: predicted as Poisson arrivals"


def test_a_rate_beyond_what_can_be_answered_is_refused_and_so_is_no_load():
    rate = replace(MEASURED, batch=None, request_rate=400.0, osl=101.0)
    most = rl.predict("llama-3.1-8b", "h100-sxm", request_rate=4, tp=1, isl=2000, osl=101).max_request_rate
    with pytest.raises(rl.RooflineError, match=rf"at most {most:.3g} (requests/s|are predicted)"):
        expected(rate)
    with pytest.raises(rl.BadInput, match="no load given; add concurrency, request_rate or batch"):
        expected(replace(rate, request_rate=None))


def test_a_case_that_ran_is_compared_though_it_does_not_fit_by_our_count():
    crowded = replace(MEASURED, batch=4000.0)
    assert any("of the usable memory as computed" in note for note in expected(crowded).notes)


def test_weights_that_cannot_have_been_there_are_refused():
    with pytest.raises(rl.DoesNotFit, match=r"141.1 GB .* exceed .* check tp, gpu and quantization"):
        expected(replace(MEASURED, model="llama-3.1-70b"))


# --- the comparison ------------------------------------------------------------------------------


@pytest.mark.parametrize("model", ["llama-3.1-8b", "mixtral-8x7b", "deepseek-r1"])
def test_a_measurement_equal_to_its_prediction_has_ratio_one_and_factors_of_one(model):
    case = replace(MEASURED, model=model, gpu="h200-sxm", tp=8)
    predicted = expected(case)
    found = check_measurement(replace(case, ttft=predicted.ttft, tpot=predicted.tpot, e2el=predicted.e2el))
    assert (found.ratio("ttft"), found.ratio("tpot"), found.ratio("e2el")) == (1.0, 1.0, 1.0)
    assert all(part.factor == pytest.approx(1.0) for part in (*found.prefill_parts, *found.decode_parts))
    assert sum(part.share for part in found.decode_parts) == pytest.approx(1.0)


@given(slower=st.floats(1.0, 50.0))
def test_shares_fall_as_the_measured_time_grows(slower):
    light = expected(MEASURED, basis="ideal")
    found = check_measurement(replace(MEASURED, ttft=light.ttft * slower, tpot=light.tpot * slower))
    for metric, used in (("ttft", found.mfu), ("tpot", found.mbu)):
        assert found.ideal_share(metric) == pytest.approx(1.0 / slower)
        assert used <= found.ideal_share(metric) * (1.0 + 1e-9)  # light needs at least each of the two


def test_a_time_that_light_cannot_make_is_said():
    light = expected(MEASURED, basis="ideal")
    found = check_measurement(replace(MEASURED, ttft=light.ttft / 2, tpot=light.tpot / 2))
    assert any(note.startswith("ttft is below the hardware limit: prompts were cached") for note in found.notes)
    assert any(note.startswith("tpot is below the hardware limit: ") for note in found.notes)
    assert not any("hardware limit" in note for note in check_measurement(MEASURED).notes)


def test_what_was_not_measured_is_not_compared():
    first_only = check_measurement(replace(MEASURED, tpot=None, osl=None))
    assert (first_only.ratio("tpot"), first_only.mbu, first_only.decode_parts) == (None, None, ())
    assert first_only.ratio("ttft") is not None
    steps_only = check_measurement(replace(MEASURED, ttft=None))
    assert (steps_only.ratio("ttft"), steps_only.mfu, steps_only.prefill_parts) == (None, None, ())


def test_the_ideal_basis_is_the_hardware_limit():
    found = check_measurement(MEASURED, basis="ideal")
    for metric in ("ttft", "tpot"):
        assert found.ratio(metric) == pytest.approx(1.0 / found.ideal_share(metric))


@given(cached=st.integers(0, 2000))
def test_a_cached_prefix_is_no_work(cached):
    assume(cached < 1999)
    found = check_measurement(replace(MEASURED, prefix=float(cached)))
    assert found.mfu <= check_measurement(MEASURED).mfu


def test_check_takes_options_by_the_names_that_callers_know_and_no_rule_for_a_degree():
    with pytest.raises(rl.BadInput, match="takes the degree that ran"):
        rl.check("missing.json", gpu="h100", ep="all")
    with pytest.raises(rl.BadInput, match="cannot be read"):
        rl.check("missing.json", gpu="h100", users=4, input_len=200, tensor_parallel_size=1)
