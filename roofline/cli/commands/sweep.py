"""Many cases as one table: the `sweep` command."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import click

from roofline.api.inputs.case import is_pressing
from roofline.api.inputs.load import UNDER_LOAD
from roofline.api.outputs import SUFFIXES, write_rows
from roofline.api.predict import ROW_KEYS
from roofline.api.ranking import meeting_first
from roofline.api.table import LENGTHS, table
from roofline.cli.answers import case_text, miss_text
from roofline.cli.case import case_options, list_options
from roofline.cli.columns import (
    GPUS,
    HBM,
    PLAN,
    TOK_S_GPU,
    USD_TOKENS,
    latency,
    load_columns,
    ranked,
    verdict_columns,
)
from roofline.cli.help import Question
from roofline.cli.options import FOR_PEOPLE, output_options
from roofline.cli.render import echo, show
from roofline.cli.screen import Screen, ScreenColumn
from roofline.cli.values import PathName

#: Columns that are left out where all values are equal.
_VARYING = {
    "model": "model", "weight_dtype": "weights", "isl": "isl", "osl": "osl", "prefix": "prefix", "batch": "burst",
    "concurrency": "users", "request_rate": "req/s",
}  # fmt: skip


def _columns(rows: Sequence[Mapping[str, Any]], options: Mapping[str, Any]) -> list[ScreenColumn]:
    answered = "request_rate" if options.get("concurrency") is not None else "concurrency"  # not an input
    varying = {
        key: heading
        for key, heading in _VARYING.items()
        if key != answered and len({str(row[key]) for row in rows}) > 1
    }
    return [
        *(ScreenColumn(heading, key) for key, heading in varying.items() if key == "model"),
        GPUS,
        PLAN,
        *(ScreenColumn(heading, key) for key, heading in varying.items() if key != "model"),
        *latency("ttft", options, with_range=False),
        *latency("tpot", options, with_range=False),
        *verdict_columns(options),
        *load_columns(options),
        ranked(TOK_S_GPU, 2),
        ranked(USD_TOKENS, 1),
        *latency("e2el", options, 3, with_range=False),
        ranked(HBM, 4),
        ScreenColumn("no answer", "reason", 0),
    ]


_NUMBERS = (*(name for name in LENGTHS if name != "num_prompts"), "tp")
_OWN = (*_NUMBERS, "quantization", "measured")
_KEYS = tuple(key for key in ROW_KEYS if "knee" not in key)  # knees take longer than everything else


def _is_noted(text: str) -> bool:
    """Of many cases, notes about their loads and what belongs on the first screen."""
    return text.startswith(UNDER_LOAD) or is_pressing(text)


@click.command(
    cls=Question,
    epilog="\b\nExamples:\n"
    "  roofline sweep -m llama-3.1-8b -g h100,b200 --isl 1k,4k --batch 1:64:x4\n"
    "  roofline sweep -m gpt-oss-120b -g b200 --tp 1,2,4 -q mxfp4,bf16 -f csv",
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
    """Every combination of models, GPUs, lengths, batches, degrees and formats as a table for programs.

    With an SLO, the first screen begins with what meets it; programs get the order of the lists.
    """
    output = None if output == "-" else output
    people = output is None and output_format in FOR_PEOPLE
    rows = table(models, gpus or None, keys=_KEYS if people else None, **options)
    if output is not None:
        write_rows(rows, output, force=force)
        echo(f"wrote {len(rows)} rows to {output}", err=True)
        return
    if people:  # programs get the rows in the order of the grid
        rows = meeting_first(rows, lambda row: row["slo_verdict"])
    screen = Screen(
        columns=_columns(rows, options) if people else (),
        rows=rows,
        case=case_text(dict.fromkeys(row["model"] for row in rows), options) if people else "",
        answer=miss_text(rows, options, gpus) if people else "",
        notes=[text for row in rows for text in row["warnings"] if _is_noted(text)] if people else (),
    )
    show(screen, output_format)
