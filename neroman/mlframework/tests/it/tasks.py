# Execute tasks with provided parameters

from __future__ import absolute_import, unicode_literals
from .celery import app
from lib.worker_functions import *
import time


@app.task(bind=True, acks_late=True)
def echo(self, dic={"n": 2}):
    for i in range(0, int(dic["n"])):
        print str(self.request.id) + " i=" + str(i)
    return dic


@app.task(bind=True, acks_late=True)
def default(self, pars):
    # Report hostname
    cmd = "echo hostname=$(hostname)"
    sync_exec(self, cmd)

    # Form command
    par = unjsonify(pars)
    cmd = ["python", "-u", "my_proj/runnable/run.py"]
    for key in par:
        cmd.append(str("--"+key))
        if type(par[key]) is not bool:
            cmd.append(str(par[key]))
    report(self, "Command: " + " ".join(cmd))
    sync_exec(self, cmd)
