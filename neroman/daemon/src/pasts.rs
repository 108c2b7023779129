//! Reads the points that expressions ask for: `mean(loss, 10m)`, `loss@10`.

use std::collections::HashMap;
use std::sync::Arc;

use nero_expr::PastPoint;
use nero_life::pasts::Pasts;
use nero_life::state::State;
use nero_model::{Home, RunId};
use nero_store::{RunKey, SeriesReader, StoreError};

use crate::failure::Failure;
use crate::ledger::Ledger;
use crate::service::blocking;

/// Fills `wanted` with the points that are stored.
///
/// # Errors
/// When the database cannot be read.
pub(crate) async fn read(
    ledger: &Ledger,
    home: &Home,
    state: &Arc<State>,
    wanted: Pasts,
) -> Result<Arc<Pasts>, Failure> {
    if wanted.is_empty() {
        return Ok(Arc::new(wanted));
    }
    let keys = ledger.keys(wanted.runs().collect()).await?;
    ledger.durable().await?;
    let (home, state) = (home.clone(), Arc::clone(state));
    blocking(move || {
        let keys: HashMap<RunId, RunKey> = keys.into_iter().collect();
        fill(&home, &state, wanted, &keys).map(Arc::new)
    })
    .await?
    .map_err(|error| Failure::failed(format!("cannot read the points of metrics: {error}")))
}

fn fill(
    home: &Home,
    state: &State,
    mut pasts: Pasts,
    keys: &HashMap<RunId, RunKey>,
) -> Result<Pasts, StoreError> {
    let reader = SeriesReader::open(home)?;
    let runs: Vec<RunId> = pasts.runs().collect();
    for id in runs {
        let (Some(run), Some(key)) = (state.run(id), keys.get(&id)) else {
            continue;
        };
        for (series, points) in reader.read_those(*key, |name| pasts.has(id, name))? {
            for point in points {
                let past = PastPoint {
                    value: point.value,
                    step: point.step,
                    generation: point.generation,
                    at_ms: 0,
                };
                pasts.add(run, &series.name, past, point.time_ms);
            }
        }
    }
    Ok(pasts)
}
