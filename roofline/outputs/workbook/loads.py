"""A case of cells under users or a request rate: the equations of a load, their loops in the rows of a sheet."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import reduce
from operator import or_
from typing import Any

from roofline.numbers.operations import Real, negated, where
from roofline.numbers.quantity import BILLION
from roofline.outputs.workbook.case import TYPED, Contents, LookupCase, amount_of, name_of, noted, read_load
from roofline.outputs.workbook.cells import INFINITE, Cell, CellPool, scope
from roofline.outputs.workbook.judged import Judged, words_on
from roofline.outputs.workbook.rounds import Rounds
from roofline.outputs.workbook.tables import is_number, known_name, rounded_to
from roofline.outputs.workbook.typed import LEVELS, UNREADABLE
from roofline.serving.latency import request_passes
from roofline.serving.load.equations import served_by_formulas
from roofline.serving.prediction import memory_of
from roofline.serving.verdict import NOT_KNOWN
from roofline.specs.workload import key_of
from roofline.support.errors import DoesNotFit, NoSteadyState, Overloaded
from roofline.support.records import NamedTuple, replace

#: Kinds of layers of a workbook that takes loads.
MOST_KINDS = 12
_ASK = "ask roofline predict"
_ADVICE = {"users": "write 64, or 2k for 2048", "request_rate": "write 3, 3/s, 180/min or 10k/h"}


class Loaded(NamedTuple):
    """The case under one kind of load."""

    is_asked: Any  # whether this load is typed
    prediction: Judged
    reason: Any  # text, empty where there is an answer
    note: Any  # limits of the timed kernels that the case exceeds


class Asked:
    """The case under the load that is typed, a burst where none is."""

    def __init__(self, case: LookupCase, loads: list[Loaded], level: Any, is_typed: Any, rounds: Rounds) -> None:
        self.case, self.loads, self.level, self._rounds = case, loads, level, rounds
        self.is_typed = is_typed & (case.impossible == "")  # whether what is typed is a load and a level
        self.reason: Any = self._chosen(case.reason, [each.reason for each in loads])
        self.load_note: Any = self._chosen("", [each.note for each in loads])
        self.is_burst: Any = True
        for each in loads:
            self.is_burst = negated(each.is_asked) & self.is_burst

    def words(self, typed: Mapping[str, Cell]) -> Any:
        """The load in words; empty where what is typed is none."""
        text = self.case.pool.text_formula
        burst = text(f"a burst of batch {self.case.choices['batch']} on each idle replica")
        amounts = ((TYPED[name], read_load(name, cell)) for name, cell in typed.items())
        loaded = [where(cell == 1.0, f"1{kind.one}", text(f"{cell}{kind.many}")) for kind, cell in amounts]
        loaded = loaded[: len(self.loads)]  # none where the workbook takes none
        return where(self.is_typed, self._chosen(burst, loaded), "")

    def verdict(self, keys: Sequence[str]) -> tuple[Any, Any]:
        """The verdict on some limits, and why it is not `pass`."""
        word, why = (self.of(lambda each, part: words_on(each, keys)[part], part) for part in (0, 1))
        lacks: Any = False
        for each in self._rounds.lacking:
            lacks = lacks | each
        return word, where((word == NOT_KNOWN) & lacks, f"a percentile {self._rounds.lack}; {_ASK}", why)

    def of(self, read: Callable[..., Any], *more: Any) -> Any:
        """What `read` says of the prediction of the typed load."""
        return self._chosen(read(self.case.prediction, *more), [read(each.prediction, *more) for each in self.loads])

    def at_level(self, metric: str, read: Callable[[Judged, str], Any]) -> Any:
        """What `read` says of a latency at the level of the limits, by the key of a limit."""
        chosen: Any = None
        for name, level in LEVELS.items():
            key = key_of(metric, level)
            here = self.of(read, key)
            chosen = here if chosen is None else where(self.level == name, here, chosen)
        return chosen

    def _chosen(self, burst: Any, loaded: list[Any]) -> Any:
        chosen = burst
        for load, value in zip(self.loads, loaded, strict=True):
            chosen = value if value is chosen else where(load.is_asked, value, chosen)
        return chosen


def read_level(contents: Contents, pool: CellPool) -> Any:
    """What the limits hold for: one of `LEVELS` in any spelling, the mean where none is typed, or another text."""
    typed = pool.input(name_of("slo_level"), contents.level)
    level = known_name(typed, "slo_level", None, contents.catalog.names)
    return where(level == "", next(iter(LEVELS)), level)


def levelled(slo: Mapping[str, Real], level: Any) -> dict[str, Real]:
    """Limits by their keys at every level, of which one is typed; the others are infinite."""
    return {
        key_of(metric, of): where(level == name, limit, INFINITE)
        for metric, limit in slo.items()
        for name, of in LEVELS.items()
    }


def takes_loads(contents: Contents) -> bool:
    """Whether a workbook has rows for the rounds of a load: those of many kinds of layers would be too long."""
    return len(contents.catalog.layer_kinds) <= MOST_KINDS


def typed_loads(contents: Contents, pool: CellPool) -> dict[str, Cell]:
    """Loads of the sheet Answer, as typed."""
    return {name: pool.input(name_of(name), contents.loads.get(name, float("nan"))) for name in TYPED}


@scope("")
def asked_case(contents: Contents, case: LookupCase, typed: Mapping[str, Cell], rounds: Rounds) -> Asked:
    """The case under each load that may be typed."""
    pool, level = case.pool, read_level(contents, case.pool)
    case = case._replace(prediction=replace(case.prediction, slo=levelled(case.prediction.slo, level)))
    faults = list(_faults(case, typed, level))
    pool.rows = rounds
    loads = []
    if takes_loads(contents):
        loads = [_loaded(case, rounds, name, cell, faults) for name, cell in typed.items()]
    else:
        asks = reduce(or_, (is_number(read_load(name, cell)) for name, cell in typed.items()))
        faults.append((asks, f"a workbook of more than {MOST_KINDS} kinds of layers holds bursts alone; {_ASK}"))
    reason: Any = case.reason
    is_typed: Any = True
    for fails, text in reversed(faults):
        is_typed = negated(fails) & is_typed
        reason = where((case.impossible == "") & fails, text, reason)
    return Asked(case._replace(reason=reason), loads, level, is_typed, rounds)


def _faults(case: LookupCase, typed: Mapping[str, Cell], level: Any) -> Iterator[tuple[Any, str]]:
    """Conditions under which what is typed is not a load, with what to do."""
    read = {name: read_load(name, cell) for name, cell in typed.items()}
    text = case.pool.text_formula
    for name, cell in read.items():
        kind = TYPED[name]
        yield cell == UNREADABLE, text(f"{name} = {typed[name]} is text where a number belongs; {_ADVICE[name]}")
        yield where(is_number(cell), cell < kind.least, cell != ""), f"{name} must be {kind.bound}, or blank"
        yield where(is_number(cell), cell > BILLION, False), f"{name} must be at most {BILLION:.0f}, or blank"  # noqa: FBT003
    users, rate = read.values()
    yield is_number(users) & is_number(rate), "choose users or request_rate, not both: make one of them blank"
    known = level == next(iter(LEVELS))
    for name in LEVELS:
        known = known | (level == name)
    yield negated(known), text(f"SLO level = {level} must be one of {', '.join(LEVELS)}")


def _loaded(case: LookupCase, rounds: Rounds, name: str, typed: Cell, faults: list[tuple[Any, str]]) -> Loaded:
    """The case under a load whose amount is a cell."""
    is_asked, load = amount_of(name, typed)
    burst: Any = case.prediction
    before = len(rounds.searches)
    deployment, workload = burst.deployment, replace(burst.workload, load=load)
    rounds.title = name
    under_load = served_by_formulas(deployment, workload)
    need: Any = memory_of(deployment, workload, under_load)
    first, step = request_passes(deployment, workload, under_load)
    prediction = replace(
        burst, workload=workload, prefill=burst.prefill.like(first), decode=burst.decode.like(step), memory=need,
        served=under_load._replace(is_stable=True), is_ideal=False,
    )  # fmt: skip
    prediction.tails  # noqa: B018  whose loops must settle as well
    unsettled, rounds.unsettled = rounds.unsettled, []
    text = case.pool.text_formula
    used = rounded_to(100.0 * need.used_fraction, 0)
    refused: list[tuple[Any, Any]] = [
        *faults,
        (case.is_ideal, f"cells answer loads on the calibrated basis only; {_ASK}"),
        (negated(need.fits), text(f"{DoesNotFit.short}: {used}% of the usable memory")),
    ]
    unstable = negated(under_load.is_stable)
    if load.is_open:
        most = rounded_to(under_load.max_request_rate, 2)
        over = unstable & (under_load.request_rate >= under_load.max_request_rate)
        refused.append((over, text(f"{Overloaded.short}: at most {most} requests/s are answered")))
    refused += [(each, f"prompts take most of the time, and cells cannot hold the search that this takes; {_ASK}")
                for each in rounds.searches[before:]]  # fmt: skip
    refused += [(each, f"this load {rounds.lack}; {_ASK}") for each in unsettled]
    refused.append((unstable, NoSteadyState.short))
    reason: Any = ""
    for fails, why in reversed(refused):
        reason = where(fails, why, reason)
    reason = where(case.impossible == "", reason, case.impossible)
    return Loaded(is_asked, prediction, reason, noted(case.pool, deployment, workload))
