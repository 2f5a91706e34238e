"""Time to read the catalog in process: one specification, and both lists, nothing cached.

    python benchmarks/catalog.py

Budget: one specification 3 ms, both lists together 150 ms. The reference of a ratio is reading the bytes of
the same files; imports and the page cache of the system are warm.
"""

import contextlib
import io
import statistics
import time
from collections.abc import Callable
from pathlib import Path

from roofline.catalog import files
from roofline.catalog import find as reader
from roofline.cli.main import cli

ROUNDS = 21
ONE_MS, LISTS_MS = 3.0, 150.0


def forget() -> None:
    """Empty every cache of the catalog."""
    for module in (files, reader):
        for value in vars(module).values():
            if hasattr(value, "cache_clear"):
                value.cache_clear()


def median_ms(question: Callable[[], object]) -> float:
    """Median wall time of a question asked of a catalog that nobody has read."""
    times = []
    for _ in range(ROUNDS):
        forget()
        start = time.perf_counter()
        question()
        times.append(time.perf_counter() - start)
    return statistics.median(times) * 1e3


def ask(*arguments: str) -> None:
    with contextlib.redirect_stdout(io.StringIO()):
        cli(arguments, standalone_mode=False)


def read_bytes(paths: list[str]) -> int:
    return sum(len(Path(path).read_bytes()) for path in paths)


def main() -> None:
    h100 = files.shipped_entry("h100-sxm", "gpu")
    llama = files.shipped_entry("llama-3.1-8b", "model")
    every = [path for kind in ("gpu", "model") for path in files.yaml_files(files.shipped_root(kind))]
    questions = {
        "load one GPU by its name": (lambda: reader.load_gpu("h100-sxm"), [h100.path]),
        "load one GPU by an alias": (lambda: reader.load_gpu("H100"), [h100.path]),
        "load one model by its name": (lambda: reader.load_model("llama-3.1-8b"), [llama.path]),
        "load one model by an alias": (lambda: reader.load_model("Meta-Llama-3.1-8B-Instruct"), [llama.path]),
        "list all GPUs and models": (lambda: (ask("gpus"), ask("models")), every),
    }
    for question, _ in questions.values():
        question()  # imports
    for name, (question, paths) in questions.items():
        taken, reference = median_ms(question), median_ms(lambda paths=paths: read_bytes(paths))
        budget = LISTS_MS if "list" in name else ONE_MS
        verdict = "within" if taken <= budget else "ABOVE"
        print(f"{name:27} {taken:7.2f} ms  {verdict} {budget:3.0f} ms; {taken / reference:6.1f} x reading the bytes")
    print(f"{len(every)} files, medians of {ROUNDS}")


if __name__ == "__main__":
    main()
