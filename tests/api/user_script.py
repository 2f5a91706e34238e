"""A user's script that calls every public function: `mypy --strict` passes it without casts (test_types.py)."""

# ruff: noqa: F841  (what is assigned is what mypy checks)

from pathlib import Path
from tempfile import mkdtemp

import numpy as np
from numpy.typing import NDArray

import roofline as rl

MODEL, GPU = "llama-3.1-8b", "h100-sxm"


def main() -> None:
    # one case: floats
    first: float = rl.ttft(MODEL, GPU, isl=2000)
    step: float | None = rl.tpot(MODEL, GPU, isl=2000, quantization="fp8")
    p = rl.predict(MODEL, GPU, isl=2000, osl=300, concurrency=16, slo="ttft:300@p95,tpot:25")
    ms: float = p.ttft * 1e3
    if p.tpot is not None and p.slo_met:
        ms += p.tpot * 1e3
    fits: bool = p.fits
    p95: float | None = p.latency("ttft_p95")
    held: float = p.memory.weights / p.memory.usable
    tokens: float | None = p.to_dict(["ttft_ms"])["ttft_ms"]
    bound: str = p.bound["decode"]

    # many cases: arrays
    times: NDArray[np.float64] = rl.ttft(MODEL, GPU, isl=[500, 1000])
    sweep: rl.Predictions = rl.predict(MODEL, GPU, isl=np.array([500, 1000]), batch=range(1, 3))
    slowest: float = float(sweep.ttft.max())
    all_fit: bool = bool(sweep.fits.all())
    knees: rl.Knees = rl.knee(MODEL, GPU, isl=2000)
    half: float | None = knees.half

    # the other questions
    case: rl.Case = {"isl": 2000, "osl": 300, "tp": 1}
    chat = rl.predict(MODEL, GPU, request_rate=1.5, **rl.workload_options(rl.workloads()[rl.workloads().index("chat")]))
    again: rl.Prediction = rl.predict(MODEL, GPU, **case)
    rows: rl.Table = rl.table([MODEL], [GPU, "h200"], isl=[1000, 2000], quantization=["bf16", "fp8"])
    fast = [row["gpu"] for row in rows if row["ttft_ms"] is not None and row["ttft_ms"] < 300.0]
    cheapest: rl.GpuPlan | None = rl.size(MODEL, [GPU, "l40s"], slo={"ttft": 0.3}, concurrency=8).cheapest
    rent: float | None = None if cheapest is None else cheapest.usd_per_hour
    beside: rl.Comparison = rl.compare(MODEL, [GPU, "h200"], isl=2000)
    formats: rl.Quantization = rl.quantize(MODEL, GPU, baseline="bf16")
    rates: list[float] = [answer.rate for answer in rl.goodput(MODEL, [GPU], slo="ttft:300,tpot:25")]
    pulled: rl.Levers = rl.levers(MODEL, GPU, goal="tpot", request_rate=1.5)
    bills: list[rl.GpuCost] = rl.cost(MODEL, [GPU], request_rate=2.0, api_price={"in": 0.5, "out": 1.5})
    tiers: list[str | None] = [one.faster for one in rl.prompt_cache(MODEL, [GPU], isl=2000, prefix="75%")]
    pools = rl.disaggregate(MODEL, "h100:tp1x2", "h100:tp1", isl=2000, osl=200, request_rate=2, kv_link="25 GB/s")
    first_tokens: list[float] = [pools.ttft, pools.transfer, sum(pools.parts.values())]
    print(first_tokens, pools.latency("ttft_p99"), pools.to_dict()["util"], pools.goodput("tpot:25").rate)
    load: rl.Curve = rl.curve(MODEL, GPU, against="users")
    frontier: rl.Pareto = rl.pareto(MODEL, [GPU, "b200"], tp=[1, 2], quantization="bf16,fp8", batch=[1, 8, 64])
    made_by: dict[str, object] = {} if frontier.knee is None else {**frontier.knee.options}
    why: dict[str, float] = {row.input: row.elasticity for row in rl.sensitivity(MODEL, GPU, of="tpot")[:3]}
    need: float | None = rl.solve(MODEL, GPU, "bandwidth", tpot=0.005).value
    drafts: float | None = rl.speculate(MODEL, GPU, draft="ngram", acceptance=0.6, draft_tokens=2).stops_paying(2)
    latex: str = rl.formula(MODEL, GPU, "tpot", basis="ideal").to_latex()
    mean: float = rl.simulate(MODEL, GPU, concurrency=4, requests=100).ttft
    one_step: float = rl.step_time(MODEL, GPU, prefill=[(512, 0)], decode=[1000.0, 2000.0])
    steps: NDArray[np.float64] = rl.step_time(p, decode=np.array([[1000.0], [2000.0]]))
    factor: float = rl.calibrate_once(MODEL, GPU, {"ttft": 0.1}, isl=2000).ttft
    written: int = rl.sheet("sizing.xlsx", MODEL, [GPU], isl=[1000, 4000], force=True)
    size: int = rl.page("roofline.html", MODEL, [GPU], force=True)
    gpu: rl.Gpu = rl.load_gpu(rl.gpus(vendor="nvidia")[0])
    model: rl.Model = rl.load_model(rl.models(moe=False)[0])
    workload: rl.NamedWorkload = rl.load_workload(rl.workloads()[0])
    faults: list[str] = rl.check_specs()
    runs: rl.Checks = rl.check({"mean_ttft_ms": 30.0}, model=MODEL, gpu=GPU, tp=1, isl="1k", batch=1)
    slower: float | None = runs[0].ratio("ttft")
    own: rl.EngineFit = rl.calibrate_engine({"mean_ttft_ms": 30.0}, model=MODEL, gpu=GPU, tp=1, isl="1k", batch=1)
    told: list[str] = [each.constant for each in own.constants if each.known]

    # one family: predictions ask further questions, and every answer has rows
    idle, wide = rl.predict(MODEL, GPU, isl=2000), rl.predict(MODEL, "h200", isl=2000)
    knee: float | None = rl.knee(idle).half
    many: NDArray[np.float64] | float | None = rl.knee(sweep).half
    gains: list[str] = [entry.label for entry in rl.compare(idle, wide).gpus]
    slopes: rl.Sensitivities = rl.sensitivity(idle, of="tpot")
    parts: str = rl.formula(idle, "tpot").flat
    target: float | None = rl.solve(idle, "bandwidth", tpot="5ms").value
    of_plans: list[float | None] = [row["tok_s_user"] for row in rl.pareto(p).to_rows()]
    points: rl.Curve = rl.curve(p, against="users")
    simulated: float = rl.simulate(p, requests=100).ttft
    within: list[float] = [answer.rate for answer in rl.goodput(idle, slo="tpot:25")]
    fewest: rl.GpuPlan | None = rl.size(p, ["h200"]).cheapest
    ranked: rl.Plans = rl.plan(p, ["h200", GPU], growth="2x", spend="40k/month")
    turns: list[rl.TurningPoint] = rl.turning_points(ranked)
    judged: list[rl.PlanCheck] = rl.check_plan(dict(ranked.plans[0].to_dict()), {"mean_tpot_ms": 20.0})
    same: rl.EqualService = rl.equal_service(MODEL, [GPU, "b200"], limit="tpot", claim="2x", isl=1000, osl=200)
    rated_plan: rl.Plans = rl.plan(MODEL, GPU, slo="tpot:25", request_rate=4.0)
    if rated_plan.best is not None:
        hours: rl.Day = rl.day(rated_plan.best, "8:4,20:1", start_up="5m")
        print(hours.gpu_hours, judged, same)
    starts: list[str] = [fit.verdict for fit in rl.fits(MODEL, [GPU, "l4"], engine="vllm", max_model_len="8k")]
    held_tokens: float | None = rl.fits(rl.predict(MODEL, GPU, engine="vllm"))[0].tokens
    typed: str = rl.launch(MODEL, GPU, to="vllm", tp=2, isl=2000).command
    deployed: str = rl.dynamo(rl.predict(MODEL, GPU, engine="vllm", tp=2), to="vllm").text
    stated = rl.command_case("vllm serve llama-3.1-8b --max-num-seqs 64")
    stated["gpu"] = GPU
    read_back: rl.Prediction = rl.predict(**stated)
    over: rl.Budgets = rl.budgets(MODEL, GPU, over="max_num_seqs", engine="vllm", request_rate=4.0, slo="tpot:25")
    slots: float | None = None if over.best is None else over.best.value
    print(starts, held_tokens, typed, deployed, read_back, slots)
    file = Path(mkdtemp(), "case.yaml")
    file.write_text("{model: llama-3.1-8b, gpu: h100, isl: 2k}")
    kept: rl.Prediction = rl.predict(**rl.load_case(file))
    print(kept)
    measurement: rl.Measurement = rl.next_measurement(ranked)[0]
    rents: list[float | None] = [step.plan.usd_per_hour for step in ranked.steps]
    hourly: list[float | None] = [row["usd_per_hour"] for row in rl.cost(p, api_price="in:0.5,out:1.5").to_rows()]
    best: rl.Levers = rl.levers(p, goal="tpot")
    narrow: rl.Quantization = rl.quantize(idle)
    cached: list[rl.CacheTier] = rl.prompt_cache(rl.predict(MODEL, GPU, isl=2000, prefix="75%"))
    drafted: rl.Speculation = rl.speculate(idle, draft="ngram", acceptance=0.6, draft_tokens=2, batch=[1, 64])

    # lists: a row for each combination, as in the shell
    fleets: rl.Plans = rl.size([MODEL, "qwen3-8b"], GPU, slo="tpot:25", concurrency=[8, 64])
    rated = rl.goodput(MODEL, GPU, slo="tpot:25", isl="1k,4k", tp=(1, 2), quantization=["bf16", "fp8"])
    billed = rl.cost(MODEL, GPU, request_rate=np.array([1.0, 2.0]), prefix=[0, "50%"])
    lines: list[str] = [row["gpu"] for row in (*rated.to_rows(), *billed.to_rows(), *fleets.to_rows())]
    gpus: list[str] = [row["gpu"] for row in rl.goodput(MODEL, [GPU, "h200"], slo="tpot:25").to_rows(["gpu"])]
    last: list[rl.GpuCost] = rl.cost(MODEL, [GPU, "h200"], request_rate=2.0)[1:]
    held_row: rl.Row = idle.to_rows()[0]
    answers: list[rl.Answer[rl.Row]] = [idle, points]
    peak: float = gpu.peaks["bf16"] / gpu.bandwidth
    try:
        rl.predict("llama-3.1-405b", GPU, tp=1)
    except rl.DoesNotFit as error:
        print(f"{ms:.3g} ms; {error}")


if __name__ == "__main__":
    main()
