"""The client with real programs: needs ``NERONET_PROGRAM`` and an empty ``NERONET_HOME``.

The cases are executed in the order of their names, on one home.
"""

import os
import tempfile
import textwrap
import unittest

import neronet

TRAIN = """
import neronet
run = neronet.run
assert run.is_run and run.parameters["lr"] in (0.1, 0.5), run.parameters
assert 0 < run.time_left <= 3600, run.time_left
assert run.folder and run.experiment and run.id.endswith(".1")
for step in range(1, 11):
    neronet.log(loss=run.parameters["lr"] / step, step=step)
print("done with", run.name)
"""

YAML = """
collection: sweep
command: python3 train.py
parameters: {lr: [0.1, 0.5]}
resources: {time: 1h}
"""


class Story(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        for name, text in (("train.py", TRAIN), ("neronet.yaml", YAML)):
            with open(os.path.join(cls.folder.name, name), "w", encoding="utf-8") as file:
                file.write(textwrap.dedent(text))
        cls.nn = neronet.connect()

    @classmethod
    def tearDownClass(cls):
        cls.nn.call("daemon", "stop")
        cls.folder.cleanup()

    def test_1_experiments_run_and_report(self):
        added = self.nn.add(self.folder.name)
        self.assertEqual([row["what"] for row in added], ["added", "added"])
        started = self.nn.start(added)
        self.assertEqual(started.started, 2, started)
        ended = self.nn.wait(started, timeout=120)
        self.assertTrue(ended.finished, [row["reason"] for row in ended])
        best = self.nn.results("all", best="min:loss")
        self.assertEqual(best[0]["parameters"]["lr"], 0.1)
        self.assertEqual(best.flat()[0]["loss"], 0.01)
        long = self.nn.metrics(best[0], "loss").long()
        self.assertEqual(long.column("step"), [float(n) for n in range(1, 11)])

    def test_2_what_it_printed(self):
        self.assertIn("done with", self.nn.logs(1))
        self.assertEqual(list(self.nn.follow(2)), self.nn.logs(2).splitlines())
        self.assertEqual(self.nn.show(1)["experiment"]["state"], "finished")

    def test_3_a_start_of_nothing_says_why(self):
        started = self.nn.start("all")
        self.assertEqual(started.started, 0)
        self.assertTrue(all(row["skipped"] for row in started), started)
        self.assertEqual(started.runs, [])

    def test_4_mistakes_are_exceptions_and_change_nothing(self):
        with self.assertRaises(neronet.BadInput) as caught:
            self.nn.status("loss=>1")
        self.assertIn(">=", str(caught.exception))
        with self.assertRaises(neronet.BadInput):
            self.nn.start(999)
        with self.assertRaises(neronet.BadInput):
            self.nn.logs("no-such-name")
        self.assertEqual(len(self.nn.status()), 2)

    def test_5_rules_and_watch(self):
        self.nn.add_rule("all", "abort: loss > 5")
        self.assertIn("loss > 5", [row["text"] for row in self.nn.rules()])
        seen = list(self.nn.watch())
        self.assertEqual({row["state"] for row in seen[-1]}, {"finished"})
        again = self.nn.restart(1)
        self.assertEqual(again.runs, ["1.2"])
        self.nn.abort(1)
        self.assertNotIn(self.nn.wait(1, timeout=60)[0]["state"], ("queued", "running"))


if __name__ == "__main__":
    unittest.main()
