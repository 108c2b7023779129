"""What ``concurrent.futures`` and ``multiprocessing.Pool`` promise, asked of them and of ours.

The first part has the facts of the standard library's own tests of executors; the second has
the same questions answered by all. Needs what ``live_executor.py`` needs.
"""

import collections
import concurrent.futures as futures
import gc
import math
import multiprocessing
import os
import threading
import time
import unittest
import weakref

import calls
import neronet

HERE = os.path.dirname(os.path.abspath(__file__))
DEADLINE = 120


def pool(workers=2, **words):
    return neronet.Executor(workers, "local", files=os.path.join(HERE, "calls.py"),
                            env={"PYTHONDONTWRITEBYTECODE": "1"}, **words)


class Argument:
    """Something that can be seen to be freed."""


class Executors(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.executor = pool()

    @classmethod
    def tearDownClass(cls):
        cls.executor.shutdown()

    def test_submit(self):
        self.assertEqual(self.executor.submit(pow, 2, 8).result(DEADLINE), 256)
        self.assertEqual(self.executor.submit(int, "11", base=2).result(DEADLINE), 3)
        # Names that an executor could take for its own.
        future = self.executor.submit(calls.words, 1, self=2, fn=3, args=4)
        self.assertEqual(future.result(DEADLINE), ((1,), {"self": 2, "fn": 3, "args": 4}))

    def test_map(self):
        self.assertEqual(list(self.executor.map(pow, range(10), range(10))),
                         list(map(pow, range(10), range(10))))
        for size in (1, 3, 40):
            self.assertEqual(list(self.executor.map(pow, range(40), range(40), chunksize=size)),
                             list(map(pow, range(40), range(40))))
        with self.assertRaises(ValueError):
            self.executor.map(pow, [1], [1], chunksize=0)

    def test_map_exception(self):
        results = self.executor.map(divmod, [1, 1, 1, 1], [2, 3, 0, 5])
        self.assertEqual(next(results), (0, 1))
        self.assertEqual(next(results), (0, 1))
        with self.assertRaises(ZeroDivisionError):
            next(results)

    def test_map_timeout(self):
        results = []
        with self.assertRaises(futures.TimeoutError):
            for one in self.executor.map(time.sleep, [0, 0, 3], timeout=1.5):
                results.append(one)
        self.assertEqual(results, [None, None])

    def test_arguments_are_freed(self):
        argument = Argument()
        freed = weakref.ref(argument)
        argument.lock = threading.Lock()
        with self.assertRaises(Exception):
            # A lock cannot travel.
            self.executor.submit(calls.words, argument).result(DEADLINE)
        future = self.executor.submit(calls.words, calls.Odd)
        future.result(DEADLINE)
        del argument
        end = time.monotonic() + DEADLINE
        while freed() is not None and time.monotonic() < end:
            gc.collect()
            time.sleep(0.01)
        self.assertIsNone(freed())

    def test_traceback_of_the_worker(self):
        with self.assertRaises(RuntimeError) as caught:
            self.executor.submit(calls.fail_to_prepare).result(DEADLINE)
        self.assertIsNone(caught.exception.__context__)
        self.assertIn("raise RuntimeError(\"no licence here\")", str(caught.exception.__cause__))

    def test_wait(self):
        slow = self.executor.submit(time.sleep, 2)
        quick = self.executor.submit(abs, -1)
        done, pending = futures.wait([slow, quick], return_when=futures.FIRST_COMPLETED)
        self.assertEqual((done, pending), ({quick}, {slow}))
        done, pending = futures.wait([slow, quick], timeout=0.01)
        self.assertEqual((done, pending), ({quick}, {slow}))
        failing = self.executor.submit(math.sqrt, -1)
        done, pending = futures.wait([slow, failing], return_when=futures.FIRST_EXCEPTION)
        self.assertEqual((done, pending), ({failing}, {slow}))
        done, pending = futures.wait([slow, failing])
        self.assertEqual((done, pending), ({slow, failing}, set()))

    def test_as_completed(self):
        slow = self.executor.submit(time.sleep, 1)
        quick = [self.executor.submit(abs, -n) for n in range(3)]
        order = list(futures.as_completed([slow] + quick + quick))
        self.assertEqual(len(order), 4)
        self.assertIs(order[-1], slow)
        held = self.executor.submit(time.sleep, 2)
        with self.assertRaises(futures.TimeoutError):
            list(futures.as_completed([held], timeout=0.05))
        held.result(DEADLINE)

    def test_callbacks(self):
        told = []
        future = self.executor.submit(pow, 3, 2)
        future.add_done_callback(lambda one: told.append(one.result()))
        future.result(DEADLINE)
        futures.wait([future])
        self.executor.submit(abs, 1).result(DEADLINE)
        future.add_done_callback(lambda one: told.append(-one.result()))
        self.assertEqual(told, [9, -9])

    def test_saturation(self):
        asked = [self.executor.submit(calls.words, n) for n in range(4000)]
        self.assertEqual([one.result(DEADLINE)[0][0] for one in asked], list(range(4000)))


class Shutdowns(unittest.TestCase):
    def test_number_of_workers(self):
        for count in (0, -1):
            with self.assertRaises(ValueError):
                pool(count)

    def test_a_pool_that_is_shut_finishes_and_refuses(self):
        one = pool(1)
        asked = [one.submit(time.sleep, 0.1) for _ in range(5)]
        one.shutdown(wait=False)
        with self.assertRaises(RuntimeError):
            one.submit(abs, 1)
        self.assertEqual([future.result(DEADLINE) for future in asked], [None] * 5)
        one.shutdown()
        one.shutdown(wait=True, cancel_futures=True)

    def test_cancel_futures(self):
        one = pool(1)
        asked = [one.submit(time.sleep, 0.2) for _ in range(50)]
        asked[0].result(DEADLINE)
        one.shutdown(cancel_futures=True)
        self.assertTrue(all(future.done() for future in asked))
        cancelled = [future for future in asked if future.cancelled()]
        self.assertTrue(0 < len(cancelled) < 50)
        self.assertIs(asked[-1], cancelled[-1])

    def test_a_forgotten_pool_does_its_work_and_is_collected(self):
        one = pool(1)
        (run,) = one.runs
        gone = weakref.ref(one)
        results = one.map(calls.after, [0.1] * 5, range(5))
        del one
        gc.collect()
        self.assertEqual(list(results), list(range(5)))
        del results
        end = time.monotonic() + DEADLINE
        while gone() is not None and time.monotonic() < end:
            gc.collect()
            time.sleep(0.01)
        self.assertIsNone(gone())
        client = neronet.connect()
        with self.assertRaisesRegex(neronet.BadInput, "removed"):
            while time.monotonic() < end:
                client.status(run)
                time.sleep(0.1)


def outcome(ask, one):
    """What it answers: a value, or the kind of an exception with its text."""
    try:
        return ask(one)
    except Exception as error:
        return type(error), str(error)


#: Of everything that has ``submit`` and ``map``.
EXECUTORS = (
    lambda p: p.submit(abs, -3).result(DEADLINE),
    lambda p: p.submit(int, "z", 36).result(DEADLINE),
    lambda p: p.submit(int, "11", base=2).result(DEADLINE),
    lambda p: p.submit(int, "q").result(DEADLINE),
    lambda p: p.submit(calls.words, *range(3), a=None).result(DEADLINE),
    lambda p: p.submit(calls.words, calls.words).result(DEADLINE),
    lambda p: p.submit(calls.gives, None).result(DEADLINE),
    lambda p: p.submit(calls.gives, ()).result(DEADLINE),
    lambda p: p.submit(calls.gives, ValueError("a value")).result(DEADLINE).args,
    lambda p: p.submit(calls.gives, collections.OrderedDict(a=1)).result(DEADLINE),
    lambda p: p.submit(calls.gives, float("inf")).result(DEADLINE),
    lambda p: p.submit(calls.gives, b"\0" * 3_000_000).result(DEADLINE),
    lambda p: p.submit(calls.raise_falsy).exception(DEADLINE).args,
    lambda p: p.submit(calls.fail_to_prepare).exception(DEADLINE).args,
    lambda p: p.submit(abs).exception(DEADLINE).args,
    lambda p: p.submit(abs, -3).done() in (True, False),
    lambda p: list(p.map(abs, range(-300, 0))),
    lambda p: list(p.map(pow, [2, 3], [4, 5, 6])),
    lambda p: list(p.map(abs, [])),
    lambda p: list(p.map(math.sqrt, [4, -1])),
    lambda p: next(iter(p.map(math.sqrt, [4, -1]))),
    lambda p: list(p.map(str, "abc", chunksize=2)),
    lambda p: list(p.map(divmod, [1], [0], chunksize=5)),
    lambda p: type(p.map(abs, [1])).__name__,
)

#: Of everything that has the forms of ``multiprocessing.Pool``.
POOLS = (
    lambda p: p.apply(divmod, (7, 3)),
    lambda p: p.apply(int, ("11",), {"base": 2}),
    lambda p: p.apply(int, ("q",)),
    lambda p: p.map(abs, range(-50, 0)),
    lambda p: p.map(abs, [], 3),
    lambda p: p.map(str, "abc", 2),
    lambda p: p.map(math.sqrt, [1, -1]),
    lambda p: p.starmap(pow, [(2, 3), (3, 2)]),
    lambda p: p.starmap(math.sqrt, [(1, 2)]),
    lambda p: list(p.imap(abs, (-n for n in range(90)), 4)),
    lambda p: list(p.imap(math.sqrt, [1, -1])),
    lambda p: next(p.imap(abs, [-1])),
    lambda p: sorted(p.imap_unordered(abs, range(-90, 0), 2)),
    lambda p: p.imap_unordered(abs, [1], 0),
    lambda p: p.imap(abs, [1], 0),
    lambda p: p.apply_async(abs, (-3,)).get(DEADLINE),
    lambda p: p.apply_async(time.sleep, (3,)).get(0.05),
    lambda p: p.map_async(abs, [-3, 4]).get(DEADLINE),
    lambda p: p.map_async(math.sqrt, [-1]).get(DEADLINE),
    lambda p: p.starmap_async(max, [(1, 2)]).get(DEADLINE),
    lambda p: asked(p.apply_async(abs, (-3,))),
    lambda p: asked(p.apply_async(math.sqrt, (-1,))),
    lambda p: asked(p.map_async(abs, [])),
    lambda p: p.join(),
    lambda p: called(p, abs, -3),
    lambda p: called(p, math.sqrt, -1),
)


def asked(result):
    result.wait(DEADLINE)
    return result.ready(), result.successful()


def called(one, function, item):
    told = []
    result = one.apply_async(function, (item,), callback=told.append,
                             error_callback=lambda error: told.append(repr(error)))
    result.wait(DEADLINE)
    end = time.monotonic() + DEADLINE
    while not told and time.monotonic() < end:
        time.sleep(0.01)
    return told


class AsOthers(unittest.TestCase):
    def test_executors_agree(self):
        with pool() as ours, futures.ThreadPoolExecutor(2) as theirs:
            for n, ask in enumerate(EXECUTORS):
                with self.subTest(n):
                    self.assertEqual(outcome(ask, ours), outcome(ask, theirs))

    def test_pools_agree(self):
        words = {"nodes": "local", "files": os.path.join(HERE, "calls.py")}
        with neronet.Pool(2, **words) as ours, multiprocessing.Pool(2) as theirs:
            for n, ask in enumerate(POOLS):
                with self.subTest(n):
                    self.assertEqual(outcome(ask, ours), outcome(ask, theirs))
        for ask in (lambda p: p.apply(abs, (1,)), lambda p: p.map(abs, [1]),
                    lambda p: p.imap(abs, [1]), lambda p: p.apply_async(abs, (1,))):
            with self.subTest("closed"):
                self.assertEqual(outcome(ask, ours), outcome(ask, theirs))


if __name__ == "__main__":
    unittest.main()
