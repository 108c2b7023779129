"""Connects standard input and output to the worker of the run in this folder.

``neroman exec RUN -- python3 -m neronet._relay`` is the way from an owner to a worker on
another machine: ssh carries it, and no daemon takes part.
"""

import json
import os
import socket
import sys
import threading
import time

#: Seconds to wait for the worker.
PATIENCE = 60.0
_BLOCK = 1 << 20


def connected(folder: str, patience: float = PATIENCE) -> socket.socket:
    """A connection to the worker in a run's folder, as soon as it listens.

    Raises :class:`OSError` when it does not in time, or does not any more.
    """
    deadline = time.monotonic() + patience
    path = os.path.join(folder, "worker.json")
    while not os.path.exists(path):
        if time.monotonic() > deadline:
            raise OSError("there is no {} after {:g} s".format(path, patience))
        time.sleep(0.01)
    # The worker listens before it writes the file, which appears whole.
    with open(path, encoding="utf-8") as file:
        place = json.load(file)["socket"]
    link = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        link.connect(place)
    except OSError:
        link.close()
        raise
    return link


def _upward(link: socket.socket) -> None:
    while True:
        data = link.recv(_BLOCK)
        if not data:
            # The owner is told by the end of this process.
            os._exit(0)
        left = memoryview(data)
        while left:
            left = left[os.write(1, left):]


def main() -> int:
    """The relay's program; ends with either side."""
    try:
        link = connected(".")
    except (OSError, ValueError) as error:
        print("no worker listens here: {}".format(error), file=sys.stderr)
        return 1
    threading.Thread(target=_upward, args=(link,), daemon=True).start()
    while True:
        data = os.read(0, _BLOCK)
        if not data:
            return 0
        link.sendall(data)


if __name__ == "__main__":
    sys.exit(main())
