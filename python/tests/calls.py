"""Functions for calls; this file travels to the workers."""

import os
import pickle
import signal
import threading
import time

prepared = []
updates = []


def prepare(*args):
    from neronet import worker

    prepared.append(args)
    worker.on_update(updates.append)


def fail_to_prepare():
    raise RuntimeError("no licence here")


def state():
    return prepared, list(updates)


def where():
    return os.environ.get("NERO_NODE"), os.getpid()


def note(path, item):
    """Appends the item to a file; a call that is executed twice is seen there."""
    with open(path, "a") as file:
        file.write("{}\n".format(item))
    os.chmod(path, 0o666)
    return item


def slow_note(path, item, seconds):
    time.sleep(seconds)
    return note(path, item)


def die_first(path, item):
    """Ends its process the first time."""
    if not os.path.exists(path):
        note(path, item)
        os.kill(os.getpid(), signal.SIGKILL)
    return item


class Odd(Exception):
    """Its constructor takes other arguments than it keeps."""

    def __init__(self, one, two):
        super().__init__("{} and {}".format(one, two))


def odd():
    raise Odd(1, 2)


def unpicklable():
    return threading.Lock()


def noisy(lines):
    for _ in range(lines):
        print("x" * 100)
    return lines


def eat(size):
    return len(bytearray(size))


def length(data):
    return len(data)


def reverse(data):
    return bytearray(reversed(data))


def length_of(buffer):
    return memoryview(buffer).nbytes


def zeros(size):
    return pickle.PickleBuffer(bytearray(size))


def spoil(buffer, seconds):
    """Changes a buffer; returns what was there."""
    time.sleep(seconds)
    was = buffer[0]
    buffer[0] = (was + 1) % 256
    return os.getpid(), was


RAISES, UNPICKLABLE, DIES = 7, 13, 1000


def short(item, bad=0, wait_for=None):
    """Returns the item at once, unless something else is asked for."""
    if bad == RAISES:
        raise ValueError("short")
    if bad == UNPICKLABLE:
        return threading.Lock()
    if bad == DIES:
        os._exit(4)
    while wait_for and not os.path.exists(wait_for):
        time.sleep(0.01)
    return item


class Falsy(Exception):
    """An exception that is false, as a container without items is."""

    def __len__(self):
        return 0


def raise_falsy():
    raise Falsy("falsy")


def words(*args, **kwargs):
    return args, kwargs


def gives(value):
    return value


def after(seconds, value):
    time.sleep(seconds)
    return value


def fork_and_return():
    """A fork that comes back from its call, too."""
    return os.fork()


def processes(count):
    """What processes of a call's own make of it."""
    import multiprocessing

    with multiprocessing.get_context("fork").Pool(2) as pool:
        return pool.map(abs, range(-count, 0))


def segfault():
    import ctypes

    ctypes.string_at(0)


def stubborn(path):
    """Ignores SIGTERM and does not end."""
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    note(path, os.getpid())
    while True:
        time.sleep(1)


def raise_local():
    """An exception whose class nobody else knows."""

    class Local(Exception):
        pass

    raise Local("of the worker alone")


def raises_what_cannot_be_read():
    raise Unreadable("cannot be read")


class Unreadable(Exception):
    def __reduce__(self):
        return _refuse, ()


def _refuse():
    raise KeyError("refused")


class Stranger:
    """Cannot be made from its pickle."""

    def __reduce__(self):
        return _refuse, ()
