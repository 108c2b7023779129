//! The wheels, installed by pip.

use std::path::Path;
use std::process::Command;

use crate::python::{package, passed};
use crate::ssh::Lab;

#[track_caller]
fn done(command: &mut Command) {
    let output = command.output().expect("it is there");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{command:?}: {said}");
}

#[test]
fn an_installed_wheel_calls_functions_here_and_over_ssh() {
    let lab = Lab::new(1);
    let programs = lab.home.neroman().parent().unwrap().to_path_buf();
    let wheels = lab.home.path().join("wheels");
    let mut build = Command::new(programs.join("xtask"));
    build.arg("wheel").arg("--programs").arg(&programs);
    done(build.arg("--out").arg(&wheels));

    let place = lab.home.path().join("venv");
    done(
        Command::new("python3")
            .args(["-m", "venv", "--without-pip"])
            .arg(&place),
    );
    let python = place.join("bin/python");
    // The second wheel needs the first; nothing else is needed.
    done(
        Command::new("python3")
            .args(["-m", "pip", "--python"])
            .arg(&python)
            .args(["install", "--quiet", "--no-index", "--find-links"])
            .arg(&wheels)
            .arg("neronet-distributed-computing"),
    );
    assert!(place.join("share/neronet/agents").is_dir());
    let mut command = lab.home.in_environment(python.to_str().unwrap());
    command
        .arg(Path::new("installed.py"))
        .current_dir(package().join("tests"))
        .env("NODES", "lab");
    passed(&command.output().expect("python is there"));
}
