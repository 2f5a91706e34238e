"""Cases side by side: the commands `compare` and `quantize`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import click

from roofline.cli.answers import (
    BOUND,
    GPUS,
    HBM,
    PLAN,
    TOK_S_GPU,
    TOK_S_USER,
    USD_HOUR,
    USD_TOKENS,
    answer_text,
    case_text,
    deployed_text,
    energy_columns,
    latency,
    load_columns,
    passing,
    percent,
    ranked,
    speedup_column,
    verdict_columns,
    with_refusals,
)
from roofline.cli.case import question
from roofline.cli.options import (
    EVERY_REASON,
    echo,
    for_people,
    labelled,
    plot_option,
    plotted,
    print_rows,
    print_table,
    read,
    reasons_text,
    show,
    suggested,
)
from roofline.cli.screen import MARK, MOST_ROWS, Row, Screen, ScreenColumn, cell_text
from roofline.numbers.quantity import MILLI
from roofline.questions.compare import COMPARED_KEYS, FORMATS
from roofline.questions.compare import compare as compare_gpus
from roofline.questions.compare import quantize as quantize_model
from roofline.questions.inputs.arguments import key_text
from roofline.questions.inputs.options import RATIO
from roofline.questions.predict import refused_row
from roofline.support.errors import RooflineError

if TYPE_CHECKING:
    from roofline.plot import Picture

# One case on several GPUs side by side, and why one is faster than another.

#: Keys and headings of kernels.
_KERNELS = {
    "kernel": "kernel",
    "bound": "bound",
    "cause": "cause",
    "reference_us": "before us",
    "total_us": "here us",
    "gain_us": "saved us",
    "contribution": "share of gain",
}


def _compare_columns(options: Mapping[str, Any]) -> list[ScreenColumn]:
    return [
        MARK,
        GPUS,
        PLAN,
        *latency("ttft", options),
        speedup_column("prefill", "prefill_speedup", 1),
        *latency("tpot", options),
        speedup_column("decode", "decode_speedup", 1),
        *verdict_columns(options),
        *load_columns(options),
        ranked(USD_HOUR, 2),
        ranked(USD_TOKENS, 3),
        *energy_columns(options),
        BOUND["decode"],
        TOK_S_USER,
        TOK_S_GPU,
        ranked(HBM, 5),
        ScreenColumn("knee", "knee", 5),
        *latency("e2el", options, 6, with_range=False),
    ]


@question(
    "roofline compare -m llama-3.1-70b -g h100,b200 --isl 2k --osl 300 -b 16",
    "roofline compare -m deepseek-r1 -g b200,mi300x --workload 8k1k --explain",
)
@click.option("--explain", is_flag=True, help="Show every kernel's part in the difference.")
@click.option(
    "--at-slo",
    metavar="LIMIT",
    help="Cost of a token at the same SLO instead, along this limit: tpot, ttft_p95 and the like.",
)
@click.option(
    "--claim",
    type=read(RATIO),
    help="With --at-slo: the limit from which a token costs so many times less on the last GPU.",
)
@plot_option
def compare(
    models: tuple[str, ...],
    gpus: tuple[str, ...],
    options: dict[str, Any],
    output_format: str,
    *,
    explain: bool,
    at_slo: str | None,
    claim: float | None,
    plot: str | None,
) -> None:
    """Two GPUs or more side by side: how many times faster than the first, and why.

    With --at-slo, what a million output tokens cost on each within the same SLO, along one limit.
    """
    if len(models) != 1:
        raise click.UsageError(f"compare takes one model, got {len(models)}")
    if len(gpus) < 2:
        raise click.UsageError(
            f"compare needs two GPUs or more, got {len(gpus)}; write -g h100,b200, the reference first"
        )
    if explain and output_format == "csv":
        raise click.UsageError("--explain has no CSV form; use --format json, markdown or table")
    if at_slo is not None:
        _print_at_slo(models[0], gpus, options, output_format, at_slo, claim, plot)
        return
    if claim is not None:
        raise click.UsageError("--claim belongs to --at-slo, such as --at-slo tpot --claim 15x")
    compared = compare_gpus(models[0], gpus, **options)

    def ranking() -> Picture:
        from roofline.plot import ranking as ranked_picture

        return ranked_picture(entry.prediction for entry in compared.gpus)

    if plotted(plot, ranking, is_of_rows=True):
        return
    people = for_people(output_format)
    rows: Sequence[Mapping[str, Any]] = compared.to_records()
    reference = next(row for row in rows if row["label"] == row["reference"])
    kernels = compared.kernel_records()
    refusals = [_refused(models[0], name, error, options, people=people) for name, error in compared.refused.items()]
    failure = reasons_text(compared.refused.values(), EVERY_REASON)
    screen = Screen(
        columns=with_refusals(_compare_columns(options), refusals),
        rows=[*rows, *refusals],
        case=case_text(
            [reference["model"]],
            options,
            {row["weight_dtype"] for row in rows},
            f"speed-ups over {deployed_text(reference)}",
        ),
        answer=answer_text(rows, options, gpus) if options.get("slo") else "",
        lines=[
            line
            for row in rows
            if row is not reference
            for line in _why(row, reference, in_full=explain or len(rows) == 2)
        ],
        notes=[*compared.notes, *labelled((row["label"], row["warnings"]) for row in rows)],
        is_whole=len(gpus) <= MOST_ROWS,
        is_long=explain,
        below=failure,
    )
    show(screen, output_format, extra={"kernels": kernels, "notes": list(compared.notes)})
    if people and explain:
        print_kernels(kernels, ("label", "reference", "pass"), "{0}, {2} against {1}", output_format)
    if failure:
        raise RooflineError(failure)


def _print_at_slo(
    model: str,
    gpus: tuple[str, ...],
    options: dict[str, Any],
    output_format: str,
    limit: str,
    claim: float | None,
    plot: str | None,
) -> None:
    """Costs at the same SLO along one limit: a row for each limit, a column for each GPU."""
    from roofline.questions.equal_service import deployment_text, equal_service, equal_service_picture

    answer = equal_service(model, gpus, limit=limit, claim=claim, **options)
    if plotted(plot, lambda: equal_service_picture(answer)):
        return
    if for_people(output_format):
        rows = []
        for place in answer.limits:
            row: dict[str, Any] = {"limit": place / MILLI}
            for number, point in enumerate(answer.at(place)):
                row |= {f"cost{number}": point.cost, f"plan{number}": deployment_text(point)}
                row[f"ratio{number}"] = point.ratio
            rows.append(row)
        columns = [ScreenColumn(f"{key_text(answer.key)} ms", "limit")]
        for number, gpu in enumerate(answer.gpus):
            columns.append(ScreenColumn(f"{gpu} USD/M", f"cost{number}"))
            columns += [speedup_column("cheaper", f"ratio{number}")] if number else []
        columns += [ScreenColumn("how", f"plan{number}", 2 + number) for number in reversed(range(len(answer.gpus)))]
        screen = Screen(
            columns=columns,
            rows=rows,
            case=case_text([answer.model], options, load=False),
            answer=str(answer),
            notes=answer.notes,
            is_curve=True,
        )
        show(screen, output_format)
    else:
        document: dict[str, Any] = answer.to_dict()
        print_rows(document.pop("rows"), output_format, {}, document)


def _why(row: Mapping[str, Any], reference: Mapping[str, Any], *, in_full: bool) -> list[str]:
    """Why a GPU is faster or slower, one line per pass; only the main reason unless in full.

    Says which of two GPUs misses the SLO, if only one does.
    """
    reasons = {name: row[f"why_{name}"] for name in ("prefill", "decode") if row[f"why_{name}"] is not None}
    misses = ""
    if bool(passing([row])) != bool(passing([reference])):
        misses = " (it misses the SLO)" if passing([reference]) else f" ({reference['label']} misses the SLO)"
    return [
        f"{row['label']} {name} {reason if in_full else reason.partition(', ')[0]}{misses}"
        for name, reason in reasons.items()
    ]


def print_kernels(rows: Iterable[Mapping[str, Any]], keys: tuple[str, ...], title: str, output_format: str) -> None:
    """Print the contribution of every kernel, one table per pass; the title takes the values of the keys."""
    tables: dict[tuple[Any, ...], list[list[str]]] = {}
    for row in rows:
        cells = [cell_text(row[key]) for key in tuple(_KERNELS)[:-1]]
        tables.setdefault(tuple(row[key] for key in keys), []).append([*cells, f"{row['contribution']:+.3f}"])
    for values, table in tables.items():
        echo(f"\n{title.format(*values)}:\n")
        print_table(list(_KERNELS.values()), table, output_format)


def _refused(model: str, gpu: str, error: RooflineError, options: dict[str, Any], *, people: bool) -> dict[str, Any]:
    row = refused_row(model, gpu, error, **options)
    warnings = row.pop("warnings")
    if people:
        row["refusal"] = error.short
    return {**row, **dict.fromkeys(COMPARED_KEYS), "label": gpu, "warnings": warnings}


# One case in several number formats: what fits, how fast, and why.


def _quantize_columns(options: Mapping[str, Any]) -> list[ScreenColumn]:
    is_loaded = bool(load_columns(options))  # latencies then include the queue, speed-ups do not
    return [
        MARK,
        ScreenColumn("weights", "weight_dtype"),
        ScreenColumn("KV", "kv_cache_dtype", 1),
        ScreenColumn("compute", "compute_dtype", 4),
        *latency("ttft", options, 0, with_range=False),
        speedup_column("prefill pass" if is_loaded else "prefill", "prefill_speedup"),
        *latency("tpot", options, 0, with_range=False),
        speedup_column("decode step" if is_loaded else "decode", "decode_speedup"),
        *verdict_columns(options),
        ScreenColumn("GB", "weights_gb", 1),
        ScreenColumn("HBM", "hbm_used_frac", 1, cell=_used, also=("hbm_used_frac", "fits")),
        ScreenColumn("GPUs from", "num_gpus_smallest", 2),
        ScreenColumn("max batch", "largest_batch", 2),
        ScreenColumn("tok/s", "output_tok_s", 3),
        ScreenColumn("tok/s at max", "output_tok_s_largest_batch", 4),
        ScreenColumn("KV GB", "kv_cache_gb", 5),
        ScreenColumn("knee", "knee", 1),
        ScreenColumn("kernels", "assumed", 0, cell=_evidence),
    ]


def _used(row: Row) -> str:
    used = percent("hbm_used_frac")(row)
    return str(used) if row["fits"] else f"{used} too much"


def _evidence(row: Row) -> str:
    """Kernels with assumed constants where the others are timed; without any the mark of the row says it all."""
    return "assumed" if row["assumed"] else "-"


_HOW = "why: --explain"
#: Beginnings of notes that repeat a column or a note on all rows.
_REPEATED = ("`quantization` ", "only the ", "does not fit: ")


@question(
    "roofline quantize -m llama-3.1-70b -g h100 --isl 2k --osl 300 --batch 16",
    "roofline quantize -m gpt-oss-120b -g b200 --baseline mxfp4 --explain",
)
@click.option(
    "--baseline",
    type=suggested("format", lambda: FORMATS),
    default=FORMATS[0],
    show_default=True,
    help=f"Reference weight format, with a 16-bit KV cache: {', '.join(FORMATS)}.",
)
@click.option("--explain", is_flag=True, help="Show why for every row, and every kernel's part in the speed-up.")
def quantize(
    models: tuple[str, ...],
    gpus: tuple[str, ...],
    options: dict[str, Any],
    output_format: str,
    *,
    baseline: str,
    explain: bool,
) -> None:
    """Number formats of weights and KV cache side by side: memory, latency, throughput, and why."""
    if len(models) != 1 or len(gpus) != 1:
        raise click.UsageError(f"quantize takes one model and one GPU, got {len(models)} and {len(gpus)}")
    if explain and output_format == "csv":
        raise click.UsageError("--explain has no CSV form; use --format json, markdown or table")
    comparison = quantize_model(models[0], gpus[0], baseline=baseline, **options)
    rows: Sequence[Mapping[str, Any]] = comparison.to_records()
    kernels = comparison.kernel_records()
    base_kv = next(row["kv_cache_dtype"] for row in rows if row["why_prefill"] == "the baseline")
    shown = [
        row for row in rows if explain or row["kv_cache_dtype"] == base_kv or row["quantization"] == comparison.baseline
    ]
    reasons = [
        f"{row['weight_dtype']}, KV {row['kv_cache_dtype']}, {name} {row[f'why_{name}']}"
        for row in shown
        for name in ("prefill", "decode")
        if row["why_prefill"] != "the baseline" and row[f"why_{name}"] is not None
    ]
    texts = labelled(
        ((row["weight_dtype"], [text for text in row["warnings"] if not text.startswith(_REPEATED)]) for row in rows),
        named=False,
    )
    baseline = f"{deployed_text(rows[0])} \u00b7 against {comparison.baseline}, KV {base_kv}"
    screen = Screen(
        columns=_quantize_columns(options),
        rows=[row for row in rows if row["kv_cache_dtype"] == base_kv],
        others=[row for row in rows if row["kv_cache_dtype"] != base_kv],
        rule="KV cache in fp8",
        case=case_text([rows[0]["model"]], options, end=baseline),
        lines=reasons if explain or output_format == "markdown" else [_HOW],
        notes=[*comparison.notes, *texts],
        is_long=explain,
    )
    show(screen, output_format, rows, {"kernels": kernels, "notes": list(comparison.notes)})
    if explain and for_people(output_format):
        keys = ("quantization", "kv_cache_dtype", "pass", "baseline")
        print_kernels(kernels, keys, "{0} weights, {1} KV cache, {2} against {3}", output_format)
