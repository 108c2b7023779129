//! Sends runs. A batch that a node refuses is sent in halves, so that one
//! unacceptable run holds back no other.

use std::collections::HashSet;

use nero_model::RunToken;
use nero_wire::v1;
use tokio::time::Instant;

use super::{AGAIN, HandOver, PATIENCE, SOON, answer, tokens};
use nero_home::failure::{Failure, cannot_now};
use nero_life::hand_over::{self, SendState};
use nero_life::run::Run;

/// Calls that a node may refuse at a time before the rest waits: enough to find
/// six refused runs among a thousand, few for a node that takes none.
const REFUSED_MAX: usize = 64;

impl HandOver {
    /// Hands runs over. A node that answers but cannot take them now keeps its
    /// connection: the rest is sent again later.
    pub(super) async fn send(&mut self, batch: Vec<v1::RunSpec>) -> Result<(), Failure> {
        let mut parts = vec![batch];
        let (mut refused, began) = (0, Instant::now());
        while let Some(mut part) = parts.pop() {
            if part.is_empty() {
                continue;
            }
            let sent_again = self.sent_again(&part);
            let sent = tokens(part.iter());
            self.inbox.sends(&sent);
            let status = match self.send_once(&part, &sent_again).await {
                Ok(reply) => {
                    self.heard(reply, &part).await?;
                    self.inbox.answered(&sent);
                    continue;
                }
                Err(status) => status,
            };
            let failure = Failure::node_does("does not take runs").status(&status);
            if !cannot_now(&status) {
                return Err(failure);
            }
            refused += 1;
            // Cancel requests wait as long as this goes on.
            let enough = refused >= REFUSED_MAX || began.elapsed() >= PATIENCE;
            if part.len() > 1 && !enough {
                let rest = part.split_off(part.len() / 2);
                parts.extend([rest, part]);
                continue;
            }
            tracing::warn!(node = self.settings.name, %failure, "runs not handed over now");
            let left = if enough {
                std::mem::take(&mut parts)
            } else {
                Vec::new()
            };
            let left = tokens(left.iter().flatten().chain(&part));
            self.look_again(AGAIN);
            self.mark(left, SendState::Deferred(failure.to_string()))
                .await?;
        }
        Ok(())
    }

    /// The runs of these that their node has and wants the spec of.
    fn sent_again(&self, runs: &[v1::RunSpec]) -> Vec<RunToken> {
        let state = self.ledger.state();
        let mut tokens = tokens(runs.iter());
        tokens.retain(|token| {
            let run = state.by_token(token).and_then(|id| state.run(id));
            run.is_some_and(hand_over::is_sent_again)
        });
        tokens
    }

    async fn send_once(
        &mut self,
        runs: &[v1::RunSpec],
        sent_again: &[RunToken],
    ) -> Result<v1::HandOverReply, tonic::Status> {
        let mut request = tonic::Request::new(v1::HandOverRequest {
            request: nero_model::RequestId::random().to_vec(),
            runs: runs.to_vec(),
            sent_again: sent_again.iter().map(|token| token.to_vec()).collect(),
        });
        request.set_timeout(PATIENCE);
        let reply = self.client.hand_over(request).await?;
        Ok(reply.into_inner())
    }

    /// Asks whether the node has runs that can never be sent, and records the answers.
    pub(super) async fn ask(
        &mut self,
        questions: Vec<v1::RunSpec>,
        why: String,
    ) -> Result<(), Failure> {
        let tokens = tokens(questions.iter());
        let reply = match self.send_once(&questions, &tokens).await {
            Ok(reply) => reply,
            Err(status) => {
                let failure = Failure::node("the node does not tell its runs").status(&status);
                if !cannot_now(&status) {
                    return Err(failure);
                }
                tracing::warn!(node = self.settings.name, %failure, "asked again later");
                return Ok(());
            }
        };
        let sent = answer::sent(&questions);
        let node = self.settings.name.clone();
        let tick = self.settings.clock.moment().tick;
        self.ledger
            .note(false, move |state, now_ms| {
                answer::answer_changes(state, &node, &reply, (&sent, &why), &tick, now_ms)
            })
            .await
    }

    /// Records the node's reply about runs.
    async fn heard(
        &mut self,
        reply: v1::HandOverReply,
        sent: &[v1::RunSpec],
    ) -> Result<(), Failure> {
        let later = reply.refused.iter().filter(|refusal| refusal.later);
        let later: HashSet<&[u8]> = later.map(|no| &*no.token).collect();
        if !later.is_empty() {
            self.look_again(SOON);
        }
        for spec in sent.iter().filter(|spec| later.contains(&*spec.token)) {
            // The content of files may have been lost or damaged there since.
            self.stager.forget(&spec.tree);
            self.stager.forget(&spec.overlay);
        }
        let sent = answer::sent(sent);
        let node = self.settings.name.clone();
        let tick = self.settings.clock.moment().tick;
        self.ledger
            .note(false, move |state, now_ms| {
                answer::answered(state, &node, &reply, &sent, &tick, now_ms)
            })
            .await
    }
}

/// The question whether a node has a run: a spec without a command, which no node
/// takes as a run.
pub(super) fn question(run: &Run) -> v1::RunSpec {
    v1::RunSpec {
        token: run.made.token.to_vec(),
        experiment: run.made.id.experiment.0,
        number: run.made.id.number,
        generation: run.generation(),
        ..v1::RunSpec::default()
    }
}
