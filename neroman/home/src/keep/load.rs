//! Decodes the rows of the databases, at the start.

use std::sync::Arc;

use nero_format::Definition;
use nero_store::StoreError;

use super::rows::{KeptDispatch, KeptExperiment};
use nero_life::change::ExperimentRecord;
use nero_life::notices::{Delivery, Notice, PostChange};
use nero_life::run::{Run, RunRecord};

/// Why the stored data cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum LoadError {
    /// The database returned an error.
    #[error("the database cannot be used")]
    Store(#[from] StoreError),
    /// A row contains data that this build cannot read.
    #[error("{what} in the database cannot be read")]
    Content {
        what: String,
        #[source]
        source: serde_json::Error,
    },
}

impl LoadError {
    /// The step that a person can take.
    pub fn hint(&self) -> Option<String> {
        match self {
            Self::Store(error) => error.hint(),
            Self::Content { .. } => {
                Some("a newer neroman wrote it: use that one again; nothing was changed".to_owned())
            }
        }
    }
}

pub(super) fn read<T: serde::de::DeserializeOwned>(
    bytes: &[u8],
    what: impl FnOnce() -> String,
) -> Result<T, LoadError> {
    serde_json::from_slice(bytes).map_err(|source| LoadError::Content {
        what: what(),
        source,
    })
}

/// `before` is the experiment before it: parts that are equal are held once.
pub(super) fn described(
    row: &nero_store::Experiment,
    before: Option<&ExperimentRecord>,
) -> Result<ExperimentRecord, LoadError> {
    let what = || format!("experiment {}", row.id);
    let mut definition: Definition = read(row.definition.as_bytes(), what)?;
    let kept: KeptExperiment = read(&row.kept, what)?;
    let (mut extra_rules, mut by_hand) = (kept.extra_rules.into(), kept.by_hand.held());
    if let Some(before) = before {
        definition.share(&before.definition);
        share(&mut extra_rules, &before.extra_rules);
        share(&mut by_hand, &before.by_hand);
    }
    Ok(ExperimentRecord {
        id: row.id,
        definition: Arc::new(definition),
        fingerprint: row.fingerprint.as_str().into(),
        source: row.source.map_or(0, |source| source.0),
        gone: row.gone,
        hidden_ms: row.hidden_ms,
        created_ms: row.created_ms,
        modified_ms: row.modified_ms,
        modified: kept.modified,
        extra_rules,
        by_hand,
    })
}

fn share<T: PartialEq + ?Sized>(one: &mut Arc<T>, other: &Arc<T>) {
    if one == other {
        *one = Arc::clone(other);
    }
}

/// `before` is the run before it, as in [`described`].
pub(super) fn stored_run(row: &nero_store::RunRow, before: Option<&Run>) -> Result<Run, LoadError> {
    let what = || format!("run {}", row.run.id);
    let mut made: RunRecord = read(&row.run.made, what)?;
    let kept: KeptDispatch = read(&row.dispatch, what)?;
    if let Some(before) = before {
        made.share(&before.made);
    }
    let journal = if row.facts.is_empty() {
        Arc::default()
    } else {
        Arc::new(read(&row.facts, what)?)
    };
    Ok(kept.dispatch.run(made, journal, kept.rules.into()))
}

/// Notices and deliveries, as a change of an empty state.
pub(super) fn post(
    notices: &[(u64, Vec<u8>)],
    deliveries: &[(u64, Vec<u8>)],
) -> Result<PostChange, LoadError> {
    let mut post = PostChange::default();
    for (id, content) in notices {
        let notice: Notice = read(content, || format!("notice {id}"))?;
        post.notices.push(Arc::new(Notice { id: *id, ..notice }));
    }
    for (id, content) in deliveries {
        let delivery: Delivery = read(content, || format!("delivery {id}"))?;
        post.deliveries.push(Arc::new(Delivery {
            id: *id,
            ..delivery
        }));
    }
    Ok(post)
}

/// Decodes rows on every processor: a start with 100 000 runs must be short.
pub(super) fn in_parallel<R: Sync, T: Send>(
    rows: &[R],
    turn: impl Fn(&R, Option<&T>) -> Result<T, LoadError> + Sync,
) -> Result<Vec<T>, LoadError> {
    /// Fewer are not worth a thread.
    const ROWS_LEAST: usize = 1000;
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let part = rows.len().div_ceil(threads).max(ROWS_LEAST);
    let turn = &turn;
    let parts: Vec<Result<Vec<T>, LoadError>> = std::thread::scope(|scope| {
        let working: Vec<_> = rows
            .chunks(part)
            .map(|rows| {
                scope.spawn(move || {
                    let mut done = Vec::with_capacity(rows.len());
                    for row in rows {
                        let one = turn(row, done.last())?;
                        done.push(one);
                    }
                    Ok(done)
                })
            })
            .collect();
        working
            .into_iter()
            .map(|thread| {
                thread
                    .join()
                    .unwrap_or_else(|panic| std::panic::resume_unwind(panic))
            })
            .collect()
    });
    let mut all = Vec::with_capacity(rows.len());
    for part in parts {
        all.extend(part?);
    }
    Ok(all)
}
