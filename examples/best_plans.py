"""The frontier of plans: what a user gets against what a GPU gives, and the options of each point."""

import roofline as rl

answer = rl.pareto("llama-3.3-70b", ["h200", "b200"], quantization="bf16,fp8", isl=1024, osl=1024, slo="ttft:2s")
print("GPUs            plan         users  tok/s/user (80 %)   tok/s/GPU (80 %)")
for point in answer.points[::3]:
    deployment, (user, gpu) = point.prediction.deployment, point.ranges
    name = f"{deployment.num_gpus}x {deployment.gpu.name}"
    print(
        f"{name:15} {point.plan:12} {point.options['concurrency']:5}"
        f"  {point.figures[0]:6.1f} ({user[0]:.0f}-{user[1]:.0f})    {point.figures[1]:6.0f} ({gpu[0]:.0f}-{gpu[1]:.0f})"
    )
print(f"knee: {answer.knee}")
print(f"rl.predict(**{dict(answer.knee.options)})")
