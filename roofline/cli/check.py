"""Against your own measurement: the result of a benchmark beside its prediction."""

from __future__ import annotations

import sys
from typing import Any

import click

from roofline.api.check import (
    RESULT_BYTES,
    STATISTICS,
    MeasurementCheck,
    Part,
    Reading,
    check_readings,
    read_results,
    results,
)
from roofline.api.inputs.case import BASES, PRESETS
from roofline.cli.options import output_options, specs_option
from roofline.cli.render import digits, echo, notes, print_rows, print_table
from roofline.cli.values import GpuName, ModelName, PathName
from roofline.errors import BadInput, RooflineError
from roofline.quantity import MILLI, to_text

__all__ = ["check"]

_HEADINGS = ("", "measured [ms]", "predicted [ms]", "ratio", "MFU [%]", "MBU [%]", "of light speed [%]")
_METRICS = {"ttft": "TTFT", "tpot": "TPOT", "e2el": "E2EL"}
_AGREES = 0.02  # times of two runs of one server scatter as much
_STATED = (
    *("model", "gpu", "engine", "engine_version", "tp", "pp", "ep", "dp", "quantization", "kv_cache_dtype"),
    *("isl", "osl", "prefix", "batch", "concurrency", "request_rate", "num_prompts", "statistic", "date"),
)


@click.command(
    epilog="\b\nExamples:\n"
    "  one run:       roofline check result.json -g h100-sxm --tp 1\n"
    "  several runs:  roofline check *.json -g b200 --tp 8 --statistic p99 --format csv\n"
    "  a pipe:        cat runs.csv | roofline check -\n"
    "  in the file:   vllm bench serve --save-result --metadata gpu=h100-sxm tp=1 ...\n"
)
@click.argument("files", nargs=-1, required=True, type=PathName(allow_dash=True))
@click.option("-m", "--model", "--model-path", type=ModelName(), help="Model: Hugging Face id, short name or alias.")
@click.option("-g", "--gpu", "--system", "--hardware", type=GpuName(), help="GPU: name or alias.")
@click.option("--tp", "-tp", "--tensor-parallel-size", type=int, help="Tensor-parallel degree.")
@click.option("--pp", "-pp", "--pipeline-parallel-size", type=int, help="Pipeline-parallel degree.  [default: 1]")
@click.option("--ep", "--expert-parallel-size", type=int, help="Expert-parallel degree.  [default: 1]")
@click.option("--dp", "-dp", "--data-parallel-size", type=int, help="Data-parallel degree.  [default: 1]")
@click.option("-q", "--quantization", type=str, help=f"Preset of number formats: {', '.join(PRESETS)}.")
@click.option("--kv-cache-dtype", type=str, help="Number format of the KV cache.")
@click.option("--isl", "--input-len", type=float, help="Mean prompt length [tokens].")
@click.option("--osl", "--output-len", type=float, help="Mean answer length [tokens].")
@click.option("--prefix", "--prefix-prompt-length", type=float, help="Cached prompt tokens.")
@click.option("-b", "--batch", type=float, help="Requests that started together.")
@click.option("--concurrency", "--max-concurrency", type=float, help="Requests in flight on the deployment.")
@click.option("--request-rate", "--rate", type=float, help="Requests per second that came to the deployment.")
@click.option("--num-prompts", type=float, help="Requests of the run, which the users began together.")
@click.option("--engine", type=str, help="Engine that was measured: vllm, sglang, trtllm, none.")
@click.option(
    "--statistic", type=click.Choice(tuple(STATISTICS)), help="Of the requests.  [default: median, else mean]"
)
@click.option(
    "--basis", type=click.Choice(BASES), default="calibrated", show_default=True, help="What the prediction stands on."
)
@specs_option
@output_options
def check(
    files: tuple[str, ...], statistic: str | None, basis: str, specs: str | None, output_format: str, **given: Any
) -> None:
    """Your own measurement beside its prediction: ratio, MFU, MBU, share of light speed, and what explains the gap.

    FILES are results of vllm bench serve, sglang.bench_serving, AIPerf, genai-perf, GuideLLM or InferenceX, or CSV;
    - reads standard input. What a file does not state is given by options, which override what it does.
    """
    readings: list[Reading] = []
    unread: list[RooflineError] = []
    for file in files:
        try:
            readings.append(_reading(file, statistic))
        except RooflineError as error:
            unread.append(error)
    found, refused = check_readings(readings, given, basis=basis, specs=specs)
    failures = [*unread, *refused]
    if found:
        _print(found, output_format)
    if failures:
        raise RooflineError("\n".join(dict.fromkeys(str(failure) for failure in failures)))


def _reading(file: str, statistic: str | None) -> Reading:
    if file != "-":
        return read_results(file, statistic)
    if sys.stdin is None:
        raise BadInput("stdin: closed; name a file")
    try:
        data = sys.stdin.buffer.read(RESULT_BYTES + 1)
    except OSError as error:
        raise BadInput(f"stdin: cannot be read: {error.strerror}") from None
    return results(data, "stdin", statistic)


def _print(found: list[MeasurementCheck], output_format: str) -> None:
    """Rows for programs; a table and the gaps of each measurement for people."""
    if output_format in ("csv", "json"):
        extra = {"parts": [row for compared in found for row in _part_rows(compared)]}
        print_rows([_row(compared) for compared in found], output_format, {}, extra)
        return
    for place, compared in enumerate(found):
        echo(("\n" if place else "") + _title(compared) + "\n")
        print_table(_HEADINGS, [_cells(compared, metric) for metric in _metrics(compared)], output_format)
        for line in _gaps(compared):
            echo(f"\n{line}")
    notes(f"{_source(compared, found)}{text}" for compared in found for text in _notes(compared))


def _source(compared: MeasurementCheck, found: list[MeasurementCheck]) -> str:
    return f"{compared.measured.source}: " if len(found) > 1 else ""


def _notes(compared: MeasurementCheck) -> list[str]:
    note = getattr(compared.measured, "note", None)
    return [*([note] if note else []), *compared.notes]


def _metrics(compared: MeasurementCheck) -> list[str]:
    return [metric for metric in _METRICS if getattr(compared.measured, metric) is not None]


def _title(compared: MeasurementCheck) -> str:
    measured, deployment = compared.measured, compared.expected.deployment
    plan, loads = deployment.plan, ("batch", "concurrency", "request_rate")
    load = next(f"{name} {getattr(measured, name):g}" for name in loads if getattr(measured, name) is not None)
    degrees = ", ".join(f"{name} {getattr(plan, name)}" for name in ("tp", "pp", "ep", "dp") if getattr(plan, name) > 1)
    lengths = [f"{name} {getattr(measured, name):g}" for name in ("isl", "osl") if getattr(measured, name) is not None]
    engine = f"engine {deployment.host.name}"
    said = [getattr(measured, "statistic", None), deployment.basis, engine, measured.source]
    where = f"{deployment.model.short_name} on {deployment.num_gpus} x {deployment.gpu.name}"
    return f"{', '.join(part for part in (where, degrees, *lengths, load) if part)} ({', '.join(filter(None, said))})"


def _cells(compared: MeasurementCheck, metric: str) -> list[str]:
    used = {"ttft": (_percent(compared.mfu), "-"), "tpot": ("-", _percent(compared.mbu))}.get(metric, ("-", "-"))
    return [
        _METRICS[metric],
        _ms(getattr(compared.measured, metric)),
        _ms(getattr(compared.expected, metric)),
        digits(compared.ratio(metric)),
        *used,
        _percent(compared.light_share(metric)),
    ]


def _gaps(compared: MeasurementCheck) -> list[str]:
    """For each pass by how much it is off, and below that what would explain it."""
    lines = []
    for metric, parts in (("ttft", compared.prefill_parts), ("tpot", compared.decode_parts)):
        ratio = compared.ratio(metric)
        if ratio is None or not parts:
            continue
        if abs(ratio - 1.0) <= _AGREES:
            lines.append(f"{_METRICS[metric]} agrees with the prediction within {_AGREES:.0%}.")
            continue
        gap = getattr(compared.measured, metric) - getattr(compared.expected, metric)
        off = f"{_METRICS[metric]} is {to_text(abs(gap), 's')} {'above' if gap > 0.0 else 'below'} the prediction"
        if compared.expected.holds(metric, getattr(compared.measured, metric)):
            off += ", inside its 80 % interval"
        lines.append("\n- ".join([f"{off}; {_verdict(parts, gap)}:", *_ways(parts, gap)]).removesuffix(":"))
    return lines


def _verdict(parts: tuple[Part, ...], gap: float) -> str:
    if any(part.is_plausible for part in parts):
        return "any one of these would explain it"
    return "no single part explains it" + (", but this would" if gap > 0.0 else "")


def _ways(parts: tuple[Part, ...], gap: float) -> list[str]:
    """What could explain a gap alone, what is nearest to the prediction first."""
    ways = [
        f"{part.name}: {digits(part.factor)} x as long ({part.share:.0%} of the predicted time)"
        for part in parts
        if part.is_plausible
    ]
    beside = f"beside the kernels: {to_text(gap, 's')} (host, scheduling, network, queue)"
    return [*ways, *([beside] if gap > 0.0 else [])]


def _row(compared: MeasurementCheck) -> dict[str, Any]:
    """Flat row: what was stated, then measured, predicted, and how they compare."""
    deployment, plan = compared.expected.deployment, compared.expected.deployment.plan
    row = {"source": compared.measured.source, **{key: getattr(compared.measured, key, None) for key in _STATED}}
    row |= {name: getattr(plan, name) for name in ("tp", "pp", "ep", "dp")}
    row |= {"model": deployment.model.short_name, "gpu": deployment.gpu.name, "num_gpus": deployment.num_gpus}
    row["basis"] = deployment.basis
    for metric in _METRICS:
        measured, expected = getattr(compared.measured, metric), getattr(compared.expected, metric)
        row[f"measured_{metric}_ms"] = None if measured is None else measured / MILLI
        row[f"predicted_{metric}_ms"] = None if expected is None else expected / MILLI
        row[f"{metric}_ratio"] = compared.ratio(metric)
        row[f"{metric}_light_share"] = compared.light_share(metric)
    row |= {"prefill_mfu": compared.mfu, "decode_mbu": compared.mbu}
    for name, parts in (("prefill", compared.prefill_parts), ("decode", compared.decode_parts)):
        best = next((part for part in parts if part.is_plausible), None)
        row |= {f"{name}_suspect": best and best.name, f"{name}_suspect_factor": best and best.factor}
    return {**row, "warnings": _notes(compared)}


def _part_rows(compared: MeasurementCheck) -> list[dict[str, Any]]:
    """Parts of both passes as flat rows."""
    return [
        {
            "source": compared.measured.source,
            "pass": name,
            "part": part.name,
            "predicted_ms": part.time / MILLI,
            "share": part.share,
            "factor": part.factor,
            "plausible": part.is_plausible,
        }
        for name, parts in (("prefill", compared.prefill_parts), ("decode", compared.decode_parts))
        for part in parts
    ]


def _ms(time: float | None) -> str:
    return digits(None if time is None else time / MILLI)


def _percent(share: float | None) -> str:
    return digits(None if share is None else 100.0 * share)
