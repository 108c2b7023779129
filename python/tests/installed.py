"""The installed packages: executed with the interpreter of the environment that pip put them into.

``NODES`` is a group of hosts; agents can only come from the wheel.
"""

import importlib
import os
import subprocess
import sys
import unittest

import neronet

NODES = os.environ["NODES"]


class Installed(unittest.TestCase):
    def test_everything_comes_from_the_environment(self):
        for name in ("neronet", "distributed_computing.api", "neronet.joblib_backend"):
            try:
                path = importlib.import_module(name).__file__
            except ModuleNotFoundError as error:
                self.assertEqual(error.name, "joblib")
                continue
            self.assertTrue(path.startswith(sys.prefix + os.sep), path)
        program = os.path.join(sys.prefix, "bin", "neroman")
        self.assertEqual(neronet._program.find_program(), program)
        # It is a program, and no script of Python.
        with open(program, "rb") as file:
            self.assertEqual(file.read(4), b"\x7fELF")
        said = subprocess.check_output([program, "--version"]).decode()
        self.assertIn(neronet.__version__, said)
        start_node = os.path.join(sys.prefix, "bin", "start_node")
        self.assertEqual(subprocess.call([start_node, "--help"], stdout=subprocess.DEVNULL), 0)

    def test_calls_are_executed_here_and_over_ssh(self):
        for nodes in ("local", NODES):
            with neronet.Executor(1, nodes) as pool:
                self.assertEqual(pool.submit(pow, 2, 10).result(120), 1024)


if __name__ == "__main__":
    unittest.main()
