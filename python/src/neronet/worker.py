"""A worker of :class:`neronet.Executor`: the job of a run.

It listens at a Unix socket in a private folder and writes where into ``worker.json`` of the
run's folder. Calls are executed one after the other in the main thread. A result is kept until
its owner has it; an owner whose connection was cut comes again and goes on. Without an owner
the worker ends.
"""

import json
import os
import shutil
import socket
import subprocess
import sys
import threading
import time
import traceback
import types
from collections import deque
from typing import Any, Deque, Dict, List, Optional, Set, Tuple

from . import _frames as frames
from . import _private
from ._calls import _chunk
from ._frames import Buffer, Bytes, Channel, Closed, Frame
from ._pickling import pack, pack_error, pack_outcomes
from ._relay import opened

#: Seconds without an owner after which a worker ends.
ALONE_MAX = 30.0
#: The same before the first owner came: it may be starting many workers.
FIRST_MAX = 300.0
#: Seconds within which another worker of this machine hands a constant over.
_HANDED_MAX = 600.0
#: Seconds after which the rest of several calls goes back to the owner.
_TOGETHER_MAX = 0.005
#: Seconds of one call after which another thread receives, and looks for that in vain after which
#: it waits to be told of the next call.
_LONG = 0.005
_LOOKS_MAX = 20
_CALLS = (frames.CALL, frames.CALLS)
#: The kind of a frame that stands for a time without frames.
_NOTHING = 0
#: Where the socket is, in the run's folder.
PLACE = "worker.json"
#: The variable with the socket of an owner on this machine.
OWNER = "NERONET_OWNER"
#: Seconds after which a door that ended is opened again.
_DOOR_AGAIN = 2.0

#: What calls use besides their arguments, by number.
_constants: Dict[int, Any] = {}
_updated: Optional[Any] = None
#: Whether this process has the owner's program, too.
_has_program = False


def constant(number: int) -> Any:
    """What the owner sent with :meth:`neronet.Executor.put`."""
    return _constants[number]


def on_update(function: Any) -> None:
    """Has ``function(data)`` called for each ``Executor.update_workers(data)``."""
    global _updated
    _updated = function


def set_program(program: types.ModuleType) -> None:
    """Makes a module the program of this process, as `multiprocessing` does: names of it travel
    in both directions."""
    global _has_program
    sys.modules["__main__"] = sys.modules["__mp_main__"] = program
    _has_program = True


class Worker:
    """One worker with its queue and the results that its owner does not have yet."""

    def __init__(self, pool: str, place: str) -> None:
        self._pool = pool
        self._place = place
        self._process = os.getpid()
        self._mutex = threading.Lock()
        self._wake = threading.Condition(self._mutex)
        self._queue: Deque[Frame] = deque()
        self._results: Deque[Tuple[int, int, Bytes, List[memoryview]]] = deque()
        self._running = 0
        self._channel: Optional[Channel] = None
        #: From which channel the main thread receives, when it has nothing to execute. Handing each
        #: call over from another thread would take longer than a tiny call.
        self._read_by_main: Optional[Channel] = None
        #: From which one its own thread receives, while the main thread executes a long call.
        self._read_by_thread: Optional[Channel] = None
        #: The one that ended when the main thread received.
        self._ended: Optional[Channel] = None
        self._turn = threading.Condition(self._mutex)
        #: Whether a thread waits for the next call.
        self._waits_for_call = False
        #: Calls that were begun.
        self._begun = 0
        self._alone_since = time.monotonic()
        self._alone_max = FIRST_MAX
        self._prepared: Optional[Tuple[int, Bytes]] = None
        self._leaves = False
        #: What arrived of that which is sent once.
        self._has_first = False
        self._updates = 0
        self._constants: Set[int] = set()
        #: Constants for the other workers of this machine.
        self._kept: Dict[int, Tuple[Buffer, List[Buffer]]] = {}
        self._keeps = threading.Condition(self._mutex)
        #: The constant that nobody handed over, so that the owner is asked.
        self._missing = 0

    # The way to the owner

    def listen(self, listener: socket.socket) -> None:
        """Takes owners, one after the other; the newest connection counts. Without one for long
        the worker ends, whatever it executes."""
        listener.settimeout(1.0)
        while True:
            try:
                link, _ = listener.accept()
            except socket.timeout:
                with self._mutex:
                    alone = self._channel is None and time.monotonic() - self._alone_since
                if alone and alone > self._alone_max:
                    shutil.rmtree(os.path.dirname(self._place), ignore_errors=True)
                    os._exit(0)
                continue
            link.setblocking(True)
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
            if "constant" in asked:
                self._hand_over(channel, int(asked["constant"]))
                return
            self._begin(channel)
            while True:
                self._wait_for_turn(channel)
                try:
                    self._take(channel, channel.receive())
                finally:
                    with self._mutex:
                        if self._read_by_thread is channel:
                            self._read_by_thread = None
                            self._wake.notify()
        except Closed:
            pass
        finally:
            channel.close()
            with self._mutex:
                if self._channel is channel:
                    self._channel = None
                    self._alone_since = time.monotonic()

    def _wait_for_turn(self, channel: Channel) -> None:
        """Waits until the main thread does not receive for long."""
        with self._mutex:
            begun, looks = -1, 0
            while self._channel is channel and self._ended is not channel:
                if self._begun == begun and self._read_by_main is None:
                    break
                looks = 0 if self._begun != begun else looks + 1
                begun = self._begun
                self._waits_for_call = looks > _LOOKS_MAX
                self._turn.wait(None if self._waits_for_call else _LONG)
            self._waits_for_call = False
            if self._channel is channel:
                self._read_by_thread = channel

    def _receive(self, channel: Channel) -> bool:
        """Receives in the main thread, which has the mutex; false when nothing came for a while."""
        self._read_by_main = channel
        self._mutex.release()
        ended = False
        try:
            if not channel.wait(5.0):
                return False
            frame = channel.receive_one()
            if frame is not None:
                self._take(channel, frame)
        except (Closed, OSError):
            ended = True
        finally:
            self._mutex.acquire()
            self._read_by_main = None
            if ended:
                # The thread of the channel does what is to be done then.
                self._ended = channel
                self._turn.notify_all()
        return True

    def _begin(self, channel: Channel) -> None:
        with self._mutex:
            earlier, self._channel = self._channel, channel
            self._turn.notify_all()
            self._wake.notify()
            self._alone_max = ALONE_MAX
            known = [frame.number for frame in self._queue if frame.kind in _CALLS]
            if self._running:
                known.append(self._running)
            known += [number for number, _, _, _ in self._results]
            welcome = {
                "python": list(sys.version_info[:3]), "pid": os.getpid(), "known": known,
                "socket": self._place, "has_first": self._has_first, "updates": self._updates,
                "constants": sorted(self._constants),
            }
            again = list(self._results)
            prepared, missing = self._prepared, self._missing
        if earlier is not None:
            earlier.close()
        channel.send(frames.WELCOME, body=json.dumps(welcome).encode())
        if prepared is not None:
            channel.send(prepared[0], body=prepared[1])
        for number, kind, body, buffers in again:
            channel.send(kind, number, 0, body, buffers)
        if missing:
            channel.send(frames.MISSING, missing)

    def _hand_over(self, channel: Channel, number: int) -> None:
        """Gives a constant to another worker of this machine, when it is here."""
        deadline = time.monotonic() + _HANDED_MAX
        with self._mutex:
            while number not in self._kept:
                left = deadline - time.monotonic()
                if left <= 0 or not self._keeps.wait(left):
                    return
            body, buffers = self._kept[number]
        channel.send(frames.CONSTANT, number, 0, body, buffers)

    def _take(self, channel: Channel, frame: Frame) -> None:
        if frame.kind == frames.CONSTANT and not channel.shares_memory:
            frame = frame._replace(**_kept(frame))
        with self._mutex:
            if self._channel is not channel:
                # Its owner was told already that this is not here, and sends it again.
                return
            if frame.kind == frames.HELLO:
                self._has_first = True
            elif frame.kind == frames.UPDATE:
                self._updates += 1
            elif frame.kind in (frames.CONSTANT, frames.CONSTANT_AT):
                self._constants.add(frame.number)
            if frame.kind == frames.CONSTANT and not channel.shares_memory:
                self._kept[frame.number] = frame.body, list(frame.buffers)
                self._keeps.notify_all()
            if frame.acked:
                while self._results and any(one[0] == frame.acked for one in self._results):
                    self._results.popleft()
            if frame.kind == frames.LEAVE:
                self._leaves = True
            elif frame.kind == frames.RECALL:
                kept = [one for one in self._queue
                        if one.kind not in _CALLS or one.number != frame.number]
                recalled = len(kept) < len(self._queue)
                self._queue = deque(kept)
            elif frame.kind != frames.ACK:
                self._queue.append(frame)
            self._wake.notify()
        if frame.kind == frames.RECALL:
            # What is not here is on its way: the owner asks again.
            channel.send(frames.RECALLED, frame.number if recalled else 0)

    def _answer(self, kind: int, number: int, body: Bytes, buffers: List[memoryview]) -> None:
        if os.getpid() != self._process:
            # A fork that left its call.
            os._exit(0)
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
            # Arguments of the last call are gone by now.
            channel = self._channel
            if channel is not None and not self._queue:
                try:
                    channel.tidy()
                except Closed:
                    pass
            frame = self._next()
            if frame is None:
                return 0
            if frame.kind == frames.CALL:
                self._call(frame)
            elif frame.kind == frames.CALLS:
                self._call_several(frame)
            elif frame.kind == frames.CONSTANT:
                _constants[frame.number] = frame.load()
            elif frame.kind == frames.CONSTANT_AT:
                given = self._fetched(frame)
                if given is None:
                    return 0
                _constants[frame.number] = given.load()
                self._missing = 0
            elif frame.kind == frames.UPDATE:
                self._update(frame)
            elif frame.kind == frames.HELLO:
                self._prepare(frame)
            del frame

    def _fetched(self, frame: Frame) -> Optional[Frame]:
        """A constant from the worker here that has it, or else from the owner."""
        link = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        channel = Channel(link, shares_memory=True)
        try:
            link.settimeout(_HANDED_MAX)
            link.connect(bytes(frame.body).decode())
            if frames.own_socket(link):
                hello = {"pool": self._pool, "shares_memory": True, "constant": frame.number}
                channel.send(frames.HELLO, body=json.dumps(hello).encode())
                return channel.receive()
        except OSError:
            pass
        finally:
            channel.close()
        with self._mutex:
            self._missing = frame.number
            owner = self._channel
        if owner is not None:
            try:
                owner.send(frames.MISSING, frame.number)
            except Closed:
                # The next connection is told.
                pass
        return self._next(frame.number)

    def _is_first(self, constant: int) -> bool:
        """Whether there is something to do; with ``constant`` that alone, which becomes the first."""
        if not constant:
            return bool(self._queue)
        for frame in self._queue:
            if frame.kind == frames.CONSTANT and frame.number == constant:
                self._queue.remove(frame)
                self._queue.appendleft(frame)
                return True
        return False

    def _next(self, constant: int = 0) -> Optional[Frame]:
        with self._mutex:
            while not self._is_first(constant):
                if self._leaves:
                    return None
                channel = self._channel
                if channel not in (None, self._ended, self._read_by_thread):
                    assert channel is not None
                    if not self._receive(channel) and not constant:
                        return Frame(_NOTHING, 0, 0, b"", ())
                    continue
                alone = self._channel is None
                left = self._alone_since + self._alone_max - time.monotonic()
                if alone and left <= 0:
                    return None
                if not self._wake.wait(min(left, 5.0) if alone else 5.0) and not constant:
                    return Frame(_NOTHING, 0, 0, b"", ())
            frame = self._queue.popleft()
            if frame.kind in _CALLS:
                self._running = frame.number
            self._begun += 1
            if self._waits_for_call:
                self._turn.notify_all()
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
            if function is _chunk:
                body, buffers = pack_outcomes(took, *value, _has_program)
            else:
                body, buffers = pack((took, value), _has_program)
            kind = frames.RESULT
        except BaseException as error:
            kind = frames.ERROR
            body, buffers = pack_error(error, time.perf_counter() - began, _has_program), []
        self._answer(kind, frame.number, body, buffers)

    def _call_several(self, frame: Frame) -> None:
        """Executes short calls of one function; what they have no time for goes back."""
        began = time.perf_counter()
        values: List[Any] = []
        errors: Dict[int, BaseException] = {}
        try:
            function, asked = frame.load()
        except BaseException as error:
            body = pack_error(error, 0.0, _has_program)
            self._answer(frames.ERROR, frame.number, body, [])
            return
        for args, kwargs in asked:
            try:
                values.append(function(*args, **kwargs))
            except BaseException as error:
                errors[len(values)] = error
                values.append(None)
            took = time.perf_counter() - began
            if took > _TOGETHER_MAX:
                break
        packed = pack_outcomes(took, values, errors, _has_program)
        self._answer(frames.RESULTS, frame.number, *packed)


def _kept(frame: Frame) -> Dict[str, Any]:
    """Body and buffers as memory that is handed to other workers."""
    body, buffers = frames.kept(frame.body, frame.buffers)
    return {"body": body, "buffers": buffers}


def _announce(place: str) -> None:
    """Tells an owner on this machine that this worker listens; others are told by the daemon."""
    owner = os.environ.pop(OWNER, "")
    if not owner:
        return
    facts = {"socket": place, "run": os.environ.get("NERO_RUN"), "id": os.environ.get("NERO_ID"),
             "node": os.environ.get("NERO_NODE")}
    try:
        with opened(owner) as link:
            link.settimeout(1.0)
            if frames.own_socket(link):
                link.sendall(json.dumps(facts).encode())
    except OSError:
        # The daemon tells the owner, too.
        pass


def _write_place(place: str, path: str, way: Optional[List[str]] = None) -> None:
    """Tells the relay where this worker listens; ``way`` is the command by which other hosts of
    the cluster reach it."""
    told = {"socket": path, "pid": os.getpid(), "python": sys.executable, "way": way,
            "job": os.environ.get("SLURM_JOB_ID"), "host": os.environ.get("SLURMD_NODENAME")}
    beside = place + ".new"
    with open(beside, "w", encoding="utf-8") as file:
        json.dump(told, file)
    os.replace(beside, place)


def _keep_door(place: str, path: str, agent: str, submission: str) -> None:
    """Has the other hosts of a cluster reach this worker, whose scheduler has no way for that.
    The door ends with this process, whose input it reads."""
    while True:
        words: List[str] = []
        try:
            with subprocess.Popen([agent, "door", submission, path], stdin=subprocess.PIPE,
                                  stdout=subprocess.PIPE) as door:
                assert door.stdout is not None
                words = door.stdout.readline().decode().split()
                _write_place(place, path, [agent, "call", submission] + words if words else None)
                door.wait()
        except OSError as error:
            # A full disk: it passes.
            print("neronet: no way leads to this worker yet: {}".format(error), file=sys.stderr)
        time.sleep(_DOOR_AGAIN)


def main() -> int:
    """The worker's program."""
    sys.path.insert(0, os.getcwd())
    folder, lock = _private.make("neronet-w-")
    try:
        path = os.path.join(folder, "worker")
        listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        listener.bind(path)
        listener.listen(8)
        worker = Worker(sys.argv[1], path)
        threading.Thread(target=worker.listen, args=(listener,), daemon=True).start()
        place = os.path.abspath(PLACE)
        agent, submission = os.environ.get("NERO_AGENT"), os.environ.get("NERO_SUBMISSION")
        if agent and submission and not os.environ.get("SLURMD_NODENAME"):
            threading.Thread(target=_keep_door, args=(place, path, agent, submission),
                             daemon=True).start()
        else:
            _write_place(place, path)
        _announce(path)
        code = worker.serve()
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    sys.stdout.flush()
    sys.stderr.flush()
    # Threads that calls left behind keep no worker.
    os._exit(code)
