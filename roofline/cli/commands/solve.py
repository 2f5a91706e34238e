"""Inverse questions: the `solve` command."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

import click

from roofline.api import catalog
from roofline.api import why as questions
from roofline.api.predict import LOADS
from roofline.api.why import Solution
from roofline.cli.answers import asked_format, binding_text, by_estimate, case_text, differ, gpus_text, passing
from roofline.cli.case import WITHOUT_LIMITS, case_options
from roofline.cli.columns import GPUS, PLAN, SLO_MET, latency, model_column
from roofline.cli.help import Question
from roofline.cli.options import FOR_PEOPLE, output_options
from roofline.cli.render import labelled, show, with_unit
from roofline.cli.screen import MARK, Screen, ScreenColumn
from roofline.cli.values import DURATION, suggested
from roofline.errors import BadInput, RooflineError
from roofline.quantity import rounded_down


def _columns(options: Mapping[str, Any], models: int) -> list[ScreenColumn]:
    return [
        MARK,
        *model_column(models),
        GPUS,
        PLAN,
        ScreenColumn("value", "value_text"),
        SLO_MET,
        ScreenColumn("now", "now_text", 1),
        ScreenColumn("limited by", "limited_by", 1),
        *latency("ttft", options, 1, with_range=False),
        *latency("tpot", options, 1, with_range=False),
        ScreenColumn("solved by", "method_text", 4),
        ScreenColumn("fits", "fits", 5),
    ]


_NO_P99_WITHIN = "solve takes time limits, not the p99 over the median; use roofline goodput"
_COUNTED = {"batch": " requests at once", "concurrency": " users", "request_rate": " requests/s"}
_MOST_REASONS = 3
_DIGITS = 4


_UNKNOWNS = ("bandwidth", "peak", "batch", "concurrency", "request-rate", "isl", "osl", "prefix", "tp", "weights")


@click.command(
    cls=Question,
    epilog="\b\nExamples:\n"
    "  roofline solve --for bandwidth --tpot 10ms -m llama-3.1-70b -g h100:tp8\n"
    "  roofline solve --for batch --slo ttft:300,tpot:25 -m llama-3.1-8b -g h100\n"
    "  roofline solve --for prefix --ttft 200ms -m qwen3-32b -g h200 --isl 8k\n"
    "  roofline solve --for request-rate --slo ttft:300@p99 -m llama-3.1-8b -g h100",
)
@click.option(
    "--for",
    "unknown",
    type=suggested("input", lambda: _UNKNOWNS),
    required=True,
    help="bandwidth, peak, batch, concurrency, request-rate, isl, prefix, tp, weights (bits), or any input that "
    "roofline sensitivity lists.",
)
@click.option(
    "--ttft",
    type=DURATION,
    help="Target, e.g. 300ms; a bare number is milliseconds. Of a percentile: --slo ttft:300@p99.",
)
@click.option("--tpot", type=DURATION, help="Target, e.g. 25ms.")
@click.option("--e2el", type=DURATION, help="Target, e.g. 5s.")
@partial(case_options, without=WITHOUT_LIMITS[1:])
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
    is_within = slo.pop("p99_within", None) is not None
    times = {"ttft": ttft, "tpot": tpot, "e2el": e2el}
    targets = {**slo, **{name: time for name, time in times.items() if time is not None}}
    if not targets:
        raise click.UsageError(
            "solve needs a target: --ttft, --tpot or --e2el, e.g. --ttft 300ms, or --slo ttft:300@p99"
        )
    names = gpus or catalog.gpus(options.get("specs"))
    solutions: list[Solution] = []
    failures: list[RooflineError] = []
    for model in models:
        of_model, refused = questions.solve_each_gpu(model, names, unknown, targets, **options)
        solutions += of_model
        failures += refused.values() if gpus else ()
    people = output_format in FOR_PEOPLE
    rows = [_row(solution, people=people) for solution in solutions]
    reasons = [
        f"{_gpu_prefix(solution, solutions)}{solution.reason}"
        for solution in solutions
        if solution.is_met and solution.reason
    ]
    unmet = [solution for solution in solutions if not solution.is_met]
    screen = Screen(
        columns=_columns({**options, "slo": targets}, len(models)),
        rows=[row for solution, row in zip(solutions, rows, strict=True) if solution.is_met],
        others=[row for solution, row in zip(solutions, rows, strict=True) if not solution.is_met],
        rule="cannot be met, or not known" if any(each.verdict is None for each in unmet) else "cannot be met",
        case=_case(models, options, unknown, targets),
        answer=_answer(solutions, rows, people=people),
        lines=[*reasons, *(_formula(solutions[0]) if len(solutions) == 1 else [])],
        notes=[
            *([_NO_P99_WITHIN] if is_within else []),
            *labelled((solution.base.deployment.gpu.name, solution.warnings) for solution in solutions),
        ],
    )
    show(screen, output_format, rows)
    failures += [
        BadInput(f"{_gpu_prefix(solution, solutions)}{solution.reason}")
        for solution in solutions
        if not solution.is_met
    ]
    if failures and (gpus or not any(solution.is_met for solution in solutions)):
        messages = list(dict.fromkeys(str(failure) for failure in failures))
        hidden = 0 if gpus else max(len(messages) - _MOST_REASONS, 0)  # of the whole catalog, only a few
        more = [f"and {hidden} more: --format json has every reason"] if hidden else []
        raise RooflineError("\n".join([*messages[: len(messages) - hidden], *more]))


def _answer(solutions: list[Solution], rows: list[dict[str, Any]], *, people: bool) -> str:
    """The value, for people who asked for one case."""
    if not people or len(solutions) != 1 or not solutions[0].is_met:
        return ""
    (row,) = rows
    solution, what = solutions[0], _COUNTED.get(solutions[0].unknown, "")
    where = f"on {gpus_text(row)}{by_estimate(row)}"
    if solution.is_open:
        return f"{row['value_text']}{what} {where}: the search ends there, not the target"
    unsure = "" if passing([row]) else f"; SLO {row['slo_verdict'] or 'not known'}: {row['slo_reason']}"
    if not solution.is_known:
        return f"{row['value_text']}{what} {where}; beyond that it is not known{unsure}"
    most = "at most " if solution.whole is not None or solution.unknown == "request_rate" else ""
    limit = "" if solution.limited_by is None else f", limited by {row['limited_by']}"
    return f"{most}{row['value_text']}{what} {where}{limit}{unsure}"


def _case(models: tuple[str, ...], options: Mapping[str, Any], unknown: str, targets: Mapping[str, float]) -> str:
    name = unknown.replace("-", "_")
    is_load = name in LOADS
    others = {key: value for key, value in options.items() if key != name}
    text = case_text(
        models,
        {**others, "slo": targets},
        asked_format(options),
        load=not is_load,
        is_mean=name in LOADS[1:] or differ(others),
    )
    what = {"batch": "largest burst on an idle server", "concurrency": "most users", "request_rate": "highest rate"}
    return f"{text} \u00b7 {what.get(name, f'{unknown} at which it is just met')}"


def _row(solution: Solution, *, people: bool) -> dict[str, Any]:
    row = solution.to_dict()
    if people:
        row["value_text"] = "-" if solution.value is None else _value_text(solution.value, solution)
        if solution.whole is not None:
            row["value_text"] = str(solution.whole)
        if solution.is_open and solution.value is not None:
            row["value_text"] = (
                f"{'more' if (solution.value or 0.0) > solution.present else 'less'} than {row['value_text']}"
            )
        row["now_text"] = _value_text(solution.present, solution) if solution.unknown not in LOADS else "-"
        is_target = solution.limited_by == solution.binding or not solution.is_met
        named = binding_text(solution.binding, is_mean=solution.is_mean)
        row["limited_by"] = named if is_target else solution.limited_by
        row["method_text"] = solution.method if solution.is_met else "-"
        row["num_gpus"] = solution.base.deployment.num_gpus
    return row


def _value_text(value: float, solution: Solution) -> str:
    return rounded_down(value) if solution.unknown == "request_rate" else with_unit(value, solution.unit, _DIGITS)


def _gpu_prefix(solution: Solution, solutions: list[Solution]) -> str:
    return f"{solution.base.deployment.gpu.name}: " if len(solutions) > 1 else ""


def _formula(solution: Solution) -> list[str]:
    """The closed form, else the equation solved."""
    if solution.formula is not None:
        return ["", *str(solution.formula).split("\n")]
    if solution.is_met and solution.method in ("root", "step"):
        return [f"no closed form: root of {solution.binding}({solution.unknown}) = target; regime: {solution.regime}"]
    return []
