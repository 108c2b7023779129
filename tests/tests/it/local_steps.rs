//! Steps on neroman's machine within a run on a node.

use std::fs;
use std::path::Path;

use nero_tests::home::end;
use nero_tests::{Home, Part, until};

use crate::ssh::Lab;
use crate::story::added;

fn until_noted(home: &Home, notes: &Path, lines: &[&str]) {
    until("the notes of the steps", || {
        let noted = fs::read_to_string(notes).unwrap_or_default();
        if noted.lines().eq(lines.iter().copied()) && noted.ends_with('\n') {
            Ok(())
        } else {
            Err((noted, home.logs()))
        }
    });
}

fn until_waits(home: &Home, why: &str) {
    until("the reason of a wait", || {
        let seen = home.experiment_json(1);
        if seen["waiting_for"] == why {
            Ok(())
        } else {
            Err((seen, home.logs()))
        }
    });
}

/// Kills everyone but the job, its shim, and the supervisors of commands here.
fn die(lab: &Lab) {
    lab.home.kill(Part::Daemon);
    let parts = [Part::Dial, Part::Mum, Part::Watcher];
    let all: Vec<_> = parts
        .into_iter()
        .flat_map(|part| lab.parts("h2", part))
        .collect();
    end(&all);
}

#[test]
fn steps_of_both_machines_run_once_and_in_order_whoever_dies() {
    let lab = Lab::new(2);
    let (home, notes) = (&lab.home, lab.notes.display().to_string());
    let yaml = r#"outputs: [stdout]
+a:
  steps:
    - {local: 'echo l1 >> NOTES; until [ -e HERE/gate1 ]; do sleep 0.05; done; echo code | SSH {node.address} "cat > {run.folder}/code"'}
    - {run: 'echo r2 >> NOTES; cat code'}
    - {local: 'echo l3 $NERO_NODE >> NOTES; until [ -e HERE/gate3 ]; do sleep 0.05; done'}
    - {run: echo r4 >> NOTES}
"#;
    let yaml = yaml
        .replace("NOTES", &notes)
        .replace("HERE", &home.path().display().to_string())
        .replace("SSH", &lab.hosts.ssh_command());
    let folder = home.experiment("a", &yaml).display().to_string();
    home.ok(&["add", &folder]);
    home.ok(&["start", "1", "--node", "h2"]);
    until_noted(home, &lab.notes, &["l1"]);
    die(&lab);
    until_waits(home, "local step 1");
    fs::write(home.path().join("gate1"), "").unwrap();
    until_noted(home, &lab.notes, &["l1", "r2", "l3 h2"]);
    // The answer is on its way, and its node away.
    lab.hosts.cut("h2");
    fs::write(home.path().join("gate3"), "").unwrap();
    until_waits(home, "its node, to be told the end of local step 3");
    die(&lab);
    lab.hosts.mend("h2");
    let ended = home.until_state(1, "finished");
    assert_eq!(ended["node"], "h2", "{ended:#}");
    until_noted(home, &lab.notes, &["l1", "r2", "l3 h2", "r4"]);
    assert_eq!(home.ok(&["logs", "1"]), "code\n");
    let shown = home.ok(&["show", "1"]);
    assert_eq!(shown.matches("1.1: local step ").count(), 2, "{shown}");
    let left = fs::read_dir(home.base().join("data/acts")).unwrap();
    assert_eq!(left.count(), 0);
}

#[test]
fn a_local_step_that_fails_ends_the_run_and_an_abort_ends_the_step() {
    let home = Home::new();
    let here = home.path().display().to_string();
    let yaml = r#"collection: l
+fails: {steps: [{local: 'pwd >> HERE/notes; echo no such host >&2; exit 3'}, {run: echo on}]}
+long: {steps: [{local: 'echo $$ > HERE/pid; sleep 600; echo on >> HERE/notes'}]}
"#;
    let folder = added(&home, "l", &yaml.replace("HERE", &here));
    home.ok(&["start", "1,2"]);
    let failed = home.until_state(1, "crashed");
    assert_eq!(failed["exit_code"], 3, "{failed:#}");
    let line = failed["stderr_line"].as_str().unwrap_or_default();
    assert!(line.starts_with("`local: pwd"), "{failed:#}");
    let ending = "`, no. 1 of 2 steps: exit code 3: no such host";
    assert!(line.ends_with(ending), "{failed:#}");
    let notes = home.path().join("notes");
    until_noted(&home, &notes, &[&folder]);
    let pid = until("the pid of a step", || {
        let pid = fs::read_to_string(home.path().join("pid")).unwrap_or_default();
        pid.trim().parse::<u32>().map_err(|_| home.logs())
    });
    home.kill(Part::Daemon);
    home.ok(&["abort", "2"]);
    home.until_state(2, "aborted");
    until("the end of the step", || {
        let process = Path::new("/proc").join(pid.to_string());
        (!process.exists()).then_some(()).ok_or(process)
    });
    until_noted(&home, &notes, &[&folder]);
}
