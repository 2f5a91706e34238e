"""What the catalog holds: gpus, models and workloads, listed, chosen by kind, shown with sources, and checked."""

from __future__ import annotations

from typing import Any

import click

from roofline.api import catalog, listing
from roofline.api.catalog import spec_report
from roofline.cli.options import output_options, specs_option
from roofline.cli.render import echo, notes, print_rows
from roofline.cli.values import GpuName, ModelName, Size

__all__ = ["check_specs", "gpus", "models", "workloads"]

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
_WORKLOADS = {
    "workload": "workload",
    "isl": "isl",
    "isl_cv": "cv",
    "osl": "osl",
    "osl_cv": "cv",
    "prefix": "prefix",
    "arrivals": "arrivals",
    "slo": "SLO",
    "dominates": "dominates",
    "ttft_share": "TTFT/E2EL",
    "tightest": "tightest",
    "date": "date of source",
}
_SHORT = ("workload", "isl", "osl", "slo", "dominates", "ttft_share", "tightest")
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


@click.command(
    epilog="\b\nExamples:\n  roofline workloads\n  roofline workloads chat rag -m gpt-oss-120b -g b200\n"
    "  roofline workloads ./mine.yaml --format json",
)
@click.argument("names", nargs=-1)
@click.option(
    "-m", "--model", type=ModelName(), help="On which latencies are told apart.  [default: llama-3.3-70b fp8]"
)
@click.option("-g", "--gpu", type=GpuName(), help="Likewise.  [default: h100-sxm]")
@output_options
@specs_option
def workloads(
    names: tuple[str, ...], model: str | None, gpu: str | None, output_format: str, specs: str | None
) -> None:
    """Workloads by name: lengths, SLO, source, and the latency that dominates each and why (--workload NAME)."""
    from roofline.api.workloads import workload_rows

    rows = workload_rows(model, gpu, names or None, specs)
    print_rows(rows, output_format, _WORKLOADS if names else {key: _WORKLOADS[key] for key in _SHORT})
    if output_format in ("table", "markdown"):
        if not names:
            notes(["roofline workloads NAME says why, and where its figures come from"])
            return
        said = [f"{row['workload']}: {row['why']}; {row['source']}, {row['date']}, {row['url']}" for row in rows]
        notes([*said, *(f"{row['workload']}: {text}" for row in rows for text in row["notes"])])


@models.command(
    "import",
    epilog="\b\nExamples:\n  roofline models import ./my-model/config.json"
    "\n  roofline models import Qwen/Qwen3-8B -o qwen3-8b.yaml",
)
@click.argument("config")
@click.option("-o", "--output", metavar="FILE", help="Write to this file instead of printing; - prints.")
@click.option("--name", metavar="ID", help="Name of the model, best its Hugging Face id.")
@click.option("--force", is_flag=True, help="Overwrite the file if it exists.")
def _import_model(config: str, output: str | None, name: str | None, force: bool) -> None:
    """Specification of the model that CONFIG describes.

    CONFIG is a config.json, a folder that holds one, or a Hugging Face id.
    """
    from roofline.api.imports import imported_model
    from roofline.api.writing import write_whole

    text, cautions = imported_model(config, name)
    notes(cautions)
    if output is None or output == "-":
        echo(text, nl=False)
        return
    write_whole(output, lambda beside: beside.write_text(text, encoding="utf-8"), force=force)
    echo(f"{output}: written", err=True)


@click.command(
    "check-specs",
    epilog="\b\nExample:\n  roofline check-specs",
)
@click.argument("path", required=False)
@click.pass_context
def check_specs(ctx: click.Context, path: str | None) -> None:
    """Check a folder or a file of specifications; the shipped catalogs where none is given.

    Prints every fault as file:line: field: fault and ends with exit code 1, or says that all is well.
    """
    report = spec_report(path)
    counted = [f"{number} {kind}{'' if number == 1 else 's'}" for kind, number in report.counts.items() if number]
    what = ", ".join(counted) or "no readable file"
    for fault in report.faults:
        echo(fault)
    if report.faults:
        echo(f"{len(report.faults)} fault{'' if len(report.faults) == 1 else 's'} in {what}", err=True)
        ctx.exit(1)
    echo(f"{what}: no faults")


def _refuse_filters(ctx: click.Context, *given: Any) -> None:
    if any(value is not None for value in given):
        raise click.UsageError(f"options that choose among many do not go with {ctx.invoked_subcommand!r}", ctx)


def _print(rows: list[dict[str, Any]], output_format: str, columns: dict[str, str]) -> None:
    print_rows(rows, output_format, columns)
    if not rows:
        notes([_NONE_LEFT])
