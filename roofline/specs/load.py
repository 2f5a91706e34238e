"""Kinds of loads: a burst on an idle server, users (closed loop), Poisson arrivals (open loop), a queue (offline).

A kind says how its amount is called, read, bounded, shared by ranks and put into words. A new one needs its class here,
its argument and its option (docs/contributing.md); and, if its mean latencies are those of neither loop, a branch in
`equations`, `tails` and `pools` of `serving/load`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from roofline.numbers.operations import Real, all_of, comparable, maximum
from roofline.numbers.quantity import BILLION, MICRO, counted, rounded
from roofline.support.errors import BadInput, shown
from roofline.support.records import dataclass, replace

if TYPE_CHECKING:
    from typing import ClassVar, Protocol, Self

    class Timed(Protocol):
        """What has an end-to-end latency."""

        @property
        def e2el(self) -> Any: ...
        @property
        def served(self) -> Any: ...
        @property
        def workload(self) -> Any: ...


_PROMPTS_PER_USER = 10.0  # of the usual benchmark


class Load:
    """What all kinds answer; those of their numbers that a load does not have are None, and a batch is one."""

    __slots__ = ()

    name: ClassVar[str]  # in rows
    options: ClassVar[tuple[str, ...]]  # arguments that state it, its amount first
    option: ClassVar[str]  # the first of them
    short: ClassVar[str]  # where a caller chooses what to vary
    unit: ClassVar[str]
    measure: ClassVar[str]  # unit of its amount as an input of formulas
    meaning: ClassVar[str]  # of that input
    heading: ClassVar[str]  # of a column
    one: ClassVar[str]  # after an amount of 1
    many: ClassVar[str]  # after any other
    largest: ClassVar[str]  # where its amount is sought
    least: ClassVar[float] = 1.0  # amount that is accepted
    start: ClassVar[float] = 1.0  # that any server answers, where searches begin
    bound: ClassVar[str] = "at least 1"  # the same in words
    end: ClassVar[str]  # what ends a curve over it
    is_burst: ClassVar[bool] = False  # meets an idle server
    is_open: ClassVar[bool] = False  # requests come whether or not others are answered
    is_queue: ClassVar[bool] = False  # all requests wait from the start
    answers: ClassVar[tuple[str, ...]] = ()  # of the flow, requests in flight and per second, what follows from it

    batch: Real = 1.0
    concurrency: Real = None
    request_rate: Real = None
    num_prompts: Real = None

    @property
    def is_run(self) -> bool:
        """Whether it begins and ends, so that means exist but no percentiles."""
        return self.num_prompts is not None

    @property
    def benchmark(self) -> float | None:
        """Requests of the usual benchmark, whose start moves its means; None where there is none."""
        return None

    @property
    def amount(self) -> Real:
        return getattr(self, self.option)

    @property
    def at_once(self) -> Real:
        """Requests that need a slot at the same time; others may wait."""
        return self.amount

    @property
    def inputs(self) -> tuple[str, ...]:
        """Names of its numbers."""
        return self.options

    def having(self, numbers: Mapping[str, Real]) -> Self:
        """The load with other numbers, by their names."""
        return replace(self, **numbers)  # type: ignore[type-var]

    def at(self, amount: Real) -> Self:
        """As much of it."""
        return self.having({self.option: amount})

    @classmethod
    def of(cls, amount: Real) -> Self:
        return cls(**{cls.option: amount})

    def scaled(self, factor: Real) -> Self:
        return self.at(maximum(self.amount * factor, self.least))

    def amount_at(self, rate: Real) -> Real:
        """The amount of an open loop whose requests come at a rate [1/s]."""
        return rate

    def sped_up(self, factor: Real) -> Load:  # noqa: ARG002
        """The same where all times are shorter by a factor."""
        return self

    def shared(self, parts: Real) -> Load:
        """What each of several equal parts of a deployment gets."""
        return self.having({name: getattr(self, name) / parts for name in self.inputs})

    def users_on(self, ranks: Real) -> Any:  # noqa: ARG002
        """Users of each rank that has any; None where nobody waits for an answer before asking again."""
        return None

    def rate_on(self, ranks: Real) -> Any:  # noqa: ARG002
        """Requests per second at each rank, where the load states them [1/s]."""
        return None

    def in_flight(self, answer: Timed) -> Any:  # noqa: ARG002
        """Mean requests in flight, by Little's law; None for a burst."""
        return None

    def answered(self, answer: Timed) -> Any:  # noqa: ARG002
        """Requests answered per second, by Little's law [1/s]; None for a burst."""
        return None

    def duration(self, answer: Timed) -> Any:
        """Time from the start of a run to its last answer [s]; None in the steady state, and for a burst."""
        return self.num_prompts / self.answered(answer) if self.is_run else None

    @classmethod
    def words(cls, amount: str) -> str:
        """An amount of it in words."""
        return f"{amount}{cls.one if amount == '1' else cls.many}"

    def text(self, write: Callable[[Real], str], run: str = ", ") -> str:
        """The load in a few words; `run` joins the run to its users."""
        return self.words(write(self.amount)) + self.run_text(write, run)

    def run_text(self, write: Callable[[Real], str], before: str) -> str:  # noqa: ARG002
        """A run in words, with `before`; empty in the steady state."""
        return ""

    def flow(self, rate: str, users: str) -> str:
        """Requests per second and in flight as a sentence."""
        raise NotImplementedError  # pragma: no cover - a burst has neither

    @property
    def brief(self) -> str:
        """The load of one case, whether of a run or not."""
        return self.words(f"{self.amount:.12g}")

    @property
    def asked(self) -> str:
        """The same in a refusal."""
        return self.brief

    def check(self, written: Mapping[str, Any]) -> None:
        """Refuse numbers that contradict each other; `written`: as the caller gave them."""


@comparable
@dataclass(frozen=True, slots=True, eq=False)
class Burst(Load):
    """Requests that begin together on an idle server."""

    batch: Real = 1.0  # [sequences] per replica

    name, option, short, unit = "burst", "batch", "batch", "sequences"
    options, heading = ("batch",), "batch"
    one, many, largest = " request", " requests at once", "largest burst on an idle server"
    is_burst = True

    @classmethod
    def words(cls, amount: str) -> str:
        return f"batch {amount}"


@comparable
@dataclass(frozen=True, slots=True, eq=False)
class Users(Load):
    """Users who send the next request as soon as the last is answered: closed loop."""

    concurrency: Real  # [requests] in flight on the whole deployment
    num_prompts: Real | None = None  # [requests] of a run that all users begin together; None: the steady state

    name, option, short, unit, end = "concurrency", "concurrency", "users", "users", "all slots taken"
    options, heading = ("concurrency", "num_prompts"), "users"
    measure, meaning = "requests", "users of the deployment"
    one, many, largest = " user", " users", "most users"
    answers = ("request_rate",)

    @property
    def inputs(self) -> tuple[str, ...]:
        return self.options if self.is_run else self.options[:1]

    @property
    def benchmark(self) -> float | None:
        if self.is_run or type(self.concurrency) is not float or self.concurrency <= 1.0:
            return None
        return float(round(_PROMPTS_PER_USER * self.concurrency))

    def scaled(self, factor: Real) -> Users:
        users = maximum(self.concurrency * factor, self.least)
        return Users(users, maximum(self.num_prompts, users) if self.is_run else None)

    def users_on(self, ranks: Real) -> Real:
        return maximum(self.concurrency / ranks, 1.0)

    def in_flight(self, answer: Timed) -> Real:
        return self.answered(answer) * answer.e2el if answer.workload.think else self.concurrency

    def answered(self, answer: Timed) -> Real:
        return self.concurrency / (answer.e2el + answer.workload.think)

    def run_text(self, write: Callable[[Real], str], before: str) -> str:
        return f"{before}a run of {counted(write(self.num_prompts), 'request')}" if self.is_run else ""

    def flow(self, rate: str, users: str) -> str:
        return f"{self.words(users)}, who send{'s' if users == '1' else ''} {rate}"

    def check(self, written: Mapping[str, Any]) -> None:
        if self.is_run and not all_of(self.num_prompts >= self.concurrency):
            stated = f"num_prompts = {shown(written['num_prompts'])}"
            raise BadInput(f"{stated} must be at least concurrency = {shown(written['concurrency'])}")


@comparable
@dataclass(frozen=True, slots=True, eq=False)
class Queue(Load):
    """Requests that all wait from the start, as in an offline run; stated by their number alone."""

    num_prompts: Real  # [requests] at the whole deployment

    name, option, short, unit, end = "num_prompts", "num_prompts", "requests", "requests", "all slots taken"
    options, heading = ("num_prompts",), "requests"
    measure, meaning = "requests", "requests in the run"
    one, many, largest = " request", " requests queued at once", "most requests queued at once"
    answers = ("concurrency", "request_rate")
    is_queue = True

    @property
    def at_once(self) -> Real:
        return 1.0

    def users_on(self, ranks: Real) -> Real:
        return maximum(self.num_prompts / ranks, 1.0)

    def in_flight(self, answer: Timed) -> Real:
        return self.answered(answer) * answer.e2el

    def answered(self, answer: Timed) -> Real:
        """Requests over the time of the run, which is longer where a measurement makes each of them longer."""
        served = answer.served
        return served.request_rate * (served.ttft + served.decode) / answer.e2el

    def flow(self, rate: str, users: str) -> str:
        return f"{rate}, {users} in flight on average"


class Open(Load):
    """Requests that come at random times, whether or not others are answered: open loop."""

    __slots__ = ()

    answers, end = ("concurrency",), "saturation"
    is_open = True

    def sped_up(self, factor: Real) -> Load:
        return self.scaled(factor)

    def rate_on(self, ranks: Real) -> Real:
        return self.request_rate / ranks

    def in_flight(self, answer: Timed) -> Real:
        return self.request_rate * answer.e2el

    def answered(self, answer: Timed) -> Real:  # noqa: ARG002
        return self.request_rate

    def flow(self, rate: str, users: str) -> str:
        return f"{rate} at random times, {users} in flight"


@comparable
@dataclass(frozen=True, slots=True, eq=False)
class Rate(Open):
    """Requests of very many people, by their rate."""

    request_rate: Real  # [1/s] Poisson arrivals at the whole deployment

    name, option, short, unit = "request_rate", "request_rate", "rate", "requests/s"
    options, heading = ("request_rate",), "req/s"
    measure, meaning = "1/s", "requests that arrive at the deployment"
    one, many, largest = " request/s", " requests/s", "highest rate"
    least, start, bound = 1.0 / BILLION, MICRO, "above 0 requests/s"

    def scaled(self, factor: Real) -> Rate:
        return Rate(self.request_rate * factor)

    @property
    def brief(self) -> str:
        return self.words(rounded(float(self.request_rate)))

    @property
    def asked(self) -> str:
        return f"request_rate = {rounded(float(self.request_rate))}"


#: A case has one of them, a burst where none is stated.
KINDS: tuple[type[Load], ...] = (Burst, Users, Rate)
#: Kinds by the arguments that state their amounts; those that last.
KIND_OF: dict[str, type[Load]] = {kind.option: kind for kind in KINDS}
LASTING = {name: kind for name, kind in KIND_OF.items() if not kind.is_burst}
#: Arguments that state a load.
OPTIONS = tuple(dict.fromkeys(name for kind in KINDS for name in kind.options))
#: Argument of a run: beside users, or alone, of a queue.
RUN = "num_prompts"


def stated(options: Mapping[str, Any]) -> type[Load]:
    """The kind of load whose amount is given; a burst where none is."""
    given = [kind for kind in KINDS if options.get(kind.option) is not None]
    if len(given) > 1:
        raise BadInput(f"a case has one load; {' and '.join(kind.option for kind in given)} are given; keep one")
    return given[0] if given else _unless_stated(options)


def lasting_named(against: Any) -> type[Load]:
    """The kind of load that lasts, by its argument or its short name."""
    for kind in LASTING.values():
        if isinstance(against, str) and against in (kind.option, kind.short):
            return kind
    raise BadInput(f"against = {shown(against)} must be rate or users")


def lasting(options: Mapping[str, Any]) -> type[Load]:
    """The kind of load whose amount is given, of several the first; a burst where none lasts."""
    found = next((kind for name, kind in LASTING.items() if options.get(name) is not None), None)
    return found or _unless_stated(options)


def _unless_stated(options: Mapping[str, Any]) -> type[Load]:
    """The kind where no amount is given: a queue of the requests of a run, or a burst."""
    return Burst if options.get(RUN) is None or options.get(Burst.option) is not None else Queue


def load_of(options: Mapping[str, Any]) -> Load:
    """The load that arguments state."""
    kind = stated(options)
    return kind(**{name: options[name] for name in kind.options if options.get(name) is not None})
