"""Questions about one case: ttft, tpot, predict, knee."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from roofline.api import catalog
from roofline.api.predict import NO_KNEE, Prediction, predict_each_gpu, refused_row
from roofline.cli.options import case_options, output_options
from roofline.cli.render import REASONS, echo, load_columns, notes, print_rows
from roofline.cli.values import Count
from roofline.errors import BadInput, RooflineError, UnknownName
from roofline.quantity import rounded_down

if TYPE_CHECKING:
    from roofline.api.simulate import Simulation

__all__ = ["knee", "predict", "tpot", "ttft"]

_WHO = {"model": "model", "gpu": "GPU", "num_gpus": "GPUs", "tp": "tp"}
_END = {"usd_per_hour": "USD/h", "basis_detail": "basis"}
_TTFT = {
    **_WHO,
    "ttft_ms": "TTFT [ms]",
    "ttft_low_ms": "80 % from",
    "ttft_high_ms": "to",
    "prefill_bound": "bound",
    **_END,
}
_TPOT = {
    **_WHO,
    "tpot_ms": "TPOT [ms]",
    "tpot_low_ms": "80 % from",
    "tpot_high_ms": "to",
    "tok_s_user": "tok/s/user",
    "decode_bound": "bound",
    **_END,
}
#: Light speed has no interval, but a share of it that calibrated kernels reach.
_LIGHT = {"ttft_low_ms": "ttft_light_frac", "tpot_low_ms": "tpot_light_frac"}
_KNEE = {
    **_WHO,
    "ridge_knee": "ridge",
    "half_knee": "half",
    "memory_knee": "memory",
    "slo_knee": "SLO",
    "knee": "knee",
    "knee_bound": "set by",
    "basis_detail": "basis",
}
_ALL = {
    **_WHO,
    "batch": "batch",
    "weight_dtype": "weights",
    "ttft_ms": "TTFT [ms]",
    "tpot_ms": "TPOT [ms]",
    "e2el_ms": "E2EL [ms]",
    "tok_s_user": "tok/s/user",
    "output_tok_s_gpu": "tok/s/GPU",
    "knee": "knee",
    "hbm_used_frac": "HBM used",
    "prefill_bound": "bound",
    **_END,
}

_explain_option = click.option("--explain", is_flag=True, help="Show every kernel, and the equation with its numbers.")


def _simulate_options(function: Any) -> Any:
    """Add ``--simulate``, and how it draws."""
    for option in (
        click.option(
            "--requests", type=Count(), help="Of a simulation, that are counted.  [default: 4000, more for many users]"
        ),
        click.option("--seed", type=int, default=0, show_default=True, help="Of a simulation's random numbers."),
        click.option(
            "--simulate",
            "simulated",
            is_flag=True,
            help="Simulate every step, too: means and percentiles beside the closed forms.",
        ),
    ):
        function = option(function)
    return function


class _Drawn(NamedTuple):
    """What was asked of a simulation."""

    is_asked: bool
    seed: int
    requests: int | None


@click.command(
    epilog="\b\nExamples:\n  roofline ttft -m llama-3.1-70b --isl 2000\n"
    "  roofline ttft -m llama-3.1-70b -g h100-sxm -g b200 -q fp8 --isl 8000 --prefix 80%\n"
    "  roofline ttft -m qwen3-32b -g h200 --isl 4000 --explain"
)
@case_options
@output_options
@_explain_option
@_simulate_options
def ttft(
    models: tuple[str, ...],
    gpus: tuple[str, ...],
    options: dict[str, Any],
    output_format: str,
    *,
    explain: bool,
    simulated: bool,
    seed: int,
    requests: int | None,
) -> None:
    """Time to first token, on every GPU or on those named, fastest first: of a burst, or the mean under a load."""
    _answer(models, gpus, options, output_format, _TTFT, explain=explain, drawn=_Drawn(simulated, seed, requests))


@click.command(
    epilog="\b\nExamples:\n  roofline tpot -m llama-3.1-8b -g h100 --isl 2000 --osl 300 --batch 64\n"
    "  roofline tpot -m gpt-oss-120b --workload 8k1k"
)
@case_options
@output_options
@_explain_option
@_simulate_options
def tpot(
    models: tuple[str, ...],
    gpus: tuple[str, ...],
    options: dict[str, Any],
    output_format: str,
    *,
    explain: bool,
    simulated: bool,
    seed: int,
    requests: int | None,
) -> None:
    """Mean time per output token after the first, on every GPU or on those named."""
    _answer(
        models, gpus, options, output_format, _TPOT, "tpot", explain=explain, drawn=_Drawn(simulated, seed, requests)
    )


@click.command(
    epilog="\b\nExamples:\n"
    "  roofline predict -m llama-3.1-70b -g h100-sxm --tp 4 --isl 2000 --osl 300 --batch 16 -q fp8\n"
    "  roofline predict -m deepseek-r1 -g h200 --tp 8 --workload 1k1k --batch 64 --format json"
)
@case_options
@output_options
@_explain_option
@_simulate_options
def predict(
    models: tuple[str, ...],
    gpus: tuple[str, ...],
    options: dict[str, Any],
    output_format: str,
    *,
    explain: bool,
    simulated: bool,
    seed: int,
    requests: int | None,
) -> None:
    """Everything about a case: latencies, throughput, knees, memory, cost."""
    single = len(models) == len(gpus) == 1 and output_format == "table"
    _answer(
        models,
        gpus,
        options,
        output_format,
        None if single else _ALL,
        explain=explain,
        drawn=_Drawn(simulated, seed, requests),
    )


@click.command(
    epilog="\b\nExamples:\n  roofline knee -m llama-3.1-70b -g h100-sxm --tp 4 --isl 2000 --osl 300\n"
    "  roofline knee -m qwen3-235b-a22b -g b200 --slo ttft:300,tpot:25"
)
@case_options
@output_options
@_explain_option
def knee(
    models: tuple[str, ...], gpus: tuple[str, ...], options: dict[str, Any], output_format: str, *, explain: bool
) -> None:
    """The batch, or the users, at which decode stops being cheap: ridge, half of the throughput, memory, SLO."""
    if options.get("request_rate") is not None:
        raise BadInput(NO_KNEE)
    _answer(models, gpus, options, output_format, _KNEE, explain=explain)


def _answer(
    models: tuple[str, ...],
    gpus: tuple[str, ...],
    options: dict[str, Any],
    output_format: str,
    columns: Mapping[str, str] | None,
    by: str = "ttft",
    *,
    explain: bool,
    drawn: _Drawn | None = None,
) -> None:
    """Predict every case, print what was found, and what was refused where a GPU was named."""
    found: list[Prediction] = []
    rows: list[dict[str, Any]] = []
    refusals: list[dict[str, Any]] = []
    failures: list[RooflineError] = []
    simulated = drawn is not None and drawn.is_asked
    if drawn is not None and not simulated and (drawn.seed or drawn.requests is not None):
        raise click.UsageError("--seed and --requests are of a simulation: add --simulate")
    if simulated and not {"concurrency", "request_rate"} & set(options):
        raise click.UsageError("--simulate is of a load: give --concurrency or --request-rate")
    if explain and output_format == "csv":
        raise click.UsageError("--explain has no CSV form; use --format json, markdown or table")
    people = output_format in ("table", "markdown")
    columns = None if columns is None else load_columns(columns, options)
    if columns is not None and options.get("basis") == "ideal":
        columns = _at_light_speed(columns)
    keys = (*columns, "warnings") if people and columns else None  # knees cost more than the rest together
    names = gpus or catalog.gpus(options.get("specs"))
    if "measured" in options and len(models) * len(names) != 1:
        raise click.UsageError("--measured belongs to one deployment: name one model and one GPU")
    for model in models:
        predictions, refused = predict_each_gpu(model, names, by, **options)
        found += predictions
        rows += [prediction.to_dict(keys) for prediction in predictions]
        for name, error in refused.items():
            row = refused_row(model, name, error, **options)
            reason = {key: REASONS.get(type(error), "refused") for key in row if people and key.endswith("_bound")}
            refusals.append({**row, **reason})
        if gpus or not predictions:
            failures += refused.values()
    unknown = next((failure for failure in failures if isinstance(failure, UnknownName)), None)
    if unknown is not None:
        raise unknown
    if not found:
        raise RooflineError("\n".join(dict.fromkeys(str(failure) for failure in failures)))
    simulations = [_simulation(prediction, drawn) for prediction in found] if drawn and simulated else []
    if simulations and not people:
        rows = [one.to_dict() for one in simulations]
        refusals = [{key: row.get(key) for key in rows[0]} for row in refusals]
    if columns is None:
        echo(str(found[0]))
    else:
        print_rows([*rows, *refusals], output_format, columns, _kernels(found) if explain and not people else None)
    if people:
        for one in simulations:
            echo(f"\n{one.prediction.deployment.gpu.name}, every step simulated:\n{one}")
    if people:
        if explain:
            _explain(found, output_format)
        notes(text for prediction in found for text in _headroom(prediction))
        notes(text for row in (rows if failures else [*rows, *refusals]) for text in row["warnings"])
    if failures:
        raise RooflineError("\n".join(dict.fromkeys(str(failure) for failure in failures)))


def _headroom(prediction: Prediction) -> list[str]:
    """Up to which load the p99 keeps within the multiple of its median that an SLO states."""
    if "p99_within" not in prediction.slo or prediction.load == "burst":
        return []
    from roofline.api.goodput import cause_of_tails, headroom

    most = headroom(prediction)
    who = prediction.deployment.gpu.name
    within = f"within {prediction.slo['p99_within']:g}x of the median"
    if most is None or not most.rate:
        return [f"{who}: at no load is the p99 {within}: {cause_of_tails(prediction)} alone spread it further"]
    most_text = f"{rounded_down(most.rate)} requests/s at random, {100.0 * most.util:.0f} % of the saturation"
    return [f"{who}: the p99 stays {within} up to {most_text}; the rest is headroom"]


def _simulation(prediction: Prediction, drawn: _Drawn) -> Simulation:
    """A case simulated, with a bar of its progress on a terminal."""
    from roofline.api.simulate import arrivals_of, simulation

    count = arrivals_of(prediction, drawn.requests, drawn.seed, None).requests
    with click.progressbar(length=count, label="simulating", file=sys.stderr, hidden=not sys.stderr.isatty()) as bar:
        return simulation(
            prediction,
            requests=drawn.requests,
            seed=drawn.seed,
            progress=lambda answered: bar.update(answered - bar.pos),
        )


def _at_light_speed(columns: Mapping[str, str]) -> dict[str, str]:
    """Columns of a table at light speed: the share reached in place of an interval."""
    kept = {_LIGHT.get(key, key): heading for key, heading in columns.items() if not key.endswith("_high_ms")}
    return {key: "reached" if key in _LIGHT.values() else heading for key, heading in kept.items()}


def _kernels(found: list[Prediction]) -> dict[str, Any]:
    """Further key of the JSON: the kernels of every case."""
    from roofline.api.explain import kernel_rows

    return {"kernels": [row for prediction in found for row in kernel_rows(prediction)]}


def _explain(found: list[Prediction], output_format: str) -> None:
    from roofline.cli.explain import print_explanation

    for prediction in found:
        print_explanation(prediction, output_format)
