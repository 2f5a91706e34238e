"""A model on a GPU with its plan, formats and engine: built once, and cached for later cases."""

from __future__ import annotations

import os
from typing import Any

from roofline.api.inputs import arguments, case, money, pools, shape, speculation, texts
from roofline.api.inputs.arguments import COUNTS, PLAIN
from roofline.catalog import find
from roofline.physics.efficiency import basis_of
from roofline.physics.plan import Deployment, Plan
from roofline.records import NamedTuple
from roofline.serving.quantization import resolved_quantization
from roofline.serving.sizing import check_plan
from roofline.specs.gpu import Gpu
from roofline.specs.model import Model

_WORDS = (
    "quantization", "weights", "kv_cache_dtype", "compute", "routing", "basis", "engine", "network",
    "max_num_batched_tokens", "max_num_seqs", "gpu_memory_utilization", "max_model_len",
)  # fmt: skip
_SETTINGS = _WORDS[8:]
_ENGINE = 6  # index into the words
_MOST = 256  # cached deployments


class CaseOptions(NamedTuple):
    """Options of `predict` that describe the deployment, in groups."""

    model: Any
    gpu: Any
    degrees: tuple[Any, ...]  # tp pp ep dp num_gpus
    words: tuple[Any, ...]  # quantization weights kv_cache_dtype compute routing basis engine network; its settings
    drafts: tuple[Any, Any, Any]  # draft draft_tokens acceptance
    figures: tuple[Any, Any]  # of the GPU: derate gpu_price
    files: tuple[Any, Any]  # specs assume


class Deployed(NamedTuple):
    """A model on a GPU, at the given tp or at 1."""

    deployment: Deployment
    tp: int | None
    num_gpus: int | None
    copies: int | None  # replicas, where the plan is still open
    basis: str  # as requested
    notes: tuple[str, ...]  # on names
    lost: tuple[str, ...]  # notes on derated rates


_KNOWN: dict[CaseOptions, tuple[CaseOptions, Deployed]] = {}  # values keep alive the records whose ids are in the keys


def deployed_case(options: CaseOptions) -> Deployed:
    """One replica; the same object for the same names and options, so that cases share its programs."""
    if not _is_of_catalog(options):
        return _deployed(options)
    key = options
    if type(options.model) is not str or type(options.gpu) is not str:
        key = options._replace(model=_identity(options.model), gpu=_identity(options.gpu))
    try:
        known = _KNOWN.get(key)
    except (TypeError, ValueError):  # not hashable
        return _deployed(options)
    if known is None:
        known = options, _deployed(options)
        if len(_KNOWN) >= _MOST:
            _KNOWN.clear()
        _KNOWN[key] = known
    return known[1]


def _identity(named: Any) -> Any:
    """A name as it is; a record by its identity."""
    return named if type(named) is str else (type(named), id(named))


def _is_of_catalog(options: CaseOptions) -> bool:
    """Whether nothing is read from user files, which may change between calls."""
    for name in (options.model, options.gpu, options.words[_ENGINE]):
        if isinstance(name, (Model, Gpu)):
            continue
        if type(name) is not str or name.endswith(find.FILES) or ("/" in name and texts.is_file(name)):
            return False
    if any(value is not None for value in (options.drafts[0], *options.files)) or os.environ.get("ROOFLINE_SPECS"):
        return False
    return COUNTS.issuperset(map(type, options.degrees))


def _deployed(options: CaseOptions) -> Deployed:
    degrees, words, specs = options.degrees, options.words, options.files[0]
    if not COUNTS.issuperset(map(type, degrees)):
        degrees = texts.plain_counts(**dict(zip(("tp", "pp", "ep", "dp", "num_gpus"), degrees, strict=True)))
    if not PLAIN.issuperset(map(type, words)):
        words = tuple(arguments.scalars(**dict(zip(_WORDS, words, strict=True))))
    quantization, weights, kv_cache_dtype, compute, routing, basis, engine, network, *settings = words
    specs = None if specs is None else arguments.folder(specs)
    model, gpu, copies = options.model, options.gpu, None
    model, model_note = (model, None) if isinstance(model, Model) else find.find_model(model, specs, options.files[1])
    pool = None if isinstance(gpu, Gpu) else pools.pool_of(gpu, specs)
    tp, pp, ep, dp, num_gpus = degrees
    if pool is not None:
        gpu, tp, pp, ep, dp, num_gpus, quantization, copies = pools.opened(
            pool, tp=tp, pp=pp, ep=ep, dp=dp, num_gpus=num_gpus, quantization=quantization
        )
    gpu, gpu_note = (gpu, None) if isinstance(gpu, Gpu) else find.find_gpu(gpu, specs)
    profile = case.engine(engine, network, specs, gpu, **dict(zip(_SETTINGS, settings, strict=True)))
    derate, price = options.figures
    gpu, lost = shape.derated(money.priced(gpu, price), shape.losses_of(derate))
    chosen = resolved_quantization(model, gpu, quantization, weights, kv_cache_dtype, compute)
    plan = Plan(1 if tp is None else tp, pp, ep, dp)
    deployment = Deployment(model, gpu, plan, chosen, basis_of(gpu, basis), case.routing_skew(routing), engine=profile)
    if any(value is not None for value in options.drafts):
        deployment = speculation.drafted(deployment, *options.drafts, specs)
    if tp is not None:
        check_plan(model, plan)
    notes = tuple(note for note in (model_note, gpu_note) if note is not None)
    return Deployed(deployment, tp, num_gpus, copies, basis, notes, lost)
