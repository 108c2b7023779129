"""``neronet.log`` and ``neronet.run``, without a daemon."""

import json
import os
import subprocess
import sys
import tempfile
import unittest

SOURCE = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "src")


def logged(program, **env):
    """Executes a program; returns the lines that it logged."""
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "metrics.jsonl")
        clean = {name: value for name, value in os.environ.items() if name != "SLURM_PROCID"}
        clean.update(env, NERO_METRICS=path, PYTHONPATH=SOURCE)
        subprocess.run([sys.executable, "-c", program], env=clean, check=True)
        if not os.path.exists(path):
            return []
        with open(path, encoding="utf-8") as file:
            return [json.loads(line) for line in file]


class Logging(unittest.TestCase):
    def test_a_call_appends_one_object(self):
        program = "import neronet; neronet.log(loss=0.5, step=3); neronet.log({'val/acc': 1})"
        self.assertEqual(logged(program), [{"loss": 0.5, "step": 3}, {"val/acc": 1}])

    def test_values_of_libraries_are_numbers(self):
        program = (
            "import neronet\n"
            "class Scalar:\n"
            "    def item(self): return 2.5\n"
            "neronet.log(a=Scalar(), b=True, step=Scalar())"
        )
        self.assertEqual(logged(program), [{"a": 2.5, "b": 1.0, "step": 2.5}])

    def test_nan_and_infinity_are_kept(self):
        (line,) = logged("import neronet; neronet.log(a=float('nan'), b=float('inf'))")
        self.assertNotEqual(line["a"], line["a"])
        self.assertEqual(line["b"], float("inf"))

    def test_what_is_no_number_is_refused(self):
        program = (
            "import neronet\n"
            "try: neronet.log(a='high')\n"
            "except ValueError: neronet.log(refused=1)"
        )
        self.assertEqual(logged(program), [{"refused": 1}])

    def test_higher_ranks_have_series_of_their_own(self):
        self.assertEqual(logged("import neronet; neronet.log(loss=1)", RANK="3"), [{"loss[3]": 1}])
        self.assertEqual(logged("import neronet; neronet.log(loss=1)", RANK="0"), [{"loss": 1}])

    def test_threads_and_forked_processes_write_whole_lines(self):
        program = (
            "import neronet, os, threading\n"
            "def many(name):\n"
            "    for n in range(2000): neronet.log({name: n}, step=n)\n"
            "neronet.log(first=1)\n"
            "children = []\n"
            "for child in range(3):\n"
            "    pid = os.fork()\n"
            "    if pid == 0:\n"
            "        many('child%d' % child); os._exit(0)\n"
            "    children.append(pid)\n"
            "threads = [threading.Thread(target=many, args=('thread%d' % n,)) for n in range(3)]\n"
            "for one in threads: one.start()\n"
            "for one in threads: one.join()\n"
            "for pid in children: os.waitpid(pid, 0)\n"
        )
        lines = logged(program)
        self.assertEqual(len(lines), 1 + 6 * 2000)
        for kind in ("child", "thread"):
            for n in range(3):
                name = "{}{}".format(kind, n)
                values = [line[name] for line in lines if name in line]
                self.assertEqual(values, list(range(2000)))

    def test_outside_of_a_run_nothing_happens(self):
        program = "import neronet; neronet.log(loss=1); assert not neronet.run.is_run"
        clean = {name: value for name, value in os.environ.items() if not name.startswith("NERO")}
        clean["PYTHONPATH"] = SOURCE
        subprocess.run([sys.executable, "-c", program], env=clean, check=True)

    def test_a_file_that_cannot_be_opened_ends_nothing(self):
        program = "import neronet; neronet.log(loss=1); print('went on')"
        env = dict(os.environ, NERO_METRICS="/nowhere/m.jsonl", PYTHONPATH=SOURCE)
        ran = subprocess.run([sys.executable, "-c", program], env=env, check=True,
                             stdout=subprocess.PIPE)
        self.assertEqual(ran.stdout, b"went on\n")

    def test_the_import_for_log_loads_nothing_else(self):
        program = (
            "import sys, neronet\n"
            "neronet.log(imported=sum(1 for name in sys.modules if name == 'neronet.client'),"
            " asyncio=sum(1 for name in sys.modules if name == 'subprocess'))"
        )
        self.assertEqual(logged(program), [{"imported": 0, "asyncio": 0}])


class Source(unittest.TestCase):
    def test_it_is_python_3_8(self):
        import ast

        for folder, _, names in os.walk(SOURCE):
            for name in names:
                if name.endswith(".py"):
                    with open(os.path.join(folder, name), encoding="utf-8") as file:
                        ast.parse(file.read(), feature_version=(3, 8))


if __name__ == "__main__":
    unittest.main()
