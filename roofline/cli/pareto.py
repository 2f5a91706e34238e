"""The frontier of two figures over GPUs, formats, plans and loads: the `pareto` command, and `curve --pareto`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import click

from roofline.cli.answers import (
    GPUS,
    PLAN,
    PLAN_KEYS,
    TOK_S_GPU,
    TOK_S_USER,
    USD_TOKENS,
    asked_format,
    case_text,
    deployed_text,
    latency,
    plan_of,
    ranked,
    varying_columns,
    verdict_columns,
)
from roofline.cli.case import question
from roofline.cli.options import HIGH, TERMINAL, for_people, plot_option, plotted, show
from roofline.cli.screen import Row, Screen, ScreenColumn, flags, keys_of, mark_of, room, terminal_width
from roofline.numbers.quantity import counted, rounded
from roofline.questions.inputs.case import KIND_OF
from roofline.support.errors import BadInput, RooflineError

if TYPE_CHECKING:
    from roofline.questions import pareto as pareto_question

#: The basis of a point, and which one is the knee: the marks of tables and pictures.
_KNEE = ScreenColumn(
    "",
    "basis",
    cell=lambda row: mark_of(row) + ("@" if row["frontier_knee"] else ""),
    also=("basis", "frontier_knee", "gpu_status"),
)
_PLAN_AND_FORMAT = ScreenColumn(
    "plan", "tp", cell=lambda row: f"{plan_of(row)} {row['weight_dtype']}", also=(*PLAN_KEYS[1:], "weight_dtype")
)
_HEADINGS = {column.key: column.heading for column in (TOK_S_USER, TOK_S_GPU, USD_TOKENS)}
_ALWAYS = (*PLAN_KEYS, *KIND_OF)
_SHARE = 0.5  # of a screen that the picture takes
_LOWEST = 9  # rows of a picture


@question(
    "roofline pareto -m llama-3.3-70b -g h200,b200 -q fp8 --workload 1k1k",
    "roofline pareto -m deepseek-r1 -g b200 --dp 1,8 --ep all -c 1:512:x2",
    "roofline pareto -m qwen3-32b -g h100 -b 1:64:x2 --x ttft --y e2el -o f.svg",
)
@click.option(
    "--against",
    type=click.Choice(("rate", "users")),
    help="Load that varies where none is given: rate or users.  [default: users]",
)
@click.option(
    "--x",
    default="tok_s_user",
    show_default=True,
    help="Figure on the x axis: a time, price or rate of a row, e.g. ttft_p99 (docs/glossary.md).",
)
@click.option("--y", default="output_tok_s_gpu", show_default=True, help="Figure on the y axis.")
@plot_option
def pareto(
    models: tuple[str, ...],
    gpus: tuple[str, ...],
    options: dict[str, Any],
    output_format: str,
    *,
    against: str | None,
    x: str,
    y: str,
    plot: str | None,
) -> None:
    """The Pareto frontier over GPUs, formats, plans and loads: what a user gets against what a GPU gives.

    Of every combination of the values given (-q bf16,fp8, --tp 1,2,4, -c 1:256:x2), those that no other one beats in
    both figures. Each --format json row has the options of predict that make it.
    """
    from roofline.questions import pareto as pareto_question

    if len(models) != 1 or not gpus:
        raise click.UsageError("pareto needs one model and one GPU or several, e.g. -g h100,b200")
    answer = pareto_question.pareto(models[0], gpus, x=x, y=y, against=against, **options)
    if plotted(plot, lambda: pareto_question.pareto_picture(answer, with_ranges=plot != TERMINAL)):
        return
    columns = _columns(answer, options)
    is_shown = output_format == "table" and for_people(output_format)
    rows = answer.to_rows(tuple(dict.fromkeys((*keys_of(columns), *_ALWAYS))) if is_shown else None)
    chart, why_none = _chart(answer) if is_shown and rows else ("", [])
    screen = Screen(
        columns=columns,
        rows=rows,
        case=case_text(
            models, options, asked_format(options), load=False, is_mean=None if options.get("batch") else True
        ),
        answer=_answer(answer, rows),
        picture=chart,
        notes=[*answer.notes, *why_none],
        needed=[row for row, point in zip(rows, answer.points, strict=True) if point.is_knee],
        is_curve=True,
        below=answer.reason or "",
    )
    show(screen, output_format, rows, {"notes": list(answer.notes)})
    if answer.reason:
        raise RooflineError(answer.reason)


def _columns(answer: pareto_question.Pareto, options: Mapping[str, Any]) -> list[ScreenColumn]:
    varying = [name for name in ("kv_cache_dtype", "draft_tokens") if len(options.get(name) or ()) > 1]
    are_formats = any(len(options.get(name) or ()) > 1 for name in ("quantization", "weights"))
    loads = {kind.option: kind for kind in KIND_OF.values()}
    kind = next((loads[name] for point in answer.points for name in point.options if name in loads), None)
    shown = set(answer.keys)
    others = [
        USD_TOKENS,
        *latency("ttft", options, 3, with_range=False),
        *latency("tpot", options, 4, with_range=False),
    ]
    return [
        _KNEE,
        GPUS,
        _PLAN_AND_FORMAT if are_formats else ranked(PLAN, 0),
        *varying_columns(varying),
        *([] if kind is None else [ScreenColumn(kind.heading, kind.option)]),
        *(
            ScreenColumn(f"{_heading(key)} (80 %)", key, 0, (f"{axis}_low", f"{axis}_high"))
            for axis, key in zip("xy", answer.keys, strict=True)
        ),
        *(ranked(column, 1) for column in verdict_columns(options)),
        *(ranked(column, 4) for column in (TOK_S_USER, TOK_S_GPU) if column.key not in shown),
        *(column for column in others if column.key not in shown),
    ]


def _heading(key: str) -> str:
    from roofline.questions.pareto import figure_text

    return _HEADINGS.get(key) or figure_text(key).replace("[", "").replace("]", "")


def _answer(answer: pareto_question.Pareto, rows: Sequence[Row]) -> str:
    """The knee of the frontier with its ranges, and how many points there are."""
    if not rows:
        return ""
    left = f"; {answer.left_out_text}" if answer.left_out else ""
    counts = f"{len(rows)} of {counted(answer.count, 'point')} on the frontier{left}"
    turn = answer.knee
    if turn is None:
        return f"{counts}; it has no knee"
    best = next(row for row, point in zip(rows, answer.points, strict=True) if point.is_knee)
    figures = ", ".join(_figure(key, value) for key, value in zip(answer.keys, turn.figures, strict=True))
    load = turn.prediction.workload.load.brief
    return f"knee: {deployed_text(best)}{_format(turn)}, {load}: {figures}\n{counts}"


def _figure(key: str, value: float) -> str:
    """A figure in words: ``TTFT 44 ms``, ``61.2 tok/s/user``."""
    heading = _heading(key)
    name = heading.removesuffix(" ms")
    return f"{rounded(value)} {heading}" if name == heading else f"{name} {rounded(value)} ms"


def _format(point: pareto_question.ParetoPoint) -> str:
    return f" {point.options['quantization']}" if point.options.get("quantization") else ""


def _chart(answer: pareto_question.Pareto) -> tuple[str, list[str]]:
    """The picture with as many lines as the screen has for it, and a note where it cannot be drawn."""
    from roofline.questions.pareto import pareto_text

    lines = room(flags())
    height = HIGH if lines is None else max(round(_SHARE * lines), _LOWEST)
    try:
        return pareto_text(answer, terminal_width() - 1, height), []
    except BadInput as error:  # an optional library is missing
        return "", [str(error)]
