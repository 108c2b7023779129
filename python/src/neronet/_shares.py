"""Fair shares of pools: one whose workers wait for room has those give back that have more.

The wish is a tag of a worker's experiment: it reaches the worker's owner whatever dies meanwhile,
and people see it.
"""

import re
import sys
from typing import TYPE_CHECKING, Any, Dict, Iterable, List

from .errors import NeronetError

if TYPE_CHECKING:
    from .executor import Executor

#: The tag of a worker that its owner is to give back, between calls.
TAG = "give-back"
#: Seconds that workers wait before they ask, and between two times.
PATIENCE = 1.0
AGAIN = 5.0
_POOL = re.compile("pool-[0-9a-f]{8}")
#: States in which a worker has its room.
_HAS_ROOM = ("running", "ending", "unreachable")


def claim(pool: "Executor", waiting: int) -> None:
    """Asks other pools for the room that this one lacks to its share."""
    try:
        rows = pool._client.status("pool-*")
        near = [row for row in rows if row.get("node") in pool._names or not row.get("node")]
        asked = surplus(near, "pool-" + pool._pool[:8], waiting)
        if asked:
            pool._client.call("tag", ",".join(map(str, asked)), "+" + TAG)
    except NeronetError as error:
        # The daemon is being started again, or a worker has ended meanwhile.
        print("neronet: cannot ask other pools for room: {}".format(error), file=sys.stderr)


def surplus(rows: Iterable[Dict[str, Any]], own: str, waiting: int) -> List[int]:
    """Experiments of workers that other pools are to give back to the pool ``own``, of which so
    many wait. ``rows`` are those of live workers of all pools."""
    pools: Dict[str, List[Dict[str, Any]]] = {own: []}
    promised = 0
    for row in rows:
        if not _POOL.fullmatch(row["collection"]) or row.get("ended_at"):
            continue
        having = pools.setdefault(row["collection"], [])
        if row["state"] not in _HAS_ROOM:
            continue
        if TAG in row["tags"]:
            promised += 1
        else:
            having.append(row)
    total = sum(map(len, pools.values())) + promised
    share = max(1, total // len(pools))
    missing = min(waiting, share - len(pools.pop(own))) - promised
    asked: List[int] = []
    while missing > len(asked) and pools:
        largest = max(pools.values(), key=len)
        if len(largest) <= share:
            break
        asked.append(int(largest.pop()["id"]))
    return asked
