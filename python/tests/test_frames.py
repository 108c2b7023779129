"""Frames between two ends."""

import pickle
import socket
import unittest
from unittest import mock

from neronet import _frames as frames
from neronet import _pickling


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
