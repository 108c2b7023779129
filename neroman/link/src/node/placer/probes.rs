//! Probes: the nodes are asked what runs compare in `requires`, while these wait. Each answer is
//! awaited in a task of its own: one that hangs keeps neither the placer nor other probes.

use std::collections::BTreeMap;
use std::time::Duration;

use nero_life::place::{Candidate, NodeAvailability, ProbeAnswer};
use nero_life::run::Run;
use nero_model::RunId;
use nero_wire::v1;
use tokio::task::JoinSet;
use tokio::time::Instant;
use tonic::Code;

use super::{PATIENCE, clock};
use crate::connect::mum_client;
use crate::node::NodeHandle;
use crate::node::registry::Nodes;

/// A node is asked again so long after its last answer.
const EVERY: Duration = Duration::from_secs(10);
/// An answer counts for so long, as a description of the node does.
const FRESH: Duration = Duration::from_secs(30);
/// Probes that a node is asked at once. One that hangs keeps its turn for a minute.
const AT_ONCE: usize = 8;
/// How long an answer is awaited: the node itself ends a probe after 60 s.
const ANSWERS_WITHIN: Duration = Duration::from_secs(75);
/// What no run asked for that long is forgotten.
const KEPT: Duration = Duration::from_secs(600);
/// Longest answer, in bytes.
const ANSWER_BYTES_MAX: usize = 4096;

/// The probes of all nodes.
pub(super) struct Probes {
    /// By node, then by line of shell.
    asked: BTreeMap<String, BTreeMap<String, AskedProbe>>,
    calls: JoinSet<ProbeOutput>,
    /// When this look at the runs that wait began.
    look: Instant,
    /// Since when runs wait for no more than answers, by node; of the last look and of this one.
    ready: BTreeMap<RunId, BTreeMap<String, Instant>>,
    ready_now: BTreeMap<RunId, BTreeMap<String, Instant>>,
}

/// One line of shell of one node.
struct AskedProbe {
    answer: Option<TimedAnswer>,
    /// Since when its present answer is awaited.
    asking: Option<Instant>,
    /// When a run last asked for it.
    last_wanted: Instant,
}

struct TimedAnswer {
    printed: Result<String, String>,
    /// Since when it is this answer.
    since_ms: i64,
    asked: Instant,
    answered: Instant,
}

struct ProbeOutput {
    node: String,
    command: String,
    printed: Result<String, String>,
}

/// What the nodes are asked for a run.
#[derive(Default)]
pub(super) struct AskedForRun {
    /// Nodes for whose answers its choice is to wait.
    pub awaited: Vec<String>,
    /// Nodes whose answers are from before: they do not count for it.
    pub old: Vec<String>,
}

impl Default for Probes {
    fn default() -> Self {
        Self {
            asked: BTreeMap::new(),
            calls: JoinSet::new(),
            look: Instant::now(),
            ready: BTreeMap::new(),
            ready_now: BTreeMap::new(),
        }
    }
}

impl Probes {
    /// Begins a look: runs and nodes that the last one did not name are not ready any more.
    pub(super) fn begin_look(&mut self) {
        self.look = Instant::now();
        self.ready = std::mem::take(&mut self.ready_now);
    }

    /// Has the nodes asked what a run compares. What they said before it waited for nothing else
    /// does not count: what it waited for may have changed it.
    pub(super) fn ask(
        &mut self,
        nodes: &Nodes,
        run: &Run,
        candidates: &[Candidate],
    ) -> AskedForRun {
        let mut found = AskedForRun::default();
        if run.made.takes.probes.is_empty() {
            return found;
        }
        let before = self.ready.remove(&run.made.id).unwrap_or_default();
        let mut ready = BTreeMap::new();
        for one in candidates {
            let since = before.get(&one.name).copied();
            let node = match one.standing {
                NodeAvailability::Known(_) => nodes.node(&one.name),
                NodeAvailability::Taken(_) => continue,
                _ => None,
            };
            let Some(node) = node else {
                ready.extend(since.map(|since| (one.name.clone(), since)));
                continue;
            };
            let since = since.unwrap_or(self.look);
            ready.insert(one.name.clone(), since);
            for probe in &run.made.takes.probes {
                let asked = self.want(&node, &probe.command);
                if asked.is_some_and(|asked| asked >= since) {
                    continue;
                }
                if asked.is_some() {
                    found.old.push(one.name.clone());
                }
                if self.look - since < PATIENCE {
                    found.awaited.push(one.name.clone());
                }
            }
        }
        self.ready_now.insert(run.made.id, ready);
        found
    }

    /// Has a node asked, unless its answer is new or awaited; returns when its answer was asked
    /// for.
    fn want(&mut self, node: &NodeHandle, command: &str) -> Option<Instant> {
        let look = self.look;
        let all = self.asked.entry(node.name.clone()).or_default();
        let at_once = all.values().filter(|one| one.asking.is_some()).count();
        let one = all.entry(command.to_owned()).or_insert(AskedProbe {
            answer: None,
            asking: None,
            last_wanted: look,
        });
        one.last_wanted = look;
        let is_new = |answer: &TimedAnswer| answer.answered.elapsed() < EVERY;
        if !one.answer.as_ref().is_some_and(is_new) && one.asking.is_none() && at_once < AT_ONCE {
            one.asking = Some(look);
            self.calls.spawn(ask(node.clone(), command.to_owned()));
        }
        one.answer.as_ref().map(|answer| answer.asked)
    }

    /// Whether a run was looked at before, as one that waits for no more than answers.
    pub(super) fn keep_ready(&mut self, run: &Run) -> bool {
        let ready = self.ready.remove_entry(&run.made.id);
        let is_ready = ready.is_some() || run.made.takes.probes.is_empty();
        self.ready_now.extend(ready);
        is_ready
    }

    /// The answers of a node that count now, by their lines of shell.
    pub(super) fn answers(&self, node: &str) -> BTreeMap<String, ProbeAnswer> {
        let all = self.asked.get(node).into_iter().flatten();
        let fresh = all.filter_map(|(command, one)| {
            let answer = one.answer.as_ref();
            let answer = answer.filter(|answer| answer.answered.elapsed() < FRESH)?;
            let answer = ProbeAnswer {
                printed: answer.printed.clone(),
                since: clock(answer.since_ms),
            };
            Some((command.clone(), answer))
        });
        fresh.collect()
    }

    /// Waits for the next answer, and takes it.
    pub(super) async fn answer(&mut self, now_ms: impl Fn() -> i64) {
        let Some(answered) = self.calls.join_next().await else {
            return std::future::pending().await;
        };
        let Ok(ProbeOutput {
            node,
            command,
            printed,
        }) = answered
        else {
            return;
        };
        let all = self.asked.entry(node).or_default();
        all.retain(|_, one| one.asking.is_some() || one.last_wanted.elapsed() < KEPT);
        let Some(one) = all.get_mut(&command) else {
            return;
        };
        let answered = Instant::now();
        let asked = one.asking.take().unwrap_or(answered);
        let known = one.answer.take().filter(|known| known.printed == printed);
        one.answer = Some(TimedAnswer {
            since_ms: known.map_or_else(now_ms, |known| known.since_ms),
            printed,
            asked,
            answered,
        });
    }
}

async fn ask(node: NodeHandle, command: String) -> ProbeOutput {
    let asked = tokio::time::timeout(ANSWERS_WITHIN, printed(&node, &command)).await;
    let none = || Err("the node does not answer".to_owned());
    ProbeOutput {
        printed: asked.unwrap_or_else(|_| none()),
        node: node.name,
        command,
    }
}

async fn printed(node: &NodeHandle, command: &str) -> Result<String, String> {
    let channel = node.channel(PATIENCE).await;
    let channel = channel.map_err(|failure| failure.to_string())?;
    let name = node.name.replace('\'', r"'\''");
    let request = v1::ProbeRequest {
        command: format!("export NERO_NODE='{name}'\n{command}"),
    };
    let reply = mum_client(channel).probe(request).await;
    let reply = reply.map_err(|status| match status.code() {
        Code::Unimplemented => "its agent is an older one, which knows no probes".to_owned(),
        _ => format!("the node does not answer ({})", status.message()),
    })?;
    let v1::ProbeReply {
        printed, problem, ..
    } = reply.into_inner();
    if !problem.is_empty() {
        return Err(problem.chars().take(300).collect());
    }
    if printed.len() <= ANSWER_BYTES_MAX {
        Ok(String::from_utf8_lossy(&printed).into_owned())
    } else {
        Err("its answer is too long".to_owned())
    }
}
