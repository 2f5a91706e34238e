"""Fitting the constants of the equation to timed kernels: calibrate."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from roofline.api.catalog import load_gpu
from roofline.cli.help import Question
from roofline.cli.options import specs_option
from roofline.cli.render import echo, print_table
from roofline.cli.values import GpuName, PathName
from roofline.errors import BadInput

__all__ = ["calibrate"]

_HEADINGS = ("kind", "dtype", "rows", "before [%]", "after [%]", "sigma [%]")


@click.command(
    cls=Question,
    epilog="\b\nExamples:\n  roofline calibrate kernels.csv -g h100-sxm -o specs/hopper.yaml"
    "\n  roofline ttft -m llama-3.1-8b -g h100-sxm --specs specs",
)
@click.argument("tables", nargs=-1, required=True, type=PathName())
@click.option("-g", "--gpu", type=GpuName(), required=True, help="GPU that was measured.")
@click.option("--name", help="Name of the calibration: the generation that will use it.  [default: the GPU's]")
@click.option(
    "--title", default="own measurements", show_default=True, help="Description of the tables, cited as their source."
)
@click.option("--alone", is_flag=True, help="Leave out what was not measured instead of keeping the shipped values.")
@click.option("-o", "--output", type=PathName(), help="File to write; - prints.  [default: standard output]")
@click.option("--force", is_flag=True, help="Overwrite the file.")
@specs_option
def calibrate(tables: tuple[str, ...], gpu: str, output: str | None, *, alone: bool, force: bool, **given: Any) -> None:
    """Fit the constants of kernels and collectives to CSV tables of timed kernels (docs/measurements.md)."""
    from roofline.api.calibrate import calibrate as fitted
    from roofline.api.writing import check_target, is_stream, write_whole

    options = {name: value for name, value in given.items() if value is not None}
    output = None if output == "-" else output
    if output is not None and not is_stream(output):
        called = given["name"] or load_gpu(gpu, given["specs"]).generation
        if Path(output).stem != called or Path(output).suffix not in (".yaml", ".yml"):
            raise BadInput(f"-o {output}: the file name must be the name of the calibration: {called}.yaml")
        check_target(output, force=force)
    fit = fitted(tables, gpu, keep=not alone, **options)
    if output is None:
        echo(fit.text, nl=False)
    else:
        write_whole(output, lambda beside: beside.write_text(fit.text, encoding="utf-8"), force=force, make_folder=True)
    cells = [
        [row["kind"], row["dtype"], str(row["measurements"]), *(_percent(row[key]) for key in _SHARES)]
        for row in fit.rows
    ]
    if output is None or is_stream(output):
        for heading_and_cells in (list(_HEADINGS), *cells):
            echo("  ".join(heading_and_cells), err=True)
    else:
        print_table(_HEADINGS, cells)
        echo(f"\n{output}: use it with --specs {Path(output).parent}")


_SHARES = ("median_before", "median_after", "sigma")


def _percent(share: float | None) -> str:
    return "-" if share is None else f"{100.0 * share:.1f}"
