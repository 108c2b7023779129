//! Maintains the databases: the check that the start owed, a copy of the facts
//! in every hour with changes, the looks for room, and the emptying of logs.
//!
//! Started by the daemon; reads the databases on connections of its own
//! and never writes to them. A failure is logged and ends nothing.

use std::path::Path;
use std::time::{Duration, SystemTime};

use nero_model::Home;
use tokio::sync::watch;
use tokio::time::Instant;

use crate::clock::Clock;
use crate::ledger::Ledger;

/// Between two copies.
const EVERY: Duration = Duration::from_secs(3600);
/// Pause after the first change, so that a person who is typing is not
/// disturbed.
const QUIET: Duration = Duration::from_secs(60);

/// Maintains the databases of `home` until the daemon stops, which drops it. `check_owed`: the start
/// left the check of the databases to this.
pub async fn run(home: Home, clock: Clock, ledger: Ledger, check_owed: bool) {
    let copying = copies(home, clock, ledger.commits(), check_owed);
    tokio::join!(
        copying,
        ledger.look_for_room(),
        ledger.empty_logs(),
        ledger.look_at_rules(clock)
    );
}

async fn copies(home: Home, clock: Clock, mut commits: watch::Receiver<Instant>, check_owed: bool) {
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
    commits.mark_unchanged();
    while commits.changed().await.is_ok() {
        let age = newest_copy(&nero_store::backup_folder(&home)).unwrap_or(EVERY);
        tokio::time::sleep(EVERY.saturating_sub(age).max(QUIET)).await;
        commits.mark_unchanged();
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

#[cfg(test)]
mod tests {
    use tokio::time::sleep;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn facts_are_copied_a_minute_after_a_change_and_then_once_in_an_hour() {
        let folder = tempfile::tempdir().unwrap();
        let home = Home::below(folder.path());
        drop(nero_store::Store::open(&home).unwrap());
        let count = || {
            let copies = std::fs::read_dir(nero_store::backup_folder(&home));
            copies.map_or(0, Iterator::count)
        };
        let (commits, seen) = watch::channel(Instant::now());
        let clock = Clock::stepped(0);
        let copying = copies(home.clone(), clock, seen, false);
        let story = async {
            let second = Duration::from_secs(1);
            sleep(2 * EVERY).await;
            assert_eq!(count(), 0, "nothing has changed");
            commits.send_replace(Instant::now());
            sleep(QUIET - second).await;
            assert_eq!(count(), 0, "a person may be typing");
            sleep(2 * second).await;
            assert_eq!(count(), 1);
            // The name of a copy has the time, which the pause does not move.
            clock.step(3_600_000);
            commits.send_replace(Instant::now());
            sleep(EVERY - QUIET).await;
            assert_eq!(count(), 1, "the newest copy is young");
            sleep(QUIET + second).await;
            assert_eq!(count(), 2);
        };
        tokio::select! {
            () = copying => panic!("the copying ended"),
            () = story => {}
        }
    }
}
