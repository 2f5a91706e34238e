"""Latencies and throughput along the load: the `curve` command."""

from __future__ import annotations

import shutil
from functools import partial
from typing import Any

import click

from roofline.api import curve as api
from roofline.api.goodput import DEFAULT_SHARE
from roofline.cli.options import case_options, output_options
from roofline.cli.render import echo, notes, print_rows
from roofline.cli.values import PathName, ShareOfRequests

__all__ = ["curve"]

_COLUMNS = {
    "gpu": "GPU",
    "tp": "tp",
    "concurrency": "users",
    "request_rate": "req/s",
    "util": "util",
    "ttft_p50_ms": "TTFT p50",
    "ttft_p99_ms": "p99 [ms]",
    "tpot_p50_ms": "TPOT p50",
    "tpot_p99_ms": "p99 [ms]",
    "tok_s_user": "tok/s/user",
    "output_tok_s_gpu": "tok/s/GPU",
    "usd_per_m_output_tok": "USD/M tok",
    "slo_met": "SLO",
}
_OWN = ("batch", "concurrency", "request_rate", "num_prompts", "allow_oversize", "measured")
_LOWEST = 14  # rows of a picture
_OTHER = 4  # rows of a terminal that a picture leaves


@click.command(
    epilog="\b\nExamples:\n"
    "  roofline curve -m llama-3.3-70b -q fp8 -g h100 --tp 4 --workload chat --plot\n"
    "  roofline curve -m llama-3.3-70b -q fp8 -g h100 -g b200 --isl 4096 --osl 500 --against users -o curve.svg"
)
@partial(case_options, without=_OWN, of_loads=True)
@click.option(
    "--against", type=click.Choice(("rate", "users")), default="rate", show_default=True, help="Load along the curve."
)
@click.option("--share", type=ShareOfRequests(), help="Share of the requests that a goodput needs.  [default: 90%]")
@click.option("--plot", is_flag=True, help="Draw in the terminal instead of a table; needs the extra plot.")
@click.option("-o", "--output", type=PathName(), help="Write the pictures to a file (SVG, PNG, PDF), too.")
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
        raise click.UsageError("a curve is of one GPU or of some to compare: name them, e.g. -g h100 -g b200")
    own = options.pop("share", None)  # of a named workload
    wanted = share or own or DEFAULT_SHARE
    curves = [api.curve(model, gpu, against=against, share=wanted, **options) for model in models for gpu in gpus]
    if output is not None:
        api.save_curves(curves, output, force=force)
    if plot:
        width, height = shutil.get_terminal_size()
        echo(api.curves_text(curves, width - 1, max(height - _OTHER, _LOWEST)))
    else:
        _print(curves, output_format, against)
    notes([text for one in curves for text in _said(one)] + ([f"wrote {output}"] if output else []))


def _print(curves: list[api.Curve], output_format: str, against: str) -> None:
    """Points as a table."""
    rows = [row for one in curves for row in one.rows]
    columns = {key: heading for key, heading in _COLUMNS.items() if key != "slo_met" or curves[0].slo}
    if len(curves) == 1:
        columns = {key: heading for key, heading in columns.items() if key not in ("gpu", "tp")}
    if against == "rate":
        columns = {key: heading for key, heading in columns.items() if key != "concurrency"}
    print_rows(rows, output_format, columns)


def _said(one: api.Curve) -> list[str]:
    """Where a curve ends, its goodput, and what a reader should know."""
    end = f"answers at most {one.saturation:.3g} requests/s"
    if one.against != "request_rate":
        end = f"has slots for {one.saturation:.0f} users"
    said = [f"{one.title}: {end}"]
    if one.goodput is not None:
        rate, util = one.goodput.rate, one.goodput.util
        what = (
            f"goodput {rate:.3g} requests/s ({100.0 * util:.0f} % of the saturation), where {one.goodput.binding} binds"
        )
        said.append(f"{one.title}: {what if rate else 'no request meets the SLO: ' + one.goodput.binding}")
    return [*said, *(text for text in one.prediction.warnings if not text.startswith(("under load", "tp =")))]
