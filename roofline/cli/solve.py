"""Inverse questions: the `solve` command."""

from __future__ import annotations

from typing import Any

import click

from roofline.api import catalog
from roofline.api import why as questions
from roofline.api.why import Solution
from roofline.cli.options import case_options, output_options
from roofline.cli.render import echo, notes, print_rows, with_unit
from roofline.cli.values import Duration
from roofline.errors import BadInput, RooflineError

__all__ = ["solve"]

_COLUMNS = {
    "model": "model",
    "gpu": "GPU",
    "tp": "tp",
    "unknown": "solved for",
    "said": "value",
    "now": "present",
    "binding": "binds",
    "ttft_ms": "TTFT [ms]",
    "tpot_ms": "TPOT [ms]",
    "method": "by",
    "fits": "fits",
}
_SAID = 3
_DIGITS = 4


@click.command(
    epilog="\b\nExamples:\n  roofline solve --for bandwidth --tpot 10ms -m llama-3.1-70b -g h100-sxm --tp 8\n"
    "  roofline solve --for batch --ttft 300ms --tpot 25ms -m llama-3.1-8b -g h100 -g b200 --isl 2000 --osl 300\n"
    "  roofline solve --for prefix --ttft 200ms -m qwen3-32b -g h200 --isl 8000\n"
    "  roofline solve --for request-rate --slo ttft:300@p99 -m llama-3.3-70b -q fp8 -g h100 --tp 4"
)
@click.option(
    "--for",
    "unknown",
    required=True,
    help="bandwidth, peak, batch, concurrency, request-rate, isl, prefix, tp, weights (bits), or any input that "
    "roofline sensitivity lists.",
)
@click.option(
    "--ttft",
    type=Duration(),
    help="Target, e.g. 300ms; a bare number is milliseconds. Of a percentile: --slo ttft:300@p99.",
)
@click.option("--tpot", type=Duration(), help="Target, e.g. 25ms.")
@click.option("--e2el", type=Duration(), help="Target, e.g. 5s.")
@case_options
@output_options
def solve(
    unknown: str,
    ttft: float | None,
    tpot: float | None,
    e2el: float | None,
    models: tuple[str, ...],
    gpus: tuple[str, ...],
    options: dict[str, Any],
    output_format: str,
) -> None:
    """The value of one input at which a latency target is just met, or why none does."""
    slo = dict(options.pop("slo", {}))
    if slo.pop("p99_within", None) is not None:
        notes(["solve looks for times, not for the p99 over the median: roofline goodput finds the rate that keeps it"])
    targets = {
        **slo,
        **{name: time for name, time in (("ttft", ttft), ("tpot", tpot), ("e2el", e2el)) if time is not None},
    }
    if not targets:
        raise click.UsageError(
            "a target is missing: --ttft, --tpot or --e2el, e.g. --ttft 300ms, or --slo ttft:300@p99"
        )
    names = gpus or catalog.gpus(options.get("specs"))
    found: list[Solution] = []
    failures: list[RooflineError] = []
    for model in models:
        solutions, refused = questions.solve_each_gpu(model, names, unknown, targets, **options)
        found += solutions
        failures += refused.values() if gpus else ()
    people = output_format in ("table", "markdown")
    print_rows([_row(solution, people=people) for solution in found], output_format, _COLUMNS)
    if people:
        if len(found) == 1:
            _print_formula(found[0])
        notes(f"{_who(solution, found)}{solution.reason}" for solution in found if solution.is_met and solution.reason)
        notes(text for solution in found for text in solution.warnings)
    failures += [BadInput(f"{_who(solution, found)}{solution.reason}") for solution in found if not solution.is_met]
    if failures and (gpus or not any(solution.is_met for solution in found)):
        said = list(dict.fromkeys(str(failure) for failure in failures))
        hidden = 0 if gpus else max(len(said) - _SAID, 0)  # of the whole catalog a few stand for all
        more = [f"and {hidden} more: --format json has every reason"] if hidden else []
        raise RooflineError("\n".join([*said[: len(said) - hidden], *more]))


def _row(solution: Solution, *, people: bool) -> dict[str, Any]:
    row = solution.to_dict()
    if people:
        row["said"] = "-" if solution.value is None else with_unit(solution.value, solution.unit, _DIGITS)
        row["now"] = with_unit(solution.present, solution.unit, _DIGITS)
        row["method"] = solution.method if solution.is_met else "cannot be met"
    return row


def _who(solution: Solution, found: list[Solution]) -> str:
    return f"{solution.base.deployment.gpu.name}: " if len(found) > 1 else ""


def _print_formula(solution: Solution) -> None:
    """Closed form, where there is one; else what was solved."""
    if solution.formula is not None:
        echo(f"\n{solution.formula}")
    elif solution.is_met and solution.method in ("root", "step"):
        echo(f"\nno closed form: root of {solution.binding}({solution.unknown}) = target; regime: {solution.regime}")
