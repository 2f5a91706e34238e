"""One case on several GPUs side by side, and why one is faster than another."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from typing import Any

import click

from roofline.api.answer_rows import refused_row
from roofline.api.compare import COMPARED_KEYS
from roofline.api.compare import compare as compare_gpus
from roofline.cli.answers import answer_text, case_text, deployed_text, passing
from roofline.cli.case import case_options
from roofline.cli.columns import (
    BOUND,
    GPUS,
    HBM,
    PLAN,
    TOK_S_GPU,
    TOK_S_USER,
    USD_HOUR,
    USD_TOKENS,
    latency,
    load_columns,
    ranked,
    speedup_column,
    verdict_columns,
    with_refusals,
)
from roofline.cli.help import Question
from roofline.cli.options import FOR_PEOPLE, output_options
from roofline.cli.render import REASONS, echo, labelled, print_table, show
from roofline.cli.screen import MARK, Screen, ScreenColumn, cell_text
from roofline.errors import RooflineError

#: Keys and headings of kernels.
_KERNELS = {
    "kernel": "kernel",
    "bound": "bound",
    "cause": "cause",
    "reference_us": "before us",
    "total_us": "here us",
    "gain_us": "saved us",
    "contribution": "share of gain",
}


def _columns(options: Mapping[str, Any]) -> list[ScreenColumn]:
    return [
        MARK,
        GPUS,
        PLAN,
        *latency("ttft", options),
        speedup_column("prefill", "prefill_speedup", 1),
        *latency("tpot", options),
        speedup_column("decode", "decode_speedup", 1),
        *verdict_columns(options),
        *load_columns(options),
        ranked(USD_HOUR, 2),
        ranked(USD_TOKENS, 3),
        BOUND["decode"],
        TOK_S_USER,
        TOK_S_GPU,
        ranked(HBM, 5),
        ScreenColumn("knee", "knee", 5),
        *latency("e2el", options, 6, with_range=False),
    ]


@click.command(
    cls=Question,
    epilog="\b\nExamples:\n"
    "  roofline compare -m llama-3.1-70b -g h100,b200 --isl 2k --osl 300 -b 16\n"
    "  roofline compare -m deepseek-r1 -g b200,mi300x --workload 8k1k --explain",
)
@partial(case_options, without=("measured",))
@output_options
@click.option("--explain", is_flag=True, help="Show every kernel's part in the difference.")
def compare(
    models: tuple[str, ...], gpus: tuple[str, ...], options: dict[str, Any], output_format: str, *, explain: bool
) -> None:
    """Two GPUs or more side by side: how many times faster than the first, and why."""
    if len(models) != 1:
        raise click.UsageError(f"compare takes one model, got {len(models)}")
    if len(gpus) < 2:
        raise click.UsageError(
            f"compare needs two GPUs or more, got {len(gpus)}; write -g h100,b200, the reference first"
        )
    if explain and output_format == "csv":
        raise click.UsageError("--explain has no CSV form; use --format json, markdown or table")
    compared = compare_gpus(models[0], gpus, **options)
    people = output_format in FOR_PEOPLE
    rows: Sequence[Mapping[str, Any]] = compared.to_records()
    reference = next(row for row in rows if row["label"] == row["reference"])
    kernels = compared.kernel_records()
    refusals = [_refused(models[0], name, error, options, people=people) for name, error in compared.refused.items()]
    screen = Screen(
        columns=with_refusals(_columns(options), refusals),
        rows=[*rows, *refusals],
        case=case_text(
            [reference["model"]],
            options,
            {row["weight_dtype"] for row in rows},
            f"speed-ups over {deployed_text(reference)}",
        ),
        answer=answer_text(rows, options, gpus) if options.get("slo") else "",
        lines=[
            line
            for row in rows
            if row is not reference
            for line in _why(row, reference, in_full=explain or len(rows) == 2)
        ],
        notes=[*compared.notes, *labelled((row["label"], row["warnings"]) for row in rows)],
    )
    show(screen, output_format, extra={"kernels": kernels, "notes": list(compared.notes)})
    if people and explain:
        print_kernels(kernels, ("label", "reference", "pass"), "{0}, {2} against {1}", output_format)
    if compared.refused:
        raise RooflineError("\n".join(dict.fromkeys(str(error) for error in compared.refused.values())))


def _why(row: Mapping[str, Any], reference: Mapping[str, Any], *, in_full: bool) -> list[str]:
    """Why a GPU is faster or slower, one line per pass; only the main reason unless in full.

    Of two GPUs of which one misses the SLO, which one is said.
    """
    reasons = {name: row[f"why_{name}"] for name in ("prefill", "decode") if row[f"why_{name}"] is not None}
    misses = ""
    if bool(passing([row])) != bool(passing([reference])):
        misses = " (it misses the SLO)" if passing([reference]) else f" ({reference['label']} misses the SLO)"
    return [
        f"{row['label']} {name} {reason if in_full else reason.partition(', ')[0]}{misses}"
        for name, reason in reasons.items()
    ]


def print_kernels(rows: Iterable[Mapping[str, Any]], keys: tuple[str, ...], title: str, output_format: str) -> None:
    """Print the contribution of every kernel, one table per pass; the title takes the values of the keys."""
    tables: dict[tuple[Any, ...], list[list[str]]] = {}
    for row in rows:
        cells = [cell_text(row[key]) for key in tuple(_KERNELS)[:-1]]
        tables.setdefault(tuple(row[key] for key in keys), []).append([*cells, f"{row['contribution']:+.3f}"])
    for values, table in tables.items():
        echo(f"\n{title.format(*values)}:\n")
        print_table(list(_KERNELS.values()), table, output_format)


def _refused(model: str, gpu: str, error: RooflineError, options: dict[str, Any], *, people: bool) -> dict[str, Any]:
    row = refused_row(model, gpu, error, **options)
    warnings = row.pop("warnings")
    if people:
        row["refusal"] = REASONS.get(type(error), "refused")
    return {**row, **dict.fromkeys(COMPARED_KEYS), "label": gpu, "warnings": warnings}
