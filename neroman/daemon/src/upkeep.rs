//! Maintains the databases: the check that the start owed, a copy of the facts
//! in every hour with changes, the looks for room, and the emptying of logs.
//!
//! Started by [`crate::run`]; reads the databases on connections of its own
//! and never writes to them. A failure is logged and ends nothing.

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use nero_model::Home;
use tokio::sync::watch;

use crate::clock::Clock;
use crate::ledger::Ledger;
use nero_life::state::State;

/// Between two copies.
const EVERY: Duration = Duration::from_secs(3600);
/// Pause after the first change, so that a person who is typing is not
/// disturbed.
const QUIET: Duration = Duration::from_secs(60);

/// Works until the daemon stops, which drops it.
pub(crate) async fn run(home: Home, clock: Clock, ledger: Ledger, check_owed: bool) {
    let copying = copies(home, clock, ledger.watch(), check_owed);
    tokio::join!(copying, ledger.look_for_room(), ledger.empty_logs());
}

async fn copies(
    home: Home,
    clock: Clock,
    mut states: watch::Receiver<Arc<State>>,
    check_owed: bool,
) {
    if check_owed {
        let home = home.clone();
        match tokio::task::spawn_blocking(move || nero_store::scrub(&home)).await {
            Ok(Ok(found)) => {
                tracing::info!(rows = found.rows, points = found.points, "store checked");
            }
            Ok(Err(error)) => tracing::error!(%error, "the store is damaged"),
            Err(error) => tracing::error!(%error, "the check of the store ended"),
        }
    }
    states.mark_unchanged();
    while states.changed().await.is_ok() {
        let age = newest_copy(&nero_store::backup_folder(&home)).unwrap_or(EVERY);
        tokio::time::sleep(EVERY.saturating_sub(age).max(QUIET)).await;
        states.mark_unchanged();
        let (from, now_ms) = (home.clone(), clock.now_ms());
        match tokio::task::spawn_blocking(move || nero_store::backup(&from, now_ms)).await {
            Ok(Ok(path)) => tracing::info!(path = %path.display(), "facts copied"),
            Ok(Err(error)) => tracing::warn!(%error, "facts could not be copied"),
            Err(error) => tracing::error!(%error, "the copying ended"),
        }
    }
}

/// The age of the newest copy; `None` if there is none, or its time is in the
/// future.
fn newest_copy(folder: &Path) -> Option<Duration> {
    std::fs::read_dir(folder)
        .ok()?
        .filter_map(|entry| entry.ok()?.metadata().ok()?.modified().ok())
        .max()
        .and_then(|newest| SystemTime::now().duration_since(newest).ok())
}
