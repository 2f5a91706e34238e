"""A user's script with mistakes: `mypy --strict` reports every line that says `wrong`, and no other (test_types.py)."""

# ruff: noqa: F841

import roofline as rl

MODEL, GPU = "llama-3.1-8b", "h100-sxm"


def mistakes() -> None:
    rl.predict(MODEL, GPU, isl_tokens=2000)  # wrong: a misspelt option
    rl.predict(MODEL, GPU, isl=None)  # wrong: no length at all
    rl.ttft(MODEL, GPU, tp="4")  # wrong: a text for a degree
    rl.size(MODEL, GPU, slo={"ttft": 0.3}, measured={"ttft": 0.1})  # wrong: an option of another question
    rl.goodput(MODEL, GPU, slo="ttft:300", concurrency=8)  # wrong: a load that is looked for
    rl.goodput(MODEL, GPU)  # wrong: no SLO
    rl.formula(MODEL, GPU, "tpot", isl=[1000, 2000])  # wrong: several cases
    rl.size(MODEL, GPU, slo="tpot:25", basis=["ideal", "calibrated"])  # wrong: no rows of several of these
    rl.latency(MODEL, GPU)  # wrong: no such function

    p = rl.predict(MODEL, GPU, isl=2000)
    rl.cost(p, request_rate=2.0)  # wrong: the prediction has a load
    rl.levers(MODEL)  # wrong: no GPU
    p.tpot * 1e3  # wrong: it is None for a single output token
    print(p.time_to_first_token)  # wrong: no such attribute
    p.to_dict()["ttft_sec"]  # wrong: no such key of a row
    whole: int = p.ttft  # wrong: a float
    times = rl.ttft(MODEL, GPU, isl=[1000, 2000])
    alone: float = times  # wrong: an array
    cheapest = rl.size(MODEL, slo="ttft:300").cheapest
    print(cheapest.usd_per_hour)  # wrong: no GPU may meet the SLO
    case: rl.Case = {"isl": 1000, "olS": 100}  # wrong: a misspelt key
    rl.solve(MODEL, GPU, "bandwidth", tpot=0.005).value + 1.0  # wrong: there may be no such value
