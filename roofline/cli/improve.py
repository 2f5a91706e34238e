"""What would help, and what to keep: the commands `levers`, `cache`, `speculate`, `disaggregate`, `sheet`, `page`."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import click

from roofline.cli.answers import (
    PLAN,
    SLO_MET,
    asked_format,
    case_text,
    deployed_text,
    gpus_text,
    model_column,
    output_price,
    percent_column,
    plan_of,
    ranked,
    rent_text,
    speedup_column,
    verdict_columns,
)
from roofline.cli.case import one_case, question, required_share, without_output
from roofline.cli.main import Question
from roofline.cli.options import (
    GPU,
    MODEL,
    PathName,
    for_people,
    labelled,
    notes,
    read,
    share_option,
    show,
    specs_option,
    suggested,
    workbook_options,
)
from roofline.cli.screen import MOST_ROWS, Row, Screen, ScreenColumn, flags, keys_of, prose, terminal_width
from roofline.cli.start import DYNAMO, emit_option, emit_text, flag_line, with_engine
from roofline.numbers.quantity import KILO, MICRO, MILLI, NANO, counted, rounded, to_text
from roofline.questions.catalog import ROUGH
from roofline.questions.inputs.arguments import binding_text
from roofline.questions.inputs.case import KIND_OF, engine_names
from roofline.questions.inputs.options import COUNT, PRICE
from roofline.questions.predict import meeting_first
from roofline.support.records import replace

if TYPE_CHECKING:
    from roofline.questions import cache as cache_question
    from roofline.questions import levers as levers_question
    from roofline.questions import speculate as speculate_question
    from roofline.questions.disaggregate import Disaggregation

# Changes that make a server faster or cheaper: the `levers` command.

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
_READ = (
    *(
        "model",
        "gpu",
        "num_gpus",
        "tp",
        "pp",
        "ep",
        "dp",
        "cp",
        "dcp",
        "ttft_ms",
        "slo_verdict",
        "usd_per_m_output_tok",
    ),
    *("lever", "levers", "goodput", "goodput_usd_per_m_output_tok", "lever_usd_per_request", "quality", "reason"),
    "warnings",
)
_TOGETHER = {2: "these two together", 3: "these three together"}


def _levers_columns(answer: levers_question.Levers, options: Mapping[str, Any]) -> list[ScreenColumn]:
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


def _read_keys(answer: levers_question.Levers, options: Mapping[str, Any]) -> tuple[str, ...]:
    """Keys of rows that the screen reads."""
    made = ("number", "shown", "per_thousand", "of_tokens", "ttft_change")
    columns = [key for key in keys_of(_levers_columns(answer, options)) if key not in made]
    return tuple(dict.fromkeys((*columns, *_READ)))


def _change(key: str) -> Callable[[Row], str]:
    """A change in percent; a dash where it is within rounding."""
    from roofline.questions import levers as levers_question

    return lambda row: (
        "-" if abs(row.get(key) or 0.0) < levers_question.WORTH else levers_question.change_text(row[key])
    )


def _quality(row: Row) -> str:
    from roofline.questions.alternatives import is_free

    return "-" if row.get("quality") is None else "same" if is_free(row["quality"]) else "check"


@question(
    "roofline levers -m llama-3.3-70b -g h100:fp8 --workload chat -c 16",
    "roofline levers --for tpot -m qwen3-32b -g h100:tp2 --isl 4k -c 64",
    "roofline levers --for cost -m llama-3.1-8b -g l40s --workload rag -c 8",
)
@click.option(
    "--for",
    "goal",
    type=click.Choice(tuple(_GOALS)),
    help="What to improve; ttft means its p99, cost that of a request.  [default: tpot where it misses the SLO "
    "most, else ttft]",
)
@share_option
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
    from roofline.questions import levers as levers_question

    model, gpu = one_case(models, gpus)
    share = required_share(options, share)
    answer = levers_question.levers(model, gpu, goal=goal, share=share, **options)
    is_shown = output_format == "table" and for_people(output_format)
    rows: Sequence[Mapping[str, Any]] = answer.to_rows(_read_keys(answer, options) if is_shown else None)
    screen = _levers_screen(answer, rows, options, output_format, is_open=goal is None)
    show(screen, output_format, rows, {"goal": answer.goal, "notes": list(answer.notes)})


def _levers_screen(
    answer: levers_question.Levers,
    rows: Sequence[Mapping[str, Any]],
    options: Mapping[str, Any],
    output_format: str,
    *,
    is_open: bool,
) -> Screen:
    from roofline.questions import levers as levers_question

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
    columns = _levers_columns(answer, options)
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
        legend=f"-: less than {100.0 * levers_question.WORTH:.0f} %, or of next to nothing",
        case=case_text([start["model"]], options, asked_format(options), end),
        answer=_levers_answer(answer),
        lines=[
            *_why(answer, in_full=flags().is_full),
            *_options_of_levers(answer, numbers, in_full=flags().is_full),
            *_unable(unable, in_full=flags().is_full),
        ],
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


def _levers_answer(answer: levers_question.Levers) -> str:
    """The best lever of those that meet the SLO, alone and with others, and the case as it is."""
    from roofline.questions import levers as levers_question
    from roofline.questions.alternatives import is_free

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
            if not levers_question.is_better(best.score(answer.goal), start.score(answer.goal)):
                does = f"meets the SLO, which the case as it is misses; {name}"
        elif start.answer.slo and not lines:
            lines.append("no lever alone meets the SLO at this load")
        if any(basis in ROUGH for basis in (best.to_dict(keys=["basis"])["basis"], start.prediction.basis)):
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


def _binding(lever: levers_question.Pulled) -> str:
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


def _with_others(answer: levers_question.Levers, lever: levers_question.Pulled) -> str:
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


def _figure(answer: levers_question.Levers, lever: levers_question.Pulled, *, with_unit: bool = True) -> str:
    """The figure of the goal; times always have their unit."""
    value = lever.figure(lever.goal_figure(answer.goal))
    if value is None:
        return "-"
    if answer.goal == "cost":
        return f"{rounded(KILO * value)}{' USD per 1000' if with_unit else ''}"
    if answer.goal == "goodput":
        return f"{rounded(value)}{' requests/s' if with_unit else ''}"
    return to_text(value, "s")


def _figures(case: levers_question.Pulled) -> str:
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


def _why(answer: levers_question.Levers, *, in_full: bool) -> list[str]:
    """The main reason of the best lever; in full every reason of every lever that helps."""
    shown = (
        [lever for lever in (*answer.together, *answer.alone) if lever.helps(answer.goal)] if in_full else [answer.best]
    )
    reasons = [(lever.name, str(lever.why(answer.goal))) for lever in shown if lever is not None]
    return [f"{name}: {reason if in_full else reason.partition(', ')[0]}" for name, reason in reasons]


def _options_of_levers(answer: levers_question.Levers, numbers: Mapping[str, str], *, in_full: bool) -> list[str]:
    """What to type for the levers that help, by their numbers."""
    told = [(lever, lever.flags) for lever in answer.alone if lever.helps(answer.goal)]
    texts = [f"{numbers[lever.name]} {' '.join(flags)}" for lever, flags in told if flags]
    shown = texts if in_full else texts[:_MOST_OPTIONS]
    return flag_line(answer.start.prediction.deployment.engine.name, shown)


_MOST_OPTIONS = 3


def _unable(rows: Sequence[Mapping[str, Any]], *, in_full: bool) -> list[str]:
    if not rows:
        return []
    texts = [f"{row['lever']}: {row['reason']}" for row in rows]
    return ["-- cannot be pulled ".ljust(terminal_width(), "-"), *(texts if in_full else ["; ".join(texts)])]


def _assumptions(answer: levers_question.Levers) -> list[str]:
    return [f"{lever.name}: {lever.assumption}" for lever in answer.alone if lever.assumption is not None]


def _qualities(answer: levers_question.Levers) -> list[str]:
    from roofline.questions.alternatives import is_free

    return [f"{lever.name}: {lever.quality}" for lever in answer.alone if not is_free(lever.quality)]


# Loading cached prompts or recomputing them: the `cache` command.

_FORMULA = "break-even p = (kv/W - a)/b: a token's KV over the bandwidth, its own time a, that of its attention b p"
_MOST_LINES = 6  # equations below the table


def _cache_columns(models: int, options: Mapping[str, Any]) -> list[ScreenColumn]:
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
        *verdict_columns(options),
    ]


def _break_even_text(row: Row) -> str:
    """Tokens above which loading is faster."""
    from roofline.questions import cache as cache_question

    even = row.get("break_even_prefix")
    if even is None:
        return "-" if row.get("faster") != cache_question.RECOMPUTING_WINS else "none"
    return "any" if even <= 1.0 else rounded(even)


@question(
    "roofline cache -m llama-3.1-70b -g h100:tp4 --isl 8k --prefix 6k",
    "roofline cache -m llama-3.1-8b -g h100 --prefix 900 --working-set 2TB",
    "roofline cache -m qwen3-32b -g h100 --isl 8k --prefix 75% --cache-tier host",
)
def cache(models: tuple[str, ...], gpus: tuple[str, ...], options: dict[str, Any], output_format: str) -> None:
    """Load a cached prompt from host, disk or network, or compute it again: times, break-even length, hit rate."""
    from roofline.questions import cache as cache_question

    if not options.get("prefix"):
        raise click.UsageError("cache needs --prefix, the prompt tokens that it holds, e.g. 2k or 80%")
    answers = [answer for model in models for answer in cache_question.prompt_cache(model, gpus or None, **options)]
    rows = [answer.to_dict() for answer in answers]
    screen = Screen(
        columns=_cache_columns(len(models), options),
        rows=[{**row, "recompute_ms": row["recompute_ms"] and max(row["recompute_ms"], 0.0)} for row in rows],
        case=case_text(models, options, asked_format(options)),
        answer=_cache_answer(answers),
        lines=[*_lines(answers), *_tier_options(answers)],
        notes=[_FORMULA, *labelled((f"{answer.gpu.name}, {answer.tier}", answer.warnings) for answer in answers)],
        is_whole=len(rows) <= MOST_ROWS,
    )
    show(screen, output_format, rows)


def _cache_answer(answers: Sequence[cache_question.CacheTier]) -> str:
    """Whether loading or recomputing wins on the fastest tier."""
    from roofline.questions import cache as cache_question

    timed = [tier for tier in answers if tier.bandwidth is not None and tier.again is not None]
    if not timed:
        return ""
    best = min(timed, key=lambda tier: tier.load)
    again = best.again.time if best.again is not None else 0.0
    verb = "loading" if best.faster == cache_question.LOADING_WINS else "recomputing"
    return (
        f"{verb} wins on {best.gpu.name}: {best.prefix:,.0f} tokens load from {best.tier} in "
        f"{to_text(best.load, 's')}, recomputing takes {to_text(max(again, NANO), 's')}"
    )


def _tier_options(answers: Sequence[cache_question.CacheTier]) -> list[str]:
    """What to type for each tier."""
    told = {tier.tier: tier.flags for tier in answers if tier.prediction is not None}
    texts = [f"{tier} {' '.join(flags)}" for tier, flags in told.items() if flags]
    named = [tier.prediction.deployment.engine.name for tier in answers if tier.prediction is not None]
    return flag_line(named[0], texts) if named else []


def _lines(answers: Sequence[cache_question.CacheTier]) -> Iterator[str]:
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


# Whether speculative decoding pays: the `speculate` command.

_NAMES = {"batch": "batch", "concurrency": "users", "request_rate": "req/s"}


@question(
    "roofline speculate -m deepseek-r1 -g b200:tp8 --draft mtp --acceptance .9,.7",
    "roofline speculate -m qwen3-32b -g h100 --draft ngram --acceptance .6,.5",
)
def speculate(models: tuple[str, ...], gpus: tuple[str, ...], options: dict[str, Any], output_format: str) -> None:
    """TPOT with drafts by batch, users or rate: how many tokens to propose, and where drafts stop paying."""
    from roofline.questions import speculate as speculate_question

    model, gpu = one_case(models, gpus)
    options.pop("slo", None)  # of a workload
    for name in ("draft", "acceptance"):
        if options.get(name) is None:
            raise click.UsageError(f"speculate needs --{name}; e.g. --draft ngram --acceptance 0.6")
    answer = speculate_question.speculate(model, gpu, **options)
    rows = answer.to_rows()
    screen = Screen(
        columns=_speculate_columns(answer),
        rows=[_pivoted(rows, place, len(answer.predictions)) for place in range(len(answer.values))],
        case=case_text(models, options, asked_format(options), deployed_text(rows[0]), load=False),
        answer=str(answer),
        legend=f"1 to {len(answer.predictions) - 1}: speed-up of TPOT with so many proposed tokens",
        lines=_draft_options(answer, rows),
        notes=answer.warnings,
        is_curve=True,
    )
    show(screen, output_format, rows)


def _draft_options(answer: speculate_question.Speculation, rows: Sequence[Mapping[str, Any]]) -> list[str]:
    """What to type for the number of drafts that is best at the first load."""
    best = next((row["flags"] for row in rows if row["is_best"] and row["draft_tokens"]), None)
    return flag_line(answer.predictions[0].deployment.engine.name, [" ".join(best)] if best else [])


def _speculate_columns(answer: speculate_question.Speculation) -> list[ScreenColumn]:
    drafts = range(1, len(answer.predictions))
    return [
        ScreenColumn(KIND_OF[answer.along].heading, answer.along),
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


# Separate prefill and decode pools: the `disaggregate` command.

_SMALL = 0.005  # share of the TTFT below which a part is left out
_BUSY = (("encode", "encode_util"), ("prefill", "prefill_util"), ("decode", "decode_util"), ("link", "link_util"))


@question(
    "roofline disaggregate -m qwen3-32b --prefill b200:x2 --decode h200 --rate 9",
    "roofline disaggregate -m deepseek-r1 --prefill 8xb200 --decode 8xb200 -c 64",
    "roofline disaggregate -m qwen3-32b --prefill 8xh100 --decode 8xh100 -c 64",
)
@click.option(
    "--prefill",
    type=GPU,
    required=True,
    help="Pool that computes prompts, e.g. b200:tp4x2 (GPU, plan, replicas).",
)
@click.option("--decode", type=GPU, required=True, help="Pool that writes answers, e.g. h200:tp8:fp8x3.")
@click.option(
    "--encode", type=GPU, help="Pool that encodes images and audio, e.g. h100:x2.  [default: the prefill pool]"
)
@click.option("--prefill-engine", type=suggested("engine", engine_names), help="Engine of the prefill pool alone.")
@click.option("--decode-engine", type=suggested("engine", engine_names), help="Engine of the decode pool alone.")
@click.option(
    "--kv-link",
    help="Link that KV caches move over: nvlink, rdma, pcie, or a rate per GPU such as '50 GB/s'.  "
    "[default: nvlink in one scale-up domain, else rdma]",
)
@click.option("--layerwise", is_flag=True, help="Send the KV cache layer by layer while the prompt is computed.")
@click.option(
    "--prefill-gpu-price", type=read(PRICE), help="Price of a prefill GPU, as --gpu-price.  [default: the catalog's]"
)
@click.option(
    "--decode-gpu-price", type=read(PRICE), help="Price of a decode GPU, as --gpu-price.  [default: the catalog's]"
)
@click.option(
    "--max-gpus", type=read(COUNT), help="GPUs for the best ratio of both pools.  [default: as many as there are]"
)
@emit_option
def disaggregate(
    models: tuple[str, ...],
    options: dict[str, Any],
    output_format: str,
    *,
    prefill: str,
    decode: str,
    encode: str | None,
    prefill_engine: str | None,
    decode_engine: str | None,
    kv_link: str | None,
    layerwise: bool,
    prefill_gpu_price: float | None,
    decode_gpu_price: float | None,
    max_gpus: int | None,
    emit: str | None,
) -> None:
    """Latencies, throughput and cost of a prefill pool and a decode pool, beside one pool of the same rent."""
    from roofline.questions import disaggregate as disaggregate_question

    if emit is not None:
        if emit.partition("@")[0] != DYNAMO or len(models) > 1:
            raise click.UsageError("two pools are emitted as one deployment file: --emit dynamo, for one model")
        options = with_engine(emit, options)
    answers = [
        disaggregate_question.disaggregate(
            model, prefill, decode, encode=encode,
            prefill_engine=prefill_engine, decode_engine=decode_engine, kv_link=kv_link, layerwise=layerwise,
            prefill_gpu_price=prefill_gpu_price, decode_gpu_price=decode_gpu_price, **options,
        )
        for model in models
    ]  # fmt: skip
    if emit is not None:
        emit_text(emit, answers[0], options, output_format)
        return
    rows = [answer.to_dict() for answer in answers]
    if not for_people(output_format):
        show(Screen(_COLUMNS, rows), output_format, rows)
        return
    for answer, row in zip(answers, rows, strict=True):
        screen = _pools_screen(answer, row, max_gpus)
        changed = f" \u00b7 set {options['set']}" if options.get("set") else ""
        show(replace(screen, case=f"{screen.case}{changed}"), output_format)


def _pools_screen(answer: Disaggregation, row: dict[str, Any], max_gpus: int | None) -> Screen:
    """One row for the two pools, then one for a single pool of the same rent on each kind of GPU."""
    from roofline.questions.pools import link_text

    apart = {
        "way": "two pools" if answer.encoding is None else "three pools",
        "num_gpus": answer.num_gpus, "ttft_ms": row["ttft_ms"], "ttft_p99_ms": row["ttft_p99_ms"],
        "tpot_ms": row["tpot_ms"], "max_request_rate": answer.max_request_rate,
    }  # fmt: skip
    others = [
        {
            "way": f"one pool, {pool.gpu}:tp{pool.tp}",
            "num_gpus": float(rounded(pool.num_gpus)) if pool.num_gpus else None,
            "ttft_ms": None if pool.ttft is None else pool.ttft / MILLI,
            "ttft_p99_ms": None if pool.ttft_p99 is None else pool.ttft_p99 / MILLI,
            "tpot_ms": None if pool.tpot is None else pool.tpot / MILLI,
            "max_request_rate": pool.max_request_rate or None,
        }
        for pool in answer.one_pool
    ]
    parts = [f"{name} {to_text(time, 's')}" for name, time in answer.parts.items() if time > _SMALL * answer.ttft]
    texts, ratio = answer.texts, answer.best_ratio(max_gpus)
    verdict = "" if answer.slo_verdict is None else f", SLO {answer.slo_verdict.text}"
    cost = answer.usd_per_m_output_tok
    price = "" if cost is None else f", {rent_text(row)}, {output_price(cost)}"
    tpot = "" if answer.tpot is None else f", TPOT {to_text(answer.tpot, 's')}"
    busy = ", ".join(f"{name} {row[key]:.0%}" for name, key in _BUSY if row[key] is not None)
    lines = [f"TTFT = {' + '.join(parts)}", f"busy: {busy}; KV cache over {link_text(answer.pools.link)}"]
    if answer.slo_text:
        lines.insert(0, f"SLO: {answer.slo_text}")
    if ratio is not None:
        counted = (
            "; of the SLO, only mean TPOT counts here" if "tpot" in answer.slo else "; the SLO does not count here"
        )
        counted = counted if {*answer.slo} - {"tpot"} else ""
        lines.append(
            f"ratio: {rounded(ratio.exact)} prefill replicas per decode replica keep both busy; best whole numbers: "
            f"{ratio.prefill} and {ratio.decode}, {rounded(ratio.rate_per_gpu)} requests/s per GPU (at most "
            f"{rounded(ratio.exact_rate_per_gpu)}){counted}"
        )
    for pool in answer.one_pool:
        answers = pool.ranking if pool.within is None else pool.within.sentence
        lines.append(f"{pool.gpu}: {pool.reason or answers}")
    lines += flag_line(answer.pools.prefill.engine.name, row["flags"], " (whole file: --emit dynamo)")
    media = "" if row["media"] is None else f" + {row['media_tokens']:,} of {row['media']}"
    case = f"{answer.model.short_name}, isl {row['isl']:g}{media}, osl {row['osl']:g}, {answer.workload.load.brief}"
    encode = f"encode {texts['encode']}, " if "encode" in texts else ""
    return Screen(
        columns=_COLUMNS,
        rows=[apart, *others],
        case=f"{case}: {encode}prefill {texts['prefill']}, decode {texts['decode']}",
        answer=f"TTFT {to_text(answer.ttft, 's')}{tpot}{verdict}{price}",
        lines=[part for line in lines for part in prose(line).split("\n")],
        notes=answer.warnings,
        is_whole=True,
    )


def _saturation_text(row: Row) -> str:
    most = row.get("max_request_rate")
    return rounded(float(most)) if most else "-"


_COLUMNS = [
    ScreenColumn("way to serve", "way"),
    ScreenColumn("GPUs", "num_gpus"),
    ScreenColumn("TTFT ms", "ttft_ms"),
    ScreenColumn("TTFT p99 ms", "ttft_p99_ms", 2),
    ScreenColumn("TPOT ms", "tpot_ms"),
    ScreenColumn("at most req/s", "max_request_rate", 1, cell=_saturation_text),
]


# A sizing workbook with live formulas: the `sheet` command.


@question(
    "roofline sheet sizing.xlsx -m llama-3.1-8b -g h100,b200 --isl 1k,4k",
    "roofline sheet sizing.xlsx -m deepseek-v3 -g h200 --tp 8 -q native,fp8",
    output=without_output,
)
@click.option(
    "--plan",
    is_flag=True,
    expose_value=False,
    help="Put the ranked plans of an SLO in: it takes the options of roofline plan (roofline sheet --plan --help).",
)
@workbook_options
def sheet(
    models: tuple[str, ...],
    gpus: tuple[str, ...],
    options: dict[str, Any],
    output: str,
    *,
    spare: int,
    force: bool,
) -> None:
    """Write a sizing workbook (.xlsx) whose cells are the formulas: change any choice and the answer follows."""
    from roofline.questions.sheet import sheet as write_sheet

    rows = write_sheet(output, models, gpus or None, spare=spare, force=force, **options)
    notes([f"wrote {counted(rows, 'scenario')} to {output}"])


# A page that answers by itself: the `page` command.

_SEVERAL = "several with commas.  [default: all]"


@click.command(
    cls=Question,
    epilog="\b\nExamples:\n  roofline page\n  roofline page sizing.html -m llama-3.1-8b,qwen3-32b -g h100,b200",
)
@click.argument("name", required=False, type=PathName(), metavar="[OUTPUT]")
@click.option("-m", "--model", "--model-path", "models", type=MODEL, multiple=True, help=f"Model; {_SEVERAL}")
@click.option("-g", "--gpu", "--system", "--hardware", "gpus", type=GPU, multiple=True, help=f"GPU; {_SEVERAL}")
@specs_option
@click.option(
    "-o", "--output", type=PathName(), help="The same as OUTPUT: the file to write.  [default: roofline.html]"
)
@click.option("--force", is_flag=True, help="Overwrite the file.")
def page(
    name: str | None,
    models: tuple[str, ...],
    gpus: tuple[str, ...],
    specs: str | None,
    output: str | None,
    *,
    force: bool,
) -> None:
    """Write a page (.html) that answers as you type, in any browser: one file, without Python and without a network."""
    from roofline.questions.page import page as write_page

    if name is not None and output is not None:
        raise click.UsageError(f"OUTPUT and -o both name the file to write; keep one of {name} and {output}")
    path = name or output or "roofline.html"
    write_page(path, models or None, gpus or None, specs=specs, force=force)
    notes([f"wrote {path}; open it in a browser"])
