"""The forms of ``multiprocessing.Pool``, over the workers of an :class:`Executor`."""

import concurrent.futures
import itertools
import multiprocessing
import threading
from collections import deque
from concurrent.futures import Future
from queue import Empty, SimpleQueue
from typing import (
    Any, Callable, Dict, Iterable, Iterator, List, Optional, Sequence, Tuple, Union,
)

from ._calls import _chunk, _Place
from ._pickling import each_outcome
from .executor import Executor


class AsyncResult:
    """What ``apply_async`` and ``map_async`` return."""

    def __init__(self, futures: "List[Future[Any]]", joined: Callable[[List[Any]], Any],
                 callback: Optional[Callable[[Any], Any]],
                 error_callback: Optional[Callable[[BaseException], Any]]) -> None:
        self._futures = futures
        self._joined = joined
        self._callback = callback
        self._error_callback = error_callback
        self._left = len(futures)
        self._mutex = threading.Lock()
        if not futures:
            self._tell()
        for future in futures:
            future.add_done_callback(self._one_done)

    def _one_done(self, future: "Future[Any]") -> None:
        with self._mutex:
            self._left -= 1
            if self._left:
                return
        self._tell()

    def _tell(self) -> None:
        if self._callback is None and self._error_callback is None:
            return
        try:
            value = self.get()
        except BaseException as error:
            if self._error_callback is not None:
                self._error_callback(error)
            return
        if self._callback is not None:
            self._callback(value)

    def get(self, timeout: Optional[float] = None) -> Any:
        """The result, or the exception; :class:`multiprocessing.TimeoutError` in time."""
        self.wait(timeout)
        if not self.ready():
            raise multiprocessing.TimeoutError
        return self._joined([future.result() for future in self._futures])

    def wait(self, timeout: Optional[float] = None) -> None:
        """Waits until it is ready."""
        concurrent.futures.wait(self._futures, timeout)

    def ready(self) -> bool:
        """Whether the calls are done."""
        return all(future.done() for future in self._futures)

    def successful(self) -> bool:
        """Whether none raised; :class:`ValueError` before it is ready."""
        if not self.ready():
            raise ValueError("{!r} not ready".format(self))
        try:
            self.get()
        except BaseException:
            return False
        return True


class IMapIterator:
    """Results one by one, in the order of their calls; behind an exception come those of the
    other items."""

    def __init__(self, places: Iterable[_Place], are_chunks: bool) -> None:
        # All calls are submitted now.
        self._places = deque(places)
        self._are_chunks = are_chunks
        #: What is left of the last chunk.
        self._outcomes: Iterator[Tuple[Any, Optional[BaseException]]] = iter(())

    def __iter__(self) -> "IMapIterator":
        return self

    def next(self, timeout: Optional[float] = None) -> Any:
        """The next result, or the exception of its item; :class:`multiprocessing.TimeoutError` in
        time, after which it can be asked for again."""
        while True:
            for value, error in self._outcomes:
                if error is not None:
                    raise error
                return value
            result = self._take(timeout).result()
            if not self._are_chunks:
                return result
            self._outcomes = iter(each_outcome(result))

    __next__ = next

    def _take(self, timeout: Optional[float]) -> "Union[Future[Any], _Place]":
        """The next call that is done."""
        if not self._places:
            raise StopIteration
        if not self._places[0].wait(timeout):
            raise multiprocessing.TimeoutError
        return self._places.popleft()


class IMapUnorderedIterator(IMapIterator):
    """The same, in the order in which calls are done."""

    def __init__(self, futures: "List[Future[Any]]", are_chunks: bool) -> None:
        super().__init__((), are_chunks)
        self._done: "SimpleQueue[Future[Any]]" = SimpleQueue()
        self._left = len(futures)
        for future in futures:
            future.add_done_callback(self._done.put)

    def _take(self, timeout: Optional[float]) -> "Union[Future[Any], _Place]":
        if not self._left:
            raise StopIteration
        try:
            future = self._done.get(timeout=None if timeout is None else max(0.0, timeout))
        except Empty:
            raise multiprocessing.TimeoutError from None
        self._left -= 1
        return future


class Pool:
    """``multiprocessing.Pool`` with workers on every node.

    Takes the words of :class:`neronet.Executor` besides those of the original.
    """

    def __init__(self, processes: Optional[int] = None,
                 initializer: Optional[Callable[..., Any]] = None,
                 initargs: Sequence[Any] = (), **words: Any) -> None:
        self._executor = Executor(processes, init=initializer, initargs=initargs, **words)
        self._is_closed = False

    def _submit(self, function: Callable[..., Any], *args: Any) -> "Future[Any]":
        if self._is_closed:
            raise ValueError("Pool not running")
        return self._executor.submit(function, *args)

    def apply(self, func: Callable[..., Any], args: Sequence[Any] = (),
              kwds: Optional[Dict[str, Any]] = None) -> Any:
        """``func(*args, **kwds)`` in a worker."""
        return self.apply_async(func, args, kwds).get()

    def apply_async(self, func: Callable[..., Any], args: Sequence[Any] = (),
                    kwds: Optional[Dict[str, Any]] = None,
                    callback: Optional[Callable[[Any], Any]] = None,
                    error_callback: Optional[Callable[[BaseException], Any]] = None
                    ) -> AsyncResult:
        """The same, without waiting."""
        if self._is_closed:
            raise ValueError("Pool not running")
        future = self._executor.submit_with(func, args, kwds)
        return AsyncResult([future], lambda values: values[0], callback, error_callback)

    def map(self, func: Callable[..., Any], iterable: Iterable[Any],
            chunksize: Optional[int] = None) -> List[Any]:
        """Results in the order of the items."""
        result: List[Any] = self.map_async(func, iterable, chunksize).get()
        return result

    def map_async(self, func: Callable[..., Any], iterable: Iterable[Any],
                  chunksize: Optional[int] = None,
                  callback: Optional[Callable[[Any], Any]] = None,
                  error_callback: Optional[Callable[[BaseException], Any]] = None) -> AsyncResult:
        """The same, without waiting."""
        return self._many(func, [(item,) for item in iterable], chunksize, callback,
                          error_callback)

    def starmap(self, func: Callable[..., Any], iterable: Iterable[Sequence[Any]],
                chunksize: Optional[int] = None) -> List[Any]:
        """As :meth:`map`, each item being the arguments."""
        result: List[Any] = self.starmap_async(func, iterable, chunksize).get()
        return result

    def starmap_async(self, func: Callable[..., Any], iterable: Iterable[Sequence[Any]],
                      chunksize: Optional[int] = None,
                      callback: Optional[Callable[[Any], Any]] = None,
                      error_callback: Optional[Callable[[BaseException], Any]] = None
                      ) -> AsyncResult:
        """The same, without waiting."""
        return self._many(func, [tuple(item) for item in iterable], chunksize, callback,
                          error_callback)

    def _many(self, func: Callable[..., Any], items: List[Any], chunksize: Optional[int],
              callback: Optional[Callable[[Any], Any]],
              error_callback: Optional[Callable[[BaseException], Any]]) -> AsyncResult:
        if chunksize is None:
            # As the original: four chunks for each worker.
            chunksize = max(1, -(-len(items) // (4 * max(1, len(self._executor.runs)))))
        futures = [self._submit(_chunk, func, items[at:at + chunksize], False)
                   for at in range(0, len(items), chunksize)]
        return AsyncResult(futures, _joined, callback, error_callback)

    def imap(self, func: Callable[..., Any], iterable: Iterable[Any],
             chunksize: int = 1) -> "IMapIterator":
        """Results in the order of the items, as they come."""
        if self._is_closed:
            raise ValueError("Pool not running")
        if chunksize < 1:
            raise ValueError("Chunksize must be 1+, not {}".format(chunksize))
        places = self._executor._places(func, zip(iterable), chunksize, True)
        return IMapIterator(places, chunksize > 1)

    def imap_unordered(self, func: Callable[..., Any], iterable: Iterable[Any],
                       chunksize: int = 1) -> "IMapUnorderedIterator":
        """Results in the order in which they come."""
        if chunksize < 1:
            raise ValueError("Chunksize must be 1+, not {}".format(chunksize))
        items = zip(iterable)
        if chunksize == 1:
            futures = [self._submit(func, *args) for args in items]
        else:
            chunks = iter(lambda: list(itertools.islice(items, chunksize)), [])
            futures = [self._submit(_chunk, func, chunk, True) for chunk in chunks]
        return IMapUnorderedIterator(futures, chunksize > 1)

    def close(self) -> None:
        """Takes no more calls; those that were taken are done."""
        self._is_closed = True

    def terminate(self) -> None:
        """Ends the workers at once."""
        self._is_closed = True
        self._executor.terminate()

    def join(self) -> None:
        """Waits for the end of all calls, and ends the workers."""
        if not self._is_closed:
            raise ValueError("Pool is still running")
        self._executor.shutdown(wait=True)

    def __enter__(self) -> "Pool":
        return self

    def __exit__(self, *_: Any) -> None:
        self.terminate()


def _joined(parts: List[Any]) -> List[Any]:
    values: List[Any] = []
    for part in parts:
        for value, error in each_outcome(part):
            if error is not None:
                raise error
            values.append(value)
    return values
