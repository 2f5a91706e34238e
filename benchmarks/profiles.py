"""Why a budget was missed: imports by package and functions by their own time, from the run that missed it."""

from __future__ import annotations

import pstats
import re
import subprocess
import sys
import tempfile
from collections import Counter
from pathlib import Path

from measuring import ENVIRONMENT, PROFILE, Missed, number, worker
from start_up import command, kernels

MOST = 8


def explained(missed: Missed, same: str | None = None) -> str:
    """A bullet: by how much, and where the time goes; a question with the profile of another says which."""
    lines = [f"* **{missed.name}**: {missed.spread} against {number(missed.budget)}."]
    if same is not None:
        return f"{lines[0]} The profile is that of {same}."
    with tempfile.TemporaryDirectory() as folder:
        file = str(Path(folder, "profile"))
        if missed.worker[0] == "start_up":
            kernels(folder)
            asked = command(missed.worker[1], folder)
            lines.append("  * Imports, " + imports(asked))
            subprocess.run(
                [asked[0], "-m", "cProfile", "-o", file, *asked[1:]], env=ENVIRONMENT, check=True, capture_output=True
            )
        else:
            worker(*missed.worker, **{PROFILE: file})
        if Path(file).exists():
            lines.append("  * Functions, " + functions(file))
        else:
            lines.append("  * Its worker wrote no profile.")
    return "\n".join(lines)


def listed(times: Counter[str], whole: float) -> str:
    """The largest shares, in one sentence."""
    largest = [(name, round(100 * value / whole)) for name, value in times.most_common(MOST)]
    return ", ".join(f"{name} {share} %" for name, share in largest if share) + "."


def imports(asked: list[str]) -> str:
    """Import times by package, those of roofline by room."""
    done = subprocess.run(
        [asked[0], "-X", "importtime", *asked[1:]], env=ENVIRONMENT, capture_output=True, text=True, check=True
    )
    times: Counter[str] = Counter()
    modules = 0
    for line in done.stderr.splitlines():
        if found := re.match(r"import time:\s+(\d+) \|\s+\d+ \|\s+(\S+)", line):
            parts = found[2].split(".")
            times[".".join(parts[: 2 if parts[0] == "roofline" else 1])] += int(found[1])
            modules += 1
    whole = times.total()
    return f"{whole / 1e3:.0f} ms in {modules} modules: {listed(times, whole)}"


def functions(file: str) -> str:
    """Rooms and functions of a profile by their own time, functions of roofline by that of what they call, too."""
    table = pstats.Stats(file).stats
    rooms: Counter[str] = Counter()
    alone: Counter[str] = Counter()
    inclusive: Counter[str] = Counter()
    for (path, _, name), (_, _, own, cumulative, _) in table.items():
        parts = Path(path).parts
        called, ours = label(path, name), len(parts) > 1 and parts[_home(parts)] == "roofline"
        rooms[called.split("/")[0].strip("`") if ours and "/" in called else "Python and packages"] += own
        alone[called] += own
        if ours:
            inclusive[called] = max(inclusive[called], cumulative)
    whole = max(alone.total(), *inclusive.values())
    return (
        f"{whole * 1e3:.3g} ms under cProfile; own time by room: {listed(rooms, whole)}\n"
        f"    * By function: {listed(alone, whole)}\n"
        f"    * With what they call: {listed(inclusive, whole)}"
    )


def label(path: str, name: str) -> str:
    """A function by the file that holds it, without the folders of a machine."""
    if path.startswith(("~", "<")):
        return f"`{re.sub(' at 0x.*', '', name.strip('<>'))}`".replace("|", "/")
    parts = Path(path).parts
    return f"`{'/'.join(parts[_home(parts) + 1 :])}:{name}`"


def _home(parts: tuple[str, ...]) -> int:
    """Place of the folder that a reader knows: the package, these benchmarks, or where packages lie."""
    known = ("roofline", "benchmarks", "site-packages", f"python{sys.version_info.major}.{sys.version_info.minor}")
    return max((place for place, part in enumerate(parts[:-1]) if part in known), default=len(parts) - 2)
