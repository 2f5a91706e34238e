"""The physics on numbers that carry dimensions: what adds bytes to seconds fails here, whatever its figures are."""

import pytest
from conftest import SAMPLE_GPUS, SAMPLE_MODELS, deploy
from dimensions import BYTE, ELEMENT, FLOP, ITEM, SECOND, altered, dimension, dimensions_of, gpu_with_units, measured
from every_case import each

import roofline as rl
from roofline.numbers.operations import ceil, floor, maximum, minimum, norm, where
from roofline.physics import assembly, equation, kernels, memory, passes, programs
from roofline.physics.equation import Work, collective_time, kernel_time, link_roof
from roofline.physics.memory import activation_bytes, kv_bytes_per_sequence, largest_batch, weight_bytes
from roofline.physics.passes import decode_pass, prefill_pass
from roofline.physics.plan import Plan
from roofline.specs.gpu import ALL_REDUCE, GEMM, MOE_DISPATCH, P2P

BASES = ("calibrated", "ideal")
KERNEL = Work(
    flop=2e12 * FLOP,
    weight_bytes=1e9 * BYTE,
    serial_bytes=1e6 * BYTE,
    depth=4096.0 * ELEMENT,
    serial_depth=10.0 * ELEMENT,
    items=8.0 * ITEM,
)


# --- the kind of number --------------------------------------------------------------------------


def test_units_multiply_and_cancel_and_nothing_and_no_limit_are_so_in_any_unit():
    rate = 6.0 * BYTE / (2.0 * SECOND)
    assert (dimension(rate), dimension(1.0 / rate), dimension((rate * rate) ** 0.5)) == ("B/s", "s/B", "B/s")
    assert type(rate / rate) is type(0.0 * SECOND) is float
    assert dimension((SECOND**3) ** (1.0 / 3.0)) == "s"
    assert norm(3.0 * SECOND, 4.0 * SECOND, 2.0) == 5.0 * SECOND
    assert maximum(3.0 * SECOND, 0.0) == 3.0 * SECOND == 0.0 + 3.0 * SECOND
    assert minimum(3.0 * SECOND, float("inf")) == 3.0 * SECOND
    assert floor(7.0 * BYTE / (2.0 * BYTE)) == 3.0


@each(
    "mistake",
    [
        lambda: 2.0 * BYTE + 3.0 * SECOND,
        lambda: 3.0 * SECOND - 2.0,
        lambda: 1.0 + 3.0 * SECOND,
        lambda: 2.0 * BYTE < 3.0 * SECOND,
        lambda: maximum(2.0 * BYTE, 3.0 * SECOND),
        lambda: minimum(1.0, 3.0 * SECOND),
        lambda: norm(2.0 * BYTE, 3.0 * SECOND, 3.0),
        lambda: ceil(3.0 * SECOND),
        lambda: 2.0 ** (3.0 * SECOND),
        lambda: where(3.0 * SECOND, 1.0, 2.0),
    ],
)
def test_what_makes_no_sense_is_refused(mistake):
    with pytest.raises(AssertionError, match=r"\bs\b"):
        mistake()


# --- the one equation, and links -----------------------------------------------------------------


@each("basis", BASES)
def test_every_term_of_a_kernel_is_a_time(basis):
    gpu = gpu_with_units(rl.load_gpu("h100-sxm"))
    terms = kernel_time(KERNEL, equation.roof(gpu, basis, GEMM, "bf16", "bf16"))
    assert dimensions_of(terms) == {"s"}


@each("gpu", SAMPLE_GPUS)
@each("basis", BASES)
def test_every_term_of_a_collective_is_a_time(gpu, basis):
    gpu = gpu_with_units(rl.load_gpu(gpu))
    for collective in (ALL_REDUCE, MOE_DISPATCH, P2P):
        for ranks in (2, gpu.node, 4 * gpu.node if gpu.scale_out else 2):
            limits = link_roof(gpu, basis, collective, ranks)
            assert dimension(limits.bandwidth) == "B/s"
            assert dimensions_of(collective_time(Work(link_bytes=1e6 * BYTE), limits)) == {"s"}


# --- passes and memory ---------------------------------------------------------------------------


def passes_of(deployment, batch, new, cached):
    return prefill_pass(deployment, batch, new, cached), decode_pass(deployment, batch, new, 9.0)


def times(*case):
    """Times of both passes, and all terms of their kernels."""
    return [(one.time, *(kernel.terms for kernel in one.kernels)) for one in passes_of(*case)]


def moved(*case):
    """Bytes of both passes."""
    return [one.nbytes for one in passes_of(*case)]


def held(deployment, batch, new, cached):
    """Bytes in memory, all together and apart."""
    stored, length = (deployment.model, deployment.plan, deployment.quantization), new + cached
    apart = memory.memory(deployment, batch, length)
    activations = activation_bytes(*stored[:2], batch, length)
    return apart, apart.used, weight_bytes(*stored), kv_bytes_per_sequence(*stored, length), activations


def assert_units(*case):
    assert dimensions_of(measured(times, *case)) == {"s"}
    assert dimensions_of(measured(moved, *case)) == dimensions_of(measured(held, *case)) == {"B"}


@each("model", SAMPLE_MODELS)
@each("basis", BASES)
def test_passes_of_every_kind_of_layer_take_seconds_and_move_bytes(model, basis):
    deployment = deploy(model, "h100-sxm", Plan(tp=8, pp=2), basis=basis, engine="vllm")
    assert_units(deployment, 3.0, 1000.0, 500.0)
    assert dimension(measured(largest_batch, deployment, 1500.0)) == "1"


@each("gpu", ["b200", "mi300x", "l40s", "tpu-v5e", "gaudi3"])
@each("model", ["llama-3.1-70b", "mixtral-8x7b", "deepseek-v3"])
def test_passes_spread_over_many_ranks_take_seconds_on_every_kind_of_gpu(gpu, model):
    plan = Plan(tp=2, pp=2, dp=2, ep=1 if model == "llama-3.1-70b" else 4)
    assert_units(deploy(model, gpu, plan, None if gpu == "tpu-v5e" else "fp8", engine="trtllm"), 8.0, 1000.0, 500.0)


# --- mistakes are found --------------------------------------------------------------------------

MISTAKES = [
    (assembly, "kernel_time", equation, "overlapped / (efficiency.eta_m * bandwidth)", "overlapped"),
    (assembly, "kernel_time", equation, "flop / (efficiency.eta_c * peak)", "flop / (efficiency.eta_c * bandwidth)"),
    (assembly, "kernel_time", equation, "efficiency.kappa_s * serial_depth", "serial_depth"),
    (assembly, "kernel_time", equation, "efficiency.eps * items", "efficiency.kappa_s * items"),
    (assembly, "collective_time", equation, "work.link_bytes / roof.bandwidth", "work.link_bytes"),
    (assembly, "collective_time", equation, "(efficiency.q * wire) ** 0.5", "efficiency.q * wire"),
    (memory, "start_up_of", memory, "share * total - weights", "share - weights"),
    (memory, "_section_bytes", memory, 'count.attention * sections["attention"].weight_nbytes', "count.attention"),
    (assembly, "gemm", kernels, "columns * inner * scheme.weight_nbytes", "columns * inner"),
    (passes, "add_decode_host", passes, "engine.sequence * assembly.sequences", "assembly.sequences"),
]


@each(("user", "name", "module", "right", "wrong"), MISTAKES)
def test_a_formula_that_adds_bytes_to_seconds_is_found(user, name, module, right, wrong):
    deployment = deploy("mixtral-8x7b", "h100-sxm", Plan(tp=8), engine="vllm")
    with pytest.MonkeyPatch.context() as patch, pytest.raises(AssertionError, match=r"\[\S+\] \S+ \[\S+\]|in \[1\]"):
        altered(patch, module, name, right, wrong, user)
        patch.setattr(programs, "_TEMPLATES", {})  # of the formulas as they were
        measured(times, deployment, 3.0, 1000.0, 500.0)
        measured(held, deployment, 3.0, 1000.0, 500.0)
