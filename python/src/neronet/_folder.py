"""The folder of a pool: the experiments of its workers, and what they import."""

import json
import os
import shutil
import sys
from typing import Any, Dict, List, Optional, Sequence, Union

from ._calls import _cloudpickle

#: Files and folders that travel.
Files = Union[str, Sequence[str]]

_IGNORED = shutil.ignore_patterns("__pycache__")


def describe(
    folder: str, pool: str, count: int, nodes: Optional[str], only_here: bool,
    resources: Dict[str, Any], python: Optional[str], files: Files,
    env: Optional[Dict[str, str]], setup: Sequence[str],
) -> None:
    """Writes the folder."""
    here = os.path.dirname(os.path.abspath(__file__))
    shutil.copytree(here, os.path.join(folder, "neronet"), ignore=_IGNORED)
    helper = _cloudpickle()
    if helper is not None:
        home = os.path.dirname(os.path.abspath(helper.__file__ or ""))
        shutil.copytree(home, os.path.join(folder, "cloudpickle"), ignore=_IGNORED)
    for path in [files] if isinstance(files, str) else files:
        _copied(path, folder)
    program = python or (sys.executable if only_here else "python3")
    described: Dict[str, Any] = {
        "collection": "pool-" + pool[:8],
        "command": [program, "-m", "neronet.worker", pool],
        "parameters": {"worker": list(range(count))},
        "outputs": ["stdout", "stderr", "worker.json"],
        "files": ["**"],
        "resources": {name: value for name, value in resources.items() if value},
        # The worker's search path begins with its folder, so that what travelled is found.
        "env": dict(env or {}, PYTHONPATH=".:" + os.pathsep.join(_paths(only_here))),
    }
    if nodes:
        described["node"] = nodes
    if setup:
        described["setup"] = list(setup)
    # JSON is YAML.
    with open(os.path.join(folder, "neronet.yaml"), "w", encoding="utf-8") as file:
        json.dump(described, file)


def _paths(only_here: bool) -> List[str]:
    """What this process imports from, for workers on this machine."""
    if not only_here:
        return []
    return [path for path in (os.path.abspath(one) for one in sys.path) if os.path.isdir(path)]


def _copied(path: str, folder: str) -> None:
    name = os.path.basename(os.path.abspath(path))
    if os.path.isdir(path):
        shutil.copytree(path, os.path.join(folder, name), ignore=_IGNORED)
    else:
        shutil.copy2(path, os.path.join(folder, name))
