"""What a deployment costs by the hour, the request and the token, and against an API: the `cost` command."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from textwrap import shorten
from typing import Any

import click

from roofline.api.goodput import DEFAULT_SHARE
from roofline.api.levers import cost as api
from roofline.cli.answers import asked_format, case_text, gpus_text
from roofline.cli.case import case_options
from roofline.cli.columns import BELOW_RULE, GPUS, PLAN, is_above_rule, latency, model_column, percent
from roofline.cli.help import Question
from roofline.cli.options import output_options
from roofline.cli.render import labelled, show
from roofline.cli.screen import MARK, Row, Screen, ScreenColumn, terminal_width
from roofline.cli.values import ApiPrice, NumberOrShare, ShareOfRequests
from roofline.errors import RooflineError
from roofline.quantity import rounded

__all__ = ["cost"]

_SHARED = (
    "in, cached, out: the phases share the rent by the time that they take; blended: the rent over all tokens; "
    "each has the range of the rent, as json shows"
)


def _columns(options: Mapping[str, Any], models: int) -> list[ScreenColumn]:
    return [
        MARK,
        *model_column(models),
        GPUS,
        PLAN,
        ScreenColumn("USD/M in", "usd_per_m_input_tok"),
        ScreenColumn("cached", "usd_per_m_cached_tok"),
        ScreenColumn("out", "usd_per_m_decode_tok"),
        ScreenColumn("blended", "usd_per_m_blended_tok", 0, _ends("usd_per_m_blended_tok")),
        ScreenColumn("USD/h", "usd_per_hour", 4, _ends("usd_per_hour")),
        ScreenColumn("req/s", "request_rate", 3, cell=_rate, also=("request_rate", "output_tok_s", "osl")),
        ScreenColumn("util", "util", 2, cell=percent("util"), also=("util",)),
        ScreenColumn("pays", "break_even_util", 1, cell=_pays, also=("break_even_util", "pays")),
        ScreenColumn("USD/request", "usd_per_request", 5),
        *latency("ttft", options, 6, with_range=False),
        *latency("tpot", options, 6, with_range=False),
    ]


def _ends(key: str) -> tuple[str, str]:
    return f"{key}_low", f"{key}_high"


def _rate(row: Row) -> str:
    """Requests per second; of bursts those that follow each other without a gap."""
    if row.get("request_rate") is not None:
        return rounded(row["request_rate"])
    return rounded(row["output_tok_s"] / row["osl"]) if row.get("output_tok_s") else "-"


def _pays(row: Row) -> str:
    if row.get("pays") is None:
        return "-"
    return f"{100.0 * row['break_even_util']:.0f}%" if row["pays"] else "no"


@click.command(
    cls=Question,
    epilog="\b\nExamples:\n"
    "  roofline cost -m llama-3.3-70b -q fp8 -g h100,b200 --isl 4k --osl 500\n"
    "  roofline cost -m llama-3.3-70b -q fp8 -g h100 --api-price in:0.5,out:1.5\n"
    "  roofline cost -m deepseek-r1 -g b200:tp8 --request-rate 2 --gpu-price 3-5",
)
@partial(case_options, of_loads=True)
@click.option("--api-price", type=ApiPrice(), help="What an API asks, in USD per million tokens: in:0.5,out:1.5.")
@click.option(
    "--headroom",
    type=NumberOrShare(),
    help="Share of the saturation, or of the goodput with an SLO, that stays free.  [default: 0]",
)
@click.option(
    "--share",
    type=ShareOfRequests(),
    help="Share of requests that must meet the limits without a percentile.  [default: 90%, or the workload's]",
)
@output_options
def cost(
    models: tuple[str, ...],
    gpus: tuple[str, ...],
    options: dict[str, Any],
    output_format: str,
    **own: Any,
) -> None:
    """What requests and tokens cost, and from which load on your own GPUs beat an API."""
    share_of_workload = options.pop("share", None)
    wanted = {**({} if share_of_workload is None else {"share": share_of_workload}), **own}
    asked = {name: value for name, value in wanted.items() if value is not None}
    answers = [one for model in models for one in api.cost(model, gpus or None, **asked, **options)]
    rows = [one.to_dict() for one in answers]
    pairs = [(one, row) for one, row in zip(answers, rows, strict=True) if one.planned is not None]
    able = [pair for pair in pairs if gpus or is_above_rule(pair[0].gpu.status, pair[1])]
    others = [pair for pair in pairs if pair not in able] if able else []
    able = able or pairs
    shown = [one for one in answers if one.planned is not None or gpus]
    notes = [_SHARED, *labelled((one.gpu.name, one.warnings) for one in shown)]
    unable = [row for row in rows if row["reason"] is not None]
    at = f"at {able[0][0].at}" if able else ""
    if at.endswith("goodput"):
        at += f" for {100.0 * asked.get('share', DEFAULT_SHARE):g} % of requests"
    lines = [shorten(f"{row['gpu']}: {row['reason']}", terminal_width()) for row in unable if gpus]
    hidden = 0 if gpus else len(unable)
    screen = Screen(
        columns=_columns(options, len(models)),
        rows=[row for _, row in able],
        others=[row for _, row in others],
        rule=BELOW_RULE,
        case=case_text(models, options, asked_format(options), at, load=_has_load(options)),
        answer=_answer(able, options, len(others)),
        lines=lines,
        hidden=hidden,
        notes=notes,
    )
    show(screen, output_format, rows)
    if not able:
        where = ", ".join(gpus) if gpus else "any GPU of the catalog"
        raise RooflineError(f"{', '.join(models)}: no cost on {where}; --format json says why for each")


def _has_load(options: Mapping[str, Any]) -> bool:
    return any(options.get(name) is not None for name in ("batch", "concurrency", "request_rate"))


def _answer(able: Sequence[tuple[api.GpuCost, Row]], options: Mapping[str, Any], others: int) -> str:
    """The cheapest per token, where its rent comes from, and whether it pays against an API."""
    if not able:
        return ""
    best, row = able[0]
    which = f", cheapest of {len(able)} kinds of GPU" if len(able) > 1 else ""
    more = f", {others} more by rough estimates" if others else ""
    rent = f"rent: {row['price_source']}"
    first = f"{gpus_text(row)}: {rounded(row['usd_per_m_blended_tok'])} USD/M tokens{which}{more} ({rent})"
    if best.api is None:
        return first
    now = row["usd_per_request"] / best.api.usd_per_request if best.api.usd_per_request else None
    here = f"; at this load {rounded(now)}x the API's price" if now is not None and _has_load(options) else ""
    return f"{first}\n{best.api}{here}"
