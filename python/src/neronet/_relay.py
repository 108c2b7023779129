"""Connects standard input and output to the worker of the run in this folder.

``neroman exec RUN -- python3 -m neronet._relay`` is the way from an owner to a worker on
another machine: ssh carries it, and no daemon takes part. From a login node of SLURM a step of
the worker's job is the rest of the way; from one of another scheduler it is ``neromum call``,
which connects to the ``neromum door`` beside the worker.
"""

import json
import os
import pwd
import socket
import sys
import threading
import time
from typing import Any, Dict, List

#: Seconds to wait for the worker.
PATIENCE = 60.0
_BLOCK = 1 << 20


def connected(folder: str, patience: float = PATIENCE) -> socket.socket:
    """A connection to the worker in a run's folder, as soon as it listens.

    Raises :class:`OSError` when it does not in time, or does not any more.
    """
    return opened(found(folder, patience)["socket"])


def found(folder: str, patience: float) -> Dict[str, Any]:
    """What the worker in a run's folder wrote of itself when it listened.

    Raises :class:`OSError` when it does not in time.
    """
    deadline = time.monotonic() + patience
    path = os.path.join(folder, "worker.json")
    while not os.path.exists(path):
        if time.monotonic() > deadline:
            raise OSError("there is no {} after {:g} s".format(path, patience))
        time.sleep(0.01)
    # The worker listens before it writes the file, which appears whole.
    with open(path, encoding="utf-8") as file:
        told: Dict[str, Any] = json.load(file)
    return told


def opened(place: str) -> socket.socket:
    """A connection to the Unix socket at this path.

    Raises :class:`OSError` when nothing listens there.
    """
    link = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        link.connect(place)
    except OSError:
        link.close()
        raise
    return link


def _upward(link: socket.socket) -> None:
    # Memory of this size that is taken for each read costs more than a short read.
    block = memoryview(bytearray(_BLOCK))
    while True:
        try:
            got = link.recv_into(block)
        except OSError:
            # It ended before it had read everything.
            got = 0
        if not got:
            # The owner is told by the end of this process.
            os._exit(0)
        left = block[:got]
        while left:
            left = left[os.write(1, left):]


#: Words of a shell that start the program after them with the input and output of the relay. What
#: the files of a login shell print goes elsewhere, and what they read is nothing.
_AS_LOGIN = 'exec "$@" <&3 >&4 3<&- 4>&-'


def step(told: Dict[str, Any]) -> List[str]:
    """The command that goes on to a worker in a job of SLURM: a step that takes nothing of what
    the job has. The person's login shell knows where SLURM is."""
    shell = pwd.getpwuid(os.getuid()).pw_shell
    if os.path.basename(shell) not in ("bash", "zsh", "ksh", "dash"):
        shell = "/bin/sh"
    return [
        shell, "-lc", _AS_LOGIN, shell, "srun", "--jobid=" + told["job"],
        "--nodelist=" + told["host"], "--nodes=1", "--ntasks=1", "--overlap", "--mem=0",
        "--gres=none", "--cpu-bind=none", "--quiet",
        # Otherwise what ends without a line break is held back.
        "--unbuffered", told["python"], "-m", "neronet._relay", told["socket"]]


def main() -> int:
    """The relay's program; ends with either side."""
    try:
        if len(sys.argv) > 1:
            link = opened(sys.argv[1])
        else:
            told = found(".", PATIENCE)
            is_here = os.path.exists(told["socket"])
            if told.get("way") and not is_here:
                os.execv(told["way"][0], told["way"])
            if told.get("host") and not is_here:
                os.dup2(0, 3)
                os.dup2(1, 4)
                os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
                os.dup2(2, 1)
                words = step(told)
                os.execv(words[0], words)
            link = opened(told["socket"])
    except (OSError, ValueError) as error:
        print("no worker listens here: {}".format(error), file=sys.stderr)
        return 1
    threading.Thread(target=_upward, args=(link,), daemon=True).start()
    block = bytearray(_BLOCK)
    view = memoryview(block)
    while True:
        got = os.readv(0, [block])
        if not got:
            return 0
        link.sendall(view[:got])


if __name__ == "__main__":
    sys.exit(main())
