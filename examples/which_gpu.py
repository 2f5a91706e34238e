"""What TTFT on which GPU, at the smallest tensor-parallel degree that fits, and what it costs."""

import roofline as rl

for gpu in rl.gpus():
    try:
        p = rl.predict("llama-3.1-70b", gpu, isl=2000, osl=300)
    except rl.RooflineError as reason:
        print(f"{gpu:24} {reason}")
        continue
    price = "no price" if p.usd_per_hour is None else f"{p.usd_per_hour:5.2f} USD/h"
    print(f"{gpu:24} tp {p.deployment.plan.tp:2}  TTFT {p.ttft * 1e3:7.1f} ms  {price}  {p.basis}")
