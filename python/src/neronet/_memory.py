"""Memory that large buffers travel in between processes of one machine.

A sender lends memory and uses it again when the receiver has no view of it any more: fresh
pages cost many times the copy. What is given for good, as constants are, is mapped privately.
"""

import itertools
import mmap
import os
import threading
import time
import weakref
from collections import deque
from typing import Any, Deque, Dict, List, Optional, Set, Tuple, Union

Bytes = Union[bytes, bytearray, memoryview]

#: Bytes that one sender lends and keeps for use again; beyond that memory is used once.
KEPT_MAX = 512 << 20
#: The same as pieces, each of which is an open file.
PIECES_MAX = 32
#: Seconds after which memory that is not lent is given up.
IDLE_MAX = 5.0

#: Forks of this process: a child may see memory that was lent before.
_forks = 0


def _forked() -> None:
    global _forks
    _forks += 1


os.register_at_fork(after_in_parent=_forked, after_in_child=_forked)


def is_usable() -> bool:
    """Whether this system and this interpreter can hand memory over."""
    try:
        return hasattr(os, "memfd_create") and _libc() is not None
    except (ImportError, OSError, AttributeError):
        return False


_loaded: Any = None


def _libc() -> Any:
    """mmap without a descriptor: Python's own keeps one open for each mapping."""
    global _loaded
    if _loaded is None:
        import ctypes

        libc = ctypes.CDLL(None, use_errno=True)
        libc.mmap.restype = ctypes.c_void_p
        libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int,
                              ctypes.c_int, ctypes.c_long]
        libc.munmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t]
        _loaded = (ctypes, libc)
    return _loaded


def _mapped(descriptor: int, size: int, flags: int) -> int:
    ctypes, libc = _libc()
    address = libc.mmap(None, size, mmap.PROT_READ | mmap.PROT_WRITE, flags, descriptor, 0)
    if address in (None, ctypes.c_void_p(-1).value):
        raise OSError(ctypes.get_errno(), "cannot map memory")
    return int(address)


def _unmapped(address: int, size: int) -> None:
    _libc()[1].munmap(address, size)


def _viewed(address: int, size: int, ended: Any, *args: Any) -> memoryview:
    """A view of mapped memory; ``ended`` is called when nothing refers to it any more."""
    array = (_libc()[0].c_char * size).from_address(address)
    # At the end of the interpreter views may outlive this module.
    weakref.finalize(array, ended, *args).atexit = False
    return memoryview(array).cast("B")


def private(descriptor: int, size: int) -> memoryview:
    """A view whose changes nobody else sees."""
    address = _mapped(descriptor, size, mmap.MAP_PRIVATE)
    return _viewed(address, size, _unmapped, address, size)


def _written(descriptor: int, buffer: Bytes) -> None:
    left, at = memoryview(buffer).cast("B"), 0
    while at < len(left):
        at += os.pwrite(descriptor, left[at:], at)


class Memory:
    """A copy of a buffer, in memory that is handed over any number of times."""

    def __init__(self, buffer: Bytes) -> None:
        self.size = memoryview(buffer).nbytes
        self.descriptor = os.memfd_create("neronet", os.MFD_CLOEXEC)
        _written(self.descriptor, buffer)

    def view(self) -> memoryview:
        """A view whose changes nobody else sees."""
        return private(self.descriptor, self.size)

    def __del__(self) -> None:
        if hasattr(self, "descriptor"):
            os.close(self.descriptor)


class _Piece:
    """Memory of a sender."""

    __slots__ = ("number", "descriptor", "room", "since")

    def __init__(self, number: int, descriptor: int, room: int) -> None:
        self.number = number
        self.descriptor = descriptor
        self.room = room
        self.since = 0.0


class Lender:
    """What one end of a channel has lent to the other, and what came back."""

    def __init__(self) -> None:
        self._mutex = threading.Lock()
        self._numbers = itertools.count(1)
        self._free: List[_Piece] = []
        self._lent: Dict[int, _Piece] = {}
        self._kept = 0

    def lend(self, buffer: Bytes) -> Tuple[int, Optional[int]]:
        """Copies a buffer; returns the memory's number and, where the receiver does not know it
        yet, a descriptor for it. Number 0 is memory that does not come back.

        Raises :class:`OSError` when there is no memory.
        """
        size = memoryview(buffer).nbytes
        with self._mutex:
            fitting = [piece for piece in self._free if size <= piece.room <= 4 * size]
            piece = min(fitting, key=lambda one: one.room) if fitting else None
            if piece is not None:
                self._free.remove(piece)
                self._lent[piece.number] = piece
        if piece is not None:
            _written(piece.descriptor, buffer)
            return piece.number, None
        descriptor = os.memfd_create("neronet", os.MFD_CLOEXEC)
        try:
            _written(descriptor, buffer)
            with self._mutex:
                pieces = len(self._free) + len(self._lent)
                if self._kept + size > KEPT_MAX or pieces >= PIECES_MAX:
                    return 0, descriptor
                piece = _Piece(next(self._numbers), os.dup(descriptor), size)
                self._lent[piece.number] = piece
                self._kept += size
            return piece.number, descriptor
        except BaseException:
            os.close(descriptor)
            raise

    def returned(self, numbers: List[int]) -> None:
        """Takes back what the receiver does not see any more."""
        with self._mutex:
            for number in numbers:
                piece = self._lent.pop(number, None)
                if piece is not None:
                    piece.since = time.monotonic()
                    self._free.append(piece)

    def dropped(self, numbers: List[int]) -> None:
        """Gives up what somebody beside the receiver may see."""
        with self._mutex:
            for number in numbers:
                self._given_up(self._lent.pop(number, None))

    def idle(self) -> List[int]:
        """Gives up what was not lent for long; returns its numbers."""
        if not self._free:
            return []
        with self._mutex:
            limit = time.monotonic() - IDLE_MAX
            old = [piece for piece in self._free if piece.since < limit]
            self._free = [piece for piece in self._free if piece.since >= limit]
            for piece in old:
                self._given_up(piece)
        return [piece.number for piece in old]

    def _given_up(self, piece: Optional[_Piece]) -> None:
        if piece is not None:
            self._kept -= piece.room
            os.close(piece.descriptor)

    def close(self) -> None:
        """Gives up everything; what the receiver sees stays there."""
        with self._mutex:
            for piece in self._free + list(self._lent.values()):
                self._given_up(piece)
            self._free, self._lent = [], {}


class Borrower:
    """What one end of a channel sees of the other's memory.

    Views end in any thread and within any code, so nothing here takes a lock.
    """

    def __init__(self) -> None:
        self._mapped: Dict[int, Tuple[int, int]] = {}
        self._seen: Set[int] = set()
        self._process = os.getpid()
        self._is_closed = False
        self.returned: Deque[int] = deque()
        self.dropped: Deque[int] = deque()

    def view(self, number: int, size: int, descriptor: Optional[int]) -> memoryview:
        """A view of memory that was lent; the descriptor is that of new memory."""
        if descriptor is not None:
            room = os.fstat(descriptor).st_size
            flags = mmap.MAP_SHARED | getattr(mmap, "MAP_POPULATE", 0x8000)
            address = _mapped(descriptor, room, flags)
            if not number:
                return _viewed(address, size, _unmapped, address, room)
            self._mapped[number] = address, room
        address, _ = self._mapped[number]
        self._seen.add(number)
        return _viewed(address, size, self._ended, number, _forks)

    def _ended(self, number: int, forks: int) -> None:
        if os.getpid() != self._process:
            return
        self._seen.discard(number)
        if self._is_closed:
            self.forget([number])
        elif forks != _forks:
            self.forget([number])
            self.dropped.append(number)
        else:
            self.returned.append(number)

    def forget(self, numbers: List[int]) -> None:
        """Unmaps what nothing sees."""
        for number in numbers:
            place = self._mapped.pop(number, None)
            if place is not None:
                _unmapped(*place)

    def close(self) -> None:
        """Unmaps what nothing sees, and the rest as soon as nothing sees it."""
        self._is_closed = True
        self.forget([number for number in list(self._mapped) if number not in self._seen])
