"""Rows of the sheet Kernels: work, roof, terms and time of each kernel of a pass."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from roofline.physics.one_equation import Kernel, Roof
from roofline.records import NamedTuple
from roofline.specs.kernels import HOST
from roofline.workbook.case import LookupCase
from roofline.workbook.cell import named
from roofline.workbook.tables import COLLECTIVE, EFFICIENCY

_ANSWER = (
    "pass", "kernel", "kind", "bound", "share", "time [s]", "runs", "hardware limit [s]", "one run [s]",
    "compute [s]", "memory [s]", "latency [s]", "exponentials [s]", "link [s]",
)  # fmt: skip
_WORK = (
    "FLOP", "weight bytes", "KV bytes", "activation bytes", "serial bytes", "exponentials", "depth",
    "serial depth", "items", "link bytes",
)  # fmt: skip
_CONSTANTS = tuple(name for name in EFFICIENCY if name != "t0_ep")  # t0 already depends on the plan
_ROOF = ("peak [FLOP/s]", "HBM [B/s]", "exp/s", *("t0 [s]" if name == "t0" else name for name in _CONSTANTS))
_LINK = ("link [B/s]", "ranks", "least share", "doublings", "a0 [s]", "a1 [s]", "a2 [s]", "q [s]", "eta", "eta_switch")

#: Columns of the sheet.
HEADINGS = (*_ANSWER, *_WORK, *_ROOF, *_LINK)
TIME = HEADINGS.index("time [s]")

_TERMS = ("one run [s]", "compute [s]", "memory [s]", "latency [s]", "exponentials [s]", "link [s]")

#: Columns with a sum; those that any formula may refer to; those that formulas of their row may refer to, and of these
#: the columns of the roof; columns whose formulas refer to others of their row.
SUMMED = frozenset({"time [s]", "hardware limit [s]"})
KNOWN = SUMMED | {"bound"}
SAME_ROW = frozenset({*_WORK, *_ROOF, *_LINK, *_TERMS, "runs"})
ROOF = frozenset({*_ROOF, *_LINK})
USES = frozenset({*_TERMS, "time [s]", "hardware limit [s]", "bound", "share"})


class KernelRow(NamedTuple):
    cells: tuple[Any, ...]
    is_total: bool = False


def kernel_lines(case: LookupCase) -> Iterator[KernelRow]:
    """Kernels of the prefill and of the mean decode step, each with a total."""
    prediction = case.prediction
    for name, passed, ideal in zip(
        ("prefill", "decode"), (prediction.prefill, prediction.decode), prediction.ideal, strict=True
    ):
        others = iter(ideal.kernels)
        for kernel in passed.kernels:
            other = None if kernel.kind is HOST else next(others)
            answer = (
                name, case.pool.text_formula(kernel.name), kernel.kind.name, named("bound", kernel.terms.bound),
                named("time", kernel.time) / named("time", passed.time),
                kernel.time, kernel.count, 0.0 if other is None else named("time", other.time), *_terms(kernel),
            )  # fmt: skip
            yield KernelRow((*answer, *kernel.work, *_roof(kernel)))
        blank = (None,) * (len(HEADINGS) - len(_ANSWER) + len(_TERMS))
        yield KernelRow(
            (
                f"{name}, all",
                "",
                "",
                named("bound", passed.bound),
                1.0,
                passed.time,
                None,
                named("time", ideal.time),
                *blank,
            ),
            is_total=True,
        )


def _terms(kernel: Kernel) -> tuple[Any, ...]:
    terms = kernel.terms
    return terms.total, terms.compute, terms.memory, terms.latency, terms.exponentials, terms.link


def _roof(kernel: Kernel) -> tuple[Any, ...]:
    if kernel.kind is HOST:
        return (None,) * (len(_ROOF) + len(_LINK))
    under = kernel.roof
    if isinstance(under, Roof):
        constants = (getattr(under.efficiency, name) for name in _CONSTANTS)
        return under.peak, under.bandwidth, under.exp_rate, *constants, *(None,) * len(_LINK)
    constants = (getattr(under.efficiency, name) for name in COLLECTIVE)
    return (*(None,) * len(_ROOF), under.bandwidth, under.ranks, under.least, under.doublings, *constants)
