//! `List`: what is picked, as it is now.

use std::sync::Arc;
use std::time::Duration;

use nero_wire::v1;

use super::code;
use super::select::{self, Chosen};
use super::view::{self, Sight};
use super::{Man, blocking};
use crate::core::run::Run;
use crate::core::state::State;
use crate::failure::Failure;
use crate::ledger::NoRoom;
use crate::node::{Known, NodeNow};

/// How long a call waits at most for ended runs to be settled.
const SETTLE: Duration = Duration::from_secs(5);

impl Man {
    /// What is picked.
    pub(crate) async fn list(&self, request: v1::ListRequest) -> Result<v1::ListReply, Failure> {
        let zone = request
            .selection
            .as_ref()
            .map_or(jiff::tz::TimeZone::UTC, |given| {
                select::zone(&given.zone, given.utc_offset_s)
            });
        let selection = select::read(request.selection, "all", self.now())?;
        let mut notes = Vec::new();
        if selection.asks_sources() {
            notes = self.read_all_sources_again().await?;
        }
        let mut selection = selection;
        if selection.asks_changed() {
            let (state, freezer) = (self.ledger.state(), self.freezer.clone());
            let changed = blocking(move || code::changed(&state, &freezer)).await?;
            selection = selection.with_code(&changed);
        }
        if request.settle {
            let first = selection.clone();
            let state = self.ledger.state();
            let chosen = blocking(move || first.choose(&state)).await??.0;
            self.settle(&chosen).await;
        }
        let state = self.ledger.state();
        let nodes = self.nodes.known();
        let full = self.ledger.no_room();
        self.ledger.durable().await?;
        let clock = self.clock;
        blocking(move || {
            let (chosen, picked) = selection.choose(&state)?;
            let sight = Sight::new(&state, nodes, zone, clock);
            notes.extend(full.map(|full| no_room(&full, &sight)));
            let experiments = views(&chosen, &sight);
            notes.extend(picked.notes);
            Ok(v1::ListReply {
                experiments,
                notes,
                nothing_set_up: state.experiments.len() == 0,
            })
        })
        .await?
    }

    /// Waits until what ended of these is settled and what was taken over was
    /// heard of; not longer than is bearable.
    pub(super) async fn settle(&self, chosen: &[Chosen]) {
        let mut states = self.ledger.watch();
        let known = self.nodes.known();
        let settled = async {
            loop {
                let state = Arc::clone(&states.borrow_and_update());
                if all_settled(&state, &known, chosen) || states.changed().await.is_err() {
                    return;
                }
            }
        };
        // Whatever is not settled by then is shown as it is.
        let _ = tokio::time::timeout(SETTLE, settled).await;
    }
}

/// That nothing can be written down, since when, and what to do.
pub(super) fn no_room(full: &NoRoom, sight: &Sight<'_>) -> String {
    let NoRoom { since_ms, failure } = full;
    format!(
        "{failure} since {}: {}",
        sight.clock(*since_ms),
        failure.hint_text()
    )
}

/// A node out of reach is not waited for.
fn all_settled(state: &State, known: &Known, chosen: &[Chosen]) -> bool {
    let away = |run: &Run| {
        let node = run.node().and_then(|node| known.of(node));
        node.is_none_or(NodeNow::out_of_reach)
    };
    chosen
        .iter()
        .filter_map(|chosen| chosen.of(state.experiment(chosen.id)?))
        .all(|run| view::settled(run) && !run.unheard() || away(run))
}

/// The views of what was chosen.
pub(super) fn views(chosen: &[Chosen], sight: &Sight<'_>) -> Vec<v1::ExperimentView> {
    chosen
        .iter()
        .filter_map(|chosen| {
            let experiment = sight.state.experiment(chosen.id)?;
            Some(view::experiment(experiment, chosen.of(experiment), sight))
        })
        .collect()
}
