//! Results and states in the tables that experiments come from.
//!
//! [`run`] starts a task for each table with columns for them (`book`). A task sleeps until an
//! experiment of its table or the file itself changes. The file is read and written by a process
//! of its own. docs/design/workbooks.md lists the states of a task.

mod book;
mod folder;
mod live;
mod row_values;

use std::collections::{BTreeMap, HashMap};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

use nero_model::Home;
use nero_table::child::OpenElsewhere;
use tokio::task::JoinSet;

use nero_home::clock::Clock;
use nero_home::ledger::{Audience, Ledger};
use nero_life::state::State;
use nero_link::node::Nodes;

pub(crate) use live::is_live;

/// Everything that the tasks work with.
#[derive(Clone, Debug)]
pub(crate) struct Desk {
    pub home: Home,
    pub ledger: Ledger,
    pub nodes: Nodes,
    pub clock: Clock,
    pub books: Books,
}

/// Where the tables with results stand, by the numbers of their sources.
#[derive(Clone, Debug, Default)]
pub(crate) struct Books(Arc<Mutex<BTreeMap<u64, BookNow>>>);

/// Where one table stands.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct BookNow {
    pub file: PathBuf,
    /// Why results are not in the file.
    pub obstacle: Option<BookObstacle>,
    /// The file that has them meanwhile.
    pub live: Option<PathBuf>,
    /// Cells that are not ours and were left.
    pub left: usize,
}

/// Why a table cannot be written now.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum BookObstacle {
    Open(OpenElsewhere),
    Refused { why: String, hint: String },
}

impl Books {
    /// The tables as they stand.
    pub(crate) fn now(&self) -> BTreeMap<u64, BookNow> {
        self.0
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }

    fn set(&self, origin: u64, book: BookNow) {
        let mut books = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        books.insert(origin, book);
    }

    fn forget(&self, origin: u64) {
        let mut books = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        books.remove(&origin);
    }
}

/// Keeps a task for each table with columns for results, until the daemon stops.
pub(crate) async fn run(desk: Desk) {
    let mut states = desk.ledger.watch(Audience::Sources);
    let mut tasks = JoinSet::new();
    let mut origins = HashMap::new();
    states.mark_changed();
    loop {
        tokio::select! {
            changed = states.changed() => if changed.is_err() {
                return;
            },
            Some(ended) = tasks.join_next_with_id() => {
                let (id, failed) = match ended {
                    Ok((id, ())) => (id, None),
                    Err(error) => (error.id(), Some(error)),
                };
                if let Some(error) = failed {
                    tracing::error!(%error, "a table's task ended; please report this mistake of neroman");
                }
                let origin: Option<u64> = origins.remove(&id);
                if let Some(origin) = origin {
                    desk.books.forget(origin);
                }
            }
        }
        let bound = bound(&states.state());
        for origin in bound {
            if !origins.values().any(|known| *known == origin) {
                let task = tasks.spawn(book::keep(desk.clone(), origin));
                origins.insert(task.id(), origin);
            }
        }
    }
}

/// The sources with columns for results.
fn bound(state: &State) -> Vec<u64> {
    let origins = state.origins.values();
    let bound = origins.filter(|origin| origin.source.bound.is_some());
    bound.map(|origin| origin.id).collect()
}
