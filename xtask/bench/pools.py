"""Pools of Python beside each other: two workers on this machine, one engine after the other.

``pools.py ROUNDS`` prints a table; ``pools.py ROUNDS ENGINE`` measures one of them. Each figure is the
median of the rounds, of which each lasts about a second; engines take turns by processes.
"""

import json
import os
import statistics
import subprocess
import sys
import time

ENGINES = ["neronet", "multiprocessing", "ProcessPoolExecutor", "loky", "dask", "ray"]
ROWS = [
    ("first", "start to first result", "s"),
    ("single", "one call after the other", "calls/s"),
    ("stream", "stream of tiny calls, no chunks", "calls/s"),
    ("chunks", "`map` of tiny calls in chunks of 64", "calls/s"),
    ("array", "array of 100 MB out and back", "ms"),
]
SECONDS = 1.0


class Engine:
    """What ``concurrent.futures`` has is the form of most."""

    def submit(self, function, *args):
        return self.pool.submit(function, *args)

    def stream(self, count):
        return list(self.pool.map(abs, range(count)))

    def chunks(self, count):
        return list(self.pool.map(abs, range(count), chunksize=64))

    def close(self):
        self.pool.shutdown()


class Neronet(Engine):
    def __init__(self):
        import neronet

        self.pool = neronet.Executor(2, "local")


class Multiprocessing(Engine):
    def __init__(self):
        import multiprocessing

        self.pool = multiprocessing.Pool(2)

    def submit(self, function, *args):
        asked = self.pool.apply_async(function, args)
        asked.result = asked.get
        return asked

    def stream(self, count):
        return list(self.pool.imap(abs, range(count)))

    def chunks(self, count):
        return self.pool.map(abs, range(count), chunksize=64)

    def close(self):
        self.pool.terminate()


class Processes(Engine):
    def __init__(self):
        import concurrent.futures

        self.pool = concurrent.futures.ProcessPoolExecutor(2)


class Loky(Engine):
    def __init__(self):
        import loky

        self.pool = loky.get_reusable_executor(2)


class Dask(Engine):
    def __init__(self):
        import distributed

        self.cluster = distributed.LocalCluster(
            n_workers=2, threads_per_worker=1, dashboard_address=None)
        self.pool = distributed.Client(self.cluster)

    def submit(self, function, *args):
        return self.pool.submit(function, *args, pure=False)

    def stream(self, count):
        return self.pool.gather(self.pool.map(abs, range(count), pure=False))

    def chunks(self, count):
        return self.pool.gather(self.pool.map(abs, range(count), pure=False, batch_size=64))

    def close(self):
        self.pool.close()
        self.cluster.close()


class Ray:
    def __init__(self):
        import ray

        ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False, logging_level="ERROR")
        self.ray = ray

        @ray.remote
        class Worker:
            def call(self, function, *args):
                return function(*args)

            def chunk(self, items):
                return [abs(item) for item in items]

        self.workers = [Worker.remote() for _ in range(2)]

    def submit(self, function, *args):
        asked, ray = self.workers[0].call.remote(function, *args), self.ray

        class Asked:
            def result(self):
                return ray.get(asked)

        return Asked()

    def stream(self, count):
        return self.ray.get([self.workers[n % 2].call.remote(abs, n) for n in range(count)])

    def chunks(self, count):
        return self.ray.get([self.workers[n % 2].chunk.remote(list(range(n * 64, n * 64 + 64)))
                             for n in range(count // 64)])

    def close(self):
        self.ray.shutdown()


KINDS = dict(zip(ENGINES, [Neronet, Multiprocessing, Processes, Loky, Dask, Ray]))


def rate(ask, count):
    """Items a second, of as many as last about `SECONDS`."""
    while True:
        began = time.perf_counter()
        ask(count)
        lasted = time.perf_counter() - began
        if lasted > SECONDS / 2:
            return count / lasted
        count = int(count * min(8, max(2, SECONDS / max(lasted, 1e-3))))


def one_by_one(engine):
    def ask(count):
        for n in range(count):
            engine.submit(abs, n).result()

    return ask


def measured(name):
    import numpy

    began = time.perf_counter()
    engine = KINDS[name]()
    engine.submit(abs, -1).result()
    found = {"first": time.perf_counter() - began}
    engine.stream(640)
    found["single"] = rate(one_by_one(engine), 100)
    found["stream"] = rate(engine.stream, 640)
    found["chunks"] = rate(engine.chunks, 6400)
    data = numpy.random.rand(100_000_000 // 8)
    times = []
    for _ in range(5):
        began = time.perf_counter()
        back = engine.submit(numpy.negative, data).result()
        times.append((time.perf_counter() - began) * 1000)
        assert back[0] == -data[0]
    found["array"] = statistics.median(times)
    engine.close()
    return found


def logged():
    """Microseconds of one ``neronet.log``."""
    program = (
        "import neronet, time\n"
        "began = time.perf_counter()\n"
        "for n in range(20000): neronet.log(loss=0.5, step=n)\n"
        "print((time.perf_counter() - began) / 20000 * 1e6)\n")
    path = "metrics.jsonl"
    told = subprocess.check_output([sys.executable, "-c", program],
                                   env=dict(os.environ, NERO_METRICS=path))
    assert os.path.getsize(path) > 20000 * 20
    return float(told)


def main():
    rounds = int(sys.argv[1])
    if len(sys.argv) > 2:
        print(json.dumps(measured(sys.argv[2])), flush=True)
        return
    found = {name: [] for name in ENGINES}
    for _ in range(rounds):
        for name in ENGINES:
            ran = subprocess.run([sys.executable, __file__, str(rounds), name],
                                 stdout=subprocess.PIPE)
            if ran.returncode == 0:
                found[name].append(json.loads(ran.stdout.splitlines()[-1]))
            else:
                print("{} failed".format(name), file=sys.stderr)
    print("| what | " + " | ".join(ENGINES) + " |")
    print("|---|" + "---|" * len(ENGINES))
    for key, what, unit in ROWS:
        cells = []
        for name in ENGINES:
            values = [one[key] for one in found[name]]
            cells.append("{:.3g}".format(statistics.median(values)) if values and key == "first"
                         else "{:,.0f}".format(statistics.median(values)) if values else "–")
        print("| {}, {} | {} |".format(what, unit, " | ".join(cells)))
    print("| `neronet.log`, µs | {:.1f} |".format(logged()) + " |" * (len(ENGINES) - 1))


if __name__ == "__main__":
    main()
