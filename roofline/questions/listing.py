"""What the catalogs list: rows, single entries with their sources, named workloads, models imported."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, cast

from roofline.catalog import find
from roofline.catalog.entries import (
    chosen_gpus,
    chosen_models,
    figure_row,
    figures,
    si_value,
    sources,
    spec_yaml,
    with_si,
)
from roofline.catalog.find import document, load_workload, workload_names, written
from roofline.numbers.quantity import BILLION, GIGA, HOUR, MINUTE, MONTH, TERA, rounded, to_text
from roofline.physics.equation import basis_of, served_evidence
from roofline.physics.memory import (
    CONVENTIONS,
    active_parameters,
    kv_bytes_per_token,
    kv_growth_per_token,
    parameters,
    state_bytes_per_sequence,
)
from roofline.questions.inputs.arguments import is_file, scalars
from roofline.questions.inputs.arguments import path as path_of
from roofline.serving.shown import KEYS, gpus_text
from roofline.specs.gpu import NO_LINK, Gpu
from roofline.specs.keys import SHARED, Key, Keys, cells, taken
from roofline.specs.model import Ffn, Indexer, Mixer, Model
from roofline.specs.workload import (
    LATENCIES,
    NOTHING,
    WHOLE_ANSWER,
    NamedWorkload,
    key_text,
    limits_of_text,
    metric_and_level,
)
from roofline.support.dates import days_since
from roofline.support.errors import BadSpec, RooflineError, UnknownName
from roofline.support.records import NamedTuple

if TYPE_CHECKING:
    from roofline.questions.inputs.signatures import WorkloadOptions
    from roofline.serving.prediction import Prediction

__all__ = [
    "NO_LINK",
    "Ffn",
    "Gpu",
    "Indexer",
    "Mixer",
    "Model",
    "document",
    "figure_row",
    "figures",
    "load_workload",
    "si_value",
    "sources",
    "with_si",
    "written",
]


# Catalog entries as table rows, and the figures and sources of a single entry.


def basis(gpu: Gpu) -> str:
    """Default basis of predictions for a GPU: ``calibrated``, ``inherited``, ``served``, ``generic`` or ``ideal``."""
    return basis_of(gpu, "calibrated")


def basis_text(gpu: Gpu) -> str:
    """The same, with the runs behind it where servers alone were measured."""
    calibration = gpu.calibration
    return (served_evidence(calibration) if calibration is not None else "") or basis(gpu)


def gpu_rows(
    specs: str | None = None, vendor: str | None = None, generation: str | None = None, status: str | None = None
) -> list[dict[str, Any]]:
    """GPUs as flat rows, in the order of their names; keys carry their unit."""
    listed = {entry.record.name: entry for entry in find.listed("gpu", specs)}
    chosen = chosen_gpus((entry.record for entry in listed.values()), vendor, generation, status)
    return [cells(GPU_KEYS, _Entry(gpu, listed[gpu.name].content)) for gpu in chosen]


def gpu_row(name: str, specs: str | None = None) -> dict[str, Any]:
    """One GPU as a flat row."""
    return cells(GPU_KEYS, _Entry(find.load_gpu(name, specs), document(name, "gpu", specs)))


def model_rows(
    specs: str | None = None,
    family: str | None = None,
    min_parameters: float | None = None,
    max_parameters: float | None = None,
    *,
    moe: bool | None = None,
) -> list[dict[str, Any]]:
    """Models as flat rows, in the order of their names; keys carry their unit."""
    records = (entry.record for entry in find.listed("model", specs))
    chosen = chosen_models(records, family, min_parameters, max_parameters, moe)
    return [cells(MODEL_KEYS, model) for model in chosen]


def model_row(name: str, specs: str | None = None) -> dict[str, Any]:
    """One model as a flat row."""
    return cells(MODEL_KEYS, find.load_model(name, specs))


def model_counts(model: Model) -> dict[str, Any]:
    """Counts [1] and sizes [B] of a model, from its layers."""
    return {
        "parameters": parameters(model).total,
        "active": {name: active_parameters(model, name) for name in CONVENTIONS},
        "layers": model.layers,
        "kv_bytes_per_token": kv_bytes_per_token(model),
        "kv_growth_bytes_per_token": kv_growth_per_token(model),
        "state_bytes_per_sequence": state_bytes_per_sequence(model),
        "native": dict(model.native),
    }


def _peak(dtype: str) -> Key[_Entry]:
    return Key.number("TFLOP/s", f"Dense peak in {dtype}.", lambda e: _scaled(e.gpu.peaks.get(dtype), TERA))


class _Entry(NamedTuple):
    """A GPU, and its specification as written."""

    gpu: Gpu
    content: Mapping[str, Any]


def _price_date(entry: _Entry) -> str | None:
    priced = [] if entry.gpu.price is None else figures(entry.content)
    return next((figure.date for figure in priced if figure.field == "price"), None)


def _price_source(entry: _Entry) -> str | None:
    price = entry.content.get("price")
    if price is None:
        return None
    source = entry.content.get("sources", {}).get(price["source"], {})
    return str(source.get("title", price["source"]))


def _price_note(entry: _Entry) -> str | None:
    price = entry.content.get("price")
    return None if price is None else price.get("note")


def _price_days(entry: _Entry) -> int | None:
    return days_since(_price_date(entry) or "")


def _rent_of(end: str) -> Callable[[_Entry], float | None]:
    return lambda e: None if e.gpu.price is None else float(getattr(e.gpu.price, end)) * HOUR


def _month(entry: _Entry) -> float | None:
    return None if entry.gpu.price is None else entry.gpu.price.typical * MONTH


def _link_rate(entry: _Entry) -> float | None:
    link = entry.gpu.link
    return None if link.kind == NO_LINK else float(link.bandwidth) / GIGA


#: Keys of a row of a GPU.
GPU_KEYS: Keys[_Entry] = {
    **taken(KEYS, gpu=lambda e: e.gpu.name),
    **taken(SHARED, aliases=lambda e: list(e.gpu.aliases)),
    "vendor": Key.text("Who makes the GPU.", lambda e: e.gpu.vendor, is_open=False),
    "generation": Key.text("Architecture of the GPU.", lambda e: e.gpu.generation, is_open=False),
    "status": Key.text("Whether it ships.", lambda e: e.gpu.status),
    **{f"{dtype}_tflop_s": _peak(dtype) for dtype in ("bf16", "fp8", "int8", "fp4")},
    "bandwidth_tb_s": Key.number("TB/s", "HBM bandwidth.", lambda e: e.gpu.bandwidth / TERA),
    "memory_gb": Key.number("GB", "Usable memory.", lambda e: e.gpu.memory / GIGA),
    "link": Key.text("Scale-up fabric.", lambda e: e.gpu.link.kind),
    "link_gb_s": Key.number("GB/s", "Its bandwidth per direction and GPU.", _link_rate),
    "domain": Key.integer("1", "GPUs that it joins.", lambda e: e.gpu.link.domain),
    "power_w": Key.number("W", "Board power.", lambda e: e.gpu.power),
    **taken(KEYS, usd_per_hour=lambda e: None if e.gpu.price is None else e.gpu.price.typical * HOUR),
    **taken(KEYS, usd_per_month=_month, usd_per_hour_low=_rent_of("low"), usd_per_hour_high=_rent_of("high")),
    "price_date": Key.text("Date of the price.", _price_date),
    "price_age_days": Key.integer("days", "Days since then.", _price_days),
    "price_title": Key.text("Source of the typical price.", _price_source),
    "price_note": Key.text("Which providers the range is of.", _price_note),
    **taken(KEYS, basis=lambda e: basis(e.gpu)),
}

#: Keys of a row of a model.
MODEL_KEYS: Keys[Model] = {
    **taken(KEYS, model=lambda m: m.short_name, model_id=lambda m: m.name),
    **taken(SHARED, aliases=lambda m: list(m.aliases)),
    "family": Key.text("Line of models."),
    "layers": Key.integer("1", "Layers of the model."),
    "parameters_b": Key.number(
        "billions", "Parameters, counted from the layers.", lambda m: parameters(m).total / BILLION
    ),
    "active_b": Key.number("billions", "Parameters that one token uses.", lambda m: active_parameters(m) / BILLION),
    "stated_parameters_b": Key.number(
        "billions", "Parameters as published.", lambda m: _scaled(m.stated_total, BILLION)
    ),
    "stated_active_b": Key.number(
        "billions", "Active parameters as published.", lambda m: _scaled(m.stated_active, BILLION)
    ),
    **taken(KEYS, weight_dtype=lambda m: m.native["experts" if m.is_moe else "linear"]),
    "max_context": Key.integer("tokens", "Longest sequence."),
}


def _scaled(value: Any, unit: float) -> float | None:
    return None if value is None else value / unit


# Named workloads: what they are, their options, and what somebody waits for.


class _Judged(NamedTuple):
    """A workload, and how one of its requests fares on an idle server."""

    record: NamedWorkload
    dominates: str | None
    share: float | None
    tightest: str | None
    why: str


def _traffic(name: str) -> Callable[[_Judged], Any]:
    return lambda w: getattr(w.record, name)


#: Keys of a row about a workload.
WORKLOAD_KEYS: Keys[_Judged] = {
    "workload": Key.text("Name of the workload.", lambda w: w.record.name, is_open=False),
    "title": Key.text("What its requests are.", lambda w: w.record.title),
    **taken(KEYS, **{name: _traffic(name) for name in ("isl", "isl_cv", "osl", "osl_cv", "prefix")}),
    "arrivals": Key.text("How requests come: rate, users or batch.", lambda w: w.record.arrivals),
    **taken(SHARED, slo=lambda w: w.record.slo, share=lambda w: w.record.share),
    "dominates": Key.text(
        "The part of an answer that takes most of its time: TTFT, TPOT (all tokens after the first) or both."
    ),
    "ttft_share": Key.number("1", "TTFT over E2EL on an idle server.", lambda w: w.share),
    "tightest": Key.text("Key of the limit that is taken up most."),
    **taken(
        SHARED,
        why=None,
        source=lambda w: w.record.source,
        url=lambda w: w.record.url,
        date=lambda w: w.record.date,
    ),
    "notes": Key.texts("What a reader should know of the workload.", lambda w: list(w.record.notes)),
    "waits_for": Key.text(
        "What somebody waits for: first token, whole answer, or nothing.", lambda w: w.record.awaited
    ),
}

_MODEL, _GPU, _QUANTIZATION = "llama-3.3-70b", "h100-sxm", "fp8"  # default deployment of the latencies
#: Pace of silent reading [tokens/s]: 238 words a minute (Brysbaert, "How many words do we read per minute?", Journal of
#: Memory and Language 109, 2019), at 0.75 words a token (OpenAI, "What are tokens and how to count them?").
READING = 238.0 / 0.75 / MINUTE

_DOMINANT = 2.0 / 3.0  # a part with a larger share of the end-to-end latency dominates


def workloads() -> tuple[str, ...]:
    """Names of the workloads in the catalog.

    Returns:
        Names, sorted.

    >>> import roofline as rl
    >>> "chat" in rl.workloads()
    True
    """
    return workload_names()


def workload_options(
    workload: str | NamedWorkload, specs: str | None = None, *, loaded: bool = True
) -> WorkloadOptions:
    """Keyword arguments of `predict` for a workload.

    Args:
        workload: name, path of a YAML file, or record.
        specs: folder of your own specifications; default $ROOFLINE_SPECS.
        loaded: whether lengths spread, as under a load; a burst has the mean lengths.

    Returns:
        Lengths and their spread, the cached prefix, and the SLO if there is one.

    Raises:
        UnknownName: no such workload.
        BadSpec: its file has faults.

    >>> import roofline as rl
    >>> rl.workload_options("chat", loaded=False)
    {'isl': 1155, 'osl': 211, 'prefix': 0, 'slo': {'ttft': 0.3, 'tpot': 0.025, 'p99_within': 2.0}}
    """
    from roofline.questions.inputs.case import TRAFFIC

    record = workload if isinstance(workload, NamedWorkload) else load_workload(workload, specs)
    options: dict[str, Any] = {"isl": record.isl, "osl": record.osl, "prefix": record.prefix}
    if record.slo:
        options["slo"] = limits_of_text(record.slo)
    if loaded and (record.isl_cv or record.osl_cv):
        options |= dict(zip(TRAFFIC, (record.isl_cv, record.osl_cv, record.lengths), strict=False))
    return cast("WorkloadOptions", options)


def workload_rows(
    model: str | Model | None = None,
    gpu: str | Gpu | None = None,
    names: tuple[str, ...] | None = None,
    specs: str | None = None,
    **options: Any,
) -> list[dict[str, Any]]:
    """A row of `WORKLOAD_KEYS` for each workload; None: all of them, on Llama 3.3 70B in FP8, on H100."""
    if model is None:
        options = {"quantization": _QUANTIZATION, **options}
    deployment = (model or _MODEL, gpu or _GPU)
    records = [load_workload(name, specs) for name in (names or workloads())]
    return [_row(record, deployment, {"specs": specs, **options}) for record in records]


def _row(record: NamedWorkload, deployment: tuple[Any, Any], options: dict[str, Any]) -> dict[str, Any]:
    """A workload, and the latencies of one of its requests on an idle server."""
    from roofline.questions.predict import predict

    dominates, share, tight, why = None, None, None, ""
    try:
        case = workload_options(record, loaded=False)
        alone = predict(*deployment, **{**options, **case})
        share = float(alone.ttft / alone.e2el)
        dominates = "TPOT" if share < 1.0 - _DOMINANT else "TTFT" if share > _DOMINANT else "both"
        why = f"{_waiting(record, alone)}{_limit_taken(alone)}"
        tight = _tightest(alone)
    except UnknownName:
        raise
    except RooflineError as error:
        why = str(error)
    return cells(WORKLOAD_KEYS, _Judged(record, dominates, share, tight and key_text(tight), why))


def _waiting(record: NamedWorkload, alone: Prediction) -> str:
    """What somebody waits for, how long, and what the rest of the answer takes."""
    first, whole = float(alone.ttft), float(alone.e2el)
    percent = f"{100.0 * first / whole:.0f} %"
    gpus = gpus_text(alone.deployment.gpu.name, alone.deployment.num_gpus)
    where = f"on {gpus} with {alone.deployment.model.short_name}"
    prompt = f"{rounded(float(alone.workload.isl - alone.workload.prefix))} tokens to prefill"
    steps = f"{rounded(float(alone.workload.osl) - 1.0)} steps of {to_text(float(alone.tpot or 0.0), 's')}"
    all_of_it = f"{to_text(whole, 's')} ({steps}; {prompt} are {percent}) {where}"
    if record.awaited == NOTHING:
        return f"nobody waits for a single answer, throughput counts; one takes {all_of_it}"
    if record.awaited == WHOLE_ANSWER:
        return f"the caller waits for the whole answer, {all_of_it}"
    speed = float(alone.tok_s_user or math.inf)
    pace = f"{rounded(speed)} tokens/s, {rounded(speed / READING)}x reading speed"
    part = f"{percent} of the {to_text(whole, 's')} for the answer"
    return (
        f"the reader waits for the first token, {to_text(first, 's')} ({prompt}; {part}) {where}; "
        f"the rest comes at {pace}"
    )


def _limit_taken(alone: Prediction) -> str:
    """The tightest limit, and the share of it that an idle server takes."""
    tight = _tightest(alone)
    if tight is None:
        return ""
    limit, taken = to_text(alone.slo[tight], "s"), 100.0 * float(alone.slo_shares[tight])
    return f"; its tightest limit is {key_text(tight)} {limit}, of which an idle server takes {taken:.0f} %"


def _tightest(alone: Prediction) -> str | None:
    """Key of the limit of which an idle server takes the largest share."""
    shares = {key: share for key, share in alone.slo_shares.items() if metric_and_level(key)[0] in LATENCIES}
    return max(shares, key=lambda key: float(shares[key])) if shares else None


# Import of a model: from a Hugging Face configuration or a checkpoint to a specification in YAML.

_FILES = (".json", ".safetensors", ".gguf")


def imported_model(config: str, name: str | None = None, assume: str | None = None) -> tuple[str, tuple[str, ...]]:
    """Specification of a model as YAML, and cautions; `config` is a path or a Hugging Face id."""
    from pathlib import Path

    from roofline.catalog.checks import document_faults
    from roofline.catalog.huggingface.config import hub_config
    from roofline.catalog.huggingface.files import file_document

    config = path_of("config", config)
    name, assume = scalars(name=name, assume=assume)
    path = config if is_file(config) or config.endswith(_FILES) else hub_config(config)
    where = str(Path(path) / "config.json") if Path(path).is_dir() else path
    document, cautions = file_document(path, name, assume=assume)
    faults = document_faults(document, "model")
    if faults:
        raise BadSpec("\n".join(f"{where}:1: {fault}" for fault in faults))
    return spec_yaml(document), tuple(cautions)
