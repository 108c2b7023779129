"""Private folders that go with their process: after ``kill -9`` when the next one is made."""

import fcntl
import os
import shutil
import stat
import tempfile
from typing import IO, Tuple

#: Held by the process that a folder belongs to.
_LOCK = "lock"


def make(prefix: str) -> Tuple[str, IO[bytes]]:
    """A folder, and the file that keeps it from being taken as left as long as it is open."""
    _remove_left(prefix)
    while True:
        folder = tempfile.mkdtemp(prefix=prefix)
        lock = open(os.path.join(folder, _LOCK), "xb")
        try:
            fcntl.flock(lock, fcntl.LOCK_EX)
        except OSError:
            # A disk without locks, on which no folder is taken as left.
            return folder, lock
        # Another process may have found the lock free meanwhile.
        if os.fstat(lock.fileno()).st_nlink:
            return folder, lock
        lock.close()


def _remove_left(prefix: str) -> None:
    place = tempfile.gettempdir()
    try:
        names = os.listdir(place)
    except OSError:
        return
    for name in names:
        folder = os.path.join(place, name)
        if name.startswith(prefix) and _is_left(folder):
            shutil.rmtree(folder, ignore_errors=True)


def _is_left(folder: str) -> bool:
    try:
        found = os.lstat(folder)
        if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.geteuid():
            return False
        lock = os.open(os.path.join(folder, _LOCK), os.O_RDWR | os.O_NOFOLLOW)
    except OSError:
        return False
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        return True
    except OSError:
        return False
    finally:
        os.close(lock)
