"""Measurements beside predictions: the commands `check` and `calibrate`."""

from __future__ import annotations

import re
import sys
import textwrap
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from roofline.cli.case import stated_options
from roofline.cli.main import Question
from roofline.cli.options import (
    GPU,
    MODEL,
    PathName,
    echo,
    for_people,
    is_picture_asked,
    notes,
    output_options,
    plot_option,
    print_rows,
    print_table,
    reasons_text,
    show,
)
from roofline.cli.screen import MOST_MS, Screen, ScreenColumn, cell_text, flags, lines_of, room
from roofline.cli.swept import drawn, sweep_lines
from roofline.numbers.quantity import MILLI, rounded
from roofline.questions.catalog import ROUGH, load_gpu
from roofline.questions.check import (
    RESULT_BYTES,
    STATISTICS,
    Checks,
    Diagnosis,
    MeasurementCheck,
    Reading,
    check_readings,
    of_command,
    read_each,
    read_results,
    results,
    what_changed,
)
from roofline.questions.diagnosis import HEALTHY, MOST_SERVERS
from roofline.questions.inputs.case import BASES
from roofline.questions.inputs.deployment import PLAN_DEGREES
from roofline.questions.sweeps import MeasuredSweep, sweeps_of
from roofline.support.errors import BadInput, RooflineError
from roofline.support.records import replace

if TYPE_CHECKING:
    from roofline.questions.learn import EngineFit, FittedConstant

# Benchmark results compared with predictions and with each other: the `check` command.

_CHECK_HEADINGS = ("", "measured ms", "predicted ms", "80 % range", "ratio", "MFU %", "MBU %", "SOL %")
_METRICS = ("ttft", "tpot", "e2el")
_ENDS = ("low_ms", "high_ms")
_RUNS = (
    ScreenColumn("result", "result"),
    ScreenColumn("", "metric"),
    ScreenColumn("measured ms", "measured_ms"),
    ScreenColumn("predicted ms (80 %)", "predicted_ms", interval=_ENDS),
    ScreenColumn("ratio", "ratio"),
    ScreenColumn("80 % range", "range"),
)
_LOW = 30  # lines below which a screen of several runs says what is wrong in one
_BESIDE = 4  # lines of a check beside its texts: two blank ones, the heading of the table, the footer
_WIDTH = 80
_AFTER = "--after"


class _BeforeAndAfter(Question):
    """``--after`` takes every file up to the next option, as a shell expands ``after/*.json``."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Repeat ``--after`` before each of its files."""
        expanded: list[str] = []
        is_after = False
        for arg in args:
            if arg.startswith("-") and arg != "-":
                is_after = arg == _AFTER
                expanded += [] if is_after else [arg]
                missing = is_after
                continue
            expanded += [_AFTER, arg] if is_after else [arg]
            missing = False
        if args and args[-1] == _AFTER and missing:
            expanded.append(_AFTER)  # click reports the missing value
        return super().parse_args(ctx, expanded)


@click.command(
    cls=_BeforeAndAfter,
    epilog="\b\nExamples:\n"
    "  one run:       roofline check result.json -g h100-sxm --tp 1\n"
    "  two runs:      roofline check before.json after.json\n"
    "  two sweeps:    roofline check before/*.json --after after/*.json\n"
    "  several runs:  roofline check *.json -g b200 --tp 8 --statistic p99 -f csv\n"
    "  a sweep:       roofline check results/*.json --plot\n"
    "  a pipe:        cat runs.csv | roofline check -\n"
    "  in the file:   vllm bench serve --save-result --metadata gpu=h100 tp=1 ...\n"
    "  its command:   roofline check result.json --command 'vllm serve qwen3-8b'\n",
)
@click.argument("files", nargs=-1, type=PathName(allow_dash=True))
@click.option("--command", metavar="TEXT", help="Launch command of the server; alone: what it should take.")
@click.option(
    "--after",
    type=PathName(allow_dash=True),
    multiple=True,
    metavar="FILES",
    help="Results to compare with FILES; says what changed between them.",
)
@click.option("-m", "--model", "--model-path", type=MODEL, help="Model: Hugging Face id, short name or alias.")
@click.option("-g", "--gpu", "--system", "--hardware", type=GPU, help="GPU: name or alias.")
@stated_options("check")
@click.option(
    "--statistic",
    type=click.Choice(tuple(STATISTICS)),
    help="Statistic over the requests.  [default: median, else mean]",
)
@plot_option
@click.option(
    "--fail-above",
    metavar="LIMITS",
    help="End with exit code 3 where a time is slower than predicted by more, e.g. ttft:+10%,tpot:+5%.",
)
@output_options
def check(
    files: tuple[str, ...],
    after: tuple[str, ...],
    command: str | None,
    fail_above: str | None,
    statistic: str | None,
    basis: str | None,
    specs: str | None,
    output_format: str,
    plot: str | None,
    **stated: Any,
) -> None:
    """Say whether a measured TTFT or TPOT is what you should expect, and if not, why.

    FILES are results of vllm bench serve, sglang.bench_serving, trtllm-bench, AIPerf, genai-perf, GuideLLM,
    InferenceX or llama-bench, logs with the summary that the first two print, the /metrics of a server of vLLM or
    SGLang, or CSV; - reads standard input. What a file does not state is given by options, which override what it
    does. Each result gets a verdict, and suspects where it is outside the 80 % range. All results of one server
    together say what is wrong with it, what would confirm that, and which option to change.

    The first of FILES may be a plan, as roofline plan --format json prints it: whether it holds as measured.

    Exactly two FILES, or FILES and --after, are also compared with each other: kernels, host, batch limit, cache or
    load changed. Two loads or more on each side tell far more than one.

    FILES of one server at several loads are a sweep: its step line, its saturation, and where it leaves its range.
    """
    for name, what in (("model", "model"), ("gpu", "GPU")):
        if "," in str(stated[name]):
            raise click.UsageError(f"results are of one {what} here; check the files of {stated[name]} one by one")
    limits = {} if fail_above is None else _slowdowns(fail_above)
    if not files:
        if command is None or limits:
            raise click.UsageError("check needs FILES of results; or --command, for what a server should take")
        _print_expected(command, stated, output_format, basis=basis, specs=specs)
        return
    stated, settings = of_command(command, stated)
    if len(files) > 1 and not after and _is_plan(files[0]):
        if limits:
            raise click.UsageError("--fail-above is about results; a plan holds or does not")
        readings, unread = read_each(files[1:], lambda name: _reading(name, statistic))
        _print_plan(files[0], readings, unread, output_format, stated, specs)
        return
    is_pair = len(files) == 2 and not (after or plot or is_picture_asked())
    sides, failures = [], []
    sweeps: list[MeasuredSweep] = []
    for names in (files[:1], files[1:]) if is_pair else (files, after):
        readings, unread = read_each(names, lambda name: _reading(name, statistic))
        checked, refused = check_readings(readings, stated, basis=basis or BASES[0], specs=specs, **settings)
        sides.append(checked)
        sweeps += sweeps_of(checked, refused)
        failures += [*unread, *refused]
    changed, why_not = _diagnosis_or_reason(sides[0], sides[1])
    if why_not is not None and not is_pair:
        failures.append(BadInput(why_not))
    failure = reasons_text(failures)
    if any(sides) and not drawn(sweeps, [*sides[0], *sides[1]], plot):
        _print(sides, changed, sweeps, output_format, [why_not] if why_not is not None and is_pair else [], failure)
    if failure:
        raise RooflineError(failure)
    slower = [text for run in (sides[1] or sides[0]) for text in _exceeding(run, limits)]
    if slower:
        echo(f"slower than allowed: {'; '.join(slower)}", err=True)
        click.get_current_context().exit(_TOO_SLOW)


_TOO_SLOW = 3  # exit code of --fail-above


def _slowdowns(text: str) -> dict[str, float]:
    """Metric -> share by which it may be slower than predicted."""
    limits: dict[str, float] = {}
    for part in text.split(","):
        found = re.fullmatch(r"\s*(ttft|tpot|e2el)\s*:\s*\+?(\d+(?:\.\d+)?)\s*%\s*", part, re.IGNORECASE)
        if found is None:
            raise click.UsageError(f"--fail-above: {part.strip()!r} must be like ttft:+10%, of ttft, tpot or e2el")
        limits[found[1].lower()] = float(found[2]) / 100.0
    return limits


def _exceeding(run: MeasurementCheck, limits: Mapping[str, float]) -> list[str]:
    """Times of a run that are slower than predicted by more than their limits."""
    ratios = {metric: run.ratio(metric) for metric in limits}
    return [
        f"{run.measured.source}: {metric.upper()} {ratio - 1.0:+.1%} > {limits[metric]:+.1%}"
        for metric, ratio in ratios.items()
        if ratio is not None and ratio > 1.0 + limits[metric]
    ]


def _print_expected(command: str, stated: Mapping[str, Any], output_format: str, **options: Any) -> None:
    """What the server of a command should take, where no result is given."""
    from roofline.questions.commands import read_command
    from roofline.questions.predict import predict, prediction_text

    read = read_command(command)
    given = {name: value for name, value in {**stated, **options}.items() if value is not None}
    case = {**read.options, **given}
    if case.get("gpu") is None:
        raise click.UsageError("check --command needs the GPU: -g")
    prediction = predict(**case)
    if for_people(output_format):
        echo(prediction_text(prediction))
        notes([*prediction.warnings, *read.notes])
    else:
        print_rows([prediction.to_dict()], output_format, {})


def _is_plan(file: str) -> bool:
    from roofline.questions.plan_check import is_plan

    return file != "-" and is_plan(file)


def _print_plan(
    plan: str,
    readings: Sequence[Reading],
    unread: Sequence[RooflineError],
    output_format: str,
    stated: Mapping[str, Any],
    specs: str | None,
) -> None:
    """Whether a plan holds as one of its replicas was measured."""
    from roofline.questions.plan_check import judged_by

    answers, refused = judged_by(plan, readings, stated, specs=specs)
    if not for_people(output_format):
        print_rows([answer.to_dict() for answer in answers], output_format, {})
    else:
        for answer in answers:
            _echo_lines([f"{answer.run.measured.source}: {answer}"])
            for metric in _metrics(answer.run):
                _echo_lines([f"  {metric.upper()} {answer.run.verdict(metric)}"])
        notes(list(dict.fromkeys(note for answer in answers for note in answer.notes)))
    failures = [*unread, *refused]
    if any(answer.meets is False for answer in answers):
        failures.append(BadInput("the plan misses its SLO as measured"))
    if failures:
        raise RooflineError(reasons_text(failures))


def _reading(file: str, statistic: str | None) -> Reading:
    if file != "-":
        return read_results(file, statistic)
    if sys.stdin is None:
        raise BadInput("stdin: closed; give a file")
    try:
        data = sys.stdin.buffer.read(RESULT_BYTES + 1)
    except OSError as error:
        raise BadInput(f"stdin: cannot be read: {error.strerror}") from None
    return results(data, "stdin", statistic)


def _diagnosis_or_reason(
    before: list[MeasurementCheck], after: list[MeasurementCheck]
) -> tuple[Diagnosis | None, str | None]:
    """What changed, or why that cannot be told; neither without a second side."""
    if not before or not after:
        return None, None
    try:
        return what_changed(before, after), None
    except RooflineError as error:
        return None, str(error)


def _changes(sides: Sequence[list[MeasurementCheck]]) -> list[str]:
    """The change of each metric; empty unless each side is a single run."""
    if [len(side) for side in sides] != [1, 1]:
        return []
    before, after = (side[0].measured for side in sides)
    pairs = {metric: (getattr(before, metric), getattr(after, metric)) for metric in _METRICS}
    moves = [
        f"{metric.upper()} {_both(old, new)} ({100.0 * (new / old - 1.0):+.0f} %)"
        for metric, (old, new) in pairs.items()
        if old is not None and new is not None
    ]
    return [", ".join(moves)] if moves else []


def _both(old: float, new: float) -> str:
    unit, second = _unit([old, new])
    return f"{cell_text(old / second)} -> {cell_text(new / second)} {unit}"


def _unit(times: Iterable[float | None]) -> tuple[str, float]:
    """Milliseconds, or seconds where a time [s] is long; and one of them [s]."""
    longest = max((time for time in times if time is not None), default=0.0)
    return ("ms", MILLI) if longest <= MOST_MS * MILLI else ("s", 1.0)


def _print(
    sides: Sequence[list[MeasurementCheck]],
    changed: Diagnosis | None,
    sweeps: Sequence[MeasuredSweep],
    output_format: str,
    further_notes: list[str],
    below: str,
) -> None:
    runs = [run for side in sides for run in side]
    if not for_people(output_format):
        extra: dict[str, Any] = Checks(runs, changed, sweeps=sweeps).to_dict()
        print_rows(extra.pop("rows"), output_format, {}, extra)
        if output_format == "csv" and changed is not None:
            echo(f"What changed: {changed.text}", err=True)
        return
    all_notes = [*further_notes, *_shared_notes(runs)]
    what = [] if changed is None else [*_changes(sides), f"What changed: {changed.text}", *_remarks(changed)]
    left = room(flags()) if output_format == "table" else None
    is_low = len(runs) > 1 and left is not None and left < _LOW
    checks = Checks(runs, changed)
    wrong = _what_is_wrong(checks, is_brief=is_low)
    is_named = any(found.together for found in checks.findings)
    what += wrong if len(runs) > 1 else []
    swept = sweep_lines(sweeps, is_full=left is None)
    if len(runs) > 1 and left is not None:
        answer = "\n".join([*map(str.strip, what), *swept])
        show(replace(_runs_screen(runs), answer=answer, notes=all_notes, below=below), output_format)
        return
    if what or swept:
        _echo_lines([*what, *swept])
        echo()
    is_cut = False
    for place, run in enumerate(runs):
        if len(runs) > 1:
            echo(("\n" if place else "") + f"{run.measured.source}:")
        verdicts = _filled(f"{metric.upper()} {run.verdict(metric)}" for metric in _metrics(run))
        why, title = (
            _filled([*(wrong if len(runs) == 1 else []), *_explanation(run, is_named=is_named)]),
            _filled(_title(run)),
        )
        times = [getattr(of, metric) for of in (run.measured, run.expected) for metric in _metrics(run)]
        unit, second = _unit(
            [*times, *(end for metric in _metrics(run) for end in run.expected.interval(metric) or ())]
        )
        cells = [_cells(run, metric, second) for metric in _metrics(run)]
        others = len(verdicts) + len(title) + len(cells) + _BESIDE + lines_of(below)
        is_cut = left is not None and len(why) + others > left
        for line in [*verdicts, *(why[: max((left or 0) - others, 1)] if is_cut else why), "", *title, ""]:
            echo(line)
        print_table([heading.replace("ms", unit) for heading in _CHECK_HEADINGS], cells, output_format)
    notes(all_notes, *(["more: --all"] if is_cut else []))


def _what_is_wrong(checks: Checks, *, is_brief: bool) -> list[str]:
    """The faults that explain the runs of each server best, and what to do about them unless briefly."""
    if (len(checks) == 1 or len(checks.findings) > 1) and all(found.answer == HEALTHY for found in checks.findings):
        return []  # said metric by metric, run by run
    lines: list[str] = []
    for found in checks.findings:
        if found.answer == HEALTHY and len(checks.findings) > 1:
            continue
        first, *more = found.lines
        lines += [
            f"{found.server}: {first}" if len(checks.findings) > 1 else first,
            *(f"  {line}" for line in more if not is_brief),
        ]
    return (
        [*lines, f"at most {MOST_SERVERS} servers are looked into"] if len(checks.findings) == MOST_SERVERS else lines
    )


def _runs_screen(runs: Sequence[MeasurementCheck]) -> Screen:
    """A row for each latency of each run, those outside their range first."""
    rows = [
        {
            "result": run.measured.source,
            "metric": metric.upper(),
            "measured_ms": getattr(run.measured, metric) / MILLI,
            "predicted_ms": None if getattr(run.expected, metric) is None else getattr(run.expected, metric) / MILLI,
            **dict(zip(_ENDS, _milliseconds_of(run.expected.interval(metric)), strict=True)),
            "ratio": run.ratio(metric),
            "range": {None: None, True: "inside", False: "outside"}[run.inside(metric)],
        }
        for run in runs
        for metric in _metrics(run)
    ]
    rows.sort(key=lambda row: row["range"] != "outside")
    return Screen(_RUNS, rows, legend="suspects, and what each was compared with: --all")


def _milliseconds_of(ends: tuple[float, float] | None) -> tuple[float | None, float | None]:
    return (None, None) if ends is None else (ends[0] / MILLI, ends[1] / MILLI)


def _echo_lines(lines: Iterable[str]) -> None:
    for line in _filled(lines):
        echo(line)


def _filled(lines: Iterable[str]) -> list[str]:
    """Lines wrapped at words."""
    wrapped: list[str] = []
    for line in lines:
        indent = "  " if line.startswith(("  ", "1. ", "2. ")) else ""
        wrapped += textwrap.wrap(line, _WIDTH, subsequent_indent=indent, break_on_hyphens=False, break_long_words=False)
    return wrapped


def _remarks(changed: Diagnosis) -> list[str]:
    """Stated differences, the next cause, and what an additional load would tell."""
    lines = [f"  the results state: {'; '.join(changed.known)} (accounted for)"] if changed.known else []
    if changed.best is not None and len(changed.explanations) > 1:
        other = changed.explanations[1]
        behind = rounded(other.chi2 - changed.explanations[0].chi2, 2)
        lines.append(f"  less likely: {other.text} (fits worse by {behind} in chi-squared)")
    if changed.loads < 2:
        lines.append(
            "  one load only: a second would tell kernels, whose time grows with the batch, from the host, whose time "
            "does not; a high one would show a batch limit"
        )
    return lines


def _explanation(run: MeasurementCheck, *, is_named: bool) -> list[str]:
    """Suspects for times outside their range, or a remark that nothing is; `is_named`: what is wrong is said before."""
    outside = [metric for metric in _METRICS if run.inside(metric) is False]
    if not outside:
        known = any(run.inside(metric) for metric in _METRICS)
        is_rough = run.expected.deployment.basis in ROUGH
        rough = "Nothing stands out, but the range is wide: the kernels of this generation were not timed."
        return [rough if is_rough else "Nothing needs explaining."] if known else []
    listed = [f"{place}. {text}" for place, text in enumerate(run.suspect_texts, start=1)]
    heading = ["Suspects, the most plausible first:" if len(listed) > 1 else "Suspect:"] if listed else []
    return [*heading, *listed, *([run.unexplained] if run.unexplained and not is_named else [])]


def _shared_notes(runs: list[MeasurementCheck]) -> list[str]:
    """Notes of all runs, each once, with the runs concerned unless all are."""
    about: dict[str, list[str]] = {}
    for run in runs:
        for text in run.warnings:
            about.setdefault(text, []).append(run.measured.source)
    return [
        text if len(sources) == len(runs) else f"{sources[0] if len(sources) == 1 else f'{len(sources)} runs'}: {text}"
        for text, sources in about.items()
    ]


def _metrics(run: MeasurementCheck) -> list[str]:
    return [metric for metric in _METRICS if getattr(run.measured, metric) is not None]


def _title(run: MeasurementCheck) -> list[str]:
    measured, deployment = run.measured, run.expected.deployment
    plan, loads = deployment.plan, ("batch", "concurrency", "request_rate", "num_prompts")
    load = next(f"{name} {getattr(measured, name):g}" for name in loads if getattr(measured, name) is not None)
    degrees = ", ".join(f"{name} {getattr(plan, name)}" for name in PLAN_DEGREES if getattr(plan, name) > 1)
    if deployment.replicas > 1:
        whole = "" if measured.tp else f" (--tp {deployment.num_gpus} if one ran on all GPUs)"
        degrees = f"{deployment.replicas} replicas of {degrees or 'tp 1'}{whole}"
    lengths = [f"{name} {getattr(measured, name):g}" for name in ("isl", "osl") if getattr(measured, name) is not None]
    details = [measured.statistic, deployment.basis, f"engine {deployment.effective_engine.name}", measured.source]
    where = f"{deployment.model.short_name} on {deployment.num_gpus}x {deployment.gpu.name}"
    return [
        ", ".join(part for part in (where, degrees, *lengths, load) if part),
        f"({', '.join(filter(None, details))})",
        *([f"{measured.statistic or 'mean'} compared with {run.expected.against}"] if run.expected.against else []),
        *([_taken(run)] if _taken(run) else []),
    ]


#: What a result may leave out, and what is taken for it.
_TAKEN = {
    "quantization": "the checkpoint's formats",
    "kv_cache_dtype": "its KV cache format",
    "prefix": "nothing cached",
    "engine": "a generic engine",
}


def _taken(run: MeasurementCheck) -> str:
    """What the result and its options do not state, and what is taken for it."""
    missing = [text for name, text in _TAKEN.items() if getattr(run.measured, name) is None]
    settings = [f"{name} {value}" for name, value in run.measured.settings]
    told = f"stated: {', '.join(settings)}" if settings else ""
    taken = f"not stated, so taken: {', '.join(missing)}" if missing else ""
    return "; ".join(filter(None, (told, taken)))


def _cells(run: MeasurementCheck, metric: str, second: float) -> list[str]:
    """Cells of a row; times are in this unit [s]."""
    used = {"ttft": (_percent(run.mfu), "-"), "tpot": ("-", _percent(run.mbu))}.get(metric, ("-", "-"))
    ends = run.expected.interval(metric)
    return [
        metric.upper(),
        _time(getattr(run.measured, metric), second),
        _time(getattr(run.expected, metric), second),
        "-" if ends is None else f"{_time(ends[0], second)}-{_time(ends[1], second)}",
        cell_text(run.ratio(metric)),
        *used,
        _percent(run.ideal_share(metric)),
    ]


def _time(time: float | None, second: float) -> str:
    return cell_text(None if time is None else time / second)


def _percent(share: float | None) -> str:
    return cell_text(None if share is None else 100.0 * share)


# Fitting the constants of kernels to timings, or those of an engine to results: the `calibrate` command.

_FIT_HEADINGS = ("kind", "dtype", "rows", "before [%]", "after [%]", "sigma [%]")


@click.command(
    cls=Question,
    epilog="\b\nExamples:\n"
    "  a server:   roofline calibrate results/*.json -g h100 --tp 1 -o mine.yaml\n"
    "  its use:    roofline predict -m llama-3.1-8b -g h100 --engine mine.yaml\n"
    "  kernels:    roofline calibrate kernels.csv -g h100-sxm -o specs/hopper.yaml\n"
    "  their use:  roofline ttft -m llama-3.1-8b -g h100-sxm --specs specs\n",
)
@click.argument("files", nargs=-1, required=True, type=PathName())
@click.option("-m", "--model", "--model-path", type=MODEL, help="Model: Hugging Face id, short name or alias.")
@click.option("-g", "--gpu", "--system", "--hardware", type=GPU, help="GPU that was measured.")
@stated_options("calibrate")
@click.option("--command", metavar="TEXT", help="Launch command of the server.")
@click.option(
    "--statistic", type=click.Choice(tuple(STATISTICS)[:2]), help="Over the requests.  [default: median, else mean]"
)
@click.option("--name", help="Name of the profile, or of the generation of kernels.  [default: the file's, the GPU's]")
@click.option(
    "--title", help="Description of the tables of kernels, cited as their source.  [default: own measurements]"
)
@click.option("--alone", is_flag=True, help="Leave out kernels that were not measured; do not keep the shipped values.")
@click.option("-o", "--output", type=PathName(), help="File to write; - prints.  [default: standard output]")
@click.option("--force", is_flag=True, help="Overwrite the file.")
def calibrate(
    files: tuple[str, ...],
    output: str | None,
    *,
    gpu: str | None,
    name: str | None,
    title: str | None,
    specs: str | None,
    alone: bool,
    force: bool,
    **stated: Any,
) -> None:
    """Fit the constants of an engine to results of your server, or those of kernels to timings of yours.

    FILES are results as roofline check reads them, of one engine, model and GPU: the answer is an engine profile for
    --engine. Or they are CSV tables of timed kernels of one GPU: the answer is a calibration for --specs
    (docs/measurements.md).
    """
    from roofline.questions.learn import are_kernel_tables

    output = None if output == "-" else output
    given = {option: value for option, value in stated.items() if value is not None}
    if not are_kernel_tables(files):
        for option, value in (("--title", title), ("--alone", alone)):
            if value:
                raise click.UsageError(f"{option} is about tables of kernels; these are results of a server")
        _calibrate_engine(files, output, name, force=force, gpu=gpu, specs=specs, **given)
        return
    if given:
        option = next(iter(given)).replace("_", "-")
        raise click.UsageError(f"--{option} is about results of a server; these are tables of kernels")
    if gpu is None:
        raise click.UsageError("tables of kernels need the GPU that was measured: -g")
    _calibrate_kernels(files, output, gpu, alone=alone, force=force, name=name, title=title, specs=specs)


def _calibrate_engine(
    files: Sequence[str], output: str | None, name: str | None, *, force: bool, **stated: Any
) -> None:
    from roofline.outputs.files import check_target, is_stream, write_whole
    from roofline.questions.learn import calibrate_engine

    is_file = output is not None and not is_stream(output)
    if output is not None and is_file:
        if Path(output).suffix not in (".yaml", ".yml"):
            raise BadInput(f"-o {output}: a profile is a YAML file: {Path(output).stem}.yaml")
        check_target(output, force=force)
        name = Path(output).stem if name is None else name
    fit = calibrate_engine(files, name=name or "mine", **stated)
    if output is None:
        echo(fit.text, nl=False)
    else:
        write_whole(output, lambda beside: beside.write_text(fit.text, encoding="utf-8"), force=force, make_folder=True)
    cells = [
        [each.constant, each.text(each.shipped), each.text(each.fitted), each.range_text, _told_by(each)]
        for each in fit.constants
    ]
    if is_file:
        print_table(_CONSTANT_HEADINGS, cells)
        echo()
        _echo_lines(_about(fit))
        echo(f"{output}: use it with --engine {output}")
    else:
        for row in (list(_CONSTANT_HEADINGS), *cells):
            echo("  ".join(row), err=True)
    notes(list(fit.notes))
    if fit.refused:
        raise RooflineError(reasons_text(fit.refused))


_CONSTANT_HEADINGS = ("constant", "before", "fitted", "80 % range", "told by")
_OF_PASSES = ("a prefill pass", "a decode step")


def _told_by(constant: FittedConstant) -> str:
    return "these runs" if constant.known else constant.telling or "no single run"


def _about(fit: EngineFit) -> list[str]:
    """What a fit says beyond its constants."""
    passes = [
        f"{words} x {rounded(factor)} ({rounded(low)}-{rounded(high)})"
        for words, (factor, low, high) in zip(_OF_PASSES, fit.passes.values(), strict=True)
    ]
    shares = " and ".join(f"{100.0 * share:.0f} % ({metric.upper()})" for metric, share in fit.scatter.items())
    return [
        f"Kernels of {', of '.join(passes)}. The ranges here are {shares} as wide as before.",
        *(["What these runs do not show stays near its earlier value; the run named here would show it."]
          if any(not each.known for each in fit.constants) else []),
    ]  # fmt: skip


def _calibrate_kernels(
    tables: Sequence[str], output: str | None, gpu: str, *, alone: bool, force: bool, **options: Any
) -> None:
    from roofline.outputs.files import check_target, is_stream, write_whole
    from roofline.questions.calibrate import calibrate as fit_tables

    if output is not None and not is_stream(output):
        calibration_name = options["name"] or load_gpu(gpu, options["specs"]).generation
        if Path(output).stem != calibration_name or Path(output).suffix not in (".yaml", ".yml"):
            raise BadInput(f"-o {output}: the file name must be the name of the calibration: {calibration_name}.yaml")
        check_target(output, force=force)
    given = {option: value for option, value in options.items() if value is not None}
    fit = fit_tables(tables, gpu, keep=not alone, **given)
    if output is None:
        echo(fit.text, nl=False)
    else:
        write_whole(output, lambda beside: beside.write_text(fit.text, encoding="utf-8"), force=force, make_folder=True)
    cells = [
        [row["kind"], row["dtype"], str(row["measurements"]), *(_residual_text(row[key]) for key in _SHARES)]
        for row in fit.rows
    ]
    if output is None or is_stream(output):
        for cells_of_row in (list(_FIT_HEADINGS), *cells):
            echo("  ".join(cells_of_row), err=True)
    else:
        print_table(_FIT_HEADINGS, cells)
        echo(f"\n{output}: use it with --specs {Path(output).parent}")


_SHARES = ("median_before", "median_after", "sigma")


def _residual_text(share: float | None) -> str:
    return "-" if share is None else f"{100.0 * share:.1f}"
