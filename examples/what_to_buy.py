"""What would make this model answer faster: the input that moves it most, and how much of it a target needs."""

import roofline as rl

CASE = {"tp": 4, "isl": 2000, "osl": 300, "batch": 16}

rows = rl.sensitivity("llama-3.1-70b", "h100-sxm", of=("ttft", "tpot"), **CASE)
for result, row in rows.what_to_buy.items():
    print(f"{result}: +10 % of {row.meaning} changes it by {10 * row.elasticity:+.1f} %")
print(rows[0].result, "to", rows[0].input, "=", rows[0].formula[:60], "...")

for unknown in ("bandwidth", "batch", "weights"):
    found = rl.solve("llama-3.1-70b", "h100-sxm", unknown, tpot=0.018, **CASE)
    print(unknown, found.value if found.is_met else found.reason)

sized = rl.plan("llama-3.1-70b", ["h100-sxm", "b200", "l40s"], slo={"ttft": 1.5, "tpot": 0.03}, isl=2000, osl=300)
cheapest = sized.cheapest.to_dict()
print(cheapest["gpu"], cheapest["num_gpus"], cheapest["usd_per_hour"])

formats = rl.quantize("llama-3.1-70b", "h100-sxm", isl=2000, osl=300, batch=16)
best = max(formats.to_records(), key=lambda row: row["decode_speedup"])
print(best["weight_dtype"], best["why_decode"])

print(rl.compare("llama-3.1-70b", ["h100-sxm", "b200"], isl=2000, osl=300, batch=16).to_records()[1]["why_decode"])
