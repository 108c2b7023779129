//! The home that is damaged: runs in every position, killed at once, and a pristine copy of its files.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::Home;
use crate::home::program;
use crate::wait::until;

/// Folder that is not restored: the programs of a node are large and checked elsewhere.
const PROGRAMS: &str = "bin";

/// A home and its pristine copy.
#[derive(Debug)]
pub(super) struct Stage {
    pub(super) home: Home,
    /// Experiments, 1 to this number.
    pub(super) count: u64,
}

impl Stage {
    /// Makes runs that ended in different ways, live runs and waiting runs; then kills everything.
    pub(super) fn make() -> io::Result<Self> {
        let mut home = Home::new();
        home.bind_by_modes();
        home.configure("nodes: {local: {cpus: 3}}\n");
        let stage = Self { home, count: 8 };
        let home = &stage.home;
        home.experiment("d", &stage.yaml());
        home.ok(&["add", "d"]);
        home.ok(&["start", "1-2"]);
        home.ok(&["start", "3"]);
        home.until_state(3, "running");
        home.ok(&["abort", "3", "--yes"]);
        for id in 1..=3 {
            home.until_settled(id);
        }
        home.ok(&["start", "4-6"]);
        for id in 4..=6 {
            stage.until_loss(id);
        }
        home.ok(&["rule", "add", "4", "warn: loss > 900"]);
        stage.copy_facts()?;
        fs::write(stage.path("go"), "")?;
        home.until_settled(6);
        home.ok(&["start", "7-8"]);
        home.until_state(8, "pending");
        home.end_everything();
        fs::rename(home.base(), stage.path("pristine"))?;
        fs::copy(stage.notes(), stage.path("notes.pristine"))?;
        fs::create_dir(home.base())?;
        Ok(stage)
    }

    fn yaml(&self) -> String {
        let job = program("nero-job").display().to_string();
        let notes = self.notes().display().to_string();
        let go = self.path("go").display().to_string();
        let one = |name: &str, more: &str, tail: &str| {
            format!(
                "+{name}:\n  command: [{job}, note, {notes}, start, --, print, step 1 loss 3, --, \
                 print, step 2 loss 2.5{tail}]\n{more}"
            )
        };
        let outputs = "  outputs: [stdout, out.bin]\n  rules: [{warn: loss > 2.8}]\n";
        let wide = "  resources: {cpus: 3}\n  outputs: [stdout]\n";
        [
            "collection: d\nmonitor: {grace: 1s}\n".to_owned(),
            one("done", outputs, ", --, touch, out.bin"),
            one("bad", "", ", --, complain, no, --, exit, '7'"),
            one("stopped", "", ", --, rest"),
            one("held", "  rules: [{abort: loss > 1000}]\n", ", --, rest"),
            one("other", "", ", --, rest"),
            one(
                "late",
                outputs,
                &format!(", --, await, {go}, --, touch, out.bin"),
            ),
            one("waiting", wide, ""),
            one("behind", wide, ""),
        ]
        .concat()
    }

    fn until_loss(&self, id: u64) {
        until(&format!("experiment {id} to have printed"), || {
            let seen = self.home.experiment_json(id);
            let count = seen["metrics"]["loss"]["count"].as_u64();
            if count == Some(2) { Ok(()) } else { Err(seen) }
        });
    }

    /// Copies the database of facts, as the daemon does every hour.
    fn copy_facts(&self) -> io::Result<()> {
        let path = self.home.base().join("data/state.db");
        let database = rusqlite::Connection::open(path).map_err(io::Error::other)?;
        let to = self.path("older.db").display().to_string();
        database
            .execute("VACUUM INTO ?1", [to])
            .map_err(io::Error::other)?;
        Ok(())
    }

    /// Restores the state right after all processes were killed.
    pub(super) fn restore(&self) -> io::Result<()> {
        self.home.end_everything();
        let base = self.home.base();
        let node = base.join("node");
        for folder in [&base, &node] {
            for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
                let path = entry.path();
                if path != node && !path.ends_with(PROGRAMS) {
                    remove(&path)?;
                }
            }
        }
        fs::copy(self.path("notes.pristine"), self.notes())?;
        let pristine = self.path("pristine");
        // Only once: later cases find the programs in place.
        if !node.join(PROGRAMS).exists() {
            copy(&pristine.join("node").join(PROGRAMS), &node.join(PROGRAMS))?;
        }
        for entry in fs::read_dir(&pristine)?.chain(fs::read_dir(pristine.join("node"))?) {
            let path = entry?.path();
            let to = base.join(path.strip_prefix(&pristine).map_err(io::Error::other)?);
            if path != pristine.join("node") && !path.ends_with(PROGRAMS) {
                copy(&path, &to)?;
            }
        }
        Ok(())
    }

    /// File of the jobs' notes.
    pub(super) fn notes(&self) -> PathBuf {
        self.path("notes")
    }

    /// Copy of the facts from the time when runs 4 to 6 were live.
    pub(super) fn older_facts(&self) -> PathBuf {
        self.path("older.db")
    }

    fn path(&self, name: &str) -> PathBuf {
        self.home.path().join(name)
    }

    /// Whether one of our logs contains a panic.
    pub(super) fn panicked(&self) -> bool {
        self.home.logs().contains("panicked")
    }

    /// Keeps the files of a case.
    pub(super) fn keep_case(&self, number: usize) -> io::Result<()> {
        self.home.end_everything();
        let to = self.path(&format!("case-{number}"));
        for name in ["data", "state", "node"] {
            let from = self.home.base().join(name);
            fs::create_dir_all(&to)?;
            if name == "node" {
                fs::create_dir_all(to.join(name))?;
                for entry in fs::read_dir(&from)? {
                    let path = entry?.path();
                    if !path.ends_with(PROGRAMS) {
                        let last = path.file_name().unwrap_or_default();
                        copy(&path, &to.join(name).join(last))?;
                    }
                }
            } else {
                copy(&from, &to.join(name))?;
            }
        }
        Ok(())
    }

    /// Keeps all files; returns their folder.
    pub(super) fn keep(&mut self) -> PathBuf {
        self.home.end_everything();
        self.home.keep()
    }
}

fn copy(from: &Path, to: &Path) -> io::Result<()> {
    if let Some(parent) = to.parent() {
        fs::create_dir_all(parent)?;
    }
    tool(Command::new("cp").arg("-a").arg(from).arg(to))
}

fn remove(path: &Path) -> io::Result<()> {
    tool(Command::new("rm").arg("-rf").arg(path))
}

fn tool(command: &mut Command) -> io::Result<()> {
    let status = command.status()?;
    if status.success() {
        return Ok(());
    }
    Err(io::Error::other(format!("{command:?}: {status}")))
}
