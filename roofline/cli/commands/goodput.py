"""The largest request rate within an SLO: the `goodput` command."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from textwrap import shorten
from typing import Any

import click

from roofline.api import goodput as api
from roofline.cli.answers import (
    asked_format,
    by_estimate,
    case_text,
    gpus_text,
    is_idle,
    named_gpus,
    output_price,
    without_idle_prices,
)
from roofline.cli.case import case_options
from roofline.cli.columns import (
    BELOW_RULE,
    GPUS,
    PLAN,
    SLO_MET,
    TOK_S_GPU,
    USD_HOUR,
    USD_TOKENS,
    latency,
    limit_column,
    model_column,
    percent_column,
    ranked,
    split_by_rule,
)
from roofline.cli.help import Question
from roofline.cli.options import most_per_gpu_option, output_options, required_share, share_option
from roofline.cli.render import labelled, show
from roofline.cli.screen import MARK, Row, Screen, ScreenColumn, terminal_width
from roofline.errors import RooflineError
from roofline.quantity import rounded_down
from roofline.records import replace

_LEVELS = {"ttft": "p99", "tpot": "p99"}  # shown where the SLO limits no percentile


def _columns(options: Mapping[str, Any], models: int, *, is_mean: bool) -> list[ScreenColumn]:
    return [
        MARK,
        *model_column(models),
        GPUS,
        PLAN,
        ScreenColumn("req/s", "goodput", cell=_rounded_down("goodput")),
        ScreenColumn("req/s/GPU", "goodput_gpu", 1, cell=_rounded_down("goodput_gpu")),
        SLO_MET,
        percent_column("util", "goodput_util", 1),
        limit_column("limited by", "goodput_binding", 1, is_mean, "goodput"),
        *(_tail_column(metric, options) for metric in ("ttft", "tpot")),
        ranked(TOK_S_GPU, 4),
        USD_HOUR,
        ranked(USD_TOKENS, 1),
    ]


def _tail_column(metric: str, options: Mapping[str, Any]) -> ScreenColumn:
    """The percentile that the SLO limits, else the p99."""
    limited = [column for column in latency(metric, options, 2, with_range=False) if "_p" in column.key]
    name = _LEVELS[metric]
    return limited[0] if limited else ScreenColumn(f"{metric.upper()} {name} ms", f"{metric}_{name}_ms", 2)


def _rounded_down(key: str) -> Callable[[Row], str]:
    return lambda row: rounded_down(row[key]) if row.get(key) else "-"


_HEADROOM = "util: goodput over the saturation rate; the rest is headroom that keeps tails short"
_OWN = ("batch", "concurrency", "request_rate", "num_prompts", "allow_oversize", "tp")


@click.command(
    cls=Question,
    epilog="\b\nExamples:\n"
    "  roofline goodput -m llama-3.3-70b -q fp8 -g h100,b200 --workload chat\n"
    "  roofline goodput -m llama-3.3-70b -q fp8 --isl 4k --slo ttft:500@p95,tpot:25\n"
    "  roofline goodput -m deepseek-r1 -g b200:tp8 --workload 8k1k --slo ttft:5s",
)
@partial(case_options, without=_OWN, of_loads=True)
@most_per_gpu_option
@share_option
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
    if not options.get("slo"):
        raise click.UsageError("goodput needs an SLO: --slo ttft:300,tpot:25 (ms), or a --workload with one")
    share = required_share(options, share)
    answers = [answer for model in models for answer in api.goodput(model, gpus or None, share=share, **options)]
    answers.sort(key=lambda answer: not answer.rate)
    rows = [answer.to_dict() for answer in answers]
    shown = [answer for answer in answers if answer.rate or gpus]
    notes = [_HEADROOM, *labelled((answer.gpu.name, answer.warnings) for answer in shown)]
    screen = replace(_screen(models, answers, rows, options, share, is_named=bool(gpus)), notes=notes)
    if output_format == "markdown":
        columns = [*screen.columns, ScreenColumn("reason", "reason")]
        screen = replace(screen, columns=columns, rows=rows, others=[], lines=[])
    show(screen, output_format, rows)
    if not any(answer.rate for answer in answers):
        is_said = bool(gpus) or output_format != "table"
        why = "" if is_said else "; --format markdown or json says why for each"
        raise RooflineError(f"{', '.join(models)}: no request meets the SLO on {named_gpus(gpus)}{why}")


def _screen(
    models: tuple[str, ...],
    answers: Sequence[api.GpuGoodput],
    rows: Sequence[Mapping[str, Any]],
    options: Mapping[str, Any],
    share: float | None,
    *,
    is_named: bool,
) -> Screen:
    meeting = [
        without_idle_prices(row, is_load_stated=False) for answer, row in zip(answers, rows, strict=True) if answer.rate
    ]
    missing = [row for answer, row in zip(answers, rows, strict=True) if not answer.rate]
    first, others = split_by_rule((answer.gpu.status for answer in answers if answer.rate), meeting, is_named=is_named)
    return Screen(
        columns=_columns(options, len(models), is_mean=share is None),
        rows=first,
        others=others if is_named else [*others, *missing],
        rule=BELOW_RULE,
        case=case_text(models, options, asked_format(options), load=False, is_mean=True, share=share),
        answer=_answer(first, len(others)),
        lines=[
            shorten(f"fail  {row['gpu']}: {str(row['reason']).removeprefix('misses: ')}", terminal_width())
            for row in (missing if is_named else ())
        ],
    )


def _answer(first: Sequence[Mapping[str, Any]], others: int) -> str:
    """The GPUs that answer cheapest per token, and their rate."""
    if not first:
        return ""
    best = first[0]
    cost = best.get("usd_per_m_output_tok")
    price = "" if cost is None else f" at {output_price(cost)}"
    price = f", next to none: {100.0 * best['goodput_util']:.2g} % of the saturation" if is_idle(best) else price
    which = f"; {'first' if cost is None else 'cheapest'} of {len(first)} kinds of GPU" if len(first) > 1 else ""
    more = f", {others} more below the rule" if others else ""
    rate = f"{rounded_down(best['goodput'])} requests/s within the SLO"
    return f"{gpus_text(best)} answers {rate}{by_estimate(best)}{price}{which}{more}"
