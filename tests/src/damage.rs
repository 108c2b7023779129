//! Damage to stored files, from a seed: a home with runs in every position is killed, and one of
//! its files is changed (a flipped bit, a cut, zeros, a deletion, a swap with another run's, an
//! older database) or its folder is closed to everybody. Then everything is started again. Each run
//! shows the same as without the damage, or the changed file is named to the user; and no job has
//! run a second time.

mod change;
mod look;
mod stage;

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use change::{Change, FilePurpose};
use look::Seen;
use stage::Stage;

use crate::chaos::random::Random;

/// Settings.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// Seed of everything random.
    pub seed: u64,
    /// No new case begins after this time.
    pub duration: Duration,
}

/// Result.
#[derive(Debug)]
pub struct Outcome {
    /// The table of cases: kind of file against verdict.
    pub table: String,
    /// Broken promises; empty when all were kept.
    pub broken: Vec<String>,
    /// The folder with the home and its pristine copy, when a promise was broken.
    pub kept: Option<PathBuf>,
}

/// Verdict of one case.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Verdict {
    /// The same as without the damage.
    Same,
    /// Something differs, and the changed file is named.
    Named,
    /// Something differs, and nothing names the file.
    Silent,
    /// A job ran more often than without the damage.
    RanAgain,
    /// A program panicked.
    Panicked,
}

impl Verdict {
    fn is_broken(self) -> bool {
        match self {
            Self::Same | Self::Named => false,
            Self::Silent | Self::RanAgain | Self::Panicked => true,
        }
    }

    fn text(self) -> &'static str {
        match self {
            Self::Same => "same",
            Self::Named => "named",
            Self::Silent => "SILENT",
            Self::RanAgain => "RAN AGAIN",
            Self::Panicked => "PANICKED",
        }
    }
}

/// Damages files until the time is over.
///
/// # Errors
/// When the home cannot be made, or differs from the expected state even without damage.
pub fn run(options: Options) -> std::io::Result<Outcome> {
    let mut stage = Stage::make()?;
    let began = Instant::now();
    stage.restore()?;
    let truth = look::settled(&stage, None);
    if let Some(why) = truth.unfit() {
        let kept = Some(stage.keep());
        let broken = vec![format!("without any damage: {why}: {truth:#?}")];
        return Ok(Outcome {
            table: String::new(),
            broken,
            kept,
        });
    }
    let mut random = Random::new(options.seed);
    let mut counts: BTreeMap<(FilePurpose, Verdict), usize> = BTreeMap::new();
    let mut broken = Vec::new();
    let mut number = 0;
    while began.elapsed() < options.duration {
        number += 1;
        stage.restore()?;
        let Some(change) = Change::draw(&stage, &mut random) else {
            continue;
        };
        change.apply(&stage)?;
        let seen = look::settled(&stage, Some(&truth));
        let verdict = judge(&stage, &truth, &seen, &change);
        *counts.entry((change.kind(), verdict)).or_default() += 1;
        println!("{number:4} {:9} {change}", verdict.text());
        if verdict.is_broken() {
            let why = truth.differences(&seen).join("; ");
            broken.push(format!("{}: {change}: {why}", verdict.text()));
            stage.keep_case(number)?;
        }
    }
    let kept = (!broken.is_empty()).then(|| stage.keep());
    Ok(Outcome {
        table: table(&counts),
        broken,
        kept,
    })
}

fn judge(stage: &Stage, truth: &Seen, seen: &Seen, change: &Change) -> Verdict {
    if stage.panicked() {
        return Verdict::Panicked;
    }
    if truth.ran_again(seen) {
        return Verdict::RanAgain;
    }
    if truth.differences(seen).is_empty() {
        return Verdict::Same;
    }
    let named = change
        .names()
        .iter()
        .any(|name| seen.said.contains(name) && !truth.said.contains(name));
    if named {
        Verdict::Named
    } else {
        Verdict::Silent
    }
}

fn table(counts: &BTreeMap<(FilePurpose, Verdict), usize>) -> String {
    let mut rows: BTreeMap<FilePurpose, Vec<String>> = BTreeMap::new();
    for ((kind, verdict), count) in counts {
        let row = rows.entry(*kind).or_default();
        row.push(format!("{count} {}", verdict.text()));
    }
    rows.iter().fold(String::new(), |mut text, (kind, row)| {
        let _ = writeln!(text, "{:17} {}", kind.text(), row.join(", "));
        text
    })
}
