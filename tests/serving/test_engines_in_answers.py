"""What an engine adds to an answer: exactly what its profile says, and never anything at the hardware limit."""

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from conftest import SAMPLE_GPUS, SAMPLE_MODELS, close, deploy, deployments, engines
from every_case import each
from hypothesis import given
from hypothesis import strategies as st

import roofline as rl
import roofline.numbers.arrays
from roofline.catalog.find import engine_names, load_engine
from roofline.physics.passes import decode_pass, prefill_pass
from roofline.physics.plan import Plan
from roofline.serving.latency import Workload, decode, prefill
from roofline.serving.load.rounds import meeting
from roofline.serving.load.server import Server, prompt_of
from roofline.serving.prediction import predict_deployment
from roofline.specs.engine import Engine, KernelOverride
from roofline.specs.gpu import ALL_REDUCE, GEMM, HOST
from roofline.specs.load import Burst, Users, load_of
from roofline.support.errors import UnsupportedPrecision

SMALL = ("llama-3.1-8b", "h100-sxm")
CASE = {"isl": 2000, "osl": 300, "batch": 16}
SERVERS = tuple(name for name in engine_names() if name != "none")


def all_reduces(passed):
    return sum(kernel.count for kernel in passed.kernels if kernel.kind is ALL_REDUCE)


def gpu_kernels(passed):
    return [kernel for kernel in passed.kernels if kernel.kind is not HOST]


# --- what is added -----------------------------------------------------------------------------


@given(
    deployment=deployments(basis="calibrated"),
    engine=engines,
    isl=st.integers(1, 5000),
    osl=st.integers(2, 500),
    batch=st.integers(1, 200),
)
def test_the_host_adds_what_the_profile_says_and_no_more(deployment, engine, isl, osl, batch):
    workload = Workload(float(isl), float(osl), Burst(float(batch)))
    kernels = prefill(deployment, workload), decode(deployment, workload)
    served = replace(deployment, engine=engine)
    first, step = prefill(served, workload), decode(served, workload)
    busy = [found.time + all_reduces(found) * engine.all_reduce for found in kernels]
    launched = [sum(kernel.count * kernel.kind.launches for kernel in found.kernels) for found in kernels]
    # The GPU waits for a host that launches more slowly than it computes, and no longer.
    alone = max(busy[0], engine.launch * launched[0]) + engine.prefill
    assert close(first.time, engine.network + engine.request + alone, 1e-11)
    sequences = -(-batch // deployment.plan.dp)  # of the fullest rank
    host = engine.step + engine.layer * deployment.model.layers + engine.sequence * sequences
    assert close(step.time, max(busy[1], engine.launch_decode * launched[1]) + host, 1e-11)


def test_the_times_of_a_profile_are_rows_of_the_breakdown():
    found = rl.predict(*SMALL, engine="vllm", network=0.02, **CASE)
    engine = load_engine("vllm")
    rows = found.breakdown["prefill"]
    assert (rows["network"], rows["request"], rows["host, prefill"]) == (0.02, engine.request, engine.prefill)
    assert close(found.breakdown["decode"]["host, decode step"], engine.step + 16 * engine.sequence)
    assert close(sum(rows.values()), found.ttft)
    assert close(sum(found.breakdown["decode"].values()), found.tpot)


@each("name", SERVERS)
def test_the_step_grows_by_the_time_of_a_sequence_for_each(name):
    engine = load_engine(name)
    for batch in (1, 64, 200):
        served = rl.predict("llama-3.1-70b", "h200-sxm", tp=4, batch=batch, isl=500, osl=50, engine=name)
        alone = replace(served.deployment, engine=load_engine("none"))  # the same kernels, which are the engine's own
        per_step = engine.step + 80 * engine.layer + 160 * engine.all_reduce  # 80 layers, two all-reduces each
        if not engine.tunings:
            rest = served.tpot - decode(alone, served.workload).time
            assert rest == pytest.approx(per_step + batch * engine.sequence, rel=1e-9)


def test_the_network_is_before_the_first_token_alone():
    for engine in ("generic", "none"):
        near, far = (rl.predict(*SMALL, engine=engine, network=network, **CASE) for network in (0.0, 0.03))
        assert (far.ttft, far.tpot, far.e2el) == pytest.approx(
            (near.ttft + 0.03, near.tpot, near.e2el + 0.03), rel=1e-12
        )


def test_throughput_counts_the_time_of_the_host():
    served, kernels = (rl.predict(*SMALL, engine=name, **CASE) for name in ("generic", "none"))
    assert close(served.output_tok_s, 16 * 300 / served.e2el)
    assert served.output_tok_s < kernels.output_tok_s


def test_the_default_is_the_generic_profile_and_says_what_it_was_fitted_on():
    found = rl.predict(*SMALL, **CASE)
    assert found.to_dict()["engine"] == "generic"
    assert found == rl.predict(*SMALL, engine="generic", **CASE)
    assert f"generic ({load_engine('generic').versions}" in str(found)
    assert "none: kernels only" in str(rl.predict(*SMALL, engine="none", **CASE))


@each(
    "network",
    [-1e-9, -1, float("nan"), float("inf"), 1e6, True, None, "soon", "20", "-20ms", "20 kg", [0.02]],
    ids=repr,
)
def test_a_network_that_is_no_time_is_refused(network):
    with pytest.raises(rl.BadInput, match="network = "):
        rl.predict(*SMALL, network=network)


@pytest.mark.parametrize("text", ["20ms", "0.02s", "20000us"])
def test_a_network_may_be_a_text_with_a_unit(text):
    assert rl.predict(*SMALL, network=text, **CASE) == rl.predict(*SMALL, network=0.02, **CASE)
    assert rl.ttft(*SMALL, network=text, **CASE) - rl.ttft(*SMALL, **CASE) == pytest.approx(0.02)


# --- tunings -----------------------------------------------------------------------------------


def served(tuning, gpu="h100-sxm", quantization=None):
    """Kernels of a prefill by name, without the tuning and with it."""
    deployment = deploy("llama-3.1-8b", gpu, quantization=quantization)
    tuned = replace(deployment, engine=Engine("tuned", tunings=(tuning,)))
    return [
        {kernel.name: kernel for kernel in prefill_pass(choice, 4.0, 2000.0).kernels} for choice in (deployment, tuned)
    ]


def test_a_tuning_multiplies_the_shares_of_the_kernels_that_it_names_and_of_no_others():
    plain, tuned = served(KernelOverride("gemm", compute=0.5, memory=0.25))
    assert plain.keys() == tuned.keys()
    for name, kernel in plain.items():
        before, after = kernel.roof.efficiency, tuned[name].roof.efficiency
        if kernel.kind is GEMM:
            assert (after.eta_c, after.eta_m) == (0.5 * before.eta_c, 0.25 * before.eta_m)
            assert tuned[name].terms.total > kernel.terms.total
        else:
            assert tuned[name] == kernel


@pytest.mark.parametrize(
    ("of", "holds"),
    [
        ({"dtype": "bf16"}, True),
        ({"dtype": "fp8"}, False),
        ({"generation": "hopper"}, True),
        ({"generation": "ampere"}, False),
        ({"dtype": "bf16", "generation": "ampere"}, False),
    ],
)
def test_a_tuning_holds_for_its_dtype_and_generation(of, holds):
    plain, tuned = served(KernelOverride("gemm", compute=0.5, **of))
    assert (tuned["qkv"].terms.total > plain["qkv"].terms.total) is holds
    assert holds or tuned == plain


def test_a_tuning_may_name_the_units_that_multiply():
    plain, tuned = served(KernelOverride("attention_prefill", peak="fp32", eta_c=0.5))
    fp32 = rl.load_gpu("h100-sxm").peaks["fp32"]
    before, after = plain["attention"].roof, tuned["attention"].roof
    assert (after.peak, after.efficiency.eta_c) == (fp32, 0.5)
    assert (after.bandwidth, after.efficiency.t0) == (before.bandwidth, before.efficiency.t0)


def test_no_tuning_takes_a_kernel_beyond_the_rates_of_the_gpu():
    _, tuned = served(KernelOverride("gemm", compute=100.0, memory=100.0))
    assert (tuned["qkv"].roof.efficiency.eta_c, tuned["qkv"].roof.efficiency.eta_m) == (1.0, 1.0)


# --- light -------------------------------------------------------------------------------------


@each("name", engine_names())
def test_the_ideal_basis_has_no_engine(name):
    options = {**CASE, "basis": "ideal"}
    found = rl.predict("mixtral-8x7b", "h100-sxm", tp=4, engine=name, network=0.5, **options)
    kernels = rl.predict("mixtral-8x7b", "h100-sxm", tp=4, engine="none", **options)
    assert (found.ttft, found.tpot, found.e2el) == (kernels.ttft, kernels.tpot, kernels.e2el)
    assert found.to_dict()["engine"] == found.engine == "none"
    assert gpu_kernels(found.prefill) == list(found.prefill.kernels)


@each("gpu", SAMPLE_GPUS, few=2)
@each("name", engine_names())
def test_no_engine_makes_a_pass_or_a_kernel_faster_than_the_hardware_limit(name, gpu):
    compared = 0
    for model in SAMPLE_MODELS[1::3]:
        for preset in (None, "fp8"):
            try:
                ideal = deploy(model, gpu, Plan(tp=8), preset, basis="ideal")
            except UnsupportedPrecision:
                continue
            served = deploy(model, gpu, Plan(tp=8), preset, engine=name)
            for batch, tokens in ((1.0, 500.0), (64.0, 3000.0)):
                for run in (prefill_pass, decode_pass):
                    slow, light = (run(one, batch, tokens) for one in (served, ideal))
                    assert slow.time >= light.time
                    for kernel, bound in zip(gpu_kernels(slow), light.kernels, strict=True):
                        assert kernel.terms.total >= bound.terms.total * (1.0 - 1e-12), kernel.name
                        compared += 1
    assert compared > 100


@each("name", engine_names())
def test_the_share_of_light_speed_is_what_ideal_and_served_answers_say(name):
    served = rl.predict("llama-3.1-70b", "b200", tp=2, engine=name, **CASE)
    ideal = rl.predict("llama-3.1-70b", "b200", tp=2, engine=name, basis="ideal", **CASE)
    expected = {"prefill": ideal.ttft / served.ttft, "decode": ideal.tpot / served.tpot}
    assert served.ideal_share == pytest.approx(expected, rel=1e-12)
    assert ideal.ideal_share == pytest.approx(expected, rel=1e-12)
    assert all(0.0 < share <= 1.0 for share in expected.values())
    row = served.to_dict()
    assert (row["ttft_light_frac"], row["tpot_light_frac"]) == tuple(served.ideal_share.values())


def test_prompts_take_longer_while_others_decode_and_not_alone():
    engine = load_engine("vllm")
    kernels = rl.predict(*SMALL, isl=2000, osl=100, engine="none").ttft

    def server(**changes):
        return Server(deploy(*SMALL, engine=replace(engine, **changes)), 2000.0, 100.0)

    for slowdown in (engine.prefill_slowdown, 1.0):  # longer kernels than the host's launches
        assert close(prompt_of(server(prefill_slowdown=slowdown)).alone, kernels + engine.prefill)
    assert engine.prefill_slowdown > 1.0
    for scheduler in ("decode first", "prompts first"):
        slow, quick = (
            meeting(one, prompt_of(one), 0.5, 3.0, 0.01, None)
            for one in (server(scheduler=scheduler), server(scheduler=scheduler, prefill_slowdown=1.0))
        )
        # The host's time before a pass is shared by the prompts in it, of which a slower server computes more together.
        assert quick.prompt < slow.prompt < engine.prefill_slowdown * quick.prompt
        assert slow.plain == quick.plain


def test_what_an_arrival_waits_is_seen_by_several_users_and_by_none_alone():
    engine = replace(load_engine("vllm"), arrival=0.0)
    late = replace(engine, arrival=0.04)
    for load, least, most in (
        ({"concurrency": 1.0}, 0.0, 1e-12),
        ({"request_rate": 1e-6}, 0.0, 1e-6),
        ({"request_rate": 2.0}, 0.04 * (5.0 / 6.0**0.5), 0.04 * 5.01**0.5),  # 5 others decode: Jensen's bounds
        ({"concurrency": 64.0}, 0.04 * 58.0**0.5, 0.04 * 64.0**0.5),  # 60
    ):
        workload = Workload(2000.0, 300.0, load_of(load))
        sooner, later = (predict_deployment(deploy(*SMALL, engine=each), workload) for each in (engine, late))
        assert least <= later.ttft - sooner.ttft <= most, load
        assert close(later.concurrency, later.request_rate * later.e2el, 1e-9)
        assert later.served.max_request_rate == sooner.served.max_request_rate


@pytest.mark.parametrize("scheduler", ["decode first", "prompts first"])
def test_what_an_arrival_waits_comes_with_the_company_and_without_a_jump(scheduler):
    sooner, later = (
        deploy(*SMALL, engine=replace(load_engine("vllm"), arrival=arrival, scheduler=scheduler))
        for arrival in (0.0, 0.04)
    )
    for batch in (1.0, 16.0):  # a burst meets nobody who decodes
        burst = Workload(2000.0, 300.0, Burst(batch))
        assert predict_deployment(later, burst).ttft == predict_deployment(sooner, burst).ttft
    for load in (
        {"concurrency": np.array([1.0, 1.02, 1.1, 1.25, 1.5, 2.0, 3.0, 4.0, 8.0])},
        {"request_rate": np.array([1e-6, 0.03, 0.1, 0.2, 0.4, 0.8, 1.6, 3.2])},
    ):
        quick, slow = (predict_deployment(each, Workload(2000.0, 300.0, load_of(load))) for each in (sooner, later))
        waits, others = slow.ttft - quick.ttft, slow.served.state[0]
        assert all(fewer <= more for fewer, more in pairwise([0.0, *waits])), waits
        # By Jensen the mean root of a number is between these; users also meet another part of what runs.
        most = 1.0 if "request_rate" in load else 1.1 if scheduler == "prompts first" else 1.04
        assert np.all(waits >= 0.04 * others / (others + 1.0) ** 0.5 - 1e-9)
        assert np.all(waits <= 0.04 * others**0.5 * most + 1e-9)


@each("scheduler", ["decode first", "prompts first"])
@each("time", ["arrival", "prefill", "launch", "launch_decode"])
def test_a_slower_host_never_answers_sooner(time, scheduler):
    engine = replace(load_engine("generic"), scheduler=scheduler, launch_decode=2e-5)
    slower = replace(engine, **{time: 1.5 * getattr(engine, time)})
    for load in (
        {"batch": np.array([1.0, 4.0, 64.0])},
        {"request_rate": np.array([0.01, 1.0, 4.0])},
        {"concurrency": np.array([1.0, 3.0, 24.0])},
    ):
        workload = Workload(200.0, 300.0, load_of(load))
        before, after = (predict_deployment(deploy(*SMALL, engine=each), workload) for each in (engine, slower))
        # Users who are answered later meet less of each other's work, but ask for no more of it.
        names = ("e2el",) if "concurrency" in load else ("ttft", "tpot", "e2el")
        for name in names:
            assert np.all(getattr(after, name) >= getattr(before, name) * (1.0 - 1e-9)), (name, load)
        assert np.any(after.e2el > before.e2el) or (time, "batch" in load) == ("arrival", True)


def test_prompts_of_several_chunks_pay_the_host_for_each_and_prompts_of_one_pass_share_it():
    engine = replace(Engine("host"), prefill=0.01, max_num_batched_tokens=1000)
    deployment, bare = deploy(*SMALL, engine=engine), deploy(*SMALL, engine=replace(engine, prefill=0.0))
    for isl, passes in ((900.0, 1), (1900.0, 2), (2900.0, 3)):
        whole, kernels = (prefill(each, Workload(isl, 2.0)).time for each in (deployment, bare))
        assert close(whole - kernels, 0.01 * passes, 1e-9)
    four, kernels = (prefill(each, Workload(200.0, 2.0, Burst(4.0))).time for each in (deployment, bare))
    assert close(four - kernels, 0.01, 1e-9)


def test_a_program_whose_host_launches_every_kernel_is_slower_where_kernels_are_short():
    engine = load_engine("eager")
    for model, isl, is_launched in (("llama-3.1-8b", 64, (True, True)), ("llama-2-70b", 4000, (False, False))):
        host, kernels = (
            rl.predict(model, "h100-sxm", tp=1, quantization="fp8", isl=isl, osl=300, engine=name)
            for name in ("eager", "none")
        )
        sides = (host.prefill, kernels.prefill, engine.launch), (host.decode, kernels.decode, engine.launch_decode)
        for (slow, passed, launch), is_slower in zip(sides, is_launched, strict=True):
            assert gpu_kernels(slow) == list(passed.kernels)
            floor = launch * sum(kernel.count for kernel in passed.kernels)
            assert close(slow.time, max(floor, passed.time))
            assert (slow.time > passed.time) is is_slower


def test_what_the_host_launches_is_the_same_in_arrays_and_its_slope_is_that_of_the_slower_side():
    lengths = (100, 700, 1500, 6000)
    ends = rl.predict(*SMALL, isl=np.array(lengths), osl=10, engine="eager").ttft
    slopes = []
    for isl, ttft in zip(lengths, ends, strict=True):
        one = rl.predict(*SMALL, isl=isl, osl=10, engine="eager")
        assert close(ttft, one.ttft)
        rows = [row for row in rl.sensitivity(*SMALL, isl=isl, osl=10, engine="eager") if row.result == "ttft"]
        slopes.append({row.input: row.elasticity for row in rows if row.kind in ("rate", "latency")})
    seen = {name: slope for name, slope in slopes[0].items() if abs(slope) > 1e-12}
    assert seen == pytest.approx({"host_launch": 1.0}, rel=1e-12)
    assert slopes[-1].get("host_launch", 0.0) == 0.0
    assert slopes[-1]["peak_bf16"] < -0.5


def test_a_prefill_slowdown_is_seen_by_several_users_and_by_none_alone():
    plain, stretched = (
        deploy(*SMALL, engine=replace(load_engine("vllm"), prefill_slowdown=factor)) for factor in (1.0, 1.4)
    )
    for users in (1.0, 2.0, 16.0):
        workload = Workload(2000.0, 100.0, Users(users))
        quick, slow = (predict_deployment(choice, workload) for choice in (plain, stretched))
        assert (slow.tpot > quick.tpot) is (slow.ttft > quick.ttft) is (users > 1.0)
