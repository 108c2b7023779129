//! `nerokid-shim`: the launcher of a node, and the shims that it forks.
//!
//! Started by neromum as `nerokid-shim launcher --socket PATH --log PATH`.
//! Order of things: `launcher` serves the socket and forks; `shim` supervises
//! one run; `job` is what happens between the fork and the job's own code.
//! `core` decides, `keeper` carries out, `journal` writes. It has one thread,
//! no runtime, no network, and outlives the process that started it.

mod clock;
mod closing;
mod container;
mod control;
mod core;
mod crash;
mod job;
mod journal;
mod keeper;
mod launcher;
mod oom;
mod plan;
mod procfs;
mod shim;
mod slot;
mod slots;
mod sys;
mod tree;

use std::path::PathBuf;
use std::process::ExitCode;

const USAGE: &str = "usage: nerokid-shim launcher --socket PATH --log PATH [--allocation]";

fn main() -> ExitCode {
    let mut arguments = std::env::args_os().skip(1);
    let role = arguments.next();
    if role.as_deref().is_some_and(|role| role == "--version") {
        println!("nerokid-shim {}", nero_model::VERSION);
        return ExitCode::SUCCESS;
    }
    if role.as_deref().is_some_and(|role| role == "container") {
        return container::run(arguments).unwrap_or_else(wrong);
    }
    let (mut socket, mut log, mut in_allocation) = (None, None, false);
    while let Some(name) = arguments.next() {
        if name == "--allocation" {
            in_allocation = true;
            continue;
        }
        let value = arguments.next().map(PathBuf::from);
        match name.to_str() {
            Some("--socket") => socket = value,
            Some("--log") => log = value,
            Some(_) | None => return wrong(),
        }
    }
    let (Some(role), Some(socket), Some(log)) = (role, socket, log) else {
        return wrong();
    };
    if role != "launcher" {
        return wrong();
    }
    match launcher::run(&socket, &log, in_allocation) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("nerokid-shim: {error}");
            ExitCode::FAILURE
        }
    }
}

fn wrong() -> ExitCode {
    eprintln!("{USAGE}");
    ExitCode::from(2)
}
