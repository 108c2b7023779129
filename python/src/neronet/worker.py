"""A worker of :class:`neronet.Executor`: ``python -m neronet.worker POOL`` is the job of a run.

It listens at a Unix socket in a private folder and writes where into ``worker.json`` of the
run's folder. Calls are executed one after the other in the main thread. A result is kept until
its owner has it; an owner whose connection was cut comes again and goes on. Without an owner
the worker ends.
"""

import json
import os
import pickle
import shutil
import socket
import sys
import tempfile
import threading
import time
import traceback
from collections import deque
from typing import Any, Deque, Dict, List, Optional, Tuple

from . import _frames as frames
from ._frames import Bytes, Channel, Closed, Frame

#: Seconds without an owner after which a worker ends.
ALONE_MAX = 30.0
#: The same before the first owner came: it may be starting many workers.
FIRST_MAX = 300.0
#: Where the socket is, in the run's folder.
PLACE = "worker.json"

#: What calls use besides their arguments, by number.
_constants: Dict[int, Any] = {}
_updated: Optional[Any] = None


def constant(number: int) -> Any:
    """What the owner sent with :meth:`neronet.Executor.put`."""
    return _constants[number]


def on_update(function: Any) -> None:
    """Has ``function(data)`` called for each ``Executor.update_workers(data)``."""
    global _updated
    _updated = function


class Worker:
    """One worker with its queue and the results that its owner does not have yet."""

    def __init__(self, pool: str) -> None:
        self._pool = pool
        self._mutex = threading.Lock()
        self._wake = threading.Condition(self._mutex)
        self._queue: Deque[Frame] = deque()
        self._results: Deque[Tuple[int, int, Bytes, List[memoryview]]] = deque()
        self._running = 0
        self._channel: Optional[Channel] = None
        self._alone_since = time.monotonic()
        self._alone_max = FIRST_MAX
        self._prepared: Optional[Tuple[int, Bytes]] = None
        self._leaves = False

    # The way to the owner

    def listen(self, listener: socket.socket) -> None:
        """Takes owners, one after the other; the newest connection counts."""
        while True:
            link, _ = listener.accept()
            if not frames.own_socket(link):
                link.close()
                continue
            threading.Thread(target=self._attend, args=(link,), daemon=True).start()

    def _attend(self, link: socket.socket) -> None:
        channel = Channel(link, shares_memory=True)
        try:
            hello = channel.receive()
            asked = json.loads(bytes(hello.body))
            if hello.kind != frames.HELLO or asked.get("pool") != self._pool:
                return
            if not asked.get("shares_memory"):
                channel.shares_memory = False
            self._begin(channel)
            while True:
                self._take(channel, channel.receive())
        except Closed:
            pass
        finally:
            channel.close()
            with self._mutex:
                if self._channel is channel:
                    self._channel = None
                    self._alone_since = time.monotonic()

    def _begin(self, channel: Channel) -> None:
        with self._mutex:
            earlier, self._channel = self._channel, channel
            self._alone_max = ALONE_MAX
            known = [frame.number for frame in self._queue if frame.kind == frames.CALL]
            if self._running:
                known.append(self._running)
            known += [number for number, _, _, _ in self._results]
            welcome = {"python": list(sys.version_info[:3]), "pid": os.getpid(), "known": known}
            again = list(self._results)
            prepared = self._prepared
        if earlier is not None:
            earlier.close()
        channel.send(frames.WELCOME, body=json.dumps(welcome).encode())
        if prepared is not None:
            channel.send(prepared[0], body=prepared[1])
        for number, kind, body, buffers in again:
            channel.send(kind, number, 0, body, buffers)

    def _take(self, channel: Channel, frame: Frame) -> None:
        with self._mutex:
            if frame.acked:
                while self._results and any(one[0] == frame.acked for one in self._results):
                    self._results.popleft()
            if frame.kind == frames.LEAVE:
                self._leaves = True
            elif frame.kind == frames.RECALL:
                kept = [one for one in self._queue
                        if one.kind != frames.CALL or one.number != frame.number]
                recalled = len(kept) < len(self._queue)
                self._queue = deque(kept)
            elif frame.kind != frames.ACK:
                self._queue.append(frame)
            self._wake.notify()
        if frame.kind == frames.RECALL and recalled:
            channel.send(frames.RECALLED, frame.number)

    def _answer(self, kind: int, number: int, body: Bytes, buffers: List[memoryview]) -> None:
        with self._mutex:
            self._running = 0
            self._results.append((number, kind, body, buffers))
            channel = self._channel
        if channel is not None:
            try:
                channel.send(kind, number, 0, body, buffers)
            except Closed:
                # It is kept for the owner's next connection.
                pass

    # Calls

    def serve(self) -> int:
        """Executes what comes until the owner has no more, or is gone; returns the exit code."""
        while True:
            frame = self._next()
            if frame is None:
                return 0
            if frame.kind == frames.CALL:
                self._call(frame)
            elif frame.kind == frames.CONSTANT:
                _constants[frame.number] = frame.load()
            elif frame.kind == frames.UPDATE:
                self._update(frame)
            elif frame.kind == frames.HELLO:
                self._prepare(frame)

    def _next(self) -> Optional[Frame]:
        with self._mutex:
            while not self._queue:
                if self._leaves:
                    return None
                alone = self._channel is None
                left = self._alone_since + self._alone_max - time.monotonic()
                if alone and left <= 0:
                    return None
                self._wake.wait(min(left, 5.0) if alone else 5.0)
            frame = self._queue.popleft()
            if frame.kind == frames.CALL:
                self._running = frame.number
            return frame

    def _prepare(self, frame: Frame) -> None:
        """Calls the function that prepares the worker."""
        try:
            function, args = frame.load()
            if function is not None:
                function(*args)
            kind, body = frames.PREPARED, b""
        except BaseException:
            kind, body = frames.UNPREPARED, traceback.format_exc().encode()
        with self._mutex:
            self._prepared = (kind, body)
            channel = self._channel
        if channel is not None:
            try:
                channel.send(kind, body=body)
            except Closed:
                pass

    def _update(self, frame: Frame) -> None:
        try:
            data = frame.load()
            if _updated is not None:
                _updated(data)
        except BaseException:
            traceback.print_exc()

    def _call(self, frame: Frame) -> None:
        began = time.perf_counter()
        try:
            function, args, kwargs = frame.load()
            value = function(*args, **kwargs)
            took = time.perf_counter() - began
            body, buffers = frames.pack((took, value))
            kind = frames.RESULT
        except BaseException as error:
            kind = frames.ERROR
            body, buffers = _packed_error(error, time.perf_counter() - began), []
        self._answer(kind, frame.number, body, buffers)


def _packed_error(error: BaseException, took: float) -> bytes:
    text = "".join(traceback.format_exception(type(error), error, error.__traceback__))
    try:
        body = pickle.dumps((took, error, text), protocol=5)
        pickle.loads(body)
        return body
    except Exception:
        # An exception whose constructor takes other arguments than it keeps cannot travel.
        stands_in = RuntimeError("{}: {}".format(type(error).__name__, error))
        return pickle.dumps((took, stands_in, text), protocol=5)


def main() -> int:
    """The worker's program."""
    sys.path.insert(0, os.getcwd())
    folder = tempfile.mkdtemp(prefix="neronet-")
    try:
        path = os.path.join(folder, "worker")
        listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        listener.bind(path)
        listener.listen(8)
        worker = Worker(sys.argv[1])
        threading.Thread(target=worker.listen, args=(listener,), daemon=True).start()
        beside = PLACE + ".new"
        with open(beside, "w", encoding="utf-8") as file:
            json.dump({"socket": path, "pid": os.getpid()}, file)
        os.replace(beside, PLACE)
        code = worker.serve()
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    sys.stdout.flush()
    sys.stderr.flush()
    # Threads that calls left behind keep no worker.
    os._exit(code)


if __name__ == "__main__":
    # Functions of this module, such as `constant`, must be those of the imported one.
    from neronet import worker as imported

    imported.main()
