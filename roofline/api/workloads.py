"""Named workloads: what they are, their options, and what somebody waits for."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, cast

from roofline.api.inputs.shape import TRAFFIC
from roofline.api.predict import Prediction, predict
from roofline.catalog.workloads import load_workload, workload_names
from roofline.errors import RooflineError
from roofline.quantity import MINUTE, rounded, to_text
from roofline.specs.gpu import Gpu
from roofline.specs.model import Model
from roofline.specs.slo import LATENCIES, key_text, limits_of_text, metric_and_level
from roofline.specs.workload import NOTHING, WHOLE_ANSWER, NamedWorkload

if TYPE_CHECKING:
    from roofline.api.inputs.options import WorkloadOptions

__all__ = ["WORKLOAD_KEYS", "NamedWorkload", "load_workload", "workload_options", "workload_rows", "workloads"]

#: Keys of a row about a workload.
WORKLOAD_KEYS = (
    "workload", "title", "isl", "isl_cv", "osl", "osl_cv", "prefix", "arrivals", "slo", "share", "dominates",
    "ttft_share", "tightest", "why", "source", "url", "date", "notes",
    "waits_for",
)  # fmt: skip

_MODEL, _GPU, _QUANTIZATION = "llama-3.3-70b", "h100-sxm", "fp8"  # default deployment of the latencies
#: Pace of silent reading [tokens/s]: 238 words a minute (Brysbaert, "How many words do we read per minute?", Journal of
#: Memory and Language 109, 2019), at 0.75 words a token (OpenAI, "What are tokens and how to count them?").
READING = 238.0 / 0.75 / MINUTE

_MOST = 2.0 / 3.0  # a part with a larger share of the end-to-end latency dominates


def workloads() -> tuple[str, ...]:
    """Names of the workloads of the catalog.

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
    dominates, share, tight, why = None, None, None, ""
    try:
        case = workload_options(record, loaded=False)
        alone = predict(*deployment, **{**options, **case})
        share = float(alone.ttft / alone.e2el)
        dominates = "TPOT" if share < 1.0 - _MOST else "TTFT" if share > _MOST else "both"
        why = f"{_waiting(record, alone)}{_limit_taken(alone)}"
        tight = _tightest(alone)
    except RooflineError as error:
        why = str(error)
    values = (
        record.name, record.title, record.isl, record.isl_cv, record.osl, record.osl_cv, record.prefix, record.arrivals,
        record.slo, record.share, dominates, share, tight and key_text(tight), why, record.source, record.url,
        record.date, list(record.notes), record.awaited,
    )  # fmt: skip
    return dict(zip(WORKLOAD_KEYS, values, strict=True))


def _waiting(record: NamedWorkload, alone: Prediction) -> str:
    """What somebody waits for, how long, and what the rest of the answer takes."""
    first, whole = float(alone.ttft), float(alone.e2el)
    percent = f"{100.0 * first / whole:.0f} %"
    where = f"on {alone.deployment.num_gpus} {alone.deployment.gpu.name} with {alone.deployment.model.short_name}"
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
