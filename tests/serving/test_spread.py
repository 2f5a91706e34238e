"""Work spread over ranks, domains and stages: nothing is counted twice, nothing is slower than light."""

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from conftest import deploy
from every_case import each

import roofline as rl
from roofline.physics.equation import Work, collective_time, evidence, link_roof
from roofline.physics.kernels import all_reduce_bytes
from roofline.specs.gpu import ALL_GATHER, ALL_REDUCE, COLLECTIVES, KINDS, P2P

SPREAD = {"tp": 1, "dp": 8, "ep": 8, "isl": 1000, "osl": 100, "basis": "ideal", "routing": "uniform"}


@pytest.mark.parametrize("batch", [1, 5, 8, 9, 64])
def test_experts_multiply_every_routed_token_once_however_the_batch_is_shared_out(batch):
    p = rl.predict("mixtral-8x7b", "h100-sxm", batch=batch, **SPREAD)
    experts = sum(k.count * k.work.flop for k in p.prefill.kernels if k.name == "experts")
    # 32 layers, 2 of 8 experts of 3 matrices of 4096 x 14336 per token, 2 FLOP a multiplication
    assert experts * 8 == pytest.approx(2 * 32 * 2 * 3 * 4096 * 14336 * 1000 * batch, rel=1e-12)


@each("collective", [kind for kind in COLLECTIVES if kind is not P2P], ids=str)
@each("ranks", [2, 8, 16, 64, 256])
def test_light_never_needs_longer_than_one_transfer_after_the_other(collective, ranks):
    for name in rl.gpus():
        gpu = rl.load_gpu(name)
        if ranks > gpu.link.domain and gpu.scale_out is None:
            continue
        roof = link_roof(gpu, "ideal", collective, ranks)
        assert 0.0 < roof.least <= 1.0
        assert roof.bandwidth <= max(gpu.link.bandwidth, gpu.scale_out or 0.0) * 8


def hand_overs(p):
    return {kernel.name: kernel.count for kernel in p.prefill.kernels if kernel.kind is P2P}


def test_only_the_hand_overs_between_domains_cross_the_network():
    p = rl.predict("llama-3.1-70b", "h100-sxm", tp=4, pp=4, isl=2000, osl=100)
    assert hand_overs(p) == {"stage hand-over": 2, "stage hand-over, network": 1}
    assert "h100-sxm: 1 of 3 pipeline hand-overs cross the network" in p.warnings


def test_assumed_constants_are_named():
    assert rl.predict("llama-3.1-70b", "h100-sxm", tp=4, isl=2000).warnings == ()
    said = rl.predict("llama-3.1-70b", "h100-sxm", tp=4, isl=2000, quantization="int4").warnings
    assert any(text.startswith("assumed, not measured on hopper: int4 gemm") for text in said)
    said = rl.predict("llama-3.1-70b", "l40s", isl=2000).warnings
    assert any("all_reduce" in text for text in said)


@pytest.mark.parametrize("name", ["a10", "a10g"])
def test_collectives_over_pcie_are_not_those_timed_over_nvlink(name):
    gpu = rl.load_gpu(name)
    assert (gpu.link.kind, gpu.calibration.link) == ("pcie", "nvlink")
    for collective, timed in gpu.calibration.collectives.items():
        if collective == "pcie":
            continue
        used = link_roof(gpu, "inherited", KINDS[collective], 4).efficiency
        assert not used.is_measured
        assert used.eta < timed.eta
        assert used.a2 > 0.0
    p = rl.predict("llama-3.1-8b", name, tp=4, isl=2000)
    assert any("assumed" in text and "all_reduce" in text for text in p.warnings)
    assert any("over PCIe" in text for text in p.warnings)
    assert not any("over PCIe" in text for text in rl.predict("llama-3.1-8b", name, tp=1, isl=2000).warnings)


def all_reduce(gpu, basis, ranks, tensor=32e6):
    return collective_time(Work(link_bytes=all_reduce_bytes(tensor, ranks)), link_roof(gpu, basis, ALL_REDUCE, ranks))


@pytest.mark.parametrize(
    ("name", "bridge"), [("h100-nvl", 2), ("h100-pcie", 2), ("a100-pcie-80gb", 2), ("h200-nvl", 4)]
)
def test_a_collective_beyond_the_bridge_takes_the_time_of_pcie(name, bridge):
    gpu = rl.load_gpu(name)
    pcie = gpu.calibration.collectives["pcie"]
    for ranks, doublings in ((bridge + 1, 2 if bridge == 2 else 3), (8, 3)):
        by_hand = pcie.a2 * doublings + 2 * (ranks - 1) / ranks * 32e6 / (pcie.eta * gpu.host_link)
        assert all_reduce(gpu, "inherited", ranks).total == pytest.approx(by_hand, rel=1e-12)
    # Over the bridge, of a GPU's own network port nothing is left.
    assert all_reduce(gpu, "inherited", bridge).total < all_reduce(gpu, "inherited", bridge + 1).total / 3.0
    assert all_reduce(replace(gpu, scale_out=None), "inherited", 8) == all_reduce(gpu, "inherited", 8)
    with pytest.raises(rl.BadInput, match="9 ranks exceed the 8-GPU pcie domain"):
        link_roof(replace(gpu, scale_out=None), "inherited", ALL_REDUCE, 9)


def test_light_beyond_a_bridge_crosses_pcie_with_half_of_the_tensor_and_no_less_with_more_cards():
    gpu = rl.load_gpu("h100-nvl")
    # Pairs sum over the bridge; each card then sums its half with its peers, 2 (m - 1)/m of it over PCIe.
    assert all_reduce(gpu, "ideal", 4).total == pytest.approx(2 * (1 / 2) * 16e6 / 63e9, rel=1e-12)
    assert all_reduce(gpu, "ideal", 8).total == pytest.approx(2 * (3 / 4) * 16e6 / 63e9, rel=1e-12)
    times = [all_reduce(gpu, "ideal", ranks).total for ranks in (2, 4, 8, 16, 32)]
    assert all(more >= fewer * (1.0 - 1e-12) for fewer, more in pairwise(times))


def test_hand_overs_beyond_a_bridge_cross_pcie_before_they_cross_the_network():
    p = rl.predict("llama-3.1-70b", "h100-nvl", tp=1, pp=10, isl=2000, osl=100, quantization="fp8")
    assert hand_overs(p) == {"stage hand-over": 5, "stage hand-over, PCIe": 3, "stage hand-over, network": 1}


def test_gh200_names_one_node_each():
    domains = {name: rl.load_gpu(name).link.domain for name in rl.gpus() if name.startswith("gh200")}
    assert domains == {
        "gh200-96gb": 32, "gh200-quad": 4, "gh200-96gb-single": 1, "gh200-144gb": 32, "gh200-nvl2": 2,
        "gh200-144gb-single": 1,
    }  # fmt: skip
    assert rl.load_gpu("gh200").name == "gh200-96gb"
    rack, alone = (rl.predict("llama-3.1-70b", name, tp=4, isl=2000) for name in ("gh200", "gh200-single"))
    assert rack.ttft < 0.7 * alone.ttft
    assert any("in other nodes: gh200-quad, gh200-96gb-single" in said for said in rack.warnings)
    assert any("exceed its 1-GPU nvlink4 domain and use the network" in said for said in alone.warnings)
    one = [rl.predict("llama-3.1-70b", name, tp=1, isl=2000, allow_oversize=True) for name in ("gh200", "gh200-single")]
    assert one[0].ttft == one[1].ttft
    assert not any("other nodes" in said for said in one[0].warnings)


@each(
    ("name", "collective", "ranks", "reduces"),
    [
        ("h100-sxm", ALL_REDUCE, 8, True),
        ("h100-sxm", ALL_REDUCE, 16, False),
        ("h100-sxm", ALL_GATHER, 8, False),
        ("a100-sxm-80gb", ALL_REDUCE, 8, False),
    ],
)
def test_a_switch_reduces_inside_its_domain_alone(name, collective, ranks, reduces):
    assert (link_roof(rl.load_gpu(name), "calibrated", collective, ranks).efficiency.eta_switch is not None) is reduces


@each(("name", "rates"), [("mi300x", (64e9, 3 * 64e9, 448e9)), ("h100-sxm", (450e9, 450e9, 450e9))])
def test_a_mesh_carries_only_what_the_links_between_the_ranks_that_take_part_do(name, rates):
    # MI300X: seven links of 64 GB/s, one to each peer; a switch would give two ranks all 448 GB/s.
    assert tuple(link_roof(rl.load_gpu(name), "ideal", ALL_REDUCE, ranks).bandwidth for ranks in (2, 4, 8)) == rates


@pytest.mark.parametrize(
    ("gpu", "beginning"),
    [
        ("h100-sxm", "calibrated: hopper, "),
        ("h200-sxm", "inherited: hopper, "),
        ("tpu-v6e", "generic: medians of other generations, tpu-v6e not timed"),
    ],
)
def test_the_basis_says_what_it_rests_on(gpu, beginning):
    p = rl.predict("llama-3.1-8b", gpu, isl=2000)
    assert p.basis_detail.startswith(beginning)
    assert p.basis_detail in str(p)
    if p.basis != "generic":
        calibration = p.deployment.gpu.calibration
        assert f"{calibration.measurements:,} kernels" in p.basis_detail
        assert p.basis_detail.endswith(calibration.year)
        assert calibration.measurements > 1000
    assert rl.predict("llama-3.1-8b", gpu, isl=2000, basis="ideal").basis_detail == "ideal: hardware limit"


def test_the_basis_says_what_clocks_a_gpu_was_taken_to_keep_where_it_inherits():
    gpu = replace(rl.load_gpu("h200-sxm"), sustained=0.75)
    inherited, own = (deploy("llama-3.1-8b", gpu, basis=basis) for basis in ("inherited", "calibrated"))
    assert evidence(inherited).endswith(f"{gpu.calibration.year}, eta_c x 0.75")
    assert evidence(own).endswith(gpu.calibration.year)


def test_each_tp_that_is_chosen_for_many_cases_is_said():
    several = rl.predict("llama-3.1-8b", "h100-sxm", isl=500, concurrency=np.array([1, 1000]))
    assert several.deployment.plan.tp[0] < several.deployment.plan.tp[1]
    for tp in several.deployment.plan.tp:
        assert any(text.startswith(f"tp = {tp}: chosen") for text in several.warnings)
    assert rl.predict("llama-3.1-8b", "h100-sxm", tp=1, isl=500, batch=np.array([1, 2])).warnings == ()


def test_the_longest_context_is_the_longest_that_fits():
    p = rl.predict("llama-3.1-8b", "h100-sxm", tp=1, isl=1000, osl=100, batch=4)
    longest = int(p.longest_context)
    assert rl.predict("llama-3.1-8b", "h100-sxm", tp=1, isl=longest - 100, osl=100, batch=4).fits
    with pytest.raises(rl.DoesNotFit):
        rl.predict("llama-3.1-8b", "h100-sxm", tp=1, isl=longest - 99, osl=100, batch=4)


def test_a_single_token_is_not_judged_by_a_limit_on_tpot():
    knees = rl.knee("llama-3.1-8b", "h100-sxm", tp=1, isl=1000, osl=1, slo={"tpot": 1e-9})
    assert knees.slo is None


@pytest.mark.parametrize("prefix", [0.8, [0.0, 0.5]])
def test_a_share_of_a_token_is_no_prefix(prefix):
    with pytest.raises(rl.BadInput, match="write a share as 80%"):
        rl.predict("llama-3.1-8b", "h100-sxm", prefix=prefix)
