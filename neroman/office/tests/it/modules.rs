//! Modules of people, good and bad: the process that calls their functions, with real `python3`.

use std::fs;
use std::path::{Path, PathBuf};

use nero_child::Office;
use nero_python::{
    CalledFunction, ModulesAnswer, ModulesLimits, ModulesRequest, NumbersReader, OutputToRead,
    PICTURES, PlotToDraw, RunToProcess, SERIES, ask,
};

/// Modules and outputs, and the folder of a call.
struct Lab {
    folder: tempfile::TempDir,
}

impl Lab {
    fn new(module: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        for name in ["modules", "results", "call"] {
            fs::create_dir(folder.path().join(name)).unwrap();
        }
        let lab = Self { folder };
        fs::write(lab.path("modules").join("mine.py"), module).unwrap();
        fs::write(
            lab.path("results").join("stdout.log"),
            "1, 10\n2, 5\n3, 2.5\n",
        )
        .unwrap();
        lab
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// A run whose log this function of `mine` reads.
    fn run(&self, unit: &'static str, function: &str, arguments: &[&str]) -> RunToProcess {
        RunToProcess {
            id: "1.1".to_owned(),
            modules: vec![self.path("modules")],
            folder: self.path("results"),
            outputs: vec![OutputToRead {
                file: "stdout.log".to_owned(),
                unit,
                call: called(function, arguments),
            }],
        }
    }

    fn ask(
        &self,
        request: &ModulesRequest,
        limits: ModulesLimits,
    ) -> Result<ModulesAnswer, String> {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .unwrap();
        let office = Office::open(Path::new(env!("CARGO_BIN_EXE_neroman-office"))).unwrap();
        runtime.block_on(ask(&office, &self.path("call"), request, limits))
    }

    /// What becomes of the log.
    fn read(&self, unit: &'static str, function: &str, arguments: &[&str]) -> ModulesAnswer {
        let request = ModulesRequest {
            runs: vec![self.run(unit, function, arguments)],
            plots: Vec::new(),
        };
        self.ask(&request, ModulesLimits::default()).unwrap()
    }

    /// Why there is no answer.
    fn fail(&self, function: &str, limits: ModulesLimits) -> String {
        let request = ModulesRequest {
            runs: vec![self.run("file", function, &[])],
            plots: Vec::new(),
        };
        self.ask(&request, limits).unwrap_err()
    }

    fn series(&self, answer: &ModulesAnswer) -> Vec<(String, Vec<f64>, Vec<f64>)> {
        let mut numbers = NumbersReader::open(&self.path("call").join(SERIES)).unwrap();
        let series = answer.series.iter().map(|one| {
            let (steps, values) = (numbers.column(one.count), numbers.column(one.count));
            (one.name.clone(), steps.unwrap(), values.unwrap())
        });
        series.collect()
    }
}

fn called(function: &str, arguments: &[&str]) -> CalledFunction {
    let (module, function) = function.split_once('.').unwrap();
    CalledFunction {
        module: module.to_owned(),
        function: function.to_owned(),
        arguments: arguments.iter().map(|&one| one.to_owned()).collect(),
    }
}

fn plot(name: &str, function: &str, arguments: &[&str]) -> PlotToDraw {
    PlotToDraw {
        name: name.to_owned(),
        file: "stdout.log".to_owned(),
        call: called(function, arguments),
    }
}

/// The one problem of an answer: what failed, and its traceback.
fn problem(answer: &ModulesAnswer) -> (&str, &str) {
    let [problem] = &answer.problems[..] else {
        panic!("{answer:?}");
    };
    (&problem.why, &problem.trace)
}

#[test]
fn lines_and_files_become_series_with_their_steps() {
    let lab = Lab::new(
        "def whole(file, factor):\n    return {'n': [float(factor) * len(line) for line in file], 'who': ['me'], 'once': 7}\n",
    );
    let answer = lab.read("line", "example.line_reader", &["step value"]);
    assert!(answer.problems.is_empty(), "{answer:?}");
    let steps = vec![1.0, 2.0, 3.0];
    assert_eq!(
        lab.series(&answer),
        [
            ("step".to_owned(), steps.clone(), steps.clone()),
            ("value".to_owned(), steps.clone(), vec![10.0, 5.0, 2.5]),
        ]
    );
    let lab = Lab::new(&fs::read_to_string(lab.path("modules").join("mine.py")).unwrap());
    let answer = lab.read("file", "mine.whole", &["2"]);
    assert_eq!(
        lab.series(&answer),
        [
            ("n".to_owned(), steps, vec![12.0, 10.0, 14.0]),
            ("once".to_owned(), vec![1.0], vec![7.0]),
        ]
    );
    assert_eq!(
        answer.notes,
        ["`who` of stdout.log is no metric: not every value is a number"]
    );
}

#[test]
fn what_a_function_does_wrong_is_told_with_the_person_s_traceback() {
    let cases = [
        ("raise KeyError('rate')", "KeyError: 'rate'", "in read"),
        (
            "return [1]",
            "it returned list where a dict is expected",
            "",
        ),
        (
            "import sys; sys.exit(3)",
            "it ended the process (sys.exit)",
            "in read",
        ),
        ("return {}['a']", "KeyError: 'a'", "return {}['a']"),
        ("return 'x' * (1 << 40)", "it needs more memory", "in read"),
        (
            "import nowhere",
            "No module named 'nowhere'",
            "import nowhere",
        ),
    ];
    for (body, why, trace) in cases {
        let lab = Lab::new(&format!("def read(line):\n    {body}\n"));
        let answer = lab.read("line", "mine.read", &[]);
        let (said, seen) = problem(&answer);
        let head = "`output_line_processor` of stdout.log, line 1: ";
        assert!(
            said.starts_with(head) && said.contains(why),
            "{body}: {said}"
        );
        assert!(seen.contains(trace), "{body}: {seen}");
        // The frames are those of the module alone.
        assert!(
            !seen.contains("driver.py") && !seen.contains("importlib"),
            "{seen}"
        );
        assert_eq!(seen.is_empty(), trace.is_empty(), "{body}: {seen}");
    }
    for (module, function, why) in [
        ("def read(:\n", "mine.read", "SyntaxError"),
        ("", "mine.read", "module `mine` has no function `read`"),
        ("", "absent.read", "No module named 'absent'"),
        (
            "",
            "example.line_reader",
            "missing 1 required positional argument",
        ),
    ] {
        let answer = Lab::new(module).read("line", function, &[]);
        assert!(problem(&answer).0.contains(why), "{answer:?}");
    }
    // A header is no numbers; the line is told.
    let lab = Lab::new("");
    fs::write(lab.path("results").join("stdout.log"), "1, 2\nstep, loss\n").unwrap();
    let answer = lab.read("line", "example.line_reader", &["step loss"]);
    assert!(
        problem(&answer).0.contains("line 2: ValueError"),
        "{answer:?}"
    );
}

#[test]
fn a_function_that_prints_forks_or_closes_everything_hurts_nothing() {
    let module = r#"
import os, sys, threading, time
def read(file):
    for _ in range(2000):
        print('x' * 5000)
    print('part of a buffer')
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0:
            time.sleep(1000)
        time.sleep(1000)
    if os.fork() == 0:
        return {'twice': [1]}
    threading.Thread(target=time.sleep, args=(1000,)).start()
    with open('pid', 'w') as pid:
        pid.write(str(os.getpid()))
    os.close(1), os.close(2)
    return {'a': [1]}
"#;
    let lab = Lab::new(module);
    let answer = lab.read("file", "mine.read", &[]);
    assert_eq!(
        lab.series(&answer),
        [("a".to_owned(), vec![1.0], vec![1.0])]
    );
    // Every process that worked in the folder of the call has ended.
    let call = lab.path("call");
    let left = fs::read_dir("/proc").unwrap().filter_map(Result::ok);
    let left: Vec<_> = left
        .filter(|entry| fs::read_link(entry.path().join("cwd")).is_ok_and(|cwd| cwd == call))
        .collect();
    assert!(left.is_empty(), "{left:?}");
}

#[test]
fn a_function_that_never_ends_or_dies_is_told_with_where_it_was() {
    let module = "import ctypes, os, time\ndef loop(file):\n    while True: pass\ndef sleep(file):\n    time.sleep(1000)\ndef leave(file):\n    print('last words', flush=True)\n    os._exit(4)\ndef crash(file):\n    ctypes.string_at(1)\n";
    let short = |cpu_seconds, seconds| ModulesLimits {
        cpu_seconds,
        seconds,
    };
    let cases = [
        (
            "mine.loop",
            short(1, 60),
            "more than 1 s of processor time",
            "in loop",
        ),
        ("mine.sleep", short(60, 2), "did not end within 2 s", ""),
        (
            "mine.leave",
            ModulesLimits::default(),
            "exit code 4",
            "last words",
        ),
        (
            "mine.crash",
            ModulesLimits::default(),
            "died by signal 11",
            "in crash",
        ),
    ];
    for (function, limits, why, below) in cases {
        let said = Lab::new(module).fail(function, limits);
        let (first, rest) = said.split_once('\n').unwrap_or((&said, ""));
        assert!(
            first.contains(why) && rest.contains(below),
            "{function}: {said}"
        );
    }
}

#[test]
fn a_plot_gets_names_with_values_and_hands_its_feedback_on() {
    let module = r#"
def draw(filename, feedback, save_image, y, colour):
    feedback = (feedback or []) + [(y, colour, save_image)]
    if save_image:
        open(filename, 'w').write(repr(feedback))
    return feedback
def lazy(filename, feedback, save_image):
    pass
"#;
    let lab = Lab::new(module);
    let mut second = lab.run("line", "example.line_reader", &["step value"]);
    second.id = "2.1".to_owned();
    let request = ModulesRequest {
        runs: vec![
            lab.run("line", "example.line_reader", &["step value"]),
            second,
        ],
        plots: vec![
            plot("a.txt", "mine.draw", &["value", "red"]),
            plot("b.svg", "example.plot", &["value", "step"]),
            plot("c.svg", "mine.lazy", &[]),
            plot("d.svg", "example.plot", &["loss"]),
        ],
    };
    let answer = lab.ask(&request, ModulesLimits::default()).unwrap();
    assert_eq!(answer.pictures, ["a.txt", "b.svg"]);
    let drawn = fs::read_to_string(lab.path("call").join(PICTURES).join("a.txt")).unwrap();
    let values = "('value', [10.0, 5.0, 2.5])";
    assert_eq!(
        drawn,
        format!("[({values}, 'red', False), ({values}, 'red', True)]")
    );
    let [curves] = &answer.drawn[..] else {
        panic!("{answer:?}");
    };
    assert_eq!((curves.x.as_str(), curves.y.as_str()), ("step", "value"));
    assert_eq!(
        curves.curves,
        [("1.1".to_owned(), 3), ("2.1".to_owned(), 3)]
    );
    let why: Vec<_> = answer
        .problems
        .iter()
        .map(|problem| problem.why.as_str())
        .collect();
    assert_eq!(
        why,
        [
            "plot d.svg: `loss` is no name of a value: the file gave `step`, `value`",
            "plot c.svg: `lazy` wrote no file"
        ]
    );
    // Several runs have no series: each gets its own when it is processed alone.
    assert!(answer.series.is_empty());
}
