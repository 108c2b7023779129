"""Pools of Python beside each other: two workers on this machine, one engine after the other, then
ours on a host behind ``ssh``.

``pools.py ROUNDS`` prints tables; ``pools.py ROUNDS ENGINE`` measures one of them. Each figure is the
median of the rounds, of which each lasts about a second; engines take turns by processes.
``NERO_ORIGINAL`` is the command of an interpreter that has DistributedComputing and two cards.
"""

import json
import os
import shlex
import shutil
import statistics
import subprocess
import sys
import time

ENGINES = ["neronet", "multiprocessing", "ProcessPoolExecutor", "loky", "dask", "ray", "mpi4py",
           "DistributedComputing"]
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


class Mpi(Engine):
    """Under ``mpiexec``, whose first process is this one and whose others are workers."""

    def __init__(self):
        from mpi4py.futures import MPIPoolExecutor

        self.pool = MPIPoolExecutor(2)


class Original:
    """DistributedComputing, which has no chunks."""

    def __init__(self):
        from distributed_computing import api

        class Caller(api.WorkerInterface):
            def run(self, function, *args):
                return function(*args)

        globals()["Caller"] = Caller
        Caller.__qualname__ = "Caller"
        self.terminate, _ = api.start_head_node("secret")
        self.pool = api.Pool(Caller, {}, "secret", min_gpu_memory_required=0, min_workers=2)

    def submit(self, function, *args):
        pool = self.pool

        class Asked:
            def result(self):
                return pool.map([{"args": [function, *args]}])[0]

        return Asked()

    def stream(self, count):
        return self.pool.map([{"args": [abs, n]} for n in range(1, count + 1)])

    def close(self):
        # Workers that it leaves behind end with the name spaces that its interpreter was given.
        self.terminate()


KINDS = dict(zip(ENGINES, [Neronet, Multiprocessing, Processes, Loky, Dask, Ray, Mpi, Original]))


def command(name):
    """How an engine is started; `None`: it is not here."""
    python = [sys.executable]
    if name == "mpi4py":
        mpiexec = shutil.which("mpiexec.openmpi") or shutil.which("mpiexec")
        if not mpiexec:
            return None
        python = [mpiexec, "-n", "3", sys.executable, "-m", "mpi4py.futures"]
    if name == "DistributedComputing":
        python = shlex.split(os.environ.get("NERO_ORIGINAL", ""))
    return python + [__file__, "1", name] if python else None


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
    began = time.time()
    if name == "mpi4py":
        # Its workers begin with this process.
        began = float(os.environ["BEGAN"])
    engine = KINDS[name]()
    engine.submit(abs, -1).result()
    first = time.time() - began
    import numpy

    return figures(engine, first, numpy.negative, numpy.random.rand(100_000_000 // 8))


def figures(engine, first, function, data):
    found = {"first": first}
    engine.stream(640)
    found["single"] = rate(one_by_one(engine), 100)
    found["stream"] = rate(engine.stream, 640)
    if hasattr(engine, "chunks"):
        found["chunks"] = rate(engine.chunks, 6400)
    times = []
    for _ in range(5):
        began = time.perf_counter()
        back = engine.submit(function, data).result()
        times.append((time.perf_counter() - began) * 1000)
        assert back[-1] == function(data[-1:])[0]
    found["array"] = statistics.median(times)
    engine.close()
    return found


def logged():
    """Microseconds of one ``neronet.log``, the best of five: others use this machine, too."""
    return min(logged_once() for _ in range(5))


def logged_once():
    program = (
        "import neronet, time\n"
        "began = time.perf_counter()\n"
        "for n in range(20000): neronet.log(loss=0.5, step=n)\n"
        "print((time.perf_counter() - began) / 20000 * 1e6)\n")
    path = os.path.abspath("metrics.jsonl")
    told = subprocess.check_output([sys.executable, "-c", program],
                                   env=dict(os.environ, NERO_METRICS=path))
    assert os.path.getsize(path) > 20000 * 20
    return float(told)


def started():
    """Seconds of ``python -c pass``."""
    times = []
    for _ in range(9):
        began = time.perf_counter()
        subprocess.check_call([sys.executable, "-c", "pass"])
        times.append(time.perf_counter() - began)
    return statistics.median(times)


def first_results():
    """Seconds to the first result with the daemon at hand."""
    import neronet

    times = []
    for _ in range(9):
        began = time.perf_counter()
        with neronet.Executor(2, "local") as pool:
            pool.submit(abs, -1).result()
            times.append(time.perf_counter() - began)
    return statistics.median(times)


def more_of_daemon():
    """MiB that the daemon has more while 1000 calls of 1 MB wait."""
    import neronet

    def resident():
        with open("/proc/{}/status".format(daemon)) as file:
            return int(file.read().partition("VmRSS:")[2].split()[0]) / 1024

    daemon = neronet.connect().call("daemon", "status")["pid"]
    with neronet.Executor(2, "local") as pool:
        pool.wait_for_workers(2)
        before = resident()
        blocked = [pool.submit(time.sleep, 3) for _ in range(2)]
        waiting = [pool.submit(len, bytes(1_000_000)) for _ in range(1000)]
        time.sleep(1)
        more = resident() - before
        assert not any(future.done() for future in blocked)
        assert {future.result() for future in waiting} == {1_000_000}
    return more


def echoed():
    """Milliseconds of an echo through one channel of ``ssh``, and of 100 MB through it and back."""
    words = shlex.split(os.environ["NERONET_SSH"]) + ["h1", "cat"]
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0) as channel:
        times = []
        for _ in range(500):
            began = time.perf_counter()
            channel.stdin.write(bytes(200))
            assert channel.stdout.read(200)
            times.append((time.perf_counter() - began) * 1000)
        channel.stdin.close()
    began = time.perf_counter()
    with open("sent.bin", "wb") as file:
        file.write(bytes(100_000_000))
    subprocess.check_call(words, stdin=open("sent.bin", "rb"), stdout=open("back.bin", "wb"))
    return statistics.median(times), (time.perf_counter() - began) * 1000


def over_ssh():
    """Ours on a host behind `ssh`, beside its channel."""
    import neronet

    began = time.perf_counter()
    engine = Engine()
    engine.pool = neronet.Executor(2, "h1")
    engine.submit(abs, -1).result()
    # The Python there has no numpy.
    found = figures(engine, time.perf_counter() - began, bytearray, bytearray(100_000_000))
    times = []
    for n in range(500):
        began = time.perf_counter()
        engine.submit(abs, n).result()
        times.append((time.perf_counter() - began) * 1000)
    # As the echo is measured: a busy machine stretches means.
    found["call"] = statistics.median(times)
    engine.pool.shutdown()
    found["echo"], found["copy"] = echoed()
    return found


def print_over_ssh(found):
    of = {key: statistics.median(one[key] for one in found) for key in found[0]}
    ratio = statistics.median(one["call"] / one["echo"] for one in found)
    print("\n| two workers behind ssh | neronet | beside |\n|---|---|---|")
    print("| one call after the other, ms | {:.2f} | {:.2f}: an echo through ssh, {:.2f} × |".format(
        of["call"], of["echo"], ratio))
    print("| stream of tiny calls, no chunks, calls/s | {:,.0f} | |".format(of["stream"]))
    print("| `map` of tiny calls in chunks of 64, calls/s | {:,.0f} | |".format(of["chunks"]))
    print("| array of 100 MB out and back, ms | {:,.0f} | {:,.0f}: `ssh h1 cat` |".format(
        of["array"], of["copy"]))
    print("| start to first result, s | {:.3g} | |".format(of["first"]))


def main():
    rounds = int(sys.argv[1])
    if len(sys.argv) > 2:
        found = over_ssh() if sys.argv[2] == "ssh" else measured(sys.argv[2])
        print("\n" + json.dumps(found), flush=True)
        return
    found = {name: [] for name in ENGINES + ["ssh"]}
    for _ in range(rounds):
        for name in found:
            words = command(name)
            if words is None:
                print("{} is not here".format(name), file=sys.stderr)
                continue
            ran = subprocess.run(words, stdout=subprocess.PIPE,
                                 env=dict(os.environ, BEGAN=str(time.time())))
            results = [line for line in ran.stdout.splitlines() if line.startswith(b'{"first"')]
            if results:
                found[name].append(json.loads(results[-1]))
            else:
                print("{} failed".format(name), file=sys.stderr)
    print("| what | " + " | ".join(ENGINES) + " |")
    print("|---|" + "---|" * len(ENGINES))
    for key, what, unit in ROWS:
        cells = []
        for name in ENGINES:
            values = [one[key] for one in found[name] if key in one]
            cells.append("{:.3g}".format(statistics.median(values)) if values and key == "first"
                         else "{:,.0f}".format(statistics.median(values)) if values else "–")
        print("| {}, {} | {} |".format(what, unit, " | ".join(cells)))
    print("\n| neronet | | goal |\n|---|---|---|")
    first, bare = first_results(), started()
    print("| start to first result, daemon at hand, s | {:.3f} | 2 × `python -c pass`: {:.3f} |".format(
        first, 2 * bare))
    print("| daemon with 1000 waiting calls of 1 MB, MiB more | {:.1f} | 64 |".format(more_of_daemon()))
    print("| `neronet.log`, µs | {:.1f} | 5 |".format(logged()))
    if found["ssh"]:
        print_over_ssh(found["ssh"])


if __name__ == "__main__":
    main()
