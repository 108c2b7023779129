//! `Wait`: reports each end at once, and returns when all have ended, or one with `any`. It reports
//! when nodes with awaited runs go out of reach and are back, and runs that no
//! node takes. It returns, too, when only runs are left that no node can ever
//! take, or that are held until a person acts, here or at their node's scheduler.

use std::collections::{BTreeMap, HashSet};
use std::time::Duration;

use jiff::tz::TimeZone;
use nero_model::{ExperimentId, Phase};
use nero_wire::v1;
use tokio::time::Instant;

use super::unschedulable::{self, StuckRuns};
use crate::service::nodes::unseen::SilentNodes;
use crate::service::select::{self, ChosenRun};
use crate::service::views::view::{self, Sight};
use crate::service::{Man, Sink, leaving};
use nero_home::failure::Failure;
use nero_home::ledger::Audience;
use nero_life::add::ranges;
use nero_life::held::HoldReason;
use nero_life::precedence::{AwaitedExperiment, Lack, Precedents};
use nero_life::run::Run;
use nero_life::state::State;

/// How long an end waits at most for being settled.
const SETTLE: Duration = Duration::from_secs(5);
/// How long an end waits at most for results that may explain it.
const EXPLAINED: Duration = Duration::from_secs(1);
/// Pause between two looks, for each awaited run: a look reads all of them in
/// 0.05 µs each, and with a thousand it would take more time than their ends.
const PAUSE: Duration = Duration::from_micros(10);
/// A shorter pause is none: timers count milliseconds.
const PAUSE_MIN: Duration = Duration::from_millis(1);
/// Longest pause, by which an end is reported later.
const PAUSE_MAX: Duration = Duration::from_millis(100);
/// Pause between two looks at what keeps awaited runs waiting, and so much more for each of them:
/// ends do not wait for these looks, which walk over all awaited runs, nodes and needs.
const AROUND: Duration = Duration::from_millis(20);
const AROUND_EACH: Duration = Duration::from_micros(100);
/// Longest such pause.
const AROUND_MAX: Duration = Duration::from_millis(250);
/// Ends in one message, so that messages stay small.
const TOLD_MAX: usize = 2000;

/// A run that is waited for.
struct AwaitedRun {
    chosen: ChosenRun,
    /// Whether the run itself was named: else those that follow it by themselves are waited for,
    /// too.
    is_named: bool,
    /// The experiment's revision when it was looked at last.
    seen: u64,
    /// The latest time of the report, settled or not.
    until: Option<Instant>,
}

/// What was told about awaited runs that do not go on.
#[derive(Default)]
struct Obstacles {
    unseen: SilentNodes,
    stuck: StuckRuns,
    /// Reasons that a person has to act on.
    asked: HashSet<String>,
}

impl Man {
    /// Waits for the ends of the picked runs.
    pub(crate) async fn wait(
        &self,
        request: v1::WaitRequest,
        sink: Sink<v1::WaitEvent>,
    ) -> Result<(), Failure> {
        let zone = select::zone_of(request.selection.as_ref());
        let selection = self.selection(request.selection, "").await?;
        let mut states = self.ledger.watch(Audience::Waits);
        let mut nodes = self.nodes.watch();
        let mut obstacles = Obstacles::default();
        let mut around = Instant::now();
        let mut around_again = None;
        let state = states.state();
        let (chosen, _) = selection.choose_from(&state).await?;
        let awaited = chosen.into_iter().map(|chosen| fixed(chosen, &state));
        let mut awaited: Vec<AwaitedRun> = awaited.collect();
        if request.any && awaited.iter().any(|one| one.chosen.run.is_some()) {
            // An experiment that never ran has no end that could be the first.
            awaited.retain(|one| one.chosen.run.is_some());
        }
        loop {
            let state = states.state();
            let is_news_of_nodes = nodes.has_changed().unwrap_or(true);
            nodes.mark_unchanged();
            let now = Instant::now();
            let ended = take_ended(&mut awaited, &state, request.settle, now);
            let done = awaited.is_empty() || request.any && !ended.is_empty();
            let looks_around = done || is_news_of_nodes || now >= around;
            if looks_around {
                around = now + around_pause(awaited.len());
                let again = self.tell_obstacles(&sink, &mut obstacles, &awaited, &state);
                around_again = again.await.map(|after| now + after);
            } else {
                around_again = Some(around_again.map_or(around, |at: Instant| at.min(around)));
            }
            self.tell(&sink, &state, &zone, &ended, awaited.len(), done)
                .await?;
            if done {
                return Ok(());
            }
            if looks_around
                && let Some(given_up) = self.given_up(&obstacles.stuck, &awaited, &state, &zone)
            {
                // An error means that the client left.
                let _ = sink.send(Ok(given_up)).await;
                return Ok(());
            }
            if let Some(pause) = pause(awaited.len()) {
                tokio::time::sleep(pause).await;
            }
            let soonest = awaited.iter().filter_map(|one| one.until);
            let soonest = soonest.chain(around_again).min();
            let timer = async {
                match soonest {
                    Some(at) => tokio::time::sleep_until(at).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                changed = states.changed() => changed.map_err(leaving)?,
                changed = nodes.changed() => changed.map_err(leaving)?,
                () = timer => {}
            }
        }
    }

    /// Tells what keeps awaited runs waiting, once each; returns how soon to look again, though
    /// nothing changed.
    async fn tell_obstacles(
        &self,
        sink: &Sink<v1::WaitEvent>,
        obstacles: &mut Obstacles,
        awaited: &[AwaitedRun],
        state: &State,
    ) -> Option<Duration> {
        let (notices, unseen_again) = obstacles.unseen.news(
            &carried(awaited, state),
            &self.nodes.known(),
            self.clock.boot_ms(),
        );
        let (mut notes, stuck_again) = self.stuck(&mut obstacles.stuck, awaited, state);
        notes.extend(asking(awaited, state, &mut obstacles.asked));
        tell_notices(sink, notices, notes, awaited.len()).await;
        [unseen_again, stuck_again].into_iter().flatten().min()
    }

    /// The lines about awaited runs that no node takes, and the latest time to
    /// look again.
    fn stuck(
        &self,
        stuck: &mut StuckRuns,
        awaited: &[AwaitedRun],
        state: &State,
    ) -> (Vec<String>, Option<Duration>) {
        let runs = awaited.iter().filter_map(|one| one.chosen.run_in(state));
        let runs: Vec<&Run> = runs.filter(|run| stuck.is_open(run)).collect();
        if runs.is_empty() {
            return (Vec::new(), None);
        }
        let nodes = unschedulable::Nodes {
            config: &self.nodes.usable_config(),
            figures: &self.nodes.figures(state),
            known: &self.nodes.known(),
            boot_ms: self.clock.boot_ms(),
        };
        stuck.news(&runs, &nodes)
    }

    /// The last message of a wait in which only runs are left that no node can
    /// ever take: each as it stands, with the reason.
    fn given_up(
        &self,
        stuck: &StuckRuns,
        awaited: &[AwaitedRun],
        state: &State,
        zone: &TimeZone,
    ) -> Option<v1::WaitEvent> {
        let nodes = unschedulable::Nodes {
            config: &self.nodes.usable_config(),
            figures: &self.nodes.figures(state),
            known: &self.nodes.known(),
            boot_ms: self.clock.boot_ms(),
        };
        let precedents = Precedents::of(state);
        let held = |run| HoldReason::among(&precedents, state, run);
        let reasons = awaited.iter().map(|one| {
            let mut run = one.chosen.run_in(state)?;
            // The run at the end of the chain keeps the others waiting.
            let mut chain = HashSet::new();
            loop {
                if !chain.insert(run.made.id) {
                    let id = run.made.id;
                    return Some(format!(
                        "{id} waits for itself, by way of what it needs: \
                         `neroman resume {}` lets it go on",
                        id.experiment
                    ));
                }
                let behind = match held(run) {
                    Some(HoldReason::PilotLives(pilot)) => pilot,
                    Some(HoldReason::Others(AwaitedExperiment {
                        lack: Lack::Live(live),
                        ..
                    })) => live,
                    _ => break,
                };
                run = state.run(behind)?;
            }
            match held(run) {
                Some(HoldReason::AtMost(_)) => None,
                Some(held) => Some(held.to_string()),
                None => waits_for_person(run).or_else(|| stuck.never(run, &nodes)),
            }
        });
        let reasons: Vec<String> = reasons.collect::<Option<_>>()?;
        let chosen: Vec<ChosenRun> = awaited.iter().map(|one| one.chosen.clone()).collect();
        let sight = Sight::new(state, self.nodes.known(), zone.clone(), self.clock);
        let mut views = crate::service::views::list::views(&chosen, &sight);
        for (view, reason) in views.iter_mut().zip(reasons) {
            view.reason = reason;
        }
        Some(v1::WaitEvent {
            ended: views,
            done: true,
            ..v1::WaitEvent::default()
        })
    }

    async fn tell(
        &self,
        sink: &Sink<v1::WaitEvent>,
        state: &State,
        zone: &TimeZone,
        ended: &[ChosenRun],
        left: usize,
        done: bool,
    ) -> Result<(), Failure> {
        if ended.is_empty() && !done {
            return Ok(());
        }
        let sight = Sight::new(state, self.nodes.known(), zone.clone(), self.clock);
        let mut parts: Vec<&[ChosenRun]> = ended.chunks(TOLD_MAX).collect();
        if parts.is_empty() {
            parts.push(&[]);
        }
        let last = parts.len() - 1;
        for (index, part) in parts.into_iter().enumerate() {
            let event = v1::WaitEvent {
                ended: crate::service::views::list::views(part, &sight),
                still_live: u32::try_from(left).unwrap_or(u32::MAX),
                done: done && index == last,
                ..v1::WaitEvent::default()
            };
            if sink.send(Ok(event)).await.is_err() {
                break;
            }
        }
        Ok(())
    }
}

/// The pause until the next look at so many awaited runs.
fn pause(awaited: usize) -> Option<Duration> {
    let runs = u32::try_from(awaited).unwrap_or(u32::MAX);
    let pause = PAUSE.saturating_mul(runs).min(PAUSE_MAX);
    (pause >= PAUSE_MIN).then_some(pause)
}

/// The pause between two looks at what keeps so many runs waiting.
fn around_pause(awaited: usize) -> Duration {
    let runs = u32::try_from(awaited).unwrap_or(u32::MAX);
    (AROUND + AROUND_EACH.saturating_mul(runs)).min(AROUND_MAX)
}

/// Sends the notices; a client that left ends the call.
async fn tell_notices(
    sink: &Sink<v1::WaitEvent>,
    notices: Vec<v1::NodeNotice>,
    notes: Vec<String>,
    left: usize,
) {
    let still_live = u32::try_from(left).unwrap_or(u32::MAX);
    let of_nodes = notices.into_iter().map(|notice| v1::WaitEvent {
        still_live,
        notice: Some(notice),
        ..v1::WaitEvent::default()
    });
    let of_runs = (!notes.is_empty()).then(|| v1::WaitEvent {
        still_live,
        notes,
        ..v1::WaitEvent::default()
    });
    for event in of_nodes.chain(of_runs) {
        let _ = sink.send(Ok(event)).await;
    }
}

/// What a person has to act on before a run goes on, on its node or about a lost run.
fn waits_for_person(run: &Run) -> Option<String> {
    let at_node = run.needs_person().map(str::to_owned);
    at_node.or_else(|| run.locked_by_lost())
}

/// What a person has to act on before awaited runs go on: each reason once.
fn asking(awaited: &[AwaitedRun], state: &State, asked: &mut HashSet<String>) -> Vec<String> {
    let mut of: BTreeMap<String, Vec<ExperimentId>> = BTreeMap::new();
    for one in awaited {
        let why = one.chosen.run_in(state).and_then(waits_for_person);
        if let Some(why) = why.filter(|why| !asked.contains(why)) {
            of.entry(why).or_default().push(one.chosen.id);
        }
    }
    asked.extend(of.keys().cloned());
    let line =
        |(why, ids): (String, Vec<ExperimentId>)| format!("{}: {why}", ranges(ids.into_iter()));
    of.into_iter().map(line).collect()
}

/// How many of the awaited runs each node has.
fn carried<'a>(awaited: &[AwaitedRun], state: &'a State) -> BTreeMap<&'a str, u32> {
    let mut carried = BTreeMap::new();
    for one in awaited {
        if let Some(node) = one.chosen.run_in(state).and_then(Run::node) {
            *carried.entry(node).or_insert(0) += 1;
        }
    }
    carried
}

/// Binds the wait to the run that is current now.
fn fixed(mut chosen: ChosenRun, state: &State) -> AwaitedRun {
    let is_named = chosen.run.is_some();
    let newest = state
        .experiment(chosen.id)
        .and_then(|experiment| experiment.current())
        .map(|run| run.made.id.number);
    chosen.run = chosen.run.or(newest);
    AwaitedRun {
        chosen,
        is_named,
        seen: 0,
        until: None,
    }
}

/// Whether the output of a failed run is on its way home: it may name a missing
/// file.
fn explains_itself_soon(run: &Run) -> bool {
    let newest = run.journal.newest();
    let gone = newest.and_then(|(_, incarnation)| incarnation.gone.as_ref());
    run.phase() == Phase::Crashed
        && !run.results().settled()
        && gone.is_some_and(|gone| gone.stderr_bytes > 0)
}

/// Removes the runs that have ended; an experiment that never ran has no end.
fn take_ended(
    awaited: &mut Vec<AwaitedRun>,
    state: &State,
    settle: bool,
    now: Instant,
) -> Vec<ChosenRun> {
    let mut ended = Vec::new();
    awaited.retain_mut(|one| {
        let Some(experiment) = state.experiment(one.chosen.id) else {
            return false;
        };
        let late = one.until.is_some_and(|until| until <= now);
        if experiment.revision == one.seen && !late {
            return true;
        }
        one.seen = experiment.revision;
        if let Some(next) = experiment.newest().filter(|_| !one.is_named) {
            // A retry was made in the transaction of the end before it.
            let mut number = next.made.id.number;
            while Some(number) > one.chosen.run
                && let Some(follows) = experiment
                    .run(number)
                    .and_then(|run| run.made.follows.as_ref())
            {
                number = follows.run;
            }
            if Some(number) == one.chosen.run {
                one.chosen.run = Some(next.made.id.number);
                one.until = None;
            }
        }
        let run: Option<&Run> = one.chosen.of(experiment);
        if run.is_some_and(|run| run.phase().is_live()) {
            return true;
        }
        if !late && run.is_some_and(explains_itself_soon) {
            one.until.get_or_insert(now + EXPLAINED);
            return true;
        }
        if settle && !late && !run.is_none_or(view::settled) {
            one.until.get_or_insert(now + SETTLE);
            return true;
        }
        ended.push(one.chosen.clone());
        false
    });
    ended
}
