"""How much load, at what price: the commands `goodput`, `curve` and `cost`."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from itertools import product
from textwrap import shorten
from typing import TYPE_CHECKING, Any

import click

from roofline.cli.answers import (
    BELOW_RULE,
    GPUS,
    PLAN,
    PLAN_KEYS,
    SLO_MET,
    TOK_S_GPU,
    TOK_S_USER,
    USD_HOUR,
    USD_MONTH,
    USD_TOKENS,
    asked_format,
    by_estimate,
    case_text,
    deployed_text,
    energy_columns,
    for_sale,
    gpus_text,
    is_idle,
    latency,
    limit_column,
    miss_text,
    model_column,
    named_gpus,
    others_text,
    output_price,
    passing,
    percent_column,
    ranked,
    split_by_rule,
    verdict_columns,
    without_idle_prices,
)
from roofline.cli.case import one_answer, one_case, question, required_share, shown_keys, together, with_varying
from roofline.cli.options import (
    API_PRICE,
    TERMINAL,
    for_people,
    labelled,
    plot_option,
    plotted,
    read,
    share_option,
    show,
)
from roofline.cli.screen import MARK, Row, Screen, ScreenColumn, terminal_width
from roofline.cli.start import flag_line
from roofline.numbers.quantity import percent_figure, rounded, rounded_down
from roofline.questions.inputs.arguments import binding_text, is_on_mean
from roofline.questions.inputs.case import KIND_OF, LOADS, Load
from roofline.questions.inputs.deployment import check_settings, own_settings
from roofline.questions.inputs.options import SHARE
from roofline.questions.inputs.rates import rates_of_day
from roofline.questions.predict import meeting_first
from roofline.support.errors import RooflineError
from roofline.support.progress import each
from roofline.support.records import replace

if TYPE_CHECKING:
    from roofline.questions import cost as cost_question
    from roofline.questions import curve as curve_question
    from roofline.questions import goodput as goodput_question

# The largest request rate within an SLO: the `goodput` command.

_LEVELS = {"ttft": "p99", "tpot": "p99"}  # shown where the SLO limits no percentile


def _goodput_columns(options: Mapping[str, Any], models: int, share: float | None) -> list[ScreenColumn]:
    return [
        MARK,
        *model_column(models),
        GPUS,
        PLAN,
        ScreenColumn("req/s", "goodput", cell=_rounded_down("goodput")),
        ScreenColumn("req/s/GPU", "goodput_gpu", 1, cell=_rounded_down("goodput_gpu")),
        SLO_MET,
        percent_column("util", "goodput_util", 1),
        limit_column("limited by", "goodput_binding", 1, lambda key: is_on_mean(key, share), "goodput"),
        *(_tail_column(metric, options) for metric in ("ttft", "tpot")),
        ranked(TOK_S_GPU, 4),
        USD_HOUR,
        ranked(USD_TOKENS, 1),
        *energy_columns(options),
    ]


def _tail_column(metric: str, options: Mapping[str, Any]) -> ScreenColumn:
    """The percentile that the SLO limits, else the p99."""
    limited = [column for column in latency(metric, options, 2, with_range=False) if "_p" in column.key]
    name = _LEVELS[metric]
    return limited[0] if limited else ScreenColumn(f"{metric.upper()} {name} ms", f"{metric}_{name}_ms", 2)


def _rounded_down(key: str) -> Callable[[Row], str]:
    return lambda row: rounded_down(row[key]) if row.get(key) else "-"


_HEADROOM = "util: goodput over the saturation rate; the rest is headroom that keeps tails short"


@question(
    "roofline goodput -m llama-3.3-70b -q fp8 -g h100,b200 --workload chat",
    "roofline goodput -m llama-3.3-70b -q fp8 --isl 4k --slo ttft:500@p95,tpot:25",
    "roofline goodput -m deepseek-r1 -g b200:tp8 --workload 8k1k --slo ttft:5s",
)
@share_option
def goodput(
    models: tuple[str, ...],
    gpus: tuple[str, ...],
    cases: list[dict[str, Any]],
    output_format: str,
    *,
    share: float | None,
) -> None:
    """The largest request rate at which requests meet an SLO, what binds, and what a token costs there."""
    from roofline.questions import goodput as goodput_question

    if not cases[0].get("slo"):
        raise click.UsageError("goodput needs an SLO: --slo ttft:300,tpot:25 (ms), or a --workload with one")
    *_, share = (required_share(case, share) for case in cases)
    options = together(cases)
    answers = [
        answer
        for model, case in product(models, cases)
        for answer in goodput_question.goodput(model, gpus or None, share=share, **case)
    ]
    answers.sort(key=lambda answer: not answer.rate)
    columns = with_varying(_goodput_columns(options, len(models), share), cases)
    keys = shown_keys(columns, output_format, "goodput_util")
    rows = [answer.to_dict(keys) for answer in answers]
    shown = [answer for answer in answers if answer.rate or gpus]
    notes = [_HEADROOM, *labelled((answer.gpu.name, answer.warnings) for answer in shown)]
    screen = _goodput_screen(models, answers, rows, columns, options, share, is_named=bool(gpus))
    screen = one_answer(replace(screen, notes=notes), cases)
    if output_format == "markdown":
        columns = [*screen.columns, ScreenColumn("reason", "reason")]
        screen = replace(screen, columns=columns, rows=rows, others=[], lines=[])
    failure = ""
    if not any(answer.rate for answer in answers):
        is_said = bool(gpus) or output_format != "table"
        why = "" if is_said else "; --format markdown or json says why for each"
        failure = f"{', '.join(models)}: no request meets the SLO on {named_gpus(gpus)}{why}"
    show(replace(screen, below=failure), output_format, rows)
    if failure:
        raise RooflineError(failure)


def _goodput_screen(
    models: tuple[str, ...],
    answers: Sequence[goodput_question.GpuGoodput],
    rows: Sequence[Mapping[str, Any]],
    columns: Sequence[ScreenColumn],
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
        columns=columns,
        rows=first,
        others=others if is_named else [*others, *missing],
        rule=BELOW_RULE,
        case=case_text(models, options, asked_format(options), load=False, is_mean=True, share=share),
        answer=_goodput_answer(first, len(others)),
        lines=[
            shorten(f"fail  {row['gpu']}: {str(row['reason']).removeprefix('misses: ')}", terminal_width())
            for row in (missing if is_named else ())
        ],
    )


def _goodput_answer(first: Sequence[Mapping[str, Any]], others: int) -> str:
    """The GPUs that answer cheapest per token, and their rate."""
    if not first:
        return ""
    first = for_sale(first)
    best = first[0]
    cost = best.get("usd_per_m_output_tok")
    price = "" if cost is None else f" at {output_price(cost)}"
    price = f", next to none: {percent_figure(best['goodput_util'], 2)} % of the saturation" if is_idle(best) else price
    which = f"; {'first' if cost is None else 'cheapest'} of {len(first)} kinds of GPU" if len(first) > 1 else ""
    more = f", {others} more below the rule" if others else ""
    rate = f"{rounded_down(best['goodput'])} requests/s within the SLO"
    return f"{gpus_text(best)} answers {rate}{by_estimate(best)}{price}{which}{more}"


# Latencies and throughput along the load: the `curve` command.


def _curve_columns(
    curves: Sequence[curve_question.Curve], against: type[Load], *, with_slo: bool, with_range: bool
) -> list[ScreenColumn]:
    models = model_column(len({_model(curve) for curve in curves}))
    which = [*models, ScreenColumn("GPU", "gpu"), ScreenColumn("tp", "tp", 2)] if len(curves) > 1 else []
    return [
        *which,
        ScreenColumn(against.heading, against.option, 0),
        *([ScreenColumn("req/s", "request_rate", 1)] if "request_rate" in against.answers else []),
        percent_column("util", "util", 2),
        *_percentiles("ttft", with_range=with_range),
        *_percentiles("tpot", with_range=with_range),
        ranked(TOK_S_USER, 5),
        TOK_S_GPU,
        ranked(USD_TOKENS, 4),
        *([SLO_MET] if with_slo else []),
    ]


def _percentiles(metric: str, *, with_range: bool) -> list[ScreenColumn]:
    """The median in its range, and the p99."""
    name, key = f"{metric.upper()} p50 ms", f"{metric}_p50"
    ends = (f"{key}_low_ms", f"{key}_high_ms") if with_range else None
    median = ScreenColumn(f"{name} (80 %)" if with_range else name, f"{key}_ms", interval=ends)
    return [median, ScreenColumn("p99", f"{metric}_p99_ms", 1)]


_SUMMARIES = 2  # above the table; more stand below it


@question(
    "roofline curve -m llama-3.3-70b -q fp8 -g h100:tp4 --workload chat --plot",
    "roofline curve -m llama-3.3-70b -q fp8 -g h100,b200 --against users -o c.svg",
)
@click.option(
    "--against",
    type=click.Choice(("rate", "users")),
    default="rate",
    show_default=True,
    help="Load on the x axis: rate or users.",
)
@share_option
@click.option(
    "--pareto", is_flag=True, expose_value=False, help="The frontier over plans and loads instead: roofline pareto."
)
@click.option(
    "--over",
    metavar="SETTING",
    expose_value=False,
    help="A setting of the engine in place of the load: max-num-batched-tokens or max-num-seqs (roofline budgets).",
)
@plot_option
def curve(
    models: tuple[str, ...],
    gpus: tuple[str, ...],
    options: dict[str, Any],
    output_format: str,
    *,
    against: str,
    share: float | None,
    plot: str | None,
) -> None:
    """TTFT, TPOT and throughput from an idle server to a full one: what a user gets against what a GPU gives."""
    from roofline.questions import curve as curve_question

    if not gpus:
        raise click.UsageError("curve needs one GPU or several, e.g. -g h100,b200")
    share = required_share(options, share)
    check_settings(gpus, options)
    curves = [
        curve_question.curve(model, gpu, against=against, share=share, **own_settings(gpu, options))
        for model, gpu in each(list(product(models, gpus)), "curves")
    ]
    picture = partial(curve_question.curve_picture, curves, with_ranges=plot != TERMINAL)
    if not plotted(plot, picture, texts=_warnings(curves)):
        _print(models, curves, options, output_format, share)


def _print(
    models: tuple[str, ...],
    curves: list[curve_question.Curve],
    options: dict[str, Any],
    output_format: str,
    share: float | None,
) -> None:
    formats = asked_format(options)
    end = "" if len(curves) > 1 else _deployed(curves[0])
    named = ["" if len(models) == 1 else f"{_model(curve)} on " for curve in curves]
    summaries = [f"{name}{_summary(curve, share)}" for name, curve in zip(named, curves, strict=True)]
    screen = Screen(
        columns=_curve_columns(
            curves,
            KIND_OF[curves[0].against],
            with_slo=bool(curves[0].slo),
            with_range=options.get("basis") != "ideal",  # the hardware limit has none
        ),
        rows=[row for curve in curves for row in curve.rows],
        case=case_text(models, options, formats, end, load=False, is_mean=True, share=share),
        answer="\n".join(summaries) if len(curves) <= _SUMMARIES else "",
        lines=summaries if len(curves) > _SUMMARIES else (),
        notes=_warnings(curves),
        is_curve=True,
    )
    show(screen, output_format)


def _summary(curve: curve_question.Curve, share: float | None) -> str:
    """Saturation and goodput in words."""
    most = f"{rounded(curve.saturation)} requests/s at most"
    if not KIND_OF[curve.against].is_open:
        most = f"slots for {curve.saturation:.0f} users"
    gpus = _deployed(curve)
    if curve.goodput is None:
        return f"{gpus}: {most}"
    key = curve.goodput.binding
    binding = binding_text(key, is_mean=is_on_mean(key, share))
    if not curve.goodput.rate:
        return f"{gpus}: {most}, none within the SLO: {binding}"
    limit = f"limited by {binding}" if curve.goodput.is_known else binding
    rate, util = rounded_down(curve.goodput.rate), 100.0 * curve.goodput.util
    return f"{gpus}: {most}; within the SLO {rate} requests/s ({util:.0f} %), {limit}"


def _model(curve: curve_question.Curve) -> str:
    return str(curve.prediction.deployment.model.short_name)


def _deployed(curve: curve_question.Curve) -> str:
    return deployed_text(curve.prediction.to_dict(PLAN_KEYS))


def _warnings(curves: Iterable[curve_question.Curve]) -> list[str]:
    texts = (text for curve in curves for text in curve.prediction.warnings)
    return [text for text in texts if not text.startswith(("under load", "tp ="))]


# Latencies along a setting of the engine: the `budgets` command, and `curve --over`.


def _budget_columns(setting: str, options: Mapping[str, Any]) -> list[ScreenColumn]:
    latencies = [
        column
        for metric in ("ttft", "tpot")
        for column in (
            ScreenColumn(f"{metric.upper()} ms", f"{metric}_ms"),
            ScreenColumn("p99 ms", f"{metric}_p99_ms"),
        )
    ]
    others = [*latency("ttft", options, with_range=False), *latency("tpot", options, with_range=False)]
    known = {column.key for column in latencies}
    return [
        MARK,
        ScreenColumn(_HEADINGS[setting], "setting_value"),
        ScreenColumn("", "role"),
        *latencies,
        *(column for column in others if column.key not in known),
        ScreenColumn("ITL p99 ms", "itl_p99_ms", 0 if "itl_p99" in (options.get("slo") or ()) else 1),
        percent_column("util", "util", 2),
        ranked(TOK_S_GPU, 3),
        *verdict_columns(options),
    ]


_HEADINGS = {"max_num_batched_tokens": "tokens", "max_num_seqs": "seqs"}


@question(
    "roofline curve --over max-num-seqs -m qwen3-8b -g h100 --engine vllm -c 64",
    "roofline budgets --over max-num-batched-tokens -m qwen3-8b -g h100 -c 8",
)
@click.option("--over", required=True, metavar="SETTING", help="max-num-batched-tokens or max-num-seqs.")
@click.option("--values", help="Its values, e.g. 2k,4k,8k.  [default: powers of two, and the engine's default]")
def budgets(
    over: str,
    values: str | None,
    models: tuple[str, ...],
    gpus: tuple[str, ...],
    options: dict[str, Any],
    output_format: str,
) -> None:
    """TTFT, TPOT and ITL along the token budget of a step, or the most sequences: the best for an SLO, and why."""
    from roofline.questions import budgets as budgets_question

    model, gpu = one_case(models, gpus)
    answer = budgets_question.budgets(model, gpu, over=over, values=values, **options)
    rows = answer.to_rows()
    first = next(row.prediction for row in answer if row.prediction is not None)
    screen = Screen(
        columns=_budget_columns(answer[0].setting, options),
        rows=[{**row, "role": _role(row)} for row in rows if row["reason"] is None],
        case=case_text(models, options, asked_format(options), deployed_text(first.to_dict(PLAN_KEYS))),
        answer=answer.why,
        lines=[f"{row.value:g}: {row.reason}" for row in answer if row.reason is not None],
        notes=labelled([("", first.warnings)]),
        is_curve=True,
    )
    show(screen, output_format, rows)


def _role(row: Mapping[str, Any]) -> str:
    names = {"best": row["is_best_value"], "default": row["is_default"]}
    return ", ".join(name for name, holds in names.items() if holds)


# Cost per hour, request and token, and against an API: the `cost` command.

_COST_LEGEND = (
    "USD/M all: the rent over all tokens, input, cached and output; in, cached, decode: the phases share the rent by "
    "the time that they take; each has the range of the rent, as json shows"
)


def _cost_columns(options: Mapping[str, Any], models: int) -> list[ScreenColumn]:
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
        ranked(USD_MONTH, 4),
        *energy_columns(options),
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


@question(
    "roofline cost -m llama-3.3-70b -q fp8 -g h100,b200 --isl 4k --osl 500",
    "roofline cost -m llama-3.3-70b -q fp8 -g h100 --api-price in:0.5,out:1.5",
    "roofline cost -m deepseek-r1 -g b200:tp8 --request-rate 2 --gpu-price 3-5",
)
@click.option("--api-price", type=API_PRICE, help="What an API charges, in USD per million tokens: in:0.5,out:1.5.")
@click.option(
    "--own",
    metavar="KEY:VALUE",
    help="Cost of owning a GPU, to compare with renting it: price:30k,years:4,power:1000,kwh:0.1,hosting:0.2 (USD, W).",
)
@click.option(
    "--rate-by-hour",
    help="A day, e.g. 8:5,12:20,20:8: a fixed deployment judged at the peak, and what tokens cost on average.",
)
@click.option(
    "--headroom",
    type=read(SHARE),
    help="Share of the saturation, or of the goodput with an SLO, that stays free.  [default: 0]",
)
@share_option
def cost(
    models: tuple[str, ...],
    gpus: tuple[str, ...],
    cases: list[dict[str, Any]],
    output_format: str,
    *,
    api_price: Mapping[str, float] | None,
    own: str | None,
    rate_by_hour: str | None,
    headroom: float | None,
    share: float | None,
) -> None:
    """What requests and tokens cost, and from which load on your own GPUs beat an API.

    USD/M all is the rent per million tokens of every kind, input and cached ones included, cheapest first; with an
    SLO, GPUs that meet it at this load come before the others. USD/M out spreads the same rent over output tokens.
    """
    from roofline.questions import cost as cost_question

    *_, of_workload = (case.pop("share", None) for case in cases)
    share = of_workload if share is None else share
    options = together(cases)
    if rate_by_hour is not None and not _has_load(options):
        options["request_rate"] = max(rate for _, rate in rates_of_day(rate_by_hour))
    answers = meeting_first(
        (
            answer
            for model, case in product(models, cases)
            for answer in cost_question.cost(
                model,
                gpus or None,
                api_price=api_price,
                own=own,
                rate_by_hour=rate_by_hour,
                headroom=headroom,
                share=share,
                **case,
            )
        ),
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
    if load_text.endswith("goodput") and share is not None:
        load_text += f" for {100.0 * share:g} % of requests"
    screen = Screen(
        columns=with_varying(_cost_columns(options, len(models)), cases),
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
            share=share,
        ),
        answer="" if best is None else _cost_answer(best, first, options, gpus, len(others)),
        lines=[
            *(shorten(f"{row['gpu']}: {row['reason']}", terminal_width()) for row in refused if gpus),
            *([] if best is None else _flags_of_cost(best)),
        ],
        hidden=0 if gpus else len(refused),
        notes=[_COST_LEGEND, *labelled((answer.gpu.name, answer.warnings) for answer in shown)],
    )
    failure = ""
    if best is None:
        is_said = bool(gpus) or not for_people(output_format)
        why = "" if is_said else "; --format json says why for each"
        failure = f"{', '.join(models)}: no cost on {named_gpus(gpus)}{why}"
    show(replace(one_answer(screen, cases), below=failure), output_format, rows)
    if failure:
        raise RooflineError(failure)


def _flags_of_cost(best: cost_question.GpuCost) -> list[str]:
    """What to type for the cheapest."""
    texts = best.to_dict(["flags"])["flags"]
    if best.prediction is None or not texts:
        return []
    return flag_line(best.prediction.deployment.engine.name, [" ".join(texts)])


def _has_load(options: Mapping[str, Any]) -> bool:
    return any(options.get(name) is not None for name in LOADS)


def _cost_answer(
    best: cost_question.GpuCost, rows: Sequence[Row], options: Mapping[str, Any], gpus: Sequence[str], others: int
) -> str:
    """The cheapest GPUs per token that meet the SLO, the source of their rent, and how they compare with an API."""
    rows = for_sale(rows)
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
            least = f"its goodput is {percent_figure(row['goodput_util'], 2)} % of the saturation"
            first = f"{gpus_text(row)}: {least}, next to none, so no price is shown"
        else:
            price = f"{rounded(row['usd_per_m_blended_tok'])} USD/M of all tokens"
            first = f"{gpus_text(row)}: {price}{by_estimate(row)}{which}{more} (rent: {row['price_source']})"
    if best.own is not None:
        first = f"{first}\n{best.own}"
    if best.api is None:
        return first
    against_api = ""
    if best.api.usd_per_request and _has_load(options):
        now = row["usd_per_request"] / best.api.usd_per_request
        against_api = f"; at this load {rounded(now)}x the API's price"
    rented = "" if best.own is None else "rented: "
    return f"{first}\n{rented}{best.api}{against_api}"
