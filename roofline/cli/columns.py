"""Columns that tables share: GPUs, plans, latencies with their ranges, verdicts, money."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from roofline.api.predict import ROW_KEYS
from roofline.cli.answers import binding_text
from roofline.cli.screen import Row, ScreenColumn
from roofline.records import replace

__all__ = [
    "BELOW_RULE",
    "BOUND",
    "GPUS",
    "PLAN",
    "SLO_MET",
    "TOK_S_GPU",
    "TOK_S_USER",
    "USD_HOUR",
    "USD_TOKENS",
    "WEIGHTS",
    "is_above_rule",
    "latency",
    "load_columns",
    "model_column",
    "percent",
    "plan_of",
    "ranked",
    "times",
    "verdict_columns",
    "with_refusals",
]


def _gpus(row: Row) -> str:
    count = row.get("num_gpus")
    return str(row["gpu"]) if count is None else f"{count}x {row['gpu']}"


def plan_of(row: Row) -> str:
    """Degrees of a plan that are not 1, and its replicas: tp4, tp8 ep8 dp8, tp2 x4.

    Args:
        row: with tp, pp, ep, dp and num_gpus.

    Returns:
        Text; a dash where there is no plan [text].
    """
    if row.get("tp") is None:
        return "-"
    degrees = [f"{name}{row[name]}" for name in ("tp", "pp", "ep", "dp") if name == "tp" or (row.get(name) or 1) > 1]
    ranks = (row.get("tp") or 1) * (row.get("pp") or 1) * (row.get("dp") or 1)
    replicas = (row.get("num_gpus") or ranks) // ranks
    return " ".join([*degrees, *([f"x{replicas}"] if replicas > 1 else [])])


def percent(key: str) -> Callable[[Row], str]:
    """A cell that shows a share of one in per cent.

    Args:
        key: of the share [text].

    Returns:
        The function of a row.
    """

    def cell(row: Row) -> str:
        value = row.get(key)
        return (
            "-"
            if value is None
            else f"{100.0 * value:.0f}%"
            if value >= _SMALL or not value
            else f"{100.0 * value:.1f}%"
        )

    return cell


def times(key: str) -> Callable[[Row], str]:
    """A cell that shows how many times faster something is.

    Args:
        key: of the speed-up [text].

    Returns:
        The function of a row.
    """
    return lambda row: "-" if row.get(key) is None else f"{row[key]:.2f}x"


def _verdict(row: Row) -> str:
    met = row.get("slo_met")
    return "-" if met is None else "pass" if met else "fail"


def _bound(key: str) -> Callable[[Row], str]:
    def cell(row: Row) -> str:
        return str(row.get("refusal") or row.get(key) or "-")

    return cell


_SMALL = 0.01

#: What is said of the rows below the rule.
BELOW_RULE = "not timed, or no rental price known"


def is_above_rule(status: str, row: Row) -> bool:
    """Whether a row stands above the rule: a GPU that can be rented, at a known price, whose kernels were timed.

    Args:
        status: of the GPU [text].
        row: of the prediction [record].

    Returns:
        Whether it does [bool].
    """
    return status == "shipping" and row["basis"] != "generic" and row.get("usd_per_hour") is not None


GPUS = ScreenColumn("GPU", "gpu", cell=_gpus, also=("num_gpus", "gpu"))
PLAN = ScreenColumn("plan", "tp", 1, cell=plan_of, also=("tp", "pp", "ep", "dp", "num_gpus"))
WEIGHTS = ScreenColumn("weights", "weight_dtype", 4)
SLO_MET = ScreenColumn("SLO", "slo_met", cell=_verdict)
BOUND = {
    "prefill": ScreenColumn("bound by", "prefill_bound", 1, cell=_bound("prefill_bound"), also=("prefill_bound",)),
    "decode": ScreenColumn("bound by", "decode_bound", 1, cell=_bound("decode_bound"), also=("decode_bound",)),
}
TOK_S_USER = ScreenColumn("tok/s/user", "tok_s_user", 3)
TOK_S_GPU = ScreenColumn("tok/s/GPU", "output_tok_s_gpu", 3)
USD_HOUR = ScreenColumn("USD/h", "usd_per_hour", 1)
USD_TOKENS = ScreenColumn("USD/M tok", "usd_per_m_output_tok", 2)
_NAMES = {"ttft": "TTFT", "tpot": "TPOT", "e2el": "E2EL"}


def ranked(column: ScreenColumn, rank: int) -> ScreenColumn:
    """A column that a narrow terminal leaves out earlier or later.

    Args:
        column: the column.
        rank: 0 is never left out [1].

    Returns:
        The column with that rank.
    """
    return replace(column, rank=rank)


def model_column(models: int) -> list[ScreenColumn]:
    """The model of a row, where there are several.

    Args:
        models: how many [1].

    Returns:
        The column, or none.
    """
    return [ScreenColumn("model", "model")] if models > 1 else []


def latency(metric: str, options: Mapping[str, Any], rank: int = 0, *, with_range: bool = True) -> list[ScreenColumn]:
    """A latency with its 80 % range: the percentiles that an SLO limits where it does, else the mean.

    Args:
        metric: ttft, tpot or e2el [text].
        options: keyword arguments of the API.
        rank: of the column [1].
        with_range: show the range; at the hardware limit there is none, but the share of it that is reached [bool].

    Returns:
        The columns.
    """
    limited = [key for key in options.get("slo") or () if key.startswith(f"{metric}_p") and f"{key}_ms" in ROW_KEYS]
    is_mean = not limited or metric in (options.get("slo") or ())
    columns = []
    for key in [*([metric] if is_mean else []), *limited]:
        name = f"{_NAMES[metric]} {key.removeprefix(metric).removeprefix('_')}".strip()
        if options.get("basis") == "ideal":
            columns.append(ScreenColumn(f"{name} ms", f"{key}_ms", rank))
        elif with_range:
            ends = (f"{key}_low_ms", f"{key}_high_ms")
            columns.append(ScreenColumn(f"{name} ms (80 %)", f"{key}_ms", rank, ends))
        else:
            columns.append(ScreenColumn(f"{name} ms", f"{key}_ms", rank))
    share = f"{metric}_light_frac"
    if options.get("basis") == "ideal" and share in ROW_KEYS:
        columns.append(ScreenColumn("reached", share, rank, cell=percent(share), also=(share,)))
    return columns


def with_refusals(columns: Sequence[ScreenColumn], refusals: Sequence[Row]) -> list[ScreenColumn]:
    """Columns of which the one that says why a GPU was refused is never left out, where one was."""
    return [ranked(column, 0) if refusals and column in BOUND.values() else column for column in columns]


def load_columns(options: Mapping[str, Any]) -> list[ScreenColumn]:
    """How much of what the GPUs can answer a load takes, where there is one."""
    if options.get("concurrency") is None and options.get("request_rate") is None:
        return []
    if options.get("concurrency") is not None:
        return [
            ScreenColumn("req/s", "request_rate", 4),
            ScreenColumn("util", "util", 2, cell=percent("util"), also=("util",)),
        ]
    return [
        ScreenColumn("in flight", "concurrency", 5),
        ScreenColumn("util", "util", 2, cell=percent("util"), also=("util",)),
    ]


def verdict_columns(options: Mapping[str, Any]) -> list[ScreenColumn]:
    """Whether an SLO is met, and which limit is taken up most."""
    return (
        [SLO_MET, ScreenColumn("binds", "slo_binding", 3, cell=_binds, also=("slo_binding",))]
        if options.get("slo")
        else []
    )


def _binds(row: Row) -> str:
    return binding_text(str(row["slo_binding"])) if row.get("slo_binding") else "-"
