"""The run that executes this program: ``neronet.run``.

Outside of a run ``neronet.run.is_run`` is false, and the other facts are ``None`` or empty.
"""

import json
import os
import time
from typing import Any, Dict, List, Optional


class Run:
    """Facts of this run, from its environment."""

    @property
    def is_run(self) -> bool:
        """Whether this program is executed by Neronet."""
        return "NERO_RUN" in os.environ

    @property
    def id(self) -> Optional[str]:
        """The run, such as ``144.2``."""
        return os.environ.get("NERO_RUN")

    @property
    def experiment(self) -> Optional[int]:
        """The number of the experiment."""
        number = os.environ.get("NERO_ID", "")
        return int(number) if number.isdigit() else None

    @property
    def name(self) -> Optional[str]:
        """The name of the experiment."""
        return os.environ.get("NERO_NAME")

    @property
    def node(self) -> Optional[str]:
        """The node on which it runs."""
        return os.environ.get("NERO_NODE")

    @property
    def attempt(self) -> int:
        """1, and one more with each retry."""
        return int(os.environ.get("NERO_ATTEMPT") or 1)

    @property
    def folder(self) -> str:
        """The working folder; the current one outside of a run."""
        return os.environ.get("NERO_DIR") or os.getcwd()

    @property
    def parameters(self) -> Dict[str, Any]:
        """All parameters with their types."""
        path = os.environ.get("NERO_PARAMS")
        if not path:
            return {}
        with open(path, encoding="utf-8") as file:
            read = json.load(file)
        return dict(read)

    @property
    def resume_folder(self) -> Optional[str]:
        """The folder with checkpoints of an earlier start to go on from, or ``None``."""
        return os.environ.get("NERO_RESUME") or None

    @property
    def gpus(self) -> List[str]:
        """The cards that this run sees, as ``CUDA_VISIBLE_DEVICES`` names them."""
        return [one for one in os.environ.get("CUDA_VISIBLE_DEVICES", "").split(",") if one]

    @property
    def time_left(self) -> Optional[float]:
        """Seconds until the time limit ends the run; ``None`` without a limit.

        Pauses do not count against the limit but are counted here: after a pause it is too low.
        """
        limit = os.environ.get("NERO_TIME")
        age = _session_age()
        if not limit or age is None:
            return None
        return max(0.0, float(limit) - age)


def _session_age() -> Optional[float]:
    """Seconds since the start of the session's leader, which is the job's first process."""
    try:
        with open("/proc/{}/stat".format(os.getsid(0)), "rb") as file:
            fields = file.read().rpartition(b")")[2].split()
    except OSError:
        # The leader has ended and only its children go on.
        return None
    ticks = int(fields[19])
    return time.clock_gettime(time.CLOCK_BOOTTIME) - ticks / os.sysconf("SC_CLK_TCK")


run = Run()
