//! What starts the runs of a node. The agent knows no scheduler: a driver beside it answers what
//! differs where a scheduler starts them, and where the agent serves one task of it.

use std::convert::Infallible;
use std::fmt::Debug;
use std::time::Duration;

use nero_model::{RunToken, SubmissionId};
use nero_node_core::capacity::Needs;
use nero_node_core::decide::Origin;
use nero_wire::v1::SchedulerUse;

use super::calls::PauseState;
use super::handle::TaskMessage;
use super::{Agent, Entry};
use crate::config;
use crate::ledger::{Intent, LedgerRun, LedgerState};

/// Starts the runs of a node. What is not answered is as on a bare node.
pub trait Driver: Debug + Send + Sized + 'static {
    /// Results of its work off the reactor.
    type Result: Debug + Send + Sync + 'static;

    /// Whether the runs start on this host.
    const STARTS_HERE: bool = true;
    /// Whether the launchers are of use to nobody when the last run has ended.
    const TAKES_LAUNCHERS_ALONG: bool = false;
    /// Time in which a file server may show a file as it is.
    const SHOWN_LATE: Duration = config::SHOWN_LATE;

    /// A result of its work.
    fn done(agent: &mut Agent<Self>, result: Self::Result);

    /// A message to the task of a scheduler.
    fn hear(_: &mut Agent<Self>, _: TaskMessage) {}

    /// Takes in its part of the ledger, before the runs.
    fn restore(_: &mut Agent<Self>, _: &LedgerState) {}

    /// Takes in a run with starts up to `newest`; false: it is as one of a bare node.
    fn restore_run(
        _: &mut Agent<Self>,
        _: RunToken,
        _: &LedgerRun,
        _: Needs,
        _newest: u32,
    ) -> bool {
        false
    }

    /// Its part of a new ledger.
    fn intents(&self) -> Vec<Intent> {
        Vec::new()
    }

    /// These intents are durable.
    fn intended(&mut self, _: &[SubmissionId]) {}

    /// Runs were forgotten.
    fn forgot(_: &mut Agent<Self>) {}

    /// The end of a turn: does what is to be done next.
    fn turn_ends(_: &mut Agent<Self>) {}

    /// Whether the agent may leave.
    fn rest(agent: &Agent<Self>) -> Rest {
        agent.rest_when(agent.core.is_empty())
    }

    /// What was counted of the scheduler.
    fn counted(_: &Agent<Self>) -> Option<SchedulerUse> {
        None
    }

    /// Whether a run was submitted to a scheduler.
    fn has(&self, _: &RunToken) -> bool {
        false
    }

    /// Whether no process of ours is beside the job of a run.
    fn is_adopted(&self, _: &RunToken) -> bool {
        false
    }

    /// Where the newest start of a run was claimed, and its host when that is another one;
    /// `None`: the claim tells it.
    fn origin(&self, _: &RunToken, _: &Entry) -> Option<(Origin, Option<String>)> {
        None
    }

    /// Rings a live run; false: it is rung on this host.
    fn ring_elsewhere(&mut self, _: RunToken) -> bool {
        false
    }

    /// Holds the job of a waiting run, or releases it.
    fn hold_elsewhere(&mut self, _: RunToken, _: PauseState) {}

    /// Makes a launch known to others, before it; false: the run must not be launched.
    fn may_launch(_: &mut Agent<Self>, _: RunToken, _incarnation: u32) -> bool {
        true
    }

    /// Lets a job see the cards of its run alone.
    fn give_cards(_: &Agent<Self>, _: RunToken, _env: &mut [Vec<u8>]) {}

    /// Notes in a start what it is given, before it is launched; whether it gets helpers.
    fn note_granted(_: &Agent<Self>, _: RunToken, _incarnation: u32) -> bool {
        false
    }

    /// Notes in a start that it is given up, before the next is made.
    fn note_given_up(_: &Agent<Self>, _: RunToken, _incarnation: u32) {}

    /// A start is claimed.
    fn claimed(_: &Agent<Self>, _: RunToken, _incarnation: u32) {}

    /// A start of an earlier process goes on.
    fn goes_on(_: &mut Agent<Self>, _: RunToken, _incarnation: u32) {}

    /// The state of a run changed.
    fn changed(_: &mut Agent<Self>, _: RunToken) {}

    /// A start ended whose task is over, and which `may_go_on` in another one; false: it does.
    fn ends(_: &mut Agent<Self>, _: RunToken, _incarnation: u32, _may_go_on: bool) -> bool {
        true
    }

    /// The tasks of these runs are over, and began no user code of them.
    fn vanished(_: &mut Agent<Self>, _: &[RunToken]) {}

    /// The task of a run is over, and the run's records tell no end.
    fn task_is_over(_: &mut Agent<Self>, _: RunToken, _incarnation: u32) {}
}

/// Whether the agent may leave.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rest {
    /// Something is left to do.
    Busy,
    /// Nothing, if it stays so for a while.
    Idle,
    /// Nothing, now.
    Over,
}

/// The agent itself: the runs start on this host.
#[derive(Clone, Copy, Debug)]
pub struct Bare;

impl Driver for Bare {
    type Result = Infallible;

    fn done(_: &mut Agent<Self>, result: Infallible) {
        match result {}
    }
}
