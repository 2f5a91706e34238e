"""One case in several number formats: what fits, how fast, and why."""

from __future__ import annotations

from functools import partial
from typing import Any

import click

from roofline.api.compare import FORMATS
from roofline.api.compare import quantize as quantize_model
from roofline.cli.compare import labelled, print_kernels, print_reasons
from roofline.cli.options import case_options, output_options
from roofline.cli.render import echo, notes, print_rows

__all__ = ["quantize"]

_COLUMNS = {
    "weight_dtype": "weights",
    "kv_dtype": "KV",
    "compute_dtype": "compute",
    "weights_gb": "GB",
    "kv_cache_gb": "KV GB",
    "hbm_used_frac": "used",
    "fits": "fits",
    "num_gpus_smallest": "GPUs from",
    "ttft_ms": "TTFT [ms]",
    "tpot_ms": "TPOT [ms]",
    "output_tok_s": "tok/s",
    "knee": "knee",
    "largest_batch": "max batch",
    "output_tok_s_largest_batch": "tok/s there",
    "prefill_speedup": "prefill x",
    "decode_speedup": "decode x",
}
#: Options of a case that are gone through here, or of no use.
_OWN = ("quantization", "weights", "kv_cache_dtype", "compute", "measured")
#: Beginnings of the notes of a row that its columns, or a note on all rows, say as well.
_SAID = ("--quantization ", "only the ", "does not fit: ")


@click.command(
    epilog="\b\nExamples:\n  roofline quantize -m llama-3.1-70b -g h100-sxm --isl 2000 --osl 300 --batch 16\n"
    "  roofline quantize -m gpt-oss-120b -g b200 --workload 8k1k --batch 64 --baseline mxfp4 --explain"
)
@partial(case_options, without=_OWN, one=True)
@output_options
@click.option(
    "--baseline",
    type=str,
    default=FORMATS[0],
    show_default=True,
    help=f"Weights that all are compared with, their KV cache at 16 bits: {', '.join(FORMATS)}.",
)
@click.option("--explain", is_flag=True, help="Show why for every row, and every kernel's part in the speed-up.")
def quantize(
    models: tuple[str, ...], gpus: tuple[str, ...], options: dict[str, Any], output_format: str, *, explain: bool
) -> None:
    """Number formats of weights and KV cache side by side: memory, latency, throughput, and why."""
    if len(models) != 1 or len(gpus) != 1:
        raise click.UsageError(f"quantize takes one model and one GPU; {len(models)} and {len(gpus)} given")
    if explain and output_format == "csv":
        raise click.UsageError("--explain has no CSV form; use --format json, markdown or table")
    found = quantize_model(models[0], gpus[0], **options)
    rows, kernels = found.to_records(), found.kernel_records()
    print_rows(rows, output_format, _COLUMNS, {"kernels": kernels, "notes": list(found.notes)})
    if output_format not in ("table", "markdown"):
        return
    labels = [f"{row['weight_dtype']}, KV {row['kv_dtype']}" for row in rows]
    wide = next(row["kv_dtype"] for row in rows if row["why_prefill"] == "the baseline")
    width = max(map(len, labels)) + 2
    echo(f"\nagainst {found.baseline} weights with a {wide} KV cache:")
    for label, row in zip(labels, rows, strict=True):
        is_shown = explain or row["kv_dtype"] == wide or row["quantization"] == found.baseline
        if is_shown and row["why_prefill"] != "the baseline":
            print_reasons(label.ljust(width), row)
    if explain:
        keys = ("quantization", "kv_dtype", "pass", "baseline")
        print_kernels(kernels, keys, "{0} weights, {1} KV cache, {2} against {3}", output_format)
    texts = labelled(
        (row["weight_dtype"], [text for text in row["warnings"] if not text.startswith(_SAID)]) for row in rows
    )
    notes([*found.notes, *texts])
