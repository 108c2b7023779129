//! The time after the faults: every run comes to its end, and every tier agrees
//! on it.

use std::thread;
use std::time::{Duration, Instant};

use serde_json::Value;

use super::client::{Answer, Client};
use super::plan::Fate;
use super::run::Chaos;

/// All tiers agree within 60 s of contact; twice that on a loaded machine.
/// Counted anew whenever something has moved, as there may be much to run.
pub(super) const AGREE: Duration = Duration::from_secs(120);

/// Pause between two commands that let paused runs go on.
const RESUME: Duration = Duration::from_secs(3);

/// Pause between two questions.
pub(super) const LOOK: Duration = Duration::from_millis(200);

/// An experiment as neroman shows it, once everything has ended.
#[derive(Debug)]
pub(super) struct Seen {
    /// Index of the planned experiment.
    pub which: usize,
    /// Number of the experiment.
    pub id: u64,
    /// Whether it ever had a run.
    pub ran: bool,
}

impl Chaos {
    /// Waits until every run has ended and its results are at home.
    pub(super) fn settle(&mut self) -> Option<Vec<Seen>> {
        let peace = Instant::now();
        self.abort_held();
        let mut moved = Instant::now();
        let mut before = Vec::new();
        loop {
            let all = self.experiments()?;
            let open: Vec<String> = all.iter().filter(|one| is_open(one)).map(named).collect();
            if open.is_empty() {
                let took = peace.elapsed().as_secs_f64();
                self.history.add(format!(
                    "all ended and settled {took:.1} s after the faults"
                ));
                return Some(self.seen(&all));
            }
            self.resume_cluster();
            self.resume_paused();
            self.watch_containers();
            if !self.broken.is_empty() {
                return None;
            }
            if open != before {
                before = open;
                moved = Instant::now();
            } else if moved.elapsed() > self.agree() {
                let wait = self.agree().as_secs();
                self.broken
                    .push(format!("nothing moved for {wait} s: {before:#?}"));
                return None;
            }
            thread::sleep(LOOK);
        }
    }

    /// Time without any change after which the tiers do not agree any more. A doubt about
    /// a submission takes several listings, each after a pause.
    pub(super) fn agree(&self) -> Duration {
        match self.world.cluster {
            Some(_) => AGREE * 4,
            None => AGREE,
        }
    }

    /// Aborts the experiments that only a person ends.
    pub(super) fn abort_held(&mut self) {
        let Some(all) = self.experiments() else {
            return;
        };
        let held: Vec<String> = self
            .seen(&all)
            .into_iter()
            .filter(|seen| seen.ran && self.planned[seen.which].fate == Fate::Person)
            .map(|seen| seen.id.to_string())
            .collect();
        if !held.is_empty() {
            // It may end none, when a client has aborted all of them before.
            self.ask(&["abort", &held.join(","), "--yes"]);
        }
    }

    /// Lets paused runs go on: a command of the chaos may have been carried out late.
    pub(super) fn resume_paused(&mut self) {
        if self.resumed_runs.elapsed() < RESUME {
            return;
        }
        self.resumed_runs = Instant::now();
        self.ask(&["resume", "paused", "--yes"]);
    }

    fn experiments(&mut self) -> Option<Vec<Value>> {
        let answer = self.ask(&["status", "all", "--json"])?;
        if answer.code == Some(0) {
            return answer.json()["experiments"].as_array().cloned();
        }
        if self.planned.is_empty() {
            return Some(Vec::new());
        }
        self.broken
            .push(format!("status without any fault: {answer:?}"));
        None
    }

    fn seen(&self, all: &[Value]) -> Vec<Seen> {
        let which = |one: &Value| {
            self.planned
                .iter()
                .position(|plan| one["name"] == *plan.name)
        };
        all.iter()
            .filter_map(|one| {
                Some(Seen {
                    which: which(one)?,
                    id: one["id"].as_u64()?,
                    ran: !one["run"].is_null(),
                })
            })
            .collect()
    }

    /// Runs a command to its end.
    pub(super) fn ask(&mut self, words: &[&str]) -> Option<Answer<()>> {
        let command = self.world.home.command(words);
        let words = words.iter().map(|word| (*word).to_owned()).collect();
        let folder = self.world.home.path().join("said");
        let patience = self.agree() + Duration::from_secs(30);
        let mut client = match Client::start(command, &folder, 0, words, (), patience) {
            Ok(client) => client,
            Err(error) => {
                self.broken
                    .push(format!("neroman cannot be started: {error}"));
                return None;
            }
        };
        loop {
            match client.look() {
                Ok(Ok(answer)) => return Some(answer),
                Ok(Err(running)) => client = running,
                Err(late) => {
                    self.broken.push(late);
                    return None;
                }
            }
            thread::sleep(Duration::from_millis(2));
        }
    }
}

/// Whether an experiment of `status --json` has a run of which something is still to come.
pub(crate) fn is_open(one: &Value) -> bool {
    if one["run"].is_null() {
        return false;
    }
    let phase = one["phase"].as_str().unwrap_or_default();
    let ended = ["finished", "crashed", "aborted", "timeout", "lost"].contains(&phase);
    // A lost run may never be settled.
    !ended || (phase != "lost" && one["settled"] != true)
}

fn named(one: &Value) -> String {
    format!(
        "{} {} on {}: {} ({}) settled {}, cancel {}, waiting for {}, contact {}",
        one["run"],
        one["name"],
        one["node"],
        one["phase"],
        one["reason"],
        one["settled"],
        one["wish"],
        one["waiting_for"],
        one["contact"]
    )
}
