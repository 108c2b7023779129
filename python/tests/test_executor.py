"""What an executor refuses before anything is started."""

import unittest
from unittest import mock

import neronet
from neronet.client import Answer


def nodes(warden, listen="auto"):
    row = {"name": "hpc", "warden": warden, "cpus": 8, "gpus": []}
    answer = Answer({"nodes": [row], "default_node": "local"}, "nodes")
    values = {"values": [{"key": "nodes.hpc.listen", "value": listen}]}
    return mock.patch.multiple(
        "neronet.client.Client", __init__=lambda *_: None, nodes=lambda _: answer,
        call=lambda *_: values)


class Refused(unittest.TestCase):
    def test_hosts_that_no_way_leads_to_are_refused_by_name(self):
        for warden in ("oge", "generic"):
            told = "no way leads to workers on hpc(.|\n)*nodes.hpc.listen auto"
            with nodes(warden, "never"), self.assertRaisesRegex(neronet.NeronetError, told):
                neronet.Executor(2, "hpc")

    def test_a_scheduler_needs_a_number_of_workers(self):
        for warden in ("slurm", "oge", "generic"):
            with nodes(warden), self.assertRaisesRegex(ValueError, "name one"):
                neronet.Executor(nodes="hpc")


if __name__ == "__main__":
    unittest.main()
