"""Speed in one run: every figure a ratio to something measured beside it, with its spread; writes docs/performance.md.

    python benchmarks/run.py                    all parts, about twelve minutes; writes the page
    python benchmarks/run.py --only answers     one part, printed
    python benchmarks/run.py --against FOLDER   the questions of many predictions beside another checkout, too

What is measured is the wheel of this checkout, built for the run, or with --installed the package that Python imports.
"""

from __future__ import annotations

import argparse
import datetime as dt
import importlib.metadata
import os
import platform
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

import answers
import arrays
import blocks
import catalog
import loads
import pages
import peers
import profiles
import questions
import shell
import start_up
import tables
from measuring import ENVIRONMENT, HERE, Section, memory_mib

sys.path.append(str(HERE.parent / "accuracy"))
from prose import wrapped

PAGE = HERE.parent / "docs" / "performance.md"
INTRODUCTION = """\
# Performance

How long answers take, as ratios to something that was measured in the same run, so that machines of different speed
compare. Written by `python benchmarks/run.py` on {date}; do not edit. Each figure is the median of its rounds, with
the smallest and the largest in brackets; a budget is met if the median meets it. All times are CPU time.

{machine}

{verdict}
"""


def build(root: Path, folder: str) -> str:
    """The wheel of a checkout, unpacked with its bytecode into a folder of its own; says what is measured."""
    pip = [sys.executable, "-m", "pip", "install", "-q", "--disable-pip-version-check", "--no-deps", "--target", folder]
    subprocess.run([*pip, str(root)], check=True)
    return "The package is the wheel of this checkout, installed."


def machine() -> str:
    """What computed, in words."""
    model = "an unknown processor"
    if Path("/proc/cpuinfo").exists():
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
        model = next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), model)
    versions = ", ".join(f"{name} {importlib.metadata.version(name)}" for name in ("click", "PyYAML", "sympy"))
    return (
        f"Machine: {model} ({platform.machine()}), {os.cpu_count()} cores, {memory_mib() / 1024:.0f} GiB, "
        f"{platform.system()}; {platform.python_implementation()} {platform.python_version()}, "
        f"numpy {importlib.metadata.version('numpy')}, {versions}."
    )


def rendered(section: Section) -> str:
    """A part as Markdown."""
    table = [section.head, tuple("---" for _ in section.head), *section.rows]
    rows = "\n".join("| " + " | ".join(row) + " |" for row in table)
    return "\n\n".join([f"## {section.title}", " ".join(section.text.split()), rows, section.after]).rstrip() + "\n"


def missed_part(sections: list[Section]) -> str:
    """What is above its budget, and why."""
    missed = [each for section in sections for each in section.missed]
    if not missed:
        return "## What was missed\n\nNothing.\n"
    text = (
        "## What was missed, and the profile that says why\n\n"
        "Imports are those of `python -X importtime`, own time by package, and by room for roofline. Functions are\n"
        "those of cProfile, which makes small functions look dearer than they are.\n"
    )
    names = {each.worker: each.name for each in reversed(missed)}  # the first of each worker
    same = [names[each.worker] if names[each.worker] != each.name else None for each in missed]
    with ThreadPoolExecutor(os.cpu_count()) as pool:  # nothing is timed any more but by the profiles' own CPU clock
        return "\n".join([text, *pool.map(profiles.explained, missed, same), ""])


def verdict(sections: list[Section]) -> str:
    """How many budgets are met, in one sentence."""
    met = sum(row.count("yes") for section in sections for row in section.rows)
    names = [each.name for section in sections for each in section.missed]
    return f"**{met} of {met + len(names)} budgets are met.**"


def main(arguments: list[str] | None = None) -> None:
    """Measure, and print or write."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--only",
        metavar="NAME",
        help="start-up, answers, questions, loads, shell, tables, blocks, catalog, page, arrays or peers",
    )
    parser.add_argument("--against", metavar="FOLDER", type=Path, help="another checkout, for the questions")
    parser.add_argument("--installed", action="store_true", help="measure the package that Python imports")
    parser.add_argument("--rounds", type=int, default=10, help="of the start-up; the others take their share")
    asked = parser.parse_args(arguments)
    few = max(1, asked.rounds // 3)
    with tempfile.TemporaryDirectory() as here, tempfile.TemporaryDirectory() as there:
        package = "The package is the one that Python imports."
        if not asked.installed:
            package = build(HERE.parent, here)
            ENVIRONMENT["PYTHONPATH"] = here
        if asked.against is not None:
            build(asked.against, there)
        parts: dict[str, Callable[[], Section]] = {
            "start-up": partial(start_up.measure, asked.rounds, package),
            "answers": partial(answers.measure, asked.rounds),
            "questions": partial(questions.measure, few, there if asked.against is not None else None),
            "loads": partial(loads.measure, few),
            "shell": partial(shell.measure, few),
            "tables": partial(tables.measure, few),
            "blocks": partial(blocks.measure, few),
            "catalog": partial(catalog.measure, few),
            "page": partial(pages.measure, few),
            "arrays": partial(arrays.measure, few),
            "peers": partial(peers.measure, min(few, 2)),
        }
        if asked.only is not None and asked.only not in parts:
            parser.error(f"no part {asked.only}: {', '.join(parts)}")
        sections = []
        for name, measure in parts.items():
            if asked.only in (None, name):
                start = time.perf_counter()
                sections.append(measure())
                print(f"{name}: {time.perf_counter() - start:.0f} s", file=sys.stderr, flush=True)
        texts = [*map(rendered, sections), missed_part(sections)]
    if asked.only is not None:
        print("\n".join(texts))
        return
    today = dt.datetime.now(tz=dt.UTC).date().isoformat()
    head = INTRODUCTION.format(date=today, machine=machine(), verdict=verdict(sections))
    PAGE.write_text(wrapped("\n".join([head, *texts])), encoding="utf-8")
    print(f"wrote {PAGE.relative_to(HERE.parent)}: {verdict(sections)}")


if __name__ == "__main__":
    main()
