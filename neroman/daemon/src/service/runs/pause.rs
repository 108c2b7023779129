//! `Pause`: stops live runs for a while, or lets them go on. The nodes keep the
//! requests; nothing of them is kept here, but for the holds of a batch.

use std::collections::BTreeMap;
use std::time::Duration;

use futures_util::future::join_all;
use nero_model::{Phase, RunId};
use nero_wire::v1;
use nero_wire::v1::pause_reply::{One, Outcome};
use nero_wire::v1::pause_runs_reply::Outcome as NodeOutcome;
use tonic::Code;

use crate::service::Man;
use crate::service::select::ChosenRun;
use nero_home::failure::Failure;
use nero_home::ledger::LatePolicy;
use nero_life::experiment::Experiment;
use nero_life::input::Input;
use nero_life::run::Run;
use nero_life::state::State;
use nero_link::connect::mum_client;

/// How long a node may take to be reached.
const PATIENCE: Duration = Duration::from_secs(10);
/// How long the records of what was asked for may take; on a cluster they come over a
/// disk, and later.
const SEEN_WITHIN: Duration = Duration::from_secs(2);

impl Man {
    /// Asks the nodes of the picked runs, all at once.
    pub(crate) async fn pause(&self, request: v1::PauseRequest) -> Result<v1::PauseReply, Failure> {
        let selection = self.selection(request.selection.clone(), "").await?;
        let (chosen, picked) = selection.choose_from(&self.ledger.state()).await?;
        self.until_accepted(&chosen).await;
        let mut ones = Vec::new();
        if request.resume {
            ones.extend(self.lift_holds(&chosen, request.dry_run).await?);
        }
        let lifted: Vec<u64> = ones.iter().map(|one: &One| one.experiment).collect();
        let chosen = chosen.into_iter();
        let chosen: Vec<ChosenRun> = chosen.filter(|one| !lifted.contains(&one.id.0)).collect();
        let state = self.ledger.state();
        let (others, runs) = sorted(&state, &chosen, request.resume);
        ones.extend(others);
        let mut reply = v1::PauseReply {
            notes: picked.notes,
            explicit: picked.explicit,
            ..v1::PauseReply::default()
        };
        let mut by_node: BTreeMap<String, Vec<One>> = BTreeMap::new();
        for (node, one) in runs {
            by_node.entry(node).or_default().push(one);
        }
        if request.dry_run {
            ones.extend(by_node.into_values().flatten());
        } else {
            let asked = by_node.into_iter();
            let asked = asked.map(|(node, runs)| self.ask(node, runs, &state, &request));
            ones.extend(join_all(asked).await.into_iter().flatten());
            self.see(&ones, request.resume).await;
            if request.resume {
                reply.notes.extend(crowded(&self.ledger.state(), &ones));
            }
        }
        ones.sort_by_key(|one| (one.experiment, one.run));
        reply.experiments = ones;
        Ok(reply)
    }

    /// Lets runs go on that are held because of other runs of their batch. Their nodes
    /// are told as soon as they can be reached.
    async fn lift_holds(&self, chosen: &[ChosenRun], dry_run: bool) -> Result<Vec<One>, Failure> {
        let state = self.ledger.state();
        let held = chosen.iter().filter_map(|chosen| {
            let experiment = state.experiment(chosen.id)?;
            let run = chosen.of(experiment)?;
            let is_held =
                run.phase().is_live() && (run.hold_cause().is_some() || run.awaits_nodes());
            is_held.then(|| (run.made.id, reply_entry(experiment, Some(run))))
        });
        let (held, ones): (Vec<RunId>, Vec<One>) = held.unzip();
        if !dry_run && !held.is_empty() {
            let lifted = held.into_iter().map(|id| (id, Input::HoldLifted)).collect();
            let late = LatePolicy::Passes("it began or ended meanwhile");
            self.ledger.happened(true, lifted, late).await?;
        }
        Ok(ones)
    }

    /// Waits a moment until nodes have answered whether they take these runs, which may
    /// be running by then.
    async fn until_accepted(&self, chosen: &[ChosenRun]) {
        let is_on_its_way = |state: &State, chosen: &ChosenRun| {
            let run = chosen.run_in(state);
            run.is_some_and(|run| run.phase().is_live() && run.is_on_its_way())
        };
        let is_settled = |state: &State| !chosen.iter().any(|one| is_on_its_way(state, one));
        self.ledger.until(SEEN_WITHIN, is_settled).await;
    }

    /// Asks one node.
    async fn ask(
        &self,
        node: String,
        mut runs: Vec<One>,
        state: &State,
        request: &v1::PauseRequest,
    ) -> Vec<One> {
        let refs = runs.iter().filter_map(|one| {
            let run = state.run(id(one))?;
            Some(v1::RunRef {
                token: run.made.token.to_vec(),
                experiment: one.experiment,
                number: one.run,
            })
        });
        let asked = v1::PauseRunsRequest {
            runs: refs.collect(),
            resume: request.resume,
            author: request.author.clone(),
            waiting: false,
        };
        let answer = match self.nodes.channel(&node, PATIENCE).await {
            Ok(channel) => {
                let mut client = mum_client(channel);
                let answer = client.pause_runs(asked).await;
                answer.map_err(|status| match status.code() {
                    Code::Unimplemented => {
                        format!("the agent on {node} is of an earlier version and cannot do that")
                    }
                    _ => format!("{node}: {}", status.message()),
                })
            }
            Err(failure) => Err(failure.to_string()),
        };
        match answer {
            Ok(reply) => {
                let answers = reply.into_inner().runs;
                for (one, answer) in runs.iter_mut().zip(answers) {
                    took(one, answer.outcome(), request.resume);
                }
            }
            Err(why) => {
                for one in &mut runs {
                    one.set_outcome(Outcome::Failed);
                    one.why.clone_from(&why);
                }
            }
        }
        runs
    }

    /// Waits a moment until the records of the asked runs show what was asked for.
    async fn see(&self, ones: &[One], resume: bool) {
        let is_seen = |state: &State, one: &One| {
            let run = state.run(id(one));
            run.is_none_or(|run| run.is_paused() != resume || !run.phase().is_live())
        };
        let are_seen = |state: &State| {
            let mut done = ones.iter().filter(|one| one.outcome() == Outcome::Done);
            done.all(|one| is_seen(state, one))
        };
        self.ledger.until(SEEN_WITHIN, are_seen).await;
    }
}

/// What runs that go on lack meanwhile: others may have got their CPUs.
fn crowded(state: &State, ones: &[One]) -> Vec<String> {
    let done = ones.iter().filter(|one| one.outcome() == Outcome::Done);
    let runs = done.filter_map(|one| state.run(id(one)));
    let runs = runs.filter(|run| run.phase() == Phase::Running && !run.why().is_unknown());
    runs.map(|run| format!("{}: {}", run.made.id, run.why()))
        .collect()
}

fn id(one: &One) -> RunId {
    RunId {
        experiment: nero_model::ExperimentId(one.experiment),
        number: one.run,
    }
}

/// An experiment with its run, as long as nothing is in the way.
fn reply_entry(experiment: &Experiment, run: Option<&Run>) -> One {
    let mut one = One {
        experiment: experiment.id.0,
        name: experiment.definition.name.clone(),
        run: run.map_or(0, |run| run.made.id.number),
        ..One::default()
    };
    one.set_outcome(Outcome::Done);
    one
}

/// What became of a run, by its node.
fn took(one: &mut One, outcome: NodeOutcome, resume: bool) {
    let (outcome, why) = match outcome {
        NodeOutcome::Asked | NodeOutcome::Held => (Outcome::Done, ""),
        NodeOutcome::Same if resume => (Outcome::Skipped, "not paused"),
        NodeOutcome::Same => (Outcome::Skipped, "already paused"),
        NodeOutcome::Ended => (Outcome::Skipped, "ended"),
        NodeOutcome::Begun => (Outcome::Skipped, "began meanwhile"),
        NodeOutcome::Adopted => (
            Outcome::Failed,
            "its job was submitted by hand and runs: only one that waits can be held",
        ),
        NodeOutcome::UnknownRun => (Outcome::Failed, "its node does not know it"),
        NodeOutcome::Unspecified => (
            Outcome::Failed,
            "its node gave no answer that is known here",
        ),
    };
    one.set_outcome(outcome);
    why.clone_into(&mut one.why);
}

/// The picked experiments that are skipped, and the live runs with their nodes.
fn sorted(state: &State, chosen: &[ChosenRun], resume: bool) -> (Vec<One>, Vec<(String, One)>) {
    let (mut skipped, mut runs) = (Vec::new(), Vec::new());
    for chosen in chosen {
        let Some(experiment) = state.experiment(chosen.id) else {
            continue;
        };
        let run = chosen.of(experiment);
        let mut one = reply_entry(experiment, run);
        let why = run.map_or(Some("defined".to_owned()), |run| skip(run, resume));
        match (why, run.and_then(Run::node)) {
            (None, Some(node)) => runs.push((node.to_owned(), one)),
            (why, _) => {
                one.set_outcome(Outcome::Skipped);
                one.why = why.unwrap_or_default();
                skipped.push(one);
            }
        }
    }
    (skipped, runs)
}

/// Why a run cannot be paused or resumed.
fn skip(run: &Run, resume: bool) -> Option<String> {
    let phase = run.phase();
    if !phase.is_live() {
        return Some(phase.as_str().to_owned());
    }
    if run.cancel().is_some() {
        return Some("is being aborted".to_owned());
    }
    if run.is_accepted() {
        None
    } else if resume {
        Some("not paused".to_owned())
    } else {
        Some("waits here, no node has it yet: `neroman abort` takes it away".to_owned())
    }
}
