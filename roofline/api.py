"""The public functions: names and plain numbers in, predictions out."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from roofline.catalog import reader
from roofline.catalog.records import Gpu, Model
from roofline.errors import BadInput, DoesNotFit, RooflineError, UnknownName
from roofline.ops import Real
from roofline.physics.efficiency import basis_of, calibrated_set
from roofline.physics.plan import DEFAULT_SKEW, Deployment, Plan
from roofline.quantity import BILLION, KIBI
from roofline.serving import latency
from roofline.serving.knee import Knees
from roofline.serving.latency import Prediction, Workload
from roofline.serving.precision import precision
from roofline.serving.sizing import check_plan, does_not_fit, smallest_tp

__all__ = [
    "DEFAULTS",
    "ENGINES",
    "gpus",
    "knee",
    "load_gpu",
    "load_model",
    "models",
    "predict",
    "predict_each_gpu",
    "refused_row",
    "tpot",
    "ttft",
]

#: Lengths and batch where none are given: the random data set of `vllm bench serve`.
DEFAULTS: Mapping[str, int] = {"isl": KIBI, "osl": 128, "batch": 1, "prefix": 0}
ENGINES = ("none",)

_LONGEST = BILLION  # tokens or sequences; beyond it the input is a slip
_FIELDS = ("isl", "osl", "batch", "prefix")


def gpus(specs: str | None = None) -> tuple[str, ...]:
    """Canonical names of all GPUs of the catalog.

    Args:
        specs: folder of specifications of one's own; default $ROOFLINE_SPECS [path].

    Returns:
        Names, sorted [text].
    """
    return reader.gpu_names(specs)


def models(specs: str | None = None) -> tuple[str, ...]:
    """Short names of all models of the catalog.

    Args:
        specs: folder of specifications of one's own; default $ROOFLINE_SPECS [path].

    Returns:
        Names, sorted [text].
    """
    return reader.model_names(specs)


def load_gpu(name: str, specs: str | None = None) -> Gpu:
    """GPU of a name or alias.

    Args:
        name: e.g. ``h100-sxm``; case and separators do not matter [text].
        specs: folder of specifications of one's own; default $ROOFLINE_SPECS [path].

    Returns:
        The record, in SI units.

    Raises:
        UnknownName: no such GPU.
        BadSpec: its file has faults.
    """
    return reader.load_gpu(name, specs)


def load_model(name: str, specs: str | None = None) -> Model:
    """Model of a Hugging Face id, short name or alias.

    Args:
        name: e.g. ``llama-3.1-70b``; case and separators do not matter [text].
        specs: folder of specifications of one's own; default $ROOFLINE_SPECS [path].

    Returns:
        The record.

    Raises:
        UnknownName: no such model.
        BadSpec: its file has faults.
    """
    return reader.load_model(name, specs)


def predict(
    model: str | Model,
    gpu: str | Gpu,
    *,
    isl: Real = DEFAULTS["isl"],
    osl: Real = DEFAULTS["osl"],
    batch: Real = DEFAULTS["batch"],
    prefix: Real = DEFAULTS["prefix"],
    tp: int | None = None,
    pp: int = 1,
    ep: int = 1,
    dp: int = 1,
    num_gpus: int | None = None,
    quantization: str | None = None,
    weights: str | None = None,
    kv_cache_dtype: str | None = None,
    compute: str | None = None,
    routing: str | float = DEFAULT_SKEW,
    basis: str = "calibrated",
    engine: str = "none",
    slo: Mapping[str, float] | None = None,
    allow_oversize: bool = False,
    specs: str | None = None,
) -> Prediction:
    """Latencies of one static batch of a model on GPUs.

    `isl`, `osl`, `batch` and `prefix` may be arrays or columns that broadcast together; then every
    time is an array, NaN where the case does not fit.

    Args:
        model: name, alias or record [text].
        gpu: name, alias or record [text].
        isl: prompt length [tokens].
        osl: answer length [tokens].
        batch: sequences advanced together on one replica [sequences].
        prefix: prompt tokens whose KV is cached already [tokens].
        tp: tensor-parallel degree; None for the smallest that fits [1].
        pp: pipeline-parallel degree [1].
        ep: expert-parallel degree [1].
        dp: data-parallel degree of the attention [1].
        num_gpus: GPUs of all replicas; None for one replica [1].
        quantization: preset of formats, e.g. ``fp8`` [text].
        weights: number format of the weights [text].
        kv_cache_dtype: number format of the KV cache [text].
        compute: dtype at which weights are multiplied [text].
        routing: ``uniform``, or the skew c of the expert choice [1].
        basis: ``calibrated`` or ``ideal`` [text].
        engine: host overheads of a serving engine; only ``none`` so far [text].
        slo: limits on ttft, tpot or e2el [s].
        allow_oversize: predict a plan that does not fit, too [bool].
        specs: folder of specifications of one's own; default $ROOFLINE_SPECS [path].

    Returns:
        The prediction.

    Raises:
        UnknownName: no such model, GPU, format or SLO key.
        UnsupportedPrecision: the GPU cannot multiply in the format.
        BadInput: a number or a plan that cannot be.
        DoesNotFit: the plan needs more memory than the GPUs have.
        BadSpec: a specification has faults.
    """
    model = load_model(model, specs) if isinstance(model, str) else model
    gpu = load_gpu(gpu, specs) if isinstance(gpu, str) else gpu
    workload = _workload(isl, osl, batch, prefix)
    plan = Plan(1 if tp is None else tp, pp, ep, dp)
    chosen = precision(model, gpu, quantization, weights, kv_cache_dtype, compute)
    if engine not in ENGINES:
        raise BadInput(f"engine {engine!r} is not one of {', '.join(ENGINES)}")
    deployment = Deployment(model, gpu, plan, chosen, basis_of(gpu, basis), _skew(routing))
    length, single = workload.isl + workload.osl, type(workload.isl + workload.batch + workload.osl) is float
    if tp is None:
        _check_degrees(plan)
        deployment = _smallest(deployment, workload, length, single, allow_oversize)
    check_plan(model, deployment.plan)
    deployment = replace(deployment, replicas=_replicas(deployment.plan, num_gpus))
    prediction = latency.predict(deployment, workload, slo, _warnings(deployment, basis, length))
    if single and not prediction.fits and not allow_oversize:
        raise does_not_fit(deployment, workload.batch, length)
    return prediction


def predict_each_gpu(
    model: str | Model, gpu_names: tuple[str, ...], **options: Any
) -> tuple[list[Prediction], dict[str, RooflineError]]:
    """Predictions of one model on several GPUs, and why there is none on the others.

    Args:
        model: name, alias or record [text].
        gpu_names: the GPUs [text].
        options: keyword arguments of `predict`.

    Returns:
        Predictions sorted by TTFT, and the error of each GPU that cannot run the case.

    Raises:
        RooflineError: what is wrong with the model or the case on every GPU alike.
    """
    model = load_model(model, options.get("specs")) if isinstance(model, str) else model
    found, refused = [], {}
    for name in gpu_names:
        try:
            found.append(predict(model, name, **options))
        except UnknownName:
            raise
        except RooflineError as error:
            refused[name] = error
    if not found and refused:
        kinds = {type(error) for error in refused.values()}
        if kinds == {BadInput} or len(refused) == 1:
            raise next(iter(refused.values()))
    return sorted(found, key=lambda prediction: prediction.ttft), refused


def refused_row(model: str | Model, gpu: str, error: RooflineError, **options: Any) -> dict[str, Any]:
    """Row of the JSON contract for a GPU that cannot run a case: the reason, and nulls.

    Args:
        model: name, alias or record [text].
        gpu: name or alias of the GPU [text].
        error: why it was refused.
        options: keyword arguments of `predict`.

    Returns:
        The row; `fits` is false where memory is the reason, else null.
    """
    model = load_model(model, options.get("specs")) if isinstance(model, str) else model
    asked = {name: options.get(name, DEFAULTS.get(name)) for name in ("tp", "pp", "ep", "dp", *DEFAULTS)}
    return {
        **dict.fromkeys(latency.ROW_KEYS),
        **asked,
        "model": model.short_name,
        "model_id": model.name,
        "gpu": reader.load_gpu(gpu, options.get("specs")).name,
        "basis": options.get("basis", "calibrated"),
        "engine": options.get("engine", "none"),
        "fits": False if isinstance(error, DoesNotFit) else None,
        "warnings": [f"{type(error).__name__}: {error}"],
    }


def ttft(model: str | Model, gpu: str | Gpu, **options: Any) -> Real:
    """Time to first token of a static batch.

    Args:
        model: name, alias or record [text].
        gpu: name, alias or record [text].
        options: keyword arguments of `predict`.

    Returns:
        Time [s].
    """
    return predict(model, gpu, **options).ttft


def tpot(model: str | Model, gpu: str | Gpu, **options: Any) -> Real | None:
    """Mean time per output token after the first.

    Args:
        model: name, alias or record [text].
        gpu: name, alias or record [text].
        options: keyword arguments of `predict`.

    Returns:
        Time [s]; None for a single output token.
    """
    return predict(model, gpu, **options).tpot


def knee(model: str | Model, gpu: str | Gpu, **options: Any) -> Knees:
    """The batches at which decode stops being cheap.

    Args:
        model: name, alias or record [text].
        gpu: name, alias or record [text].
        options: keyword arguments of `predict`.

    Returns:
        The four knees [sequences].
    """
    return predict(model, gpu, **options).knees


# --- from what a caller writes to what the rings take -------------------------------------------


def _workload(isl: Real, osl: Real, batch: Real, prefix: Real) -> Workload:
    """Lengths and batch as floats or float64 arrays, refused where they cannot be."""
    given = dict(zip(_FIELDS, (isl, osl, batch, prefix), strict=True))
    values = {name: _number(name, value) for name, value in given.items()}
    for name, value in values.items():
        least = 0.0 if name == "prefix" else 1.0
        if not _all((value >= least) & (value <= _LONGEST)):
            raise BadInput(f"{name} = {_shown(given[name])} must be between {least:g} and {_LONGEST:g}")
    try:
        reaches = values["prefix"] <= values["isl"]
        values["isl"] + values["osl"] + values["batch"]
    except ValueError as fault:
        raise BadInput(f"isl, osl, batch and prefix do not broadcast together: {fault}") from None
    if not _all(reaches):
        raise BadInput(f"prefix = {_shown(prefix)} exceeds the prompt, isl = {_shown(isl)}")
    return Workload(values["isl"], values["osl"], values["batch"], values["prefix"])


def _number(name: str, value: Any) -> Real:
    if type(value) is float or type(value) is int:
        try:
            return float(value)
        except OverflowError:
            raise BadInput(f"{name} = {_shown(value)} must be between 1 and {_LONGEST:g}") from None
    if value is None or isinstance(value, (bool, str, bytes)):
        raise BadInput(f"{name} = {value!r} is neither a number nor an array of numbers")
    from roofline.evaluate.arrays import as_array

    return as_array(name, value)


def _all(condition: Real) -> bool:
    return bool(condition.all()) if hasattr(condition, "all") else bool(condition)


def _shown(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 60 else text[:57] + "..."


def _skew(routing: str | float) -> float | None:
    if routing == "uniform":
        return None
    try:
        skew = float(routing)
    except (TypeError, ValueError):
        raise BadInput(f"routing {routing!r} is neither uniform nor a number") from None
    if not 0.0 < skew < float("inf"):
        raise BadInput(f"routing skew {routing!r} must be positive and finite; uniform routing is called uniform")
    return skew


def _check_degrees(plan: Plan) -> None:
    for name in ("pp", "ep", "dp"):
        degree = getattr(plan, name)
        if not isinstance(degree, int) or isinstance(degree, bool) or degree < 1:
            raise BadInput(f"{name} = {degree!r} must be a whole number of at least 1")


def _smallest(
    deployment: Deployment, workload: Workload, length: Real, single: bool, allow_oversize: bool
) -> Deployment:
    """The deployment at the smallest tp that fits (its largest case, where there are several)."""
    batch = workload.batch if single else float(max(_flat(workload.batch)))
    longest = length if single else float(max(_flat(length)))
    tp = smallest_tp(deployment, batch, longest)
    if tp is None:
        ep = deployment.plan.ep
        widest = [tp for tp in _degrees(deployment) if (tp * deployment.plan.dp) % ep == 0]
        tp = widest[-1] if widest else 1
        deployment = replace(deployment, plan=replace(deployment.plan, tp=tp))
        check_plan(deployment.model, deployment.plan)
        if single and not allow_oversize:
            raise does_not_fit(deployment, batch, longest)
    return replace(deployment, plan=replace(deployment.plan, tp=tp))


def _degrees(deployment: Deployment) -> list[int]:
    from roofline.serving.sizing import possible_tp

    plan = deployment.plan
    return possible_tp(deployment.model, max(deployment.gpu.link.domain // (plan.pp * plan.dp), 1))


def _flat(values: Real) -> list[float]:
    return [values] if isinstance(values, float) else list(values.ravel())


def _replicas(plan: Plan, num_gpus: int | None) -> int:
    if num_gpus is None:
        return 1
    if not isinstance(num_gpus, int) or isinstance(num_gpus, bool) or num_gpus < 1:
        raise BadInput(f"num_gpus = {num_gpus!r} must be a whole number of at least 1")
    replicas, rest = divmod(num_gpus, plan.num_gpus)
    if rest or not replicas:
        raise BadInput(
            f"num_gpus = {num_gpus} is not a multiple of the {plan.num_gpus} GPUs of one replica "
            f"(tp {plan.tp} x pp {plan.pp} x dp {plan.dp})"
        )
    return replicas


def _warnings(deployment: Deployment, requested: str, length: Real) -> tuple[str, ...]:
    """What the reader should know: assumptions, stand-ins, limits exceeded."""
    model, gpu, plan = deployment.model, deployment.gpu, deployment.plan
    said = list(deployment.precision.notes)
    if requested == "calibrated" and deployment.basis == "ideal":
        said.append(f"no calibration of generation {gpu.generation}: figures are the ideal roofline, 2-3x too fast")
    if model.max_context is not None and not _all(length <= model.max_context):
        said.append(f"isl + osl exceeds the {model.max_context} positions of {model.short_name}")
    ranks = max(plan.tp, plan.expert_ranks if model.is_moe else 1)
    if ranks > gpu.link.domain:
        said.append(f"{ranks} ranks exceed the {gpu.link.domain} GPUs of one {gpu.link.kind} domain: network rate used")
    if gpu.exp_rate is None and deployment.basis != "ideal":
        said.append(f"{gpu.name} states no special-function rate: softmax exponentials are not charged")
    return (*said, *_stand_ins(deployment))


def _stand_ins(deployment: Deployment) -> list[str]:
    """Dtypes whose kernels were never measured on the generation, and what stands in for them."""
    calibration = deployment.gpu.calibration
    if deployment.basis == "ideal" or calibration is None:
        return []
    said = []
    sections = deployment.precision.sections
    used = [("gemm", sections["linear"].key)]
    if deployment.model.is_moe:
        used.append(("moe", sections["experts"].key))
    for kind, key in used:
        _, found = calibrated_set(calibration.kernels, kind, key)
        if found != key:
            said.append(f"no {key} {kind} kernels measured on {calibration.name}: {found} parameters stand in")
    return said
