"""What an answer under a load costs, as a ratio to an idle answer of the same run.

python benchmarks/loads.py
"""

from __future__ import annotations

import timeit
from collections.abc import Callable

import roofline as rl

CASES = (
    ("llama-3.1-8b", "h100-sxm", {"tp": 1, "isl": 1000, "osl": 200}),
    ("llama-3.3-70b", "h100-sxm", {"tp": 8, "isl": 4096, "osl": 500, "quantization": "fp8"}),
    ("deepseek-r1", "b200", {"tp": 8, "isl": 1024, "osl": 1024}),
)
LOADS = ({"concurrency": 8}, {"concurrency": 64}, {"concurrency": 500}, {"request_rate": 1.0}, {"request_rate": 3.0})
KEYS = tuple(f"{name}_p{level}" for name in ("ttft", "tpot", "e2el") for level in (50, 90, 95, 99))
SPREADS = ({}, {"isl_cv": 0.3, "osl_cv": 0.5})


def seconds(ask: Callable[[], object]) -> float:
    """Time of a question, the best of some."""
    return min(timeit.repeat(ask, number=5, repeat=5)) / 5


def percentiles(found: rl.Prediction) -> list[object]:
    """All percentiles of a row."""
    return [found.latency(key) for key in KEYS]


def main() -> None:
    """Print the ratios."""
    for model, gpu, case in CASES:
        idle = seconds(lambda model=model, gpu=gpu, case=case: rl.predict(model, gpu, **case).e2el)
        for load in LOADS:
            loaded = seconds(
                lambda model=model, gpu=gpu, case=case, load=load: rl.predict(model, gpu, **case, **load).e2el
            )
            tails = [
                seconds(
                    lambda model=model, gpu=gpu, case=case, load=load, spread=spread: percentiles(
                        rl.predict(model, gpu, **case, **load, **spread)
                    )
                )
                for spread in SPREADS
            ]
            print(
                f"{model} on {gpu}, {load}: {loaded / idle:.1f} idle answers; with all percentiles "
                f"{tails[0] / idle:.1f}, of lengths that spread {tails[1] / idle:.1f}"
            )


if __name__ == "__main__":
    main()
