"""Calls functions of people's modules with what a run has written, and draws.

The program that starts this has set limits of memory, time and file sizes. Reads request.json in
the present folder, and writes answer.json there, the numbers beside it. What the functions print
goes to the file descriptors 1 and 2.
"""

import array
import faulthandler
import importlib
import json
import numbers
import os
import signal
import sys
import traceback
import types

TRACE_CHARS_MAX = 4000
NAME_CHARS_MAX = 200
WHY_CHARS_MAX = 500
SHOWN_NAME_CHARS_MAX = 80
NOTES_MAX = 20
SERIES_MAX = 1000
POINTS_MAX = 2000000
STEPS = ("step", "global_step", "iteration", "iter", "epoch")

main = os.getpid()


class Refused(Exception):
    """A mistake that is told without a traceback."""


def names_of(names):
    return names.split()


def floats_of(line, sep):
    return [float(value) for value in line.strip().split(sep) if value]


def line_reader(line, names, sep=", ", *_):
    return dict(zip(names_of(names), floats_of(line, sep)))


def file_reader(file, names, sep=", ", *_):
    data = {name: [] for name in names_of(names)}
    for line in file:
        if line.strip():
            for name, value in zip(names_of(names), floats_of(line, sep)):
                data[name].append(value)
    return data


class Curves:
    """The curves of an example plot, drawn when the picture is saved."""

    def __init__(self):
        self.x, self.y, self.curves = "", "", []


def plot(filename, feedback, save_image, y, x=None, *_):
    curves = feedback if isinstance(feedback, Curves) else Curves()
    y = y if isinstance(y, tuple) else (str(y), None)
    if y[1] is None:
        raise Refused("`%s` is no name of a value: the file gave %s" % (y[0], driver.known()))
    if isinstance(x, str):
        raise Refused("`%s` is no name of a value: the file gave %s" % (x, driver.known()))
    up = numbers_of(y[1])
    across = numbers_of(x[1]) if x else array.array("d", range(1, len(up or []) + 1))
    if up is None or across is None:
        raise Refused("`%s` has values that are no numbers" % (y[0] if up is None else x[0]))
    curves.x, curves.y = x[0] if x else "", y[0]
    curves.curves.append((driver.run["id"], across, up))
    if save_image:
        save(filename, curves)
    return curves


def save(filename, curves):
    if filename.lower().endswith(".svg"):
        driver.draw(filename, curves)
        return
    try:
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure
    except ImportError:
        raise Refused(
            "`example plot` draws .svg by itself; for %s it needs matplotlib, which %s has not"
            % (os.path.splitext(filename)[1] or "a file without an extension", sys.executable)
        ) from None
    figure = Figure()
    FigureCanvasAgg(figure)
    axes = figure.add_subplot(111)
    for name, across, up in curves.curves:
        axes.plot(across[: len(up)], up[: len(across)], label=name)
    axes.set_xlabel(curves.x)
    axes.set_ylabel(curves.y)
    if len(curves.curves) > 1:
        axes.legend()
    figure.savefig(filename)


def numbers_of(values):
    """Values as numbers; None where one is no number."""
    if isinstance(values, numbers.Number) or not hasattr(values, "__iter__"):
        values = [values]
    if isinstance(values, (str, bytes, dict)):
        return None
    out = array.array("d")
    try:
        for value in values:
            if isinstance(value, (str, bytes)):
                return None
            out.append(value)
    except (TypeError, ValueError, OverflowError):
        return None
    return out


def write_numbers(path, arrays):
    with open(path, "wb") as file:
        for one in arrays:
            if sys.byteorder == "big":
                one = one[:]
                one.byteswap()
            one.tofile(file)


def trace_of(error):
    """The person's part of a traceback."""
    frames = error.__traceback__
    while frames and frames.tb_frame.f_code is not None and is_ours(frames.tb_frame.f_code):
        frames = frames.tb_next
    if frames is None and not isinstance(error, SyntaxError):
        return ""
    try:
        lines = traceback.format_exception(type(error), error, frames)
    except Exception:
        return ""
    text = "".join(lines).strip()
    if len(text) > TRACE_CHARS_MAX:
        text = text[: TRACE_CHARS_MAX // 2] + "\n…\n" + text[-TRACE_CHARS_MAX // 2 :]
    return text


def is_ours(code):
    return code.co_filename == __file__ or "importlib" in code.co_filename


def in_words(error):
    if isinstance(error, MemoryError):
        return "it needs more memory than such functions may have"
    if isinstance(error, SystemExit):
        return "it ended the process (sys.exit)"
    try:
        text = str(error)
    except Exception:
        text = ""
    if isinstance(error, Refused):
        return text
    name = type(error).__name__
    return "%s: %s" % (name, text.splitlines()[0]) if text.strip() else name


class Driver:
    def __init__(self):
        self.problems, self.notes, self.made, self.drawn = [], [], [], []
        self.run, self.data, self.values = None, {}, {}

    def problem(self, what, error):
        why = "%s: %s" % (what, in_words(error))
        if isinstance(error, Refused):
            trace = ""
        else:
            trace = trace_of(error)
        self.problems.append({"why": bounded(plain(why), WHY_CHARS_MAX), "trace": plain(trace)})

    def note(self, name, what):
        """Notes something about a name of a value."""
        name = bounded(plain(str(name)), SHOWN_NAME_CHARS_MAX)
        self.notes.append("`%s` %s" % (name, what))

    def bounded_notes(self):
        more = len(self.notes) - NOTES_MAX
        if more <= 0:
            return self.notes
        return self.notes[:NOTES_MAX] + ["and %d more" % more]

    def known(self):
        names = sorted(bounded(str(name), SHOWN_NAME_CHARS_MAX) for name in self.values)
        return ", ".join("`%s`" % name for name in names[:20]) or "no values"

    def function(self, call):
        if call["module"] == "example" and not self.has_own_example():
            return {"line_reader": line_reader, "file_reader": file_reader, "plot": plot}[
                call["function"]
            ]
        module = importlib.import_module(call["module"])
        found = getattr(module, call["function"], None)
        if not callable(found):
            raise Refused(
                "module `%s` has no function `%s` (%s)"
                % (call["module"], call["function"], getattr(module, "__file__", None))
            )
        return found

    def has_own_example(self):
        places = self.run["modules"]
        return any(os.path.exists(os.path.join(place, "example.py")) for place in places)

    def enter(self, run):
        """Makes the modules of a run the ones that are imported."""
        for name, module in list(sys.modules.items()):
            path = getattr(module, "__file__", None) or ""
            if self.run and any(path.startswith(place + "/") for place in self.run["modules"]):
                del sys.modules[name]
        sys.path[:] = run["modules"] + [
            place for place in sys.path if not self.run or place not in self.run["modules"]
        ]
        importlib.invalidate_caches()
        self.run, self.data = run, {}

    def process(self, output):
        call = output["call"]
        field = "output_line_processor" if output["unit"] == "line" else "output_file_processor"
        what = "`%s` of %s" % (field, output["file"])
        if len(self.runs) > 1:
            what = "%s: %s" % (self.run["id"], what)
        line_number = 0
        try:
            path = os.path.join(self.run["folder"], output["file"])
            if not os.path.isfile(path):
                raise Refused("the run left no %s here" % output["file"])
            function = self.function(call)
            with open(path, encoding="utf-8", errors="replace") as file:
                if output["unit"] == "file":
                    self.data[output["file"]] = checked(function(file, *call["arguments"]))
                    return
                data = {}
                for line in file:
                    line_number += 1
                    given = function(line, *call["arguments"])
                    for key, value in ({} if given is None else checked(given)).items():
                        data.setdefault(key, []).append(value)
                self.data[output["file"]] = data
        except BaseException as error:
            if os.getpid() != main:
                os._exit(1)
            if line_number:
                what += ", line %d" % line_number
            self.problem(what, error)

    def draw_plot(self, wanted, feedback, is_last):
        call = wanted["call"]
        data = self.data.get(wanted["file"])
        if data is None:
            raise Refused("the values of %s are missing" % wanted["file"])
        self.values = data
        arguments = [
            (argument, data[argument]) if argument in data else argument
            for argument in call["arguments"]
        ]
        filename = os.path.join(os.getcwd(), "pictures", wanted["name"])
        feedback = self.function(call)(filename, feedback, is_last, *arguments)
        if is_last:
            if not os.path.isfile(filename) and all(one["path"] != filename for one in self.drawn):
                raise Refused("`%s` wrote no file" % call["function"])
            self.made.append(wanted["name"])
        return feedback

    def draw(self, filename, curves):
        numbers_file = "curves-%d" % len(self.drawn)
        arrays, names = [], []
        for name, across, up in curves.curves:
            length = min(len(across), len(up))
            arrays += [across[:length], up[:length]]
            names.append([name, length])
        if sum(map(len, arrays)) > POINTS_MAX:
            raise Refused("it has more than %d values to draw" % POINTS_MAX)
        write_numbers(numbers_file, arrays)
        self.drawn.append(
            {"path": filename, "x": curves.x, "y": curves.y, "numbers": numbers_file, "curves": names}
        )

    def series(self):
        """The series of the run, and their numbers in a file: steps and values of each."""
        series, points = {}, 0
        for file, data in self.data.items():
            columns = {}
            for key, values in data.items():
                column = numbers_of(values)
                name = plain(str(key)).strip()
                if column is None or not name or len(name) > NAME_CHARS_MAX or not name.isprintable():
                    self.note(name, "of %s is no metric: not every value is a number" % file)
                elif len(column):
                    columns[name] = column
            steps = next((columns[name] for name in STEPS if name in columns), None)
            for name, column in columns.items():
                if name in series:
                    self.note(name, "of %s is another file's metric already" % file)
                    continue
                if len(series) >= SERIES_MAX or points + len(column) > POINTS_MAX:
                    self.note(name, "of %s is no metric: there are too many values" % file)
                    continue
                points += len(column)
                own = steps if steps is not None and len(steps) == len(column) else None
                series[name] = (own or array.array("d", range(1, len(column) + 1)), column)
        names = sorted(series)
        write_numbers("series", [one for name in names for one in series[name]])
        return [{"name": name, "count": len(series[name][1])} for name in names]

    def serve(self, request):
        self.runs = request["runs"]
        os.mkdir("pictures")
        feedback = {wanted["name"]: None for wanted in request["plots"]}
        for run in self.runs:
            self.enter(run)
            for output in run["outputs"]:
                self.process(output)
            for wanted in request["plots"]:
                name = wanted["name"]
                if name not in feedback:
                    continue
                try:
                    before = feedback.pop(name)
                    feedback[name] = self.draw_plot(wanted, before, run is self.runs[-1])
                except BaseException as error:
                    if os.getpid() != main:
                        os._exit(1)
                    self.problem("plot %s" % name, error)
        # A function that went on in a second process has one answer.
        if os.getpid() != main:
            os._exit(1)
        return {
            "series": self.series() if len(self.runs) == 1 else [],
            "problems": self.problems,
            "notes": self.bounded_notes(),
            "pictures": self.made,
            "drawn": self.drawn,
        }


def bounded(text, chars_max):
    return text if len(text) <= chars_max else text[: chars_max - 1] + "…"


def plain(text):
    return text.encode("utf-8", "replace").decode("utf-8")


def checked(given):
    if not isinstance(given, dict):
        raise Refused("it returned %s where a dict is expected" % type(given).__name__)
    return given


def begin():
    global driver
    with open("request.json", encoding="utf-8") as file:
        request = json.load(file)
    if sys.version_info < (3, 8):
        raise SystemExit("Python 3.8 or newer is needed, and %s is older" % sys.executable)
    faulthandler.enable()
    faulthandler.register(signal.SIGXCPU, chain=True)
    faulthandler.dump_traceback_later(max(request["seconds"] - 1, 1))
    sys.argv = [""]
    here = os.path.dirname(os.path.abspath(__file__))
    sys.path[:] = [place for place in sys.path if place != here]
    # What a module of the person calls `__main__` is none of ours.
    sys.modules["__main__"] = types.ModuleType("__main__")
    driver = Driver()
    answer = driver.serve(request)
    with open("answer.json.part", "w", encoding="utf-8") as file:
        json.dump(answer, file)
    os.rename("answer.json.part", "answer.json")
    try:
        sys.stdout.flush()
    except (OSError, ValueError):
        pass  # A module has closed it.


# Threads and exit handlers of the modules have nothing more to do at the end.
try:
    begin()
except BaseException:
    traceback.print_exc()
    os._exit(1)
os._exit(0)
