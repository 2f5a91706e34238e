"""The shape of traffic and of the GPU's rates: length distributions, cold starts, derates."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from roofline.api.inputs.arguments import number, scalar, several
from roofline.api.inputs.texts import plain_value
from roofline.errors import BadInput, UnknownName, shown
from roofline.grammar.numbers import share_of_text, time_of_text
from roofline.quantity import BILLION, HOUR, KIBI, to_text
from roofline.records import replace
from roofline.serving.lengths import LAWS, LOG_NORMAL, Lengths, cold_start_text, lengths_by_law, lengths_of_rows
from roofline.serving.limits import DERATED
from roofline.serving.prediction import Prediction
from roofline.specs.gpu import Gpu
from roofline.specs.slo import LEVELS, metric_and_level

__all__ = [
    "LAWS",
    "RATES",
    "TRAFFIC",
    "USUAL",
    "cold_start_of",
    "cold_start_text",
    "cold_start_warnings",
    "derated",
    "lengths_of",
    "losses_of",
    "traffic",
]

#: Rates of a GPU that may be derated, and their names in notes.
RATES = {"bandwidth": "HBM bandwidth", "peak": "dense peaks", "link": "scale-up bandwidth"}

#: Default lengths: the random data set of `vllm bench serve` [tokens].
USUAL = (KIBI, 128)

#: Options of `predict` that shape the traffic of a load.
TRAFFIC = ("isl_cv", "osl_cv", "lengths", "cold_start")

_MOST_LOST = 0.99
_SLOWEST, _FASTEST = 99.9, 1.0  # percentiles that stand for the slowest and the fastest warm request
_EXACTLY = 2.0**-20  # relative difference at which a share of cold starts equals the tail above a percentile


def lengths_of(lengths: Any, isl_cv: Any, osl_cv: Any) -> tuple[float, float, Lengths] | Lengths | None:
    """Spread of lengths; None where all are equal; of a trace the mean isl and osl [tokens] come first."""
    if isinstance(lengths, Lengths):
        return lengths
    lengths = lengths if isinstance(lengths, Mapping) else scalar(lengths)
    given_cvs = (("isl_cv", isl_cv), ("osl_cv", osl_cv))
    cvs = {name: plain_value(name, scalar(value)) for name, value in given_cvs if value is not None}
    if lengths is None or (isinstance(lengths, str) and lengths in LAWS):
        if not cvs:
            if lengths is not None:
                raise BadInput(f"lengths = {lengths!r} needs a spread; give isl_cv or osl_cv")
            return None
        for name, value in cvs.items():
            if type(value) not in (float, int):
                raise BadInput(f"{name} = {shown(value)} must be a number such as 0.5")
        spread = lengths_by_law(lengths or LOG_NORMAL, cvs.get("isl_cv", 0.0), cvs.get("osl_cv", 0.0))
        return None if spread.is_fixed else spread
    if cvs and not (isinstance(lengths, str) and not re.search(r"[./\\]", lengths)):
        raise BadInput(f"a trace has its own spread; leave out {' and '.join(cvs)}")
    if isinstance(lengths, str):
        if not re.search(r"[./\\]", lengths):
            raise UnknownName(f"unknown length distribution {lengths!r}; choose from {', '.join(LAWS)}, or a trace.csv")
        from roofline.measurements.trace import read_trace

        rows: Sequence[tuple[float, float]] = read_trace(lengths)
        return lengths_of_rows(rows, lengths)
    columns = []
    for name in ("isl", "osl"):
        if not isinstance(lengths, Mapping) or name not in lengths:
            raise BadInput(
                f"lengths = {shown(lengths)} must be a distribution, the path of a trace, or columns isl and osl"
            )
        columns.append([number(f"lengths[{name!r}]", value, 1.0, BILLION) for value in several(name, lengths[name])])
    if len(columns[0]) != len(columns[1]):
        raise BadInput(f"lengths have {len(columns[0])} isl and {len(columns[1])} osl; give one of each per request")
    return lengths_of_rows(list(zip(*columns, strict=True)), "the rows given")


def traffic(
    isl: Any, osl: Any, *, lengths: Any = None, isl_cv: Any = None, osl_cv: Any = None, cold_start: Any = None
) -> tuple[Any, Any, Lengths | None, tuple[float, float] | None]:
    """Mean isl and osl, their spread and cold starts, as `inputs.case.workload` takes them."""
    spread, start = lengths_of(lengths, isl_cv, osl_cv), cold_start_of(cold_start)
    if not isinstance(spread, tuple):
        return isl, osl, spread, start
    for name, value, default in (("isl", isl, USUAL[0]), ("osl", osl, USUAL[1])):
        if value is not default and value != default:
            raise BadInput(f"a trace has its own lengths; leave out {name} = {shown(value)}")
    return *spread, start


def cold_start_of(value: Any) -> tuple[float, float] | None:
    """Share of the requests that start a cold server [1], and their extra wait [s]; None for neither."""
    value = scalar(value) if not isinstance(value, Sequence) else value
    if value is None:
        return None
    if isinstance(value, str):
        share, colon, time = value.partition(":")
        if not colon:
            raise BadInput(f"cold_start = {shown(value)} must be a share and a time, such as 1%:2s")
        pair: list[Any] = [
            _parsed("cold_start", share_of_text, share),
            _parsed(f"cold_start = {shown(value)}", time_of_text, time),
        ]
    else:
        values = several("cold_start", value)
        if len(values) != 2:
            raise BadInput(f"cold_start = {shown(value)} must be a share and a time: (0.01, 2.0), or '1%:2s'")
        pair = [
            _parsed("cold_start", read, item) if isinstance(item, str) else item
            for item, read in zip(values, (share_of_text, time_of_text), strict=True)
        ]
    cold_share = number("the share of cold starts", pair[0], 0.0, 1.0)
    wait = number("the time of a cold start", pair[1], 0.0, HOUR)
    return (cold_share, wait) if cold_share > 0.0 and wait > 0.0 else None


def cold_start_warnings(prediction: Prediction) -> list[str]:
    """Notes on percentiles that fall exactly between warm and cold requests."""
    workload = prediction.workload
    if workload.cold_start is None or prediction.tails is None or prediction.served is None:
        return []
    share, time = workload.cold_start
    levels = [level for level in _levels(prediction.slo) if abs(share + level / 100.0 - 1.0) <= _EXACTLY * share]
    if not levels:
        return []
    from roofline.serving.traffic.mixture import percentile

    warm = [part._replace(weight=part.weight / (1.0 - share)) for part in prediction.tails.ttft]
    warm = warm[: len(warm) // 2]
    slowest, fastest = percentile(warm, _SLOWEST), percentile(warm, _FASTEST) + time
    return [
        f"exactly {100.0 * share:.3g} % of the requests start cold, so that the p{level:g} of TTFT, like that of E2EL, "
        "is any time from "
        f"{to_text(float(slowest), 's')} (slowest warm one) to {to_text(float(fastest), 's')} (fastest cold one)"
        for level in levels
    ]


def losses_of(value: Any) -> dict[str, float]:
    """Lost shares of a GPU's rates, by the keys of `RATES` [1]."""
    value = value if isinstance(value, Mapping) else scalar(value)
    if value is None:
        return {}
    pairs: list[tuple[Any, Any]]
    if isinstance(value, str):
        parts = [part.partition(":") for part in value.split(",") if part.strip()]
        pairs = [(name.strip().lower(), share) for name, _, share in parts]
    elif isinstance(value, Mapping):
        pairs = list(value.items())
    else:
        raise BadInput(f"derate = {shown(value)} must be shares of rates, such as bandwidth:5%,peak:3%")
    losses: dict[str, float] = {}
    for name, share in pairs:
        if name not in RATES:
            raise UnknownName(
                f"unknown rate {shown(name)} to derate; choose from {', '.join(RATES)}, as in bandwidth:5%,peak:3%"
            )
        if name in losses:
            raise BadInput(f"{name!r} is derated twice in {shown(value)}")
        plain = scalar(share)
        lost = _parsed(f"derate {name}", share_of_text, plain) if isinstance(plain, str) else plain
        losses[name] = number(f"derate {name}", lost, 0.0, _MOST_LOST)
    return losses


def derated(gpu: Gpu, losses: Mapping[str, float]) -> tuple[Gpu, tuple[str, ...]]:
    """A GPU without the lost shares of its rates, and a note on each."""
    remaining = {name: 1.0 - losses.get(name, 0.0) for name in RATES}
    link = replace(gpu.link, bandwidth=gpu.link.bandwidth * remaining["link"])
    peaks = {dtype: peak * remaining["peak"] for dtype, peak in gpu.peaks.items()}
    notes = tuple(
        f"{DERATED}{RATES[name]} {100.0 * share:.3g} % below the specification"
        for name, share in losses.items()
        if share
    )
    if not notes:
        return gpu, ()
    return replace(gpu, bandwidth=gpu.bandwidth * remaining["bandwidth"], peaks=peaks, link=link), notes


def _levels(slo: Mapping[str, float]) -> list[float]:
    """Percentiles that a row or an SLO asks for [%]."""
    limited = [metric_and_level(key)[1] for key in slo]
    return sorted({*LEVELS, *(level for level in limited if level is not None)})


def _parsed(name: str, read: Callable[[str], float], text: str) -> float:
    """A parsed text; errors get the option's name."""
    try:
        return read(text)
    except BadInput as error:
        raise BadInput(f"{name}: {error}") from None
