"""What TTFT on which GPU, at the smallest tensor-parallel degree that fits, and what it costs."""

import roofline as rl

for gpu in rl.gpus():
    try:
        p = rl.predict("llama-3.1-70b", gpu, isl=2000, osl=300)
    except rl.RooflineError as reason:
        print(f"{gpu:14} {reason}")
        continue
    print(f"{gpu:14} tp {p.deployment.plan.tp}  TTFT {p.ttft * 1e3:7.1f} ms  {p.usd_per_hour:5.2f} USD/h  {p.basis}")
