"""How many users within an SLO, and what they cost on Blackwell against Hopper."""

import math

import roofline as rl

MODEL, GPUS = "llama-3.3-70b", ["h100-sxm", "h200-sxm", "b200"]
CASE = {"quantization": "fp8", **rl.workload_options("chat")}  # lengths, how they spread, and the SLO
SHARE = 0.9  # of the requests that meet the limits without a percentile
USERS = 1000  # people with an open chat
PAUSE = 60.0  # s, from an answer to the next question of the same person

fleets = {}
for answer in rl.goodput(MODEL, GPUS, share=SHARE, **CASE):
    name, alone = answer.gpu.name, answer.prediction
    if alone is None:
        print(f"{name}: {answer.reason}")
        continue
    tp, cycle = alone.deployment.plan.tp, PAUSE + alone.e2el
    print(
        f"{name}, tp {tp}: {answer.rate:.2f} requests/s a replica, {answer.rate_per_gpu * cycle:.0f} users a GPU, "
        f"{alone.usd_per_m_output_tok:.2f} USD/M output tokens; {answer.found.binding} binds at {answer.found.util:.0%}"
    )
    rate = USERS / cycle  # Little's law, with people who read and think
    replicas = math.ceil(rate / answer.rate)  # each within its goodput
    fleet = rl.predict(MODEL, name, tp=tp, num_gpus=replicas * tp, request_rate=rate, **CASE)
    print(
        f"  {USERS} users: {replicas * tp} GPUs, {fleet.usd_per_hour:.0f} USD/h, "
        f"TTFT p99 {fleet.latency('ttft_p99') * 1e3:.0f} ms, TPOT p99 {fleet.latency('tpot_p99') * 1e3:.1f} ms"
    )
    fleets[name] = fleet
