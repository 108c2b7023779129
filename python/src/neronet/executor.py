"""``neronet.Executor``: calls of functions on every machine that Neronet reaches.

Workers are runs: placed, given their CPUs and cards, supervised, logged and ended like any
other. Calls go from this process to the worker's socket, directly or through ``ssh``; no daemon
takes part, and any of them may be killed meanwhile. Items stay here until a worker is about to
need them; results stay with the worker until they are here.
"""

import atexit
import concurrent.futures
import importlib
import itertools
import json
import math
import os
import pickle
import shutil
import socket
import subprocess
import sys
import tempfile
import threading
import time
import uuid
import weakref
from collections import deque
from concurrent.futures import Future
from typing import (
    Any, Callable, Deque, Dict, Iterable, Iterator, List, Optional, Sequence, Set, Tuple, Union,
)

from . import _frames as frames
from ._frames import Bytes, Channel, Closed, Frame
from ._relay import connected
from .client import Client
from .errors import NeronetError

#: Calls that one worker may have at once.
_WINDOW_MAX = 64
#: Ends of one worker's run without an answer after which it is given up.
_FAILURES_MAX = 3


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


class RemoteTraceback(Exception):
    """The traceback in the worker; the cause of an exception that came from there."""

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self.text = text

    def __str__(self) -> str:
        return "\n" + self.text


class Constant:
    """A large value that was sent with :meth:`Executor.put`; workers get it once."""

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


class _Call:
    """One call, from its submission to its result."""

    __slots__ = ("future", "function", "args", "kwargs", "timeout", "deaths", "is_running")

    def __init__(self, future: "Future[Any]", function: Callable[..., Any], args: Any,
                 kwargs: Any, timeout: Optional[float]) -> None:
        self.future = future
        self.function = function
        self.args = args
        self.kwargs = kwargs
        self.timeout = timeout
        self.deaths = 0
        #: Whether its future was told that it cannot be cancelled any more.
        self.is_running = False


class _Link:
    """The way to one worker, and what it has to do."""

    def __init__(self, experiment: int, run: str) -> None:
        self.experiment = experiment
        self.run = run
        self.channel: Optional[Channel] = None
        #: Calls that were sent and have no result, in the order in which they are executed.
        self.inflight: Dict[int, _Call] = {}
        self.constants: Set[int] = set()
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

    def __hash__(self) -> int:
        return id(self)


Files = Union[str, Sequence[str]]


class Executor(concurrent.futures.Executor):
    """A ``concurrent.futures.Executor`` over the nodes of Neronet.

    ``workers`` is how many there are at most; without it as many as the nodes have room for.
    ``nodes`` is a node, a group, or ``any``. Each worker has ``cpus``, ``gpus`` cards,
    ``gpumem`` free memory of these, ``memory`` (``"4G"``) and ``env``; ``setup`` lines are executed before it starts. ``python``
    is the interpreter there, without it this one on this machine and ``python3`` elsewhere.
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
        self._constants: Dict[int, Tuple[Bytes, List[memoryview]]] = {}
        self._updates: List[Tuple[Bytes, List[memoryview]]] = []
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
            self._describe(count, nodes, resources, python, files, env, setup)
            added = self._client.add(self._folder)
            self._experiments = sorted(int(row["id"]) for row in added)
            started = self._client.start(self._experiments)
            runs = {int(row["id"]): row["run"] for row in started if row.get("run")}
        except BaseException:
            shutil.rmtree(self._folder, ignore_errors=True)
            raise
        for experiment in self._experiments:
            self._links.append(_Link(experiment, runs.get(experiment, "")))
        self._threads = [threading.Thread(target=_follow, args=(weakref.ref(self),), daemon=True)]
        for link in self._links:
            serve = threading.Thread(target=_serve, args=(weakref.ref(self), link), daemon=True)
            self._threads.append(serve)
        self._threads.append(
            threading.Thread(target=_keep_time, args=(weakref.ref(self),), daemon=True))
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

    def _describe(
        self, count: int, nodes: Optional[str], resources: Dict[str, Any],
        python: Optional[str], files: Files, env: Optional[Dict[str, str]], setup: Sequence[str],
    ) -> None:
        """Writes the folder of the pool: the experiments, and what workers import."""
        here = os.path.dirname(os.path.abspath(__file__))
        ignored = shutil.ignore_patterns("__pycache__")
        shutil.copytree(here, os.path.join(self._folder, "neronet"), ignore=ignored)
        helper = _cloudpickle()
        if helper is not None:
            home = os.path.dirname(os.path.abspath(helper.__file__ or ""))
            shutil.copytree(home, os.path.join(self._folder, "cloudpickle"), ignore=ignored)
        for path in [files] if isinstance(files, str) else files:
            _copied(path, self._folder, ignored)
        only_here = self._names == ["local"]
        program = python or (sys.executable if only_here else "python3")
        described: Dict[str, Any] = {
            "collection": "pool-" + self._pool[:8],
            "command": [program, "-m", "neronet.worker", self._pool],
            "parameters": {"worker": list(range(count))},
            "outputs": ["stdout", "stderr"],
            "files": ["**"],
            "resources": {name: value for name, value in resources.items() if value},
            # The worker's search path begins with its folder, so that what travelled is found.
            "env": dict(env or {}, PYTHONPATH=".:" + os.pathsep.join(_paths(only_here))),
        }
        if nodes:
            described["node"] = nodes
        if setup:
            described["setup"] = list(setup)
        # JSON is YAML.
        with open(os.path.join(self._folder, "neronet.yaml"), "w", encoding="utf-8") as file:
            json.dump(described, file)

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

    def map(  # type: ignore[override]
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
        chunks = iter(lambda: list(itertools.islice(items, chunksize)), [])
        ahead = None if buffersize is None else max(1, buffersize // chunksize)
        pending: "Deque[Future[Any]]" = deque()
        for chunk in itertools.islice(chunks, ahead):
            pending.append(self.submit(_chunk, fn, chunk))
        return self._mapped(fn, chunks, pending, deadline)

    def _mapped(
        self, fn: Callable[..., Any], chunks: Iterator[List[Any]],
        pending: "Deque[Future[Any]]", deadline: Optional[float],
    ) -> Iterator[Any]:
        try:
            while pending:
                left = None if deadline is None else deadline - time.monotonic()
                values, error = pending[0].result(left)
                pending.popleft()
                for chunk in itertools.islice(chunks, 1):
                    pending.append(self.submit(_chunk, fn, chunk))
                yield from values
                if error is not None:
                    raise error
        finally:
            for future in pending:
                future.cancel()

    def put(self, value: Any) -> Constant:
        """Keeps a large value for calls: ``submit(f, pool.put(x))``. Each worker gets it once."""
        packed = frames.pack(value, _dumps(value))
        with self._mutex:
            number = next(self._numbers)
            self._constants[number] = packed
        return Constant(number)

    def update_workers(self, data: Any) -> None:
        """Has ``data`` reach every worker, in order and between calls: the function that
        ``neronet.worker.on_update`` was given there is called with it. Workers that come later
        get all of it before their first call."""
        packed = frames.pack(data, _dumps(data))
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
            if link.channel is None or not link.is_prepared or link.leaves:
                continue
            if not link.inflight:
                return link
            if len(link.inflight) < link.window and best is None:
                best = link
        return best

    def _feed(self, link: _Link) -> None:
        """Sends waiting calls to a worker, as many as it may have."""
        while True:
            with self._mutex:
                if link.channel is None or link.leaves or not link.is_prepared:
                    return
                if len(link.inflight) >= link.window:
                    return
                call = self._pop()
                if call is None:
                    self._recall_for(link)
                    return
                number = next(self._numbers)
                if not link.inflight:
                    link.since = time.monotonic()
                link.inflight[number] = call
                channel, acked = link.channel, link.acked
            try:
                _used.numbers = set()
                packed = frames.pack((call.function, call.args, call.kwargs),
                                     _dumps(call.function))
                used = _used.numbers
            except BaseException as error:
                with self._mutex:
                    link.inflight.pop(number, None)
                self._resolve(call, error=error)
                continue
            try:
                for one in used - link.constants:
                    body, buffers = self._constants[one]
                    channel.send(frames.CONSTANT, one, 0, body, buffers)
                    link.constants.add(one)
                channel.send(frames.CALL, number, acked, packed[0], packed[1])
            except Closed:
                # The thread that receives has what was in flight done elsewhere.
                return

    def _pop(self) -> Optional[_Call]:
        while self._waiting:
            call = self._waiting.popleft()
            if call.is_running or call.future.set_running_or_notify_cancel():
                call.is_running = True
                return call
            self._unresolved -= 1
            self._changed.notify_all()
        return None

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
        elif frame.kind == frames.UNPREPARED:
            self._unprepared(link, bytes(frame.body).decode(errors="replace"))
        elif frame.kind == frames.RECALLED:
            with self._mutex:
                link.recalling = None
                call = link.inflight.pop(frame.number, None)
                if call is not None:
                    self._waiting.appendleft(call)
                other = self._free_link()
            if other is not None:
                self._feed(other)
        elif frame.kind in (frames.RESULT, frames.ERROR):
            with self._mutex:
                call = link.inflight.pop(frame.number, None)
                if link.recalling == frame.number:
                    link.recalling = None
                link.acked = frame.number
                lasted, link.since = now - link.since, now
                link.idle_since = now
            self._finish(link, call, frame, lasted)
            self._feed(link)

    def _finish(self, link: _Link, call: Optional[_Call], frame: Frame, lasted: float) -> None:
        large = sum(memoryview(one).nbytes for one in frame.buffers) + len(frame.body) > 1 << 20
        try:
            if frame.kind == frames.RESULT:
                took, value = frame.load()
                error = None
            else:
                took, error, text = frame.load()
                error.__cause__ = RemoteTraceback(text)
                value = None
        except BaseException as caught:
            took, value, error = 0.0, None, caught
        self._adapt(link, took, lasted)
        if large and link.channel is not None:
            try:
                link.channel.send(frames.ACK, 0, frame.number)
            except Closed:
                pass
        if call is not None:
            self._resolve(call, value, error)

    def _adapt(self, link: _Link, took: float, lasted: float) -> None:
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
            link.failures = _FAILURES_MAX
            others = [one for one in self._links if one.failures < _FAILURES_MAX]
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
                calls += link.inflight.values()
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
            calls = list(link.inflight.values())
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
            if call is timed_out:
                text = "the call took longer than {:g} s".format(call.timeout or 0)
                errors.append((call, concurrent.futures.TimeoutError(text)))
                continue
            # The others were not begun.
            if call is first and timed_out is None:
                call.deaths += 1
                print("neronet: worker {} died: {}{}".format(
                    link.run, _end_of(row), "" if call.deaths > 1 else "; its call runs again"),
                    file=sys.stderr)
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
            others = [one for one in self._links if one is not link and one.channel]
            if not others:
                return
            calls = [call for call in link.inflight.values() if call not in self._waiting]
            self._waiting.extendleft(reversed([one for one in calls if not one.future.done()]))
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
                    if row["state"] in _LIVE]
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


_LIVE = ("queued", "staging", "submitted", "pending", "running", "paused", "ending", "unreachable")
_open: "weakref.WeakSet[Executor]" = weakref.WeakSet()


@atexit.register
def _close_all() -> None:
    for one in list(_open):
        one._close()


def _chunk(function: Callable[..., Any], items: List[Any]) -> Tuple[List[Any],
                                                                    Optional[BaseException]]:
    """Results of a chunk, and the exception that ended it."""
    values = []
    for args in items:
        try:
            values.append(function(*args))
        except Exception as error:
            import traceback

            text = "".join(traceback.format_exception(type(error), error, error.__traceback__))
            error.__cause__ = RemoteTraceback(text)
            return values, error
    return values, None


def _cloudpickle() -> Any:
    try:
        return importlib.import_module("cloudpickle")
    except ImportError:
        return None


def _dumps(function: Any) -> Callable[..., bytes]:
    """How to pickle a call: by value when its function cannot be imported by workers."""
    module = getattr(function, "__module__", None)
    name = getattr(function, "__qualname__", "")
    if module in (None, "__main__") or "<" in name:
        helper = _cloudpickle()
        if helper is not None:
            dumps: Callable[..., bytes] = helper.dumps
            return dumps
        if function is not None and callable(function) and hasattr(function, "__code__"):
            raise pickle.PicklingError(
                "workers cannot import {!r}: put it into a module that travels (files=…), or "
                "install cloudpickle".format(name))
    return pickle.dumps


def _paths(only_here: bool) -> List[str]:
    """What this process imports from, for workers on this machine."""
    if not only_here:
        return []
    return [path for path in (os.path.abspath(one) for one in sys.path) if os.path.isdir(path)]


def _copied(path: str, folder: str, ignored: Any) -> None:
    name = os.path.basename(os.path.abspath(path))
    if os.path.isdir(path):
        shutil.copytree(path, os.path.join(folder, name), ignore=ignored)
    else:
        shutil.copy2(path, os.path.join(folder, name))


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


# Threads: they hold the executor only while they work, so that a forgotten one is collected.

def _follow(reference: "weakref.ref[Executor]") -> None:
    """Keeps the states of the workers' runs."""
    while True:
        pool = reference()
        if pool is None or not pool._folder:
            return
        client, picked, changed = pool._client, list(pool._experiments), pool._changed
        del pool
        try:
            for told in client.watch(picked):
                pool = reference()
                if pool is None or not pool._folder:
                    return
                with pool._mutex:
                    for row in told:
                        pool._rows[int(row["id"])] = row
                    pool._changed.notify_all()
                del pool
        except NeronetError:
            # The daemon is being started again; calls go on.
            time.sleep(0.5)
        with changed:
            changed.wait(0.2)


def _keep_time(reference: "weakref.ref[Executor]") -> None:
    """Ends calls that take too long, and gives idle workers back."""
    while True:
        pool = reference()
        if pool is None or not pool._folder:
            return
        now = time.monotonic()
        overdue, idle = [], []
        with pool._mutex:
            for link in pool._links:
                call = next(iter(link.inflight.values()), None)
                if (call is not None and call.timeout is not None and link.timed_out is None
                        and now - link.since > call.timeout):
                    link.timed_out = call
                    overdue.append(link)
                if (pool._idle_after is not None and link.channel is not None
                        and link.is_prepared and not link.inflight and not pool._waiting
                        and now - link.idle_since > pool._idle_after):
                    link.leaves = True
                    idle.append(link)
            changed = pool._changed
        for link in overdue:
            try:
                pool._client.abort(link.run, grace=0.5)
            except NeronetError as error:
                print("neronet: cannot end {}: {}".format(link.run, error), file=sys.stderr)
        for link in idle:
            if link.channel is not None:
                try:
                    link.channel.send(frames.LEAVE)
                except Closed:
                    pass
        del pool
        with changed:
            changed.wait(0.1)


def _serve(reference: "weakref.ref[Executor]", link: _Link) -> None:
    """Goes with one worker: connects, receives, and starts it anew when it died."""
    while True:
        pool = reference()
        if pool is None or not pool._folder or pool._broken is not None:
            return
        if link.failures >= _FAILURES_MAX:
            return
        row = pool._rows.get(link.experiment)
        is_of_run = row is not None and row.get("run") == link.run
        state = row["state"] if row is not None and is_of_run else "queued"
        if state in ("running", "ending", "unreachable"):
            assert row is not None
            if _attend(reference, link, row):
                continue
        elif state not in _LIVE:
            assert row is not None
            if link.greeted != link.run and not link.leaves:
                link.failures += 1
                if all(one.failures >= _FAILURES_MAX for one in pool._links):
                    pool._break("no worker can be started; {} ended with {}".format(
                        link.run, _end_of(row)))
                    return
            pool._died(link, row)
            if not _again(pool, link):
                return
            continue
        changed = pool._changed
        del pool
        with changed:
            changed.wait(0.5)


def _again(pool: Executor, link: _Link) -> bool:
    """Starts a worker's next run when there is something for it to do."""
    with pool._mutex:
        while pool._folder and pool._broken is None:
            if pool._is_shut and not pool._unresolved:
                return False
            # One that was given back waits for work; one that died is replaced at once.
            if pool._waiting or not link.leaves:
                break
            pool._changed.wait(1.0)
        if not pool._folder or pool._broken is not None:
            return False
        link.leaves = False
    try:
        started = pool._client.restart(link.experiment)
    except NeronetError as error:
        print("neronet: cannot start a worker again: {}".format(error), file=sys.stderr)
        link.failures += 1
        return link.failures < _FAILURES_MAX
    with pool._mutex:
        if started.runs:
            link.run = started.runs[0]
        link.idle_since = time.monotonic()
    return True


def _attend(reference: "weakref.ref[Executor]", link: _Link, row: Dict[str, Any]) -> bool:
    """Connects to a running worker and receives until the connection ends.

    Returns false when there is nothing to do but to wait for a change of its state.
    """
    pool = reference()
    if pool is None:
        return True
    is_here = row.get("node") == "local"
    program = pool._python or ("python3" if not is_here else sys.executable)
    relay = None
    try:
        if is_here:
            folder = pool._client.show(link.run).get("work")
            ending = connected(str(folder), 5.0)
        else:
            ending, there = socket.socketpair()
            with there:
                relay = subprocess.Popen(
                    [pool._client._program.path, "exec", link.run, "--", program, "-m",
                     "neronet._relay"],
                    stdin=there, stdout=there, stderr=subprocess.DEVNULL,
                    env=pool._client._program.environment(), start_new_session=True)
        channel = Channel(ending, shares_memory=is_here)
        _greet(pool, link, channel, is_here)
    except (OSError, ValueError, NeronetError):
        _ended(relay)
        with pool._mutex:
            pool._changed.wait(0.2)
        return False
    while True:
        del pool
        try:
            frame = channel.receive()
        except Closed:
            pool = reference()
            break
        pool = reference()
        if pool is None:
            break
        pool._received(link, frame)
    channel.close()
    _ended(relay)
    if pool is None:
        return True
    with pool._mutex:
        if link.channel is channel:
            link.channel = None
            link.is_prepared = False
            pool._changed.notify_all()
        deadline = time.monotonic() + pool._lost_after
        # Either its end is told, or it is reached again.
        first = True
        while pool._folder and pool._broken is None:
            now_row = pool._rows.get(link.experiment) or {}
            if now_row.get("run") != link.run or now_row.get("state") not in _LIVE:
                return True
            if not is_here and first:
                first = False
                pool._changed.wait(0.5)
                return True
            if time.monotonic() > deadline:
                break
            pool._changed.wait(1.0)
    pool._out_of_reach(link)
    return True


def _greet(pool: Executor, link: _Link, channel: Channel, is_here: bool) -> None:
    began = time.monotonic()
    hello = {"pool": pool._pool, "shares_memory": is_here}
    channel.send(frames.HELLO, body=json.dumps(hello).encode())
    early = []
    while True:
        frame = channel.receive()
        if frame.kind == frames.WELCOME:
            break
        early.append(frame)
    welcome = json.loads(bytes(frame.body))
    if welcome["python"][:2] != list(sys.version_info[:2]):
        there = ".".join(str(one) for one in welcome["python"])
        here = ".".join(str(one) for one in sys.version_info[:3])
        if tuple(welcome["python"][:2]) < (3, 8):
            pool._break("{} has Python {}; workers need 3.8".format(link.run, there))
        elif _cloudpickle() is not None:
            print("neronet: {} has Python {}, here is {}: functions that are not in a module "
                  "cannot be sent there".format(link.run, there, here), file=sys.stderr)
    known = set(welcome["known"])
    with pool._mutex:
        link.round_trip = time.monotonic() - began
        link.channel = channel
        is_new, link.greeted = link.greeted != link.run, link.run
        lost = [number for number in link.inflight if number not in known]
        for number in lost:
            pool._waiting.appendleft(link.inflight.pop(number))
    body, buffers = pool._first
    if is_new:
        channel.send(frames.HELLO, 0, 0, body, buffers)
    pool._send_updates(link)
    for frame in early:
        pool._received(link, frame)


def _ended(relay: "Optional[subprocess.Popen[bytes]]") -> None:
    if relay is None:
        return
    relay.terminate()
    try:
        relay.wait(5)
    except subprocess.TimeoutExpired:
        relay.kill()
        relay.wait()
