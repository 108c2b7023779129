//! Balancing: runs that wait on one node of a group although another one has room
//! now are recalled and go there.
//!
//! Nothing goes back and forth. A run goes only where it starts at once, it never
//! goes back by balancing to a node that it left, and after one move it stays for
//! [`STAYS_MS`]. A node gets its next runs when the ones before have begun there.

use nero_model::RunId;

use crate::facts::now::Tick;
use crate::facts::stage::Stage;
use crate::fold::run::Run;
use crate::step::deferred;
pub use crate::step::recall::waits_freely;

/// How long a run that was moved stays where it is, in milliseconds.
pub const STAYS_MS: i64 = deferred::PASSED_OVER_MS;
/// Runs that a node gets at a time: each costs two nodes a few requests.
pub const AT_A_TIME: usize = 8;
/// Moving a run for less of a wait costs more than it brings, in milliseconds.
const WORTH_MS: u64 = 5000;
/// The assumed run time of an experiment of whose collection no run has finished, in
/// milliseconds.
const UNKNOWN_MS: u64 = 10 * 60 * 1000;

/// Whether a node starts runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Starts {
    /// It answers, and starts runs.
    Yes,
    /// It answers, and starts nothing now: its disk is full, for example.
    Held,
    /// It does not answer.
    Silent,
}

/// Where a run of ours on a node stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum At {
    /// It was started.
    Begun,
    /// It waits for its start.
    Waits {
        /// Whether it may be recalled: else it stays until its start.
        free: bool,
    },
    /// It is being recalled, and goes to the named node, if any.
    Leaves { to: Option<String> },
}

/// A live run of ours on a node.
#[derive(Clone, Debug, PartialEq)]
pub struct Job {
    pub id: RunId,
    /// Processors that it takes.
    pub cores: f64,
    /// Memory that it takes; 0: not stated.
    pub memory_bytes: u64,
    pub at: At,
    /// The usual run time of its collection, in milliseconds, if known.
    pub usual_ms: Option<u64>,
}

impl Job {
    /// A live run as it stands on its node.
    pub fn of(run: &Run, usual_ms: Option<u64>, now: &Tick) -> Self {
        let takes = run.made.takes.on(run.node().unwrap_or_default());
        let memory_bytes = takes.memory_bytes;
        let at = match &run.dispatch.stage {
            Stage::Begun { .. } => At::Begun,
            Stage::Recalled { recall, .. } if run.dispatch.leaves() => At::Leaves {
                to: recall.to.clone(),
            },
            Stage::Behind { .. }
            | Stage::Unplaced
            | Stage::Chosen { .. }
            | Stage::Offered { .. }
            | Stage::Accepted { .. }
            | Stage::Recalled { .. }
            | Stage::Over { .. } => At::Waits {
                free: waits_freely(run) && !deferred::left_within(&run.dispatch, STAYS_MS, now),
            },
        };
        Self {
            id: run.made.id,
            cores: takes.cores(),
            memory_bytes,
            at,
            usual_ms,
        }
    }

    /// Keeps it on its node.
    pub fn stays(&mut self) {
        if let At::Waits { free } = &mut self.at {
            *free = false;
        }
    }

    /// Its work, in processors × milliseconds.
    fn work(&self) -> f64 {
        self.cores * self.usual_ms.unwrap_or(UNKNOWN_MS) as f64
    }
}

/// A node as the decision sees it.
#[derive(Clone, Debug, PartialEq)]
pub struct Member {
    pub name: String,
    pub cpus: f64,
    pub memory_bytes: u64,
    pub starts: Starts,
    /// How long it has started none of our runs, in milliseconds; 0 if it never did.
    pub quiet_ms: u64,
    /// The live runs of ours there, in the order in which the node starts them.
    pub jobs: Vec<Job>,
}

/// A run to be recalled.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Move {
    pub run: RunId,
    pub from: String,
    pub to: String,
}

/// Processors and memory that are free on a node.
#[derive(Clone, Copy, Debug)]
struct Room {
    cores: f64,
    memory_bytes: u64,
}

impl Room {
    fn of(node: &Member) -> Self {
        let mut room = Self {
            cores: node.cpus,
            memory_bytes: node.memory_bytes,
        };
        for job in node.jobs.iter().filter(|job| job.at == At::Begun) {
            room.take(job);
        }
        room
    }

    fn fits(&self, job: &Job) -> bool {
        job.cores <= self.cores && job.memory_bytes <= self.memory_bytes
    }

    fn take(&mut self, job: &Job) {
        self.cores -= job.cores;
        self.memory_bytes = self.memory_bytes.saturating_sub(job.memory_bytes);
    }
}

/// A node whose runs wait, with those of them that it cannot start now.
struct Queue<'a> {
    node: &'a Member,
    jobs: Vec<&'a Job>,
}

impl<'a> Queue<'a> {
    fn of(node: &'a Member) -> Self {
        let mut room = Room::of(node);
        let mut is_full = node.starts == Starts::Held;
        let mut jobs = Vec::new();
        for job in &node.jobs {
            match &job.at {
                At::Begun | At::Leaves { .. } => continue,
                At::Waits { .. } => {}
            }
            // The node starts its runs in order: none overtakes another.
            is_full |= !room.fits(job);
            if is_full {
                jobs.push(job)
            } else {
                room.take(job)
            }
        }
        Self { node, jobs }
    }

    /// The expected wait of its last run, in milliseconds: at least as long as the node
    /// has started none, since a job before them may take longer than usual.
    fn wait_ms(&self) -> f64 {
        if self.jobs.is_empty() {
            return 0.0;
        }
        if self.node.starts == Starts::Held {
            return f64::INFINITY;
        }
        let work: f64 = self.jobs.iter().map(|job| job.work()).sum();
        (work / self.node.cpus.max(0.01)).max(self.node.quiet_ms as f64)
    }

    /// The index of the last run that may go to this node and starts there at once.
    fn last_for(&self, to: &str, room: &Room, may: NodePredicate<'_>) -> Option<usize> {
        let goes = |job: &&Job| {
            let free = matches!(job.at, At::Waits { free: true });
            free && room.fits(job) && may(job.id, to)
        };
        self.jobs.iter().rposition(goes)
    }
}

/// Whether a run may go to a node: the word that was asked for stands for it, it fits
/// the run, and the run has not left it before.
pub type NodePredicate<'a> = &'a dyn Fn(RunId, &str) -> bool;

/// The runs to be recalled, each with the node that has room for it.
pub fn decide(nodes: &[Member], may: NodePredicate<'_>) -> Vec<Move> {
    let silent = |node: &&Member| node.starts != Starts::Silent;
    let mut queues: Vec<Queue<'_>> = nodes.iter().filter(silent).map(Queue::of).collect();
    queues.retain(|queue| !queue.jobs.is_empty());
    let mut moves = Vec::new();
    for node in nodes.iter().filter(|node| has_room(node, nodes)) {
        let mut room = Room::of(node);
        for _ in 0..AT_A_TIME {
            let mut best: Option<(usize, usize, f64)> = None;
            for (index, queue) in queues.iter().enumerate() {
                let wait_ms = queue.wait_ms();
                if wait_ms < WORTH_MS as f64 || best.is_some_and(|(_, _, held)| wait_ms <= held) {
                    continue;
                }
                if let Some(last) = queue.last_for(&node.name, &room, may) {
                    best = Some((index, last, wait_ms));
                }
            }
            let Some((index, last, _)) = best else { break };
            let job = queues[index].jobs.remove(last);
            room.take(job);
            moves.push(Move {
                run: job.id,
                from: queues[index].node.name.clone(),
                to: node.name.clone(),
            });
        }
    }
    moves
}

/// Whether a node may get runs: it starts them, none waits there, and none is on its
/// way there. A run on a node that does not answer is not on its way.
fn has_room(node: &Member, nodes: &[Member]) -> bool {
    let waits = |job: &Job| job.at != At::Begun;
    let comes = |job: &Job| matches!(&job.at, At::Leaves { to: Some(to) } if *to == node.name);
    node.starts == Starts::Yes
        && Room::of(node).cores > 0.0
        && !node.jobs.iter().any(waits)
        && !nodes
            .iter()
            .filter(|other| other.starts != Starts::Silent)
            .any(|other| other.jobs.iter().any(comes))
}

/// Whether the run left this node once without a start.
pub fn left(run: &Run, node: &str) -> bool {
    let mut left = run.dispatch.deferred.iter();
    left.any(|one| one.node == node && one.left_ms.is_some())
}

#[cfg(test)]
mod tests;
