"""The public functions: names and plain numbers in, predictions out."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, Unpack, overload

from roofline.api.inputs import arguments, cache, case, load, measured_case, pools, shape, speculation
from roofline.api.inputs.case import LOADS
from roofline.api.inputs.deployed import CaseOptions, Deployed, deployed_case
from roofline.api.inputs.slo import slo_limits
from roofline.api.ranking import meeting_first
from roofline.catalog import find
from roofline.errors import BadInput, RooflineError, UnknownName, UnsupportedPrecision
from roofline.number_types import Numbers
from roofline.ops import never
from roofline.physics.plan import DEFAULT_SKEW, Deployment
from roofline.records import NamedTuple, replace
from roofline.serving import answer
from roofline.serving.correction import UNCORRECTED
from roofline.serving.knee import Knees
from roofline.serving.latency import Workload
from roofline.serving.prediction import Prediction, Predictions
from roofline.serving.row import ROW_KEYS
from roofline.serving.sizing import does_not_fit
from roofline.specs.gpu import Gpu
from roofline.specs.model import Model
from roofline.specs.slo import Limits

if TYPE_CHECKING:
    from roofline.api.inputs.options import Case
    from roofline.arrays import Array, Words

__all__ = [
    "DEFAULTS",
    "DEFAULT_ENGINE",
    "LOADS",
    "NO_KNEE",
    "ROW_KEYS",
    "Prediction",
    "knee",
    "predict",
    "predict_each_gpu",
    "tpot",
    "ttft",
]

#: Default lengths and batch: the random data set of `vllm bench serve`.
DEFAULTS: Mapping[str, int] = {"isl": shape.USUAL[0], "osl": shape.USUAL[1], "batch": 1, "prefix": 0}
DEFAULT_ENGINE = "generic"
#: Why there is no knee under a rate.
NO_KNEE = (
    "a knee is a batch, or a number of users: give batch or concurrency; under a request_rate the batch follows from "
    "it (solve --for request_rate says the rate at which an SLO is just met)"
)


@overload
def predict(model: str | Model, gpu: str | Gpu, **options: Unpack[Case]) -> Prediction: ...
@overload
def predict(model: str | Model, gpu: str | Gpu, **options: Unpack[Case[Numbers]]) -> Predictions: ...
def predict(
    model: str | Model,
    gpu: str | Gpu,
    *,
    isl: Numbers = DEFAULTS["isl"],
    osl: Numbers = DEFAULTS["osl"],
    batch: Numbers | None = None,
    concurrency: Numbers | None = None,
    request_rate: Numbers | None = None,
    num_prompts: Numbers | None = None,
    prefix: Numbers = DEFAULTS["prefix"],
    cache_hit: float | str | None = None,
    cache_tier: str | None = None,
    cache_bandwidth: float | str | None = None,
    cache_size: float | str | None = None,
    working_set: float | str | None = None,
    isl_cv: float | str | None = None,
    osl_cv: float | str | None = None,
    lengths: str | Mapping[str, Iterable[float]] | None = None,
    cold_start: str | tuple[float, float] | None = None,
    derate: str | Mapping[str, float | str] | None = None,
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
    engine: str = DEFAULT_ENGINE,
    network: float | str = 0.0,
    max_num_batched_tokens: int | str | None = None,
    max_num_seqs: int | str | None = None,
    gpu_memory_utilization: float | str | None = None,
    max_model_len: int | str | None = None,
    draft: str | Model | None = None,
    draft_tokens: int | str | None = None,
    acceptance: float | str | Iterable[float] | None = None,
    measured: str | Mapping[str, float | str] | None = None,
    slo: str | Mapping[str, float | str] | None = None,
    allow_oversize: bool = False,
    specs: str | None = None,
    gpu_price: float | str | tuple[float, float] | None = None,
    assume: str | None = None,
) -> Prediction | Predictions:
    """Latencies of a model on GPUs under one load.

    The load is a burst of `batch` requests on an idle server (default 1), `concurrency` users in a closed loop, who
    send the next request as soon as the last is answered, or a `request_rate` of Poisson arrivals. Latencies of the
    last two are means over requests.

    Lengths and load may be arrays or columns that broadcast together. Every time is then an array, NaN where the case
    does not fit or the server is overloaded.

    Args:
        model: name, alias or record.
        gpu: name, alias, pool such as ``8xh100`` or ``b200:tp4:fp8``, or record.
        isl: prompt length [tokens].
        osl: answer length [tokens].
        batch: requests of a burst on an idle server, per replica; 1 where no load is given [sequences].
        concurrency: users of the whole deployment, shared evenly by replicas and data-parallel ranks [requests].
        request_rate: Poisson arrivals at the whole deployment [1/s].
        num_prompts: requests of a run that all users start together, averaged over the run; None for the steady
            state [requests].
        prefix: prompt tokens whose KV is already cached [tokens].
        cache_hit: share of the requests whose prefix is cached, ``60%``; None for all, or as `working_set` says [1].
        cache_tier: where prefixes are cached: ``hbm``, ``host``, ``nvme`` or ``network``; None for ``hbm``.
        cache_bandwidth: of the tier to one GPU, ``12GB/s``; None for that of the GPU's link [B/s].
        cache_size: of the prompt cache of one replica, ``500GB``; in ``hbm`` it is taken from the batch [B].
        working_set: size of all prefixes in use, ``2TB``, or with Zipf's law, ``2TB:zipf0.9`` [B].
        isl_cv: standard deviation of prompt lengths under a load, over their mean; None for equal lengths [1].
        osl_cv: standard deviation of answer lengths under a load, over their mean; None for equal lengths [1].
        lengths: distribution of both, ``lognormal`` (the default) or ``uniform``; or a trace: the path of a CSV with
            columns isl and osl, or a mapping with these, whose means replace isl and osl.
        cold_start: share of the requests of a load that start a cold server, and their extra wait: ``1%:2s``, or both
            numbers, the time in seconds [1, s].
        derate: shares of `bandwidth`, `peak` and `link` that are lost to neighbours, virtualization or clocks:
            ``bandwidth:5%,peak:3%``, or a mapping [1].
        tp: tensor-parallel degree; None for the smallest that holds the load, or, where `num_gpus` and `slo` are given,
            that meets the SLO; in arrays, case by case [1].
        pp: pipeline-parallel degree [1].
        ep: expert-parallel degree [1].
        dp: data-parallel degree of the attention [1].
        num_gpus: GPUs of all replicas; None for one replica [1].
        quantization: preset of formats, e.g. ``fp8``.
        weights: number format of the weights.
        kv_cache_dtype: number format of the KV cache.
        compute: dtype at which weights are multiplied.
        routing: ``uniform``, or the skew c of the expert choice [1].
        basis: ``calibrated`` or ``ideal``.
        engine: profile of a serving engine: ``generic``, ``trtllm``, ``vllm``, ``sglang``, ``none`` for the
            kernels alone, or the path of your own profile.
        network: round trip between client and server [s].
        max_num_batched_tokens: most tokens that a step computes; None for the engine's default [tokens].
        max_num_seqs: most sequences that a data-parallel rank runs; None for the engine's default [sequences].
        gpu_memory_utilization: share of the memory for weights, activations and KV cache; None for the engine's
            default [1].
        max_model_len: longest request that is served; None for the model's maximum [tokens].
        draft: source of the draft tokens of speculative decoding: ``mtp``, ``eagle``, ``ngram``, or a smaller model;
            None for no speculation.
        draft_tokens: draft tokens per decode step [tokens].
        acceptance: probability that a draft token is accepted, given that all before it are: one number, one for each,
            or a text of these, of tokens per step (``2.8 tokens``), or of a published preset [1].
        measured: one measurement of this deployment, which scales the answer: `ttft`, `tpot` [s], and the `isl`,
            `osl`, `prefix` and load it was taken at, where they differ.
        slo: limits on means or percentiles of ttft, tpot and e2el, and on a p99 over its median: a text such as
            ``ttft:300@p95,tpot:25,p99:2x``, bare numbers in ms, or a mapping such as ``{"ttft@p95": 0.3}``,
            bare numbers in seconds [s].
        allow_oversize: predict a plan even if it does not fit.
        specs: folder of your own specifications; default $ROOFLINE_SPECS.
        gpu_price: rent of one GPU, or both ends of its range, such as ``2.5`` or ``2-4/h``; None for the catalog's
            [USD/h].
        assume: family, such as ``llama``, as which a config.json of an unknown `model_type` is read; None to refuse it.

    Returns:
        The prediction; `Predictions` where lengths or load are arrays.

    Raises:
        UnknownName: no such model, GPU, format or SLO key.
        UnsupportedPrecision: the GPU cannot multiply in the format.
        BadInput: an impossible number or plan.
        DoesNotFit: the plan needs more memory than the GPUs have.
        Overloaded: the request rate exceeds the saturation rate.
        BadSpec: a specification has faults.

    >>> import roofline as rl
    >>> p = rl.predict("llama-3.1-8b", "h100-sxm", isl=2000, osl=300, basis="ideal")
    >>> p
    <Prediction llama-3.1-8b bf16 on 1x h100-sxm: TTFT 32.6 ms, TPOT 4.57 ms; isl 2000, osl 300, batch 1, ideal>
    >>> rl.predict("llama-3.1-8b", "h100-sxm", isl=[1000, 2000], basis="ideal").ttft.round(3)
    array([0.016, 0.033])
    """
    limits = None if slo is None else slo_limits(slo)
    if type(allow_oversize) is not bool:
        allow_oversize = arguments.scalars(allow_oversize=allow_oversize)[0]
    settings = (max_num_batched_tokens, max_num_seqs, gpu_memory_utilization, max_model_len)
    base = deployed_case(
        CaseOptions(
            model,
            gpu,
            (tp, pp, ep, dp, num_gpus),
            (quantization, weights, kv_cache_dtype, compute, routing, basis, engine, network, *settings),
            (draft, draft_tokens, acceptance),
            (derate, gpu_price),
            (specs, assume),
        )
    )
    spread, start = None, None
    if any(value is not None for value in (lengths, isl_cv, osl_cv, cold_start)):
        isl, osl, spread, start = shape.traffic(
            isl, osl, lengths=lengths, isl_cv=isl_cv, osl_cv=osl_cv, cold_start=cold_start
        )
    prompt_cache = cache.prompt_cache_of(cache_hit, cache_tier, cache_bandwidth, cache_size, working_set)
    workload = case.workload(
        isl, osl, batch, prefix, concurrency, request_rate, num_prompts, spread, start, prompt_cache
    )
    deployment = cache.deployed(base.deployment, workload.cache)
    rest = _Rest(base, limits, measured, allow_oversize)
    if base.tp is not None:
        return _at_plan(deployment, workload, rest)
    tp = load.open_tp(deployment, workload, num_gpus=base.num_gpus, copies=base.copies, slo=limits)
    if not getattr(tp, "shape", ()):
        return _at_plan(load.at_tp(deployment, tp, base.num_gpus), workload, rest)
    return _at_each_plan(deployment, workload, tp, rest)


class _Rest(NamedTuple):
    """Of a question, what is neither plan nor lengths and load."""

    base: Deployed
    limits: Limits | None
    measured: Any
    allow_oversize: bool


def _at_plan(deployment: Deployment, workload: Workload, rest: _Rest) -> Prediction:
    """The prediction at one plan."""
    base, limits, measured, allow_oversize = rest
    if base.num_gpus is not None:
        deployment = deployment.copies(load.replicas(deployment.plan, base.num_gpus))
    elif base.copies is not None:
        deployment = deployment.copies(base.copies)
    speculation.check_draft_plan(deployment)
    load.check_longest(deployment, workload, allow_oversize=allow_oversize)
    correction = UNCORRECTED if measured is None else measured_case.correction(deployment, workload, measured)
    notes = (
        *base.notes,
        *case.warnings(deployment, base.basis, workload, is_open=base.tp is None),
        *base.lost,
        *speculation.draft_warnings(deployment),
        *cache.cache_notes(deployment, workload),
        *measured_case.correction_notes(correction),
    )
    prediction = answer.predict_deployment(
        deployment, workload, limits, notes, allow_oversize=allow_oversize, correction=correction
    )
    if never(prediction.fits):
        if not allow_oversize:
            raise does_not_fit(deployment, workload.batch, workload.isl + workload.osl)
        used = f"{prediction.memory.used_fraction:.0%} of the usable memory"
        return replace(prediction, added=(*prediction.added, f"does not fit: {used}; times are hypothetical"))
    return prediction if prediction.served is None else load.under_load(prediction)


def _at_each_plan(deployment: Deployment, workload: Workload, tp: Any, rest: _Rest) -> Prediction:
    """The prediction of an array of cases, each at its own `tp`."""
    from roofline.arrays import groups_of, taken
    from roofline.serving.mixed_plans import MixedPlans

    groups = groups_of(tp)
    if len(groups) == 1:
        return _at_plan(load.at_tp(deployment, groups[0][0], rest.base.num_gpus), workload, rest)
    parts = []
    for degree, places in groups:
        numbers = {name: taken(getattr(workload, name), tp.shape, places) for name in case.NUMBERS}
        part = replace(workload, **numbers)
        parts.append(_at_plan(load.at_tp(deployment, degree, rest.base.num_gpus), part, rest))
    return MixedPlans(parts, [places for _, places in groups], tp.shape)


def predict_each_gpu(
    model: str | Model, gpu_names: tuple[str, ...], by: str = "ttft", **options: Any
) -> tuple[list[Prediction], dict[str, RooflineError]]:
    """Predictions by their attribute `by`, smallest first, and the errors of the GPUs that cannot run the case.

    With an SLO, those that meet it come first.
    """
    catalog_options = options.get("specs"), options.get("assume")
    model, note = (model, None) if isinstance(model, Model) else find.find_model(model, *catalog_options)
    predictions, refused = [], {}
    for name in gpu_names:
        pools.choice(name, options)  # a faulty text is an error for all GPUs, not for one
    for name in gpu_names:
        try:
            prediction = predict(model, name, **options)
            predictions.append(replace(prediction, said=(*([] if note is None else [note]), *prediction.said)))
        except UnknownName:
            raise
        except RooflineError as error:
            refused[name] = error
    if not predictions and refused:
        wrong = [error for error in refused.values() if isinstance(error, BadInput)]
        other = [error for error in refused.values() if not isinstance(error, (BadInput, UnsupportedPrecision))]
        if len(refused) == 1 or (wrong and not other):
            raise next(iter(wrong or refused.values()))
    ranked = sorted(predictions, key=lambda prediction: getattr(prediction, by) or 0.0)
    return meeting_first(ranked, lambda prediction: prediction.verdict), refused


@overload
def ttft(model: str | Model, gpu: str | Gpu, **options: Unpack[Case]) -> float: ...
@overload
def ttft(model: str | Model, gpu: str | Gpu, **options: Unpack[Case[Numbers]]) -> Array: ...
def ttft(model: str | Model, gpu: str | Gpu, **options: Unpack[Case[Any]]) -> float | Array:
    """Time to first token of a burst, or its mean under a load.

    Args:
        model: name, alias or record.
        gpu: name, alias, pool such as ``8xh100`` or ``b200:tp4:fp8``, or record.
        options: keyword arguments of `predict`.

    Returns:
        Time [s].

    >>> import roofline as rl
    >>> round(rl.ttft("llama-3.1-8b", "h100-sxm", isl=2000, basis="ideal"), 3)  # 2 x 8e9 FLOP x 2000 at 989 TFLOP/s
    0.033
    """
    time: float | Array = predict(model, gpu, **options).ttft
    return time


@overload
def tpot(model: str | Model, gpu: str | Gpu, **options: Unpack[Case]) -> float | None: ...
@overload
def tpot(model: str | Model, gpu: str | Gpu, **options: Unpack[Case[Numbers]]) -> Array | None: ...
def tpot(model: str | Model, gpu: str | Gpu, **options: Unpack[Case[Any]]) -> float | None | Array | None:
    """Mean time per output token after the first.

    Args:
        model: name, alias or record.
        gpu: name, alias, pool such as ``8xh100`` or ``b200:tp4:fp8``, or record.
        options: keyword arguments of `predict`.

    Returns:
        Time [s]; None for a single output token.

    >>> import roofline as rl
    >>> round(rl.tpot("llama-3.1-8b", "h100-sxm", basis="ideal"), 4)  # 15 GB of weights at 3.35 TB/s
    0.0045
    """
    return predict(model, gpu, **options).tpot


@overload
def knee(model: str | Model, gpu: str | Gpu, **options: Unpack[Case]) -> Knees: ...
@overload
def knee(model: str | Model, gpu: str | Gpu, **options: Unpack[Case[Numbers]]) -> Knees[Array, Words]: ...
def knee(model: str | Model, gpu: str | Gpu, **options: Unpack[Case[Any]]) -> Knees | Knees[Array, Words]:
    """The batches, or numbers of users, at which decode stops being cheap.

    Args:
        model: name, alias or record.
        gpu: name, alias, pool such as ``8xh100`` or ``b200:tp4:fp8``, or record.
        options: keyword arguments of `predict`.

    Returns:
        The four knees: of the batch of a burst [sequences], or of the users of the deployment [requests].

    Raises:
        BadInput: a request rate, which sets the batch itself.

    >>> import roofline as rl
    >>> rl.knee("llama-3.1-8b", "h100-sxm", basis="ideal")
    <Knees ridge 326, half 61.1, memory 406; smallest: half>
    """
    if options.get("request_rate") is not None and not {"batch", "concurrency"} & set(options):
        raise BadInput(NO_KNEE)
    return predict(model, gpu, **options).knees
