"""Latencies and throughput along the load: the `curve` command."""

from __future__ import annotations

import shutil
from functools import partial
from typing import Any

import click

from roofline.api import curve as api
from roofline.api.goodput import DEFAULT_SHARE
from roofline.cli.answers import asked_format, binding_text, case_text, gpus_text
from roofline.cli.case import case_options
from roofline.cli.columns import SLO_MET, TOK_S_GPU, TOK_S_USER, USD_TOKENS, percent, ranked
from roofline.cli.help import Question
from roofline.cli.options import output_options
from roofline.cli.render import echo, notes, show
from roofline.cli.screen import Screen, ScreenColumn
from roofline.cli.values import PathName, ShareOfRequests
from roofline.quantity import rounded, rounded_down

__all__ = ["curve"]


def _columns(curves: int, against: str, *, with_slo: bool) -> list[ScreenColumn]:
    which = [ScreenColumn("GPU", "gpu"), ScreenColumn("tp", "tp", 2)] if curves > 1 else []
    users = ScreenColumn("users", "concurrency", 0 if against == "users" else 4)
    return [
        *which,
        *([users] if against == "users" else []),
        ScreenColumn("req/s", "request_rate", 0 if against == "rate" else 1),
        ScreenColumn("util", "util", cell=percent("util"), also=("util",)),
        ScreenColumn("TTFT p50 ms", "ttft_p50_ms"),
        ScreenColumn("p99", "ttft_p99_ms"),
        ScreenColumn("TPOT p50 ms", "tpot_p50_ms"),
        ScreenColumn("p99", "tpot_p99_ms"),
        TOK_S_USER,
        ranked(TOK_S_GPU, 1),
        ranked(USD_TOKENS, 2),
        *([SLO_MET] if with_slo else []),
    ]


_OWN = ("batch", "concurrency", "request_rate", "num_prompts", "allow_oversize", "measured")
_LOWEST = 14  # rows of a picture
_OTHER = 4  # rows of a terminal that a picture leaves


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
@click.option("--share", type=ShareOfRequests(), help="Share of requests that must meet the SLO.  [default: 90%]")
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
    own = options.pop("share", None)  # of a named workload
    wanted = share or own or DEFAULT_SHARE
    curves = [api.curve(model, gpu, against=against, share=wanted, **options) for model in models for gpu in gpus]
    if output is not None:
        api.save_curves(curves, output, force=force)
    if plot:
        width, height = shutil.get_terminal_size()
        echo(api.curves_text(curves, width - 1, max(height - _OTHER, _LOWEST)))
    else:
        _print(models, curves, options, output_format, against)
    if plot:
        notes(text for one in curves for text in _warnings(one))
    if output is not None:
        echo(f"wrote {output}", err=True)


def _print(
    models: tuple[str, ...], curves: list[api.Curve], options: dict[str, Any], output_format: str, against: str
) -> None:
    """Points as a table, below where each curve ends."""
    names = {"concurrency": None, "request_rate": None}
    formats = asked_format(options)
    end = "" if len(curves) > 1 else gpus_text(curves[0].rows[0])
    screen = Screen(
        columns=_columns(len(curves), against, with_slo=bool(curves[0].slo)),
        rows=[row for one in curves for row in one.rows],
        case=case_text(models, {**options, **names}, formats, end, load=False),
        answer="; ".join(_end(one) for one in curves),
        notes=[text for one in curves for text in _warnings(one)],
        is_curve=True,
    )
    show(screen, output_format)


def _end(one: api.Curve) -> str:
    """Where a curve ends, and its goodput."""
    most = f"{rounded(one.saturation)} requests/s at most"
    if one.against != "request_rate":
        most = f"slots for {one.saturation:.0f} users"
    gpus = gpus_text(one.rows[0])
    if one.goodput is None:
        return f"{gpus}: {most}"
    if not one.goodput.rate:
        return f"{gpus}: {most}, none within the SLO: {binding_text(one.goodput.binding)}"
    rate, util = rounded_down(one.goodput.rate), 100.0 * one.goodput.util
    limit = binding_text(one.goodput.binding)
    return f"{gpus}: {most}; within the SLO {rate} requests/s ({util:.0f} %), limited by {limit}"


def _warnings(one: api.Curve) -> list[str]:
    return [text for text in one.prediction.warnings if not text.startswith(("under load", "tp ="))]
