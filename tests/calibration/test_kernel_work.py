"""Rows of a kernel table are counted as the same kernels are in a prediction."""

import numpy as np
import pytest
from conftest import close, deploy
from every_case import each

import roofline as rl
from roofline.physics.passes import decode_pass, prefill_pass
from roofline.physics.plan import Plan
from roofline.questions.calibrate import compute_dtype, kernel_work
from roofline.specs.gpu import COLLECTIVES, GEMM, KINDS, SHAPES, KernelGroup


def group(kind, dtype="bf16", routing=(), **columns):
    """Rows of a table that were never timed."""
    size = len(next(iter(columns.values())))
    columns = {name: [float(value) for value in values] for name, values in columns.items()}
    assert set(columns) == set(SHAPES[kind])
    columns["latency"] = [1e-5] * size
    return KernelGroup("gpu", kind, dtype, columns, tuple(routing), ("",) * size, (), ())


def kernel(passed, name):
    (found,) = (kernel for kernel in passed.kernels if kernel.name == name)
    return found


def assert_same(rows, work, place=0):
    """One row of the work of a table is that of a kernel, field by field."""
    for field, amount in zip(work._fields, work, strict=True):
        found = np.ravel(getattr(rows, field))
        assert close(float(found[place if len(found) > 1 else 0]), float(amount)), field


H100 = "h100-sxm"


@each("preset", ["bf16", "fp8", "fp8_static", "fp8_block", "int8", "int4", "mxfp4"])
def test_a_gemm_does_what_the_same_matrix_does_in_a_pass(preset):
    deployment = deploy("llama-3.1-8b", H100, quantization=preset)
    rows = group("gemm", preset, m=[1000, 7], n=[6144, 4096], k=[4096, 14336])
    work = kernel_work(rows, deployment.gpu)
    qkv = kernel(prefill_pass(deployment, 1.0, 1000.0), "qkv")
    assert (qkv.dtype, compute_dtype(deployment.gpu, GEMM, preset)) == (
        preset,
        deployment.quantization.sections["attention"].peak,
    )
    assert_same(work, qkv.work)
    assert_same(work, kernel(decode_pass(deployment, 7.0, 100.0), "down").work, 1)


@pytest.mark.parametrize("kv_cache", ["bf16", "fp8"])
def test_attention_does_what_it_does_in_a_pass(kv_cache):
    deployment = deploy("llama-3.1-8b", H100, quantization="fp8" if kv_cache == "fp8" else None)
    shape = {"batch": [4], "seq": [1500], "heads": [32], "kv_heads": [8], "head_dim": [128]}
    prefill = kernel(prefill_pass(deployment, 4.0, 1500.0), "attention")
    assert_same(kernel_work(group("attention_prefill", kv_cache, **shape), deployment.gpu), prefill.work)
    # `seq` counts the new token, too.
    decode = kernel(decode_pass(deployment, 4.0, 1499.0), "attention")
    assert_same(kernel_work(group("attention_decode", kv_cache, **shape), deployment.gpu), decode.work)


def test_latent_attention_does_what_that_of_deepseek_does_in_a_pass():
    deployment = deploy("deepseek-v3", "b200", Plan(tp=8))
    shape = {"batch": [2], "seq": [3000], "heads": [16]}  # of 128, over eight GPUs
    for kind, passed in (
        ("mla_prefill", prefill_pass(deployment, 2.0, 3000.0)),
        ("mla_decode", decode_pass(deployment, 2.0, 2999.0)),
    ):
        (found,) = (part for part in passed.kernels if part.kind.name == kind)
        assert_same(kernel_work(group(kind, **shape), deployment.gpu), found.work)


@each(("routing", "routing_skew"), [("uniform", None), ("skewed", 0.66)])
@each(("tp", "ep"), [(1, 1), (2, 1), (1, 4), (2, 4)])
def test_experts_do_what_they_do_in_a_pass(routing, routing_skew, tp, ep):
    deployment = deploy("qwen3-30b-a3b", "h200-sxm", Plan(tp=tp * ep, ep=ep), routing_skew=routing_skew)
    shape = {"tokens": [16], "hidden": [2048], "width": [768], "top_k": [8], "experts": [128], "tp": [tp], "ep": [ep]}
    found = kernel(decode_pass(deployment, 16.0, 100.0), "experts")
    assert found.work.items < 128.0 / ep  # else the fullest rank touches all that it holds, whatever the law
    assert_same(kernel_work(group("moe", routing=(routing,), **shape), deployment.gpu), found.work)


def test_balanced_routing_touches_as_many_experts_as_it_can_and_shapes_are_counted_row_by_row():
    shape = {
        "tokens": [1, 3, 100], "hidden": [2048] * 3, "width": [768] * 3, "top_k": [8] * 3, "experts": [128] * 3,
        "tp": [1] * 3, "ep": [1] * 3,
    }  # fmt: skip
    work = kernel_work(group("moe", routing=("balanced",) * 3, **shape), rl.load_gpu(H100))
    assert work.items.tolist() == [8.0, 24.0, 128.0]
    weights = 3 * 2048 * 768 * 2.0  # of one expert
    assert work.weight_bytes.tolist() == pytest.approx([8 * weights, 24 * weights, 128 * weights], rel=1e-12)
    spread = kernel_work(group("moe", routing=("balanced",) * 3, **{**shape, "ep": [16] * 3}), rl.load_gpu(H100))
    assert spread.items.tolist() == [1.0, 1.5, 8.0]  # a rank that is timed has at least one expert to compute
    rows = {"tokens": [5, 9, 64], "hidden": [2048, 4096, 2048], "width": [768, 14336, 512], "top_k": [8, 2, 4],
            "experts": [128, 8, 60], "tp": [1, 2, 1], "ep": [8, 1, 1]}  # fmt: skip
    routing = ("uniform", "skewed", "balanced")
    together = kernel_work(group("moe", routing=routing, **rows), rl.load_gpu(H100))
    for place in range(3):
        single = {name: [values[place]] for name, values in rows.items()}
        alone = kernel_work(group("moe", routing=(routing[place],), **single), rl.load_gpu(H100))
        assert together.flop[place] == alone.flop[0]
        assert close(together.weight_bytes[place], alone.weight_bytes[0])
        assert close(together.serial_bytes[place], alone.serial_bytes[0])


def test_collectives_send_and_passes_move_what_they_do_in_a_pass():
    deployment = deploy("llama-3.1-8b", H100, Plan(tp=4))
    found = kernel(prefill_pass(deployment, 1.0, 700.0), "attention all-reduce")
    rows = group("all_reduce", ranks=[4], nbytes=[700 * 4096 * 2])
    assert_same(kernel_work(rows, deployment.gpu), found.work)
    for kind in COLLECTIVES:
        sent = kernel_work(group(kind.name, ranks=[2, 8], nbytes=[1e6, 1e6]), deployment.gpu).link_bytes
        assert all(0.0 < bytes_ <= 2e6 for bytes_ in np.broadcast_to(sent, (2,)))
    work = kernel_work(group("elementwise", nbytes=[1e6]), rl.load_gpu(H100))
    assert work.nbytes.tolist() == [1e6]
    assert work.flop == 0.0


def test_a_kernel_multiplies_at_the_dtype_of_its_key_or_is_refused():
    for gpu, kind, dtype, words in [
        (H100, "gemm", "fp9", "unknown dtype 'fp9' of gemm kernels"),
        (H100, "moe", "fp5", "unknown dtype 'fp5' of moe kernels"),
        (H100, "gemm", "nvfp4", "h100-sxm has no fp4 peak, which nvfp4 gemm kernels need"),
        ("a100-sxm-80gb", "gemm", "fp8", "a100-sxm-80gb has no fp8 peak, which fp8 gemm kernels need"),
    ]:
        with pytest.raises(rl.BadInput, match=words):
            compute_dtype(rl.load_gpu(gpu), KINDS[kind], dtype)
    for gpu, kind, dtype, peak in [
        (H100, "gemm", "bf16", "bf16"),
        (H100, "gemm", "fp8_block", "fp8"),
        (H100, "gemm", "int4", "bf16"),
        (H100, "moe", "mxfp4", "bf16"),
        ("b200", "gemm", "nvfp4", "fp4"),
        ("b200", "moe", "mxfp4_fp8", "fp8"),
        (H100, "attention_decode", "fp8", "fp8"),
        ("a100-sxm-80gb", "attention_decode", "fp8", "bf16"),  # stored in 8 bits, multiplied in 16
        (H100, "all_reduce", "bf16", "bf16"),
    ]:
        assert compute_dtype(rl.load_gpu(gpu), KINDS[kind], dtype) == peak
