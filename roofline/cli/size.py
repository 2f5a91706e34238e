"""How many GPUs a model needs to meet limits on latency."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

import click

from roofline.api import size as fleet
from roofline.api.goodput import limits_text
from roofline.api.inputs.case import PRESETS
from roofline.cli.compare import labelled
from roofline.cli.options import case_options, output_options
from roofline.cli.render import load_columns, notes, print_rows
from roofline.cli.values import Count
from roofline.errors import RooflineError

__all__ = ["size"]

_COLUMNS = {
    "model": "model",
    "gpu": "GPU",
    "num_gpus": "GPUs",
    "tp": "tp",
    "pp": "pp",
    "ep": "ep",
    "dp": "dp",
    "weight_dtype": "weights",
    "batch": "batch",
    "ttft_ms": "TTFT [ms]",
    "tpot_ms": "TPOT [ms]",
    "e2el_ms": "E2EL [ms]",
    "hbm_used_frac": "HBM used",
    "usd_per_hour": "USD/h",
    "usd_per_m_output_tok": "USD/M tok",
    "meets_high": "surely",
    "reason": "reason",
}
#: Columns that are left out where they say nothing: degrees of 1 everywhere, no reason at all.
_AS_NEEDED = {"pp": 1, "ep": 1, "dp": 1, "reason": None}
#: Options of a case in a form of their own here, or of no use.
_OWN = ("tp", "ep", "dp", "num_gpus", "quantization", "measured", "allow_oversize")


@click.command(
    epilog="\b\nExamples:\n"
    "  roofline size -m llama-3.1-70b -q fp8 --slo ttft:300,tpot:25 --isl 2000 --osl 300 --concurrency 64\n"
    "  roofline size -m deepseek-r1 -g h200 -g b200 --slo tpot:25 --workload 8k1k --batch 64\n"
    "  roofline size -m llama-3.1-70b -g h100-sxm --slo ttft:300 --isl 2000 -q bf16 -q fp8"
)
@partial(case_options, without=_OWN)
@click.option(
    "--tp", "-tp", "--tensor-parallel-size", type=Count(), help="Tensor-parallel degree.  [default: searched]"
)
@click.option("--ep", "--expert-parallel-size", type=Count(), help="Expert-parallel degree.  [default: searched]")
@click.option(
    "--dp",
    "-dp",
    "--data-parallel-size",
    type=Count(),
    help="Data-parallel degree of the attention.  [default: searched for mixtures of experts]",
)
@click.option(
    "-q",
    "--quantization",
    type=str,
    multiple=True,
    help=f"Preset of number formats: {', '.join(PRESETS)}. Repeatable: the one with the fewest GPUs is taken.",
)
@output_options
def size(models: tuple[str, ...], gpus: tuple[str, ...], options: dict[str, Any], output_format: str) -> None:
    """The fewest GPUs of every kind that meet an SLO, cheapest first: for users, a request rate, or a burst."""
    people = output_format in ("table", "markdown")
    slo = options.pop("slo", None)
    if not slo:
        raise click.UsageError("size needs limits to meet, in ms: --slo ttft:300,tpot:25")
    columns = load_columns(_COLUMNS, options)
    answers = [fleet.size(model, gpus or None, slo=slo, **options) for model in models]
    rows = [row for answer in answers for row in answer.to_records((*columns, "warnings") if people else None)]
    said = [text for answer in answers for text in answer.notes]
    needed = {key: heading for key, heading in columns.items() if _is_needed(key, rows)}
    print_rows(rows, output_format, needed, {"notes": said})
    if people:
        shown = [found for answer in answers for found in answer.sizes if found.meets or gpus]
        owners = labelled((_label(found, len(models)), found.warnings) for found in shown)
        notes([*said, *owners])
    missed = [model for model, answer in zip(models, answers, strict=True) if answer.cheapest is None]
    if missed:
        raise RooflineError(_none_meets(missed, gpus, slo))


def _label(found: fleet.GpuSize, models: int) -> str:
    """What the notes of a row are headed with."""
    return found.gpu.name if models == 1 else f"{found.model.short_name} on {found.gpu.name}"


def _none_meets(models: list[str], gpus: tuple[str, ...], slo: Mapping[str, float]) -> str:
    """That no GPU meets the SLO, and what to do."""
    limits = limits_text(slo)
    where = ", ".join(gpus) if gpus else "any GPU of the catalog"
    return (
        f"{', '.join(models)}: no plan on {where} meets --slo {limits}, each row says why; "
        "loosen it, lower the load, or allow other GPUs (-g) or number formats (-q)"
    )


def _is_needed(key: str, rows: list[dict[str, Any]]) -> bool:
    """Whether a column says anything."""
    return key not in _AS_NEEDED or any(row[key] not in (None, _AS_NEEDED[key]) for row in rows)
