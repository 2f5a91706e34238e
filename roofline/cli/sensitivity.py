"""What moves an answer: the `sensitivity` command."""

from __future__ import annotations

from functools import partial
from typing import Any

import click

from roofline.api import why as questions
from roofline.api.why import RESULTS, UNITS, Sensitivities, Sensitivity
from roofline.cli.options import FORMATS, case_options, one_case
from roofline.cli.render import echo, notes, print_rows, print_table, with_unit
from roofline.cli.values import PathName
from roofline.quantity import rounded, to_text

__all__ = ["sensitivity"]

_BAR = 20
_SHOWN = 8


@click.command(
    epilog="\b\nExamples:\n  roofline sensitivity -m llama-3.1-70b -g h100-sxm --tp 4 --isl 2000 --osl 300 --batch 16\n"
    "  roofline sensitivity -m llama-3.1-8b -g h100 --of tpot --formula --basis ideal\n"
    "  roofline sensitivity -m deepseek-r1 -g h200 --tp 8 --of ttft --format json"
)
@partial(case_options, one=True)
@click.option(
    "--of",
    type=click.Choice(list(UNITS)),
    multiple=True,
    default=RESULTS,
    show_default=True,
    help="Result that is to move. Repeatable.",
)
@click.option(
    "--top",
    type=click.IntRange(1),
    default=_SHOWN,
    show_default=True,
    help="Rows of each result in tables, formulas and charts.",
)
@click.option("--all", "is_all", is_flag=True, help="Show every row.")
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
    top: int,
    plot: str | None,
    *,
    is_all: bool,
    with_formula: bool,
) -> None:
    """What moves an answer: elasticity to every rate, efficiency, latency, length, format and to tp.

    An elasticity of -0.8 to the HBM bandwidth: 1 % more of it makes the result 0.8 % smaller. Where the derivative
    jumps just at the present value, those just below and above are shown.
    """
    found = questions.sensitivity(*one_case(models, gpus), of=of, **options)
    shown = [row for result in found.of for row in _of(found, result)[: None if is_all else top]]
    if output_format in ("json", "csv"):
        case = found.to_dict()
        print_rows(case.pop("rows"), output_format, {}, case)
    elif output_format == "latex":
        echo(questions.derivatives_latex(found, shown))
    else:
        _print(found, shown, output_format)
        if with_formula:
            echo("\n" + questions.derivatives_text(found, shown))
        notes(found.prediction.warnings)
    if plot is not None:
        questions.plot_sensitivities(found, shown, plot)
        echo(f"note: wrote {plot}", err=True)


def _of(found: Sensitivities, result: str) -> list[Sensitivity]:
    return [row for row in found if row.result == result]


def _print(found: Sensitivities, shown: list[Sensitivity], output_format: str) -> None:
    """What to buy, then the rows."""
    for result, row in found.what_to_buy.items():
        amount = getattr(found.prediction, result)
        value = to_text(amount, "s") if UNITS[result] == "s" else f"{rounded(amount)}/s"
        change = f"1 % more of it makes {row.elasticity:+.2f} %"
        echo(f"{result} = {value}: of the hardware, {row.meaning} ({row.input}) moves it most: {change}")
    echo()
    most = max((abs(row.elasticity) for row in shown), default=1.0) or 1.0
    headings = ("result", "input", "kind", "value", "elasticity", "size", "regime ends", "where")
    cells = [
        (
            row.result,
            row.input,
            row.kind,
            with_unit(row.value, row.unit),
            _sides(row),
            "#" * round(_BAR * abs(row.elasticity) / most),
            "-" if row.margin is None else f"{row.margin:+.3g} %",
            row.regime.partition(" until ")[2] or "-",
        )
        for row in shown
    ]
    print_table(headings, cells, output_format)
    regimes = dict.fromkeys(f"{row.result}: {row.regime.partition(' until ')[0]}" for row in shown)
    echo("\nregime: " + "; ".join(regimes))


def _sides(row: Sensitivity) -> str:
    """Elasticity; both sides at a tie where they differ."""
    below, above = row.elasticity_below, row.elasticity_above
    if row.margin == 0.0 and f"{below:.3f}" != f"{above:.3f}":
        return f"{below:.3f} below, {above:.3f} above"
    return f"{row.elasticity:.3f}"
