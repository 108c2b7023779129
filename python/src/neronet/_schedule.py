"""How calls get to workers and results back: the part of an executor that decides who does what."""

import concurrent.futures
import itertools
import math
import sys
import threading
import time
from collections import deque
from typing import Any, Deque, Dict, List, Optional, Set, Tuple

from . import _frames as frames
from ._calls import (
    PoolBroken,
    WorkerDied,
    _Call,
    _end_of,
    _Link,
    _used,
)
from ._frames import Buffer, Closed, Frame
from ._pickling import each_outcome, pack, timed_error
from ._shares import PATIENCE
from ._threads import FAILURES_MAX

#: Frames with calls that one worker may have at once.
_WINDOW_MAX = 64
#: Calls of one frame, and the seconds that they may take together.
_BATCH_MAX = 64
_BATCH_SECONDS = 0.001
#: Functions whose times are kept.
_FUNCTIONS_MAX = 256

#: Executors with calls that have no result: a forgotten one goes on until they have.
_busy: "Set[Schedule]" = set()


class Schedule(concurrent.futures.Executor):
    """Calls that wait, workers, and what each of them has."""

    #: Whether workers have the program of this process, too.
    _has_program = False

    def __init__(self) -> None:
        self._mutex = threading.RLock()
        self._changed = threading.Condition(self._mutex)
        self._waiting: Deque[_Call] = deque()
        self._links: List[_Link] = []
        self._rows: Dict[int, Dict[str, Any]] = {}
        self._numbers = itertools.count(1)
        self._unresolved = 0
        self._constants: Dict[int, Tuple[Buffer, List[Buffer]]] = {}
        #: The worker of a node that has a constant for the others there.
        self._holders: Dict[Tuple[str, int], _Link] = {}
        self._updates: List[Tuple[Buffer, List[Buffer]]] = []
        #: Seconds that a call of a function takes, on average.
        self._times: Dict[Any, float] = {}
        self._broken: Optional[str] = None
        self._is_shut = False
        #: When other pools are asked for room, if workers still wait then.
        self._claims_at = time.monotonic() + PATIENCE

    def _settled(self, count: int = 1) -> None:
        """Calls have their results, or need none."""
        self._unresolved -= count
        if self._unresolved <= 0:
            _busy.discard(self)
            # Nobody else waits for that, and each call would wake every thread of the pool.
            if self._is_shut:
                self._changed.notify_all()

    # Sending

    def _free_link(self) -> Optional[_Link]:
        """A worker that can take a call, an idle one if there is one."""
        best = None
        for link in self._links:
            if link.channel is None or not link.is_prepared or link.leaves or link.is_away:
                continue
            if not link.inflight:
                return link
            if len(link.inflight) < link.window and best is None:
                best = link
        return best

    def _feed(self, link: _Link) -> None:
        """Sends waiting calls to a worker, as many as it may have."""
        while self._fed(link):
            pass

    def _fed(self, link: _Link) -> bool:
        """Sends once; returns whether there may be more to send."""
        failed: List[Tuple[_Call, BaseException]] = []
        # What a call uses is sent before it, whoever sends.
        with link.sending:
            taken: List[Tuple[int, List[_Call]]] = []
            with self._mutex:
                channel, acked = link.channel, link.acked
                if channel is None or link.leaves or not link.is_prepared:
                    return False
                while len(link.inflight) < link.window:
                    call = self._pop()
                    if call is None:
                        break
                    calls = self._with_others(call)
                    number = next(self._numbers)
                    if not link.inflight:
                        link.since = time.monotonic()
                    link.inflight[number] = calls
                    taken.append((number, calls))
                if not taken:
                    self._recall_for(link)
                    return False
            sent: List[Frame] = []
            for number, calls in taken:
                function = calls[0].function
                try:
                    _used.numbers = set()
                    asked = [(call.args, call.kwargs) for call in calls]
                    packed = pack(
                        (function, asked) if len(calls) > 1 else (function,) + asked[0],
                        self._has_program)
                except BaseException as error:
                    with self._mutex:
                        link.inflight.pop(number, None)
                        if len(calls) > 1:
                            self._one_by_one(calls)
                            continue
                    failed.append((calls[0], error))
                    continue
                if len(calls) > 1 and packed[1]:
                    # Large buffers travel better alone.
                    self._times[function] = math.inf
                for one in _used.numbers - link.constants:
                    sent.append(self._constant_for(link, one))
                kind = frames.CALLS if len(calls) > 1 else frames.CALL
                sent.append(Frame(kind, number, acked, *packed))
            try:
                channel.send_all(sent)
            except Closed:
                # The thread that receives has what was in flight done elsewhere.
                return False
        for call, error in failed:
            self._resolve(call, error=error)
        return True

    def _constant_for(self, link: _Link, number: int) -> Frame:
        """A constant for a worker: itself, or the socket of a worker there that has it."""
        with self._mutex:
            body, buffers = self._constants[number]
            link.constants.add(number)
            node = self._rows.get(link.experiment, {}).get("node")
            is_large = sum(map(frames.size_of, buffers), frames.size_of(body)) >= frames.SHARED_MIN
            if node and is_large and link.channel and not link.channel.shares_memory:
                holder = self._holders.get((node, number), link)
                if holder is not link and holder.channel and number in holder.constants:
                    return Frame(frames.CONSTANT_AT, number, 0, holder.place.encode(), ())
                self._holders[node, number] = link
            return Frame(frames.CONSTANT, number, 0, body, buffers)

    def _pop(self, like: Optional[_Call] = None) -> Optional[_Call]:
        """The next call that is to be executed; with ``like`` only one that may go with it."""
        while self._waiting:
            call = self._waiting[0]
            if like is not None and (call.is_alone or call.function is not like.function):
                return None
            self._waiting.popleft()
            if call.future.done() and call.is_running:
                # A machine that was out of reach answered after all.
                continue
            if call.is_running or call.future.set_running_or_notify_cancel():
                call.is_running = True
                return call
            self._settled()
        return None

    def _with_others(self, call: _Call) -> List[_Call]:
        """A call with those behind it of the same function, when these are short."""
        calls = [call]
        if call.is_alone or not self._waiting:
            return calls
        try:
            took = self._times.get(call.function)
        except TypeError:
            # Something that cannot be hashed has no time either.
            return calls
        if took is None or took > _BATCH_SECONDS / 2:
            return calls
        share = len(self._waiting) // (2 * len(self._links)) + 1
        count = min(_BATCH_MAX, share, int(_BATCH_SECONDS / max(took, 1e-6)))
        while len(calls) < count:
            other = self._pop(call)
            if other is None:
                break
            calls.append(other)
        return calls

    def _one_by_one(self, calls: List[_Call]) -> None:
        """Has calls that were sent together executed apart."""
        for call in calls:
            call.is_alone = True
        self._waiting.extendleft(reversed(calls))

    def _recall_for(self, idle: _Link) -> None:
        """Takes a call that is not begun from the worker with most of them."""
        if idle.inflight:
            return
        busy = [link for link in self._links
                if len(link.inflight) > 1 and link.recalling is None and link.channel]
        if not busy:
            return
        link = max(busy, key=lambda one: len(one.inflight))
        # It may not be sent yet.
        link.recalling = list(link.inflight)[-1]
        channel, number = link.channel, link.recalling
        assert channel is not None
        try:
            channel.send(frames.RECALL, number)
        except Closed:
            pass

    def _send_updates(self, link: _Link) -> None:
        while True:
            with self._mutex:
                channel = link.channel
                if channel is None or link.updates >= len(self._updates):
                    return
                body, buffers = self._updates[link.updates]
                link.updates += 1
                try:
                    # Within the lock: updates must keep their order.
                    channel.send(frames.UPDATE, 0, 0, body, buffers)
                except Closed:
                    return

    # Receiving

    def _received(self, link: _Link, frame: Frame) -> None:
        now = time.monotonic()
        if frame.kind == frames.PREPARED:
            with self._mutex:
                link.is_prepared = True
                link.failures = 0
                self._changed.notify_all()
            self._feed(link)
        elif frame.kind == frames.MISSING:
            if link.channel is not None:
                try:
                    link.channel.send(frames.CONSTANT, frame.number, 0,
                                      *self._constants[frame.number])
                except Closed:
                    pass
        elif frame.kind == frames.UNPREPARED:
            self._unprepared(link, bytes(frame.body).decode(errors="replace"))
        elif frame.kind == frames.RECALLED:
            with self._mutex:
                link.recalling = None
                self._waiting.extendleft(reversed(link.inflight.pop(frame.number, [])))
                other = self._free_link()
            if other is not None:
                self._feed(other)
        elif frame.kind in (frames.RESULT, frames.ERROR, frames.RESULTS):
            with self._mutex:
                calls = link.inflight.pop(frame.number, [])
                if link.recalling == frame.number:
                    link.recalling = None
                link.acked = frame.number
                link.since = now
                link.idle_since = now
            self._finish(link, calls, frame)

    def _finish(self, link: _Link, calls: List[_Call], frame: Frame) -> None:
        is_large = (len(frame.body) > frames.SHARED_MIN or any(
            frames.size_of(one) >= frames.SHARED_MIN for one in frame.buffers))
        told: List[Tuple[Any, Optional[BaseException]]]
        try:
            if frame.kind == frames.RESULT:
                took, value = frame.load()
                told = [(value, None)]
            elif frame.kind == frames.RESULTS:
                took, outcomes = frame.load()
                told = list(each_outcome(outcomes))
            else:
                took, error = timed_error(frame.body)
                told = [(None, error)]
        except BaseException as caught:
            # All of them were executed: none may be executed again.
            took, told = 0.0, [(None, caught)] * max(len(calls), 1)
        self._adapt(link, took)
        if is_large and link.channel is not None:
            try:
                link.channel.send(frames.ACK, 0, frame.number)
            except Closed:
                pass
        if not calls:
            return
        if len(calls) > 1 and frame.kind != frames.RESULTS:
            # They could not be taken apart there.
            with self._mutex:
                self._one_by_one(calls)
            return
        self._timed(calls[0], math.inf if is_large else took / len(told))
        if len(told) < len(calls):
            # They took long: the others go where there is room.
            with self._mutex:
                self._waiting.extendleft(reversed(calls[len(told):]))
            self._feed_all()
        for call, (value, error) in zip(calls, told):
            self._resolve(call, value, error)

    def _timed(self, call: _Call, took: float) -> None:
        """Learns how long calls of a function take."""
        if call.is_alone:
            return
        try:
            known = self._times.get(call.function)
            if known is None and len(self._times) >= _FUNCTIONS_MAX:
                self._times.clear()
            # A longer one counts at once: what is sent together cannot be divided any more.
            self._times[call.function] = (
                took if known is None or took > known else 0.8 * known + 0.2 * took)
        except TypeError:
            pass

    def _adapt(self, link: _Link, took: float) -> None:
        """How many calls a worker has at once: enough to be busy for two round trips, and one
        alone when a call takes much longer than its way."""
        link.took = took if link.took is None else 0.8 * link.took + 0.2 * took
        way = max(link.round_trip, 1e-4)
        if link.took > 50 * way:
            link.window = 1
        else:
            link.window = min(_WINDOW_MAX, 2 + math.ceil(2 * way / max(link.took, 1e-6)))

    def _resolve(self, call: _Call, value: Any = None,
                 error: Optional[BaseException] = None) -> None:
        with self._mutex:
            if call.future.done():
                return
            self._settled()
        try:
            if error is not None:
                call.future.set_exception(error)
            else:
                call.future.set_result(value)
        except concurrent.futures.InvalidStateError:
            # The copy of this call on another machine was first.
            pass

    # Workers that come and go

    def _unprepared(self, link: _Link, text: str) -> None:
        with self._mutex:
            link.leaves = True
            link.failures = FAILURES_MAX
            others = [one for one in self._links if one.failures < FAILURES_MAX]
            if not others:
                self._break("no worker could prepare itself:\n" + text)
        print("neronet: worker {} could not prepare itself:\n{}".format(link.run, text),
              file=sys.stderr)

    def _break(self, why: str) -> None:
        """Ends the pool; every call gets the reason."""
        with self._mutex:
            if self._broken is not None:
                return
            self._broken = why
            calls = list(self._waiting)
            self._waiting.clear()
            for link in self._links:
                calls += itertools.chain.from_iterable(link.inflight.values())
                link.inflight.clear()
            self._changed.notify_all()
        for call in calls:
            if not call.is_running and not call.future.set_running_or_notify_cancel():
                with self._mutex:
                    self._settled()
                continue
            self._resolve(call, error=PoolBroken(why))

    def _died(self, link: _Link, row: Dict[str, Any]) -> None:
        """The run of a worker has ended: its calls go elsewhere."""
        with self._mutex:
            channel, link.channel = link.channel, None
            link.is_prepared = False
            sent = list(link.inflight.values())
            calls = list(itertools.chain.from_iterable(sent))
            together = sent[0] if sent and len(sent[0]) > 1 else []
            link.inflight.clear()
            link.constants.clear()
            link.updates = 0
            link.recalling = None
            self._changed.notify_all()
            first = calls[0] if calls else None
            timed_out, link.timed_out = link.timed_out, None
        if channel is not None:
            channel.close()
        errors: List[Tuple[_Call, BaseException]] = []
        again = []
        for call in calls:
            if call.future.done() or call in self._waiting:
                # Another worker has it, or is about to.
                continue
            if call is timed_out:
                call.tries -= 1
                text = "the call took longer than {:g} s".format(call.timeout or 0)
                if call.tries:
                    print("neronet: worker {} was replaced: {}; it runs again".format(
                        link.run, text), file=sys.stderr)
                    again.append(call)
                else:
                    errors.append((call, concurrent.futures.TimeoutError(text)))
                continue
            # The others were not begun.
            if call is first and timed_out is None:
                # Which of several calls it was is seen when they are executed apart.
                call.deaths += not together
                print("neronet: worker {} died: {}{}".format(
                    link.run, _end_of(row), "" if call.deaths > 1 else "; its call runs again"),
                    file=sys.stderr)
            if call in together:
                call.is_alone = True
            if call.deaths > 1:
                text = "two workers died of this call, the last of {}: {}".format(
                    link.run, _end_of(row))
                errors.append((call, WorkerDied(text, row)))
            else:
                again.append(call)
        with self._mutex:
            self._waiting.extendleft(reversed(again))
        for call, error in errors:
            self._resolve(call, error=error)
        self._feed_all()

    def _feed_all(self) -> None:
        while True:
            with self._mutex:
                link = self._free_link() if self._waiting else None
            if link is None:
                return
            before = len(self._waiting)
            self._feed(link)
            if len(self._waiting) >= before:
                return

    def _out_of_reach(self, link: _Link) -> None:
        """Calls of a worker that cannot be reached go elsewhere; the first result wins."""
        with self._mutex:
            calls = [call for sent in link.inflight.values() for call in sent
                     if not call.future.done()]
            self._waiting.extendleft(reversed(calls))
        self._feed_all()
