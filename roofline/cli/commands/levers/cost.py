"""Cost per hour, request and token, and against an API: the `cost` command."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from textwrap import shorten
from typing import Any

import click

from roofline.api.levers import cost as api
from roofline.api.ranking import meeting_first
from roofline.cli.answers import (
    asked_format,
    by_estimate,
    case_text,
    gpus_text,
    is_idle,
    miss_text,
    named_gpus,
    others_text,
    passing,
    without_idle_prices,
)
from roofline.cli.case import case_options
from roofline.cli.columns import (
    BELOW_RULE,
    GPUS,
    PLAN,
    latency,
    model_column,
    percent_column,
    split_by_rule,
    verdict_columns,
)
from roofline.cli.help import Question
from roofline.cli.options import FOR_PROGRAMS, output_options, share_option
from roofline.cli.render import labelled, show
from roofline.cli.screen import MARK, Row, Screen, ScreenColumn, terminal_width
from roofline.cli.values import API_PRICE, SHARE
from roofline.errors import RooflineError
from roofline.quantity import rounded

_SHARED = (
    "USD/M all: the rent over all tokens, input, cached and output; in, cached, decode: the phases share the rent by "
    "the time that they take; each has the range of the rent, as json shows"
)


def _columns(options: Mapping[str, Any], models: int) -> list[ScreenColumn]:
    return [
        MARK,
        *model_column(models),
        GPUS,
        PLAN,
        ScreenColumn("USD/M all", "usd_per_m_blended_tok", 0, _ends("usd_per_m_blended_tok")),
        *verdict_columns(options),
        ScreenColumn("in", "usd_per_m_input_tok", 1),
        ScreenColumn("cached", "usd_per_m_cached_tok", 1),
        ScreenColumn("decode", "usd_per_m_decode_tok", 1),
        ScreenColumn("USD/h", "usd_per_hour", 4, _ends("usd_per_hour")),
        ScreenColumn("req/s", "request_rate", 3, cell=_rate, also=("request_rate", "output_tok_s", "osl")),
        percent_column("util", "util", 2),
        ScreenColumn("pays", "break_even_util", 0, cell=_pays, also=("break_even_util", "pays")),
        ScreenColumn("USD/request", "usd_per_request", 5),
        *latency("ttft", options, 6, with_range=False),
        *latency("tpot", options, 6, with_range=False),
        ScreenColumn("USD/M out", "usd_per_m_output_tok", 7),
    ]


def _ends(key: str) -> tuple[str, str]:
    return f"{key}_low", f"{key}_high"


def _rate(row: Row) -> str:
    """Requests per second; for bursts, back to back."""
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
@click.option("--api-price", type=API_PRICE, help="What an API asks, in USD per million tokens: in:0.5,out:1.5.")
@click.option(
    "--headroom",
    type=SHARE,
    help="Share of the saturation, or of the goodput with an SLO, that stays free.  [default: 0]",
)
@share_option
@output_options
def cost(
    models: tuple[str, ...],
    gpus: tuple[str, ...],
    options: dict[str, Any],
    output_format: str,
    **own_options: Any,
) -> None:
    """What requests and tokens cost, and from which load on your own GPUs beat an API.

    USD/M all is the rent per million tokens of every kind, input and cached ones included, cheapest first; with an
    SLO, GPUs that meet it at this load come before the others. USD/M out spreads the same rent over output tokens.
    """
    share_of_workload = options.pop("share", None)
    stated = {name: value for name, value in own_options.items() if value is not None}
    cost_options = stated if share_of_workload is None else {"share": share_of_workload, **stated}
    answers = meeting_first(
        (answer for model in models for answer in api.cost(model, gpus or None, **cost_options, **options)),
        lambda answer: answer.verdict,
    )
    rows = [answer.to_dict() for answer in answers]
    planned = [
        (answer, without_idle_prices(row, is_load_stated=_has_load(options)))
        for answer, row in zip(answers, rows, strict=True)
        if answer.planned is not None
    ]
    statuses = (answer.gpu.status for answer, _ in planned)
    first, others = split_by_rule(statuses, [row for _, row in planned], is_named=bool(gpus))
    best = next((answer for answer, row in planned if row is first[0]), None)
    shown = [answer for answer in answers if answer.planned is not None or gpus]
    refused = [row for row in rows if row["reason"] is not None]
    load_text = "" if best is None else f"at {best.at}"
    if load_text.endswith("goodput") and cost_options.get("share") is not None:
        load_text += f" for {100.0 * cost_options['share']:g} % of requests"
    screen = Screen(
        columns=_columns(options, len(models)),
        rows=first,
        others=others,
        rule=BELOW_RULE,
        case=case_text(
            models,
            options,
            asked_format(options),
            load_text,
            load=_has_load(options),
            is_mean=None if _has_load(options) else True,
            share=cost_options.get("share"),
        ),
        answer="" if best is None else _answer(best, first, options, gpus, len(others)),
        lines=[shorten(f"{row['gpu']}: {row['reason']}", terminal_width()) for row in refused if gpus],
        hidden=0 if gpus else len(refused),
        notes=[_SHARED, *labelled((answer.gpu.name, answer.warnings) for answer in shown)],
    )
    show(screen, output_format, rows)
    if best is None:
        is_said = bool(gpus) or output_format in FOR_PROGRAMS
        why = "" if is_said else "; --format json says why for each"
        raise RooflineError(f"{', '.join(models)}: no cost on {named_gpus(gpus)}{why}")


def _has_load(options: Mapping[str, Any]) -> bool:
    return any(options.get(name) is not None for name in ("batch", "concurrency", "request_rate"))


def _answer(
    best: api.GpuCost, rows: Sequence[Row], options: Mapping[str, Any], gpus: Sequence[str], others: int
) -> str:
    """The cheapest GPUs per token that meet the SLO, the source of their rent, and how they compare with an API."""
    row = rows[0]
    slo = (options.get("slo") or {}) if best.prediction is not None else {}  # none is met at saturation
    missed = miss_text(rows, options if slo else {}, gpus, is_part=bool(others))
    if missed:
        are_known = all(row["slo_verdict"] is not None for row in rows)
        first = f"{missed}; the prices below break the SLO" if are_known else missed
    else:
        met, rest = len(passing(rows)) if slo else len(rows), others_text(rows) if slo else ""
        doing = f" that meet the SLO, {rest}" if rest else " that meet the SLO" if slo else ""
        which = (
            f", cheapest of {met} kinds of GPU{doing}"
            if met > 1
            else f", the only one of {len(rows)}{doing}"
            if rest
            else ""
        )
        more = f", {others} more below the rule" if others else ""
        if is_idle(row) and not _has_load(options):
            least = f"its goodput is {100.0 * row['goodput_util']:.2g} % of the saturation"
            first = f"{gpus_text(row)}: {least}, next to none, so no price is shown"
        else:
            price = f"{rounded(row['usd_per_m_blended_tok'])} USD/M of all tokens"
            first = f"{gpus_text(row)}: {price}{by_estimate(row)}{which}{more} (rent: {row['price_source']})"
    if best.api is None:
        return first
    against_api = ""
    if best.api.usd_per_request and _has_load(options):
        now = row["usd_per_request"] / best.api.usd_per_request
        against_api = f"; at this load {rounded(now)}x the API's price"
    return f"{first}\n{best.api}{against_api}"
