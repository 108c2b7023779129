"""Frames between the owner of an executor and its workers.

A frame is a header, the lengths of its buffers, a body, and the buffers. Body and buffers are
pickle 5 with buffers out of band. On one machine what has ``SHARED_MIN`` bytes and more is
handed over as memory; it is not copied through the socket.
"""

import array
import os
import pickle
import select
import socket
import struct
import threading
from typing import Any, List, NamedTuple, Optional, Sequence, Tuple, Union

from . import _memory
from ._memory import Bytes, Memory

# Kinds, from the owner
HELLO, CALL, RECALL, ACK, UPDATE, CONSTANT, LEAVE, CONSTANT_AT, CALLS = 1, 2, 3, 4, 5, 6, 7, 8, 9
# Kinds, from a worker
WELCOME, RESULT, ERROR, RECALLED, PREPARED, UNPREPARED, MISSING, RESULTS = 65, 66, 67, 68, 69, 70, 71, 72
# Kinds, from either end, about memory: numbers whose views ended, that somebody else may see,
# and that are given up by their sender.
_RETURNED, _DROPPED, _GIVEN_UP = 32, 33, 34
_ABOUT_MEMORY = (_RETURNED, _DROPPED, _GIVEN_UP)
#: Set in the kind when the last buffer is the body.
_BODY_IS_LAST = 0x80

#: Kind, number of the call, the last result that arrived, buffers, bytes of the body.
_HEAD = struct.Struct("<BQQIQ")
#: Of a buffer: bytes with the bits below, number of its memory.
_LENGTH = struct.Struct("<QQ")
#: Bits of a buffer that travels as memory, of one that comes with a descriptor, and of one that
#: each receiver may change for itself.
_SHARED, _NEW, _PRIVATE = 1 << 63, 1 << 62, 1 << 61
_SIZE = (1 << 61) - 1
#: Bytes from which a buffer travels as memory.
SHARED_MIN = 1 << 20
#: Descriptors in one message.
_DESCRIPTORS_MAX = 64
#: Parts of one system call.
_PARTS_MAX = 512
#: Bytes that are received at once.
_BLOCK_BYTES = 1 << 16
_ROOM_FOR_DESCRIPTORS = socket.CMSG_LEN(_DESCRIPTORS_MAX * array.array("i").itemsize)

Buffer = Union[Bytes, Memory]


class Frame(NamedTuple):
    """One frame. ``buffers`` may be memory of the sender."""

    kind: int
    number: int
    acked: int
    body: Buffer
    buffers: Sequence[Buffer]

    def load(self) -> Any:
        """The object in it."""
        return pickle.loads(_seen(self.body), buffers=[_seen(one) for one in self.buffers])


def pack(value: Any, dumps: Any = pickle.dumps) -> Tuple[bytes, List[memoryview]]:
    """The body and the buffers of an object."""
    buffers: List[pickle.PickleBuffer] = []
    body = dumps(value, protocol=5, buffer_callback=buffers.append)
    return body, [buffer.raw() for buffer in buffers]


def kept(body: Bytes, buffers: Sequence[Bytes]) -> Tuple[Buffer, List[Buffer]]:
    """A copy of what :func:`pack` returned, which the object's changes do not reach."""
    return _copied(body), [_copied(buffer) for buffer in buffers]


def size_of(buffer: Buffer) -> int:
    """Its bytes."""
    return buffer.size if isinstance(buffer, Memory) else memoryview(buffer).nbytes


def _copied(buffer: Bytes) -> Buffer:
    if memoryview(buffer).nbytes >= SHARED_MIN and _memory.is_usable():
        try:
            return Memory(buffer)
        except OSError:
            pass
    return bytes(buffer)


def _seen(buffer: Buffer) -> Bytes:
    return buffer.view() if isinstance(buffer, Memory) else buffer


class Closed(ConnectionError):
    """The other end is gone."""


class Channel:
    """A socket for frames. Any thread may send; one thread receives."""

    def __init__(self, link: socket.socket, shares_memory: bool) -> None:
        self._link = link
        self.shares_memory = shares_memory and _memory.is_usable()
        self._sending = threading.Lock()
        self._lender = _memory.Lender()
        self._borrower = _memory.Borrower()
        self._incoming = select.poll()
        self._incoming.register(link, select.POLLIN)
        #: What was received and not taken yet: `_block[_start:_end]`.
        self._block = memoryview(bytearray(_BLOCK_BYTES))
        self._start = 0
        self._end = 0
        self._descriptors: List[int] = []

    def send(
        self, kind: int, number: int = 0, acked: int = 0, body: Buffer = b"",
        buffers: Sequence[Buffer] = (),
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
        if self._borrower.returned or self._borrower.dropped:
            sent = self._about_memory() + list(sent)
        try:
            for frame in sent:
                body = frame.body
                if not frame.buffers and not isinstance(body, Memory):
                    size = len(body)
                    if size < SHARED_MIN or not self.shares_memory:
                        head = _HEAD.pack(frame.kind, frame.number, frame.acked, 0, size)
                        parts.append(head + body if size < 4096 else head)
                        if size >= 4096:
                            parts.append(body)
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

    def tidy(self) -> None:
        """Sends what is to be told about memory, and gives up what was idle for long."""
        told = self._about_memory() if self._borrower.returned or self._borrower.dropped else []
        idle = self._lender.idle()
        if idle:
            told.append(_numbered(_GIVEN_UP, idle))
        if told:
            self.send_all(told)

    def _about_memory(self) -> List[Frame]:
        told = []
        for kind, ended in ((_RETURNED, self._borrower.returned),
                            (_DROPPED, self._borrower.dropped)):
            numbers = []
            while ended:
                numbers.append(ended.popleft())
            if numbers:
                told.append(_numbered(kind, numbers))
        return told

    def _with_buffers(self, frame: Frame, descriptors: List[int]) -> List[Bytes]:
        """The parts of a frame, and the memory that goes with it."""
        kind, body, buffers = frame.kind, frame.body, list(frame.buffers)
        if isinstance(body, Memory) or (self.shares_memory and len(body) >= SHARED_MIN):
            kind |= _BODY_IS_LAST
            buffers.append(body)
            body = b""
        head = bytearray(_HEAD.pack(kind, frame.number, frame.acked, len(buffers), len(body)))
        parts: List[Bytes] = [head, body]
        for buffer in buffers:
            size, shared, number = size_of(buffer), 0, 0
            if (self.shares_memory and size >= SHARED_MIN
                    and len(descriptors) < _DESCRIPTORS_MAX):
                try:
                    shared, number = self._handed_over(buffer, descriptors)
                except OSError:
                    # Without memory to hand over it goes through the socket.
                    pass
            if not shared:
                parts.append(_seen(buffer))
            head += _LENGTH.pack(size | shared, number)
        return parts

    def _handed_over(self, buffer: Buffer, descriptors: List[int]) -> Tuple[int, int]:
        if isinstance(buffer, Memory):
            descriptors.append(os.dup(buffer.descriptor))
            return _SHARED | _NEW | _PRIVATE, 0
        number, descriptor = self._lender.lend(buffer)
        if descriptor is None:
            return _SHARED, number
        descriptors.append(descriptor)
        return _SHARED | _NEW, number

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
        while True:
            frame = self.receive_one()
            if frame is not None:
                return frame

    def receive_one(self) -> Optional[Frame]:
        """The same; `None` for a frame about memory, which is done already."""
        try:
            frame = self._received()
            if frame.kind not in _ABOUT_MEMORY:
                return frame
            numbers = array.array("Q")
            numbers.frombytes(_seen(frame.body))
            if frame.kind == _RETURNED:
                self._lender.returned(numbers.tolist())
            elif frame.kind == _DROPPED:
                self._lender.dropped(numbers.tolist())
            else:
                self._borrower.forget(numbers.tolist())
            return None
        except (OSError, IndexError, KeyError) as error:
            raise Closed(str(error)) from error

    def _received(self) -> Frame:
        kind, number, acked, count, size = _HEAD.unpack(self._take(_HEAD.size))
        if not count:
            return Frame(kind, number, acked, self._take(size), ())
        sizes = self._take(count * _LENGTH.size)
        body: Bytes = self._take(size)
        buffers: List[Bytes] = []
        for length, memory in _LENGTH.iter_unpack(sizes):
            if length & _SHARED:
                buffers.append(self._borrowed(length, memory))
            else:
                buffers.append(self._take(length))
        if kind & _BODY_IS_LAST:
            kind, body = kind & ~_BODY_IS_LAST, buffers.pop()
        return Frame(kind, number, acked, body, buffers)

    def _borrowed(self, length: int, number: int) -> memoryview:
        if not length & _NEW:
            return self._borrower.view(number, length & _SIZE, None)
        descriptor = self._descriptors.pop(0)
        try:
            if length & _PRIVATE:
                return _memory.private(descriptor, length & _SIZE)
            return self._borrower.view(number, length & _SIZE, descriptor)
        finally:
            os.close(descriptor)

    def wait(self, seconds: float) -> bool:
        """Waits until there is something to receive, or the other end is gone; false when neither
        came in time."""
        return self._start < self._end or bool(self._incoming.poll(seconds * 1000))

    def has_more(self) -> bool:
        """Whether the beginning of a frame that :meth:`receive` returns was received already."""
        return (self._end - self._start >= _HEAD.size
                and self._block[self._start] not in _ABOUT_MEMORY)

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
        self._lender.close()
        self._borrower.close()

    def part(self) -> None:
        """Closes this process' end; those of others stay open."""
        self._link.close()

    def __del__(self) -> None:
        _close_all(self._descriptors)


def _close_all(descriptors: List[int]) -> None:
    while descriptors:
        os.close(descriptors.pop())


def _numbered(kind: int, numbers: List[int]) -> Frame:
    return Frame(kind, 0, 0, array.array("Q", numbers).tobytes(), ())


def own_socket(link: socket.socket) -> bool:
    """Whether the process at the other end of a Unix socket is this user's."""
    peer: Optional[bytes] = link.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12)
    return peer is not None and struct.unpack("3i", peer)[1] == os.getuid()
