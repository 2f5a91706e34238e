"""The commands `ttft`, `tpot`, `predict` and `knee`."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import click

from roofline.api import catalog
from roofline.api.answer_rows import refused_row
from roofline.api.predict import NO_KNEE, Prediction, predict_each_gpu
from roofline.api.ranking import meeting_first
from roofline.cli.answers import answer_text, by_estimate, case_text, gpus_text, miss_text, passing, ranks_of
from roofline.cli.case import case_options
from roofline.cli.columns import BELOW_RULE, GPUS, PLAN, model_column, split_by_rule, with_refusals
from roofline.cli.commands.views import knee_columns, predict_columns, tpot_columns, ttft_columns
from roofline.cli.help import Question
from roofline.cli.options import FOR_PEOPLE, output_options
from roofline.cli.render import REASONS, echo, labelled, notes, show
from roofline.cli.screen import MARK, Screen, ScreenColumn, keys_of, pressing_first
from roofline.cli.values import COUNT
from roofline.errors import BadInput, RooflineError, UnknownName
from roofline.quantity import rounded_down, to_text
from roofline.records import NamedTuple, replace

if TYPE_CHECKING:
    from roofline.api.simulate import Simulation


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
    "warnings",
)
_OF_A_LOAD = ("concurrency", "request_rate")


class _Query(NamedTuple):
    models: tuple[str, ...]
    gpus: tuple[str, ...]
    options: dict[str, Any]
    output_format: str
    explain: bool
    simulated: bool
    seed: int
    requests: int | None

    @property
    def for_people(self) -> bool:
        return self.output_format in FOR_PEOPLE


_SIMULATION = (
    click.option(
        "--simulate",
        "simulated",
        is_flag=True,
        help="Simulate every step as well, and print both beside each other.",
    ),
    click.option("--seed", type=int, default=0, show_default=True, help="Seed of the simulation."),
    click.option("--requests", type=COUNT, help="Requests to simulate.  [default: 4000, more for many users]"),
)


def _command(*examples: str, with_simulation: bool = True) -> Callable[[Callable[[_Query], None]], click.Command]:
    """Decorator: a command with the options of a case, the output and a simulation."""

    def as_command(function: Callable[[_Query], None]) -> click.Command:
        def command(
            models: tuple[str, ...],
            gpus: tuple[str, ...],
            options: dict[str, Any],
            output_format: str,
            *,
            explain: bool,
            simulated: bool = False,
            seed: int = 0,
            requests: int | None = None,
        ) -> None:
            function(_Query(models, gpus, options, output_format, explain, simulated, seed, requests))

        for option in reversed(_SIMULATION if with_simulation else ()):
            command = option(command)
        command = click.option("--explain", is_flag=True, help="Show every kernel, with the equation and its numbers.")(
            command
        )
        return click.command(
            function.__name__,
            cls=Question,
            help=function.__doc__,
            epilog="\b\nExamples:" + "".join(f"\n  {example}" for example in examples),
        )(case_options(output_options(command)))

    return as_command


@_command(
    "roofline ttft -m llama-3.1-70b --isl 2000",
    "roofline ttft -m llama-3.1-70b -g h100,b200 -q fp8 --isl 8k --prefix 80%",
    "roofline ttft -m qwen3-32b -g h200 --isl 4000 --explain",
)
def ttft(query: _Query) -> None:
    """Time to first token on every GPU, or on those named, fastest first.

    On an idle server that of the whole burst; under a load the mean over requests.
    """
    _answer(query, ttft_columns)


@_command(
    "roofline tpot -m llama-3.1-8b -g h100 --isl 2000 --osl 300 --batch 64",
    "roofline tpot -m gpt-oss-120b --workload 8k1k",
)
def tpot(query: _Query) -> None:
    """Mean time per output token after the first, on every GPU or on those named, fastest first."""
    _answer(query, tpot_columns, "tpot")


@_command(
    "roofline predict -m llama-3.1-70b -q fp8 -g h100:tp4 --isl 2k -b 16",
    "roofline predict -m deepseek-r1 -g h200:tp8 --workload 1k1k -c 64 -f json",
)
def predict(query: _Query) -> None:
    """Latency, throughput, knee, memory and cost of one case, or a table of several."""
    is_one = len(query.models) == len(query.gpus) == 1 and query.output_format == "table"
    _answer(query, None if is_one else predict_columns)


@_command(
    "roofline knee -m llama-3.1-70b -g h100-sxm --tp 4 --isl 2000 --osl 300",
    "roofline knee -m qwen3-235b-a22b -g b200 --slo ttft:300,tpot:25",
    with_simulation=False,
)
def knee(query: _Query) -> None:
    """The batch, or the number of users, at which decode stops being cheap."""
    if query.options.get("request_rate") is not None:
        raise BadInput(NO_KNEE)
    _answer(query, knee_columns)


def _check(query: _Query) -> None:
    if not query.simulated and (query.seed or query.requests is not None):
        raise click.UsageError("--seed and --requests belong to a simulation: add --simulate")
    if query.simulated and not set(_OF_A_LOAD) & set(query.options):
        raise click.UsageError("--simulate needs a load: --concurrency or --request-rate")
    if query.explain and query.output_format == "csv":
        raise click.UsageError("--explain has no CSV form; use --format json, markdown or table")


def _answer(query: _Query, view: Callable[[Mapping[str, Any]], list[ScreenColumn]] | None, by: str = "ttft") -> None:
    """Print the answers; without a view in prose. GPUs that were named and have no answer are errors."""
    _check(query)
    models, gpus, options = query.models, query.gpus, query.options
    columns = [] if view is None else [MARK, *model_column(len(models)), GPUS, PLAN, *view(options)]
    keys = None
    if query.for_people and columns:  # knees take longer than everything else
        keys = tuple(dict.fromkeys((*keys_of(columns), *_ALWAYS)))
    names = gpus or catalog.gpus(options.get("specs"))
    if "measured" in options and len(models) * len(names) != 1:
        raise click.UsageError("--measured is of one deployment; give one model and one GPU")
    cases = _cases(models, names, by, options, keys)
    failures = [error for error, is_alone in cases.refused.values() if gpus or is_alone]
    unknown = next((failure for failure in failures if isinstance(failure, UnknownName)), None)
    if unknown is not None:
        raise unknown
    if not cases.predictions:
        raise RooflineError("\n".join(dict.fromkeys(str(failure) for failure in failures)))
    simulations = [_simulation(prediction, query) for prediction in cases.predictions] if query.simulated else []
    texts = [
        *(text for prediction in cases.predictions for text in _headroom(prediction)),
        *labelled((row["gpu"], row["warnings"]) for row in cases.rows),
    ]
    if columns:
        screen = replace(_screen(models, gpus, cases, columns, options), notes=texts)
        extra = _kernels(cases.predictions) if query.explain and not query.for_people else None
        show(screen, query.output_format, _rows(cases, simulations), extra)
    else:
        echo(str(cases.predictions[0]))
    if query.for_people:
        for simulated in simulations:
            echo(f"\n{simulated.prediction.deployment.gpu.name}, every step simulated:\n{simulated}")
        if query.explain:
            _explain(cases.predictions, query.output_format)
        if not columns:
            notes(pressing_first(texts)[1])  # the text has the others
    if failures:
        raise RooflineError("\n".join(dict.fromkeys(str(failure) for failure in failures)))


def _rows(cases: _Cases, simulations: list[Simulation]) -> list[dict[str, Any]]:
    """Rows for programs: of the simulations, else of the predictions; then of what was refused."""
    rows = [simulated.to_dict() for simulated in simulations] or cases.rows
    return [*rows, *({key: row.get(key) for key in rows[0]} for row in cases.refusals)]


class _Cases(NamedTuple):
    predictions: list[Prediction]
    rows: list[dict[str, Any]]
    refusals: list[dict[str, Any]]
    refused: dict[tuple[str, str], tuple[RooflineError, bool]]  # (model, GPU) -> error, whether the model runs nowhere


def _cases(
    models: tuple[str, ...], gpus: tuple[str, ...], by: str, options: dict[str, Any], keys: tuple[str, ...] | None
) -> _Cases:
    cases = _Cases([], [], [], {})
    for model in models:
        predictions, refused = predict_each_gpu(model, gpus, by, **options)
        cases.predictions.extend(predictions)
        cases.rows.extend(dict(prediction.to_dict(keys)) for prediction in predictions)
        for name, error in refused.items():
            if (model, name) not in cases.refused:  # a model may be named twice
                cases.refusals.append(refused_row(model, name, error, **options))
            cases.refused[model, name] = error, not predictions
    pairs = meeting_first(zip(cases.predictions, cases.rows, strict=True), lambda pair: pair[0].verdict)
    return cases._replace(predictions=[pair[0] for pair in pairs], rows=[pair[1] for pair in pairs])


def _screen(
    models: tuple[str, ...],
    gpus: tuple[str, ...],
    cases: _Cases,
    columns: list[ScreenColumn],
    options: Mapping[str, Any],
) -> Screen:
    is_named = bool(gpus)
    refusals = [
        {**row, "refusal": REASONS.get(type(cases.refused[key][0]), "refused")}
        for key, row in zip(cases.refused, cases.refusals, strict=True)
    ]
    statuses = (prediction.deployment.gpu.status for prediction in cases.predictions)
    first, others = split_by_rule(statuses, cases.rows, is_named=is_named)
    case = case_text(
        dict.fromkeys(prediction.deployment.model.short_name for prediction in cases.predictions),
        options,
        {row["weight_dtype"] for row in cases.rows},
    )
    return Screen(
        columns=with_refusals(columns, refusals if is_named else ()),
        rows=[*first, *refusals] if is_named else first,
        case=case,
        answer=_answer_text(first, columns, options, gpus, others=bool(others)) if len(models) == 1 else "",
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
    what = "users" if options.get("concurrency") is not None else "requests at once"
    missed = miss_text(rows, options, gpus)
    best = max(passing(rows) or rows, key=lambda row: float(row.get("knee") or 0.0))
    if best["knee"] < 1.0:
        return f"{_LIMITS.get(str(best['knee_bound']), best['knee_bound'])} already by one request, on every GPU shown"
    why = _LIMITS.get(str(best["knee_bound"]), str(best["knee_bound"]))
    if best["knee_bound"] == "memory" and options.get("concurrency") is not None:
        why = "users wait for a slot (memory, or max_num_seqs)"
    of_those = "those that meet the SLO" if passing(rows) else "these"
    most = "" if len(rows) == 1 else f", the most of {of_those}"
    is_of_each = options.get("concurrency") is None and (best["num_gpus"] or 1) > ranks_of(best)
    where = f"{'each replica of ' if is_of_each else ''}{gpus_text(best)}{by_estimate(best)}{most}"
    return (
        f"{missed}{'; ' if missed else ''}decode stays cheap up to {best['knee']:.0f} {what} on {where}; beyond, {why}"
    )


def _headroom(prediction: Prediction) -> list[str]:
    """The load up to which the p99 stays within the multiple of the median that an SLO states."""
    if "p99_within" not in prediction.slo or prediction.load == "burst":
        return []
    from roofline.api.goodput import cause_of_tails, headroom

    most = headroom(prediction)
    who = prediction.deployment.gpu.name
    within = f"within {prediction.slo['p99_within']:g}x of the median"
    if most is None or not most.rate:
        return [f"{who}: the p99 is never {within}; {cause_of_tails(prediction)} alone spread it further"]
    most_text = f"{rounded_down(most.rate)} requests/s at random, {100.0 * most.util:.0f} % of the saturation"
    return [f"{who}: the p99 stays {within} up to {most_text}; the rest is headroom"]


def _simulation(prediction: Prediction, query: _Query) -> Simulation:
    """Simulate a case, with a progress bar on a terminal."""
    from roofline.api.simulate import arrivals_of, simulation

    count = arrivals_of(prediction, query.requests, query.seed, None).requests
    with click.progressbar(length=count, label="simulating", file=sys.stderr, hidden=not sys.stderr.isatty()) as bar:
        return simulation(
            prediction,
            requests=query.requests,
            seed=query.seed,
            progress=lambda answered: bar.update(answered - bar.pos),
        )


def _kernels(predictions: list[Prediction]) -> dict[str, Any]:
    """A further JSON key: the kernels of every case."""
    from roofline.api.explain import kernel_rows

    return {"kernels": [row for prediction in predictions for row in kernel_rows(prediction)]}


def _explain(predictions: list[Prediction], output_format: str) -> None:
    from roofline.cli.commands.explain import print_explanation

    for prediction in predictions:
        if prediction.queue is not None:
            parts = {"its own prompt": prediction.ttft - prediction.queue, "queue and other prompts": prediction.queue}
            words = " + ".join(f"{name} {to_text(time, 's')}" for name, time in parts.items())
            echo(f"\n{prediction.deployment.gpu.name}: TTFT {to_text(prediction.ttft, 's')} = {words}")
        print_explanation(prediction, output_format)
