"""What an executor refuses before anything is started."""

import unittest
from unittest import mock

import neronet
from neronet.client import Answer


def nodes(warden):
    row = {"name": "hpc", "warden": warden, "cpus": 8, "gpus": []}
    answer = Answer({"nodes": [row], "default_node": "local"}, "nodes")
    return mock.patch.multiple(
        "neronet.client.Client", __init__=lambda *_: None, nodes=lambda _: answer)


class Refused(unittest.TestCase):
    def test_a_scheduler_without_a_way_to_its_hosts_is_refused_by_name(self):
        with nodes("oge"), self.assertRaisesRegex(neronet.NeronetError, "hpc are not built yet"):
            neronet.Executor(2, "hpc")

    def test_a_scheduler_needs_a_number_of_workers(self):
        with nodes("slurm"), self.assertRaisesRegex(ValueError, "name one"):
            neronet.Executor(nodes="hpc")


if __name__ == "__main__":
    unittest.main()
