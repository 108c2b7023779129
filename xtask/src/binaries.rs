//! Runs test binaries where nextest is not installed: several side by side, since one after the
//! other would wait for the slowest test of each. What a binary prints is shown if it failed.

use std::collections::VecDeque;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Mutex;
use std::thread::available_parallelism;
use std::time::Instant;

use serde_json::Value;

use crate::rings::Selection;
use crate::steps::Steps;

/// Threads of each binary: half of the tests wait.
const THREADS: &str = "2";

/// A binary with tests.
struct Binary {
    package: String,
    target: String,
    program: PathBuf,
    /// Folder of its package, in which its tests expect to start.
    folder: PathBuf,
    /// Size in bytes: the largest ones take longest, and start first.
    size: u64,
}

/// One start of a binary.
struct Start {
    name: String,
    command: Command,
}

/// Builds the test binaries of the workspace and runs those of a selection; `prepare` sets the
/// environment of each.
///
/// # Errors
/// Every binary with a test that failed.
pub fn run(
    steps: &Steps,
    packages: &[&str],
    selection: &Selection,
    prepare: &dyn Fn(&mut Command),
) -> Result<(), String> {
    let mut binaries = built(steps, packages)?;
    binaries.sort_by_key(|binary| std::cmp::Reverse(binary.size));
    let starts = binaries.iter().flat_map(|binary| {
        let words = selection.libtest(&binary.package, &binary.target);
        words.into_iter().map(|words| {
            let mut command = Command::new(&binary.program);
            prepare(&mut command);
            command.args(["--test-threads", THREADS]).args(words);
            command.current_dir(&binary.folder);
            command.env("CARGO_MANIFEST_DIR", &binary.folder);
            Start {
                name: format!("{}::{}", binary.package, binary.target),
                command,
            }
        })
    });
    let waiting = Mutex::new(starts.collect::<VecDeque<_>>());
    let ends = Mutex::new(Vec::new());
    let next = || waiting.lock().expect("no thread panics").pop_front();
    std::thread::scope(|scope| {
        for _ in 0..available_parallelism().map_or(2, usize::from) {
            scope.spawn(|| {
                while let Some(start) = next() {
                    let end = end_of(start);
                    end.print();
                    ends.lock().expect("no thread panics").push(end);
                }
            });
        }
    });
    let ends = ends.into_inner().expect("no thread panics");
    let passed: u64 = ends.iter().map(|end| end.passed).sum();
    let failed: u64 = ends.iter().map(|end| end.failed).sum();
    println!("{passed} passed, {failed} failed");
    let broken: Vec<_> = ends.into_iter().filter(|end| !end.is_good).collect();
    if broken.is_empty() {
        return Ok(());
    }
    let names: Vec<String> = broken.into_iter().map(|end| end.name).collect();
    Err(format!("failed: {}", names.join(", ")))
}

/// End of one start of a binary.
struct End {
    name: String,
    seconds: f64,
    passed: u64,
    failed: u64,
    is_good: bool,
    /// All that it printed.
    text: String,
}

impl End {
    fn print(&self) {
        let (name, seconds) = (&self.name, self.seconds);
        if self.is_good {
            println!("{seconds:8.1} s  {name}: {} passed", self.passed);
        } else {
            println!(
                "{}\n{seconds:8.1} s  {name}: FAILED, above is what it printed",
                self.text
            );
        }
    }
}

/// Runs a binary to its end.
fn end_of(mut start: Start) -> End {
    let began = Instant::now();
    let output = start.command.output();
    let seconds = began.elapsed().as_secs_f64();
    let (is_good, text) = match output {
        Ok(output) => {
            let text = [output.stdout, output.stderr].concat();
            (
                output.status.success(),
                String::from_utf8_lossy(&text).into_owned(),
            )
        }
        Err(error) => (false, format!("cannot start {}: {error}", start.name)),
    };
    End {
        passed: count(&text, "passed"),
        failed: count(&text, "failed"),
        name: start.name,
        seconds,
        is_good,
        text,
    }
}

/// The number before a word in libtest's last line, `test result: ok. 5 passed; 0 failed; …`.
fn count(text: &str, word: &str) -> u64 {
    let result = text.lines().rfind(|line| line.starts_with("test result:"));
    let words = result
        .unwrap_or_default()
        .split([' ', ';'])
        .collect::<Vec<_>>();
    let pair = words.windows(2).find(|pair| pair[1] == word);
    pair.and_then(|pair| pair[0].parse().ok()).unwrap_or(0)
}

/// Builds the test binaries.
fn built(steps: &Steps, packages: &[&str]) -> Result<Vec<Binary>, String> {
    let mut build = steps.cargo(&["test", "--no-run", "--locked"]);
    build.args(packages).args(["--lib", "--bins", "--tests"]);
    build.arg("--message-format=json-render-diagnostics");
    let output = build
        .stderr(Stdio::inherit())
        .output()
        .map_err(|error| format!("cannot run cargo test: {error}"))?;
    if !output.status.success() {
        return Err(format!("cargo test --no-run ended with {}", output.status));
    }
    let text = String::from_utf8_lossy(&output.stdout);
    let messages = text
        .lines()
        .filter_map(|line| serde_json::from_str(line).ok());
    Ok(messages.filter_map(|message| binary(&message)).collect())
}

/// The test binary of a message of cargo, if it is about one.
fn binary(message: &Value) -> Option<Binary> {
    if message["profile"]["test"] != true {
        return None;
    }
    let program = PathBuf::from(message["executable"].as_str()?);
    let folder = Path::new(message["manifest_path"].as_str()?).parent()?;
    // `path+file:///folder#name@0.1.0`, or `…/name#0.1.0` where the folder has the package's name.
    let id = message["package_id"].as_str()?;
    let (path, name) = id.rsplit_once('#')?;
    let package = match name.split_once('@') {
        Some((name, _)) => name,
        None => path.rsplit('/').next()?,
    };
    Some(Binary {
        package: package.to_owned(),
        target: message["target"]["name"].as_str()?.to_owned(),
        size: program.metadata().map_or(0, |found| found.len()),
        folder: folder.to_path_buf(),
        program,
    })
}

#[cfg(test)]
mod tests {
    use super::{binary, count};

    #[test]
    fn the_last_line_of_libtest_is_counted() {
        let text = "test result: FAILED. 7 passed; 2 failed; 0 ignored; finished in 1.0s\n";
        assert_eq!((count(text, "passed"), count(text, "failed")), (7, 2));
        assert_eq!(count("nothing", "passed"), 0);
    }

    #[test]
    fn a_message_about_a_test_binary_gives_its_package() {
        let of = |id: &str, test: bool| {
            binary(&serde_json::json!({
                "package_id": id, "manifest_path": "/x/y/Cargo.toml", "profile": {"test": test},
                "target": {"name": "it"}, "executable": "/x/target/it-1",
            }))
        };
        assert_eq!(
            of("path+file:///x/y#nero-y@0.1.0", true).unwrap().package,
            "nero-y"
        );
        assert_eq!(of("path+file:///x/y#0.1.0", true).unwrap().package, "y");
        assert!(of("path+file:///x/y#0.1.0", false).is_none());
    }
}
