"""Runs N tasks of /bin/true in HyperQueue's LocalCluster: server and one worker
for two cores, in this process, without a journal, in memory alone. Each task
has its two output files, as HyperQueue makes them by default.

usage: hq.py N FOLDER
prints: seconds on the clock, seconds of CPU (all threads and tasks)
"""

import os
import sys
import time
from pathlib import Path

from hyperqueue import Job, LocalCluster
from hyperqueue.cluster import WorkerConfig


def tasks(count, folder):
    folder.mkdir()
    job = Job(default_workdir=folder)
    for _ in range(count):
        job.program(["/bin/true"])
    return job


def run(client, job):
    if not client.wait_for_jobs([client.submit(job)]):
        sys.exit("a task failed")


def cpu():
    return sum(os.times()[:4])


def main():
    count, folder = int(sys.argv[1]), Path(sys.argv[2])
    with LocalCluster(str(folder / "server"), WorkerConfig(cores=2)) as cluster:
        client = cluster.client()
        run(client, tasks(1, folder / "warm"))
        job = tasks(count, folder / "work")
        began, used = time.monotonic(), cpu()
        run(client, job)
        print(time.monotonic() - began, cpu() - used)


main()
