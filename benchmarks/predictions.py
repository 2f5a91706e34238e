"""Cost of a prediction in process, as time and as a ratio of a reference loop measured in the same run.

    python benchmarks/predictions.py

Budget: one warm prediction at most 200 us for Llama, 500 us for DeepSeek-V3; the reference loop puts
machines of different speed on one scale.
"""

import time
from collections.abc import Callable

import numpy as np

import roofline as rl

REPEATS = 7


def reference() -> int:
    """10,000 turns of plain Python arithmetic."""
    total = 0
    for i in range(10_000):
        total += i * i
    return total


def seconds(call: Callable[[], object], times: int) -> float:
    """Fastest mean of several rounds."""
    best = float("inf")
    for _ in range(REPEATS):
        start = time.perf_counter()
        for _ in range(times):
            call()
        best = min(best, (time.perf_counter() - start) / times)
    return best


def main() -> None:
    unit = seconds(reference, 50)
    print(f"reference loop {unit * 1e6:.0f} us")
    isl = np.linspace(128, 8192, 16_384)
    cases = {
        "Llama-3.1-8B": (lambda: rl.predict("llama-3.1-8b", "h100-sxm", tp=1, isl=2000, osl=300, batch=16), 300, 1),
        "DeepSeek-V3": (lambda: rl.predict("deepseek-v3", "h200-sxm", tp=8, isl=2000, osl=300, batch=16), 200, 1),
        "Llama-3.1-8B, all keys": (
            lambda: rl.predict("llama-3.1-8b", "h100-sxm", tp=1, isl=2000, osl=300, batch=16).to_dict(),
            50,
            1,
        ),
        "Llama-3.1-8B, an array of 16,384": (
            lambda: rl.predict("llama-3.1-8b", "h100-sxm", tp=1, isl=isl, osl=300, batch=16).e2el,
            5,
            isl.size,
        ),
    }
    for name, (call, times, size) in cases.items():
        call()
        took = seconds(call, times)
        rate = size / took
        print(f"{name:34} {took * 1e6:9.0f} us  {took / unit:6.2f} x reference  {rate:12,.0f} predictions/s")


if __name__ == "__main__":
    main()
