"""What would help most: for each goal the best lever, the best that leaves the answers alone, and the best together."""

import roofline as rl

MODEL, GPU = "llama-3.3-70b", "h100:tp4"
CASE = {"quantization": "fp8", "isl": 1155, "osl": 211, "concurrency": 16}
GOALS = {"ttft": "ttft_p99", "tpot": "tpot", "cost": "cost"}  # add an SLO to ask for goodput, too

answers = {}
for goal, figure in GOALS.items():
    found = answers[goal] = rl.levers(MODEL, GPU, goal=goal, **CASE)
    same = next((one for one in found.alone if one.helps(goal) and one.keeps_answers), None)
    chosen = {"best": found.best, "same answers": same, "together": found.together[-1] if found.together else None}
    print(f"for {goal}")
    for label, one in chosen.items():
        if one is not None:
            print(f"  {label:13} {one.name}: {one.change(figure):+.0%}")
