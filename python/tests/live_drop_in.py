"""Programs for DistributedComputing with real programs; see ``live_executor.py``."""

import os
import subprocess
import sys
import unittest

from distributed_computing import api
from worker_of_original import Failing, Worker

import neronet


def item(n, what="value"):
    return {"args": [n], "kwargs": {"what": what}}


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

    def test_a_constructor_that_fails_everywhere_ends_the_pool(self):
        with self.assertRaisesRegex(neronet.PoolBroken, "no model here"):
            api.Pool(Failing, None, "secret", min_workers=1)

    def test_the_program_refuses_what_the_original_refused(self):
        for words, told in (
            (["-r", "x"], "head or address must be provided"),
            (["-r", "x", "-a", "h", "-s"], "server-only is only relevant for head nodes"),
            (["-d"], "-r/--password"),
            (["-d", "-s", "-r", "x"], "not built yet"),
        ):
            ran = subprocess.run([sys.executable, "-m", "distributed_computing.start_node"] + words,
                                 stderr=subprocess.PIPE)
            self.assertEqual(ran.returncode, 2)
            self.assertIn(told, ran.stderr.decode())

    def test_a_head_that_does_not_take_a_machine_is_told(self):
        ran = subprocess.run(
            [sys.executable, "-m", "distributed_computing.start_node", "-r", "x", "-a", "head"],
            stderr=subprocess.PIPE, env=dict(os.environ, NERONET_SSH="false"))
        self.assertEqual(ran.returncode, 4)
        self.assertIn("head did not take this machine", ran.stderr.decode())


if __name__ == "__main__":
    unittest.main()
