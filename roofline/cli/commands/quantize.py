"""One case in several number formats: what fits, how fast, and why."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import click

from roofline.api.compare import FORMATS
from roofline.api.compare import quantize as quantize_model
from roofline.cli.answers import case_text, deployed_text
from roofline.cli.case import case_options
from roofline.cli.columns import latency, load_columns, percent, speedup_column, verdict_columns
from roofline.cli.commands.compare import print_kernels
from roofline.cli.help import Question
from roofline.cli.options import FOR_PEOPLE, output_options
from roofline.cli.render import labelled, show
from roofline.cli.screen import MARK, Row, Screen, ScreenColumn
from roofline.cli.values import suggested


def _columns(options: Mapping[str, Any]) -> list[ScreenColumn]:
    is_loaded = bool(load_columns(options))  # latencies then include the queue, speed-ups do not
    return [
        MARK,
        ScreenColumn("weights", "weight_dtype"),
        ScreenColumn("KV", "kv_cache_dtype", 1),
        ScreenColumn("compute", "compute_dtype", 4),
        *latency("ttft", options, 0, with_range=False),
        speedup_column("prefill pass" if is_loaded else "prefill", "prefill_speedup"),
        *latency("tpot", options, 0, with_range=False),
        speedup_column("decode step" if is_loaded else "decode", "decode_speedup"),
        *verdict_columns(options),
        ScreenColumn("GB", "weights_gb", 1),
        ScreenColumn("HBM", "hbm_used_frac", 1, cell=_used, also=("hbm_used_frac", "fits")),
        ScreenColumn("GPUs from", "num_gpus_smallest", 2),
        ScreenColumn("max batch", "largest_batch", 2),
        ScreenColumn("tok/s", "output_tok_s", 3),
        ScreenColumn("tok/s at max", "output_tok_s_largest_batch", 4),
        ScreenColumn("KV GB", "kv_cache_gb", 5),
        ScreenColumn("knee", "knee", 1),
        ScreenColumn("kernels", "assumed", 0, cell=_evidence),
    ]


def _used(row: Row) -> str:
    used = percent("hbm_used_frac")(row)
    return str(used) if row["fits"] else f"{used} too much"


def _evidence(row: Row) -> str:
    """Kernels with assumed constants where the others are timed; without any the mark of the row says it all."""
    return "assumed" if row["assumed"] else "-"


#: Options of a case that this command varies itself or has no use for.
_OWN = ("quantization", "weights", "kv_cache_dtype", "compute", "measured")
_HOW = "why: --explain"
#: Beginnings of notes that repeat a column or a note on all rows.
_REPEATED = ("--quantization ", "only the ", "does not fit: ")


@click.command(
    cls=Question,
    epilog="\b\nExamples:\n"
    "  roofline quantize -m llama-3.1-70b -g h100 --isl 2k --osl 300 --batch 16\n"
    "  roofline quantize -m gpt-oss-120b -g b200 --baseline mxfp4 --explain",
)
@partial(case_options, without=_OWN, single=True)
@output_options
@click.option(
    "--baseline",
    type=suggested("format", lambda: FORMATS),
    default=FORMATS[0],
    show_default=True,
    help=f"Reference weight format, with a 16-bit KV cache: {', '.join(FORMATS)}.",
)
@click.option("--explain", is_flag=True, help="Show why for every row, and every kernel's part in the speed-up.")
def quantize(
    models: tuple[str, ...], gpus: tuple[str, ...], options: dict[str, Any], output_format: str, *, explain: bool
) -> None:
    """Number formats of weights and KV cache side by side: memory, latency, throughput, and why."""
    if len(models) != 1 or len(gpus) != 1:
        raise click.UsageError(f"quantize takes one model and one GPU, got {len(models)} and {len(gpus)}")
    if explain and output_format == "csv":
        raise click.UsageError("--explain has no CSV form; use --format json, markdown or table")
    comparison = quantize_model(models[0], gpus[0], **options)
    rows: Sequence[Mapping[str, Any]] = comparison.to_records()
    kernels = comparison.kernel_records()
    base_kv = next(row["kv_cache_dtype"] for row in rows if row["why_prefill"] == "the baseline")
    shown = [
        row for row in rows if explain or row["kv_cache_dtype"] == base_kv or row["quantization"] == comparison.baseline
    ]
    reasons = [
        f"{row['weight_dtype']}, KV {row['kv_cache_dtype']}, {name} {row[f'why_{name}']}"
        for row in shown
        for name in ("prefill", "decode")
        if row["why_prefill"] != "the baseline" and row[f"why_{name}"] is not None
    ]
    texts = labelled(
        ((row["weight_dtype"], [text for text in row["warnings"] if not text.startswith(_REPEATED)]) for row in rows),
        named=False,
    )
    baseline = f"{deployed_text(rows[0])} \u00b7 against {comparison.baseline}, KV {base_kv}"
    screen = Screen(
        columns=_columns(options),
        rows=[row for row in rows if row["kv_cache_dtype"] == base_kv],
        others=[row for row in rows if row["kv_cache_dtype"] != base_kv],
        rule="KV cache in fp8",
        case=case_text([rows[0]["model"]], options, end=baseline),
        lines=reasons if explain or output_format == "markdown" else [_HOW],
        notes=[*comparison.notes, *texts],
    )
    show(screen, output_format, rows, {"kernels": kernels, "notes": list(comparison.notes)})
    if explain and output_format in FOR_PEOPLE:
        keys = ("quantization", "kv_cache_dtype", "pass", "baseline")
        print_kernels(kernels, keys, "{0} weights, {1} KV cache, {2} against {3}", output_format)
