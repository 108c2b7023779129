//! Commands that rules run on this machine (`run_local`).
//!
//! A firing is recorded before its command begins, and [`State::unacted`] has its run until the
//! end of the command is recorded, too. The command is supervised by a `nerokid act` of its own,
//! which outlives this daemon: the next one waits for the same command, by the folder of the
//! firing.

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::Arc;

use nero_agents::nerokid;
use nero_life::acts::{self, LocalCommand};
use nero_life::journal::Ran;
use nero_life::state::State;
use nero_model::Home;
use nero_model::ids::hex;
use nero_model::paths::{self, act};
use tokio::process::Command;
use tokio::task::JoinSet;

use crate::clock::Clock;
use crate::ledger::Ledger;

/// Commands at work at once; one that never ends stands in the way of others for its limit.
const COMMANDS_MAX: usize = 16;
/// In the folder of all commands: since when firings count, of a home that was restored.
const SINCE: &str = "since";

/// Works until the daemon stops, which drops it.
pub(crate) async fn run(home: Home, ledger: Ledger, clock: Clock) {
    let mut states = ledger.watch();
    let mut at_work: JoinSet<(LocalCommand, Ran)> = JoinSet::new();
    let mut begun: BTreeSet<LocalCommand> = BTreeSet::new();
    states.mark_changed();
    sweep(&home, &states.borrow());
    loop {
        let state = Arc::clone(&states.borrow_and_update());
        let wanted = state.unacted.iter();
        for command in wanted.flat_map(|id| acts::commands(&state, *id)) {
            let same = |one: &LocalCommand| (one.run, one.rule) == (command.run, command.rule);
            if at_work.len() < COMMANDS_MAX && !begun.iter().any(same) {
                begun.insert(command.clone());
                let (home, state) = (home.clone(), Arc::clone(&state));
                at_work.spawn(async move {
                    let ran = carry_out(&home, &state, &command, clock).await;
                    (command, ran)
                });
            }
        }
        tokio::select! {
            Some(Ok((command, ran))) = at_work.join_next() => {
                let recorded = command.clone();
                let noted = ledger.note(true, move |state, _| {
                    acts::acted(state, &recorded, &ran).into_iter().collect()
                });
                // A folder whose end is not recorded is looked at by the next daemon.
                if noted.await.is_ok() {
                    let _ = fs::remove_dir_all(folder(&home, &state, &command));
                    begun.remove(&command);
                }
                states.mark_changed();
            },
            changed = states.changed() => if changed.is_err() {
                return;
            },
        }
    }
}

/// Removes the folders of firings whose ends are recorded: an earlier daemon died before that.
fn sweep(home: &Home, state: &State) {
    let wanted = state
        .unacted
        .iter()
        .flat_map(|id| acts::commands(state, *id));
    let wanted: BTreeSet<PathBuf> = wanted.map(|one| folder(home, state, &one)).collect();
    let Ok(entries) = fs::read_dir(all_folders(home)) else {
        return;
    };
    for path in entries.flatten().map(|entry| entry.path()) {
        if path.is_dir() && !wanted.contains(&path) {
            let _ = fs::remove_dir_all(path);
        }
    }
}

fn all_folders(home: &Home) -> PathBuf {
    home.data.join("acts")
}

/// The folder of a firing; its name has the run's token, which no other run has.
fn folder(home: &Home, state: &State, command: &LocalCommand) -> PathBuf {
    let run = state.run(command.run);
    let token = run.map(|run| hex(run.made.token.as_bytes()));
    let firing = act::folder(command.rule, command.times);
    all_folders(home).join(format!("{}-{firing}", token.unwrap_or_default()))
}

/// Has the command run, unless it was begun by an earlier daemon, and waits for its end.
async fn carry_out(home: &Home, state: &State, command: &LocalCommand, clock: Clock) -> Ran {
    let folder = folder(home, state, command);
    let done = match is_of_before(home, command) {
        Ok(true) => Err(io::Error::other("it fired before this home was restored")),
        Ok(false) => supervise(&folder, state, command).await,
        Err(error) => Err(error),
    };
    let (how, output) = match done {
        Ok(end) => act::read_end(&end),
        Err(error) => (format!("not run: {error}"), String::new()),
    };
    Ran {
        at_ms: clock.now_ms(),
        how,
        output,
    }
}

/// Forgets the commands of a home that was restored from a backup, which does not tell which of
/// them ran: what fired until now is not run.
///
/// # Errors
/// When nothing was written.
pub(crate) fn restored(home: &Home, now_ms: i64) -> io::Result<()> {
    paths::make_private(&all_folders(home))?;
    fs::write(all_folders(home).join(SINCE), now_ms.to_string())
}

/// Whether the rule fired before this home was restored.
fn is_of_before(home: &Home, command: &LocalCommand) -> io::Result<bool> {
    match fs::read_to_string(all_folders(home).join(SINCE)) {
        Ok(since) => Ok(since
            .trim()
            .parse()
            .is_ok_and(|ms: i64| command.fired_ms < ms)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(error) => Err(error),
    }
}

/// The end of the command, as its supervisor leaves it.
async fn supervise(folder: &Path, state: &State, command: &LocalCommand) -> io::Result<Vec<u8>> {
    let found = state.experiment(command.run.experiment);
    let Some((experiment, run)) = found.zip(state.run(command.run)) else {
        return Err(io::Error::other("the experiment was removed"));
    };
    paths::make_private(folder)?;
    let program = nerokid().map_err(io::Error::other)?;
    let definition = &experiment.definition;
    let mut is_second = false;
    loop {
        let mut supervisor = Command::new(&program);
        supervisor
            .arg("act")
            .arg(folder)
            .arg(act::LIMIT_S.to_string())
            .arg(&definition.folder)
            .arg(&command.command)
            .env("NERO_RUN", command.run.to_string())
            .env("NERO_ID", command.run.experiment.to_string())
            .env("NERO_NAME", &definition.name)
            .env("NERO_COLLECTION", definition.collection())
            .env("NERO_NODE", run.node_word())
            .env("NERO_STATE", run.word().word())
            .env("NERO_RESULTS", run.results().folder())
            .env("NERO_RULE", &command.text)
            .env("NERO_VALUE", &command.values)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        supervisor.spawn()?.wait().await?;
        match fs::read(folder.join(act::END)) {
            // The next one finds out whether the command was begun.
            Err(_) if !is_second => is_second = true,
            end => return end,
        }
    }
}
