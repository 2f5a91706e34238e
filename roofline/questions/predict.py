"""The public functions: names and plain numbers in, predictions out."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, MappingView
from functools import wraps
from typing import TYPE_CHECKING, Any, TypeVar, Unpack, cast, overload

from roofline.numbers.operations import Numbers, never
from roofline.numbers.quantity import MICRO, to_text
from roofline.physics.equation import IDEAL, IDEAL_LINK, Kernel, LinkRoof, Roof, collective_time
from roofline.physics.passes import Pass
from roofline.physics.plan import DEFAULT_SKEW, Deployment
from roofline.questions import catalog
from roofline.questions.inputs import arguments, case, load
from roofline.questions.inputs import deployment as deployments
from roofline.questions.inputs.arguments import PLAIN, slo_limits
from roofline.questions.inputs.case import LOADS
from roofline.questions.inputs.deployment import Deployed, DeploymentOptions, GpuChoice, deployed_case
from roofline.questions.inputs.options import QUESTIONS, understood
from roofline.serving.answers import check_keys, listed_keys
from roofline.serving.knee import Knees, does_not_fit
from roofline.serving.latency import UNCORRECTED, Correction, Workload
from roofline.serving.prediction import Prediction, Predictions, predict_deployment
from roofline.serving.prompts import prompt_kinds
from roofline.serving.shown import KEYS, ROW_KEYS, row
from roofline.serving.summary import prediction_text
from roofline.serving.verdict import LIKELY, PASS, Limited, verdict
from roofline.specs.gpu import HOST, Gpu, the
from roofline.specs.keys import SHARED, Key, Keys, cells, taken
from roofline.specs.load import KIND_OF, RUN, Load, lasting
from roofline.specs.model import Model
from roofline.specs.workload import Limits
from roofline.specs.written import DEGREES, Pool, pool_text
from roofline.support.errors import BadInput, DoesNotFit, Overloaded, RooflineError, UnknownName, UnsupportedPrecision
from roofline.support.progress import each
from roofline.support.records import NamedTuple, replace

if TYPE_CHECKING:
    from roofline.numbers.arrays import Array, Words
    from roofline.questions.inputs.signatures import Case, Unmeasured

__all__ = ["LOADS", "ROW_KEYS", "Kernel", "Pass", "Prediction", "prediction_text"]


_Answer = TypeVar("_Answer")
_Function = TypeVar("_Function", bound=Callable[..., Any])

#: Default lengths and batch: the random data set of `vllm bench serve`.
DEFAULTS: Mapping[str, int] = {"isl": case.USUAL[0], "osl": case.USUAL[1], "batch": 1, "prefix": 0}
DEFAULT_ENGINE = "generic"


class Asked(NamedTuple):
    """A case as its caller states it."""

    model: Any
    gpu: Any
    options: dict[str, Any]


def _remembered(function: _Function) -> _Function:
    """Decorator: a prediction keeps what was asked, in place of which further questions take it."""

    @wraps(function)
    def question(model: Any, gpu: Any, **options: Any) -> Any:
        prediction = function(model, gpu, **options)
        if not PLAIN.issuperset(map(type, options.values())):
            if any(isinstance(value, _USED_UP) for value in options.values()):
                return prediction
            options = {name: value.copy() if hasattr(value, "copy") else value for name, value in options.items()}
        vars(prediction)[_ASKED] = model, gpu, options  # no field: a changed copy does not have it
        return prediction

    return cast("_Function", question)


_ASKED = "_asked"
_USED_UP = (Iterator, MappingView)  # what cannot be read twice, or kept in a file


@overload
def predict(model: str | Model, gpu: str | Gpu, **options: Unpack[Case]) -> Prediction: ...
@overload
def predict(model: str | Model, gpu: str | Gpu, **options: Unpack[Case[Numbers]]) -> Predictions: ...
@understood
@_remembered
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
    arrivals: str | Mapping[float | str, float] | None = None,
    router: str | None = None,
    turns: int | str | None = None,
    think: float | str | None = None,
    grow: str | Mapping[str, float] | None = None,
    system: float | str | None = None,
    images: int | str | None = None,
    image_size: int | str | tuple[int, int] | None = None,
    video_frames: int | str | None = None,
    audio: float | str | None = None,
    derate: str | Mapping[str, float | str] | None = None,
    tp: int | None = None,
    pp: int = 1,
    ep: int = 1,
    dp: int = 1,
    eplb: int | str | None = None,
    two_batch_overlap: bool = False,
    all_to_all: str | None = None,
    cp: int = 1,
    dcp: int = 1,
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
    lora: str | None = None,
    max_loras: int | str | None = None,
    max_lora_rank: int | str | None = None,
    offload: float | str | None = None,
    offload_bandwidth: float | str | None = None,
    cpu_bandwidth: float | str | None = None,
    measured: str | Mapping[str, float | str] | None = None,
    slo: str | Mapping[str, float | str] | None = None,
    allow_oversize: bool = False,
    specs: str | None = None,
    set: str | Mapping[str, float | str] | None = None,  # noqa: A002 - as its flag is spelled
    power_cap: float | str | None = None,
    gpu_price: float | str | tuple[float, float] | None = None,
    price_file: str | None = None,
    kwh_price: float | str | None = None,
    pue: float | str | None = None,
    assume: str | None = None,
) -> Prediction | Predictions:
    """Latencies of a model on GPUs under one load.

    The load is a burst of `batch` requests on an idle server (default 1), `concurrency` users in a closed loop, who
    send the next request as soon as the last is answered, a `request_rate` of Poisson arrivals, or `num_prompts` alone,
    all queued at once: an offline run. Latencies of all but the burst are means over requests.

    Lengths and load may be arrays or columns that broadcast together. Every time is then an array, NaN where the case
    does not fit or the server is overloaded.

    Args:
        model: name, alias or record.
        gpu: name, alias, pool such as ``8xh100`` or ``b200:tp4:fp8``, or record.
        isl: prompt length [tokens].
        osl: answer length [tokens].
        batch: requests of a burst on an idle server, per replica; 1 where no load is given [sequences].
        concurrency: users of the whole deployment, shared evenly by replicas and data-parallel ranks [requests].
        request_rate: Poisson arrivals at the whole deployment [1/s], or a text such as ``100k/h``.
        num_prompts: requests of a run that all users start together, averaged over the run; without another load all
            of them are queued at once; None for the steady state [requests].
        prefix: prompt tokens whose KV is already cached [tokens].
        cache_hit: share of the requests whose prefix is cached, ``60%``; None for all, or as `working_set` says [1].
        cache_tier: where prefixes are cached: ``hbm``, ``host``, ``nvme`` or ``network``; None for ``hbm``.
        cache_bandwidth: bandwidth of the tier to one GPU, ``12GB/s``; None for that of the GPU's link [B/s].
        cache_size: size of the prompt cache of one replica, ``500GB``; in ``hbm`` it is taken from the batch [B].
        working_set: size of all prefixes in use, ``2TB``, or with Zipf's law, ``2TB:zipf0.9`` [B].
        isl_cv: standard deviation of prompt lengths under a load, over their mean; None for equal lengths [1].
        osl_cv: standard deviation of answer lengths under a load, over their mean; None for equal lengths [1].
        lengths: distribution of both, ``lognormal`` (the default) or ``uniform``; or a trace: the path of a CSV with
            columns isl and osl, or a mapping with these, whose means replace isl and osl.
        cold_start: share of the requests of a load that start a cold server, and their extra wait: ``1%:2s``, or both
            numbers, the time in seconds [1, s].
        arrivals: how the requests of a rate come: ``poisson``; by their index of dispersion within some times,
            ``idc:1s=1.4,10s=3.9`` or a mapping of seconds; or a trace: the path of a CSV with a column timestamp,
            replayed at the rate of the case [1].
        router: which replica gets a request: ``random``, ``round-robin``, ``least-busy`` (the fewest in flight), or
            ``prefix`` (the one that keeps its prefix); None for ``random``.
        turns: of a session, of which requests are the turns: each sends what was said before, and more [1].
        think: mean time from an answer to the next turn of its session, ``5s``; None for none [s].
        grow: what a turn adds to the context: ``in:800,out:300``, or a mapping; in place of isl and osl [tokens].
        system: tokens that all sessions begin with, always in the cache; None for none [tokens].
        images: images of a request; their tokens come after the text of `isl` [1].
        image_size: width and height of an image or frame, ``1024x768``; None for 1024x1024 [pixels].
        video_frames: frames of a video in a request, of that size [1].
        audio: length of the audio in a request, ``30s`` [s].
        derate: shares of `bandwidth`, `peak` and `link` that are lost to neighbours, virtualization or clocks:
            ``bandwidth:5%,peak:3%``, or a mapping [1].
        tp: tensor-parallel degree; None for the smallest that holds the load, or, where `num_gpus` and `slo` are given,
            that meets the SLO; in arrays, case by case [1].
        pp: pipeline-parallel degree [1].
        ep: expert-parallel degree [1].
        dp: data-parallel degree of the attention [1].
        eplb: slots for copies of popular experts, on all ranks of a layer, with experts placed by their load; 0 only
            places them, None leaves them in order [1].
        two_batch_overlap: whether each step is two half batches, one of which computes while the other exchanges
            tokens with the experts.
        all_to_all: how tokens reach their experts: ``direct`` (each copy by itself), ``per-node`` (once to each node),
            or ``deepep`` (per-node for prompts), with ``:4`` where the experts of a token are on 4 nodes at most; None
            for direct.
        cp: ranks that split the tokens of each prompt, with all weights of their tp rank [1].
        dcp: ranks of tp that split the KV cache of each sequence [1].
        num_gpus: GPUs of all replicas; None for one replica [1].
        quantization: preset of formats, e.g. ``fp8``.
        weights: number format of the weights.
        kv_cache_dtype: number format of the KV cache.
        compute: dtype at which weights are multiplied.
        routing: ``uniform``, or the skew c of the expert choice [1].
        basis: ``calibrated`` or ``ideal``.
        engine: profile of a serving engine: ``generic``, ``trtllm``, ``vllm``, ``sglang``, ``vllm@0.19`` for a
            version, ``none`` for the kernels alone, or the path of your own profile.
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
            or a text with these, with tokens per step (``2.8 tokens``), or with a published preset [1].
        lora: LoRA adapters that are loaded, and their rank: ``8:16``; of all linear layers, or ``8:16:attention``,
            ``8:16:dense`` (all but routed experts); None for none.
        max_loras: slots for adapters in GPU memory; None for one each [1].
        max_lora_rank: rank of a slot, which kernels compute; None for that of the adapters [1].
        offload: weights that stay in host memory, per GPU: ``40GB``, ``experts``, ``experts:40GB``, or ``tables`` of
            n-grams; None for none [B].
        offload_bandwidth: at which a GPU reads them, ``50GB/s``; None for that of the GPU's link [B/s].
        cpu_bandwidth: of host memory, where the CPU multiplies them in decode, ``80GB/s``; None for the GPU [B/s].
        measured: one measurement of this deployment, which scales the answer: `ttft`, `tpot` [s], and the `isl`,
            `osl`, `prefix` and load it was taken at, where they differ.
        slo: limits on means or percentiles of ttft, tpot and e2el, and on a p99 over its median: a text such as
            ``ttft:300@p95,tpot:25,p99:2x``, bare numbers in ms, or a mapping such as ``{"ttft@p95": 0.3}``,
            bare numbers in seconds [s].
        allow_oversize: predict a plan even if it does not fit.
        specs: folder of your own specifications; default $ROOFLINE_SPECS.
        set: figures of hypothetical hardware, as paths in the GPU's file with values: a text such as
            ``memory.bandwidth=12TB/s,peak.fp8=2PFLOP/s``, or a mapping, numbers in SI units; the GPU is then ``b200*``.
        power_cap: power to which each GPU is limited, ``500W``, or a share of its TDP, ``70%``; None for the TDP [W].
        gpu_price: rent of one GPU, or both ends of its range, such as ``2.5`` or ``1500/month``; None for the catalog's
            [USD/h].
        price_file: path of a CSV of rents, which replace the catalog's: columns gpu, and usd_per_hour or price (a text
            as in `gpu_price`).
        kwh_price: price of energy, shown beside the rent and never added to it; None for none [USD/kWh].
        pue: energy of the data centre over that of the GPUs; None for 1 [1].
        assume: family, such as ``llama``, to read a config.json of an unknown `model_type` as; None to refuse it.

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
    base = deployed_case(
        DeploymentOptions(
            model, gpu, tp, pp, ep, dp, cp, dcp, num_gpus, quantization, weights, kv_cache_dtype, compute, routing,
            basis, engine, network, max_num_batched_tokens, max_num_seqs, gpu_memory_utilization, max_model_len, draft,
            draft_tokens, acceptance, lora, max_loras, max_lora_rank, offload, offload_bandwidth, cpu_bandwidth, derate,
            set, power_cap, gpu_price, price_file, kwh_price, pue, specs, assume, eplb, two_batch_overlap, all_to_all,
            images, image_size, video_frames, audio,
        )
    )  # fmt: skip
    traffic = case.Traffic(isl, osl)
    shaping = lengths, isl_cv, osl_cv, cold_start, arrivals, router, turns, think, grow, system
    if any(value is not None for value in shaping):
        traffic = case.traffic(
            isl, osl, lengths=lengths, isl_cv=isl_cv, osl_cv=osl_cv, cold_start=cold_start, arrivals=arrivals,
            router=router, turns=turns, think=think, grow=grow, system=system,
        )  # fmt: skip
    prompt_cache = case.prompt_cache_of(cache_hit, cache_tier, cache_bandwidth, cache_size, working_set)
    loads = {"concurrency": concurrency, "request_rate": request_rate, "num_prompts": num_prompts}
    of_a_load = {**traffic.of_a_load, "cache": traffic.cache(prompt_cache), **loads}
    workload = case.workload(traffic.isl, traffic.osl, batch, traffic.prefix(prefix), **of_a_load)
    if base.deployment.media is not None:
        from roofline.questions.inputs.media import with_media

        workload = with_media(workload, base.deployment.media)
    deployment = case.deployed(base.deployment, workload.cache)
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
    deployments.check_draft_plan(deployment)
    load.check_longest(deployment, workload, allow_oversize=allow_oversize)
    if deployment.media is not None:
        from roofline.questions.inputs.media import check_media

        check_media(deployment, workload)
    correction = UNCORRECTED if measured is None else deployments.correction(deployment, workload, measured)
    notes = (
        *base.notes,
        *case.warnings(deployment, base.basis, workload, is_open=base.tp is None),
        *base.lost,
        *deployments.draft_warnings(deployment),
        *deployments.spread_notes(deployment),
        *deployments.notes_beside(deployment),
        *case.cache_notes(deployment, workload),
        *_notes_on_media(deployment),
        *deployments.correction_notes(correction),
    )
    prediction = predict_deployment(
        deployment, workload, limits, notes, allow_oversize=allow_oversize, correction=correction
    )
    if never(prediction.fits) and not allow_oversize:
        raise does_not_fit(deployment, workload.batch, workload.isl + workload.osl)
    return load.noted(prediction)


def _notes_on_media(deployment: Deployment) -> Iterable[str]:
    if not deployment.model.encoders:
        return ()
    from roofline.questions.inputs.media import media_notes

    return media_notes(deployment)


def _at_each_plan(deployment: Deployment, workload: Workload, tp: Any, rest: _Rest) -> Prediction:
    """The prediction of an array of cases, each at its own `tp`."""
    from roofline.numbers.arrays import groups_of, taken
    from roofline.serving.mixed_plans import MixedPlans

    groups = groups_of(tp)
    if len(groups) == 1:
        return _at_plan(load.at_tp(deployment, groups[0][0], rest.base.num_gpus), workload, rest)
    parts = []
    for degree, places in groups:
        numbers = {name: taken(number, tp.shape, places) for name, number in workload.numbers.items()}
        part = workload.at(numbers)
        parts.append(_at_plan(load.at_tp(deployment, degree, rest.base.num_gpus), part, rest))
    return MixedPlans(parts, [places for _, places in groups], tp.shape)


class OneGpu(NamedTuple):
    """One of the GPUs that a question is asked about."""

    model: Model
    gpu: Gpu
    name: Any  # as the caller wrote it: name, pool or record
    chosen: GpuChoice
    model_notes: tuple[str, ...]  # on the name of the model
    gpu_notes: tuple[str, ...]
    is_only: bool

    @property
    def notes(self) -> tuple[str, ...]:
        return (*self.model_notes, *self.gpu_notes)


def on_each_gpu(
    model: str | Model,
    gpus: str | Gpu | Iterable[str | Gpu] | None,
    options: Mapping[str, Any],
    answer: Callable[[OneGpu], _Answer],
    refused: Callable[[OneGpu, RooflineError], _Answer | None],
    check: Callable[[GpuChoice], None] | None = None,
) -> Iterator[tuple[str, _Answer]]:
    """Answers by GPU; where one cannot run the case, what `refused` makes of the error, if anything.

    `gpus` are names or records, None for the whole catalog. `check` refuses a choice for all of them; so do an unknown
    name, and bad input on each.
    """
    specs = options.get("specs")
    names = catalog.gpus(specs) if gpus is None else arguments.listed_names("gpus", gpus)
    deployments.check_settings(names, options)
    record, model_notes = deployments.found_model(model, options)
    wrong: list[BadInput] = []
    labels: dict[str, Gpu] = {}
    for name in each(names, "GPUs"):
        chosen = deployments.choice(name, options)
        if check is not None:
            check(chosen)
        kind = chosen.gpu.gpu if isinstance(chosen.gpu, Pool) else chosen.gpu
        odd: BadInput | None = None
        try:
            gpu, notes = deployments.found_gpu(kind, chosen.options)
        except BadInput as error:  # a figure that this GPU cannot have
            gpu, notes = deployments.found_gpu(kind, {**chosen.options, "set": None})
            odd = error
        one = OneGpu(record, gpu, name, chosen, model_notes, notes, is_only=len(names) == 1)
        result: _Answer | None
        try:
            if odd is not None:
                raise odd
            result = answer(one)
        except UnknownName:
            raise
        except RooflineError as error:
            if isinstance(error, BadInput):
                wrong.append(error)
            result = refused(one, error)
        if result is not None:
            label = gpu.name if chosen.pool is None else pool_text(replace(chosen.pool, gpu=gpu.name))
            while labels.setdefault(label, gpu) != gpu:  # another record of this name
                label += "'"
            yield label, result
    if wrong and len(wrong) == len(names):
        raise BadInput(str(wrong[0]))


def at_load(prediction: Prediction, amount: Load) -> Prediction:
    """The same deployment, lengths and limits under another load."""
    workload = replace(prediction.workload, load=amount)
    if workload.arrivals is not None and not amount.is_open:
        raise BadInput("arrivals and router say how the requests of a rate come, not users; ask against a rate")
    again = predict_deployment(
        prediction.deployment,
        workload,
        prediction.slo,
        prediction.said,
        allow_oversize=prediction.allow_oversize,
        correction=prediction.correction,
    )
    return load.noted(again)


def predict_each_gpu(
    model: str | Model, gpu_names: tuple[str, ...], by: str = "ttft", **options: Any
) -> tuple[list[Prediction], dict[str, RooflineError]]:
    """Predictions by their attribute `by`, smallest first, and the errors of the GPUs that cannot run the case.

    With an SLO, those that meet it come first.
    """
    model, notes = deployments.found_model(model, options)
    predictions, refused = [], {}
    deployments.check_settings(gpu_names, options)
    own = {name: deployments.own_settings(name, options) for name in gpu_names}
    for name in gpu_names:
        deployments.choice(name, options)  # a faulty text is an error for all GPUs, not for one
    for name in each(gpu_names, "GPUs"):
        try:
            prediction = predict(model, name, **own[name])
            predictions.append(replace(prediction, said=(*notes, *prediction.said)))
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
@understood
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
@understood
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
def knee(model: Prediction) -> Knees: ...
@overload
def knee(model: Predictions) -> Knees[Array, Words]: ...
@overload
def knee(model: str | Model, gpu: str | Gpu, **options: Unpack[Case]) -> Knees: ...
@overload
def knee(model: str | Model, gpu: str | Gpu, **options: Unpack[Case[Numbers]]) -> Knees[Array, Words]: ...
@understood
def knee(
    model: str | Model | Prediction | Predictions, gpu: str | Gpu | None = None, **options: Unpack[Case[Any]]
) -> Knees | Knees[Array, Words]:
    """The batches, or numbers of users, at which decode stops being cheap.

    Args:
        model: name, alias or record; or a prediction, in place of all arguments.
        gpu: name, alias, pool such as ``8xh100`` or ``b200:tp4:fp8``, or record.
        options: keyword arguments of `predict`.

    Returns:
        The four knees: of the batch of a burst [sequences], or of the users of the deployment [requests]; with the
        rows of a prediction.

    Raises:
        BadInput: a request rate, which sets the batch itself.

    >>> import roofline as rl
    >>> rl.knee("llama-3.1-8b", "h100-sxm", basis="ideal")
    <Knees ridge 326, half 61.1, memory 406; smallest: half>
    >>> rl.knee(rl.predict("llama-3.1-8b", "h100-sxm", basis="ideal")).to_rows(["knee_bound"])
    [{'knee_bound': 'half'}]
    """
    if lasting(options).is_open and all(KIND_OF[name].is_open for name in KIND_OF.keys() & set(options)):
        raise BadInput(f"knee takes no request_rate: {QUESTIONS['knee'].refused['request_rate']}")
    prediction = predicted("knee", model, gpu, options)
    if isinstance(model, Prediction) and prediction.workload.load.is_open:
        raise BadInput(f"knee takes no request_rate: {QUESTIONS['knee'].refused['request_rate']}")
    knees = _KneesInRows(*prediction.knees)
    knees.prediction = prediction
    return knees


class _KneesInRows(Knees[Any, Any]):
    """The knees of a prediction, with its rows."""

    prediction: Prediction[Any, Any, Any] | None = None  # None of a changed copy

    def __eq__(self, other: object) -> bool:
        return Knees(*self) == (Knees(*other) if isinstance(other, _KneesInRows) else other)

    __hash__ = Knees.__hash__

    def __ne__(self, other: object) -> bool:
        return not self == other

    def to_dict(self, keys: Iterable[str] | None = None) -> Any:
        return super().to_dict(keys) if self.prediction is None else self.prediction.to_dict(keys)

    def to_rows(self, keys: Iterable[str] | None = None) -> Any:
        return super().to_rows(keys) if self.prediction is None else self.prediction.to_rows(keys)


def given_gpu(question: str, gpu: str | Gpu | None) -> str | Gpu:
    """The GPU beside a model; refused where there is none."""
    if gpu is None:
        raise BadInput(f"{question} needs a model and a GPU, or a prediction alone: rl.{question}(rl.predict(...))")
    return gpu


def predicted(
    question: str,
    model: str | Model | Prediction | Predictions,
    gpu: str | Gpu | None,
    options: Mapping[str, Any],
) -> Prediction[Any, Any, Any]:
    """The prediction that a question is about: the one given, else that of a model on a GPU."""
    if not isinstance(model, Prediction):
        return predict(model, given_gpu(question, gpu), **options)
    extra = [*([] if gpu is None else ["gpu"]), *options]
    if extra:
        raise BadInput(
            f"{question} takes its case from the prediction; leave out {', '.join(extra)}, or give it to predict"
        )
    return model


def asked_case(
    question: str,
    model: Any,
    gpu: Any,
    options: Mapping[str, Any],
    varied: Iterable[str] = (),
    *,
    keeps_plan: bool = True,
) -> Asked:
    """The case that a question is about: the one stated, or that of a prediction given in place of it, at its plan.

    `varied`: options of a prediction's case that the question varies, chooses or has no use for.
    """
    if not isinstance(model, Prediction):
        return Asked(model, gpu, dict(options))
    prediction = predicted(question, model, gpu, options)
    arguments.one_case(question, prediction.ttft)
    asked = _asked(prediction)
    if asked is None:
        raise BadInput(
            f"{question} takes a prediction as rl.predict gave it, which keeps the case as stated; this one is of "
            "another question: give its model, GPU and options"
        )
    plan = {"tp": prediction.deployment.plan.tp} if keeps_plan else {}
    chosen = deployments.choice(asked.gpu, {**asked.options, **plan})
    record = chosen.gpu.gpu if isinstance(chosen.gpu, Pool) else chosen.gpu
    return Asked(asked.model, record, {name: value for name, value in chosen.options.items() if name not in varied})


def _asked(prediction: Prediction) -> Asked | None:
    """What `predict` was asked; None of a prediction that it did not give as it is."""
    kept = vars(prediction).get(_ASKED)
    return None if kept is None else Asked(*kept)


def states_load(prediction: Prediction) -> bool:
    """Whether the load of a prediction is one that was asked for, not a batch of 1 in place of one."""
    asked = _asked(prediction)
    return asked is None or any(asked.options.get(name) is not None for name in LOADS)


# Flat rows of answers on several GPUs, and of GPUs that cannot run the case.


def answer_row(
    keys: Iterable[str] | None,
    own_keys: Iterable[str],
    prediction: Prediction | None,
    asked: Mapping[str, Any],
    values: Mapping[str, Any],
) -> dict[str, Any]:
    """Columns `keys` of a prediction, or of `asked` without one, and the question's own `values`; others are None."""
    known = tuple(dict.fromkeys((*ROW_KEYS, *own_keys)))
    columns = known if keys is None else listed_keys(keys)
    check_keys(columns, known)
    columns_of_prediction = tuple(key for key in columns if key in ROW_KEYS)
    values = {**(asked if prediction is None else row(prediction, columns_of_prediction)), **values}
    return {key: values.get(key) for key in columns}


def refused_row(model: str | Model, gpu: str | Gpu, error: RooflineError, **options: Any) -> dict[str, Any]:
    """Row of the JSON contract with nulls and the reason; `fits` is false where memory is the reason, else null."""
    record, _ = deployments.found_model(model, options)
    options = arguments.plain_options(deployments.choice(gpu, {"isl": DEFAULTS["isl"], **options}).options)
    values = {name: options.get(name, DEFAULTS.get(name)) for name in (*DEGREES, *DEFAULTS, *LOADS, RUN)}
    kind = lasting(values)
    if not kind.is_burst:
        values["batch"] = options.get("batch")
    values["prefix"] = arguments.tokens_of_prefix(values["prefix"], values["isl"])
    chosen = deployments.gpu_of(gpu, options.get("specs"))
    return {
        **dict.fromkeys(ROW_KEYS),
        **{name: value for name, value in values.items() if name in ROW_KEYS},
        **{name: options.get(name) for name in case.TRAFFIC[:2]},
        "load": kind.name,
        "model": record.short_name,
        "model_id": record.name,
        "gpu": chosen.name,
        "gpu_status": chosen.status,
        "engine": options.get("engine", DEFAULT_ENGINE),
        "fits": False if isinstance(error, DoesNotFit) else True if isinstance(error, Overloaded) else None,
        **_refused_verdict(error, options.get("slo"), values["osl"]),
        "warnings": [f"{type(error).__name__}: {error}"],
    }


def _refused_verdict(error: RooflineError, slo: Any, osl: Any) -> dict[str, Any]:
    """The verdict on a case that cannot be run or is not answered; none on what is not a case."""
    if not slo or not isinstance(error, (DoesNotFit, Overloaded)):
        return {}
    unknown = 3 * (float("nan"),)
    limited = [Limited(key, *unknown, applies=not key.startswith("tpot") or osl > 1) for key in slo_limits(slo) or ()]
    judged = verdict(limited, without_times=[(True, error.short)])
    return {
        "slo_met": None if judged.binding is None else False,
        "slo_verdict": judged.word,
        "slo_reason": judged.reason,
        "slo_binding": judged.binding,
    }


# The order of ranked answers under an SLO: one rule for every question about several GPUs, plans or levers.


def meets(word: Any) -> bool:
    """Whether a verdict says that the central estimate meets the SLO; False where it is not known, and without an SLO.

    >>> [meets(word) for word in ("pass", "pass?", "fail?", "fail", None)]
    [True, True, False, False, False]
    """
    return word in (PASS, LIKELY)


def meeting_first(answers: Iterable[_Answer], word_of: Callable[[_Answer], Any]) -> list[_Answer]:
    """Ranked answers, those that meet the SLO before all others; otherwise in their order, as without an SLO.

    >>> meeting_first(["fail", "pass?", "fail?", "pass"], str)
    ['pass?', 'pass', 'fail', 'fail?']
    """
    return sorted(answers, key=lambda answer: not meets(word_of(answer)))


# The kernels of a prediction: flat rows, and the roofline equation with the numbers of each put in.


class _Run(NamedTuple):
    """A kernel in a pass of a prediction."""

    prediction: Prediction
    name: str  # of the pass
    passed: Pass
    kernel: Kernel


#: Keys of a row of a kernel.
KERNEL_KEYS: Keys[_Run] = {
    **taken(
        KEYS,
        model=lambda r: r.prediction.deployment.model.short_name,
        gpu=lambda r: r.prediction.deployment.gpu.name,
    ),
    **taken(SHARED, **{"pass": lambda r: r.name}, kernel=lambda r: r.kernel.name, kind=lambda r: r.kernel.kind.name),
    "dtype": Key.text("Dtype at which it multiplies.", lambda r: r.kernel.dtype, is_open=False),
    "count": Key.number("1", "How often it runs in a pass.", lambda r: r.kernel.count, is_open=False),
    "flop": Key.number("FLOP", "Arithmetic of one run.", lambda r: r.kernel.work.flop, is_open=False),
    "nbytes": Key.number("B", "Memory traffic of one run.", lambda r: r.kernel.work.nbytes, is_open=False),
    "link_bytes": Key.number(
        "B", "Bytes sent over the link in one run.", lambda r: r.kernel.work.link_bytes, is_open=False
    ),
    "time_us": Key.number("us", "Time of one run.", lambda r: r.kernel.terms.total / MICRO, is_open=False),
    **taken(
        SHARED,
        total_us=lambda r: r.kernel.time / MICRO,
        share=lambda r: r.kernel.time / r.passed.time,
        bound=lambda r: r.kernel.terms.bound,
    ),
    "equation": Key.text("Its time as an equation with numbers.", lambda r: equation(r.kernel), is_open=False),
}


def kernel_rows(prediction: Prediction) -> list[dict[str, Any]]:
    """Kernels of both passes as flat rows, in SI units and microseconds."""
    return [
        cells(KERNEL_KEYS, _Run(prediction, name, passed, kernel))
        for name, passed in prediction_passes(prediction)
        for kernel in passed.kernels
    ]


def computed_tokens(prediction: Prediction) -> tuple[float, ...]:
    """Prompt tokens that are computed; with a prompt cache those of a hit, then those of a miss [tokens]."""
    workload = prediction.workload
    kinds = prompt_kinds(prediction.deployment, workload.isl, workload.prefix, workload.cache)
    return tuple(float(kind.computed) for kind in kinds)


def prediction_passes(prediction: Prediction) -> tuple[tuple[str, Pass], ...]:
    """The prefill and, where there is more than one output token, the mean decode step, by name."""
    passes = (("prefill", prediction.prefill), ("decode", prediction.decode))
    return passes if prediction.tpot is not None else passes[:1]


def equation(kernel: Kernel) -> str:
    """Text such as ``3.33 us + || 1e+11/(0.8 x 9.89e+14) , 5e+07/(0.86 x 3.35e+12) ||_3 = 130 us``."""
    text = _link_terms(kernel, kernel.roof) if isinstance(kernel.roof, LinkRoof) else _terms(kernel, kernel.roof)
    time = to_text(kernel.terms.total, "s")
    if kernel.kind.is_exchange and isinstance(kernel.roof, LinkRoof):
        alone = to_text(collective_time(kernel.work, kernel.roof).total, "s")
        time = time if time == alone else f"{alone}, of which {time} not hidden"
    return f"{text} = {time}" + (f", {kernel.count} times" if kernel.count != 1 else "")


def _terms(kernel: Kernel, roof: Roof) -> str:
    work, used = kernel.work, roof.efficiency
    if kernel.kind is HOST:
        return f"time of {the(kernel.kind.label)}"
    if used is IDEAL:
        return f"max({_text(work.flop)}/{_text(roof.peak)}, {_text(work.nbytes)}/{_text(roof.bandwidth)})"
    compute = f"{_text(work.flop)}/({_text(used.eta_c)} x {_text(roof.peak)})"
    if used.kappa:
        compute += f" + {to_text(used.kappa, 's')} x {_text(work.depth)}"
    memory = f"{_text(work.overlapped_bytes)}/({_text(used.eta_m)} x {_text(roof.bandwidth)})"
    parts = [to_text(used.t0, "s"), f"|| {compute} , {memory} ||_{used.p:g}"]
    if work.exponentials:
        parts.append(f"{_text(work.exponentials)}/({_text(used.eta_x)} x {_text(roof.exp_rate)})")
    if work.serial_bytes:
        parts.append(f"{_text(work.serial_bytes)}/({_text(used.eta_s)} x {_text(roof.bandwidth)})")
    if used.kappa_s and work.serial_depth:
        parts.append(f"{to_text(used.kappa_s, 's')} x {_text(work.serial_depth)}")
    if used.eps and work.items:
        parts.append(f"{to_text(used.eps, 's')} x {_text(work.items)}")
    return " + ".join(parts)


def _link_terms(kernel: Kernel, roof: LinkRoof) -> str:
    used, sent = roof.efficiency, kernel.work.link_bytes
    if used is IDEAL_LINK:
        return f"{_text(roof.least * sent)}/{_text(roof.bandwidth)}"
    parts = [to_text(used.a0, "s")]
    if used.a1:
        parts.append(f"{to_text(used.a1, 's')} x {roof.ranks - 1:g}")
    if used.a2:
        parts.append(f"{to_text(used.a2, 's')} x {roof.doublings:g}")
    if used.q:
        parts.append(f"sqrt({to_text(used.q, 's')} x {_text(sent)}/{_text(roof.bandwidth)})")
    link = f"{_text(sent)}/({_text(used.eta)} x {_text(roof.bandwidth)})"
    if used.eta_switch is not None:
        link = f"min({link}, {_text(roof.least * sent)}/({_text(used.eta_switch)} x {_text(roof.bandwidth)}))"
    parts.append(link)
    beyond = kernel.terms.latency - collective_time(kernel.work, roof).latency
    if beyond > 0.0:
        parts.append(f"{to_text(beyond, 's')} of the engine")
    return " + ".join(parts)


def _text(value: float) -> str:
    return f"{value:.3g}"


# What one measurement of a deployment says about every prediction for it.


@understood
def calibrate_once(
    model: str | Model, gpu: str | Gpu, measured: str | Mapping[str, float | str], **options: Unpack[Unmeasured]
) -> Correction:
    """Correction factors from one measurement of a deployment, which `predict(..., measured=...)` applies.

    Args:
        model: name, alias or record.
        gpu: name, alias or record.
        measured: `ttft`, `tpot` [s] or both, and the lengths and load of the measurement.
        options: keyword arguments of `predict`.

    Returns:
        Measured over predicted TTFT and TPOT [1], and the uncertainty that remains.

    Raises:
        BadInput: nothing measured, or faster than the hardware limit.
        RooflineError: as `predict` raises.

    >>> import roofline as rl
    >>> rl.calibrate_once("llama-3.1-8b", "h100-sxm", {"ttft": 2.0 * rl.ttft("llama-3.1-8b", "h100-sxm")})
    <Correction TTFT x 2>
    """
    prediction = predict(model, gpu, **options)
    return deployments.correction(prediction.deployment, prediction.workload, measured)
