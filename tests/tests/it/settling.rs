//! A run that ends on a node with a full disk: its output is read when there is
//! room, however long that takes, and none of it is missing then.

use std::collections::HashSet;
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use nero_tests::disk::{Bound, Small};
use nero_tests::home::{end, program};
use nero_tests::hosts::Plan;
use nero_tests::{Part, until};
use serde_json::json;

use crate::ssh::{Lab, release};

/// Number of tries of neromum that change nothing: more than it makes before it
/// gives up a run that cannot be read for another reason.
const TRIES: usize = 5;

/// The node with the full disk.
trait FullNode {
    fn name(&self) -> &str;
    /// Root of the node, as this machine sees it.
    fn root(&self) -> PathBuf;
    fn fill(&self, full: bool);
    fn kill_watchers(&self);
    /// Runs a command line in its root, where `$KID` is `nerokid`.
    fn shell(&self, line: &str) -> Output;
}

struct There<'a>(&'a Lab);

impl FullNode for There<'_> {
    fn name(&self) -> &str {
        "h1"
    }

    fn root(&self) -> PathBuf {
        self.0.hosts.home("h1").join(".neronet")
    }

    fn fill(&self, full: bool) {
        if full {
            self.0.hosts.fill("h1", 0);
        } else {
            self.0.hosts.free("h1");
        }
    }

    fn kill_watchers(&self) {
        end(&self.0.parts("h1", Part::Watcher));
    }

    fn shell(&self, line: &str) -> Output {
        let line = format!("cd ~/.neronet && KID=$(echo bin/*/nerokid) && {line}");
        self.0.hosts.ssh("h1", &line)
    }
}

struct Here<'a> {
    lab: &'a Lab,
    small: Small,
    _bound: Bound,
}

impl Here<'_> {
    fn of(lab: &Lab) -> Option<Here<'_>> {
        let small = Small::mounted(400)?;
        let place = small.path().join("node");
        fs::create_dir(&place).unwrap();
        fs::set_permissions(&place, fs::Permissions::from_mode(0o700)).unwrap();
        let bound = Bound::at(&lab.home.base().join("node"), &place);
        Some(Here {
            lab,
            small,
            _bound: bound,
        })
    }
}

impl FullNode for Here<'_> {
    fn name(&self) -> &str {
        "local"
    }

    fn root(&self) -> PathBuf {
        self.lab.home.base().join("node")
    }

    fn fill(&self, full: bool) {
        if full {
            self.small.fill();
        } else {
            self.small.empty();
        }
    }

    fn kill_watchers(&self) {
        self.lab.home.kill(Part::Watcher);
    }

    fn shell(&self, line: &str) -> Output {
        Command::new("sh")
            .args(["-c", line])
            .current_dir(self.root())
            .env("KID", program("nerokid"))
            .output()
            .unwrap()
    }
}

/// The folder of the first start of run 1.1.
fn started(root: &Path) -> PathBuf {
    let deployments = fs::read_dir(root).unwrap();
    let mut folders = deployments.map(|entry| entry.unwrap().path().join("runs/1/1/1"));
    folders.find(|folder| folder.is_dir()).expect("it started")
}

/// Waits until neromum has tried `times` times to have the output read. Each
/// try makes a segment in this folder and removes it again.
fn tried(folder: &Path, times: usize) {
    let mut seen = HashSet::new();
    until("tries to settle the run", || {
        seen.insert(fs::metadata(folder).unwrap().modified().unwrap());
        if seen.len() > times {
            Ok(())
        } else {
            Err(seen.len())
        }
    });
}

fn ends_without_room(lab: &Lab, node: &dyn FullNode) {
    let pipe = lab.add_held("a");
    lab.start_held(node.name());
    node.fill(true);
    // From here on no watcher reads the job's output.
    node.kill_watchers();
    release(&pipe);
    until("the job to end", || {
        let noted = lab.noted();
        if noted.len() == 2 { Ok(()) } else { Err(noted) }
    });
    until("settling to find no room", || {
        let asked = node.shell(r#"printf '%s\t1\n' "$PWD"/*/runs/1/1 | "$KID" settle"#);
        let said = String::from_utf8_lossy(&asked.stdout).into_owned();
        if said.starts_with("full ") {
            Ok(())
        } else {
            Err((said, asked.stderr))
        }
    });
    tried(&started(&node.root()), TRIES);
    let seen = lab.home.experiment_json(1);
    assert_eq!(seen["settled"], json!(false), "{seen:#}");
    node.fill(false);
    lab.home.until_settled(1);
    lab.ran_once_and_crashed_with_7("a");
}

#[test]
fn on_another_machine_without_room() {
    if !nero_tests::hosts::isolates() {
        eprintln!("skipped: a disk of a size of its own needs root");
        return;
    }
    let lab = Lab::of(Plan::new(1).home_size("400M").up());
    ends_without_room(&lab, &There(&lab));
}

#[test]
fn on_this_machine_without_room() {
    let lab = Lab::new(1);
    let Some(here) = Here::of(&lab) else { return };
    ends_without_room(&lab, &here);
}

#[test]
fn output_that_cannot_be_read_is_told_as_missing() {
    let home = nero_tests::Home::new();
    // The lock of its watchers cannot be opened.
    let lines = "rm -f ../1/watch.lock; mkdir ../1/watch.lock; echo loss 3";
    let yaml = format!("collection: s\n+s: {{command: [sh, -c, '{lines}']}}\n");
    let folder = home.experiment("s", &yaml);
    home.ok(&["start", folder.to_str().unwrap(), "--wait"]);
    home.until_settled(1);
    let shown = home.ok(&["show", "1"]);
    assert!(
        shown.contains("incomplete: what it printed could not be read"),
        "{shown}"
    );
    let told = home.run(&["metrics", "1"]);
    let told = told.out + &told.err;
    assert!(
        told.contains("watch.lock") && !told.contains("no metric was printed"),
        "{told}"
    );
}
