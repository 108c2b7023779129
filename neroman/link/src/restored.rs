//! What the nodes of a home that was restored from a backup tell, and the runs that go on after it.

use std::path::Path;

use nero_config::Config;
use nero_life::change::Change;
use nero_life::restored::{self, OnNode};
use nero_life::taken_over;
use nero_model::RunToken;
use nero_wire::v1;
use nero_wire::v1::mum_client::MumClient;
use tonic::transport::Channel;

use nero_home::adopt;
use nero_home::failure::Failure;
use nero_home::ledger::Ledger;

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
            let mut changes = restored::reconcile(state, &name, &there, is_whole);
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
