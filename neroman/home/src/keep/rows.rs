//! The rows of the databases.

use std::collections::HashMap;

use nero_store::{Advance, At, Point, RunFold, RunKey, Sample};
use serde::{Deserialize, Serialize};

use super::batch::RunFolded;
use nero_life::cells::CellRecord;
use nero_life::change::{ExperimentRecord, NewRun};
use nero_life::experiment::{Origin, PersonalMarks, Stamp};
use nero_life::fold::Position;
use nero_life::now::Tick;
use nero_life::row::DispatchRow;
use nero_life::run::Run;

/// The stored data of an experiment besides its definition.
#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub(super) struct KeptExperiment {
    pub(super) extra_rules: Vec<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) modified: Option<Tick>,
    #[serde(skip_serializing_if = "PersonalMarks::is_empty")]
    pub(super) by_hand: PersonalMarks,
}

/// The stored data of a source besides its columns.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct KeptSource {
    pub(super) source: nero_format::Source,
    pub(super) stamp: Stamp,
    #[serde(default)]
    pub(super) companion: Stamp,
    #[serde(default)]
    pub(super) written: Stamp,
}

/// The stored form of what neroman did about a run.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct KeptDispatch {
    #[serde(rename = "desk")]
    pub(super) dispatch: DispatchRow,
    pub(super) rules: Vec<u64>,
}

pub(super) fn json(value: &impl Serialize) -> Vec<u8> {
    serde_json::to_vec(value).expect("what is kept has text keys and finite numbers only")
}

pub(super) fn source_row(origin: &Origin) -> nero_store::Source {
    nero_store::Source {
        id: nero_store::SourceId(origin.id),
        path: origin.source.path.display().to_string(),
        kept: json(&KeptSource {
            source: origin.source.clone(),
            stamp: origin.stamp,
            companion: origin.companion,
            written: origin.written,
        }),
    }
}

pub(super) fn experiment_row(described: &ExperimentRecord) -> nero_store::Experiment {
    nero_store::Experiment {
        id: described.id,
        definition: serde_json::to_string(&*described.definition)
            .expect("a definition has text keys and finite numbers only"),
        fingerprint: described.fingerprint.to_string(),
        source: Some(nero_store::SourceId(described.source)),
        created_ms: described.created_ms,
        modified_ms: described.modified_ms,
        hidden_ms: described.hidden_ms,
        gone: described.gone,
        kept: json(&KeptExperiment {
            extra_rules: described.extra_rules.to_vec(),
            modified: described.modified.clone(),
            by_hand: (*described.by_hand).clone(),
        }),
    }
}

pub(super) fn cell_row(record: &CellRecord) -> nero_store::CellRow {
    nero_store::CellRow {
        experiment: record.experiment,
        heading: record.heading.to_string(),
        part: record.cell.part,
        content: json(&record.cell),
    }
}

pub(super) fn run_row(new: &NewRun) -> nero_store::Run {
    nero_store::Run {
        key: RunKey(0),
        id: new.made.id,
        token: new.made.token,
        made: json(&*new.made),
    }
}

/// Bytes of a hash in hexadecimal.
pub fn unhex(text: &str) -> Option<[u8; 32]> {
    let mut bytes = [0; 32];
    if text.len() != 64 || !text.is_ascii() {
        return None;
    }
    for (index, byte) in bytes.iter_mut().enumerate() {
        *byte = u8::from_str_radix(&text[2 * index..2 * index + 2], 16).ok()?;
    }
    Some(bytes)
}

pub(super) fn dispatch(run: &Run) -> Vec<u8> {
    json(&KeptDispatch {
        dispatch: DispatchRow::of(run),
        rules: run.rules.to_vec(),
    })
}

pub(super) fn run_fold(key: RunKey, folded: &RunFolded) -> RunFold {
    let mut names: Vec<String> = Vec::new();
    let mut index: HashMap<&str, u32> = HashMap::new();
    let points = folded
        .taken
        .points
        .iter()
        .map(|point| {
            let place = *index.entry(&point.name).or_insert_with(|| {
                names.push(point.name.clone());
                (names.len() - 1) as u32
            });
            let point = Point {
                step: point.step,
                time_ms: point.at_ms,
                value: point.value,
                generation: point.generation,
            };
            (place, point)
        })
        .collect();
    let at = |position: &Position| At {
        offset: position.offset,
        chain: position.chain,
    };
    RunFold {
        run: key,
        advances: folded
            .series
            .iter()
            .map(|(segment, (incarnation, from, to))| Advance {
                incarnation: *incarnation,
                segment: *segment,
                from: at(from),
                to: at(to),
            })
            .collect(),
        names,
        points,
        samples: folded
            .taken
            .samples
            .iter()
            .map(|measured| {
                let sample = &measured.sample;
                Sample {
                    time_ms: measured.at_ms,
                    incarnation: measured.incarnation,
                    cpu_cores: sample.cpu_cores,
                    cpu_ms: sample.cpu_ms,
                    rss_bytes: sample.rss_bytes,
                    peak_rss_bytes: sample.peak_rss_bytes,
                    read_bytes: sample.read_bytes,
                    written_bytes: sample.written_bytes,
                    processes: sample.processes,
                    threads: sample.threads,
                    stdout_bytes: sample.stdout_bytes,
                    stderr_bytes: sample.stderr_bytes,
                    silent_ms: sample.silent_ms,
                }
            })
            .collect(),
    }
}
