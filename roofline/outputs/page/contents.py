"""What a page knows: models, GPUs, engines and formats as plain data, each record once."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from functools import cached_property
from math import gcd, inf
from typing import Any

from roofline.numbers.quantity import HOUR
from roofline.outputs.layer_kinds import fullest_stages
from roofline.outputs.page.passes import EFFICIENCY, START_UP, Kinds, rule_of
from roofline.outputs.page.symbols import COLLECTIVE, COLLECTIVE_KINDS, ENGINE, MODEL, numbers_of
from roofline.physics.equation import (
    basis_of,
    calibrated_set,
    evidence,
    link_efficiency,
    measured_kind,
    roof,
    slowed,
    slowed_link,
    tuned,
)
from roofline.physics.layers.attention import score_dtype
from roofline.physics.layers.kinds import MIXER_KINDS, NETWORK_KINDS, mixer_kinds
from roofline.physics.memory import active_parameters, parameters
from roofline.physics.plan import Deployment, Plan
from roofline.serving.knee import split_numbers
from roofline.serving.prediction import DEFAULT_SIGMA
from roofline.serving.quantization import (
    NATIVE,
    PRESETS,
    SECTIONS,
    cache_scheme,
    resolved_quantization,
    sixteen_bit_dtype,
)
from roofline.serving.verdict import LOADED_TTFT, served_note, stand_in_note, stated_sigma
from roofline.specs.engine import Engine
from roofline.specs.formats import KV_FORMATS, number_format
from roofline.specs.gpu import (
    ELEMENTWISE,
    GEMM,
    INDEXER,
    KINDS,
    MOE,
    NO_LINK,
    PCIE,
    ROUGH,
    STATE_DECODE,
    STATE_PREFILL,
    Gpu,
)
from roofline.specs.model import Mixer, Model, MoeFfn, Stage
from roofline.support.errors import BadInput, RooflineError, UnsupportedPrecision

#: Pipeline stages that a page knows at most.
MOST_STAGES = 16

_TINY = 2.0**-100  # stands for a missing efficiency of a switch
_GPU = "{gpu}"  # in texts that are the same for many

#: The GPU as an engine runs it.
Run = Callable[[Gpu, Engine], Gpu]


class Pool:
    """Values, each once, by their places."""

    def __init__(self) -> None:
        self.values: list[Any] = []
        self._places: dict[Hashable, int] = {}

    def place(self, value: Any, key: Hashable = None) -> int:
        known = _key(value) if key is None else key
        if known not in self._places:
            self._places[known] = len(self.values)
            self.values.append(value)
        return self._places[known]


def _key(value: Any) -> Hashable:
    if isinstance(value, list):
        return tuple(map(_key, value))
    return tuple((name, _key(each)) for name, each in value.items()) if isinstance(value, dict) else value


class PageData:
    """Data of a page about some models, GPUs and engines."""

    def __init__(
        self, models: Sequence[Model], gpus: Sequence[Gpu], engines: Sequence[Engine], run_by: Run, kinds: Kinds
    ) -> None:
        self.models, self.engines, self.run_by, self.kinds = models, engines, run_by, kinds
        self.gpus = gpus
        self._efficiencies, self._tables, self._links, self._details = Pool(), Pool(), Pool(), Pool()
        self._schemes, self._texts, self._choices = Pool(), Pool(), Pool()
        self._signatures, self._classes, self._stand_in_notes = Pool(), Pool(), Pool()
        self._kept: dict[Hashable, tuple[int, Any]] = {}

    def data(self, own: Gpu) -> dict[str, Any]:
        """Plain data: texts, numbers, lists and mappings; what is unknown is None.

        Args:
            own: stands for a GPU that a planner describes.
        """
        models = [self._model(model) for model in self.models]
        for gpu in (own, *self.gpus):
            if _has_sixteen_bits(gpu):
                self._classes.place(gpu, _class_of(gpu))
        gpus = [self._gpu(gpu) for gpu in self.gpus]
        quantizations = self._quantizations()
        return {
            "models": models, "gpus": gpus, "own": self._gpu(own), "engines": [*map(_engine, self.engines)],
            "roofs": [list(each) for each in self._roof_keys], "tables": self._tables.values,
            "efficiencies": self._efficiencies.values, "links": self._links.values, "details": self._details.values,
            "schemes": self._schemes.values, "choices": self._choices.values, "texts": self._texts.values,
            "presets": [NATIVE, *PRESETS], "kvFormats": [*KV_FORMATS], "quantizations": quantizations,
            "kvBytes": [number_format(name).nbytes for name in KV_FORMATS], "standIns": self._stand_in_notes.values,
        }  # fmt: skip

    # Models.

    def _model(self, model: Model) -> dict[str, Any]:
        records = [record for _, record in (*model.mixers, *model.ffns)]
        layers = []
        for count, record in (*model.mixers, *model.ffns):
            kind = self.kinds.kind_of(model, record)
            layers.append([kind.name, count, [*numbers_of(record, kind.numbers).values()]])
        numbers = {name: getattr(model, name) for name in MODEL}
        flags = {name: int(getattr(model, name)) for name in ("tied", "norm_bias", "head_bias", "parallel")}
        idle = sum(count for count, mixer in model.mixers if MIXER_KINDS[type(mixer)].is_idle)
        others = {"idle": idle, "late": model.late, "last": model.last, "is_novel": int(_is_novel(model))}
        signature = tuple(model.native[name] for name in (*SECTIONS, "kv")), model.preset, model.is_moe
        return {
            "name": model.short_name, "id": model.name, "aliases": list(model.aliases), "family": model.family,
            "parameters": parameters(model).total, "activeParameters": active_parameters(model),
            "moe": model.is_moe, "numbers": {**numbers, **flags, **others},
            "maxContext": model.max_context, "frame": self.kinds.frame_of(model), "layers": layers,
            "splits": _splits(model), "experts": _experts(model), "whole": gcd(*split_numbers(model)),
            "stages": self._stages(model, records), "signature": self._signatures.place(model, signature),
            "native": model.native["kv"], "cautions": list(model.cautions),
            "kinds": [kind.name for kind in mixer_kinds(mixer for _, mixer in model.mixers)],
        }  # fmt: skip

    @staticmethod
    def _stages(model: Model, records: Sequence[Any]) -> list[list[list[int]]]:
        """Layers of the stages that may be the fullest, by pp: of each record, and whether it is first and last."""

        def row(stage: Stage) -> tuple[int, ...]:
            mixers: dict[Any, Any] = {record: count for count, record in stage.mixers}
            ffns: dict[Any, Any] = {record: count for count, record in stage.ffns}
            held = (mixers if isinstance(record, Mixer) else ffns for record in records)
            counts = (each.get(record, 0) for each, record in zip(held, records, strict=True))
            return (*counts, int(stage.is_first), int(stage.is_last))

        most = min(MOST_STAGES, model.layers)
        return [[list(each) for each in fullest_stages([*map(row, model.stages(pp))])] for pp in range(1, most + 1)]

    # GPUs.

    def _gpu(self, gpu: Gpu) -> dict[str, Any]:
        link, basis = gpu.link, basis_of(gpu, "calibrated")
        price = gpu.price
        rent = None
        if price is not None:
            rent = {name: getattr(price, name) * HOUR for name in ("low", "typical", "high")} | {"source": price.source}
        is_able = _has_sixteen_bits(gpu)
        by_engine = [self._run(self.run_by(gpu, engine), engine) for engine in self.engines] if is_able else []
        return {
            "name": gpu.name, "aliases": list(gpu.aliases), "vendor": gpu.vendor, "generation": gpu.generation,
            "status": gpu.status, "peaks": dict(gpu.peaks), "memory": gpu.memory, "bandwidth": gpu.bandwidth,
            "price": rent, "basis": basis, "cautions": list(gpu.cautions), "otherNodes": list(gpu.other_nodes),
            "node": gpu.node, "nodeLink": gpu.node_link, "isAlone": link.kind == NO_LINK,
            "hasNetwork": gpu.scale_out is not None, "linkKind": link.kind, "hasBridge": gpu.host_domain is not None,
            "numbers": {
                "bandwidth": gpu.bandwidth, "memory": gpu.memory, "link": link.bandwidth, "domain": link.domain,
                "in_switch": int(link.in_switch_reduction), "peer": _or(link.peer_bandwidth, link.bandwidth),
                "exp_rate": gpu.exp_rate, "scale_out": _or(gpu.scale_out, 1.0),
                "host_link": link.bandwidth if gpu.host_domain is None else gpu.host_link,
                "host_domain": _or(gpu.host_domain, link.domain), **_served_numbers(gpu),
            },
            "servedNote": served_note(gpu),
            "runs": [*by_engine], "standIns": self._stand_ins(gpu),
            "class": self._classes.place(gpu, _class_of(gpu)) if is_able else None,
        }  # fmt: skip

    def _run(self, gpu: Gpu, engine: Engine) -> list[Any]:
        """Roofs, links, evidence and settings of a GPU with an engine; roofs and links of decode steps that differ."""
        begun = engine.on(gpu)
        deployment = Deployment(
            self.models[0], gpu, Plan(), resolved_quantization(self.models[0], gpu), basis_of(gpu, "calibrated"),
            engine=begun,
        )  # fmt: skip
        detail = self._details.place(evidence(deployment))
        settings = [begun.max_num_batched_tokens, begun.max_num_seqs, begun.gpu_memory_utilization]
        prompts, steps = (None, None) if gpu.passes is None else gpu.passes
        own = [] if steps is None else [self._table(gpu, begun, steps), self._link(gpu, steps)]
        return [self._table(gpu, begun, prompts), self._link(gpu, prompts), detail, *settings, *own]

    def _stand_ins(self, gpu: Gpu) -> int | None:
        """Notes on what stands in for kernels that were not measured, by kind and dtype or by kind; None if all do."""
        calibration = gpu.calibration
        if calibration is None or basis_of(gpu, "calibrated") in ROUGH:
            return None
        sets, name, instead = calibration.kernels, calibration.name, {}
        for kind, key in ((KINDS[kind], key) for kind, key in self._roof_keys if kind in (GEMM.name, MOE.name)):
            _, measured = calibrated_set(sets, kind, key)
            if measured != key:
                instead[f"{kind.name} {key}"] = stand_in_note(f"{key} {kind.name}", name, measured)
        for kind in mixer_kinds(mixer for model in self.models for _, mixer in model.mixers):
            other = measured_kind(sets, kind)
            if other is not kind:
                instead[kind.name] = stand_in_note(kind.name, name, other.name)
        return self._stand_in_notes.place(instead)

    def _table(self, gpu: Gpu, engine: Engine, factor: float | None) -> int:
        """Efficiencies of all roofs, in passes that take `factor` times as long."""
        spread = gpu.vendor if basis_of(gpu, "calibrated") == "generic" else ""  # medians mean less on another's GPU
        calibration: Any = gpu.calibration
        tunings = tuple(each for each in engine.tunings if each.generation in (None, gpu.generation))
        key = id(calibration), tunings, spread, factor
        if key not in self._kept:
            row = [self._efficiency(gpu, engine, *each, factor) for each in self._roof_keys]
            self._kept[key] = self._tables.place(row), calibration  # so that no other gets its identity
        return self._kept[key][0]

    def _efficiency(self, gpu: Gpu, engine: Engine, name: str, key: str, factor: float | None) -> int:
        kind = KINDS[name]
        peak = next(iter(gpu.peaks))
        base = roof(gpu, "calibrated", kind, key, peak)
        found = tuned(base, gpu, engine, kind, key).efficiency
        found = found if factor is None else slowed(found, factor)
        if found.p != kind.order:
            raise BadInput(f"{gpu.name}: a page needs p = {kind.order:g} for {name} kernels, not {found.p:g}")
        sigma = stated_sigma(kind, found.sigma, gpu)
        units = [each.peak for each in engine.tunings if each.kind == name and each.dtype in (None, key)
                 and each.generation in (None, gpu.generation) and each.peak is not None]  # fmt: skip
        start = found.t0 if found.t0_ep is None else found.t0_ep
        constants = [getattr(found, each) for each in EFFICIENCY]
        is_measured = int(found.is_measured)
        return self._efficiencies.place([*constants, start, sigma, is_measured, units[-1] if units else None])

    def _link(self, gpu: Gpu, factor: float | None) -> int:
        rows = []
        for kind in COLLECTIVE_KINDS:
            plain = link_efficiency(gpu, kind)
            beyond = plain if gpu.host_domain is None else link_efficiency(gpu, kind, PCIE)
            for each in (plain, beyond) if factor is None else (slowed_link(of, factor) for of in (plain, beyond)):
                constants = [_or(getattr(each, name), _TINY) for name in COLLECTIVE]
                rows.append([*constants, stated_sigma(kind, each.sigma, gpu), int(each.is_measured)])
        return self._links.place(rows)

    @cached_property
    def _roof_keys(self) -> list[tuple[str, str]]:
        """Kinds and dtypes of all roofs that the models may need on the GPUs."""
        keys: dict[tuple[str, str], None] = {}
        for signature in self._signatures.values:
            for gpu in self._classes.values:
                for preset in (None, *PRESETS):
                    try:
                        chosen = resolved_quantization(signature, gpu, preset)
                    except RooflineError:
                        continue
                    for section in ("linear", "attention", "shared", "head", "router"):
                        keys[GEMM.name, chosen.sections[section].key] = None
                    keys[MOE.name, chosen.sections["experts"].key] = None
        mixers = [mixer for model in self.models for _, mixer in model.mixers]
        for kind in mixer_kinds(mixers):
            for key in ("bf16", "fp8") if kind.is_attention or kind is INDEXER else ("bf16",):
                keys[kind.name, key] = None
        for kind in (GEMM, ELEMENTWISE, STATE_PREFILL, STATE_DECODE):
            keys[kind.name, "bf16"] = None
        scored = {score_dtype(gpu, sixteen_bit_dtype(gpu)) for gpu in self._classes.values}
        keys |= {(INDEXER.name, key): None for key in sorted(scored)}
        return list(keys)

    # Formats.

    def _quantizations(self) -> dict[str, Any]:
        """By signature of models, class of GPUs, preset: a choice; by class and KV format: how attention multiplies."""
        chosen = [
            [[self._choice(model, gpu, preset) for preset in (None, *PRESETS)] for gpu in self._classes.values]
            for model in self._signatures.values
        ]
        caches = []
        for gpu in self._classes.values:
            sixteen_bit = sixteen_bit_dtype(gpu)
            row = [[cache_scheme(number_format(name), gpu).key, cache_scheme(number_format(name), gpu).peak]
                   for name in KV_FORMATS]  # fmt: skip
            caches.append({"kv": row, "sixteenBit": sixteen_bit, "scores": score_dtype(gpu, sixteen_bit)})
        return {"chosen": chosen, "classes": caches, "sections": list(SECTIONS)}

    def _choice(self, model: Model, gpu: Gpu, preset: str | None) -> int:
        """Schemes of the sections, KV format and notes; or the reason why there are none."""
        try:
            chosen = resolved_quantization(model, gpu, preset)
        except UnsupportedPrecision as error:
            return self._choices.place([self._text(str(error), gpu)])
        schemes = [self._scheme(chosen.sections[name]) for name in SECTIONS]
        notes = [self._text(note, gpu) for note in chosen.notes]
        return self._choices.place([*schemes, [*KV_FORMATS].index(chosen.kv_format), notes])

    def _scheme(self, scheme: Any) -> int:
        return self._schemes.place(
            [
                scheme.format,
                scheme.weight_nbytes,
                scheme.activation_nbytes,
                scheme.peak,
                scheme.key,
                int(scheme.dynamic),
            ]
        )

    def _text(self, text: str, gpu: Gpu) -> int:
        return self._texts.place(text.replace(gpu.name, _GPU))


def _served_numbers(gpu: Gpu) -> dict[str, float]:
    """Factors on both kinds of passes, and their sigmas: 1 and 0 where kernels tell."""
    served = None if gpu.calibration is None else gpu.calibration.served
    prefill, decode = (1.0, 1.0) if gpu.passes is None else gpu.passes
    first, later = (0.0, 0.0) if served is None else (served.prefill.sigma, served.decode.sigma)
    return {"slow_prefill": prefill, "slow_decode": decode, "served_ttft": first, "served_tpot": later}


def _or(value: float | None, instead: float) -> float:
    return instead if value is None else value


def _has_sixteen_bits(gpu: Gpu) -> bool:
    """Whether a GPU multiplies in a 16-bit format, as every model needs."""
    return "bf16" in gpu.peaks or "fp16" in gpu.peaks


def _class_of(gpu: Gpu) -> Hashable:
    """What the choice of formats depends on."""
    sixteen_bit = sixteen_bit_dtype(gpu)
    is_slow = gpu.peaks.get("int8", inf) < gpu.peaks[sixteen_bit]
    return gpu.vendor, tuple(gpu.peaks), is_slow


def _is_novel(model: Model) -> bool:
    return any(kind.is_novel for kind in mixer_kinds(mixer for _, mixer in model.mixers))


def _splits(model: Model) -> list[list[Any]]:
    """Numbers that tensor parallelism divides: number, name, whether ranks may replicate it."""
    found = []
    for _, mixer in model.mixers:
        for split in MIXER_KINDS[type(mixer)].matrices.sharded_widths(mixer, model.hidden):
            found.append([split.number, split.of, int(split.is_replicated)])
    for _, ffn in model.ffns:
        for split in NETWORK_KINDS[type(ffn)].matrices.sharded_widths(ffn, model.hidden):
            found.append([split.number, split.of, int(split.is_replicated), 1])
    return found


def _experts(model: Model) -> list[list[int]]:
    return [[ffn.experts, ffn.width] for _, ffn in model.ffns if isinstance(ffn, MoeFfn)]


def _engine(engine: Engine) -> dict[str, Any]:
    rule = engine.start_up[0] if engine.start_up else None
    start = {} if rule is None else {name: getattr(rule, name) for name in (*START_UP, "padded_experts")}
    return {
        "name": engine.name, "numbers": {name: getattr(engine, name) for name in ENGINE}, "scheduler": engine.scheduler,
        "byGpu": {name: [[each.value, each.memory, list(each.other_than)] for each in defaults]
                  for name, defaults in engine.by_gpu},
        "overlaps": list(engine.overlaps), "start": start, "rule": rule_of(rule),
        "sigma": [
            _or(engine.sigma_ttft, DEFAULT_SIGMA), _or(engine.sigma_tpot, DEFAULT_SIGMA),
            _or(engine.sigma_loaded_ttft, LOADED_TTFT),
        ],
        "tunings": [
            [each.kind, each.dtype, each.generation, each.note] for each in engine.tunings if each.note
        ],
    }  # fmt: skip
