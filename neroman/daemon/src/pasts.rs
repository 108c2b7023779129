//! Reads the points that expressions ask for: `mean(loss, 10m)`, `loss@10`.

use std::collections::HashMap;
use std::sync::Arc;

use nero_expr::PastPoint;
use nero_life::pasts::Pasts;
use nero_life::run::Run;
use nero_life::state::State;
use nero_model::{Home, RunId};
use nero_store::{Point, RunKey, SeriesReader, StoreError};

use crate::blocking::blocking;
use crate::processing::series;
use nero_home::failure::Failure;
use nero_home::ledger::Ledger;

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
        let Some(run) = state.run(id) else {
            continue;
        };
        if let Some(key) = keys.get(&id) {
            for (series, points) in reader.read_some(*key, |series| pasts.has(id, &series.name))? {
                add(&mut pasts, run, &series.name, points);
            }
        }
        let mut made = run.processed().into_iter().flat_map(|made| &made.metrics);
        if !made.any(|(name, _)| pasts.has(id, name)) {
            continue;
        }
        match series::made_of_outputs(home, run) {
            Ok(made) => {
                for (name, points) in made {
                    add(&mut pasts, run, &name, points);
                }
            }
            // These series stay without points, as others without any do.
            Err(error) => tracing::warn!(run = %id, %error, "cannot read series made of outputs"),
        }
    }
    Ok(pasts)
}

/// Adds the points of a series, as far as they are wanted.
fn add(pasts: &mut Pasts, run: &Run, series: &str, points: Vec<Point>) {
    for point in points {
        let past = PastPoint {
            value: point.value,
            step: point.step,
            generation: point.generation,
            at_ms: 0,
        };
        pasts.add(run, series, past, point.time_ms);
    }
}
