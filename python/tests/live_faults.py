"""Bad input and faults, with real processes; needs what ``live_executor.py`` needs."""

import glob
import os
import signal
import subprocess
import sys
import types
import unittest
from unittest import mock

import calls
import neronet
from live_executor import DEADLINE, HERE, pool, process_of, until


#: Stands for an interpreter of another age.
OLD = """#!/bin/sh
shift
exec python3 -c 'import sys; sys.version_info = (3, 6, 0); exec(sys.argv.pop(1))' "$@"
"""


class Calls(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.pool = pool(1)

    @classmethod
    def tearDownClass(cls):
        cls.pool.shutdown()

    def goes_on(self):
        self.assertEqual(self.pool.submit(abs, -1).result(DEADLINE), 1)

    def test_a_module_that_is_not_there(self):
        module = types.ModuleType("only_here")
        exec("def f(): pass", module.__dict__)
        with mock.patch.dict(sys.modules, only_here=module):
            with self.assertRaisesRegex(ModuleNotFoundError, "only_here"):
                self.pool.submit(module.f).result(DEADLINE)
        self.goes_on()

    def test_exceptions_that_cannot_travel_are_told_by_name(self):
        # A class of no module travels with cloudpickle alone.
        for function, told in ((calls.raise_local, "of the worker alone"),
                               (calls.raises_what_cannot_be_read, "Unreadable: cannot be read")):
            with self.assertRaisesRegex(Exception, told) as caught:
                self.pool.submit(function).result(DEADLINE)
            self.assertIn(function.__name__, str(caught.exception.__cause__))
        # What the worker can send and this process cannot read.
        with self.assertRaisesRegex(KeyError, "refused"):
            self.pool.submit(calls.Stranger).result(DEADLINE)
        self.goes_on()

    def test_a_segmentation_fault_is_told_as_one(self):
        with self.assertRaises(neronet.WorkerDied) as caught:
            self.pool.submit(calls.segfault).result(DEADLINE)
        self.assertEqual(caught.exception.signal, signal.SIGSEGV)
        self.goes_on()

    def test_forks_of_a_worker(self):
        pid = self.pool.submit(os.getpid).result(DEADLINE)
        self.assertEqual(self.pool.submit(calls.processes, 5).result(DEADLINE), [5, 4, 3, 2, 1])
        # The child leaves its call as the worker does, and ends there.
        child = self.pool.submit(calls.fork_and_return).result(DEADLINE)
        self.assertGreater(child, 0)
        self.assertEqual(self.pool.submit(os.getpid).result(DEADLINE), pid)

    def test_hundreds_of_megabytes(self):
        text = "x" * (100 << 20)
        self.assertEqual(self.pool.submit(calls.length, text).result(DEADLINE), len(text))


class Pools(unittest.TestCase):
    def test_an_interpreter_that_is_not_there(self):
        with pool(1, python="/nowhere/python") as one:
            with self.assertRaisesRegex(neronet.PoolBroken, "no worker can be started") as caught:
                one.submit(abs, -1).result(DEADLINE)
        self.assertIn("/nowhere/python", str(caught.exception))

    def test_an_interpreter_that_is_too_old(self):
        program = os.path.join(os.environ["NERONET_HOME"], "old_python")
        with open(program, "w") as file:
            file.write(OLD)
        os.chmod(program, 0o755)
        with pool(1, python=program) as one:
            with self.assertRaisesRegex(neronet.PoolBroken, "no worker can be started") as caught:
                one.submit(abs, -1).result(DEADLINE)
        self.assertIn("Python 3.8", str(caught.exception))

    def test_another_interpreter(self):
        beside = glob.glob(os.path.join(sys.base_prefix, "..", "*", "bin", "python3.*[0-9]"))
        others = [path for path in sorted(beside + glob.glob("/usr/bin/python3.*[0-9]"))
                  if 8 <= int(path.rpartition(".")[2]) != sys.version_info[1]]
        if not others:
            self.skipTest("there is no other Python here")
        with pool(1, python=others[0]) as one:
            self.assertEqual(one.submit(pow, 2, 5).result(DEADLINE), 32)

    def test_a_worker_that_ignores_its_end_is_killed(self):
        path = os.path.join(os.environ["NERONET_HOME"], "stubborn")
        one = pool(1)
        future = one.submit(calls.stubborn, path)
        until("the call", lambda: os.path.exists(path))
        pid = process_of(one._links[0])
        one.terminate()
        with self.assertRaises(neronet.PoolBroken):
            future.result(DEADLINE)
        self.assertFalse(os.path.exists("/proc/{}".format(pid)))

    def test_a_worker_is_started_again_however_often_that_failed(self):
        with pool(1) as one:
            one.wait_for_workers(1, DEADLINE)
            restart = one._client.restart
            full = neronet.Failed("no space left")
            with mock.patch.object(one._client, "restart") as asked:
                failing = iter([full] * 4)

                def restarted(picked):
                    for error in failing:
                        raise error
                    return restart(picked)

                asked.side_effect = restarted
                os.kill(process_of(one._links[0]), signal.SIGKILL)
                self.assertEqual(one.submit(abs, -1).result(DEADLINE), 1)
            # Somebody removed its experiment: no worker will ever come.
            with mock.patch.object(one._client, "restart",
                                   side_effect=neronet.BadInput("there is no experiment")):
                os.kill(process_of(one._links[0]), signal.SIGKILL)
                with self.assertRaisesRegex(neronet.PoolBroken, "there is no experiment"):
                    one.submit(abs, -1).result(DEADLINE)

    def test_a_fork_of_the_owner_leaves_the_pool_alone(self):
        with pool(1) as one:
            one.submit(abs, -1).result(DEADLINE)
            child = os.fork()
            if not child:
                code = 1
                try:
                    one.submit(abs, -1)
                except neronet.PoolBroken:
                    code = 0
                finally:
                    # What Python does at the end of a process.
                    one._close()
                    os._exit(code)
            self.assertEqual(os.waitpid(child, 0)[1], 0)
            self.assertEqual(one.submit(abs, -2).result(DEADLINE), 2)


#: A program that waits for calls; its first line tells that they are executed.
OWNER = """
import os, sys, threading, time
sys.path.insert(0, {here!r})
import live_executor as live, calls
with live.pool(1) as one:
    results = one.map(calls.slow_note, [{path!r}] * 3, range(3), [0.0, 600, 600])
    next(results)
    print(one.runs[0], flush=True)
    list(results)
"""


class Interrupted(unittest.TestCase):
    def owner(self, name):
        path = os.path.join(os.environ["NERONET_HOME"], name)
        owner = subprocess.Popen([sys.executable, "-c", OWNER.format(here=HERE, path=path)],
                                 stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                 start_new_session=True)
        return owner, owner.stdout.readline().strip().decode()

    def test_ctrl_c_in_a_map_raises_and_ends_the_workers(self):
        owner, run = self.owner("once")
        os.killpg(owner.pid, signal.SIGINT)
        _, said = owner.communicate(timeout=DEADLINE)
        self.assertIn(b"KeyboardInterrupt", said)
        self.assertNotEqual(owner.returncode, 0)
        # The run ended and was removed before the program did.
        with self.assertRaisesRegex(neronet.BadInput, "removed"):
            neronet.connect().status(run)

    def test_ctrl_c_twice_ends_the_program(self):
        owner, run = self.owner("twice")

        def has_ended():
            os.killpg(owner.pid, signal.SIGINT)
            return owner.poll() is not None

        # The second one meets the end of the pool, whose call does not end by itself.
        until("end of the program", has_ended)
        owner.communicate()
        self.assertNotEqual(owner.returncode, 0)


if __name__ == "__main__":
    unittest.main()
