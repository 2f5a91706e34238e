"""Cases side by side: one model in several number formats, or on several GPUs."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from math import fsum
from typing import TYPE_CHECKING, Any, Unpack, cast, overload

from roofline.numbers.operations import Json
from roofline.numbers.quantity import GIGA, rounded, to_text
from roofline.physics.equation import IDEAL, Kernel, Roof, calibrated_set, kernel_time
from roofline.physics.memory import kv_bytes_per_token, parameters
from roofline.physics.passes import Pass
from roofline.physics.plan import DIRECT, Deployment, ModelQuantization
from roofline.questions.inputs.arguments import (
    listed_names,
    one_case,
    plain_options,
    scalar,
    single_numbers,
    values_of,
    without,
)
from roofline.questions.inputs.case import LENGTHS
from roofline.questions.inputs.deployment import GpuChoice, check_settings, choice, choice_of_formats, gpu_of
from roofline.questions.inputs.options import QUESTIONS, understood
from roofline.questions.predict import asked_case, given_gpu, meeting_first, predict
from roofline.serving.answers import Answer, selected_rows
from roofline.serving.comparison import (
    COMPARED_KEYS,
    SPEEDUP_KEYS,
    UNCHANGED,
    Compared,
    Comparison,
    Difference,
    SideBySide,
    compared,
    difference,
    effects,
    latencies,
    ratio_text,
    speedups,
    term_times,
    unchanged_text,
)
from roofline.serving.knee import smallest_tp
from roofline.serving.latency import UNCORRECTED
from roofline.serving.prediction import Prediction, predict_deployment
from roofline.serving.quantization import canonical_preset, summary
from roofline.serving.row_types import QuantizedRow
from roofline.serving.shown import case_text, deployed_text
from roofline.serving.verdict import assumed_kernels
from roofline.specs.gpu import GEMM, HOST, MOE, ROUGH, Gpu, the
from roofline.specs.keys import SHARED, Key, Keys
from roofline.specs.model import Model
from roofline.specs.written import DEGREES, Pool, pool_text
from roofline.support.errors import BadInput, RooflineError, UnknownName, UnsupportedPrecision, check_known, shown
from roofline.support.records import NamedTuple, dataclass, replace

if TYPE_CHECKING:
    from roofline.questions.inputs.signatures import Case

__all__ = ["COMPARED_KEYS"]


_UNDER_LOAD = (
    "under a load, prefill x and decode x compare one prompt alone and a decode step of those that decode together; "
    "TTFT and TPOT also include the queue and the prompts of others"
)
_FORMAT_OPTIONS = ("quantization", "weights", "kv_cache_dtype", "compute")
_NARROW_KV = "fp8"
_FEWER = "compare needs two GPUs or more, the reference first"


@overload
def quantize(model: Prediction, *, baseline: str = "bf16") -> Quantization: ...
@overload
def quantize(
    model: str | Model, gpu: str | Gpu, *, baseline: str = "bf16", **options: Unpack[Case]
) -> Quantization: ...
@understood
def quantize(
    model: str | Model | Prediction, gpu: str | Gpu | None = None, *, baseline: str = "bf16", **options: Unpack[Case]
) -> Quantization:
    """One case in bf16, fp8, fp8_static, int8, int4, mxfp4 and nvfp4, each with a 16-bit and an 8-bit KV cache.

    All formats run at one plan: the given tp, else the smallest at which the baseline fits, else the widest of the
    scale-up domain. Rows that do not fit say so, and have hypothetical times. Weights in a format that the GPU cannot
    multiply run weight-only, at its 16-bit peak.

    Args:
        model: name, alias or record; or a prediction, in place of GPU and options: it keeps its plan, and its formats
            are what varies.
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
    case = asked_case("quantize", model, gpu, options, _FORMAT_OPTIONS)
    pooled = choice_of_formats(given_gpu("quantize", case.gpu), _single(case.options, "quantize"), "quantize")
    plain = pooled.options
    chosen = _baseline(baseline)
    plain["allow_oversize"] = True
    reference = _in_format(case.model, pooled.gpu, chosen, None, plain)
    plan = reference.deployment.plan
    plain["tp"] = plan.tp
    has_cache = kv_bytes_per_token(reference.deployment.model) > 0.0
    rows: list[Quantized] = []
    for name in FORMATS:
        for kv in (None, _NARROW_KV) if has_cache else (None,):
            is_reference = name == chosen and kv is None
            prediction = reference if is_reference else _in_format(case.model, pooled.gpu, name, kv, plain)
            rows.append(quantized(name, prediction, reference, _at_largest_load(prediction), _fewest_gpus(prediction)))
    notes = (*_format_notes(rows, reference), *_slow_kernel_notes(rows, reference))
    return Quantization(tuple(rows), chosen, notes)


@overload
def compare(model: Prediction, gpus: Prediction | Iterable[Prediction], *others: Prediction) -> Comparison: ...
@overload
def compare(model: str | Model, gpus: Iterable[str | Gpu], **options: Unpack[Case]) -> Comparison: ...
@understood
def compare(
    model: str | Model | Prediction,
    gpus: Iterable[str | Gpu] | Prediction | Iterable[Prediction] = (),
    *others: Prediction,
    **options: Unpack[Case],
) -> Comparison:
    """One case on several GPUs side by side; the first that can run it is the reference.

    All run at one plan: the given tp, else the smallest at which the case fits on each of them. Pools such as
    ``h100:tp4:fp8`` state their own plan and format, so that a GPU may be compared with itself.

    Args:
        model: name, alias or record; or the prediction of the reference.
        gpus: names, aliases, pools or records, two or more; or the other predictions, of the same model, lengths, load
            and limits, each at its own plan; labels say where they differ in engine, basis, draft or routing.
        others: further predictions.
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
    >>> rl.compare(*(rl.predict("llama-3.1-8b", gpu, basis="ideal") for gpu in ("h100-sxm", "h200")))
    <Comparison llama-3.1-8b, decode against h100-sxm: h200-sxm 1.43x>
    """
    if isinstance(model, Prediction):
        further = (gpus,) if isinstance(gpus, (Prediction, str)) else tuple(gpus)
        return _side_by_side(_by_label((model, *further, *others), options), [])
    if isinstance(gpus, Prediction) or others:
        raise BadInput("compare takes a model and GPUs, or predictions alone: rl.compare(p, q)")
    plain = _single(dict(options), "compare")
    chosen = _choices_by_label(cast("Iterable[str | Gpu]", gpus), plain)
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
    first = next(iter(predictions))
    if first != next(iter(chosen)):
        notes.append(f"{first} is the reference, because {next(iter(chosen))} cannot run the case")
    return _side_by_side(predictions, notes, refused)


def _side_by_side(
    predictions: Mapping[str, Prediction], notes: Iterable[str], refused: Mapping[str, RooflineError] | None = None
) -> Comparison:
    """Predictions by their labels, the reference first, in the order in which they meet the SLO."""
    first, reference = next(iter(predictions.items()))
    under_load = () if reference.served is None else (_UNDER_LOAD,)
    rows = [compared(prediction, reference, label, first) for label, prediction in predictions.items()]
    return Comparison(tuple(meeting_first(rows, _verdict)), (*notes, *under_load), dict(refused or {}))


def _by_label(predictions: Sequence[Any], options: Mapping[str, Any]) -> dict[str, Prediction]:
    """Predictions of one case by their GPUs, and their plans and formats where a GPU is compared with itself."""
    if options:
        raise BadInput(f"compare takes its case from the predictions; leave out {', '.join(options)}")
    other = next((each for each in predictions if not isinstance(each, Prediction)), None)
    if other is not None:
        raise BadInput(f"compare takes predictions beside a prediction, not {shown(other)}; give rl.predict(...) of it")
    first = predictions[0]
    for each in predictions:
        one_case("compare", each.ttft)
        if each.correction != UNCORRECTED:
            raise BadInput(f"compare takes no measured: {QUESTIONS['compare'].refused['measured']}; predict without it")
        pairs = {
            "model": (first.deployment.model, each.deployment.model),
            "lengths or load": (first.workload, each.workload),
            "SLO": (first.slo, each.slo),
        }
        differs = next((what for what, (one, another) in pairs.items() if one != another), None)
        if differs is not None:
            raise BadInput(f"compare puts one case on several GPUs: these predictions differ in {differs}")
    ends = _differences([each.deployment for each in predictions])
    names = [each.deployment.gpu.name + end for each, end in zip(predictions, ends, strict=True)]
    labels = [
        name if names.count(name) == 1 else _pool_label(each.deployment) + end
        for name, each, end in zip(names, predictions, ends, strict=True)
    ]
    repeated = next((label for label in labels if labels.count(label) > 1), None)
    if repeated is not None or len(labels) < 2:
        raise BadInput(f"{repeated} is named twice; compare different GPUs, plans or formats" if repeated else _FEWER)
    return dict(zip(labels, predictions, strict=True))


def _differences(deployments: Sequence[Deployment]) -> list[str]:
    """What tells each from the others beside GPU, plan and formats: text such as `` (vllm, ideal)``, or none."""
    words = list(zip(*map(_words, deployments), strict=True))
    told = [texts for texts in words if len(set(texts)) > 1]
    ends = [", ".join(filter(None, texts)) for texts in zip(*told, strict=True)] or [""] * len(deployments)
    return [f" ({end})" if end else "" for end in ends]


def _words(deployment: Deployment) -> tuple[str, ...]:
    """Engine, its settings, basis, draft and routing; a setting that is not stated, and no draft, are empty."""
    engine, draft, skew = deployment.engine, deployment.draft, deployment.routing_skew
    spread = deployment.spread
    proposed = ""
    if draft is not None:
        name = draft.model.short_name if draft.method == "model" and draft.model is not None else draft.method
        proposed = f"{name}, {rounded(draft.acceptance.tokens)} tokens per step"
    return (
        engine.name,
        ", ".join(f"{name} {getattr(engine, name)}" for name in engine.stated),
        "ideal" if deployment.basis == "ideal" else "",
        proposed,
        *_beside(deployment),
        "uniform routing" if skew is None else f"routing {skew:g}",
        "" if spread.redundant is None else f"eplb {spread.redundant:g}",
        "two batches" if spread.two_batches else "",
        "" if spread.exchange == DIRECT else f"all-to-all {spread.exchange}",
    )


def _beside(deployment: Deployment) -> tuple[str, str]:
    """Adapters, and weights in host memory."""
    if deployment.adapters is None and deployment.offload is None:
        return "", ""
    from roofline.serving.side_weights import adapters_text, offload_text

    adapters, offload = deployment.adapters, deployment.offload
    return (
        "" if adapters is None else f"LoRA {adapters_text(adapters)}",
        "" if offload is None else offload_text(offload),
    )


def _pool_label(deployment: Deployment) -> str:
    """GPU, plan and weight format in pool notation."""
    plan, copies = deployment.plan, deployment.replicas
    degrees = {name: degree for name in DEGREES[1:] if (degree := getattr(plan, name)) != 1}
    weights = summary(deployment.model, deployment.quantization)[0]
    pool = Pool(deployment.gpu.name, tp=plan.tp, quantization=weights, replicas=None if copies == 1 else copies)
    return pool_text(replace(pool, **degrees))


def _verdict(entry: Compared) -> str | None:
    return entry.prediction.verdict


def _single(options: dict[str, Any], question: str) -> dict[str, Any]:
    """Options of a single case; arrays and options that do not apply are refused."""
    plain = without(question, plain_options(options))
    single_numbers(question, plain, LENGTHS)
    return plain


def _baseline(name: object) -> str:
    name = scalar(name)
    folded = (canonical_preset(name) or "") if isinstance(name, str) else ""
    check_known("baseline", folded or name, FORMATS)
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
    workload = prediction.workload
    return predict_deployment(prediction.deployment, replace(workload, load=workload.load.of(most)))


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
    check_settings(listed, options)
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
        raise BadInput(f"{_FEWER}; got {len(named)}")
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


# A model in several number formats: what fits, how fast it is, and why.

#: Presets compared, widest first.
FORMATS = ("bf16", "fp8", "fp8_static", "int8", "int4", "mxfp4", "nvfp4")

# Least shares of a pass worth mentioning.
_SHARE_SAID = 0.05
_COSTS = 0.005
# Relative changes.
_CLOSE = 0.02  # around a ratio that has a word, such as doubles
_SAME_RATE = 0.03  # of a rate that counts as unchanged
_OTHER_RATE = 0.05  # of a rate worth mentioning beside a changed amount
_SECTIONS = {
    "attention": "attention",
    "linear": "dense networks",
    "shared": "shared experts",
    "experts": "experts",
    "router": "router",
    "embed": "embedding",
    "head": "head",
}
_WORDS = {0.25: "falls to a quarter", 0.5: "halves", 2.0: "doubles"}


#: Keys of a row in addition to those of a prediction.
QUANTIZED_KEYS: Keys[Quantized] = {
    "quantization": SHARED["quantization"]._replace(is_open=False),
    "num_gpus_smallest": Key.integer("1", "Fewest GPUs of one replica that hold the case."),
    "largest_batch": Key.number(
        "sequences",
        "The largest batch, or number of users, that fits.",
        lambda q: q.prediction.to_dict(("memory_knee",))["memory_knee"],
    ),
    "output_tok_s_largest_batch": Key.number(
        "1/s", "Output tokens per second at it.", lambda q: None if q.largest is None else q.largest.output_tok_s
    ),
    "assumed": Key.texts(
        "Kinds of kernel whose constants are assumed, not fitted.",
        lambda q: list(assumed_kernels(q.prediction.deployment, q.prediction.prefill, q.prediction.decode)),
    ),
    **SPEEDUP_KEYS,
}
BASELINE_KEYS: Keys[Quantization] = {
    "baseline": Key.text("Format that the others are compared with.", is_open=False),
}


@dataclass(frozen=True, repr=False)
class Quantized(SideBySide):
    """Number formats of weights and KV cache compared with the baseline."""

    quantization: str  # preset of the weights
    largest: Prediction | None  # at the largest batch that fits; None where none does
    num_gpus_smallest: int | None  # None where the case does not fit a scale-up domain

    def __str__(self) -> str:
        prediction = self.prediction
        kv = prediction.deployment.quantization.kv_format
        weights = (
            f"{rounded(prediction.memory.weights / GIGA)} GB of weights{'' if prediction.fits else ', does not fit'}"
        )
        ratios = speedups(self.prefill, self.decode, "the baseline")
        return f"{self.quantization}, KV {kv}: {latencies(prediction)}, {weights}{ratios}"

    def to_dict(self) -> QuantizedRow:
        return cast("QuantizedRow", {"quantization": self.quantization, **self.row(QUANTIZED_KEYS)})


@dataclass(frozen=True, repr=False)
class Quantization(Answer[QuantizedRow]):
    """One case in several number formats at the same plan.

    >>> import roofline as rl
    >>> result = rl.quantize("llama-3.1-8b", "h100-sxm", basis="ideal")
    >>> result.baseline, result.formats[2].quantization
    ('bf16', 'fp8')
    >>> result.to_records()[2]["quantization"], result.kernel_records()[0]["baseline"], sorted(result.to_dict())
    ('fp8', 'bf16', ['kernels', 'notes', 'rows'])
    """

    formats: tuple[Quantized, ...]
    baseline: str  # preset of the reference, with a 16-bit KV cache
    notes: tuple[str, ...] = ()  # sections that stay as they are, choices, basis of slow kernels

    def __str__(self) -> str:
        """Heading, one line per pair of formats, and notes."""
        first = self.formats[0].prediction
        heading = f"{deployed_text(first.deployment)}, {case_text(first.workload)}, baseline {self.baseline}"
        lines = [*map(str, self.formats), *(f"note: {note}" for note in self.notes)]
        return "\n".join([heading, *(f"  {line}" for line in lines)])

    def __repr__(self) -> str:
        """The deployment and the format with the fastest decode."""
        where = deployed_text(self.formats[0].prediction.deployment)
        steps = [(entry.decode.speedup, entry.quantization) for entry in self.formats if entry.decode is not None]
        fastest = f", fastest decode {max(steps)[1]} ({ratio_text(max(steps)[0])})" if steps else ""
        return f"<Quantization {where} against {self.baseline}: {len(self.formats)} pairs of formats{fastest}>"

    def kernel_records(self) -> list[dict[str, Json]]:
        """Contribution of every kernel to every speed-up, as flat rows."""
        return [
            row
            for entry in self.formats
            for row in entry.kernel_records(
                quantization=entry.quantization,
                kv_cache_dtype=entry.prediction.deployment.quantization.kv_format,
                baseline=self.baseline,
            )
        ]

    def to_dict(self, keys: Iterable[str] | None = None) -> dict[str, Json]:
        """Rows, kernels and notes as plain values.

        Args:
            keys: the keys to keep; None for all.
        """
        rows = ({**entry.to_dict(), "baseline": self.baseline} for entry in self.formats)
        return {"rows": selected_rows(rows, keys), "kernels": self.kernel_records(), "notes": list(self.notes)}


def quantized(
    quantization: str,
    prediction: Prediction,
    baseline: Prediction,
    largest: Prediction | None,
    num_gpus_smallest: int | None,
) -> Quantized:
    prefill, decode = difference(baseline.prefill, prediction.prefill), None
    why_prefill, why_decode = why_quantized(prefill, baseline.prefill, prediction.prefill, "pass"), None
    if prediction.tpot is not None:
        decode = difference(baseline.decode, prediction.decode)
        why_decode = why_quantized(decode, baseline.decode, prediction.decode, "step")
    if prediction is baseline:
        why_prefill, why_decode = "the baseline", None if decode is None else "the baseline"
    return Quantized(prediction, prefill, decode, why_prefill, why_decode, quantization, largest, num_gpus_smallest)


def kept_sections(model: Model, quantizations: list[ModelQuantization]) -> dict[str, list[str]]:
    """Sections with the same weights in all quantizations, by format; norms, which are small, are left out."""
    sections: dict[str, list[str]] = {}
    for section, count in parameters(model)._asdict().items():
        formats = {quantization.sections[section].format for quantization in quantizations}
        if count and section in _SECTIONS and len(formats) == 1:
            sections.setdefault(formats.pop(), []).append(_SECTIONS[section])
    return sections


def why_quantized(change: Difference, before: Pass, after: Pass, pass_name: str) -> str:
    """Text such as ``1.83x: 92 % of the step is weight traffic, which halves``: shares of the baseline, then costs."""
    parts = sorted(
        ((share, text) for share, text in _sides(before, after, change.before) if share >= _SHARE_SAID), reverse=True
    )
    clauses = [
        f"{100.0 * share:.0f} %{'' if i else f' of the {pass_name}'} is {text}" for i, (share, text) in enumerate(parts)
    ]
    clauses += _costs(before, after, change.after, pass_name)
    unchanged = unchanged_text(change, pass_name)
    return f"{ratio_text(change.speedup)}: " + "; ".join([*clauses, *([unchanged] if unchanged else [])])


class _Side(NamedTuple):
    """An amount of work of some kernels, and the time it takes alone."""

    amount: float  # [B or FLOP]
    time: float  # [s]
    at_peak: float  # [s] at full rates of the GPU
    evidence: str  # what the reached share of the peak rests on


def _sides(before: Pass, after: Pass, total: float) -> list[tuple[float, str]]:
    """Weight traffic, KV traffic and arithmetic: share of the baseline [1] where it binds, and how it changes."""
    reading = {kernel.name for kernel in before.kernels if _is_reading(kernel)}
    sides = []
    for label, amount, rates, chosen in (
        ("weight traffic", _weight_traffic, _reading_rates, lambda k: k.kind.bears_weights and k.name in reading),
        ("KV and state traffic", _kv_traffic, _reading_rates, lambda k: k.name in reading),
        ("arithmetic", _flop, _arithmetic_rates, lambda k: k.name not in reading),
    ):
        old, new = _side(before, amount, rates, chosen), _side(after, amount, rates, chosen)
        if old.time > 0.0 and new.time > 0.0:
            sides.append((old.time / total, f"{label}, {_change_clause(old, new)}"))
    return sides


def _change_clause(old: _Side, new: _Side) -> str:
    """How an amount and its rate change, as a relative clause."""
    ratio, rate = new.amount / old.amount, new.amount / new.time * old.time / old.amount
    stays = abs(ratio - 1.0) <= UNCHANGED
    if stays and abs(rate - 1.0) <= _SAME_RATE:
        return "which stays the same"
    if stays and abs(new.at_peak / old.at_peak - 1.0) <= UNCHANGED:
        return f"at the same peak, reached {ratio_text(rate)} as far ({new.evidence})"
    if stays:
        return f"at {ratio_text(rate)} the rate"
    word = next((word for near, word in _WORDS.items() if abs(ratio / near - 1.0) <= _CLOSE), None)
    moved = f"{'falls' if ratio < 1.0 else 'grows'} to {100.0 * ratio:.0f} %"
    clause = f"which {word or moved}"
    return clause if abs(rate - 1.0) <= _OTHER_RATE else f"{clause} at {ratio_text(rate)} the rate"


def _costs(before: Pass, after: Pass, total: float, pass_name: str) -> list[str]:
    """What quantization costs or saves besides: passes over the activations, and kernel latencies."""
    clauses = []
    for label, cost in (
        ("quantising activations", _quantising),
        ("moving routed activations", _routing),
        ("launching and filling kernels", _latency),
    ):
        added = (fsum(map(cost, after.kernels)) - fsum(map(cost, before.kernels))) / total
        if abs(added) >= _COSTS:
            verb = "costs" if added > 0.0 else "saves"
            clauses.append(f"{label} {verb} {100.0 * abs(added):.0f} % of the new {pass_name}")
    return clauses


def _side(
    pass_: Pass,
    amount: Callable[..., float],
    rates: Callable[..., tuple[float, float]],
    chosen: Callable[..., bool],
) -> _Side:
    kernels = [kernel for kernel in pass_.kernels if isinstance(kernel.roof, Roof) and chosen(kernel)]
    kernels = [kernel for kernel in kernels if amount(kernel)]
    return _Side(
        fsum(amount(kernel) for kernel in kernels),
        fsum(amount(kernel) / rates(kernel)[0] for kernel in kernels),
        fsum(amount(kernel) / rates(kernel)[1] for kernel in kernels),
        _evidence(kernels),
    )


def _evidence(kernels: list[Kernel]) -> str:
    """What the rates of kernels rest on; roofs of stand-ins have no residuals."""
    is_timed = {kernel.roof.efficiency.is_measured and kernel.roof.efficiency.sigma is not None for kernel in kernels}
    return {frozenset({True}): "as timed", frozenset({False}): "as assumed"}.get(frozenset(is_timed), "partly assumed")


def _is_reading(kernel: Kernel) -> bool:
    """Whether traffic takes longer than the arithmetic it overlaps with."""
    if not isinstance(kernel.roof, Roof) or kernel.kind is HOST:
        return True
    return bool(kernel.terms.overlapped >= kernel.terms.compute)


def _weight_traffic(kernel: Kernel) -> float:
    return float(kernel.count * kernel.work.weight_bytes)


def _kv_traffic(kernel: Kernel) -> float:
    return float(kernel.count * kernel.work.kv_bytes)


def _flop(kernel: Kernel) -> float:
    return float(kernel.count * kernel.work.flop)


def _reading_rates(kernel: Kernel) -> tuple[float, float]:
    """Reached and full memory bandwidth [B/s]."""
    roof: Any = kernel.roof
    return float(roof.efficiency.eta_m * roof.bandwidth), float(roof.bandwidth)


def _arithmetic_rates(kernel: Kernel) -> tuple[float, float]:
    """Reached and peak arithmetic rate [FLOP/s]."""
    roof: Any = kernel.roof
    return float(roof.efficiency.eta_c * roof.peak), float(roof.peak)


def _quantising(kernel: Kernel) -> float:
    """Time to quantize activations of matrix multiplications [s]."""
    return _serial(kernel) if kernel.kind is GEMM else 0.0


def _routing(kernel: Kernel) -> float:
    """Time to move activations to and from the experts, which depends on the format [s]."""
    return _serial(kernel) if kernel.kind is MOE else 0.0


def _serial(kernel: Kernel) -> float:
    return float(kernel.count * kernel.terms.serial)


def _latency(kernel: Kernel) -> float:
    """Time beyond arithmetic and traffic: launches, serial depth, items [s]."""
    roof = kernel.roof
    if not isinstance(roof, Roof) or kernel.kind is HOST:
        return 0.0
    if not (kernel.work.depth or kernel.work.serial_depth or kernel.work.items):
        return float(kernel.count * roof.efficiency.t0)
    work = kernel.work._replace(depth=0.0, serial_depth=0.0, items=0.0)
    bare = roof if roof.efficiency is IDEAL else roof._replace(efficiency=replace(roof.efficiency, t0=0.0))
    return float(kernel.time - kernel.count * kernel_time(work, bare).total)


# Number formats with slower kernels than a reference format, and whether that was timed or assumed.

_SLOWER = 1.1  # least ratio of times of a part worth saying
_WORTH_SAYING = 0.02  # least added time, as a share of the reference pass
_CAUSE = 0.2  # least share of the added time of a cause
_LOWER = 0.95  # relative rate below which a rate counts as lower

_SIXTEEN_BIT_NBYTES = 2.0  # [B] of a weight in 16 bits

#: Term of a kernel's time -> what the kernel does at its rate, and the amount.
_DONE: Mapping[str, tuple[str, Callable[[Any], Any]]] = {
    "compute": ("multiply", lambda work: work.flop),
    "memory": ("read", lambda work: work.overlapped_bytes),
    "serial": ("move activations", lambda work: work.serial_bytes),
    "exponentials": ("take exponentials", lambda work: work.exponentials),
}


def slow_kernels(
    prediction: Prediction, other: Prediction, changes: Mapping[str, Difference | None], reference_name: str
) -> list[str]:
    """Parts of a pass that take longer because their kernels are slower at the same work, and what that rests on.

    Such as ``prefill takes 5.6x as long in the experts as with bf16: its kernels multiply at 0.13x the rate
    (weight-only; timed on blackwell)``. Changes are from the reference, by pass; None without a decode pass.
    """
    clauses: dict[str, list[str]] = {}
    slower: dict[str, list[Kernel]] = {}
    for name, change in changes.items():
        if change is None:
            continue
        for part in dict.fromkeys(kernel.part for kernel in change.kernels):
            moved = [kernel for kernel in change.kernels if kernel.part == part]
            before, after = fsum(kernel.before for kernel in moved), fsum(kernel.after for kernel in moved)
            if after <= max(_SLOWER * before, before + _WORTH_SAYING * change.before) or not before:
                continue
            longer = [kernel.name for kernel in moved if kernel.after > kernel.before > 0.0]
            before_kernels, after_kernels = (_gpu_kernels(getattr(side, name), longer) for side in (other, prediction))
            causes = _causes(before_kernels, after_kernels)
            if causes:
                how_long = f"{name} takes {ratio_text(after / before)} as long in {the(part)} as with {reference_name}"
                clauses.setdefault(part, []).append(f"{how_long}: its kernels {' and '.join(causes)}")
                slower.setdefault(part, []).extend(kernel for kernels in after_kernels.values() for kernel in kernels)
    return [f"{'; '.join(texts)} ({_basis(prediction.deployment, slower[part])})" for part, texts in clauses.items()]


def _gpu_kernels(pass_: Pass, names: Sequence[str]) -> dict[str, list[Kernel]]:
    """Kernels by name, without links and the host, which do not depend on formats."""
    by_name: dict[str, list[Kernel]] = {}
    for kernel in pass_.kernels:
        if kernel.name in names and isinstance(kernel.roof, Roof) and kernel.kind is not HOST:
            by_name.setdefault(kernel.name, []).append(kernel)
    return by_name


def _causes(before: Mapping[str, list[Kernel]], after: Mapping[str, list[Kernel]]) -> list[str]:
    """Why the kernels take longer, the costliest reason first; empty where none is slower at the same work."""
    added: dict[str, float] = {}
    for name in (name for name in before if name in after):
        for term, gained in effects(before[name], after[name]).items():
            added[term] = added.get(term, 0.0) - gained
    before_all, after_all = ([kernel for kernels in side.values() for kernel in kernels] for side in (before, after))
    significant = [term for term in added if added[term] > 0.0 and added[term] >= _CAUSE * fsum(added.values())]
    causes = [_cause(term, before_all, after_all) for term in sorted(significant, key=lambda term: -added[term])]
    return [text for text, _ in causes if text] if any(is_slower for _, is_slower in causes) else []


def _cause(term: str, before_kernels: Sequence[Kernel], after_kernels: Sequence[Kernel]) -> tuple[str, bool]:
    """One term in words, and whether its rate is lower (more work at the same rate is not slower)."""
    before, after = _term_time(term, before_kernels), _term_time(term, after_kernels)
    if term not in _DONE:
        return f"launch and fill in {f'{ratio_text(after / before)} the time' if before else to_text(after, 's')}", True
    verb, amount = _DONE[term]
    old, new = (
        fsum(float(kernel.count * amount(kernel.work)) for kernel in side) for side in (before_kernels, after_kernels)
    )
    if not old:
        return f"{verb} in a separate pass", True
    growth = new / old
    rate = growth * before / after
    words = [f"{ratio_text(growth)} as much"] if growth * _LOWER > 1.0 else []
    if rate < _LOWER:
        words.append(f"at {ratio_text(rate)} the rate")
    peak_ratio = growth * _peak_time(before_kernels) / _peak_time(after_kernels) if term == "compute" else 1.0
    if peak_ratio < _LOWER:
        words.append(f"and {ratio_text(peak_ratio)} the peak")
    return f"{verb} {' '.join(words)}" if words else "", rate < _LOWER


def _term_time(term: str, kernels: Sequence[Kernel]) -> float:
    parts = [term_times([kernel]) for kernel in kernels]
    return fsum(getattr(part, term) + (part.serial_latency if term == "latency" else 0.0) for part in parts)


def _peak_time(kernels: Sequence[Kernel]) -> float:
    """Time of the arithmetic at full tensor-core rates [s]."""
    return fsum(float(kernel.count * kernel.work.flop / kernel.roof.peak) for kernel in kernels)  # type: ignore[union-attr]  # no link


def _basis(deployment: Deployment, kernels: Sequence[Kernel]) -> str:
    """What the efficiencies of the kernels rest on, in words."""
    generation, calibration = deployment.gpu.generation, deployment.gpu.calibration
    sets = {} if calibration is None else calibration.kernels
    quantization = deployment.quantization
    narrow = {
        scheme.key
        for scheme in quantization.sections.values()
        if scheme.peak == quantization.sixteen_bit_peak and scheme.weight_nbytes < _SIXTEEN_BIT_NBYTES
    }
    is_weight_only = all(kernel.kind.bears_weights and kernel.dtype in narrow for kernel in kernels)
    words = ["weight-only"] if is_weight_only else []
    if deployment.basis == "ideal":
        return "; ".join([*words, "at the hardware limit"])
    timed = {sets[key].is_measured if key in sets else None for key in ((k.kind.name, k.dtype) for k in kernels)}
    if deployment.basis in ROUGH and timed != {True}:
        words.append(f"medians of other generations: {generation} not timed")
    elif timed == {True}:
        words.append(f"timed on {generation}")
    elif True in timed:
        words.append(f"partly timed on {generation}, partly assumed")
    else:
        words.append(f"not timed on {generation}: {'other formats stand in' if timed == {None} else 'assumed'}")
    if deployment.passes is None and any(_is_tuned(kernel, sets) for kernel in kernels):
        words.append(f"adjusted for {deployment.engine.name}")
    return "; ".join(words)


def _is_tuned(kernel: Kernel, sets: Mapping[tuple[str, str], Any]) -> bool:
    """Whether the engine profile changes the efficiency of a kernel."""
    plain, _ = calibrated_set(sets, kernel.kind, kernel.dtype)
    tuned = kernel.roof.efficiency
    return (tuned.eta_c, tuned.eta_m) != (plain.eta_c, plain.eta_m)  # type: ignore[union-attr]  # no link
