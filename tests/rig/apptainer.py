#!/usr/bin/env python3
"""Stands for apptainer in tests, where it cannot be had: takes the options that are documented for
`exec`, refuses others as it does, and has ch-run execute the command. Images are tars of a root
file system.
"""

import csv
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import tempfile

FLAGS = {
    "--allow-setuid", "--cleanenv", "-e", "--compat", "--contain", "-c", "--containall", "-C",
    "--disable-cache", "--fakeroot", "-f", "--ipc", "-i", "--keep-privs", "--net", "-n",
    "--no-eval", "--no-home", "--no-init", "--no-privs", "--no-umask", "--nv", "--nvccli", "--pid", "-p",
    "--rocm", "--unsquash", "--userns", "-u", "--uts", "--writable", "-w", "--writable-tmpfs",
}
VALUES = {
    "--add-caps", "--apply-cgroups", "--bind", "-B", "--cwd", "--dns", "--drop-caps", "--env",
    "--env-file", "--fusemount", "--home", "-H", "--hostname", "--memory", "--cpus", "--mount",
    "--network", "--network-args", "--no-mount", "--overlay", "-o", "--pwd", "--scratch", "-S",
    "--security", "--shm-size", "--workdir", "-W",
}
PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


def refuse(why):
    print(f"Error for command \"exec\": {why}", file=sys.stderr)
    sys.exit(1)


def mount(text):
    fields = dict(part.partition("=")[::2] for part in next(csv.reader([text])))
    source = fields.pop("src", None) or fields.pop("source", None)
    target = fields.pop("dst", None) or fields.pop("destination", None)
    if fields.pop("type", "") != "bind" or not source or not target or set(fields) - {"ro", "image-src", "id"}:
        refuse(f"while parsing mount {text!r}")
    if not os.path.exists(source):
        refuse(f"mount source {source} doesn't exist")
    return source, target


if sys.argv[1:] == ["--version"]:
    print("apptainer version 1.3.6")
    sys.exit(0)
if sys.argv[1:2] != ["exec"]:
    refuse("unknown command")
words, mounts, home, work, is_clean = sys.argv[2:], [], None, None, False
while words and words[0].startswith("-"):
    option, given, value = words.pop(0).partition("=")
    if option in FLAGS:
        is_clean |= option in ("--cleanenv", "-e")
        continue
    if option not in VALUES:
        refuse(f"unknown flag: {option}")
    value = value if given else words.pop(0)
    if option == "--mount":
        mounts.append(mount(value))
    elif option in ("--home", "-H"):
        source, _, target = value.partition(":")
        home = target or source
        mounts.append((source, home))
    elif option in ("--pwd", "--cwd"):
        work = value
if len(words) < 2:
    refuse("requires at least 2 arg(s)")
image, command = words[0], words[1:]
# It takes these over and names the rest for itself.
inside = {} if is_clean else {k: v for k, v in os.environ.items() if not k.startswith("APPTAINERENV_")}
inside.update({k.removeprefix("APPTAINERENV_"): v for k, v in os.environ.items() if k.startswith("APPTAINERENV_")})
if "HOME" in inside and is_clean:
    print("WARNING: Overriding HOME environment variable with APPTAINERENV_HOME is not permitted", file=sys.stderr)
inside.update(HOME=home or "/", USER="tester")
inside.setdefault("PATH", PATH)
root = pathlib.Path(tempfile.mkdtemp(prefix="apptainer-"))
try:
    unpacked = subprocess.run(["tar", "-C", root, "-xf", image], capture_output=True, text=True)
    if unpacked.returncode:
        print(f"FATAL: could not open image {image}: {unpacked.stderr}", file=sys.stderr)
        sys.exit(255)
    binds = []
    for source, target in mounts:
        point = root / target.lstrip("/")
        if not target.startswith("/tmp/"):
            point.parent.mkdir(parents=True, exist_ok=True)
            point.mkdir(exist_ok=True) if os.path.isdir(source) else point.touch()
        binds += ["-b", f"{source}:{target}"]
    argv = ["ch-run", *binds, "-c", work or "/", str(root), "--", *command]
    child = subprocess.Popen(argv, env=inside)
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda got, _: child.send_signal(got))
    code = child.wait()
finally:
    shutil.rmtree(root, ignore_errors=True)
sys.exit(code if code >= 0 else 128 - code)
