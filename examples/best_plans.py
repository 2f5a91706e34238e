"""The frontier of plans: what a user gets against what a GPU gives, and the options of each point."""

import roofline as rl

answer = rl.pareto("llama-3.3-70b", ["h200", "b200"], quantization="bf16,fp8", isl=1024, osl=1024, slo="ttft:2s")
print("GPUs       plan         users  tok/s/user (80 %)   tok/s/GPU (80 %)")
for point in answer.points[::3]:
    deployment = point.prediction.deployment
    name, users = f"{deployment.num_gpus}x {deployment.gpu.name}", point.options["concurrency"]
    user, gpu = (
        f"{value:.0f} ({low:.0f}-{high:.0f})" for value, (low, high) in zip(point.figures, point.ranges, strict=True)
    )
    print(f"{name:10} {point.plan:12} {users:5} {user:>18} {gpu:>18}")
print(f"knee: {answer.knee}")
print(f"rl.predict(**{dict(answer.knee.options)})")
