"""Private folders of pools and workers."""

import os
import subprocess
import sys
import tempfile
import unittest
from unittest import mock

from neronet import _private


class Private(unittest.TestCase):
    def test_folders_of_killed_processes_are_removed_and_no_others(self):
        program = ("import os; from neronet import _private; print(_private.make('nero-t-')[0], "
                   "flush=True); os.kill(os.getpid(), 9)")
        with tempfile.TemporaryDirectory() as place, mock.patch.object(tempfile, "tempdir", place):
            killed = subprocess.run([sys.executable, "-c", program], stdout=subprocess.PIPE,
                                    env=dict(os.environ, TMPDIR=place))
            left = killed.stdout.decode().strip()
            self.assertTrue(left.startswith(place) and os.path.isdir(left))
            # Just made, or of another program.
            unlocked = tempfile.mkdtemp(prefix="nero-t-")
            first, lock = _private.make("nero-t-")
            second, lock_of_it = _private.make("nero-t-")
            with lock, lock_of_it:
                self.assertFalse(os.path.exists(left))
                for folder in (unlocked, first, second):
                    self.assertTrue(os.path.isdir(folder))


if __name__ == "__main__":
    unittest.main()
