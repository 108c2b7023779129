//! The folders of commands.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use nero_life::acts::{CommandOf, LocalCommand};
use nero_life::state::State;
use nero_model::Home;
use nero_model::ids::hex;
use nero_model::paths::{self, act};

/// In the folder of all commands: since when firings count, of a home that was restored.
const SINCE: &str = "since";
/// Ending of the name of a folder that is being removed.
const REMOVED: &str = ".removed";

/// Takes a folder away in one step: a reader finds all of it or nothing, also if the daemon dies
/// here.
pub(super) fn remove(folder: &Path) {
    let mut renamed = folder.as_os_str().to_owned();
    renamed.push(REMOVED);
    if fs::rename(folder, &renamed).is_ok() {
        // The next daemon removes what is left.
        let _ = fs::remove_dir_all(renamed);
    }
}

pub(super) fn all_folders(home: &Home) -> PathBuf {
    home.data.join("acts")
}

/// The folder of a command; its name has the run's token, which no other run has.
pub(super) fn folder(home: &Home, state: &State, command: &LocalCommand) -> PathBuf {
    let run = state.run(command.run);
    let token = run.map(|run| hex(run.made.token.as_bytes()));
    let name = match command.of {
        CommandOf::Rule { rule, times, .. } => act::folder(rule, times),
        CommandOf::Step { incarnation, step } => format!("step.{incarnation}.{step}"),
        // Its folder lies on the node.
        CommandOf::Response { incarnation, .. } => format!("response.{incarnation}"),
    };
    all_folders(home).join(format!("{}-{name}", token.unwrap_or_default()))
}

/// Forgets the commands of a home that was restored from a backup, which does not tell which of
/// them ran: what was asked for until now is not run.
///
/// # Errors
/// When nothing was written.
pub(crate) fn restored(home: &Home, now_ms: i64) -> io::Result<()> {
    paths::make_private(&all_folders(home))?;
    fs::write(all_folders(home).join(SINCE), now_ms.to_string())
}

/// Whether the command was asked for before this home was restored.
pub(super) fn is_of_before(home: &Home, command: &LocalCommand) -> io::Result<bool> {
    match fs::read_to_string(all_folders(home).join(SINCE)) {
        Ok(since) => Ok(since
            .trim()
            .parse()
            .is_ok_and(|ms: i64| command.asked_ms < ms)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(error) => Err(error),
    }
}
