"""How what goes between an owner and its workers is pickled: calls, results and exceptions.

Names travel as such, by plain `pickle`. What the other end cannot import (the program's own
functions and classes, lambdas) travels by value, with `cloudpickle`.
"""

import importlib
import pickle
import sys
import traceback
from types import FunctionType
from typing import Any, Dict, Iterable, List, Optional, Tuple

#: Names of the program's module; the second one is that of `multiprocessing`.
_PROGRAMS = ("__main__", "__mp_main__")
#: Stands in each pickle that uses such a module.
_MARK = b"main__"


class RemoteTraceback(Exception):
    """The traceback in the worker; the cause of an exception that came from there."""

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self.text = text

    def __str__(self) -> str:
        return "\n" + self.text


def pack(value: Any, has_program: bool = False) -> Tuple[bytes, List[memoryview]]:
    """The body and the buffers of an object, for :meth:`Frame.load`.

    With ``has_program`` the other end has the program, too, so that names of it travel.

    Raises :class:`pickle.PicklingError` for what cannot be imported at the other end, when there
    is no `cloudpickle`.
    """
    buffers: List[pickle.PickleBuffer] = []
    body = dumps(value, has_program, buffers)
    return body, [buffer.raw() for buffer in buffers]


def dumps(value: Any, has_program: bool = False,
          buffers: Optional[List[pickle.PickleBuffer]] = None) -> bytes:
    """The same; without ``buffers`` all is in the body."""
    out_of_band = None if buffers is None else buffers.append
    failure: Optional[Exception] = None
    try:
        body = pickle.dumps(value, protocol=5, buffer_callback=out_of_band)
        if has_program or _MARK not in body or _unimportable(value, has_program) is None:
            return body
    except Exception as error:
        failure = error
    helper = _cloudpickle()
    if helper is None:
        raise _refusal(value, has_program, failure)
    if buffers is not None:
        buffers.clear()
    program = sys.modules["__main__"]
    if program.__name__ != "__main__" and not has_program:
        # In a process of `multiprocessing` the program has a name that nobody else can import.
        helper.register_pickle_by_value(program)
    by_value: bytes = helper.dumps(_ByValue(value), protocol=5, buffer_callback=out_of_band)
    return by_value


def _refusal(value: Any, has_program: bool, failure: Optional[Exception]) -> Exception:
    name = _unimportable(value, has_program)
    if name is None:
        assert failure is not None
        return failure
    error = pickle.PicklingError(
        "the other end cannot import {!r}: put it into a module that travels (files=…), or install "
        "cloudpickle".format(name))
    error.__cause__ = failure
    return error


class _NotImportable(Exception):
    pass


class _Nowhere:
    """A file that keeps nothing."""

    def write(self, _: Any) -> None:
        """Drops a piece of a pickle."""


class _Names(pickle.Pickler):
    """Looks for what cannot be imported at the other end; the pickle itself is dropped."""

    def __init__(self, has_program: bool) -> None:
        super().__init__(_Nowhere(), protocol=5, buffer_callback=lambda _: None)
        self._has_program = has_program

    def reducer_override(self, value: Any) -> Any:
        """Raises :class:`_NotImportable` at the first."""
        is_named = isinstance(value, (type, FunctionType))
        name = getattr(value, "__qualname__", None) or type(value).__qualname__
        if is_named and "<" in name:
            raise _NotImportable(name)
        # An instance has the module of its class, which comes by itself when the pickle names it.
        is_own = is_named or type(value).__module__ not in _PROGRAMS
        if is_own and not self._has_program and getattr(value, "__module__", None) in _PROGRAMS:
            raise _NotImportable(name)
        return NotImplemented


def _unimportable(value: Any, has_program: bool) -> Optional[str]:
    """The first function or class in an object that the other end cannot import."""
    try:
        _Names(has_program).dump(value)
    except _NotImportable as found:
        return str(found)
    except Exception:
        # Something else cannot be pickled.
        pass
    return None


def _cloudpickle() -> Any:
    try:
        return importlib.import_module("cloudpickle")
    except ImportError:
        return None


class _ByValue:
    """A value that holds code of this Python: an end that cannot read it refuses it, with the
    reason, before it reads the code."""

    def __init__(self, value: Any) -> None:
        self._value = value

    def __reduce__(self) -> Tuple[Any, ...]:
        return _second, (_Check(), self._value)


class _Check:
    def __reduce__(self) -> Tuple[Any, ...]:
        return _check_end, (list(sys.version_info[:2]),)


def _second(_: None, value: Any) -> Any:
    return value


def _check_end(made: List[int]) -> None:
    here = list(sys.version_info[:2])
    if made != here:
        raise RuntimeError(
            "a function or class that is in no module cannot go from Python {} to {}: put it into a "
            "module that travels (files=…), or give the pool python=…".format(
                *(".".join(str(one) for one in version) for version in (made, here))))
    if _cloudpickle() is None:
        raise RuntimeError(
            "a function or class that is in no module came from the other end, and cannot be read "
            "here: put it into a module that travels (files=…), or install cloudpickle")


# Exceptions


def pack_error(error: BaseException, took: float, has_program: bool = False) -> bytes:
    """An exception with its traceback here, and the seconds that its call took."""
    text = "".join(traceback.format_exception(type(error), error, error.__traceback__))
    try:
        pickled = dumps(error, has_program)
        pickle.loads(pickled)
    except BaseException:
        # An exception whose constructor takes other arguments than it keeps cannot travel.
        pickled = pickle.dumps(RuntimeError("{}: {}".format(type(error).__name__, error)))
    return pickle.dumps((took, pickled, text), protocol=5)


def timed_error(body: Any) -> Tuple[float, BaseException]:
    """The time that a call took, and its exception with the traceback there as its cause."""
    took, pickled, text = pickle.loads(body)
    try:
        error: BaseException = pickle.loads(pickled)
    except BaseException:
        # Its class is known there alone.
        error = RuntimeError(text.strip().rpartition("\n")[2])
    error.__cause__ = RemoteTraceback(text)
    return took, error


def error_of(body: bytes) -> BaseException:
    """The exception of one among several calls."""
    try:
        return timed_error(body)[1]
    except BaseException as error:
        return error


# Several results together


class _Pickled:
    """A value that is a pickle of its own: an end that cannot read it reads the others."""

    def __init__(self, body: bytes, buffers: List[Any]) -> None:
        self._body = body
        self._buffers = buffers

    def __reduce__(self) -> Tuple[Any, ...]:
        return _Pickled, (self._body, self._buffers)

    @classmethod
    def of(cls, value: Any, has_program: bool) -> "_Pickled":
        buffers: List[pickle.PickleBuffer] = []
        return cls(dumps(value, has_program, buffers), buffers)

    def load(self) -> Any:
        """The value."""
        return pickle.loads(self._body, buffers=self._buffers)


#: Types whose values each end can read.
_PLAIN = frozenset((int, float, str, bytes, bool, complex, type(None)))


def pack_outcomes(took: float, values: List[Any], errors: Dict[int, BaseException],
                  has_program: bool = False) -> Tuple[bytes, List[memoryview]]:
    """The seconds that several calls took, their values (anything in the place of an exception),
    and their exceptions by index. A value that cannot be pickled, or read at the other end, fails
    its call alone."""
    packed = {at: pack_error(error, 0.0, has_program) for at, error in errors.items()}
    apart = list(values)
    for at, value in enumerate(values):
        if type(value) not in _PLAIN:
            try:
                apart[at] = _Pickled.of(value, has_program)
            except BaseException as error:
                apart[at], packed[at] = None, pack_error(error, 0.0, has_program)
    return pack((took, (apart, packed)), has_program)


def each_outcome(outcomes: Any) -> Iterable[Tuple[Any, Optional[BaseException]]]:
    """Each value with `None`, or `None` with the exception, of what :func:`pack_outcomes` packed
    beside the seconds."""
    values, packed = outcomes
    for at, value in enumerate(values):
        if at in packed:
            yield None, error_of(packed[at])
        elif type(value) is not _Pickled:
            yield value, None
        else:
            try:
                read = value.load()
            except BaseException as error:
                yield None, error
            else:
                yield read, None
