"""Workloads by name: what they are, the options that they stand for, and which latency dominates them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

from roofline.api.inputs.shape import TRAFFIC
from roofline.api.predict import Prediction, predict
from roofline.catalog.workloads import load_workload, workload_names
from roofline.errors import RooflineError
from roofline.quantity import MILLI, rounded, to_text
from roofline.specs.gpu import Gpu
from roofline.specs.model import Model
from roofline.specs.slo import LATENCIES, key_text, limits_of_text, metric_and_level
from roofline.specs.workload import NamedWorkload

if TYPE_CHECKING:
    from roofline.api.inputs.options import WorkloadOptions

__all__ = ["WORKLOAD_KEYS", "NamedWorkload", "load_workload", "workload_options", "workload_rows", "workloads"]

#: Keys of a row about a workload.
WORKLOAD_KEYS = (
    "workload", "title", "isl", "isl_cv", "osl", "osl_cv", "prefix", "arrivals", "slo", "share", "dominates",
    "ttft_share", "tightest", "why", "source", "url", "date", "notes",
)  # fmt: skip

_MODEL, _GPU, _QUANTIZATION = (
    "llama-3.3-70b",
    "h100-sxm",
    "fp8",
)  # that latencies are told apart on, where none is named
_MOST = 2.0 / 3.0  # share of the end-to-end latency from which on a part dominates


def workloads() -> tuple[str, ...]:
    """Names of the workloads of the catalog.

    Returns:
        Names, sorted [text].

    >>> import roofline as rl
    >>> "chat" in rl.workloads()
    True
    """
    return workload_names()


def workload_options(
    workload: str | NamedWorkload, specs: str | None = None, *, loaded: bool = True
) -> WorkloadOptions:
    """Keyword arguments of `predict` that a workload stands for.

    Args:
        workload: name, path of a YAML file, or record [text].
        specs: folder of specifications of one's own; default $ROOFLINE_SPECS [path].
        loaded: whether requests come one by one: their lengths then spread; those of a burst are the means [bool].

    Returns:
        Lengths, how they spread, the cached prefix, and the SLO where there is one.

    Raises:
        UnknownName: no such workload.
        BadSpec: its file has faults.

    >>> import roofline as rl
    >>> rl.workload_options("chat", loaded=False)
    {'isl': 1155, 'osl': 211, 'prefix': 0, 'slo': {'ttft': 0.3, 'tpot': 0.025, 'p99_within': 2.0}}
    """
    found = workload if isinstance(workload, NamedWorkload) else load_workload(workload, specs)
    options: dict[str, Any] = {"isl": found.isl, "osl": found.osl, "prefix": found.prefix}
    if found.slo:
        options["slo"] = limits_of_text(found.slo)
    if loaded and (found.isl_cv or found.osl_cv):
        options |= dict(zip(TRAFFIC, (found.isl_cv, found.osl_cv, found.lengths), strict=False))
    return cast("WorkloadOptions", options)


def workload_rows(
    model: str | Model | None = None,
    gpu: str | Gpu | None = None,
    names: tuple[str, ...] | None = None,
    specs: str | None = None,
    **options: Any,
) -> list[dict[str, Any]]:
    """What each workload is, where it comes from, and which latency dominates it.

    Args:
        model: on which latencies are told apart; None for Llama 3.3 70B in FP8 [text].
        gpu: likewise; None for H100 [text].
        names: workloads to list; None for all [text].
        specs: folder of specifications of one's own; default $ROOFLINE_SPECS [path].
        options: further keyword arguments of `predict`.

    Returns:
        Rows with the keys of `WORKLOAD_KEYS`.

    Raises:
        UnknownName: no such workload, model or GPU.
        BadSpec: a file has faults.
    """
    if model is None:
        options = {"quantization": _QUANTIZATION, **options}
    wanted = (model or _MODEL, gpu or _GPU)
    found = [load_workload(name, specs) for name in (names or workloads())]
    return [_row(one, wanted, {"specs": specs, **options}) for one in found]


def _row(found: NamedWorkload, wanted: tuple[Any, Any], options: dict[str, Any]) -> dict[str, Any]:
    """A workload, and what an idle server takes for one of its requests."""
    dominates, share, tight, why = None, None, None, ""
    try:
        case = workload_options(found, loaded=False)
        alone = predict(*wanted, **{**options, **case})
        dominates, share, why = _dominant(alone)
        tight = _tightest(alone)
    except RooflineError as error:
        why = str(error)
    values = (
        found.name, found.title, found.isl, found.isl_cv, found.osl, found.osl_cv, found.prefix, found.arrivals,
        found.slo, found.share, dominates, share, tight and key_text(tight), why, found.source, found.url, found.date,
        list(found.notes),
    )  # fmt: skip
    return dict(zip(WORKLOAD_KEYS, values, strict=True))


def _dominant(alone: Prediction) -> tuple[str, float, str]:
    """The latency that most of a request's time goes to, TTFT's share of it, and why, in numbers."""
    first, whole = float(alone.ttft), float(alone.e2el)
    share = first / whole
    steps = float(alone.workload.osl) - 1.0
    where = f"on {alone.deployment.num_gpus} {alone.deployment.gpu.name} with {alone.deployment.model.short_name}"
    prompt = (
        f"{rounded(float(alone.workload.isl - alone.workload.prefix))} tokens to prefill take {to_text(first, 's')}"
    )
    decode = f"{rounded(steps)} steps of {to_text(float(alone.tpot or 0.0), 's')} take {to_text(whole - first, 's')}"
    name = "TPOT" if share < 1.0 - _MOST else "TTFT" if share > _MOST else "both"
    said = f"{decode}, {prompt} ({100.0 * share:.0f} % of {to_text(whole, 's')}) {where}"
    tight = _tightest(alone)
    if tight is None:
        return name, share, said
    limit, taken = rounded(alone.slo[tight] / MILLI), 100.0 * float(alone.slo_shares[tight])
    said += f"; its tightest limit is {key_text(tight)} {limit} ms, of which an idle server takes {taken:.0f} %"
    return name, share, said


def _tightest(alone: Prediction) -> str | None:
    """Key of the limit that an idle server takes up most."""
    shares = {key: share for key, share in alone.slo_shares.items() if metric_and_level(key)[0] in LATENCIES}
    return max(shares, key=lambda one: float(shares[one])) if shares else None
