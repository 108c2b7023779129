"""``from distributed_computing.api import Pool, WorkerInterface, start_node``.

Workers are runs of Neronet on the machines of ``neroman node list``: one for each card that has
the memory asked for, or as many as processors where no machine has a card. Password, address
and port of the original are taken and not needed: machines are reached by ``ssh``.
"""

import datetime
import os
import runpy
import subprocess
import sys
import sysconfig
import threading
import types
from concurrent import futures
from typing import Any, Callable, Dict, Iterable, Iterator, List, Optional, Tuple, Type, Union

import neronet
from neronet import worker as _neronet_worker
from neronet._program import find_program
from neronet.errors import NeronetError, error_of

from . import _roles

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


class _Program:
    """The program itself; in a worker its module, before anything behind it is read, which may
    have names of it."""

    def __init__(self, file: str) -> None:
        self._file = file

    def __reduce__(self) -> Tuple[Any, ...]:
        return _program, (os.path.basename(self._file),)


def _program(file: str) -> types.ModuleType:
    """Executes the program, which has to guard what it does by ``if __name__ == "__main__"``, as
    with ``multiprocessing``."""
    program = types.ModuleType("__mp_main__")
    _neronet_worker.set_program(program)
    program.__dict__.update(runpy.run_path(file, run_name="__mp_main__"))
    return program


def _prepare_of_program(program: types.ModuleType, name: str, init_data: Optional[Data]) -> None:
    """Makes the worker from a class of the program itself."""
    _prepare(getattr(program, name), init_data)


def _run(item: Data) -> Any:
    assert _worker is not None
    args, kwargs = _words(item)
    return _worker.run(*args, **kwargs)


def _known(client: neronet.Client) -> "neronet.client.Answer":
    """The nodes; those whose cards are not known yet are asked."""
    for row in client.nodes():
        if row.get("cpus") is None and row.get("warden") in (None, "none"):
            try:
                client.call("node", "doctor", row["name"])
            except NeronetError:
                # It is out of reach, or something is wrong there: the others work.
                pass
    return client.nodes()


class _Executor(neronet.Executor):
    """Workers on other machines alone, if asked for; with or without the program itself."""

    def __init__(self, is_elsewhere: bool, has_program: bool, **words: Any) -> None:
        self._is_elsewhere = is_elsewhere
        self._has_program = has_program
        if has_program:
            # The name of the program in its workers.
            sys.modules.setdefault("__mp_main__", sys.modules["__main__"])
        if is_elsewhere:
            words["requires"] = "name != local"
        super().__init__(**words)

    def _counts(self, row: Dict[str, Any]) -> bool:
        return not self._is_elsewhere or bool(row["name"] != "local")


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
        nodes = _known(neronet.connect())
        words: Dict[str, Any] = {}
        taking: List[Dict[str, Any]] = list(nodes)
        is_elsewhere = not _roles.takes_work()
        if is_elsewhere:
            taking = [row for row in nodes if row["name"] != "local"]
            if not taking:
                raise NeronetError(
                    "no machine takes work",
                    ["this one is a server alone (start_node -s), and there is no other"],
                    "neroman node add NAME ADDRESS, or start_node -d here",
                )
        if any(row.get("gpus") for row in taking):
            words.update(gpus=1, gpumem="{:g}M".format(min_gpu_memory_required))
        file = _file_of_program(worker_class)
        init: Callable[..., None] = _prepare if file is None else _prepare_of_program
        initargs: Tuple[Any, ...] = (worker_class, init_data)
        if file is not None:
            initargs = (_Program(file), worker_class.__qualname__, init_data)
        self._executor = _Executor(
            is_elsewhere, file is not None, nodes="any", files=_travelling(worker_class, file), init=init, initargs=initargs,
            **words)
        try:
            if min_workers:
                self._executor.wait_for_workers(min_workers)
        except BaseException:
            self.close()
            raise

    def _submit(self, item: Data) -> "futures.Future[Any]":
        return self._executor.submit_with(_run, (item,), timeout=self._job_timeout, tries=2)

    # An iterator of `map` goes on behind an exception, which a generator does not.

    def imap_unordered(self, data: Iterable[Data]) -> Iterator[Any]:
        """Results as they come; behind an exception come those of the other items."""
        asked = [self._submit(item) for item in data]
        return map(futures.Future.result, futures.as_completed(asked))

    def imap(self, data: Iterable[Data]) -> Iterator[Any]:
        """Results in the order of the items, as they come; behind an exception those of the
        others."""
        return map(futures.Future.result, [self._submit(item) for item in data])

    def map(self, data: Iterable[Data]) -> List[Any]:
        """All results in the order of the items."""
        return list(self.imap(data))

    def get_workers_count(self) -> int:
        """How many worker processes are ready."""
        return self._executor.workers

    def get_nodes_count(self) -> int:
        """On how many machines."""
        return len(self._executor.nodes)

    def wait_for_workers(
        self, min_workers: int = 1,
        timeout: Union[datetime.timedelta, float, None] = None,
    ) -> None:
        """Waits until so many workers are ready; returns when ``timeout`` is over, too, which is a
        ``timedelta`` or in seconds."""
        if isinstance(timeout, datetime.timedelta):
            timeout = timeout.total_seconds()
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


def _file_of_program(worker_class: type) -> Optional[str]:
    """The file of the program, when the class is one of its own."""
    if worker_class.__module__ != "__main__":
        return None
    file = getattr(sys.modules["__main__"], "__file__", None)
    return os.path.abspath(file) if file is not None and os.path.isfile(file) else None


def _travelling(worker_class: type, file: Optional[str]) -> List[str]:
    """What workers on other machines import: this package, and the program's own modules."""
    paths = [os.path.dirname(os.path.abspath(__file__))]
    if file is not None:
        return paths + [file]
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


def _handle(role: str) -> Handle:
    """Takes a role of this machine until it is terminated, or this process ends."""
    held = _roles.take(role)
    if held is None:
        print("A {} is already running on this machine.".format(role), flush=True)
        return lambda: None, lambda: None
    ended = threading.Event()

    def terminate() -> None:
        held.close()
        ended.set()

    def wait() -> None:
        # In parts, so that Ctrl-C is heard on every system.
        while not ended.wait(1.0):
            pass

    return terminate, wait


def start_server(password: Optional[str] = None, port: Optional[int] = None) -> Handle:
    """Makes this machine the head, which takes no work itself unless it is a node, too; returns
    ``(terminate, wait)``. All that runs is the daemon."""
    neronet.connect().status()
    return _handle(_roles.SERVER)


def start_node(password: Optional[str] = None, address: str = "localhost",
               port: Optional[int] = None, max_gpus: Optional[int] = None,
               name: Optional[str] = None) -> Handle:
    """Offers this machine to the head at ``address``; returns ``(terminate, wait)``.

    This machine serves its own head without anything being started. It dials another one by
    ``ssh``, under this ``name``, and serves it until it is terminated; then ``wait`` returns, or
    raises :class:`neronet.NeronetError` when the head did not take it.
    """
    if address in (None, "", "localhost", "127.0.0.1", "::1"):
        if max_gpus is not None:
            neronet.connect().call("config", "set", "nodes.local.gpus", str(max_gpus))
        neronet.connect().status()
        return _handle(_roles.NODE)
    words = [find_program(), "node", "join", address]
    if name is not None:
        words += ["--name", name]
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
    end_server, wait_for_server = start_server(password, port)
    end_node, wait_for_node = start_node(password, port=port, max_gpus=max_gpus)

    def terminate() -> None:
        end_server()
        end_node()

    def wait() -> None:
        wait_for_server()
        wait_for_node()

    return terminate, wait


def is_server_running() -> bool:
    """Whether a process of this user is the head here, by :func:`start_server` or
    :func:`start_head_node`. Pools need none."""
    return _roles.is_taken(_roles.SERVER)


def is_client_running() -> bool:
    """Whether a process of this user offers this machine to its own head, by :func:`start_node`
    or :func:`start_head_node`. Without one it takes work, too, unless it is a server alone."""
    return _roles.is_taken(_roles.NODE)
