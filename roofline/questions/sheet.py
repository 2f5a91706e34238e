"""Contents of sizing workbooks, from names and plain numbers."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from importlib.metadata import version
from itertools import product
from math import prod
from typing import TYPE_CHECKING, Any, Unpack

from roofline.catalog import find
from roofline.catalog.entries import figures
from roofline.catalog.files import fingerprint
from roofline.numbers.quantity import BILLION, to_text
from roofline.outputs.files import is_stream, write_whole
from roofline.physics.equation import basis_of, evidence
from roofline.physics.plan import DEFAULT_SKEW
from roofline.questions import catalog
from roofline.questions.inputs import arguments, case
from roofline.questions.inputs.arguments import (
    all_values,
    listed_names,
    number,
    plain_value,
    scalar,
    slo_limits,
    tokens_of_prefix,
)
from roofline.questions.inputs.deployment import POOLED, GpuChoice, choice
from roofline.questions.inputs.options import QUESTIONS, understood
from roofline.questions.predict import DEFAULT_ENGINE, DEFAULTS, predict
from roofline.questions.ranking import Plans
from roofline.serving.knee import check_count
from roofline.serving.prediction import Prediction
from roofline.serving.quantization import AS_QUANTIZATION, AUTO, NATIVE, preset_name, sixteen_bit_dtype
from roofline.specs.formats import number_format
from roofline.specs.gpu import Gpu
from roofline.specs.model import Model
from roofline.specs.workload import OF_REQUESTS, Limits, metric_and_level
from roofline.specs.written import PromptShare
from roofline.support.errors import BadInput, RooflineError, UnknownName, UnsupportedPrecision, needing, shown
from roofline.support.records import replace

if TYPE_CHECKING:
    from roofline.outputs.workbook.case import Contents
    from roofline.outputs.workbook.plans import PlannedAnswer
    from roofline.questions.inputs.signatures import Grid


_MOST_ROWS = 5000
_FIXED = ("engine", "network", "routing", "slo", "specs", "assume")  # one value per workbook; others may be lists
_LOADS = {"concurrency": "users", "request_rate": "request_rate"}  # options and cells of the sheet Answer
_VARIED = ("quantization", "kv_cache_dtype", "tp", "pp", "ep", "dp", "isl", "osl", "batch", "prefix", "basis")
_DEFAULTS: Mapping[str, Any] = {
    **DEFAULTS, "quantization": None, "kv_cache_dtype": None, "tp": None, "pp": 1, "ep": 1, "dp": 1,
    "basis": "calibrated",
}  # fmt: skip


@understood
def sheet(
    path: str,
    models: str | Model | Sequence[str | Model] | Plans,
    gpus: str | Gpu | Sequence[str | Gpu] | None = None,
    *,
    spare: int = 20,
    force: bool = False,
    **options: Unpack[Grid],
) -> int:
    """Write a sizing workbook, whose formulas hold for every model, GPU, format, plan and length in it.

    The sheet Answer opens with the first case; every combination is a scenario row, at its smallest tp by default.

    Args:
        path: file, ending in ``.xlsx``.
        models: one name, alias or record, or several; or the answer of `plan`, whose ranked plans become the sheet
            Plans, their replicas the scenarios; it has the GPUs and options then.
        gpus: one name, alias or record, or several; None for all of the catalog with a 16-bit peak.
        spare: blank rows below the scenarios, to be filled in [1].
        force: overwrite an existing file.
        options: keyword arguments of `predict`: isl, osl, batch, prefix, tp, pp, ep, dp, quantization,
            kv_cache_dtype and basis may be lists; engine, network, routing, slo, specs and assume hold for all. The
            load that concurrency or request_rate states is that of the sheet Answer; scenarios are bursts. Limits hold
            for means, or all for the 95th or the 99th percentile.

    Returns:
        Number of scenario rows written, blank ones excluded [1].

    Raises:
        UnknownName: no such model, GPU or format.
        BadInput: another option, impossible numbers, too many rows, a model whose layers have no
            workbook formulas, plans none of which meets the SLO, a missing library, or a file that exists or cannot be
            written.

    >>> import tempfile
    >>> import roofline as rl
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     rl.sheet(f"{folder}/sizing.xlsx", "llama-3.1-8b", "h100-sxm", isl=[1000, 4000])
    2
    """
    path = arguments.path("path", path)
    if not path.lower().endswith(".xlsx") and not is_stream(path):
        raise BadInput(f"{path}: the file name must end in .xlsx")
    known = arguments.without("sheet", options)
    spare, force = plain_value("spare", scalar(spare)), arguments.flag("force", force)
    if type(spare) is not int or not 0 <= spare <= _MOST_ROWS:
        raise BadInput(f"spare = {shown(spare)} must be a whole number from 0 to {_MOST_ROWS}")
    with needing("a workbook needs XlsxWriter", "xlsx"):
        from roofline.outputs.workbook.sheets import write_workbook
    if isinstance(models, Plans):
        if gpus is not None or known:
            stated = ", ".join([*(["gpus"] if gpus is not None else []), *known])
            raise BadInput(
                f"a workbook of plans has the GPUs and options that they were planned with; leave out {stated}"
            )
        contents, start, planned = _contents_of_plans(models, spare)
    else:
        (contents, start), planned = _contents(models, gpus, spare, known), None
    write_whole(path, lambda file: write_workbook(file, contents, start, planned), force=force)
    return len(contents.scenarios)


def _contents(
    models: str | Model | Sequence[str | Model],
    gpus: str | Gpu | Sequence[str | Gpu] | None,
    spare: int,
    options: Mapping[str, Any],
) -> tuple[Contents, Prediction]:
    """Everything that goes into a workbook, and the case that it opens with."""
    specs = arguments.folder(options.get("specs"))
    (assume,) = arguments.scalars(assume=options.get("assume"))
    given_models = _distinct([(name, _record(name, "model", specs, assume)) for name in listed_names("models", models)])
    pools = [_with_pool(gpu, options) for gpu in (_usable_gpus(specs) if gpus is None else listed_names("gpus", gpus))]
    given_pools = [(pooled, _record(pooled.gpu, "gpu", specs)) for pooled in pools]
    given_gpus = _distinct([(pooled.gpu, record) for pooled, record in given_pools])
    slo = slo_limits(options.get("slo")) or Limits()
    if "itl" in slo:  # of a burst without drafts
        slo["tpot"] = min(slo.pop("itl"), slo.get("tpot", BILLION))
    choices = _distinct([(gpu, _lists(pooled.options)) for pooled, gpu in given_pools], alike=False)
    count = len(given_models) * sum(prod(map(len, lists)) for _, lists in choices)
    if count > _MOST_ROWS:
        raise BadInput(f"{count} scenarios exceed the limit of {_MOST_ROWS}; use fewer values")
    cases = [
        (model, gpu, _case(dict(zip(_VARIED, values, strict=True))))
        for (_, model), (gpu, lists) in product(given_models, choices)
        for values in product(*lists)
    ]
    return _filled(given_models, given_gpus, cases, spare, options, slo)


def _levelled(slo: Mapping[str, float]) -> tuple[Limits, str]:
    """Limits by their latencies, and what all of them hold for: the mean, p95 or p99."""
    from roofline.outputs.workbook.typed import LEVELS

    limits, names = Limits(), {level: name for name, level in LEVELS.items()}
    found: dict[str, str] = {}
    for key, limit in slo.items():
        metric, level = metric_and_level(key)
        if metric not in OF_REQUESTS or level not in names:
            raise BadInput(f"a sheet limits TTFT, TPOT and E2EL, in the mean, at p95 or at p99, not {key}: ask predict")
        limits[metric], found[metric] = limit, names[level]
    if len(set(found.values())) > 1:
        stated = " and ".join(f"{metric.upper()} {name}" for metric, name in found.items())
        raise BadInput(
            f"limits of a sheet hold all for the mean, or all for one percentile, not for {stated}: write "
            f"{','.join(f'{metric}:...@p95' for metric in found)}"
        )
    return limits, next(iter(found.values()), names[None])


def _contents_of_plans(plans: Plans, spare: int) -> tuple[Contents, Prediction, PlannedAnswer]:
    """The same of ranked plans: a scenario for a replica of each."""
    from roofline.questions.sheet_plans import planned_book

    allowed = [option.name for option in QUESTIONS["sheet"].taken]
    book = planned_book(plans, allowed)
    options = {name: book.options[name] for name in _FIXED if name in book.options}
    specs = arguments.folder(options.get("specs"))
    models = _distinct([(_source(case.model, "model", specs), case.model) for case in book.cases])
    gpus = _distinct([(_source(case.gpu, "gpu", specs), case.gpu) for case in book.cases])
    cases = [
        (case.model, case.gpu, {name: _sheet_name(name, value) for name, value in case.choices.items()})
        for case in book.cases
    ]
    slo = Limits(book.slo)
    try:
        _levelled(slo)
    except BadInput:  # the sheet Plans has them all
        slo = Limits({key: limit for key, limit in slo.items() if key in OF_REQUESTS})
    contents, start = _filled(models, gpus, cases, spare, options, slo)
    loads = {_LOADS[name]: amount for name, amount in book.load.items() if name in _LOADS}
    opening = {**contents.case, "replicas": book.replicas}
    return replace(contents, case=opening, loads=loads), start, book.answer


def _source(record: Any, kind: str, specs: str | None) -> Any:
    """The name under which the catalog has a record, whatever its price; else the record."""
    name = record.short_name if isinstance(record, Model) else record.name
    try:
        known = _record(name, kind, specs)
    except RooflineError:
        return record
    same = known if isinstance(known, Model) else replace(known, price=record.price)
    return name if same == record else record


def _filled(
    given_models: Sequence[tuple[Any, Model]],
    given_gpus: Sequence[tuple[Any, Gpu]],
    cases: Sequence[tuple[Model, Gpu, dict[str, Any]]],
    spare: int,
    options: Mapping[str, Any],
    slo: Limits,
) -> tuple[Contents, Prediction]:
    """Contents of a workbook with a row for each case, and the case that it opens with."""
    from roofline.outputs.workbook.case import Contents
    from roofline.outputs.workbook.tables import catalog

    specs = arguments.folder(options.get("specs"))
    (assume,) = arguments.scalars(assume=options.get("assume"))
    slo, level = _levelled(slo)
    fixed = {name: options[name] for name in _FIXED if name in options} | {"slo": slo}
    engine, network, routing = arguments.scalars(
        engine=options.get("engine", DEFAULT_ENGINE),
        network=options.get("network", 0.0),
        routing=options.get("routing", DEFAULT_SKEW),
    )
    profile = case.engine(engine, network, specs)
    routing_skew = case.routing_skew(routing)
    gpu_records = [find.run_by(gpu, profile) for _, gpu in given_gpus]
    model_records = [model for _, model in given_models]
    tables = catalog(model_records, gpu_records, profile)
    rows = [_row(model, gpu, chosen, fixed) for model, gpu, chosen in cases]
    start, opened = _opening_case(cases, rows, fixed)
    given: list[tuple[Any, Any]] = [*given_models, *given_gpus]
    figures_ = [line for name, record in given for line in _figures(name, record, specs, assume)]
    about = list(_about(start, model_records, gpu_records, specs))
    opening, amounts = _under_load(cases[opened], rows[opened], {**options, **fixed})
    found = Contents(tables, profile, routing_skew, opening, rows, spare, slo, figures_, about, amounts, level)
    return found, start


def _under_load(
    opening: tuple[Model, Gpu, Mapping[str, Any]], row: Mapping[str, Any], options: Mapping[str, Any]
) -> tuple[Mapping[str, Any], dict[str, float]]:
    """The case of the sheet Answer at the tp of its load, its batch what decodes together, and the load, if any."""
    loads = {name: options[name] for name in _LOADS if options.get(name) is not None}
    if not loads:
        return row, {}
    model, gpu, chosen = opening
    fixed = {name: options[name] for name in _FIXED if name in options}
    asked = {**fixed, **loads, **{name: value for name, value in chosen.items() if name != "batch"}}
    try:
        answer = predict(model, gpu, **asked, allow_oversize=True)
        tp, batch = answer.deployment.plan.tp, float(math.ceil(answer.decode_batch))
    except (BadInput, UnknownName):
        raise
    except RooflineError:  # the sheet says why
        tp, batch = row["tp"], row["batch"]
    return {**row, "tp": tp, "batch": batch}, {
        _LOADS[name]: float(plain_value(name, scalar(value))) for name, value in loads.items()
    }


def _usable_gpus(specs: str | None) -> list[str]:
    """GPUs of the catalog that state a 16-bit peak."""
    names = []
    for name in catalog.gpus(specs):
        try:
            sixteen_bit_dtype(catalog.load_gpu(name, specs))
        except UnsupportedPrecision:
            continue
        names.append(name)
    return names


def _with_pool(gpu: Any, options: Mapping[str, Any]) -> GpuChoice:
    """A GPU, and the options including those that its pool states."""
    values = {name: all_values(name, options[name]) for name in POOLED if options.get(name) is not None}
    pooled_options = {name: several[0] if len(several) == 1 else several for name, several in values.items()}
    return choice(gpu, {**options, **pooled_options}, "a scenario is one replica, and more are typed into its row")


def _lists(options: Mapping[str, Any]) -> list[list[Any]]:
    """Distinct values of each option of `_VARIED`, in that order."""
    return [
        list(dict.fromkeys(_sheet_name(name, value) for value in all_values(name, options.get(name, _DEFAULTS[name]))))
        for name in _VARIED
    ]


def _case(chosen: dict[str, Any]) -> dict[str, Any]:
    """Choices of one scenario, the prefix in tokens."""
    return {**chosen, "prefix": tokens_of_prefix(chosen["prefix"], chosen["isl"])}


def _sheet_name(name: str, value: Any) -> Any:
    """A choice by its name in the sheets; None for the checkpoint's own format."""
    if isinstance(value, PromptShare):
        return value
    (value,) = arguments.scalars(**{name: value})
    if name in DEFAULTS and type(value) not in (float, int):
        raise BadInput(f"{name} = {shown(value)} must be a number or a list of numbers")
    if name == "quantization":
        return None if value in (None, NATIVE) else preset_name(value)
    if name == "kv_cache_dtype":
        return value if value is None or str(value).lower() == AUTO else number_format(value).name
    return value


def _record(name: str | Model | Gpu, kind: str, specs: str | None, assume: str | None = None) -> Any:
    if isinstance(name, (Model, Gpu)):
        return name
    return catalog.load_model(name, specs, assume) if kind == "model" else catalog.load_gpu(name, specs)


def _distinct(pairs: list[tuple[Any, Any]], *, alike: bool = True) -> list[tuple[Any, Any]]:
    """Pairs without repeated records; with `alike=False` pairs that differ in either part are kept."""
    distinct: list[tuple[Any, Any]] = []
    for name, record in pairs:
        if not any(record == other and (alike or name == first) for first, other in distinct):
            distinct.append((name, record))
    return distinct


def _row(model: Model, gpu: Gpu, chosen: Mapping[str, Any], fixed: Mapping[str, Any]) -> dict[str, Any]:
    """Choices of one scenario, with the smallest tp that fits where none is given, else the widest."""
    tp = chosen["tp"]
    if tp is None:
        try:
            tp = predict(model, gpu, **{**fixed, **chosen, "allow_oversize": True}).deployment.plan.tp
        except UnknownName:
            raise
        except RooflineError:  # the sheet says why
            tp = 1
    prefix = number("prefix", chosen["prefix"], 0.0, BILLION)  # the sheet refuses what is beyond isl
    lengths = case.workload(chosen["isl"], chosen["osl"], chosen["batch"], min(prefix, chosen["isl"]))
    plan = {name: chosen[name] for name in ("pp", "ep", "dp")}
    for name, degree in {"tp": tp, **plan}.items():
        check_count(name, degree)
    return {
        "model": model.short_name, "gpu": gpu.name, "quantization": chosen["quantization"] or NATIVE,
        "kv_cache_dtype": chosen["kv_cache_dtype"] or AS_QUANTIZATION, "tp": tp, **plan, "replicas": 1,
        "isl": lengths.isl, "osl": lengths.osl, "batch": lengths.batch, "prefix": prefix,
        "basis": chosen["basis"],
    }  # fmt: skip


def _opening_case(
    cases: Sequence[tuple[Model, Gpu, Mapping[str, Any]]], rows: Sequence[Mapping[str, Any]], fixed: Mapping[str, Any]
) -> tuple[Prediction, int]:
    """The first case that can be run, and its index; raises the first error where none can."""
    failure: RooflineError | None = None
    for place, (model, gpu, chosen) in enumerate(cases):
        try:
            return predict(model, gpu, **{**fixed, **chosen, "tp": rows[place]["tp"]}), place
        except RooflineError as error:
            failure = failure or error
    raise failure or BadInput("no case")


def _figures(name: Any, record: Model | Gpu, specs: str | None, assume: str | None) -> Iterator[tuple[str, ...]]:
    """Every figure of a model or GPU with its source."""
    label = record.short_name if isinstance(record, Model) else record.name
    if not isinstance(name, str):
        yield label, "all", "", "given as a Python record", "", "", ""
        return
    content = find.document(name, "model" if isinstance(record, Model) else "gpu", specs, assume)
    for figure in figures(content):
        yield label, figure.field, figure.value, figure.source, figure.url, figure.date, figure.note


def _about(
    start: Prediction, models: Sequence[Model], gpus: Sequence[Gpu], specs: str | None
) -> Iterator[tuple[str, str]]:
    deployment = start.deployment
    yield "what", "A sizing workbook of roofline, a closed-form calculator of LLM inference latency."
    yield "version", version("roofline")
    yield "written", datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC")
    yield "catalog hash", f"{fingerprint(specs)} (SHA-256 of the files of GPUs, calibrations and models)"
    yield "models", ", ".join(f"{model.short_name} ({model.name})" for model in models)
    yield "GPUs", ", ".join(gpu.name for gpu in gpus)
    engine = deployment.engine
    yield (
        "engine",
        ": ".join(part for part in (engine.name, ", ".join(filter(None, (engine.versions, engine.year)))) if part),
    )
    for gpu in gpus:
        yield f"basis, {gpu.name}", evidence(replace(deployment, gpu=gpu, basis=basis_of(gpu, "calibrated")))
    yield "error band", _band(start)
    for warning in start.warnings:
        yield "opening case", warning
    yield (
        "what it leaves out",
        (
            "Queues and other requests under load, speculative decoding, separate pools, tails; prefill is one pass. "
            "Cautions of a case (stand-in efficiencies, contexts beyond the timed kernels): `roofline predict`."
        ),
    )
    yield (
        "how to use",
        (
            "Answer: change a yellow cell. Scenarios: change any yellow cell of a row, or fill a blank row. Names may "
            "be in any spelling of the catalog, lengths like 2k (2048), rates like 12 TB/s. my-gpu and my-model are "
            "rows for your own figures. Formulas are protected against slips, without a password: Review, Unprotect "
            "Sheet. Columns right of the scenarios' answers, hidden, hold what each row looks up and computes: "
            "select the columns around them and choose Unhide. Kernels has the time of each kernel of the sheet Answer."
        ),
    )


def _band(start: Prediction) -> str:
    """How far the opening case may be off."""
    first, step = start.ttft_interval, start.tpot_interval
    if first is None:
        return "none: the hardware limit is a bound"
    parts = [f"TTFT {to_text(start.ttft, 's')}: {to_text(first[0], 's')} to {to_text(first[1], 's')}"]
    if step is not None and start.tpot is not None:
        parts.append(f"TPOT {to_text(start.tpot, 's')}: {to_text(step[0], 's')} to {to_text(step[1], 's')}")
    text = "; ".join(parts)
    return f"80 % interval of the opening case: {text}. Others: Scenarios; accuracy: docs/accuracy.md."
