"""Catalogs as tables that formulas look up: GPUs, models, stages, formats, efficiencies of kernels, collectives."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import cached_property
from typing import Any

import numpy as np

from roofline.errors import BadInput, UnsupportedPrecision, shown
from roofline.physics.efficiency import beyond_bridge, link_efficiency, roof, tuned
from roofline.physics.layers.indexer import score_dtype
from roofline.physics.layers.kinds import mixer_kinds
from roofline.physics.one_equation import Roof
from roofline.physics.plan import Scheme
from roofline.quantity import HOUR
from roofline.records import replace
from roofline.serving.precision import MATRICES, NATIVE, PRESETS, SECTIONS, cache_scheme, precision, scheme, wide_dtype
from roofline.specs.engine import Engine
from roofline.specs.formats import COMPUTE, FORMATS, KV_FORMATS, number_format
from roofline.specs.gpu import PCIE, Gpu
from roofline.specs.kernels import COLLECTIVES, ELEMENTWISE, GEMM, INDEXER, MOE, KernelKind
from roofline.specs.layers import CrossAttention, Csa, Mixer, Mla, MoeFfn, Stage
from roofline.specs.model import Model
from roofline.workbook.cell import Column
from roofline.workbook.slots import fullest_stages, number_of, own_stages, slots_of

__all__ = [
    "COLLECTIVE",
    "COLLECTIVE_KINDS",
    "EFFICIENCY",
    "HOST",
    "MOST_STAGES",
    "MULTIPLIED",
    "OWN_GPU",
    "OWN_MODEL",
    "STORED",
    "Catalog",
    "Table",
    "catalog",
]

#: A format that a checkpoint has, not one that was asked for: where a GPU cannot multiply in it, 16 bits do.
STORED = " as stored"
OWN_MODEL, OWN_GPU = "my-model", "my-gpu"
MOST_STAGES = 16
_LONGEST_NAME = 120  # characters; keys are made of two names
_WILD = "*?~|"  # signs that look-ups read as others, or that join names

#: Sections whose matrices stand under the roof of a GEMM.
MULTIPLIED = ("linear", "attention", "shared", "head", "router")
#: Collectives of a pass.
COLLECTIVE_KINDS = tuple(kind for kind in COLLECTIVES if kind.is_in_passes)
EFFICIENCY = ("t0", "t0_ep", "eta_c", "eta_m", "eta_x", "eta_s", "kappa", "kappa_s", "eps")
COLLECTIVE = ("a0", "a1", "a2", "q", "eta", "eta_switch")
#: Columns of GPUs where bridges join fewer than a host: rate of its PCIe, and how many cards it joins.
HOST = ("host_link", "host_domain")


class Table:
    """Rows of a sheet, its columns named for formulas."""

    def __init__(self, sheet: str, prefix: str, names: Sequence[str], rows: Sequence[Sequence[Any]]) -> None:
        self.sheet = sheet
        self.prefix = prefix
        self.names = tuple(names)
        self.rows = [tuple(row) for row in rows]
        self._columns: dict[str, Column] = {}

    def column(self, name: str, several: Sequence[str] = ()) -> Column:
        """A column, or several side by side, as formulas name it.

        Args:
            name: of the column, or of the several [text].
            several: their names, where there are several [text].

        Returns:
            The column; a blank counts as zero.
        """
        found = self._columns.get(name)
        if found is None:
            if several:
                places = [self.names.index(one) for one in several]
                values = np.array([[row[place] or 0.0 for place in places] for row in self.rows], dtype=float)
            else:
                values = _array([row[self.names.index(name)] for row in self.rows])
            found = self._columns[name] = Column(f"{self.prefix}_{name}", values)
        return found


class Catalog:
    """Everything that a workbook looks up."""

    def __init__(self, models: Sequence[Model], gpus: Sequence[Gpu], engine: Engine) -> None:
        self.models_given, self.gpus_given, self.engine = tuple(models), tuple(gpus), engine
        self.slots, self._held = slots_of(models)
        self.dtypes = Table("GPUs", "d", ("dtype",), [(dtype,) for dtype in COMPUTE])

    @cached_property
    def models(self) -> Table:
        """Shapes of the models, a row each, and of one of the planner's own."""
        own = [f"{slot.name}_{field}" for slot in self.slots for field in ("layers", *slot.numbers)]
        names = ("name", "model_id", "formats_like", "layers", "hidden", "vocab", "tied", "norms", "norm_bias")
        rows = [self._model_row(model, model.short_name) for model in self.models_given]
        rows.append(self._model_row(self.models_given[0], OWN_MODEL))
        return Table("Models", "m", (*names, "head_bias", "parallel", "max_context", "kv_cache", *own, "check"), rows)

    @cached_property
    def gpus(self) -> Table:
        """Rates of the GPUs, a row each, and of one of the planner's own."""
        names = ("name", "kernels_like", "bandwidth", "memory", "link_bandwidth", "peer_bandwidth", "domain")
        more = (*(HOST if self.has_bridges else ()), "in_switch", "exp_rate", "scale_out", "usd_per_hour")
        rows = [_gpu_row(gpu, gpu.name, bridges=self.has_bridges) for gpu in self.gpus_given]
        rows.append(_gpu_row(self.gpus_given[0], OWN_GPU, bridges=self.has_bridges))
        return Table("GPUs", "g", (*names, *more, *COMPUTE, "check"), rows)

    @property
    def has_bridges(self) -> bool:
        """Whether bridges join fewer cards of some GPU than its host."""
        return any(gpu.host_domain is not None for gpu in self.gpus_given)

    @cached_property
    def stages(self) -> Table:
        """Layers of the pipeline stages that may be the fullest, a row for each model and number of stages."""
        found = {
            (model.short_name, pp): fullest_stages([self._stage_row(model, stage) for stage in model.stages(pp)])
            for model in self.models_given
            for pp in range(1, min(MOST_STAGES, model.layers) + 1)
        }
        own = self._model_row(self.models_given[0], OWN_MODEL)
        counts = [int(own[self.models.names.index(f"{slot.name}_layers")]) for slot in self.slots]
        for pp in range(1, MOST_STAGES + 1):
            found[OWN_MODEL, pp] = own_stages(counts, pp)
        width = max(2, *map(len, found.values()))
        names = [
            f"{place}_{name}"
            for place in range(1, width + 1)
            for name in (*(s.name for s in self.slots), "first", "last")
        ]
        rows = [
            (f"{name}|{pp}", *(cell for stage in (*stages, *[stages[0]] * (width - len(stages))) for cell in stage))
            for (name, pp), stages in found.items()
        ]
        return Table("Stages", "s", ("key", *names), rows)

    @cached_property
    def precisions(self) -> Table:
        """Formats of the sections of each model under each choice."""
        rows = []
        able = replace(self.gpus_given[0], peaks=dict.fromkeys(COMPUTE, 1.0))
        for model in self.models_given:
            for choice in (NATIVE, *PRESETS):
                chosen = precision(model, able, None if choice == NATIVE else choice)
                stored = STORED if choice == NATIVE else ""
                formats = (chosen.sections[name].format + (stored if name in MATRICES else STORED) for name in SECTIONS)
                rows.append((f"{model.short_name}|{choice}", *formats, chosen.kv_format))
        return Table("Formats", "x", ("key", *SECTIONS, "kv"), rows)

    def stored_as(self, section: str) -> str:
        """The first section that has the same formats as one under every choice: one look-up serves both.

        Args:
            section: of a model [text].

        Returns:
            The section to look up [text].
        """
        places = [self.precisions.names.index(name) for name in SECTIONS]
        mine = [row[self.precisions.names.index(section)] for row in self.precisions.rows]
        return next(
            name
            for name, place in zip(SECTIONS, places, strict=True)
            if [row[place] for row in self.precisions.rows] == mine
        )

    @cached_property
    def formats(self) -> Table:
        """Bytes of a value in each format, scales included."""
        cells = {str(cell).removesuffix(STORED) for row in self.precisions.rows for cell in row[1 : 1 + len(SECTIONS)]}
        known = {**FORMATS, **{name: number_format(name) for name in sorted(cells.difference(FORMATS))}}
        rows = [(name + stored, entry.nbytes) for name, entry in known.items() for stored in ("", STORED)]
        return Table("Formats", "f", ("name", "nbytes"), rows)

    @cached_property
    def kernels(self) -> Table:
        """Efficiency that each kind of kernel reaches on each GPU, and how it multiplies each format."""
        rows = [row for gpu in self.gpus_given for row in self._kernel_rows(gpu)]
        return Table("Efficiency", "k", ("key", "peak", "activation_nbytes", "dynamic", *EFFICIENCY), rows)

    @cached_property
    def collectives(self) -> Table:
        """Constants of each collective on each GPU."""
        rows = []
        for gpu in self.gpus_given:
            for kind in COLLECTIVE_KINDS:
                efficiency = link_efficiency(gpu, kind)
                rows.append((f"{gpu.name}|{kind.name}", *(getattr(efficiency, field) for field in COLLECTIVE)))
                if self.has_bridges:
                    beyond = link_efficiency(gpu, kind, None if gpu.host_domain is None else PCIE)
                    key = f"{gpu.name}|{beyond_bridge(kind)}"
                    rows.append((key, *(getattr(beyond, field) for field in COLLECTIVE)))
        return Table("Efficiency", "l", ("key", *COLLECTIVE), rows)

    @cached_property
    def caches(self) -> Table:
        """Formats of a KV cache."""
        return Table("Formats", "c", ("name",), [(name,) for name in KV_FORMATS])

    @property
    def mixer_names(self) -> tuple[str, ...]:
        """Kinds of layers of which every layer has one."""
        return tuple(slot.name for slot in self.slots if isinstance(slot.example, Mixer))

    @property
    def peaks(self) -> Column:
        """Peaks of the GPUs, a column for each dtype."""
        return self.gpus.column("peaks", COMPUTE)

    @property
    def most_stages(self) -> int:
        """How many pipeline stages may be the fullest."""
        return sum(name.endswith("_first") for name in self.stages.names)

    @cached_property
    def cache_kinds(self) -> tuple[KernelKind, ...]:
        """Kinds of kernels that read the KV cache."""
        return tuple(kind for kind in mixer_kinds(self._mixers) if kind.is_attention)

    @cached_property
    def wide_kinds(self) -> tuple[KernelKind, ...]:
        """Kinds of kernels that compute in 16 bits whatever the weights are stored in."""
        own = mixer_kinds(mixer for mixer in self._mixers if not isinstance(mixer, Mla))
        return (GEMM, ELEMENTWISE, *(kind for kind in own if not kind.is_attention))

    @cached_property
    def scores_in_fp8(self) -> bool:
        """Whether an indexer scores in fp8 where a GPU has it."""
        return any(isinstance(mixer, Mla) and mixer.indexer is not None for mixer in self._mixers)

    @property
    def _mixers(self) -> list[Mixer]:
        return [slot.example for slot in self.slots if isinstance(slot.example, Mixer)]

    def varies(self, table: Table, name: str, rows: Iterable[int]) -> bool:
        """Whether a column has anything but its neutral value in some rows.

        Args:
            table: the table.
            name: of the column [text].
            rows: places of the rows [1].

        Returns:
            Whether formulas need it [bool].
        """
        neutral = None if name == "t0_ep" else 1.0 if name.startswith("eta") else 0.0
        place = table.names.index(name)
        return any(table.rows[row][place] not in (None, neutral) for row in rows)

    def _model_row(self, model: Model, name: str) -> tuple[Any, ...]:
        ends = (int(model.head_bias), int(model.parallel), model.max_context, model.native["kv"])
        shape = (model.layers, model.hidden, model.vocab, int(model.tied), model.norms, int(model.norm_bias), *ends)
        slots = []
        for slot in self.slots:
            count, record = self._held[model.name].get(slot.name, (0, slot.example))
            slots += [count, *(number_of(record, field) for field in slot.numbers)]
        return (name, model.name, model.short_name, *shape, *slots, "ok")

    def _stage_row(self, model: Model, stage: Stage) -> tuple[int, ...]:
        """Layers of a stage by slot, and which ends it holds."""
        counts: dict[Any, int] = {record: count for count, record in (*stage.mixers, *stage.ffns)}
        held = self._held[model.name]
        layers = (counts.get(held[slot.name][1], 0) if slot.name in held else 0 for slot in self.slots)
        return (*layers, int(stage.is_first), int(stage.is_last))

    def _kernel_rows(self, gpu: Gpu) -> list[tuple[Any, ...]]:
        formats = {
            section: dict.fromkeys(row[1 + place] for row in self.precisions.rows)
            for place, section in enumerate(SECTIONS)
        }
        multiplied = dict.fromkeys(name for part in MULTIPLIED for name in formats[part])
        wanted = [(GEMM, name) for name in multiplied]
        if any(isinstance(slot.example, MoeFfn) for slot in self.slots):
            wanted += [(MOE, name) for name in formats["experts"]]
        rows = []
        wide = wide_dtype(gpu)
        for kind, name in wanted:
            try:
                how = scheme(number_format(name.removesuffix(STORED)), gpu, asked=not name.endswith(STORED))
            except UnsupportedPrecision:
                continue
            rows.append(self._kernel_row(gpu, kind, name, how))
        for kind in self.cache_kinds:
            rows += [self._kernel_row(gpu, kind, name, cache_scheme(number_format(name), gpu)) for name in KV_FORMATS]
        rows += [
            self._kernel_row(gpu, kind, "wide", Scheme("wide", 2.0, 2.0, wide, "bf16")) for kind in self.wide_kinds
        ]
        if not self.scores_in_fp8:
            return rows
        scored = score_dtype(gpu, wide)
        return [*rows, self._kernel_row(gpu, INDEXER, "fp8", Scheme("fp8", 1.0, 1.0, scored, scored))]

    def _kernel_row(self, gpu: Gpu, kind: KernelKind, name: str, how: Scheme) -> tuple[Any, ...]:
        under: Roof = roof(gpu, "calibrated", kind, how.key, how.peak)
        own = tuned(under, gpu, self.engine, kind, how.key)
        if own.efficiency.p != kind.order:
            raise BadInput(
                f"{gpu.name} is not supported in a workbook: its calibration has p = {own.efficiency.p:g} for "
                f"{kind.name} kernels, not {kind.order:g}; use predict"
            )
        constants: dict[str, Any] = {field: getattr(own.efficiency, field) for field in EFFICIENCY}
        constants["eta_c"] *= own.peak / under.peak  # units slower than the tensor cores are a share of them
        if kind is MOE and constants["t0_ep"] is None:
            constants["t0_ep"] = constants["t0"]
        return (
            f"{gpu.name}|{kind.name}|{name}",
            how.peak,
            how.activation_nbytes,
            int(how.dynamic),
            *constants.values(),
        )


def catalog(models: Sequence[Model], gpus: Sequence[Gpu], engine: Engine) -> Catalog:
    """Tables of a workbook.

    Args:
        models: what it may be asked about.
        gpus: where they may run.
        engine: profile whose kernels run.

    Returns:
        The tables.

    Raises:
        BadInput: a model whose layers no workbook holds, a GPU without a calibration, or two of the same name.
    """
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
    if any(isinstance(mixer, Csa) for _, mixer in model.mixers):
        raise BadInput(f"{model.short_name}: compressed attention (csa) is not supported in a workbook; use predict")
    if model.streams > 1:
        raise BadInput(f"{model.short_name}: hyper-connections are not supported in a workbook; use predict")
    if model.ngrams is not None:
        raise BadInput(f"{model.short_name}: embeddings of n-grams are not supported in a workbook; use predict")
    if any(isinstance(mixer, CrossAttention) for _, mixer in model.mixers):
        raise BadInput(f"{model.short_name}: layers that attend to images are not supported in a workbook; use predict")
    if model.positions or model.layer_input or model.altup or model.final_norms != 1 or not model.norm_weights:
        raise BadInput(
            f"{model.short_name}: learned positions, inputs of single layers, alternating streams and norms other than "
            "the usual ones are not supported in a workbook; use predict"
        )


def _gpu_row(gpu: Gpu, name: str, *, bridges: bool) -> tuple[Any, ...]:
    link = gpu.link
    rates = (gpu.bandwidth, gpu.memory, link.bandwidth, link.peer_bandwidth, link.domain)
    host = (None, None) if gpu.host_domain is None else (gpu.host_link, gpu.host_domain)
    price = None if gpu.price is None else gpu.price.typical * HOUR
    return (
        name,
        gpu.name,
        *rates,
        *(host if bridges else ()),
        int(link.in_switch_reduction),
        gpu.exp_rate,
        gpu.scale_out,
        price,
        *(gpu.peaks.get(dtype) for dtype in COMPUTE),
        "ok",
    )


def _array(cells: list[Any]) -> Any:
    if any(isinstance(cell, str) for cell in cells):
        return np.array([cell or "" for cell in cells], dtype=object)
    return np.array([cell or 0.0 for cell in cells], dtype=float)
