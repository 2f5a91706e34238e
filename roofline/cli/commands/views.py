"""Columns of `ttft`, `tpot`, `knee` and `predict`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from roofline.cli.columns import (
    BOUND,
    HBM,
    TOK_S_GPU,
    TOK_S_USER,
    USD_HOUR,
    USD_TOKENS,
    latency,
    load_columns,
    ranked,
    verdict_columns,
)
from roofline.cli.screen import ScreenColumn

_BASIS = ScreenColumn("basis", "basis_detail", 9)


def ttft_columns(options: Mapping[str, Any]) -> list[ScreenColumn]:
    return _latency_columns(options, "ttft", "tpot", BOUND["prefill"], later=[ranked(TOK_S_USER, 5)])


def tpot_columns(options: Mapping[str, Any]) -> list[ScreenColumn]:
    return _latency_columns(options, "tpot", "ttft", BOUND["decode"], first=[ranked(TOK_S_USER, 1)])


def _latency_columns(
    options: Mapping[str, Any],
    metric: str,
    other: str,
    bound: ScreenColumn,
    first: Sequence[ScreenColumn] = (),
    later: Sequence[ScreenColumn] = (),
) -> list[ScreenColumn]:
    is_limited = any(key.startswith(other) for key in options.get("slo") or ())
    beside = latency(other, options, 1 if is_limited else 4, with_range=False)
    return [
        *latency(metric, options),
        *first,
        *(beside if is_limited else ()),
        *verdict_columns(options),
        *load_columns(options),
        bound,
        *(() if is_limited else beside),
        *latency("e2el", options, 6, with_range=False),
        *later,
        ranked(TOK_S_GPU, 5),
        HBM,
        USD_HOUR,
        USD_TOKENS,
        _BASIS,
    ]


def knee_columns(options: Mapping[str, Any]) -> list[ScreenColumn]:
    what = "users" if options.get("concurrency") is not None else "batch"
    return [
        ScreenColumn(f"knee [{what}]", "knee"),
        ScreenColumn("set by", "knee_bound", 1),
        ScreenColumn("ridge", "ridge_knee", 1),
        ScreenColumn("half", "half_knee", 1),
        ScreenColumn("memory", "memory_knee", 1),
        ScreenColumn("by SLO", "slo_knee", 1),
        *verdict_columns(options),
        USD_HOUR,
        _BASIS,
    ]


def predict_columns(options: Mapping[str, Any]) -> list[ScreenColumn]:
    return [
        *latency("ttft", options),
        *latency("tpot", options, 1),
        *verdict_columns(options),
        *load_columns(options),
        TOK_S_GPU,
        *latency("e2el", options, 4, with_range=False),
        ranked(TOK_S_USER, 5),
        HBM,
        BOUND["decode"],
        USD_HOUR,
        USD_TOKENS,
        _BASIS,
    ]
