"""What goes wrong, as exceptions; each stands for an exit code of the program."""

from typing import Any, Dict, List, Optional


class NeronetError(Exception):
    """Something failed.

    ``what`` failed, why (``causes``, outermost first), and what to do next (``hint``, or
    ``None``). ``report`` has lines with places in a file or a selector.
    """

    exit_code = 1

    def __init__(
        self,
        what: str,
        causes: Optional[List[str]] = None,
        hint: Optional[str] = None,
        report: Optional[str] = None,
    ) -> None:
        self.what = what
        self.causes = list(causes or [])
        self.hint = hint
        self.report = report
        super().__init__(str(self))

    def __str__(self) -> str:
        lines = [self.report] if self.report else []
        lines.append(self.what)
        lines += ["caused by: " + cause for cause in self.causes]
        if self.hint:
            lines.append("hint: " + self.hint)
        return "\n".join(lines)

    def __reduce__(self) -> Any:
        return type(self), (self.what, self.causes, self.hint, self.report)


class Failed(NeronetError):
    """The asked-for thing failed: nothing was started, a run did not finish."""

    exit_code = 1


class BadInput(NeronetError, ValueError):
    """Wrong words, a bad selector, a bad file; nothing was changed."""

    exit_code = 2


class DaemonUnreachable(NeronetError, ConnectionError):
    """The own daemon cannot be reached or started."""

    exit_code = 3


class NodeUnreachable(NeronetError, ConnectionError):
    """A node cannot be reached, and nothing else went wrong."""

    exit_code = 4


class InternalError(NeronetError):
    """A bug of Neronet."""

    exit_code = 70


class Interrupted(NeronetError):
    """The program was interrupted; no run was harmed."""

    exit_code = 130


class ProgramMissing(NeronetError, FileNotFoundError):
    """The program ``neroman`` is not installed, or cannot be started."""

    exit_code = 3


_BY_CODE = {
    kind.exit_code: kind
    for kind in (Failed, BadInput, DaemonUnreachable, NodeUnreachable, InternalError, Interrupted)
}


def error_of(told: Dict[str, Any], code: int) -> NeronetError:
    """The exception for an error object of the program and its exit code."""
    kind = _BY_CODE.get(code, NeronetError)
    causes = told.get("causes") or []
    report = told.get("report")
    if isinstance(report, list):
        report = "\n".join(report)
    return kind(told.get("what") or "unknown error", causes, told.get("hint"), report)
