"""Cases beside each other: one model in several number formats, one model on several GPUs."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from roofline.analysis.gpus import COMPARED_KEYS, Comparison, compared
from roofline.analysis.quantization import FORMATS, Quantization, Quantized, kept_sections, quantized
from roofline.analysis.slow_kernels import slow_kernels
from roofline.api import catalog
from roofline.api.inputs.arguments import name_or_record, scalar, values_of
from roofline.api.predict import predict
from roofline.errors import BadInput, RooflineError, UnknownName, UnsupportedPrecision, shown
from roofline.physics.footprint import kv_bytes_per_token
from roofline.serving import answer
from roofline.serving.latency import BURST
from roofline.serving.precision import summary
from roofline.serving.prediction import Prediction
from roofline.serving.sizing import smallest_tp
from roofline.specs.gpu import Gpu
from roofline.specs.model import Model

__all__ = ["COMPARED_KEYS", "FORMATS", "compare", "quantize"]

_LENGTHS = ("isl", "osl", "batch", "concurrency", "request_rate", "num_prompts", "prefix")
_UNDER_LOAD = (
    "under a load, prefill x and decode x compare one prompt alone and a decode step of those that decode together; "
    "TTFT and TPOT hold the queue and the prompts of others, too"
)
_NARROW_KV = "fp8"
_NOT_OF_FORMATS = {
    "quantization": "it goes through the formats; choose the one to compare with as baseline",
    "weights": "it goes through the formats; choose the one to compare with as baseline",
    "kv_cache_dtype": "each format is shown with a KV cache at 16 and at 8 bits",
    "compute": "each format is multiplied as the GPU does best",
    "measured": "a measurement belongs to one deployment",
}
_NOT_OF_GPUS = {"measured": "a measurement belongs to one deployment"}


def quantize(model: str | Model, gpu: str | Gpu, *, baseline: str = "bf16", **options: Any) -> Quantization:
    """One case in bf16, fp8, int8, int4, mxfp4 and nvfp4, each with a KV cache at 16 and at 8 bits.

    All formats run at one plan: the tp given, else the smallest at which the baseline fits, else the
    widest of the scale-up domain. Rows that do not fit say so and have the times it would take.
    Weights that the GPU cannot multiply as they are run weight-only, at its 16-bit peak.

    Args:
        model: name, alias or record [text].
        gpu: name, alias or record [text].
        baseline: format of the weights that all others are compared with, its KV cache at 16 bits [text].
        options: keyword arguments of `predict`, formats and `measured` apart; lengths and batch are single numbers.

    Returns:
        Memory, latencies and knees of every format, its speed-ups, and the kernels that make them.

    Raises:
        UnknownName: no such model, GPU or baseline.
        BadInput: a number or a plan that cannot be, an array, an option that does not belong here.
        RooflineError: as `predict` raises.
    """
    options = _single(options, "quantize", _NOT_OF_FORMATS)
    chosen = _baseline(baseline)
    options["allow_oversize"] = True
    reference = _in_format(model, gpu, chosen, None, options)
    plan = reference.deployment.plan
    options["tp"] = plan.tp
    has_cache = kv_bytes_per_token(reference.deployment.model) > 0.0
    rows: list[Quantized] = []
    for name in FORMATS:
        for kv in (None, _NARROW_KV) if has_cache else (None,):
            is_reference = name == chosen and kv is None
            found = reference if is_reference else _in_format(model, gpu, name, kv, options)
            rows.append(quantized(name, found, reference, _at_largest(found), _fewest_gpus(found)))
    notes = (*_said_of_formats(rows, reference), *_said_of_slow_kernels(rows, reference))
    return Quantization(tuple(rows), chosen, notes)


def compare(model: str | Model, gpus: Iterable[str | Gpu], **options: Any) -> Comparison:
    """One case on several GPUs beside each other; the first that can run it is the reference.

    All run at one plan: the tp given, else the smallest at which the case fits on each of them.

    Args:
        model: name, alias or record [text].
        gpus: names, aliases or records, two or more [text].
        options: keyword arguments of `predict`, `measured` apart; lengths and batch are single numbers.

    Returns:
        Predictions, how many times faster than the reference each is, and the kernels that make it so;
        beside them the GPUs that cannot run the case, with the reason.

    Raises:
        UnknownName: no such model, GPU or format.
        BadInput: fewer than two GPUs, one of them twice, a number or a plan that cannot be, an array.
        RooflineError: what is wrong with the case on every GPU alike.
    """
    options = _single(options, "compare", _NOT_OF_GPUS)
    chosen = _several(gpus, options.get("specs"))
    predictions, refused = _on_each(model, chosen, {**options, "num_gpus": None} if _is_open(options) else options)
    notes = []
    if _is_open(options) and predictions:
        fitting = {name: found for name, found in predictions.items() if found.fits}
        options["tp"] = max(found.deployment.plan.tp for found in (fitting or predictions).values())
        on = "each of them" if len(fitting) == len(chosen) else ", ".join(fitting)
        where = f"the smallest at which the case fits {on}" if fitting else "the widest; it fits none of them"
        notes.append(f"tp = {options['tp']} for all: {where}")
        predictions, more = _on_each(model, {name: chosen[name] for name in predictions}, options)
        refused = {name: {**refused, **more}[name] for name in chosen if name in refused or name in more}
    if not predictions:
        raise _worst(refused)
    reference = next(iter(predictions.values()))
    first = reference.deployment.gpu.name
    if first != next(iter(chosen)):
        notes.append(f"{first} is the reference: {next(iter(chosen))} cannot run the case")
    if reference.served is not None:
        notes.append(_UNDER_LOAD)
    return Comparison(tuple(compared(found, reference) for found in predictions.values()), tuple(notes), dict(refused))


def _single(options: dict[str, Any], question: str, refused: dict[str, str]) -> dict[str, Any]:
    """Options of one case; arrays and what does not belong to the question refused."""
    for name, why in refused.items():
        if options.get(name) is not None:
            raise BadInput(f"{question} takes no {name}: {why}")
    for name in _LENGTHS:
        value = options.get(name)
        if values_of(name, value) is not None:
            raise BadInput(f"{question} takes one case: {name} = {shown(value)} must be a single number, not an array")
    return {name: value for name, value in options.items() if name not in refused}


def _baseline(name: object) -> str:
    name = scalar(name)
    folded = name.strip().lower().replace("-", "_") if isinstance(name, str) else ""
    if folded not in FORMATS:
        raise UnknownName(f"no baseline {shown(name)}; it may be {', '.join(FORMATS)}")
    return folded


def _in_format(model: str | Model, gpu: str | Gpu, name: str, kv: str | None, options: dict[str, Any]) -> Prediction:
    """Prediction in one pair of formats, weight-only where the GPU cannot multiply the weights as they are."""
    record = gpu if isinstance(gpu, Gpu) else catalog.load_gpu(gpu, options.get("specs"))
    wide = "bf16" if "bf16" in record.peaks else "fp16"
    formats: dict[str, Any] = {"quantization": name, "kv_cache_dtype": kv or wide}
    try:
        return predict(model, gpu, **formats, **options)
    except UnsupportedPrecision:
        if wide not in record.peaks:
            raise
        found = predict(model, gpu, **formats, **options, compute=wide)
        said = f"{record.name} cannot multiply {name} weights: they run weight-only, at its {wide} peak"
        return replace(found, warnings=(*found.warnings, said))


def _at_largest(found: Prediction) -> Prediction | None:
    """The same formats and plan at the largest batch, or with the most users, that fit."""
    most = found.knees.memory
    if most is None or not most >= 1.0:
        return None
    load = "batch" if found.load == BURST else found.load
    return answer.predict_deployment(found.deployment, replace(found.workload, **{load: most}, num_prompts=None))


def _fewest_gpus(found: Prediction) -> int | None:
    """GPUs of one replica at the smallest tp that fits."""
    deployment, workload = found.deployment, found.workload
    tp = smallest_tp(deployment, found.decode_batch, workload.isl + workload.osl)
    return None if tp is None else replace(deployment.plan, tp=tp).num_gpus


def _said_of_formats(rows: list[Quantized], reference: Prediction) -> list[str]:
    """What a reader of the whole table should know."""
    model, plan = reference.deployment.model, reference.deployment.plan
    said = [f"all rows at tp = {plan.tp}; smaller formats may need fewer GPUs"]
    kept = kept_sections(model, [row.prediction.deployment.precision for row in rows])
    if kept:
        named = "; ".join(f"{', '.join(sections)} {name}" for name, sections in kept.items())
        said.append(f"weights that no format changes: {named}")
    if reference.served is not None:
        said.append(_UNDER_LOAD)
    if not reference.fits:
        said.append("the baseline does not fit: speed-ups are against the times it would take")
    return said


def _said_of_slow_kernels(rows: list[Quantized], reference: Prediction) -> list[str]:
    """What the times of formats stand on whose kernels are slower than the baseline's; each format by itself."""
    wide, wide_kv, _ = summary(reference.deployment.model, reference.deployment.precision)
    said = []
    for row in rows:
        found = row.prediction
        weights, kv, _ = summary(found.deployment.model, found.deployment.precision)
        if weights == wide or kv == wide_kv:
            label, called = (f"KV {kv}", f"a {wide_kv} KV cache") if kv != wide_kv else (weights, wide)
            gaps = {"prefill": row.prefill, "decode": row.decode}
            said += [f"{label}: {text}" for text in slow_kernels(found, reference, gaps, called)]
    return said


def _is_open(options: dict[str, Any]) -> bool:
    """Whether the tensor-parallel degree is left to be chosen."""
    return options.get("tp") is None


def _several(gpus: Iterable[str | Gpu], specs: str | None) -> dict[str, str | Gpu]:
    """GPUs by canonical name."""
    given = values_of("gpus", gpus) or ()
    if not given and isinstance(scalar(gpus), str):
        given = [gpus]
    given = [name_or_record("gpus", gpu) for gpu in given]
    named: dict[str, str | Gpu] = {}
    for gpu in given:
        name = gpu.name if isinstance(gpu, Gpu) else catalog.load_gpu(gpu, specs).name
        if name in named:
            raise BadInput(f"{name} is named twice; compare different GPUs")
        named[name] = gpu
    if len(named) < 2:
        raise BadInput(f"compare takes two GPUs or more, the first as the reference; {len(named)} given")
    return named


def _on_each(
    model: str | Model, chosen: dict[str, str | Gpu], options: dict[str, Any]
) -> tuple[dict[str, Prediction], dict[str, RooflineError]]:
    """Predictions in the order of the GPUs, and why there is none on the others."""
    found, refused = {}, {}
    for name, gpu in chosen.items():
        try:
            found[name] = predict(model, gpu, **options)
        except UnknownName:
            raise
        except RooflineError as error:
            refused[name] = error
    return found, refused


def _worst(refused: dict[str, RooflineError]) -> RooflineError:
    """Why no GPU can run a case: every reason once."""
    kinds = {type(error) for error in refused.values()}
    kind = kinds.pop() if len(kinds) == 1 else RooflineError
    return kind("\n".join(dict.fromkeys(str(error) for error in refused.values())))
