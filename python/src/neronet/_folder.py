"""The folder of a pool: the experiments of its workers, and what they import."""

import json
import os
import shutil
import sys
import sysconfig
from typing import Any, Dict, List, Optional, Sequence, Union

from ._pickling import _cloudpickle

#: Files and folders that travel.
Files = Union[str, Sequence[str]]

#: The worker's program; any Python can read it.
_PROGRAM = ("import sys; sys.version_info >= (3, 8) or sys.exit('workers need Python 3.8, and this "
            "is %d.%d' % sys.version_info[:2]); from neronet import worker; worker.main()")

_IGNORED = shutil.ignore_patterns("__pycache__")


def describe(
    folder: str, pool: str, count: int, nodes: Optional[str], only_here: bool,
    resources: Dict[str, Any], python: Optional[str], files: Files,
    env: Optional[Dict[str, str]], setup: Sequence[str], requires: Optional[str],
) -> None:
    """Makes the folder."""
    os.mkdir(folder)
    paths = _paths(only_here, python)
    own = [sys.modules[__package__], _cloudpickle()]
    for module in own:
        home = os.path.dirname(os.path.abspath(getattr(module, "__file__", None) or ""))
        if module is None or os.path.dirname(home) in paths:
            # This interpreter finds it there, compiled already.
            continue
        shutil.copytree(home, os.path.join(folder, os.path.basename(home)), ignore=_IGNORED)
    for path in [files] if isinstance(files, str) else files:
        _copied(path, folder)
    program = python or (sys.executable if only_here else "python3")
    described: Dict[str, Any] = {
        "collection": "pool-" + pool[:8],
        "command": [program, "-c", _PROGRAM, pool],
        "parameters": {"worker": list(range(count))},
        "outputs": ["stdout", "stderr", "worker.json"],
        "files": ["**"],
        "resources": {name: value for name, value in resources.items() if value},
        # The worker's search path begins with its folder, so that what travelled is found.
        "env": dict(env or {}, PYTHONPATH=".:" + os.pathsep.join(paths)),
    }
    if nodes:
        described["node"] = nodes
    if requires:
        described["requires"] = requires
    if setup:
        described["setup"] = list(setup)
    # JSON is YAML.
    with open(os.path.join(folder, "neronet.yaml"), "w", encoding="utf-8") as file:
        json.dump(described, file)


def extend(folder: str, count: int) -> None:
    """Describes so many workers in place of fewer."""
    path = os.path.join(folder, "neronet.yaml")
    with open(path, encoding="utf-8") as file:
        described = json.load(file)
    described["parameters"]["worker"] = list(range(count))
    with open(path + ".new", "w", encoding="utf-8") as file:
        json.dump(described, file)
    os.replace(path + ".new", path)


def _paths(only_here: bool, python: Optional[str]) -> List[str]:
    """What this process imports from, for workers on this machine. An interpreter has its own
    library, and another one its own packages, too."""
    if not only_here:
        return []
    own = {"stdlib", "platstdlib"} if python is None else {
        "stdlib", "platstdlib", "purelib", "platlib"}
    places = {sysconfig.get_paths()[name] for name in own}
    places |= {os.path.join(place, "lib-dynload") for place in places}
    paths = (os.path.abspath(one) for one in sys.path)
    return [path for path in paths if os.path.isdir(path) and path not in places]


def _copied(path: str, folder: str) -> None:
    name = os.path.basename(os.path.abspath(path))
    if os.path.isdir(path):
        shutil.copytree(path, os.path.join(folder, name), ignore=_IGNORED)
    else:
        shutil.copy2(path, os.path.join(folder, name))
