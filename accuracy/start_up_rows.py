"""Start-ups of servers as their logs state them, beside what `roofline` expects: python accuracy/start_up_rows.py

tests/measured/start_up.csv has public logs of vLLM and SGLang, each with its source, and start-ups of vLLM that
accuracy/measure_start_up.py measured on an H200. Half of the public ones, every other row as they were found, set the
constants of engine_specs (`fit_start_up.py`); the others judge them. No constant is fitted to the H200, but the forms of
graphs and of the compiler's copy were read off it: it is no blind test, and the figures of public rows stand alone.
"""

from __future__ import annotations

import csv
from dataclasses import dataclass
from math import exp, log
from pathlib import Path
from statistics import median

import roofline as rl
from roofline.questions.fits import Fit, fits
from roofline.specs.model import Gqa
from roofline.support.records import replace

LOGS = Path(__file__).parents[1] / "tests" / "measured" / "start_up.csv"
_GIB = 1024.0**3
_NUMBERS = ("gpu_memory_utilization", "max_num_seqs", "max_num_batched_tokens", "max_model_len")


@dataclass
class LoggedStart:
    """A start-up as its log states it, and what was expected."""

    row: dict[str, str]
    fit: Fit
    kind: str  # dense, or other: experts, latents, windows or states
    judges: bool  # whether it is not fitted

    @property
    def is_own(self) -> bool:
        """Whether it was measured here."""
        return self.row["source"].startswith("measured here")

    @property
    def part(self) -> str:
        """What it is for."""
        return "own, no blind test" if self.is_own else "public, judging" if self.judges else "public, fitted"

    @property
    def error(self) -> float | None:
        """ln(expected / logged) of the KV tokens; None where the log has none."""
        tokens = self.row["kv_tokens"]
        if not tokens or not self.fit.tokens:
            return None
        return log(self.fit.tokens / float(tokens))

    @property
    def left_error(self) -> float | None:
        """Memory left for the KV cache, expected less logged [GiB]; None where the log has none."""
        logged = self.row["kv_cache_gib"]
        return None if not logged or self.fit.memory is None else self.fit.memory.kv_cache / _GIB - float(logged)

    @property
    def is_right(self) -> bool:
        """Whether it starts as expected."""
        return self.fit.starts == (self.row["starts"] == "1")


def logged_starts() -> list[LoggedStart]:
    """All rows of the file."""
    with LOGS.open(newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    return [_logged(row) for row in rows]


def options_of(row: dict[str, str]) -> dict[str, object]:
    """Keyword arguments of `fits`."""
    options: dict[str, object] = {"tp": int(row["tp"]), "pp": int(row["pp"])}
    options["engine"] = f"{row['engine']}@{row['version']}"
    for name in _NUMBERS:
        if row[name]:
            value = float(row[name])
            options[name] = value if name == "gpu_memory_utilization" else int(value)
    if row["weights"]:
        options["weights"] = row["weights"]
    options["kv_cache_dtype"] = row["kv_cache_dtype"] or "auto"
    return options


def gpu_of(row: dict[str, str]) -> rl.Gpu:
    """The GPU, with the memory that the log states where the catalog has another size of it."""
    gpu = rl.load_gpu(row["gpu"])
    return replace(gpu, memory=float(row["total_gib"]) * _GIB) if row["total_gib"] else gpu


def _logged(row: dict[str, str]) -> LoggedStart:
    (fit,) = fits(row["model"], gpu_of(row), enforce_eager=row["enforce_eager"] == "1", **options_of(row))
    model = fit.model
    is_dense = not model.is_moe and all(
        isinstance(mixer, Gqa) and mixer.window is None and mixer.chunk is None for _, mixer in model.mixers
    )
    return LoggedStart(row, fit, "dense" if is_dense else "other", row["split"] == "judge")


def main() -> None:
    """Print each row, then the errors by slice."""
    starts = logged_starts()
    for start in starts:
        row, error = start.row, start.error
        told = "" if error is None else f"{100.0 * (exp(error) - 1.0):+6.1f} %"
        left = "" if start.left_error is None else f"{start.left_error:+.2f} GiB"
        print(
            f"{row['engine']:7}{row['version']:10}{row['model']:22}{row['gpu']:15}tp{row['tp']} {start.kind:6}"
            f"{'judge' if start.judges else 'fit':6}{told:>9} {left:>10}  {'' if start.is_right else 'WRONG ABOUT STARTING'}"
        )
    for part in ("public, judging", "public, fitted", "own, no blind test"):
        for kind in ("dense", "other"):
            held = [start for start in starts if (start.part, start.kind) == (part, kind)]
            errors = [abs(exp(start.error) - 1.0) for start in held if start.error is not None]
            print(
                f"{part}, {kind}: KV tokens off by {100.0 * median(errors):.2f} % in the median of {len(errors)}, "
                f"{100.0 * max(errors):.1f} % at worst; right about starting in {sum(start.is_right for start in held)} "
                f"of {len(held)}"
            )


if __name__ == "__main__":
    main()
