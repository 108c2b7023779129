"""``from distributed_computing.api import Pool, WorkerInterface, start_node``.

Workers are runs of Neronet on the machines of ``neroman node list``: one for each card that has
the memory asked for, or as many as processors where no machine has a card. Password, address
and port of the original are taken and not needed: machines are reached by ``ssh``.
"""

import itertools
import os
import subprocess
import sys
import sysconfig
import threading
from concurrent import futures
from typing import Any, Callable, Dict, Iterable, Iterator, List, Optional, Tuple, Type

import neronet
from neronet import worker as _neronet_worker
from neronet._program import find_program
from neronet.errors import error_of

Data = Dict[str, Any]


class WorkerInterface:
    """What a worker does; its constructor prepares it, once for each worker process."""

    def run(self, *args: Any, **kwargs: Any) -> Any:
        """Processes one item; what it returns comes back as it is."""
        raise NotImplementedError

    def handle_update(self, *args: Any, **kwargs: Any) -> None:
        """Takes what :meth:`Pool.update_workers` sends, between items."""


_worker: Optional[WorkerInterface] = None


def _words(data: Optional[Data]) -> Tuple[List[Any], Dict[str, Any]]:
    data = data or {}
    return list(data.get("args") or []), dict(data.get("kwargs") or {})


def _prepare(worker_class: Type[WorkerInterface], init_data: Optional[Data]) -> None:
    """Makes the worker, in its process."""
    global _worker
    args, kwargs = _words(init_data)
    worker = _worker = worker_class(*args, **kwargs)

    def update(data: Data) -> None:
        args, kwargs = _words(data)
        worker.handle_update(*args, **kwargs)

    _neronet_worker.on_update(update)


def _run(item: Data) -> Any:
    assert _worker is not None
    args, kwargs = _words(item)
    return _worker.run(*args, **kwargs)


class Pool:
    """Workers of one class.

    ``init_data``, items and updates are ``{"args": […], "kwargs": {…}}``. An item that takes
    longer than ``job_timeout`` seconds is processed again by another worker, once.
    ``min_gpu_memory_required`` is in MB. Waits until ``min_workers`` are ready.

    Raises :class:`neronet.PoolBroken` when the constructor fails in every worker.
    """

    def __init__(
        self, worker_class: Type[WorkerInterface], init_data: Optional[Data] = None,
        password: Optional[str] = None, server_address: str = "localhost",
        server_port: Optional[int] = None, job_timeout: Optional[float] = None,
        min_gpu_memory_required: float = 11000, min_workers: int = 0,
    ) -> None:
        self._job_timeout = job_timeout
        nodes = neronet.connect().nodes()
        has_cards = any(row.get("gpus") for row in nodes)
        cards: Dict[str, Any] = {}
        if has_cards:
            cards = {"gpus": 1, "gpumem": "{:g}M".format(min_gpu_memory_required)}
        self._executor = neronet.Executor(
            nodes="any" if len(nodes) > 1 else None, files=_travelling(worker_class),
            init=_prepare, initargs=(worker_class, init_data), **cards)
        try:
            if min_workers:
                self._executor.wait_for_workers(min_workers)
        except BaseException:
            self.close()
            raise

    def _submit(self, item: Data) -> "futures.Future[Any]":
        return self._executor.submit_with(_run, (item,), timeout=self._job_timeout)

    def _result(self, future: "futures.Future[Any]", item: Data) -> Any:
        try:
            return future.result()
        except futures.TimeoutError:
            return self._submit(item).result()

    def imap_unordered(self, data: Iterable[Data]) -> Iterator[Any]:
        """Results as they come."""
        items = {self._submit(item): item for item in data}
        return (self._result(future, items[future]) for future in futures.as_completed(items))

    def imap(self, data: Iterable[Data]) -> Iterator[Any]:
        """Results in the order of the items, as they come."""
        asked = [(self._submit(item), item) for item in data]
        return itertools.starmap(self._result, asked)

    def map(self, data: Iterable[Data]) -> List[Any]:
        """All results in the order of the items."""
        return list(self.imap(data))

    def get_workers_count(self) -> int:
        """How many worker processes are ready."""
        return self._executor.workers

    def get_nodes_count(self) -> int:
        """On how many machines."""
        return len(self._executor.nodes)

    def wait_for_workers(self, min_workers: int = 1, timeout: Optional[float] = None) -> None:
        """Waits until so many workers are ready; returns when ``timeout`` seconds are over, too."""
        try:
            self._executor.wait_for_workers(min_workers, timeout)
        except futures.TimeoutError:
            pass

    def update_workers(self, data: Data) -> None:
        """Has every worker's ``handle_update`` called, in order and between items; workers that
        come later get all of it first."""
        self._executor.update_workers(data)

    def close(self) -> None:
        """Cancels what is going on, and ends the workers."""
        self._executor.terminate()

    def __enter__(self) -> "Pool":
        return self

    def __exit__(self, *_: Any) -> None:
        self.close()


def _travelling(worker_class: type) -> List[str]:
    """What workers on other machines import: this package, and the program's own modules."""
    paths = [os.path.dirname(os.path.abspath(__file__))]
    top = worker_class.__module__.partition(".")[0]
    module = sys.modules.get(top)
    place = getattr(module, "__file__", None)
    if place is None or top in ("__main__", "distributed_computing"):
        return paths
    place = os.path.abspath(place)
    if place.startswith(sysconfig.get_paths()["stdlib"] + os.sep):
        return paths
    is_package = os.path.basename(place).startswith("__init__.")
    return paths + [os.path.dirname(place) if is_package else place]


Handle = Tuple[Callable[[], None], Callable[[], None]]


def _handle() -> Handle:
    ended = threading.Event()

    def wait() -> None:
        # In parts, so that Ctrl-C is heard on every system.
        while not ended.wait(1.0):
            pass

    return ended.set, wait


def start_server(password: Optional[str] = None, port: Optional[int] = None) -> Handle:
    """Has the daemon run, which is all that there is to start; returns ``(terminate, wait)``."""
    neronet.connect().status()
    return _handle()


def start_node(password: Optional[str] = None, address: str = "localhost",
               port: Optional[int] = None, max_gpus: Optional[int] = None) -> Handle:
    """Offers this machine to the head at ``address``; returns ``(terminate, wait)``.

    This machine serves its own head without anything being started. It dials another one by
    ``ssh``, and serves it until it is terminated; then ``wait`` returns, or raises
    :class:`neronet.NeronetError` when the head did not take it.
    """
    if address in ("localhost", "127.0.0.1", "::1"):
        return start_head_node(password, port, max_gpus)
    words = [find_program(), "node", "join", address]
    if max_gpus is not None:
        words += ["--gpus", str(max_gpus)]
    child = subprocess.Popen(words, stdin=subprocess.DEVNULL)
    ended = threading.Event()

    def terminate() -> None:
        ended.set()
        child.terminate()

    def wait() -> None:
        code = child.wait()
        if code > 0 and not ended.is_set():
            # What it was is printed already.
            raise error_of({"what": "{} did not take this machine".format(address)}, code)

    return terminate, wait


def start_head_node(password: Optional[str] = None, port: Optional[int] = None,
                    max_gpus: Optional[int] = None) -> Handle:
    """Server and node on this machine; returns ``(terminate, wait)``. ``max_gpus`` is kept as
    ``neroman config set nodes.local.gpus``."""
    if max_gpus is not None:
        neronet.connect().call("config", "set", "nodes.local.gpus", str(max_gpus))
    return start_server(password, port)


def is_server_running() -> bool:
    """Whether the daemon of this user runs here."""
    try:
        return bool(neronet.connect().call("daemon", "status").get("running"))
    except neronet.DaemonUnreachable:
        return False


def is_client_running() -> bool:
    """Whether this machine can take work: the same, since it serves its own daemon."""
    return is_server_running()
