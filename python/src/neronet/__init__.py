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
    from .client import Answer, Client, Experiments, Series, Started, connect
    from .errors import (
        BadInput,
        DaemonUnreachable,
        Failed,
        InternalError,
        Interrupted,
        NeronetError,
        NodeUnreachable,
        ProgramMissing,
    )
    from .executor import Constant, Executor, PoolBroken, WorkerDied
    from .pool import Pool
    from .table import Table

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
