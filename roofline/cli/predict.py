"""One case: the commands `predict`, `ttft`, `tpot` and `knee`."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import product
from typing import TYPE_CHECKING, Any

import click

from roofline.cli.answers import (
    BELOW_RULE,
    BOUND,
    GPUS,
    HBM,
    PLAN,
    TOK_S_GPU,
    TOK_S_USER,
    USD_HOUR,
    USD_TOKENS,
    answer_text,
    by_estimate,
    case_text,
    energy_columns,
    for_sale,
    gpus_text,
    latency,
    load_columns,
    miss_text,
    model_column,
    passing,
    ranked,
    ranks_of,
    split_by_rule,
    varying_columns,
    verdict_columns,
    with_refusals,
)
from roofline.cli.case import one_case, question, together, varying
from roofline.cli.options import (
    EVERY_REASON,
    Command,
    echo,
    for_people,
    labelled,
    notes,
    plot_option,
    plotted,
    print_table,
    read,
    reasons_text,
    show,
)
from roofline.cli.screen import (
    MARK,
    Screen,
    ScreenColumn,
    cell_text,
    flags,
    is_terminal,
    keys_of,
    pressing_first,
    prose,
    room,
    shell_words,
)
from roofline.cli.start import emit_option, emit_text, with_engine
from roofline.numbers.quantity import MICRO, counted, rounded, rounded_down, to_text
from roofline.questions import catalog
from roofline.questions.inputs.case import LASTING, lasting
from roofline.questions.inputs.options import COUNT, OPTIONS, QUESTIONS
from roofline.questions.predict import (
    Kernel,
    Pass,
    Prediction,
    computed_tokens,
    equation,
    meeting_first,
    predict_each_gpu,
    prediction_passes,
    prediction_text,
    refused_row,
)
from roofline.support.errors import BadInput, OverloadedAtTimes, RooflineError, UnknownName
from roofline.support.progress import counting
from roofline.support.records import NamedTuple, replace

if TYPE_CHECKING:
    from roofline.plot import Picture
    from roofline.questions.simulate import Simulation


# Columns of `ttft`, `tpot`, `knee` and `predict`.

_BASIS = ScreenColumn("basis", "basis_detail", 9)


def ttft_columns(options: Mapping[str, Any]) -> list[ScreenColumn]:
    return _latency_columns(options, "ttft", "tpot", BOUND["prefill"], later=[ranked(TOK_S_USER, 5)])


def tpot_columns(options: Mapping[str, Any]) -> list[ScreenColumn]:
    return _latency_columns(options, "tpot", "ttft", BOUND["decode"], first=[ranked(TOK_S_USER, 1)])


def _latency_columns(
    options: Mapping[str, Any],
    metric: str,
    other: str,
    bound: ScreenColumn,
    first: Sequence[ScreenColumn] = (),
    later: Sequence[ScreenColumn] = (),
) -> list[ScreenColumn]:
    is_limited = any(key.startswith(other) for key in options.get("slo") or ())
    beside = latency(other, options, 1 if is_limited else 4, with_range=False)
    return [
        *latency(metric, options),
        *first,
        *(beside if is_limited else ()),
        *verdict_columns(options),
        *load_columns(options),
        bound,
        *(() if is_limited else beside),
        *latency("e2el", options, 6, with_range=False),
        *later,
        ranked(TOK_S_GPU, 5),
        HBM,
        USD_HOUR,
        USD_TOKENS,
        *energy_columns(options),
        _BASIS,
    ]


def knee_columns(options: Mapping[str, Any]) -> list[ScreenColumn]:
    return [
        ScreenColumn(f"knee [{lasting(options).heading}]", "knee"),
        ScreenColumn("set by", "knee_bound", 1),
        ScreenColumn("ridge", "ridge_knee", 1),
        ScreenColumn("half", "half_knee", 1),
        ScreenColumn("memory", "memory_knee", 1),
        ScreenColumn("by SLO", "slo_knee", 1),
        *verdict_columns(options),
        USD_HOUR,
        _BASIS,
    ]


def predict_columns(options: Mapping[str, Any]) -> list[ScreenColumn]:
    return [
        *latency("ttft", options),
        *latency("tpot", options, 1),
        *verdict_columns(options),
        *load_columns(options),
        TOK_S_GPU,
        *latency("e2el", options, 4, with_range=False),
        ranked(TOK_S_USER, 5),
        HBM,
        BOUND["decode"],
        USD_HOUR,
        USD_TOKENS,
        *energy_columns(options),
        _BASIS,
    ]


# Kernels of a pass with work, time and bound, and their equations with numbers.

_HEADINGS = ("kernel", "runs", "FLOP", "bytes", "one us", "all us", "share", "bound by")


def print_explanation(prediction: Prediction, output_format: str) -> None:
    for name, passed in prediction_passes(prediction):
        run = [kernel for kernel in passed.kernels if kernel.count]  # others are what this case does otherwise
        echo(f"\n{_title(prediction, name)}: {to_text(passed.time, 's')}, bound: {passed.bound}\n")
        print_table(_HEADINGS, [_cells(kernel, passed) for kernel in run], output_format)
        echo("\n" + prose(_FORMULA if prediction.basis != "ideal" else _IDEAL_FORMULA, indent="      "))
        for kernel in run:
            echo(prose(f"  {kernel.name}: {equation(kernel)}", indent="      "))


_FORMULA = "t = t0 + || F/(eta_c P) + kappa d , Q/(eta_m W) ||_p + X/(eta_x S) + Q_s/(eta_s W) + kappa_s d_s + eps n"
_IDEAL_FORMULA = "t = max(F/P, Q/W)"


def _cells(kernel: Kernel, passed: Pass) -> list[str]:
    return [
        kernel.name,
        f"{kernel.count:g}",
        f"{kernel.work.flop:.3g}",
        f"{kernel.work.nbytes or kernel.work.link_bytes:.3g}",
        cell_text(kernel.terms.total / MICRO),
        cell_text(kernel.time / MICRO),
        f"{100.0 * kernel.time / passed.time:.1f}%",
        str(kernel.terms.bound),
    ]


def _title(prediction: Prediction, name: str) -> str:
    workload = prediction.workload
    where = f"{prediction.deployment.model.short_name} on {prediction.deployment.gpu.name}"
    if name == "prefill":
        tokens = " or ".join(f"{kind:g}" for kind in computed_tokens(prediction))
        return f"{where}, prefill of {workload.batch:g} x {tokens} tokens"
    return f"{where}, mean decode step of {counted(rounded(prediction.decode_batch), 'sequence')}"


# The commands `ttft`, `tpot`, `predict` and `knee`.

_LIMITS = {
    "slo": "the SLO is missed",
    "memory": "the KV cache does not fit",
    "half": "a user gets less than half of the speed",
    "ridge": "arithmetic takes over from bandwidth",
}
_ALWAYS = (
    "gpu",
    "num_gpus",
    "basis",
    "weight_dtype",
    "ttft_ms",
    "tpot_ms",
    "util",
    "slo_binding",
    "slo_verdict",
    "price_source",
    "gpu_status",
    "warnings",
)


class _Query(NamedTuple):
    models: tuple[str, ...]
    gpus: tuple[str, ...]
    cases: list[dict[str, Any]]
    output_format: str
    explain: bool
    simulated: bool = False
    seed: int = 0
    requests: int | None = None
    plot: str | None = None

    @property
    def options(self) -> dict[str, Any]:
        """Options of the first case: what all have in common but for values that vary."""
        return self.cases[0]

    @property
    def for_people(self) -> bool:
        return for_people(self.output_format)


_explained = click.option("--explain", is_flag=True, help="Show every kernel, with the equation and its numbers.")


def _simulated(function: Command) -> Command:
    """Add a simulation of every step."""
    for option in (
        click.option(
            "--requests",
            type=read(COUNT),
            help="Requests to simulate.  [default: 4000, more for many users and near saturation]",
        ),
        click.option("--seed", type=int, default=0, show_default=True, help="Seed of the simulation."),
        click.option(
            "--simulate",
            "simulated",
            is_flag=True,
            help="Simulate every step as well, and print both beside each other.",
        ),
    ):
        function = option(function)
    return function


@question(
    "roofline ttft -m llama-3.1-70b --isl 2000",
    "roofline ttft -m llama-3.1-70b -g h100,b200 -q fp8 --isl 8k --prefix 80%",
    "roofline ttft -m qwen3-32b -g h200 --isl 4000 --explain",
)
@_simulated
@_explained
def ttft(models: tuple[str, ...], gpus: tuple[str, ...], cases: list[dict[str, Any]], **query: Any) -> None:
    """Time to first token on every GPU, or on those named, fastest first.

    On an idle server it is that of the whole burst; under a load, the mean over requests.
    """
    _answer(_Query(models, gpus, cases, **query), ttft_columns)


@question(
    "roofline tpot -m llama-3.1-8b -g h100 --isl 2000 --osl 300 --batch 64",
    "roofline tpot -m gpt-oss-120b --workload 8k1k",
)
@_simulated
@_explained
def tpot(models: tuple[str, ...], gpus: tuple[str, ...], cases: list[dict[str, Any]], **query: Any) -> None:
    """Mean time per output token after the first, on every GPU or on those named, fastest first."""
    _answer(_Query(models, gpus, cases, **query), tpot_columns, "tpot")


@question(
    "roofline predict -m llama-3.1-70b -q fp8 -g h100:tp4 --isl 2k -b 16",
    "roofline predict -m deepseek-r1 -g h200:tp8 --workload 1k1k -c 64 -f json",
)
@click.option("--knee", "with_knee", is_flag=True, help="Show the batch or users at which decode stops being cheap.")
@emit_option
@plot_option
@_simulated
@_explained
def predict(
    models: tuple[str, ...],
    gpus: tuple[str, ...],
    cases: list[dict[str, Any]],
    *,
    with_knee: bool,
    emit: str | None,
    **query: Any,
) -> None:
    """Latency, throughput, knee, memory and cost of one case, or a table of several."""
    if emit is not None:
        from roofline.questions.predict import predict as predict_question

        model, gpu = one_case(models, gpus)
        if len(cases) > 1:
            raise click.UsageError("--emit takes one case; give one value of each option")
        options = with_engine(emit, cases[0])
        emit_text(emit, predict_question(model, gpu, **options), options, query["output_format"])
        return
    asked = _Query(models, gpus, cases, **query)
    if with_knee:
        _refuse_rate(cases)
        _answer(asked, knee_columns)
        return
    is_one = len(models) == len(gpus) == len(cases) == 1 and asked.output_format == "table" and asked.for_people
    _answer(asked, None if is_one else predict_columns)


@question(
    "roofline knee -m llama-3.1-70b -g h100-sxm --tp 4 --isl 2000 --osl 300",
    "roofline knee -m qwen3-235b-a22b -g b200 --slo ttft:300,tpot:25",
)
@_explained
def knee(models: tuple[str, ...], gpus: tuple[str, ...], cases: list[dict[str, Any]], **query: Any) -> None:
    """The batch, or the number of users, at which decode stops being cheap."""
    _answer(_Query(models, gpus, cases, **query), knee_columns)


def _refuse_rate(cases: list[dict[str, Any]]) -> None:
    refused = QUESTIONS["knee"].refused
    stated = next((name for name in refused if any(case.get(name) is not None for case in cases)), None)
    if stated is not None:
        raise click.UsageError(f"predict --knee takes no {OPTIONS[stated].flags[0]}: {refused[stated]}")


def _check(query: _Query) -> None:
    if not query.simulated and (query.seed or query.requests is not None):
        raise click.UsageError("--seed and --requests belong to a simulation: add --simulate")
    if query.simulated and any(lasting(case).is_burst for case in query.cases):
        stated = " or ".join(f"--{name.replace('_', '-')}" for name in LASTING)
        raise click.UsageError(f"--simulate needs a load: {stated}")
    if query.explain and query.output_format == "csv":
        raise click.UsageError("--explain has no CSV form; use --format json, markdown or table")


def _answer(query: _Query, view: Callable[[Mapping[str, Any]], list[ScreenColumn]] | None, by: str = "ttft") -> None:
    """Print the answers; without a view in prose. GPUs that were named and have no answer are errors."""
    _check(query)
    models, gpus, options = query.models, query.gpus, query.options
    columns = []
    if view is not None:
        columns = [MARK, *model_column(len(models)), GPUS, PLAN, *varying_columns(varying(query.cases)), *view(options)]
    keys = None
    if query.for_people and columns:  # knees take longer than everything else
        keys = tuple(dict.fromkeys((*keys_of(columns), *_ALWAYS)))
    names = gpus or catalog.gpus(options.get("specs"))
    if "measured" in options and len(models) * len(names) != 1:
        raise click.UsageError("--measured takes one deployment; give one model and one GPU")
    try:
        cases = _cases(models, names, by, query.cases, keys)
    except OverloadedAtTimes as refusal:  # the only case
        _simulate_refused([refusal], query)
        raise
    failures = [error for error, is_alone in cases.refused.values() if gpus or is_alone]
    unknown = next((failure for failure in failures if isinstance(failure, UnknownName)), None)
    if unknown is not None:
        raise unknown
    if not cases.predictions:
        _simulate_refused(failures, query)
        raise RooflineError(reasons_text(failures))
    if plotted(query.plot, lambda: _picture(cases.predictions), is_of_rows=True):
        return
    simulations = [_simulation(prediction, query) for prediction in cases.predictions] if query.simulated else []
    texts = [
        *(text for prediction in cases.predictions for text in _headroom(prediction)),
        *labelled((row["gpu"], row["warnings"]) for row in cases.rows),
    ]
    failure = reasons_text(failures, EVERY_REASON)
    of_simulations = _simulations_text(simulations, in_full=flags().is_full) if query.for_people else ""
    if not columns and not simulations and is_terminal():
        of_simulations = _quick_simulation(cases.predictions[0])
    below = "\n".join(text for text in (of_simulations, failure) if text)
    is_cut = False
    if columns:
        screen = replace(_screen(query, cases, columns), notes=texts, below=below)
        extra = _kernels(cases.predictions) if query.explain and not query.for_people else None
        show(screen, query.output_format, _rows(cases, simulations), extra)
    else:
        is_cut = _print_prose(cases.predictions[0], below, in_full=query.explain)
    if query.for_people:
        if of_simulations:
            echo(of_simulations)
        if query.explain:
            _explain(cases.predictions, query.output_format)
        if not columns:
            notes(pressing_first(texts)[1], *([_CUT] if is_cut else []))  # the text has the others
    if failure:
        raise RooflineError(failure)


def _picture(predictions: list[Prediction]) -> Picture:
    """Of one case its kernels, parts and neighbours; of several their latencies."""
    from roofline import plot

    return plot.case(predictions[0]) if len(predictions) == 1 else plot.ranking(predictions)


def _print_prose(prediction: Prediction, below: str, *, in_full: bool) -> bool:
    """Print a prediction in as many lines as there are, with one left for the footer; whether any had to go."""
    lines = None if in_full else room(flags(), below)
    text = prediction_text(prediction, None if lines is None else lines - 1)
    echo(text)
    return text != str(prediction)


def _simulations_text(simulations: Sequence[Simulation], *, in_full: bool) -> str:
    """Simulations beside their predictions; on a first screen a line of each, or of one means and the p99."""
    if len(simulations) > 1 and not in_full:
        named = {each.prediction.deployment.gpu.name: repr(each)[1:-1] for each in simulations}
        return "\n".join(prose(f"{name}: {text}", indent="  ") for name, text in named.items())
    texts = []
    for each in simulations:
        lines = str(each).split("\n")
        kept = lines if in_full else [line for line in lines if not line.partition(" ")[2].startswith(_INNER_LEVELS)]
        texts.append("\n".join(["", f"{each.prediction.deployment.gpu.name}, every step simulated:", *kept]))
    return "\n".join(texts)


def _quick_simulation(prediction: Prediction) -> str:
    """What a server does where the closed forms do not hold, in a line or two; empty where they do."""
    if prediction.holds:
        return ""
    from roofline.questions.simulate import QUICK, simulation

    try:
        text = simulation(prediction, events=QUICK).brief
    except BadInput as error:
        text = f"not here: {shell_words(str(error))}"
    return prose(f"  {'simulated':<11}{text}", indent=" " * 13)


_CUT = "more: --all"
_INNER_LEVELS = ("p50", "p90", "p95")


def _rows(cases: _Cases, simulations: list[Simulation]) -> list[dict[str, Any]]:
    """Rows for programs: of the simulations, else of the predictions; then of what was refused."""
    rows = [simulated.to_dict() for simulated in simulations] or cases.rows
    return [*rows, *({key: row.get(key) for key in rows[0]} for row in cases.refusals)]


class _Cases(NamedTuple):
    predictions: list[Prediction]
    rows: list[dict[str, Any]]
    refusals: list[dict[str, Any]]
    refused: dict[tuple[str, str, int], tuple[RooflineError, bool]]  # whether the model runs nowhere


def _cases(
    models: tuple[str, ...], gpus: tuple[str, ...], by: str, cases: list[dict[str, Any]], keys: tuple[str, ...] | None
) -> _Cases:
    answers = _Cases([], [], [], {})
    for model, (place, options) in product(dict.fromkeys(models), enumerate(cases)):
        predictions, refused = predict_each_gpu(model, gpus, by, **options)
        answers.predictions.extend(predictions)
        answers.rows.extend(dict(prediction.to_dict(keys)) for prediction in predictions)
        for name, error in refused.items():
            answers.refusals.append(refused_row(model, name, error, **options))
            answers.refused[model, name, place] = error, not predictions
    pairs = meeting_first(zip(answers.predictions, answers.rows, strict=True), lambda pair: pair[0].verdict)
    return answers._replace(predictions=[pair[0] for pair in pairs], rows=[pair[1] for pair in pairs])


def _screen(query: _Query, cases: _Cases, columns: list[ScreenColumn]) -> Screen:
    models, gpus, options = query.models, query.gpus, query.options
    is_named = bool(gpus)
    refusals = [
        {**row, "refusal": cases.refused[key][0].short} for key, row in zip(cases.refused, cases.refusals, strict=True)
    ]
    statuses = (prediction.deployment.gpu.status for prediction in cases.predictions)
    first, others = split_by_rule(statuses, cases.rows, is_named=is_named)
    case = case_text(
        dict.fromkeys(prediction.deployment.model.short_name for prediction in cases.predictions),
        together(query.cases),
        {row["weight_dtype"] for row in cases.rows},
    )
    is_one = len(models) == len(query.cases) == 1
    return Screen(
        columns=with_refusals(columns, refusals if is_named else ()),
        rows=[*first, *refusals] if is_named else first,
        case=case,
        answer=_answer_text(first, columns, options, gpus, others=bool(others)) if is_one else "",
        others=others if is_named else [*others, *refusals],
        rule=BELOW_RULE,
    )


def _answer_text(
    rows: Sequence[Mapping[str, Any]],
    columns: Sequence[ScreenColumn],
    options: Mapping[str, Any],
    gpus: Sequence[str],
    *,
    others: bool,
) -> str:
    """Where the knee lies in a sentence, or the latencies."""
    if not any(column.key == "knee" for column in columns[: len(knee_columns(options))]):
        return answer_text(rows, options, gpus, others=others)
    if not rows or rows[0].get("knee") is None:
        return ""
    kind = lasting(options)
    missed = miss_text(rows, options, gpus)
    knees = [row for row in passing(rows) or rows if float(row.get("knee") or 0.0) >= 1.0] or rows
    best = max(for_sale(knees), key=lambda row: float(row.get("knee") or 0.0))
    if best["knee"] < 1.0:
        return f"{_LIMITS.get(str(best['knee_bound']), best['knee_bound'])} already by one request, on every GPU shown"
    beyond = _LIMITS.get(str(best["knee_bound"]), str(best["knee_bound"]))
    if best["knee_bound"] == "memory" and not kind.is_burst:
        beyond = "users wait for a slot (memory, or max_num_seqs)"
    of_those = "those that meet the SLO" if passing(rows) else "these"
    most = "" if len(rows) == 1 else f", the most of {of_those}"
    is_of_each = kind.is_burst and (best["num_gpus"] or 1) > ranks_of(best)
    where = f"{'each replica of ' if is_of_each else ''}{gpus_text(best)}{by_estimate(best)}{most}"
    cheap = f"decode stays cheap up to {best['knee']:.0f}{kind.many} on {where}"
    return f"{missed}{'; ' if missed else ''}{cheap}; beyond, {beyond}"


def _headroom(prediction: Prediction) -> list[str]:
    """The load up to which the p99 stays within the multiple of the median that an SLO states."""
    if "p99_within" not in prediction.slo or prediction.workload.load.is_burst:
        return []
    from roofline.questions.goodput import cause_of_tails, headroom

    most = headroom(prediction)
    who = prediction.deployment.gpu.name
    within = f"within {prediction.slo['p99_within']:g}x of the median"
    if most is None or not most.rate:
        return [f"{who}: the p99 is never {within}; {cause_of_tails(prediction)} alone spread it further"]
    most_text = f"{rounded_down(most.rate)} requests/s at random, {100.0 * most.util:.0f} % of the saturation"
    return [f"{who}: the p99 stays {within} up to {most_text}; the rest is headroom"]


def _simulation(prediction: Prediction, query: _Query) -> Simulation:
    """Simulate a case, and count its requests."""
    from roofline.questions.simulate import arrivals_of, simulation

    count = arrivals_of(prediction, query.requests, query.seed, None).least
    with counting("requests", count) as answered:
        return simulation(prediction, requests=query.requests, seed=query.seed, progress=answered)


def _simulate_refused(failures: Sequence[RooflineError], query: _Query) -> None:
    """Simulate what closed forms refuse because of bunches, where a person asks for it."""
    if not (query.simulated and query.for_people):
        return
    from roofline.questions.simulate import unanswered

    refused = [unanswered(failure) for failure in failures if isinstance(failure, OverloadedAtTimes)]
    if refused:
        simulations = [_simulation(prediction, query) for prediction in refused]
        echo(_simulations_text(simulations, in_full=flags().is_full).lstrip("\n"))


def _kernels(predictions: list[Prediction]) -> dict[str, Any]:
    """A further JSON key: the kernels of every case."""
    from roofline.questions.predict import kernel_rows

    return {"kernels": [row for prediction in predictions for row in kernel_rows(prediction)]}


def _explain(predictions: list[Prediction], output_format: str) -> None:
    for prediction in predictions:
        if prediction.queue is not None:
            parts = {"its own prompt": prediction.ttft - prediction.queue, "queue and other prompts": prediction.queue}
            words = " + ".join(f"{name} {to_text(time, 's')}" for name, time in parts.items())
            echo(f"\n{prediction.deployment.gpu.name}: TTFT {to_text(prediction.ttft, 's')} = {words}")
        print_explanation(prediction, output_format)
