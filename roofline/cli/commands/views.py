"""What the questions about one case show: the columns of `ttft`, `tpot`, `knee` and `predict`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from roofline.cli.columns import (
    BOUND,
    TOK_S_GPU,
    TOK_S_USER,
    USD_HOUR,
    USD_TOKENS,
    latency,
    load_columns,
    percent,
    ranked,
    verdict_columns,
)
from roofline.cli.screen import ScreenColumn

__all__ = ["of_all", "of_knee", "of_tpot", "of_ttft"]

_HBM = ScreenColumn("HBM", "hbm_used_frac", 7, cell=percent("hbm_used_frac"), also=("hbm_used_frac",))
_BASIS = ScreenColumn("basis", "basis_detail", 9)


def of_ttft(options: Mapping[str, Any]) -> list[ScreenColumn]:
    """Columns of `ttft`.

    Args:
        options: keyword arguments of the API.

    Returns:
        The columns, in their order.
    """
    return [
        *latency("ttft", options),
        *verdict_columns(options),
        *load_columns(options),
        BOUND["prefill"],
        *latency("tpot", options, 4, with_range=False),
        *latency("e2el", options, 6, with_range=False),
        ranked(TOK_S_USER, 5),
        ranked(TOK_S_GPU, 5),
        _HBM,
        USD_HOUR,
        USD_TOKENS,
        _BASIS,
    ]


def of_tpot(options: Mapping[str, Any]) -> list[ScreenColumn]:
    """Columns of `tpot`.

    Args:
        options: keyword arguments of the API.

    Returns:
        The columns, in their order.
    """
    return [
        *latency("tpot", options),
        ranked(TOK_S_USER, 1),
        *verdict_columns(options),
        *load_columns(options),
        BOUND["decode"],
        *latency("ttft", options, 4, with_range=False),
        *latency("e2el", options, 6, with_range=False),
        ranked(TOK_S_GPU, 5),
        _HBM,
        USD_HOUR,
        USD_TOKENS,
        _BASIS,
    ]


def of_knee(options: Mapping[str, Any]) -> list[ScreenColumn]:
    """Columns of `knee`.

    Args:
        options: keyword arguments of the API.

    Returns:
        The columns, in their order.
    """
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


def of_all(options: Mapping[str, Any]) -> list[ScreenColumn]:
    """Columns of `predict`.

    Args:
        options: keyword arguments of the API.

    Returns:
        The columns, in their order.
    """
    return [
        *latency("ttft", options),
        *latency("tpot", options, 1),
        *verdict_columns(options),
        *load_columns(options),
        TOK_S_GPU,
        *latency("e2el", options, 4, with_range=False),
        ranked(TOK_S_USER, 5),
        _HBM,
        BOUND["decode"],
        USD_HOUR,
        USD_TOKENS,
        _BASIS,
    ]
