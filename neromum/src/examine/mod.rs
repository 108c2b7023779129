//! Examines what a node allows, for `node doctor`: everything is tried or read
//! here and now, nothing is guessed from names. Every finding contains its
//! meaning for runs and the remedy. Each program that it runs has a time limit.

mod clock;
mod containers;
mod description;
mod disk;
mod kernel;
mod limits;
mod programs;
mod schedulers;
mod survive;
mod toolkits;

use std::path::PathBuf;
use std::sync::Arc;

use nero_node::cards::CardsKnown;
use nero_node::staging::environment::Base;
use nero_warden::Warden;
use nero_wire::v1::Finding;
use nero_wire::v1::finding::Level;

pub use kernel::{kernel, libc};

/// Longest text of one finding, in characters.
const TEXT_CHARS: usize = 2000;
/// Programs looked for in one examination.
const PROGRAMS_MAX: usize = 32;

/// Input of an examination.
#[derive(Debug)]
pub struct Subject {
    /// The node's root.
    pub root: PathBuf,
    /// A folder of ours on the same file system.
    pub folder: PathBuf,
    /// Free disk to keep.
    pub min_free: u64,
    /// GPUs that were found.
    pub gpus: CardsKnown,
    /// Interpreters that experiments name.
    pub programs: Vec<String>,
    /// The scheduler that the configuration describes.
    pub described: Option<Arc<dyn Warden>>,
}

/// Collects findings.
#[derive(Debug, Default)]
struct Findings(Vec<Finding>);

impl Findings {
    fn add(&mut self, level: Level, what: &str, text: impl AsRef<str>, hint: &str) {
        self.0.push(Finding {
            level: level.into(),
            what: what.to_owned(),
            text: text.as_ref().chars().take(TEXT_CHARS).collect(),
            hint: hint.to_owned(),
            ..Finding::default()
        });
    }

    /// A scheduler that can be the node's `warden:`.
    /// A scheduler that can be a node's `warden:`; its level is good when it answered.
    fn scheduler(
        &mut self,
        level: Level,
        warden: nero_wire::v1::Warden,
        text: impl AsRef<str>,
        hint: &str,
    ) {
        self.add(level, "scheduler", text, hint);
        if let Some(finding) = self.0.last_mut() {
            finding.set_warden(warden);
        }
    }

    fn has_warden(&self) -> bool {
        let none = nero_wire::v1::Warden::Unspecified;
        self.0.iter().any(|finding| finding.warden() != none)
    }

    fn good(&mut self, what: &str, text: impl AsRef<str>) {
        self.add(Level::Good, what, text, "");
    }

    fn warning(&mut self, what: &str, text: impl AsRef<str>, hint: &str) {
        self.add(Level::Warning, what, text, hint);
    }

    fn bad(&mut self, what: &str, text: impl AsRef<str>, hint: &str) {
        self.add(Level::Bad, what, text, hint);
    }
}

/// Examines everything, in the order in which people read it.
pub async fn examine(mut subject: Subject) -> Vec<Finding> {
    subject.programs.truncate(PROGRAMS_MAX);
    let clock = clock::ExaminationStart::now();
    let base = Base::of_node();
    let (kills, quota, schedulers, programs, toolkits, containers) = tokio::join!(
        survive::kills_at_logout(),
        disk::quota(&subject.folder),
        schedulers::examine(&base, subject.described.as_deref()),
        programs::examine(&base, &subject.programs),
        toolkits::versions(&base, &subject.gpus),
        containers::examine(&base, &subject.gpus),
    );
    let has_scheduler = subject.described.is_some() || schedulers.has_warden();
    let read = tokio::task::spawn_blocking(move || {
        let mut findings = Findings::default();
        survive::judge(&mut findings, kills);
        limits::judge(&mut findings);
        disk::judge(&mut findings, &subject, quota);
        if has_scheduler {
            disk::is_shared_with_hosts(&mut findings, &subject.root);
        }
        clock.judge(&mut findings);
        kernel::judge(&mut findings);
        programs::gpus(&mut findings, &subject.gpus);
        findings
    });
    let mut findings = read.await.unwrap_or_else(|_| {
        let mut failed = Findings::default();
        failed.bad(
            "examination",
            "it failed in the middle",
            "look into neromum's log, and please report it",
        );
        failed
    });
    findings.0.extend(schedulers.0);
    findings.0.extend(programs.0);
    findings.0.extend(toolkits.0);
    findings.0.extend(containers.0);
    findings.0
}
