//! `cargo xtask test`.

use std::os::unix::process::CommandExt as _;
use std::process::Command;

use crate::steps::{PROGRAMS, Steps, execute, has_cargo_command};
use crate::{chaos, codegen, deps, names, packages};

/// Scenarios on hosts of their own, which have the umask of their logins, and long ones of
/// schedulers, of which the short ones run with both. The scenario of a neighbour at home
/// needs the open umask, too.
const ON_HOSTS: &[&str] = &[
    "adopted::",
    "arrays::",
    "batches::the_rest_of_an_array",
    "control::an_abort_ends_a_run_in",
    "described::",
    "environments::",
    "hosts::",
    "local_steps::steps_of_both",
    "multihost::",
    "neighbours::a_forwarded_agent",
    "neighbours::a_neighbour_on_a_node",
    "neighbours::a_socket_folder",
    "noodles_beside::examples",
    "noodles_ssh::",
    "scheduler_ends::",
    "shared_home::",
    "skew::",
    "ssh::",
    "ssh_clusters::",
    "ssh_faults::",
    "ssh_flows::",
    "ssh_groups::",
    "ssh_placed::",
    "submitted_kills::",
    "wheel::",
];

/// Everything that must pass; with `ci` format, lints and docs too.
pub fn run(steps: &mut Steps, ci: bool) -> Result<(), String> {
    steps.run("what the tests need is installed", |steps| {
        packages::ensure(steps.root())
    })?;
    if ci {
        steps.command("format", steps.cargo(&["fmt", "--all", "--check"]))?;
    }
    steps.run("generated code is that of the protos", |steps| {
        codegen::run(steps.root(), true)
    })?;
    steps.run("rules over dependencies", |steps| deps::check(steps.root()))?;
    steps.run("names of types", |steps| names::check(steps.root()))?;
    if has_cargo_command(steps.root(), "deny") {
        steps.command(
            "cargo deny",
            steps.cargo(&["deny", "check", "bans", "licenses", "sources"]),
        )?;
    }
    steps.command(
        "build",
        steps.cargo(&["build", "--workspace", "--all-targets", "--locked"]),
    )?;
    if ci {
        let lints = [
            "clippy",
            "--workspace",
            "--all-targets",
            "--locked",
            "--",
            "-D",
            "warnings",
        ];
        steps.command("lints", steps.cargo(&lints))?;
        let mut docs = steps.cargo(&["doc", "--workspace", "--no-deps", "--locked"]);
        docs.env("RUSTDOCFLAGS", "-D warnings");
        steps.command("docs", docs)?;
    }
    tests(steps, "tests, umask 077", 0o077, &["--workspace"], &[])?;
    tests(
        steps,
        "scenarios once more, umask 022",
        0o022,
        &["-p", "nero-tests", "-p", "nerokid-shim"],
        ON_HOSTS,
    )?;
    if ci {
        chaos::all(steps)?;
    }
    for program in PROGRAMS {
        let check = steps.cargo(&["check", "-p", program, "--locked"]);
        steps.command(&format!("{program} alone"), check)?;
    }
    Ok(())
}

/// Runs tests in an environment without accidental variables.
fn tests(
    steps: &mut Steps,
    name: &str,
    umask: u32,
    which: &[&str],
    without: &[&str],
) -> Result<(), String> {
    let nextest = has_cargo_command(steps.root(), "nextest");
    let mut args: Vec<&str> = if nextest {
        vec!["nextest", "run"]
    } else {
        vec!["test"]
    };
    args.extend(which);
    args.push("--locked");
    if nextest {
        args.extend(["--status-level", "slow", "--final-status-level", "slow"]);
    } else {
        args.extend(["--no-fail-fast", "--lib", "--bins", "--tests"]);
    }
    if !without.is_empty() {
        // Both runners give these to the tests themselves.
        args.push("--");
        args.extend(without.iter().flat_map(|name| ["--skip", name]));
    }
    let mut command = steps.cargo(&args);
    bare(&mut command, umask);
    steps.run(name, |_| execute(command))
}

/// Clears the environment except the variables that find the toolchain, and sets
/// another time zone and the umask.
pub fn bare(command: &mut Command, umask: u32) {
    command.env_clear().env("TZ", "Pacific/Chatham");
    for name in [
        "PATH",
        "HOME",
        "CARGO_HOME",
        "RUSTUP_HOME",
        "RUSTUP_TOOLCHAIN",
        "CARGO_TARGET_DIR",
        "TMPDIR",
        "CI",
    ] {
        if let Some(value) = std::env::var_os(name) {
            command.env(name, value);
        }
    }
    // SAFETY: umask is safe between fork and exec: it takes a number and
    // cannot fail.
    unsafe {
        command.pre_exec(move || {
            libc::umask(umask);
            Ok(())
        });
    }
}
