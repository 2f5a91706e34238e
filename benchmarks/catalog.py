"""Reading the catalog in process. As a script, a worker: catalog.py NAME reads once what NAME says, imports done."""

from __future__ import annotations

import contextlib
import io
import json
import statistics
import sys
from collections.abc import Callable
from pathlib import Path

from measuring import Missed, Section, judged, seconds, spread, watched, worker

#: What is read -> milliseconds that it may take.
BUDGETS: dict[str, float | None] = {
    "one GPU by its name": 3.0,
    "one GPU by an alias": 3.0,
    "one model by its name": 3.0,
    "one model by an alias": 3.0,
    "one GPU of a file of one's own": None,
    "the lists of all GPUs and models": 150.0,
}
TEXT = """\
CPU time of reading specifications in process when nothing is cached: imports are done, and the system has the files
in memory. The reference is reading the bytes of the same YAML files, {count} of them for the lists."""


def measure(rounds: int) -> Section:
    missed: list[Missed] = []
    runs = {name: [worker("catalog", name) for _ in range(rounds)] for name in BUDGETS}
    rows = []
    for name, found in runs.items():
        figure = spread(each["ms"] for each in found)
        verdict = judged(name, figure, BUDGETS[name], ("catalog", name), missed)
        ratio = spread(each["ms"] / each["bytes_ms"] for each in found)
        rows.append((name, f"{figure} ms", *verdict, f"{ratio} x"))
    text = TEXT.format(count=runs["the lists of all GPUs and models"][0]["files"])
    return Section(
        "Reading the catalog", text, ("what", "median (min-max)", "budget [ms]", "met", "over the bytes"), rows, missed
    )


def forget() -> None:
    """Empty every cache of the package."""
    for name, module in list(sys.modules.items()):
        if name.partition(".")[0] == "roofline":
            for value in list(vars(module).values()):
                if hasattr(value, "cache_clear"):
                    value.cache_clear()


def yaml_files(name: str) -> list[Path]:
    """Files of the shipped GPUs and models, in a checkout or in a wheel, by the stem that their name begins with."""
    import roofline

    package = Path(roofline.__file__).parent
    roots = [each / kind for each in (package, package.parent) for kind in ("hardware_specs", "model_specs")]
    return [path for root in roots if root.is_dir() for path in sorted(root.rglob(f"{name}.yaml"))]


def ask(*arguments: str) -> None:
    from roofline.cli.main import cli

    with contextlib.redirect_stdout(io.StringIO()):
        cli(arguments, standalone_mode=False)


def main(name: str) -> None:
    """Median of several readings, each of an empty cache."""
    import roofline as rl

    own = yaml_files("h100-sxm")[0]
    questions: dict[str, tuple[Callable[[], object], list[Path]]] = {
        "one GPU by its name": (lambda: rl.load_gpu("h100-sxm"), [own]),
        "one GPU by an alias": (lambda: rl.load_gpu("H100"), [own]),
        "one model by its name": (lambda: rl.load_model("llama-3.1-8b"), yaml_files("llama-3.1-8b")),
        "one model by an alias": (lambda: rl.load_model("Meta-Llama-3.1-8B-Instruct"), yaml_files("llama-3.1-8b")),
        "one GPU of a file of one's own": (lambda: rl.load_gpu(str(own)), [own]),
        "the lists of all GPUs and models": (lambda: (ask("gpus"), ask("models")), yaml_files("*")),
    }
    question, files = questions[name]
    question()  # imports
    if question() is question():
        kept = question()
        forget()
        assert question() is not kept, "a cache of the catalog was not emptied"

    def fresh() -> float:
        forget()
        return seconds(question)

    read = statistics.median(seconds(lambda: [path.read_bytes() for path in files]) for _ in range(21))
    with watched():
        found = statistics.median(fresh() for _ in range(11))
    print(json.dumps({"ms": found * 1e3, "bytes_ms": read * 1e3, "files": len(files)}))


if __name__ == "__main__":
    main(*sys.argv[1:])
