"""Programs for DistributedComputing with real programs; see ``live_executor.py``."""

import datetime
import os
import subprocess
import sys
import tempfile
import unittest
from concurrent import futures

from distributed_computing import api
from live_executor import until
from worker_of_original import Failing, Worker

import neronet

EXAMPLE = os.path.join(os.path.dirname(os.path.abspath(__file__)),
                       "../../examples/distributed_computing")


def item(n, what="value"):
    return {"args": [n], "kwargs": {"what": what}}


def drained(results, error, mark):
    """All results, with the mark in the place of each exception."""
    had = []
    while True:
        try:
            had.append(next(results))
        except StopIteration:
            return had
        except error:
            had.append(mark)


class Original(unittest.TestCase):
    def test_a_pool_as_in_its_documentation(self):
        terminate, wait = api.start_head_node("secret", 6379)
        self.assertTrue(api.is_server_running() and api.is_client_running())
        init = {"args": [100], "kwargs": {"factor": 2}}
        with api.Pool(Worker, init, "secret", min_workers=1) as pool:
            items = [item(n) for n in range(50)]
            want = [100 + 2 * n for n in range(50)]
            self.assertEqual(pool.map(items), want)
            self.assertEqual(sorted(pool.imap_unordered(items)), want)
            # The first item is slower than the others: none is lost.
            slow = [item(n, "slow") for n in range(6)]
            self.assertEqual(list(pool.imap(slow)), want[:6])
            self.assertEqual(pool.map([item(1, "none")]), [None])
            with self.assertRaisesRegex(ValueError, "no such item: 3"):
                pool.map([item(3, "raise")])
            pool.wait_for_workers(10_000, timeout=0.1)
            # The original takes nothing else.
            pool.wait_for_workers(10_000, timeout=datetime.timedelta(seconds=0.1))
            self.assertGreaterEqual(pool.get_workers_count(), 1)
            self.assertEqual(pool.get_nodes_count(), 1)
            pool.update_workers({"args": [1], "kwargs": {"a": 2}})
            self.assertEqual(pool.map([item(0, "updates")]), [[((1,), {"a": 2})]])
            running = pool.imap([item(0, "slow") for _ in range(500)])
        # Leaving the block cancels.
        with self.assertRaises(neronet.PoolBroken):
            list(running)
        terminate()
        wait()
        self.assertFalse(api.is_server_running() or api.is_client_running())

    def test_an_exception_of_an_item_costs_no_other_and_executes_nothing_again(self):
        with tempfile.TemporaryDirectory() as folder, api.Pool(Worker, {"args": [0]}) as pool:
            noted = os.path.join(folder, "noted")
            items = [item(n) for n in range(6)]
            items[3] = item(noted, "times out")
            for stream, exact in ((pool.imap, list), (pool.imap_unordered, sorted)):
                self.assertEqual(exact(drained(stream(items), TimeoutError, 9)),
                                 exact([0, 1, 2, 9, 4, 5]))
            with open(noted) as file:
                self.assertEqual(len(file.readlines()), 2)

    def test_an_item_that_takes_too_long_is_executed_twice_then_fails_alone(self):
        with tempfile.TemporaryDirectory() as folder, \
                api.Pool(Worker, {"args": [0]}, job_timeout=1) as pool:
            noted = os.path.join(folder, "noted")
            results = pool.imap([item(noted, "hangs"), item(1)])
            self.assertEqual(drained(results, futures.TimeoutError, "late"), ["late", 1])
            with open(noted) as file:
                self.assertEqual(len(file.readlines()), 2)

    def test_a_constructor_that_fails_everywhere_ends_the_pool(self):
        with self.assertRaisesRegex(neronet.PoolBroken, "no model here"):
            api.Pool(Failing, None, "secret", min_workers=1)

    def test_the_program_refuses_what_the_original_refused(self):
        for words, told in (
            (["-r", "x"], "head or address must be provided"),
            (["-r", "x", "-a", "h", "-s"], "server-only is only relevant for head nodes"),
            (["-d"], "-r/--password"),
        ):
            ran = subprocess.run([sys.executable, "-m", "distributed_computing.start_node"] + words,
                                 stderr=subprocess.PIPE)
            self.assertEqual(ran.returncode, 2)
            self.assertIn(told, ran.stderr.decode())

    def test_a_program_prints_what_it_prints_with_the_original(self):
        with open(os.path.join(EXAMPLE, "darts.txt")) as file:
            printed_by_the_original = file.read()
        # Its worker is a class of the program itself.
        ran = subprocess.run([sys.executable, os.path.join(EXAMPLE, "darts.py")],
                             stdout=subprocess.PIPE)
        self.assertEqual((ran.returncode, ran.stdout.decode()), (0, printed_by_the_original))

    def test_a_server_alone_takes_no_work_while_it_runs(self):
        server = subprocess.Popen(
            [sys.executable, "-m", "distributed_computing.start_node", "-d", "-s", "-r", "x"],
            stdout=subprocess.PIPE)
        with server:
            self.assertIn(b"takes no work", server.stdout.readline())
            self.assertTrue(api.is_server_running())
            self.assertFalse(api.is_client_running())
            with self.assertRaisesRegex(neronet.NeronetError, "no machine takes work"):
                api.Pool(Worker, None, "x")
            again = subprocess.run(
                [sys.executable, "-m", "distributed_computing.start_node", "-d", "-s", "-r", "x"],
                stdout=subprocess.PIPE)
            self.assertEqual(again.returncode, 0)
            self.assertIn(b"A server is already running on this machine.", again.stdout)
            # A node beside it.
            terminate, wait = api.start_node("x")
            self.assertTrue(api.is_client_running())
            terminate()
            wait()
            self.assertFalse(api.is_client_running())
            server.kill()
        self.assertFalse(api.is_server_running())

    def test_a_head_that_does_not_take_a_machine_is_told(self):
        ran = subprocess.run(
            [sys.executable, "-m", "distributed_computing.start_node", "-r", "x", "-a", "head"],
            stderr=subprocess.PIPE, env=dict(os.environ, NERONET_SSH="false"))
        self.assertEqual(ran.returncode, 4)
        self.assertIn("head did not take this machine", ran.stderr.decode())


@unittest.skipUnless("NODES" in os.environ, "needs another machine")
class Head(unittest.TestCase):
    def test_workers_of_a_server_alone_are_on_other_machines(self):
        terminate, wait = api.start_server("x")
        with api.Pool(Worker, {"args": [1]}, "x", min_workers=1) as pool:
            self.assertEqual(pool.map([item(2)]), [3])
            self.assertEqual(pool._executor.nodes, [os.environ["NODES"]])
        terminate()
        wait()

    def test_a_machine_that_joins_while_items_wait_takes_some(self):
        client, node = neronet.connect(), os.environ["NODES"]
        client.call("node", "rm", node, "--yes")
        with api.Pool(Worker, {"args": [1]}, "x", min_workers=1) as pool:
            # More than can be done meanwhile.
            results = pool.imap_unordered([item(0, "slow") for _ in range(5000)])
            self.assertEqual(next(results), 1)
            self.assertEqual(pool.get_nodes_count(), 1)
            client.add_node(node, node, ["--warden", "none"])
            until("workers on both machines", lambda: pool.get_nodes_count() == 2)


if __name__ == "__main__":
    unittest.main()
