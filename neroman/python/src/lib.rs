//! Functions of people's Python modules that read what a run has written, and draw it.
//!
//! [`ask`] starts `neroman-office` with [`VERB`] ([`run_modules`]): that process limits its address
//! space, its processor time, its time and the size of its files, has `python3` run a driver of
//! ours, and ends whatever the modules left running. Files in a folder of the call carry
//! request and answer: what modules print reaches nobody's answer. Called by the daemon, which
//! these processes outlive by no more than their limits.

mod child;
mod numbers;

use std::fmt::Display;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use nero_child::{ChildError, ChildLimits, KeptOutput, Office};
use nero_model::safe::Safe;
use serde::{Deserialize, Serialize};

pub use child::run_modules;
pub use numbers::{Numbers, NumbersReader};

/// The word that has `neroman-office` run modules. The folder of the call follows.
pub const VERB: &str = "run-modules";
/// The largest file that is written.
const FILE_BYTES_MAX: u64 = 256 << 20;
/// The longest answer without its numbers.
const ANSWER_BYTES_MAX: u64 = 4 << 20;
/// What is kept of what the modules print.
const PRINTED_BYTES_MAX: usize = 16 << 10;
/// How long the process may take to end what the modules started.
const END_PATIENCE: Duration = Duration::from_secs(10);
/// The file with the steps and values of the series of a call.
pub const SERIES: &str = "series";
/// The folder with the pictures of a call.
pub const PICTURES: &str = "pictures";
/// The file with the answer.
const ANSWER: &str = "answer.json";
const DRIVER: &str = "driver.py";
const DRIVER_TEXT: &str = include_str!("driver.py");

/// Limits of a call.
#[derive(Clone, Copy, Debug)]
pub struct ModulesLimits {
    /// The time of each process on a processor.
    pub cpu_seconds: u64,
    /// The time of the call.
    pub seconds: u64,
}

impl Default for ModulesLimits {
    fn default() -> Self {
        Self {
            cpu_seconds: 60,
            seconds: 120,
        }
    }
}

/// What is to be made.
#[derive(Clone, Debug, Serialize)]
pub struct ModulesRequest {
    /// The runs, in the order in which a picture shows them.
    pub runs: Vec<RunToProcess>,
    /// Pictures, each of values of every run.
    pub plots: Vec<PlotToDraw>,
}

/// A run and what reads its outputs.
#[derive(Clone, Debug, Serialize)]
pub struct RunToProcess {
    /// Its number, for messages and legends.
    pub id: String,
    /// Folders in which modules are looked for first.
    pub modules: Vec<PathBuf>,
    /// Where its outputs lie.
    pub folder: PathBuf,
    /// The outputs.
    pub outputs: Vec<OutputToRead>,
}

/// An output and the function that reads it.
#[derive(Clone, Debug, Serialize)]
pub struct OutputToRead {
    /// Path below the folder.
    pub file: String,
    /// `line` or `file`.
    pub unit: &'static str,
    /// The function.
    pub call: CalledFunction,
}

/// A picture and the function that draws it.
#[derive(Clone, Debug, Serialize)]
pub struct PlotToDraw {
    /// The name of its file.
    pub name: String,
    /// The output whose values it shows.
    pub file: String,
    /// The function.
    pub call: CalledFunction,
}

/// A function and its further arguments.
#[derive(Clone, Debug, Serialize)]
pub struct CalledFunction {
    pub module: String,
    pub function: String,
    pub arguments: Vec<String>,
}

/// What was made.
#[derive(Debug, Default, Deserialize)]
pub struct ModulesAnswer {
    /// The series of the run, where there is one run alone; their numbers are in [`SERIES`].
    pub series: Vec<SeriesMade>,
    pub problems: Vec<FunctionProblem>,
    pub notes: Vec<String>,
    /// Pictures in [`PICTURES`].
    pub pictures: Vec<String>,
    /// Pictures that our own program draws.
    pub drawn: Vec<CurvesMade>,
}

/// A series of numbers.
#[derive(Debug, Deserialize)]
pub struct SeriesMade {
    pub name: String,
    pub count: u64,
}

/// What a function did wrong.
#[derive(Debug, Deserialize)]
pub struct FunctionProblem {
    /// One line.
    pub why: String,
    /// Its traceback; empty: there is nothing to see in one.
    pub trace: String,
}

/// Curves of one picture.
#[derive(Debug, Deserialize)]
pub struct CurvesMade {
    /// The picture's file.
    pub path: PathBuf,
    /// The name of what is across; empty: the number of the value.
    pub x: String,
    /// The name of what is up.
    pub y: String,
    /// The file with the numbers: for each curve those across, then those up.
    pub numbers: String,
    /// Names of the curves, and how many points each has.
    pub curves: Vec<(String, u64)>,
}

/// Has functions called by `neroman-office`, in a folder that is empty and for this call alone.
///
/// # Errors
/// Why there is no answer, in words; a second line and what follows is what the process printed.
pub async fn ask(
    office: &Office,
    folder: &Path,
    request: &ModulesRequest,
    limits: ModulesLimits,
) -> Result<ModulesAnswer, String> {
    let failed = |error: &dyn Display| format!("the modules could not be run: {error}");
    write_request(folder, request, limits).map_err(|error| failed(&error))?;
    let mut call = office.call(VERB);
    call.envs(std::env::vars_os())
        .arg(folder)
        .args([limits.cpu_seconds, limits.seconds].map(|limit| limit.to_string()));
    let bounds = ChildLimits {
        out: KeptOutput::End(PRINTED_BYTES_MAX),
        err: PRINTED_BYTES_MAX,
        patience: Duration::from_secs(limits.seconds) + END_PATIENCE,
        // It alone knows what the modules have started.
        is_killed: false,
    };
    match office.run(call, [], bounds).await {
        Ok(ended) => {
            let printed = ended.err;
            let ended = String::from_utf8_lossy(&ended.out);
            answer(folder, ended.trim(), &printed, limits)
        }
        Err(ChildError::Late { .. }) => Err(in_words("time", b"", limits)),
        Err(error) => Err(failed(&error)),
    }
}

/// The answer of a process that ended this way.
fn answer(
    folder: &Path,
    ended: &str,
    printed: &[u8],
    limits: ModulesLimits,
) -> Result<ModulesAnswer, String> {
    if ended == "exit 0" {
        if let Some(answer) = read_answer(folder) {
            return Ok(answer);
        }
        if folder.join(ANSWER).exists() {
            return Err("the answer of the functions is too long or cannot be read".to_owned());
        }
    }
    Err(in_words(ended, printed, limits))
}

fn write_request(folder: &Path, request: &ModulesRequest, limits: ModulesLimits) -> io::Result<()> {
    #[derive(Serialize)]
    struct TimedRequest<'a> {
        #[serde(flatten)]
        request: &'a ModulesRequest,
        seconds: u64,
    }
    let timed = TimedRequest {
        request,
        seconds: limits.seconds,
    };
    std::fs::write(folder.join(DRIVER), DRIVER_TEXT)?;
    let json = serde_json::to_vec(&timed).map_err(io::Error::other)?;
    std::fs::write(folder.join("request.json"), json)
}

/// The answer; `None`: the process ended before it had one.
fn read_answer(folder: &Path) -> Option<ModulesAnswer> {
    use std::io::Read as _;
    let file = std::fs::File::open(folder.join(ANSWER)).ok()?;
    let mut json = Vec::new();
    file.take(ANSWER_BYTES_MAX).read_to_end(&mut json).ok()?;
    serde_json::from_slice(&json).ok()
}

/// Why a process that ended this way gave no answer.
fn in_words(ended: &str, printed: &[u8], limits: ModulesLimits) -> String {
    let why = match ended.split_once(' ') {
        _ if ended.starts_with("not started:") => {
            let error = &ended["not started:".len()..];
            format!(
                "`python3` could not be started:{error}; processors and plots need Python 3.8 or newer here"
            )
        }
        None if ended == "time" => {
            format!("the functions did not end within {} s", limits.seconds)
        }
        None if ended == "cpu" => {
            format!(
                "the functions take more than {} s of processor time",
                limits.cpu_seconds
            )
        }
        Some(("exit", code)) => {
            format!("a function ended the process by itself, with exit code {code}")
        }
        Some(("signal", signal)) => format!("the process died by signal {signal}"),
        _ => "the process was killed".to_owned(),
    };
    let printed = String::from_utf8_lossy(printed);
    let lines: Vec<&str> = printed
        .lines()
        .filter(|line| !line.contains(DRIVER))
        .collect();
    let last = lines.len().saturating_sub(LINES_SHOWN);
    let lines = lines[last..]
        .iter()
        .map(|line| Safe::line(line).to_string());
    [why]
        .into_iter()
        .chain(lines)
        .collect::<Vec<_>>()
        .join("\n")
}

/// Lines of what was printed that stand below a reason.
const LINES_SHOWN: usize = 20;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_of_modules_are_bounded() {
        let folder = tempfile::tempdir().unwrap();
        let module = "def read(file):\n    return {'n%02d' % i + 'x' * 100: 'text' for i in range(25)}\ndef fail(file):\n    raise ValueError('y' * 1000)\n";
        std::fs::write(folder.path().join("mine.py"), module).unwrap();
        let output = |file: &str, function: &str| {
            std::fs::write(folder.path().join(file), "").unwrap();
            OutputToRead {
                file: file.to_owned(),
                unit: "file",
                call: CalledFunction {
                    module: "mine".to_owned(),
                    function: function.to_owned(),
                    arguments: Vec::new(),
                },
            }
        };
        let request = ModulesRequest {
            runs: vec![RunToProcess {
                id: "1.1".to_owned(),
                modules: vec![folder.path().to_owned()],
                folder: folder.path().to_owned(),
                outputs: vec![output("a", "read"), output("b", "fail")],
            }],
            plots: Vec::new(),
        };
        write_request(folder.path(), &request, ModulesLimits::default()).unwrap();
        let ended = std::process::Command::new("python3")
            .args(["-B", "-X", "utf8", DRIVER])
            .current_dir(folder.path())
            .output()
            .unwrap();
        assert!(ended.status.success(), "{ended:?}");
        let answer = read_answer(folder.path()).unwrap();
        let (last, notes) = answer.notes.split_last().unwrap();
        assert_eq!((notes.len(), last.as_str()), (20, "and 5 more"));
        assert!(notes.iter().all(|note| note.chars().count() < 150));
        let [problem] = &answer.problems[..] else {
            panic!("{answer:?}");
        };
        assert_eq!(problem.why.chars().count(), 500);
    }

    #[test]
    fn an_answer_that_cannot_be_read_is_told_as_such() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join(ANSWER), "{").unwrap();
        let why = answer(folder.path(), "exit 0", b"", ModulesLimits::default());
        assert_eq!(
            why.unwrap_err(),
            "the answer of the functions is too long or cannot be read"
        );
    }

    #[test]
    fn a_missing_python_is_told_in_one_sentence() {
        let ended = "not started: No such file or directory (os error 2)";
        assert_eq!(
            in_words(ended, b"", ModulesLimits::default()),
            "`python3` could not be started: No such file or directory (os error 2); processors and plots need Python 3.8 or newer here"
        );
    }
}
