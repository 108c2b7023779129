//! Commands that the daemon has run: of rules (`run_local`) and `local` steps on this machine,
//! responses by `on_error` on the nodes of their runs.
//!
//! A firing, or the wait of a job, is recorded before the command begins, and [`State::unacted`]
//! has its run until the end of the command is recorded, too. The command is supervised by a
//! `nerokid act` of its own, which outlives this daemon: the next one waits for the same command,
//! by its folder.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::Arc;

use nero_agents::nerokid;
use nero_format::Definition;
use nero_life::acts::{self, CommandOf, LocalCommand};
use nero_life::journal::CommandEnd;
use nero_life::run::Run;
use nero_life::state::State;
use nero_model::paths::{self, act};
use nero_model::{Home, RunId};
use tokio::process::Command;
use tokio::sync::Semaphore;
use tokio::task::JoinSet;

use crate::service::Man;
use nero_home::ledger::Audience;
use nero_home::restore::is_of_before;

mod folders;
mod response;
mod step;

use folders::{folder, remove};

/// Commands of rules at work at once, and of steps: one that never ends stands in the way of
/// others.
const COMMANDS_MAX: usize = 16;
/// Responses that a node has at work at once.
const RESPONSES_MAX: usize = 8;
/// Works until the daemon stops, which drops it.
pub(crate) async fn run(man: Man) {
    let (home, ledger, clock) = (man.home.clone(), man.ledger.clone(), man.clock);
    let mut states = ledger.watch(Audience::Commands);
    let mut at_work: JoinSet<(LocalCommand, CommandEnd)> = JoinSet::new();
    let mut begun: BTreeMap<RunId, Vec<LocalCommand>> = BTreeMap::new();
    let mut rooms: BTreeMap<String, Arc<Semaphore>> = BTreeMap::new();
    states.mark_changed();
    let state = ledger.state();
    sweep(&home, &state).await;
    loop {
        let state = states.state();
        let wanted = state.unacted.iter();
        let wanted: BTreeSet<_> = wanted.flat_map(|id| acts::commands(&state, *id)).collect();
        for command in &wanted {
            let alike = |one: &&LocalCommand| kind(one) == kind(command);
            // A response waits for its node, perhaps for days.
            let may_begin = matches!(command.of, CommandOf::Response { .. })
                || begun.values().flatten().filter(alike).count() < COMMANDS_MAX;
            let of_run = begun.entry(command.run).or_default();
            if may_begin && !of_run.iter().any(|one| excludes(one, command)) {
                of_run.push(command.clone());
                let node = state.run(command.run).map_or("", |run| run.node_word());
                let room = rooms.entry(node.to_owned());
                let room = room.or_insert_with(|| Arc::new(Semaphore::new(RESPONSES_MAX)));
                let room = Arc::clone(room);
                let (man, state, command) = (man.clone(), Arc::clone(&state), command.clone());
                at_work.spawn(async move {
                    let how = carry_out(&man, &state, &command, &room).await;
                    let (how, output) = match how {
                        Ok(end) => act::read_end(&end),
                        Err(why) => (format!("not run: {why}"), String::new()),
                    };
                    let at_ms = clock.now_ms();
                    (command, CommandEnd { at_ms, how, output })
                });
            }
        }
        for command in begun.values().flatten().filter(|one| is_step(one)) {
            if !wanted.iter().any(|one| excludes(one, command)) {
                // Its supervisor ends it.
                remove(&folder(&home, &state, command));
            }
        }
        tokio::select! {
            Some(Ok((command, ran))) = at_work.join_next() => {
                let recorded = command.clone();
                let noted = ledger.note(true, move |state, _| {
                    acts::acted(state, &recorded, &ran)
                });
                // A folder whose end is not recorded is looked at by the next daemon.
                if noted.await.is_ok() {
                    remove(&folder(&home, &state, &command));
                    if let Some(of_run) = begun.get_mut(&command.run) {
                        of_run.retain(|one| *one != command);
                    }
                    begun.retain(|_, of_run| !of_run.is_empty());
                }
                states.mark_changed();
            },
            changed = states.changed() => if changed.is_err() {
                return;
            },
        }
    }
}

fn kind(command: &LocalCommand) -> std::mem::Discriminant<CommandOf> {
    std::mem::discriminant(&command.of)
}

fn is_step(command: &LocalCommand) -> bool {
    matches!(command.of, CommandOf::Step { .. })
}

/// Whether a command is not begun as long as another is at work: the same, or one of the same
/// rule for the same run.
fn excludes(at_work: &LocalCommand, command: &LocalCommand) -> bool {
    let is_alike = match (&at_work.of, &command.of) {
        (CommandOf::Rule { rule: one, .. }, CommandOf::Rule { rule: other, .. }) => one == other,
        (one, other) => one == other,
    };
    is_alike && at_work.run == command.run
}

/// Removes the folders of commands whose ends are recorded or not wanted any more: an earlier
/// daemon died before that.
async fn sweep(home: &Home, state: &State) {
    let wanted = state.unacted.iter();
    let wanted = wanted.flat_map(|id| acts::commands(state, *id));
    let wanted: BTreeSet<PathBuf> = wanted.map(|one| folder(home, state, &one)).collect();
    let Ok(entries) = fs::read_dir(home.acts()) else {
        return;
    };
    for path in entries.flatten().map(|entry| entry.path()) {
        if path.is_dir() && !wanted.contains(&path) {
            end_left(&path).await;
            remove(&path);
        }
    }
}

/// Ends a command that was begun and whose supervisor was killed, too: the next supervisor does.
async fn end_left(folder: &Path) {
    let is_left = folder.join(act::BEGUN).exists() && !folder.join(act::END).exists();
    let lock = fs::File::open(folder.join(act::LOCK));
    // A supervisor at work has the lock, and ends its command once the folder is removed.
    let is_alone = lock.is_ok_and(|lock| lock.try_lock().is_ok());
    if is_left
        && is_alone
        && let Ok(program) = nerokid()
    {
        let mut supervisor = Command::new(program);
        supervisor.arg("act").arg(folder).args(["0", "/", ":"]);
        // What cannot be ended now has no folder by which it could be found later.
        let _ = supervisor.stdin(Stdio::null()).status().await;
    }
}

/// What a command sees of its run.
fn variables(run: &Run, definition: &Definition) -> Vec<(String, String)> {
    let id = run.made.id;
    let variables = [
        ("NERO_RUN", id.to_string()),
        ("NERO_ID", id.experiment.to_string()),
        ("NERO_NAME", definition.name.clone()),
        ("NERO_COLLECTION", definition.collection().to_owned()),
        ("NERO_NODE", run.node_word().to_owned()),
        ("NERO_STATE", run.state_word().as_str().to_owned()),
        ("NERO_RESULTS", run.results().folder().to_owned()),
    ];
    variables
        .map(|(name, value)| (name.to_owned(), value))
        .into()
}

/// Has the command run, unless it was begun by an earlier daemon; returns its end, as its
/// supervisor leaves it.
async fn carry_out(
    man: &Man,
    state: &State,
    command: &LocalCommand,
    room: &Semaphore,
) -> io::Result<Vec<u8>> {
    // A response is of an end that the node knows, and its folder there decides.
    let is_here = !matches!(command.of, CommandOf::Response { .. });
    if is_here && is_of_before(&man.home, command)? {
        return Err(io::Error::other(
            "it was asked for before this home was restored",
        ));
    }
    let found = state.experiment(command.run.experiment);
    let Some((experiment, run)) = found.zip(state.run(command.run)) else {
        return Err(io::Error::other("the experiment was removed"));
    };
    let definition = &experiment.definition;
    let mut env = variables(run, definition);
    let (limit_s, line) = match &command.of {
        CommandOf::Rule {
            command,
            text,
            values,
            ..
        } => {
            env.push(("NERO_RULE".to_owned(), text.clone()));
            env.push(("NERO_VALUE".to_owned(), values.clone()));
            (act::LIMIT_S, command.clone())
        }
        CommandOf::Step { step, .. } => {
            let (more, line) = step::line(man, run, *step).await?;
            env.extend(more);
            (0, line)
        }
        CommandOf::Response {
            incarnation,
            command,
        } => return response::end(man, run, (*incarnation, command), room).await,
    };
    let present = acts::commands(&man.ledger.state(), command.run);
    if is_step(command) && !present.iter().any(|one| excludes(one, command)) {
        return Err(io::Error::other("its run is over"));
    }
    // After a power cut the record of what asked for it would be gone, and its folder be removed.
    let durable = man.ledger.durable().await;
    durable.map_err(|failure| io::Error::other(failure.to_string()))?;
    let folder = folder(&man.home, state, command);
    paths::make_private(&folder)?;
    let program = nerokid().map_err(io::Error::other)?;
    let mut supervisor = Command::new(program);
    supervisor
        .arg("act")
        .arg(&folder)
        .arg(limit_s.to_string())
        .arg(&*definition.folder)
        .arg(&line)
        .envs(env);
    supervise(supervisor, &folder, is_step(command)).await
}

/// Waits for the supervisor of a command, and for another one if the first left no end.
async fn supervise(mut supervisor: Command, folder: &Path, is_step: bool) -> io::Result<Vec<u8>> {
    supervisor
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    let mut is_second = false;
    loop {
        supervisor.spawn()?.wait().await?;
        match fs::read(folder.join(act::END)) {
            Err(_) if is_step && !folder.try_exists().unwrap_or(true) => {
                return Ok(b"ended: its run is over\n".to_vec());
            }
            // The next one finds out whether the command was begun.
            Err(_) if !is_second => is_second = true,
            end => return end,
        }
    }
}
