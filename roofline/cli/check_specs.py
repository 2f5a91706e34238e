"""Checking specification files: every fault with its file, line and field."""

from __future__ import annotations

import click

from roofline.api.catalog import spec_report
from roofline.cli.render import echo

__all__ = ["check_specs"]


@click.command(
    "check-specs",
    epilog="\b\nExample:\n  roofline check-specs",
)
@click.argument("path", required=False)
@click.pass_context
def check_specs(ctx: click.Context, path: str | None) -> None:
    """Check a folder or a file of specifications; the shipped catalogs where none is given.

    Prints every fault as file:line: field: fault and ends with exit code 1, or says that all is well.
    """
    report = spec_report(path)
    counted = [f"{number} {kind}{'' if number == 1 else 's'}" for kind, number in report.counts.items() if number]
    what = ", ".join(counted) or "no readable file"
    for fault in report.faults:
        echo(fault)
    if report.faults:
        echo(f"{len(report.faults)} fault{'' if len(report.faults) == 1 else 's'} in {what}", err=True)
        ctx.exit(1)
    echo(f"{what}: no faults")
