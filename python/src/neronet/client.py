"""Steers experiments: ``nn = neronet.connect()``, then ``nn.start("124-186")``.

Every call is one verb of the program and takes its words; see ``neroman help VERB``.
"""

import json
import os
import tempfile
from typing import Any, Dict, Iterable, Iterator, List, Mapping, Optional, Sequence, Union

from ._program import Program
from .table import Table

#: What picks experiments: a selector as on the command line (``"crashed,144-149"``,
#: ``"tmod<1h"``), a number, rows of an earlier answer, or several of these.
Picked = Union[str, int, Mapping[str, Any], Iterable[Any]]

_NOT_FINITE = {"NaN": float("nan"), "Infinity": float("inf"), "-Infinity": float("-inf")}


def selector(picked: Picked) -> str:
    """The selector that stands for ``picked``.

    Raises :class:`TypeError` for something that picks nothing, such as ``None``.
    """
    if isinstance(picked, str):
        return picked
    if isinstance(picked, bool) or picked is None:
        raise TypeError("{!r} picks no experiment".format(picked))
    if isinstance(picked, int):
        return str(picked)
    if isinstance(picked, Mapping):
        return str(picked["id"])
    parts = [selector(one) for one in picked]
    if not parts:
        raise TypeError("an empty list picks no experiment")
    return ",".join(parts)


def _number(value: Any) -> Any:
    return _NOT_FINITE.get(value, value) if isinstance(value, str) else value


class Answer(Table):
    """Rows that a verb answered with; ``document`` has everything that it printed."""

    def __init__(self, document: Dict[str, Any], rows: str) -> None:
        super().__init__(document.get(rows) or [])
        self.document = document

    @property
    def notes(self) -> List[str]:
        """What the verb remarked."""
        return list(self.document.get("notes") or [])


class Started(Answer):
    """What ``start`` and ``restart`` did: rows of ``id name run skipped``."""

    @property
    def started(self) -> int:
        """How many runs were made."""
        return int(self.document.get("started") or 0)

    @property
    def runs(self) -> List[str]:
        """The runs that were made, such as ``144.2``."""
        return [row["run"] for row in self if row.get("run")]


class Experiments(Answer):
    """Experiments as ``status --json`` has them; tables show the :meth:`flat` form."""

    def __init__(self, document: Dict[str, Any], rows: str = "experiments") -> None:
        super().__init__(document, rows)
        for row in self:
            for metric in (row.get("metrics") or {}).values():
                metric.update({name: _number(value) for name, value in metric.items()})

    @property
    def finished(self) -> bool:
        """Of ``wait``: whether all that ever had a run finished."""
        return bool(self.document.get("finished"))

    @property
    def timed_out(self) -> bool:
        """Of ``wait``: whether its timeout was over first."""
        return bool(self.document.get("timed_out"))

    def flat(self) -> Table:
        """One column for each parameter and the last value of each metric.

        A name that is both is ``param.x`` and ``metric.x``.
        """
        params = {name for row in self for name in row.get("parameters") or {}}
        metrics = {name for row in self for name in row.get("metrics") or {}}
        both = params & metrics
        flat = []
        for row in self:
            one = {key: row.get(key) for key in ("id", "name", "state", "node", "run", "runtime_s",
                                                 "exit_code", "reason")}
            for name, value in (row.get("parameters") or {}).items():
                one["param." + name if name in both else name] = _number(value)
            for name, metric in (row.get("metrics") or {}).items():
                one["metric." + name if name in both else name] = metric.get("last")
            flat.append(one)
        return Table(flat)

    def to_pandas(self) -> Any:
        """A ``pandas.DataFrame`` of the flat form."""
        return self.flat().to_pandas()

    def to_polars(self) -> Any:
        """A ``polars.DataFrame`` of the flat form."""
        return self.flat().to_polars()

    def __repr__(self) -> str:
        return repr(self.flat())

    def _repr_html_(self) -> str:
        return self.flat()._repr_html_()


class Series(Answer):
    """Series of metrics: rows of ``id run name steps values times``."""

    def __init__(self, document: Dict[str, Any]) -> None:
        super().__init__(document, "series")
        for row in self:
            for key in ("steps", "values"):
                row[key] = [_number(value) for value in row[key]]

    def long(self) -> Table:
        """One row for each point: ``id run name step value time``."""
        return Table([
            {"id": row["id"], "run": row["run"], "name": row["name"], "step": step,
             "value": value, "time": time}
            for row in self
            for step, value, time in zip(row["steps"], row["values"], row["times"])
        ], ["id", "run", "name", "step", "value", "time"])

    def to_pandas(self) -> Any:
        """A ``pandas.DataFrame`` of the long form."""
        return self.long().to_pandas()

    def to_polars(self) -> Any:
        """A ``polars.DataFrame`` of the long form."""
        return self.long().to_polars()

    def __repr__(self) -> str:
        return repr(self.long())

    def _repr_html_(self) -> str:
        return self.long()._repr_html_()


class Plot:
    """Curves as ``svg``, which a notebook shows; ``neroman plot -o x.png`` makes other formats."""

    def __init__(self, svg: str) -> None:
        self.svg = svg

    def _repr_svg_(self) -> str:
        return self.svg


class Client:
    """One neroman. The daemon is started by the first call that needs it.

    Ctrl-C during a call ends the call and harms no run. Every call raises a
    :class:`neronet.NeronetError` when the program ends with an error.
    """

    def __init__(self, home: Optional[str] = None) -> None:
        self._program = Program(home)

    # Describing experiments

    def add(self, *paths: str, companion: Optional[str] = None, offset: Optional[int] = None,
            dry_run: bool = False) -> Answer:
        """Registers the experiments of folders and files; again to update them.

        ``companion`` is the YAML file with the fields for all rows of a table, ``offset`` is
        added to the numbers of its rows.
        """
        words = ["add"] + [str(path) for path in paths]
        words += _option("--with", companion) + _option("--offset", offset)
        return Answer(self._program.call(words + _flag("--dry-run", dry_run)), "experiments")

    def remove(self, picked: Picked, dry_run: bool = False) -> Answer:
        """Hides experiments; ``neroman rm --undo`` brings them back."""
        words = ["rm", selector(picked), "--yes"] + _flag("--dry-run", dry_run)
        return Answer(self._program.call(words, failing=(1,)), "experiments")

    # Runs

    def start(self, picked: Picked, node: Optional[str] = None, dry_run: bool = False,
              options: Sequence[str] = ()) -> Started:
        """Starts what is defined, crashed, timed out or aborted; returns at once.

        ``options`` are further words of the verb, such as ``["--at-most", "4"]``.
        """
        words = ["start", selector(picked), "--yes"] + _option("--node", node)
        words += _flag("--dry-run", dry_run) + list(options)
        return Started(self._program.call(words, failing=(1,)), "experiments")

    def restart(self, picked: Picked, resume: bool = False, abandon: bool = False,
                node: Optional[str] = None, dry_run: bool = False,
                options: Sequence[str] = ()) -> Started:
        """Starts new runs with present parameters and code; live ones are stopped first."""
        words = ["restart", selector(picked), "--yes"] + _option("--node", node)
        words += _flag("--resume", resume) + _flag("--abandon", abandon)
        words += _flag("--dry-run", dry_run) + list(options)
        return Started(self._program.call(words, failing=(1,)), "experiments")

    def abort(self, picked: Picked, grace: Optional[float] = None,
              signal: Optional[str] = None, dry_run: bool = False) -> Answer:
        """Ends live runs; queued ones never start. ``grace`` is in seconds."""
        words = ["abort", selector(picked), "--yes"] + _option("--grace", _seconds(grace))
        words += _option("--signal", signal) + _flag("--dry-run", dry_run)
        return Answer(self._program.call(words, failing=(1,)), "experiments")

    def pause(self, picked: Picked) -> Answer:
        """Stops live runs for a while; their memory and cards stay taken."""
        return Answer(self._program.call(["pause", selector(picked), "--yes"], failing=(1,)),
                      "experiments")

    def resume(self, picked: Picked) -> Answer:
        """Lets paused runs go on."""
        return Answer(self._program.call(["resume", selector(picked), "--yes"], failing=(1,)),
                      "experiments")

    def wait(self, picked: Picked, timeout: Optional[float] = None,
             options: Sequence[str] = ()) -> Experiments:
        """Waits until experiments have ended; ``timeout`` is in seconds, 0 is a look.

        Ends that are not good raise nothing: see :attr:`Experiments.finished`, and
        :attr:`Experiments.timed_out`.
        """
        words = ["wait", selector(picked)] + _option("--timeout", _seconds(timeout))
        return Experiments(self._program.call(words + list(options), failing=(1, 4)))

    # What there is

    def status(self, picked: Picked = "all") -> Experiments:
        """Experiments with their newest runs."""
        return Experiments(self._program.call(["status", selector(picked)]))

    def watch(self, picked: Picked = "all") -> Iterator[Experiments]:
        """Yields what changed, whenever something does, until nothing is live."""
        for line in self._program.lines(["status", selector(picked), "--watch", "--json"]):
            yield Experiments(json.loads(line))

    def show(self, picked: Picked) -> Dict[str, Any]:
        """Everything about one experiment or run."""
        return self._program.call(["show", selector(picked)])

    def logs(self, picked: Picked, stderr: bool = False, lines: Optional[int] = None) -> str:
        """What a run printed."""
        words = ["logs", selector(picked)] + _flag("--stderr", stderr) + _option("--lines", lines)
        return self._program.text(words)

    def follow(self, picked: Picked, stderr: bool = False) -> Iterator[str]:
        """Yields the lines of a run as they come, until it has ended."""
        words = ["logs", selector(picked), "--follow"] + _flag("--stderr", stderr)
        return self._program.lines(words)

    def metrics(self, picked: Picked, *names: str) -> Series:
        """Values of metrics, or of expressions of them, over time; all unless named."""
        return Series(self._program.call(["metrics", selector(picked)] + list(names)))

    def results(self, picked: Picked, best: Optional[str] = None) -> Experiments:
        """One row for each experiment, best first by ``best`` (``min:loss``, ``max:acc``)."""
        words = ["results", selector(picked)] + _option("--best", best)
        return Experiments(self._program.call(words), "runs")

    def plot(self, picked: Picked, *names: str, by: Optional[str] = None,
             log: bool = False) -> "Plot":
        """Curves of metrics, or of expressions of them, which a notebook shows; with ``by`` one
        for all runs that share this parameter."""
        words = ["plot", selector(picked)] + list(names) + _option("--by", by)
        with tempfile.TemporaryDirectory(prefix="neronet-") as folder:
            path = os.path.join(folder, "plot.svg")
            self._program.text(words + _flag("--log", log) + ["--output", path])
            with open(path, encoding="utf-8") as file:
                return Plot(file.read())

    def groups(self, picked: Picked, by: Sequence[str]) -> Answer:
        """One row for all runs that share these parameters: n, means and deviations."""
        words = ["results", selector(picked), "--by", ",".join(by)]
        return Answer(self._program.call(words), "groups")

    def path(self, picked: Picked) -> List[str]:
        """Folders of results."""
        answer = self._program.call(["path", selector(picked)])
        return [row["path"] for row in answer["paths"]]

    def fetch(self, picked: Picked, include: Optional[str] = None) -> Answer:
        """Fetches files of runs to this machine now."""
        words = ["fetch", selector(picked)] + _option("--include", include)
        return Answer(self._program.call(words), "runs")

    # Rules and nodes

    def rules(self, picked: Picked = "all") -> Answer:
        """The rules and how often they fired."""
        return Answer(self._program.call(["rule", "list", selector(picked)]), "rules")

    def add_rule(self, picked: Picked, rule: str) -> Answer:
        """Adds a rule such as ``"abort: loss > 5"``, at once also to live runs."""
        return Answer(self._program.call(["rule", "add", selector(picked), rule]), "changed")

    def remove_rule(self, picked: Picked, number: int) -> Answer:
        """Removes a rule by its number in :meth:`rules`."""
        words = ["rule", "rm", selector(picked), str(number)]
        return Answer(self._program.call(words), "changed")

    def nodes(self) -> Answer:
        """Machines that runs go to."""
        return Answer(self._program.call(["node", "list"]), "nodes")

    def add_node(self, name: str, address: str, options: Sequence[str] = ()) -> Answer:
        """Adds a machine that ``ssh ADDRESS`` reaches; says what it found there."""
        words = ["node", "add", name, address] + list(options)
        return Answer(self._program.call(words), "findings")

    def call(self, *words: str) -> Dict[str, Any]:
        """Any other verb with its words; returns its ``--json`` document."""
        return self._program.call(words)


def connect(home: Optional[str] = None) -> Client:
    """The neroman of this user, or the one with its data in ``home``.

    Raises :class:`neronet.ProgramMissing` when the program is not installed.
    """
    return Client(home)


def _option(name: str, value: Optional[Any]) -> List[str]:
    return [] if value is None else ["{}={}".format(name, value)]


def _flag(name: str, given: bool) -> List[str]:
    return [name] if given else []


def _seconds(value: Optional[float]) -> Optional[str]:
    return None if value is None else "{:f}".format(value).rstrip("0").rstrip(".") + "s"
