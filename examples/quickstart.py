"""One case, unfolded: how fast, how many at once, and where the time goes."""

import roofline as rl

p = rl.predict("meta-llama/Llama-3.1-70B", "h100-sxm", tp=4, isl=2000, osl=300, batch=16, quantization="fp8")
print(p)
print()
for kernel, seconds in sorted(p.breakdown["decode"].items(), key=lambda item: -item[1])[:5]:
    print(f"{kernel:24} {seconds * 1e3:6.2f} ms of a {p.tpot * 1e3:.2f} ms decode step")
