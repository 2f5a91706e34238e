"""Whether speculative decoding pays: the `speculate` command."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import click

from roofline.api.levers import speculation as api
from roofline.cli.answers import asked_format, case_text, deployed_text
from roofline.cli.case import WITHOUT_LIMITS, case_options, list_options, one_case
from roofline.cli.columns import speedup_column
from roofline.cli.help import Question
from roofline.cli.options import output_options
from roofline.cli.render import show
from roofline.cli.screen import Screen, ScreenColumn

_NAMES = {"batch": "batch", "concurrency": "users", "request_rate": "req/s"}
_OWN = ("batch", "concurrency", "request_rate", "num_prompts", "measured", *WITHOUT_LIMITS)
_LISTED = ("isl", "osl", "prefix", "tp", "quantization")


@click.command(
    cls=Question,
    epilog="\b\nExamples:\n"
    "  roofline speculate -m deepseek-r1 -g b200:tp8 --draft mtp --acceptance .9,.7\n"
    "  roofline speculate -m qwen3-32b -g h100 --draft ngram --acceptance .6,.5",
)
@partial(case_options, without=_OWN)
@partial(list_options, without=_LISTED)
@output_options
def speculate(
    models: tuple[str, ...],
    gpus: tuple[str, ...],
    options: dict[str, Any],
    output_format: str,
    *,
    batch: Sequence[float] | None,
    concurrency: Sequence[float] | None,
    request_rate: Sequence[float] | None,
) -> None:
    """TPOT with drafts by batch, users or rate: how many tokens to propose, and where drafts stop paying."""
    model, gpu = one_case(models, gpus)
    options.pop("slo", None)  # of a workload
    for name in ("draft", "acceptance"):
        if options.get(name) is None:
            raise click.UsageError(f"speculate needs --{name}; e.g. --draft ngram --acceptance 0.6")
    loads = {"batch": batch, "concurrency": concurrency, "request_rate": request_rate}
    options |= {name: value for name, value in loads.items() if value}
    answer = api.speculate(model, gpu, **options)
    rows = answer.to_rows()
    screen = Screen(
        columns=_columns(answer),
        rows=[_pivoted(rows, place, len(answer.predictions)) for place in range(len(answer.values))],
        case=case_text(models, options, asked_format(options), deployed_text(rows[0]), load=False),
        answer=str(answer),
        legend=f"1 to {len(answer.predictions) - 1}: speed-up of TPOT with so many proposed tokens",
        notes=answer.warnings,
        is_curve=True,
    )
    show(screen, output_format, rows)


def _columns(answer: api.Speculation) -> list[ScreenColumn]:
    drafts = range(1, len(answer.predictions))
    return [
        ScreenColumn(_NAMES[answer.along], answer.along),
        ScreenColumn("TPOT ms", "without"),
        *(speedup_column(str(tokens), str(tokens), 2) for tokens in drafts),
        ScreenColumn("best", "best"),
        ScreenColumn("TPOT ms", "tpot_ms"),
        ScreenColumn("ITL ms", "itl_ms", 1),
        ScreenColumn("tok/s/GPU", "output_tok_s_gpu", 3),
    ]


def _pivoted(rows: Sequence[Mapping[str, Any]], place: int, count: int) -> dict[str, Any]:
    """One row per load, with the speed-ups of every number of draft tokens."""
    drafts = rows[place * count : (place + 1) * count]
    best = next((row for row in drafts if row["is_best"]), drafts[0])
    gains = {str(row["draft_tokens"]): row["draft_speedup"] for row in drafts}
    return {**best, **gains, "without": drafts[0]["tpot_ms"], "best": best["draft_tokens"]}
