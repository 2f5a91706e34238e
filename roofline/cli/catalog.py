"""What the catalog holds: gpus and models, listed, chosen by kind, and shown with sources."""

from __future__ import annotations

from typing import Any

import click

from roofline.api import catalog, listing
from roofline.cli.import_model import import_model
from roofline.cli.options import output_options, specs_option
from roofline.cli.render import notes, print_rows
from roofline.cli.values import GpuName, ModelName, Size

__all__ = ["gpus", "models"]

_GPUS = {
    "gpu": "GPU",
    "generation": "generation",
    "bf16_tflop_s": "bf16 [TFLOP/s]",
    "fp8_tflop_s": "fp8 [TFLOP/s]",
    "fp4_tflop_s": "fp4 [TFLOP/s]",
    "bandwidth_tb_s": "HBM [TB/s]",
    "memory_gb": "usable [GB]",
    "link_gb_s": "link [GB/s]",
    "domain": "domain",
    "usd_per_hour": "USD/h",
    "status": "status",
    "basis": "basis",
}
_MODELS = {
    "model": "model",
    "model_id": "Hugging Face id",
    "layers": "layers",
    "parameters_b": "parameters [B]",
    "active_b": "active [B]",
    "weight_dtype": "weights",
    "max_context": "max context",
}
_NONE_LEFT = "nothing in the catalog is all of that"


@click.group(
    invoke_without_command=True,
    epilog="\b\nExamples:\n  roofline gpus\n  roofline gpus --vendor amd --status shipping\n"
    "  roofline gpus --generation blackwell\n  roofline gpus show h100-sxm",
)
@click.option("--vendor", help="Those of a vendor, e.g. amd.")
@click.option("--generation", help="Those of a generation; blackwell takes in blackwell-ultra.")
@click.option("--status", help="Those of a status: shipping, announced, pre-release or end-of-life.")
@output_options
@specs_option
@click.pass_context
def gpus(
    ctx: click.Context,
    vendor: str | None,
    generation: str | None,
    status: str | None,
    output_format: str,
    specs: str | None,
) -> None:
    """GPUs of the catalog: list them, or `show` one with the source of every figure."""
    ctx.default_map = {"show": {"output_format": output_format, "specs": specs}}
    if ctx.invoked_subcommand is not None:
        _refuse_filters(ctx, vendor, generation, status)
        return
    _print(listing.gpu_rows(specs, vendor, generation, status), output_format, _GPUS)


@gpus.command("show", epilog="\b\nExample:\n  roofline gpus show h100-sxm")
@click.argument("name", type=GpuName())
@output_options
@specs_option
def _show_gpu(name: str, output_format: str, specs: str | None) -> None:
    """Every figure of one GPU with unit, source and date."""
    from roofline.cli import show

    gpu, note = catalog.find_gpu(name, specs)
    if show.is_for_people(output_format):
        show.describe_gpu(gpu)
    show.print_document(listing.document(name, "gpu", specs), output_format)
    notes([note] if note else [])


@click.group(
    invoke_without_command=True,
    epilog="\b\nExamples:\n  roofline models\n  roofline models --family qwen --moe\n"
    "  roofline models --min-size 7B --max-size 80B --dense\n  roofline models show deepseek-v3",
)
@click.option("--family", help="Those of a family, e.g. qwen.")
@click.option("--min-size", type=Size(), help="Those of at least so many parameters, e.g. 7B.")
@click.option("--max-size", type=Size(), help="Those of at most so many parameters, e.g. 80B.")
@click.option("--moe/--dense", default=None, help="Mixtures of experts alone, or dense models alone.")
@output_options
@specs_option
@click.pass_context
def models(
    ctx: click.Context,
    family: str | None,
    min_size: float | None,
    max_size: float | None,
    output_format: str,
    specs: str | None,
    *,
    moe: bool | None,
) -> None:
    """Models of the catalog: list them, or `show` one with its layers and sources."""
    ctx.default_map = {"show": {"output_format": output_format, "specs": specs}}
    if ctx.invoked_subcommand is not None:
        _refuse_filters(ctx, family, min_size, max_size, moe)
        return
    _print(listing.model_rows(specs, family, min_size, max_size, moe=moe), output_format, _MODELS)


@models.command("show", epilog="\b\nExample:\n  roofline models show deepseek-v3 --format json")
@click.argument("name", type=ModelName())
@output_options
@specs_option
def _show_model(name: str, output_format: str, specs: str | None) -> None:
    """Layers, counts, formats and figures of one model with source and date."""
    from roofline.cli import show

    model, note = catalog.find_model(name, specs)
    if show.is_for_people(output_format):
        show.describe_model(model)
    show.print_document(listing.document(name, "model", specs), output_format, {"counted": listing.model_counts(model)})
    notes([note] if note else [])


models.add_command(import_model)


def _refuse_filters(ctx: click.Context, *given: Any) -> None:
    if any(value is not None for value in given):
        raise click.UsageError(f"options that choose among many do not go with {ctx.invoked_subcommand!r}", ctx)


def _print(rows: list[dict[str, Any]], output_format: str, columns: dict[str, str]) -> None:
    print_rows(rows, output_format, columns)
    if not rows:
        notes([_NONE_LEFT])
