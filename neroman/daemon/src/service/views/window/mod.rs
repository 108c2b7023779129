//! `Watch` with a window: the rows that a screen shows, and then their changes.
//!
//! A window keeps no order and no index: when anything changed, all experiments are walked once
//! more. [`WalkRest`] bounds what all windows together cost.

mod rest;

use std::collections::HashMap;

use nero_wire::v1;

pub(crate) use rest::WalkRest;

use super::list::Freshness;
use crate::service::{Man, Sink, blocking, leaving};
use nero_home::failure::Failure;
use nero_home::ledger::Audience;

/// What a client was sent last.
#[derive(Default)]
struct SentRows {
    views: HashMap<u64, v1::ExperimentView>,
    /// The message, without views.
    rest: Option<v1::WatchEvent>,
}

impl SentRows {
    /// The message about what differs; `None` where nothing does.
    fn news(
        &mut self,
        views: Vec<v1::ExperimentView>,
        rest: v1::WatchEvent,
    ) -> Option<v1::WatchEvent> {
        let mut before = std::mem::take(&mut self.views);
        let mut changed = Vec::new();
        for view in views {
            if before.remove(&view.id).as_ref() != Some(&view) {
                changed.push(view.clone());
            }
            self.views.insert(view.id, view);
        }
        if changed.is_empty() && self.rest.as_ref() == Some(&rest) {
            return None;
        }
        let first = self.rest.is_none();
        self.rest = Some(rest.clone());
        Some(v1::WatchEvent {
            experiments: changed,
            first,
            ..rest
        })
    }
}

impl Man {
    /// Streams the rows of a window and their changes until the client leaves. A client that reads
    /// slowly gets the newest rows next.
    pub(crate) async fn watch_window(
        &self,
        request: v1::WatchRequest,
        sink: Sink<v1::WatchEvent>,
    ) -> Result<(), Failure> {
        let window = request.window.unwrap_or_default();
        let asked = v1::ListRequest {
            selection: request.selection,
            facts: request.facts,
            totals: true,
            ..v1::ListRequest::default()
        };
        let mut states = self.ledger.watch(Audience::Everyone);
        let mut nodes = self.nodes.watch();
        let mut room = self.ledger.watch_room();
        let mut sent = SentRows::default();
        loop {
            states.mark_unchanged();
            nodes.borrow_and_update();
            room.borrow_and_update();
            let is_first = sent.rest.is_none();
            let walk = self.rows_now(&asked, &window);
            let (views, rest) = self.walks.walk(is_first, walk).await?;
            if let Some(event) = sent.news(views, rest)
                && sink.send(Ok(event)).await.is_err()
            {
                return Ok(());
            }
            tokio::select! {
                changed = states.changed() => changed.map_err(leaving)?,
                changed = nodes.changed() => changed.map_err(leaving)?,
                changed = room.changed() => changed.map_err(leaving)?,
                () = sink.closed() => return Ok(()),
            }
        }
    }

    /// The rows of a window as they are now, and what is told beside them. Where the window lies
    /// beyond the end, the last rows are shown.
    async fn rows_now(
        &self,
        asked: &v1::ListRequest,
        window: &v1::Window,
    ) -> Result<(Vec<v1::ExperimentView>, v1::WatchEvent), Failure> {
        let mut window = window.clone();
        loop {
            let asked = v1::ListRequest {
                window: Some(window.clone()),
                ..asked.clone()
            };
            let listing = self.listing(asked, Freshness::AsKnown).await?;
            let total = listing.total() as u64;
            let last = total.saturating_sub(window.count);
            if window.offset > last {
                window.offset = last;
                continue;
            }
            let live = u32::try_from(listing.live()).unwrap_or(u32::MAX);
            let reply = blocking(move || listing.part(0, usize::MAX)).await?;
            let rows = v1::WindowRows {
                total,
                offset: window.offset,
                ids: reply.experiments.iter().map(|view| view.id).collect(),
            };
            let event = v1::WatchEvent {
                live,
                notes: reply.notes,
                batches: reply.batches,
                window: Some(rows),
                totals: reply.totals,
                ..v1::WatchEvent::default()
            };
            return Ok((reply.experiments, event));
        }
    }
}
