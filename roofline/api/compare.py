"""Cases side by side: one model in several number formats, or on several GPUs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, Unpack

from roofline.analysis.gpus import COMPARED_KEYS, Compared, Comparison, compared
from roofline.analysis.quantization import FORMATS, Quantization, Quantized, kept_sections, quantized
from roofline.analysis.slow_kernels import slow_kernels
from roofline.api.inputs.arguments import scalar, values_of
from roofline.api.inputs.pools import GpuChoice, choice, choice_of_formats, gpu_of
from roofline.api.inputs.texts import listed_names, plain_options
from roofline.api.predict import predict
from roofline.api.ranking import meeting_first
from roofline.errors import BadInput, RooflineError, UnknownName, UnsupportedPrecision, shown
from roofline.grammar.pools import pool_text
from roofline.physics.footprint import kv_bytes_per_token
from roofline.records import replace
from roofline.serving import answer
from roofline.serving.latency import BURST
from roofline.serving.prediction import Prediction
from roofline.serving.quantization import canonical_preset, summary
from roofline.serving.sizing import smallest_tp
from roofline.specs.gpu import Gpu
from roofline.specs.model import Model

if TYPE_CHECKING:
    from roofline.api.inputs.options import CompareOptions, QuantizeOptions

__all__ = ["COMPARED_KEYS", "FORMATS", "compare", "quantize"]

_LENGTHS = ("isl", "osl", "batch", "concurrency", "request_rate", "num_prompts", "prefix")
_UNDER_LOAD = (
    "under a load, prefill x and decode x compare one prompt alone and a decode step of those that decode together; "
    "TTFT and TPOT hold the queue and the prompts of others, too"
)
_NARROW_KV = "fp8"
_NOT_OF_FORMATS = {
    "quantization": "it compares all formats; choose the reference with baseline",
    "weights": "it compares all formats; choose the reference with baseline",
    "kv_cache_dtype": "each format is shown with a 16-bit and an 8-bit KV cache",
    "compute": "each format runs at the best rate of the GPU",
    "measured": "a measurement is of one deployment only",
}
_NOT_OF_GPUS = {"measured": "a measurement is of one deployment only"}


def quantize(
    model: str | Model, gpu: str | Gpu, *, baseline: str = "bf16", **options: Unpack[QuantizeOptions]
) -> Quantization:
    """One case in bf16, fp8, fp8_static, int8, int4, mxfp4 and nvfp4, each with a 16-bit and an 8-bit KV cache.

    All formats run at one plan: the given tp, else the smallest at which the baseline fits, else the widest of the
    scale-up domain. Rows that do not fit say so, and have hypothetical times. Weights in a format that the GPU cannot
    multiply run weight-only, at its 16-bit peak.

    Args:
        model: name, alias or record.
        gpu: name, alias, pool such as ``8xh100`` or ``b200:tp4:fp8``, or record.
        baseline: weight format that all others are compared with, with a 16-bit KV cache.
        options: keyword arguments of `predict` without formats and `measured`; lengths and batch are single numbers.

    Returns:
        Memory, latencies, knees and speed-ups of every format, and the kernels that cause them.

    Raises:
        UnknownName: no such model, GPU or baseline.
        BadInput: an impossible number or plan, an array, or an option that does not apply.
        RooflineError: as `predict` raises.

    >>> import roofline as rl
    >>> rl.quantize("llama-3.1-8b", "h100-sxm", basis="ideal")
    <Quantization llama-3.1-8b on 1x h100-sxm against bf16: 14 pairs of formats, fastest decode int4 (3.20x)>
    """
    pooled = choice_of_formats(gpu, _single(dict(options), "quantize", _NOT_OF_FORMATS), "quantize")
    plain = pooled.options
    chosen = _baseline(baseline)
    plain["allow_oversize"] = True
    reference = _in_format(model, pooled.gpu, chosen, None, plain)
    plan = reference.deployment.plan
    plain["tp"] = plan.tp
    has_cache = kv_bytes_per_token(reference.deployment.model) > 0.0
    rows: list[Quantized] = []
    for name in FORMATS:
        for kv in (None, _NARROW_KV) if has_cache else (None,):
            is_reference = name == chosen and kv is None
            prediction = reference if is_reference else _in_format(model, pooled.gpu, name, kv, plain)
            rows.append(quantized(name, prediction, reference, _at_largest_load(prediction), _fewest_gpus(prediction)))
    notes = (*_format_notes(rows, reference), *_slow_kernel_notes(rows, reference))
    return Quantization(tuple(rows), chosen, notes)


def compare(model: str | Model, gpus: Iterable[str | Gpu], **options: Unpack[CompareOptions]) -> Comparison:
    """One case on several GPUs side by side; the first that can run it is the reference.

    All run at one plan: the given tp, else the smallest at which the case fits on each of them. Pools such as
    ``h100:tp4:fp8`` state their own plan and format, so that a GPU may be compared with itself.

    Args:
        model: name, alias or record.
        gpus: names, aliases, pools or records, two or more.
        options: keyword arguments of `predict` without `measured`; lengths and batch are single numbers.

    Returns:
        Predictions in the order of the GPUs, with an SLO those that meet it first, their speed-ups over the reference,
        and the kernels that cause them; GPUs that cannot run the case, with the reason.

    Raises:
        UnknownName: no such model, GPU or format.
        BadInput: fewer than two GPUs, the same GPU, plan and format twice, an impossible number or plan, or an array.
        RooflineError: no GPU can run the case.

    >>> import roofline as rl
    >>> rl.compare("llama-3.1-8b", ["h100-sxm", "h200"], basis="ideal")  # 4.8 TB/s over 3.35 TB/s
    <Comparison llama-3.1-8b, decode against h100-sxm: h200-sxm 1.43x>
    """
    plain = _single(dict(options), "compare", _NOT_OF_GPUS)
    chosen = _choices_by_label(gpus, plain)
    still_open = [label for label, pooled in chosen.items() if pooled.options.get("tp") is None]
    predictions, refused = _predict_each(model, _with_options(chosen, still_open, num_gpus=None))
    notes = []
    fits = {label: predictions[label].fits for label in still_open if label in predictions}
    if fits:
        fitting = [label for label, does_fit in fits.items() if does_fit]
        tp = max(predictions[label].deployment.plan.tp for label in fitting or fits)
        on = "each of them" if len(fitting) == len(chosen) else ", ".join(fitting)
        where = f"the smallest that fits {on}" if fitting else "the largest; it fits none of them"
        notes.append(f"tp = {tp} for {'all' if len(still_open) == len(chosen) else ', '.join(fits)}: {where}")
        again, more = _predict_each(model, _with_options({label: chosen[label] for label in fits}, list(fits), tp=tp))
        refused = {**refused, **more}
        predictions |= again
    predictions = {label: predictions[label] for label in chosen if label in predictions and label not in refused}
    refused = {label: refused[label] for label in chosen if label in refused}
    if not predictions:
        raise _combined_error(refused)
    first, reference = next(iter(predictions.items()))
    if first != next(iter(chosen)):
        notes.append(f"{first} is the reference, because {next(iter(chosen))} cannot run the case")
    if reference.served is not None:
        notes.append(_UNDER_LOAD)
    rows = [compared(prediction, reference, label, first) for label, prediction in predictions.items()]
    return Comparison(tuple(meeting_first(rows, _verdict)), tuple(notes), dict(refused))


def _verdict(entry: Compared) -> str | None:
    return entry.prediction.verdict


def _single(options: dict[str, Any], question: str, refused: dict[str, str]) -> dict[str, Any]:
    """Options of a single case; arrays and options that do not apply are refused."""
    options = plain_options(options)
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
    folded = (canonical_preset(name) or "") if isinstance(name, str) else ""
    if folded not in FORMATS:
        raise UnknownName(f"unknown baseline {shown(name)}; choose from {', '.join(FORMATS)}")
    return folded


def _in_format(model: str | Model, gpu: Any, name: str, kv: str | None, options: dict[str, Any]) -> Prediction:
    """Prediction in one pair of formats, weight-only where the GPU cannot multiply the weights directly."""
    record = gpu_of(gpu, options.get("specs"))
    sixteen_bit = "bf16" if "bf16" in record.peaks else "fp16"
    formats: dict[str, Any] = {"quantization": name, "kv_cache_dtype": kv or sixteen_bit}
    try:
        return predict(model, gpu, **formats, **options)
    except UnsupportedPrecision:
        if sixteen_bit not in record.peaks:
            raise
        prediction = predict(model, gpu, **formats, **options, compute=sixteen_bit)
        note = f"{record.name} has no tensor cores for {name}: weight-only, at the {sixteen_bit} peak"
        return replace(prediction, added=(*prediction.added, note))


def _at_largest_load(prediction: Prediction) -> Prediction | None:
    """The same formats and plan at the largest batch, or the most users, that fit."""
    most = prediction.knees.memory
    if most is None or not most >= 1.0:
        return None
    load = "batch" if prediction.load == BURST else prediction.load
    fullest: dict[str, Any] = {load: most, "num_prompts": None}
    return answer.predict_deployment(prediction.deployment, replace(prediction.workload, **fullest))


def _fewest_gpus(prediction: Prediction) -> int | None:
    """GPUs of one replica at the smallest tp that fits; None where none does."""
    deployment, workload = prediction.deployment, prediction.workload
    tp = smallest_tp(deployment, prediction.decode_batch, workload.isl + workload.osl)
    return None if tp is None else replace(deployment.plan, tp=tp).num_gpus


def _format_notes(rows: list[Quantized], reference: Prediction) -> list[str]:
    model, plan = reference.deployment.model, reference.deployment.plan
    notes = [f"all rows at tp = {plan.tp}; smaller formats may need fewer GPUs"]
    unchanged = kept_sections(model, [row.prediction.deployment.quantization for row in rows])
    if unchanged:
        named = "; ".join(f"{', '.join(sections)} {name}" for name, sections in unchanged.items())
        notes.append(f"weights unchanged in every format: {named}")
    if reference.served is not None:
        notes.append(_UNDER_LOAD)
    if not reference.fits:
        notes.append("the baseline does not fit; speed-ups are relative to its hypothetical times")
    return notes


def _slow_kernel_notes(rows: list[Quantized], reference: Prediction) -> list[str]:
    """Notes on formats whose kernels are slower than the baseline's, one format at a time."""
    base_weights, base_kv, _ = summary(reference.deployment.model, reference.deployment.quantization)
    notes = []
    for row in rows:
        prediction = row.prediction
        weights, kv, _ = summary(prediction.deployment.model, prediction.deployment.quantization)
        if weights == base_weights or kv == base_kv:
            label, baseline = (f"KV {kv}", f"a {base_kv} KV cache") if kv != base_kv else (weights, base_weights)
            gaps = {"prefill": row.prefill, "decode": row.decode}
            notes += [f"{label}: {text}" for text in slow_kernels(prediction, reference, gaps, baseline)]
    return notes


def _choices_by_label(gpus: Iterable[str | Gpu], options: Mapping[str, Any]) -> dict[str, GpuChoice]:
    """GPUs with their options, by canonical name and whatever their pools state."""
    named: dict[str, GpuChoice] = {}
    is_named = isinstance(scalar(gpus), str) or bool(values_of("gpus", gpus))
    listed = listed_names("gpus", gpus) if is_named else []
    for gpu in listed:
        pooled = choice(gpu, options)
        name = gpu_of(gpu, options.get("specs")).name
        label = name if pooled.pool is None else pool_text(replace(pooled.pool, gpu=name))
        if label in named:
            raise BadInput(
                f"{label} is named twice; compare different GPUs, or plans such as {name}:tp2 and {name}:tp4"
            )
        named[label] = pooled
    if len(named) < 2:
        raise BadInput(f"compare needs two GPUs or more, the reference first; got {len(named)}")
    return named


def _with_options(chosen: Mapping[str, GpuChoice], labels: list[str], **changes: Any) -> dict[str, GpuChoice]:
    """Choices with `changes` to the options of those in `labels`."""
    return {
        label: pooled._replace(options={**pooled.options, **changes}) if label in labels else pooled
        for label, pooled in chosen.items()
    }


def _predict_each(
    model: str | Model, chosen: Mapping[str, GpuChoice]
) -> tuple[dict[str, Prediction], dict[str, RooflineError]]:
    """Predictions in the order of the GPUs, and the errors of those that cannot run the case."""
    predictions, refused = {}, {}
    for label, pooled in chosen.items():
        try:
            predictions[label] = predict(model, pooled.gpu, **pooled.options)
        except UnknownName:
            raise
        except RooflineError as error:
            refused[label] = error
    return predictions, refused


def _combined_error(refused: dict[str, RooflineError]) -> RooflineError:
    """Why no GPU can run the case, each reason once."""
    kinds = {type(error) for error in refused.values()}
    kind = kinds.pop() if len(kinds) == 1 else RooflineError
    return kind("\n".join(dict.fromkeys(str(error) for error in refused.values())))
