//! The Python package with the real programs.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use nero_tests::home::Home;

fn package() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../python")
}

#[track_caller]
fn passed(output: &Output) {
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}");
    // unittest is content with no test at all.
    assert!(
        said.contains("\nRan ") && !said.contains("Ran 0 tests"),
        "{said}"
    );
}

#[test]
fn a_python_program_adds_starts_logs_waits_and_reads_results() {
    let home = Home::new();
    let package = package();
    let mut command = home.in_environment("python3");
    command
        .arg("live.py")
        .current_dir(package.join("tests"))
        .env("NERONET_PROGRAM", home.neroman())
        .env("PYTHONPATH", package.join("src"))
        .env("PYTHONDONTWRITEBYTECODE", "1");
    passed(&command.output().expect("python3 is there"));
}

#[test]
fn the_package_holds_what_it_promises_without_a_daemon() {
    let package = package();
    let mut command = Command::new("python3");
    command
        .args(["-m", "unittest", "discover", "-s", "tests"])
        .current_dir(&package)
        .env("PYTHONPATH", package.join("src"))
        .env("PYTHONDONTWRITEBYTECODE", "1");
    passed(&command.output().expect("python3 is there"));
}
