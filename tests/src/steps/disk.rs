//! A disk on which a story happens: every call that changes a file is recorded, and one may fail.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command};

use tempfile::TempDir;

use super::{Place, Point};
use crate::cluster::Cluster;
use crate::home::program;
use crate::hosts::Plan;
use crate::late::{may_mount, serve};
use crate::{Home, Hosts};

/// A mounted disk with a home on it; the home ends first.
#[derive(Debug)]
pub(super) struct StoryDisk {
    home: Option<Home>,
    nodes: Nodes,
    server: Child,
    at: PathBuf,
    record: PathBuf,
    folder: TempDir,
}

/// What runs are executed on; it lasts as long as this.
#[derive(Debug)]
enum Nodes {
    Local,
    Cluster { _cluster: Cluster },
    Hosts(Hosts),
}

impl StoryDisk {
    /// A fresh disk for this thread; `None` where this user may not mount one. `first_cut` is the
    /// number of the first sync in front of which the power may be cut.
    pub(super) fn mounted(fault: Option<&Point>, first_cut: Option<u64>) -> Option<Self> {
        may_mount()?;
        let folder = tempfile::Builder::new().prefix("ns").tempdir();
        let folder = folder.expect("a folder");
        let path = |name: &str| folder.path().join(name);
        let (behind, at, record) = (path("b"), path("d"), path("record"));
        for made in [
            &behind,
            &at,
            &path("cuts"),
            &path("programs"),
            &path("said"),
        ] {
            fs::create_dir(made).expect("a folder");
        }
        let description = path("disk");
        let full = path("full");
        let lines = [&behind, &at, Path::new("0"), &full, &record];
        let lines = lines.map(|line| line.display().to_string() + "\n");
        let fault = fault.map_or_else(String::new, Point::line);
        let cuts = first_cut.map(|first| format!("{} {first}\n", path("cuts").display()));
        let text = lines.concat() + &fault + "\n" + &cuts.unwrap_or_default();
        fs::write(&description, text).expect("a file");
        let server = serve(&description);
        let own = tempfile::Builder::new().prefix("h").tempdir_in(&at);
        Some(Self {
            home: Some(Home::in_folder(own.expect("a folder"))),
            nodes: Nodes::Local,
            server,
            at,
            record,
            folder,
        })
    }

    /// The same with what its runs are executed on.
    pub(super) fn with(mut self, place: Place) -> Self {
        let home = self.home.as_mut().expect("it ends with the disk");
        self.nodes = match place {
            Place::Here => Nodes::Local,
            Place::Cluster(scheduler) => {
                let cluster = Cluster::alone(scheduler);
                cluster.log_in(home);
                Nodes::Cluster { _cluster: cluster }
            }
            Place::Host | Place::Upgrade => {
                let hosts = Plan::new(1).below(&self.at).up();
                home.set_env("NERONET_SSH", &hosts.ssh_command());
                home.configure("nodes: {h1: {address: h1, cpus: 2}}\n");
                Nodes::Hosts(hosts)
            }
        };
        if place == Place::Upgrade {
            let older = self.folder.path().join("older");
            self.home().other_build_at(&older, 1);
            self.start_by("");
            self.start("", &older.join("neroman"));
        }
        self
    }

    /// A folder with one path for the story and for its jobs.
    pub(super) fn common(&self) -> PathBuf {
        match &self.nodes {
            Nodes::Hosts(hosts) => hosts.common(),
            Nodes::Local | Nodes::Cluster { .. } => self.home().path().to_path_buf(),
        }
    }

    /// The home on it.
    pub(super) fn home(&self) -> &Home {
        self.home.as_ref().expect("it ends with the disk")
    }

    /// Has commands started in this way from now on: `exec WORDS neroman …`.
    pub(super) fn start_by(&mut self, words: &str) {
        let folder = self.folder.path().join("programs");
        let home = self.home.as_mut().expect("it ends with the disk");
        home.use_programs(&folder);
        self.start(words, &program("neroman"));
    }

    fn start(&self, words: &str, neroman: &Path) {
        let script = self.folder.path().join("programs/neroman");
        let text = format!("#!/bin/sh\nexec {words} {} \"$@\"\n", neroman.display());
        self.home().script(&script, text);
    }

    /// Has later commands started from the present build, where an older one was used.
    pub(super) fn upgrade(&self) {
        self.start("", &program("neroman"));
    }

    /// Where contents and cuts lie.
    pub(super) fn cuts(&self) -> PathBuf {
        self.folder.path().join("cuts")
    }

    /// Where the answers to the person are kept: not on the disk, since a fault is judged by them.
    pub(super) fn said(&self) -> PathBuf {
        self.folder.path().join("said")
    }

    /// Ends all that happens there, and takes the disk away.
    pub(super) fn take_away(&mut self) {
        self.home().end_everything();
        let gone = Command::new("umount").arg("-l").arg(&self.at).status();
        assert!(gone.is_ok_and(|status| status.success()));
        let _ = self.server.wait();
    }

    /// How often each point was passed until now.
    pub(super) fn passed(&self) -> BTreeMap<String, u32> {
        let mut passed = BTreeMap::new();
        for line in fs::read_to_string(&self.record).unwrap_or_default().lines() {
            *passed.entry(line.to_owned()).or_default() += 1;
        }
        passed
    }

    /// How often the fault happened.
    pub(super) fn failures(&self) -> u32 {
        let passed = self.passed().into_iter();
        let failed = passed.filter(|(line, _)| line.starts_with("! "));
        failed.map(|(_, times)| times).sum()
    }

    /// Keeps what was behind the disk; its folder.
    pub(super) fn keep(&mut self) -> PathBuf {
        self.folder.disable_cleanup(true);
        if let Some(home) = &mut self.home {
            home.keep();
        }
        self.folder.path().to_path_buf()
    }
}

impl Drop for StoryDisk {
    fn drop(&mut self) {
        drop(self.home.take());
        self.nodes = Nodes::Local;
        // A process that still works there ends with its home.
        let _ = Command::new("umount")
            .args(["-l", "-q"])
            .arg(&self.at)
            .status();
        let _ = self.server.kill();
        let _ = self.server.wait();
    }
}
