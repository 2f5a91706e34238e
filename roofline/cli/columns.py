"""Columns that tables share: GPUs, plans, latencies with ranges, verdicts, cost."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import compress
from typing import Any

from roofline.api.predict import ROW_KEYS
from roofline.cli.answers import PLAN_KEYS, binding_text, differ, gpus_text, passing, plan_of
from roofline.cli.screen import Row, ScreenColumn
from roofline.records import replace

_SMALL = 0.01  # shares below get a decimal place


def percent(key: str) -> Callable[[Row], str]:
    """A cell with a share in percent."""

    def cell(row: Row) -> str:
        share = row.get(key)
        if share is None:
            return "-"
        return f"{100.0 * share:.0f}%" if share >= _SMALL or not share else f"{100.0 * share:.1f}%"

    return cell


def percent_column(heading: str, key: str, rank: int = 0) -> ScreenColumn:
    return ScreenColumn(heading, key, rank, cell=percent(key))


def speedup_column(heading: str, key: str, rank: int = 0) -> ScreenColumn:
    return ScreenColumn(heading, key, rank, cell=lambda row: "-" if row.get(key) is None else f"{row[key]:.2f}x")


def _verdict(row: Row) -> str:
    return str(row.get("slo_verdict") or "-")


def _bound_column(key: str) -> ScreenColumn:
    return ScreenColumn("bound by", key, 1, cell=lambda row: str(row.get("refusal") or row.get(key) or "-"))


#: Legend of verdicts that are not certain.
UNSURE = "pass?, fail?: likely, not certain"

#: Why rows stand below the rule.
BELOW_RULE = "not timed, or no rental price known"


def split_by_rule(statuses: Iterable[str], rows: Sequence[Row], *, is_named: bool) -> tuple[list[Row], list[Row]]:
    """Rows above and below the rule; all above where GPUs were named or no row qualifies.

    Above stand shipping GPUs with a known rental price and timed kernels; and where none of them meets the SLO, first
    of all those that do.
    """
    is_above = [
        is_named or (status == "shipping" and row["basis"] != "generic" and row.get("usd_per_hour") is not None)
        for status, row in zip(statuses, rows, strict=True)
    ]
    if not any(is_above):
        return list(rows), []
    first, others = list(compress(rows, is_above)), list(compress(rows, [not above for above in is_above]))
    lifted = [] if passing(first) else passing(others)
    return [*lifted, *first], [row for row in others if row not in lifted]


GPUS = ScreenColumn("GPU", "gpu", cell=gpus_text, also=("num_gpus", "gpu"))
PLAN = ScreenColumn("plan", "tp", 1, cell=plan_of, also=PLAN_KEYS[1:])
WEIGHTS = ScreenColumn("weights", "weight_dtype", 4)
SLO_MET = ScreenColumn("SLO", "slo_verdict", cell=_verdict)
BOUND = {
    "prefill": _bound_column("prefill_bound"),
    "decode": _bound_column("decode_bound"),
}
HBM = percent_column("HBM", "hbm_used_frac", 7)
TOK_S_USER = ScreenColumn("tok/s/user", "tok_s_user", 3)
TOK_S_GPU = ScreenColumn("tok/s/GPU", "output_tok_s_gpu", 3)
USD_HOUR = ScreenColumn("USD/h", "usd_per_hour", 1)
USD_TOKENS = ScreenColumn("USD/M out", "usd_per_m_output_tok", 2)


def ranked(column: ScreenColumn, rank: int) -> ScreenColumn:
    """A column with another rank; narrow terminals leave out high ranks first."""
    return replace(column, rank=rank)


def model_column(models: int) -> list[ScreenColumn]:
    return [ScreenColumn("model", "model")] if models > 1 else []


def latency(metric: str, options: Mapping[str, Any], rank: int = 0, *, with_range: bool = True) -> list[ScreenColumn]:
    """A latency with its 80 % range: the percentiles that the SLO limits, else the mean."""
    limited = [key for key in options.get("slo") or () if key.startswith(f"{metric}_p") and f"{key}_ms" in ROW_KEYS]
    is_mean = not limited or metric in (options.get("slo") or ())
    columns = []
    for key in [*([metric] if is_mean else []), *limited]:
        name = binding_text(key)
        if with_range and options.get("basis") != "ideal":
            ends = (f"{key}_low_ms", f"{key}_high_ms")
            columns.append(ScreenColumn(f"{name} ms (80 %)", f"{key}_ms", rank, ends))
        else:
            columns.append(ScreenColumn(f"{name} ms", f"{key}_ms", rank))
    share = f"{metric}_light_frac"
    if options.get("basis") == "ideal" and share in ROW_KEYS:
        columns.append(percent_column("reached", share, rank))
    return columns


def with_refusals(columns: Sequence[ScreenColumn], refusals: Sequence[Row]) -> list[ScreenColumn]:
    """Columns; those with the reasons of refusals are never left out."""
    return [ranked(column, 0) if refusals and column in BOUND.values() else column for column in columns]


def load_columns(options: Mapping[str, Any]) -> list[ScreenColumn]:
    """Utilization under a load, beside the rate for users or the requests in flight for a rate."""
    if options.get("concurrency") is not None:
        return [ScreenColumn("req/s", "request_rate", 4), percent_column("util", "util", 2)]
    if options.get("request_rate") is not None:
        return [ScreenColumn("in flight", "concurrency", 5), percent_column("util", "util", 2)]
    return []


def verdict_columns(options: Mapping[str, Any]) -> list[ScreenColumn]:
    """Whether the SLO is met, and which limit binds."""
    return [SLO_MET, limit_column("binds", "slo_binding", 3, differ(options))] if options.get("slo") else []


def limit_column(heading: str, key: str, rank: int, is_mean: bool, where: str | None = None) -> ScreenColumn:
    """The limit that binds, in rows that have a value of `where`, if given."""

    def cell(row: Row) -> str:
        is_known = row.get(key) and (where is None or row.get(where))
        return binding_text(str(row[key]), is_mean=is_mean) if is_known else "-"

    return ScreenColumn(heading, key, rank, cell=cell, also=(key,) if where is None else (where, key))
