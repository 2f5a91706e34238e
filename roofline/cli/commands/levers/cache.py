"""Loading cached prompts or recomputing them: the `cache` command."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import click

from roofline.api.levers import cache as api
from roofline.cli.answers import asked_format, case_text
from roofline.cli.case import case_options
from roofline.cli.columns import PLAN, model_column, percent_column, ranked
from roofline.cli.help import Question
from roofline.cli.options import output_options
from roofline.cli.render import labelled, show
from roofline.cli.screen import Row, Screen, ScreenColumn
from roofline.quantity import MICRO, NANO, rounded, to_text

_FORMULA = "break-even p = (kv/W - a)/b: a token's KV over the bandwidth, its own time a, that of its attention b p"
_MOST_LINES = 6  # equations below the table


def _columns(models: int) -> list[ScreenColumn]:
    return [
        *model_column(models),
        ScreenColumn("GPU", "gpu"),
        ranked(PLAN, 1),
        ScreenColumn("tier", "cache_tier"),
        ScreenColumn("GB/s", "cache_bandwidth_gb_s", 1),
        ScreenColumn("load ms", "cache_load_ms"),
        ScreenColumn("recompute ms", "recompute_ms"),
        ScreenColumn("faster", "faster"),
        ScreenColumn("break-even", "break_even_prefix", 1, cell=_break_even_text, also=("break_even_prefix", "faster")),
        ScreenColumn("prefixes", "prefixes_held", 2),
        percent_column("hit", "cache_hit", 2),
        ScreenColumn("TTFT ms", "ttft_ms", 3),
    ]


def _break_even_text(row: Row) -> str:
    """Tokens above which loading is faster."""
    even = row.get("break_even_prefix")
    if even is None:
        return "-" if row.get("faster") != api.RECOMPUTING_WINS else "none"
    return "any" if even <= 1.0 else rounded(even)


@click.command(
    cls=Question,
    epilog="\b\nExamples:\n"
    "  roofline cache -m llama-3.1-70b -g h100:tp4 --isl 8k --prefix 6k\n"
    "  roofline cache -m llama-3.1-8b -g h100 --prefix 900 --working-set 2TB\n"
    "  roofline cache -m qwen3-32b -g h100 --isl 8k --prefix 75% --cache-tier host",
)
@case_options
@output_options
def cache(models: tuple[str, ...], gpus: tuple[str, ...], options: dict[str, Any], output_format: str) -> None:
    """Load a cached prompt from host, disk or network, or compute it again: times, break-even length, hit rate."""
    if not options.get("prefix"):
        raise click.UsageError("cache needs --prefix, the prompt tokens that it holds, e.g. 2k or 80%")
    answers = [answer for model in models for answer in api.prompt_cache(model, gpus or None, **options)]
    rows = [answer.to_dict() for answer in answers]
    screen = Screen(
        columns=_columns(len(models)),
        rows=rows,
        case=case_text(models, {**options, "slo": None}, asked_format(options)),
        answer=_answer(answers),
        lines=list(_lines(answers)),
        notes=[_FORMULA, *labelled((f"{answer.gpu.name}, {answer.tier}", answer.warnings) for answer in answers)],
    )
    show(screen, output_format, rows)


def _answer(answers: Sequence[api.CacheTier]) -> str:
    """Whether loading or recomputing wins on the fastest tier."""
    timed = [tier for tier in answers if tier.bandwidth is not None and tier.again is not None]
    if not timed:
        return ""
    best = min(timed, key=lambda tier: tier.load)
    again = best.again.time if best.again is not None else 0.0
    verb = "loading" if best.faster == api.LOADING_WINS else "recomputing"
    return (
        f"{verb} wins on {best.gpu.name}: {best.prefix:,.0f} tokens load from {best.tier} in "
        f"{to_text(best.load, 's')}, recomputing takes {to_text(max(again, NANO), 's')}"
    )


def _lines(answers: Sequence[api.CacheTier]) -> Iterator[str]:
    """The closed form of each tier with numbers, and why a GPU has no answer."""
    timed = [tier for tier in answers if tier.bandwidth is not None and tier.again is not None]
    for tier in timed[:_MOST_LINES]:
        if tier.again is None or tier.load_per_token is None:
            continue
        kv, a, b = tier.load_per_token / MICRO, tier.again.per_token / MICRO, tier.again.per_square / NANO
        if tier.formula is not None:
            ends = f"p = (kv/W - a)/b = {rounded(tier.formula)} tokens"
        elif tier.even is not None and tier.even.prefix > 1.0:
            ends = f"loading wins beyond {rounded(tier.even.prefix)} tokens; shorter ones read the weights all the same"
        else:
            ends = "loading wins at any length"
        which = tier.tier if len({other.gpu.name for other in timed}) == 1 else f"{tier.gpu.name}, {tier.tier}"
        yield f"{which}: kv/W {rounded(kv)} us, a {rounded(a)} us, b {rounded(b)} ns: {ends}"
    yield from (f"fail  {tier.gpu.name}: {tier.reason}" for tier in answers if tier.reason is not None)
