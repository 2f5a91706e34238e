"""Sizing with pandas: a table of demand in, the cheapest GPU and the size of the fleet out. `# %%` begins a cell."""

# %% What is asked for: requests per second of each workload, and how fast an answer has to be
import sys

import numpy as np

import roofline as rl

try:
    import pandas as pd
except ImportError:
    sys.exit("this recipe needs pandas: pip install pandas")

demand = pd.DataFrame(
    [
        ("chat", "llama-3.1-8b", 1000, 300, 40.0),
        ("documents", "llama-3.1-70b", 8000, 500, 2.0),
        ("agents", "gpt-oss-120b", 4000, 1000, 5.0),
    ],
    columns=["workload", "model", "isl", "osl", "requests_per_s"],
)
SLO = {"ttft_ms": 2000, "tpot_ms": 30}  # of the central estimates; for the pessimistic ends: ttft_high_ms, tpot_high_ms
GPUS = ["h100-sxm", "h200-sxm", "b200", "l40s", "a10"]
BATCHES = [1, 2, 4, 8, 16, 32, 64, 128]

# %% Columns in, a column out: times of one deployment in seconds, NaN where a row does not fit
cases = pd.DataFrame({"isl": [1000, 8000, 8000], "batch": [1, 8, 400]})
cases["ttft"] = rl.ttft("llama-3.1-70b", "h100-sxm", tp=4, isl=cases["isl"], batch=cases["batch"])
cases["tpot"] = rl.tpot("llama-3.1-70b", "h100-sxm", tp=4, isl=cases["isl"], batch=cases["batch"])
print(cases, end="\n\n")

# %% Every workload on every GPU at every tp and batch: a case that cannot be has NaN and a reason
rows = [
    {"workload": load.workload, "requests_per_s": load.requests_per_s} | row
    for load in demand.itertuples()
    for row in rl.table(load.model, GPUS, isl=load.isl, osl=load.osl, tp=[1, 2, 4, 8], batch=BATCHES)
]
table = pd.DataFrame(rows)
unfit = table[table["ttft_ms"].isna()]
print(f"{len(unfit)} of {len(table)} cases have no times, such as:")
print(unfit.groupby("workload").head(1)[["model", "gpu", "tp", "batch", "ttft_ms", "reason"]].to_string(), end="\n\n")

# %% What meets the SLO (NaN never does), and the fleet of it: static batches, one after the other on each replica
meets = table[(table["ttft_ms"] <= SLO["ttft_ms"]) & (table["tpot_ms"] <= SLO["tpot_ms"])].copy()
meets["replicas"] = np.ceil(meets["requests_per_s"] * meets["e2el_ms"] / 1e3 / meets["batch"]).astype(int)
meets["fleet_gpus"] = meets["replicas"] * meets["num_gpus"].astype(int)
meets["fleet_usd_per_hour"] = meets["replicas"] * meets["usd_per_hour"]

# %% The cheapest of each workload; what has no price is no candidate, and a workload that nothing serves is named
priced = meets.dropna(subset="fleet_usd_per_hour").sort_values(["fleet_usd_per_hour", "ttft_ms"])
fleet = priced.groupby("workload").head(1).set_index("workload")
shown = ["gpu", "tp", "batch", "ttft_ms", "tpot_ms", "replicas", "fleet_gpus", "fleet_usd_per_hour", "basis"]
print(fleet[shown].round(1).to_string())
print("no GPU meets the SLO for:", ", ".join(demand.loc[~demand["workload"].isin(fleet.index), "workload"]) or "none")
