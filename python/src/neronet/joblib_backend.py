"""The backend ``neronet`` of joblib::

    import neronet.joblib_backend
    with joblib.parallel_config("neronet", n_jobs=16):
        ...

Words of :class:`neronet.Executor` are given behind ``n_jobs``.
"""

from typing import Any, Callable, Optional

from joblib import register_parallel_backend
from joblib.parallel import AutoBatchingMixin, ParallelBackendBase

from .executor import Executor


class NeronetBackend(AutoBatchingMixin, ParallelBackendBase):
    """Batches of joblib are calls of an executor."""

    supports_retrieve_callback = True
    uses_threads = False
    supports_sharedmem = False

    def __init__(self, nesting_level: Optional[int] = None, inner_max_num_threads: Any = None,
                 **words: Any) -> None:
        super().__init__(nesting_level=nesting_level, inner_max_num_threads=inner_max_num_threads)
        self._words = words
        self._executor: Optional[Executor] = None

    def effective_n_jobs(self, n_jobs: Optional[int]) -> int:
        """How many workers there are; -1 is as many as fit."""
        if n_jobs == 0:
            raise ValueError("n_jobs == 0 in Parallel has no meaning")
        if self._executor is not None:
            return len(self._executor.runs)
        return n_jobs if n_jobs is not None and n_jobs > 0 else 2

    def configure(self, n_jobs: int = 1, parallel: Any = None, **_: Any) -> int:
        """Starts the workers."""
        self.parallel = parallel
        self._executor = Executor(n_jobs if n_jobs > 0 else None, **self._words)
        return self.effective_n_jobs(n_jobs)

    def submit(self, func: Callable[..., Any], callback: Optional[Callable[..., Any]] = None
               ) -> Any:
        """Has a batch executed."""
        assert self._executor is not None
        future = self._executor.submit(func)
        if callback is not None:
            future.add_done_callback(callback)
        return future

    def apply_async(self, func: Callable[..., Any],
                    callback: Optional[Callable[..., Any]] = None) -> Any:
        """The name of :meth:`submit` in older versions."""
        return self.submit(func, callback)

    def retrieve_result_callback(self, out: Any) -> Any:
        """The results of a batch."""
        return out.result()

    def terminate(self) -> None:
        """Ends the workers."""
        executor, self._executor = self._executor, None
        if executor is not None:
            executor.shutdown(wait=True, cancel_futures=True)

    def abort_everything(self, ensure_ready: bool = True) -> None:
        """Ends the workers at once; with ``ensure_ready`` new ones are started."""
        executor, self._executor = self._executor, None
        if executor is not None:
            count = len(executor.runs)
            executor.terminate()
            if ensure_ready:
                self.configure(n_jobs=count, parallel=self.parallel)


register_parallel_backend("neronet", NeronetBackend)
