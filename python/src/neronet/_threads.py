"""The threads of an executor: each goes with one worker, or keeps states and times.

They hold the executor only while they work, so that a forgotten one is collected.
"""

import json
import socket
import subprocess
import sys
import tempfile
import time
import weakref
from typing import IO, TYPE_CHECKING, Any, Dict, List, Optional

from . import _frames as frames
from ._calls import _end_of, _Link
from ._frames import Channel, Closed, own_socket
from ._pickling import _cloudpickle
from ._program import unforked
from ._relay import connected, opened
from ._shares import AGAIN, PATIENCE, TAG, claim
from .errors import BadInput, NeronetError

if TYPE_CHECKING:
    from .executor import Executor

#: Ends of one worker's run without an answer after which it is given up.
FAILURES_MAX = 3
#: States in which a run can be a worker, or become one.
LIVE = ("queued", "staging", "submitted", "pending", "running", "paused", "ending", "unreachable")

#: Those of them before it runs.
_BEFORE = LIVE[:LIVE.index("running")]
#: Seconds between two looks for nodes that joined.
GROWS_AFTER = 5.0
#: Seconds after the end of a run within which what it sent last arrives.
LAST_WORDS_MAX = 5.0
#: Seconds without a way to a worker that runs, after which that is told.
VAIN_MAX = 20.0
#: Bytes that a worker tells of itself at most.
_ANNOUNCED_MAX = 4096


def follow(reference: "weakref.ref[Executor]", picked: List[int]) -> None:
    """Keeps the states of the runs of workers."""
    while True:
        pool = reference()
        if pool is None or not pool._folder:
            return
        client, changed = pool._client, pool._changed
        del pool
        try:
            for told in client.watch(picked):
                pool = reference()
                if pool is None or not pool._folder:
                    return
                with pool._mutex:
                    for row in told:
                        known = pool._rows.get(int(row["id"])) or {}
                        # What the worker itself told is newer.
                        is_older = ("socket" in known and known["run"] == row.get("run")
                                    and row["state"] in _BEFORE)
                        if not is_older:
                            pool._rows[int(row["id"])] = row
                    for link in pool._links:
                        now = pool._rows.get(link.experiment) or {}
                        has_ended = now.get("run") == link.run and now.get("state") not in LIVE
                        if link.opening is not None and has_ended:
                            link.opening.close()
                    wanted = [link for link in pool._links if _is_wanted(pool, link)]
                    pool._changed.notify_all()
                for link in wanted:
                    _give_back(link)
                del pool
        except NeronetError:
            # The daemon is being started again; calls go on.
            time.sleep(0.5)
        with changed:
            changed.wait(0.2)


def grow(
    reference: "weakref.ref[Executor]", nodes: Optional[str], cpus: float, gpus: float,
) -> None:
    """Adds workers when nodes have joined, as long as calls wait, or somebody waits for workers."""
    # What a node has is known when the first worker is there, if the daemon has just started.
    told, looked = "", time.monotonic() - GROWS_AFTER + 0.5
    while True:
        pool = reference()
        if pool is None or not pool._folder or pool._is_shut:
            return
        is_short = bool(pool._waiting) or pool._wanted > len(pool._links)
        if is_short and time.monotonic() - looked > GROWS_AFTER:
            looked = time.monotonic()
            try:
                pool._grow(nodes, cpus, gpus)
            except NeronetError as error:
                # The daemon is being started again, a full disk: it passes.
                if str(error) != told:
                    told = str(error)
                    print("neronet: cannot add workers yet: {}".format(told), file=sys.stderr)
        changed = pool._changed
        del pool
        with changed:
            changed.wait(0.5)


def _give_back(link: _Link) -> None:
    """Has a worker end after the calls that it has."""
    # No call is sent after it.
    with link.sending:
        channel = link.channel
        if channel is None or link.leaves:
            return
        link.leaves = True
        try:
            channel.send(frames.LEAVE)
        except Closed:
            pass


def _is_wanted(pool: "Executor", link: _Link) -> bool:
    """Whether another pool asked for a worker's room."""
    row = pool._rows.get(link.experiment) or {}
    return row.get("run") == link.run and TAG in row.get("tags", ())


def answer_door(reference: "weakref.ref[Executor]", door: socket.socket) -> None:
    """Takes what workers on this machine tell as soon as they listen: the daemon's word of it
    comes later."""
    while True:
        try:
            link, _ = door.accept()
        except OSError:
            return
        with link:
            told = _announced(link)
        pool = reference()
        if pool is None or not pool._folder:
            return
        if told is None:
            continue
        with pool._mutex:
            known = pool._rows.get(told["id"])
            has_ended = (known is not None and known.get("run") == told["run"]
                         and known["state"] not in LIVE)
            if not has_ended:
                pool._rows[told["id"]] = dict(known or {}, state="running", **told)
            pool._changed.notify_all()
        del pool


def _announced(link: socket.socket) -> Optional[Dict[str, Any]]:
    """A worker's ``id run node socket``; `None` for what is none of ours."""
    if not own_socket(link):
        return None
    link.settimeout(1.0)
    data = b""
    try:
        while len(data) < _ANNOUNCED_MAX:
            more = link.recv(_ANNOUNCED_MAX)
            if not more:
                told = json.loads(data)
                return dict(told, id=int(told["id"]))
            data += more
    except (OSError, ValueError, KeyError, TypeError):
        pass
    return None


def keep_time(reference: "weakref.ref[Executor]") -> None:
    """Ends calls that take too long, and gives idle workers back."""
    while True:
        pool = reference()
        if pool is None or not pool._folder:
            return
        now = time.monotonic()
        overdue, idle, lost, ended = [], [], [], []
        with pool._mutex:
            for link in pool._links:
                row = pool._rows.get(link.experiment) or {}
                if link.channel is None or row.get("run") != link.run or row["state"] in LIVE:
                    link.ended_since = None
                elif link.ended_since is None:
                    link.ended_since = now
                elif now - link.ended_since > LAST_WORDS_MAX:
                    ended.append(link.channel)
                if link.channel is not None and row.get("as_of") is None:
                    link.lost_since, link.is_away = None, False
                elif link.lost_since is None:
                    link.lost_since = now
                elif now - link.lost_since > pool._lost_after and not link.is_away:
                    link.is_away = True
                    lost.append(link)
                call = next(iter(link.inflight.values()), [None])[0]
                if (call is not None and call.timeout is not None and link.timed_out is None
                        and now - link.since > call.timeout):
                    link.timed_out = call
                    overdue.append(link)
                if (pool._idle_after is not None and link.channel is not None
                        and link.is_prepared and not link.inflight and not pool._waiting
                        and now - link.idle_since > pool._idle_after):
                    idle.append(link)
            waiting = sum(1 for link in pool._links if _waits(pool, link))
            ready = any(link.channel is not None for link in pool._links)
            if not waiting or ready and not pool._unresolved:
                pool._claims_at = now + PATIENCE
            claims = now >= pool._claims_at
            if claims:
                pool._claims_at = now + AGAIN
            channels = [link.channel for link in pool._links if link.channel is not None]
            changed = pool._changed
        for link in lost:
            pool._out_of_reach(link)
        for link in overdue:
            try:
                pool._client.abort(link.run, grace=0.5)
            except NeronetError as error:
                print("neronet: cannot end {}: {}".format(link.run, error), file=sys.stderr)
        for channel in ended:
            channel.close()
        for channel in channels:
            try:
                channel.tidy()
            except Closed:
                pass
        for link in idle:
            _give_back(link)
        if claims:
            claim(pool, min(waiting, max(1, pool._unresolved)))
        del pool
        with changed:
            changed.wait(0.1)


def _waits(pool: "Executor", link: _Link) -> bool:
    """Whether a worker waits for room."""
    row = pool._rows.get(link.experiment) or {}
    return link.channel is None and row.get("run") == link.run and row.get("state") in _BEFORE


def serve(reference: "weakref.ref[Executor]", link: _Link) -> None:
    """Goes with one worker: connects, receives, and starts it anew when it died."""
    while True:
        pool = reference()
        if pool is None or not pool._folder or pool._broken is not None:
            return
        if link.failures >= FAILURES_MAX:
            return
        row = pool._rows.get(link.experiment)
        is_of_run = row is not None and row.get("run") == link.run
        state = row["state"] if row is not None and is_of_run else "queued"
        if state in ("running", "ending", "unreachable"):
            assert row is not None
            changed = pool._changed
            # A pool that is forgotten is collected while its workers wait for work.
            del pool
            if not _attend(reference, link, row):
                with changed:
                    changed.wait(0.5)
            continue
        if state not in LIVE:
            assert row is not None
            if link.greeted != link.run and not link.leaves:
                link.failures += 1
                if all(one.failures >= FAILURES_MAX for one in pool._links):
                    pool._break("no worker can be started; {} ended with {}".format(
                        link.run, _end_of(row)))
                    return
            pool._died(link, row)
            goes_on = _again(pool, link)
            if goes_on:
                continue
            if goes_on is not None:
                return
        changed = pool._changed
        del pool
        with changed:
            changed.wait(0.5)


def _again(pool: "Executor", link: _Link) -> Optional[bool]:
    """Starts a worker's next run; `None` while there is nothing for it to do, false when there
    never will be."""
    with pool._mutex:
        if not pool._folder or pool._broken is not None:
            return False
        if pool._is_shut and not pool._unresolved:
            return False
        # One that was given back waits for work; one that died is replaced at once.
        if link.leaves and not pool._waiting:
            return None
        link.leaves = False
        row = pool._rows.get(link.experiment) or {}
    told = ""
    while True:
        try:
            if TAG in row.get("tags", ()):
                pool._client.call("tag", str(link.experiment), "-" + TAG)
            started = pool._client.restart(link.experiment)
        except BadInput as error:
            link.failures = FAILURES_MAX
            if all(one.failures >= FAILURES_MAX for one in pool._links):
                pool._break("no worker can be started again: {}".format(error))
            return False
        except NeronetError as error:
            # A full disk, a daemon that is away: it passes.
            if str(error) != told:
                told = str(error)
                print("neronet: cannot start a worker again yet: {}".format(told),
                      file=sys.stderr)
        else:
            with pool._mutex:
                link.idle_since = time.monotonic()
                if started.runs:
                    link.run = started.runs[0]
                    return True
        with pool._mutex:
            pool._changed.wait(1.0)
            if not pool._folder or pool._broken is not None:
                return False


def _attend(reference: "weakref.ref[Executor]", link: _Link, row: Dict[str, Any]) -> bool:
    """Connects to a running worker and receives until the connection ends.

    Returns false when there is nothing to do but to wait for a change of its state.
    """
    pool = reference()
    if pool is None:
        return True
    is_here = row.get("node") == "local" and "local" not in pool._clusters
    program = pool._python or ("python3" if not is_here else sys.executable)
    relay, said = None, None
    try:
        if is_here:
            place = row.get("socket")
            if place is not None:
                ending = opened(place)
            else:
                folder = pool._client.show(link.run).get("work")
                # Not longer: a worker that ended meanwhile never listens.
                ending = connected(str(folder), 0.5)
        else:
            said = tempfile.TemporaryFile()
            with unforked:
                ending, there = socket.socketpair()
                with there:
                    relay = subprocess.Popen(
                        [pool._client._program.path, "exec", link.run, "--", program, "-m",
                         "neronet._relay"],
                        stdin=there.fileno(), stdout=there.fileno(), stderr=said,
                        env=pool._client._program.environment(), start_new_session=True)
        channel = link.opening = Channel(ending, shares_memory=is_here)
        try:
            _greet(pool, link, channel)
        finally:
            link.opening = None
    except (OSError, ValueError, NeronetError):
        _ended(relay)
        if said is not None:
            _tell_vain(link, row, said)
            said.close()
        with pool._mutex:
            row.pop("socket", None)
            pool._changed.wait(0.2)
        return False
    if said is not None:
        said.close()
    while True:
        del pool
        try:
            frame = channel.receive()
        except Closed:
            pool = reference()
            break
        pool = reference()
        if pool is None:
            break
        pool._received(link, frame)
        # What came together is answered together.
        if not channel.has_more():
            pool._feed(link)
    channel.close()
    _ended(relay)
    if pool is None:
        return True
    with pool._mutex:
        if link.channel is channel:
            link.channel = None
            link.is_prepared = False
            pool._changed.notify_all()
        # Either its end is told, or it is reached again.
        row = pool._rows.get(link.experiment) or {}
        if pool._folder and row.get("run") == link.run and row.get("state") in LIVE:
            pool._changed.wait(0.5)
    return True


def _tell_vain(link: _Link, row: Dict[str, Any], said: IO[bytes]) -> None:
    """Tells why no way leads to a worker, when that goes on for long."""
    now = time.monotonic()
    if link.vain_since is None:
        link.vain_since = now
    if link.vain_is_told or now - link.vain_since < VAIN_MAX:
        return
    link.vain_is_told = True
    said.seek(0)
    lines = said.read(1 << 16).decode(errors="replace").strip().splitlines()
    print("neronet: cannot reach worker {} on {} yet: {}".format(
        link.run, row.get("node"), lines[-1] if lines else "it does not answer"), file=sys.stderr)


def _greet(pool: "Executor", link: _Link, channel: Channel) -> None:
    began = time.monotonic()
    hello = {"pool": pool._pool, "shares_memory": channel.shares_memory}
    channel.send(frames.HELLO, body=json.dumps(hello).encode())
    early = []
    while True:
        frame = channel.receive()
        if frame.kind == frames.WELCOME:
            break
        early.append(frame)
    welcome = json.loads(bytes(frame.body))
    if welcome["python"][:2] != list(sys.version_info[:2]):
        there = ".".join(str(one) for one in welcome["python"])
        here = ".".join(str(one) for one in sys.version_info[:3])
        if _cloudpickle() is not None:
            print("neronet: {} has Python {}, here is {}: functions that are not in a module "
                  "cannot be sent there".format(link.run, there, here), file=sys.stderr)
    known = set(welcome["known"])
    with pool._mutex:
        link.round_trip = time.monotonic() - began
        link.channel = channel
        link.vain_since, link.vain_is_told = None, False
        link.greeted, link.place = link.run, welcome["socket"]
        # What did not arrive through an earlier connection is sent again.
        link.constants = set(welcome["constants"])
        link.updates = welcome["updates"]
        link.recalling = None
        lost = [number for number in link.inflight if number not in known]
        for number in lost:
            pool._waiting.extendleft(reversed(link.inflight.pop(number)))
    body, buffers = pool._first
    if not welcome["has_first"]:
        channel.send(frames.HELLO, 0, 0, body, buffers)
    pool._send_updates(link)
    for frame in early:
        pool._received(link, frame)


def _ended(relay: "Optional[subprocess.Popen[bytes]]") -> None:
    if relay is None:
        return
    relay.terminate()
    try:
        relay.wait(5)
    except subprocess.TimeoutExpired:
        relay.kill()
        relay.wait()
