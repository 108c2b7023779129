"""What this machine is to pools: a server, a node that takes work, or both.

Locks on files hold the roles, so that they end with the processes that took them, however those
end. A machine without any role takes work.
"""

import fcntl
import os
from typing import IO, List, Optional

import neronet

SERVER = "server"
NODE = "client"


def _open(role: str) -> IO[str]:
    values = neronet.connect().call("config", "show")["values"]
    (data,) = [one["value"] for one in values if one["key"] == "data"]
    os.makedirs(data, mode=0o700, exist_ok=True)
    return open(os.path.join(data, "distributed-computing.{}".format(role)), "a")


def _locked(role: str) -> Optional[IO[str]]:
    file = _open(role)
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        file.close()
        return None
    except OSError:
        # A disk without locks: nobody is kept out.
        pass
    return file


def take(role: str) -> Optional[IO[str]]:
    """Takes a role until the file is closed; `None` when another process has it."""
    file = _locked(role)
    if file is not None:
        _held.append(file)
    return file


#: Roles of this process: one that is not given up ends with it.
_held: List[IO[str]] = []


def is_taken(role: str) -> bool:
    """Whether a process has the role."""
    file = _locked(role)
    if file is None:
        return True
    file.close()
    return False


def takes_work() -> bool:
    """Whether this machine is more than a server."""
    return not is_taken(SERVER) or is_taken(NODE)
