"""Elasticities of an answer: the `sensitivity` command."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

import click

from roofline.api import why as questions
from roofline.api.why import RESULTS, UNITS, Sensitivities, Sensitivity
from roofline.cli.answers import PLAN_KEYS, asked_format, binding_text, case_text, deployed_text
from roofline.cli.case import WITHOUT_LIMITS, case_options, one_case
from roofline.cli.help import Question
from roofline.cli.options import FORMATS, screen_options
from roofline.cli.render import echo, print_rows, show, with_unit
from roofline.cli.screen import MOST_ROWS, Screen, ScreenColumn, flags
from roofline.cli.values import PathName
from roofline.quantity import rounded, to_text
from roofline.records import replace

_BAR = 16
_FEWEST = 2  # rows per result
_COLUMNS = (
    ScreenColumn("result", "result"),
    ScreenColumn("input", "input"),
    ScreenColumn("value", "value", 1),
    ScreenColumn("% per 1 %", "elasticity"),
    ScreenColumn("", "bar", 1),
    ScreenColumn("regime ends at", "margin", 2),
    ScreenColumn("where", "end", 3),
    ScreenColumn("kind", "kind", 4),
)


@click.command(
    cls=Question,
    epilog="\b\nExamples:\n"
    "  roofline sensitivity -m llama-3.1-70b -g h100:tp4 --isl 2k --osl 300 -b 16\n"
    "  roofline sensitivity -m llama-3.1-8b -g h100 --of tpot --formula\n"
    "  roofline sensitivity -m deepseek-r1 -g h200:tp8 --of ttft -f json",
)
@partial(case_options, without=WITHOUT_LIMITS, single=True)
@click.option(
    "--of",
    type=click.Choice(list(UNITS)),
    multiple=True,
    default=RESULTS,
    show_default=True,
    help="Result to explain. Repeatable.",
)
@click.option(
    "--top",
    type=click.IntRange(1),
    help="Rows of each result in tables, formulas and charts.  [default: 10 rows in all]",
)
@screen_options
@click.option("--formula", "with_formula", is_flag=True, help="Print the derivatives as formulas.")
@click.option(
    "--plot", type=PathName(dir_okay=False), help="Write a tornado chart (PNG, SVG, PDF); needs the extra plot."
)
@click.option(
    "-f",
    "--format",
    "output_format",
    type=click.Choice([*FORMATS, "latex"]),
    default="table",
    show_default=True,
    help="How to print; latex prints the formulas.",
)
def sensitivity(
    models: tuple[str, ...],
    gpus: tuple[str, ...],
    options: dict[str, Any],
    output_format: str,
    of: tuple[str, ...],
    top: int | None,
    plot: str | None,
    *,
    with_formula: bool,
) -> None:
    """What moves an answer: elasticity to every rate, efficiency, latency, length, format and to tp.

    An elasticity of -0.8 to the HBM bandwidth: 1 % more of it makes the result 0.8 % smaller. Where the derivative
    jumps just at the present value, those just below and above are shown.
    """
    options.pop("slo", None)  # of a workload
    sensitivities = questions.sensitivity(*one_case(models, gpus), of=of, **options)
    most = top or max(MOST_ROWS // len(sensitivities.of), _FEWEST)
    shown = [
        row
        for result in sensitivities.of
        for row in _rows_of(sensitivities, result)[: None if flags().is_full else most]
    ]
    if output_format in ("json", "csv"):
        case: dict[str, Any] = sensitivities.to_dict()
        print_rows(case.pop("rows"), output_format, {}, case)
    elif output_format == "latex":
        echo(questions.derivatives_latex(sensitivities, shown))
    else:
        hidden = 0 if flags().is_full else len(sensitivities) - len(shown)
        screen = _screen(sensitivities, shown, options)
        more = [f"{hidden} more: --all or --top N"] if hidden else []
        show(replace(screen, lines=[*screen.lines, *more], is_whole=True), output_format)
        if with_formula:
            echo("\n" + questions.derivatives_text(sensitivities, shown))
    if plot is not None:
        questions.plot_sensitivities(sensitivities, shown, plot)
        echo(f"wrote {plot}", err=True)


def _rows_of(sensitivities: Sensitivities, result: str) -> list[Sensitivity]:
    return [row for row in sensitivities if row.result == result]


def _screen(sensitivities: Sensitivities, shown: list[Sensitivity], options: Mapping[str, Any]) -> Screen:
    """The rows under the hardware rates that matter most."""
    buy = []
    for result, row in sensitivities.what_to_buy.items():
        amount = getattr(sensitivities.prediction, result)
        value = to_text(amount, "s") if UNITS[result] == "s" else f"{rounded(amount)}/s"
        change = f"{row.elasticity:+.2f} % per 1 % more {row.input}, the hardware that moves it most"
        buy.append(f"{binding_text(result)} {value}: {change}")
    most = max((abs(row.elasticity) for row in shown), default=1.0) or 1.0
    rows = [
        {
            "result": row.result,
            "input": row.input,
            "kind": row.kind,
            "value": with_unit(row.value, row.unit),
            "elasticity": _elasticity_text(row),
            "bar": "#" * round(_BAR * abs(row.elasticity) / most),
            "margin": "-" if row.margin is None else f"{'+' if row.margin > 0.0 else ''}{rounded(row.margin)} %",
            "end": row.regime.partition(" until ")[2] or "-",
        }
        for row in shown
    ]
    regimes = dict.fromkeys(part for row in shown for part in row.regime.partition(" until ")[0].split(", "))
    deployment = sensitivities.prediction.deployment
    end = deployed_text(sensitivities.prediction.to_dict(PLAN_KEYS))
    return Screen(
        columns=_COLUMNS,
        rows=rows,
        case=case_text([deployment.model.short_name], options, asked_format(options), end),
        answer="\n".join(buy),
        lines=[f"regime: {', '.join(regimes)}"],
        notes=sensitivities.prediction.warnings,
    )


def _elasticity_text(row: Sensitivity) -> str:
    """Elasticity; at a tie those of both sides."""
    below, above = row.elasticity_below, row.elasticity_above
    if row.margin == 0.0 and f"{below:.3f}" != f"{above:.3f}":
        return f"{below:.3f} below, {above:.3f} above"
    return f"{row.elasticity:.3f}"
