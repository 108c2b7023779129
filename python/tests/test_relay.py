"""The relay between an owner and a worker on another machine."""

import os
import select
import socket
import subprocess
import sys
import tempfile
import unittest


class Relay(unittest.TestCase):
    def test_it_ends_with_a_worker_that_left_something_unread(self):
        with tempfile.TemporaryDirectory() as folder, socket.socket(socket.AF_UNIX) as listener:
            path = os.path.join(folder, "worker")
            listener.bind(path)
            listener.listen(1)
            relay = subprocess.Popen([sys.executable, "-m", "neronet._relay", path],
                                     stdin=subprocess.PIPE, stdout=subprocess.PIPE)
            with relay:
                worker, _ = listener.accept()
                relay.stdin.write(b"unread")
                relay.stdin.flush()
                select.select([worker], [], [])
                worker.sendall(b"the last result")
                worker.close()
                self.assertEqual(relay.stdout.read(), b"the last result")


if __name__ == "__main__":
    unittest.main()
