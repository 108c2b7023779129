//! Probes: the nodes are asked what runs compare in `requires`, while these wait. Each answer is
//! awaited in a task of its own: one that hangs keeps neither the placer nor other probes.

use std::collections::BTreeMap;
use std::time::Duration;

use nero_life::place::ProbeAnswer;
use nero_model::RunId;
use nero_wire::v1;
use nero_wire::v1::mum_client::MumClient;
use tokio::task::JoinSet;
use tokio::time::Instant;
use tonic::Code;

use super::{PATIENCE, clock};
use crate::node::NodeHandle;

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
#[derive(Default)]
pub(super) struct Probes {
    /// By node, then by line of shell.
    asked: BTreeMap<String, BTreeMap<String, AskedProbe>>,
    calls: JoinSet<Answered>,
    /// Since when runs wait for no more than answers, by node; of the last look and of this one.
    ready: BTreeMap<RunId, BTreeMap<String, Instant>>,
    ready_now: BTreeMap<RunId, BTreeMap<String, Instant>>,
}

/// One line of shell of one node.
struct AskedProbe {
    printed: Option<Result<String, String>>,
    /// Since when it is this answer.
    since_ms: i64,
    /// When it was asked last, and when that was answered. `None`: its answer does not count.
    asked: Instant,
    answered: Option<Instant>,
    is_asked: bool,
    /// When a run last asked for it.
    last_wanted: Instant,
}

struct Answered {
    node: String,
    command: String,
    printed: Result<String, String>,
}

impl Probes {
    /// Asks a node that could take a run but for its probes, unless its answer is new or awaited. An
    /// answer from before is none: what the run waited for may have changed it. Returns whether a
    /// choice is to wait for the answer.
    pub(super) fn want(&mut self, node: &NodeHandle, run: RunId, command: &str) -> bool {
        let now = Instant::now();
        let before = self.ready.get(&run).and_then(|of| of.get(&node.name));
        let of = self.ready_now.entry(run).or_default();
        let since = *of
            .entry(node.name.clone())
            .or_insert(before.copied().unwrap_or(now));
        let all = self.asked.entry(node.name.clone()).or_default();
        let at_once = all.values().filter(|one| one.is_asked).count();
        let one = all.entry(command.to_owned()).or_insert(AskedProbe {
            printed: None,
            since_ms: 0,
            asked: now,
            answered: None,
            is_asked: false,
            last_wanted: now,
        });
        one.last_wanted = now;
        let is_old = one.asked < since && one.answered.take().is_some();
        let is_due = one.answered.is_none_or(|at| at.elapsed() >= EVERY);
        if is_due && !one.is_asked && at_once < AT_ONCE {
            one.is_asked = true;
            one.asked = now;
            self.calls.spawn(ask(node.clone(), command.to_owned()));
        }
        is_old || one.answered.is_none() && since.elapsed() < PATIENCE
    }

    /// A run waits for the same as another one.
    pub(super) fn want_alike(&mut self, run: RunId, like: RunId) {
        if let Some(of) = self.ready_now.get(&like).cloned() {
            self.ready_now.insert(run, of);
        }
    }

    /// Ends a look: runs and nodes that were not named in it are not ready any more.
    pub(super) fn looked(&mut self) {
        self.ready = std::mem::take(&mut self.ready_now);
    }

    /// The answers of a node that count now, by their lines of shell.
    pub(super) fn answers(&self, node: &str) -> BTreeMap<String, ProbeAnswer> {
        let all = self.asked.get(node).into_iter().flatten();
        let fresh = all.filter_map(|(command, one)| {
            let is_fresh = one.answered.is_some_and(|at| at.elapsed() < FRESH);
            let answer = ProbeAnswer {
                printed: one.printed.clone().filter(|_| is_fresh)?,
                since: clock(one.since_ms),
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
        let Ok(Answered {
            node,
            command,
            printed,
        }) = answered
        else {
            return;
        };
        let all = self.asked.entry(node).or_default();
        all.retain(|_, one| one.is_asked || one.last_wanted.elapsed() < KEPT);
        if let Some(one) = all.get_mut(&command) {
            one.is_asked = false;
            one.answered = Some(Instant::now());
            if one.printed.as_ref() != Some(&printed) {
                one.since_ms = now_ms();
                one.printed = Some(printed);
            }
        }
    }
}

async fn ask(node: NodeHandle, command: String) -> Answered {
    let asked = tokio::time::timeout(ANSWERS_WITHIN, printed(&node, &command)).await;
    let none = || Err("the node does not answer".to_owned());
    Answered {
        printed: asked.unwrap_or_else(|_| none()),
        node: node.name,
        command,
    }
}

async fn printed(node: &NodeHandle, command: &str) -> Result<String, String> {
    let channel = node.channel(PATIENCE).await;
    let channel = channel.map_err(|failure| failure.to_string())?;
    let request = v1::ProbeRequest {
        command: command.to_owned(),
    };
    let reply = MumClient::new(channel).probe(request).await;
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
    match printed.len() <= ANSWER_BYTES_MAX {
        true => Ok(String::from_utf8_lossy(&printed).into_owned()),
        false => Err("its answer is too long".to_owned()),
    }
}
