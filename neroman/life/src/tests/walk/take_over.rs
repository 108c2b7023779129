//! A machine that takes over from a lost one. The decision is `source/take_over`; what stands
//! here is the part of `daemon/service/nodes/take_over` that lists the runs of a node.

use std::path::Path;
use std::sync::Arc;

use nero_format::{Definition, Precedence, SharedPart};

use super::folder::{Folder, SpecName};
use super::head::Head;
use super::people::run_lock;
use super::world::{Due, Event, World, note};
use crate::facts::run_record::RunRecord;
use crate::fold::run::RunDemands;
use crate::source::take_over::{FoundRun, take_over};
use crate::tests::lab;
use nero_model::RunId;

/// What becomes of runs that come from a node to a new machine.
pub(super) const TAKEN_OVER: &str = "it is taken over";
/// The time between two tries to take over a node.
const AGAIN_MS: i64 = 1000;

impl World {
    /// The machine of the daemon is lost with all that it knew. A new one has the sources.
    pub fn head_lost(&mut self) {
        let head = Head::new(&self.plan);
        let head = std::mem::replace(&mut self.head, head);
        self.head.boot = head.boot + 1;
        self.head.untaken = (0..self.nodes.len()).collect();
        self.head.links = head.links;
        for link in &mut self.head.links {
            link.forget();
            (link.conn, link.is_trying, link.away_ms, link.about) = (0, false, None, None);
        }
        for node in 0..self.nodes.len() {
            let most_ms = [300, 10_000][self.clock.dice.below(2) as usize];
            let ms = self.clock.dice.ms(1, most_ms);
            self.clock.after(ms, Event::TakeOver(node));
        }
    }

    /// Takes over the runs that lie on a node. A person tries until it is reached.
    pub fn take_over(&mut self, node: usize) {
        let there = &mut self.nodes[node];
        if !self.head.is_up || !there.is_reached {
            return self.clock.after(AGAIN_MS, Event::TakeOver(node));
        }
        there.wakes(&mut self.clock);
        if there.agent.is_none() {
            return self.clock.after(AGAIN_MS, Event::TakeOver(node));
        }
        // The connections of the earlier owner end. The new one waits for what is at work still.
        there.first_conn = self.head.links[node].conns + 1;
        let process = there.processes;
        let is_at_work = |event: &Event| match event {
            Event::Agent(at, by, Due::HandOver(..)) => (*at, *by) == (node, process),
            _ => false,
        };
        if self.clock.heap.values().any(is_at_work) {
            return self.clock.after(20, Event::TakeOver(node));
        }
        let name = there.name.clone();
        let folders = there.disk.iter();
        let folders = folders.filter(|(_, folder)| folder.spec == SpecName::Spec);
        let locks = &self.plan.experiments;
        let lock = |id: &RunId| locks[id.experiment.0 as usize - 1].lock;
        let found = folders.map(|(id, folder)| FoundRun {
            made: RunRecord {
                created_ms: self.clock.now,
                ..made(*id, folder, &name, lock(id))
            },
            name: format!("e{}", id.experiment),
            generation: folder.generation,
            rules_version: 1,
            rules: Vec::new(),
            spec: Arc::from([]),
        });
        let found: Vec<FoundRun> = found.collect();
        note!(
            self.clock,
            None,
            "{name}: {} runs are taken over",
            found.len()
        );
        let unknown = |_: &FoundRun| Definition::default();
        let (state, folder) = (&self.head.state, Path::new("/taken-over"));
        let taken = take_over(state, &name, folder, found, unknown, self.clock.now);
        self.head.untaken.remove(&node);
        self.commit(TAKEN_OVER, true, true, taken.changes);
        self.daemon_dies(false);
    }
}

/// What the spec of a run tells.
fn made(id: RunId, folder: &Folder, node: &str, lock: Option<bool>) -> RunRecord {
    RunRecord {
        token: folder.token,
        placing: true,
        takes: RunDemands {
            cpus: folder.cpus.into(),
            ..RunDemands::default()
        },
        precedence: SharedPart::from(Precedence {
            lock: lock.map(run_lock),
            ..Precedence::default()
        }),
        priority: folder.turn.priority,
        rank: folder.turn.rank,
        ..lab::made(id, node)
    }
}
