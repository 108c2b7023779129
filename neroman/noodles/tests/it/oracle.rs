//! The original, installed from its registry, as a process that answers questions.

use std::fs;
use std::io::{BufRead as _, BufReader, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use serde_json::Value;

/// The original and what it needs. New releases of setuptools lack a module that it loads.
const PACKAGES: [&str; 4] = [
    "training-noodles==1.2.2",
    "oyaml==0.9",
    "PyYAML==6.0.4",
    "setuptools==65.5.0",
];
/// File in the folder that marks it as complete.
const WHOLE: &str = "whole";

/// The original.
pub struct Oracle {
    child: Child,
    questions: Option<ChildStdin>,
    answers: BufReader<ChildStdout>,
}

impl Oracle {
    /// Starts it; pip brings it the first time.
    pub fn start() -> Self {
        let packages = ensure();
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

/// The folder of the packages. Several tests may install at once: the first that is done wins.
fn ensure() -> PathBuf {
    let wanted = PACKAGES.join(" ");
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("training-noodles");
    if fs::read_to_string(folder.join(WHOLE)).is_ok_and(|found| found == wanted) {
        return folder;
    }
    let making = folder.with_extension(std::process::id().to_string());
    let installed = Command::new("python3")
        .args(["-m", "pip", "install", "--disable-pip-version-check"])
        .args(["--quiet", "--target"])
        .arg(&making)
        .args(PACKAGES)
        .env("PIP_ROOT_USER_ACTION", "ignore")
        .status()
        .expect("python3 starts");
    assert!(
        installed.success(),
        "pip cannot install {wanted}: install python3 with pip, and let it reach its registry"
    );
    fs::write(making.join(WHOLE), &wanted).expect("the folder was made");
    if fs::rename(&making, &folder).is_err() {
        let other = fs::read_to_string(folder.join(WHOLE)).is_ok_and(|found| found == wanted);
        if other {
            fs::remove_dir_all(&making).expect("it is ours");
        } else {
            // What lies there is of another version.
            fs::remove_dir_all(&folder).expect("it is ours");
            fs::rename(&making, &folder).expect("nothing is in the way");
        }
    }
    folder
}
