//! Checkpoints for a run that goes on from an earlier one: those in the earlier
//! run's folder if both go to the same node, else those that came home.

use std::path::PathBuf;

use nero_model::RunId;
use nero_model::ids::hex;
use nero_wire::v1;

use super::Settings;
use crate::snapshot::{self, SnapshotError};
use nero_home::failure::Failure;
use nero_home::keep::unhex;
use nero_home::ledger::{LatePolicy, Ledger};
use nero_home::spec::run_ref;
use nero_life::input::Input;
use nero_life::run::{Results, Run};
use nero_life::state::State;
use nero_life::{clean, needs};

/// Whether a run's checkpoints allow it to be sent.
pub(super) enum CheckpointState {
    Ready,
    /// The checkpoints are not here yet, with the reason.
    Wait(String),
    /// The checkpoints will never be here, with the reason.
    Never(String),
}

/// Puts the checkpoints of the earlier run into the spec.
pub(super) async fn carry(
    settings: &Settings,
    ledger: &Ledger,
    state: &State,
    run: &Run,
    spec: &mut v1::RunSpec,
) -> Result<CheckpointState, Failure> {
    let Some(number) = run.made.resume else {
        return Ok(CheckpointState::Ready);
    };
    let id = RunId {
        number,
        ..run.made.id
    };
    let Some(earlier) = state.run(id) else {
        return Ok(CheckpointState::Never(format!("there is no run {id}")));
    };
    if clean::lies_there(earlier) && earlier.node() == Some(&settings.name) {
        spec.resume = Some(run_ref(earlier));
        return Ok(CheckpointState::Ready);
    }
    if needs::of(earlier).results {
        let node = earlier.node_word();
        let why = format!("the checkpoints of {id} are on their way from {node}");
        return Ok(CheckpointState::Wait(why));
    }
    let known = run.overlay().map(str::to_owned);
    let overlay = match known {
        Some(overlay) => overlay,
        None => {
            let frozen = match freeze(settings, earlier, spec).await {
                Ok(frozen) => frozen,
                Err(held) => return Ok(held),
            };
            if let (None, Results::Failed { why, .. }) = (&frozen, earlier.results()) {
                return Ok(CheckpointState::Never(format!(
                    "the checkpoints of {id} did not come home: {why} (start it without --resume)"
                )));
            }
            let overlay = frozen.map_or_else(String::new, |hash| hex(&hash));
            remember(ledger, run.made.id, overlay.clone()).await?;
            overlay
        }
    };
    spec.overlay = unhex(&overlay).map_or_else(Vec::new, |hash| hash.to_vec());
    Ok(CheckpointState::Ready)
}

/// Freezes the earlier run's checkpoints that came home. A failure ends or
/// delays this run alone.
async fn freeze(
    settings: &Settings,
    earlier: &Run,
    spec: &v1::RunSpec,
) -> Result<Option<[u8; 32]>, CheckpointState> {
    let folder = PathBuf::from(earlier.results().folder());
    if folder.as_os_str().is_empty() {
        return Ok(None);
    }
    let moved = format!(
        "the results of {} are no longer in {} (start it without --resume)",
        earlier.made.id,
        folder.display()
    );
    let came = matches!(earlier.results(), Results::Done { .. });
    let (globs, store) = (spec.checkpoint.clone(), settings.store.clone());
    let frozen = tokio::task::spawn_blocking(move || {
        if folder.is_dir() {
            snapshot::gather(&folder, &globs, &store).map(Some)
        } else {
            Ok::<_, SnapshotError>(None)
        }
    });
    let why = |error: &(dyn std::error::Error + 'static)| {
        let failure = Failure::failed("the checkpoints that came home cannot be frozen");
        failure.caused_by(error).to_string()
    };
    match frozen.await {
        Ok(Ok(Some(frozen))) => Ok(frozen),
        Ok(Ok(None)) if came => Err(CheckpointState::Never(moved)),
        Ok(Ok(None)) => Ok(None),
        // For example, our own store has no room.
        Ok(Err(error @ SnapshotError::Store { .. })) => Err(CheckpointState::Wait(why(&error))),
        Ok(Err(error)) => Err(CheckpointState::Never(why(&error))),
        Err(error) => Err(CheckpointState::Never(why(&error))),
    }
}

async fn remember(ledger: &Ledger, id: RunId, overlay: String) -> Result<(), Failure> {
    let checkpoints = Input::Checkpoints { overlay };
    let inputs = vec![(id, checkpoints)];
    ledger.happened(false, inputs, LatePolicy::Never).await
}
