"""Whether a server starts, and what to type to start it: the `fits` command, and `--emit` of others."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import click

from roofline.cli.answers import model_column, percent_column, ranked
from roofline.cli.case import one_case, question
from roofline.cli.options import echo, labelled, show
from roofline.cli.screen import Quoted, Row, Screen, ScreenColumn, flags, prose, terminal_width
from roofline.support.errors import BadInput, RooflineError

if TYPE_CHECKING:
    from roofline.questions.fits import Fit

Command = Callable[..., Any]

#: Where a launch text for Dynamo is asked for.
DYNAMO = "dynamo"


def emit_option(function: Command) -> Command:
    """Add ``--emit``, which prints a launch command in place of the answer."""
    return click.option(
        "--emit",
        metavar="ENGINE",
        help="Print what to type instead: vllm, sglang or trtllm, with a version as vllm@0.25; or dynamo, a deployment "
        "file.",
    )(function)


def flag_line(engine: str, texts: Sequence[str], more: str = "") -> list[str]:
    """What to type to an engine, or to the usual one where none is named; no line where there is nothing."""
    from roofline.questions.inputs.flags import advisor

    return [f"options of {advisor(engine).table.title}: {'; '.join(texts)}{more}"] if texts else []


def with_engine(emit: str, options: Mapping[str, Any]) -> dict[str, Any]:
    """Options with the engine whose command is asked for, where they name none."""
    from roofline.questions.dynamo import engine_in
    from roofline.questions.inputs.flags import target_of, with_version

    name, _, release = emit.partition("@")
    stated = str(options.get("engine") or "")
    if name == DYNAMO:
        return {**options, "engine": engine_in(release or None, stated or "vllm")}
    if stated:
        return {**options}
    return {**options, "engine": with_version(target_of(emit))}


def emit_text(emit: str, answer: Any, options: Mapping[str, Any], output_format: str, because: str = "") -> None:
    """Print the launch command of a prediction, or a deployment file of Dynamo for it or for two pools."""
    from roofline.questions.dynamo import dynamo
    from roofline.questions.launch import launch, planned

    _check_printed(output_format)
    name, _, release = emit.partition("@")
    every = flags().is_full
    engine = str(options.get("engine") or "vllm")
    text: Any
    if name == DYNAMO:
        text = dynamo(answer, to=engine, release=release or None, every=every)
    else:
        text = launch(answer, to=engine if "@" not in emit and engine.partition("@")[0] == name else emit, every=every)
        text = planned(text, because) if because else text
    if output_format == "json":
        echo(_json(text.to_dict()), nl=False)
        return
    echo(text.text, nl=False)


def _check_printed(output_format: str) -> None:
    """Refuse formats and files of rows, where a command is printed."""
    if output_format not in {"table", "json"}:
        raise click.UsageError("--emit prints a command; with --format json its parts")
    if flags().output is not None:
        raise click.UsageError("--emit prints a command; write it to a file with > FILE in place of -o")


def _json(document: Mapping[str, Any]) -> str:
    import json

    return json.dumps(document, indent=2) + "\n"


# The `fits` command.

_PARTS = (
    ("weights", "weights_gib"),
    ("activations", "activations_gib"),
    ("graphs", "graphs_gib"),
    ("other", "other_gib"),
)


_GRAPHS = "graphs"
_CUDA_AND_HIP = ("nvidia", "amd")  # vendors whose frameworks say CUDA


def _part(fit: Fit, name: str) -> str:
    """A part of the memory as the servers of a vendor call it."""
    return f"CUDA {name}" if name == _GRAPHS and fit.gpu.vendor.lower() in _CUDA_AND_HIP else name


def _is_full(row: Mapping[str, Any]) -> bool:
    """Whether nothing is left for the KV cache, at either end of its interval."""
    return row["kv_cache_high_gib"] is not None and row["kv_cache_high_gib"] <= 0.0


def _in_words(row: Mapping[str, Any]) -> dict[str, Any]:
    """A row of the table, which says none where nothing is left for the KV cache."""
    none = {"kv_cache_gib": "none", "kv_cache_low_gib": None, "kv_cache_high_gib": None}
    return {**row, **none} if _is_full(row) else {**row}


def _left(row: Mapping[str, Any]) -> str:
    """What is left for the KV cache, with its 80 % interval; in words where that is nothing."""
    if _is_full(row):
        return "nothing left for the KV cache"
    low, high = max(row["kv_cache_low_gib"], 0.0), row["kv_cache_high_gib"]
    return f"KV cache {max(row['kv_cache_gib'], 0.0):.2f} ({low:.2f} to {high:.2f})"


def _columns(models: int) -> list[ScreenColumn]:
    return [
        *model_column(models),
        ScreenColumn("GPU", "gpu"),
        ranked(ScreenColumn("tp", "tp"), 2),
        ScreenColumn("starts", "start_verdict"),
        ScreenColumn("KV tokens", "kv_tokens", cell=_tokens("kv_tokens")),
        ScreenColumn("at once", "max_concurrency", 1, cell=_times),
        ScreenColumn("KV GiB", "kv_cache_gib", 2, interval=("kv_cache_low_gib", "kv_cache_high_gib")),
        ScreenColumn("weights GiB", "weights_gib", 3),
        ScreenColumn("longest", "largest_max_model_len", 1, cell=_tokens("largest_max_model_len")),
        ScreenColumn("most seqs", "largest_max_num_seqs", 2, cell=_tokens("largest_max_num_seqs")),
        percent_column("share", "gpu_memory_utilization", 4),
    ]


def _tokens(key: str) -> Callable[[Row], str]:
    return lambda row: "-" if not row.get(key) else f"{row[key]:,.0f}"


def _times(row: Row) -> str:
    value = row.get("max_concurrency")
    return "-" if not value else f"{value:.2f}x"


@question(
    "roofline fits -m gpt-oss-20b -g h100",
    "roofline fits -m llama-3.1-8b -g l40s,l4 --max-model-len 32k",
    "roofline fits -m qwen3-32b -g 2xl40s --engine sglang -q fp8",
)
@click.option("--enforce-eager", is_flag=True, help="Start without CUDA graphs.")
@emit_option
def fits(
    models: tuple[str, ...],
    gpus: tuple[str, ...],
    cases: list[dict[str, Any]],
    output_format: str,
    *,
    enforce_eager: bool,
    emit: str | None,
) -> None:
    """Will it start? The memory of an engine at start-up, what its log will say, and the option that avoids its error.

    Without -g, every GPU of the catalog: first those on which it starts, the smallest at the top.
    """
    from roofline.questions.fits import fits as fits_question
    from roofline.questions.fits import surest_first

    if emit is not None:
        _emit_fit(emit, models, gpus, cases, output_format, enforce_eager=enforce_eager)
        return
    answers = [
        fit
        for model in models
        for case in cases
        for fit in fits_question(model, gpus or None, enforce_eager=enforce_eager, **case)
    ]
    listed = answers if gpus else surest_first(answers)
    rows = [fit.to_dict() for fit in listed]
    first = listed[0]
    screen = Screen(
        columns=_columns(len(models)),
        rows=[_in_words(row) for row in rows] if len(rows) > 1 else [],
        case=_case(first, models, enforce_eager=enforce_eager),
        answer=_answer(listed),
        lines=list(_lines(listed)),
        notes=labelled((fit.gpu.name, fit.warnings) for fit in listed),
        is_whole=len(rows) == 1,
    )
    if output_format == "markdown":
        from roofline.support.records import replace

        columns = [*screen.columns, ScreenColumn("error", "start_error")]
        screen = replace(screen, rows=[_in_words(row) for row in rows], columns=columns)
    show(screen, output_format, rows)
    failure = _unable(listed)
    if failure:
        raise RooflineError(failure)


def _emit_fit(
    emit: str,
    models: tuple[str, ...],
    gpus: tuple[str, ...],
    cases: list[dict[str, Any]],
    output_format: str,
    *,
    enforce_eager: bool,
) -> None:
    """The launch command of one deployment."""
    from roofline.questions.fits import fits as fits_question

    _check_printed(output_format)
    model, gpu = one_case(models, gpus)
    options = with_engine(emit, cases[0])
    if emit.partition("@")[0] == DYNAMO:
        from roofline.questions.predict import predict

        if enforce_eager:
            raise click.UsageError("--enforce-eager is not written into a deployment file")
        emit_text(emit, predict(model, gpu, **options), options, output_format)
        return
    (fit,) = fits_question(model, gpu, enforce_eager=enforce_eager, **options)
    if fit.deployment is None:
        raise BadInput(str(fit.error))
    if not fit.starts and fit.largest_max_model_len is None:
        raise BadInput(f"{fit.target.title} {_fails(fits=(fit,))}: {str(fit.error).rstrip('.')}{_try(fit)}")
    from roofline.questions.launch import launched_fit

    text = launched_fit(fit, every=flags().is_full, is_eager=enforce_eager)
    echo(_json(text.to_dict()) if output_format == "json" else text.text, nl=False)


def _try(fit: Fit) -> str:
    return f"; try {' or '.join(fit.remedies)}" if fit.remedies else ""


def _unable(fits: Sequence[Fit]) -> str:
    """Why no server starts; empty where one does."""
    if any(fit.starts for fit in fits):
        return ""
    first = fits[0]
    where = first.gpu.name if len(fits) == 1 else f"any of {len(fits)} GPUs"
    return f"{first.target.title} {_fails(fits)} on {where}{_try(first) if len(fits) == 1 else ''}"


def _fails(fits: Sequence[Fit]) -> str:
    """That no server starts, as surely as the likeliest of the verdicts says it."""
    return "does not start" if all(fit.verdict == "fail" for fit in fits) else "may not start"


def _case(fit: Fit, models: Sequence[str], *, enforce_eager: bool) -> str:
    form, cache = fit.formats
    parts = [
        f"{', '.join(models)} {form if form and len(models) == 1 else ''}".strip(),
        fit.target.title,
        f"KV cache {cache}" if cache and len(models) == 1 else "",
        f"requests up to {fit.length:,.0f} tokens" if fit.length else "",
        f"no {_part(fit, _GRAPHS)}" if enforce_eager else "",
    ]
    return " \u00b7 ".join(part for part in parts if part)


def _answer(fits: Sequence[Fit]) -> str:
    """Whether it starts, in a sentence."""
    if len(fits) > 1:
        able = [fit for fit in fits if fit.starts]
        head = f"it starts on {len(able)} of {len(fits)}"
        smallest = {fit.model.short_name: fit.smallest for fit in fits if fit.smallest}
        told = [card if len(smallest) == 1 else f"{card} for {model}" for model, card in smallest.items()]
        return f"{head}; the smallest card that is enough: {', '.join(told)}" if told else head
    (fit,) = fits
    where = f"{1 if fit.deployment is None else fit.deployment.plan.num_gpus}x {fit.gpu.name}"
    if fit.memory is None:
        return f"it does not start on {where}: {fit.error}"
    if fit.starts:
        sure = "" if fit.verdict == "pass" else ", by the central estimate"
        held = f"{fit.tokens:,.0f} KV tokens, {fit.max_concurrency or 0.0:.2f} requests at once"
        return f"it starts on {where}{sure}: {held}"
    return f"it {_fails(fits)} on {where}"


def _lines(fits: Sequence[Fit]) -> Iterator[str]:
    if len(fits) > 1:
        yield from (f"{fit.gpu.name}: {_short_error(fit)}{_try(fit)}" for fit in fits[:_MOST] if not fit.starts)
        return
    (fit,) = fits
    if fit.memory is not None:
        row: Mapping[str, Any] = fit.to_dict()
        parts = [f"{_part(fit, name)} {row[key]:.2f}" for name, key in _PARTS]
        yield f"of {row['total_gib']:.2f} GiB: {', '.join(parts)}, {_left(row)}"
    if fit.log:
        yield "-- its log will say --"
        yield from (f"  {line}" for line in fit.log)
    if fit.error:
        yield "-- it prints --"
        yield from (Quoted(f"  {line}") for line in prose(fit.error, terminal_width() - 2).split("\n"))
    if fit.remedies:
        yield "-- each of these alone avoids it --"
        yield from (f"  {text}" for text in fit.remedies)
    limits = {"max_model_len": fit.largest_max_model_len, "max_num_seqs": fit.largest_max_num_seqs}
    told = [
        f"largest {argument.name} {value:,.0f}"
        for name, value in limits.items()
        if value and (argument := fit.target.argument(name)) is not None
    ]
    told += [f"smallest card: {fit.smallest}"] if fit.smallest else ["no single card of the catalog is enough"]
    told += [f"widest weights here: {fit.widest}"] if fit.widest else []
    yield "; ".join(told)


_MOST = 4  # errors below a table


def _short_error(fit: Fit) -> str:
    text = str(fit.error).partition(". ")[0]
    return text if len(text) < 110 else f"{text[:107]}..."
