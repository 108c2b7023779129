//! Kernels before Linux 5.3: nothing opens a descriptor of a process.

use std::process::{Child, Stdio};

use nero_tests::{Home, until};

use crate::story::added;

/// The calls that such a kernel does not have.
const CALLS: &str = "pidfd_open,pidfd_send_signal";

/// A daemon of this home, and everything that it starts, on such a kernel.
fn daemon(home: &Home) -> Child {
    let mut command = home.in_environment("strace");
    command
        .args(["-f", "--seccomp-bpf", "-qq", "-o", "/dev/null"])
        .args(["-e", &format!("trace={CALLS}")])
        .args(["-e", &format!("inject={CALLS}:error=ENOSYS")])
        .arg(home.neroman())
        .args(["daemon", "run"])
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    command
        .spawn()
        .expect("strace is installed: cargo xtask test")
}

#[test]
fn rules_end_pause_and_signal_runs() {
    let home = Home::new();
    let mut daemon = daemon(&home);
    until("the daemon", || {
        let status = home.run(&["daemon", "status"]);
        if status.out.contains("process") || status.code == Some(0) {
            Ok(())
        } else {
            Err(status)
        }
    });
    let line =
        "trap \"echo got\" USR1; i=0; while :; do i=$((i+1)); echo loss $i; sleep 0.05; done";
    let yaml = format!(
        "collection: old\ncommand: [sh, -c, '{line}']\n+ended: {{rules: [{{abort: loss > 5}}]}}\n\
         +paused: {{rules: [{{pause: loss > 5}}]}}\n+told: {{rules: [{{on: loss > 5, signal: USR1}}]}}\n"
    );
    added(&home, "old", &yaml);
    home.ok(&["start", "all"]);
    home.until_state(1, "aborted");
    home.until_state(2, "paused");
    until("the signal", || {
        let logged = home.run(&["logs", "3"]);
        if logged.out.contains("got") {
            Ok(())
        } else {
            Err(logged)
        }
    });
    home.ok(&["resume", "2"]);
    home.ok(&["abort", "2,3"]);
    home.until_state(2, "aborted");
    home.until_state(3, "aborted");
    assert!(home.ok(&["daemon", "stop"]).contains("stopped"));
    let left = home.end_everything();
    assert!(left.len() < 10, "{left:?}");
    daemon.wait().expect("it is our child");
}
