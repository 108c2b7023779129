"""``neronet.Executor``: calls of functions on every machine that Neronet reaches.

Workers are runs: placed, given their CPUs and cards, supervised, logged and ended like any
other. Calls go from this process to the worker's socket, directly or through ``ssh``; no daemon
takes part, and any of them may be killed meanwhile. Items stay here until a worker is about to
need them; results stay with the worker until they are here.
"""

import atexit
import concurrent.futures
import itertools
import os
import shutil
import socket
import sys
import threading
import time
import uuid
import weakref
from collections import deque
from concurrent.futures import Future
from typing import (
    IO, Any, Callable, Deque, Dict, Iterable, Iterator, List, Optional, Sequence, Set, Tuple,
)

from . import _frames as frames
from . import _private
from ._calls import (
    Constant,
    PoolBroken,
    WorkerDied,
    _Call,
    _chunk,
    _Link,
    _Place,
    _Results,
)
from ._folder import Files, describe, extend
from ._frames import Closed
from ._pickling import RemoteTraceback, each_outcome, pack
from ._schedule import Schedule, _busy
from ._threads import LIVE, answer_door, follow, grow, keep_time, serve
from .client import Client
from .errors import NeronetError
from .worker import OWNER

__all__ = ["Constant", "Executor", "PoolBroken", "RemoteTraceback", "WorkerDied"]


class Executor(Schedule):
    """A ``concurrent.futures.Executor`` over the nodes of Neronet.

    ``workers`` is how many there are at most; without it as many as the nodes have room for, also
    those that join later.
    ``nodes`` is a node, a group, or ``any``. Each worker has ``cpus``, ``gpus`` cards with
    ``gpumem`` of free memory (``"20G"``), ``memory`` (``"4G"``), ``env`` and at most ``time``
    (``"2h"``), after which another one takes its place; ``setup`` lines are
    executed before it starts. ``python`` is the interpreter there; without it that is this one on
    this machine and ``python3`` elsewhere.
    ``requires`` is a condition on nodes (``"glibc >= 2.28"``).
    ``files`` are files and folders that travel to the workers; their folder is importable there.
    ``init(*initargs)`` is called in each worker before its first call.

    A worker that is idle for ``idle_after`` seconds is given back, and started again when there
    is work. Calls of a machine that is out of reach for ``lost_after`` seconds go elsewhere.

    Raises :class:`neronet.NeronetError` when the workers cannot be started.
    """

    def __init__(
        self, workers: Optional[int] = None, nodes: Optional[str] = None, *, cpus: float = 1,
        gpus: float = 0, gpumem: Optional[str] = None, memory: Optional[str] = None,
        time: Optional[str] = None,
        python: Optional[str] = None, files: Files = (), init: Optional[Callable[..., Any]] = None,
        initargs: Sequence[Any] = (), env: Optional[Dict[str, str]] = None,
        setup: Sequence[str] = (), requires: Optional[str] = None,
        idle_after: Optional[float] = None, lost_after: float = 60.0,
        home: Optional[str] = None,
    ) -> None:
        self._client = Client(home)
        self._pool = uuid.uuid4().hex
        super().__init__()
        #: Seconds within which workers end by themselves when the pool does.
        self._patience = 5.0
        self._idle_after = idle_after
        self._lost_after = lost_after
        self._python = python
        #: Workers that somebody waited for.
        self._wanted = 0
        self._first = pack((init, tuple(initargs)), self._has_program)
        self._folder, self._folder_lock = _private.make("neronet-pool-")
        #: Where workers on this machine tell that they listen.
        self._door: Optional[socket.socket] = None
        try:
            room = self._room(nodes, cpus, gpus)
            if workers is None and self._clusters:
                raise ValueError("a scheduler tells no number of workers that fit: name one, "
                                 "Executor(workers=…)")
            count = workers if workers is not None else max(1, room)
            if count < 1:
                raise ValueError("workers must be at least 1")
            resources = {"cpus": cpus, "gpus": gpus, "gpumem": gpumem, "memory": memory,
                         "time": time}
            # Nodes may join a group.
            is_here = self._names == ["local"] and not self._clusters and not self._may_change
            if "local" in self._names:
                self._door = _door(self._folder)
            owner = {OWNER: self._door.getsockname()} if self._door is not None else {}
            # Experiments have their names from it.
            described = os.path.join(self._folder, "pool-" + self._pool[:8])
            describe(described, self._pool, count, nodes, is_here, resources, python, files,
                     dict(env or {}, **owner), setup, requires)
            added = self._client.add(described)
            self._experiments = sorted(int(row["id"]) for row in added)
            started = self._client.start(self._experiments)
            runs = {int(row["id"]): row["run"] for row in started if row.get("run")}
        except BaseException:
            _shut(self._door)
            shutil.rmtree(self._folder, ignore_errors=True)
            self._folder_lock.close()
            raise
        self._threads: List[threading.Thread] = []
        if self._door is not None:
            self._threads.append(threading.Thread(
                target=answer_door, args=(weakref.ref(self), self._door), daemon=True))
        if workers is None:
            self._threads.append(threading.Thread(
                target=grow, args=(weakref.ref(self), nodes, cpus, gpus), daemon=True))
        self._threads.append(
            threading.Thread(target=keep_time, args=(weakref.ref(self),), daemon=True))
        self._go_with(self._experiments, runs)
        _open.add(self)

    def _go_with(self, experiments: List[int], runs: Dict[int, str]) -> None:
        """Begins to go with workers."""
        links = [_Link(experiment, runs.get(experiment, "")) for experiment in experiments]
        with self._mutex:
            # Others go through the list that was.
            self._links = self._links + links
        self._threads.append(threading.Thread(
            target=follow, args=(weakref.ref(self), experiments), daemon=True))
        for link in links:
            self._threads.append(threading.Thread(
                target=serve, args=(weakref.ref(self), link), daemon=True))
        for thread in self._threads:
            if thread.ident is None:
                thread.start()

    def _grow(self, nodes: Optional[str], cpus: float, gpus: float) -> None:
        """Adds as many workers as nodes have room for by now.

        Raises :class:`NeronetError` when that fails.
        """
        room, had = self._room(nodes, cpus, gpus), len(self._links)
        if room <= had:
            return
        described = os.path.join(self._folder, "pool-" + self._pool[:8])
        extend(described, room)
        rows = self._client.add(described)
        more = sorted({int(row["id"]) for row in rows} - set(self._experiments))
        started = self._client.start(more)
        with self._mutex:
            is_open = bool(self._folder)
            self._experiments = self._experiments + more
        if is_open:
            self._go_with(more, {int(row["id"]): row["run"] for row in started if row.get("run")})
        else:
            # The pool was closed meanwhile.
            self._client.abort(more)
            self._client.wait(more, timeout=30)
            self._client.remove(more)

    # Making workers

    def _room(self, nodes: Optional[str], cpus: float, gpus: float) -> int:
        """How many workers fit on the nodes when they are empty.

        Raises :class:`NeronetError` for a node whose hosts may not be reached.
        """
        answer = self._client.nodes()
        groups = answer.document.get("groups") or {}
        known = [row["name"] for row in answer]
        word = nodes or answer.document.get("default_node") or "local"
        self._names = groups.get(word) or (known if word == "any" else [word])
        #: Whether other nodes may belong to them later.
        self._may_change = word == "any" or word in groups
        #: Nodes whose workers are jobs of a scheduler.
        self._clusters: Set[str] = set()
        with_doors = []
        room = 0
        for row in answer:
            if row["name"] not in self._names or not self._counts(row):
                continue
            if row.get("warden") not in (None, "none"):
                self._clusters.add(row["name"])
                if row["warden"] != "slurm":
                    with_doors.append(row["name"])
            elif gpus:
                room += int(len(row.get("gpus") or []) / gpus)
            else:
                room += int((row.get("cpus") or 0) / cpus)
        if with_doors:
            self._may_listen(with_doors)
        return room

    def _counts(self, row: Dict[str, Any]) -> bool:
        """Whether a node counts when workers are numbered."""
        return True

    def _may_listen(self, names: List[str]) -> None:
        """Refuses nodes whose workers may not be reached over the network of their cluster."""
        values = self._client.call("config", "show")["values"]
        listen = {one["key"]: one["value"] for one in values}
        for name in names:
            key = "nodes.{}.listen".format(name)
            if listen.get(key) == "never":
                raise NeronetError(
                    "no way leads to workers on {}".format(name),
                    ["its scheduler has none, and `listen: never` allows none over the network "
                     "of its cluster"],
                    "neroman config set {} auto".format(key),
                )

    # Calls

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> "Future[Any]":
        """Has ``fn(*args, **kwargs)`` executed by a worker."""
        return self.submit_with(fn, args, kwargs)

    def submit_with(
        self, fn: Callable[..., Any], args: Sequence[Any] = (),
        kwargs: Optional[Dict[str, Any]] = None, timeout: Optional[float] = None,
        tries: int = 1,
    ) -> "Future[Any]":
        """The same; when a call takes longer than ``timeout`` seconds, its worker is killed and
        replaced. After ``tries`` such executions the call ends with :class:`TimeoutError`; one
        that the function itself raises is its result, and nothing is executed again."""
        if tries < 1:
            raise ValueError("tries must be at least 1")
        future: "Future[Any]" = Future()
        self._submit(_Call(future, fn, tuple(args), kwargs or {}, timeout, tries))
        return future

    def _submit(self, call: _Call) -> None:
        with self._mutex:
            if self._broken is not None:
                raise PoolBroken(self._broken)
            if self._is_shut:
                raise RuntimeError("cannot schedule new futures after shutdown")
            self._unresolved += 1
            _busy.add(self)
            self._waiting.append(call)
            link = self._free_link()
        if link is not None:
            self._feed(link)
        elif self._idle_after is not None:
            with self._mutex:
                self._changed.notify_all()

    def _placed(self, results: _Results, fn: Callable[..., Any], args: Tuple[Any, ...]) -> _Place:
        place = _Place(results)
        self._submit(_Call(place, fn, args, {}, None))
        return place

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
        futures = self._places(fn, zip(*iterables), chunksize, False)
        ahead = None if buffersize is None else max(1, buffersize // chunksize)
        pending = deque(itertools.islice(futures, ahead))
        return self._mapped(futures, pending, chunksize > 1, deadline)

    def _places(self, fn: Callable[..., Any], items: Iterator[Tuple[Any, ...]], chunksize: int,
                goes_on: bool) -> Iterator[_Place]:
        """Submits calls as they are asked for; a chunk ends at an exception unless it
        ``goes_on``."""
        results = _Results()
        if chunksize == 1:
            return (self._placed(results, fn, args) for args in items)
        chunks = iter(lambda: list(itertools.islice(items, chunksize)), [])
        return (self._placed(results, _chunk, (fn, chunk, goes_on)) for chunk in chunks)

    @staticmethod
    def _mapped(
        futures: Iterator[_Place], pending: Deque[_Place], are_chunks: bool,
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
                for value, error in each_outcome(result):
                    if error is not None:
                        raise error
                    yield value
        finally:
            for future in pending:
                future.cancel()

    def put(self, value: Any) -> Constant:
        """Keeps a large value for calls: ``submit(f, pool.put(x))``. Each node gets it once, as it
        is now."""
        packed = frames.kept(*pack(value, self._has_program))
        with self._mutex:
            number = next(self._numbers)
            self._constants[number] = packed
        return Constant(number)

    def update_workers(self, data: Any) -> None:
        """Has ``data`` reach every worker, in order and between calls: the function that
        ``neronet.worker.on_update`` was given there is called with it. Workers that come later
        get all of it before their first call."""
        packed = frames.kept(*pack(data, self._has_program))
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
            self._wanted = max(self._wanted, count)
            while self.workers < count:
                if self._broken is not None:
                    raise PoolBroken(self._broken)
                left = None if deadline is None else deadline - time.monotonic()
                if left is not None and left <= 0:
                    raise concurrent.futures.TimeoutError(
                        "{} of {} workers are ready".format(self.workers, count))
                self._changed.wait(left)
            return self.workers

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
                        self._settled()
                self._waiting = deque(call for call in self._waiting if call.is_running)
            self._changed.notify_all()
        if not wait:
            threading.Thread(target=self._end, daemon=False).start()
            return
        self._end()

    def terminate(self) -> None:
        """Ends calls and workers at once; calls without a result fail with :class:`PoolBroken`."""
        self._patience = 0.5
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
        _open.discard(self)
        _shut(self._door)
        _end(self._client, self._experiments, links, folder, self._folder_lock, self._patience)

    def __del__(self) -> None:
        # Only a pool without calls is forgotten.
        folder = getattr(self, "_folder", "")
        if folder and self._links:
            _shut(self._door)
            words = (self._client, self._experiments, self._links, folder, self._folder_lock,
                     self._patience)
            threading.Thread(target=_end, args=words, daemon=True).start()

    def _part(self) -> None:
        """Leaves the pool to the process that made it."""
        self._mutex = threading.RLock()
        self._changed = threading.Condition(self._mutex)
        self._folder = ""
        self._folder_lock.close()
        if self._door is not None:
            self._door.close()
        self._broken = "the pool belongs to process {}, which this one is a fork of".format(
            os.getppid())
        for link in self._links:
            # An open end here would hide from the worker that its owner is gone.
            for channel in (link.channel, link.opening):
                if channel is not None:
                    channel.part()

    def __exit__(self, kind: Any, value: Any, trace: Any) -> Optional[bool]:
        if kind is not None and issubclass(kind, KeyboardInterrupt):
            # What runs is not waited for.
            with self._mutex:
                self._patience = 0.5
                self._settled(self._unresolved)
        self.shutdown(wait=True, cancel_futures=kind is not None)
        return None


def _door(folder: str) -> Optional[socket.socket]:
    """A socket in a private folder; `None` where the folder's path is too long for one."""
    door = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        door.bind(os.path.join(folder, "door"))
        door.listen(128)
    except OSError:
        door.close()
        return None
    return door


def _shut(door: Optional[socket.socket]) -> None:
    """Ends a door, and the thread that answers it."""
    if door is None:
        return
    try:
        door.shutdown(socket.SHUT_RDWR)
    except OSError:
        pass
    door.close()


def _end(client: Client, experiments: List[int], links: List[_Link], folder: str,
         folder_lock: IO[bytes], patience: float) -> None:
    """Ends workers and their experiments."""
    for link in links:
        if link.channel is not None:
            try:
                link.channel.send(frames.LEAVE)
            except Closed:
                pass
    try:
        connected = {link.experiment for link in links if link.channel is not None}
        waiting = [one for one in experiments if one not in connected]
        if waiting:
            client.abort(waiting)
        client.wait(experiments, timeout=patience)
        live = [row for row in client.status(experiments) if row["state"] in LIVE]
        if live:
            client.abort(live, grace=1)
            client.wait(live, timeout=30)
        client.remove(experiments)
    except NeronetError as error:
        # Workers without an owner end by themselves.
        print("neronet: cannot tidy up the pool: {}".format(error), file=sys.stderr)
    for link in links:
        if link.channel is not None:
            link.channel.close()
    shutil.rmtree(folder, ignore_errors=True)
    folder_lock.close()


_open: "weakref.WeakSet[Executor]" = weakref.WeakSet()


@atexit.register
def _close_all() -> None:
    for one in list(_open):
        one._close()


def _forked() -> None:
    """Parts a child of this process from its pools, whose threads it does not have."""
    for one in list(_open):
        one._part()
    _open.clear()
    _busy.clear()


os.register_at_fork(after_in_child=_forked)
