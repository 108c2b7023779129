"""Neronet from Python: steer experiments, and report metrics from inside of them.

>>> import neronet
>>> nn = neronet.connect()
>>> nn.add("sweep/")
>>> nn.start("all")
>>> nn.wait("all")
>>> nn.results("all", best="min:loss")

Inside of a job: ``neronet.log(loss=0.3, step=10)`` and ``neronet.run``.
"""

from typing import TYPE_CHECKING, Any

from ._log import log as log
from .run import run as run

if TYPE_CHECKING:
    from .client import (
        Answer as Answer,
        Client as Client,
        Experiments as Experiments,
        Series as Series,
        Started as Started,
        connect as connect,
    )
    from .errors import (
        BadInput as BadInput,
        DaemonUnreachable as DaemonUnreachable,
        Failed as Failed,
        InternalError as InternalError,
        Interrupted as Interrupted,
        NeronetError as NeronetError,
        NodeUnreachable as NodeUnreachable,
        ProgramMissing as ProgramMissing,
    )
    from .executor import (
        Constant as Constant,
        Executor as Executor,
        PoolBroken as PoolBroken,
        WorkerDied as WorkerDied,
    )
    from .pool import Pool as Pool
    from .table import Table as Table

__version__ = "0.1.0"

_HOMES = {
    "Answer": "client",
    "Client": "client",
    "Experiments": "client",
    "Series": "client",
    "Started": "client",
    "connect": "client",
    "Constant": "executor",
    "Executor": "executor",
    "Pool": "pool",
    "PoolBroken": "executor",
    "WorkerDied": "executor",
    "BadInput": "errors",
    "DaemonUnreachable": "errors",
    "Failed": "errors",
    "InternalError": "errors",
    "Interrupted": "errors",
    "NeronetError": "errors",
    "NodeUnreachable": "errors",
    "ProgramMissing": "errors",
    "Table": "table",
}

__all__ = ["log", "run"] + sorted(_HOMES)


def __getattr__(name: str) -> Any:
    # A job imports the package for `log` alone; the rest is loaded when it is used.
    if name not in _HOMES:
        raise AttributeError("module 'neronet' has no attribute {!r}".format(name))
    from importlib import import_module

    return getattr(import_module("neronet." + _HOMES[name]), name)
