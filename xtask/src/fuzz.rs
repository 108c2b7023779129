//! `cargo xtask fuzz`: the laws of `tests/laws` under libFuzzer.

use std::fs;
use std::path::Path;
use std::process::Command;

use crate::steps::{Steps, execute};

/// The workspace with a program for each target. What it builds counts the branches that an input
/// takes, so nothing of it is shared with other builds.
const FOLDER: &str = "tests/fuzz";

/// Counters of branches and comparisons, for the compiler of releases.
const FLAGS: &str = "-Cpasses=sancov-module -Cllvm-args=-sanitizer-coverage-level=4 \
    -Cllvm-args=-sanitizer-coverage-inline-8bit-counters \
    -Cllvm-args=-sanitizer-coverage-pc-table -Cllvm-args=-sanitizer-coverage-trace-compares";

/// Inputs stay short: what is slow in a long one is found by the repeated seeds.
const INPUT_BYTES_MAX: u64 = 16 << 10;

/// Plays one target, or each of them, for this long.
pub fn run(steps: &mut Steps, target: Option<&str>, minutes: u64) -> Result<(), String> {
    let targets = targets(steps.root())?;
    let chosen: Vec<&String> = targets
        .iter()
        .filter(|name| target.is_none_or(|target| *name == target))
        .collect();
    if chosen.is_empty() {
        return Err(format!("no such target; there are: {}", targets.join(", ")));
    }
    let out = steps.target().join("fuzz");
    let triple = format!("{}-unknown-linux-gnu", std::env::consts::ARCH);
    steps.run("a C++ compiler is installed", |_| has_compiler())?;
    let folder = steps.root().join(FOLDER);
    // Libraries have the versions that the product has; cargo adds those of libFuzzer.
    fs::copy(steps.root().join("Cargo.lock"), folder.join("Cargo.lock"))
        .map_err(|error| format!("cannot write {FOLDER}/Cargo.lock: {error}"))?;
    let mut build = steps.cargo(&["build", "--target", &triple, "--target-dir"]);
    build.arg(&out).current_dir(&folder).env("RUSTFLAGS", FLAGS);
    for name in &chosen {
        build.args(["--bin", name]);
    }
    steps.command("build with counters", build)?;
    let programs = out.join(triple).join("debug");
    for name in chosen {
        let corpus = out.join("corpus").join(name);
        let finds = out.join("finds");
        for folder in [&corpus, &finds] {
            fs::create_dir_all(folder).map_err(|error| format!("{}: {error}", folder.display()))?;
        }
        let mut command = Command::new(programs.join(name));
        command.arg(&corpus).env("NERO_SEEDS", &corpus);
        command.arg(format!("-max_total_time={}", minutes * 60));
        command.arg(format!("-max_len={INPUT_BYTES_MAX}"));
        command.arg(format!("-artifact_prefix={}/{name}-", finds.display()));
        command.args(["-timeout=20", "-print_final_stats=1", "-verbosity=0"]);
        steps.attempt(name, |_| {
            execute(command).map_err(|why| {
                format!(
                    "{why}; what it found lies in {}, and its program plays it again",
                    finds.display()
                )
            })
        });
    }
    steps.outcome()
}

/// The names of all targets.
fn targets(root: &Path) -> Result<Vec<String>, String> {
    let folder = root.join(FOLDER).join("src/bin");
    let failed = |error: std::io::Error| format!("{}: {error}", folder.display());
    let mut names = Vec::new();
    for entry in fs::read_dir(&folder).map_err(failed)? {
        let path = entry.map_err(failed)?.path();
        names.extend(
            path.file_stem()
                .map(|stem| stem.to_string_lossy().into_owned()),
        );
    }
    names.sort();
    Ok(names)
}

/// libFuzzer is built from its sources.
fn has_compiler() -> Result<(), String> {
    let program = std::env::var_os("CXX").unwrap_or_else(|| "c++".into());
    let found = Command::new(&program).arg("--version").output();
    match found {
        Ok(output) if output.status.success() => Ok(()),
        Ok(_) | Err(_) => Err(format!(
            "there is no {}, with which libFuzzer is built: install the package g++",
            program.display()
        )),
    }
}
