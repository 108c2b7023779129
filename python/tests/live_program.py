"""What is of the program itself, in every form of call; needs what ``live_executor.py`` needs.

``ByValue`` needs `cloudpickle` and `joblib`, ``Refused`` that there is no `cloudpickle`.
"""

import functools
import multiprocessing
import pickle
import sys
import time
import unittest

from distributed_computing import api

import neronet

DEADLINE = 120


class Point:
    def __init__(self, x):
        self.x = x

    def __eq__(self, other):
        return type(other) is Point and other.x == self.x


class Refusal(Exception):
    """An exception of the program."""


def square(x):
    return x * x


def point(x):
    return Point(x)


def refuse_three(x):
    if x == 3:
        raise Refusal("three")
    return x


def drained(results):
    """All results, with the class of an exception in its place."""
    had = []
    while True:
        try:
            had.append(next(results))
        except StopIteration:
            return had
        except Exception as error:
            had.append(type(error))


class Worker(api.WorkerInterface):
    def __init__(self, origin):
        self.origin = origin

    def run(self, one):
        if isinstance(one, Point):
            return point(self.origin.x + one.x)
        if callable(one):
            return one(self.origin)
        return refuse_three(one)


class ByValue(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.executor = neronet.Executor(2, cpus=0.1)

    @classmethod
    def tearDownClass(cls):
        cls.executor.shutdown()

    def test_calls_of_an_executor(self):
        submit = self.executor.submit
        self.assertEqual(submit(square, 3).result(DEADLINE), 9)
        self.assertEqual(submit(point, 3).result(DEADLINE), Point(3))
        self.assertEqual(submit(list, [Point(4)]).result(DEADLINE), [Point(4)])
        self.assertEqual(submit(functools.partial(square, 3)).result(DEADLINE), 9)
        self.assertEqual(submit(map(point, [1]).__next__).result(DEADLINE), Point(1))
        self.assertIs(submit(lambda: Point).result(DEADLINE), Point)
        self.assertEqual(submit(lambda: lambda x: x + 1).result(DEADLINE)(1), 2)
        error = submit(refuse_three, 3).exception(DEADLINE)
        self.assertEqual((type(error), error.args), (Refusal, ("three",)))
        self.assertIn("Refusal: three", str(error.__cause__))
        self.assertEqual(submit(lambda one: one.x, self.executor.put(Point(5))).result(DEADLINE), 5)

    def test_map_in_any_size_of_chunks(self):
        for size in (1, 2, 50):
            ask = functools.partial(self.executor.map, chunksize=size)
            self.assertEqual(list(ask(square, range(400))), [n * n for n in range(400)])
            self.assertEqual(list(ask(lambda x: Point(x), range(9))), [Point(n) for n in range(9)])
            with self.assertRaises(Refusal) as caught:
                list(ask(refuse_three, range(6)))
            self.assertIn("Refusal: three", str(caught.exception.__cause__))

    def test_a_function_that_prepares_workers(self):
        with neronet.Executor(1, cpus=0.1, init=lambda one: setattr(sys, "own", one),
                              initargs=(Point(2),)) as one:
            self.assertEqual(one.submit(lambda: sys.own).result(DEADLINE), Point(2))

    def test_joblib(self):
        import joblib
        import neronet.joblib_backend  # noqa: F401

        with joblib.parallel_config("neronet", n_jobs=2, cpus=0.1):
            ask = joblib.Parallel()
            self.assertEqual(ask(joblib.delayed(point)(n) for n in range(9)),
                             [Point(n) for n in range(9)])
            with self.assertRaises(Refusal):
                ask(joblib.delayed(refuse_three)(n) for n in range(9))

    def test_streams_agree_with_the_standard_library_behind_an_exception(self):
        with neronet.Pool(2, cpus=0.1) as ours, multiprocessing.get_context("fork").Pool(2) as theirs:
            self.assertEqual(ours.map(point, range(9)), theirs.map(point, range(9)))
            self.assertEqual(ours.starmap(lambda a, b: a * b, [(1, 2), (3, 4)]), [2, 12])
            want = drained(theirs.imap(refuse_three, range(6)))
            self.assertEqual(want, [0, 1, 2, Refusal, 4, 5])
            for size in (1, 4, 9):
                self.assertEqual(drained(ours.imap(refuse_three, range(6), size)), want)
                self.assertEqual(
                    set(drained(ours.imap_unordered(refuse_three, range(6), size))), set(want))
            # A result that cannot travel costs no other one of its chunk.
            had = drained(ours.imap(lambda n: n or (one for one in "x"), range(3), 3))
            self.assertEqual(had, [TypeError, 1, 2])

    def test_results_are_waited_for_as_in_the_standard_library(self):
        with neronet.Pool(1, cpus=0.1) as ours, multiprocessing.get_context("fork").Pool(1) as theirs:
            for one in (ours, theirs):
                for ask in (one.imap, one.imap_unordered):
                    results = ask(time.sleep, [1.5])
                    for timeout in (0, 0.05):
                        self.assertRaises(multiprocessing.TimeoutError, results.next, timeout)
                    self.assertIsNone(results.next(timeout=DEADLINE))
                    self.assertRaises(StopIteration, results.next, 1)
                    self.assertRaises(StopIteration, results.__next__)

    def test_a_process_of_multiprocessing(self):
        with multiprocessing.get_context("spawn").Pool(1) as one:
            self.assertEqual(one.apply(points_of_workers), [Point(0), Point(1)])

    def test_a_worker_of_distributed_computing_takes_functions_of_any_kind(self):
        with api.Pool(Worker, {"args": [Point(1)]}) as pool:
            self.assertEqual(pool.map([{"args": [lambda origin: Point(origin.x * 7)]}]), [Point(7)])


def points_of_workers():
    with neronet.Executor(1, cpus=0.1) as one:
        return list(one.map(point, range(2)))


class Named(unittest.TestCase):
    def test_classes_beside_a_worker_of_distributed_computing_travel_by_name(self):
        # The module of programs that import `multiprocessing`.
        sys.modules.pop("__mp_main__", None)
        items = [Point(1), 3, square_of_origin, Point(2)]
        with api.Pool(Worker, {"args": [Point(10)]}) as pool:
            had = drained(pool.imap([{"args": [one]} for one in items]))
        self.assertEqual(had, [Point(11), Refusal, 100, Point(12)])


def square_of_origin(origin):
    return square(origin.x)


class Refused(Named):
    def test_what_the_other_end_cannot_import_is_named(self):
        with neronet.Executor(1, cpus=0.1) as one, neronet.Pool(1, cpus=0.1) as pool:
            for name, ask in (
                ("square", lambda: one.submit(square, 3).result(DEADLINE)),
                ("square", lambda: list(one.map(square, range(9), chunksize=4))),
                ("square", lambda: one.submit(functools.partial(square, 3)).result(DEADLINE)),
                ("Point", lambda: one.submit(list, [Point(4)]).result(DEADLINE)),
                ("Point", lambda: one.put(Point(4))),
                ("point", lambda: pool.map(point, range(9))),
                ("point", lambda: next(pool.imap(point, range(9)))),
                ("point", lambda: neronet.Executor(1, cpus=0.1, init=point, initargs=(1,))),
                ("<lambda>", lambda: pool.apply(max, ([1, 2],), {"key": lambda n: n})),
            ):
                with self.subTest(name), self.assertRaisesRegex(
                        pickle.PicklingError, "cannot import '.*{}': .*cloudpickle".format(name)):
                    ask()
            # Data may have such words in it.
            self.assertEqual(one.submit(len, "__main__").result(DEADLINE), 8)


if __name__ == "__main__":
    unittest.main()
