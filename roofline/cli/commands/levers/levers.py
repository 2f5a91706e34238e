"""Changes that make a server faster or cheaper: the `levers` command."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import click

from roofline.api.levers import levers as question
from roofline.api.levers import pulled as api
from roofline.api.levers.quality import is_free
from roofline.api.ranking import meeting_first
from roofline.cli.answers import asked_format, binding_text, case_text, gpus_text, output_price, plan_of
from roofline.cli.case import case_options, one_case
from roofline.cli.columns import SLO_MET
from roofline.cli.help import Question
from roofline.cli.options import output_options, required_share, share_option
from roofline.cli.render import labelled, show
from roofline.cli.screen import Row, Screen, ScreenColumn, flags, terminal_width
from roofline.quantity import KILO, rounded, to_text

#: Goal -> heading, key of its figure, key of its change.
_GOALS = {
    "ttft": ("TTFT p99", "ttft_p99_ms", "ttft_p99_change"),
    "tpot": ("TPOT ms", "tpot_ms", "tpot_change"),
    "goodput": ("req/s", "goodput", "goodput_change"),
    "cost": ("USD/1k req", "per_thousand", "cost_change"),
}
_MEAN_TTFT = ("mean TTFT", "ttft_ms", "ttft_change")  # where the p99 is not known
_CHANGES = {
    "ttft_p99_change": "TTFT p99",
    "ttft_p50_change": "TTFT p50",
    "tpot_change": "TPOT",
    "goodput_change": "goodput",
    "cost_change": "cost",
}
_SHORT = {"ttft_p50_change": "p50"}
_WITHIN_ROUNDING = f"-: less than {100.0 * api.WORTH:.0f} %, or of next to nothing"
_TOGETHER = {2: "these two together", 3: "these three together"}


def _columns(answer: api.Levers, options: Mapping[str, Any]) -> list[ScreenColumn]:
    goal, figure = answer.goal, answer.start.goal_figure(answer.goal)
    heading, key, changed = _MEAN_TTFT if figure == "ttft" else _GOALS[goal]
    others = [name for name in _CHANGES if name != changed]
    headings = {**_CHANGES, **(_SHORT if goal == "ttft" else {})}
    ranks = {"ttft_p50_change": 2 if goal != "ttft" else 1}
    return [
        ScreenColumn("#", "number"),
        ScreenColumn("lever", "shown"),
        ScreenColumn(heading, key),
        ScreenColumn("change", changed, cell=_change(changed)),
        *([SLO_MET] if options.get("slo") else []),
        *(ScreenColumn(headings[name], name, ranks.get(name, 1), cell=_change(name)) for name in others),
        ScreenColumn("USD/M out", "of_tokens", 2),
        ScreenColumn("answers", "quality", 3, cell=_quality),
    ]


def _change(key: str) -> Callable[[Row], str]:
    """A change in percent; a dash where it is within rounding."""
    return lambda row: "-" if abs(row.get(key) or 0.0) < api.WORTH else api.change_text(row[key])


def _quality(row: Row) -> str:
    return "-" if row.get("quality") is None else "same" if is_free(row["quality"]) else "check"


@click.command(
    cls=Question,
    epilog="\b\nExamples:\n"
    "  roofline levers -m llama-3.3-70b -g h100:fp8 --workload chat -c 16\n"
    "  roofline levers --for tpot -m qwen3-32b -g h100:tp2 --isl 4k -c 64\n"
    "  roofline levers --for cost -m llama-3.1-8b -g l40s --workload rag -c 8",
)
@click.option(
    "--for",
    "goal",
    type=click.Choice(tuple(api.GOALS)),
    help="What is to be made better; ttft is its p99, cost that of a request.  [default: tpot where it misses the SLO "
    "most, else ttft]",
)
@partial(case_options, without=("batch", "num_prompts", "measured", "allow_oversize"), single=True, of_loads=True)
@share_option
@output_options
def levers(
    goal: str | None,
    models: tuple[str, ...],
    gpus: tuple[str, ...],
    options: dict[str, Any],
    output_format: str,
    *,
    share: float | None,
) -> None:
    """Every lever of one case under load, alone and together: what it does, why, and what it costs."""
    model, gpu = one_case(models, gpus)
    share = required_share(options, share)
    answer = question.levers(model, gpu, goal=goal, share=share, **options)
    rows: Sequence[Mapping[str, Any]] = answer.to_records()
    screen = _screen(answer, rows, options, output_format, is_open=goal is None)
    show(screen, output_format, rows, {"goal": answer.goal, "notes": list(answer.notes)})


def _screen(
    answer: api.Levers,
    rows: Sequence[Mapping[str, Any]],
    options: Mapping[str, Any],
    output_format: str,
    *,
    is_open: bool,
) -> Screen:
    start, *others = rows
    numbers = {lever.name: str(place) for place, lever in enumerate(answer.alone, 1)}
    is_whole = flags().is_full or output_format == "markdown"
    begun = {lever.parts[:-1] for lever in answer.together}
    chains = {lever.name for lever in answer.together if is_whole or lever.parts not in begun}
    able = [row for row in others if row["reason"] is None and (len(row["levers"]) < 2 or row["lever"] in chains)]
    listed = [_shown(row, numbers, start) for row in able]
    unable = [row for row in others if row["reason"] is not None]
    end = f"{gpus_text(start)} {plan_of(start)}"
    if is_open and answer.goal == "tpot":
        end += " \u00b7 for TPOT, which binds"
    columns = _columns(answer, options)
    if output_format == "markdown":
        columns = [*columns, ScreenColumn("why", "why"), ScreenColumn("reason", "reason")]
        listed = [_shown(start, numbers, start), *listed, *({**row, "shown": row["lever"]} for row in unable)]
        unable = []
    else:
        listed = meeting_first(listed, lambda row: row["slo_verdict"])
    return Screen(
        columns=columns,
        rows=listed,
        needed=_chains_and_parts(listed),
        legend=_WITHIN_ROUNDING,
        case=case_text([start["model"]], options, asked_format(options), end),
        answer=_answer(answer),
        lines=[*_why(answer, in_full=flags().is_full), *_unable(unable, in_full=flags().is_full)],
        notes=[*answer.notes, *_assumptions(answer), *_qualities(answer), *labelled([("", start["warnings"])])],
    )


def _chains_and_parts(rows: Sequence[Row]) -> list[Row]:
    """Combinations, and the levers by whose numbers they are known."""
    numbered = {part for row in rows if len(row["levers"]) > 1 for part in row["levers"]}
    return [row for row in rows if len(row["levers"]) > 1 or row["lever"] in numbered]


def _shown(row: Mapping[str, Any], numbers: Mapping[str, str], start: Mapping[str, Any]) -> dict[str, Any]:
    """A row with the cells that people see."""
    parts = row["levers"]
    cost_key = "usd_per_m_output_tok" if start["goodput"] is None else "goodput_usd_per_m_output_tok"
    cost = row["lever_usd_per_request"]
    return {
        **row,
        "number": "+".join(sorted((numbers[part] for part in parts), key=int)) if parts else "-",
        "shown": row["lever"] if len(parts) < 2 else _TOGETHER[len(parts)],
        "per_thousand": None if cost is None else KILO * cost,
        "of_tokens": row[cost_key],
        "ttft_change": None if row["ttft_ms"] is None else row["ttft_ms"] / start["ttft_ms"] - 1.0,
    }


def _answer(answer: api.Levers) -> str:
    """The best lever of those that meet the SLO, alone and with others, and the case as it is."""
    best, start = answer.best, answer.start
    verb, name = "raises" if answer.goal == "goodput" else "cuts", answer.goal_text
    within = " within the SLO" if start.answer.slo else ""
    lines = []
    if answer.nearest is not None:
        near = answer.nearest
        is_known = all(row.verdict is not None for row in (start, *answer.together, *answer.alone))
        known = "meets" if is_known else "is known to meet"
        closest = f"; nearest: {near.name}, {binds}" if (binds := _binding(near)) else ""
        lines.append(f"no lever {known} the SLO, alone or with others{closest}")
    if best is None and not lines:
        where = (
            " at this load; --slo ranks by the cost within it"
            if answer.goal == "cost" and not start.goodput
            else within
        )
        lines.append(f"no lever {verb} {name}{where}")
    if best is not None:
        moved = f"{_figure(answer, start, with_unit=False)} -> {_figure(answer, best)}"
        does = f"{verb} {name} most"
        if best.meets_slo:
            does += within
            if not api.is_better(best.score(answer.goal), start.score(answer.goal)):
                does = f"meets the SLO, which the case as it is misses; {name}"
        elif start.answer.slo and not lines:
            lines.append("no lever alone meets the SLO at this load")
        if "generic" in (best.to_dict()["basis"], start.prediction.basis):
            does += " by a rough estimate"
        differs = "" if is_free(best.quality) else "; its answers differ"
        lines.append(f"{best.name} {does}: {moved}{_with_others(answer, best)}{differs}")
        free = answer.best_alike
        if differs and free is not None:
            misses = " (SLO not known)" if free.verdict is None else " (it misses the SLO)"
            misses = misses if within and not free.meets_slo else ""
            others = _with_others(answer, free) if len(free.parts) < 2 else ""
            lines.append(f"with the same answers: {_joined(free.parts)}, {_figure(answer, free)}{misses}{others}")
    return "\n".join([*lines, f"as it is: {_figures(start)}"])


def _binding(lever: api.Pulled) -> str:
    """The limited latency that is furthest over its limit."""
    shares = {key: share for key, share in lever.answer.slo_shares.items() if share == share}  # noqa: PLR0124 - known
    if not shares:
        return ""
    key = max(shares, key=lambda name: float(shares[name]))
    time = lever.answer.latency(key)
    text = (
        "" if time is None else f" {rounded(float(time))}x" if key == "p99_within" else f" {to_text(float(time), 's')}"
    )
    return f"{binding_text(key)}{text}"


def _with_others(answer: api.Levers, lever: api.Pulled) -> str:
    """The figure with the best further levers."""
    chains = [chain for chain in answer.together if chain.parts[0] == lever.parts[0]]
    if not chains:
        return ""
    longest = max(chains, key=lambda chain: len(chain.parts))
    met = ", which meets the SLO" if longest.meets_slo and not lever.meets_slo else ""
    return f"; {_figure(answer, longest)} with {_joined(longest.parts[1:])}{met}"


def _joined(names: Sequence[str]) -> str:
    """Names as in ``this, that and another``."""
    return " and ".join([*([", ".join(names[:-1])] if len(names) > 1 else []), names[-1]])


def _figure(answer: api.Levers, lever: api.Pulled, *, with_unit: bool = True) -> str:
    """The figure of the goal; times always have their unit."""
    value = lever.figure(lever.goal_figure(answer.goal))
    if value is None:
        return "-"
    if answer.goal == "cost":
        return f"{rounded(KILO * value)}{' USD per 1000' if with_unit else ''}"
    if answer.goal == "goodput":
        return f"{rounded(value)}{' requests/s' if with_unit else ''}"
    return to_text(value, "s")


def _figures(case: api.Pulled) -> str:
    times = {"TTFT p50": case.figure("ttft_p50"), "p99": case.figure("ttft_p99"), "TPOT": case.figure("tpot")}
    texts = [f"{name} {to_text(time, 's')}" for name, time in times.items() if time is not None]
    price = case.goodput_usd_per_m_output_tok if case.goodput is not None else case.answer.usd_per_m_output_tok
    cost = "" if price is None else output_price(float(price))
    if case.answer.slo:
        judged = case.answer.slo_verdict
        texts.append(f"SLO {case.verdict or (None if judged is None else judged.text)}")
    if case.goodput is not None:
        cost = f"goodput {rounded(case.goodput.rate)} requests/s" + (f" at {cost}" if cost else "")
    return ", ".join([*texts, *([cost] if cost else [])])


def _why(answer: api.Levers, *, in_full: bool) -> list[str]:
    """The main reason of the best lever; in full every reason of every lever that helps."""
    shown = (
        [lever for lever in (*answer.together, *answer.alone) if lever.helps(answer.goal)] if in_full else [answer.best]
    )
    reasons = [(lever.name, str(lever.why(answer.goal))) for lever in shown if lever is not None]
    return [f"{name}: {reason if in_full else reason.partition(', ')[0]}" for name, reason in reasons]


def _unable(rows: Sequence[Mapping[str, Any]], *, in_full: bool) -> list[str]:
    if not rows:
        return []
    texts = [f"{row['lever']}: {row['reason']}" for row in rows]
    return ["-- cannot be pulled ".ljust(terminal_width(), "-"), *(texts if in_full else ["; ".join(texts)])]


def _assumptions(answer: api.Levers) -> list[str]:
    return [f"{lever.name}: {lever.assumption}" for lever in answer.alone if lever.assumption is not None]


def _qualities(answer: api.Levers) -> list[str]:
    return [f"{lever.name}: {lever.quality}" for lever in answer.alone if not is_free(lever.quality)]
