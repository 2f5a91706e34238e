"""Who computes the blocks of a table: this process, several on this machine, an executor, or a cluster of Dask."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from roofline.numbers.quantity import KIBI
from roofline.support.errors import BadInput, RooflineError, needing, shown

if TYPE_CHECKING:
    from concurrent.futures import Executor

#: A function of a question and the number of a block, which any worker can import.
Work = Callable[[bytes, int], Any]

_MOST_JOBS = KIBI
_AHEAD = 2  # blocks of each worker that are asked for at a time
_TRIES = 3  # pools that break one after the other without a block
_RETRIES = 3  # of a block on a cluster
_ALL = "all"
_GUARD = "a script that asks must do so below `if __name__ == '__main__':`"

_Item = TypeVar("_Item")


class Workers(Protocol):
    """Whoever computes blocks."""

    @property
    def count(self) -> int:
        """How many there are now."""
        ...

    def answers(self, work: Work, question: bytes, numbers: Sequence[int]) -> Iterator[tuple[int, Any]]:
        """Blocks as they are done, each once, of which only a few are asked for at a time."""
        ...


def workers_of(jobs: Any = None, executor: Any = None, dask: Any = None) -> Workers:
    """Workers as callers ask for them; without any, this process.

    Args:
        jobs: processes on this machine [1], or ``all`` for one a core.
        executor: any `concurrent.futures.Executor`, or a client of Dask.
        dask: address of the scheduler of a cluster, or its scheduler file.

    Raises:
        BadInput: two of them, none of these, or a cluster that does not answer.
    """
    given = [name for name, value in (("jobs", jobs), ("executor", executor), ("dask", dask)) if value is not None]
    if len(given) > 1:
        raise BadInput(f"{' and '.join(f'`{name}`' for name in given)} both say who computes; leave out one of them")
    if dask is not None:
        return _Cluster(_client(dask), is_own=True)
    if executor is not None:
        if isinstance(executor, type) or not callable(getattr(executor, "submit", None)):
            raise BadInput(f"executor = {shown(executor)} must be a concurrent.futures.Executor or a client of Dask")
        is_dask = type(executor).__module__.partition(".")[0] == "distributed"
        return _Cluster(executor) if is_dask else _Given(executor)
    count = _count(jobs)
    return _Here() if count == 1 else _Processes(count)


def cores() -> int:
    """Cores that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0)) or 1
    return os.cpu_count() or 1


def _count(jobs: Any) -> int:
    if jobs is None:
        return 1
    if isinstance(jobs, str) and jobs.strip().lower() == _ALL:
        return cores()
    number = int(jobs) if isinstance(jobs, str) and jobs.strip().isascii() and jobs.strip().isdecimal() else jobs
    if type(number) is not int or not 1 <= number <= _MOST_JOBS:
        raise BadInput(f"jobs = {shown(number)} must be a number of processes from 1 to {_MOST_JOBS}, or {_ALL}")
    return number


class Failed(RooflineError):
    """A block that no worker could compute; what is done so far is kept."""


class _Here:
    count = 1

    def answers(self, work: Work, question: bytes, numbers: Sequence[int]) -> Iterator[tuple[int, Any]]:
        for number in numbers:
            yield number, work(question, number)


# Futures: a few at a time, and those that are done first.


def _as_done(
    submit: Callable[[int], Any], numbers: Iterator[int], most: Callable[[], int], waiting: dict[int, Any]
) -> Iterator[tuple[int, Any]]:
    """Blocks and their futures, in the order in which they end; `waiting` are those that are asked for."""
    from queue import SimpleQueue

    done: SimpleQueue[int] = SimpleQueue()

    def ask() -> None:
        for number in numbers:
            future = waiting[number] = submit(number)
            future.add_done_callback(lambda _, number=number: done.put(number))
            if len(waiting) >= most():
                return

    ask()
    while waiting:
        number = done.get()
        future = waiting.pop(number)
        yield number, future
        if len(waiting) < most():
            ask()


def _failed(number: int, error: BaseException) -> RooflineError:
    """Why a block has no answer; errors of the package are their own."""
    if isinstance(error, RooflineError):
        return error
    if isinstance(error, ModuleNotFoundError):
        return Failed(f"block {number}: {error}; install roofline, in the same version, on every worker")
    return Failed(f"block {number} failed on a worker: {type(error).__name__}: {error}")


class _Given:
    """An executor of the caller's, which stays open."""

    def __init__(self, executor: Executor) -> None:
        self._executor = executor
        self.count = getattr(executor, "_max_workers", None) or cores()

    def answers(self, work: Work, question: bytes, numbers: Sequence[int]) -> Iterator[tuple[int, Any]]:
        waiting: dict[int, Any] = {}
        most = _AHEAD * self.count

        def submit(number: int) -> Any:
            try:
                return self._executor.submit(work, question, number)
            except RuntimeError as error:  # it is shut down, or broken
                raise _failed(number, error) from None

        try:
            for number, future in _as_done(submit, iter(numbers), lambda: most, waiting):
                error = future.exception()
                if error is not None:
                    raise _failed(number, error)
                yield number, future.result()
        finally:
            for future in waiting.values():
                future.cancel()


class _Processes:
    """Processes on this machine; where one of them dies, its blocks are asked of new ones."""

    def __init__(self, count: int) -> None:
        self.count = count

    def answers(self, work: Work, question: bytes, numbers: Sequence[int]) -> Iterator[tuple[int, Any]]:
        from concurrent.futures.process import BrokenProcessPool

        left = dict.fromkeys(numbers)
        breaks = 0
        while left:
            pool = _pool(self.count)
            waiting: dict[int, Any] = {}
            is_over = False

            def submit(number: int, pool: Any = pool) -> Any:
                return pool.submit(work, question, number)

            try:
                for number, future in _as_done(submit, iter(list(left)), lambda: _AHEAD * self.count, waiting):
                    error = future.exception()
                    if isinstance(error, BrokenProcessPool):
                        break
                    if error is not None:
                        raise _failed(number, error)
                    breaks = 0
                    del left[number]
                    yield number, future.result()
                else:
                    is_over = True
            except BrokenProcessPool:  # at a submission
                pass
            finally:
                _end(pool, is_over=is_over)
            breaks += not is_over
            if breaks >= _TRIES:
                first = next(iter(left))
                raise Failed(
                    f"processes died {breaks} times, last at block {first} or one after it: out of memory? "
                    f"Use fewer jobs; {_GUARD}"
                )


def _pool(count: int) -> Any:
    from concurrent.futures import ProcessPoolExecutor
    from multiprocessing import get_all_start_methods, get_context

    # Not fork: this process may have threads. A server of forks has the imports of a worker once.
    method = "forkserver" if "forkserver" in get_all_start_methods() else "spawn"
    context: Any = get_context(method)
    if method == "forkserver":
        context.set_forkserver_preload([__name__, "roofline.questions.table", "roofline.numbers.reductions"])
    return ProcessPoolExecutor(count, mp_context=context, initializer=_begin)


def _begin() -> None:
    """Begin a worker: its parent answers Ctrl-C, and it ends with its parent."""
    import signal
    import threading
    from multiprocessing import connection, parent_process

    signal.signal(signal.SIGINT, signal.SIG_IGN)
    parent = parent_process()
    if parent is None:  # pragma: no cover - a worker has one
        return
    sentinel = parent.sentinel

    def watch() -> None:  # pragma: no cover - as the parent is gone
        connection.wait([sentinel])
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()


def _end(pool: Any, *, is_over: bool) -> None:
    """End a pool: of one that is not over, whatever its processes do."""
    processes = list((getattr(pool, "_processes", None) or {}).values())
    pool.shutdown(wait=is_over, cancel_futures=True)
    if not is_over:
        for process in processes:
            with suppress(OSError, ValueError):  # it may have ended
                process.terminate()
        pool.shutdown(wait=True)


# Dask.


class _Cluster:
    """A client of Dask, on a cluster that grows and shrinks; its scheduler asks again what a lost worker had."""

    def __init__(self, client: Any, *, is_own: bool = False) -> None:
        self._client, self._is_own = client, is_own

    @property
    def count(self) -> int:
        """Threads of its workers now."""
        return sum(self._client.nthreads().values()) or 1

    def answers(self, work: Work, question: bytes, numbers: Sequence[int]) -> Iterator[tuple[int, Any]]:
        from uuid import uuid4

        waiting: dict[int, Any] = {}
        name = f"roofline-{uuid4().hex[:12]}"
        most = _Now(lambda: _AHEAD * max(self.count, 2))

        def submit(number: int) -> Any:
            return self._client.submit(work, question, number, key=f"{name}-{number}", pure=False, retries=_RETRIES)

        try:
            for number, future in _as_done(submit, iter(numbers), most, waiting):
                if future.status != "finished":
                    raise _failed(number, future.exception() or OSError(f"it was {future.status}"))
                yield number, future.result()
                future.release()
        finally:
            for future in waiting.values():
                with suppress(Exception):
                    future.cancel()
            if self._is_own:
                with suppress(Exception):
                    self._client.close()


class _Now:
    """A number that is asked for every few seconds."""

    def __init__(self, ask: Callable[[], int]) -> None:
        self._ask, self._due, self._number = ask, 0.0, 1

    def __call__(self) -> int:
        from time import monotonic

        if monotonic() >= self._due:
            with suppress(Exception):  # the scheduler is busy: the number of before
                self._number = self._ask()
            self._due = monotonic() + 2.0
        return self._number


def _client(address: Any) -> Any:
    """A client of the scheduler at an address, or of the one that wrote a scheduler file."""
    if not isinstance(address, str) or not address.strip():
        raise BadInput(f"dask = {shown(address)} must be the address of a scheduler, such as tcp://10.0.0.5:8786")
    with needing("dask needs dask.distributed", "dask"):
        from distributed import Client

    is_file = address.endswith(".json")
    if is_file and not Path(address).is_file():
        raise BadInput(f"{address}: no such scheduler file of Dask; is the scheduler running?")
    place = {"scheduler_file": address} if is_file else {"address": address}
    try:
        connect: Any = Client
        return connect(**place, timeout="15s", set_as_default=False)
    except (OSError, ValueError, TypeError, ImportError) as error:
        why = str(error).strip().split("\n")[0]
        raise BadInput(f"no scheduler of Dask answers at {address}: {why or type(error).__name__}") from None
