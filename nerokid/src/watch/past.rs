//! The points of the run so far, read again from its journal for a rule that asks for
//! the past of a series.

use std::collections::HashMap;
use std::io;
use std::rc::Rc;

use nero_expr::{PastPoint, SeriesPast};
use nero_journal::v1::Metrics;

use crate::folder::life::Life;
use crate::folder::place::WatchedStart;
use crate::folder::segments;

/// Bits of a point's generation that count within its start of the job.
const GENERATION_BITS: u32 = 16;

/// Fills the pasts of these series with all points of the journal.
///
/// # Errors
/// When a segment cannot be read.
pub(super) fn read(
    place: &WatchedStart,
    life: &Life,
    mut pasts: HashMap<Rc<str>, SeriesPast>,
) -> io::Result<HashMap<Rc<str>, SeriesPast>> {
    for incarnation in 1..=place.incarnation {
        let is_earlier = incarnation < place.incarnation;
        let folder = place.run.join(incarnation.to_string());
        if is_earlier && !folder.is_dir() {
            continue;
        }
        for path in segments::list(&folder, "watch-")? {
            let mut names: Vec<String> = Vec::new();
            segments::for_each_of(&path, |header, record| {
                let Some(metrics) = record.message::<Metrics>() else {
                    return;
                };
                names.extend(metrics.names);
                for (at, (series, value)) in metrics.series.iter().zip(&metrics.values).enumerate()
                {
                    let past = names.get(*series as usize);
                    let past = past.and_then(|name| pasts.get_mut(name.as_str()));
                    let Some(past) = past else { continue };
                    let within = metrics.generation.get(at).copied().unwrap_or(0);
                    let since_ms = metrics.mono_ms.get(at).copied().unwrap_or(0);
                    let mono_ms = header.mono_ns / 1_000_000 + since_ms;
                    let point = PastPoint {
                        value: *value,
                        step: metrics.steps.get(at).copied().unwrap_or(f64::NAN),
                        generation: if is_earlier {
                            (incarnation << GENERATION_BITS) | within
                        } else {
                            within
                        },
                        // The clock of an earlier start may be that of another boot.
                        at_ms: if is_earlier {
                            0
                        } else {
                            life.ran_ms_at(mono_ms)
                        },
                    };
                    if is_earlier {
                        past.add_of_earlier_start(&point)
                    } else {
                        past.add(&point)
                    }
                }
            })?;
        }
    }
    Ok(pasts)
}
