"""Latencies and throughput along the load: the `curve` command."""

from __future__ import annotations

import shutil
from functools import partial
from typing import Any

import click

from roofline.api import curve as api
from roofline.cli.answers import PLAN_KEYS, asked_format, binding_text, case_text, deployed_text
from roofline.cli.case import case_options
from roofline.cli.columns import SLO_MET, TOK_S_GPU, TOK_S_USER, USD_TOKENS, percent_column, ranked
from roofline.cli.help import Question
from roofline.cli.options import most_per_gpu_option, output_options, required_share, share_option
from roofline.cli.render import echo, notes, show
from roofline.cli.screen import Screen, ScreenColumn
from roofline.cli.values import PathName
from roofline.quantity import rounded, rounded_down


def _columns(curves: int, against: str, *, with_slo: bool) -> list[ScreenColumn]:
    which = [ScreenColumn("GPU", "gpu"), ScreenColumn("tp", "tp", 2)] if curves > 1 else []
    users = ScreenColumn("users", "concurrency", 0 if against == "users" else 4)
    return [
        *which,
        *([users] if against == "users" else []),
        ScreenColumn("req/s", "request_rate", 0 if against == "rate" else 1),
        percent_column("util", "util"),
        ScreenColumn("TTFT p50 ms", "ttft_p50_ms"),
        ScreenColumn("p99", "ttft_p99_ms"),
        ScreenColumn("TPOT p50 ms", "tpot_p50_ms"),
        ScreenColumn("p99", "tpot_p99_ms"),
        TOK_S_USER,
        ranked(TOK_S_GPU, 1),
        ranked(USD_TOKENS, 2),
        *([SLO_MET] if with_slo else []),
    ]


_OWN = ("batch", "concurrency", "request_rate", "num_prompts", "allow_oversize", "measured", "tp")
_LOWEST = 14  # rows of a chart
_OTHER = 4  # terminal rows beside a chart


@click.command(
    cls=Question,
    epilog="\b\nExamples:\n"
    "  roofline curve -m llama-3.3-70b -q fp8 -g h100:tp4 --workload chat --plot\n"
    "  roofline curve -m llama-3.3-70b -q fp8 -g h100,b200 --against users -o c.svg",
)
@partial(case_options, without=_OWN, of_loads=True)
@click.option(
    "--against",
    type=click.Choice(("rate", "users")),
    default="rate",
    show_default=True,
    help="Load on the x axis: rate or users.",
)
@most_per_gpu_option
@share_option
@click.option("--plot", is_flag=True, help="Draw in the terminal instead of a table; needs the extra plot.")
@click.option("-o", "--output", type=PathName(), help="Also write the pictures to a file (SVG, PNG, PDF).")
@click.option("--force", is_flag=True, help="Overwrite the file.")
@output_options
def curve(
    models: tuple[str, ...],
    gpus: tuple[str, ...],
    options: dict[str, Any],
    output_format: str,
    *,
    against: str,
    share: float | None,
    plot: bool,
    output: str | None,
    force: bool,
) -> None:
    """TTFT, TPOT and throughput from an idle server to a full one: what a user gets against what a GPU gives."""
    if not gpus:
        raise click.UsageError("curve needs one GPU or several, e.g. -g h100,b200")
    share = required_share(options, share)
    curves = [api.curve(model, gpu, against=against, share=share, **options) for model in models for gpu in gpus]
    if output is not None:
        api.save_curves(curves, output, force=force)
    if plot:
        width, height = shutil.get_terminal_size()
        echo(api.curves_text(curves, width - 1, max(height - _OTHER, _LOWEST)))
        notes(text for curve in curves for text in _warnings(curve))
    else:
        _print(models, curves, options, output_format, against, share)
    if output is not None:
        echo(f"wrote {output}", err=True)


def _print(
    models: tuple[str, ...],
    curves: list[api.Curve],
    options: dict[str, Any],
    output_format: str,
    against: str,
    share: float | None,
) -> None:
    formats = asked_format(options)
    end = "" if len(curves) > 1 else _deployed(curves[0])
    screen = Screen(
        columns=_columns(len(curves), against, with_slo=bool(curves[0].slo)),
        rows=[row for curve in curves for row in curve.rows],
        case=case_text(models, options, formats, end, load=False, is_mean=True, share=share),
        answer="; ".join(_summary(curve, is_mean=share is None) for curve in curves),
        notes=[text for curve in curves for text in _warnings(curve)],
        is_curve=True,
    )
    show(screen, output_format)


def _summary(curve: api.Curve, *, is_mean: bool) -> str:
    """Saturation and goodput in words."""
    most = f"{rounded(curve.saturation)} requests/s at most"
    if curve.against != "request_rate":
        most = f"slots for {curve.saturation:.0f} users"
    gpus = _deployed(curve)
    binding = None if curve.goodput is None else binding_text(curve.goodput.binding, is_mean=is_mean)
    if curve.goodput is None:
        return f"{gpus}: {most}"
    if not curve.goodput.rate:
        return f"{gpus}: {most}, none within the SLO: {binding}"
    limit = f"limited by {binding}" if curve.goodput.is_known else binding
    rate, util = rounded_down(curve.goodput.rate), 100.0 * curve.goodput.util
    return f"{gpus}: {most}; within the SLO {rate} requests/s ({util:.0f} %), {limit}"


def _deployed(curve: api.Curve) -> str:
    return deployed_text(curve.prediction.to_dict(PLAN_KEYS))


def _warnings(curve: api.Curve) -> list[str]:
    return [text for text in curve.prediction.warnings if not text.startswith(("under load", "tp ="))]
