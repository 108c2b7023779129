//! What a start asks of clusters: GPU-hours, told before they are used, and tasks that are
//! so short that the scheduler takes longer than their runs.

use std::collections::HashMap;

use nero_config::{Config, Warden};
use nero_model::Phase;

use super::unschedulable::RunDemand;
use crate::service::counted;
use nero_life::add::ranges;
use nero_life::state::State;

/// Runs that usually end sooner are short.
const SHORT_MS: u64 = 60_000;
/// From so many GPU-hours on a person is asked before the start.
const MUCH_HOURS: f64 = 100.0;
/// Fewer short runs are no burden.
const SHORT_MIN: usize = 20;

/// The GPUs that the runs ask for, by their time.
#[derive(Default)]
struct GpuTime {
    runs: usize,
    gpu_ms: u128,
    /// Of the runs: those without a time limit.
    open: usize,
}

/// Whether any node has a scheduler.
pub(crate) fn may_cost(config: &Config) -> bool {
    let mut nodes = config.nodes.values();
    nodes.any(|node| node.warden != Warden::None)
}

/// The GPU-hours of these runs, if they are many.
pub(crate) fn much(config: &Config, asking: &[RunDemand]) -> Option<String> {
    let mut words: HashMap<&str, Option<String>> = HashMap::new();
    let mut gpus = GpuTime::default();
    for one in asking {
        let cluster = words
            .entry(&one.word)
            .or_insert_with(|| guarded(config, &one.word));
        if let Some(node) = cluster {
            gpus.add(one, node);
        }
    }
    gpus.note().filter(|_| gpus.hours() >= MUCH_HOURS)
}

/// Lines about runs that go to a scheduler.
pub(crate) fn notes(config: &Config, state: &State, asking: &[RunDemand]) -> Vec<String> {
    let mut gpus = GpuTime::default();
    let mut lone: Vec<&RunDemand> = Vec::new();
    let mut words: HashMap<&str, Option<String>> = HashMap::new();
    for one in asking {
        let cluster = words
            .entry(&one.word)
            .or_insert_with(|| guarded(config, &one.word));
        let Some(node) = cluster else { continue };
        gpus.add(one, node);
        if one.takes.scheduling.pack.on(node).is_none() {
            lone.push(one);
        }
    }
    let mut notes: Vec<String> = gpus.note().into_iter().collect();
    let mut short = Vec::new();
    if lone.len() >= SHORT_MIN {
        let usual = usual_ms(state);
        lone.retain(|one| {
            let usual_ms = usual.get(one.definition.collections.as_slice());
            usual_ms.is_some_and(|usual_ms| *usual_ms < SHORT_MS)
        });
        short.extend(lone.iter().map(|one| one.id.experiment));
    }
    if short.len() >= SHORT_MIN {
        notes.push(format!(
            "{}: runs like these take less than a minute, and a scheduler takes longer to start \
             each: `pack: 50` puts 50 of them into one of its tasks",
            ranges(short.into_iter())
        ));
    }
    notes
}

/// The median run time of the finished experiments of each collection.
fn usual_ms(state: &State) -> HashMap<&[String], u64> {
    let mut took: HashMap<&[String], Vec<u64>> = HashMap::new();
    for experiment in state.experiments.iter() {
        let newest = experiment.runs.last();
        let finished = newest.filter(|run| run.phase() == Phase::Finished);
        if let Some(exit) = finished.and_then(|run| run.exit()) {
            let of = took.entry(&experiment.definition.collections);
            of.or_default().push(exit.run_ms);
        }
    }
    let median = |mut took: Vec<u64>| {
        took.sort_unstable();
        took.get(took.len() / 2).copied()
    };
    took.into_iter()
        .filter_map(|(of, took)| Some((of, median(took)?)))
        .collect()
}

/// The first node of a word that has a scheduler.
fn guarded(config: &Config, word: &str) -> Option<String> {
    let target = config.resolve(word).ok()?;
    let has_one = |name: &&String| {
        let node = config.node(name);
        node.is_some_and(|node| node.warden != Warden::None)
    };
    target.nodes().iter().find(has_one).cloned()
}

impl GpuTime {
    fn add(&mut self, one: &RunDemand, node: &str) {
        let gpus = one.takes.scheduling.gpus.on(node).copied().unwrap_or(0);
        if gpus == 0 {
            return;
        }
        self.runs += 1;
        match one.definition.resources.on(node).time_ms {
            Some(time_ms) => self.gpu_ms += u128::from(gpus) * u128::from(time_ms),
            None => self.open += 1,
        }
    }

    fn hours(&self) -> f64 {
        self.gpu_ms as f64 / 3_600_000.0
    }

    fn note(&self) -> Option<String> {
        if self.runs == 0 {
            return None;
        }
        let hours = match self.hours() {
            hours @ ..10.0 => format!("{hours:.1}"),
            hours => format!("{hours:.0}"),
        };
        let open = match self.open {
            0 => String::new(),
            open => format!("; {open} of them have no `time`, and are not in this sum"),
        };
        let runs = counted(self.runs as u64, "run");
        Some(format!("{runs} on GPUs: {hours} GPU-hours at most{open}"))
    }
}
