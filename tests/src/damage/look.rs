//! The user's view of all runs, once nothing changes any more.

use std::collections::BTreeMap;
use std::fs;
use std::thread;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::stage::Stage;

/// Time within which every run is started, if at all.
const PATIENCE: Duration = Duration::from_secs(60);
/// Time without a change after which a difference counts as lasting.
const STILL: Duration = Duration::from_secs(4);
/// Between two looks.
const LOOK: Duration = Duration::from_millis(150);

/// The user's view.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Seen {
    /// State, code and metrics of each experiment.
    experiments: BTreeMap<u64, Value>,
    /// Metric points and output of each experiment.
    traces: BTreeMap<u64, String>,
    /// Number of job starts of each run.
    starts: BTreeMap<String, usize>,
    /// All texts that the user saw.
    pub(super) said: String,
}

impl Seen {
    /// Whether files of a run are on their way: a node that lacked some is asked
    /// again after a pause.
    fn is_staging(&self) -> bool {
        let mut all = self.experiments.values();
        all.any(|facts| facts["state"] == "staging")
    }

    /// Fault that makes this view unfit as the truth to compare with.
    pub(super) fn unfit(&self) -> Option<String> {
        let state = |id: u64| self.experiments[&id]["state"].as_str().unwrap_or_default();
        if self.experiments.len() != 8 {
            return Some(format!("{} experiments", self.experiments.len()));
        }
        let expected = [
            (1, "finished"),
            (2, "crashed"),
            (3, "aborted"),
            (4, "lost"),
            (5, "lost"),
            (6, "finished"),
            (7, "finished"),
            (8, "finished"),
        ];
        let wrong = expected.iter().find(|(id, end)| state(*id) != *end)?;
        Some(format!("{} is {}", wrong.0, state(wrong.0)))
    }

    /// Whether a job began more often in `there` than in this view.
    pub(super) fn ran_again(&self, there: &Self) -> bool {
        let before = |run: &str| self.starts.get(run).copied().unwrap_or(0);
        there.starts.iter().any(|(run, count)| *count > before(run))
    }

    /// Differences of `there` from this view, without texts for people.
    pub(super) fn differences(&self, there: &Self) -> Vec<String> {
        let mut all = Vec::new();
        for (id, here) in &self.experiments {
            match there.experiments.get(id) {
                None => all.push(format!("{id} is not shown")),
                Some(other) if other != here => {
                    all.push(format!("{id}: {other} instead of {here}"))
                }
                Some(_) => {}
            }
        }
        for (id, here) in &self.traces {
            if there.traces.get(id) != Some(here) {
                let other = there.traces.get(id).map_or("nothing", String::as_str);
                all.push(format!("traces of {id}: {other:?} instead of {here:?}"));
            }
        }
        if self.starts != there.starts {
            all.push(format!(
                "starts {:?} instead of {:?}",
                there.starts, self.starts
            ));
        }
        all
    }
}

/// Looks until the view is the same as `truth`, or nothing changes any more.
pub(super) fn settled(stage: &Stage, truth: Option<&Seen>) -> Seen {
    let began = Instant::now();
    let mut moved = Instant::now();
    let mut before = Seen::default();
    loop {
        let mut now = overview(stage);
        if now.experiments != before.experiments || now.starts != before.starts || now.is_staging()
        {
            moved = Instant::now();
        }
        let arrived = truth.is_some_and(|truth| now.experiments == truth.experiments);
        if arrived || moved.elapsed() > STILL || began.elapsed() > PATIENCE {
            details(stage, &mut now);
            let same = truth.is_none_or(|truth| truth.differences(&now).is_empty());
            if same || moved.elapsed() > STILL || began.elapsed() > PATIENCE {
                return now;
            }
        }
        before = now;
        thread::sleep(LOOK);
    }
}

fn overview(stage: &Stage) -> Seen {
    let mut seen = Seen::default();
    let ran = stage.home.run(&["status", "all", "--json"]);
    let reply: Value = serde_json::from_str(&ran.out).unwrap_or_default();
    for one in reply["experiments"].as_array().into_iter().flatten() {
        let Some(id) = one["id"].as_u64() else {
            continue;
        };
        let facts = json!({
            "state": one["state"],
            "exit_code": one["exit_code"],
            "settled": one["settled"],
            "run": one["run"],
            "metrics": one["metrics"]["loss"],
        });
        seen.experiments.insert(id, facts);
    }
    let notes = fs::read_to_string(stage.notes()).unwrap_or_default();
    for line in notes.lines() {
        let run = line.split(' ').nth(1).unwrap_or_default();
        *seen.starts.entry(run.to_owned()).or_default() += 1;
    }
    seen.said = ran.out + &ran.err;
    seen
}

/// The details: each run, its metrics and output, the node.
fn details(stage: &Stage, seen: &mut Seen) {
    let mut say = |words: &[&str]| {
        let ran = stage.home.run(words);
        seen.said.push_str(&ran.out);
        seen.said.push_str(&ran.err);
        ran.out
    };
    // A daemon that refuses to start prints the same each time.
    if seen.experiments.is_empty() {
        return;
    }
    say(&["status", "all"]);
    say(&["status", "nodes"]);
    for id in 1..=stage.count {
        let id_text = id.to_string();
        let metrics = stage.home.run(&["metrics", &id_text, "--json"]);
        let series: Value = serde_json::from_str(&metrics.out).unwrap_or_default();
        let series = &series["series"][0];
        let logs = stage.home.run(&["logs", &id_text]);
        let traces = format!("{} {} {}", series["steps"], series["values"], logs.out);
        seen.traces.insert(id, traces);
        seen.said.push_str(&metrics.err);
        seen.said.push_str(&logs.err);
        let shown = stage.home.run(&["show", &id_text]);
        seen.said.push_str(&shown.out);
        seen.said.push_str(&shown.err);
    }
}
