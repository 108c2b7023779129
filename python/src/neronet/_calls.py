"""Calls of an executor: what they are, how they are pickled, how they fail."""

import concurrent.futures
import importlib
import threading
import time
from concurrent.futures import Future
from typing import Any, Callable, Dict, List, Optional, Set, Tuple, Union

from ._frames import Channel


class WorkerDied(concurrent.futures.BrokenExecutor):
    """Two workers died of the same call.

    ``run`` is the run of the second, ``exit_code``, ``signal`` and ``reason`` are its end, and
    ``stderr_line`` is what it printed last there.
    """

    def __init__(self, text: str, row: Optional[Dict[str, Any]] = None) -> None:
        super().__init__(text)
        row = row or {}
        self.run: Optional[str] = row.get("run")
        self.exit_code: Optional[int] = row.get("exit_code")
        self.signal: Optional[int] = row.get("signal")
        self.reason: Optional[str] = row.get("reason")
        self.stderr_line: Optional[str] = row.get("stderr_line")


class PoolBroken(concurrent.futures.BrokenExecutor):
    """No worker can serve: none could be started, or all failed to prepare themselves."""


class Constant:
    """A large value that was sent with :meth:`Executor.put`; nodes get it once."""

    def __init__(self, number: int) -> None:
        self._number = number

    def __reduce__(self) -> Any:
        _used.numbers.add(self._number)
        return _constant, (self._number,)


class _Used(threading.local):
    """The constants that the object being pickled uses."""

    def __init__(self) -> None:
        self.numbers: Set[int] = set()


_used = _Used()


def _constant(number: int) -> Any:
    return importlib.import_module("neronet.worker").constant(number)


class _Place:
    """Where the result of a call of ``map`` comes, in place of a future.

    Nobody but the iterator of that ``map`` sees it, so that all its places share one condition. A
    future has one of its own, and making it takes longer than all else that a tiny call costs here.
    """

    __slots__ = ("_results", "_state", "_value", "_error")

    def __init__(self, results: "_Results") -> None:
        self._results = results
        self._state = _PENDING
        self._value: Any = None
        self._error: Optional[BaseException] = None

    def done(self) -> bool:
        return self._state >= _CANCELLED

    def cancel(self) -> bool:
        with self._results.changed:
            if self._state in (_RUNNING, _FINISHED):
                return False
            self._state = _CANCELLED
            self._results.changed.notify_all()
            return True

    def set_running_or_notify_cancel(self) -> bool:
        with self._results.changed:
            if self._state == _CANCELLED:
                return False
            self._state = _RUNNING
            return True

    def set_result(self, value: Any) -> None:
        self._finish(value, None)

    def set_exception(self, error: BaseException) -> None:
        self._finish(None, error)

    def _finish(self, value: Any, error: Optional[BaseException]) -> None:
        results = self._results
        with results.changed:
            if self._state >= _CANCELLED:
                raise concurrent.futures.InvalidStateError(str(self._state))
            self._value, self._error, self._state = value, error, _FINISHED
            if results.awaited is self:
                results.changed.notify_all()

    def wait(self, timeout: Optional[float] = None) -> bool:
        """Whether it is done within the timeout; for one thread at a time."""
        results = self._results
        deadline = None if timeout is None else time.monotonic() + timeout
        with results.changed:
            results.awaited = self
            while self._state < _CANCELLED:
                left = None if deadline is None else deadline - time.monotonic()
                if left is not None and left <= 0:
                    return False
                results.changed.wait(left)
        return True

    def result(self, timeout: Optional[float] = None) -> Any:
        """As of a future; for one thread at a time."""
        if not self.wait(timeout):
            raise concurrent.futures.TimeoutError()
        if self._state == _CANCELLED:
            raise concurrent.futures.CancelledError()
        if self._error is not None:
            try:
                raise self._error
            finally:
                # It holds this frame.
                del self
        return self._value


_PENDING, _RUNNING, _CANCELLED, _FINISHED = range(4)


class _Results:
    """What the places of one ``map`` share."""

    def __init__(self) -> None:
        self.changed = threading.Condition(threading.Lock())
        self.awaited: Optional[_Place] = None


class _Call:
    """One call, from its submission to its result."""

    __slots__ = ("future", "function", "args", "kwargs", "timeout", "tries", "deaths",
                 "is_running", "is_alone")

    def __init__(self, future: "Union[Future[Any], _Place]", function: Callable[..., Any], args: Any,
                 kwargs: Any, timeout: Optional[float], tries: int = 1) -> None:
        self.future = future
        self.function = function
        self.args = args
        self.kwargs = kwargs
        self.timeout = timeout
        #: How many executions may still reach the timeout, this one included.
        self.tries = tries
        self.deaths = 0
        #: Whether its future was told that it cannot be cancelled any more.
        self.is_running = False
        #: Whether it is sent alone: among others, not all came back.
        self.is_alone = timeout is not None or function is _chunk


class _Link:
    """The way to one worker, and what it has to do."""

    def __init__(self, experiment: int, run: str) -> None:
        self.experiment = experiment
        self.run = run
        self.channel: Optional[Channel] = None
        #: A connection whose worker has not answered yet.
        self.opening: Optional[Channel] = None
        #: Calls that were sent and have no result, in the order in which they are executed;
        #: short ones of one function several at once.
        self.inflight: Dict[int, List[_Call]] = {}
        #: What it has, or will have before a later call.
        self.constants: Set[int] = set()
        #: Its socket, on its machine.
        self.place = ""
        self.sending = threading.RLock()
        self.window = 2
        self.acked = 0
        #: When the first call of `inflight` can have begun.
        self.since = 0.0
        self.round_trip = 0.0
        self.took: Optional[float] = None
        self.recalling: Optional[int] = None
        self.is_prepared = False
        #: The run to which everything was sent that goes before calls.
        self.greeted = ""
        self.failures = 0
        self.timed_out: Optional[_Call] = None
        self.updates = 0
        self.idle_since = time.monotonic()
        self.leaves = False
        #: Since when it is out of reach; `None` while it is not.
        self.lost_since: Optional[float] = None
        #: Since when its run is known to have ended, while a connection seems to go on.
        self.ended_since: Optional[float] = None
        #: Since when a way to its run is looked for in vain, and whether that was told.
        self.vain_since: Optional[float] = None
        self.vain_is_told = False
        #: Its calls were given to others.
        self.is_away = False

    def __hash__(self) -> int:
        return id(self)


def _chunk(function: Callable[..., Any], items: List[Any], goes_on: bool
           ) -> Tuple[List[Any], Dict[int, BaseException]]:
    """Values of a chunk, and exceptions by index: the first alone, which ends the chunk, unless
    it ``goes_on``."""
    values: List[Any] = []
    errors: Dict[int, BaseException] = {}
    for args in items:
        try:
            values.append(function(*args))
        except BaseException as error:
            errors[len(values)] = error
            values.append(None)
            if not goes_on:
                break
    return values, errors


def _end_of(row: Dict[str, Any]) -> str:
    parts = []
    if row.get("signal"):
        parts.append("signal {}".format(row["signal"]))
    elif row.get("exit_code") is not None:
        parts.append("exit code {}".format(row["exit_code"]))
    if row.get("reason") and row["reason"] not in parts:
        parts.append(str(row["reason"]))
    if row.get("stderr_line"):
        parts.append("it printed {!r}".format(row["stderr_line"]))
    return ", ".join(parts) or str(row.get("state") or "no process saw its end")
