//! The original, installed from its registry, as a process that answers questions.

use std::io::{BufRead as _, BufReader, Write as _};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use serde_json::Value;

/// The original and what it needs. New releases of setuptools lack a module that it loads.
const PACKAGES: [&str; 4] = [
    "training-noodles==1.2.2",
    "oyaml==0.9",
    "PyYAML==6.0.4",
    "setuptools==65.5.0",
];

/// The original.
pub struct Oracle {
    child: Child,
    questions: Option<ChildStdin>,
    answers: BufReader<ChildStdout>,
}

impl Oracle {
    /// Starts it; pip brings it the first time.
    pub fn start() -> Self {
        let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("training-noodles");
        let packages = nero_pip::packages(&folder, &PACKAGES).unwrap_or_else(|why| panic!("{why}"));
        let mut child = Command::new("python3")
            .arg(Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it/oracle.py"))
            .env("PYTHONPATH", &packages)
            .env("PYTHONUTF8", "1")
            .env("PYTHONWARNINGS", "ignore")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("python3 starts");
        let questions = child.stdin.take();
        let answers = BufReader::new(child.stdout.take().expect("piped"));
        Self {
            child,
            questions,
            answers,
        }
    }

    /// `{"is": …}` or `{"error": …}`.
    pub fn ask(&mut self, question: &Value) -> Value {
        let questions = self.questions.as_mut().expect("it is open until the end");
        writeln!(questions, "{question}").expect("the oracle reads");
        let mut answer = String::new();
        self.answers
            .read_line(&mut answer)
            .expect("the oracle answers");
        serde_json::from_str(&answer).unwrap_or_else(|error| panic!("{error}: {answer:?}"))
    }
}

impl Drop for Oracle {
    fn drop(&mut self) {
        self.questions = None;
        let _ = self.child.wait();
    }
}
