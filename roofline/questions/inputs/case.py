"""A case as callers write it: lengths, traffic, prompt cache, prices, engine; parsed, checked, described in notes."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from roofline.catalog.find import engine_names, load_engine
from roofline.numbers.operations import Real, all_of, any_of, element, is_nan, largest_of, smallest_of
from roofline.numbers.quantity import BILLION, HOUR, KIBI, MEGA, MINUTE, from_text, percent_figure, rounded, to_text
from roofline.physics.equation import BASES, calibrated_set, measured_kind
from roofline.physics.layers.kinds import mixer_kinds
from roofline.physics.passes import crossings
from roofline.physics.plan import LEAST_SKEW, MOST_SKEW, Deployment
from roofline.questions.inputs.arguments import (
    PLAIN,
    number,
    number_if_given,
    plain_value,
    refuse_masked,
    scalar,
    several,
    tokens_of_prefix,
    values_of,
)
from roofline.questions.inputs.arrivals import process_of
from roofline.questions.inputs.sessions import sessions_of
from roofline.serving.cost import ByPhase, Ownership
from roofline.serving.latency import (
    LOG_NORMAL,
    Lengths,
    Workload,
    cold_start_text,
    lengths_by_law,
    lengths_of_rows,
    prefill_of_kinds,
)
from roofline.serving.prediction import Prediction
from roofline.serving.prompts import cached_prefixes, cached_text, hit_rate, is_a_mixture, load_time, tier_bandwidth
from roofline.serving.quantization import PRESETS, preset_name
from roofline.serving.verdict import (
    DERATED,
    beyond,
    deployment_name,
    is_pressing,
    is_within,
    served_note,
    stand_in_note,
)
from roofline.specs.arrivals import PREFIX, Process
from roofline.specs.engine import HBM, TIERS, Engine, PromptCache
from roofline.specs.gpu import GEMM, MOE, NO_LINK, PCIE, ROUGH, Gpu, Price
from roofline.specs.load import KIND_OF, LASTING, OPTIONS, RUN, Burst, Load, Rate, lasting, load_of, stated
from roofline.specs.model import WITHOUT_TOWERS
from roofline.specs.sessions import Sessions
from roofline.specs.workload import LAWS, LEVELS, metric_and_level
from roofline.specs.written import (
    API_TOKENS,
    OWNING,
    OWNING_EXAMPLE,
    api_price_of_text,
    number_of_text,
    ownership_of_text,
    read_as,
    share_of_text,
    time_of_text,
)
from roofline.support.errors import BadInput, UnknownName, check_known, percent_hint, shown
from roofline.support.records import NamedTuple, replace

__all__ = [
    "BASES",
    "KIND_OF",
    "LASTING",
    "LAWS",
    "OPTIONS",
    "PRESETS",
    "RUN",
    "TIERS",
    "Load",
    "cached_text",
    "cold_start_text",
    "engine_names",
    "is_pressing",
    "lasting",
    "preset_name",
]


# Lengths, load, engine and routing of a case: parsed, checked, and described in notes.

#: Numbers that may be arrays, in the order of a table's columns, in which many values of them are predicted together.
LENGTHS = ("isl", "osl", *OPTIONS, "prefix")

_LONGEST = BILLION  # tokens or sequences; anything above is a mistake
#: Loads; a case states at most one.
LOADS = tuple(KIND_OF)
#: A rate that any server answers, the start of searches [1/s].
LEAST_RATE = Rate.start
_LEAST = {"prefix": 0.0, **{name: kind.least for name, kind in KIND_OF.items()}}  # lower bounds; 1 for other numbers
_BOUND = {name: kind.bound for name, kind in KIND_OF.items()}


def workload(
    isl: Real,
    osl: Real,
    batch: Real | None,
    prefix: Real,
    lengths: Lengths | None = None,
    cold_start: tuple[float, float] | None = None,
    cache: PromptCache | None = None,
    arrivals: Process | None = None,
    **loads: Real | None,
) -> Workload:
    """Lengths and load as floats or float64 arrays; a batch of 1 where no load is given."""
    others = lengths, cold_start, cache, arrivals
    if all(value is None for value in others) and all(value is None for value in loads.values()):
        plain = _burst(isl, osl, 1.0 if batch is None else batch, prefix)
        if plain is not None:
            return plain
    loads["batch"] = batch
    kind = stated(loads)
    if arrivals is not None and not kind.is_open:
        own = "" if arrivals.rate is None else f" ({rounded(arrivals.rate)} is that of the trace)"
        raise BadInput(f"arrivals and router say how the requests of a rate come; give request_rate{own}")
    sessions = None if cache is None else cache.turns
    for name, value in (("length distributions", lengths), ("cold starts", cold_start), ("sessions", sessions)):
        if value is not None and kind.is_burst:
            raise BadInput(f"{name} need a load; give {' or '.join(LASTING)}")
    if sessions is not None and loads.get(RUN) is not None:
        raise BadInput("sessions go on for ever; leave out num_prompts")
    if lengths is not None and kind.is_queue:
        raise BadInput(
            "num_prompts without another load is a queue of requests of one length; for lengths that spread give "
            "concurrency, the users of the run"
        )
    inputs = {"isl": isl, "osl": osl, "prefix": prefix, **_load_inputs(kind, loads)}
    values = _broadcast(_numbers(inputs))
    load = load_of(values)
    load.check(inputs)
    _check_prefix(values, isl, prefix)
    plain_cache = Workload(values["isl"], values["osl"], load, values["prefix"], lengths, cold_start, None, arrivals)
    return with_cache(plain_cache, _routed(cache, arrivals))


def _routed(cache: PromptCache | None, arrivals: Process | None) -> PromptCache | None:
    """A prompt cache as the router uses it: where requests follow their prefix, replicas keep different ones."""
    if arrivals is None or arrivals.router != PREFIX or (cache is not None and cache.turns is not None):
        return cache
    if cache is None or cache.hit is not None or cache.size is None or cache.working_set is None:
        raise BadInput(
            "router = 'prefix' sends a request to the replica that keeps its prefix, which sets the share of hits; "
            "give prefix, cache_size and working_set, and no cache_hit"
        )
    return replace(cache, is_split=True)


def _load_inputs(kind: type[Load], loads: Mapping[str, Any]) -> dict[str, Any]:
    """What is stated of the load, by the names of its kind."""
    own = {name: loads[name] for name in kind.options if loads.get(name) is not None}
    if loads.get(RUN) is not None and RUN not in own:
        raise BadInput(
            "num_prompts counts the requests of users, or of a queue where no other load is given; leave out "
            f"{kind.option}"
        )
    return own


def _numbers(inputs: dict[str, Any]) -> dict[str, Real]:
    """Inputs as numbers within their bounds, a share of the prompt as tokens; `inputs` keep what was written."""
    if type(inputs["prefix"]) not in (int, float):
        inputs["isl"] = _number("isl", inputs["isl"])
        inputs["prefix"] = tokens_of_prefix(inputs["prefix"], inputs["isl"])
    values = {name: _number(name, value) for name, value in inputs.items()}
    for name, value in values.items():
        least = _LEAST.get(name, 1.0)
        if not (smallest_of(value) >= least and largest_of(value) <= _LONGEST):  # NaN fails both
            elements = value.flat if hasattr(value, "shape") else [value]
            wrong = next(float(each) for each in elements if not least <= each <= _LONGEST)
            written = inputs[name] if type(elements) is list else wrong
            bound = _bound(name, least, is_small=not wrong >= least)
            raise BadInput(f"{name} = {_plain_text(written)} must be {bound}")
    return values


def _broadcast(values: dict[str, Real]) -> dict[str, Real]:
    """The values, of shapes that go together."""
    try:
        sum(values.values())
    except ValueError as fault:
        raise BadInput(f"{', '.join(values)} do not broadcast together: {fault}") from None
    return values


def _check_prefix(values: Mapping[str, Real], isl: Any, prefix: Any) -> None:
    if not all_of((values["prefix"] == 0.0) | (values["prefix"] >= 1.0)):
        raise BadInput(f"prefix = {shown(prefix)} is less than one token; write a share as 80%")
    if not all_of(values["prefix"] <= values["isl"]):
        raise BadInput(f"prefix = {shown(prefix)} must not exceed the prompt, isl = {shown(isl)}")


def _burst(isl: Real, osl: Real, batch: Real, prefix: Real) -> Workload | None:
    """A burst of valid plain numbers; None for anything that needs the full checks."""
    for value in (isl, osl, batch, prefix):
        if type(value) is not int and type(value) is not float:
            return None
    has_room = 1.0 <= isl <= _LONGEST and 1.0 <= osl <= _LONGEST and 1.0 <= batch <= _LONGEST
    if has_room and (prefix == 0.0 or 1.0 <= prefix <= isl):
        return Workload(float(isl), float(osl), Burst(float(batch)), float(prefix))
    return None


def routing_skew(routing: str | float) -> float | None:
    """Skew of the expert choice; None for uniform."""
    if routing == "uniform":
        return None
    try:
        value = float(str(routing))  # True is no number
    except (TypeError, ValueError, OverflowError):
        raise BadInput(f"routing = {shown(routing)} must be uniform or a number") from None
    if not LEAST_SKEW <= value <= MOST_SKEW:
        bounds = f"between {LEAST_SKEW:g} and {MOST_SKEW:g}"
        raise BadInput(f"routing skew {shown(routing)} must be {bounds}, or uniform")
    return value


def engine(name: str, network: Any, specs: str | None = None, gpu: Gpu | None = None, **settings: Any) -> Engine:
    """Serving engine on a GPU with `network` and `settings` in place of its own; None keeps its default there.

    Without a GPU, defaults that depend on it stay open.
    """
    network = plain_value("network", network)
    if type(network) not in (float, int) or not 0.0 <= network <= MINUTE:
        raise BadInput(f"network = {shown(network)} must be a time in seconds, at most 60 s; write 0.08 for 80 ms")
    profile = load_engine(name, specs)
    if gpu is not None:
        profile = profile.on(gpu)
    changes: dict[str, Any] = {"network": float(network)} if network else {}
    for key, value in settings.items():
        if value is None:
            continue
        value = plain_value(key, value)  # noqa: PLW2901
        if key == "gpu_memory_utilization":
            if type(value) not in (float, int) or not 0.0 < value <= 1.0:
                hint = percent_hint(value)
                raise BadInput(f"{key} = {shown(value)} must be a share of the memory, such as 0.92{hint}")
        elif type(value) not in (float, int) or not 1 <= value <= _LONGEST or value != int(value):
            unit = "sequences" if key == "max_num_seqs" else "tokens"
            raise BadInput(f"{key} = {shown(value)} must be a whole number of {unit}, at least 1")
        changes[key] = float(value) if key == "gpu_memory_utilization" else int(value)
    return replace(profile, **changes, stated=tuple(changes)) if changes else profile


def warnings(deployment: Deployment, requested: str, workload: Workload, *, is_open: bool = False) -> tuple[str, ...]:
    """Notes on assumptions, stand-ins and exceeded limits; `requested` is the basis before any fallback."""
    model, gpu, plan = deployment.model, deployment.gpu, deployment.plan
    cautions = model.cautions if deployment.media is None else (c for c in model.cautions if c != WITHOUT_TOWERS)
    notes = [*cautions, *gpu.cautions, *deployment.quantization.notes]
    if is_open and not workload.load.is_burst:
        notes.append(f"tp = {plan.tp}: chosen for the load, and for the SLO where the number of GPUs is given")
    constant = deployment.memo.get((warnings, requested))
    if constant is None:
        constant = deployment.memo[warnings, requested] = tuple(map(tuple, _constant_notes(deployment, requested)))
    return (*notes, *constant[0], *length_warnings(deployment, workload), *constant[1])


def _constant_notes(deployment: Deployment, requested: str) -> Iterator[list[str]]:
    """Notes that hold for every case of a deployment: on its basis; on its links and kernels."""
    gpu, notes = deployment.gpu, []
    if requested == "calibrated" and deployment.basis == "ideal":
        notes.append(f"basis ideal: no calibration for {gpu.name}; times are the hardware limit, which no GPU reaches")
    if deployment.basis == "generic":
        notes.append(
            f"{gpu.name}: no kernels of its generation were timed; constants are medians of others, the range is wide"
        )
    if deployment.basis == "served":
        notes.append(served_note(gpu))
    yield notes
    notes = [*_link_warnings(deployment)]
    if deployment.plan.splits_context:
        from roofline.serving.context_gains import context_notes

        notes += context_notes(deployment)
    if gpu.exp_rate is None and deployment.basis != "ideal":
        notes.append(f"{gpu.name}: no special-function rate known; softmax exponentials count as free")
    if gpu.power_cap is not None:
        from roofline.questions.inputs.electricity import cap_note

        notes.append(cap_note(gpu.power_cap, gpu))
    yield [*notes, *_version_notes(deployment), *_fitted_elsewhere(deployment), *_stand_ins(deployment)]


def _fitted_elsewhere(deployment: Deployment) -> Iterator[str]:
    """A note on a profile that was fitted to runs of other deployments."""
    engine = deployment.engine
    if engine.fitted_on and deployment_name(deployment) not in engine.fitted_on and deployment.basis != "ideal":
        yield (
            f"{engine.name} was fitted to runs of {'; '.join(engine.fitted_on)}: its factors on kernels may not hold "
            f"for {deployment_name(deployment)}, and ranges are as wide as those of the profile it was fitted from"
        )


def _version_notes(deployment: Deployment) -> Iterator[str]:
    """Notes on kernels that this version of the engine runs more slowly than later ones."""
    tunings = [tuning for tuning in deployment.engine.tunings if tuning.note]
    if not tunings or deployment.basis == "ideal":
        return
    sections = deployment.quantization.sections
    used = {(kind.name, deployment.quantization.kv_key) for kind in mixer_kinds(m for _, m in deployment.model.mixers)}
    used |= {(GEMM.name, sections[name].key) for name in ("linear", "attention")}
    if deployment.model.is_moe:
        used.add((MOE.name, sections["experts"].key))
    for tuning in tunings:
        is_run = any(tuning.kind == kind and tuning.dtype in (None, key) for kind, key in used)
        if is_run and tuning.generation in (None, deployment.gpu.generation):
            yield f"{deployment.engine.name}: {tuning.note}"


def _link_warnings(deployment: Deployment) -> Iterator[str]:
    """Notes on links that cross the scale-up domain, or whose speed is uncertain."""
    model, gpu, plan = deployment.model, deployment.gpu, deployment.plan
    attending = plan.tp if plan.cp == 1 else plan.tp * plan.cp
    ranks, link = max(attending, plan.expert_ranks if model.is_moe else 1), gpu.link
    bridged = gpu.host_domain is not None and ranks > link.domain
    if deployment.basis != "ideal" and (bridged or (link.kind == PCIE and plan.tp * plan.token_ranks > 1)):
        beyond = f" beyond the {link.domain}-GPU {link.kind} bridge" if bridged else ""
        yield f"{gpu.name}: collectives{beyond} run over PCIe; their time depends on the server and is uncertain"
    others = f"; in other nodes: {', '.join(gpu.other_nodes)}" if gpu.other_nodes else ""
    if ranks > gpu.node and link.kind == NO_LINK:
        yield f"{gpu.name}: {ranks} ranks use the network, as it has no scale-up link"
    elif ranks > gpu.node:
        yield f"{gpu.name}: {ranks} ranks exceed its {gpu.node}-GPU {gpu.node_link} domain and use the network{others}"
    elif ranks > 1 and others:
        yield f"{gpu.name}: {ranks} ranks of a node that joins {gpu.node} GPUs by {gpu.node_link}{others}"
    if crossings(plan, gpu.node):
        yield f"{gpu.name}: {crossings(plan, gpu.node):.0f} of {plan.pp - 1} pipeline hand-overs cross the network"


def length_warnings(deployment: Deployment, workload: Workload) -> list[str]:
    """Notes on lengths beyond those of the calibration or of the model's positions."""
    if is_within(deployment, workload):
        return []
    return [note for exceeds, note in beyond(deployment, workload) if any_of(exceeds)]


def _plain_text(value: Any) -> str:
    return shown(int(value) if type(value) is float and value.is_integer() else value)


def _bound(name: str, least: float, *, is_small: bool) -> str:
    """The bound that a number violates."""
    if not is_small:
        return f"at most {_LONGEST:,.0f}"
    return _BOUND.get(name, f"at least {least:g}")


def _number(name: str, value: Any) -> Real:
    if type(value) is float or type(value) is int:
        try:
            return float(value)
        except OverflowError:
            raise BadInput(f"{name} = {shown(value)} must be {_bound(name, 1.0, is_small=False)}") from None
    refuse_masked(name, value)
    number = plain_value(name, scalar(value))
    if type(number) is float or type(number) is int:
        return _number(name, number)
    if type(number) in PLAIN or isinstance(value, (bytes, bytearray, memoryview)):
        raise BadInput(f"{name} = {shown(value)} must be a number or an array of numbers")
    from roofline.numbers.arrays import as_array

    if isinstance(value, (list, tuple)) and any(isinstance(item, str) for item in value):
        value = [plain_value(name, item) for item in value]
    return as_array(name, value)


def _stand_ins(deployment: Deployment) -> list[str]:
    """Notes on kernels that were not measured on this generation, and what replaces them."""
    calibration = deployment.gpu.calibration
    if deployment.basis in ("ideal", *ROUGH) or calibration is None:
        return []  # a generic calibration consists of stand-ins
    notes = []
    sets, sections = calibration.kernels, deployment.quantization.sections
    used = dict.fromkeys((GEMM, sections[name].key) for name in ("linear", "attention"))
    if deployment.model.is_moe:
        used[MOE, sections["experts"].key] = None
    for kind, key in used:
        _, measured_key = calibrated_set(sets, kind, key)
        if measured_key != key:
            notes.append(stand_in_note(f"{key} {kind.name}", calibration.name, measured_key))
    for kind in mixer_kinds(mixer for _, mixer in deployment.model.mixers):
        instead = measured_kind(sets, kind)
        if instead is not kind:
            notes.append(stand_in_note(kind.name, calibration.name, instead.name))
    return notes


# The shape of traffic and of the GPU's rates: length distributions, cold starts, derates.

#: Rates of a GPU that may be derated, and their names in notes.
RATES = {"bandwidth": "HBM bandwidth", "peak": "dense peaks", "link": "scale-up bandwidth"}

#: Default lengths: the random data set of `vllm bench serve` [tokens].
USUAL = (KIBI, 128)

#: Options of `predict` that shape the traffic of a load.
TRAFFIC = (
    "isl_cv", "osl_cv", "lengths", "cold_start", "arrivals", "router", "turns", "think", "grow", "system",
)  # fmt: skip

_MOST_LOST = 0.99
_SLOWEST, _FASTEST = 99.9, 1.0  # percentiles that stand for the slowest and the fastest warm request
_EXACTLY = 2.0**-20  # relative difference at which a share of cold starts equals the tail above a percentile


def lengths_of(lengths: Any, isl_cv: Any, osl_cv: Any) -> tuple[float, float, Lengths] | Lengths | None:
    """Spread of lengths; None where all are equal; of a trace the mean isl and osl [tokens] come first."""
    if isinstance(lengths, Lengths):
        return lengths
    lengths = lengths if isinstance(lengths, Mapping) else scalar(lengths)
    given_cvs = (("isl_cv", isl_cv), ("osl_cv", osl_cv))
    cvs = {name: plain_value(name, scalar(value)) for name, value in given_cvs if value is not None}
    if lengths is None or (isinstance(lengths, str) and lengths in LAWS):
        if not cvs:
            if lengths is not None:
                raise BadInput(f"lengths = {lengths!r} needs a spread; give isl_cv or osl_cv")
            return None
        for name, value in cvs.items():
            if type(value) not in (float, int):
                raise BadInput(f"{name} = {shown(value)} must be a number such as 0.5")
        spread = lengths_by_law(lengths or LOG_NORMAL, cvs.get("isl_cv", 0.0), cvs.get("osl_cv", 0.0))
        return None if spread.is_fixed else spread
    if cvs and not (isinstance(lengths, str) and not re.search(r"[./\\]", lengths)):
        raise BadInput(f"a trace has its own spread; leave out {' and '.join(cvs)}")
    if isinstance(lengths, str):
        if not re.search(r"[./\\]", lengths):
            check_known("length distribution", lengths, LAWS, end=", or a trace.csv")
        from roofline.measurements.tables import read_trace

        rows: Sequence[tuple[float, float]] = read_trace(lengths)
        return lengths_of_rows(rows, lengths)
    columns = []
    for name in ("isl", "osl"):
        if not isinstance(lengths, Mapping) or name not in lengths:
            raise BadInput(
                f"lengths = {shown(lengths)} must be a distribution, the path of a trace, or columns isl and osl"
            )
        columns.append([number(f"lengths[{name!r}]", value, 1.0, BILLION) for value in several(name, lengths[name])])
    if len(columns[0]) != len(columns[1]):
        raise BadInput(f"lengths have {len(columns[0])} isl and {len(columns[1])} osl; give one of each per request")
    return lengths_of_rows(list(zip(*columns, strict=True)), "the rows given")


class Traffic(NamedTuple):
    """Lengths of requests and how they come, as `inputs.case.workload` takes them."""

    isl: Any  # [tokens] mean
    osl: Any  # [tokens] mean
    lengths: Lengths | None = None
    cold_start: tuple[float, float] | None = None
    arrivals: Process | None = None
    sessions: Sessions | None = None

    def prefix(self, prefix: Any) -> Any:
        """Cached tokens of the prompt: as asked, or the mean context of sessions."""
        if self.sessions is None:
            return prefix
        if type(prefix) not in (int, float) or prefix:
            raise BadInput(f"sessions cache their own context; leave out prefix = {shown(prefix)}, or give system")
        return self.sessions.prefix

    def cache(self, cache: PromptCache | None) -> PromptCache | None:
        """The prompt cache, of sessions too."""
        if self.sessions is None or not self.sessions.prefix:
            return cache
        if cache is not None and cache.working_set is not None:
            raise BadInput("the contexts of sessions are their working set; leave out working_set")
        if cache is not None and cache.tier == HBM and cache.size is not None:
            raise BadInput(
                "contexts of sessions take what memory is left; leave out cache_size, or give cache_tier too"
            )
        return replace(cache or PromptCache(), turns=self.sessions)

    @property
    def of_a_load(self) -> dict[str, Any]:
        """All but the mean lengths."""
        return {"lengths": self.lengths, "cold_start": self.cold_start, "arrivals": self.arrivals}


def traffic(
    isl: Any,
    osl: Any,
    *,
    lengths: Any = None,
    isl_cv: Any = None,
    osl_cv: Any = None,
    cold_start: Any = None,
    arrivals: Any = None,
    router: Any = None,
    turns: Any = None,
    think: Any = None,
    grow: Any = None,
    system: Any = None,
) -> Traffic:
    """Traffic from options of `predict`."""
    sessions = sessions_of(turns, think, grow, system)
    spread, start = lengths_of(lengths, isl_cv, osl_cv), cold_start_of(cold_start)
    process = None if arrivals is None and router is None else process_of(arrivals, router)
    if sessions is not None:
        for name, value, default in (("isl", isl, USUAL[0]), ("osl", osl, USUAL[1])):
            if value is not default and value != default:
                raise BadInput(f"sessions have their own lengths; leave out {name} = {shown(value)}")
        if isinstance(spread, tuple):
            raise BadInput("sessions have their own lengths; leave out the trace of lengths, or give isl_cv and osl_cv")
        return Traffic(sessions.isl, sessions.answer, spread, start, process, sessions)
    if not isinstance(spread, tuple):
        return Traffic(isl, osl, spread, start, process)
    for name, value, default in (("isl", isl, USUAL[0]), ("osl", osl, USUAL[1])):
        if value is not default and value != default:
            raise BadInput(f"a trace has its own lengths; leave out {name} = {shown(value)}")
    return Traffic(*spread, start, process)


def cold_start_of(value: Any) -> tuple[float, float] | None:
    """Share of the requests that start a cold server [1], and their extra wait [s]; None for neither."""
    value = scalar(value) if not isinstance(value, Sequence) else value
    if value is None:
        return None
    if isinstance(value, str):
        share, colon, time = value.partition(":")
        if not colon:
            raise BadInput(f"cold_start = {shown(value)} must be a share and a time, such as 1%:2s")
        pair: list[Any] = [
            read_as("cold_start: ", share_of_text, share),
            read_as(f"cold_start = {shown(value)}: ", time_of_text, time),
        ]
    else:
        values = several("cold_start", value)
        if len(values) != 2:
            raise BadInput(f"cold_start = {shown(value)} must be a share and a time: (0.01, 2.0), or '1%:2s'")
        pair = [
            read_as("cold_start: ", read, item) if isinstance(item, str) else item
            for item, read in zip(values, (share_of_text, time_of_text), strict=True)
        ]
    cold_share = number("the share of cold starts", pair[0], 0.0, 1.0)
    wait = number("the time of a cold start", pair[1], 0.0, HOUR)
    return (cold_share, wait) if cold_share > 0.0 and wait > 0.0 else None


def cold_start_notes(prediction: Prediction) -> tuple[list[Real], Callable[[int], list[str]]]:
    """Arrays on which notes on percentiles between warm and cold requests depend, and the notes by the place of a case.

    A percentile is any time between the two where exactly its share of the requests starts warm.
    """
    workload = prediction.workload
    tails, levels = None if prediction.served is None else prediction.tails, []
    if workload.cold_start is not None and tails is not None:
        share, time = workload.cold_start
        levels = [level for level in _levels(prediction.slo) if abs(share + level / 100.0 - 1.0) <= _EXACTLY * share]
    if tails is None or not levels:
        return [], lambda _: []
    from roofline.serving.load.mixtures import percentile

    warm = [part._replace(weight=part.weight / (1.0 - share)) for part in tails.ttft]
    warm = warm[: len(warm) // 2]
    ends: Any = percentile(warm, _SLOWEST), percentile(warm, _FASTEST) + time

    def notes(place: int) -> list[str]:
        slowest, fastest = (float(element(end, place)) for end in ends)
        if is_nan(slowest):  # overloaded
            return []
        return [
            f"exactly {percent_figure(share)} % of the requests start cold, so that the p{level:g} of TTFT, like that "
            f"of E2EL, is any time from {to_text(slowest, 's')} (slowest warm one) to {to_text(fastest, 's')} (fastest "
            "cold one)"
            for level in levels
        ]

    return [*ends], notes


def losses_of(value: Any) -> dict[str, float]:
    """Lost shares of a GPU's rates, by the keys of `RATES` [1]."""
    value = value if isinstance(value, Mapping) else scalar(value)
    if value is None:
        return {}
    pairs: list[tuple[Any, Any]]
    if isinstance(value, str):
        parts = [part.partition(":") for part in value.split(",") if part.strip()]
        pairs = [(name.strip().lower(), share) for name, _, share in parts]
    elif isinstance(value, Mapping):
        pairs = list(value.items())
    else:
        raise BadInput(f"derate = {shown(value)} must be shares of rates, such as bandwidth:5%,peak:3%")
    losses: dict[str, float] = {}
    for name, share in pairs:
        if name not in RATES:
            raise UnknownName(
                f"unknown rate {shown(name)} to derate; choose from {', '.join(RATES)}, as in bandwidth:5%,peak:3%"
            )
        if name in losses:
            raise BadInput(f"{name!r} is derated twice in {shown(value)}")
        plain = scalar(share)
        lost = read_as(f"derate {name}: ", share_of_text, plain) if isinstance(plain, str) else plain
        losses[name] = number(f"derate {name}", lost, 0.0, _MOST_LOST)
    return losses


def derated(gpu: Gpu, losses: Mapping[str, float]) -> tuple[Gpu, tuple[str, ...]]:
    """A GPU without the lost shares of its rates, and a note on each."""
    remaining = {name: 1.0 - losses.get(name, 0.0) for name in RATES}
    link = replace(gpu.link, bandwidth=gpu.link.bandwidth * remaining["link"])
    peaks = {dtype: peak * remaining["peak"] for dtype, peak in gpu.peaks.items()}
    notes = tuple(
        f"{DERATED}{RATES[name]} {percent_figure(share)} % below the specification"
        for name, share in losses.items()
        if share
    )
    if not notes:
        return gpu, ()
    return replace(gpu, bandwidth=gpu.bandwidth * remaining["bandwidth"], peaks=peaks, link=link), notes


def _levels(slo: Mapping[str, float]) -> list[float]:
    """Percentiles that a row or an SLO asks for [%]."""
    limited = [metric_and_level(key)[1] for key in slo]
    return sorted({*LEVELS, *(level for level in limited if level is not None)})


# Prompt cache options: parsed into a record, checked, and described in notes.

#: Options of `predict` that describe a prompt cache.
CACHE = ("cache_hit", "cache_tier", "cache_bandwidth", "cache_size", "working_set")

_MOST_BYTES = BILLION * BILLION  # and bytes per second
_MOST_ZIPF = 4.0
_ZIPF = "zipf"


def prompt_cache_of(
    cache_hit: Any = None,
    cache_tier: Any = None,
    cache_bandwidth: Any = None,
    cache_size: Any = None,
    working_set: Any = None,
) -> PromptCache | None:
    """A prompt cache from its options; None where none of them is given."""
    if all(value is None for value in (cache_hit, cache_tier, cache_bandwidth, cache_size, working_set)):
        return None
    tier = HBM if scalar(cache_tier) is None else scalar(cache_tier)
    check_known("cache_tier", tier, TIERS)
    hit = number_if_given("cache_hit", cache_hit, 0.0, 1.0)
    size = number_if_given("cache_size", cache_size, 1.0, _MOST_BYTES)
    rate = number_if_given("cache_bandwidth", cache_bandwidth, 1.0, _MOST_BYTES)
    if rate is not None and tier == HBM:
        raise BadInput("cache_bandwidth is the bandwidth of a tier; give cache_tier as well: host, nvme or network")
    total, exponent = _working_set(scalar(working_set))
    if total is not None:
        if hit is not None:
            raise BadInput("cache_hit is the hit rate that working_set asks for; leave out one of them")
        if size is None:
            raise BadInput("working_set needs a cache_size, such as 500GB, for its hit rate")
    return PromptCache(hit, tier, rate, size, total, exponent)


def with_cache(workload: Workload, cache: PromptCache | None) -> Workload:
    """A workload with its prefixes in a cache; at a hit rate of 0 the prefix is 0."""
    if cache is None:
        return workload
    if not all_of(workload.prefix > 0.0):
        raise BadInput("a prompt cache needs a prefix, the prompt tokens that it holds; give prefix, such as 2k or 80%")
    if cache.zipf is not None and type(workload.prefix) is not float:
        raise BadInput("the hit rate of Zipf's law takes prefixes of one length; prefix must be a number, not an array")
    prefix = 0.0 * workload.prefix if cache.hit == 0.0 else workload.prefix
    return replace(workload, prefix=prefix, cache=cache)


def deployed(deployment: Deployment, cache: PromptCache | None) -> Deployment:
    """The deployment; a sized cache in HBM is taken from the memory of the batch."""
    if cache is None:
        return deployment
    tier_bandwidth(deployment, cache)
    is_kept = cache.tier == HBM and cache.size is not None
    return replace(deployment, prefix_cache=cache.size) if is_kept else deployment


def cache_notes(deployment: Deployment, workload: Workload) -> Iterator[str]:
    cache = workload.cache
    if cache is None:
        return
    if cache.working_set is not None and type(workload.prefix) is float:
        share = f"{percent_figure(float(hit_rate(deployment, workload.prefix, cache)))} %"
        if cache.zipf is None:
            law = "cache over working set, all prefixes asked for alike, any policy"
        else:
            held, total = (
                rounded(float(cached_prefixes(deployment, workload.prefix, size or 0.0)))
                for size in (cache.size, cache.working_set)
            )
            law = f"{held} of {total} prefixes, Zipf {cache.zipf:g}, least recently used dropped (Che's approximation)"
        yield f"cache hit rate {share}: {law}"
    if cache.tier == HBM and cache.size is None:
        yield "memory of the cached prefixes is not counted; give cache_size to take it from the batch"
    if cache.tier != HBM and type(workload.isl + workload.prefix) is float and workload.prefix:
        again, loading = _recompute_time(deployment, workload), float(load_time(deployment, workload.prefix, cache))
        if loading > again:
            yield (
                f"loading {workload.prefix:,.0f} tokens from {cache.tier} takes {to_text(loading, 's')}, recomputing "
                f"would take {to_text(again, 's')}: the cache makes requests slower"
            )
    batch: Real = workload.batch
    if is_a_mixture(cache) and not all_of(batch <= 1.0):
        yield "a burst with a cache is the mean of one in which all prompts hit and one in which all miss"


def _recompute_time(deployment: Deployment, workload: Workload) -> float:
    """Prefill time of one prompt that a prefix in HBM saves [s]."""
    single = replace(workload, load=Burst())
    ((_, hit),) = prefill_of_kinds(deployment, replace(single, cache=None))
    ((_, miss),) = prefill_of_kinds(deployment, replace(single, cache=None, prefix=0.0))
    return float(miss - hit)


def _working_set(value: Any) -> tuple[float | None, float | None]:
    """Size of a working set [B] and its Zipf exponent; None where not given."""
    if not isinstance(value, str):
        return None if value is None else number("working_set", value, 1.0, _MOST_BYTES), None
    text, colon, law = value.partition(":")
    name, form = law.strip().lower(), "write it as 2TB, or with its law, 2TB:zipf0.9"
    if colon and not name.startswith(_ZIPF):
        raise BadInput(f"working_set = {shown(value)}: {shown(law)} is not a popularity law; {form}")
    try:
        size = from_text(text.strip(), "B")
        exponent = number_of_text(name.removeprefix(_ZIPF)) if colon else None
    except BadInput as error:
        raise BadInput(f"working_set = {shown(value)}: {error}; {form}") from None
    if exponent is not None:
        exponent = number("the exponent of zipf", exponent, 0.0, _MOST_ZIPF)
    return number("working_set", size, 1.0, _MOST_BYTES), exponent


# Prices as callers write them: the hourly rent of a GPU, and what an API charges for tokens.

#: Source of a price that does not come from the catalog.
GIVEN_PRICE = "given"

_HOW = "must be USD per GPU-hour: a number such as 2.5, or a range such as 2-4"


def price_of(value: Any) -> Price | None:
    """Price of one GPU from a number, a range or a text in USD/h [USD/s]; the middle of a range is typical."""
    value = plain_value("gpu_price", scalar(value))
    if value is None:
        return None
    ends = values_of("gpu_price", value)
    pair = [value, value] if ends is None else ends
    if len(pair) != 2 or any(type(end) not in (float, int) or not 0.0 < end <= MEGA for end in pair):
        raise BadInput(f"gpu_price = {shown(value)} {_HOW}")
    low, high = (float(end) / HOUR for end in pair)
    if low > high:
        raise BadInput(f"gpu_price = {shown(value)} has its ends in the wrong order; write {pair[1]:g}-{pair[0]:g}")
    return Price(low, (low + high) / 2.0, high, GIVEN_PRICE)


def priced(gpu: Gpu, value: Any, file: Any = None, specs: str | None = None) -> Gpu:
    """A GPU at the price given, or that of a file of prices; without either, the catalog's stays."""
    price = price_of(value)
    if file is not None:
        if price is not None:
            raise BadInput("gpu_price and price_file both state rents; leave out one of them")
        from roofline.questions.inputs.prices import price_in

        price = price_in(file, gpu, specs)
    return gpu if price is None else replace(gpu, price=price)


_YEARS, _KWH = 4.0, 0.1  # of use, and the price of energy [USD], where they are not stated


def ownership_of(value: Any, gpu: Gpu) -> Ownership | None:
    """What owning one GPU costs; where nothing is said, 4 years, its own power, 0.1 USD/kWh, and no hosting."""
    value = value if isinstance(value, Mapping) else scalar(value)
    if value is None:
        return None
    if isinstance(value, str):
        value = read_as("own: ", ownership_of_text, value)
    if not isinstance(value, Mapping) or any(name not in OWNING for name in value) or "price" not in value:
        raise BadInput(f"own = {shown(value)} must be the price of a GPU and what running it takes: {OWNING_EXAMPLE}")
    costs = {name: number(f"own {name}", cost, 0.0, MEGA) for name, cost in value.items()}
    years = costs.get("years", _YEARS)
    if years <= 0.0:
        raise BadInput(f"own years = {years:g} must be above 0")
    power = costs.get("power", gpu.power or 0.0)
    return Ownership(costs["price"], years, power, costs.get("kwh", _KWH), costs.get("hosting", 0.0))


def api_prices_of(value: Any) -> ByPhase | None:
    """Prices of an API [USD per million tokens]; cached tokens cost as much as others by default."""
    value = value if isinstance(value, Mapping) else scalar(value)
    if value is None:
        return None
    if isinstance(value, str):
        value = read_as("api_price: ", api_price_of_text, value)
    names = {name: key for key, several in API_TOKENS.items() for name in several}
    if not isinstance(value, Mapping) or any(name not in names for name in value):
        raise BadInput(f"api_price = {shown(value)} must be prices of in, out and cached: in:0.5,out:1.5,cached:0.05")
    prices = {names[name]: number(f"api_price {name}", price, 0.0, MEGA) for name, price in value.items()}
    missing = [key for key in ("in", "out") if key not in prices]
    if missing:
        raise BadInput(f"api_price needs {' and '.join(missing)}: in:0.5,out:1.5 (USD per million tokens)")
    if not any(prices.values()):
        raise BadInput("api_price is zero for all tokens; give what the API charges, as in in:0.5,out:1.5")
    return ByPhase(prices["in"], prices.get("cached", prices["in"]), prices["out"])
