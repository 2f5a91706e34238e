"""Accelerators of which servers were measured, but hardly any kernel: passes take a factor as long."""

import math
import random
from itertools import pairwise

import numpy as np
import pytest
from every_case import each

import roofline as rl
from roofline.catalog.find import load_engine, run_by
from roofline.physics.equation import IDEAL, Roof, Work, collective_time, kernel_time, link_roof, slowed, slowed_link
from roofline.serving.verdict import NOT_KERNELS, wider
from roofline.specs.gpu import ALL_REDUCE, GEMM, CollectiveEfficiency, Efficiency
from roofline.support.records import replace

TOLD = ("gaudi2", "gaudi3", "trainium2", "tpu-v7x")
CASE = {"isl": 1500, "osl": 200, "engine": "none"}


def scaled(name, prefill, decode):
    """A GPU with other factors."""
    return replace(rl.load_gpu(name), passes=(prefill, decode))


@each("seed", range(20))
def test_every_kernel_takes_the_factor_as_long_and_none_is_faster_than_the_hardware(seed):
    draw = random.Random(seed)
    shares = {name: draw.uniform(0.1, 0.7) for name in ("eta_c", "eta_m", "eta_x", "eta_s")}
    times = {name: draw.uniform(0.0, 1e-5) for name in ("t0", "kappa_s", "eps")}
    base = Roof(1e15, 4e12, 4e12, Efficiency(**shares, **times, kappa=1e-9, p=draw.choice([1.0, 3.0])))
    work = Work(*(draw.uniform(1.0, 1e9) for _ in Work._fields[:-1]))
    factor = draw.uniform(1.0, 3.0)
    longer = kernel_time(work, base._replace(efficiency=slowed(base.efficiency, factor)))
    assert tuple(longer) == pytest.approx([factor * term for term in kernel_time(work, base)], rel=1e-12)
    faster = kernel_time(work, base._replace(efficiency=slowed(base.efficiency, 0.01)))
    assert faster.total >= kernel_time(work._replace(exponentials=0.0), base._replace(efficiency=IDEAL)).total
    link = link_roof(rl.load_gpu("h100-sxm"), "ideal", ALL_REDUCE, 4)
    link = link._replace(efficiency=CollectiveEfficiency(1e-6, 2e-7, 3e-7, 1e-6, 0.4, 0.3))
    sent = Work(link_bytes=10.0 ** draw.uniform(3, 9))
    longer = collective_time(sent, link._replace(efficiency=slowed_link(link.efficiency, factor)))
    assert tuple(longer) == pytest.approx([factor * term for term in collective_time(sent, link)], rel=1e-12)


@each("gpu", TOLD)
def test_a_factor_scales_its_own_pass_alone(gpu):
    more = {**CASE, "tp": 2} if gpu != "tpu-v7x" else CASE
    plain, prompts, steps = (
        rl.predict("qwen3-30b-a3b", scaled(gpu, *factors), **more) for factors in ((1.0, 1.0), (1.5, 1.0), (1.0, 1.5))
    )
    assert prompts.ttft == pytest.approx(1.5 * plain.ttft, rel=1e-12)
    assert prompts.tpot == plain.tpot
    assert steps.tpot == pytest.approx(1.5 * plain.tpot, rel=1e-12)
    assert steps.ttft == plain.ttft
    ideal = (rl.predict("qwen3-30b-a3b", scaled(gpu, *factors), basis="ideal", **more) for factors in ((1, 1), (9, 9)))
    assert len({answer.e2el for answer in ideal}) == 1


@each("gpu", TOLD)
def test_an_answer_says_that_it_stands_on_servers_and_counts_their_runs(gpu):
    answer = rl.predict("llama-3.1-8b", gpu, isl=1500, slo="ttft:1000s,tpot:100s")
    served = rl.load_gpu(gpu).calibration.served
    assert answer.basis == answer.to_dict()["basis"] == "served"
    for each_pass in (served.prefill, served.decode):
        assert f"of {each_pass.runs} run" in answer.basis_detail
    (note,) = (text for text in answer.warnings if "servers scale" in text)
    assert f"{served.decode.models} model" in note
    assert tuple(answer.slo_verdict[:2]) == ("pass?", NOT_KERNELS)
    assert rl.predict("llama-3.1-8b", gpu, isl=1500, slo="tpot:1us").verdict == "fail"
    assert rl.predict("llama-3.1-8b", gpu, isl=1500, osl=2, concurrency=4, slo="ttft:1000s").verdict == "pass?"


def test_ranges_hold_the_factor_of_their_own_pass_and_are_widest_where_one_model_told():
    assert wider(0.3, 0.4) == pytest.approx(0.5)
    for gpu in TOLD:
        told = rl.load_gpu(gpu).calibration.served
        answer = rl.predict("llama-3.1-70b", gpu, isl=4000, tp=8, engine="none")
        for key, factor in (("ttft", told.prefill), ("tpot", told.decode)):
            high = getattr(answer, f"{key}_interval")[1]
            sigma = math.log(high / getattr(answer, key)) / 1.2816
            assert sigma == pytest.approx(math.hypot(0.15, factor.sigma), rel=1e-6), (gpu, key)
    sigmas = {gpu: rl.load_gpu(gpu).calibration.served.decode for gpu in TOLD}
    assert {each.sigma > 0.6 for each in sigmas.values() if each.models == 1} == {True}
    assert {each.sigma < 0.5 for each in sigmas.values() if each.models > 1} == {True}


def test_under_a_load_arrays_and_programs_say_what_one_answer_says():
    for gpu in ("gaudi3", "trainium2"):
        for load in ({"concurrency": 20}, {"request_rate": 0.4}):
            lengths = np.linspace(200.0, 4000.0, 9)
            several = rl.predict("llama-3.1-8b", gpu, isl=lengths, osl=150, **load)
            for place, isl in enumerate(lengths):
                one = rl.predict("llama-3.1-8b", gpu, isl=float(isl), osl=150, **load)
                found = several.ttft[place], several.tpot[place]
                assert found == pytest.approx((one.ttft, one.tpot), rel=1e-9), (gpu, load)
    steps = [rl.predict("llama-3.1-8b", "gaudi2", isl=1000.0 + k, osl=100, batch=3).tpot for k in range(80)]
    assert all(second > first for first, second in pairwise(steps))  # from formulas to programs


def test_slower_passes_saturate_earlier():
    rates = [
        rl.predict("llama-3.1-8b", scaled("gaudi3", *factors), isl=1000, osl=200, request_rate=0.1).max_request_rate
        for factors in ((1.0, 1.0), (2.0, 1.0), (2.0, 2.0))
    ]
    assert rates[0] > rates[1] > rates[2]


def test_kernels_of_an_older_version_of_an_engine_start_later_on_intel():
    gpu = rl.load_gpu("arc-pro-b60")
    old, new = (run_by(gpu, load_engine(name)).calibration.kernels for name in ("vllm@0.20", "vllm"))
    pooled = gpu.calibration.kernels
    assert new["gemm", "bf16"] == pooled["gemm", "bf16"]
    assert old["gemm", "bf16"].t0 > 5.0 * new["gemm", "bf16"].t0
    slow, quick = (rl.predict("llama-3.1-8b", gpu, isl=500, engine=name).tpot for name in ("vllm@0.20", "vllm"))
    assert slow > quick == rl.predict("llama-3.1-8b", gpu, isl=500, engine="vllm").tpot
    assert GEMM.name in {kind for kind, _ in old}


def test_sigma_is_that_of_students_distribution_for_one_more_model():
    from fit_served import sigma_of

    # One model: the prior alone, two degrees of freedom, whose 90th percentile is 1.8856.
    assert sigma_of([], 1) == pytest.approx(0.35 * 2.0**0.5 * 1.8856 / 1.2816, rel=1e-3)
    # Three models, three hits: four degrees of freedom (1.5332), half of the variance of the prior.
    assert sigma_of([0.0, 0.0], 3) == pytest.approx(0.35 * (4 / 3 / 2) ** 0.5 * 1.5332 / 1.2816, rel=1e-3)
    assert sigma_of([0.5, -0.5], 3) > sigma_of([0.2, -0.2], 3) > sigma_of([0.0], 3)


def test_tables_of_a_page_are_read_as_html_and_as_text():
    from other_server_rows import gaudi_rows, recipe_rows

    text = "Model | # HPU | Precision | In | Out | Batch | tok/s |\n"
    text += "LLaMA 3.1 8B | 1 | fp8 | 128 | 2,048 | 289 | 11,138 |\n"
    text += "1 | fp8 | 2,048 | 128 | 179 | 2,028 | |\nMistral 7b | 1 | fp8 | 128 | 1 | 8.17 |\n"
    page = "".join(
        f"<tr>{''.join(f'<td>{cell.strip()}</td>' for cell in line.strip(' |').split('|'))}</tr>"
        for line in text.splitlines()
    )
    rows = list(gaudi_rows("gaudi2.html", text))
    assert rows == list(gaudi_rows("gaudi2.html", f"<table>{page}</table>"))
    assert [(row["model"], row["isl"], row["batch"]) for row in rows] == [
        ("llama-3.1-8b", 128.0, 289.0), ("llama-3.1-8b", 2048.0, 179.0), ("mistral-7b-v0.1", 128.0, 1.0),
    ]  # fmt: skip
    assert (rows[0]["output_tok_s"], rows[2]["ttft_ms"], rows[2]["osl"]) == (11138.0, 8.17, 1)
    (row,) = recipe_rows("qwen3-32b.md", "    1k/8k    | 3959.56\n")
    assert (row["isl"], row["osl"], row["tp"]) == pytest.approx((921.6, 7372.8, 1))
