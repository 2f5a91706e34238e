"""The difference of two passes: exact, additive, and in words."""

import math

import pytest
from conftest import SAMPLE_MODELS, deploy, faster, gpus, models, plans, with_shorter_latencies
from every_case import each
from hypothesis import given
from hypothesis import strategies as st

import roofline as rl
from roofline.physics.equation import Kernel, LinkRoof, Roof, Terms, Work, kernel_time
from roofline.physics.passes import Pass, decode_pass, prefill_pass
from roofline.physics.plan import Plan
from roofline.serving.comparison import difference, difference_rows, effects, shares, unchanged, unchanged_text
from roofline.specs.gpu import KINDS, CollectiveEfficiency, Efficiency

KINDS_OF_LINK = ("h100-sxm", "l40s", "mi300x", "tpu-v5e", "gb200-nvl72")
KINDS_OF_MODEL = ("llama-3.1-70b", "gpt-oss-120b", "deepseek-r1")


def kernel(name, kind, time, count=1, bound="memory"):
    """A kernel of which one run takes a given time, all of it for one reason."""
    link, gpu = LinkRoof(1e11, 2, CollectiveEfficiency()), Roof(1e15, 1e12, 1.0, Efficiency())
    roof = link if KINDS[kind].is_collective else gpu
    reasons = {"compute": 0.0, "memory": 0.0, "latency": 0.0, "link": 0.0, bound: time}
    return Kernel(name, KINDS[kind], "bf16", count, Work(), roof, Terms(total=time, **reasons))


BEFORE = Pass(
    (
        kernel("experts", "moe", 2.0, count=2),
        kernel("qkv", "gemm", 1.0),
        kernel("qkv", "gemm", 2.0, bound="compute"),
        kernel("all-reduce", "all_reduce", 1.0, bound="link"),
        kernel("absorb", "gemm", 1.0, bound="latency"),
        kernel("host", "host", 1.0, bound="latency"),
    )
)  # 10 s
AFTER = Pass(
    (
        kernel("experts", "moe", 0.5, count=2, bound="compute"),
        kernel("qkv", "gemm", 1.5, bound="compute"),
        kernel("all-reduce", "all_reduce", 1.25, bound="link"),
        kernel("expand", "gemm", 0.25, bound="compute"),
        kernel("host", "host", 1.0, bound="latency"),
    )
)  # 5 s


def test_contributions_by_hand():
    found = difference(BEFORE, AFTER)
    assert (found.before, found.after, found.speedup) == (10.0, 5.0, 2.0)
    assert {entry.name: entry.contribution for entry in found.kernels} == {
        "experts": 3.0 / 5.0,
        "qkv": 1.5 / 5.0,  # both matrices of this name together
        "all-reduce": -0.25 / 5.0,
        "absorb": 1.0 / 5.0,  # in the reference alone
        "expand": -0.25 / 5.0,  # in the other pass alone
        "host": 0.0,
    }


def test_a_kernel_is_bound_by_what_bound_it_in_the_reference_or_where_it_is():
    bounds = {entry.name: (entry.bound, entry.other_bound) for entry in difference(BEFORE, AFTER).kernels}
    assert bounds["experts"] == ("memory", "compute")
    assert bounds["qkv"] == ("compute", "compute")  # most of its time
    assert bounds["expand"] == ("compute", "compute")
    assert bounds["absorb"] == ("latency", "latency")


def test_shares_gather_parts_that_the_same_term_moved_largest_first():
    found = [(share.part, share.cause, share.contribution) for share in shares(difference(BEFORE, AFTER))]
    assert found[:3] == [
        ("experts", "memory", 0.6),
        ("linear layers", "compute", pytest.approx(0.25)),
        ("linear layers", "latency", 0.2),
    ]
    assert [abs(share[2]) for share in found] == sorted((abs(share[2]) for share in found), reverse=True)


# --- causes ------------------------------------------------------------------------------------


def timed(work, roof, kind="gemm"):
    """A kernel whose time its work and roof decide."""
    return Kernel("k", KINDS[kind], "bf16", 3, work, roof, kernel_time(work, roof))


def cause(one, other):
    """Cause of the difference of two kernels."""
    (found,) = difference(Pass((one,)), Pass((other,))).kernels
    return found.cause


@pytest.mark.parametrize("order", [3.0, math.inf])
def test_what_hides_behind_another_term_takes_no_credit(order):
    work, efficiency = Work(flop=5.0, weight_bytes=10.0), Efficiency(p=order)
    slow = timed(work, Roof(1.0, 1.0, 1.0, efficiency))  # arithmetic 5 s, traffic 10 s
    assert cause(slow, timed(work, Roof(5.0, 10.0 / 8.5, 1.0, efficiency))) == "memory"  # 4 s of 5 s are not waited for
    assert cause(slow, timed(work, Roof(5.0, 1.0, 1.0, efficiency))) == ("compute" if order == 3.0 else "memory")


def test_a_gain_goes_to_what_got_faster_though_another_term_got_slower_by_more():
    work = Work(flop=1.0, weight_bytes=10.0)
    one = timed(work, Roof(1.0, 1.0, 1.0, Efficiency(p=math.inf)))
    other = timed(work, Roof(1.0 / 7.5, 2.0, 1.0, Efficiency(p=math.inf)))  # arithmetic 7.5 s, traffic 5 s
    assert cause(one, other) == "memory"
    assert cause(other, one) == "memory"


def test_a_kernel_in_one_of_the_passes_alone_is_moved_by_what_binds_it_there():
    causes = {entry.name: entry.cause for entry in difference(BEFORE, AFTER).kernels}
    assert (causes["absorb"], causes["expand"]) == ("latency", "compute")


@each("basis", ["ideal", "calibrated"])
@each("model", ["llama-3.1-70b", "deepseek-r1"])
@each(("rate", "term"), [("bandwidth", "memory"), ("peaks", "compute"), ("exp_rate", "exponentials"), ("link", "link")])
def test_a_single_rate_that_grows_is_the_cause_of_every_gain(model, rate, term, basis):
    slow = rl.load_gpu("h200-sxm")
    case = {"isl": 2000, "osl": 300, "batch": 16, "tp": 8, "basis": basis}
    one, other = rl.predict(model, slow, **case), rl.predict(model, faster(slow, 2.0, (rate,)), **case)
    moved = [
        kernel
        for passes in ((one.prefill, other.prefill), (one.decode, other.decode))
        for kernel in difference(*passes).kernels
        if kernel.contribution
    ]
    assert {kernel.cause for kernel in moved} == ({term} if basis == "calibrated" or rate != "exp_rate" else set())
    if basis == "calibrated":
        assert any(kernel.bound != term for kernel in moved)  # what it waits for would name another


@given(st.data(), st.sampled_from([("bandwidth", "memory"), ("peaks", "compute"), ("link", "link")]))
def test_a_single_rate_of_a_random_gpu_is_the_cause_of_every_gain(data, change):
    model, gpu, (rate, term) = data.draw(models()), data.draw(gpus()), change
    one, other = (deploy(model, device, plan=Plan(tp=2)) for device in (gpu, faster(gpu, 3.0, (rate,))))
    for passed in (decode_pass, prefill_pass):
        found = difference(passed(one, 4.0, 100.0), passed(other, 4.0, 100.0))
        assert {kernel.cause for kernel in found.kernels if kernel.contribution > 1e-9} <= {term}


@given(models(), gpus())
def test_shorter_latencies_are_the_cause_where_nothing_else_changes(model, gpu):
    one, other = (deploy(model, device) for device in (gpu, with_shorter_latencies(gpu, 2.0)))
    found = difference(decode_pass(one, 1.0, 100.0), decode_pass(other, 1.0, 100.0))
    assert {kernel.cause for kernel in found.kernels if kernel.contribution > 1e-9} <= {"latency"}


def test_the_effects_of_a_sum_are_its_terms_to_the_digit():
    work = Work(flop=6.0, weight_bytes=8.0, exponentials=2.0, serial_bytes=4.0)
    one, other = (timed(work, Roof(*rates, Efficiency(p=1.0))) for rates in ((1.0, 1.0, 1.0), (2.0, 4.0, 2.0)))
    found = effects([one], [other])  # three runs of 6 - 3, 8 - 2, 4 - 1 and 2 - 1 s
    assert found == {"compute": 9.0, "memory": 18.0, "serial": 9.0, "exponentials": 3.0, "link": 0.0, "latency": 0.0}
    assert math.fsum(found.values()) == one.time - other.time


def test_the_dump_of_a_difference_leaves_its_kernels_out():
    assert repr(difference(BEFORE, AFTER)) == "Difference(before=10.0, after=5.0)"


# --- words -------------------------------------------------------------------------------------


def test_what_does_not_change_is_named_with_its_share_of_the_new_pass():
    found = difference(BEFORE, AFTER)
    assert unchanged(found) == [("host", 0.2)]
    assert unchanged_text(found, "step") == "unchanged: the host (20 % of the new step)"
    assert unchanged_text(difference(BEFORE, Pass(AFTER.kernels[:-1])), "step") == ""


def test_gains_and_losses_that_cancel_within_a_part_are_a_change():
    crossed = Pass((kernel("a", "gemm", 2.0), kernel("b", "gemm", 1.0)))
    assert unchanged(difference(crossed, Pass((kernel("a", "gemm", 1.0), kernel("b", "gemm", 2.0))))) == []


def test_a_pass_against_itself_gains_nothing_anywhere():
    found = difference(BEFORE, BEFORE)
    assert found.speedup == 1.0
    assert {entry.contribution for entry in found.kernels} == {0.0}


def test_rows_carry_microseconds_and_labels():
    row = difference_rows(difference(BEFORE, AFTER), gpu="b")[0]
    assert (row["gpu"], row["kernel"]) == ("b", "experts")
    assert (row["bound"], row["other_bound"], row["cause"]) == ("memory", "compute", "memory")
    assert (row["reference_us"], row["total_us"], row["gain_us"]) == pytest.approx((4e6, 1e6, 3e6))


def assert_adds_up(found):
    """Contributions add up to the speed-up, times to the passes."""
    assert math.fsum(entry.contribution for entry in found.kernels) == pytest.approx(found.speedup - 1.0, abs=1e-12)
    assert math.fsum(share.contribution for share in shares(found)) == pytest.approx(found.speedup - 1.0, abs=1e-12)
    assert math.fsum(entry.before for entry in found.kernels) == pytest.approx(found.before, rel=1e-12)
    assert math.fsum(entry.after for entry in found.kernels) == pytest.approx(found.after, rel=1e-12)


@each("basis", ["ideal", "calibrated"])
@each("model", KINDS_OF_MODEL)
@each("gpu", KINDS_OF_LINK)
def test_the_difference_of_two_predictions_adds_up(model, gpu, basis):
    case = {"isl": 2000, "osl": 300, "batch": 16, "tp": 8, "basis": basis, "allow_oversize": True}
    one, other = rl.predict(model, "b200", **case), rl.predict(model, gpu, **case)
    first, step = difference(one.prefill, other.prefill), difference(one.decode, other.decode)
    assert_adds_up(first)
    assert_adds_up(step)
    assert first.speedup == pytest.approx(one.ttft / other.ttft, rel=1e-12)
    assert step.speedup == pytest.approx(one.tpot / other.tpot, rel=1e-12)


@given(st.data(), plans, st.sampled_from(["ideal", "calibrated"]))
def test_the_difference_of_random_passes_adds_up(data, plan, basis):
    model = data.draw(models())
    one, other = (deploy(model, data.draw(gpus()), plan=plan, basis=basis) for _ in range(2))
    assert_adds_up(difference(decode_pass(one, 16.0, 1000.0), decode_pass(other, 16.0, 1000.0)))
    assert_adds_up(difference(prefill_pass(one, 2.0, 500.0), prefill_pass(other, 2.0, 500.0)))


@given(models(), gpus())
def test_at_light_speed_twice_the_rates_halve_every_kernel(model, gpu):
    one, other = (deploy(model, device, plan=Plan(tp=2), basis="ideal") for device in (gpu, faster(gpu, 2.0)))
    found = difference(decode_pass(one, 4.0, 100.0), decode_pass(other, 4.0, 100.0))
    assert found.speedup == pytest.approx(2.0, rel=1e-12)
    assert all(entry.contribution == pytest.approx(entry.after / found.after, abs=1e-12) for entry in found.kernels)


@each("model", SAMPLE_MODELS)
def test_every_kind_of_kernel_has_a_name_for_people(model):
    deployment = deploy(model, "h100-sxm", plan=Plan(tp=2, pp=2), engine="generic")
    for passed in (decode_pass(deployment, 2.0, 100.0), prefill_pass(deployment, 2.0, 100.0)):
        kinds = {entry.name: entry.kind for entry in passed.kernels}
        for entry in difference(passed, passed).kernels:
            if entry.part == "attention":
                assert kinds[entry.name].is_attention, kinds[entry.name]
