"""How many GPUs a model needs to meet limits on latency."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from textwrap import shorten
from typing import Any

import click

from roofline.api import size as fleet
from roofline.api.goodput import limits_text
from roofline.api.inputs.case import PRESETS
from roofline.cli.answers import case_text, gpus_text
from roofline.cli.case import case_options
from roofline.cli.columns import (
    BELOW_RULE,
    GPUS,
    PLAN,
    TOK_S_GPU,
    USD_HOUR,
    USD_TOKENS,
    WEIGHTS,
    is_above_rule,
    latency,
    load_columns,
    model_column,
    percent,
    ranked,
)
from roofline.cli.completion import SuggestedWords
from roofline.cli.help import Question
from roofline.cli.options import output_options
from roofline.cli.render import labelled, show
from roofline.cli.screen import MARK, Row, Screen, ScreenColumn, flags, keys_of, terminal_width
from roofline.cli.values import Count
from roofline.errors import RooflineError
from roofline.quantity import rounded
from roofline.records import replace

__all__ = ["size"]

_UNSURE = "pass?: its range exceeds the SLO"
_MISSES = 3
_ALWAYS = ("gpu", "num_gpus", "basis", "usd_per_hour", "usd_per_m_output_tok", "meets")


def _columns(options: Mapping[str, Any], models: int) -> list[ScreenColumn]:
    return [
        MARK,
        *model_column(models),
        GPUS,
        PLAN,
        *([ranked(WEIGHTS, 0)] if len(options.get("quantization") or ()) > 1 else []),
        *latency("ttft", options),
        *latency("tpot", options, with_range=False),
        *(latency("e2el", options, with_range=False) if _limits(options, "e2el") else []),
        *load_columns(options),
        ranked(TOK_S_GPU, 5),
        ranked(USD_HOUR, 0),
        ranked(USD_TOKENS, 1),
        ScreenColumn("SLO", "meets", cell=_verdict, also=("meets", "meets_high")),
        ScreenColumn("HBM", "hbm_used_frac", 6, cell=percent("hbm_used_frac"), also=("hbm_used_frac",)),
        *([] if _limits(options, "e2el") else latency("e2el", options, 6, with_range=False)),
    ]


def _verdict(row: Row) -> str:
    """Whether a row meets the SLO; with a question mark where the upper end of its 80 % range does not."""
    return "fail" if not row["meets"] else "pass?" if row.get("meets_high") is False else "pass"


def _limits(options: Mapping[str, Any], metric: str) -> bool:
    return any(key.startswith(metric) for key in options.get("slo") or ())


#: Options of a case in a form of their own here, or of no use.
_OWN = ("tp", "ep", "dp", "num_gpus", "quantization", "measured", "allow_oversize")


@click.command(
    cls=Question,
    epilog="\b\nExamples:\n"
    "  roofline size -m llama-3.1-70b -q fp8 --slo ttft:300,tpot:25 --isl 2k -c 64\n"
    "  roofline size -m deepseek-r1 -g h200,b200 --slo tpot:25 --workload 8k1k\n"
    "  roofline size -m llama-3.1-70b -g h100 --slo ttft:300 -q bf16,fp8",
)
@partial(case_options, without=_OWN)
@click.option(
    "--tp", "-tp", "--tensor-parallel-size", type=Count(), help="Tensor-parallel degree.  [default: searched]"
)
@click.option("--ep", "--expert-parallel-size", type=Count(), help="Expert-parallel degree.  [default: searched]")
@click.option(
    "--dp",
    "-dp",
    "--data-parallel-size",
    type=Count(),
    help="Data-parallel degree of the attention.  [default: searched for mixtures of experts]",
)
@click.option(
    "-q",
    "--quantization",
    type=SuggestedWords(PRESETS.keys),
    multiple=True,
    help=f"Number formats: {', '.join(PRESETS)}. Of several the one with the fewest GPUs wins.",
)
@output_options
def size(models: tuple[str, ...], gpus: tuple[str, ...], options: dict[str, Any], output_format: str) -> None:
    """The fewest GPUs of every kind that meet an SLO, cheapest first: for users, a request rate, or a burst."""
    if not options.get("slo"):
        raise click.UsageError("size needs an SLO, in ms: --slo ttft:300,tpot:25")
    slo = options["slo"]
    if options.get("quantization"):
        options["quantization"] = [word for words in options["quantization"] for word in words]
    answers = [fleet.size(model, gpus or None, **options) for model in models]
    columns = _columns(options, len(models))
    found = [size for answer in answers for size in answer.sizes]
    wanted = None
    if output_format == "table":
        wanted = tuple(dict.fromkeys((*keys_of(columns), *_ALWAYS)))
    rows = [row for answer in answers for row in answer.to_records(wanted)]
    shared = [text for answer in answers for text in answer.notes]
    owners = labelled((_label(size, len(models)), size.warnings) for size in found if size.meets or gpus)
    screen = _screen(models, found, rows, columns, options, is_named=bool(gpus))
    if output_format == "markdown":
        columns = [*columns, ScreenColumn("reason", "reason")]
        screen = replace(screen, columns=columns, rows=rows, others=[], lines=[])
    show(replace(screen, notes=[*shared, *owners]), output_format, rows, {"notes": shared})
    missed = [model for model, answer in zip(models, answers, strict=True) if answer.cheapest is None]
    if missed:
        raise RooflineError(_none_meets(missed, gpus, slo))


def _screen(
    models: tuple[str, ...],
    found: list[fleet.GpuSize],
    rows: Sequence[Mapping[str, Any]],
    columns: list[ScreenColumn],
    options: Mapping[str, Any],
    *,
    is_named: bool,
) -> Screen:
    """Who meets the SLO, cheapest first, GPUs not timed or without a price below a rule; and the nearest misses."""
    meeting = [(size, row) for size, row in zip(found, rows, strict=True) if size.meets]
    first = [row for size, row in meeting if is_named or is_above_rule(size.gpu.status, row)]
    others = [row for size, row in meeting if not (is_named or is_above_rule(size.gpu.status, row))]
    if not first:
        first, others = others, []
    misses = [size for size in found if not size.meets]
    near = misses if is_named or flags().is_full else [size for size in misses if size.excess is not None][:_MISSES]
    lines = [shorten(f"fail  {_label(size, len(models))}: {_why_not(size)}", terminal_width()) for size in near]
    left = len(misses) - len(lines)
    if lines:
        lines = [f"-- {'nearest misses' if left else 'misses'} --", *lines]
    case = case_text(models, options, [preset] if (preset := _one_preset(options)) else [])
    return Screen(
        columns=columns,
        rows=first,
        others=others,
        rule=BELOW_RULE,
        case=case,
        answer=_answer(first, others, len(misses)),
        lines=lines,
        hidden=left,
        legend=_UNSURE if any(_verdict(row) == "pass?" for row in (*first, *others)) else "",
    )


def _answer(first: Sequence[Mapping[str, Any]], others: Sequence[Mapping[str, Any]], misses: int) -> str:
    """The cheapest that meets the SLO."""
    if not first:
        return f"none of {misses} kinds of GPU meets it"
    best, *rest = first
    tokens = best.get("usd_per_m_output_tok")
    cost = [] if best.get("usd_per_hour") is None else [f"{rounded(best['usd_per_hour'])} USD/h"]
    cost += [] if tokens is None else [f"{rounded(tokens)} USD/M tokens"]
    price = f" at {', '.join(cost)}" if cost else ""
    by = "" if best.get("meets_high") is not False else " by the central estimate"
    which = f"; the cheapest per hour of {len(first)} kinds of GPU that do" if rest and cost else ""
    more = f", {len(others)} more by rough estimates" if others else ""
    cannot = f"; {misses} cannot" if misses else ""
    return f"{gpus_text(best)} meets it{by}{price}{which}{more}{cannot}"


def _one_preset(options: Mapping[str, Any]) -> str | None:
    presets = list(options.get("quantization") or ())
    return presets[0] if len(presets) == 1 else None


def _why_not(size: fleet.GpuSize) -> str:
    """Why a GPU misses the SLO, behind the word that says so."""
    reason = str(size.reason).removeprefix("misses: ")
    at_limit = "misses at the hardware limit: "
    return f"{reason.removeprefix(at_limit)}, at the hardware limit" if reason.startswith(at_limit) else reason


def _label(found: fleet.GpuSize, models: int) -> str:
    """What the notes of a row are headed with."""
    return found.gpu.name if models == 1 else f"{found.model.short_name} on {found.gpu.name}"


def _none_meets(models: list[str], gpus: tuple[str, ...], slo: Mapping[str, float]) -> str:
    """That no GPU meets the SLO, and what to do."""
    limits = limits_text(slo)
    where = ", ".join(gpus) if gpus else "any GPU of the catalog"
    return (
        f"{', '.join(models)}: no plan on {where} meets --slo {limits}; "
        "loosen it, lower the load, or allow other GPUs (-g) or number formats (-q)"
    )
