"""Calls the program ``neroman`` and reads what it prints.

The package has no protocol of its own: ``neroman VERB --json`` is a promise with a schema and
exit codes, and a call takes a few milliseconds. The program is looked for in
``NERONET_PROGRAM``, beside this interpreter (where a wheel puts it), then on ``PATH``.
"""

import json
import os
import shutil
import subprocess
import sys
import threading
from typing import Any, Dict, Iterator, List, Optional, Sequence

from .errors import NeronetError, ProgramMissing, error_of

_NAME = "neroman"

#: Held while a program is started: a fork of this process would keep the ends of its pipes open,
#: and hide its end from whoever reads them.
unforked = threading.Lock()
os.register_at_fork(before=unforked.acquire, after_in_parent=unforked.release,
                    after_in_child=unforked.release)


def find_program() -> str:
    """Returns the path of ``neroman``.

    Raises :class:`ProgramMissing` when there is none.
    """
    given = os.environ.get("NERONET_PROGRAM")
    if given:
        return given
    beside = os.path.join(os.path.dirname(sys.executable or ""), _NAME)
    found = beside if os.access(beside, os.X_OK) else shutil.which(_NAME)
    if not found:
        raise ProgramMissing(
            "cannot find the program neroman",
            ["it is neither beside {} nor on PATH".format(sys.executable)],
            "install the package with pip, or set NERONET_PROGRAM to its path",
        )
    return found


class Program:
    """The program with the home that it works on."""

    def __init__(self, home: Optional[str]) -> None:
        self.home = home
        self.path = find_program()

    def environment(self) -> Optional[Dict[str, str]]:
        """The environment of the program; ``None`` is this one."""
        return dict(os.environ, NERONET_HOME=self.home) if self.home else None

    def call(
        self, words: Sequence[str], stdin: Optional[str] = None, failing: Sequence[int] = ()
    ) -> Dict[str, Any]:
        """Runs one verb; returns its JSON document, that of exit codes in ``failing`` too.

        Raises a :class:`NeronetError` for every other exit code but 0. Ctrl-C ends the
        program, never a run.
        """
        ran = self._run(list(words) + ["--json"], stdin)
        document = _document(ran.stdout)
        if "error" in document:
            raise error_of(document["error"], ran.returncode)
        if ran.returncode == 0 or (document and ran.returncode in failing):
            return document
        said = [line for line in ran.stderr.splitlines() if line.strip()]
        raise error_of(
            {"what": "neroman {} failed".format(words[0]), "causes": said, "hint": None},
            ran.returncode,
        )

    def text(self, words: Sequence[str]) -> str:
        """Runs one verb that prints text; returns it."""
        ran = self._run(list(words), None)
        if ran.returncode != 0:
            lines = [line for line in ran.stderr.splitlines() if line.strip()]
            raise error_of(_told(lines, words[0]), ran.returncode)
        return ran.stdout

    def lines(self, words: Sequence[str]) -> Iterator[str]:
        """Runs one verb and yields its lines as they come; leaving the loop ends it."""
        command = [self.path] + list(words)
        with self._started(command, False) as child:
            assert child.stdout is not None and child.stderr is not None
            ended = False
            try:
                for line in child.stdout:
                    yield line.rstrip("\n")
                ended = True
            finally:
                if not ended:
                    child.terminate()
            said = [line.rstrip() for line in child.stderr if line.strip()]
            code = child.wait()
        if code != 0:
            raise error_of(_told(said, words[0]), code)

    def _run(self, words: List[str], stdin: Optional[str]) -> "subprocess.CompletedProcess[str]":
        with self._started([self.path] + words, stdin is not None) as child:
            try:
                out, said = child.communicate(stdin)
            except BaseException:
                child.kill()
                raise
        return subprocess.CompletedProcess(words, child.returncode, out, said)

    def _started(self, command: List[str], has_input: bool) -> "subprocess.Popen[str]":
        try:
            with unforked:
                return subprocess.Popen(
                    command,
                    stdin=subprocess.PIPE if has_input else subprocess.DEVNULL,
                    stdout=subprocess.PIPE,
                    stderr=subprocess.PIPE,
                    env=self.environment(),
                    encoding="utf-8",
                    errors="replace",
                )
        except OSError as error:
            raise ProgramMissing(
                "cannot start {}".format(self.path), [str(error)], None
            ) from error


def _document(printed: str) -> Dict[str, Any]:
    """The last document that was printed; numbers that JSON lacks stay the strings they are."""
    for line in reversed(printed.splitlines()):
        if line.startswith("{"):
            read = json.loads(line)
            if isinstance(read, dict):
                if read.get("schema", 1) != 1:
                    raise NeronetError(
                        "neroman prints schema {}".format(read["schema"]),
                        ["this package reads schema 1"],
                        "pip install --upgrade neronet",
                    )
                return read
    return {}


def _told(lines: Sequence[str], verb: str) -> Dict[str, Any]:
    """An error as it is printed for people, taken apart."""
    what, causes, hint = None, [], None
    for line in lines:
        if line.startswith("error: "):
            what = line[len("error: ") :]
        elif line.strip().startswith("caused by: "):
            causes.append(line.strip()[len("caused by: ") :])
        elif line.startswith("hint: "):
            hint = line[len("hint: ") :]
    if what is None:
        what, causes = "neroman {} failed".format(verb), list(lines)
    return {"what": what, "causes": causes, "hint": hint}
