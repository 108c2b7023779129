//! A home that was restored from a backup: what its first start changes.

use std::collections::BTreeSet;
use std::fs;
use std::io;

use nero_config::{Config, LOCAL};
use nero_life::acts::LocalCommand;
use nero_life::restored::{self, RestoreState};
use nero_life::state::State;
use nero_model::{Home, paths};

use crate::backup::BackupNote;
use crate::clock::Clock;
use crate::keep::Databases;

/// In the folder of all commands: since when firings count, of a home that was restored.
const SINCE: &str = "since";

/// Begins to hold back what waited, where `backup --restore` just made this home. Blocks.
///
/// # Errors
/// When its note cannot be read, or nothing was written: nothing may be started then.
pub fn begin(home: &Home, keep: &mut Databases, state: State) -> io::Result<State> {
    let path = home.restored();
    let note = match fs::read(&path) {
        Ok(note) => note,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(state),
        Err(error) => return Err(error),
    };
    let note: BackupNote = serde_json::from_slice(&note).map_err(io::Error::other)?;
    let here = BackupNote::new(home, note.made_ms);
    let is_here = note.machine == here.machine && note.local_root == here.local_root;
    let config = Config::read(&home.config).map_err(io::Error::other)?;
    let mut nodes: BTreeSet<String> = config.nodes.keys().cloned().collect();
    if !is_here {
        nodes.remove(LOCAL);
    }
    let restored = RestoreState {
        made_ms: note.made_ms,
        nodes,
        other_host: if is_here { String::new() } else { note.host },
    };
    forget_commands(home, Clock::system().now_ms())?;
    let changes = restored::begin(&state, restored);
    let mut work = state;
    for change in &changes {
        work.apply(change);
    }
    keep.restore(&work, changes)
        .map_err(|unwritten| io::Error::other(unwritten.failure.to_string()))?;
    tracing::info!(
        made_ms = note.made_ms,
        "this home was restored from a backup"
    );
    // Killed before this, the next start begins the same once more.
    fs::remove_file(&path)?;
    Ok(work)
}

/// Forgets the commands of a home that was restored from a backup, which does not tell which of
/// them ran: what was asked for until now is not run.
///
/// # Errors
/// When nothing was written.
fn forget_commands(home: &Home, now_ms: i64) -> io::Result<()> {
    paths::make_private(&home.acts())?;
    fs::write(home.acts().join(SINCE), now_ms.to_string())
}

/// Whether the command was asked for before this home was restored.
pub fn is_of_before(home: &Home, command: &LocalCommand) -> io::Result<bool> {
    match fs::read_to_string(home.acts().join(SINCE)) {
        Ok(since) => Ok(since
            .trim()
            .parse()
            .is_ok_and(|ms: i64| command.asked_ms < ms)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(error) => Err(error),
    }
}
