"""How many requests GPUs answer within an SLO: the `goodput` command."""

from __future__ import annotations

from functools import partial
from typing import Any

import click

from roofline.api import goodput as api
from roofline.cli.compare import labelled
from roofline.cli.options import case_options, output_options
from roofline.cli.render import notes, print_rows
from roofline.cli.values import Count, ShareOfRequests
from roofline.errors import RooflineError
from roofline.quantity import rounded_down

__all__ = ["goodput"]

_COLUMNS = {
    "gpu": "GPU",
    "num_gpus": "GPUs",
    "tp": "tp",
    "goodput": "req/s",
    "goodput_gpu": "req/s/GPU",
    "goodput_util": "util",
    "said": "binds",
    "ttft_p99_ms": "TTFT p99 [ms]",
    "tpot_p99_ms": "TPOT p99 [ms]",
    "output_tok_s_gpu": "tok/s/GPU",
    "usd_per_m_output_tok": "USD/M tok",
    "reason": "reason",
}
_HEADROOM = (
    "util is the share of the saturation that the goodput takes; the rest is warm headroom that keeps the tails short"
)
_MODEL = {"model": "model"}
_OWN = ("batch", "concurrency", "request_rate", "num_prompts", "allow_oversize", "tp")


@click.command(
    epilog="\b\nExamples:\n"
    "  roofline goodput -m llama-3.3-70b -q fp8 -g h100 -g b200 --workload chat\n"
    "  roofline goodput -m llama-3.3-70b -q fp8 --isl 4096 --osl 500 --isl-cv 0.5 --slo ttft:500@p95,tpot:25\n"
    "  roofline goodput -m deepseek-r1 -g b200 --tp 8 --workload 8k1k --slo ttft:5s,tpot:40 --share 99%"
)
@partial(case_options, without=_OWN, of_loads=True)
@click.option(
    "--tp",
    "-tp",
    "--tensor-parallel-size",
    type=Count(),
    help="Tensor-parallel degree.  [default: the one with most requests per GPU]",
)
@click.option(
    "--share",
    type=ShareOfRequests(),
    help="Share of the requests that must meet all limits without a percentile.  [default: 90%, or the workload's]",
)
@output_options
def goodput(
    models: tuple[str, ...],
    gpus: tuple[str, ...],
    options: dict[str, Any],
    output_format: str,
    *,
    share: float | None,
) -> None:
    """The largest request rate at which requests meet an SLO, what binds, and what a token costs there."""
    slo = options.pop("slo", None)
    own = options.pop("share", None)  # of a named workload
    share = own if share is None else share
    if not slo:
        raise click.UsageError(
            "goodput needs limits to meet, in ms: --slo ttft:300,tpot:25, or a --workload that has some"
        )
    wanted = api.DEFAULT_SHARE if share is None else share
    answers = [one for model in models for one in api.goodput(model, gpus or None, slo=slo, share=wanted, **options)]
    people = output_format in ("table", "markdown")
    rows = [one.to_dict() for one in answers]
    for row in rows if people else ():
        row["said"] = row["goodput_binding"] if row["goodput"] else None
        row["goodput"] = rounded_down(row["goodput"])
    columns = _COLUMNS if len(models) == 1 else {**_MODEL, **_COLUMNS}
    if not any(row["reason"] for row in rows):
        columns = {key: heading for key, heading in columns.items() if key != "reason"}
    print_rows(rows, output_format, columns)
    if people:
        shown = [one for one in answers if one.rate or gpus]
        notes([_asked(slo, wanted), _HEADROOM, *labelled((one.gpu.name, one.warnings) for one in shown)])
    if not any(one.rate for one in answers):
        where = ", ".join(gpus) if gpus else "any GPU of the catalog"
        raise RooflineError(f"{', '.join(models)}: no request meets the SLO on {where}, each row says why")


def _asked(slo: Any, share: float) -> str:
    """What was asked for, in words."""
    text = api.limits_text(slo)
    plain = [key for key in slo if key in api.LATENCIES]
    return f"limits {text}" + (
        f"; those without a percentile are met together by {100.0 * share:g} % of the requests" if plain else ""
    )
