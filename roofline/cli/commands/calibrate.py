"""Fitting the constants of kernels to timings: the `calibrate` command."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from roofline.api.catalog import load_gpu
from roofline.cli.help import Question
from roofline.cli.options import specs_option
from roofline.cli.render import echo, print_table
from roofline.cli.values import GPU, PathName
from roofline.errors import BadInput

_HEADINGS = ("kind", "dtype", "rows", "before [%]", "after [%]", "sigma [%]")


@click.command(
    cls=Question,
    epilog="\b\nExamples:\n  roofline calibrate kernels.csv -g h100-sxm -o specs/hopper.yaml"
    "\n  roofline ttft -m llama-3.1-8b -g h100-sxm --specs specs",
)
@click.argument("tables", nargs=-1, required=True, type=PathName())
@click.option("-g", "--gpu", type=GPU, required=True, help="GPU that was measured.")
@click.option("--name", help="Name of the calibration: the generation that will use it.  [default: the GPU's]")
@click.option(
    "--title", default="own measurements", show_default=True, help="Description of the tables, cited as their source."
)
@click.option("--alone", is_flag=True, help="Leave out what was not measured instead of keeping the shipped values.")
@click.option("-o", "--output", type=PathName(), help="File to write; - prints.  [default: standard output]")
@click.option("--force", is_flag=True, help="Overwrite the file.")
@specs_option
def calibrate(
    tables: tuple[str, ...], gpu: str, output: str | None, *, alone: bool, force: bool, **fit_options: Any
) -> None:
    """Fit the constants of kernels and collectives to CSV tables of timed kernels (docs/measurements.md)."""
    from roofline.api.calibrate import calibrate as fit_tables
    from roofline.api.writing import check_target, is_stream, write_whole

    options = {name: value for name, value in fit_options.items() if value is not None}
    output = None if output == "-" else output
    if output is not None and not is_stream(output):
        calibration_name = fit_options["name"] or load_gpu(gpu, fit_options["specs"]).generation
        if Path(output).stem != calibration_name or Path(output).suffix not in (".yaml", ".yml"):
            raise BadInput(f"-o {output}: the file name must be the name of the calibration: {calibration_name}.yaml")
        check_target(output, force=force)
    fit = fit_tables(tables, gpu, keep=not alone, **options)
    if output is None:
        echo(fit.text, nl=False)
    else:
        write_whole(output, lambda beside: beside.write_text(fit.text, encoding="utf-8"), force=force, make_folder=True)
    cells = [
        [row["kind"], row["dtype"], str(row["measurements"]), *(_percent(row[key]) for key in _SHARES)]
        for row in fit.rows
    ]
    if output is None or is_stream(output):
        for cells_of_row in (list(_HEADINGS), *cells):
            echo("  ".join(cells_of_row), err=True)
    else:
        print_table(_HEADINGS, cells)
        echo(f"\n{output}: use it with --specs {Path(output).parent}")


_SHARES = ("median_before", "median_after", "sigma")


def _percent(share: float | None) -> str:
    return "-" if share is None else f"{100.0 * share:.1f}"
