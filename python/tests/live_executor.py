"""The executor with real programs: needs ``NERONET_PROGRAM`` and an empty ``NERONET_HOME``.

``NODES`` is the node or group on which workers run; ``local`` unless set.
"""

import asyncio
import collections
import json
import math
import os
import pickle
import signal
import subprocess
import sys
import tempfile
import threading
import time
import unittest
from unittest import mock

import calls
import neronet
from neronet import _frames as frames
from neronet.executor import Executor

NODES = os.environ.get("NODES", "local")
HERE = os.path.dirname(os.path.abspath(__file__))
DEADLINE = 120


def until(what, look):
    """Waits until ``look`` returns something; fails at the deadline."""
    end = time.monotonic() + DEADLINE
    while True:
        found = look()
        if found:
            return found
        if time.monotonic() > end:
            raise AssertionError("no " + what)
        time.sleep(0.01)


def pool(workers=2, **words):
    return neronet.Executor(workers, NODES, files=os.path.join(HERE, "calls.py"),
                            env={"PYTHONDONTWRITEBYTECODE": "1"}, **words)


class Calls(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.pool = pool(init=calls.prepare, initargs=("a", 1))
        # Where files of this machine and of the nodes are the same.
        cls.folder = tempfile.TemporaryDirectory(dir=os.environ.get("SHARED"))
        os.chmod(cls.folder.name, 0o777)

    @classmethod
    def tearDownClass(cls):
        cls.pool.shutdown()
        cls.folder.cleanup()

    def path(self, name):
        return os.path.join(self.folder.name, name)

    def test_values_come_back_as_they_are(self):
        for value in (None, False, 0, "", [], {"a": (1, 2)}, b"\0" * 10):
            self.assertEqual(self.pool.submit(max, [value]).result(DEADLINE), value)

    def test_results_have_the_order_of_items(self):
        self.assertEqual(list(self.pool.map(abs, range(-500, 0))), list(range(500, 0, -1)))
        squares = self.pool.map(pow, range(1000), [2] * 1000, chunksize=64, buffersize=256)
        self.assertEqual(list(squares), [n * n for n in range(1000)])

    def test_items_are_taken_as_far_as_the_buffer_goes(self):
        taken = []
        results = self.pool.map(abs, (taken.append(n) or n for n in range(100)), buffersize=5)
        self.assertEqual(len(taken), 5)
        self.assertEqual(next(results), 0)
        self.assertEqual(len(taken), 6)
        results.close()

    def test_an_exception_is_itself_with_its_traceback(self):
        with self.assertRaises(ValueError) as caught:
            self.pool.submit(math.sqrt, -1).result(DEADLINE)
        self.assertIn("math domain error", str(caught.exception.__cause__))
        with self.assertRaises(ValueError):
            list(self.pool.map(math.sqrt, [4, -1, 9], chunksize=2))
        with self.assertRaisesRegex(RuntimeError, "Odd: 1 and 2"):
            self.pool.submit(calls.odd).result(DEADLINE)

    def test_a_generator_of_items_that_raises_raises_here(self):
        def items():
            yield 1
            raise KeyError("mine")

        with self.assertRaises(KeyError):
            list(self.pool.map(abs, items()))

    def test_what_cannot_be_pickled_fails_its_call_alone(self):
        with self.assertRaises(Exception):
            self.pool.submit(len, [threading.Lock()]).result(DEADLINE)
        with self.assertRaises(Exception):
            self.pool.submit(calls.unpicklable).result(DEADLINE)
        self.assertEqual(self.pool.submit(abs, -1).result(DEADLINE), 1)

    def test_large_arguments_and_results(self):
        data = bytearray(os.urandom(3 << 20))
        back = self.pool.submit(calls.reverse, data).result(DEADLINE)
        self.assertEqual(bytes(back), bytes(reversed(data)))
        text = "x" * (2 << 20)
        self.assertEqual(self.pool.submit(calls.length, text).result(DEADLINE), len(text))

    def test_workers_are_prepared_and_get_updates_in_order(self):
        self.pool.wait_for_workers(2, DEADLINE)
        for n in range(3):
            self.pool.update_workers({"n": n})
        for prepared, updates in [self.pool.submit(calls.state).result(DEADLINE)
                                  for _ in range(6)]:
            self.assertEqual(prepared, [("a", 1)])
            self.assertEqual(updates[-3:], [{"n": 0}, {"n": 1}, {"n": 2}])

    def test_a_worker_that_prints_much_goes_on(self):
        self.assertEqual(self.pool.submit(calls.noisy, 200_000).result(DEADLINE), 200_000)

    def test_short_calls_that_travel_together_fail_and_die_apart(self):
        self.assertEqual(list(self.pool.map(calls.short, range(3000))), list(range(3000)))
        futures = [self.pool.submit(calls.short, n, bad=(n % 100)) for n in range(2000)]
        for n, future in enumerate(futures):
            if n % 100 == calls.RAISES:
                self.assertRaisesRegex(ValueError, "short", future.result, DEADLINE)
            elif n % 100 == calls.UNPICKLABLE:
                self.assertRaises(Exception, future.result, DEADLINE)
            else:
                self.assertEqual(future.result(DEADLINE), n)
        futures = [self.pool.submit(calls.short, n, bad=calls.DIES * (n == 700))
                   for n in range(1500)]
        with self.assertRaises(neronet.WorkerDied):
            futures[700].result(DEADLINE)
        del futures[700]
        self.assertEqual(sum(one.result(DEADLINE) for one in futures), 1499 * 750 - 700)

    def test_short_calls_do_not_wait_behind_a_long_one(self):
        self.assertEqual(list(self.pool.map(calls.short, range(3000))), list(range(3000)))
        path = self.path("long")
        futures = [self.pool.submit(calls.short, n, wait_for=path if n == 300 else None)
                   for n in range(1000)]
        # What was sent together with the long one comes after it.
        until("results", lambda: sum(one.done() for one in futures) >= 900)
        self.assertFalse(futures[300].done())
        calls.note(path, 1)
        self.assertEqual([one.result(DEADLINE) for one in futures], list(range(1000)))

    def test_asyncio_takes_it(self):
        async def ask():
            loop = asyncio.get_running_loop()
            asked = [loop.run_in_executor(self.pool, abs, -n) for n in range(20)]
            return await asyncio.gather(*asked)

        self.assertEqual(asyncio.run(ask()), list(range(20)))

    def test_a_call_whose_worker_died_runs_again_once(self):
        path = self.path("died")
        self.assertEqual(self.pool.submit(calls.die_first, path, 7).result(DEADLINE), 7)

    def test_two_deaths_are_told_with_how_they_came(self):
        with self.assertRaises(neronet.WorkerDied) as caught:
            self.pool.submit(os._exit, 3).result(DEADLINE)
        self.assertEqual(caught.exception.exit_code, 3)
        self.assertEqual(self.pool.submit(abs, -1).result(DEADLINE), 1)

    def test_a_call_that_takes_too_long_is_ended_and_its_worker_replaced(self):
        with self.assertRaises(Exception) as caught:
            self.pool.submit_with(time.sleep, (600,), timeout=0.5).result(DEADLINE)
        self.assertIn("longer than 0.5 s", str(caught.exception))
        self.pool.wait_for_workers(2, DEADLINE)

    def test_no_call_is_lost_or_repeated_though_daemon_agent_and_way_are_killed(self):
        path = self.path("notes")
        futures = [self.pool.submit(calls.slow_note, path, n, 0.01) for n in range(400)]
        client = neronet.connect()
        until("first result", futures[0].done)
        os.kill(client.call("daemon", "status")["pid"], signal.SIGKILL)
        until("half of the results", futures[200].done)
        ways = children()
        self.assertEqual(bool(ways), NODES != "local")
        for pid in ways:
            os.kill(pid, signal.SIGKILL)
        self.assertEqual([one.result(DEADLINE) for one in futures], list(range(400)))
        with open(path) as file:
            times = collections.Counter(int(line) for line in file)
        self.assertEqual(set(times), set(range(400)))
        self.assertEqual(set(times.values()), {1}, "calls that were executed twice")

    def test_cancelled_calls_are_not_executed(self):
        path = self.path("cancelled")
        futures = [self.pool.submit(calls.slow_note, path, n, 0.01) for n in range(300)]
        cancelled = [n for n, one in enumerate(futures) if one.cancel()]
        self.assertTrue(cancelled)
        done = [one.result(DEADLINE) for one in futures if not one.cancelled()]
        with open(path) as file:
            self.assertEqual(sorted(int(line) for line in file), done)


def children():
    """The processes of ssh that connect this one with workers on other machines."""
    parents, lines = {}, {}
    for name in os.listdir("/proc"):
        if name.isdigit():
            try:
                with open("/proc/{}/stat".format(name), "rb") as file:
                    parents[int(name)] = int(file.read().rpartition(b")")[2].split()[1])
                with open("/proc/{}/cmdline".format(name), "rb") as file:
                    lines[int(name)] = file.read().split(b"\0")
            except OSError:
                continue
    ours = {pid for pid, parent in parents.items() if parent == os.getpid()}
    return [pid for pid, line in lines.items()
            if parents[pid] in ours and os.path.basename(line[0]) == b"ssh"]


def process_of(link):
    """The worker's process."""
    folder = neronet.connect().show(link.run)["work"]
    with open(os.path.join(folder, "worker.json")) as file:
        return json.load(file)["pid"]


class Lives(unittest.TestCase):
    """On this machine, whose processes can be looked at."""

    def test_a_pool_leaves_nothing_behind(self):
        client = neronet.connect()
        with pool(1) as one:
            node, pid = one.submit(calls.where).result(DEADLINE)
            self.assertEqual(node, "local")
            (run,) = one.runs
        self.assertFalse(os.path.exists("/proc/{}".format(pid)))
        with self.assertRaises(neronet.BadInput):
            client.show(run)
        with self.assertRaises(RuntimeError):
            one.submit(abs, 1)

    def test_a_pool_that_starts_the_daemon_has_as_many_workers_as_processors(self):
        client = neronet.connect()
        client.call("daemon", "stop")
        with neronet.Executor(nodes="local", files=os.path.join(HERE, "calls.py")) as one:
            futures = [one.submit(calls.after, 0.5, n) for n in range(20)]
            until("as many workers as processors", lambda: len(one.runs) == os.cpu_count())
            self.assertEqual([future.result(DEADLINE) for future in futures], list(range(20)))

    def test_a_worker_is_used_before_the_daemon_tells_that_it_runs(self):
        with mock.patch("neronet.client.Client.watch", lambda *_: iter(())), pool(2) as one:
            self.assertEqual(one.submit(abs, -1).result(DEADLINE), 1)
            self.assertEqual(one.wait_for_workers(2, DEADLINE), 2)
            self.assertEqual(one.nodes, ["local"])

    def test_pools_share_a_machine(self):
        client = neronet.connect()
        client.call("config", "set", "nodes.local.cpus", "2")
        try:
            with pool(2) as first:
                first.wait_for_workers(2, DEADLINE)
                # More than can be done within the deadline.
                futures = [first.submit(time.sleep, 0.1) for _ in range(10_000)]
                with pool(2) as second:
                    self.assertEqual(second.submit(abs, -1).result(DEADLINE), 1)
                    until("one worker each", lambda: (first.workers, second.workers) == (1, 1))
                until("the worker to come back", lambda: first.workers == 2)
                self.assertFalse(any(one.exception() for one in futures if one.done()))
                first.shutdown(cancel_futures=True)
        finally:
            client.call("config", "set", "nodes.local.cpus", "")

    def test_workers_that_cannot_prepare_themselves_end_the_pool_with_the_reason(self):
        with pool(2, init=calls.fail_to_prepare) as one:
            with self.assertRaisesRegex(neronet.PoolBroken, "no licence here"):
                one.submit(abs, -1).result(DEADLINE)

    def test_idle_workers_are_given_back_and_come_again(self):
        with pool(1, idle_after=0.3) as one:
            _, first = one.submit(calls.where).result(DEADLINE)
            until("end of the idle worker", lambda: one.workers == 0)
            _, second = one.submit(calls.where).result(DEADLINE)
            self.assertNotEqual(first, second)

    def test_calls_of_a_machine_out_of_reach_go_elsewhere_and_the_first_result_counts(self):
        with pool(2, lost_after=0.5) as one:
            one.wait_for_workers(2, DEADLINE)
            (link, other) = one._links
            stopped = process_of(link)
            os.kill(stopped, signal.SIGSTOP)
            # The stopped worker stands for a machine behind a cut, which the daemon tells so.
            futures = [one.submit(calls.where) for _ in range(2)]

            def are_answered():
                # What the daemon tells meanwhile is overruled again.
                one._rows[link.experiment] = dict(one._rows[link.experiment], as_of="now")
                return all(future.done() for future in futures)

            try:
                until("answers", are_answered)
            finally:
                os.kill(stopped, signal.SIGCONT)
            answered = {future.result()[1] for future in futures}
            self.assertEqual(answered, {process_of(other)})

    def test_workers_of_an_owner_that_was_killed_end(self):
        program = (
            "import os, sys\n"
            "sys.path.insert(0, {!r})\n"
            "import live_executor as live, calls\n"
            "one = live.pool(1)\n"
            "print(one.submit(calls.where).result(60)[1], one.runs[0], flush=True)\n"
            "one.submit(calls.slow_note, '/nowhere', 1, 600)\n"
            "os.kill(os.getpid(), 9)\n"
        ).format(HERE)
        owner = subprocess.run([sys.executable, "-c", program], stdout=subprocess.PIPE, timeout=120)
        pid, run = owner.stdout.split()
        until("end of the worker", lambda: not os.path.exists("/proc/" + pid.decode()))
        client = neronet.connect()
        until("end of its run", lambda: client.status(run.decode())[0]["state"] == "finished")


    def test_a_constant_travels_once_to_a_node_and_each_worker_has_it_for_itself(self):
        shared, through = [frames.CONSTANT] * 2, [frames.CONSTANT, frames.CONSTANT_AT]
        for is_usable, place, kinds in (
            (True, None, shared), (False, None, through), (False, "/nowhere", through),
        ):
            # An owner without memory to hand over sends as it does to another machine.
            with mock.patch("neronet._memory.is_usable", lambda: is_usable), pool(2) as one:
                one.wait_for_workers(2, DEADLINE)
                data = bytearray(os.urandom(3 << 20))
                first = data[0]
                constant = one.put(pickle.PickleBuffer(data))
                data[:] = bytes(len(data))
                for link in one._links:
                    link.place = place or link.place
                with mock.patch.object(one, "_constant_for", wraps=one._constant_for) as asked:
                    sent = []
                    asked.side_effect = lambda *words: sent.append(
                        Executor._constant_for(one, *words)) or sent[-1]
                    futures = [one.submit(calls.spoil, constant, 0.02) for _ in range(40)]
                    found = collections.defaultdict(list)
                    for future in futures:
                        pid, value = future.result(DEADLINE)
                        found[pid].append(value)
                self.assertEqual(sorted(frame.kind for frame in sent), sorted(kinds))
                self.assertEqual(len(found), 2)
                for values in found.values():
                    self.assertEqual(sorted((value - first) % 256 for value in values),
                                     list(range(len(values))))

    def test_thousands_of_large_results_hold_no_descriptors(self):
        with pool(1) as one:
            before = len(os.listdir("/proc/self/fd"))
            size = frames.SHARED_MIN
            results = list(one.map(calls.zeros, [size] * 200))
            self.assertEqual({len(memoryview(result)) for result in results}, {size})
            self.assertLess(len(os.listdir("/proc/self/fd")), before + 50)

    def test_memory_is_used_again_and_given_up_when_idle(self):
        with pool(1) as one:
            (link,) = one._links
            data = pickle.PickleBuffer(bytearray(4 << 20))
            for _ in range(20):
                one.submit(calls.length_of, data).result(DEADLINE)
            pieces = lambda: len(link.channel._lender._free) + len(link.channel._lender._lent)
            self.assertLess(pieces(), 5)
            until("end of idle memory", lambda: not pieces())


@unittest.skipUnless(os.environ.get("LIMITS_MEMORY"), "nothing limits memory here")
class Memory(unittest.TestCase):
    def test_a_worker_that_is_out_of_memory_is_told_as_such(self):
        with pool(1, memory="200M") as one:
            with self.assertRaisesRegex(neronet.WorkerDied, "out of memory") as caught:
                one.submit(calls.eat, 400 << 20).result(DEADLINE)
            self.assertEqual(caught.exception.signal, signal.SIGKILL)
            self.assertEqual(one.submit(abs, -1).result(DEADLINE), 1)


class AsOthers(unittest.TestCase):
    """The forms of ``multiprocessing.Pool``."""

    def test_they_agree(self):
        import multiprocessing

        words = {"nodes": NODES, "files": os.path.join(HERE, "calls.py")}
        with neronet.Pool(2, **words) as ours, multiprocessing.Pool(2) as theirs:
            for ask in (
                lambda p: p.apply(divmod, (7, 3)),
                lambda p: p.apply(int, ("11",), {"base": 2}),
                lambda p: p.map(abs, range(-5, 0)),
                lambda p: p.map(abs, [], 3),
                lambda p: p.map(str, "abc", 2),
                lambda p: p.starmap(pow, [(2, 3), (3, 2)]),
                lambda p: list(p.imap(abs, (-n for n in range(9)), 4)),
                lambda p: sorted(p.imap_unordered(abs, range(-9, 0), 2)),
                lambda p: p.apply_async(abs, (-3,)).get(DEADLINE),
                lambda p: p.map_async(abs, [-3, 4]).get(DEADLINE),
                lambda p: p.starmap_async(max, [(1, 2)]).get(DEADLINE),
                lambda p: p.apply_async(abs, (-3,)).successful.__name__,
            ):
                self.assertEqual(ask(ours), ask(theirs))
            for ask in (
                lambda p: p.apply(math.sqrt, (-1,)),
                lambda p: p.map(math.sqrt, [1, -1]),
                lambda p: list(p.imap(math.sqrt, [1, -1])),
                lambda p: p.starmap(math.sqrt, [(1, 2)]),
                lambda p: p.apply_async(time.sleep, (5,)).get(0.1),
            ):
                kinds = []
                for one in (ours, theirs):
                    try:
                        ask(one)
                    except Exception as error:
                        kinds.append(type(error))
                self.assertEqual(len(kinds), 2)
                self.assertEqual(kinds[0], kinds[1])
            told = []
            ours.apply_async(math.sqrt, (-1,), error_callback=told.append)
            until("word of the error", lambda: told)
            self.assertIsInstance(told[0], ValueError)


if __name__ == "__main__":
    unittest.main()
