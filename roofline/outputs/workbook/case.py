"""A case whose model, GPU, quantization and plan are looked up: the formulas of every answer of a workbook."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np

from roofline.formulas.case import HOST_TIMES
from roofline.numbers.operations import Real, maximum, minimum, negated, where
from roofline.numbers.quantity import BILLION, HOUR, MEGA, MILLI
from roofline.numbers.roots import crossing, largest_that_holds
from roofline.outputs.layer_kinds import LayerKind, StagedModel, with_numbers
from roofline.outputs.workbook.cells import INFINITE, Cell, CellPool, named, scope
from roofline.outputs.workbook.judged import Judged, RangedPass
from roofline.outputs.workbook.tables import (
    COLLECTIVE,
    COLLECTIVE_KINDS,
    EFFICIENCY,
    MULTIPLIED,
    STORED,
    Catalog,
    held_memory,
    is_listed,
    is_number,
    joined,
    known_name,
    match,
    passes,
    picked,
    read_count,
    read_rate,
    read_time,
    rounded_to,
)
from roofline.outputs.workbook.typed import UNREADABLE
from roofline.physics.assembly import rank_batch
from roofline.physics.equation import BASES, HOST_ROOF, Kernel, Terms, Work, beyond_bridge
from roofline.physics.memory import largest_batch, memory
from roofline.physics.passes import Pass, crossings
from roofline.physics.plan import LEAST_SKEW, MOST_SKEW, Deployment, ModelQuantization, Plan, Scheme
from roofline.serving.knee import (
    LARGEST_BATCH,
    Knees,
    Score,
    asymptotic_time,
    expert_faults,
    half_surplus,
    least_enough,
    ridge_surplus,
    score_of_load,
    tp_faults,
    weight_sides,
)
from roofline.serving.latency import Workload, decode, prefill, slo_excess
from roofline.serving.load.equations import capacity
from roofline.serving.prediction import Prediction
from roofline.serving.quantization import AS_QUANTIZATION, AUTO, NATIVE, PRESETS, SECTIONS
from roofline.serving.verdict import INHERITED, NOT_KERNELS, NOT_TIMED, beyond
from roofline.specs.engine import Engine
from roofline.specs.formats import KV_FORMATS
from roofline.specs.gpu import (
    GEMM,
    INDEXER,
    MOE,
    ROUGH,
    Calibration,
    CollectiveEfficiency,
    Efficiency,
    Gpu,
    KernelKind,
    Link,
    Price,
)
from roofline.specs.load import Burst, Load, Rate, Users
from roofline.specs.model import Ffn, Mixer, MoeFfn, Stage
from roofline.specs.workload import OF_REQUESTS as SLO_KEYS
from roofline.support.records import NamedTuple, dataclass, field, replace

#: Loads that may be typed instead of a burst, by the names of their cells.
TYPED: Mapping[str, type[Load]] = {"users": Users, "request_rate": Rate}

#: Choices of a case, in the order of its columns.
CHOICES = (
    "model", "gpu", "quantization", "kv_cache_dtype", "tp", "pp", "ep", "dp", "replicas",
    "isl", "osl", "batch", "prefix", "basis",
)  # fmt: skip

_ADVICE = "write 2000, or 2k for 2048"
_TINY = 2.0**-100  # stands for a missing efficiency


class Bound(NamedTuple):
    """An input and the range of its values."""

    cell: Cell
    least: float
    most: float
    message: str  # for any other value
    typed: Cell  # as it is in the sheet
    may_be_blank: bool = False


class CaseCells(NamedTuple):
    """Inputs of a case: cells for choices, engine times and further limits."""

    cells: Mapping[str, Cell]  # by `CHOICES`, as typed
    engine: Engine  # with cells as times
    routing_skew: Real | None  # c of the routing
    bounds: tuple[Bound, ...] = ()  # of inputs that all cases share
    slo: Mapping[str, Real] = {}  # limits [s]; infinite where blank
    loads: Mapping[str, Cell] = {}  # by `TYPED`, as typed; none where cases are bursts alone


class LookupCase(NamedTuple):
    """Answer to a case, and the reason where there is none."""

    prediction: Judged
    reason: Any  # text, empty where there is an answer
    impossible: Any  # likewise, but empty where the case only does not fit
    note: Any  # limits of the timed kernels that the case exceeds
    is_asked: Any  # whether a model is named
    is_ideal: Any  # whether the basis is the hardware limit
    choices: Mapping[str, Cell]  # by `CHOICES`, as read
    pool: CellPool


@scope("case")
def lookup_case(catalog: Catalog, inputs: CaseCells) -> LookupCase:
    """Prediction of a case that is described by cells."""
    cells = _read(catalog, inputs.cells)
    rows = _Rows(catalog, cells)
    pp, ep, dp = (_degree(cells[name]) for name in ("pp", "ep", "dp"))
    isl, osl, batch = (_length(cells[name], 1.0) for name in ("isl", "osl", "batch"))
    workload = Workload(isl, osl, Burst(batch), minimum(_length(cells["prefix"], 0.0), isl))
    model, gpu = _model(catalog, rows), _gpu(catalog, rows)
    replicas = _degree(cells["replicas"])
    settings: dict[str, Any] = {name: picked(catalog.gpus.column(name), rows.gpu) for name in catalog.settings}
    engine = replace(inputs.engine, by_gpu=(), scatter_ttft=None, scatter_tpot=None, **settings)  # see `_evidence`
    single = Deployment(
        model, gpu, Plan(1, pp, ep, dp), rows.quantization, routing_skew=inputs.routing_skew, replicas=replicas,
        engine=engine,
    )  # fmt: skip
    with scope("rank batch"):  # before another step claims it
        rank_batch(workload.batch, dp)
    tp = where(is_number(cells["tp"]), _degree(cells["tp"]), _open_tp(single, workload, catalog.degrees, inputs.loads))
    deployment = replace(single, plan=Plan(tp, pp, ep, dp))
    is_ideal = cells["basis"] == "ideal"
    first, step = passes(is_ideal, deployment, workload)
    need: Any = held_memory(deployment, workload.batch, workload.isl + workload.osl)
    prediction = Judged(
        deployment, workload, RangedPass(first, rows.dtypes), RangedPass(step, rows.dtypes), memory=need,
        slo=inputs.slo, allow_oversize=True, is_ideal=is_ideal, **_evidence(catalog, rows, deployment, inputs.engine),
    )  # fmt: skip
    impossible: Any = ""
    for fails, message in reversed(list(_faults(catalog, rows, prediction, inputs))):
        impossible = where(fails, rows.pool.text_formula(message), impossible)
    with scope("used"):
        used = rounded_to(100.0 * need.used_fraction, 0)
    with scope("fits"):
        fits = need.fits
    too_large = where(fits, "", rows.pool.text_formula(f"does not fit: {used}% of the usable memory"))
    reason = where(impossible == "", too_large, impossible)
    ideal = replace(deployment, basis="ideal")
    note = where(is_ideal, noted(rows.pool, ideal, workload), noted(rows.pool, deployment, workload))
    return LookupCase(prediction, reason, impossible, note, cells["model"] != "", is_ideal, cells, rows.pool)


@scope("read")
def _read(catalog: Catalog, typed: Mapping[str, Cell]) -> dict[str, Cell]:
    """Choices by the names and numbers that formulas take."""
    names = catalog.names
    listed = {"model": catalog.models.column("name"), "gpu": catalog.gpus.column("name")}
    return {
        name: known_name(cell, name, listed.get(name), names) if name in TEXTS else read_count(cell)
        for name, cell in typed.items()
    }


@scope("evidence")
def _evidence(catalog: Catalog, rows: _Rows, deployment: Deployment, engine: Engine) -> dict[str, Any]:
    """What ranges and verdicts depend on beside the kernels, as fields of `Judged`."""
    basis = picked(catalog.gpus.column("basis"), rows.gpu)
    wider = where(basis == "inherited", INHERITED, 1.0)
    is_fitted = _is_fitted(catalog, rows, deployment, engine.fitted_on)
    shares = {"ttft": engine.scatter_ttft, "tpot": engine.scatter_tpot}
    widths = {key: wider if share is None else wider * where(is_fitted, share, 1.0) for key, share in shares.items()}
    known = set(catalog.gpus.column("basis").values)
    is_timed: Any = None
    for rough in (each for each in ROUGH if each in known):
        is_other = basis != rough
        is_timed = is_other if is_timed is None else is_timed & is_other
    is_timed = True if is_timed is None else is_timed
    served, estimate = {}, NOT_TIMED
    if catalog.has_served:
        columns = {"ttft": "sigma_prefill", "tpot": "sigma_decode"}
        served = {key: picked(catalog.gpus.column(name), rows.gpu) for key, name in columns.items()}
        estimate = where(basis == "served", NOT_KERNELS, NOT_TIMED)
    return {"is_timed": is_timed, "widths": widths, "served_sigmas": served, "estimate": estimate}


def _is_fitted(catalog: Catalog, rows: _Rows, deployment: Deployment, fitted_on: Sequence[str]) -> Any:
    """Whether the engine was fitted to runs of the deployment of a row; the names are those of `deployment_name`."""
    if not fitted_on:
        return False
    weights: Any = picked(catalog.quantizations.column("linear"), rows.formats)
    experts = sum(count for count, ffn in deployment.model.ffns if isinstance(ffn, MoeFfn))
    weights = where(experts > 0, picked(catalog.quantizations.column("experts"), rows.formats), weights)
    degrees = ((name, getattr(deployment.plan, name)) for name in ("tp", "pp", "ep", "dp"))
    texts = (where(degree != 1, rows.pool.text_formula(f" {name} {degree}"), "") for name, degree in degrees)
    name = joined(rows.cells["model"], " ", weights, " on ", rows.cells["gpu"], *texts)
    is_fitted: Any = False
    for fitted in fitted_on:
        model, chosen, rest = fitted.split(" ", 2)
        for stored in ("", STORED):
            is_fitted = is_fitted | (name == f"{model} {chosen}{stored} {rest}")
    return is_fitted


class _Rows:
    """Rows of the tables that a case refers to."""

    @scope("rows")
    def __init__(self, catalog: Catalog, cells: Mapping[str, Cell]) -> None:
        self.catalog, self.cells = catalog, cells
        self.pool: CellPool = cells["model"].graph
        self.model = match(cells["model"], catalog.models.column("name"))
        self.gpu = match(cells["gpu"], catalog.gpus.column("name"))
        self.like = picked(catalog.gpus.column("kernels_like"), self.gpu)
        choice = where(cells["quantization"] == "", NATIVE, cells["quantization"])
        self.key = joined(picked(catalog.models.column("formats_like"), self.model), "|", choice)
        self.formats = match(self.key, catalog.quantizations.column("key"))
        cache = cells["kv_cache_dtype"]
        preset = picked(catalog.quantizations.column("kv"), self.formats)
        native = picked(catalog.models.column("kv_cache"), self.model)
        self.cache = where((cache == "") | (cache == AS_QUANTIZATION), preset, where(cache == AUTO, native, cache))
        self.stage = joined(cells["model"], "|", _degree(cells["pp"]))
        self.keys: dict[tuple[KernelKind, str], Cell] = {}
        self.dtypes: dict[tuple[str, str], Cell] = {}
        self.peaks: dict[str, Real] = {}
        self.kernels: dict[tuple[str, str], Efficiency] = {}
        self.quantization = self._resolved_quantization()

    def is_known(self) -> Any:
        """Whether the GPU can multiply every format."""
        known: Any = True
        for (kind, key), entry in self.keys.items():
            if kind.bears_weights and key != "bf16":
                known = is_listed(entry, self.catalog.kernels.column("key")) & (self.peaks[key] > 0) & known
        return known

    @scope("quantization")
    def _resolved_quantization(self) -> ModelQuantization:
        catalog = self.catalog
        has_experts = any(isinstance(kind.example, MoeFfn) for kind in catalog.layer_kinds)
        sections = {}
        for section in SECTIONS:
            alias = catalog.stored_as(section)
            stored = picked(catalog.quantizations.column(alias), self.formats)
            nbytes: Any = picked(catalog.formats.column("nbytes"), match(stored, catalog.formats.column("name")))
            is_mxfp4 = (stored == "mxfp4") | (stored == f"mxfp4{STORED}")
            chosen = Scheme(where(is_mxfp4, "mxfp4", "") if section == "experts" else "", nbytes, 0.0, alias, alias)
            if section in MULTIPLIED or (section == "experts" and has_experts):
                row = self._kernel(MOE if section == "experts" else GEMM, alias, stored)
                activation: Any = picked(catalog.kernels.column("activation_nbytes"), row)
                chosen = chosen._replace(
                    activation_nbytes=activation, dynamic=picked(catalog.kernels.column("dynamic"), row) > 0
                )
            sections[section] = chosen
        for kind in catalog.cache_kinds:
            self._kernel(kind, "kv", self.cache)
        for kind in catalog.sixteen_bit_kinds:
            self._kernel(kind, "bf16", "16-bit")
        if catalog.scores_in_fp8:
            self._kernel(INDEXER, "fp8", "fp8")
        self.peaks["16-bit"] = self.peaks["bf16"]
        nbytes_kept: Any = picked(catalog.formats.column("nbytes"), match(self.cache, catalog.formats.column("name")))
        return ModelQuantization(sections, "", nbytes_kept, "kv", "kv", "16-bit")

    @scope("kernel")
    def _kernel(self, kind: KernelKind, key: str, stored: Cell | str) -> Cell:
        """Look up efficiency and peak of a kind of kernel at a format, and return their row."""
        table = self.catalog.kernels
        self.keys[kind, key] = entry = joined(self.like, f"|{kind.name}|", stored)
        row = match(entry, table.column("key"))
        places = [place for place, cells in enumerate(table.rows) if f"|{kind.name}|" in cells[0]]
        varied = (name for name in EFFICIENCY if self.catalog.varies(table, name, places))
        constants: dict[str, Any] = {name: picked(table.column(name), row) for name in varied}
        self.kernels[kind.name, key] = Efficiency(**constants, p=kind.order)
        self.dtypes[kind.name, key] = picked(table.column("dtype"), row)
        dtype = match(picked(table.column("peak"), row), self.catalog.dtypes.column("dtype"))
        self.peaks.setdefault(key, picked(self.catalog.peaks, self.gpu, dtype))
        return row


@scope("model")
def _model(catalog: Catalog, rows: _Rows) -> StagedModel:
    """The model of a row."""

    @scope("number")
    def number(name: str) -> Any:
        return picked(catalog.models.column(name), rows.model)

    row = match(rows.stage, catalog.stages.column("key"))
    records = {kind.name: _record(kind, number) for kind in catalog.layer_kinds}

    def stage(count: Any, is_first: Any = True, is_last: Any = True) -> Stage:
        held = {kind.name: (count(kind.name), records[kind.name]) for kind in catalog.layer_kinds}
        mixers = tuple(held[kind.name] for kind in catalog.layer_kinds if isinstance(kind.example, Mixer))
        ffns = tuple(held[kind.name] for kind in catalog.layer_kinds if isinstance(kind.example, Ffn))
        return Stage(mixers, ffns, is_first, is_last)

    def staged(place: int) -> Stage:
        @scope("count")
        def count(name: str) -> Cell:
            return picked(catalog.stages.column(f"{place}_{name}"), row)

        return stage(count, count("first") > 0, count("last") > 0)

    return StagedModel(
        name="", short_name=f"{rows.cells['model']}", aliases=(), family="", hidden=number("hidden"),
        vocab=number("vocab"), tied=number("tied") > 0, norms=number("norms"),
        max_context=where(number("max_context") > 0, number("max_context"), INFINITE), groups=(), native={},
        norm_bias=number("norm_bias") > 0, head_bias=number("head_bias") > 0, parallel=number("parallel") > 0,
        whole=stage(lambda name: number(f"{name}_layers")),
        fullest=tuple(staged(place) for place in range(1, catalog.most_stages + 1)),
        count=number("layers"),
    )  # fmt: skip


def _record(kind: LayerKind, number: Any) -> Any:
    """A layer with the numbers of the model."""
    return with_numbers(kind.example, {name: number(f"{kind.name}_{name}") for name in kind.numbers})


@scope("gpu")
def _gpu(catalog: Catalog, rows: _Rows) -> Gpu:
    """The GPU of a row."""

    @scope("number")
    def number(name: str) -> Any:
        return picked(catalog.gpus.column(name), rows.gpu)

    @scope("or else")
    def or_else(cell: Cell, instead: Real) -> Real:
        return where(cell > 0, cell, instead)

    collectives = {}
    terms = {kind.name: kind.terms for kind in COLLECTIVE_KINDS}
    if catalog.has_bridges:
        terms |= dict.fromkeys(map(beyond_bridge, COLLECTIVE_KINDS), ())
    for name in terms:
        row = match(joined(rows.like, f"|{name}"), catalog.collectives.column("key"))
        places = [place for place, entry in enumerate(catalog.collectives.rows) if entry[0].endswith(f"|{name}")]
        constants: dict[str, Any] = {
            field: picked(catalog.collectives.column(field), row)
            for field in COLLECTIVE
            if field != "eta_switch" and catalog.varies(catalog.collectives, field, places)
        }
        if "eta_switch" in terms[name]:
            constants["eta_switch"] = or_else(picked(catalog.collectives.column("eta_switch"), row), _TINY)
        collectives[name] = CollectiveEfficiency(**constants)
    price = number("usd_per_hour") / HOUR
    link, domain = or_else(number("link_bandwidth"), 1.0), or_else(number("domain"), 1)
    host = {}
    if catalog.has_bridges:  # without a bridge the host joins as many GPUs as the link, at its rate
        host = {"host_link": or_else(number("host_link"), link), "host_domain": or_else(number("host_domain"), domain)}
    return Gpu(
        name="", aliases=(), vendor="", generation="", peaks=rows.peaks, bandwidth=number("bandwidth"),
        memory=number("memory"), memory_label=0.0,
        link=Link(
            "", link, domain, number("in_switch") > 0, or_else(number("peer_bandwidth"), link),
        ),
        exp_rate=or_else(number("exp_rate"), INFINITE), scale_out=or_else(number("scale_out"), 1.0), **host,
        passes=(number("slow_prefill"), number("slow_decode")) if catalog.has_served else None,
        price=Price(price, price, price), calibration=Calibration("", (), rows.kernels, collectives),
    )  # fmt: skip


@scope("noted")
def noted(pool: CellPool, deployment: Deployment, workload: Workload) -> Any:
    """Sentences about the limits that a case exceeds."""
    notes = [
        where(exceeds, pool.text_formula(f"{sentence}. "), "") for exceeds, sentence in beyond(deployment, workload)
    ]
    return joined(*notes)


def _faults(catalog: Catalog, rows: _Rows, prediction: Prediction, inputs: CaseCells) -> Iterator[tuple[Any, str]]:
    """Reasons why a case is impossible, with their conditions, the most important first."""
    cells, plan, gpu = rows.cells, prediction.deployment.plan, prediction.deployment.gpu
    model, typed = prediction.deployment.model, inputs.cells
    yield (
        ~is_listed(cells["model"], catalog.models.column("name")),
        f"unknown model {typed['model']}; the sheet Models lists all",
    )
    yield ~is_listed(cells["gpu"], catalog.gpus.column("name")), f"unknown GPU {typed['gpu']}; the sheet GPUs lists all"
    for table, row, name in ((catalog.models, rows.model, "model"), (catalog.gpus, rows.gpu, "gpu")):
        check = picked(table.column("check"), row)
        yield check != "ok", f"{cells[name]}: {check}"
    yield ~is_listed(rows.key, catalog.quantizations.column("key")), f"unknown quantization {typed['quantization']}"
    yield ~is_listed(rows.cache, catalog.caches.column("name")), f"unknown KV cache format {typed['kv_cache_dtype']}"
    for name in CHOICES:
        if name not in TEXTS:
            yield cells[name] == UNREADABLE, f"{name} = {typed[name]} is text where a number belongs; {_ADVICE}"
    for name in ("isl", "osl", "batch"):
        outside = (cells[name] < 1) | (cells[name] > BILLION)
        message = f"{name} must be a number from 1 to {BILLION:.0f}"
        yield where(is_number(cells[name]), outside, ~is_number(cells[name])), message
    prefix = cells["prefix"]
    beyond = (prefix < 0) | (prefix > cells["isl"]) | ((prefix > 0) & (prefix < 1))
    yield where(is_number(prefix), beyond, prefix != ""), "prefix must be 0 or from 1 to isl"
    for name in ("tp", "pp", "ep", "dp", "replicas"):
        degree = cells[name]
        no_degree = (degree < 1) | (degree > MEGA) | (degree % 1 > 0)
        yield where(is_number(degree), no_degree, degree != ""), f"{name} must be a whole number, at least 1"
    for cell, least, most, message, written, may_be_blank in inputs.bounds:
        yield cell == UNREADABLE, f"{written} is text where a number belongs: {message}"
        other = (cell != "") if may_be_blank else ~is_number(cell)
        yield where(is_number(cell), (cell < least) | (cell > most), other), message
    basis = cells["basis"]
    yield (basis != "") & ~is_listed(basis, catalog.bases.column("name")), "basis must be calibrated or ideal"
    message = f"{cells['gpu']} cannot multiply in {cells['quantization']}; choose another quantization"
    yield ~rows.is_known(), message
    message = f"pp = {plan.pp} exceeds the layers of {model.short_name} or the sheet Stages"
    yield ~is_listed(rows.stage, catalog.stages.column("key")) | (plan.pp > model.layers), message
    for fails, why in tp_faults(model, plan.tp):
        yield fails, f"tp = {plan.tp} does not divide {model.short_name}: {why}"
    yield from expert_faults(model, plan)
    experts = sum(count for count, ffn in model.ffns if isinstance(ffn, MoeFfn))
    spread = where(plan.dp > 1, where(experts > 0, maximum(plan.ep, plan.expert_tp), 1), 1)
    leaves = (maximum(plan.tp, spread) > gpu.node) | (crossings(plan, gpu.node) > 0)
    unstated = picked(catalog.gpus.column("scale_out"), rows.gpu) <= 0
    message = f"the ranks exceed the {gpu.node}-GPU domain of {cells['gpu']}, which has no scale-out network"
    yield leaves & unstated, message
    alone = picked(catalog.gpus.column("link_bandwidth"), rows.gpu) <= 0
    yield (maximum(maximum(plan.tp, spread), plan.pp) > 1) & alone, f"{cells['gpu']} has no link between GPUs"


@scope("open tp")
def _open_tp(deployment: Deployment, workload: Workload, degrees: Sequence[int], loads: Mapping[str, Cell]) -> Any:
    """The smallest tensor-parallel degree of a node that divides the model and holds the load; else the widest."""
    widest: Any = 1
    for tp in degrees:
        widest = where(_divides(deployment, tp), tp, widest)
    chosen = least_enough(_scored(deployment, workload, degrees, lambda _: Score(1.0, 0.0, is_enough=True)))
    for name, typed in loads.items():
        is_asked, load = amount_of(name, typed)
        under = replace(workload, load=load)
        score = partial(_score, workload=under)
        chosen = where(is_asked, least_enough(_scored(deployment, under, degrees, score)), chosen)
    return where(chosen > 0, chosen, widest)


def _scored(
    deployment: Deployment, workload: Workload, degrees: Sequence[int], score: Callable[[Deployment], Score]
) -> Iterator[tuple[Real, Real, Score]]:
    """Degrees, whether they divide the model and hold its sequences, and how well they serve."""
    for tp in degrees:
        candidate = replace(deployment, plan=replace(deployment.plan, tp=tp))
        fits = memory(candidate, workload.batch, workload.isl + workload.osl).fits
        yield 1.0 * tp, _divides(deployment, tp) & fits, score(candidate)


def _score(deployment: Deployment, workload: Workload) -> Score:
    return score_of_load(capacity(deployment, workload), workload.load)


def read_load(name: str, typed: Cell) -> Cell:
    """The amount of a load as people type it."""
    return read_rate(typed) if TYPED[name].is_open else read_count(typed)


def amount_of(name: str, typed: Cell) -> tuple[Any, Load]:
    """Whether a load is typed, and the load; where it is not, as little as a search starts with."""
    kind, cell = TYPED[name], read_load(name, typed)
    return is_number(cell), kind.of(where(is_number(cell), maximum(cell, kind.least), kind.start))


def _divides(deployment: Deployment, tp: int) -> Any:
    """Whether a tensor-parallel degree divides a model, within a node."""
    plan = replace(deployment.plan, tp=tp)
    divides: Any = tp * plan.dp <= maximum(deployment.gpu.node, plan.dp)
    for fails, _ in (*tp_faults(deployment.model, tp), *expert_faults(deployment.model, plan)):
        divides = divides & negated(fails)
    return divides


@scope("degree")
def _degree(cell: Cell) -> Any:
    """A whole number, at least 1; 1 without a number."""
    return where(is_number(cell), maximum(cell, 1), 1)


@scope("length")
def _length(cell: Cell, least: float) -> Any:
    """A number of tokens or sequences; the least without a number."""
    return where(is_number(cell), minimum(maximum(cell, least), BILLION), least)


# A case at other batches or prompts: rows for the search of its knees, and for its curves.

_RIDGE_STEPS = 64  # usually a dozen; over several ranks the surplus has a step and takes them all
_HALF_STEPS = 20
_HALVINGS = 21  # of the range up to `LARGEST_BATCH`


class Trial(NamedTuple):
    """A case at another batch."""

    step: Real  # [s]
    compute: Real  # [s] of the weight-bearing kernels of a decode step
    memory: Real  # [s] of their overlapped traffic
    excess: Real  # largest share of a limit of the SLO


class CurvePoint(NamedTuple):
    """A case at other batches or prompts."""

    ttft: Any  # [s]
    tpot: Any  # [s]
    fits: Any  # in memory


@dataclass
class Trials:
    """Trial rows of a case, added as the search asks for them."""

    case: LookupCase
    at: Callable[[float], Trial]  # of the case in the workbook at a batch
    place: Callable[[int, str], str]  # address of a field of a row
    batches: list[Any] = field(default_factory=list)  # cells or numbers, a row each

    def row(self, batch: Real) -> Trial:
        """The row of a batch, added if there is none."""
        line = next((line for line, tried in enumerate(self.batches) if _is_same(tried, batch)), len(self.batches))
        if line == len(self.batches):
            self.batches.append(batch)
        pool: CellPool = self.case.pool
        value = float(np.ravel(batch.value)[0]) if isinstance(batch, Cell) else float(batch)
        known = zip(Trial._fields, self.at(value), strict=True)
        return Trial(*(pool.input(self.place(line, name), np.array([number])) for name, number in known))

    def step(self, batch: Real) -> Pass:
        """A decode step at a batch, as one kernel."""
        trial = self.row(batch)
        terms = Terms(trial.step, trial.compute, trial.memory, 0.0)
        return Pass((Kernel("decode step", GEMM, "", 1, Work(), HOST_ROOF, terms),))


def _is_same(tried: Any, batch: Any) -> bool:
    if isinstance(tried, Cell) or isinstance(batch, Cell):
        return tried is batch
    return bool(tried == batch)


def knees_of(trials: Trials) -> Knees:
    """The four knees of a case, searched in its trial rows."""
    workload, deployment = trials.case.prediction.workload, trials.case.prediction.deployment
    with scope("largest batch"):
        fits = largest_batch(deployment, workload.isl + workload.osl)
    with scope("crossing"):
        ridge = crossing(ridge_surplus(trials.step), LARGEST_BATCH, _RIDGE_STEPS)
        with scope("asymptotic time"):
            slope = asymptotic_time(trials.step)
        half = crossing(half_surplus(trials.step, slope), LARGEST_BATCH, _HALF_STEPS)
    with scope("largest that holds"):
        limit = minimum(fits, LARGEST_BATCH)
        slo = largest_that_holds(lambda batch: trials.row(batch).excess <= 1.0, limit, _HALVINGS)
    return Knees(ridge, half, fits, slo)


def at_batches(case: LookupCase, batch: Cell, slo: Mapping[str, Real]) -> Trial:
    workload = replace(case.prediction.workload, load=Burst(batch))
    first, step = passes(case.is_ideal, case.prediction.deployment, workload)
    compute, traffic = (named("weight sides", side) for side in weight_sides(step))
    time = named("time", step.time)
    excess = slo_excess(named("time", first.time), time, workload.osl, slo)
    return Trial(time, compute, traffic, named("slo excess", excess))


def one_trial(prediction: Prediction, batch: float, slo: Mapping[str, float]) -> Trial:
    """A trial row of a prediction in floats."""
    workload = replace(prediction.workload, load=Burst(batch))
    first, step = prefill(prediction.deployment, workload), decode(prediction.deployment, workload)
    compute, traffic = weight_sides(step)
    return Trial(step.time, compute, traffic, slo_excess(first.time, step.time, workload.osl, slo))


def curve_point(case: LookupCase, batch: Cell, isl: Cell) -> CurvePoint:
    """Formulas of a row of the curves."""
    before = case.prediction.workload
    workload = replace(before, load=Burst(batch), isl=isl, prefix=minimum(before.prefix, isl))
    first, step = passes(case.is_ideal, case.prediction.deployment, workload)
    need = held_memory(case.prediction.deployment, batch, isl + workload.osl)
    return CurvePoint(named("time", first.time), named("time", step.time), named("fits", need.fits))


# Inputs of a workbook: choices of a case, limits and engine times, with their cells and notes.

_SHORTEST = 2.0**-20  # of a limit [ms]
_DEGREES = (1, 2, 4, 8, 16, 32, 64)  # others may be typed
_OF_POOLS = ("handover",)  # engine times that only matter between two pools

#: Notes on the choices, in the order of `CHOICES`.
CHOICE_NOTES: Mapping[str, str] = {
    "model": "from the sheet Models; my-model is yours to fill in",
    "gpu": "from the sheet GPUs; my-gpu is yours to fill in",
    "quantization": "native (the checkpoint's formats) or a preset",
    "kv_cache_dtype": "as quantization (set by it), auto (the checkpoint's) or a format",
    "tp": "tensor-parallel degree; blank: the smallest that holds the load",
    "pp": "pipeline-parallel degree",
    "ep": "expert-parallel degree; divides tp x dp",
    "dp": "data-parallel degree of the attention",
    "replicas": "replicas of tp x pp x dp GPUs",
    "isl": "prompt length [tokens]",
    "osl": "answer length [tokens]",
    "batch": "burst: sequences started together on one idle replica",
    "prefix": "cached prompt tokens",
    "basis": "calibrated or ideal (hardware limit)",
}

#: Entries of the drop-downs: texts, numbers, or the name of a column.
OFFERED: Mapping[str, Any] = {
    "model": "=m_name",
    "gpu": "=g_name",
    "quantization": [NATIVE, *PRESETS],
    "kv_cache_dtype": [AS_QUANTIZATION, AUTO, *KV_FORMATS],
    "basis": list(BASES),
    **{degree: list(_DEGREES) for degree in ("tp", "pp", "ep", "dp")},
}

#: Choices that are texts; only entries of the drop-down are valid.
TEXTS = ("model", "gpu", "quantization", "kv_cache_dtype", "basis")


@dataclass(frozen=True)
class Contents:
    """Contents of a workbook."""

    catalog: Catalog
    engine: Engine
    routing_skew: float | None  # c of the routing; None: uniform
    case: Mapping[str, Any]  # choices of the sheet Answer, by `CHOICES`
    scenarios: Sequence[Mapping[str, Any]]  # choices of each row, likewise
    spare: int  # further rows, left blank
    slo: Mapping[str, float] = field(default_factory=dict)  # [s]
    figures: Sequence[Sequence[str]] = ()  # what, which figure, value, source, address, date, note
    about: Sequence[tuple[str, str]] = ()  # label and text
    loads: Mapping[str, float] = field(default_factory=dict)  # users or request_rate of the sheet Answer
    level: str = "mean"  # what the limits hold for


def name_of(choice: str) -> str:
    """Name of the cell of an input."""
    return f"in_{choice}"


def times_shown(engine: Engine) -> tuple[str, ...]:
    """Engine times that have a cell on the sheet Engine: the network, and those above 0 that matter to one pool."""
    return tuple(
        name for name in HOST_TIMES if name == "network" or (name not in _OF_POOLS and getattr(engine, name) > 0.0)
    )


@scope("asked")
def case_inputs(contents: Contents, pool: CellPool, cells: Mapping[str, Cell]) -> CaseCells:
    """Inputs of a case; those that all cases share are cells of the sheets Answer and Engine."""
    engine = contents.engine
    bounds, times = [], {}
    for name in times_shown(engine):
        typed = _typed_time(pool, engine, name)
        cell = read_time(typed)
        times[name] = cell * MILLI
        bounds.append(Bound(cell, 0.0, HOUR / MILLI, f"{name} must be at least 0 ms", typed))
    routing_skew: Any = None
    if contents.routing_skew is not None:
        typed = pool.input(name_of("routing"), contents.routing_skew)
        routing_skew = read_count(typed)
        message = f"routing skew must be a number from {LEAST_SKEW:g} to {MOST_SKEW:g}"
        bounds.append(Bound(routing_skew, LEAST_SKEW, MOST_SKEW, message, typed))
    for key in SLO_KEYS:
        typed = _typed_limit(contents, pool, key)
        message = f"SLO {key} must be above 0 ms, or blank"
        bounds.append(Bound(read_time(typed), _SHORTEST, INFINITE, message, typed, may_be_blank=True))
    chosen = {name: cells[name] for name in CHOICES}
    stated = replace(engine, tunings=(), **times)
    return CaseCells(chosen, stated, routing_skew, tuple(bounds), limits(contents, pool))


@scope("limits")
def limits(contents: Contents, pool: CellPool) -> dict[str, Real]:
    """Limits of the SLO on the sheet Answer [s]; infinite where blank."""
    bounds = {}
    for key in SLO_KEYS:
        cell = read_time(_typed_limit(contents, pool, key))
        bounds[key] = where(is_number(cell), cell * MILLI, INFINITE)
    return bounds


def _typed_time(pool: CellPool, engine: Engine, name: str) -> Cell:
    """Cell of an engine time [ms], as typed."""
    return pool.input(name_of(name), getattr(engine, name) / MILLI)


def _typed_limit(contents: Contents, pool: CellPool, key: str) -> Cell:
    """Cell of a limit of the SLO [ms], as typed."""
    limit = contents.slo.get(key)
    return pool.input(name_of(f"slo_{key}"), float("nan") if limit is None else limit / MILLI)
