"""Importing a model: a Hugging Face configuration to a specification file."""

from __future__ import annotations

import click

from roofline.cli.render import echo, notes

__all__ = ["import_model"]


@click.command(
    "import",
    epilog="\b\nExamples:\n  roofline models import ./my-model/config.json"
    "\n  roofline models import Qwen/Qwen3-8B -o qwen3-8b.yaml",
)
@click.argument("config")
@click.option("-o", "--output", metavar="FILE", help="Write to this file instead of printing; - prints.")
@click.option("--name", metavar="ID", help="Name of the model, best its Hugging Face id.")
@click.option("--force", is_flag=True, help="Overwrite the file if it exists.")
def import_model(config: str, output: str | None, name: str | None, force: bool) -> None:
    """Specification of the model that CONFIG describes.

    CONFIG is a config.json, a folder that holds one, or a Hugging Face id.
    """
    from roofline.api.imports import imported_model
    from roofline.api.writing import write_whole

    text, cautions = imported_model(config, name)
    notes(cautions)
    if output is None or output == "-":
        echo(text, nl=False)
        return
    write_whole(output, lambda beside: beside.write_text(text, encoding="utf-8"), force=force)
    echo(f"{output}: written", err=True)
