"""``neronet.Executor``: calls of functions on every machine that Neronet reaches.

Workers are runs: placed, given their CPUs and cards, supervised, logged and ended like any
other. Calls go from this process to the worker's socket, directly or through ``ssh``; no daemon
takes part, and any of them may be killed meanwhile. Items stay here until a worker is about to
need them; results stay with the worker until they are here.
"""

import atexit
import concurrent.futures
import itertools
import math
import shutil
import sys
import tempfile
import threading
import time
import uuid
import weakref
from collections import deque
from concurrent.futures import Future
from typing import Any, Callable, Deque, Dict, Iterable, Iterator, List, Optional, Sequence, Tuple

from . import _frames as frames
from ._calls import (
    Constant,
    PoolBroken,
    RemoteTraceback,
    WorkerDied,
    _Call,
    _chunk,
    _dumps,
    _end_of,
    _error_of,
    _Link,
    _timed_error,
    _used,
)
from ._folder import Files, describe
from ._frames import Buffer, Closed, Frame
from ._threads import FAILURES_MAX, LIVE, follow, keep_time, serve
from .client import Client
from .errors import NeronetError

__all__ = ["Constant", "Executor", "PoolBroken", "RemoteTraceback", "WorkerDied"]

#: Frames with calls that one worker may have at once.
_WINDOW_MAX = 64
#: Calls of one frame, and the seconds that they may take together.
_BATCH_MAX = 64
_BATCH_SECONDS = 0.001
#: Functions whose times are kept.
_FUNCTIONS_MAX = 256


class Executor(concurrent.futures.Executor):
    """A ``concurrent.futures.Executor`` over the nodes of Neronet.

    ``workers`` is how many there are at most; without it as many as the nodes have room for.
    ``nodes`` is a node, a group, or ``any``. Each worker has ``cpus``, ``gpus`` cards with
    ``gpumem`` of free memory (``"20G"``), ``memory`` (``"4G"``) and ``env``; ``setup`` lines are
    executed before it starts. ``python`` is the interpreter there; without it that is this one on
    this machine and ``python3`` elsewhere.
    ``files`` are files and folders that travel to the workers; their folder is importable there.
    ``init(*initargs)`` is called in each worker before its first call.

    A worker that is idle for ``idle_after`` seconds is given back, and started again when there
    is work. Calls of a machine that is out of reach for ``lost_after`` seconds go elsewhere.

    Raises :class:`neronet.NeronetError` when the workers cannot be started.
    """

    def __init__(
        self, workers: Optional[int] = None, nodes: Optional[str] = None, *, cpus: float = 1,
        gpus: float = 0, gpumem: Optional[str] = None, memory: Optional[str] = None,
        python: Optional[str] = None, files: Files = (), init: Optional[Callable[..., Any]] = None,
        initargs: Sequence[Any] = (), env: Optional[Dict[str, str]] = None,
        setup: Sequence[str] = (), idle_after: Optional[float] = None, lost_after: float = 60.0,
        home: Optional[str] = None,
    ) -> None:
        self._client = Client(home)
        self._pool = uuid.uuid4().hex
        self._mutex = threading.RLock()
        self._changed = threading.Condition(self._mutex)
        self._waiting: Deque[_Call] = deque()
        self._links: List[_Link] = []
        self._rows: Dict[int, Dict[str, Any]] = {}
        self._numbers = itertools.count(1)
        self._unresolved = 0
        self._constants: Dict[int, Tuple[Buffer, List[Buffer]]] = {}
        #: The worker of a node that has a constant for the others there.
        self._holders: Dict[Tuple[str, int], _Link] = {}
        self._updates: List[Tuple[Buffer, List[Buffer]]] = []
        #: Seconds that a call of a function takes, on average.
        self._times: Dict[Any, float] = {}
        self._broken: Optional[str] = None
        self._is_shut = False
        self._idle_after = idle_after
        self._lost_after = lost_after
        self._python = python
        self._first = frames.pack((init, tuple(initargs)), _dumps(init))
        self._folder = tempfile.mkdtemp(prefix="neronet-pool-")
        try:
            room = self._room(nodes, cpus, gpus)
            count = workers if workers is not None else max(1, room)
            if count < 1:
                raise ValueError("workers must be at least 1")
            resources = {"cpus": cpus, "gpus": gpus, "gpumem": gpumem, "memory": memory}
            describe(self._folder, self._pool, count, nodes, self._names == ["local"], resources,
                     python, files, env, setup)
            added = self._client.add(self._folder)
            self._experiments = sorted(int(row["id"]) for row in added)
            started = self._client.start(self._experiments)
            runs = {int(row["id"]): row["run"] for row in started if row.get("run")}
        except BaseException:
            shutil.rmtree(self._folder, ignore_errors=True)
            raise
        for experiment in self._experiments:
            self._links.append(_Link(experiment, runs.get(experiment, "")))
        self._threads = [threading.Thread(target=follow, args=(weakref.ref(self),), daemon=True)]
        for link in self._links:
            thread = threading.Thread(target=serve, args=(weakref.ref(self), link), daemon=True)
            self._threads.append(thread)
        self._threads.append(
            threading.Thread(target=keep_time, args=(weakref.ref(self),), daemon=True))
        for thread in self._threads:
            thread.start()
        _open.add(self)

    # Making workers

    def _room(self, nodes: Optional[str], cpus: float, gpus: float) -> int:
        """How many workers fit on the nodes when they are empty.

        Raises :class:`NeronetError` for a node with a scheduler.
        """
        answer = self._client.nodes()
        groups = answer.document.get("groups") or {}
        known = [row["name"] for row in answer]
        word = nodes or answer.document.get("default_node") or "local"
        self._names = groups.get(word) or (known if word == "any" else [word])
        room = 0
        for row in answer:
            if row["name"] not in self._names:
                continue
            if row.get("scheduler") is not None:
                raise NeronetError(
                    "workers on {} are not built yet".format(row["name"]),
                    ["a scheduler starts runs there, on hosts that this machine does not reach"],
                    "name a node or a group without a scheduler: Executor(nodes=…)",
                )
            if gpus:
                room += int(len(row.get("gpus") or []) / gpus)
            else:
                room += int((row.get("cpus") or 0) / cpus)
        return room

    # Calls

    def submit(self, fn: Callable[..., Any], *args: Any, **kwargs: Any) -> "Future[Any]":
        """Has ``fn(*args, **kwargs)`` executed by a worker."""
        return self.submit_with(fn, args, kwargs)

    def submit_with(
        self, fn: Callable[..., Any], args: Sequence[Any] = (),
        kwargs: Optional[Dict[str, Any]] = None, timeout: Optional[float] = None,
    ) -> "Future[Any]":
        """The same; a call that takes longer than ``timeout`` seconds ends with
        :class:`TimeoutError`, and its worker is killed and replaced."""
        future: "Future[Any]" = Future()
        call = _Call(future, fn, tuple(args), kwargs or {}, timeout)
        with self._mutex:
            if self._broken is not None:
                raise PoolBroken(self._broken)
            if self._is_shut:
                raise RuntimeError("cannot schedule new futures after shutdown")
            self._unresolved += 1
            self._waiting.append(call)
            link = self._free_link()
        if link is not None:
            self._feed(link)
        elif self._idle_after is not None:
            with self._mutex:
                self._changed.notify_all()
        return future

    def map(
        self, fn: Callable[..., Any], *iterables: Iterable[Any],
        timeout: Optional[float] = None, chunksize: int = 1, buffersize: Optional[int] = None,
    ) -> Iterator[Any]:
        """Results of ``fn`` in the order of the items; ``chunksize`` items are one call.

        With ``buffersize`` no more items than that are taken beyond the last result.
        """
        if chunksize < 1:
            raise ValueError("chunksize must be >= 1.")
        if buffersize is not None and buffersize < 1:
            raise ValueError("buffersize must be None or > 0")
        deadline = None if timeout is None else time.monotonic() + timeout
        items = zip(*iterables)
        if chunksize == 1:
            futures = (self.submit(fn, *args) for args in items)
        else:
            chunks = iter(lambda: list(itertools.islice(items, chunksize)), [])
            futures = (self.submit(_chunk, fn, chunk) for chunk in chunks)
        ahead = None if buffersize is None else max(1, buffersize // chunksize)
        pending = deque(itertools.islice(futures, ahead))
        return self._mapped(futures, pending, chunksize > 1, deadline)

    @staticmethod
    def _mapped(
        futures: "Iterator[Future[Any]]", pending: "Deque[Future[Any]]", are_chunks: bool,
        deadline: Optional[float],
    ) -> Iterator[Any]:
        try:
            while pending:
                left = None if deadline is None else deadline - time.monotonic()
                result = pending[0].result(left)
                pending.popleft()
                pending.extend(itertools.islice(futures, 1))
                if not are_chunks:
                    yield result
                    continue
                values, error = result
                yield from values
                if error is not None:
                    raise error
        finally:
            for future in pending:
                future.cancel()

    def put(self, value: Any) -> Constant:
        """Keeps a large value for calls: ``submit(f, pool.put(x))``. Each node gets it once, as it
        is now."""
        packed = frames.kept(*frames.pack(value, _dumps(value)))
        with self._mutex:
            number = next(self._numbers)
            self._constants[number] = packed
        return Constant(number)

    def update_workers(self, data: Any) -> None:
        """Has ``data`` reach every worker, in order and between calls: the function that
        ``neronet.worker.on_update`` was given there is called with it. Workers that come later
        get all of it before their first call."""
        packed = frames.kept(*frames.pack(data, _dumps(data)))
        with self._mutex:
            self._updates.append(packed)
            links = [link for link in self._links if link.channel is not None]
        for link in links:
            self._send_updates(link)

    # State

    @property
    def workers(self) -> int:
        """How many workers are ready."""
        with self._mutex:
            return sum(1 for link in self._links if link.channel and link.is_prepared)

    @property
    def nodes(self) -> List[str]:
        """The nodes with workers that are ready."""
        with self._mutex:
            ready = [link for link in self._links if link.channel and link.is_prepared]
            names = {self._rows.get(link.experiment, {}).get("node") for link in ready}
        return sorted(name for name in names if name)

    @property
    def runs(self) -> List[str]:
        """The runs of the workers, such as ``144.2``."""
        with self._mutex:
            return [link.run for link in self._links if link.run]

    def wait_for_workers(self, count: int = 1, timeout: Optional[float] = None) -> int:
        """Waits until so many workers are ready; returns how many are.

        Raises :class:`PoolBroken` when none ever will be, :class:`TimeoutError` in time.
        """
        deadline = None if timeout is None else time.monotonic() + timeout
        with self._mutex:
            while self.workers < count:
                if self._broken is not None:
                    raise PoolBroken(self._broken)
                left = None if deadline is None else deadline - time.monotonic()
                if left is not None and left <= 0:
                    raise concurrent.futures.TimeoutError(
                        "{} of {} workers are ready".format(self.workers, count))
                self._changed.wait(left)
            return self.workers

    # Sending

    def _free_link(self) -> Optional[_Link]:
        """A worker that can take a call, an idle one if there is one."""
        best = None
        for link in self._links:
            if link.channel is None or not link.is_prepared or link.leaves or link.is_away:
                continue
            if not link.inflight:
                return link
            if len(link.inflight) < link.window and best is None:
                best = link
        return best

    def _feed(self, link: _Link) -> None:
        """Sends waiting calls to a worker, as many as it may have."""
        while self._fed(link):
            pass

    def _fed(self, link: _Link) -> bool:
        """Sends once; returns whether there may be more to send."""
        failed: List[Tuple[_Call, BaseException]] = []
        # What a call uses is sent before it, whoever sends.
        with link.sending:
            taken: List[Tuple[int, List[_Call]]] = []
            with self._mutex:
                channel, acked = link.channel, link.acked
                if channel is None or link.leaves or not link.is_prepared:
                    return False
                while len(link.inflight) < link.window:
                    call = self._pop()
                    if call is None:
                        break
                    calls = self._with_others(call)
                    number = next(self._numbers)
                    if not link.inflight:
                        link.since = time.monotonic()
                    link.inflight[number] = calls
                    taken.append((number, calls))
                if not taken:
                    self._recall_for(link)
                    return False
            sent: List[Frame] = []
            for number, calls in taken:
                function = calls[0].function
                try:
                    _used.numbers = set()
                    asked = [(call.args, call.kwargs) for call in calls]
                    packed = frames.pack(
                        (function, asked) if len(calls) > 1 else (function,) + asked[0],
                        _dumps(function))
                except BaseException as error:
                    with self._mutex:
                        link.inflight.pop(number, None)
                        if len(calls) > 1:
                            self._one_by_one(calls)
                            continue
                    failed.append((calls[0], error))
                    continue
                if len(calls) > 1 and packed[1]:
                    # Large buffers travel better alone.
                    self._times[function] = math.inf
                for one in _used.numbers - link.constants:
                    sent.append(self._constant_for(link, one))
                kind = frames.CALLS if len(calls) > 1 else frames.CALL
                sent.append(Frame(kind, number, acked, *packed))
            try:
                channel.send_all(sent)
            except Closed:
                # The thread that receives has what was in flight done elsewhere.
                return False
        for call, error in failed:
            self._resolve(call, error=error)
        return True

    def _constant_for(self, link: _Link, number: int) -> Frame:
        """A constant for a worker: itself, or the socket of a worker there that has it."""
        with self._mutex:
            body, buffers = self._constants[number]
            link.constants.add(number)
            node = self._rows.get(link.experiment, {}).get("node")
            is_large = sum(map(frames.size_of, buffers), frames.size_of(body)) >= frames.SHARED_MIN
            if node and is_large and link.channel and not link.channel.shares_memory:
                holder = self._holders.get((node, number), link)
                if holder is not link and holder.channel and number in holder.constants:
                    return Frame(frames.CONSTANT_AT, number, 0, holder.place.encode(), ())
                self._holders[node, number] = link
            return Frame(frames.CONSTANT, number, 0, body, buffers)

    def _pop(self, like: Optional[_Call] = None) -> Optional[_Call]:
        """The next call that is to be executed; with ``like`` only one that may go with it."""
        while self._waiting:
            call = self._waiting[0]
            if like is not None and (call.is_alone or call.function is not like.function):
                return None
            self._waiting.popleft()
            if call.future.done() and call.is_running:
                # A machine that was out of reach answered after all.
                continue
            if call.is_running or call.future.set_running_or_notify_cancel():
                call.is_running = True
                return call
            self._unresolved -= 1
            self._changed.notify_all()
        return None

    def _with_others(self, call: _Call) -> List[_Call]:
        """A call with those behind it of the same function, when these are short."""
        calls = [call]
        if call.is_alone or not self._waiting:
            return calls
        try:
            took = self._times.get(call.function)
        except TypeError:
            # Something that cannot be hashed has no time either.
            return calls
        if took is None or took > _BATCH_SECONDS / 2:
            return calls
        share = len(self._waiting) // (2 * len(self._links)) + 1
        count = min(_BATCH_MAX, share, int(_BATCH_SECONDS / max(took, 1e-6)))
        while len(calls) < count:
            other = self._pop(call)
            if other is None:
                break
            calls.append(other)
        return calls

    def _one_by_one(self, calls: List[_Call]) -> None:
        """Has calls that were sent together executed apart."""
        for call in calls:
            call.is_alone = True
        self._waiting.extendleft(reversed(calls))

    def _recall_for(self, idle: _Link) -> None:
        """Takes a call that is not begun from the worker with most of them."""
        if idle.inflight:
            return
        busy = [link for link in self._links
                if len(link.inflight) > 1 and link.recalling is None and link.channel]
        if not busy:
            return
        link = max(busy, key=lambda one: len(one.inflight))
        link.recalling = list(link.inflight)[-1]
        channel, number = link.channel, link.recalling
        assert channel is not None
        try:
            channel.send(frames.RECALL, number)
        except Closed:
            pass

    def _send_updates(self, link: _Link) -> None:
        while True:
            with self._mutex:
                channel = link.channel
                if channel is None or link.updates >= len(self._updates):
                    return
                body, buffers = self._updates[link.updates]
                link.updates += 1
                try:
                    # Within the lock: updates must keep their order.
                    channel.send(frames.UPDATE, 0, 0, body, buffers)
                except Closed:
                    return

    # Receiving

    def _received(self, link: _Link, frame: Frame) -> None:
        now = time.monotonic()
        if frame.kind == frames.PREPARED:
            with self._mutex:
                link.is_prepared = True
                link.failures = 0
                self._changed.notify_all()
            self._feed(link)
        elif frame.kind == frames.MISSING:
            if link.channel is not None:
                try:
                    link.channel.send(frames.CONSTANT, frame.number, 0,
                                      *self._constants[frame.number])
                except Closed:
                    pass
        elif frame.kind == frames.UNPREPARED:
            self._unprepared(link, bytes(frame.body).decode(errors="replace"))
        elif frame.kind == frames.RECALLED:
            with self._mutex:
                link.recalling = None
                self._waiting.extendleft(reversed(link.inflight.pop(frame.number, [])))
                other = self._free_link()
            if other is not None:
                self._feed(other)
        elif frame.kind in (frames.RESULT, frames.ERROR, frames.RESULTS):
            with self._mutex:
                calls = link.inflight.pop(frame.number, [])
                if link.recalling == frame.number:
                    link.recalling = None
                link.acked = frame.number
                link.since = now
                link.idle_since = now
            self._finish(link, calls, frame)

    def _finish(self, link: _Link, calls: List[_Call], frame: Frame) -> None:
        is_large = (len(frame.body) > frames.SHARED_MIN or any(
            frames.size_of(one) >= frames.SHARED_MIN for one in frame.buffers))
        told: List[Tuple[Any, Optional[BaseException]]]
        try:
            if frame.kind == frames.RESULT:
                took, value = frame.load()
                told = [(value, None)]
            elif frame.kind == frames.RESULTS:
                took, several = frame.load()
                told = [(None, _error_of(one)) if is_error else (one, None)
                        for is_error, one in several]
            else:
                took, error = _timed_error(frame.body)
                told = [(None, error)]
        except BaseException as caught:
            took, told = 0.0, [(None, caught)]
        self._adapt(link, took)
        if is_large and link.channel is not None:
            try:
                link.channel.send(frames.ACK, 0, frame.number)
            except Closed:
                pass
        if not calls:
            return
        if len(calls) > 1 and frame.kind != frames.RESULTS:
            # They could not be taken apart there.
            with self._mutex:
                self._one_by_one(calls)
            return
        self._timed(calls[0], math.inf if is_large else took / len(told))
        if len(told) < len(calls):
            # They took long: the others go where there is room.
            with self._mutex:
                self._waiting.extendleft(reversed(calls[len(told):]))
            self._feed_all()
        for call, (value, error) in zip(calls, told):
            self._resolve(call, value, error)

    def _timed(self, call: _Call, took: float) -> None:
        """Learns how long calls of a function take."""
        if call.is_alone:
            return
        try:
            known = self._times.get(call.function)
            if known is None and len(self._times) >= _FUNCTIONS_MAX:
                self._times.clear()
            # A longer one counts at once: what is sent together cannot be divided any more.
            self._times[call.function] = (
                took if known is None or took > known else 0.8 * known + 0.2 * took)
        except TypeError:
            pass

    def _adapt(self, link: _Link, took: float) -> None:
        """How many calls a worker has at once: enough to be busy for two round trips, and one
        alone when a call takes much longer than its way."""
        link.took = took if link.took is None else 0.8 * link.took + 0.2 * took
        way = max(link.round_trip, 1e-4)
        if link.took > 50 * way:
            link.window = 1
        else:
            link.window = min(_WINDOW_MAX, 2 + math.ceil(2 * way / max(link.took, 1e-6)))

    def _resolve(self, call: _Call, value: Any = None,
                 error: Optional[BaseException] = None) -> None:
        with self._mutex:
            if call.future.done():
                return
            self._unresolved -= 1
            if not self._unresolved:
                self._changed.notify_all()
        try:
            if error is not None:
                call.future.set_exception(error)
            else:
                call.future.set_result(value)
        except concurrent.futures.InvalidStateError:
            # The copy of this call on another machine was first.
            pass

    # Workers that come and go

    def _unprepared(self, link: _Link, text: str) -> None:
        with self._mutex:
            link.leaves = True
            link.failures = FAILURES_MAX
            others = [one for one in self._links if one.failures < FAILURES_MAX]
            if not others:
                self._break("no worker could prepare itself:\n" + text)
        print("neronet: worker {} could not prepare itself:\n{}".format(link.run, text),
              file=sys.stderr)

    def _break(self, why: str) -> None:
        """Ends the pool; every call gets the reason."""
        with self._mutex:
            if self._broken is not None:
                return
            self._broken = why
            calls = list(self._waiting)
            self._waiting.clear()
            for link in self._links:
                calls += itertools.chain.from_iterable(link.inflight.values())
                link.inflight.clear()
            self._changed.notify_all()
        for call in calls:
            if not call.is_running and not call.future.set_running_or_notify_cancel():
                with self._mutex:
                    self._unresolved -= 1
                continue
            self._resolve(call, error=PoolBroken(why))

    def _died(self, link: _Link, row: Dict[str, Any]) -> None:
        """The run of a worker has ended: its calls go elsewhere."""
        with self._mutex:
            channel, link.channel = link.channel, None
            link.is_prepared = False
            sent = list(link.inflight.values())
            calls = list(itertools.chain.from_iterable(sent))
            together = sent[0] if sent and len(sent[0]) > 1 else []
            link.inflight.clear()
            link.constants.clear()
            link.updates = 0
            link.recalling = None
            self._changed.notify_all()
            first = calls[0] if calls else None
            timed_out, link.timed_out = link.timed_out, None
        if channel is not None:
            channel.close()
        errors: List[Tuple[_Call, BaseException]] = []
        again = []
        for call in calls:
            if call.future.done() or call in self._waiting:
                # Another worker has it, or is about to.
                continue
            if call is timed_out:
                text = "the call took longer than {:g} s".format(call.timeout or 0)
                errors.append((call, concurrent.futures.TimeoutError(text)))
                continue
            # The others were not begun.
            if call is first and timed_out is None:
                # Which of several calls it was is seen when they are executed apart.
                call.deaths += not together
                print("neronet: worker {} died: {}{}".format(
                    link.run, _end_of(row), "" if call.deaths > 1 else "; its call runs again"),
                    file=sys.stderr)
            if call in together:
                call.is_alone = True
            if call.deaths > 1:
                text = "two workers died of this call, the last of {}: {}".format(
                    link.run, _end_of(row))
                errors.append((call, WorkerDied(text, row)))
            else:
                again.append(call)
        with self._mutex:
            self._waiting.extendleft(reversed(again))
        for call, error in errors:
            self._resolve(call, error=error)
        self._feed_all()

    def _feed_all(self) -> None:
        while True:
            with self._mutex:
                link = self._free_link() if self._waiting else None
            if link is None:
                return
            before = len(self._waiting)
            self._feed(link)
            if len(self._waiting) >= before:
                return

    def _out_of_reach(self, link: _Link) -> None:
        """Calls of a worker that cannot be reached go elsewhere; the first result wins."""
        with self._mutex:
            calls = [call for sent in link.inflight.values() for call in sent
                     if not call.future.done()]
            self._waiting.extendleft(reversed(calls))
        self._feed_all()

    # The end

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """Ends the workers when the calls are done; with ``cancel_futures`` those that wait are
        cancelled."""
        with self._mutex:
            self._is_shut = True
            if cancel_futures:
                for call in self._waiting:
                    if not call.is_running and call.future.cancel():
                        call.future.set_running_or_notify_cancel()
                        self._unresolved -= 1
                self._waiting = deque(call for call in self._waiting if call.is_running)
            self._changed.notify_all()
        if not wait:
            threading.Thread(target=self._end, daemon=False).start()
            return
        self._end()

    def terminate(self) -> None:
        """Ends calls and workers at once; calls without a result fail with :class:`PoolBroken`."""
        self._break("the pool was terminated")
        self._close()

    def _end(self) -> None:
        with self._mutex:
            while self._unresolved > 0 and self._broken is None:
                self._changed.wait(1.0)
        self._close()

    def _close(self) -> None:
        """Ends workers and their experiments, whatever is going on."""
        with self._mutex:
            if not self._folder:
                return
            folder, self._folder = self._folder, ""
            self._is_shut = True
            links = list(self._links)
            for link in links:
                link.leaves = True
            self._changed.notify_all()
        for link in links:
            if link.channel is not None:
                try:
                    link.channel.send(frames.LEAVE)
                except Closed:
                    pass
        _open.discard(self)
        try:
            connected = {link.experiment for link in links if link.channel is not None}
            waiting = [one for one in self._experiments if one not in connected]
            if waiting:
                self._client.abort(waiting)
            self._client.wait(self._experiments, timeout=5)
            live = [row for row in self._client.status(self._experiments)
                    if row["state"] in LIVE]
            if live:
                self._client.abort(live, grace=1)
                self._client.wait(live, timeout=30)
            self._client.remove(self._experiments)
        except NeronetError as error:
            # Workers without an owner end by themselves.
            print("neronet: cannot tidy up the pool: {}".format(error), file=sys.stderr)
        for link in links:
            if link.channel is not None:
                link.channel.close()
        shutil.rmtree(folder, ignore_errors=True)

    def __exit__(self, kind: Any, value: Any, trace: Any) -> Optional[bool]:
        if kind is not None and issubclass(kind, KeyboardInterrupt):
            # What runs is not waited for.
            with self._mutex:
                self._unresolved = 0
        self.shutdown(wait=True, cancel_futures=kind is not None)
        return None


_open: "weakref.WeakSet[Executor]" = weakref.WeakSet()


@atexit.register
def _close_all() -> None:
    for one in list(_open):
        one._close()
