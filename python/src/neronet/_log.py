"""``neronet.log``: metrics of the run that executes this program."""

import json
import os
from typing import Any, Dict, Optional

_FLAGS = os.O_WRONLY | os.O_APPEND | os.O_CREAT | getattr(os, "O_CLOEXEC", 0)
_encode = json.JSONEncoder(separators=(",", ":"), check_circular=False, allow_nan=True).encode
#: Variables with the number of this process among those of one run, by launcher.
_RANKS = ("RANK", "OMPI_COMM_WORLD_RANK", "PMI_RANK", "PMIX_RANK", "SLURM_PROCID")

_file: Optional[int] = None
_suffix = ""
_is_open = False


def _open() -> None:
    global _file, _suffix, _is_open
    _is_open = True
    path = os.environ.get("NERO_METRICS")
    if not path:
        return
    try:
        _file = os.open(path, _FLAGS, 0o600)
    except OSError:
        # The folder of a run that was ended and cleaned is gone. A program that runs on
        # must not fail for its metrics.
        return
    rank = next((os.environ[name] for name in _RANKS if name in os.environ), "0")
    _suffix = "[{}]".format(rank) if rank.isdigit() and int(rank) > 0 else ""


def _number(value: Any) -> float:
    """A number of any library; its text where it is none."""
    item = getattr(value, "item", None)
    return float(item() if item is not None else value)


def log(values: Optional[Dict[str, Any]] = None, step: Optional[float] = None, **more: Any) -> None:
    """Reports values of metrics of this run: ``log(loss=0.3, step=10)``.

    Names that are no Python names come in a ``dict``: ``log({"val/loss": 0.3}, step=10)``.
    Values are numbers, or what ``float()`` takes: also scalars of numpy, PyTorch and JAX.
    Without ``step`` values are counted. Outside of a run it does nothing. Processes of a
    higher rank report ``loss[1]``, ``loss[2]``, …

    One call appends one line to the file ``NERO_METRICS`` by one system call, so that lines of
    several threads and processes of a machine never mix, and forked processes may use it.

    Raises :class:`TypeError` or :class:`ValueError` for a value that is no number.
    """
    if not _is_open:
        _open()
    if _file is None:
        return
    if values:
        more = dict(values, **more)
    if not more:
        return
    try:
        if _suffix:
            more = {name + _suffix: value for name, value in more.items()}
        for value in more.values():
            if type(value) is not float and type(value) is not int:
                more = {name: _number(value) for name, value in more.items()}
                break
        if step is not None:
            more["step"] = step if type(step) is int else _number(step)
        os.write(_file, (_encode(more) + "\n").encode())
    except OSError:
        # A full disk must not end the program whose metrics are lost.
        return
