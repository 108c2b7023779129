"""The forms of ``multiprocessing.Pool``, over the workers of an :class:`Executor`."""

import concurrent.futures
import itertools
import multiprocessing
import threading
from concurrent.futures import Future
from typing import Any, Callable, Dict, Iterable, Iterator, List, Optional, Sequence

from ._calls import _chunk
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
        futures = [self._submit(_chunk, func, items[at:at + chunksize])
                   for at in range(0, len(items), chunksize)]
        return AsyncResult(futures, _joined, callback, error_callback)

    def imap(self, func: Callable[..., Any], iterable: Iterable[Any],
             chunksize: int = 1) -> Iterator[Any]:
        """Results in the order of the items, as they come."""
        if self._is_closed:
            raise ValueError("Pool not running")
        if chunksize < 1:
            raise ValueError("Chunksize must be 1+, not {}".format(chunksize))
        return self._executor.map(func, iterable, chunksize=chunksize)

    def imap_unordered(self, func: Callable[..., Any], iterable: Iterable[Any],
                       chunksize: int = 1) -> Iterator[Any]:
        """Results in the order in which they come."""
        if chunksize < 1:
            raise ValueError("Chunksize must be 1+, not {}".format(chunksize))
        items = iter(iterable)
        chunks = iter(lambda: [(item,) for item in itertools.islice(items, chunksize)], [])
        futures = [self._submit(_chunk, func, chunk) for chunk in chunks]
        return self._as_they_come(futures)

    @staticmethod
    def _as_they_come(futures: "List[Future[Any]]") -> Iterator[Any]:
        for future in concurrent.futures.as_completed(futures):
            values, error = future.result()
            yield from values
            if error is not None:
                raise error

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
    for some, error in parts:
        if error is not None:
            raise error
        values += some
    return values
