"""What may be pulled to make a server faster or cheaper: the `levers` command."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import click

from roofline.api.goodput import DEFAULT_SHARE
from roofline.api.levers import levers as question
from roofline.api.levers import pulled as api
from roofline.api.levers.quality import is_free
from roofline.cli.answers import asked_format, case_text, gpus_text
from roofline.cli.case import case_options, one_case
from roofline.cli.columns import plan_of
from roofline.cli.help import Question
from roofline.cli.options import output_options
from roofline.cli.render import labelled, show
from roofline.cli.screen import Row, Screen, ScreenColumn, flags, terminal_width
from roofline.cli.values import ShareOfRequests
from roofline.quantity import KILO, rounded, to_text

__all__ = ["levers"]

#: Goal -> heading of its figure, its key and that of its change.
_GOALS = {
    "ttft": ("TTFT p99", "ttft_p99_ms", "ttft_p99_change"),
    "tpot": ("TPOT ms", "tpot_ms", "tpot_change"),
    "goodput": ("req/s", "goodput", "goodput_change"),
    "cost": ("USD/1k req", "per_thousand", "cost_change"),
}
_CHANGES = {
    "ttft_p99_change": "TTFT p99",
    "ttft_p50_change": "TTFT p50",
    "tpot_change": "TPOT",
    "goodput_change": "goodput",
    "cost_change": "cost",
}
_SHORT = {"ttft_p50_change": "p50"}
_TOGETHER = {2: "these two together", 3: "these three together"}


def _columns(goal: str) -> list[ScreenColumn]:
    heading, key, changed = _GOALS[goal]
    others = [name for name in _CHANGES if name != changed]
    headings = {**_CHANGES, **(_SHORT if goal == "ttft" else {})}
    ranks = {"ttft_p50_change": 2 if goal != "ttft" else 1}
    return [
        ScreenColumn("#", "number"),
        ScreenColumn("lever", "shown"),
        ScreenColumn(heading, key),
        ScreenColumn("change", changed, cell=_change(changed), also=(changed,)),
        *(ScreenColumn(headings[name], name, ranks.get(name, 1), cell=_change(name), also=(name,)) for name in others),
        ScreenColumn("USD/M tok", "of_tokens", 2),
        ScreenColumn("answers", "quality", 3, cell=_quality, also=("quality",)),
    ]


def _change(key: str) -> Callable[[Row], str]:
    return lambda row: "-" if row.get(key) is None else api.change_text(row[key])


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
    default="ttft",
    show_default=True,
    help="What is to be made better; ttft is its p99, cost that of a request.",
)
@partial(case_options, without=("batch", "num_prompts", "measured", "allow_oversize"), one=True, of_loads=True)
@click.option(
    "--share",
    type=ShareOfRequests(),
    help="Share of requests that must meet the limits without a percentile.  [default: 90%, or the workload's]",
)
@output_options
def levers(
    goal: str,
    models: tuple[str, ...],
    gpus: tuple[str, ...],
    options: dict[str, Any],
    output_format: str,
    *,
    share: float | None,
) -> None:
    """Every lever of one case under load, alone and together: what it does, why, and what it costs."""
    model, gpu = one_case(models, gpus)
    share_of_workload = options.pop("share", None)
    share = share_of_workload if share is None else share
    found = question.levers(model, gpu, goal=goal, share=DEFAULT_SHARE if share is None else share, **options)
    rows: Sequence[Mapping[str, Any]] = found.to_records()
    screen = _screen(found, rows, options, output_format)
    show(screen, output_format, rows, {"goal": found.goal, "notes": list(found.notes)})


def _screen(
    found: api.Levers, rows: Sequence[Mapping[str, Any]], options: Mapping[str, Any], output_format: str
) -> Screen:
    start, *others = rows
    numbers = {one.name: str(place) for place, one in enumerate(found.alone, 1)}
    is_whole = flags().is_full or output_format == "markdown"
    chains = {one.name for one in found.together if is_whole or len(one.parts) == _longest(found)}
    able = [row for row in others if row["reason"] is None and (len(row["levers"]) < 2 or row["lever"] in chains)]
    listed = [_shown(row, numbers, start) for row in able]
    unable = [row for row in others if row["reason"] is not None]
    plan = f"{gpus_text(start)} {plan_of(start)}"
    columns = _columns(found.goal)
    if output_format == "markdown":
        columns = [*columns, ScreenColumn("why", "why"), ScreenColumn("reason", "reason")]
        listed = [_shown(start, numbers, start), *listed, *({**row, "shown": row["lever"]} for row in unable)]
        unable = []
    return Screen(
        columns=columns,
        rows=listed,
        case=case_text([start["model"]], options, asked_format(options), plan),
        answer=_answer(found),
        lines=[*_why(found, in_full=flags().is_full), *_unable(unable, in_full=flags().is_full)],
        notes=[*found.notes, *_assumptions(found), *_qualities(found), *labelled([("", start["warnings"])])],
    )


def _longest(found: api.Levers) -> int:
    """Levers in the longest chain; a first screen leaves out the steps to it."""
    return max(len(one.parts) for one in found.together)


def _shown(row: Mapping[str, Any], numbers: Mapping[str, str], start: Mapping[str, Any]) -> dict[str, Any]:
    """A row with what people see of it."""
    parts = row["levers"]
    at = "usd_per_m_output_tok" if start["goodput"] is None else "goodput_usd_per_m_output_tok"
    cost = row["lever_usd_per_request"]
    return {
        **row,
        "number": "+".join(sorted((numbers[part] for part in parts), key=int)) if parts else "-",
        "shown": row["lever"] if len(parts) < 2 else _TOGETHER[len(parts)],
        "per_thousand": None if cost is None else KILO * cost,
        "of_tokens": row[at],
    }


def _answer(found: api.Levers) -> str:
    """The lever that moves the goal most, with what else, and the case as it is."""
    best, start = found.best, found.start
    verb = "raises" if found.goal == "goodput" else "cuts"
    if best is None:
        where = " at this load; --slo ranks by the cost within it" if found.goal == "cost" and not start.goodput else ""
        return f"no lever {verb} {api.GOALS[found.goal]}{where}\nas it is: {_figures(start)}"
    moved = f"{_figure(found, start, with_unit=False)} -> {_figure(found, best)}"
    lines = [f"{best.name} {verb} {api.GOALS[found.goal]} most: {moved}{_with(found, best)}"]
    if not is_free(best.quality):
        lines[0] += "; its answers differ"
        free = next((one for one in found.alone if is_free(one.quality) and one.helps(found.goal)), None)
        if free is not None:
            lines.append(f"with the same answers: {free.name}, {_figure(found, free)}{_with(found, free)}")
    return "\n".join([*lines, f"as it is: {_figures(start)}"])


def _with(found: api.Levers, one: api.Pulled) -> str:
    """What the best levers beside this one make of it."""
    chains = [chain for chain in found.together if chain.parts[0] == one.parts[0]]
    if not chains:
        return ""
    longest = max(chains, key=lambda chain: len(chain.parts))
    return f"; {_figure(found, longest)} with {' and '.join(longest.parts[1:])}"


def _figure(found: api.Levers, one: api.Pulled, *, with_unit: bool = True) -> str:
    """What is ranked by; a time has its unit always."""
    value = one.figure("ttft_p99" if found.goal == "ttft" else found.goal)
    if value is None:
        return "-"
    if found.goal == "cost":
        return f"{rounded(KILO * value)}{' USD per 1000' if with_unit else ''}"
    if found.goal == "goodput":
        return f"{rounded(value)}{' requests/s' if with_unit else ''}"
    return to_text(value, "s")


def _figures(one: api.Pulled) -> str:
    """The figures of the case as it is."""
    times = {"TTFT p50": one.figure("ttft_p50"), "p99": one.figure("ttft_p99"), "TPOT": one.figure("tpot")}
    said = [f"{name} {to_text(time, 's')}" for name, time in times.items() if time is not None]
    price = one.goodput_usd_per_m_output_tok if one.goodput is not None else one.answer.usd_per_m_output_tok
    cost = "" if price is None else f"{rounded(float(price))} USD/M tokens"
    if one.goodput is not None:
        cost = f"goodput {rounded(one.goodput.rate)} requests/s" + (f" at {cost}" if cost else "")
    return ", ".join([*said, *([cost] if cost else [])])


def _why(found: api.Levers, *, in_full: bool) -> list[str]:
    """Why the first lever moves the goal, in a clause; why each does, in full."""
    shown = [one for one in (*found.together, *found.alone) if one.helps(found.goal)] if in_full else [found.best]
    reasons = [(one.name, str(one.why(found.goal))) for one in shown if one is not None]
    return [f"{name}: {reason if in_full else reason.partition(', ')[0]}" for name, reason in reasons]


def _unable(rows: Sequence[Mapping[str, Any]], *, in_full: bool) -> list[str]:
    """Levers that cannot be pulled, under a rule."""
    if not rows:
        return []
    said = [f"{row['lever']}: {row['reason']}" for row in rows]
    return ["-- cannot be pulled ".ljust(terminal_width(), "-"), *(said if in_full else ["; ".join(said)])]


def _assumptions(found: api.Levers) -> list[str]:
    return [f"{one.name}: {one.assumption}" for one in found.alone if one.assumption is not None]


def _qualities(found: api.Levers) -> list[str]:
    return [f"{one.name}: {one.quality}" for one in found.alone if not is_free(one.quality)]
