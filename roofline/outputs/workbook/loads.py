"""A case of cells under users or a request rate: the equations of a load, their loops in the rows of a sheet."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from roofline.numbers.operations import Real, maximum, negated, where
from roofline.numbers.quantity import MICRO
from roofline.outputs.workbook.case import LookupCase
from roofline.outputs.workbook.cells import INFINITE, Cell, CellPool, scope
from roofline.outputs.workbook.rounds import MOST_TURNS, Rounds
from roofline.outputs.workbook.tables import is_number
from roofline.serving.latency import Workload, request_passes
from roofline.serving.load.equations import served_by_formulas
from roofline.serving.prediction import memory_of
from roofline.specs.load import Load, Rate, Users
from roofline.specs.workload import OF_REQUESTS, key_of
from roofline.support.errors import DoesNotFit, NoSteadyState, Overloaded
from roofline.support.records import NamedTuple, replace

#: Loads that may be typed beside a burst, with what their cells are called.
TYPED: Mapping[str, type[Load]] = {"users": Users, "request_rate": Rate}
#: What limits may hold for, with the percentile.
LEVELS: Mapping[str, float | None] = {"mean": None, "p95": 95.0, "p99": 99.0}
