"""One case on several GPUs side by side, and why one is faster than another."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import partial
from typing import Any

import click

from roofline.api.compare import COMPARED_KEYS
from roofline.api.compare import compare as compare_gpus
from roofline.api.predict import refused_row
from roofline.cli.options import case_options, output_options
from roofline.cli.render import REASONS, digits, echo, load_columns, notes, print_rows, print_table
from roofline.errors import RooflineError

__all__ = ["compare", "labelled", "print_kernels", "print_reasons"]

_COLUMNS = {
    "gpu": "GPU",
    "num_gpus": "GPUs",
    "ttft_ms": "TTFT [ms]",
    "tpot_ms": "TPOT [ms]",
    "e2el_ms": "E2EL [ms]",
    "tok_s_user": "tok/s/user",
    "output_tok_s_gpu": "tok/s/GPU",
    "hbm_used_frac": "HBM used",
    "knee": "knee",
    "usd_per_hour": "USD/h",
    "prefill_speedup": "prefill x",
    "decode_speedup": "decode x",
    "decode_bound": "bound",
    "basis_detail": "basis",
}
_KERNELS = {
    "kernel": "kernel",
    "bound": "bound",
    "cause": "cause",
    "reference_us": "reference [us]",
    "total_us": "here [us]",
    "gain_us": "gained [us]",
    "contribution": "of the speed-up",
}


@click.command(
    epilog="\b\nExamples:\n  roofline compare -m llama-3.1-70b -g h100-sxm -g b200 --isl 2000 --osl 300 --batch 16\n"
    "  roofline compare -m deepseek-r1 -g b200 -g b300 -g mi300x --workload 8k1k --batch 64 --explain"
)
@partial(case_options, without=("measured",))
@output_options
@click.option("--explain", is_flag=True, help="Show every kernel's part in the difference.")
def compare(
    models: tuple[str, ...], gpus: tuple[str, ...], options: dict[str, Any], output_format: str, *, explain: bool
) -> None:
    """Two GPUs or more side by side: how many times faster than the first, and why."""
    if len(models) != 1:
        raise click.UsageError(f"compare takes one model, {len(models)} given; compare several GPUs with it")
    if len(gpus) < 2:
        raise click.UsageError(f"compare takes two GPUs or more, {len(gpus)} given; repeat --gpu, the reference first")
    if explain and output_format == "csv":
        raise click.UsageError("--explain has no CSV form; use --format json, markdown or table")
    found = compare_gpus(models[0], gpus, **options)
    people = output_format in ("table", "markdown")
    rows, kernels = found.to_records(), found.kernel_records()
    refusals = [_refused(models[0], name, error, options, people=people) for name, error in found.refused.items()]
    print_rows(
        [*rows, *refusals],
        output_format,
        load_columns(_COLUMNS, options),
        {"kernels": kernels, "notes": list(found.notes)},
    )
    if people:
        for row in rows:
            if row["gpu"] != row["reference"]:
                echo(f"\n{row['gpu']} against {row['reference']}:")
                print_reasons("", row)
        if explain:
            print_kernels(kernels, ("gpu", "reference", "pass"), "{0}, {2} against {1}", output_format)
        notes([*found.notes, *labelled((row["gpu"], row["warnings"]) for row in rows)])
    if found.refused:
        raise RooflineError("\n".join(dict.fromkeys(str(error) for error in found.refused.values())))


def print_reasons(label: str, row: Mapping[str, Any]) -> None:
    """Print why a row is faster or slower, a line a pass.

    Args:
        label: what the row is called [text].
        row: with `why_prefill` and `why_decode`.
    """
    for name in ("prefill", "decode"):
        if row[f"why_{name}"] is not None:
            echo(f"  {label}{name:<7} {row[f'why_{name}']}")
            label = " " * len(label)


def print_kernels(rows: Iterable[Mapping[str, Any]], keys: tuple[str, ...], title: str, output_format: str) -> None:
    """Print what every kernel contributes, a table a pass.

    Args:
        rows: kernels of several passes, those of one together.
        keys: that tell passes apart [text].
        title: of a table, with places for the values of the keys [text].
        output_format: table or markdown [text].
    """
    tables: dict[tuple[Any, ...], list[list[str]]] = {}
    for row in rows:
        cells = [digits(row[key]) for key in tuple(_KERNELS)[:-1]]
        tables.setdefault(tuple(row[key] for key in keys), []).append([*cells, f"{row['contribution']:+.3f}"])
    for values, table in tables.items():
        echo(f"\n{title.format(*values)}:\n")
        print_table(list(_KERNELS.values()), table, output_format)


def labelled(warnings: Iterable[tuple[str, Iterable[str]]]) -> list[str]:
    """Notes of several rows: those of all as they are, others with the rows they belong to.

    Args:
        warnings: label and notes of each row [text].

    Returns:
        Each note once [text].
    """
    owners: dict[str, dict[str, None]] = {}
    labels: dict[str, None] = {}
    for label, texts in warnings:
        labels[label] = None
        for text in texts:
            owners.setdefault(text, {})[label] = None
    return [text if len(found) == len(labels) else f"{', '.join(found)}: {text}" for text, found in owners.items()]


def _refused(model: str, gpu: str, error: RooflineError, options: dict[str, Any], *, people: bool) -> dict[str, Any]:
    """Row of a GPU that cannot run the case."""
    row = refused_row(model, gpu, error, **options)
    warnings = row.pop("warnings")
    if people:
        row["decode_bound"] = REASONS.get(type(error), "refused")
    return {**row, **dict.fromkeys(COMPARED_KEYS), "warnings": warnings}
