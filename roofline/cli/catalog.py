"""What the catalog holds: gpus and models, listed and shown with sources."""

from __future__ import annotations

import dataclasses
from typing import Any

import click

from roofline.catalog import reader
from roofline.catalog.records import Ffn, Mixer
from roofline.cli.options import GpuName, ModelName, output_options, specs_option
from roofline.cli.render import print_rows
from roofline.physics.efficiency import basis_of
from roofline.physics.parameters import active_parameters, parameters
from roofline.quantity import BILLION, GIGA, HOUR, TERA

__all__ = ["gpus", "models"]

_FIGURES = {"field": "field", "value": "value", "source": "source", "date": "date", "confidence": "confidence"}
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


@click.group(invoke_without_command=True, epilog="\b\nExamples:\n  roofline gpus\n  roofline gpus show h100-sxm")
@output_options
@specs_option
@click.pass_context
def gpus(ctx: click.Context, output_format: str, specs: str | None) -> None:
    """GPUs of the catalog: list them, or `show` one with the source of every figure."""
    ctx.default_map = {"show": {"output_format": output_format, "specs": specs}}
    if ctx.invoked_subcommand is None:
        rows = [_gpu_row(name, specs) for name in reader.gpu_names(specs)]
        print_rows(rows, output_format, _GPUS)


@gpus.command("show", epilog="\b\nExample:\n  roofline gpus show h100-sxm")
@click.argument("name", type=GpuName())
@output_options
@specs_option
def _show_gpu(name: str, output_format: str, specs: str | None) -> None:
    """Every figure of one GPU with unit, source and date."""
    reader.load_gpu(name, specs)
    _show(name, "gpu", output_format, specs)


@click.group(invoke_without_command=True, epilog="\b\nExamples:\n  roofline models\n  roofline models show deepseek-v3")
@output_options
@specs_option
@click.pass_context
def models(ctx: click.Context, output_format: str, specs: str | None) -> None:
    """Models of the catalog: list them, or `show` one with its layers and sources."""
    ctx.default_map = {"show": {"output_format": output_format, "specs": specs}}
    if ctx.invoked_subcommand is None:
        rows = [_model_row(name, specs) for name in reader.model_names(specs)]
        print_rows(rows, output_format, _MODELS)


@models.command("show", epilog="\b\nExample:\n  roofline models show deepseek-v3 --format json")
@click.argument("name", type=ModelName())
@output_options
@specs_option
def _show_model(name: str, output_format: str, specs: str | None) -> None:
    """Layers, formats and figures of one model with source and date."""
    model = reader.load_model(name, specs)
    if output_format in ("table", "markdown"):
        count = parameters(model)
        click.echo(f"{model.short_name} ({model.name}): {model.layers} layers, width {model.hidden}")
        click.echo(f"parameters {count.total:,.0f}, active {active_parameters(model):,.0f} (without input embedding)")
        for group in model.groups:
            for layer in group.layers:
                click.echo(f"  {group.repeat} x {_described(layer.mixer)} + {_described(layer.ffn)}")
        click.echo("formats: " + ", ".join(f"{section} {name}" for section, name in model.native.items()) + "\n")
    _show(name, "model", output_format, specs)


def _show(name: str, kind: str, output_format: str, specs: str | None) -> None:
    content = reader.document(name, kind, specs)
    rows: list[dict[str, Any]] = [figure._asdict() for figure in reader.figures(content)]
    print_rows(rows, output_format, _FIGURES)
    if output_format in ("table", "markdown"):
        click.echo("")
        for note in content.get("notes", ()):
            click.echo(f"- {note}")
        for source in reader.sources(content):
            click.echo(f"[{source.date}] {source.source} {source.url}")


def _gpu_row(name: str, specs: str | None) -> dict[str, Any]:
    gpu = reader.load_gpu(name, specs)
    figures = reader.figures(reader.document(name, "gpu", specs))
    rates = {f"{dtype}_tflop_s": _scaled(gpu.peaks.get(dtype), TERA) for dtype in ("bf16", "fp8", "int8", "fp4")}
    return {
        "gpu": gpu.name,
        "aliases": list(gpu.aliases),
        "vendor": gpu.vendor,
        "generation": gpu.generation,
        "status": gpu.status,
        **rates,
        "bandwidth_tb_s": gpu.bandwidth / TERA,
        "memory_gb": gpu.memory / GIGA,
        "link": gpu.link.kind,
        "link_gb_s": gpu.link.bandwidth / GIGA,
        "domain": gpu.link.domain,
        "power_w": gpu.power,
        "usd_per_hour": None if gpu.price is None else gpu.price.typical * HOUR,
        "price_date": next((figure.date for figure in figures if figure.field == "price"), None),
        "basis": basis_of(gpu, "calibrated"),
    }


def _model_row(name: str, specs: str | None) -> dict[str, Any]:
    model = reader.load_model(name, specs)
    return {
        "model": model.short_name,
        "model_id": model.name,
        "aliases": list(model.aliases),
        "family": model.family,
        "layers": model.layers,
        "parameters_b": parameters(model).total / BILLION,
        "active_b": active_parameters(model) / BILLION,
        "stated_parameters_b": _scaled(model.stated_total, BILLION),
        "stated_active_b": _scaled(model.stated_active, BILLION),
        "weight_dtype": model.native["experts" if model.is_moe else "linear"],
        "max_context": model.max_context,
    }


def _described(part: Mixer | Ffn) -> str:
    """A mixer or an ffn by the fields that it has."""
    fields = {field.name: getattr(part, field.name) for field in dataclasses.fields(part)}
    stated = [name if value is True else f"{name} {value}" for name, value in fields.items() if value]
    return f"{type(part).__name__.removesuffix('Ffn').lower()} ({', '.join(stated)})"


def _scaled(value: float | None, unit: float) -> float | None:
    return None if value is None else value / unit
