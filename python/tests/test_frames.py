"""Frames between two ends."""

import pickle
import socket
import unittest
from concurrent.futures import Future
from unittest import mock

from neronet import _frames as frames
from neronet import _pickling
from neronet._calls import _Call, _Link
from neronet._schedule import Schedule


class Frames(unittest.TestCase):
    def test_what_is_about_memory_is_no_further_frame(self):
        ends = socket.socketpair()
        one, other = (frames.Channel(end, shares_memory=True) for end in ends)
        result = frames.Frame(frames.RESULT, 1, 0, b"one", ())
        about_memory = frames._numbered(frames._GIVEN_UP, [])
        one.send_all([result, about_memory, result._replace(number=2), result._replace(number=3)])
        self.assertEqual(other.receive().number, 1)
        # An owner that waits for more before it sends would wait for ever.
        self.assertFalse(other.has_more())
        self.assertTrue(other.wait(0))
        self.assertIsNone(other.receive_one())
        self.assertTrue(other.has_more())
        self.assertEqual([other.receive().number for _ in range(2)], [2, 3])
        self.assertFalse(other.has_more() or other.wait(0))
        one.close()
        other.close()


def _unreadable():
    raise ImportError("no module named torch")


class Unreadable:
    def __reduce__(self):
        return _unreadable, ()


class Outcomes(unittest.TestCase):
    def test_a_result_that_cannot_be_read_here_fails_its_call_alone(self):
        values = [1, Unreadable(), [2, "two"], None]
        body, buffers = _pickling.pack_outcomes(0.5, values, {3: ValueError("three")})
        took, outcomes = frames.Frame(frames.RESULTS, 1, 0, body, buffers).load()
        told = [(value, repr(error)) for value, error in _pickling.each_outcome(outcomes)]
        self.assertEqual(took, 0.5)
        self.assertEqual(told[0], (1, "None"))
        self.assertIn("no module named torch", told[1][1])
        self.assertEqual(told[2], ([2, "two"], "None"))
        self.assertIn("three", told[3][1])

    def test_large_values_among_several_travel_beside_the_body(self):
        value = pickle.PickleBuffer(bytearray(b"x" * 100_000))
        body, buffers = _pickling.pack_outcomes(0.0, [value, 2], {})
        self.assertLess(len(body), 1000)
        _, outcomes = frames.Frame(frames.RESULTS, 1, 0, body, buffers).load()
        told = list(_pickling.each_outcome(outcomes))
        self.assertEqual(bytes(told[0][0]), b"x" * 100_000)


    def test_calls_that_were_executed_together_are_executed_once_whatever_comes_back(self):
        schedule = Schedule()
        calls = [_Call(Future(), len, (), {}, None) for _ in range(3)]
        damaged = frames.Frame(frames.RESULTS, 1, 0, b"no pickle", ())
        schedule._finish(_Link(1, "1.1"), calls, damaged)
        self.assertFalse(schedule._waiting)
        for call in calls:
            self.assertIsInstance(call.future.exception(0), pickle.UnpicklingError)


class OtherPythons(unittest.TestCase):
    def test_code_of_another_version_is_refused_by_name_before_it_is_read(self):
        class Code:
            def __reduce__(self):
                return _read, ()

        packed = pickle.dumps(_pickling._ByValue(Code()))
        self.assertEqual(pickle.loads(packed), "read")
        with mock.patch.object(_pickling.sys, "version_info", (3, 99, 1)):
            other = pickle.dumps(_pickling._ByValue(Code()))
        _times.clear()
        with self.assertRaisesRegex(RuntimeError, r"from Python 3\.99 to 3\.\d+: put it into"):
            pickle.loads(other)
        self.assertEqual(_times, [])


_times = []


def _read():
    _times.append(1)
    return "read"


if __name__ == "__main__":
    unittest.main()
