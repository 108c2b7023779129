//! A home that was restored from a backup: what its start changes, and what its nodes tell.

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use nero_config::{Config, LOCAL};
use nero_life::change::Change;
use nero_life::restored::{self, OnNode, RestoreState};
use nero_life::state::State;
use nero_life::taken_over;
use nero_model::{Home, RunToken};
use nero_wire::v1;
use nero_wire::v1::mum_client::MumClient;
use serde::{Deserialize, Serialize};
use tonic::transport::Channel;

use crate::adopt;
use crate::clock::Clock;
use crate::failure::Failure;
use crate::keep::Keep;
use crate::ledger::Ledger;

/// What a backup tells of itself; lies in it as `backup.json`.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct BackupNote {
    /// Counts up with changes that an older build cannot restore.
    pub format: u32,
    pub made_ms: i64,
    pub host: String,
    /// `/etc/machine-id`; empty where there is none.
    pub machine: String,
    /// The root of the node `local`.
    pub local_root: PathBuf,
    pub version: String,
}

impl BackupNote {
    /// The note of a backup that is made now.
    pub(crate) fn new(home: &Home, now_ms: i64) -> Self {
        let name = rustix::system::uname();
        let machine = fs::read_to_string("/etc/machine-id").unwrap_or_default();
        Self {
            format: 1,
            made_ms: now_ms,
            host: name.nodename().to_string_lossy().into_owned(),
            machine: machine.trim().to_owned(),
            local_root: home.local_root.clone(),
            version: nero_model::VERSION.to_owned(),
        }
    }
}

/// Begins to hold back what waited, where `backup --restore` just made this home. Blocks.
///
/// # Errors
/// When its note cannot be read, or nothing was written: nothing may be started then.
pub(crate) fn begin(home: &Home, keep: &mut Keep, state: State) -> io::Result<State> {
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
    crate::acts::restored(home, Clock::system().now_ms())?;
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

/// Learns which runs a node has, before its reports are believed: it may have runs that were
/// made after the backup, and runs that wait here.
///
/// # Errors
/// When the node does not list its runs.
pub(crate) async fn learn(
    node: &str,
    store: &Path,
    ledger: &Ledger,
    mut client: MumClient<Channel>,
) -> Result<(), Failure> {
    let failed = |status| Failure::node_does("does not list its runs").status(&status);
    let listed = client.runs(v1::RunsRequest {}).await.map_err(failed)?;
    let mut folders = listed.into_inner();
    let mut specs = Vec::new();
    let mut is_whole = true;
    while let Some(folder) = folders.message().await.map_err(failed)? {
        match folder.spec {
            Some(spec) if folder.problem.is_empty() => specs.push(spec),
            Some(_) | None => {
                // It may be a run that waits here.
                is_whole = false;
                let (folder, why) = (folder.folder, folder.problem);
                tracing::warn!(node, folder, why, "a run there cannot be read");
            }
        }
    }
    let there: Vec<OnNode> = specs
        .iter()
        .filter_map(|spec| {
            Some(OnNode {
                token: RunToken::from_slice(&spec.token)?,
                generation: spec.generation,
            })
        })
        .collect();
    // Beside the store.
    let folder = store.with_file_name(taken_over::FOLDER);
    let name = node.to_owned();
    ledger
        .note(true, move |state, now_ms| {
            let mut changes = restored::told(state, &name, &there, is_whole);
            let adopted = adopt::adopt(state, &name, &folder, specs.clone(), now_ms);
            for note in adopted.notes {
                tracing::warn!(node = name, note, "a run that is not taken over");
            }
            changes.extend(adopted.changes);
            changes
        })
        .await?;
    tracing::info!(node, "the node told which runs it has");
    Ok(())
}

/// Lets runs go on whose nodes have all told what they know.
///
/// # Errors
/// When that cannot be written.
pub(crate) async fn release(ledger: &Ledger, config: &Config) -> Result<(), Failure> {
    let state = ledger.state();
    let nodes = |config: &Config, word: &str| match config.resolve(word) {
        Ok(target) => target.nodes().to_vec(),
        Err(_) => vec![word.to_owned()],
    };
    let is_over = restored::waiting(&state).is_empty() && state.restored.nodes.is_empty();
    let is_due = !restored::release(&state, |word| nodes(config, word)).is_empty();
    let is_known = |node: &String| config.nodes.contains_key(node);
    if !is_over && !is_due && state.restored.nodes.iter().all(is_known) {
        return Ok(());
    }
    let config = config.clone();
    ledger
        .note(true, move |state, _| {
            let mut changes = restored::release(state, |word| nodes(&config, word));
            let all = state.restored.nodes.iter();
            let mut unknown = all.filter(|node| !config.nodes.contains_key(*node));
            // The others at the next looks.
            changes.extend(
                unknown
                    .next()
                    .and_then(|node| restored::never_tells(state, node)),
            );
            let is_over = restored::waiting(state).is_empty() && state.restored.nodes.is_empty();
            if is_over {
                changes.push(Change::Restored(std::sync::Arc::default()));
            }
            changes
        })
        .await
        .map(drop)
}
