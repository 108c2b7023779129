//! What the processors of an experiment made of a run's outputs.

use nero_model::RunId;

pub use crate::facts::processed::ProcessedOutputs;
use crate::fold::change::{Change, dispatch_changed};
use crate::fold::state::State;

/// Records what was made of a run's outputs, unless these have changed since.
pub fn record(state: &State, run: RunId, processed: &ProcessedOutputs) -> Option<Change> {
    let run = state.run(run)?;
    let version = run.processed().map_or(0, |made| made.version);
    if version != processed.version {
        return None;
    }
    dispatch_changed(run, |dispatch| {
        dispatch.processed = Some(Box::new(processed.clone()));
    })
}

/// Has it made anew for a run that is folded anew.
pub fn outdate(state: &State, run: RunId) -> Option<Change> {
    let run = state.run(run)?;
    let is_made = !run.made.processing.is_empty();
    dispatch_changed(run, |dispatch| dispatch.outdate_processed(is_made))
}

/// Records names of pictures as ours before the pictures are among the results: a crash in
/// between leaves no picture that looks like a person's own.
pub fn claim(state: &State, run: RunId, names: &[String]) -> Option<Change> {
    dispatch_changed(state.run(run)?, |dispatch| {
        let made = dispatch.processed.get_or_insert_with(|| {
            Box::new(ProcessedOutputs {
                stale: true,
                ..ProcessedOutputs::default()
            })
        });
        let new = names.iter().filter(|name| !made.pictures.contains(name));
        let new: Vec<String> = new.cloned().collect();
        made.pictures.extend(new);
    })
}
