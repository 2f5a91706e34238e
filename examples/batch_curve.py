"""Throughput against per-user speed along the batch: a curve, never one number."""

import numpy as np

import roofline as rl

batch = np.array([1, 2, 4, 8, 16, 32, 64, 128])
p = rl.predict("llama-3.1-8b", "h100-sxm", tp=1, isl=2000, osl=300, batch=batch)
print("batch  tok/s/user  tok/s/GPU  TTFT [ms]")
for row in zip(batch, p.tok_s_user, p.output_tok_s_gpu, p.ttft * 1e3, strict=True):
    print("{:5d}  {:10.1f}  {:9.0f}  {:9.0f}".format(*row))
print(f"{p.knees.half:.0f} sequences reach half of the decode throughput; {p.knees.memory:.0f} fit")
