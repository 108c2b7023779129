"""Frames between the owner of an executor and its workers.

A frame is a header, the lengths of its buffers, a body, and the buffers. Body and buffers are
pickle 5 with buffers out of band. On one machine buffers of ``SHARED_MIN`` bytes and more are
handed over as memory; they are not copied through the socket.
"""

import array
import mmap
import os
import pickle
import socket
import struct
import threading
from typing import Any, List, NamedTuple, Optional, Sequence, Tuple, Union

# Kinds, from the owner
HELLO, CALL, RECALL, ACK, UPDATE, CONSTANT, LEAVE = 1, 2, 3, 4, 5, 6, 7
# Kinds, from a worker
WELCOME, RESULT, ERROR, RECALLED, PREPARED, UNPREPARED = 65, 66, 67, 68, 69, 70

#: Kind, number of the call, the last result that arrived, buffers, bytes of the body.
_HEAD = struct.Struct("<BQQIQ")
_LENGTH = struct.Struct("<Q")
#: Set in the length of a buffer that travels as memory.
_SHARED = 1 << 63
#: Bytes from which a buffer travels as memory.
SHARED_MIN = 1 << 20
#: Descriptors in one message.
_DESCRIPTORS_MAX = 64
#: Parts of one system call.
_PARTS_MAX = 512
#: Bytes that are received at once.
_BLOCK_BYTES = 1 << 16
_ROOM_FOR_DESCRIPTORS = socket.CMSG_LEN(_DESCRIPTORS_MAX * array.array("i").itemsize)

Bytes = Union[bytes, bytearray, memoryview]


class Frame(NamedTuple):
    """One frame. ``buffers`` may be memory of the sender."""

    kind: int
    number: int
    acked: int
    body: Bytes
    buffers: Sequence[Bytes]

    def load(self) -> Any:
        """The object in it."""
        return pickle.loads(self.body, buffers=self.buffers)


def pack(value: Any, dumps: Any = pickle.dumps) -> Tuple[bytes, List[memoryview]]:
    """The body and the buffers of an object."""
    buffers: List[pickle.PickleBuffer] = []
    body = dumps(value, protocol=5, buffer_callback=buffers.append)
    return body, [buffer.raw() for buffer in buffers]


class Closed(ConnectionError):
    """The other end is gone."""


class Channel:
    """A socket for frames. Any thread may send; one thread receives."""

    def __init__(self, link: socket.socket, shares_memory: bool) -> None:
        self._link = link
        self.shares_memory = shares_memory and hasattr(os, "memfd_create")
        self._sending = threading.Lock()
        #: What was received and not taken yet: `_block[_start:_end]`.
        self._block = memoryview(bytearray(_BLOCK_BYTES))
        self._start = 0
        self._end = 0
        self._descriptors: List[int] = []

    def send(
        self, kind: int, number: int = 0, acked: int = 0, body: Bytes = b"",
        buffers: Sequence[Bytes] = (),
    ) -> None:
        """Sends one frame.

        Raises :class:`Closed` when the other end is gone.
        """
        self.send_all([Frame(kind, number, acked, body, buffers)])

    def send_all(self, sent: Sequence[Frame]) -> None:
        """Sends frames, with as few system calls as possible.

        Raises :class:`Closed` when the other end is gone.
        """
        parts: List[Bytes] = []
        descriptors: List[int] = []
        try:
            for frame in sent:
                if not frame.buffers:
                    size = len(frame.body)
                    head = _HEAD.pack(frame.kind, frame.number, frame.acked, 0, size)
                    parts.append(head + frame.body if size < 4096 else head)
                    if size >= 4096:
                        parts.append(frame.body)
                    continue
                # Descriptors arrive with the first byte of their frame, so it is sent alone.
                if parts:
                    self._send(parts, [])
                parts = []
                self._send(self._with_buffers(frame, descriptors), descriptors)
                _close_all(descriptors)
            if parts:
                self._send(parts, [])
        except OSError as error:
            raise Closed(str(error)) from error
        finally:
            _close_all(descriptors)

    def _with_buffers(self, frame: Frame, descriptors: List[int]) -> List[Bytes]:
        """The parts of a frame, and the memory that goes with it."""
        head = bytearray(_HEAD.pack(
            frame.kind, frame.number, frame.acked, len(frame.buffers), len(frame.body)))
        parts: List[Bytes] = [head, frame.body]
        for buffer in frame.buffers:
            size = memoryview(buffer).nbytes
            is_shared = (self.shares_memory and size >= SHARED_MIN
                         and len(descriptors) < _DESCRIPTORS_MAX)
            if is_shared:
                descriptors.append(_in_memory(buffer))
                head += _LENGTH.pack(size | _SHARED)
            else:
                parts.append(buffer)
                head += _LENGTH.pack(size)
        return parts

    def _send(self, parts: Sequence[Bytes], descriptors: List[int]) -> None:
        left = [memoryview(part).cast("B") for part in parts if memoryview(part).nbytes]
        ancillary = []
        if descriptors:
            rights = array.array("i", descriptors)
            ancillary = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, rights)]
        with self._sending:
            while left:
                sent = self._link.sendmsg(left[:_PARTS_MAX], ancillary)
                ancillary = []
                while left and sent >= len(left[0]):
                    sent -= len(left.pop(0))
                if sent:
                    left[0] = left[0][sent:]

    def receive(self) -> Frame:
        """Waits for the next frame.

        Raises :class:`Closed` when the other end is gone.
        """
        try:
            kind, number, acked, count, size = _HEAD.unpack(self._take(_HEAD.size))
            sizes = self._take(count * _LENGTH.size) if count else b""
            body = self._take(size)
            buffers: List[Bytes] = []
            for (length,) in _LENGTH.iter_unpack(sizes):
                if length & _SHARED:
                    buffers.append(_mapped(self._descriptors.pop(0), length & ~_SHARED))
                else:
                    buffers.append(self._take(length))
            return Frame(kind, number, acked, body, buffers)
        except (OSError, IndexError) as error:
            raise Closed(str(error)) from error

    def has_more(self) -> bool:
        """Whether a frame, or its beginning, was received already."""
        return self._start < self._end

    def _take(self, size: int) -> bytearray:
        if size > _BLOCK_BYTES:
            return self._take_large(size)
        while self._end - self._start < size:
            if self._start:
                left = self._end - self._start
                self._block[:left] = self._block[self._start:self._end]
                self._start, self._end = 0, left
            self._fill()
        taken = bytearray(self._block[self._start:self._start + size])
        self._start += size
        return taken

    def _take_large(self, size: int) -> bytearray:
        data = bytearray(size)
        view, at = memoryview(data), self._end - self._start
        view[:at] = self._block[self._start:self._end]
        self._start = self._end = 0
        # No descriptor is lost here: those of the next frame come with its first byte.
        while at < size:
            got = self._link.recv_into(view[at:], min(size - at, 1 << 24))
            if not got:
                raise Closed("the other end is gone")
            at += got
        return data

    def _fill(self) -> None:
        room = self._block[self._end:]
        if self.shares_memory:
            got, ancillary, _, _ = self._link.recvmsg_into([room], _ROOM_FOR_DESCRIPTORS)
            for level, kind, data in ancillary:
                if (level, kind) == (socket.SOL_SOCKET, socket.SCM_RIGHTS):
                    descriptors = array.array("i")
                    descriptors.frombytes(data[: len(data) - len(data) % descriptors.itemsize])
                    self._descriptors += descriptors
        else:
            got = self._link.recv_into(room)
        if not got:
            raise Closed("the other end is gone")
        self._end += got

    def close(self) -> None:
        """Ends the channel; a thread that receives gets :class:`Closed`."""
        try:
            self._link.shutdown(socket.SHUT_RDWR)
        except OSError:
            pass
        self._link.close()

    def __del__(self) -> None:
        _close_all(self._descriptors)


def _close_all(descriptors: List[int]) -> None:
    while descriptors:
        os.close(descriptors.pop())


def _in_memory(buffer: Bytes) -> int:
    descriptor = os.memfd_create("neronet", os.MFD_CLOEXEC)
    try:
        left = memoryview(buffer).cast("B")
        while left:
            left = left[os.write(descriptor, left):]
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor


def _mapped(descriptor: int, size: int) -> memoryview:
    try:
        return memoryview(mmap.mmap(descriptor, size))
    finally:
        os.close(descriptor)


def own_socket(link: socket.socket) -> bool:
    """Whether the process at the other end of a Unix socket is this user's."""
    peer: Optional[bytes] = link.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12)
    return peer is not None and struct.unpack("3i", peer)[1] == os.getuid()
