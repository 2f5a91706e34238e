"""A case whose model, GPU, formats and plan are looked up: the formulas of every answer of a workbook."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any

from roofline.ops import Real, maximum, minimum, where
from roofline.physics.efficiency import beyond_bridge
from roofline.physics.forward import crossings
from roofline.physics.plan import Deployment, Plan, Precision, Scheme
from roofline.quantity import BILLION, HOUR, MEGA
from roofline.records import NamedTuple, dataclass, replace
from roofline.serving.latency import Workload
from roofline.serving.limits import beyond
from roofline.serving.precision import AS_PRECISION, AUTO, NATIVE, SECTIONS
from roofline.serving.prediction import Prediction
from roofline.serving.sizing import expert_faults, tp_faults
from roofline.specs.calibration import Calibration, CollectiveEfficiency, Efficiency
from roofline.specs.engine import Engine
from roofline.specs.gpu import Gpu, Link, Price
from roofline.specs.kernels import GEMM, INDEXER, MOE, KernelKind
from roofline.specs.layers import Ffn, Mixer, MoeFfn, Stage
from roofline.specs.model import Model
from roofline.workbook.cell import INFINITE, Cell, CellPool, scope
from roofline.workbook.lookups import found, is_number, joined, match, picked, rounded_to
from roofline.workbook.parts import held_memory, passes
from roofline.workbook.slots import LayerKind
from roofline.workbook.tables import COLLECTIVE, COLLECTIVE_KINDS, EFFICIENCY, MULTIPLIED, Catalog

__all__ = ["CHOICES", "AnyCase", "Asked", "Bound", "lookup_case"]

#: What is chosen for a case, in the order of its columns.
CHOICES = (
    "model", "gpu", "precision", "kv_cache_dtype", "tp", "pp", "ep", "dp", "replicas",
    "isl", "osl", "batch", "prefix", "basis",
)  # fmt: skip

_TINY = 2.0**-100  # stands for an efficiency that is not there


class Bound(NamedTuple):
    """A number that is typed in, and what it may be."""

    cell: Cell
    least: float
    most: float
    said: str  # where it is another
    may_be_blank: bool = False


class Asked(NamedTuple):
    """Cells that say what is asked: names, lengths, plan."""

    cells: Mapping[str, Cell]  # by `CHOICES`
    engine: Engine  # its times as cells
    skew: Real | None  # c of the routing
    bounds: tuple[Bound, ...] = ()  # of what holds for all cases


class AnyCase(NamedTuple):
    """Answer to a case, and why there is none."""

    prediction: Prediction
    reason: Any  # text, empty where there is an answer
    impossible: Any  # the same, empty also where all that is wrong is that it does not fit
    note: Any  # what lies beyond the kernels timed, empty where nothing does
    is_asked: Any  # whether a model is named at all
    is_ideal: Any  # whether light speed is asked for
    pool: CellPool


@dataclass(frozen=True, kw_only=True)
class _AnyModel(Model):
    """A model that has some layers of every kind, or none."""

    whole: Stage | None = None
    fullest: tuple[Stage, ...] = ()
    count: Any = 0

    @cached_property
    def layers(self) -> Any:
        """Number of layers."""
        return self.count

    @cached_property
    def mixers(self) -> tuple[tuple[Any, Mixer], ...]:
        """Every kind of mixer with its number of layers."""
        assert self.whole is not None  # noqa: S101  narrows the type
        return self.whole.mixers

    @cached_property
    def ffns(self) -> tuple[tuple[Any, Ffn], ...]:
        """Every kind of feed-forward network with its number of layers."""
        assert self.whole is not None  # noqa: S101  narrows the type
        return self.whole.ffns

    def stages(self, pp: Any) -> tuple[Stage, ...]:  # noqa: ARG002  they were looked up for it
        """Pipeline stages that may be the fullest.

        Args:
            pp: number of stages [1].

        Returns:
            The stages.
        """
        return self.fullest


@scope("any case")
def lookup_case(catalog: Catalog, asked: Asked) -> AnyCase:
    """What the functions of a prediction say of a case that cells describe.

    Args:
        catalog: tables to look up in.
        asked: the case.

    Returns:
        The prediction, its passes on the basis that is asked for, and the reason where there is none.
    """
    cells = asked.cells
    rows = _Rows(catalog, cells)
    plan = Plan(*(_degree(cells[name]) for name in ("tp", "pp", "ep", "dp")))
    lengths = {name: _length(cells[name], 1.0) for name in ("isl", "osl", "batch")}
    workload = Workload(**lengths, prefix=minimum(_length(cells["prefix"], 0.0), lengths["isl"]))
    model, gpu = _model(catalog, rows), _gpu(catalog, rows)
    replicas = _degree(cells["replicas"])
    deployment = Deployment(model, gpu, plan, rows.precision, skew=asked.skew, replicas=replicas, engine=asked.engine)
    is_ideal = cells["basis"] == "ideal"
    first, step = passes(is_ideal, deployment, workload)
    need: Any = held_memory(deployment, workload.batch, workload.isl + workload.osl)
    prediction = Prediction(deployment, workload, first, step, memory=need, allow_oversize=True)
    impossible: Any = ""
    for fails, said in reversed(list(_faults(catalog, rows, prediction, asked.bounds))):
        impossible = where(fails, rows.pool.said(said), impossible)
    with scope("used"):
        used = rounded_to(100.0 * need.used_fraction, 0)
    with scope("fits"):
        fits = need.fits
    too_large = where(fits, "", rows.pool.said(f"does not fit: {used}% of the usable memory"))
    reason = where(impossible == "", too_large, impossible)
    light = replace(deployment, basis="ideal")
    note = where(is_ideal, _noted(rows.pool, light, workload), _noted(rows.pool, deployment, workload))
    return AnyCase(prediction, reason, impossible, note, cells["model"] != "", is_ideal, rows.pool)


class _Rows:
    """Rows of the tables in which a case finds its figures."""

    @scope("rows")
    def __init__(self, catalog: Catalog, cells: Mapping[str, Cell]) -> None:
        self.catalog, self.cells = catalog, cells
        self.pool: CellPool = cells["model"].graph
        self.model = match(cells["model"], catalog.models.column("name"))
        self.gpu = match(cells["gpu"], catalog.gpus.column("name"))
        self.like = picked(catalog.gpus.column("kernels_like"), self.gpu)
        choice = where(cells["precision"] == "", NATIVE, cells["precision"])
        self.key = joined(picked(catalog.models.column("formats_like"), self.model), "|", choice)
        self.formats = match(self.key, catalog.precisions.column("key"))
        cache = cells["kv_cache_dtype"]
        kept = picked(catalog.precisions.column("kv"), self.formats)
        own = picked(catalog.models.column("kv_cache"), self.model)
        self.cache = where((cache == "") | (cache == AS_PRECISION), kept, where(cache == AUTO, own, cache))
        self.stage = joined(cells["model"], "|", _degree(cells["pp"]))
        self.keys: dict[tuple[KernelKind, str], Cell] = {}
        self.peaks: dict[str, Real] = {}
        self.kernels: dict[tuple[str, str], Efficiency] = {}
        self.precision = self._precision()

    def is_known(self) -> Any:
        """Whether the GPU can multiply every format."""
        known: Any = True
        for (kind, key), wanted in self.keys.items():
            if kind.bears_weights and key != "bf16":
                known = found(wanted, self.catalog.kernels.column("key")) & (self.peaks[key] > 0) & known
        return known

    @scope("precision")
    def _precision(self) -> Precision:
        catalog = self.catalog
        has_experts = any(isinstance(slot.example, MoeFfn) for slot in catalog.slots)
        sections = {}
        for section in SECTIONS:
            alias = catalog.stored_as(section)
            stored = picked(catalog.precisions.column(alias), self.formats)
            nbytes: Any = picked(catalog.formats.column("nbytes"), match(stored, catalog.formats.column("name")))
            how = Scheme("", nbytes, 0.0, alias, alias)
            if section in MULTIPLIED or (section == "experts" and has_experts):
                row = self._kernel(MOE if section == "experts" else GEMM, alias, stored)
                read: Any = picked(catalog.kernels.column("activation_nbytes"), row)
                how = how._replace(activation_nbytes=read, dynamic=picked(catalog.kernels.column("dynamic"), row) > 0)
            sections[section] = how
        for kind in catalog.cache_kinds:
            self._kernel(kind, "kv", self.cache)
        for kind in catalog.wide_kinds:
            self._kernel(kind, "bf16", "wide")
        if catalog.scores_in_fp8:
            self._kernel(INDEXER, "fp8", "fp8")
        self.peaks["wide"] = self.peaks["bf16"]
        kept: Any = picked(catalog.formats.column("nbytes"), match(self.cache, catalog.formats.column("name")))
        return Precision(sections, "", kept, "kv", "kv", "wide")

    @scope("kernel")
    def _kernel(self, kind: KernelKind, key: str, stored: Cell | str) -> Cell:
        """Efficiency and peak of one kind of kernel at one format; the row that they stand in."""
        table = self.catalog.kernels
        self.keys[kind, key] = wanted = joined(self.like, f"|{kind.name}|", stored)
        row = match(wanted, table.column("key"))
        places = [place for place, entry in enumerate(table.rows) if f"|{kind.name}|" in entry[0]]
        varied = (name for name in EFFICIENCY if self.catalog.varies(table, name, places))
        constants: dict[str, Any] = {name: picked(table.column(name), row) for name in varied}
        self.kernels[kind.name, key] = Efficiency(**constants, p=kind.order)
        dtype = match(picked(table.column("peak"), row), self.catalog.dtypes.column("dtype"))
        self.peaks.setdefault(key, picked(self.catalog.peaks, self.gpu, dtype))
        return row


@scope("model")
def _model(catalog: Catalog, rows: _Rows) -> _AnyModel:
    """The model of a row of the table of models."""

    @scope("number")
    def number(name: str) -> Any:
        return picked(catalog.models.column(name), rows.model)

    row = match(rows.stage, catalog.stages.column("key"))
    records = {slot.name: _record(slot, number) for slot in catalog.slots}

    def stage(count: Any, is_first: Any = True, is_last: Any = True) -> Stage:
        held = {slot.name: (count(slot.name), records[slot.name]) for slot in catalog.slots}
        mixers = tuple(held[slot.name] for slot in catalog.slots if isinstance(slot.example, Mixer))
        ffns = tuple(held[slot.name] for slot in catalog.slots if isinstance(slot.example, Ffn))
        return Stage(mixers, ffns, is_first, is_last)

    def staged(place: int) -> Stage:
        @scope("count")
        def count(name: str) -> Cell:
            return picked(catalog.stages.column(f"{place}_{name}"), row)

        return stage(count, count("first") > 0, count("last") > 0)

    return _AnyModel(
        name="", short_name=f"{rows.cells['model']}", aliases=(), family="", hidden=number("hidden"),
        vocab=number("vocab"), tied=number("tied") > 0, norms=number("norms"),
        max_context=where(number("max_context") > 0, number("max_context"), INFINITE), groups=(), native={},
        norm_bias=number("norm_bias") > 0, head_bias=number("head_bias") > 0, parallel=number("parallel") > 0,
        whole=stage(lambda name: number(f"{name}_layers")),
        fullest=tuple(staged(place) for place in range(1, catalog.most_stages + 1)),
        count=number("layers"),
    )  # fmt: skip


def _record(slot: LayerKind, number: Any) -> Any:
    """A layer of a kind with the numbers of the model."""
    cells = {name: number(f"{slot.name}_{name}") for name in slot.numbers}
    inner = {name.removeprefix("indexer_"): cell for name, cell in cells.items() if name.startswith("indexer_")}
    own: dict[str, Any] = {name: cell for name, cell in cells.items() if not name.startswith("indexer_")}
    if inner:
        own["indexer"] = replace(slot.example.indexer, **inner)
    return replace(slot.example, **own)


@scope("gpu")
def _gpu(catalog: Catalog, rows: _Rows) -> Gpu:
    """The GPU of a row of the table of GPUs."""

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
    if catalog.has_bridges:  # without a bridge a host joins what the link joins, at its rate
        host = {"host_link": or_else(number("host_link"), link), "host_domain": or_else(number("host_domain"), domain)}
    return Gpu(
        name="", aliases=(), vendor="", generation="", peaks=rows.peaks, bandwidth=number("bandwidth"),
        memory=number("memory"), memory_label=0.0,
        link=Link(
            "", link, domain, number("in_switch") > 0, or_else(number("peer_bandwidth"), link),
        ),
        exp_rate=or_else(number("exp_rate"), INFINITE), scale_out=or_else(number("scale_out"), 1.0), **host,
        price=Price(price, price, price), calibration=Calibration("", (), rows.kernels, collectives),
    )  # fmt: skip


@scope("noted")
def _noted(pool: CellPool, deployment: Deployment, workload: Workload) -> Any:
    """Sentences on the limits that a case exceeds, one after the other."""
    notes = [where(exceeds, pool.said(f"{said}. "), "") for exceeds, said in beyond(deployment, workload)]
    return joined(*notes)


def _faults(
    catalog: Catalog, rows: _Rows, prediction: Prediction, bounds: Sequence[Bound]
) -> Iterator[tuple[Any, str]]:
    """Why a case cannot be, the first reason first."""
    cells, plan, gpu = rows.cells, prediction.deployment.plan, prediction.deployment.gpu
    model = prediction.deployment.model
    yield (
        ~found(cells["model"], catalog.models.column("name")),
        f"unknown model {cells['model']}; the sheet Models lists all",
    )
    yield ~found(cells["gpu"], catalog.gpus.column("name")), f"unknown GPU {cells['gpu']}; the sheet GPUs lists all"
    for table, row, name in ((catalog.models, rows.model, "model"), (catalog.gpus, rows.gpu, "gpu")):
        check = picked(table.column("check"), row)
        yield check != "ok", f"{cells[name]}: {check}"
    yield ~found(rows.key, catalog.precisions.column("key")), f"unknown precision {cells['precision']}"
    yield ~found(rows.cache, catalog.caches.column("name")), f"unknown KV cache format {cells['kv_cache_dtype']}"
    for name in ("isl", "osl", "batch"):
        outside = (cells[name] < 1) | (cells[name] > BILLION)
        said = f"{name} must be a number from 1 to {BILLION:.0f}"
        yield where(is_number(cells[name]), outside, ~is_number(cells[name])), said
    prefix = cells["prefix"]
    beyond = (prefix < 0) | (prefix > cells["isl"]) | ((prefix > 0) & (prefix < 1))
    yield where(is_number(prefix), beyond, prefix != ""), "prefix must be 0 or from 1 to isl"
    for name in ("tp", "pp", "ep", "dp", "replicas"):
        degree = cells[name]
        no_degree = (degree < 1) | (degree > MEGA) | (degree % 1 > 0)
        yield where(is_number(degree), no_degree, degree != ""), f"{name} must be a whole number, at least 1"
    for cell, least, most, said, may_be_blank in bounds:
        other = (cell != "") if may_be_blank else ~is_number(cell)
        yield where(is_number(cell), (cell < least) | (cell > most), other), said
    basis = cells["basis"]
    yield (basis != "") & (basis != "calibrated") & (basis != "ideal"), "basis must be calibrated or ideal"
    said = f"{cells['gpu']} cannot multiply in {cells['precision']}; choose another precision"
    yield ~rows.is_known(), said
    said = f"pp = {plan.pp} exceeds the layers of {model.short_name} or the sheet Stages"
    yield ~found(rows.stage, catalog.stages.column("key")) | (plan.pp > model.layers), said
    for fails, said in tp_faults(model, plan.tp):
        yield fails, f"tp = {plan.tp} does not divide {model.short_name}: {said}"
    yield from expert_faults(model, plan)
    experts = sum(count for count, ffn in model.ffns if isinstance(ffn, MoeFfn))
    spread = where(plan.dp > 1, where(experts > 0, maximum(plan.ep, plan.expert_tp), 1), 1)
    leaves = (maximum(plan.tp, spread) > gpu.node) | (crossings(plan, gpu.node) > 0)
    unstated = picked(catalog.gpus.column("scale_out"), rows.gpu) <= 0
    said = f"the ranks exceed the {gpu.node}-GPU domain of {cells['gpu']}, which has no scale-out network"
    yield leaves & unstated, said
    alone = picked(catalog.gpus.column("link_bandwidth"), rows.gpu) <= 0
    yield (maximum(maximum(plan.tp, spread), plan.pp) > 1) & alone, f"{cells['gpu']} has no link between GPUs"


@scope("degree")
def _degree(cell: Cell) -> Any:
    """A whole number from 1 on; 1 where nothing else was typed."""
    return where(is_number(cell), maximum(cell, 1), 1)


@scope("length")
def _length(cell: Cell, least: float) -> Any:
    """A number of tokens or sequences; the least where nothing else was typed."""
    return where(is_number(cell), minimum(maximum(cell, least), BILLION), least)
