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
        self._shares_memory = shares_memory and hasattr(os, "memfd_create")
        self._sending = threading.Lock()

    def send(
        self, kind: int, number: int = 0, acked: int = 0, body: Bytes = b"",
        buffers: Sequence[Bytes] = (),
    ) -> None:
        """Sends one frame.

        Raises :class:`Closed` when the other end is gone.
        """
        head = bytearray(_HEAD.pack(kind, number, acked, len(buffers), len(body)))
        parts: List[Bytes] = [head, body]
        descriptors: List[int] = []
        try:
            for buffer in buffers:
                size = memoryview(buffer).nbytes
                if (self._shares_memory and size >= SHARED_MIN
                        and len(descriptors) < _DESCRIPTORS_MAX):
                    descriptors.append(_in_memory(buffer))
                    head += _LENGTH.pack(size | _SHARED)
                else:
                    parts.append(buffer)
                    head += _LENGTH.pack(size)
            with self._sending:
                self._send_all(parts, descriptors)
        except OSError as error:
            raise Closed(str(error)) from error
        finally:
            for descriptor in descriptors:
                os.close(descriptor)

    def _send_all(self, parts: Sequence[Bytes], descriptors: List[int]) -> None:
        left = [memoryview(part).cast("B") for part in parts if memoryview(part).nbytes]
        ancillary = []
        if descriptors:
            rights = array.array("i", descriptors)
            ancillary = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, rights)]
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
            head, descriptors = self._head()
        except OSError as error:
            raise Closed(str(error)) from error
        try:
            kind, number, acked, count, size = _HEAD.unpack(head)
            sizes = memoryview(self._exactly(count * _LENGTH.size)).cast("Q") if count else ()
            body = self._exactly(size)
            buffers: List[Bytes] = []
            for length in sizes:
                if length & _SHARED:
                    buffers.append(_mapped(descriptors.pop(0), length & ~_SHARED))
                else:
                    buffers.append(self._exactly(length))
            return Frame(kind, number, acked, body, buffers)
        except OSError as error:
            raise Closed(str(error)) from error
        finally:
            for descriptor in descriptors:
                os.close(descriptor)

    def _head(self) -> Tuple[bytes, List[int]]:
        if not self._shares_memory:
            return bytes(self._exactly(_HEAD.size)), []
        room = socket.CMSG_LEN(_DESCRIPTORS_MAX * array.array("i").itemsize)
        head, ancillary, _, _ = self._link.recvmsg(_HEAD.size, room)
        descriptors = array.array("i")
        for level, kind, data in ancillary:
            if (level, kind) == (socket.SOL_SOCKET, socket.SCM_RIGHTS):
                descriptors.frombytes(data[: len(data) - len(data) % descriptors.itemsize])
        if not head:
            raise Closed("the other end is gone")
        rest = self._exactly(_HEAD.size - len(head))
        return head + bytes(rest), list(descriptors)

    def _exactly(self, size: int) -> bytearray:
        data = bytearray(size)
        view, at = memoryview(data), 0
        while at < size:
            got = self._link.recv_into(view[at:], min(size - at, 1 << 24))
            if not got:
                raise Closed("the other end is gone")
            at += got
        return data

    def close(self) -> None:
        """Ends the channel; a thread that receives gets :class:`Closed`."""
        try:
            self._link.shutdown(socket.SHUT_RDWR)
        except OSError:
            pass
        self._link.close()


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
