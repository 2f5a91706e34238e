"""Tables that formulas look up: GPUs, models, pipeline stages, number formats, efficiencies, collectives."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import cached_property
from typing import Any

import numpy as np

from roofline.numbers.operations import Real, ceil, floor, where
from roofline.numbers.quantity import HOUR
from roofline.outputs.layer_kinds import fullest_stages, layer_kinds_of, number_of
from roofline.outputs.workbook.cells import Cell, Column, named, scope, unmarked
from roofline.outputs.workbook.typed import JOINT, LEVELS, WILDCARDS, name_key
from roofline.physics.assembly import rank_batch
from roofline.physics.equation import (
    BASES,
    LinkRoof,
    Roof,
    Terms,
    basis_of,
    beyond_bridge,
    link_efficiency,
    roof,
    tuned,
)
from roofline.physics.layers.attention import score_dtype
from roofline.physics.layers.kinds import mixer_kinds
from roofline.physics.memory import Memory, memory
from roofline.physics.passes import Pass
from roofline.physics.plan import Deployment, Scheme
from roofline.serving.knee import possible_tp
from roofline.serving.latency import Workload, decode, prefill
from roofline.serving.quantization import (
    AS_QUANTIZATION,
    AUTO,
    MATRICES,
    NATIVE,
    PRESETS,
    SECTIONS,
    cache_scheme,
    resolved_quantization,
    scheme,
    sixteen_bit_dtype,
)
from roofline.serving.verdict import stated_sigma
from roofline.specs.engine import BY_GPU, Engine
from roofline.specs.formats import COMPUTE, FORMATS, KV_FORMATS, SPELLINGS, number_format
from roofline.specs.gpu import (
    COLLECTIVES,
    ELEMENTWISE,
    GEMM,
    HOST,
    INDEXER,
    MOE,
    PCIE,
    ROUGH,
    CollectiveEfficiency,
    Gpu,
    KernelKind,
)
from roofline.specs.model import (
    CrossAttention,
    Csa,
    Csa2,
    Mixer,
    Mla,
    Model,
    MoeFfn,
    Stage,
)
from roofline.support.errors import BadInput, UnsupportedPrecision, shown
from roofline.support.records import replace

#: Marks a format of the checkpoint, as opposed to a chosen one: a GPU without it computes in 16 bits.
STORED = " as stored"
OWN_MODEL, OWN_GPU = "my-model", "my-gpu"
MOST_STAGES = 16
_LONGEST_NAME = 120  # characters; a key joins two names
_WILD = WILDCARDS + JOINT

#: Sections whose matrices run as GEMM kernels.
MULTIPLIED = ("linear", "attention", "shared", "head", "router")
#: Collectives of a pass.
COLLECTIVE_KINDS = tuple(kind for kind in COLLECTIVES if kind.is_in_passes)
EFFICIENCY = ("t0", "t0_ep", "eta_c", "eta_m", "eta_x", "eta_s", "kappa", "kappa_s", "eps", "sigma")
COLLECTIVE = ("a0", "a1", "a2", "q", "eta", "eta_switch", "sigma")
#: Columns of GPUs whose passes servers told: factors on prefill passes and decode steps, and their sigmas.
SERVED_COLUMNS = ("slow_prefill", "slow_decode", "sigma_prefill", "sigma_decode")
#: Columns of GPUs with bridges: PCIe rate, and GPUs of a host.
HOST_COLUMNS = ("host_link", "host_domain")


class Table:
    """A table on a sheet, with columns named for formulas."""

    def __init__(self, sheet: str, prefix: str, names: Sequence[str], rows: Sequence[Sequence[Any]]) -> None:
        self.sheet = sheet
        self.prefix = prefix
        self.names = tuple(names)
        self.rows = [tuple(row) for row in rows]
        self._columns: dict[str, Column] = {}

    def column(self, name: str, several: Sequence[str] = ()) -> Column:
        """A column, or several as one range, by its name."""
        column = self._columns.get(name)
        if column is None:
            if several:
                places = [self.names.index(one) for one in several]
                values = np.array([[row[place] or 0.0 for place in places] for row in self.rows], dtype=float)
            else:
                values = _array([row[self.names.index(name)] for row in self.rows])
            column = self._columns[name] = Column(f"{self.prefix}_{name}", values)
        return column


class Catalog:
    """All tables of a workbook."""

    def __init__(self, models: Sequence[Model], gpus: Sequence[Gpu], engine: Engine) -> None:
        self.chosen_models, self.chosen_gpus, self.engine = tuple(models), tuple(gpus), engine
        self.layer_kinds, self._held = layer_kinds_of(models)
        self.dtypes = Table("GPUs", "d", ("dtype",), [(dtype,) for dtype in COMPUTE])

    @cached_property
    def degrees(self) -> list[int]:
        """Tensor-parallel degrees that divide one of the models, within the widest node."""
        widest = max(gpu.node for gpu in self.chosen_gpus)
        return sorted({tp for model in self.chosen_models for tp in possible_tp(model, widest)})

    @cached_property
    def models(self) -> Table:
        """Shapes of the models, and of one that the planner fills in."""
        layer_fields = [f"{kind.name}_{field}" for kind in self.layer_kinds for field in ("layers", *kind.numbers)]
        names = ("name", "model_id", "formats_like", "layers", "hidden", "vocab", "tied", "norms", "norm_bias")
        rows = [self._model_row(model, model.short_name) for model in self.chosen_models]
        rows.append(self._model_row(self.chosen_models[0], OWN_MODEL))
        return Table(
            "Models", "m", (*names, "head_bias", "parallel", "max_context", "kv_cache", *layer_fields, "check"), rows
        )

    @cached_property
    def gpus(self) -> Table:
        """Rates of the GPUs, and of one that the planner fills in."""
        names = ("name", "kernels_like", "bandwidth", "memory", "link_bandwidth", "peer_bandwidth", "domain")
        more = (*(HOST_COLUMNS if self.has_bridges else ()), "in_switch", "exp_rate", "scale_out", "usd_per_hour")
        named = [*((gpu, gpu.name) for gpu in self.chosen_gpus), (self.chosen_gpus[0], OWN_GPU)]
        rows = []
        for gpu, name in named:
            settings = [getattr(self.engine.on(gpu), key) for key in self.settings]
            basis = basis_of(gpu, "calibrated")
            basis = "inherited" if name == OWN_GPU and basis not in ROUGH else basis  # nobody timed its kernels
            told = _told(gpu) if self.has_served else ()
            rows.append((*_gpu_row(gpu, name, bridges=self.has_bridges), *settings, *told, basis, "ok"))
        more = (*more, *COMPUTE, *self.settings, *(SERVED_COLUMNS if self.has_served else ()))
        return Table("GPUs", "g", (*names, *more, "basis", "check"), rows)

    @property
    def has_served(self) -> bool:
        """Whether passes of some GPU stand on what servers told."""
        return any(gpu.passes is not None for gpu in self.chosen_gpus)

    @property
    def settings(self) -> tuple[str, ...]:
        """Settings of the engine that differ between GPUs."""
        listed = dict(self.engine.by_gpu)
        return tuple(name for name in BY_GPU if name in listed)

    @property
    def has_bridges(self) -> bool:
        """Whether bridges join fewer cards than a host of some GPU holds."""
        return any(gpu.host_domain is not None for gpu in self.chosen_gpus)

    @cached_property
    def stages(self) -> Table:
        """Layers of the pipeline stages that may be the fullest, by model and pp."""
        stages_by_key = {
            (model.short_name, pp): fullest_stages([self._stage_row(model, stage) for stage in model.stages(pp)])
            for model in self.chosen_models
            for pp in range(1, min(MOST_STAGES, model.layers) + 1)
        }
        row = self._model_row(self.chosen_models[0], OWN_MODEL)
        counts = [int(row[self.models.names.index(f"{kind.name}_layers")]) for kind in self.layer_kinds]
        for pp in range(1, MOST_STAGES + 1):
            stages_by_key[OWN_MODEL, pp] = stages_of_one_kind(counts, pp)
        width = max(2, *map(len, stages_by_key.values()))
        held = (*(kind.name for kind in self.layer_kinds), "first", "last")
        names = [f"{place}_{name}" for place in range(1, width + 1) for name in held]
        rows = [
            (f"{name}|{pp}", *(cell for stage in (*stages, *[stages[0]] * (width - len(stages))) for cell in stage))
            for (name, pp), stages in stages_by_key.items()
        ]
        return Table("Stages", "s", ("key", *names), rows)

    @cached_property
    def quantizations(self) -> Table:
        """Number formats of the sections, by model and preset."""
        rows = []
        able = replace(self.chosen_gpus[0], peaks=dict.fromkeys(COMPUTE, 1.0))
        for model in self.chosen_models:
            for choice in (NATIVE, *PRESETS):
                chosen = resolved_quantization(model, able, None if choice == NATIVE else choice)
                stored = STORED if choice == NATIVE else ""
                formats = (chosen.sections[name].format + (stored if name in MATRICES else STORED) for name in SECTIONS)
                rows.append((f"{model.short_name}|{choice}", *formats, chosen.kv_format))
        return Table("Formats", "x", ("key", *SECTIONS, "kv"), rows)

    def stored_as(self, section: str) -> str:
        """The first section with the same formats under every preset, which can share its look-up."""
        table = self.quantizations
        stored = {name: [row[table.names.index(name)] for row in table.rows] for name in SECTIONS}
        return next(name for name in SECTIONS if stored[name] == stored[section])

    @cached_property
    def formats(self) -> Table:
        """Bytes of a value in each format, scales included."""
        sections = (row[1 : 1 + len(SECTIONS)] for row in self.quantizations.rows)
        cells = {str(cell).removesuffix(STORED) for row in sections for cell in row}
        known = {**FORMATS, **{name: number_format(name) for name in sorted(cells.difference(FORMATS))}}
        rows = [(name + stored, entry.nbytes) for name, entry in known.items() for stored in ("", STORED)]
        return Table("Formats", "f", ("name", "nbytes"), rows)

    @cached_property
    def kernels(self) -> Table:
        """Efficiency and compute dtype by GPU, kind of kernel and format."""
        rows = [row for gpu in self.chosen_gpus for row in self._kernel_rows(gpu)]
        return Table("Efficiency", "k", ("key", "dtype", "peak", "activation_nbytes", "dynamic", *EFFICIENCY), rows)

    @cached_property
    def collectives(self) -> Table:
        """Constants by GPU and collective."""
        rows = []
        for gpu in self.chosen_gpus:
            for kind in COLLECTIVE_KINDS:
                rows.append(_collective_row(gpu, kind, kind.name, link_efficiency(gpu, kind)))
                if self.has_bridges:
                    beyond = link_efficiency(gpu, kind, None if gpu.host_domain is None else PCIE)
                    rows.append(_collective_row(gpu, kind, beyond_bridge(kind), beyond))
        return Table("Efficiency", "l", ("key", *COLLECTIVE), rows)

    @cached_property
    def caches(self) -> Table:
        return Table("Formats", "c", ("name",), [(name,) for name in KV_FORMATS])

    @cached_property
    def names(self) -> Table:
        """Every spelling of the choices that are texts, and the name that formulas look up."""
        pairs: list[tuple[str, str, Sequence[str]]] = [
            ("model", model.short_name, (model.name, *model.aliases)) for model in self.chosen_models
        ]
        pairs += [("gpu", gpu.name, gpu.aliases) for gpu in self.chosen_gpus]
        pairs += [("quantization", preset, spellings) for preset, spellings in _spellings([NATIVE, *PRESETS]).items()]
        caches = [AS_QUANTIZATION, AUTO, *KV_FORMATS]
        pairs += [("kv_cache_dtype", name, spellings) for name, spellings in _spellings(caches).items()]
        pairs += [("basis", name, ()) for name in BASES]
        pairs += [("slo_level", name, ()) for name in LEVELS]
        names = {name_key(kind, name): name for kind, name, _ in pairs}
        for kind, name, spellings in pairs:
            for spelling in spellings:
                names.setdefault(name_key(kind, spelling), name)
        return Table("Formats", "n", ("key", "name"), list(names.items()))

    @cached_property
    def bases(self) -> Table:
        return Table("Formats", "b", ("name",), [(name,) for name in BASES])

    @property
    def mixer_names(self) -> tuple[str, ...]:
        """Kinds of layers that are mixers."""
        return tuple(kind.name for kind in self.layer_kinds if isinstance(kind.example, Mixer))

    @property
    def peaks(self) -> Column:
        """Peaks of the GPUs, with a column for each dtype."""
        return self.gpus.column("peaks", COMPUTE)

    @property
    def most_stages(self) -> int:
        """Number of pipeline stages that may be the fullest."""
        return sum(name.endswith("_first") for name in self.stages.names)

    @cached_property
    def cache_kinds(self) -> tuple[KernelKind, ...]:
        """Kinds of kernels that read the KV cache."""
        return tuple(kind for kind in mixer_kinds(self._mixers) if kind.is_attention)

    @cached_property
    def sixteen_bit_kinds(self) -> tuple[KernelKind, ...]:
        """Kinds of kernels that compute in 16 bits under every quantization."""
        kinds = mixer_kinds(mixer for mixer in self._mixers if not isinstance(mixer, Mla))
        return (GEMM, ELEMENTWISE, *(kind for kind in kinds if not kind.is_attention))

    @cached_property
    def scores_in_fp8(self) -> bool:
        """Whether an indexer scores in fp8, on GPUs that have it."""
        return any(isinstance(mixer, Mla) and mixer.indexer is not None for mixer in self._mixers)

    @property
    def _mixers(self) -> list[Mixer]:
        return [kind.example for kind in self.layer_kinds if isinstance(kind.example, Mixer)]

    def varies(self, table: Table, name: str, rows: Iterable[int]) -> bool:
        """Whether a column differs from its neutral value in any of the rows."""
        neutral = None if name == "t0_ep" else 1.0 if name.startswith("eta") else 0.0
        place = table.names.index(name)
        return any(table.rows[row][place] not in (None, neutral) for row in rows)

    def _model_row(self, model: Model, name: str) -> tuple[Any, ...]:
        ends = (int(model.head_bias), int(model.parallel), model.max_context, model.native["kv"])
        shape = (model.layers, model.hidden, model.vocab, int(model.tied), model.norms, int(model.norm_bias), *ends)
        layers: list[Any] = []
        for kind in self.layer_kinds:
            count, record = self._held[model.name].get(kind.name, (0, kind.example))
            layers += [count, *(number_of(record, field) for field in kind.numbers)]
        return (name, model.name, model.short_name, *shape, *layers, "ok")

    def _stage_row(self, model: Model, stage: Stage) -> tuple[int, ...]:
        """Layers of a stage by kind, and whether it is first and last."""
        counts: dict[Any, int] = {record: count for count, record in (*stage.mixers, *stage.ffns)}
        held = self._held[model.name]
        layers = (counts.get(held[kind.name][1], 0) if kind.name in held else 0 for kind in self.layer_kinds)
        return (*layers, int(stage.is_first), int(stage.is_last))

    def _kernel_rows(self, gpu: Gpu) -> list[tuple[Any, ...]]:
        formats = {
            section: dict.fromkeys(row[1 + place] for row in self.quantizations.rows)
            for place, section in enumerate(SECTIONS)
        }
        multiplied = dict.fromkeys(name for part in MULTIPLIED for name in formats[part])
        kernels = [(GEMM, name) for name in multiplied]
        if any(isinstance(kind.example, MoeFfn) for kind in self.layer_kinds):
            kernels += [(MOE, name) for name in formats["experts"]]
        rows = []
        sixteen_bit = sixteen_bit_dtype(gpu)
        for kind, name in kernels:
            try:
                chosen = scheme(number_format(name.removesuffix(STORED)), gpu, asked=not name.endswith(STORED))
            except UnsupportedPrecision:
                continue
            rows.append(self._kernel_row(gpu, kind, name, chosen))
        for kind in self.cache_kinds:
            rows += [self._kernel_row(gpu, kind, name, cache_scheme(number_format(name), gpu)) for name in KV_FORMATS]
        rows += [
            self._kernel_row(gpu, kind, "16-bit", Scheme("16-bit", 2.0, 2.0, sixteen_bit, "bf16"))
            for kind in self.sixteen_bit_kinds
        ]
        if not self.scores_in_fp8:
            return rows
        scored = score_dtype(gpu, sixteen_bit)
        return [*rows, self._kernel_row(gpu, INDEXER, "fp8", Scheme("fp8", 1.0, 1.0, scored, scored))]

    def _kernel_row(self, gpu: Gpu, kind: KernelKind, name: str, chosen: Scheme) -> tuple[Any, ...]:
        under: Roof = roof(gpu, "calibrated", kind, chosen.key, chosen.peak)
        tuned_roof = tuned(under, gpu, self.engine, kind, chosen.key)
        if tuned_roof.efficiency.p != kind.order:
            raise BadInput(
                f"{gpu.name} is not supported in a workbook: its calibration has p = {tuned_roof.efficiency.p:g} for "
                f"{kind.name} kernels, not {kind.order:g}; use predict"
            )
        constants: dict[str, Any] = {field: getattr(tuned_roof.efficiency, field) for field in EFFICIENCY}
        constants["sigma"] = stated_sigma(kind, tuned_roof.efficiency.sigma, gpu)
        constants["eta_c"] *= tuned_roof.peak / under.peak  # units slower than the tensor cores are a share of them
        if kind is MOE and constants["t0_ep"] is None:
            constants["t0_ep"] = constants["t0"]
        key = f"{gpu.name}|{kind.name}|{name}"
        return (key, chosen.key, chosen.peak, chosen.activation_nbytes, int(chosen.dynamic), *constants.values())


def catalog(models: Sequence[Model], gpus: Sequence[Gpu], engine: Engine) -> Catalog:
    for model in models:
        _refuse(model)
    for gpu in gpus:
        if gpu.calibration is None:
            raise BadInput(f"{gpu.name} has no calibration, which a workbook needs; give the GPU by its name")
    _refuse_twins("models", [OWN_MODEL, *(model.short_name for model in models)])
    _refuse_twins("GPUs", [OWN_GPU, *(gpu.name for gpu in gpus)])
    return Catalog(models, gpus, engine)


def _refuse_twins(kind: str, names: Sequence[str]) -> None:
    """Refuse names that a look-up could not tell apart: spreadsheets do not tell capitals."""
    folded = [name.lower() for name in names]
    odd = next((name for name in names if len(name) > _LONGEST_NAME or set(name) & set(_WILD)), None)
    if odd is not None:
        raise BadInput(
            f"{shown(odd)} cannot be a workbook name; use at most {_LONGEST_NAME} characters, none of {_WILD}"
        )
    twin = next((name for name in names if folded.count(name.lower()) > 1), None)
    if twin is not None:
        raise BadInput(f"two {kind} are called {twin}; leave one out or rename it")


def _refuse(model: Model) -> None:
    """Refuse what formulas of a sheet do not express."""
    kinds = {type(mixer) for _, mixer in model.mixers} | {type(ffn) for _, ffn in model.ffns}
    is_odd = model.positions or model.layer_input or model.altup or model.final_norms != 1 or not model.norm_weights
    odd = "learned positions, inputs of single layers, alternating streams and norms other than the usual ones are"
    for is_held, what in (
        (Csa in kinds, "compressed attention (csa) is"),
        (Csa2 in kinds, "compressed attention (csa2) is"),
        (model.streams > 1, "hyper-connections are"),
        (model.ngrams is not None, "embeddings of n-grams are"),
        (CrossAttention in kinds, "layers that attend to images are"),
        (is_odd, odd),
    ):
        if is_held:
            raise BadInput(f"{model.short_name}: {what} not supported in a workbook; use predict")


def _spellings(names: Sequence[str]) -> dict[str, list[str]]:
    """Other spellings of number formats, by name."""
    return {name: [spelling for spelling, meant in SPELLINGS.items() if meant == name] for name in names}


def _gpu_row(gpu: Gpu, name: str, *, bridges: bool) -> tuple[Any, ...]:
    link = gpu.link
    rates = (gpu.bandwidth, gpu.memory, link.bandwidth, link.peer_bandwidth, link.domain)
    host = (None, None) if gpu.host_domain is None else (gpu.host_link, gpu.host_domain)
    price = None if gpu.price is None else gpu.price.typical * HOUR
    more = (int(link.in_switch_reduction), gpu.exp_rate, gpu.scale_out, price, *map(gpu.peaks.get, COMPUTE))
    return (name, gpu.name, *rates, *(host if bridges else ()), *more)


def _told(gpu: Gpu) -> tuple[float, ...]:
    """Cells of `SERVED_COLUMNS`; neutral where kernels tell."""
    served = None if gpu.calibration is None else gpu.calibration.served
    sigmas = (0.0, 0.0) if served is None else (served.prefill.sigma, served.decode.sigma)
    return (*(gpu.passes or (1.0, 1.0)), *sigmas)


def _collective_row(gpu: Gpu, kind: KernelKind, name: str, efficiency: CollectiveEfficiency) -> tuple[Any, ...]:
    constants = {field: getattr(efficiency, field) for field in COLLECTIVE}
    constants["sigma"] = stated_sigma(kind, efficiency.sigma, gpu)
    return (f"{gpu.name}|{name}", *constants.values())


def _array(cells: list[Any]) -> Any:
    if any(isinstance(cell, str) for cell in cells):
        return np.array([cell or "" for cell in cells], dtype=object)
    return np.array([cell or 0.0 for cell in cells], dtype=float)


# Look-ups and other operations that only cells have.


def match(text: Cell, keys: Column) -> Cell:
    """Row of a text in a table; the first row where it is not listed."""
    return text.graph.node("row", text, keys)


def is_listed(text: Cell, keys: Column) -> Cell:
    return text.graph.node("is listed", text, keys)


def picked(column: Column, row: Cell, place: Cell | None = None) -> Cell:
    """Entry of a row, from one column or, by `place`, from adjacent columns."""
    if place is None:
        return row.graph.node("at row", column, row)
    return row.graph.node("at row and column", column, row, place)


def joined(first: Cell, *others: Cell | str) -> Cell:
    for other in others:
        first = first.graph.node("&", first, other)
    return first


def known_name(text: Cell, kind: str, listed: Column | None, names: Table) -> Cell:
    """Name that a table lists for a text in any spelling; the text itself where there is none."""
    clean = text.graph.node("clean", text)
    found = clean.graph.node("known", clean, kind, names.column("key"), names.column("name"))
    return found if listed is None else where(is_listed(clean, listed), clean, found)


def read_count(cell: Cell) -> Cell:
    """A number as people type it, such as 2000 or 2k; other texts become `UNREADABLE`, blanks stay."""
    return cell.graph.node("read count", cell)


def read_rate(cell: Cell) -> Cell:
    """A rate [1/s] as people type it, such as 4, 1800/min or 36k/h, where a k is 1000; likewise."""
    return cell.graph.node("read rate", cell)


def read_time(cell: Cell) -> Cell:
    """A time [ms] as people type it, such as 300, 300 ms or 0.3 s; other texts become `UNREADABLE`, blanks stay."""
    return cell.graph.node("read time", cell)


def is_number(cell: Cell) -> Cell:
    """Whether a cell holds a number."""
    return cell.graph.node("is number", cell)


def rounded_to(cell: Cell, digits: int) -> Cell:
    return cell.graph.node("round", cell, digits)


# Distribution of layers over pipeline stages.


def stages_of_one_kind(counts: Sequence[Real], pp: int) -> list[tuple[Any, ...]]:
    """First and last stage of a model with layers of one kind."""
    alone = int(pp == 1)
    first, last = (ceil(count / pp) for count in counts), (floor(count / pp) for count in counts)
    return [(*first, 1, alone), (*last, alone, 1)]


# Passes and memory of a case in cells, with the steps of the answer that they belong to.


@scope("")
def passes(is_ideal: Any, deployment: Deployment, workload: Workload) -> tuple[Pass, Pass]:
    """Prefill and mean decode step on either basis."""
    ideal = replace(deployment, basis="ideal")

    def part(of: Callable[[Deployment, Workload], Pass]) -> Pass:
        both = of(ideal, workload), of(deployment, workload)
        named("rank batch", rank_batch(workload.batch, deployment.plan.dp))  # the cell that both passes made
        for passed in both:
            _name_kernels(passed)
        return _either(is_ideal, *both)

    return part(prefill), part(decode)


@scope("")
def held_memory(deployment: Deployment, batch: Real, length: Real) -> Memory:
    """Memory of the fullest GPU."""
    need = memory(deployment, batch, length)
    named("weight bytes", need.weights)
    named("cache bytes", need.kv_cache)
    named("activation bytes", need.activations)
    return need


def _name_kernels(passed: Pass) -> None:
    """Name the work of a pass after its kernels, and their times after their equation."""
    for kernel in passed.kernels:
        is_collective = isinstance(kernel.roof, LinkRoof)
        for number in (*kernel.work, kernel.count):
            named(unmarked(kernel.name), number)
        for number in kernel.roof if is_collective else ():
            named("link roof", number)
        for number in kernel.terms:
            named("collective time" if is_collective else "kernel time", number)


@scope("either")
def _either(is_ideal: Any, ideal: Pass, real: Pass) -> Pass:
    """A pass on either basis; the host takes time on the calibrated basis only."""
    others = iter(ideal.kernels)
    kernels = []
    for kernel in real.kernels:
        other = kernel._replace(terms=Terms(*[0.0] * len(kernel.terms))) if kernel.kind is HOST else next(others)
        terms = Terms(*(where(is_ideal, *pair) for pair in zip(other.terms, kernel.terms, strict=True)))
        kernels.append(kernel._replace(count=where(is_ideal, other.count, kernel.count), terms=terms))
    return Pass(tuple(kernels))
