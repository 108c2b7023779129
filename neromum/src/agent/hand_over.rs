//! Runs are taken over: their folders are made off the reactor when they are
//! many, then the agent accepts them in order. The same token handed twice is
//! one run.

mod check;
mod place;
mod program;

use std::collections::{HashSet, VecDeque};
use std::io;

use nero_model::{RunId, RunToken};
use nero_wire::v1::HandOverReply;
use nero_wire::v1::hand_over_reply::Refusal;
use tokio::sync::oneshot;

use super::Agent;
use super::effects::may_pass;
use super::follow::Adopted;
use crate::clean::gone;
use crate::config;
use check::still_live;
use place::Placed;
pub use place::{Placer, Placing};

struct No {
    why: String,
    hint: &'static str,
    /// The same run may be taken in a while.
    later: bool,
    /// It is this node that lacks something; another one may take the run.
    here: bool,
}

impl No {
    /// It is this node that lacks something.
    fn here(self) -> Self {
        Self { here: true, ..self }
    }

    fn about(self, token: Vec<u8>) -> Refusal {
        Refusal {
            token,
            why: self.why,
            hint: self.hint.to_owned(),
            later: self.later,
            only_here: self.here && !self.later,
        }
    }
}

fn no(why: impl Into<String>, hint: &'static str) -> No {
    No {
        why: why.into(),
        hint,
        later: false,
        here: false,
    }
}

/// Runs that neroman was told another node may take. A request that lost its
/// asker and is still at work must not bring one of them in after that.
#[derive(Debug, Default)]
pub(super) struct TurnedAway {
    tokens: HashSet<RunToken>,
    oldest: VecDeque<RunToken>,
}

impl TurnedAway {
    fn add(&mut self, token: RunToken) {
        if !self.tokens.insert(token) {
            return;
        }
        self.oldest.push_back(token);
        if self.oldest.len() > config::TURNED_AWAY_MAX
            && let Some(oldest) = self.oldest.pop_front()
        {
            self.tokens.remove(&oldest);
        }
    }
}

/// The disk refused. A full one ends no run: there will be space again.
fn disk(why: String, error: Option<&io::Error>) -> No {
    use io::ErrorKind::{QuotaExceeded, StorageFull};
    No {
        later: error.is_some_and(|error| matches!(error.kind(), StorageFull | QuotaExceeded)),
        ..no(why, DISK)
    }
}

/// What a person does about it.
const DISK: &str = "see to the node's disk, then try again";

impl Agent {
    /// Makes the folder of a cleaned run anew, which says how it ended.
    pub(super) fn raise(&self, token: RunToken, id: RunId) -> Adopted {
        let paths = &self.setup.paths;
        let raised = match gone::read(paths, id, token) {
            Ok(None) => return Adopted::Unknown,
            Err(error) if !may_pass(&error) => {
                tracing::error!(run = %id, %error, "what is kept of a cleaned run is damaged");
                return Adopted::Unknown;
            }
            Ok(Some(gone)) => gone::raise(paths, self.ledger.deployment(), id, token, gone)
                .map_err(|error| error.to_string()),
            Err(error) => Err(error.to_string()),
        };
        if let Err(why) = &raised {
            tracing::error!(run = %id, why, "cannot say how a cleaned run ended");
            return Adopted::NotNow;
        }
        Adopted::Known
    }

    pub(super) fn hand_over(&mut self, placing: Placing, answer: oneshot::Sender<HandOverReply>) {
        let mut reply = HandOverReply {
            accepted: Vec::with_capacity(placing.placed.len()),
            refused: Vec::new(),
        };
        for refusal in placing.refused {
            match RunToken::from_slice(&refusal.token).filter(|_| refusal.only_here) {
                // Another request brought it in before this one looked.
                Some(token) if self.entries.contains_key(&token) => {
                    reply.accepted.push(refusal.token);
                    continue;
                }
                Some(token) => self.turned_away.add(token),
                None => {}
            }
            reply.refused.push(refusal);
        }
        for placed in placing.placed {
            let token = placed.token.to_vec();
            match self.accept(placed) {
                Ok(()) => reply.accepted.push(token),
                Err(no) => reply.refused.push(no.about(token)),
            }
        }
        // An asker that left asks again, and gets the same.
        let _ = answer.send(reply);
    }

    fn accept(&mut self, placed: Placed) -> Result<(), No> {
        let Placed {
            token,
            id,
            needs,
            rules,
            fresh,
            earlier,
        } = placed;
        if let Some(known) = self.entries.get(&token) {
            return if known.id == id {
                Ok(())
            } else {
                let why = format!("its token is that of run {}", known.id);
                Err(no(why, "this is a mistake in neroman; please report it"))
            };
        }
        if fresh && self.turned_away.tokens.contains(&token) {
            return Err(no("this node refused it before", "start it again").here());
        }
        let cleaned = || matches!(gone::read(&self.setup.paths, id, token), Ok(Some(_)));
        if self.cleaning.contains(&token) || (fresh && cleaned()) {
            return Err(No {
                later: true,
                ..no("it is being cleaned right now", "hand it over again")
            });
        }
        if !fresh {
            return if self.adopt(token, id) == Adopted::Known {
                Ok(())
            } else {
                // It could not be written, or not be read: both may pass.
                Err(No {
                    later: true,
                    ..no("the ledger does not take it", DISK)
                })
            };
        }
        if let Some(earlier) = earlier {
            if self.is_open(&earlier) {
                return Err(still_live("named by --resume"));
            }
            if self.cleaning.contains(&earlier) {
                const HINT: &str = "start it without --resume";
                return Err(no("the run named by --resume is being cleaned", HINT));
            }
        }
        let order = self.next_order;
        self.ledger.accepted(token, id, order).map_err(|error| {
            let mut why = error.to_string();
            let mut cause = std::error::Error::source(&error);
            let mut kernel = None;
            while let Some(source) = cause {
                why = format!("{why}: {source}");
                kernel = kernel.or_else(|| source.downcast_ref());
                cause = source.source();
            }
            disk(why, kernel)
        })?;
        self.next_order += 1;
        let mut entry = super::Entry::new(id);
        entry.rules = rules;
        entry.earlier = earlier;
        self.entries.insert(token, entry);
        self.core
            .accept(token, id, order, needs)
            .map_err(|error| no(error.to_string(), "hand it over again"))
    }
}
