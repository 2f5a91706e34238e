"""What moves an answer: the commands `sensitivity`, `solve` and `formula`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import click

from roofline.cli.answers import (
    GPUS,
    PLAN,
    PLAN_KEYS,
    SLO_MET,
    asked_format,
    by_estimate,
    case_text,
    deployed_text,
    differ,
    gpus_text,
    latency,
    model_column,
    passing,
)
from roofline.cli.case import one_case, question
from roofline.cli.options import (
    EVERY_REASON,
    OUTPUT_FORMATS,
    Parsed,
    PathName,
    echo,
    for_people,
    format_of_file,
    format_option,
    labelled,
    notes,
    output_options,
    plot_option,
    plotted,
    print_rows,
    read,
    reasons_text,
    show,
    with_unit,
)
from roofline.cli.screen import MARK, MOST_ROWS, Flags, Screen, ScreenColumn, flags, prose, room
from roofline.numbers.quantity import percent_figure, rounded, rounded_down, to_text
from roofline.outputs.files import json_text, write_whole
from roofline.questions import catalog
from roofline.questions import why as questions
from roofline.questions.inputs.arguments import binding_text
from roofline.questions.inputs.case import KIND_OF, LASTING
from roofline.questions.inputs.deployment import PLAN_DEGREES
from roofline.questions.inputs.options import TIME
from roofline.questions.why import RESULTS, UNITS, Sensitivities, Sensitivity, Solution
from roofline.support.errors import BadInput, RooflineError
from roofline.support.records import replace

# Elasticities of an answer: the `sensitivity` command.

_BAR = 16
_FEWEST = 2  # rows per result
_NOTHING = 0.005  # elasticity that two decimals round to 0
_COLUMNS = (
    ScreenColumn("result", "result"),
    ScreenColumn("input", "input"),
    ScreenColumn("value", "value", 1),
    ScreenColumn("% per 1 %", "elasticity"),
    ScreenColumn("", "bar", 1),
    ScreenColumn("regime ends at", "margin", 2),
    ScreenColumn("where", "end", 3),
    ScreenColumn("kind", "kind", 4),
)


@question(
    "roofline sensitivity -m llama-3.1-70b -g h100:tp4 --isl 2k --osl 300 -b 16",
    "roofline sensitivity -m llama-3.1-8b -g h100 --of tpot --formula",
    "roofline sensitivity -m deepseek-r1 -g h200:tp8 --of ttft -f json",
    output=partial(output_options, formats=(*OUTPUT_FORMATS, "latex")),
)
@click.option(
    "--of",
    type=click.Choice(list(UNITS)),
    multiple=True,
    default=RESULTS,
    show_default=True,
    help="Result to explain. Repeatable.",
)
@click.option(
    "--top",
    type=click.IntRange(1),
    help="Rows of each result in tables, formulas and charts.  [default: 10 rows in all, 8 in a chart]",
)
@click.option("--formula", "with_formula", is_flag=True, help="Print the derivatives as formulas.")
@plot_option
def sensitivity(
    models: tuple[str, ...],
    gpus: tuple[str, ...],
    options: dict[str, Any],
    output_format: str,
    of: tuple[str, ...],
    top: int | None,
    plot: str | None,
    *,
    with_formula: bool,
) -> None:
    """What moves an answer: elasticity to every rate, efficiency, latency, length, format and to tp.

    An elasticity of -0.8 to the HBM bandwidth: 1 % more of it makes the result 0.8 % smaller. Where the derivative
    jumps just at the present value, those just below and above are shown.
    """
    options.pop("slo", None)  # of a workload
    sensitivities = questions.sensitivity(*one_case(models, gpus), of=of, **options)
    most = top or max(MOST_ROWS // len(sensitivities.of), _FEWEST)
    shown = [
        row
        for result in sensitivities.of
        for row in _rows_of(sensitivities, result)[: None if flags().is_full else most]
    ]
    in_chart = [row for result in sensitivities.of for row in _rows_of(sensitivities, result)[: top or _BARS]]
    if plotted(plot, lambda: questions.tornado_picture(sensitivities, in_chart), is_of_rows=True):
        return
    if output_format in ("json", "csv") or flags().output is not None:
        case: dict[str, Any] = sensitivities.to_dict()
        print_rows(case.pop("rows"), output_format, {}, case)
    elif output_format == "latex":
        echo(questions.derivatives_latex(sensitivities, shown))
    else:
        hidden = 0 if flags().is_full else len(sensitivities) - len(shown)
        screen = _screen(sensitivities, shown, options)
        more = [f"{hidden} more: --all or --top N"] if hidden else []
        show(replace(screen, lines=[*screen.lines, *more], is_whole=True), output_format)
        if with_formula:
            echo("\n" + questions.derivatives_text(sensitivities, shown))


_BARS = 8  # of each result in a chart


def _rows_of(sensitivities: Sensitivities, result: str) -> list[Sensitivity]:
    return [row for row in sensitivities if row.result == result]


def _screen(sensitivities: Sensitivities, shown: list[Sensitivity], options: Mapping[str, Any]) -> Screen:
    """The rows under the hardware rates that matter most."""
    buy = []
    for result, row in sensitivities.what_to_buy.items():
        amount = getattr(sensitivities.prediction, result)
        value = to_text(amount, "s") if UNITS[result] == "s" else rounded(amount)
        change = f"{row.elasticity:+.2f} % per 1 % more {_rate_text(row.input)}, the hardware that moves it most"
        if abs(row.elasticity) < _NOTHING:
            change = "does not change with the rates of the hardware"
        buy.append(f"{_RESULT_TEXTS.get(result) or binding_text(result)} {value}: {change}")
    most = max((abs(row.elasticity) for row in shown), default=1.0) or 1.0
    rows = [
        {
            "result": row.result,
            "input": row.input,
            "kind": row.kind,
            "value": with_unit(row.value, row.unit),
            "elasticity": _elasticity_text(row),
            "bar": "#" * round(_BAR * abs(row.elasticity) / most),
            "margin": "-"
            if row.margin is None
            else f"{'+' if row.margin > 0.0 else ''}{percent_figure(row.margin / 100.0)} %",
            "end": row.regime.partition(" until ")[2] or "-",
        }
        for row in shown
    ]
    regimes = dict.fromkeys(part for row in shown for part in row.regime.partition(" until ")[0].split(", "))
    deployment = sensitivities.prediction.deployment
    end = deployed_text(sensitivities.prediction.to_dict(PLAN_KEYS))
    return Screen(
        columns=_COLUMNS,
        rows=rows,
        case=case_text([deployment.model.short_name], options, asked_format(options), end),
        answer="\n".join(buy),
        lines=[f"regime: {', '.join(regimes)}"],
        notes=sensitivities.prediction.warnings,
    )


_RESULT_TEXTS = {"output_tok_s_gpu": "tok/s per GPU", "output_tok_s": "tok/s", "tok_s_user": "tok/s per user"}
_PEAK = "peak_"


def _rate_text(name: str) -> str:
    """Words for an input that is a rate of the hardware."""
    words = f"{name.removeprefix(_PEAK)} peak" if name.startswith(_PEAK) else name
    return words.replace("_", " ")


def _elasticity_text(row: Sensitivity) -> str:
    """Elasticity; at a tie those of both sides."""
    below, above = row.elasticity_below, row.elasticity_above
    if row.margin == 0.0 and f"{below:.3f}" != f"{above:.3f}":
        return f"{below:.3f} below, {above:.3f} above"
    return f"{row.elasticity:.3f}"


# Inverse questions: the `solve` command.


def _solve_columns(options: Mapping[str, Any], models: int) -> list[ScreenColumn]:
    return [
        MARK,
        *model_column(models),
        GPUS,
        PLAN,
        ScreenColumn("value", "value_text"),
        SLO_MET,
        ScreenColumn("now", "now_text", 1),
        ScreenColumn("limited by", "limited_by", 1),
        *latency("ttft", options, 1, with_range=False),
        *latency("tpot", options, 1, with_range=False),
        ScreenColumn("solved by", "method_text", 4),
        ScreenColumn("fits", "fits", 5),
    ]


_DIGITS = 4


_UNKNOWNS = ("bandwidth", "peak", "batch", "concurrency", "request-rate", "isl", "osl", "prefix", "tp", "weights")


@question(
    "roofline solve --for bandwidth --tpot 10ms -m llama-3.1-70b -g h100:tp8",
    "roofline solve --for batch --slo ttft:300,tpot:25 -m llama-3.1-8b -g h100",
    "roofline solve --for prefix --ttft 200ms -m qwen3-32b -g h200 --isl 8k",
    "roofline solve --for request-rate --slo ttft:300@p99 -m llama-3.1-8b -g h100",
)
@click.option(
    "--for",
    "unknown",
    type=Parsed("input", questions.input_named, lambda: _UNKNOWNS),
    required=True,
    help="bandwidth, peak, batch, concurrency, request-rate, isl, prefix, tp, weights (bits), or any input that "
    "roofline sensitivity lists.",
)
@click.option(
    "--ttft",
    type=read(TIME),
    help="Target, e.g. 300ms; a bare number is milliseconds. Of a percentile: --slo ttft:300@p99.",
)
@click.option("--tpot", type=read(TIME), help="Target, e.g. 25ms.")
@click.option("--e2el", type=read(TIME), help="Target, e.g. 5s.")
def solve(
    unknown: str,
    ttft: float | None,
    tpot: float | None,
    e2el: float | None,
    models: tuple[str, ...],
    gpus: tuple[str, ...],
    options: dict[str, Any],
    output_format: str,
) -> None:
    """The value of one input at which a latency target is just met, or why none does."""
    slo = dict(options.pop("slo", {}))
    times = {"ttft": ttft, "tpot": tpot, "e2el": e2el}
    targets = {**slo, **{name: time for name, time in times.items() if time is not None}}
    if not targets:
        raise click.UsageError(
            "solve needs a target: --ttft, --tpot or --e2el, e.g. --ttft 300ms, or --slo ttft:300@p99"
        )
    names = gpus or catalog.gpus(options.get("specs"))
    solutions: list[Solution] = []
    failures: list[RooflineError] = []
    for model in models:
        of_model, refused = questions.solve_each_gpu(model, names, unknown, targets, **options)
        solutions += of_model
        failures += refused.values() if gpus else ()
    people = for_people(output_format)
    rows = [_row(solution, people=people) for solution in solutions]
    failures += [
        BadInput(f"{_gpu_prefix(solution, solutions)}{solution.reason}")
        for solution in solutions
        if not solution.is_met
    ]
    is_failure = gpus or not any(solution.is_met for solution in solutions)
    failure = reasons_text(failures, EVERY_REASON) if is_failure else ""
    reasons = [
        f"{_gpu_prefix(solution, solutions)}{solution.reason}"
        for solution in solutions
        if solution.is_met and solution.reason
    ]
    unmet = [solution for solution in solutions if not solution.is_met]
    screen = Screen(
        columns=_solve_columns({**options, "slo": targets}, len(models)),
        rows=[row for solution, row in zip(solutions, rows, strict=True) if solution.is_met],
        others=[row for solution, row in zip(solutions, rows, strict=True) if not solution.is_met],
        rule="cannot be met, or not known" if any(each.verdict is None for each in unmet) else "cannot be met",
        case=_case(models, options, unknown, targets),
        answer=_answer(solutions, rows, people=people),
        lines=[
            *reasons,
            *(_formula(solutions[0]) if len(solutions) == 1 else []),
        ],
        notes=[
            *labelled((solution.base.deployment.gpu.name, solution.warnings) for solution in solutions),
        ],
        below=failure,
    )
    show(screen, output_format, rows)
    if failure:
        raise RooflineError(failure)


def _answer(solutions: list[Solution], rows: list[dict[str, Any]], *, people: bool) -> str:
    """The value, for people who asked for one case."""
    if not people or len(solutions) != 1 or not solutions[0].is_met:
        return ""
    (row,) = rows
    solution = solutions[0]
    what = KIND_OF[solution.unknown].many if solution.unknown in KIND_OF else ""
    where = f"on {gpus_text(row)}{by_estimate(row)}"
    if solution.is_open:
        return f"{row['value_text']}{what} {where}: the search ends there, not the target"
    judged = solution.judged
    by = "" if judged is None or judged.binding in (None, solution.binding) else f"{binding_text(judged.binding)}, "
    unsure = "" if passing([row]) else f"; SLO {row['slo_verdict'] or 'not known'}: {by}{row['slo_reason']}"
    if not solution.is_known:
        return f"{row['value_text']}{what} {where}; beyond that it is not known{unsure}"
    most = "at most " if solution.whole is not None or _is_rate(solution.unknown) else ""
    limit = "" if solution.limited_by is None else f", limited by {row['limited_by']}"
    return f"{most}{row['value_text']}{what} {where}{limit}{unsure}"


def _case(models: tuple[str, ...], options: Mapping[str, Any], unknown: str, targets: Mapping[str, float]) -> str:
    name = unknown.replace("-", "_")
    others = {key: value for key, value in options.items() if key != name}
    text = case_text(
        models,
        {**others, "slo": targets},
        asked_format(options),
        load=name not in KIND_OF,
        is_mean=name in LASTING or differ(others),
    )
    what = KIND_OF[name].largest if name in KIND_OF else f"{unknown} at which it is just met"
    return f"{text} \u00b7 {what}"


def _row(solution: Solution, *, people: bool) -> dict[str, Any]:
    row = solution.to_dict()
    if people:
        row["value_text"] = "-" if solution.value is None else _value_text(solution.value, solution)
        if solution.whole is not None:
            row["value_text"] = str(solution.whole)
        if solution.is_open and solution.value is not None:
            row["value_text"] = (
                f"{'more' if (solution.value or 0.0) > solution.present else 'less'} than {row['value_text']}"
            )
        row["now_text"] = _value_text(solution.present, solution) if solution.unknown not in KIND_OF else "-"
        is_target = solution.limited_by == solution.binding or not solution.is_met
        named = binding_text(solution.binding, is_mean=solution.is_mean)
        row["limited_by"] = named if is_target else solution.limited_by
        row["method_text"] = solution.method if solution.is_met else "-"
        deployment = solution.base.deployment
        plan = {name: getattr(deployment.plan, name) for name in PLAN_DEGREES[1:]}
        row |= {"num_gpus": deployment.num_gpus, **plan}
    return row


def _is_rate(unknown: str) -> bool:
    return unknown in KIND_OF and KIND_OF[unknown].is_open


def _value_text(value: float, solution: Solution) -> str:
    return rounded_down(value) if _is_rate(solution.unknown) else with_unit(value, solution.unit, _DIGITS)


def _gpu_prefix(solution: Solution, solutions: list[Solution]) -> str:
    return f"{solution.base.deployment.gpu.name}: " if len(solutions) > 1 else ""


def _formula(solution: Solution) -> list[str]:
    """The closed form, else the equation solved."""
    if solution.formula is not None:
        return ["", *str(solution.formula).split("\n")]
    if solution.is_met and solution.method in ("root", "step"):
        return [f"no closed form: root of {solution.binding}({solution.unknown}) = target; regime: {solution.regime}"]
    return []


# The closed form of an answer: the `formula` command.

_FORMULA_INDENT = " " * 6
_FORMULA_FILES = {".txt": "text", ".tex": "latex", ".py": "python", ".json": "json"}


@question(
    "roofline formula ttft -m llama-3.1-8b -g h100 --isl 2k --basis ideal",
    "roofline formula tpot -m deepseek-r1 -g h200:tp8 --format latex",
    "roofline formula ttft -m llama-3.1-70b -g b200 --format python",
    output=partial(format_option, formats=("text", "latex", "python", "json")),
)
@click.argument("result", metavar="RESULT", type=click.Choice(list(questions.FORMULAS)))
@click.option("--all", "is_full", is_flag=True, help="Print the parts and symbols as well, not just the formula.")
@click.option(
    "-o", "--output", type=PathName(), help=f"Write it to a file instead: {', '.join(_FORMULA_FILES)}; - prints."
)
@click.option("--force", is_flag=True, help="Overwrite the file.")
def formula(
    result: str,
    models: tuple[str, ...],
    gpus: tuple[str, ...],
    options: dict[str, Any],
    output_format: str,
    output: str | None,
    *,
    is_full: bool,
    force: bool,
) -> None:
    """The closed form of an answer for one case, with its numbers.

    RESULT is ttft, tpot, e2el, a throughput, or knee.
    """
    if result != "knee":
        options.pop("slo", None)  # of a workload
    closed_form = questions.formula(*one_case(models, gpus), result, **options)
    file = None if output == "-" else output
    if file is not None:
        output_format = format_of_file(file, _FORMULA_FILES, output_format, "text")
    texts: dict[str, Callable[[], str]] = {
        "text": lambda: str(closed_form),
        "latex": closed_form.to_latex,
        "python": closed_form.to_python,
        "json": lambda: json_text([closed_form.to_dict()]).rstrip("\n"),
    }
    text = texts[output_format]()
    if file is not None:
        write_whole(file, lambda beside: beside.write_text(f"{text}\n", encoding="utf-8"), force=force)
        echo(f"wrote {file}", err=True)
    elif output_format != "text":
        echo(text)
    else:
        more = _print_formula(closed_form.name, text, room(Flags(is_full=is_full)))
        root = f"{closed_form.name} has no closed form here; it is the root of the expression"
        notes([root] if closed_form.is_implicit else [], *more)


def _print_formula(name: str, text: str, most: int | None) -> list[str]:
    """Print a formula, on a first screen without what its parts and symbols are; and what to say of the rest."""
    lines = [part for line in text.split("\n") for part in prose(line, indent=_FORMULA_INDENT).split("\n")]
    if most is None or len(lines) < most:
        echo("\n".join(lines))
        return []
    end = next(place for place, line in enumerate(lines) if line in ("where", "with")) - 1
    value = max(place for place, line in enumerate(lines[:end]) if line.startswith(f"{name} = "))
    first = min(value, most - 1 - (end - value))
    echo("\n".join([*lines[:first], *lines[value:end]]))
    return [f"{len(lines) - first - (end - value)} more lines: --all"]
