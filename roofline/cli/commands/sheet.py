"""A sizing workbook with live formulas: the `sheet` command."""

from __future__ import annotations

from functools import partial
from typing import Any

import click

from roofline.api.workbook import sheet as write_sheet
from roofline.cli.case import case_options, list_options
from roofline.cli.help import Question
from roofline.cli.render import notes
from roofline.cli.values import COUNTS, WORDS, PathName

_NUMBERS = ("isl", "osl", "batch", "prefix", "tp", "pp", "ep", "dp")
_OWN = (
    *_NUMBERS, "workload", "quantization", "kv_cache_dtype", "weights", "compute", "measured", "num_gpus",
    "allow_oversize", "concurrency", "request_rate", "num_prompts", "max_num_batched_tokens", "max_num_seqs",
    "gpu_memory_utilization", "max_model_len", "draft", "draft_tokens", "acceptance", "gpu_price",
)  # fmt: skip


@click.command(
    cls=Question,
    epilog="\b\nExamples:\n"
    "  roofline sheet sizing.xlsx -m llama-3.1-8b -g h100,b200 --isl 1k,4k\n"
    "  roofline sheet sizing.xlsx -m deepseek-v3 -g h200 --tp 8 -q native,fp8",
)
@click.argument("output", type=PathName())
@partial(case_options, without=_OWN)
@partial(list_options, without=("concurrency", "request_rate"))
@click.option("--pp", "-pp", "--pipeline-parallel-size", type=COUNTS, help="Pipeline-parallel degrees.")
@click.option("--ep", "--expert-parallel-size", type=COUNTS, help="Expert-parallel degrees.")
@click.option("--dp", "-dp", "--data-parallel-size", type=COUNTS, help="Data-parallel degrees of the attention.")
@click.option("--kv-cache-dtype", type=WORDS, help="Number formats of the KV cache.")
@click.option("--spare", type=int, default=20, show_default=True, help="Blank rows below the scenarios.")
@click.option("--force", is_flag=True, help="Overwrite the file.")
def sheet(
    models: tuple[str, ...],
    gpus: tuple[str, ...],
    options: dict[str, Any],
    output: str,
    *,
    spare: int,
    force: bool,
) -> None:
    """Write a sizing workbook (.xlsx) whose cells are the formulas: change any choice and the answer follows."""
    rows = write_sheet(output, models, gpus or None, spare=spare, force=force, **options)
    notes([f"wrote {rows} scenario{'s' if rows != 1 else ''} to {output}"])
