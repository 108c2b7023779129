//! `NodeRemove` and `NodeGone`: nodes that leave the configuration, and nodes
//! that will never answer again.

use std::time::Duration;

use nero_config::{Config, Edit, LOCAL};
use nero_wire::v1;

use crate::service::change::ChangeRequest as _;
use crate::service::{Man, counted};
use nero_home::failure::Failure;
use nero_home::ledger::Decision;
use nero_life::gone;
use nero_link::node::NodeHandle;

/// How long a node that a person calls gone may take to answer.
const ANSWER: Duration = Duration::from_secs(5);

impl Man {
    /// Removes a node from the configuration.
    pub(crate) async fn node_remove(
        &self,
        request: v1::NodeRemoveRequest,
    ) -> Result<v1::NodeRemoveReply, Failure> {
        if request.name == LOCAL {
            return Err(Failure::usage(
                "`local` is this machine, which is always there",
            ));
        }
        self.configured(&request.name)?;
        let reply = self.staying(&request.name)?;
        if request.dry_run {
            return Ok(reply);
        }
        self.write(Edit::RemoveNode {
            name: request.name.clone(),
        })
        .await?;
        self.nodes.config()?;
        tracing::info!(node = request.name, "node removed");
        self.decided(&request.head(), |_, _| Ok(Decision::of(reply)))
            .await
    }

    /// The runs that stay on a node that is removed.
    pub(crate) fn staying(&self, name: &str) -> Result<v1::NodeRemoveReply, Failure> {
        let state = self.ledger.state();
        let (mut sent, mut queued, mut runs) = (0, 0, 0);
        let there = state
            .experiments
            .iter()
            .flat_map(|experiment| experiment.runs.iter())
            .filter(|run| run.node() == Some(name));
        for run in there {
            let handed = run.may_be_there();
            runs += u64::from(handed);
            if run.phase().is_live() {
                sent += u64::from(handed);
                queued += u64::from(!handed);
            }
        }
        if sent > 0 {
            let have = if sent == 1 { "has" } else { "have" };
            let sent = counted(sent, "run");
            let failure = Failure::failed(format!("{sent} {have} not ended on node {name}"));
            return Err(failure.hint(format!(
                "neroman wait 'node=={name} && live', or neroman node gone {name} when it will never answer again"
            )));
        }
        let mut notes = Vec::new();
        if queued > 0 {
            notes.push(format!(
                "{} queued for {name}, until it is added again: neroman abort 'node=={name} && live' ends that",
                counted(queued, "run")
            ));
        }
        if runs > 0 {
            notes.push(format!(
                "what {} left in folders there stays; neroman clean --node {name} takes it away before",
                counted(runs, "run")
            ));
        }
        Ok(v1::NodeRemoveReply {
            live: queued,
            runs,
            notes,
        })
    }

    /// Gives up all runs of a node.
    pub(crate) async fn node_gone(
        &self,
        request: v1::NodeGoneRequest,
    ) -> Result<v1::NodeGoneReply, Failure> {
        if request.name == LOCAL {
            return Err(Failure::usage("`local` is this machine, which is not gone"));
        }
        let config = self.nodes.usable_config();
        let (head, node, who) = (request.head(), request.name, request.author);
        let state = self.ledger.state();
        let known = config.nodes.contains_key(&node) || state.nodes.contains_key(&node);
        if !known {
            let error = config.resolve(&node).err();
            let hint = error.as_ref().map_or("", |error| error.hint.as_str());
            return Err(Failure::usage(format!("no node is named `{node}`")).hint(hint));
        }
        if let Some(here) = self.nodes.node(&node)
            && is_there(&here).await
        {
            return Err(Failure::failed(format!("node {node} is not gone"))
                .hint("it answers: `neroman abort` ends its runs, `neroman node rm` forgets it"));
        }
        if !head.is_rehearsal {
            tracing::info!(node, who, "node is gone");
        }
        self.decided(&head, move |state, now_ms| {
            let elsewhere = |word: &str| elsewhere(&config, word, &node);
            let (told, changes) = gone::decide(state, &node, &who, now_ms, &elsewhere);
            Ok(Decision {
                answer: reply(&told),
                changes,
            })
        })
        .await
    }
}

/// Whether a node answers. A silent node may count as connected for a while, and
/// a node that was out of reach, or not tried yet, may be back.
async fn is_there(node: &NodeHandle) -> bool {
    if !node.now().connected() {
        // The reason for a failure does not matter here.
        let _ = node.channel(ANSWER).await;
    }
    node.now().connected() && node.answers(ANSWER).await
}

/// Whether a word stands also for a node other than this one.
fn elsewhere(config: &Config, word: &str, node: &str) -> bool {
    config
        .resolve(word)
        .is_ok_and(|target| target.nodes().iter().any(|other| other != node))
}

fn outcome_of(gone: gone::LossOutcome) -> v1::node_gone_reply::Outcome {
    use v1::node_gone_reply::Outcome;
    match gone {
        gone::LossOutcome::Moved => Outcome::Moved,
        gone::LossOutcome::TakenAway => Outcome::TakenAway,
        gone::LossOutcome::Lost => Outcome::Lost,
        gone::LossOutcome::ResultsLost => Outcome::ResultsLost,
    }
}

fn reply(told: &[(nero_model::RunId, gone::LossOutcome)]) -> v1::NodeGoneReply {
    v1::NodeGoneReply {
        runs: told
            .iter()
            .map(|(id, outcome)| v1::node_gone_reply::One {
                experiment: id.experiment.0,
                run: id.number,
                outcome: outcome.to_string(),
                became: outcome_of(*outcome).into(),
            })
            .collect(),
        notes: Vec::new(),
    }
}
