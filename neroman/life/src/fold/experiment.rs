//! One experiment: its definition as last read, and its runs.

use std::collections::BTreeSet;
use std::sync::{Arc, LazyLock};

use nero_format::{Definition, Override};
use nero_model::{ExperimentId, StateWord};
use serde::{Deserialize, Serialize};

use super::run::Run;
use super::taken_over;
use crate::facts::now::Tick;

/// One experiment.
#[derive(Clone, Debug)]
pub struct Experiment {
    pub id: ExperimentId,
    pub definition: Arc<Definition>,
    /// Digest of the definition.
    pub fingerprint: Arc<str>,
    /// All parameters as the job gets them, in one text.
    pub params_text: Arc<str>,
    /// Number of its source.
    pub source: u64,
    /// It is no longer in its source.
    pub gone: bool,
    /// Since when it is hidden by `rm`.
    pub hidden_ms: Option<i64>,
    pub created_ms: i64,
    pub modified_ms: i64,
    /// The same moment on our boot clock; none if an earlier build stored it.
    pub modified: Option<Tick>,
    /// Rules added by hand; later runs take them, too.
    pub extra_rules: Arc<[u64]>,
    pub by_hand: Arc<PersonalMarks>,
    /// All tags, separated by blanks.
    pub tags_text: Arc<str>,
    /// Oldest first; the index is the number less one.
    pub runs: Vec<Run>,
    /// Grows with every change of anything here; for `Watch`.
    pub revision: u64,
}

/// What a person typed about one experiment; its source does not contain it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct PersonalMarks {
    #[serde(skip_serializing_if = "String::is_empty")]
    pub note: String,
    /// In the order of the alphabet, each once.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub tags: Vec<String>,
    /// Values in place of the source's.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub overrides: Vec<Override>,
    /// The experiment that this one is a copy of: it follows its source.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub copy_of: Option<ExperimentId>,
}

impl PersonalMarks {
    /// Whether nothing was typed.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// These marks for an experiment to hold: where nothing was typed, all hold the same.
    pub fn held(self) -> Arc<Self> {
        static EMPTY: LazyLock<Arc<PersonalMarks>> = LazyLock::new(Arc::default);
        if self.is_empty() {
            Arc::clone(&EMPTY)
        } else {
            Arc::new(self)
        }
    }
}

impl Experiment {
    /// Its tags, in the order of the alphabet.
    pub fn tags(&self) -> impl Iterator<Item = &str> {
        self.tags_text.split_whitespace()
    }

    /// The newest run.
    pub fn newest(&self) -> Option<&Run> {
        self.runs.last()
    }

    /// The live runs, newest first: one, and beside it those that are still ending
    /// for its sake, or that were called lost and are not.
    pub fn live(&self) -> impl Iterator<Item = &Run> {
        self.runs.iter().rev().filter(|run| run.phase().is_live())
    }

    /// The run that determines the state: the newest live one, else the newest.
    pub fn current(&self) -> Option<&Run> {
        self.live().next().or(self.newest())
    }

    /// The run with this number.
    pub fn run(&self, number: u32) -> Option<&Run> {
        self.runs.get(usize::try_from(number).ok()?.checked_sub(1)?)
    }

    /// The newest run whose job was started: a new run may begin with its checkpoints.
    pub fn newest_started(&self) -> Option<&Run> {
        let mut runs = self.runs.iter().rev();
        runs.find(|run| run.started_ms().is_some())
    }

    /// Whether its source was read since and does not contain it any more.
    pub fn is_gone(&self) -> bool {
        self.gone && !taken_over::without_source(&self.definition)
    }

    /// Whether any of its runs has not ended.
    pub fn is_live(&self) -> bool {
        self.live().next().is_some()
    }

    /// The state as one word.
    pub fn state(&self) -> StateWord {
        match self.current() {
            None => StateWord::Defined,
            Some(run) => run.state_word(),
        }
    }

    /// Whether its definition is newer than its newest run, if known.
    pub fn changed(&self) -> bool {
        self.newest().is_some_and(|run| self.is_edited_since(run))
    }

    /// Whether its definition is newer than one of its runs, if known.
    pub fn is_edited_since(&self, run: &Run) -> bool {
        let made_from = &*run.made.fingerprint;
        !made_from.is_empty() && *made_from != *self.fingerprint
    }
}

/// One source of definitions.
#[derive(Clone, Debug, PartialEq)]
pub struct Origin {
    /// Its number in the database.
    pub id: u64,
    pub source: nero_format::Source,
    /// Modification time and size of its file when it was read.
    pub stamp: Stamp,
    /// The same of the YAML file beside a table.
    pub companion: Stamp,
    /// The table as neronet wrote it last: whether its owner saved since.
    pub written: Stamp,
}

/// A cheap fingerprint of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, serde::Serialize, serde::Deserialize)]
pub struct Stamp {
    pub modified_ns: i64,
    pub size: u64,
    pub inode: u64,
}

/// All parameters as the job gets them: what follows the program.
pub fn params_text(definition: &Definition) -> Arc<str> {
    definition
        .argv
        .get(1..)
        .unwrap_or_default()
        .join(" ")
        .into()
}

/// All tags of an experiment in one text: those of its source and those typed.
pub fn tags_text(definition: &Definition, by_hand: &PersonalMarks) -> Arc<str> {
    let all = [&definition.tags, &by_hand.tags].into_iter().flatten();
    let all: BTreeSet<&str> = all.map(String::as_str).collect();
    let text = all.into_iter().collect::<Vec<_>>().join(" ");
    // All empty ones are one.
    if text.is_empty() {
        Arc::default()
    } else {
        text.into()
    }
}
