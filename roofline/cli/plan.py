"""What to run, on what, for how much: the `plan` command, and `size`, its former name."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import product
from textwrap import shorten
from typing import TYPE_CHECKING, Any

import click

from roofline.cli.answers import (
    BELOW_RULE,
    GPUS,
    HBM,
    PLAN,
    SLO_MET,
    TOK_S_GPU,
    UNSURE,
    USD_HOUR,
    USD_MONTH,
    USD_TOKENS,
    WEIGHTS,
    by_estimate,
    case_text,
    energy_columns,
    for_sale,
    gpus_text,
    latency,
    load_columns,
    model_column,
    named_gpus,
    output_price,
    ranked,
    rent_text,
    split_by_rule,
    varying_columns,
)
from roofline.cli.case import one_answer, question, shown_keys, together, with_varying, without_output
from roofline.cli.options import GPU, echo, labelled, notes, read, show, workbook_options
from roofline.cli.screen import MARK, Screen, ScreenColumn, flags, prose, terminal_width
from roofline.cli.start import DYNAMO, emit_option, emit_text, flag_line, with_engine
from roofline.numbers.quantity import counted, rounded
from roofline.questions.inputs.case import LOADS
from roofline.questions.inputs.flags import advisor
from roofline.questions.inputs.options import COUNT, OBJECTIVES, PRICE, RATIO
from roofline.questions.predict import meeting_first
from roofline.support.errors import RooflineError
from roofline.support.records import NamedTuple, replace

if TYPE_CHECKING:
    from roofline.questions.day import Day
    from roofline.questions.ranking import GpuPlan, Plans

_MISSES = 1
_MOST_STEPS = 8  # lines of a growing load; the middle ones are left out
#: What the first of a ranking is.
_FIRST = {"cost": "the cheapest per hour", "latency": "the fastest", "throughput": "the most tokens per GPU"}


def _columns(options: Mapping[str, Any], models: int, objective: str) -> list[ScreenColumn]:
    chosen = [name for name in ("kv_cache_dtype", "draft_tokens") if len(options.get(name) or ()) > 1]
    return [
        MARK,
        *model_column(models),
        GPUS,
        ranked(PLAN, 0),
        *([ranked(WEIGHTS, 0)] if len(options.get("quantization") or ()) > 1 else []),
        *varying_columns(chosen),
        *latency("ttft", options),
        *latency("tpot", options, 2 if _limits(options, "ttft") else 0, with_range=not _limits(options, "ttft")),
        *(latency("e2el", options, with_range=False) if _limits(options, "e2el") else []),
        *(ranked(column, 4) for column in load_columns(options)),
        ranked(TOK_S_GPU, 0 if objective == "throughput" else 5),
        ranked(USD_MONTH, 0),
        ranked(USD_TOKENS, 1),
        ranked(USD_HOUR, 3),
        *energy_columns(options),
        SLO_MET,
        ranked(HBM, 6),
        *([] if _limits(options, "e2el") else latency("e2el", options, 6, with_range=False)),
    ]


def _limits(options: Mapping[str, Any], metric: str) -> bool:
    return any(key.startswith(metric) for key in options.get("slo") or ())


_AIMS = (
    click.option(
        "--objective",
        type=click.Choice(OBJECTIVES),
        default="cost",
        show_default=True,
        help="What ranks plans: cost, latency (all GPUs that the budget allows), or throughput per GPU.",
    ),
    click.option("--spend", type=read(PRICE), help="Largest rent, in USD per hour; or 40k/month."),
    click.option(
        "--have", type=GPU, multiple=True, help="GPUs that you have, e.g. 16xh100,8xl40s; a plan uses one kind."
    ),
    click.option("--growth", type=read(RATIO), help="How much the load grows, e.g. 2x; shows where each plan ends."),
    click.option("--disaggregate", is_flag=True, help="Also match prefill and decode pools; their GPUs may differ."),
    click.option("--top", type=read(COUNT), default=1, show_default=True, help="Number of plans for each kind of GPU."),
)


def aim_options(function: Any) -> Any:
    """Decorator: what a plan is for, and what is available for it."""
    for option in reversed(_AIMS):
        function = option(function)
    return function


@question(
    "roofline plan -m llama-3.3-70b -q fp8,nvfp4 --workload chat --rate 20",
    "roofline plan -m deepseek-r1 --slo tpot:25 --workload 8k1k -c 99 --growth 2x",
    "roofline plan -m qwen3-32b --slo tpot:25 -c 64 --have 16xh100,8xl40s --why",
)
@aim_options
@click.option(
    "--rate-by-hour",
    help="A day: replicas by hour for these rates, e.g. 8:5,12:20,20:8, or a CSV of hour and rate; plans for the peak.",
)
@click.option("--start-up", metavar="TIME", help="Time until a new replica answers, e.g. 5m; with --rate-by-hour.")
@click.option(
    "--why", is_flag=True, help="Which rent, load or limits would change the first plan; with --all why others follow."
)
@click.option("--next-measurement", is_flag=True, help="Which one run would narrow this decision most.")
@emit_option
def plan(
    models: tuple[str, ...],
    gpus: tuple[str, ...],
    cases: list[dict[str, Any]],
    output_format: str,
    *,
    why: bool,
    next_measurement: bool,
    rate_by_hour: str | None,
    start_up: str | None,
    emit: str | None,
    **aims: Any,
) -> None:
    """Deployments that meet an SLO, ranked, with their reasons: for users, a request rate, or a burst.

    For every kind of GPU the fewest that meet it, and what they cost; of several formats, degrees and budgets the best.
    """
    if rate_by_hour is None and start_up is not None:
        raise click.UsageError("--start-up belongs to --rate-by-hour")
    cases = cases if rate_by_hour is None else _at_peak(cases, rate_by_hour)
    cases = cases if emit is None else [with_engine(emit, case) for case in cases]
    options = together(cases)
    asked = list(product(models, cases))
    answers = _answers(asked, gpus, aims)
    objective, have, disaggregate = aims["objective"], aims["have"], aims["disaggregate"]
    if emit is not None:
        _emit(emit, answers, cases[0], output_format, is_pooled=disaggregate)
        return
    columns = with_varying(_columns(options, len(models), objective), cases)
    plans = meeting_first((found for answer in answers for found in answer.plans), lambda found: found.verdict)
    keys = shown_keys(columns, output_format, "meets")
    rows = [found.to_dict(keys) for found in plans]
    shared = [text for answer in answers for text in answer.notes]
    is_named = bool(gpus or have)
    visible = [found for found in plans if found.meets is not False or is_named] or plans
    owners = labelled((_label(found, len(models)), found.warnings) for found in visible)
    screen = _screen(models, plans, rows, columns, options, objective, is_named=is_named)
    best = answers[0].best if len(answers) == 1 else None
    screen = one_answer(screen if best is None else replace(screen, answer=f"{screen.answer}\n{best.why}"), cases)
    told = _told(answers, why=why, next_measurement=next_measurement)
    if told.texts:
        screen = replace(screen, answer="\n".join([screen.answer, *told.texts]))
    days = [] if rate_by_hour is None else _days(answers, rate_by_hour, start_up)
    steps = [step for answer in answers for step in _step_lines(answer)]
    steps += [line for found in days for line in _day_lines(found)]
    screen = replace(screen, lines=[*_typed(best), *steps, *screen.lines])
    if output_format == "markdown":
        columns = [*columns, ScreenColumn("reason", "reason")]
        screen = replace(screen, columns=columns, rows=rows, others=[], lines=[])
    failure = _failure(asked, answers, plans, (*gpus, *have), options["slo"])
    if disaggregate:
        screen = replace(screen, lines=[*_pool_lines(answers), *screen.lines])
    more = _beside_rows(answers, days, told)
    show(replace(screen, notes=[*shared, *owners], below=failure), output_format, rows, more)
    if failure:
        raise RooflineError(failure)


def _answers(
    asked: Sequence[tuple[str, Mapping[str, Any]]], gpus: tuple[str, ...], aims: Mapping[str, Any]
) -> list[Plans]:
    """Plans of each model and case, for the aims of `_AIMS`."""
    from roofline.questions import plan as plan_question

    if not all(case.get("slo") for _, case in asked):
        raise click.UsageError("plan needs an SLO, in ms: --slo ttft:300,tpot:25")
    if isinstance(aims["spend"], tuple):
        raise click.UsageError("--spend is one rent, such as 40k/month")
    aims = {**aims, "have": ",".join(aims["have"]) or None}
    growths = plan_question.load_growths([{**case, "model": model} for model, case in asked], aims.pop("growth"))
    return [
        plan_question.plan(model, gpus or None, **aims, growth=growth, **case)
        for (model, case), growth in zip(asked, growths, strict=True)
    ]


@question(
    "roofline sheet plans.xlsx --plan -m llama-3.3-70b -q fp8,nvfp4 --workload chat --rate 20",
    "roofline sheet plans.xlsx --plan -m qwen3-32b -g h100,b200 --slo tpot:25 -c 64 --disaggregate",
    output=without_output,
    takes="plan",
)
@aim_options
@workbook_options
def sheet_of_plans(
    models: tuple[str, ...],
    gpus: tuple[str, ...],
    cases: list[dict[str, Any]],
    output: str,
    *,
    spare: int,
    force: bool,
    **aims: Any,
) -> None:
    """Write a workbook (.xlsx) with the deployments that meet an SLO, ranked as `roofline plan` ranks them.

    What they take and cost follows from its cells: load, headroom, hours and the price of each GPU. One replica of each
    is a scenario, whose cells are the formulas.
    """
    from roofline.questions.plan import together as joined
    from roofline.questions.sheet import sheet

    plans = joined(_answers(list(product(models, cases)), gpus, aims))
    rows = sheet(output, plans, spare=spare, force=force)
    notes([f"wrote {counted(len(plans.plans), 'plan')}, {counted(rows, 'scenario')} to {output}"])


def _failure(
    asked: Sequence[tuple[str, Any]],
    answers: Sequence[Plans],
    plans: Sequence[GpuPlan],
    gpus: tuple[str, ...],
    slo: Mapping[str, float],
) -> str:
    """Why models have no plan, and what would fit; empty where all have one."""
    missed = [
        model
        for (model, _), answer in zip(asked, answers, strict=True)
        if all(found.meets is False for found in answer.plans)
    ]
    if not missed:
        return ""
    if any(found.over_budget is not None for found in plans):
        return f"{', '.join(dict.fromkeys(missed))}: no plan is within the budget; raise it, or lower the load"
    failure, remedy = _none_meets(list(dict.fromkeys(missed)), gpus, slo), _remedy(plans)
    return f"{failure}; to fit, try {remedy}" if remedy else failure


def _emit(
    emit: str, answers: Sequence[Plans], options: Mapping[str, Any], output_format: str, *, is_pooled: bool
) -> None:
    """What to type for the first plan, or for the first two pools."""
    if len(answers) > 1:
        raise click.UsageError("--emit takes one plan; ask once for each model and case")
    (answer,) = answers
    if is_pooled:
        if emit.partition("@")[0] != DYNAMO:
            raise click.UsageError("two pools are emitted as one deployment file: --emit dynamo")
        if not answer.pools:
            raise RooflineError("no two pools meet the SLO, so there is nothing to emit")
        emit_text(emit, answer.pools[0], options, output_format)
        return
    best = answer.best
    if best is None or best.prediction is None:
        raise RooflineError("no plan meets the SLO, so there is nothing to emit")
    echo(f"note: {best.text}, SLO {best.verdict or 'not known'}", err=True)
    emit_text(emit, best.prediction, options, output_format, str(best.why or ""))


def _typed(best: GpuPlan | None) -> list[str]:
    """What to type for the first plan."""
    if best is None or best.prediction is None or not best.flags:
        return []
    engine = best.prediction.deployment.engine.name
    return flag_line(engine, [" ".join(best.flags)], f" (whole command: --emit {advisor(engine).engine})")


def _remedy(plans: Sequence[GpuPlan]) -> str:
    """What would fit, where nothing does."""
    if not all(str(found.reason).startswith("does not fit") for found in plans):
        return ""
    return next((text.partition("; try ")[2] for found in plans for text in found.warnings if "; try " in text), "")


def _beside_rows(answers: Sequence[Plans], days: Sequence[Day], told: _Told) -> dict[str, Any]:
    """What a document has beside its rows."""
    more: dict[str, Any] = {
        "steps": [step.to_dict() for answer in answers for step in answer.steps],
        "pools": [pools.to_dict() for answer in answers for pools in answer.pools],
        "notes": [text for answer in answers for text in answer.notes],
        **told.documents,
    }
    if days:
        more["day"] = days[0].to_dict()
    return more


#: The former name of `plan`.
size = plan


class _Told(NamedTuple):
    """What was asked beyond the plans: sentences, and the same for documents."""

    texts: list[str]
    documents: dict[str, Any]


def _told(answers: Sequence[Plans], *, why: bool, next_measurement: bool) -> _Told:
    """Why plans are where they are, what would change the first, and the run that would tell most."""
    told = _Told([], {})
    if not (why or next_measurement):
        return told
    if len(answers) != 1:
        raise click.UsageError("--why and --next-measurement are about one case; ask once for each")
    from roofline.questions.ranking import contenders
    from roofline.questions.turning_points import next_measurement as measurements
    from roofline.questions.turning_points import turning_points

    (answer,) = answers
    if why:
        points = turning_points(answer)
        told.documents["turning_points"] = points.to_rows()
        if answer.best is not None:
            told.texts.append("; ".join(map(str, points)) or "no rent, load or limit that was tried changes the first")
            others = contenders(answer)[1:] if flags().is_full else []
            told.texts.extend(f"{found.text}: {found.why}" for found in others)
    if next_measurement:
        runs = measurements(answer)
        told.documents["next_measurement"] = runs.to_rows()
        first, *rest = runs
        told.texts.extend([f"measure {first}", *(f"then {run}" for run in rest if flags().is_full)])
    return told


def _at_peak(cases: Sequence[dict[str, Any]], rate_by_hour: str) -> list[dict[str, Any]]:
    """Cases at the largest rate of a day."""
    from roofline.questions.inputs.rates import rates_of_day

    peak = max(rate for _, rate in rates_of_day(rate_by_hour))
    stated = next((name for name in LOADS if cases[0].get(name) is not None), None)
    if stated is not None:
        raise click.UsageError(f"--rate-by-hour is the load; leave out --{stated.replace('_', '-')}")
    return [{**case, "request_rate": peak} for case in cases]


def _days(answers: Sequence[Plans], rate_by_hour: str, start_up: str | None) -> list[Day]:
    from roofline.questions.day import day

    return [day(answer.best, rate_by_hour, start_up=start_up or 0.0) for answer in answers if answer.best is not None]


def _day_lines(answer: Day) -> list[str]:
    """Replicas by hour, and what a day costs."""
    lines = [f"-- a day on {answer.gpu} --"]
    for span in answer.spans:
        end = (span.start + span.hours) % 24 or 24
        replicas = counted(span.prediction.deployment.replicas, "replica")
        wait = f", {rounded(span.backlog)} wait at the start" if span.backlog else ""
        gpus = counted(span.num_gpus, "GPU")
        lines.append(f"  {span.start:g}-{end:g} h: {rounded(span.rate)} requests/s, {replicas}, {gpus}{wait}")
    return [*lines, *prose(str(answer)).split("\n")]


def _pool_lines(answers: Sequence[Plans]) -> list[str]:
    """Prefill and decode pools beside the plans of one pool."""
    from roofline.questions.pool_plans import pools_text

    texts = [pools_text(pools) for answer in answers for pools in answer.pools]
    return ["-- two pools: prefill + decode --", *(f"  {text}" for text in texts or ["none meets it"])]


def _step_lines(answer: Plans) -> list[str]:
    """Where one plan ends and the next begins along a growing load."""
    if not answer.steps:
        return []
    texts = [f"  {step}" for step in answer.steps]
    if len(texts) > _MOST_STEPS and not flags().is_full:
        half = _MOST_STEPS // 2
        left = len(texts) - 2 * half
        texts = [*texts[:half], f"  ... {counted(left, 'more plan')} (--all)", *texts[-half:]]
    return ["-- as the load grows --", *texts]


def _screen(
    models: tuple[str, ...],
    plans: list[GpuPlan],
    rows: Sequence[Mapping[str, Any]],
    columns: list[ScreenColumn],
    options: Mapping[str, Any],
    objective: str,
    *,
    is_named: bool,
) -> Screen:
    """GPUs that meet the SLO, cheapest first, and the nearest misses."""
    answered = [(found, row) for found, row in zip(plans, rows, strict=True) if found.prediction is not None]
    statuses = (found.gpu.status for found, _ in answered)
    first, others = split_by_rule(statuses, [row for _, row in answered], is_named=is_named)
    misses = [found for found in plans if found.prediction is None]
    nearest = [found for found in misses if found.excess is not None or found.over_budget is not None]
    near = misses if is_named or flags().is_full else nearest[:_MISSES]
    texts = (f"{found.verdict:5} {_label(found, len(models))}: {_why_not(found)}" for found in near)
    lines = [shorten(text, terminal_width()) for text in texts]
    left = len(misses) - len(lines)
    unknown = [found for found, _ in answered if found.verdict is None]
    if lines:
        lines = [f"-- {'nearest misses' if left else 'misses'} --", *lines]
    lines = [*(f"{_label(found, len(models))}: {found.reason}" for found in unknown[:_MISSES]), *lines]
    case = case_text(models, options, [preset] if (preset := _one_preset(options)) else [])
    return Screen(
        columns=columns,
        rows=first,
        others=others,
        rule=BELOW_RULE,
        case=case,
        answer=_answer(first, others, misses, objective),
        lines=lines,
        hidden=left,
        legend=UNSURE if any(str(row["slo_verdict"]).endswith("?") for row in (*first, *others)) else "",
    )


def _answer(
    first: Sequence[Mapping[str, Any]], others: Sequence[Mapping[str, Any]], misses: Sequence[GpuPlan], objective: str
) -> str:
    """The first GPUs that meet the SLO."""
    beyond = [found for found in misses if found.over_budget is not None]
    if not first:
        if beyond:
            return f"none within the budget; nearest: {str(beyond[0].reason).removeprefix('over budget: it takes ')}"
        return "the only kind of GPU misses it" if len(misses) == 1 else f"none of {len(misses)} kinds of GPU meets it"
    first = for_sale(first)
    best = first[0]
    if best["slo_verdict"] is None:
        return _not_known(first, len(others), len(misses))
    unknown = sum(row["slo_verdict"] is None for row in first)
    tokens = best.get("usd_per_m_output_tok")
    cost = [] if best.get("usd_per_hour") is None else [rent_text(best)]
    cost += [] if tokens is None else [output_price(tokens)]
    price = f" at {', '.join(cost)}" if cost else ""
    by = by_estimate(best) or ("" if best["slo_verdict"] == "pass" else " by the central estimate")
    met = len({row["gpu"] for row in first if row["slo_verdict"] is not None})
    which = f"; {_FIRST[objective]} of {met} kinds of GPU that do" if met > 1 and cost else ""
    more = f", {len(others)} more below the rule" if others else ""
    over = f"; {len(beyond)} {'kind' if len(beyond) == 1 else 'kinds'} over the budget" if beyond else ""
    cannot = f"; {len(misses) - len(beyond)} cannot" if len(misses) > len(beyond) else ""
    cannot += f"; not known for {unknown}" if unknown else ""
    if beyond and not cost:
        nearest = str(beyond[0].reason).removeprefix("over budget: it takes ")
        over = f"; none with a known rent is within the budget, nearest: {nearest}"
    return f"{gpus_text(best)} meets it{by}{price}{which}{more}{over}{cannot}"


def _not_known(first: Sequence[Mapping[str, Any]], others: int, misses: int) -> str:
    """That none of the GPUs is known to meet the SLO, and which are the fewest that may."""
    best = first[0]
    if best["slo_binding"] is None:
        return f"no limit of the SLO applies to answers of one token; {gpus_text(best)} holds the model"
    rent = "" if best.get("usd_per_hour") is None else f" at {rent_text(best)}"
    more = f", {others} more below the rule" if others else ""
    cannot = f"; {misses} cannot" if misses else ""
    return f"not known whether {gpus_text(best)} meets it{by_estimate(best)}{rent}, the fewest that may{more}{cannot}"


def _one_preset(options: Mapping[str, Any]) -> str | None:
    presets = list(options.get("quantization") or ())
    return presets[0] if len(presets) == 1 else None


def _why_not(found: GpuPlan) -> str:
    """Why a GPU misses the SLO, to follow its verdict."""
    reason = str(found.reason).removeprefix("misses: ")
    at_limit = "misses at the hardware limit: "
    return f"{reason.removeprefix(at_limit)}, at the hardware limit" if reason.startswith(at_limit) else reason


def _label(found: GpuPlan, models: int) -> str:
    return found.gpu.name if models == 1 else f"{found.model.short_name} on {found.gpu.name}"


def _none_meets(models: list[str], gpus: tuple[str, ...], slo: Mapping[str, float]) -> str:
    from roofline.questions.goodput import limits_text

    return (
        f"{', '.join(models)}: no plan on {named_gpus(gpus)} meets --slo {limits_text(slo)}; "
        "loosen it, lower the load, or allow other GPUs (-g) or number formats (-q)"
    )
