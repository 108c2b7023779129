"""Frames between two ends."""

import socket
import unittest

from neronet import _frames as frames


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


if __name__ == "__main__":
    unittest.main()
