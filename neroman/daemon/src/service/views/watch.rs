//! `Watch`: the picked experiments, and then their changes.

use std::collections::BTreeSet;
use std::time::Duration;

use nero_wire::v1;
use tokio::time::Instant;

use super::view::{self, Sight};
use crate::service::select::ChosenRun;
use crate::service::select::zone_of;
use crate::service::{Man, Sink, blocking, leaving};
use nero_home::failure::Failure;
use nero_home::ledger::Audience;

/// The shortest interval between two messages while changes go on.
const INTERVAL_LEAST: Duration = Duration::from_millis(50);
/// The interval after a time without changes; it doubles up to the one asked for, so that the
/// first changes are told at once.
const INTERVAL_FIRST: Duration = Duration::from_millis(10);
/// Experiments of one message, so that messages stay small.
const TOLD_MAX: usize = 2000;

impl Man {
    /// Streams the picked experiments and their changes until the client leaves.
    pub(crate) async fn watch(
        &self,
        request: v1::WatchRequest,
        sink: Sink<v1::WatchEvent>,
    ) -> Result<(), Failure> {
        if request.window.is_some() {
            return self.watch_window(request, sink).await;
        }
        let zone = zone_of(request.selection.as_ref());
        let interval = Duration::from_millis(u64::from(request.interval_ms)).max(INTERVAL_LEAST);
        let mut states = self.ledger.watch(Audience::Everyone);
        let mut nodes = self.nodes.watch();
        let mut room = self.ledger.watch_room();
        let mut reached = None;
        let mut sent = SentList::default();
        let mut pause = INTERVAL_FIRST;
        loop {
            let began = Instant::now();
            let state = states.state();
            let clock = self.clock;
            // Evaluated anew each time: selectors on ages and states change with
            // time.
            let selection = self.selection(request.selection.clone(), "all").await?;
            nodes.borrow_and_update();
            let (known_nodes, zone) = (self.nodes.known(), zone.clone());
            // The view of a live run depends on whether its node answers.
            let reach = Some(known_nodes.reach());
            let all_live = reach != reached;
            reached = reach;
            let full = room.borrow_and_update().clone();
            let (events, now) = blocking(move || {
                let (chosen, picked) = selection.choose(&state)?;
                let sight = Sight::new(&state, known_nodes, zone, clock);
                let full = full.map(|full| super::list::no_room(&full, &sight));
                // Told when they begin to hold and when they no longer do.
                let notes: Vec<String> = full.into_iter().chain(picked.notes).collect();
                Ok::<_, Failure>(sent.news(chosen, notes, all_live, &sight))
            })
            .await??;
            sent = now;
            if !events.is_empty() {
                self.ledger.durable().await?;
            }
            for event in events {
                if sink.send(Ok(event)).await.is_err() {
                    return Ok(());
                }
            }
            tokio::select! {
                changed = states.changed() => changed.map_err(leaving)?,
                changed = nodes.changed() => changed.map_err(leaving)?,
                changed = room.changed() => changed.map_err(leaving)?,
            }
            if began.elapsed() >= interval {
                pause = INTERVAL_FIRST;
            }
            tokio::time::sleep_until(began + pause).await;
            pause = interval.min(pause * 2);
        }
    }
}

/// The list as its watcher has it.
#[derive(Default)]
struct SentList {
    /// Whether anything was sent.
    is_begun: bool,
    runs: BTreeSet<ChosenRun>,
    /// The revision of the state that it shows.
    revision: u64,
    notes: Vec<String>,
}

impl SentList {
    /// The events that a client needs whose list is this one, and its list behind them.
    fn news(
        self,
        chosen: Vec<ChosenRun>,
        notes: Vec<String>,
        all_live: bool,
        sight: &Sight<'_>,
    ) -> (Vec<v1::WatchEvent>, Self) {
        let state = sight.state;
        // Experiments that are no longer picked are sent once more: their state changed.
        let mut runs: BTreeSet<ChosenRun> = chosen.into_iter().collect();
        runs.extend(self.runs.iter().cloned());
        let is_changed = |one: &&ChosenRun| {
            let Some(found) = state.experiment(one.id) else {
                return false;
            };
            let live = one.of(found).is_some_and(|run| run.phase().is_live());
            found.revision > self.revision || (all_live && live) || !self.runs.contains(*one)
        };
        let changed: Vec<ChosenRun> = runs.iter().filter(is_changed).cloned().collect();
        let views = super::list::views(&changed, sight);
        let events = if views.is_empty() && self.is_begun && notes == self.notes {
            Vec::new()
        } else {
            let list = runs.iter().filter_map(|one| one.run_in(state));
            let live = list.clone().filter(|run| run.phase().is_live()).count();
            let batches = view::batches(list, sight);
            events(views, batches, live, &notes, !self.is_begun)
        };
        let now = Self {
            is_begun: true,
            runs,
            revision: state.revision,
            notes,
        };
        (events, now)
    }
}

fn events(
    views: Vec<v1::ExperimentView>,
    batches: Vec<v1::BatchView>,
    live: usize,
    notes: &[String],
    first: bool,
) -> Vec<v1::WatchEvent> {
    let live = u32::try_from(live).unwrap_or(u32::MAX);
    let mut rest = views.into_iter().peekable();
    let mut events = Vec::new();
    let mut leading = first;
    loop {
        events.push(v1::WatchEvent {
            experiments: rest.by_ref().take(TOLD_MAX).collect(),
            first: leading,
            live,
            notes: notes.to_vec(),
            batches: batches.clone(),
            window: None,
            totals: None,
        });
        leading = false;
        if rest.peek().is_none() {
            return events;
        }
    }
}
