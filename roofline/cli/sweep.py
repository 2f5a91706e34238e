"""Many cases as one table: the `sweep` command."""

from __future__ import annotations

from functools import partial
from typing import Any

import click

from roofline.api.inputs.load import UNDER_LOAD
from roofline.api.outputs import SUFFIXES, write_rows
from roofline.api.table import LENGTHS, table
from roofline.cli.options import case_options, list_options, output_options
from roofline.cli.render import load_columns, notes, print_rows
from roofline.cli.values import PathName

__all__ = ["sweep"]

_COLUMNS = {
    "model": "model",
    "gpu": "GPU",
    "tp": "tp",
    "weight_dtype": "weights",
    "isl": "isl",
    "osl": "osl",
    "prefix": "prefix",
    "batch": "batch",
    "ttft_ms": "TTFT [ms]",
    "tpot_ms": "TPOT [ms]",
    "e2el_ms": "E2EL [ms]",
    "output_tok_s_gpu": "tok/s/GPU",
    "usd_per_m_output_tok": "USD/M tok",
    "hbm_used_frac": "HBM used",
    "reason": "reason",
}
_NUMBERS = (*(name for name in LENGTHS if name != "num_prompts"), "tp")
_OWN = (*_NUMBERS, "workload", "quantization", "measured", "slo")


@click.command(
    epilog="\b\nExamples:\n  roofline sweep -m llama-3.1-8b -g h100-sxm -g b200 --isl 1000,4000 --batch 1,8,64\n"
    "  roofline sweep -m gpt-oss-120b -g b200 --tp 1,2,4 --batch 1,16 -q mxfp4,bf16 --format csv"
)
@partial(case_options, without=_OWN)
@list_options
@output_options
@click.option(
    "-o", "--output", type=PathName(), help=f"Write the rows to a file instead: {', '.join(SUFFIXES)}; - prints."
)
@click.option("--force", is_flag=True, help="Overwrite the file.")
def sweep(
    models: tuple[str, ...],
    gpus: tuple[str, ...],
    options: dict[str, Any],
    output_format: str,
    output: str | None,
    *,
    force: bool,
) -> None:
    """Every combination of models, GPUs, lengths, batches, degrees and formats as a table for programs."""
    output = None if output == "-" else output
    people = output is None and output_format in ("table", "markdown")
    columns = load_columns(_COLUMNS, options)
    rows = table(models, gpus or None, keys=(*tuple(columns)[:-1], "warnings") if people else None, **options)
    if output is not None:
        write_rows(rows, output, force=force)
        notes([f"wrote {len(rows)} rows to {output}"])
        return
    print_rows(rows, output_format, columns)
    if people:  # of a table of many cases, what is said of their loads alone
        notes(text for row in rows for text in row["warnings"] if text.startswith(UNDER_LOAD))
