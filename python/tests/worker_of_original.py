"""A worker as programs for DistributedComputing have them."""

import os
import time

from distributed_computing.api import WorkerInterface


def note(path):
    """Appends a line, so that executions can be counted."""
    with open(path, "a") as file:
        file.write("executed\n")


class Worker(WorkerInterface):
    def __init__(self, base, factor=1):
        self.base, self.factor, self.updates = base, factor, []

    def run(self, n, what="value"):
        if what == "none":
            return None
        if what == "slow":
            time.sleep(0.3 if n == 0 else 0.0)
        if what == "raise":
            raise ValueError("no such item: {}".format(n))
        if what == "times out":
            note(n)
            raise TimeoutError("no answer")
        if what == "hangs":
            note(n)
            time.sleep(600)
        if what == "updates":
            return self.updates
        if what == "pid":
            return os.getpid()
        return self.base + self.factor * n

    def handle_update(self, *args, **kwargs):
        self.updates.append((args, kwargs))


class Failing(WorkerInterface):
    def __init__(self):
        raise RuntimeError("no model here")
