"""Start-up of the command: CPU time as a ratio of `python -c "import click, yaml"`, measured in turn.

    python benchmarks/start_up.py

Budget: one GPU at most 2 times, the table over all GPUs at most 3.5 times.
"""

import os
import resource
import statistics
import subprocess
import sys
from pathlib import Path

ROOFLINE = str(Path(sys.executable).with_name("roofline"))
REFERENCE = [sys.executable, "-c", "import click, yaml"]
QUESTIONS = {
    "one GPU": [ROOFLINE, "ttft", "-m", "llama-3.1-70b", "-g", "h100-sxm"],
    "all GPUs": [ROOFLINE, "ttft", "-m", "llama-3.1-70b"],
    "gpus": [ROOFLINE, "gpus"],
    "--help": [ROOFLINE, "--help"],
}
ROUNDS = 15
# Bytecode must be cached, as it is after pip install, or compiling is what gets measured.
ENVIRONMENT = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}


def cpu_seconds(command: list[str]) -> float:
    """User and system time of one run."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=ENVIRONMENT)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def main() -> None:
    for name, command in QUESTIONS.items():
        cpu_seconds(command), cpu_seconds(REFERENCE)
        ratios = [cpu_seconds(command) / cpu_seconds(REFERENCE) for _ in range(ROUNDS)]
        low, middle, high = min(ratios), statistics.median(ratios), max(ratios)
        print(f"{name:10} {middle:.2f} x  (min {low:.2f}, max {high:.2f}, {ROUNDS} pairs)")


if __name__ == "__main__":
    main()
