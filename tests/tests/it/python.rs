//! The Python package with the real programs.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use nero_tests::Home;
use nero_tests::cluster::Scheduler;
use nero_tests::disk::Small;
use nero_tests::login_nodes::LoginNodes;

use crate::ssh::Lab;

pub fn package() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../python")
}

#[track_caller]
pub fn passed(output: &Output) {
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}");
    // unittest is content with no test at all.
    let ran = said.lines().any(|line| line.starts_with("Ran "));
    assert!(ran && !said.contains("Ran 0 tests"), "{said}");
}

/// Tests of calls whose way differs where workers are jobs of a scheduler; `NERO_CALLS` names others.
const JOB_CALLS: &str = "Calls.test_large_arguments_and_results \
                           Calls.test_no_call_is_lost_or_repeated_though_daemon_agent_and_way_are_killed";

/// A program of the package's tests, on this home.
fn program(home: &Home, words: &[&str]) -> Command {
    let package = package();
    let mut command = home.in_environment("python3");
    command
        .args(words)
        .current_dir(package.join("tests"))
        .env("NERONET_PROGRAM", home.neroman())
        .env("PYTHONPATH", package.join("src"))
        .env("PYTHONDONTWRITEBYTECODE", "1");
    command
}

#[test]
fn a_python_program_adds_starts_logs_waits_and_reads_results() {
    let home = Home::new();
    let mut command = program(&home, &["live.py"]);
    passed(&command.output().expect("python3 is there"));
}

#[test]
fn calls_of_functions_are_executed_once_on_this_machine_whatever_dies() {
    let home = Home::new();
    let mut command = program(&home, &["live_executor.py"]);
    passed(&command.output().expect("python3 is there"));
}

#[test]
fn an_executor_agrees_with_those_of_the_standard_library() {
    let home = Home::new();
    let mut command = program(&home, &["live_standard.py"]);
    passed(&command.output().expect("python3 is there"));
}

#[test]
fn bad_input_and_faults_of_calls_are_told_and_leave_the_pool_usable() {
    let home = Home::new();
    let mut command = program(&home, &["live_faults.py"]);
    passed(&command.output().expect("python3 is there"));
}

#[test]
fn sizes_numbers_deaths_and_other_users_disturb_no_call() {
    let home = Home::new();
    let mut command = program(&home, &["live_hard.py"]);
    passed(&command.output().expect("python3 is there"));
}

#[test]
fn calls_go_on_while_the_disk_is_full() {
    let Some(small) = Small::mounted(400) else {
        return;
    };
    let mut folder = tempfile::Builder::new();
    let home = Home::in_folder(folder.prefix("n").tempdir_in(small.path()).unwrap());
    home.configure("nodes: {local: {min_free: 1M}}\n");
    let mut command = program(&home, &["live_hard.py", "Full"]);
    command.env("SMALL_DISK", "1");
    passed(&command.output().expect("python3 is there"));
}

#[test]
fn a_program_for_distributed_computing_runs_unchanged() {
    let home = Home::new();
    passed(&drop_in(&home).output().expect("python3 is there"));
}

/// What pip installs.
const BY_VALUE: [&str; 2] = ["cloudpickle==3.1.1", "joblib==1.5.1"];

#[test]
fn what_is_of_the_program_itself_travels_in_every_form_or_is_named() {
    let home = Home::new();
    home.configure("nodes: {local: {cpus: 16}}\n");
    let packages = Path::new(env!("CARGO_TARGET_TMPDIR")).join("by-value");
    let packages = nero_pip::packages(&packages, &BY_VALUE).unwrap_or_else(|why| panic!("{why}"));
    // Another one may be installed.
    let hidden = home.path().join("hidden");
    fs::create_dir(&hidden).unwrap();
    fs::write(hidden.join("cloudpickle.py"), "raise ImportError\n").unwrap();
    for (first, tests) in [
        (packages, ["ByValue", "Named"].as_slice()),
        (hidden, &["Refused"]),
    ] {
        let src = package();
        let paths = [first, src.join("src"), src.join("drop-in/src")];
        let mut command = program(&home, &["live_program.py"]);
        command
            .args(tests)
            .env("PYTHONPATH", std::env::join_paths(paths).unwrap());
        passed(&command.output().expect("python3 is there"));
    }
}

#[test]
fn machines_that_join_work_for_distributed_computing_beside_a_server_or_not() {
    let lab = Lab::new(1);
    // A node of a group cannot be removed.
    lab.home.ok(&["config", "set", "groups.lab", ""]);
    let mut command = drop_in(&lab.home);
    command.arg("Head").env("NODES", "h1");
    passed(&command.output().expect("python3 is there"));
}

fn drop_in(home: &Home) -> Command {
    let src = package();
    let paths = [src.join("src"), src.join("drop-in/src")];
    let mut command = program(home, &["live_drop_in.py"]);
    command.env("PYTHONPATH", std::env::join_paths(paths).unwrap());
    command
}

#[test]
fn calls_of_functions_are_executed_once_over_ssh_whatever_dies() {
    let lab = Lab::new(2);
    let shared = lab.hosts.common().join("calls");
    fs::create_dir(&shared).unwrap();
    fs::set_permissions(&shared, fs::Permissions::from_mode(0o777)).unwrap();
    let mut command = program(&lab.home, &["live_executor.py", "Calls"]);
    command.env("NODES", "lab").env("SHARED", &shared);
    passed(&command.output().expect("python3 is there"));
}

/// Runs them on login nodes whose workers are jobs.
fn calls_in_jobs(nodes: &LoginNodes, more: &str) {
    let tests = std::env::var("NERO_CALLS").unwrap_or_else(|_| format!("{JOB_CALLS}{more}"));
    let mut command = program(&nodes.home, &["live_executor.py"]);
    command
        .args(tests.split(' '))
        .env("NODES", "cluster")
        .env("LIMITS_MEMORY", "1")
        .env("SHARED", nodes.folder("calls"));
    passed(&command.output().expect("python3 is there"));
}

#[test]
fn calls_of_functions_are_executed_in_jobs_of_slurm_whose_hosts_have_no_network() {
    let Some(nodes) = LoginNodes::up(Scheduler::Slurm, 1, &[]) else {
        return;
    };
    nodes.add_node(&["listen: never"]);
    calls_in_jobs(&nodes, " Memory");
}

#[test]
fn calls_of_functions_are_executed_in_jobs_of_grid_engine() {
    let Some(nodes) = LoginNodes::up(Scheduler::GridEngine, 1, &[]) else {
        return;
    };
    nodes.add_connected_node(&[]);
    calls_in_jobs(&nodes, "");
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
