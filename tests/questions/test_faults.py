"""What is wrong with a server: faults that are measured or simulated, and servers that are healthy."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import tiers

import roofline as rl
from roofline.questions.diagnosis import HEALTHY, MOST_SERVERS, UNCLEAR
from roofline.questions.faults import FAULTS, PARTS, Supposed, figures
from roofline.questions.in_step import run_in_step
from roofline.questions.inputs.flags import cause_flags
from roofline.serving.latency import Workload
from roofline.serving.load.equations import server_of
from roofline.serving.load.simulation import Arrivals, simulated
from roofline.specs.engine import KernelOverride
from roofline.specs.load import Users

MEASURED = Path(__file__).parents[1] / "fixtures" / "faults"
USERS, PROMPTS = (2, 32), 8
MODEL, GPU, OPTIONS = "qwen3-32b", "h100-sxm", {"tp": 2, "engine": "vllm"}
ISL, OSL = 2000, 200


def results(deployment: Any, prefix: float = 0.0, late: float = 0.0, stated: float = 0.0) -> list[dict[str, Any]]:
    """What a benchmark of a simulated server writes, at some numbers of users."""
    files = []
    for users in USERS:
        count = max(PROMPTS * users, 32)
        workload = Workload(isl=float(ISL), osl=float(OSL), load=Users(float(users)), prefix=prefix)
        lengths = rl.predict(MODEL, GPU, isl=ISL, osl=OSL, isl_cv=0.17, osl_cv=0.17, concurrency=users, **OPTIONS)
        arrivals = Arrivals(count, users=users, is_burst=True, lengths=lengths.workload.lengths, seed=users)
        found = simulated(server_of(deployment, workload), arrivals)
        ttfts = [one.ttft + (late if place < users else 0.0) for place, one in enumerate(found)]
        files.append(
            {
                "mean_ttft_ms": 1e3 * sum(ttfts) / count,
                "mean_tpot_ms": 1e3 * sum(one.tpot for one in found) / count,
                "median_ttft_ms": 1e3 * sorted(ttfts)[count // 2],
                "median_tpot_ms": 1e3 * sorted(one.tpot for one in found)[count // 2],
                "max_concurrency": users, "num_prompts": count, "completed": count, "request_rate": "inf",
                "total_input_tokens": ISL * count + 1, "total_output_tokens": OSL * count + 1, "prefix": int(stated),
                "model_id": MODEL, "gpu": GPU, "tp": 2, "backend": "vllm",
            }
        )  # fmt: skip
    return files


@pytest.fixture(scope="module")
def deployment() -> Any:
    return rl.predict(MODEL, GPU, isl=ISL, osl=OSL, **OPTIONS).deployment


def with_engine(deployment: Any, **changes: Any) -> Any:
    return replace(deployment, engine=replace(deployment.engine, **changes))


def slower(deployment: Any, **factors: float) -> Any:
    tunings = tuple(KernelOverride(kind, compute=1.0 / size, memory=1.0 / size) for kind, size in factors.items())
    return with_engine(deployment, tunings=(*deployment.engine.tunings, *tunings))


def linked(deployment: Any, rate: float) -> Any:
    return replace(deployment, gpu=replace(deployment.gpu, link=replace(deployment.gpu.link, bandwidth=rate)))


def first(files: list[dict[str, Any]]) -> str:
    (found,) = rl.check(files).findings
    return found.found[0].fault


def test_a_server_as_predicted_is_healthy(deployment: Any) -> None:
    (found,) = rl.check(results(deployment)).findings
    assert found.answer == HEALTHY
    assert found.direction == "as expected"
    assert found.together == 0


def test_no_graphs(deployment: Any) -> None:
    assert first(results(with_engine(deployment, launch_decode=60e-6))) == "CUDA graphs off"


def test_few_slots(deployment: Any) -> None:
    (found,) = rl.check(results(with_engine(deployment, max_num_seqs=6))).findings
    assert found.answer == "too few slots"
    assert found.direction == "slower than expected"
    assert 4.0 < found.found[0].size < 9.0
    assert "--max-num-seqs" in found.found[0].flags
    assert "--max-num-seqs" in "\n".join(found.lines)


def test_a_small_chunk(deployment: Any) -> None:
    assert first(results(with_engine(deployment, max_num_batched_tokens=128))) == "chunk too small"


def test_no_nvlink(deployment: Any) -> None:
    assert first(results(linked(deployment, 40e9))) == "NCCL without NVLink"


def test_cached_prompts_are_faster(deployment: Any) -> None:
    (found,) = rl.check(results(deployment, prefix=1900.0)).findings
    assert found.answer == "prompts cached"
    assert found.direction == "faster than expected"
    assert found.found[0].part == "cache"


def test_a_prefix_that_is_not_cached(deployment: Any) -> None:
    assert first(results(deployment, stated=1800)) == "prefix cache off"


def test_warm_up(deployment: Any) -> None:
    (found,) = rl.check(results(deployment, late=20.0)).findings
    assert found.answer == "warm-up in the figures"
    assert 10.0 < found.found[0].size < 40.0


def test_two_faults_at_once(deployment: Any) -> None:
    (found,) = rl.check(results(with_engine(linked(deployment, 10e9), max_num_seqs=4))).findings
    assert {one.fault for one in found.found[:2]} & {"too few slots"}
    assert any(one.part == "link" for one in found.found)


def test_likelihoods_and_words(deployment: Any) -> None:
    (found,) = rl.check(results(slower(deployment, attention_prefill=6.0, attention_decode=3.0))).findings
    assert all(0.0 < one.likelihood <= 1.0 for one in found.found)
    assert [one.likelihood for one in found.found] == sorted((one.likelihood for one in found.found), reverse=True)
    as_json = json.loads(json.dumps(found.to_dict()))
    assert as_json["answer"] == found.answer
    assert as_json["found"][0]["confirm"]
    assert found.lines[0] == found.text


#: File -> a fault that must be named first, or among those named together; None: healthy.
EXPECTED = {
    "healthy": None, "no_prefix_caching": None, "longer_answers": None, "cold": None, "slow_client": None,
    "enforce_eager": "CUDA graphs off", "batched_tokens_256": "chunk too small", "seqs_4": "too few slots",
    "repeated_prompts": "prompts cached", "weights_fp8": "faster GPU, format or plan than stated",
}  # fmt: skip


@tiers.has_more_cases
@pytest.mark.parametrize("name", tiers.some(EXPECTED, 3))
def test_faults_of_a_real_server(name: str) -> None:
    checks = rl.check(str(MEASURED / f"{name}.json"), model="llama-3.1-8b")
    (found,) = checks.findings
    fault = EXPECTED[name]
    if fault is None:
        assert found.answer == HEALTHY, found.text
    else:
        assert fault in found.answer.split(" and "), found.text


def test_a_prefix_that_a_real_server_did_not_cache() -> None:
    path = str(MEASURED / "no_prefix_caching_repeated.json")
    (found,) = rl.check(path, model="llama-3.1-8b", prefix=1008).findings
    assert found.found[0].fault == "prefix cache off"


def test_users_in_step_wait_for_the_whole_wave() -> None:
    prediction = rl.predict("llama-3.1-8b", "h100-sxm", isl=1024, osl=100, concurrency=8, engine="vllm")
    times = run_in_step(prediction.deployment, prediction.workload, 40.0)
    burst = rl.predict("llama-3.1-8b", "h100-sxm", isl=1024, osl=100, batch=8, engine="vllm")
    assert times is not None
    assert times["median"]["ttft"] > 2.0 * float(prediction.ttft)
    assert times["mean"]["tpot"] == pytest.approx(float(burst.tpot), rel=0.1)
    single = rl.predict("llama-3.1-8b", "h100-sxm", isl=1024, osl=100, concurrency=1, engine="vllm")
    assert run_in_step(single.deployment, single.workload, 8.0) is None


def test_equal_lengths_are_told_by_the_result() -> None:
    rows = json.loads((MEASURED / "healthy.json").read_text(encoding="utf-8"))
    busiest = max(rows, key=lambda row: row["max_concurrency"])
    (run,) = rl.check(busiest, model="llama-3.1-8b")
    assert run.expected.in_step is not None
    assert any("in step" in note for note in run.notes)
    apart = {**busiest, "total_output_tokens": busiest["total_output_tokens"] + 1}
    (other,) = rl.check(apart, model="llama-3.1-8b")
    assert other.expected.in_step is None
    assert other.expected.ttft < 0.5 * run.expected.ttft


def test_faults_are_described() -> None:
    names = [fault.name for fault in FAULTS]
    assert len(set(names)) == len(names)
    for fault in FAULTS:
        assert fault.part in PARTS
        assert fault.confirm
        assert fault.forms
        if fault.flags:
            assert cause_flags("vllm", fault.flags), fault.name
        for form in fault.forms:
            assert list(form.sizes) == sorted(form.sizes)


def test_each_fault_moves_a_run_that_can_have_it() -> None:
    prediction = rl.predict(
        "qwen3-235b-a22b-fp8", "h100-sxm", tp=4, ep=4, isl=4000, osl=200, prefix=1000, concurrency=32, engine="vllm",
        kv_cache_dtype="fp8",
    )  # fmt: skip
    from roofline.questions.diagnosis import Observed

    supposed = Supposed(Observed(prediction.deployment, prediction.workload, {}), requests=256)
    plain = figures(supposed)
    assert plain is not None
    for fault in FAULTS:
        if fault.name == "drafts refused":  # which needs a draft
            continue
        moved = [
            shown.values
            for form in fault.forms
            for size in form.sizes_for([supposed])
            if (other := form.moved(supposed, size)) is not None and (shown := figures(other)) is not None
        ]
        assert any(values != plain.values for values in moved), fault.name


def test_only_some_servers_are_looked_into() -> None:
    runs = [{"mean_ttft_ms": 30.0 + number, "tp": 1, "kv_cache_dtype": cache, "quantization": weights}
            for number in range(4) for cache in ("fp8", "bf16") for weights in ("fp8", "bf16", "int8")]  # fmt: skip
    checks = rl.check(
        [{**run, "gpu": gpu} for run in runs[:6] for gpu in ("h100-sxm", "b200", "h200-sxm")],
        model="llama-3.1-8b", isl=1000, batch=1,
    )  # fmt: skip
    assert len(checks.findings) == MOST_SERVERS


def test_without_ranges_nothing_is_said_of_faults() -> None:
    run = {"mean_ttft_ms": 300.0, "mean_tpot_ms": 30.0}
    case = {"model": "llama-3.1-8b", "gpu": "h100-sxm", "tp": 1, "isl": 1000, "osl": 100, "batch": 1}
    assert rl.check(run, basis="ideal", **case).findings == ()
    assert rl.check(run, **case).findings[0].answer != HEALTHY


def test_faults_that_are_named_come_first(deployment: Any) -> None:
    for server in (with_engine(deployment, max_num_seqs=6), with_engine(linked(deployment, 10e9), max_num_seqs=4)):
        (found,) = rl.check(results(server)).findings
        named = [one.fault for one in found.found[: found.together]]
        assert found.answer in (" and ".join(named), UNCLEAR)
    assert first(results(with_engine(deployment, max_num_seqs=6))) == "too few slots"
