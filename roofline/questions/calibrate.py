"""Calibration of a GPU: from tables of timed kernels to the YAML file that predictions read."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from datetime import UTC
from typing import Any

import numpy as np

from roofline.catalog import find
from roofline.catalog.checks import document_faults
from roofline.catalog.entries import yaml_date, yaml_quoted, yaml_scalar
from roofline.measurements.tables import kernel_groups
from roofline.numbers.arrays import as_array
from roofline.numbers.quantity import MICRO, NANO
from roofline.physics.equation import (
    IDEAL,
    IDEAL_LINK,
    LinkRoof,
    Roof,
    Work,
    collective_time,
    doublings,
    kernel_time,
    link_roof,
)
from roofline.physics.kernels import gemm, sent_bytes
from roofline.physics.layers.attention import gqa_decode, gqa_prefill
from roofline.physics.layers.latent import mla_decode, mla_prefill
from roofline.physics.layers.networks import experts
from roofline.physics.plan import DEFAULT_SKEW, Plan, Scheme
from roofline.questions.inputs.arguments import flag, folder, path, scalars, several
from roofline.serving.verdict import HALF_WIDTH
from roofline.specs import gpu as kinds
from roofline.specs.formats import FORMATS
from roofline.specs.gpu import (
    KINDS,
    Calibration,
    CollectiveEfficiency,
    Efficiency,
    Gpu,
    KernelGroup,
    KernelKind,
    of_gpu,
)
from roofline.specs.model import Gqa, Mla, MoeFfn
from roofline.specs.names import fold
from roofline.support.errors import BadInput, needing, printable
from roofline.support.progress import each
from roofline.support.records import NamedTuple, dataclass, field

_KEPT = "kept"


@dataclass(frozen=True)
class CalibrationFit:
    """A fitted calibration, with the error of every kernel set before and after."""

    name: str
    text: str = field(repr=False)  # YAML
    rows: tuple[Mapping[str, Any], ...]  # kind, dtype, measurements, medians of |ln(predicted/measured)|


def calibrate(
    paths: Sequence[str],
    gpu: str | Gpu,
    *,
    name: str | None = None,
    title: str = "own measurements",
    url: str | None = None,
    keep: bool = True,
    specs: str | None = None,
) -> CalibrationFit:
    """A calibration fitted to the timed kernels of `gpu`; `keep` copies missing sets from the present one."""
    paths = [path("paths", item) for item in several("paths", paths)]
    name, title, url = scalars(name=name, title=title, url=url)
    keep, specs = flag("keep", keep), folder(specs)
    record = gpu if isinstance(gpu, Gpu) else find.load_gpu(gpu, specs)
    names = {fold(known) for known in (record.name, *record.aliases)}
    groups = of_gpu(kernel_groups(paths), names, record.name)
    base = record.calibration
    sets, sources = calibrated_sets(groups, record, base, title, url)
    rows = []
    for group in groups:
        entry = sets[group.kind][group.dtype]
        before = None if base is None else judged(group, record, base)
        row = {"kind": group.kind, "dtype": group.dtype, "measurements": entry["measurements"]}
        row["median_before"] = None if before is None else median_error(before.log_ratios)
        rows.append({**row, "median_after": entry["residual"], "sigma": entry["sigma"]})
    generation = name or record.generation
    document = _document(generation, record, sets, sources, base if keep else None)
    faults = document_faults(document, "calibration")
    if faults:
        raise BadInput(f"the fitted calibration is not valid: {'; '.join(faults)}")
    heading = f"Kernel-time and collective constants of the {generation} generation, fitted on {record.name}."
    return CalibrationFit(generation, calibration_text(document, heading), tuple(rows))


def _document(
    name: str,
    gpu: Gpu,
    sets: Mapping[str, Mapping[str, Any]],
    sources: Mapping[str, Any],
    base: Calibration | None,
) -> dict[str, Any]:
    """The YAML document; sets copied from `base` say so in their source."""
    kernels = {kind: dict(entries) for kind, entries in sets.items() if not KINDS[kind].is_collective}
    links = {kind: entries["bf16"] for kind, entries in sets.items() if KINDS[kind].is_collective}
    used, dates = dict(sources), [str(source["date"]) for source in sources.values()]
    if base is not None:
        for (kind, dtype), efficiency in base.kernels.items():
            if dtype not in kernels.get(kind, {}):
                kernels.setdefault(kind, {})[dtype] = _kept_set(efficiency, of_this_gpu=gpu.name in base.measured_on)
        for collective, constants in base.collectives.items():
            links.setdefault(collective, _kept_set(constants, of_this_gpu=gpu.name in base.measured_on))
        title = f"kept from the shipped calibration {base.name}, not measured again"
        used[_KEPT] = {"title": title, "date": max(dates)}
    cited = {entry["source"] for sets in (*kernels.values(), links) for entry in sets.values()}
    if not links:
        raise BadInput("no collectives measured or kept; a calibration needs at least one")
    return {
        "name": name,
        "measured_on": [gpu.name],
        "engines": sorted({engine for source in sources.values() for engine in source["engines"]}),
        **({"link": "pcie"} if _link(gpu, sets, base) == "pcie" else {}),
        "date": max(dates),
        "kernels": kernels,
        "collectives": links,
        "sources": {key: source for key, source in used.items() if key in cited},
    }


def _link(gpu: Gpu, sets: Mapping[str, Any], base: Calibration | None) -> str:
    """Link of the collectives: this GPU's if any was timed, else that of the calibration they are copied from."""
    if kinds.ALL_REDUCE.name in sets or base is None:
        return "pcie" if gpu.link.kind == "pcie" else "nvlink"
    return base.link


def _kept_set(constants: Any, *, of_this_gpu: bool) -> dict[str, Any]:
    """A set of the present calibration in the form of a file."""
    defaults, parameters = type(constants)(), {}
    for name in constants.__dataclass_fields__:
        value = getattr(constants, name)
        is_stated = value is not None and (value != getattr(defaults, name) or name == "eta")
        if is_stated and name not in ("is_measured", "sigma"):
            parameters[name] = value
    measured = of_this_gpu and constants.is_measured and constants.sigma is not None
    evidence = {"residual": constants.sigma, "sigma": constants.sigma} if measured else {}
    return {**parameter_texts(parameters), **evidence, "source": _KEPT}


# A calibration from tables of timed kernels: a fit for each kind of kernel and dtype.

_SLACK, _MOST_FASTER = 0.1, 0.5  # of ln(ideal / measured); share of rows beyond it
#: Weight of a row of experts that are spread over ranks: ten of them shift the constants that all rows share, but for
#: t0_ep, as much as one row of a rank that holds all experts.
_SPREAD_WEIGHT = 0.1
_MOST_RESIDUAL = 1.2  # median |ln(predicted / measured)| of a fit


class Judged(NamedTuple):
    """ln(predicted / measured) of the rows of one group."""

    group: KernelGroup
    log_ratios: Any  # calibrated
    ideal_log_ratios: Any  # under the textbook roofline
    sigma: float | None  # of the calibration


def kernel_sample(group: KernelGroup, gpu: Gpu) -> Sample:
    """A group as a sample to fit; collectives beyond one scale-up domain are refused."""
    kind, latency = KINDS[group.kind], np.asarray(group.columns["latency"])
    under: Roof | LinkRoof
    if kind.is_collective:
        ranks = np.asarray(group.columns["ranks"])
        if ranks.max() > gpu.link.domain:
            raise BadInput(f"{ranks.max():.0f} ranks exceed the {gpu.link.domain}-GPU scale-up domain of {gpu.name}")
        roofs = {number: link_roof(gpu, "ideal", kind, int(number)) for number in set(ranks.tolist())}
        columns = zip(*((roofs[n].bandwidth, roofs[n].least, doublings(n)) for n in ranks.tolist()), strict=True)
        bandwidth, least, doubled = map(np.asarray, columns)
        under = LinkRoof(bandwidth, ranks, roofs[ranks[0]].efficiency, least, doubled)
    else:
        peak = gpu.peaks[compute_dtype(gpu, kind, group.dtype)]
        under = Roof(peak, gpu.bandwidth, math.inf if gpu.exp_rate is None else gpu.exp_rate)
    spread = np.asarray(group.columns["ep"]) > 1 if kind is kinds.MOE else np.zeros(len(latency), dtype=bool)
    weight = _equal_engines(group) * np.where(spread, _SPREAD_WEIGHT, 1.0)
    return Sample(kind, kernel_work(group, gpu), under, latency, weight, spread)


def calibrated_sets(
    groups: Iterable[KernelGroup], gpu: Gpu, base: Calibration | None, title: str, url: str | None = None
) -> tuple[dict[str, dict[str, Any]], dict[str, dict[str, Any]]]:
    """Fitted sets of a calibration file by kind and dtype (collectives: ``bf16``), and their sources.

    `base` centres the priors of the fits; None for the built-in start values.
    """
    sets: dict[str, dict[str, Any]] = {}
    sources: dict[str, dict[str, Any]] = {}
    for group in each(list(groups), "kinds of kernels"):
        sample = kernel_sample(group, gpu)
        faster = float(np.mean(_ideal(sample) > _SLACK))
        if faster > _MOST_FASTER:
            raise BadInput(
                f"{faster:.0%} of the {group.dtype} {group.kind} rows are faster than the hardware limit; check the "
                "unit (latency_us is in microseconds), the GPU, and whether data stayed in the cache"
            )
        fit = fitted(sample, _known(base, group))
        if fit.residual > _MOST_RESIDUAL:
            raise BadInput(
                f"the {group.dtype} {group.kind} rows are {fit.residual:.0%} off the best fit; check the unit "
                "(latency_us is in microseconds) and what was timed"
            )
        engines = "-".join(dict.fromkeys(version.split()[0] for version in group.versions)) or "unnamed"
        key = f"kernels-{engines}"
        date = group.dates[-1] if group.dates else _today()
        public = {} if url is None else {"url": url}
        sources[key] = {"title": title, **public, "date": date, "engines": [*group.versions], "gpus": [gpu.name]}
        sets.setdefault(group.kind, {})[group.dtype] = _set(fit, key)
    if not sets:
        raise BadInput(f"no kernels of {gpu.name} in the tables; their gpu column must say {gpu.name}")
    return sets, sources


def judged(group: KernelGroup, gpu: Gpu, calibration: Calibration) -> Judged | None:
    """A group judged by a calibration; None where it has no set of this kind and dtype."""
    known = _known(calibration, group)
    if not known:
        return None
    sample = kernel_sample(group, gpu)
    efficiency = _set_of(calibration, group)
    return Judged(group, log_ratio(sample, known), _ideal(sample), None if efficiency is None else efficiency.sigma)


def _ideal(sample: Sample) -> Any:
    """ln(predicted / measured) under the textbook roofline."""
    return _off(sample, IDEAL_LINK if isinstance(sample.roof, LinkRoof) else IDEAL)


def _off(sample: Sample, efficiency: Any) -> Any:
    """ln(predicted / measured) of every row at an efficiency."""
    under: Any = sample.roof._replace(efficiency=efficiency)
    time = collective_time if isinstance(under, LinkRoof) else kernel_time
    return np.log(time(sample.work, under).total / sample.latency)


def median_error(log_ratios: Any) -> float:
    """Median of |ln(predicted / measured)|."""
    return float(np.median(np.abs(log_ratios)))


def _set_of(calibration: Calibration, group: KernelGroup) -> Any:
    """Constants of a calibration for a group; None where it has none."""
    return calibration.kernels.get((group.kind, group.dtype)) or calibration.collectives.get(group.kind)


def _known(base: Calibration | None, group: KernelGroup) -> Mapping[str, float]:
    """Parameters of a calibration for a group; empty where it has none."""
    if base is None:
        return {}
    efficiency = _set_of(base, group)
    fields = asdict(efficiency) if efficiency is not None else {}
    return {name: value for name, value in fields.items() if name not in ("is_measured", "sigma") and value is not None}


def _equal_engines(group: KernelGroup) -> Any:
    """Row weights that give every engine the same total."""
    engines = np.asarray(group.engines)
    names, counts = np.unique(engines, return_counts=True)
    share = dict(zip(names, len(engines) / (len(names) * counts), strict=True))
    return np.asarray([share[name] for name in engines])


def _today() -> str:
    from datetime import datetime

    return datetime.now(UTC).date().isoformat()


def _set(fit: FittedParameters, source: str) -> dict[str, Any]:
    return {
        **parameter_texts(fit.parameters),
        "residual": max(float(f"{fit.residual:.2g}"), 0.001),
        "sigma": max(float(f"{fit.sigma:.2g}"), 0.001),
        "measurements": fit.measurements,
        "source": source,
    }


# The home of scipy: parameters of the one equation, by robust least squares of log residuals of timed kernels.

_LOSS_SCALE = 0.1  # of a log residual: the loss is linear beyond 10 %
_PRIOR_WIDTH = 1.0  # of a log parameter: an ill-determined one stays within about a factor of e of its start
_PRIOR_WEIGHT = 0.1  # the prior of one parameter weighs as much as one row that is off by the loss scale
_STARTS = 3


class FittedTerms(NamedTuple):
    """Parameters of the one equation for a kind of kernel: start values of those to fit, and fixed ones."""

    start: Mapping[str, float]
    fixed: Mapping[str, float]


#: Bounds of the parameters: not beyond the hardware limit, not absurdly slow.
_BOUNDS = {
    "t0": (0.3 * MICRO, 200 * MICRO),
    "t0_ep": (0.3 * MICRO, 200 * MICRO),
    "eta_c": (0.02, 1.0),
    "eta_m": (0.02, 1.0),
    "eta_x": (0.05, 2.0),  # the rate of the special-function units is an estimate, and software can bypass them
    "eta_s": (0.02, 1.0),
    "kappa": (0.0001 * NANO, 20 * NANO),
    "kappa_s": (0.0001 * NANO, MICRO),
    "eps": (0.01 * NANO, 2 * MICRO),
    "a0": (0.5 * MICRO, 200 * MICRO),
    "a1": (NANO, 50 * MICRO),
    "q": (0.1 * NANO, 500 * MICRO),
    "eta": (0.02, 1.0),
    "eta_switch": (0.02, 1.0),
}

#: Start values: constants among the terms of the kind are fitted, others stay fixed.
_VALUES: Mapping[KernelKind, Mapping[str, float]] = {
    kinds.GEMM: {"t0": 4 * MICRO, "eta_c": 0.7, "eta_m": 0.8, "kappa": 0.6 * NANO, "eta_s": 0.4},
    kinds.ATTENTION_PREFILL: {"t0": 12 * MICRO, "eta_c": 0.9, "eta_x": 1.0, "eta_m": 0.3, "kappa_s": 5 * NANO},
    kinds.ATTENTION_DECODE: {"t0": 10 * MICRO, "eta_m": 0.85, "kappa_s": 0.07 * NANO, "eta_c": 0.8},
    kinds.MLA_PREFILL: {"t0": 15 * MICRO, "eta_c": 0.6, "eta_m": 0.6, "kappa_s": 1 * NANO},
    kinds.MLA_DECODE: {"t0": 12 * MICRO, "eta_c": 0.7, "eta_m": 0.8, "kappa_s": 0.1 * NANO},
    kinds.MOE: {
        "t0": 15 * MICRO,
        "t0_ep": 15 * MICRO,
        "eta_c": 0.6,
        "eta_m": 0.7,
        "eta_s": 0.3,
        "kappa_s": 2 * NANO,
        "eps": 150 * NANO,
    },
    kinds.ELEMENTWISE: {"t0": 2 * MICRO, "eta_m": 0.75},
}
_LINK_VALUES = {"a0": 5 * MICRO, "a1": 0.5 * MICRO, "q": 5 * MICRO, "eta": 0.75, "eta_switch": 0.6}


@dataclass(frozen=True)
class Sample:
    """Timed kernels of one kind and dtype on one GPU."""

    kind: KernelKind
    work: Work  # arrays with an element for each row
    roof: Roof | LinkRoof
    latency: Any  # [s] an element for each row
    weight: Any = 1.0  # of each row
    spread: Any = False  # whether experts are spread over ranks, for each row


@dataclass(frozen=True)
class FittedParameters:
    """Fitted parameters of one kind of kernel, and the spread of the rows around them."""

    parameters: Mapping[str, float]
    residual: float  # median |ln(predicted/measured)|
    sigma: float  # standard deviation of a log-normal whose 80 % interval holds 80 % of the rows
    measurements: int


def form(kind: KernelKind) -> FittedTerms:
    """Parameters to fit and fixed parameters [s, 1] of a kind of kernel."""
    if kind.is_collective:
        return FittedTerms({name: _LINK_VALUES[name] for name in kind.terms}, {})
    values = _VALUES[kind]
    fixed = {name: value for name, value in values.items() if name not in kind.terms}
    return FittedTerms({name: values[name] for name in kind.terms}, {**fixed, "p": kind.order})


def log_ratio(sample: Sample, parameters: Mapping[str, float]) -> Any:
    """ln(predicted / measured) of every row, with fields of `Efficiency` or `CollectiveEfficiency` [s, 1]."""
    constants: Any = dict(parameters)
    if isinstance(sample.roof, LinkRoof):
        return _off(sample, CollectiveEfficiency(**constants))
    if constants.get("t0_ep") is not None:
        constants["t0"] = np.where(sample.spread, constants["t0_ep"], constants["t0"])
    return _off(sample, Efficiency(**constants))


def fitted(sample: Sample, base: Mapping[str, float] | None = None) -> FittedParameters:
    """Parameters that fit the timed kernels; `base` centres the prior where parameters are known [s, 1].

    The soft-L1 loss of log residuals keeps outliers from pulling more than linearly; a weak prior holds every
    parameter that the rows do not determine near its start.
    """
    least_squares = _least_squares()
    free, fixed = form(sample.kind)
    start = {name: value for name, value in free.items() if _matters(sample, name)}
    start.update({name: (base or {})[name] for name in start if (base or {}).get(name)})
    size = len(np.atleast_1d(sample.latency))
    if size < len(start):
        raise BadInput(
            f"{size} {sample.kind.name} rows are too few to fit {len(start)} parameters ({', '.join(start)})"
        )
    low, high = np.log([_BOUNDS[name] for name in start]).T
    centre = np.clip(np.log(list(start.values())), low, high)
    scale = np.sqrt(np.broadcast_to(sample.weight, size))

    def residuals(point: Any) -> Any:
        parameters = {**fixed, **dict(zip(start, np.exp(point), strict=True))}
        rows = scale * _softened(log_ratio(sample, parameters))
        return np.concatenate([rows, _PRIOR_WEIGHT * (point - centre) / _PRIOR_WIDTH])

    random = np.random.default_rng(0)
    best = None
    for attempt in range(_STARTS):
        first = centre + (random.normal(0.0, 0.4, len(start)) if attempt else 0.0)
        first = np.clip(first, low + MICRO * (high - low), high - MICRO * (high - low))
        solution = least_squares(residuals, first, bounds=(low, high))
        if best is None or solution.cost < best.cost:
            best = solution
    parameters = {**fixed, **_rounded(dict(zip(start, np.exp(best.x), strict=True)))}  # type: ignore[union-attr]
    off = np.abs(log_ratio(sample, parameters))
    return FittedParameters(parameters, float(np.median(off)), float(np.quantile(off, 0.8)) / HALF_WIDTH, size)


def _softened(off: Any) -> Any:
    """Residuals whose squares are the soft-L1 loss: quadratic up to the loss scale, linear beyond.

    Weights then act on the loss of a row rather than on its residual, so engines count alike however far off they are.
    """
    scaled = off / _LOSS_SCALE
    return np.sign(off) * _LOSS_SCALE * np.sqrt(2.0 * (np.sqrt(1.0 + scaled * scaled) - 1.0))


def _matters(sample: Sample, name: str) -> bool:
    """Whether a parameter changes any predicted time."""
    if name == "eta_switch":
        return bool(np.any(np.asarray(sample.roof.least) < 1.0))  # type: ignore[union-attr]
    field = {"eta_s": "serial_bytes", "kappa": "depth", "eta_x": "exponentials"}.get(name)
    if name == "t0_ep":
        return bool(np.any(sample.spread))
    if name == "eta_x" and not np.isfinite(sample.roof.exp_rate):  # type: ignore[union-attr]
        return False
    return field is None or bool(np.any(np.asarray(getattr(sample.work, field)) > 0.0))


def _rounded(parameters: Mapping[str, float]) -> dict[str, float]:
    """Parameters in three digits, as a calibration file states them."""
    return {name: float(f"{value:.3g}") for name, value in parameters.items()}


def _least_squares() -> Any:
    with needing("fitting needs scipy", "calibrate"):
        from scipy.optimize import least_squares
    return least_squares


# Work of timed kernels, counted as in a prediction.

#: DeepSeek's latent attention, whose kernels the tables time: rank 512, 128 + 64 per head for keys, 128 for values.
_LATENT = {"kv_rank": 512, "nope": 128, "rope": 64, "v": 128}

#: dtype key -> (weight format, bytes of an activation, compute dtype, quantized on the fly)
_KEYS = {
    "bf16": ("bf16", 2.0, "16-bit", False),
    "fp8": ("fp8", 1.0, "fp8", True),
    "fp8_static": ("fp8_static", 1.0, "fp8", False),
    "fp8_block": ("fp8_block", 1.0, "fp8", True),
    "int8": ("int8", 1.0, "int8", True),
    "nvfp4": ("nvfp4", 0.5 + 1.0 / 16, "fp4", True),
    "int4": ("int4", 2.0, "16-bit", False),
    "mxfp4": ("mxfp4", 2.0, "16-bit", False),
    "mxfp4_fp8": ("mxfp4", 1.0, "fp8", False),
    "mxfp4_fp4": ("mxfp4", 0.5 + 1.0 / 32, "fp4", False),
    "weight_only_8bit": ("int8", 2.0, "16-bit", False),
    "weight_only_4bit": ("int4", 2.0, "16-bit", False),
}


def compute_dtype(gpu: Gpu, kind: KernelKind, dtype: str) -> str:
    """Compute dtype of a kernel on a GPU; for attention, `dtype` is the format of the KV cache."""
    sixteen_bit = "bf16" if "bf16" in gpu.peaks else "fp16"
    if kind.is_attention:
        return "fp8" if dtype == "fp8" and "fp8" in gpu.peaks else sixteen_bit
    if kind is kinds.ELEMENTWISE or kind.is_collective:
        return sixteen_bit
    if dtype not in _KEYS:
        raise BadInput(f"unknown dtype {dtype!r} of {kind.name} kernels; choose from {', '.join(_KEYS)}")
    peak = _KEYS[dtype][2]
    peak = sixteen_bit if peak == "16-bit" else peak
    if peak not in gpu.peaks:
        raise BadInput(f"{gpu.name} has no {peak} peak, which {dtype} {kind.name} kernels need")
    return peak


def kernel_work(group: KernelGroup, gpu: Gpu) -> Work:
    """Work [FLOP, B] of a group, each field an array with an element for each row."""
    column = {name: as_array(name, values) for name, values in group.columns.items()}
    kind = KINDS[group.kind]
    compute_dtype(gpu, kind, group.dtype)
    kv_nbytes = 1.0 if group.dtype == "fp8" else 2.0
    match kind:
        case kinds.GEMM:
            return gemm(column["m"], column["n"], column["k"], _scheme(gpu, kind, group.dtype))
        case kinds.ATTENTION_PREFILL:
            return gqa_prefill(_heads(column), column["batch"], column["seq"], 0.0, kv_nbytes, 1)
        case kinds.ATTENTION_DECODE:
            return gqa_decode(_heads(column), column["batch"], 1.0, column["seq"] - 1.0, kv_nbytes, 1)
        case kinds.MLA_PREFILL:
            return mla_prefill(_latent(column), column["batch"], column["seq"], 0.0, 1)
        case kinds.MLA_DECODE:
            return mla_decode(_latent(column), column["batch"], 1.0, column["seq"] - 1.0, kv_nbytes, 1)
        case kinds.MOE:
            return _moe_work(group, column, _scheme(gpu, kind, group.dtype))
        case kinds.ELEMENTWISE:
            return Work(activation_bytes=column["nbytes"])
        case _:
            return Work(link_bytes=sent_bytes(kind, column["nbytes"], column["ranks"]))


def _heads(column: dict[str, Any]) -> Gqa:
    return Gqa(column["heads"], column["kv_heads"], column["head_dim"], column["head_dim"])


def _latent(column: dict[str, Any]) -> Mla:
    return Mla(heads=column["heads"], **_LATENT)  # type: ignore[arg-type]


def _scheme(gpu: Gpu, kind: KernelKind, dtype: str) -> Scheme:
    stored, activation_nbytes, _, dynamic = _KEYS[dtype]
    peak = compute_dtype(gpu, kind, dtype)
    return Scheme(stored, FORMATS[stored].nbytes, activation_nbytes, peak, dtype, dynamic)


def _moe_work(group: KernelGroup, column: dict[str, Any], scheme: Scheme) -> Work:
    """Work of expert kernels; balanced routing touches min(E, T k) experts."""
    size = len(group.routing)
    fields = {name: np.zeros(size) for name in ("flop", "weight_bytes", "serial_bytes", "serial_depth", "items")}
    columns = (column["top_k"], column["experts"], column["tp"], column["ep"], np.asarray(group.routing))
    for top_k, number, tp, ep, routed in sorted({*zip(*columns, strict=True)}):
        alike = zip(columns, (top_k, number, tp, ep, routed), strict=True)
        rows = np.all([values == value for values, value in alike], axis=0)
        tokens = column["tokens"][rows]
        ffn: Any = MoeFfn(experts=int(number), top_k=int(top_k), width=column["width"][rows])
        plan, skew = Plan(tp=int(tp * ep), ep=int(ep)), DEFAULT_SKEW if routed == "skewed" else None
        work = experts(ffn, column["hidden"][rows], tokens, tokens, plan, skew, scheme)
        if routed == "balanced":
            touched = np.maximum(np.minimum(number, tokens * top_k) / ep, 1.0)
            work = work._replace(weight_bytes=work.weight_bytes / work.items * touched, items=touched)
        for name, values in fields.items():
            values[rows] = getattr(work, name)
    return Work(**fields)


# Text of a calibration file, in the layout of the shipped ones.

_HEADER = """\
# {title}
# t = t0 + || F/(eta_c P) + kappa d , Q/(eta_m W) ||_p + X/(eta_x S) + Q_s/(eta_s W) + kappa_s d_s + eps n
# collectives: t = a0 + a1 (n-1) + a2 log2(n) + sqrt(q V/B) + min(V/(eta B), S/(eta_switch B))
# V: bytes that one GPU sends, 2 (n-1)/n S of a tensor S for an all-reduce on a ring
# residual: median |ln(predicted/measured)| of the rows fitted; sigma: of the log-normal whose 80 % interval holds
# 80 % of them. A set without measurements is an assumption that its source explains; its sigma, if it has one, is
# that of the set it was made from.
"""
_UNITS = {
    **dict.fromkeys(("t0", "t0_ep", "a0", "a1", "a2", "q"), ("us", MICRO)),
    **dict.fromkeys(("kappa", "kappa_s", "eps"), ("ns", NANO)),
}
_ORDER = ("t0", "t0_ep", "eta_c", "eta_x", "eta_m", "kappa", "eta_s", "kappa_s", "eps", "p", "a0", "a1", "a2", "q",
          "eta", "eta_switch", "residual", "factor", "sigma", "runs", "models", "measurements", "source", "note",
          "title", "url", "date", "engines", "gpus")  # fmt: skip


def parameter_texts(parameters: Mapping[str, float]) -> dict[str, Any]:
    """Parameters as a calibration file states them: in three digits, times with a unit.

    >>> parameter_texts({"t0": 3.4e-6, "eta_c": 0.8})
    {'t0': '3.4 us', 'eta_c': 0.8}
    """
    texts: dict[str, Any] = {}
    for name, value in parameters.items():
        unit, size = _UNITS.get(name, ("", 1.0))
        digits = _three_digits(value / size)
        texts[name] = f"{digits:.12g} {unit}" if unit else digits
    return texts


def calibration_text(document: Mapping[str, Any], title: str) -> str:
    """YAML that reads back as the document; `title` is its first comment."""
    lines = [_HEADER.format(title=printable(title)), f"name: {yaml_scalar(document['name'])}\n"]
    lines.append(f"measured_on: {_scalar('', document['measured_on'])}\n")
    stated = (name for name in ("engines", "link", "date") if document.get(name))
    lines += [f"{name}: {_scalar(name, document[name])}\n" for name in stated]
    if document.get("served"):
        lines += ["served:\n", *(f"  {name}: {_flow(entry)}\n" for name, entry in document["served"].items())]
    lines.append("kernels:\n" if document["kernels"] else "kernels: {}\n")
    for kind, sets in document["kernels"].items():
        lines.append(f"  {yaml_scalar(kind)}:\n" if sets else f"  {yaml_scalar(kind)}: {{}}\n")
        lines += [f"    {yaml_scalar(dtype)}: {_flow(entry)}\n" for dtype, entry in sets.items()]
    for section in ("collectives", "sources"):
        lines.append(f"{section}:\n" if document[section] else f"{section}: {{}}\n")
        lines += [f"  {yaml_scalar(name)}: {_flow(entry)}\n" for name, entry in document[section].items()]
    if document.get("notes"):
        lines += ["notes:\n", *(f"  - {yaml_quoted(note)}\n" for note in document["notes"])]
    return "".join(lines)


def _flow(entry: Mapping[str, Any]) -> str:
    names = sorted(entry, key=lambda name: _ORDER.index(name) if name in _ORDER else -1)
    return "{" + ", ".join(f"{yaml_scalar(name)}: {_scalar(name, entry[name])}" for name in names) + "}"


def _scalar(name: str, value: Any) -> str:
    if isinstance(value, (list, tuple)):
        return "[" + ", ".join(_scalar("", item) for item in value) + "]"
    if isinstance(value, str) and name in ("title", "note"):
        return yaml_quoted(value)
    if isinstance(value, str) and name == "date":
        return yaml_date(value)
    if isinstance(value, float):
        if value - value != 0.0 and name != "p":  # NaN or infinite; an infinite p is the maximum of both sides
            raise BadInput(f"{name} = {value} must be finite")
        return _decimal(value)
    return yaml_scalar(value)


def _decimal(value: float) -> str:
    """A number without an exponent, where that loses nothing."""
    text = f"{value:.12f}".rstrip("0").rstrip(".")
    return text if value - value == 0.0 and float(text) == value else yaml_scalar(value)


def _three_digits(value: float) -> float:
    return float(f"{value:.3g}")
