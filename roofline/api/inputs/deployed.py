"""A model on a GPU as a case states it, lengths and load apart: made once, and kept for the next cases of its kind."""

from __future__ import annotations

import os
from typing import Any

from roofline.api.inputs import arguments, case, money, pools, shape, speculation, texts
from roofline.api.inputs.arguments import COUNTS, PLAIN
from roofline.catalog import find
from roofline.physics.efficiency import basis_of
from roofline.physics.plan import Deployment, Plan
from roofline.records import NamedTuple
from roofline.serving.precision import precision
from roofline.serving.sizing import check_plan
from roofline.specs.gpu import Gpu
from roofline.specs.model import Model

__all__ = ["CaseOptions", "Deployed", "deployed_case"]

_WORDS = (
    "quantization", "weights", "kv_cache_dtype", "compute", "routing", "basis", "engine", "network",
    "max_num_batched_tokens", "max_num_seqs", "gpu_memory_utilization", "max_model_len",
)  # fmt: skip
_SETTINGS = _WORDS[8:]
_ENGINE = 6  # of the words
_MOST = 256  # that are kept


class CaseOptions(NamedTuple):
    """What a caller says of how a model is deployed, as `predict` takes it."""

    model: Any
    gpu: Any
    degrees: tuple[Any, ...]  # tp pp ep dp num_gpus
    words: tuple[Any, ...]  # quantization weights kv_cache_dtype compute routing basis engine network; its settings
    drafts: tuple[Any, Any, Any]  # draft draft_tokens acceptance
    figures: tuple[Any, Any]  # of the GPU: derate gpu_price
    files: tuple[Any, Any]  # specs assume


class Deployed(NamedTuple):
    """A model on a GPU, at the tp that is given or at 1."""

    deployment: Deployment
    tp: int | None
    num_gpus: int | None
    copies: int | None  # replicas of a plan that is still open
    basis: str  # as it was asked for
    notes: tuple[str, ...]  # of names
    lost: tuple[str, ...]  # of rates


_KNOWN: dict[CaseOptions, tuple[CaseOptions, Deployed]] = {}  # what was asked stays, for the identity of its records


def deployed_case(asked: CaseOptions) -> Deployed:
    """A deployment of one replica.

    Args:
        asked: how it is deployed.

    Returns:
        The deployment; the same for the same names and options, so that its programs serve all of its cases. Files of
        one's own are read again.

    Raises:
        RooflineError: as names and options are refused.
    """
    if not _is_of_catalog(asked):
        return _deployed(asked)
    key = asked
    if type(asked.model) is not str or type(asked.gpu) is not str:
        key = asked._replace(model=_identity(asked.model), gpu=_identity(asked.gpu))
    try:
        known = _KNOWN.get(key)
    except (TypeError, ValueError):  # a mapping, a list, a number that has no hash
        return _deployed(asked)
    if known is None:
        known = asked, _deployed(asked)
        if len(_KNOWN) >= _MOST:
            _KNOWN.clear()
        _KNOWN[key] = known
    return known[1]


def _identity(named: Any) -> Any:
    """A name, or which record it is."""
    return named if type(named) is str else (type(named), id(named))


def _is_of_catalog(asked: CaseOptions) -> bool:
    """Whether nothing is read from files of one's own: such are read again, and records are compared by identity."""
    for name in (asked.model, asked.gpu, asked.words[_ENGINE]):
        if isinstance(name, (Model, Gpu)):
            continue
        if type(name) is not str or name.endswith(find.FILES) or ("/" in name and texts.is_file(name)):
            return False
    if any(each is not None for each in (asked.drafts[0], *asked.files)) or os.environ.get("ROOFLINE_SPECS"):
        return False
    return COUNTS.issuperset(map(type, asked.degrees))


def _deployed(asked: CaseOptions) -> Deployed:
    degrees, words, specs = asked.degrees, asked.words, asked.files[0]
    if not COUNTS.issuperset(map(type, degrees)):
        degrees = texts.plain_counts(**dict(zip(("tp", "pp", "ep", "dp", "num_gpus"), degrees, strict=True)))
    if not PLAIN.issuperset(map(type, words)):
        words = tuple(arguments.scalars(**dict(zip(_WORDS, words, strict=True))))
    quantization, weights, kv_cache_dtype, compute, routing, basis, engine, network, *settings = words
    specs = None if specs is None else arguments.folder(specs)
    model, gpu, copies = asked.model, asked.gpu, None
    model, model_note = (model, None) if isinstance(model, Model) else find.find_model(model, specs, asked.files[1])
    pool = None if isinstance(gpu, Gpu) else pools.pool_of(gpu, specs)
    tp, pp, ep, dp, num_gpus = degrees
    if pool is not None:
        gpu, tp, pp, ep, dp, num_gpus, quantization, copies = pools.opened(
            pool, tp=tp, pp=pp, ep=ep, dp=dp, num_gpus=num_gpus, quantization=quantization
        )
    gpu, gpu_note = (gpu, None) if isinstance(gpu, Gpu) else find.find_gpu(gpu, specs)
    profile = case.engine(engine, network, specs, **dict(zip(_SETTINGS, settings, strict=True)))
    derate, price = asked.figures
    gpu, lost = shape.derated(money.priced(gpu, price), shape.losses_of(derate))
    chosen = precision(model, gpu, quantization, weights, kv_cache_dtype, compute)
    plan = Plan(1 if tp is None else tp, pp, ep, dp)
    deployment = Deployment(model, gpu, plan, chosen, basis_of(gpu, basis), case.skew(routing), engine=profile)
    if any(each is not None for each in asked.drafts):
        deployment = speculation.drafted(deployment, *asked.drafts, specs)
    if tp is not None:
        check_plan(model, plan)
    notes = tuple(note for note in (model_note, gpu_note) if note is not None)
    return Deployed(deployment, tp, num_gpus, copies, basis, notes, lost)
