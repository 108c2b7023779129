//! The folders of commands.

use std::fs;
use std::path::{Path, PathBuf};

use nero_life::acts::{CommandOf, LocalCommand};
use nero_life::state::State;
use nero_model::Home;
use nero_model::ids::hex;
use nero_model::paths::act;

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
    home.acts()
        .join(format!("{}-{name}", token.unwrap_or_default()))
}
