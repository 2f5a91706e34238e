"""The fewest GPUs that meet an SLO: the `size` command."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from textwrap import shorten
from typing import Any

import click

from roofline.api import size as fleet
from roofline.api.goodput import limits_text
from roofline.api.inputs.case import PRESETS
from roofline.api.ranking import meeting_first
from roofline.cli.answers import by_estimate, case_text, gpus_text, named_gpus, output_price
from roofline.cli.case import case_options
from roofline.cli.columns import (
    BELOW_RULE,
    GPUS,
    HBM,
    PLAN,
    SLO_MET,
    TOK_S_GPU,
    UNSURE,
    USD_HOUR,
    USD_TOKENS,
    WEIGHTS,
    latency,
    load_columns,
    model_column,
    ranked,
    split_by_rule,
)
from roofline.cli.help import Question
from roofline.cli.options import output_options
from roofline.cli.render import labelled, show
from roofline.cli.screen import MARK, Screen, ScreenColumn, flags, keys_of, terminal_width
from roofline.cli.values import COUNT, suggested_words
from roofline.errors import RooflineError
from roofline.quantity import rounded
from roofline.records import replace

_MISSES = 3
_ALWAYS = (
    "gpu",
    "num_gpus",
    "basis",
    "usd_per_hour",
    "usd_per_m_output_tok",
    "meets",
    "slo_verdict",
    "slo_binding",
    "reason",
)


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
        SLO_MET,
        ranked(HBM, 6),
        *([] if _limits(options, "e2el") else latency("e2el", options, 6, with_range=False)),
    ]


def _limits(options: Mapping[str, Any], metric: str) -> bool:
    return any(key.startswith(metric) for key in options.get("slo") or ())


#: Options of a case that this command has in its own form or has no use for.
_OWN = ("tp", "ep", "dp", "num_gpus", "quantization", "measured", "allow_oversize")


@click.command(
    cls=Question,
    epilog="\b\nExamples:\n"
    "  roofline size -m llama-3.1-70b -q fp8 --slo ttft:300,tpot:25 --isl 2k -c 64\n"
    "  roofline size -m deepseek-r1 -g h200,b200 --slo tpot:25 --workload 8k1k\n"
    "  roofline size -m llama-3.1-70b -g h100 --slo ttft:300 -q bf16,fp8",
)
@partial(case_options, without=_OWN)
@click.option("--tp", "-tp", "--tensor-parallel-size", type=COUNT, help="Tensor-parallel degree.  [default: searched]")
@click.option("--ep", "--expert-parallel-size", type=COUNT, help="Expert-parallel degree.  [default: searched]")
@click.option(
    "--dp",
    "-dp",
    "--data-parallel-size",
    type=COUNT,
    help="Data-parallel degree of the attention.  [default: searched for mixtures of experts]",
)
@click.option(
    "-q",
    "--quantization",
    type=suggested_words(PRESETS.keys),
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
    sizes = meeting_first((size for answer in answers for size in answer.sizes), lambda size: size.verdict)
    keys = tuple(dict.fromkeys((*keys_of(columns), *_ALWAYS))) if output_format == "table" else None
    rows = [size.to_dict(keys) for size in sizes]
    shared = [text for answer in answers for text in answer.notes]
    shown = [size for size in sizes if size.meets is not False or gpus] or sizes
    owners = labelled((_label(size, len(models)), size.warnings) for size in shown)
    screen = _screen(models, sizes, rows, columns, options, is_named=bool(gpus))
    if output_format == "markdown":
        columns = [*columns, ScreenColumn("reason", "reason")]
        screen = replace(screen, columns=columns, rows=rows, others=[], lines=[])
    show(replace(screen, notes=[*shared, *owners]), output_format, rows, {"notes": shared})
    missed = [
        model
        for model, answer in zip(models, answers, strict=True)
        if all(size.meets is False for size in answer.sizes)
    ]
    if missed:
        raise RooflineError(_none_meets(missed, gpus, slo))


def _screen(
    models: tuple[str, ...],
    sizes: list[fleet.GpuSize],
    rows: Sequence[Mapping[str, Any]],
    columns: list[ScreenColumn],
    options: Mapping[str, Any],
    *,
    is_named: bool,
) -> Screen:
    """GPUs that meet the SLO, cheapest first, and the nearest misses."""
    answered = [(size, row) for size, row in zip(sizes, rows, strict=True) if size.prediction is not None]
    statuses = (size.gpu.status for size, _ in answered)
    first, others = split_by_rule(statuses, [row for _, row in answered], is_named=is_named)
    misses = [size for size in sizes if size.prediction is None]
    near = misses if is_named or flags().is_full else [size for size in misses if size.excess is not None][:_MISSES]
    lines = [
        shorten(f"{size.verdict:5} {_label(size, len(models))}: {_why_not(size)}", terminal_width()) for size in near
    ]
    left = len(misses) - len(lines)
    unknown = [size for size, _ in answered if size.verdict is None]
    if lines:
        lines = [f"-- {'nearest misses' if left else 'misses'} --", *lines]
    lines = [*(f"{_label(size, len(models))}: {size.reason}" for size in unknown[:_MISSES]), *lines]
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
        legend=UNSURE if any(str(row["slo_verdict"]).endswith("?") for row in (*first, *others)) else "",
    )


def _answer(first: Sequence[Mapping[str, Any]], others: Sequence[Mapping[str, Any]], misses: int) -> str:
    """The cheapest GPUs that meet the SLO."""
    if not first:
        return f"none of {misses} kinds of GPU meets it"
    best, *rest = first
    if best["slo_verdict"] is None:
        return _not_known(first, len(others), misses)
    unknown = sum(row["slo_verdict"] is None for row in first)
    tokens = best.get("usd_per_m_output_tok")
    cost = [] if best.get("usd_per_hour") is None else [f"{rounded(best['usd_per_hour'])} USD/h"]
    cost += [] if tokens is None else [output_price(tokens)]
    price = f" at {', '.join(cost)}" if cost else ""
    by = by_estimate(best) or ("" if best["slo_verdict"] == "pass" else " by the central estimate")
    which = (
        f"; the cheapest per hour of {len(first) - unknown} kinds of GPU that do"
        if len(rest) > unknown and cost
        else ""
    )
    more = f", {len(others)} more below the rule" if others else ""
    cannot = f"; {misses} cannot" if misses else ""
    cannot += f"; of {unknown} it is not known" if unknown else ""
    return f"{gpus_text(best)} meets it{by}{price}{which}{more}{cannot}"


def _not_known(first: Sequence[Mapping[str, Any]], others: int, misses: int) -> str:
    """That none of the GPUs is known to meet the SLO, and which are the fewest that may."""
    best = first[0]
    if best["slo_binding"] is None:
        return f"no limit of the SLO applies to answers of one token; {gpus_text(best)} holds the model"
    rent = "" if best.get("usd_per_hour") is None else f" at {rounded(best['usd_per_hour'])} USD/h"
    more = f", {others} more below the rule" if others else ""
    cannot = f"; {misses} cannot" if misses else ""
    return f"not known whether {gpus_text(best)} meets it{by_estimate(best)}{rent}, the fewest that may{more}{cannot}"


def _one_preset(options: Mapping[str, Any]) -> str | None:
    presets = list(options.get("quantization") or ())
    return presets[0] if len(presets) == 1 else None


def _why_not(size: fleet.GpuSize) -> str:
    """Why a GPU misses the SLO, to follow its verdict."""
    reason = str(size.reason).removeprefix("misses: ")
    at_limit = "misses at the hardware limit: "
    return f"{reason.removeprefix(at_limit)}, at the hardware limit" if reason.startswith(at_limit) else reason


def _label(size: fleet.GpuSize, models: int) -> str:
    return size.gpu.name if models == 1 else f"{size.model.short_name} on {size.gpu.name}"


def _none_meets(models: list[str], gpus: tuple[str, ...], slo: Mapping[str, float]) -> str:
    return (
        f"{', '.join(models)}: no plan on {named_gpus(gpus)} meets --slo {limits_text(slo)}; "
        "loosen it, lower the load, or allow other GPUs (-g) or number formats (-q)"
    )
