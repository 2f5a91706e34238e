"""A deployment as callers write it: pools of GPUs, drafts, corrections; built once, and cached for later cases."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from contextlib import suppress
from typing import Any

from roofline.catalog import find
from roofline.numbers.operations import Real
from roofline.numbers.quantity import BILLION, rounded, to_text
from roofline.physics.equation import basis_of
from roofline.physics.passes import eagle_head, mtp_module
from roofline.physics.plan import PLAIN_SPREAD, Deployment, Draft, Plan
from roofline.questions.inputs import arguments, case
from roofline.questions.inputs.arguments import COUNTS, PLAIN, name_or_record, plain_value, scalar, several
from roofline.questions.inputs.options import ALL, SIDE_WEIGHTS
from roofline.serving.knee import check_plan, plan_fault
from roofline.serving.latency import SIGMA_TPOT, SIGMA_TTFT, Correction, Workload, request_passes, time_per_token
from roofline.serving.prediction import Prediction
from roofline.serving.quantization import resolved_quantization
from roofline.specs.engine import METHODS, MOST_DRAFTS, Acceptance
from roofline.specs.gpu import Gpu
from roofline.specs.model import Model
from roofline.specs.what_if import Setting, changed, own_of, settings_of
from roofline.specs.written import (
    DEGREES,
    EXAMPLES_OF_ACCEPTANCE,
    Pool,
    acceptance_of_rates,
    acceptance_of_text,
    bare_count,
    is_pool,
    pool_of_text,
    pool_text,
)
from roofline.support.errors import BadInput, UnknownName, shown
from roofline.support.records import NamedTuple, replace

# Pools of GPUs in text, such as ``8xh100``: the GPU, and the options that the text states.

#: Options of `predict` that a pool may state.
POOLED = (*DEGREES, "quantization")
#: Degrees of a plan, in the order in which they are shown.
PLAN_DEGREES = DEGREES

_OPEN = {"pp": 1, "ep": 1, "dp": 1, "cp": 1, "dcp": 1}  # defaults of `predict`, which a pool may replace


class GpuChoice(NamedTuple):
    """A GPU, and the options of a question including those its pool states."""

    gpu: Any  # name or record; a pool with replicas of a plan that is still open
    options: dict[str, Any]
    pool: Pool | None = None  # None for a GPU alone

    @property
    def text(self) -> str:
        """The pool or GPU, in the form that a caller may write."""
        if self.pool is not None:
            return pool_text(self.pool)
        return self.gpu.name if isinstance(self.gpu, Gpu) else str(self.gpu)


def pool_of(gpu: Any, specs: str | None = None) -> Pool | None:
    """The pool that a caller names; None for a GPU alone, such as any exact name in the catalog."""
    if isinstance(gpu, (Pool, Gpu)):
        return gpu if isinstance(gpu, Pool) else None
    text = scalar(gpu)
    bare = bare_count(text) if isinstance(text, str) else None
    if not isinstance(text, str) or not (bare or is_pool(text)) or find.is_gpu_name(text, specs):
        return None
    if bare is not None and _is_gpu(bare[0], specs):
        return pool_of_text(bare[1])
    return pool_of_text(text) if is_pool(text) else None


def _is_gpu(name: str, specs: str | None) -> bool:
    with suppress(UnknownName):
        return find.find_gpu(name, specs) is not None
    return False


def gpu_of(gpu: Any, specs: str | None = None) -> Gpu:
    """The record of a GPU that is named alone or in a pool."""
    if isinstance(gpu, Gpu):
        return gpu
    pool = pool_of(gpu, specs)
    return find.load_gpu(name_or_record("gpu", gpu) if pool is None else pool.gpu, specs)


def found_model(model: str | Model, options: Mapping[str, Any]) -> tuple[Model, tuple[str, ...]]:
    """The record of a model, and a note on its name if it needs one."""
    if isinstance(model, Model):
        return model, ()
    if isinstance(model, Prediction):
        raise BadInput(
            "a model and a GPU are needed here, not a prediction; give its deployment.model and deployment.gpu"
        )
    record, note = find.find_model(model, options.get("specs"), options.get("assume"))
    return record, () if note is None else (note,)


def found_gpu(gpu: Any, options: Mapping[str, Any]) -> tuple[Gpu, tuple[str, ...]]:
    """The record of a GPU that is named alone, with what the options set, and a note on its name if it needs one."""
    record, note = (gpu, None) if isinstance(gpu, Gpu) else find.find_gpu(gpu, options.get("specs"))
    return with_settings(record, options), () if note is None else (note,)


def is_open_pool(chosen: GpuChoice) -> bool:
    """Whether it is so many replicas of a plan that is still open."""
    return isinstance(chosen.gpu, Pool)


def with_settings(gpu: Gpu, options: Mapping[str, Any]) -> Gpu:
    """A GPU with the figures that `set` states, all of which must be its own."""
    return gpu if options.get("set") is None else changed(gpu, _settings(options))


def _settings(options: Mapping[str, Any]) -> tuple[Setting, ...]:
    """What the options set, under the names of the catalog."""
    value = options.get("set")
    stated = settings_of(value if isinstance(value, Mapping) else scalar(value))
    return find.named_settings(stated, options.get("specs"))


def check_settings(gpus: Iterable[Any], options: Mapping[str, Any]) -> None:
    """Refuse a `set` that names a GPU which is none of those asked about."""
    settings = [] if options.get("set") is None else [each for each in _settings(options) if each.gpu]
    if not settings:
        return
    asked = [gpu_of(gpu, options.get("specs")) for gpu in gpus]
    for setting in settings:
        if not any(own_of((setting,), gpu) for gpu in asked):
            raise BadInput(f"set names {setting.gpu}, which is not among the GPUs asked about")


def own_settings(gpu: Any, options: Mapping[str, Any]) -> Mapping[str, Any]:
    """Options of one GPU of several: `set` without what names others."""
    if options.get("set") is None:
        return options
    settings = _settings(options)
    if not any(setting.gpu for setting in settings):
        return options
    own = own_of(settings, gpu_of(gpu, options.get("specs")))
    return {**options, "set": {setting.path: setting.value for setting in own} or None}


def choice(gpu: Any, options: Mapping[str, Any], question: str | None = None) -> GpuChoice:
    """A GPU, and options merged with its pool; a `question` that shows one replica refuses a number of GPUs."""
    options = own_settings(gpu, options)
    pool = pool_of(gpu, options.get("specs"))
    if pool is None:
        return GpuChoice(name_or_record("gpu", gpu), dict(options))
    if question is not None:
        _refuse_count(pool, question)
    merged = dict(options)
    for name, value in pool.options.items():
        option = options.get(name)
        if option not in (None, _OPEN.get(name), value):
            raise BadInput(
                f"{name} is stated twice: {value} in {pool_text(pool)!r}, and {name} = {shown(option)}; leave one out"
            )
        merged[name] = value
    if pool.replicas is None:
        return GpuChoice(pool.gpu, merged, pool)
    count = merged.get("num_gpus")
    if merged.get("tp") is None:
        if count is not None:
            raise BadInput(
                f"num_gpus = {shown(count)} and {pool.replicas} replicas in {pool_text(pool)!r} leave the plan open; "
                f"state its tp, as in {pool.gpu}:tp4x{pool.replicas}, or leave one out"
            )
        return GpuChoice(Pool(pool.gpu, replicas=pool.replicas), merged, pool)
    return GpuChoice(pool.gpu, {**merged, "num_gpus": fixed_count(pool, merged)}, pool)


class Opened(NamedTuple):
    """Deployment options of a pool merged with those given separately."""

    gpu: str
    tp: int | None
    pp: int
    ep: int
    dp: int
    cp: int
    dcp: int
    num_gpus: int | None
    quantization: str | None
    copies: int | None  # replicas, where the plan is still open


def opened(pool: Pool, **options: Any) -> Opened:
    chosen = choice(pool, options)
    rest = {name: chosen.options[name] for name in (*DEGREES, "num_gpus", "quantization")}
    if isinstance(chosen.gpu, Pool):
        return Opened(chosen.gpu.gpu, **rest, copies=chosen.gpu.replicas)
    return Opened(pool.gpu, **rest, copies=None)


def fixed_count(pool: Pool, options: Mapping[str, Any]) -> int:
    """GPUs of all replicas of a pool whose plan is known."""
    per_replica = 1
    for name in ("tp", "pp", "dp", "cp"):
        degree = scalar(options.get(name, 1))
        if type(degree) is not int:
            raise BadInput(f"{name} = {shown(degree)} must be a single whole number beside {pool_text(pool)!r}")
        per_replica *= degree
    count, num_gpus = (pool.replicas or 1) * per_replica, scalar(options.get("num_gpus"))
    if num_gpus not in (None, count):
        raise BadInput(
            f"num_gpus is stated twice: {pool.replicas} replicas of {per_replica} GPUs in {pool_text(pool)!r}, and "
            f"num_gpus = {shown(num_gpus)}; leave one out"
        )
    return count


def choice_of_formats(gpu: Any, options: Mapping[str, Any], question: str) -> GpuChoice:
    """As `choice`, for a question that varies the number formats."""
    chosen = choice(gpu, options)
    quantization = None if chosen.pool is None else chosen.pool.quantization
    if quantization is not None:
        raise BadInput(
            f"{question} goes through the number formats itself: leave {quantization} out of {chosen.text!r}"
        )
    return chosen


def _refuse_count(pool: Pool, question: str) -> None:
    """Refuse a number of GPUs or replicas in a pool."""
    counted = f"{pool.num_gpus}x" if pool.num_gpus is not None else f"x{pool.replicas}" if pool.replicas else None
    if counted is not None:
        options = {name: value for name, value in pool.options.items() if name in POOLED}
        plain = pool_text(Pool(pool.gpu, **options))
        raise BadInput(f"{question}: leave {counted} out of {pool_text(pool)!r} and write {plain}")


# Speculative decoding options: the draft, its number of tokens, and their acceptance.

_JOINED = {"mtp": 2, "eagle": 3}  # hidden states and embeddings that a draft module concatenates
_ODD_VOCABULARY = 0.02  # relative difference beyond which the tokenizers must differ


def drafted(
    deployment: Deployment, draft: Any, draft_tokens: Any, acceptance: Any, specs: str | None = None
) -> Deployment:
    """The deployment with its draft; unchanged without one."""
    record = draft_of(deployment, draft, draft_tokens, acceptance, specs)
    return deployment if record is None else replace(deployment, draft=record)


def check_draft_plan(deployment: Deployment) -> None:
    """Refuse a plan that the draft model cannot run with."""
    drafting = deployment.drafting
    if drafting is not None:
        fault = plan_fault(drafting.model, drafting.plan)
        if fault is not None:
            raise BadInput(f"draft {drafting.model.short_name}: {fault}")


def draft_of(
    deployment: Deployment, draft: Any, draft_tokens: Any, acceptance: Any, specs: str | None = None
) -> Draft | None:
    """The draft; None without one. By default as many tokens as acceptances or draft modules."""
    draft = draft if isinstance(draft, Model) else scalar(draft)
    if draft is None:
        named = {"draft_tokens": draft_tokens, "acceptance": acceptance}
        stray = [name for name, value in named.items() if value is not None]
        if stray:
            raise BadInput(f"{stray[0]} needs a draft; give draft = mtp, eagle, ngram, or the name of a smaller model")
        return None
    model, method, proposed = deployment.model, "model", draft
    if isinstance(draft, str):
        method = draft.strip().lower()
        if method not in METHODS:
            proposed, method = _draft_model(draft, specs), "model"
        elif method == "mtp":
            proposed = mtp_module(model)
        else:
            proposed = eagle_head(model) if method == "eagle" else None
    elif not isinstance(draft, Model):
        raise BadInput(f"draft = {shown(draft)} must be mtp, eagle, ngram, or the name of a smaller model")
    count = _count(draft_tokens)
    rates = _acceptance(acceptance, count, model.mtp_layers if method == "mtp" else None)
    if proposed is None:
        return Draft(method, rates)
    formats = deployment.quantization
    if method == "model":
        formats = resolved_quantization(proposed, deployment.gpu)
    return Draft(method, rates, proposed, formats, _JOINED.get(method, 0))


def draft_warnings(deployment: Deployment) -> list[str]:
    draft, model = deployment.draft, deployment.model
    if draft is None:
        return []
    source = draft.acceptance.source or "as given"
    tokens = f"{draft.acceptance.tokens:.3g} tokens per step of {draft.tokens} proposed ({source})"
    notes = [f"{tokens}; it varies with the text"]
    if draft.method == "eagle":
        notes.append("EAGLE head: one attention layer like the model's with a dense network, an estimate")
    smaller = draft.model
    if draft.method == "model" and smaller is not None and abs(smaller.vocab / model.vocab - 1.0) > _ODD_VOCABULARY:
        notes.append(
            f"{smaller.short_name} and {model.short_name} have vocabularies of {smaller.vocab:,} and {model.vocab:,}: "
            "engines want one tokenizer for both"
        )
    return notes


def notes_beside(deployment: Deployment) -> tuple[str, ...]:
    """Notes on adapters and on weights in host memory."""
    if deployment.adapters is None and deployment.offload is None:
        return ()
    from roofline.questions.inputs.side_weights import side_weight_notes

    return tuple(side_weight_notes(deployment))


def _draft_model(name: str, specs: str | None) -> Model:
    try:
        model: Model = find.find_model(name, specs)[0]
    except UnknownName as error:
        raise UnknownName(f"draft = {shown(name)} is neither {', '.join(METHODS)} nor a model: {error}") from None
    return model


def _count(value: Any) -> int | None:
    count = scalar(value)
    if isinstance(count, str) and count.strip().isdecimal():
        count = int(count)
    if count is None:
        return None
    if type(count) is float and count.is_integer():
        count = int(count)
    if type(count) is not int or not 1 <= count <= MOST_DRAFTS:
        raise BadInput(f"draft_tokens = {shown(value)} must be a whole number between 1 and {MOST_DRAFTS}")
    return count


def _acceptance(value: Any, count: int | None, modules: int | None) -> Acceptance:
    """Acceptance with a rate for each draft token."""
    if isinstance(value, Acceptance):
        return value if count is None else value.of(count)
    if value is None:
        raise BadInput(f"a draft needs an acceptance, which depends on your text; give {EXAMPLES_OF_ACCEPTANCE}")
    text = scalar(value)
    if isinstance(text, str):
        return acceptance_of_text(text, _single_rate_count(count, modules) if is_single_rate(text) else count)
    rates = several("acceptance", value)
    for rate in rates:
        if type(rate) not in (int, float):
            raise BadInput(
                f"acceptance = {shown(rate)} must be a number between 0 and 1; or give {EXAMPLES_OF_ACCEPTANCE}"
            )
    tokens = _single_rate_count(count, modules) if len(rates) == 1 else count
    return acceptance_of_rates(tuple(map(float, rates)), tokens)


def is_single_rate(text: str) -> bool:
    """Whether an acceptance in text is one rate: not several, no preset, no tokens per step."""
    return "," not in text and not any(letter.isalpha() for letter in text)


def _single_rate_count(count: int | None, modules: int | None) -> int:
    """Draft tokens that share a single rate."""
    proposals = count or modules
    if not proposals:
        raise BadInput("one acceptance needs draft_tokens, the tokens proposed before each step; or give one for each")
    return proposals


def spread_notes(deployment: Deployment) -> tuple[str, ...]:
    """Notes on experts in balance and on steps of two batches; a plan that they do not go with is refused."""
    if deployment.spread is PLAIN_SPREAD:
        return ()
    from roofline.questions.inputs.spread import notes

    return tuple(notes(deployment))


# A model on a GPU with its plan, formats and engine: built once, and cached for later cases.

_MOST_DEPLOYMENTS = 256  # cached deployments


class DeploymentOptions(NamedTuple):
    """Options of `predict` that describe the deployment."""

    model: Any
    gpu: Any
    tp: Any
    pp: Any
    ep: Any
    dp: Any
    cp: Any
    dcp: Any
    num_gpus: Any
    quantization: Any
    weights: Any
    kv_cache_dtype: Any
    compute: Any
    routing: Any
    basis: Any
    engine: Any
    network: Any
    max_num_batched_tokens: Any
    max_num_seqs: Any
    gpu_memory_utilization: Any
    max_model_len: Any
    draft: Any
    draft_tokens: Any
    acceptance: Any
    lora: Any
    max_loras: Any
    max_lora_rank: Any
    offload: Any
    offload_bandwidth: Any
    cpu_bandwidth: Any
    derate: Any
    set: Any
    power_cap: Any
    gpu_price: Any
    price_file: Any
    kwh_price: Any
    pue: Any
    specs: Any
    assume: Any
    eplb: Any = None
    two_batch_overlap: Any = False
    all_to_all: Any = None
    images: Any = None
    image_size: Any = None
    video_frames: Any = None
    audio: Any = None


_OF_MEDIA = 4  # the last options
_DEGREES = (*DEGREES, "num_gpus")
_SETTINGS = ("max_num_batched_tokens", "max_num_seqs", "gpu_memory_utilization", "max_model_len")
_WORDS = ("quantization", "weights", "kv_cache_dtype", "compute", "routing", "basis", "engine", "network", *_SETTINGS)


class Deployed(NamedTuple):
    """A model on a GPU, at the given tp or at 1."""

    deployment: Deployment
    tp: int | None
    num_gpus: int | None
    copies: int | None  # replicas, where the plan is still open
    basis: str  # as requested
    notes: tuple[str, ...]  # on names
    lost: tuple[str, ...]  # notes on derated rates


# Values keep alive the records whose ids are in the keys.
_KNOWN: dict[tuple[Any, ...], tuple[DeploymentOptions, Deployed]] = {}


def deployed_case(options: DeploymentOptions) -> Deployed:
    """One replica; the same object for the same names and options, so that cases share its programs."""
    if not _is_of_catalog(options):
        return _deployed(options)
    named = options
    if type(options.model) is not str or type(options.gpu) is not str:
        named = options._replace(model=_identity(options.model), gpu=_identity(options.gpu))
    key = named, *map(type, options)  # True equals 1.0, and is refused
    try:
        known = _KNOWN.get(key)
    except (TypeError, ValueError):  # not hashable
        return _deployed(options)
    if known is None:
        known = options, _deployed(options)
        if len(_KNOWN) >= _MOST_DEPLOYMENTS:
            _KNOWN.clear()
        _KNOWN[key] = known
    return known[1]


def _identity(named: Any) -> Any:
    """A name as it is; a record by its identity."""
    return named if type(named) is str else (type(named), id(named))


def _is_of_catalog(options: DeploymentOptions) -> bool:
    """Whether nothing is read from user files, which may change between calls."""
    for name in (options.model, options.gpu, options.engine):
        if isinstance(name, (Model, Gpu)):
            continue
        if type(name) is not str or name.endswith(find.FILES) or ("/" in name and arguments.is_file(name)):
            return False
    if any(value is not None for value in (options.draft, options.specs, options.assume, options.price_file)):
        return False
    if os.environ.get("ROOFLINE_SPECS"):
        return False
    return COUNTS.issuperset(type(getattr(options, name)) for name in _DEGREES)


def _plain(options: DeploymentOptions) -> DeploymentOptions:
    """Options with scalars and texts as plain values."""
    degrees = {name: getattr(options, name) for name in _DEGREES}
    words = {name: getattr(options, name) for name in _WORDS}
    if not COUNTS.issuperset(map(type, degrees.values())):
        degrees = dict(zip(degrees, arguments.plain_counts(**degrees), strict=True))
    if not PLAIN.issuperset(map(type, words.values())):
        words = dict(zip(words, arguments.scalars(**words), strict=True))
    specs = None if options.specs is None else arguments.folder(options.specs)
    return options._replace(**degrees, **words, specs=specs)


def _deployed(options: DeploymentOptions) -> Deployed:
    asked = _plain(options)
    specs, copies = asked.specs, None
    model, model_notes = found_model(asked.model, {"specs": specs, "assume": asked.assume})
    pool = None if isinstance(asked.gpu, Gpu) else pool_of(asked.gpu, specs)
    if pool is not None:
        stated = opened(pool, **{name: getattr(asked, name) for name in (*_DEGREES, "quantization")})
        copies = stated.copies
        asked = asked._replace(**{name: value for name, value in stated._asdict().items() if name != "copies"})
    if asked.ep == ALL:
        tp = _tp_of_all(asked) if asked.tp is None and copies is None else asked.tp
        if tp is None:
            raise BadInput(f"ep = {ALL} puts experts on every tp x dp x cp rank; state the tp, or the number of GPUs")
        asked = asked._replace(tp=tp, ep=tp * asked.dp * asked.cp)
    gpu, gpu_notes = found_gpu(asked.gpu, {"specs": specs, "set": asked.set})
    settings = {name: getattr(asked, name) for name in _SETTINGS}
    profile = case.engine(asked.engine, asked.network, specs, gpu, **settings)
    gpu = case.priced(gpu, asked.gpu_price, asked.price_file, specs)
    if not asked.power_cap is asked.pue is asked.kwh_price is None:
        from roofline.questions.inputs.electricity import powered

        gpu = powered(gpu, asked.basis, asked.power_cap, asked.pue, asked.kwh_price)
    gpu, lost = case.derated(gpu, case.losses_of(asked.derate))
    chosen = resolved_quantization(model, gpu, asked.quantization, asked.weights, asked.kv_cache_dtype, asked.compute)
    plan = Plan(1 if asked.tp is None else asked.tp, asked.pp, asked.ep, asked.dp, asked.cp, asked.dcp)
    skew = case.routing_skew(asked.routing)
    gpu = find.run_by(gpu, profile)
    deployment = Deployment(model, gpu, plan, chosen, basis_of(gpu, asked.basis), skew, engine=profile)
    if asked.eplb is not None or asked.two_batch_overlap is not False or asked.all_to_all is not None:
        from roofline.questions.inputs.spread import spread_of

        spread = spread_of(model, asked.eplb, asked.two_batch_overlap, asked.all_to_all)
        deployment = replace(deployment, spread=spread)
    if any(value is not None for value in (asked.draft, asked.draft_tokens, asked.acceptance)):
        deployment = drafted(deployment, asked.draft, asked.draft_tokens, asked.acceptance, specs)
    beside = {name: value for name in SIDE_WEIGHTS if (value := getattr(asked, name)) is not None}
    if beside:
        from roofline.questions.inputs.side_weights import with_side_weights

        deployment = with_side_weights(deployment, **beside)
    if any(value is not None for value in asked[-_OF_MEDIA:]):
        from roofline.questions.inputs.media import media_of

        deployment = replace(deployment, media=media_of(model, *asked[-_OF_MEDIA:]))
    if asked.tp is not None:
        check_plan(model, plan, deployment.spread.redundant)
    return Deployed(deployment, asked.tp, asked.num_gpus, copies, asked.basis, (*model_notes, *gpu_notes), lost)


def _tp_of_all(asked: DeploymentOptions) -> int | None:
    """The tp that makes one replica of all GPUs; None where their number is not given, or no multiple of the rest."""
    tp, rest = divmod(asked.num_gpus or 0, asked.pp * asked.dp * asked.cp)
    return tp if tp and not rest else None


# Correction factors from one measurement of a deployment.

_FAR_OFF = 2.0  # factor beyond which a note asks to check the deployment
_MOST_FACTOR = 30.0  # factor beyond which the measurement is refused
_FIELDS = ("isl", "osl", "batch", "prefix")


def correction(deployment: Deployment, workload: Workload, measured: Any) -> Correction:
    """Factors on predictions; the measurement has the lengths and load of the case unless it states others."""
    if deployment.basis == "ideal":
        raise BadInput("the ideal basis is the hardware limit, which measured cannot scale; leave out one of them")
    measured = plain_value("measured", scalar(measured))
    fields = tuple(dict.fromkeys((*_FIELDS, *case.LOADS)))
    known = ("ttft", "tpot", *fields)
    if not isinstance(measured, Mapping) or not {"ttft", "tpot"} & set(measured) or not set(measured) <= set(known):
        raise BadInput(
            f"measured = {shown(measured)} must give ttft or tpot in seconds, and may give {', '.join(fields)}"
        )
    measured = {key: plain_value(key, scalar(value)) for key, value in measured.items()}
    for key, value in measured.items():
        if type(value) not in (float, int) or not (0.0 < value <= BILLION or (key == "prefix" and value == 0.0)):
            raise BadInput(f"measured {key} = {shown(value)} must be a positive number")
    loads, numbers = [name for name in case.LOADS if name in measured], workload.numbers
    needed = ("isl", "osl", "prefix", *(loads or (workload.load.option,)))
    missing = [name for name in needed if name not in measured and type(numbers.get(name)) is not float]
    if missing:
        raise BadInput(f"measured must state its {' and '.join(missing)}; the case has several")
    values = {name: measured.get(name, numbers.get(name)) for name in needed}
    cache = workload.cache if values["prefix"] else None
    own_workload = case.workload(**{"batch": None, **values}, cache=cache)
    if workload.media:
        own_workload = replace(own_workload, isl=own_workload.isl + workload.media, media=workload.media)
    from roofline.serving.load.steady import mean_latencies

    predicted = dict(zip(("ttft", "tpot"), mean_latencies(deployment, own_workload), strict=True))
    least_of = dict(zip(("ttft", "tpot"), _at_hardware_limit(deployment, own_workload), strict=True))
    factors = {}
    for key in ("ttft", "tpot"):
        if key not in measured:
            continue
        least = least_of[key]
        if measured[key] < least:
            raise BadInput(
                f"measured {key} = {to_text(float(measured[key]), 's')} is below the hardware limit of "
                f"{to_text(least, 's')}; check its unit, load, lengths, precision and tp"
            )
        network = deployment.effective_engine.network if key == "ttft" else 0.0
        if network > 0.0 and measured[key] < least + network:
            raise BadInput(
                f"measured ttft = {to_text(float(measured[key]), 's')} is less than the network's round trip of "
                f"{to_text(network, 's')} and the {to_text(least, 's')} that the same work takes at full rates; give "
                "the ttft that the client saw, or leave out network"
            )
        factors[key] = float(measured[key]) / predicted[key]
        if factors[key] > _MOST_FACTOR:
            raise BadInput(
                f"measured {key} = {to_text(float(measured[key]), 's')} is {factors[key]:.0f} times the prediction: "
                "a slip of the unit, or another deployment? (here in seconds, on the command line in milliseconds)"
            )
    return Correction(
        **factors,
        sigma_ttft=SIGMA_TTFT if "ttft" in measured else None,
        sigma_tpot=SIGMA_TPOT if "tpot" in measured else None,
    )


def correction_notes(factors: Correction) -> tuple[str, ...]:
    notes = []
    for name, factor in (("ttft", factors.ttft), ("tpot", factors.tpot)):
        if factor != 1.0:
            note = f"{name} scaled by the measurement: {rounded(factor)}x the prediction"
            if not 1.0 / _FAR_OFF <= factor <= _FAR_OFF:
                note += ", far outside its interval; check that the deployment is the same"
            notes.append(note)
    return tuple(notes)


def _at_hardware_limit(deployment: Deployment, workload: Workload) -> tuple[Real, Real]:
    """TTFT and TPOT at the hardware limit, with the calibrated number of concurrent sequences [s]."""
    from roofline.serving.load.steady import served

    load = None if workload.load.is_burst else served(deployment, workload)
    first, step = request_passes(deployment.on("ideal"), workload, load)
    return first.time, time_per_token(deployment, workload.osl, step.time)
